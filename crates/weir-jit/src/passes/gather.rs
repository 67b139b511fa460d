//! Loads of single bytes that are put together become one load: half of what the kernel's code of packet programs
//! does more than a compiler's is such chains, since clang reads packed fields byte by byte.
//!
//! Followed through each stretch: which bytes of memory stand where in each register, as loads, shifts by whole
//! bytes, masks, swaps and unions place them. Where a register comes to hold 2, 4 or 8 neighbours in ascending order
//! and nothing else, the operation that completed it becomes a load; in descending order, a swapped load. The byte loads
//! become dead, and dead-code elimination removes them.
//!
//! Where the address is gone by then (`r1 = *(u8 *)(r1 + 0)`), the last load becomes the wide one, if what is between
//! serves the chain alone.
//!
//! The new load stands behind the old ones, so it sees the same bytes only if nothing may have stored to them
//! between: stores to the own stack and to everything else are counted apart, and whatever calls or is atomic counts
//! as both. All bytes were loaded on the way here, so the verifier's proof covers each. A load that acquires keeps
//! its place and its order: what was loaded before it may as well be loaded later.
//!
//! Not here: stores, chains that cross a jump.

use crate::front::fused::Fused;
use crate::front::lir::{AluOp, At, Base, Bytes, Extend, Op, Operand, REGISTERS, Reg, Size};
use crate::limits::LOOK_AHEAD_SLOTS;

/// True if there were any.
pub(crate) fn gather(ops: &mut [Op], leaders: &[bool]) -> bool {
    if !ops.iter().any(|op| completes(op).is_some()) {
        return false;
    }
    let mut found = false;
    let mut state = State::default();
    for index in 0..ops.len() {
        if leaders[index] {
            state.forget();
        }
        state.step(&ops[index], index);
        let Some(dst) = completes(&ops[index]) else { continue };
        let Some(parts) = state.parts[usize::from(dst)].filter(|parts| parts.loads > 1) else { continue };
        let last = if let Some(load) = state.load(dst, parts) {
            ops[index] = load;
            index
        } else if let Some(load) = load_at_last(ops, index, dst, parts) {
            drop_chain(&mut ops[parts.last + 1..=index], dst);
            ops[parts.last] = load;
            parts.last
        } else {
            continue;
        };
        found = true;
        if let Some(at) = ops[last].at() {
            let (_, lowest, _) = parts.neighbours().unwrap_or((Size::B, at.offset, false));
            state.parts[usize::from(dst)] = Some(Parts { loads: 1, last, last_offset: lowest, ..parts });
        }
    }
    found
}

/// The register that an operation may have put the last byte into.
fn completes(op: &Op) -> Option<Reg> {
    match *op {
        Op::Alu { op: AluOp::Or | AluOp::Add | AluOp::Xor, dst, src: Operand::Reg(_), .. }
        | Op::Bytes { op: Bytes::Swap, dst, .. } => Some(dst),
        _ => None,
    }
}

/// The load in place of the last of the bytes', whose base is gone by now: it was loaded over, or moved. Its register
/// must be the result's, and until then be used for nothing else.
fn load_at_last(ops: &[Op], index: usize, dst: Reg, parts: Parts) -> Option<Op> {
    let Op::Load { dst: loaded, at, lanes: None, .. } = ops[parts.last] else { return None };
    let is_near = index - parts.last <= LOOK_AHEAD_SLOTS;
    if loaded != dst
        || !is_near
        || ops[parts.last + 1..=index].iter().any(|op| uses(op, dst) && !is_link(op, dst))
    {
        return None;
    }
    let (size, lowest, swapped) = parts.neighbours()?;
    let offset = at.offset.checked_add(lowest.checked_sub(parts.last_offset)?)?;
    Some(load(dst, size, swapped, At { offset, ..at }))
}

fn uses(op: &Op, reg: Reg) -> bool {
    (op.reads() | op.effect().writes) >> reg & 1 != 0
}

/// Changes the register alone, by nothing that it made itself.
fn is_link(op: &Op, reg: Reg) -> bool {
    matches!(*op, Op::Alu { dst, src, .. } if dst == reg && src != Operand::Reg(reg))
        || matches!(*op, Op::Bytes { dst, .. } if dst == reg)
}

fn drop_chain(ops: &mut [Op], dst: Reg) {
    for op in ops.iter_mut().filter(|op| is_link(op, dst)) {
        *op = Op::Nothing;
    }
}

fn load(dst: Reg, size: Size, swapped: bool, at: At) -> Op {
    if swapped {
        Op::Fused(Fused::LoadSwapped { dst, size, at })
    } else {
        Op::Load { dst, size, signed: false, at, lanes: None }
    }
}

/// An address that does not change meanwhile, and a distance from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Root {
    id: u32,
    offset: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Root { id: u32, may_be_stack: bool },
    Stack,
    Context,
}

/// Bytes of memory in a register, lowest first; `None` is a zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Parts {
    origin: Origin,
    at: [Option<i32>; 8],
    /// Loads that they came by.
    loads: u8,
    /// Stores before, of those that matter.
    stores: u32,
    /// Slot of the latest of the loads, and the address that it has in `at`.
    last: usize,
    last_offset: i32,
}

#[derive(Debug, Default)]
struct State {
    roots: [Root; REGISTERS],
    parts: [Option<Parts>; REGISTERS],
    last_id: u32,
    stack_stores: u32,
    other_stores: u32,
}

impl State {
    fn forget(&mut self) {
        for reg in 0..REGISTERS as Reg {
            self.set(reg, None);
        }
    }

    fn step(&mut self, op: &Op, index: usize) {
        self.count_stores(op);
        let parts_of = |state: &State, reg: Reg| state.parts[usize::from(reg)];
        match *op {
            Op::Load { dst, size, signed: false, at, lanes: None } => {
                let parts = self.loaded(at, size, index);
                self.set(dst, parts);
            }
            Op::Mov { dst, src, extend: Extend::None } => {
                self.parts[usize::from(dst)] = parts_of(self, src);
                self.roots[usize::from(dst)] = self.roots[usize::from(src)];
            }
            Op::Mov { dst, src, extend: Extend::Zero32 } => {
                self.set(dst, parts_of(self, src).map(|parts| parts.cut(4)));
            }
            Op::Bytes { op, bits, dst } => {
                self.set(dst, parts_of(self, dst).map(|parts| parts.reordered(op, usize::from(bits / 8))));
            }
            Op::Alu { op: op @ (AluOp::Add | AluOp::Sub), wide: true, dst, src: Operand::Imm(by) } => {
                self.shift_root(dst, if op == AluOp::Add { Some(by) } else { by.checked_neg() });
            }
            Op::Alu { op, wide, dst, src } => {
                let left = parts_of(self, dst);
                let parts = match src {
                    Operand::Imm(imm) => left.and_then(|left| left.with_imm(op, wide, imm)),
                    Operand::Reg(src) => left.zip(parts_of(self, src)).and_then(|(left, right)| match op {
                        AluOp::Or | AluOp::Add | AluOp::Xor => left.union(right),
                        _ => None,
                    }),
                    Operand::FramePointer => None,
                };
                self.set(dst, parts.map(|parts| if wide { parts } else { parts.cut(4) }));
            }
            _ => {
                let writes = op.effect().writes;
                for reg in (0..REGISTERS as Reg).filter(|reg| writes >> reg & 1 != 0) {
                    self.set(reg, None);
                }
            }
        }
    }

    fn count_stores(&mut self, op: &Op) {
        let (stack, other) = match *op {
            Op::Store { at, .. } | Op::Fused(Fused::Update { at, .. }) => {
                (at.base == Base::Stack || at.base.may_be_stack(), at.base != Base::Stack)
            }
            Op::Atomic { .. }
            | Op::Helper { .. }
            | Op::Declared { .. }
            | Op::LocalCall { .. }
            | Op::Loop { .. } => (true, true),
            Op::Reserve { .. } | Op::Output { .. } | Op::Finish { .. } => (false, true),
            _ => (false, false),
        };
        self.stack_stores += u32::from(stack);
        self.other_stores += u32::from(other);
    }

    /// Stores so far that may have changed what is loaded from there.
    fn stores(&self, origin: Origin) -> u32 {
        match origin {
            Origin::Stack => self.stack_stores,
            Origin::Context | Origin::Root { may_be_stack: false, .. } => self.other_stores,
            Origin::Root { may_be_stack: true, .. } => self.stack_stores + self.other_stores,
        }
    }

    /// A new value.
    fn set(&mut self, reg: Reg, parts: Option<Parts>) {
        self.last_id += 1;
        self.roots[usize::from(reg)] = Root { id: self.last_id, offset: 0 };
        self.parts[usize::from(reg)] = parts;
    }

    fn shift_root(&mut self, reg: Reg, by: Option<i32>) {
        let root = self.roots[usize::from(reg)];
        match by.and_then(|by| root.offset.checked_add(by)) {
            Some(offset) => {
                self.roots[usize::from(reg)].offset = offset;
                self.parts[usize::from(reg)] = None;
            }
            None => self.set(reg, None),
        }
    }

    fn loaded(&self, at: At, size: Size, index: usize) -> Option<Parts> {
        let (origin, offset) = match at.base {
            Base::Reg { reg, may_be_stack } => {
                let root = self.roots[usize::from(reg)];
                (Origin::Root { id: root.id, may_be_stack }, root.offset.checked_add(at.offset)?)
            }
            Base::Stack => (Origin::Stack, at.offset),
            Base::Context => (Origin::Context, at.offset),
            Base::Indexed { .. } => return None,
        };
        let (mut bytes, last_offset) = ([None; 8], offset);
        for (byte, offset) in bytes.iter_mut().zip(offset..offset.checked_add(size.bytes())?) {
            *byte = Some(offset);
        }
        let stores = self.stores(origin);
        Some(Parts { origin, at: bytes, loads: 1, stores, last: index, last_offset })
    }

    /// The load that gives what `dst` holds, if the memory is what it was and its address still there.
    fn load(&self, dst: Reg, parts: Parts) -> Option<Op> {
        if parts.stores != self.stores(parts.origin) {
            return None;
        }
        let (size, lowest, swapped) = parts.neighbours()?;
        Some(load(dst, size, swapped, self.place(parts.origin, lowest)?))
    }

    fn place(&self, origin: Origin, offset: i32) -> Option<At> {
        let (id, may_be_stack) = match origin {
            Origin::Stack => return Some(At { base: Base::Stack, offset }),
            Origin::Context => return Some(At { base: Base::Context, offset }),
            Origin::Root { id, may_be_stack } => (id, may_be_stack),
        };
        let reg = self.roots.iter().position(|root| root.id == id)?;
        let offset = offset.checked_sub(self.roots[reg].offset)?;
        Some(At { base: Base::Reg { reg: reg as Reg, may_be_stack }, offset })
    }
}

impl Parts {
    fn with_imm(self, op: AluOp, wide: bool, imm: i32) -> Option<Parts> {
        let width = if wide { 8 } else { 4 };
        let mut at = [None; 8];
        match op {
            AluOp::Lsh | AluOp::Rsh if imm % 8 == 0 && (0..8 * width as i32).contains(&imm) => {
                let by = imm as usize / 8;
                for byte in by..width {
                    let (from, to) = if op == AluOp::Lsh { (byte - by, byte) } else { (byte, byte - by) };
                    at[to] = self.at[from];
                }
            }
            AluOp::And => {
                for (byte, mask) in i64::from(imm).to_le_bytes().into_iter().enumerate() {
                    at[byte] = match mask {
                        0xff => self.at[byte],
                        0 => None,
                        _ => return None,
                    };
                }
            }
            _ => return None,
        }
        Some(Parts { at, ..self })
    }

    fn union(self, other: Parts) -> Option<Parts> {
        let mut at = self.at;
        for (byte, other) in at.iter_mut().zip(other.at) {
            match (*byte, other) {
                (Some(_), Some(_)) => return None,
                (None, other) => *byte = other,
                (Some(_), None) => {}
            }
        }
        let same = self.origin == other.origin && self.stores == other.stores;
        let latest = if self.last > other.last { self } else { other };
        same.then_some(Parts { at, loads: self.loads.saturating_add(other.loads), ..latest })
    }

    /// The lowest bytes alone.
    fn cut(mut self, bytes: usize) -> Parts {
        self.at[bytes..].fill(None);
        self
    }

    fn reordered(self, op: Bytes, bytes: usize) -> Parts {
        let mut cut = self.cut(bytes);
        if op == Bytes::Swap {
            cut.at[..bytes].reverse();
        }
        cut
    }

    /// Size, lowest address and whether that is the highest byte, if nothing else is in the register.
    fn neighbours(self) -> Option<(Size, i32, bool)> {
        let count = self.at.iter().take_while(|byte| byte.is_some()).count();
        let size = match count {
            2 => Size::H,
            4 => Size::W,
            8 => Size::Dw,
            _ => return None,
        };
        if self.at[count..].iter().any(Option::is_some) {
            return None;
        }
        let (first, last) = (self.at[0]?, self.at[count - 1]?);
        let is_run = |from: i32, step: i32| {
            (0..count as i32).zip(self.at).all(|(n, byte)| byte == from.checked_add(n * step))
        };
        if is_run(first, 1) {
            Some((size, first, false))
        } else if is_run(first, -1) {
            Some((size, last, true))
        } else {
            None
        }
    }
}
