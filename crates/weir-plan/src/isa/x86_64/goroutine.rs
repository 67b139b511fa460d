//! Where a function of Go's compiler can be probed on a goroutine's stack, which is as small as 2 KiB.
//!
//! In: a function's code. Out: the place behind the check that it begins with, and how many bytes below the stack pointer
//! are free there. What is pushed below a stack's end goes to whatever lies there in Go's heap, so a place of which nothing
//! is known is refused.
//!
//! A function that may need more stack than there is begins, before it changes anything that a probe could read, with
//!
//! ```text
//! cmp  0x10(%r14),%rsp        lea  -0x40(%rsp),%r12         mov  %rsp,%r12
//! jbe  grow                   cmp  0x10(%r14),%r12          sub  $0x1000,%r12; jb grow
//!                             jbe  grow                     cmp  0x10(%r14),%r12; jbe grow
//! ```
//!
//! (assembly, and Go before 1.17: `mov %fs:-8,%rcx` first, and `0x10(%rcx)`). 0x10 of a goroutine is its stackguard0, which
//! lies StackGuard bytes above the end of its stack (runtime/stack.go); functions with frames of up to StackSmall bytes compare the
//! stack pointer itself. When the stack has been moved, `grow` jumps to the function's first byte once more: behind the check
//! a call is counted once.
//!
//! Functions without a check (small ones that call nothing, `//go:nosplit`) live on what their callers have left.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::isa::x86_64::window::FunctionCode;
use crate::refusal::Refusal;

/// Free behind a check, by the value of StackGuard: 928 since Go 1.17, which also was the first to keep the goroutine in
/// r14; 880 at least in all that had it elsewhere.
const GUARD_BYTES: u32 = 928;
const OLD_GUARD_BYTES: u32 = 880;
/// What a frame may take of that without being checked (StackSmall), and the return address of the function it calls.
const SMALL_FRAME_BYTES: u32 = 128 + 8;

/// Offset of stackguard0 in a goroutine (runtime/runtime2.go).
const STACK_GUARD: u64 = 0x10;
/// Instructions of the longest check.
const CHECK_LENGTH_MAX: usize = 6;

/// The check of a function's stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Check {
    bytes: u64,
    /// Free behind it.
    room: u32,
}

/// `code` with its place moved behind the check, if that is the function's entry, and with the room that a program has
/// there; an error where nothing is known of that.
pub(crate) fn on_goroutine(code: FunctionCode) -> Result<FunctionCode, Refusal> {
    let unchecked = Refusal::StackUnchecked { offset: code.place.wrapping_sub(code.address) };
    let check = check(code.bytes, code.address).ok_or(unchecked.clone())?;
    let behind = code.address + check.bytes;
    match code.inside {
        false => Ok(FunctionCode { place: behind, room: Some(check.room), ..code }),
        true if code.place < behind => Err(unchecked),
        true => Ok(FunctionCode { room: Some(check.room - SMALL_FRAME_BYTES), ..code }),
    }
}

/// The check that `bytes`, a function at `address`, begins with.
fn check(bytes: &[u8], address: u64) -> Option<Check> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut room = None;
    for _ in 0..CHECK_LENGTH_MAX {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        match (instruction.mnemonic(), room) {
            (Mnemonic::Jbe, Some(room)) => {
                return Some(Check { bytes: instruction.next_ip() - address, room });
            }
            (_, Some(_)) => return None,
            (Mnemonic::Cmp, None) => room = Some(guard(&instruction)?),
            (Mnemonic::Jb, None) if instruction.flow_control() == FlowControl::ConditionalBranch => {}
            (Mnemonic::Lea | Mnemonic::Mov | Mnemonic::Sub, None) if keeps_arguments(&instruction) => {}
            _ => return None,
        }
    }
    None
}

/// The room behind a comparison with stackguard0, if this is one.
fn guard(compare: &Instruction) -> Option<u32> {
    let is_guard = compare.op0_kind() == OpKind::Memory || compare.op1_kind() == OpKind::Memory;
    let of_guard = is_guard && compare.memory_displacement64() == STACK_GUARD;
    let compared = [compare.op0_register(), compare.op1_register()];
    let is_stack = compared.iter().any(|register| {
        matches!(register, Register::RSP | Register::R12 | Register::R13 | Register::RAX | Register::RDI)
    });
    match compare.memory_base() {
        Register::R14 if of_guard && is_stack => Some(GUARD_BYTES),
        Register::RCX if of_guard && is_stack => Some(OLD_GUARD_BYTES),
        _ => None,
    }
}

/// It changes a register that passes nothing to a function.
fn keeps_arguments(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && matches!(instruction.op0_register(), Register::R12 | Register::R13)
        || reads_goroutine(instruction)
}

/// `mov %fs:-8,%rcx`, where arguments are on the stack.
fn reads_goroutine(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == Register::RCX
        && instruction.memory_segment() == Register::FS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> Option<(u64, u32)> {
        let mut all = bytes.to_vec();
        all.extend_from_slice(&[0x90; 16]);
        check(&all, 0x1000).map(|check| (check.bytes, check.room))
    }

    #[test]
    fn each_form_of_the_check_is_known() {
        // cmp 0x10(%r14),%rsp; jbe
        assert_eq!(found(&[0x49, 0x3b, 0x66, 0x10, 0x76, 0x34]), Some((6, 928)));
        // the same with a jbe of 6 bytes
        assert_eq!(found(&[0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86, 1, 2, 0, 0]), Some((10, 928)));
        // lea -0xd0(%rsp),%r12; cmp 0x10(%r14),%r12; jbe
        let larger = [0x4c, 0x8d, 0xa4, 0x24, 0x30, 0xff, 0xff, 0xff, 0x4d, 0x3b, 0x66, 0x10, 0x76, 0x34];
        assert_eq!(found(&larger), Some((14, 928)));
        // mov %rsp,%r12; sub $0x1000,%r12; jb; cmp 0x10(%r14),%r12; jbe
        let huge = [
            0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, 0, 0x10, 0, 0, 0x72, 0x20, 0x4d, 0x3b, 0x66, 0x10, 0x76, 0x34,
        ];
        assert_eq!(found(&huge), Some((18, 928)));
        // mov %fs:-8,%rcx; cmp 0x10(%rcx),%rsp; jbe
        let old = [0x64, 0x48, 0x8b, 0x0c, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x3b, 0x61, 0x10, 0x76, 0x34];
        assert_eq!(found(&old), Some((15, 880)));
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        // lea (%rax,%rax,2),%rcx; lea 1(%rcx),%rax; ret: a leaf
        assert_eq!(found(&[0x48, 0x8d, 0x0c, 0x40, 0x48, 0x8d, 0x41, 0x01, 0xc3]), None);
        // cmp 0x18(%r14),%rsp: stackguard1
        assert_eq!(found(&[0x49, 0x3b, 0x66, 0x18, 0x76, 0x34]), None);
        // cmp 0x10(%rax),%rsp
        assert_eq!(found(&[0x48, 0x3b, 0x60, 0x10, 0x76, 0x34]), None);
        // cmp 0x10(%r14),%rsp; ja
        assert_eq!(found(&[0x49, 0x3b, 0x66, 0x10, 0x77, 0x34]), None);
        // sub $8,%rsp; cmp 0x10(%r14),%rsp; jbe: what the comparison means is another thing then
        assert_eq!(found(&[0x48, 0x83, 0xec, 8, 0x49, 0x3b, 0x66, 0x10, 0x76, 0x34]), None);
    }

    #[test]
    fn the_place_is_behind_the_check_and_has_its_room() {
        let bytes = [0x49, 0x3b, 0x66, 0x10, 0x76, 0x34, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let place =
            |code| on_goroutine(code).map(|code| (code.place, code.room)).map_err(|refusal| refusal.code());
        assert_eq!(place(FunctionCode::at_entry(0x1000, &bytes, &[])), Ok((0x1006, Some(928))));
        assert_eq!(place(FunctionCode::at(0x1000, &bytes, &[], 0x100a)), Ok((0x100a, Some(792))));
        let refused = || Err("stack-unchecked".to_owned());
        assert_eq!(place(FunctionCode::at(0x1000, &bytes, &[], 0x1004)), refused());
        assert_eq!(place(FunctionCode::at_entry(0x1000, &bytes[6..], &[])), refused());
    }
}
