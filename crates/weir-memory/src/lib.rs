//! What one run of an eBPF program may touch: its context, and memory in which every access is checked.
//!
//! In: bytes, registers ([`Context`], [`Frame`]), definitions of maps. Out: a [`Memory`] for an interpreter to stand on. Two
//! kinds of memory do what it asks: that of weir-rt, whose maps stand in a shared segment, and [`plain`], whose maps and
//! addresses are its own, on any machine. What a helper may be given is checked here once for both ([`Memory::call`]).
//!
//! Knows nothing of segments, of machine code, of how instructions are run. No `unsafe`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod memory;

mod access;

mod violation;

mod arguments;

mod frames;

mod frame;

mod context;

pub mod plain;

pub mod limits;

pub use access::{AtomicOp, Width};
pub use arguments::{Value, dynptr_of};
pub use context::{Context, ContextMut, classifier_frame, frame, set_number};
pub use frame::Frame;
pub use frames::Frames;
pub use memory::{Memory, field_of_context};
pub use violation::Violation;
