//! What `weir record status` prints of a session: as text, or as an object.
//!
//! In: what the daemon says of it, and what the processes themselves say of who traces them. Out: lines.

use serde_json::{Value, json};

use crate::counts::Counts;
use crate::description::Description;
use weir_source::printable;

/// A session, as the daemon has it.
#[derive(Debug)]
pub struct Status {
    /// What it is asked for.
    pub description: Description,
    state: String,
    /// The process that records.
    pub recorder: Option<i32>,
    number: Option<u64>,
    recording_ms: Option<u64>,
    counts: Counts,
    note: Option<String>,
}

/// A process that is recorded.
#[derive(Debug)]
pub struct Traced {
    /// Its number.
    pub pid: i32,
    /// What it executes.
    pub name: String,
}

impl Status {
    /// Of the JSON of an answer, or what is wrong with it.
    pub fn of_object(mut object: Value) -> Result<Status, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Status {
            description: Description::of_object(object["description"].take())?,
            state: text(&object["state"]).ok_or("a session without a state")?,
            recorder: object["recorder"].as_i64().and_then(|pid| i32::try_from(pid).ok()),
            number: object["number"].as_u64(),
            recording_ms: object["recording_ms"].as_u64(),
            note: text(&object["note"]),
            counts: Counts::of_object(object["counts"].take())?,
        })
    }

    /// Lines for people.
    pub fn text(&self, traced: &[Traced]) -> String {
        let Description { name, folder, rules, disabled, contexts, .. } = &self.description;
        let shown = folder.display();
        let mut text = match (self.number, self.recording_ms) {
            (Some(number), Some(ms)) => {
                let seconds = ms as f64 / 1000.0;
                format!("{name}: {} for {seconds:.1} s, into {shown}/{number}\n", self.state)
            }
            _ => format!("{name}: {}; {shown}\n", self.state),
        };
        let mut line = |what: &str, of: String| {
            if !of.is_empty() {
                text += &format!("  {what}: {}\n", printable(&of));
            }
        };
        line("note", self.note.clone().unwrap_or_default());
        line("rings", self.rings());
        line("options", self.description.shown_options());
        let waits = self.state == "recording" && self.counts.is_waiting;
        line("waits", if waits { "for an event that starts it".to_owned() } else { String::new() });
        line("of", self.who());
        let processes = traced.iter().map(|process| format!("{} ({})", process.pid, process.name));
        line("processes", processes.collect::<Vec<_>>().join(", "));
        rules.iter().for_each(|rule| line("event", rule.to_string()));
        line("but", disabled.join(", "));
        line("contexts", contexts.iter().map(|context| context.name()).collect::<Vec<_>>().join(", "));
        if self.description.overwrites() {
            line("snapshots", self.counts.snapshots.to_string());
            return text;
        }
        let (recorded, discarded) = (self.counts.recorded(), lost(self.counts.discarded));
        line("recorded", format!("{recorded} events{discarded}; {} bytes of fields", self.counts.bytes));
        for (event, of) in &self.counts.events {
            let cut = if of.cut > 0 { format!(", {} texts or sequences cut", of.cut) } else { String::new() };
            text += &format!("    {}: {}{}{cut}\n", printable(event), of.recorded, lost(of.discarded));
        }
        text
    }

    /// The one channel: what each CPU has, and what becomes of what comes while it is full.
    fn rings(&self) -> String {
        let size = match self.description.size {
            whole if whole.is_multiple_of(1 << 20) => format!("{}M", whole >> 20),
            other => format!("{}K", other >> 10),
        };
        let after =
            self.description.waits().map_or_else(String::new, |time| format!(" after waiting for {time}"));
        format!("{size} for each CPU, {}{after}", self.mode())
    }

    fn mode(&self) -> &'static str {
        if self.description.overwrites() { "overwrite" } else { "discard" }
    }

    /// The processes that were asked for, as the command line has them.
    fn who(&self) -> String {
        let Description { processes, cgroups, units, containers, follow, .. } = &self.description;
        let of = |flag: &str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("{flag} {name}")).collect()
        };
        let mut words = [
            of("-p", processes),
            of("--cgroup", cgroups),
            of("--unit", units),
            of("--container", containers),
        ]
        .concat();
        words.extend(follow.option().map(str::to_owned));
        words.join(" ")
    }

    /// As `status -f json` prints it.
    pub fn object(&self, traced: &[Traced]) -> Value {
        let description = self.description.object();
        let processes: Vec<Value> =
            traced.iter().map(|process| json!({"pid": process.pid, "name": process.name})).collect();
        let events = self.counts.events.iter().map(|(name, of)| {
            json!({"name": name, "recorded": of.recorded, "discarded": of.discarded, "cut": of.cut})
        });
        json!({
            "name": self.description.name,
            "state": self.state,
            "note": self.note,
            "folder": description["folder"],
            "number": self.number,
            "recorder": self.recorder,
            "recording_ms": self.recording_ms,
            "of": {
                "processes": description["processes"],
                "cgroups": description["cgroups"],
                "units": description["units"],
                "containers": description["containers"],
                "follow": description["follow"],
            },
            "processes": processes,
            "rules": description["rules"],
            "disabled": description["disabled"],
            "contexts": description["contexts"],
            "size": description["size"],
            "mode": self.mode(),
            "options": description["options"],
            "waiting": self.state == "recording" && self.counts.is_waiting,
            "snapshots": self.counts.snapshots,
            "recorded": self.counts.recorded(),
            "discarded": self.counts.discarded,
            "bytes": self.counts.bytes,
            "events": events.collect::<Vec<_>>(),
        })
    }
}

fn lost(count: u64) -> String {
    if count > 0 { format!(", {count} discarded") } else { String::new() }
}
