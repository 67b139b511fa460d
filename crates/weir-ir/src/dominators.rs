//! Which blocks every path to a block passes.
//!
//! In: a function whose blocks jump forward, or back to a block that every path to the jump passes. Out: each block's immediate
//! dominator. Jumps back add no path to a block that does not pass it already, so that one sweep over the others, in index order,
//! is exact: all predecessors of a block are done before it.

use crate::{BlockId, Function};

/// The dominator tree of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dominators {
    /// By block: None if no path reaches it, itself for the entry.
    idom: Vec<Option<u32>>,
    /// By block: where it stands when each block is followed by those that it dominates, and how many those are, with it.
    /// Nothing where no path leads.
    spans: Vec<(u32, u32)>,
}

impl Dominators {
    /// Jumps that are not forward, or to no block, are ignored ([`check`](crate::check) reports them).
    pub fn of(function: &Function) -> Dominators {
        let mut idom: Vec<Option<u32>> = vec![None; function.blocks.len()];
        if let Some(entry) = idom.first_mut() {
            *entry = Some(0);
        }
        for (index, block) in function.blocks.iter().enumerate() {
            if idom[index].is_none() {
                continue;
            }
            for (to, _) in block.end.successors() {
                let to = to.0 as usize;
                if to > index && to < idom.len() {
                    idom[to] = Some(match idom[to] {
                        None => index as u32,
                        // Nothing is before the entry: what every predicate of a filter leads to would else be looked for anew.
                        Some(0) => 0,
                        Some(other) => common(&idom, other, index as u32),
                    });
                }
            }
        }
        let spans = spans(&idom);
        Dominators { idom, spans }
    }

    /// True if some path from the entry leads to `block`.
    pub fn is_reachable(&self, block: BlockId) -> bool {
        self.idom[block.0 as usize].is_some()
    }

    /// The last block but `block` itself that every path to it passes; None for the entry and where no path leads.
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        self.idom[block.0 as usize].filter(|&idom| idom != block.0).map(BlockId)
    }

    /// True if every path to `b` passes `a`; each block dominates itself.
    pub fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        let ((first, count), (at, _)) = (self.spans[a.0 as usize], self.spans[b.0 as usize]);
        a == b || self.is_reachable(b) && at.checked_sub(first).is_some_and(|behind| behind < count)
    }

    /// The last block that every path to either passes. Both must be reachable.
    pub fn common(&self, a: BlockId, b: BlockId) -> BlockId {
        BlockId(common(&self.idom, a.0, b.0))
    }
}

/// A block's dominator comes before it, so that one sweep back counts and one forward places.
fn spans(idom: &[Option<u32>]) -> Vec<(u32, u32)> {
    let mut spans = vec![(0, 0); idom.len()];
    let parent = |block: usize| idom[block].map(|idom| idom as usize);
    for block in (0..idom.len()).rev() {
        if let Some(parent) = parent(block) {
            spans[block].1 += 1;
            let count = spans[block].1;
            spans[parent].1 += if parent == block { 0 } else { count };
        }
    }
    // By block: where the next of those goes that it dominates immediately.
    let mut next = vec![1; idom.len()];
    for block in 1..idom.len() {
        if let Some(parent) = parent(block) {
            spans[block].0 = next[parent];
            next[block] = next[parent] + 1;
            next[parent] += spans[block].1;
        }
    }
    spans
}

fn common(idom: &[Option<u32>], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        let later = if a > b { &mut a } else { &mut b };
        // SANITY: only reachable blocks are compared, and a reachable block's dominators are reachable.
        *later = idom[*later as usize].expect("a reachable block has a dominator");
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diamond_joins_at_its_branch() {
        let function = crate::text::parse(
            "fn \"f\" begin {\nb0:\n  v0: u64 = pid\n  branch v0, b1, b2\nb1:\n  jump b3\nb2:\n  jump b3\nb3:\n  return\nb4:\n  return\n}\n",
        )
        .expect("parses")
        .functions
        .remove(0);
        let dominators = Dominators::of(&function);
        assert_eq!(dominators.immediate(BlockId(3)), Some(BlockId(0)));
        assert_eq!(dominators.immediate(BlockId(0)), None);
        assert_eq!(dominators.common(BlockId(1), BlockId(2)), BlockId(0));
        assert!(
            dominators.dominates(BlockId(0), BlockId(3)) && !dominators.dominates(BlockId(1), BlockId(3))
        );
        assert!(!dominators.is_reachable(BlockId(4)));
        assert!(
            dominators.dominates(BlockId(4), BlockId(4)) && !dominators.dominates(BlockId(4), BlockId(0))
        );
    }

    #[test]
    fn a_block_dominates_what_every_path_through_it_reaches() {
        // Two diamonds in a row, and a return out of the first.
        let function = crate::text::parse(
            "fn \"f\" begin {\nb0:\n  v0: u64 = pid\n  branch v0, b1, b2\nb1:\n  branch v0, b3, b7\nb2:\n  jump b3\n\
             b3:\n  branch v0, b4, b5\nb4:\n  jump b6\nb5:\n  jump b6\nb6:\n  return\nb7:\n  return\n}\n",
        )
        .expect("parses")
        .functions
        .remove(0);
        let dominators = Dominators::of(&function);
        let all =
            |a: u32| (0..8).filter(|b| dominators.dominates(BlockId(a), BlockId(*b))).collect::<Vec<u32>>();
        assert_eq!(all(0), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(all(1), [1, 7]);
        assert_eq!((all(2), all(3)), (vec![2], vec![3, 4, 5, 6]));
        assert_eq!((all(4), all(6), all(7)), (vec![4], vec![6], vec![7]));
    }
}
