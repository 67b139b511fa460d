//! The implementations of memcpy that libc's indirect function chooses among, probed by pattern while every vector and
//! mask register is live across the call (tests/programs/copies.c). Of what a copy leaves in the registers, nothing
//! changes.

use std::path::Path;
use std::process::Command;

use testkit::paths::quoted;
use testkit::skip;

use crate::adversarial::check::{KINDS, Kind, Program, programs, same, traced, unprobed};

/// What the program copies, and where it copies to, lie between these; how often it does.
const PLACE: &str = "0x200000000000";
const END: &str = "0x200000010000";
const TIMES: u64 = 3000;

/// On a processor that lacks `features` for all that libc knows: it chooses another one.
#[track_caller]
fn check_without(features: &str) {
    let off = features.split_whitespace().map(|feature| format!("-{feature}"));
    let tunables = format!("glibc.cpu.hwcaps={}", off.collect::<Vec<String>>().join(","));
    for program in programs("copies.c", &[]) {
        let program = program.in_environment("GLIBC_TUNABLES", &tunables);
        let file = if program.is_static { program.path.as_path() } else { Path::new("libc") };
        let sites = format!("{}:__memmove_*", quoted(file));
        if !is_found(file) {
            skip::skip("copies-names", "the C library's debug file, which names them, is not installed");
            continue;
        }
        let unprobed = unprobed(&program);
        let is_live = unprobed.lines.iter().any(|line| line.starts_with("kept ") && line != "kept 0");
        assert!(is_live && unprobed.status == "exit status: 0", "{}: {unprobed:?}", program.name);
        for &kind in KINDS {
            check_kind(&program, &sites, kind, &unprobed);
        }
    }
}

#[track_caller]
fn check_kind(program: &Program, sites: &str, kind: Kind, unprobed: &crate::adversarial::check::Run) {
    let own = |value: &str| format!("/{value} >= {PLACE} && {value} < {END}/");
    let entry = |map: &str| format!("uprobe:{sites} {} {{ {map}[func] = count(); }}", own("arg0"));
    let at_return = format!("uretprobe:{sites} {} {{ @[func] = count(); }}", own("retval"));
    let clauses = match kind {
        Kind::Entry => entry("@"),
        Kind::Return => at_return,
        Kind::Session => format!("{} {at_return}", entry("@entries")),
    };
    // Those that look at the size first and go on in another one are not proved to return; nothing here calls them.
    let traced = traced(program, &format!("config = {{ missing_probes = \"warn\" }} {clauses}"));
    same(program, unprobed, &traced.run);
    let entries = if kind == Kind::Session { &traced.entries } else { &traced.hits };
    for hits in [entries, &traced.hits] {
        let said = || format!("{kind:?} in {}: {}{}", program.name, traced.output, traced.messages);
        assert_eq!((hits.len(), hits.values().sum::<u64>()), (1, TIMES), "{}", said());
    }
}

fn is_found(file: &Path) -> bool {
    let sites = format!("uprobe:{}:__memmove_*", file.display());
    let listed = Command::new(env!("CARGO_BIN_EXE_weir")).args(["list", &sites]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    // One of them has its name from the symbols that every libc has.
    listed.lines().filter(|line| line.contains("_unaligned")).count() > 1
}

#[test]
fn the_memcpy_that_this_processor_gets() {
    check_without("");
}

#[test]
fn the_memcpy_that_does_not_copy_by_strings() {
    check_without("ERMS");
}

#[test]
fn the_memcpy_that_clears_upper_halves() {
    check_without("AVX512VL AVX512F");
}

#[test]
fn the_memcpy_of_old_processors() {
    check_without("AVX512VL AVX512F AVX2 AVX AVX_Fast_Unaligned_Load");
}
