//! What a run reports besides its script's output: what was probed, what was not, which processes came, what was lost.
//!
//! A run calls a function of its caller for each ([`Notices`]), at once, from whichever thread it happens in. `Display` of a notice is the text that the
//! command line shows, without the program's name: lines, of which those that belong to the one before begin with two blanks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_probe::Stops;
use weir_probe::launch::Ended;
use weir_report::{ProcessLine, Summary};
use weir_sessions::recorded::{Recorded, Snapshots};
use weir_source::{Diagnostic, SourceFile};

use crate::failure::Failure;

/// Something that a user may want to know.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The script is compiled, and its places are planned.
    Compiled {
        /// Places that the script names.
        places: usize,
        /// What they are: `functions` or `places`.
        what: &'static str,
        /// From the script's text to code, with looking up what it names.
        compiled: Duration,
        /// Deciding how each place is patched.
        planned: Duration,
    },
    /// A text (the script, a filter) has something about it that its author may not have meant.
    Warnings {
        /// The text.
        source: SourceFile,
        /// What is said of it, with places in it.
        warnings: Vec<Diagnostic>,
    },
    /// Probes are in.
    Attached {
        /// None where the run has no other.
        process: Option<i32>,
        /// Places that are probed.
        probes: usize,
        /// From the first look at the process to the last patch.
        took: Duration,
        /// How long its threads were held.
        stops: Stops,
    },
    /// Probes are out again.
    Detached {
        /// The process.
        pid: i32,
        /// Places that were probed.
        probes: usize,
        /// From the first patch that is undone to the last.
        took: Duration,
        /// How long its threads were held.
        stops: Stops,
    },
    /// What cannot be probed, where it was asked for.
    NotProbed(NotProbed),
    /// A process that was given is left out of the run, which goes on with others.
    NotTraced {
        /// The process.
        pid: i32,
        /// Why.
        failure: Failure,
    },
    /// A process came into the run, or could not.
    Process(ProcessLine),
    /// How the command ended by itself.
    CommandEnded(Ended),
    /// Records, keys or hits were lost.
    Lost {
        /// How many.
        count: u64,
        /// What they are, and why they were lost.
        what: String,
    },
    /// A flight recorder has written what was in its rings.
    Snapshot {
        /// Of the folder.
        name: String,
        /// What is in it.
        what: String,
        /// Who asked for it.
        why: &'static str,
    },
    /// What a recording came to.
    Recorded(Recorded),
    /// What a flight recorder came to.
    Snapshots(Snapshots),
    /// What a run has covered.
    Summary {
        /// Probes, processes and losses, with the figures.
        summary: Box<Summary>,
        /// Only what is not as it should be is shown.
        is_brief: bool,
    },
    /// What the script reports as an error or a warning (`errorf`, `warnf`), or a file that it asked for and that cannot be read.
    Script {
        /// A line, or more.
        text: String,
        /// It is no error.
        is_warning: bool,
    },
    /// Anything else.
    Note {
        /// What it is about.
        about: About,
        /// What there is to say.
        text: String,
    },
}

/// What a [`Notice::Note`] is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum About {
    /// Which processes are traced: one is left out, waited for, taken over, or executes another program.
    Processes,
    /// The command that the run has started.
    Command,
    /// Probes that are gone, refused or retried in a process, also those in a library that it loads or unloads.
    Probes,
    /// What threads of a traced process were held for, or may not be asked for any more (seccomp).
    Target,
    /// Taking probes out: what failed, and what stays behind.
    Detaching,
    /// Maps of the script.
    Maps,
    /// What probes cost, and the budget.
    Costs,
    /// The trace or the snapshots that are written.
    Recording,
    /// What events have asked for (`--start-on` and others).
    Triggers,
}

/// Places of a script that are not probed, in one process.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NotProbed {
    /// None where the run has no other.
    pub process: Option<i32>,
    /// All places that the script names.
    pub places: usize,
    /// `functions` or `places`.
    pub what: &'static str,
    /// How many are not probed, by the code of the reason.
    pub refused: BTreeMap<String, u64>,
    /// Of how many the returns are not seen.
    pub returns_refused: BTreeMap<String, u64>,
    /// Each of the former with its reason, and each of the latter, where they were asked for.
    pub each: Option<(Vec<String>, Vec<String>)>,
}

impl NotProbed {
    pub(crate) fn is_nothing(&self) -> bool {
        self.lines().is_empty()
    }

    /// How many have these reasons.
    fn sum(codes: &BTreeMap<String, u64>) -> u64 {
        codes.values().sum()
    }

    fn codes(&self, codes: &BTreeMap<String, u64>) -> String {
        let mut by_count: Vec<_> = codes.iter().collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let codes: Vec<String> = by_count.iter().map(|(code, count)| format!("{code} {count}")).collect();
        let hint = if self.each.is_some() { "" } else { " (-v names them)" };
        format!("{}{hint}", codes.join(", "))
    }

    fn lines(&self) -> Vec<String> {
        let NotProbed { process, places, what, refused, returns_refused, each } = self;
        let mut lines = Vec::new();
        let is_partial = !refused.is_empty() || !returns_refused.is_empty();
        lines.extend(process.filter(|_| is_partial).map(|pid| format!("of process {pid}:")));
        let indented = |line: &String| format!("  {line}");
        if !refused.is_empty() {
            lines.push(format!("{} of {places} {what} are not probed:", NotProbed::sum(refused)));
        }
        lines.extend(each.iter().flat_map(|(places, _)| places).map(indented));
        if !refused.is_empty() {
            lines.push(format!("  {}", self.codes(refused)));
        }
        if !returns_refused.is_empty() {
            let sum = NotProbed::sum(returns_refused);
            lines.push(format!("returns of {sum} of {places} {what} are not seen:"));
            lines.extend(each.iter().flat_map(|(_, returns)| returns).map(indented));
            lines.push(format!("  {}", self.codes(returns_refused)));
        }
        lines
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Compiled { places, what, compiled, planned } => {
                write!(f, "{places} {what}: compiled in {}, planned in {}", ms(*compiled), ms(*planned))
            }
            Notice::Warnings { source, warnings } => {
                f.write_str(&weir_source::render(source, warnings, false))
            }
            Notice::Attached { process, probes, took, stops } => {
                write!(
                    f,
                    "{}{probes} probes attached in {}, {}",
                    of_process(*process),
                    ms(*took),
                    held(stops)
                )
            }
            Notice::Detached { probes, took, stops, .. } => {
                write!(f, "{probes} probes detached in {}, {}", ms(*took), held(stops))
            }
            Notice::NotProbed(not) => f.write_str(&not.lines().join("\n")),
            Notice::NotTraced { pid, failure } => write!(f, "process {pid} is not traced:\n{failure}"),
            Notice::Process(line) => f.write_str(&without_name(&line.text())),
            Notice::CommandEnded(Ended::Signal(signal)) => write!(f, "the command was killed by {signal}"),
            Notice::CommandEnded(Ended::Code(code)) => write!(f, "the command ended with exit code {code}"),
            Notice::Lost { count, what } => write!(f, "{count} {what}"),
            Notice::Snapshot { name, what, why } => write!(f, "{name}: {what} ({why})"),
            Notice::Recorded(recorded) => recorded.fmt(f),
            Notice::Snapshots(snapshots) => snapshots.fmt(f),
            Notice::Summary { summary, is_brief: false } => f.write_str(&without_name(&summary.text())),
            Notice::Summary { summary, is_brief: true } => {
                let processes = summary.processes.told();
                let worse = [processes, summary.unloaded(), summary.lost(), summary.slowed()].concat();
                f.write_str(&without_name(&worse))
            }
            Notice::Note { text, .. } | Notice::Script { text, .. } => f.write_str(text),
        }
    }
}

/// Where the notices of a run go.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notices {
    /// `take` is called for each, also from threads of the run's own. It must not wait for the run.
    pub fn to(take: impl Fn(Notice) + Send + Sync + 'static) -> Notices {
        Notices(Arc::new(take))
    }

    /// They are not looked at.
    pub fn ignored() -> Notices {
        Notices::to(drop)
    }

    pub(crate) fn send(&self, notice: Notice) {
        (self.0)(notice);
    }

    /// Names everything that was not done, with its count.
    pub(crate) fn losses(&self, losses: impl IntoIterator<Item = (u64, String)>) {
        for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
            self.send(Notice::Lost { count, what });
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

/// Sends a [`Notice::Note`] about something, whose text is formatted as by `format!`.
macro_rules! note {
    ($notices:expr, $about:ident, $($parts:tt)*) => {
        $notices.send($crate::notice::Notice::Note { about: $crate::notice::About::$about, text: format!($($parts)*) })
    };
}
pub(crate) use note;

/// Lines of a report, which have the program's name in front.
fn without_name(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix("weir: ").unwrap_or(line)).collect();
    lines.join("\n")
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn of_process(named: Option<i32>) -> String {
    named.map_or_else(String::new, |pid| format!("process {pid}: "))
}

/// How long the target did not run.
fn held(stops: &Stops) -> String {
    let Stops { count, longest, sum } = stops;
    format!("the target held {count} times, for {} at most, {} in sum", ms(*longest), ms(*sum))
}
