//! Tests of a value are moved up to where that value was tested.
//!
//! In a chain of alternatives (nodes that each lead to the same place if they hold, and to the next one if not), whose first node is reached
//! from tests of one value: the first run of nodes that test another value is passed, and the next test of that value after it is
//! put in front of the run. The same for chains of conditions, with the edges exchanged.

use super::dominators::{Tree, edges_in};
use super::lists::Lists;
use crate::graph::{Graph, Target};
use crate::ir::ValueId;

pub(super) fn pull_up(
    graph: &mut Graph,
    tree: &Tree,
    compared: &[Option<ValueId>],
    edges: &mut Lists<(u32, bool)>,
) -> bool {
    edges_in(graph, tree, edges);
    let mut runs = Runs::of(graph);
    let mut changed = false;
    for node in tree.nodes() {
        changed |= pull(graph, tree, compared, &mut runs, edges.get(node), node, true);
        changed |= pull(graph, tree, compared, &mut runs, edges.get(node), node, false);
    }
    changed
}

/// A later node of the run that a node is in: nodes that stand after one another in a chain and compare one value. Runs grow at
/// their ends alone, so that what was found stays true, but for a node that is pulled out of its run.
struct Runs {
    later: Vec<[(u32, usize); 2]>,
    /// Of each side, raised where nothing that was found holds any more.
    version: [u32; 2],
}

impl Runs {
    fn of(graph: &Graph) -> Runs {
        Runs { later: vec![[(0, 0); 2]; graph.nodes.len()], version: [1; 2] }
    }

    /// The last node of the run that `node` is in.
    fn last(&mut self, graph: &Graph, compared: &[Option<ValueId>], node: usize, side: bool) -> usize {
        let index = usize::from(side);
        let mut passed = Vec::new();
        let mut at = node;
        loop {
            let (version, later) = self.later[at][index];
            let next = match edge(graph, at, !side) {
                _ if version == self.version[index] => later,
                Target::Node(next)
                    if compared[next] == compared[at] && edge(graph, next, side) == edge(graph, at, side) =>
                {
                    next
                }
                _ => break,
            };
            passed.push(at);
            at = next;
        }
        for node in passed {
            self.later[node][index] = (self.version[index], at);
        }
        at
    }

    /// `pulled` was put elsewhere in a chain of this side.
    fn moved(&mut self, pulled: usize, side: bool) {
        self.later[pulled] = [(0, 0); 2];
        // The edges that changed are those that chains of the other side share.
        self.version[usize::from(!side)] += 1;
    }
}

/// `side`: the edge that all nodes of the chain share, true for alternatives; the other one leads to the next.
#[allow(clippy::too_many_arguments, reason = "what is known of the graph, and where to look")]
fn pull(
    graph: &mut Graph,
    tree: &Tree,
    compared: &[Option<ValueId>],
    runs: &mut Runs,
    edges: &[(u32, bool)],
    start: usize,
    side: bool,
) -> bool {
    let Some((first, _)) = edges.first() else { return false };
    let first = *first as usize;
    let Some(value) = compared[first] else { return false };
    if edges.iter().any(|(from, _)| compared[*from as usize] != Some(value)) {
        return false;
    }
    if graph.nodes[first].yes != Target::Node(start) && graph.nodes[first].no != Target::Node(start) {
        return false;
    }
    let shared = edge(graph, start, side);
    // One that every way to goes through the start; so do those between them then.
    let is_of_chain = |graph: &Graph, target| match target {
        Target::Node(node) if edge(graph, node, side) == shared && tree.dominates(start, node) => Some(node),
        _ => None,
    };
    // The node before the run of other values; None: the run begins the chain.
    let before = (compared[start] == Some(value)).then(|| runs.last(graph, compared, start, side));
    let run = match before {
        Some(before) => edge(graph, before, !side),
        None => Target::Node(start),
    };
    let Some(run) = is_of_chain(graph, run) else { return false };
    let mut last = run;
    let pulled = loop {
        last = runs.last(graph, compared, last, side);
        let Some(node) = is_of_chain(graph, edge(graph, last, !side)) else { return false };
        if compared[node] == Some(value) {
            break node;
        }
        last = node;
    };
    let after = edge(graph, pulled, !side);
    *edge_mut(graph, last, !side) = after;
    *edge_mut(graph, pulled, !side) = Target::Node(run);
    match before {
        Some(before) => *edge_mut(graph, before, !side) = Target::Node(pulled),
        None => {
            for (from, _) in edges {
                let node = &mut graph.nodes[*from as usize];
                let is_yes = node.yes == Target::Node(start);
                *(if is_yes { &mut node.yes } else { &mut node.no }) = Target::Node(pulled);
                if is_yes == side {
                    runs.version[usize::from(side)] += 1;
                }
            }
        }
    }
    runs.moved(pulled, side);
    true
}

fn edge(graph: &Graph, node: usize, is_yes: bool) -> Target {
    if is_yes { graph.nodes[node].yes } else { graph.nodes[node].no }
}

fn edge_mut(graph: &mut Graph, node: usize, is_yes: bool) -> &mut Target {
    let node = &mut graph.nodes[node];
    if is_yes { &mut node.yes } else { &mut node.no }
}
