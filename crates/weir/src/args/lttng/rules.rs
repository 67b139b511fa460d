//! The part of `weir lttng`'s command line that says what a session records: channels, events, contexts, processes.

/// Whose events are meant; weir has those of LTTng-UST.
#[derive(clap::Args, Default, Debug)]
pub(crate) struct Domain {
    /// Events of programs and libraries (LTTng-UST)
    #[arg(short = 'u', long)]
    pub(crate) userspace: bool,

    /// Refused: `weir trace 'tracepoint:…'` traces the kernel
    #[arg(short = 'k', long)]
    pub(crate) kernel: bool,

    /// Refused: `weir record -e lttng_jul:event` records loggers of Java
    #[arg(short = 'j', long)]
    pub(crate) jul: bool,

    /// Refused: `weir record -e lttng_log4j:event` records loggers of Log4j
    #[arg(short = 'l', long)]
    pub(crate) log4j: bool,

    /// Refused: `weir record -e lttng_python:event` records loggers of Python
    #[arg(short = 'p', long)]
    pub(crate) python: bool,
}

#[derive(clap::Args, Default, Debug)]
pub(crate) struct EnableChannel {
    /// What it is called; several with commas
    #[arg(value_name = "CHANNEL", value_delimiter = ',')]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) of: Domain,

    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Bytes of a part of the ring of each CPU; k, M and G may follow. The ring has --num-subbuf of them: a power of two from 4K to 256M
    #[arg(long, value_name = "SIZE")]
    pub(crate) subbuf_size: Option<String>,

    /// How many such parts
    #[arg(long, value_name = "COUNT")]
    pub(crate) num_subbuf: Option<String>,

    /// Count and forget events that find their ring full
    #[arg(long, overrides_with = "overwrite")]
    pub(crate) discard: bool,

    /// Have the newest events take the place of the oldest, as in every channel of a snapshot session
    #[arg(long, overrides_with = "discard")]
    pub(crate) overwrite: bool,

    /// Have a thread that finds its ring full wait so many microseconds for room; 0: not at all
    #[arg(long, value_name = "TIMEOUTUS")]
    pub(crate) blocking_timeout: Option<String>,

    /// Begin a new file of a ring's stream when it would become larger; k, M and G may follow
    #[arg(short = 'C', long, value_name = "SIZE")]
    pub(crate) tracefile_size: Option<String>,

    /// Keep so many files of each ring, the newest
    #[arg(short = 'W', long, value_name = "COUNT")]
    pub(crate) tracefile_count: Option<String>,

    /// Accepted: all processes of a channel share its rings
    #[arg(long)]
    pub(crate) buffers_uid: bool,

    /// Refused: all processes of a channel share its rings
    #[arg(long)]
    pub(crate) buffers_pid: bool,

    /// Refused: it is the kernel's
    #[arg(long)]
    pub(crate) buffers_global: bool,

    /// Accepted as mmap, which is not used: how rings are read is weir's own
    #[arg(long, value_name = "TYPE")]
    pub(crate) output: Option<String>,

    /// Accepted, and not used: what is in the rings is read all the time
    #[arg(long, value_name = "PERIODUS")]
    pub(crate) switch_timer: Option<u64>,

    /// Accepted, and not used: what is in the rings is read all the time
    #[arg(long, value_name = "PERIODUS")]
    pub(crate) read_timer: Option<u64>,

    /// Accepted, and not used: there are no triggers on how full a ring is
    #[arg(long, value_name = "PERIODUS")]
    pub(crate) monitor_timer: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct DisableChannel {
    /// The channel; several with commas
    #[arg(value_name = "CHANNEL", value_delimiter = ',')]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) of: Domain,

    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct EnableEvent {
    /// PROVIDER:EVENT, where * is any characters; several with commas
    #[arg(value_name = "NAME")]
    pub(crate) names: Option<String>,

    #[command(flatten)]
    pub(crate) of: Domain,

    /// All events
    #[arg(short = 'a', long)]
    pub(crate) all: bool,

    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// In this channel, which is made if it is not there; without, in channel0 of a session that has no other
    #[arg(short = 'c', long, value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    /// Record them only where this holds of their fields and contexts, in LTTng's language
    #[arg(short = 'f', long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// But none of this name, where * is any characters; several with commas
    #[arg(short = 'x', long, value_name = "XNAME")]
    pub(crate) exclude: Option<String>,

    /// Only events that are at least as severe: EMERG, ALERT, CRIT, ERR, WARNING, NOTICE, INFO, DEBUG_SYSTEM, …, DEBUG, with or without TRACE_
    #[arg(long, value_name = "LOGLEVEL")]
    pub(crate) loglevel: Option<String>,

    /// Only events of exactly this level
    #[arg(long, value_name = "LOGLEVEL")]
    pub(crate) loglevel_only: Option<String>,

    /// Accepted: there are no others
    #[arg(long)]
    pub(crate) tracepoint: bool,

    /// Refused: `weir trace 'tracepoint:syscalls:…'` traces system calls
    #[arg(long)]
    pub(crate) syscall: bool,

    /// Refused: `weir trace 'kprobe:…'` traces functions of the kernel
    #[arg(long, value_name = "LOC")]
    pub(crate) probe: Option<String>,

    /// Refused: `weir trace 'kretprobe:…'` traces functions of the kernel
    #[arg(long, value_name = "LOC")]
    pub(crate) function: Option<String>,

    /// Refused: `weir record -e 'uprobe:BINARY:FUNCTION'` records functions
    #[arg(long, value_name = "LOC")]
    pub(crate) userspace_probe: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct DisableEvent {
    /// As they were enabled; several with commas
    #[arg(value_name = "NAME")]
    pub(crate) names: Option<String>,

    #[command(flatten)]
    pub(crate) of: Domain,

    /// All that were enabled
    #[arg(short = 'a', long, alias = "all")]
    pub(crate) all_events: bool,

    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// In this channel; without, in channel0
    #[arg(short = 'c', long, value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    /// Accepted: there are no others
    #[arg(long)]
    pub(crate) tracepoint: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct AddContext {
    #[command(flatten)]
    pub(crate) of: Domain,

    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// To the events of this channel; without, of all there are
    #[arg(short = 'c', long, value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    /// What: vpid, vtid, procname, ip, vuid, …; may be repeated
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,

    /// Show what there is
    #[arg(long)]
    pub(crate) list: bool,
}

/// Of `track` and `untrack`.
#[derive(clap::Args, Debug)]
pub(crate) struct Track {
    /// Of programs with LTTng-UST
    #[arg(short = 'u', long)]
    pub(crate) userspace: bool,

    /// Refused: weir records no events of the kernel
    #[arg(short = 'k', long)]
    pub(crate) kernel: bool,

    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Processes; several with commas
    #[arg(short = 'p', long, visible_alias = "pid", value_name = "VPID", num_args = 0..=1, value_delimiter = ',')]
    pub(crate) vpid: Option<Vec<String>>,

    /// Processes of users, by name or number; several with commas
    #[arg(long, value_name = "VUSER", num_args = 0..=1, value_delimiter = ',')]
    pub(crate) vuid: Option<Vec<String>>,

    /// Processes of groups, by name or number; several with commas
    #[arg(long, value_name = "VGROUP", num_args = 0..=1, value_delimiter = ',')]
    pub(crate) vgid: Option<Vec<String>>,

    /// All processes, users or groups
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
}
