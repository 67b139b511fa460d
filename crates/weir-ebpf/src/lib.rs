//! The words of eBPF: instructions (RFC 9669), programs, maps, objects and helper signatures.
//!
//! Everything that makes, checks or runs a program says it in these types. This crate knows nothing of
//! scripts, of processes or of machine code; it only holds data, its text form, and its files ([`elf`], [`btf`]).
//!
//! Deliberately not here: any opinion on whether a program is safe (weir-verifier).

#![forbid(unsafe_code)]

pub mod asm;
pub mod btf;
pub mod context;
pub mod elf;
pub mod form;
pub mod helper;
pub mod insn;
mod isa;
pub mod kfunc;
pub mod map;
pub mod object;

pub use crate::isa::native::pt_regs;
pub use helper::{HelperId, HelperProto};
pub use insn::Insn;
pub use map::{MapKind, MapSpec};
pub use object::{Object, Program, ProgramKind};
