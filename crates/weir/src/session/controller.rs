//! Programs that run in weir itself: BEGIN, END and interval probes.
//!
//! In: verified programs, and the segment that they share with the target. They run in the interpreter: they are
//! few, and run seldom. What they print goes through the same ring as the target's records, so the order is kept.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use weir_codegen::Compiled;
use weir_interp::Environment;
use weir_ir::Trigger;
use weir_rt::executable::Frame;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct Controller<'a> {
    triggers: &'a [Trigger],
    verified: &'a [VerifiedProgram],
    intervals: Vec<Interval>,
}

#[derive(Debug)]
struct Interval {
    program: usize,
    period: Duration,
    next: Instant,
}

impl<'a> Controller<'a> {
    pub(crate) fn new(compiled: &'a Compiled, verified: &'a [VerifiedProgram]) -> Controller<'a> {
        Controller { triggers: &compiled.triggers, verified, intervals: Vec::new() }
    }

    pub(crate) fn begin(&self, segment: &Segment) -> Result<(), Failure> {
        self.run_each(segment, &|trigger| *trigger == Trigger::Begin)
    }

    pub(crate) fn end(&self, segment: &Segment) -> Result<(), Failure> {
        self.run_each(segment, &|trigger| *trigger == Trigger::End)
    }

    /// The first interval of each ends one period after `now`.
    pub(crate) fn start_intervals(&mut self, now: Instant) {
        for (program, trigger) in self.triggers.iter().enumerate() {
            if let Trigger::Interval { period_ns } = *trigger {
                let period = Duration::from_nanos(period_ns);
                self.intervals.push(Interval { program, period, next: now + period });
            }
        }
    }

    pub(crate) fn next_interval(&self) -> Option<Instant> {
        self.intervals.iter().map(|interval| interval.next).min()
    }

    /// Runs each interval that is due, once: what fell due several times while weir did not run is not made up for.
    pub(crate) fn run_due_intervals(&mut self, segment: &Segment, now: Instant) -> Result<(), Failure> {
        let mut due = Vec::new();
        for interval in self.intervals.iter_mut().filter(|interval| interval.next <= now) {
            due.push(interval.program);
            interval.next += interval.period;
            if interval.next <= now {
                interval.next = now + interval.period;
            }
        }
        due.into_iter().try_for_each(|program| self.run(segment, program))
    }

    fn run_each(&self, segment: &Segment, wanted: &dyn Fn(&Trigger) -> bool) -> Result<(), Failure> {
        for (program, _) in self.triggers.iter().enumerate().filter(|(_, trigger)| wanted(trigger)) {
            self.run(segment, program)?;
        }
        Ok(())
    }

    fn run(&self, segment: &Segment, program: usize) -> Result<(), Failure> {
        let program = &self.verified[program];
        let mut frame = Frame::default();
        let result = weir_interp::run(program, &Environment { segment }, &mut frame);
        // A verified program does not fault.
        result.map(|_| ()).map_err(|fault| Failure::Bug(anyhow!("{}: {fault}", program.name())))
    }
}
