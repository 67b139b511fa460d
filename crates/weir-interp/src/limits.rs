//! Every bound of this crate, named once.

pub(crate) use weir_rt::limits::{CALL_DEPTH_MAX, STACK_FRAME_BYTES};

/// Steps of a verified program. The verifier proves termination with a smaller bound; this one turns a hole in it
/// into an error instead of a hang.
pub(crate) const VERIFIED_STEPS_MAX: u64 = 1 << 32;
