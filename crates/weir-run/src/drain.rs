//! Empties the rings of a recording in a thread of its own, while the run's own thread does what takes long: attaching to a process, taking
//! out, following libraries.
//!
//! In: a [`Recorder`], the clock that says when its records were, the rings. Out: the same again when the recording ends. The clock is kept
//! here meanwhile.
//!
//! Nobody else reads the rings while this runs, but between two of its turns ([`Sink::paused`]). A run that ends without asking for the
//! recorder, by an error, drops it, and the thread with it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use weir_rt::Clock;
use weir_rt::segment::{RingMark, Segment};
use weir_sessions::counts::Counts;

use crate::captured::Captured;
use crate::failure::Failure;
use crate::notice::Notice;
use crate::part::Round;
use crate::recorder::Recorder;
use crate::sink::{Ending, Finished, READ_INTERVAL, Sink};

/// How long events may lie in rings that they fill fast.
const BUSY_INTERVAL: Duration = Duration::from_millis(1);

/// The same where no process is traced that records any.
const IDLE_INTERVAL: Duration = Duration::from_millis(20);

/// How often the rings are read at the end of a recording.
const LAST_TURNS_MAX: usize = 1024;

/// How long the thread leaves the rings to who waits for them, before it looks again whether somebody does.
const GIVING_WAY: Duration = Duration::from_micros(50);

/// The thread, which ends with this.
pub(super) struct Drain {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Only what was lost is reported.
    is_quiet: bool,
}

struct Shared {
    segment: Arc<Segment>,
    /// None when the recorder was given back.
    state: Mutex<Option<State>>,
    /// Those who wait for the state: the thread lets them go first.
    waiting: AtomicU32,
    is_over: AtomicBool,
    /// Some process records events.
    has_writers: AtomicBool,
    has_failed: AtomicBool,
    /// What [`Sink::fill`] says.
    fill: AtomicU64,
}

struct State {
    recorder: Recorder,
    clock: Option<Clock>,
}

impl Drain {
    pub(super) fn start(
        mut recorder: Recorder,
        clock: Option<Clock>,
        segment: Arc<Segment>,
        is_quiet: bool,
    ) -> Result<Drain, Failure> {
        recorder.keep(&segment)?;
        let shared = Arc::new(Shared {
            segment,
            state: Mutex::new(Some(State { recorder, clock })),
            waiting: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            has_writers: AtomicBool::new(true),
            has_failed: AtomicBool::new(false),
            fill: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let started = thread::Builder::new().name("weir-drain".to_owned()).spawn(move || of_thread.run());
        let thread = Some(started.context("starting a thread").map_err(Failure::Machine)?);
        Ok(Drain { shared, thread, is_quiet })
    }

    fn held<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        self.shared.waiting.fetch_add(1, Ordering::SeqCst);
        let mut state = self.shared.state();
        self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
        // SANITY: only `end` takes it, which takes this.
        work(state.as_mut().expect("a recorder"))
    }

    /// Ends the thread; what it had.
    fn ended(mut self) -> (Recorder, Option<Clock>) {
        self.stop();
        // SANITY: nobody else takes it.
        let State { recorder, clock } = self.shared.state().take().expect("a recorder");
        (recorder, clock)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Sink for Drain {
    fn begins(&mut self) {
        self.held(|state| state.recorder.begins());
    }

    /// The thread reads.
    fn until(&self, _: bool) -> Duration {
        Duration::MAX
    }

    fn has_writers(&mut self, has_writers: bool) {
        if self.shared.has_writers.swap(has_writers, Ordering::Relaxed) != has_writers {
            self.wake();
        }
    }

    fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    fn fill(&self) -> u64 {
        self.shared.fill.swap(0, Ordering::Relaxed)
    }

    fn captured(&mut self, mark: &mut Option<RingMark>, waits: bool) -> Option<Option<Captured>> {
        self.held(|State { recorder, clock }| {
            let segment = &self.shared.segment;
            if !recorder.has_read(segment, mark) {
                recorder.drain(segment, clock.as_ref(), false);
            }
            let is_due = recorder.has_read(segment, mark) || !waits;
            is_due.then(|| recorder.take_captured())
        })
    }

    fn paused(&mut self, work: &mut dyn FnMut()) {
        self.held(|state| {
            work();
            state.recorder.settle_kept(&self.shared.segment);
        });
    }

    fn rotate(&mut self, name: &str) -> Result<PathBuf, Failure> {
        self.held(|State { recorder, clock }| {
            recorder.rotate(name, &self.shared.segment, clock.as_ref()).map(Path::to_owned)
        })
    }

    fn counts(&mut self, segment: &Segment) -> Counts {
        self.held(|state| state.recorder.counts(segment))
    }

    fn end(self: Box<Self>, round: &mut Round<'_>, ending: &mut Ending<'_>) -> Result<Finished, Failure> {
        let (segment, is_quiet, shared) = (round.segment, self.is_quiet, Arc::clone(&self.shared));
        let (mut recorder, clock) = self.ended();
        recorder.set_ending();
        let drain = |recorder: &mut Recorder, is_over| {
            // Somebody who writes on while this reads is not read for ever.
            let mut turns = 0;
            while turns < LAST_TURNS_MAX
                && (recorder.drain(segment, clock.as_ref(), is_over) || recorder.waits_for_room())
            {
                turns += 1;
            }
        };
        drain(&mut recorder, false);
        recorder.write_aside(segment, clock.as_ref());
        recorder.set_nothing_aside();
        drain(&mut recorder, ending.is_over);
        let fill = shared.fill.load(Ordering::Relaxed).max(recorder.take_fill());
        let captured = recorder.take_captured();
        let (recorded, counts) = recorder.finish(segment);
        let (has_failed, count) = (recorded.has_failed(), recorded.discarded());
        let lost = || Notice::Lost { count, what: "events were discarded".to_owned() };
        let notice = match is_quiet {
            false => Some(Notice::Recorded(recorded)),
            true => (count > 0).then(lost),
        };
        Ok(Finished { counts, has_failed, fill, captured, notice, answers: Vec::new() })
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            if self.waiting.load(Ordering::SeqCst) > 0 {
                thread::park_timeout(GIVING_WAY);
                continue;
            }
            let pause = self.turn();
            if !pause.is_zero() {
                thread::park_timeout(pause);
            }
        }
    }

    /// Writes what is there; how long to wait for more.
    fn turn(&self) -> Duration {
        let mut state = self.state();
        let Some(State { recorder, clock }) = &mut *state else { return IDLE_INTERVAL };
        if let Some(clock) = clock {
            clock.keep(&self.segment);
        }
        let is_more = recorder.drain(&self.segment, clock.as_ref(), false);
        self.has_failed.store(recorder.has_failed(), Ordering::Relaxed);
        self.fill.fetch_max(recorder.take_fill(), Ordering::Relaxed);
        match () {
            () if is_more => Duration::ZERO,
            () if recorder.is_busy() => BUSY_INTERVAL,
            () if self.has_writers.load(Ordering::Relaxed) => READ_INTERVAL,
            () => IDLE_INTERVAL,
        }
    }

    /// A thread that has panicked tells so when it is waited for.
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
