//! Corners that a random expression seldom meets, in both dialects.

use weir_filter::Dialect;

use crate::reference::event::Datum;
use crate::reference::run;

/// Integers that LTTng's own runs were made with, "abc" in `s`, NULL in `t`, and something in each part.
fn event() -> Vec<Datum> {
    let ints = [-1, 7, 5, 10, 3, -1].map(Datum::Int);
    let texts = [Datum::Str(Some(b"abc".to_vec())), Datum::Str(None)];
    let others = [
        Datum::Double(0.5),
        Datum::Double(f64::from(0.1f32)),
        Datum::Int(2),
        Datum::Ints(vec![10, -20, 30]),
        Datum::Ints(vec![7]),
        Datum::Struct(-3, 2.5, Some(b"/tmp/x.log".to_vec()), [1, 255]),
    ];
    ints.into_iter().chain(texts).chain(others).collect()
}

#[track_caller]
fn check(dialect: Dialect, text: &str, expected: bool) {
    assert_eq!(run(text, dialect, &[event()]), Ok(vec![expected]), "{text}");
}

#[test]
fn lttng_corners_are_as_its_own_runs_show() {
    let check = |text, expected| check(Dialect::Lttng, text, expected);
    check("1 & 3 == 1", true);
    check("(i64 && 5) == 1", false);
    check("(0 || 5) == 1", false);
    check("(5 || i64) == 1", true);
    check("u64 < 0", true);
    check("u64 > 0", false);
    check("u64 == 18446744073709551615", true);
    check("!(nosuch == 1)", false);
    check("nosuch == 1 || i64 >= 0", false);
    check("i64 >= 0 || 1 << 64", true);
    check("1 << 64 || i64 >= 0", false);
    check("!(1 << -1)", false);
    check("-1 >> 63 == 1", true);
    check("s > 'abb' && s < \"abd\" && s == 'a*'", true);
    check("t == '(null)'", true);
    check("t == '(nul*'", true);
    check("t != '*'", false);
    check("$ctx.vpid > 0", true);
}

#[test]
fn lttng_takes_stars_anywhere_and_an_error_for_the_whole_filter() {
    let check = |text, expected| check(Dialect::Lttng, text, expected);
    check("s == 'a*c' && s == '*b*' && s != 'a*b'", true);
    check("t == '(*)'", true);
    check("s == 'a**c'", true);
    check("s == 'a\\*c'", false);
    check("seq[0] == 7 && seq[1] == 0", false);
    check("i64 >= 0 || seq[9] == 1", true);
    check("seq[9] == 1 || i64 >= 0", false);
    check("!(seq[9] == 1)", false);
    check("arr[1] == -20", true);
    check("arr[3] == 1 || i64 >= 0", false);
    check("arr[0][99] == 10", true);
    check("o.x == -3", false);
}

#[test]
fn lttng_takes_numbers_with_a_fraction_as_its_own_runs_show() {
    let check = |text, expected| check(Dialect::Lttng, text, expected);
    check("d != 0", true);
    check("d", false);
    check("-d", false);
    check("!d", false);
    check("!(d && 1)", true);
    check("0.5 && 1", false);
    check("(1 && -1.5) == -1", true);
    check("d == .5 && d == 5e-1 && d == 0x1p-1", true);
    check("f > 0.1 && f < 0.100000002", true);
    check("d < i64 && -d > -1", true);
    check("9007199254740993 == 9007199254740992.0", true);
    check("e == 2 && e != 3", true);
}

#[test]
fn weir_takes_types_for_what_they_are() {
    let check = |text, expected| check(Dialect::Weir, text, expected);
    check("u64 > 0 && u64 > i8 && i8 < u64", true);
    check("i8 == u64", false);
    check("i64 + 2 * 3 == 11", true);
    check("i64 / (i64 - 5) == 0", false);
    check("!(i64 / (i64 - 5) == 0)", true);
    check("i64 / (i64 - 5) == 0 || i32 == 7", true);
    check("i8 >> 1 == -1", true);
    check("u64 >> 63 == 1", true);
    check("t == '*'", false);
    check("t != 'x'", false);
    check("s == 'abc' && s != 'ab' && s != 'abcd'", true);
    check("pid > 0", true);
}

#[test]
fn weir_reads_parts_and_labels() {
    let check = |text, expected| check(Dialect::Weir, text, expected);
    check("o.x == -3 && o.y == 2.5 && o.z == '/tmp/*' && o.w[1] == 255", true);
    check("arr[1] < 0 && arr[2] > 29", true);
    check("seq[0] == 7", true);
    check("seq[1] == 7", false);
    check("seq[1] != 7", false);
    check("!(seq[1] != 7)", true);
    check("seq[1] in (7)", false);
    check("e == 'RUN' && e == 'RU*' && e != 'IDLE'", true);
    check("'RUNNING' == e", false);
    check("e == 2", true);
    check("e in ('IDLE', 'RUN', 77)", true);
}

#[test]
fn weir_compares_values_whatever_the_types() {
    let check = |text, expected| check(Dialect::Weir, text, expected);
    check("9007199254740993 == 9007199254740992.0", false);
    check("9007199254740993 > 9007199254740992.0", true);
    check("u64 < 18446744073709551616.0", true);
    check("u64 > i8 && d > i8", true);
    check("d < i64 && i64 > d && d > i8", true);
    check("d in (0.25..0.75) && !(d in (0, 1))", true);
    check("i64 in (1, 3..5, 100) && !(i64 in (1..4))", true);
    check("u64 in (18446744073709551615)", true);
    check("i8 in (-128..-1)", true);
    check("s in ('x', 'a*c') && !(s in ('x', 'y*'))", true);
    check("t in ('*')", false);
}

#[test]
fn weir_finds_regular_expressions_anywhere() {
    let check = |text, expected| check(Dialect::Weir, text, expected);
    check("o.z =~ \"[.]log$\" && o.z =~ \"^/tmp/\" && o.z =~ \"x\"", true);
    check("o.z !~ \"^tmp\"", true);
    check("t =~ \"\"", false);
    check("t !~ \"x\"", false);
    check("s =~ \"^(abc|x)$\"", true);
    check("s =~ '(?i)B'", true);
}

#[test]
fn contexts_are_those_of_the_thread() {
    let thread = std::thread::Builder::new().name("filtered".into());
    let checked = thread.spawn(|| {
        check(Dialect::Weir, "procname == 'filtered' && procname == 'f*d' && procname > 'filter'", true);
        check(
            Dialect::Weir,
            "procname =~ \"^fil\" && procname in ('a', 'filt*') && procname != 'filtere'",
            true,
        );
        check(Dialect::Lttng, "$ctx.procname == 'filtered' && $ctx.procname < 'filterfe*'", true);
        check(Dialect::Lttng, "$ctx.vuid == 0 || $ctx.vuid > 0", true);
        check(Dialect::Weir, &format!("uid == {}", user()), true);
    });
    checked.unwrap().join().unwrap();
}

/// Of this process, as `/proc` shows it.
fn user() -> u32 {
    use std::os::linux::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().st_uid()
}

#[test]
fn cheap_sides_come_first_and_nothing_else_changes() {
    use weir_ir::{Op, text};
    let order = |filter: &str, dialect| {
        let (module, _) = weir_filter::compile(filter, dialect, &crate::reference::schema()).unwrap();
        let insts = module.functions[0].blocks.iter().flat_map(|block| &block.insts);
        let is_match = |op: &Op| matches!(op, Op::Match { .. });
        let first_match = insts.clone().position(|inst| is_match(&inst.op));
        let shifts = |op: &Op| matches!(op, Op::Bin(weir_ir::BinOp::Shl, ..));
        let shift = insts.clone().position(|inst| shifts(&inst.op));
        let slot = insts.clone().position(|inst| inst.op == Op::Builtin(weir_ir::Builtin::Slot(1)));
        assert!(first_match.is_some() && slot.is_some(), "{}", text::print(&module));
        (first_match > slot, shift.is_some() && first_match > shift)
    };
    assert_eq!(order("s == '*b*' && i32 == 7", Dialect::Weir), (true, false));
    assert_eq!(order("s == '*b*' && i32 == 7", Dialect::Lttng), (true, false));
    // A shift that may be an error stays where it is, and what stands before it stays before.
    assert_eq!(order("s == '*b*' && 1 << i64 && i32 == 7", Dialect::Lttng), (false, false));
    assert_eq!(order("s == '*b*' && 1 << i64 && i32 == 7", Dialect::Weir), (true, true));
    // The value of `&&` is that of its last side.
    check(Dialect::Lttng, "(s == '*b*' && i32) == 7", true);
}
