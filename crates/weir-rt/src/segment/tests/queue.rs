//! Queues and stacks: their dumps, how many elements fit, and threads that signals interrupt. (What each operation
//! answers is in `oracle.rs`.)
//!
//! What is held to: an element that was pushed is popped at most once, and is popped or still there at the end unless a
//! push with BPF_EXIST dropped it (linearizability of the set); a consumer sees the elements of one producer in the
//! order of their pushes (queue); no value is torn; a full map refuses, and nothing is given up.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;

use nix::libc;
use weir_ebpf::MapKind;

use super::{Random, segment, signals, spec, value};
use crate::abi::Descriptor;
use crate::runtime::linked;

const ENOENT: i64 = -2;
const E2BIG: i64 = -7;

#[test]
fn a_dump_is_in_the_order_of_pops() {
    for kind in [MapKind::Queue, MapKind::Stack] {
        let segment = segment(&[spec(kind, 0, 12, 5)]);
        let view = segment.map(0);
        let mut random = Random(kind as u64);
        for n in 0..200 {
            match random.below(3) {
                0 => _ = view.pop(),
                _ => assert_eq!(view.update(&[], &value(n, 12), 2), Ok(())),
            }
            let dumped: Vec<_> = view.entries().into_iter().map(|(_, value)| value).collect();
            assert_eq!(dumped.first(), view.lookup(&[]).as_ref(), "{kind:?} {n}");
            let popped: Vec<_> = std::iter::from_fn(|| view.pop().ok()).collect();
            assert_eq!(dumped, popped, "{kind:?} {n}");
            let oldest_first: Vec<_> = match kind {
                MapKind::Queue => popped,
                _ => popped.into_iter().rev().collect(),
            };
            oldest_first.iter().for_each(|value| view.update(&[], value, 0).expect("they were there"));
        }
    }
}

#[test]
fn exactly_max_entries_fit_a_queue_or_stack() {
    for kind in [MapKind::Queue, MapKind::Stack] {
        for max_entries in [1, 2, 3, 64, 1000] {
            let segment = segment(&[spec(kind, 0, 16, max_entries)]);
            super::assert_no_node_lost(&segment, 0);
            super::assert_no_node_lost(&segment, 0);
            assert_eq!(segment.counters().maps[0].full, 2);
        }
    }
}

const THREADS: u64 = 8;
const OPERATIONS: u64 = 20_000;
/// Runs of handlers that the threads wait for, in the middle of their work.
const SIGNALS: u64 = 200;
static HANDLED: AtomicU64 = AtomicU64::new(0);
const VALUE_BYTES: usize = 24;

/// The map that the signal handler works on.
static MAP: AtomicPtr<Descriptor> = AtomicPtr::new(std::ptr::null_mut());
/// Elements that handlers pushed, and that they popped: numbers and sums of what the elements say.
static PUSHED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static POPPED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The producer that stands for all handlers.
const HANDLER: u64 = 99;

/// An element: producer, number, and both again, so that a torn one shows.
fn element(producer: u64, number: u64) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    for (at, word) in [producer, number, producer ^ number << 8].into_iter().enumerate() {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn taken_apart(bytes: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (producer, number) = (word(0), word(8));
    assert_eq!(word(16), producer ^ number << 8, "torn: {bytes:?}");
    (producer, number)
}

fn note(totals: &[AtomicU64; 2], producer: u64, number: u64) {
    totals[0].fetch_add(1, Ordering::Relaxed);
    totals[1].fetch_add(producer * 1_000_003 + number, Ordering::Relaxed);
}

extern "C" fn on_signal(_: i32) {
    // SAFETY: whoever sends the signal keeps the map until no thread gets one any more.
    let map = unsafe { &*MAP.load(Ordering::Relaxed) };
    let number = PUSHED[0].load(Ordering::Relaxed);
    if linked::map_push(map, &element(HANDLER, number), 0) == 0 {
        note(&PUSHED, HANDLER, number);
    }
    let mut value = [0; VALUE_BYTES];
    if linked::map_pop(map, &mut value) == 0 {
        let (producer, number) = taken_apart(&value);
        note(&POPPED, producer, number);
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn check_threads(kind: MapKind, max_entries: u32) {
    let segment = segment(&[spec(kind, 0, VALUE_BYTES as u32, max_entries)]);
    let descriptor = segment.descriptor(0);
    MAP.store(std::ptr::from_ref(descriptor).cast_mut(), Ordering::Relaxed);
    for total in PUSHED.iter().chain(&POPPED).chain([&HANDLED]) {
        total.store(0, Ordering::Relaxed);
    }
    // Pushed and popped by the threads themselves; the popped ones in the order in which one thread saw them.
    let work = |producer: u64| {
        let mut random = Random(producer + 1);
        let (mut pushed, mut popped) = (Vec::new(), Vec::new());
        let enough = |number: u64| number >= OPERATIONS && HANDLED.load(Ordering::Relaxed) >= SIGNALS;
        for number in (0..50 * OPERATIONS).take_while(|number| !enough(*number)) {
            if number >= OPERATIONS {
                // Whoever sends the signals needs a CPU, too.
                thread::yield_now();
            }
            match random.below(5) {
                0 | 1 => match linked::map_push(descriptor, &element(producer, number), 0) {
                    0 => pushed.push((producer, number)),
                    status => assert_eq!(status, E2BIG),
                },
                2 => {
                    let mut value = [0; VALUE_BYTES];
                    if linked::map_peek(descriptor, &mut value) == 0 {
                        taken_apart(&value);
                    }
                }
                _ => {
                    let mut value = [0; VALUE_BYTES];
                    match linked::map_pop(descriptor, &mut value) {
                        0 => popped.push(taken_apart(&value)),
                        status => assert_eq!(status, ENOENT),
                    }
                }
            }
        }
        (pushed, popped)
    };
    let (mut pushed, mut popped) = (Vec::new(), Vec::new());
    for (thread, (mine, seen)) in
        signals::interrupted(THREADS, libc::SIGUSR1, on_signal, work).into_iter().enumerate()
    {
        if kind == MapKind::Queue {
            for producer in 0..THREADS {
                let numbers = seen.iter().filter(|(from, _)| *from == producer).map(|(_, number)| *number);
                assert!(numbers.is_sorted(), "thread {thread}: producer {producer}");
            }
        }
        pushed.extend(mine);
        popped.extend(seen);
    }

    let counters = segment.counters().maps[0];
    assert_eq!((counters.contended, counters.corrupt), (0, 0));
    popped.extend(std::iter::from_fn(|| segment.map(0).pop().ok()).map(|value| taken_apart(&value)));
    let by_threads = popped.iter().filter(|(producer, _)| *producer != HANDLER);
    let distinct: BTreeSet<_> = by_threads.clone().collect();
    assert_eq!(distinct.len(), by_threads.count(), "an element twice");
    // All that went in came out: by number, and by the sum of what they say.
    let total = |elements: &[(u64, u64)], totals: &[AtomicU64; 2]| {
        let sum: u64 = elements.iter().map(|(producer, number)| producer * 1_000_003 + number).sum();
        (elements.len() as u64 + totals[0].load(Ordering::Relaxed), sum + totals[1].load(Ordering::Relaxed))
    };
    assert_eq!(total(&pushed, &PUSHED), total(&popped, &POPPED), "pushed and popped");
    let pushed_by_handlers = PUSHED[0].load(Ordering::Relaxed);
    assert!(HANDLED.load(Ordering::Relaxed) >= SIGNALS && pushed_by_handlers > 0, "the handlers did nothing");
    super::assert_no_node_lost(&segment, 0);
}

/// One test, because all share the handler.
#[test]
fn elements_are_neither_lost_nor_doubled_under_eight_threads_and_signals() {
    for kind in [MapKind::Queue, MapKind::Stack] {
        for max_entries in [1, 3, 64] {
            check_threads(kind, max_entries);
        }
    }
}

/// Pushes that drop the oldest, at the same time as pops: what comes out of a queue is still in order, and as many
/// elements remain as fit.
#[test]
fn dropping_the_oldest_keeps_the_order_under_threads() {
    let segment = segment(&[spec(MapKind::Queue, 0, VALUE_BYTES as u32, 4)]);
    let descriptor = segment.descriptor(0);
    thread::scope(|scope| {
        for producer in 0..3 {
            scope.spawn(move || {
                for number in 0..OPERATIONS {
                    assert_eq!(linked::map_push(descriptor, &element(producer, number), 2), 0);
                }
            });
        }
        scope.spawn(|| {
            let mut next = [0; 3];
            for _ in 0..OPERATIONS {
                let Ok(value) = segment.map(0).pop() else { continue };
                let (producer, number) = taken_apart(&value);
                assert!(number >= next[producer as usize], "out of order");
                next[producer as usize] = number + 1;
            }
        });
    });
    let counters = segment.counters().maps[0];
    assert_eq!((counters.contended, counters.corrupt, counters.full), (0, 0, 0));
    assert!(segment.map(0).entries().len() <= 4);
    super::assert_no_node_lost(&segment, 0);
}
