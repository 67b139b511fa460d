//! Machines: calls that are made in a process, and the registers of its threads. The modules of one are those of all: what uses them names [`native`].

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64 as native;
