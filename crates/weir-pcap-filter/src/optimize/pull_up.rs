//! Tests of a value are moved up to where that value was tested.
//!
//! In a chain of alternatives (nodes that each lead to the same place if they hold, and to the next one if not), whose first node is reached
//! from tests of one value: the first run of nodes that test another value is passed, and the next test of that value behind it is
//! put in front of the run. The same for chains of conditions, with the edges exchanged.

use super::dominators::Tree;
use crate::graph::{Condition, Graph, Target};
use crate::ir::ValueId;

pub(super) fn pull_up(graph: &mut Graph, tree: &Tree) -> bool {
    let edges_in = edges_in(graph, tree);
    let mut changed = false;
    for level in tree.levels() {
        for node in level {
            changed |= pull(graph, tree, &edges_in, *node, true);
            changed |= pull(graph, tree, &edges_in, *node, false);
        }
    }
    changed
}

/// Edges as they are now.
fn edges_in(graph: &Graph, tree: &Tree) -> Vec<Vec<(usize, bool)>> {
    let mut edges: Vec<Vec<(usize, bool)>> = vec![Vec::new(); graph.nodes.len()];
    for level in tree.levels().iter().rev() {
        for node in level {
            for (target, is_yes) in [(graph.nodes[*node].yes, true), (graph.nodes[*node].no, false)] {
                if let Target::Node(to) = target {
                    edges[to].push((*node, is_yes));
                }
            }
        }
    }
    edges.iter_mut().for_each(|edges| edges.reverse());
    edges
}

/// `side`: the edge that all nodes of the chain share, true for alternatives; the other one leads to the next.
fn pull(graph: &mut Graph, tree: &Tree, edges_in: &[Vec<(usize, bool)>], start: usize, side: bool) -> bool {
    let edges = &edges_in[start];
    let Some((first, _)) = edges.first() else { return false };
    let Some(value) = left(graph, *first) else { return false };
    if edges.iter().any(|(from, _)| left(graph, *from) != Some(value)) {
        return false;
    }
    let shared = edge(graph, start, side);
    let is_of_chain = |graph: &Graph, target| match target {
        Target::Node(node) if edge(graph, node, side) == shared && tree.dominates(start, node) => Some(node),
        _ => None,
    };
    // Where the run of other values begins: an edge, by its node and side; None: at the start itself.
    let mut before: Option<usize> = None;
    let mut at = Target::Node(start);
    if graph.nodes[*first].yes != at && graph.nodes[*first].no != at {
        return false;
    }
    let run = loop {
        let Some(node) = is_of_chain(graph, at) else { return false };
        if left(graph, node) != Some(value) {
            break node;
        }
        before = Some(node);
        at = edge(graph, node, !side);
    };
    let mut last = run;
    let pulled = loop {
        let Some(node) = is_of_chain(graph, edge(graph, last, !side)) else { return false };
        if left(graph, node) == Some(value) {
            break node;
        }
        last = node;
    };
    let behind = edge(graph, pulled, !side);
    *edge_mut(graph, last, !side) = behind;
    *edge_mut(graph, pulled, !side) = Target::Node(run);
    match before {
        Some(before) => *edge_mut(graph, before, !side) = Target::Node(pulled),
        None => {
            for (from, _) in edges {
                let node = &mut graph.nodes[*from];
                if node.yes == Target::Node(start) {
                    node.yes = Target::Node(pulled);
                } else {
                    node.no = Target::Node(pulled);
                }
            }
        }
    }
    true
}

/// The value that a node compares.
fn left(graph: &Graph, node: usize) -> Option<ValueId> {
    match graph.nodes[node].condition {
        Condition::Test(test) => Some(test.left),
        Condition::Chain(_) | Condition::Always => None,
    }
}

fn edge(graph: &Graph, node: usize, is_yes: bool) -> Target {
    if is_yes { graph.nodes[node].yes } else { graph.nodes[node].no }
}

fn edge_mut(graph: &mut Graph, node: usize, is_yes: bool) -> &mut Target {
    let node = &mut graph.nodes[node];
    if is_yes { &mut node.yes } else { &mut node.no }
}
