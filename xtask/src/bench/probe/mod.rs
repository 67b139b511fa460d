//! probe: what a hit of a probe costs over the call without one, beside the kernel's probes and other tracers.
//!
//! `tests/programs/hits.c` calls `foo` from one thread, and from two, at three rates, and says what CPU time that took. Each
//! row is a script for weir; beside it stand the peers that do the same or the nearest they can ([`peers`]). For each
//! subject and round the CPU time over the calls gives a slope, ns a call; less the bare slope of that round and number
//! of threads, it is ns a hit. Where a tracer counts, its counts are compared with the calls made.

mod peers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::plan::{AGAIN, BARE, Plan};
use crate::bench::rounds::{Rounds, alternate};
use crate::bench::statistics::{median, slope};

use self::peers::{Bench, Peer, Run};

/// One row of the table.
struct Row {
    name: &'static str,
    /// What the project promises, in ns a hit.
    ns_max: f64,
    /// For weir. FOO stands for the function.
    script: &'static str,
    peers: &'static [Peer],
}

use Peer::{Bpftrace, Frida, Kernel, Uftrace};

const EMPTY: &str = "uprobe:FOO { }";
const COUNT: &str = "uprobe:FOO { @ = count(); }";
const BOTH: &str = "uprobe:FOO { } uretprobe:FOO { }";
const LATENCY: &str = "uprobe:FOO { @s[tid] = nsecs; } \
    uretprobe:FOO /@s[tid]/ { @ = hist(nsecs - @s[tid]); delete(@s[tid]); }";
const BY_ARGUMENT: &str = "uprobe:FOO { @[arg0] = count(); }";
const BY_THREAD: &str = "uprobe:FOO { @s[tid] = nsecs; } uretprobe:FOO { @ = hist(nsecs - @s[tid]); }";

const ROWS: [Row; 6] = [
    Row {
        name: "empty entry",
        ns_max: 3.0,
        script: EMPTY,
        peers: &[Kernel("uprobe"), Kernel("uprobe.multi"), Frida("empty")],
    },
    Row { name: "count()", ns_max: 5.0, script: COUNT, peers: &[Bpftrace(COUNT), Frida("count")] },
    Row {
        name: "entry and return, empty",
        ns_max: 8.0,
        script: BOTH,
        peers: &[Kernel("uretprobe"), Kernel("uprobe.session"), Frida("both"), Uftrace],
    },
    Row { name: "latency histogram", ns_max: 30.0, script: LATENCY, peers: &[Bpftrace(LATENCY)] },
    Row { name: "@[arg0] = count()", ns_max: 20.0, script: BY_ARGUMENT, peers: &[Bpftrace(BY_ARGUMENT)] },
    Row { name: "hist(nsecs - @s[tid])", ns_max: 60.0, script: BY_THREAD, peers: &[Bpftrace(BY_THREAD)] },
];

const THREADS: [usize; 2] = [1, 2];
/// Times what a hit costs one thread, that it may cost each of two.
const TWO_THREADS_MAX: f64 = 1.2;

/// What is run once a round.
struct Subject {
    name: String,
    runner: Runner,
    threads: usize,
}

enum Runner {
    /// Without a probe.
    Bare,
    Weir(&'static Row, PathBuf),
    Peer(&'static Row, Peer),
}

impl Subject {
    /// The row, as it is named in the figures.
    fn case(&self) -> String {
        case(self.row().map_or("bare", |row| row.name), self.threads)
    }

    fn row(&self) -> Option<&'static Row> {
        match self.runner {
            Runner::Bare => None,
            Runner::Weir(row, _) | Runner::Peer(row, _) => Some(row),
        }
    }

    fn run(&self, bench: &Bench) -> Result<Run> {
        match &self.runner {
            Runner::Bare => bench.bare(self.threads),
            Runner::Weir(row, weir) => bench.weir(weir, row.script, self.threads),
            Runner::Peer(_, peer) => bench.peer(*peer, self.threads),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.name, self.case())
    }
}

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench::set_up(plan)?;
    let mut missing = Vec::new();
    let mut subjects = subjects(plan);
    subjects.retain(|subject| {
        let Runner::Peer(..) = subject.runner else { return true };
        let Err(error) = subject.run(&bench) else { return true };
        let error = format!("{error:#}");
        missing.push(format!("{subject}: {}", error.lines().next().unwrap_or_default()));
        false
    });
    alternate(plan, &subjects, &mut |_, subject| subject.run(&bench), &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &subjects, rounds);
        let bars = bars(&figures);
        let remarks = wrong_counts(&subjects, rounds);
        Outcome { title: format!("A probe's hit, {} rounds", plan.rounds), figures, bars, remarks }
    })
}

/// Every row and number of threads with each weir; the peers with one thread.
fn subjects(plan: &Plan) -> Vec<Subject> {
    let mut all = Vec::new();
    for threads in THREADS {
        for name in plan.bare() {
            all.push(Subject { name: name.to_string(), runner: Runner::Bare, threads });
        }
        for row in &ROWS {
            all.extend(plan.weirs.iter().map(|weir| Subject {
                name: weir.subject.to_string(),
                runner: Runner::Weir(row, weir.program.clone()),
                threads,
            }));
        }
    }
    for row in ROWS.iter().filter(|_| plan.has_peers()) {
        for peer in row.peers {
            all.push(Subject { name: peer.name(), runner: Runner::Peer(row, *peer), threads: 1 });
        }
    }
    all
}

fn case(row: &str, threads: usize) -> String {
    if threads == 1 { row.to_string() } else { format!("{row}, {threads} threads") }
}

fn add_figures(figures: &mut Figures, subjects: &[Subject], rounds: &Rounds<Run>) {
    let slopes = |runs: &[Run]| runs.iter().filter_map(ns_a_call).collect::<Vec<f64>>();
    let is_bare = |subject: &Subject| subject.name == BARE;
    let bare = rounds.with(subjects).filter(|(subject, _)| is_bare(subject));
    let bare: BTreeMap<usize, Vec<f64>> =
        bare.map(|(subject, runs)| (subject.threads, slopes(runs))).collect();
    for (subject, runs) in rounds.with(subjects) {
        let Some(bare) = bare.get(&subject.threads) else { continue };
        if is_bare(subject) {
            figures.add(BARE, &case("a call", subject.threads), "ns", bare);
            continue;
        }
        let hits: Vec<f64> = slopes(runs).iter().zip(bare).map(|(side, bare)| side - bare).collect();
        let case = subject.row().map_or_else(|| case("nothing", subject.threads), |_| subject.case());
        figures.add(&subject.name, &case, "ns", &hits);
    }
}

fn ns_a_call(run: &Run) -> Option<f64> {
    let points: Vec<(f64, f64)> = run.rates.iter().map(|(calls, ns)| (*calls as f64, *ns as f64)).collect();
    slope(&points)
}

/// Each bar, met or not.
fn bars(figures: &Figures) -> Vec<String> {
    let median_of = |subject: &str, case: &str| Some(figures.get(subject, case)?.summary.median);
    let mut lines = Vec::new();
    let mut bar = |what: String, found: Option<f64>, most: f64| {
        let verdict = match found {
            Some(found) if found <= most => format!("met: {}", rounded(found)),
            Some(found) => format!("NOT met: {}", rounded(found)),
            None => "not measured".to_string(),
        };
        lines.push(format!("bar: {what}: {verdict}"));
    };
    for row in &ROWS {
        bar(format!("{}: at most {} ns", row.name, row.ns_max), median_of(WEIR, row.name), row.ns_max);
    }
    for row in &ROWS {
        let one = median_of(WEIR, row.name);
        let two = median_of(WEIR, &case(row.name, 2));
        let times = one.zip(two).map(|(one, two)| two / one.max(0.1));
        bar(format!("{}: two threads at most {TWO_THREADS_MAX} × one", row.name), times, TWO_THREADS_MAX);
    }
    for threads in THREADS {
        let Some(again) = figures.get(AGAIN, &case("nothing", threads)) else { continue };
        let undecided = ROWS.iter().filter(|row| {
            let weir = figures.get(WEIR, &case(row.name, threads));
            weir.is_some_and(|weir| weir.summary.low <= again.summary.high)
        });
        lines.extend(undecided.map(|row| {
            format!("{}: inside what two bare sides differ by: not decidable", case(row.name, threads))
        }));
    }
    lines
}

/// Runs whose tracer counted other than the calls made, by subject.
fn wrong_counts(subjects: &[Subject], rounds: &Rounds<Run>) -> Vec<String> {
    let told = |(subject, runs): (&Subject, &[Run])| {
        let differences: Vec<f64> =
            runs.iter().filter_map(|run| Some(run.counted? as f64 - run.calls() as f64)).collect();
        let wrong: Vec<f64> = differences.iter().copied().filter(|by| *by != 0.0).collect();
        match (differences.len(), wrong.as_slice()) {
            (0, _) => None,
            (all, []) => Some(format!("{subject}: every one of {all} counts equals the calls")),
            (all, wrong) => Some(format!(
                "{subject}: {} of {all} counts differ from the calls, by {} (median)",
                wrong.len(),
                median(wrong)
            )),
        }
    };
    rounds.with(subjects).filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Weir;
    use crate::bench::rounds::tests::plan;

    /// Rounds on a machine on which a call takes 2 ns, and reading the clock 500 ns a rate; weir adds `ns`, and loses
    /// `lost` counts.
    fn found(ns: f64, lost: u64) -> (Figures, Vec<String>) {
        let mut plan = plan(3, Box::new(|_| Ok(())));
        plan.weirs = Weir::all("weir".into(), None);
        let subjects = subjects(&plan);
        let run = |subject: &Subject| {
            let added = if subject.name == WEIR {
                ns
            } else if subject.row().is_some() {
                200.0
            } else {
                0.0
            };
            let rates = [1000, 5000, 9000].map(|calls| (calls, (calls as f64 * (2.0 + added)) as u64 + 500));
            Run { rates: rates.to_vec(), counted: subject.row().map(|_| 15_000 - lost) }
        };
        let rounds = Rounds::of(subjects.iter().map(|subject| vec![run(subject); 3]).collect());
        let mut figures = Figures::default();
        add_figures(&mut figures, &subjects, &rounds);
        (figures, wrong_counts(&subjects, &rounds))
    }

    fn check(subject: &str, case: &str, want: f64) {
        let found = found(4.0, 0).0.get(subject, case).unwrap().summary.median;
        assert!((found - want).abs() < 0.01, "{subject}, {case}: {found}, not {want}");
    }

    #[test]
    fn slopes_less_the_bare_one_are_ns_a_hit() {
        check(BARE, "a call", 2.0);
        check(AGAIN, "nothing, 2 threads", 0.0);
        check(WEIR, "count()", 4.0);
        check(WEIR, "count(), 2 threads", 4.0);
        check("uprobe.session", "entry and return, empty", 200.0);
    }

    #[test]
    fn bars_say_met_or_not() {
        let lines = bars(&found(4.0, 0).0);
        assert_eq!(lines[0], "bar: empty entry: at most 3 ns: NOT met: 4.000");
        assert_eq!(lines[1], "bar: count(): at most 5 ns: met: 4.000");
        assert_eq!(lines[6], "bar: empty entry: two threads at most 1.2 × one: met: 1.000");
        assert!(bars(&Figures::default())[0].ends_with("not measured"));
        assert!(bars(&found(0.0, 0).0).iter().any(|line| line.ends_with("not decidable")));
    }

    #[test]
    fn counts_that_differ_are_told() {
        let line =
            |lost| found(4.0, lost).1.into_iter().find(|line| line.starts_with("weir, count():")).unwrap();
        assert_eq!(line(0), "weir, count(): every one of 3 counts equals the calls");
        assert_eq!(line(2), "weir, count(): 3 of 3 counts differ from the calls, by -2 (median)");
    }
}
