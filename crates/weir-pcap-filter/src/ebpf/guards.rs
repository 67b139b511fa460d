//! Where it is checked that a packet has the bytes that are read.
//!
//! A node *needs* as many bytes as it reads at constant offsets, or as each of the ways from it to acceptance reads, if that is more: fewer
//! bytes end in rejection either way, so that one check in front serves all. A check is made at a node that needs more than what was
//! checked on every way to it. Where a packet with fewer bytes than a node reads may be accepted yet, the node *reads* more than it needs, and
//! has a check of its own, which leads to where the packet goes on.

use crate::graph::{Condition, Graph, Target};
use crate::ir::{Test, ValueId};

/// Plain loads reach as far; the kernel's verifier follows no packet further.
pub(super) const BYTES_MAX: u32 = 32_000;

/// By node.
pub(super) struct Guards {
    need: Vec<u32>,
    reads: Vec<u32>,
    checked: Vec<u32>,
}

impl Guards {
    pub(super) fn of(graph: &Graph) -> Guards {
        let order = graph.order();
        let mut need = vec![0; graph.nodes.len()];
        let mut read = vec![0; graph.nodes.len()];
        let below = |need: &[u32], target| match target {
            Target::Accept => 0,
            Target::Reject => u32::MAX,
            Target::Node(node) => need[node],
        };
        for index in order.iter().rev() {
            let node = &graph.nodes[*index];
            let own = node.forced.iter().map(|value| reads_afresh(graph, *value)).max().unwrap_or(0);
            let own = own.max(match node.condition {
                Condition::Test(Test { left, right, .. }) => reads(graph, left).max(reads(graph, right)),
                Condition::Chain(_) | Condition::Always => 0,
            });
            let after = match node.condition {
                Condition::Always => below(&need, node.yes),
                _ => below(&need, node.yes).min(below(&need, node.no)),
            };
            // Of packets that leave fewer bytes than the node reads, and of all others.
            let missing = below(&need, node.missing);
            let after = after.min(missing);
            // A node that leads to rejection alone asks for no more than it reads.
            need[*index] = own.min(missing).max(if after == u32::MAX { 0 } else { after });
            read[*index] = own;
        }
        let mut checked = vec![u32::MAX; graph.nodes.len()];
        if let Target::Node(root) = graph.root {
            checked[root] = 0;
        }
        for index in order {
            let node = &graph.nodes[index];
            let missing = checked[index].max(need[index]);
            let after = missing.max(read[index]);
            for (target, bytes) in [(node.yes, after), (node.no, after), (node.missing, missing)] {
                if let Target::Node(next) = target {
                    checked[next] = checked[next].min(bytes);
                }
            }
        }
        Guards { need, reads: read, checked }
    }

    /// The bytes without which a packet is rejected at a node.
    pub(super) fn check(&self, node: usize) -> Option<u32> {
        (self.need[node] > self.checked[node]).then_some(self.need[node])
    }

    /// The bytes without which it goes on elsewhere.
    pub(super) fn check_of_reads(&self, node: usize) -> Option<u32> {
        let checked = self.checked[node].max(self.need[node]);
        (self.reads[node] > checked).then_some(self.reads[node])
    }
}

/// Where the furthest byte ends that a plain load reads in any case.
pub(super) fn reads(graph: &Graph, id: ValueId) -> u32 {
    graph.reads(id, BYTES_MAX.into()) as u32
}

fn reads_afresh(graph: &Graph, id: ValueId) -> u32 {
    graph.reads_afresh(id, BYTES_MAX.into()) as u32
}

/// Where a plain load ends, if it may be one.
pub(super) fn plain_end(offset: u32, bytes: u32) -> Option<u32> {
    offset.checked_add(bytes).filter(|end| *end <= BYTES_MAX)
}
