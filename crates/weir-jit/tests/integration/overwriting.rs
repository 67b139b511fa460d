//! Rings that overwrite: what is in them and what gave way are what was emitted, whole and oldest first, under threads,
//! migration, signals, forks and deaths, and while they are read. One process of its own: it takes SIGALRM and SIGTRAP.

use crate::emitter;
use crate::engines;
use crate::fake;
use crate::signals;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emitter::{
    CODE, DISCARDING, EVENTS, Emitter, Event, Form, Look, OVERWRITING, RECORDS, SIGNALS, Seen, Way, alone,
    batches, child, killed, ns_per_record, on_alarm, recorder, recorders, stepped, stops, stride, take_traps,
};
use engines::{Random, cpus, has_bmi2, rseq_abi, shared_abi};
use fake::{fake_abi, set_fake_cpu};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use signals::{Alarm, Load, call, take_alarms};
use testkit::measure;
use weir_jit::Flags;
use weir_rt::executable::{Frame, SiteAbi};
use weir_rt::limits::SPARE_RINGS;
use weir_rt::local::LocalProgram;
use weir_rt::segment::{Segment, Snapshot};
use weir_verifier::VerifiedProgram;

#[test]
fn each_cpu_has_its_ring_and_others_claim_one() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 5, ..fake_abi(has_bmi2()) };
    for (cpu, ring) in [(0, 0), (1, 1), (4, 4), (5, 5), (u32::MAX, 5)] {
        let emitter = Emitter::new(&abi, OVERWRITING, 4096, Form::Reserved(24));
        set_fake_cpu(cpu);
        emitter.run();
        assert_eq!(fake::fake_rseq_cs(), 0, "the section is still announced");
        assert_eq!(emitter.rings(), 5 + SPARE_RINGS as usize);
        for lane in 0..emitter.rings() {
            let snapshot = emitter.segment.flight(1).lane(lane);
            assert_eq!(snapshot.records.len(), usize::from(lane == ring), "CPU {cpu:#x}, ring {lane}");
            assert!(snapshot.records.iter().all(|record| record.ticks > 0));
        }
    }
}

#[test]
fn engines_and_rings_agree() {
    let _guard = alone();
    set_fake_cpu(0);
    let object = recorders(OVERWRITING);
    let programs: Vec<VerifiedProgram> =
        object.programs.iter().map(|program| engines::verified(program, &object.maps)).collect();
    let segments: Vec<Segment> = (0..4).map(|_| engines::segment(&object.maps, cpus())).collect();
    let code = |abi: &SiteAbi, segment: &Segment| -> Vec<LocalProgram> {
        let of = |program| LocalProgram::load(&engines::compiled(program, abi, Flags::default()), segment);
        programs.iter().map(|program| of(program).expect("code fits")).collect()
    };
    for segment in &segments {
        let bytes: Vec<u8> = (0..4200u32).map(|n| (n * 7 + (n >> 8)) as u8).collect();
        segment.map(1).update(&[0; 4], &bytes, 0).expect("an entry");
    }
    let in_line = code(&fake_abi(has_bmi2()), &segments[0]);
    let shared = code(&shared_abi(has_bmi2()), &segments[1]);
    let mut random = Random(7);
    let (mut taken, mut refused) = (0, 0);
    let mut last: Option<Snapshot> = None;
    for step in 0..30_000 {
        if random.below(10) == 0 {
            let look = |at: usize| {
                let mut look = segments[at].flight(0).lane(if at == 0 { 0 } else { cpus() as usize });
                look.records.iter_mut().for_each(|record| record.ticks = 0);
                look
            };
            let looks: Vec<Snapshot> = (0..4).map(look).collect();
            assert!(looks.iter().all(|look| *look == looks[0]), "step {step}: {looks:?}");
            last = looks.into_iter().next();
            continue;
        }
        let number = random.below(programs.len() as u64) as usize;
        let (program, mut frame) = (&programs[number], Frame::default());
        (frame.regs[14], frame.regs[13]) = (random.below(4096), step);
        let environment = weir_interp::Environment { segment: &segments[2] };
        let threaded = weir_interp::threaded::Threaded::of(program, &segments[3]).expect("it takes them");
        let answers = [
            in_line[number].run(&mut frame.clone()),
            shared[number].run(&mut frame.clone()),
            weir_interp::run(program, &environment, &mut frame.clone()).expect("no fault"),
            threaded.run(&mut frame.clone()),
        ];
        assert_eq!(answers, [answers[0]; 4], "step {step}, {}", program.name());
        // Only what is larger than the ring is refused. What is copied answers −EAGAIN + 12.
        let is_refused = answers[0] <= 1 - u64::from(!program.name().starts_with("copy"));
        assert!(!is_refused || program.name() == "copy_up_to_4095" && frame.regs[14] > 4080);
        refused += u64::from(is_refused);
        taken += u64::from(!is_refused && !program.name().starts_with("discard"));
    }
    let last = last.expect("some looks");
    println!("{taken} taken, {refused} refused, {} overwritten", last.overwritten);
    assert!(last.overwritten > 10_000 && last.overwritten <= taken && refused > 0);
    for (at, segment) in segments.iter().enumerate() {
        let all = segment.flight(0).snapshot();
        assert_eq!(
            (all.dropped, all.records.len() as u64 + all.overwritten),
            (refused, taken),
            "engine {at}"
        );
    }
}

/// What a ring went through before: records written, whether the next one is never submitted, and records behind that.
const STATES: [(u32, bool, u32); 8] = [
    (0, false, 0),
    (35, false, 0),
    (36, false, 0),
    (37, false, 0),
    (120, false, 0),
    (0, true, 36),
    (20, true, 51),
    (35, true, 100),
];

/// The instruction before which a writer dies with its record reserved, after so many records.
fn leaving_step(empty: &Emitter, written: u32) -> usize {
    let leaves = |step: &usize| {
        let emitter = empty.anew();
        (0..written).for_each(|_| emitter.run());
        killed(&emitter, &mut Seen::new(&emitter), *step);
        Look::at(&emitter).uncommitted == 1
    };
    (0..1000).find(leaves).expect("records are reserved before they are submitted")
}

/// One run on CPU 0, stopped before its instructions, for anything that can happen there.
#[test]
fn whatever_happens_at_an_instruction() {
    let _guard = alone();
    take_traps();
    let abi = SiteAbi { cpus: 2, ..fake_abi(has_bmi2()) };
    let (mut stopped_at, mut cases) = (0, 0..);
    let mut leaving_steps = BTreeMap::new();
    // 36 records of 112 bytes to a lap, and 64 bytes are left; or 60 or so of 64 bytes in the middle.
    for (form, event) in
        [Form::Reserved(88), Form::Copied].into_iter().flat_map(|form| EVENTS.map(|event| (form, event)))
    {
        let empty = Emitter::new(&abi, OVERWRITING, 4096, form);
        for (written, leaves, behind) in STATES {
            set_fake_cpu(0);
            let leaving = leaves.then(|| {
                *leaving_steps
                    .entry((form == Form::Copied, written))
                    .or_insert_with(|| leaving_step(&empty, written))
            });
            for step in stops(cases.next().unwrap_or_default()) {
                let emitter = empty.anew();
                let mut seen = Seen::new(&emitter);
                set_fake_cpu(0);
                (0..written).for_each(|_| emitter.run());
                leaving.map(|step| killed(&emitter, &mut seen, step));
                (0..behind).for_each(|_| emitter.run());
                let context = format!("{form:?}, {event:?} at {step}, {written}, {leaves}, {behind}");
                let all = match event {
                    Event::Killed => killed(&emitter, &mut seen, step),
                    _ => stepped(&emitter, &mut seen, step, event),
                };
                assert_eq!(fake::fake_rseq_cs() & !0xdead, 0, "{context}");
                let look = Look::at(&emitter);
                look.check(&emitter, u64::from(event == Event::Killed));
                let left = u64::from(leaves) + u64::from(event == Event::Killed);
                assert!(look.uncommitted <= left && look.dropped == 0, "{context}: {look:?}");
                // Both rings go on: the last records of each are there.
                for cpu in [0, 1] {
                    set_fake_cpu(cpu);
                    (0..20).for_each(|_| emitter.run());
                }
                let (look, emitted) = (Look::at(&emitter), emitter.emitted());
                look.check(&emitter, u64::from(event == Event::Killed));
                assert!((emitted - 40..emitted).all(|n| look.numbers.contains(&n)), "{context}: {look:?}");
                if all < step as u64 {
                    break;
                }
                stopped_at += stride();
            }
        }
    }
    println!("{stopped_at} instructions");
    assert!(stopped_at > 96 * 50, "{stopped_at} instructions: fewer than a reservation has");
}

/// A snapshot while a thread writes: its records are those behind the overwritten ones, one after the other.
#[test]
fn a_snapshot_under_a_writer_has_no_hole() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 1, ..fake_abi(has_bmi2()) };
    for (form, ring_bytes) in [
        (Form::Reserved(24), 4096),
        (Form::Reserved(88), 1 << 16),
        (Form::Copied, 1 << 16),
        (Form::Reserved(1000), 1 << 20),
    ] {
        let emitter = Emitter::new(&abi, OVERWRITING, ring_bytes, form);
        let is_over = AtomicBool::new(false);
        let (mut looks, mut records, mut empty) = (0, 0, 0);
        std::thread::scope(|scope| {
            let (code, is_over) = (emitter.program.address(), &is_over);
            scope.spawn(move || {
                set_fake_cpu(0);
                while !is_over.load(Ordering::Relaxed) {
                    (0..1000).for_each(|_| call(code));
                }
            });
            while emitter.segment.flight(1).counters().overwritten == 0 {
                std::thread::yield_now();
            }
            let load = Load::new();
            while !load.is_over() {
                let mut seen = Seen::new(&emitter);
                let snapshot = emitter.segment.flight(1).lane(0);
                assert_eq!((snapshot.dropped, snapshot.corrupt), (0, 0));
                assert!(snapshot.uncommitted <= 1, "{}", snapshot.uncommitted);
                for (n, record) in snapshot.records.iter().enumerate() {
                    let number = u64::from_le_bytes(record.bytes[..8].try_into().expect("8 bytes"));
                    assert_eq!(number, snapshot.overwritten + n as u64, "{form:?}, {ring_bytes}");
                    seen.add(0, record);
                }
                looks += 1;
                records += snapshot.records.len();
                empty += u64::from(snapshot.records.is_empty());
                load.end_if(records > 0);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        Look::at(&emitter).check(&emitter, 0);
        println!("{form:?}, {ring_bytes}: {looks} looks, {empty} without a record, {records} records");
        assert!(records > 0, "{form:?}, {ring_bytes}: no look was in time");
    }
}

/// Threads under signals, which fork, on rings that are looked at: all that was emitted is there or was overwritten.
#[test]
fn nothing_is_lost_to_threads_signals_or_forks() {
    let _guard = alone();
    take_alarms(on_alarm);
    for (ring_bytes, form, abi) in [
        (4096, Form::Reserved(24), rseq_abi(has_bmi2())),
        (1 << 18, Form::Copied, rseq_abi(has_bmi2())),
        (4096, Form::Copied, shared_abi(has_bmi2())),
    ] {
        let emitter = Emitter::new(&abi, OVERWRITING, ring_bytes, form);
        let code = emitter.program.address();
        CODE.store(code, Ordering::Relaxed);
        SIGNALS.store(0, Ordering::Relaxed);
        let (mut calls, mut looks, mut last) = (0, 0, 0);
        let load = Load::new();
        std::thread::scope(|scope| {
            let thread = |forks: u32| {
                let mut calls = 0;
                let _alarm = Alarm::every(Duration::from_micros(500));
                for _ in 0..forks {
                    let pid = child(|| (0..1000).for_each(|_| call(code)));
                    waitpid(pid, None).expect("our child");
                    calls += 1000;
                }
                while !load.is_over() {
                    (0..1000).for_each(|_| call(code));
                    calls += 1000;
                }
                calls
            };
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || thread(3 * n))).collect();
            while !threads.iter().all(|thread| thread.is_finished()) {
                let look = Look::at(&emitter);
                assert!(look.overwritten >= last && look.accounted() <= emitter.emitted(), "{look:?}");
                last = look.overwritten;
                looks += 1;
                load.end_if(SIGNALS.load(Ordering::Relaxed) > 100 && last > 0);
            }
            calls = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>();
        });
        let (signals, look) = (SIGNALS.load(Ordering::Relaxed), Look::at(&emitter));
        println!(
            "{ring_bytes}, {form:?}: {calls} calls, {signals} signals, {looks} looks, {} records, {} overwritten, {} dropped",
            look.numbers.len(),
            look.overwritten,
            look.dropped
        );
        assert_eq!(emitter.emitted(), calls + signals);
        assert_eq!((look.accounted(), look.uncommitted), (calls + signals, 0), "{look:?}");
        assert!(signals > 100 && look.overwritten > 0);
        assert_eq!(look.dropped, 0, "8 threads, each interrupted once, have 16 rings");
    }
}

/// What was submitted before `kill -9` is there or was overwritten; what was half written is counted, and stays in nobody's
/// way. `WEIR_KILLS` says how often.
#[test]
fn killed_processes_leave_whole_rings() {
    const THREADS: u64 = 3;
    let _guard = alone();
    let rounds = std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut random = Random(11);
    let mut uncommitted = 0;
    for round in 0..rounds {
        let form = if round % 2 == 0 { Form::Reserved(88) } else { Form::Copied };
        let abi = if round % 4 < 3 { rseq_abi(has_bmi2()) } else { shared_abi(has_bmi2()) };
        let emitter = Emitter::new(&abi, OVERWRITING, 4096 << (round % 3), form);
        // Several processes, one after the other, in the same rings.
        for _ in 0..3 {
            let pid = child(|| {
                std::thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| {
                            loop {
                                emitter.run();
                            }
                        });
                    }
                });
            });
            // A random moment: the verdict does not depend on which one it is.
            let until = Instant::now() + Duration::from_micros(2_000 + random.below(6_000));
            while Instant::now() < until {
                let look = Look::at(&emitter);
                assert!(look.accounted() <= emitter.emitted(), "round {round}: {look:?}");
            }
            kill(pid, Signal::SIGKILL).expect("our child");
            waitpid(pid, None).expect("our child");
        }
        let look = Look::at(&emitter);
        look.check(&emitter, 3 * THREADS);
        assert!(look.uncommitted <= 3 * THREADS, "round {round}: {look:?}");
        uncommitted += look.uncommitted;
        (0..10).for_each(|_| emitter.run());
        let (look, emitted) = (Look::at(&emitter), emitter.emitted());
        look.check(&emitter, 3 * THREADS);
        assert!((emitted - 10..emitted).all(|n| look.numbers.contains(&n)), "round {round}: {look:?}");
    }
    println!("{rounds} rounds, {uncommitted} records half written");
}

/// Of all rings together the records come by time.
#[test]
fn records_of_several_cpus_come_by_time() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 3, ..fake_abi(has_bmi2()) };
    let emitter = Emitter::new(&abi, OVERWRITING, 1 << 16, Form::Reserved(24));
    let mut random = Random(3);
    for _ in 0..3000 {
        set_fake_cpu(random.below(4) as u32);
        emitter.run();
    }
    let snapshot = emitter.segment.flight(1).snapshot();
    assert_eq!(snapshot.records.len(), 3000);
    for (n, record) in snapshot.records.iter().enumerate() {
        assert_eq!(record.bytes[..8], u64::to_le_bytes(n as u64));
    }
}

#[test]
fn cost_of_a_record_is_printed() {
    let _guard = alone();
    let (_, program) = engines::only("program \"empty\" probe\nr6 = 7\nr0 = 0\nexit\n");
    let segment = engines::segment(&[], cpus());
    let empty = LocalProgram::load(&engines::compiled(&program, &shared_abi(true), Flags::Change), &segment)
        .expect("code fits");
    let [base, _] = ns_per_record(empty.address(), &Barrier::new(1), || ());
    for (size, way, what) in [
        (16, Way::Reserved, "two integers"),
        (64, Way::Reserved, "64 bytes"),
        (64, Way::CopiedOfSize, "64 bytes, copied, size in a map"),
    ] {
        for (name, flags, abi) in [
            ("ring of the CPU, read", DISCARDING, rseq_abi(has_bmi2())),
            ("ring of the CPU, overwriting", OVERWRITING, rseq_abi(has_bmi2())),
            ("claimed ring, overwriting", OVERWRITING, shared_abi(has_bmi2())),
        ] {
            for threads in [1, 2] {
                let (object, program) = recorder(flags, size, way);
                let segment = engines::segment(&object.maps, abi.cpus);
                segment.map(1).update(&[0; 4], &u64::from(size).to_le_bytes(), 0).expect("an entry");
                let executable = engines::compiled(&program, &abi, Flags::default());
                let local = LocalProgram::load(&executable, &segment).expect("code fits");
                let code = local.address();
                let barrier = &Barrier::new(threads);
                let segment = &segment;
                let each: Vec<[f64; 2]> = std::thread::scope(|scope| {
                    let read = || {
                        while flags == DISCARDING && segment.ring(0).next().is_some() {}
                    };
                    let run = move || ns_per_record(code, barrier, read);
                    let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
                });
                let [best, middle] =
                    [0, 1].map(|n| each.iter().map(|ns| ns[n]).sum::<f64>() / threads as f64 - base);
                println!(
                    "{what}, {name}, {threads} threads: {best:.1} ns a record, {middle:.1} in the middle"
                );
                if flags == OVERWRITING {
                    let all = segment.flight(0).snapshot();
                    let accounted = all.records.len() as u64 + all.overwritten + all.dropped;
                    assert_eq!(accounted, (batches() * threads) as u64 * RECORDS);
                    assert!(all.overwritten > 0 || !measure::is_asked(), "few records fit");
                }
            }
        }
    }
}
