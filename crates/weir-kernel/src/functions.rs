//! What the running kernel has for programs at its functions: whether one link is of many, what those at both ends of calls may call, and the numbers that
//! functions have in BTF.
//!
//! In: the events of a run. Out: [`Functions`], for which the kernel is asked once. Interface: bpf(2); Linux Documentation/bpf/btf.rst.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;

use nix::libc;
use weir_ebpf::btf::KERNEL_BTF;
use weir_ebpf::insn::NOTHING;
use weir_event::kernel::KernelEvent;

use crate::features::{SessionFunctions, session_functions};
use crate::iterator::FUNCTION;
use crate::program::{Code, load_probe};
use crate::syscall::{self, LinkKprobes};

/// What some events that are functions need of the kernel.
#[derive(Debug, Default)]
pub struct Functions {
    ids: BTreeMap<String, i32>,
    has_many: bool,
    /// What programs at both ends of calls may call, where the kernel has such.
    pub(crate) session: Option<SessionFunctions>,
}

impl Functions {
    /// What these events need.
    pub fn of_kernel<'a>(events: impl IntoIterator<Item = &'a KernelEvent>) -> Functions {
        let (mut typed, mut is_asked, mut has_calls) = (BTreeSet::new(), false, false);
        for event in events {
            match event {
                KernelEvent::TypedFunction { name, .. } => _ = typed.insert(name.clone()),
                KernelEvent::Iterator { name } => _ = typed.insert(format!("{FUNCTION}{name}")),
                KernelEvent::Call { .. } => has_calls = true,
                event => is_asked |= is_of_many(event),
            }
        }
        let typed: BTreeSet<&str> = typed.iter().map(String::as_str).collect();
        let ids = if typed.is_empty() { None } else { ids(&typed) };
        let has_calls = has_calls && links(syscall::TRACE_KPROBE_SESSION);
        Functions {
            ids: ids.unwrap_or_default(),
            has_many: is_asked && links(syscall::TRACE_KPROBE_MULTI),
            session: has_calls.then(|| session_functions(syscall::TRACE_KPROBE_SESSION)).flatten(),
        }
    }

    /// The number of a function that was asked for.
    pub(crate) fn id(&self, name: &str) -> Option<i32> {
        self.ids.get(name).copied()
    }

    /// One link may be of this event and others like it.
    pub(crate) fn links_many(&self, event: &KernelEvent) -> bool {
        self.has_many && is_of_many(event)
    }
}

/// A place that a link of many functions may be of.
pub(crate) fn is_of_many(event: &KernelEvent) -> bool {
    matches!(event, KernelEvent::Function { offset: 0, name, .. } if !name.contains(':'))
}

/// Whether the kernel knows links of many kprobes of this type (Linux 5.18 with CONFIG_FPROBE, sessions 6.10): it reads addresses from where nothing is.
pub(crate) fn links(attach_type: u32) -> bool {
    let Ok(program) = load_probe(attach_type, "asked", &Code::of(&NOTHING)) else { return false };
    let mut attributes = LinkKprobes {
        prog_fd: program.as_raw_fd() as u32,
        attach_type,
        count: 1,
        entries: 8,
        ..LinkKprobes::default()
    };
    // SAFETY: the kernel takes no address of nobody's; the answer would be a descriptor.
    let answer = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) };
    answer.is_err_and(|error: io::Error| error.raw_os_error() == Some(libc::EFAULT))
}

/// The numbers of functions of the running kernel, of those that it has; none where it does not say.
pub(crate) fn ids(names: &BTreeSet<&str>) -> Option<BTreeMap<String, i32>> {
    function_ids(&fs::read(KERNEL_BTF).ok()?, names)
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
