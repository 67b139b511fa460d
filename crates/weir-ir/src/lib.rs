//! The words between front ends and code generation: typed, in SSA form.
//!
//! A front end builds a [`Module`]; passes rewrite it; weir-codegen turns it into an eBPF object. The IR says
//! *what* a probe does (add to an aggregation, emit a record), not *how* in eBPF: look-ups, null checks and
//! scratch memory are weir-codegen's. Its text form ([`text`]) is printed by `--emit ir` and parses back.
//!
//! Invariants, checked by [`check`]: every value is defined once, before its uses on every path; types of
//! operands fit the table in [`Inst`]; every block ends in a terminator; a jump goes forward, to a higher index, or back to
//! the head of a loop: a block, not the first, that every path to the jump passes. So a value's definition has a lower place than
//! its uses, but for parameters of loop heads, which the jumps back write anew. What bounds the rounds is [`Op::MayLoop`].
//!
//! Types: a value is never a tuple, and never a pointer or a word: those are integers. Where an integer or one of them is wanted, either signedness fits; where a string of N bytes
//! is wanted, a shorter one fits (it is padded with zeros). A tuple key or field takes one value per leaf, with
//! nested tuples laid flat. A tuple as a map's value, and an `Inet`, is an `Object` of as many bytes. A `Buffer` is an `Object` of
//! no type of its own, and of such a shorter one fits, as of strings.

#![forbid(unsafe_code)]

pub mod argument;
mod around;
pub mod automaton;
pub mod check;
pub mod dominators;
pub mod filter;
pub mod flight;
pub mod isa;
pub mod limits;
mod ops;
pub mod pass;
pub mod record;
pub mod sides;
pub mod text;
pub mod trigger;
pub mod world;

use std::sync::Arc;

use weir_event::kernel::KernelEvent;
use weir_event::{Schema, StackForm, Type};
use weir_source::Span;

pub use crate::automaton::Automaton;
pub use crate::ops::{Effect, compared, fits, leaves};
pub use crate::world::{
    ArgumentPlace, FoundArgument, FoundField, FoundFunction, FoundPlace, FoundPrototype, FoundStatic,
    FoundTracepoint, KERNEL, PlaceSpec, StaticKind, Step, World, WorldError,
};

/// A compiled script before code generation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    pub functions: Vec<Function>,
    /// Actions, script maps and site names. `MapSchema::map_index` is not yet meaningful (weir-codegen sets it);
    /// an [`MapId`] is an index into `schema.maps`.
    pub schema: Schema,
    /// Entries of each keyed map (bpftrace's max_map_keys, 4096).
    pub max_map_keys: u32,
    /// What is done about places that were named and cannot be probed.
    pub missing_probes: MissingProbes,
    /// Rounds of loops that one run of a function may have in all; 0: [`limits::LOOP_ITERATIONS`].
    pub max_loop_iterations: u32,
}

/// What is done about a place that is not there, or cannot be probed. Of what only a pattern names, those that can be are
/// probed in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingProbes {
    /// Nothing is traced.
    #[default]
    Error,
    /// It is told, and the rest is traced.
    Warn,
    Ignore,
}

impl MissingProbes {
    /// Each with its name in the text form, and in scripts.
    pub const NAMES: [(MissingProbes, &'static str); 3] =
        [(MissingProbes::Error, "error"), (MissingProbes::Warn, "warn"), (MissingProbes::Ignore, "ignore")];
}

/// When a function runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trigger {
    Begin,
    End,
    /// Every so many nanoseconds, in the controller.
    Interval {
        period_ns: u64,
    },
    /// When weir is asked to run it, in the controller.
    Asked {
        by: Asked,
    },
    /// At entry of each of these functions, in the target.
    Uprobe {
        sites: Vec<SiteSpec>,
    },
    /// Where a call of each of these functions has returned.
    Uretprobe {
        sites: Vec<SiteSpec>,
    },
    /// At entry of each of these functions and again where the same call has returned ([`Builtin::IsReturn`]).
    Session {
        sites: Vec<SiteSpec>,
    },
    /// At each of these places of static probes, in the target.
    Usdt {
        sites: Vec<StaticSpec>,
    },
    /// At each of these events of the kernel's, all of one kind.
    Kernel {
        sites: Vec<KernelSite>,
    },
    /// Wherever an event is offered, with the event's raw fields as 8-byte slots ([`Builtin::Slot`]). It decides whether the
    /// event is kept: yes where it ends in [`Terminator::Accept`], no where in `Return`.
    Filter,
}

impl Trigger {
    /// The functions that it is at; none for static probes and what runs in the controller.
    pub fn sites(&self) -> &[SiteSpec] {
        match self {
            Trigger::Uprobe { sites } | Trigger::Uretprobe { sites } | Trigger::Session { sites } => sites,
            Trigger::Begin
            | Trigger::End
            | Trigger::Interval { .. }
            | Trigger::Asked { .. }
            | Trigger::Usdt { .. }
            | Trigger::Kernel { .. }
            | Trigger::Filter => &[],
        }
    }

    /// The attach cookies of all its places.
    pub fn cookies(&self) -> Vec<u64> {
        match self {
            Trigger::Usdt { sites } => sites.iter().map(|site| site.cookie).collect(),
            Trigger::Kernel { sites } => sites.iter().map(|site| site.cookie).collect(),
            other => other.sites().iter().map(|site| site.cookie).collect(),
        }
    }

    /// It runs where an event is, not in the controller.
    pub fn is_probe(&self) -> bool {
        !matches!(self, Trigger::Begin | Trigger::End | Trigger::Interval { .. } | Trigger::Asked { .. })
    }

    /// It is at both ends of calls: [`Builtin::IsReturn`] says at which, and both have one cookie.
    pub fn is_session(&self) -> bool {
        match self {
            Trigger::Session { .. } => true,
            Trigger::Kernel { sites } => {
                let mut sites = sites.iter();
                sites.any(|site| matches!(site.event, weir_event::kernel::KernelEvent::Call { .. }))
            }
            _ => false,
        }
    }

    /// It is at an event of the kernel's.
    pub fn is_kernel(&self) -> bool {
        matches!(self, Trigger::Kernel { .. })
    }
}

/// What asks weir to run a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// SIGUSR1.
    Signal,
    /// A run of the script's tests.
    Test,
    /// A run of its benchmarks.
    Bench,
}

impl Asked {
    /// Each with its name in the text form.
    pub const NAMES: [(Asked, &'static str); 3] =
        [(Asked::Signal, "signal"), (Asked::Test, "test"), (Asked::Bench, "bench")];
}

/// One event of the kernel's that a program runs at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelSite {
    pub event: KernelEvent,
    /// Index into `schema.sites`.
    pub cookie: u64,
}

/// One place of a static probe, as the world resolved it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticSpec {
    /// Resolved path of the binary.
    pub binary: String,
    pub provider: String,
    pub name: String,
    /// Link address.
    pub address: u64,
    /// Link address of the word that counts its tracers.
    pub semaphore: Option<u64>,
    /// Index into `schema.sites`.
    pub cookie: u64,
    /// A pattern matched it: nobody has asked for it by name.
    pub by_pattern: bool,
}

/// One function to probe, or an instruction, as the world resolved it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteSpec {
    /// Resolved path of the binary, as `probe` prints it.
    pub binary: String,
    /// As `probe` prints it: for a place inside, with the offset.
    pub function: String,
    /// Link address of an instruction; none: the function's entry.
    pub address: Option<u64>,
    /// Index into `schema.sites`.
    pub cookie: u64,
    /// A pattern matched it: nobody has asked for it by name.
    pub by_pattern: bool,
}

/// One action block.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// As the user wrote the probe: `uprobe:libc:malloc`.
    pub name: String,
    pub trigger: Trigger,
    /// Types of all values, by [`Value`] index.
    pub types: Vec<Type>,
    /// Block 0 is the entry and has no parameters.
    pub blocks: Vec<Block>,
    /// Where each block's instructions came from is not kept yet; the whole clause is.
    pub span: Span,
}

/// An SSA value of one function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(pub u32);

/// A block of one function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

/// Index into `Schema::maps`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MapId(pub u32);

/// Index into `Schema::events`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EventId(pub u32);

/// Index into `Schema::actions`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ActionId(pub u32);

#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    pub params: Vec<Value>,
    pub insts: Vec<Inst>,
    pub end: Terminator,
}

/// Two-operand arithmetic on 64-bit integers. Division and remainder by zero follow eBPF (0 and the dividend).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    UDiv,
    SDiv,
    UMod,
    SMod,
    And,
    Or,
    Xor,
    /// Shift counts are taken modulo 64.
    Shl,
    LShr,
    AShr,
}

/// Comparisons; the result is 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CmpOp {
    Eq,
    Ne,
    ULt,
    ULe,
    UGt,
    UGe,
    SLt,
    SLe,
    SGt,
    SGe,
}

/// A builtin that reads where the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Builtin {
    /// Integer argument 0..=5 of the probed function.
    Arg(u8),
    /// A register as it was at the probe: 0 to 15 by x86-64 encoding (rax, rcx, rdx, rbx, rsp, …), 16 is ip, 17 flags.
    Register(u8),
    /// `Double`: the low 8 bytes of xmm0 to xmm7 as they were at the probe: floating-point argument 0..=7, or the result.
    Float(u8),
    /// Of a filter: the 8 bytes of slot 0 to 20 of the event.
    Slot(u8),
    /// Of a program at an event of the kernel's: the integer of 1, 2, 4 or 8 bytes at this offset of what it is given, which is a
    /// multiple of them; extended with zeros.
    Field {
        offset: u16,
        bytes: u8,
    },
    /// Of the same: the address of what it is given.
    Context,
    /// Of the same: the address of the running thread's `struct task_struct`.
    Task,
    /// Of a session: 1 where the call has returned, 0 at its entry.
    IsReturn,
    /// Of a session: the integer that the same call has set before ([`Op::SetSessionCookie`]); 0 if none.
    SessionCookie,
    Pid,
    Tid,
    Cpu,
    /// The real user id of the process.
    Uid,
    /// The real group id of the process.
    Gid,
    /// 32 random bits.
    Random,
    /// The number of the process's control group (version 2), as the controller has seen it; 0: not known.
    Cgroup,
    /// Nanoseconds of CLOCK_MONOTONIC.
    Nsecs,
    /// The same of CLOCK_BOOTTIME, and of CLOCK_TAI.
    BootNsecs,
    TaiNsecs,
    /// Ticks of the kernel's clock since it started.
    Jiffies,
    /// Number of the NUMA node that the thread runs on.
    NumaNode,
    /// Nanoseconds since the session began.
    Elapsed,
    /// Process id of the command that the controller has started.
    Command,
    /// `Str { bytes: 16 }`.
    Comm,
    /// Type `Probe` / `Func`.
    Probe,
    Func,
}

/// Where a value is put into a place that has a type of its own (a block's parameter, a map's key or value, a
/// record's field), the value fits if both are integers of either sign, or equal types, or two strings of which
/// the value's is not longer; a shorter string is padded with NULs.
///
/// What an instruction computes. `key` is None for a scalar map, else a value of the map's key type
/// (for a tuple key: one value per part, in order).
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// An integer constant. With a result of type `Probe` or `Func`: that attach cookie; of type `Double`: its bits.
    Int(i64),
    /// A string constant, padded to the result type's bytes; an `Object` of zeros where it is empty.
    Str(String),
    Builtin(Builtin),
    /// Operands and result may be of type `Double`: their bits are the integers.
    Bin(BinOp, Value, Value),
    /// Of two integers; of two `Probe` or two `Func` values only `Eq` and `Ne`. The result is an integer.
    Cmp(CmpOp, Value, Value),
    /// Equality of two strings, up to the first NUL, or of two buffers or arrays: 1 if equal (or, with `negate`, if not).
    StrEq {
        a: Value,
        b: Value,
        negate: bool,
        /// Of the first so many bytes alone, of strings.
        first: Option<u32>,
    },
    /// What an automaton says of a text: 1 if it matches, else 0. An integer is the address of a NUL-terminated
    /// string in the target, of which `bytes_max` bytes are looked at; one that cannot be read is empty (counted by the
    /// runtime). A string is looked at up to its first NUL.
    Match {
        text: Value,
        bytes_max: u32,
        automaton: Arc<Automaton>,
    },
    /// Reads a NUL-terminated string at an address in the target; empty on a fault (counted by the runtime).
    /// The result type's `bytes` is the limit; at most `bytes` - 1 characters are read and a NUL follows. With
    /// `limit`, an unsigned integer, at most that many characters (sizes are multiples of 8, so that the type alone cannot say it)
    /// and no NUL among them: what a script calls `str(p, 4)` has a limit of 3.
    ReadStr {
        address: Value,
        limit: Option<Value>,
    },
    /// Of a filter: 1 if the text whose address is in this slot of the event begins with `text` (with `ends`: is `text`), else 0,
    /// also where the address is 0. Only for slots that hold texts which the traced program vouches for: they are read directly.
    /// At a probe the slot is that of a register ([`isa::native::REGISTER_SLOTS`]).
    TextBegins {
        slot: u8,
        text: String,
        ends: bool,
    },
    /// An integer of 1, 2, 4 or 8 bytes at an address in the target, zero-extended; 0 on a fault (counted by the
    /// runtime).
    ReadInt {
        address: Value,
        bytes: u8,
    },
    /// So many bytes at an address in the target, as its result, an `Object`, is laid out; zeros on a fault (counted by the runtime).
    /// With `limit`, an unsigned integer, at most that many, and zeros behind.
    ReadBytes {
        address: Value,
        bytes: u32,
        limit: Option<Value>,
    },
    /// So many bytes of an `Object`, from `offset` on: as an integer of 1, 2, 4 or 8 bytes, zero-extended; as a string, which ends at the
    /// first NUL or with them; or as an `Object`. Of a string one character, as an integer.
    Part {
        of: Value,
        offset: u32,
        bytes: u32,
    },
    /// Bytes of a string before its end.
    StrLen(Value),
    /// Where the one string is first found in the other, in bytes from its start; -1 where it is not in it.
    StrFind {
        text: Value,
        part: Value,
    },
    /// The one string behind the other. What has no room in the result is cut off, so that a NUL ends it.
    StrCat {
        a: Value,
        b: Value,
    },
    /// Compares the first so many bytes of two strings or objects, zeros behind the shorter one: below 0, 0 or above, by the first that
    /// differ.
    MemCmp {
        a: Value,
        b: Value,
        bytes: u32,
    },
    /// Reads up to `most` strings by the pointers at an address in the target, up to one that is 0, `each` bytes at most of each: an
    /// `Object` of their number, and then these with their NULs, one after the other. What has no room is cut off.
    ReadStrings {
        address: Value,
        most: u32,
        each: u32,
    },
    /// Values one after the other, each with as many bytes as are said, padded with zeros: an `Object`.
    Join(Vec<(Value, u32)>),
    /// An address in the traced process, with the process's id: type `Usym`.
    UserSymbol {
        address: Value,
    },
    /// The stack of the traced process at the probe, of the form that its result type, `Ustack`, has.
    UserStack(StackForm),
    /// The same of the kernel, of a program at an event of its own.
    KernelSymbol {
        address: Value,
    },
    KernelStack(StackForm),
    /// How many frames the traced process's stack has, at most so many: an integer.
    StackLength(u32),
    /// 1 if the run may begin another round of a loop, which it then has; 0 if it has had as many as it may, in all its loops
    /// together. Every round asks.
    MayLoop,
    /// What the program that the user gave says of this event, 32 bits: it is called with the probe's context, and may change
    /// maps of its own.
    CallProgram,
    /// The value at a key, 0 or "" where there is none. For `Count`, `Sum`, `Avg` (the quotient), `Min` and `Max`: the integer
    /// that the map would print.
    MapGet {
        map: MapId,
        key: Vec<Value>,
    },
    /// The key that comes after a cursor, of which 0 is before the first: an `Object` of a word, the cursor behind it, and the key's values
    /// one after the other; zeros where none comes. A key that is there all the time comes once, in an order that nobody knows.
    MapNext {
        map: MapId,
        cursor: Value,
    },
    /// 1 if the key is present.
    MapHas {
        map: MapId,
        key: Vec<Value>,
    },
    /// Sets the value at a key (`Plain` maps).
    MapSet {
        map: MapId,
        key: Vec<Value>,
        value: Value,
    },
    /// Atomically adds to the value at a key (`Plain` integer maps); yields the value before.
    MapAdd {
        map: MapId,
        key: Vec<Value>,
        delta: Value,
    },
    /// Removes a key (a scalar map becomes unset).
    MapDelete {
        map: MapId,
        key: Vec<Value>,
    },
    /// Adds one observation to an aggregation map. `value` is None for `Count`.
    Aggregate {
        map: MapId,
        key: Vec<Value>,
        value: Option<Value>,
    },
    /// Of a session: leaves an integer for the return of the same call.
    SetSessionCookie {
        value: Value,
    },
    /// Sends this signal to the process in which the program runs, or to its thread, by the end of the run.
    Signal {
        number: Value,
        to_thread: bool,
    },
    /// Writes a record for the action; `args` are its fields in order (a tuple field: one value per part).
    Emit {
        action: ActionId,
        args: Vec<Value>,
    },
    /// Writes a record of the event ([`weir_event::recorded`]); `args` are what its slots hold: integers, floating-point numbers as
    /// their bits, addresses. Of texts, arrays, sequences and structures, but not of strings, the traced program vouches for the
    /// memory: where a register at the probe has its address it is read directly. An array of 16 characters may be a string of 16 bytes too.
    /// Where `marked` is 1, and not 0, the record is marked.
    Record {
        event: EventId,
        args: Vec<Value>,
        marked: Option<Value>,
    },
}

/// An instruction; `result` is None exactly for MapSet, MapDelete, Aggregate, SetSessionCookie, Signal, Emit and Record.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    pub result: Option<Value>,
    pub op: Op,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Terminator {
    Jump {
        to: BlockId,
        args: Vec<Value>,
    },
    /// To `then` if `condition` is not 0.
    Branch {
        condition: Value,
        then: BlockId,
        then_args: Vec<Value>,
        otherwise: BlockId,
        otherwise_args: Vec<Value>,
    },
    Return,
    /// Of a filter: the event is kept.
    Accept,
}
