//! What a run has covered, as its last lines: to standard error in text, one object in JSON.
//!
//! ```text
//! weir: 3 places: 2 probed, 1 not: too-short 1
//! weir: uprobe:libc:malloc: 1234 entries
//! weir: uretprobe:libc:malloc: 1234 entries, 1230 returns, 4 missed: not-returned 4
//! ```
//!
//! *not-returned*: calls that were entered and of which no return was seen. They were still running when weir left, or
//! ended in another way: `longjmp`, an exception, the end of the thread; or their return is one of the run's named misses.

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
    pub(crate) missed: BTreeMap<String, u64>,
    pub(crate) probes: Vec<ProbeHits>,
}

/// How often a clause's program ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProbeHits {
    pub(crate) probe: String,
    pub(crate) entries: u64,
    /// None where it does not want them.
    pub(crate) returns: Option<u64>,
}

impl ProbeHits {
    fn not_returned(&self) -> u64 {
        self.returns.map_or(0, |returns| self.entries.saturating_sub(returns))
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
                out += &format!(", {0} missed: not-returned {0}", probe.not_returned());
            }
            out.push('\n');
        }
        if self.missed.values().any(|count| *count > 0) {
            out += &format!("weir: missed: {}\n", list(&self.missed));
        }
        out
    }

    pub(crate) fn json(&self) -> String {
        let probe = |hits: &ProbeHits| {
            let returns = hits.returns.map_or_else(String::new, |returns| {
                format!(r#", "returns": {returns}, "missed": {{"not-returned": {}}}"#, hits.not_returned())
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
            object(&self.missed),
            probes.join(", ")
        )
    }
}

/// Those that there are.
fn list(counts: &BTreeMap<String, u64>) -> String {
    let some = counts.iter().filter(|(_, count)| **count > 0);
    some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn object(counts: &BTreeMap<String, u64>) -> String {
    let entry = |(name, count): (&String, &u64)| format!("{}: {count}", quoted(name.as_bytes()));
    format!("{{{}}}", counts.iter().map(entry).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let counts = |name: &str, count| BTreeMap::from([(name.to_string(), count)]);
        Summary {
            places: 3,
            attached: 2,
            refused: counts("too-short", 1),
            returns_refused: counts("return-unproved", 1),
            missed: counts("tail-depth", 2),
            probes: vec![
                ProbeHits { probe: "uprobe:x:f".into(), entries: 7, returns: None },
                ProbeHits { probe: "uretprobe:x:\"f\"".into(), entries: 7, returns: Some(5) },
            ],
        }
    }

    #[test]
    fn text_names_every_reason() {
        let want = "weir: 3 places: 2 probed, 1 not: too-short 1; returns not seen: return-unproved 1\n\
                    weir: uprobe:x:f: 7 entries\n\
                    weir: uretprobe:x:\"f\": 7 entries, 5 returns, 2 missed: not-returned 2\n\
                    weir: missed: tail-depth 2\n";
        assert_eq!(summary().text(), want);
    }

    #[test]
    fn json_is_read_by_others() {
        let read: serde_json::Value = serde_json::from_str(&summary().json()).unwrap();
        assert_eq!(read["data"]["refused"]["too-short"], 1);
        assert_eq!(read["data"]["probes"][1]["missed"]["not-returned"], 2);
        assert_eq!(read["data"]["probes"][1]["probe"], "uretprobe:x:\"f\"");
        assert!(read["data"]["probes"][0]["returns"].is_null());
    }
}
