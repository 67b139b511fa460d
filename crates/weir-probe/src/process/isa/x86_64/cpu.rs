//! What the processor has.

/// The value of extended control register 0: which state components the kernel enabled.
pub(crate) fn enabled_state_components() -> u64 {
    // SAFETY: every x86-64 CPU whose kernel answers NT_X86_XSTATE has OSXSAVE set, so xgetbv(0) is allowed.
    unsafe { core::arch::x86_64::_xgetbv(0) }
}

/// Bytes of an XSAVE area in the standard format with these state components (CPUID leaf 0xD).
pub(crate) fn state_bytes(components: u64) -> usize {
    /// The legacy region and the header.
    const LEAST: u32 = 576;
    let end = |number: u32| {
        let leaf = std::arch::x86_64::__cpuid_count(0xd, number);
        leaf.ebx + leaf.eax
    };
    let ends = (2..63).filter(|number| components >> number & 1 == 1).map(end);
    ends.max().unwrap_or(0).max(LEAST) as usize
}

/// Whether the processor has protection keys (pkeys(7)), and the kernel lets processes use them.
pub(crate) fn has_protection_keys() -> bool {
    const OSPKE: u32 = 1 << 4;
    std::arch::x86_64::__cpuid_count(7, 0).ecx & OSPKE != 0
}
