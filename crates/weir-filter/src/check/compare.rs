//! Comparisons: what may be compared with what, and which of them nothing fulfils.

use weir_event::schema::Type;

use super::{Check, Kind, LANGUAGE_HINT, Set};
use crate::Dialect;
use crate::ast::{BinaryOp, NodeId, NodeKind, Pattern, UnaryOp, path_text};
use crate::automaton;
use crate::number::{exact_order, to_double};

impl Check<'_> {
    pub(super) fn comparison(
        &mut self,
        id: NodeId,
        op: BinaryOp,
        left: (NodeId, Kind),
        right: (NodeId, Kind),
    ) -> Kind {
        match (left.1, right.1) {
            (Kind::Str { .. }, Kind::Regex) if op.is_match() => self.truth(),
            (_, Kind::Regex) if op.is_match() => {
                let message = format!("`{}` is for strings", op.symbol());
                self.fault(left.0, &message, "such as `path =~ \"^/tmp/\"`")
            }
            (Kind::Int { .. } | Kind::Double { .. }, Kind::Int { .. } | Kind::Double { .. }) => {
                match self.never(op, left.0, right.0) {
                    Some(why) => self.never_true(id, &why),
                    None => self.truth(),
                }
            }
            (Kind::Bool, Kind::Bool) => {
                let hint = "join conditions with `&&`, `||` and `!`";
                self.fault(id, &format!("`{}` compares two conditions", op.symbol()), hint)
            }
            (Kind::Str { .. }, Kind::Pattern) => self.with_pattern(id, op, right.0),
            (Kind::Pattern, Kind::Str { .. }) => self.with_pattern(id, op, left.0),
            (Kind::Int { .. }, Kind::Pattern) if self.labels(left.0).is_some() => {
                self.with_label(id, op, left.0, right.0)
            }
            (Kind::Pattern, Kind::Int { .. }) if self.labels(right.0).is_some() => {
                self.with_label(id, op, right.0, left.0)
            }
            (Kind::Str { .. }, Kind::Str { .. }) if matches!(op, BinaryOp::Eq | BinaryOp::Ne) => self.truth(),
            (Kind::Str { .. }, Kind::Str { .. }) => {
                let message = format!("not supported by weir yet: `{}` of two string fields", op.symbol());
                self.fault(id, &message, "`==` and `!=` are; or compare a field with a constant")
            }
            (Kind::Pattern, Kind::Pattern) => {
                self.fault(id, "both sides are constants", "compare a field with a constant")
            }
            (Kind::Bool, _) | (_, Kind::Bool) => {
                let message = format!("`{}` compares a condition with a value", op.symbol());
                self.fault(id, &message, "put parentheses around what belongs together")
            }
            _ if self.is_lttng() => {
                let hint = "strings are in quotes, numbers without";
                self.never_passes(self.ast.node(id).span, "a string is compared with a number", hint)
            }
            _ => {
                let message = "this can never be true: a string is compared with a number";
                self.fault(id, message, "strings are in quotes, numbers without")
            }
        }
    }

    /// LTTng's filters do not look at it, and evaluate it as any other.
    pub(super) fn never_true(&mut self, id: NodeId, why: &str) -> Kind {
        let message = format!("this can never be true: {why}");
        let hint = "correct the constant, or leave the comparison out";
        if self.is_lttng() {
            self.warn(self.ast.node(id).span, message, hint);
            return self.truth();
        }
        self.fault(id, &message, hint)
    }

    /// A star in the middle has no order.
    fn with_pattern(&mut self, id: NodeId, op: BinaryOp, constant: NodeId) -> Kind {
        let NodeKind::Str(pattern) = &self.ast.node(constant).kind else {
            unreachable!("a pattern is a string")
        };
        let is_whole = pattern.plain().is_some() || pattern.prefix().is_some();
        if !is_whole && !matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            let message = format!("`{}` takes a star as the last character alone", op.symbol());
            return self.fault(id, &message, "strings with other stars are compared with `==` and `!=`");
        }
        self.truth()
    }

    /// Of an enumeration: its labels.
    pub(super) fn labels(&self, id: NodeId) -> Option<&[(String, i64, i64)]> {
        match self.types[id.0 as usize] {
            Some(Type::Enum { labels, .. }) => Some(labels),
            _ => None,
        }
    }

    fn with_label(&mut self, id: NodeId, op: BinaryOp, field: NodeId, constant: NodeId) -> Kind {
        if self.is_lttng() {
            let message = "LTTng compares the number behind a label";
            return self.never_passes(self.ast.node(id).span, message, "`--dialect weir` knows labels");
        }
        if !matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            let message = format!("labels have no order for `{}`", op.symbol());
            return self.fault(id, &message, "compare with the number, or labels with `==` and `!=`");
        }
        let NodeKind::Str(pattern) = &self.ast.node(constant).kind else {
            unreachable!("a pattern is a string")
        };
        match self.labelled(field, pattern) {
            Ok(ranges) => {
                self.checked.sets.insert(id, Set::Ints(ranges));
                Kind::Bool
            }
            Err((message, hint)) => self.fault(constant, &message, &hint),
        }
    }

    /// The numbers that a label stands for, or all labels that a pattern does; message and hint if there are none.
    pub(super) fn labelled(
        &self,
        field: NodeId,
        pattern: &Pattern,
    ) -> Result<Vec<(i128, i128)>, (String, String)> {
        let labels = self.labels(field).unwrap_or_default();
        let matching = automaton::glob(pattern);
        let named = labels.iter().filter(|(name, ..)| matching.matches(name.as_bytes()));
        let mut ranges: Vec<(i128, i128)> =
            named.map(|(_, first, last)| (i128::from(*first), i128::from(*last))).collect();
        if !ranges.is_empty() {
            merge(&mut ranges);
            return Ok(ranges);
        }
        let names = || labels.iter().map(|(name, ..)| name.as_str());
        let shown = pattern.pieces.join("*");
        let near = pattern.plain().and_then(|name| weir_source::nearest(name, names()));
        let hint = match near {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("its labels are {}", names().collect::<Vec<_>>().join(", ")),
        };
        Err((format!("this can never be true: there is no label \"{shown}\""), hint))
    }

    /// Why no value fulfils a comparison of a field with a constant, if none does.
    fn never(&self, op: BinaryOp, left: NodeId, right: NodeId) -> Option<String> {
        let (read, op, constant) = match (self.constant(left), self.constant(right)) {
            (None, Some(constant)) => (left, op, constant),
            (Some(constant), None) => (right, op.swapped(), constant),
            _ => return None,
        };
        let shown = format!("{} {}", op.symbol(), constant.text());
        if let (NodeKind::Binary(BinaryOp::BitAnd, a, b), BinaryOp::Eq, Number::Int(value)) =
            (&self.ast.node(read).kind, op, constant)
        {
            let masks = [*a, *b].map(|side| self.constant(side));
            let mask = masks.into_iter().flatten().find_map(|mask| mask.int())?;
            let beyond = value as u64 & !(mask as u64) != 0;
            return beyond
                .then(|| format!("with `& {mask}` no other bits are left, and it is never `{shown}`"));
        }
        let NodeKind::Field(path) = &self.ast.node(read).kind else { return None };
        let ty = self.types[read.0 as usize]?;
        let name = path_text(path);
        if let Type::Float { bytes } = ty {
            let is_possible = self.double_fulfils(op, constant, *bytes);
            return (!is_possible).then(|| format!("`{name}`, of {bytes} bytes, is never `{shown}`"));
        }
        let (bytes, signed) = ty.integer()?;
        let (least, most) = self.bounds(bytes, signed);
        let is_possible = match constant {
            Number::Int(value) => int_fulfils(op, (least, most), value),
            Number::Double(value) => self.int_fulfils_double(op, (least, most), value),
        };
        (!is_possible).then(|| format!("`{name}`, from {least} to {most}, is never `{shown}`"))
    }

    /// The least and the greatest value of an integer.
    pub(super) fn bounds(&self, bytes: u8, signed: bool) -> (i128, i128) {
        // To LTTng's filters all 8 bytes are signed.
        let signed = signed || (bytes == 8 && self.is_lttng());
        let bits = 8 * u32::from(bytes);
        match signed {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        }
    }

    /// LTTng compares an integer as the double that it becomes.
    fn int_fulfils_double(&self, op: BinaryOp, (least, most): (i128, i128), value: f64) -> bool {
        let is_between = |value: f64| match self.checked.dialect {
            Dialect::Lttng => to_double(least) <= value && value <= to_double(most),
            Dialect::Weir => {
                exact_order(least, value).is_some_and(|order| order.is_le())
                    && exact_order(most, value).is_some_and(|order| order.is_ge())
            }
        };
        let (least, most) = (to_double(least), to_double(most));
        match op {
            BinaryOp::Lt => least < value,
            BinaryOp::Le => least <= value,
            BinaryOp::Gt => most > value,
            BinaryOp::Ge => most >= value,
            BinaryOp::Eq => value.fract() == 0.0 && is_between(value),
            _ => true,
        }
    }

    /// A floating-point number of 4 bytes is one of fewer; nothing lies beyond the infinities.
    fn double_fulfils(&self, op: BinaryOp, constant: Number, bytes: u8) -> bool {
        let value = match constant {
            Number::Double(value) => value,
            Number::Int(value) => to_double(value),
        };
        let is_exact = match constant {
            Number::Int(int) => self.is_lttng() || exact_order(int, value).is_some_and(|order| order.is_eq()),
            Number::Double(_) => true,
        };
        match op {
            BinaryOp::Eq => is_exact && (bytes == 8 || f64::from(value as f32) == value),
            BinaryOp::Lt => value != f64::NEG_INFINITY,
            BinaryOp::Gt => value != f64::INFINITY,
            _ => true,
        }
    }

    /// The value of a number that is written down, with its sign.
    fn constant(&self, id: NodeId) -> Option<Number> {
        match &self.ast.node(id).kind {
            NodeKind::Int(value) if self.is_lttng() => Some(Number::Int((*value as i64).into())),
            NodeKind::Int(value) => Some(Number::Int((*value).into())),
            NodeKind::Float(value) => Some(Number::Double(*value)),
            NodeKind::Unary(UnaryOp::Minus, operand) => match self.ast.node(*operand).kind {
                NodeKind::Int(value) => Some(Number::Int((value as i64).wrapping_neg().into())),
                NodeKind::Float(value) => Some(Number::Double(-value)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn not_in_lttng(&mut self, id: NodeId, what: &str) -> Kind {
        self.fault(id, &format!("LTTng's filters have no `{what}`"), LANGUAGE_HINT)
    }
}

/// A constant.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Double(f64),
}

impl Number {
    fn int(self) -> Option<i128> {
        match self {
            Number::Int(value) => Some(value),
            Number::Double(_) => None,
        }
    }

    fn text(self) -> String {
        match self {
            Number::Int(value) => value.to_string(),
            Number::Double(value) => format!("{value:?}"),
        }
    }
}

fn int_fulfils(op: BinaryOp, (least, most): (i128, i128), value: i128) -> bool {
    match op {
        BinaryOp::Lt => least < value,
        BinaryOp::Le => least <= value,
        BinaryOp::Gt => most > value,
        BinaryOp::Ge => most >= value,
        BinaryOp::Eq => least <= value && value <= most,
        _ => true,
    }
}

/// Sorts ranges, and joins those that touch.
pub(super) fn merge(ranges: &mut Vec<(i128, i128)>) {
    ranges.sort_unstable();
    let mut merged: Vec<(i128, i128)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges.drain(..) {
        match merged.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    *ranges = merged;
}
