//! What a comparison teaches of its operands on either way out.

use weir_ebpf::insn::jmp;

use crate::scalar::Scalar;
use crate::tnum::Tnum;

/// The operands on one way out of a comparison; None where that way cannot be gone.
pub(crate) type Outcome = Option<(Scalar, Scalar)>;

/// Operands after `if a OP b`, where it holds and where it does not, comparing 64 or 32 bits.
pub(crate) fn compare(operation: u8, wide: bool, a: Scalar, b: Scalar) -> (Outcome, Outcome) {
    let relation = Relation::of(operation);
    let holds = |relation| if wide { hold(relation, a, b) } else { hold_halves(relation, a, b) };
    (holds(relation), holds(relation.negated()))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    Equal,
    NotEqual,
    /// They have a set bit in common.
    Common,
    NoCommon,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    SignedLess,
    SignedLessOrEqual,
    SignedGreater,
    SignedGreaterOrEqual,
}

impl Relation {
    /// `operation` is one of the conditional jumps; anything else was refused before.
    fn of(operation: u8) -> Relation {
        match operation {
            jmp::JEQ => Relation::Equal,
            jmp::JNE => Relation::NotEqual,
            jmp::JSET => Relation::Common,
            jmp::JGT => Relation::Greater,
            jmp::JGE => Relation::GreaterOrEqual,
            jmp::JLT => Relation::Less,
            jmp::JLE => Relation::LessOrEqual,
            jmp::JSGT => Relation::SignedGreater,
            jmp::JSGE => Relation::SignedGreaterOrEqual,
            jmp::JSLT => Relation::SignedLess,
            jmp::JSLE => Relation::SignedLessOrEqual,
            _ => unreachable!("only conditional jumps are decoded as branches, not {operation:#x}"),
        }
    }

    fn negated(self) -> Relation {
        match self {
            Relation::Equal => Relation::NotEqual,
            Relation::NotEqual => Relation::Equal,
            Relation::Common => Relation::NoCommon,
            Relation::NoCommon => Relation::Common,
            Relation::Less => Relation::GreaterOrEqual,
            Relation::LessOrEqual => Relation::Greater,
            Relation::Greater => Relation::LessOrEqual,
            Relation::GreaterOrEqual => Relation::Less,
            Relation::SignedLess => Relation::SignedGreaterOrEqual,
            Relation::SignedLessOrEqual => Relation::SignedGreater,
            Relation::SignedGreater => Relation::SignedLessOrEqual,
            Relation::SignedGreaterOrEqual => Relation::SignedLess,
        }
    }

    fn is_signed(self) -> bool {
        use Relation::{SignedGreater, SignedGreaterOrEqual, SignedLess, SignedLessOrEqual};
        matches!(self, SignedLess | SignedLessOrEqual | SignedGreater | SignedGreaterOrEqual)
    }
}

fn hold(relation: Relation, a: Scalar, b: Scalar) -> Outcome {
    match relation {
        Relation::Equal => a.intersect(b).map(|both| (both, both)),
        Relation::NotEqual => Some((without(a, b.as_constant())?, without(b, a.as_constant())?)),
        Relation::Common => Some((common(a, b)?, common(b, a)?)),
        Relation::NoCommon => Some((no_common(a, b)?, no_common(b, a)?)),
        Relation::Less => {
            let below = Scalar { max: a.max.min(b.max.checked_sub(1)?), ..a };
            let above = Scalar { min: b.min.max(a.min.checked_add(1)?), ..b };
            Some((below.tightened()?, above.tightened()?))
        }
        Relation::LessOrEqual => {
            let below = Scalar { max: a.max.min(b.max), ..a };
            let above = Scalar { min: b.min.max(a.min), ..b };
            Some((below.tightened()?, above.tightened()?))
        }
        Relation::SignedLess => {
            let below = Scalar { smax: a.smax.min(b.smax.checked_sub(1)?), ..a };
            let above = Scalar { smin: b.smin.max(a.smin.checked_add(1)?), ..b };
            Some((below.tightened()?, above.tightened()?))
        }
        Relation::SignedLessOrEqual => {
            let below = Scalar { smax: a.smax.min(b.smax), ..a };
            let above = Scalar { smin: b.smin.max(a.smin), ..b };
            Some((below.tightened()?, above.tightened()?))
        }
        Relation::Greater => hold(Relation::Less, b, a).map(swapped),
        Relation::GreaterOrEqual => hold(Relation::LessOrEqual, b, a).map(swapped),
        Relation::SignedGreater => hold(Relation::SignedLess, b, a).map(swapped),
        Relation::SignedGreaterOrEqual => hold(Relation::SignedLessOrEqual, b, a).map(swapped),
    }
}

/// The relation between the low halves, and what that says of the whole.
fn hold_halves(relation: Relation, a: Scalar, b: Scalar) -> Outcome {
    let half = |whole: Scalar| if relation.is_signed() { whole.sign_extended(32) } else { whole.low(32) };
    let (half_a, half_b) = hold(relation, half(a), half(b))?;
    Some((a.with_low_half(half_a)?, b.with_low_half(half_b)?))
}

fn swapped((a, b): (Scalar, Scalar)) -> (Scalar, Scalar) {
    (b, a)
}

/// `set` without `number`: an end of a range moves by one.
fn without(mut set: Scalar, number: Option<u64>) -> Option<Scalar> {
    let Some(number) = number else { return Some(set) };
    if set.as_constant() == Some(number) {
        return None;
    }
    // Neither end is at the end of its type when it moves: the other end lies beyond it.
    if set.min == number {
        set.min += 1;
    }
    if set.max == number {
        set.max -= 1;
    }
    if set.smin == number as i64 && set.smin < set.smax {
        set.smin += 1;
    }
    if set.smax == number as i64 && set.smin < set.smax {
        set.smax -= 1;
    }
    set.tightened()
}

fn common(set: Scalar, with: Scalar) -> Option<Scalar> {
    let possible = (set.bits.value | set.bits.mask) & (with.bits.value | with.bits.mask);
    if possible == 0 {
        return None;
    }
    // A single bit that can be in common is set.
    if possible.is_power_of_two() {
        let bits = set.bits.intersect(Tnum { value: possible, mask: !possible })?;
        return Scalar { bits, ..set }.tightened();
    }
    // Something is set.
    without(set, Some(0))
}

fn no_common(set: Scalar, with: Scalar) -> Option<Scalar> {
    // What is certainly set in the one is certainly clear in the other.
    let bits = set.bits.intersect(Tnum { value: 0, mask: !with.bits.value })?;
    Scalar { bits, ..set }.tightened()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::random::{Cases, Daily};

    use super::*;
    use crate::scalar::tests::{CENTRES, random, sample, small_sets};

    const OPERATIONS: [u8; 11] = [
        jmp::JEQ,
        jmp::JGT,
        jmp::JGE,
        jmp::JSET,
        jmp::JNE,
        jmp::JSGT,
        jmp::JSGE,
        jmp::JLT,
        jmp::JLE,
        jmp::JSLT,
        jmp::JSLE,
    ];

    /// What the machine decides.
    fn decide(operation: u8, wide: bool, x: u64, y: u64) -> bool {
        let (x, y) = if wide { (x, y) } else { (x & 0xffff_ffff, y & 0xffff_ffff) };
        let (signed_x, signed_y) =
            if wide { (x as i64, y as i64) } else { (x as i32 as i64, y as i32 as i64) };
        match operation {
            jmp::JEQ => x == y,
            jmp::JNE => x != y,
            jmp::JGT => x > y,
            jmp::JGE => x >= y,
            jmp::JLT => x < y,
            jmp::JLE => x <= y,
            jmp::JSET => x & y != 0,
            jmp::JSGT => signed_x > signed_y,
            jmp::JSGE => signed_x >= signed_y,
            jmp::JSLT => signed_x < signed_y,
            _ => signed_x <= signed_y,
        }
    }

    fn check(operation: u8, wide: bool, a: Scalar, x: u64, b: Scalar, y: u64) {
        let (taken, not_taken) = compare(operation, wide, a, b);
        let outcome = if decide(operation, wide, x, y) { taken } else { not_taken };
        assert!(
            outcome.is_some_and(|(a, b)| a.has(x) && b.has(y)),
            "{operation:#x} wide {wide}: {x:#x} in {a:?}, {y:#x} in {b:?}: {outcome:?}"
        );
        for (narrow_a, narrow_b) in [taken, not_taken].into_iter().flatten() {
            // An outcome teaches, it forgets nothing.
            assert!(a.contains(narrow_a), "{operation:#x} {wide}: {a:?} becomes {narrow_a:?}");
            assert!(b.contains(narrow_b), "{operation:#x} {wide}: {b:?} becomes {narrow_b:?}");
        }
    }

    #[test]
    fn the_way_that_is_gone_keeps_both_operands() {
        let daily = Daily { seed: 31, at_least: 10_000, at_most: 100_000, budget: Duration::from_secs(1) };
        let cases = Cases::of("WEIR_WAYS", daily);
        let mut seed = cases.seed();
        for _ in cases {
            let ((a, in_a), (b, in_b)) = (sample(&mut seed), sample(&mut seed));
            let x = in_a[random(&mut seed) as usize % in_a.len()];
            // Equal operands are too rare by chance.
            let y = if b.has(x) { x } else { in_b[random(&mut seed) as usize % in_b.len()] };
            for operation in OPERATIONS {
                check(operation, true, a, x, b, y);
                check(operation, false, a, x, b, y);
            }
        }
    }

    #[test]
    fn small_intervals_keep_both_operands_and_know_impossible_ways() {
        for centre in CENTRES {
            let at = |index: u64| centre.wrapping_sub(2).wrapping_add(index);
            let intervals = || (0..4u64).flat_map(|from| (from..4).map(move |to| (from, to)));
            let hull = |(from, to): (u64, u64)| {
                (from..=to).map(|index| Scalar::constant(at(index))).reduce(Scalar::join).expect("not empty")
            };
            for (first, second) in intervals().flat_map(|a| intervals().map(move |b| (a, b))) {
                let (a, b) = (hull(first), hull(second));
                for x in first.0..=first.1 {
                    for y in second.0..=second.1 {
                        for operation in OPERATIONS {
                            check(operation, true, a, at(x), b, at(y));
                            check(operation, false, a, at(x), b, at(y));
                        }
                    }
                }
            }
        }
    }

    /// The same for sets with holes, and whose upper halves differ.
    #[test]
    fn small_sets_keep_both_operands() {
        for (first, second) in CENTRES.iter().flat_map(|first| [0, 7, *first].map(|second| (*first, second)))
        {
            let right = small_sets(second);
            for (a, in_a) in small_sets(first) {
                for ((b, in_b), operation) in right.iter().flat_map(|b| OPERATIONS.map(|each| (b, each))) {
                    for wide in [true, false] {
                        let (taken, not_taken) = compare(operation, wide, a, *b);
                        for (x, y) in in_a.iter().flat_map(|x| in_b.iter().map(move |y| (*x, *y))) {
                            let outcome = if decide(operation, wide, x, y) { taken } else { not_taken };
                            let holds = outcome.is_some_and(|(a, b)| a.has(x) && b.has(y));
                            assert!(holds, "{operation:#x} {wide} {a:?} {b:?} {x:#x} {y:#x} {outcome:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_are_learnt() {
        let below =
            |operation, wide, bound| compare(operation, wide, Scalar::UNKNOWN, Scalar::constant(bound));
        let range = |outcome: Outcome| outcome.map(|(a, _)| (a.min, a.max));
        assert_eq!(range(below(jmp::JLT, true, 10).0), Some((0, 9)));
        assert_eq!(range(below(jmp::JGT, true, 10).1), Some((0, 10)));
        assert_eq!(range(below(jmp::JGE, true, 10).0), Some((10, u64::MAX)));
        assert_eq!(range(below(jmp::JLT, true, 0).0), None);
        assert_eq!(range(below(jmp::JSET, true, !7).1), Some((0, 7)));
        assert_eq!(below(jmp::JNE, true, 0).0.map(|(a, _)| a.min), Some(1));
        let half = Scalar::UNKNOWN.low(32);
        assert_eq!(range(compare(jmp::JLT, false, half, Scalar::constant(10)).0), Some((0, 9)));
        let positive = compare(jmp::JSGE, true, Scalar::UNKNOWN, Scalar::constant(0)).0;
        let both = positive.and_then(|(a, b)| compare(jmp::JSLT, true, a, add_constant(b, 10)).0);
        assert_eq!(range(both), Some((0, 9)));
    }

    fn add_constant(scalar: Scalar, by: u64) -> Scalar {
        crate::alu::add(scalar, Scalar::constant(by))
    }
}
