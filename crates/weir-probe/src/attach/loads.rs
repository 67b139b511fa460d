//! Follows the libraries that a target loads and unloads while it is traced.
//!
//! In: an [`Attachment`], and the sites that it was armed with. Out: what has come and was probed, and what has gone, each
//! time that the target's dynamic linker says so.
//!
//! ```text
//! target: dlopen ─ maps the library ─ r_brk: announces, waits ─────────────────────────▶ relocates it, constructors, …
//! weir:                                          └▶ maps file · forget · put in · answer ┘
//! ```
//!
//! The hook at `r_brk` is a site like others, with a program of weir's own ([`weir_trampoline::announce`]). It stands only
//! where it is of use: where a site's file is not mapped yet, or one is a library that may be unloaded. What is loaded is
//! always read off the maps; an announcement only says when to look.
//!
//! Guaranteed: what has come is probed before any of it runs, where the target waits (not under seccomp, and not longer
//! than half a second; [`Change::unanswered`] counts the rest) and where the linker announces before it
//! relocates: glibc before 2.41 and musl; later ones do after relocation, so that IFUNC resolvers are not seen there. Nothing is
//! written to what is mapped where a library was. A file that is mapped several times is probed in each copy. What a look
//! found half mapped, or mapped anew behind its back, is probed at the next. Nobody who went on unanswered is forgotten,
//! also where the target ends before, or while, it is looked at.
//!
//! Deliberately not: a library that has been replaced by another file since it was read (told); programs without a
//! dynamic linker. Of a library that is unloaded and loaded again between two looks, at the same place, only the last is told.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_plan::Refusal;
use weir_plan::plan_functions;
use weir_plan::window::Window;
use weir_rt::segment::{Announcements, JournalState};
use weir_symbols::Binary;
use weir_trampoline::announce;

use crate::attach::calls::Registering;
use crate::attach::notifier::LoadNotifier;
use crate::attach::others::Others;
use crate::attach::own::OwnHook;
use crate::attach::request::{Outcome, SiteRequest};
use crate::attach::state::{Attachment, MappedFile};
use crate::attach::undo::Patch;
use crate::limits::{ISLANDS_MAX, RETIRE_TRIES};
use crate::process::linker::{self, Linker};
use crate::process::sys;
use crate::refusal::Error;

/// What has come and gone since the last look.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub loaded: Vec<Loaded>,
    pub unloaded: Vec<Unloaded>,
    /// Of sites that were refused in what is still there, and were tried again: by index of the site.
    pub retried: Vec<(usize, Outcome)>,
    pub unanswered: Unanswered,
}

/// Announcements whose answer the target did not wait for, or not long enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unanswered {
    pub count: u32,
    /// How long what was loaded then ran unprobed at most. It may have gone again since.
    pub unprobed: Duration,
}

impl Change {
    pub fn is_nothing(&self) -> bool {
        let is_same = self.loaded.is_empty() && self.unloaded.is_empty() && self.retried.is_empty();
        is_same && self.unanswered.count == 0
    }
}

/// A file that was mapped, with what became of its sites: by index of the site.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub path: String,
    pub outcomes: Vec<(usize, Outcome)>,
}

/// A file that was unmapped, and how many sites were probed in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unloaded {
    pub path: String,
    pub probes: usize,
}

/// The `r_brk` of a target, to be hooked.
struct Hook {
    linker: Linker,
    window: Result<Window, Refusal>,
    program: usize,
}

impl Attachment {
    /// Whether sites whose files are not mapped are probed when they are.
    pub fn follows_loads(&self) -> bool {
        self.loads.hook.is_some()
    }

    /// Why they are not, where that was wanted.
    pub fn loads_refused(&self) -> Option<&Refusal> {
        self.loads.refused.as_ref()
    }

    /// Becomes readable when there may be something to look at ([`Attachment::has_loads`], which makes it unreadable again).
    pub fn loads_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.loads.notifier.as_ref().map(LoadNotifier::descriptor)
    }

    /// Whether there is something for [`Attachment::follow_loads`] to do. To be asked often: it costs one read of memory.
    pub fn has_loads(&mut self) -> bool {
        if let Some(notifier) = &self.loads.notifier {
            notifier.hush();
        }
        let number = self.announcements().announced();
        let has_loads = self.loads.hook.is_some() && self.loads.answered != Some(number);
        if !has_loads {
            self.loads.looked = Some(Instant::now());
        }
        has_loads
    }

    /// Whether the target waits for an answer; none where it never does. What it waits for makes [`Attachment::loads_descriptor`] readable no more.
    pub fn waits_for_answer(&self) -> Option<bool> {
        self.loads.hook?;
        let announcements = self.announcements();
        let is_waiting = announcements.announced() != announcements.answered();
        if let Some(notifier) = self.loads.notifier.as_ref().filter(|_| is_waiting) {
            notifier.hush();
        }
        Some(is_waiting)
    }

    /// Probes what was loaded since the last look, forgets what was unloaded, and lets the target go on that waits for
    /// it. `sites`: those that it was armed with. What was done until something failed, or the target ended, is told too.
    pub fn follow_loads(&mut self, sites: &[SiteRequest]) -> (Change, Result<(), Error>) {
        let mut change = Change::default();
        if self.loads.hook.is_none() {
            return (change, Ok(()));
        }
        let number = self.announcements().announced();
        self.announcements().take(number);
        let stock = self.take_stock(sites, &mut change);
        self.announcements().answer(number);
        self.loads.answered = Some(number);
        // While this thread is busy the next one waits longer.
        self.announcements().take(number.wrapping_add(1));
        change.unanswered = self.unanswered();
        self.loads.looked = Some(Instant::now());
        // Nobody waits for this.
        let done = stock.and_then(|()| self.tidy()).map_err(|error| self.target.explain(error));
        if !self.loads.is_busy_elsewhere {
            self.announcements().take(number);
        }
        (change, done)
    }

    /// This thread is busy with other processes, or not any more: who announces something meanwhile waits as long as for one that has begun to work on it.
    pub fn is_busy_elsewhere(&mut self, is_busy: bool) {
        self.loads.is_busy_elsewhere = is_busy;
        let number = self.announcements().announced();
        self.announcements().take(if is_busy { number.wrapping_add(1) } else { number });
    }

    /// Those that went on without an answer and were not told yet. To be asked for when the target has ended, or is let go
    /// of: between the last look and that moment there may have been some.
    pub fn unanswered(&mut self) -> Unanswered {
        let late = self.announcements().late();
        match late.wrapping_sub(std::mem::replace(&mut self.loads.late, late)) {
            0 => Unanswered::default(),
            count => {
                let unprobed = self.loads.looked.map(|looked| looked.elapsed()).unwrap_or_default();
                Unanswered { count, unprobed }
            }
        }
    }

    pub(crate) fn announcements(&self) -> Announcements<'_> {
        self.control.announcements()
    }

    /// Puts in the first sites, and the hook if it is of use.
    pub(crate) fn put_in_with_hook(&mut self, sites: &[SiteRequest]) -> Result<Vec<Outcome>, Error> {
        let hook = self.plan_hook(sites).unwrap_or_else(|refusal| {
            self.loads.refused = Some(refusal);
            None
        });
        // Children of a process without probes have none to wait at.
        let has_probes = hook.is_some()
            || sites.iter().any(|site| site.window.is_ok() && self.target.bias(site.binary).is_some());
        let children_wait = self.children_wait && has_probes;
        let doors = self.plan_doors(sites, hook.is_some() || children_wait);
        let linker = hook.as_ref().map(|Hook { linker, window, program }| OwnHook {
            binary: &linker.binary,
            function: &linker.function,
            window,
            bias: linker.bias,
            program: *program,
        });
        let registering =
            sites.iter().any(|site| site.called.is_some()).then(|| Registering::find(&self.target));
        let registering = registering.flatten();
        if registering.is_some() {
            let program = self.announces_registering();
            self.consumers.executables.push(program);
        }
        let program = self.consumers.executables.len().saturating_sub(1);
        let mut hooks: Vec<OwnHook> =
            registering.iter().flat_map(|registering| registering.hooks(program)).collect();
        let count = hooks.len();
        hooks.extend(doors.hooks().chain(linker));
        // Before it runs on. A filter that a child installs before it is probed is seen at the doors alone.
        // Of a shadow stack the wait's return address could not be taken back.
        let has_doors = hooks.len() > count + usize::from(hook.is_some());
        let may_wait = children_wait && has_doors && !self.target.has_shadow_stack();
        self.announcements().let_children_wait(may_wait);
        if hook.is_some() {
            // Before anybody waits.
            self.announcements().open();
            // It begins to run while others are attached to.
            self.is_busy_elsewhere(true);
            self.loads.looked = Some(Instant::now());
        }
        let (mut outcomes, mut hooked) = self.put_in_with(sites, &hooks)?;
        let of_registering: Vec<_> = hooked.drain(..count).collect();
        if registering.is_some() {
            self.registering_hooked(of_registering.into_iter().find_map(Result::err));
        }
        match hook.and_then(|_| hooked.pop()) {
            Some(Ok(address)) => self.loads.hook = Some(address),
            Some(Err(refusal)) => {
                self.announcements().close();
                let detail = format!("the dynamic linker cannot be hooked ({refusal})");
                self.loads.refused = Some(Refusal::LoadsUnseen { detail });
            }
            None => {}
        }
        self.doors_hooked(&hooked);
        self.announcements().let_children_wait(may_wait && self.filters_unseen().is_none());
        if self.loads.hook.is_some() {
            // Without it a look now and then finds the same, later.
            self.loads.notifier = LoadNotifier::of(&self.control).ok();
            let copies = self.copies(sites);
            let firsts = copies.into_values().filter_map(|mut of| {
                let of = of.drain(..).next()?;
                let its = sites.iter().zip(&outcomes).enumerate().filter(|(_, (site, _))| of.is_of(site));
                let its: Vec<(usize, Outcome)> =
                    its.map(|(index, (_, outcome))| (index, outcome.clone())).collect();
                Some(MappedFile { missing: may_pass(&its), ..of })
            });
            self.loads.copies = firsts.collect();
            for (outcome, site) in outcomes.iter_mut().zip(sites) {
                if let Err(Refusal::NotMapped { binary }) = outcome
                    && may_be_loaded(site.binary)
                {
                    *outcome = Err(Refusal::Awaited { binary: std::mem::take(binary) });
                }
            }
        }
        Ok(outcomes)
    }

    /// The hook, where it is of use; or why there can be none.
    fn plan_hook(&mut self, sites: &[SiteRequest]) -> Result<Option<Hook>, Refusal> {
        let program = std::fs::metadata(format!("/proc/{}/exe", sys::living_thread(self.target.pid)));
        let program = program.map(|file| (file.dev(), file.ino())).ok();
        let mut seen: HashMap<PathBuf, bool> = HashMap::new();
        let wanted = sites.iter().filter(|site| site.window.is_ok()).any(|site| {
            if site.called.is_some() {
                // The library that registers them may come, and so may others.
                return true;
            }
            let binary = site.binary;
            if let Some(&known) = seen.get(binary.path()) {
                return known;
            }
            let is_there = self.target.bias(binary).is_some();
            let wanted = if is_there { may_be_unloaded(binary, program) } else { may_be_loaded(binary) };
            seen.insert(binary.path().to_owned(), wanted);
            wanted
        });
        if !wanted {
            return Ok(None);
        }
        let unseen =
            || Refusal::LoadsUnseen { detail: "the process has no dynamic linker that announces".into() };
        let linker = linker::find(&self.target).ok_or_else(unseen)?;
        let words = self.control_address + Announcements::OFFSET;
        self.consumers.executables.push(announce::executable(words, linker.state));
        let mut windows = plan_functions(&[(&linker.binary, &linker.function)]);
        let window = windows.pop().expect("one for each function");
        Ok(Some(Hook { linker, window, program: self.consumers.executables.len() - 1 }))
    }

    /// What the target maps of the files of `sites`, by their paths.
    fn copies(&self, sites: &[SiteRequest]) -> BTreeMap<PathBuf, Vec<MappedFile>> {
        let mut copies: BTreeMap<PathBuf, Vec<MappedFile>> = BTreeMap::new();
        for site in sites {
            let binary = site.binary;
            copies.entry(binary.path().to_owned()).or_insert_with(|| {
                let Some((file, biases)) = self.target.biases(binary) else { return Vec::new() };
                // Where anything of it may be patched.
                let code =
                    || binary.segments().iter().filter(|segment| segment.executable || segment.writable);
                let start = code().map(|segment| segment.address.0).min().unwrap_or(0);
                let end = code().map(|segment| segment.address.0.saturating_add(segment.memory_bytes)).max();
                let copy = |bias: u64| MappedFile {
                    file,
                    bias,
                    text: start.wrapping_add(bias)..end.unwrap_or(0).wrapping_add(bias),
                    path: binary.path().display().to_string(),
                    missing: BTreeSet::new(),
                };
                biases.into_iter().map(copy).collect()
            });
        }
        copies
    }

    /// Holds what is mapped against what is known.
    fn take_stock(&mut self, sites: &[SiteRequest], change: &mut Change) -> Result<(), Error> {
        self.target.refresh()?;
        let mut now = self.copies(sites);
        let is_mapped = |now: &BTreeMap<PathBuf, Vec<MappedFile>>, copy: &MappedFile| {
            let is_same = |other: &MappedFile| other.file == copy.file && other.bias == copy.bias;
            now.values().flatten().any(is_same)
        };
        let known = std::mem::take(&mut self.loads.copies);
        let (kept, gone): (Vec<MappedFile>, Vec<MappedFile>) =
            known.into_iter().partition(|copy| is_mapped(&now, copy) && !self.is_reloaded(copy));
        for copy in &gone {
            let probes = self.forget(&|address| copy.text.contains(&address));
            change.unloaded.push(Unloaded { path: copy.path.clone(), probes });
        }
        let is_new =
            |copy: &MappedFile| !kept.iter().any(|other| other.file == copy.file && other.bias == copy.bias);
        now.values_mut().for_each(|of| of.retain(is_new));
        self.loads.copies = kept;
        self.forget_lost(sites);
        self.try_again(sites, change)?;
        // One copy of each file in a round.
        while now.values().any(|of| !of.is_empty()) {
            let round: BTreeMap<PathBuf, MappedFile> =
                now.iter_mut().filter_map(|(path, of)| Some((path.clone(), of.pop()?))).collect();
            let first = self.loads.copies.len();
            self.loads.copies.extend(round.values().cloned());
            let arrived = self.arrive(sites, &round, first, change);
            if arrived.is_err() {
                self.forget_unprobed();
            }
            arrived?;
        }
        self.hook_registering()?;
        self.lead_again()?;
        self.follow_places(sites, change)?;
        // Of libraries whose data was not mapped yet when their text was probed.
        self.raise_semaphores(false)
    }

    /// Of what is still there, forgets the patches that do not stand any more: a library may have been unloaded, and loaded
    /// again to the same place, between those and the ones that stand. They are tried again. Only where the target has
    /// gone on unanswered since the last look began; else nothing comes or goes unseen.
    fn forget_lost(&mut self, sites: &[SiteRequest]) {
        let late = self.announcements().late();
        if std::mem::replace(&mut self.loads.late_at_look, late) == late {
            return;
        }
        let (others, holes) = (Others::of(&self.target), self.holes());
        let is_old = |patch: &&Patch| {
            let patch = holes.get(&patch.address).unwrap_or(patch);
            others.has_lost(&self.target.memory, patch.address, &patch.new, patch.bare())
        };
        let of_copies = |patch: &&Patch| {
            patch.leads_from.is_none()
                && !patch.is_called
                && self.loads.copies.iter().any(|copy| copy.text.contains(&patch.address))
        };
        let old = self.undo.patches.iter().filter(of_copies).filter(is_old);
        let lost: HashSet<u64> = old.map(|patch| patch.address).collect();
        if lost.is_empty() {
            return;
        }
        self.forget(&|address| lost.contains(&address));
        for copy in &mut self.loads.copies {
            let is_lost = |site: &SiteRequest| {
                let at = |window: &Window| window.address.wrapping_add(copy.bias);
                site.window.as_ref().is_ok_and(|window| lost.contains(&at(window)))
            };
            let its = sites.iter().enumerate().filter(|(_, site)| copy.is_of(site) && is_lost(site));
            let its: Vec<usize> = its.map(|(index, _)| index).collect();
            copy.missing.extend(its);
        }
    }

    /// Probes what was refused before in what is still there.
    fn try_again(&mut self, sites: &[SiteRequest], change: &mut Change) -> Result<(), Error> {
        for at in 0..self.loads.copies.len() {
            let copy = &self.loads.copies[at];
            let missing: Vec<usize> = copy.missing.iter().copied().collect();
            let Some(first) = missing.first() else { continue };
            let biases = HashMap::from([(sites[*first].binary.path().to_owned(), copy.bias)]);
            let wanted: Vec<SiteRequest> = missing.iter().map(|&index| sites[index].clone()).collect();
            let outcomes = self.put_in_copies(&wanted, &biases)?;
            let outcomes: Vec<(usize, Outcome)> = missing.into_iter().zip(outcomes).collect();
            self.loads.copies[at].missing = may_pass(&outcomes);
            change.retried.extend(outcomes);
        }
        Ok(())
    }

    /// Probes the sites of the files that have come, whose copies are known from the `first` on.
    fn arrive(
        &mut self,
        sites: &[SiteRequest],
        round: &BTreeMap<PathBuf, MappedFile>,
        first: usize,
        change: &mut Change,
    ) -> Result<(), Error> {
        let replaced = round.iter().filter(|(path, copy)| is_replaced(copy, sites, path));
        let replaced: HashSet<&PathBuf> = replaced.map(|(path, _)| path).collect();
        let mut loaded: BTreeMap<&PathBuf, Loaded> = BTreeMap::new();
        let (mut wanted, mut indices) = (Vec::new(), Vec::new());
        for (index, site) in sites.iter().enumerate() {
            let Some((path, copy)) = round.get_key_value(site.binary.path()) else { continue };
            let loaded = loaded
                .entry(path)
                .or_insert_with(|| Loaded { path: copy.path.clone(), outcomes: Vec::new() });
            if replaced.contains(path) {
                loaded.outcomes.push((index, Err(Refusal::Replaced { binary: copy.path.clone() })));
            } else {
                wanted.push(site.clone());
                indices.push((path, index));
            }
        }
        if !wanted.is_empty() {
            let biases = round.iter().map(|(path, copy)| (path.clone(), copy.bias)).collect();
            let outcomes = self.put_in_copies(&wanted, &biases)?;
            for ((path, index), outcome) in indices.into_iter().zip(outcomes) {
                loaded.entry(path).and_modify(|loaded| loaded.outcomes.push((index, outcome)));
            }
        }
        for (copy, loaded) in self.loads.copies[first..].iter_mut().zip(loaded.values()) {
            copy.missing = may_pass(&loaded.outcomes);
        }
        change.loaded.extend(loaded.into_values());
        Ok(())
    }

    /// What could not be probed at all is new at the next look.
    fn forget_unprobed(&mut self) {
        let patches = &self.undo.patches;
        self.loads.copies.retain(|copy| patches.iter().any(|patch| copy.text.contains(&patch.address)));
    }

    /// By the address of the short jump that leads there: another weir's is the same.
    fn holes(&self) -> HashMap<u64, &Patch> {
        self.undo.patches.iter().filter_map(|patch| Some((patch.leads_from?, patch))).collect()
    }

    /// It was unloaded and loaded again, to where it was: none of its patches stands.
    fn is_reloaded(&self, copy: &MappedFile) -> bool {
        // Where one stands, the code that it leads to stays: some may have been written before that, and others after.
        let holes = self.holes();
        let of_text =
            self.undo.patches.iter().filter(|patch| !patch.is_called && !holes.contains_key(&patch.address));
        let mut patches = of_text.filter(|patch| copy.text.contains(&patch.address));
        let mut is_any = false;
        let others = Others::of(&self.target);
        let are_old = patches.all(|patch| {
            is_any = true;
            others.has_lost(&self.target.memory, patch.address, &patch.new, patch.bare())
        });
        is_any && are_old
    }

    /// Everything of the sites at addresses that are `gone`; nothing is written there. How many were probed.
    fn forget(&mut self, gone: &dyn Fn(u64) -> bool) -> usize {
        let journal = self.control.journal();
        let (spare, semaphores, probes) = self.consumers.forget(gone, &mut |entry| {
            journal.set_state(entry, JournalState::Undone);
        });
        self.consumers.spare_entries.extend(spare);
        let is_its = |patch: &Patch| gone(patch.leads_from.unwrap_or(patch.address));
        let is_hook =
            |address: u64| self.undo.patches.iter().any(|patch| patch.is_hook && patch.address == address);
        self.hooks -=
            self.undo.patches.iter().filter(|patch| is_its(patch) && is_hook(patch.address)).count();
        self.undo.patches.retain(|patch| !is_its(patch));
        self.undo.unknown.retain(|&address| !gone(address));
        let spare = &mut self.consumers.spare_entries;
        self.undo.counters.retain(|counter| {
            let is_gone = semaphores.contains(&counter.address);
            if let Some(entry) = counter.entry.filter(|_| is_gone) {
                journal.set_state(entry, JournalState::Undone);
                spare.push(entry);
            }
            !is_gone
        });
        probes
    }

    /// Unmaps the code of what has gone; gathers the rest in one place before there are too many.
    fn tidy(&mut self) -> Result<(), Error> {
        if self.consumers.islands.len() >= ISLANDS_MAX / 2 {
            self.gather()?;
        }
        self.retire(RETIRE_TRIES).map(|_| ())
    }
}

impl MappedFile {
    fn is_of(&self, site: &SiteRequest) -> bool {
        site.binary.path().to_string_lossy() == self.path
    }
}

/// Those that are refused for a reason that may pass.
fn may_pass(outcomes: &[(usize, Outcome)]) -> BTreeSet<usize> {
    let refused = outcomes.iter().filter(|(_, outcome)| outcome.as_ref().is_err_and(Refusal::may_pass));
    refused.map(|(index, _)| *index).collect()
}

/// A library, and no program.
fn may_be_loaded(binary: &Binary) -> bool {
    binary.is_position_independent() && (binary.interpreter().is_none() || binary.soname().is_some())
}

/// Neither the program (device and inode are given) nor its C library nor its dynamic linker: those stay.
fn may_be_unloaded(binary: &Binary, program: Option<(u64, u64)>) -> bool {
    let file = std::fs::metadata(binary.path()).map(|file| (file.dev(), file.ino())).ok();
    let is_program = program.is_some() && file == program;
    let is_linker = linker::announces(binary);
    !is_program && !is_linker && binary.soname() != Some("libc.so.6")
}

/// What is mapped is another file than the one that was read. (Where maps show a file by another identity than stat(2),
/// the one that has the path now tells.)
fn is_replaced(copy: &MappedFile, sites: &[SiteRequest], path: &PathBuf) -> bool {
    let read = sites.iter().find(|site| site.binary.path() == path).and_then(|site| site.binary.identity());
    let now = || Binary::open(path).ok()?.identity();
    read.is_some_and(|read| read != copy.file && now().is_some_and(|now| now != read))
}
