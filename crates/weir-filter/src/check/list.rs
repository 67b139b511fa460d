//! `x in (1, 2, 10..20)`: each item must be one that the value may be.

use weir_source::Span;

use super::{Check, Kind, Set};
use crate::ast::{Constant, Item, NodeId, Pattern, item_text};
use crate::check::compare::merge;
use crate::number::{exact_order, to_double};

impl Check<'_> {
    pub(super) fn list(&mut self, id: NodeId, operand: NodeId, items: &[Item]) -> Kind {
        if self.is_lttng() {
            return self.not_in_lttng(id, "in");
        }
        let set = match self.known(operand) {
            Kind::Unknown => return Kind::Unknown,
            Kind::Int { signed, .. } => self.ints(operand, signed, items).map(Set::Ints),
            Kind::Double { .. } => self.doubles(items).map(Set::Doubles),
            Kind::Str { .. } => self.strings(items).map(Set::Strings),
            Kind::Bool | Kind::Pattern | Kind::Regex => {
                let hint = "such as `x in (1, 2)` and `name in (\"a\", \"b*\")`";
                return self.fault(operand, "only a field or a number can be `in` a list", hint);
            }
        };
        match set {
            Some(set) => {
                self.checked.sets.insert(id, set);
                Kind::Bool
            }
            None => Kind::Unknown,
        }
    }

    fn ints(&mut self, operand: NodeId, signed: bool, items: &[Item]) -> Option<Vec<(i128, i128)>> {
        let declared = self.types[operand.0 as usize].and_then(|ty| ty.integer());
        let (bytes, signed) = declared.unwrap_or((8, signed));
        let (least, most) = self.bounds(bytes, signed);
        let mut ranges = Vec::new();
        for item in items {
            let found = match (&item.from, &item.to) {
                (Constant::Int(value), None) => vec![(*value, *value)],
                (Constant::Int(first), Some(Constant::Int(last))) => vec![(*first, *last)],
                (Constant::Str(pattern), None) if self.labels(operand).is_some() => {
                    match self.labelled(operand, pattern) {
                        Ok(ranges) => ranges,
                        Err((message, hint)) => {
                            self.fault_at(item.span, &message, &hint);
                            return None;
                        }
                    }
                }
                _ => return self.other(item, "whole numbers"),
            };
            if found.iter().any(|(first, last)| first > last) {
                return self.empty(item);
            }
            if found.iter().all(|(first, last)| *last < least || most < *first) {
                return self.impossible(item.span, &format!("from {least} to {most}, is never"), item);
            }
            ranges.extend(found.into_iter().map(|(first, last)| (first.max(least), last.min(most))));
        }
        ranges.retain(|(first, last)| first <= last);
        merge(&mut ranges);
        Some(ranges)
    }

    /// Ranges of doubles that hold the same doubles as what is written, whatever whole numbers are in it.
    fn doubles(&mut self, items: &[Item]) -> Option<Vec<(f64, f64)>> {
        let mut ranges = Vec::new();
        for item in items {
            let to = item.to.as_ref().unwrap_or(&item.from);
            let (Some(first), Some(last)) = (least_double(&item.from), greatest_double(to)) else {
                return self.other(item, "numbers");
            };
            match (&item.to, first <= last) {
                (_, true) => ranges.push((first, last)),
                (None, false) => {
                    return self.impossible(item.span, "as a floating-point number, is never", item);
                }
                (Some(_), false) => return self.empty(item),
            }
        }
        ranges.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(ranges)
    }

    fn strings(&mut self, items: &[Item]) -> Option<Vec<Pattern>> {
        let mut patterns = Vec::new();
        for item in items {
            let (Constant::Str(pattern), None) = (&item.from, &item.to) else {
                return self.other(item, "strings");
            };
            if self.pattern(item.span, pattern) == Kind::Unknown {
                return None;
            }
            patterns.push(pattern.clone());
        }
        Some(patterns)
    }

    fn other<T>(&mut self, item: &Item, wanted: &str) -> Option<T> {
        let message = format!("`{}` among {wanted}", item_text(item));
        self.fault_at(item.span, &message, "what is looked for decides what its list holds");
        None
    }

    fn empty<T>(&mut self, item: &Item) -> Option<T> {
        let message = format!("this can never be true: nothing is in `{}`", item_text(item));
        self.fault_at(item.span, &message, "the smaller end comes first");
        None
    }

    fn impossible<T>(&mut self, span: Span, what: &str, item: &Item) -> Option<T> {
        let message = format!("this can never be true: the value, {what} `{}`", item_text(item));
        self.fault_at(span, &message, "correct the constant, or leave it out");
        None
    }
}

/// The least double that is not below the constant.
fn least_double(constant: &Constant) -> Option<f64> {
    match constant {
        Constant::Float(value) => Some(*value),
        Constant::Int(value) => {
            let near = to_double(*value);
            let is_below = exact_order(*value, near)?.is_gt();
            Some(if is_below { near.next_up() } else { near })
        }
        Constant::Str(_) => None,
    }
}

/// The greatest double that is not above it.
fn greatest_double(constant: &Constant) -> Option<f64> {
    match constant {
        Constant::Float(value) => Some(*value),
        Constant::Int(value) => {
            let near = to_double(*value);
            let is_above = exact_order(*value, near)?.is_lt();
            Some(if is_above { near.next_down() } else { near })
        }
        Constant::Str(_) => None,
    }
}
