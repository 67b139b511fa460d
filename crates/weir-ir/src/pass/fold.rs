//! Constants and identities.
//!
//! - arithmetic, comparisons and string equality of constants become constants
//! - `x + 0`, `x - 0`, `x * 1`, `x / 1`, `x | 0`, `x ^ 0`, `x & -1`, shifts by 0 become `x`; `x * 0`, `x & 0`,
//!   `x - x`, `x ^ x`, `x umod 1` become 0
//! - `x * 2ⁿ`, `x udiv 2ⁿ`, `x umod 2ⁿ` become a shift or a mask
//! - `(x + a) + b` becomes `x + (a + b)`; a constant left operand goes right where the operation allows it
//! - a truth value compared with 0 becomes itself or its negation
//!
//! Divisions follow eBPF: by zero gives 0, remainder by zero the dividend ([`BinOp::apply`]).

use weir_event::Type;

use super::substitute::Substitution;
use crate::{BinOp, CmpOp, Function, Inst, Op, Value, compared, fits};

/// True if anything changed.
pub fn run(function: &mut Function) -> bool {
    let known = vec![Known::Nothing; function.types.len()];
    let mut folder = Folder { uses: Substitution::new(function), known, changed: false };
    // Room for the next block's: that of the one before.
    let mut folded = Vec::new();
    for index in 0..function.blocks.len() {
        let mut insts = std::mem::take(&mut function.blocks[index].insts);
        for mut inst in insts.drain(..) {
            inst.op.for_each_operand(|value| *value = folder.uses.get(*value));
            folder.fold(&mut inst, function, &mut folded);
            folded.push(inst);
        }
        function.blocks[index].insts = std::mem::replace(&mut folded, insts);
    }
    let changed = folder.changed;
    folder.uses.apply(function) | changed
}

struct Folder {
    uses: Substitution,
    /// Of values seen so far; blocks are in an order where definitions come first.
    known: Vec<Known>,
    changed: bool,
}

/// How a value is computed, as far as something follows from it.
#[derive(Clone)]
enum Known {
    Nothing,
    Op(Op),
    /// It is 0 or 1.
    Truth,
}

impl Known {
    fn of(op: &Op) -> Known {
        match op {
            Op::Int(_) | Op::Str(_) | Op::Bin(BinOp::Add, ..) | Op::Cmp(..) | Op::StrEq { .. } => {
                Known::Op(op.clone())
            }
            Op::MapHas { .. } | Op::TextBegins { .. } => Known::Truth,
            _ => Known::Nothing,
        }
    }

    fn is_truth(&self) -> bool {
        matches!(self, Known::Truth | Known::Op(Op::Cmp(..) | Op::StrEq { .. }))
    }
}

/// What an instruction turns into.
enum Folded {
    Same,
    Value(Value),
    Op(Op),
    /// An operation whose right operand is a new constant.
    WithConstant(BinOp, Value, i64),
}

impl Folder {
    fn fold(&mut self, inst: &mut Inst, function: &mut Function, before: &mut Vec<Inst>) {
        let Some(result) = inst.result else { return };
        // An operation may fold more than once (`1 - x` never, `x * 8` to a shift, that to nothing further).
        loop {
            let folded = match &inst.op {
                Op::Bin(op, a, b) => self.fold_bin(*op, *a, *b),
                Op::Cmp(op, a, b) => self.fold_cmp(*op, *a, *b),
                Op::StrEq { a, b, negate, first } => self.fold_str_eq(*a, *b, *negate, *first),
                _ => Folded::Same,
            };
            match folded {
                Folded::Same => break,
                // Of a double and its bits only one is an integer.
                Folded::Value(value) if !fits(function.ty(result), function.ty(value)) => break,
                Folded::Value(value) => {
                    // The instruction stays until dead code is removed; nothing uses it any more.
                    self.uses.replace(result, value);
                    break;
                }
                Folded::Op(op) => inst.op = op,
                Folded::WithConstant(op, a, constant) => {
                    let value = Value(function.types.len() as u32);
                    function.types.push(Type::I64);
                    self.known.push(Known::Op(Op::Int(constant)));
                    before.push(Inst { result: Some(value), op: Op::Int(constant) });
                    inst.op = Op::Bin(op, a, value);
                }
            }
            self.changed = true;
        }
        self.known[result.0 as usize] = Known::of(&inst.op);
    }

    fn fold_bin(&self, op: BinOp, a: Value, b: Value) -> Folded {
        match (self.int(a), self.int(b)) {
            (Some(x), Some(y)) => Folded::Op(Op::Int(op.apply(x, y))),
            (Some(_), None) if op.is_commutative() => Folded::Op(Op::Bin(op, b, a)),
            (_, Some(y)) => self.fold_bin_constant(op, a, y),
            _ if a == b && matches!(op, BinOp::Sub | BinOp::Xor) => Folded::Op(Op::Int(0)),
            _ => Folded::Same,
        }
    }

    fn fold_bin_constant(&self, op: BinOp, a: Value, y: i64) -> Folded {
        let power = (y > 0 && (y as u64).is_power_of_two()).then(|| i64::from(y.trailing_zeros()));
        match (op, y) {
            (BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor, 0) => Folded::Value(a),
            (BinOp::Shl | BinOp::LShr | BinOp::AShr, y) if y % 64 == 0 => Folded::Value(a),
            (BinOp::Mul | BinOp::UDiv | BinOp::SDiv, 1) | (BinOp::And, -1) => Folded::Value(a),
            (BinOp::Mul | BinOp::And, 0) | (BinOp::UMod | BinOp::SMod, 1) => Folded::Op(Op::Int(0)),
            (BinOp::UDiv | BinOp::SDiv, 0) => Folded::Op(Op::Int(0)),
            (BinOp::UMod | BinOp::SMod, 0) => Folded::Value(a),
            (BinOp::Mul, _) if power.is_some() => Folded::WithConstant(BinOp::Shl, a, power.unwrap_or(0)),
            (BinOp::UDiv, _) if power.is_some() => Folded::WithConstant(BinOp::LShr, a, power.unwrap_or(0)),
            (BinOp::UMod, _) if power.is_some() => Folded::WithConstant(BinOp::And, a, y - 1),
            (BinOp::Add, _) => match self.known(a) {
                Some(Op::Bin(BinOp::Add, inner, constant)) => match self.int(*constant) {
                    Some(x) => Folded::WithConstant(BinOp::Add, *inner, x.wrapping_add(y)),
                    None => Folded::Same,
                },
                _ => Folded::Same,
            },
            _ => Folded::Same,
        }
    }

    fn fold_cmp(&self, op: CmpOp, a: Value, b: Value) -> Folded {
        match (self.int(a), self.int(b)) {
            (Some(x), Some(y)) => Folded::Op(Op::Int(i64::from(op.apply(x, y)))),
            (Some(_), None) => Folded::Op(Op::Cmp(op.swapped(), b, a)),
            (None, Some(0)) => match (op, self.known(a)) {
                (CmpOp::Ne, _) if self.known[a.0 as usize].is_truth() => Folded::Value(a),
                (CmpOp::Eq, Some(Op::Cmp(inner, x, y))) => Folded::Op(Op::Cmp(inner.negated(), *x, *y)),
                (CmpOp::Eq, Some(Op::StrEq { a, b, negate, first })) => {
                    Folded::Op(Op::StrEq { a: *a, b: *b, negate: !negate, first: *first })
                }
                (CmpOp::ULt, _) => Folded::Op(Op::Int(0)),
                (CmpOp::UGe, _) => Folded::Op(Op::Int(1)),
                _ => Folded::Same,
            },
            _ if a == b => Folded::Op(Op::Int(i64::from(op.apply(0, 0)))),
            _ => Folded::Same,
        }
    }

    fn fold_str_eq(&self, a: Value, b: Value, negate: bool, first: Option<u32>) -> Folded {
        match (self.known(a), self.known(b)) {
            _ if a == b => Folded::Op(Op::Int(i64::from(!negate))),
            (Some(Op::Str(x)), Some(Op::Str(y))) => Folded::Op(Op::Int(i64::from(
                (compared(x.as_bytes(), first) == compared(y.as_bytes(), first)) != negate,
            ))),
            _ => Folded::Same,
        }
    }

    fn known(&self, value: Value) -> Option<&Op> {
        match &self.known[value.0 as usize] {
            Known::Op(op) => Some(op),
            Known::Truth | Known::Nothing => None,
        }
    }

    fn int(&self, value: Value) -> Option<i64> {
        match self.known(value) {
            Some(Op::Int(constant)) => Some(*constant),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{pass, text};

    /// What `set @, v9` stores after folding, where v0 is `arg 0`: the lines of the function's text but the last two.
    fn check(body: &str, want: &str) {
        let source = format!(
            "max_map_keys 1\nmap @ plain i64\nfn \"f\" begin {{\nb0:\n{body}\nset @, v9\nreturn\n{}}}\n",
            {
                // Give every value up to v9 a type, so that cases need not count densely.
                (0..10)
                    .filter(|v| !body.contains(&format!("v{v}:")))
                    .map(|v| format!("value v{v}: i64\n"))
                    .collect::<String>()
            }
        );
        let mut module = text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        pass::optimise(&mut module);
        crate::check::check(&module).unwrap_or_else(|faults| panic!("{faults:?} after {body}"));
        let printed = text::print(&module);
        let body_lines: Vec<&str> = printed
            .lines()
            .skip_while(|line| !line.starts_with("b0"))
            .skip(1)
            .map(str::trim)
            .take_while(|line| *line != "return")
            .collect();
        assert_eq!(body_lines.join("; "), want, "for {body}");
    }

    #[test]
    fn constants_fold() {
        check("v1: i64 = int 6\nv2: i64 = int 7\nv9: i64 = mul v1, v2", "v0: i64 = int 42; set @, v0");
        check("v1: i64 = int 6\nv2: i64 = int 0\nv9: i64 = udiv v1, v2", "v0: i64 = int 0; set @, v0");
        check("v1: i64 = int -1\nv2: i64 = int 1\nv9: i64 = ult v1, v2", "v0: i64 = int 0; set @, v0");
        check(
            "v1: str8 = str \"a\"\nv2: str16 = str \"a\"\nv9: i64 = strne v1, v2",
            "v0: i64 = int 0; set @, v0",
        );
    }

    #[test]
    fn identities_vanish() {
        let arg = "v0: i64 = arg 0; set @, v0";
        check("v0: i64 = arg 0\nv1: i64 = int 0\nv9: i64 = add v1, v0", arg);
        check("v0: i64 = arg 0\nv1: i64 = int 64\nv9: i64 = shl v0, v1", arg);
        check("v0: i64 = arg 0\nv1: i64 = int -1\nv9: i64 = and v0, v1", arg);
        check("v0: i64 = arg 0\nv9: i64 = sub v0, v0", "v0: i64 = int 0; set @, v0");
        check("v0: i64 = arg 0\nv9: i64 = eq v0, v0", "v0: i64 = int 1; set @, v0");
    }

    #[test]
    fn powers_of_two_become_shifts() {
        check(
            "v0: i64 = arg 0\nv1: i64 = int 8\nv9: i64 = mul v0, v1",
            "v0: i64 = arg 0; v1: i64 = int 3; v2: i64 = shl v0, v1; set @, v2",
        );
        check(
            "v0: i64 = arg 0\nv1: i64 = int 8\nv9: i64 = umod v0, v1",
            "v0: i64 = arg 0; v1: i64 = int 7; v2: i64 = and v0, v1; set @, v2",
        );
    }

    #[test]
    fn sums_of_constants_join() {
        check(
            "v0: i64 = arg 0\nv1: i64 = int 8\nv2: i64 = add v0, v1\nv9: i64 = add v2, v1",
            "v0: i64 = arg 0; v1: i64 = int 16; v2: i64 = add v0, v1; set @, v2",
        );
    }

    #[test]
    fn negated_truth_is_the_other_comparison() {
        check(
            "v0: i64 = arg 0\nv1: i64 = arg 1\nv2: i64 = slt v0, v1\nv3: i64 = int 0\nv9: i64 = eq v2, v3",
            "v0: i64 = arg 0; v1: i64 = arg 1; v2: i64 = sge v0, v1; set @, v2",
        );
    }
}
