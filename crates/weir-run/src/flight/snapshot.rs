//! Copies of rings → the folder of a trace.
//!
//! Each ring is a stream. What was overwritten is older than what is there: the stream begins with two empty packets, of which the first says
//! that nothing was discarded when the run began, and the second how much between then and the first record, so that readers tell it
//! with that time. What else a stream lacks is in its last packet: records that were being written, or were refused.
//!
//! What was left out before it came to a ring is told of the last one, of the rings for code that has no CPU's.

use std::fmt;
use std::path::Path;

use weir_event::recorded::Reader;
use weir_rt::segment::{RingCopy, Snapshot};
use weir_trace::Error;
use weir_trace::class::TraceClass;
use weir_trace::write::{Folder, Format};

use crate::clock::now_ns;
use crate::recorder::PACKET_BYTES;

/// What the copies mean.
pub(super) struct Content<'a> {
    pub(super) format: Format,
    /// When the run began, ns of CLOCK_MONOTONIC.
    pub(super) began: u64,
    pub(super) reader: &'a Reader,
    /// The time of ticks, where it can be known.
    pub(super) ns: &'a dyn Fn(u64) -> Option<u64>,
    /// Events that came to no ring.
    pub(super) unwritten: u64,
}

/// What a snapshot has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Written {
    recorded: u64,
    overwritten: u64,
    /// For another reason.
    discarded: u64,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events, {} before them overwritten", self.recorded, self.overwritten)?;
        match self.discarded {
            0 => Ok(()),
            some => write!(f, ", {some} discarded"),
        }
    }
}

/// Writes a trace to a folder that is not there yet, or empty.
pub(super) fn write(
    folder: &Path,
    class: &TraceClass,
    copies: Vec<RingCopy>,
    content: &Content<'_>,
) -> Result<Written, Error> {
    let folder = Folder::create(folder, class, content.format)?;
    let mut written = Written::default();
    let last = copies.len().saturating_sub(1);
    for (lane, copy) in copies.into_iter().enumerate() {
        let unwritten = if lane == last { content.unwritten } else { 0 };
        write_ring(&folder, lane, copy.read(), unwritten, content, &mut written)?;
    }
    Ok(written)
}

fn write_ring(
    folder: &Folder,
    lane: usize,
    ring: Snapshot,
    unwritten: u64,
    content: &Content<'_>,
    written: &mut Written,
) -> Result<(), Error> {
    let mut discarded = ring.dropped + ring.uncommitted + ring.corrupt + unwritten;
    if ring.records.is_empty() && ring.overwritten + discarded == 0 {
        return Ok(());
    }
    let now = now_ns();
    // A process that may not read the counter has no times of its own.
    let time = |ticks: u64| if ticks == 0 { None } else { (content.ns)(ticks) };
    let mut stream = folder.stream(&format!("stream_{lane}"), 0, lane as u64, lane as u32, PACKET_BYTES)?;
    stream.packet(&[], content.began, content.began)?;
    if ring.overwritten > 0 {
        let first = ring.records.first().and_then(|record| time(record.ticks)).unwrap_or(now);
        stream.lost(ring.overwritten);
        stream.packet(&[], content.began, first.max(content.began))?;
    }
    for record in &ring.records {
        match content.reader.fields(&record.bytes) {
            Some((event, fields)) => {
                stream.record(event, time(record.ticks).unwrap_or(now), &[fields])?;
                written.recorded += 1;
            }
            None => discarded += 1,
        }
    }
    if discarded > 0 {
        stream.flush()?;
        stream.lost(ring.overwritten + discarded);
    }
    stream.finish(now)?;
    written.overwritten += ring.overwritten;
    written.discarded += discarded;
    Ok(())
}
