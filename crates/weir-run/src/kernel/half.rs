//! The half of a script that runs in the kernel while the other runs in the processes: its programs, its maps and its ring.
//!
//! In: the script's clauses at events of the kernel's, and on which side each of its maps is ([`Sides`]). Out: what a [`Caller`] and the rounds of a
//! run need of them, and the maps for [`both`](mod@crate::both). All numbers (of programs, maps, records) are the same on both sides.

use std::rc::Rc;
use std::thread;

use weir_codegen::Compiled;
use weir_ir::sides::{Side, Sides};
use weir_kernel::{Features, Link, Ring};
use weir_probe::target;
use weir_rt::segment::Segment;

use crate::both::KernelMaps;
use crate::clock::now_ns;
use crate::controller::Caller;
use crate::failure::Failure;
use crate::in_kernel::InKernel;
use crate::kernel::engine::{AtEvents, InKernelCaller, Numbered, load, read_some};
use crate::kernel::places::Places;
use crate::kernel::{check_alone, let_go};
use crate::notice::note;
use crate::output::Output;
use crate::plan::{Half, Plan};
use crate::shared::Shared;
use crate::stages::Site;
use crate::store::Store;
use crate::summary::Coverage;

/// So many threads take programs out of processes at a time.
const PROCESSES_AT_ONCE: usize = 64;

/// What of a script is the kernel's, loaded. Dropped, nothing is left in the kernel.
pub(crate) struct InKernelHalf {
    compiled: Compiled,
    in_kernel: Vec<bool>,
    events: AtEvents,
    ring: Ring,
    caller: InKernelCaller,
    maps: Rc<InKernel>,
    stand_ins: StandIns,
}

/// Probes at places that cannot be patched.
#[derive(Default)]
struct StandIns {
    probes: Vec<Numbered>,
    /// Of each process.
    links: Vec<Vec<Link>>,
    coverage: Coverage,
}

impl InKernelHalf {
    /// `segment`: the maps of the other side. `command`: the process that the run starts.
    pub(crate) fn load(
        half: Half,
        segment: &Segment,
        command: Option<i32>,
    ) -> Result<(InKernelHalf, KernelMaps), Failure> {
        let Half { mut compiled, sides: Sides { in_kernel, maps: sides, .. } } = half;
        // The kernel takes the memory of all entries at once, and nobody asks these for any.
        let is_elsewhere = |side: &Side| matches!(side, Side::Processes | Side::Shared);
        let elsewhere = compiled.object.maps.iter_mut().zip(&sides).filter(|(_, side)| is_elsewhere(side));
        elsewhere.for_each(|(map, _)| map.max_entries = 1);
        let mut maps = InKernel::create(&compiled)?;
        maps.share(segment)?;
        let maps = Rc::new(maps);
        let caller = InKernelCaller::load(&compiled, &maps.maps, &|program| in_kernel[program])?;
        maps.start_clock(&compiled, command)?;
        let ring = Ring::open(&maps.maps, compiled.ring as usize)?;
        let kernel_maps = KernelMaps { maps: maps.clone(), sides: sides.into(), hits: compiled.hits };
        let events = AtEvents::default();
        let stand_ins = StandIns::default();
        Ok((InKernelHalf { compiled, in_kernel, events, ring, caller, maps, stand_ins }, kernel_maps))
    }

    /// Probes the places of a process that cannot be patched. `plan`: what the script means there.
    pub(crate) fn stand_in(&mut self, shared: &Shared, pid: i32, plan: &Plan) -> Result<(), Failure> {
        if plan.stand_ins.is_empty() {
            return Ok(());
        }
        if let Err(failure) = check_alone(pid) {
            if plan.sites.is_empty() {
                return Err(failure);
            }
            let count = plan.stand_ins.len();
            let plural = if count == 1 { "place" } else { "places" };
            note!(
                shared.notices,
                Probes,
                "{failure}; {count} {plural} of it at which the kernel would stand in stay unprobed"
            );
            return Ok(());
        }
        let StandIns { probes, links, coverage } = &mut self.stand_ins;
        if probes.is_empty() {
            let runs = |program: usize| self.in_kernel[program];
            *probes = load(&self.compiled, &self.maps.maps, Features::of_kernel(), &runs)?;
        }
        let places = Places::of(plan, pid, &target::read_mappings(pid)?);
        let sites: Vec<&Site> = plan.stand_ins.iter().collect();
        let (new, of_process) = shared.linked(probes, &sites, &places, Some(pid))?;
        links.push(new);
        coverage.add(&of_process);
        Ok(())
    }

    /// Of those places.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.stand_ins.coverage
    }

    /// Attaches all programs. What is watched is the memory of these processes, if there are any.
    pub(crate) fn attach(&mut self, shared: &Shared, processes: &[i32]) -> Result<(), Failure> {
        let (missing, notices) = (shared.plan.missing, &shared.notices);
        self.events = AtEvents::attach(&self.compiled, &self.maps.maps, processes, missing, notices)?;
        Ok(())
    }

    /// Who runs a program that is at no place, where the kernel does.
    pub(crate) fn caller(&self, program: usize) -> Option<&dyn Caller> {
        self.in_kernel[program].then_some(&self.caller)
    }

    /// Has programs run for what is listed, and reads what they write.
    pub(crate) fn read_lists(&mut self, segment: &dyn Store, output: &mut Output) -> Result<(), Failure> {
        while self.events.has_more() {
            self.events.step()?;
            self.read(segment, output)?;
        }
        Ok(())
    }

    /// Reads what is there, but not for ever; whether that was all. `segment`: the maps of the other side.
    pub(crate) fn read(&mut self, segment: &dyn Store, output: &mut Output) -> Result<bool, Failure> {
        let began = now_ns();
        let is_all = read_some(&mut self.ring, |record| output.record_of(Side::Kernel, segment, record))?;
        if is_all {
            self.maps.check()?;
            output.drained_in_kernel(&*self.maps, began);
        }
        Ok(is_all)
    }

    /// Takes the programs off their events.
    pub(crate) fn let_go(&mut self) {
        // The kernel waits for a while at each, and the last would count for longer than the first.
        for some in self.stand_ins.links.chunks_mut(PROCESSES_AT_ONCE) {
            thread::scope(|scope| some.iter_mut().for_each(|links| _ = scope.spawn(|| let_go(links))));
        }
        self.events.let_go();
    }

    /// Reads all. No program writes any more.
    pub(crate) fn read_rest(&mut self, segment: &dyn Store, output: &mut Output) -> Result<(), Failure> {
        while !self.read(segment, output)? {}
        Ok(())
    }

    /// What is left out of the report, with its count.
    pub(crate) fn losses(&self, output: &Output) -> Vec<(u64, String)> {
        let of_maps = output.losses_of(&*self.maps).into_iter();
        let in_kernel = |(count, what): (u64, &str)| (count, format!("{what} (in the kernel)"));
        let missed = "hits came while another program ran on their CPU, and were missed";
        let of_stand_ins: u64 = self.stand_ins.probes.iter().map(|(_, probe)| probe.missed()).sum();
        of_maps.chain([(self.events.missed() + of_stand_ins, missed)]).map(in_kernel).collect()
    }
}
