//! Threads whose work signals interrupt all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::libc;

/// Runs `work` in so many threads, each of which gets `signal` every 50 µs or so; `handler` must be fit for a signal
/// handler. A test that uses one signal is one test: the handler is the process's.
pub(super) fn interrupted<T: Send>(
    threads: u64,
    signal: i32,
    handler: extern "C" fn(i32),
    work: impl Fn(u64) -> T + Sync,
) -> Vec<T> {
    // SAFETY: the caller's handler is fit for this.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, ids) = mpsc::channel();
        let running: Vec<_> = (0..threads)
            .map(|n| {
                let (work, sender) = (&work, sender.clone());
                scope.spawn(move || {
                    sender.send(nix::unistd::gettid().as_raw()).expect("the receiver waits");
                    work(n)
                })
            })
            .collect();
        let ids: Vec<i32> = ids.iter().take(threads as usize).collect();
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for id in &ids {
                    // SAFETY: a signal to a thread of this process, or an error if it has ended.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), *id, signal) };
                }
                // Pacing alone: the verdict does not depend on how often they are interrupted.
                thread::sleep(Duration::from_micros(50));
            }
        });
        let results: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        results.into_iter().map(|result| result.expect("no panic")).collect()
    })
}
