//! Capture files: bytes → sections, interfaces, packets and statistics ([`Reader`]); these → the bytes of a pcapng file ([`Writer`]).
//!
//! The formats are pcapng (draft-ietf-opsawg-pcapng) and classic pcap (draft-ietf-opsawg-pcap), which is read only.
//!
//! - Hostile input gives an [`Error`] with the offset in the file and the reason, never a panic. Memory is bounded ([`Limits`]).
//! - A packet's bytes are borrowed from the reader's buffer; nothing is allocated for a packet, read or written.
//! - What is written keeps to the draft's rules for writers, and ends with a whole block or an error that says where the last one ends.
//!
//! Deliberately not here: files (anything that implements `Read` is read, and `Write` written), clocks, what packets contain,
//! decompression, seeking, merging sections.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod limits;

mod codes;
mod order;

mod clock;
mod flags;
mod interface;
mod names;
mod packet;
mod section;

mod error;
mod reader;
mod writer;

pub use crate::clock::Resolution;
pub use crate::codes::secrets;
pub use crate::error::{Error, ErrorKind};
pub use crate::flags::{Direction, LinkErrors, PacketFlags, Reception};
pub use crate::interface::{Filter, Interface, InterfaceId, Speed};
pub use crate::limits::Limits;
pub use crate::names::{Address, Server};
pub use crate::packet::{Hash, HashAlgorithm, ProcessThread, Verdict};
pub use crate::reader::fields::{Comments, Hashes, NameRecords, Names, PacketFields, Texts, Verdicts};
pub use crate::reader::{Event, Format, Packet, Reader};
pub use crate::section::{Section, Statistics};
pub use crate::writer::{NewPacket, PacketOptions, WriteError, Writer};
