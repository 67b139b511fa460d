//! Per-CPU values: which lane is changed, that flags survive where promised, and that no count is lost to other
//! threads, migration or signals. One process of its own: it takes SIGALRM.

use crate::engines;
use crate::fake;
use crate::signals;

use std::arch::asm;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engines::{cpus, has_bmi2, only, rseq_abi, shared_abi};
use fake::{fake_abi, fake_rseq_cs, set_fake_cpu};
use nix::libc;
use signals::{Alarm, Load, call, ns_per_call, take_alarms};
use testkit::measure;
use weir_jit::Flags;
use weir_rt::executable::{Executable, SiteAbi, Symbol};
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;

const COUNT: &str = "map @ percpu_array key 4 value 8 entries 1
program \"count\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = 1
lock *(u64 *)(r0 + 0) += r1
out:
r0 = 0
exit
";

const FORMS: [Flags; 2] = [Flags::Change, Flags::KeepIfPossible];

/// The flags that arithmetic sets: carry, parity, adjust, zero, sign, overflow.
const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// The count program linked into this process.
struct Counter {
    executable: Executable,
    program: LocalProgram,
    segment: Segment,
}

impl Counter {
    fn new(abi: &SiteAbi, flags: Flags) -> Counter {
        let (object, program) = only(COUNT);
        let segment = engines::segment(&object.maps, abi.cpus);
        let executable = engines::compiled(&program, abi, flags);
        let program = LocalProgram::load(&executable, &segment).expect("code fits");
        Counter { executable, program, segment }
    }

    /// The sum over all lanes.
    fn total(&self) -> u64 {
        let entries = self.segment.map(0).entries();
        u64::from_le_bytes(entries[0].1[..8].try_into().expect("eight bytes"))
    }

    fn lanes(&self) -> Vec<u64> {
        let map = &self.segment.layout().maps[0];
        let lane = |lane: u32| {
            let address = self.segment.base() + map.data_offset + u64::from(lane) * map.lane_stride;
            // SAFETY: the layout places a word of this mapped segment there, and no other thread writes it now.
            unsafe { (address as *const u64).read_volatile() }
        };
        (0..map.lanes).map(lane).collect()
    }

    /// Address of the abort handler.
    fn abort_address(&self) -> u64 {
        let last = self.executable.relocations.last().expect("a descriptor");
        let Symbol::Code(offset) = last.symbol else { panic!("{last:?}") };
        self.program.address() + u64::from(offset)
    }
}

/// As `call`, with these arithmetic flags set before; returns them after.
fn call_with_flags(code: u64, flags: u64) -> u64 {
    let before = 0x202 | flags;
    let after: u64;
    // SAFETY: as in `call`; only arithmetic flags are changed, and the stack is as it was.
    unsafe {
        asm!(
            "push {before}",
            "popfq",
            "call {code}",
            "pushfq",
            "pop rax",
            before = in(reg) before,
            code = in(reg) code,
            lateout("rax") after,
            clobber_abi("C"),
        );
    }
    after & ARITHMETIC_FLAGS
}

#[test]
fn each_cpu_has_its_lane_and_threads_without_one_share() {
    let abi = SiteAbi { cpus: 5, ..fake_abi(has_bmi2()) };
    for flags in FORMS {
        for (cpu, lane) in
            [(0, 0), (1, 1), (4, 4), (5, 5), (6, 5), (0x7fff_ffff, 5), (u32::MAX - 1, 5), (u32::MAX, 5)]
        {
            let counter = Counter::new(&abi, flags);
            set_fake_cpu(cpu);
            call(counter.program.address());
            let mut expected = vec![0; 6];
            expected[lane] = 1;
            assert_eq!(counter.lanes(), expected, "CPU {cpu:#x}, {flags:?}");
            assert_eq!(fake_rseq_cs(), 0, "the section is still announced");
        }
    }
}

#[test]
fn flags_survive_where_the_executable_says_so() {
    if !has_bmi2() {
        return println!("skipped: the CPU has no BMI2, so no code keeps flags");
    }
    let abi = fake_abi(true);
    let counter = Counter::new(&abi, Flags::KeepIfPossible);
    assert!(!counter.executable.clobbers_flags);
    for cpu in [0, u32::MAX] {
        for pattern in [0, ARITHMETIC_FLAGS, 0x800, 0x1, 0x4, 0x10, 0x40, 0x80, 0x894, 0x41] {
            set_fake_cpu(cpu);
            assert_eq!(call_with_flags(counter.program.address(), pattern), pattern, "CPU {cpu:#x}");
        }
    }
    assert_eq!(counter.total(), 20);
}

#[test]
fn shared_policy_uses_the_shared_lane_alone() {
    let counter = Counter::new(&shared_abi(has_bmi2()), Flags::default());
    call(counter.program.address());
    let lanes = counter.lanes();
    assert_eq!(lanes.iter().sum::<u64>(), 1);
    assert_eq!(*lanes.last().expect("lanes"), 1);
}

/// What the signal handler runs, and what it saw.
static CODE: AtomicU64 = AtomicU64::new(0);
static ABORT: AtomicU64 = AtomicU64::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static ABORTS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_alarm(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the interrupted thread's context to a SA_SIGINFO handler.
    let rip = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
    // The kernel has already moved a thread that it caught in the section.
    if rip as u64 == ABORT.load(Ordering::Relaxed) {
        ABORTS.fetch_add(1, Ordering::Relaxed);
    }
    call(CODE.load(Ordering::Relaxed));
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// 8 threads, each under 2,000 signals a second while it runs, until there were some signals and it `is_enough`; returns calls made
/// and signals taken.
fn hammer(counter: &Counter, is_enough: impl Fn() -> bool) -> (u64, u64) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let code = counter.program.address();
    CODE.store(code, Ordering::Relaxed);
    ABORT.store(counter.abort_address(), Ordering::Relaxed);
    SIGNALS.store(0, Ordering::Relaxed);
    ABORTS.store(0, Ordering::Relaxed);
    take_alarms(on_alarm);
    let load = Load::new();
    let calls = std::thread::scope(|scope| {
        let thread = || {
            let mut calls = 0;
            let _alarm = Alarm::every(Duration::from_micros(500));
            while !load.is_over() {
                for _ in 0..10_000 {
                    call(code);
                }
                calls += 10_000;
            }
            calls
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(thread)).collect();
        load.last_until(|| SIGNALS.load(Ordering::Relaxed) > 100 && is_enough());
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
    });
    (calls, SIGNALS.load(Ordering::Relaxed))
}

#[test]
fn no_count_is_lost_to_threads_migration_or_signals() {
    for flags in FORMS {
        let counter = Counter::new(&rseq_abi(has_bmi2()), flags);
        let (calls, signals) = hammer(&counter, || ABORTS.load(Ordering::Relaxed) > 0);
        let aborts = ABORTS.load(Ordering::Relaxed);
        let shared = *counter.lanes().last().expect("lanes");
        println!(
            "{flags:?}: {calls} calls, {signals} signals, {aborts} aborted sections, {shared} on the shared lane"
        );
        assert_eq!(counter.total(), calls + signals, "{flags:?}");
        assert_eq!(shared, 0, "glibc registers rseq for every thread");
        assert!(signals > 100, "only {signals} signals");
        assert!(aborts > 0, "no section was ever aborted: the test shows nothing");
    }
}

#[test]
fn counts_without_restarting_are_lost() {
    // All threads seem to be on CPU 0, and the kernel knows of no section: what the test above must be able to see.
    let counter = Counter::new(&fake_abi(has_bmi2()), Flags::KeepIfPossible);
    let (calls, signals) = hammer(&counter, || true);
    assert!(counter.total() < calls + signals, "{calls} calls, {signals} signals, and all were counted");
}

/// Nanoseconds per call: the least of several rounds.
fn least_ns_per_call(code: u64) -> f64 {
    let calls = if measure::is_asked() { 2_000_000 } else { 10_000 };
    (0..measure::rounds(7)).map(|_| ns_per_call(code, calls)).fold(f64::INFINITY, f64::min)
}

#[test]
fn cost_of_a_count_is_printed() {
    let (object, program) = only("program \"empty\" probe\nr0 = 0\nexit\n");
    let segment = engines::segment(&object.maps, cpus());
    let executable = engines::compiled(&program, &shared_abi(true), Flags::Change);
    let empty = LocalProgram::load(&executable, &segment).expect("code fits");
    let base = least_ns_per_call(empty.address());
    println!("empty program {base:.2} ns");
    let cases = [
        ("shared lane", shared_abi(has_bmi2()), Flags::Change),
        ("rseq", rseq_abi(has_bmi2()), Flags::Change),
        ("rseq, flags kept", rseq_abi(has_bmi2()), Flags::KeepIfPossible),
    ];
    for (name, abi, flags) in cases {
        let counter = Counter::new(&abi, flags);
        let ns = least_ns_per_call(counter.program.address());
        println!("count, {name}: {ns:.2} ns, {:.2} above empty", ns - base);
        assert!(counter.total() > 0);
    }
}
