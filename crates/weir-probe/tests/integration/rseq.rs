//! Restartable sequences (tests/programs/rseq.c): no patch may take a part of one elsewhere, where the kernel does not
//! know it.

use testkit::target::{self, Source};
use weir_probe::{Place, plan_sites};
use weir_symbols::Binary;

/// How each place of `increments` is patched, or the reason why not.
#[track_caller]
fn check(place: &str, expected: &str) {
    for (variant, path) in target::matrix("rseq", Source::Program("rseq.c"), &["-pthread"]) {
        let binary = Binary::open(&path).unwrap();
        let sequences = binary.restartable_sequences().len();
        // glibc has none of its own; a static libc might.
        assert!(sequences >= 1, "{variant}: no sequence found");
        let (address, _) = binary.symbol_value(place).unwrap();
        let outcome = plan_sites(&[(&binary, Place::Inside(address))]).remove(0);
        let found = outcome.map_or_else(|refusal| refusal.code(), |window| window.technique());
        assert_eq!(found, expected, "{place} in {variant}");
    }
}

#[test]
fn a_sequence_cannot_be_left() {
    check("increments_start", "restartable");
    check("increments_middle", "restartable");
}

/// A thread that is preempted between the store and the sequence is not known to be in it.
#[test]
fn what_stores_the_descriptor_stays_where_it_is() {
    check("increments_store", "restartable");
}

#[test]
fn what_is_around_it_can_be_patched() {
    check("increments_arm", "jump over 1 instruction");
    check("increments_behind", "jump over 2 instructions");
    check("increments_abort", "jump over 1 instruction");
}
