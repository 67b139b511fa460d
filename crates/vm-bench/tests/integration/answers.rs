//! Every program of `tests/vm`: accepted by the verifier, and the same answer from native code, both interpreters,
//! the JIT and, where bpf(2) is there, the kernel.

use testkit::{kernel, skip};
use vm_bench::program::{self, Program};
use vm_bench::sides::{self, CHECKED, Kind};

#[test]
fn every_engine_gives_the_native_answer() {
    if let Err(error) = std::process::Command::new("clang").arg("--version").output() {
        return skip::skip("bpf-corpus", format!("clang: {error}"));
    }
    let mut engines = vec![CHECKED.name, "weir-interp", "weir"];
    match kernel::available() {
        Ok(()) => engines.push("kernel"),
        Err(reason) => skip::skip("vm-bench::kernel", reason),
    }
    // A per-CPU value that was set on one CPU is not there on another.
    testkit::cpu::stay_on_this();
    let names = program::names().expect("tests/vm");
    assert!(names.len() >= 40, "only {names:?}");
    for name in names {
        check(&program::compile(&name).unwrap_or_else(|error| panic!("{error:#}")), &engines);
    }
}

/// Maps are no part of native code: there the interpreter's answer is the one that the others must give.
fn check(program: &Program, engines: &[&str]) {
    let mut expected = program.native.function().map(|_| answers("native", program));
    for engine in engines {
        let found = answers(engine, program);
        let expected = *expected.get_or_insert(found);
        assert_eq!(found, expected, "{} on {engine}", program.name);
    }
}

/// The first answer, and that after three more runs.
fn answers(engine: &str, program: &Program) -> (u32, u32) {
    let of_table = || sides::kind(engine).expect("an engine of the table");
    let kind: &Kind = if engine == CHECKED.name { &CHECKED } else { of_table() };
    let failed = |error: anyhow::Error| -> ! { panic!("{} on {engine}: {error:#}", program.name) };
    let mut side = (kind.make)(program).unwrap_or_else(|error| failed(error));
    let mut run = |times| side.run(times).unwrap_or_else(|error| failed(error));
    let found = (run(1), run(3));
    assert_eq!(found.0, found.1, "{} on {engine}: a later run answers otherwise", program.name);
    found
}
