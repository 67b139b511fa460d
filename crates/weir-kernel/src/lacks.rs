//! What the running kernel lacks of what programs at its events need: asked for, not read off its version.
//!
//! In: nothing. Out: [`Lack`]s, each with what stands in. Nothing is attached when it returns.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use weir_ebpf::btf::KERNEL_BTF;

use crate::event::tracepoints;
use crate::functions::{ids, links};
use crate::program::{Kind, NOTHING, ProgType, load_insns};
use crate::syscall::{self, RawTracepoint};

/// Something that this kernel has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lack {
    /// What, and what is refused without it.
    pub what: &'static str,
    /// What to do, or what weir does instead.
    pub instead: &'static str,
}

/// A function that kernels have for tests of programs at functions.
const FUNCTION: &str = "bpf_fentry_test1";

/// All that it lacks, for who has the right to ask.
pub fn lacks() -> Vec<Lack> {
    let has_kprobes = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let asked = [
        (
            tracepoints().is_some(),
            "no tracefs that can be read: no tracepoints",
            "mount it: `mount -t tracefs tracefs /sys/kernel/tracing`; `rawtracepoint` does without",
        ),
        (
            fs::metadata(KERNEL_BTF).is_ok(),
            "no BTF (CONFIG_DEBUG_INFO_BTF): no fentry, fexit and iter, no fields of the kernel's types",
            "tracepoints and kprobes do without",
        ),
        (
            has_kprobes,
            "no kprobes (CONFIG_KPROBE_EVENTS): no kprobe and kretprobe",
            "tracepoints, and fentry where the kernel has it, stand in",
        ),
        (
            has_typed(),
            "functions call no programs (CONFIG_FUNCTION_TRACER): no fentry and fexit",
            "kprobe stands in",
        ),
        (
            !has_kprobes || links(syscall::TRACE_KPROBE_MULTI),
            "no links of many kprobes (Linux 5.18, CONFIG_FPROBE)",
            "functions that a pattern means are attached one after the other",
        ),
        (
            !has_kprobes || links(syscall::TRACE_KPROBE_SESSION),
            "no sessions of kprobes (Linux 6.10, CONFIG_FPROBE)",
            "clauses at both ends of a function share a map",
        ),
    ];
    let missing = asked.into_iter().filter(|(is_there, ..)| !is_there);
    missing.map(|(_, what, instead)| Lack { what, instead }).collect()
}

/// A program is at a function for a moment.
fn has_typed() -> bool {
    let id = ids(&BTreeSet::from([FUNCTION])).and_then(|ids| ids.get(FUNCTION).copied());
    let Some(id) = id else { return false };
    let kind =
        Kind { attach_type: syscall::TRACE_FENTRY, function: id as u32, ..Kind::of(ProgType::Tracing) };
    let Ok(program) = load_insns(kind, "asked", &NOTHING) else { return false };
    let mut attributes = RawTracepoint { prog_fd: program.as_raw_fd() as u32, ..RawTracepoint::default() };
    // SAFETY: the attributes hold no addresses, and the answer is a descriptor.
    unsafe { syscall::open(syscall::RAW_TRACEPOINT_OPEN, &mut attributes) }.is_ok()
}
