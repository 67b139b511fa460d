//! Records in the rings of CPUs: the same as the helper makes, none lost, torn or twice under threads, migration,
//! signals, forks and deaths, times in order. One process of its own: it takes SIGALRM and SIGTRAP.

use crate::emitter;
use crate::engines;
use crate::fake;
use crate::signals;

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use emitter::{
    CODE, DISCARDING, EVENTS, Emitter, Event, Form, Look, OVERWRITING, RECORDS, SIGNALS, Seen, Way, alone,
    batches, child, killed, ns_per_record, on_alarm, recorder, recorders, stepped, stops, stride, take_traps,
};
use engines::{Random, cpus, has_bmi2, only, rseq_abi, shared_abi};
use fake::{fake_abi, set_fake_cpu};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use signals::{Alarm, Load, call, take_alarms};
use weir_jit::Flags;
use weir_rt::executable::{Executable, Frame, SiteAbi, TidSource};
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

#[test]
fn each_cpu_has_its_ring_and_threads_without_one_share() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 5, ..fake_abi(has_bmi2()) };
    for (cpu, ring) in [(0, 0), (1, 1), (4, 4), (5, 5), (0x7fff_ffff, 5), (u32::MAX - 1, 5), (u32::MAX, 5)] {
        let emitter = Emitter::new(&abi, DISCARDING, 4096, Form::Reserved(24));
        set_fake_cpu(cpu);
        emitter.run();
        assert_eq!(fake::fake_rseq_cs(), 0, "the section is still announced");
        for lane in 0..6 {
            let record = emitter.segment.ring(1).lane(lane).next();
            assert_eq!(record.is_some(), lane == ring, "CPU {cpu:#x}, ring {lane}");
            assert!(record.is_none_or(|record| record.ticks > 0));
        }
    }
}

#[test]
fn engines_and_rings_agree() {
    let _guard = alone();
    set_fake_cpu(0);
    let object = recorders(DISCARDING);
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
    for step in 0..30_000 {
        if random.below(3) == 0 {
            let lane = |at: usize| if at == 0 { 0 } else { cpus() as usize };
            let next = |at: usize| segments[at].ring(0).lane(lane(at)).next().map(|record| record.bytes);
            let read: Vec<_> = (0..4).map(next).collect();
            assert!(read.iter().all(|bytes| *bytes == read[0]), "step {step}: {read:?}");
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
        // What is copied answers −EAGAIN + 12.
        if answers[0] <= 1 - u64::from(!program.name().starts_with("copy")) {
            refused += 1
        } else {
            taken += 1
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused");
    for segment in &segments {
        assert_eq!(segment.ring(0).counters().dropped, refused);
    }
}

#[test]
fn runs_that_claim_a_lane_record_in_the_ring_of_the_cpu() {
    let _guard = alone();
    let abi = fake_abi(has_bmi2());
    let abi = SiteAbi { cpus: 3, lanes: abi.lanes.claimed(), ..abi };
    let (object, program) = only(
        "map @count percpu_array key 4 value 8 entries 1
map @ring ringbuf key 0 value 0 entries 4096 flags 0x80000000
program \"count\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@count] ll
call map_lookup_elem
if r0 == 0 goto out
r6 = *(u64 *)(r0 + 0)
r6 += 1
*(u64 *)(r0 + 0) = r6
r2 = r0
r3 = 8
r1 = map[@ring] ll
r4 = 0
call ringbuf_output
out:
r0 = 0
exit
",
    );
    assert!(program.needs_lane());
    let segment = engines::segment_for(&object.maps, &abi);
    let executable = engines::compiled(&program, &abi, Flags::default());
    let program = LocalProgram::load(&executable, &segment).expect("code fits");
    for cpu in [0, 2, 1, 0] {
        set_fake_cpu(cpu);
        program.run(&mut Frame::default());
        assert_eq!(fake::fake_rseq_cs(), 0, "the section is still announced");
    }
    for (lane, counts) in [(0, vec![1, 2]), (1, vec![1]), (2, vec![1]), (3, vec![])] {
        let mut ring = segment.ring(1).lane(lane);
        let read: Vec<Vec<u8>> = std::iter::from_fn(|| ring.next()).map(|record| record.bytes).collect();
        assert_eq!(read, counts.iter().map(|count: &u64| count.to_le_bytes().to_vec()).collect::<Vec<_>>());
    }
}

/// Records that were written, and of them read, before: at the beginning, near the end of a lap, in the second one,
/// and (the last two) full and full but for one.
const STATES: [(u32, u32); 6] = [(0, 0), (36, 30), (37, 37), (50, 20), (60, 0), (35, 0)];

/// One run on CPU 0, stopped before its instructions, for anything that can happen there.
#[test]
fn whatever_happens_at_an_instruction() {
    let _guard = alone();
    take_traps();
    let abi = SiteAbi { cpus: 2, ..fake_abi(has_bmi2()) };
    let (mut stopped_at, mut cases) = (0, 0..);
    // 36 records of 112 bytes to a lap, and 64 bytes are left; or 60 or so of 64 bytes in the middle.
    for (form, event) in
        [Form::Reserved(88), Form::Copied].into_iter().flat_map(|form| EVENTS.map(|event| (form, event)))
    {
        let empty = Emitter::new(&abi, DISCARDING, 4096, form);
        for (written, read) in STATES {
            for step in stops(cases.next().unwrap_or_default()) {
                let emitter = empty.anew();
                let mut seen = Seen::new(&emitter);
                set_fake_cpu(0);
                for number in 0..written {
                    emitter.run();
                    if number < read {
                        seen.read(&emitter);
                    }
                }
                let all = match event {
                    Event::Killed => killed(&emitter, &mut seen, step),
                    _ => stepped(&emitter, &mut seen, step, event),
                };
                let context = format!("{form:?}, {event:?} at {step}, {written} written, {read} read");
                assert_eq!(fake::fake_rseq_cs() & !0xdead, 0, "{context}");
                seen.drain_dead(&emitter);
                let counters = emitter.segment.ring(1).counters();
                let accounted = seen.numbers.len() as u64 + counters.dropped + counters.uncommitted;
                let lost = emitter.emitted() - accounted;
                assert!(
                    counters.corrupt == 0 && lost + counters.uncommitted <= u64::from(event == Event::Killed),
                    "{context}: {counters:?}, {lost} lost"
                );
                // Both rings go on.
                for cpu in [0, 1] {
                    set_fake_cpu(cpu);
                    (0..30).for_each(|_| emitter.run());
                }
                let before = seen.numbers.len();
                seen.read(&emitter);
                assert_eq!(seen.numbers.len(), before + 60, "{context}");
                if all < step as u64 {
                    break;
                }
                stopped_at += stride();
            }
        }
    }
    println!("{stopped_at} instructions");
    assert!(stopped_at > 72 * 40, "{stopped_at} instructions: fewer than a reservation has");
}

/// Threads under signals, which fork, on rings that are read or too small: all that was emitted was recorded once, or
/// was counted as discarded.
#[test]
fn nothing_is_lost_to_threads_signals_or_forks() {
    let _guard = alone();
    take_alarms(on_alarm);
    for (ring_bytes, form) in
        [(4096, Form::Reserved(24)), (1 << 20, Form::Reserved(24)), (4096, Form::Copied)]
    {
        let emitter = Emitter::new(&rseq_abi(has_bmi2()), DISCARDING, ring_bytes, form);
        let code = emitter.program.address();
        CODE.store(code, Ordering::Relaxed);
        SIGNALS.store(0, Ordering::Relaxed);
        let mut seen = Seen::new(&emitter);
        let mut calls = 0;
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
            // Not by who reads: eight threads write faster than one reads, so that a look takes long.
            scope.spawn(|| {
                let has_read = || emitter.segment.ring(1).counters().read > 0;
                load.last_until(|| SIGNALS.load(Ordering::Relaxed) > 100 && has_read());
            });
            while !threads.iter().all(|thread| thread.is_finished()) {
                seen.read(&emitter);
            }
            calls = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>();
        });
        seen.read(&emitter);
        let (signals, counters) = (SIGNALS.load(Ordering::Relaxed), emitter.segment.ring(1).counters());
        println!("{ring_bytes}, {form:?}: {calls} calls, {signals} signals, {counters:?}");
        assert_eq!(emitter.emitted(), calls + signals);
        assert!(signals > 100 && counters.read > 0);
        seen.check(&emitter);
        let last = emitter.rings() - 1;
        assert_eq!(emitter.segment.ring(1).lane(last).counters().read, 0, "every thread has rseq");
    }
}

/// What was submitted before `kill -9` is read; what was half written is counted. `WEIR_KILLS` says how often.
#[test]
fn what_killed_processes_submitted_is_read() {
    const THREADS: u64 = 3;
    let _guard = alone();
    let rounds = std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut random = Random(11);
    let mut uncommitted = 0;
    for round in 0..rounds {
        let form = if round % 2 == 0 { Form::Reserved(88) } else { Form::Copied };
        let emitter = Emitter::new(&rseq_abi(has_bmi2()), DISCARDING, 1 << 16, form);
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
        let mut seen = Seen::new(&emitter);
        // A random moment: the verdict does not depend on which one it is.
        let until = Instant::now() + Duration::from_micros(2_000 + random.below(10_000));
        while Instant::now() < until {
            seen.read(&emitter);
        }
        kill(pid, Signal::SIGKILL).expect("our child");
        waitpid(pid, None).expect("our child");
        seen.drain_dead(&emitter);
        let counters = emitter.segment.ring(1).counters();
        let accounted = seen.numbers.len() as u64 + counters.dropped + counters.uncommitted;
        // A thread may have died between its number and its reservation.
        let missing = emitter.emitted() - accounted;
        assert!(
            counters.corrupt == 0 && missing + counters.uncommitted <= THREADS,
            "round {round}: {missing} missing, {counters:?}"
        );
        uncommitted += counters.uncommitted;
        emitter.run();
        let before = seen.numbers.len();
        seen.read(&emitter);
        assert_eq!(seen.numbers.len(), before + 1, "round {round}: the ring does not go on");
    }
    println!("{rounds} rounds, {uncommitted} records half written");
}

/// The reader goes on behind a record whose writer is gone, once it is told so, and waits for one that is not.
#[test]
fn records_of_threads_that_are_gone_are_skipped() {
    let _guard = alone();
    take_traps();
    let tid = TidSource::ThreadControlBlock { offset: engines::tid_offset() };
    let abi = SiteAbi { cpus: 2, tid, ..fake_abi(has_bmi2()) };
    let is_gone = |thread: u32| nix::sched::sched_getaffinity(Pid::from_raw(thread as i32)).is_err();
    let me = nix::unistd::gettid().as_raw() as u32;
    for (form, flags) in [Form::Reserved(88), Form::Copied]
        .into_iter()
        .flat_map(|form| [(form, DISCARDING), (form, OVERWRITING)])
    {
        set_fake_cpu(0);
        let overwrites = flags == OVERWRITING;
        let mut skipped = 0;
        for step in 0.. {
            let emitter = Emitter::new(&abi, flags, 4096, form);
            let mut seen = Seen::new(&emitter);
            emitter.run();
            let all = killed(&emitter, &mut seen, step);
            (0..3).for_each(|_| emitter.run());
            let mut read = || match overwrites {
                true => Look::at(&emitter).numbers.len(),
                false => {
                    seen.read(&emitter);
                    seen.numbers.len()
                }
            };
            let before = read();
            let skip = |is_gone: &dyn Fn(u32) -> bool| match overwrites {
                true => emitter.segment.flight(1).skip_gone(is_gone),
                false => emitter.segment.ring(1).skip_gone(is_gone),
            };
            let asked = Cell::new(0);
            let is_alive = |thread| {
                asked.set(thread);
                false
            };
            assert_eq!(skip(&is_alive), 0, "{form:?} at {step}");
            assert!(asked.get() != me, "{form:?} at {step}: it is not this thread's");
            assert_eq!(skip(&is_gone), u64::from(asked.get() != 0), "{form:?} at {step}");
            skipped += u64::from(asked.get() != 0);
            let is_submitted = asked.get() == 0 && emitter.emitted() == 5;
            let lost = if overwrites { 0 } else { emitter.segment.ring(1).counters().uncommitted };
            assert!(overwrites || lost == u64::from(asked.get() != 0));
            if overwrites {
                assert_eq!(Look::at(&emitter).uncommitted, u64::from(asked.get() != 0), "{form:?} at {step}");
            }
            let after = read();
            assert!((4..=4 + usize::from(is_submitted)).contains(&after), "{form:?} at {step}: {after} read");
            assert!(overwrites || asked.get() == 0 || before == 1, "{form:?} at {step}: it held up nobody");
            if all < step as u64 {
                break;
            }
        }
        assert!(skipped > 1, "{form:?}: {skipped} of its instructions have a record reserved");
    }
}

#[test]
fn a_mark_is_reached_when_all_that_was_there_is_read() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 3, ..fake_abi(has_bmi2()) };
    let emitter = Emitter::new(&abi, DISCARDING, 1 << 16, Form::Reserved(24));
    let mut random = Random(5);
    for _ in 0..100 {
        let (mut ring, before) = (emitter.segment.ring(1), emitter.emitted());
        let written = random.below(50);
        for _ in 0..written {
            set_fake_cpu(random.below(4) as u32);
            emitter.run();
        }
        let mark = ring.mark();
        assert!(mark.records_max >= written, "{mark:?}");
        (0..random.below(50)).for_each(|_| emitter.run());
        let (mut old, mut all) = (0, 0);
        while !ring.has_read(&mark) {
            let record = ring.next().expect("something is left of what was there");
            let number = u64::from_le_bytes(record.bytes[..8].try_into().expect("8 bytes"));
            old += u64::from(number < before + written);
            all += 1;
        }
        assert!(old == written && all <= mark.records_max.max(written), "{old} of {written}, {all} in all");
        while ring.next().is_some() {}
    }
}

/// Of all rings together, the reader gives least times first, as far as it can know.
#[test]
fn records_of_several_cpus_come_by_time() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 3, ..fake_abi(has_bmi2()) };
    let emitter = Emitter::new(&abi, DISCARDING, 1 << 16, Form::Reserved(24));
    let mut random = Random(3);
    let mut next = 0;
    for _ in 0..200 {
        for _ in 0..random.below(60) {
            set_fake_cpu(random.below(4) as u32);
            emitter.run();
        }
        // Sometimes not all that is there.
        for _ in 0..random.below(80) {
            let Some(record) = emitter.segment.ring(1).next() else { break };
            assert_eq!(record.bytes[..8], u64::to_le_bytes(next));
            next += 1;
        }
    }
    while let Some(record) = emitter.segment.ring(1).next() {
        assert_eq!(record.bytes[..8], u64::to_le_bytes(next));
        next += 1;
    }
    assert_eq!(next, emitter.emitted());
    assert_eq!(emitter.segment.ring(1).counters().dropped, 0);
}

#[test]
fn cost_of_a_record_is_printed() {
    let _guard = alone();
    let local = |executable: &Executable| {
        let segment = engines::segment(&[], cpus());
        LocalProgram::load(executable, &segment).expect("code fits")
    };
    let (_, program) = only("program \"empty\" probe\nr6 = 7\nr0 = 0\nexit\n");
    let empty = local(&engines::compiled(&program, &shared_abi(true), Flags::Change));
    let [base, _] = ns_per_record(empty.address(), &Barrier::new(1), || ());
    // rdtsc; ret
    let counter = local(&Executable::by_hand("counter", vec![0x0f, 0x31, 0xc3], Vec::new(), 0x5));
    let [ticks, _] = ns_per_record(counter.address(), &Barrier::new(1), || ());
    let tid = TidSource::ThreadControlBlock { offset: engines::tid_offset() };
    println!("empty program {base:.1} ns; reading the time stamp counter {ticks:.1}");
    for (size, way, what) in [
        (16, Way::Reserved, "two integers"),
        (64, Way::Reserved, "64 bytes"),
        (16, Way::Copied, "two integers, copied"),
        (64, Way::Copied, "64 bytes, copied"),
        (16, Way::CopiedOfSize, "two integers, copied, size in a map"),
        (64, Way::CopiedOfSize, "64 bytes, copied, size in a map"),
    ] {
        for (name, flags, abi) in [
            ("one ring", 0, rseq_abi(has_bmi2())),
            ("shared ring of rings of CPUs", 1 << 31, shared_abi(has_bmi2())),
            ("ring of the CPU", 1 << 31, rseq_abi(has_bmi2())),
            ("ring of the CPU, with the thread's id", 1 << 31, SiteAbi { tid, ..rseq_abi(has_bmi2()) }),
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
                    // All that was written is whole when it is read.
                    let read = || while segment.ring(0).next().is_some() {};
                    let run = move || ns_per_record(code, barrier, read);
                    let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
                });
                let [best, middle] =
                    [0, 1].map(|n| each.iter().map(|ns| ns[n]).sum::<f64>() / threads as f64 - base);
                let counters = segment.ring(0).counters();
                println!(
                    "{what}, {name}, {threads} threads: {best:.1} ns a record, {middle:.1} in the middle"
                );
                assert_eq!((counters.corrupt, counters.dropped), (0, 0), "{what}, {name}");
                assert_eq!(counters.read, (batches() * threads) as u64 * RECORDS);
            }
        }
    }
}
