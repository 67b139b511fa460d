//! Records in the rings of CPUs: the same as the helper makes, none lost, torn or twice under threads, migration,
//! signals, forks and deaths, times in order. One process of its own: it takes SIGALRM and SIGTRAP.

mod engines;
mod fake;
mod signals;

use std::arch::asm;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engines::{Random, cpus, has_bmi2, only, rseq_abi, shared_abi};
use fake::{fake_abi, interrupt_section, set_fake_cpu};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use signals::{Alarm, call, ns_per_call, take_alarms};
use weir_ebpf::{MapSpec, Object};
use weir_jit::Flags;
use weir_rt::executable::{Executable, Frame, SiteAbi};
use weir_rt::local::LocalProgram;
use weir_rt::segment::{Record, Segment};
use weir_verifier::VerifiedProgram;

/// How a record comes into the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// So many bytes are reserved, and filled: the number, zeros, its complement.
    Reserved(u32),
    /// 16 to 72 bytes, as many as the number says, are copied: the number, and complements.
    Copied,
}

/// A program that takes the next number and puts it into a record.
fn emitter(ring_bytes: u32, form: Form) -> (Object, VerifiedProgram) {
    let record = match form {
        Form::Reserved(size) => format!(
            "r1 = map[@ring] ll
r2 = {size}
r3 = 0
call ringbuf_reserve
if r0 == 0 goto out
r7 = r6
r7 ^= -1
*(u64 *)(r0 + 0) = r6
*(u64 *)(r0 + {last}) = r7
r1 = r0
r2 = 0
call ringbuf_submit",
            last = size - 8
        ),
        Form::Copied => {
            let words: String = (1..9).map(|n| format!("*(u64 *)(r10 - {}) = r7\n", 80 - 8 * n)).collect();
            format!(
                "r7 = r6
r7 ^= -1
*(u64 *)(r10 - 80) = r6
{words}r3 = r6
r3 &= 7
r3 <<= 3
r3 += 16
r2 = r10
r2 += -80
r1 = map[@ring] ll
r4 = 0
call ringbuf_output"
            )
        }
    };
    only(&format!(
        "map @n array key 4 value 8 entries 1
map @ring ringbuf key 0 value 0 entries {ring_bytes} flags 0x80000000
program \"emit\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@n] ll
call map_lookup_elem
if r0 == 0 goto out
r6 = 1
r6 = atomic_fetch_add((u64 *)(r0 + 0), r6)
{record}
out:
r0 = 0
exit
"
    ))
}

/// It, linked into this process.
struct Emitter {
    executable: Executable,
    maps: Vec<MapSpec>,
    cpus: u32,
    form: Form,
    program: LocalProgram,
    segment: Segment,
}

impl Emitter {
    fn new(abi: &SiteAbi, ring_bytes: u32, form: Form) -> Emitter {
        let (object, program) = emitter(ring_bytes, form);
        Emitter::on(engines::compiled(&program, abi, Flags::default()), object.maps, abi.cpus, form)
    }

    fn on(executable: Executable, maps: Vec<MapSpec>, cpus: u32, form: Form) -> Emitter {
        let segment = engines::segment(&maps, cpus);
        let program = LocalProgram::load(&executable, &segment).expect("code fits");
        Emitter { executable, maps, cpus, form, program, segment }
    }

    /// The same with empty maps.
    fn anew(&self) -> Emitter {
        Emitter::on(self.executable.clone(), self.maps.clone(), self.cpus, self.form)
    }

    fn run(&self) {
        call(self.program.address());
    }

    /// Numbers that were taken.
    fn emitted(&self) -> u64 {
        let value = self.segment.map(0).lookup(&0u32.to_le_bytes()).expect("an entry");
        u64::from_le_bytes(value.try_into().expect("8 bytes"))
    }

    fn rings(&self) -> usize {
        self.segment.ring(1).rings()
    }
}

/// What was read of an emitter's records: each checked, and each number once.
struct Seen {
    numbers: BTreeSet<u64>,
    /// The last time of each ring.
    ticks: Vec<u64>,
    form: Form,
}

impl Seen {
    fn new(emitter: &Emitter) -> Seen {
        Seen { numbers: BTreeSet::new(), ticks: vec![0; emitter.rings()], form: emitter.form }
    }

    fn add(&mut self, lane: usize, record: &Record) {
        let word = |at: usize| u64::from_le_bytes(record.bytes[at..at + 8].try_into().expect("8 bytes"));
        let number = word(0);
        assert_eq!(word(record.bytes.len() - 8), !number, "torn: {record:?}");
        let (bytes, between) = match self.form {
            Form::Reserved(bytes) => (bytes as usize, 0),
            Form::Copied => (16 + 8 * (number as usize & 7), !number),
        };
        assert_eq!(record.bytes.len(), bytes, "{record:?}");
        assert!((8..bytes - 8).step_by(8).all(|at| word(at) == between), "between: {record:?}");
        assert!(self.numbers.insert(number), "{number} came twice");
        assert!(record.ticks >= self.ticks[lane], "ring {lane}: time falls from {}", self.ticks[lane]);
        self.ticks[lane] = record.ticks;
    }

    /// Everything that is submitted, ring by ring.
    fn read(&mut self, emitter: &Emitter) {
        for lane in 0..emitter.rings() {
            while let Some(record) = emitter.segment.ring(1).lane(lane).next() {
                self.add(lane, &record);
            }
        }
    }

    fn drain_dead(&mut self, emitter: &Emitter) {
        for lane in 0..emitter.rings() {
            for record in emitter.segment.ring(1).lane(lane).drain_dead() {
                self.add(lane, &record);
            }
        }
    }

    /// Recorded and discarded are what was emitted.
    fn check(&self, emitter: &Emitter) {
        let counters = emitter.segment.ring(1).counters();
        let recorded = self.numbers.len() as u64;
        assert_eq!((counters.read, counters.uncommitted, counters.corrupt), (recorded, 0, 0));
        assert_eq!(recorded + counters.dropped, emitter.emitted(), "{counters:?}");
    }
}

/// Takes signals and fakes CPUs: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn each_cpu_has_its_ring_and_threads_without_one_share() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 5, ..fake_abi(has_bmi2()) };
    for (cpu, ring) in [(0, 0), (1, 1), (4, 4), (5, 5), (0x7fff_ffff, 5), (u32::MAX - 1, 5), (u32::MAX, 5)] {
        let emitter = Emitter::new(&abi, 4096, Form::Reserved(24));
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

/// Sizes around every boundary of what code does by itself, and records that fill a ring.
const SIZES: [u32; 15] = [1, 7, 8, 9, 16, 17, 24, 100, 128, 129, 136, 1000, 2000, 4072, 4080];

/// Programs that record: r0 says whether there was room. One for each size, that keeps, discards, or copies; and those that
/// copy as many bytes as the first argument says, up to 15, 255 and a ring's.
fn recorders() -> Object {
    let mut text = String::from(
        "map @ring ringbuf key 0 value 0 entries 4096 flags 0x80000000\nmap @bytes array key 4 value 4200 entries 1\n",
    );
    let copy = |name: String, size: String, moved: u32| {
        format!(
            "program \"{name}\" probe\nr6 = *(u64 *)(r1 + 112)\nr7 = *(u64 *)(r1 + 104)\n*(u32 *)(r10 - 4) = 0
r2 = r10\nr2 += -4\nr1 = map[@bytes] ll\ncall map_lookup_elem\nif r0 == 0 goto out\n*(u64 *)(r0 + 8) = r7
r2 = r0\nr2 += {moved}\n{size}\nr1 = map[@ring] ll\nr4 = 0\ncall ringbuf_output\nr0 += 12\nout:\nexit\n"
        )
    };
    for mask in [15, 255, 4095] {
        text += &copy(format!("copy_up_to_{mask}"), format!("r3 = r6\nr3 &= {mask}"), mask & 7);
    }
    text += &copy("copy_nothing".into(), "r3 = 0".into(), 3);
    for size in SIZES {
        text += &copy(format!("copy_{size}"), format!("r3 = {size}"), size & 7);
        for end in ["submit", "discard"] {
            text += &format!(
                "program \"{end}_{size}\" probe\nr1 = map[@ring] ll\nr2 = {size}\nr3 = 0\ncall ringbuf_reserve
if r0 == 0 goto out\n*(u8 *)(r0 + {last}) = {byte}\nr1 = r0\nr2 = 0\ncall ringbuf_{end}\nr0 = 1\nout:\nexit\n",
                last = size - 1,
                byte = size & 0x7f | 1,
            );
        }
    }
    weir_ebpf::asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn engines_and_rings_agree() {
    let _guard = alone();
    set_fake_cpu(0);
    let object = recorders();
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

/// What happens at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// So many runs in a signal handler.
    Nested(u32),
    /// Moved to another CPU.
    Moved,
    /// The same, and another thread runs on the first CPU.
    MovedAndFollowed,
    /// All is read.
    Read,
    /// The process is killed.
    Killed,
}

const EVENTS: [Event; 6] =
    [Event::Nested(1), Event::Nested(100), Event::Moved, Event::MovedAndFollowed, Event::Read, Event::Killed];

/// What the handler of the trap flag does, and where.
struct Plan<'a> {
    code: std::ops::Range<u64>,
    event: Event,
    emitter: &'a Emitter,
    seen: &'a mut Seen,
}

static PLAN: AtomicUsize = AtomicUsize::new(0);
static STEPS_LEFT: AtomicUsize = AtomicUsize::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);

const TRAP_FLAG: i64 = 0x100;

extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the interrupted thread's context; `PLAN` points to a plan of the caller's that nobody
    // else uses before it has returned.
    let (registers, plan) = unsafe {
        (
            &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs,
            &mut *(PLAN.load(Ordering::Relaxed) as *mut Plan<'_>),
        )
    };
    let at = registers[libc::REG_RIP as usize] as u64;
    if !plan.code.contains(&at) {
        return;
    }
    STEPS.fetch_add(1, Ordering::Relaxed);
    if STEPS_LEFT.fetch_sub(1, Ordering::Relaxed) != 0 {
        return;
    }
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
    registers[libc::REG_RIP as usize] = interrupt_section(at) as i64;
    match plan.event {
        Event::Nested(times) => (0..times).for_each(|_| plan.emitter.run()),
        Event::Moved => set_fake_cpu(1),
        Event::MovedAndFollowed => {
            plan.emitter.run();
            set_fake_cpu(1);
        }
        Event::Read => plan.seen.read(plan.emitter),
        // SAFETY: ends the process at once, as a signal would.
        Event::Killed => unsafe { libc::_exit(0) },
    }
}

fn take_traps() {
    // SAFETY: all zeros is a sigaction without flags; the handler is called by traps of `stepped` alone.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut())
    };
    assert_eq!(result, 0, "sigaction");
}

/// Runs the program; before its instruction number `step` the event happens. Returns how many instructions there were
/// up to it, or in all if there are not so many.
fn stepped(emitter: &Emitter, seen: &mut Seen, step: usize, event: Event) -> u64 {
    let start = emitter.program.address();
    let code = start..start + u64::from(emitter.executable.text_bytes);
    let mut plan = Plan { code, event, emitter, seen };
    PLAN.store(&raw mut plan as usize, Ordering::Relaxed);
    STEPS_LEFT.store(step, Ordering::Relaxed);
    STEPS.store(0, Ordering::Relaxed);
    // SAFETY: as in `call`; the trap flag is set before and cleared behind, and the handler knows of both.
    unsafe {
        asm!(
            "pushfq",
            "or qword ptr [rsp], 0x100",
            "popfq",
            "call {code}",
            "pushfq",
            "and qword ptr [rsp], -0x101",
            "popfq",
            code = in(reg) start,
            clobber_abi("C"),
        );
    }
    STEPS.load(Ordering::Relaxed)
}

/// Records that were written, and of them read, before: at the beginning, near the end of a lap, in the second one,
/// and (the last two) full and full but for one.
const STATES: [(u32, u32); 6] = [(0, 0), (36, 30), (37, 37), (50, 20), (60, 0), (35, 0)];

/// One run on CPU 0, stopped before each of its instructions, for anything that can happen there.
#[test]
fn whatever_happens_at_an_instruction() {
    let _guard = alone();
    take_traps();
    let abi = SiteAbi { cpus: 2, ..fake_abi(has_bmi2()) };
    let mut stops = 0;
    // 36 records of 112 bytes to a lap, and 64 bytes are left; or 60 or so of 64 bytes in the middle.
    for (form, event) in
        [Form::Reserved(88), Form::Copied].into_iter().flat_map(|form| EVENTS.map(|event| (form, event)))
    {
        let empty = Emitter::new(&abi, 4096, form);
        for (written, read) in STATES {
            for step in 0.. {
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
                stops += 1;
            }
        }
    }
    println!("{stops} stops");
    assert!(stops > 72 * 40, "{stops} stops: fewer than a reservation has instructions");
}

/// The same in a child, which ends there.
fn killed(emitter: &Emitter, seen: &mut Seen, step: usize) -> u64 {
    // SAFETY: the child runs the program and ends, whatever other threads hold.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => match waitpid(child, None).expect("our child") {
            nix::sys::wait::WaitStatus::Exited(_, 0) => step as u64,
            nix::sys::wait::WaitStatus::Exited(_, 1) => 0,
            status => panic!("{status:?}"),
        },
        ForkResult::Child => {
            stepped(emitter, seen, step, Event::Killed);
            // SAFETY: as above.
            unsafe { libc::_exit(1) }
        }
    }
}

static CODE: AtomicU64 = AtomicU64::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    call(CODE.load(Ordering::Relaxed));
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// A child that does `body` and ends.
fn child(body: impl FnOnce()) -> Pid {
    // SAFETY: the child calls generated code, and what glibc prepares for a fork.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // SAFETY: takes numbers alone.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            body();
            // SAFETY: ends the process at once: no destructor of the parent's objects may run here.
            unsafe { libc::_exit(0) }
        }
    }
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
        let emitter = Emitter::new(&rseq_abi(has_bmi2()), ring_bytes, form);
        let code = emitter.program.address();
        CODE.store(code, Ordering::Relaxed);
        SIGNALS.store(0, Ordering::Relaxed);
        let mut seen = Seen::new(&emitter);
        let mut calls = 0;
        let end = Instant::now() + Duration::from_millis(800);
        std::thread::scope(|scope| {
            let thread = |forks: u32| {
                let mut calls = 0;
                let _alarm = Alarm::every(Duration::from_micros(500));
                for _ in 0..forks {
                    let pid = child(|| (0..1000).for_each(|_| call(code)));
                    waitpid(pid, None).expect("our child");
                    calls += 1000;
                }
                while Instant::now() < end {
                    (0..1000).for_each(|_| call(code));
                    calls += 1000;
                }
                calls
            };
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || thread(3 * n))).collect();
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
        let emitter = Emitter::new(&rseq_abi(has_bmi2()), 1 << 16, form);
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

/// Of all rings together, the reader gives least times first, as far as it can know.
#[test]
fn records_of_several_cpus_come_by_time() {
    let _guard = alone();
    let abi = SiteAbi { cpus: 3, ..fake_abi(has_bmi2()) };
    let emitter = Emitter::new(&abi, 1 << 16, Form::Reserved(24));
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

/// How a program that only records does it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It reserves, and stores integers.
    Reserved,
    /// It stores them on its stack, and has them copied.
    Copied,
    /// The same, with their number in a map.
    CopiedOfSize,
}

/// A program that only records so many bytes.
fn recorder(flags: u32, size: u32, way: Way) -> (Object, VerifiedProgram) {
    let stores = |to: &str| -> String {
        (0..size).step_by(8).map(|at| format!("*(u64 *)({to} + {at}) = r6\n")).collect()
    };
    let record = match way {
        Way::Reserved => format!(
            "r1 = map[@ring] ll
r2 = {size}
r3 = 0
call ringbuf_reserve
if r0 == 0 goto out
{}r1 = r0
r2 = 0
call ringbuf_submit",
            stores("r0")
        ),
        Way::Copied | Way::CopiedOfSize => format!(
            "r2 = r10
r2 += -{size}
{}{}
r1 = map[@ring] ll
r4 = 0
call ringbuf_output",
            stores("r2"),
            match way {
                Way::CopiedOfSize =>
                    format!("r1 = map[@size][0] ll\nr3 = *(u64 *)(r1 + 0)\nif r3 > {size} goto out"),
                _ => format!("r3 = {size}"),
            }
        ),
    };
    only(&format!(
        "map @ring ringbuf key 0 value 0 entries 1048576 flags {flags:#x}
map @size array key 4 value 8 entries 1
program \"record\" probe
r6 = 7
{record}
out:
r0 = 0
exit
"
    ))
}

/// Batches that are measured, and records of each.
const BATCHES: usize = 100;
const RECORDS: u64 = 4096;

/// Nanoseconds of one run, in the best of many batches and in the middle one. Threads that share the barrier begin theirs
/// together, and `read` comes when all are done.
fn ns_per_record(code: u64, barrier: &Barrier, read: impl Fn()) -> [f64; 2] {
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        barrier.wait();
        batches.push(ns_per_call(code, RECORDS));
        if barrier.wait().is_leader() {
            read();
        }
    }
    batches.sort_by(f64::total_cmp);
    [batches[0], batches[BATCHES / 2]]
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
                assert_eq!(counters.read, (BATCHES * threads) as u64 * RECORDS);
            }
        }
    }
}
