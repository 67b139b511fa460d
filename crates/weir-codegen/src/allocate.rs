//! Virtual registers → real ones, and stack slots where those run out.
//!
//! In: a [`Code`]. Out: the same with no virtual register left; more stack objects, one for each spilled value.
//!
//! Linear scan. Blocks are in an order in which jumps go forward, so that a value is live at most from its first
//! write to its last read; a value that is live into a loop (inside one operation) is live to the loop's end.
//! Real registers that the code names itself (arguments, results) are taken from their write to their last read, and
//! a call takes r0 to r5: what lives across one gets r6 to r9. A value is offered the register it is moved from or
//! to first. Where none is free, the value that is wanted furthest away goes to the stack, and the scan starts
//! again with short-lived copies around each of its uses.

use weir_ebpf::insn::{alu, size};

use crate::lir::{Area, ByLabel, Inst, Object, ObjectId, Place, Reg, Src, Use};
use crate::lower::Code;

/// The order in which registers are offered: those that calls take first, r0 (results) last of them.
const OFFERED: [u8; 10] = [1, 2, 3, 4, 5, 0, 6, 7, 8, 9];
const REGISTERS: usize = 10;

/// Gives every virtual register of `code` a real one.
pub(crate) fn allocate(code: &mut Code) {
    remove_unused(code);
    // Registers from here on are copies around one instruction; those are never spilled, so that each round spills
    // some of the others and the rounds end.
    let spillable = code.virtuals;
    loop {
        let ranges = Ranges::of(code);
        match scan(&ranges, spillable) {
            Ok(assigned) => return rewrite(code, &assigned),
            Err(spilled) => spilled.into_iter().for_each(|register| spill(code, register)),
        }
    }
}

/// Removes computations whose result nothing reads.
fn remove_unused(code: &mut Code) {
    let mut reads = vec![0u32; code.virtuals as usize];
    for inst in &mut code.insts {
        for_each_read(inst, |register| reads[register as usize] += 1);
    }
    let is_unread = |inst: &Inst, reads: &[u32]| {
        let unread = |reg: Reg| matches!(reg, Reg::Virtual(register) if reads[register as usize] == 0);
        inst.only_writes().is_some_and(unread)
    };
    // Backwards, so that what only an unused computation reads goes with it.
    for inst in code.insts.iter_mut().rev() {
        if is_unread(inst, &reads) {
            for_each_read(inst, |register| reads[register as usize] -= 1);
        }
    }
    code.insts.retain(|inst| !is_unread(inst, &reads));
}

/// Virtual registers whose value the instruction needs for more than writing them again.
fn for_each_read(inst: &mut Inst, mut see: impl FnMut(u32)) {
    let updates = inst.only_writes().is_some();
    inst.for_each_reg(|reg, how| {
        if let Reg::Virtual(register) = *reg
            && (how == Use::Read || how == Use::Both && !updates)
        {
            see(register);
        }
    });
}

/// Positions: an instruction reads at twice its index, and writes one later. Both ends are included.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: usize,
    to: usize,
}

struct Ranges {
    /// By virtual register: where it is live.
    of_virtual: Vec<Option<Range>>,
    /// By virtual register: how often it is named.
    named: Vec<u32>,
    /// By real register: where the code itself uses it, in order.
    of_real: [Vec<Range>; REGISTERS],
    /// By virtual register: registers it is moved from or to.
    wishes: Vec<Vec<Reg>>,
}

impl Ranges {
    fn of(code: &mut Code) -> Ranges {
        let count = code.virtuals as usize;
        let mut ranges = Ranges {
            of_virtual: vec![None; count],
            named: vec![0; count],
            of_real: Default::default(),
            wishes: vec![Vec::new(); count],
        };
        // Each call writes r0 to r5.
        let calls = code.insts.iter().filter(|inst| inst.is_call()).count();
        ranges.of_real[..6].iter_mut().for_each(|ranges| ranges.reserve(calls));
        for (index, inst) in code.insts.iter_mut().enumerate() {
            inst.for_each_reg(|reg, how| match *reg {
                Reg::Virtual(register) => ranges.see_virtual(register as usize, index, how),
                Reg::Real(register) if (register as usize) < REGISTERS => {
                    ranges.see_real(register as usize, index, how);
                }
                Reg::Real(_) => {}
            });
            if let Inst::Mov { dst, src: Src::Reg(src) } = *inst {
                ranges.wish(dst, src);
                ranges.wish(src, dst);
            }
        }
        ranges.extend_over_loops(&code.insts, code.labels);
        ranges
    }

    fn see_virtual(&mut self, register: usize, index: usize, how: Use) {
        let at = if how == Use::Write { 2 * index + 1 } else { 2 * index };
        let end = if how == Use::Read { 2 * index } else { 2 * index + 1 };
        self.named[register] += 1;
        let range = self.of_virtual[register].get_or_insert(Range { from: at, to: end });
        range.to = range.to.max(end);
    }

    fn see_real(&mut self, register: usize, index: usize, how: Use) {
        let ranges = &mut self.of_real[register];
        if how != Use::Write {
            match ranges.last_mut() {
                Some(last) => last.to = 2 * index,
                // Set before the program began: the context in r1.
                None => ranges.push(Range { from: 0, to: 2 * index }),
            }
        }
        if how != Use::Read {
            ranges.push(Range { from: 2 * index + 1, to: 2 * index + 1 });
        }
    }

    fn wish(&mut self, register: Reg, wished: Reg) {
        if let Reg::Virtual(register) = register {
            self.wishes[register as usize].push(wished);
        }
    }

    fn extend_over_loops(&mut self, insts: &[Inst], labels: u32) {
        let mut labels: ByLabel<usize> = ByLabel::new(labels);
        for (index, inst) in insts.iter().enumerate() {
            if let Inst::Label(label) = inst {
                labels.set(*label, index);
            }
            let Some(head) = inst.target().and_then(|target| labels.get(target)) else { continue };
            let (head, end) = (2 * head, 2 * index + 1);
            for range in self.of_virtual.iter_mut().flatten() {
                if range.from < head && range.to >= head {
                    range.to = range.to.max(end);
                }
            }
            for ranges in &mut self.of_real {
                if ranges.iter().any(|range| range.from < head && range.to >= head) {
                    ranges.push(Range { from: head, to: end });
                    ranges.sort_unstable_by_key(|range| range.from);
                }
            }
        }
    }
}

/// The register of each virtual one, or which to spill.
fn scan(ranges: &Ranges, spillable: u32) -> Result<Vec<Option<u8>>, Vec<u32>> {
    let mut order: Vec<(Range, usize)> = ranges
        .of_virtual
        .iter()
        .enumerate()
        .filter_map(|(register, range)| Some(((*range)?, register)))
        .collect();
    order.sort_unstable_by_key(|(range, register)| (range.from, *register));
    let mut assigned: Vec<Option<u8>> = vec![None; ranges.of_virtual.len()];
    // By real register: who has it, until when.
    let mut holders: [Option<(usize, usize)>; REGISTERS] = [None; REGISTERS];
    let mut spilled = Vec::new();
    for (range, register) in order {
        let usable = |real: u8| !overlaps(&ranges.of_real[usize::from(real)], range);
        let free = |real: u8| holders[usize::from(real)].is_none_or(|(_, until)| until < range.from);
        let wished = ranges.wishes[register].iter().filter_map(|wish| match *wish {
            Reg::Real(real) => Some(real),
            Reg::Virtual(other) => assigned[other as usize],
        });
        let offered = wished.filter(|&real| usize::from(real) < REGISTERS).chain(OFFERED);
        if let Some(real) = { offered }.find(|&real| usable(real) && free(real)) {
            assigned[register] = Some(real);
            holders[usize::from(real)] = Some((register, range.to));
            continue;
        }
        let can_spill = |register: usize| (register as u32) < spillable;
        let victim = OFFERED
            .into_iter()
            .filter(|&real| usable(real))
            .filter_map(|real| holders[usize::from(real)].map(|(holder, until)| (real, holder, until)))
            .filter(|&(_, holder, _)| can_spill(holder))
            .max_by_key(|&(_, holder, until)| (until, std::cmp::Reverse(ranges.named[holder])));
        match victim {
            Some((real, holder, until)) if until > range.to || !can_spill(register) => {
                spilled.push(holder as u32);
                assigned[holder] = None;
                assigned[register] = Some(real);
                holders[usize::from(real)] = Some((register, range.to));
            }
            _ => {
                // A copy lives for one instruction, which names at most three registers of ten.
                assert!(can_spill(register), "there is a register for a copy of a spilled value");
                spilled.push(register as u32);
            }
        }
    }
    if spilled.is_empty() { Ok(assigned) } else { Err(spilled) }
}

fn overlaps(taken: &[Range], range: Range) -> bool {
    // Ranges of one register do not overlap but for those that loops added, so that both ends are looked at.
    taken.iter().any(|other| other.from <= range.to && range.from <= other.to)
}

/// Keeps a register on the stack, with a copy around each instruction that names it.
fn spill(code: &mut Code, register: u32) {
    code.objects.push(Object { bytes: 8, area: Area::Stack });
    let slot = Place::Object(ObjectId(code.objects.len() as u32 - 1), 0);
    let spilled = Reg::Virtual(register);
    let mut insts = Vec::with_capacity(code.insts.len() + 8);
    for mut inst in std::mem::take(&mut code.insts) {
        match inst {
            Inst::Mov { dst, src: Src::Reg(src) } if src == spilled => {
                insts.push(Inst::Load { dst, from: slot });
                continue;
            }
            Inst::Mov { dst, src } if dst == spilled => {
                insts.push(Inst::Store { size: size::DW, to: slot, src });
                continue;
            }
            _ => {}
        }
        let copy = Reg::Virtual(code.virtuals);
        let (mut reads, mut writes) = (false, false);
        inst.for_each_reg(|reg, how| {
            if *reg == spilled {
                *reg = copy;
                reads |= how != Use::Write;
                writes |= how != Use::Read;
            }
        });
        code.virtuals += u32::from(reads || writes);
        if reads {
            insts.push(Inst::Load { dst: copy, from: slot });
        }
        insts.push(inst);
        if writes {
            insts.push(Inst::Store { size: size::DW, to: slot, src: Src::Reg(copy) });
        }
    }
    code.insts = insts;
}

fn rewrite(code: &mut Code, assigned: &[Option<u8>]) {
    for inst in &mut code.insts {
        inst.for_each_reg(|reg, _| {
            if let Reg::Virtual(register) = *reg {
                // SANITY: every register that is named has a range, and every range was given a register.
                *reg = Reg::Real(assigned[register as usize].expect("a named register is assigned"));
            }
        });
    }
    code.insts.retain(|inst| !moves_nothing(inst));
}

fn moves_nothing(inst: &Inst) -> bool {
    match *inst {
        Inst::Mov { dst, src: Src::Reg(src) } => dst == src,
        Inst::Alu { op: alu::ADD, src: Src::Imm(0), .. } => true,
        _ => false,
    }
}
