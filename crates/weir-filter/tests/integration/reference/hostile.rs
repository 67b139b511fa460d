//! Expressions and events that mean harm: size, depth, indices, ends of pages, texts that are not there. The program runs on.

use testkit::page::AtPageEnd;
use weir_filter::{Dialect, compile};

use crate::reference::Ready;
use crate::reference::event::{Datum, raise, schema};
use crate::reference::generate::{Random, values};
use crate::reference::run;

const STRINGS: [&str; 7] =
    ["s == 'abc'", "s == 'ab*'", "s == '*b*'", "s == 'a*c'", "s > 'ab'", "s =~ \"c$\"", "s in ('x', 'a*c')"];

#[test]
fn texts_at_the_end_of_a_page_are_read_to_their_end() {
    for length in [0, 1, 62, 63, 64, 125, 126, 127, 200] {
        let text = [b"ab".as_slice(), vec![b'-'; length].as_slice(), b"c\0"].concat();
        let text = AtPageEnd::of(&text);
        let ready =
            Ready::of("s == 'a*c' && s =~ \"^ab-*c$\" && s > 'a' && s == 'ab*'", Dialect::Weir).unwrap();
        let mut raised = raise(&values(&mut Random(1)));
        raised.frame.regs[6] = text.address();
        assert!(ready.compiled(&mut raised.frame) && ready.interpreted(&mut raised.frame), "{length}");
    }
}

#[test]
fn texts_that_cannot_be_read_are_empty_and_do_no_harm() {
    for filter in STRINGS {
        let ready = Ready::of(filter, Dialect::Weir).unwrap();
        let mut raised = raise(&values(&mut Random(1)));
        // Without an end before the page's.
        let endless = AtPageEnd::of(&[b'-'; 100]);
        for address in [1, 4096, 0x7fff_ffff_f000, u64::MAX, 1 << 63, endless.address()] {
            raised.frame.regs[6] = address;
            assert!(!ready.compiled(&mut raised.frame), "{filter} of {address:#x}");
            assert!(!ready.interpreted(&mut raised.frame), "{filter} of {address:#x}");
        }
    }
    let ready = Ready::of("s == '*' && s =~ \"^$\" && !(s > '')", Dialect::Weir).unwrap();
    let mut raised = raise(&values(&mut Random(1)));
    raised.frame.regs[6] = 1;
    assert!(ready.compiled(&mut raised.frame) && ready.interpreted(&mut raised.frame));
}

#[test]
fn sequences_that_lie_about_their_length_do_no_harm() {
    let ready = Ready::of("seq[3] == 0 && seq[4294967295] == 0 && arr[2] == 0", Dialect::Weir).unwrap();
    let mut raised = raise(&values(&mut Random(1)));
    for address in [0, 1, u64::MAX, 1 << 63] {
        // `arr`, `seq` and its length.
        (raised.frame.regs[11], raised.frame.regs[12], raised.frame.regs[13]) = (address, address, u64::MAX);
        assert!(ready.compiled(&mut raised.frame) && ready.interpreted(&mut raised.frame), "{address:#x}");
    }
}

/// A look at so many bytes, and no more: the text counts as ended there.
#[test]
fn a_long_text_is_looked_at_as_far_as_the_filter_may() {
    let text = |length: usize| {
        let mut event = values(&mut Random(1));
        event[6] = Datum::Str(Some([vec![b'-'; length], b"b".to_vec()].concat()));
        event
    };
    let events = [text(4000), text(5000)];
    assert_eq!(run("s == '*b*'", Dialect::Weir, &events), Ok(vec![true, false]));
    let many: Vec<String> = (0..127).map(|n| format!("s != '*{n}*'")).collect();
    let many = format!("{} && s == '*b*'", many.join(" && "));
    assert_eq!(run(&many, Dialect::Lttng, &[text(400), text(600)]), Ok(vec![true, false]));
}

#[test]
fn texts_of_64_kib_run_or_are_refused() {
    let repeated = |part: &str, joined: &str| {
        let count = (64 << 10) / (part.len() + joined.len());
        vec![part; count].join(joined)
    };
    let balanced = |part: &str, joined: &str, depth: u32| {
        let mut text = part.to_owned();
        for _ in 0..depth {
            text = format!("({text}{joined}{text})");
        }
        text
    };
    let filters = [
        repeated("i32", " && "),
        balanced("i32 == 7", " && ", 11),
        balanced("s == 'abc'", " || ", 11),
        balanced("d < i64", " || ", 11),
        balanced("f < 0.25", " || ", 8),
        balanced("s == '*b*'", " || ", 6),
        balanced("s == '*b*'", " || ", 8),
        balanced("procname == 'x'", " || ", 8),
        balanced("seq[1] == 1", " || ", 9),
        format!("i32 in ({})", repeated("1", ",")),
        format!("i32 in ({})", (0..9000).map(|n| (3 * n).to_string()).collect::<Vec<_>>().join(",")),
        format!("s in ({})", repeated("'ab'", ",")),
        format!("s =~ \"{}\"", repeated("a", "")),
        format!("s =~ \"{}\"", repeated("(a|b)", "")),
        format!("s =~ \"{}\"", repeated("a*", "")),
        format!("s == '{}'", repeated("a", "*")),
        format!("arr{}", repeated("[0]", "")),
        format!("o{}", repeated(".x", "")),
    ];
    for text in filters {
        for dialect in [Dialect::Lttng, Dialect::Weir] {
            if compile(&text, dialect, &schema()).is_ok() {
                runs(&text, dialect);
            }
        }
    }
}

/// Through every stage that takes it; a stage may refuse it, but for reasons of size alone.
fn runs(text: &str, dialect: Dialect) {
    let (mut module, _) = compile(text, dialect, &schema()).unwrap();
    weir_ir::pass::optimise(&mut module);
    let options =
        weir_codegen::Options { ring_bytes: 4096, counts_hits: false, ..weir_codegen::Options::default() };
    let compiled = match weir_codegen::compile_with(&module, &options) {
        Ok(compiled) => compiled.into_file(),
        Err(error) => {
            let message = error.to_string();
            let of_size =
                ["instructions, and the limit", "bytes of stack", "bytes at once", "tables of its patterns"];
            assert!(of_size.iter().any(|part| message.contains(part)), "{message}");
            return;
        }
    };
    let program = &compiled.object.programs[0];
    let verified = weir_verifier::verify(program, &compiled.object.maps, &crate::reference::limits());
    if let Err(rejection) = verified {
        assert_eq!(rejection.kind, weir_verifier::RejectionKind::TooBig, "{rejection}");
        return;
    }
    let ready = Ready::of(text, dialect).unwrap();
    let mut random = Random(7);
    for _ in 0..3 {
        let mut raised = raise(&values(&mut random));
        assert_eq!(ready.compiled(&mut raised.frame), ready.interpreted(&mut raised.frame));
    }
}
