//! The macro, in this program itself: what it evaluates, what its notes say, what it costs while it is off.

use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use weir_event::schema::{Form, Level, Type};
use weir_symbols::{Binary, StaticProbe};
use weir_tracepoint::tracepoint;

#[allow(dead_code, reason = "a tracer reads it")]
#[derive(Default)]
struct Point {
    x: i16,
    y: f32,
    far: bool,
}

#[inline(never)]
fn places(n: i32) -> u32 {
    let mut evaluated = 0;
    let mut once = |value| {
        evaluated += 1;
        value
    };
    tracepoint!(rust, nothing);
    tracepoint!(rust, numbers, level: Alert, (char, letter, 'x'), (usize, size, 1), (isize, way, -1), (hex i64, mask, 1),
        (i32, n, once(n)));
    tracepoint!(
        rust,
        addresses,
        (ptr, place, &n),
        (CStr, there, c"text"),
        (CStr, none, None),
        (str, text, "text"),
    );
    tracepoint!(rust, many, ([f32; 2 + 1], three, &[1.0, 2.0, 3.0]), ([i64], some, &[1, 2]),
        (enum i8 { LOW = -1, HIGH = 1 }, level, 1), (struct Point { x: i16, y: f32, far: bool }, at, &Point::default()));
    // More arguments than registers: in a row.
    tracepoint!(rust, wide, level: Info, (i8, a, 1), (u16, b, 2), (i32, c, once(3)), (i64, d, 4), (u64, e, 5), (f32, f, 0.5), (f64, g, 1.5),
        (bool, h, true), (hex u32, i, 9), (ptr, j, &n), (CStr, k, c"text"), (str, l, "text"), ([u8], m, &[1, 2]), ([i16; 2], o, &[1, 2]),
        (enum i8 { LOW = -1, HIGH = 1 }, p, 1), (struct Point { x: i16, y: f32, far: bool }, q, &Point::default()), (char, r, 'x'));
    evaluated
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn weir_tracepoint_quiet(n: i32, x: f64) {
    tracepoint!(rust, quiet, (i32, n, n), (f64, x, x + 1.0), (str, text, "text"));
}

fn own() -> Binary {
    Binary::open(Path::new("/proc/self/exe")).unwrap()
}

fn place(event: &str) -> StaticProbe {
    places(0);
    let binary = own();
    let found = binary.find_static(Some("rust"), event).unwrap();
    found[0].clone()
}

#[test]
fn values_are_not_evaluated_while_nobody_traces() {
    assert_eq!(places(5), 0);
}

#[test]
fn notes_have_the_names_types_and_levels_of_the_source() {
    let int = |bytes, signed| Type::Int { bytes, signed };
    let check = |event: &str, level: &str, expected: &[(&str, Type, u8, Form)]| {
        let schema = place(event).schema.unwrap();
        assert_eq!(schema.level, Level::named(level), "{event}");
        let fields: Vec<_> = schema.fields.into_iter().map(|f| (f.name, f.ty, f.slot, f.form)).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, ty, slot, form)| ((*name).to_owned(), ty.clone(), *slot, *form))
            .collect();
        assert_eq!(fields, expected, "{event}");
    };
    let shown = Form::Decimal;
    check("nothing", "debug_line", &[]);
    check(
        "numbers",
        "alert",
        &[
            ("letter", int(4, false), 0, shown),
            ("size", int(8, false), 1, shown),
            ("way", int(8, true), 2, shown),
            ("mask", int(8, true), 3, Form::Hexadecimal),
            ("n", int(4, true), 4, shown),
        ],
    );
    check(
        "addresses",
        "debug_line",
        &[
            ("place", int(8, false), 0, Form::Hexadecimal),
            ("there", Type::Text, 1, shown),
            ("none", Type::Text, 2, shown),
            ("text", Type::Sequence { element: Box::new(int(1, false)) }, 3, Form::Text),
        ],
    );
    let labels = vec![("LOW".to_owned(), -1, -1), ("HIGH".to_owned(), 1, 1)];
    let offset = |of: usize| of as u32;
    let members = vec![
        ("x".to_owned(), offset(std::mem::offset_of!(Point, x)), int(2, true)),
        ("y".to_owned(), offset(std::mem::offset_of!(Point, y)), Type::Float { bytes: 4 }),
        ("far".to_owned(), offset(std::mem::offset_of!(Point, far)), int(1, false)),
    ];
    check(
        "many",
        "debug_line",
        &[
            ("three", Type::Array { element: Box::new(Type::Float { bytes: 4 }), count: 3 }, 0, shown),
            ("some", Type::Sequence { element: Box::new(int(8, true)) }, 1, shown),
            ("level", Type::Enum { bytes: 1, signed: true, labels }, 3, shown),
            ("at", Type::Struct { fields: members }, 4, shown),
        ],
    );
}

#[test]
fn arguments_of_an_event_with_many_are_words_of_a_row() {
    let wide = place("wide");
    let arguments: Vec<&str> = wide.arguments.iter().map(|argument| argument.text.as_str()).collect();
    let sizes = [-1, 2, -4, -8, 8, 4, 8, 1, 4, 8, 8, 8, 8, 8, 8, 8, -1, 8, 4];
    let expected: Vec<String> =
        sizes.iter().enumerate().map(|(word, size)| format!("{size}@{}(%rsi)", 8 * word)).collect();
    assert_eq!(arguments, expected);
    let schema = wide.schema.unwrap();
    let names: String = schema.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!((names.as_str(), schema.level), ("abcdefghijklmopqr", Level::named("info")));
}

#[test]
fn every_place_has_a_semaphore_and_a_nop_in_one_aligned_word() {
    weir_tracepoint_quiet(1, 2.0);
    let binary = own();
    let ours: Vec<_> = binary.static_probes().iter().filter(|probe| probe.provider == "rust").collect();
    assert!(ours.len() >= 5);
    for probe in ours {
        assert!(probe.semaphore.is_some() && probe.schema.is_some(), "{probe:?}");
        assert!(probe.arguments.iter().all(|argument| argument.operand.is_ok()), "{probe:?}");
        assert_eq!(probe.address.0 % 8, 0);
        assert_eq!(binary.bytes(probe.address, 5), Some(&[0x0f, 0x1f, 0x44, 0, 0][..]));
    }
}

#[test]
fn off_it_is_a_comparison_with_memory_and_a_branch_that_is_not_taken() {
    weir_tracepoint_quiet(1, 2.0);
    let binary = own();
    let function = binary.find("weir_tracepoint_quiet").unwrap()[0];
    let bytes = binary.bytes(function.address, function.size as usize).unwrap();
    let code = Decoder::with_ip(64, bytes, function.address.0, DecoderOptions::NONE);
    let names: Vec<Mnemonic> = code.into_iter().map(|instruction| instruction.mnemonic()).take(3).collect();
    assert_eq!(names, [Mnemonic::Cmp, Mnemonic::Jne, Mnemonic::Ret]);
}
