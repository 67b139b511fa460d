//! Puts programs into a process: short stops for the shared segment, for the code, and for the patches.
//!
//! In: a [`Target`], [`SiteRequest`]s with what [`weir_plan`] said of them, linked programs. Out: an [`Attachment`], with
//! the [`Outcome`] of each site.
//!
//! ```text
//! prepare   stop · memfd_create, mmap, maps of crate::attach::lend (remote) · go on   segments are shared; nothing is patched
//! arm       compare text with files · place islands for the planned windows, generate code   nothing is stopped
//!           stop · memfd_create, mmap islands and gates (remote) · go on
//!           write the code · journal                                                        nothing is stopped
//!           slices of crate::attach::patch: stop · move program counters · write jumps · go on
//!           open gates · raise semaphores                                                   nothing is stopped
//! detach    see crate::attach::undo
//! ```
//!
//! Until the gates are open, what is patched already runs unprobed: all probes begin at one moment. A site whose window
//! stays busy is refused, and the others are patched; it is tried again later ([`Attachment::retry`]).

mod admit;
mod arm;
mod calls;
pub mod children;
pub mod consumers;
mod counters;
mod filters;
mod gates;
mod generate;
mod gone;
pub mod hand_over;
mod install;
mod lend;
mod lists;
pub mod loads;
mod notifier;
mod others;
mod own;
mod patch;
pub(crate) mod pending;
pub mod rails;
pub mod reads;
mod request;
pub mod restore;
mod retry;
mod share;
mod state;
mod survey;
mod sweep;
pub mod undo;
mod vanished;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use weir_rt::Executable;
use weir_rt::segment::{Identity, JournalState, Segment, SegmentLayout};
use weir_symbols::VirtAddr;

pub use crate::attach::calls::LedAgain;
use crate::attach::generate::bytes_of;
use crate::attach::pending::Pending;
pub use crate::attach::request::{Attach, CalledFunction, Outcome, Patched, SiteRequest, TakenOver, When};
use crate::attach::share::{Shared, share_segments};
pub use crate::attach::state::Attachment;
use crate::attach::state::{Calls, Consumers, Filters, Loads, Retries, TextWatch, Watch};
use crate::attach::sweep::sweep;
use crate::attach::undo::{Places, Report, Undo};
pub use crate::attach::vanished::Vanished;
use crate::limits::{self, HANDING_OVER_LOOKS, HANDING_OVER_PAUSE};
use crate::process::mapped::{Maker, is_segment};
use crate::process::stop::{self, Stops};
use crate::process::target::Target;
use crate::refusal::Error;

/// A process that shares the segments, and is not patched yet. Dropped, it takes them out again.
#[derive(Debug)]
pub struct Prepared {
    attachment: Attachment,
    taken_over: Option<TakenOver>,
}

/// Makes the target's own segment in it, and lends it `maps`, which other targets may have too: made by
/// [`Segment::create_maps`]. `control`: the layout of its own ([`SegmentLayout::of_target`]). What an earlier weir left
/// behind there is undone first.
pub fn prepare(
    mut target: Target,
    maps: &Arc<Segment>,
    control: SegmentLayout,
    identity: &Identity,
) -> Result<Prepared, Error> {
    let bytes = control.bytes;
    let Shared { control, control_address, maps_address, taken_over } =
        share_segments(&mut target, maps, control, identity).map_err(|error| target.explain(error))?;
    target.maker = Some(Maker::of(identity));
    let of_maps = maps_address..maps_address + maps.layout().bytes;
    let undo = Undo {
        segments: vec![of_maps, control_address..control_address + bytes],
        islands: Vec::new(),
        files: None,
        late: Vec::new(),
        patches: Vec::new(),
        unknown: Vec::new(),
        counters: Vec::new(),
        places: Places::default(),
    };
    Ok(Prepared {
        taken_over,
        attachment: Attachment {
            target,
            control: Arc::new(control),
            control_address,
            maps: maps.clone(),
            maps_address,
            undo,
            outcomes: Vec::new(),
            stubs: None,
            swept: None,
            hooks: 0,
            is_detached: false,
            consumers: Consumers::default(),
            loads: Loads::default(),
            filters: Filters::default(),
            retries: Retries::default(),
            calls: Calls::default(),
            own: BTreeSet::new(),
            guards: BTreeSet::new(),
            watch: Watch::default(),
            text: TextWatch::default(),
            restorers: [0; 2],
            children_wait: false,
        },
    })
}

impl Prepared {
    pub fn maps(&self) -> &Arc<Segment> {
        &self.attachment.maps
    }

    pub fn target(&self) -> &Target {
        &self.attachment.target
    }

    /// What was undone of an earlier weir, if something was.
    pub fn taken_over(&self) -> Option<TakenOver> {
        self.taken_over
    }

    /// From now on programs in the target are told that its control group has this number; 0: nobody knows.
    pub fn set_cgroup(&self, id: u64) {
        self.attachment.set_cgroup(id);
    }

    /// Forked children wait at their first hit until they are probed ([`Children`](crate::Children)).
    pub fn let_children_wait(&mut self) {
        self.attachment.children_wait = true;
    }

    /// Patches what can be patched. The outcome of each site is in the attachment, in the order of `sites`.
    pub fn arm(self, sites: &[SiteRequest], executables: &[Executable]) -> Result<Attachment, Error> {
        let mut attachment = self.attachment;
        match attachment.arm(sites, executables) {
            // What was refused may have been a program that is only half there, or not any more.
            Ok(()) if attachment.outcomes.iter().any(Result::is_err) && attachment.target.is_replaced() => {
                Err(Error::Replaced { pid: attachment.target.pid })
            }
            Ok(()) => Ok(attachment),
            Err(error) => Err(attachment.target.explain(error)),
        }
    }
}

impl Attachment {
    /// The maps of the session, which its other targets share.
    pub fn maps(&self) -> &Arc<Segment> {
        &self.maps
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// From now on programs in the target are told that its control group has this number; 0: nobody knows.
    pub fn set_cgroup(&self, id: u64) {
        self.control.set_cgroup(id);
    }

    /// For each requested site: how it was patched, or why not.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// How often and how long the target was held so far.
    pub fn stops(&self) -> Stops {
        self.target.stops
    }

    /// Bytes that the session's maps may take, for what the target is allowed and what else weir has in it.
    pub fn maps_bytes_max(&self) -> u64 {
        let others = self.control.layout().bytes + bytes_of(&self.undo.islands);
        self.target.allowance.bytes.saturating_sub(others)
    }

    /// Sites that were patched.
    pub fn probes(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    }

    /// Frees the records of returns that will never come, if some did not find any since: those of calls that were
    /// jumped over, and of threads that have ended. Threads that were not stopped in time before, and have stopped since, go
    /// on. To be called now and then, by the thread that attached.
    pub fn sweep(&mut self) -> Result<usize, Error> {
        stop::let_go_late();
        let (missed, now) = (self.maps.counters().no_record, Instant::now());
        let is_due = self.swept.map_or(missed > 0, |(before, at)| {
            missed > before && now.duration_since(at) >= limits::SWEEP_INTERVAL
        });
        match &self.stubs {
            Some(stubs) if is_due => {
                self.swept = Some((missed, now));
                let stopped = self.target.stop()?;
                self.target.refresh()?;
                let freed = sweep(&self.target, &stopped, &stubs.table);
                self.target.resume(stopped);
                freed
            }
            _ => Ok(0),
        }
    }

    /// Restores the text and takes everything out of the target again. The maps stay readable here. Nothing is done to a process that another
    /// weir has taken over.
    pub fn detach(&mut self) -> Result<Report, Error> {
        self.is_detached = true;
        let mut looks = if self.target.handed_over.is_some() { HANDING_OVER_LOOKS } else { 0 };
        loop {
            if self.target.is_taken_over() {
                return Ok(Report { replaced: true, ..Report::default() });
            }
            match self.take_out() {
                // By another weir, which comes at this moment.
                Err(Error::AlreadyTraced { .. } | Error::AlreadyProbed { .. }) if looks > 0 => {
                    looks -= 1;
                    thread::sleep(HANDING_OVER_PAUSE);
                }
                done => return done,
            }
        }
    }

    fn take_out(&mut self) -> Result<Report, Error> {
        self.end_direct_reads();
        self.announcements().close();
        let lowered = counters::plan_lowering(&self.control, &self.target, &self.undo.counters);
        // Before counting, which closes the gates. Where it fails, so does the rest, which explains it.
        let _ = self.undo.lower_counters(&mut self.target);
        let before = self.target.stops.begin_part();
        // Without it the rest is done all the same.
        let pending = self.count_pending().unwrap_or_default();
        let counting = self.target.stops.end_part(before);
        self.consumers.close(&self.control);
        // One that was held until it is attached to is not going to be.
        self.target.stays_held = false;
        let mut report = self.undo.run(&mut self.target)?;
        report.pending = pending;
        report.stops.add(counting);
        let journal = self.control.journal();
        lowered.into_iter().for_each(|index| journal.set_state(index, JournalState::Applied));
        // What lies over it may be of one that is gone too.
        let is_covered = !report.covered.is_empty();
        if is_covered {
            self.control.leave_behind();
        }
        // What a thread had of the weir before, and text that has led there since; or what lay under this one's. Where something stays,
        // it stays mapped.
        if !report.replaced
            && self.target.refresh().is_ok()
            && gone::is_in_target(&self.target).unwrap_or(false)
            && restore::restore(&mut self.target).is_ok()
            && is_covered
        {
            let at = VirtAddr(self.control_address);
            report.left_mapped = self.target.mapping_at(at).is_some_and(is_segment);
        }
        // Not before: what of this one's still stands lies over others.
        self.control.journal().undo_text();
        if report.left_mapped {
            self.control.leave_behind();
        }
        Ok(report)
    }

    /// The process has ended, or executes another program: what was put into it is gone with its memory.
    pub fn abandon(mut self) {
        self.is_detached = true;
    }

    /// Closes the gates while no thread is on its way through a trampoline, and counts the calls that have not come back.
    fn count_pending(&mut self) -> Result<Pending, Error> {
        if self.consumers.return_points.is_empty() || self.target.stays_held {
            return Ok(Pending::new());
        }
        let table = self.stubs.as_ref().map(|stubs| stubs.table);
        for try_number in 0.. {
            let stopped = undo::hold(&mut self.target)?;
            let (target, points) = (&self.target, &self.consumers.return_points);
            let islands = &self.undo.islands;
            if try_number == limits::PENDING_TRIES
                || pending::is_between(target, &stopped, points, table.as_ref(), islands)?
            {
                self.consumers.close(&self.control);
                self.undo.close_gates(target);
                let counted = pending::count(target, &stopped, points, table.as_ref());
                self.target.resume(stopped);
                return counted;
            }
            patch::pause(&mut self.target, stopped);
        }
        Ok(Pending::new())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_detached {
            // The target may be gone; then there is nothing to restore.
            let _ = self.detach();
        }
    }
}
