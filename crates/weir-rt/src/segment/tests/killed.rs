//! Targets killed in the middle: what they committed is there, and the structures can be walked and used.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};

use super::{Random, key, segment, spec, value};
use crate::runtime::linked;
use crate::segment::{Record, Segment};

/// Threads of the child.
const THREADS: u64 = 3;

/// Forks a child that runs `body` until it is killed.
pub(super) fn child(body: impl FnOnce()) -> Pid {
    // SAFETY: the child calls the C half, which needs no lock of this process, and starts threads, for which glibc
    // prepares its own locks at fork.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // A child that nobody is left to kill would run for ever.
            // SAFETY: takes numbers alone.
            unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
            body();
            // SAFETY: ends the process at once: no destructor of the parent's objects may run here.
            unsafe { nix::libc::_exit(0) }
        }
    }
}

fn churn(segment: &Segment, thread: u64) {
    let mut random = Random(thread + 1);
    let descriptor = segment.descriptor(1);
    for number in 1.. {
        let mut bytes = vec![thread as u8; 24];
        bytes[..8].copy_from_slice(&u64::to_le_bytes(number));
        while linked::ringbuf_output(segment.descriptor(0), &bytes, 0) != 0 {
            std::thread::yield_now();
        }
        // Committed: the parent may hold us to it.
        linked::map_update(segment.descriptor(2), &(thread as u32).to_le_bytes(), &bytes[..8], 0);
        let key = key(random.below(80), 8);
        match random.below(3) {
            0 => linked::map_delete(descriptor, &key),
            _ => linked::map_update(descriptor, &key, &value(random.next(), 40), 0),
        };
    }
}

fn receive(record: &Record, last: &mut [u64]) {
    let number = u64::from_le_bytes(record.bytes[..8].try_into().expect("8 bytes"));
    let thread = record.bytes[8] as usize;
    assert_eq!(number, last[thread] + 1, "thread {thread}");
    last[thread] = number;
}

#[test]
fn nothing_committed_is_lost_when_a_target_is_killed() {
    let mut random = Random(3);
    for round in 0..20 {
        let flags = if round % 2 == 0 { 0 } else { flag::RING_PER_CPU };
        let segment = segment(&[
            MapSpec { flags, ..spec(MapKind::RingBuf, 0, 0, 16384) },
            spec(MapKind::Hash, 8, 40, 64),
            spec(MapKind::Array, 4, 8, 8),
        ]);
        let pid = child(|| {
            std::thread::scope(|scope| {
                for thread in 1..THREADS {
                    let segment = &segment;
                    scope.spawn(move || churn(segment, thread));
                }
                churn(&segment, 0);
            });
        });
        let mut last = vec![0; THREADS as usize];
        // A random moment: the verdict does not depend on which one it is.
        let until = Instant::now() + Duration::from_micros(5_000 + random.below(20_000));
        while Instant::now() < until {
            while let Some(record) = segment.ring(0).next() {
                receive(&record, &mut last);
            }
        }
        kill(pid, Signal::SIGKILL).expect("our child");
        waitpid(pid, None).expect("our child");

        for record in segment.ring(0).drain_dead() {
            receive(&record, &mut last);
        }
        let ring = segment.ring(0).counters();
        assert!(ring.corrupt == 0 && ring.uncommitted <= THREADS, "round {round}: {ring:?}");
        for thread in 0..THREADS as u32 {
            let committed = segment.map(2).lookup(&thread.to_le_bytes()).expect("in bounds");
            let committed = u64::from_le_bytes(committed.try_into().expect("8 bytes"));
            let got = last[thread as usize];
            assert!(got == committed || got == committed + 1, "round {round}: {got} of {committed}");
        }
        let view = segment.map(1);
        for (_, value) in view.entries() {
            assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
        }
        // The dead may have kept one node each; all others are usable.
        view.clear();
        let fits = (0..64).filter(|n| view.update(&key(*n, 8), &value(*n, 40), 1).is_ok()).count() as u64;
        assert!(fits >= 64 - THREADS, "round {round}: {fits} of 64 nodes left");
        let counters = segment.counters().maps[1];
        assert_eq!((counters.contended, counters.corrupt), (0, 0));
    }
}

/// Pushes and pops of queue 0 and stack 1, without end.
fn push_and_pop(segment: &Segment, thread: u64) {
    let mut random = Random(thread + 1);
    loop {
        let map = segment.descriptor(random.below(2) as usize);
        let flags = random.below(2) * 2;
        linked::map_push(map, &value(random.next(), 40), flags);
        if random.below(3) == 0 {
            linked::map_pop(map, &mut [0; 40]);
        }
    }
}

#[test]
fn queues_and_stacks_are_whole_when_a_target_is_killed() {
    let mut random = Random(5);
    for round in 0..20 {
        let segment = segment(&[spec(MapKind::Queue, 0, 40, 16), spec(MapKind::Stack, 0, 40, 16)]);
        let pid = child(|| {
            std::thread::scope(|scope| {
                for thread in 1..THREADS {
                    let segment = &segment;
                    scope.spawn(move || push_and_pop(segment, thread));
                }
                push_and_pop(&segment, 0);
            });
        });
        // A random moment: the verdict does not depend on which one it is.
        std::thread::sleep(Duration::from_micros(5_000 + random.below(20_000)));
        kill(pid, Signal::SIGKILL).expect("our child");
        waitpid(pid, None).expect("our child");
        for index in 0..2 {
            for (_, value) in segment.map(index).entries() {
                assert!(value.iter().all(|byte| *byte == value[0]), "round {round}, torn: {value:?}");
            }
            super::assert_no_node_lost(&segment, index);
            let counters = segment.counters().maps[index];
            assert_eq!((counters.contended, counters.corrupt), (0, 0), "round {round}");
        }
    }
}
