//! Which tests are decided on the way to an edge.
//!
//! Each edge of a test says what the test gave. All that lie on every way to an edge are known there: they are its ancestors in the tree of
//! dominators. Edges of one test are listed in the order of a walk through the tree; each knows the nearest one above it, so that
//! the nearest one above any place is found from the last one before it.

use std::collections::HashMap;

use super::dominators::{Element, Tree};
use super::test_of;
use crate::graph::Graph;
use crate::ir::{Comparison, Test, ValueId};

/// An edge in a list.
struct Fact<T> {
    edge: Element,
    /// Of the nearest edge above it, in the same list.
    above: Option<usize>,
    says: T,
}

type Facts<K, T> = HashMap<K, Vec<Fact<T>>>;

/// What the edges of a graph say.
pub(super) struct Known<'a> {
    tree: &'a Tree,
    /// Results of tests.
    results: Facts<(Comparison, ValueId, ValueId), bool>,
    /// Constants that values were found to equal.
    equal: Facts<ValueId, ValueId>,
}

impl<'a> Known<'a> {
    pub(super) fn of(graph: &Graph, tree: &'a Tree, compared: &[Option<ValueId>]) -> Known<'a> {
        let mut known = Known { tree, results: HashMap::new(), equal: HashMap::new() };
        for edge in tree.edges() {
            let Element::Edge(node, is_yes) = edge else { continue };
            let Some((test, is_constant)) = test_of(graph, compared, node) else { continue };
            let results = known.results.entry((test.comparison, test.left, test.right)).or_default();
            add(tree, results, edge, is_yes);
            if is_yes && test.comparison == Comparison::Eq && is_constant {
                add(tree, known.equal.entry(test.left).or_default(), edge, test.right);
            }
        }
        known
    }

    /// What a test gives after an edge: it was made before, or its value was found to equal another constant.
    pub(super) fn decide(&self, edge: Element, test: Test, is_constant: bool) -> Option<bool> {
        let results = self.results.get(&(test.comparison, test.left, test.right));
        if let Some(fact) = results.and_then(|facts| nearest(self.tree, facts, edge)) {
            return Some(fact.says);
        }
        if test.comparison != Comparison::Eq || !is_constant {
            return None;
        }
        let fact = nearest(self.tree, self.equal.get(&test.left)?, edge)?;
        (fact.says != test.right).then_some(false)
    }
}

fn add<T>(tree: &Tree, facts: &mut Vec<Fact<T>>, edge: Element, says: T) {
    let above = above(tree, facts, facts.len().checked_sub(1), edge);
    facts.push(Fact { edge, above, says });
}

/// From `start` on upwards, the first that lies above `edge`, or is it.
fn above<T>(tree: &Tree, facts: &[Fact<T>], start: Option<usize>, edge: Element) -> Option<usize> {
    let mut at = start;
    while let Some(index) = at {
        if tree.is_above(facts[index].edge, edge) {
            return Some(index);
        }
        at = facts[index].above;
    }
    None
}

fn nearest<'f, T>(tree: &Tree, facts: &'f [Fact<T>], edge: Element) -> Option<&'f Fact<T>> {
    let before = facts.partition_point(|fact| tree.entered(fact.edge) <= tree.entered(edge));
    above(tree, facts, before.checked_sub(1), edge).map(|index| &facts[index])
}
