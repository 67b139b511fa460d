//! Ways of leaving a function that are not its return: tests/programs/control.c, control.cpp, foreign.rs and foreign.cpp.

use testkit::paths::quoted;
use testkit::target::{self, Source, is_installed};

use crate::adversarial::check::{Program, check, check_entries, programs, same, traced, unprobed};

#[track_caller]
fn check_way(way: &str) {
    for program in programs("control.c", &[]) {
        check(&program.with(&[way]));
    }
}

#[track_caller]
fn check_exceptions(way: &str) {
    for program in programs("control.cpp", &[]) {
        check(&program.with(&[way]));
    }
}

#[test]
fn longjmp_a_million_times() {
    check_way("longjmp");
}

#[test]
fn siglongjmp_from_a_handler_that_hit_a_probe() {
    check_way("siglongjmp");
}

#[test]
fn fibres_of_ucontext() {
    check_way("ucontext");
}

#[test]
fn fibres_that_go_on_in_other_threads() {
    check_way("migrate");
}

#[test]
fn fibres_made_by_hand() {
    check_way("by-hand");
}

#[test]
fn ten_million_tail_calls() {
    check_way("tail-calls");
}

#[test]
fn an_alternate_stack_with_two_kibibytes_to_spare() {
    check_way("alternate-stack");
}

/// What programs of any kind take of the little that is left: they read strings, also at addresses that are not there,
/// hash and write records.
#[test]
fn the_end_of_a_stack_is_enough_for_every_program() {
    const BODY: &str = "@[func] = count(); @text[str(arg0)] = count(); @by[arg0, tid, comm] = sum(arg1); \
        @values = hist(arg1); if (arg1 % 64 == 0) { printf(\"%s %d %d\\n\", str(arg0), arg1, nsecs); }";
    for (way, name) in [("alternate-stack", "on_small_stack"), ("recursion-to-the-end", "recurses")] {
        for program in programs("control.c", &[]) {
            let program = program.with(&[way]);
            let traced = traced(&program, &format!("uprobe:{}:{name} {{ {BODY} }}", quoted(&program.path)));
            same(&program, &unprobed(&program), &traced.run);
            assert_eq!(traced.hits[name], traced.run.calls[name], "{}: {}", program.name, traced.messages);
        }
    }
}

/// The same at returns, where each call has kept what it keeps.
#[test]
fn the_end_of_a_stack_is_enough_for_every_program_at_returns() {
    const BODY: &str = "@[func] = count(); @text[str(retval)] = count(); @by[retval, tid, comm] = sum(retval); \
        @values = hist(retval); if (retval % 64 == 0) { printf(\"%s %d %d\\n\", str(retval), retval, nsecs); }";
    for (way, name) in [("alternate-stack", "on_small_stack"), ("recursion-at-returns", "recurses_exactly")] {
        for program in programs("control.c", &[]) {
            let program = program.with(&[way]);
            let site = format!("uretprobe:{}:{name}", quoted(&program.path));
            let traced = traced(&program, &format!("{site} {{ {BODY} }}"));
            same(&program, &unprobed(&program), &traced.run);
            assert_eq!(traced.hits[name], traced.run.calls[name], "{}: {}", program.name, traced.messages);
        }
    }
}

#[test]
fn recursion_to_the_end_of_a_stack() {
    // What is kept until a function returns would make it end sooner.
    for program in programs("control.c", &[]) {
        check_entries(&program.with(&["recursion-to-the-end"]));
    }
}

/// A call that is called through keeps 24 bytes for a session, and a return address; of the rest of the stack nothing
/// is taken that entries do not take.
#[test]
fn recursion_at_returns_to_the_end_of_a_stack() {
    check_way("recursion-at-returns");
}

#[test]
fn deep_recursion() {
    check_way("deep-recursion");
}

#[test]
fn cancelled_threads_clean_up() {
    check_way("cancel");
}

#[test]
fn threads_cancelled_at_any_instruction() {
    check_way("cancel-anywhere");
}

#[test]
fn threads_that_exit_inside_clean_up() {
    check_way("exit");
}

#[test]
fn backtraces_show_the_same_frames() {
    check_way("backtrace");
}

#[test]
fn exceptions_of_every_type_go_through() {
    check_exceptions("throw");
}

#[test]
fn exceptions_are_rethrown_and_nested() {
    check_exceptions("rethrow");
}

#[test]
fn initialisers_of_statics_throw() {
    check_exceptions("static-init");
}

#[test]
fn noexcept_terminates() {
    check_exceptions("noexcept");
}

#[test]
fn exceptions_nobody_catches_terminate() {
    check_exceptions("uncaught");
}

#[test]
fn exceptions_cross_threads() {
    check_exceptions("futures");
}

#[test]
fn eight_threads_throw_at_once() {
    check_exceptions("threads");
}

#[test]
fn panics_go_through_cplusplus_and_exceptions_through_rust() {
    for (compiler, optimization, level) in [("g++", "-O2", "opt-level=2"), ("clang++", "-O0", "opt-level=0")]
    {
        if !is_installed(compiler) {
            testkit::skip::skip(compiler, "not installed; foreign.cpp is not tested as compiled by it");
            continue;
        }
        let flags = [optimization, "-fPIC", "-c"];
        let half = target::build_with(compiler, "foreign-half", Source::Program("foreign.cpp"), &flags);
        let link = format!("link-arg={}", half.display());
        let flags = ["--edition", "2021", "-C", level, "-C", &link, "-l", "dylib=stdc++"];
        let path = target::build_with("rustc", "foreign", Source::Program("foreign.rs"), &flags);
        check(&Program::new(&format!("foreign.rs and foreign.cpp by {compiler}"), path));
    }
}
