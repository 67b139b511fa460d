//! One classic instruction → its eBPF instructions.

use weir_ebpf::insn as ebpf;
use weir_ebpf::{HelperId, Insn as Ebpf, ProgramKind, context, helper};

use super::{A, CONTEXT, FRAME, FarOffsets, Piece, X, ancillary_load, constant, place, register};
use crate::insn::{alu, class, jmp, mode, size};
use crate::{Ancillary, Insn};

const ALU: u8 = ebpf::class::ALU;
const JMP32: u8 = ebpf::class::JMP32;
const MOV: u8 = ebpf::alu::MOV;

/// Appends the instructions of `insn`, which is the `at`th. The load, if there is none like it.
pub(super) fn lower(
    insn: Insn,
    at: usize,
    far_offsets: FarOffsets,
    pieces: &mut Vec<Piece>,
) -> Result<(), Ancillary> {
    if insn.class() == class::JMP {
        jump(insn, at, pieces);
        return Ok(());
    }
    let insns = match insn.class() {
        _ if is_outside(insn, far_offsets) => returns_0().to_vec(),
        class::LD | class::LDX => load(insn, far_offsets)?,
        class::ST => vec![store(A, insn.k)],
        class::STX => vec![store(X, insn.k)],
        class::ALU => compute(insn),
        class::RET if insn.operation() == 0 => vec![constant(ALU, MOV, 0, insn.k), exit()],
        class::RET => vec![register(ALU, MOV, 0, A), exit()],
        // MISC: TAX is 0.
        _ if insn.operation() == 0 => vec![register(ALU, MOV, X, A)],
        _ => vec![register(ALU, MOV, A, X)],
    };
    pieces.extend(insns.into_iter().map(Piece::Insn));
    Ok(())
}

/// A load that is outside every packet, and returns 0.
pub(super) fn is_outside(insn: Insn, far_offsets: FarOffsets) -> bool {
    let is_packet_load = matches!(insn.class(), class::LD | class::LDX)
        && matches!(insn.mode(), mode::ABS | mode::IND | mode::MSH);
    is_packet_load
        && insn.k > i32::MAX as u32
        && far_offsets != FarOffsets::Kernel
        && ancillary_load(insn, far_offsets).is_none()
}

fn load(insn: Insn, far_offsets: FarOffsets) -> Result<Vec<Ebpf>, Ancillary> {
    if let Some(meaning) = ancillary_load(insn, far_offsets) {
        return fact(meaning);
    }
    let to = if insn.class() == class::LD { A } else { X };
    Ok(match insn.mode() {
        mode::IMM => vec![constant(ALU, MOV, to, insn.k)],
        mode::MEM => vec![memory(to, FRAME, place(insn.k))],
        mode::LEN => vec![field(to, "len")],
        mode::MSH => vec![
            packet(insn, ebpf::mode::ABS, 0),
            constant(ALU, ebpf::alu::AND, 0, 0xf),
            constant(ALU, ebpf::alu::LSH, 0, 2),
            register(ALU, MOV, X, 0),
        ],
        mode::ABS => vec![packet(insn, ebpf::mode::ABS, 0), register(ALU, MOV, A, 0)],
        // IND, the last one that programs have. The sum is a signed number of 32 bits: where it would go round, or be
        // negative, the bytes are outside the packet.
        _ => {
            let mut insns = Vec::new();
            if far_offsets != FarOffsets::Kernel {
                insns.push(over(constant(JMP32, ebpf::jmp::JLE, X, i32::MAX as u32 - insn.k), 2));
                insns.extend(returns_0());
            }
            insns.extend([packet(insn, ebpf::mode::IND, X), register(ALU, MOV, A, 0)]);
            insns
        }
    })
}

/// An ancillary load.
fn fact(meaning: Ancillary) -> Result<Vec<Ebpf>, Ancillary> {
    // What the context has in the order of the wire.
    let swapped = |name| {
        let opcode = ALU | ebpf::alu::END | ebpf::source::X;
        vec![field(A, name), Ebpf { opcode, dst: A, src: 0, off: 0, imm: 16 }]
    };
    Ok(match meaning {
        Ancillary::Protocol => swapped("protocol"),
        Ancillary::PacketType => vec![field(A, "pkt_type")],
        Ancillary::InterfaceIndex => vec![field(A, "ifindex")],
        Ancillary::Mark => vec![field(A, "mark")],
        Ancillary::Queue => vec![field(A, "queue_mapping")],
        Ancillary::ReceiveHash => vec![field(A, "hash")],
        Ancillary::Cpu => called(helper::GET_SMP_PROCESSOR_ID),
        Ancillary::XorX => vec![register(ALU, ebpf::alu::XOR, A, X)],
        Ancillary::VlanTag => vec![field(A, "vlan_tci")],
        Ancillary::VlanTagPresent => vec![field(A, "vlan_present")],
        Ancillary::Random => called(helper::GET_PRANDOM_U32),
        Ancillary::VlanProtocol => swapped("vlan_proto"),
        Ancillary::NetlinkAttribute
        | Ancillary::NestedNetlinkAttribute
        | Ancillary::HardwareType
        | Ancillary::PayloadOffset => return Err(meaning),
    })
}

fn compute(insn: Insn) -> Vec<Ebpf> {
    let same = |operation: u8| {
        if insn.uses_x() { register(ALU, operation, A, X) } else { constant(ALU, operation, A, insn.k) }
    };
    let zero = constant(ALU, MOV, A, 0);
    match insn.operation() {
        alu::LSH | alu::RSH => {
            let shift = same(insn.operation() as u8);
            match (insn.uses_x(), insn.k) {
                (true, _) => vec![
                    over(constant(JMP32, ebpf::jmp::JLE, X, 31), 2),
                    zero,
                    over(Ebpf { opcode: ebpf::class::JMP | ebpf::jmp::JA, ..Ebpf::default() }, 1),
                    shift,
                ],
                (false, 32..) => vec![zero],
                (false, _) => vec![shift],
            }
        }
        alu::DIV | alu::MOD if insn.uses_x() => {
            let [value, exit] = returns_0();
            let divide = same(insn.operation() as u8);
            vec![over(constant(JMP32, ebpf::jmp::JNE, X, 0), 2), value, exit, divide]
        }
        alu::NEG => vec![Ebpf { opcode: ALU | ebpf::alu::NEG, dst: A, ..Ebpf::default() }],
        // The others have the same number in both.
        operation => vec![same(operation as u8)],
    }
}

fn jump(insn: Insn, at: usize, pieces: &mut Vec<Piece>) {
    let next = at + 1;
    if insn.operation() == jmp::JA {
        let target = (next as i64 + i64::from(insn.k as i32)) as usize;
        if target >= next {
            pieces.push(Piece::Always(target));
            return;
        }
        // When the rounds are used up, over the jump.
        let may_goto = over(Ebpf { opcode: ebpf::MAY_GOTO, ..Ebpf::default() }, 1);
        pieces.extend([Piece::Insn(may_goto), Piece::Always(target)]);
        pieces.extend(returns_0().map(Piece::Insn));
        return;
    }
    let comparison = |operation: u8| {
        if insn.uses_x() { register(JMP32, operation, A, X) } else { constant(JMP32, operation, A, insn.k) }
    };
    let (taken, other) = (next + usize::from(insn.jt), next + usize::from(insn.jf));
    if taken == other {
        pieces.push(Piece::Always(taken));
        return;
    }
    let opposite = match insn.operation() {
        jmp::JEQ => Some(ebpf::jmp::JNE),
        jmp::JGT => Some(ebpf::jmp::JLE),
        jmp::JGE => Some(ebpf::jmp::JLT),
        // JSET has none.
        _ => None,
    };
    match opposite {
        Some(opposite) if taken == next => pieces.push(Piece::Jump(comparison(opposite), other)),
        _ => {
            pieces.push(Piece::Jump(comparison(insn.operation() as u8), taken));
            if other != next {
                pieces.push(Piece::Always(other));
            }
        }
    }
}

/// The bytes at `k`, or at `k` and a register, to r0.
fn packet(insn: Insn, mode: u8, index: u8) -> Ebpf {
    let size = match insn.code & 0x18 {
        size::H => ebpf::size::H,
        size::B => ebpf::size::B,
        _ => ebpf::size::W,
    };
    Ebpf { opcode: ebpf::class::LD | mode | size, dst: 0, src: index, off: 0, imm: insn.k as i32 }
}

fn field(to: u8, name: &str) -> Ebpf {
    // SANITY: each name stands in `context::SOCKET`; a test loads all of them.
    let field = context::field_named(ProgramKind::SocketFilter, name).expect("a field of socket filters");
    memory(to, CONTEXT, field.offset as i16)
}

fn memory(to: u8, from: u8, off: i16) -> Ebpf {
    let opcode = ebpf::class::LDX | ebpf::mode::MEM | ebpf::size::W;
    Ebpf { opcode, dst: to, src: from, off, imm: 0 }
}

fn store(from: u8, slot: u32) -> Ebpf {
    let opcode = ebpf::class::STX | ebpf::mode::MEM | ebpf::size::W;
    Ebpf { opcode, dst: FRAME, src: from, off: place(slot), imm: 0 }
}

fn called(id: HelperId) -> Vec<Ebpf> {
    let opcode = ebpf::class::JMP | ebpf::jmp::CALL;
    vec![Ebpf { opcode, imm: id, ..Ebpf::default() }, register(ALU, MOV, A, 0)]
}

fn exit() -> Ebpf {
    Ebpf { opcode: ebpf::class::JMP | ebpf::jmp::EXIT, ..Ebpf::default() }
}

fn returns_0() -> [Ebpf; 2] {
    [constant(ALU, MOV, 0, 0), exit()]
}

/// A jump over the next `count` instructions.
fn over(insn: Ebpf, count: i16) -> Ebpf {
    Ebpf { off: count, ..insn }
}
