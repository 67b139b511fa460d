//! Machines: what operations are in their code.

pub(crate) mod x86_64;
