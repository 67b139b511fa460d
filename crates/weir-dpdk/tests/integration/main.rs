//! weir-dpdk from outside: an application that loads libweir_dpdk.so, and weir-dpdk-source that captures from it.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod accounts;
mod application;
mod contents;
mod endings;
mod refusals;
mod stamps;
mod testpmd;
