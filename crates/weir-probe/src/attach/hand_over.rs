//! Takes a process over from another weir that traces it: that one's probes are in until this one's are, and no hit comes between.
//!
//! In: the number of a process, and that of the weir, which has said that it touches the process no more, and goes on to read what its probes
//! write. Out: a [`Target`] that is held until it is attached to. [`prepare`](crate::prepare) undoes what the other has put in, as it does
//! what a weir has left that is gone, and lets the process go on when this one's probes stand. Before anything is changed, that is written in the
//! other's segment of the process: the other sees that it has lost the process ([`Attachment::is_taken_over`]), at the latest when it has it stopped,
//! and leaves it alone.
//!
//! ```text
//! process   hits: theirs ──┤ stopped ├── hits: ours
//! weir                     hold · let threads leave their code · undo · share segments · arm
//! the other reads its rings ──────────────────────────▶ ends
//! ```
//!
//! What a thread still has of the other's (calls whose return address leads to its code, for one) stays mapped until this weir has taken its own
//! out, and is undone then as what any weir has left: such a call comes back without an event.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use crate::attach::state::Attachment;
use crate::limits::{
    HANDING_OVER_MAX, HANDING_OVER_PAUSE, LEAVES_DOUBLED_EVERY, LEAVING_ALONE, LEAVING_STOPS_MAX,
    REMOTE_PAUSE, REMOTE_TRIES_MAX,
};
use crate::process::isa::native::registers::Registers;
use crate::process::isa::native::remote::is_callable;
use crate::process::mapped::islands;
use crate::process::stop::{Filters, Stopped};
use crate::process::target::{Allowance, Target};
use crate::refusal::Error;

/// Opens process `pid`, which the weir `controller` traces and has let go of, and holds it until it is attached to. Where it is not `held`, all is
/// done in steps, and hits come between that neither counts.
pub fn take_over(pid: i32, controller: u32, allowance: Allowance, held: bool) -> Result<Target, Error> {
    if !held {
        let mut target = Target::open_within(pid, allowance)?;
        target.taken_from = Some(controller);
        return Ok(target);
    }
    let (mut tries, start) = (0, Instant::now());
    loop {
        let mut target = match Target::open_held(pid, allowance, Filters::Suspended) {
            // A thread of it had no CPU to stop on when the other let it go, and is let go as soon as it stops.
            Err(Error::AlreadyProbed { controller: other, .. })
                if other == controller && start.elapsed() < HANDING_OVER_MAX =>
            {
                thread::sleep(HANDING_OVER_PAUSE);
                continue;
            }
            opened => opened?,
        };
        tries += 1;
        let Some(mut stopped) = target.held.take() else { return Ok(target) };
        let left = leave_islands(&target, &mut stopped, &|_| None)?;
        stopped.in_time()?;
        let is_ready = match left.inside.first() {
            // What it has begun there would come when the other weir may not read any more.
            Some(tid) if tries >= LEAVING_STOPS_MAX => {
                return Err(Error::StopInHit { pid, tid: *tid, limit: stopped.limit() / 2 });
            }
            Some(_) => false,
            None => tries >= REMOTE_TRIES_MAX || is_callable(&stopped, &target)?,
        };
        if is_ready {
            target.held = Some(stopped);
            target.stays_held = true;
            target.taken_from = Some(controller);
            return Ok(target);
        }
        target.resume(stopped);
        thread::sleep(REMOTE_PAUSE);
    }
}

/// Threads that still stand in code of weirs'.
pub(crate) struct Left {
    /// Those that wait there, with what was answered of their registers.
    pub(crate) waiting: BTreeMap<i32, Registers>,
    /// Those that had no CPU to leave on, but for threads of a process that is stopped by a signal.
    pub(crate) inside: Vec<i32>,
}

/// Lets threads that stand in code of weirs' run on, alone, until none stands there but those that wait, by what `waits` says of their
/// registers; its probes are as they were meanwhile.
pub(crate) fn leave_islands(
    target: &Target,
    stopped: &mut Stopped,
    waits: &dyn Fn(&Registers) -> Option<Registers>,
) -> Result<Left, Error> {
    let islands = islands(&target.mappings);
    let is_inside = |at: u64| islands.iter().any(|island| island.code.contains(&at));
    let mut left = Left { waiting: BTreeMap::new(), inside: Vec::new() };
    // The rest is needed for what comes then.
    let time_max = stopped.limit() / 2;
    for tries in 0.. {
        let threads: Vec<i32> = stopped.threads().collect();
        left.waiting.clear();
        left.inside.clear();
        for tid in threads {
            let registers = stopped.registers(tid)?;
            if !is_inside(registers.instruction_pointer()) {
                continue;
            }
            match waits(&registers) {
                Some(answer) => _ = left.waiting.insert(tid, answer),
                None => left.inside.push(tid),
            }
        }
        // On a busy machine one that has no CPU at once gets no further in a short time: it is stopped before it has had one.
        let alone = LEAVING_ALONE * (1 << (tries / LEAVES_DOUBLED_EVERY));
        if left.inside.is_empty() || stopped.elapsed() + alone > time_max {
            break;
        }
        if !stopped.let_run(&left.inside, alone)? {
            // Stopped by a signal, they end nothing until that is over.
            left.inside.clear();
            break;
        }
    }
    Ok(left)
}

impl Attachment {
    /// From now on another weir may take the process over, until [`Attachment::keep`]; it is not to be touched meanwhile.
    pub fn hand_over(&mut self) {
        self.target.handed_over = Some(self.control.clone());
    }

    /// The other is not coming any more.
    pub fn keep(&mut self) {
        self.target.handed_over = None;
    }

    /// Another weir has taken the process over, or has begun to: what is in it is not this one's.
    pub fn is_taken_over(&self) -> bool {
        self.target.is_taken_over()
    }
}

impl Target {
    /// As its own segment says, where another weir writes it before it changes anything. Asked only where this one has let go of it: the
    /// process can write there too.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.handed_over.as_ref().is_some_and(|control| control.reads().are_taken_over())
    }
}
