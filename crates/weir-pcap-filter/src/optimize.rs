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
mod pull_up;

use std::collections::HashMap;

use weir_source::{Diagnostic, Span};

use crate::graph::{Condition, Graph, Target};
use crate::ir::{Comparison, Test, Value, ValueId, Values};
use crate::limits::PASSES_MAX;
use crate::optimize::dominators::{Element, Tree};

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
    for _ in 0..PASSES_MAX {
        let mut changed = false;
        for index in graph.order() {
            changed |= simplify(graph, index);
        }
        let tree = Tree::of(graph);
        changed |= skip_known(graph, &tree);
        changed |= pull_up::pull_up(graph, &tree);
        if !changed {
            return;
        }
    }
}

fn values(graph: &mut Graph) -> Result<(), Diagnostic> {
    let mut folded = HashMap::new();
    for index in graph.order() {
        for at in 0..graph.nodes[index].forced.len() {
            let value = graph.nodes[index].forced[at];
            graph.nodes[index].forced[at] = fold::fold(&mut graph.values, &mut folded, value)?;
        }
        loop {
            let Condition::Test(test) = graph.nodes[index].condition else { break };
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

/// One step of making a test simpler; false: there is none.
fn simplify(graph: &mut Graph, index: usize) -> bool {
    let Condition::Test(test) = graph.nodes[index].condition else { return false };
    let values = &mut graph.values;
    let right = values.constant(test.right);
    if let Some(new) = without_difference(values, test) {
        graph.nodes[index].condition = Condition::Test(new);
        return true;
    }
    let Some(number) = right else { return false };
    if test.by_register {
        graph.nodes[index].condition = Condition::Test(Test { by_register: false, ..test });
        return true;
    }
    // A masked value that is compared with 0 has none of the bits.
    if test.comparison == Comparison::Eq
        && number == 0
        && let Value::Binary { operator: crate::ast::Operator::And, left, right: mask, by_register: false } =
            *values.get(test.left)
        && values.constant(mask).is_some()
    {
        let node = &mut graph.nodes[index];
        node.condition = Condition::Test(Test { comparison: Comparison::Set, left, right: mask, by_register: false });
        std::mem::swap(&mut node.yes, &mut node.no);
        return true;
    }
    let decided = match (test.comparison, values.constant(test.left)) {
        (comparison, Some(left)) => Some(comparison.holds(left, number)),
        (Comparison::Set, None) if number == 0 => Some(false),
        // libpcap takes it that a value has one of all bits, though it may be 0.
        (Comparison::Set, None) if number == u32::MAX => Some(true),
        _ => None,
    };
    let node = &mut graph.nodes[index];
    match decided {
        Some(holds) if node.yes != node.no => {
            let target = if holds { node.yes } else { node.no };
            (node.yes, node.no) = (target, target);
            true
        }
        _ => false,
    }
}

/// `a - b == 0` is `a == b`, and `a - 1 == 2` is `a == 3`.
fn without_difference(values: &mut Values, test: Test) -> Option<Test> {
    let number = values.constant(test.right)?;
    if test.comparison != Comparison::Eq {
        return None;
    }
    let Value::Binary { operator: crate::ast::Operator::Sub, left, right, .. } = *values.get(test.left) else {
        return None;
    };
    match values.constant(right) {
        Some(less) => {
            let right = values.number(number.wrapping_add(less));
            Some(Test { left, right, by_register: false, ..test })
        }
        None if number == 0 => Some(Test { left, right, by_register: true, ..test }),
        None => None,
    }
}

/// What is known on the way to a place.
#[derive(Default)]
struct Known {
    /// Results of tests.
    results: HashMap<(Comparison, ValueId, ValueId), bool>,
    /// Values that equal a constant.
    equal: HashMap<ValueId, ValueId>,
}

/// What to put back when the way is left.
enum Undo {
    Result((Comparison, ValueId, ValueId), Option<bool>),
    Equal(ValueId, Option<ValueId>),
}

impl Known {
    fn learn(&mut self, test: Test, holds: bool, is_constant: bool) -> Vec<Undo> {
        let key = (test.comparison, test.left, test.right);
        let mut undo = vec![Undo::Result(key, self.results.insert(key, holds))];
        if holds && test.comparison == Comparison::Eq && is_constant {
            undo.push(Undo::Equal(test.left, self.equal.insert(test.left, test.right)));
        }
        undo
    }

    fn forget(&mut self, undo: Vec<Undo>) {
        for step in undo.into_iter().rev() {
            match step {
                Undo::Result(key, Some(before)) => _ = self.results.insert(key, before),
                Undo::Result(key, None) => _ = self.results.remove(&key),
                Undo::Equal(key, Some(before)) => _ = self.equal.insert(key, before),
                Undo::Equal(key, None) => _ = self.equal.remove(&key),
            }
        }
    }

    /// What a test gives: it was made before, or its value was found to equal another constant.
    fn decide(&self, test: Test, is_constant: bool) -> Option<bool> {
        let result = self.results.get(&(test.comparison, test.left, test.right)).copied();
        result.or_else(|| {
            let equal = self.equal.get(&test.left)?;
            (test.comparison == Comparison::Eq && is_constant && *equal != test.right).then_some(false)
        })
    }
}

/// Edges lead past tests whose result is known, and past those that decide nothing.
fn skip_known(graph: &mut Graph, tree: &Tree) -> bool {
    enum Step {
        Enter(Element),
        Leave(Vec<Undo>),
    }
    let mut known = Known::default();
    let mut changed = false;
    let mut stack: Vec<Step> = tree.root().map(Step::Enter).into_iter().collect();
    while let Some(step) = stack.pop() {
        let element = match step {
            Step::Leave(undo) => {
                known.forget(undo);
                continue;
            }
            Step::Enter(element) => element,
        };
        if let Element::Edge(node, is_yes) = element {
            let Condition::Test(test) = graph.nodes[node].condition else { continue };
            let is_constant = graph.values.constant(test.right).is_some();
            let undo = known.learn(test, is_yes, is_constant);
            let from = if is_yes { graph.nodes[node].yes } else { graph.nodes[node].no };
            let to = follow(graph, &known, from);
            if to != from {
                changed = true;
                let node = &mut graph.nodes[node];
                *(if is_yes { &mut node.yes } else { &mut node.no }) = to;
            }
            stack.push(Step::Leave(undo));
        }
        stack.extend(tree.children(element).map(Step::Enter));
    }
    changed
}

fn follow(graph: &Graph, known: &Known, mut target: Target) -> Target {
    if let Target::Node(node) = target
        && graph.nodes[node].yes == graph.nodes[node].no
    {
        target = graph.nodes[node].yes;
    }
    while let Target::Node(node) = target {
        let Condition::Test(test) = graph.nodes[node].condition else { break };
        let is_constant = graph.values.constant(test.right).is_some();
        match known.decide(test, is_constant) {
            Some(true) => target = graph.nodes[node].yes,
            Some(false) => target = graph.nodes[node].no,
            None => break,
        }
    }
    target
}
