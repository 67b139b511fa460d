//! How often a loop's head is reached at most.
//!
//! In: what a round does to places (`changes`), and what places hold where the loop is entered ([`AtEntry`]). Out: for a
//! branch that every round passes and that ends the loop ([`Test`]), the most times that the head is reached, and what the
//! place that counts holds there ([`Rounds`]). By arithmetic alone, so that it holds for every run that enters with such
//! values.

use weir_ebpf::insn::jmp;

use crate::changes::Change;
use crate::scalar::Scalar;

/// A branch that ends the loop unless what place `of` held at the head, and `first.0` to `first.1` more, is as `stay`
/// says of `bound`. Of a place that rounds shift right: no more than what it held, shifted by `first.0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    pub(crate) of: u8,
    /// A place that no round changes: what it holds is added, too.
    pub(crate) with: Option<u8>,
    /// The bits of that sum that are compared.
    pub(crate) kept: Option<Bound>,
    /// A place that must hold the same as `of` where the loop is entered; then it does in every round.
    pub(crate) same: Option<u8>,
    pub(crate) first: (i32, i32),
    pub(crate) narrow: bool,
    pub(crate) wide: bool,
    /// One of the operations of `jmp`.
    pub(crate) stay: u8,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    Constant(i64),
    /// What this place held at the head: no round changes it.
    Place(u8),
}

/// Places where a loop is entered.
pub(crate) trait AtEntry {
    fn number(&self, place: u8) -> Option<Scalar>;

    /// The two certainly hold the same.
    fn hold_same(&self, one: u8, other: u8) -> bool;
}

/// A number has none of these bits if it is below this.
fn below(bits: u64, narrow: bool) -> Option<i64> {
    let bits = if narrow { bits as u32 as i32 as i64 as u64 } else { bits };
    let from = bits.trailing_zeros();
    (from < 32 && bits == u64::MAX << from).then_some(1 << from)
}

/// What holds where the comparison does not.
pub(crate) fn negated(operation: u8) -> Option<u8> {
    let pairs = [
        (jmp::JEQ, jmp::JNE),
        (jmp::JGT, jmp::JLE),
        (jmp::JGE, jmp::JLT),
        (jmp::JSGT, jmp::JSLE),
        (jmp::JSGE, jmp::JSLT),
    ];
    other_of(&pairs, operation)
}

/// The same comparison with its operands exchanged.
pub(crate) fn mirrored(operation: u8) -> Option<u8> {
    let pairs = [
        (jmp::JEQ, jmp::JEQ),
        (jmp::JNE, jmp::JNE),
        (jmp::JGT, jmp::JLT),
        (jmp::JGE, jmp::JLE),
        (jmp::JSGT, jmp::JSLT),
        (jmp::JSGE, jmp::JSLE),
    ];
    other_of(&pairs, operation)
}

fn other_of(pairs: &[(u8, u8)], operation: u8) -> Option<u8> {
    pairs.iter().find_map(|(one, other)| match operation {
        _ if operation == *one => Some(*other),
        _ if operation == *other => Some(*one),
        _ => None,
    })
}

/// How often a loop's head is reached at most, each time that the loop is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rounds {
    pub(crate) heads: u64,
    /// What the place that counts holds at the head, as a number without sign, if it is known by the test.
    pub(crate) range: Option<(u64, u64)>,
}

impl Test {
    /// Places whose numbers are part of the count; `change` is what a round does to the one that counts.
    pub(crate) fn places(&self, change: Change) -> impl Iterator<Item = u8> {
        let place = |of: Bound| if let Bound::Place(place) = of { Some(place) } else { None };
        let [bound, kept] = [Some(self.bound), self.kept].map(|of| of.and_then(place));
        let step = if let Change::Stepped { by, .. } = change { Some(by) } else { None };
        [Some(self.of), self.same, self.with, step, bound, kept].into_iter().flatten()
    }

    /// The most times that the head is reached where the loop is entered with such places; `change` is what a round does
    /// to the one that counts.
    pub(crate) fn rounds_from(&self, change: Change, places: &impl AtEntry) -> Option<Rounds> {
        let number = |of: Bound| match of {
            Bound::Constant(number) => Some(Scalar::constant(number as u64)),
            Bound::Place(place) => places.number(place),
        };
        if self.same.is_some_and(|same| !places.hold_same(self.of, same)) {
            return None;
        }
        let mut test = *self;
        if let Some(kept) = self.kept {
            let below = below(number(kept)?.as_constant()?, self.narrow)?;
            if (self.stay, self.bound) != (jmp::JEQ, Bound::Constant(0)) {
                return None;
            }
            (test.stay, test.bound) = (jmp::JLT, Bound::Constant(below));
        }
        let (value, bound, step) =
            (places.number(self.of)?, number(test.bound)?, change.at_entry(self.of, places));
        if self.with.is_none() {
            return test.rounds(step, value, bound);
        }
        // What is added is what each round adds: what is compared is what the place holds next.
        let Change::Moved { low, high, .. } = step else { return None };
        test.first = (low, high);
        test.rounds_by(step, value, bound, true)
    }

    /// The same for a place that is `value` and `bound`.
    pub(crate) fn rounds(&self, change: Change, value: Scalar, bound: Scalar) -> Option<Rounds> {
        self.rounds_by(change, value, bound, false)
    }

    /// `is_next`: what is compared is what the place holds in the next round.
    fn rounds_by(&self, change: Change, value: Scalar, bound: Scalar, is_next: bool) -> Option<Rounds> {
        let (low, high, narrow) = match change {
            Change::Moved { low, high, narrow, .. } => (low, high, narrow),
            Change::AtMost { shifted, .. } => return self.rounds_of_shifts(shifted, value, bound),
            _ => return None,
        };
        let is_signed = matches!(self.stay, jmp::JSGT | jmp::JSGE | jmp::JSLT | jmp::JSLE);
        let is_still = self.first == (0, 0);
        let fits = |number: Scalar| number.max <= u64::from(u32::MAX);
        // All is done with whole numbers as large as they come; what is compared are their low bits.
        let compared = if !self.wide {
            if is_signed { Compared::signed(32, value, bound) } else { Compared::unsigned(32, value, bound) }
        } else if !narrow && !self.narrow {
            if is_signed { Compared::signed(64, value, bound) } else { Compared::unsigned(64, value, bound) }
        } else if fits(bound) && (self.narrow || is_still && fits(value)) {
            Compared::unsigned(32, value, bound)
        } else {
            return None;
        };
        let step = (i128::from(low), i128::from(high));
        let first = (i128::from(self.first.0), i128::from(self.first.1));
        let (stays, limit) = if low > 0 {
            compared.stays(self.stay, step, first, is_next)?
        } else if high < 0 {
            let back = |(low, high): (i128, i128)| (-high, -low);
            let stay = mirrored(self.stay)?;
            let (stays, limit) = compared.negative().stays(stay, back(step), back(first), is_next)?;
            (stays, limit.map(|limit| -limit))
        } else {
            return None;
        };
        let heads = u64::try_from(stays).ok()?.checked_add(1)?;
        // Where the low bits alone are compared, they are the number only if it has no others.
        let is_whole = !is_signed && (compared.bits == 64 || fits(value));
        let range = limit.filter(|_| is_whole).and_then(|limit| {
            let (from, to) = compared.value;
            let (from, to) = if low > 0 { (from, to.max(limit)) } else { (from.min(limit), to) };
            Some((u64::try_from(from).ok()?, u64::try_from(to).ok()?))
        });
        // What is kept of a narrow sum is the sum only as far as it fits.
        let range = range.filter(|range| !narrow || range.1 <= u64::from(u32::MAX));
        Some(Rounds { heads, range })
    }

    /// The same where each round shifts the place right: staying needs something left of it.
    fn rounds_of_shifts(&self, shifted: u8, value: Scalar, bound: Scalar) -> Option<Rounds> {
        let bound = if self.wide { bound } else { bound.low(32) };
        let least = match self.stay {
            jmp::JGT => bound.min.checked_add(1)?,
            jmp::JGE => bound.min,
            jmp::JNE if bound.as_constant() == Some(0) => 1,
            _ => return None,
        };
        let left =
            |round: u32| value.max.checked_shr(round * u32::from(shifted) + self.first.0.unsigned_abs());
        let stays = (0..64).take_while(|round| left(*round).is_some_and(|left| left >= least)).count();
        (least > 0).then_some(Rounds { heads: stays as u64 + 1, range: None })
    }
}

/// Two numbers that are compared, each somewhere in its range, as integers.
#[derive(Clone, Copy, Debug)]
struct Compared {
    bits: u32,
    /// The numbers that so many bits are.
    least: i128,
    most: i128,
    value: (i128, i128),
    bound: (i128, i128),
}

impl Compared {
    fn unsigned(bits: u32, value: Scalar, bound: Scalar) -> Compared {
        let range = |number: Scalar| {
            let number = number.low(bits);
            (i128::from(number.min), i128::from(number.max))
        };
        let most = (1i128 << bits) - 1;
        Compared { bits, least: 0, most, value: range(value), bound: range(bound) }
    }

    fn signed(bits: u32, value: Scalar, bound: Scalar) -> Compared {
        let range = |number: Scalar| {
            let number = number.sign_extended(bits);
            (i128::from(number.smin), i128::from(number.smax))
        };
        let half = 1i128 << (bits - 1);
        Compared { bits, least: -half, most: half - 1, value: range(value), bound: range(bound) }
    }

    /// Mirrored at 0, so that what goes down goes up.
    fn negative(self) -> Compared {
        let negative = |(low, high): (i128, i128)| (-high, -low);
        Compared {
            least: -self.most,
            most: -self.least,
            value: negative(self.value),
            bound: negative(self.bound),
            ..self
        }
    }

    /// How many rounds in a row may stay, where what is compared is the value and `first` more, and each round adds
    /// `step`, at least 1; and the highest value after such a round, if no round wraps. `is_next`: `first` is `step`,
    /// the same in each round.
    fn stays(
        self,
        stay: u8,
        step: (i128, i128),
        first: (i128, i128),
        is_next: bool,
    ) -> Option<(i128, Option<i128>)> {
        let (low, high) = self.value;
        match stay {
            jmp::JLT | jmp::JSLT | jmp::JLE | jmp::JSLE => {
                // Staying means to be below it.
                let end = self.bound.1 + i128::from(matches!(stay, jmp::JLE | jmp::JSLE));
                let last = if is_next { end - 1 } else { end - 1 - first.0 + step.1 };
                let is_inside =
                    low + first.0 >= self.least && high + first.1 <= self.most && last + first.1 <= self.most;
                let way = (end - low - first.0).max(0);
                is_inside.then_some(((way + step.0 - 1) / step.0, Some(last)))
            }
            jmp::JNE if step.0 == step.1 && first.0 == first.1 => {
                let (step, first) = (step.0, first.0);
                let shortest = self.bound.0 - high - first;
                let longest = self.bound.1 - low - first;
                let is_ahead = shortest >= 0 && low + first >= self.least;
                let is_exact = shortest == longest;
                if is_ahead && (step == 1 || is_exact && longest % step == 0) {
                    return Some((longest / step, Some(self.bound.1 - 1 - first + step)));
                }
                // Once around.
                let around = longest.rem_euclid(1i128 << self.bits);
                (is_exact && around % step == 0).then_some((around / step, None))
            }
            _ => None,
        }
    }
}

/// What the place holds at the head in any of so many rounds, where `value` is what it held at first.
pub(crate) fn in_rounds(value: Scalar, change: Change, heads: u64) -> Scalar {
    let (low, high, narrow) = match change {
        Change::Moved { low, high, narrow, .. } => (low, high, narrow),
        Change::AtMost { .. } => return Scalar::range(0, value.max),
        _ => return Scalar::UNKNOWN,
    };
    let Ok(rounds) = i64::try_from(heads - 1) else { return Scalar::UNKNOWN };
    let (Some(least), Some(most)) =
        (i64::from(low).min(0).checked_mul(rounds), i64::from(high).max(0).checked_mul(rounds))
    else {
        return Scalar::UNKNOWN;
    };
    let mut moved = Scalar::signed_range(least, most);
    if low == high && low != 0 {
        let mask = u64::MAX << low.trailing_zeros();
        let multiples = Scalar::from_bits(crate::tnum::Tnum { value: 0, mask });
        moved = moved.intersect(multiples).unwrap_or(moved);
    }
    let sum = crate::alu::add(value, moved);
    match narrow {
        false => sum,
        true if value.max <= u64::from(u32::MAX) => sum.low(32),
        true => Scalar::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::random::{Cases, Daily};

    use super::*;
    use crate::compare::compare;
    use crate::scalar::tests::{number, random};

    /// Loops of every kind from values near where something changes: no run of them reaches the head more often than
    /// counted, or with other values than said.
    #[test]
    fn counts_and_ranges_hold_for_every_run() {
        let daily = Daily { seed: 16, at_least: 30_000, at_most: 300_000, budget: Duration::from_secs(1) };
        let mut cases = Cases::of("WEIR_LOOPS_COUNTED", daily);
        let mut seed = cases.seed();
        let mut counted = 0;
        for _ in cases.by_ref() {
            counted += u64::from(check(&mut seed));
        }
        assert!(counted * 15 > cases.given(), "only {counted} loops were counted");
    }

    /// Places 1 and 2 of a loop that adds the second to the first, and 3, which holds the same as the first.
    struct Places([Scalar; 2]);

    impl AtEntry for Places {
        fn number(&self, place: u8) -> Option<Scalar> {
            match place {
                1 | 3 => Some(self.0[0]),
                2 => Some(self.0[1]),
                _ => None,
            }
        }

        fn hold_same(&self, one: u8, other: u8) -> bool {
            [one, other] == [1, 3] || one == other
        }
    }

    #[test]
    fn steps_by_another_place_are_counted() {
        let (mut seed, mut counted) = (17, 0);
        for _ in 0..30_000 {
            let (start, by) = (number(&mut seed), (random(&mut seed) % 12).wrapping_sub(4));
            let spread = |from: u64, seed: &mut u64| Some((from, from.checked_add(random(seed) % 4)?));
            let Some(((start, most), (by, most_by))) = spread(start, &mut seed).zip(spread(by, &mut seed))
            else {
                continue;
            };
            let narrow = random(&mut seed).is_multiple_of(3);
            let kept = [-64, -512, 64, 0xffff_ff00][random(&mut seed) as usize % 4];
            let is_part = random(&mut seed).is_multiple_of(3);
            let is_sum = is_part || random(&mut seed).is_multiple_of(2);
            let test = Test {
                of: 1,
                with: is_sum.then_some(2),
                kept: is_part.then_some(Bound::Constant(kept)),
                same: random(&mut seed).is_multiple_of(2).then_some(3),
                first: (0, 0),
                narrow: random(&mut seed).is_multiple_of(2),
                wide: random(&mut seed).is_multiple_of(2),
                stay: if is_part { jmp::JEQ } else { STAY[random(&mut seed) as usize % STAY.len()] },
                bound: Bound::Constant(if is_part {
                    0
                } else {
                    start.wrapping_add(random(&mut seed) % 99) as i64
                }),
            };
            let places = Places([Scalar::range(start, most), Scalar::range(by, most_by)]);
            let change = Change::Stepped { of: 1, by: 2, narrow };
            let Some(rounds) = test.rounds_from(change, &places) else { continue };
            counted += 1;
            let moved = in_rounds(places.0[0], change.at_entry(3, &places), rounds.heads);
            let step = by + random(&mut seed) % (most_by - by + 1);
            let mut value = start + random(&mut seed) % (most - start + 1);
            for round in 1..=300u64 {
                let text = || format!("round {round}: {test:?} {start:#x} {step:#x} {rounds:?} {value:#x}");
                assert!(round <= rounds.heads && moved.has(value), "{}", text());
                assert!(rounds.range.is_none_or(|(min, max)| (min..=max).contains(&value)), "{}", text());
                let sum = if is_sum { value.wrapping_add(step) } else { value };
                let sum = if test.narrow { sum as u32 as u64 } else { sum };
                let part = if is_part { sum & kept as u64 } else { sum };
                let Bound::Constant(bound) = test.bound else { unreachable!("set above") };
                let bound = Scalar::constant(bound as u64);
                if compare(test.stay, test.wide, Scalar::constant(part), bound).0.is_none() {
                    break;
                }
                value = value.wrapping_add(step);
                value = if narrow { value as u32 as u64 } else { value };
            }
        }
        assert!(counted > 2_000, "only {counted} loops were counted");
    }

    const STAY: [u8; 9] =
        [jmp::JNE, jmp::JGT, jmp::JGE, jmp::JLT, jmp::JLE, jmp::JSGT, jmp::JSGE, jmp::JSLT, jmp::JSLE];

    /// Whether the loop is counted.
    fn check(seed: &mut u64) -> bool {
        let small = |seed: &mut u64| (random(seed) % 9) as i32 - 4;
        let start = number(seed);
        let bound = if random(seed).is_multiple_of(2) {
            start.wrapping_add(random(seed) % 99).wrapping_sub(49)
        } else {
            number(seed)
        };
        let is_shift = random(seed).is_multiple_of(6);
        let (low, more) =
            (small(seed), if random(seed).is_multiple_of(2) { 0 } else { (random(seed) % 3) as i32 });
        let narrow = random(seed).is_multiple_of(2);
        let change = match is_shift {
            true => Change::AtMost { of: 1, shifted: 1 + (random(seed) % 9) as u8 },
            false => Change::Moved { of: 1, low, high: low + more, narrow },
        };
        let first = match is_shift {
            true => ((random(seed) % 3) as i32, 0),
            false => {
                let low = small(seed);
                (low, low + if random(seed).is_multiple_of(3) { 1 } else { 0 })
            }
        };
        let test = Test {
            of: 1,
            with: None,
            kept: None,
            same: None,
            first,
            narrow: !is_shift && random(seed).is_multiple_of(2),
            wide: random(seed).is_multiple_of(2),
            stay: STAY[random(seed) as usize % STAY.len()],
            bound: Bound::Constant(bound as i64),
        };
        // Entered with any number from `start` to a few more.
        let spread = if random(seed).is_multiple_of(2) { 0 } else { random(seed) % 5 };
        let Some(end) = start.checked_add(spread) else { return false };
        let entered = Scalar::range(start, end);
        let Some(Rounds { heads, range }) = test.rounds(change, entered, Scalar::constant(bound)) else {
            return false;
        };
        let held = in_rounds(entered, change, heads);
        let mut value = start + random(seed) % (spread + 1);
        for round in 1..=300u64 {
            let text = || {
                format!("{test:?} {change:?} {start:#x} {bound:#x}: {heads} {range:?} {held:?}, {value:#x}")
            };
            assert!(round <= heads && held.has(value), "round {round}: {}", text());
            assert!(range.is_none_or(|(min, max)| (min..=max).contains(&value)), "round {round}: {}", text());
            let any = |seed: &mut u64, (low, high): (i32, i32)| {
                i64::from(low) + (random(seed) % (high - low + 1) as u64) as i64
            };
            let compared = match is_shift {
                true => value >> test.first.0,
                false => value.wrapping_add(any(seed, test.first) as u64),
            };
            let compared = if test.narrow { u64::from(compared as u32) } else { compared };
            let (stays, _) =
                compare(test.stay, test.wide, Scalar::constant(compared), Scalar::constant(bound));
            if stays.is_none() {
                break;
            }
            value = match change {
                Change::AtMost { shifted, .. } => value >> shifted,
                Change::Moved { low, high, .. } => value.wrapping_add(any(seed, (low, high)) as u64),
                _ => value,
            };
            if narrow && !is_shift {
                value = u64::from(value as u32);
            }
        }
        true
    }
}
