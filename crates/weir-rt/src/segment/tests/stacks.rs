//! Maps of stacks under threads, with writers that died, and spoiled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use weir_ebpf::MapKind;

use super::{Random, segment, spec};
use crate::abi::stack;
use crate::executable::Frame;
use crate::runtime::linked;
use crate::segment::Segment;

const USER: u64 = 1 << 8;
const REUSE: u64 = 1 << 10;
const EEXIST: i64 = -17;

/// Where a stack of `depth` frames begins, all of whose return addresses are `mark`, and its first address, too.
fn beginning(chain: &mut Vec<[u64; 2]>, depth: usize, mark: u64) -> Frame {
    *chain = vec![[0, mark]; depth];
    let base = chain.as_ptr() as u64;
    for (n, frame) in chain.iter_mut().enumerate() {
        frame[0] = if n + 1 < depth { base + 16 * (n as u64 + 1) } else { 0 };
    }
    let mut frame = Frame::default();
    frame.regs[4] = base;
    frame.regs[16] = mark;
    frame
}

fn stacks(segment: &Segment) -> Vec<Vec<u64>> {
    let words = |value: &Vec<u8>| -> Vec<u64> {
        value.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
    };
    segment.map(0).entries().iter().map(|(_, value)| words(value)).collect()
}

/// One mark, then zeros.
fn is_whole(stack: &[u64]) -> bool {
    let count = stack.iter().take_while(|address| **address == stack[0]).count();
    stack[0] != 0 && stack[count..].iter().all(|address| *address == 0)
}

#[test]
fn stacks_that_replace_each_other_are_never_torn() {
    let segment = segment(&[spec(MapKind::StackTrace, 4, 8 * 20, 4)]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (1..5u64)
            .map(|thread| {
                let segment = &segment;
                scope.spawn(move || {
                    let (mut random, mut chain) = (Random(thread), Vec::new());
                    for _ in 0..3000 {
                        let depth = random.below(20) as usize;
                        let frame = beginning(&mut chain, depth, 1 + random.below(1 << 40));
                        let id = linked::get_stackid(&frame, segment.descriptor(0), USER | REUSE);
                        assert!((0..4).contains(&id) || id == EEXIST, "{id}");
                    }
                })
            })
            .collect();
        let (segment, done) = (&segment, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                for stack in stacks(segment) {
                    assert!(is_whole(&stack), "{stack:x?}");
                }
                let _ = segment.map(0).delete(&1u32.to_le_bytes());
            }
        });
        for writer in writers {
            writer.join().expect("no writer failed");
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_bucket_whose_writer_died_is_taken_for_full() {
    let segment = segment(&[spec(MapKind::StackTrace, 4, 80, 1)]);
    let (mut chain, map) = (Vec::new(), &segment.layout().maps[0]);
    let frame = beginning(&mut chain, 3, 5);
    let state = segment.mapping().word(map.data_offset);
    // As a thread leaves it that never comes back to what it took.
    state.store((4 * stack::VERSION) | 1, Ordering::Release);
    for flags in [USER, USER | REUSE] {
        assert_eq!(linked::get_stackid(&frame, segment.descriptor(0), flags), EEXIST);
    }
    assert_eq!(segment.map(0).entries(), []);
    assert!(segment.map(0).delete(&0u32.to_le_bytes()).is_err());
}

#[test]
fn spoiled_buckets_are_numbers_alone() {
    let segment = segment(&[spec(MapKind::StackTrace, 4, 80, 64)]);
    let (mut random, mut chain) = (Random(7), Vec::new());
    let map = &segment.layout().maps[0];
    for _ in 0..2000 {
        let frame = beginning(&mut chain, random.below(12) as usize, random.next());
        linked::get_stackid(&frame, segment.descriptor(0), USER | (random.below(4) << 9));
        let at = map.offset + random.below(map.bytes / 8) * 8;
        segment.mapping().word(at).store(random.next(), Ordering::Relaxed);
        assert!(segment.map(0).entries().iter().all(|(_, value)| value.len() == 80));
    }
    segment.map(0).clear();
}

#[test]
fn a_chain_ends_at_a_bad_address() {
    let mut chain = Vec::new();
    let mut frame = beginning(&mut chain, 3, 5);
    let mut buffer = [1; 32];
    assert_eq!(linked::get_stack(&frame, &mut buffer, USER), 32);
    frame.regs[4] = 8;
    assert_eq!(linked::get_stack(&frame, &mut buffer, USER), 8);
    assert_eq!((&buffer[..8], &buffer[8..]), (&5u64.to_le_bytes()[..], &[0; 24][..]));
}
