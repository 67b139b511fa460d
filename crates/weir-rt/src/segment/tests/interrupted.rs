//! One operation stopped before any of its instructions: either another operation runs there and the first goes on (a
//! signal handler that hits a probe), or the process dies there.
//!
//! This tries every place at which a thread can be interrupted or killed, not those that chance finds. A copy of the
//! runtime image gets a breakpoint on one instruction after the other; the interrupting operation and the checks use
//! the linked copy. (The trap flag would do the same at 20 µs a step.)

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iced_x86::{Decoder, DecoderOptions};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec, helper};

use super::{key, key_of, segment, spec, value};
use crate::abi::Descriptor;
use crate::runtime::{image, linked};
use crate::segment::Segment;

/// One operation on map 0 or ring 1, with the key of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Insert(u64),
    Replace(u64),
    /// The last key of the chain, then the first: the second takes the node that the first gave back.
    ReplaceBoth,
    Set(u64),
    Delete(u64),
    Lookup(u64),
    Output,
    Reserve,
    /// Of queues and stacks: with BPF_ANY, with BPF_EXIST.
    Push,
    PushOver,
    Pop,
    Peek,
}

use Operation::{
    Delete, Insert, Lookup, Output, Peek, Pop, Push, PushOver, Replace, ReplaceBoth, Reserve, Set,
};

/// Keys 1 and 3 are there, 2 is not: these take every path of the C half.
const OUTER: [Operation; 9] =
    [Insert(2), Replace(1), Set(1), Set(2), Delete(1), Lookup(1), Lookup(3), Output, Reserve];
const INNER: [Operation; 14] = [
    Insert(2),
    Replace(1),
    Replace(3),
    ReplaceBoth,
    Set(2),
    Delete(1),
    Delete(3),
    Lookup(2),
    Output,
    Reserve,
    Push,
    PushOver,
    Pop,
    Peek,
];
/// Those of a queue or stack, last in [`INNER`].
const ELEMENTS: [Operation; 4] = [Push, PushOver, Pop, Peek];
/// In the place of an inner operation: die.
const DIE: usize = usize::MAX;
/// How it ends then.
const DIED: i32 = 7;
const DEAD_STACK_BYTES: usize = 1 << 16;
/// How often an instruction is let pass before the interruption: loops are interrupted in their later rounds, too.
const PASSES: [u64; 2] = [0, 1];

/// The three map functions and two of the ring, from whichever copy.
type Update = unsafe extern "C" fn(*const Descriptor, *const u8, *const u8, u64) -> i64;
type Delete_ = unsafe extern "C" fn(*const Descriptor, *const u8) -> i64;
type Lookup_ = unsafe extern "C" fn(*const Descriptor, *const u8) -> u64;
type Output_ = unsafe extern "C" fn(*const Descriptor, *const u8, u64, u64) -> i64;
type Reserve_ = unsafe extern "C" fn(*const Descriptor, u64, u64) -> u64;
type Submit = unsafe extern "C" fn(*mut u8, u64) -> u64;
type Push_ = unsafe extern "C" fn(*const Descriptor, *const u8, u64) -> i64;
type Take = unsafe extern "C" fn(*const Descriptor, *mut u8) -> i64;

impl Operation {
    /// Runs it with the functions that `address` names by helper number.
    fn run(self, address: impl Fn(i32) -> u64, segment: &Segment, seed: u8) -> i64 {
        let (map, ring) = (segment.descriptor(0), segment.descriptor(1));
        let value = [seed; 40];
        let at = |id| address(id) as usize as *const ();
        // SAFETY: the addresses are those of the functions with these signatures (c/weir.h); key and value are at
        // least as long as the map's; a record is submitted once.
        unsafe {
            let update = |n: u64, flags| {
                let call: Update = std::mem::transmute(at(helper::MAP_UPDATE_ELEM));
                call(map, chained(n).as_ptr(), value.as_ptr(), flags)
            };
            match self {
                Insert(n) => update(n, 1),
                Replace(n) => update(n, 2),
                ReplaceBoth => update(3, 2) * 1000 + update(1, 2),
                Set(n) => update(n, 0),
                Delete(n) => {
                    let call: Delete_ = std::mem::transmute(at(helper::MAP_DELETE_ELEM));
                    call(map, chained(n).as_ptr())
                }
                Lookup(n) => {
                    let call: Lookup_ = std::mem::transmute(at(helper::MAP_LOOKUP_ELEM));
                    i64::from(call(map, chained(n).as_ptr()) != 0)
                }
                Output => {
                    let call: Output_ = std::mem::transmute(at(helper::RINGBUF_OUTPUT));
                    call(ring, value.as_ptr(), 24, 0)
                }
                Reserve => {
                    let call: Reserve_ = std::mem::transmute(at(helper::RINGBUF_RESERVE));
                    let record = call(ring, 16, 0);
                    let call: Submit = std::mem::transmute(at(helper::RINGBUF_SUBMIT));
                    call(record as *mut u8, 0);
                    i64::from(record != 0)
                }
                Push | PushOver => {
                    let call: Push_ = std::mem::transmute(at(helper::MAP_PUSH_ELEM));
                    call(map, value.as_ptr(), if self == Push { 0 } else { 2 })
                }
                Pop | Peek => {
                    let id = if self == Pop { helper::MAP_POP_ELEM } else { helper::MAP_PEEK_ELEM };
                    let call: Take = std::mem::transmute(at(id));
                    // A Bloom filter is asked for what inner operations push.
                    let mut taken = [2; 40];
                    let status = call(map, taken.as_mut_ptr());
                    // The value counts as part of the answer; a torn one is no answer of any sequence.
                    let bytes = &taken[..map.value_bytes as usize];
                    let is_whole = bytes.iter().all(|byte| *byte == bytes[0]);
                    status * 1000 + if is_whole { i64::from(bytes[0]) } else { 500 }
                }
            }
        }
    }

    fn run_linked(self, segment: &Segment, seed: u8) -> i64 {
        self.run(|id| crate::runtime::helper_address(id).expect("a function"), segment, seed)
    }
}

/// What the trap handler works with; the tests here take turns.
static TURN: Mutex<()> = Mutex::new(());
static SEGMENT: AtomicUsize = AtomicUsize::new(0);
/// Address of the breakpoint and the byte it replaced; 0: none.
static BREAKPOINT: AtomicU64 = AtomicU64::new(0);
static ORIGINAL: AtomicU64 = AtomicU64::new(0);
static PASSES_LEFT: AtomicU64 = AtomicU64::new(0);
static IS_STEPPING_OVER: AtomicU64 = AtomicU64::new(0);
static INNER_NUMBER: AtomicUsize = AtomicUsize::new(0);
static INNER_RESULT: AtomicU64 = AtomicU64::new(0);
static WAS_HIT: AtomicU64 = AtomicU64::new(0);
/// Address of a copy with a breakpoint on every instruction, each of which goes when it is hit; 0: none.
static MAPPED: AtomicU64 = AtomicU64::new(0);
const TRAP_FLAG: i64 = 0x100;
const INT3: u8 = 0xcc;

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a ucontext_t to a SA_SIGINFO handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let mapped = MAPPED.load(Ordering::Relaxed);
    if mapped != 0 {
        let rip = &mut registers[libc::REG_RIP as usize];
        *rip -= 1;
        // SAFETY: as below; the instruction is one of the copy's.
        unsafe { (*rip as usize as *mut u8).write_volatile(image().bytes[*rip as usize - mapped as usize]) };
        return;
    }
    let at = BREAKPOINT.load(Ordering::Relaxed) as usize as *mut u8;
    if IS_STEPPING_OVER.swap(0, Ordering::Relaxed) == 1 {
        // SAFETY: `at` lies in the writable copy.
        unsafe { at.write_volatile(INT3) };
        registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
        return;
    }
    // SAFETY: as above.
    unsafe { at.write_volatile(ORIGINAL.load(Ordering::Relaxed) as u8) };
    registers[libc::REG_RIP as usize] -= 1;
    if PASSES_LEFT.load(Ordering::Relaxed) > 0 {
        PASSES_LEFT.fetch_sub(1, Ordering::Relaxed);
        IS_STEPPING_OVER.store(1, Ordering::Relaxed);
        registers[libc::REG_EFL as usize] |= TRAP_FLAG;
        return;
    }
    WAS_HIT.store(1, Ordering::Relaxed);
    let inner = INNER_NUMBER.load(Ordering::Relaxed);
    if inner == DIE {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(DIED) };
    }
    // SAFETY: whoever set it keeps the segment until the operation is over.
    let segment = unsafe { &*(SEGMENT.load(Ordering::Relaxed) as *const Segment) };
    INNER_RESULT.store(INNER[inner].run_linked(segment, 2) as u64, Ordering::Relaxed);
}

/// Runs `body` in a child with the memory of this process. The thread goes on when the child has ended, as behind vfork(2).
///
/// # Safety
/// As of a function that a thread of this process calls on another stack.
unsafe fn share<F: FnMut()>(stack: &mut [u8], body: &mut F) -> Option<Pid> {
    extern "C" fn enter<F: FnMut()>(body: *mut libc::c_void) -> i32 {
        // SAFETY: it is the parent's, which waits.
        unsafe { (*body.cast::<F>())() };
        0
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // Stacks grow down, and begin at a multiple of 16.
    let top = (stack.as_mut_ptr_range().end as usize & !15) as *mut libc::c_void;
    // SAFETY: whoever calls says so.
    let pid = unsafe { libc::clone(enter::<F>, top, flags, std::ptr::from_mut(body).cast()) };
    (pid > 0).then(|| Pid::from_raw(pid))
}

/// A writable and executable copy of the runtime image, and the only user of the trap handler.
struct Copy {
    base: *mut u8,
    /// Offsets of all instructions.
    instructions: Vec<usize>,
    _turn: MutexGuard<'static, ()>,
}

impl Copy {
    fn new() -> Copy {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let image = image();
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, as long as what is copied into it. The handler touches atomics, this mapping and the
        // C half only, all of which a signal handler may.
        let base = unsafe {
            let base =
                libc::mmap(std::ptr::null_mut(), image.bytes.len(), protection, flags, -1, 0).cast::<u8>();
            assert_ne!(base.cast(), libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            base.copy_from_nonoverlapping(image.bytes.as_ptr(), image.bytes.len());
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
            base
        };
        let text = &image.bytes[..image.text_bytes as usize];
        let instructions = Decoder::with_ip(64, text, 0, DecoderOptions::NONE)
            .iter()
            .map(|insn| insn.ip() as usize)
            .collect();
        Copy { base, instructions, _turn: turn }
    }

    /// Runs `outer` in the copy, with `inner` before the instruction at `offset` after it has run `passes` times. The
    /// results; the second only if the instruction was reached so often.
    fn run(
        &self,
        segment: &Segment,
        outer: Operation,
        offset: usize,
        passes: u64,
        inner: usize,
    ) -> (i64, Option<i64>) {
        // SAFETY: the offset is of an instruction in the copy.
        let at = unsafe { self.base.add(offset) };
        SEGMENT.store(std::ptr::from_ref(segment) as usize, Ordering::Relaxed);
        BREAKPOINT.store(at as u64, Ordering::Relaxed);
        // SAFETY: as above.
        let original = unsafe { at.read_volatile() };
        ORIGINAL.store(original.into(), Ordering::Relaxed);
        PASSES_LEFT.store(passes, Ordering::Relaxed);
        INNER_NUMBER.store(inner, Ordering::Relaxed);
        WAS_HIT.store(0, Ordering::Relaxed);
        // SAFETY: as above; only this thread runs the copy.
        unsafe { at.write_volatile(INT3) };
        let base = self.base as u64;
        let result = outer.run(|id| base + u64::from(image().helper(id).expect("a function")), segment, 1);
        // SAFETY: as above.
        unsafe { at.write_volatile(original) };
        let was_hit = WAS_HIT.load(Ordering::Relaxed) == 1;
        (result, was_hit.then(|| INNER_RESULT.load(Ordering::Relaxed) as i64))
    }

    /// The same in a process of its own, which dies there; whether it does. It has all memory in common with this one, which waits:
    /// for a fork as many page tables are copied as the other tests have made it need, up to 10 ms for each of thousands of deaths.
    fn dies(&self, segment: &Segment, outer: Operation, offset: usize, passes: u64) -> bool {
        let mut stack = vec![0; DEAD_STACK_BYTES];
        let mut body = || {
            self.run(segment, outer, offset, passes, DIE);
        };
        // SAFETY: as long as the child runs, this thread does not, nor does it give up the stack.
        let pid = unsafe { share(&mut stack, &mut body) }.expect("a process");
        waitpid(pid, None) == Ok(WaitStatus::Exited(pid, DIED))
    }

    /// Instructions that `outer` reaches after so many passes.
    fn reached(&self, start: Start, outer: Operation, passes: u64) -> Vec<usize> {
        let harmless = if !start.kind.has_keys() { Peek } else { Lookup(2) };
        let harmless = INNER.iter().position(|inner| *inner == harmless).expect("in the list");
        let is_reached = |offset: &usize| {
            passes == 0 || self.run(&prepared(start), outer, *offset, passes, harmless).1.is_some()
        };
        self.reached_once(start, outer).into_iter().filter(is_reached).collect()
    }

    /// Instructions that `outer` reaches at all.
    fn reached_once(&self, start: Start, outer: Operation) -> Vec<usize> {
        let segment = prepared(start);
        // SAFETY: the offsets are of instructions in the copy, which only this thread runs.
        let at = |offset: &usize| unsafe { self.base.add(*offset) };
        // SAFETY: as above.
        self.instructions.iter().for_each(|offset| unsafe { at(offset).write_volatile(INT3) });
        let base = self.base as u64;
        MAPPED.store(base, Ordering::Relaxed);
        outer.run(|id| base + u64::from(image().helper(id).expect("a function")), &segment, 1);
        MAPPED.store(0, Ordering::Relaxed);
        // SAFETY: as above.
        let is_gone = |offset: &usize| unsafe { at(offset).read_volatile() } != INT3;
        let reached = self.instructions.iter().copied().filter(is_gone).collect();
        for offset in &self.instructions {
            // SAFETY: as above.
            unsafe { at(offset).write_volatile(image().bytes[*offset]) };
        }
        reached
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: nothing runs in the mapping any more.
        unsafe { libc::munmap(self.base.cast(), image().bytes.len()) };
    }
}

/// The keys by number: some that fall into one bucket, so that they share a chain.
fn chained(number: u64) -> [u8; 8] {
    CHAINED[number as usize].load(Ordering::Relaxed).to_le_bytes()
}

static CHAINED: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// What map 0 is, and what a queue or stack holds at first.
#[derive(Clone, Copy, Debug)]
struct Start {
    kind: MapKind,
    value_bytes: u32,
    max_entries: u32,
    elements: u32,
}

fn hash(kind: MapKind, value_bytes: u32) -> Start {
    Start { kind, value_bytes, max_entries: 4, elements: 0 }
}

/// Of a hash: keys 3 and 1 present, 2 absent, all in one chain. Of an LPM trie the same, and 1 is a prefix of 3, which
/// is one of 2. Of a queue or stack: so many elements, after some that
/// were pushed, dropped and popped before, and the newest of them not settled.
fn prepared(start: Start) -> Segment {
    let Start { kind, value_bytes, max_entries, elements } = start;
    if kind == MapKind::RingBuf {
        return overwriting(elements, value_bytes > 0);
    }
    let key_bytes = if kind.has_keys() { 8 } else { 0 };
    let segment =
        segment(&[spec(kind, key_bytes, value_bytes, max_entries), spec(MapKind::RingBuf, 0, 0, 4096)]);
    if kind == MapKind::BloomFilter {
        (0..elements).for_each(|n| {
            segment.map(0).update(&[], &value(9 + u64::from(n), value_bytes), 0).expect("a filter takes all");
        });
        return segment;
    }
    if kind.is_queue() {
        let view = segment.map(0);
        (0..=max_entries).for_each(|_| view.update(&[], &value(8, value_bytes), 2).expect("it drops one"));
        view.clear();
        (0..elements).for_each(|n| view.update(&[], &value(9 + u64::from(n), value_bytes), 0).expect("room"));
        return segment;
    }
    let same_bucket = (0u64..).filter(|n| linked::hash_bucket(segment.descriptor(0), &n.to_le_bytes()) == 0);
    let routes = [[0; 8], [8, 0, 0, 0, 10, 0, 0, 0], [24, 0, 0, 0, 10, 1, 1, 0], [16, 0, 0, 0, 10, 1, 0, 0]];
    let keys: Vec<u64> = match kind {
        MapKind::LpmTrie => routes.map(u64::from_le_bytes).into(),
        _ => same_bucket.take(CHAINED.len()).collect(),
    };
    for (slot, key) in CHAINED.iter().zip(keys) {
        slot.store(key, Ordering::Relaxed);
    }
    for n in [3, 1] {
        segment.map(0).update(&chained(n), &value(9, value_bytes), 1).expect("room");
    }
    segment
}

/// Ring 1 overwrites, and has got so many records of 24 bytes, behind one that its writer holds.
fn overwriting(records: u32, is_held: bool) -> Segment {
    let flags = flag::RING_PER_CPU | flag::RB_OVERWRITE;
    let ring = MapSpec { flags, ..spec(MapKind::RingBuf, 0, 0, 4096) };
    let segment = segment(&[spec(MapKind::Array, 4, 8, 1), ring]);
    if is_held {
        linked::ringbuf_reserve(segment.descriptor(1), 24, 0).expect("room");
    }
    (0..records).for_each(|_| assert_eq!(Output.run_linked(&segment, 3), 0));
    segment
}

/// Records of a ring that overwrites which were ever reserved; each that is there is whole.
fn reserved(segment: &Segment) -> u64 {
    let all = segment.flight(1).snapshot();
    for record in &all.records {
        let is_whole = record.bytes.iter().all(|byte| *byte == record.bytes[0]);
        assert!(is_whole && [16, 24].contains(&record.bytes.len()), "torn: {record:?}");
    }
    assert_eq!(all.corrupt, 0);
    all.records.len() as u64 + all.overwritten + all.uncommitted + all.dropped
}

#[test]
fn a_ring_that_overwrites_is_whole_whatever_happens_at_an_instruction() {
    let copy = Copy::new();
    let nested = INNER.iter().position(|inner| *inner == Output).expect("in the list");
    // Records take 48 bytes: a lap ends with 16 that none fits into.
    for (records, held) in [(0, 0), (84, 0), (85, 0), (300, 0), (84, 1), (100, 1)] {
        let start = Start { kind: MapKind::RingBuf, value_bytes: held, max_entries: 1, elements: records };
        let before = u64::from(records + held);
        for outer in [Output, Reserve] {
            for passes in PASSES {
                for offset in copy.reached(start, outer, passes) {
                    let context = format!("{outer:?} at {offset:#x}, pass {passes}, {records} and {held}");
                    let interrupted = prepared(start);
                    let (result, inner) = copy.run(&interrupted, outer, offset, passes, nested);
                    assert_eq!((result == i64::from(outer == Reserve), inner), (true, Some(0)), "{context}");
                    assert_eq!(reserved(&interrupted), before + 2, "{context}");
                    let left = prepared(start);
                    let is_dead = copy.dies(&left, outer, offset, passes);
                    assert!(is_dead, "{context}");
                    assert!((before..=before + 1).contains(&reserved(&left)), "{context}");
                    for segment in [interrupted, left] {
                        let so_far = reserved(&segment);
                        (0..200).for_each(|_| assert_eq!(Output.run_linked(&segment, 5), 0));
                        assert_eq!(reserved(&segment), so_far + 200, "{context}");
                        let records = segment.flight(1).snapshot().records;
                        let is_last = records.iter().rev().take(70).all(|record| record.bytes == [5; 24]);
                        assert!(is_last && records.len() >= 70, "{context}");
                    }
                }
            }
        }
    }
}

/// The map's entries (of a Bloom filter, its bits), and the bytes of the ring's records in any order.
type State = (Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>);

fn state(segment: &Segment) -> State {
    let mut records: Vec<_> = segment.ring(1).drain_dead().into_iter().map(|record| record.bytes).collect();
    records.sort();
    let map = &segment.layout().maps[0];
    if map.spec.kind == MapKind::BloomFilter {
        let bits = segment.mapping().copy(map.data_offset, map.buckets as usize / 8);
        return (vec![(Vec::new(), bits)], records);
    }
    (segment.map(0).entries(), records)
}

/// What the two operations answer and leave when one runs after the other.
fn in_sequence(start: Start, first: (Operation, u8), second: (Operation, u8)) -> ((i64, i64), State) {
    let segment = prepared(start);
    let results = (first.0.run_linked(&segment, first.1), second.0.run_linked(&segment, second.1));
    (results, state(&segment))
}

fn check_nested(start: Start) {
    let copy = Copy::new();
    let outer: &[Operation] = if !start.kind.has_keys() { &ELEMENTS } else { &OUTER };
    for outer in outer.iter().copied() {
        for passes in PASSES {
            let places = copy.reached(start, outer, passes);
            // A Bloom filter refuses some at once.
            assert!(passes > 0 || places.len() > 5, "{outer:?} runs {} instructions", places.len());
            for (number, inner) in INNER.into_iter().enumerate() {
                if ELEMENTS.contains(&inner) == start.kind.has_keys() {
                    continue;
                }
                let (ab, after_ab) = in_sequence(start, (outer, 1), (inner, 2));
                let ((b, a), after_ba) = in_sequence(start, (inner, 2), (outer, 1));
                for offset in &places {
                    let segment = prepared(start);
                    let (result, inner_result) = copy.run(&segment, outer, *offset, passes, number);
                    let context = format!(
                        "{start:?}: {outer:?} interrupted by {inner:?} at {offset:#x}, pass {passes}"
                    );
                    let results = (result, inner_result.expect("reached before"));
                    let left = state(&segment);
                    let is_sequential =
                        (results == ab && left == after_ab) || (results == (a, b) && left == after_ba);
                    assert!(is_sequential, "{context}: {results:?}, {left:?}");
                    assert_eq!(segment.counters().maps[0].contended, 0, "{context}");
                    if start.kind != MapKind::BloomFilter {
                        super::assert_no_node_lost(&segment, 0);
                    }
                }
            }
        }
    }
}

#[test]
fn an_interruption_before_any_instruction_is_a_sequence_small_values() {
    check_nested(hash(MapKind::Hash, 8));
}

#[test]
fn an_interruption_before_any_instruction_is_a_sequence_large_values() {
    check_nested(hash(MapKind::Hash, 40));
}

/// Of one element alone, empty, with room, and full.
fn queues() -> impl Iterator<Item = Start> {
    let sizes = [(1, 1), (3, 0), (3, 2), (3, 3)];
    let kinds = [MapKind::Queue, MapKind::Stack].into_iter();
    kinds.flat_map(move |kind| {
        sizes.map(|(max_entries, elements)| Start { kind, value_bytes: 24, max_entries, elements })
    })
}

#[test]
fn an_interruption_before_any_instruction_is_a_sequence_queues_and_stacks() {
    queues().for_each(check_nested);
}

#[test]
fn an_interruption_before_any_instruction_is_a_sequence_lpm_tries() {
    check_nested(hash(MapKind::LpmTrie, 8));
    check_nested(hash(MapKind::LpmTrie, 40));
}

#[test]
fn an_interruption_before_any_instruction_is_a_sequence_bloom_filters() {
    for elements in [0, 3] {
        check_nested(Start { kind: MapKind::BloomFilter, value_bytes: 24, max_entries: 20, elements });
    }
}

#[test]
fn a_death_before_any_instruction_leaves_queues_and_stacks_whole() {
    let copy = Copy::new();
    for start in queues() {
        for outer in ELEMENTS {
            let before = state(&prepared(start));
            let done = prepared(start);
            outer.run_linked(&done, 1);
            let after = state(&done);
            for offset in copy.reached(start, outer, 0) {
                let segment = prepared(start);
                let is_dead = copy.dies(&segment, outer, offset, 0);
                let context = format!("{start:?}: {outer:?} dead at {offset:#x}");
                assert!(is_dead, "{context}");
                let left = state(&segment);
                assert!(left == before || left == after, "{context}: {left:?}");
                // Spare nodes make up for the one that may be gone.
                super::assert_no_node_lost(&segment, 0);
                assert_eq!(segment.counters().maps[0].contended, 0, "{context}");
            }
        }
    }
}

/// A full LRU: what is left depends on where the interruption came, but it is never more than fits, each key once, and
/// no node is lost.
fn check_nested_full(kind: MapKind, value_bytes: u32) {
    let copy = Copy::new();
    let full = || {
        let segment = prepared(hash(kind, value_bytes));
        let spare = CHAINED.len() as u64;
        for n in spare..spare + 2 {
            segment.map(0).update(&key(1_000_000 + n, 8), &value(9, value_bytes), 1).expect("room");
        }
        segment
    };
    for passes in PASSES {
        let lookup = INNER.iter().position(|inner| *inner == Lookup(2)).expect("in the list");
        let is_reached = |offset: &usize| copy.run(&full(), Insert(2), *offset, passes, lookup).1.is_some();
        let places: Vec<usize> = copy.instructions.iter().copied().filter(is_reached).collect();
        assert!(passes > 0 || places.len() > 100, "giving up a key runs {} instructions", places.len());
        for (number, inner) in INNER.into_iter().enumerate().filter(|(_, inner)| !ELEMENTS.contains(inner)) {
            for offset in &places {
                let segment = full();
                let (result, _) = copy.run(&segment, Insert(2), *offset, passes, number);
                let context = format!("Insert(2) interrupted by {inner:?} at {offset:#x}, pass {passes}");
                assert!(result == 0 || result == -17, "{context}: {result}");
                let view = segment.map(0);
                let entries = view.entries();
                assert!((3..=4).contains(&entries.len()), "{context}: {entries:?}");
                assert!(view.lookup(&chained(2)).is_some() || inner != Lookup(2), "{context}");
                let counters = segment.counters().maps[0];
                assert_eq!((counters.contended, counters.corrupt), (0, 0), "{context}");
                super::assert_no_node_lost(&segment, 0);
            }
        }
        for offset in &places {
            let segment = full();
            let is_dead = copy.dies(&segment, Insert(2), *offset, passes);
            let context = format!("giving up a key, dead at {offset:#x}, pass {passes}");
            assert!(is_dead, "{context}");
            let view = segment.map(0);
            assert!((3..=4).contains(&view.entries().len()), "{context}");
            for n in 10..20 {
                assert_eq!(view.update(&key(n, 8), &value(1, value_bytes), 1), Ok(()), "{context}");
            }
            assert!((3..=4).contains(&view.entries().len()), "{context}");
        }
    }
}

#[test]
fn an_interruption_while_a_key_is_given_up_keeps_the_rules() {
    check_nested_full(MapKind::LruHash, 8);
    check_nested_full(MapKind::LruHash, 40);
}

#[test]
fn an_interruption_before_any_instruction_is_a_sequence_lru() {
    check_nested(hash(MapKind::LruHash, 8));
}

#[test]
fn a_death_before_any_instruction_leaves_all_usable() {
    let copy = Copy::new();
    for (kind, value_bytes) in [
        (MapKind::Hash, 8),
        (MapKind::Hash, 40),
        (MapKind::PerCpuHash, 8),
        (MapKind::LruHash, 8),
        (MapKind::LpmTrie, 8),
    ] {
        for outer in OUTER {
            let start = hash(kind, value_bytes);
            let before = state(&prepared(start));
            let done = prepared(start);
            outer.run_linked(&done, 1);
            let after = state(&done);
            for offset in copy.reached(start, outer, 0) {
                let segment = prepared(start);
                let is_dead = copy.dies(&segment, outer, offset, 0);
                let context = format!("{outer:?} dead at {offset:#x}");
                assert!(is_dead, "{context}");
                let left = state(&segment);
                assert!(left == before || left == after, "{context}: {left:?}");
                // Whatever was left half-way, what is there is found, all goes on and at most one node is gone.
                let view = segment.map(0);
                for (key, _) in view.entries() {
                    assert!(linked::map_lookup(segment.descriptor(0), &key).is_some(), "{context}: {key:?}");
                }
                view.clear();
                // An LRU takes all ten, one in the place of the other.
                let taken = (10..20)
                    .filter(|n| view.update(&key_of(kind, *n, 8), &value(1, value_bytes), 1).is_ok())
                    .count();
                let fits = view.entries().len();
                assert!(fits == 4 || fits == 3, "{context}: {fits} of 4 keys fit");
                assert_eq!(taken, if kind.is_lru() { 10 } else { fits }, "{context}");
                assert_eq!(linked::ringbuf_output(segment.descriptor(1), &[1], 0), 0);
                assert_eq!(segment.ring(1).drain_dead().len(), 1);
            }
        }
    }
}
