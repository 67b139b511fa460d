//! The command line of sessions: `weir record create`, `enable`, `start` and so on, beside `weir record -e …` itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Subcommand, ValueEnum};
use nix::unistd::User;
use weir_event::schema::Level;
use weir_filter::Dialect;
use weir_policy::budget::Budget;
use weir_process::tracked::Attribute;
use weir_process::{Follow, ProcessSpec, Whose};
use weir_sessions::context::Context;
use weir_sessions::description::{OPTIONS, Schedule};

use crate::args::flight::Flight;
use crate::args::record::{FILES_MAX, Record, file_size, level, size};
use crate::args::trace_format::TraceFormat;
use crate::args::triggers::Triggers;
use crate::args::{Format, context, dialect, flight, follow};

/// One recording, or a command about sessions.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group(ArgGroup::new("expression").multiple(true).args(["filter", "snapshot_on", "start_on", "stop_on", "rotate_on", "run_on"])))]
pub(crate) struct RecordLine {
    #[command(flatten)]
    record: Option<Record>,
    #[command(flatten)]
    flight: Flight,
    #[command(flatten)]
    triggers: Triggers,
    #[command(subcommand)]
    session: Option<Session>,
}

/// What a line asks for.
pub(crate) enum Asked {
    Recording(Box<Record>),
    Session(Box<Session>),
}

impl RecordLine {
    pub(crate) fn asked(self) -> Asked {
        match (self.session, self.record) {
            (Some(session), _) => Asked::Session(Box::new(session)),
            (None, Some(record)) => {
                let (flight, triggers) = (self.flight, self.triggers);
                Asked::Recording(Box::new(Record { flight, triggers, ..record }))
            }
            // SANITY: clap requires an event where there is no subcommand.
            (None, None) => unreachable!("clap requires an event where there is no subcommand"),
        }
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Session {
    /// Make a session: a recording that goes on without this command line, is changed while it runs, and has a name
    Create(Box<Create>),
    /// Have a session record these events too; while it records, from now on
    Enable(Enable),
    /// Have a session record these events no more
    Disable(Disable),
    /// Have a session record this with each event
    AddContext(AddContext),
    /// Begin to record, into a new folder below the session's
    Start(One),
    /// End recording; the session stays, and may be started again
    Stop(One),
    /// End the folder that is recorded into, and go on in a new one
    Rotate(Rotate),
    /// Show sessions: what they record, of what, into which folder, and how much so far
    Status(Status),
    /// End a session: its recording too, if it is started. What was recorded stays
    Destroy(Destroy),
    /// Write what the rings of a flight recorder (create --overwrite) hold into a new folder below the session's, and go on
    Snapshot(One),
    /// Give a session a channel: rings of their own, for events that are enabled in it
    EnableChannel(EnableChannel),
    /// Record the events of a channel no more, until it is enabled again
    DisableChannel(DisableChannel),
    /// Record processes of a session's programs (create --user) that are in this set too; without a set all are
    Track(Track),
    /// Take processes out of a set
    Untrack(Track),
    /// Remove what a session has recorded; it records on if it did
    Clear(One),
    /// Write to standard output what a session is, for load
    Save(One),
    /// Make a session as save has written it, from standard input or a file
    Load(Load),
    /// Run the daemon that holds sessions; the other commands start it where it is needed
    Daemon(Daemon),
}

/// Where the daemon is.
#[derive(clap::Args, Debug)]
pub(crate) struct At {
    /// The daemon's socket, in a folder of mode 700; else WEIR_SOCKET, or $XDG_RUNTIME_DIR/weir/record.sock (root: /run/weir/record.sock)
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

const CREATE_EXAMPLES: &str = "\
Examples:
  weir record create web -p nginx -o /var/tmp/web      processes of this name, those that start later too
  weir record enable web 'shop:*' --filter 'total > 100'
  weir record start web
  weir record enable web db:query       while it records; the processes run on
  weir record status
  weir record destroy web
  weir view /var/tmp/web

  weir record create last -p nginx --overwrite --size 8M --snapshot-on 'total > 5000'      a flight recorder
  weir record snapshot last";

#[derive(clap::Args, Debug)]
#[command(after_help = CREATE_EXAMPLES)]
#[command(group(ArgGroup::new("who").required(true).multiple(true).args(["processes", "cgroups", "units", "containers", "user"])))]
#[command(group(ArgGroup::new("expression").multiple(true).args(["snapshot_on", "start_on", "stop_on", "rotate_on", "run_on"])))]
pub(crate) struct Create {
    /// What the session is called: letters, digits, `_`, `-` and `.`, 64 at most
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The folder of the session: one that is not there yet, or an empty one; without, NAME where this command runs. Each stretch of
    /// recording has a folder in it: 1, 2, …
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Record of this process, or of those whose command or program has this name, now and later
    #[arg(short = 'p', long = "pid", value_name = "PID|NAME", value_delimiter = ',')]
    pub(crate) processes: Vec<ProcessSpec>,

    /// Record of the processes in this cgroup and below it, now and later
    #[arg(long = "cgroup", value_name = "PATH")]
    pub(crate) cgroups: Vec<String>,

    /// Record of the processes of this systemd unit, now and later
    #[arg(long = "unit", value_name = "NAME")]
    pub(crate) units: Vec<String>,

    /// Record of the processes in this container, now and later
    #[arg(long = "container", value_name = "ID|NAME")]
    pub(crate) containers: Vec<String>,

    /// Record of every program of this user, or of USER (a name, a number, or `any`), that loads LTTng-UST, now and later; which of its processes
    /// is for `track` to say
    #[arg(long, value_name = "USER", num_args = 0..=1, require_equals = true, default_missing_value = "own", value_parser = whose, conflicts_with_all = ["processes", "cgroups", "units", "containers", "follow"])]
    pub(crate) user: Option<Whose>,

    /// Record of the children of these processes too, and theirs. They are held until they are probed,
    /// where that can be; with =late they run on until they are found
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "held", value_parser = follow())]
    pub(crate) follow: Option<Follow>,

    /// Let -p NAME select the processes of every user; as root it selects those of one user, root's if there are any
    #[arg(long)]
    pub(crate) any_user: bool,

    /// Bytes of the ring of each CPU, a power of two from 4K to 256M; K and M may follow. What comes while it is full is discarded, and
    /// counted; with --overwrite it takes the place of the oldest
    #[arg(long, value_name = "BYTES", default_value = "2M", value_parser = size)]
    pub(crate) size: u32,

    /// Have a thread that finds its ring full wait for room, for TIME at most (100ms; 500us, 2s), before its event is discarded: as it writes
    /// faster than weir reads. One that weir does not read in that time waits no more until it does; nor does a signal handler
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "100ms", value_parser = flight::time, conflicts_with_all = ["overwrite", "budget"])]
    pub(crate) blocking: Option<Duration>,

    /// Lose nothing of what is in the rings where a recording is killed: it is in a trace of its own in this folder, as of `weir record`
    #[arg(long, value_name = "DIR", conflicts_with = "overwrite")]
    pub(crate) shm_dir: Option<PathBuf>,

    /// Begin a new file of a ring's stream when it would become larger; K, M and G may follow
    #[arg(long, value_name = "BYTES", value_parser = file_size, conflicts_with = "overwrite")]
    pub(crate) file_size: Option<u64>,

    /// Keep so many files of each ring, the newest, of each stretch of recording: of more the oldest is removed
    #[arg(long, value_name = "NUMBER", requires = "file_size", conflicts_with = "overwrite", value_parser = clap::value_parser!(u64).range(1..=FILES_MAX))]
    pub(crate) file_count: Option<u64>,

    /// What describes the traces, as of `weir record`
    #[arg(long, value_enum, default_value_t = TraceFormat::Ctf1, value_name = "FORMAT")]
    pub(crate) trace_format: TraceFormat,

    /// What the operators of --snapshot-on and other triggers mean
    #[arg(long, value_parser = dialect(), default_value_t, requires = "expression")]
    pub(crate) dialect: Dialect,

    /// What recording may cost, as of `weir trace`
    #[arg(long, value_name = "BUDGET", value_parser = budget)]
    pub(crate) budget: Option<String>,

    /// A policy that recordings keep to as well, beside the administrator's /etc/weir/policy.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) at: At,

    #[command(flatten)]
    pub(crate) flight: Flight,

    #[command(flatten)]
    pub(crate) triggers: Triggers,
}

impl Create {
    /// The options that a session's recordings get as they are, by name; those that take no value with an empty one.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let Flight { overwrite, snapshot_on, snapshot_after, snapshot_interval, snapshot_at_end, snapshots } =
            &self.flight;
        let Triggers {
            start_on,
            stop_on,
            rotate_on,
            rotate_interval,
            run_on,
            run_on_fill,
            run,
            run_interval,
        } = &self.triggers;
        let is = |given: bool| given.then(String::new);
        let is_default = self.dialect == Dialect::Weir;
        let options = [
            ("trace-format", (self.trace_format != TraceFormat::Ctf1).then(|| name_of(&self.trace_format))),
            ("file-size", self.file_size.map(|bytes| bytes.to_string())),
            ("file-count", self.file_count.map(|count| count.to_string())),
            ("dialect", (!is_default).then(|| self.dialect.to_string())),
            ("any-user", is(self.any_user)),
            ("blocking", self.blocking.as_ref().map(time)),
            ("shm-dir", self.shm_dir.as_deref().map(absolute)),
            ("overwrite", is(*overwrite)),
            ("snapshot-on", snapshot_on.clone()),
            ("snapshot-after", snapshot_after.as_ref().map(time)),
            ("snapshot-interval", snapshot_on.as_ref().map(|_| time(snapshot_interval))),
            ("snapshot-at-end", is(*snapshot_at_end)),
            ("snapshots", overwrite.then(|| snapshots.to_string())),
            ("start-on", start_on.clone()),
            ("stop-on", stop_on.clone()),
            ("rotate-on", rotate_on.clone()),
            ("rotate-interval", rotate_on.as_ref().map(|_| time(rotate_interval))),
            ("run-on", run_on.clone()),
            ("run-on-fill", run_on_fill.map(|percent| percent.to_string())),
            ("run", run.clone()),
            ("run-interval", run.as_ref().map(|_| time(run_interval))),
        ];
        assert!(options.iter().map(|(name, _)| *name).eq(OPTIONS), "the table has other rows");
        options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Whose programs.
fn whose(text: &str) -> Result<Whose, String> {
    let known = text.parse();
    if known.is_ok() {
        return known;
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(Whose::User(user.uid.as_raw())),
        _ => Err(format!("there is no user `{}`; `any` is every user", text.escape_debug())),
    }
}

/// As the command line has it.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    // SANITY: none of them is hidden.
    value.to_possible_value().expect("a name").get_name().to_owned()
}

#[derive(clap::Args, Debug)]
pub(crate) struct EnableChannel {
    /// The session, then the channel; the session may be left out where there is one only
    #[arg(value_name = "[NAME] CHANNEL", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// Bytes of the ring of each CPU, as of create
    #[arg(long, value_name = "BYTES", default_value = "2M", value_parser = size)]
    pub(crate) size: u32,

    /// A flight recorder: what comes takes the place of the oldest
    #[arg(long, conflicts_with_all = ["blocking", "file_size"])]
    pub(crate) overwrite: bool,

    /// Keep so many snapshots, the newest
    #[arg(long, value_name = "NUMBER", requires = "overwrite", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) snapshots: Option<u64>,

    /// Have a thread that finds its ring full wait for room, as of create
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "100ms", value_parser = flight::time)]
    pub(crate) blocking: Option<Duration>,

    /// Begin a new file of a ring's stream when it would become larger; K, M and G may follow
    #[arg(long, value_name = "BYTES", value_parser = file_size)]
    pub(crate) file_size: Option<u64>,

    /// Keep so many files of each ring, the newest
    #[arg(long, value_name = "NUMBER", requires = "file_size", value_parser = clap::value_parser!(u64).range(1..=FILES_MAX))]
    pub(crate) file_count: Option<u64>,

    #[command(flatten)]
    pub(crate) at: At,
}

impl EnableChannel {
    /// As of [`Create::options`].
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let options = [
            ("file-size", self.file_size.map(|bytes| bytes.to_string())),
            ("file-count", self.file_count.map(|count| count.to_string())),
            ("blocking", self.blocking.as_ref().map(time)),
            ("overwrite", self.overwrite.then(String::new)),
            ("snapshots", self.snapshots.map(|count| count.to_string())),
        ];
        options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The daemon and its recordings have other working folders.
pub(crate) fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// As options take it.
fn time(time: &Duration) -> String {
    match time.as_micros() {
        us if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        us if us.is_multiple_of(1000) => format!("{}ms", us / 1000),
        us => format!("{us}us"),
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct DisableChannel {
    /// The session, then the channel; the session may be left out where there is one only
    #[arg(value_name = "[NAME] CHANNEL", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME")]
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("set").required(true).args(["pid", "uid", "gid", "comm"])))]
pub(crate) struct Track {
    /// The session; it may be left out where there is one only
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "name")]
    pub(crate) session: Option<String>,

    /// These processes; without numbers all
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub(crate) pid: Option<Vec<u32>>,

    /// Those of these users, by number
    #[arg(long, value_name = "UID", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub(crate) uid: Option<Vec<u32>>,

    /// Those of these groups, by number
    #[arg(long, value_name = "GID", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub(crate) gid: Option<Vec<u32>>,

    /// Those whose command (`comm`) has one of these names, which may have wildcards
    #[arg(long, value_name = "COMM", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub(crate) comm: Option<Vec<String>>,

    #[command(flatten)]
    pub(crate) at: At,
}

impl Track {
    /// What distinguishes the processes, and the values; none: all.
    pub(crate) fn set(&self) -> (Attribute, Vec<String>) {
        let numbers = |values: &Vec<u32>| values.iter().map(u32::to_string).collect();
        let of = [
            (Attribute::Pid, self.pid.as_ref().map(numbers)),
            (Attribute::Uid, self.uid.as_ref().map(numbers)),
            (Attribute::Gid, self.gid.as_ref().map(numbers)),
            (Attribute::Name, self.comm.clone()),
        ];
        let given = of.into_iter().find_map(|(attribute, values)| Some((attribute, values?)));
        // SANITY: clap requires one of them.
        given.expect("a set")
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct Load {
    /// Where save has written it; - or nothing: standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// What the session is called; else as it was
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Its folder, if not the one that it had
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Enable {
    /// The session, then events as -e of `weir record` takes them; the session may be left out where there is one only
    #[arg(value_name = "[NAME] EVENT", required = true)]
    pub(crate) words: Vec<String>,

    /// The session; then all words are events
    #[arg(short = 's', long = "session", value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// But none whose name matches: PROVIDER:EVENT, or EVENT of any provider. May be repeated
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,

    /// Only events that matter at least as much
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) loglevel: Option<Level>,

    /// Only events of exactly this level
    #[arg(long, value_name = "LEVEL", value_parser = level, conflicts_with = "loglevel")]
    pub(crate) loglevel_only: Option<Level>,

    /// Record these events only where this holds of their fields. An event that was enabled several times is recorded where one of
    /// the filters accepts it
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// What the filter's operators mean
    #[arg(long, value_parser = dialect(), default_value_t, requires = "filter")]
    pub(crate) dialect: Dialect,

    /// Record these events in this channel; else in the one without a name, which create makes
    #[arg(short = 'c', long = "channel", value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Disable {
    /// The session, then events: as they were enabled, or PROVIDER:EVENT out of a pattern that was
    #[arg(value_name = "[NAME] EVENT", required = true)]
    pub(crate) words: Vec<String>,

    /// The session; then all words are events
    #[arg(short = 's', long = "session", value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// Out of this channel; without it out of all
    #[arg(short = 'c', long = "channel", value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct AddContext {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "name")]
    pub(crate) session: Option<String>,

    /// What is recorded with each event; may be repeated, or a list: -t vtid,procname
    #[arg(
        short = 't',
        long = "type",
        value_parser = context(),
        value_name = "CONTEXT",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) contexts: Vec<Context>,

    /// With the events of this channel alone
    #[arg(short = 'c', long = "channel", value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct One {
    /// The session; it may be left out where there is one only
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "name")]
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Rotate {
    /// The session; it may be left out where there is one only
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "name")]
    pub(crate) session: Option<String>,

    /// Not now, but each time so much time has gone by (30s, 500ms), as long as it records
    #[arg(long, value_name = "TIME", value_parser = flight::time)]
    pub(crate) every: Option<Duration>,

    /// Not now, but each time the folders that are written have so many bytes; K, M and G may follow
    #[arg(long, value_name = "BYTES", value_parser = file_size)]
    pub(crate) at_size: Option<u64>,

    /// Only when it is asked to, as at first
    #[arg(long, conflicts_with_all = ["every", "at_size"])]
    pub(crate) on_demand: bool,

    #[command(flatten)]
    pub(crate) at: At,
}

impl Rotate {
    /// When it is to rotate by itself, if that is what is asked for.
    pub(crate) fn schedule(&self) -> Option<Schedule> {
        let every_ms = self.every.map(|every| every.as_millis() as u64);
        let is_given = self.on_demand || every_ms.is_some() || self.at_size.is_some();
        is_given.then_some(Schedule { every_ms, bytes: self.at_size })
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct Status {
    /// Only this session
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Only this session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "name")]
    pub(crate) session: Option<String>,

    /// Text, or one JSON object a session and line
    #[arg(short = 'f', long = "format", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Destroy {
    /// The session; it may be left out where there is one only
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The session
    #[arg(short = 's', long = "session", value_name = "NAME", conflicts_with = "name")]
    pub(crate) session: Option<String>,

    /// All sessions
    #[arg(short = 'a', long = "all", conflicts_with_all = ["name", "session"])]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Daemon {
    /// End when there has been no session for so many seconds; else WEIR_IDLE, or 60
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) idle: Option<Duration>,

    /// Leave the terminal, and close what was inherited
    #[arg(long, hide = true)]
    pub(crate) detached: bool,

    #[command(flatten)]
    pub(crate) at: At,
}

/// Kept as text, which a recording reads again.
fn budget(text: &str) -> Result<String, String> {
    text.parse::<Budget>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "a number of seconds is wanted, from 0 to 1e9".to_owned())
}
