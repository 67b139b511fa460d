//! Machines: the registers that scripts and filters can name. The modules of one are those of all: what uses them names [`native`].

#[cfg(target_arch = "x86_64")]
pub mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use self::x86_64 as native;
