//! Fuzz targets: a function for each reader of hostile bytes, and the seeds that inputs are made from.
//!
//! In: any bytes. Out: nothing. A function panics if its reader does, or if what was read contradicts itself. libFuzzer calls these
//! functions from the programs in `fuzz/`; the tests of this crate call them with the seeds and with mutations of these.
//!
//! Deliberately not here: the bounds of an input (its length, time and memory), which the caller sets.

#![forbid(unsafe_code)]

pub mod assembly;
pub mod btf;
pub mod bytecode;
pub mod ctf2;
pub mod elf;
pub mod rings;
pub mod script;
pub mod segment;
pub mod trace;

pub mod seeds;

mod maps;

/// A target's name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// One for each reader.
pub const TARGETS: [Target; 11] = [
    ("elf", elf::read),
    ("btf", btf::read),
    ("bytecode", bytecode::read),
    ("assembly", assembly::read),
    ("segment", segment::read),
    ("rings", rings::read),
    ("trace", trace::read),
    ("ctf2", ctf2::read),
    ("script", script::read),
    ("declarations", script::read_c),
    ("compile", script::read_whole),
];
