//! Blocks that are values, and functions put in where they are called.

use weir_event::Type;
use weir_source::{Diagnostic, Span};

use crate::ast::{Block, Expr, IntType, Name, StmtKind, TypeBase, TypeName};
use crate::check::Checker;
use crate::check::width::{Cut, WHOLE};
use crate::types::{self, Ty, describe, describe_one};

/// A function whose body is being read.
pub(super) struct Call {
    name: String,
    /// By which its result is kept.
    body: u32,
    /// A `return` with a value was seen, understood or not, and one without.
    has_value: bool,
    first: Option<Span>,
    /// It is written that it returns nothing.
    is_void: bool,
}

impl Checker<'_> {
    pub(super) fn valued_block(&mut self, body: &Block, value: Option<&Expr>) -> Ty {
        self.scopes.push(Vec::new());
        self.stmts(body);
        let ty = value.map_or(Ty::None, |value| self.expr(value));
        self.scopes.pop();
        ty
    }

    /// The body of a function, with its arguments as its first variables.
    pub(super) fn inlined(
        &mut self,
        (function, params): (&Name, usize),
        body: &Block,
        result: Option<&TypeName>,
    ) -> Ty {
        let key = body.span.start;
        let is_void =
            result.is_some_and(|ty| ty.suffixes.is_empty() && ty.base == TypeBase::Basic("void".to_string()));
        if let Some(result) = result.filter(|_| !is_void)
            && let Some(ty) = self.declared(result)
        {
            self.results.entry(key).or_insert(ty);
            self.cut(key, result);
        }
        let has_value = result.is_some() && !is_void;
        self.calls.push(Call { name: function.text.clone(), body: key, has_value, first: None, is_void });
        let loops = std::mem::take(&mut self.loops);
        self.block(body);
        self.loops = loops;
        for stmt in &body.stmts[..params] {
            if let StmtKind::Let { variable, ty: Some(name), .. } = &stmt.kind {
                self.cut(variable.span.start, name);
            }
        }
        // SANITY: it was pushed above.
        let call = self.calls.pop().expect("the call is there");
        match (call.has_value, self.results.get(&key)) {
            (false, _) => Ty::None,
            (true, Some(ty)) => Ty::Value(ty.clone()),
            (true, None) => Ty::Unknown,
        }
    }

    /// What is given there has no more bits than the type says, as where C calls a function.
    fn cut(&mut self, at: u32, name: &TypeName) {
        let is_truth = types::is_truth_name(name);
        let to = if is_truth { Some(IntType { bits: 8, signed: false }) } else { self.int_type(name) };
        if let Some(to) = to.filter(|to| to.bits < WHOLE) {
            self.cuts.insert(at, Cut { to, is_truth });
        }
    }

    pub(super) fn return_stmt(&mut self, value: Option<&Expr>) {
        let Some(value) = value else { return };
        let ty = self.value(value);
        let Some(call) = self.calls.last_mut() else {
            if let Some(ty) = ty.filter(|ty| !matches!(ty, Type::Int { .. })) {
                let message =
                    format!("a probe's block returns an integer, not {}", describe_one(&ty, &self.types));
                self.error(value.span, &message, "write `return;`, or `return 0;`");
            }
            return;
        };
        if call.is_void {
            let message = format!("`{}` returns nothing", call.name);
            self.error(value.span, &message, "write `return;`, or another type than `void`");
            return;
        }
        call.has_value = true;
        let first = *call.first.get_or_insert(value.span);
        let (key, name) = (call.body, call.name.clone());
        let Some(ty) = ty else { return };
        let Some(known) = self.results.get(&key) else {
            self.results.insert(key, ty);
            self.changed = true;
            return;
        };
        let mut merged = known.clone();
        if types::unify(&mut merged, &ty) {
            self.changed |= merged != *known;
            self.results.insert(key, merged);
            return;
        }
        let (new, old) = (describe(&ty, &self.types), describe(known, &self.types));
        let diagnostic = Diagnostic::error(value.span, format!("`{name}` returns {old}, not {new}"));
        let diagnostic = match first == value.span {
            true => diagnostic,
            false => diagnostic.with_label(first, format!("first returns {old} here")),
        };
        self.push(diagnostic.with_hint("all values that a function returns are of one type"));
    }
}
