//! When programs run that are at no place of a process: BEGIN, END, interval probes, and those of a signal.
//!
//! In: their triggers, and who runs them ([`Caller`]). What they print goes through the same ring as the target's records, so the order is kept.
//! [`InWeir`] runs them in weir's interpreter: they are few, and run seldom.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use weir_codegen::Compiled;
use weir_interp::Environment;
use weir_ir::{Asked, Trigger};
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
pub(crate) struct Controller {
    begin: Vec<usize>,
    end: Vec<usize>,
    /// At a signal.
    signalled: Vec<usize>,
    /// Of intervals that have not begun.
    periods: Vec<(usize, Duration)>,
    intervals: Vec<Interval>,
}

#[derive(Debug)]
struct Interval {
    program: usize,
    period: Duration,
    next: Instant,
}

impl Controller {
    pub(crate) fn new(compiled: &Compiled) -> Controller {
        let all = || compiled.triggers.iter().enumerate();
        let of = |wanted: Trigger| all().filter(move |(_, trigger)| **trigger == wanted).map(|(at, _)| at);
        let period = |(program, trigger): (usize, &Trigger)| match *trigger {
            Trigger::Interval { period_ns } => Some((program, Duration::from_nanos(period_ns))),
            _ => None,
        };
        Controller {
            begin: of(Trigger::Begin).collect(),
            end: of(Trigger::End).collect(),
            signalled: of(Trigger::Asked { by: Asked::Signal }).collect(),
            periods: all().filter_map(period).collect(),
            intervals: Vec::new(),
        }
    }

    pub(crate) fn begin(&self, caller: &dyn Caller) -> Result<(), Failure> {
        self.begin.iter().try_for_each(|program| caller.call(*program))
    }

    pub(crate) fn end(&self, caller: &dyn Caller) -> Result<(), Failure> {
        self.end.iter().try_for_each(|program| caller.call(*program))
    }

    pub(crate) fn signalled(&self, caller: &dyn Caller) -> Result<(), Failure> {
        self.signalled.iter().try_for_each(|program| caller.call(*program))
    }

    /// The first interval of each ends one period after `now`.
    pub(crate) fn start_intervals(&mut self, now: Instant) {
        let interval = |(program, period)| Interval { program, period, next: now + period };
        self.intervals.extend(self.periods.drain(..).map(interval));
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
}
