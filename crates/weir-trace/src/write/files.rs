//! Packets of one stream → its file in the trace's folder, or several that follow one another, of which the newest are kept.
//!
//! Guaranteed: a packet is in a file whole or not at all, as far as the file system does.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::error::Error;
use crate::private;
use crate::write::{Limits, NextWrite};

/// The files of a stream.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) limits: Limits,
    /// The path of the first, of which those of others are made.
    first: PathBuf,
    /// Of the one that is written.
    path: PathBuf,
    file: File,
    number: u64,
    /// Bytes of whole packets in it.
    written: u64,
    /// Those before it, the oldest first, with how many records each has.
    older: VecDeque<(PathBuf, u64)>,
    /// Records in files before this one, and in all.
    records_before: u64,
    records: u64,
    /// Records that were in files that were removed.
    pub(super) removed: u64,
}

impl Files {
    /// The first, which must not be there.
    pub(super) fn create(path: PathBuf) -> Result<Files, Error> {
        let file = make(&path)?;
        Ok(Files {
            limits: Limits::default(),
            first: path.clone(),
            path,
            file,
            number: 0,
            written: 0,
            older: VecDeque::new(),
            records_before: 0,
            records: 0,
            removed: 0,
        })
    }

    /// Whether a packet of so many bytes goes to the next file.
    fn is_for_next(&self, bytes: u64) -> bool {
        self.written > 0 && self.limits.file_bytes.is_some_and(|most| self.written + bytes > most)
    }

    /// Where a packet of so many bytes goes.
    pub(super) fn next_write(&self, bytes: u64) -> NextWrite {
        match self.is_for_next(bytes) {
            true => NextWrite { path: self.path_of(self.number + 1), before: 0, after: bytes },
            false => NextWrite { path: self.path.clone(), before: self.written, after: self.written + bytes },
        }
    }

    /// Writes a packet of so many records.
    pub(super) fn put(&mut self, packet: &[u8], records: u64) -> Result<(), Error> {
        if self.is_for_next(packet.len() as u64) {
            self.next_file()?;
        }
        let failed = |what, source| Error::File { path: self.path.clone(), what, source };
        if self.file.metadata().map_err(|source| failed("look at", source))?.nlink() == 0 {
            return Err(Error::Removed { path: self.path.clone() });
        }
        if let Err(source) = self.file.write_all(packet) {
            // What there was room for is no packet.
            let _ = self.file.set_len(self.written);
            let _ = self.file.seek(SeekFrom::Start(self.written));
            return Err(failed("write", source));
        }
        self.written += packet.len() as u64;
        self.records += records;
        Ok(())
    }

    /// The path of a file after the first.
    fn path_of(&self, number: u64) -> PathBuf {
        let mut path = self.first.clone().into_os_string();
        path.push(format!("_{number:06}"));
        PathBuf::from(path)
    }

    /// What is written from here on goes to the next file.
    fn next_file(&mut self) -> Result<(), Error> {
        let number = self.number + 1;
        let path = self.path_of(number);
        let file = make(&path)?;
        let records = self.records - self.records_before;
        self.older.push_back((std::mem::replace(&mut self.path, path), records));
        (self.file, self.number, self.written) = (file, number, 0);
        self.records_before = self.records;
        while self.limits.files.is_some_and(|most| self.older.len() as u64 >= most)
            && let Some((oldest, records)) = self.older.pop_front()
        {
            let removed = fs::remove_file(&oldest);
            removed.map_err(|source| Error::File { path: oldest, what: "remove", source })?;
            self.removed += records;
        }
        Ok(())
    }
}

fn make(path: &std::path::Path) -> Result<File, Error> {
    private::make_file(path).map_err(|source| Error::File { path: path.to_owned(), what: "make", source })
}
