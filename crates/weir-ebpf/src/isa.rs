//! Machines: the registers that the context of a probe is made of. The modules of one are those of all: what uses them names [`native`].
//!
//! On a machine that has no module yet, programs can be read and verified all the same: contexts of probes are then those
//! of x86-64, which nothing there hands out.

pub(crate) mod x86_64;

pub(crate) use self::x86_64 as native;
