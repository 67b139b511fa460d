//! weir-jit from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod emitter;
mod engines;
#[path = "../../../weir-verifier/tests/integration/evolve/mod.rs"]
mod evolve;
mod fake;
#[path = "../../../weir-verifier/tests/integration/generate/mod.rs"]
mod generate;
#[path = "../../../weir-verifier/tests/integration/lent/mod.rs"]
mod lent;
mod pages;
mod random;
mod signals;
mod wire;
#[path = "../../../weir-verifier/tests/integration/worlds/mod.rs"]
mod worlds;

mod alignment;
mod calls;
mod claimed;
mod compilers;
mod contexts;
mod corpus;
mod debian;
mod declared;
mod differential;
mod dynptrs;
mod frozen;
mod generators;
mod hashes;
mod instructions;
mod lanes;
mod objects;
mod overwriting;
mod packet_programs;
mod passes;
mod records;
mod report;
mod session;
mod tail_calls;
mod texts;
mod tries;
