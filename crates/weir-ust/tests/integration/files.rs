//! What is read of a provider's file: every kind of field, and that what a linker or `strip` does changes nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{paths, skip};
use weir_event::schema::{Form, Level, Type};
use weir_symbols::Binary;
use weir_ust::{Event, Field, PLACES_SECTION, Place, Provider, places, providers};

/// The ferry's program, or a library of it; none, loudly, where LTTng's headers are not.
fn built(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let sources = paths::root().join("tests/lttng");
    let folder = paths::target().join("weir-ust").join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join(name);
    let mut compile = Command::new("cc");
    compile.current_dir(&sources).args(["-O2", "-I.", "-o"]).arg(&program).args(flags);
    let output = compile.args(["ferry.c", "-llttng-ust", "-ldl"]).output().expect("cc runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("lttng/tracepoint.h") {
        skip::skip("lttng-provider", "no lttng/tracepoint.h of LTTng-UST 2.13 or newer");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(program)
}

fn read(program: &Path) -> Vec<Provider> {
    let binary = Binary::open(program).expect("an ELF file");
    let image = binary.image();
    providers(&|at, to| image.read(at, to), &image.writable())
}

/// Where the events are emitted.
fn read_places(program: &Path) -> Vec<Place> {
    let binary = Binary::open(program).expect("an ELF file");
    let Some(listed) = binary.section(PLACES_SECTION) else { return Vec::new() };
    let image = binary.image();
    places(&|at, to| image.read(at, to), listed.start.0..listed.end.0)
}

fn int(bytes: u8, signed: bool) -> Type {
    Type::Int { bytes, signed }
}

fn field(name: &str, ty: Type) -> Field {
    Field {
        name: name.into(),
        ty: Ok(ty),
        form: Form::Decimal,
        is_swapped: false,
        is_hidden: false,
        is_unfiltered: false,
    }
}

fn fields() -> Vec<Field> {
    let of = |element| Box::new(element);
    let labels = [("car", 1, 1), ("sun", 5, 9), ("crew", 10, 10), ("below", -3, -3)];
    let labels = labels.map(|(name, first, last)| (name.to_owned(), first, last)).to_vec();
    let hex = |field| Field { form: Form::Hexadecimal, ..field };
    let swapped = |field| Field { is_swapped: true, ..field };
    let text = |field| Field { form: Form::Text, ..field };
    vec![
        field("ticket", int(4, true)),
        hex(field("colour", int(1, false))),
        swapped(field("port", int(2, false))),
        swapped(hex(field("address", int(4, false)))),
        field("height", Type::Float { bytes: 4 }),
        field("weight", Type::Float { bytes: 8 }),
        field("name", Type::Text),
        field("two", Type::Array { element: of(int(8, true)), count: 2 }),
        text(field("code", Type::Array { element: of(int(1, true)), count: 3 })),
        field("seats", Type::Sequence { element: of(int(2, false)) }),
        text(field("letters", Type::Sequence { element: of(int(1, true)) })),
        field("deck", Type::Enum { bytes: 4, signed: true, labels }),
        Field { is_hidden: true, ..field("hidden", int(4, true)) },
    ]
}

/// The provider and its events, whatever addresses they have.
fn check(found: &[Provider], what: &str) {
    let [ferry] = found else { panic!("{what}: {found:?}") };
    assert_eq!((ferry.name.as_str(), ferry.version.0, &ferry.left_out), ("ferry", 3, &Vec::new()), "{what}");
    let mut events: Vec<&Event> = ferry.events.iter().collect();
    events.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<(&str, Option<&str>)> =
        events.iter().map(|event| (event.name.as_str(), event.level.map(Level::name))).collect();
    let expected = [("boarded", Some("warning")), ("horn", Some("debug")), ("lands", None), ("leaves", None)];
    assert_eq!(names, expected, "{what}");
    assert_eq!(events[0].fields, fields(), "{what}");
    assert_eq!(events[1].fields, [], "{what}");
    assert_eq!(events[2].fields, [field("minutes", int(8, true))], "{what}");
    assert_eq!(events[3].fields, events[2].fields, "{what}");
    assert_eq!(events[2].probe, events[3].probe, "{what}: they are of one class");
    assert!(events[0].signature.starts_with("int, ticket, const char *, name, "), "{}", events[0].signature);
    assert!(events.iter().all(|event| event.probe != 0), "{what}");
}

#[test]
fn events_are_read_of_any_kind_of_file() {
    for (name, flags) in [
        ("ferry", &[][..]),
        ("stripped", &["-s"][..]),
        ("fixed", &["-no-pie"][..]),
        ("packed", &["-Wl,-z,pack-relative-relocs", "-Wl,-z,relro,-z,now"][..]),
        ("ferry.so", &["-shared", "-fPIC"][..]),
    ] {
        let Some(program) = built(name, flags) else { return };
        let providers = read(&program);
        check(&providers, name);
        // Each event has a place, in memory that is writable, and says of it what its description says.
        let (places, events) = (read_places(&program), &providers[0].events);
        assert_eq!(places.len(), events.len(), "{name}: {places:?}");
        for event in events {
            let is_its = |place: &&Place| place.name == event.name && place.signature == event.signature;
            let its: Vec<&Place> = places.iter().filter(is_its).collect();
            assert_eq!((its.len(), its[0].provider.as_str()), (1, "ferry"), "{name}: {}", event.name);
        }
    }
}

#[test]
fn a_program_without_descriptions_has_places_and_no_events() {
    let Some(program) = built("dynamic", &["-DDYNAMIC"]) else { return };
    assert_eq!((read(&program), read_places(&program).len()), (Vec::new(), 4));
}

#[test]
fn a_file_without_providers_has_none() {
    assert_eq!(read(Path::new("/usr/bin/env")), []);
}
