//! Records that are printed as they come.

use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use weir_event::Schema;
use weir_rt::segment::{RingReader, Segment};

use crate::clock::now_ns;
use crate::failure::Failure;
use crate::output::Output;
use crate::part::Round;
use crate::shared::Shared;
use crate::sink::{Ending, Finished, READ_INTERVAL, RECORDS_PER_ROUND, Sink};

/// How long the end of a run waits for records that are being written. A reader gives up on one after a tenth of a second.
const REST_WAIT: Duration = Duration::from_millis(200);

/// From so many on in a round the next one comes sooner.
const RECORDS_OF_BUSY: usize = 256;
const BUSY_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) struct Printed {
    shared: Rc<Shared>,
    ring: usize,
    /// The last round left records in the ring.
    has_more: bool,
    /// It had many.
    is_busy: bool,
}

impl Printed {
    pub(crate) fn new(shared: Rc<Shared>) -> Printed {
        let ring = shared.plan.compiled.ring as usize;
        Printed { shared, ring, has_more: false, is_busy: false }
    }

    fn report_lost(&self, segment: &Segment, output: &mut Output) -> Result<(), Failure> {
        output.tell_lost(segment.ring_counters(self.ring).dropped, false)?;
        output.flush()
    }

    /// All that is there now, also where those that write it go on; but for what is being written for long.
    fn read_rest(&self, segment: &Segment, output: &mut Output) -> Result<(), Failure> {
        let began = now_ns();
        let mut ring = segment.ring(self.ring);
        let (mark, waits_until) = (ring.mark(), Instant::now() + REST_WAIT);
        let mut left = mark.records_max;
        while left > 0 && !ring.has_read(&mark) {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(RECORDS_PER_ROUND);
            match read_some(&mut ring, most, segment, output)? {
                0 if Instant::now() >= waits_until => break,
                0 => thread::sleep(Duration::from_millis(1)),
                taken => left -= taken as u64,
            }
        }
        if ring.has_read(&mark) {
            output.drained(began);
        }
        self.report_lost(segment, output)
    }
}

impl Sink for Printed {
    fn read(&mut self, round: &mut Round<'_>) -> Result<(), Failure> {
        let (segment, output) = (round.segment, &mut *round.output);
        let began = now_ns();
        let taken = read_some(&mut segment.ring(self.ring), RECORDS_PER_ROUND, segment, output)?;
        self.has_more = taken == RECORDS_PER_ROUND;
        self.is_busy = taken >= RECORDS_OF_BUSY;
        if !self.has_more {
            output.drained(began);
        }
        self.report_lost(segment, output)
    }

    fn until(&self, is_written: bool) -> Duration {
        match is_written {
            true if self.has_more => Duration::ZERO,
            true if self.is_busy => BUSY_INTERVAL,
            true => READ_INTERVAL,
            false => Duration::MAX,
        }
    }

    fn end(self: Box<Self>, round: &mut Round<'_>, ending: &mut Ending<'_>) -> Result<Finished, Failure> {
        let (segment, output) = (round.segment, &mut *round.output);
        self.read_rest(segment, output)?;
        (ending.run_end)(output)?;
        self.read_rest(segment, output)?;
        if ending.is_over {
            // What END prints may come after a record that is never finished.
            for record in segment.ring(self.ring).drain_dead() {
                output.record(segment, &record.bytes)?;
            }
        }
        let first = self.shared.plan.compiled.callee_maps;
        let shown = first_of_decider(output.schema(), first);
        let decider = self.shared.given.decider.as_ref();
        output.print_all(segment, &|index| {
            let decider = decider.filter(|_| index >= shown)?;
            Some(decider.entries(segment, first, index - shown))
        })?;
        Ok(Finished::default())
    }
}

/// Does what so many records at most ask for: how many they were.
fn read_some(
    ring: &mut RingReader<'_>,
    most: usize,
    segment: &Segment,
    output: &mut Output,
) -> Result<usize, Failure> {
    let mut done = Ok(());
    let taken = ring.each(most, |bytes, _| {
        if done.is_ok()
            && let Err(failure) = output.record(segment, bytes)
        {
            done = Err(failure);
        }
    });
    done.map(|()| taken)
}

/// Where the maps of `--program` begin in the schema, the first of which has this number in the object.
fn first_of_decider(schema: &Schema, first: u32) -> usize {
    schema.maps.iter().position(|map| map.map_index >= first).unwrap_or(schema.maps.len())
}
