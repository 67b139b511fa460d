//! Every function of a program at once, with libc, libstdc++ and the unwinder where they are inside: what a probe stands on
//! is probed itself (tests/programs/*).

use crate::adversarial::check::{check_everything, programs, same, traced, unprobed};

/// In the static build alone: the others' functions are all probed elsewhere.
#[track_caller]
fn check(file: &str, way: &str) {
    for program in programs(file, &["-lm"]).into_iter().filter(|program| program.is_static) {
        check_everything(&program.with(&[way]));
    }
}

#[test]
fn longjmp() {
    check("control.c", "longjmp");
}

#[test]
fn siglongjmp() {
    check("control.c", "siglongjmp");
}

#[test]
fn contexts() {
    check("control.c", "ucontext");
}

#[test]
fn cancelled_threads() {
    check("control.c", "cancel");
}

#[test]
fn exiting_threads() {
    check("control.c", "exit");
}

#[test]
fn backtraces() {
    check("control.c", "backtrace");
}

#[test]
fn alternate_stacks() {
    check("control.c", "alternate-stack");
}

#[test]
fn exceptions() {
    check("control.cpp", "throw");
}

#[test]
fn nested_exceptions() {
    check("control.cpp", "rethrow");
}

#[test]
fn exceptions_between_threads() {
    check("control.cpp", "futures");
}

#[test]
fn termination() {
    check("control.cpp", "noexcept");
}

#[test]
fn allocation() {
    check("reentry.c", "malloc");
}

#[test]
fn allocation_in_threads() {
    check("reentry.c", "threads");
}

#[test]
fn every_implementation_of_memcpy() {
    check("reentry.c", "memcpy");
}

#[test]
fn locks() {
    check("reentry.c", "locks");
}

#[test]
fn output() {
    check("reentry.c", "write");
}

#[test]
fn clocks() {
    check("reentry.c", "clock");
}

#[test]
fn formatting() {
    check("reentry.c", "binding");
}

#[test]
fn arguments() {
    check("arguments.c", "all");
}

/// libc and the loader of a dynamic program, while it loads, binds and unloads.
#[test]
fn libc_and_the_loader() {
    let script = "config = { max_probes = 10000 } uprobe:libc:*, uprobe:/lib64/ld-linux-x86-64.so.2:* { @[func] = count(); }";
    for program in programs("reentry.c", &["-ldl"]).into_iter().filter(|program| !program.is_static) {
        for way in ["loader", "threads", "binding"] {
            let program = program.clone().with(&[way]);
            let traced = traced(&program, script);
            same(&program, &unprobed(&program), &traced.run);
            assert!(traced.hits.len() > 8, "{}: {}", program.name, traced.output);
        }
    }
}
