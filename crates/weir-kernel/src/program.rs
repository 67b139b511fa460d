//! Programs in the kernel, and runs of them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::libc;
use weir_ebpf::btf::{Argument, Described};
use weir_ebpf::insn::pseudo;
use weir_ebpf::{Insn, Program, ProgramKind, context};

use crate::syscall::{self, BtfLoad, ProgLoad, TestRun};
use crate::{KernelError, LINK_BYTES, Maps, bytes_min, memory};

/// What a program is loaded as (`enum bpf_prog_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ProgType {
    /// `BPF_PROG_TYPE_SOCKET_FILTER`.
    SocketFilter = 1,
    /// `BPF_PROG_TYPE_KPROBE`, which programs of uprobes have too.
    Kprobe = 2,
    /// `BPF_PROG_TYPE_SCHED_CLS`.
    SchedCls = 3,
    /// `BPF_PROG_TYPE_TRACEPOINT`.
    Tracepoint = 5,
    /// `BPF_PROG_TYPE_XDP`.
    Xdp = 6,
    /// `BPF_PROG_TYPE_PERF_EVENT`.
    PerfEvent = 7,
    /// `BPF_PROG_TYPE_CGROUP_SKB`.
    CgroupSkb = 8,
    /// `BPF_PROG_TYPE_CGROUP_SOCK`.
    CgroupSock = 9,
    /// `BPF_PROG_TYPE_SK_MSG`.
    SkMsg = 16,
    /// `BPF_PROG_TYPE_FLOW_DISSECTOR`.
    FlowDissector = 22,
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
    RawTracepoint = 17,
    /// `BPF_PROG_TYPE_TRACING`.
    Tracing = 26,
}

/// Instructions as the kernel takes them.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) insns: Vec<Insn>,
    /// Functions that its verifier looks at by themselves, by their first slot.
    pub(crate) global: BTreeMap<u32, Vec<Argument>>,
}

impl Code {
    /// Without such functions.
    pub(crate) fn of(insns: &[Insn]) -> Code {
        Code { insns: insns.to_vec(), global: BTreeMap::new() }
    }
}

/// What the kernel is told that a program is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) prog_type: ProgType,
    /// `enum bpf_attach_type`, where the type of the program does not say all.
    pub(crate) attach_type: u32,
    /// BTF id of the function that it is loaded for, or 0.
    pub(crate) function: u32,
}

impl Kind {
    pub(crate) fn of(prog_type: ProgType) -> Kind {
        Kind { prog_type, attach_type: 0, function: 0 }
    }
}

/// A program that the kernel took.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    kind: ProgramKind,
    prog_type: ProgType,
    program: OwnedFd,
    /// Of programs of memory: where r0 goes.
    result: Option<Maps>,
}

/// What a run gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Input<'a> {
    /// The packet from its link header on, or the memory.
    pub bytes: &'a [u8],
    /// The beginning of the structure that the program sees of a packet (`ctx_in`), or nothing.
    pub context: &'a [u8],
}

/// What a run answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Of programs of packets, its lower 32 bits.
    pub r0: u64,
    /// The packet or memory afterwards.
    pub bytes: Vec<u8>,
    /// The structure that the program saw, afterwards; as long as what was given.
    pub context: Vec<u8>,
    /// Of one run, on average.
    pub nanoseconds: u32,
}

/// Bytes by which a program may make its packet longer, before and behind: the kernel's packets of tests are in one
/// page.
const GROWTH_BYTES_MAX: usize = 4096;

/// Bytes for the verifier's log; longer logs lose their beginning.
const LOG_BYTES: usize = 1 << 20;
/// What it has: each instruction as it is followed, or only how many there were.
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_STATISTICS: u32 = 4;

/// Loads `program`, whose map indices refer to `maps`, under the licence GPL.
pub fn load(program: &Program, maps: &Maps) -> Result<Loaded, KernelError> {
    match program.kind {
        ProgramKind::SocketFilter => load_as(program, maps, ProgType::SocketFilter),
        ProgramKind::Xdp => load_as(program, maps, ProgType::Xdp),
        ProgramKind::Classifier => load_as(program, maps, ProgType::SchedCls),
        ProgramKind::CgroupSkb => load_as(program, maps, ProgType::CgroupSkb),
        ProgramKind::Memory { bytes } => {
            let result = Maps::create(&[memory::result_map()])?;
            let wrapped = memory::wrapped(program, bytes, maps.count());
            let descriptor = |index: usize| match maps.descriptor(index) {
                None => result.descriptor(0),
                descriptor => descriptor,
            };
            let loaded = loaded(&wrapped, maps, descriptor, ProgType::Xdp)?;
            Ok(Loaded { kind: program.kind, result: Some(result), ..loaded })
        }
        kind => Err(KernelError::Kind { kind }),
    }
}

/// Loads a program as one of this type instead of its kind's. The type decides which helpers it may call and what context it gets.
pub fn load_as(program: &Program, maps: &Maps, prog_type: ProgType) -> Result<Loaded, KernelError> {
    loaded(program, maps, |index| maps.descriptor(index), prog_type)
}

fn loaded(
    program: &Program,
    maps: &Maps,
    descriptor: impl Fn(usize) -> Option<i32>,
    prog_type: ProgType,
) -> Result<Loaded, KernelError> {
    let Code { insns, global } = maps.linked(&program.insns);
    let code = Code { insns: with_descriptors(&insns, descriptor), global };
    let (name, kind) = (program.name.clone(), program.kind);
    let program = load_insns(Kind::of(prog_type), &name, &code)?;
    Ok(Loaded { name, kind, prog_type, program, result: None })
}

impl AsFd for Loaded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

impl Loaded {
    pub(crate) fn descriptor(&self) -> i32 {
        self.program.as_raw_fd()
    }

    /// Runs the program `repeat` times, each time on what the run before left.
    pub fn run(&self, input: Input<'_>, repeat: u32) -> Result<Ran, KernelError> {
        if self.prog_type == ProgType::RawTracepoint {
            return self.run_tracing(input.context);
        }
        let mut bytes = input.bytes.to_vec();
        if let ProgramKind::Memory { .. } = self.kind {
            bytes.resize(bytes.len().max(bytes_min(self.kind, &bytes)), 0);
        }
        let least = bytes_min(self.kind, &bytes);
        if bytes.len() < least {
            return Err(KernelError::Short { kind: self.kind, least, bytes: bytes.len() });
        }
        let mut after = vec![0; bytes.len() + GROWTH_BYTES_MAX];
        // Without a context, the kernel gives a classifier a wire length of 0.
        let no_context = [0; context::SK_BUFF_BYTES as usize];
        let given = match self.kind {
            ProgramKind::Classifier if input.context.is_empty() => &no_context[..],
            _ => input.context,
        };
        let mut context = vec![0; input.context.len()];
        let address = |bytes: &[u8]| if bytes.is_empty() { 0 } else { bytes.as_ptr() as u64 };
        let mut attributes = TestRun {
            prog_fd: self.program.as_raw_fd() as u32,
            data_size_in: bytes.len() as u32,
            data_size_out: after.len() as u32,
            data_in: address(&bytes),
            data_out: after.as_mut_ptr() as u64,
            repeat,
            ctx_size_in: given.len() as u32,
            ctx_size_out: context.len() as u32,
            ctx_in: address(given),
            ctx_out: if context.is_empty() { 0 } else { context.as_mut_ptr() as u64 },
            ..TestRun::default()
        };
        // SAFETY: the four buffers have the sizes that stand beside them, and outlive the call.
        unsafe { self.test(&mut attributes) }?;
        after.truncate(match self.kind {
            ProgramKind::Xdp => attributes.data_size_out as usize,
            _ => input.bytes.len(),
        });
        if self.kind.begins_behind_link() {
            // The kernel has put zeros where the link header was, which the program cannot write to.
            after[..LINK_BYTES].copy_from_slice(&bytes[..LINK_BYTES]);
        }
        let r0 = match &self.result {
            Some(result) => number(&result.lookup(0, &[0; 4])?.unwrap_or_default()),
            None => attributes.retval.into(),
        };
        Ok(Ran { r0, bytes: after, context, nanoseconds: attributes.duration })
    }

    /// One run in this thread, with a context that stays as it is.
    fn run_tracing(&self, context: &[u8]) -> Result<Ran, KernelError> {
        let mut attributes = TestRun {
            prog_fd: self.program.as_raw_fd() as u32,
            ctx_size_in: context.len() as u32,
            ctx_in: if context.is_empty() { 0 } else { context.as_ptr() as u64 },
            ..TestRun::default()
        };
        // SAFETY: the context has the size that is stated, and outlives the call.
        unsafe { self.test(&mut attributes) }?;
        Ok(Ran { r0: attributes.retval.into(), bytes: Vec::new(), context: context.to_vec(), nanoseconds: 0 })
    }

    /// # Safety
    /// The buffers that the attributes name have the sizes that stand beside them.
    unsafe fn test(&self, attributes: &mut TestRun) -> Result<(), KernelError> {
        // SAFETY: the caller's promise.
        let done = unsafe { syscall::command(syscall::PROG_TEST_RUN, attributes) };
        let failed =
            |source| KernelError::Call { call: "BPF_PROG_TEST_RUN", name: self.name.clone(), source };
        done.map(drop).map_err(failed)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub(crate) fn load_insns(kind: Kind, name: &str, code: &Code) -> Result<OwnedFd, KernelError> {
    let Code { insns, global } = code;
    let bytes: Vec<[u8; 8]> = insns.iter().map(|insn| insn.to_bytes()).collect();
    let described = Described::of(insns, global);
    let btf = described.as_ref().map(|described| load_btf(name, &described.btf)).transpose()?;
    let functions = described.as_ref().map_or(&[][..], |described| &described.functions);
    let mut log = vec![0u8; LOG_BYTES];
    let mut load = |log_level: u32| {
        let has_log = log_level > 0;
        let mut attributes = ProgLoad {
            prog_type: kind.prog_type as u32,
            expected_attach_type: kind.attach_type,
            attach_btf_id: kind.function,
            insn_cnt: bytes.len() as u32,
            insns: bytes.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level,
            log_size: if has_log { LOG_BYTES as u32 } else { 0 },
            log_buf: if has_log { log.as_mut_ptr() as u64 } else { 0 },
            prog_name: syscall::object_name(name),
            prog_btf_fd: btf.as_ref().map_or(0, |btf| btf.as_raw_fd() as u32),
            func_info_rec_size: if functions.is_empty() { 0 } else { Described::FUNCTION_BYTES },
            func_info: if functions.is_empty() { 0 } else { functions.as_ptr() as u64 },
            func_info_cnt: functions.len() as u32,
            ..ProgLoad::default()
        };
        // SAFETY: the instructions, the licence, the functions and the log live over the call, with the sizes stated;
        // the answer is a descriptor.
        unsafe { syscall::open(syscall::PROG_LOAD, &mut attributes) }
    };
    // Only a refusal is asked for its log: a log that is too long would refuse what is right. Of a program that takes
    // too long to verify the log has some million lines and takes seconds to write: the error's own, and statistics.
    let loaded = load(0).or_else(|error| match error.raw_os_error() {
        Some(libc::E2BIG) => load(LOG_STATISTICS),
        _ => load(LOG_INSTRUCTIONS),
    });
    loaded.map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        KernelError::Refused { name: name.to_owned(), error, log }
    })
}

/// As a program of uprobes or kprobes, for links of this type (0: of perf events).
pub(crate) fn load_probe(attach_type: u32, name: &str, code: &Code) -> Result<OwnedFd, KernelError> {
    load_insns(Kind { attach_type, ..Kind::of(ProgType::Kprobe) }, name, code)
}

fn load_btf(name: &str, bytes: &[u8]) -> Result<OwnedFd, KernelError> {
    let mut attributes =
        BtfLoad { btf: bytes.as_ptr() as u64, btf_size: bytes.len() as u32, ..BtfLoad::default() };
    // SAFETY: the bytes live over the call, with the size stated; the answer is a descriptor.
    let loaded = unsafe { syscall::open(syscall::BTF_LOAD, &mut attributes) };
    loaded.map_err(|source| KernelError::Call { call: "BPF_BTF_LOAD", name: name.to_owned(), source })
}

/// The instructions as the kernel takes them with these maps.
pub(crate) fn code(insns: &[Insn], maps: &Maps) -> Code {
    let Code { insns, global } = maps.linked(insns);
    Code { insns: with_descriptors(&insns, |index| maps.descriptor(index)), global }
}

/// The instructions with map indices replaced by descriptors. An index without a map stays, for the kernel to refuse.
fn with_descriptors(insns: &[Insn], descriptor: impl Fn(usize) -> Option<i32>) -> Vec<Insn> {
    let mut insns = insns.to_vec();
    let mut at = 0;
    while at < insns.len() {
        let insn = &mut insns[at];
        let wide = insn.is_wide();
        let kind = match insn.src {
            pseudo::MAP_INDEX if wide => Some(syscall::PSEUDO_MAP_FD),
            pseudo::MAP_INDEX_VALUE if wide => Some(syscall::PSEUDO_MAP_VALUE),
            _ => None,
        };
        let found = usize::try_from(insn.imm).ok().and_then(&descriptor);
        if let (Some(kind), Some(found)) = (kind, found) {
            (insn.src, insn.imm) = (kind, found);
        }
        at += 1 + usize::from(wide);
    }
    insns
}
