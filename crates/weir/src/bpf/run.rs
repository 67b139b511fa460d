//! `weir bpf run`: one program on maps of its own, verified and in this process, or in the kernel.
//!
//! What a program is given depends on its kind (see [`given`](super::given)): memory, a packet, the registers of a
//! probe. The results of programs of packets have 32 bits, as in the kernel.
//!
//! With `--unverified-checked` nothing is verified: the interpreter, which checks every access, runs whatever it is
//! given for a bounded number of instructions.

use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow};
use weir_ebpf::ProgramKind;
use weir_ebpf::elf::ObjectFile;
use weir_interp::threaded::Threaded;
use weir_interp::{Environment, Fault};
use weir_rt::local::{self, LocalProgram};
use weir_rt::runtime;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_run::object;
use weir_verifier::VerifiedProgram;

use crate::args::bpf::{Run, Vm};
use crate::bpf::given::Given;
use crate::bpf::kernel::InKernel;
use crate::bpf::{input, refused};
use crate::failure::Failure;
use crate::print::print;

/// Instructions that a program runs for which nobody verified (`--help` names it).
const UNVERIFIED_STEPS_MAX: u64 = 100_000_000;

pub(super) fn run(args: &Run, btf: Option<&Path>) -> Result<ExitCode, Failure> {
    runtime::print_to(show);
    let memory = args.mem_hex.as_deref().map(input::bytes).transpose()?;
    let file = match (&args.program_hex, &args.file) {
        (Some(digits), _) => input::hex(digits, memory.as_ref().map_or(0, Vec::len))?,
        (None, Some(path)) => object::read(path, btf)?,
        // SANITY: clap requires one of them.
        (None, None) => unreachable!("clap requires a file or --program-hex"),
    };
    let of_file = |failure: Failure| match &args.file {
        Some(path) => failure.of_file(path),
        None => failure,
    };
    let index = choose(&file, args.program.as_deref()).map_err(of_file)?;
    let kind = kind(&file, index).map_err(of_file)?;
    let memory = memory.as_deref();
    match (args.unverified_checked, args.engine) {
        (true, Some(Vm::Jit | Vm::Kernel)) => {
            Err(refused("--unverified-checked is of the interpreter alone"))
        }
        (true, None | Some(Vm::Interp)) => {
            let (segment, mut given) = (segment(&file, false)?, Given::of(kind, memory)?);
            repeat(args, kind, || unverified(&file, index, &segment, &mut given))
        }
        (false, Some(Vm::Kernel)) => in_kernel(args, &InKernel::load(&file, index, memory)?),
        (false, Some(Vm::Interp)) => {
            let programs = Programs::of(&file, index).map_err(of_file)?;
            let (segment, mut given) = (segment(&file, programs.need_lane())?, Given::of(kind, memory)?);
            let environment = Environment { segment: &segment };
            let (first, others) = (programs.first(), programs.others());
            if let Some(threaded) = Threaded::of(first, &segment).filter(|_| others.is_empty()) {
                return repeat(args, kind, || Ok(threaded.run(given.context())));
            }
            repeat(args, kind, || {
                let result = weir_interp::run_among(&others, first, &environment, given.context());
                result.map_err(|fault| faulted(first.name(), &fault))
            })
        }
        (false, None | Some(Vm::Jit)) => {
            let programs = Programs::of(&file, index).map_err(of_file)?;
            let (segment, mut given) = (segment(&file, programs.need_lane())?, Given::of(kind, memory)?);
            let program = programs.machine_code(&segment)?;
            repeat(args, kind, || Ok(program.run(given.context())))
        }
    }
}

/// The program to run, and where arrays of programs hold some, all of the file, by their numbers.
struct Programs {
    verified: Vec<VerifiedProgram>,
    first: usize,
    take_over: bool,
}

impl Programs {
    fn of(file: &ObjectFile, index: usize) -> Result<Programs, Failure> {
        if file.maps.iter().all(|origin| origin.programs.is_empty()) {
            return Ok(Programs {
                verified: vec![object::verify_one(file, index)?],
                first: 0,
                take_over: false,
            });
        }
        let all = (0..file.object.programs.len()).map(|program| object::verify_one(file, program));
        Ok(Programs { verified: all.collect::<Result<_, _>>()?, first: index, take_over: true })
    }

    fn first(&self) -> &VerifiedProgram {
        &self.verified[self.first]
    }

    fn others(&self) -> Vec<&VerifiedProgram> {
        self.verified.iter().filter(|_| self.take_over).collect()
    }

    fn need_lane(&self) -> bool {
        self.verified.iter().any(VerifiedProgram::needs_lane)
    }

    /// The program as machine code of this process.
    fn machine_code(&self, segment: &Segment) -> Result<LocalProgram, Failure> {
        let abi = local::site(segment.layout());
        let compile = |verified: &VerifiedProgram| {
            let executable = weir_jit::compile(verified, &abi);
            executable.map_err(|error| refused(&format!("{}: {error}", verified.name())))
        };
        let executables = self.verified.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let loaded = match self.take_over {
            true => LocalProgram::load_all(&executables, segment)
                .map(|mut programs| programs.swap_remove(self.first)),
            false => LocalProgram::load(&executables[0], segment),
        };
        loaded.context("loading machine code").map_err(Failure::Machine)
    }
}

/// Runs the program once and prints r0; then as often as asked for, and prints the time of one run. Maps and memory
/// keep what earlier runs wrote.
fn repeat(
    args: &Run,
    kind: ProgramKind,
    mut once: impl FnMut() -> Result<u64, Failure>,
) -> Result<ExitCode, Failure> {
    let r0 = once()?;
    // What the kernel takes of a packet's program.
    let r0 = if kind.is_packet() { r0 & 0xffff_ffff } else { r0 };
    print(&format!("{r0:#x}\n"))?;
    if let Some(count) = args.repeat {
        // The first run above is not timed: it warms caches, and is the one whose answer is printed.
        let start = Instant::now();
        for _ in 0..count {
            black_box(once()?);
        }
        print(&format!("{:.1} ns per run\n", start.elapsed().as_nanos() as f64 / count as f64))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the program prints with `trace_printk`: a line on standard error, without what could move a terminal's cursor.
fn show(text: &str) {
    let text = text.trim_end_matches('\n').replace(|char: char| char.is_control() && char != '\n', " ");
    // What cannot be written is lost, as in the kernel's trace_pipe.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The same in the kernel, which measures by itself.
fn in_kernel(args: &Run, program: &InKernel) -> Result<ExitCode, Failure> {
    let (r0, _) = program.run(1)?;
    print(&format!("{r0:#x}\n"))?;
    if let Some(count) = args.repeat {
        let count = u32::try_from(count);
        let count = count.map_err(|_| refused(&format!("the kernel repeats at most {} times", u32::MAX)))?;
        let (_, nanoseconds) = program.run(count)?;
        print(&format!("{:.1} ns per run\n", f64::from(nanoseconds)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the program is run for. Memory of programs as digits is theirs already.
fn kind(file: &ObjectFile, index: usize) -> Result<ProgramKind, Failure> {
    object::check_section(file, index)?;
    Ok(file.object.programs[index].kind)
}

/// The program of that name; the only one if no name is given.
fn choose(file: &ObjectFile, name: Option<&str>) -> Result<usize, Failure> {
    let programs = &file.object.programs;
    let names = || programs.iter().map(|program| program.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, programs.len()) {
        (_, 0) => Err(refused("it has no programs")),
        (None, 1) => Ok(0),
        (None, _) => Err(refused(&format!("several programs; choose with --program: {}", names()))),
        (Some(name), _) => {
            let found = programs.iter().position(|program| program.name == name);
            found.ok_or_else(|| refused(&format!("no program is named `{name}`; there are: {}", names())))
        }
    }
}

/// The maps, with the contents that the file gives them.
fn segment(file: &ObjectFile, needs_lane: bool) -> Result<Segment, Failure> {
    let plan = if needs_lane { SegmentLayout::plan_claimable } else { SegmentLayout::plan };
    let layout = plan(&file.object.maps, local::possible_cpus());
    let layout = layout.map_err(|error| Failure::Refused(anyhow!(error)))?;
    let segment = Segment::create_local(layout, &Identity::default()).context("creating the maps' segment");
    let segment = segment.map_err(Failure::Machine)?;
    let filled = segment.fill(&file.maps);
    filled.map_err(|(map, error)| refused(&format!("first contents of map {map}: {error}")))?;
    Ok(segment)
}

/// One run without verification, each access checked.
fn unverified(file: &ObjectFile, index: usize, segment: &Segment, given: &mut Given) -> Result<u64, Failure> {
    let (program, maps) = (&file.object.programs[index], &file.object.maps);
    let environment = Environment { segment };
    let result =
        weir_interp::run_unverified(program, maps, &environment, given.context(), UNVERIFIED_STEPS_MAX);
    result.map_err(|fault| faulted(&program.name, &fault))
}

fn faulted(name: &str, fault: &Fault) -> Failure {
    Failure::Refused(anyhow!("{name}: {fault}"))
}
