//! The words of events: what a record means and how its bytes lie.
//!
//! A program writes records into a ring; whoever reads them needs nothing but the [`Schema`]. The schema also
//! says what each map of the script means, so that a saved stream can be printed without a live process.
//!
//! A record: `u32` action index (into [`Schema::actions`]), `u32` zero, then the action's fields, each at its
//! own offset (multiples of 8). Integers are little endian. Strings are NUL-padded byte arrays; one that fills
//! its array has no NUL. A string that could not be read is empty, and the fault is counted.
//!
//! Programs that record events with all their fields write other records: [`recorded`].

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod ctype;
pub mod kernel;
pub mod recorded;
pub mod schema;
pub mod signal;

use crate::ctype::{CTypes, TypeId};

/// Bytes before a record's fields.
pub const RECORD_HEADER_BYTES: u32 = 8;

/// Everything a reader must know of one compiled script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Schema {
    /// What records ask for, by action index.
    pub actions: Vec<Action>,
    /// The script's own maps (`@name`), in order of first use. Internal maps are not listed.
    pub maps: Vec<MapSchema>,
    /// Names behind [`Type::Probe`] and [`Type::Func`] values: the attach cookie is the index.
    pub sites: Vec<SiteName>,
    /// C types that values are of.
    pub types: CTypes,
    /// Events that are recorded with all their fields ([`recorded`]), by number. A module that has some writes no other records.
    pub events: Vec<schema::Schema>,
    /// Maps are not printed at the end of their own accord.
    pub hides_maps: bool,
    /// Functions of C++ and Rust have the names that files have for them.
    pub shows_mangled: bool,
}

/// What `probe` and `func` print for one attach cookie.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SiteName {
    /// As bpftrace prints it: `uprobe:/lib/x86_64-linux-gnu/libc.so.6:malloc`.
    pub probe: String,
    /// `malloc`.
    pub func: String,
}

/// The type of a value in a record, in a key or in a map.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// 8 bytes.
    Int {
        /// How it is printed and compared.
        signed: bool,
    },
    /// 8 bytes: a floating-point number (IEEE 754 binary64).
    Double,
    /// A NUL-padded string of so many bytes (a multiple of 8).
    Str {
        /// Of its place; the text ends at the first NUL.
        bytes: u32,
    },
    /// 8 bytes: an attach cookie, printed as the full probe name.
    Probe,
    /// 8 bytes: an attach cookie, printed as the function's name.
    Func,
    /// 16 bytes: an address in a traced process, then the process's id, or [`KERNEL_PID`]; printed as the function there.
    Usym,
    /// 8 bytes: where the addresses of a process's stack are, or of the kernel's ([`StackId`]); printed as its functions. No id: no stack.
    Ustack(StackForm),
    /// 8 bytes: an address, printed with `0x`, of what the schema's table of C types has under this number.
    Pointer(TypeId),
    /// 8 bytes: a number that prints as what it stands for.
    Word(Word),
    /// The bytes of a C record or array, then zeros up to a multiple of 8.
    Object {
        /// What it is, in the schema's table of C types.
        ty: TypeId,
        /// Of its place, zeros included.
        bytes: u32,
    },
    /// 24 bytes: an address family, then an address of 4 or 16 bytes in network order.
    Inet,
    /// 8 bytes: how many bytes it has; then these, and zeros up to the end of its place.
    Buffer {
        /// Of its place, with the length (a multiple of 8).
        bytes: u32,
    },
    /// The parts one after the other, without gaps (each is a multiple of 8 bytes).
    Tuple(Vec<Type>),
    /// The same, of parts that have names.
    Record(Vec<(String, Type)>),
}

/// What a number stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// `true` or `false`.
    Truth,
    /// A value of an enumeration, which the schema's table of C types has.
    Enum(TypeId),
    /// An error of the system: `No such file or directory`.
    Errno,
    /// `SIGTERM`.
    Signal,
    /// A system call of the machine: `openat`.
    Syscall,
    /// The name of the user with this id.
    User,
    /// The 6 bytes of a MAC address, the first lowest.
    Mac,
    /// The name of the process with this id.
    Process,
    /// The path of the control group of version 2 with this number.
    Cgroup,
    /// Nanoseconds of CLOCK_MONOTONIC: the local time then.
    Time {
        /// As strftime(3) has it.
        format: String,
    },
}

impl Word {
    /// Those without a format, each with its name in the IR's text form.
    pub const NAMES: [(Word, &'static str); 8] = [
        (Word::Truth, "truth"),
        (Word::Errno, "errno"),
        (Word::Signal, "signal"),
        (Word::Syscall, "syscall"),
        (Word::User, "user"),
        (Word::Mac, "mac"),
        (Word::Process, "process"),
        (Word::Cgroup, "cgroup"),
    ];
}

/// How a stack is recorded and printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StackForm {
    /// How it is printed.
    pub mode: StackMode,
    /// Most frames, up to [`STACK_FRAMES_MAX`].
    pub frames: u32,
}

/// How frames print: bpftrace's modes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StackMode {
    /// `function+offset`
    Bpftrace,
    /// The address, `function+offset` and the file, as `perf script` prints them.
    Perf,
    /// The address alone.
    Raw,
}

impl StackMode {
    /// Each with its name in scripts.
    pub const NAMES: [(StackMode, &'static str); 3] =
        [(StackMode::Bpftrace, "bpftrace"), (StackMode::Perf, "perf"), (StackMode::Raw, "raw")];

    /// As scripts write it.
    pub fn name(self) -> &'static str {
        match self {
            StackMode::Bpftrace => "bpftrace",
            StackMode::Perf => "perf",
            StackMode::Raw => "raw",
        }
    }
}

/// Most frames of a stack (the kernel's PERF_MAX_STACK_DEPTH).
pub const STACK_FRAMES_MAX: u32 = 127;

/// Where code can be: nothing is mapped on the first page, nor where the kernel is. A chain of frame pointers that leads through functions without them
/// ends in other words, as a rule in small numbers.
pub const CODE_ADDRESSES: std::ops::Range<u64> = 4096..1 << 47;

/// Tables that the stacks of one depth are kept in. A stack whose place in the first is taken by another goes to the next.
pub const STACK_TABLES: u32 = 3;

/// What stands for the kernel where a process's id is wanted. No process has it.
pub const KERNEL_PID: u32 = u32::MAX;

/// What a value of type [`Type::Ustack`] holds: a process id above, and below it a table (in the highest 2 bits) and the
/// number of the stack in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackId {
    /// The process whose stack it is, or [`KERNEL_PID`].
    pub pid: u32,
    /// The table of stacks that has it.
    pub table: u32,
    /// Its place there.
    pub number: u32,
}

impl StackId {
    /// Bits of the number.
    pub const NUMBER_BITS: u32 = 30;

    /// `None` for a value that stands for no stack.
    pub fn of(value: u64) -> Option<StackId> {
        let (pid, low) = ((value >> 32) as u32, value as u32);
        let (table, number) = (low >> StackId::NUMBER_BITS, low & ((1 << StackId::NUMBER_BITS) - 1));
        (pid != 0 && table < STACK_TABLES).then_some(StackId { pid, table, number })
    }
}

impl Type {
    /// A signed integer.
    pub const I64: Type = Type::Int { signed: true };
    /// An unsigned integer.
    pub const U64: Type = Type::Int { signed: false };

    /// True where a value is more than a register holds, or may be.
    pub fn is_in_memory(&self) -> bool {
        matches!(
            self,
            Type::Str { .. }
                | Type::Usym
                | Type::Object { .. }
                | Type::Inet
                | Type::Buffer { .. }
                | Type::Tuple(_)
                | Type::Record(_)
        )
    }

    /// Bytes of a value of this type, a multiple of 8.
    pub fn bytes(&self) -> u32 {
        match self {
            Type::Int { .. }
            | Type::Double
            | Type::Probe
            | Type::Func
            | Type::Ustack(_)
            | Type::Pointer(_)
            | Type::Word(_) => 8,
            Type::Usym => 16,
            Type::Inet => 24,
            Type::Str { bytes } | Type::Object { bytes, .. } | Type::Buffer { bytes } => *bytes,
            Type::Tuple(parts) => parts.iter().map(Type::bytes).sum(),
            Type::Record(parts) => parts.iter().map(|(_, part)| part.bytes()).sum(),
        }
    }
}

/// One value in a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Byte offset from the start of the record.
    pub offset: u32,
    /// What is there.
    pub ty: Type,
}

/// What a record asks its reader to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// `printf(format, …)`, and what formats as it does.
    Printf {
        /// What becomes of the text.
        to: PrintTo,
        /// As the script has it.
        format: String,
        /// Where each argument is in the record.
        args: Vec<Field>,
    },
    /// `print(expression)`.
    PrintValue {
        /// Where it is in the record.
        value: Field,
    },
    /// `print(@map[, top[, div]])`; 0 where not given.
    PrintMap {
        /// Index in the schema.
        map: usize,
        /// So many entries with the greatest values; 0: all.
        top: u64,
        /// Values are divided by it; 0 and 1: they are not.
        div: u64,
    },
    /// `print(@map[key])`.
    PrintMapKey {
        /// Index in the schema.
        map: usize,
        /// Where it is in the record.
        key: Field,
    },
    /// `clear(@map)`.
    ClearMap {
        /// Index in the schema.
        map: usize,
    },
    /// `zero(@map)`.
    ZeroMap {
        /// Index in the schema.
        map: usize,
    },
    /// `time([format])`: the local time when the record is read.
    Time {
        /// As strftime(3) has it.
        format: String,
    },
    /// `join(strings[, separator])`.
    Join {
        /// What stands between two of them.
        separator: String,
        /// Where they are in the record: a word, how many there are, and then these, a NUL behind each.
        strings: Field,
    },
    /// A loop of the script had as many rounds as a run may have, and the run ended there.
    LoopEnded {
        /// The clause's probes.
        clause: String,
        /// Of the loop, in the script.
        line: u32,
    },
    /// `exit([code])`.
    Exit {
        /// Where it is in the record; none: 0.
        code: Option<Field>,
    },
}

/// What becomes of a text that a script formats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrintTo {
    /// `printf`: it is printed.
    Output,
    /// `errorf`: it is reported as an error, at this place of the script.
    Error(String),
    /// `warnf`: as a warning.
    Warning(String),
    /// `cat`: it is the path of a file, whose content is printed, so many bytes at most.
    File(u32),
    /// `system`: it is a command for the shell, whose output is printed.
    Command,
}

/// What one of the script's maps holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapSchema {
    /// With the `@`: `@bytes`; `@` alone for the nameless map.
    pub name: String,
    /// Index of the eBPF map in the object.
    pub map_index: u32,
    /// None for a scalar map (`@x`).
    pub key: Option<Type>,
    /// What an entry holds.
    pub value: MapValue,
    /// Where it is declared; else it has as many entries as all have.
    pub room: Option<MapRoom>,
}

/// How many entries a map has, and what becomes of new keys when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRoom {
    /// The most there are at once.
    pub entries: u32,
    /// The key that was used least lately gives way, instead of the new one.
    pub evicts: bool,
}

/// The value of a script map and its bytes. "word n" is the u64 at byte 8 n. A scalar map is an array kind with
/// one entry. Per-CPU: the sum of each word over all lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapValue {
    /// HASH: the value alone. ARRAY (scalar map): the value, then a u64 that is 1 once assigned.
    Plain(Type),
    /// Per-CPU. Word 0: count.
    Count,
    /// Per-CPU. Word 0: sum, word 1: number of values.
    Sum {
        /// Of what is added up.
        signed: bool,
    },
    /// Per-CPU. As `Sum`; printed as sum / number.
    Avg {
        /// Of what is averaged.
        signed: bool,
    },
    /// Per-CPU. As `Sum`; printed as count, average, total.
    Stats {
        /// Of what is added up and averaged.
        signed: bool,
    },
    /// Not per-CPU. Word 0: the complement of `encode(x)`'s maximum, kept as a growing u64: for signed,
    /// `encode(x) = !(x ^ i64::MIN)`; for unsigned `!x`. Word 1: number of values (0 = never set).
    Min {
        /// Of what is compared.
        signed: bool,
    },
    /// Not per-CPU. Word 0: maximum of `encode(x)`: for signed `x ^ i64::MIN`, for unsigned `x`. Word 1: number.
    Max {
        /// Of what is compared.
        signed: bool,
    },
    /// Per-CPU. [`hist_buckets`] words: 0: x < 0, then each power of two in 2^bits buckets, those below it with one number each. With no
    /// bits, 1: x = 0, 2: x = 1, n: 2^(n-2) ≤ x < 2^(n-1).
    Hist {
        /// 0 to [`HIST_BITS_MAX`].
        bits: u8,
    },
    /// Per-CPU. `2 + (max - min) / step` words (rounded up): below min, each step, at or above max.
    Lhist {
        /// Where the first bucket begins.
        min: i64,
        /// Where the last one ends.
        max: i64,
        /// What each covers.
        step: i64,
    },
    /// Not per-CPU. Three words for each interval, of which the one with the number n since CLOCK_MONOTONIC began is in place
    /// n % `intervals`: n + 1 (0: none), its value (of `Min` and `Max` as those have it), how many values there were.
    Tseries {
        /// Nanoseconds.
        interval_ns: u64,
        /// How many are kept.
        intervals: u32,
        /// What is made of the values of one.
        of: Series,
        /// Of what is observed.
        signed: bool,
    },
}

/// What a time series keeps of the values of one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Series {
    /// The last one.
    Last,
    /// Their average.
    Avg,
    /// The largest.
    Max,
    /// The least.
    Min,
    /// Their sum.
    Sum,
}

impl Series {
    /// Each with its name in scripts; that of the last one is written by nobody.
    pub const NAMES: [(Series, &'static str); 5] = [
        (Series::Last, "last"),
        (Series::Avg, "avg"),
        (Series::Max, "max"),
        (Series::Min, "min"),
        (Series::Sum, "sum"),
    ];

    /// As scripts write it.
    pub fn name(self) -> &'static str {
        Series::NAMES.iter().find(|(series, _)| *series == self).map_or("", |(_, name)| name)
    }
}

/// Words of one interval of a time series.
pub const SERIES_WORDS: u32 = 3;

/// Most buckets of `hist` for a power of two, as a power of two.
pub const HIST_BITS_MAX: u8 = 5;

impl MapValue {
    /// Words of the value in the eBPF map. `scalar`: the map has no key.
    pub fn words(&self, scalar: bool) -> u32 {
        match self {
            MapValue::Plain(ty) => ty.bytes() / 8 + u32::from(scalar),
            MapValue::Count => 1,
            MapValue::Sum { .. } | MapValue::Avg { .. } | MapValue::Stats { .. } => 2,
            MapValue::Min { .. } | MapValue::Max { .. } => 2,
            MapValue::Hist { bits } => hist_buckets(*bits),
            MapValue::Tseries { intervals, .. } => SERIES_WORDS * intervals,
            MapValue::Lhist { min, max, step } => lhist_buckets(*min, *max, *step),
        }
    }

    /// True if the map is a per-CPU kind, whose words are summed over lanes.
    pub fn is_per_cpu(&self) -> bool {
        !matches!(
            self,
            MapValue::Plain(_) | MapValue::Min { .. } | MapValue::Max { .. } | MapValue::Tseries { .. }
        )
    }
}

/// Buckets of `hist(n, bits)`.
pub fn hist_buckets(bits: u8) -> u32 {
    let bits = u32::from(bits.min(HIST_BITS_MAX));
    2 + ((64 - bits) << bits) + (1 << bits) - 1
}

/// The bucket that a value is in.
pub fn hist_bucket(value: i64, bits: u8) -> u32 {
    let each = 1i64 << bits;
    match value {
        i64::MIN..=-1 => 0,
        _ if value < each => value as u32 + 1,
        _ => {
            let shift = value.ilog2() - u32::from(bits);
            1 + ((shift + 1) << bits) + ((value >> shift) - each) as u32
        }
    }
}

/// Buckets of `lhist(min, max, step)`: one below, one above and one for each step between.
pub fn lhist_buckets(min: i64, max: i64, step: i64) -> u32 {
    let span = (max as i128 - min as i128 + step as i128 - 1) / step as i128;
    2 + u32::try_from(span).unwrap_or(u32::MAX - 2)
}
