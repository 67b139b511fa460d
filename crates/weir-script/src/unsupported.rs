//! What bpftrace 0.23 and later have and weir does not have yet: recognised by name, so that the message can say
//! so instead of "unknown". One row each; the row goes when the feature comes.

/// Where the name can stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Function,
    Builtin,
    Probe,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unsupported {
    pub kind: Kind,
    pub name: &'static str,
    pub hint: &'static str,
}

impl Unsupported {
    pub(crate) fn message(&self) -> String {
        let what = match self.kind {
            Kind::Function => format!("the function `{}`", self.name),
            Kind::Builtin => format!("the builtin `{}`", self.name),
            Kind::Probe => format!("`{}` probes", self.name),
        };
        format!("not supported by weir yet: {what}")
    }
}

/// The row of `name`, if it stands for something of that kind.
pub(crate) fn find(kind: Kind, name: &str) -> Option<&'static Unsupported> {
    UNSUPPORTED.iter().find(|row| row.kind == kind && row.name == name)
}

const fn row(kind: Kind, name: &'static str, hint: &'static str) -> Unsupported {
    Unsupported { kind, name, hint }
}

const STACKS: &str = "it is of the kernel: the clause of a `tracepoint`, `kprobe` or `profile` has it; `ustack` is the process's";
const IN_KERNEL: &str = "it runs in the kernel: `weir trace` runs it there, without `--engine user`";
const EVENTS: &str = "weir traces functions of processes, and `interval`, `BEGIN` and `END`";
const KERNEL: &str = "it is of the kernel, and what weir runs there does not have it";
const TASK: &str = "it is of the kernel: the clause of a `tracepoint`, `kprobe` or `profile` has it";
const PARENT: &str = "the process does not know it without a system call; `cat(\"/proc/%d/stat\", pid)` prints what the kernel says of it";
const ADDRESS: &str = "where a symbol lies is another place in each process; take its address from an argument or `reg(\"ip\")`";
const UNSAFE: &str = "weir does not act on the system it observes";
const CLOCK: &str = "`nsecs`, `elapsed` and `time` are there";

pub(crate) const UNSUPPORTED: &[Unsupported] = &[
    row(Kind::Probe, "kprobe", IN_KERNEL),
    row(Kind::Probe, "kretprobe", IN_KERNEL),
    row(Kind::Probe, "fentry", IN_KERNEL),
    row(Kind::Probe, "fexit", IN_KERNEL),
    row(Kind::Probe, "tracepoint", IN_KERNEL),
    row(Kind::Probe, "rawtracepoint", IN_KERNEL),
    row(Kind::Probe, "profile", IN_KERNEL),
    row(Kind::Probe, "software", IN_KERNEL),
    row(Kind::Probe, "hardware", IN_KERNEL),
    row(Kind::Probe, "watchpoint", IN_KERNEL),
    row(Kind::Probe, "iter", IN_KERNEL),
    row(Kind::Builtin, "args", "name one of its fields: `args.size`"),
    row(Kind::Builtin, "sarg0", "arguments on the stack are not read; there are `arg0` to `arg5`"),
    row(Kind::Builtin, "ctx", TASK),
    row(Kind::Builtin, "curtask", TASK),
    row(Kind::Builtin, "ppid", PARENT),
    row(Kind::Builtin, "kstack", STACKS),
    row(Kind::Builtin, "stack", STACKS),
    row(
        Kind::Function,
        "debugf",
        "it writes to a pipe of the kernel's; use `printf`, or `warnf`, which says where it stands",
    ),
    row(Kind::Function, "kaddr", TASK),
    row(Kind::Function, "kptr", TASK),
    row(Kind::Function, "ksym", TASK),
    row(Kind::Function, "kstack", STACKS),
    row(Kind::Function, "nsecs_boot", CLOCK),
    row(Kind::Function, "override", UNSAFE),
    row(Kind::Function, "path", KERNEL),
    row(Kind::Function, "percpu_kaddr", KERNEL),
    row(Kind::Function, "kfunc_allowed", KERNEL),
    row(Kind::Function, "kfunc_exist", KERNEL),
    row(Kind::Function, "skboutput", KERNEL),
    row(Kind::Function, "socket_cookie", KERNEL),
    row(Kind::Function, "uaddr", ADDRESS),
    row(Kind::Function, "unwatch", EVENTS),
    row(Kind::Function, "uptr", "`str(p)` reads the target's memory"),
    row(Kind::Function, "write_user", UNSAFE),
];
