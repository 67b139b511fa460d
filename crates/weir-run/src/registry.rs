//! Who is to be traced, and is enrolled: those that the command line names, those that come later, and their children.
//!
//! In: [`Subjects`], what the run [`Shared`]s. Out: processes that are attached to, for [`Targets`], and a [`ProcessLine`] for each.
//! [`enrol`](weir_process::enrol) knows when a process is ready; here it is looked at, and attached to. One that cannot be is
//! told, by its reason, and left alone: it ends nothing. Of the places that a script names those are probed that the process
//! has.

pub(crate) mod sight;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use nix::unistd::Uid;
use weir_policy::facts;
use weir_probe::fanotify::PermissionEvent;
use weir_probe::launch::Exec;
use weir_probe::{Allowance, ChildHold, Children, Error, open_child, scan, vm_sharing};
use weir_process::Origin;
use weir_process::enrol::{Candidate, Counts, Declined, Enrolment, Sight};
use weir_process::processes::{Process, ProcessId};
use weir_process::watch::{LOOK_INTERVAL, Watcher};
use weir_report::{ProcessCounts, ProcessLine, ProcessOutcome};
use weir_rt::segment::Segment;
use weir_source::printable;

use crate::failure::Failure;
use crate::intercept::Intercept;
use crate::notice::{Notice, ms, note};
use crate::one::{Door, One};
use crate::plan::Plan;
use crate::registry::sight::{
    lives, maps_of, names_mapped, plan_elsewhere, see, since_boot, started, ticks_since_boot,
};
use crate::shared::Shared;
use crate::subjects::Subjects;
use crate::supervisor::HeldProcess;
use crate::targets::Targets;

/// How long processes are attached to before what they wrote is read again.
const ROUND_MAX: Duration = Duration::from_millis(20);

/// How often processes are looked for at most because one asks for it.
const HURRIED_INTERVAL: Duration = Duration::from_millis(1);

/// A process that has run for so long has loaded what it needs at first.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The kernel tells in ticks when a process began: it may be so much later.
const START_RESOLUTION: Duration = Duration::from_millis(10);

/// How long processes are tried to be taken over whose recording goes on until then.
const HANDING_OVER_MAX: Duration = Duration::from_secs(3);

/// How often a process is tried that does not stop in time.
pub(super) const STOP_TRIES: u32 = 3;

/// How long the recording of a program stays that no process executes any more: who comes later has another recording begin.
const LINGERS: Duration = Duration::from_secs(10);

/// How long a recording that ends waits for the next one to come to children that are theirs now.
const TAKEN_CHILDREN_MAX: Duration = Duration::from_secs(30);

/// So many tries count as one of a process that was traced already.
const AGAIN_TRIES: u32 = 30;

/// A command that nothing is traced of any more is reported to run on after so long: one that is ending has no memory to trace before it
/// has ended.
const UNTRACED_AFTER: Duration = Duration::from_millis(100);

/// Processes that are not traced are told of as they come, so many; with -v all are. The end has the count.
const REFUSALS_TOLD_MAX: u32 = 5;

/// The same of processes of other users.
const LEFT_OUT_TOLD_MAX: u32 = 5;

/// What a process of another root and program runs on: device and inode of both.
type World = [(u64, u64); 2];

/// The processes that a run may come to trace.
pub(crate) struct Registry {
    shared: Rc<Shared>,
    maps: Arc<Segment>,
    enrolment: Enrolment,
    /// Stops processes before they run unprobed, where that is possible.
    intercept: Option<Intercept>,
    /// Forked children that wait to be attached to, where any can.
    children: Option<Children>,
    /// Of an interception that has ended, and of children that were not awaited any more.
    not_held: u64,
    /// The command, or those that were given by number.
    named: Vec<i32>,
    ready: VecDeque<Candidate>,
    /// What the script means in other roots, where it means something.
    plans: HashMap<World, Option<Rc<Plan>>>,
    looked: Option<Instant>,
    /// When nobody was left.
    alone: Option<Instant>,
    /// When nobody but the command was left.
    untraced: Option<Instant>,
    is_untraced_told: bool,
    /// Processes of other users.
    left_out: u32,
    /// When the run began, since boot.
    began: Duration,
    /// Since when another recording takes its processes over.
    handed_over: Option<Instant>,
    refusals_told: Cell<u32>,
    away: Away,
    /// Processes that ran before they were attached to, and for how long at most.
    late: (u64, Duration),
    /// Files that the script names and no process has mapped yet, where one is waited for.
    unseen: BTreeSet<String>,
}

/// Time that traced processes were other programs, and not attached to.
#[derive(Default)]
struct Away {
    /// Those that are now, since when.
    since: HashMap<i32, Instant>,
    execs: u64,
    /// Those that were stopped before they ran.
    execs_held: u64,
    sum: Duration,
}

impl Away {
    fn begins(&mut self, pid: i32, now: Instant) {
        self.execs += 1;
        self.since.entry(pid).or_insert(now);
    }

    /// The program that `pid` executes was stopped before it ran.
    fn is_held(&mut self, pid: i32) {
        if self.since.remove(&pid).is_some() {
            self.execs_held += 1;
        }
    }

    fn ends(&mut self, pid: i32, now: Instant) {
        let since = self.since.remove(&pid);
        self.sum += since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
    }
}

impl Registry {
    /// `began`: since boot, before the first process that is probed ran on: what that starts at once comes later.
    pub(crate) fn new(
        shared: Rc<Shared>,
        maps: Arc<Segment>,
        intercept: Option<Intercept>,
        children: Option<Children>,
        began: Duration,
    ) -> Registry {
        let Subjects { selection, processes } = &shared.subjects;
        let watcher = Watcher::new(processes.clone(), selection.clone(), std::process::id() as i32);
        let mut enrolment = Enrolment::new(watcher, shared.plan.binaries().len());
        if intercept.is_some() && children.is_some() {
            enrolment.be_exact();
        }
        let (ready, plans) = (VecDeque::new(), HashMap::new());
        let (named, looked, alone) = (Vec::new(), None, None);
        let (refusals_told, away, unseen) = (Cell::new(0), Away::default(), BTreeSet::new());
        let late = (0, Duration::ZERO);
        Registry {
            shared,
            maps,
            enrolment,
            intercept,
            children,
            not_held: 0,
            named,
            ready,
            plans,
            looked,
            alone,
            untraced: None,
            is_untraced_told: false,
            left_out: 0,
            began,
            handed_over: None,
            refusals_told,
            away,
            late,
            unseen,
        }
    }

    /// Those that are traced from the beginning, and those that rules select now; what became of each, unless it is to be
    /// quiet.
    pub(crate) fn first(&mut self, targets: &mut Targets) -> Result<Vec<ProcessLine>, Failure> {
        let mut lines = Vec::new();
        for one in &targets.all {
            let pid = one.pid();
            let Some(process) = self.shared.subjects.processes.process(pid) else { continue };
            self.enrolment.adopt(process.id);
            self.named.push(pid);
            let is_given = self.shared.subjects.selection.pids.contains(&pid);
            let origin = if is_given { Origin::Given } else { Origin::Command };
            let candidate = Candidate::new(process, origin);
            lines.push(self.line(&candidate, Ok(one.attachment.probes())));
        }
        self.find(Instant::now())?;
        let (mut refused, until) = (None, Instant::now() + HANDING_OVER_MAX);
        loop {
            while let Some(candidate) = self.ready.pop_front() {
                lines.extend(self.enrol(candidate, None, targets, &mut refused)?);
            }
            // The other ends then, and lets go of those that are left.
            if !self.shared.takes_over() || !self.enrolment.has_tried() || Instant::now() >= until {
                break;
            }
            thread::sleep(LOOK_INTERVAL);
            self.find(Instant::now())?;
        }
        self.update_scope();
        self.tell_left_out();
        if let (Some(failure), true) = (refused, targets.all.is_empty()) {
            return Err(failure);
        }
        let is_quiet = self.shared.given.options.is_quiet();
        let is_nobody = targets.all.is_empty() && !self.enrolment.has_loading();
        if is_nobody && self.shared.subjects.selection.is_standing() && !is_quiet {
            let rules: Vec<String> =
                self.shared.subjects.selection.rules.iter().map(ToString::to_string).collect();
            note!(
                self.shared.notices,
                Processes,
                "no process is traced yet; waiting for {}",
                rules.join(", or ")
            );
        }
        Ok(self.tell(lines))
    }

    /// Attaches to who has come, and to who executes another program; what became of each.
    pub(crate) fn look(&mut self, targets: &mut Targets) -> Result<Vec<ProcessLine>, Failure> {
        targets.are_to_wait(true);
        let looked = self.look_at_all(targets);
        targets.are_to_wait(false);
        looked
    }

    fn look_at_all(&mut self, targets: &mut Targets) -> Result<Vec<ProcessLine>, Failure> {
        let now = Instant::now();
        self.drop_replaced(targets, now, None);
        if let Some(groups) = &self.shared.groups {
            let mut groups = groups.borrow_mut();
            for one in &targets.all[groups.due(targets.all.len(), now)] {
                let target = one.attachment.target();
                if target.is_alive() {
                    one.attachment.set_cgroup(groups.of(target.pid()));
                }
            }
        }
        targets.ended().iter().for_each(|pid| self.shared.guard.detached(*pid));
        let mut lines = self.attach_intercepted(targets)?;
        let asked = self.children.as_ref().and_then(Children::asked);
        if asked.is_some()
            && let Some(rest) = self.looked.and_then(|looked| HURRIED_INTERVAL.checked_sub(looked.elapsed()))
        {
            // However many ask.
            thread::sleep(rest);
        }
        let now = Instant::now();
        let is_looked =
            asked.is_some() || self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK_INTERVAL);
        if is_looked {
            self.looked = Some(now);
            if asked.is_some() {
                self.enrolment.hurry();
            }
            self.find(now)?;
            for pid in self.away.since.keys().copied().collect::<Vec<_>>() {
                if self.shared.subjects.processes.process(pid).is_none_or(|process| !process.has_program) {
                    self.away.ends(pid, now);
                }
            }
            if targets.have_ended() {
                let processes = &self.shared.subjects.processes;
                self.enrolment.forget(&|id| !lives(processes, id));
            }
        }
        while let Some(candidate) = self.ready.pop_front() {
            lines.extend(self.enrol(candidate, None, targets, &mut None)?);
            // Processes that are blocked wait for it.
            lines.extend(self.attach_intercepted(targets)?);
            if let Some(children) = &self.children {
                children.work();
            }
            if now.elapsed() >= ROUND_MAX {
                break;
            }
        }
        if let (Some(children), Some(number)) = (&self.children, asked) {
            // Those that are to be tried again are not done with.
            let is_done = self.ready.is_empty() && !self.enrolment.has_tried();
            if is_done { children.answer(number) } else { children.work() }
        }
        if is_looked || !lines.is_empty() {
            self.update_scope();
            self.tell_left_out();
        }
        Ok(self.tell(lines))
    }

    /// Of processes that have the name and another user.
    fn tell_left_out(&mut self) {
        for left in self.shared.subjects.selection.users.left_out() {
            self.left_out += 1;
            if self.left_out > LEFT_OUT_TOLD_MAX || self.shared.given.options.is_quiet() {
                continue;
            }
            let name = |user: &u32| facts::user(Uid::from_raw(*user)).to_string();
            let meant: Vec<String> = self.shared.subjects.selection.users.meant().iter().map(name).collect();
            note!(
                self.shared.notices,
                Processes,
                "process {} ({}) of user {} is left out: by name this run traces the processes of user {}; --any-user traces all",
                left.pid,
                printable(&left.comm),
                name(&left.user),
                meant.join(", ")
            );
        }
    }

    /// Drops the attachments of processes that have executed another program. `held`: one that is stopped, and about to be attached to again.
    fn drop_replaced(&mut self, targets: &mut Targets, now: Instant, held: Option<i32>) {
        for pid in targets.look() {
            if self.named.contains(&pid) && held != Some(pid) {
                self.tell_replaced(pid);
            }
            self.shared.guard.detached(pid);
            self.follow(pid, now);
        }
    }

    /// Attaches to processes that are blocked in execve(2) or open(2) of a probed file, and lets them run.
    fn attach_intercepted(&mut self, targets: &mut Targets) -> Result<Vec<ProcessLine>, Failure> {
        let mut lines = Vec::new();
        let events = self.intercept.as_ref().map(Intercept::events).unwrap_or_default();
        for event in events {
            lines.extend(self.attach_blocked(event, targets)?);
            targets.are_to_wait(true);
            // Those that were attached to before wait for some ms only.
            targets.answer();
        }
        Ok(lines)
    }

    /// Attaches to a process that another keeps blocked until then, unless it is this run's already.
    pub(crate) fn take_held(
        &mut self,
        held: HeldProcess,
        targets: &mut Targets,
    ) -> Result<Option<ProcessLine>, Failure> {
        let HeldProcess { id, others, allow } = held;
        if self.is_handed_over() || targets.all.iter().any(|one| one.pid() == id.pid) {
            allow();
            return Ok(None);
        }
        let event = PermissionEvent::elsewhere(id.pid, allow);
        let event = event.map_err(|error| Failure::Machine(anyhow!(error).context("eventfd")))?;
        let line = self.attach_blocked(event, targets)?;
        let is_there = targets.all.iter().any(|one| one.pid() == id.pid);
        if !is_there && lives(&self.shared.subjects.processes, id) {
            self.not_held += 1;
        }
        if others && let Some(one) = targets.all.iter_mut().find(|one| one.pid() == id.pid) {
            one.door = Some(Door::of(id));
        }
        // Those that were attached to before wait for some ms only.
        targets.are_to_wait(true);
        targets.answer();
        Ok(line)
    }

    /// Processes are about to be attached to: the run does not end for want of them.
    pub(crate) fn expects_processes(&mut self) {
        self.alone = None;
    }

    /// Attaches to a process that runs, or, `at_door`, waits for another recording before its own code runs.
    pub(crate) fn join(
        &mut self,
        (id, at_door): (ProcessId, bool),
        targets: &mut Targets,
    ) -> Result<Option<ProcessLine>, Failure> {
        let process = self.shared.subjects.processes.process(id.pid).filter(|process| process.id == id);
        let is_there = self.is_handed_over() || targets.all.iter().any(|one| one.pid() == id.pid);
        if process.is_none() && !is_there {
            self.enrolment.is_lost();
        }
        let Some(process) = process.filter(|_| !is_there) else { return Ok(None) };
        let Some(origin) = self.origin_of(&process) else { return Ok(None) };
        self.enrolment.adopt_held(id);
        self.ready.retain(|candidate| candidate.process.id != id);
        // One that runs is late, and may end before it is attached to.
        let loose = (!at_door).then(Instant::now);
        let candidate = Candidate { joins: at_door, loose, ..Candidate::new(process, origin) };
        self.enrol(candidate, None, targets, &mut None)
    }

    /// Attaches to a process that is blocked, if it is of this run, and lets it run.
    fn attach_blocked(
        &mut self,
        event: PermissionEvent,
        targets: &mut Targets,
    ) -> Result<Option<ProcessLine>, Failure> {
        let pid = event.pid();
        // A process that escapes is found later, like any other.
        let Some(exec) = event.hold() else { return Ok(None) };
        // execve(2) has replaced the memory that it was probed in.
        if targets.all.iter().any(|one| one.pid() == pid) {
            self.drop_replaced(targets, Instant::now(), Some(pid));
        }
        let Some(process) = self.shared.subjects.processes.process(pid) else { return Ok(None) };
        let Some(origin) = self.origin_of(&process) else { return Ok(None) };
        let known = self.enrolment.adopt_held(process.id);
        // It was found at the same time.
        let at = self.ready.iter().position(|candidate| candidate.process.id == process.id);
        let known = known.or(at.and_then(|at| self.ready.remove(at)));
        let origin = known.as_ref().map_or(origin, |known| known.origin.clone());
        if let Some(since) = known.and_then(|known| known.loose) {
            self.late = (self.late.0 + 1, self.late.1.max(since.elapsed()));
        }
        self.away.is_held(pid);
        let candidate = Candidate::new(process, origin);
        self.enrol(candidate, Some(exec), targets, &mut None)
    }

    /// Why an intercepted process is traced; none if it is not.
    fn origin_of(&self, process: &Process) -> Option<Origin> {
        let selection = &self.shared.subjects.selection;
        let intercept = self.intercept.as_ref();
        let is_selected = |intercept: &Intercept| intercept.is_selected(process.id.pid);
        if !selection.is_of_program() && intercept.is_some_and(is_selected) {
            return Some(Origin::Exec);
        }
        let rule = selection.rule_for(process, &self.shared.subjects.processes);
        let descends = |intercept: &Intercept| intercept.descends(process.id.pid);
        let by_parent = || intercept.is_some_and(descends).then_some(Origin::ChildOf(process.parent));
        rule.map(|rule| rule.origin()).or_else(by_parent)
    }

    fn update_scope(&self) {
        if let Some(intercept) = &self.intercept {
            intercept.set_selected(self.enrolment.selected().collect());
        }
    }

    /// Forked children of processes that were handed over have this run's probes until the other attaches to them: they are waited for, since they
    /// would run unprobed without this run. Those that it does not come to are counted.
    fn await_taken_children(&mut self) {
        let (Some(children), Some(_)) = (&self.children, self.handed_over) else { return };
        let (own, until) = (std::process::id(), Instant::now() + TAKEN_CHILDREN_MAX);
        let is_left = |pid: &i32| scan::has_inherited_of(*pid, own);
        let left =
            || self.shared.subjects.processes.pids().unwrap_or_default().into_iter().filter(is_left).count();
        let mut count = left();
        while count > 0 && Instant::now() < until {
            children.work();
            thread::sleep(HURRIED_INTERVAL);
            count = left();
        }
        self.not_held += count as u64;
    }

    /// From now on nothing is intercepted, and all processes run on.
    pub(crate) fn stop_intercepting(&mut self) {
        self.await_taken_children();
        self.not_held = self.not_held();
        (self.intercept, self.children) = (None, None);
    }

    /// Another recording takes the processes over, and intercepts others.
    pub(crate) fn hand_over(&mut self, targets: &mut Targets) {
        targets.hand_over();
        self.handed_over = Some(Instant::now());
        self.not_held += self.intercept.take().map_or(0, |intercept| intercept.not_held());
    }

    /// Nothing of the processes is to be touched.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.is_some()
    }

    /// Forked children that wait are the other's.
    pub(crate) fn keep_children_waiting(&self) {
        if let Some(children) = &self.children {
            children.work();
        }
    }

    /// The other has failed to take them over: those that it had are attached to again. What this one had put in there may be left.
    pub(crate) fn take_back(&mut self, targets: &mut Targets) {
        self.shared.undo_own();
        let since = self.handed_over.take().map_or(Duration::ZERO, |at| at.elapsed());
        for pid in targets.take_back() {
            self.shared.guard.detached(pid);
            let Some(process) = self.shared.subjects.processes.process(pid) else { continue };
            self.late = (self.late.0 + 1, self.late.1.max(since));
            if !self.shared.given.options.is_quiet() {
                note!(
                    self.shared.notices,
                    Processes,
                    "process {pid} was taken over by a recording that failed, and is attached to again: what came in {} at most is missing here",
                    ms(since)
                );
            }
            self.enrolment.again(process, Instant::now());
        }
        self.intercept = Intercept::start(&self.shared, &self.named, false);
        self.update_scope();
    }

    /// How many processes in scope were allowed to run unprobed.
    pub(crate) fn not_held(&self) -> u64 {
        let unanswered = self.children.as_ref().map_or(0, |children| children.unanswered().into());
        self.not_held + unanswered + self.intercept.as_ref().map_or(0, Intercept::not_held)
    }

    /// A descriptor that is readable when a forked child waits.
    pub(crate) fn has_children(&self) -> Option<BorrowedFd<'_>> {
        self.children.as_ref().and_then(Children::notifier)
    }

    /// A descriptor that is readable when a process waits for weir.
    pub(crate) fn has_intercepted(&self) -> Option<BorrowedFd<'_>> {
        self.intercept.as_ref().map(Intercept::has_events)
    }

    /// A process that was given executes another program before it was attached to.
    pub(crate) fn replaced(&mut self, pid: i32) {
        self.named.push(pid);
        self.tell_replaced(pid);
        self.follow(pid, Instant::now());
    }

    fn follow(&mut self, pid: i32, now: Instant) {
        let Subjects { selection, processes } = &self.shared.subjects;
        let is_of = |process: &Process| {
            !selection.is_of_program() || selection.rule_for(process, processes).is_some()
        };
        if let Some(process) = processes.process(pid).filter(is_of) {
            self.away.begins(pid, now);
            self.enrolment.replaced(process, now);
        }
    }

    fn tell(&self, lines: Vec<ProcessLine>) -> Vec<ProcessLine> {
        let (is_verbose, is_quiet) =
            (self.shared.given.options.is_verbose(), self.shared.given.options.is_quiet());
        for line in &lines {
            let is_refused = matches!(line.outcome, ProcessOutcome::Refused { .. });
            let told = self.refusals_told.get();
            if is_verbose || is_refused && !is_quiet && told < REFUSALS_TOLD_MAX {
                self.refusals_told.set(told + u32::from(is_refused));
                self.shared.notices.send(Notice::Process(line.clone()));
            }
        }
        if is_quiet { Vec::new() } else { lines }
    }

    fn tell_replaced(&self, pid: i32) {
        if !self.shared.given.options.is_quiet() {
            note!(
                self.shared.notices,
                Processes,
                "process {pid} executed another program; it is traced again if that has what is probed"
            );
        }
    }

    /// Somebody waits to be attached to.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Nobody is traced, and nobody will be, and the command, if there is one, has ended.
    pub(crate) fn is_over(&mut self, targets: &Targets, does_command_run: bool) -> bool {
        let is_alone = targets.have_ended() && self.ready.is_empty() && !self.enrolment.has_waiting();
        let selection = &self.shared.subjects.selection;
        let lingers = selection.is_of_program() && self.shared.given.lingers();
        if !is_alone || selection.is_standing() && !lingers {
            (self.alone, self.untraced) = (None, None);
            return false;
        }
        if lingers {
            return self.alone.get_or_insert_with(Instant::now).elapsed() >= LINGERS;
        }
        if does_command_run {
            let untraced_for = self.untraced.get_or_insert_with(Instant::now).elapsed();
            let is_due = untraced_for >= UNTRACED_AFTER && !self.shared.given.options.is_quiet();
            if is_due && !std::mem::replace(&mut self.is_untraced_told, true) {
                note!(
                    self.shared.notices,
                    Command,
                    "the command runs on, and nothing of it is traced any more"
                );
            }
            self.alone = None;
            return false;
        }
        if !self.shared.subjects.selection.follow.is_on() {
            return true;
        }
        // A child of the last may not have been seen yet. Where children wait for weir, and who executes a probed program does, one look is enough.
        if self.intercept.is_some() && self.children.is_some() {
            self.enrolment.hurry();
            let is_found = self.find(Instant::now()).is_ok();
            return is_found && self.ready.is_empty() && !self.enrolment.has_waiting();
        }
        self.alone.get_or_insert_with(Instant::now).elapsed() >= 2 * LOOK_INTERVAL
    }

    /// What a process maps is not waited for any more.
    fn seen(&mut self, plan: &Plan, pid: i32) {
        if !self.unseen.is_empty() {
            let names = names_mapped(plan, pid);
            self.unseen.retain(|name| !names.contains(name));
        }
    }

    /// The files that the script names and that no process mapped, of those that were waited for.
    pub(crate) fn unseen(&self) -> &BTreeSet<String> {
        &self.unseen
    }

    /// The command does not map these yet: one that it executes may.
    pub(crate) fn await_files(&mut self, names: BTreeSet<String>) {
        self.unseen = names;
    }

    pub(crate) fn counts(&mut self) -> ProcessCounts {
        let now = Instant::now();
        for pid in self.away.since.keys().copied().collect::<Vec<_>>() {
            self.away.ends(pid, now);
        }
        let (late, late_most) = self.late;
        let (execs, execs_held, away) = (self.away.execs, self.away.execs_held, self.away.sum);
        let not_held = self.not_held();
        let Counts { traced, refused, gone, is_gone_least, idle } = self.enrolment.counts();
        // Those that were to be attached to at this moment.
        let loose = self.ready.iter().filter(|candidate| candidate.loose.is_some()).count() as u64;
        let gone = gone + loose;
        ProcessCounts {
            traced,
            refused,
            gone,
            is_gone_least,
            idle,
            late,
            late_most,
            execs,
            execs_held,
            away,
            not_held,
        }
    }

    /// Finds processes that are to be attached to now.
    fn find(&mut self, now: Instant) -> Result<(), Failure> {
        let own = std::process::id();
        // weir's watchdog shares its memory.
        let is_own = |pid: i32| vm_sharing::share_memory(pid, own as i32) == Some(true);
        let inherits = |pid: i32| inherited(pid, &self.shared).is_some() && !is_own(pid);
        let (shared, plans) = (&*self.shared, std::cell::RefCell::new(&mut self.plans));
        let (plan, processes) = (&shared.plan, &shared.subjects.processes);
        let see = |candidate: &Candidate| {
            let elsewhere = |pid: i32| plan_elsewhere(shared, &mut plans.borrow_mut(), pid);
            let is_handed_over = shared.is_handed_over(candidate.process.id.pid);
            match see(plan, &elsewhere, processes, candidate, now, is_handed_over) {
                Sight::Maps { .. } if !is_handed_over && shared.is_to_be_held(candidate.process.id) => {
                    Sight::Maps { files: 0, is_settled: false }
                }
                sight => sight,
            }
        };
        let found = self.enrolment.ready(now, &inherits, &see);
        let found = found.map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")))?;
        self.ready.extend(found);
        Ok(())
    }

    /// Attaches to a process, if it can be. `held`: it is stopped, and has not begun to run. `refused`: the first failure of those that can not.
    fn enrol(
        &mut self,
        mut candidate: Candidate,
        held: Option<Exec>,
        targets: &mut Targets,
        refused: &mut Option<Failure>,
    ) -> Result<Option<ProcessLine>, Failure> {
        let now = Instant::now();
        let pid = candidate.process.id.pid;
        let parent = inherited(pid, &self.shared);
        let waits = parent.as_ref().is_some_and(|parent| parent.children_wait);
        let is_held = held.is_some() || candidate.joins || self.shared.is_handed_over(pid);
        let failure = match self.attach(&mut candidate, held, parent.as_ref().map(|_| waits)) {
            Ok(one) if one.attachment.probes() > 0 || one.plan.sites.is_empty() => {
                let mut line = self.line(&candidate, Ok(one.attachment.probes()));
                // Nothing of it has run unprobed.
                let is_held = is_held || waits && candidate.loose.is_none();
                if let (true, ProcessOutcome::Traced { unprobed, .. }) = (is_held, &mut line.outcome) {
                    *unprobed = Some(Duration::ZERO);
                }
                self.away.ends(one.pid(), Instant::now());
                // One that executed another program is counted by that.
                let is_late = !is_held && candidate.replaced.is_none();
                if let Some(unprobed) = self.unprobed(&candidate).filter(|_| is_late) {
                    self.late = (self.late.0 + 1, self.late.1.max(unprobed));
                }
                self.enrolment.attached(&candidate, ticks_since_boot(), is_held);
                targets.all.push(one);
                return Ok(Some(line));
            }
            // It has mapped what it had when it was seen, and executes it at this moment.
            Ok(one) if candidate.tries < STOP_TRIES && one.is_in_between() => {
                self.shared.guard.detached(one.pid());
                self.enrolment.declined(candidate, Declined::NotNow, now);
                return Ok(None);
            }
            Ok(one) => {
                self.shared.guard.detached(one.pid());
                let refusal = one.attachment.outcomes().iter().find_map(|outcome| outcome.as_ref().err());
                let refusal = refusal.map(|refusal| (refusal.code(), refusal.to_string()));
                let refusal = refusal.unwrap_or_default();
                let line = self.line(&candidate, Err(refusal.clone()));
                self.enrolment.declined(candidate, Declined::Refused(refusal.0), now);
                return Ok(Some(line));
            }
            Err(failure @ Failure::Bug(_)) => return Err(failure),
            Err(failure) => failure,
        };
        // One that this run has had already is not given up soon.
        let tries =
            if candidate.origin == Origin::Again { candidate.tries / AGAIN_TRIES } else { candidate.tries };
        // A child is tried in one stop first.
        let tries = if parent.is_some() { tries.saturating_sub(STOP_TRIES - 1) } else { tries };
        let why = declined(&failure, tries);
        if why == Declined::NotNow && failure.of_process().is_some_and(Error::is_of_stop) {
            self.shared.undo_own();
        }
        // A forked child that is held runs no further to where it has room.
        candidate.in_steps |= matches!(failure.of_process(), Some(Error::NoStack { .. }));
        let line = match &why {
            Declined::Refused(code) => Some(self.line(&candidate, Err((code.clone(), failure.to_string())))),
            Declined::Gone | Declined::NotNow => None,
        };
        self.enrolment.declined(candidate, why, now);
        if line.is_some() {
            refused.get_or_insert(failure);
        }
        Ok(line)
    }

    /// `child`: it has its parent's probes, and whether it waits at the first of them.
    fn attach(
        &mut self,
        candidate: &mut Candidate,
        held: Option<Exec>,
        child: Option<bool>,
    ) -> Result<One, Failure> {
        let (shared, pid) = (self.shared.clone(), candidate.process.id.pid);
        match held {
            None if shared.is_handed_over(pid) => {
                shared.take_over(pid, |holds| self.attach_once(candidate, None, child, holds))
            }
            held => self.attach_once(candidate, held, child, false),
        }
    }

    /// `holds` as in [`Shared::open_within`].
    fn attach_once(
        &mut self,
        candidate: &mut Candidate,
        held: Option<Exec>,
        child: Option<bool>,
        holds: bool,
    ) -> Result<One, Failure> {
        let (id, own) = (candidate.process.id, self.shared.plan.clone());
        let held = match held {
            Some(exec) => {
                self.shared.admit(id.pid, &own)?;
                Some(exec.into_target(Some(&own.file_identities()))?)
            }
            None => None,
        };
        let plan = match maps_of(&own, id.pid) {
            Some(0) => plan_elsewhere(&self.shared, &mut self.plans, id.pid).unwrap_or_else(|| own.clone()),
            _ => own.clone(),
        };
        let allowance = self.shared.admit(id.pid, &plan)?;
        let target = match (held, child) {
            (Some(mut target), _) => {
                target.allow(allowance);
                target
            }
            (None, Some(waits)) => {
                // One that does not wait would be past its first hits, and one that may be stopped for some ms alone is held in vain.
                let is_patient = waits && allowance.stop >= Allowance::default().stop;
                let tries_whole = if is_patient { STOP_TRIES } else { 1 };
                let is_whole = candidate.tries < tries_whole && !candidate.in_steps;
                let hold = if is_whole { ChildHold::Whole } else { ChildHold::InSteps };
                open_child(id.pid, allowance, hold)?
            }
            (None, None) => self.shared.open_within(id.pid, allowance, holds)?,
        };
        // Its number may be another's by now; from here on it is the one that was opened.
        if !lives(&self.shared.subjects.processes, id) {
            return Err(Error::TargetGone { pid: id.pid }.into());
        }
        self.shared.admit(id.pid, &plan)?;
        // A process that is held runs on in `enrol`, and may end soon.
        self.seen(&plan, id.pid);
        let runs_between = child.is_some() && !target.is_held();
        // Where this fails, the probes that it had may be out, and its own are not in.
        let had_probes = child.is_some() || target.is_taken();
        let (before, now) = (candidate.loose, had_probes.then(Instant::now));
        candidate.loose = before.or(now);
        let prepared = self.shared.prepare(target, &self.maps, &plan)?;
        let one = self.shared.enrol(prepared, plan);
        let one = one.inspect_err(|_| self.shared.guard.detached(id.pid))?;
        candidate.loose = before.or(now.filter(|_| runs_between));
        Ok(one)
    }

    fn line(&self, candidate: &Candidate, outcome: Result<usize, (String, String)>) -> ProcessLine {
        let pid = candidate.process.id.pid;
        // It may be called otherwise since it was seen.
        let comm = self.shared.subjects.processes.process(pid).map(|process| process.comm);
        let comm = comm.unwrap_or_else(|| candidate.process.comm.clone());
        let outcome = match outcome {
            Ok(probes) => {
                ProcessOutcome::Traced { probes: probes as u64, unprobed: self.unprobed(candidate) }
            }
            Err((code, message)) => ProcessOutcome::Refused { code, message },
        };
        ProcessLine { pid, comm, how: candidate.origin.to_string(), outcome }
    }

    /// For how long it ran without probes since the run began; none for those that ran before.
    fn unprobed(&self, candidate: &Candidate) -> Option<Duration> {
        if let Some(replaced) = candidate.replaced {
            return Some(replaced.elapsed());
        }
        let loose = candidate.loose.map(|since| since.elapsed());
        let Some(started) = started(candidate.process.id) else { return loose };
        let is_later = started + START_RESOLUTION >= self.began && candidate.origin != Origin::Command;
        is_later.then(|| since_boot().saturating_sub(started)).or(loose)
    }
}

/// What a forked child of a process of this run, or of one that is taken over, has inherited, as long as it is not attached to.
fn inherited(pid: i32, shared: &Shared) -> Option<scan::Probed> {
    let is_ours = |probed: &scan::Probed| {
        probed.identity.controller_pid == std::process::id() || shared.is_of_before(probed)
    };
    scan::inherited_in(pid).ok()?.into_iter().find(is_ours)
}

fn is_own_thread(tid: i32) -> bool {
    Path::new(&format!("/proc/self/task/{tid}")).exists()
}

/// What a failure means for a process that nobody gave by its number.
fn declined(failure: &Failure, tries: u32) -> Declined {
    match failure.of_process() {
        Some(Error::TargetGone { .. } | Error::NoProcess { .. } | Error::NoProgram { .. }) => Declined::Gone,
        Some(Error::Replaced { .. } | Error::SharesMemory { .. } | Error::ChildPending { .. }) => {
            Declined::NotNow
        }
        Some(error) if error.is_of_stop() && tries < STOP_TRIES => Declined::NotNow,
        // It is let run the next time.
        Some(Error::NoStack { .. }) if tries == 0 => Declined::NotNow,
        // By a thread of weir's own, which holds it where it executes a program.
        Some(Error::AlreadyTraced { tracer, .. }) if tries < STOP_TRIES && is_own_thread(*tracer) => {
            Declined::NotNow
        }
        Some(error) => Declined::Refused(error.code().to_owned()),
        None => Declined::Refused("refused".to_owned()),
    }
}
