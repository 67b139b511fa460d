//! Values that are looked for among constants: lists, and the labels of enumerations.
//!
//! Whole numbers are ranges that lie apart: a few are compared one after the other, more are halved first. Doubles are compared by their
//! keys ([`double`](super::double)). Strings are compared one after the other.

use weir_ir::{BinOp, CmpOp, Value};

use crate::ast::{NodeId, Pattern};
use crate::check::{Kind, Set};
use crate::lower::double::key_of;
use crate::lower::{Lowering, Ways};

/// Ranges up to this many are not halved.
const COMPARED_ONE_BY_ONE: usize = 4;

impl Lowering<'_> {
    /// Whether the number, or string, is in the set of this node; or, with `negate`, whether it is none of them.
    pub(super) fn is_in_set(&mut self, id: NodeId, operand: NodeId, negate: bool) -> Ways {
        let checked = self.checked;
        let before = self.errors.len();
        let mut ways = Ways::default();
        match &checked.sets[&id] {
            Set::Ints(ranges) => {
                let value = self.value(operand);
                self.in_ranges(value, ranges, self.is_signed(operand), &mut ways);
            }
            Set::Doubles(ranges) => {
                let value = self.double(operand);
                self.in_double_ranges(value, ranges, &mut ways);
            }
            Set::Strings(patterns) => return self.is_one_of(operand, patterns),
        }
        let mut ways = if negate { ways.negated() } else { ways };
        ways.no.extend(self.errors.drain(before..));
        ways
    }

    fn in_ranges(&mut self, value: Value, ranges: &[(i128, i128)], signed: bool, ways: &mut Ways) {
        if ranges.len() > COMPARED_ONE_BY_ONE {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let code = if signed { CmpOp::SLt } else { CmpOp::ULt };
            let is_below = self.blocks.cmp_int(code, value, high[0].0 as i64);
            let (below, above) = self.blocks.branch(is_below);
            self.blocks.open(&[below]);
            self.in_ranges(value, low, signed, ways);
            self.blocks.open(&[above]);
            return self.in_ranges(value, high, signed, ways);
        }
        for (first, last) in ranges {
            let is_inside = if first == last {
                self.blocks.cmp_int(CmpOp::Eq, value, *first as i64)
            } else {
                let distance = self.blocks.bin_int(BinOp::Sub, value, *first as i64);
                self.blocks.cmp_int(CmpOp::ULe, distance, (last - first) as i64)
            };
            let (inside, outside) = self.blocks.branch(is_inside);
            ways.yes.push(inside);
            self.blocks.open(&[outside]);
        }
        ways.no.push(self.blocks.jump());
    }

    fn in_double_ranges(&mut self, value: Value, ranges: &[(f64, f64)], ways: &mut Ways) {
        let is_number = self.is_number(value);
        let (number, nan) = self.blocks.branch(is_number);
        ways.no.push(nan);
        self.blocks.open(&[number]);
        let key = self.key(value);
        for (first, last) in ranges {
            let from = self.blocks.cmp_int(CmpOp::SGe, key, key_of(*first));
            let to = self.blocks.cmp_int(CmpOp::SLe, key, key_of(*last));
            let is_inside = self.blocks.bin(BinOp::And, from, to);
            let (inside, outside) = self.blocks.branch(is_inside);
            ways.yes.push(inside);
            self.blocks.open(&[outside]);
        }
        ways.no.push(self.blocks.jump());
    }

    fn is_one_of(&mut self, operand: NodeId, patterns: &[Pattern]) -> Ways {
        let Kind::Str { from } = self.kind(operand) else {
            unreachable!("strings are looked for by a string")
        };
        self.of_text(from, false, |lowering, text| {
            let mut ways = Ways::default();
            for pattern in patterns {
                let like = lowering.is_like(text, pattern);
                ways.yes.extend(like.yes);
                lowering.blocks.open(&like.no);
            }
            ways.no.push(lowering.blocks.jump());
            ways
        })
    }
}
