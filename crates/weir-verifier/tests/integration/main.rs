//! weir-verifier from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod evolve;
mod generate;
mod lent;
mod scripts;
mod worlds;

mod accept;
mod bounds;
mod claims;
mod kernel;
mod loops;
mod mutants;
mod packets;
mod pointers;
mod random;
mod reject;
mod unwritten;
