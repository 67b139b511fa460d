//! attach: 40,000 functions of one program found, planned, patched and let go again, and what its clients notice.
//!
//! The program is generated: functions of eight kinds that call each other, and an echo server that calls some of them
//! for each message. A client sends it a message every 200 µs; a latency is taken from when a message was due, so that
//! one stop shows in all messages that it delays. In each round a new server runs unprobed for a second; then weir
//! attaches to every function of it, counts for half a second, and detaches. Times of the phases, stops and their
//! lengths are those that `weir trace -v` prints; the windows of latencies are those of its lines.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{Form, Plan, Weir};
use crate::bench::report::met;
use crate::bench::rounds::alternate;
use crate::{process, workspace};

pub(super) const FUNCTIONS: usize = 40_000;
pub(super) const FUNCTIONS_SMOKE: usize = 400;
const COMPILE_LIMIT: Duration = Duration::from_secs(1200);
const NORMAL: Duration = Duration::from_secs(1);
const NORMAL_SMOKE: Duration = Duration::from_millis(50);
const PERIOD: Duration = Duration::from_micros(200);
/// What the project promises.
const SUM_MS_MAX: f64 = 2000.0;
const STOP_MS_MAX: f64 = 5.0;
const STOPPED_MS_MAX: f64 = 100.0;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench::set_up(plan.form)?;
    alternate(plan, &plan.weirs, &mut |_, weir| bench.run(&weir.program), &|rounds| {
        let mut figures = Figures::default();
        for (weir, found) in rounds.with(&plan.weirs) {
            add_figures(&mut figures, plan.form, weir, found);
        }
        let bars = bars(&figures);
        let title = format!("Attaching to {} functions of a server, {} rounds", bench.functions, plan.rounds);
        Outcome { title, figures, bars, remarks: Vec::new() }
    })
}

/// A time, a number of stops, or a latency, by its case.
type Figure = (&'static str, &'static str, f64);

/// One round of a weir.
struct Found {
    costs: Vec<Figure>,
    stops: [Figure; 2],
    /// p99.9 latencies in milliseconds.
    unprobed: f64,
    attaching: f64,
    detaching: f64,
}

fn add_figures(figures: &mut Figures, form: Form, weir: &Weir, found: &[Found]) {
    let samples = |of: &dyn Fn(&Found) -> f64| found.iter().map(of).collect::<Vec<f64>>();
    let Some(first) = found.first() else { return };
    for (index, (case, unit, _)) in first.costs.iter().enumerate() {
        figures.add(weir.subject, case, unit, &samples(&|found| found.costs[index].2));
    }
    for (index, (case, unit, _)) in first.stops.iter().enumerate() {
        figures.describe(weir.subject, case, unit, &samples(&|found| found.stops[index].2));
    }
    let (attaching, detaching) = (samples(&|found| found.attaching), samples(&|found| found.detaching));
    // Beside each other in one case, or else each weir's beside the other weir's.
    if form == Form::Against {
        figures.add(weir.subject, "p99.9 latency, attaching", "ms", &attaching);
        figures.add(weir.subject, "p99.9 latency, detaching", "ms", &detaching);
    } else {
        figures.add("unprobed", "p99.9 latency", "ms", &samples(&|found| found.unprobed));
        figures.add("attaching", "p99.9 latency", "ms", &attaching);
        figures.add("detaching", "p99.9 latency", "ms", &detaching);
    }
}

fn bars(figures: &Figures) -> Vec<String> {
    let median = |case: &str| figures.get(WEIR, case).map_or(f64::NAN, |figure| figure.summary.median);
    let bar = |what: &str, value: f64, max: f64| {
        let verdict = met(value <= max);
        format!("bar: {what}: at most {max} ms: {verdict}: {value:.1}")
    };
    let (attach, detach) = (median("attach: longest stop"), median("detach: longest stop"));
    vec![
        bar("found, planned and patched", median("sum until attached"), SUM_MS_MAX),
        bar("longest stop", attach.max(detach), STOP_MS_MAX),
        bar("stopped to attach", median("attach: stopped in sum"), STOPPED_MS_MAX),
        bar("stopped to detach", median("detach: stopped in sum"), STOPPED_MS_MAX),
    ]
}

struct Bench {
    program: PathBuf,
    functions: usize,
    /// How long the server runs unprobed.
    normal: Duration,
}

impl Bench {
    fn set_up(form: Form) -> Result<Bench> {
        let functions = form.pick(FUNCTIONS, FUNCTIONS, FUNCTIONS_SMOKE);
        let name = form.pick("attach", "attach", "attach_smoke");
        Ok(Bench {
            program: program(name, functions)?,
            functions,
            normal: form.pick(NORMAL, NORMAL, NORMAL_SMOKE),
        })
    }

    /// A new server, unprobed and then under this weir.
    fn run(&self, weir: &Path) -> Result<Found> {
        let server = Server::start(&self.program)?;
        sleep(self.normal);
        let normal = server.begin..Instant::now();
        let script = format!(
            "config = {{ max_probes = 65536; }} uprobe:{}:f* {{ @ = count(); }} interval:ms:500 {{ exit(); }}",
            quoted(&self.program)
        );
        let mut command = Command::new(weir);
        command.args(["trace", "-v", "-e", &script, "-p", &server.child.id().to_string()]);
        let mut tracer = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let said = BufReader::new(tracer.stderr.take().context("weir has no stderr")?);
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for line in said.lines() {
            lines.push((Instant::now(), line?));
        }
        ensure!(tracer.wait()?.success(), "weir failed: {lines:?}");
        let line = |with: &str| {
            let found = lines.iter().find(|(_, line)| line.contains(with));
            found.with_context(|| format!("weir said nothing of {with:?}: {lines:?}"))
        };
        let (planned, attached, detached) = (line("planned in")?, line("attached in")?, line("detached in")?);
        let latencies = server.end()?;
        let number = |line: &(Instant, String), before: &str| number_behind(&line.1, before);
        let probes = number_behind(&attached.1, "weir: ")?;
        ensure!(probes > 0.99 * self.functions as f64, "only {probes} functions were probed");
        let (compile, plan) = (number(planned, "compiled in ")?, number(planned, "planned in ")?);
        let (attach, detach) = (number(attached, "attached in ")?, number(detached, "detached in ")?);
        let window = |line: &(Instant, String), ms: f64| {
            // A message is due in each period.
            let took = Duration::from_secs_f64(ms / 1e3).max(PERIOD);
            line.0.checked_sub(took).unwrap_or(line.0)..line.0
        };
        let of = |window: std::ops::Range<Instant>| {
            let due = latencies.iter().filter(|(due, _)| window.contains(due));
            let mut of_window: Vec<f64> = due.map(|(_, latency)| latency.as_secs_f64() * 1e3).collect();
            of_window.sort_unstable_by(f64::total_cmp);
            let rank = (of_window.len() as f64 * 0.999).ceil() as usize;
            of_window.get(rank.saturating_sub(1)).copied().context("no message was due")
        };
        Ok(Found {
            costs: vec![
                ("1 script compiled, functions found", "ms", compile),
                ("2 planned", "ms", plan),
                ("3 generated and patched", "ms", attach),
                ("sum until attached", "ms", compile + plan + attach),
                ("detached", "ms", detach),
                ("attach: longest stop", "ms", number(attached, "for ")?),
                ("attach: stopped in sum", "ms", number(attached, "at most, ")?),
                ("detach: longest stop", "ms", number(detached, "for ")?),
                ("detach: stopped in sum", "ms", number(detached, "at most, ")?),
            ],
            stops: [
                ("attach: stops", "", number(attached, "held ")?),
                ("detach: stops", "", number(detached, "held ")?),
            ],
            unprobed: of(normal)?,
            attaching: of(window(attached, attach))?,
            detaching: of(window(detached, detach))?,
        })
    }
}

/// The number that follows `before` in `line`.
fn number_behind(line: &str, before: &str) -> Result<f64> {
    let rest = line.split_once(before).map(|(_, rest)| rest).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().with_context(|| format!("no number behind {before:?} in {line:?}"))
}

/// A server and the client that asks it.
struct Server {
    child: Child,
    begin: Instant,
    is_over: Arc<AtomicBool>,
    client: JoinHandle<Result<Vec<(Instant, Duration)>>>,
}

impl Server {
    fn start(program: &Path) -> Result<Server> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take().context("the server has no input")?;
        let from = child.stdout.take().context("the server has no output")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let client = thread::spawn(move || ask(to, from, &until));
        Ok(Server { child, begin: Instant::now(), is_over, client })
    }

    /// When each message was due, and how long after that it was answered.
    fn end(mut self) -> Result<Vec<(Instant, Duration)>> {
        self.is_over.store(true, Ordering::Relaxed);
        let latencies = self.client.join().map_err(|_| anyhow::anyhow!("the client panicked"))?;
        ensure!(self.child.wait()?.success(), "the server failed");
        latencies
    }
}

/// Sends a message each time that one is due, also those that were due and not sent yet when the measurement was over:
/// they are the ones that waited longest. Its end is the server's.
fn ask(mut to: ChildStdin, mut from: ChildStdout, is_over: &AtomicBool) -> Result<Vec<(Instant, Duration)>> {
    let mut latencies = Vec::new();
    let mut due = Instant::now();
    let mut end = None;
    while end.is_none_or(|end| due < end) {
        if end.is_none() && is_over.load(Ordering::Relaxed) {
            end = Some(Instant::now());
        }
        due += PERIOD;
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            sleep(early);
        }
        let (message, mut answer) = ([latencies.len() as u8; 8], [0; 8]);
        to.write_all(&message)?;
        from.read_exact(&mut answer)?;
        latencies.push((due, due.elapsed()));
        ensure!(answer == message, "a wrong answer");
    }
    Ok(latencies)
}

/// Compiles the program, if it is not there.
pub(super) fn program(name: &str, functions: usize) -> Result<PathBuf> {
    let folder = workspace::target_folder("programs")?;
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    let text = source_text(functions);
    if program.exists() && fs::read_to_string(&source).is_ok_and(|there| there == text) {
        return Ok(program);
    }
    eprintln!("compiling {functions} functions; 40,000 take a minute");
    // Not under its name before it is whole.
    let built = folder.join(format!("{name}.new"));
    fs::write(&source, &text)?;
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-o"]).arg(&built).arg(&source);
    process::output_within(&mut compile, COMPILE_LIMIT).context("compiling the generated program")?;
    fs::rename(&built, &program)?;
    Ok(program)
}

/// The same for each run.
fn source_text(functions: usize) -> String {
    let mut text = String::from(
        "#include <string.h>\n#include <unistd.h>\nvolatile long sink; long table[64];\n#define F __attribute__((noinline)) long\n",
    );
    let mut state = 7u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % bound
    };
    for n in 0..functions {
        let callee = n.saturating_sub(1 + random(50));
        let body = match if n == 0 { 0 } else { random(8) } {
            0 => format!("return x * {n} + 1;"),
            1 => format!("for (long k = 0; k < (x & 7); k++) y += table[(k + {n}) & 63] * x; return y;"),
            2 => format!("if (x & 1) return f{callee}(x >> 1, y) + {n}; return y;"),
            3 => "switch (x & 7) { case 0: y++; case 1: sink = y; case 2: y *= 3; break; case 3: y = 7; case 4: sink++; \
                  case 5: y ^= x; break; default: y = 3; } return y;"
                .to_string(),
            4 => format!("char b[32]; memset(b, (int)x, sizeof b); sink += b[y & 31]; return b[x & 31] + {n};"),
            5 => format!("if (y > {n}) sink++; return table[y & 63] + x;"),
            6 => format!("double d = x; d = d * y + {n}.5; return (long)d;"),
            _ => format!("sink = x; return f{callee}(x >> 1, y + 1) ^ {n};"),
        };
        // SANITY: a String takes everything.
        writeln!(text, "F f{n}(long x, long y) {{ {body} }}").expect("writing to a string");
    }
    let all: Vec<String> = (0..functions).map(|n| format!("f{n}")).collect();
    text += &format!("long (*const all[])(long, long) = {{ {} }};\n", all.join(", "));
    text += &format!(
        "int main(void) {{ char message[8]; unsigned k = 0; while (read(0, message, 8) == 8) {{ for (int i = 0; i < 64; \
         i++, k = (k + 617) % {functions}) sink += all[k](k, i); if (write(1, message, 8) != 8) return 1; }} return 0; }}\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lines_of_weir() {
        let line = "weir: 39975 probes attached in 131.8 ms, the target held 6 times, for 12.7 ms at most, 28.2 ms in sum";
        let check = |before: &str| number_behind(line, before).unwrap();
        assert_eq!(["weir: ", "held ", "for ", "at most, "].map(check), [39975.0, 6.0, 12.7, 28.2]);
        assert!(number_behind(line, "planned in ").is_err());
    }

    #[test]
    fn the_program_is_the_same_each_time() {
        let text = source_text(FUNCTIONS);
        assert_eq!(text, source_text(FUNCTIONS));
        assert_eq!(text.matches("\nF f").count(), FUNCTIONS);
    }
}
