//! weir-trace from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod follow;
mod names;
mod pipe;
mod random;
