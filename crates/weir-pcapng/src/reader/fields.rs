//! Options and names of blocks, read where they lie.
//!
//! [`check`] and [`check_names`] hold them against the format once, when the block is read; what walks them afterwards cannot fail.
//! Texts end at a NUL, and what is no UTF-8 in them is replaced.

use std::borrow::Cow;

use crate::codes::{self, Row, padded, record};
use crate::flags::PacketFlags;
use crate::names::Address;
use crate::order::{Order, array};
use crate::packet::{Hash, HashAlgorithm, ProcessThread, Verdict};

/// What is wrong, and at which of the bytes that were given.
pub(super) type Wrong = (usize, String);

/// Options that were checked, without their end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    bytes: &'a [u8],
    order: Order,
}

/// Finds the end of a list of options, each of which has a length that `rows` allow.
#[inline]
pub(super) fn check(bytes: &[u8], order: Order, rows: &[Row]) -> Result<usize, Wrong> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.len() < 4 {
            return Err((at, format!("{} bytes are left for an option, whose head has 4", rest.len())));
        }
        let (code, length) = (order.u16(rest, 0), usize::from(order.u16(rest, 2)));
        if code == codes::END {
            return Ok(at);
        }
        if padded(length) > rest.len() - 4 {
            let left = rest.len() - 4;
            return Err((
                at,
                format!("option {code} has {length} bytes, but its block ends {left} bytes after its head"),
            ));
        }
        let row = rows.iter().chain(codes::ANY).find(|row| row.0 == code);
        if let Some((_, name, allowed)) = row.filter(|row| !row.2.allows(length)) {
            return Err((
                at,
                format!("option {code} ({name}) has {length} bytes; it has {}", in_words(*allowed)),
            ));
        }
        at += 4 + padded(length);
    }
    Ok(at)
}

fn in_words(length: codes::Length) -> String {
    match length {
        codes::Length::Exactly(bytes) => format!("{bytes}"),
        codes::Length::AtLeast(bytes) => format!("{bytes} or more"),
    }
}

impl<'a> Options<'a> {
    /// `bytes` end where [`check`] says.
    pub(super) fn checked(bytes: &'a [u8], order: Order) -> Options<'a> {
        Options { bytes, order }
    }

    /// Code and value of each.
    pub(super) fn iter(self) -> OptionIter<'a> {
        OptionIter(self)
    }

    fn first(self, code: u16) -> Option<&'a [u8]> {
        self.iter().find(|option| option.0 == code).map(|option| option.1)
    }
}

#[derive(Clone, Debug)]
pub(super) struct OptionIter<'a>(Options<'a>);

impl<'a> Iterator for OptionIter<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let Options { bytes, order } = self.0;
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let length = usize::from(order.u16(head, 2));
        let (value, rest) = rest.split_at_checked(padded(length))?;
        self.0.bytes = rest;
        Some((order.u16(head, 0), &value[..length]))
    }
}

/// A text: up to a NUL, which no writer should have put there.
pub(super) fn text(value: &[u8]) -> Cow<'_, str> {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end])
}

/// What a file says of a packet beside its bytes. Each question walks the options, of which there are few.
#[derive(Clone, Copy, Debug)]
pub struct PacketFields<'a> {
    options: Options<'a>,
    /// Of an obsolete packet block, which has it in its head.
    drops: Option<u64>,
}

impl<'a> PacketFields<'a> {
    #[inline]
    pub(super) fn new(options: Options<'a>, drops: Option<u64>) -> PacketFields<'a> {
        PacketFields { options, drops }
    }

    /// Whether there is nothing.
    pub fn is_empty(self) -> bool {
        self.options.bytes.is_empty() && self.drops.is_none()
    }

    /// Direction and more.
    pub fn flags(self) -> Option<PacketFlags> {
        let value = self.options.first(codes::packet::FLAGS)?;
        Some(PacketFlags::from_bits(self.options.order.u32(value, 0)))
    }

    /// Hashes of the packet.
    pub fn hashes(self) -> Hashes<'a> {
        Hashes(self.options.iter())
    }

    /// Packets that were lost between this one and the one before it at the same interface.
    pub fn drop_count(self) -> Option<u64> {
        self.u64(codes::packet::DROP_COUNT).or(self.drops)
    }

    /// The same for one packet at several interfaces.
    pub fn packet_id(self) -> Option<u64> {
        self.u64(codes::packet::PACKET_ID)
    }

    /// The queue of the interface.
    pub fn queue(self) -> Option<u32> {
        self.options.first(codes::packet::QUEUE).map(|value| self.options.order.u32(value, 0))
    }

    /// What was decided about the packet.
    pub fn verdicts(self) -> Verdicts<'a> {
        Verdicts(self.options.iter())
    }

    /// Who sent it.
    pub fn process_thread(self) -> Option<ProcessThread> {
        let (value, order) = (self.options.first(codes::packet::PROCESS_THREAD)?, self.options.order);
        Some(ProcessThread { process: order.u32(value, 0), thread: order.u32(value, 4) })
    }

    /// What a human says of it.
    pub fn comments(self) -> Comments<'a> {
        Comments(self.options.iter())
    }

    fn u64(self, code: u16) -> Option<u64> {
        self.options.first(code).map(|value| self.options.order.u64(value, 0))
    }
}

/// The hashes of a packet.
#[derive(Clone, Debug)]
pub struct Hashes<'a>(OptionIter<'a>);

impl<'a> Iterator for Hashes<'a> {
    type Item = Hash<'a>;

    fn next(&mut self) -> Option<Hash<'a>> {
        let (_, value) = self.0.find(|option| option.0 == codes::packet::HASH)?;
        let (algorithm, bytes) = value.split_first()?;
        Some(Hash { algorithm: HashAlgorithm::from_byte(*algorithm), bytes })
    }
}

/// The verdicts on a packet.
#[derive(Clone, Debug)]
pub struct Verdicts<'a>(OptionIter<'a>);

impl<'a> Iterator for Verdicts<'a> {
    type Item = Verdict<'a>;

    fn next(&mut self) -> Option<Verdict<'a>> {
        let order = self.0.0.order;
        let (_, value) = self.0.find(|option| option.0 == codes::packet::VERDICT)?;
        let (kind, bytes) = value.split_first()?;
        Some(match (kind, bytes.len()) {
            (0, _) => Verdict::Hardware(bytes),
            (1, 8) => Verdict::Tc(order.u64(bytes, 0)),
            (2, 8) => Verdict::Xdp(order.u64(bytes, 0)),
            (other, _) => Verdict::Other(*other, bytes),
        })
    }
}

/// The comments of a block.
#[derive(Clone, Debug)]
pub struct Comments<'a>(OptionIter<'a>);

impl<'a> Iterator for Comments<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Cow<'a, str>> {
        self.0.find(|option| option.0 == codes::COMMENT).map(|option| text(option.1))
    }
}

/// Names of addresses, and the server that said so.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    records: Options<'a>,
    options: Options<'a>,
}

/// Finds the end of the records of a name resolution block.
pub(super) fn check_names(bytes: &[u8], order: Order) -> Result<usize, Wrong> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        if rest.len() < 4 {
            return Err((at, "the block of names has no record that ends them (nrb_record_end)".to_owned()));
        }
        let (kind, length) = (order.u16(rest, 0), usize::from(order.u16(rest, 2)));
        if kind == record::END {
            return Ok(at);
        }
        let Some(value) = rest[4..].get(..padded(length)).map(|value| &value[..length]) else {
            let left = rest.len() - 4;
            return Err((
                at,
                format!(
                    "a record of names has {length} bytes, but its block ends {left} bytes after its head"
                ),
            ));
        };
        if let Some(address) = record::address_bytes(kind)
            && (length <= address || value[length - 1] != 0)
        {
            let wrong = format!(
                "a record of names (type {kind}, {length} bytes) is no address of {address} bytes and texts that end with a NUL"
            );
            return Err((at, wrong));
        }
        at += 4 + padded(length);
    }
}

impl<'a> Names<'a> {
    pub(super) fn checked(records: Options<'a>, options: Options<'a>) -> Names<'a> {
        Names { records, options }
    }

    /// Each address and its names; kinds of addresses that are not known are left out.
    pub fn records(self) -> NameRecords<'a> {
        NameRecords(self.records.iter())
    }

    /// The server's name.
    pub fn server_name(self) -> Option<Cow<'a, str>> {
        self.options.first(codes::names::SERVER_NAME).map(text)
    }

    /// The server's address.
    pub fn server_ipv4(self) -> Option<std::net::Ipv4Addr> {
        self.options.first(codes::names::SERVER_IPV4).map(|value| array::<4>(value, 0).into())
    }

    /// The server's address.
    pub fn server_ipv6(self) -> Option<std::net::Ipv6Addr> {
        self.options.first(codes::names::SERVER_IPV6).map(|value| array::<16>(value, 0).into())
    }

    /// What a human says of them.
    pub fn comments(self) -> Comments<'a> {
        Comments(self.options.iter())
    }
}

/// Addresses and their names.
#[derive(Clone, Debug)]
pub struct NameRecords<'a>(OptionIter<'a>);

impl<'a> Iterator for NameRecords<'a> {
    type Item = (Address, Texts<'a>);

    fn next(&mut self) -> Option<(Address, Texts<'a>)> {
        let (kind, value) = self.0.find(|record| record::address_bytes(record.0).is_some())?;
        let (address, texts) = value.split_at(record::address_bytes(kind)?);
        let address = match kind {
            record::IPV4 => Address::Ipv4(array::<4>(address, 0).into()),
            record::IPV6 => Address::Ipv6(array::<16>(address, 0).into()),
            record::EUI48 => Address::Eui48(array(address, 0)),
            _ => Address::Eui64(array(address, 0)),
        };
        Some((address, Texts(texts)))
    }
}

/// Texts, each of which ends with a NUL.
#[derive(Clone, Debug)]
pub struct Texts<'a>(&'a [u8]);

impl<'a> Iterator for Texts<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Cow<'a, str>> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(String::from_utf8_lossy(text))
    }
}
