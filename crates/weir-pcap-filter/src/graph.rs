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
    /// Values that are evaluated first, for their loads: where one of them leaves the packet, it is rejected.
    pub forced: Vec<ValueId>,
    /// Decides between the two.
    pub condition: Condition,
    /// If it holds.
    pub yes: Target,
    /// If not.
    pub no: Target,
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

impl Graph {
    /// The tests of what an expression means.
    pub(crate) fn of(lowered: Lowered) -> Graph {
        let Lowered { values, pred, lengths, guard, .. } = lowered;
        let kept = lengths.iter().copied().collect();
        let mut graph = Graph { values, nodes: Vec::new(), root: Target::Accept, kept };
        let Some(pred) = pred else { return graph };
        graph.root = graph.build(&pred, Target::Accept, Target::Reject);
        if let Target::Node(root) = graph.root {
            graph.nodes[root].forced = lengths;
        }
        if let Some(guard) = guard {
            graph.root = graph.build(&guard, graph.root, Target::Reject);
        }
        graph
    }

    /// Nodes that lead to `yes` where `pred` holds and to `no` where not.
    fn build(&mut self, pred: &Pred, yes: Target, no: Target) -> Target {
        match pred {
            Pred::Test(test) => self.add(Condition::Test(*test), yes, no),
            Pred::Chain(chain) => self.add(Condition::Chain(*chain), yes, no),
            Pred::Need(value) => {
                self.kept.insert(*value);
                let target = self.add(Condition::Always, yes, yes);
                if let Target::Node(node) = target {
                    self.nodes[node].forced.push(*value);
                }
                target
            }
            Pred::Not(inner) => self.build(inner, no, yes),
            Pred::And(parts) => parts.iter().rev().fold(yes, |next, part| self.build(part, next, no)),
            Pred::Or(parts) => parts.iter().rev().fold(no, |next, part| self.build(part, yes, next)),
        }
    }

    fn add(&mut self, condition: Condition, yes: Target, no: Target) -> Target {
        self.nodes.push(Node { forced: Vec::new(), condition, yes, no });
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
                    for target in [self.nodes[node].yes, self.nodes[node].no] {
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
            let node = &mut self.nodes[index];
            (node.yes, node.no) = (yes, no);
            if yes == no
                && let Condition::Test(test) = node.condition
            {
                node.condition = Condition::Always;
                node.forced.extend([test.left, test.right]);
            }
            let forced = std::mem::take(&mut self.nodes[index].forced);
            let mut kept: Vec<ValueId> = forced
                .into_iter()
                .filter(|value| self.kept.contains(value) || self.may_reject(*value))
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
        while let Target::Node(index) = target {
            let node = &self.nodes[index];
            let is_idle = node.forced.is_empty() && node.condition == Condition::Always;
            // A packet that is rejected either way need not be looked at.
            let rejects = node.yes == Target::Reject
                && (node.condition == Condition::Always || node.no == Target::Reject);
            if is_idle || rejects {
                target = node.yes;
            } else {
                break;
            }
        }
        target
    }

    /// Whether evaluating the value may reject the packet.
    fn may_reject(&self, value: ValueId) -> bool {
        if self.kept.contains(&value) {
            return false;
        }
        match self.values.get(value) {
            Value::Const(_) | Value::Set(_) | Value::Len => false,
            Value::Negate(inner) => self.may_reject(*inner),
            Value::Binary { operator, left, right, .. } => {
                matches!(operator, crate::ast::Operator::Div | crate::ast::Operator::Mod)
                    || self.may_reject(*left)
                    || self.may_reject(*right)
            }
            Value::Load { .. } | Value::HeaderLength { .. } | Value::Metadata(_) | Value::If { .. } => true,
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
            let Node { forced, condition, yes, no } = &self.nodes[*node];
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
                Condition::Always => {
                    writeln!(f, " goto {}", name(*yes))?;
                    continue;
                }
            }
            writeln!(f, " goto {} else {}", name(*yes), name(*no))?;
        }
        Ok(())
    }
}
