//! Assembly text of an [`Object`](crate::Object), both ways.
//!
//! In: an object, or its text. Out: the other. Printing and parsing again gives the same object, bit for bit. Of an
//! [`ObjectFile`](crate::elf::ObjectFile) so do the first contents of its maps ([`print_file`], [`parse_file`]);
//! sections and source lines are comments.
//!
//! The instructions are written as llvm-objdump writes them (LLVM 17 and later: hexadecimal immediates):
//!
//! ```text
//! map @bytes percpu_hash key 8 value 8 entries 4096
//!
//! program "uprobe:libc:malloc" probe
//!      0: r6 = *(u64 *)(r1 + 0x70)
//!      1: *(u64 *)(r10 - 0x8) = r6
//!      2: r2 = r10
//!      3: r2 += -0x8
//!      4: r1 = map[@bytes] ll
//!      6: call 0x1 ; map_lookup_elem
//!      7: if r0 == 0x0 goto +0x1
//!      8: lock *(u64 *)(r0 + 0x0) += r6
//!      9: r0 = 0x0
//!     10: exit
//! ```
//!
//! What llvm-objdump has no word for, because a relocation says it there, is written so:
//! - `map NAME KIND key N value N entries N` defines a map, with `flags N` and `extra N` behind it where they are not
//!   0; `program "NAME" KIND` begins a program
//!   (kinds: `probe`, `controller`, `socket`, `xdp`, `classifier`, `memory BYTES`);
//! - `initial NAME "2a00000000000000"` is what the only value of an array holds at first, in hexadecimal digits; the
//!   rest is zeros. `holds NAME 1 OTHER` is the program or map in slot 1 of an array of programs or a map that holds
//!   maps;
//! - `program "NAME" unsupported "SECTION"` is one whose context weir does not have: it is printed, and never read;
//! - `map[NAME] ll` is a map, `map[NAME][0] + 0x8 ll` the address 8 bytes into its first value; `map[#3]` names
//!   a map by index, where its name is not unique or no such map exists;
//! - `call pc+0x5` calls a function of the program, `call btf 0x5` a kernel function by BTF id; those
//!   that weir has are called by name (`call bpf_session_is_return`);
//! - `r2 = pc+0x5 ll` is the address of a function of the program, for helpers that call it back; `map_fd[3] ll`,
//!   `map_fd[3][0] + 0x8 ll` and `btf 0x5 ll` are objects of the kernel;
//! - `.insn 0x…` is a slot that is no instruction: its 8 bytes as one little-endian number.
//!
//! The input may also hold labels (`exit_label:`, `goto exit_label`), helper names (`call map_lookup_elem`), functions
//! of the program by label (`call function`, `r2 = function ll`), decimal numbers, comments from `;` or `//` to the end
//! of the line, and what llvm-objdump adds (`<LBB0_2>`).
//!
//! Deliberately not here: any opinion on whether the program is safe (weir-verifier).

mod contents;
mod line;
mod parse;
mod print;

pub use contents::{parse_file, print_file};
pub use parse::parse;
pub use print::{insn_text, print};

/// Why a text is not an object.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct AsmError {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

/// The operators of `dst OP= src` in both widths: opcode bits, `off`, text.
const ALU_OPERATORS: &[(u8, i16, &str)] = {
    use crate::insn::alu;
    &[
        (alu::ADD, 0, "+="),
        (alu::SUB, 0, "-="),
        (alu::MUL, 0, "*="),
        (alu::DIV, 0, "/="),
        (alu::DIV, 1, "s/="),
        (alu::OR, 0, "|="),
        (alu::AND, 0, "&="),
        (alu::LSH, 0, "<<="),
        (alu::RSH, 0, ">>="),
        (alu::MOD, 0, "%="),
        (alu::MOD, 1, "s%="),
        (alu::XOR, 0, "^="),
        (alu::MOV, 0, "="),
        (alu::ARSH, 0, "s>>="),
    ]
};

/// The comparisons of `if dst OP src goto`: opcode bits, text.
const COMPARISONS: &[(u8, &str)] = {
    use crate::insn::jmp;
    &[
        (jmp::JEQ, "=="),
        (jmp::JGT, ">"),
        (jmp::JGE, ">="),
        (jmp::JSET, "&"),
        (jmp::JNE, "!="),
        (jmp::JSGT, "s>"),
        (jmp::JSGE, "s>="),
        (jmp::JLT, "<"),
        (jmp::JLE, "<="),
        (jmp::JSLT, "s<"),
        (jmp::JSLE, "s<="),
    ]
};

/// The atomic operations: `imm`, operator without fetch, name with fetch.
const ATOMICS: &[(i32, &str, &str)] = {
    use crate::insn::atomic;
    &[
        (atomic::ADD, "+=", "atomic_fetch_add"),
        (atomic::OR, "|=", "atomic_fetch_or"),
        (atomic::AND, "&=", "atomic_fetch_and"),
        (atomic::XOR, "^=", "atomic_fetch_xor"),
    ]
};

/// The name of a load that later accesses stay behind, and of a store that earlier ones stay before.
const LOAD_ACQUIRE: &str = "load_acquire";
const STORE_RELEASE: &str = "store_release";

/// The widths of memory accesses: size bits, unsigned name, sign-extending name.
const WIDTHS: &[(u8, &str, &str)] = {
    use crate::insn::size;
    &[(size::B, "u8", "s8"), (size::H, "u16", "s16"), (size::W, "u32", "s32"), (size::DW, "u64", "s64")]
};

#[cfg(test)]
mod tests;
