//! Shapes that tests of weir-probe alone do not have (crates/weir-probe/tests/shapes.rs has the others), and code that
//! relies on what a compiler knows of a function (tests/programs/edges.c, rseq.c).

use testkit::skip;

use crate::adversarial::check::{Kind, check, check_but, programs, same, traced, unprobed};

#[test]
fn functions_whose_first_bytes_are_hard_to_patch() {
    for program in programs("edges.c", &[]) {
        if unprobed(&program).lines.contains(&"lacks avx".to_owned()) {
            skip::skip("edges-avx", "this processor does not have it");
        }
        // Where its first two bytes lead to is another place in each process, and may be taken.
        check_but(&program, &[("edge_cold_jumps_back", "no-room")]);
    }
}

/// One function, by either of its names.
#[test]
fn a_function_with_two_names_is_one() {
    for program in programs("edges.c", &[]) {
        let unprobed = unprobed(&program);
        for name in ["edge_named", "edge_alias"] {
            let traced = traced(&program, &Kind::Entry.script(&program, &[name]));
            same(&program, &unprobed, &traced.run);
            assert_eq!(
                traced.hits.values().sum::<u64>(),
                6000,
                "{name} in {}: {}",
                program.name,
                traced.output
            );
        }
    }
}

/// What takes the sequence itself elsewhere is refused (crates/weir-probe/tests/rseq.rs); around it no count is lost.
#[test]
fn restartable_sequences_lose_nothing() {
    for program in programs("rseq.c", &[]) {
        let unprobed = unprobed(&program);
        if unprobed.lines == ["lacks rseq"] {
            return skip::skip("edges-rseq", "this kernel or libc has no restartable sequences");
        }
        check(&program);
        let traced = traced(&program, &Kind::Entry.script(&program, &["increments"]));
        same(&program, &unprobed, &traced.run);
        // Again for each time that it was interrupted.
        assert!(traced.hits["increments"] >= traced.run.calls["calls_sequence"], "{}", program.name);
    }
}

/// Where a shadow stack holds each return address, calls are not displaced, and nothing else changes.
#[test]
fn shadow_stacks_agree_with_every_return() {
    for program in programs("shadow.c", &[]) {
        if unprobed(&program).lines.contains(&"lacks shadow stacks".to_owned()) {
            return skip::skip(
                "shadow-stacks",
                "neither this processor nor this kernel gives user shadow stacks",
            );
        }
        check(&program);
    }
}
