//! Programs that record, and what tests of rings do with them: stop one at an instruction, fork, measure.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::arch::asm;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use weir_ebpf::{MapSpec, Object};
use weir_jit::Flags;
use weir_rt::executable::{Executable, SiteAbi};
use weir_rt::local::LocalProgram;
use weir_rt::segment::{Record, Segment, Snapshot};
use weir_verifier::VerifiedProgram;

use crate::engines::{self, only};
use crate::fake::{interrupt_section, set_fake_cpu};
use crate::signals::{call, ns_per_call};

/// The flags of a map with a ring for each CPU, and of one that overwrites.
pub(crate) const DISCARDING: u32 = 0x8000_0000;
pub(crate) const OVERWRITING: u32 = 0x8008_0000;

/// How a record comes into the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// So many bytes are reserved, and filled: the number, zeros, its complement.
    Reserved(u32),
    /// 16 to 72 bytes, as many as the number says, are copied: the number, and complements.
    Copied,
}

/// A program that takes the next number and puts it into a record.
pub(crate) fn emitter(flags: u32, ring_bytes: u32, form: Form) -> (Object, VerifiedProgram) {
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
map @ring ringbuf key 0 value 0 entries {ring_bytes} flags {flags:#x}
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
pub(crate) struct Emitter {
    pub(crate) executable: Executable,
    pub(crate) maps: Vec<MapSpec>,
    pub(crate) cpus: u32,
    pub(crate) form: Form,
    pub(crate) program: LocalProgram,
    pub(crate) segment: Segment,
}

impl Emitter {
    pub(crate) fn new(abi: &SiteAbi, flags: u32, ring_bytes: u32, form: Form) -> Emitter {
        let (object, program) = emitter(flags, ring_bytes, form);
        Emitter::on(engines::compiled(&program, abi, Flags::default()), object.maps, abi.cpus, form)
    }

    pub(crate) fn on(executable: Executable, maps: Vec<MapSpec>, cpus: u32, form: Form) -> Emitter {
        let segment = engines::segment(&maps, cpus);
        let program = LocalProgram::load(&executable, &segment).expect("code fits");
        Emitter { executable, maps, cpus, form, program, segment }
    }

    /// The same with empty maps.
    pub(crate) fn anew(&self) -> Emitter {
        Emitter::on(self.executable.clone(), self.maps.clone(), self.cpus, self.form)
    }

    pub(crate) fn run(&self) {
        call(self.program.address());
    }

    /// Numbers that were taken.
    pub(crate) fn emitted(&self) -> u64 {
        let value = self.segment.map(0).lookup(&0u32.to_le_bytes()).expect("an entry");
        u64::from_le_bytes(value.try_into().expect("8 bytes"))
    }

    pub(crate) fn rings(&self) -> usize {
        if self.maps[1].overwrites() { self.segment.flight(1).rings() } else { self.segment.ring(1).rings() }
    }
}

/// What was read of an emitter's records: each checked, and each number once.
pub(crate) struct Seen {
    pub(crate) numbers: BTreeSet<u64>,
    /// The last time of each ring.
    ticks: Vec<u64>,
    form: Form,
}

impl Seen {
    pub(crate) fn new(emitter: &Emitter) -> Seen {
        Seen { numbers: BTreeSet::new(), ticks: vec![0; emitter.rings()], form: emitter.form }
    }

    pub(crate) fn add(&mut self, lane: usize, record: &Record) {
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

    /// Everything that is submitted, ring by ring; a few records at once, and one by one.
    pub(crate) fn read(&mut self, emitter: &Emitter) {
        for lane in 0..emitter.rings() {
            let mut ring = emitter.segment.ring(1).lane(lane);
            let mut is_more = true;
            while is_more {
                let most = self.numbers.len() % 7;
                let taken = ring.each(most, |bytes, ticks| {
                    self.add(lane, &Record { bytes: bytes.to_vec(), ticks });
                });
                assert!(taken <= most);
                let next = ring.next();
                is_more = next.is_some();
                next.iter().for_each(|record| self.add(lane, record));
            }
        }
    }

    pub(crate) fn drain_dead(&mut self, emitter: &Emitter) {
        for lane in 0..emitter.rings() {
            for record in emitter.segment.ring(1).lane(lane).drain_dead() {
                self.add(lane, &record);
            }
        }
    }

    /// Recorded and discarded are what was emitted.
    pub(crate) fn check(&self, emitter: &Emitter) {
        let counters = emitter.segment.ring(1).counters();
        let recorded = self.numbers.len() as u64;
        assert_eq!((counters.read, counters.uncommitted, counters.corrupt), (recorded, 0, 0));
        assert_eq!(recorded + counters.dropped, emitter.emitted(), "{counters:?}");
    }
}

/// What a look at rings that overwrite finds in all of them together.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) numbers: BTreeSet<u64>,
    pub(crate) overwritten: u64,
    pub(crate) dropped: u64,
    pub(crate) uncommitted: u64,
}

impl Look {
    /// Every record is checked.
    pub(crate) fn at(emitter: &Emitter) -> Look {
        let mut seen = Seen::new(emitter);
        let mut look = Look::default();
        for lane in 0..emitter.rings() {
            let Snapshot { records, overwritten, dropped, uncommitted, corrupt } =
                emitter.segment.flight(1).lane(lane);
            assert_eq!(corrupt, 0, "ring {lane}");
            records.iter().for_each(|record| seen.add(lane, record));
            look.overwritten += overwritten;
            look.dropped += dropped;
            look.uncommitted += uncommitted;
        }
        look.numbers = seen.numbers;
        look
    }

    pub(crate) fn accounted(&self) -> u64 {
        self.numbers.len() as u64 + self.overwritten + self.dropped + self.uncommitted
    }

    /// All that was emitted is there, or known to be gone, but for so many runs that have taken their number alone.
    pub(crate) fn check(&self, emitter: &Emitter, under_way: u64) {
        let (accounted, emitted) = (self.accounted(), emitter.emitted());
        assert!(accounted <= emitted && emitted - accounted <= under_way, "{emitted} emitted: {self:?}");
    }
}

/// Takes signals and fakes CPUs: one test at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sizes around every boundary of what code does by itself, and records that fill a ring.
pub(crate) const SIZES: [u32; 15] = [1, 7, 8, 9, 16, 17, 24, 100, 128, 129, 136, 1000, 2000, 4072, 4080];

/// Programs that record: r0 says whether there was room. One for each size, that keeps, discards, or copies; and those that
/// copy as many bytes as the first argument says, up to 15, 255 and a ring's.
pub(crate) fn recorders(flags: u32) -> Object {
    let mut text = format!(
        "map @ring ringbuf key 0 value 0 entries 4096 flags {flags:#x}\nmap @bytes array key 4 value 4200 entries 1\n"
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

/// What happens at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
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

pub(crate) const EVENTS: [Event; 6] =
    [Event::Nested(1), Event::Nested(100), Event::Moved, Event::MovedAndFollowed, Event::Read, Event::Killed];

/// What the handler of the trap flag does, and where.
pub(crate) struct Plan<'a> {
    code: std::ops::Range<u64>,
    event: Event,
    emitter: &'a Emitter,
    seen: &'a mut Seen,
}

pub(crate) static PLAN: AtomicUsize = AtomicUsize::new(0);
pub(crate) static STEPS_LEFT: AtomicUsize = AtomicUsize::new(0);
pub(crate) static STEPS: AtomicU64 = AtomicU64::new(0);

pub(crate) const TRAP_FLAG: i64 = 0x100;

pub(crate) extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
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
        Event::Read if plan.emitter.maps[1].overwrites() => {
            let look = Look::at(plan.emitter);
            look.check(plan.emitter, 1);
        }
        Event::Read => plan.seen.read(plan.emitter),
        // SAFETY: ends the process at once, as a signal would.
        Event::Killed => unsafe { libc::_exit(0) },
    }
}

pub(crate) fn take_traps() {
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
pub(crate) fn stepped(emitter: &Emitter, seen: &mut Seen, step: usize, event: Event) -> u64 {
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

/// The same in a child, which ends there.
pub(crate) fn killed(emitter: &Emitter, seen: &mut Seen, step: usize) -> u64 {
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

pub(crate) static CODE: AtomicU64 = AtomicU64::new(0);
pub(crate) static SIGNALS: AtomicU64 = AtomicU64::new(0);

pub(crate) extern "C" fn on_alarm(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    call(CODE.load(Ordering::Relaxed));
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// From one instruction before which a run is stopped to the next: each where `WEIR_STOPS` is set, else one of some.
pub(crate) fn stride() -> usize {
    if std::env::var_os("WEIR_STOPS").is_some() { 1 } else { 8 }
}

/// Before which instructions a run is stopped, in test case `case`: each case begins with another one, so that all cases
/// together have each.
pub(crate) fn stops(case: usize) -> impl Iterator<Item = usize> {
    (case % stride()..).step_by(stride())
}

/// A child that does `body` and ends.
pub(crate) fn child(body: impl FnOnce()) -> Pid {
    // fork(2) starts over at each signal: on a busy machine it would never end under a timer that is faster than it.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).expect("signals are blocked");
    // SAFETY: the child calls generated code, and what glibc prepares for a fork.
    let forked = unsafe { fork() }.expect("fork");
    signals.thread_set_mask().expect("signals are let through");
    match forked {
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

/// How a program that only records does it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It reserves, and stores integers.
    Reserved,
    /// It stores them on its stack, and has them copied.
    Copied,
    /// The same, with their number in a map.
    CopiedOfSize,
}

/// A program that only records so many bytes.
pub(crate) fn recorder(flags: u32, size: u32, way: Way) -> (Object, VerifiedProgram) {
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

/// Batches that are measured.
pub(crate) fn batches() -> usize {
    testkit::measure::rounds(100)
}

/// Records of each.
pub(crate) const RECORDS: u64 = 4096;

/// Nanoseconds of one run, in the best of many batches and in the middle one. Threads that share the barrier begin theirs
/// together, and `read` comes when all are done.
pub(crate) fn ns_per_record(code: u64, barrier: &Barrier, read: impl Fn()) -> [f64; 2] {
    let mut times = Vec::new();
    for _ in 0..batches() {
        barrier.wait();
        times.push(ns_per_call(code, RECORDS));
        if barrier.wait().is_leader() {
            read();
        }
    }
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
}
