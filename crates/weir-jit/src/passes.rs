//! The passes over [`crate::front::lir`], in their order, for code that may change flags.
//!
//! In: operations without dead ones. Out: the same program in fewer or faster operations; slots of what is gone hold
//! [`Op::Nothing`], so an operation's slot stays the instruction that it comes from (or the last of several).
//!
//! Each pass can be left out: tests run every program with all, with none, and with each alone. All are linear in
//! the length of the program, but for bounded look-ahead ([`crate::limits`]).
//!
//! Three are done by the emitter, which must know of them: alignment, flags, and inversions.
//!
//! Not here: division by constants and forms of single operations, which the emitter chooses.

pub(crate) mod absorb;
pub(crate) mod blocks;
pub(crate) mod compact;
pub(crate) mod diamonds;
pub(crate) mod gather;
pub(crate) mod highest;
pub(crate) mod inversions;
pub(crate) mod jumps;
pub(crate) mod liveness;
pub(crate) mod promote;
pub(crate) mod rotations;
pub(crate) mod updates;
pub(crate) mod zero_upper;

use crate::front::lir::Op;
use crate::passes::liveness::LiveRegs;

/// A set of passes.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Passes(u16);

impl Passes {
    pub const NONE: Passes = Passes(0);
    /// [`crate::passes::jumps`].
    pub const JUMPS: Passes = Passes(1);
    /// [`crate::passes::zero_upper`].
    pub const ZERO_UPPER: Passes = Passes(1 << 1);
    /// [`crate::passes::gather`].
    pub const GATHER: Passes = Passes(1 << 2);
    /// [`crate::passes::rotations`].
    pub const ROTATIONS: Passes = Passes(1 << 3);
    /// [`crate::passes::diamonds`].
    pub const DIAMONDS: Passes = Passes(1 << 4);
    /// [`crate::passes::absorb`].
    pub const ABSORB: Passes = Passes(1 << 5);
    /// [`crate::passes::promote`].
    pub const PROMOTE: Passes = Passes(1 << 6);
    /// [`crate::passes::updates`].
    pub const UPDATES: Passes = Passes(1 << 7);
    /// Loops begin at round addresses: done by the emitter (see [`crate::passes::blocks::loops`]). Without it the programs of
    /// tests/vm take 6 % longer in the geometric mean, five of them 1.3 to 1.5 times as long.
    pub const ALIGN: Passes = Passes(1 << 8);
    /// No comparison with 0 behind arithmetic that has made it: done by the emitter. Shorter code; no program of
    /// tests/vm changes by more than the noise.
    pub const FLAGS: Passes = Passes(1 << 9);
    /// [`crate::passes::inversions`].
    pub const INVERSIONS: Passes = Passes(1 << 10);
    /// [`crate::passes::highest`].
    pub const HIGHEST: Passes = Passes(1 << 11);
    pub const ALL: Passes = Passes((1 << 12) - 1);

    /// Each pass alone.
    pub fn each() -> impl Iterator<Item = Passes> {
        (0..12).map(|bit| Passes(1 << bit))
    }

    /// All but those of `other`.
    pub fn without(other: Passes) -> Passes {
        Passes::ALL.minus(other)
    }

    pub(crate) fn minus(self, other: Passes) -> Passes {
        Passes(self.0 & !other.0)
    }

    pub(crate) fn has(self, pass: Passes) -> bool {
        self.0 & pass.0 != 0
    }
}

/// What passes must know of the place that the code is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) bmi2: bool,
    /// A run claims a lane at entry.
    pub(crate) claims: bool,
    /// A run counts its rounds.
    pub(crate) limits_rounds: bool,
}

/// Runs `passes` on operations of which none is dead, with what is live then; gives what is live afterwards, and whether accesses to
/// single bytes became wider ones.
pub(crate) fn run(
    ops: &mut [Op],
    mut live: LiveRegs,
    starts: &[usize],
    site: Site,
    passes: Passes,
) -> (LiveRegs, bool) {
    if passes == Passes::NONE {
        return (live, false);
    }
    // First, while branches still go to the end of what they skip.
    let selected = passes.has(Passes::DIAMONDS) && diamonds::select(ops);
    let straightened = passes.has(Passes::JUMPS) && jumps::straighten(ops);
    let leaders = blocks::leaders(ops, starts);
    let promoted = passes.has(Passes::PROMOTE)
        && promote::promote(ops, starts, site.bmi2, site.claims || site.limits_rounds);
    let shortened = passes.has(Passes::ZERO_UPPER) && zero_upper::drop_extensions(ops, &leaders, starts);
    let gathered = passes.has(Passes::GATHER) && gather::gather(ops, &leaders);
    // Finding what is live costs most, so it is done again only for changes: most filters have none.
    if selected || straightened || promoted || shortened || gathered {
        live = liveness::drop_dead(ops);
    }
    let updated = passes.has(Passes::UPDATES) && updates::update(ops, &leaders, &live);
    let rotated = passes.has(Passes::ROTATIONS) && rotations::find(ops, &leaders, &live);
    let searched = passes.has(Passes::HIGHEST) && highest::find(ops, starts, &live);
    if updated || rotated || searched {
        live = liveness::drop_dead(ops);
    }
    if passes.has(Passes::ABSORB) && absorb::absorb(ops, &leaders, &mut live) {
        live = liveness::drop_dead(ops);
    }
    (live, gathered)
}
