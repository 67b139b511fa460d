//! x86-64, System V.

pub mod body;
pub(crate) mod cave;
pub mod entries;
pub mod exits;
pub(crate) mod goroutine;
pub(crate) mod heights;
pub mod returns;
pub(crate) mod walk;
pub mod window;
