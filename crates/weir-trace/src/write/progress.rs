//! How far the records of a source are written, in words that another process shares: where this one is killed, that one goes on with the next record.
//!
//! In: before a packet is written, which records it ends with and how long its file is going to be. Out of [`Progress::found`]: what is in whole packets;
//! where one was being written its file decides, and what is no whole packet is taken off it.
//!
//! Each word is written in one store, in an order in which any beginning of it is right.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::write::NextWrite;

/// Bytes of a path (PATH_MAX of Linux).
const PATH_BYTES_MAX: usize = 4096;

/// The words, then a path.
const POSITION: usize = 0;
const LOST: usize = 1;
const UNTOLD: usize = 2;
const STATE: usize = 3;
const NEXT_POSITION: usize = 4;
const NEXT_LOST: usize = 5;
const BEFORE: usize = 6;
const AFTER: usize = 7;
const PATH_BYTES: usize = 8;
const PATH: usize = 9;

/// All that is before POSITION is written; the file decides; all that is before NEXT_POSITION is written.
const SETTLED: u64 = 0;
const WRITING: u64 = 1;
const WRITTEN: u64 = 2;

/// The words of one stream, which are 0 at first.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a>(&'a [AtomicU64]);

/// What is known of a source whose reader was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where its next record is.
    pub position: u64,
    /// Of what was lost, that which the stream says.
    pub lost: u64,
    /// Of what was lost, that which its reader alone had counted.
    pub counted: u64,
}

impl<'a> Progress<'a> {
    /// Words of each stream.
    pub const WORDS: usize = PATH + PATH_BYTES_MAX / 8;

    /// Those of stream `number`.
    ///
    /// # Panics
    /// Where `words` has fewer.
    pub fn of(words: &'a [AtomicU64], number: usize) -> Progress<'a> {
        Progress(&words[number * Progress::WORDS..(number + 1) * Progress::WORDS])
    }

    /// All that is before `position` is written, or counted.
    pub fn goes_on_at(&self, position: u64) {
        self.set(POSITION, position);
    }

    /// The stream says that so much was lost.
    pub fn says_lost(&self, lost: u64) {
        self.set(LOST, lost);
    }

    /// Its reader has counted so much as lost.
    pub fn has_counted(&self, counted: u64) {
        self.set(UNTOLD, counted);
    }

    /// A packet is going to be written, with all that is before `position`, and what was lost so far.
    pub(super) fn begin(&self, position: u64, lost: u64, next: &NextWrite) {
        let path = next.path.as_os_str().as_bytes();
        let path = &path[..path.len().min(PATH_BYTES_MAX)];
        for (at, bytes) in path.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.set(PATH + at, u64::from_ne_bytes(word));
        }
        let words = [position, lost, next.before, next.after, path.len() as u64];
        let places = [NEXT_POSITION, NEXT_LOST, BEFORE, AFTER, PATH_BYTES];
        places.into_iter().zip(words).for_each(|(at, word)| self.set(at, word));
        self.set(STATE, WRITING);
    }

    /// It is written, or nothing of it is.
    pub(super) fn end(&self, is_written: bool) {
        if is_written {
            self.set(STATE, WRITTEN);
            self.set(POSITION, self.word(NEXT_POSITION));
            self.set(LOST, self.word(NEXT_LOST));
        }
        self.set(STATE, SETTLED);
    }

    /// What a reader that was killed has left.
    pub fn found(&self) -> Found {
        let found = |position, lost| Found {
            position: self.word(position),
            lost: self.word(lost),
            counted: self.word(UNTOLD),
        };
        let (settled, next) = (found(POSITION, LOST), found(NEXT_POSITION, NEXT_LOST));
        match self.word(STATE) {
            SETTLED => settled,
            WRITING if !self.is_whole() => settled,
            _ => next,
        }
    }

    /// Whether the packet that was being written is in its file; else no part of it is.
    fn is_whole(&self) -> bool {
        let bytes: Vec<u8> = (PATH..Progress::WORDS).flat_map(|at| self.word(at).to_ne_bytes()).collect();
        let path = Path::new(OsStr::from_bytes(&bytes[..(self.word(PATH_BYTES) as usize).min(bytes.len())]));
        let length = fs::metadata(path).map_or(0, |file| file.len());
        let is_whole = length >= self.word(AFTER);
        if !is_whole
            && length > self.word(BEFORE)
            && let Ok(file) = File::options().write(true).open(path)
        {
            // Readers take what is whole in any case.
            let _ = file.set_len(self.word(BEFORE));
        }
        is_whole
    }

    fn word(&self, at: usize) -> u64 {
        self.0[at].load(SeqCst)
    }

    fn set(&self, at: usize, word: u64) {
        self.0[at].store(word, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..Progress::WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    /// What is found of a reader that was killed at `state`, with so many bytes in the file, which had 100 and was to have 250; and how many it has then.
    fn found(state: u64, bytes: u64) -> (Found, u64) {
        let path = std::env::temp_dir().join(format!("weir-progress-{}", std::process::id()));
        fs::write(&path, vec![0; bytes as usize]).unwrap();
        let words = words();
        let progress = Progress::of(&words, 0);
        progress.goes_on_at(16);
        progress.says_lost(1);
        progress.has_counted(5);
        progress.begin(64, 3, &NextWrite { path: path.clone(), before: 100, after: 250 });
        progress.set(STATE, state);
        let found = progress.found();
        let left = fs::metadata(&path).unwrap().len();
        fs::remove_file(&path).unwrap();
        (found, left)
    }

    #[test]
    fn a_packet_that_is_whole_counts_and_a_torn_one_is_taken_off() {
        let before = Found { position: 16, lost: 1, counted: 5 };
        let after = Found { position: 64, lost: 3, counted: 5 };
        assert_eq!(found(SETTLED, 100), (before, 100), "not begun");
        assert_eq!(found(WRITING, 100), (before, 100));
        assert_eq!(found(WRITING, 249), (before, 100));
        assert_eq!(found(WRITING, 250), (after, 250));
        assert_eq!(found(WRITTEN, 250), (after, 250));
    }

    #[test]
    fn what_was_written_counts_and_what_failed_does_not() {
        let next = NextWrite { path: "/no such file".into(), before: 0, after: 10 };
        for (is_written, expected) in [(true, (64, 3)), (false, (0, 0))] {
            let words = words();
            let progress = Progress::of(&words, 0);
            progress.begin(64, 3, &next);
            progress.end(is_written);
            let Found { position, lost, .. } = progress.found();
            assert_eq!((position, lost), expected);
        }
    }
}
