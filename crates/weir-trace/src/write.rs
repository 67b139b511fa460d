//! Records → a folder that babeltrace2, Trace Compass and [`crate::Reader`] read.
//!
//! In: what the trace is of ([`Folder::create`]: its classes, the format of its metadata), then for each stream records: number of the
//! event, time, and bytes that lie as its class says ([`Stream::record`]); or bytes of many records that lie already as a packet has them
//! ([`Stream::packet`]), as a ring's part. Out: `metadata`, and a file a stream. [`layout`] makes classes, [`packet`] what stands before
//! records.
//!
//! A stream may be several files ([`Stream::in_files`]), each of so many bytes, of which the newest are kept. Readers take files with one
//! number for one stream; babeltrace2 2.0.4 by the time at which each packet begins, which must differ then.
//!
//! As long as a [`Folder`] is there, the folder is locked (flock(2)), by which those who follow the trace know that more may come.
//!
//! Guaranteed: a packet is written whole or not at all, as far as the file system does; its times enclose those of its records; counts of
//! what was lost are what was said last, never less.

pub mod layout;
pub mod packet;

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::class::TraceClass;
use crate::error::Error;
use crate::write::packet::{Begin, CONTEXT_BYTES, End, RECORD_HEADER_BYTES_MAX};
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
    path: PathBuf,
    uuid: [u8; 16],
    format: Format,
    /// The folder itself, locked as long as this is open. Where there are no locks it does without.
    _locked: Option<File>,
}

impl Folder {
    /// Makes the folder with its metadata.
    pub fn create(path: &Path, class: &TraceClass, format: Format) -> Result<Folder, Error> {
        let failed = |what, source| Error::File { path: path.to_owned(), what, source };
        private::make_folder(path).map_err(|source| failed("make", source))?;
        let locked = File::open(path).ok().filter(|folder| folder.try_lock().is_ok());
        let uuid = class.uuid.unwrap_or_default();
        let folder = Folder { path: path.to_owned(), uuid, format, _locked: locked };
        folder.describe(class)?;
        Ok(folder)
    }

    /// Writes the metadata anew, with classes that have come since. A reader sees the old or the new, and never a part.
    pub fn describe(&self, class: &TraceClass) -> Result<(), Error> {
        let path = self.path.join("metadata");
        let text =
            metadata(class, self.format).map_err(|message| Error::Class { path: path.clone(), message })?;
        let hidden = self.path.join(".metadata");
        let failed = |what, source| Error::File { path: path.clone(), what, source };
        let made = private::options().write(true).create(true).truncate(true).open(&hidden);
        let written = made.and_then(|mut file| file.write_all(&text));
        written.map_err(|source| failed("write", source))?;
        fs::rename(&hidden, &path).map_err(|source| failed("write", source))
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
        let path = self.path.join(name);
        let file = private::make_file(&path).map_err(|source| Error::File {
            path: path.clone(),
            what: "make",
            source,
        })?;
        let begin = Begin { uuid: self.uuid, class, id, cpu, sequence: 0, time: 0 };
        let packet = Vec::new();
        let files =
            Files { limits: Limits::default(), first: path.clone(), number: 0, older: VecDeque::new() };
        Ok(Stream {
            path,
            file,
            files,
            written: 0,
            begin,
            packet,
            packet_bytes,
            last: 0,
            discarded: 0,
            records: 0,
            records_before: 0,
            records_written: 0,
            removed: 0,
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

/// The files of a stream.
#[derive(Debug)]
struct Files {
    limits: Limits,
    /// The path of the first, of which those of others are made.
    first: PathBuf,
    /// Of the one that is written.
    number: u64,
    /// Those before it, the oldest first, with how many records each has.
    older: VecDeque<(PathBuf, u64)>,
}

/// A stream that is written, packet by packet.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    file: File,
    files: Files,
    /// Bytes of whole packets in it.
    written: u64,
    begin: Begin,
    /// The open packet, or nothing.
    packet: Vec<u8>,
    /// How large packets become.
    packet_bytes: usize,
    last: u64,
    discarded: u64,
    records: u64,
    /// Of these, those in files before this one, and those in packets that are written.
    records_before: u64,
    records_written: u64,
    /// Records that were in files that were removed.
    removed: u64,
}

impl Stream {
    /// The same in files: `NAME`, `NAME_000001`, and so on.
    pub fn in_files(mut self, limits: Limits) -> Stream {
        self.files.limits = limits;
        self
    }

    /// Records of this stream that are gone again, with the files that they were in.
    pub fn removed(&self) -> u64 {
        self.removed
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
        let file_bytes = self.files.limits.file_bytes;
        if self.written > 0 && file_bytes.is_some_and(|most| self.written + self.packet.len() as u64 > most) {
            self.next_file()?;
        }
        let failed = |what, source| Error::File { path: self.path.clone(), what, source };
        if self.file.metadata().map_err(|source| failed("look at", source))?.nlink() == 0 {
            return Err(Error::Removed { path: self.path.clone() });
        }
        if let Err(source) = self.file.write_all(&self.packet) {
            // What there was room for is no packet.
            let _ = self.file.set_len(self.written);
            let _ = self.file.seek(SeekFrom::Start(self.written));
            return Err(failed("write", source));
        }
        self.written += self.packet.len() as u64;
        self.packet.clear();
        self.begin.sequence += 1;
        self.records_written = self.records;
        Ok(())
    }

    /// What is written from here on goes to the next file.
    fn next_file(&mut self) -> Result<(), Error> {
        let number = self.files.number + 1;
        let mut path = self.files.first.clone().into_os_string();
        path.push(format!("_{number:06}"));
        let path = PathBuf::from(path);
        let failed = |path: &Path, what, source| Error::File { path: path.to_owned(), what, source };
        let file = private::make_file(&path).map_err(|source| failed(&path, "make", source))?;
        let records = self.records_written - self.records_before;
        self.files.older.push_back((std::mem::replace(&mut self.path, path), records));
        (self.file, self.files.number, self.written) = (file, number, 0);
        self.records_before = self.records_written;
        while self.files.limits.files.is_some_and(|most| self.files.older.len() as u64 >= most)
            && let Some((oldest, records)) = self.files.older.pop_front()
        {
            fs::remove_file(&oldest).map_err(|source| failed(&oldest, "remove", source))?;
            self.removed += records;
        }
        Ok(())
    }

    /// Writes the rest, and a packet without records where something was lost after the last one; in no file more. How many records there are.
    pub fn finish(mut self, time: u64) -> Result<u64, Error> {
        self.files.limits = Limits::default();
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
