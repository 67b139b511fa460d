//! The processes of one run, each with what was put into it: watched together, taken back together.
//!
//! In: attachments, which share the run's maps. Out: what is reported of each, and sums for the summary. A process that ends
//! or executes another program leaves the others as they are.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use weir_probe::{Attachment, Pending};
use weir_process::processes::ProcessId;

use crate::failure::Failure;
use crate::notice::{Notice, Notices, note};
use crate::one::One;
use crate::summary::Coverage;
use crate::watched;

/// How often a process is asked to stand still for detaching.
const DETACH_TRIES: usize = 3;

/// All that a run traces; none for a script of BEGIN, END and intervals.
#[derive(Default)]
pub(crate) struct Targets {
    pub(crate) all: Vec<One>,
    /// What those covered that are not there any more.
    past: Coverage,
    /// Those that have ended since they were asked for.
    ended: Vec<i32>,
}

impl Targets {
    pub(crate) fn new(all: Vec<One>) -> Targets {
        Targets { all, ..Targets::default() }
    }

    /// To be called often, by the thread that attached: probes what they have loaded, frees what waits in vain in them, and
    /// lets go of those that have ended or execute another program now. The numbers of these.
    pub(crate) fn look(&mut self) -> Vec<i32> {
        let mut replaced = Vec::new();
        for mut one in std::mem::take(&mut self.all) {
            if one.waits_for_others() && one.attachment.target().is_alive() {
                self.all.push(one);
                continue;
            }
            one.followed.look(&mut one.attachment, &one.plan.sites, &mut one.coverage);
            one.look_for_filter();
            one.attachment.follow_memory();
            one.followed.look_at_reads(&one.attachment);
            one.followed.look_at_text(&mut one.attachment);
            one.followed.look_at_calls(&mut one.attachment);
            // It fails where the target has ended, which is seen below.
            let _ = one.attachment.sweep();
            let (is_alive, is_replaced) =
                (one.attachment.target().is_alive(), one.attachment.target().is_replaced());
            if is_alive && !is_replaced {
                self.all.push(one);
                continue;
            }
            let left = if is_alive { &mut replaced } else { &mut self.ended };
            left.push(one.pid());
            self.let_go(one);
        }
        replaced
    }

    /// Work begins during which nobody is answered for some time, or it is done.
    pub(crate) fn are_to_wait(&mut self, is_busy: bool) {
        self.all.iter_mut().for_each(|one| one.attachment.is_busy_elsewhere(is_busy || one.door.is_some()));
    }

    /// Answers those that wait for it since they have loaded or registered something.
    pub(crate) fn answer(&mut self) {
        for one in &mut self.all {
            if one.waits_for_others() || one.attachment.waits_for_answer() != Some(true) {
                continue;
            }
            one.followed.look(&mut one.attachment, &one.plan.sites, &mut one.coverage);
            one.followed.look_at_calls(&mut one.attachment);
        }
    }

    /// It waits for other recordings, or will.
    pub(crate) fn waits_for_others(&self, id: ProcessId) -> bool {
        self.all.iter().any(|one| one.pid() == id.pid && one.door.is_some())
    }

    /// Those that have come to where they wait for other recordings, each once.
    pub(crate) fn at_door(&mut self) -> Vec<ProcessId> {
        self.all.iter_mut().filter_map(One::comes_to_door).collect()
    }

    /// The others have come.
    pub(crate) fn go_on(&mut self, id: ProcessId) {
        self.all.iter_mut().filter(|one| one.pid() == id.pid).for_each(|one| one.door = None);
    }

    /// It is nothing of this run's any more.
    fn let_go(&mut self, mut one: One) {
        one.look_for_filter();
        one.followed.finish(&mut one.attachment, &one.plan.sites, &mut one.coverage);
        self.past.add(&one.coverage);
        watched::finish(&mut one);
        one.attachment.abandon();
    }

    /// From now on another weir takes them over, and they are not to be touched until [`Targets::take_back`].
    pub(crate) fn hand_over(&mut self) {
        self.all.iter_mut().for_each(|one| one.attachment.hand_over());
    }

    /// The other has failed to: the numbers of those that it had, and has no more.
    pub(crate) fn take_back(&mut self) -> Vec<i32> {
        let taken = self.let_go_of_those_taken();
        self.all.iter_mut().for_each(|one| one.attachment.keep());
        taken
    }

    fn let_go_of_those_taken(&mut self) -> Vec<i32> {
        let all = std::mem::take(&mut self.all);
        let (taken, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.attachment.is_taken_over());
        self.all = kept;
        let pids = taken.iter().map(One::pid).collect();
        taken.into_iter().for_each(|one| self.let_go(one));
        pids
    }

    /// The id of each, and of those that were let go of since the last time; and whether it has ended.
    pub(crate) fn seen(&mut self) -> impl Iterator<Item = (i32, bool)> {
        let ended = std::mem::take(&mut self.ended).into_iter().map(|pid| (pid, true));
        ended.chain(self.all.iter().map(|one| (one.pid(), false)))
    }

    /// Those that have ended since [`Targets::seen`].
    pub(crate) fn ended(&self) -> &[i32] {
        &self.ended
    }

    /// Some of them may have written a record since the last look.
    pub(crate) fn write_records(&self) -> bool {
        self.all.iter().any(|one| one.writes_records)
    }

    /// None of them runs any more.
    pub(crate) fn have_ended(&self) -> bool {
        self.all.is_empty()
    }

    /// Bytes that the maps may take, by the strictest budget.
    pub(crate) fn maps_bytes_max(&self) -> Option<u64> {
        self.all.iter().map(|one| one.attachment.maps_bytes_max()).min()
    }

    /// Descriptors that become readable when a process ends.
    pub(crate) fn pidfds(&self) -> impl Iterator<Item = &OwnedFd> {
        self.all.iter().map(|one| one.attachment.target().pidfd())
    }

    /// Descriptors that become readable when a process has loaded or unloaded something.
    pub(crate) fn load_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().filter_map(|one| one.attachment.loads_descriptor())
    }

    /// Takes everything out of those that run; `tell` what was done in each. By program, the calls that have not come back;
    /// and whether all of it went well.
    pub(crate) fn detach(&mut self, tell: &dyn Fn(&One, &weir_probe::Report, Instant)) -> (Pending, bool) {
        self.let_go_of_those_taken();
        let (mut pending, mut is_detached) = (Pending::new(), true);
        for one in self.all.iter_mut().filter(|one| one.attachment.target().is_alive()) {
            let start = Instant::now();
            match detached(&mut one.attachment) {
                Ok(undone) => {
                    tell(one, &undone, start);
                    for (executable, count) in undone.pending {
                        *pending.entry(one.programs[executable]).or_default() += count;
                    }
                }
                Err(weir_probe::Error::TargetGone { .. }) => {}
                Err(error) => {
                    let pid = one.pid();
                    note!(
                        one.followed.notices,
                        Detaching,
                        "detaching failed: {error}; `weir detach -p {pid}` tries again"
                    );
                    is_detached = false;
                }
            }
        }
        for one in &mut self.all {
            // It may have come since the last look.
            one.look_for_filter();
            one.followed.finish(&mut one.attachment, &one.plan.sites, &mut one.coverage);
        }
        (pending, is_detached)
    }

    /// Of all of them together.
    pub(crate) fn coverage(&self) -> Coverage {
        let mut sum = self.past.clone();
        self.all.iter().for_each(|one| sum.add(&one.coverage));
        sum
    }
}

/// Threads that have no CPU may not stop in time; there is no hurry at the end, and a process that keeps its probes is worse.
fn detached(attachment: &mut Attachment) -> Result<weir_probe::Report, weir_probe::Error> {
    for _ in 1..DETACH_TRIES {
        match attachment.detach() {
            Err(weir_probe::Error::StopTimeout { .. }) => {}
            done => return done,
        }
    }
    attachment.detach()
}

/// Does `work` for each of several processes. Where it works for some, it is told of the others why they are left out; where
/// it works for none, the first failure is the answer, behind those of the others.
pub(crate) fn each<T, U>(
    given: impl IntoIterator<Item = (i32, T)>,
    notices: &Notices,
    mut work: impl FnMut(i32, T) -> Result<U, Failure>,
) -> Result<Vec<U>, Failure> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (pid, what) in given {
        match work(pid, what) {
            Ok(one) => done.push(one),
            Err(failure) => failed.push((pid, failure)),
        }
    }
    let answer = if done.is_empty() && !failed.is_empty() { Err(failed.remove(0).1) } else { Ok(done) };
    for (pid, failure) in failed {
        notices.send(Notice::NotTraced { pid, failure });
    }
    answer
}
