//! What the running kernel lacks of what programs at its events need: asked for, not read off its version.
//!
//! In: nothing. Out: [`Lack`]s, each with what stands in. Nothing is attached when it returns.

use std::fs;

use weir_ebpf::btf::KERNEL_BTF;
use weir_event::kernel::KernelEvent;

use crate::event::{KPROBES, takes, tracepoints};
use crate::functions::links;
use crate::perf::Pmu;
use crate::syscall;

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
    let has_kprobes = Pmu::read(KPROBES).is_ok();
    let function = KernelEvent::TypedFunction { name: FUNCTION.to_owned(), is_return: false };
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
            takes(&function),
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
