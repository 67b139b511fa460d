//! Announcements, with a thread of this process as the target.
//!
//! That somebody waits is seen by the least time that it takes. That somebody does not wait, or not so long, is seen in one
//! round of many that was quick enough: on a busy machine any single one may take longer.

use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use testkit::wait;

use super::super::*;

const DEADLINE: Duration = Duration::from_secs(120);

unsafe extern "C" {
    fn weir_announce(words: u64, state: *const u32);
}

fn segment() -> Segment {
    let layout = SegmentLayout::of_target(1, 0).expect("within bounds");
    Segment::create_local(layout, &Identity::default()).expect("a memfd")
}

/// How long it took to go on.
fn announce(segment: &Segment, state: *const u32) -> Duration {
    let words = segment.mapping().base() + Announcements::OFFSET;
    let start = Instant::now();
    // SAFETY: the segment lives here, and `state` is null or lives in the caller.
    unsafe { weir_announce(words, state) };
    start.elapsed()
}

/// Answers the first one `after` it was announced, having taken it at once if `takes`.
fn answered(after: Duration, takes: bool) -> (Duration, u32) {
    let segment = segment();
    segment.announcements().open();
    let took = thread::scope(|scope| {
        scope.spawn(|| {
            let words = segment.announcements();
            while words.announced() == 0 {
                words.wait(0, DEADLINE).unwrap();
            }
            if takes {
                words.take(1);
            }
            // At least so long, and the verdict does not depend on how much longer.
            thread::sleep(after);
            words.answer(1);
        });
        announce(&segment, ptr::null())
    });
    (took, segment.announcements().late())
}

/// How long somebody is waited for who does not stir.
const STIRS: Duration = Duration::from_millis(50);
/// How long one who works on it.
const WORKS: Duration = Duration::from_millis(500);

#[test]
fn an_answer_is_waited_for_and_ends_the_wait() {
    let after = Duration::from_millis(20);
    let is_in_time = || {
        let (took, late) = answered(after, false);
        // The answer of a busy machine may come too late; it was waited for as long as one that never comes.
        assert!(took >= if late == 0 { after } else { STIRS } && late <= 1, "{took:?}, {late} late");
        late == 0 && took < STIRS
    };
    assert!(wait::until(DEADLINE, is_in_time), "no answer ended the wait");
}

#[test]
fn who_works_on_it_is_waited_for_longer() {
    let after = Duration::from_millis(200);
    let is_waited_for = || {
        let (took, late) = answered(after, true);
        assert!(took >= if late == 0 { after } else { STIRS } && late <= 1, "{took:?}, {late} late");
        late == 0
    };
    assert!(wait::until(DEADLINE, is_waited_for), "nobody who works on it was waited for");
}

#[test]
fn who_does_not_stir_is_not_waited_for_long_nor_again_before_it_does() {
    let is_short = || {
        let (took, late) = answered(4 * STIRS, false);
        assert!(took >= STIRS && late <= 1, "{took:?}, {late} late");
        late == 1 && took < 4 * STIRS
    };
    assert!(wait::until(DEADLINE, is_short), "who does not stir is waited for");
    let segment = segment();
    let words = segment.announcements();
    words.open();
    assert!(announce(&segment, ptr::null()) >= STIRS);
    let before = waits();
    (0..100).for_each(|_| _ = announce(&segment, ptr::null()));
    // The kernel may have it wait for something else now and then.
    let more = waits() - before;
    assert!(more < 10, "{more} waits in a hundred that nobody waits for");
    assert_eq!((words.announced(), words.answered(), words.late()), (101, 0, 101));
    words.answer(101);
    assert!(announce(&segment, ptr::null()) >= STIRS, "waited for again");
}

/// How often this thread has waited for something so far.
fn waits() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).expect("of this thread").voluntary_context_switches()
}

#[test]
fn what_works_on_it_for_ever_is_not_waited_for() {
    let is_short = || {
        let segment = segment();
        segment.announcements().open();
        segment.announcements().take(1);
        let took = announce(&segment, ptr::null());
        assert!(took >= WORKS, "{took:?}");
        assert_eq!(segment.announcements().late(), 1);
        took < 4 * WORKS
    };
    assert!(wait::until(DEADLINE, is_short), "what works on it for ever is waited for");
}

#[test]
fn nothing_is_announced_to_nobody_or_before_the_list_is_whole() {
    let segment = segment();
    announce(&segment, ptr::null());
    assert_eq!(segment.announcements().announced(), 0, "not open");
    segment.announcements().open();
    announce(&segment, &1);
    assert_eq!(segment.announcements().announced(), 0, "the list is being changed");
    segment.announcements().close();
    announce(&segment, &0);
    assert_eq!(segment.announcements().announced(), 0, "closed again");
    assert_eq!(segment.announcements().late(), 0, "none of them was waited for");
}

#[test]
fn numbers_come_round_again() {
    let segment = segment();
    let words = segment.announcements();
    words.open();
    segment.mapping().word(Announcements::OFFSET + 8).store(u64::from(u32::MAX), Ordering::Relaxed);
    words.answer(u32::MAX);
    assert!(announce(&segment, ptr::null()) >= STIRS, "waited for");
    assert_eq!((words.announced(), words.late()), (0, 1));
}
