//! [`Capture`]: records of a source → filter, cut, count → sinks.

use std::os::fd::BorrowedFd;

use weir_pcapng::{Interface, Names, Statistics};

use crate::error::Error;
use crate::filter::{Classify, Filters};
use crate::record::Record;
use crate::sink::{Moment, Sink};
use crate::source::{Counts, Drained, Filtered, Flow, Source, Take};

/// What a step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// There are no packets for now: wait for the descriptors.
    Idle,
    /// There may be more at once.
    More,
    /// There will be no more: the source has ended, or as many packets were kept as were asked for.
    Ended,
}

/// What came of an interface so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Its name, or its number where it has none.
    pub name: String,
    /// Packets that were kept.
    pub kept: u64,
    /// Bytes that were kept of them.
    pub kept_bytes: u64,
    /// Packets that the filter rejected in this process; `None` where they do not come here.
    pub rejected: Option<u64>,
    /// What the source counted.
    pub counts: Counts,
}

impl Tally {
    /// Packets that were lost, as far as is known.
    pub fn dropped(&self) -> u64 {
        self.counts.os_dropped.unwrap_or(0) + self.counts.interface_dropped.unwrap_or(0)
    }
}

/// A capture that runs. Dropped without [`Capture::finish`], what sinks have in memory is lost.
pub struct Capture<'c> {
    source: Box<dyn Source + 'c>,
    flow: Kept<'c>,
    counts: Vec<Counts>,
    begun: Moment,
}

/// What is done with records.
struct Kept<'c> {
    sinks: Vec<Box<dyn Sink + 'c>>,
    filters: Option<Box<dyn Filters + 'c>>,
    /// The filters that were asked for, by their link types. Interfaces of one link type share one: a file may have many thousands.
    ready: Vec<(u16, Box<dyn Classify>)>,
    snaplen: u32,
    /// How many packets are still to be kept.
    left: Option<u64>,
    interfaces: Vec<At>,
    now: Moment,
}

/// An interface.
struct At {
    name: String,
    /// The number of its filter in `ready`.
    filter: Option<usize>,
    kept: u64,
    kept_bytes: u64,
    rejected: u64,
    /// Lost before packets that were rejected, and so before the next one that is kept.
    drops: u64,
}

impl<'c> Capture<'c> {
    /// Nothing is captured before the first [`Capture::step`]. `filters`: none keeps every packet; `most`: packets after which it ends.
    pub fn new(
        source: Box<dyn Source + 'c>,
        filters: Option<Box<dyn Filters + 'c>>,
        sinks: Vec<Box<dyn Sink + 'c>>,
        snaplen: u32,
        most: Option<u64>,
        now: Moment,
    ) -> Capture<'c> {
        let (ready, interfaces) = (Vec::new(), Vec::new());
        let flow = Kept { sinks, filters, ready, snaplen, left: most, interfaces, now };
        Capture { source, flow, counts: Vec::new(), begun: now }
    }

    /// Keeps what there is, without waiting.
    ///
    /// # Errors
    /// If the source or a sink fails. [`Capture::finish`] is still to be called.
    pub fn step(&mut self, now: Moment) -> Result<Step, Error> {
        self.flow.now = now;
        if self.flow.left == Some(0) {
            return Ok(Step::Ended);
        }
        if self.flow.is_full() {
            self.rotate()?;
        }
        Ok(match self.source.drain(&mut self.flow)? {
            _ if self.flow.left == Some(0) => Step::Ended,
            Drained::More => Step::More,
            Drained::Ended => Step::Ended,
            Drained::Idle => Step::Idle,
        })
    }

    fn rotate(&mut self) -> Result<(), Error> {
        self.counts = self.source.counts()?;
        let statistics = self.statistics();
        let now = self.flow.now;
        let full = self.flow.sinks.iter_mut().filter(|sink| sink.is_full(now));
        for sink in full {
            sink.rotate(now, &statistics)?;
        }
        Ok(())
    }

    /// Has sinks give away what they have in memory.
    ///
    /// # Errors
    /// If one fails.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flow.sinks.iter_mut().try_for_each(|sink| sink.flush())
    }

    /// No new packets from here on; steps until [`Step::Ended`] give those that were accepted before.
    ///
    /// # Errors
    /// If the source cannot be stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.source.stop()
    }

    /// Ends sinks with the statistics of each interface, all that can be ended.
    ///
    /// # Errors
    /// The first failure.
    pub fn finish(&mut self, now: Moment) -> Result<(), Error> {
        self.flow.now = now;
        let counted = self.source.counts().map(|counts| self.counts = counts);
        let statistics = self.statistics();
        let ended = self.flow.sinks.iter_mut().map(|sink| sink.end(&statistics));
        // Each is ended, whatever becomes of the others.
        let ended = ended.fold(Ok(()), Result::and);
        ended.and(counted)
    }

    /// What to wait for.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.source.descriptors()
    }

    /// What came of each interface so far.
    ///
    /// # Errors
    /// If the source cannot say.
    pub fn tallies(&mut self) -> Result<Vec<Tally>, Error> {
        self.counts = self.source.counts()?;
        let tally = |(index, at): (usize, &At)| Tally {
            name: at.name.clone(),
            kept: at.kept,
            kept_bytes: at.kept_bytes,
            rejected: at.filter.is_some().then_some(at.rejected),
            counts: self.counts_of(index),
        };
        Ok(self.flow.interfaces.iter().enumerate().map(tally).collect())
    }

    /// For each interface, from what the source counted last.
    fn statistics(&self) -> Vec<Statistics> {
        let of = |(index, at): (usize, &At)| {
            let counts = self.counts_of(index);
            if let Some(of_file) = counts.of_file {
                return of_file;
            }
            Statistics {
                time: Some(self.flow.now.epoch_ns),
                start: Some(self.begun.epoch_ns),
                end: Some(self.flow.now.epoch_ns),
                received: counts.received,
                dropped: counts.interface_dropped,
                accepted: match at.filter {
                    Some(_) => Some(at.kept),
                    None => counts.accepted,
                },
                os_dropped: counts.os_dropped,
                delivered: Some(at.kept),
                comments: Vec::new(),
            }
        };
        self.flow.interfaces.iter().enumerate().map(of).collect()
    }

    /// What the source counted last at an interface.
    fn counts_of(&self, index: usize) -> Counts {
        self.counts.get(index).cloned().unwrap_or_default()
    }
}

impl Kept<'_> {
    fn is_full(&self) -> bool {
        self.sinks.iter().any(|sink| sink.is_full(self.now))
    }

    /// The number of a link type's filter in `ready`; none keeps every packet.
    fn filter(&mut self, link_type: u16) -> Result<Option<usize>, Error> {
        let Some(filters) = &self.filters else { return Ok(None) };
        if let Some(known) = self.ready.iter().position(|(known, _)| *known == link_type) {
            return Ok(Some(known));
        }
        let filter = filters.user(link_type).map_err(|error| Error::Filter { link_type, error })?;
        self.ready.push((link_type, filter));
        Ok(Some(self.ready.len() - 1))
    }
}

impl Take for Kept<'_> {
    fn interface(&mut self, interface: &Interface, filtered: Filtered) -> Result<(), Error> {
        let filter = match filtered {
            Filtered::Yes => None,
            Filtered::No => self.filter(interface.link_type)?,
        };
        let name = interface.name.clone().unwrap_or_else(|| self.interfaces.len().to_string());
        self.interfaces.push(At { name, filter, kept: 0, kept_bytes: 0, rejected: 0, drops: 0 });
        self.sinks.iter_mut().try_for_each(|sink| sink.interface(interface))
    }

    fn record(&mut self, record: &Record<'_>) -> Result<Flow, Error> {
        let at = &mut self.interfaces[record.interface];
        let mut record = *record;
        let mut most = self.snaplen;
        if let Some(filter) = at.filter.filter(|_| !record.is_accepted) {
            let keep = self.ready[filter].1.keep(&record);
            if keep == 0 {
                at.rejected += 1;
                at.drops += record.drops;
                return Ok(Flow::More);
            }
            most = most.min(keep);
        }
        record.drops += std::mem::take(&mut at.drops);
        record.bytes = &record.bytes[..record.bytes.len().min(most as usize)];
        at.kept += 1;
        at.kept_bytes += record.bytes.len() as u64;
        for sink in &mut self.sinks {
            sink.packet(&record)?;
        }
        self.left = self.left.map(|left| left - 1);
        Ok(if self.left == Some(0) || self.is_full() { Flow::Pause } else { Flow::More })
    }

    fn secrets(&mut self, kind: u32, bytes: &[u8]) -> Result<(), Error> {
        self.sinks.iter_mut().try_for_each(|sink| sink.secrets(kind, bytes))
    }

    fn names(&mut self, names: &Names<'_>) -> Result<(), Error> {
        self.sinks.iter_mut().try_for_each(|sink| sink.names(names))
    }
}

impl std::fmt::Debug for Capture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("begun", &self.begun).finish_non_exhaustive()
    }
}
