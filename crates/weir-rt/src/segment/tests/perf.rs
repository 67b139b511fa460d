//! The rings of perf events: each CPU's own, lost records counted, read by CPU; with dead and with many producers.

use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use weir_ebpf::MapKind;

use super::killed::child;
use super::{CPUS, segment, spec};
use crate::limits::PERF_RING_BYTES;
use crate::runtime::linked;
use crate::segment::{Segment, SegmentLayout};

/// As many slots as the machine may have CPUs, so that any CPU has a ring.
fn perf() -> Segment {
    let layout =
        SegmentLayout::plan(&[spec(MapKind::PerfEventArray, 4, 4, 0)], machine_cpus()).expect("fits");
    Segment::create_local(layout, &super::identity()).expect("a memfd")
}

fn machine_cpus() -> u32 {
    // SAFETY: takes a number.
    unsafe { nix::libc::sysconf(nix::libc::_SC_NPROCESSORS_CONF) as u32 }
}

const CURRENT_CPU: u64 = 0xffff_ffff;
const ENOSPC: i64 = -28;

#[test]
fn without_a_number_of_entries_each_cpu_has_a_ring() {
    for (entries, slots, rings) in [(0, CPUS, CPUS), (1, 1, 1), (CPUS + 3, CPUS + 3, CPUS)] {
        let segment = segment(&[spec(MapKind::PerfEventArray, 4, 4, entries)]);
        let layout = &segment.layout().maps[0];
        assert_eq!((layout.slots(), layout.lanes), (slots, rings), "{entries}");
        assert_eq!(segment.descriptor(0).max_entries, slots);
    }
}

#[test]
fn what_does_not_fit_is_lost_and_counted() {
    let segment = perf();
    let descriptor = segment.descriptor(0);
    let record = [7; 1000];
    // The thread may be moved in between: what matters is the sum.
    let (mut taken, mut lost) = (0u32, 0u32);
    for _ in 0..2 * machine_cpus() * PERF_RING_BYTES / 1008 {
        match linked::perf_event_output(descriptor, CURRENT_CPU, &record) {
            0 => taken += 1,
            status => {
                assert_eq!(status, ENOSPC);
                lost += 1;
            }
        }
    }
    assert!(taken >= PERF_RING_BYTES / 1008 - 1 && lost > 0, "{taken} taken, {lost} lost");
    assert_eq!(
        linked::perf_event_output(descriptor, CURRENT_CPU, &vec![0; PERF_RING_BYTES as usize]),
        ENOSPC
    );
    let mut reader = segment.perf(0);
    assert_eq!(reader.counters().dropped, u64::from(lost) + 1);
    assert_eq!(segment.counters().maps[0].dropped, u64::from(lost) + 1);
    let mut read = 0;
    while let Some((cpu, found)) = reader.next() {
        assert!(cpu < machine_cpus() && found.bytes == record);
        read += 1;
    }
    assert_eq!(read, taken);
    assert_eq!(linked::perf_event_output(descriptor, CURRENT_CPU, &record), 0);
    assert_eq!(reader.drain_dead().len(), 1);
}

/// Each thread numbers its records.
fn produce(segment: &Segment, thread: u64, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let record: Vec<u8> = [thread, number].iter().flat_map(|word| word.to_le_bytes()).collect();
        while linked::perf_event_output(segment.descriptor(0), CURRENT_CPU, &record) != 0 {
            thread::yield_now();
        }
    }
}

fn word(bytes: &[u8], n: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("8 bytes"))
}

#[test]
fn threads_on_all_cpus_lose_nothing() {
    const THREADS: u64 = 8;
    const EACH: u64 = 20_000;
    let segment = perf();
    let mut seen = vec![vec![false; EACH as usize]; THREADS as usize];
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let segment = &segment;
            scope.spawn(move || produce(segment, thread, 0..EACH));
        }
        let mut reader = segment.perf(0);
        let mut left = THREADS * EACH;
        while left > 0 {
            let Some((_, record)) = reader.next() else {
                thread::yield_now();
                continue;
            };
            let slot = &mut seen[word(&record.bytes, 0) as usize][word(&record.bytes, 1) as usize];
            assert!(!*slot, "a record came twice");
            *slot = true;
            left -= 1;
        }
    });
    assert_eq!(segment.perf(0).counters().corrupt, 0);
}

#[test]
fn what_a_killed_process_wrote_is_read() {
    for round in 0..10 {
        let segment = perf();
        let pid = child(|| {
            thread::scope(|scope| {
                for thread in 0..3 {
                    let segment = &segment;
                    scope.spawn(move || produce(segment, thread, 0..));
                }
            });
        });
        let mut reader = segment.perf(0);
        let mut got = vec![std::collections::BTreeSet::new(); 3];
        let mut receive = |bytes: &[u8]| assert!(got[word(bytes, 0) as usize].insert(word(bytes, 1)));
        for _ in 0..200 + 50 * round {
            while let Some((_, record)) = reader.next() {
                receive(&record.bytes);
            }
        }
        kill(pid, Signal::SIGKILL).expect("our child");
        waitpid(pid, None).expect("our child");
        for (_, record) in reader.drain_dead() {
            receive(&record.bytes);
        }
        let counters = reader.counters();
        assert!(counters.corrupt == 0 && counters.uncommitted <= 3, "round {round}: {counters:?}");
        // Each thread writes its numbers one after the other: none is missing but the last.
        for numbers in &got {
            let missing = numbers.last().map_or(0, |last| last + 1 - numbers.len() as u64);
            assert_eq!(missing, 0, "round {round}");
        }
        // The rings go on.
        assert_eq!(linked::perf_event_output(segment.descriptor(0), CURRENT_CPU, &[1, 2, 3]), 0);
        assert_eq!(reader.next().map(|(_, record)| record.bytes), Some(vec![1, 2, 3]));
    }
}

#[test]
fn a_spoiled_ring_is_read_to_an_end() {
    let segment = perf();
    let mut random = super::Random(5);
    let layout = &segment.layout().maps[0];
    for _ in 0..200 {
        linked::perf_event_output(segment.descriptor(0), CURRENT_CPU, &[9; 40]);
        for _ in 0..20 {
            let at = layout.offset + random.below(layout.bytes / 8) * 8;
            segment.mapping().word(at).store(random.next(), super::super::Ordering::Relaxed);
        }
        let mut reader = segment.perf(0);
        for _ in 0..100 {
            reader.next();
        }
        reader.drain_dead();
    }
}
