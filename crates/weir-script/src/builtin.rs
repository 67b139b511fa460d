//! The names a script may use: builtin variables, functions and aggregations. One row each; messages, checks,
//! docs/language.md (a test compares) and later completion come from it.

use weir_event::{Type, Word};
use weir_ir::Builtin;

use crate::limits;

/// A word that stands for a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    pub name: &'static str,
    pub ir: Builtin,
    pub ty: Type,
    pub place: Place,
    pub doc: &'static str,
}

impl Variable {
    /// What `sizeof` says, as bpftrace 0.23 has it: of integers all have 8 but two.
    pub(crate) fn bytes(&self) -> u32 {
        match self.ir {
            Builtin::Pid | Builtin::Tid => 4,
            _ => self.ty.bytes(),
        }
    }
}

/// Where a variable or function has a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Anywhere,
    /// At a probed function: it belongs to the call.
    Target,
    /// At a function's entry, or inside of it, and at no static probe.
    Entry,
    /// Where a call has returned.
    Return,
}

/// What a function does; the check and the lowering have one arm each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// `printf`, and what formats as it does.
    Printf(Prints),
    Print,
    Str,
    Delete,
    HasKey,
    Find,
    Len,
    Pton,
    Cgroupid,
    CgroupPath,
    Strlen,
    Strcap,
    Strstr,
    StrConcat,
    Memcmp,
    Join,
    Getopt,
    /// What is known of its argument before the program runs.
    Is(Is),
    Assert,
    StaticAssert,
    Fail,
    Clear,
    Zero,
    Exit,
    Time,
    Strncmp,
    Strcontains,
    Strerror,
    SignalName,
    Signal {
        to_thread: bool,
    },
    SyscallName,
    Strftime,
    Ntop,
    Macaddr,
    Buf,
    Bswap,
    Reg,
    Usym,
    Ustack,
}

/// What becomes of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prints {
    Output,
    Error,
    Warning,
    File,
    Command,
}

/// What an expression may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is {
    Str,
    Ptr,
    Array,
    Integer,
    UnsignedInteger,
    Literal,
}

impl FunctionKind {
    /// It is true or false.
    pub(crate) fn gives_truth(self) -> bool {
        matches!(
            self,
            FunctionKind::HasKey | FunctionKind::Delete | FunctionKind::Strcontains | FunctionKind::Is(_)
        )
    }

    /// It is an expression, and no statement of its own.
    pub(crate) fn gives_value(self) -> bool {
        use FunctionKind::{
            Assert, Clear, Delete, Exit, Fail, Join, Print, Printf, Signal, StaticAssert, Time, Zero,
        };
        !matches!(
            self,
            Printf(_)
                | Signal { .. }
                | Print
                | Join
                | Delete
                | Clear
                | Zero
                | Exit
                | Time
                | Assert
                | StaticAssert
                | Fail
        )
    }
}

/// A word that is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    pub name: &'static str,
    pub kind: FunctionKind,
    /// Fewest and most arguments.
    pub arity: (usize, usize),
    pub signature: &'static str,
    pub doc: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregationKind {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Stats,
    Hist,
    Lhist,
    Tseries,
}

/// A word that is called and assigned to a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregation {
    pub name: &'static str,
    pub kind: AggregationKind,
    pub arity: (usize, usize),
    pub signature: &'static str,
    pub doc: &'static str,
}

const fn arg(name: &'static str, index: u8, doc: &'static str) -> Variable {
    Variable { name, ir: Builtin::Arg(index), ty: Type::U64, place: Place::Target, doc }
}

const fn float(name: &'static str, index: u8, doc: &'static str) -> Variable {
    Variable { name, ir: Builtin::Float(index), ty: Type::Double, place: Place::Entry, doc }
}

const fn number(name: &'static str, ir: Builtin, doc: &'static str) -> Variable {
    Variable { name, ir, ty: Type::U64, place: Place::Anywhere, doc }
}

pub const VARIABLES: &[Variable] = &[
    number("pid", Builtin::Pid, "Process id of the target (in `BEGIN`, `END` and `interval`: of weir)."),
    number("tid", Builtin::Tid, "Thread id."),
    Variable {
        name: "comm",
        ir: Builtin::Comm,
        ty: Type::Str { bytes: limits::COMM_BYTES },
        place: Place::Anywhere,
        doc: "Name of the thread, at most 15 characters.",
    },
    number("leader_tid", Builtin::Pid, "Id of the process's main thread, which is that of the process."),
    Variable {
        name: "leader_comm",
        ir: Builtin::Pid,
        ty: Type::Word(Word::Process),
        place: Place::Anywhere,
        doc: "Name of the process's main thread, looked up when it is printed; the last that weir saw, where it is gone by then.",
    },
    Variable {
        name: "pcomm",
        ir: Builtin::Pid,
        ty: Type::Word(Word::Process),
        place: Place::Anywhere,
        doc: "The same: bpftrace has both names. `comm(pid)` is that of another process.",
    },
    number("cpu", Builtin::Cpu, "Number of the CPU that the thread runs on."),
    number("uid", Builtin::Uid, "Real user id of the process."),
    number("gid", Builtin::Gid, "Real group id of the process."),
    Variable {
        name: "username",
        ir: Builtin::Uid,
        ty: Type::Word(Word::User),
        place: Place::Anywhere,
        doc: "Name of the real user of the process.",
    },
    number("rand", Builtin::Random, "A random number of 32 bits."),
    number(
        "cgroup",
        Builtin::Cgroup,
        "Number of the control group (version 2) that the process was in when weir looked last; it looks every 100 ms.",
    ),
    number(
        "nsecs",
        Builtin::Nsecs,
        "Nanoseconds of CLOCK_MONOTONIC; `nsecs(monotonic)` is the same, `nsecs(boot)` counts the time that the machine slept too, `nsecs(tai)` and `nsecs(sw_tai)` are CLOCK_TAI.",
    ),
    number("jiffies", Builtin::Jiffies, "Ticks of the kernel's clock since it started."),
    number("numaid", Builtin::NumaNode, "Number of the NUMA node that the thread runs on."),
    number("elapsed", Builtin::Elapsed, "Nanoseconds since tracing began."),
    number(
        "cpid",
        Builtin::Command,
        "Process id of the command that weir has started (`-c`); without one 0, with a warning. `has_cpid` is 1 or 0, a constant.",
    ),
    arg(
        "arg0",
        0,
        "First integer or pointer argument of the probed function, or first argument of the `usdt` probe.",
    ),
    arg("arg1", 1, "Second argument."),
    arg("arg2", 2, "Third argument."),
    arg("arg3", 3, "Fourth argument."),
    arg("arg4", 4, "Fifth argument."),
    arg("arg5", 5, "Sixth argument."),
    arg("arg6", 6, "Seventh argument, of `usdt` probes alone, as all further ones."),
    arg("arg7", 7, "Eighth argument."),
    arg("arg8", 8, "Ninth argument."),
    arg("arg9", 9, "Tenth argument."),
    arg("arg10", 10, "Eleventh argument."),
    arg("arg11", 11, "Twelfth argument."),
    Variable {
        name: "retval",
        // rax: where System V puts an integer or pointer result (psABI 3.2.3).
        ir: Builtin::Register(0),
        ty: Type::U64,
        place: Place::Return,
        doc: "What the function returned, in `uretprobe`: an integer or pointer.",
    },
    float(
        "farg0",
        0,
        "First floating-point argument of the probed function, a double; `(float)farg0` where it is a float.",
    ),
    float("farg1", 1, "Second floating-point argument."),
    float("farg2", 2, "Third one."),
    float("farg3", 3, "Fourth one."),
    float("farg4", 4, "Fifth one."),
    float("farg5", 5, "Sixth one."),
    float("farg6", 6, "Seventh one."),
    float("farg7", 7, "Eighth one."),
    Variable {
        name: "fretval",
        // xmm0: where System V puts a floating-point result (psABI 3.2.3).
        ir: Builtin::Float(0),
        ty: Type::Double,
        place: Place::Return,
        doc: "What the function returned, in `uretprobe`: a double; `(float)fretval` where it is a float.",
    },
    Variable {
        name: "func",
        ir: Builtin::Func,
        ty: Type::Func,
        place: Place::Target,
        doc: "Name of the probed function, or of the function that a `usdt` probe is in.",
    },
    Variable {
        name: "probe",
        ir: Builtin::Probe,
        ty: Type::Probe,
        place: Place::Anywhere,
        doc: "Full name of the probe, such as `uprobe:/usr/bin/bash:readline`.",
    },
    Variable {
        name: PROBE_TYPE,
        // Known when the clause is lowered: a constant.
        ir: Builtin::Probe,
        ty: Type::Str { bytes: limits::COMM_BYTES },
        place: Place::Anywhere,
        doc: "Kind of the probe: `uprobe`, `uretprobe`, `usdt`, `interval`, `self`, `test`, `bench`; of `BEGIN` and `END` `special`.",
    },
];

/// The word for a probe's kind.
pub(crate) const PROBE_TYPE: &str = "probetype";

pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "printf",
        kind: FunctionKind::Printf(Prints::Output),
        arity: (1, 1 + limits::PRINTF_ARGS_MAX),
        signature: "printf(\"format\", …)",
        doc: "Prints text; `%d %i %u %x %X %o %c %p` take integers, `%f %e %g` doubles, `%s` strings, `func`, `probe`, symbols and stacks, `%r %rx %rh` buffers.",
    },
    Function {
        name: "errorf",
        kind: FunctionKind::Printf(Prints::Error),
        arity: (1, 1 + limits::PRINTF_ARGS_MAX),
        signature: "errorf(\"format\", …)",
        doc: "Reports text as an error, with its place in the script, on standard error; in JSON with the output.",
    },
    Function {
        name: "warnf",
        kind: FunctionKind::Printf(Prints::Warning),
        arity: (1, 1 + limits::PRINTF_ARGS_MAX),
        signature: "warnf(\"format\", …)",
        doc: "The same as a warning.",
    },
    Function {
        name: "cat",
        kind: FunctionKind::Printf(Prints::File),
        arity: (1, 1 + limits::PRINTF_ARGS_MAX),
        signature: "cat(\"format\", …)",
        doc: "Prints the file with that path, as weir sees it when it reads the record: `cat(\"/proc/%d/maps\", pid)`; `max_cat_bytes` of it.",
    },
    Function {
        name: "system",
        kind: FunctionKind::Printf(Prints::Command),
        arity: (1, 1 + limits::PRINTF_ARGS_MAX),
        signature: "system(\"format\", …)",
        doc: "Has the shell run the text as a command when weir reads the record, waits for it, and prints its output; with `--unsafe` alone.",
    },
    Function {
        name: "signal",
        kind: FunctionKind::Signal { to_thread: false },
        arity: (1, 1),
        signature: "signal(\"SIGNAME\"), signal(n)",
        doc: "Sends the signal to the traced process, when the clause is over or the next signal is sent; with `--unsafe` alone.",
    },
    Function {
        name: "signal_thread",
        kind: FunctionKind::Signal { to_thread: true },
        arity: (1, 1),
        signature: "signal_thread(\"SIGNAME\"), signal_thread(n)",
        doc: "The same to the thread that the clause runs in.",
    },
    Function {
        name: "print",
        kind: FunctionKind::Print,
        arity: (1, 3),
        signature: "print(@map[, top[, div]]), print(@map[key]), print(value)",
        doc: "Prints a whole map (its `top` largest, divided by `div`), one entry, or a value.",
    },
    Function {
        name: "str",
        kind: FunctionKind::Str,
        arity: (1, 2),
        signature: "str(address[, n]), str($1)",
        doc: "The string at an address in the target, at most `n` bytes, its end included: `str(p, 3)` has two characters; \"\" if it cannot be read.",
    },
    Function {
        name: "delete",
        kind: FunctionKind::Delete,
        arity: (1, 2),
        signature: "delete(@map), delete(@map, key), delete(@map[key])",
        doc: "Removes an entry, and gives 1 if there was one, else 0; a map without keys becomes unset, which gives nothing.",
    },
    Function {
        name: "has_key",
        kind: FunctionKind::HasKey,
        arity: (2, 2),
        signature: "has_key(@map, key)",
        doc: "1 if the map has the key, else 0.",
    },
    Function {
        name: "find",
        kind: FunctionKind::Find,
        arity: (3, 3),
        signature: "find(@map, key, $value)",
        doc: "1 if the map has the key, whose value the variable then has; else 0, and the variable stays as it is.",
    },
    Function {
        name: "len",
        kind: FunctionKind::Len,
        arity: (1, 1),
        signature: "len(@map), len(ustack)",
        doc: "How many entries a map with keys has: each is counted, a round of a loop. How many frames a stack has.",
    },
    Function {
        name: "clear",
        kind: FunctionKind::Clear,
        arity: (1, 1),
        signature: "clear(@map)",
        doc: "Removes all entries.",
    },
    Function {
        name: "zero",
        kind: FunctionKind::Zero,
        arity: (1, 1),
        signature: "zero(@map)",
        doc: "Sets all values to zero and keeps the keys.",
    },
    Function {
        name: "exit",
        kind: FunctionKind::Exit,
        arity: (0, 1),
        signature: "exit([code])",
        doc: "Ends tracing with an exit code; the rest of the block does not run.",
    },
    Function {
        name: "time",
        kind: FunctionKind::Time,
        arity: (0, 1),
        signature: "time([\"format\"])",
        doc: "Prints the local time, as strftime(3) formats it (`\"%H:%M:%S\\n\"`); `%f` are microseconds.",
    },
    Function {
        name: "strncmp",
        kind: FunctionKind::Strncmp,
        arity: (3, 3),
        signature: "strncmp(a, b, n)",
        doc: "0 if the first `n` characters of two strings are the same, else 1; `n` is a constant.",
    },
    Function {
        name: "strlen",
        kind: FunctionKind::Strlen,
        arity: (1, 1),
        signature: "strlen(s)",
        doc: "How many bytes a string has before its end.",
    },
    Function {
        name: "getopt",
        kind: FunctionKind::Getopt,
        arity: (1, 3),
        signature: "getopt(\"name\"[, default[, \"help\"]])",
        doc: "The script's parameter of that name, given as `--param name=value`: of its default's type, true or false without one.",
    },
    Function {
        name: "is_str",
        kind: FunctionKind::Is(Is::Str),
        arity: (1, 1),
        signature: "is_str(e)",
        doc: "1 if the expression is a string, else 0; known before the program runs, as all of these, and so of use in `if comptime`.",
    },
    Function {
        name: "is_ptr",
        kind: FunctionKind::Is(Is::Ptr),
        arity: (1, 1),
        signature: "is_ptr(e)",
        doc: "The same of a pointer.",
    },
    Function {
        name: "is_array",
        kind: FunctionKind::Is(Is::Array),
        arity: (1, 1),
        signature: "is_array(e)",
        doc: "Of an array.",
    },
    Function {
        name: "is_integer",
        kind: FunctionKind::Is(Is::Integer),
        arity: (1, 1),
        signature: "is_integer(e)",
        doc: "Of an integer.",
    },
    Function {
        name: "is_unsigned_integer",
        kind: FunctionKind::Is(Is::UnsignedInteger),
        arity: (1, 1),
        signature: "is_unsigned_integer(e)",
        doc: "Of an integer without a sign.",
    },
    Function {
        name: "is_literal",
        kind: FunctionKind::Is(Is::Literal),
        arity: (1, 1),
        signature: "is_literal(e)",
        doc: "Of a number or a string as it is written.",
    },
    Function {
        name: "assert",
        kind: FunctionKind::Assert,
        arity: (2, 2),
        signature: "assert(a, \"text\")",
        doc: "Where the condition is 0, reports the text as `errorf` does and ends tracing with the exit code 1.",
    },
    Function {
        name: "static_assert",
        kind: FunctionKind::StaticAssert,
        arity: (2, 2),
        signature: "static_assert(a, \"text\")",
        doc: "The same before the program runs, of a constant: the script is refused.",
    },
    Function {
        name: "fail",
        kind: FunctionKind::Fail,
        arity: (1, 1 + limits::PRINTF_ARGS_MAX),
        signature: "fail(\"format\", …)",
        doc: "Refuses the script, where `if comptime` does not leave it out; its arguments are constants.",
    },
    Function {
        name: "strcontains",
        kind: FunctionKind::Strcontains,
        arity: (2, 2),
        signature: "strcontains(s, part)",
        doc: "1 if the string has the part in it, else 0.",
    },
    Function {
        name: "strstr",
        kind: FunctionKind::Strstr,
        arity: (2, 2),
        signature: "strstr(s, part)",
        doc: "Where the part begins in the string, counted in bytes from 0; -1 if it is not in it.",
    },
    Function {
        name: "str_concat",
        kind: FunctionKind::StrConcat,
        arity: (2, 2),
        signature: "str_concat(a, b)",
        doc: "Both strings, one behind the other, at most `max_strlen` bytes of them.",
    },
    Function {
        name: "memcmp",
        kind: FunctionKind::Memcmp,
        arity: (3, 3),
        signature: "memcmp(a, b, n)",
        doc: "Compares the first `n` bytes, a constant, of two strings, arrays or buffers: 0 if they are the same, else -1 or 1 as the first that differs is less in `a` or in `b`.",
    },
    Function {
        name: "strcap",
        kind: FunctionKind::Strcap,
        arity: (1, 1),
        signature: "strcap(s)",
        doc: "How many bytes the place of a string has: a constant; of a pointer to characters, the length of its string.",
    },
    Function {
        name: "join",
        kind: FunctionKind::Join,
        arity: (1, 2),
        signature: "join(strings[, \"separator\"])",
        doc: "Prints the strings of an array of pointers that ends with 0, such as `argv`, and a newline; at most 16 of them, 4,088 bytes in all.",
    },
    Function {
        name: "strerror",
        kind: FunctionKind::Strerror,
        arity: (1, 1),
        signature: "strerror(errno)",
        doc: "What strerror(3) says of an error's number, when it is printed.",
    },
    Function {
        name: "signal_name",
        kind: FunctionKind::SignalName,
        arity: (1, 1),
        signature: "signal_name(n)",
        doc: "What strsignal(3) says of a signal: `Terminated`.",
    },
    Function {
        name: "syscall_name",
        kind: FunctionKind::SyscallName,
        arity: (1, 1),
        signature: "syscall_name(n)",
        doc: "The name of a system call of this machine: `openat`.",
    },
    Function {
        name: "strftime",
        kind: FunctionKind::Strftime,
        arity: (2, 2),
        signature: "strftime(\"format\", nsecs)",
        doc: "The local time at a number of `nsecs`, as strftime(3) formats it; `%f` are microseconds.",
    },
    Function {
        name: "ntop",
        kind: FunctionKind::Ntop,
        arity: (1, 2),
        signature: "ntop([family, ]address)",
        doc: "An internet address: of an integer or 4 bytes IPv4, of 16 bytes IPv6; in network order, as it lies in memory.",
    },
    Function {
        name: "pton",
        kind: FunctionKind::Pton,
        arity: (1, 1),
        signature: "pton(\"address\")",
        doc: "The 4 or 16 bytes of an internet address, as they lie in memory: `$p->addr == pton(\"127.0.0.1\")`.",
    },
    Function {
        name: "cgroupid",
        kind: FunctionKind::Cgroupid,
        arity: (1, 1),
        signature: "cgroupid(\"path\")",
        doc: "The number of the control group that has this folder, a constant: `cgroup == cgroupid(\"/sys/fs/cgroup/system.slice\")`.",
    },
    Function {
        name: "cgroup_path",
        kind: FunctionKind::CgroupPath,
        arity: (1, 2),
        signature: "cgroup_path(cgroup[, \"unified\"])",
        doc: "The path of the control group (version 2) with a number, looked up when it is printed: `unified:/system.slice`.",
    },
    Function {
        name: "macaddr",
        kind: FunctionKind::Macaddr,
        arity: (1, 1),
        signature: "macaddr(bytes)",
        doc: "A MAC address, of an array of 6 bytes: `5E:12:00:AB:01:02`.",
    },
    Function {
        name: "buf",
        kind: FunctionKind::Buf,
        arity: (1, 2),
        signature: "buf(address[, n]), buf(array[, n]), buf(s[, n])",
        doc: "The `n` bytes at an address in the target, or of an array or string, at most `max_strlen`; those of ASCII print as characters, all others as `\\x00`.",
    },
    Function {
        name: "bswap",
        kind: FunctionKind::Bswap,
        arity: (1, 1),
        signature: "bswap(n)",
        doc: "An integer with its bytes in the other order, as many as its width: `bswap((uint16)$port)`.",
    },
    Function {
        name: "reg",
        kind: FunctionKind::Reg,
        arity: (1, 1),
        signature: "reg(\"name\")",
        doc: "A register as it is at the probe: `ax bx cx dx si di bp sp ip flags`, and `r8` and those after it.",
    },
    Function {
        name: "usym",
        kind: FunctionKind::Usym,
        arity: (1, 1),
        signature: "usym(address)",
        doc: "The function of the target that has code at an address, named when it is printed.",
    },
    Function {
        name: "ustack",
        kind: FunctionKind::Ustack,
        arity: (0, 2),
        signature: "ustack, ustack([mode, ]n)",
        doc: "The target's stack by frame pointers, at most `n` frames (127); modes are `bpftrace`, `perf` and `raw`.",
    },
];

/// The one function that may be written without brackets.
pub(crate) fn is_stack(name: &str) -> bool {
    function(name).is_some_and(|row| row.kind == FunctionKind::Ustack)
}

pub const AGGREGATIONS: &[Aggregation] = &[
    Aggregation {
        name: "count",
        kind: AggregationKind::Count,
        arity: (0, 0),
        signature: "count()",
        doc: "How many times.",
    },
    Aggregation {
        name: "sum",
        kind: AggregationKind::Sum,
        arity: (1, 1),
        signature: "sum(n)",
        doc: "The sum.",
    },
    Aggregation {
        name: "avg",
        kind: AggregationKind::Avg,
        arity: (1, 1),
        signature: "avg(n)",
        doc: "The average, rounded towards zero.",
    },
    Aggregation {
        name: "min",
        kind: AggregationKind::Min,
        arity: (1, 1),
        signature: "min(n)",
        doc: "The least.",
    },
    Aggregation {
        name: "max",
        kind: AggregationKind::Max,
        arity: (1, 1),
        signature: "max(n)",
        doc: "The largest.",
    },
    Aggregation {
        name: "stats",
        kind: AggregationKind::Stats,
        arity: (1, 1),
        signature: "stats(n)",
        doc: "Count, average and total.",
    },
    Aggregation {
        name: "hist",
        kind: AggregationKind::Hist,
        arity: (1, 2),
        signature: "hist(n[, bits])",
        doc: "A histogram with buckets that double, each divided into 2^`bits` (a constant from 0 to 5); values above 2^63 - 1 count as negative.",
    },
    Aggregation {
        name: "lhist",
        kind: AggregationKind::Lhist,
        arity: (4, 4),
        signature: "lhist(n, min, max, step)",
        doc: "A histogram with equal buckets; the bounds are constants, at most 1000 buckets.",
    },
    Aggregation {
        name: "tseries",
        kind: AggregationKind::Tseries,
        arity: (3, 4),
        signature: "tseries(n, interval, intervals[, \"kind\"])",
        doc: "A time series: of each interval (`100ms`) its last value, or the `avg`, `max`, `min` or `sum` of its values; the latest `intervals` of them, at most 1000.",
    },
];

/// The settings of the `config` block: name and meaning.
pub const SETTINGS: &[(&str, &str)] = &[
    ("max_strlen", "Bytes of a string that `str` reads, its end included (8 to 4096; 1024)."),
    ("max_map_keys", "Entries of each map (1 to 1048576; 4096)."),
    ("max_probes", "Functions that may be probed at once (1 to 65536; 1024)."),
    (
        "max_loop_iterations",
        "Rounds of loops that one run of a clause may have in all (1 to 8388608; 1048576).",
    ),
    ("max_cat_bytes", "Bytes of a file that `cat` prints (1 to 1048576; 10240)."),
    ("print_maps_on_exit", "Whether all maps are printed at the end: `true` or `false` (true)."),
    (
        "cpp_demangle",
        "Whether `usym` and `ustack` have names of C++ and Rust as people write them: `true` or `false` (true).",
    ),
    ("stack_mode", "How stacks are printed that say nothing of it: `bpftrace`, `perf` or `raw` (bpftrace)."),
    (
        "missing_probes",
        "What to do about probes that are not there or cannot be patched: `error`, `warn` or `ignore` (error).",
    ),
];

/// The row of a builtin variable.
pub fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|row| row.name == name)
}

/// The row of a function.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|row| row.name == name)
}

/// The row of an aggregation.
pub fn aggregation(name: &str) -> Option<&'static Aggregation> {
    AGGREGATIONS.iter().find(|row| row.name == name)
}
