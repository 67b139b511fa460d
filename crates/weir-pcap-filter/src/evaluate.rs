//! What a filter says of a packet: slow, and the measure of all that is compiled.
//!
//! A compatible filter is its graph, which is walked. Of a scoped one the conditions are asked that its expression was lowered to, one in
//! another, and nothing of what was made of them since.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::graph::{Condition, Node, Target};
use crate::ir::{Chain, ContextField, Pred, Test, Upper, Value, ValueId, calculate, upper};
use crate::limits::EXTENSIONS_MAX;
use crate::{Filter, Graph};

/// The packet leaves too little, or a number is divided by 0: the filter rejects it.
struct Rejected;

impl Filter {
    /// Bytes to keep of a packet, of which `packet` was captured, and which had `wire_bytes` on the wire; 0: it is rejected.
    pub fn evaluate(&self, packet: &[u8], wire_bytes: u32) -> u32 {
        self.evaluate_with(packet, wire_bytes, &Facts::default())
    }

    /// The same of a packet whose context says more.
    pub fn evaluate_with(&self, packet: &[u8], wire_bytes: u32, facts: &Facts) -> u32 {
        let meaning = self.meaning.as_ref();
        let mut machine =
            Machine { graph: &self.graph, packet, wire_bytes, facts, kept: RefCell::default(), keeps: true };
        let is_kept = match meaning {
            None => matches!(machine.run(), Ok(true)),
            Some(meaning) => {
                machine.keeps = false;
                machine.holds(meaning, false)
            }
        };
        if is_kept { self.snaplen } else { 0 }
    }
}

/// What the context of a packet says of it, for `inbound`, `ifindex`, `queue` and `hash` of scoped expressions: fields of the kernel's
/// `struct __sk_buff`, 0 where nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// 4 (`PACKET_OUTGOING`) for what was sent, less for what was received, and more where that is not known.
    pub packet_type: u32,
    /// Of the interface.
    pub ifindex: u32,
    /// One more than the number of the queue that it was received from.
    pub queue_mapping: u32,
    /// Of its flow.
    pub hash: u32,
}

struct Machine<'a> {
    graph: &'a Graph,
    packet: &'a [u8],
    wire_bytes: u32,
    facts: &'a Facts,
    /// Kept values are what they were where they were asked for.
    keeps: bool,
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
            // A packet that a value is missing of is rejected.
            let Node { forced, condition, yes, no, .. } = &self.graph.nodes[node];
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

    /// Whether a scoped condition holds, or its contrary. What cannot be tested is neither.
    fn holds(&self, pred: &Pred, is_contrary: bool) -> bool {
        match pred {
            Pred::Test(test) => self.test(*test).is_ok_and(|holds| holds != is_contrary),
            Pred::Chain(chain) => self.chain(*chain).is_ok_and(|holds| holds != is_contrary),
            Pred::Need(value) => self.value(*value).is_ok() && !is_contrary,
            Pred::Not(inner) => self.holds(inner, !is_contrary),
            Pred::Fails(inner) => self.holds(inner, false) == is_contrary,
            Pred::And(parts) | Pred::Or(parts) => {
                let mut parts = parts.iter().map(|part| self.holds(part, is_contrary));
                if matches!(pred, Pred::And(_)) == is_contrary {
                    parts.any(|holds| holds)
                } else {
                    parts.all(|holds| holds)
                }
            }
        }
    }

    /// Follows extension headers.
    fn upper(&self, chain: Upper) -> Result<u32, Rejected> {
        let base = chain.base.map_or(Ok(0), |base| self.value(base))?;
        let header = u64::from(base) + u64::from(chain.offset);
        let load = |offset: u32, bytes: u32| self.load(header + u64::from(offset), bytes);
        let (mut next, mut offset) = match chain.is_ipv6 {
            true => (load(6, 1)?, 40),
            false => (load(9, 1)?, 4 * (load(0, 1)? & 0xf)),
        };
        if !upper::is_extension(next, chain.is_ipv6) || !chain.is_ipv6 && load(6, 2)? & 0x1fff != 0 {
            return Err(Rejected);
        }
        let mut seen = 0;
        for _ in 0..EXTENSIONS_MAX {
            if !upper::is_extension(next, chain.is_ipv6) {
                break;
            }
            seen |= upper::bit(next);
            let kind = next;
            next = load(offset, 1)?;
            if kind == upper::FRAGMENT {
                let is_later = load(offset + 2, 2)? & 0xfff8 != 0;
                offset += 8;
                if is_later {
                    seen |= upper::LATER_FRAGMENT;
                    break;
                }
                continue;
            }
            let words = load(offset + 1, 1)?;
            offset += if kind == upper::AUTHENTICATION { 4 * (words + 2) } else { 8 * (words + 1) };
        }
        Ok(offset << upper::OFFSET_SHIFT | seen | next)
    }

    fn test(&self, test: Test) -> Result<bool, Rejected> {
        if let Value::Set(numbers) = self.graph.values.get(test.right) {
            return Ok(numbers.contains(&self.value(test.left)?));
        }
        let right = self.value(test.right)?;
        Ok(test.comparison.holds(self.value(test.left)?, right))
    }

    fn value(&self, id: ValueId) -> Result<u32, Rejected> {
        if self.keeps && self.graph.kept.contains(&id) {
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
            Value::Context(field) => Ok(match field {
                ContextField::PacketType => self.facts.packet_type,
                ContextField::Ifindex => self.facts.ifindex,
                ContextField::QueueMapping => self.facts.queue_mapping,
                ContextField::Hash => self.facts.hash,
            }),
            Value::Upper(upper) => self.upper(upper),
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
