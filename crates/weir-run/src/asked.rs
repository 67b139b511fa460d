//! A script's tests and benchmarks (`test:NAME`, `bench:NAME`), run in weir itself as machine code.
//!
//! In: a [`Run`] of which nothing else is wanted than what runs in weir. Out: each test with what it printed and whether it failed: it returned or exited with
//! something else than 0, reported an error, or did not come to its end; each benchmark with the time of a run. BEGIN runs before, END behind; maps are not printed, as in
//! bpftrace.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use weir_ebpf::insn::{alu, class, jmp};
use weir_ebpf::{Insn, Program, ProgramKind};
use weir_ir::{Asked, Trigger};
use weir_report::{Format, Report};
use weir_rt::executable::Frame;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

use crate::clock::now_ns;
use crate::controller::{Controller, InWeir};
use crate::failure::Failure;
use crate::output::Output;
use crate::prepare::Run;
use crate::shared::Shared;
use crate::store::globals;

/// How often a benchmark is measured, beside a program that does nothing, and how long at least.
const ROUNDS: usize = 15;
const ROUND_TIME: Duration = Duration::from_millis(2);

/// What a test came to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tested {
    /// It did not fail.
    pub passed: bool,
    /// How long it ran.
    pub took: Duration,
    /// What it printed.
    pub output: Vec<u8>,
}

/// What a benchmark came to.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Benched {
    /// Of a run, less that of a program that does nothing: the median of several rounds.
    pub ns: f64,
    /// How often it ran.
    pub iterations: u64,
}

/// How long so many runs take.
fn time(program: &LocalProgram, runs: u64) -> Duration {
    let mut frame = Frame::default();
    let began = Instant::now();
    (0..runs).for_each(|_| _ = program.run(&mut frame));
    began.elapsed()
}

/// Tests or benchmarks that are ready to run.
pub struct Trial {
    shared: Rc<Shared>,
    maps: Segment,
    output: Output,
    printed: Printed,
    controller: Controller,
    /// With the numbers of their programs.
    names: Vec<(String, usize)>,
}

/// What was printed since it was asked last.
#[derive(Clone, Default)]
struct Printed(Rc<RefCell<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Run {
    /// Runs BEGIN, and makes those of the script that are `asked` for ready.
    pub fn trial(self, asked: Asked) -> Result<Trial, Failure> {
        let shared = self.shared;
        let (plan, printed) = (&shared.plan, Printed::default());
        let maps = shared.maps()?;
        let value = globals(now_ns(), None);
        let started = maps.map(plan.compiled.globals as usize).update(&0u32.to_le_bytes(), &value, 0);
        started.map_err(|error| Failure::Bug(anyhow!("{error}")))?;
        let report = Report::new(Box::new(printed.clone()) as Box<dyn Write>, Format::Text);
        let output = Output::new(plan.clone(), report, shared.notices.clone());
        let named = plan.compiled.triggers.iter().zip(&plan.compiled.object.programs).enumerate();
        let named = named.filter(|(_, (trigger, _))| **trigger == Trigger::Asked { by: asked });
        let name = |name: &str| name.split_once(':').map_or(name, |(_, name)| name).to_owned();
        let names = named.map(|(number, (_, program))| (name(&program.name), number)).collect();
        let controller = Controller::new(&plan.compiled);
        let mut trial = Trial { maps, output, printed, controller, names, shared };
        trial.controller.begin(&trial.in_weir())?;
        trial.read()?;
        Ok(trial)
    }
}

impl Trial {
    /// In the order of the script.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }

    /// Runs the test with that place in the list once.
    pub fn test(&mut self, index: usize) -> Result<Tested, Failure> {
        let program = self.load(index)?;
        let (errors, cut) = (self.output.errors(), self.output.cut().0);
        let began = Instant::now();
        program.run(&mut Frame::default());
        let took = began.elapsed();
        self.read()?;
        let code = self.output.take_exit().unwrap_or(0);
        let (now_cut, why) = self.output.cut();
        let passed = code == 0 && self.output.errors() == errors && now_cut == cut;
        let mut output = self.take_printed();
        if now_cut != cut {
            output.extend_from_slice(why.as_bytes());
        }
        Ok(Tested { passed, took, output })
    }

    /// Runs the benchmark with that place in the list for a while.
    pub fn bench(&mut self, index: usize) -> Result<Benched, Failure> {
        let (program, empty) = (self.load(index)?, self.empty()?);
        let mut batch = 1u64;
        while time(&program, batch) < ROUND_TIME {
            self.discard()?;
            batch *= 2;
        }
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let took = time(&program, batch).as_nanos() as f64;
            self.discard()?;
            rounds.push((took - time(&empty, batch).as_nanos() as f64) / batch as f64);
        }
        if let (1.., why) = self.output.cut() {
            return Err(Failure::Refused(anyhow!("bench:{}: {}", self.names[index].0, why.trim_end())));
        }
        rounds.sort_by(f64::total_cmp);
        Ok(Benched { ns: rounds[ROUNDS / 2].max(0.0), iterations: batch * ROUNDS as u64 })
    }

    /// What it printed so far is not wanted.
    fn discard(&mut self) -> Result<(), Failure> {
        self.read()?;
        self.output.take_exit();
        self.take_printed();
        Ok(())
    }

    /// Runs END: what it prints, behind what BEGIN has printed where nothing ran since.
    pub fn end(&mut self) -> Result<Vec<u8>, Failure> {
        self.controller.end(&self.in_weir())?;
        self.output.ends();
        self.read()?;
        Ok(self.take_printed())
    }

    fn in_weir(&self) -> InWeir<'_> {
        InWeir { verified: &self.shared.plan.verified, segment: &self.maps }
    }

    fn load(&self, index: usize) -> Result<LocalProgram, Failure> {
        self.compile(&self.shared.plan.verified[self.names[index].1])
    }

    /// A program that does nothing.
    fn empty(&self) -> Result<LocalProgram, Failure> {
        let zero = Insn { opcode: class::ALU64 | alu::MOV, ..Insn::default() };
        let exit = Insn { opcode: class::JMP | jmp::EXIT, ..Insn::default() };
        let program =
            Program { name: "empty".to_owned(), kind: ProgramKind::Controller, insns: vec![zero, exit] };
        let verified = weir_verifier::verify(&program, &[], &weir_verifier::Limits::default());
        self.compile(&verified.map_err(|error| Failure::Bug(anyhow!("{error}")))?)
    }

    fn compile(&self, verified: &VerifiedProgram) -> Result<LocalProgram, Failure> {
        let executable = weir_jit::compile(verified, &local::site(self.maps.layout()));
        let executable = executable.map_err(|error| Failure::Bug(anyhow!("{error}")))?;
        let loaded = LocalProgram::load(&executable, &self.maps);
        loaded.context("loading machine code").map_err(Failure::Machine)
    }

    /// Does what records ask for.
    fn read(&mut self) -> Result<(), Failure> {
        let mut done = Ok(());
        let (maps, output) = (&self.maps, &mut self.output);
        maps.ring(self.shared.plan.compiled.ring as usize).each(usize::MAX, |bytes, _| {
            if done.is_ok() {
                done = output.record(maps, bytes);
            }
        });
        self.maps.grow(None);
        done?;
        self.output.flush()
    }

    fn take_printed(&self) -> Vec<u8> {
        self.printed.0.take()
    }
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial").field("names", &self.names).finish_non_exhaustive()
    }
}
