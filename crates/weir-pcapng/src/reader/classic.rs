//! Classic pcap: a file header of 24 bytes, then records, each a packet after a head of 16.
//!
//! Source: draft-ietf-opsawg-pcap and pcap-savefile(5).
//!
//! | magic | |
//! |---|---|
//! | a1b2c3d4 | times in microseconds |
//! | a1b23c4d | times in nanoseconds |
//! | a1b2cd34 | "modified": microseconds, and 8 more bytes in the head of a record, which are skipped |
//!
//! - Versions 2.0 to 2.4. Before 2.4, some writers had both lengths of a record the other way round: the smaller is what was captured.
//! - The field of the link type has it in its lower 16 bits; bit 26 says that bits 28 to 31 are words of a frame check sequence.

use std::io::Read;

use crate::clock::Resolution;
use crate::error::{Error, ErrorKind};
use crate::interface::{Interface, InterfaceId};
use crate::order::Order;
use crate::reader::{Format, PacketStep, Part, Reader, Step};

const FILE_HEAD: usize = 24;

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// What else people try to read, by its first four bytes.
const OTHERS: [(&[u8], &str); 9] = [
    (b"\x1f\x8b", "it is compressed by gzip: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd: decompress it first"),
    (b"\x04\x22\x4d\x18", "it is compressed by lz4: decompress it first"),
    (b"\xfd7zX", "it is compressed by xz: decompress it first"),
    (b"BZh", "it is compressed by bzip2: decompress it first"),
    (b"snoo", "it is a file of snoop: convert it by editcap"),
    (b"\xac\x01\x00\x1c", "it is a file of IXIA hardware: convert it by editcap"),
    (b"\xab\x01\x00\x1c", "it is a file of IXIA software: convert it by editcap"),
    (b"\n\r\n", "it was transferred as text, which damaged it: transfer it as binary"),
];

const HAS_FCS: u32 = 1 << 26;
const FCS_SHIFT: u32 = 28;
const LINK_TYPE_RESERVED: u32 = 0x0bff_0000;

/// How the records of a file are read.
#[derive(Clone, Copy)]
pub(super) struct Classic {
    is_nanoseconds: bool,
    head: usize,
    may_be_swapped: bool,
    /// The event of the only interface was given.
    is_described: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the file's header; four bytes of it are there.
    pub(super) fn begin_classic(&mut self) -> Result<(), Error> {
        let unsupported = |at, reason: String| Err(Error::new(ErrorKind::Unsupported, at, reason));
        let magic = self.window.bytes();
        let known = [Order::Little, Order::Big].into_iter().find_map(|order| match order.u32(magic, 0) {
            MAGIC_US => Some((order, Format::Classic, Resolution::MICROSECONDS)),
            MAGIC_NS => Some((order, Format::Classic, Resolution::NANOSECONDS)),
            MAGIC_MODIFIED => Some((order, Format::Modified, Resolution::MICROSECONDS)),
            _ => None,
        });
        let Some((order, format, resolution)) = known else {
            let magic = &magic[..4];
            let other = OTHERS.iter().find(|(begin, _)| magic.starts_with(begin));
            let is = other.map_or("pcapng and classic pcap are read", |(_, is)| is);
            return unsupported(0, format!("no capture file: it begins with {magic:02x?}; {is}"));
        };
        let have = self.window.available(FILE_HEAD).map_err(|error| Error::io(0, error))?;
        if have < FILE_HEAD {
            let reason = format!("the file ends after {have} bytes of a header of {FILE_HEAD}");
            return Err(Error::new(ErrorKind::Truncated, 0, reason));
        }
        let head = self.window.bytes();
        let (major, minor) = (order.u16(head, 4), order.u16(head, 6));
        if major != 2 || minor > 4 {
            return unsupported(4, format!("version {major}.{minor} of classic pcap: 2.0 to 2.4 are read"));
        }
        let link = order.u32(head, 20);
        if link & LINK_TYPE_RESERVED != 0 {
            let reason = format!("the field of the link type is {link:#x}, with bits set that must be 0");
            return Err(Error::new(ErrorKind::Malformed, 20, reason));
        }
        let fcs_words = (link & HAS_FCS != 0).then_some((link >> FCS_SHIFT) as u8);
        let interface = Interface {
            resolution,
            fcs_bits: fcs_words.map(|words| words * 16),
            ..Interface::new(link as u16, order.u32(head, 16))
        };
        self.add_interface(interface);
        self.window.take(FILE_HEAD);
        self.format = format;
        self.order = order;
        self.classic = Some(Classic {
            is_nanoseconds: resolution == Resolution::NANOSECONDS,
            head: if format == Format::Modified { 24 } else { 16 },
            may_be_swapped: minor < 4,
            is_described: false,
        });
        Ok(())
    }

    /// The next record.
    #[inline]
    pub(super) fn record(&mut self, classic: Classic) -> Result<Option<Step>, Error> {
        let offset = self.window.offset();
        if !classic.is_described {
            self.classic = Some(Classic { is_described: true, ..classic });
            return Ok(Some(Step::Interface(InterfaceId(0))));
        }
        let order = self.order;
        let have = self.window.available(classic.head).map_err(|error| Error::io(offset, error))?;
        if have < classic.head {
            return if have == 0 { Ok(None) } else { Err(truncated(offset, have, classic.head)) };
        }
        let head = self.window.bytes();
        let (s, part) = (u64::from(order.u32(head, 0)), u64::from(order.u32(head, 4)));
        let (mut captured, mut wire_len) = (order.u32(head, 8), order.u32(head, 12));
        if classic.may_be_swapped && captured > wire_len {
            (captured, wire_len) = (wire_len, captured);
        }
        let len = classic.head as u64 + u64::from(captured);
        if len > u64::from(self.limits.block_bytes) {
            let limit = self.limits.block_bytes;
            let reason = format!(
                "a record has {captured} bytes of a packet; with its head, {limit} is the limit (block_bytes)"
            );
            return Err(Error::new(ErrorKind::Limit, offset, reason));
        }
        let len = len as usize;
        let have = self.window.available(len).map_err(|error| Error::io(offset, error))?;
        if have < len {
            return Err(truncated(offset, have, len));
        }
        let at = self.window.take(len);
        let ns = if classic.is_nanoseconds { part } else { part * 1_000 };
        Ok(Some(Step::Packet(PacketStep {
            interface: InterfaceId(0),
            time: Some(s * 1_000_000_000 + ns),
            wire_len,
            bytes: Part { at: at + classic.head, len: captured as usize },
            options: Part { at, len: 0 },
            drops: None,
            offset,
        })))
    }
}

#[cold]
fn truncated(offset: u64, have: usize, want: usize) -> Error {
    Error::new(
        ErrorKind::Truncated,
        offset,
        format!("the file ends after {have} of the {want} bytes of a record"),
    )
}
