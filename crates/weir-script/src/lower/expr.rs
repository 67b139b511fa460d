//! Expressions and conditions.

use weir_event::Type;
use weir_event::kernel::KernelEvent;
use weir_ir::{Asked, BinOp, Builtin, CmpOp, MapId, Op, Trigger, Value};

use crate::ast::{BinaryOp, Expr, ExprKind, IntType, MapRef, Name, UnaryOp};
use crate::builtin;
use crate::check::width::WHOLE;
use crate::check::{constant, constant_string};
use crate::kernel;
use crate::lower::Lowering;
use crate::lower::block::{Edge, parts};
use crate::types::{self, IntOp, TypeInfo, length_of};

/// A lowered expression: its type (the sign as the language sees it) and its values, one for each part of a tuple.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub ty: Type,
    pub values: Vec<Value>,
}

impl Operand {
    pub(super) fn one(value: Value, ty: Type) -> Operand {
        Operand { ty, values: vec![value] }
    }

    /// The value of what is no tuple.
    pub(super) fn value(&self) -> Value {
        assert_eq!(self.values.len(), 1, "a {:?} is not one value", self.ty);
        self.values[0]
    }

    /// With what has a name as a number.
    pub(super) fn into_number(self) -> Operand {
        match self.ty {
            ref ty if types::is_named_number(ty) => Operand { ty: Type::I64, ..self },
            _ => self,
        }
    }

    fn signed(&self) -> bool {
        match self.ty {
            Type::Int { signed } => signed,
            Type::Pointer(_) => false,
            _ => unreachable!("the check lets only integers here, not {:?}", self.ty),
        }
    }
}

/// What bpftrace calls the kind of a probe.
fn kind_of(trigger: &Trigger) -> &'static str {
    match trigger {
        Trigger::Begin | Trigger::End => "special",
        Trigger::Interval { .. } => "interval",
        Trigger::Asked { by } => match by {
            Asked::Signal => "self",
            Asked::Test => "test",
            Asked::Bench => "bench",
        },
        Trigger::Uretprobe { .. } => "uretprobe",
        Trigger::Usdt { .. } => "usdt",
        // SANITY: the check makes no function without an event.
        Trigger::Kernel { sites } => sites.first().expect("a function of an event").event.kind(),
        Trigger::Uprobe { .. } | Trigger::Session { .. } | Trigger::Filter => "uprobe",
    }
}

/// The parts together.
fn tuple(items: Vec<Operand>) -> Operand {
    let ty = Type::Tuple(items.iter().map(|item| item.ty.clone()).collect());
    Operand { ty, values: items.into_iter().flat_map(|item| item.values).collect() }
}

/// The same of parts that have names.
fn record(items: Vec<(String, Operand)>) -> Operand {
    let ty = Type::Record(items.iter().map(|(name, item)| (name.clone(), item.ty.clone())).collect());
    Operand { ty, values: items.into_iter().flat_map(|(_, item)| item.values).collect() }
}

/// One part of a tuple or a record.
pub(super) fn part(of: &Operand, index: usize) -> Operand {
    let types: Vec<&Type> = match &of.ty {
        Type::Tuple(types) => types.iter().collect(),
        Type::Record(types) => types.iter().map(|(_, ty)| ty).collect(),
        other => unreachable!("the check wants a tuple, not {other:?}"),
    };
    let before: usize = types[..index].iter().map(|ty| parts(ty).len()).sum();
    let values = of.values[before..before + parts(types[index]).len()].to_vec();
    Operand { ty: types[index].clone(), values }
}

impl Lowering<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Operand {
        let mut operand = self.plain_expr(expr);
        if matches!(operand.ty, Type::Int { .. })
            && let Some(ty) = self.checked.known.named_number(expr)
        {
            operand.ty = ty;
        }
        operand
    }

    /// The same, with what has a name by the way it is written as a number.
    fn plain_expr(&mut self, expr: &Expr) -> Operand {
        match &expr.kind {
            ExprKind::Int { magnitude, negative: false } => {
                let signed = *magnitude <= i64::MAX as u64;
                self.int(*magnitude as i64, Type::Int { signed })
            }
            ExprKind::Int { magnitude, negative: true } => {
                self.int((*magnitude as i64).wrapping_neg(), Type::I64)
            }
            ExprKind::Double(value) => self.double(*value),
            ExprKind::Str(text) => self.string(text, None),
            ExprKind::Name(name) if let Some(value) = self.named(name) => value,
            ExprKind::Name(_) if let Some(names) = self.checked.whole_args.get(&expr.span.start) => {
                record(names.iter().map(|name| (name.clone(), self.field(expr, name))).collect())
            }
            ExprKind::Name(name) if builtin::is_stack(name) => self.ustack(&[]),
            ExprKind::Name(name) => self.builtin(name),
            ExprKind::Variable(name) => {
                let slot = self.known_slot(name);
                self.variable(slot)
            }
            ExprKind::Map(map) => {
                let id = self.map_id(&map.name.text);
                let key = self.key(id, &map.keys);
                self.read_map(id, key)
            }
            ExprKind::Param(_) | ExprKind::ParamCount => {
                // SANITY: the check refuses a parameter that is no number.
                let value = constant(expr, &self.checked.known).expect("a checked parameter is a number");
                self.int(value as i64, Type::I64)
            }
            ExprKind::Unary { op, operand } => self.unary(*op, operand),
            ExprKind::Step { target, increment, prefix } => self.step(target, *increment, *prefix),
            ExprKind::Binary { op, left, right, .. } => self.binary(expr, *op, left, right),
            ExprKind::Ternary { condition, then, otherwise } => self.ternary(condition, then, otherwise),
            ExprKind::Cast { ty, operand } => self.cast_to(ty, operand),
            ExprKind::Deref(_) | ExprKind::Member { .. } | ExprKind::Index { .. } => self.memory(expr),
            ExprKind::SizeOfType(_) | ExprKind::SizeOfValue(_) | ExprKind::OffsetOf { .. } => {
                let size = self.checked.sizes[&expr.span.start];
                self.int(size as i64, Type::U64)
            }
            ExprKind::TypeInfo(_) => {
                let TypeInfo { base, full } = self.checked.infos[&expr.span.start].clone();
                let values = [self.int(0, Type::I64), self.string(base, None), self.string(&full, None)];
                record(TypeInfo::PARTS.iter().map(|name| (*name).to_string()).zip(values).collect())
            }
            ExprKind::Float(operand) => self.float(operand),
            ExprKind::Call { function, args } => self.call_value(expr, &function.text, args),
            ExprKind::Tuple(items) => {
                let items = items.iter().map(|item| self.expr(item)).collect();
                tuple(items)
            }
            ExprKind::Record(items) => {
                record(items.iter().map(|(name, item)| (name.text.clone(), self.expr(item))).collect())
            }
            ExprKind::Block { body, value: Some(value) } => self.valued_block(body, value),
            ExprKind::Block { value: None, .. } => unreachable!("the check wants a block with a value"),
            ExprKind::Inlined { body, .. } => self.inlined_value(body),
            ExprKind::Part { tuple, index } => {
                let tuple = self.expr(tuple);
                part(&tuple, *index as usize)
            }
            ExprKind::Field(name) => self.field(expr, name),
            ExprKind::Invalid => unreachable!("a script with a fault is not lowered"),
        }
    }

    fn field(&mut self, expr: &Expr, name: &str) -> Operand {
        if let Some(place) = self.kernel_field(name) {
            return self.load(place);
        }
        // SANITY: the check refuses a field that the clause's events have not.
        let argument = self.target.fields.get(name).cloned().expect("a checked field is there");
        let operand = self.static_argument(&argument);
        if let Some(length) = self.target.fields.get(&length_of(name)).cloned() {
            return self.counted_text(operand, &length);
        }
        match self.checked.field_types.get(&(expr.span.start, name.to_string())) {
            Some(ty) => Operand { ty: ty.clone(), ..operand },
            None => operand,
        }
    }

    /// The expression for a place of type `ty`: a constant string takes the place's length at once.
    pub(super) fn expr_as(&mut self, expr: &Expr, ty: &Type) -> Operand {
        if let (ExprKind::Tuple(items), Type::Tuple(types)) = (&expr.kind, ty) {
            let items = items.iter().zip(types).map(|(item, ty)| self.expr_as(item, ty)).collect();
            return tuple(items);
        }
        if let (ExprKind::Record(items), Type::Record(types)) = (&expr.kind, ty) {
            let item = |((name, item), (_, ty)): (&(Name, Expr), &(String, Type))| {
                (name.text.clone(), self.expr_as(item, ty))
            };
            return record(items.iter().zip(types).map(item).collect());
        }
        match constant_string(expr, &self.checked.known) {
            Some(text) => self.string(text, Some(ty)),
            None => self.expr(expr),
        }
    }

    pub(super) fn int(&mut self, value: i64, ty: Type) -> Operand {
        Operand::one(self.blocks.value(Op::Int(value), ty.clone()), ty)
    }

    pub(super) fn string(&mut self, text: &str, place: Option<&Type>) -> Operand {
        let mut ty = Type::Str { bytes: types::string_bytes(text.len() as u64) };
        if let Some(place @ Type::Str { .. }) = place {
            types::unify(&mut ty, place);
        }
        Operand::one(self.blocks.value(Op::Str(text.to_string()), ty.clone()), ty)
    }

    pub(super) fn builtin(&mut self, name: &str) -> Operand {
        if name == kernel::KSTACK {
            return self.kstack(&[]);
        }
        if name == kernel::CTX {
            let context = self.blocks.value(Op::Builtin(Builtin::Context), Type::U64);
            return Operand::one(context, Type::Pointer(self.target.kernel_context));
        }
        if let Some(ty) = self.checked.kernel_types.get(name) {
            return Operand::one(self.blocks.value(Op::Builtin(Builtin::Task), Type::U64), ty.clone());
        }
        if name == "retval"
            && let Some(result) = self.target.kernel_result.clone()
        {
            let place = self.in_context(result);
            return self.load(place);
        }
        if let Some(value) = self.checked.kernel_constants.get(name) {
            return self.int(*value, Type::I64);
        }
        // SANITY: the check refuses a name that is no builtin.
        let row = builtin::variable(name).expect("a checked name is a builtin");
        if let Builtin::Arg(index) = row.ir
            && let Some(argument) = self.target.arguments.get(&index).cloned()
        {
            return self.static_argument(&argument);
        }
        if name == builtin::PROBE_TYPE {
            return self.string(kind_of(&self.target.trigger), Some(&row.ty));
        }
        let is_raw = || {
            let Trigger::Kernel { sites } = &self.target.trigger else { return false };
            matches!(sites.first().map(|site| &site.event), Some(KernelEvent::RawTracepoint { .. }))
        };
        let op = match (row.ir, self.target.probe_site) {
            (Builtin::Arg(number), _) if is_raw() => {
                Op::Builtin(Builtin::Field { offset: 8 * u16::from(number), bytes: 8 })
            }
            (Builtin::Probe | Builtin::Func, Some(site)) => Op::Int(site as i64),
            (Builtin::Command, _) if !self.checked.known.has_command => Op::Int(0),
            (ir, _) => Op::Builtin(ir),
        };
        Operand::one(self.blocks.value(op, row.ty.clone()), row.ty.clone())
    }

    /// The variable's value. A string may be shorter than the variable can hold; integers have the variable's sign.
    pub(super) fn variable(&mut self, slot: usize) -> Operand {
        let slot = &self.variables[slot];
        let ty = self.as_held(&slot.ty, &mut slot.values.iter());
        Operand { ty, values: slot.values.clone() }
    }

    /// The type with the lengths that the strings among the values have.
    fn as_held(&self, ty: &Type, values: &mut std::slice::Iter<'_, Value>) -> Type {
        if let Type::Tuple(parts) = ty {
            return Type::Tuple(parts.iter().map(|part| self.as_held(part, values)).collect());
        }
        if let Type::Record(parts) = ty {
            let part = |(name, part): &(String, Type)| (name.clone(), self.as_held(part, values));
            return Type::Record(parts.iter().map(part).collect());
        }
        match (ty, values.next()) {
            (Type::Str { .. }, Some(value)) => self.blocks.ty(*value).clone(),
            _ => ty.clone(),
        }
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr) -> Operand {
        let operand = self.expr(operand).into_number();
        match op {
            UnaryOp::Negate => self.negated(&operand),
            UnaryOp::BitNot => {
                let ones = self.int(-1, operand.ty.clone()).value();
                let op = Op::Bin(BinOp::Xor, operand.value(), ones);
                Operand::one(self.blocks.value(op, operand.ty.clone()), operand.ty)
            }
            UnaryOp::Not => {
                let zero = self.int(0, Type::I64).value();
                let op = Op::Cmp(CmpOp::Eq, operand.value(), zero);
                Operand::one(self.blocks.value(op, Type::I64), Type::I64)
            }
        }
    }

    pub(super) fn negated(&mut self, operand: &Operand) -> Operand {
        let zero = self.int(0, operand.ty.clone()).value();
        let op = Op::Bin(BinOp::Sub, zero, operand.value());
        Operand::one(self.blocks.value(op, operand.ty.clone()), operand.ty.clone())
    }

    fn step(&mut self, target: &Expr, increment: bool, prefix: bool) -> Operand {
        let delta = if increment { 1 } else { -1 };
        let plus_delta = |this: &mut Self, old: &Operand| {
            let by = this.stride(&old.ty);
            let delta = this.int(delta * by, Type::I64).value();
            let op = Op::Bin(BinOp::Add, old.value(), delta);
            Operand::one(this.blocks.value(op, old.ty.clone()), old.ty.clone())
        };
        match &target.kind {
            ExprKind::Map(MapRef { name, keys, .. }) => {
                let id = self.map_id(&name.text);
                let key = self.key(id, keys);
                let value = self.int(delta, Type::I64).value();
                let old = self.add_to_map(id, key, value);
                if prefix { plus_delta(self, &old) } else { old }
            }
            ExprKind::Variable(name) => {
                let slot = self.known_slot(name);
                let old = self.variable(slot);
                let new = plus_delta(self, &old);
                self.variables[slot].values = new.values.clone();
                if prefix { new } else { old }
            }
            _ => unreachable!("the parser lets only maps and variables be stepped"),
        }
    }

    /// `is_truth`: to C's `bool`, 1 where it is not 0.
    pub(super) fn cast_int(&mut self, to: IntType, mut operand: Operand, is_truth: bool) -> Operand {
        let ty = Type::Int { signed: to.signed };
        if operand.ty == Type::Double {
            // Narrower types cut the integer of 64 bits, as they do with any.
            let is_signed = to.signed || to.bits < 64;
            operand = self.integer_of(&operand, is_signed);
        }
        if is_truth {
            let zero = self.int(0, Type::I64).value();
            let op = Op::Cmp(CmpOp::Ne, operand.value(), zero);
            return Operand::one(self.blocks.value(op, Type::I64), ty);
        }
        if to.bits == 64 {
            return Operand { ty, ..operand };
        }
        let value = if to.signed {
            let shift = self.int(i64::from(64 - to.bits), Type::I64).value();
            let up = self.blocks.value(Op::Bin(BinOp::Shl, operand.value(), shift), ty.clone());
            self.blocks.value(Op::Bin(BinOp::AShr, up, shift), ty.clone())
        } else {
            return self.without_sign(&operand, to.bits);
        };
        Operand::one(value, ty)
    }

    /// The lowest bits of an integer; there are fewer than 64.
    pub(super) fn without_sign(&mut self, operand: &Operand, bits: u32) -> Operand {
        let mask = self.int((1i64 << bits) - 1, Type::U64).value();
        let value = self.blocks.value(Op::Bin(BinOp::And, operand.value(), mask), Type::U64);
        Operand::one(value, Type::U64)
    }

    /// How wide the integer is that an expression gives, as far as that is known.
    pub(super) fn bits(&self, expr: &Expr) -> u32 {
        let argument = match &expr.kind {
            ExprKind::Field(name) => self.target.fields.get(name),
            ExprKind::Name(name) => match builtin::variable(name).map(|row| row.ir) {
                Some(Builtin::Arg(index)) => self.target.arguments.get(&index),
                _ => None,
            },
            _ => None,
        };
        let width = || self.checked.widths.get(&expr.span).and_then(|widths| widths.first().copied());
        argument.map(|found| u32::from(found.bytes) * 8).or_else(width).unwrap_or(WHOLE)
    }

    /// It is what a register held at the probe, whose width nobody has said.
    pub(super) fn is_register(&self, expr: &Expr) -> bool {
        let ExprKind::Name(name) = &expr.kind else { return false };
        match builtin::variable(name).map(|row| row.ir) {
            Some(Builtin::Arg(index)) => !self.target.arguments.contains_key(&index),
            Some(ir) => matches!(ir, Builtin::Register(_)),
            None => false,
        }
    }

    /// A register's number as an `int`, where it can be one: compilers that leave an `int` of 32 bits there leave 0 in the others, as a rule, also
    /// of a negative number. A number that 32 bits do not hold is as it is.
    pub(super) fn int_of_register(&mut self, operand: &Operand) -> Operand {
        let value = operand.value();
        let bin = |this: &mut Self, op, a, b: i64| {
            let b = this.int(b, Type::I64).value();
            this.blocks.value(Op::Bin(op, a, b), Type::I64)
        };
        // 1 if exactly bit 31 of those from there on is set.
        let above = bin(self, BinOp::LShr, value, 31);
        let one = self.int(1, Type::I64).value();
        let is_negative = self.blocks.value(Op::Cmp(CmpOp::Eq, above, one), Type::I64);
        let borrowed = bin(self, BinOp::Shl, is_negative, 32);
        let value = self.blocks.value(Op::Bin(BinOp::Sub, value, borrowed), Type::I64);
        Operand::one(value, Type::I64)
    }

    fn binary(&mut self, expr: &Expr, op: BinaryOp, left_expr: &Expr, right_expr: &Expr) -> Operand {
        let (left, right) = (left_expr, right_expr);
        if op.is_logical() {
            return self.truth(expr);
        }
        let negate = op == BinaryOp::Ne;
        let literal = |expr: &Expr| constant_string(expr, &self.checked.known).map(str::to_string);
        let (left_text, right_text) = (literal(left), literal(right));
        if let (Some(text), None) = (&right_text, &left_text) {
            let left_value = self.expr(left);
            if matches!(left_value.ty, Type::Probe | Type::Func) {
                return self.name_equals(left, &left_value, text, negate);
            }
            let right_value = self.string(text, None);
            return self.string_equals(&left_value, &right_value, negate);
        }
        if let (Some(text), None) = (&left_text, &right_text) {
            let right_value = self.expr(right);
            if matches!(right_value.ty, Type::Probe | Type::Func) {
                return self.name_equals(right, &right_value, text, negate);
            }
            let left_value = self.string(text, None);
            return self.string_equals(&left_value, &right_value, negate);
        }
        let left = self.expr(left);
        let right = self.expr(right);
        match left.ty {
            _ if left.ty == Type::Double || right.ty == Type::Double => {
                let constant = |expr| constant(expr, &self.checked.known);
                let (left_constant, right_constant) = (constant(left_expr), constant(right_expr));
                let left = self.double_of(left, left_constant);
                let right = self.double_of(right, right_constant);
                self.double_compare(op, &left, &right)
            }
            Type::Str { .. } | Type::Buffer { .. } | Type::Object { .. } => {
                self.string_equals(&left, &right, negate)
            }
            Type::Tuple(_) | Type::Record(_) => self.tuples_equal(&left, &right, negate),
            _ => self.int_binary(op, &left, &right),
        }
    }

    /// All parts are.
    fn tuples_equal(&mut self, left: &Operand, right: &Operand, negate: bool) -> Operand {
        let types = parts(&left.ty);
        let mut all: Option<Value> = None;
        for ((ty, &a), &b) in types.into_iter().zip(&left.values).zip(&right.values) {
            let op = match ty {
                Type::Str { .. } | Type::Buffer { .. } => Op::StrEq { a, b, negate: false, first: None },
                _ => Op::Cmp(CmpOp::Eq, a, b),
            };
            let one = self.blocks.value(op, Type::I64);
            all = Some(match all {
                None => one,
                Some(others) => self.blocks.value(Op::Bin(BinOp::And, others, one), Type::I64),
            });
        }
        // SANITY: a tuple has parts.
        let all = all.expect("a tuple has parts");
        let zero = self.int(0, Type::I64).value();
        let op = if negate { CmpOp::Eq } else { CmpOp::Ne };
        Operand::one(self.blocks.value(Op::Cmp(op, all, zero), Type::I64), Type::I64)
    }

    fn string_equals(&mut self, left: &Operand, right: &Operand, negate: bool) -> Operand {
        self.strings_equal(left, right, negate, None)
    }

    /// `first`: of so many bytes alone.
    pub(super) fn strings_equal(
        &mut self,
        left: &Operand,
        right: &Operand,
        negate: bool,
        first: Option<u32>,
    ) -> Operand {
        let op = Op::StrEq { a: left.value(), b: right.value(), negate, first };
        Operand::one(self.blocks.value(op, Type::I64), Type::I64)
    }

    pub(super) fn int_binary(&mut self, op: BinaryOp, left: &Operand, right: &Operand) -> Operand {
        let are_truths = [left, right].iter().all(|operand| operand.ty == types::TRUTH) && op.is_bitwise();
        let [left, right] = &[left, right].map(|operand| operand.clone().into_number());
        if let Some(sum) = self.pointer_sum(op, left, right) {
            return sum;
        }
        let (int_op, signed) = types::int_op(op, left.signed(), right.signed());
        let ty = Type::Int { signed };
        let op = match int_op {
            IntOp::Bin(op) => Op::Bin(op, left.value(), right.value()),
            IntOp::Cmp(op) => Op::Cmp(op, left.value(), right.value()),
        };
        let shown = if are_truths { types::TRUTH } else { ty.clone() };
        Operand::one(self.blocks.value(op, ty), shown)
    }

    /// `func == "malloc"`: at run time a name is a cookie, so the text becomes the cookies that have this name.
    fn name_equals(&mut self, expr: &Expr, operand: &Operand, text: &str, negate: bool) -> Operand {
        let ty = operand.ty.clone();
        let mut result: Option<Value> = None;
        for cookie in self.cookies(expr, &ty, text) {
            let cookie = self.blocks.value(Op::Int(cookie as i64), ty.clone());
            let op = if negate { CmpOp::Ne } else { CmpOp::Eq };
            let one = self.blocks.value(Op::Cmp(op, operand.value(), cookie), Type::I64);
            result = Some(match result {
                None => one,
                Some(others) => {
                    let op = if negate { BinOp::And } else { BinOp::Or };
                    self.blocks.value(Op::Bin(op, others, one), Type::I64)
                }
            });
        }
        match result {
            Some(value) => Operand::one(value, Type::I64),
            None => self.int(i64::from(negate), Type::I64),
        }
    }

    /// The sites with this name: of this function for `func` and `probe` themselves, of all where the value comes
    /// from a variable or a map.
    fn cookies(&self, expr: &Expr, ty: &Type, text: &str) -> Vec<u64> {
        let own = match (&expr.kind, &self.target.trigger, self.target.probe_site) {
            (ExprKind::Name(_), trigger, _) if trigger.is_probe() => Some(trigger.cookies()),
            (ExprKind::Name(_), _, Some(site)) => Some(vec![site]),
            _ => None,
        };
        let candidates = own.unwrap_or_else(|| (0..self.checked.sites.len() as u64).collect::<Vec<u64>>());
        let name = |cookie: u64| {
            let site = &self.checked.sites[cookie as usize];
            if *ty == Type::Func { &site.func } else { &site.probe }
        };
        candidates.into_iter().filter(|cookie| name(*cookie) == text).collect()
    }

    fn ternary(&mut self, condition: &Expr, then: &Expr, otherwise: &Expr) -> Operand {
        let scope = self.variables.len();
        let (yes, no) = self.condition(condition);
        self.merge(yes, scope, &[]);
        let then = self.expr(then);
        let then_edge = self.jump(then.values.clone());
        self.merge(no, scope, &[]);
        let otherwise = self.expr(otherwise);
        let otherwise_edge = self.jump(otherwise.values.clone());
        // SANITY: the check refuses sides that have no common type.
        let ty = types::join(&then.ty, &otherwise.ty).expect("the sides of ?: have a common type");
        let values = self.merge(then_edge.into_iter().chain(otherwise_edge).collect(), scope, &parts(&ty));
        Operand { ty, values }
    }

    /// `&&` and `||` as a value: 0 or 1.
    fn truth(&mut self, expr: &Expr) -> Operand {
        let scope = self.variables.len();
        let (yes, no) = self.condition(expr);
        let mut edges = Vec::new();
        for (paths, value) in [(yes, 1), (no, 0)] {
            self.merge(paths, scope, &[]);
            let value = self.int(value, Type::I64).value();
            edges.extend(self.jump(vec![value]));
        }
        let values = self.merge(edges, scope, &[Type::I64]);
        Operand { ty: Type::I64, values }
    }

    /// The paths on which the expression is not 0, and those on which it is. Evaluates no more than it must.
    pub(super) fn condition(&mut self, expr: &Expr) -> (Vec<Edge>, Vec<Edge>) {
        let scope = self.variables.len();
        match &expr.kind {
            ExprKind::Binary { op: BinaryOp::LogicalAnd, left, right, .. } => {
                let (yes, mut no) = self.condition(left);
                self.merge(yes, scope, &[]);
                let (yes, more) = self.condition(right);
                no.extend(more);
                (yes, no)
            }
            ExprKind::Binary { op: BinaryOp::LogicalOr, left, right, .. } => {
                let (mut yes, no) = self.condition(left);
                self.merge(no, scope, &[]);
                let (more, no) = self.condition(right);
                yes.extend(more);
                (yes, no)
            }
            ExprKind::Unary { op: UnaryOp::Not, operand } => {
                let (yes, no) = self.condition(operand);
                (no, yes)
            }
            _ => {
                let value = self.expr(expr).value();
                let (yes, no) = self.branch(value);
                (vec![yes], vec![no])
            }
        }
    }

    // Maps.

    /// The values of a key. A tuple is the same as its parts with commas between.
    pub(super) fn key(&mut self, map: MapId, keys: &[Expr]) -> Vec<Value> {
        let types = match &self.checked.maps[map.0 as usize].key {
            Some(Type::Tuple(parts)) => parts.clone(),
            key => key.iter().cloned().collect(),
        };
        match keys {
            [Expr { kind: ExprKind::Tuple(items), .. }] => self.key_parts(items, &types),
            [single] if types.len() > 1 => self.expr(single).values,
            _ => self.key_parts(keys, &types),
        }
    }

    fn key_parts(&mut self, keys: &[Expr], types: &[Type]) -> Vec<Value> {
        keys.iter().zip(types).flat_map(|(key, ty)| self.expr_as(key, ty).values).collect()
    }

    pub(super) fn read_map(&mut self, map: MapId, key: Vec<Value>) -> Operand {
        let ty = self.map_type(map);
        if !matches!(ty, Type::Tuple(_) | Type::Record(_)) {
            return Operand::one(self.blocks.value(Op::MapGet { map, key }, ty.clone()), ty);
        }
        let of = self.blocks.value(Op::MapGet { map, key }, types::object(ty.bytes()));
        self.parts_of(of, 0, ty)
    }

    /// What lies in an object from `offset` on, one part after the other.
    pub(super) fn parts_of(&mut self, of: Value, mut offset: u32, ty: Type) -> Operand {
        let mut values = Vec::new();
        for part in parts(&ty) {
            let bytes = part.bytes();
            values.push(self.blocks.value(Op::Part { of, offset, bytes }, part));
            offset += bytes;
        }
        Operand { ty, values }
    }

    /// The type that the map's value has in expressions.
    pub(super) fn map_type(&self, map: MapId) -> Type {
        // SANITY: the check refuses to read a map of another kind.
        types::readable(&self.checked.maps[map.0 as usize].value).expect("a map that is read has a value")
    }
}
