//! [`Checked`] filter → [`Module`] with the one function `filter`.
//!
//! A condition becomes blocks with two ways out; only what is asked for as a number (LTTng's `(a && b) == 1`) becomes one. The sides
//! of `&&` and `||` are evaluated as far as they are needed, in the order that [`order`] finds; in LTTng's dialect an error on the way
//! makes the whole filter false, and is met where the text has it. Folds nothing: that is the passes' work.
//!
//! Files: [`block`] how ways meet, [`string`] comparisons of strings, [`matching`] automata, [`double`] floating-point numbers, [`set`]
//! lists and labels, [`clause`] samples and rates.

mod block;
mod order;
mod string;

mod clause;
mod double;
pub(crate) mod matching;
mod set;

use weir_event::{MapSchema, Type};
use weir_ir::{BinOp, Builtin, CmpOp, Function, MissingProbes, Module, Op, Terminator, Trigger, Value};

use crate::Dialect;
use crate::ast::{Ast, BinaryOp, NodeId, NodeKind, UnaryOp};
use crate::check::{Checked, Kind, Place};
use crate::lower::block::{Blocks, Edge};
use crate::lower::order::Estimate;

/// Entries of maps with keys, of which a filter has none.
const MAP_KEYS: u32 = 4096;

/// The IR of a filter. `checked` must be of this tree.
pub fn lower(ast: &Ast, checked: &Checked) -> Module {
    let estimates = order::estimates(ast, checked);
    let (blocks, errors, maps) = (Blocks::default(), Vec::new(), Vec::new());
    let mut lowering = Lowering { ast, checked, estimates, blocks, errors, maps, there: 0 };
    lowering.blocks.open(&[]);
    if !checked.is_false {
        let ways = lowering.condition(ast.root());
        lowering.blocks.open(&ways.yes);
        let mut no = lowering.clauses();
        lowering.blocks.end(Terminator::Accept);
        no.extend(ways.no);
        no.append(&mut lowering.errors);
        lowering.blocks.open(&no);
    }
    lowering.blocks.end(Terminator::Return);
    let Lowering { blocks, maps, .. } = lowering;
    let (types, blocks) = blocks.into_parts();
    let span = ast.node(ast.root()).span;
    let function = Function { name: "filter".to_owned(), trigger: Trigger::Filter, types, blocks, span };
    let mut module = Module {
        functions: vec![function],
        schema: weir_event::Schema { maps, ..weir_event::Schema::default() },
        max_map_keys: MAP_KEYS,
        missing_probes: MissingProbes::default(),
        max_loop_iterations: 0,
    };
    matching::share(&mut module);
    module
}

struct Lowering<'a> {
    ast: &'a Ast,
    checked: &'a Checked,
    /// By node.
    estimates: Vec<Estimate>,
    blocks: Blocks,
    /// Ways on which an error was met. LTTng's wait for the end of the filter, weir's for that of the comparison.
    errors: Vec<Edge>,
    /// What the filter remembers.
    maps: Vec<MapSchema>,
    /// As [`Ways::there`], of the block at hand: some condition that leads here holds.
    there: u32,
}

/// The ways out of a condition.
#[derive(Default)]
struct Ways {
    yes: Vec<Edge>,
    no: Vec<Edge>,
    /// Slots of declared texts whose address is not 0 where the condition holds: bit n is slot n.
    there: u32,
}

impl Ways {
    fn of((yes, no): (Edge, Edge)) -> Ways {
        Ways { yes: vec![yes], no: vec![no], there: 0 }
    }

    fn negated(self) -> Ways {
        Ways { yes: self.no, no: self.yes, there: 0 }
    }
}

impl Lowering<'_> {
    fn condition(&mut self, id: NodeId) -> Ways {
        match self.ast.node(id).kind {
            NodeKind::Unary(UnaryOp::Not, operand) if !self.is_double(operand) => {
                self.condition(operand).negated()
            }
            NodeKind::Binary(op, ..) if op.is_logic() => self.chain(op, id),
            NodeKind::Binary(op, left, right) if op.is_match() => self.regex(op, left, right),
            NodeKind::Binary(op, left, right) if self.checked.sets.contains_key(&id) => {
                let field = if self.kind(left) == Kind::Pattern { right } else { left };
                self.is_in_set(id, field, op == BinaryOp::Ne)
            }
            NodeKind::Binary(op, left, right) if self.compares_strings(op, left) => {
                self.strings(op, left, right)
            }
            NodeKind::In(operand, _) => self.is_in_set(id, operand, false),
            _ => self.truth(id),
        }
    }

    /// The sides of `&&` or `||`, up to the one that decides.
    fn chain(&mut self, op: BinaryOp, id: NodeId) -> Ways {
        let sides = order::sides(self.ast, self.checked, &self.estimates, op, id);
        let mut decided = Vec::new();
        let mut last = Ways::default();
        let there_before = self.there;
        let mut there = if op == BinaryOp::And { 0 } else { u32::MAX };
        for (number, side) in sides.into_iter().enumerate() {
            if number > 0 {
                let Ways { yes, no, .. } = last;
                let (on, out) = if op == BinaryOp::And { (yes, no) } else { (no, yes) };
                decided.extend(out);
                self.blocks.open(&on);
            }
            last = self.condition(side);
            if op == BinaryOp::And {
                there |= last.there;
                self.there |= last.there;
            } else {
                there &= last.there;
            }
        }
        if op == BinaryOp::And { &mut last.no } else { &mut last.yes }.extend(decided);
        self.there = there_before;
        Ways { there, ..last }
    }

    /// Whether a number is not 0; of one with a fraction, whether it is not when the fraction is cut off.
    fn truth(&mut self, id: NodeId) -> Ways {
        let before = self.errors.len();
        let value = self.value(id);
        let mut ways = Ways::of(self.blocks.branch(value));
        if self.checked.dialect == Dialect::Weir {
            ways.no.extend(self.errors.drain(before..));
        }
        ways
    }

    /// A node that is a number, or a comparison of numbers.
    fn value(&mut self, id: NodeId) -> Value {
        if self.is_double(id) {
            let bits = self.double(id);
            return self.truncated(bits);
        }
        match self.ast.node(id).kind {
            NodeKind::Int(value) => self.blocks.int(value as i64),
            NodeKind::Unary(UnaryOp::Not, operand) if self.is_double(operand) => {
                let bits = self.double(operand);
                let is_not_zero = self.is_not_zero(bits);
                self.blocks.bin_int(BinOp::Xor, is_not_zero, 1)
            }
            NodeKind::Unary(op, operand) => {
                let operand = self.value(operand);
                self.unary(op, operand)
            }
            NodeKind::Binary(op, left, right) if op.is_logic() => self.logic(op, left, right),
            NodeKind::Binary(op, left, right) if self.compares_strings(op, left) => {
                let ways = self.strings(op, left, right);
                self.number_of(&ways)
            }
            NodeKind::Binary(op, left, right)
                if op.is_comparison() && (self.is_double(left) || self.is_double(right)) =>
            {
                self.compare_doubles(op, left, right)
            }
            NodeKind::Binary(op, left, right) => {
                let (a, b) = (self.value(left), self.value(right));
                if op.is_comparison() {
                    let signs = (self.goes_signed(left, right), self.goes_signed(right, left));
                    return self.compare(op, a, b, signs);
                }
                self.binary(op, a, b, self.is_signed(id))
            }
            NodeKind::Field(_) | NodeKind::Context(_) => {
                let Kind::Int { from: Some(from), .. } = self.kind(id) else {
                    unreachable!("the check lets only numbers be read as such")
                };
                self.read(from)
            }
            NodeKind::Float(_) | NodeKind::Str(_) | NodeKind::Regex(_) | NodeKind::In(..) => {
                unreachable!("the check lets no such node be a number")
            }
        }
    }

    /// A number, extended to 8 bytes as its sign says; an error where a sequence has no such element.
    fn read(&mut self, from: Place) -> Value {
        let (slot, offset, bytes, signed, element) = match from {
            Place::Builtin(builtin) => return self.blocks.value(Op::Builtin(builtin), Type::U64),
            Place::Memory { slot, offset, bytes, signed, element } => (slot, offset, bytes, signed, element),
        };
        if let Some(index) = element {
            let count = self.blocks.value(Op::Builtin(Builtin::Slot(slot + 1)), Type::U64);
            let is_beyond = self.blocks.cmp_int(CmpOp::ULe, count, index as i64);
            let (beyond, inside) = self.blocks.branch(is_beyond);
            self.errors.push(beyond);
            self.blocks.open(&[inside]);
        }
        let address = self.blocks.value(Op::Builtin(Builtin::Slot(slot)), Type::U64);
        let address = self.blocks.bin_int(BinOp::Add, address, offset as i64);
        let value = self.blocks.value(Op::ReadInt { address, bytes }, Type::U64);
        if !signed || bytes == 8 {
            return value;
        }
        let unused = 64 - 8 * i64::from(bytes);
        let high = self.blocks.bin_int(BinOp::Shl, value, unused);
        self.blocks.bin_int(BinOp::AShr, high, unused)
    }

    fn unary(&mut self, op: UnaryOp, operand: Value) -> Value {
        let op = match op {
            UnaryOp::Plus => return operand,
            UnaryOp::Minus => Op::Bin(BinOp::Sub, self.blocks.int(0), operand),
            UnaryOp::Not => Op::Cmp(CmpOp::Eq, operand, self.blocks.int(0)),
            UnaryOp::BitNot => Op::Bin(BinOp::Xor, operand, self.blocks.int(-1)),
        };
        self.blocks.value(op, Type::I64)
    }

    /// LTTng's: `a && b` is 0 or b, `a || b` is 1 or b.
    fn logic(&mut self, op: BinaryOp, left: NodeId, right: NodeId) -> Value {
        let left = self.value(left);
        let short = self.blocks.int(i64::from(op == BinaryOp::Or));
        let (then, otherwise) = self.blocks.branch(left);
        let (on, out) = if op == BinaryOp::And { (then, otherwise) } else { (otherwise, then) };
        self.blocks.open(&[on]);
        let right = self.value(right);
        let end = self.blocks.jump();
        self.blocks.meet(&[(out, short), (end, right)])
    }

    /// 1 or 0.
    fn number_of(&mut self, ways: &Ways) -> Value {
        self.blocks.open(&ways.yes);
        let one = self.blocks.int(1);
        let yes = self.blocks.jump();
        self.blocks.open(&ways.no);
        let zero = self.blocks.int(0);
        let no = self.blocks.jump();
        self.blocks.meet(&[(yes, one), (no, zero)])
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value, signed: bool) -> Value {
        let code = match op {
            BinaryOp::Add => BinOp::Add,
            BinaryOp::Sub => BinOp::Sub,
            BinaryOp::Mul => BinOp::Mul,
            BinaryOp::Div if signed => BinOp::SDiv,
            BinaryOp::Div => BinOp::UDiv,
            BinaryOp::Mod if signed => BinOp::SMod,
            BinaryOp::Mod => BinOp::UMod,
            BinaryOp::BitAnd => BinOp::And,
            BinaryOp::BitXor => BinOp::Xor,
            BinaryOp::BitOr => BinOp::Or,
            BinaryOp::Shl => BinOp::Shl,
            // LTTng's shift to the right takes its left side for unsigned.
            BinaryOp::Shr if signed && self.checked.dialect == Dialect::Weir => BinOp::AShr,
            BinaryOp::Shr => BinOp::LShr,
            other => unreachable!("{other:?} is no arithmetic"),
        };
        let error = match op {
            BinaryOp::Div | BinaryOp::Mod => Some(Op::Cmp(CmpOp::Eq, b, self.blocks.int(0))),
            BinaryOp::Shl | BinaryOp::Shr => Some(Op::Cmp(CmpOp::UGt, b, self.blocks.int(63))),
            _ => None,
        };
        if let Some(error) = error {
            let error = self.blocks.value(error, Type::U64);
            let (met, sound) = self.blocks.branch(error);
            self.errors.push(met);
            self.blocks.open(&[sound]);
        }
        self.blocks.value(Op::Bin(code, a, b), Type::I64)
    }

    /// By value, whatever the signs: -1 is below every unsigned number.
    fn compare(&mut self, op: BinaryOp, a: Value, b: Value, signs: (bool, bool)) -> Value {
        let (op, a, b, signs) = match signs {
            (false, true) => (op.swapped(), b, a, (true, false)),
            _ => (op, a, b, signs),
        };
        let code = comparison(op, signs == (true, true));
        let result = self.blocks.value(Op::Cmp(code, a, b), Type::U64);
        if signs != (true, false) {
            return result;
        }
        let zero = self.blocks.int(0);
        let (sign, join) = match op {
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Ne => (CmpOp::SLt, BinOp::Or),
            _ => (CmpOp::SGe, BinOp::And),
        };
        let sign = self.blocks.value(Op::Cmp(sign, a, zero), Type::U64);
        self.blocks.value(Op::Bin(join, result, sign), Type::U64)
    }

    /// Whether this side of a comparison is signed; a constant that fits both is what the other side is.
    fn goes_signed(&self, id: NodeId, other: NodeId) -> bool {
        let is_constant = matches!(self.ast.node(id).kind, NodeKind::Int(_));
        self.is_signed(id) && (!is_constant || self.is_signed(other))
    }

    fn is_signed(&self, id: NodeId) -> bool {
        matches!(self.kind(id), Kind::Int { signed: true, .. })
    }

    fn kind(&self, id: NodeId) -> Kind {
        self.checked.kinds[id.0 as usize]
    }
}

fn comparison(op: BinaryOp, signed: bool) -> CmpOp {
    match (op, signed) {
        (BinaryOp::Eq, _) => CmpOp::Eq,
        (BinaryOp::Ne, _) => CmpOp::Ne,
        (BinaryOp::Lt, true) => CmpOp::SLt,
        (BinaryOp::Lt, false) => CmpOp::ULt,
        (BinaryOp::Le, true) => CmpOp::SLe,
        (BinaryOp::Le, false) => CmpOp::ULe,
        (BinaryOp::Gt, true) => CmpOp::SGt,
        (BinaryOp::Gt, false) => CmpOp::UGt,
        (BinaryOp::Ge, true) => CmpOp::SGe,
        (BinaryOp::Ge, false) => CmpOp::UGe,
        (other, _) => unreachable!("{other:?} is no comparison"),
    }
}
