//! Blocks that are values, and functions put in where they are called.

use weir_event::Type;

use crate::ast::{Block, Expr};
use crate::lower::Lowering;
use crate::lower::block::{Call, Loop, parts};
use crate::lower::expr::Operand;

impl Lowering<'_> {
    /// A block, and its value where it has one.
    pub(super) fn valued_block(&mut self, body: &Block, value: Option<&Expr>) -> Option<Operand> {
        let scope = self.variables.len();
        self.stmts(body);
        let value = value.filter(|_| self.blocks.is_reachable()).map(|value| self.expr(value));
        self.variables.truncate(scope);
        value
    }

    /// The body of a function; what it returns, where it does.
    pub(super) fn inlined(&mut self, body: &Block) -> Option<Operand> {
        let scope = self.variables.len();
        let result = self.checked.results.get(&body.span.start).cloned();
        let loops: Vec<Loop> = std::mem::take(&mut self.loops);
        self.calls.push(Call { result, returns: Vec::new() });
        self.block(body);
        self.return_from_call(None);
        // SANITY: it was pushed above.
        let Call { result, returns } = self.calls.pop().expect("the call is there");
        self.loops = loops;
        let types = result.as_ref().map(parts).unwrap_or_default();
        let values = self.merge(returns, scope, &types);
        result.filter(|_| self.blocks.is_reachable()).map(|ty| Operand { ty, values })
    }

    /// `return`: of the function around it, or of the clause.
    pub(super) fn return_stmt(&mut self, value: Option<&Expr>) {
        match self.calls.is_empty() {
            true => self.blocks.finish(),
            false => self.return_from_call(value),
        }
    }

    /// Where no value is given, and one is wanted, it is 0 or "".
    fn return_from_call(&mut self, value: Option<&Expr>) {
        if !self.blocks.is_reachable() {
            return;
        }
        // SANITY: it is called only in a call.
        let result = self.calls.last().expect("a call is around").result.clone();
        let values = match (&result, value) {
            (Some(ty), Some(value)) => self.expr_as(value, ty).values,
            (Some(ty), None) => parts(ty).into_iter().map(|ty| self.zero(ty)).collect(),
            (None, Some(value)) => {
                self.effect_of(value);
                Vec::new()
            }
            (None, None) => Vec::new(),
        };
        let edge = self.jump(values);
        // SANITY: as above.
        self.calls.last_mut().expect("a call is around").returns.extend(edge);
    }

    /// The value, or, on a path that has ended before there was one, any, so that what is around it can be lowered.
    pub(super) fn value_or_none(&mut self, value: Option<Operand>) -> Operand {
        value.unwrap_or_else(|| {
            self.blocks.open_entry();
            self.int(0, Type::I64)
        })
    }
}
