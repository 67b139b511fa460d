//! record: what an event costs that is recorded, beside LTTng-UST.
//!
//! `tests/lttng/recorded.c` emits the same events by weir's tracepoints and by LTTng's: an int and a long, nine strings of four
//! characters, or a long and 64 bytes; in 1, 2, 4 or 8 threads; recorded as they are, or behind a filter that accepts them all. Events
//! In one thread also behind two to nine comparisons of strings, as the thesis has it in figure 4.10: what an event takes then is its filter's
//! time and its tracepoint's, te + tt. Events
//! come in batches of 1,000 with a pause behind each, so that both tools' readers follow and nothing is lost: a run that loses an
//! event is no sample. Both have rings of 4 MiB a CPU that discard, and write the trace to the same folder.
//!
//! A figure is CPU time of the emitting threads a recorded event, less that of the same program when nobody records it, in the
//! same round. A/A is weir's once more, of one thread without a filter.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::lttng::{self, Lttng};
use crate::bench::{Outcome, alternate};
use crate::{process, workspace};

const LTTNG: &str = "lttng";
const AGAIN: &str = "A/A";
/// What is emitted, and a filter that accepts it (both tools have it).
const KINDS: [(&str, &str, &str); 3] = [
    ("ints", "int and long", "a >= 0"),
    ("strings", "9 strings", "var8 == \"str8\""),
    ("blob", "64 bytes", "n >= 0"),
];
const THREADS: [u32; 4] = [1, 2, 4, 8];
const STRINGS: usize = 1;
/// Comparisons that a filter joins by &&: the thesis's numbers.
const PREDICATES: [usize; 5] = [2, 4, 6, 8, 9];
/// Events of a run, in all threads.
const EVENTS: u32 = 96_000;
/// Of recorded.c.
const BATCH: u32 = 1000;
const SESSION: &str = "weir-bench-record";
/// LIMIT: a run of a program.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// What the project promises: weir's share of what LTTng's event takes.
const SHARE_MAX: f64 = 0.4;

/// What is measured in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Case {
    kind: usize,
    threads: u32,
    filter: Filter,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Filter {
    None,
    /// That of [`KINDS`].
    One,
    /// So many comparisons of strings.
    Predicates(usize),
}

impl Case {
    fn all() -> Vec<Case> {
        let mut all = Vec::new();
        for kind in 0..KINDS.len() {
            for threads in THREADS {
                all.extend([Filter::None, Filter::One].map(|filter| Case { kind, threads, filter }));
            }
        }
        let predicates = PREDICATES.map(Filter::Predicates);
        all.extend(predicates.map(|filter| Case { kind: STRINGS, threads: 1, filter }));
        all
    }

    fn name(self) -> String {
        let (_, what, _) = KINDS[self.kind];
        let filter = match self.filter {
            Filter::None => String::new(),
            Filter::One => ", filtered".to_owned(),
            Filter::Predicates(number) => format!(", {number} predicates"),
        };
        let threads =
            if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        format!("{what}, {threads}{filter}")
    }

    /// Filters ask for its fields, which the other events do not have.
    fn event(self) -> String {
        format!("recorded:{}", KINDS[self.kind].0)
    }

    /// All of them hold.
    fn filter(self) -> Option<String> {
        match self.filter {
            Filter::None => None,
            Filter::One => Some(KINDS[self.kind].2.to_owned()),
            Filter::Predicates(number) => {
                let each: Vec<String> = (0..number).map(|n| format!("var{n} == \"str{n}\"")).collect();
                Some(each.join(" && "))
            }
        }
    }

    /// Of recorded.c.
    fn arguments(self) -> [String; 3] {
        let batches = EVENTS / BATCH / self.threads;
        [KINDS[self.kind].0.to_owned(), self.threads.to_string(), batches.to_string()]
    }
}

/// Who records.
struct Sides {
    weir: PathBuf,
    program: PathBuf,
    /// With the program that has its tracepoints.
    lttng: Option<(Lttng, PathBuf)>,
    /// Where traces go.
    folder: PathBuf,
}

pub(super) fn measure(weir: PathBuf, rounds: usize) -> Result<Outcome> {
    let mut figures = Figures::default();
    let lttng = Lttng::start().and_then(|lttng| Ok((lttng, lttng::compile("recorded.c", "recorded_lttng")?)));
    let lttng = lttng.map_err(|error| figures.missing.push(format!("{LTTNG}: {error:#}"))).ok();
    let folder = workspace::target_folder("bench")?.join(format!("record-{}", std::process::id()));
    let sides = Sides { weir, program: compile()?, lttng, folder };
    let mut samples: BTreeMap<(&str, String), Vec<f64>> = BTreeMap::new();
    let cases = Case::all();
    let names: Vec<String> = cases.iter().map(|case| case.name()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    alternate(rounds, &names, &mut |name| {
        let case = cases.iter().find(|case| case.name() == name).context("no such case")?;
        for (subject, ns) in sides.run(*case)? {
            samples.entry((subject, case.name())).or_default().push(ns);
        }
        Ok(())
    })?;
    for ((subject, case), of_event) in &samples {
        figures.add(subject, case, "ns", of_event);
    }
    let title = format!("An event that is recorded, {rounds} rounds of {EVENTS} events");
    Ok(Outcome { title, remarks: bars(&figures), figures })
}

fn compile() -> Result<PathBuf> {
    let program = workspace::target_folder("programs")?.join("recorded_weir");
    let root = workspace::root();
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-DWEIR", "-I"]).arg(root.join("include")).arg("-o").arg(&program);
    compile.arg(root.join("tests/lttng/recorded.c")).arg("-lpthread");
    process::output_within(&mut compile, RUN_LIMIT)?;
    Ok(program)
}

impl Sides {
    /// Net nanoseconds of an event on each side.
    fn run(&self, case: Case) -> Result<Vec<(&'static str, f64)>> {
        let idle = ns(Command::new(&self.program).args(case.arguments()))?;
        let mut found = vec![(WEIR, self.weir(case)? - idle)];
        if case.filter == Filter::None && case.threads == 1 {
            found.push((AGAIN, self.weir(case)? - idle));
        }
        if let Some((lttng, program)) = &self.lttng {
            let idle = ns(Command::new(program).args(case.arguments()))?;
            found.push((LTTNG, self.lttng(lttng, program, case)? - idle));
        }
        Ok(found)
    }

    fn weir(&self, case: Case) -> Result<f64> {
        let mut record = Command::new(&self.weir);
        record.args(["record", "-q", "--size", "4M", "-e", &case.event(), "-o"]).arg(&self.folder);
        record.args(case.filter().iter().flat_map(|filter| ["--filter", filter.as_str()]));
        record.arg("--").arg(&self.program).args(case.arguments());
        let took = ns(&mut record).with_context(|| format!("weir: {}", case.name()))?;
        self.check(case)?;
        Ok(took)
    }

    fn lttng(&self, lttng: &Lttng, program: &Path, case: Case) -> Result<f64> {
        // One that an earlier run may have left.
        let _ = lttng.command(&["destroy", SESSION]);
        lttng.command(&["create", SESSION, "-o", &self.folder.display().to_string()])?;
        let channel =
            ["enable-channel", "-u", "-s", SESSION, "--subbuf-size", "1M", "--num-subbuf", "4", "c"];
        lttng.command(&channel)?;
        let event = case.event();
        let mut rule = vec!["enable-event", "-u", "-s", SESSION, "-c", "c", &event];
        let filter = case.filter();
        rule.extend(filter.iter().flat_map(|filter| ["--filter", filter.as_str()]));
        lttng.command(&rule)?;
        lttng.command(&["start", SESSION])?;
        let took = ns(Command::new(program).args(case.arguments()));
        lttng.command(&["destroy", SESSION])?;
        let took = took.with_context(|| format!("lttng: {}", case.name()))?;
        self.check(case)?;
        Ok(took)
    }

    /// The trace has every event; it is gone then.
    fn check(&self, case: Case) -> Result<()> {
        let mut view = Command::new(&self.weir);
        view.args(["view", "-f", "json", "--stats"]).arg(&self.folder);
        let output = process::output_within(&mut view, RUN_LIMIT)?;
        std::fs::remove_dir_all(&self.folder)?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            recorded(&text) == u64::from(EVENTS),
            "{}: of {EVENTS} events the trace has {text}",
            case.name()
        );
        Ok(())
    }
}

impl Drop for Sides {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The sum of the counts in the lines of JSON.
fn recorded(stats: &str) -> u64 {
    let rows = stats.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    rows.filter_map(|row| row["events"].as_u64()).sum()
}

/// What the program prints last.
fn ns(command: &mut Command) -> Result<f64> {
    // No session daemon that there may be is waited for longer than it takes to answer.
    let output = process::output_within(command.env("LTTNG_UST_REGISTER_TIMEOUT", "3000"), RUN_LIMIT)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    last.trim().parse().with_context(|| format!("it printed {text:?}"))
}

fn bars(figures: &Figures) -> Vec<String> {
    let mut remarks = Vec::new();
    for case in Case::all() {
        let name = case.name();
        let (Some(weir), Some(lttng)) = (figures.get(WEIR, &name), figures.get(LTTNG, &name)) else {
            continue;
        };
        let (weir, lttng) = (weir.summary.median, lttng.summary.median);
        let share = weir / lttng;
        let verdict = if share <= SHARE_MAX { "met" } else { "NOT met" };
        remarks.push(format!(
            "bar: {name}: at most {SHARE_MAX} of LTTng's: {verdict}: {} of {} ns, {share:.3}",
            rounded(weir),
            rounded(lttng)
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_emits_the_same_number_of_events() {
        for case in Case::all() {
            let [_, threads, batches] = case.arguments();
            let events = threads.parse::<u32>().unwrap() * batches.parse::<u32>().unwrap() * BATCH;
            assert_eq!(events, EVENTS, "{case:?}");
        }
    }

    #[test]
    fn counts_are_read_from_what_view_prints() {
        let text = "{\"event\": \"a:b\", \"events\": 40, \"bytes\": 7}\n{\"event\": \"a:c\", \"events\": 2}\n\
                    {\"trace\": \"x\", \"lost_events\": 5}\n";
        assert_eq!(recorded(text), 42);
    }
}
