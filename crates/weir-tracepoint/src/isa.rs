//! Machines: the instructions of a tracepoint. Each has macros of the same names, and one is compiled.

#[cfg(target_arch = "x86_64")]
mod x86_64;
