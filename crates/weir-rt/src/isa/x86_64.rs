//! x86-64.

pub(crate) mod call;
pub mod cpu;
