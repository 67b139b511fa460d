//! What a run does beside reading its records: parts, which know nothing of each other.
//!
//! | part | does |
//! |---|---|
//! | [`supervision`](crate::supervision) | what the supervisor of a recording asks for, and what is reported to it |
//! | [`triggers`](crate::triggers) | what events ask for |
//! | [`costs`](crate::costs) | keeps budgets, and shows what probes cost |
//!
//! What one has to say to another stands in [`Requests`] until it is taken. Who asks from outside comes first: parts look, begin and end in this order, and
//! do their work of a round in the other.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use weir_report::Summary;
use weir_rt::Clock;
use weir_rt::segment::Segment;

use crate::failure::Failure;
use crate::output::Output;
use crate::registry::Registry;
use crate::sink::{Finished, Sink};
use crate::targets::Targets;

/// What there is in a round.
pub(crate) struct Round<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) output: &'a mut Output,
    /// None where a sink keeps it.
    pub(crate) clock: Option<&'a Clock>,
    pub(crate) traced: Option<(&'a mut Targets, &'a mut Registry)>,
    pub(crate) requests: &'a mut Requests,
    /// Processes are looked at in this round.
    pub(crate) looks: bool,
}

/// What parts ask of each other, and of the run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Requests {
    /// The run is to end.
    pub(crate) stop: bool,
    /// What events have made of the recording before this one.
    pub(crate) opened: Option<bool>,
    /// Where the recording goes on.
    pub(crate) folder: Option<PathBuf>,
    /// An event asks for the next folder.
    pub(crate) rotate: bool,
    /// An event has ended the recording.
    pub(crate) stopped: bool,
    /// Nothing is recorded until an event starts it.
    pub(crate) is_waiting: bool,
}

pub(crate) trait Part {
    /// BEGIN is about to run, and nothing is probed.
    fn begin(&mut self, _segment: &Segment, _requests: &mut Requests) {}
    /// Probes are in.
    fn starts(&mut self) {}
    /// Before processes are looked at.
    fn look(&mut self, _round: &mut Round<'_>, _sink: &mut dyn Sink) -> Result<(), Failure> {
        Ok(())
    }
    /// The work of a round.
    fn round(&mut self, _round: &mut Round<'_>, _sink: &mut dyn Sink) -> Result<(), Failure> {
        Ok(())
    }
    /// How long until there is some that no descriptor says.
    fn until(&self) -> Duration {
        Duration::MAX
    }
    /// Readable when there is something to look at.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Probes are out, and what is left is about to be printed.
    fn leaves(&mut self, _segment: &Segment, _requests: &mut Requests) {}
    /// All is printed and written.
    fn end(&mut self, _segment: &Segment, _requests: &Requests, _finished: &Finished) {}
    /// Adds what it knows.
    fn summary(&self, _summary: &mut Summary) {}
}
