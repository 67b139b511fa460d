//! Classes that are odd in one place: `write::metadata` refuses them, or writes a text that is right by the specification.

use std::path::Path;
use std::time::Duration;

use testkit::ctf::{self, Rule};
use testkit::random::{self, Cases, Daily};
use weir_event::schema::{self, Form, Schema, Type};
use weir_trace::class::{
    Array, ByteOrder, Choice, ClockClass, Enum, Field, FieldClass, Float, Int, Reference, Scope, Sequence,
    Struct, TraceClass, Value, Variant,
};
use weir_trace::write::{self, Format, layout};

use crate::random::{classes, trace};

/// A trace of a stream with some random events.
fn good(state: &mut u64) -> TraceClass {
    let (mut class, mut names) = (trace(ByteOrder::Little), 0);
    let context =
        classes::fields(state, &mut names, ByteOrder::Little, Scope::CommonContext, 1, Format::Ctf1);
    let mut stream = layout::stream(1, context);
    for id in 0..2 {
        let mut fields =
            classes::fields(state, &mut names, ByteOrder::Little, Scope::Payload, 3, Format::Ctf1);
        let int = Int::packed(32, true, ByteOrder::Little);
        fields.push(Field::new("last", FieldClass::Int(int)));
        let mut event = layout::event(id, &Schema::default());
        event.payload = Some(Field::new("", classes::structure(fields)));
        stream.events.push(event);
    }
    class.streams.push(stream);
    class
}

/// Those of the first event's payload, one behind the other, each before those in it.
fn classes_of<'c>(class: &'c mut FieldClass, change: &mut dyn FnMut(&mut FieldClass)) {
    change(class);
    match class {
        FieldClass::Struct(of) => of.fields.iter_mut().for_each(|field| classes_of(&mut field.class, change)),
        FieldClass::Variant(of) => {
            of.options.iter_mut().for_each(|choice| classes_of(&mut choice.field.class, change));
        }
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            classes_of(element, change);
        }
        FieldClass::Optional(of) => classes_of(&mut of.field, change),
        FieldClass::Int(_)
        | FieldClass::Enum(_)
        | FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_)
        | FieldClass::Str
        | FieldClass::Wide(_) => {}
    }
}

/// Adds a field to the payload of the first event.
fn add(class: &mut TraceClass, name: &str, field: FieldClass) {
    payload(class).fields.push(Field::new(name, field));
}

fn payload(class: &mut TraceClass) -> &mut Struct {
    match &mut class.streams[0].events[0].payload.as_mut().unwrap().class {
        FieldClass::Struct(of) => of,
        other => panic!("{other:?} is no structure"),
    }
}

fn int(bits: u8, is_signed: bool) -> Int {
    Int::packed(bits, is_signed, ByteOrder::Little)
}

fn enumeration(bits: u8, is_signed: bool, labels: &[(&str, i128, i128)]) -> FieldClass {
    let labels = labels.iter().map(|(label, first, last)| ((*label).to_owned(), *first, *last)).collect();
    FieldClass::Enum(Enum { int: int(bits, is_signed), labels })
}

fn reference(name: &str) -> Reference {
    Reference { scope: Scope::Payload, names: vec![name.to_owned()] }
}

fn sequence(length: &str) -> FieldClass {
    FieldClass::Sequence(Sequence::new(FieldClass::Int(int(8, false)), reference(length)))
}

fn variant(selector: &str, options: &[(&str, i128, i128)]) -> FieldClass {
    let options = options.iter().map(|(name, first, last)| {
        let field = Field::new(*name, FieldClass::Int(int(8, false)));
        Choice { field, ranges: vec![(*first, *last)] }
    });
    FieldClass::Variant(Variant { selector: reference(selector), options: options.collect() })
}

type Change = fn(&mut TraceClass);

const ODD: &[(&str, Change)] = &[
    ("nothing", |_| {}),
    ("no uuid", |class| class.uuid = None),
    ("no packet header", |class| class.packet_header = None),
    ("environment: a point in a name", |class| class.environment.push(("a.b".to_owned(), Value::Int(1)))),
    ("environment: a keyword", |class| class.environment.push(("event".to_owned(), Value::Int(1)))),
    ("environment: a name twice", |class| class.environment.push(class.environment[0].clone())),
    ("environment: a large number", |class| class.environment.push(("a".to_owned(), Value::Int(1 << 64)))),
    ("environment: the largest", |class| class.environment.push(("a".to_owned(), Value::Int((1 << 64) - 1)))),
    ("environment: a low number", |class| class.environment.push(("a".to_owned(), Value::Int(-1 << 63)))),
    ("environment: any text", |class| {
        let text: String = (0..=0x17f).filter_map(char::from_u32).collect();
        class.environment.push(("a".to_owned(), Value::Str(text)));
    }),
    ("clock: no name", |class| class.clocks[0].name = String::new()),
    ("clock: two words", |class| class.clocks[0].name = "two words".to_owned()),
    ("clock: a keyword", |class| class.clocks[0].name = "clock".to_owned()),
    ("clock: frequency 0", |class| class.clocks[0].frequency = 0),
    ("clock: the earliest", |class| class.clocks[0].offset_s = i64::MIN),
    ("clock: the largest numbers", |class| {
        class.clocks[0] = ClockClass {
            frequency: u64::MAX,
            precision: u64::MAX,
            offset_s: i64::MAX,
            offset_cycles: u64::MAX,
            ..class.clocks[0].clone()
        };
    }),
    ("clock: any text", |class| class.clocks[0].description = Some("a\u{0}\u{7f}\"\\?\u{a0}é\n".to_owned())),
    ("clock: twice", |class| class.clocks.push(class.clocks[0].clone())),
    ("clock: one that nobody uses", |class| {
        class.clocks.push(ClockClass { name: "other".to_owned(), ..ClockClass::default() });
    }),
    ("stream: twice", |class| class.streams.push(class.streams[0].clone())),
    ("stream: two", |class| {
        let stream = class.streams[0].clone();
        class.streams.push(weir_trace::class::StreamClass { id: 2, ..stream });
    }),
    ("stream: two, and no packet header", |class| {
        let stream = class.streams[0].clone();
        class.streams.push(weir_trace::class::StreamClass { id: 2, ..stream });
        class.packet_header = None;
    }),
    ("stream: no context", |class| class.streams[0].packet_context = None),
    ("stream: no header", |class| class.streams[0].event_header = None),
    ("stream: a header that is no structure", |class| {
        class.streams[0].event_header = Some(Field::new("", FieldClass::Int(int(8, false))));
    }),
    ("stream: no times of the end", |class| {
        if let Some(Field { class: FieldClass::Struct(of), .. }) = &mut class.streams[0].packet_context {
            of.fields.remove(1);
        }
    }),
    ("stream: no clock", |class| {
        let stream = &mut class.streams[0];
        for field in [&mut stream.packet_context, &mut stream.event_header].into_iter().flatten() {
            classes_of(&mut field.class, &mut |class| {
                if let Some(int) = class.int_mut() {
                    int.clock = None;
                }
            });
        }
        class.streams[0].clock = None;
    }),
    ("stream: signed sizes", |class| {
        classes_of(&mut class.streams[0].packet_context.as_mut().unwrap().class, &mut |class| {
            if let Some(int) = class.int_mut() {
                int.is_signed = true;
            }
        });
    }),
    ("event: twice", |class| {
        let event = class.streams[0].events[0].clone();
        class.streams[0].events.push(event);
    }),
    ("event: a large number", |class| class.streams[0].events[1].id = 1 << 32),
    ("event: no name", |class| class.streams[0].events[0].name = None),
    ("event: any name", |class| class.streams[0].events[0].name = Some("\"\\ü\u{1}7\0".to_owned())),
    ("event: no payload", |class| class.streams[0].events[0].payload = None),
    ("event: a payload that is no structure", |class| {
        class.streams[0].events[0].payload = Some(Field::new("", FieldClass::Str));
    }),
    ("event: a low level", |class| class.streams[0].events[0].level = Some(i64::MIN)),
    ("field: no name", |class| add(class, "", FieldClass::Str)),
    ("field: a keyword", |class| add(class, "struct", FieldClass::Str)),
    ("field: a keyword with an underscore", |class| add(class, "Bool", FieldClass::Str)),
    ("field: a letter of another alphabet", |class| add(class, "größe", FieldClass::Str)),
    ("field: twice", |class| add(class, "last", FieldClass::Str)),
    ("field: twice, but for an underscore", |class| add(class, "_last", FieldClass::Str)),
    ("field: a clock's", |class| {
        add(class, "time", FieldClass::Int(Int { clock: Some(0), ..int(64, false) }));
    }),
    ("field: no clock's", |class| {
        add(class, "time", FieldClass::Int(Int { clock: Some(9), ..int(64, false) }));
    }),
    ("integer: 0 bits", |class| add(class, "x", FieldClass::Int(int(0, false)))),
    ("integer: 65 bits", |class| add(class, "x", FieldClass::Int(int(65, false)))),
    ("integer: alignment 0", |class| add(class, "x", FieldClass::Int(Int { align: 0, ..int(8, false) }))),
    ("integer: alignment 3", |class| add(class, "x", FieldClass::Int(Int { align: 3, ..int(8, false) }))),
    ("float: 16 bits", |class| {
        add(class, "x", FieldClass::Float(Float::new(16, 8, ByteOrder::Little)));
    }),
    ("float: alignment 12", |class| {
        add(class, "x", FieldClass::Float(Float::new(64, 12, ByteOrder::Little)));
    }),
    ("structure: alignment 0", |class| payload(class).align = 0),
    ("structure: alignment 3", |class| payload(class).align = 3),
    ("enumeration: no label", |class| add(class, "x", enumeration(8, false, &[]))),
    ("enumeration: from much to little", |class| add(class, "x", enumeration(8, false, &[("a", 3, 0)]))),
    ("enumeration: too much", |class| add(class, "x", enumeration(8, false, &[("a", 0, 256)]))),
    ("enumeration: too little", |class| add(class, "x", enumeration(8, false, &[("a", -1, 0)]))),
    ("enumeration: all", |class| add(class, "x", enumeration(64, false, &[("a", 0, u64::MAX as i128)]))),
    ("enumeration: all, signed", |class| {
        add(class, "x", enumeration(64, true, &[("a", i64::MIN as i128, i64::MAX as i128)]));
    }),
    ("enumeration: any label", |class| {
        add(class, "x", enumeration(8, true, &[("\"ä\n\\", -128, 127), ("", 0, 0)]))
    }),
    ("array: the longest", |class| {
        add(class, "x", FieldClass::Array(Array::new(FieldClass::Str, u64::MAX)));
    }),
    ("sequence: no length", |class| add(class, "x", sequence("nothing"))),
    ("sequence: a signed length", |class| add(class, "x", sequence("last"))),
    ("sequence: a length behind it", |class| {
        add(class, "x", sequence("y"));
        add(class, "y", FieldClass::Int(int(8, false)));
    }),
    ("sequence: an enumeration as its length", |class| {
        add(class, "y", enumeration(8, false, &[("a", 0, 3)]));
        add(class, "x", sequence("y"));
    }),
    ("variant: no selector", |class| add(class, "x", variant("nothing", &[("a", 0, 0)]))),
    ("variant: an integer as its selector", |class| add(class, "x", variant("last", &[("a", 0, 0)]))),
    ("variant: no option", |class| {
        add(class, "y", enumeration(8, false, &[("a", 0, 0)]));
        add(class, "x", variant("y", &[]));
    }),
    ("variant: an option that is no label", |class| {
        add(class, "y", enumeration(8, false, &[("a", 0, 0)]));
        add(class, "x", variant("y", &[("b", 0, 0)]));
    }),
    ("variant: an option of other values", |class| {
        add(class, "y", enumeration(8, false, &[("a", 0, 0)]));
        add(class, "x", variant("y", &[("a", 1, 1)]));
    }),
    ("variant: a value of two options", |class| {
        add(class, "y", enumeration(8, false, &[("a", 0, 3), ("b", 2, 5)]));
        add(class, "x", variant("y", &[("a", 0, 3), ("b", 2, 5)]));
    }),
    ("variant: an option twice", |class| {
        add(class, "y", enumeration(8, false, &[("a", 0, 3), ("b", 4, 5)]));
        add(class, "x", variant("y", &[("a", 0, 3), ("a", 0, 3)]));
    }),
    ("variant: a keyword", |class| {
        add(class, "y", enumeration(8, false, &[("int", 0, 3)]));
        add(class, "x", variant("y", &[("int", 0, 3)]));
    }),
];

#[test]
fn an_odd_class_is_refused_or_written_right() {
    let mut state = 8;
    let mut wrong = Vec::new();
    let mut written = 0;
    for (what, change) in ODD {
        let mut class = good(&mut state);
        change(&mut class);
        let Ok(text) = write::metadata(&class, Format::Ctf1) else {
            assert_ne!(*what, "nothing");
            continue;
        };
        written += 1;
        if let Err(fault) = ctf::check(&text, &[])
            && fault.rule != Rule::Unread
        {
            wrong.push(format!("{what}: {fault}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!((10..ODD.len() - 10).contains(&written), "{written} of {} are written", ODD.len());
}

/// What programs declare is their own matter: it is written whatever it is.
#[test]
fn odd_schemas_are_written_right() {
    let enumeration = |signed, labels: &[(&str, i64, i64)]| Type::Enum {
        bytes: 1,
        signed,
        labels: labels.iter().map(|(label, first, last)| ((*label).to_owned(), *first, *last)).collect(),
    };
    let odd = [
        enumeration(false, &[]),
        enumeration(false, &[("minus", -1, -1), ("one", 1, 1)]),
        enumeration(true, &[("far", 1000, 1000), ("one", 1, 1), ("all", -1000, 1000)]),
        enumeration(true, &[("turned", 4, 1)]),
        Type::Array { element: Box::new(enumeration(false, &[])), count: 0 },
        Type::Struct { fields: Vec::new() },
        Type::Float { bytes: 4 },
        Type::Sequence { element: Box::new(Type::Sequence { element: Box::new(Type::Str) }) },
    ];
    for (index, ty) in odd.into_iter().enumerate() {
        let mut class = trace(ByteOrder::Little);
        let mut stream = layout::stream(0, Vec::new());
        let field = schema::Field { name: "x".to_owned(), ty, slot: 0, form: Form::Decimal };
        let event = format!("odd \"{index}\"\u{1}");
        let schema = Schema { provider: "p".to_owned(), event, level: None, fields: vec![field] };
        stream.events.push(layout::event(0, &schema));
        class.streams.push(stream);
        let text =
            write::metadata(&class, Format::Ctf1).unwrap_or_else(|error| panic!("{schema:?}: {error}"));
        let text = String::from_utf8(text).unwrap();
        ctf::check(text.as_bytes(), &[]).unwrap_or_else(|fault| panic!("{schema:?}: {fault}\n{text}"));
    }
}

/// Texts with words in wrong places: what this crate's reader takes of them, and its writer describes, is right by the specification.
#[test]
fn a_text_that_is_read_leniently_is_written_right() {
    let daily = Daily { seed: 77, at_least: 1_000, at_most: 10_000, budget: Duration::from_secs(2) };
    let mut cases = Cases::of("WEIR_LENIENT", daily);
    let mut state = cases.seed();
    let (mut taken, mut written, mut wrong) = (0, 0, Vec::new());
    let mut texts = vec![include_str!("../../../../testkit/tests/integration/ctf/lttng.tsdl").to_owned()];
    for _ in 0..4 {
        let text = write::metadata(&good(&mut state), Format::Ctf1).unwrap();
        texts.push(String::from_utf8(text).unwrap());
    }
    for round in cases.by_ref() {
        let text = &texts[round as usize % texts.len()];
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n', '\t']).collect();
        for _ in 0..1 + random::next(&mut state) % 3 {
            let place = |state: &mut u64| random::next(state) as usize % words.len();
            let (at, other) = (place(&mut state), place(&mut state));
            match random::next(&mut state) % 4 {
                0 => drop(words.remove(at)),
                1 => words.insert(at, words[other]),
                2 => words[at] = words[other],
                _ => words[at] = ["0; ", "1; ", "8; ", "65535, ", "-1 ", "signed = true; ", "x; "][other % 7],
            }
        }
        let text = words.concat();
        let Ok(class) = weir_trace::read::metadata::parse(Path::new("metadata"), text.as_bytes()) else {
            continue;
        };
        taken += 1;
        let Ok(again) = write::metadata(&class, Format::Ctf1) else { continue };
        written += 1;
        if let Err(fault) = ctf::check(&again, &[])
            && !matches!(fault.rule, Rule::Unread | Rule::Limit)
        {
            wrong.push(format!("{fault}, of\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong: {}", wrong.len(), wrong[0]);
    assert!(
        taken * 50 > cases.given() && written * 100 > cases.given(),
        "{taken} are read, {written} are written"
    );
}
