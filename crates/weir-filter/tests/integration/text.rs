//! Filters as text: what is refused and where, how operators bind, and that hostile text does no harm.

use weir_event::schema::{Field, Form, Schema, Type};
use weir_filter::{Dialect, ast, compile, parse};
use weir_source::Severity;

fn schema() -> Schema {
    let types = [
        ("size", Type::Int { bytes: 4, signed: false }),
        ("count", Type::Int { bytes: 8, signed: false }),
        ("result", Type::Int { bytes: 8, signed: true }),
        ("name", Type::Str),
        ("path", Type::Str),
        ("ratio", Type::Float { bytes: 8 }),
        ("items", Type::Array { element: Box::new(Type::Int { bytes: 4, signed: true }), count: 4 }),
        ("share", Type::Float { bytes: 4 }),
        (
            "state",
            Type::Enum {
                bytes: 1,
                signed: false,
                labels: vec![("IDLE".into(), 0, 0), ("RUNNING".into(), 1, 3), ("RUNNABLE".into(), 4, 4)],
            },
        ),
        (
            "at",
            Type::Struct {
                fields: vec![
                    ("line".into(), 0, Type::Int { bytes: 4, signed: false }),
                    ("names".into(), 8, Type::Sequence { element: Box::new(Type::Str) }),
                ],
            },
        ),
        ("bytes", Type::Sequence { element: Box::new(Type::Int { bytes: 1, signed: false }) }),
    ];
    let fields = types.into_iter().enumerate();
    let field = |(slot, (name, ty)): (usize, (&str, Type))| Field {
        name: name.into(),
        ty,
        slot: slot as u8,
        form: Form::default(),
    };
    Schema { provider: "p".into(), event: "e".into(), level: None, fields: fields.map(field).collect() }
}

/// The first fault has this message, is about this text, and its hint has these words.
#[track_caller]
fn refused(dialect: Dialect, text: &str, message: &str, at: &str, hint: &str) {
    let faults = compile(text, dialect, &schema()).expect_err(text);
    let fault = &faults[0];
    assert!(fault.message.contains(message), "{text}: {}", fault.message);
    assert_eq!(&text[fault.span.start as usize..fault.span.end as usize], at, "{text}");
    assert!(fault.hint.as_deref().unwrap_or_default().contains(hint), "{text}: {:?}", fault.hint);
}

#[track_caller]
fn binds(text: &str, expected: &str) {
    assert_eq!(ast::text(&parse(text).unwrap()), expected, "{text}");
}

#[test]
fn bit_operators_bind_tighter_than_comparisons() {
    binds("a & 3 == 1", "((a & 3) == 1)");
    binds("a | b ^ c & d << 1 + 2 * 3", "(a | (b ^ (c & (d << (1 + (2 * 3))))))");
    binds("a == b < c", "(a == (b < c))");
    binds("a || b && c || d", "((a || (b && c)) || d)");
    binds("a - b - c", "((a - b) - c)");
    binds("-a * !b", "(-(a) * !(b))");
    binds("$ctx.vpid == 0x10 && s == L'a**\\*\\\\'", r#"(($ctx.vpid == 16) && (s == "a*\*\\"))"#);
    binds("a.b->c[1][2] & 1 == 1", "((a.b.c[1][2] & 1) == 1)");
    binds("a & 7 in (1, -2, 3..0x10) == b", "(((a & 7) in (1, -2, 3..16)) == b)");
    binds("!x in ('a', \"b*\") && y", "((!(x) in (\"a\", \"b*\")) && y)");
    binds("a =~ 'x\"y' || b !~ \"^\\\"$\"", "((a =~ 'x\"y') || (b !~ '^\"$'))");
    binds("!~a == -.5", "(!(~(a)) == -(0.5))");
    binds("d == 0x1.8p1 || d in (1.5..2.5, -1)", "((d == 3.0) || (d in (1.5..2.5, -1)))");
    binds("a == 1 sample 1/100 rate 5/min", "(a == 1) sample 1/100 rate 5/min");
    binds("a /* one */ == // two\n 017ULL", "(a == 15)");
}

#[test]
fn syntax_faults_are_told_where_they_are() {
    let refused = |text, message, at, hint| refused(Dialect::Lttng, text, message, at, hint);
    refused("size >", "found the end", "", "a filter is such as");
    refused("size = 1", "unexpected character `=`", "=", "`==`");
    refused("(size > 1", "not closed", "(", "add `)`");
    refused("size > 1)", "no parenthesis", ")", "remove");
    refused("size > 1 count", "expected an operator, found `count`", "count", "`&&`");
    refused("name == \"abc", "string is not closed", "\"abc", "add `\"`");
    refused("name == 'a\\n'", "unknown escape `\\n`", "\\n", "quotes of the other kind");
    refused("caf\\u00e9 == 1", "universal character names", "\\u00e9", "ASCII");
    refused("size == 08", "`08` is no number", "08", "octal");
    refused("size == 18446744073709551616", "does not fit", "18446744073709551616", "largest");
    refused("$foo == 1", "`$foo` names nothing", "$foo", "$ctx");
    refused("ratio == 1.5.2", "`1.5.2` is no number", "1.5.2", "0x1.8p3");
    refused("items[1 == 1", "the bracket is not closed", "[", "add `]`");
    refused("items[-1] == 1", "an index is a constant", "-", "items[3]");
    refused("at. == 1", "the name of a member is missing", ".", "a.b");
    refused("$ctx.vpid[1] == 1", "a context has no parts", "[", "");
    refused("size in 1", "`in` has a list behind it", "in", "x in (1, 2");
    refused("size in (1, 2", "the list is not closed", "(", "add `)`");
    refused("size in (1, count)", "expected a number or a string", "count", "constants");
    refused("size in (1 2)", "expected `,`, `..` or `)`", "2", "constants");
    refused("name =~ count", "expected a regular expression in quotes", "c", "path =~");
    refused("name =~ \"a", "the regular expression is not closed", "\"a", "add `\"`");
    refused("(size > 1 sample 1/2", "not closed", "(", "add `)` before `sample`");
    refused("size > 1 sample 1/2 sample 1/3", "`sample` is there twice", "sample 1/3", "");
    refused("size > 1 sample 3/2", "a sample of more than all", "sample 3/2", "1/100");
    refused("size > 1 sample 0/2", "out of range", "0", "from 1 to 4294967295");
    refused("size > 1 rate 5/day", "a unit of time", "day", "`s`, `min` or `h`");
    refused("size > 1 rate 5/s && count", "nothing but `sample` and `rate`", "&&", "behind the whole");
}

#[test]
fn faults_of_meaning_are_told_where_they_are() {
    let refused = |text, message, at, hint| refused(Dialect::Weir, text, message, at, hint);
    refused("siez > 1", "no field `siez`", "siez", "did you mean `size`?");
    refused("zebra > 1", "no field `zebra`", "zebra", "it has size, count");
    refused("name", "a string is no condition", "name", "compare it");
    refused("size == \"a\"", "a string is compared with a number", "size == \"a\"", "quotes");
    refused("name + 1 == 2", "`+` is not for strings", "name", "`==`");
    refused(
        "(size > 1) == 1",
        "compares a condition with a value",
        "(size > 1) == 1".trim_start_matches('('),
        "",
    );
    refused(
        "size < 0",
        "never be true: `size`, from 0 to 4294967295, is never `< 0`",
        "size < 0",
        "constant",
    );
    refused("4294967296 == size", "never be true", "4294967296 == size", "");
    refused("count == -1", "never be true", "count == -1", "");
    refused("name > 'a*b'", "`>` takes a star as the last character alone", "name > 'a*b'", "`==` and `!=`");
    refused("name < path", "not supported by weir yet: `<` of two string fields", "name < path", "`==`");
    refused("size > 1 && ~(size > 2) == 1", "`~` is not for conditions", "size > 2", "`!`");
}

#[test]
fn faults_of_parts_are_told_where_they_are() {
    let refused = |text, message, at, hint| refused(Dialect::Weir, text, message, at, hint);
    refused("items[4] == 1", "`items` has 4 elements, and none at 4", "[4]", "the first has the index 0");
    refused("items == 1", "`items` is an array or a sequence", "items", "`items[0]`");
    refused("items[0][1] == 1", "`items[0]` has no elements", "[1]", "only arrays");
    refused("at == 1", "`at` is a struct", "at", "it has `at.line`, `at.names`");
    refused("at.lime == 1", "`at` has no member `lime`", ".lime", "did you mean `line`?");
    refused("at.line.x == 1", "`at.line` has no members", ".x", "only structs");
    refused(
        "at.names[0] == 'x'",
        "not supported by weir yet: elements of `at.names`",
        "[0]",
        "arrays of them",
    );
    refused("size[0] == 1", "`size` has no elements", "[0]", "");
    refused("bytes[4294967296] == 1", "the index is too large", "[4294967296]", "");
    refused("procnaem == 'x'", "no field `procnaem`", "procnaem", "did you mean `procname`?");
    refused("$ctx.vpid == 1", "LTTng's dialect", "$ctx.vpid", "`pid`");
}

#[test]
fn faults_of_numbers_with_a_fraction_are_told_where_they_are() {
    let check = |text, message, at, hint| refused(Dialect::Weir, text, message, at, hint);
    check("ratio", "is no condition", "ratio", "`x != 0`");
    check("size > 1 && !ratio", "is no condition", "ratio", "`x != 0`");
    check("size > 1 || ratio", "is no condition", "ratio", "");
    check("ratio + 1 > 2", "`+` is not for numbers with a fraction", "ratio", "compared and negated");
    check("~ratio == 1", "`~` is not for numbers with a fraction", "ratio", "");
    check("size == 1.5", "`size`, from 0 to 4294967295, is never `== 1.5`", "size == 1.5", "");
    check("size < -0.5", "is never `< -0.5`", "size < -0.5", "");
    check("4294967295.5 < size", "is never `> 4294967295.5`", "4294967295.5 < size", "");
    check("share == 0.1", "`share`, of 4 bytes, is never `== 0.1`", "share == 0.1", "");
    check("ratio == 9007199254740993", "of 8 bytes, is never", "ratio == 9007199254740993", "");
    check("ratio > 1e999", "is never `> inf`", "ratio > 1e999", "");
    assert!(compile("share == 0.5 && ratio == 0.1 && ratio >= 1e999", Dialect::Weir, &schema()).is_ok());
    refused(Dialect::Lttng, "1.5", "is no condition", "1.5", "");
    // There the whole number is rounded.
    assert!(compile("ratio == 9007199254740993", Dialect::Lttng, &schema()).is_ok());
}

#[test]
fn faults_of_labels_and_lists_are_told_where_they_are() {
    let check = |text, message, at, hint| refused(Dialect::Weir, text, message, at, hint);
    check(
        "state == 'RUNING'",
        "never be true: there is no label \"RUNING\"",
        "'RUNING'",
        "mean \"RUNNING\"?",
    );
    check("state == 'X*'", "there is no label \"X*\"", "'X*'", "its labels are IDLE, RUNNING, RUNNABLE");
    check("state > 'IDLE'", "labels have no order for `>`", "state > 'IDLE'", "number");
    check("state == 256", "never be true: `state`, from 0 to 255,", "state == 256", "");
    check("state in ('IDEL')", "no label \"IDEL\"", "'IDEL'", "did you mean \"IDLE\"?");
    check("size in (1, -1)", "the value, from 0 to 4294967295, is never `-1`", "-1", "");
    check("size in (1, 9..2)", "never be true: nothing is in `9..2`", "9..2", "smaller end");
    check("size in (1, 'a')", "`\"a\"` among whole numbers", "'a'", "decides");
    check("size in (1.5)", "`1.5` among whole numbers", "1.5", "");
    check("ratio in (9007199254740993)", "is never `9007199254740993`", "9007199254740993", "");
    check("ratio in ('a')", "`\"a\"` among numbers", "'a'", "");
    check("name in ('a'..'b')", "`\"a\"..\"b\"` among strings", "'a'..'b'", "");
    check("(size > 1) in (1)", "only a field or a number can be `in` a list", "size > 1", "");
    check("size & 4 == 5", "never be true: with `& 4` no other bits are left", "size & 4 == 5", "");
    refused(Dialect::Lttng, "size in (1)", "LTTng's filters have no `in`", "size in (1)", "--dialect weir");
    refused(Dialect::Lttng, "size > 1 sample 1/2", "no samples and no rates", "sample 1/2", "--dialect weir");
}

#[test]
fn faults_of_regular_expressions_are_told_where_they_are() {
    let check = |text, message, at, hint| refused(Dialect::Weir, text, message, at, hint);
    check("name =~ \"a(b\"", "the regular expression is wrong: unclosed group", "(", "Rust's `regex`");
    check("name =~ \"\\bx\"", "not supported by weir yet: word boundaries", "\"\\bx\"", "");
    check("name =~ \"x.{40}\"", "needs more than 4096 states", "\"x.{40}\"", "counted repetitions");
    check("size =~ \"x\"", "`=~` is for strings", "size", "path =~");
    refused(
        Dialect::Lttng,
        "name !~ \"x\"",
        "LTTng's filters have no `!~`",
        "name !~ \"x\"",
        "--dialect weir",
    );
    assert!(compile("name =~ \"^a|b.*c$\"", Dialect::Weir, &schema()).is_ok());
}

#[test]
fn automata_are_bounded_in_number_and_size() {
    let many = |count: usize| vec!["name != '*a*'"; count].join(" && ");
    assert!(compile(&many(128), Dialect::Lttng, &schema()).is_ok());
    refused(Dialect::Lttng, &many(129), "matches too often: 129 ", &many(129), "regular expression");
    // A state for each byte, and a class for each that is different.
    let letters: String = (0..900).map(|n| char::from(b'0' + (n * 7 % 60) as u8)).collect();
    let letters = letters.replace(['\\', '\''], "/");
    let large: Vec<String> = (0..60).map(|n| format!("name != '*{n}{letters}*'")).collect();
    let large = large.join(" && ");
    refused(Dialect::Lttng, &large, "patterns are too large", &large, "");
}

#[test]
fn every_fault_is_told_at_once() {
    let faults = compile("siez > 1 && size < 0 || nmae == 'a'", Dialect::Weir, &schema()).unwrap_err();
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn lttng_forgives_a_missing_field_and_says_so() {
    let (_, warnings) = compile("siez > 1 || size > 1", Dialect::Lttng, &schema()).unwrap();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].severity, Severity::Warning);
    assert!(warnings[0].message.contains("nothing passes the filter"), "{}", warnings[0].message);
    refused(Dialect::Lttng, "size + 1 == 2", "have no `+`", "size + 1", "--dialect weir");
    for text in [
        "at.line == 1",
        "items[4] == 1",
        "ratio",
        "-ratio",
        "ratio & 1",
        "state == 'IDLE'",
        "name == 1",
        "size > 1 || !name",
        "size > 1 || name && size",
    ] {
        let (_, warnings) = compile(text, Dialect::Lttng, &schema()).expect(text);
        assert!(warnings[0].message.contains("nothing passes the filter"), "{text}: {}", warnings[0].message);
    }
    let (_, warnings) = compile("items[0][9] == 1", Dialect::Lttng, &schema()).unwrap();
    assert!(warnings[0].message.contains("first index alone"), "{}", warnings[0].message);
    // What nothing fulfils is evaluated all the same.
    let (_, warnings) = compile("size < 0 || size > 1", Dialect::Lttng, &schema()).unwrap();
    assert!(warnings[0].message.starts_with("this can never be true"), "{}", warnings[0].message);
    // Of 8 bytes all are signed there.
    assert!(compile("count < 0", Dialect::Lttng, &schema()).is_ok());
}

#[test]
fn depth_is_bounded_and_its_bound_needs_no_more_stack_than_a_thread_has() {
    let chain = |operators: usize| format!("size{}", " && size".repeat(operators));
    let nested = |operators: usize| format!("{}size", "!".repeat(operators));
    for text in [chain(1024), nested(1024)] {
        let (module, _) = compile(&text, Dialect::Lttng, &schema()).unwrap();
        assert_eq!(weir_ir::check::check(&module), Ok(()));
        assert!(!ast::text(&parse(&text).unwrap()).is_empty());
    }
    let sums = format!("{}size{} > 1", "(1 + ".repeat(1000), ")".repeat(1000));
    compile(&sums, Dialect::Weir, &schema()).unwrap();
    for text in [chain(1025), nested(1025)] {
        let fault = parse(&text).unwrap_err();
        assert!(fault.message.contains("more than 1024 operators"), "{}", fault.message);
    }
}

#[test]
fn hostile_text_is_refused_or_compiled_but_does_no_harm() {
    let long = "(".repeat(64 << 10);
    assert!(parse(&long).unwrap_err().message.contains("found the end"));
    assert!(
        parse(&format!("{long} ")).unwrap_err().message.contains("too long: 65537 bytes, the limit is 65536")
    );
    let wrapped = format!("{}size > 1{}", "(".repeat(30_000), ")".repeat(30_000));
    compile(&wrapped, Dialect::Weir, &schema()).unwrap();
    for text in [
        "",
        " ",
        "\0",
        "é",
        "\"",
        "'\\",
        "L",
        "$",
        "$ctx",
        "$ctx.",
        "!",
        "/*",
        "0x",
        "1e",
        "::",
        "((",
        "))",
        "a.b",
        "-",
        "a[",
        "a[1",
        "a.",
        "a in",
        "a in (",
        "a in (1",
        "a in (1..",
        "a =~",
        "a =~ \"",
        "a =~ '\\",
        "a sample",
        "a rate 1",
        "a rate 1/",
        "1..2",
        "0x1p",
        "'a' in ('a')",
        "name =~ \"\"",
        "a..b",
        "!~",
    ] {
        for dialect in [Dialect::Lttng, Dialect::Weir] {
            let _ = compile(text, dialect, &schema());
        }
    }
}
