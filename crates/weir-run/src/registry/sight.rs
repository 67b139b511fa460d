//! What there is to see of a process that may be traced: whether it runs, which of the files that are probed it maps, how old it is.
//!
//! In: a plan, `/proc`. Out: a [`Sight`]. Changes nothing.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use weir_probe::{scan, target, vm_sharing};
use weir_process::enrol::{Candidate, Sight};
use weir_process::processes::{ProcessId, Processes};
use weir_symbols::maps;

use crate::plan::Plan;
use crate::registry::{SETTLED_AFTER, World};
use crate::shared::Shared;
use crate::stages::Site;

impl Shared {
    /// A process of a program that begins: the supervisor says when it can be attached to, and this run waits for that.
    pub(super) fn is_to_be_held(&self, id: ProcessId) -> bool {
        let Some(of) = self.given.options.of_program.as_ref() else { return false };
        let age = started(id).map_or(Duration::ZERO, |started| since_boot().saturating_sub(started));
        !weir_world::is_instrumented(id.pid)
            || of.are_held && age < SETTLED_AFTER && self.subjects.processes.has_executed(id.pid)
    }
}

/// The process still runs.
pub(super) fn lives(processes: &Processes, id: ProcessId) -> bool {
    processes.process(id.pid).is_some_and(|process| process.id == id && process.has_program)
}

/// What there is to say of a process now. `elsewhere`: what the script means in its own root.
pub(super) fn see(
    plan: &Plan,
    elsewhere: &dyn Fn(i32) -> Option<Rc<Plan>>,
    processes: &Processes,
    candidate: &Candidate,
    now: Instant,
    is_handed_over: bool,
) -> Sight {
    let id = candidate.process.id;
    if !lives(processes, id) {
        return Sight::Gone;
    }
    let parent = scan::inherited_in(id.pid).ok().and_then(|found| found.into_iter().next());
    let is_forked = parent.is_some();
    let shares = |probed: scan::Probed| vm_sharing::share_memory(id.pid, probed.identity.target_pid as i32);
    // In vfork(2) it may run in the memory of a forked child that is not attached to yet.
    let in_vfork = || vm_sharing::share_memory(id.pid, candidate.process.parent) == Some(true);
    if parent.and_then(shares) == Some(true) || is_forked && in_vfork() {
        return Sight::Shares;
    }
    let files = match maps_of(plan, id.pid) {
        Some(0) => elsewhere(id.pid).and_then(|plan| maps_of(&plan, id.pid)).unwrap_or(0),
        Some(files) => files,
        // Whoever tries to attach is told why it is not to be read.
        None => plan.binaries().len(),
    };
    let age = started(id).map_or(Duration::ZERO, |started| since_boot().saturating_sub(started));
    let is_old = |at: Instant| now.saturating_duration_since(at) >= SETTLED_AFTER;
    // It has what its parent had.
    let is_settled =
        is_forked || is_handed_over || age >= SETTLED_AFTER && candidate.replaced.is_none_or(is_old);
    Sight::Maps { files, is_settled }
}

/// How many of the files that `plan` probes a process maps; none where it is not to be looked at.
pub(super) fn maps_of(plan: &Plan, pid: i32) -> Option<usize> {
    Some(mapped_of(plan, pid)?.len())
}

/// The files that `plan` probes and a process maps.
fn mapped_of(plan: &Plan, pid: i32) -> Option<Vec<&weir_symbols::Binary>> {
    let (mappings, root) = (target::read_mappings(pid).ok()?, target::root(pid));
    let is_mapped = |binary: &&weir_symbols::Binary| {
        let inside = binary.path().strip_prefix(&root).map(|inside| Path::new("/").join(inside));
        maps::identity_of(&mappings, binary, inside.as_deref().unwrap_or(binary.path())).is_some()
    };
    Some(plan.binaries().into_iter().filter(is_mapped).collect())
}

/// The files of `plan` that a process maps, by the names that the script has for them.
pub(crate) fn names_mapped(plan: &Plan, pid: i32) -> BTreeSet<String> {
    let mapped = mapped_of(plan, pid).unwrap_or_default();
    let is_mapped = |site: &&Site| mapped.iter().any(|binary| std::ptr::eq(*binary, &*site.binary));
    plan.sites.iter().filter(is_mapped).map(|site| site.path.clone()).collect()
}

/// What the script means for a process of another root, if it means something: found out once for each root and program.
pub(super) fn plan_elsewhere(
    shared: &Shared,
    plans: &mut HashMap<World, Option<Rc<Plan>>>,
    pid: i32,
) -> Option<Rc<Plan>> {
    if target::shares_root(pid).unwrap_or(true) {
        return None;
    }
    let file =
        |name: &str| fs::metadata(format!("/proc/{pid}/{name}")).ok().map(|file| (file.dev(), file.ino()));
    let world = [file("root/")?, file("exe")?];
    let plan = plans.entry(world).or_insert_with(|| {
        let plan = shared.given.for_another(&shared.given.world(Some(pid)).ok()?, &shared.plan);
        plan.ok().map(Rc::new)
    });
    plan.clone()
}

pub(crate) fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// When it began, since boot.
pub(super) fn started(id: ProcessId) -> Option<Duration> {
    Some(Duration::from_secs_f64(id.start as f64 / ticks_per_second()? as f64))
}

/// As in [`ProcessId::start`].
pub(super) fn ticks_since_boot() -> u64 {
    let ticks = ticks_per_second().unwrap_or_default() as u128;
    (since_boot().as_nanos() * ticks / 1_000_000_000) as u64
}

fn ticks_per_second() -> Option<i64> {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0)
}
