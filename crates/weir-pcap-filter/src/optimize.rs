//! What libpcap's optimiser makes of an expression, as far as it shows.
//!
//! It shows in three ways: a load that is not needed any more cannot reject a short packet; a test that is moved up is made
//! before loads that stood before it; and an expression that is found to reject everything is refused. So compatible
//! filters need the same steps, in the same order, on values that are known to be equal when libpcap knows it:
//!
//! 1. [`branches`]: tests whose result is known from the way that led to them are skipped; a test that leads to one place is dropped; a test
//!    of the value at hand is moved up to where that value was tested ([`pull_up`]). Constants are not folded yet.
//! 2. [`values`]: constants are folded, and tests of constants decided; their nodes stay.
//!
//! Which steps there are and what they do was found by compiling expressions with libpcap 1.10.3 and reading the programs.

mod dominators;
mod fold;
mod ids;
mod known;
mod lists;
mod pull_up;

use std::collections::HashMap;

use weir_source::{Diagnostic, Span};

use crate::graph::{Condition, Graph, Target};
use crate::ir::{Comparison, Test, Value, ValueId, Values};
use crate::limits::PASSES_MAX;
use crate::optimize::dominators::{Element, Tree};
use crate::optimize::known::Known;
use crate::optimize::lists::Lists;

/// Optimises as libpcap does. An error: libpcap refuses the expression for what its optimiser found.
pub(crate) fn optimize(graph: &mut Graph) -> Result<(), Diagnostic> {
    branches(graph);
    values(graph)?;
    graph.intern();
    strip_root(graph);
    if graph.root == Target::Reject {
        return Err(Diagnostic::error(Span::new(0, 0), "the expression rejects all packets")
            .with_hint("two of its parts contradict each other"));
    }
    Ok(())
}

/// A test that begins the expression and leads to one place is not made; its loads are, unless nothing follows.
fn strip_root(graph: &mut Graph) {
    let mut forced = Vec::new();
    while let Target::Node(root) = graph.root
        && graph.nodes[root].yes == graph.nodes[root].no
    {
        let node = &graph.nodes[root];
        forced.extend(node.forced.iter().copied());
        if let Condition::Test(test) = node.condition {
            forced.extend([test.left, test.right]);
        }
        graph.root = node.yes;
    }
    if let Target::Node(root) = graph.root {
        forced.append(&mut graph.nodes[root].forced);
        graph.nodes[root].forced = forced;
    }
}

fn branches(graph: &mut Graph) {
    let (mut tree, mut edges) = (Tree::default(), Lists::default());
    for pass in 0..PASSES_MAX {
        // What is known of each place is found out before tests are made simpler, which may exchange a node's edges: as in
        // libpcap, which then takes the one for the other in this pass.
        tree.rebuild(graph);
        let compared: Vec<Option<ValueId>> =
            (0..graph.nodes.len()).map(|node| compared_value(graph, node, pass == 0)).collect();
        // Differences become comparisons in the first pass, which asks for another.
        let mut changed = pass == 0 && tree.nodes().any(|node| is_difference(graph, node));
        for index in tree.nodes() {
            changed |= simplify(graph, index);
        }
        changed |= skip_known(graph, &tree, &compared);
        changed |= pull_up::pull_up(graph, &tree, &compared, &mut edges);
        if !changed {
            return;
        }
    }
}

/// The value that a node compares. At first two numbers are equal for libpcap if their difference is 0.
fn compared_value(graph: &mut Graph, node: usize, is_first_pass: bool) -> Option<ValueId> {
    let Condition::Test(Test { left, right, by_register, .. }) = graph.nodes[node].condition else {
        return None;
    };
    if is_first_pass && is_difference(graph, node) {
        let operator = crate::ast::Operator::Sub;
        return Some(graph.values.add(Value::Binary { operator, left, right, by_register }));
    }
    Some(left)
}

fn is_difference(graph: &Graph, node: usize) -> bool {
    let Condition::Test(Test { comparison, by_register, .. }) = graph.nodes[node].condition else {
        return false;
    };
    by_register && comparison == Comparison::Eq
}

fn values(graph: &mut Graph) -> Result<(), Diagnostic> {
    let mut folded = HashMap::new();
    let kept = std::mem::take(&mut graph.kept);
    for value in kept {
        graph.kept.insert(fold::fold(&mut graph.values, &mut folded, value)?);
    }
    for index in graph.order() {
        for at in 0..graph.nodes[index].forced.len() {
            let value = graph.nodes[index].forced[at];
            graph.nodes[index].forced[at] = fold::fold(&mut graph.values, &mut folded, value)?;
        }
        while let Condition::Test(test) = graph.nodes[index].condition {
            let left = fold::fold(&mut graph.values, &mut folded, test.left)?;
            let right = fold::fold(&mut graph.values, &mut folded, test.right)?;
            graph.nodes[index].condition = Condition::Test(Test { left, right, ..test });
            if !simplify(graph, index) {
                break;
            }
        }
    }
    Ok(())
}

/// Steps of making a test simpler, each once; false: there were none.
fn simplify(graph: &mut Graph, index: usize) -> bool {
    let Condition::Test(before) = graph.nodes[index].condition else { return false };
    let mut test = before;
    if let Some(new) = without_mask(&graph.values, test) {
        test = new;
        let node = &mut graph.nodes[index];
        std::mem::swap(&mut node.yes, &mut node.no);
    }
    let right = graph.values.constant(test.right);
    test.by_register &= right.is_none();
    graph.nodes[index].condition = Condition::Test(test);
    let decided = match (test.comparison, graph.values.constant(before.left), right) {
        (comparison, Some(left), Some(right)) => Some(comparison.holds(left, right)),
        (Comparison::Set, None, Some(0)) => Some(false),
        // libpcap takes it that a value has one of all bits, though it may be 0.
        (Comparison::Set, None, Some(u32::MAX)) => Some(true),
        _ => None,
    };
    let node = &mut graph.nodes[index];
    let Some(holds) = decided.filter(|_| node.yes != node.no) else { return test != before };
    let target = if holds { node.yes } else { node.no };
    (node.yes, node.no) = (target, target);
    true
}

/// A masked value that is compared with 0 has none of the bits: the contrary of the test that this gives.
fn without_mask(values: &Values, test: Test) -> Option<Test> {
    let Value::Binary { operator: crate::ast::Operator::And, left, right, by_register: false } =
        *values.get(test.left)
    else {
        return None;
    };
    let is_zero =
        test.comparison == Comparison::Eq && values.constant(test.right) == Some(0) && !test.by_register;
    (is_zero && values.constant(right).is_some()).then_some(Test {
        comparison: Comparison::Set,
        left,
        right,
        by_register: false,
    })
}

/// Edges lead past tests whose result is known, and past those that decide nothing. Nodes near the leaves first: what is found there
/// shows in those before them.
fn skip_known(graph: &mut Graph, tree: &Tree, compared: &[Option<ValueId>]) -> bool {
    let known = Known::of(graph, tree, compared);
    let mut changed = false;
    for node in tree.nodes() {
        if !matches!(graph.nodes[node].condition, Condition::Test(_)) {
            continue;
        }
        for is_yes in [true, false] {
            let from = if is_yes { graph.nodes[node].yes } else { graph.nodes[node].no };
            let to = follow(graph, &known, Element::Edge(node, is_yes), from);
            if to != from {
                changed = true;
                let node = &mut graph.nodes[node];
                *(if is_yes { &mut node.yes } else { &mut node.no }) = to;
            }
        }
    }
    changed
}

/// A node's test of the value that it compared before this pass, and whether it compares it with a constant.
fn test_of(graph: &Graph, compared: &[Option<ValueId>], node: usize) -> Option<(Test, bool)> {
    let Condition::Test(test) = graph.nodes[node].condition else { return None };
    let is_constant = graph.values.constant(test.right).is_some();
    Some((Test { left: compared[node]?, ..test }, is_constant))
}

fn follow(graph: &Graph, known: &Known<'_>, edge: Element, mut target: Target) -> Target {
    if let Target::Node(node) = target
        && graph.nodes[node].yes == graph.nodes[node].no
    {
        target = graph.nodes[node].yes;
    }
    while let Target::Node(node) = target {
        match known.decide(edge, node) {
            Some(true) => target = graph.nodes[node].yes,
            Some(false) => target = graph.nodes[node].no,
            None => break,
        }
    }
    target
}
