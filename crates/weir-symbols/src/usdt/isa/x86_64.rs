//! x86-64, in the syntax of AT&T.

pub(crate) mod operand;
