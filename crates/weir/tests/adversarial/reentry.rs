//! Probes on what a tracer might itself stand on: allocation, copying, locks, output, thread-local storage, clocks and
//! the loader (tests/programs/reentry.c).

use crate::check::{check, programs};

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
