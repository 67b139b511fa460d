//! pcapng: the next block, and what it is.
//!
//! Checked of every block: its length is a multiple of 4, within the limit, the same at both ends, and enough for its type. Options lie in
//! their block and have a length that they may have. Packets and statistics are of an interface that was described before. Readers are
//! asked to be lenient elsewhere: paddings, reserved bits, repeated options, a missing end of options and the length of a section say nothing.

use std::io::Read;

use crate::codes::{self, BYTE_ORDER, Row, block, padded};
use crate::error::{Error, ErrorKind};
use crate::interface::InterfaceId;
use crate::order::Order;
use crate::reader::fields::{self, Options, Wrong};
use crate::reader::{PacketStep, Part, Reader, Step, described};
use crate::section::Section;

/// Type and both lengths.
const FRAME: usize = 12;
/// Bytes after the body.
const TAIL: usize = 4;

/// A block in the window.
#[derive(Clone, Copy)]
struct Block {
    kind: u32,
    offset: u64,
    at: usize,
    len: usize,
}

impl Block {
    fn malformed(self, at: usize, reason: impl Into<String>) -> Error {
        Error::new(ErrorKind::Malformed, self.offset + at as u64, reason)
    }

    /// Where it needs at least so many bytes.
    #[inline]
    fn at_least(self, bytes: usize) -> Result<(), Error> {
        if self.len < bytes { Err(self.too_short(bytes)) } else { Ok(()) }
    }

    #[cold]
    fn too_short(self, bytes: usize) -> Error {
        let reason =
            format!("a block of type {:#x} has {} bytes; it has at least {bytes}", self.kind, self.len);
        self.malformed(4, reason)
    }

    /// The part from one of its bytes on to its tail.
    fn from(self, from: usize) -> Part {
        Part { at: self.at + from, len: self.len - TAIL - from }
    }
}

impl<R: Read> Reader<R> {
    /// The next block that means something.
    #[inline]
    pub(super) fn block(&mut self) -> Result<Option<Step>, Error> {
        loop {
            let Some(block) = self.framed()? else { return Ok(None) };
            if self.is_skipping && block.kind != block::SECTION {
                continue;
            }
            // Apart from the others, and with all that it calls inlined: otherwise what was read of it is copied through
            // memory three times, which takes half of the time of a small packet.
            if block.kind == block::ENHANCED {
                return Ok(Some(self.enhanced(block)?));
            }
            return match block.kind {
                block::SECTION => self.section(block),
                block::INTERFACE => self.interface(block),
                block::SIMPLE => self.simple(block),
                block::PACKET => self.obsolete(block),
                block::STATISTICS => self.counted(block),
                block::NAMES => self.names(block),
                block::SECRETS => self.secrets(block),
                block::CUSTOM | block::CUSTOM_NOT_COPIED => self.custom(block),
                kind => Ok(Step::Other { kind, bytes: block.from(8) }),
            }
            .map(Some);
        }
    }

    /// A whole block, whose lengths are right.
    #[inline(always)]
    fn framed(&mut self) -> Result<Option<Block>, Error> {
        let offset = self.window.offset();
        let have = self.window.available(FRAME).map_err(|error| Error::io(offset, error))?;
        if have < FRAME {
            return if have == 0 { Ok(None) } else { Err(truncated(offset, have, FRAME)) };
        }
        let head = self.window.bytes();
        if Order::Little.u32(head, 0) == block::SECTION {
            self.order = [Order::Little, Order::Big]
                .into_iter()
                .find(|order| order.u32(head, 8) == BYTE_ORDER)
                .ok_or_else(|| no_byte_order(offset, head))?;
        }
        let (kind, length) = (self.order.u32(head, 0), self.order.u32(head, 4));
        if !length.is_multiple_of(4) || length < FRAME as u32 || length > self.limits.block_bytes {
            return Err(wrong_length(offset, kind, length, self.limits.block_bytes));
        }
        let len = length as usize;
        let have = self.window.available(len).map_err(|error| Error::io(offset, error))?;
        if have < len {
            return Err(truncated(offset, have, len));
        }
        let again = self.order.u32(self.window.bytes(), len - TAIL);
        if again != length {
            return Err(two_lengths(offset, kind, length, again));
        }
        Ok(Some(Block { kind, offset, at: self.window.take(len), len }))
    }

    #[inline]
    fn bytes(&self, block: Block) -> &[u8] {
        self.window.at(block.at, block.len)
    }

    /// The options in a part of a block, without their end.
    #[inline]
    fn options(&self, block: Block, part: Part, rows: &[Row]) -> Result<Part, Error> {
        if part.len == 0 {
            return Ok(part);
        }
        let end = fields::check(self.window.at(part.at, part.len), self.order, rows);
        let len = end.map_err(|wrong| self.wrong(block, part, wrong))?;
        Ok(Part { at: part.at, len })
    }

    #[cold]
    fn wrong(&self, block: Block, part: Part, (at, reason): Wrong) -> Error {
        let reason = format!("in a block of type {:#x}: {reason}", block.kind);
        block.malformed(part.at - block.at + at, reason)
    }

    fn checked(&self, part: Part) -> Options<'_> {
        Options::checked(self.window.at(part.at, part.len), self.order)
    }

    fn section(&mut self, block: Block) -> Result<Step, Error> {
        block.at_least(28)?;
        let (bytes, order) = (self.bytes(block), self.order);
        let (major, minor) = (order.u16(bytes, 12), order.u16(bytes, 14));
        let length = order.u64(bytes, 16) as i64;
        self.interfaces.clear();
        self.clocks.clear();
        self.interface_bytes = 0;
        self.is_skipping = major != 1 || !matches!(minor, 0 | 2);
        if self.is_skipping {
            self.section = Section::default();
            return Ok(Step::UnknownVersion { major, minor });
        }
        if length < -1 || length % 4 != 0 && length != -1 {
            let reason =
                format!("the section has a length of {length}: -1 (not known) or a multiple of 4 is one");
            return Err(block.malformed(16, reason));
        }
        let options = self.options(block, block.from(24), codes::section::ROWS)?;
        self.section = described::section(self.checked(options));
        Ok(Step::Section)
    }

    fn interface(&mut self, block: Block) -> Result<Step, Error> {
        block.at_least(20)?;
        let limit = |name: &str, limit: u64| {
            let reason = format!("the section describes more interfaces than the limit ({name}) of {limit}");
            Err(Error::new(ErrorKind::Limit, block.offset, reason))
        };
        self.interface_bytes += block.len as u64;
        if self.interfaces.len() >= self.limits.interfaces as usize {
            return limit("interfaces", self.limits.interfaces.into());
        }
        if self.interface_bytes > self.limits.interface_bytes {
            return limit("interface_bytes", self.limits.interface_bytes);
        }
        let (bytes, order) = (self.bytes(block), self.order);
        let (link_type, snaplen) = (order.u16(bytes, 8), order.u32(bytes, 12));
        let options = self.options(block, block.from(16), codes::interface::ROWS)?;
        let interface = described::interface(link_type, snaplen, self.checked(options), order)
            .map_err(|reason| Error::new(ErrorKind::Unsupported, block.offset, reason))?;
        Ok(Step::Interface(self.add_interface(interface)))
    }

    #[inline(always)]
    fn enhanced(&self, block: Block) -> Result<Step, Error> {
        block.at_least(32)?;
        let interface = self.order.u32(self.bytes(block), 8);
        self.packet(block, interface, None)
    }

    fn obsolete(&self, block: Block) -> Result<Step, Error> {
        block.at_least(32)?;
        let bytes = self.bytes(block);
        let (interface, drops) = (self.order.u16(bytes, 8), self.order.u16(bytes, 10));
        let drops = (drops != u16::MAX).then_some(drops.into());
        self.packet(block, interface.into(), drops)
    }

    /// What enhanced and obsolete packet blocks have alike, which is all from the time on.
    #[inline(always)]
    fn packet(&self, block: Block, interface: u32, drops: Option<u64>) -> Result<Step, Error> {
        let (bytes, order) = (self.bytes(block), self.order);
        let Some(clock) = self.clocks.get(interface as usize) else {
            return Err(self.no_interface(block, interface));
        };
        let (captured, wire_len) = (order.u32(bytes, 20), order.u32(bytes, 24));
        let room = block.len - 28 - TAIL;
        if captured as usize > room {
            return Err(too_much(block, 20, captured, room));
        }
        let captured = captured as usize;
        let options = self.options(block, block.from(28 + padded(captured)), codes::packet::ROWS)?;
        Ok(Step::Packet(PacketStep {
            interface: InterfaceId(interface),
            time: clock.nanoseconds(order.ticks(bytes, 12)),
            wire_len,
            bytes: Part { at: block.at + 28, len: captured },
            options,
            drops,
            offset: block.offset,
        }))
    }

    fn simple(&self, block: Block) -> Result<Step, Error> {
        block.at_least(16)?;
        let Some(interface) = self.interfaces.first() else { return Err(self.no_interface(block, 0)) };
        let wire_len = self.order.u32(self.bytes(block), 8);
        let captured = if interface.snaplen == 0 { wire_len } else { wire_len.min(interface.snaplen) };
        let room = block.len - 12 - TAIL;
        if captured as usize > room {
            return Err(too_much(block, 8, captured, room));
        }
        Ok(Step::Packet(PacketStep {
            interface: InterfaceId(0),
            time: None,
            wire_len,
            bytes: Part { at: block.at + 12, len: captured as usize },
            options: Part { at: block.at, len: 0 },
            drops: None,
            offset: block.offset,
        }))
    }

    fn counted(&mut self, block: Block) -> Result<Step, Error> {
        block.at_least(24)?;
        let (bytes, order) = (self.bytes(block), self.order);
        let interface = order.u32(bytes, 8);
        let Some(clock) = self.clocks.get(interface as usize) else {
            return Err(self.no_interface(block, interface));
        };
        let ticks = order.ticks(bytes, 12);
        let options = self.options(block, block.from(20), codes::statistics::ROWS)?;
        self.statistics = described::statistics(ticks, self.checked(options), order, *clock);
        Ok(Step::Statistics(InterfaceId(interface)))
    }

    fn names(&self, block: Block) -> Result<Step, Error> {
        block.at_least(16)?;
        let part = block.from(8);
        let end = fields::check_names(self.window.at(part.at, part.len), self.order);
        let end = end.map_err(|wrong| self.wrong(block, part, wrong))?;
        // Behind the record that ends them.
        let options = self.options(block, block.from(8 + end + 4), codes::names::ROWS)?;
        Ok(Step::Names { records: Part { at: part.at, len: end }, options })
    }

    fn secrets(&self, block: Block) -> Result<Step, Error> {
        block.at_least(20)?;
        let bytes = self.bytes(block);
        let (kind, length) = (self.order.u32(bytes, 8), self.order.u32(bytes, 12));
        let room = block.len - 16 - TAIL;
        if length as usize > room {
            return Err(too_much(block, 12, length, room));
        }
        self.options(block, block.from(16 + padded(length as usize)), &[])?;
        Ok(Step::Secrets { kind, bytes: Part { at: block.at + 16, len: length as usize } })
    }

    fn custom(&self, block: Block) -> Result<Step, Error> {
        block.at_least(16)?;
        let enterprise = self.order.u32(self.bytes(block), 8);
        let is_copied = block.kind == block::CUSTOM;
        Ok(Step::Custom { enterprise, is_copied, bytes: block.from(12) })
    }

    #[cold]
    fn no_interface(&self, block: Block, interface: u32) -> Error {
        let described = self.interfaces.len();
        let reason = format!(
            "a block of type {:#x} is of interface {interface}, but its section has described {described} before it",
            block.kind
        );
        block.malformed(8, reason)
    }
}

#[cold]
fn truncated(offset: u64, have: usize, want: usize) -> Error {
    let reason = format!("the file ends after {have} of the {want} bytes of a block");
    Error::new(ErrorKind::Truncated, offset, reason)
}

#[cold]
fn no_byte_order(offset: u64, head: &[u8]) -> Error {
    let reason =
        format!("a section begins with {:02x?} in place of its byte-order magic, 1a2b3c4d", &head[8..12]);
    Error::new(ErrorKind::Malformed, offset + 8, reason)
}

#[cold]
fn wrong_length(offset: u64, kind: u32, length: u32, limit: u32) -> Error {
    let reason = |why: String| format!("a block of type {kind:#x} has {length} bytes, {why}");
    if length > limit && length.is_multiple_of(4) {
        let reason = reason(format!("more than the limit (block_bytes) of {limit}"));
        return Error::new(ErrorKind::Limit, offset + 4, reason);
    }
    let why =
        if length < FRAME as u32 { "less than its type and lengths" } else { "which is no multiple of 4" };
    Error::new(ErrorKind::Malformed, offset + 4, reason(why.to_owned()))
}

#[cold]
fn two_lengths(offset: u64, kind: u32, length: u32, again: u32) -> Error {
    let reason = format!("a block of type {kind:#x} has {length} bytes by its head and {again} by its end");
    Error::new(ErrorKind::Malformed, offset + u64::from(length) - TAIL as u64, reason)
}

#[cold]
fn too_much(block: Block, at: usize, length: u32, room: usize) -> Error {
    let reason =
        format!("a block of type {:#x} claims {length} bytes of data, but has room for {room}", block.kind);
    block.malformed(at, reason)
}
