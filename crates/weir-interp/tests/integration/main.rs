//! weir-interp from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`. On machines other than x86-64 with Linux, what
//! needs a segment is left out.

mod instructions;
mod places;
mod plain;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod agree;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../../weir-verifier/tests/integration/evolve/mod.rs"]
mod evolve;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../../weir-verifier/tests/integration/generate/mod.rs"]
mod generate;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod maps;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../../weir-verifier/tests/integration/worlds/mod.rs"]
mod worlds;
