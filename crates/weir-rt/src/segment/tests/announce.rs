//! Announcements, with a thread of this process as the target.

use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::super::*;

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
                words.wait(0, Duration::from_secs(1)).unwrap();
            }
            if takes {
                words.take(1);
            }
            thread::sleep(after);
            words.answer(1);
        });
        announce(&segment, ptr::null())
    });
    (took, segment.announcements().late())
}

#[test]
fn an_answer_is_waited_for() {
    let (took, late) = answered(Duration::from_millis(20), false);
    assert!(took >= Duration::from_millis(20) && late == 0, "{took:?}, {late} late");
}

#[test]
fn who_works_on_it_is_waited_for_longer() {
    let (took, late) = answered(Duration::from_millis(200), true);
    assert!(took >= Duration::from_millis(200) && late == 0, "{took:?}, {late} late");
}

#[test]
fn who_does_not_stir_is_not_waited_for_long_nor_again_before_it_does() {
    let (took, late) = answered(Duration::from_millis(200), false);
    assert!(took >= Duration::from_millis(50) && took < Duration::from_millis(190) && late == 1, "{took:?}");
    let segment = segment();
    let words = segment.announcements();
    words.open();
    assert!(announce(&segment, ptr::null()) >= Duration::from_millis(50));
    let more: Duration = (0..100).map(|_| announce(&segment, ptr::null())).sum();
    assert!(more < Duration::from_millis(50), "{more:?} for a hundred that nobody waits for");
    assert_eq!((words.announced(), words.answered(), words.late()), (101, 0, 101));
    words.answer(101);
    assert!(announce(&segment, ptr::null()) >= Duration::from_millis(50), "waited for again");
}

#[test]
fn what_works_on_it_for_ever_is_not_waited_for() {
    let segment = segment();
    segment.announcements().open();
    segment.announcements().take(1);
    let took = announce(&segment, ptr::null());
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(2), "{took:?}");
    assert_eq!(segment.announcements().late(), 1);
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
    assert!(announce(&segment, &0) < Duration::from_millis(40));
    assert_eq!(segment.announcements().announced(), 0, "closed again");
}

#[test]
fn numbers_come_round_again() {
    let segment = segment();
    let words = segment.announcements();
    words.open();
    segment.mapping().word(Announcements::OFFSET + 8).store(u64::from(u32::MAX), Ordering::Relaxed);
    words.answer(u32::MAX);
    assert!(announce(&segment, ptr::null()) >= Duration::from_millis(50), "waited for");
    assert_eq!((words.announced(), words.late()), (0, 1));
}
