//! Generates what stands at the entry of a function that answers unwinders, and knows weir's code besides.
//!
//! ```text
//! entry:  push  %rax; push %r11
//!         lea   islands(%rip),%r11      ; {start, bytes, address of the word that says where the header is}, then zeros
//! next:   mov   %rdi,%rax               ; the program counter that is asked for
//!         sub   (%r11),%rax
//!         cmp   8(%r11),%rax
//!         jb    ours
//!         add   $24,%r11
//!         cmpq  $0,8(%r11)
//!         jne   next
//!         pop   %r11; pop %rax
//!         jmp   the trampoline of the function's own probes, else to its displaced instructions
//! ours:   pop   %rax; pop %rax
//!         mov   %r11,%r8; mov 16(%r8),%r11; mov (%r11),%r11       ; .eh_frame_hdr of that island
//!         …                                              ; the answer, by the question
//! ```
//!
//! It holds whether a gate is open or not: a thread may pass weir's frames long after the probes are gone. Called with
//! two arguments in rdi and rsi, as every function that is hooked; on the way to the function all registers but the
//! flags are kept, on the way back those that a function keeps.

use std::ops::Range;

use iced_x86::code_asm::{
    CodeAssembler, dword_ptr, eax, ecx, edx, ptr, qword_ptr, r8, r9, r9d, r10, r11, rax, rcx, rdi, rdx, rsi,
};
use iced_x86::{BlockEncoderOptions, IcedError};
use weir_plan::Refusal;
use weir_plan::window::Window;

use crate::isa::x86_64::relocate::relocate;
use crate::isa::x86_64::trampoline::{Placement, Trampoline};
use crate::limits::JUMP_BYTES;

/// Stands before a hook's entry, so that who takes over after a killed weir can tell it from probes: it is restored
/// last, when no thread comes back to weir's code any more.
pub const MARK: u64 = u64::from_le_bytes(*b"weirhook");

/// What a hooked function is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// `int _dl_find_object(void *pc, struct dl_find_object *)` of glibc (dlfcn.h): fills the structure and gives 0.
    Object,
    /// `const fde *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *)` of libgcc: gives the description, and fills in
    /// {text base, data base, start of the function}.
    Description,
}

/// An island, and where the address of its header is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    pub code: Range<u64>,
    pub header_word: u64,
}

/// What stands at an entry, and runs on at `next` where somebody else's code is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hook {
    pub code: Vec<u8>,
    /// Offset in `code` where the patch jumps to.
    pub entry: u32,
}

/// The hook of `question` for address `at`.
pub fn generate(at: u64, question: Question, islands: &[Known], next: u64) -> Hook {
    assemble(at, question, islands, next).expect("a hook's instructions can be encoded within an island")
}

/// What a hook runs on at where the function has no programs: its displaced instructions.
pub fn pass(window: &Window, placement: Placement) -> Result<Trampoline, Refusal> {
    let moved = relocate(&window.instructions, placement.bias, placement.at)?;
    let mut code = moved.code;
    let originals = window.instructions.iter().map(|instruction| instruction.ip() + placement.bias);
    let mut places: Vec<(u32, u64)> = moved.offsets.into_iter().zip(originals).collect();
    if window.goes_on() {
        let end = window.end() + placement.bias;
        places.push((code.len() as u32, end));
        let next = placement.at + code.len() as u64 + JUMP_BYTES as u64;
        let distance = i32::try_from(end.wrapping_sub(next) as i64);
        code.push(0xe9);
        code.extend_from_slice(&distance.expect("an island lies within reach of its sites").to_le_bytes());
    }
    Ok(Trampoline { code, entry: 0, places, frames: Vec::new(), calls_function: None })
}

fn assemble(at: u64, question: Question, islands: &[Known], next: u64) -> Result<Hook, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut table, mut ours, mut each, mut entry) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label());
    a.set_label(&mut table)?;
    let row = |island: &Known| [island.code.start, island.code.end - island.code.start, island.header_word];
    a.dq(&islands.iter().map(row).chain([[0; 3]]).flatten().collect::<Vec<u64>>())?;
    a.set_label(&mut ours)?;
    a.pop(rax)?;
    a.pop(rax)?;
    a.mov(r8, r11)?;
    a.mov(r11, qword_ptr(r8 + 16))?;
    a.mov(r11, qword_ptr(r11))?;
    match question {
        Question::Object => answer_object(&mut a)?,
        Question::Description => answer_description(&mut a)?,
    }
    a.dq(&[MARK])?;
    a.set_label(&mut entry)?;
    a.push(rax)?;
    a.push(r11)?;
    a.lea(r11, ptr(table))?;
    a.set_label(&mut each)?;
    a.mov(rax, rdi)?;
    a.sub(rax, qword_ptr(r11))?;
    a.cmp(rax, qword_ptr(r11 + 8))?;
    a.jb(ours)?;
    a.add(r11, 24)?;
    a.cmp(qword_ptr(r11 + 8), 0)?;
    a.jne(each)?;
    a.pop(r11)?;
    a.pop(rax)?;
    a.jmp(next)?;
    let assembled = a.assemble_options(at, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let entry = (assembled.label_ip(&entry)? - at) as u32;
    Ok(Hook { code: assembled.inner.code_buffer, entry })
}

/// r8: the island's row, r11: its header. The structure begins {flags, start, end, link_map, eh_frame}; what is behind is
/// reserved, and libgcc reads nothing but `eh_frame`. There is no link map.
fn answer_object(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rcx, qword_ptr(r8))?;
    a.mov(qword_ptr(rsi + 8), rcx)?;
    a.add(rcx, qword_ptr(r8 + 8))?;
    a.mov(qword_ptr(rsi + 16), rcx)?;
    a.mov(qword_ptr(rsi + 32), r11)?;
    a.xor(eax, eax)?;
    a.mov(qword_ptr(rsi), rax)?;
    a.mov(qword_ptr(rsi + 24), rax)?;
    a.ret()
}

/// Searches the table of the header at r11 for the last function that begins at or before rdi.
fn answer_description(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut search, mut lower, mut found, mut none) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label());
    a.mov(ecx, dword_ptr(r11 + 8))?; // entries of the table; those before eax begin early enough, those from ecx on do not
    a.lea(r8, ptr(r11 + 12))?;
    a.mov(rdx, rdi)?;
    a.sub(rdx, r11)?; // as the table has it, relative to the header
    a.mov(r10, rdx)?;
    a.xor(eax, eax)?;
    a.set_label(&mut search)?;
    a.cmp(eax, ecx)?;
    a.jae(found)?;
    a.lea(edx, ptr(rax + rcx))?;
    a.shr(edx, 1)?;
    a.movsxd(r9, dword_ptr(r8 + rdx * 8))?;
    a.cmp(r9, r10)?;
    a.jg(lower)?;
    a.lea(eax, ptr(rdx + 1))?;
    a.jmp(search)?;
    a.set_label(&mut lower)?;
    a.mov(ecx, edx)?;
    a.jmp(search)?;
    a.set_label(&mut found)?;
    a.test(eax, eax)?;
    a.jz(none)?;
    a.movsxd(rax, dword_ptr(r8 + rax * 8 - 4))?;
    a.add(rax, r11)?; // the description: length, CIE, begin (relative to itself), bytes of code
    a.movsxd(rdx, dword_ptr(rax + 8))?;
    a.lea(rdx, ptr(rax + rdx + 8))?;
    a.sub(rdi, rdx)?;
    a.mov(r9d, dword_ptr(rax + 12))?;
    a.cmp(rdi, r9)?;
    a.jae(none)?;
    a.mov(qword_ptr(rsi), 0)?;
    a.mov(qword_ptr(rsi + 8), 0)?;
    a.mov(qword_ptr(rsi + 16), rdx)?;
    a.ret()?;
    a.set_label(&mut none)?;
    a.xor(eax, eax)?;
    a.ret()
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, FormatMnemonicOptions, Formatter, GasFormatter, Instruction};

    use super::*;
    use crate::isa::x86_64::meter::Metering;
    use crate::limits::{HOOK_BYTES_MAX, ISLANDS_MAX};
    use weir_plan::body;
    use weir_plan::window::{FunctionCode, plan};

    const AT: u64 = 0x7f00_0010_0000;
    const NEXT: u64 = 0x7f00_0000_4000;

    fn hook(question: Question, islands: usize) -> Hook {
        let known = Known { code: 0x10_0000..0x20_0000, header_word: 0x1f_fff8 };
        generate(AT, question, &vec![known; islands], NEXT)
    }

    #[test]
    fn other_addresses_go_on() {
        for question in [Question::Object, Question::Description] {
            let hook = hook(question, 2);
            let mut formatter = GasFormatter::new();
            let at = AT + u64::from(hook.entry);
            let lines: Vec<String> =
                Decoder::with_ip(64, &hook.code[hook.entry as usize..], at, DecoderOptions::NONE)
                    .iter()
                    .map(|instruction: Instruction| {
                        let mut line = String::new();
                        formatter.format_mnemonic_options(
                            &instruction,
                            &mut line,
                            FormatMnemonicOptions::NONE,
                        );
                        line
                    })
                    .collect();
            let wanted = "push push lea mov sub cmp jb add cmpq jne pop pop jmp";
            assert_eq!(lines.join(" "), wanted, "{question:?}");
        }
    }

    #[test]
    fn what_is_displaced_runs_elsewhere() {
        // mov x(%rip),%rax; jmp *0x360(%rax)
        let bytes = [0x48, 0x8b, 0x05, 0xc1, 0x2f, 0x08, 0, 0xff, 0xa0, 0x60, 3, 0, 0];
        let window = plan(FunctionCode::at_entry(0x1000, &bytes, &[]), &body::read(0x1000, &bytes)).unwrap();
        let metering = Metering { lease: 0, meter: 0, routines: AT };
        let (bias, function) = (0x7f00_0000_0000, 0x7f00_0000_1000);
        let placement = Placement { at: AT, bias, gate: 0, metering, forked: AT, hit: AT, function };
        let pass = pass(&window, placement).unwrap();
        assert_eq!(pass.places, [(0, 0x7f00_0000_1000), (7, 0x7f00_0000_1007)]);
        assert_eq!(pass.code.len(), 12);
    }

    #[test]
    fn the_mark_stands_before_the_entry() {
        let hook = hook(Question::Object, 1);
        let before = hook.entry as usize - 8;
        assert_eq!(hook.code[before..before + 8], *b"weirhook");
    }

    #[test]
    fn sixteen_islands_fit() {
        for question in [Question::Object, Question::Description] {
            let hook = hook(question, ISLANDS_MAX);
            assert!(hook.code.len() <= HOOK_BYTES_MAX, "{} bytes", hook.code.len());
        }
    }
}
