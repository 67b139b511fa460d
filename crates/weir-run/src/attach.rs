//! Puts what a script means into one process, and tells what was done there.
//!
//! In: a process that was opened, and the plan for it. Out: [`One`] of the run's targets, or why it is none.
//! The order: [`admit`](Shared::admit) asks whether it may be traced, and what may be taken of it; `prepare` notes that it is,
//! and lends it the maps; `enrol` or `arm` put the programs in. Nothing is done to a process that cannot be noted, and a
//! failure takes out what was put in. Taking it out at the end is [`Targets`](crate::targets::Targets).

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use weir_ir::MissingProbes;
use weir_policy::budget::Budget;
use weir_policy::policy::Needs;
use weir_probe::{Allowance, Attachment, Prepared, TakenOver, Target, limits, scan, target};
use weir_report::Loads;
use weir_rt::local;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_source::printable;

use crate::clock::now_ns;
use crate::failure::Failure;
use crate::in_kernel;
use crate::kernel::is_in_initial_namespace;
use crate::loads::Followed;
use crate::notice::{Notice, ms, note, of_process};
use crate::one::One;
use crate::plan::Plan;
use crate::required::{Elsewhere, hopeless, indispensable};
use crate::shared::{Shared, label};
use crate::stages;
use crate::summary::Coverage;
use crate::supervisor::Before;

/// Bytes of a recording's rings that are there before the first event. What a page takes when an event comes to it first is as much
/// as some tens of events take.
const RINGS_PRESENT_MAX: u64 = 64 << 20;

/// Writes that the undo journal has room for besides, for copies of libraries that are loaded several times at once.
const COPIES_WRITES_MAX: usize = 1024;

impl Shared {
    /// The budget of process `pid`, if it may be traced and the maps fit into it: before it is touched. What code needs is known later.
    pub(super) fn budget(&self, pid: i32, plan: &Plan) -> Result<Budget, Failure> {
        let needs = Needs::of(&plan.verified);
        let budget = self.guard.admit(pid, &needs)?;
        let needed = maps_layout(&self.plan)?.bytes_at_first() + control(plan)?.bytes;
        match budget.bytes {
            Some(allowed) if needed > allowed => Err(Failure::Refused(anyhow!(
                "the maps of the script need {needed} bytes, and the budget is {budget} ({}): make them smaller with \
                 `config = {{ max_map_keys = N }}` in the script, or allow more",
                self.guard.limits(pid, &needs)
            ))),
            _ => Ok(budget),
        }
    }

    /// What may be taken of process `pid`, within its [`Shared::budget`].
    pub(super) fn admit(&self, pid: i32, plan: &Plan) -> Result<Allowance, Failure> {
        let budget = self.budget(pid, plan)?;
        // Where the length of stops is limited, they do not wait for pages.
        let present = match (&self.given.recording, budget.stop) {
            (Some(_), None) => RINGS_PRESENT_MAX,
            _ => 0,
        };
        Ok(allowance(budget, present))
    }

    /// The weir whose probes process `pid` has, if they are to be undone although it lives.
    fn undone_of(&self, pid: i32) -> Option<u32> {
        if self.after.borrow().is_empty() {
            return None;
        }
        let is_its = |probed: &scan::Probed| {
            self.is_of_before(probed) && probed.controller_alive && !probed.is_inherited()
        };
        let found = scan::all_in(pid).ok()?.into_iter().find(is_its);
        found.map(|probed| probed.identity.controller_pid)
    }

    /// Process `pid` is traced by the weir whose processes are taken over.
    pub(super) fn is_handed_over(&self, pid: i32) -> bool {
        self.undone_of(pid).is_some_and(|controller| controller != std::process::id())
    }

    /// Processes of another weir are taken over.
    pub(super) fn takes_over(&self) -> bool {
        self.after.borrow().iter().any(|before| before.pid != std::process::id())
    }

    /// What a process has is of a weir whose probes are to be undone.
    pub(super) fn is_of_before(&self, probed: &scan::Probed) -> bool {
        let Identity { controller_pid: pid, controller_start: start, .. } = probed.identity;
        self.after.borrow().contains(&Before { pid, start })
    }

    /// This weir may have left something where it is not attached, which is to be undone before it attaches.
    pub(super) fn undo_own(&self) {
        let own = Before { pid: std::process::id(), start: scan::own_start() };
        let mut after = self.after.borrow_mut();
        if !after.contains(&own) {
            after.push(own);
        }
    }

    /// Opens a process. One that is taken over is held until it is attached to, if it can be `held` for so long.
    pub(super) fn open_within(
        &self,
        pid: i32,
        allowance: Allowance,
        held: bool,
    ) -> Result<Target, weir_probe::Error> {
        match self.undone_of(pid) {
            Some(controller) => weir_probe::take_over(pid, controller, allowance, held),
            None => Target::open_within(pid, allowance),
        }
    }

    /// Takes a process over: `attach` opens it and attaches to it, and is given whether it is to be held meanwhile. One that may not be held for so
    /// long goes on unprobed in between, and this is reported.
    pub(super) fn take_over(
        &self,
        pid: i32,
        mut attach: impl FnMut(bool) -> Result<One, Failure>,
    ) -> Result<One, Failure> {
        let start = Instant::now();
        let failure = match attach(true) {
            Err(failure) if failure.of_process().is_some_and(weir_probe::Error::is_of_stop) => failure,
            done => return done,
        };
        let one = attach(false)?;
        if !self.given.options.is_quiet() {
            note!(
                self.notices,
                Processes,
                "process {pid} could not be taken over in one stop ({failure}): what came in {} at most is missing",
                ms(start.elapsed())
            );
        }
        Ok(one)
    }

    /// What went wrong in process `pid`, with whose limits they are that it is about.
    pub(super) fn limited(&self, pid: i32, plan: &Plan, error: weir_probe::Error) -> Failure {
        Failure::with_limits(error, || self.guard.limits(pid, &Needs::of(&plan.verified)))
    }

    /// The maps of the session, empty but for tables of automata and what `--program` has in its own at first.
    pub(super) fn maps(&self) -> Result<Segment, Failure> {
        let (layout, identity) = (maps_layout(&self.plan)?, self.identity(0));
        let segment = match in_kernel::array(&layout)? {
            Some(array) => Segment::create_maps_with_kernel(layout, &identity, array),
            None => Segment::create_maps(layout, &identity),
        };
        let segment = segment.context("making the segment").map_err(Failure::Machine)?;
        if let Some((map, contents)) = &self.plan.compiled.automata {
            let written = segment.map(*map as usize).update(&0u32.to_le_bytes(), contents, 0);
            written.map_err(|error| Failure::Bug(anyhow!("{error}")))?;
        }
        if let Some(decider) = &self.given.decider {
            decider.fill(&segment, self.plan.compiled.callee_maps)?;
        }
        Ok(segment)
    }

    fn identity(&self, target_pid: u32) -> Identity {
        let started_ns = now_ns();
        let controller_pid = std::process::id();
        Identity {
            session: started_ns ^ u64::from(controller_pid) << 40,
            controller_pid,
            controller_start: weir_probe::scan::own_start(),
            uid: nix::unistd::getuid().as_raw(),
            started_ns,
            target_pid,
            label: label(&self.plan.compiled, self.given.session_name()),
        }
    }

    /// The first that is done to a process: what may not be noted is not done.
    pub(super) fn prepare(
        &self,
        target: Target,
        maps: &Arc<Segment>,
        plan: &Plan,
    ) -> Result<Prepared, Failure> {
        let pid = target.pid();
        check_numbers(pid, maps, plan)?;
        self.guard.attach(pid, &Needs::of(&plan.verified))?;
        let prepared = weir_probe::prepare(target, maps, control(plan)?, &self.identity(pid as u32));
        let mut prepared = prepared.map_err(|error| {
            self.guard.detached(pid);
            self.limited(pid, plan, error)
        })?;
        if let Some(TakenOver { controller_pid, restored }) = prepared.taken_over()
            && !self.given.options.is_quiet()
        {
            let plural = if restored == 1 { "probe" } else { "probes" };
            note!(
                self.notices,
                Processes,
                "process {pid}: took over from weir {controller_pid}, which is gone: {restored} {plural} of it put back"
            );
        }
        if self.subjects.selection.has_children() {
            prepared.let_children_wait();
        }
        Ok(prepared)
    }

    /// Attaches to one of several that the script may mean less for: what it has is probed.
    pub(super) fn enrol(&self, prepared: Prepared, plan: Rc<Plan>) -> Result<One, Failure> {
        let named = Some(prepared.target().pid());
        // Before it runs on: it may be another program soon.
        let share = self.guard.admit(prepared.target().pid(), &Needs::of(&plan.verified))?.share;
        let (attachment, programs, followed) = self.put(prepared, &plan, named)?;
        let coverage = Coverage::of(&plan.sites, attachment.outcomes(), Loads::default());
        Ok(One::new(attachment, plan, programs, coverage, followed, share))
    }

    /// Attaches to one that was given: what the script insists on must be there, or `elsewhere`, and something of it here.
    /// `named`: the process, where it is told of several.
    pub(super) fn arm(
        &self,
        prepared: Prepared,
        plan: Rc<Plan>,
        named: Option<i32>,
        elsewhere: &Elsewhere,
    ) -> Result<One, Failure> {
        // Before it runs on: it may be another program soon.
        let share = self.guard.admit(prepared.target().pid(), &Needs::of(&plan.verified))?.share;
        let (attachment, programs, followed) = self.put(prepared, &plan, named)?;
        let (sites, outcomes) = (&plan.sites[..], attachment.outcomes());
        // What was patched is put back where one of these fails.
        indispensable(&plan.compiled, sites, outcomes, elsewhere)?;
        let (coverage, is_verbose) =
            (Coverage::of(sites, outcomes, Loads::default()), self.given.options.is_verbose());
        let not = coverage.not_probed(sites, outcomes, named, is_verbose);
        if !not.is_nothing() && (plan.missing != MissingProbes::Ignore || is_verbose) {
            self.notices.send(Notice::NotProbed(not));
        }
        hopeless(&plan.compiled, sites, outcomes, elsewhere)?;
        let stands_in =
            || target::read_mappings(attachment.target().pid()).is_ok_and(|all| plan.stands_in_among(&all));
        if coverage.is_empty() && !sites.is_empty() && !stands_in() {
            return Err(Failure::Refused(anyhow!("it maps nothing that the script probes")));
        }
        Ok(One::new(attachment, plan, programs, coverage, followed, share))
    }

    /// The programs put in, of each executable the number of its program, and what follows libraries.
    fn put(
        &self,
        prepared: Prepared,
        plan: &Plan,
        named: Option<i32>,
    ) -> Result<(Attachment, Vec<usize>, Followed), Failure> {
        let (cpus, is_verbose) = (prepared.maps().layout().cpus, self.given.options.is_verbose());
        let (target, sites) = (prepared.target(), &plan.sites[..]);
        let native = stages::native(sites, &plan.verified, &|binary| target.abi(binary, cpus))?;
        let start = Instant::now();
        let pid = target.pid();
        if let Some(groups) = &self.groups {
            prepared.set_cgroup(groups.borrow_mut().of(pid));
        }
        let armed = prepared.arm(&native.requests, &native.executables);
        let attachment = armed.map_err(|error| self.limited(pid, plan, error))?;
        if is_verbose && !sites.is_empty() {
            let (probes, stops, took) = (attachment.probes(), attachment.stops(), start.elapsed());
            self.notices.send(Notice::Attached { process: named, probes, took, stops });
        }
        let (longest, allowed) = (attachment.stops().longest, attachment.target().allowance().stop);
        if longest > allowed {
            let of = of_process(named);
            note!(
                self.notices,
                Target,
                "{of}a stop took {}, longer than the {} that are allowed",
                ms(longest),
                ms(allowed)
            );
        }
        let wanted = native.requests.into_iter().map(|request| request.programs).collect();
        let followed = Followed::new(wanted, &attachment, named, is_verbose, &self.notices);
        Ok((attachment, native.programs, followed))
    }

    pub(super) fn tell_undone(&self, one: &One, report: &weir_probe::Report, took: Duration) {
        self.guard.detached(one.pid());
        if self.given.options.is_verbose() && !one.plan.sites.is_empty() {
            let (pid, probes, stops) = (one.pid(), report.restored, report.stops);
            self.notices.send(Notice::Detached { pid, probes, took, stops });
        }
        for (path, probes) in &report.unloaded {
            let path = printable(path);
            note!(
                self.notices,
                Probes,
                "{path} was unloaded while it was traced: {probes} probes ended with it"
            );
        }
        let vanished = report.vanished.saturating_sub(one.followed.vanished);
        if vanished > 0 {
            note!(
                self.notices,
                Probes,
                "{vanished} probes were gone from the text of process {} at the end: it has put that back, mapped it anew or dropped its pages \
                 (MADV_DONTNEED); calls since then are not counted",
                one.pid()
            );
        }
        for address in &report.foreign {
            note!(
                self.notices,
                Probes,
                "text at {address:#x} was changed by somebody else meanwhile; it was left alone"
            );
        }
        if report.is_filtered {
            let pid = one.pid();
            note!(
                self.notices,
                Detaching,
                "process {pid} is under seccomp, which weir may not suspend to unmap its code; that stays \
                 mapped, and nothing leads there: `weir detach -p {pid}` with CAP_SYS_ADMIN (sudo) takes it out"
            );
        } else if report.left_mapped && self.given.options.is_verbose() {
            note!(
                self.notices,
                Detaching,
                "some of weir's code stays mapped in the target: a thread may still return to it"
            );
        }
    }
}

/// Where both sides see a map, a thread has the same number on both.
fn check_numbers(pid: i32, maps: &Segment, plan: &Plan) -> Result<(), Failure> {
    if maps.in_kernel().is_none() || !plan.asks_for_thread() || is_in_initial_namespace(pid) {
        return Ok(());
    }
    Err(Failure::Refused(anyhow!(
        "process {pid} is in a PID namespace of its own, where `pid` and `tid` are other numbers than in the kernel, and the script has a map that both \
         sides see: with `--engine kernel` they are the same everywhere"
    )))
}

/// The layout of the segment that a run's maps are in.
pub(crate) fn maps_layout(plan: &Plan) -> Result<SegmentLayout, Failure> {
    let lay_out = match stages::need_lanes(&plan.verified) {
        true => SegmentLayout::plan_claimable,
        false => SegmentLayout::plan,
    };
    let layout = lay_out(&plan.compiled.object.maps, local::possible_cpus());
    Ok(layout.map_err(|error| Failure::Refused(anyhow!(error)))?.growing())
}

/// The layout of the own segment of a target.
pub(crate) fn control(plan: &Plan) -> Result<SegmentLayout, Failure> {
    // A semaphore is raised and lowered.
    let semaphores = plan.sites.iter().filter(|site| site.semaphore.is_some()).count();
    let windows = plan.sites.iter().filter_map(|site| site.window.as_ref().ok());
    let writes: usize = windows.map(|window| window.write_count()).sum();
    // Libraries may be loaded several times at once; the linker's announcements and what installs filters are hooked.
    let copies = (writes + semaphores).min(COPIES_WRITES_MAX);
    // What takes memory away is watched where programs read it.
    let hooks = 1 + limits::FILTER_HOOKS_MAX + limits::GUARDS_MAX;
    let own = limits::HOOKS_MAX + hooks * limits::WRITES_PER_SITE_MAX;
    let journal = (writes + copies + 2 * semaphores + own) as u32;
    let probes = plan.compiled.triggers.iter().filter(|trigger| trigger.is_probe()).count() as u32;
    SegmentLayout::of_target(journal, probes).map_err(|error| Failure::Refused(anyhow!(error)))
}

fn allowance(budget: Budget, present: u64) -> Allowance {
    let all = Allowance::default();
    Allowance { stop: budget.stop.unwrap_or(all.stop), bytes: budget.bytes.unwrap_or(all.bytes), present }
}
