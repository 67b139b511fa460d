//! Writes what CO-RE relocations come to into instructions.
//!
//! In: an instruction (or the two of a wide load), the answer of [`btf::core`](crate::btf::core). Out: the
//! instruction for the target's types: a new immediate, offset or constant, and another width where the field's
//! differs. What the target does not have becomes a call of [`MISSING`], a helper that does not exist: a program
//! may contain it, as behind a check that the field exists, but no verifier lets it be reached.

use crate::Insn;
use crate::btf::core::{Access, Answer};
use crate::elf::error::{ElfError, Result};
use crate::helper::HelperId;
use crate::insn::{class, jmp, mode, size, source};

/// The helper that an instruction calls after its relocation found nothing. The number is the one that libbpf
/// writes, so that tools which know it say the right thing.
pub const MISSING: HelperId = 0xbad_2310;

pub(crate) const MISSING_CALL: Insn =
    Insn { opcode: class::JMP | jmp::CALL, dst: 0, src: 0, off: 0, imm: MISSING };

/// What became of a relocated instruction.
pub(crate) enum Relocated {
    Done,
    /// It may not be reached, for this reason.
    Poisoned(&'static str),
}

/// `insns`: one slot, or the two of a wide load.
pub(crate) fn relocate(insns: &mut [Insn], answer: Answer) -> Result<Relocated> {
    let Answer::Value { local, target, access } = answer else {
        return Ok(poison(insns, "the target's types do not have it"));
    };
    match insns {
        [first, second] if first.src == 0 => {
            let value = u64::from(second.imm as u32) << 32 | u64::from(first.imm as u32);
            expect(value, local, u64::MAX)?;
            first.imm = target as i32;
            second.imm = (target >> 32) as i32;
            Ok(Relocated::Done)
        }
        [insn] if is_immediate(*insn) => {
            expect(insn.imm as u64, local, u32::MAX.into())?;
            insn.imm = i32::try_from(target as i64)
                .or_else(|_| u32::try_from(target).map(|bits| bits as i32))
                .map_err(|_| too_far(target))?;
            Ok(Relocated::Done)
        }
        [insn] if matches!(insn.class(), class::LDX | class::ST | class::STX) => {
            expect(insn.off as u64, local, u64::MAX)?;
            insn.off = i16::try_from(target).map_err(|_| too_far(target))?;
            match access.map_or(Ok(()), |access| resize(insn, access)) {
                Ok(()) => Ok(Relocated::Done),
                Err(reason) => Ok(poison(insns, reason)),
            }
        }
        _ => Err(ElfError::malformed("a CO-RE relocation of an instruction that holds no such number")),
    }
}

fn poison(insns: &mut [Insn], reason: &'static str) -> Relocated {
    insns.fill(MISSING_CALL);
    Relocated::Poisoned(reason)
}

fn is_immediate(insn: Insn) -> bool {
    matches!(insn.class(), class::ALU | class::ALU64) && insn.opcode & source::X == 0
}

/// Makes a load or store as wide as the target's field.
fn resize(insn: &mut Insn, access: Access) -> std::result::Result<(), &'static str> {
    let Access { local_bytes, target_bytes, resizable } = access;
    // Part of a field, such as its first byte, is loaded as it was written.
    if local_bytes == target_bytes || bytes_of(insn.opcode) != local_bytes {
        return Ok(());
    }
    if !resizable || insn.opcode & 0xe0 != mode::MEM {
        return Err("the target's field has another size, and one of both has a sign");
    }
    let width = match target_bytes {
        1 => size::B,
        2 => size::H,
        4 => size::W,
        8 => size::DW,
        _ => return Err("the target's field has a size that no load has"),
    };
    insn.opcode = insn.opcode & !size::DW | width;
    Ok(())
}

fn bytes_of(opcode: u8) -> u32 {
    match opcode & size::DW {
        size::B => 1,
        size::H => 2,
        size::W => 4,
        _ => 8,
    }
}

/// The instruction holds the compiler's own answer; `bits` of it.
fn expect(found: u64, local: Option<u64>, bits: u64) -> Result<()> {
    match local {
        Some(local) if (found ^ local) & bits != 0 => Err(ElfError::malformed(format!(
            "the instruction holds {found:#x}, but its CO-RE relocation is {local:#x} in the object's own types"
        ))),
        _ => Ok(()),
    }
}

fn too_far(target: u64) -> ElfError {
    ElfError::unsupported(format!("the target's number is {target:#x}, which the instruction cannot hold"))
}
