//! Each reader of hostile bytes reads its seeds and a fixed number of mutations of them: no panic, no hang, no memory beyond a bound.
//!
//! This is the part of fuzzing that needs no libFuzzer, which `cargo xtask soak fuzz` runs for days. What an input is does not
//! depend on the machine, except that the seeds made of objects for BPF are missing where clang is. `WEIR_HOSTILE=SEED:COUNT` asks
//! for other inputs. The input at which a reader panics is left in a file; for a reader that hangs or wants too much memory,
//! smaller counts tell which input it is.

#![forbid(unsafe_code)]

mod mutation;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;

use fuzz_targets::{TARGETS, read_in_time, seeds};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use testkit::{bpf, paths, random};

use crate::mutation::{Shape, mutated};

/// LIMIT: memory of this process, which ends where it wants more.
const PROCESS_BYTES_MAX: u64 = 768 << 20;
/// LIMIT: bytes of a mutated input, as libFuzzer has it.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// Of steps on rings: longer inputs do the same again.
const RINGS_BYTES_MAX: usize = 2 << 10;

#[test]
fn elf() {
    check("elf", Shape::File, 15_000, &objects());
}

#[test]
fn btf() {
    check("btf", Shape::File, 40_000, &objects());
}

#[test]
fn bytecode() {
    check("bytecode", Shape::Parts { before: 0, bytes: 8 }, 25_000, &objects());
}

#[test]
fn assembly() {
    check("assembly", Shape::Lines, 14_000, &objects());
}

#[test]
fn segment() {
    check("segment", Shape::Parts { before: 1, bytes: 16 }, 8_000, &[]);
}

#[test]
fn rings() {
    check("rings", Shape::File, 5_000, &[]);
}

#[test]
fn trace() {
    check("trace", Shape::LinesAndFile, 3_000, &[]);
}

#[test]
fn ctf2() {
    check("ctf2", Shape::LinesAndFile, 3_000, &[]);
}

#[test]
fn pcapng() {
    check("pcapng", Shape::File, 40_000, &[]);
}

#[test]
fn packet_filter() {
    check("packet_filter", Shape::Lines, 15_000, &[]);
}

#[test]
fn packet_ring() {
    check("packet_ring", Shape::File, 4_000, &[]);
}

#[test]
fn cbpf() {
    check("cbpf", Shape::Lines, 10_000, &[]);
}

#[test]
fn script() {
    check("script", Shape::Lines, 8_000, &[]);
}

#[test]
fn declarations() {
    check("declarations", Shape::Lines, 8_000, &[]);
}

#[test]
fn compile() {
    check("compile", Shape::Lines, 3_000, &[]);
}

#[test]
fn every_target_has_a_program_for_libfuzzer_and_seeds_with_names() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let programs = fs::read_dir(paths::root().join("fuzz/fuzz_targets")).expect("is in the repository");
    let name =
        |path: PathBuf| path.file_stem().expect("a file has a name").to_str().expect("ASCII").to_owned();
    assert_eq!(programs.map(|entry| name(entry.expect("a file").path())).collect::<BTreeSet<_>>(), targets);

    // Also where there is no clang.
    let seeds = seeds::all(&[]);
    assert_eq!(seeds.iter().map(|seed| seed.target.to_owned()).collect::<BTreeSet<_>>(), targets);
    let names: BTreeSet<_> = seeds.iter().map(|seed| (seed.target, &seed.name)).collect();
    assert_eq!(names.len(), seeds.len(), "a file for each seed");
}

/// Reads the seeds of a target, those made of `objects` among them, and `count` mutations of them.
fn check(target: &str, shape: Shape, count: u64, objects: &[Vec<u8>]) {
    let (seed, count) = random::seed_and_count("WEIR_HOSTILE", (1, count));
    println!("{target}: WEIR_HOSTILE={seed}:{count}");
    let (_, read) = TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target");
    let seeds = seeds::all(objects);
    let seeds: Vec<&[u8]> =
        seeds.iter().filter(|seed| seed.target == target).map(|seed| &seed.bytes[..]).collect();
    assert!(!seeds.is_empty(), "nothing to begin with");
    bound_memory();
    for bytes in &seeds {
        read_within_bounds(target, read, bytes);
    }
    let mut state = random::state(seed);
    let bytes_max = if target == "rings" { RINGS_BYTES_MAX } else { INPUT_BYTES_MAX };
    for _ in 0..count {
        let mut input = mutated(&seeds, shape, &mut state);
        input.truncate(bytes_max);
        read_within_bounds(target, read, &input);
    }
}

fn read_within_bounds(target: &str, read: fn(&[u8]), bytes: &[u8]) {
    let input = Input { target, bytes };
    read_in_time(read, input.bytes);
}

/// The input that is being read, which is left in a file if that panics.
struct Input<'a> {
    target: &'a str,
    bytes: &'a [u8],
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let path = paths::fresh("hostile", self.target);
            let written = fs::write(&path, self.bytes);
            println!("the input, of {} bytes: {} ({written:?})", self.bytes.len(), path.display());
        }
    }
}

/// Shared mappings do not count, so that segments are outside of the bound.
fn bound_memory() {
    let (_, most) = getrlimit(Resource::RLIMIT_DATA).expect("a limit that exists");
    setrlimit(Resource::RLIMIT_DATA, PROCESS_BYTES_MAX.min(most), most).expect("less than what is allowed");
}

/// What clang makes of `tests/bpf`; nothing, loudly, where it is not installed. Made once, and by one process at a time: each test
/// may be a process of its own.
fn objects() -> Vec<Vec<u8>> {
    let folder = paths::target().join("bpf-corpus/hostile");
    fs::create_dir_all(&folder).expect("a folder in target");
    let lock = File::create(folder.join("lock")).expect("a file in target");
    lock.lock().expect("no other lock of this thread");
    let mut objects = Vec::new();
    for source in bpf::sources("tests/bpf") {
        let object = folder.join(source.with_extension("o").file_name().expect("a name"));
        if !is_newer(&object, &source) {
            // Under another name first: a process that is killed leaves no half of an object.
            let half = object.with_extension("half");
            if !bpf::compile(&source, &half) {
                return Vec::new();
            }
            fs::rename(&half, &object).expect("both are in one folder");
        }
        objects.push(fs::read(&object).expect("an object that clang wrote"));
    }
    objects
}

fn is_newer(made: &Path, source: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    modified(made).is_some_and(|made| modified(source).is_some_and(|source| made > source))
}
