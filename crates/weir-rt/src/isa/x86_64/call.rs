//! Calls a program of this process with a frame above its return address, as a trampoline does in a target.

use std::arch::global_asm;

use crate::executable::Frame;

unsafe extern "C" {
    pub(crate) fn weir_rt_call_program(code: *const u8, frame: *mut Frame) -> u64;
}

/// Words of a [`Frame`] that the thunk copies.
const FRAME_WORDS: usize = size_of::<Frame>() / 8;

const _: () = assert!(FRAME_WORDS.is_multiple_of(2), "the thunk keeps the stack aligned to 16 bytes");

// A program may change any register that it names in `clobbers`, so every callee-saved one is saved here. Nothing
// but rsp is relied on after the call.
global_asm!(
    ".pushsection .text",
    ".p2align 4",
    ".globl weir_rt_call_program",
    ".hidden weir_rt_call_program",
    ".type weir_rt_call_program, @function",
    "weir_rt_call_program:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rsi",
    "sub rsp, {frame_bytes}",
    "xor ecx, ecx",
    "2: mov rax, [rsi + rcx * 8]",
    "mov [rsp + rcx * 8], rax",
    "inc ecx",
    "cmp ecx, {frame_words}",
    "jb 2b",
    "call rdi",
    "mov rsi, [rsp + {frame_bytes}]",
    "xor ecx, ecx",
    "3: mov rdx, [rsp + rcx * 8]",
    "mov [rsi + rcx * 8], rdx",
    "inc ecx",
    "cmp ecx, {frame_words}",
    "jb 3b",
    "add rsp, {frame_bytes} + 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size weir_rt_call_program, . - weir_rt_call_program",
    ".popsection",
    frame_bytes = const size_of::<Frame>(),
    frame_words = const FRAME_WORDS,
);
