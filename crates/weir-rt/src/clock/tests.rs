//! The helper as programs call it, beside clock_gettime(2) in the same process.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use weir_ebpf::{ProgramKind, helper};

use super::*;
use crate::executable::{Executable, Frame, LaneUse, RelocKind, Relocation, Symbol};
use crate::local::LocalProgram;
use crate::segment::{Identity, SegmentLayout};

const DEADLINE: Duration = Duration::from_secs(120);
const THREADS: usize = 2;

/// How far off a line may be that is used for so long: what the header of the module says, with ten times that for a machine that
/// does other things meanwhile, and what a rate adds that is wrong by 100 ppm.
fn error_ns_max(used: Duration) -> u64 {
    10_000 + used.as_nanos() as u64 / 10_000
}

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
        writes_packet: false,
        tail_entry: 0,
        stack_bytes: 8,
        origins: Vec::new(),
    };
    LocalProgram::load(&executable, segment).expect("memory to run code in")
}

/// The same for `time`.
fn check(program: &LocalProgram, time: Duration) -> u64 {
    let end = Instant::now() + time;
    check_until(program, &|| Instant::now() >= end)
}

/// How far off `program` is at most, read until `is_over` by each of some threads, to none of which it runs backwards.
fn check_until(program: &LocalProgram, is_over: &(dyn Fn() -> bool + Sync)) -> u64 {
    let read_all = || {
        let (mut last, mut off) = (0, 0);
        while !is_over() {
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
    keep_until(&mut clock, segment, 1);
    Some(clock)
}

/// Keeps the clock until it has published so many lines.
fn keep_until(clock: &mut Clock, segment: &Segment, published: u64) {
    let is_published = || {
        clock.keep(segment);
        assert!(!clock.is_over);
        clock.published >= published
    };
    assert!(testkit::wait::until(DEADLINE, is_published), "{published} lines are not published");
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
        let (mut interrupted, mut without) = (0, 0);
        for _ in 0..5_000 {
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
    let (is_done, mut longest) = (AtomicBool::new(false), Duration::ZERO);
    let off = thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Instant::now();
            while clock.published <= 15 && !clock.is_over {
                let before = clock.published;
                clock.keep(&segment);
                if clock.published > before {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                // Between two looks: the verdict knows how long the line was used.
                thread::sleep(Duration::from_millis(1));
            }
            is_done.store(true, Ordering::Relaxed);
        });
        check_until(&program, &|| is_done.load(Ordering::Relaxed))
    });
    assert!(!clock.is_over, "{clock:?}");
    assert!(off <= error_ns_max(longest), "{off} ns off, with a line used for {longest:?}");
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
                if clock.published > 120 {
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
            is_done.store(true, Ordering::Relaxed);
        });
        check_until(&program, &|| is_done.load(Ordering::Relaxed));
    });
}

#[test]
fn without_a_keeper_the_last_line_goes_on() {
    let segment = segment();
    let program = program(&segment);
    let Some(mut clock) = started(&segment) else { return };
    keep_until(&mut clock, &segment, 7);
    // It dies in the middle of writing the next.
    segment.put_clock(0, 2 * clock.published + 1);
    clock.write(&segment, (clock.published + 1) % 2, Line { ticks: 0, ns: 1 << 50, rate: 0 });
    let begins = clock.line.expect("published").ticks;
    while ticks() <= begins {}
    let start = Instant::now();
    let off = check(&program, Duration::from_secs(1));
    let used = start.elapsed();
    assert!(off <= error_ns_max(used), "{off} ns off, with a line used for {used:?}");
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
    let (mut looked, mut longest) = (Instant::now(), Duration::ZERO);
    while clock.published < 8 {
        // Between two looks: the verdict knows how long the line was used.
        thread::sleep(Duration::from_millis(1));
        let published = clock.published;
        clock.keep(&segment);
        assert!(!clock.is_over);
        if clock.published > published {
            longest = longest.max(looked.elapsed());
            looked = Instant::now();
        }
        let before = now_ns();
        let at = ticks();
        read.push((before, at, now_ns()));
    }
    assert!(clock.ns(first).unwrap() <= clock.ns(read[0].1).unwrap());
    for (before, at, after) in read {
        let ns = clock.ns(at).unwrap();
        assert!(ns >= last, "{ns} after {last}");
        let off = before.saturating_sub(ns).max(ns.saturating_sub(after));
        assert!(off <= error_ns_max(longest), "{off} ns off, with a line used for {longest:?}");
        last = ns;
    }
}

#[test]
fn the_lines_that_a_controller_has_left_say_the_same() {
    let segment = segment();
    assert!(Clock::left_in(&segment).is_none(), "no line");
    let Some(mut clock) = started(&segment) else { return };
    for published in 1..5 {
        keep_until(&mut clock, &segment, published);
        let (left, at) = (Clock::left_in(&segment).expect("a line"), ticks());
        assert_eq!(left.ns(at), clock.ns(at), "{published}");
        let newest = clock.line.unwrap().ticks;
        assert_eq!(left.ns(newest - 1), clock.ns(newest - 1), "of the line before, {published}");
    }
    // The next one, half written.
    segment.put_clock(0, 2 * clock.published + 1);
    let at = ticks().max(clock.line.unwrap().ticks);
    assert_eq!(Clock::left_in(&segment).expect("the newest").ns(at), clock.ns(at));
}
