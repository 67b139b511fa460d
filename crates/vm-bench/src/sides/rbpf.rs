//! rbpf: its JIT, which checks no access, and its interpreter, which checks each.
//!
//! Bytecode is that of `-mcpu=v3`, memory is lent in r1.

use anyhow::{Context, Result};
use rbpf::EbpfVmRaw;

use crate::program::Program;
use crate::sides::Side;
use crate::sides::native::words;

/// Which of its two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    Jit,
    Interpreter,
}

/// A program in rbpf, with memory of its own.
pub(super) struct Rbpf {
    engine: Engine,
    machine: EbpfVmRaw<'static>,
    memory: Vec<u64>,
    memory_bytes: usize,
}

impl Rbpf {
    pub(super) fn of(program: &Program, engine: Engine) -> Result<Rbpf> {
        let raw = program.raw.as_ref().context("needs maps")?;
        // The machine borrows its program for longer than this function; a run of the bench has few of them.
        let mut machine = EbpfVmRaw::new(Some(raw.modern.clone().leak()))?;
        if engine == Engine::Jit {
            machine.jit_compile()?;
        }
        let memory = &program.native.memory;
        Ok(Rbpf { engine, machine, memory: words(memory), memory_bytes: memory.len() })
    }
}

impl Side for Rbpf {
    fn run(&mut self, times: u32) -> Result<u32> {
        let memory: *mut u8 = self.memory.as_mut_ptr().cast();
        let mut answer = 0;
        for _ in 0..times {
            // SAFETY: `memory` has that many bytes at least, and nobody else refers to them while the program runs.
            let lent = unsafe { std::slice::from_raw_parts_mut(memory, self.memory_bytes) };
            answer = match self.engine {
                // SAFETY: weir's verifier accepted the same C for the same memory, and its engines gave an answer.
                Engine::Jit => unsafe { self.machine.execute_program_jit(lent) },
                Engine::Interpreter => self.machine.execute_program(lent),
            }?;
        }
        Ok(answer as u32)
    }
}
