//! What a script means for one process: its programs, and the places where they run.
//!
//! In: a script, and the files of a process ([`Binaries`]). Out: a [`Plan`]. Processes of one run that map the same files
//! share one; those that have others (another version of a library, another root) get their own, which must lay the
//! run's maps and records out in the same way, or the process is refused.

use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use anyhow::anyhow;
use weir_codegen::{Compiled, Part};
use weir_ebpf::insn::pseudo;
use weir_ebpf::{Insn, ProgramKind, helper};
use weir_ir::sides::{Conflict, Side, Sides};
use weir_ir::{MissingProbes, Module, SiteSpec};
use weir_kernel::Features;
use weir_policy::policy::{Callee, first_call};
use weir_rt::local;
use weir_source::{Diagnostic, SourceFile};
use weir_symbols::maps::Mapping;
use weir_symbols::{Binary, FileIdentity};
use weir_verifier::VerifiedProgram;

use crate::decider::{self, Decider};
use crate::event::text::Text;
use crate::failure::Failure;
use crate::filtered::{self, Filtered};
use crate::options::Options;
use crate::probe_filter::ProbeFilter;
use crate::recording::Recording;
use crate::stages::{self, Site};
use weir_world::{Binaries, Later, binaries};

/// Bytes of all rings together of a script that prints, unless there are many CPUs: with two, 50 ms of five million lines a second. Memory is
/// taken as it is written.
const PRINTED_RINGS_BYTES: u32 = 32 << 20;

/// A script, and how it is to be compiled.
pub(crate) struct Given {
    pub(crate) options: Options,
    pub(crate) source: SourceFile,
    pub(crate) parameters: Vec<String>,
    /// What events must be for clauses to run.
    pub(crate) filter: Option<Text>,
    /// Which of the probes run.
    pub(crate) probes: ProbeFilter,
    /// What says so besides.
    pub(crate) decider: Option<Decider>,
    /// What clauses do instead of what the script says.
    pub(crate) recording: Option<Recording>,
    /// It runs in the kernel, which has this.
    pub(crate) kernel: Option<Features>,
    /// Its clauses at events of the kernel run there, and the others in processes.
    pub(crate) is_split: bool,
    /// Of the others those that run in the kernel at some of their places or at all, by number.
    pub(crate) stands_in: BTreeMap<usize, Side>,
    /// Why the kernel does not stand in at places that cannot be patched.
    pub(crate) obstacle: Option<String>,
    /// What was found of libraries that processes load later.
    pub(crate) later: Later,
}

impl Given {
    /// The session that this is a recording of.
    pub(super) fn session_name(&self) -> Option<&str> {
        self.recording.as_ref().and_then(|recording| recording.options.session.as_deref())
    }

    /// A recording of a program ends when no process executes it any more: nothing of it is left in rings then.
    pub(crate) fn lingers(&self) -> bool {
        self.recording.as_ref().is_none_or(|recording| !recording.keeps_rings())
    }

    /// The files of a process, or of this machine.
    pub(crate) fn world(&self, pid: Option<i32>) -> Result<Binaries, Failure> {
        Ok(self.with_given(binaries(pid)?))
    }

    /// The same, with what was found out for other processes, and where headers are.
    pub(crate) fn with_given(&self, world: Binaries) -> Binaries {
        world.with(&self.later).with_headers(self.options.header_folders.clone())
    }

    pub(crate) fn module(
        &self,
        world: &Binaries,
        warn: &mut dyn FnMut(&SourceFile, &[Diagnostic]),
    ) -> Result<Module, Failure> {
        let mut of_script = |warnings: &[Diagnostic]| warn(&self.source, warnings);
        let options = weir_script::Options {
            params: self.parameters.clone(),
            headers: self.options.headers.clone(),
            settings: self.options.settings.clone(),
            named: self.options.named.clone(),
            allows_unsafe: self.options.allows_unsafe,
            has_truths: self.options.has_truths,
            has_command: self.options.command.is_some(),
            kernel: match self.kernel {
                _ if self.options.checks_alone => weir_script::Kernel::Checked,
                Some(_) => weir_script::Kernel::Runs,
                None if self.is_split => weir_script::Kernel::Runs,
                None => weir_script::Kernel::Refused,
            },
            ..weir_script::Options::default()
        };
        let mut module = stages::front(&self.source, &options, world, &mut of_script)?;
        self.probes.apply(&mut module)?;
        let mut gates = Vec::new();
        if let Some(recording) = &self.recording {
            gates = recording.put(&mut module, world, &mut |warning| warn(&self.source, &[warning]))?;
            if gates.iter().any(|gate| gate.filter.is_some()) {
                let filters: Vec<Filtered<'_>> =
                    gates.iter().map(|gate| (gate.filter.as_ref(), &gate.fetched[..])).collect();
                filtered::put_each(&mut module, &filters, world, &mut |text, warnings| {
                    warn(&text.source, warnings);
                })?;
            }
        }
        if let Some(decider) = &self.decider {
            decider::put(&mut module, decider)?;
        }
        if let Some(filter) = &self.filter {
            let of_clause = |number: usize| gates.get(number).map_or(&[][..], |gate| &gate.fetched);
            let clauses = 0..module.functions.len();
            let filters: Vec<Filtered<'_>> =
                clauses.map(|number| (Some(filter), of_clause(number))).collect();
            filtered::put_each(&mut module, &filters, world, &mut |text, warnings| {
                warn(&text.source, warnings);
            })?;
        }
        if self.options.fuses {
            let keeps = |spec: &SiteSpec| match self.kernel {
                Some(features) => features.session.is_some(),
                None => stages::keeps(spec, world),
            };
            weir_ir::pass::fuse(&mut module, &keeps, &weir_kernel::keeps_calls_of);
        }
        Ok(module)
    }

    pub(crate) fn back(&self, module: &Module) -> Result<(Compiled, Vec<VerifiedProgram>), Failure> {
        // Where each hit traps it costs nothing, and shows which clauses never ran.
        let of_process =
            |function: &weir_ir::Function| function.trigger.is_probe() && !function.trigger.is_kernel();
        let is_cheap = self.kernel.is_some() && module.functions.iter().any(of_process);
        let counts_hits = is_cheap || self.options.counts_hits;
        let record = self.recording.as_ref().map(|recording| &recording.options);
        let ring_bytes = record.map(|record| record.ring_bytes);
        let ring_bytes = ring_bytes.unwrap_or_else(|| printed_ring_bytes(local::possible_cpus()));
        let overwrites = record.is_some_and(|record| record.snapshots.is_some());
        let blocking = record.and_then(|record| record.blocking);
        let waits_ms = blocking.map(|time| (time.as_millis() as u32).max(1));
        // Maps and rings of weir's own count what they have no room for.
        let is_for_kernel = self.kernel.is_some();
        let options = weir_codegen::Options { counts_hits, is_for_kernel, ring_bytes, overwrites, waits_ms };
        let callee = self.decider.as_ref().map(Decider::callee);
        let sides = self.sides(module)?;
        let runs = |program: usize| sides.as_ref().is_none_or(|sides| sides.in_processes[program]);
        let shares = |map: usize| sides.as_ref().is_some_and(|sides| sides.maps[map] == Side::Shared);
        let part = Part { runs: &runs, shares: &shares, stack_bytes: 0 };
        let (mut compiled, verified) = stages::back(module, &options, callee.as_ref(), &part, &self.source)?;
        // Behind those of the script: what records name stays where it is.
        if self.filter.is_some() || self.recording.is_some() {
            compiled.schema.maps.retain(|map| !filtered::is_of_filter(map));
        }
        compiled.schema.maps.extend(
            self.decider.as_ref().map_or_else(Vec::new, |decider| decider.schema(compiled.callee_maps)),
        );
        Ok((compiled, verified))
    }

    /// Which clauses are the kernel's, where it has both kinds.
    fn sides(&self, module: &Module) -> Result<Option<Sides>, Failure> {
        let sides =
            self.is_split.then(|| Sides::of(module, &self.stands_in, &weir_kernel::shares_maps)).transpose();
        // It had sides before, whatever process it is compiled for.
        sides.map_err(|Conflict { map }| Failure::Bug(anyhow!("{map} is needed on both sides")))
    }

    /// What of the script runs in the kernel, where the rest does not: as `compiled`, with the same numbers.
    pub(crate) fn half(&self, module: &Module, compiled: &Compiled) -> Result<Option<Half>, Failure> {
        let Some(sides) = self.sides(module)? else { return Ok(None) };
        let ring_bytes = printed_ring_bytes(local::possible_cpus());
        let counts_hits = self.options.counts_hits;
        let is_for_kernel = true;
        let options = weir_codegen::Options { counts_hits, is_for_kernel, ring_bytes, ..Default::default() };
        let stack_bytes = if sides.maps.contains(&Side::Shared) { weir_kernel::STACK_BYTES } else { 0 };
        let (runs, shares) =
            (|program| sides.in_kernel[program], |map: usize| sides.maps[map] == Side::Shared);
        let part = Part { runs: &runs, shares: &shares, stack_bytes };
        let half = weir_codegen::compile_part(module, &options, None, &part);
        let half = half.map_err(|error| Failure::Refused(anyhow!(error)))?;
        let internal = |of: &Compiled| (of.ring, of.globals, of.hits, of.stacks.clone());
        if half.schema != compiled.schema || internal(&half) != internal(compiled) {
            return Err(Failure::Bug(anyhow!("the halves of the script have other maps")));
        }
        Ok(Some(Half { compiled: half, sides }))
    }

    /// What the script means for another process of a run than the one that it was compiled for `first`.
    pub(crate) fn for_another(&self, world: &Binaries, first: &Plan) -> Result<Plan, Failure> {
        // What it warns of was told for the first.
        let module = self.module(world, &mut |_, _| ())?;
        let (compiled, verified) = self.back(&module)?;
        if !has_same_layout(&compiled, &first.compiled) {
            return Err(Failure::Refused(anyhow!(
                "the script means other maps, records or probes there than in the first process of the run: give it \
                 a run of its own"
            )));
        }
        let missing = module.missing_probes;
        let sites = stages::sites(&compiled, missing, world).map_err(Failure::Refused)?;
        Ok(Plan::new(compiled, verified, sites, missing))
    }
}

/// What of a script runs in the kernel, where the rest does not.
pub(crate) struct Half {
    /// With programs that do nothing in the place of the others.
    pub(crate) compiled: Compiled,
    pub(crate) sides: Sides,
}

/// What a script means for one process, or for several.
pub(crate) struct Plan {
    pub(crate) compiled: Compiled,
    pub(crate) verified: Vec<VerifiedProgram>,
    pub(crate) sites: Vec<Site>,
    /// Places that the kernel probes, and nothing is patched at.
    pub(crate) stand_ins: Vec<Site>,
    pub(crate) missing: MissingProbes,
}

impl Plan {
    /// Nothing stands in at places that cannot be patched.
    pub(crate) fn new(
        compiled: Compiled,
        verified: Vec<VerifiedProgram>,
        sites: Vec<Site>,
        missing: MissingProbes,
    ) -> Plan {
        Plan { compiled, verified, sites, stand_ins: Vec::new(), missing }
    }

    /// Those of [`Plan::binaries`] that are files.
    pub(crate) fn file_identities(&self) -> Vec<FileIdentity> {
        self.binaries().into_iter().filter_map(Binary::identity).collect()
    }

    /// The files that are probed, each once.
    pub(crate) fn binaries(&self) -> Vec<&Binary> {
        let mut binaries: Vec<&Rc<Binary>> = Vec::new();
        for site in self.sites.iter().chain(&self.stand_ins) {
            if !binaries.iter().any(|binary| Rc::ptr_eq(binary, &site.binary)) {
                binaries.push(&site.binary);
            }
        }
        binaries.into_iter().map(|binary| &**binary).collect()
    }

    /// One of these is a file in which the kernel stands in.
    pub(crate) fn stands_in_among(&self, mappings: &[Mapping]) -> bool {
        let identities = self.stand_ins.iter().filter_map(|site| site.binary.identity());
        identities.into_iter().any(|identity| mappings.iter().any(|mapping| mapping.is_file(identity)))
    }

    /// What runs in a process may write records to the ring.
    pub(crate) fn writes_records(&self) -> bool {
        let ring = self.compiled.ring as i32;
        let names_ring = |insn: &Insn| insn.is_wide() && insn.src == pseudo::MAP_INDEX && insn.imm == ring;
        let mut in_process = self.verified.iter().filter(|program| program.kind() != ProgramKind::Controller);
        in_process.any(|program| program.insns().iter().any(names_ring))
    }

    /// What runs in a process asks for its control group.
    pub(crate) fn asks_for_group(&self) -> bool {
        let mut in_process = self.verified.iter().filter(|program| program.kind().is_probe());
        in_process.any(|program| {
            first_call(program, |callee| callee == Callee::Helper(helper::GET_CURRENT_CGROUP_ID)).is_some()
        })
    }

    /// What runs in a process asks who it is.
    pub(crate) fn asks_for_thread(&self) -> bool {
        let mut in_process = self.verified.iter().filter(|program| program.kind().is_probe());
        in_process.any(|program| {
            first_call(program, |callee| callee == Callee::Helper(helper::GET_CURRENT_PID_TGID)).is_some()
        })
    }

    /// It holds for a process of weir's own root too, since that maps the same files.
    pub(crate) fn is_for(&self, world: &Binaries) -> bool {
        world.is_of_own_root()
            && self.sites.iter().chain(&self.stand_ins).all(|site| world.maps_file(&site.binary))
    }
}

/// Bytes of each ring of a script that prints. As a rule few CPUs write so many lines at once.
fn printed_ring_bytes(cpus: u32) -> u32 {
    (PRINTED_RINGS_BYTES / cpus.next_power_of_two()).max(weir_codegen::Options::default().ring_bytes)
}

/// Programs of both can use one set of maps, and their records can be read from one ring.
fn has_same_layout(a: &Compiled, b: &Compiled) -> bool {
    let kinds = |of: &Compiled| of.triggers.iter().map(mem::discriminant).collect::<Vec<_>>();
    a.object.maps == b.object.maps
        && a.schema == b.schema
        && (a.ring, a.globals, a.hits) == (b.ring, b.globals, b.hits)
        && kinds(a) == kinds(b)
}
