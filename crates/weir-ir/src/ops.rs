//! What is true of each operation: its operands, its effect, its name, and what arithmetic means.
//!
//! Passes, the checker, the text form and weir-codegen ask here, so that a new operation is a row in each of
//! these matches and nowhere else.

use weir_event::Type;
use weir_event::ctype::CTypes;

use crate::{BinOp, BlockId, Builtin, CmpOp, Function, MapId, Op, Terminator, Value};

/// What an operation does beside computing its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: two of them with the same operands give the same value.
    Pure,
    /// It looks at something that changes (time, maps, memory): may be left out, may not be merged.
    Reads,
    /// It changes something that others see: may be neither left out nor merged.
    Writes,
}

impl Op {
    pub fn effect(&self) -> Effect {
        match self {
            Op::Int(_) | Op::Str(_) | Op::Bin(..) | Op::Cmp(..) | Op::StrEq { .. } => Effect::Pure,
            Op::UserSymbol { .. }
            | Op::KernelSymbol { .. }
            | Op::Part { .. }
            | Op::Join(_)
            | Op::StrLen(_) => Effect::Pure,
            Op::StrFind { .. } | Op::StrCat { .. } | Op::MemCmp { .. } => Effect::Pure,
            // It leaves the stack in a table, which nobody sees but by its number.
            Op::UserStack(_) | Op::KernelStack(_) | Op::StackLength(_) => Effect::Reads,
            // bpftrace reads the clock at every mention; a script may subtract two of them.
            Op::Builtin(
                Builtin::Nsecs
                | Builtin::BootNsecs
                | Builtin::TaiNsecs
                | Builtin::Jiffies
                | Builtin::Elapsed
                | Builtin::Random
                | Builtin::SessionCookie,
            ) => Effect::Reads,
            // The rest cannot change while one clause runs, but for a migration to another CPU.
            Op::Builtin(_) => Effect::Pure,
            Op::ReadStr { .. }
            | Op::ReadInt { .. }
            | Op::ReadBytes { .. }
            | Op::ReadStrings { .. }
            | Op::Match { .. }
            | Op::TextBegins { .. }
            | Op::MapGet { .. }
            | Op::MapNext { .. }
            | Op::MapHas { .. } => Effect::Reads,
            Op::MapSet { .. }
            | Op::MapAdd { .. }
            | Op::MapDelete { .. }
            | Op::Aggregate { .. }
            | Op::SetSessionCookie { .. }
            | Op::Signal { .. }
            | Op::MayLoop
            | Op::CallProgram
            | Op::Emit { .. }
            | Op::Record { .. } => Effect::Writes,
        }
    }

    /// True if an instruction with this operation has a result.
    pub fn has_result(&self) -> bool {
        !matches!(
            self,
            Op::MapSet { .. }
                | Op::MapDelete { .. }
                | Op::Aggregate { .. }
                | Op::SetSessionCookie { .. }
                | Op::Signal { .. }
                | Op::Emit { .. }
                | Op::Record { .. }
        )
    }

    /// The map it works on.
    pub fn map(&self) -> Option<MapId> {
        match self {
            Op::MapGet { map, .. }
            | Op::MapNext { map, .. }
            | Op::MapHas { map, .. }
            | Op::MapSet { map, .. }
            | Op::MapAdd { map, .. }
            | Op::MapDelete { map, .. }
            | Op::Aggregate { map, .. } => Some(*map),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn map_mut(&mut self) -> Option<&mut MapId> {
        match self {
            Op::MapGet { map, .. }
            | Op::MapNext { map, .. }
            | Op::MapHas { map, .. }
            | Op::MapSet { map, .. }
            | Op::MapAdd { map, .. }
            | Op::MapDelete { map, .. }
            | Op::Aggregate { map, .. } => Some(map),
            _ => None,
        }
    }

    /// In the order of [`Op::for_each_operand`].
    pub fn operands(&self) -> impl Iterator<Item = Value> + '_ {
        let joined: &[(Value, u32)] = if let Op::Join(parts) = self { parts } else { &[] };
        let (list, rest): (&[Value], [Option<Value>; 2]) = match self {
            Op::Join(_) => (&[], [None, None]),
            Op::Int(_)
            | Op::Str(_)
            | Op::Builtin(_)
            | Op::UserStack(_)
            | Op::KernelStack(_)
            | Op::StackLength(_)
            | Op::TextBegins { .. }
            | Op::MayLoop
            | Op::CallProgram => (&[], [None, None]),
            Op::Bin(_, a, b)
            | Op::Cmp(_, a, b)
            | Op::StrEq { a, b, .. }
            | Op::StrFind { text: a, part: b }
            | Op::StrCat { a, b }
            | Op::MemCmp { a, b, .. } => (&[], [Some(*a), Some(*b)]),
            Op::ReadInt { address: value, .. }
            | Op::ReadStrings { address: value, .. }
            | Op::MapNext { cursor: value, .. }
            | Op::Part { of: value, .. }
            | Op::StrLen(value)
            | Op::Match { text: value, .. }
            | Op::UserSymbol { address: value }
            | Op::KernelSymbol { address: value }
            | Op::SetSessionCookie { value }
            | Op::Signal { number: value, .. } => (&[], [Some(*value), None]),
            Op::ReadStr { address, limit } | Op::ReadBytes { address, limit, .. } => {
                (&[], [Some(*address), *limit])
            }
            Op::MapGet { key, .. } | Op::MapHas { key, .. } | Op::MapDelete { key, .. } => {
                (key, [None, None])
            }
            Op::MapSet { key, value, .. } | Op::MapAdd { key, delta: value, .. } => {
                (key, [Some(*value), None])
            }
            Op::Aggregate { key, value, .. } => (key, [*value, None]),
            Op::Emit { args, .. } => (args, [None, None]),
            Op::Record { args, marked, .. } => (args, [*marked, None]),
        };
        list.iter().copied().chain(rest.into_iter().flatten()).chain(joined.iter().map(|(value, _)| *value))
    }

    /// Calls `see` with each operand, in order; it may change them.
    pub fn for_each_operand(&mut self, mut see: impl FnMut(&mut Value)) {
        match self {
            Op::Int(_)
            | Op::Str(_)
            | Op::Builtin(_)
            | Op::UserStack(_)
            | Op::KernelStack(_)
            | Op::StackLength(_)
            | Op::TextBegins { .. }
            | Op::MayLoop
            | Op::CallProgram => {}
            Op::Bin(_, a, b)
            | Op::Cmp(_, a, b)
            | Op::StrEq { a, b, .. }
            | Op::StrFind { text: a, part: b }
            | Op::StrCat { a, b }
            | Op::MemCmp { a, b, .. } => {
                see(a);
                see(b);
            }
            Op::ReadInt { address: value, .. }
            | Op::ReadStrings { address: value, .. }
            | Op::MapNext { cursor: value, .. }
            | Op::Part { of: value, .. }
            | Op::StrLen(value)
            | Op::Match { text: value, .. }
            | Op::UserSymbol { address: value }
            | Op::KernelSymbol { address: value }
            | Op::SetSessionCookie { value }
            | Op::Signal { number: value, .. } => see(value),
            Op::ReadStr { address, limit } | Op::ReadBytes { address, limit, .. } => {
                see(address);
                limit.iter_mut().for_each(see);
            }
            Op::MapGet { key, .. } | Op::MapHas { key, .. } | Op::MapDelete { key, .. } => {
                key.iter_mut().for_each(see);
            }
            Op::MapSet { key, value, .. } | Op::MapAdd { key, delta: value, .. } => {
                key.iter_mut().for_each(&mut see);
                see(value);
            }
            Op::Aggregate { key, value, .. } => {
                key.iter_mut().for_each(&mut see);
                value.iter_mut().for_each(see);
            }
            Op::Emit { args, .. } => args.iter_mut().for_each(see),
            Op::Record { args, marked, .. } => args.iter_mut().chain(marked).for_each(see),
            Op::Join(parts) => parts.iter_mut().for_each(|(value, _)| see(value)),
        }
    }
}

impl Terminator {
    /// In the order of [`Terminator::for_each_operand`].
    pub fn operands(&self) -> impl Iterator<Item = Value> + '_ {
        let (condition, args, others): (_, &[Value], &[Value]) = match self {
            Terminator::Jump { args, .. } => (None, args, &[]),
            Terminator::Branch { condition, then_args, otherwise_args, .. } => {
                (Some(*condition), then_args, otherwise_args)
            }
            Terminator::Return | Terminator::Accept => (None, &[], &[]),
        };
        condition.into_iter().chain(args.iter().chain(others).copied())
    }

    /// Calls `see` with the condition and each argument; it may change them.
    pub fn for_each_operand(&mut self, mut see: impl FnMut(&mut Value)) {
        match self {
            Terminator::Jump { args, .. } => args.iter_mut().for_each(see),
            Terminator::Branch { condition, then_args, otherwise_args, .. } => {
                see(condition);
                then_args.iter_mut().for_each(&mut see);
                otherwise_args.iter_mut().for_each(see);
            }
            Terminator::Return | Terminator::Accept => {}
        }
    }

    /// The blocks it may go to, with the arguments it gives them.
    pub fn successors(&self) -> impl Iterator<Item = (BlockId, &[Value])> {
        let both = match self {
            Terminator::Jump { to, args } => [Some((*to, &args[..])), None],
            Terminator::Branch { then, then_args, otherwise, otherwise_args, .. } => {
                [Some((*then, &then_args[..])), Some((*otherwise, &otherwise_args[..]))]
            }
            Terminator::Return | Terminator::Accept => [None, None],
        };
        both.into_iter().flatten()
    }
}

impl Function {
    /// The type of a value. Panics if the function has no such value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.types[value.0 as usize]
    }

    /// All that it does, block after block.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.blocks.iter().flat_map(|block| &block.insts).map(|inst| &inst.op)
    }

    /// It sends signals to the process in which it runs.
    pub fn sends_signals(&self) -> bool {
        self.ops().any(|op| matches!(op, Op::Signal { .. }))
    }
}

impl BinOp {
    /// Every operation with its name in the text form.
    #[rustfmt::skip]
    pub const NAMES: [(BinOp, &'static str); 13] = [
        (BinOp::Add, "add"), (BinOp::Sub, "sub"), (BinOp::Mul, "mul"), (BinOp::UDiv, "udiv"),
        (BinOp::SDiv, "sdiv"), (BinOp::UMod, "umod"), (BinOp::SMod, "smod"), (BinOp::And, "and"),
        (BinOp::Or, "or"), (BinOp::Xor, "xor"), (BinOp::Shl, "shl"), (BinOp::LShr, "lshr"), (BinOp::AShr, "ashr"),
    ];

    pub fn is_commutative(self) -> bool {
        matches!(self, BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor)
    }

    /// The result as eBPF defines it (RFC 9669, 4.1): division by zero gives 0, remainder by zero the dividend,
    /// and the one signed division that overflows wraps.
    pub fn apply(self, a: i64, b: i64) -> i64 {
        let (ua, ub) = (a as u64, b as u64);
        match self {
            BinOp::Add => a.wrapping_add(b),
            BinOp::Sub => a.wrapping_sub(b),
            BinOp::Mul => a.wrapping_mul(b),
            BinOp::UDiv => ua.checked_div(ub).unwrap_or(0) as i64,
            BinOp::SDiv => {
                if b == 0 {
                    0
                } else {
                    a.wrapping_div(b)
                }
            }
            BinOp::UMod => ua.checked_rem(ub).unwrap_or(ua) as i64,
            BinOp::SMod => {
                if b == 0 {
                    a
                } else {
                    a.wrapping_rem(b)
                }
            }
            BinOp::And => a & b,
            BinOp::Or => a | b,
            BinOp::Xor => a ^ b,
            BinOp::Shl => a.wrapping_shl(b as u32),
            BinOp::LShr => ua.wrapping_shr(b as u32) as i64,
            BinOp::AShr => a.wrapping_shr(b as u32),
        }
    }
}

impl CmpOp {
    /// Every comparison with its name in the text form.
    #[rustfmt::skip]
    pub const NAMES: [(CmpOp, &'static str); 10] = [
        (CmpOp::Eq, "eq"), (CmpOp::Ne, "ne"), (CmpOp::ULt, "ult"), (CmpOp::ULe, "ule"), (CmpOp::UGt, "ugt"),
        (CmpOp::UGe, "uge"), (CmpOp::SLt, "slt"), (CmpOp::SLe, "sle"), (CmpOp::SGt, "sgt"), (CmpOp::SGe, "sge"),
    ];

    pub fn apply(self, a: i64, b: i64) -> bool {
        let (ua, ub) = (a as u64, b as u64);
        match self {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::ULt => ua < ub,
            CmpOp::ULe => ua <= ub,
            CmpOp::UGt => ua > ub,
            CmpOp::UGe => ua >= ub,
            CmpOp::SLt => a < b,
            CmpOp::SLe => a <= b,
            CmpOp::SGt => a > b,
            CmpOp::SGe => a >= b,
        }
    }

    /// The comparison that holds exactly when this one does not.
    pub fn negated(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::ULt => CmpOp::UGe,
            CmpOp::UGe => CmpOp::ULt,
            CmpOp::ULe => CmpOp::UGt,
            CmpOp::UGt => CmpOp::ULe,
            CmpOp::SLt => CmpOp::SGe,
            CmpOp::SGe => CmpOp::SLt,
            CmpOp::SLe => CmpOp::SGt,
            CmpOp::SGt => CmpOp::SLe,
        }
    }

    /// The comparison with its operands exchanged.
    pub fn swapped(self) -> CmpOp {
        match self {
            CmpOp::Eq | CmpOp::Ne => self,
            CmpOp::ULt => CmpOp::UGt,
            CmpOp::UGt => CmpOp::ULt,
            CmpOp::ULe => CmpOp::UGe,
            CmpOp::UGe => CmpOp::ULe,
            CmpOp::SLt => CmpOp::SGt,
            CmpOp::SGt => CmpOp::SLt,
            CmpOp::SLe => CmpOp::SGe,
            CmpOp::SGe => CmpOp::SLe,
        }
    }
}

impl Builtin {
    /// Every builtin but `Arg`, `Register`, `Float`, `Slot` and `Field` with its name in the text form.
    #[rustfmt::skip]
    pub const NAMES: [(Builtin, &'static str); 21] = [
        (Builtin::Context, "context"), (Builtin::Task, "task"),
        (Builtin::IsReturn, "is_return"), (Builtin::SessionCookie, "session_cookie"), (Builtin::Pid, "pid"), (Builtin::Tid, "tid"), (Builtin::Cpu, "cpu"), (Builtin::Uid, "uid"), (Builtin::Gid, "gid"), (Builtin::Random, "random"), (Builtin::Cgroup, "cgroup"), (Builtin::Nsecs, "nsecs"),
        (Builtin::BootNsecs, "boot_nsecs"), (Builtin::TaiNsecs, "tai_nsecs"), (Builtin::Jiffies, "jiffies"), (Builtin::NumaNode, "numa_node"),
        (Builtin::Elapsed, "elapsed"), (Builtin::Command, "command"), (Builtin::Comm, "comm"), (Builtin::Probe, "probe"), (Builtin::Func, "func"),
    ];
}

/// The bytes of a text that [`Op::StrEq`] compares.
pub fn compared(text: &[u8], first: Option<u32>) -> &[u8] {
    &text[..first.map_or(text.len(), |first| text.len().min(first as usize))]
}

/// The types in a row that a value of type `ty` is made of, without tuples.
pub fn leaves(ty: &Type) -> Vec<&Type> {
    match ty {
        Type::Tuple(parts) => parts.iter().flat_map(leaves).collect(),
        Type::Record(parts) => parts.iter().flat_map(|(_, part)| leaves(part)).collect(),
        leaf => vec![leaf],
    }
}

/// True if a value of type `have` may stand where `want` is asked for: see the crate's header.
pub fn fits(want: &Type, have: &Type) -> bool {
    match (want, have) {
        (Type::Int { .. } | Type::Pointer(_) | Type::Word(_), Type::Int { .. }) => true,
        (Type::Str { bytes: want }, Type::Str { bytes: have }) => have <= want,
        (Type::Tuple(_) | Type::Record(_) | Type::Inet, Type::Object { bytes, .. }) => want.bytes() == *bytes,
        (Type::Buffer { bytes: want }, Type::Object { bytes: have, .. }) => have <= want,
        (Type::Object { ty: CTypes::VOID, bytes: want }, Type::Object { ty: CTypes::VOID, bytes: have }) => {
            have <= want
        }
        (want, have) => want == have && !matches!(want, Type::Tuple(_) | Type::Record(_)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [i64; 9] = [0, 1, -1, 2, 63, 64, i64::MAX, i64::MIN, 0x1234_5678_9abc];

    #[test]
    fn arithmetic_follows_ebpf_at_the_edges() {
        let check = |op: BinOp, a: i64, b: i64, want: i64| assert_eq!(op.apply(a, b), want, "{op:?} {a} {b}");
        check(BinOp::UDiv, 7, 0, 0);
        check(BinOp::SDiv, -7, 0, 0);
        check(BinOp::UMod, 7, 0, 7);
        check(BinOp::SMod, -7, 0, -7);
        check(BinOp::SDiv, i64::MIN, -1, i64::MIN);
        check(BinOp::SMod, i64::MIN, -1, 0);
        check(BinOp::SDiv, -7, 2, -3);
        check(BinOp::SMod, -7, 2, -1);
        check(BinOp::UDiv, -1, 2, i64::MAX);
        check(BinOp::Shl, 1, 65, 2);
        check(BinOp::LShr, -1, 63, 1);
        check(BinOp::AShr, i64::MIN, 127, -1);
    }

    #[test]
    fn negated_and_swapped_comparisons_mean_what_they_say() {
        for (op, _) in CmpOp::NAMES {
            for a in EDGES {
                for b in EDGES {
                    assert_eq!(op.apply(a, b), !op.negated().apply(a, b), "{op:?} {a} {b}");
                    assert_eq!(op.apply(a, b), op.swapped().apply(b, a), "{op:?} {a} {b}");
                }
            }
        }
    }
}
