//! Text forms of a program, each both ways.
//!
//! | form | written by | looks like |
//! |---|---|---|
//! | [`Form::Disassembly`] | `tcpdump -d` | `(000) ldh      [12]` |
//! | [`Form::C`] | `tcpdump -dd` | `{ 0x28, 0, 0, 0x0000000c },` |
//! | [`Form::Decimal`] | `tcpdump -ddd` | the number of instructions, then `40 0 0 12` |
//! | [`Form::OneLine`] | `nfbpf_compile`, for iptables' `xt_bpf` | `4,40 0 0 12,21 0 1 2048,…` |
//!
//! And the bytes of a `struct bpf_insn` or `struct sock_filter` array: [`to_bytes`], [`from_bytes`].
//!
//! Guaranteed: what [`print()`] writes is what the program named above writes, byte for byte; [`parse()`] reads it back
//! (of a disassembly, as far as it says: operands that do nothing are not in it, and become 0). Whitespace and a comma
//! after the last item are free. Deliberately not done: whether the program makes sense ([`check`](crate::check())).
//!
//! ```
//! use weir_cbpf::text::{self, Form};
//!
//! let program = text::parse("(000) ldh [12]\n(001) ret #262144\n", Form::Disassembly)?;
//! assert_eq!(text::print(&program, Form::Decimal), "2\n40 0 0 12\n6 0 0 262144\n");
//! # Ok::<(), text::Error>(())
//! ```

use std::fmt;

use crate::Insn;

mod cursor;
mod parse;
mod print;

pub use parse::{guess, parse};
pub use print::{insn_text, print};

/// How a program is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// A line of assembly for each instruction.
    Disassembly,
    /// Initialisers of a C array.
    C,
    /// Numbers, a line for each instruction, and their count before them.
    Decimal,
    /// The same on one line, with commas.
    OneLine,
}

/// Text that is no program in the form that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What stands there.
    pub given: String,
    /// What should stand there.
    pub expected: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { line, column, given, expected } = self;
        write!(out, "line {line}, column {column}: {given}; expected {expected}")
    }
}

impl std::error::Error for Error {}

/// Bytes that are no whole number of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RaggedBytes {
    /// How many there are.
    pub bytes: usize,
}

impl fmt::Display for RaggedBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes are no whole number of instructions, which have 8 bytes each", self.bytes)
    }
}

impl std::error::Error for RaggedBytes {}

/// The little-endian array of `struct bpf_insn`.
pub fn to_bytes(insns: &[Insn]) -> Vec<u8> {
    insns.iter().flat_map(|insn| insn.to_bytes()).collect()
}

/// The instructions of such an array.
pub fn from_bytes(bytes: &[u8]) -> Result<Vec<Insn>, RaggedBytes> {
    let (insns, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(RaggedBytes { bytes: bytes.len() });
    }
    Ok(insns.iter().map(|insn| Insn::from_bytes(*insn)).collect())
}
