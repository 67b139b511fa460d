//! Places on the stack become registers, where machine registers are left.
//!
//! clang has ten registers and keeps on the stack what does not fit; x86 has more. A place that is loaded and stored
//! in one way (4 or 8 bytes, always from the same first byte) and that nothing else can reach is a register by another
//! name: loads and stores become moves, which [`crate::passes::absorb`] puts into their uses.
//!
//! Registers, of which each function takes those that are free in it:
//! - r9 and r10, where nothing is called and no operation needs them as scratch;
//! - r12, where no state of the run is in it (rounds of `may_goto`, a claimed lane); the function saves it, as it does
//!   rbx.
//!
//! rbp stays untouched: profilers that unwind by frame pointers may interrupt a program at any instruction.
//!
//! A place is reached by nothing else if it lies below every byte of the stack whose address is taken or which
//! anything but a plain load or store may touch, and no access goes through a pointer that could be to the stack. (An
//! address that was taken leads upward alone; where one was moved by what is not known, all of the stack is touched.)
//! Places in loops go first: each loop around an access counts 8 times.
//!
//! Not here: places of 1 or 2 bytes, the stacks of functions that pass their address on.

use crate::front::fused::Fused;
use crate::front::lir::{AluOp, Base, Extend, IN_R9, IN_R10, IN_R12, Op, Operand, Reg, Size};
use crate::limits::STACK_BYTES_MAX;

/// `starts`: of functions, ascending. `holds_run`: the run holds its lane in r12, or its rounds. True if some place became a register.
pub(crate) fn promote(ops: &mut [Op], starts: &[usize], bmi2: bool, holds_run: bool) -> bool {
    let mut found = false;
    let has_state = holds_run || ops.iter().any(|op| matches!(op, Op::MayGoto { .. }));
    for (number, &start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(ops.len());
        let free = free_registers(&ops[start..end], bmi2, has_state);
        if free.is_empty() {
            continue;
        }
        let weights = weights(&ops[start..end], start);
        let Some(mut places) = places(&ops[start..end], &weights) else { continue };
        places.sort_by_key(|place| (std::cmp::Reverse(place.weight), place.offset));
        for (place, reg) in places.into_iter().zip(free) {
            // Saving and restoring is a store and a load.
            if reg != IN_R12 || place.weight > 2 {
                ops[start..end].iter_mut().for_each(|op| rename(op, place, reg));
                found = true;
            }
        }
    }
    found
}

/// A place that can be a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    offset: i32,
    /// Of every store; loads may take the lower half.
    size: Size,
    weight: u32,
}

/// Those that cost nothing first.
fn free_registers(ops: &[Op], bmi2: bool, has_state: bool) -> Vec<Reg> {
    let mut free = Vec::new();
    if ops.iter().all(|op| needs_no_scratch(op, bmi2)) {
        free.extend([IN_R9, IN_R10]);
    }
    if !has_state {
        free.push(IN_R12);
    }
    free
}

/// Whether r9 and r10 keep their values. What is not listed may use them.
fn needs_no_scratch(op: &Op, bmi2: bool) -> bool {
    let alu = |op: AluOp, right: Operand| match op {
        AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod => false,
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => bmi2 || matches!(right, Operand::Imm(_)),
        _ => true,
    };
    match *op {
        Op::Alu { op, src, .. } => alu(op, src),
        Op::Fused(Fused::Alu { op, right, .. }) => alu(op, right),
        Op::Branch { left, .. } | Op::Fused(Fused::Select { left, .. } | Fused::SetIf { left, .. }) => {
            matches!(left, Operand::Reg(_))
        }
        Op::Load { lanes, .. } | Op::Store { lanes, .. } => lanes.is_none(),
        Op::Fused(
            Fused::Rotate { .. }
            | Fused::HighestBit { .. }
            | Fused::LoadSwapped { .. }
            | Fused::Update { .. },
        ) => true,
        Op::Nothing | Op::Const { .. } | Op::Address { .. } | Op::Symbol { .. } | Op::Mov { .. } => true,
        Op::Neg { .. } | Op::Bytes { .. } | Op::Jump { .. } | Op::Exit => true,
        _ => false,
    }
}

/// Most loops around an operation that count.
const DEPTH_MAX: i32 = 4;

/// How much each operation counts: 8 to the number of jumps back over it.
fn weights(ops: &[Op], start: usize) -> Vec<u32> {
    let mut changes = vec![0i32; ops.len() + 1];
    for (index, op) in ops.iter().enumerate() {
        if let Op::Jump { target } | Op::Branch { target, .. } | Op::MayGoto { target } = *op
            && let Some(target) = target.checked_sub(start).filter(|&target| target <= index)
        {
            changes[target] += 1;
            changes[index + 1] -= 1;
        }
    }
    let mut depth = 0;
    let mut weight = |change: &i32| {
        depth += change;
        1 << (3 * depth.min(DEPTH_MAX))
    };
    changes.iter().take(ops.len()).map(&mut weight).collect()
}

/// The places that only plain loads and stores reach; none if that cannot be told of any.
fn places(ops: &[Op], weights: &[u32]) -> Option<Vec<Place>> {
    if !ops.iter().any(is_plain) {
        return None;
    }
    let lowest_taken = lowest_taken(ops)?;
    let mut cells = Cells::default();
    for (op, &weight) in ops.iter().zip(weights) {
        match *op {
            Op::Load { size, signed, at, lanes: None, .. } if at.base == Base::Stack => {
                cells.access(at.offset, size, weight, |cell| {
                    cell.is_good &= matches!((size, signed), (Size::W, _) | (Size::Dw, false));
                    cell.is_loaded_wide |= size == Size::Dw;
                });
            }
            Op::Store { size, at, lanes: None, .. } if at.base == Base::Stack => {
                cells.access(at.offset, size, weight, |cell| {
                    cell.is_good &= matches!(size, Size::W | Size::Dw);
                    cell.is_good &= cell.stored.is_none_or(|stored| stored == size);
                    cell.stored = Some(size);
                });
            }
            _ => {}
        }
    }
    Some(cells.places(lowest_taken))
}

/// A load or store of the stack.
fn is_plain(op: &Op) -> bool {
    match *op {
        Op::Load { at, lanes: None, .. } | Op::Store { at, lanes: None, .. } => at.base == Base::Stack,
        _ => false,
    }
}

/// The lowest byte that anything but a plain load or store of the stack may touch.
fn lowest_taken(ops: &[Op]) -> Option<i32> {
    let mut lowest = 0;
    for op in ops {
        if op.operands().contains(&Some(Operand::FramePointer)) {
            return None;
        }
        if let Op::Address { at, .. } = *op
            && at.base == Base::Stack
        {
            lowest = lowest.min(at.offset);
        }
        if !is_plain(op) {
            let effect = op.effect();
            let touched = effect.stack_reads.iter().chain(&effect.stack_writes);
            lowest = touched.fold(lowest, |lowest, range| lowest.min(range.from));
            if op.at().is_some_and(|at| at.base.may_be_stack()) {
                return None;
            }
        }
    }
    Some(lowest)
}

/// What is known of the places that begin at one byte.
#[derive(Clone, Copy, Debug)]
struct Cell {
    stored: Option<Size>,
    is_loaded_wide: bool,
    is_good: bool,
    weight: u32,
}

/// By first byte, and for each byte the place that it belongs to.
#[derive(Debug)]
struct Cells {
    cells: Vec<Cell>,
    owners: Vec<Option<usize>>,
}

impl Default for Cells {
    fn default() -> Cells {
        let cell = Cell { stored: None, is_loaded_wide: false, is_good: true, weight: 0 };
        Cells { cells: vec![cell; STACK_BYTES_MAX], owners: vec![None; STACK_BYTES_MAX] }
    }
}

impl Cells {
    fn access(&mut self, offset: i32, size: Size, weight: u32, note: impl FnOnce(&mut Cell)) {
        let index = |offset: i32| usize::try_from(offset + STACK_BYTES_MAX as i32).ok();
        let (Some(first), Some(end)) = (index(offset), index(offset + size.bytes())) else { return };
        if end > STACK_BYTES_MAX {
            return;
        }
        note(&mut self.cells[first]);
        self.cells[first].weight = self.cells[first].weight.saturating_add(weight);
        for byte in first..end {
            // A place that begins elsewhere shares this byte: neither can be a register.
            if let Some(owner) = self.owners[byte].replace(first)
                && owner != first
            {
                self.cells[owner].is_good = false;
                self.cells[first].is_good = false;
            }
        }
    }

    fn places(&self, lowest_taken: i32) -> Vec<Place> {
        let place = |(index, cell): (usize, &Cell)| {
            let offset = index as i32 - STACK_BYTES_MAX as i32;
            let size = cell.stored.filter(|_| cell.is_good)?;
            let is_covered = size == Size::Dw || !cell.is_loaded_wide;
            let is_below = offset + size.bytes() <= lowest_taken;
            (is_covered && is_below).then_some(Place { offset, size, weight: cell.weight })
        };
        self.cells.iter().enumerate().filter_map(place).collect()
    }
}

/// The register holds zero-extended what a place of 4 bytes held.
fn rename(op: &mut Op, place: Place, reg: Reg) {
    let is_here = |base: Base, offset: i32| base == Base::Stack && offset == place.offset;
    match *op {
        Op::Load { dst, size, signed, at, lanes: None } if is_here(at.base, at.offset) => {
            let extend = match (size, signed) {
                (Size::W, true) => Extend::Sign { bits: 32, wide: true },
                (Size::W, false) if place.size == Size::Dw => Extend::Zero32,
                _ => Extend::None,
            };
            *op = Op::Mov { dst, src: reg, extend };
        }
        Op::Store { size, at, src, lanes: None } if is_here(at.base, at.offset) => {
            *op = match src {
                Operand::Reg(src) if size == Size::W => Op::Mov { dst: reg, src, extend: Extend::Zero32 },
                Operand::Reg(src) => Op::Mov { dst: reg, src, extend: Extend::None },
                Operand::Imm(imm) if size == Size::W => Op::Const { dst: reg, value: u64::from(imm as u32) },
                Operand::Imm(imm) => Op::Const { dst: reg, value: i64::from(imm) as u64 },
                Operand::FramePointer => unreachable!("`lowest_taken` refused the function"),
            };
        }
        _ => {}
    }
}
