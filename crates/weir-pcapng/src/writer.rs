//! [`Writer`]: sections, interfaces, packets and statistics → the bytes of a pcapng file.
//!
//! Out: one section in little-endian order with times in nanoseconds (if_tsresol 9). Guaranteed of what is written:
//!
//! - Every block is whole: its length at both ends, data and options filled up with zeros to 32 bits, options ended by opt_endofopt.
//! - Packets and statistics are of interfaces that were described before; of a packet no more is captured than it had on the wire,
//!   and no more than its interface's snapshot length.
//! - What the format has no room for is refused before a byte of it is written; the writer can be used further.
//! - If the output fails, the error says how many bytes from the beginning are whole blocks ([`WriteError::whole`]).
//!
//! Blocks are gathered in a buffer, which is written when it is full and by [`Writer::flush`]. Nothing is allocated for a packet.
//! Deliberately not here: files, clocks, rotation, and the obsolete blocks.

mod error;
mod frame;
mod options;
mod packet;

use std::fmt;
use std::io::{self, Write};

use crate::codes::{BYTE_ORDER, block};
use crate::interface::{Interface, InterfaceId};
use crate::limits::{BLOCK_BYTES_MAX, INTERFACES_MAX, WRITE_BYTES};
use crate::names::{Address, Server};
use crate::section::{Section, Statistics};
use crate::writer::frame::{Frame, Refused, framed};

pub use crate::writer::error::WriteError;
pub use crate::writer::packet::{NewPacket, PacketOptions};

/// Writes a pcapng file.
///
/// ```
/// use weir_pcapng::{Interface, NewPacket, PacketOptions, Section, Writer};
///
/// let mut writer = Writer::new(Vec::new(), &Section::default())?;
/// let interface = writer.interface(&Interface::new(1, 65_535))?;
/// let (bytes, options) = (&[0; 60], PacketOptions::default());
/// writer.packet(&NewPacket { interface, time: 1_700_000_000_000_000_000, wire_len: 1514, bytes, options })?;
/// writer.flush()?;
/// assert_eq!(writer.output().len() % 4, 0);
/// # Ok::<(), weir_pcapng::WriteError>(())
/// ```
pub struct Writer<W> {
    output: W,
    /// Whole blocks that the output does not have yet.
    buffer: Vec<u8>,
    interfaces: Vec<Described>,
    /// Bytes of whole blocks that the output has.
    whole: u64,
    has_failed: bool,
}

/// What packets need of an interface.
#[derive(Clone, Copy)]
struct Described {
    snaplen: u32,
    offset_s: i64,
}

impl<W: Write> Writer<W> {
    /// Begins a file with its section header.
    ///
    /// # Errors
    /// If one of the texts is refused. Nothing is written to `output` before its first [`Writer::flush`].
    pub fn new(output: W, section: &Section) -> Result<Writer<W>, WriteError> {
        let mut writer = Writer {
            output,
            buffer: Vec::with_capacity(WRITE_BYTES + (64 << 10)),
            interfaces: Vec::new(),
            whole: 0,
            has_failed: false,
        };
        writer.block(block::SECTION, |frame| {
            frame.u32(BYTE_ORDER);
            // Version 1.0, and a length that is not known yet.
            frame.u16(1).u16(0).u64(u64::MAX);
            options::section(frame, section)
        })?;
        Ok(writer)
    }

    /// Describes an interface; packets of it may follow. Times of it are nanoseconds, less its `offset_s`, whatever its resolution was
    /// where it was read.
    ///
    /// # Errors
    /// If the format has no room for what is said of it, or the output fails.
    pub fn interface(&mut self, interface: &Interface) -> Result<InterfaceId, WriteError> {
        let id = self.interfaces.len() as u32;
        if id >= INTERFACES_MAX {
            return Err(WriteError::refused(format!("a section has {INTERFACES_MAX} interfaces at most")));
        }
        self.block(block::INTERFACE, |frame| {
            frame.u16(interface.link_type).u16(0).u32(interface.snaplen);
            options::interface(frame, interface)
        })?;
        self.interfaces.push(Described { snaplen: interface.snaplen, offset_s: interface.offset_s });
        Ok(InterfaceId(id))
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// If its interface was not described, its lengths are against the format, one of its options has no room, or the output fails.
    #[inline]
    pub fn packet(&mut self, packet: &NewPacket<'_>) -> Result<(), WriteError> {
        let Some(described) = self.interfaces.get(packet.interface.index()).copied() else {
            return Err(self.no_interface(packet.interface));
        };
        let captured = packet.bytes.len();
        let most =
            if described.snaplen == 0 { packet.wire_len } else { packet.wire_len.min(described.snaplen) };
        if captured > most as usize {
            return Err(too_long(packet, described.snaplen));
        }
        self.block(block::ENHANCED, |frame| {
            frame.u32(packet.interface.0).ticks(ticks(packet.time, described.offset_s)?);
            frame.u32(captured as u32).u32(packet.wire_len).padded(packet.bytes);
            options::packet(frame, &packet.options)
        })
    }

    /// Writes what was counted at an interface.
    ///
    /// # Errors
    /// If the interface was not described, the statistics have no time, or the output fails.
    pub fn statistics(&mut self, interface: InterfaceId, of: &Statistics) -> Result<(), WriteError> {
        let Some(described) = self.interfaces.get(interface.index()).copied() else {
            return Err(self.no_interface(interface));
        };
        let time = of.time.ok_or_else(|| WriteError::refused("statistics have no time".to_owned()))?;
        self.block(block::STATISTICS, |frame| {
            frame.u32(interface.0).ticks(ticks(time, described.offset_s)?);
            options::statistics(frame, of, |time| ticks(time, described.offset_s))
        })
    }

    /// Writes names of addresses, and which server said so. An address without names is refused.
    ///
    /// # Errors
    /// If there is no room for a name, or the output fails.
    pub fn names(&mut self, records: &[(Address, &[&str])], server: &Server<'_>) -> Result<(), WriteError> {
        self.block(block::NAMES, |frame| {
            records.iter().try_for_each(|(address, names)| options::record(frame, *address, names))?;
            // The record that ends them.
            frame.u32(0);
            options::server(frame, server)
        })
    }

    /// Writes secrets with which the packets after them can be decrypted; `kind` is one of [`secrets`](crate::secrets), or another.
    ///
    /// # Errors
    /// If there is no room for them, or the output fails.
    pub fn secrets(&mut self, kind: u32, bytes: &[u8]) -> Result<(), WriteError> {
        self.block(block::SECRETS, |frame| {
            frame.u32(kind).u32(bytes.len() as u32).padded(bytes);
            Ok(())
        })
    }

    /// Gives the output all blocks, and flushes it.
    ///
    /// # Errors
    /// If the output fails. Then the writer is of no more use: what was in its buffer is lost.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.drain()?;
        self.output.flush().map_err(|error| self.fail(error))
    }

    #[inline]
    fn block(
        &mut self,
        kind: u32,
        body: impl FnOnce(&mut Frame<'_>) -> Result<(), Refused>,
    ) -> Result<(), WriteError> {
        if self.has_failed {
            return Err(WriteError::after_failure(self.whole));
        }
        framed(&mut self.buffer, kind, BLOCK_BYTES_MAX, body).map_err(WriteError::refused)?;
        if self.buffer.len() >= WRITE_BYTES { self.drain() } else { Ok(()) }
    }

    /// Gives the output what is in the buffer.
    fn drain(&mut self) -> Result<(), WriteError> {
        if self.has_failed {
            return Err(WriteError::after_failure(self.whole));
        }
        let mut done = 0;
        while done < self.buffer.len() {
            let failure = match self.output.write(&self.buffer[done..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    done += count.min(self.buffer.len() - done);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.whole += frame::whole_bytes(&self.buffer, done) as u64;
            return Err(self.fail(failure));
        }
        self.whole += done as u64;
        self.buffer.clear();
        Ok(())
    }

    fn fail(&mut self, error: io::Error) -> WriteError {
        self.has_failed = true;
        self.buffer.clear();
        WriteError::io(self.whole, error)
    }

    #[cold]
    fn no_interface(&self, interface: InterfaceId) -> WriteError {
        let described = self.interfaces.len();
        WriteError::refused(format!("there is no interface {interface}; {described} were described"))
    }
}

impl<W> Writer<W> {
    /// Bytes of the file so far, with those that the output does not have yet.
    pub fn bytes(&self) -> u64 {
        self.whole + self.buffer.len() as u64
    }

    /// Bytes of whole blocks that the output has.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// What it writes to.
    pub fn output(&self) -> &W {
        &self.output
    }

    /// What it writes to, without what is in the buffer: [`Writer::flush`] comes before.
    pub fn into_output(self) -> W {
        self.output
    }
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Nanoseconds since the epoch in the units of an interface that adds `offset_s` seconds.
#[inline]
fn ticks(ns: u64, offset_s: i64) -> Result<u64, Refused> {
    if offset_s == 0 {
        return Ok(ns);
    }
    let ticks = i128::from(ns) - i128::from(offset_s) * 1_000_000_000;
    u64::try_from(ticks).map_err(|_| {
        format!("the time {ns} ns is outside of what an interface with an offset of {offset_s} s can say")
    })
}

#[cold]
fn too_long(packet: &NewPacket<'_>, snaplen: u32) -> WriteError {
    let (captured, wire_len) = (packet.bytes.len(), packet.wire_len);
    WriteError::refused(match captured > wire_len as usize {
        true => format!("{captured} bytes were captured of a packet that had {wire_len} on the wire"),
        false => format!("{captured} bytes were captured at an interface whose snapshot length is {snaplen}"),
    })
}
