//! A set of "use this value instead of that one", collected by a pass and applied at its end.

use crate::{Function, Value};

pub(super) struct Substitution {
    /// By value; chains are followed when looked up.
    instead: Vec<Value>,
    changed: bool,
}

impl Substitution {
    pub(super) fn new(function: &Function) -> Substitution {
        let instead = (0..function.types.len() as u32).map(Value).collect();
        Substitution { instead, changed: false }
    }

    /// From now on `with` stands for `value`. `with` must be defined wherever `value` is used.
    pub(super) fn replace(&mut self, value: Value, with: Value) {
        let with = self.get(with);
        assert!(value != with, "a value would stand for itself");
        self.instead[value.0 as usize] = with;
        self.changed = true;
    }

    pub(super) fn get(&self, value: Value) -> Value {
        let mut value = value;
        // Values that a pass made after the set began stand for themselves.
        while let Some(&next) = self.instead.get(value.0 as usize).filter(|&&next| next != value) {
            value = next;
        }
        value
    }

    /// Rewrites every use; true if anything was replaced.
    pub(super) fn apply(self, function: &mut Function) -> bool {
        if self.changed {
            for block in &mut function.blocks {
                for inst in &mut block.insts {
                    inst.op.for_each_operand(|value| *value = self.get(*value));
                }
                block.end.for_each_operand(|value| *value = self.get(*value));
            }
        }
        self.changed
    }
}
