//! In which order the sides of `&&` and `||` are evaluated: what decides at the least cost comes first.
//!
//! Of a chain of one operator the sides are sorted by what they cost over how likely they decide it; equal ones stay as they are
//! written. In weir's dialect that changes no answer: a side has no effect, and an error stays in its comparison. In LTTng's an
//! error is the whole filter's, so that a side that may meet one stays where it is, and only those between two such are sorted.
//! Where the value of `&&` or `||` is a number, which is that of its last side, nothing is moved.
//!
//! Costs are roughly nanoseconds, chances are guesses: equality seldom holds. Both only order.

use crate::Dialect;
use crate::ast::{Ast, BinaryOp, NodeId, NodeKind, UnaryOp};
use crate::check::{Checked, Kind, Place, Set, Text};

/// What is expected of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    cost: f64,
    /// Of a condition: how likely it holds.
    chance: f64,
    /// It may end the whole filter, in LTTng's dialect.
    may_fail: bool,
}

const CALL: f64 = 6.0;
const SYSTEM_CALL: f64 = 300.0;
const CONVERSION: f64 = 12.0;
const AUTOMATON: f64 = 60.0;
/// Chances are kept from being certain: a cost over nothing would be no order.
const CHANCES: (f64, f64) = (0.01, 0.99);

/// By node, operands first.
pub(super) fn estimates(ast: &Ast, checked: &Checked) -> Vec<Estimate> {
    let mut known: Vec<Estimate> = Vec::with_capacity(ast.nodes.len());
    for index in 0..ast.nodes.len() {
        let estimate = estimate(ast, checked, &known, NodeId(index as u32));
        known.push(estimate);
    }
    known
}

/// The sides of the chain of `op` that ends in `id`, in the order in which they are evaluated.
pub(super) fn sides(
    ast: &Ast,
    checked: &Checked,
    known: &[Estimate],
    op: BinaryOp,
    id: NodeId,
) -> Vec<NodeId> {
    let mut sides = Vec::new();
    let mut waiting = vec![id];
    while let Some(id) = waiting.pop() {
        match ast.node(id).kind {
            NodeKind::Binary(found, left, right) if found == op => waiting.extend([right, left]),
            _ => sides.push(id),
        }
    }
    let of = |id: &NodeId| known[id.0 as usize];
    let weight = |id: &NodeId| {
        let Estimate { cost, chance, .. } = of(id);
        cost / if op == BinaryOp::And { 1.0 - chance } else { chance }
    };
    let stays = |id: &NodeId| checked.dialect == Dialect::Lttng && of(id).may_fail;
    for movable in sides.split_mut(stays) {
        movable.sort_by(|a, b| weight(a).total_cmp(&weight(b)));
    }
    sides
}

fn estimate(ast: &Ast, checked: &Checked, known: &[Estimate], id: NodeId) -> Estimate {
    let of = |id: NodeId| known[id.0 as usize];
    let kind = |id: NodeId| checked.kinds[id.0 as usize];
    let of_pair = |a: NodeId, b: NodeId, cost: f64, chance: f64| Estimate {
        cost: of(a).cost + of(b).cost + cost,
        chance,
        may_fail: of(a).may_fail || of(b).may_fail,
    };
    match &ast.node(id).kind {
        NodeKind::Int(_) | NodeKind::Float(_) | NodeKind::Str(_) | NodeKind::Regex(_) => {
            Estimate { cost: 0.0, chance: 0.5, may_fail: false }
        }
        NodeKind::Field(_) | NodeKind::Context(_) => read(kind(id)),
        NodeKind::Unary(op, operand) => {
            let Estimate { cost, chance, may_fail } = of(*operand);
            let chance = if *op == UnaryOp::Not { 1.0 - chance } else { chance };
            Estimate { cost: cost + 1.0, chance, may_fail }
        }
        NodeKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
            let (first, second) = (of(*a), of(*b));
            let goes_on = if *op == BinaryOp::And { first.chance } else { 1.0 - first.chance };
            let both = match op {
                BinaryOp::And => first.chance * second.chance,
                _ => 1.0 - (1.0 - first.chance) * (1.0 - second.chance),
            };
            Estimate {
                cost: first.cost + goes_on * second.cost,
                chance: both.clamp(CHANCES.0, CHANCES.1),
                may_fail: first.may_fail || second.may_fail,
            }
        }
        NodeKind::Binary(op, a, b) if op.is_comparison() || op.is_match() => {
            let is_text = |id| matches!(kind(id), Kind::Str { .. });
            let equal = if is_text(*a) || is_text(*b) { 0.05 } else { 0.1 };
            let chance = match op {
                BinaryOp::Eq => equal,
                BinaryOp::Ne => 1.0 - equal,
                BinaryOp::Match => 0.2,
                BinaryOp::NoMatch => 0.8,
                _ => 0.4,
            };
            of_pair(*a, *b, compared(ast, &kind, *op, *a, *b), chance)
        }
        NodeKind::Binary(op, a, b) => {
            let is_shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
            let is_sound = matches!(ast.node(*b).kind, NodeKind::Int(0..=63));
            let cost = if matches!(op, BinaryOp::Div | BinaryOp::Mod) { 8.0 } else { 1.0 };
            let estimate = of_pair(*a, *b, cost, 0.5);
            Estimate { may_fail: estimate.may_fail || is_shift && !is_sound, ..estimate }
        }
        NodeKind::In(operand, _) => {
            let (cost, chance) = match checked.sets.get(&id) {
                Some(Set::Ints(ranges)) => (1.0 + ranges.len().min(8) as f64, 0.2),
                Some(Set::Doubles(ranges)) => (CONVERSION + ranges.len() as f64, 0.2),
                Some(Set::Strings(patterns)) => (patterns.len() as f64 * 2.0 * CALL, 0.2),
                None => (1.0, 0.5),
            };
            let Estimate { cost: before, may_fail, .. } = of(*operand);
            Estimate { cost: before + cost, chance, may_fail }
        }
    }
}

fn read(kind: Kind) -> Estimate {
    let place = match kind {
        Kind::Int { from: Some(place), .. }
        | Kind::Double { from: Some((place, _)) }
        | Kind::Str { from: Text::At(place) } => Some(place),
        _ => None,
    };
    let (cost, may_fail) = match (kind, place) {
        (Kind::Str { from: Text::Comm }, _) => (SYSTEM_CALL, false),
        (_, Some(Place::Builtin(weir_ir::Builtin::Slot(_)))) => (1.0, false),
        (_, Some(Place::Builtin(weir_ir::Builtin::Uid))) => (SYSTEM_CALL, false),
        (_, Some(Place::Builtin(_))) => (CALL, false),
        (_, Some(Place::Memory { element, .. })) => (CALL, element.is_some()),
        _ => (1.0, false),
    };
    Estimate { cost, chance: 0.5, may_fail }
}

/// What a comparison itself costs.
fn compared(ast: &Ast, kind: &impl Fn(NodeId) -> Kind, op: BinaryOp, a: NodeId, b: NodeId) -> f64 {
    let is = |wanted: fn(Kind) -> bool| wanted(kind(a)) || wanted(kind(b));
    if op.is_match() {
        return AUTOMATON;
    }
    if is(|kind| matches!(kind, Kind::Double { .. })) {
        return CONVERSION * if is(|kind| matches!(kind, Kind::Int { .. })) { 2.0 } else { 1.0 };
    }
    if !is(|kind| matches!(kind, Kind::Str { .. })) {
        return 1.0;
    }
    let pattern = [a, b].into_iter().find_map(|side| match &ast.node(side).kind {
        NodeKind::Str(pattern) => Some(pattern),
        _ => None,
    });
    match pattern {
        Some(pattern) if pattern.plain().is_some() || pattern.prefix().is_some() => {
            let is_equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
            let is_in_place = is(|kind| matches!(kind, Kind::Str { from: Text::Declared(_) }));
            let read = if is_in_place { 1.0 } else { 2.0 * CALL };
            if is_equality { read + pattern.pieces[0].len() as f64 / 16.0 } else { AUTOMATON }
        }
        _ => AUTOMATON,
    }
}
