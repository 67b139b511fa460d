//! weir-codegen from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

#[path = "../../../weir-ir/tests/integration/model/mod.rs"]
mod model;

mod emission;
mod execution;
mod kernel;
mod records;
mod refusals;
mod signals;
mod stacks;
