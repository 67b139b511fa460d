//! Blocks under construction, and how paths meet.
//!
//! A path that leaves a block is an [`Edge`]: it remembers the values of the scratch variables on that path, and
//! its terminator is filled in when the block it goes to is made. As blocks are numbered when they are made, every
//! jump goes forward, but for those back to the head of a loop, which is made before its rounds.

use std::collections::HashSet;

use weir_event::Type;
use weir_ir::{Block, BlockId, Inst, Op, Terminator, Value};

use crate::check::width::Cut;
use crate::lower::Lowering;
use crate::types;

/// A block that is not made yet, in a terminator that waits for its edge.
const PENDING: BlockId = BlockId(u32::MAX);

/// The values and blocks of a function.
#[derive(Default)]
pub(super) struct Blocks {
    types: Vec<Type>,
    blocks: Vec<Block>,
    /// Where instructions go; None after a `return` or `exit()`.
    current: Option<usize>,
}

/// A scratch variable.
#[derive(Clone)]
pub(super) struct Slot {
    pub name: String,
    pub ty: Type,
    /// One value; for a tuple, one for each part.
    pub values: Vec<Value>,
}

/// A path out of a block, on its way to the next.
pub(super) struct Edge {
    from: usize,
    arm: Arm,
    variables: Vec<Vec<Value>>,
    extra: Vec<Value>,
}

/// What waits for the end of a loop's round, or of the loop.
pub(super) struct Loop {
    pub breaks: Vec<Edge>,
    pub continues: Vec<Edge>,
}

/// A function whose body is being lowered: the paths that return from it, with the values of its result.
pub(super) struct Call {
    pub result: Option<Type>,
    pub cut: Option<Cut>,
    pub returns: Vec<Edge>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Jump,
    Then,
    Otherwise,
}

impl Blocks {
    pub(super) fn open_entry(&mut self) {
        self.open();
    }

    /// Ends the function.
    pub(super) fn finish(&mut self) {
        if let Some(block) = self.current.take() {
            self.blocks[block].end = Terminator::Return;
        }
    }

    /// Where the path has ended, instructions go to a block that nothing leads to.
    pub(super) fn go_on(&mut self) {
        if !self.is_reachable() {
            self.open();
        }
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn into_parts(self) -> (Vec<Type>, Vec<Block>) {
        (self.types, self.blocks)
    }

    /// Appends an instruction that has a result.
    pub(super) fn value(&mut self, op: Op, ty: Type) -> Value {
        let value = self.new_value(ty);
        self.push(Inst { result: Some(value), op });
        value
    }

    /// Appends an instruction that has none.
    pub(super) fn effect(&mut self, op: Op) {
        self.push(Inst { result: None, op });
    }

    pub(super) fn ty(&self, value: Value) -> &Type {
        &self.types[value.0 as usize]
    }

    fn push(&mut self, inst: Inst) {
        // SANITY: statements after the end of a path are not lowered, and an expression never ends one.
        let block = self.current.expect("an instruction has a block");
        self.blocks[block].insts.push(inst);
    }

    /// A pointer or a word is a number from here on.
    fn new_value(&mut self, ty: Type) -> Value {
        self.types.push(types::in_ir(&ty));
        Value(self.types.len() as u32 - 1)
    }

    fn open(&mut self) -> usize {
        self.blocks.push(Block { params: Vec::new(), insts: Vec::new(), end: Terminator::Return });
        self.current = Some(self.blocks.len() - 1);
        self.blocks.len() - 1
    }

    /// Gives the block `to` a parameter, and each edge its argument for it.
    fn param(&mut self, to: usize, ty: Type, edges: &[Edge], arguments: &[Value]) -> Value {
        let value = self.new_value(ty);
        self.blocks[to].params.push(value);
        for (edge, argument) in edges.iter().zip(arguments) {
            match (&mut self.blocks[edge.from].end, edge.arm) {
                (Terminator::Jump { args, .. }, Arm::Jump) => args.push(*argument),
                (Terminator::Branch { then_args, .. }, Arm::Then) => then_args.push(*argument),
                (Terminator::Branch { otherwise_args, .. }, Arm::Otherwise) => otherwise_args.push(*argument),
                _ => unreachable!("an edge belongs to its block's terminator"),
            }
        }
        value
    }

    fn aim(&mut self, edge: &Edge, target: BlockId) {
        match (&mut self.blocks[edge.from].end, edge.arm) {
            (Terminator::Jump { to, .. }, Arm::Jump) => *to = target,
            (Terminator::Branch { then, .. }, Arm::Then) => *then = target,
            (Terminator::Branch { otherwise, .. }, Arm::Otherwise) => *otherwise = target,
            _ => unreachable!("an edge belongs to its block's terminator"),
        }
    }
}

impl Lowering<'_> {
    /// Ends the current path with a jump that carries `extra`. None if the path has ended before.
    pub(super) fn jump(&mut self, extra: Vec<Value>) -> Option<Edge> {
        let from = self.blocks.current.take()?;
        self.blocks.blocks[from].end = Terminator::Jump { to: PENDING, args: Vec::new() };
        Some(self.edge(from, Arm::Jump, extra))
    }

    /// Ends the current path in two: `condition` is not 0, or it is.
    pub(super) fn branch(&mut self, condition: Value) -> (Edge, Edge) {
        // SANITY: the condition was computed in it.
        let from = self.blocks.current.take().expect("a branch has a block");
        self.blocks.blocks[from].end = Terminator::Branch {
            condition,
            then: PENDING,
            then_args: Vec::new(),
            otherwise: PENDING,
            otherwise_args: Vec::new(),
        };
        (self.edge(from, Arm::Then, Vec::new()), self.edge(from, Arm::Otherwise, Vec::new()))
    }

    /// Goes on where `edges` meet, with the first `scope` variables. Returns the values that the edges carry, of
    /// these types; values that differ become parameters. Without edges what follows is not reachable.
    pub(super) fn merge(&mut self, edges: Vec<Edge>, scope: usize, extra_types: &[Type]) -> Vec<Value> {
        self.variables.truncate(scope);
        let Some(first) = edges.first() else {
            self.blocks.current = None;
            return Vec::new();
        };
        let alone = edges.len() == 1 && first.arm == Arm::Jump;
        let to = if alone { first.from } else { self.blocks.open() };
        self.blocks.current = Some(to);
        if alone {
            self.blocks.blocks[to].end = Terminator::Return;
        } else {
            edges.iter().for_each(|edge| self.blocks.aim(edge, BlockId(to as u32)));
        }
        for slot in 0..scope {
            let types = parts(&self.variables[slot].ty);
            for (part, ty) in types.into_iter().enumerate() {
                let arguments: Vec<Value> = edges.iter().map(|edge| edge.variables[slot][part]).collect();
                self.variables[slot].values[part] = self.meet(to, ty, &edges, &arguments);
            }
        }
        let mut extra = Vec::new();
        for (index, ty) in extra_types.iter().enumerate() {
            let arguments: Vec<Value> = edges.iter().map(|edge| edge.extra[index]).collect();
            extra.push(self.meet(to, ty.clone(), &edges, &arguments));
        }
        extra
    }

    /// Opens the head of a loop: its parameters are the variables that the loop assigns to.
    pub(super) fn loop_head(&mut self, assigned: &HashSet<&str>) -> BlockId {
        let scope = self.variables.len();
        let edges: Vec<Edge> = self.jump(Vec::new()).into_iter().collect();
        let to = self.blocks.open();
        edges.iter().for_each(|edge| self.blocks.aim(edge, BlockId(to as u32)));
        for slot in 0..scope {
            if !assigned.contains(self.variables[slot].name.as_str()) {
                continue;
            }
            for (part, ty) in parts(&self.variables[slot].ty).into_iter().enumerate() {
                let arguments: Vec<Value> = edges.iter().map(|edge| edge.variables[slot][part]).collect();
                self.variables[slot].values[part] = self.blocks.param(to, ty, &edges, &arguments);
            }
        }
        BlockId(to as u32)
    }

    /// Ends the current path with a jump back to a loop's head.
    pub(super) fn jump_back(&mut self, head: BlockId, assigned: &HashSet<&str>) {
        let given = self.variables.iter().filter(|slot| assigned.contains(slot.name.as_str()));
        let args = given.flat_map(|slot| slot.values.iter().copied()).collect();
        if let Some(from) = self.blocks.current.take() {
            self.blocks.blocks[from].end = Terminator::Jump { to: head, args };
        }
    }

    fn meet(&mut self, to: usize, ty: Type, edges: &[Edge], arguments: &[Value]) -> Value {
        if arguments.iter().all(|argument| *argument == arguments[0]) {
            return arguments[0];
        }
        self.blocks.param(to, ty, edges, arguments)
    }

    fn edge(&self, from: usize, arm: Arm, extra: Vec<Value>) -> Edge {
        let variables = self.variables.iter().map(|slot| slot.values.clone()).collect();
        Edge { from, arm, variables, extra }
    }
}

/// The types of the values that a value of this type is kept in: of a tuple, those of its parts, and of theirs.
pub(super) fn parts(ty: &Type) -> Vec<Type> {
    weir_ir::leaves(ty).into_iter().cloned().collect()
}
