//! x86-64.

pub mod pt_regs;
