//! LTTng-UST's own filter: a program with its tracepoint of nine strings (tests/lttng), in a session for each filter.
//!
//! Sessions are flight recorders (snapshot mode): events are written to the ring over older ones, so that none is lost, and no
//! consumer takes time or memory bandwidth.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::process::{self, Guard};
use crate::workspace;

/// Predicates; nine strings are the most that an event has, with nine of them used.
const COUNTS: [usize; 5] = [1, 2, 5, 8, 9];

/// LIMIT: a command of LTTng's, and a run of the program.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// How long the session daemon may take to answer, in tenths of a second.
const TENTHS_TO_START: u32 = 50;

const SESSION: &str = "weir-bench-filter";

/// What the tracepoint meets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Side {
    case: String,
    /// No session without; then the filter, which may be none.
    rule: Option<String>,
    /// The case to subtract.
    idle: &'static str,
}

const NO_SESSION: &str = "no session";
const RECORDED: &str = "recorded, no filter";

#[derive(Debug)]
pub(super) struct Lttng {
    program: PathBuf,
    /// Ended when this is dropped, if it is ours.
    daemon: Option<Guard>,
}

impl Lttng {
    /// The error says what is not there.
    pub(super) fn set_up() -> Result<Lttng> {
        for program in ["lttng", "lttng-sessiond"] {
            process::find_program(program)
                .with_context(|| format!("no {program}; apt-get install lttng-tools liblttng-ust-dev"))?;
        }
        let source = workspace::root().join("tests/lttng");
        let program = workspace::target_folder("programs")?.join("lttng_events");
        let mut compile = Command::new("gcc");
        compile.args(["-O2", "-I."]).arg("-o").arg(&program).arg("events.c").args(["-llttng-ust", "-ldl"]);
        process::output_within(compile.current_dir(source), COMMAND_LIMIT)
            .context("compiling LTTng's tracepoint; apt-get install liblttng-ust-dev")?;
        let mut lttng = Lttng { program, daemon: None };
        if lttng.command(&["list"]).is_err() {
            let mut daemon = Command::new("lttng-sessiond");
            lttng.daemon = Some(Guard::spawn(daemon.args(["--no-kernel", "--quiet"]))?);
            let mut answers = (0..TENTHS_TO_START).map(|_| {
                thread::sleep(Duration::from_millis(100));
                lttng.command(&["list"])
            });
            ensure!(answers.any(|answer| answer.is_ok()), "lttng-sessiond does not answer");
        }
        Ok(lttng)
    }

    /// Runs every side once, and says what each filter took of an event, and the two that are subtracted.
    pub(super) fn round(&mut self, round: usize, events: u64, say: &mut dyn FnMut(&str, f64)) -> Result<()> {
        let mut sides = sides();
        let turn = round / 2 % sides.len();
        sides.rotate_left(turn);
        if round % 2 == 1 {
            sides.reverse();
        }
        let mut found = BTreeMap::new();
        for side in &sides {
            let ns = self.run(side, events).with_context(|| format!("lttng: {}", side.case))?;
            found.insert(side.case.as_str(), ns);
        }
        for side in &sides {
            let idle = if side.idle.is_empty() { 0.0 } else { found[side.idle] };
            say(&side.case, found[side.case.as_str()] - idle);
        }
        Ok(())
    }

    /// Nanoseconds of one event.
    fn run(&self, side: &Side, events: u64) -> Result<f64> {
        // One that an earlier run may have left.
        let _ = self.command(&["destroy", SESSION]);
        if let Some(filter) = &side.rule {
            self.command(&["create", SESSION, "--snapshot"])?;
            let channel =
                ["enable-channel", "-u", "-s", SESSION, "--subbuf-size", "1M", "--num-subbuf", "4", "c"];
            self.command(&channel)?;
            let mut rule = vec!["enable-event", "-u", "-s", SESSION, "-c", "c", "bench:ev"];
            if !filter.is_empty() {
                rule.extend(["--filter", filter]);
            }
            self.command(&rule)?;
            self.command(&["start", SESSION])?;
        }
        let mut run = Command::new(&self.program);
        let output = process::output_within(run.arg(events.to_string()), RUN_LIMIT);
        if side.rule.is_some() {
            self.command(&["destroy", SESSION])?;
        }
        let text = String::from_utf8(output?.stdout)?;
        text.trim().parse().with_context(|| format!("it printed {text:?}"))
    }

    fn command(&self, arguments: &[&str]) -> Result<()> {
        process::output_within(Command::new("lttng").args(arguments), COMMAND_LIMIT).map(drop)
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // It takes its consumers with it, which a kill would leave.
            let _ = daemon.signal(Signal::SIGTERM);
            let _ = daemon.wait_within(COMMAND_LIMIT);
        }
    }
}

fn sides() -> Vec<Side> {
    let side = |case: String, rule: Option<String>, idle| Side { case, rule, idle };
    let mut sides =
        vec![side(NO_SESSION.to_owned(), None, ""), side(RECORDED.to_owned(), Some(String::new()), "")];
    for count in COUNTS {
        let and = |last: &str| chain(count, " && ", "str", last);
        sides.push(side(format!("and true {count}"), Some(and("str")), RECORDED));
        sides.push(side(format!("and false {count}"), Some(and("stz")), NO_SESSION));
        let or = |last: &str| chain(count, " || ", "sta", last);
        sides.push(side(format!("or true {count}"), Some(or("str")), RECORDED));
        sides.push(side(format!("or false {count}"), Some(or("sta")), NO_SESSION));
    }
    sides
}

/// As many predicates as that, each on a field of its own.
fn chain(count: usize, joint: &str, text: &str, last: &str) -> String {
    let text = |field: usize| if field + 1 == count { last } else { text };
    let predicates = (0..count).map(|field| format!("var{field} == \"{}{field}\"", text(field)));
    predicates.collect::<Vec<_>>().join(joint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_has_what_is_subtracted_from_it() {
        let sides = sides();
        for side in sides.iter().filter(|side| !side.idle.is_empty()) {
            assert!(sides.iter().any(|idle| idle.case == side.idle), "{side:?}");
        }
    }

    #[test]
    fn filters_are_as_those_of_the_thesis() {
        assert_eq!(chain(2, " && ", "str", "stz"), r#"var0 == "str0" && var1 == "stz1""#);
        assert_eq!(chain(2, " || ", "sta", "str"), r#"var0 == "sta0" || var1 == "str1""#);
    }
}
