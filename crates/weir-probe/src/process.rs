//! Another process as it is: looked at, started, held, and asked to make system calls.
//!
//! In: a process id, or a command. Out: a [`target::Target`] and the stops of its threads; their registers, their stacks
//! and its memory, read and written as they are.
//!
//! ```text
//! target, launch ─▶ stop ─▶ stack (what its threads hold) · remote (system calls that they make)
//! fanotify          processes that execute or load a probed file, stopped before they run
//! goroutines        on which stacks those of Go run, and wait
//! linker            where the dynamic linker says that its list of libraries has changed
//! load              a library that it is made to load, by one thread
//! mapped, scan      what of weir's is in it, by its maps and by the header of the segment
//! memory            its memory, by a file of its own or by calls
//! restart           which system calls begin again where they were stopped in
//! watchdog          ends stops of targets in time where weir itself is stopped
//! keeper            goes on with something where weir itself is killed
//! vm_sharing        whether two of them share their memory
//! descriptors       those of a target, taken over; blocked: whose calls wait for an answer of fanotify's
//! permission        why the kernel does not let it be traced
//! sys               the kernel's calls under all of these
//! ```
//!
//! Guaranteed: no thread stays stopped longer than [`limits::STOP_MAX`](crate::limits::STOP_MAX) for want of another, and
//! all run on if this process dies. Knows nothing of plans, of generated code, of what is attached: it uses no other
//! part of this crate but its bounds and errors.

pub(crate) mod blocked;
pub(crate) mod descriptors;
pub mod fanotify;
pub mod gone_threads;
pub(crate) mod goroutines;
pub(crate) mod isa;
pub mod keeper;
pub mod launch;
pub(crate) mod linker;
pub(crate) mod load;
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod permission;
pub mod scan;
pub(crate) mod stack;
pub(crate) mod stop;
pub(crate) mod sys;
pub mod target;
pub mod vm_sharing;
pub(crate) mod watchdog;
