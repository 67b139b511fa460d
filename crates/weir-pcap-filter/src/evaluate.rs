//! What a filter says of a packet, by walking its graph: slow, and the measure of all that is compiled.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::graph::{Condition, Node, Target};
use crate::ir::{Chain, Test, Value, ValueId, calculate};
use crate::{Filter, Graph};

/// The packet leaves too little, or a number is divided by 0: the filter rejects it.
struct Rejected;

impl Filter {
    /// Bytes to keep of a packet, of which `packet` was captured, and which had `wire_bytes` on the wire; 0: it is rejected.
    pub fn evaluate(&self, packet: &[u8], wire_bytes: u32) -> u32 {
        let machine = Machine { graph: &self.graph, packet, wire_bytes, kept: RefCell::default() };
        match machine.run() {
            Ok(true) => self.snaplen,
            Ok(false) | Err(Rejected) => 0,
        }
    }
}

struct Machine<'a> {
    graph: &'a Graph,
    packet: &'a [u8],
    wire_bytes: u32,
    /// What kept values came to.
    kept: RefCell<HashMap<ValueId, u32>>,
}

impl Machine<'_> {
    fn run(&self) -> Result<bool, Rejected> {
        let mut target = self.graph.root;
        loop {
            let node = match target {
                Target::Accept => return Ok(true),
                Target::Reject => return Ok(false),
                Target::Node(node) => node,
            };
            let Node { forced, condition, yes, no } = &self.graph.nodes[node];
            for value in forced {
                let number = self.fresh(*value)?;
                if self.graph.kept.contains(value) {
                    self.kept.borrow_mut().insert(*value, number);
                }
            }
            let holds = match condition {
                Condition::Test(test) => self.test(*test)?,
                Condition::Chain(chain) => self.chain(*chain)?,
                Condition::Always => true,
            };
            target = if holds { *yes } else { *no };
        }
    }

    fn test(&self, test: Test) -> Result<bool, Rejected> {
        if let Value::Set(numbers) = self.graph.values.get(test.right) {
            return Ok(numbers.contains(&self.value(test.left)?));
        }
        let right = self.value(test.right)?;
        Ok(test.comparison.holds(self.value(test.left)?, right))
    }

    fn value(&self, id: ValueId) -> Result<u32, Rejected> {
        if self.graph.kept.contains(&id) {
            return Ok(self.kept.borrow().get(&id).copied().unwrap_or(0));
        }
        self.fresh(id)
    }

    fn fresh(&self, id: ValueId) -> Result<u32, Rejected> {
        match *self.graph.values.get(id) {
            Value::Const(number) => Ok(number),
            // It stands on the right of a comparison alone.
            Value::Set(_) => Err(Rejected),
            Value::Len => Ok(self.wire_bytes),
            Value::Load { base, offset, width } => {
                let base = base.map_or(Ok(0), |base| self.value(base))?;
                self.load(u64::from(base) + u64::from(offset), width.bytes())
            }
            Value::HeaderLength { offset } => Ok(4 * (self.load(offset.into(), 1)? & 0xf)),
            Value::Binary { operator, left, right, .. } => {
                let right = self.value(right)?;
                calculate(operator, self.value(left)?, right).ok_or(Rejected)
            }
            Value::Negate(inner) => Ok(self.value(inner)?.wrapping_neg()),
            Value::Metadata(_) => Err(Rejected),
            Value::If { test, then, otherwise } => {
                let chosen = if self.test(test)? { then } else { otherwise };
                self.value(chosen)
            }
        }
    }

    fn load(&self, at: u64, bytes: u32) -> Result<u32, Rejected> {
        let start = usize::try_from(at).map_err(|_| Rejected)?;
        let end = start.checked_add(bytes as usize).ok_or(Rejected)?;
        let bytes = self.packet.get(start..end).ok_or(Rejected)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Follows the headers. A chain that comes back to where it was never ends in libpcap, and is rejected here.
    fn chain(&self, chain: Chain) -> Result<bool, Rejected> {
        let fixed = |offset: u32| u64::from(chain.header.wrapping_add(offset));
        let at = |offset: u32, more: u32| u64::from(offset) + fixed(more);
        let (mut next, mut offset) = if chain.is_ipv6 {
            (self.load(fixed(6), 1)?, 40)
        } else {
            (self.load(fixed(9), 1)?, 4 * (self.load(fixed(0), 1)? & 0xf))
        };
        for _ in 0..crate::limits::CHAIN_STEPS_MAX {
            if next == chain.protocol || next == 59 {
                return Ok(next == chain.protocol);
            }
            match next {
                0 | 43 | 44 | 60 if chain.is_ipv6 => {
                    next = self.load(at(offset, 0), 1)?;
                    let words = self.load(at(offset, 1), 1)?;
                    offset = offset.wrapping_add(8 * (words + 1));
                }
                // libpcap takes an authentication header's length for its end.
                51 => {
                    next = self.load(at(offset, 0), 1)?;
                    offset = 4 * (self.load(at(offset.wrapping_add(1), 0), 1)? + 2);
                }
                _ => return Ok(false),
            }
        }
        Err(Rejected)
    }
}
