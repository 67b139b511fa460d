//! x86-64.

pub(crate) mod cpu;
pub(crate) mod registers;
pub(crate) mod remote;
pub(crate) mod restart;
pub(crate) mod syscall;
