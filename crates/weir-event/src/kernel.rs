//! Events that only the kernel sees: where programs run there.
//!
//! In and out: values that a script's front end makes and whoever attaches programs reads. What a program is given: of a tracepoint its
//! record, of a raw one its arguments, of functions registers or, where they have types, arguments, of a clock, a counter or a watchpoint registers and more, of
//! an iterator a record whose first word says how far it is.
//!
//! Deliberately not here: how anything is attached, and what the running kernel has.

/// Where a program runs in the kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KernelEvent {
    /// A tracepoint of tracefs.
    Tracepoint {
        /// Such as `sched`.
        subsystem: String,
        /// Such as `sched_switch`.
        name: String,
    },
    /// The same without the record.
    RawTracepoint {
        /// Such as `sched_switch`.
        name: String,
    },
    /// A kprobe.
    Function {
        /// As the kernel lists it; of a module as `module:function`.
        name: String,
        /// Bytes behind its entry.
        offset: u64,
        /// Where it has returned.
        is_return: bool,
    },
    /// Where one of the kernel's functions begins, and again where the same call has returned; the two runs share a word.
    Call {
        /// As the kernel lists it.
        name: String,
    },
    /// Where one of the kernel's functions begins or returns, whose parameters and result BTF describes.
    TypedFunction {
        /// As BTF has it.
        name: String,
        /// Where it returns; its parameters are still known there.
        is_return: bool,
    },
    /// On each CPU, whatever runs there.
    Clock {
        /// Nanoseconds.
        period_ns: u64,
    },
    /// On each CPU, after so many of what perf_event_open(2) counts.
    Counter {
        /// Who counts.
        kind: CounterKind,
        /// `perf_hw_id` or `perf_sw_ids`.
        config: u64,
        /// How many.
        count: u64,
    },
    /// Memory that is read, written or executed.
    Watchpoint {
        /// Where it begins.
        address: u64,
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// What is noticed: a sum of [`watch`].
        access: u8,
    },
    /// Once for each of what the kernel lists, when the list is read.
    Iterator {
        /// Of what: `task`.
        name: String,
    },
}

/// What a watchpoint notices (`HW_BREAKPOINT_*` of linux/hw_breakpoint.h).
pub mod watch {
    /// Reads.
    pub const READ: u8 = 1;
    /// Writes.
    pub const WRITE: u8 = 2;
    /// That it is executed.
    pub const EXECUTE: u8 = 4;
}

impl KernelEvent {
    /// The kind of its probes in scripts.
    pub fn kind(&self) -> &'static str {
        match self {
            KernelEvent::Tracepoint { .. } => "tracepoint",
            KernelEvent::RawTracepoint { .. } => "rawtracepoint",
            KernelEvent::Function { is_return: false, .. } | KernelEvent::Call { .. } => "kprobe",
            KernelEvent::Function { is_return: true, .. } => "kretprobe",
            KernelEvent::TypedFunction { is_return: false, .. } => "fentry",
            KernelEvent::TypedFunction { is_return: true, .. } => "fexit",
            KernelEvent::Clock { .. } => "profile",
            KernelEvent::Counter { kind, .. } => kind.name(),
            KernelEvent::Watchpoint { .. } => "watchpoint",
            KernelEvent::Iterator { .. } => "iter",
        }
    }
}

/// `perf_type_id` of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum CounterKind {
    /// `PERF_TYPE_HARDWARE`: the processor.
    Hardware = 0,
    /// `PERF_TYPE_SOFTWARE`: the kernel.
    Software = 1,
}

impl CounterKind {
    /// Every one.
    pub const ALL: [CounterKind; 2] = [CounterKind::Hardware, CounterKind::Software];

    /// The kind of its probes in scripts.
    pub fn name(self) -> &'static str {
        match self {
            CounterKind::Hardware => "hardware",
            CounterKind::Software => "software",
        }
    }
}
