//! A descriptor that becomes readable when a target announces that its libraries have changed.
//!
//! In: the target's own segment. Out: a [`LoadNotifier`], for those who wait for other things too (poll(2)). A thread
//! sleeps on the futex that the target wakes, so that nobody looks again and again, and a dlopen need not wait for that.
//!
//! Nothing depends on it: what has been announced is read off the segment ([`crate::loads`]), and where the target may not
//! wake (seccomp), or no thread can be had, it is found when it is looked for.
//!
//! The target may wake as often as it likes: after each time the thread rests for [`REST`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::SigSet;
use weir_rt::segment::Segment;

/// How long the thread sleeps at most.
const SLEEP_MAX: Duration = Duration::from_millis(200);
/// No more often than this is it made readable.
const REST: Duration = Duration::from_micros(200);
const STACK_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct LoadNotifier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    segment: Arc<Segment>,
    event: EventFd,
    has_come: AtomicBool,
    is_over: AtomicBool,
}

impl LoadNotifier {
    pub(crate) fn of(segment: &Arc<Segment>) -> io::Result<LoadNotifier> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (has_come, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { segment: segment.clone(), event, has_come, is_over });
        let (listening, seen) = (shared.clone(), segment.announcements().announced());
        let thread = thread::Builder::new().name("weir-notifier".into()).stack_size(STACK_BYTES);
        let thread = Some(thread.spawn(move || listening.listen(seen))?);
        Ok(LoadNotifier { shared, thread })
    }

    /// Readable from an announcement until [`LoadNotifier::hush`].
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Not readable any more, until the next announcement. It costs nothing where there was none.
    pub(crate) fn hush(&self) {
        if self.shared.has_come.swap(false, Ordering::AcqRel) {
            // Nothing to be read: it is on its way.
            let _ = self.shared.event.read();
        }
    }
}

impl Shared {
    /// Makes it readable for what is announced after `seen`, also before this thread has come to run.
    fn listen(&self, mut seen: u32) {
        // Signals are for the threads that expect them.
        let _ = SigSet::all().thread_block();
        let announcements = self.segment.announcements();
        while !self.is_over.load(Ordering::Acquire) {
            if announcements.wait(seen, SLEEP_MAX).is_err() {
                return;
            }
            let announced = announcements.announced();
            if announced != seen {
                seen = announced;
                // Fails only where there were so many that it is readable anyway.
                let _ = self.event.write(1);
                self.has_come.store(true, Ordering::Release);
                thread::sleep(REST);
            }
        }
    }
}

impl Drop for LoadNotifier {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        // It may be on its way to sleep: it is woken until it is not there any more.
        while !thread.is_finished() {
            self.shared.segment.announcements().stir();
            thread::yield_now();
        }
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nix::poll::{PollFd, PollFlags, poll};
    use weir_rt::segment::{Identity, SegmentLayout};

    use super::*;

    fn segment() -> Arc<Segment> {
        let identity = Identity { session: 1, ..Identity::default() };
        let file =
            nix::sys::memfd::memfd_create(c"notifier", nix::sys::memfd::MFdFlags::MFD_ALLOW_SEALING).unwrap();
        Arc::new(Segment::create(file, SegmentLayout::of_target(1, 0).unwrap(), &identity).unwrap())
    }

    fn is_readable(notifier: &LoadNotifier, timeout_ms: u16) -> bool {
        let mut watched = [PollFd::new(notifier.descriptor(), PollFlags::POLLIN)];
        poll(&mut watched, timeout_ms).unwrap() > 0
    }

    #[test]
    fn it_is_readable_once_for_what_is_announced_until_it_is_hushed() {
        let segment = segment();
        let notifier = LoadNotifier::of(&segment).unwrap();
        assert!(!is_readable(&notifier, 20));
        for _ in 0..3 {
            segment.announcements().announce();
            assert!(is_readable(&notifier, 60_000));
            // Between its write and its note.
            while is_readable(&notifier, 0) {
                notifier.hush();
            }
        }
        assert!(!is_readable(&notifier, 20));
    }

    #[test]
    fn it_ends_at_once() {
        // Once is enough: on a busy machine any single time may take longer than the sleep that it would else wait for.
        let is_at_once = || {
            let notifier = LoadNotifier::of(&segment()).unwrap();
            // It sleeps by then, or not: the verdict does not depend on it.
            thread::sleep(Duration::from_millis(5));
            let start = Instant::now();
            drop(notifier);
            start.elapsed() < SLEEP_MAX / 2
        };
        assert!(testkit::wait::until(Duration::from_secs(60), is_at_once));
    }
}
