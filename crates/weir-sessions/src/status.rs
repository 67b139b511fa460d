//! What `weir record status` prints of a session: as text, or as an object.
//!
//! In: what the daemon says of it, and what the processes themselves say of who traces them. Out: lines.

use serde_json::{Value, json};

use weir_process::Whose;

use crate::channel::Channel;
use crate::counts::Counts;
use crate::description::Description;
use weir_source::printable;

/// A session, as the daemon has it.
#[derive(Debug)]
pub struct Status {
    /// What it is asked for.
    pub description: Description,
    state: String,
    /// The processes that record.
    pub recorders: Vec<i32>,
    /// Of channels and programs, as the daemon has them.
    parts: Vec<Value>,
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
            recorders: numbers(&object["recorders"]),
            parts: object["parts"].as_array().cloned().unwrap_or_default(),
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
        let default = (self.description.size, self.description.overwrites());
        line("rings", self.rings(default, self.description.waits()));
        for channel in &self.description.channels {
            let Channel { name, size, options, contexts, is_disabled } = channel;
            let overwrites = options.contains_key("overwrite");
            let mut shown = format!(
                "{name}, {}",
                self.rings((*size, overwrites), options.get("blocking").map(String::as_str))
            );
            let contexts: Vec<&str> = contexts.iter().map(|context| context.name()).collect();
            if !contexts.is_empty() {
                shown += &format!(", with {}", contexts.join(", "));
            }
            line("channel", shown + if *is_disabled { ", disabled" } else { "" });
        }
        line("rotates", self.description.shown_schedule());
        line("options", self.description.shown_options());
        let waits = self.state == "recording" && self.counts.is_waiting;
        line("waits", if waits { "for an event that starts it".to_owned() } else { String::new() });
        line("of", self.who());
        for (attribute, values) in self.description.tracked.sets() {
            let values: Vec<&str> = values.collect();
            let values = if values.is_empty() { "none".to_owned() } else { values.join(", ") };
            line("tracked", format!("{attribute} {values}"));
        }
        for part in &self.parts {
            let text = |name: &str| part[name].as_str();
            let channel = text("channel").map_or_else(String::new, |channel| format!("{channel}, "));
            let program = text("program").map_or_else(String::new, |program| format!("{program}, "));
            let note = text("note").map_or_else(String::new, |note| format!("; {note}"));
            let (state, folder) = (text("state").unwrap_or_default(), text("folder").unwrap_or_default());
            line(
                "part",
                format!("{channel}{program}{state}, {} events, in {folder}{note}", part["recorded"]),
            );
        }
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

    /// Of a channel: what each CPU has, and what becomes of what comes while it is full.
    fn rings(&self, (size, overwrites): (u64, bool), waits: Option<&str>) -> String {
        let size = match size {
            whole if whole.is_multiple_of(1 << 20) => format!("{}M", whole >> 20),
            other => format!("{}K", other >> 10),
        };
        let after = waits.map_or_else(String::new, |time| format!(" after waiting for {time}"));
        format!("{size} for each CPU, {}{after}", mode(overwrites))
    }

    /// The processes that were asked for, as the command line has them.
    fn who(&self) -> String {
        let Description { processes, cgroups, units, containers, programs, follow, .. } = &self.description;
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
        words.extend(programs.map(|whose| match whose {
            Whose::Own => "--user".to_owned(),
            other => format!("--user={other}"),
        }));
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
            "recorder": self.recorders.first(),
            "recorders": self.recorders,
            "parts": self.parts,
            "recording_ms": self.recording_ms,
            "of": {
                "processes": description["processes"],
                "cgroups": description["cgroups"],
                "units": description["units"],
                "containers": description["containers"],
                "programs": description["programs"],
                "tracked": description["tracked"],
                "follow": description["follow"],
            },
            "processes": processes,
            "rules": description["rules"],
            "disabled": description["disabled"],
            "contexts": description["contexts"],
            "size": description["size"],
            "mode": mode(self.description.overwrites()),
            "channels": description["channels"],
            "rotate_every_ms": description["rotate_every_ms"],
            "rotate_bytes": description["rotate_bytes"],
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

fn mode(overwrites: bool) -> &'static str {
    if overwrites { "overwrite" } else { "discard" }
}

fn numbers(value: &Value) -> Vec<i32> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(|pid| i32::try_from(pid.as_i64()?).ok()).collect()
}

fn lost(count: u64) -> String {
    if count > 0 { format!(", {count} discarded") } else { String::new() }
}
