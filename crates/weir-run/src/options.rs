//! What a run is asked for.
//!
//! Defaults are those of the command line. Structures grow: start from [`Options::default`] or [`RecordOptions::new`], and set what is to be otherwise.

use std::path::PathBuf;
use std::time::Duration;

use weir_filter::Dialect;
use weir_policy::budget::Budget;
use weir_process::{Follow, Given, ProcessSpec};
use weir_sessions::context::Context;
use weir_sessions::program::OfProgram;
use weir_sessions::rule::Rule;
use weir_trace::pipe::Sender;
use weir_trace::write::{Format, Limits};

/// Which processes a run is about, and what it may do to them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// By number or by name, now and later.
    pub processes: Vec<ProcessSpec>,
    /// Those in these control groups, units of systemd and containers, now and later.
    pub cgroups: Vec<String>,
    /// Names of units: each is exactly that one.
    pub units: Vec<String>,
    /// Names or ids of containers, as `docker ps` shows them.
    pub containers: Vec<String>,
    /// Children of traced processes.
    pub follow: Option<Follow>,
    /// Also processes of other users that have the name.
    pub any_user: bool,
    /// Where no process is named: all that map what is probed, however many there are.
    pub all_processes: bool,
    /// A program, found in PATH, and its arguments: it is started, traced from its first instruction, and ended with the run.
    pub command: Option<Vec<String>>,
    /// Clauses at events run only where this holds.
    pub filter: Option<String>,
    /// Which of the script's probes run.
    pub mode: Mode,
    /// Of the script's probes those run, beside BEGIN and END, in whose names this regular expression is found.
    pub probe_filter: Option<String>,
    /// Whose rules of comparing, numbers and patterns hold in `filter`.
    pub dialect: Dialect,
    /// The same by an eBPF program: FILE or FILE:NAME.
    pub program: Option<String>,
    /// What the run may cost.
    pub budget: Option<Budget>,
    /// A policy beside the administrator's.
    pub policy: Option<PathBuf>,
    /// Where the script's probes run.
    pub engine: Engine,
    /// [`Start::view`](crate::Start::view) is going to be given.
    pub has_view: bool,
    /// How much is reported besides the script's output.
    pub detail: Detail,
    /// How often each probe ran is counted, for the summary.
    pub counts_hits: bool,
    /// Clauses at the two ends of a call become one program.
    pub fuses: bool,
    /// Settings of the script, which win over its `config` block: name and value ([`crate::fault_of_setting`] says what is wrong with one).
    pub settings: Vec<(String, String)>,
    /// The run is of the processes of a program, now and later.
    pub of_program: Option<OfProgram>,
    /// Parameters of the script that have names; without a value: true.
    pub named: Vec<(String, Option<String>)>,
    /// Where the headers that a script includes are looked for first.
    pub header_folders: Vec<PathBuf>,
    /// What a script has of the kernel's probes is checked, and left out; such a run cannot begin.
    pub checks_alone: bool,
    /// The script may have weir act on the system: `system`.
    pub allows_unsafe: bool,
    /// Comparisons print as `true` and `false`, as from bpftrace 0.24 on; else as 1 and 0.
    pub has_truths: bool,
    /// Headers that are included before the script.
    pub headers: Vec<String>,
    /// Where `~` and rootless containers are looked for; none: nowhere.
    pub home: Option<PathBuf>,
}

/// Which of a script's probes run, beside BEGIN and END.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// All but tests and benchmarks.
    #[default]
    Trace,
    /// Tests alone.
    Test,
    /// Benchmarks alone.
    Bench,
}

/// Where a script runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// Each clause where its events are: in the processes, or in the kernel.
    #[default]
    Auto,
    /// In the traced processes.
    User,
    /// In the kernel, at its uprobes.
    Kernel,
}

/// How much is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// Only what went wrong.
    Quiet,
    /// What was probed where that is not all, who came, and what was lost.
    #[default]
    Normal,
    /// Each place that is not probed, and what probing took.
    Verbose,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            processes: Vec::new(),
            cgroups: Vec::new(),
            units: Vec::new(),
            containers: Vec::new(),
            follow: None,
            any_user: false,
            all_processes: false,
            command: None,
            filter: None,
            mode: Mode::default(),
            probe_filter: None,
            dialect: Dialect::default(),
            program: None,
            budget: None,
            policy: None,
            engine: Engine::default(),
            has_view: false,
            detail: Detail::default(),
            counts_hits: false,
            fuses: true,
            settings: Vec::new(),
            of_program: None,
            named: Vec::new(),
            header_folders: Vec::new(),
            checks_alone: false,
            allows_unsafe: false,
            has_truths: false,
            headers: Vec::new(),
            home: std::env::var_os("HOME").map(PathBuf::from),
        }
    }
}

impl Options {
    pub(crate) fn is_quiet(&self) -> bool {
        self.detail == Detail::Quiet
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.detail == Detail::Verbose
    }

    pub(crate) fn names_processes(&self) -> bool {
        let lists = [&self.cgroups, &self.units, &self.containers];
        !self.processes.is_empty() || self.of_program.is_some() || lists.iter().any(|list| !list.is_empty())
    }

    pub(crate) fn given(&self) -> Given<'_> {
        let Options { processes, cgroups, units, containers, follow, any_user, .. } = self;
        Given {
            processes,
            cgroups,
            units,
            containers,
            follow: follow.unwrap_or_default(),
            any_user: *any_user,
        }
    }
}

/// Of the ring of each CPU, where nothing else is asked for.
const RING_BYTES: u32 = 2 << 20;

/// Between two answers to events, where nothing else is asked for.
const INTERVAL: Duration = Duration::from_secs(1);

/// Which events are recorded, and where to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordOptions {
    /// An event is recorded if one of them names it, and its filter holds.
    pub rules: Vec<Rule>,
    /// What each event carries besides its fields, in this order.
    pub contexts: Vec<Context>,
    /// The folder of the trace: new, or empty. Of a flight recorder, that of its snapshots.
    pub output: PathBuf,
    /// The trace goes to this pipe, and to no folder. What is asked for of folders ([`Limits`], snapshots) is refused.
    pub pipe: Option<Sender>,
    /// How the trace is written.
    pub format: Format,
    /// How streams are cut into files.
    pub limits: Limits,
    /// Bytes of the ring of each CPU: a power of two.
    pub ring_bytes: u32,
    /// Events wait for room in the ring, so long at most.
    pub blocking: Option<Duration>,
    /// Where what the rings have is written if this process is killed, by another: the trace has a folder of its own in this one.
    pub shm_dir: Option<PathBuf>,
    /// What that process reports what it has come to with.
    pub shm_report: fn(&str),
    /// Events stay in the rings until a snapshot is asked for.
    pub snapshots: Option<SnapshotOptions>,
    /// What events do besides.
    pub triggers: TriggerOptions,
    /// The recording session that this is a part of: its name.
    pub session: Option<String>,
    /// Others record other events of that session: what triggers name may be among those.
    pub is_part: bool,
}

/// When a flight recorder writes what is in its rings, besides when it is asked to ([`Running::snapshot`](crate::Running::snapshot)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SnapshotOptions {
    /// When an event is recorded of whose fields this holds.
    pub on: Option<String>,
    /// So long after it.
    pub after: Duration,
    /// Events ask for one in this time.
    pub interval: Duration,
    /// One more is written when the run ends.
    pub at_end: bool,
    /// Of more than so many the oldest is removed.
    pub kept: u64,
}

/// What events do beside being recorded; each is an expression on the fields of an event, `PROVIDER:EVENT if EXPR`, or `PROVIDER:EVENT`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TriggerOptions {
    /// Begins the recording, of which nothing is kept before.
    pub start_on: Option<String>,
    /// Ends it.
    pub stop_on: Option<String>,
    /// Has the next folder begun.
    pub rotate_on: Option<String>,
    /// The least time between two folders that events ask for.
    pub rotate_interval: Duration,
    /// Has the command of `run` run.
    pub run_on: Option<String>,
    /// The same when a ring was filled to so many percent. Not of a flight recorder, whose rings are full.
    pub run_on_fill: Option<u64>,
    /// The command that `run_on` and `run_on_fill` run, with `sh -c`.
    pub run: Option<String>,
    /// The least time between two runs of it.
    pub run_interval: Duration,
}

impl Default for SnapshotOptions {
    fn default() -> SnapshotOptions {
        SnapshotOptions { on: None, after: Duration::ZERO, interval: INTERVAL, at_end: false, kept: 10 }
    }
}

impl Default for TriggerOptions {
    fn default() -> TriggerOptions {
        TriggerOptions {
            start_on: None,
            stop_on: None,
            rotate_on: None,
            rotate_interval: INTERVAL,
            run_on: None,
            run_on_fill: None,
            run: None,
            run_interval: INTERVAL,
        }
    }
}

impl RecordOptions {
    /// These events, in the Common Trace Format 1.8, to that folder.
    pub fn new(rules: Vec<Rule>, output: PathBuf) -> RecordOptions {
        RecordOptions {
            rules,
            contexts: Vec::new(),
            output,
            pipe: None,
            format: Format::Ctf1,
            limits: Limits::default(),
            ring_bytes: RING_BYTES,
            blocking: None,
            shm_dir: None,
            shm_report: |_| (),
            snapshots: None,
            triggers: TriggerOptions::default(),
            session: None,
            is_part: false,
        }
    }
}
