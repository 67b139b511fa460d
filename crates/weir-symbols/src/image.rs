//! A file's memory as its loader makes it, at the addresses of linking: what descriptors in data can be read from before a program runs.
//!
//! In: a parsed file. Out: bytes at any address of its segments, with relocations done in those that are writable. Symbols of
//! other files are not there: their words are as the file has them.

use std::ops::Range;

use crate::Binary;
use crate::limits::IMAGE_BYTES_MAX;

/// The segments of a file, relocated.
#[derive(Debug)]
pub struct Image<'a> {
    /// What stands as in the file.
    fixed: Vec<(u64, &'a [u8])>,
    /// What is writable, relocated; then zeros.
    written: Vec<(u64, Vec<u8>)>,
}

impl<'a> Image<'a> {
    pub(crate) fn new(binary: &'a Binary, relocated: &[(u64, u64)]) -> Image<'a> {
        let mut image = Image { fixed: Vec::new(), written: Vec::new() };
        let mut left = IMAGE_BYTES_MAX;
        for segment in binary.segments() {
            let bytes = binary.bytes(segment.address, segment.file_bytes as usize).unwrap_or_default();
            if !segment.writable {
                image.fixed.push((segment.address.0, bytes));
                continue;
            }
            // A hostile header asks for more zeros than there is memory.
            let size = segment.memory_bytes.max(bytes.len() as u64).min(left);
            left -= size;
            let mut data = bytes[..bytes.len().min(size as usize)].to_vec();
            data.resize(size as usize, 0);
            image.written.push((segment.address.0, data));
        }
        for (place, target) in relocated {
            if let Some(word) = image.word_mut(*place) {
                word.copy_from_slice(&target.to_le_bytes());
            }
        }
        image
    }

    fn word_mut(&mut self, place: u64) -> Option<&mut [u8]> {
        self.written.iter_mut().find_map(|(start, data)| {
            let at = usize::try_from(place.checked_sub(*start)?).ok()?;
            data.get_mut(at..at.checked_add(8)?)
        })
    }

    /// Fills `to` with the bytes at `address`, if all are in one segment.
    pub fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let written = self.written.iter().map(|(start, data)| (*start, &data[..]));
        let found = self.fixed.iter().copied().chain(written).find_map(|(start, data)| {
            let at = usize::try_from(address.checked_sub(start)?).ok()?;
            data.get(at..at.checked_add(to.len())?)
        });
        found.map(|bytes| to.copy_from_slice(bytes)).is_some()
    }

    /// The addresses of what is writable.
    pub fn writable(&self) -> Vec<Range<u64>> {
        self.written.iter().map(|(start, data)| *start..start + data.len() as u64).collect()
    }
}
