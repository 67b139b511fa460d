//! [`Sink`]: what keeps packets.

use std::time::Duration;

use weir_pcapng::{Interface, Names, Statistics};

use crate::error::Error;
use crate::record::Record;

/// A moment, as the caller's clocks say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Of a clock that is never set.
    pub monotonic: Duration,
    /// Nanoseconds since the epoch.
    pub epoch_ns: u64,
}

/// Keeps packets.
pub trait Sink {
    /// An interface; they are numbered in this order.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn interface(&mut self, interface: &Interface) -> Result<(), Error>;

    /// A packet that passed the filter, cut to the snapshot length.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn packet(&mut self, record: &Record<'_>) -> Result<(), Error>;

    /// Secrets of a file that is read.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn secrets(&mut self, kind: u32, bytes: &[u8]) -> Result<(), Error>;

    /// Names in a file that is read.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn names(&mut self, names: &Names<'_>) -> Result<(), Error>;

    /// Whether it has to be rotated before the next packet.
    fn is_full(&self, now: Moment) -> bool;

    /// Ends what is kept together, with the statistics of each interface, and begins anew.
    ///
    /// # Errors
    /// If one of the two fails.
    fn rotate(&mut self, now: Moment, statistics: &[Statistics]) -> Result<(), Error>;

    /// What was given is where it belongs afterwards, and nothing is in memory.
    ///
    /// # Errors
    /// If that fails.
    fn flush(&mut self) -> Result<(), Error>;

    /// The end, with the statistics of each interface.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn end(&mut self, statistics: &[Statistics]) -> Result<(), Error>;
}
