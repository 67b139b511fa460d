//! view: what it takes to read a trace, and to print it.
//!
//! A trace of 10⁷ events with an `int` and a `long`, in four streams whose events follow one another in turn, so that each is another
//! stream's: what merging costs most. Our writer makes it, in `crates/weir-trace/examples/trace_rate.rs` (release). Read: by the crate's
//! reader, both numbers of each event, and by babeltrace2 into its sink that drops all. Printed: by `weir view` and by babeltrace2, to
//! /dev/null. Nanoseconds are CPU time of the process, its start included.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::plan::{AGAIN, Plan};
use crate::bench::report::met;
use crate::bench::rounds::alternate;
use crate::{process, workspace};

const EVENTS: u64 = 10_000_000;
const EVENTS_SMOKE: u64 = 10_000;
/// LIMIT: a run of the slowest side, which takes some 20 seconds.
const LIMIT: Duration = Duration::from_secs(300);

const BABELTRACE: &str = "babeltrace2";
const READ: &str = "an event, read";
const PRINTED: &str = "an event, printed";

/// What the project promises of a reader on one core.
const EVENTS_PER_SECOND_MIN: f64 = 10e6;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let rate = trace_rate(plan)?;
    let folder = workspace::target_folder("bench")?.join(format!("view-{}", std::process::id()));
    let bench = Bench { folder, events: plan.form.pick(EVENTS, EVENTS, EVENTS_SMOKE) };
    let written =
        bench.run(Command::new(&rate).arg("write").arg(&bench.folder).arg(bench.events.to_string()))?;
    let mut sides = sides(plan, &rate);
    let mut missing = Vec::new();
    if plan.has_peers() && process::find_program(BABELTRACE).is_none() {
        missing.push(format!("{BABELTRACE}: apt-get install {BABELTRACE}"));
        sides.retain(|side| side.subject != BABELTRACE);
    }
    alternate(plan, &sides, &mut |_, side| bench.run(&mut side.command(&bench)), &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        figures.add(WEIR, "an event, written", "ns", &[written]);
        for (side, ns) in rounds.with(&sides) {
            figures.add(side.subject, side.case, "ns", ns);
        }
        let title = format!("A trace of {} events, {} rounds", bench.events, plan.rounds);
        Outcome { title, bars: bars(&figures), figures, remarks: Vec::new() }
    })
}

/// Builds the example that writes and reads; the path of its program.
fn trace_rate(plan: &Plan) -> Result<PathBuf> {
    let profile = plan.form.pick("release", "release", "debug");
    let built = workspace::build(profile, &["--package", "weir-trace", "--example", "trace_rate"])?;
    Ok(built.join("examples/trace_rate"))
}

/// A program that is given the trace.
struct Side {
    subject: &'static str,
    case: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// The crate's reader is no part of the program weir: it stands beside peers alone.
fn sides(plan: &Plan, rate: &std::path::Path) -> Vec<Side> {
    let side = |subject, case, program: PathBuf, arguments| Side { subject, case, program, arguments };
    let weirs = plan.weirs.iter();
    let mut sides: Vec<Side> =
        weirs.map(|weir| side(weir.subject, PRINTED, weir.program.clone(), &["view"][..])).collect();
    if plan.has_peers() {
        sides.extend([
            side(WEIR, READ, rate.to_owned(), &["read"]),
            side(AGAIN, READ, rate.to_owned(), &["read"]),
            side(BABELTRACE, READ, BABELTRACE.into(), &["--output-format=dummy"]),
            side(BABELTRACE, PRINTED, BABELTRACE.into(), &[]),
        ]);
    }
    sides
}

impl Side {
    fn command(&self, bench: &Bench) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.arguments).arg(&bench.folder);
        command
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.subject, self.case)
    }
}

struct Bench {
    folder: PathBuf,
    /// Of the trace.
    events: u64,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    /// Nanoseconds of CPU time that an event takes.
    fn run(&self, command: &mut Command) -> Result<f64> {
        let before = children()?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let output = process::finish_within(child, LIMIT)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && said.is_empty(), "{command:?}: {}: {said}", output.status);
        Ok((children()? - before).as_nanos() as f64 / self.events as f64)
    }
}

/// CPU time of all children that have been waited for.
fn children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |of: nix::sys::time::TimeVal| {
        Duration::from_secs(of.tv_sec() as u64) + Duration::from_micros(of.tv_usec() as u64)
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

fn bars(figures: &Figures) -> Vec<String> {
    let Some(read) = figures.get(WEIR, READ) else { return Vec::new() };
    let rate = 1e9 / read.summary.median;
    let verdict = met(rate >= EVENTS_PER_SECOND_MIN);
    vec![format!(
        "bar: at least {} M events/s of a core: {verdict}: {}",
        EVENTS_PER_SECOND_MIN / 1e6,
        rounded(rate / 1e6)
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{Form, Weir};
    use crate::bench::rounds::tests::plan;

    #[test]
    fn the_bar_is_a_rate() {
        let of = |ns| {
            let mut figures = Figures::default();
            figures.add(WEIR, READ, "ns", &[ns]);
            bars(&figures).join("\n")
        };
        assert_eq!(of(80.0), "bar: at least 10 M events/s of a core: met: 12.50");
        assert_eq!(of(125.0), "bar: at least 10 M events/s of a core: NOT met: 8.000");
        assert_eq!(bars(&Figures::default()), Vec::<String>::new());
    }

    #[test]
    fn each_case_has_weir_once_and_each_weir_prints() {
        let mut plan = plan(1, Box::new(|_| Ok(())));
        plan.weirs = Weir::all("weir".into(), None);
        let full = sides(&plan, "rate".as_ref());
        for case in [READ, PRINTED] {
            let weirs = full.iter().filter(|side| (side.subject, side.case) == (WEIR, case));
            assert_eq!(weirs.count(), 1, "{case}");
        }
        plan.form = Form::Against;
        plan.weirs = Weir::all("weir".into(), Some("other".into()));
        let names: Vec<String> = sides(&plan, "rate".as_ref()).iter().map(Side::to_string).collect();
        assert_eq!(
            names,
            ["weir, an event, printed", "against, an event, printed", "A/A, an event, printed"]
        );
    }
}
