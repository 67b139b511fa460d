//! How long it takes to verify and to compile a program.
//!
//! A sample is the CPU time of both, for 1,000 instruction slots.

use anyhow::Result;

use crate::measure::cpu_time;
use crate::program::Program;
use crate::sides::{site, verified};

/// Milliseconds for 1,000 instructions, to verify and to compile.
pub fn sample(program: &Program) -> Result<(f64, f64)> {
    let thousands = program.object.object.programs[0].insns.len() as f64 / 1e3;
    let mut proven = None;
    let to_verify = cpu_time(|| {
        proven = Some(verified(program)?);
        Ok(())
    })?;
    let Some(proven) = proven else { return Ok((0.0, 0.0)) };
    let site = site(&proven)?;
    let to_compile = cpu_time(|| {
        weir_jit::compile(&proven, &site)?;
        Ok(())
    })?;
    let each = |took: std::time::Duration| took.as_secs_f64() * 1e3 / thousands;
    Ok((each(to_verify), each(to_compile)))
}
