//! Whether events have asked for a snapshot, and when it is due.
//!
//! Programs and this share four words ([`weir_ir::flight`]). While the rings are *armed*, the first event that asks *holds* them before it
//! is recorded: nothing more is recorded, so that it and what was before it stay until they were copied. Then they are let go, and not
//! armed again before the interval has passed. Events that ask meanwhile are recorded as any; they share one snapshot, which is taken as
//! soon as the interval has passed, of what is in the rings then. With a delay behind the event nothing is ever held.
//!
//! A thread that is stopped or dies between holding the rings and its record holds them for [`HELD_MAX`] at most.

use std::time::{Duration, Instant};

use weir_codegen::Compiled;
use weir_rt::segment::Segment;

use crate::options::SnapshotOptions;
use crate::recorder::word;
use crate::triggers::{FlightMaps, set};

/// How often it is looked at. LIMIT: what is emitted meanwhile is left out.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long the rings are held without an event that has asked.
const HELD_MAX: Duration = Duration::from_secs(1);

/// Events that ask.
pub(super) struct Asked {
    words: FlightMaps,
    after: Duration,
    interval: Duration,
    is_armed: bool,
    /// Events that were left out until then.
    left_out: u64,
    held_since: Option<Instant>,
    /// So many had asked at the last look.
    seen: u64,
    due: Option<Instant>,
    answered: Option<Instant>,
    /// Snapshots that events had asked for.
    snapshots: u64,
}

impl Asked {
    /// None where no event may ask.
    pub(super) fn new(options: &SnapshotOptions, compiled: &Compiled) -> Option<Asked> {
        Some(Asked {
            words: FlightMaps::of(compiled)?,
            after: options.after,
            interval: options.interval,
            is_armed: false,
            left_out: 0,
            held_since: None,
            seen: 0,
            due: None,
            answered: None,
            snapshots: 0,
        })
    }

    pub(super) fn until_look(&self, now: Instant) -> Duration {
        self.due.map_or(LOOK_INTERVAL, |due| due.saturating_duration_since(now).min(LOOK_INTERVAL))
    }

    /// Whether a snapshot is due.
    pub(super) fn look(&mut self, segment: &Segment, now: Instant) -> bool {
        let has_passed = self.answered.is_none_or(|at| now.duration_since(at) >= self.interval);
        let asked = self.all(segment);
        if asked != self.seen {
            self.seen = asked;
            let earliest = self.answered.map_or(now, |at| at + self.interval);
            self.due.get_or_insert(earliest.max(now + self.after));
        }
        self.let_go_of_what_nobody_asked_for(segment, now);
        if self.due.is_none() && has_passed && !self.is_armed && self.after.is_zero() {
            (self.is_armed, self.left_out) = (true, self.held(segment));
            set(segment, self.words.armed, 1);
        }
        self.due.is_some_and(|due| due <= now)
    }

    /// Whether somebody has asked to whom no snapshot has answered.
    pub(super) fn is_left(&mut self, segment: &Segment) -> bool {
        self.due.is_some() || self.all(segment) != self.seen
    }

    /// A snapshot has what was in the rings when so many had asked.
    pub(super) fn answered(&mut self, segment: &Segment, covered: u64, now: Instant) {
        if self.due.is_none() && covered == self.seen {
            // Somebody else has asked for it.
            return;
        }
        self.snapshots += 1;
        (self.seen, self.due, self.answered) = (covered, None, Some(now));
        (self.is_armed, self.held_since) = (false, None);
        set(segment, self.words.armed, 0);
        set(segment, self.words.hold, 0);
    }

    /// A thread holds the rings that has not recorded yet; or did so too late, when they were not armed any more.
    fn let_go_of_what_nobody_asked_for(&mut self, segment: &Segment, now: Instant) {
        let is_answered_soon = self.is_armed && self.due.is_some();
        if is_answered_soon || word(segment, self.words.hold, 0) == 0 {
            self.held_since = None;
            return;
        }
        let since = *self.held_since.get_or_insert(now);
        if !self.is_armed || now.duration_since(since) >= HELD_MAX {
            self.held_since = None;
            set(segment, self.words.hold, 0);
        }
    }

    /// Events that have asked so far.
    pub(super) fn all(&self, segment: &Segment) -> u64 {
        word(segment, self.words.asked, 0)
    }

    /// Of these, those beyond one for each snapshot.
    pub(super) fn shared(&self, segment: &Segment) -> u64 {
        self.all(segment).saturating_sub(self.snapshots)
    }

    /// Events that are not in the rings because these were held before. Of those that come while they are held now the next snapshot tells:
    /// this one is of the moment when they were.
    pub(super) fn left_out(&self, segment: &Segment) -> u64 {
        let is_held = self.is_armed && word(segment, self.words.hold, 0) != 0;
        if is_held { self.left_out } else { self.held(segment) }
    }

    /// Events that were left out because the rings were held.
    pub(super) fn held(&self, segment: &Segment) -> u64 {
        word(segment, self.words.held, 0)
    }
}
