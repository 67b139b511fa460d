//! probe: what a hit of a probe costs over the call without one, beside the kernel's probes and other tracers.
//!
//! `tests/programs/hits.c` calls `foo` from one thread, and from two, at three rates, and says what CPU time that took. Each
//! row is a script for weir; beside it stand the peers that do the same or the nearest they can ([`peers`]). For each
//! subject and round the CPU time over the calls gives a slope, ns a call; less the bare slope of that round and number
//! of threads, it is ns a hit. Where a tracer counts, its counts are compared with the calls made.

mod peers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::statistics::{median, slope};
use crate::bench::{Outcome, alternate};

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

const BARE: &str = "bare";
const AGAIN: &str = "A/A";

/// What is run once a round.
struct Subject {
    name: String,
    /// None: without a probe.
    row: Option<&'static Row>,
    peer: Option<Peer>,
    threads: usize,
}

impl Subject {
    /// The row, as it is named in the figures.
    fn case(&self) -> String {
        case(self.row.map_or("bare", |row| row.name), self.threads)
    }

    fn run(&self, bench: &Bench) -> Result<Run> {
        match (self.row, self.peer) {
            (None, _) => bench.bare(self.threads),
            (Some(row), None) => bench.weir(row.script, self.threads),
            (Some(_), Some(peer)) => bench.peer(peer, self.threads),
        }
    }
}

pub(super) fn measure(weir: PathBuf, rounds: usize) -> Result<Outcome> {
    let bench = Bench::set_up(weir)?;
    let mut figures = Figures::default();
    let mut subjects = subjects();
    subjects.retain(|subject| match subject.run(&bench) {
        Ok(_) => true,
        Err(error) => {
            let error = format!("{error:#}");
            let line = error.lines().next().unwrap_or_default();
            figures.missing.push(format!("{}, {}: {line}", subject.name, subject.case()));
            false
        }
    });
    let labels: Vec<String> = (0..subjects.len()).map(|index| index.to_string()).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut runs: Vec<Vec<Run>> = subjects.iter().map(|_| Vec::new()).collect();
    alternate(rounds, &labels, &mut |label| {
        let index: usize = label.parse()?;
        runs[index].push(subjects[index].run(&bench)?);
        Ok(())
    })?;
    add_figures(&mut figures, &subjects, &runs);
    let mut remarks = bars(&figures);
    remarks.extend(wrong_counts(&subjects, &runs));
    Ok(Outcome { title: format!("A probe's hit, {rounds} rounds"), figures, remarks })
}

/// Every row and number of threads with weir; the peers with one thread.
fn subjects() -> Vec<Subject> {
    let mut all = Vec::new();
    for threads in THREADS {
        for name in [BARE, AGAIN] {
            all.push(Subject { name: name.to_string(), row: None, peer: None, threads });
        }
        for row in &ROWS {
            all.push(Subject { name: WEIR.to_string(), row: Some(row), peer: None, threads });
        }
    }
    for row in &ROWS {
        for peer in row.peers {
            all.push(Subject { name: peer.name(), row: Some(row), peer: Some(*peer), threads: 1 });
        }
    }
    all
}

fn case(row: &str, threads: usize) -> String {
    if threads == 1 { row.to_string() } else { format!("{row}, {threads} threads") }
}

fn add_figures(figures: &mut Figures, subjects: &[Subject], runs: &[Vec<Run>]) {
    let slopes: Vec<Vec<f64>> = runs.iter().map(|runs| runs.iter().filter_map(ns_a_call).collect()).collect();
    let bare: BTreeMap<usize, &Vec<f64>> = subjects
        .iter()
        .zip(&slopes)
        .filter(|(subject, _)| subject.name == BARE)
        .map(|(subject, slopes)| (subject.threads, slopes))
        .collect();
    for (subject, slopes) in subjects.iter().zip(&slopes) {
        let Some(bare) = bare.get(&subject.threads) else { continue };
        if subject.name == BARE {
            figures.add(BARE, &case("a call", subject.threads), "ns", slopes);
            continue;
        }
        let hits: Vec<f64> = slopes.iter().zip(*bare).map(|(side, bare)| side - bare).collect();
        if subject.row.is_some() {
            figures.add(&subject.name, &subject.case(), "ns", &hits);
        } else {
            figures.add(&subject.name, &case("nothing", subject.threads), "ns", &hits);
        }
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
fn wrong_counts(subjects: &[Subject], runs: &[Vec<Run>]) -> Vec<String> {
    let told = |(subject, runs): (&Subject, &Vec<Run>)| {
        let differences: Vec<f64> =
            runs.iter().filter_map(|run| Some(run.counted? as f64 - run.calls() as f64)).collect();
        let wrong: Vec<f64> = differences.iter().copied().filter(|by| *by != 0.0).collect();
        match (differences.len(), wrong.as_slice()) {
            (0, _) => None,
            (all, []) => Some(format!(
                "{}, {}: every one of {all} counts equals the calls",
                subject.name,
                subject.case()
            )),
            (all, wrong) => Some(format!(
                "{}, {}: {} of {all} counts differ from the calls, by {} (median)",
                subject.name,
                subject.case(),
                wrong.len(),
                median(wrong)
            )),
        }
    };
    subjects.iter().zip(runs).filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds on a machine on which a call takes 2 ns, and reading the clock 500 ns a rate; weir adds `ns`, and loses
    /// `lost` counts.
    fn found(ns: f64, lost: u64) -> (Figures, Vec<String>) {
        let subjects = subjects();
        let run = |subject: &Subject| {
            let added = if subject.name == WEIR {
                ns
            } else if subject.row.is_some() {
                200.0
            } else {
                0.0
            };
            let rates = [1000, 5000, 9000].map(|calls| (calls, (calls as f64 * (2.0 + added)) as u64 + 500));
            Run { rates: rates.to_vec(), counted: subject.row.map(|_| 15_000 - lost) }
        };
        let runs: Vec<Vec<Run>> = subjects.iter().map(|subject| vec![run(subject); 3]).collect();
        let mut figures = Figures::default();
        add_figures(&mut figures, &subjects, &runs);
        (figures, wrong_counts(&subjects, &runs))
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
