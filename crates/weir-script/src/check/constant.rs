//! Values that are known before the program runs.

use weir_event::{StackMode, Type, Word};
use weir_header::{Declarations, Named};
use weir_syntax::number_value;

use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::builtin::{self, FunctionKind};
use crate::types::{self, TRUTH};

/// What is known before the program runs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Known {
    /// `$1` and so on.
    pub(crate) params: Vec<String>,
    /// What `getopt` gives.
    pub(crate) named: Vec<(String, Option<String>)>,
    /// Of the run.
    pub(crate) has_command: bool,
    /// Of the run.
    pub(crate) allows_unsafe: bool,
    /// Comparisons and the like are true or false, and no numbers.
    pub(crate) has_truths: bool,
    /// Of stacks that say none.
    pub(crate) stack_mode: StackMode,
    /// Processors of the machine.
    pub(crate) cpus: u32,
    /// What the script's C text has declared.
    pub(crate) declarations: Declarations,
}

impl Known {
    /// The type of a number that has a name by the way it is written.
    pub(crate) fn named_number(&self, expr: &Expr) -> Option<Type> {
        if self.is_truth(expr) {
            return Some(TRUTH);
        }
        let ExprKind::Name(name) = &expr.kind else { return None };
        self.declarations.enumeration_of(name).map(|of| Type::Word(Word::Enum(of)))
    }

    /// Whether an expression is true or false by the way it is written. Comparisons and the like are numbers up to bpftrace 0.23.
    fn is_truth(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(name) => matches!(name.as_str(), "true" | "false"),
            ExprKind::Cast { ty, .. } => types::is_truth_name(ty),
            ExprKind::Unary { op: UnaryOp::Not, .. } => self.has_truths,
            ExprKind::Binary { op, .. } => self.has_truths && (op.is_comparison() || op.is_logical()),
            ExprKind::Call { function, args } => {
                match builtin::function(&function.text).map(|row| row.kind) {
                    Some(FunctionKind::Getopt) => args.get(1).is_none_or(|default| self.is_truth(default)),
                    Some(kind) => self.has_truths && kind.gives_truth(),
                    None => false,
                }
            }
            _ => false,
        }
    }

    /// What a name stands for, if it is a constant's.
    pub(crate) fn named(&self, name: &str) -> Option<Named<'_>> {
        let of_language = match name {
            "true" => Some(Named::Number(1)),
            "false" => Some(Named::Number(0)),
            "ncpus" => Some(Named::Number(self.cpus.into())),
            "has_cpid" => Some(Named::Number(self.has_command.into())),
            // What runs in a process is in user mode.
            "usermode" => Some(Named::Number(1)),
            _ => None,
        };
        self.declarations.named(name).or(of_language)
    }
}

/// A parameter with a name, as `getopt` takes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Parameter<'a> {
    Number(i128),
    Text(&'a str),
    /// It is given, and is not what its default is: what it has to be.
    Wrong(&'static str),
}

/// What a call of `getopt` gives; none where its arguments are none.
pub(crate) fn parameter<'a>(args: &'a [Expr], known: &'a Known) -> Option<Parameter<'a>> {
    let ExprKind::Str(name) = &args.first()?.kind else { return None };
    let given = known.named.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_deref());
    let is_truth = match args.get(1).map(|default| &default.kind) {
        None => true,
        Some(ExprKind::Name(word)) => matches!(word.as_str(), "true" | "false"),
        Some(_) => false,
    };
    if is_truth {
        let default = args.get(1).map_or(Some(0), |default| constant(default, known))?;
        return Some(match given {
            None => Parameter::Number(default),
            Some(None | Some("true" | "1")) => Parameter::Number(1),
            Some(Some("false" | "0")) => Parameter::Number(0),
            Some(Some(_)) => Parameter::Wrong("true or false"),
        });
    }
    let default = args.get(1)?;
    if let Some(text) = constant_string(default, known) {
        return Some(match given {
            None => Parameter::Text(text),
            Some(None) => Parameter::Wrong("a text"),
            Some(Some(text)) => Parameter::Text(text),
        });
    }
    let default = constant(default, known)?;
    Some(match given {
        None => Parameter::Number(default),
        Some(text) => text.and_then(number_of).map_or(Parameter::Wrong("a number"), Parameter::Number),
    })
}

/// The value of an integer constant: a literal, a macro or enumerator, a positional parameter that is a number, or an operation on such.
pub(crate) fn constant(expr: &Expr, known: &Known) -> Option<i128> {
    match &expr.kind {
        ExprKind::Int { magnitude, negative } => {
            let magnitude = i128::from(*magnitude);
            Some(if *negative { -magnitude } else { magnitude })
        }
        ExprKind::Name(name) => match known.named(name)? {
            Named::Number(value) => Some(value),
            _ => None,
        },
        ExprKind::Param(index) => param_number(*index, &known.params),
        ExprKind::Call { function, args } if function.text == "getopt" => match parameter(args, known)? {
            Parameter::Number(value) => Some(value),
            _ => None,
        },
        ExprKind::Block { body, value: Some(value) } if body.stmts.is_empty() => constant(value, known),
        ExprKind::Unary { op: UnaryOp::Not, operand } => Some(i128::from(constant(operand, known)? == 0)),
        ExprKind::Unary { op: UnaryOp::Negate, operand } => constant(operand, known).map(|value| -value),
        ExprKind::ParamCount => Some(known.params.len() as i128),
        ExprKind::Binary { op, left, right, .. } => {
            applied(*op, constant(left, known)?, constant(right, known)?)
        }
        _ => None,
    }
}

/// An operation on constants; none where its result is none of 64 bits.
pub(super) fn applied(op: BinaryOp, left: i128, right: i128) -> Option<i128> {
    let value = match op {
        BinaryOp::Add => left.checked_add(right)?,
        BinaryOp::Sub => left.checked_sub(right)?,
        BinaryOp::Mul => left.checked_mul(right)?,
        BinaryOp::Div => left.checked_div(right)?,
        BinaryOp::BitOr => left | right,
        BinaryOp::BitAnd => left & right,
        BinaryOp::Eq => i128::from(left == right),
        BinaryOp::Ne => i128::from(left != right),
        BinaryOp::Lt => i128::from(left < right),
        BinaryOp::Le => i128::from(left <= right),
        BinaryOp::Gt => i128::from(left > right),
        BinaryOp::Ge => i128::from(left >= right),
        BinaryOp::LogicalAnd => i128::from(left != 0 && right != 0),
        BinaryOp::LogicalOr => i128::from(left != 0 || right != 0),
        BinaryOp::Shl if (0..63).contains(&right) => left.checked_mul(1 << right)?,
        _ => return None,
    };
    (i128::from(i64::MIN)..=i128::from(i64::MAX)).contains(&value).then_some(value)
}

/// The value of `$index` as a number: 0 where it is not given, None where it is no number.
pub(crate) fn param_number(index: u32, params: &[String]) -> Option<i128> {
    let Some(text) = params.get(index as usize - 1) else { return Some(0) };
    number_of(text)
}

/// The number that a text is, if it is one of 64 bits.
fn number_of(text: &str) -> Option<i128> {
    let (digits, negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value = i128::from(number_value(digits).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// The text of a string constant: a literal, a macro that is one, or `str($1)`.
pub(crate) fn constant_string<'a>(expr: &'a Expr, known: &'a Known) -> Option<&'a str> {
    match &expr.kind {
        ExprKind::Str(text) => Some(text),
        ExprKind::Name(name) => match known.named(name)? {
            Named::Text(text) => Some(text),
            _ => None,
        },
        ExprKind::Block { body, value: Some(value) } if body.stmts.is_empty() => {
            constant_string(value, known)
        }
        ExprKind::Call { function, args } if function.text == "getopt" => match parameter(args, known)? {
            Parameter::Text(text) => Some(text),
            _ => None,
        },
        ExprKind::Call { function, args } if function.text == "str" => match args.as_slice() {
            [Expr { kind: ExprKind::Param(index), .. }] => {
                Some(known.params.get(*index as usize - 1).map_or("", String::as_str))
            }
            _ => None,
        },
        _ => None,
    }
}
