//! [`Source`]: where records come from. Implement it to capture from elsewhere.

use std::os::fd::BorrowedFd;

use weir_pcapng::{Interface, Names, Statistics};

use crate::error::Error;
use crate::record::Record;

/// Yields records, and describes the interfaces that they are from.
pub trait Source {
    /// Gives `take` what there is, without waiting: each interface before its first record, records of an interface in the order in
    /// which they were captured. It returns after a bounded number of records, when there are no more, or at once when `take` asks
    /// for a pause; the record that was given then is not given again.
    ///
    /// # Errors
    /// If the source can yield no more. What it had was given before.
    fn drain(&mut self, take: &mut dyn Take) -> Result<Drained, Error>;

    /// Readable when there may be records, for a caller that waits.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// What was counted at each interface so far.
    ///
    /// # Errors
    /// If the system does not say.
    fn counts(&mut self) -> Result<Vec<Counts>, Error>;

    /// No new records from here on: those that the source has accepted are still given, after which it is [`Drained::Ended`].
    ///
    /// # Errors
    /// If the source cannot be stopped.
    fn stop(&mut self) -> Result<(), Error>;
}

/// What is done with what a source yields.
pub trait Take {
    /// An interface; they are numbered in this order. `filtered`: whether its records have passed the filter already.
    ///
    /// # Errors
    /// If the capture cannot go on; the source returns them as they are.
    fn interface(&mut self, interface: &Interface, filtered: Filtered) -> Result<(), Error>;

    /// A record.
    ///
    /// # Errors
    /// As [`Take::interface`].
    fn record(&mut self, record: &Record<'_>) -> Result<Flow, Error>;

    /// Secrets of a file that is read.
    ///
    /// # Errors
    /// As [`Take::interface`].
    fn secrets(&mut self, kind: u32, bytes: &[u8]) -> Result<(), Error>;

    /// Names in a file that is read.
    ///
    /// # Errors
    /// As [`Take::interface`].
    fn names(&mut self, names: &Names<'_>) -> Result<(), Error>;
}

/// Whether records have passed the filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filtered {
    /// The source has seen to it.
    Yes,
    /// It is to be asked about each.
    No,
}

/// Whether a source goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// With the next record.
    More,
    /// Not now.
    Pause,
}

/// How far a source came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drained {
    /// There are no more records for now.
    Idle,
    /// There may be.
    More,
    /// There will be no more.
    Ended,
}

/// What was counted at an interface since the capture began. What is `None` is not known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Packets that the interface had.
    pub received: Option<u64>,
    /// Packets that it dropped for lack of room.
    pub interface_dropped: Option<u64>,
    /// Packets that the source's filter accepted, with those that were dropped after that.
    pub accepted: Option<u64>,
    /// Accepted packets that the system dropped for lack of room.
    pub os_dropped: Option<u64>,
    /// What a file that is read counted: the last of its statistics, which are passed on as they are; without a time if there are none.
    pub of_file: Option<Statistics>,
}
