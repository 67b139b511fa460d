//! Everything that a program's state consists of goes through probed functions unchanged, in and out: general registers,
//! flags, x87, MXCSR, vectors and masks of every width, with programs that count, read strings, hash and write records.
//!
//! tests/programs/state.c makes the state, from fixed seeds, and compares.

use testkit::paths::quoted;
use testkit::skip;

use crate::adversarial::check::{self, programs};

/// Calls of each of its functions in one run.
const CALLS: &str = "1500";
const PROBED: [&str; 4] = ["state_long", "state_several", "state_short", "state_signal"];

/// The functions of every build of the program are probed with `body`; half of its calls run with the alignment check.
#[track_caller]
fn check(body: &str) {
    check_script(&[], &PROBED, |sites| format!("{} {{ {body} }}", sites("uprobe")), body.contains(COUNT));
}

/// The same at their returns, and at both ends; of those that do not look at their stack pointer.
#[track_caller]
fn check_returns(body: &str) {
    let probed = ["state_long", "state_several", "state_signal"];
    let flags = ["-DNO_STACK_POINTER"];
    check_script(
        &flags,
        &probed,
        |sites| format!("{} {{ {body} }}", sites("uretprobe")),
        body.contains(COUNT),
    );
    let both = |sites: &dyn Fn(&str) -> String| {
        let (entries, returns) = (sites("uprobe"), sites("uretprobe"));
        format!(
            "{entries} {{ @start[tid] = nsecs; }} {returns} {{ {body} @ns = hist(nsecs - @start[tid]); }}"
        )
    };
    check_script(&flags, &probed, both, body.contains(COUNT));
}

#[track_caller]
fn check_script(
    flags: &[&str],
    probed: &[&str],
    script: impl Fn(&dyn Fn(&str) -> String) -> String,
    is_counted: bool,
) {
    for program in programs("state.c", flags) {
        let program = program.with(&[CALLS, "ac", "signals"]);
        let path = quoted(&program.path);
        let sites = |provider: &str| {
            let sites: Vec<String> = probed.iter().map(|name| format!("{provider}:{path}:{name}")).collect();
            sites.join(", ")
        };
        let traced = check::traced(&program, &script(&sites));
        assert_eq!(traced.run.status, "exit status: 0", "{}: {:?}", program.name, traced.run);
        assert!(traced.run.lines.contains(&"same".to_owned()), "{}: {:?}", program.name, traced.run);
        for line in traced.run.lines.iter().filter_map(|line| line.strip_prefix("lacks ")) {
            skip::skip(&format!("state-{line}"), "this processor does not have it");
        }
        for name in probed.iter().filter(|_| is_counted) {
            assert_eq!(traced.hits.get(*name), traced.run.calls.get(*name), "{name} in {}", program.name);
        }
    }
}

#[test]
fn survives_programs_that_do_nothing() {
    check("");
}

#[test]
fn survives_counting() {
    check(COUNT);
}

const COUNT: &str = "@[func] = count();";

#[test]
fn survives_strings_at_bad_and_odd_addresses() {
    check(&format!("{COUNT} @text[str(arg0)] = count();"));
}

#[test]
fn survives_hashing_and_aggregating() {
    check(&format!(
        "{COUNT} @by[arg0 & 63, arg1 & 15] = sum(arg2); @values = hist(arg3); @lines = lhist(arg4, 0, 100, 5); \
         @kinds[func, tid] = stats(arg5); @last[arg1 & 7] = arg2; delete(@by, (arg0 & 63, arg2 & 15));"
    ));
}

#[test]
fn survives_records_and_clocks() {
    check(&format!(
        "{COUNT} if (arg1 % 16 == 0) {{ printf(\"%s %d %d\\n\", str(arg0), arg1, nsecs); }} @t = max(nsecs);"
    ));
}

const FLOATS: &str = "@positive[farg0 > 0, farg1 == farg2, farg3 < 1.5] = count(); \
     @values = hist((int64)farg4); @small = stats((int64)(float)farg5); @last[arg1 & 7] = farg6; \
     if (arg1 % 64 == 0) { printf(\"%g %e\\n\", farg7, (float)farg7); }";

#[test]
fn survives_reading_floating_point_arguments() {
    check(&format!("{COUNT} {FLOATS}"));
}

#[test]
fn survives_reading_floating_point_results() {
    check_returns(&format!(
        "{COUNT} @positive[fretval > 0] = count(); @values = hist((int64)fretval); \
         if (retval % 64 == 0) {{ printf(\"%g %f\\n\", fretval, (float)fretval); }}"
    ));
}

#[test]
fn survives_programs_at_returns_that_do_nothing() {
    check_returns("");
}

#[test]
fn survives_counting_returns() {
    check_returns(COUNT);
}

#[test]
fn survives_hashing_and_strings_at_returns() {
    check_returns(&format!(
        "{COUNT} @by[retval & 63] = count(); @values = hist(retval); @text[str(retval)] = count(); \
         if (retval % 16 == 0) {{ printf(\"%d %d\\n\", retval, nsecs); }}"
    ));
}

/// What the comparison is worth: a function that changes one thing is found.
#[test]
fn finds_one_thing_changed() {
    for (damage, found) in [
        ("inc %r11", "r11"),
        ("mov %rsp, %rbp", "rbp"),
        ("cld", "flags"),
        ("test %rsp, %rsp", "flags"),
        ("pcmpeqd %xmm9, %xmm9", "xmm"),
        ("fldz", "x87"),
        ("vzeroupper", "avx"),
        ("push $0x1f80; ldmxcsr (%rsp); lea 8(%rsp), %rsp", "MXCSR"),
        ("movq $1, 16(%rsp)", "above"),
    ] {
        let flag = format!("-DDAMAGE=\"{damage}\\n\"");
        for program in programs("state.c", &[&flag]).into_iter().take(1) {
            let run = check::unprobed(&program.with(&["30"]));
            if run.lines.contains(&format!("lacks {found}")) {
                continue;
            }
            let is_found = |line: &String| line.contains("state_control: ") && line.contains(found);
            let is_said = run.lines.iter().any(|line| is_found(line) || line.starts_with(found));
            assert!(is_said && run.status != "exit status: 0", "{damage}: {run:?}");
        }
    }
}
