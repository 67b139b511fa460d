//! kernel: what a hit of a script's program costs in the kernel, beside bpftrace's, and how long it takes until one is armed.
//!
//! `tests/programs/kernel_events.c` does one thing again and again and says what each took. Sides: bare (twice, the second as A/A), weir and bpftrace,
//! with the same counting script for each [`Case`]; less what it took bare in that round, it is ns a hit. The start is that of `mono_main.c`, which
//! prints the time first thing in main, less the time before the spawn: both tracers arm their programs before they start a command. Each count is
//! compared with what was done.
//!
//! Links of many: [`FUNCTIONS`] functions of the server of `attach` are probed by one link; of the time until that is made, what strace(1) says of
//! BPF_LINK_CREATE is the kernel's, and the rest is weir's own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::attach::{self, FUNCTIONS, FUNCTIONS_SMOKE};
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{AGAIN, BARE, Plan, Side, Tracer};
use crate::bench::report::verdict;
use crate::bench::rounds::{Rounds, alternate};
use crate::bench::startup::until_main;
use crate::bench::uprobe::count_in;
use crate::{process, workspace};

const RUN_LIMIT: Duration = Duration::from_secs(120);
const BPFTRACE: &str = "bpftrace";
const STRACE: &str = "strace";

/// What is measured: an event, what the program does for it, how often, and of which engine of weir's it is.
struct Case {
    name: &'static str,
    /// PROGRAM is its path.
    script: &'static str,
    what: &'static str,
    times: u64,
}

const CASES: [Case; 6] = [
    Case {
        name: "tracepoint",
        script: "tracepoint:task:task_rename { @ = count(); }",
        what: "rename",
        times: 300_000,
    },
    Case {
        name: "raw tracepoint",
        script: "rawtracepoint:task_rename { @ = count(); }",
        what: "rename",
        times: 300_000,
    },
    Case {
        name: "system call",
        script: "tracepoint:syscalls:sys_enter_getppid { @ = count(); }",
        what: "getppid",
        times: 300_000,
    },
    Case { name: "uprobe", script: "uprobe:PROGRAM:foo { @ = count(); }", what: "foo", times: 20_000 },
    Case { name: "uretprobe", script: "uretprobe:PROGRAM:foo { @ = count(); }", what: "foo", times: 20_000 },
    Case {
        name: "uprobe and uretprobe",
        script: "uprobe:PROGRAM:foo { @start[tid] = nsecs; } uretprobe:PROGRAM:foo { @ = count(); delete(@start[tid]); }",
        what: "foo",
        times: 20_000,
    },
];

/// Of smoke tests.
const TIMES_SMOKE: u64 = 1000;
/// The script whose start is measured.
const STARTED: &str = "tracepoint:task:task_rename { @ = count(); }";
const START: &str = "start until armed";
/// What the project promises.
const START_MS_MAX: f64 = 60.0;
/// Two sides of one program differ by so much here.
const NOISE: f64 = 1.02;

const OWN: &str = "many functions: weir's own";
const LINK: &str = "many functions: BPF_LINK_CREATE";
const OWN_MS_MAX: f64 = 300.0;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let mut bench = Bench::set_up(plan)?;
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    if plan.has_peers() && process::find_program(BPFTRACE).is_some() {
        peers.push(BPFTRACE);
        for case in &CASES {
            if let Err(error) = bench.hits(&Tracer::Peer(BPFTRACE), case) {
                // The command that failed has paths in it.
                let said = format!("{error:#}");
                missing.push(format!(
                    "{BPFTRACE}: {}: {}",
                    case.name,
                    said.lines().last().unwrap_or_default()
                ));
                bench.untaken.push(case.name);
            }
        }
    } else if plan.has_peers() {
        missing.push(format!("{BPFTRACE}: not installed"));
    }
    if !bench.has_strace {
        missing.push(format!("{STRACE}: not installed: nothing is known of links of many functions"));
    }
    let sides = plan.sides(&peers);
    alternate(plan, &sides, &mut |_, side: &Side| bench.run(&side.tracer), &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &sides, rounds);
        let title = format!("Programs in the kernel, {} rounds", plan.rounds);
        Outcome { title, bars: bars(&figures), figures, remarks: wrong_counts(&sides, rounds) }
    })
}

/// A side's runs in one round.
#[derive(Clone, PartialEq, Debug)]
struct Found {
    /// By case, of those that the tracer takes: ns of one thing, and how many more were counted than were done.
    runs: Vec<Option<(f64, Option<i64>)>>,
    start_ms: f64,
    /// Of a link of many: until it is made, and in BPF_LINK_CREATE.
    many_ms: Option<(f64, f64)>,
}

struct Bench {
    program: PathBuf,
    started: PathBuf,
    many: PathBuf,
    functions: usize,
    out: PathBuf,
    times: Option<u64>,
    has_strace: bool,
    /// Cases that the peer does not take.
    untaken: Vec<&'static str>,
}

impl Bench {
    fn set_up(plan: &Plan) -> Result<Bench> {
        let (name, functions) =
            plan.form.pick(("attach", FUNCTIONS), ("attach", FUNCTIONS), ("attach_smoke", FUNCTIONS_SMOKE));
        Ok(Bench {
            program: workspace::test_program("kernel_events")?,
            started: workspace::test_program("mono_main")?,
            many: attach::program(name, functions)?,
            functions,
            out: workspace::target_folder("bench")?.join(format!("kernel-{}.out", std::process::id())),
            times: plan.form.pick(None, None, Some(TIMES_SMOKE)),
            has_strace: process::find_program(STRACE).is_some(),
            untaken: Vec::new(),
        })
    }

    fn run(&self, tracer: &Tracer) -> Result<Found> {
        let takes = |case: &Case| !matches!(tracer, Tracer::Peer(_)) || !self.untaken.contains(&case.name);
        let hits = |case: &Case| takes(case).then(|| self.hits(tracer, case)).transpose();
        let runs: Result<Vec<_>> = CASES.iter().map(|case| hits(case).with_context(|| case.name)).collect();
        let many_ms = match tracer {
            Tracer::Weir(_) if self.has_strace => Some(self.many(tracer)?),
            _ => None,
        };
        Ok(Found { runs: runs?, start_ms: self.start(tracer)?, many_ms })
    }

    fn hits(&self, tracer: &Tracer, case: &Case) -> Result<(f64, Option<i64>)> {
        let times = self.times.unwrap_or(case.times);
        let script = case.script.replace("PROGRAM", &quoted(&self.program));
        let mut command = tracer.command(&self.program);
        match tracer {
            Tracer::None => command.args([case.what, &times.to_string()]),
            Tracer::Weir(_) => command.args(["--engine", "kernel"]),
            Tracer::Peer(_) => &mut command,
        };
        if *tracer != Tracer::None {
            let traced = format!("{} {} {times}", tracer.word(&self.program), case.what);
            command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &traced]);
        }
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ns = text.lines().filter_map(|line| line.strip_prefix("ns=")?.parse().ok()).next_back();
        let ns = ns.with_context(|| format!("no ns= in {text:?}"))?;
        let counted = match tracer {
            Tracer::None => None,
            _ => Some(count_in(&self.out)? as i64 - times as i64),
        };
        Ok((ns, counted))
    }

    fn start(&self, tracer: &Tracer) -> Result<f64> {
        let mut command = tracer.command(&self.started);
        if *tracer != Tracer::None {
            command.arg("-o").arg(&self.out).args(["-e", STARTED, "-c", &tracer.word(&self.started)]);
        }
        until_main(&mut command)
    }

    /// Milliseconds from the spawn until all functions of a process are probed, and what of that is the kernel's.
    fn many(&self, tracer: &Tracer) -> Result<(f64, f64)> {
        let weir = tracer.program().context("no tracer")?;
        let calls = self.out.with_extension("strace");
        let script = format!(
            "config = {{ max_probes = 65536; }} uprobe:{}:f* {{ @ = count(); }} interval:ms:1 {{ exit(); }}",
            quoted(&self.many)
        );
        let mut traced = Command::new(&self.many);
        let mut traced = traced.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let mut command = Command::new(STRACE);
        command.args(["-f", "--seccomp-bpf", "-ttt", "-T", "-e", "trace=bpf", "-o"]).arg(&calls).arg(weir);
        command.args(["trace", "-v", "--engine", "kernel", "-e", &script, "-p", &traced.id().to_string()]);
        let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let output = process::output_within(&mut command, RUN_LIMIT);
        // At the end of its input it ends.
        drop(traced.stdin.take());
        ensure!(traced.wait()?.success(), "the traced program failed");
        let said = String::from_utf8_lossy(&output?.stderr).into_owned();
        let probed =
            said.lines().find_map(|line| line.strip_suffix(" probed")?.rsplit_once(' ')?.1.parse().ok());
        ensure!(probed >= Some(self.functions), "{} functions are not probed: {said:?}", self.functions);
        let (armed, links) = links(&fs::read_to_string(calls)?).context("no BPF_LINK_CREATE")?;
        Ok((1000.0 * (armed - began), 1000.0 * links))
    }
}

/// When the last BPF_LINK_CREATE of a program was over, and how long all took, in seconds: of strace's lines, `PID TIME bpf(…) = … <SECONDS>`.
fn links(calls: &str) -> Option<(f64, f64)> {
    let mut found = (0.0, 0.0);
    for line in calls.lines().filter(|line| line.contains("BPF_LINK_CREATE") && !line.contains("= -1 ")) {
        let at: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        let took: f64 = line.rsplit_once('<')?.1.strip_suffix('>')?.parse().ok()?;
        found = (at + took, found.1 + took);
    }
    (found.0 > 0.0).then_some(found)
}

fn add_figures(figures: &mut Figures, sides: &[Side], rounds: &Rounds<Found>) {
    let nothing: &[Found] = &[];
    let bare = rounds.with(sides).find(|(side, _)| side.subject == BARE).map_or(nothing, |(_, found)| found);
    for (side, found) in rounds.with(sides) {
        for (index, case) in CASES.iter().enumerate() {
            let took = |found: &Found| found.runs[index].map(|(ns, _)| ns);
            let pairs = found.iter().zip(bare);
            let hits: Vec<f64> = pairs.filter_map(|(side, bare)| Some(took(side)? - took(bare)?)).collect();
            let speeds: Vec<f64> = found.iter().filter_map(took).map(|ns| 1000.0 / ns).collect();
            if side.subject != BARE {
                figures.add(side.subject, &format!("{}: ns a hit", case.name), "ns", &hits);
            }
            figures.describe(side.subject, &format!("{}: M/s", case.name), "M/s", &speeds);
        }
        let starts: Vec<f64> = found.iter().map(|found| found.start_ms).collect();
        figures.add(side.subject, START, "ms", &starts);
        let many: Vec<(f64, f64)> = found.iter().filter_map(|found| found.many_ms).collect();
        let own: Vec<f64> = many.iter().map(|(all, links)| all - links).collect();
        figures.add(side.subject, OWN, "ms", &own);
        figures.describe(
            side.subject,
            LINK,
            "ms",
            &many.iter().map(|(_, links)| *links).collect::<Vec<f64>>(),
        );
    }
}

/// Each bar, met or not.
fn bars(figures: &Figures) -> Vec<String> {
    let median = |subject: &str, case: &str| figures.get(subject, case).map(|figure| figure.summary.median);
    let mut lines = Vec::new();
    let mut bar = |what: String, value: Option<f64>, most: f64| {
        lines.push(format!("bar: {what}: {}", verdict(value, 3, |value| value <= most)));
    };
    for case in &CASES {
        let name = format!("{}: ns a hit", case.name);
        // What two bare sides differ by is no difference.
        let again = median(AGAIN, &name).map_or(0.0, f64::abs);
        let times = median(BPFTRACE, &name)
            .and_then(|bpftrace| Some((median(WEIR, &name)? - again).max(0.0) / bpftrace.max(1.0)));
        bar(format!("{}: at most bpftrace's ns a hit", case.name), times, NOISE);
    }
    bar(format!("armed within {START_MS_MAX} ms"), median(WEIR, START), START_MS_MAX);
    bar(
        format!("{FUNCTIONS} functions: at most {OWN_MS_MAX} ms beyond the link"),
        median(WEIR, OWN),
        OWN_MS_MAX,
    );
    lines
}

/// Counts that are not what was done, by side and case. Tracepoints are of all processes: others may add some.
fn wrong_counts(sides: &[Side], rounds: &Rounds<Found>) -> Vec<String> {
    let mut remarks = Vec::new();
    for (side, found) in rounds.with(sides) {
        for (index, case) in CASES.iter().enumerate() {
            let differences: Vec<i64> = found.iter().filter_map(|found| found.runs[index]?.1).collect();
            let wrong: Vec<i64> = differences.iter().copied().filter(|difference| *difference != 0).collect();
            if let (Some(least), Some(most)) = (wrong.iter().min(), wrong.iter().max()) {
                let (wrong, all, subject, name) = (wrong.len(), differences.len(), side.subject, case.name);
                remarks.push(format!(
                    "{subject}: {name}: {wrong} of {all} counts differ from what was done, by {least} to {most}"
                ));
            }
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ns: f64, counted: Option<i64>, start_ms: f64, many_ms: Option<(f64, f64)>) -> Found {
        Found { runs: vec![Some((ns, counted)); CASES.len()], start_ms, many_ms }
    }

    fn sides() -> Vec<Side> {
        [BARE, AGAIN, WEIR, BPFTRACE].map(|subject| Side { subject, tracer: Tracer::None }).to_vec()
    }

    fn rounds(weir: f64, bpftrace: f64, start_ms: f64) -> Rounds<Found> {
        Rounds::of(vec![
            vec![found(100.0, None, 1.0, None)],
            vec![found(101.0, None, 1.0, None)],
            vec![found(weir, Some(0), start_ms, Some((900.0, 650.0)))],
            vec![found(bpftrace, Some(-3), 250.0, None)],
        ])
    }

    fn told(weir: f64, bpftrace: f64, start_ms: f64) -> Vec<String> {
        let mut figures = Figures::default();
        add_figures(&mut figures, &sides(), &rounds(weir, bpftrace, start_ms));
        bars(&figures)
    }

    #[test]
    fn a_hit_is_what_it_took_less_the_bare_side() {
        let mut figures = Figures::default();
        add_figures(&mut figures, &sides(), &rounds(150.0, 180.0, 20.0));
        let median = |subject: &str, case: &str| figures.get(subject, case).unwrap().summary.median;
        assert_eq!(median(WEIR, "uprobe: ns a hit"), 50.0);
        assert_eq!(median(BPFTRACE, "uprobe: ns a hit"), 80.0);
        assert_eq!(median(WEIR, OWN), 250.0);
        assert_eq!(median(WEIR, "uprobe: M/s"), 1000.0 / 150.0);
    }

    #[test]
    fn bars_say_met_or_not() {
        assert!(told(150.0, 180.0, 20.0).iter().all(|line| line.contains(" met: ") && !line.contains("NOT")));
        // Inside of what the bare sides differ by.
        assert!(told(181.0, 180.0, 20.0)[0].contains(": met: "));
        assert!(told(190.0, 180.0, 61.0)[0].contains("NOT met"));
        assert!(told(150.0, 180.0, 61.0)[CASES.len()].contains("NOT met: 61"));
    }

    #[test]
    fn counts_that_differ_are_told() {
        let remarks = wrong_counts(&sides(), &rounds(150.0, 180.0, 20.0));
        assert_eq!(remarks.len(), CASES.len());
        assert!(remarks[0].starts_with("bpftrace: tracepoint: 1 of 1 counts differ"), "{remarks:?}");
    }

    #[test]
    fn the_kernels_part_is_what_strace_says_of_links() {
        let calls = "7 100.5 bpf(BPF_PROG_LOAD, {…}, 144) = 5 <0.25>\n\
            7 101.5 bpf(BPF_LINK_CREATE, {link_create={…, target_fd=0}}, 64) = 6 <0.5>\n\
            7 102.5 bpf(BPF_LINK_CREATE, {link_create={…, target_fd=0}}, 64) = 7 <0.0625>\n\
            7 103.5 bpf(BPF_LINK_CREATE, {link_create={…, target_fd=0}}, 64) = -1 EBADF (Bad file descriptor) <0.0625>\n";
        assert_eq!(links(calls), Some((102.5625, 0.5625)));
    }
}
