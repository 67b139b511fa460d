//! Numbers of which one says what others are: copies, also moved by a constant, cut to 32 bits, and shifted left; and
//! how far pointers are that were moved by such a number.
//!
//! In: moves, additions of constants, shifts, spills and fills, as they happen. Out: where a comparison narrows one of such
//! numbers, what it says of the others. A class of linked numbers has a base that nobody knows; each member is the base
//! plus a constant, in one of a few [`Form`]s.
//!
//! That a state has a link is part of what it claims: one that is to be covered by it must have it too, as far as what
//! was found out after it rests on it (`linked`, `explore`).

use crate::alu::apply;
use crate::places::{FramePlaces, register_place};
use crate::scalar::Scalar;
use crate::tnum::Tnum;
use weir_ebpf::insn::alu;

/// A place that holds a number, or a pointer that was moved by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spot {
    Register(u8),
    /// 8 bytes of stack, by slot.
    Slot(u8),
    /// 4 bytes of them.
    Half {
        slot: u8,
        high: bool,
    },
}

impl Spot {
    pub(crate) fn place(self) -> FramePlaces {
        match self {
            Spot::Register(register) => register_place(register),
            Spot::Slot(slot) | Spot::Half { slot, .. } => 1 << slot,
        }
    }
}

/// What a member is of the sum of its base and its constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Whole,
    /// The low 32 bits.
    Low,
    /// The low 32 bits, `by` (1 to 32) bits higher, and `plus`, below 2^by, in the bits that are free then: an index made
    /// an offset. 32 is half of how programs without 32-bit registers cut a number.
    Raised {
        by: u8,
        plus: u32,
    },
    /// The low 32 bits, extended by their sign.
    Signed,
}

/// What a number is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// Of the class, and of no other on any path.
    pub(crate) id: u32,
    pub(crate) form: Form,
    pub(crate) add: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Member {
    frame: u8,
    spot: Spot,
    link: Link,
}

/// A state, as far as this is concerned.
pub(crate) trait Numbers {
    fn links(&self) -> &Links;

    /// The number at this place of a frame; of a pointer, how far it is from where its object begins.
    fn linked_at(&self, frame: usize, spot: Spot) -> Option<Scalar>;

    /// The frame's place holds a pointer.
    fn is_pointer(&self, frame: usize, spot: Spot) -> bool;
}

/// The numbers of a state that are linked; each is in one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Member>);

impl Links {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of(&self, frame: usize, spot: Spot) -> Option<Link> {
        let found = self.0.iter().find(|member| (usize::from(member.frame), member.spot) == (frame, spot));
        found.map(|member| member.link)
    }

    pub(crate) fn set(&mut self, frame: usize, spot: Spot, link: Link) {
        self.0.push(Member { frame: frame as u8, spot, link });
    }

    /// What stood there is something else now.
    pub(crate) fn cut(&mut self, frame: usize, gone: impl Fn(Spot) -> bool) {
        self.0.retain(|member| usize::from(member.frame) != frame || !gone(member.spot));
    }

    /// Members of which nothing says anything any more.
    pub(crate) fn drop_alone(&mut self) {
        let is_alone =
            |member: &Member| self.0.iter().filter(|other| other.link.id == member.link.id).count() == 1;
        if self.0.iter().any(is_alone) {
            let kept = self.0.iter().copied().filter(|member| !is_alone(member)).collect();
            self.0 = kept;
        }
    }

    /// The others of its class: frame, place and link of each.
    pub(crate) fn others(
        &self,
        frame: usize,
        spot: Spot,
        link: Link,
    ) -> impl Iterator<Item = (usize, Spot, Link)> {
        let is_other = move |member: &&Member| {
            member.link.id == link.id && (usize::from(member.frame), member.spot) != (frame, spot)
        };
        self.0.iter().filter(is_other).map(|member| (member.frame.into(), member.spot, member.link))
    }

    /// Those that hold in `other` too, and that numbers of `both` fit, which is made of the two: what a form says of a
    /// number by itself must be in its bounds, where states are compared by it.
    pub(crate) fn common(&self, other: &impl Numbers, both: &impl Numbers) -> Links {
        let mut kept: Vec<Member> = Vec::new();
        for member in &self.0 {
            // With the first of its class; who differs from that one is left out.
            let first = kept.iter().find(|kept| kept.link.id == member.link.id);
            if fits(both, member) && first.is_none_or(|first| holds(other, first, member)) {
                kept.push(*member);
            }
        }
        let mut links = Links(kept);
        links.drop_alone();
        links
    }

    /// All that is linked here among the `places` of a frame, asked for each spot, is so in `new`.
    pub(crate) fn cover(&self, new: &impl Numbers, places: impl Fn(usize, Spot) -> FramePlaces) -> bool {
        let mut wanted = self
            .0
            .iter()
            .filter(|member| places(member.frame.into(), member.spot) & member.spot.place() != 0);
        let mut firsts: Vec<&Member> = Vec::new();
        wanted.all(|member| match firsts.iter().find(|first| first.link.id == member.link.id) {
            Some(first) => holds(new, first, member),
            None => {
                firsts.push(member);
                true
            }
        })
    }
}

/// The member's number is one that its form has.
fn fits(state: &impl Numbers, member: &Member) -> bool {
    let Some(number) = state.linked_at(member.frame.into(), member.spot) else { return false };
    match member.link.form {
        Form::Whole => true,
        Form::Low => number.max <= u32::MAX.into(),
        Form::Signed => number.smin >= i32::MIN.into() && number.smax <= i32::MAX.into(),
        Form::Raised { by, plus } => is_raised(number, by, plus.into()),
    }
}

/// Some 32-bit number, shifted left, and `plus`.
fn is_raised(number: Scalar, by: u8, plus: u64) -> bool {
    number.bits.low(by.into()) == Tnum::constant(plus) && number.max <= (u64::from(u32::MAX) << by) + plus
}

/// What links two members of a class links them in `state`.
fn holds(state: &impl Numbers, first: &Member, second: &Member) -> bool {
    let in_state = |member: &Member| state.links().of(member.frame.into(), member.spot);
    if let (Some(one), Some(two)) = (in_state(first), in_state(second)) {
        return one.id == two.id
            && (one.form, two.form) == (first.link.form, second.link.form)
            && two.add.wrapping_sub(one.add) == second.link.add.wrapping_sub(first.link.add);
    }
    // Constants have no links: they are what they are.
    let constant = |member: &Member| state.linked_at(member.frame.into(), member.spot)?.as_constant();
    match (constant(first), constant(second)) {
        (Some(one), Some(two)) => {
            let known = base_of(first.link, Scalar::constant(one));
            let is_whole = first.link.form == Form::Whole;
            (is_whole || second.link.form != Form::Whole)
                && member_of(second.link, known, is_whole, Scalar::UNKNOWN)
                    .is_some_and(|number| number.as_constant() == Some(two))
        }
        _ => false,
    }
}

/// What a member's number says of the base: of its low half alone, unless the member is whole.
pub(crate) fn base_of(link: Link, number: Scalar) -> Scalar {
    let by = Scalar::constant(link.add);
    match link.form {
        Form::Whole => apply(alu::SUB, 0, true, number, by),
        Form::Low | Form::Signed => apply(alu::SUB, 0, false, number, by),
        Form::Raised { by: raised, .. } => {
            let number = apply(alu::RSH, 0, true, number, Scalar::constant(raised.into()));
            apply(alu::SUB, 0, false, number, by)
        }
    }
}

/// What the base says of a member, which was known to be in `old`; `is_whole`: it is more than a low half. None where
/// nothing fits both.
pub(crate) fn member_of(link: Link, base: Scalar, is_whole: bool, old: Scalar) -> Option<Scalar> {
    let by = Scalar::constant(link.add);
    if link.form == Form::Whole && is_whole {
        return old.intersect(apply(alu::ADD, 0, true, base, by));
    }
    let low = apply(alu::ADD, 0, false, base, by);
    match link.form {
        Form::Whole => old.with_low_half(low),
        Form::Low => old.intersect(low),
        Form::Signed => old.intersect(low.sign_extended(32)),
        Form::Raised { by, plus } => {
            let raised = apply(alu::LSH, 0, true, low, Scalar::constant(by.into()));
            old.intersect(apply(alu::ADD, 0, true, raised, Scalar::constant(plus.into())))
        }
    }
}

/// What an instruction makes of a linked number: `number` is what it had.
pub(crate) fn after(
    link: Link,
    number: Scalar,
    operation: u8,
    off: i16,
    wide: bool,
    by: u64,
) -> Option<Link> {
    let form = link.form;
    let to = |form: Form| Some(Link { form, ..link });
    let low = || match form {
        _ if in_32(number) => Some(link),
        Form::Whole | Form::Low | Form::Signed => to(Form::Low),
        Form::Raised { .. } => None,
    };
    match (operation, off, wide) {
        (alu::MOV, 0, true) => Some(link),
        (alu::MOV, 0, false) => low(),
        (alu::MOV, 32, true) => match form {
            _ if in_signed_32(number) => Some(link),
            Form::Whole | Form::Low | Form::Signed => to(Form::Signed),
            Form::Raised { .. } => None,
        },
        (alu::AND, _, true) if by == u32::MAX.into() => low(),
        // Takes no bit that it may have.
        (alu::AND, ..) if !by & (number.bits.value | number.bits.mask) == 0 && (wide || in_32(number)) => {
            Some(link)
        }
        (alu::LSH, ..) => shifted_left(link, number, wide, u8::try_from(by).ok()?),
        (alu::RSH | alu::ARSH, _, true) => match form {
            Form::Raised { by: 32, .. } if by == 32 && operation == alu::ARSH => to(Form::Signed),
            Form::Raised { by: raised, .. } if by == raised.into() => to(Form::Low),
            _ => None,
        },
        // Adds bits that it certainly does not have.
        (alu::OR, ..) if by & (number.bits.value | number.bits.mask) == 0 => plus(link, number, wide, by),
        (alu::ADD, ..) => plus(link, number, wide, by),
        (alu::SUB, ..) => plus(link, number, wide, by.wrapping_neg()),
        _ => None,
    }
}

fn in_32(number: Scalar) -> bool {
    number.max <= u32::MAX.into()
}

fn in_signed_32(number: Scalar) -> bool {
    number.smin >= i32::MIN.into() && number.smax <= i32::MAX.into()
}

/// Bits that are shifted out are lost, but of a number that keeps no more than 32.
fn shifted_left(link: Link, number: Scalar, wide: bool, by: u8) -> Option<Link> {
    let is_whole = in_32(number) && (wide || number.max << by.min(32) <= u32::MAX.into());
    let (by, plus) = match link.form {
        Form::Whole | Form::Low if (1..=32).contains(&by) && is_whole => (by, 0),
        Form::Whole | Form::Low | Form::Signed if by == 32 && wide => (by, 0),
        Form::Raised { by: before, plus } if before + by.min(32) <= 32 && is_whole => {
            (before + by, plus << by)
        }
        _ => return None,
    };
    Some(Link { form: Form::Raised { by, plus }, ..link })
}

fn plus(link: Link, number: Scalar, wide: bool, by: u64) -> Option<Link> {
    let Link { form, add, .. } = link;
    let sum = Link { add: add.wrapping_add(by), ..link };
    let moved = apply(alu::ADD, 0, true, number, Scalar::constant(by));
    // A sum that stays in 32 bits, whatever the number, has no carry out of them.
    match (form, wide) {
        (Form::Whole, true) => Some(sum),
        (Form::Low, true) => (in_32(number) && in_32(moved)).then_some(sum),
        (Form::Signed, true) => (in_signed_32(number) && in_signed_32(moved)).then_some(sum),
        (Form::Raised { by: 32, .. }, true) => {
            (by as u32 == 0).then(|| Link { add: add.wrapping_add(by >> 32), ..link })
        }
        (Form::Raised { by: raised, plus }, _) => {
            let total = by.wrapping_add(plus.into());
            let left = total & ((1 << raised) - 1);
            let is_so = |number, plus| is_raised(number, raised, plus) && (wide || in_32(number));
            let raised_by = (total as i64 >> raised) as u64;
            let sum = Link {
                form: Form::Raised { by: raised, plus: left as u32 },
                add: add.wrapping_add(raised_by),
                ..link
            };
            (raised < 32 && is_so(number, plus.into()) && is_so(moved, left)).then_some(sum)
        }
        (Form::Whole, false) if in_32(number) && in_32(moved) => Some(sum),
        (Form::Whole | Form::Low | Form::Signed, false) => Some(Link { form: Form::Low, ..sum }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alu::exact;
    use crate::scalar::tests::{number, random, sample};

    const FORMS: [Form; 7] =
        [Form::Whole, Form::Low, raised(32, 0), Form::Signed, raised(1, 0), raised(1, 1), raised(5, 9)];

    const fn raised(by: u8, plus: u32) -> Form {
        Form::Raised { by, plus }
    }

    fn link(seed: &mut u64) -> Link {
        let add = if random(seed).is_multiple_of(3) { 0 } else { number(seed) };
        Link { id: 1, form: FORMS[random(seed) as usize % FORMS.len()], add }
    }

    /// What the member is, by the definition of its form.
    fn value(link: Link, base: u64) -> u64 {
        let sum = base.wrapping_add(link.add);
        match link.form {
            Form::Whole => sum,
            Form::Low => sum as u32 as u64,
            Form::Raised { by, plus } => (u64::from(sum as u32) << by) + u64::from(plus),
            Form::Signed => sum as i32 as u64,
        }
    }

    /// A scalar that holds `number`, and some others.
    fn around(number: u64, seed: &mut u64) -> Scalar {
        let joined =
            sample(seed).0.tightened().map_or(Scalar::UNKNOWN, |other| other.join(Scalar::constant(number)));
        match random(seed) % 4 {
            0 => Scalar::UNKNOWN,
            1 => Scalar::constant(number),
            _ => joined,
        }
    }

    #[test]
    fn what_a_member_says_of_another_holds() {
        let mut seed = 41;
        for _ in 0..300_000 {
            let (base, one, two) = (number(&mut seed), link(&mut seed), link(&mut seed));
            let (of_one, of_two) = (value(one, base), value(two, base));
            let known = around(of_one, &mut seed);
            let found =
                member_of(two, base_of(one, known), one.form == Form::Whole, around(of_two, &mut seed));
            assert!(
                found.is_some_and(|found| found.has(of_two)),
                "{base:#x} {one:?} {two:?} {known:?}: {found:?}"
            );
        }
    }

    /// A copy's bound is its original's, in each form that programs give it.
    #[test]
    fn bounds_go_over_to_copies() {
        let bound = Scalar::range(3, 20);
        for form in FORMS {
            let (whole, other) = (Link { id: 1, form: Form::Whole, add: 0 }, Link { id: 1, form, add: 5 });
            let of_other = member_of(other, base_of(whole, bound), true, Scalar::UNKNOWN);
            let (by, plus) = if let Form::Raised { by, plus } = form { (by, plus.into()) } else { (0, 0) };
            let expected = ((8 << by) + plus, (25 << by) + plus);
            assert_eq!(of_other.map(|found| (found.min, found.max)), Some(expected), "{form:?}");
            let Some(of_other) = of_other else { continue };
            let back = member_of(whole, base_of(other, of_other), false, Scalar::UNKNOWN.low(32));
            assert_eq!(back.map(|found| (found.min, found.max)), Some((3, 20)), "{form:?}");
        }
    }

    #[test]
    fn what_an_instruction_leaves_is_what_its_link_says() {
        let operations = [
            (alu::MOV, 0),
            (alu::MOV, 32),
            (alu::ADD, 0),
            (alu::SUB, 0),
            (alu::AND, 0),
            (alu::OR, 0),
            (alu::LSH, 0),
            (alu::RSH, 0),
            (alu::ARSH, 0),
        ];
        let (mut seed, mut linked) = (42, 0);
        for _ in 0..300_000 {
            let (base, before) = (number(&mut seed), link(&mut seed));
            let had = value(before, base);
            let (operation, off) = operations[random(&mut seed) as usize % operations.len()];
            let wide = off == 32 || random(&mut seed).is_multiple_of(2);
            let by = match random(&mut seed) % 4 {
                0 => 32,
                1 => u32::MAX.into(),
                2 => random(&mut seed) % 64,
                _ => number(&mut seed),
            };
            let Some(left) = after(before, around(had, &mut seed), operation, off, wide, by) else {
                continue;
            };
            let src = if operation == alu::MOV { had } else { by };
            let has = exact(operation, off, wide, had, src);
            assert_eq!(
                has,
                value(left, base),
                "{operation:#x}/{off} {wide} {by:#x} {base:#x}: {before:?} {left:?}"
            );
            linked += 1;
        }
        assert!(linked > 50_000, "hardly anything is linked afterwards");
    }
}
