//! How many bits integers have: what `bswap`, `sizeof` and `typeof` go by. Values have 64 all the same.
//!
//! A cast and memory say it, a scratch variable has that of what is assigned to it, and a tuple those of its parts. As in bpftrace 0.23
//! maps keep integers of 64 bits, and what is computed has 64, but for bits of narrow integers that are put together.
//! Widths are lists with one for each leaf of a type; of strings they are those of their bytes, their ends included.

use std::slice;

use weir_event::ctype::CType;
use weir_event::{Type, Word};

use crate::ast::{Expr, ExprKind, IntType, TypeName};
use crate::builtin::{self, FunctionKind};
use crate::check::length::Holder;
use crate::check::{Checker, constant};
use crate::types;

/// Of what nothing is said.
pub(crate) const WHOLE: u32 = 64;

/// What a type in a function's head cuts an integer to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cut {
    pub(crate) to: IntType,
    /// To 0 or 1.
    pub(crate) is_truth: bool,
}

/// The widths of what a variable or a map keeps.
#[derive(Debug)]
pub(super) struct Held {
    widths: Vec<u32>,
    /// By a type that is written: what is assigned does not change them.
    is_declared: bool,
}

impl Checker<'_> {
    /// Notes what is known of an expression of this type. Of places in memory it is noted where they are read.
    pub(super) fn note_widths(&mut self, expr: &Expr, ty: &Type) {
        if let Some(widths) = self.found_widths(expr, ty) {
            self.widths.insert(expr.span, widths);
        }
    }

    /// One of an expression that was checked.
    pub(super) fn width(&self, expr: &Expr) -> u32 {
        self.widths.get(&expr.span).and_then(|widths| widths.first().copied()).unwrap_or(WHOLE)
    }

    /// All of an expression of this type that was checked.
    pub(super) fn widths_of(&self, expr: &Expr, ty: &Type) -> Vec<u32> {
        let leaves = self.whole(ty);
        if matches!(ty, Type::Str { .. }) {
            return self.exact_bytes(expr).map_or(leaves, |bytes| vec![8 * bytes]);
        }
        let known = self.widths.get(&expr.span).filter(|widths| widths.len() == leaves.len());
        known.cloned().unwrap_or(leaves)
    }

    /// Those that a type has by itself.
    fn whole(&self, ty: &Type) -> Vec<u32> {
        let bytes = |leaf: &Type| match leaf {
            Type::Word(Word::Truth) => 1,
            Type::Word(Word::Enum(of)) => self.types.bytes(*of).unwrap_or(types::NUMBER_BYTES),
            leaf => leaf.bytes(),
        };
        weir_ir::leaves(ty).into_iter().map(|leaf| 8 * bytes(leaf)).collect()
    }

    fn found_widths(&self, expr: &Expr, ty: &Type) -> Option<Vec<u32>> {
        let is_number = matches!(ty, Type::Int { .. }) || types::is_named_number(ty);
        match &expr.kind {
            ExprKind::Variable(name) => self.held_in(&Holder::Variable(self.scoped(name)?.start)),
            ExprKind::Map(map) if !is_number => self.held_in(&Holder::Map(map.name.text.clone())),
            ExprKind::Tuple(parts) => Some(self.together(parts.iter(), ty)),
            ExprKind::Record(parts) => Some(self.together(parts.iter().map(|(_, part)| part), ty)),
            ExprKind::Block { value: Some(value), .. } => Some(self.widths_of(value, ty)),
            ExprKind::Inlined { body, .. } => Some(vec![self.cuts.get(&body.span.start)?.to.bits]),
            ExprKind::Name(name) if is_number && !self.widths.contains_key(&expr.span) => {
                Some(vec![8 * builtin::variable(name)?.bytes()])
            }
            ExprKind::Binary { op, left, right, .. } if is_number && op.is_bitwise() => {
                Some(vec![self.width(left).max(self.width(right))])
            }
            ExprKind::Call { function, args }
                if builtin::function(&function.text)?.kind == FunctionKind::Bswap =>
            {
                Some(vec![self.width(args.first()?)])
            }
            _ => None,
        }
    }

    /// Those of all parts, in a row.
    fn together<'e>(&self, parts: impl Iterator<Item = &'e Expr>, ty: &Type) -> Vec<u32> {
        let types: Vec<&Type> = match ty {
            Type::Tuple(types) => types.iter().collect(),
            Type::Record(types) => types.iter().map(|(_, ty)| ty).collect(),
            _ => Vec::new(),
        };
        parts.zip(types).flat_map(|(part, ty)| self.widths_of(part, ty)).collect()
    }

    fn held_in(&self, holder: &Holder) -> Option<Vec<u32>> {
        self.held.get(holder).map(|held| held.widths.clone())
    }

    /// `expr` is a part of a tuple or a record, whose parts have these types.
    pub(super) fn note_part(&mut self, expr: &Expr, of: &Expr, parts: &[&Type], at: usize) {
        let Some(widths) = self.widths.get(&of.span) else { return };
        let leaves = |parts: &[&Type]| parts.iter().map(|part| weir_ir::leaves(part).len()).sum::<usize>();
        let Some(part) = parts.get(at) else { return };
        let start = leaves(&parts[..at]);
        if let Some(widths) = widths.get(start..start + leaves(slice::from_ref(part))) {
            self.widths.insert(expr.span, widths.to_vec());
        }
    }

    /// A value of this type is put there. A constant that fits what is known leaves it so, as in bpftrace.
    pub(super) fn learn_widths(&mut self, holder: Holder, value: &Expr, ty: &Type) {
        let known = self.held_in(&holder).and_then(|widths| widths.first().copied());
        if let (Some(width @ 1..=WHOLE), Some(value)) = (known, constant(value, self.known))
            && (-(1i128 << (width - 1))..1 << width).contains(&value)
        {
            return;
        }
        let widths = self.widths_of(value, ty);
        self.hold(holder, widths);
    }

    /// A type is written there.
    pub(super) fn declare_width(&mut self, holder: Holder, name: &TypeName, ty: &Type) {
        let widths = match (name.of().filter(|_| name.suffixes.is_empty()), self.int_type(name)) {
            (Some(value), _) => self.widths_of(value, ty),
            (None, Some(to)) => vec![to.bits],
            (None, None) => self.whole(ty),
        };
        self.held.insert(holder, Held { widths, is_declared: true });
    }

    /// The variable of a loop over a map: keys are whole.
    pub(super) fn learn_entry(&mut self, variable: u32, map: &str, (key, value): (&Type, &Type)) {
        let whole = self.whole(value);
        let held = self.held_in(&Holder::Map(map.to_string()));
        let is_tuple = matches!(value, Type::Tuple(_) | Type::Record(_));
        let value = held.filter(|held| is_tuple && held.len() == whole.len()).unwrap_or(whole);
        let widths = [self.whole(key), value].concat();
        self.hold(Holder::Variable(variable), widths);
    }

    /// The widest of all that are put there. Bit-fields are taken as the integers that hold them.
    pub(super) fn hold(&mut self, holder: Holder, widths: Vec<u32>) {
        let new =
            widths.into_iter().map(|bits| if bits < WHOLE { bits.max(8).next_power_of_two() } else { bits });
        let Some(held) = self.held.get_mut(&holder) else {
            self.held.insert(holder, Held { widths: new.collect(), is_declared: false });
            self.changed = true;
            return;
        };
        if held.is_declared || held.widths.len() != new.len() {
            return;
        }
        for (known, new) in held.widths.iter_mut().zip(new) {
            self.changed |= new > *known;
            *known = new.max(*known);
        }
    }

    /// The integer that a type's name stands for, once it was looked up.
    pub(super) fn int_type(&self, name: &TypeName) -> Option<IntType> {
        let id = *self.type_ids.get(&name.span.start)?;
        match self.types.get(id) {
            CType::Int { bytes, signed, .. } => {
                Some(IntType { bits: 8 * u32::from(*bytes), signed: *signed })
            }
            CType::Enum(of) => Some(IntType { bits: 8 * u32::from(of.bytes), signed: of.signed }),
            _ => None,
        }
    }

    /// Bytes of a tuple or a record as bpftrace lays it out: as C does a `struct`.
    pub(super) fn tuple_bytes(&self, expr: &Expr, ty: &Type) -> u32 {
        let widths = self.widths_of(expr, ty);
        laid_out(ty, &mut widths.iter()).0
    }
}

/// Bytes and alignment. Integers are aligned to their size, texts are not, all else is to 8 bytes.
fn laid_out(ty: &Type, widths: &mut slice::Iter<'_, u32>) -> (u32, u32) {
    let parts: Vec<&Type> = match ty {
        Type::Tuple(parts) => parts.iter().collect(),
        Type::Record(parts) => parts.iter().map(|(_, part)| part).collect(),
        leaf => {
            let bytes = widths.next().map_or(leaf.bytes(), |bits| bits.div_ceil(8));
            return match leaf {
                Type::Str { .. } => (bytes, 1),
                Type::Int { .. } | Type::Word(Word::Truth | Word::Enum(_)) => (bytes, bytes.clamp(1, 8)),
                _ => (bytes, 8),
            };
        }
    };
    let (mut end, mut most) = (0u32, 1);
    for part in parts {
        let (bytes, align) = laid_out(part, widths);
        end = end.next_multiple_of(align) + bytes;
        most = most.max(align);
    }
    (end.next_multiple_of(most), most)
}
