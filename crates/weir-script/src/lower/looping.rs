//! Loops.
//!
//! A loop's head is a block that has a parameter for each scratch variable that the loop assigns. It asks whether there is another round,
//! and then whether the run may have it. Each round ends in a jump back that gives the parameters their next values; `continue` goes
//! where the round ends, `break` where the loop does. A round that the run may not have is reported ([`Action::LoopEnded`]), and
//! the run ends there: what the loop was to find out is not known.

use std::collections::HashSet;

use weir_event::{Action, Type};
use weir_ir::{BinOp, CmpOp, Op, Value};

use crate::ast::{Block, Expr, ExprKind, Name, Stmt, StmtKind, children};
use crate::check::constant;
use crate::lower::Lowering;
use crate::lower::block::{Edge, Slot};

/// What waits for the end of a round, or of the loop.
pub(super) struct Loop {
    breaks: Vec<Edge>,
    continues: Vec<Edge>,
}

/// Where something is so, and where it is not.
type Ways = (Vec<Edge>, Vec<Edge>);

/// A name that no variable of a script has: the number of a `for` loop's round.
const ROUND: &str = "";

impl Lowering<'_> {
    pub(super) fn while_stmt(&mut self, stmt: &Stmt, condition: &Expr, body: &Block) {
        let mut assigned = HashSet::new();
        of_expr(condition, &mut assigned);
        of_block(body, &mut assigned);
        self.loop_stmt(
            stmt,
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
            stmt,
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
        stmt: &Stmt,
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
        let (clause, start) = (self.target.name.clone(), stmt.span.start);
        let line = 1 + self.file.text[..start as usize].matches('\n').count() as u32;
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
        StmtKind::If { condition, then, otherwise } => {
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
        StmtKind::Block(block) => of_block(block, names),
        StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Invalid => {}
    }
}

fn of_expr<'a>(expr: &'a Expr, names: &mut HashSet<&'a str>) {
    if let ExprKind::Step { target, .. } = &expr.kind
        && let ExprKind::Variable(name) = &target.kind
    {
        names.insert(name);
    }
    children(&expr.kind).into_iter().for_each(|child| of_expr(child, names));
}
