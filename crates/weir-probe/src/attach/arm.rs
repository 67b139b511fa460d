//! From requested sites to patched ones: planned in this process, generated, mapped, and their jumps written.
//!
//! In: [`SiteRequest`]s, of the first consumer or of a later one. Out: the [`Outcome`] of each. The steps are those of
//! `arm` in the header of [`crate::attach`]: [`crate::attach::admit`] says what this process lets be patched,
//! [`crate::attach::generate`] makes code for it, [`crate::attach::install`] brings it into the target.
//!
//! Where only attaching shows that a function's return cannot be caught, its entry is probed all the same. Not here: sites
//! that are patched already ([`crate::attach::consumers`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use weir_plan::Refusal;
use weir_plan::returns::Returns;
use weir_rt::Executable;
use weir_rt::segment::How;
use weir_symbols::VirtAddr;
use weir_trampoline::island::PlannedSite;

use crate::attach::admit::{Ground, add_hooks, has_stack, plan_hooks, plan_in_target};
use crate::attach::counters;
use crate::attach::generate::Generated;
use crate::attach::install::refuse_returns;
use crate::attach::others::{code_of, code_of_others, jump_into};
use crate::attach::patch::Jump;
use crate::attach::request::{Outcome, Patched, SiteRequest};
use crate::attach::state::Attachment;
use crate::attach::state::Retries;
use crate::attach::undo::MappedFile;
use crate::process::sys;
use crate::process::target::Target;
use crate::refusal::Error;

/// How often a place that changes while it is written to is tried again.
const PLACE_TRIES: u32 = 10;
const PLACE_PAUSE: Duration = Duration::from_millis(3);

impl Attachment {
    pub(crate) fn arm(&mut self, sites: &[SiteRequest], executables: &[Executable]) -> Result<(), Error> {
        self.consumers.executables = executables.to_vec();
        // Go's way back from handlers lies in a program that may be too large to be searched.
        let is_go = sites.iter().any(|site| site.binary.is_go());
        if executables.iter().any(Executable::waits) && !is_go {
            self.restorers = self.target.restorers();
        }
        self.outcomes = self.put_in_with_hook(sites)?;
        self.retries = Retries::of(&self.outcomes);
        Ok(())
    }

    /// Patches the places of `sites`, none of which is patched yet, for the first consumer or a later one. The
    /// outcome of each. Where only attaching shows that returns cannot be caught, the entry is probed all the same.
    pub(crate) fn put_in(&mut self, sites: &[SiteRequest]) -> Result<Vec<Outcome>, Error> {
        self.put_in_copies(sites, &HashMap::new())
    }

    /// The same where files are mapped several times: `copies` says by path which one is meant.
    pub(crate) fn put_in_copies(
        &mut self,
        sites: &[SiteRequest],
        copies: &HashMap<PathBuf, u64>,
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = self.put_in_once(sites, copies)?;
        // Another weir may be changing what answers unwinders at this moment.
        for _ in 0..PLACE_TRIES {
            let is_unknown = |outcome: &Outcome| matches!(outcome, Err(Refusal::UnwinderUnknown { .. }));
            if self.hooks > 0 || !outcomes.iter().any(is_unknown) || self.is_alone()? {
                break;
            }
            thread::sleep(PLACE_PAUSE);
            let unknown =
                sites.iter().zip(&outcomes).enumerate().filter(|(_, (_, outcome))| is_unknown(outcome));
            let again = unknown.map(|(index, (site, _))| (index, site.clone())).collect();
            self.put_in_again(again, copies, &mut outcomes)?;
        }
        let without_return =
            sites.iter().zip(&outcomes).enumerate().filter_map(|(index, (site, outcome))| {
                let refusal = outcome.as_ref().err().filter(|refusal| refusal.is_of_return())?;
                let site = SiteRequest { returns: Some(Err(refusal.clone())), ..site.clone() };
                site.wants_entry().then_some((index, site))
            });
        self.put_in_again(without_return.collect(), copies, &mut outcomes)?;
        // What stands there may be another list between the look and the write, or another weir's jump.
        for tries in 0..PLACE_TRIES {
            let differs = |outcome: &Outcome| matches!(outcome, Err(Refusal::TextDiffers { .. }));
            let is_alone = !outcomes.iter().any(differs) || self.is_alone()?;
            let changed = sites
                .iter()
                .zip(&outcomes)
                .enumerate()
                .filter(|(_, (site, outcome))| differs(outcome) && (site.called.is_some() || !is_alone));
            let again: Vec<(usize, SiteRequest)> =
                changed.map(|(index, (site, _))| (index, site.clone())).collect();
            if again.is_empty() {
                break;
            }
            if tries > 0 && !self.target.stays_held {
                thread::sleep(PLACE_PAUSE);
            }
            self.put_in_again(again, copies, &mut outcomes)?;
        }
        if let Some(stopped) = self.target.held.take() {
            self.target.resume(stopped);
        }
        (self.target.stays_held, self.target.has_begun) = (false, true);
        Ok(outcomes)
    }

    /// Puts in these sites, each of which has that index in `outcomes`.
    fn put_in_again(
        &mut self,
        again: Vec<(usize, SiteRequest)>,
        copies: &HashMap<PathBuf, u64>,
        outcomes: &mut [Outcome],
    ) -> Result<(), Error> {
        if again.is_empty() {
            return Ok(());
        }
        let (indices, again): (Vec<usize>, Vec<SiteRequest>) = again.into_iter().unzip();
        for (index, outcome) in indices.into_iter().zip(self.put_in_once(&again, copies)?) {
            outcomes[index] = outcome;
        }
        Ok(())
    }

    /// No other weir has code in the process, now or when it was looked at last. One that is held is nobody else's.
    fn is_alone(&mut self) -> Result<bool, Error> {
        let is_alone = |target: &Target| code_of_others(target).is_empty();
        if self.target.stays_held || !is_alone(&self.target) {
            return Ok(self.target.stays_held);
        }
        self.target.refresh()?;
        Ok(is_alone(&self.target))
    }

    fn put_in_once(
        &mut self,
        sites: &[SiteRequest],
        copies: &HashMap<PathBuf, u64>,
    ) -> Result<Vec<Outcome>, Error> {
        self.target.refresh()?;
        let had_hooks = self.hooks > 0;
        let (mut batch, overlapping) = self.plan_batch(sites, copies);
        // Where it died meanwhile, what could not be read looks like text that is not there.
        self.target.check_alive()?;
        let is_unmapped = |outcome: &Outcome| matches!(outcome, Err(Refusal::NotMapped { .. }));
        if batch.outcomes.iter().any(is_unmapped) && sys::is_ending(self.target.pid) {
            return Err(Error::TargetGone { pid: self.target.pid });
        }
        self.hooks += batch.hooks;
        if batch.planned.is_empty() {
            // Nothing to stop for.
            return Ok(batch.outcomes);
        }
        self.number(&mut batch)?;
        let (generated, held) = self.bring(&batch.planned, &|_| true)?;
        for (site, refusal) in generated.refused.iter().cloned().chain(overlapping) {
            batch.refuse(site, refusal);
        }
        let mut todo = self.jumps(&mut batch, &generated);
        if had_hooks && batch.wants_returns() && !self.renew_hooks()? {
            refuse_returns(&mut todo, &mut |site, refusal| batch.refuse(site, refusal));
        }
        let hooks = batch.hooks;
        let refuse = &mut |site, refusal| batch.refuse(site, refusal);
        let (standing, held) = self.write_jumps(held, todo, hooks, refuse)?;
        if hooks > 0 && !standing.iter().any(|(site, _)| batch.planned[*site].hook.is_some()) {
            // They are planned again where they are wanted again.
            self.hooks -= hooks;
        }
        for &(site, _) in &standing {
            self.control.meter(batch.planned[site].number).set(How::Every { timed: 0 });
        }
        let semaphores = batch.semaphores(sites);
        batch.outcomes.truncate(sites.len());
        // Before anything else can go wrong: their jumps stand.
        self.consumers.stand(batch.planned, &generated, standing, &semaphores);
        self.open_gates(&generated, |_| true)?;
        self.raise_semaphores(held.is_some())?;
        self.target.held = held;
        Ok(batch.outcomes)
    }

    /// Of `sites` those that this process admits, with the hooks that their returns need; and the sites that a hook is in
    /// the way of.
    fn plan_batch(
        &self,
        sites: &[SiteRequest],
        copies: &HashMap<PathBuf, u64>,
    ) -> (Batch, Vec<(usize, Refusal)>) {
        let mut ground = Ground::new(&self.target, &self.undo.patches, copies);
        let hooks = match self.hooks {
            0 => plan_hooks(&mut ground, sites),
            _ => Ok(Vec::new()),
        };
        let unwinders = hooks.as_ref().err();
        let mut batch = Batch::default();
        let mut places = HashSet::new();
        for site in sites {
            let planned = site.window.clone().and_then(|window| {
                let (planned, refused) = plan_in_target(&mut ground, site, window, unwinders)?;
                // Two files may have come to have one place.
                let at = planned.patch_address();
                if site.called.is_some() && !places.insert(at) {
                    return Err(Refusal::Overlap { address: at });
                }
                has_stack(&planned, &self.consumers.executables)?;
                Ok((planned, refused))
            });
            batch.push(planned);
        }
        let overlapping = batch.add_hooks(hooks.unwrap_or_default());
        (batch, overlapping)
    }

    /// Gives each planned site a number and a meter, and says so in its outcome.
    fn number(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let capacity = self.control.layout().journal_capacity as usize;
        for (site, &request) in batch.planned.iter_mut().zip(&batch.request_of) {
            let pid = self.target.pid;
            let none = || Error::Link { pid, detail: format!("the segment has meters for {capacity} sites") };
            site.number = self.consumers.numbers.take(capacity).ok_or_else(none)?;
            self.control.meter(site.number).clear();
            if let Ok(patched) = &mut batch.outcomes[request] {
                patched.site = site.number;
            }
        }
        Ok(())
    }

    /// The jumps to what was generated. Takes note of where threads that stand in it go on when it is taken out.
    fn jumps(&mut self, batch: &mut Batch, generated: &Generated) -> Vec<Jump> {
        let (mut todo, mut moves): (Vec<Jump>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
        for entry in generated.entries() {
            let site = &batch.planned[entry.site];
            if batch.is_refused(entry.site) {
                continue;
            }
            let is_punned = site.window.targets(site.bias).is_some();
            let landing =
                if is_punned { generated.landings.get(&entry.site).copied() } else { Some(entry.address) };
            let Some(landing) = landing else {
                batch.refuse(entry.site, Refusal::NoRoom);
                continue;
            };
            todo.push(Jump::new(&self.target, entry.site, site, landing, &entry.places));
            moves.extend(entry.places.iter().copied());
            // Where a thread stands that has come from the function, and has done nothing yet.
            if landing != entry.address {
                moves.push((landing, site.patch_address()));
            }
        }
        self.undo.places.add(&moves);
        self.undo.places.sort();
        todo
    }

    /// Raises the semaphores of standing sites that are not raised yet, each once however many sites have it. While the
    /// process `is_held`, or else is stopped for that: at any other moment a library may go, and something else come there.
    /// Those whose library has gone, or whose data is not mapped yet, are left for another time.
    pub(crate) fn raise_semaphores(&mut self, is_held: bool) -> Result<(), Error> {
        let raised: HashSet<u64> = self.undo.counters.iter().map(|counter| counter.address).collect();
        let sites = self.consumers.sites.iter();
        let wanted = sites.filter_map(|site| Some((site.semaphore?, site.planned.patch_address())));
        let missing: BTreeMap<u64, u64> =
            wanted.filter(|(semaphore, _)| !raised.contains(semaphore)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let stopped = if is_held { None } else { Some(self.target.stop()?) };
        self.target.refresh()?;
        for (semaphore, at) in missing {
            if self.stands(at) && counters::is_countable(&self.target.mappings, semaphore) {
                let spare = self.consumers.spare_entries.pop();
                self.undo.counters.push(counters::raise(&self.control, &self.target, semaphore, spare)?);
            }
        }
        if let Some(stopped) = stopped {
            self.target.resume(stopped);
        }
        Ok(())
    }

    /// Whether the jump at `address` is where it was written, in the file that it was written to. For a moment at which the
    /// process is stopped, and its mappings have been read.
    fn stands(&self, address: u64) -> bool {
        let mapping = self.target.mapping_at(VirtAddr(address));
        let Some(patch) = self.undo.patches.iter().find(|patch| patch.address == address) else {
            return false;
        };
        let is_its = |file: &MappedFile| mapping.is_some_and(|mapping| mapping.identity() == file.identity);
        let mut now = vec![0; patch.new.len()];
        let is_covered =
            || jump_into(&self.target.memory, address, &code_of(&self.target, |_| true)).is_some();
        patch.file.as_deref().is_none_or(is_its)
            && self.target.memory.read(address, &mut now).is_ok()
            && (now == patch.new || is_covered())
    }

    /// How the return at a site that is patched already is to be caught.
    pub(crate) fn returns_of(&self, site: &SiteRequest) -> Result<Returns, Refusal> {
        if self.hooks == 0 {
            let detail = "nobody wanted returns when the first consumer was attached".into();
            return Err(Refusal::UnwinderUnknown { detail });
        }
        site.returns.clone().unwrap_or(Err(Refusal::ReturnUnplanned))
    }
}

/// What is put in at once, and what becomes of it.
#[derive(Default)]
struct Batch {
    /// Requested sites that the process admits, and behind them hooks that have a place of their own.
    planned: Vec<PlannedSite>,
    /// By planned site: its place in `outcomes`.
    request_of: Vec<usize>,
    /// Of each request; behind them, until they are taken off at the end, of each hook.
    outcomes: Vec<Outcome>,
    /// Planned sites that answer unwinders, whether or not they are probed too.
    hooks: usize,
}

impl Batch {
    /// What the process says to the next request.
    fn push(&mut self, planned: Result<(PlannedSite, Option<Refusal>), Refusal>) {
        let request = self.outcomes.len();
        self.outcomes.push(planned.map(|(site, returns_refused)| {
            let technique = site.window.technique();
            self.planned.push(site);
            self.request_of.push(request);
            Patched { technique, returns_refused, site: 0 }
        }));
    }

    /// Behind the last request. Of sites that a hook is in the way of: which, and why.
    fn add_hooks(&mut self, hooks: Vec<PlannedSite>) -> Vec<(usize, Refusal)> {
        let overlapping = add_hooks(&mut self.planned, hooks);
        self.hooks = self.planned.iter().filter(|site| site.hook.is_some()).count();
        for hook in &self.planned[self.request_of.len()..] {
            let technique = hook.window.technique();
            self.request_of.push(self.outcomes.len());
            self.outcomes.push(Ok(Patched { technique, returns_refused: None, site: 0 }));
        }
        overlapping
    }

    fn refuse(&mut self, site: usize, refusal: Refusal) {
        self.outcomes[self.request_of[site]] = Err(refusal);
    }

    fn is_refused(&self, site: usize) -> bool {
        self.outcomes[self.request_of[site]].is_err()
    }

    fn wants_returns(&self) -> bool {
        self.planned.iter().any(|site| site.returns.is_some())
    }

    /// Of each planned site the address of its semaphore in the target, if `requested` has one. Hooks have none.
    fn semaphores(&self, requested: &[SiteRequest]) -> Vec<Option<u64>> {
        let semaphore = |(site, &request): (&PlannedSite, &usize)| {
            let address = requested.get(request)?.semaphore?;
            Some(address.0.wrapping_add(site.bias))
        };
        self.planned.iter().zip(&self.request_of).map(semaphore).collect()
    }
}
