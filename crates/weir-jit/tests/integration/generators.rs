//! Programs of four generators in the interpreters and in machine code: no difference in r0, in what they were lent (a
//! packet, memory), and in maps; no access outside of what was lent, no run past its budget.
//!
//! - random: instructions at random on registers, stack and maps, which are all mixed into r0 at the end;
//! - grammar: text made of snippets that are nearly right, as the verifier's own tests use;
//! - evolving: numbers that go through loops, copies and partial checks, and decide then what is accessed;
//! - mutants: programs that clang made of tests/bpf, and programs of packets and memory, with a few instructions
//!   changed.
//!
//! A case is an accepted program of each. A run of the suite has a fixed seed; `WEIR_GENERATORS=SEED:COUNT` is for
//! `cargo xtask soak differential`. Every form
//! of code (passes on and off, flags kept or not, with BMI2 or not, every use of lanes) is chosen at random.

use crate::engines;
use crate::evolve;
use crate::generate;
use crate::lent;
use crate::random;
use crate::wire;
use crate::worlds::{self, Given};

use std::sync::OnceLock;
use std::time::Duration;

use testkit::random::{Cases, Daily};
use testkit::{bpf, paths};
use weir_ebpf::insn::{MAY_GOTO, class, jmp, pseudo};
use weir_ebpf::{Insn, MapSpec, Object, Program, ProgramKind, elf, helper};
use weir_interp::threaded::Threaded;
use weir_interp::{Environment, Fault, run_unverified};
use weir_jit::{Flags, Passes};
use weir_rt::Context;
use weir_rt::executable::{Frame, LanePolicy, SiteAbi};
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::{Limits, VerifiedProgram, verify};

/// Accepted programs of each generator in a run of the suite.
const DAILY: Daily = Daily { seed: 2026, at_least: 300, at_most: 3_000, budget: Duration::from_secs(4) };
/// Contexts that each is run with.
const RUNS: usize = 2;
/// Steps of a run without `may_goto` and `bpf_loop`; the limit of exploring is far below.
const STEPS_MAX: u64 = 1 << 22;

const CALL: u8 = class::JMP | jmp::CALL;

/// What was accepted, by generator, and how often each part of the compiler was used.
#[derive(Debug, Default)]
struct Coverage {
    accepted: [u64; 4],
    refused: u64,
    with_lanes: u64,
    /// Programs that were lent a packet or memory.
    lent: u64,
    threaded: u64,
    /// Runs whose rounds, which may be millions, take longer than anybody waits.
    too_long: u64,
}

impl Coverage {
    /// The line that `cargo xtask soak` keeps the sums of.
    fn counts(&self) -> String {
        let Coverage {
            accepted: [random, grammar, mutants, evolving],
            refused,
            with_lanes,
            lent,
            threaded,
            too_long,
        } = self;
        format!(
            "counts: random={random} grammar={grammar} mutants={mutants} evolving={evolving} refused={refused} with_lanes={with_lanes} \
             lent={lent} threaded_runs={threaded} too_long_runs={too_long}"
        )
    }
}

#[test]
fn programs_of_four_generators_agree() {
    let mut cases = Cases::of("WEIR_GENERATORS", DAILY);
    let seed = cases.seed();
    testkit::cpu::stay_on_this();
    let mut random = engines::Random(testkit::random::state(seed));
    let mut mutants = worlds::Random(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) | 1);
    let (maps, corpus) = (random::maps(), corpus());
    let mut coverage = Coverage::default();
    for (case, generator) in cases.by_ref().flat_map(|case| [0, 1, 2, 3].map(|generator| (case, generator))) {
        while coverage.accepted[generator] <= case {
            let object = match generator {
                0 => random_object(&mut random, &maps),
                1 => {
                    let snippets = 2 + mutants.below(10);
                    generate::program(&mut mutants, snippets)
                }
                3 => loop {
                    let snippets = 3 + mutants.below(12);
                    let object = evolve::program(&mut mutants, snippets);
                    if !tells_time_or_place(&object.programs[0]) {
                        break object;
                    }
                },
                _ if corpus.is_empty() => break,
                _ => mutant(&mut mutants, &corpus),
            };
            if check(&object, &mut random, &mut mutants, &mut coverage) {
                coverage.accepted[generator] += 1;
            } else {
                coverage.refused += 1;
                assert!(coverage.refused < 60 * (case + 50), "hardly anything is accepted");
            }
        }
    }
    let count = cases.given();
    println!("{}", coverage.counts());
    assert!(coverage.with_lanes > count / 20 && coverage.threaded > count / 8, "{coverage:?}");
    assert!(coverage.accepted[2] == 0 || coverage.lent > count / 10, "{coverage:?}");
    assert!(coverage.too_long < count / 2, "{coverage:?}");
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
    inputs: &mut worlds::Random,
    coverage: &mut Coverage,
) -> bool {
    let limits = Limits { explored_insns_max: 2_000, ..Limits::default() };
    let Ok(program) = verify(&object.programs[0], &object.maps, &limits) else { return false };
    coverage.with_lanes += u64::from(program.needs_lane());
    coverage.lent += u64::from(program.kind() != ProgramKind::Probe);
    let abi = random.pick(&engines::abis_for(&program));
    let flags =
        random.pick(&[Flags::Change, Flags::KeepEach, Flags::KeepIfPossible, Flags::Only(Passes::NONE)]);
    let engines = Engines::of(&program, &abi, flags);
    for _ in 0..RUNS {
        let lent = Lent::random(program.kind(), inputs);
        let text = || format!("{abi:?} {flags:?} {lent:x?}\n{}", weir_ebpf::asm::print(object));
        let Some(expected) = engines.interpreted(&object.programs[0], &lent, &text) else {
            coverage.too_long += 1;
            return true;
        };
        assert_eq!(engines.machine_code(&lent), expected, "machine code\n{}", text());
        // A lane that is claimed is not the threaded interpreter's.
        if !matches!(abi.lanes, LanePolicy::Claimed { .. })
            && let Some(threaded) = engines.threaded(&lent)
        {
            coverage.threaded += 1;
            assert_eq!(threaded, expected, "the threaded interpreter\n{}", text());
        }
    }
    true
}

/// What a run leaves: r0, what was lent, the maps.
type Outcome = (u64, Vec<u8>, engines::Contents);

/// A program in each engine, with maps that the runs of one engine share. The maps lie as they do for machine code: the
/// order in which a hash is gone through depends on where it is.
struct Engines<'p> {
    program: &'p VerifiedProgram,
    code: LocalProgram,
    /// Of machine code, the checking interpreter, and the threaded one.
    maps: [Maps; 3],
}

impl Engines<'_> {
    fn of<'p>(program: &'p VerifiedProgram, abi: &SiteAbi, flags: Flags) -> Engines<'p> {
        let maps = [(); 3].map(|()| Maps::of(program.maps(), abi));
        let executable = engines::compiled(program, abi, flags);
        let code = LocalProgram::load(&executable, maps[0].segment()).expect("code fits");
        Engines { program, code, maps }
    }

    fn machine_code(&self, lent: &Lent) -> Outcome {
        let segment = self.maps[0].segment();
        let mut given = lent.given();
        let r0 = self.code.run(given.lend());
        assert_eq!(segment.claimed_lanes(), 0, "a lane was not given back");
        (r0, given.left(), engines::contents(segment))
    }

    /// None if its rounds take too long; a fault is a panic: the program was accepted.
    fn interpreted(&self, source: &Program, lent: &Lent, text: &dyn Fn() -> String) -> Option<Outcome> {
        let segment = self.maps[1].segment();
        let has_rounds = source.insns.iter().any(goes_round);
        let steps = if has_rounds { 20_000 } else { STEPS_MAX };
        let mut given = lent.given();
        let environment = Environment { segment };
        match run_unverified(source, self.program.maps(), &environment, given.lend(), steps) {
            Ok(r0) => Some((r0, given.left(), engines::contents(segment))),
            Err(Fault::Steps { .. }) if has_rounds => None,
            Err(fault) => panic!("accepted, but {fault}\n{}", text()),
        }
    }

    /// None if the threaded interpreter has not all of the program's instructions.
    fn threaded(&self, lent: &Lent) -> Option<Outcome> {
        let segment = self.maps[2].segment();
        let mut given = lent.given();
        let r0 = Threaded::of(self.program, segment)?.run(given.lend());
        Some((r0, given.left(), engines::contents(segment)))
    }
}

/// What may be done millions of times by a program that was shown to be safe.
fn goes_round(insn: &Insn) -> bool {
    let is_loop = insn.opcode == CALL && insn.src == pseudo::HELPER && insn.imm == helper::LOOP;
    is_loop || insn.opcode == MAY_GOTO
}

/// Maps of one engine; programs without maps share a segment for the life of the test.
enum Maps {
    None,
    Some(Box<Segment>),
}

impl Maps {
    fn of(specs: &[MapSpec], abi: &SiteAbi) -> Maps {
        if specs.is_empty() { Maps::None } else { Maps::Some(Box::new(engines::segment_for(specs, abi))) }
    }

    fn segment(&self) -> &Segment {
        static NO_MAPS: OnceLock<Segment> = OnceLock::new();
        match self {
            Maps::None => NO_MAPS.get_or_init(|| engines::segment(&[], engines::cpus())),
            Maps::Some(segment) => segment,
        }
    }
}

/// What a run is given besides its maps.
#[derive(Debug)]
enum Lent {
    Registers(Box<Frame>),
    Packet(ProgramKind, Vec<u8>),
    Memory(Vec<u8>),
}

impl Lent {
    fn random(kind: ProgramKind, random: &mut worlds::Random) -> Lent {
        match kind {
            ProgramKind::Xdp | ProgramKind::SocketFilter | ProgramKind::Classifier => {
                Lent::Packet(kind, packet(random))
            }
            ProgramKind::Memory { bytes } => {
                Lent::Memory((0..bytes).map(|_| random.number() as u8).collect())
            }
            _ => Lent::Registers(Box::new(random.frame())),
        }
    }

    fn given(&self) -> Given {
        match self {
            Lent::Registers(frame) => Given::registers(**frame),
            Lent::Packet(kind, bytes) => {
                Given::lent(Context::received(*kind, bytes).expect("a kind of packets"))
            }
            Lent::Memory(bytes) => Given::lent(Context::memory(bytes)),
        }
    }
}

/// A whole packet, changed and cut; sometimes a few bytes.
fn packet(random: &mut worlds::Random) -> Vec<u8> {
    static WHOLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let whole = WHOLE.get_or_init(wire::whole);
    let mut packet = whole[random.below(whole.len())].clone();
    for _ in 0..random.below(6) {
        let at = random.below(packet.len());
        packet[at] = random.next() as u8;
    }
    if random.one_in(2) {
        packet.truncate(random.below(packet.len()));
    }
    packet
}

/// Programs to change: those that clang made of tests/bpf, each with the maps of its object, and those of packets and
/// memory. None where clang is not.
fn corpus() -> Vec<Object> {
    let mut objects = Vec::new();
    for folder in ["tests/bpf", "tests/bpf/packets"] {
        let compiled = compiled(folder);
        if compiled.is_empty() {
            return Vec::new();
        }
        objects.extend(compiled);
    }
    objects.extend(lent::accepted());
    objects.retain(|object| !tells_time_or_place(&object.programs[0]));
    objects
}

/// The programs of a folder's C files; none, loudly, where clang is not.
fn compiled(folder_of_sources: &str) -> Vec<Object> {
    let folder = paths::target().join("bpf-corpus/generators").join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut objects = Vec::new();
    for source in bpf::sources(folder_of_sources) {
        let object = folder.join(source.with_extension("o").file_name().expect("a name"));
        if !bpf::compile(&source, &object) {
            break;
        }
        let Ok(file) = elf::read(&std::fs::read(&object).expect("was just written")) else { continue };
        let Object { maps, programs } = file.object;
        objects.extend(
            programs.into_iter().map(|program| Object { maps: maps.clone(), programs: vec![program] }),
        );
    }
    std::fs::remove_dir_all(&folder).expect("was made above");
    objects
}

/// Its result is not the same twice, or is of what the test does not lend: clocks, ids, the process's memory.
fn tells_time_or_place(program: &Program) -> bool {
    const ALSO: &[i32] = &[
        helper::MAP_PUSH_ELEM,
        helper::MAP_POP_ELEM,
        helper::MAP_PEEK_ELEM,
        helper::MAP_LOOKUP_PERCPU_ELEM,
        helper::FOR_EACH_MAP_ELEM,
        helper::STRNCMP,
        helper::CSUM_DIFF,
        helper::SKB_LOAD_BYTES,
        helper::SKB_LOAD_BYTES_RELATIVE,
    ];
    !worlds::calls_only(program, &[worlds::SAME, ALSO])
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
