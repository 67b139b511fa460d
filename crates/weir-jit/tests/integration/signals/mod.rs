//! Running code under signals: a call of it, what many take, and timers that interrupt one thread each.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::arch::asm;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::libc;
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

/// What a signal calls.
pub(crate) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

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

/// Sends SIGALRM to the thread that made it, for as long as it lives.
pub(crate) struct Alarm(libc::timer_t);

impl Alarm {
    /// A process-wide timer would find the idle main thread; every busy thread has its own.
    pub(crate) fn every(interval: Duration) -> Alarm {
        let mut timer = std::ptr::null_mut();
        let interval = libc::timespec { tv_sec: 0, tv_nsec: i64::from(interval.subsec_nanos()) };
        let times = libc::itimerspec { it_interval: interval, it_value: interval };
        // SAFETY: all zeros is a sigevent; the pointers are to values that outlive the calls.
        let result = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer)
                | libc::timer_settime(timer, 0, &times, std::ptr::null_mut())
        };
        assert_eq!(result, 0, "timer");
        Alarm(timer)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `every` and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Has `handler` take SIGALRM.
pub(crate) fn take_alarms(handler: Handler) {
    // SAFETY: all zeros is a sigaction without flags; the handler only calls code that a signal may interrupt.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())
    };
    assert_eq!(result, 0, "sigaction");
}
