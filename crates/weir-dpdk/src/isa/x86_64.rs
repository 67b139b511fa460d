//! x86-64.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _rdtsc};

/// The time stamp counter.
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction, which changes nothing.
    unsafe { _rdtsc() }
}

/// Has the line fetched that this address is in; any address will do.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    // SAFETY: the instruction reads nothing that the program would see, and does not fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}
