//! Makes the operations of `c/threaded.c` of a verified program.
//!
//! One operation for each instruction slot, so that jumps keep their distances; slots that no path reaches, and the
//! second ones of wide loads, become `nothing`. Maps and helpers become addresses, fields of a packet's context loads
//! of weir's own slots, accesses to per-CPU values accesses in the shared lane.

use weir_ebpf::Insn;
use weir_ebpf::helper;
use weir_ebpf::insn::{MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::kfunc;
use weir_rt::executable::FRAME_COOKIE;
use weir_rt::runtime;
use weir_rt::segment::Segment;
use weir_verifier::{InsnFacts, VerifiedProgram};

use super::{Op, go};

/// None if an instruction that is reached has no operation.
pub(super) fn decode(program: &VerifiedProgram, segment: &Segment) -> Option<Vec<Op>> {
    let facts = program.facts();
    let decoder = Decoder { program, segment };
    let ops =
        (0..facts.len()).map(|at| if facts[at].reachable { decoder.op(at) } else { Some(op("nothing")) });
    ops.collect()
}

struct Decoder<'a> {
    program: &'a VerifiedProgram,
    segment: &'a Segment,
}

fn op(name: &str) -> Op {
    Op { go: go(name), imm: 0, jump: 0, dst: 0, src: 0, zero: 0 }
}

impl Decoder<'_> {
    fn op(&self, at: usize) -> Option<Op> {
        let (insn, facts) = (self.program.insns()[at], &self.program.facts()[at]);
        let op = match insn.class() {
            class::ALU | class::ALU64 => arithmetic(insn)?,
            class::LD if insn.is_wide() => self.wide(at)?,
            class::LD => packet_load(insn)?,
            // It has no base any more.
            class::LDX if let Some(imm) = facts.constant => {
                return Some(Op { imm, dst: insn.dst, ..op("mov64_imm") });
            }
            class::LDX => self.load(insn, facts)?,
            class::ST | class::STX => self.store(insn, facts)?,
            class::JMP | class::JMP32 => return self.jump(insn, at),
            _ => return None,
        };
        // The register of a load that acquires is where others have their address, and so on: as the fields say.
        Some(Op { dst: op.dst | insn.dst, src: op.src | insn.src, ..op })
    }

    fn wide(&self, at: usize) -> Option<Op> {
        let [low, high] = [self.program.insns()[at], *self.program.insns().get(at + 1)?];
        let index = low.imm as usize;
        let imm = match low.src {
            pseudo::NONE => u64::from(high.imm as u32) << 32 | u64::from(low.imm as u32),
            // An address that no program can see: the helper knows its callback from the verifier.
            pseudo::FUNCTION => 1,
            pseudo::MAP_INDEX => self.segment.descriptor_address(index),
            pseudo::MAP_INDEX_VALUE => {
                let map = &self.segment.layout().maps[index];
                self.segment.base() + map.data_offset + u64::from(high.imm as u32)
            }
            _ => return None,
        };
        Some(Op { imm, ..op("mov64_imm") })
    }

    /// The offset of an access, in the lane and in the slot where it really goes.
    fn offset(&self, insn: Insn, facts: &InsnFacts, is_write: bool) -> Option<(u64, u32)> {
        let bytes = access_bytes(insn.opcode);
        if let Some(field) = facts.context_field {
            let (at, bytes) = field.place(insn.off as u32, bytes, is_write)?;
            return Some((at.into(), bytes));
        }
        let lane = facts.per_cpu_map.map_or(0, |map| {
            let map = &self.segment.layout().maps[map as usize];
            map.lane_stride * u64::from(map.shared_lane())
        });
        Some((lane.wrapping_add(insn.off as u64), bytes))
    }

    fn load(&self, insn: Insn, facts: &InsnFacts) -> Option<Op> {
        let (imm, bytes) = self.offset(insn, facts, false)?;
        let name = match (insn.opcode & 0xe0, bytes) {
            (mode::MEM, 1) => "ldb",
            (mode::MEM, 2) => "ldh",
            (mode::MEM, 4) => "ldw",
            (mode::MEM, 8) => "lddw",
            (mode::MEMSX, 1) => "ldsb",
            (mode::MEMSX, 2) => "ldsh",
            (mode::MEMSX, 4) => "ldsw",
            _ => return None,
        };
        Some(Op { imm, ..op(name) })
    }

    fn store(&self, insn: Insn, facts: &InsnFacts) -> Option<Op> {
        let is_atomic = insn.opcode & 0xe0 == mode::ATOMIC;
        if is_atomic && insn.imm == atomic::LOAD_ACQUIRE {
            // x86 keeps loads and stores in order.
            let plain = Insn { opcode: insn.opcode & 0x18 | mode::MEM | class::LDX, ..insn };
            return self.load(plain, facts);
        }
        let (imm, bytes) = self.offset(insn, facts, true)?;
        if is_atomic && insn.imm != atomic::STORE_RELEASE {
            let width = if bytes == 8 { 64 } else { 32 };
            let name = match insn.imm {
                atomic::XCHG => "xchg",
                atomic::CMPXCHG => "cmpxchg",
                imm => match (imm & !atomic::FETCH, imm & atomic::FETCH != 0) {
                    (atomic::ADD, false) => "atomic_add",
                    (atomic::OR, false) => "atomic_or",
                    (atomic::AND, false) => "atomic_and",
                    (atomic::XOR, false) => "atomic_xor",
                    (atomic::ADD, true) => "fetch_add",
                    (atomic::OR, true) => "fetch_or",
                    (atomic::AND, true) => "fetch_and",
                    (atomic::XOR, true) => "fetch_xor",
                    _ => return None,
                },
            };
            return Some(Op { imm, ..op(&format!("{name}{width}")) });
        }
        let name = match (insn.class(), bytes) {
            (class::ST, 1) => "stb_imm",
            (class::ST, 2) => "sth_imm",
            (class::ST, 4) => "stw_imm",
            (class::ST, _) => "stdw_imm",
            (_, 1) => "stb_reg",
            (_, 2) => "sth_reg",
            (_, 4) => "stw_reg",
            _ => "stdw_reg",
        };
        let jump = if insn.class() == class::ST { insn.imm } else { 0 };
        Some(Op { imm, jump, ..op(name) })
    }

    fn jump(&self, insn: Insn, at: usize) -> Option<Op> {
        let near = i32::from(insn.off) + 1;
        let wide = insn.class() == class::JMP;
        if insn.opcode == MAY_GOTO {
            return Some(Op { jump: near, ..op("may_goto") });
        }
        let name = match insn.opcode & 0xf0 {
            jmp::JA => {
                let jump = if wide { near } else { insn.imm + 1 };
                return Some(Op { jump, ..op("ja") });
            }
            jmp::EXIT => return Some(op("exit")),
            jmp::CALL if insn.src == pseudo::LOCAL => {
                return Some(Op { jump: insn.imm + 1, ..op("call_local") });
            }
            jmp::CALL if insn.src == pseudo::HELPER => return self.call(insn, at),
            jmp::CALL if insn.imm == kfunc::DECLARED_COPY => {
                return Some(Op { imm: runtime::declared_copy_address(), ..op("call") });
            }
            // `texts` says which.
            jmp::CALL if self.program.facts()[at].text.is_some() => return Some(op("text")),
            jmp::JEQ => "jeq",
            jmp::JNE => "jne",
            jmp::JGT => "jgt",
            jmp::JGE => "jge",
            jmp::JLT => "jlt",
            jmp::JLE => "jle",
            jmp::JSET => "jset",
            jmp::JSGT => "jsgt",
            jmp::JSGE => "jsge",
            jmp::JSLT => "jslt",
            jmp::JSLE => "jsle",
            _ => return None,
        };
        Some(Op { jump: near, ..binary(name, wide, insn) })
    }

    fn call(&self, insn: Insn, at: usize) -> Option<Op> {
        if insn.imm == helper::GET_ATTACH_COOKIE {
            return Some(Op { imm: FRAME_COOKIE.into(), src: 1, ..op("lddw") });
        }
        if let Some(callback) = self.program.facts()[at].callback {
            let jump = callback as i32 - at as i32;
            return match insn.imm {
                helper::LOOP => Some(Op { jump, ..op("loop") }),
                helper::FOR_EACH_MAP_ELEM => {
                    Some(Op { imm: runtime::map_next_address(), jump, ..op("for_each") })
                }
                _ => None,
            };
        }
        let imm = runtime::helper_address(helper::of_kind(insn.imm, self.program.kind()))?;
        let jump = self.program.facts()[at].string_bytes.unwrap_or(0) as i32;
        Some(Op { imm, jump, ..op("call") })
    }
}

/// No function that is called has one, so that the end of the program is the end of the run.
fn packet_load(insn: Insn) -> Option<Op> {
    let name = match access_bytes(insn.opcode) {
        1 => "packet8",
        2 => "packet16",
        4 => "packet32",
        _ => return None,
    };
    let has_register = insn.opcode & 0xe0 == mode::IND;
    Some(Op { imm: u64::from(insn.imm as u32), jump: has_register.into(), ..op(name) })
}

fn access_bytes(opcode: u8) -> u32 {
    match opcode & size::DW {
        size::B => 1,
        size::H => 2,
        size::W => 4,
        _ => 8,
    }
}

/// An operation with a register or a constant, on 64 or 32 bits.
fn binary(name: &str, wide: bool, insn: Insn) -> Op {
    let form = if insn.opcode & source::X == 0 { "imm" } else { "reg" };
    let width = if wide { 64 } else { 32 };
    let imm = i64::from(insn.imm) as u64;
    Op { imm, dst: insn.dst, src: insn.src, ..op(&format!("{name}{width}_{form}")) }
}

fn arithmetic(insn: Insn) -> Option<Op> {
    let wide = insn.class() == class::ALU64;
    let width = if wide { 64 } else { 32 };
    let name = match (insn.opcode & 0xf0, insn.off) {
        (alu::ADD, _) => "add",
        (alu::SUB, _) => "sub",
        (alu::MUL, _) => "mul",
        (alu::OR, _) => "or",
        (alu::AND, _) => "and",
        (alu::XOR, _) => "xor",
        (alu::LSH, _) => "lsh",
        (alu::RSH, _) => "rsh",
        (alu::ARSH, _) => "arsh",
        (alu::DIV, 0) => "div",
        (alu::DIV, 1) => "sdiv",
        (alu::MOD, 0) => "mod",
        (alu::MOD, 1) => "smod",
        (alu::MOV, 0) => "mov",
        (alu::MOV, bits) => return Some(op(&format!("movsx{width}_{bits}"))),
        (alu::NEG, _) => return Some(op(&format!("neg{width}"))),
        (alu::END, _) => return byte_order(insn, wide),
        _ => return None,
    };
    Some(binary(name, wide, insn))
}

/// To the machine's order is a truncation, to the other one a swap; `bswap` is always one.
fn byte_order(insn: Insn, wide: bool) -> Option<Op> {
    let swaps = wide || insn.opcode & source::X != 0;
    Some(op(match (swaps, insn.imm) {
        (true, 16) => "swap16",
        (true, 32) => "swap32",
        (true, 64) => "swap64",
        (false, 16) => "low16",
        (false, 32) => "low32",
        (false, 64) => "nothing",
        _ => return None,
    }))
}
