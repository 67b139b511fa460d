//! Runs on maps in a segment of weir-rt, which machine code uses too.

use weir_ebpf::{MapSpec, Program};
use weir_memory::ContextMut;
use weir_rt::memory::Space;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

use crate::{Fault, Moment, Verified, watched};

/// What a run can reach besides its context.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// The maps, in the order of the program's object.
    pub segment: &'a Segment,
}

/// Runs a verified program with a `Frame` or a `Context`, which holds afterwards what the program left in it; the
/// answer is r0.
pub fn run<'c>(
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
) -> Result<u64, Fault> {
    run_among(&[], program, environment, context)
}

/// The same with programs that tail calls lead to: the numbers in an array of programs are those of `others`. All are
/// of one object.
pub fn run_among<'c>(
    others: &[&VerifiedProgram],
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
) -> Result<u64, Fault> {
    let others: Vec<Option<&VerifiedProgram>> = others.iter().copied().map(Some).collect();
    run_numbered(&others, program, environment, context)
}

/// The same where some numbers are of no program, and lead nowhere.
pub fn run_numbered<'c>(
    others: &[Option<&VerifiedProgram>],
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
) -> Result<u64, Fault> {
    run_verified(Verified { program, others, rounds: None }, environment, context.into())
}

/// The same with so many rounds, at most, of loops that only helpers and `may_goto` bound; where there would be more, each such
/// loop ends, and so does the run, in [`Fault::Rounds`].
pub fn run_limited<'c>(
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
    rounds: u32,
) -> Result<u64, Fault> {
    run_verified(Verified { program, others: &[], rounds: Some(rounds) }, environment, context.into())
}

fn run_verified(
    verified: Verified<'_>,
    environment: &Environment<'_>,
    mut context: ContextMut<'_>,
) -> Result<u64, Fault> {
    let kind = verified.program.kind();
    if !context.fits(kind) {
        return Err(Fault::Context { kind });
    }
    let ran = verified.run(Space::with(environment.segment, &context));
    left(&mut context, ran)
}

/// Runs any program for at most `steps` instructions. `maps`: those of its object.
pub fn run_unverified<'c>(
    program: &Program,
    maps: &[MapSpec],
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
    steps: u64,
) -> Result<u64, Fault> {
    run_watched(program, maps, environment, context, steps, &mut |_| {})
}

/// The same, and `watch` is called before each instruction.
pub fn run_watched<'c>(
    program: &Program,
    maps: &[MapSpec],
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
    steps: u64,
    watch: &mut dyn FnMut(Moment<'_, Space<'_>>),
) -> Result<u64, Fault> {
    let mut context: ContextMut<'c> = context.into();
    if !context.fits(program.kind) {
        return Err(Fault::Context { kind: program.kind });
    }
    let memory = Space::with(environment.segment, &context);
    let ran = watched(program, maps, memory, steps, &mut |moment| watch(moment));
    left(&mut context, ran)
}

/// Gives the context what a run left in it.
fn left(context: &mut ContextMut<'_>, ran: Result<(u64, ([u64; 21], u64)), Fault>) -> Result<u64, Fault> {
    let (result, (slots, session_cookie)) = ran?;
    context.set_slots(slots);
    context.set_session_cookie(session_cookie);
    Ok(result)
}
