//! What verifying takes, in instructions followed for each of a program: bounded for the C programs of `tests/vm` and
//! `tests/bpf`, so that a change that makes it slow is seen on any machine.

use std::path::Path;

use testkit::{bpf, paths, skip};
use vm_bench::program;
use weir_ebpf::{Object, elf};
use weir_verifier::{Limits, verify};

/// Most instructions followed for each of a program. At some 0.2 µs each, 5 are within the bar of 1 ms for 1,000.
const EACH_MAX: u64 = 5;

/// Programs beyond that, each with a reason: at most so many.
const LONGER: &[(&str, u64)] = &[
    // Where an inner loop begins is known of constants alone, so that the outer one's rounds are followed.
    ("sieve", 11),
    // Which slot is counted depends on paths that constants tell apart.
    ("histogram.latency", 8),
    // How far the packet goes is compared at the end of a round for the next.
    ("payload.payload", 31),
    ("classify.marks", 12),
];

#[test]
fn few_instructions_are_followed() {
    if let Err(error) = std::process::Command::new("clang").arg("--version").output() {
        return skip::skip("bpf-corpus", format!("clang: {error}"));
    }
    let mut table = Vec::new();
    for name in program::names().expect("tests/vm") {
        let file = program::compile_object(&name).unwrap_or_else(|error| panic!("{error:#}"));
        table.extend(followed(&file.object).map(|(_, insns, followed)| (name.clone(), insns, followed)));
    }
    for source in ["tests/bpf", "tests/bpf/packets"].into_iter().flat_map(bpf::sources) {
        let name = source.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(object) = compiled(&source, &name) else { return };
        table.extend(
            followed(&object)
                .map(|(program, insns, followed)| (format!("{name}.{program}"), insns, followed)),
        );
    }
    assert!(table.len() >= 80, "only {} programs", table.len());
    for (name, insns, followed) in &table {
        eprintln!("{name}: {followed} for {insns}, {:.1} each", *followed as f64 / *insns as f64);
    }
    for (name, insns, followed) in table {
        let most = LONGER.iter().find(|(longer, _)| *longer == name).map_or(EACH_MAX, |(_, most)| *most);
        assert!(followed <= most * insns, "{name}: {followed} instructions were followed for {insns}");
    }
}

/// Name, instructions, and how many of them were followed, of each program.
fn followed(object: &Object) -> impl Iterator<Item = (String, u64, u64)> + '_ {
    object.programs.iter().map(|program| {
        let verified = verify(program, &object.maps, &Limits::default());
        let verified = verified.unwrap_or_else(|rejection| panic!("{rejection}"));
        (program.name.clone(), program.insns.len() as u64, verified.followed())
    })
}

fn compiled(source: &Path, name: &str) -> Option<Object> {
    let folder = paths::target().join("bpf-corpus/followed");
    std::fs::create_dir_all(&folder).expect("the folder of what tests build");
    let object = folder.join(format!("{name}.o"));
    if !bpf::compile(source, &object) {
        return None;
    }
    let bytes = std::fs::read(&object).expect("clang has written it");
    Some(elf::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}")).object)
}
