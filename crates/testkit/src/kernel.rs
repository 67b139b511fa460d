//! Loads an object into the running kernel, whose verifier is the second opinion on what weir emits.
//!
//! In: an [`Object`]. Out: descriptors of its maps and programs, or the kernel's refusal with its log. Every map is
//! made with the same kind and sizes; programs are loaded as the type of their kind (BPF_PROG_TYPE_KPROBE for probes)
//! under the licence GPL. Nothing is attached: what is loaded goes when the descriptors are closed.
//!
//! [`load_filter`] loads as BPF_PROG_TYPE_SOCKET_FILTER instead, which is the plainest type that BPF_PROG_TEST_RUN
//! takes: such programs can be run ([`Loaded::repeat`]) on a packet of zeros. [`run`] does so once; [`run_tracing`]
//! runs as BPF_PROG_TYPE_RAW_TRACEPOINT, which may call what probes call, with a context of zeros, in this thread.
//!
//! Interface: bpf(2), Linux include/uapi/linux/bpf.h.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::libc;
use weir_ebpf::btf::Described;
use weir_ebpf::insn::{class, jmp, pseudo};
use weir_ebpf::{Insn, MapKind, MapSpec, Object, Program, ProgramKind};

/// What the kernel holds for us.
#[derive(Debug)]
pub struct Loaded {
    /// In the order of the object's.
    pub maps: Vec<OwnedFd>,
    pub programs: Vec<OwnedFd>,
}

impl Loaded {
    /// Runs a program `times` times on a packet of zeros, in one call. Only what [`load_filter`] loaded can be run.
    pub fn repeat(&self, program: usize, times: u32) -> io::Result<Repeated> {
        let packet = [0u8; PACKET_BYTES];
        let mut attributes = TestRun {
            prog_fd: self.programs[program].as_raw_fd() as u32,
            data_size_in: PACKET_BYTES as u32,
            data_in: packet.as_ptr() as u64,
            repeat: times,
            ..TestRun::default()
        };
        command(BPF_PROG_TEST_RUN, &mut attributes)?;
        Ok(Repeated { r0: attributes.retval, ns: attributes.duration })
    }

    /// Reads the value of a key. The lengths must be those of the map.
    pub fn lookup(&self, map: usize, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        let mut attributes = Element {
            map_fd: self.maps[map].as_raw_fd() as u32,
            padding: 0,
            key: key.as_ptr() as u64,
            value: value.as_mut_ptr() as u64,
            flags: 0,
        };
        command(BPF_MAP_LOOKUP_ELEM, &mut attributes)
    }

    /// Sets the value of a key. The lengths must be those of the map.
    pub fn update(&self, map: usize, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut attributes = Element {
            map_fd: self.maps[map].as_raw_fd() as u32,
            padding: 0,
            key: key.as_ptr() as u64,
            value: value.as_ptr() as u64,
            flags: 0,
        };
        command(BPF_MAP_UPDATE_ELEM, &mut attributes)
    }
}

/// What repeated runs came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeated {
    /// The lower half of the last run's r0.
    pub r0: u32,
    /// Nanoseconds of one run, by the kernel's clock, rounded down.
    pub ns: u32,
}

/// Why an object is not in the kernel.
#[derive(Debug)]
pub enum LoadError {
    /// A map could not be made.
    Map { name: String, source: io::Error },
    /// The verifier, or a check before it, refused a program.
    Program { name: String, source: io::Error, log: String },
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Map { name, source } => write!(f, "bpf(BPF_MAP_CREATE) for {name}: {source}"),
            LoadError::Program { name, source, log } => {
                write!(f, "bpf(BPF_PROG_LOAD) for {name}: {source}; the verifier's log:\n{log}")
            }
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Map { source, .. } | LoadError::Program { source, .. } => Some(source),
        }
    }
}

/// Why a run has no result.
#[derive(Debug)]
pub enum RunError {
    Load(LoadError),
    /// A map's value could not be set or read, or the run itself failed.
    Run {
        what: &'static str,
        source: io::Error,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Load(error) => error.fmt(f),
            RunError::Run { what, source } => write!(f, "bpf({what}): {source}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Load(error) => Some(error),
            RunError::Run { source, .. } => Some(source),
        }
    }
}

/// What a run left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The lower half of r0: the kernel gives no more. What is wider goes through a map.
    pub r0: u32,
    /// The first value of each array (of a per-CPU one, of every possible CPU, each rounded up to 8 bytes); nothing of
    /// other maps.
    pub values: Vec<Vec<u8>>,
}

/// Runs the object's first program once, in the kernel. Those of its maps that are arrays have the first values
/// `values` before; others are empty.
pub fn run(object: &Object, values: &[Vec<u8>]) -> Result<Run, RunError> {
    run_on_packet(BPF_PROG_TYPE_SOCKET_FILTER, object, values)
}

/// As [`run`], for a program of a kind that has more helpers: BPF_PROG_TYPE_SCHED_CLS.
pub fn run_classifier(object: &Object, values: &[Vec<u8>]) -> Result<Run, RunError> {
    run_on_packet(BPF_PROG_TYPE_SCHED_CLS, object, values)
}

/// As [`run`], with maps in maps: map, key, held map.
pub fn run_holding(object: &Object, held: &[(usize, u32, usize)]) -> Result<Run, RunError> {
    run_as(BPF_PROG_TYPE_SOCKET_FILTER, object, &[], |loaded| {
        for (map, key, held) in held {
            let held = loaded.maps[*held].as_raw_fd().to_le_bytes();
            loaded.update(*map, &key.to_le_bytes(), &held)?;
        }
        Ok(loaded.repeat(0, 1)?.r0)
    })
}

fn run_on_packet(prog_type: u32, object: &Object, values: &[Vec<u8>]) -> Result<Run, RunError> {
    run_as(prog_type, object, values, |loaded| Ok(loaded.repeat(0, 1)?.r0))
}

/// Runs the object's first program once, in the kernel and in this thread, as [`run`] does. Maps that are no arrays
/// have no values.
pub fn run_tracing(object: &Object, values: &[Vec<u8>]) -> Result<Run, RunError> {
    run_tracing_at(object, values, 0)
}

/// [`run_tracing`], in a thread whose frame pointer is `frame` meanwhile: what unwinding its stack begins at.
pub fn run_tracing_at(object: &Object, values: &[Vec<u8>], frame: u64) -> Result<Run, RunError> {
    run_as(BPF_PROG_TYPE_RAW_TRACEPOINT, object, values, |loaded| {
        let context = [0u8; PACKET_BYTES];
        let mut attributes = TestRun {
            prog_fd: loaded.programs[0].as_raw_fd() as u32,
            ctx_size_in: PACKET_BYTES as u32,
            ctx_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        test_run_at(&mut attributes, frame)?;
        Ok(attributes.retval)
    })
}

fn run_as(
    prog_type: u32,
    object: &Object,
    values: &[Vec<u8>],
    once: impl FnOnce(&Loaded) -> io::Result<u32>,
) -> Result<Run, RunError> {
    let loaded = load_as(Some(prog_type), object).map_err(RunError::Load)?;
    let has_values = |spec: &MapSpec| spec.kind == MapKind::Array;
    for ((map, spec), value) in loaded.maps.iter().zip(&object.maps).zip(values) {
        if has_values(spec) {
            first_element(BPF_MAP_UPDATE_ELEM, map, &mut value.clone())
                .map_err(|source| RunError::Run { what: "BPF_MAP_UPDATE_ELEM", source })?;
        }
    }
    let r0 = once(&loaded).map_err(|source| RunError::Run { what: "BPF_PROG_TEST_RUN", source })?;
    let mut after = Vec::with_capacity(loaded.maps.len());
    for (map, spec) in loaded.maps.iter().zip(&object.maps) {
        if !has_values(spec) {
            after.push(Vec::new());
            continue;
        }
        let bytes = match spec.kind.is_per_cpu() {
            true => spec.value_bytes.next_multiple_of(8) as usize * possible_cpus(),
            false => spec.value_bytes as usize,
        };
        let mut value = vec![0; bytes];
        first_element(BPF_MAP_LOOKUP_ELEM, map, &mut value)
            .map_err(|source| RunError::Run { what: "BPF_MAP_LOOKUP_ELEM", source })?;
        after.push(value);
    }
    Ok(Run { r0, values: after })
}

/// One command on an element of a map: 0 or a negative errno. The addresses are of buffers of the map's sizes, or 0.
pub(crate) fn element(operation: libc::c_long, map: &OwnedFd, key: u64, value: u64, flags: u64) -> i64 {
    let mut attributes = Element { map_fd: map.as_raw_fd() as u32, padding: 0, key, value, flags };
    match command(operation, &mut attributes) {
        Ok(()) => 0,
        Err(error) => -i64::from(error.raw_os_error().unwrap_or(libc::EINVAL)),
    }
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
pub fn load(object: &Object) -> Result<Loaded, LoadError> {
    load_as(None, object)
}

/// As [`load`], as socket filters.
pub fn load_filter(object: &Object) -> Result<Loaded, LoadError> {
    load_as(Some(BPF_PROG_TYPE_SOCKET_FILTER), object)
}

/// A program as a socket filter whose maps are there already.
pub(crate) fn load_filter_with(program: &Program, maps: Vec<OwnedFd>) -> Result<Loaded, LoadError> {
    let program = load_program(BPF_PROG_TYPE_SOCKET_FILTER, program, &maps)?;
    Ok(Loaded { maps, programs: vec![program] })
}

/// The type of programs of `kind`; memory is what the kernel has no type for, and is left for it to refuse.
fn type_of(kind: ProgramKind) -> u32 {
    match kind {
        ProgramKind::Probe | ProgramKind::Controller => BPF_PROG_TYPE_KPROBE,
        ProgramKind::Tracepoint => BPF_PROG_TYPE_TRACEPOINT,
        ProgramKind::SocketFilter => BPF_PROG_TYPE_SOCKET_FILTER,
        ProgramKind::Xdp => BPF_PROG_TYPE_XDP,
        ProgramKind::Memory { .. } => 0,
    }
}

fn load_as(prog_type: Option<u32>, object: &Object) -> Result<Loaded, LoadError> {
    let maps = create_maps(&object.maps)?;
    let programs = object
        .programs
        .iter()
        .map(|program| load_program(prog_type.unwrap_or_else(|| type_of(program.kind)), program, &maps))
        .collect::<Result<_, _>>()?;
    Ok(Loaded { maps, programs })
}

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_BTF_LOAD: libc::c_long = 18;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_TRACEPOINT: u32 = 5;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const BPF_PSEUDO_MAP_VALUE: u8 = 2;

/// Bytes of the packet of a run: an Ethernet header and a bit.
const PACKET_BYTES: usize = 64;

/// Bytes for the verifier's log; longer logs lose their beginning.
const LOG_BYTES: usize = 1 << 20;

/// The start of `union bpf_attr` for BPF_MAP_CREATE; the kernel takes the rest as zero.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    /// Interface, BTF and types: none.
    other: [u32; 5],
    map_extra: u64,
}

/// The start of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
}

/// The start of `union bpf_attr` for BPF_BTF_LOAD.
#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
    btf_flags: u32,
}

/// The start of `union bpf_attr` for the commands on one element.
#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

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

/// CPUs that the kernel has values for.
fn possible_cpus() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = list.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or(1, |last| last + 1)
}

/// Reads or writes the value of key 0.
fn first_element(operation: libc::c_long, map: &OwnedFd, value: &mut [u8]) -> io::Result<()> {
    let key = 0u32;
    let mut attributes = Element {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: std::ptr::from_ref(&key) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    command(operation, &mut attributes)
}

/// A map that holds maps is made after the one that tells the kernel which.
fn create_maps(specs: &[MapSpec]) -> Result<Vec<OwnedFd>, LoadError> {
    let mut maps: Vec<Option<OwnedFd>> = specs.iter().map(|_| None).collect();
    for holds_maps in [false, true] {
        for (index, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.inner.is_some() == holds_maps) {
            let like = spec.inner.and_then(|inner| maps.get(inner as usize)?.as_ref());
            maps[index] = Some(create_map_like(spec, like)?);
        }
    }
    Ok(maps.into_iter().flatten().collect())
}

pub(crate) fn create_map(map: &MapSpec) -> Result<OwnedFd, LoadError> {
    create_map_like(map, None)
}

pub(crate) fn create_map_like(map: &MapSpec, like: Option<&OwnedFd>) -> Result<OwnedFd, LoadError> {
    let attributes = MapCreate {
        map_type: map.kind as u32,
        key_size: map.key_bytes,
        value_size: map.value_bytes,
        max_entries: map.max_entries,
        map_flags: map.kernel_flags(),
        inner_map_fd: like.map_or(0, |like| like.as_raw_fd() as u32),
        numa_node: 0,
        map_name: [0; 16],
        other: [0; 5],
        map_extra: map.extra,
    };
    bpf(BPF_MAP_CREATE, &attributes).map_err(|source| LoadError::Map { name: map.name.clone(), source })
}

fn load_program(prog_type: u32, program: &Program, maps: &[OwnedFd]) -> Result<OwnedFd, LoadError> {
    let bytes: Vec<[u8; 8]> =
        with_descriptors(&program.insns, maps).into_iter().map(Insn::to_bytes).collect();
    let described = described(program)?;
    let mut log = vec![0u8; LOG_BYTES];
    let mut load = |log_level: u32| {
        let has_log = log_level > 0;
        let attributes = ProgLoad {
            prog_type,
            insn_cnt: bytes.len() as u32,
            insns: bytes.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level,
            log_size: if has_log { LOG_BYTES as u32 } else { 0 },
            log_buf: if has_log { log.as_mut_ptr() as u64 } else { 0 },
            kern_version: 0,
            prog_flags: 0,
            prog_name: [0; 16],
            prog_ifindex: 0,
            expected_attach_type: 0,
            prog_btf_fd: described.as_ref().map_or(0, |(btf, _)| btf.as_raw_fd() as u32),
            func_info_rec_size: Described::FUNCTION_BYTES,
            func_info: described.as_ref().map_or(0, |(_, described)| described.functions.as_ptr() as u64),
            func_info_cnt: described.as_ref().map_or(0, |(_, described)| described.functions.len() as u32),
            line_info_rec_size: 0,
        };
        bpf(BPF_PROG_LOAD, &attributes)
    };
    // Only a refusal is asked for its log: a log that is too long would refuse what is right.
    load(0).or_else(|_| load(1)).map_err(|source| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        LoadError::Program { name: program.name.clone(), source, log }
    })
}

/// What the kernel wants to know of a program that has callbacks, with its types loaded.
fn described(program: &Program) -> Result<Option<(OwnedFd, Described)>, LoadError> {
    let Some(described) = Described::of(&program.insns) else { return Ok(None) };
    let attributes = BtfLoad {
        btf: described.btf.as_ptr() as u64,
        btf_size: described.btf.len() as u32,
        ..BtfLoad::default()
    };
    let refused = |source| LoadError::Program { name: program.name.clone(), source, log: "BTF".into() };
    let btf = bpf(BPF_BTF_LOAD, &attributes).map_err(refused)?;
    Ok(Some((btf, described)))
}

/// The instructions with map indices replaced by descriptors. An index without a map stays, for the kernel to refuse.
fn with_descriptors(insns: &[Insn], maps: &[OwnedFd]) -> Vec<Insn> {
    let mut insns = insns.to_vec();
    let mut at = 0;
    while at < insns.len() {
        let insn = &mut insns[at];
        let wide = insn.is_wide();
        let kind = match insn.src {
            pseudo::MAP_INDEX if wide => Some(BPF_PSEUDO_MAP_FD),
            pseudo::MAP_INDEX_VALUE if wide => Some(BPF_PSEUDO_MAP_VALUE),
            _ => None,
        };
        let map = usize::try_from(insn.imm).ok().and_then(|index| maps.get(index));
        if let (Some(kind), Some(map)) = (kind, map) {
            insn.src = kind;
            insn.imm = map.as_raw_fd();
        }
        at += 1 + usize::from(wide);
    }
    insns
}

/// BPF_PROG_TEST_RUN with `frame` in rbp.
fn test_run_at(attributes: &mut TestRun, frame: u64) -> io::Result<()> {
    let result: i64;
    // SAFETY: as for `bpf`; rbp is restored before anything uses it, and the kernel checks whatever it reads there.
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

/// A command that answers in its attributes.
fn command<T>(command: libc::c_long, attributes: &mut T) -> io::Result<()> {
    // SAFETY: as for `bpf`; what the kernel writes back lies in the attributes or in buffers of the size they state.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of the attributes, and what their pointers name; the callers
    // keep both alive over the call, and their lengths are those of the buffers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
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

    fn try_load(text: &str) -> Option<Result<Loaded, LoadError>> {
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
        assert_eq!((loaded.maps.len(), loaded.programs.len()), (5, 1));
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
