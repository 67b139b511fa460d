//! Strings that the program vouches for and strings that are read, compared with constants of all lengths: on all engines as plain
//! Rust says.

use std::ffi::CString;

use weir_event::schema::{Field, Form, Schema, Type};
use weir_filter::{Dialect, compile};
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_rt::executable::Frame;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::Limits;

/// With characters of more than one byte around the 24th, where one question ends.
const LETTERS: &str = "the quick brown fox jüümps ovér a lazy dog";

fn schema(ty: &Type) -> Schema {
    let field = Field { name: "s".into(), ty: ty.clone(), slot: 2, form: Form::default() };
    Schema { fields: vec![field], ..Schema::default() }
}

/// What the filter answers for each text; None is an address of 0.
fn run(filter: &str, dialect: Dialect, ty: &Type, texts: &[Option<CString>]) -> Vec<bool> {
    let schema = schema(ty);
    let (mut module, _) =
        compile(filter, dialect, &schema).unwrap_or_else(|faults| panic!("{filter}: {faults:?}"));
    weir_ir::pass::optimise(&mut module);
    let options =
        weir_codegen::Options { ring_bytes: 4096, counts_hits: false, ..weir_codegen::Options::default() };
    let object = weir_codegen::compile_with(&module, &options).unwrap().object;
    let limits = Limits { text_slots: schema.text_slots(), ..Limits::default() };
    let verified = weir_verifier::verify(&object.programs[0], &object.maps, &limits);
    let verified = verified.unwrap_or_else(|rejection| panic!("{filter}: {rejection}"));
    let layout = SegmentLayout::plan(&object.maps, local::possible_cpus()).unwrap();
    let segment = Segment::create_local(layout, &Identity::default()).unwrap();
    let executable = weir_jit::compile(&verified, &local::site(segment.layout())).unwrap();
    let native = LocalProgram::load(&executable, &segment).unwrap();
    let threaded = Threaded::of(&verified, &segment).expect("filters need no lane");
    let answer = |text: &Option<CString>| {
        let mut frame = Frame::default();
        frame.regs[2] = text.as_ref().map_or(0, |text| text.as_ptr() as u64);
        let native = native.run(&mut frame.clone());
        assert_eq!(threaded.run(&mut frame.clone()), native, "{filter} of {text:?}: threaded");
        let environment = Environment { segment: &segment };
        let checked = weir_interp::run(&verified, &environment, &mut frame).unwrap();
        assert_eq!(checked, native, "{filter} of {text:?}: checking");
        native == 1
    };
    texts.iter().map(answer).collect()
}

#[test]
fn equality_and_beginnings_hold_of_all_lengths() {
    let cuts: Vec<&str> =
        (0..=LETTERS.len()).filter(|&at| LETTERS.is_char_boundary(at)).map(|at| &LETTERS[..at]).collect();
    let altered = |text: &str| text.char_indices().next_back().map(|(at, _)| format!("{}!", &text[..at]));
    let mut texts: Vec<Option<String>> = cuts.iter().map(|text| Some((*text).to_owned())).collect();
    texts.extend(cuts.iter().step_by(3).filter_map(|text| altered(text)).map(Some));
    texts.extend([Some("(null)".to_owned()), None]);
    let passed: Vec<Option<CString>> =
        texts.iter().map(|text| text.as_deref().map(|text| CString::new(text).unwrap())).collect();
    let mut constants: Vec<String> = cuts.iter().map(|text| (*text).to_owned()).collect();
    constants.extend(cuts.iter().step_by(5).filter_map(|text| altered(text)));
    constants.extend(["(null)".to_owned(), "(nul".to_owned()]);
    for (index, constant) in constants.iter().enumerate() {
        let dialect = if index % 2 == 0 { Dialect::Weir } else { Dialect::Lttng };
        for (operator, is_beginning) in [("==", false), ("!=", false), ("==", true), ("!=", true)] {
            let filter = format!("s {operator} \"{constant}{}\"", if is_beginning { "*" } else { "" });
            let expected = |text: &Option<String>| {
                let text = match (text, dialect) {
                    (Some(text), _) => text.as_str(),
                    (None, Dialect::Lttng) => "(null)",
                    (None, Dialect::Weir) => return false,
                };
                let holds = if is_beginning { text.starts_with(constant) } else { text == constant };
                holds == (operator == "==")
            };
            let expected: Vec<bool> = texts.iter().map(expected).collect();
            for ty in [Type::Text, Type::Str] {
                assert_eq!(run(&filter, dialect, &ty, &passed), expected, "{filter} {dialect:?} {ty:?}");
            }
        }
    }
}

#[test]
fn an_address_is_asked_for_once_where_conditions_before_have_shown_it() {
    // The condition, how often its IR looks at the address of the text, and for which of the texts below it holds: in weir's
    // dialect, and in LTTng's, to which an address of 0 is the text "(null)".
    let cases: [(&str, usize, [bool; 4], [bool; 4]); 8] = [
        ("s != 'a' && s != 'b'", 1, [false, false, true, false], [false, false, true, true]),
        ("s == 'a' && s != 'b'", 0, [true, false, false, false], [true, false, false, false]),
        ("(s != 'a' && s != 'x') && !(s == 'b')", 1, [false, false, true, false], [false, false, true, true]),
        // What is cheap comes first.
        ("(s != 'a' || s != 'b') && s != 'c'", 1, [true, true, false, false], [true, true, false, true]),
        ("!(s == 'a') && s != 'b'", 1, [false, false, true, false], [false, false, true, true]),
        ("s == 'a' || s != 'b'", 1, [true, false, true, false], [true, false, true, true]),
        ("(s == 'a' || s == 'c') && s != 'c'", 0, [true, false, false, false], [true, false, false, false]),
        ("!(s != 'a' && s != 'b') && s != 'b'", 2, [true, false, false, false], [true, false, false, false]),
    ];
    let texts = [Some(c"a"), Some(c"b"), Some(c"c"), None].map(|text| text.map(CString::from));
    for (filter, looks, in_weir, in_lttng) in cases {
        assert_eq!(run(filter, Dialect::Weir, &Type::Text, &texts), in_weir, "{filter}");
        assert_eq!(run(filter, Dialect::Lttng, &Type::Text, &texts), in_lttng, "{filter}");
        let (module, _) = compile(filter, Dialect::Weir, &schema(&Type::Text)).unwrap();
        assert_eq!(weir_ir::text::print(&module).matches("slot 2").count(), looks, "{filter}");
    }
}

#[test]
fn only_strings_that_the_program_vouches_for_are_read_in_place() {
    let asks = |ty: &Type| {
        let (module, _) = compile("s == \"abc\"", Dialect::Weir, &schema(ty)).unwrap();
        weir_ir::text::print(&module).contains("text_is 2 \"abc\"")
    };
    assert!(asks(&Type::Text) && !asks(&Type::Str));
    assert_eq!((schema(&Type::Text).text_slots(), schema(&Type::Str).text_slots()), (1 << 2, 0));
}
