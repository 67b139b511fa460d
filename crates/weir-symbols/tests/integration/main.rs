//! weir-symbols from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod binary;
mod debug_file;
mod generations;
mod history;
mod hostile;
mod lines;
mod maps;
mod perf_map;
mod prototypes;
mod resolve;
mod tracepoint;
mod usdt;
