//! Decides where a function's entry can be patched, and proves what can be proved from its bytes alone.
//!
//! In: the bytes of a whole function, as in its file, and where the file says it lies. Out: a [`Window`], the
//! instructions that a 5-byte jump displaces, or the [`Refusal`] that says why there is none.
//!
//! The jump is written over the first instructions of the function (after `endbr64`, which stays):
//!
//! ```text
//! malloc:     push %r12                jmp trampoline
//!             push %rbp                      ⋮
//!             push %rbx           →    (rest of the last displaced instruction)
//!             mov  x(%rip),%rax        ⋮
//! ```
//!
//! Proved here, by decoding the function from its first byte to its last:
//! - the displaced instructions are whole, inside the function, and inside one page;
//! - none of them is a call (its return address would lie inside the patch, or unwinders would see a return
//!   address in generated code) or a system call (which the kernel restarts by stepping back two bytes);
//! - no branch of the function goes to the inside of the patch.
//!
//! Proved elsewhere: branches and pointers from other code ([`crate::incoming`]); threads and signal frames
//! ([`crate::stack`], while the target is stopped).

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use crate::limits::{FUNCTION_BYTES_MAX, JUMP_BYTES, WINDOW_BYTES_MAX};
use crate::refusal::Refusal;

/// A function's code as its file has it.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCode<'a> {
    /// Link address of the first byte.
    pub address: u64,
    pub bytes: &'a [u8],
}

/// The instructions that the jump displaces, and what the rest of the function said about them.
#[derive(Clone, Debug)]
pub struct Window {
    /// Link address of the first displaced instruction: where the jump is written.
    pub address: u64,
    /// Displaced instructions, whole, at their link addresses.
    pub instructions: Vec<Instruction>,
    /// Bytes of the displaced instructions, ≥ 5.
    pub bytes: Vec<u8>,
    /// Offsets from the function's start of indirect jumps, whose targets this module cannot see.
    pub indirect_jumps: Vec<u64>,
    /// Addresses that the function takes with a RIP-relative `lea`: possible bases of its jump tables.
    pub lea_targets: Vec<u64>,
    /// The jump overwrites the symbol's first instruction (no `endbr64` before it): a kernel uprobe on the same
    /// function would resume inside it.
    pub uprobe_unsafe: bool,
}

impl Window {
    /// Link addresses of displaced instructions but the first: where nothing may ever continue.
    pub fn interior(&self) -> impl Iterator<Item = u64> + '_ {
        self.instructions.iter().skip(1).map(Instruction::ip)
    }

    pub fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    /// How the function is patched, for `--emit sites`.
    pub fn technique(&self) -> String {
        match self.instructions.len() {
            1 => "jump over 1 instruction".into(),
            count => format!("jump over {count} instructions"),
        }
    }
}

/// Plans the patch of the function `code`.
pub fn plan(code: FunctionCode) -> Result<Window, Refusal> {
    if code.bytes.is_empty() {
        return Err(Refusal::SizeUnknown);
    }
    if code.bytes.len() as u64 > FUNCTION_BYTES_MAX {
        return Err(Refusal::TooLong { bytes: code.bytes.len() as u64, max: FUNCTION_BYTES_MAX });
    }
    let mut window = displaced(code)?;
    check_rest(code, &mut window)?;
    Ok(window)
}

/// The first instructions that together are long enough.
fn displaced(code: FunctionCode) -> Result<Window, Refusal> {
    let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
    let mut first = decoder.decode();
    let has_landing_pad = first.code() == Code::Endbr64;
    if has_landing_pad && decoder.can_decode() {
        first = decoder.decode();
    }
    let address = first.ip();
    let start = (address - code.address) as usize;
    if code.bytes.len() - start.min(code.bytes.len()) < JUMP_BYTES {
        return Err(Refusal::TooShort { available: code.bytes.len() - start.min(code.bytes.len()) });
    }
    let mut instructions = Vec::new();
    let mut next = first;
    loop {
        check_displaced(code, &next)?;
        instructions.push(next);
        let length = (next.next_ip() - address) as usize;
        if length >= JUMP_BYTES {
            let bytes = code.bytes[start..start + length].to_vec();
            assert!(
                bytes.len() <= WINDOW_BYTES_MAX,
                "a window ends with the instruction that makes it long enough"
            );
            if address / 4096 != (address + JUMP_BYTES as u64 - 1) / 4096 {
                return Err(Refusal::PageStraddle);
            }
            return Ok(Window {
                address,
                instructions,
                bytes,
                indirect_jumps: Vec::new(),
                lea_targets: Vec::new(),
                uprobe_unsafe: !has_landing_pad,
            });
        }
        if matches!(
            next.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        ) {
            return Err(Refusal::EndsInWindow { offset: next.ip() - code.address });
        }
        if !decoder.can_decode() {
            return Err(Refusal::TooShort { available: length });
        }
        next = decoder.decode();
    }
}

fn check_displaced(code: FunctionCode, instruction: &Instruction) -> Result<(), Refusal> {
    let offset = instruction.ip() - code.address;
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => {
            // iced counts system calls among the calls.
            let is_system_call =
                matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Vmcall);
            Err(if is_system_call {
                Refusal::SyscallInWindow { offset }
            } else {
                Refusal::CallInWindow { offset }
            })
        }
        FlowControl::Interrupt => Err(Refusal::SyscallInWindow { offset }),
        FlowControl::Exception if instruction.is_invalid() => Err(Refusal::Undecodable { offset }),
        FlowControl::XbeginXabortXend => {
            Err(Refusal::NotRelocatable { offset, detail: "a hardware transaction".into() })
        }
        _ => Ok(()),
    }
}

/// Decodes the whole function and looks at where each instruction may go.
fn check_rest(code: FunctionCode, window: &mut Window) -> Result<(), Refusal> {
    let inside = window.address + 1..window.end();
    let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let offset = instruction.ip() - code.address;
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable { offset });
        }
        if let Some(target) = near_target(&instruction)
            && inside.contains(&target)
        {
            return Err(Refusal::BranchIntoWindow { offset: target - code.address });
        }
        if instruction.flow_control() == FlowControl::IndirectBranch && !is_import_jump(&instruction) {
            window.indirect_jumps.push(offset);
        }
        if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
            window.lea_targets.push(instruction.ip_rel_memory_address());
        }
    }
    window.lea_targets.sort_unstable();
    window.lea_targets.dedup();
    Ok(())
}

/// The target of a direct branch or call.
pub(crate) fn near_target(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| instruction.near_branch_target())
}

/// `jmp *x(%rip)`: a tail call through the global offset table, which holds addresses of other functions.
fn is_import_jump(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans a function at 0x1000 that consists of `bytes`, then `ret` and enough `nop`s.
    fn check(bytes: &[u8]) -> Result<(usize, usize), String> {
        let mut all = bytes.to_vec();
        all.extend_from_slice(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xc3]);
        outcome(&all)
    }

    fn outcome(bytes: &[u8]) -> Result<(usize, usize), String> {
        match plan(FunctionCode { address: 0x1000, bytes }) {
            Ok(window) => Ok((window.instructions.len(), window.bytes.len())),
            Err(refusal) => Err(refusal.code()),
        }
    }

    fn refused(code: &str) -> Result<(usize, usize), String> {
        Err(code.into())
    }

    #[test]
    fn takes_one_long_instruction() {
        assert_eq!(check(&[0xb8, 1, 0, 0, 0]), Ok((1, 5))); // mov $1,%eax
    }

    #[test]
    fn takes_several_short_ones() {
        // push %r12; push %rbp; push %rbx; mov 0x10(%rip),%rax: how malloc begins
        assert_eq!(check(&[0x41, 0x54, 0x55, 0x53, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0]), Ok((4, 11)));
    }

    #[test]
    fn leaves_the_landing_pad() {
        let bytes = [0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 1, 0, 0, 0, 0xc3];
        let window = plan(FunctionCode { address: 0x1000, bytes: &bytes }).unwrap();
        assert_eq!((window.address, window.uprobe_unsafe), (0x1004, false));
    }

    #[test]
    fn refuses_short_functions() {
        assert_eq!(outcome(&[0xc3]), refused("too-short"));
        assert_eq!(outcome(&[0xf3, 0xc3]), refused("too-short"));
        assert_eq!(outcome(&[0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90]), refused("ends-in-window"));
        assert_eq!(outcome(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3]), refused("too-short"));
        assert_eq!(outcome(&[]), refused("size-unknown"));
    }

    #[test]
    fn refuses_calls_and_system_calls() {
        assert_eq!(check(&[0xe8, 0x10, 0, 0, 0]), refused("call-in-window"));
        assert_eq!(check(&[0x53, 0xff, 0xd0, 0x90]), refused("call-in-window"));
        assert_eq!(check(&[0x31, 0xc0, 0x0f, 0x05, 0x90]), refused("syscall-in-window"));
        assert_eq!(check(&[0xcc, 0x90]), refused("syscall-in-window"));
    }

    #[test]
    fn refuses_a_loop_back_into_the_window() {
        // push %rbx; mov %rdi,%rbx; dec %rbx; jne -5 (to the dec); the window covers push, mov, dec
        assert_eq!(
            check(&[0x53, 0x48, 0x89, 0xfb, 0x48, 0xff, 0xcb, 0x75, 0xfb]),
            refused("branch-into-window")
        );
    }

    #[test]
    fn accepts_a_loop_back_to_the_first_instruction() {
        assert_eq!(check(&[0x48, 0xff, 0xcf, 0x48, 0x85, 0xff, 0x75, 0xf8]), Ok((2, 6)));
    }

    #[test]
    fn accepts_a_branch_out_of_the_window() {
        // test %rdi,%rdi; je +2
        assert_eq!(check(&[0x48, 0x85, 0xff, 0x74, 0x02]), Ok((2, 5)));
    }

    #[test]
    fn refuses_bytes_that_are_no_instruction() {
        assert_eq!(check(&[0x06, 0x90]), refused("undecodable"));
        assert_eq!(check(&[0xb8, 1, 0, 0, 0, 0x06]), refused("undecodable"));
    }

    #[test]
    fn refuses_to_cross_a_page() {
        let bytes = [0xb8, 1, 0, 0, 0, 0xc3];
        let refusal = plan(FunctionCode { address: 0x1ffd, bytes: &bytes }).unwrap_err();
        assert_eq!(refusal, Refusal::PageStraddle);
    }

    #[test]
    fn remembers_indirect_jumps_and_table_bases() {
        // lea 0x100(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax
        let bytes = [0x48, 0x8d, 0x15, 0, 1, 0, 0, 0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0];
        let window = plan(FunctionCode { address: 0x1000, bytes: &bytes }).unwrap();
        assert_eq!((window.indirect_jumps, window.lea_targets), (vec![0xe], vec![0x1107]));
    }
}
