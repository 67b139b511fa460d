//! Expressions: the type of each, and whether its operands fit.

use weir_event::ctype::{CType, TypeId};
use weir_event::{MapValue, Type};
use weir_ir::Builtin;
use weir_source::{Diagnostic, Span};

use crate::Kernel;
use crate::ast::{BinaryOp, Expr, ExprKind, MapRef, Name};
use crate::builtin::{self, Place};
use crate::check::constant::param_number;
use crate::check::{Checker, NameComparison, constant, constant_string};
use crate::check::{argument, memory};
use crate::limits;
use crate::types::{self, Ty, describe, describe_one};
use crate::unsupported::{self, Kind};
use weir_header::Named;
use weir_source::nearest;

impl Checker<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Ty {
        match self.plain_expr(expr) {
            Ty::Value(ty) => {
                self.note_widths(expr, &ty);
                let named = matches!(ty, Type::Int { .. }).then(|| self.known.named_number(expr)).flatten();
                Ty::Value(named.unwrap_or(ty))
            }
            ty => ty,
        }
    }

    /// The same, with what has a name by the way it is written as a number.
    fn plain_expr(&mut self, expr: &Expr) -> Ty {
        match &expr.kind {
            ExprKind::Int { magnitude, negative } => {
                let signed = *negative || *magnitude <= i64::MAX as u64;
                Ty::Value(Type::Int { signed })
            }
            ExprKind::Double(_) => Ty::Value(Type::Double),
            ExprKind::Str(text) => self.string_constant(text, expr.span),
            ExprKind::Name(name)
                if name == "retval"
                    && let Some(id) = self.kernel_result() =>
            {
                self.loaded(memory::Place { id, is_held: false }, expr)
            }
            ExprKind::Name(name) if name == "args" && !self.kernel_events.contains_key(&self.clause) => {
                self.all_fields(expr.span)
            }
            ExprKind::Name(name) if builtin::is_stack(name) => self.ustack(expr.span, &[]),
            ExprKind::Name(name) => self.name(name, expr.span),
            ExprKind::Variable(name) => self.variable(name, expr.span),
            ExprKind::Map(map) => self.map_value(map),
            ExprKind::Param(index) => self.param(*index, expr.span),
            ExprKind::ParamCount => Ty::Value(Type::I64),
            ExprKind::Unary { op, operand } => match self.integer(operand, &format!("`{}`", op.symbol())) {
                // `!` gives 0 or 1.
                Some(_) if *op == crate::ast::UnaryOp::Not => Ty::Value(Type::I64),
                Some(signed) => Ty::Value(Type::Int { signed }),
                None => Ty::Unknown,
            },
            ExprKind::Step { target, increment, .. } => self.step(target, *increment),
            ExprKind::Binary { op, op_span, left, right } => self.binary(*op, *op_span, left, right),
            ExprKind::Ternary { condition, then, otherwise } => {
                self.ternary(expr.span, condition, then, otherwise)
            }
            ExprKind::Float(operand) => self.float(operand),
            ExprKind::Cast { ty, operand } => self.cast(expr, ty, operand),
            ExprKind::Deref(_) | ExprKind::Member { .. } | ExprKind::Index { .. } => self.memory(expr),
            ExprKind::SizeOfType(ty) => self.size_of_type(expr, ty),
            ExprKind::SizeOfValue(operand) => self.size_of_value(expr, operand),
            ExprKind::OffsetOf { ty, path } => self.offset_of(expr, ty, path),
            ExprKind::TypeInfo(ty) => self.type_info(expr, ty),
            ExprKind::Call { function, args } => self.call(expr, function, args),
            // No value, as bpftrace has it.
            ExprKind::Tuple(parts) if parts.is_empty() => Ty::None,
            ExprKind::Tuple(parts) => self
                .tuple(parts.iter().collect(), expr.span)
                .map_or(Ty::Unknown, |types| self.tuple_of(Type::Tuple(types), expr.span)),
            ExprKind::Record(parts) => {
                let types = self.tuple(parts.iter().map(|(_, part)| part).collect(), expr.span);
                let names = parts.iter().map(|(name, _)| name.text.clone());
                types.map_or(Ty::Unknown, |types| {
                    self.tuple_of(Type::Record(names.zip(types).collect()), expr.span)
                })
            }
            ExprKind::Block { body, value } => self.valued_block(body, value.as_deref()),
            ExprKind::Inlined { function, params, body, result } => {
                self.inlined((function, *params), body, result.as_ref())
            }
            ExprKind::Part { tuple, index } => self.part(expr, tuple, *index),
            ExprKind::Field(name) if self.kernel_events.contains_key(&self.clause) => {
                self.kernel_field(expr, name)
            }
            ExprKind::Field(name) => self.field(name, expr.span),
            ExprKind::Invalid => Ty::Unknown,
        }
    }

    /// The type of an expression that must have a value. None if it is not known, or was found faulty.
    pub(super) fn value(&mut self, expr: &Expr) -> Option<Type> {
        match self.expr(expr) {
            Ty::Value(ty) => Some(ty),
            Ty::Unknown => None,
            Ty::None => {
                let name = match &expr.kind {
                    ExprKind::Call { function, .. } | ExprKind::Inlined { function, .. } => {
                        format!("`{}()`", function.text)
                    }
                    ExprKind::Block { .. } => "the block".to_string(),
                    _ => "this expression".to_string(),
                };
                let hint = match &expr.kind {
                    ExprKind::Block { .. } => "the value is its last expression, without a `;`",
                    ExprKind::Inlined { .. } => "a function gives what its `return` says",
                    _ => "write it as a statement of its own",
                };
                self.error(expr.span, &format!("{name} gives no value"), hint);
                None
            }
        }
    }

    /// `(float)farg0`: what the argument's 4 bytes are, as a double.
    fn float(&mut self, operand: &Expr) -> Ty {
        let ty = self.expr(operand);
        let is_argument = matches!(&operand.kind, ExprKind::Name(name)
            if builtin::variable(name).is_some_and(|row| matches!(row.ir, Builtin::Float(_))));
        if !is_argument && ty != Ty::Unknown {
            let message = "a cast to float takes a floating-point argument or result";
            self.error(operand.span, message, "it says that a function takes a `float`: `(float)farg0`");
            return Ty::Unknown;
        }
        ty
    }

    /// The sign of an expression that must be an integer, for `what`.
    pub(super) fn integer(&mut self, expr: &Expr, what: &str) -> Option<bool> {
        let ty = self.value(expr)?;
        self.integer_of(ty, expr.span, what)
    }

    /// The same of an expression whose type is known.
    pub(super) fn integer_of(&mut self, ty: Type, span: Span, what: &str) -> Option<bool> {
        match ty {
            Type::Int { signed } => Some(signed),
            ref ty if types::is_named_number(ty) => Some(true),
            Type::Pointer(_) => Some(false),
            other => {
                let message = format!("{what} takes an integer, not {}", describe_one(&other, &self.types));
                let hint = match other {
                    Type::Str { .. } => "strings can be compared with `==` and `!=`",
                    Type::Probe | Type::Func => "names can be compared with a string: `func == \"malloc\"`",
                    Type::Usym | Type::Ustack(_) => {
                        "it is named when it is printed; compare the address itself"
                    }
                    Type::Double => {
                        "cast it, which cuts the fraction off: `(int64)farg0`; or compare it: `farg0 > 0.5`"
                    }
                    Type::Object { .. } => "name one of its members or elements",
                    Type::Buffer { .. } => "buffers can be compared with `==` and `!=`",
                    Type::Word(_) | Type::Inet => {
                        "it has a name only when it is printed; use the number itself"
                    }
                    _ => "a part of a tuple is `$t.0`",
                };
                self.error(span, &message, hint);
                None
            }
        }
    }

    pub(super) fn condition(&mut self, expr: &Expr, what: &str) {
        self.integer(expr, what);
    }

    /// The type of `left op right`, given theirs. A side without an expression is a place that is assigned to.
    pub(super) fn binary_types(
        &mut self,
        op: BinaryOp,
        span: Span,
        (left, left_expr): (&Ty, Option<&Expr>),
        (right, right_expr): (&Ty, Option<&Expr>),
    ) -> Ty {
        let (Ty::Value(left), Ty::Value(right)) = (left, right) else {
            for (ty, expr) in [(left, left_expr), (right, right_expr)] {
                if let (Ty::None, Some(expr)) = (ty, expr) {
                    self.error(
                        expr.span,
                        &format!("`{}` needs a value on both sides", op.symbol()),
                        "this gives none",
                    );
                }
            }
            return Ty::Unknown;
        };
        if *left == types::TRUTH && *right == types::TRUTH && op.is_bitwise() {
            return Ty::Value(types::TRUTH);
        }
        let [left, right] = [left, right].map(|ty| if types::is_named_number(ty) { &Type::I64 } else { ty });
        if let Some(ty) = self.pointer_types(op, span, left, right) {
            return ty;
        }
        let (left, right) = (&types::plain(left), &types::plain(right));
        if let (Type::Int { signed: a }, Type::Int { signed: b }) = (left, right) {
            if op.is_logical() {
                return Ty::Value(Type::I64);
            }
            self.warn_of_signs(op, span, (*a, left_expr), (*b, right_expr));
            self.warn_of_zero(op, right_expr);
            return Ty::Value(Type::Int { signed: types::int_op(op, *a, *b).1 });
        }
        if *left == Type::Double || *right == Type::Double {
            return self.double_types(op, span, (left, left_expr), (right, right_expr));
        }
        let equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
        match (left, right) {
            (Type::Str { .. }, Type::Str { .. }) | (Type::Buffer { .. }, Type::Buffer { .. }) if equality => {
                return Ty::Value(Type::I64);
            }
            (Type::Object { ty: a, .. }, Type::Object { ty: b, .. })
                if equality && self.are_arrays_alike(*a, *b) =>
            {
                return Ty::Value(Type::I64);
            }
            (Type::Tuple(_), Type::Tuple(_)) | (Type::Record(_), Type::Record(_))
                if equality && are_comparable(left, right) =>
            {
                return Ty::Value(Type::I64);
            }
            (name @ (Type::Probe | Type::Func), Type::Str { .. }) if equality => {
                return self.name_comparison(name, right_expr, span);
            }
            (Type::Str { .. }, name @ (Type::Probe | Type::Func)) if equality => {
                return self.name_comparison(name, left_expr, span);
            }
            _ => {}
        }
        let message = format!(
            "`{}` cannot be used on {} and {}",
            op.symbol(),
            describe(left, &self.types),
            describe(right, &self.types)
        );
        let hint = match (left, right) {
            (Type::Probe | Type::Func, Type::Probe | Type::Func) => {
                "compare with a string: `func == \"malloc\"`"
            }
            (Type::Str { .. }, Type::Str { .. }) => "strings can be compared with `==` and `!=`",
            (Type::Buffer { .. }, _) | (_, Type::Buffer { .. }) => {
                "buffers can be compared with `==` and `!=`: `$b == buf(\"text\")`"
            }
            (Type::Tuple(_) | Type::Record(_), _) | (_, Type::Tuple(_) | Type::Record(_)) => {
                "tuples of integers and strings can be compared with their like; else compare the parts: `$t.0`"
            }
            (Type::Object { .. }, _) | (_, Type::Object { .. }) => {
                "arrays of integers can be compared with their like by `==` and `!=`; else compare members or elements"
            }
            (Type::Usym | Type::Ustack(_), _) | (_, Type::Usym | Type::Ustack(_)) => {
                "symbols and stacks are named when they are printed; compare addresses"
            }
            _ => "both sides must be integers, or both strings with `==` or `!=`",
        };
        self.error(span, &message, hint);
        Ty::Unknown
    }

    /// Two arrays of as many integers of the same size.
    fn are_arrays_alike(&self, left: TypeId, right: TypeId) -> bool {
        let [left, right] = [left, right].map(|id| match self.types.get(id) {
            CType::Array { element, count } => match self.types.get(*element) {
                CType::Int { bytes, .. } => Some((*bytes, *count)),
                _ => None,
            },
            _ => None,
        });
        left.is_some() && left == right
    }

    /// Doubles are compared, with each other and with constants; there is no arithmetic on them.
    fn double_types(
        &mut self,
        op: BinaryOp,
        span: Span,
        (left, left_expr): (&Type, Option<&Expr>),
        (right, right_expr): (&Type, Option<&Expr>),
    ) -> Ty {
        let is_constant = |expr: Option<&Expr>| expr.is_some_and(|expr| constant(expr, self.known).is_some());
        let fits = match (left, right) {
            (Type::Double, Type::Double) => true,
            (Type::Double, Type::Int { .. }) => is_constant(right_expr),
            (Type::Int { .. }, Type::Double) => is_constant(left_expr),
            _ => false,
        };
        let are_numbers = [left, right].iter().all(|ty| matches!(ty, Type::Double | Type::Int { .. }));
        let (message, hint) = match (op.is_comparison(), fits) {
            (true, true) => return Ty::Value(Type::I64),
            (true, false) if are_numbers => (
                format!(
                    "`{}` cannot be used on {} and {}",
                    op.symbol(),
                    describe(left, &self.types),
                    describe(right, &self.types)
                ),
                "a double is compared with a double or a constant; cast it to an integer: `(int64)farg0`",
            ),
            _ if !are_numbers || op.is_logical() => (
                format!(
                    "`{}` cannot be used on {} and {}",
                    op.symbol(),
                    describe(left, &self.types),
                    describe(right, &self.types)
                ),
                "compare the double: `farg0 != 0`",
            ),
            _ => (
                format!("not supported by weir yet: arithmetic on doubles with `{}`", op.symbol()),
                "print or compare them, or cast them to integers first: `(int64)farg0`",
            ),
        };
        self.error(span, &message, hint);
        Ty::Unknown
    }

    fn binary(&mut self, op: BinaryOp, op_span: Span, left: &Expr, right: &Expr) -> Ty {
        let left_ty = self.expr(left);
        let right_ty = self.expr(right);
        self.binary_types(op, op_span, (&left_ty, Some(left)), (&right_ty, Some(right)))
    }

    /// A probe's name is a number at run time, so that it can only be compared with text that is known now.
    fn name_comparison(&mut self, name: &Type, text: Option<&Expr>, span: Span) -> Ty {
        if let Some(text) = text.and_then(|text| constant_string(text, self.known)) {
            let comparison = NameComparison { span, of_func: *name == Type::Func, text: text.to_string() };
            self.name_comparisons.push(comparison);
            return Ty::Value(Type::I64);
        }
        let message = "`func` and `probe` can only be compared with a string literal";
        self.error(span, message, "such as `func == \"malloc\"`");
        Ty::Unknown
    }

    /// As bpftrace: a literal that is not negative fits both signs.
    fn warn_of_signs(
        &mut self,
        op: BinaryOp,
        span: Span,
        left: (bool, Option<&Expr>),
        right: (bool, Option<&Expr>),
    ) {
        use BinaryOp::{Add, Div, Mod, Mul, Sub};
        let what = match op {
            Add | Sub | Mul | Div | Mod => "arithmetic on",
            _ if op.is_comparison() => "comparison of",
            _ => return,
        };
        if left.0 == right.0 {
            return;
        }
        let signed = if left.0 { left.1 } else { right.1 };
        if signed.and_then(|expr| constant(expr, self.known)).is_some_and(|value| value >= 0) {
            return;
        }
        if let Some(Expr { kind: ExprKind::Name(name), .. }) = signed
            && self.is_kernel_constant(name)
        {
            return;
        }
        let name = |signed| if signed { "int64" } else { "uint64" };
        let message = format!("{what} integers of different signs: {} and {}", name(left.0), name(right.0));
        self.warning(
            span,
            &message,
            "both are taken as uint64; cast one side to the type that is meant: `(int64)…`",
        );
    }

    fn warn_of_zero(&mut self, op: BinaryOp, right: Option<&Expr>) {
        let Some(right) = right else { return };
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && constant(right, self.known) == Some(0) {
            self.warning(right.span, "division by zero", "it gives 0, and the remainder is the dividend");
        }
    }

    pub(super) fn string_constant(&mut self, text: &str, span: Span) -> Ty {
        let limit = self.settings.max_strlen;
        if text.len() as u64 >= u64::from(limit) {
            let message = format!("string is too long: {} bytes, the limit is {}", text.len(), limit - 1);
            self.error(span, &message, "raise it with `config = { max_strlen = …; }`");
            return Ty::Unknown;
        }
        Ty::Value(Type::Str { bytes: types::string_bytes(text.len() as u64) })
    }

    pub(super) fn name(&mut self, name: &str, span: Span) -> Ty {
        match self.known.named(name) {
            Some(Named::Number(value)) => {
                return Ty::Value(Type::Int { signed: i64::try_from(value).is_ok() });
            }
            Some(Named::Text(text)) => {
                let text = text.to_string();
                return self.string_constant(&text, span);
            }
            Some(Named::Other(text)) => {
                let message = format!("the macro `{name}` is no constant: `{}`", text.escape_debug());
                self.error(span, &message, "write what it stands for");
                return Ty::Unknown;
            }
            None => {}
        }
        if let Some(row) = builtin::variable(name) {
            return self.builtin(row, span);
        }
        let called = Name { text: name.to_string(), span };
        if let Some(ty) = self.kernel_name(&called, &[]) {
            return ty;
        }
        if let Some(row) = unsupported::find(Kind::Builtin, name) {
            self.error(span, &row.message(), row.hint);
            return Ty::Unknown;
        }
        if self.is_kernel_constant(name) {
            return Ty::Value(Type::I64);
        }
        let signature = builtin::function(name).map(|row| row.signature);
        if let Some(signature) = signature.or_else(|| builtin::aggregation(name).map(|row| row.signature)) {
            self.error(span, &format!("`{name}` is a function"), &format!("write `{signature}`"));
            return Ty::Unknown;
        }
        let names = builtin::VARIABLES.iter().map(|row| row.name).chain(self.known.declarations.names());
        let hint = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "maps start with `@`, scratch variables with `$`, strings stand in quotes".to_string(),
        };
        self.error(span, &format!("unknown name `{name}`"), &hint);
        Ty::Unknown
    }

    pub(super) fn builtin(&mut self, row: &builtin::Variable, span: Span) -> Ty {
        if row.place != Place::Anywhere {
            self.in_target(row.name, span);
        }
        if row.place == Place::Return && self.outside.is_none() {
            self.is_at_return(row.name, span);
        }
        if row.name == "probe" && !self.names_probe.contains(&self.clause) {
            self.names_probe.push(self.clause);
        }
        if row.ir == Builtin::Command && !self.known.has_command {
            let hint = "give one with `-c`; `has_cpid` says whether there is one";
            self.warning(span, "weir starts no command, and `cpid` is 0", hint);
        }
        if row.name == "func" && !self.is_at_functions() {
            self.checked_alone(span, "`func` at a probe of the kernel's", "`probe` names it");
            // A symbol, as `ksym` gives it.
            return Ty::Value(Type::Usym);
        }
        match argument::index(row) {
            Some(index) => self.argument(row, index, span),
            None if row.place == Place::Entry => self.float_argument(row, span),
            None => Ty::Value(row.ty.clone()),
        }
    }

    /// An error if the clause also runs outside of the target.
    pub(super) fn in_target(&mut self, name: &str, span: Span) {
        let Some((probe, display)) = self.outside.clone() else { return };
        // It runs in the kernel, if anywhere.
        if self.of_kernel.iter().any(|(clause, _)| *clause == self.clause) {
            return;
        }
        let message = format!(
            "`{name}` is of the traced process, but `{display}` runs in weir itself, not in the target"
        );
        let diagnostic = Diagnostic::error(span, message).with_label(probe, "runs in weir");
        self.push(
            diagnostic
                .with_hint("use it in the clause of a `uprobe`, `uretprobe` or `usdt`, and keep it in a map"),
        );
    }

    /// The same of what is read: what calls nobody reads the kernel's memory, where weir's programs run there.
    pub(super) fn in_memory(&mut self, name: &str, span: Span) {
        if self.kernel != Kernel::Runs {
            self.in_target(name, span);
        }
    }

    /// An error if the clause also runs elsewhere than at returns.
    fn is_at_return(&mut self, name: &str, span: Span) {
        let Some((probe, display)) = self.not_return.clone() else { return };
        let message = format!("`{name}` is known when a call has returned, but `{display}` runs before");
        let diagnostic = Diagnostic::error(span, message).with_label(probe, "runs before");
        self.push(diagnostic.with_hint("use it in a clause of `uretprobe:BINARY:FUNCTION` alone"));
    }

    fn param(&mut self, index: u32, span: Span) -> Ty {
        if param_number(index, &self.known.params).is_none() {
            let message = format!("the parameter `${index}` is no number");
            self.error(span, &message, &format!("`str(${index})` is its text"));
            return Ty::Unknown;
        }
        Ty::Value(Type::I64)
    }

    fn step(&mut self, target: &Expr, increment: bool) -> Ty {
        let symbol = if increment { "`++`" } else { "`--`" };
        match &target.kind {
            ExprKind::Map(map) => self.step_map(map, symbol),
            _ => match self.value(target) {
                Some(ty @ Type::Pointer(_)) => {
                    self.pointer_types(BinaryOp::Add, target.span, &ty, &Type::I64).unwrap_or(Ty::Unknown)
                }
                _ => match self.integer(target, symbol) {
                    Some(signed) => Ty::Value(Type::Int { signed }),
                    None => Ty::Unknown,
                },
            },
        }
    }

    fn step_map(&mut self, map: &MapRef, symbol: &str) -> Ty {
        let Some(index) = self.keyed_use(map) else { return Ty::Unknown };
        let ty = match &self.maps[index].value {
            Some(MapValue::Plain(ty @ Type::Int { .. })) => ty.clone(),
            Some(other) => {
                let message = format!(
                    "{symbol} takes an integer, but `{}` holds {}",
                    map.name.text,
                    types::describe_map(other, &self.types)
                );
                let label = format!("first assigned {} here", types::describe_map(other, &self.types));
                let diagnostic =
                    Diagnostic::error(map.span, message).with_label(self.maps[index].value_span, label);
                self.push(diagnostic.with_hint("a map holds one type of value; use a second map"));
                self.learn_nothing(Some(index));
                return Ty::Unknown;
            }
            None => Type::I64,
        };
        self.learn_value(index, MapValue::Plain(ty.clone()), map.span);
        Ty::Value(ty)
    }

    fn ternary(&mut self, span: Span, condition: &Expr, then: &Expr, otherwise: &Expr) -> Ty {
        self.condition(condition, "the condition of `?:`");
        let then_ty = self.expr(then);
        let otherwise_ty = self.expr(otherwise);
        match (&then_ty, &otherwise_ty) {
            (Ty::None, Ty::None) => Ty::None,
            (Ty::None, Ty::Value(_)) | (Ty::Value(_), Ty::None) => {
                self.error(span, "one side of `?:` gives a value, the other does not", "use `if`");
                Ty::Unknown
            }
            (Ty::Value(a), Ty::Value(b)) => match types::join(a, b) {
                Some(ty) => Ty::Value(ty),
                None => {
                    let message = format!(
                        "the sides of `?:` differ: {} and {}",
                        describe(a, &self.types),
                        describe(b, &self.types)
                    );
                    self.error(span, &message, "both must have the same type");
                    Ty::Unknown
                }
            },
            _ => Ty::Unknown,
        }
    }

    /// The types of the parts. None if one is not known, or there are too many.
    fn tuple(&mut self, parts: Vec<&Expr>, span: Span) -> Option<Vec<Type>> {
        if parts.len() > limits::TUPLE_PARTS_MAX {
            let message =
                format!("too many parts: {}, the limit is {}", parts.len(), limits::TUPLE_PARTS_MAX);
            self.error(span, &message, "use several values");
            return None;
        }
        let types: Vec<Option<Type>> = parts.into_iter().map(|part| self.value(part)).collect();
        types.into_iter().collect()
    }

    /// A tuple or a record, if it is not too large.
    pub(super) fn tuple_of(&mut self, ty: Type, span: Span) -> Ty {
        let (levels, leaves) = (levels(&ty), weir_ir::leaves(&ty).len());
        if levels > limits::TUPLE_LEVELS_MAX || leaves > limits::TUPLE_LEAVES_MAX {
            let message = format!("the tuple has {leaves} parts in {levels} levels");
            let hint =
                format!("at most {} in {} are possible", limits::TUPLE_LEAVES_MAX, limits::TUPLE_LEVELS_MAX);
            self.error(span, &message, &hint);
            return Ty::Unknown;
        }
        Ty::Value(ty)
    }

    fn part(&mut self, expr: &Expr, tuple: &Expr, index: u64) -> Ty {
        let span = expr.span;
        match self.value(tuple) {
            Some(Type::Tuple(parts)) => {
                self.note_part(expr, tuple, &parts.iter().collect::<Vec<_>>(), index as usize);
                self.part_of(&parts, usize::try_from(index).ok(), span).map_or(Ty::Unknown, Ty::Value)
            }
            Some(Type::Record(_)) => {
                self.error(span, "the parts of a record have names", "write `$r.name`");
                Ty::Unknown
            }
            Some(other) => {
                self.error(
                    span,
                    &format!("{} has no parts", describe_one(&other, &self.types)),
                    "only tuples have: `(1, 2).0`",
                );
                Ty::Unknown
            }
            None => Ty::Unknown,
        }
    }

    /// A part of a tuple, which must be there.
    pub(super) fn part_of(&mut self, parts: &[Type], index: Option<usize>, span: Span) -> Option<Type> {
        let part = index.and_then(|index| parts.get(index));
        if part.is_none() {
            let index = index.map(|index| format!(" {index}")).unwrap_or_default();
            let message = format!("the tuple has no part{index}: it has {}", parts.len());
            self.error(span, &message, "parts are counted from 0");
        }
        part.cloned()
    }
}

/// Tuples whose parts are, one by one, two integers, two strings or two buffers.
fn are_comparable(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Tuple(left), Type::Tuple(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| are_comparable(left, right))
        }
        (Type::Record(left), Type::Record(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((name, left), (other, right))| name == other && are_comparable(left, right))
        }
        (Type::Str { .. }, Type::Str { .. }) | (Type::Buffer { .. }, Type::Buffer { .. }) => true,
        (left, right) => [left, right].iter().all(|ty| matches!(types::plain(ty), Type::Int { .. })),
    }
}

/// Tuples within tuples, the type itself counted.
fn levels(ty: &Type) -> usize {
    match ty {
        Type::Tuple(parts) => 1 + parts.iter().map(levels).max().unwrap_or(0),
        Type::Record(parts) => 1 + parts.iter().map(|(_, part)| levels(part)).max().unwrap_or(0),
        _ => 0,
    }
}
