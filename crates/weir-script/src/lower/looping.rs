//! Loops.
//!
//! A loop's head is a block that has a parameter for each scratch variable that the loop assigns. It asks whether there is another round,
//! and then whether the run may have it. Each round ends in a jump back that gives the parameters their next values; `continue` goes
//! where the round ends, `break` where the loop does. A round that the run may not have is reported ([`Action::LoopEnded`]), and
//! the run ends there: what the loop was to find out is not known.

use std::cell::Cell;
use std::collections::HashSet;

use weir_event::{Action, Type};
use weir_ir::{BinOp, CmpOp, MapId, Op, Value};
use weir_source::Span;

use crate::ast::{Block, Expr, ExprKind, Name, Stmt, StmtKind, children};
use crate::check::constant;
use crate::lower::Lowering;
use crate::lower::block::{Edge, Loop, Slot};
use crate::types;

/// Bytes of the cursor before the key that [`Op::MapNext`] gives.
const CURSOR_BYTES: u32 = 8;

/// Where something is so, and where it is not.
type Ways = (Vec<Edge>, Vec<Edge>);

/// A name that no variable of a script has: the number of a `for` loop's round.
const ROUND: &str = "";

/// The same: how many entries `len` has come by.
const COUNT: &str = "#";

impl Lowering<'_> {
    pub(super) fn while_stmt(&mut self, stmt: &Stmt, condition: &Expr, body: &Block) {
        let mut assigned = HashSet::new();
        of_expr(condition, &mut assigned);
        of_block(body, &mut assigned);
        self.loop_stmt(
            stmt.span,
            &assigned,
            &mut |this| this.condition(condition),
            &mut |this| this.block(body),
            &mut |_| {},
        );
    }

    pub(super) fn for_stmt(
        &mut self,
        stmt: &Stmt,
        variable: &Name,
        (from, to): (&Expr, &Expr),
        body: &Block,
    ) {
        let from = self.expr(from).value();
        let to = self.expr(to).value();
        self.counted(stmt, from, to, body, &|this, round| {
            // SANITY: the check gives the variable of a loop a type.
            let ty = this
                .checked
                .variables
                .get(&variable.span.start)
                .cloned()
                .expect("a loop's variable has a type");
            this.variables.push(Slot { name: variable.text.clone(), ty, values: vec![round] });
        });
    }

    /// Its value is asked for apart from the key: what is gone by then reads as 0.
    pub(super) fn for_map_stmt(&mut self, stmt: &Stmt, variable: &Name, map: &Name, body: &Block) {
        let map = self.map_id(&map.text);
        let mut assigned = HashSet::from([ROUND]);
        of_block(body, &mut assigned);
        self.over_map(stmt.span, map, &assigned, &mut |this, next| {
            // SANITY: the check refuses a map without keys.
            let key = this.checked.maps[map.0 as usize].key.clone().expect("a map with keys");
            let key = this.parts_of(next, CURSOR_BYTES, key);
            let value = this.read_map(map, key.values.clone());
            let ty = Type::Tuple(vec![key.ty, value.ty]);
            let values = key.values.into_iter().chain(value.values).collect();
            this.variables.push(Slot { name: variable.text.clone(), ty, values });
            this.block(body);
        });
    }

    /// How many entries a map has.
    pub(super) fn count_entries(&mut self, span: Span, map: MapId) -> Value {
        let scope = self.variables.len();
        let none = self.int(0, Type::I64).value();
        self.variables.push(Slot { name: COUNT.to_owned(), ty: Type::I64, values: vec![none] });
        self.over_map(span, map, &HashSet::from([ROUND, COUNT]), &mut |this, _| {
            let one = this.int(1, Type::I64).value();
            let more = Op::Bin(BinOp::Add, this.variables[scope].values[0], one);
            this.variables[scope].values = vec![this.blocks.value(more, Type::I64)];
        });
        let count = self.variables[scope].values[0];
        self.variables.truncate(scope);
        count
    }

    /// A loop with the entries of a map; `body` is given what [`Op::MapNext`] gives of each.
    fn over_map(
        &mut self,
        span: Span,
        map: MapId,
        assigned: &HashSet<&str>,
        body: &mut dyn FnMut(&mut Self, Value),
    ) {
        let scope = self.variables.len();
        // SANITY: the check refuses a map without keys.
        let key_bytes = self.checked.maps[map.0 as usize].key.as_ref().expect("a map with keys").bytes();
        let start = self.int(0, Type::U64).value();
        self.variables.push(Slot { name: ROUND.to_owned(), ty: Type::U64, values: vec![start] });
        let found = Cell::new(None);
        self.loop_stmt(
            span,
            assigned,
            &mut |this| {
                let next = Op::MapNext { map, cursor: this.variables[scope].values[0] };
                let next = this.blocks.value(next, types::object(CURSOR_BYTES + key_bytes));
                let cursor =
                    this.blocks.value(Op::Part { of: next, offset: 0, bytes: CURSOR_BYTES }, Type::U64);
                found.set(Some((next, cursor)));
                let zero = this.int(0, Type::U64).value();
                let is_one = this.blocks.value(Op::Cmp(CmpOp::Ne, cursor, zero), Type::I64);
                let (yes, no) = this.branch(is_one);
                (vec![yes], vec![no])
            },
            &mut |this| {
                // SANITY: it was set before the round.
                let (next, _) = found.get().expect("an entry was found");
                body(this, next);
                this.variables.truncate(scope + 1);
            },
            &mut |this| {
                let (_, cursor) = found.get().expect("an entry was found");
                this.variables[scope].values = vec![cursor];
            },
        );
        self.variables.truncate(scope);
    }

    /// The rounds are the same as if they were written one after the other.
    pub(super) fn unroll_stmt(&mut self, stmt: &Stmt, count: &Expr, body: &Block) {
        // SANITY: the check refuses what is no constant.
        let count = constant(count, &self.checked.known).expect("a checked count is a constant");
        let (from, to) = (self.int(0, Type::I64).value(), self.int(count as i64, Type::I64).value());
        self.counted(stmt, from, to, body, &|_, _| {});
    }

    /// `break`, or `continue`.
    pub(super) fn leave_round(&mut self, ends_loop: bool) {
        let edge = self.jump(Vec::new());
        // SANITY: the check refuses both outside of loops.
        let around = self.loops.last_mut().expect("a loop is around");
        if ends_loop { around.breaks.extend(edge) } else { around.continues.extend(edge) }
    }

    /// A loop with numbers from `from` to before `to`, which `begin` makes something of in each round.
    fn counted(
        &mut self,
        stmt: &Stmt,
        from: Value,
        to: Value,
        body: &Block,
        begin: &dyn Fn(&mut Self, Value),
    ) {
        let mut assigned = HashSet::from([ROUND]);
        of_block(body, &mut assigned);
        let scope = self.variables.len();
        self.variables.push(Slot { name: ROUND.to_owned(), ty: Type::I64, values: vec![from] });
        let round = |this: &Self| this.variables[scope].values[0];
        self.loop_stmt(
            stmt.span,
            &assigned,
            &mut |this| {
                let is_before = Op::Cmp(CmpOp::SLt, round(this), to);
                let is_before = this.blocks.value(is_before, Type::I64);
                let (yes, no) = this.branch(is_before);
                (vec![yes], vec![no])
            },
            &mut |this| {
                begin(this, round(this));
                this.block(body);
                this.variables.truncate(scope + 1);
            },
            &mut |this| {
                let one = this.int(1, Type::I64).value();
                let next = this.blocks.value(Op::Bin(BinOp::Add, round(this), one), Type::I64);
                this.variables[scope].values = vec![next];
            },
        );
        self.variables.truncate(scope);
    }

    /// A loop that assigns to these variables: `asks` whether there is a round, `body` is one, `ends` is after each.
    fn loop_stmt(
        &mut self,
        span: Span,
        assigned: &HashSet<&str>,
        asks: &mut dyn FnMut(&mut Self) -> Ways,
        body: &mut dyn FnMut(&mut Self),
        ends: &mut dyn FnMut(&mut Self),
    ) {
        let scope = self.variables.len();
        let head = self.loop_head(assigned);
        let (yes, no) = asks(self);
        self.merge(yes, scope, &[]);
        let may_loop = self.blocks.value(Op::MayLoop, Type::I64);
        let (goes_on, is_over) = self.branch(may_loop);
        self.merge(vec![is_over], scope, &[]);
        let (clause, start) = (self.target.name.clone(), span.start);
        let place = self.origins.place(span).start;
        let line = 1 + self.file.text[..place as usize].matches('\n').count() as u32;
        self.emit_at(start, Action::LoopEnded { clause, line }, Vec::new());
        self.blocks.finish();
        self.merge(vec![goes_on], scope, &[]);
        self.loops.push(Loop { breaks: no, continues: Vec::new() });
        body(self);
        let last = self.jump(Vec::new());
        // SANITY: it was pushed above.
        let Loop { breaks, continues } = self.loops.pop().expect("the loop is there");
        self.merge(continues.into_iter().chain(last).collect(), scope, &[]);
        if self.blocks.is_reachable() {
            ends(self);
            self.jump_back(head, assigned);
        }
        self.merge(breaks, scope, &[]);
    }
}

/// Names of the variables that a block assigns to, its own among them.
fn of_block<'a>(block: &'a Block, names: &mut HashSet<&'a str>) {
    block.stmts.iter().for_each(|stmt| of_stmt(stmt, names));
}

fn of_stmt<'a>(stmt: &'a Stmt, names: &mut HashSet<&'a str>) {
    match &stmt.kind {
        StmtKind::Expr(expr) => of_expr(expr, names),
        StmtKind::Let { value, .. } => value.iter().for_each(|value| of_expr(value, names)),
        StmtKind::AssignVariable { variable, value, .. } => {
            names.insert(&variable.text);
            of_expr(value, names);
        }
        StmtKind::AssignMap { map, value, .. } => {
            map.keys.iter().chain([value]).for_each(|expr| of_expr(expr, names));
        }
        StmtKind::If { condition, then, otherwise, .. } => {
            of_expr(condition, names);
            of_block(then, names);
            otherwise.iter().for_each(|block| of_block(block, names));
        }
        StmtKind::While { condition, body } => {
            of_expr(condition, names);
            of_block(body, names);
        }
        StmtKind::For { from, to, body, .. } => {
            [from, to].into_iter().for_each(|expr| of_expr(expr, names));
            of_block(body, names);
        }
        StmtKind::Unroll { count, body } => {
            of_expr(count, names);
            of_block(body, names);
        }
        StmtKind::Block(block) | StmtKind::ForMap { body: block, .. } => of_block(block, names),
        StmtKind::Return(value) => value.iter().for_each(|value| of_expr(value, names)),
        StmtKind::Break | StmtKind::Continue | StmtKind::Invalid => {}
    }
}

fn of_expr<'a>(expr: &'a Expr, names: &mut HashSet<&'a str>) {
    if let ExprKind::Step { target, .. } = &expr.kind
        && let ExprKind::Variable(name) = &target.kind
    {
        names.insert(name);
    }
    if let ExprKind::Block { body, .. } | ExprKind::Inlined { body, .. } = &expr.kind {
        of_block(body, names);
    }
    children(&expr.kind).into_iter().for_each(|child| of_expr(child, names));
}
