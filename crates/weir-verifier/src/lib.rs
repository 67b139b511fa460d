//! Turns a [`Program`] into a [`VerifiedProgram`], or says why not.
//!
//! In: a program from anywhere (our compiler's or a file's: nobody is trusted) and the maps of its object.
//! Out: the proof, with [facts](InsnFacts) for the engines; or a [`Rejection`]. What is accepted:
//! - ends: loops are followed to their end;
//! - touches only its 512 bytes of stack, its context (reads), values of its maps and ring records it holds,
//!   inside their bounds, and reads nothing of the stack that it did not write;
//! - calls helpers as their contracts say; returns every record exactly once;
//! - gives no pointer away: not as a number, not to a map, a ring or the caller;
//! - changes per-CPU memory by non-fetching atomics alone (an engine does these on a CPU's own lane).
//!
//! Method: `decode` checks what needs no path; `explore` follows every path over abstract values, as the
//! kernel's verifier does. Where that takes too long, a second run joins the numbers of paths that meet.
//!
//! Deliberately not here: functions inside a program, tail calls, `may_goto`, packet loads, kernel functions:
//! each is refused as unsupported.

#![forbid(unsafe_code)]

mod alu;
mod call;
mod compare;
mod decode;
mod explore;
mod limits;
mod memory;
mod rejection;
mod scalar;
mod state;
mod step;
mod tnum;
mod verified;

use weir_ebpf::{MapSpec, Program, asm};

pub use crate::limits::Limits;
pub use crate::rejection::{Rejection, RejectionKind};
pub use crate::verified::{InsnFacts, VerifiedProgram};

use crate::decode::{At, decode};
use crate::explore::{Findings, Precision, Seen, explore};

/// Verifies `program`, whose map indices refer to `maps`.
pub fn verify(program: &Program, maps: &[MapSpec], limits: &Limits) -> Result<VerifiedProgram, Rejection> {
    let findings = findings(program, maps, limits).map_err(|(at, refusal)| Rejection {
        program: program.name.clone(),
        at,
        text: at.map(|at| asm::insn_text(&program.insns, at, maps)).unwrap_or_default(),
        kind: refusal.kind,
        message: refusal.message,
    })?;
    Ok(VerifiedProgram {
        name: program.name.clone(),
        kind: program.kind,
        insns: program.insns.clone().into(),
        maps: maps.into(),
        facts: findings.seen.iter().map(facts).collect(),
        stack_bytes: findings.stack_bytes,
        context_reads: findings.context_reads,
    })
}

fn findings(program: &Program, maps: &[MapSpec], limits: &Limits) -> At<Findings> {
    let ops = decode(&program.insns, maps, limits)?;
    let exact = explore(&ops, maps, limits, Precision::Exact);
    match exact {
        Err((_, ref refusal)) if refusal.kind == RejectionKind::TooBig => {
            // The rejection of the exact run is the one to show: the joined one knows less.
            explore(&ops, maps, limits, Precision::Joined).or(exact)
        }
        _ => exact,
    }
}

fn facts(seen: &Seen) -> InsnFacts {
    let branch = match (seen.jumped, seen.fell_through) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    };
    InsnFacts {
        reachable: seen.reached,
        branch,
        constant_key: seen.constant_key.always().flatten(),
        map_index: seen.map_index.always(),
        per_cpu_map: seen.per_cpu_map.always().flatten(),
    }
}
