//! Blocks under construction: a way out of a block is an [`Edge`], and its terminator is filled in when the block it goes to is
//! opened. As blocks are numbered when they are opened, every jump goes forward.

use weir_event::Type;
use weir_ir::{BinOp, Block, BlockId, CmpOp, Inst, Op, Terminator, Value};

/// A block that is not there yet, in a terminator that waits for it.
const PENDING: BlockId = BlockId(u32::MAX);

/// The values and blocks of a function; instructions go to the last block.
#[derive(Default)]
pub(super) struct Blocks {
    types: Vec<Type>,
    blocks: Vec<Block>,
}

/// A way out of a block.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    from: usize,
    arm: Arm,
}

#[derive(Clone, Copy)]
enum Arm {
    Jump,
    Then,
    Otherwise,
}

impl Blocks {
    /// Begins a block to which these ways lead.
    pub(super) fn open(&mut self, edges: &[Edge]) {
        let block = BlockId(self.blocks.len() as u32);
        self.blocks.push(Block { params: Vec::new(), insts: Vec::new(), end: Terminator::Return });
        for edge in edges {
            match (&mut self.blocks[edge.from].end, edge.arm) {
                (Terminator::Jump { to, .. }, Arm::Jump) => *to = block,
                (Terminator::Branch { then, .. }, Arm::Then) => *then = block,
                (Terminator::Branch { otherwise, .. }, Arm::Otherwise) => *otherwise = block,
                _ => unreachable!("an edge belongs to its block's terminator"),
            }
        }
    }

    /// Begins a block with a value that each way brings along.
    pub(super) fn meet(&mut self, ways: &[(Edge, Value)]) -> Value {
        let edges: Vec<Edge> = ways.iter().map(|(edge, _)| *edge).collect();
        self.open(&edges);
        let value = self.new_value(Type::I64);
        self.last().params.push(value);
        for (edge, given) in ways {
            match (&mut self.blocks[edge.from].end, edge.arm) {
                (Terminator::Jump { args, .. }, Arm::Jump) => args.push(*given),
                (Terminator::Branch { then_args, .. }, Arm::Then) => then_args.push(*given),
                (Terminator::Branch { otherwise_args, .. }, Arm::Otherwise) => otherwise_args.push(*given),
                _ => unreachable!("an edge belongs to its block's terminator"),
            }
        }
        value
    }

    /// Ends the block in two ways: `condition` is not 0, or it is.
    pub(super) fn branch(&mut self, condition: Value) -> (Edge, Edge) {
        self.end(Terminator::Branch {
            condition,
            then: PENDING,
            then_args: Vec::new(),
            otherwise: PENDING,
            otherwise_args: Vec::new(),
        });
        let from = self.blocks.len() - 1;
        (Edge { from, arm: Arm::Then }, Edge { from, arm: Arm::Otherwise })
    }

    pub(super) fn jump(&mut self) -> Edge {
        self.end(Terminator::Jump { to: PENDING, args: Vec::new() });
        Edge { from: self.blocks.len() - 1, arm: Arm::Jump }
    }

    pub(super) fn end(&mut self, end: Terminator) {
        self.last().end = end;
    }

    pub(super) fn int(&mut self, value: i64) -> Value {
        self.value(Op::Int(value), Type::I64)
    }

    pub(super) fn bin(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        self.value(Op::Bin(op, a, b), Type::I64)
    }

    /// With a constant on the right.
    pub(super) fn bin_int(&mut self, op: BinOp, a: Value, b: i64) -> Value {
        let b = self.int(b);
        self.bin(op, a, b)
    }

    pub(super) fn cmp(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        self.value(Op::Cmp(op, a, b), Type::U64)
    }

    pub(super) fn cmp_int(&mut self, op: CmpOp, a: Value, b: i64) -> Value {
        let b = self.int(b);
        self.cmp(op, a, b)
    }

    /// `yes` where `condition`, 1 or 0, is 1, else `no`; both are computed.
    pub(super) fn either(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        let zero = self.int(0);
        let mask = self.bin(BinOp::Sub, zero, condition);
        let differing = self.bin(BinOp::Xor, yes, no);
        let chosen = self.bin(BinOp::And, differing, mask);
        self.bin(BinOp::Xor, no, chosen)
    }

    pub(super) fn value(&mut self, op: Op, ty: Type) -> Value {
        let value = self.new_value(ty);
        self.last().insts.push(Inst { result: Some(value), op });
        value
    }

    /// An instruction without a result.
    pub(super) fn effect(&mut self, op: Op) {
        self.last().insts.push(Inst { result: None, op });
    }

    pub(super) fn into_parts(self) -> (Vec<Type>, Vec<Block>) {
        (self.types, self.blocks)
    }

    fn new_value(&mut self, ty: Type) -> Value {
        self.types.push(ty);
        Value(self.types.len() as u32 - 1)
    }

    fn last(&mut self) -> &mut Block {
        // SANITY: the entry is opened before anything else.
        self.blocks.last_mut().expect("a block")
    }
}
