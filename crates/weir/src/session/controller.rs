//! When programs run that are at no place of a process: BEGIN, END and interval probes.
//!
//! In: their triggers, and who runs them ([`Caller`]). What they print goes through the same ring as the target's records, so the order is kept.
//! [`InWeir`] runs them in weir's interpreter: they are few, and run seldom.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use weir_codegen::Compiled;
use weir_interp::Environment;
use weir_ir::Trigger;
use weir_rt::executable::Frame;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

use crate::failure::Failure;

/// Who runs programs.
pub(crate) trait Caller {
    /// Runs the program of this number once.
    fn call(&self, program: usize) -> Result<(), Failure>;
}

/// Runs them here, on the maps of a segment.
pub(crate) struct InWeir<'a> {
    pub(crate) verified: &'a [VerifiedProgram],
    pub(crate) segment: &'a Segment,
}

impl Caller for InWeir<'_> {
    fn call(&self, program: usize) -> Result<(), Failure> {
        let program = &self.verified[program];
        let mut frame = Frame::default();
        let result = weir_interp::run(program, &Environment { segment: self.segment }, &mut frame);
        // A verified program does not fault.
        result.map(|_| ()).map_err(|fault| Failure::Bug(anyhow!("{}: {fault}", program.name())))
    }
}

#[derive(Debug)]
pub(crate) struct Controller<'a> {
    triggers: &'a [Trigger],
    intervals: Vec<Interval>,
}

#[derive(Debug)]
struct Interval {
    program: usize,
    period: Duration,
    next: Instant,
}

impl<'a> Controller<'a> {
    pub(crate) fn new(compiled: &'a Compiled) -> Controller<'a> {
        Controller { triggers: &compiled.triggers, intervals: Vec::new() }
    }

    pub(crate) fn begin(&self, caller: &dyn Caller) -> Result<(), Failure> {
        self.run_each(caller, &|trigger| *trigger == Trigger::Begin)
    }

    pub(crate) fn end(&self, caller: &dyn Caller) -> Result<(), Failure> {
        self.run_each(caller, &|trigger| *trigger == Trigger::End)
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
    pub(crate) fn run_due_intervals(&mut self, caller: &dyn Caller, now: Instant) -> Result<(), Failure> {
        let mut due = Vec::new();
        for interval in self.intervals.iter_mut().filter(|interval| interval.next <= now) {
            due.push(interval.program);
            interval.next += interval.period;
            if interval.next <= now {
                interval.next = now + interval.period;
            }
        }
        due.into_iter().try_for_each(|program| caller.call(program))
    }

    fn run_each(&self, caller: &dyn Caller, wanted: &dyn Fn(&Trigger) -> bool) -> Result<(), Failure> {
        let mut of_kind = self.triggers.iter().enumerate().filter(|(_, trigger)| wanted(trigger));
        of_kind.try_for_each(|(program, _)| caller.call(program))
    }
}
