//! Programs of three generators in the interpreters and in machine code: no difference in r0 and maps, no access outside
//! of what was lent, no run past its budget.
//!
//! - random: instructions at random on registers, stack and maps, which are all mixed into r0 at the end;
//! - grammar: text made of snippets that are nearly right, as the verifier's own tests use;
//! - mutants: programs that clang made of tests/bpf, with a few instructions changed.
//!
//! A run of the suite has a fixed seed; `WEIR_GENERATORS=SEED:COUNT` is for `cargo xtask soak differential`. Every form
//! of code (passes on and off, flags kept or not, with BMI2 or not, every use of lanes) is chosen at random.

mod engines;
#[path = "../../weir-verifier/tests/generate/mod.rs"]
mod generate;
mod random;
#[path = "../../weir-verifier/tests/worlds/mod.rs"]
mod worlds;

use std::path::PathBuf;

use testkit::{bpf, paths};
use weir_ebpf::{Insn, MapSpec, Object, Program, ProgramKind, elf};
use weir_interp::{Environment, Fault, run_unverified};
use weir_jit::{Flags, Passes};
use weir_rt::executable::{Frame, LanePolicy, SiteAbi};
use weir_verifier::{Limits, VerifiedProgram, verify};

/// Accepted programs of each generator in a run of the suite.
const PROGRAMS: usize = 3_000;
/// Contexts that each is run with.
const RUNS: usize = 2;
/// Steps of a run without `may_goto`; the limit of exploring is far below.
const STEPS_MAX: u64 = 1 << 22;

/// What was accepted, by generator, and how often each part of the compiler was used.
#[derive(Debug, Default)]
struct Coverage {
    accepted: [usize; 3],
    refused: usize,
    with_lanes: usize,
    threaded: usize,
    /// Runs whose `may_goto` rounds take longer than anybody waits.
    too_long: usize,
}

#[test]
fn programs_of_three_generators_agree() {
    let (seed, count) = asked().unwrap_or((2026, PROGRAMS));
    engines::stay_on_this_cpu();
    let mut random = engines::Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut mutants = worlds::Random(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) | 1);
    let (maps, corpus) = (random::maps(), corpus());
    let mut coverage = Coverage::default();
    for generator in 0..3 {
        while coverage.accepted[generator] < count {
            let object = match generator {
                0 => random_object(&mut random, &maps),
                1 => {
                    let snippets = 2 + mutants.below(10);
                    generate::program(&mut mutants, snippets)
                }
                _ if corpus.is_empty() => break,
                _ => mutant(&mut mutants, &corpus),
            };
            if check(&object, &mut random, &mut mutants, &mut coverage) {
                coverage.accepted[generator] += 1;
            } else {
                coverage.refused += 1;
                assert!(coverage.refused < 60 * count, "hardly anything is accepted");
            }
        }
    }
    println!("{coverage:?}");
    assert!(coverage.with_lanes > count / 20 && coverage.threaded > count / 8, "{coverage:?}");
    assert!(coverage.too_long < count / 2, "{coverage:?}");
}

fn asked() -> Option<(u64, usize)> {
    let asked = std::env::var("WEIR_GENERATORS").ok()?;
    let (seed, count) = asked.split_once(':').expect("WEIR_GENERATORS is SEED:COUNT");
    Some((seed.parse().expect("a seed"), count.parse().expect("a count")))
}

fn random_object(random: &mut engines::Random, maps: &[MapSpec]) -> Object {
    let with_maps = random.pick(&[false, true]);
    let insns = match random.pick(&[0, 0, 0, 1]) {
        0 => random::around(&random::random_body(random, with_maps)),
        _ => random::random_with_functions(random, with_maps),
    };
    let maps = if with_maps { maps.to_vec() } else { Vec::new() };
    Object { maps, programs: vec![engines::program(insns)] }
}

/// False if the verifier refuses it; a difference is a panic with the program's text.
fn check(
    object: &Object,
    random: &mut engines::Random,
    frames: &mut worlds::Random,
    coverage: &mut Coverage,
) -> bool {
    let limits = Limits { explored_insns_max: 10_000, ..Limits::default() };
    let Ok(program) = verify(&object.programs[0], &object.maps, &limits) else { return false };
    coverage.with_lanes += usize::from(program.needs_lane());
    let abi = random.pick(&engines::abis_for(&program));
    let flags =
        random.pick(&[Flags::Change, Flags::KeepEach, Flags::KeepIfPossible, Flags::Only(Passes::NONE)]);
    for _ in 0..RUNS {
        let frame = frames.frame();
        let Some(expected) = interpreted(&program, frame, object, &abi) else {
            coverage.too_long += 1;
            return true;
        };
        let text = || format!("{abi:?} {flags:?} {frame:x?}\n{}", weir_ebpf::asm::print(object));
        let is_claimed = matches!(abi.lanes, LanePolicy::Claimed { .. });
        if let Some(threaded) = engines::run_threaded(&program, frame).filter(|_| !is_claimed) {
            coverage.threaded += 1;
            assert_eq!(threaded, expected, "the threaded interpreter\n{}", text());
        }
        assert_eq!(engines::run_jit(&program, &abi, flags, frame), expected, "machine code\n{}", text());
    }
    true
}

/// None if its rounds take too long; a fault is a panic: the program was accepted. The maps lie as they do for machine
/// code at `abi`: the order in which a hash is gone through depends on where it is.
fn interpreted(
    program: &VerifiedProgram,
    frame: Frame,
    object: &Object,
    abi: &SiteAbi,
) -> Option<engines::Outcome> {
    let segment = engines::segment_for(program.maps(), abi);
    let environment = Environment { segment: &segment };
    let has_rounds = program.insns().iter().any(|insn| insn.opcode == weir_ebpf::insn::MAY_GOTO);
    let steps = if has_rounds { 20_000 } else { STEPS_MAX };
    match run_unverified(&object.programs[0], program.maps(), &environment, &mut frame.clone(), steps) {
        Ok(r0) => Some(engines::Outcome { r0, maps: engines::contents(&segment) }),
        Err(Fault::Steps { .. }) if has_rounds => None,
        Err(fault) => panic!("accepted, but {fault}\n{}", weir_ebpf::asm::print(object)),
    }
}

/// Probe programs that clang made of tests/bpf, each with the maps of its object; none where clang is not.
fn corpus() -> Vec<Object> {
    let folder = paths::target().join("bpf-corpus/generators");
    std::fs::create_dir_all(&folder).expect("a folder");
    let entries = std::fs::read_dir(paths::root().join("tests/bpf")).expect("the corpus");
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    let mut objects = Vec::new();
    for source in sources {
        let object = folder.join(source.with_extension("o").file_name().expect("a name"));
        if !bpf::compile(&source, &object) {
            return Vec::new();
        }
        let Ok(file) = elf::read(&std::fs::read(&object).expect("was just written")) else { continue };
        let Object { maps, programs } = file.object;
        let of_probes = programs.into_iter().filter(|program| program.kind == ProgramKind::Probe);
        objects.extend(of_probes.map(|program| Object { maps: maps.clone(), programs: vec![program] }));
    }
    objects.retain(|object| !tells_time_or_place(&object.programs[0]));
    objects
}

/// Its result is not the same twice, or is of what the test does not lend: clocks, ids, the process's memory.
fn tells_time_or_place(program: &Program) -> bool {
    use weir_ebpf::helper;
    const SAME: [i32; 3] = [helper::MAP_LOOKUP_ELEM, helper::MAP_UPDATE_ELEM, helper::MAP_DELETE_ELEM];
    let is_call = |insn: &&Insn| insn.opcode == 0x85 && insn.src == 0;
    program.insns.iter().filter(is_call).any(|insn| !SAME.contains(&insn.imm))
}

fn mutant(random: &mut worlds::Random, corpus: &[Object]) -> Object {
    let mut object = corpus[random.below(corpus.len())].clone();
    let insns = &mut object.programs[0].insns;
    for _ in 0..=random.below(3) {
        let at = random.below(insns.len());
        let other = insns[random.below(insns.len())];
        let insn = &mut insns[at];
        match random.below(7) {
            0 => insn.imm = random.number() as i32,
            1 => insn.dst = random.below(10) as u8,
            2 => insn.src = random.below(10) as u8,
            3 => insn.off = (insn.off).wrapping_add(random.below(17) as i16 - 8),
            4 => insn.opcode ^= 1 << random.below(8),
            5 => *insn = other,
            _ => insn.imm ^= 1 << random.below(32),
        }
    }
    if tells_time_or_place(&object.programs[0]) {
        // What the mutation made of it is not to be compared: an exit in its place is.
        object.programs[0].insns =
            vec![Insn { opcode: 0xb7, ..Insn::default() }, Insn { opcode: 0x95, ..Insn::default() }];
    }
    object
}
