//! The command line of `weir lttng`: LTTng's commands, by its names and options, on weir's recording sessions.
//!
//! In: words as LTTng 2.13's `lttng` takes them. Out: [`Line`]. What sessions are is here, what they record in [`rules`]. Commands and options that
//! weir has not are taken too, so that they can be refused by name with what there is instead.

pub(crate) mod rules;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use crate::args::trace_format::TraceFormat;

const EXAMPLES: &str = "\
Examples:
  weir lttng create shop                       a session of all programs with LTTng-UST, and where its traces go
  weir lttng list -u                           programs that run, and their events
  weir lttng enable-event -u 'shop:*' --filter 'total > 100'
  weir lttng add-context -u -t vtid -t procname
  weir lttng start
  weir lttng stop
  weir lttng view
  weir lttng destroy

The sessions are those of `weir record status`. What differs from LTTng: docs/lttng.md.";

/// LTTng's commands: recording sessions of programs with LTTng-UST, without LTTng's daemons
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true, subcommand_value_name = "COMMAND")]
pub(crate) struct Line {
    /// Accepted: weir has no session daemon that is started apart
    #[arg(short = 'n', long)]
    pub(crate) no_sessiond: bool,

    /// Say nothing
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,

    /// Accepted; may be repeated
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Accepted: weir is its own daemon
    #[arg(long, value_name = "PATH")]
    pub(crate) sessiond_path: Option<PathBuf>,

    /// Accepted: nothing is sent over a network
    #[arg(long, value_name = "PATH")]
    pub(crate) relayd_path: Option<PathBuf>,

    /// Accepted: who may trace what is the kernel's and weir's policy's to say
    #[arg(short = 'g', long, value_name = "GROUP")]
    pub(crate) group: Option<String>,

    /// Refused: `weir record status -f json` is for programs
    #[arg(short = 'm', long, value_name = "TYPE")]
    pub(crate) mi: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make a session of all programs with LTTng-UST, and have it be the current one
    Create(Create),
    /// End a session; its traces stay
    Destroy(Destroy),
    /// Choose the current session, which commands mean that name none
    SetSession(Session),
    /// Begin to record
    Start(OrCurrent),
    /// End recording; the session stays, and may be started again
    Stop(Waiting),
    /// Show the current session
    Status,
    /// Show the sessions, one of them in full, or the events of programs that run
    List(List),
    /// Make channels, which have rings of their own, or enable those that were disabled
    EnableChannel(rules::EnableChannel),
    /// Have the events of channels not be recorded any more
    DisableChannel(rules::DisableChannel),
    /// Have events be recorded
    EnableEvent(rules::EnableEvent),
    /// Have events not be recorded any more
    DisableEvent(rules::DisableEvent),
    /// Record something beside the fields of each event
    AddContext(rules::AddContext),
    /// Have processes be recorded: a session without any such choice records all
    Track(rules::Track),
    /// Have processes not be recorded any more
    Untrack(rules::Track),
    /// Write what the rings of a snapshot session hold
    Snapshot(Snapshot),
    /// End the files that are written to, and go on in new ones
    Rotate(Waiting),
    /// Go on in new files by itself, from time to time or by size
    EnableRotation(Schedule),
    /// Go on in new files only at `rotate`
    DisableRotation(NoSchedule),
    /// Remove what sessions have recorded
    Clear(OneOrAll),
    /// Write what sessions are to files, from which `load` makes them again
    Save(Save),
    /// Make sessions that were saved
    Load(Load),
    /// Show the traces of a session
    View(View),
    /// Accepted for metadata, which weir's traces have whole at any time
    Regenerate(Regenerate),
    /// Say which weir this is
    Version,
    /// What there is not.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Schedule {
    /// The session; without, the current one
    #[arg(short, long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Each time this has gone by: microseconds, or with us, ms, s, m or h
    #[arg(long, value_name = "PERIOD", value_parser = period)]
    pub(crate) timer: Option<u64>,

    /// Each time so many bytes are written; k, M and G may follow
    #[arg(long, value_name = "SIZE", value_parser = crate::args::record::file_size)]
    pub(crate) size: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct NoSchedule {
    /// The session; without, the current one
    #[arg(short, long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Not from time to time
    #[arg(long)]
    pub(crate) timer: bool,

    /// Not by size
    #[arg(long)]
    pub(crate) size: bool,
}

/// Microseconds.
fn period(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" | "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        other => return Err(format!("no unit `{}`: us, ms, s, m or h", other.escape_debug())),
    };
    let time = digits.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    time.filter(|time| *time > 0).ok_or_else(|| "a time is wanted, as in 30s".to_owned())
}

#[derive(clap::Args, Debug)]
pub(crate) struct Create {
    /// What it is called; without, auto- and the time
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// Write into this folder; without, into one below lttng-traces in $LTTNG_HOME or the home folder, of its name and the time
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Keep events in rings, and write them where `snapshot record` says so
    #[arg(long)]
    pub(crate) snapshot: bool,

    /// The same as --output, as file://DIR; others are refused
    #[arg(short = 'U', long, value_name = "URL", conflicts_with = "output")]
    pub(crate) set_url: Option<String>,

    /// What describes the traces, as of `weir record`
    #[arg(long, value_enum, default_value_t = TraceFormat::Ctf1, value_name = "FORMAT")]
    pub(crate) trace_format: TraceFormat,

    /// Refused: a session has a folder
    #[arg(long)]
    pub(crate) no_output: bool,

    /// Refused: `weir view --follow` shows what is being recorded
    #[arg(long, value_name = "DELAYUS", num_args = 0..=1, require_equals = true, default_missing_value = "1000000")]
    pub(crate) live: Option<String>,

    /// Where what is in the rings of a recording that is killed is written, as a trace of its own
    #[arg(long, value_name = "DIR")]
    pub(crate) shm_path: Option<PathBuf>,

    /// Refused: nothing is sent over a network
    #[arg(short = 'C', long, value_name = "URL")]
    pub(crate) ctrl_url: Option<String>,

    /// Refused: nothing is sent over a network
    #[arg(short = 'D', long, value_name = "URL")]
    pub(crate) data_url: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Destroy {
    /// The session; without, the current one
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// All sessions
    #[arg(short = 'a', long, conflicts_with = "name")]
    pub(crate) all: bool,

    /// Accepted: what was recorded is written when the command ends
    #[arg(short = 'n', long)]
    pub(crate) no_wait: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Session {
    /// The session
    #[arg(value_name = "SESSION")]
    pub(crate) name: String,
}

#[derive(clap::Args, Debug)]
pub(crate) struct OrCurrent {
    /// The session; without, the current one
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Waiting {
    /// The session; without, the current one
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// Say nothing of waiting; all is written when the command ends
    #[arg(short = 'n', long)]
    pub(crate) no_wait: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct OneOrAll {
    /// The session; without, the current one
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// All sessions
    #[arg(short = 'a', long, conflicts_with = "name")]
    pub(crate) all: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct List {
    /// This session, with its channels and rules
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// Of a session, which domains have channels
    #[arg(short = 'd', long)]
    pub(crate) domain: bool,

    /// Of a session, this channel alone
    #[arg(short = 'c', long, value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,

    /// Of programs, the fields of their events too
    #[arg(short = 'f', long)]
    pub(crate) fields: bool,

    /// Refused: `weir list` shows what else can be probed
    #[arg(long)]
    pub(crate) syscall: bool,

    #[command(flatten)]
    pub(crate) of: rules::Domain,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    pub(crate) action: SnapshotAction,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotAction {
    /// Write what the rings hold into a folder below the session's
    Record(SnapshotRecord),
    /// Show where snapshots go
    ListOutput(InSession),
    /// Refused: where snapshots go is given with `create`
    AddOutput(Refused),
    /// Refused: a session has a folder
    DelOutput(Refused),
}

#[derive(clap::Args, Debug)]
pub(crate) struct SnapshotRecord {
    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Accepted, and not used: a snapshot's folder has its number and its time
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Refused: a snapshot is as large as what the rings hold
    #[arg(short = 'm', long, value_name = "SIZE")]
    pub(crate) max_size: Option<String>,

    /// Refused: where snapshots go is given with `create`
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct InSession {
    /// The session; without, the current one
    #[arg(short = 's', long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

/// Words of what is refused.
#[derive(clap::Args, Debug)]
pub(crate) struct Refused {
    /// As LTTng takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    pub(crate) words: Vec<OsString>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Save {
    /// The session; without, all
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// All sessions
    #[arg(short = 'a', long, conflicts_with = "name")]
    pub(crate) all: bool,

    /// Into this folder; without, .weir/sessions in $LTTNG_HOME or the home folder
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) output_path: Option<PathBuf>,

    /// Replace files
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Load {
    /// The session; without, all that were saved there
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// All sessions
    #[arg(short = 'a', long, conflicts_with = "name")]
    pub(crate) all: bool,

    /// From this folder or file; without, from where `save` writes
    #[arg(short = 'i', long, value_name = "PATH")]
    pub(crate) input_path: Option<PathBuf>,

    /// Have it be called so
    #[arg(long, value_name = "NAME", requires = "name")]
    pub(crate) override_name: Option<String>,

    /// Refused: a loaded session has a folder of its own
    #[arg(long, value_name = "URL")]
    pub(crate) override_url: Option<String>,

    /// Destroy a session of this name first
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct View {
    /// The session; without, the current one
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,

    /// This folder, of no session
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "name")]
    pub(crate) trace_path: Option<PathBuf>,

    /// Have this program show it, which gets the folder behind its own words; without, weir does, as `weir view`
    #[arg(short = 'e', long, value_name = "READER")]
    pub(crate) viewer: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Regenerate {
    #[command(subcommand)]
    pub(crate) what: RegenerateWhat,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RegenerateWhat {
    /// Nothing is to be done
    Metadata(InSession),
    /// Refused: weir records no state dump
    Statedump(InSession),
}

#[cfg(test)]
mod tests {
    use crate::args::Args;

    fn parsed(line: &str) -> Result<String, String> {
        let words = ["weir", "lttng"].into_iter().chain(line.split(' ')).map(Into::into);
        let args = Args::parse_from_command_line(words).map_err(|error| error.to_string())?;
        Ok(format!("{:?}", args.command))
    }

    #[test]
    fn words_are_taken_as_lttng_takes_them() {
        let check = |line: &str, wanted: &[&str]| {
            let found = parsed(line).unwrap();
            for wanted in wanted {
                assert!(found.contains(wanted), "{line}: {found} lacks {wanted}");
            }
        };
        check("-n -vvv -q --sessiond-path=/x -g tracing list", &["verbose: 3", "quiet: true", "List"]);
        check("create --live=5 s", &["live: Some(\"5\")", "name: Some(\"s\")"]);
        check("create --live s", &["live: Some(\"1000000\")", "name: Some(\"s\")"]);
        check("create -oDIR", &["output: Some(\"DIR\")"]);
        check(
            "enable-channel -u a,b --overwrite --discard",
            &["[\"a\", \"b\"]", "discard: true", "overwrite: false"],
        );
        check(
            "enable-event --userspace a:b,c:* -cchan -ss",
            &["Some(\"a:b,c:*\")", "Some(\"chan\")", "session: Some(\"s\")"],
        );
        check("enable-event -u a:b --filter=-n==3", &["filter: Some(\"-n==3\")"]);
        check("add-context -u -t vpid -t vtid", &["[\"vpid\", \"vtid\"]"]);
        check(
            "track -u --vpid=17,18 --vuid root",
            &["vpid: Some([\"17\", \"18\"])", "vuid: Some([\"root\"])"],
        );
        check("track -u --vpid --all", &["vpid: Some([])", "all: true"]);
        check("track -u --all -p", &["vpid: Some([])", "all: true"]);
        check("track -u --pid 17", &["vpid: Some([\"17\"])"]);
        check("disable-event -u -a", &["all_events: true"]);
        check("snapshot record -n x -s s", &["name: Some(\"x\")", "session: Some(\"s\")"]);
        check("snapshot add-output --max-size 3 net://x", &["AddOutput"]);
        check("add-trigger --condition event-rule-matches -k", &["Other([\"add-trigger\", \"--condition\""]);
    }

    #[test]
    fn what_lttng_does_not_take_is_refused() {
        for line in [
            "create --nosuch",
            "start a b",
            "destroy -a s",
            "enable-event -u a:b c:d",
            "load --override-name x",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
