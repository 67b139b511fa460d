//! The helper as programs call it, beside clock_gettime(2) in the same process.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use weir_ebpf::{ProgramKind, helper};

use super::*;
use crate::executable::{Executable, Frame, LaneUse, RelocKind, Relocation, Symbol};
use crate::local::LocalProgram;
use crate::segment::{Identity, SegmentLayout};

/// What the header of the module says, with ten times that for a machine that does other things meanwhile.
const ERROR_NS_MAX: u64 = 10_000;
const THREADS: usize = 2;

fn segment() -> Segment {
    let layout = SegmentLayout::plan(&[], 2).expect("within bounds");
    Segment::create_local(layout, &Identity::default()).expect("a memfd")
}

/// `jmp ktime_get_ns`
fn program(segment: &Segment) -> LocalProgram {
    let symbol = Symbol::Helper(helper::KTIME_GET_NS);
    let executable = Executable {
        name: "clock".into(),
        kind: ProgramKind::Probe,
        code: vec![0xe9, 0, 0, 0, 0],
        text_bytes: 5,
        relocations: vec![Relocation { offset: 1, kind: RelocKind::Rel32, symbol, addend: -4 }],
        clobbers: !(1 << 4),
        clobbers_flags: true,
        may_misalign: true,
        context_reads: 0,
        reads_cookie: false,
        uses_session: false,
        lanes: LaneUse::None,
        tail_entry: 0,
        stack_bytes: 8,
        origins: Vec::new(),
    };
    LocalProgram::load(&executable, segment).expect("memory to run code in")
}

/// How far off `program` is at most, read for `time` by each of some threads, to none of which it runs backwards.
fn check(program: &LocalProgram, time: Duration) -> u64 {
    let read_all = || {
        let (end, mut last, mut off) = (Instant::now() + time, 0, 0);
        while Instant::now() < end {
            for _ in 0..1000 {
                let before = now_ns();
                let now = program.run(&mut Frame::default());
                let after = now_ns();
                assert!(now >= last, "{now} after {last}");
                last = now;
                off = off.max(before.saturating_sub(now)).max(now.saturating_sub(after));
            }
        }
        off
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read_all)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no assertion failed")).max().unwrap_or(0)
    })
}

/// A clock that has shown its first line; None, said loudly, where this machine has none.
fn started(segment: &Segment) -> Option<Clock> {
    let Some(mut clock) = Clock::start() else {
        testkit::skip::skip("clock::tsc", "the kernel's clock source is another");
        return None;
    };
    while clock.published == 0 {
        thread::sleep(Duration::from_millis(1));
        clock.keep(segment);
        assert!(!clock.is_over);
    }
    Some(clock)
}

/// Whoever is kept from running while it reads pairs tries again: else a run has no times, now and then.
#[test]
fn a_clock_starts_while_others_want_the_cpus() {
    if Clock::start().is_none() {
        return testkit::skip::skip("clock::tsc", "the kernel's clock source is another");
    }
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 * thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let until = Instant::now() + Duration::from_secs(2);
        let (mut interrupted, mut without) = (0, 0);
        while Instant::now() < until {
            interrupted += u32::from(sample().is_none());
            without += u32::from(Clock::start().is_none());
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(without, 0, "{interrupted} samples were interrupted");
    });
}

#[test]
fn the_line_follows_the_clock_and_never_runs_backwards() {
    let segment = segment();
    let program = program(&segment);
    let Some(mut clock) = started(&segment) else { return };
    let is_done = AtomicBool::new(false);
    let off = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                clock.keep(&segment);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let off = check(&program, Duration::from_secs(3));
        is_done.store(true, Ordering::Relaxed);
        off
    });
    assert!(clock.published > 15 && !clock.is_over, "{clock:?}");
    assert!(off <= ERROR_NS_MAX, "{off} ns off");
}

/// Hundreds of refreshes a second, each to another line.
#[test]
fn no_refresh_is_a_step_backwards() {
    let segment = segment();
    let program = program(&segment);
    let Some(mut clock) = started(&segment) else { return };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                // Turns about between 3 % too fast and 3 % too slow.
                let off = if n % 2 == 0 { 30_000 } else { 0 };
                let Some(mut sample) = sample() else { continue };
                sample.ns += off;
                let rate = clock.rate.expect("a line was published");
                if clock.publish(&segment, sample, rate, CLOCK_INTERVAL_NS_MIN / 2) {
                    let begins = clock.line.expect("published").ticks;
                    while ticks() <= begins {}
                }
            }
        });
        check(&program, Duration::from_secs(1));
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(clock.published > 100, "{}", clock.published);
}

#[test]
fn without_a_keeper_the_last_line_goes_on() {
    let segment = segment();
    let program = program(&segment);
    let Some(mut clock) = started(&segment) else { return };
    for _ in 0..60 {
        thread::sleep(Duration::from_millis(2));
        clock.keep(&segment);
    }
    // It dies in the middle of writing the next.
    segment.put_clock(0, 2 * clock.published + 1);
    clock.write(&segment, (clock.published + 1) % 2, Line { ticks: 0, ns: 1 << 50, rate: 0 });
    let begins = clock.line.expect("published").ticks;
    while ticks() <= begins {}
    let off = check(&program, Duration::from_secs(1));
    assert!(off <= ERROR_NS_MAX, "{off} ns off");
}

#[test]
fn a_segment_without_a_line_has_the_clock_of_the_vdso() {
    let segment = segment();
    assert_eq!(check(&program(&segment), Duration::from_millis(100)), 0);
}

/// As after another clock source was chosen, or the machine slept.
#[test]
fn a_counter_that_is_not_the_clock_any_more_is_given_up() {
    for step in [Sample { ticks: 0, ns: 1_000_000_000 }, Sample { ticks: 1 << 50, ns: 0 }] {
        let segment = segment();
        let program = program(&segment);
        let Some(mut clock) = started(&segment) else { return };
        clock.sample.ns -= step.ns;
        clock.sample.ticks += step.ticks;
        clock.due_ns = 0;
        clock.keep(&segment);
        assert!(clock.is_over, "{clock:?}");
        clock.keep(&segment);
        assert_eq!(check(&program, Duration::from_millis(50)), 0);
    }
}

#[test]
fn times_of_ticks_are_those_of_the_clock_and_ascend() {
    let Some(mut clock) = Clock::start() else { return };
    let segment = segment();
    assert_eq!(clock.ns(ticks()), None, "no rate is known yet");
    let first = ticks();
    let (mut last, mut read) = (0, Vec::new());
    let end = Instant::now() + Duration::from_millis(400);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
        clock.keep(&segment);
        let before = now_ns();
        let at = ticks();
        read.push((before, at, now_ns()));
    }
    assert!(clock.ns(first).unwrap() <= clock.ns(read[0].1).unwrap());
    for (before, at, after) in read {
        let ns = clock.ns(at).unwrap();
        assert!(ns >= last, "{ns} after {last}");
        let off = before.saturating_sub(ns).max(ns.saturating_sub(after));
        assert!(off <= ERROR_NS_MAX, "{off} ns off");
        last = ns;
    }
}
