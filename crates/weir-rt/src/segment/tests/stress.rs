//! Maps of every kind under load: churn with a part of the room in use, eight threads that signal handlers interrupt,
//! and targets killed in the middle of both.
//!
//! The rules are the same for all: nothing committed is lost or torn, no key is there twice, nobody waits for anybody,
//! and afterwards the map takes what fits. `cargo xtask soak maps` runs [`a_kill_leaves_every_kind_usable`] with one
//! seed after the other, which it passes in `WEIR_SOAK_SEED`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use weir_ebpf::MapKind;

use super::killed::child;
use super::kinds::{KINDS, Law, Row};
use super::{Random, key_of, segment, spec, value};
use crate::runtime::linked;
use crate::segment::Segment;

/// Entries of the maps here.
const ENTRIES: u32 = 200;

/// Kinds whose contents can be read back; rings and Bloom filters have tests of their own.
fn with_contents() -> impl Iterator<Item = &'static Row> {
    KINDS.iter().filter(|row| !matches!(row.law, Law::NoElements | Law::NoFalseNegatives))
}

fn key_bytes(kind: MapKind) -> u32 {
    match kind {
        kind if kind.is_array() => 4,
        kind if kind.is_queue() => 0,
        _ => 8,
    }
}

/// Of `load` percent of the entries in use, single ones come and go: each live key has its value, no dead one is found,
/// and a walk meets each live key once. (An LRU gives up none, since there is room.)
fn churn(kind: MapKind, value_bytes: u32, load: u32) {
    let segment = segment(&[spec(kind, key_bytes(kind), value_bytes, ENTRIES)]);
    let (map, descriptor) = (segment.user_map(0), segment.descriptor(0));
    let mut live: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut random = Random(u64::from(load) + 1);
    let used = u64::from((ENTRIES * load / 100).max(1));
    for step in 0..10 * u64::from(ENTRIES) {
        if kind.is_hash() && live.len() as u64 == used {
            let dead = live.keys().nth(random.below(used) as usize).expect("below the length").clone();
            live.remove(&dead);
            assert_eq!(linked::map_delete(descriptor, &dead), 0, "{kind:?} at {load} %, step {step}");
            assert_eq!(linked::map_lookup(descriptor, &dead), None, "{kind:?} at {load} %, step {step}");
        }
        let number = if kind.is_hash() { step } else { random.below(used) };
        let (key, value) = (key_of(kind, number, key_bytes(kind)), value(random.next(), value_bytes));
        assert_eq!(linked::map_update(descriptor, &key, &value, 0), 0, "{kind:?} at {load} %, step {step}");
        live.insert(key, value);
        if step % u64::from(ENTRIES) == 0 {
            for (key, value) in &live {
                assert_eq!(map.lookup(key, 0).as_ref(), Ok(value), "{kind:?} at {load} %, step {step}");
                assert!(linked::map_lookup(descriptor, key).is_some(), "{kind:?} at {load} %, step {step}");
            }
            if kind.is_hash() {
                let entries: Vec<_> = live.clone().into_iter().collect();
                assert_eq!(segment.map(0).entries(), entries, "{kind:?} at {load} %, step {step}");
            }
        }
    }
    let counters = segment.counters().maps[0];
    assert_eq!((counters.full, counters.evicted, counters.contended, counters.corrupt), (0, 0, 0, 0));
}

#[test]
fn churn_at_every_load_loses_nothing() {
    for row in KINDS.iter().filter(|row| matches!(row.law, Law::Exact | Law::Evicts)) {
        for value_bytes in [8, 40] {
            for load in [1, 10, 50, 90, 100] {
                churn(row.kind, value_bytes, load);
            }
        }
    }
}

/// Bytes that hold any key and value here: a signal handler may not allocate.
const KEY_ROOM: usize = 8;
const VALUE_ROOM: usize = 64;

/// One random operation, as a program does it, without allocation. Values show when a word of them is torn.
fn operate(segment: &Segment, random: &mut Random) -> i64 {
    let descriptor = segment.descriptor(0);
    let mut key = [0; KEY_ROOM];
    // More keys than fit, so that maps are full and LRUs give keys up.
    let number = random.below(u64::from(ENTRIES) * 5 / 4);
    key.copy_from_slice(&number.to_le_bytes());
    if descriptor.kind == MapKind::LpmTrie as u32 {
        key.copy_from_slice(&(number << 32 | (32 - number % 3)).to_le_bytes());
    }
    let key = &key[..descriptor.key_bytes as usize];
    let value = [random.next() as u8; VALUE_ROOM];
    let value = &value[..descriptor.value_bytes as usize];
    let kind = segment.layout().maps[0].spec.kind;
    if kind.is_queue() {
        let mut out = [0; VALUE_ROOM];
        let out = &mut out[..descriptor.value_bytes as usize];
        return match random.below(8) {
            0..4 => linked::map_push(descriptor, value, random.below(2) * 2),
            4..7 => linked::map_pop(descriptor, out),
            _ => linked::map_peek(descriptor, out),
        };
    }
    match random.below(8) {
        0..4 => linked::map_update(descriptor, key, value, random.below(3)),
        4..6 if !kind.is_array() => linked::map_delete(descriptor, key),
        _ => i64::from(linked::map_lookup(descriptor, key).is_none()) * -2,
    }
}

/// What the helpers may answer while others do the same: never EBUSY or ENOMEM.
const STATUSES: [i64; 5] = [0, -2, -7, -17, -28];

fn check_status(status: i64, kind: MapKind) {
    assert!(STATUSES.contains(&status), "{kind:?}: {status}");
}

/// No key twice (`entries` would show it as more than the walk), every word of a value from one update.
fn check_contents(segment: &Segment, context: &str) {
    let entries = segment.map(0).entries();
    assert!(entries.len() <= ENTRIES as usize, "{context}: {} entries", entries.len());
    for (key, value) in entries {
        for word in value.chunks(8) {
            assert!(word.iter().all(|byte| *byte == word[0]), "{context}: {key:?} is torn: {value:?}");
        }
        let is_replaced_as_a_whole =
            segment.layout().maps[0].lanes == 1 && segment.layout().maps[0].node_count > 0;
        if is_replaced_as_a_whole {
            assert!(value.iter().all(|byte| *byte == value[0]), "{context}: {key:?} is torn: {value:?}");
        }
    }
}

/// Between two signals: long enough that operations go on, short enough that most rounds of any thread are interrupted.
const SIGNAL_INTERVAL: Duration = Duration::from_micros(20);

/// What the signal handler works on; tests that use it take turns.
static TURN: Mutex<()> = Mutex::new(());
static SEGMENT: AtomicUsize = AtomicUsize::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static WRONG_STATUS: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: i32) {
    let number = SIGNALS.fetch_add(1, Ordering::Relaxed);
    let segment = SEGMENT.load(Ordering::Relaxed) as *const Segment;
    // SAFETY: whoever set it keeps the segment until its threads are gone, and no signal is sent after that.
    if let Some(segment) = unsafe { segment.as_ref() } {
        let status = operate(segment, &mut Random(number * 2 + 1));
        WRONG_STATUS.fetch_or(!STATUSES.contains(&status), Ordering::Relaxed);
    }
}

fn install_handler() {
    // SAFETY: the handler touches atomics, the segment and the C half only, all of which a signal handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
}

/// `threads` threads that operate until `is_over`, each interrupted by signals all the time.
fn run_threads(segment: &Segment, threads: u64, seed: u64, is_over: &(dyn Fn(u64) -> bool + Sync)) {
    let kind = segment.layout().maps[0].spec.kind;
    SEGMENT.store(std::ptr::from_ref(segment) as usize, Ordering::Relaxed);
    install_handler();
    let ids: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let left = AtomicU64::new(threads);
    let no_more_signals = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, id) in ids.iter().enumerate() {
            let (left, no_more_signals) = (&left, &no_more_signals);
            scope.spawn(move || {
                // SAFETY: takes nothing.
                id.store(unsafe { libc::syscall(libc::SYS_gettid) } as u64, Ordering::Release);
                let mut random = Random(seed * 1000 + number as u64 + 1);
                for done in 0.. {
                    check_status(operate(segment, &mut random), kind);
                    if is_over(done) {
                        break;
                    }
                }
                left.fetch_sub(1, Ordering::Release);
                // A thread's number must stay its own until nobody sends it signals.
                while !no_more_signals.load(Ordering::Acquire) {
                    // Between two looks: the verdict does not depend on how long it takes.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let mut random = Random(seed + 1);
        while left.load(Ordering::Acquire) > 0 {
            match ids[random.below(threads) as usize].load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                // SAFETY: sends a signal that has a handler to a thread of ours.
                id => _ = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR2) },
            }
            // Pacing alone: the verdict does not depend on it, since the signals that are wanted are counted.
            std::thread::sleep(SIGNAL_INTERVAL);
        }
        no_more_signals.store(true, Ordering::Release);
    });
}

#[test]
fn eight_threads_and_signals_keep_the_rules() {
    const OPERATIONS: u64 = 8_000;
    const INTERRUPTIONS: u64 = 500;
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for row in with_contents() {
        for value_bytes in [8, 40] {
            let context = format!("{:?} of {value_bytes} bytes", row.kind);
            let segment = segment(&[spec(row.kind, key_bytes(row.kind), value_bytes, ENTRIES)]);
            let before = SIGNALS.load(Ordering::Relaxed);
            let is_over =
                |done| done >= OPERATIONS && SIGNALS.load(Ordering::Relaxed) >= before + INTERRUPTIONS;
            run_threads(&segment, 8, 1, &is_over);
            assert!(!WRONG_STATUS.load(Ordering::Relaxed), "{context}: a status in a handler");
            check_contents(&segment, &context);
            let counters = segment.counters().maps[0];
            assert_eq!((counters.contended, counters.corrupt), (0, 0), "{context}");
            if !row.kind.is_array() {
                super::assert_no_node_lost(&segment, 0);
            }
        }
    }
    drop(turn);
}

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The controller dumps maps while they change: what it sees of an element is of one moment.
#[test]
fn dumps_of_changing_maps_are_whole() {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for row in with_contents() {
        let context = format!("a dump of a changing {:?}", row.kind);
        let segment = segment(&[spec(row.kind, key_bytes(row.kind), 40, ENTRIES)]);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| run_threads(&segment, 3, 2, &|_| is_over.load(Ordering::Relaxed)));
            // Ends the threads even where a check fails.
            let _end = SetWhenDropped(&is_over);
            let until = Instant::now() + Duration::from_millis(200);
            while Instant::now() < until {
                check_contents(&segment, &context);
            }
        });
        assert!(!WRONG_STATUS.load(Ordering::Relaxed), "{context}: a status in a handler");
        assert_eq!(segment.counters().maps[0].corrupt, 0, "{context}");
    }
    drop(turn);
}

/// Threads of a child that is killed.
const CHILD_THREADS: u64 = 4;

/// A child whose threads operate on a map of some kind, interrupted by signals, is killed at some moment, while this
/// process reads the map. What the seed decides: kind, size of values, moment.
fn kill_one(seed: u64) {
    let rows: Vec<_> = with_contents().collect();
    let mut random = Random(testkit::random::state(seed));
    let kind = rows[(seed % rows.len() as u64) as usize].kind;
    let value_bytes = [8, 4, 40, 64][random.below(4) as usize];
    let context = format!("seed {seed}: {kind:?} of {value_bytes} bytes");
    let segment = segment(&[spec(kind, key_bytes(kind), value_bytes, ENTRIES)]);
    let pid = child(|| run_threads(&segment, CHILD_THREADS, seed, &|_| false));
    // A random moment: the verdict does not depend on which one it is.
    let until = Instant::now() + Duration::from_micros(2_000 + random.below(20_000));
    while Instant::now() < until {
        check_contents(&segment, &context);
        let key = key_of(kind, random.below(ENTRIES.into()), key_bytes(kind));
        let _ = segment.user_map(0).lookup(&key, 0);
        let _ = segment.user_map(0).next_key(Some(&key));
    }
    kill(pid, Signal::SIGKILL).expect("our child");
    waitpid(pid, None).expect("our child");

    check_contents(&segment, &context);
    let counters = segment.counters().maps[0];
    assert_eq!(counters.corrupt, 0, "{context}");
    let view = segment.map(0);
    view.clear();
    // Each thread may have died in an operation, and in one of a handler that interrupted it.
    let least = if kind.is_array() { ENTRIES } else { ENTRIES - 2 * CHILD_THREADS as u32 };
    let take = |n: u32| {
        view.update(&key_of(kind, n.into(), key_bytes(kind)), &value(n.into(), value_bytes), 0).is_ok()
    };
    let taken = (0..ENTRIES).filter(|n| take(*n)).count();
    let fits = view.entries().len();
    assert!(taken >= fits && (least as usize..=ENTRIES as usize).contains(&fits), "{context}: {fits} fit");
}

#[test]
fn a_kill_leaves_every_kind_usable() {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match std::env::var("WEIR_SOAK_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => kill_one(seed),
        None => (0..4 * KINDS.len() as u64).for_each(kill_one),
    }
    drop(turn);
}
