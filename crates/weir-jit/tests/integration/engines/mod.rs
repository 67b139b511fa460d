//! Runs a program of an object in the JIT and in the interpreter, each on maps of its own.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::OnceLock;

use weir_ebpf::{Insn, MapSpec, Object, Program, ProgramKind, pt_regs};
use weir_jit::{Flags, compile_with};
use weir_rt::executable::{CpuSource, Executable, Frame, LanePolicy, SiteAbi, TidSource};
use weir_rt::local::{LocalProgram, possible_cpus};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram, verify};

unsafe extern "C" {
    /// Offset of this thread's `struct rseq` from the thread pointer (glibc 2.35).
    static __rseq_offset: isize;
}

/// The word before each abort handler (glibc's RSEQ_SIG for x86).
pub(crate) const SIGNATURE: u32 = 0x5305_3053;

/// Entries of every map: keys and values.
pub(crate) type Contents = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

/// What a run leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) r0: u64,
    pub(crate) maps: Contents,
}

/// A site in this process on the shared lane.
pub(crate) fn shared_abi(bmi2: bool) -> SiteAbi {
    SiteAbi {
        pid: std::process::id(),
        tid: TidSource::Syscall,
        lanes: LanePolicy::Shared,
        cpus: cpus(),
        bmi2,
        reads_ticks: true,
    }
}

/// A site in this process with rseq.
pub(crate) fn rseq_abi(bmi2: bool) -> SiteAbi {
    let lanes = LanePolicy::Rseq { offset: rseq_offset(), signature: SIGNATURE };
    SiteAbi { lanes, ..shared_abi(bmi2) }
}

/// A site in this process whose runs claim lanes.
pub(crate) fn claimed_abi(bmi2: bool) -> SiteAbi {
    SiteAbi { lanes: rseq_abi(bmi2).lanes.claimed(), ..shared_abi(bmi2) }
}

/// The sites that can run the program: if it needs a lane, those where runs claim one.
pub(crate) fn abis_for(program: &VerifiedProgram) -> Vec<SiteAbi> {
    let by_selector =
        SiteAbi { lanes: LanePolicy::Claimed { cpu: CpuSource::Selector }, ..shared_abi(false) };
    let mut abis = vec![claimed_abi(false), by_selector];
    if has_bmi2() {
        abis.push(claimed_abi(true));
    }
    if !program.needs_lane() {
        abis.extend(self::abis());
    }
    abis
}

/// The sites that code differs for, but for claimed lanes.
pub(crate) fn abis() -> Vec<SiteAbi> {
    let mut abis = vec![shared_abi(false), rseq_abi(false)];
    if has_bmi2() {
        abis.extend([shared_abi(true), rseq_abi(true)]);
    }
    abis
}

/// Where a thread of this process finds its id, from its thread pointer.
pub(crate) fn tid_offset() -> i32 {
    let tid = nix::unistd::gettid().as_raw() as u32;
    let found = (0x200..0x400).step_by(4).find(|offset| {
        let word: u32;
        // SAFETY: struct pthread is longer than this, and stands where fs points to.
        unsafe {
            std::arch::asm!("mov {:e}, fs:[{}]", out(reg) word, in(reg) *offset as u64, options(readonly))
        };
        word == tid
    });
    found.expect("the thread's id is in its control block")
}

pub(crate) fn has_bmi2() -> bool {
    std::arch::is_x86_feature_detected!("bmi2")
}

pub(crate) fn rseq_offset() -> i32 {
    // SAFETY: glibc writes this variable before main and never again.
    i32::try_from(unsafe { __rseq_offset }).expect("rseq lies near the thread pointer")
}

/// CPUs that may run a thread: lanes are made for all that could be.
pub(crate) fn cpus() -> u32 {
    static CPUS: OnceLock<u32> = OnceLock::new();
    *CPUS.get_or_init(possible_cpus)
}

pub(crate) fn segment(maps: &[MapSpec], cpus: u32) -> Segment {
    let layout = SegmentLayout::plan(maps, cpus).expect("maps fit");
    Segment::create_local(layout, &Identity::default()).expect("memfd")
}

/// A segment with the lanes that such a site is for.
pub(crate) fn segment_for(maps: &[MapSpec], abi: &SiteAbi) -> Segment {
    if !matches!(abi.lanes, LanePolicy::Claimed { .. }) {
        return segment(maps, abi.cpus);
    }
    let layout = SegmentLayout::plan_claimable(maps, abi.cpus).expect("maps fit");
    Segment::create_local(layout, &Identity::default()).expect("memfd")
}

pub(crate) fn verified(program: &Program, maps: &[MapSpec]) -> VerifiedProgram {
    verify(program, maps, &Limits::default())
        .unwrap_or_else(|rejection| panic!("{}: {rejection}", program.name))
}

/// The object's only program.
pub(crate) fn only(text: &str) -> (Object, VerifiedProgram) {
    let object = weir_ebpf::asm::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = verified(&object.programs[0], &object.maps);
    (object, program)
}

/// A program without maps.
pub(crate) fn program(insns: Vec<Insn>) -> Program {
    Program { name: "test".into(), kind: ProgramKind::Probe, insns }
}

pub(crate) fn compiled(program: &VerifiedProgram, abi: &SiteAbi, flags: Flags) -> Executable {
    compile_with(program, abi, flags).unwrap_or_else(|error| panic!("{}: {error}", program.name()))
}

pub(crate) fn run_jit(program: &VerifiedProgram, abi: &SiteAbi, flags: Flags, frame: Frame) -> Outcome {
    run_jit_holding(program, abi, flags, frame, &[])
}

/// A map of a map: map, key, held map.
pub(crate) type Held = (usize, u32, usize);

fn hold(segment: &Segment, held: &[Held]) {
    for (map, key, held) in held {
        let held = (*held as u32).to_le_bytes();
        segment.map(*map).update(&key.to_le_bytes(), &held, 0).expect("it may be held");
    }
}

/// [`run_jit`] with maps in maps.
pub(crate) fn run_jit_holding(
    program: &VerifiedProgram,
    abi: &SiteAbi,
    flags: Flags,
    frame: Frame,
    held: &[Held],
) -> Outcome {
    let segment = segment_for(program.maps(), abi);
    hold(&segment, held);
    let executable = compiled(program, abi, flags);
    let local = LocalProgram::load(&executable, &segment).expect("code fits");
    let r0 = local.run(&mut frame.clone());
    assert_eq!(segment.claimed_lanes(), 0, "{}: a lane was not given back", program.name());
    Outcome { r0, maps: contents(&segment) }
}

pub(crate) fn run_interpreter(program: &VerifiedProgram, frame: Frame) -> Outcome {
    run_interpreter_holding(program, frame, &[])
}

/// [`run_interpreter`] with maps in maps.
pub(crate) fn run_interpreter_holding(program: &VerifiedProgram, frame: Frame, held: &[Held]) -> Outcome {
    let abi = if program.needs_lane() { claimed_abi(false) } else { shared_abi(false) };
    let segment = segment_for(program.maps(), &abi);
    hold(&segment, held);
    let environment = weir_interp::Environment { segment: &segment };
    let r0 = weir_interp::run(program, &environment, &mut frame.clone())
        .unwrap_or_else(|fault| panic!("{}: {fault}", program.name()));
    let outcome = Outcome { r0, maps: contents(&segment) };
    if let Some(threaded) = run_threaded_holding(program, frame, held) {
        assert_eq!(threaded, outcome, "{}: the threaded interpreter and the checking one", program.name());
    }
    outcome
}

/// None if the threaded interpreter has not all of the program's instructions.
pub(crate) fn run_threaded(program: &VerifiedProgram, frame: Frame) -> Option<Outcome> {
    run_threaded_holding(program, frame, &[])
}

fn run_threaded_holding(program: &VerifiedProgram, frame: Frame, held: &[Held]) -> Option<Outcome> {
    let segment = segment(program.maps(), cpus());
    hold(&segment, held);
    let r0 = weir_interp::threaded::Threaded::of(program, &segment)?.run(&mut frame.clone());
    Some(Outcome { r0, maps: contents(&segment) })
}

/// Rings are left out: their records hold times and places.
pub(crate) fn contents(segment: &Segment) -> Contents {
    (0..segment.layout().maps.len()).map(|index| segment.map(index).entries()).collect()
}

/// Slot of a field of the context by its name, 21 for the cookie.
pub(crate) fn slot(name: &str) -> Option<usize> {
    const NAMES: [&str; pt_regs::SLOTS as usize] = [
        "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di",
        "orig_ax", "ip", "cs", "flags", "sp", "ss",
    ];
    NAMES.iter().position(|known| *known == name)
}

/// Hexadecimal or decimal.
pub(crate) fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Numbers at the edges of every width.
pub(crate) const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x8000_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_ff80,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
    0x1234_5678_9abc_def0,
];

/// SplitMix64: the tests' only source of chance.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// An edge, or anything.
    pub(crate) fn value(&mut self) -> u64 {
        if self.below(2) == 0 { self.pick(EDGES) } else { self.next() >> self.below(64) }
    }
}
