//! Which tests are decided on the way to an edge.
//!
//! Each edge of a test says what the test gave. All that lie on every way to an edge are known there: they are its ancestors in the tree of
//! dominators. Edges of one test are listed in the order of a walk through the tree; each knows the nearest one above it, so that
//! the nearest one above any place is found from the last one before it.
//!
//! What an edge to a leaf says is not kept: nothing is after it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::dominators::{Element, Times, Tree};
use super::ids::IdHasher;
use super::lists::Lists;
use super::test_of;
use crate::graph::{Graph, Node, Target};
use crate::ir::{Comparison, ValueId};

/// What one edge says.
#[derive(Clone, Copy, Default)]
struct Fact {
    times: Times,
    /// Of the nearest edge above it, in the same list, plus one; 0: none.
    above: u32,
    /// 1: a test held, 0: it did not; or the id of a constant.
    says: u32,
}

/// What the edges of a graph say.
pub(super) struct Known<'a> {
    tree: &'a Tree,
    /// By node: the number of its test, which equal tests share.
    tests: Vec<Option<Tested>>,
    /// Results, by the number of the test.
    results: Facts,
    /// Constants that values were found to equal, by the value's id.
    equal: Facts,
}

/// The test of a node.
#[derive(Clone, Copy)]
struct Tested {
    number: u32,
    left: ValueId,
    right: ValueId,
    compares_constant: bool,
}

impl<'a> Known<'a> {
    pub(super) fn of(graph: &Graph, tree: &'a Tree, compared: &[Option<ValueId>]) -> Known<'a> {
        let mut numbers: HashMap<(Comparison, ValueId, ValueId), u32, BuildHasherDefault<IdHasher>> =
            HashMap::with_capacity_and_hasher(graph.nodes.len(), BuildHasherDefault::default());
        let mut tests = vec![None; graph.nodes.len()];
        let mut decides = false;
        for node in tree.nodes() {
            let Some((test, is_constant)) = test_of(graph, compared, node) else { continue };
            let next = numbers.len() as u32;
            let number = *numbers.entry((test.comparison, test.left, test.right)).or_insert(next);
            let compares_constant = is_constant && test.comparison == Comparison::Eq;
            tests[node] = Some(Tested { number, left: test.left, right: test.right, compares_constant });
            // A test that is made twice; or one that makes others of its value false.
            decides |= number < next || compares_constant && is_heard(graph, tree, node, true);
        }
        let edges = tree.edges().filter(|_| decides);
        let facts = edges.filter_map(|edge| {
            let Element::Edge(node, is_yes) = edge else { return None };
            Some((tests[node].filter(|_| is_heard(graph, tree, node, is_yes))?, is_yes, tree.times(edge)))
        });
        let facts: Vec<(Tested, bool, Times)> = facts.collect();
        let results =
            facts.iter().map(|(test, is_yes, times)| (test.number as usize, *times, u32::from(*is_yes)));
        let equal = facts.iter().filter(|(test, is_yes, _)| test.compares_constant && *is_yes);
        let equal = equal.map(|(test, _, times)| (test.left.0 as usize, *times, test.right.0));
        let (results, equal) = (Facts::of(numbers.len(), results), Facts::of(graph.values.count(), equal));
        Known { tree, tests, results, equal }
    }

    /// What the test of a node gives after an edge: it was made before, or its value was found to equal another constant.
    pub(super) fn decide(&self, edge: Element, node: usize) -> Option<bool> {
        let test = self.tests[node]?;
        let times = self.tree.times(edge);
        if let Some(says) = self.results.nearest(test.number as usize, times) {
            return Some(says == 1);
        }
        if !test.compares_constant {
            return None;
        }
        (self.equal.nearest(test.left.0 as usize, times)? != test.right.0).then_some(false)
    }
}

/// Whether anything stands after this edge: in the tree, or now. (The tree is of the edges before some were exchanged.)
fn is_heard(graph: &Graph, tree: &Tree, node: usize, is_yes: bool) -> bool {
    let Node { yes, no, .. } = &graph.nodes[node];
    let now = if is_yes { yes } else { no };
    matches!(now, Target::Node(_)) || tree.has_below(Element::Edge(node, is_yes))
}

/// Lists of facts, each in the order of a walk through the tree.
struct Facts(Lists<Fact>);

impl Facts {
    fn of(count: usize, facts: impl Iterator<Item = (usize, Times, u32)> + Clone) -> Facts {
        let mut lists =
            Lists::of(count, facts.map(|(list, times, says)| (list, Fact { times, above: 0, says })));
        lists.each_mut(|facts| {
            for at in 1..facts.len() {
                let (before, after) = facts.split_at_mut(at);
                after[0].above = above(before, at as u32, after[0].times);
            }
        });
        Facts(lists)
    }

    /// What the nearest of a list's edges above `edge` says.
    fn nearest(&self, list: usize, edge: Times) -> Option<u32> {
        let facts = self.0.get(list);
        let before = facts.partition_point(|fact| fact.times.enter <= edge.enter);
        let found = above(facts, before as u32, edge).checked_sub(1)?;
        Some(facts[found as usize].says)
    }
}

/// From the fact `start` (plus one) on upwards, the first that lies above `edge`, or is it; plus one, or 0.
fn above(facts: &[Fact], start: u32, edge: Times) -> u32 {
    let mut at = start;
    while let Some(fact) = at.checked_sub(1).map(|index| &facts[index as usize]) {
        if fact.times.is_above(edge) {
            break;
        }
        at = fact.above;
    }
    at
}
