//! Generates what stands between a patched function and its programs, and says where to put it.
//!
//! In: windows and returns as [`weir_plan`] proved them, programs by address, and what is mapped already. Out: bytes
//! for one address each, with what unwinders are to be told about them, and the addresses in them that stand for one of
//! the function.
//!
//! ```text
//! relocate ─▶ trampoline ─▶ through ─▶ replace      one site: displaced instructions, its entry, its return, by either way
//!             (emitter: the instructions that these consist of; program: which programs, when; meter: counted, timed,
//!             one of so many; alignment: without the alignment check; line: the short way to a program that only counts;
//!             forked: hits of forked children that are not probed yet)
//! called                                            what leads from a place of LTTng-UST's to a trampoline
//! announce, filter, unmap                           programs that are weir's own: at the dynamic linker's r_brk, where system
//!                                                   call filters are installed, and around calls that take memory away
//! unwind ───▶ island, outpost                       all sites: images within reach of them, and of jumps that are punned
//! ```
//!
//! Guaranteed: the same input gives the same bytes. Nothing is read from or written to a process here; what is generated
//! is mapped by weir-probe.

mod isa;
pub mod island;
pub mod limits;
pub mod outpost;
pub mod program;

pub use crate::isa::native::{
    announce, called, filter, forked, meter, relocate, replace, through, trampoline, unmap, unwind,
};

/// What is generated cannot be linked to the routines of weir's that it calls.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct LinkError(pub String);
