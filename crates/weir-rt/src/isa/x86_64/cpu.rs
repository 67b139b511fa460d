//! What the processor can, and what it is asked for.

use std::arch::x86_64::{__cpuid, _rdtsc};

/// Whether shifts by registers change no flags (SHLX and others).
pub fn has_bmi2() -> bool {
    std::arch::is_x86_feature_detected!("bmi2")
}

/// The TSC ticks at one rate whatever the CPU does (CPUID 8000_0007h, EDX bit 8).
pub(crate) fn ticks_are_invariant() -> bool {
    const POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx >> 8 & 1 == 1
}

/// The time stamp counter. The process may have been forbidden to read it (PR_SET_TSC): who asks has looked.
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction, which changes nothing.
    unsafe { _rdtsc() }
}
