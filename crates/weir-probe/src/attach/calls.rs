//! Places that call a list of functions, as those of LTTng-UST's events do, are kept leading to weir's.
//!
//! In: where a word and the address of its list stand in a target ([`weir_plan::window::Called`]). The program, or a tracer of
//! LTTng's in it, may change both at any time, and puts another list there then: weir's is not called any more, and nothing of
//! weir's is lost but hits until its list stands behind the new one.
//!
//! Undone is what still leads to weir's list. Whatever else stands there is its owner's.
//!
//! LTTng-UST puts an empty list at all places of a file when its constructor registers them, and another one when a session
//! enables an event or drops it. Hooks of weir's own notice it where the functions that do that return ([`REGISTER`]): the program waits
//! there until weir's lists stand again. What they do not see is seen by a look at the places, [`INTERVAL`] apart.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_plan::limits::CALLED_BYTES;
use weir_plan::window::{Shape, Window};
use weir_plan::{Place, Refusal, exits, plan_sites};
use weir_rt::Executable;
use weir_rt::segment::Announcements;
use weir_symbols::maps::Mapping;
use weir_symbols::{Binary, Function, VirtAddr};
use weir_trampoline::announce;

use crate::attach::lists::{self, list, look};
use crate::attach::loads::Change;
use crate::attach::own::{self, OwnHook};
use crate::attach::request::SiteRequest;
use crate::attach::state::Attachment;
use crate::process::target::Target;
use crate::refusal::Error;

/// Between two looks at the places.
const INTERVAL: Duration = Duration::from_millis(20);
/// Places this far apart are read at once.
const TOGETHER: u64 = 64 << 10;
/// The library that changes the lists.
const LIBRARY: &str = "liblttng-ust-tracepoint.so.";
/// Its functions that do.
const REGISTER: [&str; 5] = [
    "lttng_ust_tracepoint_module_register",
    "lttng_ust_tracepoint_provider_register",
    "lttng_ust_tracepoint_provider_unregister",
    "lttng_ust_tp_probe_register_queue_release",
    "lttng_ust_tp_probe_unregister_queue_release",
];
/// The one that a session calls after it has changed what it wants to.
const AFTER: &str = "lttng_ust_tp_probe_prune_release_queue";

/// Places that led elsewhere than to weir's lists, and lead there again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedAgain {
    pub places: usize,
    /// Their events were missed for so long at most.
    pub within: Duration,
}

impl Attachment {
    /// Looks whether the places that call lists still lead to weir's, and has them lead there again. To be called often, by the
    /// thread that attached.
    pub fn look_at_calls(&mut self) -> Result<Option<LedAgain>, Error> {
        let now = Instant::now();
        let before = self.calls.looked;
        if before.is_some_and(|looked| now.duration_since(looked) < INTERVAL) {
            return Ok(None);
        }
        let places = self.lead_again().map_err(|error| self.target.explain(error))?;
        self.calls.looked = Some(Instant::now());
        let within = before.map_or(Duration::ZERO, |before| before.elapsed());
        Ok((places > 0).then_some(LedAgain { places, within }))
    }

    /// How many of the places led elsewhere.
    pub(crate) fn lead_again(&mut self) -> Result<usize, Error> {
        let lost = self.led_elsewhere();
        if lost.is_empty() {
            return Ok(0);
        }
        self.target.refresh()?;
        let patches: HashMap<u64, usize> =
            self.undo.patches.iter().map(|patch| patch.address).zip(0..).collect();
        let mut changed = Vec::new();
        for (at, site) in self.consumers.sites.iter_mut().enumerate() {
            let Shape::Called(called) = &site.planned.window.shape else { continue };
            let address = site.planned.patch_address();
            let Some(&patch) = patches.get(&address).filter(|_| lost.contains(&address)) else { continue };
            let patch = &mut self.undo.patches[patch];
            let file = patch.file.as_ref().map(|file| file.identity);
            if file != self.target.mapping_at(VirtAddr(address)).map(Mapping::identity) {
                continue;
            }
            // What cannot be read is gone with its file, which is seen elsewhere.
            let Ok(called) = look(&self.target, address, (called.function, called.words)) else { continue };
            // Another weir's code may have been mapped since this one looked last.
            if lists::calls(&self.target, list(&called.old), list(&patch.new)) {
                continue;
            }
            patch.old = called.old.to_vec();
            site.is_lost = true;
            site.planned.window.shape = Shape::Called(called);
            changed.push((at, site.planned.clone()));
        }
        let led = self.lead_elsewhere(changed)?;
        Ok(led.iter().filter(|(_, outcome)| outcome.is_ok()).count())
    }

    /// Where the place of `site` is, or its window, in a file that is mapped with this bias.
    pub(crate) fn place_of(&self, site: &SiteRequest, window: &Window, bias: u64) -> u64 {
        let own = window.address.wrapping_add(bias);
        site.called.map_or(own, |called| lists::place(&self.target, called.listed.0.wrapping_add(bias), own))
    }

    /// Puts in those of `sites` whose places turn out to be elsewhere than in their own file, now that it is relocated. The
    /// place in the file, which is not used then, goes on leading to weir's list and is restored with all else.
    pub(crate) fn follow_places(&mut self, sites: &[SiteRequest], change: &mut Change) -> Result<(), Error> {
        if !sites.iter().any(|site| site.called.is_some()) {
            return Ok(());
        }
        let standing: HashSet<u64> =
            self.consumers.sites.iter().map(|site| site.planned.patch_address()).collect();
        let mut found: HashSet<u64> = HashSet::new();
        let is_elsewhere = |site: &SiteRequest| {
            let (called, bias) = (site.called?, self.target.bias(site.binary)?);
            let own = site.window.as_ref().ok()?.address.wrapping_add(bias);
            let place = lists::place(&self.target, called.listed.0.wrapping_add(bias), own);
            (place != own && standing.contains(&own) && !standing.contains(&place)).then_some(place)
        };
        // Several files may have come to have one place.
        let moved = sites
            .iter()
            .enumerate()
            .filter(|(_, site)| is_elsewhere(site).is_some_and(|place| found.insert(place)));
        let moved: Vec<usize> = moved.map(|(index, _)| index).collect();
        if moved.is_empty() {
            return Ok(());
        }
        let wanted: Vec<SiteRequest> = moved.iter().map(|&index| sites[index].clone()).collect();
        let outcomes = self.put_in(&wanted)?;
        change.retried.extend(moved.into_iter().zip(outcomes));
        Ok(())
    }

    /// Addresses of the places that lead to another list than weir's.
    fn led_elsewhere(&self) -> HashSet<u64> {
        if !self.calls.has_places {
            return HashSet::new();
        }
        let called = self.undo.patches.iter().filter(|patch| patch.is_called);
        let mut places: Vec<(u64, u64)> = called.map(|patch| (patch.address, list(&patch.new))).collect();
        places.sort_unstable();
        let mut lost = HashSet::new();
        let mut rest = &places[..];
        while let Some(&(first, _)) = rest.first() {
            let count = rest.partition_point(|(address, _)| address - first < TOGETHER);
            let (piece, after) = rest.split_at(count);
            rest = after;
            let mut bytes = vec![0; (piece[count - 1].0 - first) as usize + CALLED_BYTES];
            let is_read = self.target.memory.read(first, &mut bytes).is_ok();
            for &(address, own) in piece {
                let mut alone = [0; CALLED_BYTES];
                let now = match is_read {
                    true => list(&bytes[(address - first) as usize..]),
                    // There is a hole between them.
                    false if self.target.memory.read(address, &mut alone).is_ok() => list(&alone),
                    // What is not there any more is gone with its file.
                    false => continue,
                };
                // Where another weir's list stands that calls this one's, that is called.
                if now != own && !lists::calls(&self.target, now, own) {
                    lost.insert(address);
                }
            }
        }
        lost
    }

    /// Has the program wait where it has changed lists, if that library is there by now and this was not done yet.
    pub(crate) fn hook_registering(&mut self) -> Result<(), Error> {
        if self.calls.is_hooked || !self.calls.has_places {
            return Ok(());
        }
        let Some(registering) = Registering::find(&self.target) else { return Ok(()) };
        let program = self.announces_registering();
        let sites = registering.sites();
        let addresses = registering.exits.iter().filter_map(|(_, window)| window.as_ref().ok());
        self.own.extend(addresses.map(|window| window.address.wrapping_add(registering.bias)));
        let added = self.add_own(&sites, &[program])?;
        self.registering_hooked(added.outcomes.into_iter().find_map(Result::err));
        Ok(())
    }

    /// The program for that.
    pub(crate) fn announces_registering(&self) -> Executable {
        announce::executable(self.control_address + Announcements::OFFSET, None)
    }

    /// It was put in, or why some of it was not.
    pub(crate) fn registering_hooked(&mut self, refused: Option<Refusal>) {
        self.calls.is_hooked = true;
        self.calls.refused = refused;
    }

    /// Why what a program registers is noticed late, where that is so.
    pub fn registering_unseen(&self) -> Option<&Refusal> {
        self.calls.refused.as_ref()
    }
}

/// The functions that change lists, and where they leave.
pub(crate) struct Registering {
    binary: Binary,
    bias: u64,
    /// And where one begins that is called after these.
    exits: Vec<(Function, Result<Window, Refusal>)>,
}

impl Registering {
    pub(crate) fn find(target: &Target) -> Option<Registering> {
        let is_it = |mapping: &&Mapping| {
            let name = Path::new(&mapping.path).file_name();
            mapping.execute && name.is_some_and(|name| name.to_string_lossy().starts_with(LIBRARY))
        };
        let mapping = target.mappings.iter().find(is_it)?;
        let binary = Binary::open(&target.root().join(mapping.path.trim_start_matches('/'))).ok()?;
        let bias = target.bias(&binary)?;
        let functions: Vec<&Function> =
            REGISTER.iter().filter_map(|name| binary.find(name).ok()?.first().copied()).collect();
        let asked: Vec<(&Binary, &Function)> =
            functions.iter().map(|function| (&binary, *function)).collect();
        let mut exits = Vec::new();
        for (function, found) in functions.iter().zip(exits::plan_exits(&asked)) {
            match found {
                Ok(places) => {
                    let places: Vec<_> =
                        places.into_iter().map(|place| (&binary, Place::Exit(place))).collect();
                    exits.extend(plan_sites(&places).into_iter().map(|window| ((*function).clone(), window)));
                }
                Err(refusal) => exits.push(((*function).clone(), Err(refusal))),
            }
        }
        // What is not seen above is seen then.
        if let Some(after) = binary.find(AFTER).ok().and_then(|found| found.first().copied().cloned()) {
            let window = plan_sites(&[(&binary, Place::Entry(&after))]).remove(0);
            exits.push((after, window));
        }
        Some(Registering { binary, bias, exits })
    }

    /// Where `program` is to run.
    pub(crate) fn hooks(&self, program: usize) -> impl Iterator<Item = OwnHook<'_>> {
        let Registering { binary, bias, exits } = self;
        exits.iter().map(move |(function, window)| OwnHook { binary, function, window, bias: *bias, program })
    }

    fn sites(&self) -> Vec<SiteRequest<'_>> {
        self.exits.iter().map(|(function, window)| own::request(&self.binary, function, window, 0)).collect()
    }
}
