//! x86-64.

use crate::limits::REGISTERS as COUNT;

/// Names of registers, by their numbers in [`Builtin::Register`](crate::Builtin::Register): as `reg` takes them, and as assemblers write
/// them. The general ones have the numbers of their encoding.
#[rustfmt::skip]
pub const REGISTERS: [(&str, &str); COUNT as usize] = [
    ("ax", "rax"), ("cx", "rcx"), ("dx", "rdx"), ("bx", "rbx"), ("sp", "rsp"), ("bp", "rbp"), ("si", "rsi"),
    ("di", "rdi"), ("r8", "r8"), ("r9", "r9"), ("r10", "r10"), ("r11", "r11"), ("r12", "r12"), ("r13", "r13"),
    ("r14", "r14"), ("r15", "r15"), ("ip", "rip"), ("flags", "rflags"),
];

/// The slot of the context in which a register is at a probe, by its number: the order of `pt_regs`.
pub const REGISTER_SLOTS: [u8; COUNT as usize] =
    [10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0, 16, 18];

/// Macros by which C's headers know the machine.
pub const C_MACROS: &str =
    "#define __x86_64__ 1\n#define __x86_64 1\n#define __amd64__ 1\n#define __amd64 1\n";

/// Types that compilers have for it: the arguments of variadic functions (psABI 3.5.7).
pub const C_DECLARATIONS: &str = "typedef struct { unsigned gp_offset, fp_offset; void *overflow_arg_area, *reg_save_area; } __builtin_va_list[1];\n\
    typedef __int128 __int128_t; typedef unsigned __int128 __uint128_t;\n";

/// The folder of `/usr/include` that has the machine's own headers, where distributions have one.
pub const C_HEADERS: &str = "x86_64-linux-gnu";

/// The number of the register of this name.
pub fn register(name: &str) -> Option<u8> {
    let found = REGISTERS.iter().position(|(short, long)| name == *short || name == *long);
    found.map(|number| number as u8)
}

/// What an assembler calls a vector register.
pub fn vector(number: u8) -> String {
    format!("xmm{number}")
}
