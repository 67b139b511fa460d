//! Running code under signals: a call of it, and what many take.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::arch::asm;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use testkit::alarm::{Alarm, take_alarms};
use testkit::wait;

/// How long a test waits for what a busy machine does at last.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// How long threads are under load at least, which is for what nobody counts.
const LOAD: Duration = Duration::from_millis(400);

/// How long threads are under load: for a while, and until they have met what they are to meet, which on a busy machine does
/// not come in any fixed time. At the deadline it is over too, so that the test can say what did not come.
pub(crate) struct Load {
    begin: Instant,
    is_over: AtomicBool,
}

impl Load {
    pub(crate) fn new() -> Load {
        Load { begin: Instant::now(), is_over: AtomicBool::new(false) }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// It is over if it `is_enough` by now.
    pub(crate) fn end_if(&self, is_enough: bool) {
        let took = self.begin.elapsed();
        if took >= DEADLINE || took >= LOAD && is_enough {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until it `is_enough`.
    pub(crate) fn last_until(&self, is_enough: impl Fn() -> bool) {
        wait::until(2 * DEADLINE, || {
            self.end_if(is_enough());
            self.is_over()
        });
    }
}

/// Calls code that needs no context and clobbers what a C function may.
pub(crate) fn call(code: u64) {
    // SAFETY: the code is a program without context that keeps callee-saved registers.
    unsafe { asm!("call {code}", code = in(reg) code, clobber_abi("C")) }
}

/// Calls it so many times: nanoseconds of each, with nothing but the call and the counter in the loop.
pub(crate) fn ns_per_call(code: u64, calls: u64) -> f64 {
    let start = Instant::now();
    // SAFETY: as in `call`; the counter is in a register that programs keep.
    unsafe {
        asm!(
            "2: call {code}",
            "dec {left}",
            "jnz 2b",
            code = in(reg) code,
            left = inout(reg) calls => _,
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}
