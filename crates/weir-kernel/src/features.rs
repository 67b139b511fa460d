//! What the running kernel has for uprobes. weir tries it once; it does not go by the version.
//!
//! In: nothing. Out: [`Features`]. A link of many uprobes on a folder is refused with EBADF where the kernel knows such links, and with EINVAL where
//! not; nothing is attached by that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use weir_ebpf::btf::KERNEL_BTF;
use weir_ebpf::insn::{alu, class, jmp, pseudo};
use weir_ebpf::{Insn, kfunc};

use crate::KernelError;
use crate::program::{Kind, ProgType, load_insns};
use crate::syscall::{self, LinkKprobes, LinkUprobes};

/// Which kinds of uprobes there are, beside those of perf events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Links of many uprobes at once (Linux 6.6).
    pub multi: bool,
    /// The same at both ends of a call, with a word that these share (Linux 6.13), and the functions that programs call for that.
    pub session: Option<SessionFunctions>,
}

/// BTF ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionFunctions {
    is_return: i32,
    cookie: i32,
}

impl SessionFunctions {
    /// The BTF id of one of weir's numbers of functions.
    pub(crate) fn id(&self, function: kfunc::KfuncId) -> Option<i32> {
        match function {
            kfunc::SESSION_IS_RETURN => Some(self.is_return),
            kfunc::SESSION_COOKIE => Some(self.cookie),
            _ => None,
        }
    }
}

impl Features {
    /// Asks the running kernel by calls that can only fail: with which error says whether it knows them.
    pub fn of_kernel() -> Features {
        let functions = || {
            let [is_return, cookie] =
                [kfunc::SESSION_IS_RETURN, kfunc::SESSION_COOKIE].map(|id| kfunc::name(id).unwrap_or(""));
            let ids = FunctionIds::of_kernel(&BTreeSet::from([is_return, cookie]));
            Some(SessionFunctions { is_return: ids.id(is_return)?, cookie: ids.id(cookie)? })
        };
        let multi = answers(syscall::TRACE_UPROBE_MULTI, 0, libc::EBADF)
            // Where they hold for a thread and not for its process, a number that is none is not looked at first.
            && answers(syscall::TRACE_UPROBE_MULTI, u32::MAX, libc::EINVAL);
        let has_sessions = || answers(syscall::TRACE_UPROBE_SESSION, 0, libc::EBADF);
        let session = (multi && has_sessions()).then(functions).flatten().filter(are_callable);
        Features { multi, session }
    }
}

/// A program may call them as the compiler has it: without arguments.
fn are_callable(functions: &SessionFunctions) -> bool {
    let call = |imm| Insn { opcode: class::JMP | jmp::CALL, src: pseudo::KERNEL, imm, ..Insn::default() };
    let program = [call(functions.is_return), call(functions.cookie), ZERO, EXIT];
    load_probe(syscall::TRACE_UPROBE_SESSION, &program).is_ok()
}

const ZERO: Insn = Insn { opcode: class::ALU64 | alu::MOV, dst: 0, src: 0, off: 0, imm: 0 };
const EXIT: Insn = Insn { opcode: class::JMP | jmp::EXIT, dst: 0, src: 0, off: 0, imm: 0 };

fn load_probe(attach_type: u32, insns: &[Insn]) -> Result<OwnedFd, KernelError> {
    load_insns(Kind { attach_type, ..Kind::of(ProgType::Kprobe) }, "asked", insns)
}

/// Whether the kernel knows links of many kprobes (Linux 5.18 with CONFIG_FPROBE): it reads addresses from where nothing is.
pub(crate) fn has_many_kprobes() -> bool {
    let Ok(program) = load_probe(syscall::TRACE_KPROBE_MULTI, &[ZERO, EXIT]) else { return false };
    let mut attributes = LinkKprobes {
        prog_fd: program.as_raw_fd() as u32,
        attach_type: syscall::TRACE_KPROBE_MULTI,
        count: 1,
        entries: 8,
        ..LinkKprobes::default()
    };
    // SAFETY: the kernel takes no address of nobody's; the answer would be a descriptor.
    let answer = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) };
    answer.is_err_and(|error: io::Error| error.raw_os_error() == Some(libc::EFAULT))
}

/// Whether a link of this type on a folder, for the process `pid` or for all, is refused in this way.
fn answers(attach_type: u32, pid: u32, errno: i32) -> bool {
    let Ok(program) = load_probe(attach_type, &[ZERO, EXIT]) else { return false };
    let offset = 0u64;
    let mut attributes = LinkUprobes {
        prog_fd: program.as_raw_fd() as u32,
        attach_type,
        path: c"/".as_ptr() as u64,
        offsets: std::ptr::from_ref(&offset) as u64,
        count: 1,
        pid,
        ..LinkUprobes::default()
    };
    // SAFETY: path and offset live over the call; the answer would be a descriptor.
    let answer = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) };
    answer.is_err_and(|error: io::Error| error.raw_os_error() == Some(errno))
}

/// Kinds of BTF types (`enum` of linux/btf.h) by what follows their 12 bytes: so much, and so much for each of `vlen` members.
fn extra(kind: u32, vlen: usize) -> Option<usize> {
    Some(match kind {
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * vlen,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * vlen,
        _ => return None,
    })
}

const FUNC: u32 = 12;

/// BTF ids of the running kernel's functions.
#[derive(Debug, Default)]
pub struct FunctionIds(BTreeMap<String, i32>);

impl FunctionIds {
    /// Those of these names that it has.
    pub fn of_kernel(names: &BTreeSet<&str>) -> FunctionIds {
        let btf = if names.is_empty() { None } else { fs::read(KERNEL_BTF).ok() };
        FunctionIds(btf.and_then(|btf| function_ids(&btf, names)).unwrap_or_default())
    }

    pub(crate) fn id(&self, name: &str) -> Option<i32> {
        self.0.get(name).copied()
    }
}

/// The ids of functions in BTF, of those that are there; none where it is not understood.
fn function_ids(btf: &[u8], names: &BTreeSet<&str>) -> Option<BTreeMap<String, i32>> {
    let word = |at: usize| Some(u32::from_le_bytes(btf.get(at..at + 4)?.try_into().ok()?) as usize);
    // magic, version and flags, hdr_len, type_off, type_len, str_off, str_len
    let (header, type_off, type_len, str_off) = (word(4)?, word(8)?, word(12)?, word(16)?);
    let (types, end, strings) = (header + type_off, header + type_off + type_len, header + str_off);
    let mut found = BTreeMap::new();
    let (mut at, mut id) = (types, 0);
    while at < end {
        id += 1;
        let (name, info) = (word(at)?, word(at + 4)? as u32);
        let (kind, vlen) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if kind == FUNC {
            let text = btf.get(strings + name..)?;
            let text = std::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()?;
            if names.contains(text) {
                found.insert(text.to_owned(), id);
            }
        }
        at += 12 + extra(kind, vlen)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of 24 bytes, types, strings.
    fn btf(types: &[u32], strings: &str) -> Vec<u8> {
        let header =
            [0x0001_eb9f, 24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32];
        let words = header.iter().chain(types).flat_map(|word| word.to_le_bytes());
        words.chain(strings.bytes()).collect()
    }

    #[test]
    fn functions_are_found_by_their_whole_names() {
        // INT a; FUNC ab; STRUCT with one member; FUNC a
        let types = [1, 1 << 24, 4, 32, 3, 12 << 24, 0, 1, 4 << 24 | 1, 4, 0, 1, 0, 1, 12 << 24, 0];
        let found = btf(&types, "\0a\0ab\0");
        let ids = |names: [&str; 2]| function_ids(&found, &BTreeSet::from(names)).unwrap();
        assert_eq!(ids(["a", "ab"]), BTreeMap::from([("a".to_owned(), 4), ("ab".to_owned(), 2)]));
        assert_eq!(ids(["a", "b"]), BTreeMap::from([("a".to_owned(), 4)]));
    }

    #[test]
    fn btf_that_is_cut_or_of_unknown_kinds_has_none() {
        let whole = btf(&[1, 12 << 24, 0, 1, 12 << 24, 0], "\0a\0");
        for length in 0..whole.len() - 3 {
            assert_eq!(function_ids(&whole[..length], &BTreeSet::from(["a"])), None, "{length}");
        }
        let unknown = btf(&[1, 30 << 24, 0, 1, 12 << 24, 0], "\0a\0");
        assert_eq!(function_ids(&unknown, &BTreeSet::from(["a"])), None);
    }
}
