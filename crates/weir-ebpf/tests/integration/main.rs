//! weir-ebpf from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod corpus;

mod core;
mod hostile;
mod ksyms;
mod objects;
mod refusals;
mod write;
