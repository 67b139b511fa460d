//! Records → a folder that babeltrace2, Trace Compass and [`crate::Reader`] read; or the same bytes through a pipe.
//!
//! In: what the trace is of ([`Folder::create`], [`Folder::send`]: its classes, the format of its metadata), then for each stream records: number of the
//! event, time, and bytes that lie as its class says ([`Stream::record`]); or bytes of many records that lie already as a packet has them
//! ([`Stream::packet`]), as a ring's part. Out: `metadata`, and a file a stream. [`layout`] makes classes, [`packet`] what stands before
//! records.
//!
//! A stream may be several files ([`Stream::in_files`]), each of so many bytes, of which the newest are kept. Readers take files with one
//! number for one stream; babeltrace2 2.0.4 by the time at which each packet begins, which must differ then.
//!
//! As long as a [`Folder`] is there, the folder is locked (flock(2)), by which those who follow the trace know that more may come.
//!
//! Guaranteed: a packet is written whole or not at all ([`files`]; of a pipe, its reader has it whole or not at all); its times enclose those of its records; counts of
//! what was lost are what was said last, never less.

mod files;
pub mod layout;
pub mod packet;
pub mod progress;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::class::TraceClass;
use crate::error::Error;
use crate::pipe::Sender;
use crate::pipe::frame::Frame;
use crate::write::files::Files;
use crate::write::packet::{Begin, CONTEXT_BYTES, End, RECORD_HEADER_BYTES_MAX};
use crate::write::progress::Progress;
use crate::{ctf2, hide, private, tsdl};

/// What describes a trace. Its streams are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// CTF 1.8, which every reader reads.
    #[default]
    Ctf1,
    /// CTF 2: babeltrace2 from 2.1 on.
    Ctf2,
}

/// The metadata of a trace. It is read again before it is returned: the error says what the format cannot describe.
pub fn metadata(class: &TraceClass, format: Format) -> Result<Vec<u8>, String> {
    match format {
        Format::Ctf1 => {
            let text = tsdl::print::print(class)?;
            let mut again = tsdl::read(&text).map_err(|fault| fault.message)?;
            hide::hide(&mut again);
            let mut class = class.clone();
            hide::hide(&mut class);
            // Streams have no names there.
            class.streams.iter_mut().for_each(|stream| stream.name = None);
            match again == class {
                true => Ok(text.into_bytes()),
                false => Err("CTF 1.8 gives meaning by names, which these classes do not have".to_owned()),
            }
        }
        Format::Ctf2 => {
            let bytes = ctf2::print::print(class);
            ctf2::read(&bytes).map_err(|fault| fault.message)?;
            Ok(bytes)
        }
    }
}

/// Whether the folder of a trace is locked by whoever writes it.
pub(crate) fn is_written(path: &Path) -> bool {
    let tried = File::open(path).map(|folder| folder.try_lock_shared());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// A trace that is written.
#[derive(Debug)]
pub struct Folder {
    place: Place,
    uuid: [u8; 16],
    format: Format,
}

/// Where it is written to.
#[derive(Debug)]
enum Place {
    Folder {
        path: PathBuf,
        /// The folder itself, locked as long as this is open. Where there are no locks it does without.
        _locked: Option<File>,
    },
    Pipe(Sender),
}

impl Folder {
    /// Makes the folder with its metadata.
    pub fn create(path: &Path, class: &TraceClass, format: Format) -> Result<Folder, Error> {
        let failed = |what, source| Error::File { path: path.to_owned(), what, source };
        private::make_folder(path).map_err(|source| failed("make", source))?;
        let locked = File::open(path).ok().filter(|folder| folder.try_lock().is_ok());
        Folder::described(Place::Folder { path: path.to_owned(), _locked: locked }, class, format)
    }

    /// The same through a pipe. What ends it is [`Sender::finish`].
    pub fn send(pipe: &Sender, class: &TraceClass, format: Format) -> Result<Folder, Error> {
        Folder::described(Place::Pipe(pipe.clone()), class, format)
    }

    fn described(place: Place, class: &TraceClass, format: Format) -> Result<Folder, Error> {
        let folder = Folder { place, uuid: class.uuid.unwrap_or_default(), format };
        folder.describe(class)?;
        Ok(folder)
    }

    /// Writes the metadata anew, with classes that have come since. A reader sees the old or the new, and never a part.
    pub fn describe(&self, class: &TraceClass) -> Result<(), Error> {
        let path = match &self.place {
            Place::Folder { path, .. } => path.join("metadata"),
            Place::Pipe(pipe) => PathBuf::from(pipe.name()),
        };
        let text = metadata(class, self.format);
        let text = text.map_err(|message| Error::Class { path: path.clone(), message })?;
        match &self.place {
            Place::Folder { .. } => private::replace(&path, &text),
            Place::Pipe(pipe) => pipe.send(&Frame::Description(&text)),
        }
    }

    /// A stream's file. `class`: the number of its class; `id`: its own among those; `cpu`: what its packets say.
    pub fn stream(
        &self,
        name: &str,
        class: u64,
        id: u64,
        cpu: u32,
        packet_bytes: usize,
    ) -> Result<Stream, Error> {
        let packets = match &self.place {
            Place::Folder { path, .. } => Packets::Files(Files::create(path.join(name))?),
            Place::Pipe(pipe) => Packets::Pipe { pipe: pipe.clone(), name: name.to_owned(), offset: 0 },
        };
        Ok(Stream {
            packets,
            begin: Begin { uuid: self.uuid, class, id, cpu, sequence: 0, time: 0 },
            packet: Vec::new(),
            packet_bytes,
            last: 0,
            discarded: 0,
            records: 0,
            records_written: 0,
        })
    }
}

/// What a file of a stream may have, and how many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Bytes of a file, unless one packet has more.
    pub file_bytes: Option<u64>,
    /// Files of a stream; of more the oldest is removed.
    pub files: Option<u64>,
}

/// A packet that is about to be written: to which file, how long that is before, and how long then.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NextWrite {
    path: PathBuf,
    before: u64,
    after: u64,
}

/// Where a stream's packets go.
#[derive(Debug)]
enum Packets {
    Files(Files),
    Pipe {
        pipe: Sender,
        /// Of the file at the other end.
        name: String,
        /// Bytes of it that were sent.
        offset: u64,
    },
}

impl Packets {
    /// Writes a packet of so many records.
    fn put(&mut self, packet: &[u8], records: u64) -> Result<(), Error> {
        match self {
            Packets::Files(files) => files.put(packet, records),
            Packets::Pipe { pipe, name, offset } => {
                pipe.send(&Frame::Packets { name, offset: *offset, content: packet })?;
                *offset += packet.len() as u64;
                Ok(())
            }
        }
    }
}

/// A stream that is written, packet by packet.
#[derive(Debug)]
pub struct Stream {
    packets: Packets,
    begin: Begin,
    /// The open packet, or nothing.
    packet: Vec<u8>,
    /// How large packets become.
    packet_bytes: usize,
    last: u64,
    discarded: u64,
    records: u64,
    /// Of these, those in packets that are written.
    records_written: u64,
}

impl Stream {
    /// The same in files: `NAME`, `NAME_000001`, and so on. A pipe has one for each stream.
    pub fn in_files(mut self, limits: Limits) -> Stream {
        if let Packets::Files(files) = &mut self.packets {
            files.limits = limits;
        }
        self
    }

    /// Records of this stream that are gone again, with the files that they were in.
    pub fn removed(&self) -> u64 {
        match &self.packets {
            Packets::Files(files) => files.removed,
            Packets::Pipe { .. } => 0,
        }
    }

    /// Records of the open packet, which is not written yet.
    #[inline]
    pub fn open(&self) -> u64 {
        self.records - self.records_written
    }

    /// Drops the open packet: how many records it had.
    pub fn give_up(&mut self) -> u64 {
        let open = self.open();
        self.packet.clear();
        self.records = self.records_written;
        open
    }

    /// Adds a record: the number of its event, its time, and its bytes in parts that follow one another (contexts, payload). Times do not
    /// go back; one that would is that of the record before.
    #[inline]
    pub fn record(&mut self, event: u32, time: u64, parts: &[&[u8]]) -> Result<(), Error> {
        let time = time.max(self.last);
        let length: usize = parts.iter().map(|part| part.len()).sum::<usize>() + RECORD_HEADER_BYTES_MAX;
        if !self.packet.is_empty() && self.packet.len() + length > self.packet_bytes {
            self.flush()?;
        }
        if self.packet.is_empty() {
            self.begin.time = time;
            self.last = time;
            packet::begin(&self.begin, &mut self.packet);
        }
        packet::record_header(event, time, self.last, &mut self.packet);
        parts.iter().for_each(|part| self.packet.extend_from_slice(part));
        self.last = time;
        self.records += 1;
        Ok(())
    }

    /// Writes a packet of records that lie as they should: [`packet::record_header`], contexts, payload, for each.
    pub fn packet(&mut self, records: &[u8], first: u64, last: u64) -> Result<(), Error> {
        self.flush()?;
        self.begin.time = first;
        self.last = last;
        packet::begin(&self.begin, &mut self.packet);
        self.packet.extend_from_slice(records);
        self.flush()
    }

    /// So many records of this stream have been lost since it began. It is told with the next packet that is written, at the latest by
    /// [`Stream::finish`].
    pub fn lost(&mut self, in_all: u64) {
        self.discarded = self.discarded.max(in_all);
    }

    /// So many packets of this stream are gone, records and all, before the next one.
    pub fn lost_packets(&mut self, packets: u64) -> Result<(), Error> {
        self.flush()?;
        self.begin.sequence += packets;
        Ok(())
    }

    /// Writes what is open.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.packet.is_empty() {
            return Ok(());
        }
        let end = End { time: self.last, discarded: self.discarded, packet_bytes: self.packet.len() as u64 };
        packet::end(&end, &mut self.packet);
        self.packets.put(&self.packet, self.open())?;
        self.packet.clear();
        self.begin.sequence += 1;
        self.records_written = self.records;
        Ok(())
    }

    /// Writes what is open, which has all that is before `position` of its source; `progress` knows it, and what was lost: so much in streams before this one.
    pub fn flush_noted(
        &mut self,
        progress: &Progress<'_>,
        position: u64,
        lost_before: u64,
    ) -> Result<(), Error> {
        let Packets::Files(files) = &self.packets else { return self.flush() };
        if !self.packet.is_empty() {
            let next = files.next_write(self.packet.len() as u64);
            progress.begin(position, lost_before + self.discarded, &next);
            let flushed = self.flush();
            progress.end(flushed.is_ok());
            flushed?;
        }
        progress.goes_on_at(position);
        Ok(())
    }

    /// Writes the rest, and a packet without records where something was lost after the last one; in no file more. How many records there are.
    pub fn finish(mut self, time: u64) -> Result<u64, Error> {
        if let Packets::Files(files) = &mut self.packets {
            files.limits = Limits::default();
        }
        self.last = self.last.max(time);
        if self.packet.is_empty() {
            self.begin.time = self.last;
            packet::begin(&self.begin, &mut self.packet);
        }
        self.flush()?;
        Ok(self.records)
    }
}

const _: () = assert!(CONTEXT_BYTES < 128);
