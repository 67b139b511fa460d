//! Runs on maps in plain memory, on any machine.
//!
//! ```
//! use weir_ebpf::asm;
//! use weir_interp::plain;
//! use weir_memory::Context;
//!
//! let object = asm::parse(
//!     "map @seen array key 4 value 8 entries 1
//!      program \"count\" xdp
//!      r1 = map[@seen][0] ll
//!      r2 = 1
//!      lock *(u64 *)(r1 + 0) += r2
//!      r0 = 2
//!      exit",
//! )?;
//! let program = weir_verifier::verify(&object.programs[0], &object.maps, &weir_verifier::Limits::default())?;
//! let mut maps = plain::Maps::new(&object.maps)?;
//! for _ in 0..3 {
//!     assert_eq!(plain::run(&program, &mut maps, &mut Context::xdp(&[], &[0; 64]))?, 2);
//! }
//! assert_eq!(maps.lookup(0, &0u32.to_le_bytes()), Some(3u64.to_le_bytes().to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use weir_ebpf::{MapSpec, Program};
pub use weir_memory::plain::{Errno, Input, Maps, MapsError, Process, Run};
use weir_verifier::VerifiedProgram;

use crate::{Fault, Moment, Verified, watched};

/// Runs a verified program with a `Frame` or a `Context`, which holds afterwards what the program left in it; the
/// answer is r0.
pub fn run<'c>(
    program: &VerifiedProgram,
    maps: &'c mut Maps,
    context: impl Into<Input<'c>>,
) -> Result<u64, Fault> {
    run_numbered(&[], program, maps, context)
}

/// The same with programs that tail calls lead to, by number, as [`Maps::set_program`] has them; where there is none, a tail call leads
/// nowhere. All are of one object.
pub fn run_numbered<'c>(
    others: &[Option<&VerifiedProgram>],
    program: &VerifiedProgram,
    maps: &'c mut Maps,
    context: impl Into<Input<'c>>,
) -> Result<u64, Fault> {
    run_verified(Verified { program, others, rounds: None }, maps, context.into())
}

/// [`run`] with so many rounds, at most, of loops that only helpers and `may_goto` bound; where there would be more, each such
/// loop ends, and so does the run, in [`Fault::Rounds`].
pub fn run_limited<'c>(
    program: &VerifiedProgram,
    maps: &'c mut Maps,
    context: impl Into<Input<'c>>,
    rounds: u32,
) -> Result<u64, Fault> {
    run_verified(Verified { program, others: &[], rounds: Some(rounds) }, maps, context.into())
}

fn run_verified<'c>(verified: Verified<'_>, maps: &'c mut Maps, input: Input<'c>) -> Result<u64, Fault> {
    let kind = verified.program.kind();
    if !input.fits(kind) {
        return Err(Fault::Context { kind });
    }
    verified.run(Run::new(maps, input)).map(|(result, ())| result)
}

/// Runs any program for at most `steps` instructions; `watch` is called before each. `specs`: the maps of its object.
pub fn run_watched<'c>(
    program: &Program,
    specs: &[MapSpec],
    maps: &'c mut Maps,
    context: impl Into<Input<'c>>,
    steps: u64,
    watch: &mut dyn FnMut(Moment<'_, Run<'c>>),
) -> Result<u64, Fault> {
    let input: Input<'c> = context.into();
    if !input.fits(program.kind) {
        return Err(Fault::Context { kind: program.kind });
    }
    watched(program, specs, Run::new(maps, input), steps, watch).map(|(result, ())| result)
}
