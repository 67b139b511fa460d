//! x86-64: [`emit`] chooses instructions for operations, each in the file of its subject; [`assembler`] places them and their branches, [`encode`] writes their bytes.

pub(crate) mod arith;
pub(crate) mod assembler;
pub(crate) mod atomics;
pub(crate) mod claim;
pub(crate) mod declared;
pub(crate) mod disassemble;
pub(crate) mod emit;
pub(crate) mod emitter;
pub(crate) mod encode;
pub(crate) mod fused;
pub(crate) mod lanes;
pub(crate) mod packets;
pub(crate) mod reciprocal;
pub(crate) mod records;
pub(crate) mod rounds;
pub(crate) mod tail_calls;
pub(crate) mod texts;
