//! eBPF programs in this process: object file → verified program → machine code or interpreter → r0, on maps in memory.
//!
//! In: an object file as clang makes it, or bare instructions. Out: an [`Object`], its programs by name and its [`Map`]s; a [`Program`],
//! which was verified and is ready to run on bytes that the caller lends.
//!
//! Guaranteed: no program runs that the verifier has not accepted; what runs accesses nothing but its stack, the bytes that it was lent
//! for that run, and its maps. Programs and maps hold on to what they need: the order in which things are dropped does not matter.
//!
//! ```text
//! object ─▶ program   what is opened ─▶ what is run
//!   │    └▶ map
//!   └▶ definitions    what may be changed while it is opened
//! error               what all of them refuse
//! ```
//!
//! Deliberately not here: attaching to processes, and programs in the kernel.
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/coming-from-rbpf.md")]
mod coming_from_rbpf {}

mod definitions;
mod error;

mod map;
mod program;

mod object;

pub use weir_ebpf::{MapKind, MapSpec, ProgramKind};
pub use weir_rt::segment::MapError;
pub use weir_verifier::{Rejection, RejectionKind, VerifiedProgram};

/// Bytes that a run may be lent at most.
pub const LENT_BYTES_MAX: usize = weir_rt::limits::LENT_BYTES_MAX as usize;

pub use crate::definitions::Definitions;
pub use crate::error::Error;
pub use crate::map::Map;
pub use crate::object::Object;
pub use crate::program::{Engine, Program};

/// Most rounds that [`Object::load_limited`] takes: what `may_goto` has in one call without a limit.
pub const ROUNDS_MAX: u32 = weir_rt::limits::MAY_GOTO_ROUNDS_MAX - 1;
