//! The C as machine code of clang, called through a pointer.

use std::hint::black_box;

use anyhow::{Context, Result};

use crate::program::Program;
use crate::sides::Side;

/// A program as machine code, with memory of its own.
#[derive(Debug)]
pub struct NativeCode {
    function: extern "C" fn(*mut u8) -> u64,
    memory: Vec<u64>,
}

impl NativeCode {
    pub fn of(program: &Program) -> Result<NativeCode> {
        let function = program.native.function().context("needs maps")?;
        Ok(NativeCode { function, memory: words(&program.native.memory) })
    }
}

impl Side for NativeCode {
    fn run(&mut self, times: u32) -> Result<u32> {
        let memory = self.memory.as_mut_ptr().cast();
        let mut answer = 0;
        for _ in 0..times {
            answer = black_box(self.function)(memory);
        }
        Ok(answer as u32)
    }
}

/// The bytes, aligned as a map's value is.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}
