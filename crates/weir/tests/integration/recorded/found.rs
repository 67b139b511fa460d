//! What readers find in a trace: of each emitter the numbers of its events, each of which has the fields that it should have.
//!
//! Of weir-trace's reader also the context of each event. No number comes twice, and none behind a later one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use testkit::skip;
use weir_trace::class::{FieldClass, Scope};
use weir_trace::{Event, Lost, Message, Reader, Values};

use crate::recorded::emitters::{Fields, Ledger, fields, weir};

/// What is in a trace.
#[derive(Default)]
pub(crate) struct Found {
    /// By emitter, the numbers of its events in the order of the trace.
    pub(crate) numbers: BTreeMap<u64, Vec<u64>>,
    pub(crate) by_name: BTreeMap<String, u64>,
    pub(crate) discarded: u64,
    /// What is damaged, in the reader's words.
    pub(crate) damage: Vec<String>,
    /// Process and thread of each emitter, where events have them.
    threads: BTreeMap<u64, (u32, u32)>,
}

impl Found {
    /// All that weir-trace's reader gives.
    pub(crate) fn read(folder: &Path) -> Found {
        let mut reader = Reader::open(&[folder.to_owned()]).unwrap_or_else(|error| panic!("{error}"));
        let mut found = Found::default();
        let mut last = i64::MIN;
        while let Some(message) = reader.next() {
            match message {
                Message::Event(event) => {
                    let ns = event.ns.expect("a time");
                    assert!(ns >= last, "the times fall");
                    last = ns;
                    found.event(&event);
                }
                Message::Lost(loss, _) => {
                    assert_eq!(loss.what, Lost::Events, "no packet is lost");
                    found.discarded += loss.count.expect("a count");
                }
                Message::Damage(error) => found.damage.push(error.to_string()),
            }
        }
        found
    }

    fn event(&mut self, event: &Event<'_>) {
        let (class, mut values) = event.scope(Scope::Payload).expect("fields");
        let (emitter, n) = (values.word(), values.word());
        let name = event.class.name.as_deref().expect("a name");
        let expected = fields(emitter, n);
        assert_eq!(name, expected.name(), "event {n} of emitter {emitter}");
        assert!(is_as_expected(class, &mut values, &expected), "event {n} of emitter {emitter}: {event:?}");
        if let Some((_, mut context)) = event.scope(Scope::CommonContext) {
            let thread = (context.word() as u32, context.word() as u32);
            assert_eq!(*self.threads.entry(emitter).or_insert(thread), thread, "emitter {emitter}");
        }
        *self.by_name.entry(name.to_owned()).or_default() += 1;
        self.add(emitter, n);
    }

    fn add(&mut self, emitter: u64, n: u64) {
        let numbers = self.numbers.entry(emitter).or_default();
        assert!(
            numbers.last().is_none_or(|last| *last < n),
            "emitter {emitter}: {n} is there twice, or late"
        );
        numbers.push(n);
    }

    /// What a reader prints as text, each line compared with what the event should be; none of what it says beside.
    pub(crate) fn parse(output: &Output) -> Found {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::str::from_utf8(&output.stdout).expect("the fields are ASCII");
        let mut found = Found::default();
        for line in text.lines() {
            let number = |name: &str| -> u64 {
                let rest = line.split_once(name).expect(line).1;
                rest.split([',', ' ']).next().expect(line).parse().expect(line)
            };
            let (emitter, n) = (number("{ emitter = "), number(" n = "));
            let expected = fields(emitter, n);
            let end = format!("{{ emitter = {emitter}, n = {n}, {} }}", expected.text());
            assert!(line.contains(&format!(" {}: {{ ", expected.name())) && line.ends_with(&end), "{line}");
            *found.by_name.entry(expected.name().to_owned()).or_default() += 1;
            found.add(emitter, n);
        }
        found
    }

    pub(crate) fn recorded(&self) -> u64 {
        self.by_name.values().sum()
    }

    /// Everything is there that was emitted, and nothing else.
    #[track_caller]
    pub(crate) fn is_all_of(&self, ledger: &Ledger) {
        for (number, emitter) in ledger.emitters.iter().enumerate() {
            let found = self.numbers.get(&(number as u64)).map_or(&[][..], |numbers| &numbers[..]);
            let holes: Vec<u64> = (0..emitter.done).filter(|n| found.binary_search(n).is_err()).collect();
            assert_eq!(holes, Vec::<u64>::new(), "emitter {number}: {emitter:?}");
            assert!(found.last().is_none_or(|last| *last < emitter.done), "emitter {number}: {emitter:?}");
        }
        assert_eq!((self.discarded, self.recorded()), (0, ledger.done()));
    }

    /// Each event is of the process and the thread that its emitter is of; handlers run in their thread.
    #[track_caller]
    pub(crate) fn has_threads_of(&self, ledger: &Ledger) {
        assert_eq!(self.threads.len(), self.numbers.len());
        for (emitter, thread) in &self.threads {
            let said = ledger.emitters[*emitter as usize];
            assert_eq!(*thread, (said.pid, said.tid), "emitter {emitter}");
        }
    }
}

fn is_as_expected(class: &FieldClass, values: &mut Values<'_>, expected: &Fields) -> bool {
    match expected {
        Fields::Small { mark, half } => values.word() == *mark && values.word() as i16 == *half,
        Fields::Text { word, numbers } => {
            let is_word = values.text() == word.as_bytes() && values.word() == numbers.len() as u64;
            let all = elements(class, "numbers", values);
            is_word && all.iter().copied().eq(numbers.iter().map(|number| u64::from(*number)))
        }
        Fields::Blob { bytes, ratio } => {
            let all = elements(class, "bytes", values);
            all.iter().copied().eq(bytes.iter().map(|byte| u64::from(*byte))) && values.double() == *ratio
        }
    }
}

/// The elements of the field of this name, which comes next.
fn elements(class: &FieldClass, name: &str, values: &mut Values<'_>) -> Vec<u64> {
    let FieldClass::Struct(of) = class else { panic!("events have fields") };
    let field = of.fields.iter().find(|field| field.name == name).expect(name);
    let element = match &field.class {
        FieldClass::Array(of) => &of.element,
        FieldClass::Sequence(of) => &of.element,
        other => panic!("{name} is {other:?}"),
    };
    let packed = values.packed(element).expect("numbers lie in whole bytes");
    (0..packed.count).map(|index| packed.get(index)).collect()
}

/// The same trace as babeltrace2 prints it, which is what `weir view` prints, byte for byte; none where that is not installed.
pub(crate) fn by_babeltrace2(folder: &Path) -> Option<Found> {
    let theirs = match Command::new("babeltrace2").arg("--clock-gmt").arg(folder).output() {
        Ok(theirs) => theirs,
        Err(_) => {
            skip::skip("recorded-babeltrace2", "no babeltrace2; traces are read by weir-trace alone");
            return None;
        }
    };
    let ours = weir(["view", "--clock-gmt"]).arg(folder).output().unwrap();
    let is_same = ours.stdout == theirs.stdout;
    if !is_same {
        let lines = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        let differs = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        panic!(
            "{}: {} and {} lines, {differs:?}",
            folder.display(),
            ours.lines().count(),
            theirs.lines().count()
        );
    }
    let mut found = Found::parse(&theirs);
    // It tells, with the times between which that was: Tracer discarded N events between …
    let said = String::from_utf8_lossy(&theirs.stderr).into_owned();
    let counts = said
        .lines()
        .filter_map(|line| line.split_once("Tracer discarded ")?.1.split(' ').next()?.parse::<u64>().ok());
    found.discarded = counts.sum();
    Some(found)
}
