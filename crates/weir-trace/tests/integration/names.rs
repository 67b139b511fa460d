//! Fields that programs call the same, or by names that CTF 1.8 has not: each has a name of its own in the trace, and in both formats.

use std::collections::HashSet;
use std::path::Path;

use testkit::{ctf, random};
use weir_event::schema::{Field, Form, Schema, Type};
use weir_trace::class::{Base, ClockClass, FieldClass, Scope, Sequence, TraceClass};
use weir_trace::write::{self, Format, layout};

fn int() -> Type {
    Type::Int { bytes: 4, signed: true }
}

fn sequence() -> Type {
    Type::Sequence { element: Box::new(int()) }
}

fn class(fields: Vec<(String, Type)>) -> TraceClass {
    let field = |(name, ty): (String, Type)| Field { name, ty, slot: 0, form: Form::Decimal };
    let fields = fields.into_iter().map(field).collect();
    let schema = Schema { provider: "a".to_owned(), event: "b".to_owned(), level: None, fields };
    let mut class = layout::trace(
        [1; 16],
        ClockClass { name: "monotonic".to_owned(), ..ClockClass::default() },
        Vec::new(),
    );
    let mut stream = layout::stream(0, Vec::new());
    stream.events.push(layout::event(0, &schema));
    class.streams.push(stream);
    class
}

fn names(class: &FieldClass) -> Vec<&str> {
    let FieldClass::Struct(of) = class else { panic!("a structure") };
    of.fields.iter().map(|field| field.name.as_str()).collect()
}

/// The names that fields with these have in a trace that the strict checker, and this crate's reader, take in.
fn written(fields: Vec<(String, Type)>) -> Vec<String> {
    let class = class(fields);
    for format in [Format::Ctf1, Format::Ctf2] {
        let text = write::metadata(&class, format).unwrap_or_else(|error| panic!("{error}"));
        weir_trace::read::metadata::parse(Path::new("metadata"), &text)
            .unwrap_or_else(|error| panic!("{error}"));
        if format == Format::Ctf1 {
            ctf::check(&text, &[])
                .unwrap_or_else(|fault| panic!("{fault}\n{}", String::from_utf8_lossy(&text)));
        }
    }
    let payload = class.streams[0].events[0].payload.as_ref().expect("fields");
    names(&payload.class).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_stack_is_a_sequence_whose_length_is_in_its_own_scope() {
    let field = |name: &str, ty| Field { name: name.to_owned(), ty, slot: 0, form: Form::Hexadecimal };
    let context = [field("vtid", int()), field("callstack_user", Type::Stack { frames: 9 })];
    let mut class =
        class(vec![("callstack_user".to_owned(), Type::Stack { frames: 3 }), ("n".to_owned(), int())]);
    let mut stream = layout::stream(0, layout::context(&context));
    stream.events = std::mem::take(&mut class.streams[0].events);
    class.streams = vec![stream];
    for format in [Format::Ctf1, Format::Ctf2] {
        let text = write::metadata(&class, format).unwrap_or_else(|error| panic!("{error}"));
        if format == Format::Ctf1 {
            ctf::check(&text, &[])
                .unwrap_or_else(|fault| panic!("{fault}\n{}", String::from_utf8_lossy(&text)));
        }
        let read = weir_trace::read::metadata::parse(Path::new("metadata"), &text)
            .unwrap_or_else(|error| panic!("{error}"));
        let stream = &read.streams[0];
        let of = |field: Option<&weir_trace::class::Field>| field.expect("a structure").class.clone();
        let context = of(stream.common_context.as_ref());
        assert_eq!(names(&context), ["vtid", "_callstack_user_length", "callstack_user"]);
        let payload = of(stream.events[0].payload.as_ref());
        assert_eq!(names(&payload), ["_callstack_user_length", "callstack_user", "n"]);
        let (hexadecimal, decimal) = (Base::Hexadecimal, Base::Decimal);
        for (class, scope, base) in
            [(context, Scope::CommonContext, hexadecimal), (payload, Scope::Payload, decimal)]
        {
            let FieldClass::Struct(of) = class else { panic!("a structure") };
            let found = of.fields.iter().find_map(|field| match &field.class {
                FieldClass::Sequence(Sequence { element, length, .. }) => Some((element, length)),
                _ => None,
            });
            let (element, length) = found.expect("a sequence");
            assert_eq!(
                (length.scope, &length.names[..]),
                (scope, &["_callstack_user_length".to_owned()][..])
            );
            let FieldClass::Int(int) = &**element else { panic!("an integer") };
            assert_eq!((int.bits, int.is_signed, int.base), (64, false, base));
        }
    }
}

#[test]
fn the_second_of_a_name_gets_a_number() {
    let check = |fields: &[(&str, Type)], wanted: &[&str]| {
        let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
        assert_eq!(written(fields), wanted);
    };
    check(&[("a", int()), ("b", int())], &["a", "b"]);
    check(&[("a", int()), ("a", int()), ("a", int())], &["a", "a_2", "a_3"]);
    check(&[("a", int()), ("a_2", int()), ("a", int())], &["a", "a_2", "a_3"]);
    check(&[("a", int()), ("_a", int()), ("__a", int())], &["a", "_a", "__a"]);
    check(&[("x", sequence()), ("_x_length", int())], &["_x_length", "x", "_x_length_2"]);
    check(&[("_x_length", int()), ("x", sequence())], &["_x_length", "_x_2_length", "x_2"]);
    check(&[("x", sequence()), ("x", sequence())], &["_x_length", "x", "_x_2_length", "x_2"]);
    check(&[("Bool", int()), ("int", int()), ("event", int())], &["Bool_2", "int", "event"]);
    check(&[("größe", int()), ("a$", int()), ("", int()), ("7", int())], &["gr__e", "a_", "", "7"]);
}

#[test]
fn members_have_names_of_their_own_too() {
    let members = ["x", "y", "x", "Imaginary"].map(|name| (name.to_owned(), 0, int()));
    let of = class(vec![("x".to_owned(), Type::Struct { fields: members.to_vec() })]);
    let payload = of.streams[0].events[0].payload.as_ref().expect("fields");
    let FieldClass::Struct(fields) = &payload.class else { panic!("a structure") };
    assert_eq!(names(&fields.fields[0].class), ["x", "y", "x_2", "Imaginary_2"]);
    let text = write::metadata(&of, Format::Ctf1).expect("metadata");
    ctf::check(&text, &[]).unwrap_or_else(|fault| panic!("{fault}"));
}

/// Few names, so that they meet in every way; lengths are those of their own sequences.
#[test]
fn any_names_can_be_written() {
    let mut state = 17;
    let mut pick = |limit: usize| random::next(&mut state) as usize % limit;
    let known = ["a", "_a_length", "a_2", "_a_2_length", "_a", "__a_length", "a-2", "Bool", "Bool_2", ""];
    for _ in 0..500 {
        let count = pick(8);
        let fields: Vec<(String, Type)> = (0..count)
            .map(|_| (known[pick(known.len())].to_owned(), if pick(2) == 0 { int() } else { sequence() }))
            .collect();
        let of = class(fields.clone());
        let all = written(fields);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
        let payload = of.streams[0].events[0].payload.as_ref().expect("fields");
        let FieldClass::Struct(of) = &payload.class else { panic!("a structure") };
        for (before, field) in of.fields.iter().zip(&of.fields[1.min(of.fields.len())..]) {
            if let FieldClass::Sequence(Sequence { length, .. }) = &field.class {
                assert_eq!(length.names, std::slice::from_ref(&before.name), "{all:?}");
            }
        }
    }
}
