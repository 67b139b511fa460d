//! Blocks: their lengths, their fixed fields, and in which order they come.

use super::options::{INTERFACE, NAMES, PACKET, SECRETS, SECTION, STATISTICS};
use super::{Checker, Section, padded};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Longer ones are refused by the readers that there are.
const LONGEST: usize = 16 << 20;

/// A block, from its type to its second length.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Block {
    /// Where its body ends.
    pub(super) fn tail(self) -> usize {
        self.end - 4
    }
}

impl Checker<'_> {
    pub(super) fn file(&mut self) {
        let mut at = 0;
        if self.file.is_empty() {
            self.says(0, "the file is empty");
        }
        while at < self.file.len() {
            let Some(block) = self.framed(at) else { return };
            self.block(block);
            at = block.end;
        }
        self.end_section(at);
    }

    /// A block whose lengths are right; none where the next one cannot be found.
    fn framed(&mut self, at: usize) -> Option<Block> {
        let left = self.file.len() - at;
        if left < 12 {
            self.says(at, format!("{left} bytes are left for a block, which has at least 12"));
            return None;
        }
        // The same in both byte orders.
        if self.u32(at) == SECTION_HEADER {
            let magic = &self.file[at + 8..at + 12];
            match magic {
                [0x1a, 0x2b, 0x3c, 0x4d] => self.is_big = true,
                [0x4d, 0x3c, 0x2b, 0x1a] => self.is_big = false,
                _ => {
                    self.says(at + 8, "no byte-order magic");
                    return None;
                }
            }
        } else if at == 0 {
            self.says(0, "the file does not begin with a section header");
            return None;
        }
        let length = self.u32(at + 4) as usize;
        if length < 12 || !length.is_multiple_of(4) || length > LONGEST {
            self.says(at + 4, format!("a block of {length} bytes: 12 to {LONGEST}, a multiple of 4"));
            return None;
        }
        if length > left {
            self.says(at + 4, format!("a block of {length} bytes, of which the file has {left}"));
            return None;
        }
        let again = self.u32(at + length - 4) as usize;
        if again != length {
            self.says(
                at + length - 4,
                format!("a block has {length} bytes by its head and {again} by its end"),
            );
        }
        Some(Block { at, end: at + length })
    }

    fn block(&mut self, block: Block) {
        let kind = self.u32(block.at);
        let least = match kind {
            SECTION_HEADER => 28,
            1 => 20,
            3 => 16,
            4 => 16,
            5 => 24,
            6 => 32,
            0x0a => 20,
            0x0bad | 0x4000_0bad => 16,
            _ => 12,
        };
        if block.end - block.at < least {
            self.says(block.at + 4, format!("a block of type {kind:#x} has at least {least} bytes"));
            return;
        }
        match kind {
            SECTION_HEADER => self.section_header(block),
            1 => self.interface(block),
            2 => self.says(block.at, "the packet block is obsolete"),
            3 => self.simple(block),
            4 => self.names(block),
            5 => self.statistics(block),
            6 => self.enhanced(block),
            0x0a => self.secrets(block),
            // What is in them only their makers know.
            0x0bad | 0x4000_0bad => {}
            9 => {}
            0x8000_0000.. => {}
            _ => self.says(block.at, format!("a block of unknown type {kind:#x}")),
        }
    }

    fn section_header(&mut self, block: Block) {
        self.end_section(block.at);
        let (major, minor) = (self.u16(block.at + 12), self.u16(block.at + 14));
        if major != 1 || !matches!(minor, 0 | 2) {
            self.says(block.at + 12, format!("version {major}.{minor}: 1.0 and 1.2 are"));
        }
        let length = self.u64(block.at + 16);
        if length != u64::MAX && !length.is_multiple_of(4) {
            self.says(block.at + 16, format!("a section of {length} bytes: no multiple of 4"));
        }
        self.options(block, block.at + 24, SECTION);
        let length = (length != u64::MAX).then_some(length);
        self.section = Some(Section { begin: block.end, length, ..Section::default() });
    }

    fn end_section(&mut self, at: usize) {
        let Some(section) = &self.section else { return };
        let (begin, has) = (section.begin, (at - section.begin) as u64);
        if let Some(length) = section.length.filter(|length| *length != has) {
            self.says(begin, format!("a section claims {length} bytes and has {has}"));
        }
    }

    fn interface(&mut self, block: Block) {
        if self.u16(block.at + 10) != 0 {
            self.says(block.at + 10, "a reserved field is not 0");
        }
        let snaplen = self.u32(block.at + 12);
        self.options(block, block.at + 16, INTERFACE);
        if let Some(section) = &mut self.section {
            section.snaplens.push(snaplen);
        }
    }

    /// The snapshot length of an interface that was described.
    fn described(&mut self, at: usize, interface: u32) -> Option<u32> {
        let snaplens = self.section.as_ref().map_or(&[][..], |section| &section.snaplens);
        let (snaplen, described) = (snaplens.get(interface as usize).copied(), snaplens.len());
        if snaplen.is_none() {
            self.says(at, format!("interface {interface}, but {described} were described"));
        }
        snaplen
    }

    fn enhanced(&mut self, block: Block) {
        let interface = self.u32(block.at + 8);
        let snaplen = self.described(block.at + 8, interface);
        let (captured, original) = (self.u32(block.at + 20) as usize, self.u32(block.at + 24) as usize);
        if captured > original {
            self.says(block.at + 20, format!("{captured} bytes were captured of {original}"));
        }
        if let Some(snaplen) = snaplen.filter(|snaplen| *snaplen != 0 && captured > *snaplen as usize) {
            self.says(
                block.at + 20,
                format!("{captured} bytes were captured, and the snapshot length is {snaplen}"),
            );
        }
        let Some(options) = self.data(block, block.at + 28, captured) else { return };
        let queue = self.options(block, options, PACKET);
        let time = self.time(block.at + 12);
        let is_monotone = self.rules.is_monotone;
        let Some(section) = self.section.as_mut().filter(|_| is_monotone) else { return };
        let before = section.times.insert((interface, queue), time);
        if let Some(before) = before.filter(|before| *before > time) {
            self.says(block.at + 12, format!("the time goes back by {}", before - time));
        }
    }

    fn simple(&mut self, block: Block) {
        let original = self.u32(block.at + 8) as usize;
        let Some(snaplen) = self.described(block.at, 0) else { return };
        let captured = if snaplen == 0 { original } else { original.min(snaplen as usize) };
        if let Some(end) = self.data(block, block.at + 12, captured)
            && end != block.tail()
        {
            self.says(end, "a simple packet block has no options");
        }
    }

    /// Data and their fill; where they end.
    fn data(&mut self, block: Block, at: usize, length: usize) -> Option<usize> {
        let room = block.tail() - at;
        if padded(length) > room {
            self.says(at, format!("{length} bytes of data in a block with room for {room}"));
            return None;
        }
        self.fill(at + length, at + padded(length));
        Some(at + padded(length))
    }

    fn statistics(&mut self, block: Block) {
        let interface = self.u32(block.at + 8);
        self.described(block.at + 8, interface);
        self.options(block, block.at + 20, STATISTICS);
    }

    fn secrets(&mut self, block: Block) {
        let length = self.u32(block.at + 12) as usize;
        if let Some(options) = self.data(block, block.at + 16, length) {
            self.options(block, options, SECRETS);
        }
    }

    fn names(&mut self, block: Block) {
        let mut at = block.at + 8;
        loop {
            if block.tail() - at < 4 {
                self.says(at, "a block of names has no record that ends them");
                return;
            }
            let (kind, length) = (self.u16(at), usize::from(self.u16(at + 2)));
            if kind == 0 {
                if length != 0 {
                    self.says(at + 2, format!("the record that ends names has {length} bytes, not 0"));
                }
                at += 4;
                break;
            }
            let room = block.tail() - at - 4;
            if padded(length) > room {
                self.says(at + 2, format!("a record of names has {length} bytes, with room for {room}"));
                return;
            }
            self.record(kind, at + 4, at + 4 + length);
            self.fill(at + 4 + length, at + 4 + padded(length));
            at += 4 + padded(length);
        }
        self.options(block, at, NAMES);
    }

    fn record(&mut self, kind: u16, from: usize, to: usize) {
        let address = match kind {
            1 => 4,
            2 => 16,
            3 => 6,
            4 => 8,
            _ => return self.says(from - 4, format!("a record of names has the unknown type {kind}")),
        };
        if to - from < address + 2 || self.file[to - 1] != 0 {
            return self.says(from, "a record of names has no address and no name that ends with a NUL");
        }
        let mut at = from + address;
        while at < to {
            // SANITY: the last byte is one.
            let end = at + self.file[at..to].iter().position(|byte| *byte == 0).unwrap();
            if end == at {
                self.says(at, "a name is empty");
            }
            self.text(at, end, "a name");
            at = end + 1;
        }
    }
}
