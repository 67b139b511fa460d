//! Calls a program of this process with a frame above its return address, as a trampoline does in a target.
//!
//! Classifiers, which are called millions of times with another packet each, have ways in of their own: the frame is made
//! where it is needed, and nothing comes back but r0. [`classify_bytes`] and [`classify`], in line, fill in the words that a packet has of
//! its own, four or seven; [`weir_rt_classify_fields`] the rest too. Neither saves a register: such a program must keep those of [`CALLEE_SAVED`].

use std::arch::{asm, global_asm};

use weir_ebpf::context::packet;

use crate::executable::{FRAME_FLOATS, FRAME_TAIL_CALLS, Frame};

unsafe extern "C" {
    pub(crate) fn weir_rt_call_program(code: *const u8, frame: *mut Frame) -> u64;
    /// As [`classify`], with all words from [`packet::FIELDS`] on, of which those two are not read.
    pub(crate) fn weir_rt_classify_fields(
        code: *const u8,
        data: u64,
        end: u64,
        len: u64,
        wire_len: u64,
        fields: *const [u64; 16],
    ) -> u64;
}

/// Registers that C code expects to find as they were, in the bits of `Executable::clobbers`: rbx, rbp, r12 to r15.
pub(crate) const CALLEE_SAVED: u16 = 1 << 3 | 1 << 5 | 0xf << 12;

/// Where the words with the lengths stand in the frame.
pub(crate) const LEN: u32 = packet::FIELDS;
pub(crate) const WIRE_LEN: u32 = packet::FIELDS + 88;
/// Bytes from [`packet::FIELDS`] to the end of the words of the context: 8 registers of 16 bytes.
const FIELDS_BYTES: u32 = FRAME_FLOATS - packet::FIELDS;
const _: () = assert!(FIELDS_BYTES == 8 * 16 && size_of::<Frame>() == FRAME_FLOATS as usize + 5 * 16 + 8);

/// Calls a classifier that reads no word of its frame but the five addresses and the words with the lengths: `len`, and
/// `wire_len`. It is in line for the sake of the calls that this saves.
///
/// # Safety
/// `code` is such a program, which keeps the registers of [`CALLEE_SAVED`], and may access the bytes from `data` to `end`.
#[inline]
pub(crate) unsafe fn classify(code: *const u8, data: u64, end: u64, len: u64, wire_len: u64) -> u64 {
    let r0;
    // SAFETY: the stack pointer is aligned here as for a call, and still so below a frame; it comes back as it was. What the
    // program may change is declared; the rest is the caller's promise.
    unsafe {
        asm!(
            "sub rsp, {frame_bytes}",
            "mov dword ptr [rsp + {tail_calls}], 0",
            "mov [rsp + {at_data}], {data}",
            "mov [rsp + {at_data_end}], {end}",
            "mov [rsp + {at_data_meta}], {data}",
            "mov [rsp + {at_link}], {data}",
            "mov [rsp + {at_network}], {network}",
            "mov [rsp + {at_len}], {len}",
            "mov [rsp + {at_wire_len}], {wire_len}",
            "call {code}",
            "add rsp, {frame_bytes}",
            frame_bytes = const size_of::<Frame>(),
            tail_calls = const FRAME_TAIL_CALLS,
            at_data = const packet::DATA,
            at_data_end = const packet::DATA_END,
            at_data_meta = const packet::DATA_META,
            at_link = const packet::LINK,
            at_network = const packet::NETWORK,
            at_len = const LEN,
            at_wire_len = const WIRE_LEN,
            code = in(reg) code,
            data = in(reg) data,
            end = in(reg) end,
            network = in(reg) end.min(data + 14),
            len = in(reg) len,
            wire_len = in(reg) wire_len,
            out("rax") r0,
            clobber_abi("sysv64"),
        );
    }
    r0
}

/// The same of one that reads no word but the addresses of the packet's beginning, end and headers, and calls no other program: 0.3 ns less.
///
/// # Safety
/// As for [`classify`].
#[inline]
pub(crate) unsafe fn classify_bytes(code: *const u8, data: u64, end: u64) -> u64 {
    let r0;
    // SAFETY: as in `classify`.
    unsafe {
        asm!(
            "sub rsp, {frame_bytes}",
            "mov [rsp + {at_data}], {data}",
            "mov [rsp + {at_data_end}], {end}",
            "mov [rsp + {at_link}], {data}",
            "mov [rsp + {at_network}], {network}",
            "call {code}",
            "add rsp, {frame_bytes}",
            frame_bytes = const size_of::<Frame>(),
            at_data = const packet::DATA,
            at_data_end = const packet::DATA_END,
            at_link = const packet::LINK,
            at_network = const packet::NETWORK,
            code = in(reg) code,
            data = in(reg) data,
            end = in(reg) end,
            network = in(reg) end.min(data + 14),
            out("rax") r0,
            clobber_abi("sysv64"),
        );
    }
    r0
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

// The stack pointer is 8 bytes off a multiple of 16 here, as the ABI has it: 8 more than the frame make it one.
global_asm!(
    ".pushsection .text",
    ".p2align 4",
    ".globl weir_rt_classify_fields",
    ".hidden weir_rt_classify_fields",
    ".type weir_rt_classify_fields, @function",
    "weir_rt_classify_fields:",
    "sub rsp, {frame_bytes} + 8",
    "pxor xmm0, xmm0",
    "movups [rsp + {floats}], xmm0",
    "movups [rsp + {floats} + 16], xmm0",
    "movups [rsp + {floats} + 32], xmm0",
    "movups [rsp + {floats} + 48], xmm0",
    "movups [rsp + {floats} + 64], xmm0",
    "mov qword ptr [rsp + {floats} + 80], 0",
    ".irp at, 0, 16, 32, 48, 64, 80, 96, 112",
    "movups xmm0, [r9 + \\at]",
    "movups [rsp + {fields} + \\at], xmm0",
    ".endr",
    "lea rax, [rsi + 14]",
    "cmp rax, rdx",
    "cmova rax, rdx",
    "mov [rsp + {data}], rsi",
    "mov [rsp + {data_end}], rdx",
    "mov [rsp + {data_meta}], rsi",
    "mov [rsp + {link}], rsi",
    "mov [rsp + {network}], rax",
    "mov [rsp + {len}], rcx",
    "mov [rsp + {wire_len}], r8",
    "call rdi",
    "add rsp, {frame_bytes} + 8",
    "ret",
    ".size weir_rt_classify_fields, . - weir_rt_classify_fields",
    ".popsection",
    frame_bytes = const size_of::<Frame>(),
    floats = const FRAME_FLOATS,
    fields = const packet::FIELDS,
    data = const packet::DATA,
    data_end = const packet::DATA_END,
    data_meta = const packet::DATA_META,
    link = const packet::LINK,
    network = const packet::NETWORK,
    len = const LEN,
    wire_len = const WIRE_LEN,
);
