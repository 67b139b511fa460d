//! x86-64, System V.

pub(crate) mod alignment;
pub mod announce;
pub mod called;
pub(crate) mod emitter;
pub mod filter;
pub mod forked;
pub(crate) mod line;
pub mod meter;
pub mod relocate;
pub mod replace;
pub mod through;
pub mod trampoline;
pub mod unmap;
pub mod unwind;
