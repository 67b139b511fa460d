//! LTTng-UST's own filter: a program with its tracepoint of nine strings (tests/lttng), in a session for each filter.
//!
//! Sessions are flight recorders (snapshot mode): events are written to the ring over older ones, so that none is lost, and no
//! consumer takes time or memory bandwidth.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::lttng::{self, Lttng};
use crate::process;

/// Predicates; nine strings are the most that an event has, with nine of them used.
const COUNTS: [usize; 5] = [1, 2, 5, 8, 9];

/// LIMIT: a run of the program.
const RUN_LIMIT: Duration = Duration::from_secs(120);

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
pub(super) struct Sessions {
    program: PathBuf,
    lttng: Lttng,
}

impl Sessions {
    /// The error says what is not there.
    pub(super) fn set_up() -> Result<Sessions> {
        Ok(Sessions { lttng: Lttng::start()?, program: lttng::compile("events.c", "lttng_events")? })
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
        let _ = self.lttng.command(&["destroy", SESSION]);
        if let Some(filter) = &side.rule {
            self.lttng.command(&["create", SESSION, "--snapshot"])?;
            let channel =
                ["enable-channel", "-u", "-s", SESSION, "--subbuf-size", "1M", "--num-subbuf", "4", "c"];
            self.lttng.command(&channel)?;
            let mut rule = vec!["enable-event", "-u", "-s", SESSION, "-c", "c", "bench:ev"];
            if !filter.is_empty() {
                rule.extend(["--filter", filter]);
            }
            self.lttng.command(&rule)?;
            self.lttng.command(&["start", SESSION])?;
        }
        let mut run = Command::new(&self.program);
        let output = process::output_within(run.arg(events.to_string()), RUN_LIMIT);
        if side.rule.is_some() {
            self.lttng.command(&["destroy", SESSION])?;
        }
        let text = String::from_utf8(output?.stdout)?;
        text.trim().parse().with_context(|| format!("it printed {text:?}"))
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
