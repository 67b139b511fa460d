//! uprobe: what counting the calls of a function costs, at 10² to 10⁷ calls a second and flat out.
//!
//! The cost table of an article that compared kernel tracers, repeated: `tests/programs/overhead.c` calls `foo` at
//! a rate for a time and says how long its calls took. Sides: bare (twice, the second as A/A), weir, and bpftrace on
//! a kernel uprobe, with the same script. For each side and round the time inside the calls over their number, at
//! all rates, gives a slope: ns a call; less the bare slope of that round, it is ns a hit. Loss at a rate is ns a
//! hit ÷ the unprobed period; beside it stands the loss that the clock on the wall showed. Each count is compared
//! with the calls made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{AGAIN, BARE, Plan, Side, Tracer};
use crate::bench::report::verdict;
use crate::bench::rounds::{Rounds, alternate};
use crate::bench::statistics::{median, slope};
use crate::{process, workspace};

/// Calls a second; 0 is flat out.
const RATES: [u64; 7] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 0];
/// Of each run. Seven rates, four sides and 21 rounds of it take about four minutes.
const SECONDS: &str = "0.3";
const SECONDS_SMOKE: &str = "0.01";
/// LIMIT: a run with its start and end.
const RUN_LIMIT: Duration = Duration::from_secs(60);

const BPFTRACE: &str = "bpftrace";

const NS_A_HIT: &str = "ns a hit";
/// What the project promises: ns a hit, loss at 10⁶/s and 10⁷/s in %, times cheaper than bpftrace.
const NS_MAX: f64 = 10.0;
const LOSS_MAX: [(u64, f64); 2] = [(1_000_000, 1.0), (10_000_000, 10.0)];
const TIMES_CHEAPER_MIN: f64 = 100.0;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench::set_up(plan.form.pick(SECONDS, SECONDS, SECONDS_SMOKE))?;
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    if plan.has_peers() {
        match bench.try_bpftrace() {
            Ok(()) => peers.push(BPFTRACE),
            Err(error) => missing.push(format!("{BPFTRACE}: {error:#}")),
        }
    }
    let sides = plan.sides(&peers);
    let mut run = |_, side: &Side| RATES.iter().map(|rate| bench.run(&side.tracer, *rate)).collect();
    alternate(plan, &sides, &mut run, &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &sides, rounds);
        let bars = bars(&figures);
        let remarks = wrong_counts(&sides, rounds);
        Outcome { title: format!("A counting uprobe, {} rounds", plan.rounds), figures, bars, remarks }
    })
}

/// A side's runs in one round, by rate.
type OfRates = Vec<Run>;

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
    program: PathBuf,
    out: PathBuf,
    seconds: &'static str,
}

impl Bench {
    fn set_up(seconds: &'static str) -> Result<Bench> {
        let out = workspace::target_folder("bench")?.join(format!("uprobe-{}.out", std::process::id()));
        Ok(Bench { program: workspace::test_program("overhead")?, out, seconds })
    }

    fn try_bpftrace(&self) -> Result<()> {
        process::find_program(BPFTRACE).context("not installed")?;
        let run = self.run(&Tracer::Peer(BPFTRACE), 100)?;
        anyhow::ensure!(
            run.counted == Some(run.calls),
            "it counted {:?} of {} calls",
            run.counted,
            run.calls
        );
        Ok(())
    }

    fn run(&self, tracer: &Tracer, rate: u64) -> Result<Run> {
        let rate = rate.to_string();
        let traced = format!("{} {rate} {}", tracer.word(&self.program), self.seconds);
        let script = format!("uprobe:{}:foo {{ @ = count(); }}", quoted(&self.program));
        let mut command = tracer.command(&self.program);
        match tracer {
            Tracer::None => command.args([&rate, self.seconds]),
            _ => command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &traced]),
        };
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let counted = if *tracer == Tracer::None { None } else { Some(count_in(&self.out)?) };
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
pub(super) fn count_in(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let count = text.lines().filter_map(|line| line.strip_prefix("@: ")?.trim().parse().ok()).next_back();
    match count {
        Some(count) => Ok(count),
        None => bail!("no count in {}: {text:?}", file.display()),
    }
}

fn add_figures(figures: &mut Figures, sides: &[Side], rounds: &Rounds<OfRates>) {
    let nothing: &[OfRates] = &[];
    let bare = rounds.with(sides).find(|(side, _)| side.subject == BARE).map_or(nothing, |(_, runs)| runs);
    let bare_slopes = slopes(bare);
    for (side, runs) in rounds.with(sides).filter(|(side, _)| side.subject != BARE) {
        let hits: Vec<f64> = slopes(runs).iter().zip(&bare_slopes).map(|(side, bare)| side - bare).collect();
        figures.add(side.subject, NS_A_HIT, "ns", &hits);
        for rate in RATES.into_iter().filter(|rate| *rate > 0) {
            let loss: Vec<f64> = hits.iter().map(|ns| 100.0 * ns * rate as f64 / 1e9).collect();
            figures.describe(side.subject, &format!("loss at {rate}/s"), "%", &loss);
        }
        for (index, rate) in RATES.into_iter().enumerate() {
            let case =
                if rate == 0 { "wall loss flat out".to_string() } else { format!("wall loss at {rate}/s") };
            let pairs = speeds(runs, index).zip(speeds(bare, index));
            let losses: Vec<f64> = pairs.map(|(side, bare)| 100.0 * (1.0 - side / bare)).collect();
            figures.describe(side.subject, &case, "%", &losses);
        }
    }
    figures.add(BARE, "ns a call", "ns", &bare_slopes);
}

/// ns a call, one for each round: the slope of the time in calls over their number, at all rates.
fn slopes(rounds: &[OfRates]) -> Vec<f64> {
    let of_round = |runs: &OfRates| {
        let points: Vec<(f64, f64)> = runs.iter().map(|run| (run.calls as f64, run.busy_ns as f64)).collect();
        slope(&points)
    };
    rounds.iter().filter_map(of_round).collect()
}

/// Calls a ns on the wall, one for each round.
fn speeds(rounds: &[OfRates], rate: usize) -> impl Iterator<Item = f64> {
    rounds.iter().map(move |runs| runs[rate].calls as f64 / runs[rate].wall_ns.max(1) as f64)
}

/// Each bar, met or not.
fn bars(figures: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    let mut bar = |what: String, value: Option<f64>, met: &dyn Fn(f64) -> bool| {
        lines.push(format!("bar: {what}: {}", verdict(value, 3, met)));
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
fn wrong_counts(sides: &[Side], rounds: &Rounds<OfRates>) -> Vec<String> {
    let told = |(side, rounds): (&Side, &[OfRates])| {
        let side = side.subject;
        let differences =
            rounds.iter().flatten().filter_map(|run| Some(run.counted? as f64 - run.calls as f64));
        let differences: Vec<f64> = differences.collect();
        let wrong: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
        match (differences.len(), wrong.as_slice()) {
            (0, _) => None,
            (all, []) => Some(format!("{side}: every one of {all} counts equals the calls")),
            (all, wrong) => Some(format!(
                "{side}: {} of {all} counts differ from the calls, by {} (median)",
                wrong.len(),
                median(wrong)
            )),
        }
    };
    rounds.with(sides).filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: [(&str, f64); 4] = [(BARE, 0.0), (AGAIN, 0.0), (WEIR, 4.0), (BPFTRACE, 1000.0)];

    fn sides() -> Vec<Side> {
        SIDES.map(|(subject, _)| Side { subject, tracer: Tracer::None }).to_vec()
    }

    /// Rounds on a machine on which a call takes 2 ns and a probe adds `ns`.
    fn of_side(subject: &str, ns: f64, rounds: usize) -> Vec<OfRates> {
        let run = |rate: u64| {
            let calls = if rate == 0 { (3e8 / (2.0 + ns)) as u64 } else { rate * 3 / 10 };
            let busy_ns = (calls as f64 * (2.0 + ns)) as u64 + 500;
            let counted = (subject != BARE).then_some(calls);
            Run { calls, wall_ns: 300_000_000, busy_ns, counted }
        };
        vec![RATES.map(run).to_vec(); rounds]
    }

    fn figures() -> Figures {
        let mut figures = Figures::default();
        let rounds = SIDES.map(|(subject, ns)| of_side(subject, ns, 3));
        add_figures(&mut figures, &sides(), &Rounds::of(rounds.to_vec()));
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
        let sides = [Side { subject: WEIR, tracer: Tracer::None }];
        let mut runs = of_side(WEIR, 4.0, 1);
        let told = |runs: &[OfRates]| wrong_counts(&sides, &Rounds::of(vec![runs.to_vec()]));
        assert_eq!(told(&runs), ["weir: every one of 7 counts equals the calls"]);
        runs[0][2].counted = Some(runs[0][2].calls - 2);
        assert_eq!(told(&runs), ["weir: 1 of 7 counts differ from the calls, by -2 (median)"]);
    }

    #[test]
    fn program_output_is_read_by_name() {
        let run = parse_run("calls=5 wall_ns=9 cpu_ns=8 busy_ns=7\n", Some(5)).unwrap();
        assert_eq!(run, Run { calls: 5, wall_ns: 9, busy_ns: 7, counted: Some(5) });
        assert!(parse_run("calls=x", None).is_err());
    }
}
