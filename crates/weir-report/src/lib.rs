//! Report: what a script printed and counted, as text or NDJSON; and the fields of a recorded event as texts ([`fields`]).
//!
//! In: the [`Schema`] of a compiled script, the bytes of its records and of its maps. Out: the lines that
//! bpftrace 0.23 prints for the same script, or its NDJSON. Guaranteed: bytes that do not fit their schema are
//! counted ([`Report::malformed`]) and never panic; the same input gives the same output (entries with equal
//! values are ordered by key, where bpftrace leaves them in hash order). Deliberately not done: reading rings
//! and maps (whoever calls holds them), and anything with a live process, so that a saved stream replays.
//!
//! Where this differs from bpftrace 0.23 on purpose: `%%` prints one `%` everywhere (0.23 prints two after the
//! last argument); NDJSON has no empty lines before the final maps; bytes that are no UTF-8 become U+FFFD in
//! NDJSON; keys are escaped once, not twice; `min` and `max` are ordered by what they print; control characters of strings are
//! escaped in text, since they come from the traced process and go to a terminal.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod escape;
mod isa;
mod names;
mod object;
mod record;
mod value;
mod words;

mod contents;
pub mod double;
pub mod fields;
mod histogram;
mod printf;
mod series;

mod json;
mod process;
mod summary;
mod text;

mod limits;

use std::io::{self, Write};

use weir_event::{MapSchema, MapValue, Schema};

pub use crate::contents::{Entry, is_set};
pub use crate::json::quoted;
use crate::names::Names;
pub use crate::names::{NoSymbols, Seen, Symbol, Symbols};
pub use crate::process::{ProcessCounts, ProcessLine, ProcessOutcome};
pub use crate::record::{Decoded, Records};
pub use crate::summary::{Loads, ProbeHits, ProbeRails, Rails, Summary};
use crate::text::Texts;
use crate::value::Value;

/// How a report is written: `-f text` or `-f json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people: bpftrace's lines.
    Text,
    /// For programs: an object a line.
    Json,
}

/// A stream of output in one format.
#[derive(Debug)]
pub struct Report<W> {
    out: W,
    format: Format,
    words: Words,
    malformed: u64,
}

/// Whose words a report has, where bpftrace's have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Words {
    /// Up to 0.23: `Attaching 2 probes...`, first of all that is printed.
    #[default]
    Attaching,
    /// From 0.24 on: `Attached 2 probes`, beside the output.
    Attached,
    /// From 0.27 on: the same, and `stats` as a structure.
    Structures,
}

impl<W: Write> Report<W> {
    /// To a writer that is flushed by [`Report::flush`] alone.
    pub fn new(out: W, format: Format) -> Report<W> {
        Report { out, format, words: Words::default(), malformed: 0 }
    }

    /// In these words.
    pub fn with_words(self, words: Words) -> Report<W> {
        Report { words, ..self }
    }

    /// How many sites are being attached; the first line unless `-q` is given. The answer is a line for standard error, if it belongs there.
    pub fn attached_probes(&mut self, probes: u64) -> io::Result<Option<String>> {
        let plural = if probes == 1 { "" } else { "s" };
        match (self.format, self.words) {
            (Format::Json, _) => json::attached_probes(&mut self.out, probes).map(|()| None),
            (Format::Text, Words::Attaching) => {
                writeln!(self.out, "Attaching {probes} probe{plural}...").map(|()| None)
            }
            (Format::Text, Words::Attached | Words::Structures) => {
                Ok(Some(format!("Attached {probes} probe{plural}")))
            }
        }
    }

    /// Records that found the ring full.
    pub fn lost_events(&mut self, events: u64) -> io::Result<()> {
        match self.format {
            Format::Text => text::lost_events(&mut self.out, events),
            Format::Json => json::lost_events(&mut self.out, events),
        }
    }

    /// The text of a `printf`, as [`Records`] has it.
    pub fn printf(&mut self, text: &[u8]) -> io::Result<()> {
        match self.format {
            Format::Text => text::printf(&mut self.out, text),
            Format::Json => json::printf(&mut self.out, text),
        }
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What `errorf` and `warnf` (`kind`) report, where that goes with the rest: true in JSON alone.
    pub fn error(&mut self, kind: &str, place: &str, text: &[u8]) -> io::Result<bool> {
        match self.format {
            Format::Text => Ok(false),
            Format::Json => json::error(&mut self.out, kind, place, text).map(|()| true),
        }
    }

    /// What a command of `system` has written.
    pub fn system(&mut self, output: &[u8]) -> io::Result<()> {
        match self.format {
            Format::Text => self.out.write_all(output),
            Format::Json if output.is_empty() => Ok(()),
            Format::Json => json::system(&mut self.out, output),
        }
    }

    /// What `cat` prints: a file's content.
    pub fn cat(&mut self, content: &[u8]) -> io::Result<()> {
        match self.format {
            Format::Text => self.out.write_all(content),
            Format::Json => json::cat(&mut self.out, content),
        }
    }

    /// What `time(format)` prints.
    pub fn time(&mut self, text: &str) -> io::Result<()> {
        match self.format {
            Format::Text => text::printf(&mut self.out, text.as_bytes()),
            Format::Json => json::time(&mut self.out, text),
        }
    }

    /// What `join(strings)` prints.
    pub fn join(&mut self, text: &[u8]) -> io::Result<()> {
        match self.format {
            Format::Text => {
                self.out.write_all(&Texts::Escaped.of(text))?;
                self.out.write_all(b"\n")
            }
            Format::Json => json::join(&mut self.out, text),
        }
    }

    /// What `print(expression)` prints.
    pub fn value(&mut self, value: &Value) -> io::Result<()> {
        match self.format {
            Format::Text => text::value(&mut self.out, value),
            Format::Json => json::value(&mut self.out, value),
        }
    }

    /// What `print(@map, top, div)` prints; 0 where not given. `map` is an index into `schema.maps`.
    /// A scalar map has one entry, with an empty key.
    pub fn map(
        &mut self,
        schema: &Schema,
        map: usize,
        entries: &[Entry],
        top: u64,
        div: u64,
        symbols: &dyn Symbols,
    ) -> io::Result<()> {
        let Some(map) = schema.maps.get(map) else {
            self.malformed += 1;
            return Ok(());
        };
        let contents = contents::contents(map, entries, names(schema, symbols), top, div);
        self.malformed += contents.malformed;
        match self.format {
            Format::Text => text::map(&mut self.out, map, &contents, self.words),
            Format::Json => json::map(&mut self.out, map, &contents),
        }
    }

    /// What `print(@map[key])` prints: the value alone, 0 or "" where the key is absent.
    pub fn map_key(
        &mut self,
        schema: &Schema,
        map: usize,
        key: &[u8],
        value: Option<Vec<u8>>,
        symbols: &dyn Symbols,
    ) -> io::Result<()> {
        let Some(found) = schema.maps.get(map) else {
            self.malformed += 1;
            return Ok(());
        };
        let bytes = value.unwrap_or_else(|| vec![0; 8 * found.value.words(found.key.is_none()) as usize]);
        let entry = Entry::of(key.to_vec(), bytes);
        if shows_buckets_or_stats(found) {
            return self.map(schema, map, &[entry], 0, 0, symbols);
        }
        match contents::single(found, &entry, names(schema, symbols)) {
            Ok(value) => self.value(&value),
            Err(_) => {
                self.malformed += 1;
                Ok(())
            }
        }
    }

    /// The last part of a run: the break before the final maps, then every map in name order. `read` gives the
    /// entries of the map with that index in `schema.maps`.
    pub fn print_all(
        &mut self,
        schema: &Schema,
        read: &mut dyn FnMut(usize, &MapSchema) -> Vec<Entry>,
        symbols: &dyn Symbols,
    ) -> io::Result<()> {
        if self.format == Format::Text {
            text::end(&mut self.out)?;
        }
        let shown = if schema.hides_maps { 0 } else { schema.maps.len() };
        let mut order: Vec<usize> = (0..shown).collect();
        order.sort_by(|a, b| schema.maps[*a].name.as_bytes().cmp(schema.maps[*b].name.as_bytes()));
        for map in order {
            let entries = read(map, &schema.maps[map]);
            self.map(schema, map, &entries, 0, 0, symbols)?;
        }
        self.flush()
    }

    /// What became of a process; in text that goes to standard error.
    pub fn process(&mut self, line: &ProcessLine) -> io::Result<()> {
        match self.format {
            Format::Text => Ok(()),
            Format::Json => writeln!(self.out, "{}", line.json()),
        }
    }

    /// What the run has covered: the last line, in JSON alone. (In text it goes to standard error, with `-v`.)
    pub fn summary(&mut self, summary: &Summary) -> io::Result<()> {
        match self.format {
            Format::Text => Ok(()),
            Format::Json => writeln!(self.out, "{}", summary.json()).and_then(|()| self.flush()),
        }
    }

    /// Counts a record that `record` refused.
    pub fn count_malformed(&mut self) {
        self.malformed += 1;
    }

    /// Records and entries whose bytes did not fit the schema, and were left out.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Hands on what was written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What a map's entries are decoded with.
fn names<'a>(schema: &'a Schema, symbols: &'a dyn Symbols) -> Names<'a> {
    Names { sites: &schema.sites, types: &schema.types, symbols, seen: Seen::Sometime }
}

/// Values that have no single number: bpftrace refuses `print(@map[key])` for them.
fn shows_buckets_or_stats(map: &MapSchema) -> bool {
    matches!(
        map.value,
        MapValue::Hist { .. } | MapValue::Lhist { .. } | MapValue::Stats { .. } | MapValue::Tseries { .. }
    )
}

#[cfg(test)]
mod tests {
    use weir_event::{SiteName, Type};

    use super::*;

    const STR16: Type = Type::Str { bytes: 16 };

    fn map(name: &str, key: Option<Type>, value: MapValue) -> MapSchema {
        MapSchema { name: name.to_string(), map_index: 0, key, value, room: None }
    }

    fn words(words: &[i64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn string(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(16, 0);
        bytes
    }

    fn entry(key: Vec<u8>, value: Vec<u8>) -> Entry {
        Entry::of(key, value)
    }

    /// `hist` of these values, as the runtime counts them.
    fn hist(values: &[i64]) -> Vec<u8> {
        let mut buckets = [0i64; 66];
        for value in values {
            let bucket = match value {
                ..0 => 0,
                0 => 1,
                _ => 2 + value.ilog2() as usize,
            };
            buckets[bucket] += 1;
        }
        words(&buckets)
    }

    fn lhist(values: &[i64], min: i64, max: i64, step: i64) -> Vec<u8> {
        let mut buckets = vec![0i64; weir_event::lhist_buckets(min, max, step) as usize];
        let last = buckets.len() - 1;
        for value in values {
            let bucket = match value {
                v if *v < min => 0,
                v if *v >= max => last,
                v => 1 + ((v - min) / step) as usize,
            };
            buckets[bucket] += 1;
        }
        words(&buckets)
    }

    /// The script of `expected/maps.bt` with what its maps hold at exit.
    fn maps_at_exit() -> (Schema, Vec<Vec<Entry>>) {
        let key = |number: i64, text: &str| [words(&[number]), string(text)].concat();
        let pair = || Some(Type::Tuple(vec![Type::I64, STR16]));
        let triple = Type::Tuple(vec![Type::I64, STR16, Type::Tuple(vec![Type::I64, Type::I64])]);
        let signed = true;
        let table = vec![
            (map("@x", None, MapValue::Plain(Type::I64)), vec![entry(vec![], words(&[5, 1]))]),
            (
                map("@s", None, MapValue::Plain(STR16)),
                vec![entry(vec![], [string("hello"), words(&[1])].concat())],
            ),
            (
                map("@k", pair(), MapValue::Plain(Type::I64)),
                vec![
                    entry(key(1, "foo"), words(&[4])),
                    entry(key(-3, "zed"), words(&[2])),
                    entry(key(2, "bar"), words(&[1])),
                ],
            ),
            (map("@h", None, MapValue::Hist { bits: 0 }), vec![entry(vec![], hist(&[5, 0, -4, 1, 2048, 3]))]),
            (
                map("@c", Some(Type::I64), MapValue::Count),
                vec![entry(words(&[2]), words(&[2])), entry(words(&[1]), words(&[1]))],
            ),
            (
                map("@st", Some(Type::I64), MapValue::Stats { signed }),
                vec![entry(words(&[5]), words(&[30, 2]))],
            ),
            (map("@st2", None, MapValue::Stats { signed }), vec![entry(vec![], words(&[-15, 2]))]),
            (map("@a", None, MapValue::Avg { signed }), vec![entry(vec![], words(&[31, 2]))]),
            (map("@mi", None, MapValue::Min { signed }), vec![entry(vec![], words(&[!(-4 ^ i64::MIN), 2]))]),
            (map("@ma", None, MapValue::Max { signed }), vec![entry(vec![], words(&[2 ^ i64::MIN, 1]))]),
            (map("@su", None, MapValue::Sum { signed }), vec![entry(vec![], words(&[-9, 1]))]),
            (
                map("@l", None, MapValue::Lhist { min: 0, max: 100, step: 10 }),
                vec![entry(vec![], lhist(&[5, -1, 100, 33], 0, 100, 10))],
            ),
            (
                map("@hk", Some(STR16), MapValue::Hist { bits: 0 }),
                vec![entry(string("b"), hist(&[7, 7])), entry(string("a"), hist(&[4]))],
            ),
            (
                map(
                    "@lk",
                    Some(Type::Tuple(vec![Type::I64, Type::I64])),
                    MapValue::Lhist { min: 0, max: 4096, step: 1024 },
                ),
                vec![entry(words(&[1, 2]), lhist(&[2048], 0, 4096, 1024))],
            ),
            (
                map("@neg", Some(Type::I64), MapValue::Plain(Type::I64)),
                vec![entry(words(&[1]), words(&[-5])), entry(words(&[2]), words(&[3]))],
            ),
            (map("@e", Some(Type::I64), MapValue::Count), vec![]),
            (
                map("@str", Some(Type::I64), MapValue::Plain(STR16)),
                vec![entry(words(&[2]), string("b")), entry(words(&[1]), string("a\"q\\"))],
            ),
            (
                map("@t", None, MapValue::Plain(triple)),
                vec![entry(vec![], [words(&[1]), string("abc"), words(&[2, 3, 1])].concat())],
            ),
        ];
        let (maps, contents) = table.into_iter().unzip();
        (Schema { maps, ..Schema::default() }, contents)
    }

    fn final_maps(format: Format) -> String {
        let (schema, contents) = maps_at_exit();
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, format);
        report.attached_probes(1).unwrap();
        report.print_all(&schema, &mut |map, _| contents[map].clone(), &NoSymbols).unwrap();
        assert_eq!(report.malformed(), 0);
        String::from_utf8(out).unwrap()
    }

    /// `expected/maps.txt` is what bpftrace 0.17 prints for `expected/maps.bt`, but for the blank that 0.17 puts
    /// after the colon of a histogram's name and 0.23 does not.
    #[test]
    fn final_maps_print_as_bpftrace_text() {
        assert_eq!(final_maps(Format::Text), include_str!("expected/maps.txt"));
    }

    /// As above; 0.17 also prints two empty lines before the maps.
    #[test]
    fn final_maps_print_as_bpftrace_json() {
        let json = final_maps(Format::Json);
        assert_eq!(json, include_str!("expected/maps.json"));
        for line in json.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }

    fn printed(format: Format, print: impl FnOnce(&mut Report<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        print(&mut Report::new(&mut out, format));
        String::from_utf8(out).unwrap()
    }

    fn check_map(name: &str, top: u64, div: u64, text: &str, json: &str) {
        let (schema, contents) = maps_at_exit();
        let map = schema.maps.iter().position(|map| map.name == name).unwrap();
        let print = |format| {
            printed(format, |report| report.map(&schema, map, &contents[map], top, div, &NoSymbols).unwrap())
        };
        assert_eq!(print(Format::Text), text, "{name} as text");
        assert_eq!(print(Format::Json), json, "{name} as JSON");
    }

    #[test]
    fn print_keeps_the_top_entries_and_divides() {
        check_map("@c", 1, 0, "@c[2]: 2\n", "{\"type\": \"map\", \"data\": {\"@c\": {\"2\": 2}}}\n");
        check_map(
            "@c",
            9,
            2,
            "@c[1]: 0\n@c[2]: 1\n",
            "{\"type\": \"map\", \"data\": {\"@c\": {\"1\": 0, \"2\": 1}}}\n",
        );
        check_map(
            "@neg",
            0,
            2,
            "@neg[1]: -2\n@neg[2]: 1\n",
            "{\"type\": \"map\", \"data\": {\"@neg\": {\"1\": -2, \"2\": 1}}}\n",
        );
        check_map("@a", 1, 5, "@a: 3\n\n", "{\"type\": \"stats\", \"data\": {\"@a\": 3}}\n");
        check_map(
            "@st",
            0,
            5,
            "@st[5]: count 2, average 3, total 30\n\n",
            "{\"type\": \"stats\", \"data\": {\"@st\": {\"5\": {\"count\": 2, \"average\": 3, \"total\": 30}}}}\n",
        );
    }

    #[test]
    fn an_empty_map_is_an_empty_line_in_text_and_nothing_in_json() {
        check_map("@e", 0, 0, "\n", "");
        let (mut schema, _) = maps_at_exit();
        schema.maps = vec![
            map("@a", None, MapValue::Avg { signed: true }),
            map("@n", None, MapValue::Count),
            map("@x", None, MapValue::Plain(Type::I64)),
        ];
        let unset =
            |_: usize, map: &MapSchema| vec![entry(vec![], vec![0; 8 * map.value.words(true) as usize])];
        let print =
            |format| printed(format, |report| report.print_all(&schema, &mut { unset }, &NoSymbols).unwrap());
        // A scalar count is 0 from the start, as in 0.23 (an array of one element); the others are unset.
        assert_eq!(print(Format::Text), "\n\n\n\n@n: 0\n\n");
        assert_eq!(print(Format::Json), "{\"type\": \"map\", \"data\": {\"@n\": 0}}\n");
    }

    #[test]
    fn one_key_prints_its_value_alone() {
        let (schema, contents) = maps_at_exit();
        let print = |name: &str, at: usize, value: bool| {
            let map = schema.maps.iter().position(|map| map.name == name).unwrap();
            let entry = contents[map][at].clone();
            let value = value.then_some(entry.value);
            printed(Format::Text, |report| {
                report.map_key(&schema, map, &entry.key, value, &NoSymbols).unwrap()
            })
        };
        assert_eq!(print("@k", 0, true), "4\n");
        assert_eq!(print("@k", 0, false), "0\n");
        assert_eq!(print("@str", 1, true), "a\"q\\\n");
        assert_eq!(print("@st", 0, true), "@st[5]: count 2, average 15, total 30\n\n");
    }

    #[test]
    fn single_lines_have_bpftrace_shapes() {
        let check = |text: &str, json: &str, print: &dyn Fn(&mut Report<&mut Vec<u8>>)| {
            assert_eq!(printed(Format::Text, print), text);
            assert_eq!(printed(Format::Json, print), json);
        };
        check(
            "Attaching 1 probe...\n",
            "{\"type\": \"attached_probes\", \"data\": {\"probes\": 1}}\n",
            &|r| {
                r.attached_probes(1).unwrap();
            },
        );
        check(
            "Attaching 0 probes...\n",
            "{\"type\": \"attached_probes\", \"data\": {\"probes\": 0}}\n",
            &|r| {
                r.attached_probes(0).unwrap();
            },
        );
        check("Lost 7 events\n", "{\"type\": \"lost_events\", \"data\": {\"events\": 7}}\n", &|r| {
            r.lost_events(7).unwrap();
        });
        check("5%|x\\x01\n", "{\"type\": \"printf\", \"data\": \"5%|x\\u0001\\n\"}\n", &|r| {
            let texts = if r.format() == Format::Text { Texts::Escaped } else { Texts::Raw };
            let args = [Value::int(5), Value::str("x\u{1}")];
            r.printf(&printf::format("%d%%|%s\n", &args, texts)).unwrap();
        });
        check("-5\n", "{\"type\": \"value\", \"data\": -5}\n", &|r| r.value(&Value::int(-5)).unwrap());
        check("x\"y\n", "{\"type\": \"value\", \"data\": \"x\\\"y\"}\n", &|r| {
            r.value(&Value::str("x\"y")).unwrap()
        });
        check("(1, x)\n", "{\"type\": \"value\", \"data\": [1,\"x\"]}\n", &|r| {
            r.value(&Value::Tuple(vec![Value::int(1), Value::str("x")])).unwrap();
        });
    }

    #[test]
    fn sites_print_by_name_and_unknown_ones_are_counted() {
        let sites = vec![SiteName { probe: "uprobe:/bin/x:f".to_string(), func: "f".to_string() }];
        let maps = vec![map("@", Some(Type::Tuple(vec![Type::Probe, Type::Func])), MapValue::Count)];
        let schema = Schema { maps, sites, ..Schema::default() };
        let entries = [entry(words(&[0, 0]), words(&[3])), entry(words(&[9, 0]), words(&[4]))];
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, Format::Text);
        report.map(&schema, 0, &entries, 0, 0, &NoSymbols).unwrap();
        assert_eq!(report.malformed(), 1);
        assert_eq!(String::from_utf8(out).unwrap(), "@[uprobe:/bin/x:f, f]: 3\n");
    }

    /// The shapes of bpftrace: keys by 4 blanks, values by 8, arguments of printf by none.
    #[test]
    fn stacks_are_indented_by_where_they_stand() {
        let stack = |frames: &[&str], is_indented| {
            let frames = frames.iter().map(|frame| frame.as_bytes().to_vec()).collect();
            Value::Stack { frames, is_indented }
        };
        let plain = stack(&["f+1", "main+2"], true);
        let print = |format, value: &Value| printed(format, |report| report.value(value).unwrap());
        assert_eq!(print(Format::Text, &plain), "\n        f+1\n        main+2\n\n");
        let json = "{\"type\": \"value\", \"data\": \"\\n        f+1\\n        main+2\\n\"}\n";
        assert_eq!(print(Format::Json, &plain), json);
        assert_eq!(print(Format::Text, &stack(&["\t10 f+1 (a)"], false)), "\n\t10 f+1 (a)\n\n");
        let line = printf::format("[%s]%5s.", &[plain, stack(&[], true)], Texts::Escaped);
        assert_eq!(line, b"[\nf+1\nmain+2\n]    \n.");
    }

    #[test]
    fn entries_of_any_size_never_panic() {
        let (schema, _) = maps_at_exit();
        for map in 0..schema.maps.len() + 1 {
            for size in 0..48 {
                let bytes = vec![0xff; size];
                for format in [Format::Text, Format::Json] {
                    let mut out = Vec::new();
                    let mut report = Report::new(&mut out, format);
                    report
                        .map(&schema, map, &[entry(bytes.clone(), bytes.clone())], 1, 3, &NoSymbols)
                        .unwrap();
                    report.map_key(&schema, map, &bytes, Some(bytes.clone()), &NoSymbols).unwrap();
                }
            }
        }
    }
}
