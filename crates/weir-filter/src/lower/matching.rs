//! Texts that an automaton is run over: stars in the middle, order, regular expressions.

use std::sync::Arc;

use weir_event::Type;
use weir_ir::{Automaton, Module, Op};

use crate::ast::{BinaryOp, NodeId};
use crate::check::Kind;
use crate::limits;
use crate::lower::string::{Have, NULL_TEXT};
use crate::lower::{Lowering, Ways};

impl Lowering<'_> {
    /// `text =~ "regex"`, or `!~`.
    pub(super) fn regex(&mut self, op: BinaryOp, left: NodeId, right: NodeId) -> Ways {
        let Kind::Str { from } = self.kind(left) else {
            unreachable!("the check lets strings alone be matched")
        };
        let automaton = Arc::clone(&self.checked.automata[&right]);
        let is_match = op == BinaryOp::Match;
        let holds_of_null = automaton.matches(NULL_TEXT) == is_match;
        self.of_text(from, holds_of_null, |lowering, text| {
            let ways = lowering.matches(text, automaton);
            if is_match { ways } else { ways.negated() }
        })
    }

    pub(super) fn matches(&mut self, text: Have, automaton: Arc<Automaton>) -> Ways {
        let text = self.address(text);
        let op = Op::Match { text, bytes_max: limits::MATCH_BYTES_MAX, automaton };
        let matches = self.blocks.value(op, Type::U64);
        Ways::of(self.blocks.branch(matches))
    }
}

/// The automata of a module, each as often as it is run.
pub(crate) fn automata(module: &Module) -> impl Iterator<Item = &Arc<Automaton>> {
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    blocks.flat_map(|block| &block.insts).filter_map(|inst| match &inst.op {
        Op::Match { automaton, .. } => Some(automaton),
        _ => None,
    })
}

/// Gives each automaton its share of the bytes that may be looked at, in whole pieces.
pub(super) fn share(module: &mut Module) {
    let count = automata(module).count().max(1) as u32;
    let piece = weir_ir::limits::MATCH_PIECE_BYTES;
    let share = (limits::MATCH_BYTES_ALL / count).min(limits::MATCH_BYTES_MAX);
    let share = (share / piece).max(1) * piece;
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    for inst in blocks.flat_map(|block| &mut block.insts) {
        if let Op::Match { bytes_max, .. } = &mut inst.op {
            *bytes_max = share;
        }
    }
}
