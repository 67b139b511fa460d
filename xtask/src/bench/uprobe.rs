//! uprobe: what counting the calls of a function costs, at 10² to 10⁷ calls a second and flat out.
//!
//! The cost table of an article that compared kernel tracers, repeated: `tests/programs/overhead.c` calls `foo` at
//! a rate for a time and says how long its calls took. Sides: bare (twice, the second as A/A), weir, and bpftrace on
//! a kernel uprobe, with the same script. For each side and round the time inside the calls over their number, at
//! all rates, gives a slope: ns a call; less the bare slope of that round, it is ns a hit. Loss at a rate is ns a
//! hit ÷ the unprobed period; beside it stands the loss that the clock on the wall showed. Each count is compared
//! with the calls made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bench::figures::{Figures, WEIR};
use crate::bench::statistics::{median, slope};
use crate::bench::{Outcome, alternate};
use crate::{process, workspace};

/// Calls a second; 0 is flat out.
const RATES: [u64; 7] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 0];
/// Of each run. Seven rates, four sides and 21 rounds of it take about four minutes.
const SECONDS: &str = "0.3";
/// LIMIT: a run with its start and end.
const RUN_LIMIT: Duration = Duration::from_secs(60);

const BARE: &str = "bare";
const AGAIN: &str = "A/A";
const BPFTRACE: &str = "bpftrace";

const NS_A_HIT: &str = "ns a hit";
/// What the project promises: ns a hit, loss at 10⁶/s and 10⁷/s in %, times cheaper than bpftrace.
const NS_MAX: f64 = 10.0;
const LOSS_MAX: [(u64, f64); 2] = [(1_000_000, 1.0), (10_000_000, 10.0)];
const TIMES_CHEAPER_MIN: f64 = 100.0;

pub(super) fn measure(weir: PathBuf, rounds: usize) -> Result<Outcome> {
    let bench = Bench::set_up(weir)?;
    let mut figures = Figures::default();
    let mut sides = vec![BARE, AGAIN, WEIR];
    match bench.try_bpftrace() {
        Ok(()) => sides.push(BPFTRACE),
        Err(error) => figures.missing.push(format!("{BPFTRACE}: {error:#}")),
    }
    let mut runs: Vec<(String, u64, Run)> = Vec::new();
    alternate(rounds, &sides, &mut |side| {
        for rate in RATES {
            runs.push((side.to_string(), rate, bench.run(side, rate)?));
        }
        Ok(())
    })?;
    add_figures(&mut figures, &sides, &runs);
    let mut remarks = bars(&figures);
    remarks.extend(wrong_counts(&runs));
    Ok(Outcome { title: format!("A counting uprobe, {rounds} rounds"), figures, remarks })
}

/// One run of the program.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Run {
    calls: u64,
    wall_ns: u64,
    /// Inside the calls.
    busy_ns: u64,
    /// What the tracer counted; None on a bare side.
    counted: Option<u64>,
}

struct Bench {
    weir: PathBuf,
    program: PathBuf,
    out: PathBuf,
}

impl Bench {
    fn set_up(weir: PathBuf) -> Result<Bench> {
        Ok(Bench {
            weir,
            program: workspace::test_program("overhead")?,
            out: workspace::target_folder("bench")?.join("uprobe.out"),
        })
    }

    fn try_bpftrace(&self) -> Result<()> {
        process::find_program(BPFTRACE).context("not installed")?;
        let run = self.run(BPFTRACE, 100)?;
        anyhow::ensure!(
            run.counted == Some(run.calls),
            "it counted {:?} of {} calls",
            run.counted,
            run.calls
        );
        Ok(())
    }

    fn run(&self, side: &str, rate: u64) -> Result<Run> {
        let rate = rate.to_string();
        let traced = format!("{} {rate} {SECONDS}", self.program.display());
        let script = format!("uprobe:{}:foo {{ @ = count(); }}", self.program.display());
        let mut command = match side {
            BARE | AGAIN => Command::new(&self.program),
            WEIR => Command::new(&self.weir),
            _ => Command::new(side),
        };
        match side {
            BARE | AGAIN => command.args([&rate, SECONDS]),
            WEIR => command.args(["trace", "-o"]).arg(&self.out).args(["-e", &script, "-c", &traced]),
            _ => command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &traced]),
        };
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let counted = if matches!(side, BARE | AGAIN) { None } else { Some(count_in(&self.out)?) };
        parse_run(&String::from_utf8_lossy(&output.stdout), counted)
    }
}

/// Of `calls=N wall_ns=N cpu_ns=N busy_ns=N`.
fn parse_run(output: &str, counted: Option<u64>) -> Result<Run> {
    let field = |name: &str| {
        let words = output.split_whitespace();
        let value = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next_back();
        value.and_then(|value| value.parse().ok()).with_context(|| format!("no {name}= in {output:?}"))
    };
    Ok(Run { calls: field("calls")?, wall_ns: field("wall_ns")?, busy_ns: field("busy_ns")?, counted })
}

/// The last `@: N` of a tracer's output.
fn count_in(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let count = text.lines().filter_map(|line| line.strip_prefix("@: ")?.trim().parse().ok()).next_back();
    match count {
        Some(count) => Ok(count),
        None => bail!("no count in {}: {text:?}", file.display()),
    }
}

fn add_figures(figures: &mut Figures, sides: &[&str], runs: &[(String, u64, Run)]) {
    let slopes: BTreeMap<&str, Vec<f64>> = sides.iter().map(|side| (*side, slopes_of(side, runs))).collect();
    let nothing = Vec::new();
    let bare = slopes.get(BARE).unwrap_or(&nothing);
    for side in sides.iter().filter(|side| **side != BARE) {
        let hits: Vec<f64> = slopes[side].iter().zip(bare).map(|(side, bare)| side - bare).collect();
        figures.add(side, NS_A_HIT, "ns", &hits);
        for rate in RATES.into_iter().filter(|rate| *rate > 0) {
            let loss: Vec<f64> = hits.iter().map(|ns| 100.0 * ns * rate as f64 / 1e9).collect();
            figures.add(side, &format!("loss at {rate}/s"), "%", &loss);
        }
        for rate in RATES {
            let case =
                if rate == 0 { "wall loss flat out".to_string() } else { format!("wall loss at {rate}/s") };
            let pairs = speeds_of(side, rate, runs).into_iter().zip(speeds_of(BARE, rate, runs));
            let losses: Vec<f64> = pairs.map(|(side, bare)| 100.0 * (1.0 - side / bare)).collect();
            figures.add(side, &case, "%", &losses);
        }
    }
    figures.add(BARE, "ns a call", "ns", bare);
}

/// ns a call, one for each round: the slope of the time in calls over their number, at all rates.
fn slopes_of(side: &str, runs: &[(String, u64, Run)]) -> Vec<f64> {
    let of_side: Vec<(f64, f64)> = runs
        .iter()
        .filter(|(name, _, _)| name == side)
        .map(|(_, _, run)| (run.calls as f64, run.busy_ns as f64))
        .collect();
    of_side.chunks(RATES.len()).filter_map(slope).collect()
}

/// Calls a ns on the wall, one for each round.
fn speeds_of(side: &str, rate: u64, runs: &[(String, u64, Run)]) -> Vec<f64> {
    let of_side = runs.iter().filter(|(name, at, _)| name == side && *at == rate);
    of_side.map(|(_, _, run)| run.calls as f64 / run.wall_ns.max(1) as f64).collect()
}

/// Each bar, met or not.
fn bars(figures: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    let mut bar = |what: String, value: Option<f64>, met: &dyn Fn(f64) -> bool| {
        let verdict = match value {
            Some(value) if met(value) => format!("met: {value:.3}"),
            Some(value) => format!("NOT met: {value:.3}"),
            None => "not measured".to_string(),
        };
        lines.push(format!("bar: {what}: {verdict}"));
    };
    let median_of = |case: &str| figures.get(WEIR, case).map(|figure| figure.summary.median);
    bar(format!("at most {NS_MAX} ns a hit"), median_of(NS_A_HIT), &|ns| ns <= NS_MAX);
    for (rate, most) in LOSS_MAX {
        let loss = median_of(&format!("loss at {rate}/s"));
        bar(format!("at most {most} % loss at {rate}/s"), loss, &|loss| loss <= most);
    }
    let cheaper = figures.ratio(NS_A_HIT, BPFTRACE);
    bar(format!("at least {TIMES_CHEAPER_MIN} × cheaper than bpftrace"), cheaper, &|r| {
        r >= TIMES_CHEAPER_MIN
    });
    if let (Some(weir), Some(again)) = (figures.get(WEIR, NS_A_HIT), figures.get(AGAIN, NS_A_HIT))
        && weir.summary.low <= again.summary.high
    {
        lines.push(format!("{NS_A_HIT}: inside what two bare sides differ by: not decidable"));
    }
    lines
}

/// Runs whose tracer counted other than the calls made, by side.
fn wrong_counts(runs: &[(String, u64, Run)]) -> Vec<String> {
    let mut by_side: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (side, _, run) in runs {
        if let Some(counted) = run.counted {
            by_side.entry(side).or_default().push(counted as f64 - run.calls as f64);
        }
    }
    by_side
        .into_iter()
        .map(|(side, differences)| {
            let wrong: Vec<f64> =
                differences.iter().copied().filter(|difference| *difference != 0.0).collect();
            match wrong.as_slice() {
                [] => format!("{side}: every one of {} counts equals the calls", differences.len()),
                wrong => format!(
                    "{side}: {} of {} counts differ from the calls, by {} (median)",
                    wrong.len(),
                    differences.len(),
                    median(wrong)
                ),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a machine on which a call takes 2 ns and a probe adds `ns`.
    fn runs(sides: &[(&str, f64)], rounds: usize) -> Vec<(String, u64, Run)> {
        let mut runs = Vec::new();
        for _ in 0..rounds {
            for (side, ns) in sides {
                for rate in RATES {
                    let calls = if rate == 0 { (3e8 / (2.0 + ns)) as u64 } else { rate * 3 / 10 };
                    let busy_ns = (calls as f64 * (2.0 + ns)) as u64 + 500;
                    let counted = (*side != BARE).then_some(calls);
                    runs.push((
                        side.to_string(),
                        rate,
                        Run { calls, wall_ns: 300_000_000, busy_ns, counted },
                    ));
                }
            }
        }
        runs
    }

    fn figures() -> Figures {
        let mut figures = Figures::default();
        let runs = runs(&[(BARE, 0.0), (AGAIN, 0.0), (WEIR, 4.0), (BPFTRACE, 1000.0)], 3);
        add_figures(&mut figures, &[BARE, AGAIN, WEIR, BPFTRACE], &runs);
        figures
    }

    fn check(subject: &str, case: &str, want: f64) {
        let found = figures().get(subject, case).unwrap().summary.median;
        assert!((found - want).abs() < 0.01 * want.abs().max(1.0), "{subject}, {case}: {found}, not {want}");
    }

    #[test]
    fn slopes_less_the_bare_one_are_ns_a_hit() {
        check(BARE, "ns a call", 2.0);
        check(AGAIN, NS_A_HIT, 0.0);
        check(WEIR, NS_A_HIT, 4.0);
        check(BPFTRACE, NS_A_HIT, 1000.0);
    }

    #[test]
    fn loss_is_cost_over_period() {
        check(WEIR, "loss at 1000000/s", 0.4);
        check(WEIR, "loss at 10000000/s", 4.0);
        check(WEIR, "wall loss at 1000000/s", 0.0);
        check(WEIR, "wall loss flat out", 66.7);
    }

    #[test]
    fn bars_say_met_or_not() {
        let lines = bars(&figures());
        assert!(lines.iter().all(|line| !line.contains("NOT met")), "{lines:?}");
        let mut slow = Figures::default();
        slow.add(WEIR, NS_A_HIT, "ns", &[11.0]);
        let lines = bars(&slow);
        assert!(lines[0].contains("NOT met: 11.000"), "{lines:?}");
        assert!(lines[3].contains("not measured"), "{lines:?}");
    }

    #[test]
    fn counts_that_differ_are_told() {
        let mut all = runs(&[(WEIR, 4.0)], 1);
        assert_eq!(wrong_counts(&all), ["weir: every one of 7 counts equals the calls"]);
        all[0].2.counted = Some(all[0].2.calls - 2);
        assert_eq!(wrong_counts(&all), ["weir: 1 of 7 counts differ from the calls, by -2 (median)"]);
    }

    #[test]
    fn program_output_is_read_by_name() {
        let run = parse_run("calls=5 wall_ns=9 cpu_ns=8 busy_ns=7\n", Some(5)).unwrap();
        assert_eq!(run, Run { calls: 5, wall_ns: 9, busy_ns: 7, counted: Some(5) });
        assert!(parse_run("calls=x", None).is_err());
    }
}
