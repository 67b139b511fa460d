//! `weir bpf run`: one program, verified, on maps of its own, in this process.
//!
//! The context is a probe's: r1 points to a `pt_regs` of zeros. Deliberately not done: memory of the user's choice as
//! context (the verifier knows no such kind of program), and running what the verifier refuses.

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow};
use weir_ebpf::elf::ObjectFile;
use weir_ebpf::map::flag;
use weir_interp::Environment;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_rt::{LanePolicy, SiteAbi, TidSource, runtime};
use weir_verifier::VerifiedProgram;

use crate::args::bpf::{Run, Vm};
use crate::bpf::{input, verify_one};
use crate::failure::Failure;
use crate::session;

pub(super) fn run(args: &Run, btf: Option<&Path>) -> Result<ExitCode, Failure> {
    if args.mem_hex.is_some() {
        return Err(refused(
            "--mem-hex is not in this version: programs run with the context of a probe, a pt_regs",
        ));
    }
    if args.engine == Vm::Kernel {
        return Err(refused("--engine kernel is not in this version; use interp or jit"));
    }
    let file = match (&args.program_hex, &args.file) {
        (Some(digits), _) => input::hex(digits)?,
        (None, Some(path)) => input::file(path, btf)?,
        // SANITY: clap requires one of them.
        (None, None) => unreachable!("clap requires a file or --program-hex"),
    };
    let verified = verify_one(&file, choose(&file, args.program.as_deref())?)?;
    if !verified.kind().is_probe() {
        let (name, kind) = (verified.name(), verified.kind().name());
        return Err(refused(&format!("{name}: running programs of kind {kind} is not in this version")));
    }
    let segment = segment(&file, verified.needs_lane())?;
    runtime::print_to(print);
    let mut once = engine(args.engine, &verified, &segment)?;
    let r0 = once()?;
    println!("{r0:#x}");
    if let Some(count) = args.repeat {
        // The first run above is not timed: it warms caches, and is the one whose answer is printed.
        let start = Instant::now();
        for _ in 0..count {
            black_box(once()?);
        }
        println!("{:.1} ns per run", start.elapsed().as_nanos() as f64 / count as f64);
    }
    Ok(ExitCode::SUCCESS)
}

/// What the program prints with `trace_printk`: a line on standard error, without what could move a terminal's cursor.
fn print(text: &str) {
    eprintln!("{}", text.trim_end_matches('\n').replace(|char: char| char.is_control() && char != '\n', " "));
}

/// The program of that name; the only one if no name is given.
fn choose(file: &ObjectFile, name: Option<&str>) -> Result<usize, Failure> {
    let programs = &file.object.programs;
    let names = || programs.iter().map(|program| program.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, programs.len()) {
        (_, 0) => Err(refused("the file has no programs")),
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
    let layout = plan(&file.object.maps, session::possible_cpus(), 0);
    let layout = layout.map_err(|error| Failure::Refused(anyhow!(error)))?;
    let segment = Segment::create_local(layout, &Identity::default()).context("creating the maps' segment");
    let segment = segment.map_err(Failure::Machine)?;
    for (index, origin) in file.maps.iter().enumerate() {
        if let Some(initial) = &origin.initial {
            let updated = segment.map(index).update(&0u32.to_le_bytes(), initial, 0);
            updated.map_err(|error| Failure::Bug(anyhow!("contents of map {index}: {error}")))?;
        }
        if file.object.maps[index].has(flag::RDONLY_PROG) {
            // As libbpf does with `.rodata`: nobody changes it any more.
            let frozen = segment.user_map(index).freeze();
            frozen.map_err(|error| Failure::Bug(anyhow!("freezing map {index}: {error}")))?;
        }
    }
    Ok(segment)
}

/// One run of the program, to be called as often as needed; maps keep what earlier runs wrote.
fn engine<'a>(
    engine: Vm,
    verified: &'a VerifiedProgram,
    segment: &'a Segment,
) -> Result<Box<dyn FnMut() -> Result<u64, Failure> + 'a>, Failure> {
    if engine != Vm::Jit {
        return Ok(Box::new(move || {
            let mut frame = Frame::default();
            let result = weir_interp::run(verified, &Environment { segment }, &mut frame);
            result.map_err(|fault| Failure::Refused(anyhow!("{}: {fault}", verified.name())))
        }));
    }
    let shared = LanePolicy::Shared;
    let abi = SiteAbi {
        pid: std::process::id(),
        tid: TidSource::Syscall,
        lanes: if verified.needs_lane() { shared.claimed() } else { shared },
        cpus: session::possible_cpus(),
        bmi2: std::arch::is_x86_feature_detected!("bmi2"),
    };
    let executable = weir_jit::compile(verified, &abi);
    let executable = executable.map_err(|error| refused(&format!("{}: {error}", verified.name())))?;
    let program = LocalProgram::load(&executable, segment).context("loading machine code");
    let program = program.map_err(Failure::Machine)?;
    Ok(Box::new(move || Ok(program.run(&mut Frame::default()))))
}

fn refused(message: &str) -> Failure {
    Failure::Refused(anyhow!("{message}"))
}
