//! Machines: what Rust does not say. The modules of one are those of all: what uses them names [`native`].

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64 as native;
