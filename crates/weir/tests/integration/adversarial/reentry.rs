//! Probes on what a tracer might itself stand on: allocation, copying, locks, output, thread-local storage, clocks and
//! the loader (tests/programs/reentry.c); and code that runs before there is anything to stand on
//! (tests/programs/constructors.c).

use crate::adversarial::check::{check, check_launched, launched, launched_unprobed, programs, same};

#[track_caller]
fn check_way(way: &str) {
    for program in programs("reentry.c", &["-ldl"]) {
        // Static programs have no loader.
        if !(program.is_static && ["locals", "loader"].contains(&way)) {
            check(&program.with(&[way]));
        }
    }
}

#[test]
fn malloc_and_free() {
    check_way("malloc");
}

#[test]
fn allocation_in_eight_threads() {
    check_way("threads");
}

#[test]
fn locks_of_six_threads() {
    check_way("locks");
}

#[test]
fn write() {
    check_way("write");
}

#[test]
fn tls_get_addr() {
    check_way("locals");
}

#[test]
fn clock_gettime() {
    check_way("clock");
}

#[test]
fn the_loader() {
    check_way("loader");
}

/// Resolvers of a static program run before there is thread-local storage; those of others while the loader relocates.
#[test]
fn resolvers_constructors_and_destructors() {
    for program in programs("constructors.c", &[]) {
        // By its other name it is nothing but a resolver.
        check_launched(&program, &[("resolves", "indirect-function")]);
    }
}

/// The loader's functions run before anything else does, thread-local storage among it.
#[test]
fn every_function_of_the_loader_from_the_first_instruction_on() {
    for program in programs("constructors.c", &[]).iter().filter(|program| !program.is_static) {
        let script = "uprobe:/lib64/ld-linux-x86-64.so.2:* { @[func] = count(); @by[tid] = max(nsecs); }";
        let traced = launched(program, script);
        same(program, &launched_unprobed(program), &traced.run);
        assert!(traced.hits.values().sum::<u64>() > 10, "{}: {}", program.name, traced.output);
    }
}
