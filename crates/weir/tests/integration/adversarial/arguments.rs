//! Arguments and results of every class of the calling convention, as tests/programs/arguments.c hands them over.

use testkit::skip;

use crate::adversarial::check::{check, programs, unprobed};

#[test]
fn arguments_and_results_of_every_class() {
    for program in programs("arguments.c", &["-lm"]) {
        for missing in unprobed(&program).lines.iter().filter_map(|line| line.strip_prefix("lacks ")) {
            skip::skip(&format!("arguments-{missing}"), "this processor does not have it");
        }
        check(&program);
    }
}
