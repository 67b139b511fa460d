//! Decides where a function can be patched, and proves what can be proved from its bytes alone.
//!
//! In: the bytes of a whole function, as in its file, where the file says it lies, and the instruction to begin at: the
//! first one (after `endbr64`, which stays), or any, as a static probe's `nop`. Out: a [`Window`], the
//! instructions that a jump displaces, or the [`Refusal`] that says why there is none.
//!
//! The jump is written over that instruction and those behind it, or at a function's exit those before it:
//!
//! ```text
//! malloc:     push %r12                jmp trampoline
//!             push %rbp                      ⋮
//!             push %rbx           →    (rest of the last displaced instruction)
//!             mov  x(%rip),%rax        ⋮
//!
//! get:        mov  (%rdi),%rax         jmp trampoline       the function ends within 5 bytes; behind it lie
//!             ret                 →                         bytes that nothing reaches (crate::isa::x86_64::cave)
//!             nop  (padding)
//!
//! init:       sub  $8,%rsp             jmp hole (2 bytes)   5 bytes would cover the call; the jump that leads
//!             call start          →    …                    far enough stands in a hole within 127 bytes
//! (padding)   nop  (5 bytes)           jmp trampoline
//!
//! enter:      push %rbx                jmp outpost          only the first byte changes: the other four are those of
//!             call start          →    (its last 4 bytes    the call, and where they lead, an outpost is put
//!                                       are the call's)
//!
//!             add  $24,%rsp            jmp trampoline       programs run right before the `ret`, behind the others
//!             pop  %rbx           →
//!             ret
//! ```
//!
//! Proved here, by decoding the function from its first byte to its last:
//! - the displaced instructions are whole, inside the function, and the patch lies inside one page;
//! - none of them is a system call (which the kernel restarts by stepping back two bytes), and none a call but the last:
//!   its return address is the window's end, and stays that, so that callee and unwinders see no difference;
//! - no branch of the function goes to the inside of the patch.
//!
//! A patch may cross a cache line: everything is written while all threads are stopped. Live writes of patches over one
//! instruction inside one line are left for later.
//!
//! Proved elsewhere: branches and pointers from other code ([`crate::incoming`]); threads and signal frames
//! (weir-probe's `stack`, while the target is stopped).

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

use crate::isa::x86_64::body::Body;
use crate::isa::x86_64::cave;
use crate::isa::x86_64::window::{Hole, Shape, Window};
use crate::limits::{FUNCTION_BYTES_MAX, HOLE_REACH, JUMP_BYTES, SHORT_JUMP_BYTES, WINDOW_BYTES_MAX};
use crate::refusal::Refusal;

/// A function's code as its file has it.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCode<'a> {
    /// Link address of the first byte.
    pub address: u64,
    pub bytes: &'a [u8],
    /// What lies between its end and the next function, where that is known.
    pub behind: &'a [u8],
    /// Link address of the first instruction to displace.
    pub place: u64,
    /// The place is not the function's beginning.
    pub inside: bool,
    /// Bytes below the stack pointer that are free at the place; `None`: the rest of a thread's stack.
    pub room: Option<u32>,
    /// Link address of the instruction that leaves the function, where programs are to run: displaced with all from the place on.
    pub exit: Option<u64>,
}

impl<'a> FunctionCode<'a> {
    /// To be patched at its beginning, behind an `endbr64`.
    pub fn at_entry(address: u64, bytes: &'a [u8], behind: &'a [u8]) -> FunctionCode<'a> {
        const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let place = address + if bytes.starts_with(&LANDING_PAD) { LANDING_PAD.len() as u64 } else { 0 };
        FunctionCode { address, bytes, behind, place, inside: false, room: None, exit: None }
    }

    /// To be patched at the instruction at `place`.
    pub fn at(address: u64, bytes: &'a [u8], behind: &'a [u8], place: u64) -> FunctionCode<'a> {
        FunctionCode { address, bytes, behind, place, inside: true, room: None, exit: None }
    }

    /// To be patched before and at the instruction at `exit`, which leaves the function: with so few of those before it, the last of
    /// which `before` has, that a jump fits.
    pub fn at_exit(
        address: u64,
        bytes: &'a [u8],
        behind: &'a [u8],
        exit: u64,
        before: &[u64],
        body: &Body,
    ) -> FunctionCode<'a> {
        let from =
            |place: u64| FunctionCode { exit: Some(exit), ..FunctionCode::at(address, bytes, behind, place) };
        let places = || std::iter::once(exit).chain(before.iter().rev().copied()).map(from);
        let near = places().find(|code| plan(*code, body).is_ok());
        let short =
            || places().find(|code| displaced(*code, SHORT_JUMP_BYTES).and_then(|w| check(w, body)).is_ok());
        near.or_else(short).unwrap_or_else(|| from(exit))
    }

    /// An error where no instruction begins at the place, as decoded from the function's first byte.
    pub fn check_place(&self) -> Result<(), Refusal> {
        let offset = self.place.wrapping_sub(self.address);
        let mut decoder = Decoder::with_ip(64, self.bytes, self.address, DecoderOptions::NONE);
        while decoder.ip() < self.place && decoder.can_decode() {
            if decoder.decode().is_invalid() {
                break;
            }
        }
        let is_one = decoder.ip() == self.place && decoder.can_decode();
        if is_one { Ok(()) } else { Err(Refusal::NotAnInstruction { offset }) }
    }
}

/// Plans a near jump over the instructions at the place of `code`.
pub fn plan(code: FunctionCode, body: &Body) -> Result<Window, Refusal> {
    let window = displaced(code, JUMP_BYTES)?;
    check(window, body)
}

/// The same where the last displaced instruction may be a call.
pub fn plan_to_call(code: FunctionCode, body: &Body) -> Result<Window, Refusal> {
    let window = displaced_to(code, JUMP_BYTES, true)?;
    check(window, body)
}

/// Plans a short jump over the instructions at the place of `code`, through `hole`.
pub fn plan_short(code: FunctionCode, body: &Body, hole: Hole) -> Result<Window, Refusal> {
    let mut window = displaced(code, SHORT_JUMP_BYTES)?;
    window.shape = Shape::Short(hole);
    check(window, body)
}

/// Plans a jump over the instruction at the place of `code` whose last bytes are what stands behind that.
pub fn plan_punned(code: FunctionCode, body: &Body) -> Result<Window, Refusal> {
    let mut window = displaced(code, 1)?;
    let from = (window.end() - code.address) as usize;
    let missing = JUMP_BYTES.saturating_sub(window.bytes.len());
    let behind = [&code.bytes[from..code.bytes.len().min(from + missing)], code.behind].concat();
    let tail = behind.get(..missing).filter(|tail| !tail.is_empty());
    let tail = tail.ok_or(Refusal::TooShort { available: window.bytes.len() })?;
    // Only the displaced instruction is written to.
    if window.address / 4096 != (window.end() - 1) / 4096 {
        return Err(Refusal::PageStraddle);
    }
    window.shape = Shape::Punned { tail: tail.to_vec() };
    check(window, body)
}

/// Where a hole for a short jump at `address` may begin.
pub fn hole_range(address: u64) -> Range<u64> {
    let next = address + SHORT_JUMP_BYTES as u64;
    next.saturating_sub(HOLE_REACH + 1)..next + HOLE_REACH + 1
}

/// The first instructions that together, or with padding behind them, have `wanted` bytes.
fn displaced(code: FunctionCode, wanted: usize) -> Result<Window, Refusal> {
    displaced_to(code, wanted, false)
}

fn displaced_to(code: FunctionCode, wanted: usize, may_call: bool) -> Result<Window, Refusal> {
    if code.bytes.is_empty() {
        return Err(Refusal::SizeUnknown);
    }
    if code.bytes.len() as u64 > FUNCTION_BYTES_MAX {
        return Err(Refusal::TooLong { bytes: code.bytes.len() as u64, max: FUNCTION_BYTES_MAX });
    }
    if code.inside {
        code.check_place()?;
    }
    let address = code.place;
    let start = (address - code.address) as usize;
    let mut decoder = Decoder::with_ip(64, &code.bytes[start..], address, DecoderOptions::NONE);
    let mut instructions = Vec::new();
    let mut length = 0;
    let mut padding = Vec::new();
    let is_before_exit = |length: usize| code.exit.is_some_and(|exit| address + length as u64 <= exit);
    while length < wanted || is_before_exit(length) {
        if !decoder.can_decode() {
            return Err(Refusal::TooShort { available: length });
        }
        let next = decoder.decode();
        length = (next.next_ip() - address) as usize;
        if !(may_call && length >= wanted && is_movable_call(&next)) {
            check_displaced(code, &next)?;
        }
        instructions.push(next);
        if length < wanted && cave::ends_flow(&next) {
            padding = padding_at(code, start + length, wanted - length).ok_or_else(|| {
                match start + length == code.bytes.len() {
                    true => Refusal::TooShort { available: length },
                    false => Refusal::EndsInWindow { offset: next.ip() - code.address },
                }
            })?;
            break;
        }
    }
    if length > WINDOW_BYTES_MAX {
        // Only before an exit: else a window ends with the instruction that makes it long enough.
        return Err(Refusal::TooLong { bytes: length as u64, max: WINDOW_BYTES_MAX as u64 });
    }
    if address / 4096 != (address + wanted as u64 - 1) / 4096 {
        return Err(Refusal::PageStraddle);
    }
    Ok(Window {
        address,
        instructions,
        bytes: code.bytes[start..start + length].to_vec(),
        padding,
        shape: Shape::Near,
        uprobe_unsafe: start == 0 || code.inside,
        inside: code.inside,
        room: code.room,
        is_exit: code.exit.is_some(),
        beneath: Vec::new(),
    })
}

/// Bytes of the whole instructions at the beginning of `code` that so many written bytes are over.
pub fn reach(code: &[u8], written: usize) -> usize {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.position() < written && decoder.can_decode() {
        let _ = decoder.decode();
    }
    decoder.position().max(written)
}

/// A call that can be made from elsewhere: its target does not depend on the stack pointer, which is another one
/// there.
pub fn is_movable_call(instruction: &Instruction) -> bool {
    let uses_stack = [instruction.op0_register(), instruction.memory_base(), instruction.memory_index()]
        .contains(&Register::RSP);
    match instruction.code() {
        Code::Call_rel32_64 => true,
        Code::Call_rm64 => instruction.flow_control() == FlowControl::IndirectCall && !uses_stack,
        _ => false,
    }
}

/// The `wanted` bytes from `offset` on, in and behind the function, if they are nothing but padding.
fn padding_at(code: FunctionCode, offset: usize, wanted: usize) -> Option<Vec<u8>> {
    let inside = &code.bytes[offset..];
    let mut bytes = inside[..inside.len().min(cave::PADDING_BYTES_MAX)].to_vec();
    if bytes.len() == inside.len() {
        bytes.extend_from_slice(code.behind);
    }
    (cave::padding(&bytes) >= wanted).then(|| bytes[..wanted].to_vec())
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

/// Holds the window against the rest of the function.
fn check(window: Window, body: &Body) -> Result<Window, Refusal> {
    if let Some(offset) = body.undecodable {
        return Err(Refusal::Undecodable { offset });
    }
    // Any byte counts, also one inside an instruction: old lock sequences jump over a prefix.
    let written = window.address + 1..window.address + window.patch_bytes() as u64;
    let unreachable = window.unreachable();
    let target = body.targets.iter().find(|target| written.contains(target) || unreachable.contains(target));
    if let Some(&target) = target {
        return Err(Refusal::BranchIntoWindow { offset: target.wrapping_sub(body.address) });
    }
    Ok(window)
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
        match at(0x1000, bytes, &[]) {
            Ok(window) => Ok((window.instructions.len(), window.bytes.len())),
            Err(refusal) => Err(refusal.code()),
        }
    }

    fn at(address: u64, bytes: &[u8], behind: &[u8]) -> Result<Window, Refusal> {
        plan(FunctionCode::at_entry(address, bytes, behind), &crate::isa::x86_64::body::read(address, bytes))
    }

    fn refused(code: &str) -> Result<(usize, usize), String> {
        Err(code.into())
    }

    #[test]
    fn what_is_written_takes_whole_instructions() {
        // push %rbx; mov %rdi,%rbx; sub $16,%rsp
        let code = [0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10];
        assert_eq!([1, 2, 4, 5].map(|written| reach(&code, written)), [1, 4, 4, 8]);
        assert_eq!(reach(&code[..2], 5), 5);
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
        let window = at(0x1000, &bytes, &[]).unwrap();
        assert_eq!((window.address, window.uprobe_unsafe), (0x1004, false));
    }

    #[test]
    fn refuses_short_functions() {
        assert_eq!(outcome(&[0xc3]), refused("too-short"));
        assert_eq!(outcome(&[0xf3, 0xc3]), refused("too-short"));
        assert_eq!(outcome(&[0x31, 0xc0, 0xc3, 0x53, 0x90, 0x90]), refused("ends-in-window"));
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
        let refusal = at(0x1ffd, &bytes, &[]).unwrap_err();
        assert_eq!(refusal, Refusal::PageStraddle);
    }

    #[test]
    fn takes_padding_behind_what_ends_too_early() {
        let check = |bytes: &[u8], behind: &[u8]| {
            let planned = at(0x1000, bytes, behind);
            planned.map(|w| (w.bytes.len(), w.padding.len(), w.goes_on())).map_err(|refusal| refusal.code())
        };
        assert_eq!(check(&[0xc3], &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]), Ok((1, 4, false)));
        assert_eq!(check(&[0x48, 0x8b, 0x07, 0xc3], &[0xcc]), Ok((4, 1, false)));
        assert_eq!(check(&[0x31, 0xc9, 0xeb, 0x1d, 0x0f, 0x1f, 0x40, 0], &[]), Ok((4, 1, false)));
        assert_eq!(check(&[0xc3], &[0x90, 0x90, 0x90]), Err("too-short".into()));
        assert_eq!(check(&[0xc3], &[0x90, 0x90, 0x90, 0x55]), Err("too-short".into()));
        assert_eq!(
            check(&[0x31, 0xc0], &[0x90, 0x90, 0x90]),
            Err("too-short".into()),
            "it goes on into the padding"
        );
    }

    #[test]
    fn leads_through_a_hole_where_five_bytes_are_too_many() {
        let check = |bytes: &[u8], hole: u64| {
            let hole = Hole { address: hole, bytes: [0x90; JUMP_BYTES] };
            let code = FunctionCode::at_entry(0x1000, bytes, &[]);
            let window = plan_short(code, &crate::isa::x86_64::body::read(0x1000, bytes), hole);
            window.map(|w| {
                w.writes(0x10_0000, 0x18_0000).into_iter().map(|w| (w.address, w.new)).collect::<Vec<_>>()
            })
        };
        let call_second = [0x48, 0x83, 0xec, 0x08, 0xe8, 0, 1, 0, 0, 0xc3];
        assert_eq!(
            check(&call_second, 0xff0).unwrap(),
            [(0x10_0ff0, vec![0xe9, 0x0b, 0xf0, 0x07, 0]), (0x10_1000, vec![0xeb, 0xee])]
        );
        let refused = |bytes: &[u8]| check(bytes, 0xff0).unwrap_err().code();
        assert_eq!(refused(&[0x53, 0xe8, 0, 1, 0, 0, 0xc3]), "call-in-window");
        // push %rbx; mov %edi,%ebx; jmp -4 (to the mov)
        assert_eq!(refused(&[0x53, 0x89, 0xfb, 0xeb, 0xfc]), "branch-into-window");
    }

    #[test]
    fn puns_leave_what_stands_behind() {
        let check = |bytes: &[u8], bias: u64| -> Result<(usize, Range<u64>), String> {
            let code = FunctionCode::at_entry(0x1000, bytes, &[0xcc, 0xcc]);
            let window = plan_punned(code, &crate::isa::x86_64::body::read(0x1000, bytes))
                .map_err(|refusal| refusal.code())?;
            let targets = window.targets(bias).unwrap();
            let written = window.writes(bias, targets.start).remove(0);
            assert_eq!(written.address, bias + 0x1000);
            Ok((written.new.len(), targets))
        };
        // push %rbx; call: e8 00 01 00 is the displacement.
        let call = [0x53, 0xe8, 0, 1, 0, 0, 0xc3];
        assert_eq!(
            check(&call, 0x7f00_0000_0000),
            Ok((1, 0x7f00_0000_1005 + 0x1_00e8..0x7f00_0000_1005 + 0x1_00e9))
        );
        // sub $8,%rsp; call: three bytes are free.
        let call = [0x48, 0x83, 0xec, 8, 0xe8, 0, 1, 0, 0, 0xc3];
        let first = 0x7f00_0000_1005 - 0x1800_0000;
        assert_eq!(check(&call, 0x7f00_0000_0000), Ok((4, first..first + (1 << 24))));
        assert_eq!(
            check(&[0x48, 0x89, 0xf8, 0xc3], 0x7f00_0000_0000).map(|found| found.0),
            Ok(3),
            "with padding"
        );
        assert_eq!(check(&[0xc3], 0), Err("too-short".into()));
        assert_eq!(check(&[0xe8, 0, 1, 0, 0, 0xc3], 0), Err("call-in-window".into()));
    }

    #[test]
    fn a_pun_refuses_to_write_across_a_page() {
        // sub $8,%rsp; call: four bytes are written, and one of the call's is borrowed.
        let bytes = [0x48, 0x83, 0xec, 8, 0xe8, 0, 1, 0, 0, 0xc3];
        let check = |address: u64| {
            let code = FunctionCode::at_entry(address, &bytes, &[]);
            plan_punned(code, &crate::isa::x86_64::body::read(address, &bytes))
                .map(|window| window.patch_bytes())
        };
        for address in [0x1ffd, 0x1ffe, 0x1fff] {
            assert_eq!(check(address).unwrap_err(), Refusal::PageStraddle, "{address:#x}");
        }
        assert_eq!(check(0x1ffc).unwrap(), 4, "what is borrowed may lie in the next one");
        assert_eq!(check(0x2000).unwrap(), 4);
    }

    #[test]
    fn holes_lie_within_reach() {
        let reach = hole_range(0x1000);
        assert_eq!((reach.start, reach.end), (0x1002 - 128, 0x1002 + 128));
    }

    /// `mov $1,%eax; nop; pop %rbx; pop %rbp; pop %r12; ret`.
    const STRAIGHT: &[u8] = &[0xb8, 1, 0, 0, 0, 0x90, 0x5b, 0x5d, 0x41, 0x5c, 0xc3];

    fn inside(offset: u64) -> Result<(usize, usize), String> {
        let code = FunctionCode::at(0x1000, STRAIGHT, &[], 0x1000 + offset);
        match plan(code, &crate::isa::x86_64::body::read(0x1000, STRAIGHT)) {
            Ok(window) => {
                assert!(window.inside && window.address == 0x1000 + offset);
                Ok((window.instructions.len(), window.bytes.len()))
            }
            Err(refusal) => Err(refusal.code()),
        }
    }

    #[test]
    fn a_window_begins_where_it_is_told() {
        assert_eq!(inside(5), Ok((4, 5)));
        assert_eq!(inside(0), Ok((1, 5)));
    }

    /// Of an exit at `offset` of a function with these instructions in a row before: where the window begins, how many instructions it
    /// has, and how many of them run before the programs.
    fn at_exit(bytes: &[u8], offset: u64, behind: &[u8]) -> Result<(u64, usize, usize), String> {
        let exit = 0x1000 + offset;
        let body = crate::isa::x86_64::body::read(0x1000, bytes);
        let before = crate::isa::x86_64::exits::in_a_row_before(bytes, 0x1000, exit);
        let code = FunctionCode::at_exit(0x1000, bytes, behind, exit, &before, &body);
        let window = plan(code, &body).map_err(|refusal| refusal.code())?;
        assert!(window.is_exit && window.inside && !window.goes_on());
        Ok((window.address - 0x1000, window.instructions.len(), window.parts().0.len()))
    }

    #[test]
    fn a_window_at_an_exit_begins_as_late_as_a_jump_allows() {
        // The last three pops and the `ret` have 5 bytes.
        assert_eq!(at_exit(STRAIGHT, 10, &[]), Ok((6, 4, 3)));
        // A jump of five bytes needs nothing before it, nor a `ret` with padding behind.
        assert_eq!(at_exit(&[0x5b, 0xe9, 0, 1, 0, 0], 1, &[]), Ok((1, 1, 0)));
        assert_eq!(at_exit(&[0x5b, 0x58, 0xc3], 2, &[0x90; 8]), Ok((2, 1, 0)));
    }

    #[test]
    fn a_window_at_an_exit_has_nothing_before_it_that_is_jumped_over() {
        // jne +5 (to the pop); mov $1,%eax; pop %rbx; ret
        let bytes = [0x75, 5, 0xb8, 1, 0, 0, 0, 0x5b, 0xc3];
        assert_eq!(at_exit(&bytes, 8, &[]), Err("too-short".into()));
        // The same to the mov: a window may begin where something leads.
        let bytes = [0x75, 0, 0xb8, 1, 0, 0, 0, 0x5b, 0xc3];
        assert_eq!(at_exit(&bytes, 8, &[]), Ok((2, 3, 2)));
    }

    #[test]
    fn only_instructions_are_places() {
        for offset in [1, 4, 9, 11, 100] {
            assert_eq!(inside(offset), Err("not-an-instruction".into()), "{offset}");
        }
        assert_eq!(inside(7), Err("too-short".into()), "pop, pop, ret: 4 bytes");
    }
}
