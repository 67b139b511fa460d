//! The command line of `weir record`: which events of which processes go where.
//!
//! What is the same as of `weir trace` means the same, and becomes the same options ([`Record::options`]).

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use weir_ebpf::map::{RING_BYTES_MAX, RING_BYTES_MIN};
use weir_event::schema::Level;
use weir_filter::Dialect;
use weir_policy::budget::Budget;
use weir_process::{Follow, ProcessSpec};
use weir_run::{Options, RecordOptions};
use weir_sessions::context::Context;
use weir_sessions::program::OfProgram;
use weir_sessions::rule::Rule;
use weir_trace::write::Limits;

use crate::args::trace_format::TraceFormat;
use crate::args::{context, detail, dialect, flight, follow, triggers};
use crate::print::tell;

const EXAMPLES: &str = "\
Examples:
  weir record -e 'shop:*' -o trace -- ./shop --port 80      all events of a provider, until the command ends
  weir record -e shop:sale --filter 'total > 100' -o trace -p 1234      Ctrl-C ends it
  weir record -e 'shop:*' -x shop:tick --loglevel info --add-context vtid,procname -o trace -p shop
  weir record -e uprobe:libc:malloc -o trace -- ls          functions, with the parameters that debug information names
  weir record -e 'shop:*' --overwrite --snapshot-on 'total > 5000' -o snapshots -p shop      a flight recorder
  weir record -e 'shop:*' --start-on 'customer == 17' --stop-on 'total > 5000' -o trace -p shop
  ssh HOST weir record -e 'shop:*' --to - -p shop | weir view --follow -      live, from another machine
  weir view trace             what was recorded; babeltrace2 reads it too";

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("who").required(true).multiple(true).args(["command", "processes", "cgroups", "units", "containers", "of_program"])))]
#[command(group(ArgGroup::new("where").required(true).args(["output", "to"])))]
pub(crate) struct Record {
    /// Record this event: PROVIDER:EVENT in the programs and libraries of the processes (tracepoints of weir's and of LTTng-UST, static
    /// probes), with wildcards (* ? [..]); or usdt:BINARY:PROVIDER:EVENT, lttng:BINARY:PROVIDER:EVENT, uprobe:BINARY:FUNCTION,
    /// uretprobe:BINARY:FUNCTION. Behind a space with fields of your own, as perf
    /// has them: 'uprobe:./app:f size=%si:u32 name=+0(+8(%di)):string'. May be repeated
    #[arg(short = 'e', long = "event", value_name = "EVENT", required = true)]
    pub(crate) events: Vec<String>,

    /// But none whose name matches: PROVIDER:EVENT, or EVENT of any provider. May be repeated
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,

    /// Only events that matter at least as much: emerg, alert, crit, err, warning, notice, info, debug_system, …, debug. An
    /// event that does not say is debug_line
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) loglevel: Option<Level>,

    /// Only events of exactly this level
    #[arg(long, value_name = "LEVEL", value_parser = level, conflicts_with = "loglevel")]
    pub(crate) loglevel_only: Option<Level>,

    /// Record events only where this holds of their fields: `size > 4096 && name == "a*"`. It runs first, before anything is copied
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// What the operators of --filter, and of --snapshot-on and other triggers, mean
    #[arg(long, value_parser = dialect(), default_value_t, requires = "expression")]
    pub(crate) dialect: Dialect,

    /// Record with each event; may be repeated, or a list: --add-context vtid,procname
    #[arg(short = 't', long = "add-context", value_parser = context(), value_name = "CONTEXT", value_delimiter = ',')]
    pub(crate) contexts: Vec<Context>,

    /// The folder of the trace, or of the snapshots: one that is not there yet, or an empty one
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Send the trace to standard output while it is recorded, in place of a folder: `ssh HOST weir record -e 'shop:*' --to - -- ./shop | weir view
    /// --follow -`. What the command prints on standard output goes to standard error then
    #[arg(long, value_name = "-", value_parser = ["-"], allow_hyphen_values = true, conflicts_with_all = ["file_size", "file_count", "overwrite"])]
    pub(crate) to: Option<String>,

    /// What describes the trace: ctf-1.8, which every reader of such traces reads, or ctf-2 (weir, babeltrace2 from 2.1 on)
    #[arg(long, value_enum, default_value_t = TraceFormat::Ctf1, value_name = "FORMAT")]
    pub(crate) trace_format: TraceFormat,

    /// Bytes of the ring of each CPU, a power of two from 4K to 256M; K and M may follow. What comes while it is full is discarded, and
    /// counted; with --overwrite it takes the place of the oldest
    #[arg(long, value_name = "BYTES", default_value = "2M", value_parser = size)]
    pub(crate) size: u32,

    /// Have a thread that finds its ring full wait for room, for TIME at most (100ms; 500us, 2s), before its event is discarded: as it writes
    /// faster than weir reads. One that weir does not read in that time waits no more until it does; nor does a signal handler
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "100ms", value_parser = flight::time, conflicts_with_all = ["overwrite", "budget"])]
    pub(crate) blocking: Option<Duration>,

    /// Lose nothing of what is in the rings where weir is killed: a process beside it writes that to a trace in this folder, which `weir view` shows with the other
    #[arg(long, value_name = "DIR", conflicts_with_all = ["overwrite", "to"])]
    pub(crate) shm_dir: Option<PathBuf>,

    /// Begin a new file of a ring's stream when it would become larger; K, M and G may follow
    #[arg(long, value_name = "BYTES", value_parser = file_size, conflicts_with = "overwrite")]
    pub(crate) file_size: Option<u64>,

    /// Keep so many files of each ring, the newest: of more the oldest is removed
    #[arg(long, value_name = "NUMBER", requires = "file_size", conflicts_with = "overwrite", value_parser = clap::value_parser!(u64).range(1..=FILES_MAX))]
    pub(crate) file_count: Option<u64>,

    /// Record of this process, or of those whose command or program has this name, now and later; as of `weir trace`
    #[arg(
        short = 'p',
        long = "pid",
        value_name = "PID|NAME",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) processes: Vec<ProcessSpec>,

    /// Record of the processes in this cgroup and below it, now and later
    #[arg(long = "cgroup", value_name = "PATH", conflicts_with = "command")]
    pub(crate) cgroups: Vec<String>,

    /// Record of the processes of this systemd unit, now and later
    #[arg(long = "unit", value_name = "NAME", conflicts_with = "command")]
    pub(crate) units: Vec<String>,

    /// Record of the processes in this container, now and later
    #[arg(long = "container", value_name = "ID|NAME", conflicts_with = "command")]
    pub(crate) containers: Vec<String>,

    /// Record of the children of these processes too, and theirs. They are held until they are probed,
    /// where that can be; with =late they run on until they are found
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "held", value_parser = follow())]
    pub(crate) follow: Option<Follow>,

    /// Let -p NAME select the processes of every user; as root it selects those of one user, root's if there are any
    #[arg(long)]
    pub(crate) any_user: bool,

    /// Print nothing but what went wrong
    #[arg(short = 'q', long = "quiet", conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Name each place that is not probed, with the reason, and what probing cost
    #[arg(short = 'v', long = "verbose")]
    pub(crate) verbose: bool,

    /// What the run may cost, as of `weir trace`
    #[arg(long, value_name = "BUDGET")]
    pub(crate) budget: Option<Budget>,

    /// A policy that the run keeps to as well, beside the administrator's /etc/weir/policy.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    /// Beside this on the command line ([`super::sessions::RecordLine`]): clap knows of no arguments that are optional as a whole and have
    /// others inside.
    #[arg(skip)]
    pub(crate) flight: flight::Flight,

    /// Beside this, as well.
    #[arg(skip)]
    pub(crate) triggers: triggers::Triggers,

    /// Events with what they are chosen by, in place of -e, --filter and the like: for sessions, whose events have filters of
    /// their own
    #[arg(long = "rule", value_name = "JSON", hide = true, conflicts_with_all = ["filter", "loglevel", "loglevel_only"])]
    pub(crate) rules: Vec<Rule>,

    /// The daemon of sessions tends this run: it reads this file, and standard input and output are its
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "command")]
    pub(crate) tended: Option<PathBuf>,

    /// Other recordings have other events of the session
    #[arg(long = "part", hide = true, requires = "tended")]
    pub(crate) is_part: bool,

    /// Of a session of programs: the one whose processes are recorded
    #[arg(long = "program", value_name = "JSON", hide = true, requires = "tended")]
    pub(crate) of_program: Option<OfProgram>,

    /// What the session is called that this run records for
    #[arg(long, value_name = "NAME", hide = true, requires = "tended")]
    pub(crate) tended_as: Option<String>,

    /// Start this command, and record until it ends. When the run ends first (Ctrl-C), the command is ended too
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// The most files of a ring: their names sort as their numbers do.
pub(super) const FILES_MAX: u64 = 999_999;

impl Record {
    /// What is to be recorded: one rule, or those of a session.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let exclude =
            |rule: &Rule| Rule { exclude: [&rule.exclude[..], &self.exclude].concat(), ..rule.clone() };
        match self.rules.is_empty() {
            false => self.rules.iter().map(exclude).collect(),
            true => vec![Rule {
                events: self.events.clone(),
                exclude: self.exclude.clone(),
                least: self.loglevel,
                only: self.loglevel_only,
                filter: self.filter.clone(),
                dialect: self.dialect,
                channel: None,
            }],
        }
    }

    /// The run, but for what is recorded.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        options.command = (!self.command.is_empty()).then(|| self.command.clone());
        options.processes = self.processes.clone();
        options.cgroups = self.cgroups.clone();
        options.units = self.units.clone();
        options.containers = self.containers.clone();
        options.follow = self.follow;
        options.any_user = self.any_user;
        if let Some(of) = &self.of_program {
            options.of_program = Some(of.clone());
            // One program has what another has not.
            options.settings.push(("missing_probes".to_owned(), "ignore".to_owned()));
        }
        options.filter = self.filter.clone();
        options.dialect = self.dialect;
        options.budget = self.budget;
        options.policy = self.policy.clone();
        options.detail = detail(self.quiet, self.verbose);
        options.counts_hits = self.verbose;
        options
    }

    /// What is recorded.
    pub(crate) fn record_options(&self) -> RecordOptions {
        // Nothing is written to a folder of this name with --to.
        let output = self.output.clone().unwrap_or_else(|| PathBuf::from("-"));
        let mut options = RecordOptions::new(self.rules(), output);
        options.contexts = self.contexts.clone();
        options.format = self.trace_format.into();
        options.limits = Limits { file_bytes: self.file_size, files: self.file_count };
        options.ring_bytes = self.size;
        options.blocking = self.blocking;
        options.shm_dir = self.shm_dir.clone();
        options.shm_report = |what| tell!("weir: {what}");
        options.snapshots = self.flight.options();
        options.triggers = self.triggers.options();
        options.session = self.tended_as.clone();
        options.is_part = self.is_part || self.of_program.is_some();
        options
    }
}

/// LTTng writes them with a prefix too.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_prefix("trace_").unwrap_or(&lower);
    Level::named(name)
        .ok_or_else(|| format!("no level `{}`; there are {}", text.escape_debug(), Level::NAMES.join(", ")))
}

pub(super) fn size(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let bytes = digits.parse().ok().and_then(|count: u32| count.checked_mul(unit));
    let is_size = |bytes: &u32| bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(bytes);
    bytes.filter(is_size).ok_or_else(|| {
        format!("a power of two is wanted, from {}K to {}M", RING_BYTES_MIN >> 10, RING_BYTES_MAX >> 20)
    })
}

pub(crate) fn file_size(text: &str) -> Result<u64, String> {
    let units = [('k', 10), ('K', 10), ('M', 20), ('m', 20), ('G', 30), ('g', 30)];
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    let (digits, shift) = unit.map_or((text, 0), |(_, shift)| (&text[..text.len() - 1], *shift));
    let bytes = digits.parse().ok().and_then(|count: u64| count.checked_mul(1 << shift));
    let is_size = |bytes: &u64| (4096..=1 << 50).contains(bytes);
    bytes.filter(is_size).ok_or_else(|| "a number of bytes is wanted, from 4K on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_any_size() {
        assert_eq!(["4096", "100k", "3M", "1G"].map(file_size), [4096, 100 << 10, 3 << 20, 1 << 30].map(Ok));
        for text in ["", "0", "4095", "-1", "M", "1.5M", "99999999999G", "1T"] {
            assert!(file_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(["4096", "4K", "512k", "2M"].map(size), [Ok(4096), Ok(4096), Ok(1 << 19), Ok(1 << 21)]);
        for text in ["", "0", "1", "3M", "5000", "4097", "4G", "4096M", "512M", "-1", "k"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn levels_are_lttng_s() {
        assert_eq!(level("INFO"), Ok(Level::new(6).unwrap()));
        assert_eq!(level("TRACE_DEBUG_LINE"), Ok(Level::new(13).unwrap()));
        assert!(level("loud").unwrap_err().contains("emerg, alert"));
    }
}
