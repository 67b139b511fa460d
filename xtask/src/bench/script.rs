//! script: what clauses of scripts cost a hit, and how long scripts take to compile.
//!
//! `tests/programs/script.c` calls a function with a number, a text, a list and an array. Sides: bare (twice, the second as A/A), weir,
//! and bpftrace on a kernel uprobe, each with the same clause. ns a hit are the time in the calls over their number, less that of the
//! bare side in the same round. What a compilation takes is what `weir trace -v` says: the script read, compiled and verified,
//! and its places looked up.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{AGAIN, BARE, Form, Plan, Side, Tracer};
use crate::bench::report::met;
use crate::bench::rounds::{Rounds, alternate};
use crate::{process, workspace};

const BPFTRACE: &str = "bpftrace";
/// LIMIT: a run with its start and end.
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// Calls of a run: of bpftrace, whose hits take 10 µs and more, fewer.
const CALLS: u64 = 1_000_000;
const CALLS_PEER: u64 = 20_000;
const CALLS_SMOKE: u64 = 1_000;
/// Lines a second that are all to arrive, and how many.
const LINES_PER_SECOND: u64 = 5_000_000;
const LINES_PACED: u64 = 10_000_000;

/// Each with the clause's body, in words that both know, and what must stand in the output: `CALLS` for the number of calls.
const CLAUSES: [(&str, &str, &str, &str); 5] = [
    ("stack", "", "@[ustack] = count();", ""),
    ("strings", "", "@[comm, str(arg1)] = hist(arg0);", "GET /index.html"),
    (
        "loop",
        "",
        "$i = 0; $s = 0; while ($i < 10) { $s = $s + *((int32 *)arg3 + $i); $i++; } @ = sum($s);",
        "@: ",
    ),
    (
        "chain",
        "struct node { long value; struct node *next; };",
        "@ = sum(((struct node *)arg2)->next->next->value);",
        "@: ",
    ),
    ("printf", "", r#"printf("%d %d %s\n", arg0, pid, str(arg1));"#, "GET /index.html"),
];

/// What the project promises: milliseconds to compile a line, two hundred, and any script of the tests.
const MS_MAX: [(&str, f64); 3] = [(ONE_LINE, 5.0), (LINES, 20.0), (CORPUS, 50.0)];
const ONE_LINE: &str = "compile: one line";
const LINES: &str = "compile: 200 lines";
const CORPUS: &str = "compile: the slowest script of the corpus";
/// Scripts that `weir trace` runs of itself.
const CORPUS_FOLDER: &str = "crates/weir-run/tests/corpus";
const CORPUS_SMOKE: usize = 3;
const LOST: &str = "printf: lines lost at full speed";
const LOST_PACED: &str = "printf at 5 M/s: lines lost";
/// The index of the clause that prints.
const PRINTS: usize = CLAUSES.len() - 1;

/// ns a call of each clause, milliseconds of each compilation, and per cent of the lines that were lost, and reported as lost: at full
/// speed, and at a rate.
#[derive(Clone, PartialEq, Debug, Default)]
struct Sample {
    ns: Vec<f64>,
    ms: Vec<f64>,
    lost: f64,
    lost_paced: f64,
}

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench {
        program: workspace::test_program("script")?,
        out: workspace::target_folder("bench")?.join(format!("script-{}.out", std::process::id())),
        corpus: corpus()?,
        is_smoke: plan.form == Form::Smoke,
    };
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    if plan.has_peers() {
        let found = process::find_program(BPFTRACE).context("not installed");
        match found.and_then(|_| bench.run(&Tracer::Peer(BPFTRACE))) {
            Ok(_) => peers.push(BPFTRACE),
            Err(error) => missing.push(format!("{BPFTRACE}: {error:#}")),
        }
    }
    let sides = plan.sides(&peers);
    alternate(plan, &sides, &mut |_, side| bench.run(&side.tracer), &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &sides, rounds);
        let bars = bars(&figures);
        let title = format!("Clauses of scripts, and compilation, {} rounds", plan.rounds);
        Outcome { title, figures, bars, remarks: Vec::new() }
    })
}

struct Bench {
    program: PathBuf,
    out: PathBuf,
    corpus: Vec<String>,
    is_smoke: bool,
}

impl Bench {
    fn run(&self, tracer: &Tracer) -> Result<Sample> {
        let calls = match tracer {
            _ if self.is_smoke => CALLS_SMOKE,
            Tracer::Peer(_) => CALLS_PEER,
            Tracer::None | Tracer::Weir(_) => CALLS,
        };
        let mut sample = Sample::default();
        for (name, c, body, wanted) in CLAUSES {
            let clause = self.clause(tracer, (c, body, wanted), calls, None);
            let (ns, lost) = clause.with_context(|| format!("the clause {name}"))?;
            sample.ns.push(ns);
            sample.lost += lost;
        }
        if let Tracer::Weir(_) = tracer {
            let (_, c, body, wanted) = CLAUSES[PRINTS];
            let lines = if self.is_smoke { CALLS_SMOKE } else { LINES_PACED };
            let paced = self.clause(tracer, (c, body, wanted), lines, Some(LINES_PER_SECOND));
            sample.lost_paced = paced.context("the clause that prints, at a rate")?.1;
            for script in [self.one_line(), self.lines()] {
                sample.ms.push(self.compilation(tracer, &script)?);
            }
            let scripts = if self.is_smoke { CORPUS_SMOKE } else { self.corpus.len() };
            let each = self.corpus[..scripts].iter().map(|script| self.compilation(tracer, script));
            sample.ms.push(each.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max));
        }
        Ok(sample)
    }

    /// ns a call with this clause at the function, and per cent of its lines that are missing.
    fn clause(
        &self,
        tracer: &Tracer,
        (c, body, wanted): (&str, &str, &str),
        calls: u64,
        per_second: Option<u64>,
    ) -> Result<(f64, f64)> {
        let mut command = tracer.command(&self.program);
        let script = format!("{c} uprobe:{}:handle {{ {body} }}", quoted(&self.program));
        let rate = per_second.map_or(String::new(), |rate| format!(" {rate}"));
        let traced = format!("{} {calls}{rate}", tracer.word(&self.program));
        match tracer {
            Tracer::None => command.arg(calls.to_string()),
            _ => command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &traced]),
        };
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let field = |name: &str| {
            let value = text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value
                .and_then(|value| value.parse::<f64>().ok())
                .with_context(|| format!("no {name}= in {text:?}"))
        };
        let mut missing = 0.0;
        if *tracer != Tracer::None {
            let found = fs::read_to_string(&self.out)?;
            ensure!(found.contains(wanted), "{wanted:?} is not in {:?}…", &found.get(..200));
            let lines =
                found.lines().filter(|line| line.contains(" GET ") || line.contains(" POST ")).count();
            if matches!(tracer, Tracer::Weir(_)) && body.starts_with("printf") {
                let reported = found.lines().filter_map(|line| line.strip_prefix("Lost ")?.split(' ').next());
                let lost: u64 = reported.filter_map(|count| count.parse::<u64>().ok()).sum();
                ensure!(
                    lines as u64 + lost == calls,
                    "{lines} lines of {calls} calls, {lost} reported as lost"
                );
                missing = 100.0 * lost as f64 / calls as f64;
            }
        }
        Ok((field("busy_ns")? / field("calls")?, missing))
    }

    fn one_line(&self) -> String {
        format!("uprobe:{}:handle {{ @[comm, str(arg1)] = hist(arg0); }}", quoted(&self.program))
    }

    /// Twenty clauses of ten lines.
    fn lines(&self) -> String {
        let program = quoted(&self.program);
        // No more than 16 programs may run at one function.
        let clause = |n: usize| {
            let function = if n.is_multiple_of(2) { "handle" } else { "main" };
            format!(
                "uprobe:{program}:{function} /arg0 > {n}/ {{\n  $a = arg0 + {n};\n  $t = str(arg1);\n  if ($a % 2 == 0) {{\n    @even{n}[$t] = count();\n  }} else {{\n    \
                 @odd{n}[tid, comm] = sum($a);\n  }}\n  printf(\"%d %s\\n\", $a, $t);\n}}\n"
            )
        };
        (0..20).map(clause).collect()
    }

    /// Milliseconds: `weir: 1 functions: compiled in 1.6 ms, planned in 0.9 ms`.
    fn compilation(&self, tracer: &Tracer, script: &str) -> Result<f64> {
        let mut command = tracer.command(&self.program);
        let traced = format!("{} 1", tracer.word(&self.program));
        command.arg("-o").arg(&self.out).args(["-v", "--unsafe", "-e", script, "-c", &traced]);
        // A script may say that it fails.
        let output = process::outcome_within(&mut command, RUN_LIMIT)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let after = |word: &str| {
            let (_, rest) = said.split_once(word)?;
            rest.split_once(" ms")?.0.parse::<f64>().ok()
        };
        let times = after("compiled in ").zip(after("planned in "));
        let (compiled, planned) = times.with_context(|| format!("no times in {said:?}"))?;
        Ok(compiled + planned)
    }
}

/// The scripts of the corpus that are sound as they stand: with no parameters, by no other version's rules, whether or not there is a
/// command.
fn corpus() -> Result<Vec<String>> {
    let mut scripts = Vec::new();
    for file in fs::read_dir(workspace::root().join(CORPUS_FOLDER)).context(CORPUS_FOLDER)? {
        let text = fs::read_to_string(file?.path())?;
        for case in format!("\n{text}").split("\n== ").skip(1) {
            let mut parts = case.split("\n-- ");
            let script = parts.next().and_then(|part| part.split_once('\n')).map(|(_, script)| script);
            let headings: Vec<&str> = parts.filter_map(|part| part.lines().next()).collect();
            let script = script.context("a case without a script")?;
            let stands = !headings.contains(&"parameters")
                && !headings.contains(&"truths")
                && !script.contains("has_cpid");
            if headings.contains(&"prints") && stands {
                scripts.push(script.to_owned());
            }
        }
    }
    ensure!(scripts.len() >= 300, "{} scripts in {CORPUS_FOLDER}", scripts.len());
    Ok(scripts)
}

fn add_figures(figures: &mut Figures, sides: &[Side], rounds: &Rounds<Sample>) {
    let nothing: &[Sample] = &[];
    let bare =
        rounds.with(sides).find(|(side, _)| side.subject == BARE).map_or(nothing, |(_, samples)| samples);
    for (side, samples) in rounds.with(sides) {
        for (index, (name, ..)) in CLAUSES.into_iter().enumerate() {
            if side.subject == BARE {
                continue;
            }
            let pairs = samples.iter().zip(bare);
            let hits: Vec<f64> = pairs.map(|(side, bare)| side.ns[index] - bare.ns[index]).collect();
            figures.add(side.subject, &format!("ns a hit: {name}"), "ns", &hits);
        }
        if side.subject == WEIR {
            let lost: Vec<f64> = samples.iter().map(|sample| sample.lost).collect();
            figures.describe(side.subject, LOST, "%", &lost);
            let lost: Vec<f64> = samples.iter().map(|sample| sample.lost_paced).collect();
            figures.describe(side.subject, LOST_PACED, "%", &lost);
        }
        for (index, (case, _)) in MS_MAX.into_iter().enumerate() {
            let ms: Vec<f64> = samples.iter().filter_map(|sample| sample.ms.get(index).copied()).collect();
            figures.add(side.subject, case, "ms", &ms);
        }
    }
}

/// Each bar, met or not.
fn bars(figures: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    for (case, most) in MS_MAX {
        if let Some(figure) = figures.get(WEIR, case) {
            let verdict = met(figure.summary.median <= most);
            lines.push(format!("bar: {case}: at most {most} ms: {verdict}: {:.3}", figure.summary.median));
        }
    }
    if let Some(figure) = figures.get(WEIR, LOST_PACED) {
        let verdict = met(figure.summary.median == 0.0);
        lines.push(format!("bar: {LOST_PACED}: none: {verdict}: {:.3} %", figure.summary.median));
    }
    for (name, ..) in CLAUSES {
        let case = format!("ns a hit: {name}");
        let has_lost = figures.get(WEIR, LOST).is_some_and(|figure| figure.summary.median > 1.0);
        if name == "printf" && has_lost {
            lines.push("printf: hits whose lines are lost are no hits to compare".to_owned());
            continue;
        }
        if let Some(ratio) = figures.ratio(&case, BPFTRACE) {
            lines.push(format!("{name}: {ratio:.1} × cheaper than bpftrace"));
        }
        if let (Some(weir), Some(again)) = (figures.get(WEIR, &case), figures.get(AGAIN, &case))
            && weir.summary.low <= again.summary.high
        {
            lines.push(format!("{case}: inside what two bare sides differ by: not decidable"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_what_a_side_takes_more_than_the_bare_one() {
        let sides = [BARE, WEIR].map(|subject| Side { subject, tracer: Tracer::None });
        let sample = |ns: f64, ms: &[f64]| Sample {
            ns: vec![ns; CLAUSES.len()],
            ms: ms.to_vec(),
            ..Sample::default()
        };
        let rounds = Rounds::of(vec![vec![sample(2.0, &[]); 3], vec![sample(52.0, &[4.0, 30.0]); 3]]);
        let mut figures = Figures::default();
        add_figures(&mut figures, &sides, &rounds);
        assert_eq!(figures.get(WEIR, "ns a hit: chain").unwrap().summary.median, 50.0);
        let lines = bars(&figures);
        assert!(lines[0].contains("at most 5 ms: met") && lines[1].contains("NOT met: 30"), "{lines:?}");
    }
}
