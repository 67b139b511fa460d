//! Another process as it is: looked at, started, held, and asked to make system calls.
//!
//! In: a process id, or a command. Out: a [`target::Target`] and the stops of its threads; their registers, their stacks
//! and its memory, read and written as they are.
//!
//! ```text
//! target, launch ─▶ stop ─▶ stack (what its threads hold) · remote (system calls that they make)
//! mapped, scan      what of weir's is in it, by its maps and by the header of the segment
//! sys               the kernel's calls under all of these
//! ```
//!
//! Guaranteed: no thread stays stopped longer than [`limits::STOP_MAX`](crate::limits::STOP_MAX) for want of another, and
//! all run on if this process dies. Knows nothing of plans, of generated code, of what is attached: it uses no other
//! part of this crate but its bounds and errors.

pub mod launch;
pub(crate) mod mapped;
pub(crate) mod remote;
pub mod scan;
pub(crate) mod stack;
pub(crate) mod stop;
pub(crate) mod sys;
pub mod target;
