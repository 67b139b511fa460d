//! Claimed lanes: a run has its lane alone, whatever interrupts it, and gives it back; where none is left it is skipped
//! and counted. One process of its own: it takes SIGALRM.

use crate::engines;
use crate::signals;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engines::{claimed_abi, cpus, has_bmi2, only};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use signals::{Alarm, DEADLINE, Load, call, take_alarms};
use testkit::wait;
use weir_jit::{Flags, JitError};
use weir_rt::executable::{CpuSource, Frame, LanePolicy, LaneUse, SiteAbi, TidSource};
use weir_rt::limits::CLAIM_SPARE_LANES;
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;

/// `(*v)++`, as compilers write it.
const INCREMENT: &str = "map @ percpu_array key 4 value 8 entries 1
program \"increment\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 + 0)
r1 += 1
*(u64 *)(r0 + 0) = r1
out:
r0 = 7
exit
";

/// The same many times in one run, so that most signals and preemptions come in the middle of one.
const INCREMENTS: &str = "map @ percpu_array key 4 value 8 entries 1
program \"increments\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto out
r2 = 0
here:
r1 = *(u64 *)(r0 + 0)
r1 += 1
*(u64 *)(r0 + 0) = r1
r2 += 1
if r2 != 100 goto here
out:
r0 = 7
exit
";

/// Per-CPU counts by key, with the updates that clang programs make.
const BY_KEY: &str = "map @ percpu_hash key 8 value 8 entries 64
program \"by key\" probe
*(u64 *)(r10 - 8) = 3
r2 = r10
r2 += -8
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto new
r1 = *(u64 *)(r0 + 0)
r1 += 1
*(u64 *)(r0 + 0) = r1
goto out
new:
*(u64 *)(r10 - 16) = 1
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 1
r1 = map[@] ll
call map_update_elem
if r0 == 0 goto out
*(u64 *)(r10 - 16) = 0
r2 = r10
r2 += -8
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 + 0)
r1 += 1
*(u64 *)(r0 + 0) = r1
out:
r0 = 7
exit
";

struct Loaded {
    program: LocalProgram,
    segment: Segment,
}

impl Loaded {
    fn new(text: &str, abi: &SiteAbi) -> Loaded {
        let (object, program) = only(text);
        let segment = engines::segment_for(&object.maps, abi);
        let executable = engines::compiled(&program, abi, Flags::default());
        let program = LocalProgram::load(&executable, &segment).expect("code fits");
        Loaded { program, segment }
    }

    /// The sum over all lanes of all keys.
    fn total(&self) -> u64 {
        let entries = self.segment.map(0).entries();
        entries.iter().map(|entry| u64::from_le_bytes(entry.1[..8].try_into().expect("eight bytes"))).sum()
    }

    fn lanes(&self) -> Vec<u64> {
        let values = self.segment.map(0).lookup_lanes(&0u32.to_le_bytes()).expect("lanes are claimed");
        values.iter().map(|value| u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))).collect()
    }

    fn run(&self) -> u64 {
        self.program.run(&mut Frame::default())
    }
}

/// Claims name their thread.
fn abi_with_tid() -> SiteAbi {
    // glibc's struct pthread has the thread's id; where, is what a scan from the thread pointer finds.
    SiteAbi {
        tid: TidSource::ThreadControlBlock { offset: engines::tid_offset() },
        ..claimed_abi(has_bmi2())
    }
}

fn taking_turns() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

static CODE: AtomicU64 = AtomicU64::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    call(CODE.load(Ordering::Relaxed));
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// 8 threads, each under 2,000 signals a second that run the program, too, until there were some signals and it `is_enough`;
/// returns the runs.
fn hammer(code: u64, is_enough: impl Fn() -> bool) -> u64 {
    CODE.store(code, Ordering::Relaxed);
    SIGNALS.store(0, Ordering::Relaxed);
    take_alarms(on_alarm);
    let load = Load::new();
    let calls = std::thread::scope(|scope| {
        let thread = || {
            let mut calls = 0;
            let _alarm = Alarm::every(Duration::from_micros(500));
            while !load.is_over() {
                (0..100).for_each(|_| call(code));
                calls += 100;
            }
            calls
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(thread)).collect();
        load.last_until(|| SIGNALS.load(Ordering::Relaxed) > 100 && is_enough());
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
    });
    let signals = SIGNALS.load(Ordering::Relaxed);
    assert!(signals > 100, "only {signals} signals");
    calls + signals
}

#[test]
fn no_increment_is_lost_to_threads_or_signals() {
    let _turn = taking_turns();
    for (text, each) in [(INCREMENT, 1), (INCREMENTS, 100), (BY_KEY, 1)] {
        for abi in
            [claimed_abi(has_bmi2()), abi_with_tid(), SiteAbi { lanes: BY_SELECTOR, ..claimed_abi(false) }]
        {
            let loaded = Loaded::new(text, &abi);
            let spare = || loaded.lanes()[cpus() as usize..].iter().sum::<u64>();
            let runs = hammer(loaded.program.address(), || text == BY_KEY || spare() > 0);
            let skipped = loaded.segment.counters().lanes_exhausted;
            println!("{} runs, {skipped} skipped, {abi:?}", runs);
            assert_eq!(loaded.total(), each * (runs - skipped), "{abi:?}\n{text}");
            assert_eq!(loaded.segment.claimed_lanes(), 0);
            if text != BY_KEY {
                assert!(spare() > 0, "no run ever took a spare lane: the test shows nothing");
            }
        }
    }
}

const BY_SELECTOR: LanePolicy = LanePolicy::Claimed { cpu: CpuSource::Selector };
const BY_RUNTIME: LanePolicy = LanePolicy::Claimed { cpu: CpuSource::Runtime };

#[test]
fn this_process_knows_where_its_rseq_is() {
    assert_eq!(weir_rt::local::rseq_offset(), Some(engines::rseq_offset()));
}

/// Claims every lane of the segment but `left`, as runs that never end would.
fn claim_all_but(segment: &Segment, left: u32) {
    for lane in left..segment.layout().claim_lanes {
        set_claim(segment, lane, 1 << 31);
    }
}

fn set_claim(segment: &Segment, lane: u32, word: u64) {
    let layout = segment.layout();
    let at = segment.base() + layout.claims_offset + u64::from(lane) * weir_rt::abi::CLAIM_STRIDE;
    // SAFETY: the layout places the lane's claim there, and the segment is mapped.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(word, Ordering::Relaxed);
}

#[test]
fn a_run_takes_the_lane_of_its_cpu() {
    testkit::cpu::stay_on_this();
    let cpu = nix::sched::sched_getcpu().expect("sched_getcpu");
    let others = [BY_SELECTOR, BY_RUNTIME].map(|lanes| SiteAbi { lanes, ..claimed_abi(false) });
    for abi in [claimed_abi(has_bmi2())].into_iter().chain(others) {
        let loaded = Loaded::new(INCREMENT, &abi);
        (0..5).for_each(|_| assert_eq!(loaded.run(), 7));
        let mut expected = vec![0; (cpus() + CLAIM_SPARE_LANES) as usize];
        expected[cpu] = 5;
        assert_eq!(loaded.lanes(), expected);
    }
}

#[test]
fn a_nested_run_takes_another_lane() {
    testkit::cpu::stay_on_this();
    let cpu = nix::sched::sched_getcpu().expect("sched_getcpu") as u32;
    let loaded = Loaded::new(INCREMENT, &claimed_abi(has_bmi2()));
    set_claim(&loaded.segment, cpu, 1 << 31);
    assert_eq!(loaded.run(), 7);
    let lanes = loaded.lanes();
    assert_eq!((lanes[cpu as usize], lanes[cpus() as usize..].iter().sum()), (0, 1), "{lanes:?}");
    assert_eq!(loaded.segment.claimed_lanes(), 1, "the nested run gives its own lane back");
}

#[test]
fn a_run_without_a_lane_is_skipped_and_counted() {
    let loaded = Loaded::new(INCREMENT, &claimed_abi(has_bmi2()));
    claim_all_but(&loaded.segment, 1);
    assert_eq!(loaded.run(), 7, "the lane of the other CPU is left");
    claim_all_but(&loaded.segment, 0);
    for n in 1..=3 {
        assert_eq!(loaded.run(), 0, "skipped");
        assert_eq!(loaded.segment.counters().lanes_exhausted, n);
    }
    assert_eq!(loaded.total(), 1);
}

#[test]
fn lanes_of_threads_that_are_gone_are_freed() {
    let loaded = Loaded::new(INCREMENT, &abi_with_tid());
    let segment = &loaded.segment;
    set_claim(segment, 0, 1 << 31 | 500);
    set_claim(segment, 1, 1 << 31 | 501);
    set_claim(segment, 2, 1 << 31);
    set_claim(segment, 3, u64::MAX);
    let asked = Mutex::new(Vec::new());
    let is_gone = |tid| {
        asked.lock().expect("no panic").push(tid);
        tid == 501
    };
    assert_eq!((segment.reclaim_lanes(&is_gone), segment.claimed_lanes()), (1, 3));
    assert_eq!(*asked.lock().expect("no panic"), [500, 501], "claims that name no thread stay");
}

static JUMP: AtomicU32 = AtomicU32::new(0);

extern "C" fn leave_thread(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if JUMP.swap(0, Ordering::Relaxed) == 1 {
        // SAFETY: ends this thread and nothing else, in the middle of a run; no destructor of it is needed.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// The thread is gone while it has a lane: the lane stays lost until the controller asks who is gone.
#[test]
fn a_thread_that_never_returns_keeps_its_lane() {
    let _turn = taking_turns();
    let loaded = Loaded::new(INCREMENTS, &abi_with_tid());
    take_alarms(leave_thread);
    let code = loaded.program.address();
    // A raw thread: nobody joins it, since it does not end as threads do.
    extern "C" fn run_for_ever(code: *mut libc::c_void) -> *mut libc::c_void {
        let _alarm = Alarm::every(Duration::from_micros(200));
        JUMP.store(1, Ordering::Relaxed);
        loop {
            call(code as u64);
        }
    }
    let lost = (0..200).find(|_| {
        let mut thread = 0;
        // SAFETY: the function takes the code's address, which stays mapped until the thread is gone.
        let made = unsafe {
            libc::pthread_create(&mut thread, std::ptr::null(), run_for_ever, code as *mut libc::c_void)
        };
        assert_eq!(made, 0);
        let is_gone = || JUMP.load(Ordering::Relaxed) == 0 && is_alone();
        assert!(wait::until(DEADLINE, is_gone), "the thread goes on");
        loaded.segment.claimed_lanes() > 0
    });
    assert!(lost.is_some(), "no thread ended in the middle of a run");
    assert_eq!(loaded.run(), 7, "other runs go on");
    let task = |tid: u32| !Path::new(&format!("/proc/self/task/{tid}")).exists();
    assert_eq!((loaded.segment.reclaim_lanes(&task), loaded.segment.claimed_lanes()), (1, 0));
}

/// No thread of this test binary runs code but this one (and those that wait for their turn).
fn is_alone() -> bool {
    let tasks = fs::read_dir("/proc/self/task").expect("procfs");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let us = fs::read_to_string("/proc/thread-self/comm").expect("procfs");
    names.filter(|name| *name == us).count() == 1
}

#[test]
fn a_forked_child_shares_the_lanes() {
    let loaded = Loaded::new(INCREMENT, &abi_with_tid());
    let runs = 1000;
    // SAFETY: the child runs code that needs no lock and leaves by `_exit`.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            let answers = (0..runs).map(|_| loaded.run()).sum::<u64>();
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(answers != 7 * runs)) };
        }
        ForkResult::Parent { child } => {
            (0..runs).for_each(|_| assert_eq!(loaded.run(), 7));
            assert_eq!(waitpid(child, None).expect("a child"), WaitStatus::Exited(child, 0));
        }
    }
    assert_eq!(loaded.total(), 2 * runs);
    assert_eq!(loaded.segment.claimed_lanes(), 0);
}

#[test]
fn lanes_are_claimed_or_in_sections_never_both() {
    let (object, needs) = only(INCREMENT);
    for abi in engines::abis() {
        assert_eq!(weir_jit::compile(&needs, &abi), Err(JitError::NeedsLane), "{abi:?}");
    }
    let adding = INCREMENT.replace(
        "r1 = *(u64 *)(r0 + 0)\nr1 += 1\n*(u64 *)(r0 + 0) = r1",
        "r1 = 1\nlock *(u64 *)(r0 + 0) += r1",
    );
    let (_, adds) = only(&adding);
    assert!(needs.needs_lane() && !adds.needs_lane());
    let nothing = only("map @ percpu_array key 4 value 8 entries 1\nprogram \"p\" probe\nr0 = 0\nexit").1;
    let (claimed, sections) = (claimed_abi(has_bmi2()), engines::rseq_abi(has_bmi2()));
    let segments =
        [engines::segment_for(&object.maps, &claimed), engines::segment_for(&object.maps, &sections)];
    let check = |program, abi: &SiteAbi, lanes: LaneUse, suits: [bool; 2]| {
        let executable = engines::compiled(program, abi, Flags::default());
        assert_eq!(executable.lanes, lanes);
        for (segment, suits) in segments.iter().zip(suits) {
            assert_eq!(LocalProgram::load(&executable, segment).is_ok(), suits, "{lanes:?}");
        }
    };
    check(&needs, &claimed, LaneUse::Claimed, [true, false]);
    check(&adds, &claimed, LaneUse::Claimed, [true, false]);
    check(&adds, &sections, LaneUse::Sections, [false, true]);
    check(&nothing, &claimed, LaneUse::None, [true, true]);
    check(&nothing, &sections, LaneUse::None, [true, true]);
}

#[test]
fn programs_of_the_corpus_give_their_answer_in_the_kernel() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("jit::percpu-kernel", reason);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/percpu.s");
    let text = fs::read_to_string(path).expect("readable");
    let object = weir_ebpf::asm::parse(&text).expect("parses");
    let answers = text.lines().filter_map(|line| line.strip_prefix("; r0 = "));
    let mut checked = 0;
    for (program, answer) in object.programs.iter().zip(answers) {
        let alone = weir_ebpf::Object { maps: object.maps.clone(), programs: vec![program.clone()] };
        let run =
            testkit::kernel::run(&alone, &[]).unwrap_or_else(|error| panic!("{}: {error}", program.name));
        assert_eq!(u64::from(run.r0), engines::number(answer), "{}", program.name);
        checked += 1;
    }
    assert!(checked >= 15, "{checked} programs");
}
