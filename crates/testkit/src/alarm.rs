//! Timers that interrupt one thread each.

use std::time::Duration;

use nix::libc;

/// What a signal calls.
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Sends SIGALRM to the thread that made it, for as long as it lives.
#[derive(Debug)]
pub struct Alarm(libc::timer_t);

impl Alarm {
    /// A process-wide timer would find the idle main thread; every busy thread has its own.
    pub fn every(interval: Duration) -> Alarm {
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
pub fn take_alarms(handler: Handler) {
    // SAFETY: all zeros is a sigaction without flags; the handler only calls code that a signal may interrupt.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())
    };
    assert_eq!(result, 0, "sigaction");
}

/// Has SIGALRM do nothing but interrupt system calls.
pub fn ignore_alarms() {
    extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    take_alarms(nothing);
}
