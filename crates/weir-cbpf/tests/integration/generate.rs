//! Random programs and packets. Seeds are fixed: each run draws the same.

use weir_cbpf::insn::{alu, class, jmp, mode};
use weir_cbpf::{Ancillary, Insn, ancillary, opcode};

/// A sequence of numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(testkit::random::state(seed))
    }

    pub(crate) fn next(&mut self) -> u32 {
        (testkit::random::next(&mut self.0) >> 32) as u32
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }

    fn word(&mut self) -> u32 {
        match self.below(8) {
            0 => self.next(),
            1 => u32::MAX - self.below(20),
            2 => 0x7fff_fffe + self.below(4),
            3 => self.below(100),
            _ => self.below(24),
        }
    }
}

/// Bytes of which many are small, so that they are offsets in the packet too.
pub(crate) fn packet(random: &mut Random, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|_| if random.one_in(2) { random.next() as u8 } else { random.below(9) as u8 }).collect()
}

/// What programs are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Anything that is accepted and ends.
    Any,
    /// The same, with ancillary loads that eBPF has equivalents for.
    Facts,
    /// What Linux accepts, and runs as libpcap does: no shift by 32 or more, no far offsets, M[] stored before it is loaded.
    Both,
}

/// A program that ends, with all kinds of instructions.
pub(crate) fn program(random: &mut Random, style: Style) -> Vec<Insn> {
    let mut insns = Vec::new();
    if style == Style::Both {
        insns.extend((0..4).map(|slot| Insn::plain(class::ST, slot)));
    }
    let count = insns.len() + 2 + random.below(24) as usize;
    while insns.len() < count - 1 {
        let left = (count - insns.len()) as u32;
        insn(random, style, left, &mut insns);
    }
    insns.truncate(count - 1);
    insns.push(if random.one_in(4) { Insn::ret(random.word()) } else { Insn::ret_a() });
    if style == Style::Both {
        land_before_small_x(&mut insns);
    }
    insns
}

/// Jumps to what needs a small X go to the two instructions before it, which make it small.
fn land_before_small_x(insns: &mut [Insn]) {
    let needs: Vec<bool> = insns.iter().map(|insn| needs_small_x(*insn)).collect();
    let earlier = |at: usize, skipped: u32| {
        let target = at + 1 + skipped as usize;
        match (needs.get(target), needs.get(target + 1)) {
            (Some(true), _) => skipped - 2,
            (_, Some(true)) => skipped - 1,
            _ => skipped,
        }
    };
    for (at, insn) in insns.iter_mut().enumerate().filter(|(_, insn)| insn.class() == class::JMP) {
        if insn.operation() == jmp::JA {
            insn.k = earlier(at, insn.k);
        } else {
            [insn.jt, insn.jf] = [insn.jt, insn.jf].map(|skipped| earlier(at, skipped.into()) as u8);
        }
    }
}

/// An X that is large has another meaning in the kernel.
fn needs_small_x(insn: Insn) -> bool {
    match insn.class() {
        class::LD => insn.mode() == mode::IND,
        class::ALU => matches!(insn.operation(), alu::LSH | alu::RSH) && insn.uses_x(),
        _ => false,
    }
}

/// Appends an instruction after which `left` - 1 come; for [`Style::Both`], those first that make it mean the same.
fn insn(random: &mut Random, style: Style, left: u32, insns: &mut Vec<Insn>) {
    let row = opcode::ALL[random.below(opcode::ALL.len() as u32) as usize];
    let mut insn = Insn { code: row.code, jt: 0, jf: 0, k: random.word() };
    let is_packet_load = matches!(insn.class(), class::LD | class::LDX)
        && matches!(insn.mode(), mode::ABS | mode::IND | mode::MSH);
    let shifts = insn.class() == class::ALU && matches!(insn.operation(), alu::LSH | alu::RSH);
    let divides = insn.class() == class::ALU && matches!(insn.operation(), alu::DIV | alu::MOD);
    if insn.class() == class::RET && !random.one_in(4) {
        return;
    }
    if insn.class() == class::JMP {
        let reach = (left - 1).min(12);
        [insn.jt, insn.jf] = [0; 2].map(|_: u8| random.below(reach) as u8);
        if insn.operation() == jmp::JA {
            insn.k = random.below(reach);
        }
    } else if row.operand == opcode::Operand::Memory {
        insn.k = random.below(if style == Style::Both { 4 } else { 16 });
    } else if is_packet_load && (style == Style::Both || !random.one_in(20)) {
        insn.k = random.below(30);
    } else if shifts && (style == Style::Both || !random.one_in(4)) {
        insn.k %= 32;
    } else if divides {
        insn.k = insn.k.max(1);
    }
    if style == Style::Facts && insn.class() == class::LD && insn.mode() == mode::ABS && random.one_in(2) {
        insn.k = ancillary::BASE + fact(random);
    }
    if style == Style::Both && needs_small_x(insn) {
        if left <= 4 {
            return;
        }
        insns.extend([Insn::alu(alu::AND, 31), Insn::plain(class::MISC, 0)]);
    }
    insns.push(insn);
}

/// The offset of a fact that is the same in each run, and that the context has.
fn fact(random: &mut Random) -> u32 {
    const NOT_COMPARED: [Ancillary; 6] = [
        Ancillary::NetlinkAttribute,
        Ancillary::NestedNetlinkAttribute,
        Ancillary::HardwareType,
        Ancillary::PayloadOffset,
        Ancillary::Cpu,
        Ancillary::Random,
    ];
    let rows: Vec<_> = ancillary::ALL.iter().filter(|row| !NOT_COMPARED.contains(&row.meaning)).collect();
    rows[random.below(rows.len() as u32) as usize].offset
}
