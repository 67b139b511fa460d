//! Statements: scopes of scratch variables, and what is assigned to what.
//!
//! A scratch variable lives in the block of its first assignment or `let`; an inner block may not declare the
//! same name again.

use weir_event::{MapValue, Type};
use weir_source::{Diagnostic, Span};

use crate::ast::{BinaryOp, Block, Expr, ExprKind, MapRef, Name, Stmt, StmtKind, TypeName};
use crate::check::length::Holder;
use crate::check::width::WHOLE;
use crate::check::{Checker, Scoped, constant};
use crate::limits;
use crate::types::{self, Ty, describe, describe_map};
use weir_source::nearest;

impl Checker<'_> {
    pub(super) fn block(&mut self, block: &Block) {
        self.scopes.push(Vec::new());
        self.stmts(block);
        let ended = self.scopes.pop().unwrap_or_default();
        // What belongs to a function ends with it.
        if self.calls.is_empty() {
            self.ended.extend(ended.into_iter().filter(|variable| variable.is_assigned));
        }
    }

    /// In the scope around it.
    pub(super) fn stmts(&mut self, block: &Block) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        if self.has_given_up() {
            return;
        }
        match &stmt.kind {
            StmtKind::Expr(expr) => {
                self.expr(expr);
            }
            StmtKind::Let { variable, ty, value } => self.let_stmt(variable, ty.as_ref(), value.as_ref()),
            StmtKind::AssignVariable { variable, op, value } => self.assign_variable(variable, *op, value),
            StmtKind::AssignMap { map, op: None, value } => self.assign_map(map, value),
            StmtKind::AssignMap { map, op: Some(op), value } => self.update_map(map, *op, value),
            StmtKind::If { condition, then, otherwise, is_static: true } => {
                let otherwise = otherwise.as_ref();
                match self.static_condition(condition) {
                    Some(true) => self.block(then),
                    Some(false) => otherwise.into_iter().for_each(|block| self.block(block)),
                    None => {}
                }
            }
            StmtKind::If { condition, then, otherwise, .. } => {
                self.condition(condition, "the condition of `if`");
                self.block(then);
                if let Some(otherwise) = otherwise {
                    self.block(otherwise);
                }
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::While { condition, body } => {
                self.condition(condition, "the condition of `while`");
                self.loop_body(body);
            }
            StmtKind::For { variable, from, to, body } => self.for_stmt(variable, from, to, body),
            StmtKind::ForMap { variable, map, body } => self.for_map_stmt(variable, map, body),
            StmtKind::Unroll { count, body } => {
                self.unroll_count(count);
                self.loop_body(body);
            }
            StmtKind::Break => self.in_loop("break", stmt.span),
            StmtKind::Continue => self.in_loop("continue", stmt.span),
            StmtKind::Return(value) => self.return_stmt(value.as_ref()),
            StmtKind::Invalid => {}
        }
    }

    fn loop_body(&mut self, body: &Block) {
        self.loops += 1;
        self.block(body);
        self.loops -= 1;
    }

    fn in_loop(&mut self, word: &str, span: Span) {
        if self.loops == 0 {
            let message = format!("`{word}` outside of a loop");
            let span = Span { end: span.start + word.len() as u32, ..span };
            self.error(span, &message, "it is for the blocks of `while`, `for` and `unroll`");
        }
    }

    /// The variable lives in the loop, and is an integer whatever the ends are.
    fn for_stmt(&mut self, variable: &Name, from: &Expr, to: &Expr, body: &Block) {
        for end in [from, to] {
            self.integer(end, "an end of a range");
        }
        self.scopes.push(Vec::new());
        self.let_stmt(variable, None, None);
        self.variables.entry(variable.span.start).or_insert(Type::I64);
        self.hold(Holder::Variable(variable.span.start), vec![WHOLE]);
        self.loop_body(body);
        self.scopes.pop();
    }

    /// The variable is a key and its value.
    fn for_map_stmt(&mut self, variable: &Name, map: &Name, body: &Block) {
        let map = MapRef { name: map.clone(), keys: Vec::new(), span: map.span };
        let entry = self.entry_of(&map);
        self.scopes.push(Vec::new());
        self.let_stmt(variable, None, None);
        if let Some((key, value)) = &entry {
            self.learn_entry(variable.span.start, &map.name.text, (key, value));
        }
        if let Some((key, value)) = entry
            && let Ty::Value(ty) = self.tuple_of(Type::Tuple(vec![key, value]), map.span)
            && self.variables.get(&variable.span.start) != Some(&ty)
        {
            self.variables.insert(variable.span.start, ty);
            self.changed = true;
        }
        self.loop_body(body);
        self.scopes.pop();
    }

    fn unroll_count(&mut self, count: &Expr) {
        self.value(count);
        let (least, most) = limits::UNROLL_RANGE;
        if count.kind != ExprKind::Invalid
            && !constant(count, self.known).is_some_and(|count| (least..=most).contains(&count))
        {
            let message = format!("`unroll` takes a constant from {least} to {most}");
            self.error(count.span, &message, "`for ($i : 0..n)` takes any number of rounds");
        }
    }

    fn let_stmt(&mut self, variable: &Name, ty: Option<&TypeName>, value: Option<&Expr>) {
        let value = value.map(|value| (self.value(value), value));
        if let Some(earlier) = self.scoped(&variable.text) {
            let message = format!("`{}` is already declared", variable.text);
            let diagnostic = Diagnostic::error(variable.span, message).with_label(earlier, "declared here");
            self.push(diagnostic.with_hint("an inner variable cannot hide an outer one; use another name"));
            return;
        }
        self.declare(variable);
        if let Some(name) = ty
            && let Some(ty) = self.declared(name)
        {
            self.declare_width(Holder::Variable(variable.span.start), name, &ty);
            self.variables.entry(variable.span.start).or_insert(ty);
            if let Some(bytes) = self.declared_bytes(name) {
                self.learn_bytes(Holder::Variable(variable.span.start), bytes);
            }
        }
        if let Some((Some(ty), expr)) = value {
            self.learn_length(Holder::Variable(variable.span.start), expr);
            self.learn_widths(Holder::Variable(variable.span.start), expr, &ty);
            self.learn_variable(variable, variable.span, ty, expr.span)
        }
    }

    fn assign_variable(&mut self, variable: &Name, op: Option<BinaryOp>, value: &Expr) {
        let Some(op) = op else {
            let ty = self.value(value);
            let declared = match self.scoped(&variable.text) {
                Some(declared) => declared,
                None => {
                    let declared = self.declare(variable);
                    let scoped = self.scopes.last_mut().and_then(|scope| scope.last_mut());
                    scoped.into_iter().for_each(|scoped| scoped.is_assigned = true);
                    declared
                }
            };
            if let Some(ty) = ty {
                self.learn_length(Holder::Variable(declared.start), value);
                self.learn_widths(Holder::Variable(declared.start), value, &ty);
                self.learn_variable(variable, declared, ty, value.span);
            }
            return;
        };
        let old = self.variable(&variable.text, variable.span);
        let new = self.expr(value);
        self.binary_types(op, variable.span.to(value.span), (&old, None), (&new, Some(value)));
        // What is computed has 64 bits, unless bits are put together.
        if let (Some(declared), Ty::Value(Type::Int { .. })) = (self.scoped(&variable.text), &old) {
            let holder = Holder::Variable(declared.start);
            match new {
                Ty::Value(ty) if op.is_bitwise() => self.learn_widths(holder, value, &ty),
                _ => self.hold(holder, vec![WHOLE]),
            }
        }
    }

    fn assign_map(&mut self, map: &MapRef, value: &Expr) {
        // Maps are listed in the order of the text, and the name stands before the value.
        self.map_index(map);
        if let ExprKind::Call { function, args } = &value.kind
            && let Some(row) = crate::builtin::aggregation(&function.text)
        {
            let aggregate = self.aggregation(row, value, args);
            let index = self.keyed_use(map);
            match (index, aggregate) {
                (Some(index), Some(aggregate)) => self.learn_value(index, aggregate, value.span),
                _ => self.learn_nothing(index),
            }
            return;
        }
        let ty = self.value(value);
        let index = self.keyed_use(map);
        self.learn_nothing(index);
        let (Some(index), Some(ty)) = (index, ty) else { return };
        if let Some(source) = self.aggregate_source(value) {
            let message = format!(
                "a {} cannot be assigned from one map to another",
                describe_map(&source, &self.types)
            );
            self.error(value.span, &message, "cast it to its number: `(int64)@map`");
            return;
        }
        self.learn_length(Holder::Map(map.name.text.clone()), value);
        self.learn_widths(Holder::Map(map.name.text.clone()), value, &ty);
        self.learn_value(index, MapValue::Plain(ty), value.span);
    }

    /// `@map += value` and the like.
    fn update_map(&mut self, map: &MapRef, op: BinaryOp, value: &Expr) {
        self.map_index(map);
        let new = self.value(value);
        let Some(index) = self.keyed_use(map) else { return };
        self.learn_nothing(Some(index));
        let Some(new) = new else { return };
        let old = match &self.maps[index].value {
            Some(MapValue::Plain(ty)) => ty.clone(),
            Some(other) => {
                let message = format!(
                    "`{}` holds {}, which only its function changes",
                    map.name.text,
                    describe_map(other, &self.types)
                );
                let hint = format!(
                    "write `{} = {}(…)`, or use a second map",
                    map.name.text,
                    describe_map(other, &self.types)
                );
                self.error(map.span, &message, &hint);
                return;
            }
            None => new.clone(),
        };
        let (old, new) = (Ty::Value(old), Ty::Value(new));
        let span = map.span.to(value.span);
        if let Ty::Value(ty) = self.binary_types(op, span, (&old, None), (&new, Some(value))) {
            self.learn_value(index, MapValue::Plain(ty), value.span);
        }
    }

    /// What the map holds that `value` reads directly, if that is no plain value.
    fn aggregate_source(&self, value: &Expr) -> Option<MapValue> {
        let ExprKind::Map(map) = &value.kind else { return None };
        let state = self.maps.iter().find(|state| state.name == map.name.text)?;
        state.value.clone().filter(|value| !matches!(value, MapValue::Plain(_)))
    }

    // Scratch variables.

    /// The type of `$name`, or an error that there is none.
    pub(super) fn variable(&mut self, name: &str, span: Span) -> Ty {
        let Some(declared) = self.scoped(name) else {
            if self.widen(name, span) {
                return Ty::Unknown;
            }
            let names = self.scopes.iter().flatten().map(|v| v.name.as_str());
            let hint = match nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("assign to it before, in this block or one around it: `let {name};`"),
            };
            self.error(span, &format!("undefined variable: `{name}`"), &hint);
            return Ty::Unknown;
        };
        match self.variables.get(&declared.start) {
            Some(ty) => Ty::Value(ty.clone()),
            None => {
                self.unknown_reads.push((span, name.to_string()));
                Ty::Unknown
            }
        }
    }

    /// Until bpftrace 0.22 a variable lived to the end of its clause: one that is read after the block that assigns it first is
    /// declared at the clause's beginning, from the next round on. False where no block before has one of the name.
    fn widen(&mut self, name: &str, span: Span) -> bool {
        let Some(declared) = self.ended.iter().find(|ended| ended.name == name).map(|ended| ended.declared)
        else {
            return false;
        };
        let variable = Name { text: name.to_string(), span: declared };
        self.wide.entry(self.clause).or_default().push((variable, span));
        self.changed = true;
        true
    }

    /// Declares what [`Checker::widen`] has found.
    pub(super) fn declare_wide(&mut self) {
        for (variable, read) in self.wide.get(&self.clause).cloned().unwrap_or_default() {
            self.declare(&variable);
            let name = &variable.text;
            let message = format!("`{name}` is read after the block that it is assigned in");
            let warning = Diagnostic::warning(read, message).with_label(variable.span, "assigned here");
            self.push(
                warning.with_hint(format!("since bpftrace 0.22 that needs `let {name};` before the block")),
            );
        }
    }

    pub(super) fn scoped(&self, name: &str) -> Option<Span> {
        self.scopes.iter().flatten().find(|known| known.name == name).map(|known| known.declared)
    }

    fn declare(&mut self, variable: &Name) -> Span {
        if self.scopes.iter().map(Vec::len).sum::<usize>() == limits::VARIABLES_MAX {
            let message = format!("too many scratch variables: the limit is {}", limits::VARIABLES_MAX);
            self.error(variable.span, &message, "use inner blocks, which end the lives of theirs");
            return variable.span;
        }
        let scoped = Scoped { name: variable.text.clone(), declared: variable.span, is_assigned: false };
        // SANITY: a clause opens a scope before anything in it is read.
        self.scopes.last_mut().expect("a scope is open").push(scoped);
        variable.span
    }

    fn learn_variable(&mut self, variable: &Name, declared: Span, ty: Type, span: Span) {
        let Some(known) = self.variables.get(&declared.start) else {
            self.variables.insert(declared.start, ty);
            self.changed = true;
            return;
        };
        let mut merged = known.clone();
        if types::unify(&mut merged, &ty) {
            if merged != *known {
                self.variables.insert(declared.start, merged);
                self.changed = true;
            }
            return;
        }
        let (new, old) = (describe(&ty, &self.types), describe(known, &self.types));
        let message = format!("cannot assign {new} to `{}`, which is {old}", variable.text);
        let diagnostic = Diagnostic::error(span, message).with_label(declared, "declared here");
        self.push(diagnostic.with_hint("a variable keeps the type of its first value; use a second one"));
    }
}
