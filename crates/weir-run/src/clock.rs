//! The time on CLOCK_MONOTONIC, which programs and records have too.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is always there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
