//! What became of each process of a run, and of all of them.
//!
//! ```text
//! weir: process 17 (sh): child of 3; 2 probes, after 12 ms unprobed
//! weir: process 18 (sshd): name s*; not traced: permission: no permission to trace process 18 (…)
//! weir: processes: 4 traced, 1 not (permission 1), 2 gone before they could be probed, 3 with nothing to probe
//! ```
//!
//! In JSON a line `{"type": "process", "data": {"pid", "comm", "how", "unprobed_ms", "probes"}}`, or with `"refused"` and
//! `"message"` in place of the last two; the counts stand in the summary. `unprobed_ms` is null for processes that ran before
//! weir did, and for a command that weir started, which runs nothing unprobed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::json::quoted;

/// A process that is traced, or that was to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessLine {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// How it came to be traced.
    pub how: String,
    /// What became of it.
    pub outcome: ProcessOutcome,
}

/// What becomes of a process that a run means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcessOutcome {
    /// With so many probes; `unprobed`: for how long it ran without them.
    Traced {
        /// Places that are probed.
        probes: u64,
        /// How long it ran before; none: it did not, or it ran before weir did.
        unprobed: Option<Duration>,
    },
    /// By a stable code, and in words.
    Refused {
        /// A stable word for the reason.
        code: String,
        /// The reason.
        message: String,
    },
}

/// How many processes there were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessCounts {
    /// Attached to; again for each program that one executes.
    pub traced: u64,
    /// By reason.
    pub refused: BTreeMap<String, u64>,
    /// Ended between being seen and being probed.
    pub gone: u64,
    /// There may be more: children of processes that ran unprobed for a while, and lived for less time than passes between two looks.
    pub is_gone_least: bool,
    /// Mapped nothing that the script probes.
    pub idle: u64,
    /// How often a traced process was seen to have executed another program, and for how long such were not probed, in sum.
    pub execs: u64,
    /// How long they ran without probes after that, in sum.
    pub away: Duration,
    /// Attached to later than the run began, and longest after they had begun themselves.
    pub late: u64,
    /// Longest that one of them ran before it was probed.
    pub late_most: Duration,
    /// How many of the `execs` were stopped before they ran, and so miss nothing.
    pub execs_held: u64,
    /// How many processes executed or loaded a probed file, and ran unprobed because weir did not stop them in time.
    pub not_held: u64,
}

impl ProcessLine {
    /// A line for people.
    pub fn text(&self) -> String {
        let ProcessLine { pid, comm, how, outcome } = self;
        let outcome = match outcome {
            ProcessOutcome::Traced { probes, unprobed } => {
                let plural = if *probes == 1 { "probe" } else { "probes" };
                let after = unprobed.filter(|time| !time.is_zero());
                let after =
                    after.map_or_else(String::new, |time| format!(", after {:.0} ms unprobed", ms(time)));
                format!("{probes} {plural}{after}")
            }
            ProcessOutcome::Refused { code, message } => format!("not traced: {code}: {message}"),
        };
        format!("weir: process {pid} ({comm}): {how}; {outcome}")
    }

    /// A line of NDJSON.
    pub fn json(&self) -> String {
        let outcome = match &self.outcome {
            ProcessOutcome::Traced { probes, unprobed } => {
                let unprobed = unprobed.map_or_else(|| "null".to_owned(), |time| format!("{:.3}", ms(time)));
                format!(r#""unprobed_ms": {unprobed}, "probes": {probes}"#)
            }
            ProcessOutcome::Refused { code, message } => {
                format!(
                    r#""refused": {}, "message": {}"#,
                    quoted(code.as_bytes()),
                    quoted(message.as_bytes())
                )
            }
        };
        let (comm, how) = (quoted(self.comm.as_bytes()), quoted(self.how.as_bytes()));
        format!(
            r#"{{"type": "process", "data": {{"pid": {}, "comm": {comm}, "how": {how}, {outcome}}}}}"#,
            self.pid
        )
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl ProcessCounts {
    /// A line, where it says more than that the one target was traced.
    pub fn text(&self) -> Option<String> {
        let refused: u64 = self.refused.values().sum();
        if self.traced <= 1 && refused + self.gone + self.idle == 0 {
            return None;
        }
        let mut line = format!("weir: processes: {} traced", self.traced);
        if refused > 0 {
            let reasons: Vec<String> =
                self.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
            line += &format!(", {refused} not ({})", reasons.join(", "));
        }
        if self.gone > 0 {
            let least = if self.is_gone_least { "at least " } else { "" };
            line += &format!(", {least}{} gone before they could be probed", self.gone);
        }
        if self.idle > 0 {
            line += &format!(", {} with nothing to probe", self.idle);
        }
        Some(line + "\n")
    }

    /// What is told in any case: what the user may not expect.
    pub fn told(&self) -> String {
        let refused: u64 = self.refused.values().sum();
        let not = match refused {
            0 => String::new(),
            _ => self.text().unwrap_or_default(),
        };
        not + &self.execs_text() + &self.late_text()
    }

    /// More of them may have come and gone between two looks: nothing tells of those.
    pub fn execs_text(&self) -> String {
        let not_held = match self.not_held {
            0 => String::new(),
            not_held => format!(
                "weir: {} came to a probed file, or a forked child to a probe, before weir could stop it; its calls before it was probed are not counted\n",
                if not_held == 1 { "a process".to_owned() } else { format!("{not_held} times a process") }
            ),
        };
        let unheld = match self.execs.saturating_sub(self.execs_held) {
            0 => String::new(),
            execs => format!(
                "weir: traced processes were seen to execute another program {} (perhaps more often), and ran \
                 {:.0} ms of that unprobed; what they called meanwhile is not counted\n",
                if execs == 1 { "once".to_owned() } else { format!("{execs} times") },
                ms(self.away)
            ),
        };
        unheld + &not_held
    }

    /// What those may have done unseen that came later; what executed another program is told by [`ProcessCounts::execs_text`].
    pub fn late_text(&self) -> String {
        let plural =
            |count: u64| if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
        let late = match self.late {
            0 => None,
            late => Some(format!(
                "{} that came later ran up to {:.0} ms before probes were in them",
                plural(late),
                ms(self.late_most)
            )),
        };
        let least = if self.is_gone_least { "at least " } else { "" };
        let gone =
            (self.gone > 0).then(|| format!("{least}{} ended before probes were in them", plural(self.gone)));
        match late.into_iter().chain(gone).collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none,
            some => format!("weir: {some}; what happened there meanwhile is not counted\n"),
        }
    }

    /// The object in the summary.
    pub fn json(&self) -> String {
        let refused: Vec<String> = self
            .refused
            .iter()
            .map(|(code, count)| format!("{}: {count}", quoted(code.as_bytes())))
            .collect();
        let ProcessCounts { traced, gone, is_gone_least, idle, execs, execs_held, not_held, late, .. } = self;
        format!(
            r#"{{"traced": {traced}, "refused": {{{}}}, "gone": {gone}, "gone_is_least": {is_gone_least}, "idle": {idle}, "late": {late}, "late_ms": {:.3}, "execs": {execs}, "execs_held": {execs_held}, "execs_unprobed_ms": {:.3}, "not_held": {not_held}}}"#,
            refused.join(", "),
            ms(self.late_most),
            ms(self.away)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(outcome: ProcessOutcome, text: &str, data: Value) {
        let line = ProcessLine { pid: 17, comm: "a\"b".into(), how: "child of 3".into(), outcome };
        assert_eq!(line.text(), format!("weir: process 17 (a\"b): child of 3; {text}"));
        let read: Value = serde_json::from_str(&line.json()).unwrap();
        assert_eq!((&read["type"], &read["data"]), (&json!("process"), &data));
    }

    #[test]
    fn each_process_is_a_line() {
        let traced = |probes, ms| ProcessOutcome::Traced { probes, unprobed: ms };
        check(
            traced(1, None),
            "1 probe",
            json!({"pid": 17, "comm": "a\"b", "how": "child of 3", "unprobed_ms": null, "probes": 1}),
        );
        check(
            traced(2, Some(Duration::from_micros(12_345))),
            "2 probes, after 12 ms unprobed",
            json!({"pid": 17, "comm": "a\"b", "how": "child of 3", "unprobed_ms": 12.345, "probes": 2}),
        );
        check(
            ProcessOutcome::Refused { code: "permission".into(), message: "no \"way\"".into() },
            "not traced: permission: no \"way\"",
            json!({"pid": 17, "comm": "a\"b", "how": "child of 3", "refused": "permission", "message": "no \"way\""}),
        );
    }

    #[test]
    fn counts_are_told_where_there_is_more_than_one() {
        let none = ProcessCounts::default();
        assert_eq!(ProcessCounts { traced: 1, ..none.clone() }.text(), None);
        assert_eq!(ProcessCounts { traced: 2, ..none }.text().unwrap(), "weir: processes: 2 traced\n");
        let refused = BTreeMap::from([("permission".to_owned(), 2), ("seccomp".to_owned(), 1)]);
        let away = Duration::from_micros(2500);
        let all = ProcessCounts {
            traced: 0,
            refused,
            gone: 4,
            idle: 5,
            execs: 6,
            away,
            ..ProcessCounts::default()
        };
        assert_eq!(
            all.text().unwrap(),
            "weir: processes: 0 traced, 3 not (permission 2, seccomp 1), 4 gone before they could be probed, \
             5 with nothing to probe\n"
        );
        let read: Value = serde_json::from_str(&all.json()).unwrap();
        let want = json!({"traced": 0, "refused": {"permission": 2, "seccomp": 1}, "gone": 4, "gone_is_least": false, "idle": 5, "late": 0, "late_ms": 0.0, "execs": 6, "execs_held": 0, "execs_unprobed_ms": 2.5, "not_held": 0});
        assert_eq!(read, want);
        let told = all.told();
        assert!(
            told.starts_with(&all.text().unwrap()) && told.contains(" 6 times (perhaps more often)"),
            "{told}"
        );
        assert_eq!(ProcessCounts { traced: 2, ..ProcessCounts::default() }.told(), "");
        assert_eq!(ProcessCounts { execs: 7, execs_held: 7, ..ProcessCounts::default() }.told(), "");
        let busy =
            ProcessCounts { execs: 7, execs_held: 6, not_held: 1, away, ..ProcessCounts::default() }.told();
        assert!(busy.contains("another program once") && busy.contains("weir: a process came"), "{busy}");
    }

    #[test]
    fn what_came_late_is_told() {
        let check = |late, gone, text: &str| {
            let late_most = Duration::from_micros(31_400);
            let counts = ProcessCounts { traced: 9, late, late_most, gone, ..ProcessCounts::default() };
            assert_eq!(counts.late_text(), text);
        };
        check(0, 0, "");
        let end = "what happened there meanwhile is not counted\n";
        let (late, gone) = ("that came later ran up to 31 ms before", "ended before probes were in them");
        check(1, 0, &format!("weir: 1 process {late} probes were in them; {end}"));
        check(3, 1, &format!("weir: 3 processes {late} probes were in them, 1 process {gone}; {end}"));
        check(0, 2, &format!("weir: 2 processes {gone}; {end}"));
    }
}
