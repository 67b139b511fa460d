//! Probes forked children before their first hit goes on.
//!
//! A forked child has all of its parent's probes, whose gates the kernel has wiped. Where children are awaited ([`Prepared::let_children_wait`]),
//! a child's thread that comes to a probe announces the child in the maps and waits ([`weir_trampoline::forked`]). [`open_child`] holds the child until it is
//! attached to, in place of its parent's probes with its own, and has that thread begin its hit again. So no hit is lost, and a child that never
//! comes to a probe, as one that executes another program at once, never waits.
//!
//! ```text
//! child:  hit ─ announces, waits ─────────────────────────────▶ hit, probed
//! weir:           └▶ finds the child · open_child · attach ┘ · answers
//! ```
//!
//! Not awaited: children of a process under seccomp, or whose C library's doors for filters cannot be hooked ([`super::filters`]), since a
//! child that waits calls the kernel. A hit at a function's exit does not wait where instructions before it have run already.
//!
//! [`Prepared::let_children_wait`]: crate::Prepared::let_children_wait

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_rt::segment::Segment;
use weir_trampoline::forked;

use crate::attach::hand_over::{Left, leave_islands};
use crate::attach::notifier::LoadNotifier;
use crate::process::isa::native::registers::Registers;
use crate::process::stop::Filters;
use crate::process::sys;
use crate::process::target::{Allowance, Target};
use crate::process::vm_sharing;
use crate::refusal::Error;

/// Forked children of a run's targets. Dropped, it lets all of them go on.
#[derive(Debug)]
pub struct Children {
    maps: Arc<Segment>,
    /// Without it a look now and then finds them, later.
    notifier: Option<LoadNotifier>,
}

impl Children {
    /// From now on children of targets with these maps wait, if their parents let them.
    pub fn awaited(maps: &Arc<Segment>) -> Children {
        maps.announcements().open();
        Children { maps: maps.clone(), notifier: LoadNotifier::of(maps).ok() }
    }

    /// Becomes readable when a child waits, until [`Children::asked`].
    pub fn notifier(&self) -> Option<BorrowedFd<'_>> {
        self.notifier.as_ref().map(LoadNotifier::descriptor)
    }

    /// How many have announced themselves so far, if not all were answered.
    pub fn asked(&self) -> Option<u32> {
        if let Some(notifier) = &self.notifier {
            notifier.hush();
        }
        let announcements = self.maps.announcements();
        let announced = announcements.announced();
        (announced != announcements.answered()).then_some(announced)
    }

    /// Those that still wait wait longer.
    pub fn work(&self) {
        self.maps.announcements().work();
    }

    /// Those of the first so many that still wait are not to be probed, and go on.
    pub fn answer(&self, asked: u32) {
        self.maps.announcements().answer(asked);
    }

    /// How many have gone on unprobed because nobody came.
    pub fn unanswered(&self) -> u32 {
        self.maps.announcements().late()
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.maps.announcements().close();
    }
}

/// How a forked child is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildHold {
    /// In one stop.
    Whole,
    /// In several. Between them it runs unprobed, and a thread that waits at a hit goes on.
    InSteps,
}

/// Opens a forked child that has inherited probes of this process, and holds it until it is attached to, if that is to be in one stop, or its only
/// thread waits at a hit: it may be held for longer then. Each thread that waits begins its hit again.
pub fn open_child(pid: i32, allowance: Allowance, hold: ChildHold) -> Result<Target, Error> {
    // In vfork(2): what is put into its memory would be its parent's.
    let parent = sys::status_number(pid, "PPid").unwrap_or(0);
    if parent > 0 && vm_sharing::share_memory(pid, parent) == Some(true) {
        return Err(Error::SharesMemory { pid, other: parent });
    }
    let mut target = Target::open_held(pid, allowance, Filters::Suspended)?;
    let Some(mut stopped) = target.held.take() else { return Ok(target) };
    let Left { waiting: at_hits, inside } = leave_islands(&target, &mut stopped, &|registers| {
        forked::registers_at_hit(&(*registers).into(), &|at, bytes| target.memory.read(at, bytes).is_ok())
            .map(Registers::from)
    })?;
    if let Some(tid) = inside.first().filter(|_| hold == ChildHold::Whole) {
        // On its way to its wait, without a CPU: its hit could not be begun again.
        return Err(Error::StopInHit { pid, tid: *tid, limit: stopped.limit() / 2 });
    }
    let waits_alone = !at_hits.is_empty() && stopped.threads().count() == 1;
    if waits_alone {
        stopped.be_patient();
    }
    stopped.in_time()?;
    if hold == ChildHold::InSteps && !waits_alone {
        target.resume(stopped);
        return Ok(target);
    }
    for (tid, at_hit) in at_hits {
        stopped.set_registers(tid, at_hit)?;
    }
    target.held = Some(stopped);
    target.stays_held = true;
    Ok(target)
}
