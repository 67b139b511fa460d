//! Which blocks every path to a block passes.
//!
//! In: a function whose blocks only jump forward. Out: each block's immediate dominator. With forward jumps one
//! sweep in index order is exact: all predecessors of a block are done before it.

use crate::{BlockId, Function};

/// The dominator tree of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dominators {
    /// By block: None if no path reaches it, itself for the entry.
    idom: Vec<Option<u32>>,
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
                        Some(other) => common(&idom, other, index as u32),
                    });
                }
            }
        }
        Dominators { idom }
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
        let mut at = Some(b);
        while let Some(block) = at {
            if block == a {
                return true;
            }
            at = self.immediate(block);
        }
        false
    }

    /// The last block that every path to either passes. Both must be reachable.
    pub fn common(&self, a: BlockId, b: BlockId) -> BlockId {
        BlockId(common(&self.idom, a.0, b.0))
    }
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
    }
}
