//! Moves instructions to another address so that they do there what they did here.
//!
//! RIP-relative operands and branch displacements are re-encoded (short branches become long ones); `nop`s
//! are left out; everything else is copied. iced-x86's block encoder does the work; what it cannot do is refused.

use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock, Mnemonic};

use crate::refusal::Refusal;

/// Instructions at their new address.
#[derive(Clone, Debug)]
pub struct Moved {
    pub code: Vec<u8>,
    /// For each instruction, its offset in `code`.
    pub offsets: Vec<u32>,
}

/// Encodes `instructions` at address `to`. `from` is what their own addresses must be taken relative to: they carry
/// link addresses, and `bias` is what the target adds to those.
pub fn relocate(instructions: &[Instruction], bias: u64, to: u64) -> Result<Moved, Refusal> {
    let start = instructions.first().map_or(0, Instruction::ip);
    let mut moved = Moved { code: Vec::new(), offsets: Vec::new() };
    // One at a time, so that the place of each is known even where the encoder rewrites it. No window has a branch
    // to its own inside, so they do not depend on each other.
    for instruction in instructions {
        if instruction.mnemonic() == Mnemonic::Nop {
            moved.offsets.push(moved.code.len() as u32);
            continue;
        }
        let shifted = [shift(instruction, bias)];
        let block = InstructionBlock::new(&shifted, to + moved.code.len() as u64);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).map_err(|error| {
            Refusal::NotRelocatable { offset: instruction.ip() - start, detail: error.to_string() }
        })?;
        moved.offsets.push(moved.code.len() as u32);
        moved.code.extend_from_slice(&encoded.code_buffer);
    }
    Ok(moved)
}

/// The instruction as it stands in memory, `bias` bytes after its link address.
fn shift(instruction: &Instruction, bias: u64) -> Instruction {
    let mut shifted = *instruction;
    shifted.set_ip(instruction.ip().wrapping_add(bias));
    if let Some(target) = crate::body::near_target(instruction) {
        shifted.set_near_branch64(target.wrapping_add(bias));
    }
    if instruction.is_ip_rel_memory_operand() {
        shifted.set_memory_displacement64(instruction.ip_rel_memory_address().wrapping_add(bias));
    }
    shifted
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    fn check(bytes: &[u8], to: u64) -> Vec<Instruction> {
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
        let moved = relocate(&instructions, 0x7f00_0000_0000, to).unwrap();
        Decoder::with_ip(64, &moved.code, to, DecoderOptions::NONE).iter().collect()
    }

    #[test]
    fn keeps_what_a_rip_relative_operand_names() {
        let moved = check(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], 0x7f00_1000_0000);
        assert_eq!(moved[0].ip_rel_memory_address(), 0x7f00_0000_1017);
    }

    #[test]
    fn keeps_where_a_short_branch_goes() {
        let moved = check(&[0x74, 0x20], 0x7f00_1000_0000);
        assert_eq!(moved[0].near_branch_target(), 0x7f00_0000_1022);
    }

    #[test]
    fn refuses_what_is_out_of_reach() {
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], 0x1000, DecoderOptions::NONE)
                .iter()
                .collect();
        assert_eq!(
            relocate(&instructions, 0x5500_0000_0000, 0x7f00_1000_0000).unwrap_err().code(),
            "not-relocatable"
        );
    }
}
