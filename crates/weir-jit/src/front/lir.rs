//! The operations between bytecode and machine code: one per eBPF instruction, with what was proven of its
//! operands already put in.
//!
//! An address on the stack or in the context is a place, not a register; a constant is an immediate; a map
//! lookup with a known key is an address. [`Op::effect`] says what each operation reads and writes, once, for
//! the pass that drops dead ones. Register r10 never occurs: it is [`Operand::FramePointer`] or a place.
//!
//! What passes make of several operations is a [`Fused`].
//!
//! Not here: machine registers (see [`crate::isa::native::emit`]).

use weir_ebpf::kfunc::{DeclaredCopy, TextTest};
use weir_ebpf::{HelperId, helper};
use weir_rt::executable::Symbol;

use crate::front::fused::Fused;
use crate::front::reservation::Reservation;

/// An eBPF register, 0..=9, or one that [`crate::passes::promote`] gave to a place on the stack.
pub(crate) type Reg = u8;

/// How many there are.
pub(crate) const REGISTERS: usize = 13;

/// Named for where they live: no bytecode has them, and no call takes or changes the first.
pub(crate) const IN_R12: Reg = 10;
pub(crate) const IN_R9: Reg = 11;
pub(crate) const IN_R10: Reg = 12;

/// Where an access starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// The address in a register. `may_be_stack`: it could point into the program's own stack.
    Reg { reg: Reg, may_be_stack: bool },
    /// The address in `base` plus `index << scale`, scale 0..=3: what [`crate::passes::absorb`] makes of additions.
    Indexed { base: Reg, index: Reg, scale: u8, may_be_stack: bool },
    /// r10.
    Stack,
    /// The context that r1 points to at entry.
    Context,
}

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) base: Base,
    pub(crate) offset: i32,
}

/// A source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Reg(Reg),
    /// Sign-extended to the width of the operation.
    Imm(i32),
    FramePointer,
}

/// Width of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    B,
    H,
    W,
    Dw,
}

impl Size {
    pub(crate) fn bytes(self) -> i32 {
        match self {
            Size::B => 1,
            Size::H => 2,
            Size::W => 4,
            Size::Dw => 8,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AluOp {
    Add,
    Sub,
    Mul,
    Or,
    And,
    Xor,
    Lsh,
    Rsh,
    Arsh,
    Div,
    Mod,
    Sdiv,
    Smod,
}

/// What a register move does to the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extend {
    /// All 64 bits.
    None,
    /// The lower 32 bits; the upper become 0.
    Zero32,
    /// Sign-extended from so many bits to 64, or (`wide` false) to 32 with the upper half 0.
    Sign { bits: u8, wide: bool },
}

/// Reordering bytes, or cutting to the lower ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bytes {
    Swap,
    Truncate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtomicOp {
    Add,
    Or,
    And,
    Xor,
    Xchg,
    Cmpxchg,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
    Sgt,
    Sge,
    Slt,
    Sle,
    /// Some bit is in both.
    Set,
}

/// Bytes of the stack, as offsets from r10: `from..to`, negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackRange {
    pub(crate) from: i32,
    pub(crate) to: i32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// Unreachable, or without effect.
    Nothing,
    Const {
        dst: Reg,
        value: u64,
    },
    /// The address itself of a place on the stack or in the context.
    Address {
        dst: Reg,
        at: At,
    },
    /// Of a map's descriptor or data.
    Symbol {
        dst: Reg,
        symbol: Symbol,
        addend: i64,
    },
    /// `Symbol` for data of a per-CPU map, in the lane that the run has claimed.
    InLane {
        dst: Reg,
        map: u32,
        addend: i64,
    },
    Mov {
        dst: Reg,
        src: Reg,
        extend: Extend,
    },
    Alu {
        op: AluOp,
        wide: bool,
        dst: Reg,
        src: Operand,
    },
    Neg {
        wide: bool,
        dst: Reg,
    },
    Bytes {
        op: Bytes,
        bits: u8,
        dst: Reg,
    },
    /// r0 = the big-endian number in the packet at the register's lower half plus `offset`, as a signed number of 32
    /// bits (see `weir_ebpf::context::packet`). Outside the packet the program ends with 0.
    PacketLoad {
        size: Size,
        index: Option<Reg>,
        offset: i32,
    },
    /// `lanes`: through a pointer into a per-CPU map of this index, in lane 0. None where the pointer is in the lane
    /// that the run has claimed.
    Load {
        dst: Reg,
        size: Size,
        signed: bool,
        at: At,
        lanes: Option<u32>,
    },
    Store {
        size: Size,
        at: At,
        src: Operand,
        lanes: Option<u32>,
    },
    Atomic {
        op: AtomicOp,
        fetch: bool,
        wide: bool,
        at: At,
        src: Operand,
        lanes: Option<u32>,
    },
    /// r0 = address of the element whose index stands at `key`, or null; in lane 0, or (`in_lane`) in the one that the
    /// run has claimed.
    Lookup {
        map: u32,
        key: At,
        in_lane: bool,
    },
    /// r0 = pid and tid, from the thread control block.
    PidTid {
        fs_offset: i32,
    },
    /// r0 = the cookie of the frame that the context at `context` is part of.
    Cookie {
        context: At,
    },
    /// r0 = 1 if the text of a slot begins so, else 0: see [`crate::isa::native::texts`].
    Text {
        test: TextTest,
    },
    /// r0 = bytes that are copied to r1 of what a slot leads to: see [`crate::isa::native::declared`]. Of the program's stack it may change what
    /// lies from `stack_reads` on.
    Declared {
        copy: DeclaredCopy,
        stack_reads: Vec<StackRange>,
    },
    /// `stack_reads`: what the helper may read of the program's stack. `args`: how many registers it takes.
    /// `string_bytes`: what its sixth argument is, for one that takes a constant string.
    /// `in_lane`: it concerns a lane. `symbol`: the function, of the helper or of its part for the map's kind. `is_aligned`: it accesses
    /// no word at an address that is no multiple of its size.
    Helper {
        id: HelperId,
        symbol: Symbol,
        args: u8,
        string_bytes: Option<u32>,
        stack_reads: Vec<StackRange>,
        in_lane: InLane,
        is_aligned: bool,
    },
    /// r0 = a record in the ring of the CPU, or null: see [`crate::front::reservation`].
    Reserve {
        reservation: Reservation,
    },
    /// r0 = 0 and a record with a copy of what is at r2, as many bytes as the reservation or else r3 says; or why not. Of
    /// the program's stack it reads `stack_reads`.
    Output {
        reservation: Reservation,
        is_sized: bool,
        stack_reads: Vec<StackRange>,
    },
    /// Submits the record r1, or gives it back as nothing.
    Finish {
        is_discard: bool,
    },
    /// A function of the program, which may read the caller's stack where it was given an address.
    LocalCall {
        target: usize,
        stack_escapes: bool,
    },
    /// A helper that calls a function of the program: `loop` r1 times, with the round's number and r3;
    /// `for_each_map_elem` once for each element of map r1. `checks_flags`: r4 may be other than 0.
    Loop {
        over: Over,
        callback: usize,
        checks_flags: bool,
        stack_escapes: bool,
    },
    /// Another program takes over: that of slot r3 of this map of programs, if there is one.
    TailCall {
        map: u32,
    },
    /// Jumps when the run's rounds are used up; else takes one.
    MayGoto {
        target: usize,
    },
    Jump {
        target: usize,
    },
    Branch {
        test: Test,
        wide: bool,
        left: Operand,
        right: Operand,
        target: usize,
    },
    /// Several operations in one.
    Fused(Fused),
    Exit,
}

/// What a helper's call has to do with a lane: with the one that the run has claimed, if not said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InLane {
    No,
    /// A look-up in this per-CPU map: its answer is in lane 0.
    LookUp(u32),
    /// The function takes the lane as an argument, in this register of eBPF.
    Argument(Reg),
    /// The same, but always this lane.
    Always(Reg, u32),
    /// The CPU that the lane is of.
    Cpu,
    /// No lane: the CPU that the thread is on, as its `struct rseq` says, which is so far from fs.
    ThreadsCpu(i32),
}

/// What a helper calls back for each of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    Numbers,
    Elements,
}

/// What an operation reads and writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Effect {
    /// Bit n: register n.
    pub(crate) reads: u16,
    pub(crate) writes: u16,
    pub(crate) stack_reads: Vec<StackRange>,
    /// Bytes that hold a new value afterwards for certain.
    pub(crate) stack_writes: Option<StackRange>,
    /// Matters even if nothing that it writes is read.
    pub(crate) keep: bool,
}

/// All of the stack.
pub(crate) const WHOLE_STACK: StackRange =
    StackRange { from: -(crate::limits::STACK_BYTES_MAX as i32), to: 0 };

/// r0 to r5, which a call leaves without a value the program may use (r0 has the result).
const CALL_WRITES: u16 = 0x3f;

/// r1 to r5.
pub(crate) const ARGUMENTS: u16 = 0x3e;

/// Helpers that only answer: without a reader they need not be called.
const PURE_HELPERS: [HelperId; 10] = [
    helper::KTIME_GET_NS,
    helper::KTIME_GET_BOOT_NS,
    helper::KTIME_GET_COARSE_NS,
    helper::KTIME_GET_TAI_NS,
    helper::JIFFIES64,
    helper::GET_PRANDOM_U32,
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_NUMA_NODE_ID,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_CGROUP_ID,
];

impl Op {
    pub(crate) fn effect(&self) -> Effect {
        let mut effect = Effect::default();
        match *self {
            Op::Nothing => {}
            Op::Const { dst, .. } | Op::Symbol { dst, .. } | Op::InLane { dst, .. } => {
                effect.writes = 1 << dst;
            }
            Op::Address { dst, .. } => effect.writes = 1 << dst,
            Op::Mov { dst, src, .. } => {
                effect.reads = 1 << src;
                effect.writes = 1 << dst;
            }
            Op::Alu { dst, src, .. } => {
                effect.reads = 1 << dst | src.reads();
                effect.writes = 1 << dst;
            }
            Op::Neg { dst, .. } | Op::Bytes { dst, .. } => {
                effect.reads = 1 << dst;
                effect.writes = 1 << dst;
            }
            Op::Load { dst, size, at, .. } => {
                effect.base(at);
                effect.stack_reads.extend(at.stack_range(size));
                effect.writes = 1 << dst;
            }
            Op::PacketLoad { index, .. } => {
                effect.reads = index.map_or(0, |reg| 1 << reg);
                effect.writes = CALL_WRITES;
                effect.keep = true;
            }
            Op::Store { size, at, src, .. } => {
                effect.base(at);
                effect.reads |= src.reads();
                match at.base {
                    Base::Stack => effect.stack_writes = at.stack_range(size),
                    _ => effect.keep = true,
                }
            }
            Op::Atomic { op, fetch, wide, at, src, .. } => {
                let size = if wide { Size::Dw } else { Size::W };
                effect.base(at);
                effect.stack_reads.extend(at.stack_range(size));
                effect.reads |= src.reads();
                if op == AtomicOp::Cmpxchg {
                    effect.reads |= 1;
                    effect.writes = 1;
                } else if fetch {
                    effect.writes = src.reads();
                }
                effect.keep = true;
            }
            Op::Lookup { key, .. } => {
                effect.base(key);
                effect.stack_reads.extend(key.stack_range(Size::W));
                effect.writes = CALL_WRITES;
            }
            Op::PidTid { .. } | Op::Text { .. } => effect.writes = CALL_WRITES,
            Op::Cookie { context } => {
                effect.base(context);
                effect.writes = CALL_WRITES;
            }
            // Its arguments are what is live where the function begins: see `liveness`.
            Op::LocalCall { stack_escapes, .. } => {
                effect.writes = CALL_WRITES;
                effect.stack_reads.extend(stack_escapes.then_some(WHOLE_STACK));
                effect.keep = true;
            }
            Op::TailCall { .. } => {
                effect.reads = 1 << 3;
                effect.writes = CALL_WRITES;
                effect.keep = true;
            }
            Op::Loop { checks_flags, stack_escapes, .. } => {
                effect.reads = 1 << 1 | 1 << 3 | u16::from(checks_flags) << 4;
                effect.writes = CALL_WRITES;
                effect.stack_reads.extend(stack_escapes.then_some(WHOLE_STACK));
                effect.keep = true;
            }
            Op::Helper { id, args, ref stack_reads, .. } => {
                effect.reads = ((1 << args) - 1) << 1;
                effect.writes = CALL_WRITES;
                effect.stack_reads.clone_from(stack_reads);
                effect.keep = !PURE_HELPERS.contains(&id);
            }
            Op::Reserve { .. } => {
                effect.writes = CALL_WRITES;
                effect.keep = true;
            }
            Op::Output { is_sized, ref stack_reads, .. } => {
                effect.reads = 1 << 2 | u16::from(!is_sized) << 3;
                effect.writes = CALL_WRITES;
                effect.stack_reads.clone_from(stack_reads);
                effect.keep = true;
            }
            Op::Declared { ref stack_reads, .. } => {
                effect.reads = 1 << 1;
                effect.writes = CALL_WRITES;
                effect.stack_reads.clone_from(stack_reads);
                effect.keep = true;
            }
            Op::Finish { .. } => {
                effect.reads = 1 << 1;
                effect.writes = CALL_WRITES;
                effect.keep = true;
            }
            Op::Jump { .. } | Op::MayGoto { .. } => effect.keep = true,
            Op::Branch { left, right, .. } => {
                effect.reads = left.reads() | right.reads();
                effect.keep = true;
            }
            Op::Fused(ref fused) => fused.effect(&mut effect),
            Op::Exit => {
                effect.reads = 1;
                effect.keep = true;
            }
        }
        effect
    }

    /// Where control may go from the operation at `index`.
    pub(crate) fn successors(&self, index: usize) -> [Option<usize>; 2] {
        match *self {
            Op::Jump { target } => [Some(target), None],
            Op::Branch { target, .. } | Op::MayGoto { target } => [Some(index + 1), Some(target)],
            Op::Exit => [None, None],
            _ => [Some(index + 1), None],
        }
    }

    /// Where it jumps to, or the function that it calls.
    pub(crate) fn target_mut(&mut self) -> Option<&mut usize> {
        match self {
            Op::Jump { target }
            | Op::Branch { target, .. }
            | Op::MayGoto { target }
            | Op::LocalCall { target, .. }
            | Op::Loop { callback: target, .. } => Some(target),
            _ => None,
        }
    }

    /// The function that is called, if it gets this function's r1 to r5.
    pub(crate) fn local_callee(&self) -> Option<usize> {
        if let Op::LocalCall { target, .. } = *self { Some(target) } else { None }
    }

    /// The function that is called, by whatever.
    pub(crate) fn callee(&self) -> Option<usize> {
        match *self {
            Op::LocalCall { target, .. } | Op::Loop { callback: target, .. } => Some(target),
            _ => None,
        }
    }

    /// The registers that it reads. Of a call of a function: those that may be arguments.
    pub(crate) fn reads(&self) -> u16 {
        if self.local_callee().is_some() { ARGUMENTS } else { self.effect().reads }
    }

    /// The memory operand.
    pub(crate) fn at(&self) -> Option<At> {
        match *self {
            Op::Address { at, .. }
            | Op::Load { at, .. }
            | Op::Store { at, .. }
            | Op::Atomic { at, .. }
            | Op::Lookup { key: at, .. }
            | Op::Fused(Fused::LoadSwapped { at, .. } | Fused::Update { at, .. }) => Some(at),
            _ => None,
        }
    }

    /// The register or immediate sources.
    pub(crate) fn operands(&self) -> [Option<Operand>; 2] {
        match *self {
            Op::Alu { src, .. } | Op::Store { src, .. } | Op::Atomic { src, .. } => [Some(src), None],
            Op::Branch { left, right, .. }
            | Op::Fused(Fused::Select { left, right, .. } | Fused::SetIf { left, right, .. }) => {
                [Some(left), Some(right)]
            }
            Op::Fused(Fused::Alu { right, .. }) => [Some(right), None],
            Op::Fused(Fused::Update { src, .. }) => [Some(src), None],
            _ => [None, None],
        }
    }
}

impl Effect {
    /// The registers that an address needs.
    pub(crate) fn base(&mut self, at: At) {
        self.reads |= at.base.reads();
    }
}

impl Base {
    /// The registers that the address is made of.
    pub(crate) fn reads(self) -> u16 {
        match self {
            Base::Reg { reg, .. } => 1 << reg,
            Base::Indexed { base, index, .. } => 1 << base | 1 << index,
            Base::Stack | Base::Context => 0,
        }
    }

    /// Through a register that could point into the program's own stack.
    pub(crate) fn may_be_stack(self) -> bool {
        matches!(self, Base::Reg { may_be_stack: true, .. } | Base::Indexed { may_be_stack: true, .. })
    }
}

impl Operand {
    pub(crate) fn reads(self) -> u16 {
        match self {
            Operand::Reg(reg) => 1 << reg,
            Operand::Imm(_) | Operand::FramePointer => 0,
        }
    }
}

impl At {
    /// The bytes of the stack that an access of this size may touch.
    pub(crate) fn stack_range(self, size: Size) -> Option<StackRange> {
        match self.base {
            Base::Stack => Some(StackRange { from: self.offset, to: self.offset + size.bytes() }),
            base => base.may_be_stack().then_some(WHOLE_STACK),
        }
    }
}
