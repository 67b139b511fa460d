//! Events as Chrome's trace event format, which ui.perfetto.dev, chrome://tracing and speedscope draw.
//!
//! In: classes of the traces, then events in the order of time. Out: `{"traceEvents": […]}`. An event is an instant on its thread; two
//! whose names differ by how they end (`_begin` and `_end`, `_entry` and `_exit`, `__start` and `__done`, …) are the ends of a slice.
//! Threads are those that contexts name (`vpid`, `vtid`, `procname`); without them processes are traces, and threads are CPUs or streams.
//!
//! Times are microseconds since the first event, so that doubles hold them to the nanosecond; `otherData` says when that was.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use weir_trace::class::{FieldClass, Scope, TraceClass, Value};
use weir_trace::{Event, Loss, Lost, StreamInfo};

use crate::view::json;
use crate::view::values::{skip, text};

/// How names of events say that something begins, and how that it has ended.
const PAIRS: [(&str, &[&str]); 3] =
    [("begin", &["end"]), ("entry", &["exit", "return"]), ("start", &["done", "end", "stop", "finish"])];

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Of the slice of this name.
    Begin(String),
    End(String),
}

/// Writes one document.
#[derive(Debug)]
pub(crate) struct Writer {
    /// By the name of an event; others are instants.
    phases: BTreeMap<String, Phase>,
    /// Where time 0 is, once there was an event.
    first: Option<i64>,
    /// Processes whose name is written.
    named: BTreeSet<i64>,
    count: u64,
}

impl Writer {
    pub(crate) fn new<'t>(traces: impl Iterator<Item = &'t TraceClass>) -> Writer {
        let mut phases = BTreeMap::new();
        for trace in traces {
            phases.append(&mut phases_of(trace));
        }
        Writer { phases, first: None, named: BTreeSet::new(), count: 0 }
    }

    pub(crate) fn begin(out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"traceEvents\": [");
    }

    pub(crate) fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let who = Who::of(event);
        if let Some(name) = who.name.filter(|_| self.named.insert(who.pid)) {
            self.next(out);
            let _ = write!(out, "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, ", who.pid);
            out.extend_from_slice(b"\"args\": {\"name\": ");
            json::string(&name, out);
            out.extend_from_slice(b"}}");
        }
        self.next(out);
        let name = event.class.name.as_deref().unwrap_or("<unknown>");
        let (phase, shown) = match self.phases.get(name) {
            Some(Phase::Begin(slice)) => ("B", slice.as_str()),
            Some(Phase::End(slice)) => ("E", slice.as_str()),
            None => ("i", name),
        };
        let _ = write!(out, "{{\"ph\": \"{phase}\", \"name\": ");
        json::string(shown.as_bytes(), out);
        if phase == "i" {
            out.extend_from_slice(b", \"s\": \"t\"");
        }
        let ns = event.ns.unwrap_or(event.cycles as i64);
        self.moment(ns, out);
        let _ = write!(out, ", \"pid\": {}, \"tid\": {}", who.pid, who.tid);
        if let Some((class, mut values)) = event.scope(Scope::Payload) {
            out.extend_from_slice(b", \"args\": ");
            json::field(class, &mut values, out);
        }
        out.push(b'}');
    }

    /// What was lost is an instant that goes over everything.
    pub(crate) fn lost(&mut self, loss: &Loss, info: &StreamInfo<'_>, out: &mut Vec<u8>) {
        let begin = loss.cycles.zip(info.clock).and_then(|((begin, _), clock)| clock.ns(begin));
        let what = match loss.what {
            Lost::Events => "events",
            Lost::Packets => "packets",
        };
        self.next(out);
        let _ = write!(out, "{{\"ph\": \"i\", \"name\": \"discarded {what}\", \"s\": \"g\"");
        self.moment(begin.or(self.first).unwrap_or(0), out);
        out.extend_from_slice(b", \"pid\": 0, \"tid\": 0, \"args\": {\"count\": ");
        let _ = match loss.count {
            Some(count) => write!(out, "{count}"),
            None => write!(out, "null"),
        };
        out.extend_from_slice(b"}}");
    }

    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n], \"displayTimeUnit\": \"ns\"");
        if let Some(first) = self.first {
            let _ = write!(out, ", \"otherData\": {{\"first_event_ns\": \"{first}\"}}");
        }
        out.extend_from_slice(b"}\n");
    }

    fn next(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.count == 0 { b"\n" } else { b",\n" });
        self.count += 1;
    }

    fn moment(&mut self, ns: i64, out: &mut Vec<u8>) {
        let since = i128::from(ns) - i128::from(*self.first.get_or_insert(ns));
        let sign = if since < 0 { "-" } else { "" };
        let since = since.unsigned_abs();
        let _ = write!(out, ", \"ts\": {sign}{}.{:03}", since / 1000, since % 1000);
    }
}

/// Which events begin and end slices: those whose other end the trace has too.
fn phases_of(trace: &TraceClass) -> BTreeMap<String, Phase> {
    let classes = trace.streams.iter().flat_map(|stream| &stream.events);
    let names: BTreeSet<&str> = classes.filter_map(|class| class.name.as_deref()).collect();
    let mut phases = BTreeMap::new();
    for name in &names {
        for (begin, ends) in PAIRS {
            let Some(stem) = name.strip_suffix(begin).filter(|stem| stem.ends_with('_')) else { continue };
            let slice = stem.trim_end_matches('_');
            for end in
                ends.iter().map(|end| format!("{stem}{end}")).filter(|end| names.contains(end.as_str()))
            {
                phases.insert((*name).to_owned(), Phase::Begin(slice.to_owned()));
                phases.insert(end, Phase::End(slice.to_owned()));
            }
        }
    }
    phases
}

/// Where an event is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Who {
    pid: i64,
    tid: i64,
    name: Option<Vec<u8>>,
}

impl Who {
    fn of(event: &Event<'_>) -> Who {
        let (mut pid, mut tid, mut cpu, mut name) = (None, None, None, None);
        for scope in [Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext] {
            let Some((FieldClass::Struct(of), mut values)) = event.scope(scope) else { continue };
            for member in of.fields.iter().filter(|field| !field.is_hidden) {
                match (member.name.trim_start_matches('_'), &member.class) {
                    ("vpid" | "pid", FieldClass::Int(_)) => pid = Some(values.word() as i64),
                    ("vtid" | "tid", FieldClass::Int(_)) => tid = Some(values.word() as i64),
                    ("cpu_id" | "cpu", FieldClass::Int(_)) => cpu = Some(values.word() as i64),
                    ("procname", class) => name = text(class, &mut values).map(<[u8]>::to_vec),
                    (_, class) => skip(class, &mut values),
                }
            }
        }
        let environment = &event.info.trace.environment;
        let known =
            |wanted: &str| environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        if let (None, Some(Value::Int(value))) = (pid, known("vpid")) {
            pid = i64::try_from(*value).ok();
        }
        if let (None, Some(Value::Str(value))) = (&name, known("procname")) {
            name = Some(value.clone().into_bytes());
        }
        let name = name.or_else(|| pid.is_none().then(|| event.info.trace_name.as_bytes().to_vec()));
        Who { pid: pid.unwrap_or(0), tid: tid.or(cpu).unwrap_or(event.info.id as i64), name }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use weir_trace::class::{Base, EventClass, Field, Value as Known};
    use weir_trace::write::{self, Format, layout};
    use weir_trace::{Message, Reader};

    use super::*;

    const NAMES: [&str; 5] = ["db:query__start", "db:query__done", "db:row", "io:read_entry", "io:weekend"];

    /// A stream with a class of events of each name, and a context that says whose they are.
    fn class() -> TraceClass {
        let clock = weir_trace::class::ClockClass::default();
        let mut trace = layout::trace([7; 16], clock, vec![("hostname".into(), Known::Str("box".into()))]);
        let context = vec![
            layout::string("procname"),
            layout::integer("vpid", 32, true),
            layout::integer("vtid", 32, true),
        ];
        let mut stream = layout::stream(0, context);
        for (id, name) in NAMES.iter().enumerate() {
            let mut number = layout::integer("n", 64, false);
            if let FieldClass::Int(int) = &mut number.class {
                int.base = Base::Hexadecimal;
            }
            let fields = weir_trace::class::Struct { fields: vec![number], align: 1 };
            stream.events.push(EventClass {
                id: id as u64,
                name: Some((*name).to_owned()),
                payload: Some(Field::new("", FieldClass::Struct(fields))),
                ..EventClass::default()
            });
        }
        trace.streams.push(stream);
        trace
    }

    fn drawn(records: &[(u32, u64, &[u8])]) -> Value {
        let folder = testkit::paths::target().join(format!("testkit/chrome-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let made = write::Folder::create(&folder, &class(), Format::Ctf1).unwrap();
        let mut stream = made.stream("s_0", 0, 0, 0, 4096).unwrap();
        for (event, time, bytes) in records {
            stream.record(*event, *time, &[bytes]).unwrap();
        }
        stream.lost(3);
        stream.finish(100_000).unwrap();
        let mut reader = Reader::open(std::slice::from_ref(&folder)).unwrap();
        let mut writer = Writer::new(reader.traces());
        let mut out = Vec::new();
        Writer::begin(&mut out);
        while let Some(message) = reader.next() {
            match message {
                Message::Event(event) => writer.event(&event, &mut out),
                Message::Lost(loss, info) => writer.lost(&loss, &info, &mut out),
                Message::Damage(error) => panic!("{error}"),
            }
        }
        writer.end(&mut out);
        std::fs::remove_dir_all(&folder).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn events_are_drawn_on_their_threads_and_pairs_of_them_as_slices() {
        let own: &[u8] = b"pg\0\x07\0\0\0\x09\0\0\0\x2a\0\0\0\0\0\0\0";
        let drawn = drawn(&[(0, 5000, own), (2, 6001, own), (1, 7000, own), (3, 8000, own), (4, 9000, own)]);
        let events = drawn["traceEvents"].as_array().unwrap();
        let of = |phase: &str| -> Vec<String> {
            let shown = events.iter().filter(|event| event["ph"] == phase && event["s"] != "g");
            shown.map(|event| format!("{} {}", event["name"], event["ts"])).collect()
        };
        assert_eq!(of("B"), ["\"db:query\" 0.0"]);
        assert_eq!(of("E"), ["\"db:query\" 2.0"]);
        // Without its other end, or with an end that is no word of its own, an event is an instant.
        assert_eq!(of("i"), ["\"db:row\" 1.001", "\"io:read_entry\" 3.0", "\"io:weekend\" 4.0"]);
        let threads = events.iter().filter(|event| event.get("tid").is_some() && event["s"] != "g");
        assert!(threads.into_iter().all(|event| (&event["pid"], &event["tid"]) == (&7.into(), &9.into())));
        let named: Vec<&Value> = events.iter().filter(|event| event["ph"] == "M").collect();
        assert_eq!(named.len(), 1);
        assert_eq!((&named[0]["pid"], &named[0]["args"]["name"]), (&7.into(), &"pg".into()));
        assert_eq!(events.iter().find(|event| event["name"] == "db:row").unwrap()["args"]["n"], 42);
        assert_eq!(events.iter().find(|event| event["s"] == "g").unwrap()["name"], "discarded events");
        assert_eq!(drawn["otherData"]["first_event_ns"], "5000");
    }
}
