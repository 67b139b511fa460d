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
//! ```text
//! weir-plan ─▶ weir-trampoline ─┬─▶ attach     process  a process as it is: looked at, started, held
//! process ──────────────────────┘              attach   puts the code into the process, adds, removes, undoes
//! ```
//!
//! A part uses those to its left, and none to its right; [`limits`] and [`refusal`] belong to all.
//!
//! Knows nothing of scripts, of eBPF or of what the code it attaches does.

pub mod limits;
pub mod refusal;

pub mod attach;
mod process;

pub use crate::attach::children::{ChildHold, Children, open_child};
pub use crate::attach::consumers::{Added, Consumer};
pub use crate::attach::hand_over::take_over;
pub use crate::attach::pending::Pending;
pub use crate::attach::rails::{MeterReading, Mode};
pub use crate::attach::reads::DirectReads;
pub use crate::attach::undo::Report;
pub use crate::attach::{
    Attach, Attachment, CalledFunction, LedAgain, Outcome, Patched, Prepared, SiteRequest, TakenOver,
    Vanished, When, prepare,
};
pub use crate::attach::{consumers, loads, rails, restore, undo};
pub use crate::process::launch::Launched;
pub use crate::process::load::load_library;
pub use crate::process::permission::{Forbidden, is_more_privileged_than_its_user};
pub use crate::process::stop::{Stops, awaits_threads, let_go_late};
pub use crate::process::target::{Allowance, Target};
pub use crate::process::{fanotify, gone_threads, keeper, launch, scan, target, vm_sharing};
pub use crate::refusal::Error;
pub use weir_plan::exits::plan_exits;
pub use weir_plan::returns::{Returns, plan_returns};
pub use weir_plan::{Place, Refusal, check_breakpoint, plan_functions, plan_sites};
pub use weir_plan::{body, incoming, returns, window};
/// How a target has come under seccomp.
pub use weir_rt::segment::Filter;
pub use weir_trampoline::{forked, meter, relocate, replace, through, trampoline, unwind};
