//! Times of sides, taken in turn.
//!
//! A sample is the CPU time of this thread over a batch of runs, divided by their number, less the same of the empty
//! program on the same engine in the same round. CPU time leaves out what other processes took; that of the kernel's
//! runs counts, since they are this thread's system call. In each round every program runs on every side before the
//! next round; the order of sides turns.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};

use crate::limits::RUNS_MAX;
use crate::sides::{KINDS, Side};

/// A program on an engine, with how many runs make a batch.
pub struct Lane<'a> {
    /// The figure's subject.
    pub subject: String,
    side: Box<dyn Side + 'a>,
    runs: u32,
}

impl std::fmt::Debug for Lane<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({}, {} runs)", self.subject, self.runs)
    }
}

impl<'a> Lane<'a> {
    /// Finds how many runs take `batch`.
    pub fn new(subject: &str, mut side: Box<dyn Side + 'a>, batch: Duration) -> Result<Lane<'a>> {
        let mut runs = 1;
        loop {
            let took = cpu_time(|| side.run(runs).map(drop))?;
            if took >= batch || runs == RUNS_MAX {
                break;
            }
            // At most tenfold: the first runs are the slowest.
            let wanted = f64::from(runs) * batch.as_secs_f64() / took.as_secs_f64().max(1e-7) * 1.1;
            runs = (wanted.min(f64::from(runs) * 10.0) as u32).clamp(runs + 1, RUNS_MAX);
        }
        Ok(Lane { subject: subject.to_owned(), side, runs })
    }

    /// Nanoseconds of one run, over a batch.
    pub fn sample(&mut self) -> Result<f64> {
        let took = cpu_time(|| self.side.run(self.runs).map(drop))?;
        Ok(took.as_nanos() as f64 / f64::from(self.runs))
    }
}

/// The lanes of one program.
#[derive(Debug)]
pub struct Case<'a> {
    pub name: String,
    pub lanes: Vec<Lane<'a>>,
}

/// Samples of a round by case and subject; the empty case is subtracted, and not among them.
pub type Samples = BTreeMap<(String, String), f64>;

/// The name under which the first engine is measured once more in each round.
pub const AGAIN: &str = "A/A";

/// Measures `cases` once; `empty` has a lane for each subject. `round` counts from 0.
pub fn measure(empty: &mut Case<'_>, cases: &mut [Case<'_>], round: usize) -> Result<Samples> {
    let mut samples = Samples::new();
    let idle: BTreeMap<String, f64> = round_of(empty, round)?.into_iter().collect();
    for case in cases {
        for (subject, ns) in round_of(case, round)? {
            let idle = idle.get(subject.as_str()).copied();
            let net = ns - idle.with_context(|| format!("{subject}: no empty run"))?;
            samples.insert((case.name.clone(), subject), net);
        }
    }
    Ok(samples)
}

/// One sample of every lane, and of the first again.
fn round_of(case: &mut Case<'_>, round: usize) -> Result<Vec<(String, f64)>> {
    let mut found = Vec::new();
    let again = usize::from(case.lanes.first().is_some_and(|lane| lane.subject == KINDS[0].name));
    for place in order(round, case.lanes.len() + again) {
        // The place after the last is the second turn of the first engine.
        let (lane, subject) = match case.lanes.get(place) {
            Some(lane) => (place, lane.subject.clone()),
            None => (0, AGAIN.to_owned()),
        };
        let Some(lane) = case.lanes.get_mut(lane) else { continue };
        let ns = lane.sample().with_context(|| format!("{} on {subject}", case.name))?;
        found.push((subject, ns));
    }
    Ok(found)
}

/// Rotated by one every other round, and every other round backwards.
pub fn order(round: usize, places: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..places).collect();
    order.rotate_left(round / 2 % places.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// CPU time that this thread took, in and outside the kernel.
pub fn cpu_time(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let before = now()?;
    work()?;
    Ok(now()?.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side whose run does nothing but count.
    struct Counter(u64);

    impl Side for Counter {
        fn run(&mut self, times: u32) -> Result<u32> {
            for _ in 0..times {
                self.0 = std::hint::black_box(self.0 + 1);
            }
            Ok(self.0 as u32)
        }
    }

    fn lane(subject: &str) -> Lane<'static> {
        Lane::new(subject, Box::new(Counter(0)), Duration::from_micros(50)).unwrap()
    }

    #[test]
    fn batches_are_as_long_as_asked() {
        let mut lane = lane("weir");
        let ns = lane.sample().unwrap();
        assert!(ns > 0.0 && f64::from(lane.runs) * ns > 10_000.0, "{lane:?}: {ns} ns");
    }

    #[test]
    fn every_subject_and_the_second_turn_of_the_first_have_a_sample_a_round() {
        let mut empty = Case { name: "empty".into(), lanes: vec![lane("weir"), lane("b")] };
        let mut cases = [Case { name: "p".into(), lanes: vec![lane("weir"), lane("b")] }];
        for round in 0..3 {
            let samples = measure(&mut empty, &mut cases, round).unwrap();
            let found: Vec<&str> = samples.keys().map(|(_, subject)| subject.as_str()).collect();
            assert_eq!(found, [AGAIN, "b", "weir"]);
        }
    }

    #[test]
    fn places_are_taken_equally_often() {
        for place in 0..3 {
            for lane in 0..3 {
                assert_eq!((0..6).filter(|round| order(*round, 3)[place] == lane).count(), 2);
            }
        }
    }
}
