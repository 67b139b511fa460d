//! The BTF of a program that has callbacks, or functions that are verified by themselves: the kernel lets helpers call back only functions that it
//! knows to be static, and asks of global ones what arguments they take.
//!
//! In: instructions, and which functions are global. Out: [`Described`] as bpf(2) takes it: types for BPF_BTF_LOAD, and `func_info` for BPF_PROG_LOAD.
//! All static functions have one type, since nobody looks at their arguments.

use std::collections::BTreeMap;

use crate::Insn;
use crate::btf::{Builder, Kind, TypeId};
use crate::insn::{class, jmp, pseudo};

/// What a global function takes in one register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    Number,
    /// The address of so many bytes, or 0.
    Memory {
        bytes: u32,
    },
}

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

    /// None for a program without callbacks and global functions, which needs no BTF.
    pub fn of(insns: &[Insn], global: &BTreeMap<u32, Vec<Argument>>) -> Option<Described> {
        let is_address = |insn: &Insn| insn.is_wide() && insn.src == pseudo::FUNCTION;
        if !insns.iter().any(is_address) && global.is_empty() {
            return None;
        }
        let is_call = |insn: &Insn| insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::LOCAL;
        let named = insns.iter().enumerate().filter(|(_, insn)| is_address(insn) || is_call(insn));
        let start = |(at, insn): (usize, &Insn)| (at as i32).wrapping_add(1).wrapping_add(insn.imm) as u32;
        let mut starts: Vec<u32> = named.map(start).chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut types = Types::new();
        let mut type_of =
            |start: &u32| global.get(start).map_or(types.function, |arguments| types.global(arguments));
        let functions = starts.iter().map(|start| [*start, type_of(start)]).collect();
        Some(Described { btf: types.builder.finish().to_bytes(), functions })
    }
}

/// The types of functions.
struct Types {
    builder: Builder,
    int: TypeId,
    long: TypeId,
    /// Of all static ones.
    function: TypeId,
}

impl Types {
    fn new() -> Types {
        let mut builder = Builder::default();
        // Bits 0..8 of the word: how many bits; from 24: signed.
        let int = builder.add("int", Kind::Int, 4, &[1 << 24 | 32]);
        let prototype = builder.add("", Kind::Prototype, int, &[]);
        let function = builder.add_static_function("function", prototype);
        let long = builder.add("long", Kind::Int, 8, &[1 << 24 | 64]);
        Types { builder, int, long, function }
    }

    fn global(&mut self, arguments: &[Argument]) -> TypeId {
        let mut words = Vec::new();
        for argument in arguments {
            let of = match argument {
                Argument::Number => self.long,
                Argument::Memory { bytes } => {
                    let memory = self.builder.add("memory", Kind::Struct, *bytes, &[]);
                    self.builder.add("", Kind::Pointer, memory, &[])
                }
            };
            words.extend([self.builder.string("argument"), of]);
        }
        let prototype = self.builder.add("", Kind::Prototype, self.int, &words);
        self.builder.add_function("function", prototype)
    }
}
