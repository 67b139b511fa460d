//! How many bytes strings have, their ends included: what `sizeof` and `strcap` say. Values have them rounded up.

use crate::ast::{Expr, ExprKind};
use crate::builtin::{self, FunctionKind};
use crate::check::{Checker, constant, constant_string};
use weir_event::Type;

/// What keeps a string.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Holder {
    /// A scratch variable, by where it is declared.
    Variable(u32),
    /// A map, by its name.
    Map(String),
}

impl Checker<'_> {
    /// The bytes of a string, as far as they are known from how it is written.
    pub(super) fn exact_bytes(&self, expr: &Expr) -> Option<u32> {
        let most = self.settings.max_strlen;
        if let Some(text) = constant_string(expr, self.known) {
            return Some(text.len() as u32 + 1);
        }
        let of_holder = |holder| self.lengths.get(&holder).copied();
        match &expr.kind {
            ExprKind::Variable(name) => of_holder(Holder::Variable(self.scoped(name)?.start)),
            ExprKind::Map(map) => of_holder(Holder::Map(map.name.text.clone())),
            ExprKind::Name(name) => match builtin::variable(name)?.ty {
                Type::Str { bytes } => Some(bytes),
                _ => None,
            },
            ExprKind::Ternary { then, otherwise, .. } => {
                Some(self.exact_bytes(then)?.max(self.exact_bytes(otherwise)?))
            }
            ExprKind::Block { value: Some(value), .. } => self.exact_bytes(value),
            ExprKind::Call { function, args }
                if builtin::function(&function.text)?.kind == FunctionKind::Str && !args[0].is_place() =>
            {
                let length = args.get(1).and_then(|length| constant(length, self.known));
                Some(length.map_or(most, |length| length.clamp(0, most.into()) as u32))
            }
            _ => None,
        }
    }

    /// A value is put there.
    pub(super) fn learn_length(&mut self, holder: Holder, value: &Expr) {
        if let Some(bytes) = self.exact_bytes(value) {
            self.learn_bytes(holder, bytes);
        }
    }

    pub(super) fn learn_bytes(&mut self, holder: Holder, bytes: u32) {
        let known = self.lengths.entry(holder).or_default();
        if bytes > *known {
            *known = bytes;
            self.changed = true;
        }
    }
}
