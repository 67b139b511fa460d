//! Programs of probes, in the kernel: loaded for one end of a call or both, and attached to places of a file.
//!
//! | the kernel has | one end | both ends |
//! |---|---|---|
//! | sessions (Linux 6.13) | a link for all places of a file | the same, one program |
//! | links of many uprobes (6.6) | a link for all places of a file | two programs |
//! | perf events alone | a perf event and a link for each place | two programs |
//!
//! What a program asks of its session (`bpf_session_is_return`) is known where it runs at one end alone: the call becomes a constant. Where two
//! programs stand for one, there is nothing that they could share: a program that asks for the session's cookie is refused.
//!
//! Interface: bpf(2), perf_event_open(2).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use weir_ebpf::helper::{self, HelperId};
use weir_ebpf::insn::{alu, class, jmp, pseudo};
use weir_ebpf::kfunc;
use weir_ebpf::{Insn, Program, ProgramKind};

use crate::features::{Features, SessionFunctions};
use crate::perf::{ALL, Pmu, linked};
use crate::program::{Loaded, ProgType, code, load_as, load_probe};
use crate::syscall::{self, Info, LinkUprobes, PerfEventAttr, ProgInfo};
use crate::{Input, KernelError, Maps};

/// At which end of a call a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A uprobe.
    Entry,
    /// A uretprobe.
    Return,
    /// At both, and finds out which one it is: needs [`Features::session`].
    Both,
}

/// One place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// In the file.
    pub offset: u64,
    /// File offset of the semaphore, a counter that is above 0 while the probe is attached.
    pub semaphore: Option<u64>,
    /// What the program gets from `bpf_get_attach_cookie`.
    pub cookie: u64,
}

/// A program of a probe that the kernel took.
#[derive(Debug)]
pub struct Probe {
    name: String,
    program: OwnedFd,
    end: End,
    is_multi: bool,
}

/// Places that are probed until this is dropped.
#[derive(Debug)]
pub struct Link(#[expect(dead_code, reason = "they are closed")] Vec<OwnedFd>);

impl Link {
    pub(crate) fn of(descriptors: Vec<OwnedFd>) -> Link {
        Link(descriptors)
    }
}

impl Probe {
    /// Loads a program of a probe, whose map indices refer to `maps`.
    pub fn load(program: &Program, maps: &Maps, end: End, features: Features) -> Result<Probe, KernelError> {
        let (insns, attach_type) = match (end, features) {
            (End::Both, Features { session: Some(functions), .. }) => {
                (named(&program.insns, functions), syscall::TRACE_UPROBE_SESSION)
            }
            (End::Both, _) => return Err(KernelError::Kind { kind: program.kind }),
            (end, features) => {
                let attach_type = if features.multi { syscall::TRACE_UPROBE_MULTI } else { 0 };
                (at_one_end(&program.insns, end == End::Return), attach_type)
            }
        };
        let name = program.name.clone();
        let program = load_probe(attach_type, &name, &code(&insns, maps))?;
        Ok(Probe { name, program, end, is_multi: features.multi })
    }

    /// Attaches it to places of a file, in the process `pid` or, without one, in all that map the file. All or none are attached.
    pub fn attach(&self, file: &Path, places: &[Place], pid: Option<i32>) -> Result<Link, KernelError> {
        let path = CString::new(file.as_os_str().as_bytes());
        let linked = path.map_err(io::Error::from).and_then(|path| match self.is_multi {
            true => self.link_many(&path, places, pid).map(|link| vec![link]),
            false => places.iter().try_fold(Vec::new(), |mut links, place| {
                links.extend(self.link_one(&path, place, pid)?);
                Ok(links)
            }),
        });
        linked.map(Link).map_err(|source| KernelError::Attach {
            name: self.name.clone(),
            file: file.to_owned(),
            source,
        })
    }

    fn link_many(&self, path: &CString, places: &[Place], pid: Option<i32>) -> io::Result<OwnedFd> {
        let offsets: Vec<u64> = places.iter().map(|place| place.offset).collect();
        let semaphores: Vec<u64> = places.iter().map(|place| place.semaphore.unwrap_or(0)).collect();
        let cookies: Vec<u64> = places.iter().map(|place| place.cookie).collect();
        let mut attributes = LinkUprobes {
            prog_fd: self.program.as_raw_fd() as u32,
            attach_type: match self.end {
                End::Both => syscall::TRACE_UPROBE_SESSION,
                _ => syscall::TRACE_UPROBE_MULTI,
            },
            path: path.as_ptr() as u64,
            offsets: offsets.as_ptr() as u64,
            ref_ctr_offsets: if semaphores.iter().any(|at| *at != 0) {
                semaphores.as_ptr() as u64
            } else {
                0
            },
            cookies: cookies.as_ptr() as u64,
            count: places.len() as u32,
            uprobe_flags: if self.end == End::Return { syscall::MULTI_RETURN } else { 0 },
            pid: pid.unwrap_or(0) as u32,
            ..LinkUprobes::default()
        };
        // SAFETY: the path and the three arrays, of `count` elements, live over the call; the answer is a descriptor.
        unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) }
    }

    /// The event, and the link of the program to it.
    fn link_one(&self, path: &CString, place: &Place, pid: Option<i32>) -> io::Result<[OwnedFd; 2]> {
        let pmu = Pmu::read("uprobe")?;
        let attributes = PerfEventAttr {
            kind: pmu.kind,
            config: pmu.of_return(self.end == End::Return) | pmu.of_semaphore(place.semaphore.unwrap_or(0)),
            config1: path.as_ptr() as u64,
            config2: place.offset,
            ..PerfEventAttr::sized()
        };
        linked(&self.program, &attributes, pid.map_or(ALL, |pid| (pid, -1)), place.cookie)
    }

    /// How often it did not run because another program ran on the CPU, as far as the kernel counts that.
    pub fn missed(&self) -> u64 {
        missed(&self.program)
    }
}

/// How often the program did not run because another ran on the CPU, as far as the kernel counts that.
pub(crate) fn missed(program: &OwnedFd) -> u64 {
    // SAFETY: zeros are such a structure.
    let mut info: ProgInfo = unsafe { std::mem::zeroed() };
    let mut attributes = Info {
        fd: program.as_raw_fd() as u32,
        len: size_of::<ProgInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the kernel writes `len` bytes at most. What is asked for with zeros in it are sizes and addresses, which ask for nothing more.
    let done = unsafe { syscall::command(syscall::OBJ_GET_INFO_BY_FD, &mut attributes) };
    done.map_or(0, |_| info.recursion_misses)
}

/// A program of the controller that the kernel took: it runs when it is called.
#[derive(Debug)]
pub struct Called(Loaded);

impl Called {
    /// Loads such a program, whose map indices refer to `maps`. What it reads is the kernel's as well.
    pub fn load(program: &Program, maps: &Maps) -> Result<Called, KernelError> {
        match program.kind {
            ProgramKind::Controller => {
                let program = Program { insns: reading_all(&program.insns), ..program.clone() };
                load_as(&program, maps, ProgType::RawTracepoint).map(Called)
            }
            kind => Err(KernelError::Kind { kind }),
        }
    }

    /// Runs it once, in this thread.
    pub fn call(&self) -> Result<(), KernelError> {
        self.0.run(Input { context: &[0; CONTEXT_BYTES], ..Input::default() }, 1).map(drop)
    }
}

/// As many arguments as the kernel gives a raw tracepoint.
const CONTEXT_BYTES: usize = 96;

fn is_kernel_call(insn: &Insn) -> bool {
    insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::KERNEL
}

/// With reads of either side's memory in the place of those of a process's.
fn reading_all(insns: &[Insn]) -> Vec<Insn> {
    let other = |id: HelperId| match id {
        helper::PROBE_READ_USER => helper::PROBE_READ,
        helper::PROBE_READ_USER_STR => helper::PROBE_READ_STR,
        _ => id,
    };
    let mapped = |insn: &Insn| match insn.opcode == class::JMP | jmp::CALL && insn.src == 0 {
        true => Insn { imm: other(insn.imm), ..*insn },
        false => *insn,
    };
    insns.iter().map(mapped).collect()
}

/// With the kernel's numbers of functions of sessions. Others stay, for the kernel to refuse.
pub(crate) fn named(insns: &[Insn], functions: SessionFunctions) -> Vec<Insn> {
    let named = |insn: &Insn| match functions.id(insn.imm).filter(|_| is_kernel_call(insn)) {
        Some(id) => Insn { imm: id, ..*insn },
        None => *insn,
    };
    insns.iter().map(named).collect()
}

/// For a program that runs at one end alone: which one it is, is known.
fn at_one_end(insns: &[Insn], is_return: bool) -> Vec<Insn> {
    let known = |insn: &Insn| match is_kernel_call(insn) && insn.imm == kfunc::SESSION_IS_RETURN {
        true => Insn { opcode: class::ALU64 | alu::MOV, imm: is_return.into(), ..Insn::default() },
        false => *insn,
    };
    insns.iter().map(known).collect()
}
