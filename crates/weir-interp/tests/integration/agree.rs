//! Maps in plain memory beside those of a segment: random programs that are accepted leave the same in both.
//!
//! Left out is what may differ: the order of a hash's elements, what an LRU forgets, numbers of CPUs, times, addresses.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_ebpf::{ProgramKind, asm};
use weir_interp::plain::{self, Process};
use weir_interp::{Environment, Fault, run_unverified};
use weir_memory::Context;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, verify};

use crate::worlds::{Given, Random, SAME, calls_only};
use crate::{evolve, generate};

const DAILY: Daily = Daily { seed: 7, at_least: 300, at_most: 3_000, budget: Duration::from_secs(2) };
/// Steps of a run: one that goes on is left where it is, in both.
const STEPS_MAX: u64 = 20_000;

#[test]
fn random_programs_leave_the_same_in_both() {
    let mut random = Random(testkit::random::state(DAILY.seed));
    let comm = std::fs::read_to_string("/proc/thread-self/comm").expect("a thread has a name");
    let comm = comm.trim_end().to_owned();
    let (mut ran, mut with_packets) = (0, 0);
    for case in Cases::of("WEIR_PLAIN", DAILY) {
        let object = loop {
            let snippets = 3 + random.below(12);
            let object = match case % 2 {
                0 => generate::program(&mut random, snippets),
                _ => evolve::program(&mut random, snippets),
            };
            let limits = Limits { explored_insns_max: 2_000, ..Limits::default() };
            if calls_only(&object.programs[0], &[SAME])
                && verify(&object.programs[0], &object.maps, &limits).is_ok()
            {
                break object;
            }
        };
        let mut maps = plain::Maps::new(&object.maps).expect("there are such maps");
        maps.set_process(Process { comm: comm.clone(), ..Process::default() });
        let layout = SegmentLayout::plan(&object.maps, 2).expect("within bounds");
        let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
        for _ in 0..3 {
            let bytes: Vec<u8> = (0..64).map(|_| random.number() as u8).collect();
            let bytes = &bytes[..24 + random.below(41)];
            let (mut one, mut two) = match object.programs[0].kind {
                ProgramKind::Probe => {
                    let frame = random.frame();
                    (Given::registers(frame), Given::registers(frame))
                }
                ProgramKind::Memory { bytes: size } => {
                    let bytes: Vec<u8> = (0..size).map(|_| random.number() as u8).collect();
                    (Given::lent(Context::memory(&bytes)), Given::lent(Context::memory(&bytes)))
                }
                _ => (Given::lent(Context::xdp(&[], bytes)), Given::lent(Context::xdp(&[], bytes))),
            };
            let text = || asm::print(&object);
            let (program, specs) = (&object.programs[0], &object.maps);
            let here = plain::run_watched(program, specs, &mut maps, one.plain(), STEPS_MAX, &mut |_| {});
            let environment = Environment { segment: &segment };
            let there = run_unverified(program, specs, &environment, two.lend(), STEPS_MAX);
            if matches!((&here, &there), (Err(Fault::Steps { .. }), Err(Fault::Steps { .. }))) {
                break;
            }
            assert_eq!(here, there, "{}", text());
            assert_eq!(one.left(), two.left(), "{}", text());
            for (index, spec) in object.maps.iter().enumerate() {
                if spec.kind == weir_ebpf::MapKind::RingBuf {
                    let records = std::iter::from_fn(|| maps.next_record(index));
                    let theirs = std::iter::from_fn(|| segment.ring(index).next().map(|record| record.bytes));
                    assert!(records.eq(theirs), "records of {}\n{}", spec.name, text());
                    continue;
                }
                let (mut ours, mut theirs) = (maps.entries(index), segment.map(index).entries());
                ours.sort();
                theirs.sort();
                assert_eq!(ours, theirs, "{}\n{}", spec.name, text());
            }
            ran += 1;
            with_packets += u64::from(object.programs[0].kind.is_packet());
        }
    }
    assert!(ran > 300 && with_packets > ran / 20, "{ran} runs, {with_packets} of them of packets");
}
