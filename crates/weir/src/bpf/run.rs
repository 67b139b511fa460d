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

use anyhow::anyhow;
use weir_bpf::{Engine, Object};
use weir_ebpf::ProgramKind;
use weir_ebpf::elf::ObjectFile;
use weir_rt::runtime;
use weir_run::object;

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
    let mut file = match (&args.program_hex, &args.file) {
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
    let mut kind = kind(&file, index).map_err(of_file)?;
    let memory = memory.as_deref();
    if kind == (ProgramKind::Memory { bytes: 0 }) {
        // As much as there is.
        kind = ProgramKind::Memory { bytes: memory.map_or(0, <[u8]>::len) as u32 };
        file.object.programs[index].kind = kind;
    }
    let engine = match (args.unverified_checked, args.engine) {
        (true, Some(Vm::Jit | Vm::Kernel)) => {
            return Err(refused("--unverified-checked is of the interpreter alone"));
        }
        (false, Some(Vm::Kernel)) if args.max_rounds.is_some() => {
            return Err(refused("--max-rounds is of weir's own engines: the kernel has no such limit"));
        }
        (false, Some(Vm::Kernel)) => return in_kernel(args, &InKernel::load(&file, index, memory)?),
        (true, None | Some(Vm::Interp)) => None,
        (false, Some(Vm::Interp)) => Some(Engine::Interpreter),
        (false, None | Some(Vm::Jit)) => Some(Engine::Jit),
    };
    let name = file.object.programs[index].name.clone();
    let object = Object::of_file(file).map_err(failure)?;
    let Some(engine) = engine else {
        let mut given = Given::of(kind, memory)?;
        return repeat(args, kind, || {
            object.run_unverified(&name, given.context(), UNVERIFIED_STEPS_MAX).map_err(failure)
        });
    };
    let program = match args.max_rounds {
        Some(rounds) => object.load_limited(&name, engine, 0, rounds),
        None => object.load(&name, engine),
    };
    let program = program.map_err(failure).map_err(of_file)?;
    let mut given = Given::of(kind, memory)?;
    repeat(args, kind, || program.run_in(given.context()).map_err(failure))
}

/// What weir-bpf refuses, and what the machine does not give it.
fn failure(error: weir_bpf::Error) -> Failure {
    match error {
        error @ (weir_bpf::Error::Loading(_) | weir_bpf::Error::Memory(_)) => {
            Failure::Machine(anyhow!(error))
        }
        error => Failure::Refused(anyhow!(error)),
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
