//! Values and tests → instructions. A value is left in r0.

use super::Emitter;
use super::assemble::Label;
use super::guards::{BYTES_MAX, plain_end, reads};
use crate::TooLong;
use crate::ast::Operator;
use crate::graph::Target;
use crate::ir::{Comparison, Test, Value, ValueId, Width};

/// Numbers of a set that are compared one after another.
const LINEAR_MAX: usize = 4;

impl Emitter<'_> {
    /// Leaves a value in r0.
    pub(super) fn value(&mut self, id: ValueId) -> Result<(), TooLong> {
        if let Some(slot) = self.kept.get(&id) {
            self.code.fetch(0, *slot);
            return Ok(());
        }
        self.fresh(id)
    }

    /// Evaluates a value, even if it is kept.
    pub(super) fn fresh(&mut self, id: ValueId) -> Result<(), TooLong> {
        match *self.graph.values.get(id) {
            Value::Const(number) => self.code.set(0, number),
            // It stands on the right of a comparison alone.
            Value::Set(_) => self.code.jump(Label::of(Target::Reject)),
            // The field `len`, at offset 0.
            Value::Len => self.code.load(2, 0, 6, 0),
            // Captured packets have none. What follows is never reached, and is left out.
            Value::Metadata(_) => self.code.jump(Label::of(Target::Reject)),
            Value::Context(field) => self.code.load(2, 0, 6, super::context_offset(field.name())),
            Value::Upper(upper) => self.upper(upper)?,
            Value::Load { .. } => {
                self.raw_load(id)?;
                self.code.exchange_bytes(id_width(&self.graph.values, id), 0);
            }
            Value::HeaderLength { offset } => {
                self.byte(offset);
                self.code.and(0, 0xf);
                self.code.shift_left(0, 2);
            }
            Value::Negate(inner) => {
                self.value(inner)?;
                self.code.negate(0);
            }
            Value::Binary { operator, left, right, .. } => self.binary(operator, left, right)?,
            Value::If { test, then, otherwise } => self.choice(test, then, otherwise)?,
        }
        Ok(())
    }

    /// A byte at a constant offset.
    fn byte(&mut self, offset: u32) {
        match plain_end(offset, 1) {
            Some(_) => self.code.load(0, 0, 7, offset as i16),
            None => self.code.packet_load(None, offset, 1),
        }
    }

    /// Leaves the bytes of a load in r0, in the packet's order.
    fn raw_load(&mut self, id: ValueId) -> Result<(), TooLong> {
        let Value::Load { base, offset, width } = *self.graph.values.get(id) else { return self.value(id) };
        let size = size_of_width(width);
        match base {
            None if plain_end(offset, width.bytes()).is_some() => self.code.load(size, 0, 7, offset as i16),
            None => self.swapped_packet_load(None, offset, width),
            Some(base) => match (self.graph.values.get(base), plain_end(offset, width.bytes())) {
                (Value::HeaderLength { offset: header }, Some(end)) if *header < BYTES_MAX => {
                    self.point(*header);
                    self.code.need(9, end);
                    self.code.load(size, 0, 9, offset as i16);
                }
                _ => {
                    self.value(base)?;
                    self.code.copy32(1, 0);
                    self.swapped_packet_load(Some(1), offset, width);
                }
            },
        }
        Ok(())
    }

    /// `LD_IND` gives numbers; they are put back into the packet's order.
    fn swapped_packet_load(&mut self, base: Option<u8>, offset: u32, width: Width) {
        self.code.packet_load(base, offset, width.bytes());
        self.code.exchange_bytes(width, 0);
    }

    /// r9 becomes the packet's first byte and the length of the IPv4 header at `header`.
    fn point(&mut self, header: u32) {
        if self.pointer == Some(header) {
            return;
        }
        self.byte(header);
        self.code.and(0, 0xf);
        self.code.shift_left(0, 2);
        self.code.copy64(9, 7);
        self.code.add_register64(9, 0);
        self.pointer = Some(header);
    }

    fn binary(&mut self, operator: Operator, left: ValueId, right: ValueId) -> Result<(), TooLong> {
        if let Some(number) = self.graph.values.constant(right) {
            self.value(left)?;
            self.code.operate_constant(operator, number);
            return Ok(());
        }
        self.pair(left, right)?;
        self.code.operate(operator);
        Ok(())
    }

    /// Leaves `left` in r0 and `right` in r1.
    fn pair(&mut self, left: ValueId, right: ValueId) -> Result<(), TooLong> {
        self.value(right)?;
        if self.is_simple(left) {
            self.code.copy32(1, 0);
            return self.value(left);
        }
        let slot = self.slot()?;
        self.code.store(slot, 0);
        self.value(left)?;
        self.code.fetch(1, slot);
        self.in_use -= 1;
        Ok(())
    }

    /// Whether evaluating the value leaves r1 alone.
    fn is_simple(&self, id: ValueId) -> bool {
        match *self.graph.values.get(id) {
            Value::Const(_) | Value::Len => true,
            Value::Load { base: None, offset, width } => plain_end(offset, width.bytes()).is_some(),
            _ => false,
        }
    }

    fn choice(&mut self, test: Test, then: ValueId, otherwise: ValueId) -> Result<(), TooLong> {
        let (yes, no, end) = (self.code.label(), self.code.label(), self.code.label());
        self.compare(test, yes, no, Some(yes))?;
        self.code.place(yes);
        self.checked_value(then)?;
        self.code.jump(end);
        self.code.place(no);
        self.pointer = None;
        self.checked_value(otherwise)?;
        self.code.place(end);
        self.pointer = None;
        Ok(())
    }

    /// A value that is evaluated on one of two ways: the node's check does not cover its loads.
    fn checked_value(&mut self, id: ValueId) -> Result<(), TooLong> {
        let end = reads(self.graph, id);
        if end > 0 {
            self.code.need(7, end);
        }
        self.value(id)
    }

    /// Goes on at `yes` or `no`, of which `next` may follow at once.
    pub(super) fn test(
        &mut self,
        test: Test,
        yes: Target,
        no: Target,
        next: Option<Target>,
    ) -> Result<(), TooLong> {
        self.compare(test, Label::of(yes), Label::of(no), next.map(Label::of))
    }

    fn compare(&mut self, test: Test, yes: Label, no: Label, next: Option<Label>) -> Result<(), TooLong> {
        let Test { comparison, left, right, .. } = test;
        if let Value::Set(numbers) = self.graph.values.get(right) {
            return self.one_of(left, numbers, yes, no, next);
        }
        if let Some(number) = self.graph.values.constant(right) {
            let keeps_order = matches!(comparison, Comparison::Eq | Comparison::Set);
            match self.wire_order(left).filter(|_| keeps_order) {
                Some((load, mask, width)) => {
                    // A number that the load cannot have is no constant of its width.
                    self.raw_load(load)?;
                    if comparison == Comparison::Eq && !fits(number, width) {
                        self.code.jump(no);
                        return Ok(());
                    }
                    if let Some(mask) = mask {
                        self.code.and(0, swapped(mask, width));
                    }
                    self.code.branch(comparison, swapped(number, width), yes, no, next);
                }
                None => {
                    self.value(left)?;
                    self.code.branch(comparison, number, yes, no, next);
                }
            }
            return Ok(());
        }
        self.pair(left, right)?;
        self.code.branch_registers(comparison, yes, no, next);
        Ok(())
    }

    /// Whether a value is one of `numbers`: halves are compared until few are left. All of it is in the packet's byte order, if it can be.
    fn one_of(
        &mut self,
        left: ValueId,
        numbers: &[u32],
        yes: Label,
        no: Label,
        next: Option<Label>,
    ) -> Result<(), TooLong> {
        let mut numbers = numbers.to_vec();
        match *self.graph.values.get(left) {
            Value::Load { width, .. } if !self.kept.contains_key(&left) => {
                self.raw_load(left)?;
                numbers.retain(|number| fits(*number, width));
                numbers.iter_mut().for_each(|number| *number = swapped(*number, width));
                numbers.sort_unstable();
            }
            _ => self.value(left)?,
        }
        let mut rest = vec![(numbers.as_slice(), None)];
        while let Some((numbers, place)) = rest.pop() {
            if let Some(place) = place {
                self.code.place(place);
            }
            let mut numbers = numbers;
            while numbers.len() > LINEAR_MAX {
                let (low, high) = numbers.split_at(numbers.len() / 2);
                let above = self.code.label();
                self.code.jump_if_above(0, low[low.len() - 1], above);
                rest.push((high, Some(above)));
                numbers = low;
            }
            for number in numbers {
                self.code.jump_if_equal(0, *number, yes);
            }
            if !rest.is_empty() || next != Some(no) {
                self.code.jump(no);
            }
        }
        Ok(())
    }

    /// A load, or one with a mask, that can be compared in the packet's byte order.
    fn wire_order(&self, id: ValueId) -> Option<(ValueId, Option<u32>, Width)> {
        match *self.graph.values.get(id) {
            Value::Load { width, .. } => Some((id, None, width)),
            Value::Binary { operator: Operator::And, left, right, .. } => {
                let Value::Load { width, .. } = *self.graph.values.get(left) else { return None };
                let is_kept = self.kept.contains_key(&id);
                Some((left, Some(self.graph.values.constant(right)?), width)).filter(|_| !is_kept)
            }
            _ => None,
        }
    }
}

fn id_width(values: &crate::ir::Values, id: ValueId) -> Width {
    match *values.get(id) {
        Value::Load { width, .. } => width,
        _ => Width::Byte,
    }
}

/// The code of a width in eBPF's load instructions: 0 a byte, 1 a half, 2 a word.
fn size_of_width(width: Width) -> u8 {
    match width {
        Width::Byte => 0,
        Width::Half => 1,
        Width::Word => 2,
    }
}

/// Whether a load can give the number.
fn fits(number: u32, width: Width) -> bool {
    width == Width::Word || number >> (8 * width.bytes()) == 0
}

fn swapped(number: u32, width: Width) -> u32 {
    match width {
        Width::Byte => number & 0xff,
        Width::Half => u32::from((number as u16).swap_bytes()),
        Width::Word => number.swap_bytes(),
    }
}
