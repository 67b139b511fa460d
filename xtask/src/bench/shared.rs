//! shared: what an access costs to a map that processes and programs in the kernel see, from either side, beside a map that is that side's alone.
//!
//! A clause does the same [`ACCESSES`] times at each of a million events; less what a clause of that side takes that only counts, and divided by their
//! number, it is ns an access. What makes a map one of both sides is a clause on the other side that names it and hardly runs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::Figures;
use crate::bench::plan::{Plan, Side, Tracer};
use crate::bench::rounds::{Rounds, alternate};
use crate::{process, workspace};

const RUN_LIMIT: Duration = Duration::from_secs(120);
/// In one run of a clause.
const ACCESSES: u64 = 8;
/// Of smoke tests.
const TIMES_SMOKE: u64 = 1000;

/// Where a clause runs, and on which map.
struct Place {
    name: &'static str,
    arguments: &'static [&'static str],
    /// PROGRAM is its path, BODY what is done at each event.
    script: &'static str,
    what: &'static str,
    times: u64,
}

const PLACES: [Place; 4] = [
    Place {
        name: "kernel, shared map",
        arguments: &[],
        script: "tracepoint:syscalls:sys_enter_getppid { BODY } uprobe:PROGRAM:main { @k[1] = 0; }",
        what: "getppid",
        times: 1_000_000,
    },
    Place {
        name: "kernel, its own hash",
        arguments: &["--engine", "kernel"],
        script: "tracepoint:syscalls:sys_enter_getppid { BODY } uprobe:PROGRAM:main { @k[1] = 0; }",
        what: "getppid",
        times: 1_000_000,
    },
    Place {
        name: "process, shared map",
        arguments: &[],
        script: "uprobe:PROGRAM:bar { BODY } tracepoint:syscalls:sys_enter_reboot { @k[1] = 0; }",
        what: "bar",
        times: 4_000_000,
    },
    Place {
        name: "process, its own hash",
        arguments: &[],
        script: "uprobe:PROGRAM:bar { BODY } uprobe:PROGRAM:main { @k[1] = 0; }",
        what: "bar",
        times: 4_000_000,
    },
];

/// What is done to one key; KEY is it.
const OPERATIONS: [(&str, &str); 4] = [
    ("look-up", "if (@k[KEY] == 77) { @found = 1; }"),
    ("addition", "@k[KEY] += 1;"),
    ("store", "@k[KEY] = 5;"),
    ("store and deletion of a new key", "@k[KEY] = 5; delete(@k[KEY]);"),
];

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench {
        program: workspace::test_program("kernel_events")?,
        times: plan.form.pick(None, None, Some(TIMES_SMOKE)),
    };
    let sides: Vec<Side> =
        plan.sides(&[]).into_iter().filter(|side| matches!(side.tracer, Tracer::Weir(_))).collect();
    alternate(plan, &sides, &mut |_, side: &Side| bench.run(&side.tracer), &|rounds| {
        let mut figures = Figures::default();
        add_figures(&mut figures, &sides, rounds);
        let title = format!("Accesses to maps of both sides, {} rounds", plan.rounds);
        Outcome { title, bars: Vec::new(), figures, remarks: Vec::new() }
    })
}

/// By place: ns of an event that is counted alone, twice, and with each of the operations.
type Found = Vec<Vec<f64>>;

struct Bench {
    program: PathBuf,
    times: Option<u64>,
}

impl Bench {
    fn run(&self, tracer: &Tracer) -> Result<Found> {
        let keys = |operation: &str| -> String {
            (1..=ACCESSES).map(|key| operation.replace("KEY", &(7 * key).to_string())).collect()
        };
        let operations = OPERATIONS.iter().map(|(_, operation)| keys(operation));
        let bodies: Vec<String> = [String::new(), String::new()].into_iter().chain(operations).collect();
        let of_place = |place: &Place| -> Result<Vec<f64>> {
            bodies.iter().map(|body| self.event(tracer, place, body).with_context(|| place.name)).collect()
        };
        PLACES.iter().map(of_place).collect()
    }

    /// ns of an event.
    fn event(&self, tracer: &Tracer, place: &Place, body: &str) -> Result<f64> {
        let times = self.times.unwrap_or(place.times);
        // Without an operation it names the map all the same, at an event that is none.
        let body = format!("@events = count(); {body}");
        let script = place.script.replace("PROGRAM", &quoted(&self.program)).replace("BODY", &body);
        let traced = format!("{} {} {times}", quoted(&self.program), place.what);
        let mut command = tracer.command(&self.program);
        command.arg("-q").args(place.arguments).args(["-e", &script, "-c", &traced]);
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number =
            |start: &str| text.lines().find_map(|line| line.strip_prefix(start)?.parse::<f64>().ok());
        let counted = number("@events: ").with_context(|| format!("no count in {text:?}"))?;
        ensure!(counted >= times as f64, "{counted} events of {times}");
        number("ns=").with_context(|| format!("no ns= in {text:?}"))
    }
}

fn add_figures(figures: &mut Figures, sides: &[Side], rounds: &Rounds<Found>) {
    for (side, found) in rounds.with(sides) {
        for (place, of_place) in PLACES.iter().zip(0..) {
            let mut add = |name: &str, which: usize, accesses: u64| {
                let took = |found: &Found| {
                    let ns: &[f64] = &found[of_place];
                    (ns[which] - ns[0]) / accesses as f64
                };
                let samples: Vec<f64> = found.iter().map(took).collect();
                figures.add(side.subject, &format!("{}: {name}", place.name), "ns", &samples);
            };
            add("nothing (A/A)", 1, ACCESSES);
            for (number, (name, _)) in OPERATIONS.iter().enumerate() {
                add(name, 2 + number, ACCESSES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Tracer;

    #[test]
    fn an_access_is_its_part_of_what_a_clause_takes_longer() {
        let sides = [Side { subject: "weir", tracer: Tracer::None }];
        let found = vec![vec![100.0, 104.0, 180.0, 260.0, 340.0, 420.0]; PLACES.len()];
        let mut figures = Figures::default();
        add_figures(&mut figures, &sides, &Rounds::of(vec![vec![found]]));
        let median = |case: &str| figures.get("weir", case).unwrap().summary.median;
        assert_eq!(median("process, shared map: look-up"), 10.0);
        assert_eq!(median("kernel, its own hash: store and deletion of a new key"), 40.0);
        assert_eq!(median("kernel, shared map: nothing (A/A)"), 0.5);
    }
}
