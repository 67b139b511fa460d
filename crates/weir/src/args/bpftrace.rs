//! bpftrace's command line, as bpftrace(8) has it: what `weir` understands where it is called `bpftrace`.
//!
//! In: the arguments. Out: those of `weir trace`, `weir list`, `weir fmt` or `weir doctor` that mean the same. What weir has no use for is accepted and left
//! out: how output is buffered (weir writes what there is at every look), warnings about helpers (faults are counted in any case), and switches
//! of the kernel's features. What weir cannot do yet is refused by name.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory as _, Parser, ValueEnum};

use super::{Compat, Format};

/// The version of bpftrace whose language and options are understood, and weir's.
const VERSION: &str = concat!("v0.26 (weir ", env!("CARGO_PKG_VERSION"), ")");

const AFTER: &str = "\
This is weir, called by the name of bpftrace. Probes of user space run inside the traced process; `weir help` shows what
else there is. Not there yet: --aot, -d libbpf and -d verifier.";

/// bpftrace's command line, understood by weir
#[derive(Parser, Debug)]
#[command(name = "bpftrace", version = VERSION, after_help = AFTER)]
struct Line {
    /// The script itself
    #[arg(short = 'e', value_name = "PROGRAM")]
    program: Option<String>,

    /// A script file (- for standard input), then the parameters $1, $2, …; with -l what is to be listed
    #[arg(value_name = "FILE|PARAM")]
    arguments: Vec<String>,

    /// List probes: of a pattern such as 'usdt:./app:*', or of a process (-p)
    #[arg(short = 'l', long = "list")]
    lists: bool,

    /// Start this command and trace it until it ends
    #[arg(short = 'c', long = "cmd", value_name = "COMMAND", conflicts_with = "processes")]
    run: Option<String>,

    /// Trace this process
    #[arg(short = 'p', long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    processes: Vec<i32>,

    /// Output format
    #[arg(short = 'f', value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Write the output to this file
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<OsString>,

    /// How output is buffered; weir writes what there is at every look
    #[arg(short = 'B', value_enum, value_name = "MODE")]
    buffering: Option<Buffering>,

    /// Print nothing but what the script prints
    #[arg(short = 'q', long = "quiet", conflicts_with = "verbose")]
    quiet: bool,

    /// Say more; with -l show arguments
    #[arg(short = 'v', long = "verbose", action = ArgAction::Count)]
    verbose: u8,

    /// Print a stage of the compilation and stop
    #[arg(short = 'd', long = "debug", value_enum, value_name = "STAGE")]
    stage: Option<Stage>,

    /// Look for headers in this folder
    #[arg(short = 'I', value_name = "DIR")]
    header_folders: Vec<OsString>,

    /// Include this header before the script
    #[arg(long = "include", value_name = "FILE")]
    headers: Vec<String>,

    /// Compile and verify the script, and stop
    #[arg(long)]
    dry_run: bool,

    /// Run the script's tests (`test:NAME`)
    #[arg(long = "test", conflicts_with = "bench")]
    tests: bool,

    /// Run the script's benchmarks (`bench:NAME`)
    #[arg(long)]
    bench: bool,

    /// The same as --test, --bench and --fmt
    #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["tests", "bench", "fmt"])]
    mode: Option<Mode>,

    /// Print the script in weir's style, and stop
    #[arg(long)]
    fmt: bool,

    /// Say nothing of what may be wrong and is no error
    #[arg(long)]
    no_warnings: bool,

    /// Show what this machine allows
    #[arg(long)]
    info: bool,

    /// Allow calls that change the system
    #[arg(long = "unsafe")]
    allows_unsafe: bool,

    /// Warn of helpers that fail: weir counts reads that fail in any case
    #[arg(short = 'k', long = "warnings", action = ArgAction::Count)]
    helper_warnings: u8,

    /// Activate static probes by their files: weir raises their semaphores itself
    #[arg(long)]
    usdt_file_activation: bool,

    /// Run those probes alone in whose full names this regular expression is found, beside BEGIN and END
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    probe_filter: Option<String>,

    /// Do without these features of the kernel: weir needs none
    #[arg(long, value_name = "LIST")]
    no_feature: Option<String>,

    /// Functions of the kernel that may be traced: weir asks the kernel
    #[arg(long, value_name = "FILE")]
    traceable_functions: Option<OsString>,

    /// Processes whose stacks are walked by their debug information: weir walks frame pointers
    #[arg(long, value_name = "PID")]
    dwarf_pid: Vec<i32>,

    /// The version whose words are printed
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = Compat::V0_26)]
    compat: Compat,

    /// Not there yet
    #[arg(long, hide = true, num_args = 0..=1)]
    aot: Option<Option<String>>,

    /// Parameters of the script: words, and --NAME=VALUE for getopt
    #[arg(last = true, value_name = "PARAM")]
    parameters: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Buffering {
    Line,
    Full,
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mode {
    Test,
    Bench,
    Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Stage {
    /// The syntax tree
    #[value(alias = "parse", alias = "types")]
    Ast,
    /// The intermediate representation
    Codegen,
    /// The same, optimised
    CodegenOpt,
    /// The eBPF program
    Dis,
    #[value(hide = true)]
    Libbpf,
    #[value(hide = true)]
    Verifier,
}

/// What weir is asked for by a line of bpftrace's.
pub(super) fn translated(arguments: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    let line = Line::try_parse_from(arguments)?;
    line.checked()?;
    Ok(line.of_weir())
}

impl Line {
    /// What is not there yet is refused.
    fn checked(&self) -> Result<(), clap::Error> {
        let refused = |what: &str| {
            let message = format!("not supported by weir yet: {what}");
            Err(Line::command().error(ErrorKind::InvalidValue, message))
        };
        let asked = [
            (self.aot.is_some(), "`--aot`"),
            (self.lists && self.program.is_some(), "`-l` of a script"),
            (self.stage == Some(Stage::Libbpf), "`-d libbpf`"),
            (self.stage == Some(Stage::Verifier), "`-d verifier`"),
        ];
        if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
            return refused(what);
        }
        let says_what = self.info || self.program.is_some() || !self.arguments.is_empty();
        if says_what || self.lists && !self.processes.is_empty() {
            return Ok(());
        }
        let message = match self.lists {
            true => "what is to be listed? Such as -l 'usdt:./app:*', or -p PID",
            false => "there is no script: write -e PROGRAM, or name a file",
        };
        Err(Line::command().error(ErrorKind::MissingRequiredArgument, message))
    }

    fn of_weir(mut self) -> Vec<OsString> {
        match self.mode {
            Some(Mode::Test) => self.tests = true,
            Some(Mode::Bench) => self.bench = true,
            Some(Mode::Format) => self.fmt = true,
            None => {}
        }
        let mut words: Vec<OsString> = vec!["weir".into()];
        let mut add = |words_of: &[&str]| words.extend(words_of.iter().map(OsString::from));
        if self.info {
            add(&["doctor"]);
            return words;
        }
        if self.fmt {
            add(&["fmt"]);
            match (self.program, self.arguments.first()) {
                (Some(program), _) => add(&[&format!("-e{program}")]),
                (None, Some(file)) => add(&["--print", "--", file]),
                // SANITY: `checked` has found one of them.
                (None, None) => unreachable!("there is a script"),
            }
            return words;
        }
        if self.lists {
            add(&["list"]);
            self.processes.iter().for_each(|pid| add(&["-p", &pid.to_string()]));
            if self.verbose > 0 {
                add(&["-v"]);
            }
            add(&["--"]);
            self.arguments.iter().for_each(|pattern| add(&[pattern]));
            return words;
        }
        add(&["trace"]);
        let stage = self.stage.map(|stage| match stage {
            Stage::Ast => "ast",
            Stage::Codegen | Stage::CodegenOpt => "ir",
            _ => "ebpf",
        });
        let format = if self.format == Format::Json { "json" } else { "text" };
        let compat = match self.compat {
            Compat::V0_23 => "0.23",
            Compat::V0_26 => "0.26",
            Compat::V0_27 => "0.27",
        };
        let with_value = [
            ("-e", self.program.as_deref()),
            ("-c", self.run.as_deref()),
            ("-f", Some(format)),
            ("--emit", stage),
            ("--probe-filter", self.probe_filter.as_deref()),
            ("--compat", Some(compat)),
        ];
        for (option, value) in with_value {
            value.iter().for_each(|value| {
                add(&[&format!("{option}{}{value}", if option.len() > 2 { "=" } else { "" })])
            });
        }
        let switches = [
            (self.quiet, "-q"),
            (self.verbose > 0, "-v"),
            (self.dry_run, "--dry-run"),
            (self.no_warnings, "--no-warnings"),
            (self.tests, "--test"),
            (self.bench, "--bench"),
            (self.allows_unsafe, "--unsafe"),
        ];
        switches.into_iter().filter(|(is_set, _)| *is_set).for_each(|(_, switch)| add(&[switch]));
        self.processes.iter().for_each(|pid| add(&["-p", &pid.to_string()]));
        self.headers.iter().for_each(|header| add(&["--include", header]));
        let is_trial = self.tests || self.bench;
        if self.processes.is_empty() && self.run.is_none() && !is_trial {
            add(&["--all-processes"]);
        }
        for parameter in self.parameters {
            match parameter.strip_prefix("--") {
                Some(named) if !named.is_empty() => add(&[&format!("--param={named}")]),
                // It may look like an option of weir's.
                _ => add(&[&format!("--argument={parameter}")]),
            }
        }
        for (option, values) in [("-I", self.header_folders), ("-o", self.output.into_iter().collect())] {
            for value in values {
                words.extend([option.into(), value]);
            }
        }
        words.extend(self.arguments.into_iter().map(OsString::from));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[&str], wanted: &[&str]) {
        let words = [&["bpftrace"], line].concat().into_iter().map(OsString::from).collect();
        let words = translated(words).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(words, [&["weir"], wanted].concat(), "{line:?}");
    }

    #[track_caller]
    fn refuses(line: &[&str], part: &str) {
        let words = [&["bpftrace"], line].concat().into_iter().map(OsString::from).collect();
        let error = translated(words).expect_err("it is refused").to_string();
        assert!(error.contains(part), "{line:?}: {error}");
    }

    #[test]
    fn options_are_those_of_trace() {
        check(&["-e", "BEGIN { }"], &["trace", "-eBEGIN { }", "-ftext", "--compat=0.26", "--all-processes"]);
        check(
            &["-q", "-f", "json", "-o", "out", "-B", "line", "-k", "--unsafe", "-p", "12", "x.bt", "a", "b"],
            &[
                "trace",
                "-fjson",
                "--compat=0.26",
                "-q",
                "--unsafe",
                "-p",
                "12",
                "-o",
                "out",
                "x.bt",
                "a",
                "b",
            ],
        );
        check(
            &["-vv", "-I", "inc", "--include", "a.h", "--dry-run", "--compat", "0.23", "-c", "ls -l", "x.bt"],
            &[
                "trace",
                "-cls -l",
                "-ftext",
                "--compat=0.23",
                "-v",
                "--dry-run",
                "--include",
                "a.h",
                "-I",
                "inc",
                "x.bt",
            ],
        );
        check(
            &["-d", "codegen-opt", "x.bt"],
            &["trace", "-ftext", "--emit=ir", "--compat=0.26", "--all-processes", "x.bt"],
        );
        check(
            &["--probe-filter", "^uprobe", "x.bt"],
            &["trace", "-ftext", "--probe-filter=^uprobe", "--compat=0.26", "--all-processes", "x.bt"],
        );
        check(
            &["--quiet", "--warnings", "--output", "o", "--pid", "7", "--debug", "types", "x.bt"],
            &["trace", "-ftext", "--emit=ast", "--compat=0.26", "-q", "-p", "7", "-o", "o", "x.bt"],
        );
        check(&["-"], &["trace", "-ftext", "--compat=0.26", "--all-processes", "-"]);
    }

    #[test]
    fn parameters_have_names_or_places() {
        check(
            &["-e", "BEGIN { }", "p1", "--", "--aa=20", "--bb", "p2"],
            &[
                "trace",
                "-eBEGIN { }",
                "-ftext",
                "--compat=0.26",
                "--all-processes",
                "--param=aa=20",
                "--param=bb",
                "--argument=p2",
                "p1",
            ],
        );
    }

    #[test]
    fn parameters_are_no_options() {
        check(
            &["x.bt", "--", "-c", "touch x", "-5", "--a=-b"],
            &[
                "trace",
                "-ftext",
                "--compat=0.26",
                "--all-processes",
                "--argument=-c",
                "--argument=touch x",
                "--argument=-5",
                "--param=a=-b",
                "x.bt",
            ],
        );
    }

    #[test]
    fn lists_and_info_are_commands_of_their_own() {
        check(&["-l", "usdt:./app:*"], &["list", "--", "usdt:./app:*"]);
        check(&["-lv", "usdt:./app:*", "-p", "5"], &["list", "-p", "5", "-v", "--", "usdt:./app:*"]);
        check(&["--info"], &["doctor"]);
        check(&["--fmt", "x.bt", "5"], &["fmt", "--print", "--", "x.bt"]);
        check(&["--fmt", "-e", "BEGIN { }"], &["fmt", "-eBEGIN { }"]);
        check(&["--fmt", "-"], &["fmt", "--print", "--", "-"]);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        refuses(&[], "there is no script");
        refuses(&["-l"], "what is to be listed?");
        refuses(&["--fmt"], "there is no script");
        refuses(&["--aot", "out", "x.bt"], "not supported by weir yet: `--aot`");
        refuses(&["-d", "verifier", "x.bt"], "not supported by weir yet: `-d verifier`");
        refuses(&["--version"], "bpftrace v0.26 (weir ");
        refuses(&["-Z"], "unexpected argument '-Z'");
    }
}
