//! Statements.

use weir_event::{MapValue, Type};
use weir_ir::{Op, Value};

use crate::ast::{BinaryOp, Block, Expr, ExprKind, MapRef, Name, Stmt, StmtKind};
use crate::lower::Lowering;
use crate::lower::block::{Slot, parts};
use crate::lower::expr::Operand;
use crate::types;

impl Lowering<'_> {
    /// A block in a scope of its own. What follows a `return` or `exit()` is left out.
    pub(super) fn block(&mut self, block: &Block) {
        let scope = self.variables.len();
        self.stmts(block);
        self.variables.truncate(scope);
    }

    /// In the scope around it.
    pub(super) fn stmts(&mut self, block: &Block) {
        for stmt in &block.stmts {
            if !self.blocks.is_reachable() {
                break;
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Expr(expr) => self.effect_of(expr),
            StmtKind::Let { variable, value, .. } => self.let_stmt(variable, value.as_ref()),
            StmtKind::AssignVariable { variable, op: None, value } => self.assign_variable(variable, value),
            StmtKind::AssignVariable { variable, op: Some(op), value } => {
                self.update_variable(variable, *op, value)
            }
            StmtKind::AssignMap { map, op: None, value } => self.assign_map(map, value),
            StmtKind::AssignMap { map, op: Some(op), value } => self.update_map(map, *op, value),
            StmtKind::If { condition, then, otherwise, is_static: true } => {
                match (self.checked.statics[&condition.span.start], otherwise) {
                    (true, _) => self.block(then),
                    (false, Some(otherwise)) => self.block(otherwise),
                    (false, None) => {}
                }
            }
            StmtKind::If { condition, then, otherwise, .. } => {
                self.if_stmt(condition, then, otherwise.as_ref());
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::While { condition, body } => self.while_stmt(stmt, condition, body),
            StmtKind::For { variable, from, to, body } => self.for_stmt(stmt, variable, (from, to), body),
            StmtKind::ForMap { variable, map, body } => self.for_map_stmt(stmt, variable, map, body),
            StmtKind::Unroll { count, body } => self.unroll_stmt(stmt, count, body),
            StmtKind::Break => self.leave_round(true),
            StmtKind::Continue => self.leave_round(false),
            StmtKind::Return(value) => self.return_stmt(value.as_ref()),
            StmtKind::Invalid => unreachable!("a script with a fault is not lowered"),
        }
    }

    fn if_stmt(&mut self, condition: &Expr, then: &Block, otherwise: Option<&Block>) {
        let scope = self.variables.len();
        let (yes, no) = self.condition(condition);
        self.merge(yes, scope, &[]);
        self.block(then);
        let mut ends: Vec<_> = self.jump(Vec::new()).into_iter().collect();
        match otherwise {
            None => ends.extend(no),
            Some(otherwise) => {
                self.merge(no, scope, &[]);
                self.block(otherwise);
                ends.extend(self.jump(Vec::new()));
            }
        }
        self.merge(ends, scope, &[]);
    }

    // Scratch variables.

    pub(super) fn let_stmt(&mut self, variable: &Name, value: Option<&Expr>) {
        // A variable that nothing is ever assigned to has no type, and nothing reads it.
        let Some(ty) = self.checked.variables.get(&variable.span.start).cloned() else { return };
        let values = match value {
            Some(value) => {
                let value = self.expr_as(value, &ty);
                self.cut(value, self.checked.cuts.get(&variable.span.start).copied()).values
            }
            None => parts(&ty).into_iter().map(|ty| self.zero(ty)).collect(),
        };
        self.variables.push(Slot { name: variable.text.clone(), ty, values });
    }

    fn assign_variable(&mut self, variable: &Name, value: &Expr) {
        match self.slot(&variable.text) {
            None => self.let_stmt(variable, Some(value)),
            Some(slot) => {
                let ty = self.variables[slot].ty.clone();
                self.variables[slot].values = self.expr_as(value, &ty).values;
            }
        }
    }

    fn update_variable(&mut self, variable: &Name, op: BinaryOp, value: &Expr) {
        // `x += value` is `x = x + value`: the value may change the variable.
        let slot = self.known_slot(&variable.text);
        let old = self.variable(slot);
        let value = self.expr(value);
        self.variables[slot].values = self.int_binary(op, &old, &value).values;
    }

    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|slot| slot.name == name)
    }

    pub(super) fn known_slot(&self, name: &str) -> usize {
        // SANITY: the check refuses a variable that is not declared.
        self.slot(name).expect("a checked variable is in scope")
    }

    /// The value of a variable that was declared and not assigned.
    pub(super) fn zero(&mut self, ty: Type) -> Value {
        let op = match &ty {
            Type::Str { .. } | Type::Object { .. } | Type::Inet | Type::Buffer { .. } => {
                Op::Str(String::new())
            }
            // No site has this cookie.
            Type::Probe | Type::Func => Op::Int(-1),
            Type::Usym => {
                let address = self.int(0, Type::U64).value();
                Op::UserSymbol { address }
            }
            Type::Int { .. }
            | Type::Pointer(_)
            | Type::Word(_)
            | Type::Double
            | Type::Ustack(_)
            | Type::Tuple(_)
            | Type::Record(_) => Op::Int(0),
        };
        self.blocks.value(op, ty)
    }

    // Maps.

    fn assign_map(&mut self, map: &MapRef, value: &Expr) {
        let id = self.map_id(&map.name.text);
        let held = self.checked.maps[id.0 as usize].value.clone();
        if let MapValue::Plain(ty) = held {
            let value = self.expr_as(value, &ty);
            let value = self.in_one(value, &ty);
            let key = self.key(id, &map.keys);
            self.blocks.effect(Op::MapSet { map: id, key, value });
            return;
        }
        let ExprKind::Call { args, .. } = &value.kind else {
            unreachable!("an aggregation map is assigned by its function");
        };
        let value = args.first().map(|arg| self.expr(arg).value());
        let key = self.key(id, &map.keys);
        self.blocks.effect(Op::Aggregate { map: id, key, value });
    }

    /// `+=` and `-=` are one atomic addition; the others read and write, and another thread may come between.
    fn update_map(&mut self, map: &MapRef, op: BinaryOp, value: &Expr) {
        let id = self.map_id(&map.name.text);
        let value = self.expr(value);
        let key = self.key(id, &map.keys);
        match op {
            BinaryOp::Add => {
                self.add_to_map(id, key, value.value());
            }
            BinaryOp::Sub => {
                let delta = self.negated(&value).value();
                self.add_to_map(id, key, delta);
            }
            _ => {
                let old = self.read_map(id, key.clone());
                let value = self.int_binary(op, &old, &value).value();
                self.blocks.effect(Op::MapSet { map: id, key, value });
            }
        }
    }

    /// What a map keeps of a value: of a tuple all parts one after the other, as long as the map has them.
    fn in_one(&mut self, value: Operand, ty: &Type) -> Value {
        if !matches!(ty, Type::Tuple(_) | Type::Record(_)) {
            return value.value();
        }
        let bytes = weir_ir::leaves(ty).into_iter().map(Type::bytes);
        let parts = value.values.into_iter().zip(bytes).collect();
        self.blocks.value(Op::Join(parts), types::object(ty.bytes()))
    }

    pub(super) fn add_to_map(&mut self, map: weir_ir::MapId, key: Vec<Value>, delta: Value) -> Operand {
        let ty = self.map_type(map);
        Operand::one(self.blocks.value(Op::MapAdd { map, key, delta }, ty.clone()), ty)
    }
}
