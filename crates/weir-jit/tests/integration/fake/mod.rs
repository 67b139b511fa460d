//! A `struct rseq` of the tests' own: threads seem to run on the CPU that it names, and the kernel knows of no section.

use std::arch::asm;
use std::cell::UnsafeCell;

use weir_rt::executable::{LanePolicy, SiteAbi};

use crate::engines::{SIGNATURE, shared_abi};

thread_local! {
    /// cpu_id_start and cpu_id, rseq_cs, flags.
    static FAKE: UnsafeCell<[u64; 4]> = const { UnsafeCell::new([0; 4]) };
}

/// A site whose threads seem to run on the CPU that `FAKE` names.
pub(crate) fn fake_abi(bmi2: bool) -> SiteAbi {
    let thread_pointer: u64;
    // SAFETY: the word at fs:0 is the thread pointer itself (psABI, TLS variant II).
    unsafe { asm!("mov {}, fs:0", out(reg) thread_pointer, options(nostack, readonly)) };
    let offset = FAKE.with(|fake| fake.get() as u64).wrapping_sub(thread_pointer) as i64;
    let offset = i32::try_from(offset).expect("thread-local variables lie near the thread pointer");
    SiteAbi { lanes: LanePolicy::Rseq { offset, signature: SIGNATURE }, ..shared_abi(bmi2) }
}

/// Stands where no section has been announced yet, so that it shows whether code clears it.
const NO_SECTION: u64 = 0xdead;

pub(crate) fn set_fake_cpu(cpu: u32) {
    // SAFETY: this thread alone has it, and no code that uses it runs now.
    FAKE.with(|fake| unsafe { *fake.get() = [u64::from(cpu) << 32, NO_SECTION, 0, 0] });
}

pub(crate) fn fake_rseq_cs() -> u64 {
    // SAFETY: as in `set_fake_cpu`.
    FAKE.with(|fake| unsafe { (*fake.get())[1] })
}

/// What the kernel does when it preempts or signals a thread at `at`: where the thread goes on.
#[allow(dead_code, reason = "each test binary uses its part")]
pub(crate) fn interrupt_section(at: u64) -> u64 {
    /// `struct rseq_cs` (Linux, include/uapi/linux/rseq.h).
    #[repr(C)]
    struct Section {
        version_and_flags: u64,
        start: u64,
        bytes: u64,
        abort: u64,
    }
    FAKE.with(|fake| {
        // SAFETY: as in `set_fake_cpu`; what code stores there is the address of its section, or 0.
        unsafe {
            let section = std::mem::take(&mut (*fake.get())[1]) as *const Section;
            if section.is_null() || section as u64 == NO_SECTION {
                return at;
            }
            let Section { start, bytes, abort, .. } = section.read();
            if at.wrapping_sub(start) < bytes { abort } else { at }
        }
    })
}
