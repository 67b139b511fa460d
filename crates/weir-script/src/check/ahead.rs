//! What is decided before the program runs: `if comptime`, `is_*`, `static_assert` and `fail`.

use weir_event::ctype::CType;
use weir_event::{Type, Word};
use weir_source::Span;

use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::builtin::{self, FunctionKind, Is};
use crate::check::memory::Operand;
use crate::check::{Checker, constant, constant_string};
use crate::format;
use crate::types::Ty;

impl Checker<'_> {
    /// What the condition of `if comptime` is.
    pub(super) fn static_condition(&mut self, condition: &Expr) -> Option<bool> {
        let value = self.known_ahead(condition, "the condition of `if comptime`")? != 0;
        self.statics.insert(condition.span.start, value);
        Some(value)
    }

    pub(super) fn static_assert(&mut self, args: &[Expr]) -> Ty {
        let holds = self.known_ahead(&args[0], "the condition of `static_assert`");
        if let Some(text) = self.literal("static_assert", &args[1])
            && holds == Some(0)
        {
            self.error(args[0].span, &format!("static_assert: {text}"), "the condition is 0");
        }
        Ty::None
    }

    /// Refuses the script, unless it is left out.
    pub(super) fn fail(&mut self, call: Span, args: &[Expr]) -> Ty {
        let known: Vec<Option<String>> = args[1..].iter().map(|arg| self.shown_ahead(arg)).collect();
        let Some(text) = self.literal("fail", &args[0]) else { return Ty::None };
        let is_whole = format::conversions(&text).is_ok_and(|found| found.len() == known.len());
        if !is_whole {
            self.error(
                args[0].span,
                "the arguments of `fail` are not those of its format",
                "it formats as `printf` does",
            );
            return Ty::None;
        }
        let mut shown = String::new();
        let mut rest = text.as_str();
        let mut known = known.into_iter();
        while let Some(at) = rest.find('%') {
            shown += &rest[..at];
            let length = format::length(&rest[at + 1..]);
            match rest.as_bytes().get(at + 1) {
                Some(b'%') => shown.push('%'),
                _ => shown += &known.next().flatten().unwrap_or_default(),
            }
            rest = &rest[at + 1 + length..];
        }
        self.error(call, &(shown + rest), "the script says so with `fail`");
        Ty::None
    }

    /// A constant as it is printed.
    fn shown_ahead(&mut self, arg: &Expr) -> Option<String> {
        if let Some(text) = constant_string(arg, self.known) {
            return Some(text.to_owned());
        }
        self.known_ahead(arg, "an argument of `fail`").map(|value| value.to_string())
    }

    fn literal(&mut self, name: &str, arg: &Expr) -> Option<String> {
        let text = constant_string(arg, self.known).map(str::to_owned);
        if text.is_none() && arg.kind != ExprKind::Invalid {
            let message = format!("the text of `{name}` must be a string literal");
            self.error(arg.span, &message, &format!("write `{name}(…, \"text\")`"));
        }
        text
    }

    /// `is_str` and the like.
    pub(super) fn is(&mut self, call: &Expr, arg: &Expr, what: Is) -> Ty {
        let is_truth = matches!(&arg.kind, ExprKind::Name(name) if matches!(name.as_str(), "true" | "false"));
        let is_literal =
            is_truth || matches!(arg.kind, ExprKind::Int { .. } | ExprKind::Str(_) | ExprKind::Double(_));
        let Some(operand) = self.operand(arg) else { return Ty::Unknown };
        let element = match &operand {
            Operand::Object(place) => match self.types.get(place.id) {
                CType::Array { element, .. } => Some(self.types.get(*element).clone()),
                _ => None,
            },
            _ => None,
        };
        let is_text = matches!(element, Some(CType::Int { is_char: true, .. }));
        let ty = match &operand {
            Operand::Other(ty) => Some(ty),
            _ => None,
        };
        let holds = match what {
            Is::Literal => is_literal,
            Is::Str => is_text || matches!(ty, Some(Type::Str { .. })),
            Is::Array => element.is_some(),
            Is::Ptr => matches!(operand, Operand::Pointer(_)) || matches!(ty, Some(Type::Pointer(_))),
            Is::Integer => matches!(ty, Some(Type::Int { .. } | Type::Word(Word::Enum(_)))),
            Is::UnsignedInteger => ty == Some(&Type::U64),
        };
        self.sizes.insert(call.span.start, u64::from(holds));
        Ty::Value(Type::I64)
    }

    /// The same of a text. Types are compared by their names.
    fn text_ahead<'a>(&'a self, expr: &'a Expr) -> Option<&'a str> {
        let info = |of: &Expr| self.infos.get(&of.span.start);
        match &expr.kind {
            ExprKind::TypeInfo(_) => info(expr).map(|info| info.full.as_str()),
            ExprKind::Member { of, name } if matches!(of.kind, ExprKind::TypeInfo(_)) => {
                info(of).and_then(|info| info.part(&name.text))
            }
            ExprKind::Block { body, value: Some(value) } if body.stmts.is_empty() => self.text_ahead(value),
            _ => constant_string(expr, self.known),
        }
    }

    /// A number that is known before the program runs; an error where it is not.
    fn known_ahead(&mut self, expr: &Expr, what: &str) -> Option<i128> {
        self.condition(expr, what);
        let value = self.ahead(expr);
        if value.is_none() && expr.kind != ExprKind::Invalid {
            let message = format!("{what} is no constant");
            let hint = "it may have literals, parameters, `sizeof`, `is_str` and the like, `typeinfo`, and names of macros and enumerations";
            self.error(expr.span, &message, hint);
        }
        value
    }

    /// The value of an expression that was read, with what the check has found out of its parts.
    fn ahead(&self, expr: &Expr) -> Option<i128> {
        let is_is =
            |name: &str| matches!(builtin::function(name).map(|row| row.kind), Some(FunctionKind::Is(_)));
        match &expr.kind {
            ExprKind::SizeOfType(_) | ExprKind::SizeOfValue(_) | ExprKind::OffsetOf { .. } => {
                self.sizes.get(&expr.span.start).map(|value| i128::from(*value))
            }
            ExprKind::Call { function, .. } if is_is(&function.text) => {
                self.sizes.get(&expr.span.start).map(|value| i128::from(*value))
            }
            ExprKind::Unary { op: UnaryOp::Not, operand } => Some(i128::from(self.ahead(operand)? == 0)),
            ExprKind::Block { body, value: Some(value) } if body.stmts.is_empty() => self.ahead(value),
            ExprKind::Binary { op, left, right, .. } => {
                let texts = self.text_ahead(left).zip(self.text_ahead(right));
                if let Some((left, right)) = texts {
                    return match op {
                        BinaryOp::Eq => Some(i128::from(left == right)),
                        BinaryOp::Ne => Some(i128::from(left != right)),
                        _ => None,
                    };
                }
                crate::check::constant::applied(*op, self.ahead(left)?, self.ahead(right)?)
            }
            _ => constant(expr, self.known),
        }
    }
}
