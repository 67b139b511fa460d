//! Unwinders see through weir's frames.
//!
//! A function whose return is probed comes back to generated code, and so an exception thrown from it, the end of a
//! thread that is cancelled in it, and backtrace(3) pass there. What unwinders ask for, in the target, answers for
//! weir's own addresses ([`hook`]), from descriptions that stand beside the code ([`frames`]). Nothing is registered:
//! that would take locks and memory of the target, which a stopped thread may hold.
//!
//! ```text
//! _Unwind_RaiseException ─▶ _Unwind_Find_FDE(pc) ─▶ _dl_find_object(pc)      pc in an island: its .eh_frame_hdr
//! (libgcc, a copy in each         │                  (one, in glibc ≥ 2.35)
//!  library that wants one)        └ looks itself, in libgcc < 12 or without that glibc: the hook is here
//! ```
//!
//! Which functions those are in a process, and whether there may be unwinders beside them, weir-probe finds out.

pub mod frames;
pub mod hook;
