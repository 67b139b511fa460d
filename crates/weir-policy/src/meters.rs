//! What the watch sees of a process: a meter for each site, and clocks; and how meters are read against the CPU clock.
//!
//! In: whoever implements [`Meters`], the session for a traced process and the tests for a simulated one. Out: [`Reading`]s, and
//! [`Snapshot`]s, which are of one moment of the process's CPU time as nearly as may be: whoever reads may lose the CPU, and the
//! process goes on meanwhile. Guaranteed: a meter is read `TRIES` times at most for one snapshot.

use std::time::Duration;

/// Meters are to be read so many at a time, between two readings of the CPU clock.
pub const AT_ONCE: usize = 64;

/// Where the CPU clock went on by more than this in between, they are read again, so often at most.
const NARROW_NS: u64 = 20_000;
const TRIES: usize = 5;

/// How the hits at a site are to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All run, and nothing is counted.
    Armed,
    /// All run and are counted; the next few are timed.
    Metered,
    /// One of two to this power runs, and is timed; the others are counted.
    Sampled {
        /// The power.
        shift: u8,
    },
    /// None runs.
    Shut,
}

/// What a meter has counted since the site was attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Those that ran.
    pub hits: u64,
    /// Those that were left out.
    pub missed: u64,
    /// Those of `hits` that were timed.
    pub timed: u64,
    /// Of timed hits together, less what the timing itself takes.
    pub ns: u64,
}

/// A process whose sites have meters.
pub trait Meters {
    /// A clock that only goes forward.
    fn now(&self) -> Duration;
    /// CPU time of the process so far, in ns; none if it has ended.
    fn cpu_ns(&self) -> Option<u64>;
    /// What a site's meter says.
    fn read(&self, site: usize) -> Reading;
    /// The sites where it failed.
    fn set(&mut self, modes: &[(usize, Mode)]) -> Vec<usize>;
    /// Puts the text back; the sites where that is not possible.
    fn withdraw(&mut self, sites: &[usize]) -> Vec<usize>;
}

/// Meters of some sites, and the CPU time of the process before they were read and after.
#[derive(Debug)]
pub struct Snapshot {
    /// In the order in which the sites were given.
    pub readings: Vec<Reading>,
    /// CPU time of the process before.
    pub from_ns: u64,
    /// CPU time of the process after.
    pub to_ns: u64,
}

/// What `read` says, again and again until the CPU clock stands nearly still. `ended`: where it stands in a process that has ended.
pub fn at_once(process: &dyn Meters, ended: u64, mut read: impl FnMut() -> Vec<Reading>) -> Snapshot {
    let clock = || process.cpu_ns().unwrap_or(ended);
    let mut take = || {
        let from_ns = clock();
        let readings = read();
        Snapshot { readings, from_ns, to_ns: clock() }
    };
    let is_narrow = |taken: &Snapshot| taken.to_ns.saturating_sub(taken.from_ns) <= NARROW_NS;
    let mut taken = take();
    for _ in 1..TRIES {
        if is_narrow(&taken) {
            break;
        }
        taken = take();
    }
    taken
}
