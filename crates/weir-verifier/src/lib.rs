//! Turns a [`Program`] into a [`VerifiedProgram`], or says why not.
//!
//! In: a program from anywhere (our compiler's or a file's: nobody is trusted) and the maps of its object.
//! Out: the proof, with [facts](InsnFacts) for the engines; or a [`Rejection`]. What is accepted:
//! - ends: loops are counted, or followed to their end, or pass a `may_goto` in every round; a helper calls its
//!   callback back no more than 8,388,608 times, or by so many more than a map has entries;
//! - touches only its stack (512 bytes for all frames of nested calls together), its context (reads, and fields that
//!   may be written), its packet as far as comparisons have shown it to reach, its memory, values of its maps and ring
//!   records it holds, inside their bounds, at indices too, and reads nothing of the stack that it did not write
//!   (unless engines zero its frames: [`VerifiedProgram::zeroes_frames`]);
//! - calls helpers as their contracts say; returns every record exactly once;
//! - gives no pointer away: not as a number, not to a map, a ring or the caller (but to a helper that prints, and what
//!   a helper reads of the process may be anything, this program's own stack among it), not by comparing it
//!   (`pointers`);
//! - compares strings only in context slots that are declared as strings ([`Limits::text_slots`]), with constant arguments; copies only from
//!   declared slots ([`Limits::declared`]), into memory with room for all of it;
//! - calls what changes the process only where [`Limits::allow_changes`] says so;
//! - is known to change per-CPU values by non-fetching atomics alone (an engine does these on the CPU's own lane, in a
//!   restartable section), or says that it needs a lane to itself ([`VerifiedProgram::needs_lane`]).
//!
//! Method: `decode` and `functions` check what needs no path; `explore` follows every path over abstract values, as the
//! kernel's verifier does; a local call goes into its function with a frame of its own. Where the
//! rounds of all loops can be counted, one round stands for all (`counted`). Where that is refused, a run merges the
//! ranges of numbers where paths meet (`explore`), and then one keeps every path apart. Where it takes too
//! long, a run joins all numbers of paths that meet. Programs with `may_goto` are first followed with their rounds
//! joined, since such loops have no end of their own; so are programs with callbacks (see `rounds`).
//!
//! Soundness is tested by holding runs in the checking interpreter against what is claimed of each instruction
//! ([`Claims`]), and by sets of numbers small enough to go through all of their members.
//!
//! Deliberately not here: tail calls from functions, kernel functions but those of a session: each is refused as
//! unsupported.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod alu;
mod call;
mod changes;
mod claims;
mod compare;
mod counted;
mod decode;
mod ends;
mod explore;
mod flow;
mod frozen;
mod functions;
mod gather;
mod half;
mod limits;
mod linked;
mod links;
mod loops;
mod memory;
mod numbers;
mod observe;
mod packet;
mod places;
mod pointers;
mod rejection;
mod rounds;
mod scalar;
mod slot;
mod state;
mod step;
mod tnum;
mod value;
mod verified;

use std::cell::Cell;

use weir_ebpf::{MapSpec, Program, asm};

pub use crate::claims::{Claims, Moment};
pub use crate::frozen::Maps;
pub use crate::limits::Limits;
pub use crate::observe::{InsnStates, Place, States};
pub use crate::rejection::{Rejection, RejectionKind};
pub use crate::verified::{Function, InsnFacts, VerifiedProgram};

use crate::decode::{At, decode};
use crate::explore::{Findings, Input, Precision, Seen, explore};
use crate::flow::begins_rounds;
use crate::frozen::fold;
use crate::functions::Functions;
use crate::loops::Loops;
use crate::numbers::Numbers;
use crate::observe::Observer;

/// Verifies `program`, whose map indices refer to `maps`: their definitions, or [`Maps::frozen`].
pub fn verify<'a>(
    program: &Program,
    maps: impl Into<Maps<'a>>,
    limits: &Limits,
) -> Result<VerifiedProgram, Rejection> {
    verify_with(program, maps.into(), limits, None).map(|(verified, _)| verified)
}

/// The same, and what was known at each instruction; of a program that is refused, up to there.
pub fn verify_observed<'a>(
    program: &Program,
    maps: impl Into<Maps<'a>>,
    limits: &Limits,
) -> (Result<VerifiedProgram, Rejection>, States) {
    let observer = Observer::words();
    let verdict = verify_with(program, maps.into(), limits, Some(&observer)).map(|(verified, _)| verified);
    (verdict, observer.into_states())
}

/// The same for what is accepted, in a form that runs of the program can be held against: for tests.
pub fn verify_claimed(
    program: &Program,
    maps: &[MapSpec],
    limits: &Limits,
) -> Result<(VerifiedProgram, Claims), Rejection> {
    let observer = Observer::claims();
    let (verified, times) = verify_with(program, maps.into(), limits, Some(&observer))?;
    let claims = Claims::of(program, maps, limits, observer.into_claims(), times);
    Ok((verified, claims))
}

/// With how often a run comes to each instruction at most, where that is more than was followed.
fn verify_with(
    program: &Program,
    maps: Maps<'_>,
    limits: &Limits,
    observer: Option<&Observer>,
) -> Result<(VerifiedProgram, Option<Vec<u64>>), Rejection> {
    let (findings, followed) =
        findings(program, maps, limits, observer).map_err(|(at, refusal)| Rejection {
            program: program.name.clone(),
            at,
            text: at.map(|at| asm::insn_text(&program.insns, at, maps.specs)).unwrap_or_default(),
            kind: refusal.kind,
            message: refusal.message,
        })?;
    let verified = VerifiedProgram {
        name: program.name.clone(),
        kind: program.kind,
        insns: program.insns.clone().into(),
        maps: maps.specs.into(),
        facts: findings.seen.iter().zip(&findings.constants).map(facts).collect(),
        functions: findings.functions,
        context_reads: findings.context_reads,
        needs_lane: findings.needs_lane,
        writes_packet: findings.writes_packet,
        zeroes_frames: findings.zeroes_frames,
        nested_stack_bytes: findings.nested_stack_bytes,
        followed,
    };
    Ok((verified, findings.times))
}

fn findings(
    program: &Program,
    maps: Maps<'_>,
    limits: &Limits,
    observer: Option<&Observer>,
) -> At<(Findings, u64)> {
    let mut ops = decode(program.kind, &program.insns, maps.specs, limits)?;
    let functions = Functions::of(&ops)?;
    let constants = fold(&mut ops, &functions, maps);
    let numbers = Numbers::of(program.kind, &ops, &functions);
    let (has_merged, reads_unwritten, followed) = (Cell::new(false), Cell::new(false), Cell::new(0));
    let input = Input {
        kind: program.kind,
        ops: &ops,
        functions: &functions,
        numbers: &numbers,
        maps: maps.specs,
        limits,
        observer,
        zeroes_frames: false,
        reads_unwritten: &reads_unwritten,
        has_merged: &has_merged,
        followed: &followed,
    };
    let strict = judged(input);
    if strict.is_ok() || !reads_unwritten.get() || !limits.allow_unwritten_stack {
        return Ok((Findings { constants, ..strict? }, followed.get()));
    }
    has_merged.set(false);
    let zeroed = judged(Input { zeroes_frames: true, ..input });
    // What else is wrong with it is the better message.
    let findings = if is_too_big(&zeroed) { strict } else { zeroed }?;
    Ok((Findings { constants, ..findings }, followed.get()))
}

/// With the precision that the program needs: the verdict of the first run that accepts, else that of the run that
/// knows most.
fn judged(input: Input<'_>) -> At<Findings> {
    if input.ops.iter().any(begins_rounds) {
        let by_rounds = explore(input, Precision::Rounds);
        if by_rounds.is_ok() {
            return by_rounds;
        }
        // Joining rounds may have lost what shows that they are safe.
        let exact = explore(input, Precision::Exact);
        return if is_too_big(&exact) { by_rounds } else { exact };
    }
    if let Some(loops) = Loops::of(input.ops, input.functions, input.numbers) {
        if let Some(findings) = counted(input, &loops) {
            return Ok(findings);
        }
        // What is refused so may be safe: one state for all rounds knows less than each round's own.
        input.has_merged.set(false);
        input.reads_unwritten.set(false);
    }
    let merged = explore(input, Precision::Merged);
    if merged.is_ok() {
        return merged;
    }
    if is_too_big(&merged) {
        // With every path apart there would hardly be less to follow.
        let joined = explore(input, Precision::Joined);
        if joined.is_ok() {
            return joined;
        }
    }
    if !input.has_merged.get() {
        return merged;
    }
    // Merging may have lost what shows that it is safe; and the rejection to show is that of the run that knows most.
    explore(input, Precision::Exact)
}

/// With rounds of loops counted: of all, else of all but those around what was refused, which are followed.
fn counted(input: Input<'_>, loops: &Loops) -> Option<Findings> {
    if !loops.are_all_counted() {
        return explore(input, Precision::Counted(loops)).ok();
    }
    let refused_at = match explore(input, Precision::Gathered(loops)) {
        Ok(findings) => return Some(findings),
        Err((at, _)) => at,
    };
    let by_rounds = refused_at.and_then(|at| loops.by_rounds(at));
    match by_rounds.map(|loops| explore(input, Precision::Counted(&loops))) {
        Some(Ok(findings)) => Some(findings),
        Some(refused) if !is_too_big(&refused) => None,
        // Where ways meet, the numbers of each may be what matters.
        _ => explore(input, Precision::Counted(loops)).ok(),
    }
}

fn is_too_big(result: &At<Findings>) -> bool {
    result.as_ref().is_err_and(|(_, refusal)| refusal.kind == RejectionKind::TooBig)
}

fn facts((seen, constant): (&Seen, &Option<u64>)) -> InsnFacts {
    let branch = match (seen.jumped, seen.fell_through) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    };
    InsnFacts {
        reachable: seen.reached,
        constant: *constant,
        branch,
        constant_key: seen.constant_key.always().flatten(),
        map_index: seen.map_index.always(),
        callback: seen.callback.always(),
        per_cpu_map: seen.per_cpu_map.always().flatten(),
        context_field: seen.context_field.always().flatten(),
        string_bytes: seen.string_bytes,
        text: seen.text.always(),
        copy: seen.copy.always(),
        may_misalign: seen.may_misalign,
    }
}
