//! How fast traces are written and read, for `cargo xtask bench view`.
//!
//! `write FOLDER EVENTS` makes a trace of events with an `int` and a `long`, from four streams in turn, a microsecond between two events.
//! `read FOLDER` reads it with [`Reader`], both numbers of each event. Each prints the events and the seconds that they took.

use std::path::PathBuf;
use std::time::Instant;

use weir_event::schema::{Field, Form, Schema, Type};
use weir_trace::class::{ClockClass, Scope};
use weir_trace::write::{Folder, Format, layout};
use weir_trace::{Message, Reader};

const STREAMS: u32 = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let begin = Instant::now();
    let events = match words[..] {
        ["write", folder, events] => {
            write(PathBuf::from(folder), events.parse().expect("a number of events"))
        }
        ["read", folder] => read(PathBuf::from(folder)),
        _ => panic!("write FOLDER EVENTS, or read FOLDER"),
    };
    println!("{events} {}", begin.elapsed().as_secs_f64());
}

fn write(folder: PathBuf, events: u64) -> u64 {
    let field = |name: &str, bytes, slot| Field {
        name: name.to_owned(),
        ty: Type::Int { bytes, signed: true },
        slot,
        form: Form::Decimal,
    };
    let schema = Schema {
        provider: "bench".to_owned(),
        event: "numbers".to_owned(),
        level: None,
        fields: vec![field("small", 4, 0), field("large", 8, 1)],
    };
    let mut class = layout::trace([7; 16], ClockClass::default(), Vec::new());
    let mut stream = layout::stream(0, Vec::new());
    stream.events.push(layout::event(0, &schema));
    class.streams.push(stream);
    let folder = Folder::create(&folder, &class, Format::Ctf1).unwrap_or_else(|error| panic!("{error}"));
    let open = |cpu: u32| folder.stream(&format!("stream_{cpu}"), 0, cpu.into(), cpu, 1 << 20);
    let mut streams: Vec<_> = (0..STREAMS).map(|cpu| open(cpu).expect("a new file")).collect();
    for event in 0..events {
        let stream = &mut streams[(event % u64::from(STREAMS)) as usize];
        let (small, large) = (event as i32, event as i64 * 3);
        stream
            .record(0, 1_000 * event, &[&small.to_le_bytes(), &large.to_le_bytes()])
            .unwrap_or_else(|error| panic!("{error}"));
    }
    streams.into_iter().map(|stream| stream.finish(1_000 * events).expect("the last packet")).sum()
}

fn read(folder: PathBuf) -> u64 {
    let mut reader = Reader::open(&[folder]).unwrap_or_else(|error| panic!("{error}"));
    let (mut events, mut sum) = (0, 0u64);
    while let Some(message) = reader.next() {
        let Message::Event(event) = message else { panic!("a damaged trace") };
        let (_, mut values) = event.scope(Scope::Payload).expect("a payload");
        sum = sum.wrapping_add(values.word()).wrapping_add(values.word());
        events += 1;
    }
    let all = events * (events - 1) / 2;
    assert_eq!(sum, (0..events).map(|event| event as i32 as u64).fold(all * 3, u64::wrapping_add));
    events
}
