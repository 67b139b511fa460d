//! ld.so.cache, in the format that glibc writes since 2.2 (sysdeps/generic/dl-cache.h, `struct cache_file_new`).
//!
//! In: the file's bytes. Out: the x86-64 entries in the order of the file. Its fields, little-endian:
//! - `glibc-ld.so.cache1.1` (20 bytes), number of entries u32, bytes of strings u32, flags u8, 3 unused bytes,
//!   extension offset u32, 12 unused bytes: 48 in all;
//! - entries of 24 bytes: flags u32, offsets of name and path u32, an unused u32, hardware capabilities u64. Offsets
//!   count from the `g` of the magic.
//!
//! Older glibc put the format of libc5 (`ld.so-1.7.0`, entries of 12 bytes) before it; that part is skipped.
//! Entries of other machines are left out, broken ones too.

use crate::limits::NAME_BYTES_MAX;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
const OLD_HEADER_BYTES: usize = 16;
const OLD_ENTRY_BYTES: usize = 12;
/// FLAG_ELF_LIBC6 | FLAG_X8664_LIB64.
const FLAGS_X86_64: u32 = 0x0303;

/// One library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry<'a> {
    /// As programs ask for it, such as `libc.so.6`.
    pub(super) name: &'a str,
    pub(super) path: &'a str,
}

/// The entries of a cache; none if it is not one.
pub(super) fn entries(data: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let cache = new_format(data).unwrap_or_default();
    let count = word(cache, 20).unwrap_or(0) as usize;
    let entries = cache.get(HEADER_BYTES..).unwrap_or_default();
    entries.chunks_exact(ENTRY_BYTES).take(count).filter_map(move |entry| {
        if word(entry, 0)? != FLAGS_X86_64 {
            return None;
        }
        Some(Entry { name: string(cache, word(entry, 4)?)?, path: string(cache, word(entry, 8)?)? })
    })
}

fn new_format(data: &[u8]) -> Option<&[u8]> {
    if data.starts_with(MAGIC) {
        return Some(data);
    }
    if !data.starts_with(OLD_MAGIC) {
        return None;
    }
    let old_entries = word(data, OLD_HEADER_BYTES - 4)? as usize;
    // The new part is aligned like its u64 fields.
    let at = (OLD_HEADER_BYTES + old_entries.checked_mul(OLD_ENTRY_BYTES)?).next_multiple_of(8);
    data.get(at..).filter(|rest| rest.starts_with(MAGIC))
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn string(cache: &[u8], at: u32) -> Option<&str> {
    let rest = cache.get(at as usize..)?;
    let rest = &rest[..rest.len().min(NAME_BYTES_MAX)];
    let end = rest.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}
