//! The command line: what may be written, and what it means. Wrong usage exits 2, with clap's message.
//!
//! In: the arguments, as values. Out: [`Args`]. bpftrace's own flags keep their meaning; called under the name
//! `bpftrace`, the whole line is read as bpftrace reads it ([`bpftrace`]). Deliberately not done: opening files, looking at processes.

pub(crate) mod bpf;
pub(crate) mod bpftrace;
pub(crate) mod capture;
pub(crate) mod filter;
pub(crate) mod flight;
pub(crate) mod fmt;
pub(crate) mod lttng;
pub(crate) mod pcap;
pub(crate) mod record;
pub(crate) mod sessions;
pub(crate) mod trace_format;
pub(crate) mod triggers;
pub(crate) mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use weir_filter::Dialect;
use weir_policy::budget::Budget;
use weir_process::{Follow, ProcessSpec};
use weir_run::{Detail, Mode, Options};
use weir_sessions::context::Context;

const EXAMPLES: &str = "\
Examples:
  weir trace -e 'uprobe:libc:malloc { @bytes = hist(arg0); }' -c 'ls -l'
        run a command and show how large its allocations are
  weir trace -e 'uprobe:/usr/bin/redis-server:processCommand { @ = count(); }' -p 1234
        count in a running process; Ctrl-C ends it and prints
  weir script.bt first second -p 1234 -f json -o out.ndjson
        run a file with the parameters $1 and $2; weir's output goes to out.ndjson. `trace` may be left out, as here
  weir -e 'uretprobe:./app:load { @[retval] = count(); }' -- ./app --port 80
        a command with its own options, as the shell has split it
  weir record -e 'shop:*' -o trace -- ./shop
        record events with all their fields; `weir view trace` shows them
  weir list 'usdt:./app:*'    what can be probed
  weir fmt tool.bt            put a script into weir's style
  weir bpf run prog.bpf.o     verify a compiled eBPF program, run it, print its result
  weir pcap eval -r x.pcap -- 'tcp port 80'
        run a packet filter on a capture file
  weir capture -i eth0 -f 'tcp port 80' -w web.pcapng
        capture packets
  weir ps                     what is being traced now
  weir top                    what the probes of all traced processes cost, every second
  weir detach -p 1234         put a process's code back after a killed weir
  weir doctor                 what this machine allows, and the remedy for each no

Exit codes: 0 done, 1 the input was refused, 2 wrong usage, 3 the machine refused. Where -c COMMAND ended by
itself: what it ended with, or 128 and the number of the signal that killed it.";

/// Traces live programs: a script becomes verified native code inside the traced process.
#[derive(Parser, Debug)]
#[command(name = "weir", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Parses a whole command line, the program's name first. The error prints itself and knows its exit code.
    pub(crate) fn parse_from_command_line(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Args, clap::Error> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        let called_bpftrace = arguments
            .first()
            .and_then(|name| Path::new(name).file_name())
            .is_some_and(|name| name == "bpftrace");
        if called_bpftrace {
            arguments = bpftrace::translated(arguments)?;
        }
        let first = arguments.get(1).map(|first| first.to_string_lossy().into_owned());
        match first.as_deref() {
            Some("--version" | "-V") => {}
            // `weir help trace` is `weir trace --help`.
            Some("help") => {
                while arguments.get(1).is_some_and(|word| word == "help") {
                    arguments.remove(1);
                }
                arguments.push("--help".into());
            }
            Some(first) if is_of_trace(first) => arguments.insert(1, "trace".into()),
            _ => {}
        }
        let mut args = Args::try_parse_from(arguments)?;
        if let Command::Trace(trace) = &mut args.command {
            let more = std::mem::take(&mut trace.more_arguments);
            trace.arguments.extend(more);
            trace.run = trace.run.take().or_else(|| CommandLine::of(std::mem::take(&mut trace.command)));
        }
        Ok(args)
    }
}

/// The first argument is no subcommand: a script, or an option of `weir trace`.
fn is_of_trace(first: &str) -> bool {
    match first {
        "-h" | "--help" => false,
        option if option.starts_with('-') => true,
        word => word.contains('/') || word.ends_with(".bt"),
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a script: -e PROGRAM or a file, on a command (-c) or running processes (-p)
    Trace(Box<Trace>),
    /// Put scripts into weir's style, in place
    Fmt(fmt::Fmt),
    /// List what can be probed: functions and static probes (USDT), by pattern
    List(List),
    /// eBPF objects by hand: run, verify, disassemble, assemble, or build one from a script
    Bpf(bpf::Bpf),
    /// Event filters by hand: check, evaluate, or show every stage of one
    Filter(filter::Filter),
    /// Packet filters (pcap-filter(7)) by hand: compile, check, or run one on a capture file
    Pcap(pcap::Pcap),
    /// Capture packets at interfaces or from files, filtered, as pcapng
    Capture(Box<capture::Capture>),
    /// Record events with all their fields, into a trace (CTF) that `weir view` and babeltrace2 read
    Record(Box<sessions::RecordLine>),
    /// LTTng's commands, on recording sessions of all programs with LTTng-UST: `weir lttng create`, `enable-event -u`, `start`
    Lttng(Box<lttng::Line>),
    /// Read traces (CTF, as LTTng and weir write them): events in the order of time
    View(view::View),
    /// List the processes that are being traced, and what that costs them
    Ps(Ps),
    /// Show what the probes of all traced processes cost, every second
    Top(Top),
    /// Restore the code of processes whose weir is gone
    Detach(Detach),
    /// Show what this machine allows, and the remedy for each "no"
    Doctor,
    /// Print the script that makes a shell complete weir's command line
    Completions(Completions),
    /// What a shell may complete a text to that ends in an attach point: for the scripts of `weir completions`
    #[command(name = "__complete", hide = true)]
    Complete(Complete),
    /// Print weir's manual page, or write those of all subcommands to a directory
    Man(ManPages),
}

#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("who").multiple(true).args(["run", "command", "processes", "cgroups", "units", "containers"])))]
pub(crate) struct Trace {
    /// The script itself
    #[arg(short = 'e', value_name = "PROGRAM")]
    pub(crate) program: Option<String>,

    /// A script file, or - for standard input (unless -e is given), then the script's parameters $1, $2, …
    #[arg(value_name = "FILE.bt|PARAM", required_unless_present = "program")]
    pub(crate) arguments: Vec<String>,

    /// Start this command and trace it until it ends; quotes are honoured, nothing is expanded. When the run ends first (Ctrl-C,
    /// SIGTERM, exit()), the command is ended too, with SIGTERM
    #[arg(short = 'c', long = "cmd", value_name = "COMMAND", value_parser = split_command,
          conflicts_with_all = ["processes", "cgroups", "units", "containers"])]
    pub(crate) run: Option<CommandLine>,

    /// Trace this process, or those whose command or program has this name, now and later (wildcards * ? [..]); may be
    /// repeated, or a list: -p 17,18. All share one set of maps
    #[arg(short = 'p', long = "pid", value_name = "PID|NAME", value_delimiter = ',')]
    pub(crate) processes: Vec<ProcessSpec>,

    /// Trace the processes in this cgroup and below it, now and later: a path as in /proc/PID/cgroup, or below /sys/fs/cgroup
    #[arg(long = "cgroup", value_name = "PATH")]
    pub(crate) cgroups: Vec<String>,

    /// Trace the processes of this systemd unit, now and later; a service unless the name says otherwise
    #[arg(long = "unit", value_name = "NAME")]
    pub(crate) units: Vec<String>,

    /// Trace the processes in this container, now and later: docker, podman, containerd, LXC, systemd-nspawn; an id may be cut
    /// short to 6 digits or more
    #[arg(long = "container", value_name = "ID|NAME")]
    pub(crate) containers: Vec<String>,

    /// Trace the children of traced processes too, and theirs, whether by fork, vfork, clone or posix_spawn. They are held until they are probed,
    /// where that can be; with =late they run on until they are found
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "held", value_parser = follow(), requires = "who")]
    pub(crate) follow: Option<Follow>,

    /// Let -p NAME select the processes of every user. As root it selects those of one user, root's if there are any: a traced process can read
    /// and change what the run has counted of others
    #[arg(long)]
    pub(crate) any_user: bool,

    /// Where no process is named: trace all that map what the script probes, also where that is most of the machine, as with libc
    #[arg(long, conflicts_with = "who")]
    pub(crate) all_processes: bool,

    /// Output format
    #[arg(short = 'f', long = "format", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Write weir's output to this file instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print nothing but what the script prints
    #[arg(short = 'q', long = "quiet", conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Name each function that is not probed, with the reason, and how often each probe ran and was missed
    #[arg(short = 'v', long = "verbose")]
    pub(crate) verbose: bool,

    /// Print one stage of the compilation and stop
    #[arg(long, value_enum, value_name = "STAGE")]
    pub(crate) emit: Option<Stage>,

    /// A parameter of the script that may begin with a hyphen: behind those of the command line
    #[arg(long = "argument", hide = true, value_name = "PARAM", allow_hyphen_values = true)]
    pub(crate) more_arguments: Vec<String>,

    /// Run the script's tests (`test:NAME`) and nothing else but BEGIN and END, in weir itself. One fails that returns or exits with something else than 0, or
    /// reports an error (`assert`, `errorf`); weir ends with 1 then
    #[arg(long, conflicts_with_all = ["bench", "who", "command", "live", "dry_run", "emit", "explain"])]
    pub(crate) test: bool,

    /// Run the script's benchmarks (`bench:NAME`) in the same way, and show the time of a run
    #[arg(long, conflicts_with_all = ["who", "command", "live", "dry_run", "emit", "explain"])]
    pub(crate) bench: bool,

    /// Show what the run would do, and stop: where which program would be attached, how or why not, what a hit may cost, maps and their memory,
    /// and what each engine would do. With -f json an object a row
    #[arg(long, conflicts_with_all = ["emit", "dry_run"])]
    pub(crate) explain: bool,

    /// Compile and verify the script, and stop before anything is attached or started
    #[arg(long, conflicts_with = "emit")]
    pub(crate) dry_run: bool,

    /// A parameter of the script that has a name: `getopt("NAME", …)` in it. Without a value it is true; may be repeated
    #[arg(long = "param", value_name = "NAME[=VALUE]", value_parser = named_parameter)]
    pub(crate) named: Vec<(String, Option<String>)>,

    /// Let the script have weir run commands, with `system`, and send signals to what it traces, with `signal`
    #[arg(long = "unsafe")]
    pub(crate) allows_unsafe: bool,

    /// Say nothing of what may be wrong with the script and is no error
    #[arg(long)]
    pub(crate) no_warnings: bool,

    /// The version of bpftrace whose words the report has, where they have changed
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = Compat::V0_23)]
    pub(crate) compat: Compat,

    /// Run clauses at events (usdt, uprobe, uretprobe) only where this holds of the event's fields: `size > 4096 && name ==
    /// "a*"`. It runs first, on the raw arguments; hits that it rejects are hits
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// Of the script's probes run those alone, beside BEGIN and END, in whose full names (`uprobe:/bin/app:main`) this regular expression is found
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub(crate) probe_filter: Option<String>,

    /// What the filter's operators mean
    #[arg(long, value_parser = dialect(), default_value_t, requires = "filter")]
    pub(crate) dialect: Dialect,

    /// Run clauses at events only where this eBPF program returns something else than 0. It comes behind --filter, gets the
    /// registers of the event (struct pt_regs), and has maps of its own, which are printed at the end. An object (.bpf.o) or
    /// assembly text; of several programs, the one of this name or section
    #[arg(long = "program", value_name = "FILE[:NAME]")]
    pub(crate) decider: Option<String>,

    /// Look for the headers that the script includes in this folder first; may be repeated
    #[arg(short = 'I', value_name = "FOLDER")]
    pub(crate) header_folders: Vec<PathBuf>,

    /// Include this header before the script; may be repeated
    #[arg(long = "include", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,

    /// Leave clauses at the two ends of a call apart: for tests of what a session does
    #[arg(long, hide = true)]
    pub(crate) no_sessions: bool,

    /// What the run may cost, as a list: 1% (share of the CPU time of each process; probes over it are sampled, shut or
    /// withdrawn), 64MiB (memory: segment and code), 10ms-stop (longest stop while attaching)
    #[arg(long, value_name = "BUDGET")]
    pub(crate) budget: Option<Budget>,

    /// Show what each probe costs while it runs: a table on the terminal (keys: q, arrows), else lines once a second
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) live: bool,

    /// A policy that the run keeps to as well, beside the administrator's /etc/weir/policy.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    /// Where the script runs
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub(crate) engine: Engine,

    /// Start this command and trace it, as -c does; its words are as the shell has split them
    #[arg(last = true, value_name = "COMMAND",
          conflicts_with_all = ["run", "processes", "cgroups", "units", "containers"])]
    pub(crate) command: Vec<String>,
}

/// Where a script's text comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script<'a> {
    Text(&'a str),
    File(&'a Path),
    StandardInput,
}

impl Trace {
    /// The script, and its parameters.
    pub(crate) fn script(&self) -> (Script<'_>, &[String]) {
        script(self.program.as_deref(), &self.arguments)
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        options.processes = self.processes.clone();
        options.cgroups = self.cgroups.clone();
        options.units = self.units.clone();
        options.containers = self.containers.clone();
        options.follow = self.follow;
        options.any_user = self.any_user;
        options.all_processes = self.all_processes;
        options.command = self.run.as_ref().map(|run| run.words.clone());
        options.filter = self.filter.clone();
        options.mode = match (self.test, self.bench) {
            (true, _) => Mode::Test,
            (_, true) => Mode::Bench,
            _ => Mode::Trace,
        };
        options.probe_filter = self.probe_filter.clone();
        options.dialect = self.dialect;
        options.program = self.decider.clone();
        options.budget = self.budget;
        options.policy = self.policy.clone();
        options.engine = match self.engine {
            Engine::Auto => weir_run::Engine::Auto,
            Engine::User => weir_run::Engine::User,
            Engine::Kernel => weir_run::Engine::Kernel,
        };
        options.has_view = self.live;
        options.detail = detail(self.quiet, self.verbose);
        // The summary is what the counts are for.
        options.counts_hits = self.verbose || self.format == Format::Json;
        options.fuses = !self.no_sessions;
        options.named = self.named.clone();
        options.allows_unsafe = self.allows_unsafe;
        options.has_truths = self.compat != Compat::V0_23;
        options
    }
}

/// `-q` and `-v`, which exclude each other.
fn detail(quiet: bool, verbose: bool) -> Detail {
    match (quiet, verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Verbose,
        _ => Detail::Normal,
    }
}

/// The script that -e or the first argument names, and its parameters.
pub(crate) fn script<'a>(program: Option<&'a str>, arguments: &'a [String]) -> (Script<'a>, &'a [String]) {
    match (program, arguments.split_first()) {
        (Some(program), _) => (Script::Text(program), arguments),
        (None, Some((file, parameters))) if file == "-" => (Script::StandardInput, parameters),
        (None, Some((file, parameters))) => (Script::File(Path::new(file)), parameters),
        // SANITY: clap requires an argument where there is no -e.
        (None, None) => unreachable!("clap requires a file where there is no -e"),
    }
}

const LIST_EXAMPLES: &str = "\
Examples:
  weir list 'uprobe:libc:*alloc*'     functions of a library
  weir list -v 'usdt:./app:*'         static probes, with the types and places of their arguments
  weir list -p 1234 'usdt:*:*'        static probes of all that a process has mapped
  weir list -v 'lttng:./app:*'        events of LTTng-UST, with their fields";

const LIST_PATTERN: &str = "uprobe:BINARY[:FUNCTION], usdt:BINARY[:[PROVIDER:]NAME], lttng:BINARY[:[PROVIDER:]NAME] or BINARY, with wildcards (* ? [..])";

#[derive(clap::Args, Debug)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct List {
    #[arg(value_name = "PATTERN", required_unless_present = "pid", help = LIST_PATTERN)]
    pub(crate) patterns: Vec<String>,

    /// Only what this process has mapped; the binary may then have wildcards too
    #[arg(short = 'p', long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,

    /// Show addresses, semaphores, and the types and operands of arguments
    #[arg(short = 'v', long = "verbose")]
    pub(crate) verbose: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Complete {
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: String,
}

const DETACH_EXAMPLES: &str = "\
Examples:
  weir detach -p 1234         put the code of one process back
  weir detach --all           of every process whose weir was killed";

#[derive(clap::Args, Debug)]
#[command(after_help = DETACH_EXAMPLES)]
#[command(group(ArgGroup::new("which").required(true).args(["pids", "all"])))]
pub(crate) struct Detach {
    /// Restore this process; may be repeated, or a list: -p 17,18
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',',
          value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pids: Vec<i32>,

    /// Restore every process that `weir ps` lists
    #[arg(long)]
    pub(crate) all: bool,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(weir completions bash)       in this shell; README.md says where it stays";

#[derive(clap::Args, Debug)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// Whose script
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

const MAN_EXAMPLES: &str = "\
Examples:
  weir man | man -l -                   the page of weir
  weir man -o /usr/local/share/man/man1 all pages";

#[derive(clap::Args, Debug)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManPages {
    /// Write one page a subcommand there (weir.1, weir-trace.1, …) instead
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

const PS_EXAMPLES: &str = "\
Examples:
  weir ps                     who is traced, by which weir, at what cost
  weir ps -f json | jq .pid   the same for programs";

#[derive(clap::Args, Debug)]
#[command(after_help = PS_EXAMPLES)]
pub(crate) struct Ps {
    /// A table, or one JSON object a process and line
    #[arg(short = 'f', long = "format", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

const TOP_EXAMPLES: &str = "\
Examples:
  weir top                    a table of all probes, the costliest first; q ends it
  weir top -p 1234 -n 1       one look at one process
  weir top | tee costs.tsv    lines with columns separated by tabs, every second";

#[derive(clap::Args, Debug)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct Top {
    /// Only this process; may be repeated, or a list: -p 17,18. It ends when they have ended
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',',
          value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pids: Vec<i32>,

    /// End after so many looks, one a second
    #[arg(short = 'n', long = "iterations", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iterations: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl From<Format> for weir_report::Format {
    fn from(format: Format) -> weir_report::Format {
        match format {
            Format::Text => weir_report::Format::Text,
            Format::Json => weir_report::Format::Json,
        }
    }
}

/// A stage whose text form can be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Stage {
    /// The syntax tree
    Ast,
    /// The typed intermediate representation
    Ir,
    /// The eBPF program
    Ebpf,
    /// The machine code
    Asm,
    /// The places that would be probed
    Sites,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Engine {
    /// Each clause where its events are: inside the traced process, or in the kernel
    Auto,
    /// Inside the traced process
    User,
    /// In the kernel, at its events and at uprobes: weir puts nothing into the process, where each hit traps
    Kernel,
}

/// Versions of bpftrace that print something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Compat {
    /// `Attaching 2 probes...`, with the output; comparisons print as 1 and 0
    #[value(name = "0.23")]
    V0_23,
    /// `Attached 2 probes`, on standard error; comparisons print as `true` and `false`
    #[value(name = "0.26")]
    V0_26,
    /// The same, and `stats` as a structure: `{ .count = 2, .average = 7, .total = 14 }`
    #[value(name = "0.27")]
    V0_27,
}

impl From<Compat> for weir_report::Words {
    fn from(compat: Compat) -> weir_report::Words {
        match compat {
            Compat::V0_23 => weir_report::Words::Attaching,
            Compat::V0_26 => weir_report::Words::Attached,
            Compat::V0_27 => weir_report::Words::Structures,
        }
    }
}

/// `name` or `name=value`.
fn named_parameter(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    match name.is_empty() {
        true => Err("a parameter has a name: NAME or NAME=VALUE".to_owned()),
        false => Ok((name.to_owned(), value)),
    }
}

/// How `--follow` has it; help and completion show what there is.
fn follow() -> impl TypedValueParser<Value = Follow> {
    let hows = ["held", "late"].map(PossibleValue::new);
    // SANITY: the values that there may be are those that there are.
    PossibleValuesParser::from(hows).map(|how| how.parse().expect("a possible value"))
}

/// What operators of a filter mean.
fn dialect() -> impl TypedValueParser<Value = Dialect> {
    let dialects = Dialect::ALL.map(|dialect| PossibleValue::new(dialect.name()).help(dialect.about()));
    // SANITY: as in `follow`.
    PossibleValuesParser::from(dialects).map(|name| name.parse().expect("a possible value"))
}

/// What is recorded beside an event's own fields.
fn context() -> impl TypedValueParser<Value = Context> {
    let row = |context: Context| {
        let value = PossibleValue::new(context.name()).help(context.about());
        if context.alias() == context.name() { value } else { value.alias(context.alias()) }
    };
    // SANITY: as in `follow`.
    PossibleValuesParser::new(Context::all().map(row)).map(|name| name.parse().expect("a possible value"))
}

/// What `-c` starts: a program and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CommandLine {
    /// As it was given.
    pub(crate) text: String,
    /// Never empty.
    pub(crate) words: Vec<String>,
}

impl CommandLine {
    /// Of words that a shell has split, if there are any.
    pub(crate) fn of(words: Vec<String>) -> Option<CommandLine> {
        (!words.is_empty()).then(|| CommandLine { text: words.join(" "), words })
    }
}

/// Splits a command as a shell would, without expanding anything: blanks separate, '…' is literal, "…" honours
/// a backslash before `"`, `\`, `$` and `` ` ``, and a bare backslash takes the next character as it is.
pub(crate) fn split_command(text: &str) -> Result<CommandLine, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => single_quoted(&mut rest, word.get_or_insert_default())?,
            '"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            '\\' => {
                let escaped = rest.next().ok_or("the command ends in a backslash")?;
                word.get_or_insert_default().push(escaped);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) {
        return Err("the command is empty".to_string());
    }
    Ok(CommandLine { text: text.to_string(), words })
}

fn single_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    loop {
        match rest.next().ok_or("a ' is not closed")? {
            '\'' => return Ok(()),
            c => word.push(c),
        }
    }
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    let open = "a \" is not closed";
    loop {
        match rest.next().ok_or(open)? {
            '"' => return Ok(()),
            '\\' => match rest.next().ok_or(open)? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        split_command(text).map(|command| command.words)
    }

    fn check_split(text: &str, want: &[&str]) {
        assert_eq!(words(text).unwrap(), want, "{text}");
    }

    #[test]
    fn commands_split_as_in_a_shell() {
        check_split("ls -l /tmp", &["ls", "-l", "/tmp"]);
        check_split("  a\t b\nc ", &["a", "b", "c"]);
        check_split(
            "sqlite3 :memory: \"SELECT 1; SELECT 'x'\"",
            &["sqlite3", ":memory:", "SELECT 1; SELECT 'x'"],
        );
        check_split("a 'b c'd\"e f\"", &["a", "b cde f"]);
        check_split("a ''  \"\"", &["a", "", ""]);
        check_split(r"a\ b \'c \\", &["a b", "'c", r"\"]);
        check_split(r"a 'b\n\\'", &["a", r"b\n\\"]);
        check_split(r#"a "b\"c \$d \`e \\ \n""#, &["a", r#"b"c $d `e \ \n"#]);
        check_split("echo é「」", &["echo", "é「」"]);
    }

    #[test]
    fn commands_expand_nothing() {
        check_split(
            "echo $HOME ~ *.c `x` $(y) | z > w; v &",
            &["echo", "$HOME", "~", "*.c", "`x`", "$(y)", "|", "z", ">", "w;", "v", "&"],
        );
    }

    #[test]
    fn unfinished_commands_are_refused() {
        assert_eq!(words("a 'b"), Err("a ' is not closed".to_string()));
        assert_eq!(words("a \"b\\\""), Err("a \" is not closed".to_string()));
        assert_eq!(words("a \\"), Err("the command ends in a backslash".to_string()));
        assert_eq!(words("  "), Err("the command is empty".to_string()));
        assert_eq!(words("'' a"), Err("the command is empty".to_string()));
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::parse_from_command_line(words(line).unwrap().into_iter().map(OsString::from))
    }

    fn trace(line: &str) -> Trace {
        match parse(line).unwrap().command {
            Command::Trace(trace) => *trace,
            other => panic!("{line} is {other:?}"),
        }
    }

    #[test]
    fn definitions_hold_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn scripts_come_from_text_or_file() {
        let given = trace("weir trace -e 'BEGIN { }' x y");
        assert_eq!(given.script(), (Script::Text("BEGIN { }"), &["x".to_string(), "y".to_string()][..]));
        let given = trace("weir trace a.bt 7 -p 17,18 -p 19");
        assert_eq!(given.script(), (Script::File(Path::new("a.bt")), &["7".to_string()][..]));
        assert_eq!(given.processes, [17, 18, 19].map(ProcessSpec::Pid));
        let given =
            trace("weir trace -e p -p 17,nginx* --cgroup a --cgroup b --unit c --container d --follow");
        assert_eq!(given.processes, [ProcessSpec::Pid(17), ProcessSpec::Name("nginx*".into())]);
        assert_eq!(
            (given.cgroups, given.follow),
            (vec!["a".to_string(), "b".to_string()], Some(Follow::Held))
        );
        let given = trace("weir trace -e p -c 'ls \"a b\"' -f json -o out -q --emit ebpf");
        assert_eq!(given.run.unwrap().words, ["ls", "a b"]);
        assert_eq!((given.format, given.emit, given.quiet), (Format::Json, Some(Stage::Ebpf), true));
    }

    #[test]
    fn a_script_needs_no_subcommand() {
        for line in
            ["weir -e p", "weir -v -e p", "weir -p 7 -e p", "weir -q x.bt", "weir ./x", "weir x.bt", "weir -"]
        {
            trace(line);
        }
        assert_eq!(trace("weir -").script().0, Script::StandardInput);
        assert_eq!(trace("weir /a/b 7").script(), (Script::File(Path::new("/a/b")), &["7".to_string()][..]));
        assert_eq!(parse("weir scritp").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_command_may_come_after_two_dashes() {
        let given = trace("weir x.bt 7 -v -- ls -l 'a b'");
        assert_eq!(given.script(), (Script::File(Path::new("x.bt")), &["7".to_string()][..]));
        assert_eq!(given.run.unwrap().words, ["ls", "-l", "a b"]);
        assert!(trace("weir -e p --follow -- ls").follow.is_some());
        check_usage("weir -e p -c ls -- ls");
        check_usage("weir -e p -p 1 -- ls");
    }

    #[test]
    fn called_as_bpftrace_it_traces() {
        assert_eq!(trace("/usr/bin/bpftrace -e p").script().0, Script::Text("p"));
        assert_eq!(parse("bpftrace --version").unwrap_err().exit_code(), 0);
    }

    fn check_usage(line: &str) {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }

    #[test]
    fn wrong_usage_exits_2() {
        check_usage("weir");
        check_usage("weir trase");
        check_usage("weir trace");
        check_usage("weir trace -e");
        check_usage("weir trace -e p -c ls -p 1");
        check_usage("weir trace -e p -c \"ls '\"");
        check_usage("weir trace -e p -p 0");
        check_usage("weir trace -e p -p 4294967296");
        check_usage("weir trace -e p -p /bin/x");
        check_usage("weir trace -e p -c ls --unit x");
        check_usage("weir trace -e p --follow");
        check_usage("weir trace -e p -f xml");
        check_usage("weir trace -e p -q -v");
        check_usage("weir trace -e p --emit llvm");
        check_usage("weir trace -e p --budget cheap");
        check_usage("weir trace -e p --dialect lttng");
        check_usage("weir trace -e p --filter x --dialect c");
        check_usage("weir fmt --check --print x.bt");
        check_usage("weir fmt -e p x.bt");
        check_usage("weir detach");
        check_usage("weir detach -p 1 --all");
        check_usage("weir ps 1");
        check_usage("weir top 1");
        check_usage("weir top -n 0");
        check_usage("weir top -p 0");
        check_usage("weir list");
        check_usage("weir list -p 0");
        check_usage("weir completions");
        check_usage("weir completions tcsh");
        check_usage("weir bpf");
        check_usage("weir bpf run");
        check_usage("weir bpf run a.o --program-hex 95");
        check_usage("weir bpf run a.o --repeat 0");
        check_usage("weir bpf run a.o --engine bochs");
        check_usage("weir bpf asm a.s");
        check_usage("weir bpf build -o a.o");
    }

    #[test]
    fn help_and_version_exit_0() {
        for line in [
            "weir --help",
            "weir --version",
            "weir trace --help",
            "weir help",
            "weir help help",
            "weir help bpf run",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 0, "{line}");
        }
    }
}
