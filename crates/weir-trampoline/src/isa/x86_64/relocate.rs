//! Moves instructions to another address so that they do there what they did here.
//!
//! RIP-relative operands and branch displacements are re-encoded (short branches become long ones); `nop`s
//! are left out; everything else is copied. iced-x86's encoders do the work; what they cannot do is refused.
//!
//! A call leaves the return address on the stack that it left before. A real call comes first, so that the processor's
//! stack of return addresses has one for each return to come: only the one of `f` is predicted wrong, and none above it.
//!
//! ```text
//!     call f       →      call  over
//!             return:     .quad function + 9
//!             over:       push  return(%rip)       ; no flag, no register
//!                         pop   (%rsp)             ; over the address that the call left
//!                         jmp   f
//! ```

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Encoder, Instruction, InstructionBlock, Mnemonic, OpKind,
};
use weir_plan::Refusal;
use weir_plan::body::near_target;
use weir_plan::window::is_movable_call;

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
        let shifted = shift(instruction, bias);
        let at = to + moved.code.len() as u64;
        let code = if is_movable_call(instruction) { encode_call(shifted, at) } else { encode(shifted, at) };
        let code =
            code.map_err(|detail| Refusal::NotRelocatable { offset: instruction.ip() - start, detail })?;
        moved.offsets.push(moved.code.len() as u32);
        moved.code.extend_from_slice(&code);
    }
    Ok(moved)
}

/// Whether `instruction` is other bytes elsewhere.
pub fn depends_on_place(instruction: &Instruction) -> bool {
    instruction.is_ip_rel_memory_operand() || near_target(instruction).is_some()
}

fn encode(instruction: Instruction, to: u64) -> Result<Vec<u8>, String> {
    // Only branches may need another form; the plain encoder takes a tenth of the time.
    if near_target(&instruction).is_none() {
        let mut encoder = Encoder::new(64);
        return encoder
            .encode(&instruction, to)
            .map(|_| encoder.take_buffer())
            .map_err(|error| error.to_string());
    }
    let instructions = [instruction];
    let block = InstructionBlock::new(&instructions, to);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
    encoded.map(|encoded| encoded.code_buffer).map_err(|error| error.to_string())
}

fn encode_call(call: Instruction, to: u64) -> Result<Vec<u8>, String> {
    const CALL_OVER: [u8; 5] = [0xe8, 8, 0, 0, 0];
    const PUSH_RETURN: [u8; 6] = [0xff, 0x35, 0xf2, 0xff, 0xff, 0xff];
    const POP_TOP: [u8; 3] = [0x8f, 0x04, 0x24];
    let return_address = call.next_ip().to_le_bytes();
    let mut code = [&CALL_OVER[..], &return_address, &PUSH_RETURN, &POP_TOP].concat();
    let mut jump = call;
    jump.set_code(match call.op0_kind() {
        OpKind::NearBranch64 => Code::Jmp_rel32_64,
        _ => Code::Jmp_rm64,
    });
    code.extend(encode(jump, to + code.len() as u64)?);
    Ok(code)
}

/// The instruction as it stands in memory, `bias` bytes after its link address.
fn shift(instruction: &Instruction, bias: u64) -> Instruction {
    let mut shifted = *instruction;
    shifted.set_ip(instruction.ip().wrapping_add(bias));
    if let Some(target) = near_target(instruction) {
        shifted.set_near_branch64(target.wrapping_add(bias));
    }
    if instruction.is_ip_rel_memory_operand() {
        shifted.set_memory_displacement64(instruction.ip_rel_memory_address().wrapping_add(bias));
    }
    shifted
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Register};

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

    /// What `bytes`, a call at 0x1000, jumps to, and the return address that it pushes.
    fn moved_call(bytes: &[u8], to: u64) -> (Instruction, u64) {
        let call = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        assert!(is_movable_call(&call), "{bytes:02x?}");
        let code = relocate(&[call], 0x7f00_0000_0000, to).unwrap().code;
        let over = Decoder::with_ip(64, &code, to, DecoderOptions::NONE).decode();
        let at = over.near_branch_target();
        let mut decoder = Decoder::with_ip(64, &code[(at - to) as usize..], at, DecoderOptions::NONE);
        let (push, pop, jump) = (decoder.decode(), decoder.decode(), decoder.decode());
        assert_eq!((over.mnemonic(), push.mnemonic()), (Mnemonic::Call, Mnemonic::Push));
        assert_eq!((push.ip_rel_memory_address(), at), (over.next_ip(), over.next_ip() + 8));
        assert_eq!((pop.mnemonic(), pop.memory_base()), (Mnemonic::Pop, Register::RSP));
        (jump, u64::from_le_bytes(code[5..13].try_into().unwrap()))
    }

    #[test]
    fn a_call_pushes_the_return_address_that_it_pushed_before() {
        let to = 0x7f00_1000_0000;
        let (jump, pushed) = moved_call(&[0xe8, 0x10, 0, 0, 0], to);
        assert_eq!((jump.near_branch_target(), pushed), (0x7f00_0000_1015, 0x7f00_0000_1005));
        let (jump, pushed) = moved_call(&[0xff, 0x15, 0x10, 0, 0, 0], to);
        assert_eq!((jump.ip_rel_memory_address(), pushed), (0x7f00_0000_1016, 0x7f00_0000_1006));
        assert_eq!(jump.code(), Code::Jmp_rm64);
        let (jump, pushed) = moved_call(&[0x41, 0xff, 0xd3], to);
        assert_eq!((jump.op0_register(), pushed), (Register::R11, 0x7f00_0000_1003));
    }

    #[test]
    fn a_call_through_the_stack_pointer_stays() {
        for bytes in [&[0xff, 0x14, 0x24][..], &[0xff, 0xd4], &[0xff, 0x54, 0x24, 8]] {
            let call = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
            assert!(!is_movable_call(&call), "{bytes:02x?}");
        }
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
