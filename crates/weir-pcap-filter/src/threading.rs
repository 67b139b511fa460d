//! Scoped filters: edges lead past tests whose result is known from the way that led to them.
//!
//! What is known at a node is what all ways to it have in common: results of tests, and how many bytes the packet has at least, or
//! less than. Nodes are gone through once, each before those that it leads to, and their edges are led on as far as tests are decided. Nothing is
//! known of the optimiser of libpcap here ([`optimize`](crate::optimize)): no packet is kept or rejected that was not.

use std::collections::{BTreeMap, HashMap};

use crate::graph::{Condition, Graph, Target};
use crate::ir::{Comparison, Test, Value, ValueId};
use crate::limits::{KNOWN_RESULTS_MAX, KNOWN_VALUES_MAX, PASSED_MAX};

/// How a test may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Yes,
    No,
    Missing,
}

/// What is known at one place.
#[derive(Clone, Debug)]
struct Known {
    /// The packet has so many bytes at least, and less than so many.
    at_least: u64,
    below: u64,
    results: HashMap<ValueId, Vec<(Test, Outcome)>>,
    /// Kept values: whether they are at hand, or missing.
    kept: BTreeMap<ValueId, bool>,
}

/// Leads edges past what is decided.
pub(crate) fn thread(graph: &mut Graph) {
    let mut known: Vec<Option<Known>> = vec![None; graph.nodes.len()];
    let nothing = Known { at_least: 0, below: u64::MAX, results: HashMap::new(), kept: BTreeMap::new() };
    graph.root = arrive(graph, &mut known, nothing, graph.root);
    for index in graph.order() {
        // What only edges led to that now lead elsewhere is reached no more.
        let Some(here) = known[index].take() else { continue };
        let node = &graph.nodes[index];
        let (condition, forced) = (node.condition, node.forced.clone());
        let (yes, no, missing) = (node.yes, node.no, node.missing);
        let (test, values) = match condition {
            Condition::Test(test) => (Some(test), vec![test.left, test.right]),
            Condition::Chain(_) | Condition::Always => (None, Vec::new()),
        };
        let forced_reads = forced.iter().map(|value| graph.reads_afresh(*value, u64::MAX));
        let end = forced_reads.chain(values.iter().map(|value| graph.reads(*value, u64::MAX))).max();
        let end = end.unwrap_or(0);
        let is_plain = |value: &ValueId| is_plain(graph, *value);
        let is_plain = forced.is_empty() && values.iter().all(is_plain) && test.is_some();
        let mut present = here.clone();
        present.at_least = present.at_least.max(end);
        present.kept.extend(forced.iter().map(|value| (*value, true)));
        let missing = match is_plain && end <= here.at_least {
            // None of its bytes is.
            true => Target::Reject,
            false => {
                let mut absent = here;
                if is_plain {
                    absent.below = absent.below.min(end);
                }
                match (test, &forced[..]) {
                    (Some(test), []) => absent.learn(test, Outcome::Missing),
                    (None, [value]) => _ = absent.kept.insert(*value, false),
                    _ => {}
                }
                arrive(graph, &mut known, absent, missing)
            }
        };
        let mut outcome = |outcome, target| {
            let mut then = present.clone();
            if let Some(test) = test {
                then.learn(test, outcome);
            }
            arrive(graph, &mut known, then, target)
        };
        let yes = outcome(Outcome::Yes, yes);
        let no = if condition == Condition::Always { yes } else { outcome(Outcome::No, no) };
        let node = &mut graph.nodes[index];
        (node.yes, node.no, node.missing) = (yes, no, missing);
    }
}

/// Where an edge leads with what is known on it; it is remembered there.
fn arrive(graph: &Graph, known: &mut [Option<Known>], here: Known, mut target: Target) -> Target {
    for _ in 0..PASSED_MAX {
        let Target::Node(index) = target else { break };
        let node = &graph.nodes[index];
        let decided = match (node.condition, &node.forced[..]) {
            (Condition::Test(test), []) => here.decide(graph, test),
            (Condition::Always, [value]) => match here.kept.get(value) {
                Some(true) => Some(Outcome::Yes),
                Some(false) => Some(Outcome::Missing),
                None => (graph.reads_afresh(*value, u64::MAX) >= here.below).then_some(Outcome::Missing),
            },
            _ => None,
        };
        target = match decided {
            Some(Outcome::Yes) => node.yes,
            Some(Outcome::No) => node.no,
            Some(Outcome::Missing) => node.missing,
            None => break,
        };
    }
    if let Target::Node(index) = target {
        let before = known[index].take();
        known[index] = Some(match before {
            None => here,
            Some(before) => before.common(&here),
        });
    }
    target
}

impl Known {
    fn learn(&mut self, test: Test, outcome: Outcome) {
        if self.results.len() == KNOWN_VALUES_MAX && !self.results.contains_key(&test.left) {
            return;
        }
        let results = self.results.entry(test.left).or_default();
        if results.len() == KNOWN_RESULTS_MAX {
            results.remove(0);
        }
        results.push((test, outcome));
    }

    fn decide(&self, graph: &Graph, test: Test) -> Option<Outcome> {
        let constant = |value| graph.values.constant(value);
        let holds = |left: u32| {
            let holds = match graph.values.get(test.right) {
                Value::Const(right) => test.comparison.holds(left, *right),
                Value::Set(numbers) => numbers.binary_search(&left).is_ok(),
                _ => return None,
            };
            Some(if holds { Outcome::Yes } else { Outcome::No })
        };
        if let Some(outcome) = constant(test.left).and_then(holds) {
            return Some(outcome);
        }
        let end = graph.reads(test.left, u64::MAX).max(graph.reads(test.right, u64::MAX));
        if end >= self.below {
            return Some(Outcome::Missing);
        }
        let known = self.results.get(&test.left)?;
        let is_same = |known: &Test| (known.comparison, known.right) == (test.comparison, test.right);
        if let Some((_, outcome)) = known.iter().find(|(known, _)| is_same(known)) {
            return Some(*outcome);
        }
        known.iter().find_map(|(known, outcome)| match (graph.values.get(known.right), outcome) {
            // The value that was compared is.
            (Value::Const(_) | Value::Set(_), Outcome::Missing) => Some(Outcome::Missing),
            (Value::Const(number), Outcome::Yes) if known.comparison == Comparison::Eq => holds(*number),
            _ => None,
        })
    }

    /// What both know.
    fn common(mut self, other: &Known) -> Known {
        self.at_least = self.at_least.min(other.at_least);
        self.below = self.below.max(other.below);
        self.kept.retain(|value, is_at_hand| other.kept.get(value) == Some(is_at_hand));
        self.results.retain(|value, results| {
            let others = other.results.get(value).map_or(&[][..], Vec::as_slice);
            results.retain(|result| others.contains(result));
            !results.is_empty()
        });
        self
    }
}

/// Whether bytes at constant offsets are all that the value may be missing for.
fn is_plain(graph: &Graph, id: ValueId) -> bool {
    if graph.kept.contains(&id) {
        return true;
    }
    let is_plain = |id| is_plain(graph, id);
    match *graph.values.get(id) {
        Value::Load { base, .. } => base.is_none(),
        Value::Binary { operator, left, right, .. } => {
            use crate::ast::Operator;
            let divides = matches!(operator, Operator::Div | Operator::Mod);
            (!divides || graph.values.constant(right).is_some_and(|number| number != 0))
                && is_plain(left)
                && is_plain(right)
        }
        Value::Negate(inner) => is_plain(inner),
        Value::If { .. } | Value::Upper(_) | Value::Metadata(_) => false,
        Value::Const(_) | Value::Set(_) | Value::Len | Value::Context(_) | Value::HeaderLength { .. } => true,
    }
}
