//! Linked numbers (`links`) in states and along paths: what a comparison says of others, and which links it rests on.
//!
//! What rests on a link is marked on the nodes above the path, as reads are ([`Walk::rests_on_link`]): a state that is to be
//! covered needs those links that are marked, and no others. Where a linked number is copied, or moved on, its own link is
//! marked, since what is found out of the copy rests on it.

use weir_ebpf::insn::{alu, jmp};

use crate::compare::{Outcome, compare};
use crate::decode::Operand;
use crate::explore::{Path, Walk};
use crate::links::{self, Form, Link, Numbers as _, Spot, base_of, member_of};
use crate::places::{register_place, slot_of};
use crate::scalar::Scalar;
use crate::state::{StackAt, State, Value};
use crate::tnum::Tnum;

/// A number that another one said something of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learned {
    pub(crate) frame: usize,
    pub(crate) spot: Spot,
    pub(crate) number: Scalar,
}

impl State {
    /// What `register`, now known to be in `number`, says of others. Of one that no number fits any more it says
    /// nothing: that nobody comes here would rest on that one's number, which may be one that does not matter.
    fn learned(&self, register: u8, number: Scalar) -> Vec<Learned> {
        let (frame, spot) = (self.depth(), Spot::Register(register));
        let mut learned = Vec::new();
        let Some(link) = self.links.of(frame, spot) else { return learned };
        let base = base_of(link, number);
        for (frame, spot, other) in self.links.others(frame, spot, link) {
            let Some(old) = self.linked_at(frame, spot) else { continue };
            let is_whole = link.form == Form::Whole;
            if let Some(number) = member_of(other, base, is_whole, old).filter(|number| *number != old) {
                learned.push(Learned { frame, spot, number });
            }
        }
        learned
    }

    /// The two, of the innermost frame, hold the same number; or certainly do not.
    pub(crate) fn are_same(&self, one: Spot, two: Spot) -> Option<bool> {
        if one == two {
            return Some(true);
        }
        let of = |spot: Spot| self.links.of(self.depth(), spot);
        let (one, two) = (of(one)?, of(two)?);
        if (one.id, one.form) != (two.id, two.form) {
            return None;
        }
        let between = one.add.wrapping_sub(two.add);
        match (between, one.form) {
            (0, _) => Some(true),
            (_, Form::Whole) => Some(false),
            _ if between as u32 == 0 => Some(true),
            _ => Some(false),
        }
    }

    /// `one - two`, where that is a constant: of all 64 bits, or of the low half.
    pub(crate) fn distance(&self, one: u8, two: u8, wide: bool) -> Option<u64> {
        if one == two {
            return Some(0);
        }
        let of = |register: u8| self.links.of(self.depth(), Spot::Register(register));
        let (one, two) = (of(one)?, of(two)?);
        let is_raised = [one, two].iter().any(|link| matches!(link.form, Form::Raised { .. }));
        if one.id != two.id || is_raised || wide && (one.form, two.form) != (Form::Whole, Form::Whole) {
            return None;
        }
        let between = one.add.wrapping_sub(two.add);
        Some(if wide { between } else { between & u64::from(u32::MAX) })
    }
}

impl Walk<'_> {
    /// The link of a number that is about to be copied from `spot`: its own, or that of a new class.
    pub(crate) fn link_of(&mut self, path: &mut Path, frame: usize, spot: Spot) -> Link {
        if let Some(link) = path.state.links.of(frame, spot) {
            // What is found out of the copy may rest on what the number was linked with before.
            self.rests_on_link(path, frame, spot.place());
            return link;
        }
        let low_bits = path.state.number_at(frame, spot).map_or(Tnum::UNKNOWN, |number| number.bits.low(32));
        // What was shifted up by 32 bits may come down again, in this copy and in others.
        let form = if low_bits == Tnum::constant(0) { Form::Raised { by: 32, plus: 0 } } else { Form::Whole };
        let link = Link { id: self.new_id(), form, add: 0 };
        path.state.links.set(frame, spot, link);
        link
    }

    /// What the operands of a comparison, now known to be in these, say of others.
    pub(crate) fn learned(&mut self, path: &Path, operands: [(Option<u8>, Scalar); 2]) -> Vec<Learned> {
        let mut all = Vec::new();
        if path.state.links.is_empty() {
            return all;
        }
        for (register, number) in operands {
            let Some(register) = register else { continue };
            let learned = path.state.learned(register, number);
            if !learned.is_empty() {
                self.rests_on_link(path, path.state.depth(), register_place(register));
            }
            for other in &learned {
                self.rests_on_link(path, other.frame, other.spot.place());
            }
            all.extend(learned);
        }
        all
    }

    /// A comparison of a value with itself, or with a copy of it: decided by that alone.
    pub(crate) fn compare_same(
        &mut self,
        path: &Path,
        operation: u8,
        wide: bool,
        dst: u8,
        src: Operand,
        left: Value,
    ) -> Option<(Outcome, Outcome)> {
        let register = src.register()?;
        let is_same = path.state.are_same(Spot::Register(dst), Spot::Register(register))?;
        let (number, right) = match (left, path.state.registers[usize::from(register)]) {
            (Value::Scalar(number), Value::Scalar(right)) => (number, right),
            _ => return None,
        };
        let holds = match operation {
            jmp::JEQ | jmp::JNE if !is_same && wide => operation == jmp::JNE,
            _ if !is_same => return None,
            _ => match of_same(operation) {
                Some(holds) => holds,
                // Whether it has any bit.
                None => {
                    let (some, none) = compare(jmp::JNE, wide, number, Scalar::constant(0));
                    let both = |outcome: Outcome| outcome.map(|(number, _)| (number, number));
                    return (dst == register).then(|| (both(some), both(none)));
                }
            },
        };
        if dst != register {
            self.rests_on_link(path, path.state.depth(), register_place(dst) | register_place(register));
        }
        let way = Some((number, right));
        Some(if holds { (way, None) } else { (None, way) })
    }

    /// The link of what the instruction leaves in `dst`, if it is a number that is linked with others, or a pointer that
    /// was moved by one.
    pub(crate) fn link_after(
        &mut self,
        path: &mut Path,
        operation: u8,
        off: i16,
        wide: bool,
        dst: u8,
        src: Operand,
    ) -> Option<Link> {
        let depth = path.state.depth();
        if operation == alu::MOV {
            let register = src.register()?;
            let spot = Spot::Register(register);
            let moved = path.state.linked_at(depth, spot)?;
            let is_alone = path.state.links.of(depth, spot).is_none();
            if moved.as_constant().is_some() || !matches!((off, wide), (0, _) | (32, true)) {
                return None;
            }
            if is_alone && (register == dst || path.state.is_pointer(depth, spot)) {
                return None;
            }
            let link = self.link_of(path, depth, spot);
            return links::after(link, moved, operation, off, wide, 0);
        }
        let of = |operand: Operand| match operand {
            Operand::Immediate(value) => (Some(Operand::immediate(value)), false),
            Operand::Register(register) => {
                let spot = Spot::Register(register);
                (path.state.linked_at(depth, spot), path.state.is_pointer(depth, spot))
            }
        };
        let ((held, moves_pointer), (by, by_pointer)) = (of(Operand::Register(dst)), of(src));
        let (held, by) = (held?, by?);
        let is_pointer_sum = wide && (operation == alu::ADD || operation == alu::SUB && !by_pointer);
        if (moves_pointer || by_pointer) && !is_pointer_sum {
            return None;
        }
        if let Some(by) = by.as_constant() {
            let link = path.state.links.of(depth, Spot::Register(dst))?;
            let after = links::after(link, held, operation, off, wide, by).or_else(|| {
                let apart = match operation {
                    alu::ADD | alu::SUB => self.with_its_copies(path, dst, link)?,
                    _ => return None,
                };
                links::after(apart, held, operation, off, wide, by)
            })?;
            // What is found out of the result may rest on what the number was linked with before.
            self.rests_on_link(path, depth, register_place(dst));
            return Some(after);
        }
        // A constant place in an object, moved by a number.
        let place = held.as_constant().filter(|_| moves_pointer && operation == alu::ADD)?;
        let link = self.link_of(path, depth, Spot::Register(src.register()?));
        links::after(link, by, operation, off, wide, place)
    }

    /// The link of `dst` in a new class, with its exact copies, which leave theirs. For what the link that it has cannot say:
    /// a copy that is moved, of a number that another one is the low half of, to see whether it is in a range.
    fn with_its_copies(&mut self, path: &mut Path, dst: u8, link: Link) -> Option<Link> {
        let (depth, spot) = (path.state.depth(), Spot::Register(dst));
        let others = path.state.links.others(depth, spot, link);
        let copies: Vec<(usize, Spot)> =
            others.filter(|(.., other)| *other == link).map(|(frame, spot, _)| (frame, spot)).collect();
        if copies.is_empty() {
            return None;
        }
        let apart = Link { id: self.new_id(), form: Form::Whole, add: 0 };
        for (frame, copy) in copies {
            self.rests_on_link(path, frame, copy.place());
            path.state.links.cut(frame, |spot| spot == copy);
            path.state.links.set(frame, copy, apart);
        }
        Some(apart)
    }

    /// The link of what is loaded from `at`.
    pub(crate) fn link_of_stack(
        &mut self,
        path: &mut Path,
        at: StackAt,
        bytes: u32,
        sign_extend: bool,
    ) -> Option<Link> {
        let (frame, slot) = (usize::from(at.frame), slot_of(at.off) as u8);
        let (whole, high) = (Spot::Slot(slot), at.off.rem_euclid(8) >= 4);
        let half = Spot::Half { slot, high };
        let is_linked = |spot: Spot| path.state.links.of(frame, spot).is_some();
        let (spot, wide) = match bytes {
            8 => (whole, true),
            // The low half of a number that was stored whole.
            4 if !high && is_linked(whole) => (whole, false),
            4 => (half, true),
            _ => return None,
        };
        let number = path.state.number_at(frame, spot)?;
        if number.as_constant().is_some() {
            return None;
        }
        let link = self.link_of(path, frame, spot);
        if sign_extend {
            return links::after(link, number, alu::MOV, 32, true, 0);
        }
        links::after(link, number, alu::MOV, 0, wide, 0)
    }

    /// The link of what is about to be stored at `at`, and what it is there.
    pub(crate) fn link_spilled(
        &mut self,
        path: &mut Path,
        from: Operand,
        number: Scalar,
        at: StackAt,
        bytes: u32,
    ) -> Option<(Spot, Link)> {
        let register = from.register()?;
        let slot = slot_of(at.off) as u8;
        let spot = match bytes {
            8 => Spot::Slot(slot),
            4 => Spot::Half { slot, high: at.off.rem_euclid(8) >= 4 },
            _ => return None,
        };
        if number.as_constant().is_some() {
            return None;
        }
        let link = self.link_of(path, path.state.depth(), Spot::Register(register));
        Some((spot, links::after(link, number, alu::MOV, 0, bytes == 8, 0)?))
    }
}

/// Whether a value compares so with itself; none where that depends on the value.
pub(crate) fn of_same(operation: u8) -> Option<bool> {
    match operation {
        jmp::JSET => None,
        _ => Some(matches!(operation, jmp::JEQ | jmp::JGE | jmp::JLE | jmp::JSGE | jmp::JSLE)),
    }
}

/// `register` holds a number that is linked so, if it does.
pub(crate) fn link_register(path: &mut Path, register: u8, link: Option<Link>) {
    let (depth, spot) = (path.state.depth(), Spot::Register(register));
    if let Some(link) = link
        && path.state.linked_at(depth, spot).is_some()
    {
        path.state.links.set(depth, spot, link);
    }
}
