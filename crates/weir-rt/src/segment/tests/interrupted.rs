//! One operation stopped between any two of its instructions, by the trap flag: either another operation runs there
//! and the first goes on (a signal handler that hits a probe), or the process dies there.
//!
//! This tries every place at which a thread can be interrupted or killed, not those that chance finds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use weir_ebpf::MapKind;

use super::killed::child;
use super::{key, segment, spec, value};
use crate::runtime::linked;
use crate::segment::Segment;

/// One operation on map 0, by number, on key 1 or 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Insert(u64),
    Replace(u64),
    Set(u64),
    Delete(u64),
    Lookup(u64),
    Output,
}

use Operation::{Delete, Insert, Lookup, Output, Replace, Set};

impl Operation {
    fn run(self, segment: &Segment, seed: u8) -> i64 {
        let map = segment.descriptor(0);
        let small = [seed; 40];
        let value = &small[..map.value_bytes as usize];
        match self {
            Insert(n) => linked::map_update(map, &chained(n), value, 1),
            Replace(n) => linked::map_update(map, &chained(n), value, 2),
            Set(n) => linked::map_update(map, &chained(n), value, 0),
            Delete(n) => linked::map_delete(map, &chained(n)),
            Lookup(n) => i64::from(linked::map_lookup(map, &chained(n)).is_some()),
            Output => linked::ringbuf_output(segment.descriptor(1), value, 0),
        }
    }
}

/// What the trap handler works with; tests that step take turns.
static TURN: Mutex<()> = Mutex::new(());
static SEGMENT: AtomicUsize = AtomicUsize::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);
static STOP_AT: AtomicU64 = AtomicU64::new(u64::MAX);
static IS_STEPPING: AtomicU64 = AtomicU64::new(0);
static INNER: AtomicUsize = AtomicUsize::new(0);
static INNER_RESULT: AtomicU64 = AtomicU64::new(u64::MAX);
static TEXT_START: AtomicU64 = AtomicU64::new(0);
static TEXT_END: AtomicU64 = AtomicU64::new(0);
/// For `INNER`: die instead.
const DIE: usize = usize::MAX;
const TRAP_FLAG: i64 = 0x100;

/// Keys 1 and 3 are there, 2 is not: these take every path of the C half.
const OPERATIONS: [Operation; 6] = [Insert(2), Replace(1), Set(2), Delete(1), Lookup(1), Output];
const INNER_OPERATIONS: [Operation; 7] = [Insert(2), Replace(1), Set(2), Delete(1), Delete(3), Lookup(2), Output];

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a ucontext_t to a SA_SIGINFO handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    if IS_STEPPING.load(Ordering::Relaxed) == 0 {
        registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
        return;
    }
    registers[libc::REG_EFL as usize] |= TRAP_FLAG;
    let at = registers[libc::REG_RIP as usize] as u64;
    if !(TEXT_START.load(Ordering::Relaxed)..TEXT_END.load(Ordering::Relaxed)).contains(&at) {
        return;
    }
    if STEPS.fetch_add(1, Ordering::Relaxed) != STOP_AT.load(Ordering::Relaxed) {
        return;
    }
    let inner = INNER.load(Ordering::Relaxed);
    if inner == DIE {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(7) };
    }
    // SAFETY: the test that set it keeps the segment until stepping is over.
    let segment = unsafe { &*(SEGMENT.load(Ordering::Relaxed) as *const Segment) };
    INNER_RESULT.store(INNER_OPERATIONS[inner].run(segment, 2) as u64, Ordering::Relaxed);
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

/// Runs `outer` one instruction at a time, doing `inner` before its instruction `stop_at`. The results, and whether
/// there was such an instruction.
fn step(segment: &Segment, outer: Operation, inner: usize, stop_at: u64) -> (i64, Option<i64>) {
    SEGMENT.store(std::ptr::from_ref(segment) as usize, Ordering::Relaxed);
    STEPS.store(0, Ordering::Relaxed);
    STOP_AT.store(stop_at, Ordering::Relaxed);
    INNER.store(inner, Ordering::Relaxed);
    INNER_RESULT.store(u64::MAX, Ordering::Relaxed);
    IS_STEPPING.store(1, Ordering::Relaxed);
    // SAFETY: raises a signal that has a handler, which turns stepping on.
    unsafe { libc::raise(libc::SIGTRAP) };
    let result = outer.run(segment, 1);
    IS_STEPPING.store(0, Ordering::Relaxed);
    let was_stopped = STEPS.load(Ordering::Relaxed) > stop_at;
    (result, was_stopped.then(|| INNER_RESULT.load(Ordering::Relaxed) as i64))
}

/// Finds the linked C half: everything from its first helper to its last, and what lies between.
fn install_handler() {
    let addresses = crate::runtime::FUNCTIONS.iter().filter_map(|(id, _)| crate::runtime::helper_address(*id));
    let (low, high) = addresses.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
    TEXT_START.store(low, Ordering::Relaxed);
    TEXT_END.store(high + 0x80, Ordering::Relaxed);
    // SAFETY: the handler touches atomics and calls the C half only, both allowed in a signal handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// The keys by number: those of the map below that fall into one bucket, so that they share a chain.
fn chained(number: u64) -> [u8; 8] {
    CHAINED[number as usize].load(Ordering::Relaxed).to_le_bytes()
}

static CHAINED: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Keys 3 and 1 present, 2 absent, all in one chain.
fn prepared(kind: MapKind, value_bytes: u32) -> Segment {
    let segment = segment(&[spec(kind, 8, value_bytes, 4), spec(MapKind::RingBuf, 0, 0, 4096)]);
    let same_bucket = (0u64..).filter(|n| linked::hash_bucket(segment.descriptor(0), &n.to_le_bytes()) == 0);
    for (slot, key) in CHAINED.iter().zip(same_bucket) {
        slot.store(key, Ordering::Relaxed);
    }
    for n in [3, 1] {
        segment.map(0).update(&chained(n), &value(9, value_bytes), 1).expect("room");
    }
    segment
}

type State = (Vec<(Vec<u8>, Vec<u8>)>, usize);

fn state(segment: &Segment) -> State {
    (segment.map(0).entries(), segment.ring(1).drain_dead().len())
}

/// What the two operations answer and leave when one runs after the other.
fn in_sequence(kind: MapKind, value_bytes: u32, first: (Operation, u8), second: (Operation, u8)) -> ((i64, i64), State) {
    let segment = prepared(kind, value_bytes);
    let results = (first.0.run(&segment, first.1), second.0.run(&segment, second.1));
    (results, state(&segment))
}

fn check_nested(kind: MapKind, value_bytes: u32) {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    install_handler();
    for outer in OPERATIONS {
        for (number, inner) in INNER_OPERATIONS.into_iter().enumerate() {
            let (ab, after_ab) = in_sequence(kind, value_bytes, (outer, 1), (inner, 2));
            let ((b, a), after_ba) = in_sequence(kind, value_bytes, (inner, 2), (outer, 1));
            let mut stop_at = 0;
            loop {
                let segment = prepared(kind, value_bytes);
                let (result, Some(inner_result)) = step(&segment, outer, number, stop_at) else { break };
                let results = (result, inner_result);
                let context = format!("{outer:?} interrupted by {inner:?} before instruction {stop_at}");
                let left = state(&segment);
                let is_sequential =
                    (results == ab && left == after_ab) || (results == (a, b) && left == after_ba);
                assert!(is_sequential, "{context}: {results:?}, {left:?}");
                assert_eq!(segment.counters().maps[0].contended, 0, "{context}");
                super::assert_no_node_lost(&segment, 0);
                stop_at += 1;
            }
            eprintln!("{outer:?} {inner:?} {stop_at} {:?}", STEPS.load(Ordering::Relaxed));
            assert!(stop_at > 10, "{outer:?} has {stop_at} instructions");
        }
    }
}

#[test]
fn an_interruption_between_any_two_instructions_is_a_sequence_small_values() {
    check_nested(MapKind::Hash, 8);
}

#[test]
fn an_interruption_between_any_two_instructions_is_a_sequence_large_values() {
    check_nested(MapKind::Hash, 40);
}

#[test]
fn a_death_between_any_two_instructions_leaves_all_usable() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    install_handler();
    for (kind, value_bytes) in [(MapKind::Hash, 8), (MapKind::Hash, 40), (MapKind::PerCpuHash, 8)] {
        for outer in OPERATIONS {
            let before = state(&prepared(kind, value_bytes));
            let done = prepared(kind, value_bytes);
            outer.run(&done, 1);
            let after = state(&done);
            for stop_at in 0.. {
                let segment = prepared(kind, value_bytes);
                let pid = child(|| {
                    step(&segment, outer, DIE, stop_at);
                });
                match waitpid(pid, None).expect("our child") {
                    WaitStatus::Exited(_, 7) => {}
                    WaitStatus::Exited(_, 0) => break,
                    other => panic!("{outer:?} at {stop_at}: {other:?}"),
                }
                let left = state(&segment);
                assert!(left == before || left == after, "{outer:?} dead at {stop_at}: {left:?}");
                // Whatever was left half-way, the map works on and at most one node is gone.
                let view = segment.map(0);
                view.clear();
                let fits = (10..20).filter(|n| view.update(&key(*n, 8), &value(1, value_bytes), 1).is_ok()).count();
                assert!(fits == 4 || fits == 3, "{outer:?} dead at {stop_at}: {fits} of 4 keys fit");
                assert_eq!(linked::ringbuf_output(segment.descriptor(1), &[1], 0), 0);
                assert_eq!(segment.ring(1).drain_dead().len(), 1);
            }
        }
    }
}
