//! weir-probe from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod counting;
mod loads;
mod running;
mod sessions;

mod adversity;
mod attach;
mod consumers;
mod direct;
mod exceptions;
mod hammer;
mod inside;
mod interrupts;
mod modes;
mod others;
mod parked;
mod plan;
mod provable;
mod rails;
mod relocation;
mod replace;
mod replaced;
mod returns;
mod returns_everywhere;
mod returns_storm;
mod rseq;
mod shapes;
mod shared;
mod unwind;
