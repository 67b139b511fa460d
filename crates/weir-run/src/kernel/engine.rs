//! What the kernel has of a run besides its maps: programs loaded for the ends at which they run.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::Context as _;
use weir_codegen::Compiled;
use weir_event::kernel::KernelEvent;
use weir_ir::{KernelSite, MissingProbes, Trigger};
use weir_kernel::{
    AtEvent, Called, End, Features, Functions, Iteration, KernelError, Link, Maps, Probe, Ring,
};

use crate::controller::Caller;
use crate::failure::Failure;
use crate::in_kernel::InKernel;
use crate::notice::{Notices, note};
use crate::plan::Plan;
use crate::sink::RECORDS_PER_ROUND;

/// A program by its number.
pub(super) type Numbered = (usize, Probe);

/// Of each plan its programs. A program is loaded for each end that it runs at.
pub(super) struct Engine {
    features: Features,
    maps: Rc<InKernel>,
    loaded: Vec<(Rc<Plan>, Vec<Numbered>)>,
}

impl Engine {
    pub(super) fn new(features: Features, maps: Rc<InKernel>) -> Engine {
        Engine { features, maps, loaded: Vec::new() }
    }

    pub(super) fn load(&mut self, plan: &Rc<Plan>) -> Result<&[Numbered], Failure> {
        let at = match self.loaded.iter().position(|(other, _)| Rc::ptr_eq(other, plan)) {
            Some(at) => at,
            None => {
                let probes = load(&plan.compiled, &self.maps.maps, self.features, &|_| true)?;
                self.loaded.push((plan.clone(), probes));
                self.loaded.len() - 1
            }
        };
        Ok(&self.loaded[at].1)
    }

    /// Hits at which programs did not run because another ran on the CPU.
    pub(super) fn missed(&self) -> u64 {
        self.loaded.iter().flat_map(|(_, probes)| probes).map(|(_, probe)| probe.missed()).sum()
    }
}

/// The programs of probes whose numbers `runs` has run here, for each end.
pub(super) fn load(
    compiled: &Compiled,
    maps: &Maps,
    features: Features,
    runs: &dyn Fn(usize) -> bool,
) -> Result<Vec<Numbered>, Failure> {
    let mut probes = Vec::new();
    let programs = compiled.object.programs.iter().zip(&compiled.triggers).enumerate();
    for (index, (program, trigger)) in programs.filter(|(index, _)| runs(*index)) {
        for end in ends(trigger, features) {
            probes.push((index, Probe::load(program, maps, *end, features)?));
        }
    }
    Ok(probes)
}

/// At which ends a program is attached. One for returns is at the entry too, where it counts that it was there.
fn ends(trigger: &Trigger, features: Features) -> &'static [End] {
    match trigger {
        Trigger::Uprobe { .. } | Trigger::Usdt { .. } => &[End::Entry],
        Trigger::Uretprobe { .. } | Trigger::Session { .. } if features.session.is_some() => &[End::Both],
        Trigger::Uretprobe { .. } => &[End::Entry, End::Return],
        // Without sessions there are none: `Given::module` fuses no clauses.
        Trigger::Session { .. } => &[],
        Trigger::Begin
        | Trigger::End
        | Trigger::Interval { .. }
        | Trigger::Asked { .. }
        | Trigger::Kernel { .. }
        | Trigger::Filter => &[],
    }
}

fn sites_of(trigger: &Trigger) -> &[KernelSite] {
    match trigger {
        Trigger::Kernel { sites } => sites,
        _ => &[],
    }
}

/// Programs at events of the kernel's, and what attaches them.
#[derive(Default)]
pub(super) struct AtEvents {
    programs: Vec<AtEvent>,
    links: Vec<Link>,
    places: usize,
    /// Lists that are read.
    iterations: Vec<Iteration>,
}

impl AtEvents {
    /// Attaches each program to all its places, or none; to those that can be had, where the script does without others (`missing_probes`). What is
    /// watched is the memory of these processes, if there are any.
    pub(super) fn attach(
        compiled: &Compiled,
        maps: &Maps,
        processes: &[i32],
        missing: MissingProbes,
        notices: &Notices,
    ) -> Result<AtEvents, Failure> {
        let all_sites = compiled.triggers.iter().flat_map(sites_of);
        let functions = Functions::of_kernel(all_sites.map(|site| &site.event));
        let mut all = AtEvents::default();
        for (program, trigger) in compiled.object.programs.iter().zip(&compiled.triggers) {
            let sites = sites_of(trigger);
            let Some(first) = sites.first() else { continue };
            let mut loaded = AtEvent::load(program, maps, &first.event, &functions)?;
            for site in sites.iter().filter(|site| matches!(site.event, KernelEvent::Iterator { .. })) {
                all.iterations.push(loaded.iterate(&site.event)?);
            }
            let sites: Vec<_> = sites.iter().map(|site| (&site.event, site.cookie)).collect();
            match loaded.attach(&sites, processes) {
                Ok(link) => {
                    all.links.push(link);
                    all.places += sites.len();
                }
                Err(error) if missing == MissingProbes::Error => return Err(error.into()),
                Err(_) => {
                    for site in sites {
                        match loaded.attach(&[site], processes) {
                            Ok(link) => {
                                all.links.push(link);
                                all.places += 1;
                            }
                            Err(error) if missing == MissingProbes::Warn => note!(notices, Probes, "{error}"),
                            Err(_) => {}
                        }
                    }
                }
            }
            all.programs.push(loaded);
        }
        Ok(all)
    }

    pub(super) fn let_go(&mut self) {
        self.links.clear();
        self.iterations.clear();
    }

    /// Lists are still to be read.
    pub(super) fn has_more(&self) -> bool {
        !self.iterations.is_empty()
    }

    /// Has programs run for some of what is listed, one list after the other.
    pub(super) fn step(&mut self) -> Result<(), Failure> {
        if let Some(iteration) = self.iterations.first_mut()
            && !iteration.step().context("reading an iterator of the kernel").map_err(Failure::Machine)?
        {
            self.iterations.remove(0);
        }
        Ok(())
    }

    /// How many places.
    pub(super) fn places(&self) -> usize {
        self.places
    }

    pub(super) fn missed(&self) -> u64 {
        self.programs.iter().map(AtEvent::missed).sum()
    }
}

/// Does something with what is in a ring, but not for ever where programs write all the time; whether that was all.
pub(super) fn read_some(
    ring: &mut Ring,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    for _ in 0..RECORDS_PER_ROUND {
        let Some(record) = ring.next() else { return Ok(true) };
        take(&record)?;
    }
    Ok(false)
}

/// Programs that are at no place, by their numbers.
pub(super) struct InKernelCaller(BTreeMap<usize, Called>);

impl InKernelCaller {
    /// Those whose numbers `runs` has run here.
    pub(super) fn load(
        compiled: &Compiled,
        maps: &Maps,
        runs: &dyn Fn(usize) -> bool,
    ) -> Result<InKernelCaller, Failure> {
        let programs = compiled.object.programs.iter().zip(&compiled.triggers).enumerate();
        let of_controller = programs.filter(|(index, (_, trigger))| !trigger.is_probe() && runs(*index));
        let called: Result<_, KernelError> =
            of_controller.map(|(index, (program, _))| Ok((index, Called::load(program, maps)?))).collect();
        Ok(InKernelCaller(called?))
    }
}

impl Caller for InKernelCaller {
    fn call(&self, program: usize) -> Result<(), Failure> {
        Ok(self.0[&program].call()?)
    }
}
