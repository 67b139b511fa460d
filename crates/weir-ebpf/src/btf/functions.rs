//! The BTF of a program that has callbacks: the kernel lets helpers call back only functions that it knows to be
//! static.
//!
//! In: instructions. Out: [`Described`] as bpf(2) takes it: types for BPF_BTF_LOAD, and `func_info` for BPF_PROG_LOAD.
//! All functions have one type, since nobody looks at their arguments.

use crate::Insn;
use crate::btf::{Builder, Kind};
use crate::insn::{class, jmp, pseudo};

/// What the kernel wants to know of a program's functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The bytes of the BTF.
    pub btf: Vec<u8>,
    /// Slot and type of each function, ascending (`struct bpf_func_info`).
    pub functions: Vec<[u32; 2]>,
}

impl Described {
    /// Bytes of an element of `functions`.
    pub const FUNCTION_BYTES: u32 = 8;

    /// None for a program without callbacks, which needs no BTF.
    pub fn of(insns: &[Insn]) -> Option<Described> {
        let is_address = |insn: &Insn| insn.is_wide() && insn.src == pseudo::FUNCTION;
        if !insns.iter().any(is_address) {
            return None;
        }
        let is_call = |insn: &Insn| insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::LOCAL;
        let named = insns.iter().enumerate().filter(|(_, insn)| is_address(insn) || is_call(insn));
        let start = |(at, insn): (usize, &Insn)| (at as i32).wrapping_add(1).wrapping_add(insn.imm) as u32;
        let mut starts: Vec<u32> = named.map(start).chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut builder = Builder::default();
        // Bits 0..8 of the word: how many bits; from 24: signed.
        let int = builder.add("int", Kind::Int, 4, &[1 << 24 | 32]);
        let prototype = builder.add("", Kind::Prototype, int, &[]);
        let function = builder.add_static_function("function", prototype);
        let functions = starts.into_iter().map(|start| [start, function]).collect();
        Some(Described { btf: builder.finish().to_bytes(), functions })
    }
}
