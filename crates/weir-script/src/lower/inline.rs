//! Blocks that are values, and functions put in where they are called.

use weir_event::{Action, Type};
use weir_ir::{Asked, Trigger};

use crate::ast::{Block, Expr};
use crate::check::width::Cut;
use crate::lower::Lowering;
use crate::lower::block::{Call, Loop, parts};
use crate::lower::call::field;
use crate::lower::expr::Operand;

impl Lowering<'_> {
    /// A block that is a value. Where its path has ended before, what is around it is lowered all the same, to where nothing leads.
    pub(super) fn valued_block(&mut self, body: &Block, value: &Expr) -> Operand {
        let scope = self.variables.len();
        self.stmts(body);
        self.blocks.go_on();
        let value = self.expr(value);
        self.variables.truncate(scope);
        value
    }

    /// A function's body where its value is wanted.
    pub(super) fn inlined_value(&mut self, body: &Block) -> Operand {
        // SANITY: the check wants a function with a result.
        let ty =
            self.checked.results.get(&body.span.start).cloned().expect("a checked function has a result");
        match self.inlined(body) {
            Some(value) => value,
            None => {
                self.blocks.go_on();
                let values = parts(&ty).into_iter().map(|ty| self.zero(ty)).collect();
                Operand { ty, values }
            }
        }
    }

    /// The body of a function; what it returns, where it does.
    pub(super) fn inlined(&mut self, body: &Block) -> Option<Operand> {
        let scope = self.variables.len();
        let result = self.checked.results.get(&body.span.start).cloned();
        let cut = self.checked.cuts.get(&body.span.start).copied();
        let loops: Vec<Loop> = std::mem::take(&mut self.loops);
        self.calls.push(Call { result, cut, returns: Vec::new() });
        self.block(body);
        self.return_from_call(None);
        // SANITY: it was pushed above.
        let Call { result, returns, .. } = self.calls.pop().expect("the call is there");
        self.loops = loops;
        let types = result.as_ref().map(parts).unwrap_or_default();
        let values = self.merge(returns, scope, &types);
        result.filter(|_| self.blocks.is_reachable()).map(|ty| Operand { ty, values })
    }

    /// `return`: of the function around it, or of the clause.
    pub(super) fn return_stmt(&mut self, value: Option<&Expr>) {
        match self.calls.is_empty() {
            true => self.return_from_probe(value),
            false => self.return_from_call(value),
        }
    }

    /// A test that returns another value than 0 ends as one that exits with it; elsewhere nobody asks for the value.
    fn return_from_probe(&mut self, value: Option<&Expr>) {
        let is_test = self.target.trigger == Trigger::Asked { by: Asked::Test };
        match value {
            Some(value) if is_test => {
                let scope = self.variables.len();
                let (fails, passes) = self.condition(value);
                self.merge(fails, scope, &[]);
                let code = self.int(1, Type::I64);
                let exit = Action::Exit { code: Some(field(&Type::I64)) };
                self.emit_at(value.span.start, exit, code.values);
                self.blocks.finish();
                self.merge(passes, scope, &[]);
            }
            Some(value) => self.effect_of(value),
            None => {}
        }
        self.blocks.finish();
    }

    /// Where no value is given, and one is wanted, it is 0 or "".
    fn return_from_call(&mut self, value: Option<&Expr>) {
        if !self.blocks.is_reachable() {
            return;
        }
        // SANITY: it is called only in a call.
        let call = self.calls.last().expect("a call is around");
        let (result, cut) = (call.result.clone(), call.cut);
        let values = match (&result, value) {
            (Some(ty), Some(value)) => {
                let value = self.expr_as(value, ty);
                self.cut(value, cut).values
            }
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

    /// What a function is given, or gives, as its head says.
    pub(super) fn cut(&mut self, value: Operand, cut: Option<Cut>) -> Operand {
        match cut {
            Some(Cut { to, is_truth }) => {
                Operand { ty: value.ty.clone(), ..self.cast_int(to, value, is_truth) }
            }
            None => value,
        }
    }
}
