//! [`Save`]: packets → pcapng, to a pipe or to a file, or to one file after the other.
//!
//! - A file is cut to whole blocks where writing to it fails: what was captured before can be read.
//! - Each file of a rotation stands alone: section, interfaces, secrets and names are repeated in it, and statistics end it.

mod output;
mod repeated;

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_pcapng::{
    Address, Interface, InterfaceId, Names, NewPacket, PacketOptions, Section, Statistics, WriteError, Writer,
};

use crate::error::Error;
use crate::record::Record;
use crate::save::output::Output;
use crate::save::repeated::{OwnNames, Repeated};
use crate::sink::{Moment, Sink};

/// Addresses in one block of names.
const NAMES_AT_ONCE: usize = 1000;

/// When the next file is begun, and how many are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotation {
    /// After a file has so many bytes.
    pub bytes: Option<u64>,
    /// After it has been written to for so long.
    pub time: Option<Duration>,
    /// The newest files that are kept; all if `None`.
    pub files: Option<u64>,
}

impl Rotation {
    /// Whether there is more than one file.
    pub fn is_any(self) -> bool {
        self.bytes.is_some() || self.time.is_some()
    }
}

/// Writes pcapng.
pub struct Save<'w> {
    section: Section,
    /// Where files are; none for a pipe.
    path: Option<PathBuf>,
    rotation: Rotation,
    writer: Writer<Output<'w>>,
    /// Of the section that is written now.
    ids: Vec<InterfaceId>,
    repeated: Repeated,
    begun: Duration,
    number: u64,
    /// The files that are kept, the oldest first; the last is being written.
    files: VecDeque<PathBuf>,
}

impl<'w> Save<'w> {
    /// To a file, which is made anew, or to several: `trace.pcapng` becomes `trace-00001.pcapng`, `trace-00002.pcapng` and so on.
    ///
    /// # Errors
    /// If the first file cannot be made.
    pub fn to_file(
        path: &Path,
        rotation: Rotation,
        section: Section,
        now: Moment,
    ) -> Result<Save<'w>, Error> {
        let first = if rotation.is_any() { numbered(path, 1) } else { path.to_owned() };
        let writer = Writer::new(create(&first)?, &section).map_err(Error::Format)?;
        let mut save = Save::of(writer, section, now);
        save.path = Some(path.to_owned());
        save.rotation = rotation;
        save.files.push_back(first);
        // There is a capture file from the beginning.
        save.flush()?;
        Ok(save)
    }

    /// To a pipe, or anything else that is written once.
    ///
    /// # Errors
    /// If the format has no room for the section's texts.
    pub fn to_pipe(output: Box<dyn Write + 'w>, section: Section, now: Moment) -> Result<Save<'w>, Error> {
        let writer = Writer::new(Output::Pipe(output), &section).map_err(Error::Format)?;
        Ok(Save::of(writer, section, now))
    }

    fn of(writer: Writer<Output<'w>>, section: Section, now: Moment) -> Save<'w> {
        Save {
            section,
            path: None,
            rotation: Rotation::default(),
            writer,
            ids: Vec::new(),
            repeated: Repeated::default(),
            begun: now.monotonic,
            number: 1,
            files: VecDeque::new(),
        }
    }

    /// Writes names of addresses, into each file of a rotation. Addresses without names are left out.
    ///
    /// # Errors
    /// If they cannot be written, or are too many to be repeated in each file.
    pub fn add_names(&mut self, records: &[(Address, Vec<String>)]) -> Result<(), Error> {
        let named: Vec<_> = records.iter().filter(|(_, names)| !names.is_empty()).cloned().collect();
        for records in named.chunks(NAMES_AT_ONCE) {
            self.own_names(OwnNames::listed(records))?;
        }
        self.flush()
    }

    fn own_names(&mut self, names: OwnNames) -> Result<(), Error> {
        let done = names.write(&mut self.writer);
        if self.rotation.is_any() {
            self.repeated.names(names)?;
        }
        self.done(done)
    }

    fn done<T>(&mut self, result: Result<T, WriteError>) -> Result<T, Error> {
        result.map_err(|error| self.failed(error))
    }

    #[cold]
    fn failed(&mut self, error: WriteError) -> Error {
        let Some(whole) = error.whole() else { return Error::Format(error) };
        self.writer.output().cut(whole);
        let cause = error.io_error().map(copied);
        let cause = cause.unwrap_or_else(|| std::io::Error::other("the output has failed"));
        Error::Write { path: self.files.back().cloned(), whole, error: cause }
    }

    fn statistics(&mut self, statistics: &[Statistics]) -> Result<(), Error> {
        for (index, of) in statistics.iter().enumerate().take(self.ids.len()) {
            // What a file did not say when it was counted has no place.
            if of.time.is_some() {
                let done = self.writer.statistics(self.ids[index], of);
                self.done(done)?;
            }
        }
        self.flush()
    }
}

impl Sink for Save<'_> {
    fn interface(&mut self, interface: &Interface) -> Result<(), Error> {
        let done = self.writer.interface(interface);
        let id = self.done(done)?;
        self.ids.push(id);
        self.repeated.interface(interface);
        Ok(())
    }

    #[inline]
    fn packet(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let options = PacketOptions {
            flags: record.flags,
            hash: record.hash,
            drop_count: (record.drops > 0).then_some(record.drops),
            packet_id: record.packet_id,
            queue: record.queue,
            more: record.more,
            ..PacketOptions::default()
        };
        let packet = NewPacket {
            interface: self.ids[record.interface],
            time: record.time,
            wire_len: record.wire_len,
            bytes: record.bytes,
            options,
        };
        match self.writer.packet(&packet) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn secrets(&mut self, kind: u32, bytes: &[u8]) -> Result<(), Error> {
        if self.rotation.is_any() {
            self.repeated.secrets(kind, bytes)?;
        }
        let done = self.writer.secrets(kind, bytes);
        self.done(done)
    }

    fn names(&mut self, names: &Names<'_>) -> Result<(), Error> {
        self.own_names(OwnNames::of(names))
    }

    fn is_full(&self, now: Moment) -> bool {
        let is_long = self.rotation.bytes.is_some_and(|bytes| self.writer.bytes() >= bytes);
        let has_lasted = |time| now.monotonic.saturating_sub(self.begun) >= time;
        is_long || self.rotation.time.is_some_and(has_lasted)
    }

    fn rotate(&mut self, now: Moment, statistics: &[Statistics]) -> Result<(), Error> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        self.statistics(statistics)?;
        self.number += 1;
        let next = numbered(&path, self.number);
        self.writer = Writer::new(create(&next)?, &self.section).map_err(Error::Format)?;
        self.files.push_back(next);
        self.begun = now.monotonic;
        while self.rotation.files.is_some_and(|most| self.files.len() as u64 > most) {
            // It may have been moved away.
            let _ = self.files.pop_front().map(std::fs::remove_file);
        }
        let done = self.repeated.write(&mut self.writer);
        self.ids = self.done(done)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let done = self.writer.flush();
        self.done(done)
    }

    fn end(&mut self, statistics: &[Statistics]) -> Result<(), Error> {
        self.statistics(statistics)
    }
}

fn create<'w>(path: &Path) -> Result<Output<'w>, Error> {
    Output::create(path).map_err(|error| Error::Create { path: path.to_owned(), error })
}

/// `trace.pcapng` → `trace-00001.pcapng`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:05}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Errors of the system cannot be cloned.
fn copied(error: &std::io::Error) -> std::io::Error {
    match error.raw_os_error() {
        Some(number) => std::io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}

impl std::fmt::Debug for Save<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Save").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_before_their_extension() {
        let check =
            |path: &str, expected: &str| assert_eq!(numbered(Path::new(path), 7), Path::new(expected));
        check("trace.pcapng", "trace-00007.pcapng");
        check("a b/trace", "a b/trace-00007");
        check("a.b/x.y.z", "a.b/x.y-00007.z");
        assert_eq!(numbered(Path::new("t.p"), 123_456), Path::new("t-123456.p"));
    }
}
