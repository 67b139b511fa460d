//! Functions of strings and of bytes.

use std::sync::Arc;

use weir_event::{Action, Type};
use weir_ir::{Automaton, CmpOp, Op, Value};

use crate::ast::Expr;
use crate::check::{constant, constant_string};
use crate::limits;
use crate::lower::Lowering;
use crate::lower::call::field;
use crate::lower::expr::Operand;
use crate::types;

impl Lowering<'_> {
    /// A part that is known, and not too long, is an automaton.
    pub(super) fn strcontains(&mut self, args: &[Expr]) -> Operand {
        let part = constant_string(&args[1], &self.checked.known).map(str::to_owned);
        let Some(part) = part.filter(|part| part.len() <= limits::PART_BYTES_MAX) else {
            let at = self.strstr(args).value();
            let zero = self.number(0);
            return Operand::one(self.blocks.value(Op::Cmp(CmpOp::SGe, at, zero), Type::I64), Type::I64);
        };
        let text = self.expr(&args[0]);
        let op = Op::Match {
            text: text.value(),
            bytes_max: text.ty.bytes(),
            automaton: Arc::new(contains(part.as_bytes())),
        };
        Operand::one(self.blocks.value(op, Type::I64), Type::I64)
    }

    pub(super) fn strstr(&mut self, args: &[Expr]) -> Operand {
        let (text, part) = (self.expr(&args[0]).value(), self.expr(&args[1]).value());
        Operand::one(self.blocks.value(Op::StrFind { text, part }, Type::I64), Type::I64)
    }

    pub(super) fn str_concat(&mut self, args: &[Expr]) -> Operand {
        let (a, b) = (self.expr(&args[0]), self.expr(&args[1]));
        let ty = types::concatenated(&a.ty, &b.ty, self.checked.max_strlen);
        let op = Op::StrCat { a: a.value(), b: b.value() };
        Operand::one(self.blocks.value(op, ty.clone()), ty)
    }

    pub(super) fn strcap(&mut self, call: &Expr, text: &Expr) -> Operand {
        if let Some(&bytes) = self.checked.sizes.get(&call.span.start) {
            return self.int(bytes as i64, Type::I64);
        }
        let address = self.expr(text).value();
        let ty = Type::Str { bytes: types::string_bytes(u64::from(self.checked.max_strlen) - 1) };
        let text = self.blocks.value(Op::ReadStr { address, limit: None }, ty);
        Operand::one(self.blocks.value(Op::StrLen(text), Type::I64), Type::I64)
    }

    pub(super) fn memcmp(&mut self, args: &[Expr]) -> Operand {
        let [a, b] = [0, 1].map(|index| self.bytes_of(&args[index]));
        // SANITY: the check refuses what is no constant.
        match constant(&args[2], &self.checked.known).expect("a checked constant") as u32 {
            0 => self.int(0, Type::I64),
            bytes => Operand::one(self.blocks.value(Op::MemCmp { a, b, bytes }, Type::I64), Type::I64),
        }
    }

    /// A string, or an object that has the bytes of an array, a record or a buffer.
    fn bytes_of(&mut self, expr: &Expr) -> Value {
        if self.is_place(expr) {
            let place = self.place(expr);
            return self.object(place).value();
        }
        let operand = self.expr(expr);
        match operand.ty {
            Type::Buffer { bytes } => {
                let bytes = self.blocks.ty(operand.value()).bytes().min(bytes) - 8;
                let op = Op::Part { of: operand.value(), offset: 8, bytes };
                self.blocks.value(op, types::object(bytes))
            }
            _ => operand.value(),
        }
    }

    pub(super) fn join(&mut self, call: &Expr, args: &[Expr]) {
        let address = self.address(&args[0]);
        let separator = args.get(1).and_then(|text| constant_string(text, &self.checked.known));
        let separator = separator.unwrap_or(" ").to_owned();
        let ty = types::object(limits::JOIN_BYTES);
        let op = Op::ReadStrings { address, most: limits::JOIN_STRINGS, each: self.checked.max_strlen };
        let strings = self.blocks.value(op, ty.clone());
        self.emit(call, Action::Join { separator, strings: field(&ty) }, vec![strings]);
    }
}

/// The automaton of texts that have a part in them: state n has seen its first n bytes.
fn contains(part: &[u8]) -> Automaton {
    // The bytes of the part have classes of their own, all others one.
    let mut classes = [0u8; 256];
    let mut bytes: Vec<u8> = Vec::new();
    for byte in part {
        if !bytes.contains(byte) {
            bytes.push(*byte);
            // SANITY: a text has no NUL, so that there are 255 at most.
            classes[usize::from(*byte)] = bytes.len() as u8;
        }
    }
    // What the text's end may be of the part after `seen` bytes of it and another.
    let next = |seen: usize, byte: Option<u8>| {
        let text: Vec<u8> = part[..seen].iter().copied().chain(byte).collect();
        let fits = |length: &usize| byte.is_some() && text.ends_with(&part[..*length]);
        (0..=part.len().min(text.len())).rev().find(fits).unwrap_or(0)
    };
    let mut table: Vec<(Vec<usize>, bool)> = (0..part.len())
        .map(|seen| {
            let of_bytes = bytes.iter().map(|byte| next(seen, Some(*byte)));
            (std::iter::once(0).chain(of_bytes).collect(), false)
        })
        .collect();
    table.push((vec![part.len(); bytes.len() + 1], true));
    Automaton::of(classes, &table, 0)
}
