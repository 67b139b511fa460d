//! weir's JIT and interpreter, in this process.

use anyhow::{Context, Result, anyhow};
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_rt::Context as ProgramContext;
use weir_rt::local::{LocalProgram, possible_cpus};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_rt::{LanePolicy, SiteAbi, TidSource};
use weir_verifier::{Limits, VerifiedProgram};

use crate::program::Program;
use crate::sides::{Side, fill};

/// A program as weir's machine code.
#[derive(Debug)]
pub struct Jit {
    local: LocalProgram,
    /// The maps that the code refers to.
    _segment: Segment,
}

impl Jit {
    pub fn of(program: &Program) -> Result<Jit> {
        let verified = verified(program)?;
        let abi = site(&verified)?;
        let executable = weir_jit::compile(&verified, &abi)?;
        let segment = segment(program, &abi)?;
        let local = LocalProgram::load(&executable, &segment).context("linking")?;
        Ok(Jit { local, _segment: segment })
    }

    /// The text of the code.
    pub fn disassembly(program: &Program) -> Result<String> {
        let verified = verified(program)?;
        let executable = weir_jit::compile(&verified, &site(&verified)?)?;
        Ok(weir_jit::disassemble(&executable, &program.object.object))
    }
}

impl Side for Jit {
    fn run(&mut self, times: u32) -> Result<u32> {
        let mut context = packet();
        let mut answer = 0;
        for _ in 0..times {
            answer = self.local.run(&mut context);
        }
        Ok(answer as u32)
    }
}

/// A program in weir's interpreter for verified programs, or, if that does not take it, in the other one.
#[derive(Debug)]
pub struct Interpreter {
    program: VerifiedProgram,
    segment: Segment,
}

impl Interpreter {
    pub fn of(program: &Program) -> Result<Interpreter> {
        let verified = verified(program)?;
        let segment = segment(program, &site(&verified)?)?;
        Ok(Interpreter { program: verified, segment })
    }
}

impl Side for Interpreter {
    fn run(&mut self, times: u32) -> Result<u32> {
        // Decoding is part of a batch: some microseconds of its milliseconds.
        let Some(threaded) = Threaded::of(&self.program, &self.segment) else {
            return checked(&self.program, &self.segment, times);
        };
        let mut context = packet();
        let mut answer = 0;
        for _ in 0..times {
            answer = threaded.run(&mut context);
        }
        Ok(answer as u32)
    }
}

/// A program in weir's interpreter that checks every access: the tests' reference.
#[derive(Debug)]
pub struct Checked(Interpreter);

impl Checked {
    pub fn of(program: &Program) -> Result<Checked> {
        Ok(Checked(Interpreter::of(program)?))
    }
}

impl Side for Checked {
    fn run(&mut self, times: u32) -> Result<u32> {
        checked(&self.0.program, &self.0.segment, times)
    }
}

fn checked(program: &VerifiedProgram, segment: &Segment, times: u32) -> Result<u32> {
    let environment = Environment { segment };
    let mut context = packet();
    let mut answer = 0;
    for _ in 0..times {
        answer = weir_interp::run(program, &environment, &mut context)?;
    }
    Ok(answer as u32)
}

/// What a socket filter is run on, as in the kernel: a packet that none of the programs looks at.
fn packet() -> ProgramContext {
    ProgramContext::socket(&[0; 14], &[0; 50])
}

unsafe extern "C" {
    /// Offset of this thread's `struct rseq` from the thread pointer (glibc 2.35).
    static __rseq_offset: isize;
}

/// The word before each abort handler (glibc's RSEQ_SIG for x86).
const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// This process, as a target would be: a CPU's own values in restartable sections, or on a lane that each run claims
/// if the program needs one.
pub fn site(program: &VerifiedProgram) -> Result<SiteAbi> {
    // SAFETY: glibc writes this variable before main and never again.
    let offset = i32::try_from(unsafe { __rseq_offset }).context("rseq is far from the thread pointer")?;
    let lanes = LanePolicy::Rseq { offset, signature: RSEQ_SIGNATURE };
    Ok(SiteAbi {
        pid: std::process::id(),
        tid: TidSource::Syscall,
        lanes: if program.needs_lane() { lanes.claimed() } else { lanes },
        cpus: possible_cpus(),
        bmi2: std::arch::is_x86_feature_detected!("bmi2"),
        reads_ticks: true,
    })
}

/// The program, as the verifier proves it.
pub fn verified(program: &Program) -> Result<VerifiedProgram> {
    let object = &program.object.object;
    weir_verifier::verify(&object.programs[0], &object.maps, &Limits::default())
        .map_err(|rejection| anyhow!("{}: {rejection}", program.name))
}

fn segment(program: &Program, abi: &SiteAbi) -> Result<Segment> {
    let maps = &program.object.object.maps;
    let layout = match abi.lanes {
        LanePolicy::Claimed { .. } => SegmentLayout::plan_claimable(maps, abi.cpus)?,
        _ => SegmentLayout::plan(maps, abi.cpus)?,
    };
    let segment = Segment::create_local(layout, &Identity::default())?;
    fill(program, &mut |map, key, value| {
        segment.map(map).update(key, value, 0).map_err(|error| anyhow!("map {map}: errno {}", error.errno()))
    })?;
    Ok(segment)
}
