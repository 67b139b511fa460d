//! Traces that are followed while they are written: every event once, in the order of time, as soon as it can be shown and no later than it
//! must.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{paths, random};
use weir_event::schema::{Field, Form, Schema, Type};
use weir_trace::class::{ClockClass, Role, Scope, TraceClass, Value};
use weir_trace::write::{Folder, Format, Stream, layout, metadata, packet};
use weir_trace::{Follower, Message, Reader};

/// Longer than anything is held back.
const LONG: Duration = Duration::from_secs(2);

/// An event of a number.
fn numbered(event: &str) -> Schema {
    let number = Field {
        name: "n".to_owned(),
        ty: Type::Int { bytes: 4, signed: false },
        slot: 0,
        form: Form::Decimal,
    };
    Schema { provider: "a".to_owned(), event: event.to_owned(), level: None, fields: vec![number] }
}

pub(crate) fn class(tracer: &str) -> TraceClass {
    let schema = numbered("b");
    let environment = vec![("tracer_name".to_owned(), Value::Str(tracer.to_owned()))];
    let mut class = layout::trace([3; 16], ClockClass::default(), environment);
    let mut stream = layout::stream(0, Vec::new());
    stream.events.push(layout::event(0, &schema));
    class.streams.push(stream);
    class
}

fn made(path: &Path, tracer: &str) -> Folder {
    Folder::create(path, &class(tracer), Format::Ctf2).unwrap()
}

fn stream(folder: &Folder, id: u32) -> Stream {
    folder.stream(&format!("stream_{id}"), 0, id.into(), id, 4096).unwrap()
}

pub(crate) fn record(stream: &mut Stream, time: u64) {
    stream.record(0, time, &[&(time as u32).to_le_bytes()]).unwrap();
}

fn follow(path: &Path, now: Instant) -> Follower {
    Follower::open(&[path.to_owned()], now).unwrap_or_else(|error| panic!("{error}"))
}

/// The numbers of the events that can be shown now; losses and damage as texts.
fn shown(follower: &mut Follower) -> Vec<String> {
    let mut shown = Vec::new();
    while let Some(message) = follower.next() {
        shown.push(match message {
            Message::Event(event) => {
                let (_, mut values) = event.scope(Scope::Payload).unwrap();
                values.word().to_string()
            }
            Message::Lost(loss, _) => format!("lost {:?}", loss.count),
            Message::Damage(error) => error.to_string(),
        });
    }
    shown
}

#[track_caller]
fn check(follower: &mut Follower, now: Instant, expected: &[&str]) {
    follower.look(now).unwrap();
    assert_eq!(shown(follower), expected);
}

#[test]
fn an_event_is_shown_when_no_stream_can_bring_an_older_one() {
    let (path, begin) = (paths::fresh("follow", "order"), Instant::now());
    let written = made(&path, "weir");
    let (mut one, mut other) = (stream(&written, 0), stream(&written, 1));
    for stream in [&mut one, &mut other] {
        stream.packet(&[], 1, 1).unwrap();
    }
    let mut follower = follow(&path, begin);
    check(&mut follower, begin, &[]);
    record(&mut one, 10);
    record(&mut one, 30);
    one.flush().unwrap();
    check(&mut follower, begin, &[]);
    // The other one has nothing older than 20.
    record(&mut other, 20);
    other.flush().unwrap();
    check(&mut follower, begin, &["10", "20"]);
    // Of an idle stream nothing is known, and it is waited for so long and no longer.
    check(&mut follower, begin + LONG / 2, &[]);
    check(&mut follower, begin + LONG, &["30"]);
    // An empty packet says the time too.
    record(&mut one, 40);
    one.flush().unwrap();
    other.packet(&[], 41, 41).unwrap();
    check(&mut follower, begin + LONG, &["40"]);
    assert_eq!(follower.late(), 0);
    // What comes later than that is shown all the same, and counted.
    record(&mut one, 60);
    one.flush().unwrap();
    check(&mut follower, begin + LONG, &[]);
    check(&mut follower, begin + 2 * LONG, &["60"]);
    record(&mut other, 50);
    other.flush().unwrap();
    check(&mut follower, begin + 2 * LONG, &["50"]);
    assert_eq!(follower.late(), 1);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn it_is_over_when_the_writer_is() {
    let (path, begin) = (paths::fresh("follow", "over"), Instant::now());
    let written = made(&path, "weir");
    let mut follower = follow(&path, begin);
    check(&mut follower, begin, &[]);
    let mut one = stream(&written, 0);
    record(&mut one, 10);
    one.flush().unwrap();
    one.lost(3);
    let mut other = stream(&written, 1);
    record(&mut other, 5);
    other.flush().unwrap();
    check(&mut follower, begin, &["5"]);
    one.finish(20).unwrap();
    assert!(!follower.is_over());
    // The folder is locked as long as it is written.
    drop(written);
    check(&mut follower, begin, &["10", "lost Some(3)"]);
    assert!(follower.is_over());
    // Of a trace that is whole everything is shown at once.
    let mut again = follow(&path, begin);
    assert_eq!(shown(&mut again), ["5", "10", "lost Some(3)"]);
    assert!(again.is_over());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn of_other_tracers_nobody_knows_when_they_end() {
    let (path, begin) = (paths::fresh("follow", "other"), Instant::now());
    let written = made(&path, "barectf");
    let mut one = stream(&written, 0);
    record(&mut one, 10);
    one.flush().unwrap();
    drop(written);
    let mut follower = follow(&path, begin);
    check(&mut follower, begin, &["10"]);
    assert!(!follower.is_over());
    follower.stop();
    assert!(follower.is_over() && shown(&mut follower).is_empty());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn packets_that_do_not_say_their_length_are_refused() {
    let path = paths::fresh("follow", "sized");
    let mut class = class("weir");
    let context = class.streams[0].packet_context.as_mut().unwrap();
    let weir_trace::class::FieldClass::Struct(of) = &mut context.class else { panic!("no structure") };
    of.fields.retain(|field| {
        !matches!(field.class.int().and_then(|int| int.role), Some(Role::PacketLength | Role::ContentLength))
    });
    drop(Folder::create(&path, &class, Format::Ctf2).unwrap());
    let error = Follower::open(std::slice::from_ref(&path), Instant::now()).unwrap_err().to_string();
    assert!(error.contains("packets of stream 0 do not say how long they are"), "{error}");
    fs::remove_dir_all(path).unwrap();
}

/// Events that are described later are shown where they come, also in the middle of a packet that is held; those of a description that is
/// another one end their stream, as before.
#[test]
fn metadata_grow() {
    for (format, tracer) in [(Format::Ctf1, "lttng-ust"), (Format::Ctf2, "lttng-ust"), (Format::Ctf1, "weir")]
    {
        let (path, begin) = (paths::fresh("follow", "grows"), Instant::now());
        let mut class = class(tracer);
        let written = Folder::create(&path, &class, format).unwrap();
        let describe = |class: &TraceClass, bytes: usize| {
            let text = metadata(class, format).unwrap();
            fs::write(path.join("metadata"), &text[..text.len().min(bytes)]).unwrap();
        };
        let (mut one, mut other) = (stream(&written, 0), stream(&written, 1));
        other.packet(&[], 1, 1).unwrap();
        record(&mut one, 10);
        record(&mut one, 11);
        one.flush().unwrap();
        let mut follower = follow(&path, begin);
        // What is next is held, in the middle of its packet.
        check(&mut follower, begin, &[]);
        class.streams[0].events.push(layout::event(1, &numbered("later")));
        let whole = metadata(&class, format).unwrap().len();
        // A description that is being written is looked at again.
        describe(&class, whole - 30);
        assert!(!follower.look(begin).unwrap());
        describe(&class, whole);
        one.record(1, 12, &[&12u32.to_le_bytes()]).unwrap();
        one.record(0, 13, &[&13u32.to_le_bytes()]).unwrap();
        one.flush().unwrap();
        assert!(follower.look(begin).unwrap());
        assert!(!follower.look(begin).unwrap());
        assert_eq!(follower.reader().traces().next().unwrap().streams[0].events.len(), 2);
        check(&mut follower, begin + LONG, &["10", "11", "12", "13"]);
        // A new one begins with what is described by then, which is of a kind with a length before it.
        let mut later = stream(&written, 2);
        class.streams[0].events.push(layout::event(2, &numbered("last")));
        describe(&class, usize::MAX);
        later.record(2, 14, &[&14u32.to_le_bytes()]).unwrap();
        later.flush().unwrap();
        check(&mut follower, begin + 2 * LONG, &[]);
        check(&mut follower, begin + 3 * LONG, &["14"]);
        // Another description of what was there.
        class.streams[0].events[0] = layout::event(0, &numbered("other"));
        class.streams[0].events.push(layout::event(3, &numbered("new")));
        describe(&class, usize::MAX);
        later.record(3, 15, &[&15u32.to_le_bytes()]).unwrap();
        later.flush().unwrap();
        let mut looks = (0..200).map(|_| {
            assert!(!follower.look(begin + 4 * LONG).unwrap());
            shown(&mut follower)
        });
        let said = looks.find(|said| !said.is_empty()).expect("what is never described is damage");
        assert!(said.len() == 1 && said[0].contains("event 3, which the metadata does not know"), "{said:?}");
        drop((one, other, later, written));
        fs::remove_dir_all(path).unwrap();
    }
}

/// LTTng's descriptions and events are written by threads that do not wait for each other.
#[test]
fn an_event_that_is_described_after_it_is_written_is_waited_for() {
    for format in [Format::Ctf1, Format::Ctf2] {
        let (path, begin) = (paths::fresh("follow", "late"), Instant::now());
        let mut class = class("lttng-ust");
        let written = Folder::create(&path, &class, format).unwrap();
        let mut one = stream(&written, 0);
        record(&mut one, 10);
        one.record(1, 11, &[&11u32.to_le_bytes()]).unwrap();
        record(&mut one, 12);
        one.flush().unwrap();
        let mut follower = follow(&path, begin);
        check(&mut follower, begin + LONG, &["10"]);
        for _ in 0..50 {
            check(&mut follower, begin + LONG, &[]);
        }
        class.streams[0].events.push(layout::event(1, &numbered("later")));
        fs::write(path.join("metadata"), metadata(&class, format).unwrap()).unwrap();
        check(&mut follower, begin + 2 * LONG, &["11", "12"]);
        drop((one, written));
        fs::remove_dir_all(path).unwrap();
    }
}

/// Streams that are written in pieces of any length, packets torn, files that come later: what is shown is what a reader shows of the whole.
#[test]
fn what_is_followed_is_what_is_read_of_the_whole() {
    let mut state = 31;
    for round in 0..40 {
        let (path, copy) = (
            paths::fresh("follow", &format!("whole-{round}")),
            paths::fresh("follow", &format!("copy-{round}")),
        );
        let written = made(&path, "weir");
        let mut time = 0;
        let mut streams: Vec<Stream> = (0..3).map(|id| stream(&written, id)).collect();
        // As weir begins each of them.
        streams.iter_mut().for_each(|stream| stream.packet(&[], 0, 0).unwrap());
        for _ in 0..400 {
            time += random::next(&mut state) % 50;
            let stream = &mut streams[random::next(&mut state) as usize % 3];
            record(stream, time);
            if random::next(&mut state).is_multiple_of(16) {
                stream.lost(time);
                stream.flush().unwrap();
            }
        }
        for stream in streams {
            stream.finish(time).unwrap();
        }
        drop(written);
        let mut reader = Reader::open(std::slice::from_ref(&path)).unwrap();
        let mut expected = 0;
        while let Some(message) = reader.next() {
            expected += usize::from(matches!(message, Message::Event(_)));
        }
        assert_eq!(expected, 400);
        // The same bytes, as they might come to be: nothing is lost, whole, and in order but for what was late.
        let lock = made(&copy, "weir");
        fs::copy(path.join("metadata"), copy.join("metadata")).unwrap();
        let files =
            ["stream_0", "stream_1", "stream_2"].map(|name| (name, fs::read(path.join(name)).unwrap()));
        // Those of every other round are known from the beginning.
        let mut at = [if round % 2 == 0 { packet::CONTEXT_BYTES } else { 0 }; 3];
        for ((name, bytes), at) in files.iter().zip(at).filter(|(_, at)| *at > 0) {
            fs::write(copy.join(name), &bytes[..at]).unwrap();
        }
        let begin = Instant::now();
        let mut now = begin;
        let mut follower = follow(&copy, now);
        let mut numbers: Vec<u64> = Vec::new();
        let mut take = |follower: &mut Follower| {
            for line in shown(follower).iter().filter(|line| !line.starts_with("lost")) {
                numbers.push(line.parse().unwrap_or_else(|_| panic!("round {round}: {line}")));
            }
        };
        while at.iter().zip(&files).any(|(at, (_, bytes))| *at < bytes.len()) {
            let which = random::next(&mut state) as usize % 3;
            let (name, bytes) = &files[which];
            let end = (at[which] + random::next(&mut state) as usize % 700).min(bytes.len());
            let mut file = OpenOptions::new().create(true).append(true).open(copy.join(name)).unwrap();
            file.write_all(&bytes[at[which]..end]).unwrap();
            at[which] = end;
            now += Duration::from_millis(if round % 2 == 0 { 1 } else { random::next(&mut state) % 900 });
            follower.look(now).unwrap();
            take(&mut follower);
        }
        drop(lock);
        follower.look(now).unwrap();
        take(&mut follower);
        assert!(follower.is_over());
        assert_eq!(numbers.len(), 400, "round {round}");
        let falls = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        assert!(falls <= follower.late(), "round {round}: {falls} of {}", follower.late());
        // Where all came soon enough, nothing is out of its place.
        if round % 2 == 0 && now - begin < Duration::from_secs(1) {
            assert_eq!((falls, follower.late()), (0, 0), "round {round}");
        }
        numbers.sort_unstable();
        let mut all = Vec::new();
        let mut reader = Reader::open(std::slice::from_ref(&path)).unwrap();
        while let Some(message) = reader.next() {
            if let Message::Event(event) = message {
                let (_, mut values) = event.scope(Scope::Payload).unwrap();
                all.push(values.word());
            }
        }
        assert_eq!(numbers, all, "round {round}");
        fs::remove_dir_all(path).unwrap();
        fs::remove_dir_all(copy).unwrap();
    }
}
