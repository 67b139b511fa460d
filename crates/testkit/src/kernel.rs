//! Loads an object into the running kernel, whose verifier is the second opinion on what weir emits.
//!
//! In: an [`Object`]. Out: its maps and programs in the kernel (weir-kernel makes the calls), or the kernel's refusal with its log. Programs are loaded as the
//! type of their kind (BPF_PROG_TYPE_KPROBE for probes). Nothing is attached: what is loaded goes when the descriptors are closed.
//!
//! [`load_filter`] loads as BPF_PROG_TYPE_SOCKET_FILTER instead, which is the plainest type that BPF_PROG_TEST_RUN
//! takes: such programs can be run ([`Loaded::repeat`]) on a packet of zeros. [`run`] does so once; [`run_tracing`]
//! runs as BPF_PROG_TYPE_RAW_TRACEPOINT, which may call what probes call, with a context of zeros, in this thread.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use nix::libc;
use weir_ebpf::elf::ObjectFile;
use weir_ebpf::insn::{class, jmp};
use weir_ebpf::{Insn, MapKind, MapSpec, Object, Program, ProgramKind};
use weir_kernel::{Input, KernelError, Maps, ProgType, Ran};

use crate::alarm::{self, Alarm};

/// What the kernel holds for us.
#[derive(Debug)]
pub struct Loaded {
    /// In the order of the object's; so the programs.
    pub maps: Maps,
    pub programs: Vec<weir_kernel::Loaded>,
}

impl Loaded {
    /// Runs a program `times` times on a packet of zeros, in one call. Only what [`load_filter`] loaded can be run.
    pub fn repeat(&self, program: usize, times: u32) -> Result<Ran, KernelError> {
        self.programs[program].run(Input { bytes: &[0; PACKET_BYTES], ..Input::default() }, times)
    }
}

/// What a run left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The lower half of r0: the kernel gives no more. What is wider goes through a map.
    pub r0: u32,
    /// The first value of each array that has one for all CPUs; nothing of other maps.
    pub values: Vec<Vec<u8>>,
}

/// Runs the object's first program once, in the kernel. Those of its maps that are arrays have the first values
/// `values` before; others are empty.
pub fn run(object: &Object, values: &[Vec<u8>]) -> Result<Run, KernelError> {
    run_on_packet(ProgType::SocketFilter, object, values)
}

/// As [`run`], for a program of a kind that has more helpers: BPF_PROG_TYPE_SCHED_CLS.
pub fn run_classifier(object: &Object, values: &[Vec<u8>]) -> Result<Run, KernelError> {
    run_on_packet(ProgType::SchedCls, object, values)
}

/// As [`run`], with maps in maps: map, key, held map.
pub fn run_holding(object: &Object, held: &[(usize, u32, usize)]) -> Result<Run, KernelError> {
    run_as(ProgType::SocketFilter, object, &[], |loaded| {
        let mut held = held.iter();
        held.try_for_each(|(map, key, held)| loaded.maps.hold(*map, &key.to_le_bytes(), *held))?;
        Ok(loaded.repeat(0, 1)?.r0 as u32)
    })
}

fn run_on_packet(prog_type: ProgType, object: &Object, values: &[Vec<u8>]) -> Result<Run, KernelError> {
    run_as(prog_type, object, values, |loaded| Ok(loaded.repeat(0, 1)?.r0 as u32))
}

/// Runs the object's first program once, in the kernel and in this thread, as [`run`] does. Maps that are no arrays
/// have no values.
pub fn run_tracing(object: &Object, values: &[Vec<u8>]) -> Result<Run, KernelError> {
    run_tracing_at(object, values, 0)
}

/// [`run_tracing`], in a thread whose frame pointer is `frame` meanwhile: what unwinding its stack begins at.
pub fn run_tracing_at(object: &Object, values: &[Vec<u8>], frame: u64) -> Result<Run, KernelError> {
    run_as(ProgType::RawTracepoint, object, values, |loaded| {
        let context = [0u8; PACKET_BYTES];
        let mut attributes = TestRun {
            prog_fd: loaded.programs[0].as_fd().as_raw_fd() as u32,
            ctx_size_in: PACKET_BYTES as u32,
            ctx_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        let name = object.programs[0].name.clone();
        test_run_at(&mut attributes, frame).map_err(|source| KernelError::Call {
            call: "BPF_PROG_TEST_RUN",
            name,
            source,
        })?;
        Ok(attributes.retval)
    })
}

fn run_as(
    prog_type: ProgType,
    object: &Object,
    values: &[Vec<u8>],
    once: impl FnOnce(&Loaded) -> Result<u32, KernelError>,
) -> Result<Run, KernelError> {
    let loaded = load_each(object, |_| Ok(prog_type))?;
    let arrays = |index: &usize| object.maps[*index].kind == MapKind::Array;
    for index in (0..object.maps.len().min(values.len())).filter(arrays) {
        loaded.maps.update(index, &[0; 4], &values[index])?;
    }
    let r0 = once(&loaded)?;
    let after = |index: usize| match arrays(&index) {
        true => Ok(loaded.maps.lookup(index, &[0; 4])?.unwrap_or_default()),
        false => Ok(Vec::new()),
    };
    Ok(Run { r0, values: (0..object.maps.len()).map(after).collect::<Result<_, KernelError>>()? })
}

/// Major and minor number of the running kernel, for tests of what came with one.
pub fn version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers =
        release.split(|char: char| !char.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Whether programs can be loaded here. Err: why not, for [`skip`](crate::skip::skip).
pub fn available() -> Result<(), String> {
    let zero = Insn { opcode: class::ALU64 | weir_ebpf::insn::alu::MOV, ..Insn::default() };
    let exit = Insn { opcode: class::JMP | jmp::EXIT, ..Insn::default() };
    let program = Program { name: "available".into(), kind: ProgramKind::Probe, insns: vec![zero, exit] };
    match load(&Object { maps: Vec::new(), programs: vec![program] }) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "{error} (needs CAP_BPF and CAP_PERFMON, or root, and a kernel with CONFIG_BPF_SYSCALL)"
        )),
    }
}

/// Makes the maps of `object` and loads its programs.
pub fn load(object: &Object) -> Result<Loaded, KernelError> {
    load_each(object, prog_type)
}

fn prog_type(kind: ProgramKind) -> Result<ProgType, KernelError> {
    match kind {
        ProgramKind::Probe | ProgramKind::Controller => Ok(ProgType::Kprobe),
        ProgramKind::Tracepoint => Ok(ProgType::Tracepoint),
        ProgramKind::SocketFilter => Ok(ProgType::SocketFilter),
        ProgramKind::Xdp => Ok(ProgType::Xdp),
        ProgramKind::Classifier => Ok(ProgType::SchedCls),
        ProgramKind::CgroupSkb => Ok(ProgType::CgroupSkb),
        ProgramKind::CgroupSock => Ok(ProgType::CgroupSock),
        ProgramKind::SkMsg => Ok(ProgType::SkMsg),
        ProgramKind::FlowDissector => Ok(ProgType::FlowDissector),
        ProgramKind::Tracing | ProgramKind::Memory { .. } => Err(KernelError::Kind { kind }),
    }
}

/// Maps in the kernel, for its verdicts on the programs that use them.
#[derive(Debug)]
pub struct Oracle(Maps);

impl Oracle {
    pub fn of(file: &ObjectFile) -> Result<Oracle, KernelError> {
        Maps::of(file).map(Oracle)
    }

    pub fn over(maps: &[MapSpec]) -> Result<Oracle, KernelError> {
        Maps::create(maps).map(Oracle)
    }

    /// Whether it loads the program as the type of its kind, or why not; none if it takes longer than `most`, when a
    /// signal ends its verifier.
    pub fn loads_within(&self, program: &Program, most: Duration) -> Option<Result<(), KernelError>> {
        let prog_type = prog_type(program.kind).expect("a kind that the kernel has");
        alarm::ignore_alarms();
        let _alarm = Alarm::every(most);
        match weir_kernel::load_as(program, &self.0, prog_type) {
            Err(KernelError::Refused { error, .. }) if error.raw_os_error() == Some(libc::EAGAIN) => None,
            result => Some(result.map(drop)),
        }
    }

    /// Whether it loads the program, or why not. None of kinds that it loads only for what they are attached to.
    pub fn verdict(&self, file: &ObjectFile, program: usize) -> Option<Result<(), String>> {
        let prog_type = match file.programs[program].section.split(['/', '.']).next()? {
            "raw_tp" | "raw_tracepoint" => ProgType::RawTracepoint,
            "tp" | "tracepoint" => ProgType::Tracepoint,
            "perf_event" => ProgType::PerfEvent,
            "socket" => ProgType::SocketFilter,
            "xdp" => ProgType::Xdp,
            "tc" | "tcx" | "classifier" => ProgType::SchedCls,
            "kprobe" | "kretprobe" | "uprobe" | "uretprobe" => ProgType::Kprobe,
            _ => return None,
        };
        let loaded = weir_kernel::load_as(&file.object.programs[program], &self.0, prog_type);
        Some(loaded.map(|_| ()).map_err(|error| error.to_string()))
    }
}

/// Loads one program of an object file, on maps with their first contents, which are frozen as libbpf does it.
pub fn load_one(file: &ObjectFile, program: usize) -> Result<weir_kernel::Loaded, KernelError> {
    let maps = Maps::of(file)?;
    let program = &file.object.programs[program];
    weir_kernel::load_as(program, &maps, ProgType::Kprobe)
}

/// As [`load`], as socket filters.
pub fn load_filter(object: &Object) -> Result<Loaded, KernelError> {
    load_each(object, |_| Ok(ProgType::SocketFilter))
}

fn load_each(
    object: &Object,
    type_of: impl Fn(ProgramKind) -> Result<ProgType, KernelError>,
) -> Result<Loaded, KernelError> {
    let maps = Maps::create(&object.maps)?;
    let load = |program: &Program| weir_kernel::load_as(program, &maps, type_of(program.kind)?);
    let programs = object.programs.iter().map(load).collect::<Result<_, _>>()?;
    Ok(Loaded { maps, programs })
}

/// Bytes of the packet of a run: an Ethernet header and a bit.
const PACKET_BYTES: usize = 64;

const BPF_PROG_TEST_RUN: libc::c_long = 10;

/// The start of `union bpf_attr` for BPF_PROG_TEST_RUN.
#[derive(Default)]
#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

/// BPF_PROG_TEST_RUN with `frame` in rbp.
#[cfg(not(target_arch = "x86_64"))]
fn test_run_at(_: &mut TestRun, _: u64) -> io::Result<()> {
    Err(io::Error::other("a frame pointer is set on x86-64 alone"))
}

/// BPF_PROG_TEST_RUN with `frame` in rbp.
#[cfg(target_arch = "x86_64")]
fn test_run_at(attributes: &mut TestRun, frame: u64) -> io::Result<()> {
    let result: i64;
    // SAFETY: the kernel reads `size_of::<TestRun>()` bytes of the attributes, and the context that they name, which lives over the call; rbp is restored before anything uses it, and the kernel checks whatever it reads there.
    unsafe {
        std::arch::asm!(
            "push rbp",
            "mov rbp, {frame}",
            "syscall",
            "pop rbp",
            frame = in(reg) frame,
            inlateout("rax") libc::SYS_bpf => result,
            in("rdi") BPF_PROG_TEST_RUN,
            in("rsi") attributes as *mut TestRun,
            in("rdx") size_of::<TestRun>(),
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip;

    const MAPS: &str = "map @hash hash key 8 value 16 entries 64
        map @array array key 4 value 16 entries 1
        map @percpu percpu_hash key 8 value 8 entries 64
        map @lanes percpu_array key 4 value 16 entries 2
        map @ring ringbuf key 0 value 0 entries 4096\n";

    fn try_load(text: &str) -> Option<Result<Loaded, KernelError>> {
        if let Err(reason) = available() {
            skip::skip("testkit::kernel", reason);
            return None;
        }
        let text = format!("{MAPS}program \"p\" probe\n{}", text.replace(';', "\n"));
        Some(load(&weir_ebpf::asm::parse(&text).expect("is assembly text")))
    }

    #[test]
    fn programs_with_every_kind_of_map_load() {
        let every_map = "r1 = map[@hash] ll; r1 = map[@percpu] ll; r1 = map[@lanes] ll; r1 = map[@ring] ll
            r1 = map[@array][0] + 0x8 ll; r2 = 1; lock *(u64 *)(r1 + 0) += r2; r0 = 0; exit";
        let Some(result) = try_load(every_map) else { return };
        let loaded = result.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.programs.len(), 1);
    }

    #[test]
    fn a_run_changes_values_and_returns() {
        if let Err(reason) = available() {
            return skip::skip("testkit::kernel", reason);
        }
        let text = "map @a array key 4 value 16 entries 1\nprogram \"p\" probe\nr1 = map[@a][0] ll
            r2 = *(u64 *)(r1 + 0)\n*(u64 *)(r1 + 8) = r2\nr0 = 7\nexit";
        let object = weir_ebpf::asm::parse(text).expect("is assembly text");
        let before = [5u64.to_le_bytes(), [0; 8]].concat();
        let run = run(&object, &[before]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(run, Run { r0: 7, values: vec![[5u64.to_le_bytes(); 2].concat()] });
    }

    #[test]
    fn a_refusal_has_the_log() {
        let Some(result) = try_load("r0 = *(u64 *)(r10 + 0); exit") else { return };
        let error = result.expect_err("reads outside the stack").to_string();
        assert!(error.contains("invalid") && error.contains("r10"), "{error}");
    }
}
