//! [`Reader`]: the bytes of a capture file → events, one after the other.
//!
//! `window` has the part of the input that is in memory, `block` finds the next block of pcapng and holds it against the format, `classic`
//! the next record of a classic file. Both give a [`Step`]: which event, and where its bytes lie. `described` and `fields` are what
//! options say.

mod block;
mod classic;
mod described;
pub(crate) mod fields;
mod window;

use std::fmt;
use std::io::Read;

use crate::clock::Clock;
use crate::codes;
use crate::error::{Error, ErrorKind};
use crate::interface::{Interface, InterfaceId};
use crate::limits::Limits;
use crate::order::Order;
use crate::reader::classic::Classic;
use crate::reader::fields::{Names, Options, PacketFields};
use crate::reader::window::Window;
use crate::section::{Section, Statistics};

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// pcapng.
    Pcapng,
    /// Classic pcap, with microseconds or nanoseconds.
    Classic,
    /// Classic pcap whose records have 8 more bytes in their head (magic 0xa1b2cd34), which are skipped.
    Modified,
}

/// What a file has next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A section begins: interfaces are counted from 0 again. A classic file has no section.
    Section(&'a Section),
    /// A section begins that has a version other than 1.0 and 1.2. What is in it is skipped, as the draft asks.
    UnknownVersion {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
    /// An interface is described. A classic file has one, before its first packet.
    Interface(InterfaceId, &'a Interface),
    /// A packet.
    Packet(Packet<'a>),
    /// What was counted at an interface.
    Statistics(InterfaceId, &'a Statistics),
    /// Names of addresses.
    Names(Names<'a>),
    /// Secrets with which packets can be decrypted.
    Secrets {
        /// One of [`secrets`](crate::secrets), or another.
        kind: u32,
        /// As the kind has it.
        bytes: &'a [u8],
    },
    /// A custom block.
    Custom {
        /// The private enterprise number of who made it up.
        enterprise: u32,
        /// Whether a program that rewrites the file may copy it.
        is_copied: bool,
        /// Data and options, which only its maker can tell apart.
        bytes: &'a [u8],
    },
    /// A block of a type that is not known here.
    Other {
        /// The block's type.
        kind: u32,
        /// What is between its lengths.
        bytes: &'a [u8],
    },
}

/// A packet, borrowed from the reader.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it was captured.
    pub interface: InterfaceId,
    /// Nanoseconds since the epoch; `None` where the file has none (a simple packet block), or one before 1970 or after 2554.
    pub time: Option<u64>,
    /// Its length on the wire, as the file has it. A few files say less than was captured.
    pub wire_len: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// What the file says beside.
    pub fields: PacketFields<'a>,
    /// Where its block or record begins in the file.
    pub offset: u64,
}

/// Reads a capture file.
pub struct Reader<R> {
    window: Window<R>,
    limits: Limits,
    format: Format,
    /// Of a classic file.
    classic: Option<Classic>,
    order: Order,
    /// The section has a version that is not known.
    is_skipping: bool,
    section: Section,
    interfaces: Vec<Interface>,
    /// What packets need of interfaces, close together.
    clocks: Vec<Clock>,
    interface_bytes: u64,
    statistics: Statistics,
    has_failed: bool,
}

/// An event whose bytes lie in the window.
enum Step {
    Section,
    UnknownVersion { major: u16, minor: u16 },
    Interface(InterfaceId),
    Packet(PacketStep),
    Statistics(InterfaceId),
    Names { records: Part, options: Part },
    Secrets { kind: u32, bytes: Part },
    Custom { enterprise: u32, is_copied: bool, bytes: Part },
    Other { kind: u32, bytes: Part },
}

struct PacketStep {
    interface: InterfaceId,
    time: Option<u64>,
    wire_len: u32,
    bytes: Part,
    options: Part,
    drops: Option<u64>,
    offset: u64,
}

/// Bytes in the window.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    len: usize,
}

impl<R: Read> Reader<R> {
    /// Reads as much as says which format it is.
    ///
    /// # Errors
    /// If it is no capture file, or one of a kind that is not read.
    pub fn new(input: R) -> Result<Reader<R>, Error> {
        Reader::with_limits(input, Limits::default())
    }

    /// With other limits.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn with_limits(input: R, limits: Limits) -> Result<Reader<R>, Error> {
        let mut window = Window::new(input);
        let have = window.available(4).map_err(|error| Error::io(0, error))?;
        if have < 4 {
            let reason = match have {
                0 => "the file is empty".to_owned(),
                _ => format!("the file has {have} bytes, less than the magic number of a capture file"),
            };
            return Err(Error::new(ErrorKind::Truncated, 0, reason));
        }
        let is_pcapng = Order::Little.u32(window.bytes(), 0) == codes::block::SECTION;
        let mut reader = Reader {
            window,
            limits,
            format: Format::Pcapng,
            classic: None,
            order: Order::Little,
            is_skipping: false,
            section: Section::default(),
            interfaces: Vec::new(),
            clocks: Vec::new(),
            interface_bytes: 0,
            statistics: Statistics::default(),
            has_failed: false,
        };
        if !is_pcapng {
            reader.begin_classic()?;
        }
        Ok(reader)
    }

    /// The next event; `None` where the file ends after a whole block. If the file has grown since, there may be more afterwards.
    ///
    /// # Errors
    /// What is wrong with the file, and where. Then there is nothing more, unless the input merely has nothing yet
    /// ([`Error::would_block`]): then this may be asked again.
    #[expect(clippy::should_implement_trait, reason = "an iterator's items cannot be borrowed from it")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, Error> {
        if self.has_failed {
            return Ok(None);
        }
        let step = match self.classic {
            Some(classic) => self.record(classic),
            None => self.block(),
        };
        match step {
            Ok(Some(step)) => Ok(Some(self.event(step))),
            Ok(None) => Ok(None),
            Err(error) => {
                self.has_failed = !error.would_block();
                Err(error)
            }
        }
    }

    /// The file's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The interfaces of the current section that were described so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Where in the file the next block or record begins.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// What it reads from, of which more was taken than was given.
    pub fn into_inner(self) -> R {
        self.window.into_input()
    }

    #[inline(always)]
    fn event(&self, step: Step) -> Event<'_> {
        let bytes = |part: Part| self.window.at(part.at, part.len);
        let options = |part: Part| Options::checked(bytes(part), self.order);
        match step {
            Step::Packet(packet) => Event::Packet(Packet {
                interface: packet.interface,
                time: packet.time,
                wire_len: packet.wire_len,
                bytes: bytes(packet.bytes),
                fields: PacketFields::new(options(packet.options), packet.drops),
                offset: packet.offset,
            }),
            Step::Section => Event::Section(&self.section),
            Step::UnknownVersion { major, minor } => Event::UnknownVersion { major, minor },
            Step::Interface(id) => Event::Interface(id, &self.interfaces[id.index()]),
            Step::Statistics(id) => Event::Statistics(id, &self.statistics),
            Step::Names { records, options: server } => {
                Event::Names(Names::checked(options(records), options(server)))
            }
            Step::Secrets { kind, bytes: of } => Event::Secrets { kind, bytes: bytes(of) },
            Step::Custom { enterprise, is_copied, bytes: of } => {
                Event::Custom { enterprise, is_copied, bytes: bytes(of) }
            }
            Step::Other { kind, bytes: of } => Event::Other { kind, bytes: bytes(of) },
        }
    }

    fn add_interface(&mut self, interface: Interface) -> InterfaceId {
        self.clocks.push(Clock::new(interface.resolution, interface.offset_s));
        self.interfaces.push(interface);
        InterfaceId(self.interfaces.len() as u32 - 1)
    }
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("format", &self.format).finish_non_exhaustive()
    }
}
