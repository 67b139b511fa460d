//! Puts programs into a process: short stops for the shared segment, for the code, and for the patches.
//!
//! In: a [`Target`], [`SiteRequest`]s with what [`crate::plan`] said of them, linked programs. Out: an [`Attachment`], with
//! the [`Outcome`] of each site.
//!
//! ```text
//! prepare   stop · memfd_create, mmap (remote) · go on              the segment is shared; nothing is patched
//! arm       compare text with files · place islands for the planned windows, generate code   nothing is stopped
//!           stop · memfd_create, mmap islands and gates (remote) · go on
//!           write the code · journal                                                        nothing is stopped
//!           slices of crate::attach::patch: stop · move program counters · write jumps · go on
//!           open gates · raise semaphores                                                   nothing is stopped
//! detach    see crate::attach::undo
//! ```
//!
//! Until the gates are open, what is patched already runs unprobed: all probes begin at one moment. A site whose window
//! stays busy is refused, and the others are patched.

mod admit;
pub mod consumers;
mod counters;
mod patch;
pub(crate) mod pending;
pub mod restore;
mod share;
mod survey;
mod sweep;
pub mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use weir_rt::Executable;
use weir_rt::segment::{Identity, JournalState, Place as SegmentPlace, Segment, SegmentLayout};
use weir_symbols::{Binary, Function, LinkAddr, VirtAddr};

use crate::attach::admit::{Ground, add_hooks, plan_hooks, plan_in_target};
use crate::attach::consumers::Consumers;
use crate::attach::patch::Jump;
use crate::attach::pending::Pending;
use crate::attach::share::{map_islands, share_segment};
use crate::attach::sweep::sweep;
use crate::attach::undo::{MappedFile, Patch, Places, Report, Undo};
use crate::code::island::{self, Image, Place, PlannedSite, Stubs};
use crate::code::outpost::{self, Outpost, Wanted};
pub use crate::code::program::{Attach, When};
use crate::limits::{self};
use crate::plan::returns::Returns;
use crate::plan::window::{Window, Write};
use crate::process::remote::hold_callable;
use crate::process::stop::{self, Stopped, Stops};
use crate::process::target::Target;
use crate::refusal::{Error, Refusal};

/// A function to probe, and the programs to run there in order.
#[derive(Clone, Debug)]
pub struct SiteRequest<'a> {
    pub binary: &'a Binary,
    pub function: &'a Function,
    /// As [`plan_sites`](crate::plan_sites) answered for this function.
    pub window: &'a Result<Window, Refusal>,
    /// A word that counts tracers, raised while the site is patched.
    pub semaphore: Option<LinkAddr>,
    /// At most [`limits::PROGRAMS_PER_SITE_MAX`]; they run in this order.
    pub programs: Vec<Attach>,
    /// As [`plan_returns`](crate::plan_returns) answered for this function; `None` where no program wants the return.
    pub returns: Option<Result<Returns, Refusal>>,
}

impl SiteRequest<'_> {
    pub(crate) fn wants_return(&self) -> bool {
        matches!(self.returns, Some(Ok(_))) && self.programs.iter().any(|program| program.when.wants_return())
    }

    /// Some program runs where returns cannot be caught too.
    fn wants_entry(&self) -> bool {
        self.programs.iter().any(|program| matches!(program.when, When::Entry | When::EntryAndReturn))
    }
}

/// A site that was patched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patched {
    /// How.
    pub technique: String,
    /// Why its returns are not caught, where a program wants that: those for the return alone and sessions do not run.
    pub returns_refused: Option<Refusal>,
}

/// What became of a site.
pub type Outcome = Result<Patched, Refusal>;

/// A process that shares the segment, and is not patched yet. Dropped, it takes the segment out again.
#[derive(Debug)]
pub struct Prepared {
    attachment: Attachment,
}

/// Makes the shared segment in the target. What an earlier weir left behind there is undone first.
pub fn prepare(mut target: Target, layout: SegmentLayout, identity: &Identity) -> Result<Prepared, Error> {
    let bytes = layout.bytes;
    let (segment, address) =
        share_segment(&mut target, layout, identity).map_err(|error| target.explain(error))?;
    let undo = Undo {
        segment: address..address + bytes,
        islands: Vec::new(),
        patches: Vec::new(),
        unknown: Vec::new(),
        counters: Vec::new(),
        places: Places::default(),
    };
    Ok(Prepared {
        attachment: Attachment {
            target,
            segment,
            undo,
            outcomes: Vec::new(),
            stubs: None,
            swept: None,
            hooks: 0,
            is_detached: false,
            consumers: Consumers::default(),
        },
    })
}

impl Prepared {
    pub fn segment(&self) -> &Segment {
        &self.attachment.segment
    }

    pub fn target(&self) -> &Target {
        &self.attachment.target
    }

    /// Patches what can be patched. The outcome of each site is in the attachment, in the order of `sites`.
    pub fn arm(self, sites: &[SiteRequest], executables: &[Executable]) -> Result<Attachment, Error> {
        let mut attachment = self.attachment;
        match attachment.arm(sites, executables) {
            Ok(()) => Ok(attachment),
            Err(error) => Err(attachment.target.explain(error)),
        }
    }
}

/// Outposts for punned sites, and where the jump of each leads to.
fn place_outposts(
    target: &Target,
    planned: &[PlannedSite],
    places: &[Place],
    stubs: Option<&Stubs>,
    images: &[Image],
    is_new: &dyn Fn(usize) -> bool,
) -> (Vec<Outpost>, BTreeMap<usize, u64>) {
    let entries = images.iter().flat_map(|image| &image.entries).filter(|entry| is_new(entry.site));
    let wanted: Vec<Wanted> = entries
        .filter_map(|entry| {
            let site = &planned[entry.site];
            Some(Wanted { targets: site.window.targets(site.bias)?, entry })
        })
        .collect();
    if wanted.is_empty() {
        return (Vec::new(), BTreeMap::new());
    }
    let mut taken = island::taken(&target.mappings);
    let stack = target.mappings.iter().find(|mapping| mapping.path == "[stack]");
    taken.extend(stack.map(|stack| stack.start.0.saturating_sub(limits::STACK_ROOM)..stack.start.0));
    taken.extend(places.iter().map(Place::range));
    taken.extend(stubs.map(|stubs| stubs.range().start..stubs.records().end));
    outpost::place(&wanted, &taken)
}

/// Address of the vDSO's clock_gettime in the target, 0 where there is none.
fn clock_function(target: &Target) -> u64 {
    let Some(mapping) = target.mappings.iter().find(|mapping| mapping.path == "[vdso]") else { return 0 };
    let mut image = vec![0; (mapping.end.0 - mapping.start.0) as usize];
    if target.memory.read(mapping.start.0, &mut image).is_err() {
        return 0;
    }
    let Ok(vdso) = Binary::parse(Path::new("[vdso]"), image) else { return 0 };
    vdso.symbol_value("__vdso_clock_gettime")
        .map_or(0, |(address, _)| mapping.start.0.wrapping_add(address.0))
}

/// CLOCK_MONOTONIC is the same there as here: it is, but in another time namespace (time_namespaces(7)).
fn shares_clock(target: &Target) -> bool {
    let namespace = |process: &str| match std::fs::metadata(format!("/proc/{process}/ns/time")) {
        Ok(file) => Some((file.dev(), file.ino())),
        // A kernel without time namespaces.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some((0, 0)),
        Err(_) => None,
    };
    namespace("self").is_some_and(|own| namespace(&target.pid.to_string()) == Some(own))
}

/// Probes in a live process. Dropped, it restores the text.
#[derive(Debug)]
pub struct Attachment {
    pub(crate) target: Target,
    pub(crate) segment: Segment,
    pub(crate) undo: Undo,
    outcomes: Vec<Outcome>,
    /// Where return addresses are replaced, if any are; and when it was swept last, with how many returns had
    /// found no record.
    stubs: Option<Stubs>,
    swept: Option<(u64, Instant)>,
    /// Functions that answer unwinders, which returns cannot be probed without.
    hooks: usize,
    is_detached: bool,
    pub(crate) consumers: Consumers,
}

impl Attachment {
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// For each requested site: how it was patched, or why not.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// How often and how long the target was held so far.
    pub fn stops(&self) -> Stops {
        self.target.stops
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
        let (missed, now) = (self.segment.counters().no_record, Instant::now());
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

    /// Restores the text and takes everything out of the target again. The segment stays readable here.
    pub fn detach(&mut self) -> Result<Report, Error> {
        self.is_detached = true;
        let lowered = counters::plan_lowering(&self.segment, &self.target, &self.undo.counters);
        // Before counting, which closes the gates. Where it fails, so does the rest, which explains it.
        if self.target.refresh().is_ok() {
            self.undo.lower_counters(&self.target);
        }
        let before = self.target.stops.begin_part();
        // Without it the rest is done all the same.
        let pending = self.count_pending().unwrap_or_default();
        let counting = self.target.stops.end_part(before);
        let mut report = self.undo.run(&mut self.target)?;
        report.pending = pending;
        report.stops.add(counting);
        let journal = self.segment.journal();
        lowered.into_iter().for_each(|index| journal.set_state(index, JournalState::Applied));
        journal.undo_text();
        if report.left_mapped {
            self.segment.leave_behind();
        }
        Ok(report)
    }

    /// Closes the gates while no thread is on its way through a trampoline, and counts the calls that have not come back.
    fn count_pending(&mut self) -> Result<Pending, Error> {
        if self.consumers.return_points.is_empty() || self.target.launched {
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
                self.undo.close_gates(target);
                let counted = pending::count(target, &stopped, points, table.as_ref());
                self.target.resume(stopped);
                return counted;
            }
            patch::pause(&mut self.target, stopped);
        }
        Ok(Pending::new())
    }

    fn arm(&mut self, sites: &[SiteRequest], executables: &[Executable]) -> Result<(), Error> {
        self.consumers.executables = executables.to_vec();
        self.outcomes = self.put_in(sites)?;
        Ok(())
    }

    /// Patches the places of `sites`, none of which is patched yet, for the first consumer or a later one. The
    /// outcome of each. Where only attaching shows that returns cannot be caught, the entry is probed all the same.
    pub(crate) fn put_in(&mut self, sites: &[SiteRequest]) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = self.put_in_once(sites)?;
        let (mut indices, mut again) = (Vec::new(), Vec::new());
        for (index, (site, outcome)) in sites.iter().zip(&outcomes).enumerate() {
            match outcome {
                Err(refusal) if refusal.is_of_return() && site.wants_entry() => {
                    indices.push(index);
                    again.push(SiteRequest { returns: Some(Err(refusal.clone())), ..site.clone() });
                }
                _ => {}
            }
        }
        if !again.is_empty() {
            for (index, outcome) in indices.into_iter().zip(self.put_in_once(&again)?) {
                outcomes[index] = outcome;
            }
        }
        if let Some(stopped) = self.target.held.take() {
            self.target.resume(stopped);
        }
        self.target.launched = false;
        Ok(outcomes)
    }

    fn put_in_once(&mut self, sites: &[SiteRequest]) -> Result<Vec<Outcome>, Error> {
        self.target.refresh()?;
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(sites.len());
        let mut planned = Vec::new();
        let mut request_of = Vec::new();
        let mut ground = Ground::new(&self.target);
        let hooks = match self.hooks {
            0 => plan_hooks(&mut ground, sites),
            _ => Ok(Vec::new()),
        };
        for (index, site) in sites.iter().enumerate() {
            let window = site.window.clone();
            let unwinders = hooks.as_ref().err();
            let outcome = window.and_then(|window| plan_in_target(&mut ground, site, window, unwinders));
            outcomes.push(outcome.map(|(site, returns_refused)| {
                let technique = site.window.technique();
                planned.push(site);
                request_of.push(index);
                Patched { technique, returns_refused }
            }));
        }
        let overlapping = add_hooks(&mut planned, hooks.unwrap_or_default());
        let hooks = planned.iter().filter(|site| site.hook.is_some()).count();
        self.hooks += hooks;
        // The outcomes of hooks come behind those that were asked for, and are taken off at the end.
        for (hook, index) in planned[request_of.len()..].iter().zip(sites.len()..) {
            outcomes.push(Ok(Patched { technique: hook.window.technique(), returns_refused: None }));
            request_of.push(index);
        }
        let generated = self.generate(&planned, |_| true)?;
        for (site, refusal) in generated.refused.iter().cloned().chain(overlapping) {
            outcomes[request_of[site]] = Err(refusal);
        }
        let (mut todo, mut moves): (Vec<Jump>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
        for entry in generated.entries() {
            let site = &planned[entry.site];
            if outcomes[request_of[entry.site]].is_err() {
                continue;
            }
            let landing = match site.window.targets(site.bias) {
                None => entry.address,
                Some(_) => match generated.landings.get(&entry.site) {
                    Some(&landing) => landing,
                    None => {
                        outcomes[request_of[entry.site]] = Err(Refusal::NoRoom);
                        continue;
                    }
                },
            };
            todo.push(Jump::new(entry.site, site, landing, &entry.places));
            moves.extend(entry.places.iter().copied());
            // Where a thread stands that has come from the function, and has done nothing yet.
            if landing != entry.address {
                moves.push((landing, site.patch_address()));
            }
        }
        self.undo.places.add(&moves);
        self.undo.places.sort();
        let held = self.map(&generated, &mut todo, &mut |site| {
            outcomes[request_of[site]] = Err(Refusal::NoRoom);
        })?;
        let (standing, held) = self.write_jumps(held, todo, hooks, &mut |site, refusal| {
            outcomes[request_of[site]] = Err(refusal);
        })?;
        self.open_gates(&generated.places)?;
        let semaphore = |site: usize| {
            let address = sites.get(request_of[site])?.semaphore?;
            Some(address.0.wrapping_add(planned[site].bias))
        };
        let semaphores: BTreeSet<u64> = standing.iter().filter_map(|&(site, _)| semaphore(site)).collect();
        for address in semaphores {
            if !self.undo.counters.contains(&address) {
                counters::raise(&self.segment, &self.target, address)?;
                self.undo.counters.push(address);
            }
        }
        self.target.held = held;
        outcomes.truncate(sites.len());
        let semaphores: Vec<Option<u64>> = (0..planned.len()).map(semaphore).collect();
        self.consumers.stand(planned, &generated, standing, &semaphores);
        Ok(outcomes)
    }

    /// How the return at a site that is patched already is to be caught.
    pub(crate) fn returns_of(&self, site: &SiteRequest) -> Result<Returns, Refusal> {
        if self.hooks == 0 {
            let detail = "nobody wanted returns when the first consumer was attached".into();
            return Err(Refusal::UnwinderUnknown { detail });
        }
        site.returns.clone().unwrap_or(Err(Refusal::ReturnUnplanned))
    }

    /// Generates islands with a trampoline for each of `planned`, and outposts where it is `new`.
    pub(crate) fn generate(
        &self,
        planned: &[PlannedSite],
        is_new: impl Fn(usize) -> bool,
    ) -> Result<Generated, Error> {
        let (target, segment, executables) = (&self.target, &self.segment, &self.consumers.executables);
        let maps = segment.layout().maps.len();
        let (mut places, mut refused) = island::place(planned, executables, maps, &target.mappings);
        refused.extend(places.iter_mut().flat_map(|place| island::drop_unmovable(place, planned)));
        // One more for stubs.
        let is_full = self.consumers.islands.len() + places.len() >= limits::ISLANDS_MAX;
        if is_full {
            refused
                .extend(places.drain(..).flat_map(|place| place.sites).map(|site| (site, Refusal::NoRoom)));
        }
        let (new_stubs, without) = self.place_stubs(planned, &places);
        refused.extend(without);
        let stubs = self.stubs.as_ref().or(new_stubs.as_ref());
        let words = self.words(planned);
        let all: Vec<Place> = places.iter().chain(&self.consumers.islands).cloned().collect();
        let images = places
            .iter()
            .map(|place| island::generate_image(place, &all, planned, executables, segment, words, stubs))
            .collect::<Result<Vec<_>, _>>()?;
        let (outposts, landings) = place_outposts(target, planned, &places, stubs, &images, &is_new);
        Ok(Generated { places, images, stubs: new_stubs, outposts, landings, refused })
    }

    /// Stubs for `planned` where there are none yet, and the sites that they are missing for.
    fn place_stubs(
        &self,
        planned: &[PlannedSite],
        places: &[Place],
    ) -> (Option<Stubs>, Vec<(usize, Refusal)>) {
        let mappings = &self.target.mappings;
        let wanted = island::place_stubs(planned, places, mappings, self.undo.segment.start);
        let fits = |there: &Stubs, wanted: &Stubs| wanted.table.record_shift <= there.table.record_shift;
        let refusal = match (wanted, &self.stubs) {
            (Ok(None), _) => return (None, Vec::new()),
            (Ok(Some(stubs)), None) => return (Some(stubs), Vec::new()),
            (Ok(Some(wanted)), Some(there)) if fits(there, &wanted) => return (None, Vec::new()),
            // Records have the size that the first consumers' sessions need.
            (Ok(Some(_)), Some(_)) | (Err(_), _) => Refusal::ReturnNoRoom,
        };
        let replaced = planned.iter().zip(0..).filter(|(site, _)| site.returns == Some(Returns::Replace));
        (None, replaced.map(|(_, site)| (site, refusal.clone())).collect())
    }

    /// What the runtime of an island for `planned` is told.
    fn words(&self, planned: &[PlannedSite]) -> weir_rt::runtime::Island {
        use weir_rt::runtime::Island;
        let target = &self.target;
        let clock_gettime = if target.has_tsc { clock_function(target) } else { 0 };
        // The word at the stack pointer is a return address only where every site is an entry.
        let is_at_entry = !planned.iter().any(|site| site.window.inside);
        let reads_ticks = clock_gettime != 0 && shares_clock(target);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        Island {
            segment: self.undo.segment.start,
            clock_gettime,
            pid: target.pid as u32,
            flags: flag(is_at_entry, Island::AT_ENTRY)
                | flag(target.has_seccomp, Island::NO_SYSTEM_CALLS)
                | flag(reads_ticks, Island::READS_TICKS),
            pid_namespace: weir_rt::runtime::pid_namespace(target.pid as u32),
            print: 0,
            tick_ns: weir_rt::runtime::tick_ns(),
        }
    }

    /// Maps what was generated into the target and fills it; takes from `todo` what there is no room for after all.
    /// A launched command is still held then.
    pub(crate) fn map(
        &mut self,
        generated: &Generated,
        todo: &mut Vec<Jump>,
        on_no_room: &mut dyn FnMut(usize),
    ) -> Result<Option<Stopped>, Error> {
        let Generated { places, stubs, outposts, .. } = generated;
        let stopped = self.target.stop()?;
        self.target.refresh()?;
        let mut stopped = hold_callable(&mut self.target, stopped, Target::stop)?;
        self.undo.islands.extend(places.iter().map(Place::range).chain(outposts.iter().map(Outpost::range)));
        self.undo.islands.extend(stubs.iter().flat_map(|stubs| [stubs.range(), stubs.records()]));
        let files = map_islands(&self.target, &mut stopped, generated)?;
        if stubs.is_some() {
            self.stubs.clone_from(stubs);
        }
        todo.retain(|jump| !files.unmapped.contains(&jump.site));
        files.unmapped.iter().for_each(|&site| on_no_room(site));
        self.consumers.mapped(generated, &files);
        self.tell_place();
        let held = match self.target.launched {
            true => Some(stopped),
            false => {
                self.target.resume(stopped);
                None
            }
        };
        files.fill(generated)?;
        Ok(held)
    }

    /// Says in the segment's header where the islands are.
    pub(crate) fn tell_place(&self) {
        let islands = &self.consumers.islands;
        self.segment.set_place(&SegmentPlace {
            segment_address: self.undo.segment.start,
            gate_address: islands.first().map_or(0, Place::gate),
            islands: islands
                .iter()
                .map(Place::range)
                .chain(self.stubs.as_ref().map(Stubs::range))
                .map(|range| (range.start, range.end - range.start))
                .collect(),
        });
    }

    pub(crate) fn open_gates(&self, places: &[Place]) -> Result<(), Error> {
        let open = |place: &Place| self.target.memory.write(place.gate(), &1u64.to_le_bytes());
        places.iter().try_for_each(open).map_err(|source| Error::system("opening a gate", source))
    }

    /// Writes the jumps `todo`, those of the `wanted` hooks first. Of those that stand then: site, journal entries.
    fn write_jumps(
        &mut self,
        held: Option<Stopped>,
        todo: Vec<Jump>,
        wanted: usize,
        refuse: &mut dyn FnMut(usize, Refusal),
    ) -> Result<(Vec<Written>, Option<Stopped>), Error> {
        let (hooks, mut others): (Vec<Jump>, Vec<Jump>) = todo.into_iter().partition(|jump| jump.is_hook);
        let (mut standing, mut held) = (Vec::new(), held);
        if wanted > 0 {
            (standing, held) = self.write_some(held, hooks, refuse)?;
            if standing.len() < wanted {
                others.retain(|jump| {
                    if jump.returns {
                        let detail = "a function that it asks cannot be hooked".into();
                        refuse(jump.site, Refusal::UnwinderUnknown { detail });
                    }
                    !jump.returns
                });
            }
        }
        let (others, held) = self.write_some(held, others, refuse)?;
        standing.extend(others);
        Ok((standing, held))
    }

    fn write_some(
        &mut self,
        held: Option<Stopped>,
        jumps: Vec<Jump>,
        refuse: &mut dyn FnMut(usize, Refusal),
    ) -> Result<(Vec<Written>, Option<Stopped>), Error> {
        let (first_patch, mut entries) = (self.undo.patches.len(), Vec::with_capacity(jumps.len()));
        let mut file = None;
        for jump in &jumps {
            let leads_from = |write: &Write| (write.address != jump.address).then_some(jump.address);
            let mut of_jump = Vec::with_capacity(jump.writes.len());
            for write in &jump.writes {
                of_jump.push(self.note(write.address, &write.old, &write.new)?);
                let (is_hook, is_probe) = (jump.is_hook, jump.is_probe);
                file = self.file_at(write.address, file);
                let patch = Patch::of(write, leads_from(write));
                self.undo.patches.push(Patch { is_hook, is_probe, file: file.clone(), ..patch });
            }
            entries.push(of_jump);
        }
        let journal = self.segment.journal();
        let mark = |jump: usize, state: JournalState| {
            entries[jump].iter().for_each(|&entry| journal.set_state(entry, state));
        };
        let (refusals, held) =
            patch::write(&mut self.target, held, &jumps, &mut |jump| mark(jump, JournalState::Applied))?;
        let mut is_kept = Vec::with_capacity(jumps.len());
        for (index, (jump, refusal)) in jumps.iter().zip(&refusals).enumerate() {
            is_kept.extend(jump.writes.iter().map(|_| refusal.is_none()));
            if let Some(refusal) = refusal {
                mark(index, JournalState::Undone);
                refuse(jump.site, refusal.clone());
            }
        }
        let mut kept = iter::repeat_n(true, first_patch).chain(is_kept);
        self.undo.patches.retain(|_| kept.next().unwrap_or(true));
        let written = jumps.iter().zip(entries).zip(&refusals).filter(|(_, refusal)| refusal.is_none());
        let written = written.map(|((jump, entries), _)| (jump.site, entries)).collect();
        Ok((written, held))
    }

    /// The file that is mapped at `address`: `last`, if it is that.
    fn file_at(&self, address: u64, last: Option<Arc<MappedFile>>) -> Option<Arc<MappedFile>> {
        let mapping = self.target.mapping_at(VirtAddr(address))?;
        let identity = mapping.identity();
        let new = || Arc::new(MappedFile { identity, path: mapping.path.clone() });
        Some(last.filter(|last| last.identity == identity).unwrap_or_else(new))
    }

    /// Writes a planned patch to the journal; its index.
    pub(crate) fn note(&mut self, address: u64, old: &[u8], new: &[u8]) -> Result<u32, Error> {
        let journal = self.segment.journal();
        if let Some(spare) = self.consumers.spare_entries.pop() {
            journal.replace(spare, address, old, new);
            return Ok(spare);
        }
        let pid = self.target.pid;
        journal.push(address, old, new).map_err(|full| Error::Link { pid, detail: full.to_string() })
    }
}

/// A site whose jump stands, and the journal entries of what was written for it.
pub(crate) type Written = (usize, Vec<u32>);

/// Code that was generated for a list of planned sites, and where it is to be mapped.
pub(crate) struct Generated {
    pub(crate) places: Vec<Place>,
    /// One for each place.
    pub(crate) images: Vec<Image>,
    /// To be mapped.
    pub(crate) stubs: Option<Stubs>,
    pub(crate) outposts: Vec<Outpost>,
    /// By site: where its jump leads to, if that is an outpost.
    pub(crate) landings: BTreeMap<usize, u64>,
    pub(crate) refused: Vec<(usize, Refusal)>,
}

impl Generated {
    pub(crate) fn entries(&self) -> impl Iterator<Item = &island::Entry> {
        self.images.iter().flat_map(|image| &image.entries)
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
