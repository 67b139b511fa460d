//! Attaches programs to functions of a live process, and takes them away again.
//!
//! In: a process (or a command to start), functions found in its binaries, native code from weir-jit and the
//! layout of the shared segment. Out: an [`Attachment`], a guard that restores the text when it is dropped.
//!
//! Guaranteed:
//! - the target is stopped for a bounded time only ([`limits::STOP_MAX`]), and left as it was if that runs out; text is
//!   written and restored in slices of a few milliseconds, whatever the number of sites ([`Stops`] counts them);
//! - a function is patched once, however many consumers it has; each comes and goes without the others noticing
//!   ([`consumers`]);
//! - at every point where the controller may die, the target runs on, and the undo journal in the segment says
//!   how to restore its text ([`restore`]);
//! - a function is patched only where [`window`] proved that no thread, signal frame or branch can reach the
//!   middle of the patch; everything else is refused with a [`Refusal`];
//! - a function's return is caught only where [`returns`] proved that the function cannot notice, and where unwinders
//!   find their way ([`unwind`]).
//!
//! Knows nothing of scripts, of eBPF or of what the code it attaches does. Deliberately not here yet: functions of
//! libraries that are loaded later.

pub mod limits;
pub mod refusal;

mod parallel;
mod sys;

pub mod body;
mod cave;
mod emitter;
mod heights;
pub mod incoming;
pub mod plan;
pub mod relocate;
pub mod replace;
pub mod returns;
pub mod through;
pub mod trampoline;
pub mod unwind;
mod walk;
pub mod window;

mod remote;
mod stack;
mod stop;

mod admit;
mod counters;
mod island;
mod outpost;
mod patch;
mod pending;
mod share;
pub mod undo;

pub mod attach;
pub mod consumers;
pub mod launch;
pub mod restore;
pub mod scan;
pub mod target;

pub use crate::attach::{Attach, Attachment, Outcome, Patched, Prepared, SiteRequest, When, prepare};
pub use crate::consumers::{Added, Consumer};
pub use crate::launch::Launched;
pub use crate::pending::Pending;
pub use crate::plan::{Place, plan_functions, plan_sites};
pub use crate::refusal::{Error, Refusal};
pub use crate::returns::{Returns, plan_returns};
pub use crate::stop::Stops;
pub use crate::target::Target;
pub use crate::undo::Report;
