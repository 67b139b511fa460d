//! Where separate debug files are, and whether one belongs to a binary.

use std::fs::{self, File};
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use object::LittleEndian as Le;
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, SectionHeader as _};

use super::{Header, build_id_of};
use crate::limits::{BUILD_ID_BYTES_MIN, DEBUG_LINK_BYTES_MAX, FILE_BYTES_MAX};
use crate::regular;

/// The binary whose separate file is looked for.
pub(crate) struct Wanted<'a> {
    pub(crate) path: &'a Path,
    pub(crate) build_id: Option<&'a [u8]>,
    pub(crate) link: Option<Link>,
    pub(crate) roots: &'a [PathBuf],
}

/// What `.gnu_debuglink` has.
pub(crate) struct Link {
    name: String,
    crc: u32,
}

impl Link {
    /// Of a binary's bytes.
    pub(crate) fn of(data: &[u8]) -> Option<Link> {
        let table = Header::parse(data).ok()?.sections(Le, data).ok()?;
        let (_, section) = table.section_by_name(Le, b".gnu_debuglink")?;
        let bytes = section.data(Le, data).ok().filter(|bytes| bytes.len() <= DEBUG_LINK_BYTES_MAX)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let name = str::from_utf8(&bytes[..end]).ok()?;
        // It names a file of a folder, not a path.
        let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
        let crc = bytes.get((end + 1).next_multiple_of(4)..)?.get(..4)?;
        let crc = u32::from_le_bytes(crc.try_into().ok()?);
        is_name.then(|| Link { name: name.to_owned(), crc })
    }
}

impl Wanted<'_> {
    /// The files that belong to the binary, those with its build id first.
    pub(super) fn files(&self) -> impl Iterator<Item = ReadCache<File>> {
        let build_id = self.build_id.filter(|build_id| build_id.len() >= BUILD_ID_BYTES_MIN);
        let by_id = self.roots.iter().filter_map(move |root| {
            let build_id = build_id?;
            let file = ReadCache::new(regular::open(&path_of(build_id, root)).ok()?);
            let header = Header::parse(&file).ok()?;
            let is_it = build_id_of(header.section_headers(Le, &file).ok()?, &file)? == build_id;
            is_it.then_some(file)
        });
        let by_link = self.link.iter().flat_map(|link| {
            let of_link = |path: PathBuf| {
                let file = regular::open(&path).ok()?;
                has_crc(&file, link.crc).then(|| ReadCache::new(file))
            };
            self.folders().into_iter().filter_map(move |folder| of_link(folder.join(&link.name)))
        });
        by_id.chain(by_link)
    }

    /// Those that a link's file is looked for in.
    fn folders(&self) -> Vec<PathBuf> {
        let of_root = self.roots.iter().find(|root| root.parent().is_some() && self.path.starts_with(root));
        let path = match of_root {
            Some(_) => self.path.to_path_buf(),
            None => fs::canonicalize(self.path).unwrap_or_else(|_| self.path.to_path_buf()),
        };
        let Some(beside) = path.parent().filter(|_| !self.roots.is_empty()) else { return Vec::new() };
        let root = of_root.map_or(Path::new("/"), PathBuf::as_path);
        let within = beside.strip_prefix(root).unwrap_or(beside);
        let of_packages = self.roots.iter().map(|root| root.join("usr/lib/debug").join(within));
        [beside.to_path_buf(), beside.join(".debug")].into_iter().chain(of_packages).collect()
    }
}

fn path_of(build_id: &[u8], root: &Path) -> PathBuf {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = build_id.split_at(1);
    root.join("usr/lib/debug/.build-id").join(hex(first)).join(format!("{}.debug", hex(rest)))
}

/// Whether the whole of a file has this CRC; it is rewound.
fn has_crc(mut file: &File, wanted: u32) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    if metadata.len() > FILE_BYTES_MAX || regular::is_sparse(&metadata) {
        return false;
    }
    let mut crc = !0;
    let mut reader = BufReader::new(file.take(metadata.len()));
    let mut bytes = vec![0; 1 << 16];
    loop {
        match reader.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => crc = bytes[..read].iter().fold(crc, |crc, byte| crc_with(crc, *byte)),
            Err(_) => return false,
        }
    }
    !crc == wanted && file.rewind().is_ok()
}

/// The CRC-32 of zlib and Ethernet, lowest bit first.
fn crc_with(crc: u32, byte: u8) -> u32 {
    TABLE[usize::from((crc as u8) ^ byte)] ^ (crc >> 8)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_the_usual_one() {
        let crc = |text: &str| !text.bytes().fold(!0, crc_with);
        assert_eq!(crc("123456789"), 0xcbf4_3926);
        assert_eq!(crc(""), 0);
    }
}
