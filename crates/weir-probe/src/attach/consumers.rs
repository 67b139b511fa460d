//! Several consumers of the same functions, each attached and detached on its own while the others go on counting.
//!
//! In: an [`Attachment`], and what another consumer wants to run where. Out: the outcome of each of its sites. A function
//! is patched once, however many consumers it has ([`limits::PROGRAMS_PER_SITE_MAX`] programs at most): its trampoline
//! calls the programs of all of them one after the other, directly.
//!
//! ```text
//! add       new trampolines, in an island of their own, call the old programs and the new ones; their gates are
//!           opened; jumps that stand are led there, others are written
//! remove    new trampolines without its programs, jumps led there; text put back where nobody is left
//! retire    islands that nothing leads to are unmapped when no thread stands in them or comes back to them: nor to a
//!           hole or an outpost that still leads there, nor to a stub whose record does
//! ```
//!
//! Guaranteed: no hit of another consumer is lost or counted twice: at each moment a jump leads to one trampoline or the
//! other, and both run its programs. Programs of a consumer that was removed have ended when their island is
//! gone; [`Attachment::remove`] waits a moment for that, and says whether it is.
//!
//! The maps of all consumers are those that the segment was laid out with, and so are the journal's entries (for a site
//! that is changed one more than it has). Not here: consumers that want returns where none did so before and a function
//! that answers unwinders is probed already (refused).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use weir_plan::Refusal;
use weir_plan::window::{Called, Shape, near_jump};
use weir_rt::Executable;
use weir_rt::segment::{How, JournalState, Segment};
use weir_trampoline::island::{Place, PlannedSite};

use crate::attach::admit::{choose, has_stack};
use crate::attach::counters::{self, Counter};
use crate::attach::gates;
use crate::attach::generate::Generated;
use crate::attach::install::Written;
use crate::attach::lists;
use crate::attach::others::{code_of_others, jump_into};
use crate::attach::patch::{self, Turn};
use crate::attach::request::{Outcome, Patched, SiteRequest};
use crate::attach::state::{Attachment, Consumers, Mode, Numbers, Standing};
use crate::attach::undo::{Patch, Places, Report, Undo};
use crate::limits::{self, ISLANDS_MAX, JUMP_BYTES, PROGRAMS_PER_SITE_MAX};
use crate::refusal::Error;

/// One who was attached by itself: [`Attachment::add`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Consumer(u32);

impl Consumer {
    /// That of [`Prepared::arm`](crate::Prepared::arm).
    pub const FIRST: Consumer = Consumer(0);
}

/// A consumer that was added.
#[derive(Clone, Debug)]
pub struct Added {
    pub consumer: Consumer,
    /// For each of its sites: how it is patched, or why not.
    pub outcomes: Vec<Outcome>,
}

/// A standing site, what becomes of it, and why its returns are not caught.
type Joined = (usize, PlannedSite, Option<Refusal>);

/// A site whose jump was to be led elsewhere, and whether it was.
type Led = (usize, Result<(), Refusal>);

impl Numbers {
    /// One that no site has, if there is one below `capacity`.
    pub(crate) fn take(&mut self, capacity: usize) -> Option<usize> {
        if let Some(free) = self.free.pop() {
            return Some(free);
        }
        let number = self.next;
        (number < capacity).then(|| self.next += 1).map(|()| number)
    }
}

impl Standing {
    /// Where its trampoline begins.
    pub(crate) fn entry(&self) -> u64 {
        self.entry
    }

    /// Address of the jump that leads to the trampoline itself.
    fn lever(&self) -> u64 {
        match (&self.planned.window.shape, self.landing) {
            (Shape::Short(hole), _) => hole.address.wrapping_add(self.planned.bias),
            (_, Some(landing)) => landing,
            _ => self.planned.patch_address(),
        }
    }
}

impl Consumers {
    /// Takes note of what was mapped. It stays until it is [`Consumers::settle`]d, and as long as a site leads there.
    pub(crate) fn mapped(&mut self, generated: &Generated) {
        self.settling.extend(generated.ranges());
        self.return_points.extend(generated.entries().filter_map(|entry| entry.return_point.clone()));
        let places = generated.places.iter();
        self.islands.extend(places.map(|place| Place { sites: Vec::new(), ..place.clone() }));
        self.outposts.extend(generated.outposts.iter().map(|outpost| outpost.range()));
    }

    /// All jumps that lead to what was generated are those of sites.
    fn settle(&mut self, generated: &Generated) {
        let settled: Vec<Range<u64>> = generated.ranges().into_iter().collect();
        self.settling.retain(|range| !settled.contains(range));
    }

    /// Takes note of the sites of `planned` that are patched.
    pub(crate) fn stand(
        &mut self,
        planned: Vec<PlannedSite>,
        generated: &Generated,
        standing: Vec<Written>,
        semaphores: &[Option<u64>],
    ) {
        let mut planned: Vec<Option<PlannedSite>> = planned.into_iter().map(Some).collect();
        let addresses: HashMap<usize, (u64, u64)> =
            generated.entries().map(|entry| (entry.site, (entry.address, entry.gate))).collect();
        for (site, entries) in standing {
            let Some(planned) = planned[site].take() else { continue };
            let owners = vec![self.current; planned.programs.len()];
            let landing = generated.landings.get(&site).copied();
            let ((entry, gate), semaphore, mode) = (addresses[&site], semaphores[site], Mode::Armed);
            let is_lost = false;
            self.sites.push(Standing {
                planned,
                gate,
                mode,
                owners,
                entry,
                landing,
                entries,
                semaphore,
                is_lost,
            });
        }
        self.numbers.free.extend(planned.into_iter().flatten().map(|refused| refused.number));
        self.settle(generated);
    }

    /// From now on hits that find a gate shut do not run, nor do returns.
    pub(crate) fn close(&self, segment: &Segment) {
        self.sites.iter().for_each(|site| segment.meter(site.planned.number).set(How::Closed));
    }

    /// Forgets the sites at addresses that are `gone`, which stood in a library that was unloaded, and gives each of their
    /// journal entries to `undone`: those entries, the semaphores that only they had, and how many were probed.
    pub(crate) fn forget(
        &mut self,
        gone: &dyn Fn(u64) -> bool,
        undone: &mut dyn FnMut(u32),
    ) -> (Vec<u32>, HashSet<u64>, usize) {
        let is_gone = |site: &Standing| gone(site.planned.patch_address());
        let kept: HashSet<u64> =
            self.sites.iter().filter(|site| !is_gone(site)).filter_map(|site| site.semaphore).collect();
        let (mut entries, mut semaphores, mut probes) = (Vec::new(), HashSet::new(), 0);
        for site in self.sites.extract_if(.., |site| is_gone(site)) {
            self.numbers.free.push(site.planned.number);
            probes += usize::from(!site.planned.programs.is_empty());
            site.entries.iter().for_each(|&entry| undone(entry));
            entries.extend(site.entries);
            semaphores.extend(site.semaphore.filter(|address| !kept.contains(address)));
        }
        self.awaited.retain(|&address| !gone(address));
        (entries, semaphores, probes)
    }

    /// By address of the patch.
    fn by_address(&self) -> HashMap<u64, usize> {
        self.sites.iter().map(|site| site.planned.patch_address()).zip(0..).collect()
    }

    /// What is displaced, written or borrowed: start and end of each stretch.
    fn taken(&self) -> BTreeMap<u64, u64> {
        let stretches = self.sites.iter().flat_map(|site| stretches(&site.planned));
        stretches.map(|range| (range.start, range.end)).collect()
    }

    fn is_taken(taken: &BTreeMap<u64, u64>, range: &Range<u64>) -> bool {
        taken.range(..range.end).next_back().is_some_and(|(_, &end)| range.start < end)
    }
}

/// Addresses that the patch of a site needs for itself.
fn stretches(site: &PlannedSite) -> impl Iterator<Item = Range<u64>> {
    let at = site.patch_address();
    let own = at..at + (site.window.covered().len().max(site.window.patch_bytes())) as u64;
    let hole = match &site.window.shape {
        Shape::Short(hole) => {
            Some(hole.range().start.wrapping_add(site.bias)..hole.range().end.wrapping_add(site.bias))
        }
        Shape::Near | Shape::Punned { .. } | Shape::Called(_) => None,
    };
    [own].into_iter().chain(hole)
}

impl Attachment {
    /// Runs the programs of another consumer too. Those of `sites` index `executables`.
    pub fn add(&mut self, sites: &[SiteRequest], executables: &[Executable]) -> Result<Added, Error> {
        self.adding(sites, executables).map_err(|error| self.target.explain(error))
    }

    /// Runs the programs of `consumer` no more. The report says how many functions are as before, and whether threads
    /// may still be in its programs (`left_mapped`).
    pub fn remove(&mut self, consumer: Consumer) -> Result<Report, Error> {
        self.removing(consumer).map_err(|error| self.target.explain(error))
    }

    /// The same for weir itself: what stands there are no probes, and later sites are not of that consumer.
    pub(crate) fn add_own(
        &mut self,
        sites: &[SiteRequest],
        executables: &[Executable],
    ) -> Result<Added, Error> {
        let current = self.consumers.current;
        let added = self.adding(sites, executables);
        self.consumers.current = current;
        added
    }

    fn adding(&mut self, sites: &[SiteRequest], executables: &[Executable]) -> Result<Added, Error> {
        self.target.refresh()?;
        self.lead_again()?;
        self.retire(1)?;
        let first = self.consumers.executables.len();
        self.consumers.executables.extend(executables.iter().cloned());
        self.consumers.last += 1;
        let consumer = Consumer(self.consumers.last);
        self.consumers.current = consumer.0;
        let sites: Vec<SiteRequest> = sites
            .iter()
            .map(|site| {
                let mut site = site.clone();
                site.programs.iter_mut().for_each(|program| program.executable += first);
                site
            })
            .collect();
        let mut outcomes: Vec<Outcome> = vec![Err(Refusal::NoRoom); sites.len()];
        let (mut fresh, mut changed) = (Vec::new(), BTreeMap::new());
        let mut refused_returns: BTreeMap<usize, Option<Refusal>> = BTreeMap::new();
        let (known, taken) = (self.consumers.by_address(), self.consumers.taken());
        let mut biases: HashMap<&std::path::Path, Option<u64>> = HashMap::new();
        for (index, site) in sites.iter().enumerate() {
            let path = site.binary.path();
            let bias = *biases.entry(path).or_insert_with(|| self.target.bias(site.binary));
            let outcome = self.join(site, bias, &known, &taken);
            match outcome {
                Ok(Some((standing, planned, refused))) => {
                    changed.insert(standing, (index, planned));
                    refused_returns.insert(index, refused);
                }
                Ok(None) => fresh.push(index),
                Err(refusal) => outcomes[index] = Err(refusal),
            }
        }
        let requests: Vec<SiteRequest> = fresh.iter().map(|&index| sites[index].clone()).collect();
        if !requests.is_empty() {
            for (index, outcome) in fresh.into_iter().zip(self.put_in(&requests)?) {
                outcomes[index] = outcome;
            }
        }
        let indices: BTreeMap<usize, usize> = changed.iter().map(|(&at, (index, _))| (at, *index)).collect();
        let planned = changed.into_iter().map(|(at, (_, planned))| (at, planned)).collect();
        for (at, outcome) in self.lead_elsewhere(planned)? {
            let Some(&index) = indices.get(&at) else { continue };
            outcomes[index] = outcome.map(|()| {
                let site = &mut self.consumers.sites[at];
                let added = site.planned.programs.len() - site.owners.len();
                site.owners.extend(std::iter::repeat_n(consumer.0, added));
                let returns_refused = refused_returns.remove(&index).flatten();
                let (technique, number) = (site.planned.window.technique(), site.planned.number);
                Patched { technique, returns_refused, site: number }
            });
        }
        self.retire(limits::RETIRE_TRIES)?;
        Ok(Added { consumer, outcomes })
    }

    /// What becomes of the site that is patched already where `site` is wanted, and why its returns are not caught where
    /// a program wants that; `None` if there is none.
    fn join(
        &self,
        site: &SiteRequest,
        bias: Option<u64>,
        known: &HashMap<u64, usize>,
        taken: &BTreeMap<u64, u64>,
    ) -> Result<Option<Joined>, Refusal> {
        let window = site.window.as_ref().map_err(Refusal::clone)?;
        let not_mapped = || Refusal::NotMapped { binary: site.binary.path().display().to_string() };
        let at = self.place_of(site, window, bias.ok_or_else(not_mapped)?);
        // What watches over memory runs whether or not the controller lives; other programs must not.
        if self.is_guard(at) && known.contains_key(&at) {
            return Err(Refusal::Overlap { address: at });
        }
        let Some(&standing) = known.get(&at) else {
            let asked = PlannedSite {
                window: window.clone(),
                bias: bias.unwrap_or(0),
                function: 0,
                programs: Vec::new(),
                returns: None,
                hook: None,
                number: 0,
            };
            let is_taken = stretches(&asked).any(|range| Consumers::is_taken(taken, &range));
            return if is_taken { Err(Refusal::Overlap { address: at }) } else { Ok(None) };
        };
        let old = &self.consumers.sites[standing].planned;
        if old.window.is_exit != window.is_exit {
            // Programs would run before or behind instructions that they are not meant to.
            return Err(Refusal::Overlap { address: at });
        }
        let mut planned = old.clone();
        let chosen = choose(&site.programs, || old.returns.map_or_else(|| self.returns_of(site), Ok))?;
        planned.programs.extend(&chosen.programs);
        if planned.programs.len() > PROGRAMS_PER_SITE_MAX {
            let given = planned.programs.len();
            return Err(Refusal::TooManyPrograms { given, max: PROGRAMS_PER_SITE_MAX });
        }
        has_stack(&planned, &self.consumers.executables)?;
        planned.returns = planned.returns.or(chosen.returns);
        Ok(Some((standing, planned, chosen.refused)))
    }

    fn removing(&mut self, consumer: Consumer) -> Result<Report, Error> {
        let before = self.target.stops.begin_part();
        let removed = self.remove_some(consumer);
        let stops = self.target.stops.end_part(before);
        removed.map(|report| Report { stops, ..report })
    }

    fn remove_some(&mut self, consumer: Consumer) -> Result<Report, Error> {
        self.target.refresh()?;
        self.lead_again()?;
        let (mut gone, mut changed) = (HashSet::new(), Vec::new());
        for (at, site) in self.consumers.sites.iter().enumerate() {
            if !site.owners.contains(&consumer.0) {
                continue;
            }
            let mut planned = site.planned.clone();
            let mut owners = site.owners.iter();
            planned.programs.retain(|_| owners.next() != Some(&consumer.0));
            if !planned.programs.iter().any(|program| program.when.wants_return()) {
                planned.returns = None;
            }
            match planned.programs.is_empty() && planned.hook.is_none() {
                true => {
                    gone.insert(at);
                }
                false => changed.push((at, planned)),
            }
        }
        for (at, outcome) in self.lead_elsewhere(changed)? {
            let site = &mut self.consumers.sites[at];
            if outcome.is_ok() {
                site.owners.retain(|&owner| owner != consumer.0);
            }
        }
        let mut report = self.take_back(&gone, limits::RETRIES_MAX)?;
        report.left_mapped = !self.retire(limits::RETIRE_TRIES)?;
        Ok(report)
    }

    pub(crate) fn withdrawing(&mut self, sites: &[usize]) -> Result<Report, Error> {
        let before = self.target.stops.begin_part();
        let withdrawn = self.withdraw_some(sites);
        let stops = self.target.stops.end_part(before);
        withdrawn.map(|report| Report { stops, ..report })
    }

    fn withdraw_some(&mut self, sites: &[usize]) -> Result<Report, Error> {
        self.target.refresh()?;
        self.lead_again()?;
        let (mut gone, mut changed) = (HashSet::new(), Vec::new());
        for (at, site) in self.consumers.sites.iter().enumerate() {
            match (sites.contains(&site.planned.number), &site.planned.hook) {
                (false, _) => {}
                (true, None) => {
                    gone.insert(at);
                }
                (true, Some(_)) => {
                    let (programs, returns) = (Vec::new(), None);
                    changed.push((at, PlannedSite { programs, returns, ..site.planned.clone() }));
                }
            }
        }
        for (at, outcome) in self.lead_elsewhere(changed)? {
            if outcome.is_ok() && self.consumers.sites[at].planned.programs.is_empty() {
                self.consumers.sites[at].owners.clear();
            }
        }
        let mut report = self.take_back(&gone, limits::RETRIES_MAX)?;
        report.left_mapped = !self.retire(limits::RETIRE_TRIES)?;
        Ok(report)
    }

    /// Leads the jumps of sites to new trampolines, of what is planned for them now; those of hooks too, which must
    /// know all islands. The outcome of each.
    pub(crate) fn lead_elsewhere(
        &mut self,
        mut changed: Vec<(usize, PlannedSite)>,
    ) -> Result<Vec<Led>, Error> {
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        let is_changed: HashSet<usize> = changed.iter().map(|(at, _)| *at).collect();
        // With many islands everything goes to a new one, so that the others are retired.
        let is_crowded = self.consumers.islands.len() >= ISLANDS_MAX / 2;
        let others = self.consumers.sites.iter().enumerate().filter(|(at, _)| !is_changed.contains(at));
        let others = others.filter(|(_, site)| is_crowded || site.planned.hook.is_some());
        changed.extend(others.map(|(at, site)| (at, site.planned.clone())));
        let (ats, planned): (Vec<usize>, Vec<PlannedSite>) = changed.into_iter().unzip();
        let (generated, _) = self.bring(&planned, &|_| false)?;
        let mut outcomes: Vec<Result<(), Refusal>> = vec![Ok(()); planned.len()];
        for (site, refusal) in &generated.refused {
            outcomes[*site] = Err(refusal.clone());
        }
        // Before anything leads there: a hit that found them closed would be one that the others miss.
        let sites = &self.consumers.sites;
        self.open_gates(&generated, |site| sites[ats[site]].mode == Mode::Armed)?;
        let patches: HashMap<u64, usize> =
            self.undo.patches.iter().map(|patch| patch.address).zip(0..).collect();
        let others = code_of_others(&self.target);
        let mut turns: Vec<(usize, u64, Turn)> = Vec::new();
        let mut gates: HashMap<usize, u64> = HashMap::new();
        for entry in generated.entries().filter(|entry| outcomes[entry.site].is_ok()) {
            self.undo.places.add(&entry.places);
            let turn = self.turn(ats[entry.site], entry.address, &patches, &others);
            turns.push((entry.site, entry.address, turn));
            gates.insert(entry.site, entry.gate);
        }
        self.undo.places.sort();
        self.turn_all(&turns, &ats, &patches, &mut outcomes)?;
        let mut planned: Vec<Option<PlannedSite>> = planned.into_iter().map(Some).collect();
        for (site, address, turn) in turns {
            if outcomes[site].is_ok()
                && let Some(planned) = planned[site].take()
            {
                // The other's jump leads to that one still.
                self.consumers.covered.extend(turn.is_code.then_some(turn.address));
                let standing = &mut self.consumers.sites[ats[site]];
                (standing.planned, standing.entry) = (planned, address);
                standing.gate = gates[&site];
                standing.is_lost = false;
            }
        }
        self.consumers.settle(&generated);
        Ok(ats.into_iter().zip(outcomes).collect())
    }

    /// Leads all jumps to trampolines in new islands, as few as can be.
    pub(crate) fn gather(&mut self) -> Result<(), Error> {
        let first = self.consumers.sites.first().map(|site| (0, site.planned.clone()));
        self.lead_elsewhere(first.into_iter().collect()).map(|_| ())
    }

    /// Has what answers unwinders know of all islands that there are; whether it does.
    pub(crate) fn renew_hooks(&mut self) -> Result<bool, Error> {
        let hooks = self.consumers.sites.iter().enumerate().filter(|(_, site)| site.planned.hook.is_some());
        let hooks: Vec<(usize, PlannedSite)> = hooks.map(|(at, site)| (at, site.planned.clone())).collect();
        let count = hooks.len();
        // What has just been mapped is not to be in the way.
        self.target.refresh()?;
        let led = self.lead_elsewhere(hooks)?;
        Ok(count > 0 && led.iter().take(count).all(|(_, outcome)| outcome.is_ok()))
    }

    /// How the jump of site `at` is led to the trampoline at `entry`. `patches`: by address; `others`: code of other weirs. Where the jump
    /// of one of them stands in that place, and has displaced this one's, it is the trampoline that leads to the new one.
    fn turn(&self, at: usize, entry: u64, patches: &HashMap<u64, usize>, others: &[Range<u64>]) -> Turn {
        let site = &self.consumers.sites[at];
        let memory = &self.target.memory;
        let (mut address, mut is_code) = (site.lever(), false);
        let is_text = site.landing.is_none() && !matches!(site.planned.window.shape, Shape::Called(_));
        if is_text && jump_into(memory, address, others).is_some() {
            (address, is_code) = (site.entry, true);
        }
        let leading_to = |entry: u64| match site.planned.window.shape {
            Shape::Called(_) => Called::leading_to(entry).to_vec(),
            Shape::Near | Shape::Short(_) | Shape::Punned { .. } => near_jump(address, entry).to_vec(),
        };
        let now = match &site.planned.window.shape {
            Shape::Called(called) if site.is_lost => called.old.to_vec(),
            // Where it could be read, it is as it is.
            _ if is_code => {
                let mut now = vec![0; JUMP_BYTES];
                let is_read = memory.read(address, &mut now).is_ok();
                if is_read { now } else { Vec::new() }
            }
            // The trampoline that it leads to may lead elsewhere.
            _ if is_text => patches
                .get(&address)
                .map_or_else(|| leading_to(site.entry), |&patch| self.undo.patches[patch].new.clone()),
            _ => leading_to(site.entry),
        };
        let (file, also) = match &site.planned.window.shape {
            Shape::Called(called) => {
                let patch = patches.get(&address).map(|&patch| &self.undo.patches[patch]);
                let file = patch.and_then(|patch| Some(patch.file.as_ref()?.identity));
                (file, site.is_lost.then(|| lists::bytes_of(called)).flatten())
            }
            Shape::Near | Shape::Short(_) | Shape::Punned { .. } => (None, None),
        };
        Turn { address, now, new: leading_to(entry), file, also, is_code }
    }

    /// Writes `turns`, with their journal entries where they change text.
    fn turn_all(
        &mut self,
        turns: &[(usize, u64, Turn)],
        ats: &[usize],
        patches: &HashMap<u64, usize>,
        outcomes: &mut [Result<(), Refusal>],
    ) -> Result<(), Error> {
        let mut entries: Vec<Option<u32>> = Vec::with_capacity(turns.len());
        for (_, _, turn) in turns {
            // Code of weir's own has no entry.
            entries.push(match patches.get(&turn.address) {
                Some(&patch) => {
                    let (old, is_probe) =
                        (self.undo.patches[patch].old.clone(), self.undo.patches[patch].is_probe);
                    Some(self.note(turn.address, &old, &turn.new, is_probe)?)
                }
                None => None,
            });
        }
        let journal = self.control.journal();
        let undo_patches = &mut self.undo.patches;
        let plain: Vec<&Turn> = turns.iter().map(|(_, _, turn)| turn).collect();
        let mut turned = vec![false; turns.len()];
        patch::turn(&mut self.target, &plain, &mut |index| {
            turned[index] = true;
            if let (Some(entry), Some(&patch)) = (entries[index], patches.get(&turns[index].2.address)) {
                journal.set_state(entry, JournalState::Applied);
                undo_patches[patch].new.clone_from(&turns[index].2.new);
            }
        })?;
        for (index, (site, _, turn)) in turns.iter().enumerate() {
            let standing = &mut self.consumers.sites[ats[*site]];
            if !turned[index] {
                let offset = turn.address.abs_diff(standing.planned.patch_address());
                outcomes[*site] = Err(Refusal::TextDiffers { offset });
            }
            let Some(entry) = entries[index] else { continue };
            // Of the entries of a site, the one for this address is undone, or the new one is.
            let mut spare = entry;
            if turned[index] {
                let is_hole = matches!(standing.planned.window.shape, Shape::Short(_));
                let which = if is_hole { 0 } else { standing.entries.len() - 1 };
                spare = std::mem::replace(&mut standing.entries[which], entry);
            }
            journal.set_state(spare, JournalState::Undone);
            self.consumers.spare_entries.push(spare);
        }
        Ok(())
    }

    /// Puts back the text of sites without consumers, and what was left of such before, in at most so many `tries`.
    fn take_back(&mut self, gone: &HashSet<usize>, tries: u32) -> Result<Report, Error> {
        if gone.is_empty() && self.consumers.awaited.is_empty() {
            return Ok(Report::default());
        }
        // Another weir's jump may lead there still.
        let mut gates: Vec<(u64, bool)> =
            gone.iter().map(|&at| (self.consumers.sites[at].gate, false)).collect();
        gates::set(&self.target.memory, &mut gates, self.lease())
            .map_err(|source| Error::system("shutting gates", source))?;
        let addresses: HashSet<u64> =
            gone.iter().map(|&at| self.consumers.sites[at].planned.patch_address()).collect();
        let is_gone = |patch: &Patch| {
            addresses.contains(&patch.address) || patch.leads_from.is_some_and(|at| addresses.contains(&at))
        };
        let kept: HashSet<u64> = {
            let others = self.consumers.sites.iter().enumerate().filter(|(at, _)| !gone.contains(at));
            others.filter_map(|(_, site)| site.semaphore).collect()
        };
        let lowered: HashSet<u64> = gone
            .iter()
            .filter_map(|&at| self.consumers.sites[at].semaphore)
            .filter(|address| !kept.contains(address))
            .collect();
        let is_lowered = |counter: &Counter| lowered.contains(&counter.address);
        let landings = gone.iter().filter_map(|&at| self.consumers.sites[at].landing);
        self.consumers.awaited.extend(landings);
        let awaited = &self.consumers.awaited;
        let is_taken = |patch: &&Patch| is_gone(patch) || awaited.contains(&patch.address);
        let mut undo = Undo {
            segments: Vec::new(),
            islands: Vec::new(),
            files: None,
            late: Vec::new(),
            patches: self.undo.patches.iter().filter(is_taken).cloned().collect(),
            unknown: Vec::new(),
            counters: self.undo.counters.iter().filter(|counter| is_lowered(counter)).cloned().collect(),
            places: self.undo.places.of(awaited),
        };
        let notes = counters::plan_lowering(&self.control, &self.target, &undo.counters);
        // Lowered once, also where the rest fails and is tried again.
        self.undo.counters.retain(|counter| !is_lowered(counter));
        let (mut report, awaited) = undo.take_back(&mut self.target, tries)?;
        report.left_mapped = !awaited.is_empty();
        let journal = self.control.journal();
        notes.into_iter().for_each(|note| journal.set_state(note, JournalState::Applied));
        let covered: HashSet<u64> = report.covered.iter().copied().collect();
        let is_covered = |patch: &Patch| {
            covered.contains(&patch.address) || patch.leads_from.is_some_and(|at| covered.contains(&at))
        };
        self.undo.patches.retain(|patch| {
            !(is_gone(patch) || self.consumers.awaited.contains(&patch.address))
                || awaited.contains(&patch.address)
                || is_covered(patch)
        });
        self.consumers.awaited = awaited.into_iter().collect();
        // Whoever has changed that text may have kept the jump that was there.
        self.undo.unknown.extend(&report.foreign);
        let mut at = 0;
        let spare = &mut self.consumers.spare_entries;
        let numbers = &mut self.consumers.numbers.free;
        let led_to = &mut self.consumers.covered;
        self.consumers.sites.retain(|site| {
            let is_kept = !gone.contains(&at);
            at += 1;
            if !is_kept && covered.contains(&site.planned.patch_address()) {
                self.control.meter(site.planned.number).set(How::Closed);
                led_to.push(site.entry);
                led_to.extend(site.landing);
            } else if !is_kept {
                site.entries.iter().for_each(|&entry| journal.set_state(entry, JournalState::Undone));
                spare.extend(&site.entries);
                numbers.push(site.planned.number);
            }
            is_kept
        });
        Ok(report)
    }

    /// Unmaps islands and outposts that nothing leads to, neither text nor a thread on its way there; whether none is
    /// left of those.
    pub(crate) fn retire(&mut self, tries: u32) -> Result<bool, Error> {
        let mut starts: Vec<u64> = self.consumers.sites.iter().map(|site| site.entry).collect();
        starts.extend(&self.consumers.covered);
        starts.sort_unstable();
        let is_used = |range: &Range<u64>| {
            starts
                .get(starts.partition_point(|&start| start < range.start))
                .is_some_and(|s| range.contains(s))
        };
        let mut landings: Vec<u64> = self.consumers.sites.iter().filter_map(|site| site.landing).collect();
        landings.extend(&self.consumers.covered);
        let is_led_to = |range: &Range<u64>| landings.iter().any(|landing| range.contains(landing));
        let outposts = self.consumers.outposts.iter().cloned();
        let islands = self.consumers.islands.iter().map(Place::range);
        let idle = islands.filter(|range| !is_used(range));
        let idle = idle.chain(outposts.filter(|range| !is_led_to(range)));
        let settling = &self.consumers.settling;
        let idle: Vec<Range<u64>> = idle.filter(|range| !settling.contains(range)).collect();
        if idle.is_empty() {
            return Ok(true);
        }
        self.take_back(&HashSet::new(), tries)?;
        // A thread that is awaited there goes on to an island, and so may one in text that is not ours any more.
        if !self.consumers.awaited.is_empty() || !self.undo.unknown.is_empty() {
            return Ok(false);
        }
        self.target.refresh()?;
        let count = idle.len();
        let undo = Undo {
            segments: Vec::new(),
            islands: idle,
            files: None,
            late: Vec::new(),
            patches: Vec::new(),
            unknown: Vec::new(),
            counters: Vec::new(),
            places: Places::default(),
        };
        let gone = undo.retire(&mut self.target, tries)?;
        self.target.refresh()?;
        self.undo.islands.retain(|range| !gone.contains(range));
        self.undo.places.forget(&gone);
        self.consumers.return_points.retain(|at, _| !gone.iter().any(|range| range.contains(at)));
        self.consumers.islands.retain(|place| !gone.contains(&place.range()));
        self.consumers.outposts.retain(|range| !gone.contains(range));
        self.tell_place();
        Ok(gone.len() == count)
    }
}
