//! Every bound of this crate, named once.

pub(crate) use weir_memory::limits::{CALL_DEPTH_MAX, MAY_GOTO_ROUNDS_MAX};

/// Steps of a verified program. The verifier proves termination with a smaller bound; this one turns a hole in it
/// into an error instead of a hang. Only `may_goto` lets a loop go on past what was followed: each of its rounds may
/// take as many instructions as were.
pub(crate) const VERIFIED_STEPS_MAX: u64 = 1 << 44;
