//! What a run has covered, as its last lines: to standard error in text, one object in JSON.
//!
//! ```text
//! weir: 3 places: 2 probed, 1 not: too-short 1
//! weir: libraries: loaded 3 times, unloaded 2 times; 1 announcement unanswered, for 1.2 ms at most
//! weir: uprobe:libc:malloc: 1234 entries
//! weir: uretprobe:libc:malloc: 1234 entries, 1230 returns, 4 missed: pending 1, unwound 3
//! weir: missed: pending 1, unwound 3
//! ```
//!
//! Every call that was entered is a return or a miss with a name:
//!
//! | | |
//! |---|---|
//! | *pending* | it was still running when weir left |
//! | *tail-depth* | it was reached by more tail calls in a row than are followed |
//! | *no-record* | its return address was to be replaced, and no record was free |
//! | *unwound* | the rest: it ended in another way (`longjmp`, an exception, the end of its thread or process) |
//!
//! The second and third are counted for all probes together; of a single probe what is neither a return nor pending is
//! then *not-returned*, unless no other probe has any. *no-lane*: runs at entries or returns that were left out, as all lanes
//! were in use.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::json::quoted;
use crate::process::ProcessCounts;

/// Numbers of one run, reasons by their codes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Places that the script names.
    pub places: u64,
    /// Of those, how many were probed.
    pub attached: u64,
    /// Their libraries were never loaded.
    pub awaited: u64,
    /// Libraries that came and went.
    pub loads: Loads,
    /// Places that were not probed, by the reason's code.
    pub refused: BTreeMap<String, u64>,
    /// Of places that were attached.
    pub returns_refused: BTreeMap<String, u64>,
    /// Of all probes together.
    pub tail_depth: u64,
    /// Returns that were missed since too many calls waited for theirs, of all probes together.
    pub no_record: u64,
    /// Hits that were missed since no lane of per-CPU values was free.
    pub no_lane: u64,
    /// How often each probe ran.
    pub probes: Vec<ProbeHits>,
    /// Of the run.
    pub processes: ProcessCounts,
    /// Where there was a budget.
    pub rails: Option<Rails>,
}

/// How a budget was kept.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rails {
    /// As it was given.
    pub budget: String,
    /// Of the CPU time, at the end.
    pub share: f64,
    /// Those that were slowed or taken out.
    pub probes: Vec<ProbeRails>,
}

/// What was done to one clause, and what it has not seen therefore.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProbeRails {
    /// As the script names it.
    pub probe: String,
    /// At the end: `1 of 64`, `shut`, `withdrawn`, `armed` again.
    pub state: String,
    /// Since the run began.
    pub since_s: f64,
    /// Counted.
    pub missed: u64,
    /// By the rate that was seen last.
    pub missed_about: u64,
}

impl ProbeRails {
    fn text(&self) -> String {
        let missed = match (self.missed, self.missed_about) {
            (missed, 0) => format!("{missed} hits missed"),
            (0, about) => format!("about {about} hits missed"),
            (missed, about) => format!("{missed} hits missed while sampled, and about {about} more"),
        };
        format!("{}: {}, slowed since {:.1} s; {missed}", self.probe, self.state, self.since_s)
    }

    fn json(&self) -> String {
        format!(
            r#"{{"probe": {}, "state": {}, "since_s": {:.3}, "missed": {}, "missed_about": {}}}"#,
            quoted(self.probe.as_bytes()),
            quoted(self.state.as_bytes()),
            self.since_s,
            self.missed,
            self.missed_about
        )
    }
}

impl Rails {
    fn json(&self) -> String {
        let probes: Vec<String> = self.probes.iter().map(ProbeRails::json).collect();
        let (budget, share) = (quoted(self.budget.as_bytes()), self.share);
        format!(r#"{{"budget": {budget}, "share": {share:.6}, "slowed": [{}]}}"#, probes.join(", "))
    }
}

/// What came and went of the libraries that have places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loads {
    /// Libraries with probes that came.
    pub loaded: u64,
    /// Those that went.
    pub unloaded: u64,
    /// Changes of the linker's list that the target did not wait for weir at, or not long enough; and for how long what came
    /// then was not probed, in sum and at most.
    pub unanswered: u64,
    /// For how long what came then was not probed: in sum, and at most.
    pub unprobed: Duration,
}

/// How often a clause's program ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeHits {
    /// As the script names it.
    pub probe: String,
    /// Runs at entries.
    pub entries: u64,
    /// None where it does not want them.
    pub returns: Option<u64>,
    /// Calls that seemed to be running when weir left.
    pub pending: u64,
}

/// Numbers by name, in the order in which they are told.
type Named = Vec<(&'static str, u64)>;

impl ProbeHits {
    fn not_returned(&self) -> u64 {
        self.returns.map_or(0, |returns| self.entries.saturating_sub(returns))
    }

    /// A word that a call has left on the stack may look like one that waits: not more than there can be.
    fn pending(&self) -> u64 {
        self.pending.min(self.not_returned())
    }

    fn rest(&self) -> u64 {
        self.not_returned() - self.pending()
    }
}

impl Summary {
    /// Lines for people.
    pub fn text(&self) -> String {
        let plural = if self.places == 1 { "place" } else { "places" };
        let mut out = format!("weir: {} {plural}: {} probed", self.places, self.attached);
        if !self.refused.is_empty() {
            let refused = self.places - self.attached - self.awaited;
            out += &format!(", {refused} not: {}", list(&self.refused));
        }
        if self.awaited > 0 {
            out += &format!(", {} never loaded", self.awaited);
        }
        if !self.returns_refused.is_empty() {
            out += &format!("; returns not seen: {}", list(&self.returns_refused));
        }
        out.push('\n');
        out += &self.loads.text();
        for probe in &self.probes {
            out += &format!("weir: {}: {} entries", probe.probe, probe.entries);
            if let Some(returns) = probe.returns {
                out += &format!(", {returns} returns");
            }
            if probe.not_returned() > 0 {
                out += &format!(", {} missed: {}", probe.not_returned(), listed(&self.missed_of(probe)));
            }
            out.push('\n');
        }
        let missed = self.missed();
        if missed.iter().any(|(_, count)| *count > 0) {
            out += &format!("weir: missed: {}\n", listed(&missed));
        }
        out += &self.processes.text().unwrap_or_default();
        out += &self.processes.execs_text();
        out += &self.processes.late_text();
        out + &self.slowed()
    }

    /// A line for each clause that was slowed or taken out to keep to a budget.
    pub fn slowed(&self) -> String {
        let Some(rails) = &self.rails else { return String::new() };
        let line = |probe: &ProbeRails| format!("weir: budget {}: {}\n", rails.budget, probe.text());
        rails.probes.iter().map(line).collect()
    }

    /// Lines where places never came, or not in time.
    pub fn unloaded(&self) -> String {
        let late = if self.loads.unanswered > 0 { self.loads.text() } else { String::new() };
        late + &match self.awaited {
            0 => String::new(),
            // What was loaded then and gone again before weir looked is not known.
            count if self.loads.unanswered > 0 => format!(
                "weir: {count} places were never probed: their libraries were not seen (not loaded, or gone before weir looked)\n"
            ),
            1 => "weir: 1 place was never probed: its library was not loaded\n".into(),
            count => format!("weir: {count} places were never probed: their libraries were not loaded\n"),
        }
    }

    /// A line where returns were missed that others would have seen.
    pub fn lost(&self) -> String {
        match self.lost_returns() {
            0 => String::new(),
            lost => {
                let by_name = [("tail-depth", self.tail_depth), ("no-record", self.no_record)];
                format!("weir: {lost} returns were missed: {}\n", listed(&by_name))
            }
        }
    }

    /// The target may have written anything to its counters: sums of them stop at the largest number.
    fn lost_returns(&self) -> u64 {
        self.tail_depth.saturating_add(self.no_record)
    }

    /// Of all probes together.
    fn missed(&self) -> Named {
        let sum = |of: fn(&ProbeHits) -> u64| self.probes.iter().map(of).fold(0, u64::saturating_add);
        let mut missed = vec![("pending", sum(ProbeHits::pending))];
        missed.extend(self.named(sum(ProbeHits::rest)));
        missed.push(("no-lane", self.no_lane));
        missed
    }

    fn missed_of(&self, probe: &ProbeHits) -> Named {
        let mut missed = vec![("pending", probe.pending())];
        let is_alone = self.probes.iter().filter(|probe| probe.rest() > 0).count() <= 1;
        let is_known = probe.rest() == 0 || is_alone || self.lost_returns() == 0;
        match is_known {
            true if probe.rest() == 0 => missed.push(("unwound", 0)),
            true => missed.extend(self.named(probe.rest())),
            false => missed.push(("not-returned", probe.rest())),
        }
        missed
    }

    /// The names of `rest`, which is all that neither returned nor runs.
    fn named(&self, rest: u64) -> Named {
        vec![
            ("tail-depth", self.tail_depth),
            ("no-record", self.no_record),
            ("unwound", rest.saturating_sub(self.lost_returns())),
        ]
    }

    /// A line of NDJSON.
    pub fn json(&self) -> String {
        let probe = |hits: &ProbeHits| {
            let returns = hits.returns.map_or_else(String::new, |returns| {
                format!(r#", "returns": {returns}, "missed": {}"#, named_object(&self.missed_of(hits)))
            });
            format!(r#"{{"probe": {}, "entries": {}{returns}}}"#, quoted(hits.probe.as_bytes()), hits.entries)
        };
        let probes: Vec<String> = self.probes.iter().map(probe).collect();
        let rails =
            self.rails.as_ref().map_or_else(String::new, |rails| format!(r#", "rails": {}"#, rails.json()));
        format!(
            r#"{{"type": "summary", "data": {{"places": {}, "attached": {}, "never_loaded": {}, "loads": {}, "refused": {}, "returns_refused": {}, "missed": {}, "processes": {}, "probes": [{}]{rails}}}}}"#,
            self.places,
            self.attached,
            self.awaited,
            self.loads.json(),
            object(&self.refused),
            object(&self.returns_refused),
            named_object(&self.missed()),
            self.processes.json(),
            probes.join(", ")
        )
    }
}

impl Loads {
    /// With those of another process.
    pub fn add(&mut self, other: &Loads) {
        self.loaded += other.loaded;
        self.unloaded += other.unloaded;
        self.unanswered += other.unanswered;
        self.unprobed += other.unprobed;
    }

    fn text(&self) -> String {
        if *self == Loads::default() {
            return String::new();
        }
        let unanswered = match self.unanswered {
            0 => String::new(),
            count => {
                let plural = if count == 1 { "announcement" } else { "announcements" };
                let ms = self.unprobed.as_secs_f64() * 1e3;
                format!(
                    "; {count} {plural} of loading or unloading unanswered (the process did not wait), for {ms:.1} ms at most: \
                     what came and went then is in neither count"
                )
            }
        };
        format!(
            "weir: libraries: seen to be loaded {} times, unloaded {} times{unanswered}\n",
            self.loaded, self.unloaded
        )
    }

    fn json(&self) -> String {
        let Loads { loaded, unloaded, unanswered, unprobed } = self;
        let unprobed_ns = unprobed.as_nanos();
        format!(
            r#"{{"loaded": {loaded}, "unloaded": {unloaded}, "unanswered": {unanswered}, "unprobed_ns": {unprobed_ns}}}"#
        )
    }
}

/// Those that there are.
fn list(counts: &BTreeMap<String, u64>) -> String {
    let some = counts.iter().filter(|(_, count)| **count > 0);
    some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn listed(counts: &[(&str, u64)]) -> String {
    let some = counts.iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn named_object(counts: &[(&str, u64)]) -> String {
    let entry = |(name, count): &(&str, u64)| format!("{}: {count}", quoted(name.as_bytes()));
    format!("{{{}}}", counts.iter().map(entry).collect::<Vec<_>>().join(", "))
}

fn object(counts: &BTreeMap<String, u64>) -> String {
    let entry = |(name, count): (&String, &u64)| format!("{}: {count}", quoted(name.as_bytes()));
    format!("{{{}}}", counts.iter().map(entry).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With so many calls that did not return of two probes, and so many lost ones.
    fn summary(missed: [u64; 2], tail_depth: u64) -> Summary {
        let counts = |name: &str, count| BTreeMap::from([(name.to_string(), count)]);
        let returning = |probe: &str, missed: u64, pending: u64| ProbeHits {
            probe: probe.into(),
            entries: 7,
            returns: Some(7 - missed),
            pending,
        };
        Summary {
            places: 3,
            attached: 2,
            awaited: 0,
            loads: Loads::default(),
            refused: counts("too-short", 1),
            returns_refused: counts("return-unproved", 1),
            tail_depth,
            no_record: 0,
            no_lane: 0,
            probes: vec![
                ProbeHits { probe: "uprobe:x:f".into(), entries: 7, returns: None, pending: 0 },
                returning("uretprobe:x:\"f\"", missed[0], 1),
                returning("uretprobe:x:g", missed[1], 0),
            ],
            processes: ProcessCounts::default(),
            rails: None,
        }
    }

    /// What is told of both probes, and of all together.
    #[track_caller]
    fn check(missed: [u64; 2], tail_depth: u64, told: [&str; 3]) {
        let text = summary(missed, tail_depth).text();
        let (first, second) = (7 - missed[0], 7 - missed[1]);
        let mut want = String::from(
            "weir: 3 places: 2 probed, 1 not: too-short 1; returns not seen: return-unproved 1\n\
             weir: uprobe:x:f: 7 entries\n",
        );
        want += &format!("weir: uretprobe:x:\"f\": 7 entries, {first} returns{}\n", told[0]);
        want += &format!("weir: uretprobe:x:g: 7 entries, {second} returns{}\n{}", told[1], told[2]);
        assert_eq!(text, want);
    }

    #[test]
    fn every_miss_has_a_name() {
        let all = "weir: missed: pending 1, unwound 3\n";
        check([3, 1], 0, [", 3 missed: pending 1, unwound 2", ", 1 missed: unwound 1", all]);
        // What waits is no more than what did not return.
        check([0, 0], 0, ["", "", ""]);
        check([1, 0], 0, [", 1 missed: pending 1", "", "weir: missed: pending 1\n"]);
        let all = "weir: missed: pending 1, tail-depth 2, unwound 1\n";
        check([4, 0], 2, [", 4 missed: pending 1, tail-depth 2, unwound 1", "", all]);
        check([2, 2], 2, [", 2 missed: pending 1, not-returned 1", ", 2 missed: not-returned 2", all]);
    }

    #[test]
    fn losses_are_one_line() {
        assert_eq!(summary([3, 1], 0).lost(), "");
        assert_eq!(summary([3, 1], 2).lost(), "weir: 2 returns were missed: tail-depth 2\n");
    }

    #[test]
    fn what_came_went_and_never_came_is_told() {
        let loads = Loads { loaded: 2, unloaded: 1, unanswered: 3, unprobed: Duration::from_micros(1500) };
        let summary = Summary { places: 5, awaited: 2, loads, ..summary([0, 0], 0) };
        let text = summary.text();
        assert!(text.starts_with("weir: 5 places: 2 probed, 1 not: too-short 1, 2 never loaded"), "{text}");
        let line = "\nweir: libraries: seen to be loaded 2 times, unloaded 1 times; 3 announcements of loading or unloading unanswered \
                    (the process did not wait), for 1.5 ms at most: what came and went then is in neither count\n";
        assert!(text.contains(line), "{text}");
        let never = "weir: 2 places were never probed: their libraries were not seen (not loaded, or gone before weir looked)\n";
        assert_eq!(summary.unloaded(), line[1..].to_owned() + never);
        let read: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!(
            (&read["data"]["never_loaded"], &read["data"]["loads"]["unprobed_ns"]),
            (&2.into(), &1_500_000.into())
        );
    }

    #[test]
    fn what_was_slowed_is_told_with_what_was_missed() {
        let probe = |state: &str, missed, missed_about| ProbeRails {
            probe: "uprobe:x:f".into(),
            state: state.into(),
            since_s: 0.12,
            missed,
            missed_about,
        };
        let probes = vec![probe("1 of 64", 12, 0), probe("withdrawn", 0, 7), probe("shut", 3, 7)];
        let rails = Some(Rails { budget: "1%".into(), share: 0.0072, probes });
        let summary = Summary { rails, ..summary([0, 0], 0) };
        let want = "weir: budget 1%: uprobe:x:f: 1 of 64, slowed since 0.1 s; 12 hits missed\n\
                    weir: budget 1%: uprobe:x:f: withdrawn, slowed since 0.1 s; about 7 hits missed\n\
                    weir: budget 1%: uprobe:x:f: shut, slowed since 0.1 s; 3 hits missed while sampled, and about 7 more\n";
        assert_eq!(summary.slowed(), want);
        let read: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!(read["data"]["rails"]["budget"], "1%");
        assert_eq!(read["data"]["rails"]["slowed"][2]["missed_about"], 7);
    }

    #[test]
    fn json_is_read_by_others() {
        let read: serde_json::Value = serde_json::from_str(&summary([3, 1], 0).json()).unwrap();
        assert_eq!(read["data"]["refused"]["too-short"], 1);
        assert_eq!(read["data"]["missed"]["pending"], 1);
        assert_eq!(read["data"]["missed"]["unwound"], 3);
        assert_eq!(read["data"]["probes"][1]["missed"]["unwound"], 2);
        assert_eq!(read["data"]["probes"][1]["probe"], "uretprobe:x:\"f\"");
        assert!(read["data"]["probes"][0]["returns"].is_null());
    }
}
