//! What is in traces, without showing it: events, rates and sizes by name, and what was lost.
//!
//! In: everything that a reader gives. Out: a table, the most frequent event first, with a line for each trace that has lost something; or
//! an object for each of these lines. Rates are over the time from the first event of all to the last. Bytes are those of the records,
//! without what packets add.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use weir_report::quoted;
use weir_trace::{Event, Loss, Lost, StreamInfo};

use crate::print::{printable, tell};

/// How often it is told how far it has come.
const PROGRESS: Duration = Duration::from_secs(1);

/// Events are counted between two looks at the time.
const LOOK: u64 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Stats {
    /// By trace and class, which stay where they are.
    rows: HashMap<*const weir_trace::class::EventClass, Row>,
    lost: BTreeMap<String, Losses>,
    events: u64,
    span: Option<(i64, i64)>,
    told: Option<Instant>,
}

#[derive(Clone, Default, Debug)]
struct Row {
    name: String,
    events: u64,
    bits: u64,
}

#[derive(Default, Debug)]
struct Losses {
    events: u64,
    packets: u64,
    /// Times that something was lost that nobody counted.
    uncounted: u64,
}

impl Stats {
    pub(crate) fn new() -> Stats {
        let told = std::io::stderr().is_terminal().then(Instant::now);
        Stats { rows: HashMap::new(), lost: BTreeMap::new(), events: 0, span: None, told }
    }

    pub(crate) fn event(&mut self, event: &Event<'_>) {
        let row = self.rows.entry(event.class).or_insert_with(|| Row {
            name: event.class.name.clone().unwrap_or_else(|| "<unknown>".to_owned()),
            ..Row::default()
        });
        row.events += 1;
        row.bits += event.bits;
        self.events += 1;
        if let Some(ns) = event.ns {
            let (first, last) = self.span.unwrap_or((ns, ns));
            self.span = Some((first.min(ns), last.max(ns)));
        }
        if self.events.is_multiple_of(LOOK) && self.told.is_some_and(|told| told.elapsed() >= PROGRESS) {
            self.told = Some(Instant::now());
            tell!("weir: {} events so far", self.events);
        }
    }

    pub(crate) fn lost(&mut self, loss: &Loss, info: &StreamInfo<'_>) {
        let lost = self.lost.entry(info.trace_name.to_owned()).or_default();
        match (loss.what, loss.count) {
            (Lost::Events, Some(count)) => lost.events = lost.events.saturating_add(count),
            (Lost::Packets, Some(count)) => lost.packets = lost.packets.saturating_add(count),
            (_, None) => lost.uncounted += 1,
        }
    }

    /// Rows of the same name are one: most traces of a session have the same events.
    fn by_name(&self) -> Vec<Row> {
        let mut by_name: BTreeMap<&str, Row> = BTreeMap::new();
        for row in self.rows.values() {
            let sum =
                by_name.entry(&row.name).or_insert_with(|| Row { name: row.name.clone(), ..Row::default() });
            sum.events += row.events;
            sum.bits += row.bits;
        }
        let mut rows: Vec<Row> = by_name.into_values().collect();
        rows.sort_by(|one, other| other.events.cmp(&one.events).then_with(|| one.name.cmp(&other.name)));
        rows
    }

    fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.abs_diff(first) as f64 / 1e9)
    }

    /// Events a second, where the trace lasts at all.
    fn rate(&self, events: u64) -> Option<f64> {
        let seconds = self.seconds();
        (seconds > 0.0).then(|| events as f64 / seconds)
    }

    pub(crate) fn table(&self) -> String {
        let rows = self.by_name();
        let total =
            Row { name: "all".into(), events: self.events, bits: rows.iter().map(|row| row.bits).sum() };
        let mut table = format!("{:>12} {:>12} {:>14} {:>8}  EVENT\n", "EVENTS", "EVENTS/S", "BYTES", "MEAN");
        for row in rows.iter().chain([&total]) {
            let rate = self.rate(row.events).map_or("-".to_owned(), |rate| format!("{rate:.1}"));
            let mean = match row.events {
                0 => "-".to_owned(),
                events => format!("{:.1}", row.bits as f64 / 8.0 / events as f64),
            };
            let (events, bytes, name) = (row.events, row.bits.div_ceil(8), printable(&row.name));
            let _ = writeln!(table, "{events:>12} {rate:>12} {bytes:>14} {mean:>8}  {name}");
        }
        let _ = writeln!(table, "in {:.9} s", self.seconds());
        for (trace, lost) in &self.lost {
            let mut parts = Vec::new();
            for (count, what) in [(lost.events, "event"), (lost.packets, "packet")] {
                match count {
                    0 => {}
                    1 => parts.push(format!("1 {what}")),
                    count => parts.push(format!("{count} {what}s")),
                }
            }
            if lost.uncounted > 0 {
                parts.push(format!("events that were not counted, {} times", lost.uncounted));
            }
            let _ = writeln!(table, "lost: {} of {}", parts.join(" and "), printable(trace));
        }
        table
    }

    pub(crate) fn objects(&self) -> String {
        let mut text = String::new();
        for row in self.by_name() {
            let name = quoted(row.name.as_bytes());
            let rate = self.rate(row.events).map_or("null".to_owned(), |rate| format!("{rate:.1}"));
            let (events, bytes) = (row.events, row.bits.div_ceil(8));
            let _ = writeln!(
                text,
                "{{\"event\": {name}, \"events\": {events}, \"events_per_second\": {rate}, \"bytes\": {bytes}}}"
            );
        }
        for (trace, lost) in &self.lost {
            let Losses { events, packets, uncounted } = lost;
            let _ = writeln!(
                text,
                "{{\"trace\": {}, \"lost_events\": {events}, \"lost_packets\": {packets}, \"uncounted_losses\": {uncounted}}}",
                quoted(trace.as_bytes())
            );
        }
        text
    }
}
