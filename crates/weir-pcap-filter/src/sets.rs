//! Sets of numbers that a value is compared with: where they may stand, and their tests one by one.

use std::collections::HashMap;

use crate::graph::{Condition, Graph, Node, Target};
use crate::ir::{Pred, Test, Value, ValueId, Values};

/// Whether no value that is compared with a set is compared with anything else. Then what libpcap finds out of these tests, which it
/// makes one by one, decides no other test.
pub(crate) fn stand_alone(values: &Values, pred: &Pred) -> bool {
    let mut compared = HashMap::new();
    is_alone(values, pred, &mut compared)
}

/// `compared`: what each value is compared with, if that is a set.
fn is_alone(values: &Values, pred: &Pred, compared: &mut HashMap<ValueId, Option<ValueId>>) -> bool {
    match pred {
        Pred::Test(Test { left, right, .. }) => {
            let set = matches!(values.get(*right), Value::Set(_)).then_some(*right);
            *compared.entry(*left).or_insert(set) == set
        }
        Pred::And(parts) | Pred::Or(parts) => parts.iter().all(|part| is_alone(values, part, compared)),
        Pred::Not(inner) | Pred::Fails(inner) => is_alone(values, inner, compared),
        Pred::Chain(_) | Pred::Need(_) => true,
    }
}

impl Graph {
    /// The same graph without sets: a test for each number.
    pub(crate) fn without_sets(&self) -> Graph {
        let mut graph = self.clone();
        for index in 0..graph.nodes.len() {
            let Condition::Test(test) = graph.nodes[index].condition else { continue };
            let Value::Set(numbers) = graph.values.get(test.right) else { continue };
            let numbers = numbers.clone();
            let Node { yes, mut no, missing, .. } = graph.nodes[index];
            for (at, number) in numbers.iter().enumerate().rev() {
                let right = graph.values.number(*number);
                let condition = Condition::Test(Test { right, ..test });
                if at == 0 {
                    graph.nodes[index].condition = condition;
                    graph.nodes[index].no = no;
                } else {
                    graph.nodes.push(Node { forced: Vec::new(), condition, yes, no, missing });
                    no = Target::Node(graph.nodes.len() - 1);
                }
            }
        }
        graph
    }
}
