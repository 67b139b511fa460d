//! [`Pred`] → a graph of tests without loops, in which each way ends in accepting or rejecting.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::ir::{Chain, Pred, Test, Value, ValueId, Values};
use crate::lower::Lowered;

/// Where an edge leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// The packet is kept.
    Accept,
    /// It is not.
    Reject,
    /// A node of the graph, by index.
    Node(usize),
}

/// What a node asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// A comparison.
    Test(Test),
    /// Whether a protocol is in a chain of headers.
    Chain(Chain),
    /// Nothing: it goes on to `yes`.
    Always,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Values that are evaluated first, for their loads.
    pub forced: Vec<ValueId>,
    /// Decides between the two.
    pub condition: Condition,
    /// If it holds.
    pub yes: Target,
    /// If not.
    pub no: Target,
    /// If a value has a load that leaves the packet, or a division by zero. In compatible filters that rejects the packet.
    pub missing: Target,
}

/// An expression's meaning.
#[derive(Clone, Debug)]
pub struct Graph {
    /// What the tests compare.
    pub values: Values,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Where it begins.
    pub root: Target,
    /// Values that are evaluated where a node forces them alone, and kept: elsewhere they are what they were then, or 0. (In libpcap's
    /// programs they are slots of memory.)
    pub kept: BTreeSet<ValueId>,
}

/// Where a test leads whose bytes are missing.
#[derive(Clone, Copy)]
enum Missing {
    Reject,
    /// It is no, and so is its contrary.
    No,
    Yes,
}

impl Missing {
    fn of(self, yes: Target, no: Target) -> Target {
        match self {
            Missing::Reject => Target::Reject,
            Missing::No => no,
            Missing::Yes => yes,
        }
    }

    fn contrary(self) -> Missing {
        match self {
            Missing::Reject => Missing::Reject,
            Missing::No => Missing::Yes,
            Missing::Yes => Missing::No,
        }
    }
}

impl Graph {
    /// The tests of what an expression means.
    pub(crate) fn of(lowered: Lowered) -> Graph {
        let Lowered { values, pred, lengths, guard, is_scoped, .. } = lowered;
        let missing = if is_scoped { Missing::No } else { Missing::Reject };
        let kept = lengths.iter().copied().collect();
        let mut graph = Graph { values, nodes: Vec::new(), root: Target::Accept, kept };
        let Some(pred) = pred else { return graph };
        graph.root = graph.build(&pred, Target::Accept, Target::Reject, missing);
        if let Target::Node(root) = graph.root {
            graph.nodes[root].forced = lengths;
        }
        if let Some(guard) = guard {
            graph.root = graph.build(&guard, graph.root, Target::Reject, missing);
        }
        graph
    }

    /// Nodes that lead to `yes` where `pred` holds and to `no` where not.
    fn build(&mut self, pred: &Pred, yes: Target, no: Target, missing: Missing) -> Target {
        match pred {
            Pred::Test(test) => self.add(Condition::Test(*test), yes, no, missing.of(yes, no)),
            Pred::Chain(chain) => self.add(Condition::Chain(*chain), yes, no, missing.of(yes, no)),
            Pred::Need(value) => {
                self.kept.insert(*value);
                let target = self.add(Condition::Always, yes, yes, missing.of(yes, no));
                if let Target::Node(node) = target {
                    self.nodes[node].forced.push(*value);
                }
                target
            }
            Pred::Not(inner) => self.build(inner, no, yes, missing.contrary()),
            Pred::Fails(inner) => self.build(inner, no, yes, missing),
            Pred::And(parts) => {
                parts.iter().rev().fold(yes, |next, part| self.build(part, next, no, missing))
            }
            Pred::Or(parts) => parts.iter().rev().fold(no, |next, part| self.build(part, yes, next, missing)),
        }
    }

    fn add(&mut self, condition: Condition, yes: Target, no: Target, missing: Target) -> Target {
        self.nodes.push(Node { forced: Vec::new(), condition, yes, no, missing });
        Target::Node(self.nodes.len() - 1)
    }

    /// Nodes that are reached, each before those that it leads to.
    pub fn order(&self) -> Vec<usize> {
        let mut after = Vec::new();
        let mut state = vec![0_u8; self.nodes.len()];
        let mut stack = Vec::new();
        if let Target::Node(root) = self.root {
            stack.push(root);
        }
        while let Some(node) = stack.pop() {
            match state[node] {
                0 => {
                    state[node] = 1;
                    stack.push(node);
                    // The one that is pushed last is finished first, and so stands further back: `yes` follows its node.
                    for target in [self.nodes[node].yes, self.nodes[node].missing, self.nodes[node].no] {
                        if let Target::Node(next) = target
                            && state[next] == 0
                        {
                            stack.push(next);
                        }
                    }
                }
                1 => {
                    state[node] = 2;
                    after.push(node);
                }
                _ => {}
            }
        }
        after.reverse();
        after
    }

    /// Equal nodes become one, and those that are not reached go.
    pub(crate) fn intern(&mut self) {
        let order = self.order();
        let mut kept: HashMap<Node, usize> = HashMap::new();
        let mut nodes: Vec<Node> = Vec::new();
        let mut renamed = vec![Target::Reject; self.nodes.len()];
        let rename = |renamed: &[Target], target| match target {
            Target::Node(node) => renamed[node],
            leaf => leaf,
        };
        for node in order.iter().rev() {
            let mut new = self.nodes[*node].clone();
            new.yes = rename(&renamed, new.yes);
            new.no = rename(&renamed, new.no);
            new.missing = rename(&renamed, new.missing);
            let index = *kept.entry(new.clone()).or_insert_with(|| {
                nodes.push(new);
                nodes.len() - 1
            });
            renamed[*node] = Target::Node(index);
        }
        self.root = rename(&renamed, self.root);
        self.nodes = nodes;
    }

    /// Nodes that decide nothing go, where they load nothing, or become [`Condition::Always`].
    pub(crate) fn tidy(&mut self) {
        let order = self.order();
        for index in order.into_iter().rev() {
            let (yes, no) = (self.through(self.nodes[index].yes), self.through(self.nodes[index].no));
            let missing = self.through(self.nodes[index].missing);
            let node = &mut self.nodes[index];
            (node.yes, node.no, node.missing) = (yes, no, missing);
            if yes == no
                && let Condition::Test(test) = node.condition
            {
                node.condition = Condition::Always;
                node.forced.extend([test.left, test.right]);
            }
            let forced = std::mem::take(&mut self.nodes[index].forced);
            let mut kept: Vec<ValueId> = forced
                .into_iter()
                .filter(|value| self.kept.contains(value) || self.may_be_missing(*value))
                .collect();
            kept.dedup();
            // What rejects in any case needs no other test before it.
            self.nodes[index].forced = kept;
        }
        self.root = self.through(self.root);
        self.intern();
    }

    /// Past nodes that do nothing.
    fn through(&self, mut target: Target) -> Target {
        // Where a packet is rejected, nothing is read any more.
        let keeps = |node: &Node| {
            node.yes != Target::Reject && node.forced.iter().any(|value| self.kept.contains(value))
        };
        while let Target::Node(index) = target {
            let node = &self.nodes[index];
            let is_idle = node.forced.is_empty() && node.condition == Condition::Always;
            let is_same = node.condition == Condition::Always || node.no == node.yes;
            // A packet that is rejected either way need not be looked at.
            let decides_nothing = is_same && node.missing == node.yes && !keeps(node);
            if is_idle || decides_nothing {
                target = node.yes;
            } else {
                break;
            }
        }
        target
    }

    /// Where the furthest byte ends that is read at a constant offset in any case, of those that end at `most` at the latest.
    pub(crate) fn reads(&self, value: ValueId, most: u64) -> u64 {
        if self.kept.contains(&value) { 0 } else { self.reads_afresh(value, most) }
    }

    /// The same of a value that is evaluated, even if it is kept.
    pub(crate) fn reads_afresh(&self, value: ValueId, most: u64) -> u64 {
        let reads = |value| self.reads(value, most);
        let end = |offset: u32, bytes: u32| {
            let end = u64::from(offset) + u64::from(bytes);
            if end <= most { end } else { 0 }
        };
        match *self.values.get(value) {
            Value::Load { base: None, offset, width } => end(offset, width.bytes()),
            Value::Load { base: Some(base), .. } => reads(base),
            Value::HeaderLength { offset } => end(offset, 1),
            Value::Binary { left, right, .. } => reads(left).max(reads(right)),
            Value::Negate(inner) => reads(inner),
            Value::If { test, .. } => reads(test.left).max(reads(test.right)),
            // Extension headers are somewhere after it.
            Value::Upper(upper) => upper.base.map_or(end(upper.offset, upper.header_bytes()), reads),
            Value::Const(_) | Value::Set(_) | Value::Len | Value::Metadata(_) | Value::Context(_) => 0,
        }
    }

    /// Whether the value may be missing.
    fn may_be_missing(&self, value: ValueId) -> bool {
        if self.kept.contains(&value) {
            return false;
        }
        match self.values.get(value) {
            Value::Const(_) | Value::Set(_) | Value::Len | Value::Context(_) => false,
            Value::Negate(inner) => self.may_be_missing(*inner),
            Value::Binary { operator, left, right, .. } => {
                matches!(operator, crate::ast::Operator::Div | crate::ast::Operator::Mod)
                    || self.may_be_missing(*left)
                    || self.may_be_missing(*right)
            }
            Value::Load { .. }
            | Value::HeaderLength { .. }
            | Value::Metadata(_)
            | Value::Upper(_)
            | Value::If { .. } => true,
        }
    }
}

/// A line for each node, for `--emit ir`.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = self.order();
        let mut place = vec![0; self.nodes.len()];
        order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
        let name = |target| match target {
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
            Target::Node(node) => format!("n{}", place[node]),
        };
        if order.is_empty() {
            return writeln!(f, "{}", name(self.root));
        }
        for node in &order {
            let Node { forced, condition, yes, no, missing } = &self.nodes[*node];
            write!(f, "{}:", name(Target::Node(*node)))?;
            for value in forced {
                let made_of = self.values.show_fresh(*value, &self.kept);
                match self.kept.contains(value) {
                    true => write!(f, " v{} = {made_of};", value.0)?,
                    false => write!(f, " need {made_of};")?,
                }
            }
            match condition {
                Condition::Test(test) => write!(f, " if {}", self.values.show_test(*test, &self.kept))?,
                Condition::Chain(Chain { is_ipv6, protocol, header }) => {
                    let version = if *is_ipv6 { 6 } else { 4 };
                    write!(f, " if chain of IPv{version} at {header} has {protocol}")?;
                }
                Condition::Always => {}
            }
            write!(f, " goto {}", name(*yes))?;
            if *condition != Condition::Always {
                write!(f, " else {}", name(*no))?;
            }
            match *missing {
                Target::Reject => writeln!(f)?,
                missing => writeln!(f, " missing {}", name(missing))?,
            }
        }
        Ok(())
    }
}
