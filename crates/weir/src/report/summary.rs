//! What a run has covered, as its last lines: to standard error in text, one object in JSON.
//!
//! ```text
//! weir: 3 places: 2 probed, 1 not: too-short 1
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

use crate::report::json::quoted;

/// Numbers of one run, reasons by their codes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) places: u64,
    pub(crate) attached: u64,
    pub(crate) refused: BTreeMap<String, u64>,
    /// Of places that were attached.
    pub(crate) returns_refused: BTreeMap<String, u64>,
    /// Of all probes together.
    pub(crate) tail_depth: u64,
    pub(crate) no_record: u64,
    pub(crate) no_lane: u64,
    pub(crate) probes: Vec<ProbeHits>,
}

/// How often a clause's program ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProbeHits {
    pub(crate) probe: String,
    pub(crate) entries: u64,
    /// None where it does not want them.
    pub(crate) returns: Option<u64>,
    /// Calls that seemed to be running when weir left.
    pub(crate) pending: u64,
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
    pub(crate) fn text(&self) -> String {
        let plural = if self.places == 1 { "place" } else { "places" };
        let mut out = format!("weir: {} {plural}: {} probed", self.places, self.attached);
        if !self.refused.is_empty() {
            out += &format!(", {} not: {}", self.places - self.attached, list(&self.refused));
        }
        if !self.returns_refused.is_empty() {
            out += &format!("; returns not seen: {}", list(&self.returns_refused));
        }
        out.push('\n');
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
        out
    }

    /// A line where returns were missed that others would have seen.
    pub(crate) fn lost(&self) -> String {
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

    pub(crate) fn json(&self) -> String {
        let probe = |hits: &ProbeHits| {
            let returns = hits.returns.map_or_else(String::new, |returns| {
                format!(r#", "returns": {returns}, "missed": {}"#, named_object(&self.missed_of(hits)))
            });
            format!(r#"{{"probe": {}, "entries": {}{returns}}}"#, quoted(hits.probe.as_bytes()), hits.entries)
        };
        let probes: Vec<String> = self.probes.iter().map(probe).collect();
        format!(
            r#"{{"type": "summary", "data": {{"places": {}, "attached": {}, "refused": {}, "returns_refused": {}, "missed": {}, "probes": [{}]}}}}"#,
            self.places,
            self.attached,
            object(&self.refused),
            object(&self.returns_refused),
            named_object(&self.missed()),
            probes.join(", ")
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
