//! Where the records of a run go. One of these reads the rings: [`printed`](crate::printed), [`drain`](crate::drain) into a trace,
//! [`flight`](crate::flight) into snapshots.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use weir_rt::segment::{RingMark, Segment};
use weir_sessions::counts::Counts;

use crate::captured::Captured;
use crate::failure::Failure;
use crate::notice::Notice;
use crate::output::Output;
use crate::part::Round;

/// How long records may lie in the ring before they are read, and a map be without what it has to grow by.
pub(crate) const READ_INTERVAL: Duration = Duration::from_millis(5);

/// Records read in a row before all else is looked at again.
pub(crate) const RECORDS_PER_ROUND: usize = 4096;

pub(crate) trait Sink {
    /// Probes are in.
    fn begins(&mut self) {}
    /// Takes what is in the rings, if nobody else does.
    fn read(&mut self, _round: &mut Round<'_>) -> Result<(), Failure> {
        Ok(())
    }
    /// How long until it is to be called again. `is_written`: some process writes records.
    fn until(&self, is_written: bool) -> Duration;
    /// Whether some process writes records.
    fn has_writers(&mut self, _has_writers: bool) {}
    /// There is no use in going on.
    fn has_failed(&self) -> bool {
        false
    }
    /// How full the fullest ring was at most since this was asked last, in percent.
    fn fill(&self) -> u64 {
        0
    }
    /// The newest event that asked for a command, since this was asked last; none where its record is not read. `None` as long as records are being read
    /// that were in the rings at `mark`, which is set the first time: not where nothing `waits` for them.
    fn captured(&mut self, _mark: &mut Option<RingMark>, _waits: bool) -> Option<Option<Captured>> {
        Some(None)
    }
    /// Does `work` while nothing is read of the rings.
    fn paused(&mut self, work: &mut dyn FnMut()) {
        work();
    }
    /// Goes on in another folder: its path.
    fn rotate(&mut self, _name: &str) -> Result<PathBuf, Failure> {
        Err(Failure::Refused(anyhow!("no folder is written")))
    }
    /// The run's caller asks for a snapshot.
    fn ask(&mut self) {}
    /// The supervisor asks for so many; each is answered.
    fn want(&mut self, _snapshots: usize) {}
    /// The names of the latter, or why there are none.
    fn answers(&mut self) -> Vec<Result<String, String>> {
        Vec::new()
    }
    /// What was recorded so far.
    fn counts(&mut self, _segment: &Segment) -> Counts {
        Counts::default()
    }
    /// Takes what is left.
    fn end(self: Box<Self>, round: &mut Round<'_>, ending: &mut Ending<'_>) -> Result<Finished, Failure>;
}

/// How a run ends.
pub(crate) struct Ending<'a> {
    /// Nobody writes to the rings any more.
    pub(crate) is_over: bool,
    /// Runs the END probes.
    pub(crate) run_end: &'a mut dyn FnMut(&mut Output) -> Result<(), Failure>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) counts: Counts,
    /// To who has asked for snapshots and was not answered.
    pub(crate) answers: Vec<Result<String, String>>,
    /// Something could not be written.
    pub(crate) has_failed: bool,
    /// As of [`Sink::fill`].
    pub(crate) fill: u64,
    /// As of [`Sink::captured`].
    pub(crate) captured: Option<Captured>,
    pub(crate) notice: Option<Notice>,
}
