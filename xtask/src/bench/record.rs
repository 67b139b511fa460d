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

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::plan::{AGAIN, Form, Plan};
use crate::bench::report::met;
use crate::bench::rounds::{Rounds, alternate};
use crate::lttng::{self, Lttng};
use crate::{process, workspace};

const LTTNG: &str = "lttng";
/// weir on the program that has LTTng's tracepoints.
const ON_LTTNG: &str = "weir on lttng's";
/// What is emitted, and a filter that accepts it (both tools have it).
const KINDS: [(&str, &str, &str); 3] = [
    ("ints", "int and long", "a >= 0"),
    ("strings", "9 strings", "var8 == \"str8\""),
    ("blob", "64 bytes", "n >= 0"),
];
const THREADS: [u32; 4] = [1, 2, 4, 8];
/// Against another weir, where a round has less time.
const THREADS_AGAINST: [u32; 2] = [1, 8];
const STRINGS: usize = 1;
/// Comparisons that a filter joins by &&: the thesis's numbers.
const PREDICATES: [usize; 5] = [2, 4, 6, 8, 9];
const PREDICATES_AGAINST: [usize; 1] = [9];
/// Events of a run, in all threads.
const EVENTS: u32 = 96_000;
const EVENTS_AGAINST: u32 = 32_000;
const EVENTS_SMOKE: u32 = 2_000;
/// Of recorded.c.
const BATCH: u32 = 1000;
const SESSION: &str = "weir-bench-record";
/// LIMIT: a run of a program.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// What the project promises: weir's share of what LTTng's event takes; of an event of LTTng's, whose fields LTTng's code evaluates for both.
const SHARE_MAX: f64 = 0.4;
const SHARE_ON_LTTNG_MAX: f64 = 0.5;

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
    fn all(form: Form) -> Vec<Case> {
        let case = |kind, threads, filter| Case { kind, threads, filter };
        let both = [Filter::None, Filter::One];
        let (threads, predicates): (&[u32], &[usize]) = match form {
            Form::Full => (&THREADS, &PREDICATES),
            Form::Against => (&THREADS_AGAINST, &PREDICATES_AGAINST),
            Form::Smoke => return both.map(|filter| case(STRINGS, 1, filter)).to_vec(),
        };
        let mut all = Vec::new();
        for kind in 0..KINDS.len() {
            all.extend(threads.iter().flat_map(|&threads| both.map(|filter| case(kind, threads, filter))));
        }
        all.extend(predicates.iter().map(|&number| case(STRINGS, 1, Filter::Predicates(number))));
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
    fn arguments(self, events: u32) -> [String; 3] {
        let batches = events / BATCH / self.threads;
        [KINDS[self.kind].0.to_owned(), self.threads.to_string(), batches.to_string()]
    }
}

/// A run of the program with these events.
struct Side {
    case: Case,
    run: Run,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Run {
    /// Nobody records what weir's tracepoints emit.
    Idle,
    /// By this weir, as the subject's.
    Weir(&'static str, PathBuf),
    IdleLttng,
    /// LTTng's tracepoints by this weir.
    OnLttng(PathBuf),
    Lttng,
}

impl Run {
    fn subject(&self) -> &'static str {
        match self {
            Run::Idle => "idle",
            Run::Weir(subject, _) => subject,
            Run::IdleLttng => "idle, lttng",
            Run::OnLttng(_) => ON_LTTNG,
            Run::Lttng => LTTNG,
        }
    }

    /// What is subtracted from it.
    fn idle(&self) -> Option<Run> {
        match self {
            Run::Idle | Run::IdleLttng => None,
            Run::Weir(..) => Some(Run::Idle),
            Run::OnLttng(_) | Run::Lttng => Some(Run::IdleLttng),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.run.subject(), self.case.name())
    }
}

fn sides(plan: &Plan, with_lttng: bool) -> Vec<Side> {
    let mut sides = Vec::new();
    for case in Case::all(plan.form) {
        let mut runs = vec![Run::Idle];
        runs.extend(plan.weirs.iter().map(|weir| Run::Weir(weir.subject, weir.program.clone())));
        if plan.form == Form::Full && (case.filter, case.threads) == (Filter::None, 1) {
            runs.extend(plan.weirs.iter().map(|weir| Run::Weir(AGAIN, weir.program.clone())));
        }
        if with_lttng {
            let weir = plan.weirs.iter().find(|weir| weir.subject == WEIR);
            let on_lttng = weir.map(|weir| Run::OnLttng(weir.program.clone()));
            runs.extend([Run::IdleLttng].into_iter().chain(on_lttng).chain([Run::Lttng]));
        }
        sides.extend(runs.into_iter().map(|run| Side { case, run }));
    }
    sides
}

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let mut missing = Vec::new();
    let lttng =
        || Lttng::start().and_then(|lttng| Ok((lttng, lttng::compile("recorded.c", "recorded_lttng")?)));
    let lttng = plan.has_peers().then(lttng).transpose();
    let lttng = lttng.unwrap_or_else(|error| {
        missing.push(format!("{LTTNG}: {error:#}"));
        None
    });
    let viewer = plan.weirs.first().context("no weir")?.program.clone();
    let folder = workspace::target_folder("bench")?.join(format!("record-{}", std::process::id()));
    let events = plan.form.pick(EVENTS, EVENTS_AGAINST, EVENTS_SMOKE);
    let bench = Bench { viewer, program: compile()?, lttng, folder, events };
    let sides = sides(plan, bench.lttng.is_some());
    alternate(plan, &sides, &mut |_, side| bench.run(side), &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &sides, rounds);
        let title = format!("An event that is recorded, {} rounds of {events} events", plan.rounds);
        Outcome { title, bars: bars(&figures), figures, remarks: Vec::new() }
    })
}

/// Net nanoseconds of an event.
fn add_figures(figures: &mut Figures, sides: &[Side], rounds: &Rounds<f64>) {
    let of_idle = |case: Case, run: &Run| {
        rounds.with(sides).find(|(side, _)| (side.case, &side.run) == (case, run)).map(|(_, ns)| ns)
    };
    for (side, ns) in rounds.with(sides) {
        let Some(idle) = side.run.idle().and_then(|idle| of_idle(side.case, &idle)) else { continue };
        let net: Vec<f64> = ns.iter().zip(idle).map(|(ns, idle)| ns - idle).collect();
        figures.add(side.run.subject(), &side.case.name(), "ns", &net);
    }
}

struct Bench {
    /// The weir that counts the events of a trace.
    viewer: PathBuf,
    program: PathBuf,
    /// With the program that has its tracepoints.
    lttng: Option<(Lttng, PathBuf)>,
    /// Where traces go.
    folder: PathBuf,
    /// Of a run.
    events: u32,
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

impl Bench {
    /// Nanoseconds of an event.
    fn run(&self, side: &Side) -> Result<f64> {
        let idle = |program: &Path| ns(Command::new(program).args(side.case.arguments(self.events)));
        let lttng = || self.lttng.as_ref().context("no LTTng");
        match &side.run {
            Run::Idle => idle(&self.program),
            Run::Weir(_, weir) => self.weir(weir, &self.program, side.case),
            Run::OnLttng(weir) => lttng().and_then(|(_, program)| self.weir(weir, program, side.case)),
            Run::IdleLttng => idle(&lttng()?.1),
            Run::Lttng => lttng().and_then(|(lttng, program)| self.lttng(lttng, program, side.case)),
        }
    }

    fn weir(&self, weir: &Path, program: &Path, case: Case) -> Result<f64> {
        let mut record = Command::new(weir);
        record.args(["record", "-q", "--size", "4M", "-e", &case.event(), "-o"]).arg(&self.folder);
        record.args(case.filter().iter().flat_map(|filter| ["--filter", filter.as_str()]));
        record.arg("--").arg(program).args(case.arguments(self.events));
        let took = ns(&mut record)?;
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
        let took = ns(Command::new(program).args(case.arguments(self.events)));
        lttng.command(&["destroy", SESSION])?;
        let took = took?;
        self.check(case)?;
        Ok(took)
    }

    /// The trace has every event; it is gone then.
    fn check(&self, case: Case) -> Result<()> {
        let mut view = Command::new(&self.viewer);
        view.args(["view", "-f", "json", "--stats"]).arg(&self.folder);
        let output = process::output_within(&mut view, RUN_LIMIT)?;
        std::fs::remove_dir_all(&self.folder)?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            recorded(&text) == u64::from(self.events),
            "{}: of {} events the trace has {text}",
            case.name(),
            self.events
        );
        Ok(())
    }
}

impl Drop for Bench {
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
    for case in Case::all(Form::Full) {
        let name = case.name();
        let Some(lttng) = figures.get(LTTNG, &name).map(|lttng| lttng.summary.median) else { continue };
        for (subject, most) in [(WEIR, SHARE_MAX), (ON_LTTNG, SHARE_ON_LTTNG_MAX)] {
            let Some(weir) = figures.get(subject, &name).map(|weir| weir.summary.median) else { continue };
            let share = weir / lttng;
            remarks.push(format!(
                "bar: {subject}: {name}: at most {most} of LTTng's: {}: {} of {} ns, {share:.3}",
                met(share <= most),
                rounded(weir),
                rounded(lttng)
            ));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_emits_the_same_number_of_events() {
        let forms = [(Form::Full, EVENTS), (Form::Against, EVENTS_AGAINST), (Form::Smoke, EVENTS_SMOKE)];
        for (form, wanted) in forms {
            for case in Case::all(form) {
                let [_, threads, batches] = case.arguments(wanted);
                let events = threads.parse::<u32>().unwrap() * batches.parse::<u32>().unwrap() * BATCH;
                assert_eq!(events, wanted, "{case:?}");
            }
        }
    }

    #[test]
    fn counts_are_read_from_what_view_prints() {
        let text = "{\"event\": \"a:b\", \"events\": 40, \"bytes\": 7}\n{\"event\": \"a:c\", \"events\": 2}\n\
                    {\"trace\": \"x\", \"lost_events\": 5}\n";
        assert_eq!(recorded(text), 42);
    }
}
