//! What the verifier claims holds: runs of accepted programs are held against it before every instruction.
//!
//! Programs of `evolve` run in the interpreter, which checks every access. Each run must end without a fault, must only
//! come to instructions and values that the verifier claimed to be possible there, to no instruction more often than
//! was followed, take branches as the facts say, and use no more of a frame than they say. A run of the suite has a
//! fixed seed; `WEIR_CLAIMS=SEED:COUNT` is for `cargo xtask soak claims`.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_ebpf::insn::{MAY_GOTO, class, jmp, pseudo};
use weir_ebpf::{MapSpec, Object, ProgramKind, asm, helper};
use weir_interp::{Environment, Fault, plain, run_watched};
use weir_memory::{Context, Memory};
use weir_rt::memory::Space;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Claims, Limits, Moment, VerifiedProgram, verify_claimed};

use crate::evolve::{MAPS, MEMORY_BYTES, program};
use crate::worlds::{Given, Random};

/// Programs tried in a run of the suite.
const DAILY: Daily = Daily { seed: 1, at_least: 600, at_most: 6_000, budget: Duration::from_secs(4) };
/// Runs of each accepted program.
const RUNS: usize = 12;
/// Instructions of one run. Callbacks go round eight times at most, each time through what was followed at most.
const STEPS_MAX: u64 = 8 * FOLLOWED_MAX as u64;
/// Those of a run with `may_goto`, which goes on for millions of rounds: it is left where it is.
const ROUNDS_STEPS_MAX: u64 = 25_000;
/// From one frame of the stack to the next, in the interpreter.
const FRAME_BYTES: u64 = 512;
/// Instructions that are followed: some rejections would take the usual number, and the result is the same.
const FOLLOWED_MAX: u32 = 20_000;

/// What was tried.
#[derive(Debug, Default)]
struct Coverage {
    programs: u64,
    accepted: u64,
    /// Accepted with a loop that is followed round by round.
    with_loops: u64,
    with_callbacks: u64,
    runs: u64,
    instructions: u64,
}

impl Coverage {
    /// In the form that soaks count.
    fn tell(&self) {
        let Coverage { programs, accepted, with_loops, with_callbacks, runs, instructions } = self;
        println!(
            "counts: programs={programs} accepted={accepted} with_loops={with_loops} \
             with_callbacks={with_callbacks} runs={runs} instructions={instructions}"
        );
    }
}

#[test]
fn runs_hold_what_is_claimed() {
    let cases = Cases::of("WEIR_CLAIMS", DAILY);
    let mut random = Random(testkit::random::state(cases.seed()));
    let maps = asm::parse(MAPS).expect("is assembly text").maps;
    let mut places =
        Places { segment: segment(&maps), plain: plain::Maps::new(&maps).expect("there are such maps") };
    let limits = Limits { explored_insns_max: FOLLOWED_MAX, ..Limits::default() };
    let mut coverage = Coverage::default();
    for _ in cases {
        coverage.programs += 1;
        let snippets = 3 + random.below(16);
        let object = program(&mut random, snippets);
        let Ok((verified, claims)) = verify_claimed(&object.programs[0], &object.maps, &limits) else {
            continue;
        };
        coverage.accepted += 1;
        coverage.with_loops += u64::from(has_loop(&object));
        coverage.with_callbacks += u64::from(calls_back(&object));
        for _ in 0..RUNS {
            coverage.runs += 1;
            coverage.instructions += check_run(&object, (&verified, &claims), &mut places, &mut random);
        }
    }
    coverage.tell();
    assert!(coverage.accepted * 5 > coverage.programs, "hardly anything is accepted: {coverage:?}");
    assert!(coverage.with_loops * 8 > coverage.accepted, "hardly a loop: {coverage:?}");
    assert!(coverage.with_callbacks * 40 > coverage.accepted, "hardly a callback: {coverage:?}");
}

fn segment(maps: &[MapSpec]) -> Segment {
    let layout = SegmentLayout::plan_claimable(maps, 2).expect("the maps have a layout");
    Segment::create_local(layout, &Identity::default()).expect("a memfd")
}

/// Where programs run: their maps, which keep what runs leave.
struct Places {
    segment: Segment,
    /// Here a packet is somewhere else after a helper that may move it.
    plain: plain::Maps,
}

/// Runs the program once, and holds every step against `claims`; the number of steps.
fn check_run(
    object: &Object,
    (verified, claims): (&VerifiedProgram, &Claims),
    places: &mut Places,
    random: &mut Random,
) -> u64 {
    let program = &object.programs[0];
    let words: Vec<i64> = (0..MEMORY_BYTES / 8).map(|_| random.number()).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let watched = Watched::new(verified, claims, object);
    let given = match program.kind {
        ProgramKind::Probe => Given::registers(random.frame()),
        kind => {
            let least = bytes.len() - 40;
            Given::lent(match kind {
                ProgramKind::Xdp => Context::xdp(&[], &bytes[..least + random.below(41)]),
                ProgramKind::Classifier => {
                    Context::classifier(&[], &bytes[..least + random.below(41)], 1 << 20)
                }
                _ => Context::memory(&bytes),
            })
        }
    };
    let result = match random.one_in(2) {
        true => watched.run(object, &places.segment, given),
        false => watched.run_plain(object, &mut places.plain, given),
    };
    result.unwrap_or_else(|what| panic!("accepted, but {what}\n{}", asm::print(object)))
}

/// What was seen of a run: how many steps, and the first that was wrong.
#[derive(Default)]
struct Seen {
    steps: u64,
    wrong: Option<String>,
}

impl Seen {
    fn take(&mut self, check: impl FnOnce() -> Result<(), String>) {
        self.steps += 1;
        if self.wrong.is_none() {
            self.wrong = check().err();
        }
    }
}

/// A memory that says which value of which map an address is in.
trait Values: Memory {
    fn place_of_value(&self, address: u64) -> Option<(u32, u64)>;
}

impl Values for Space<'_> {
    fn place_of_value(&self, address: u64) -> Option<(u32, u64)> {
        self.value_at(address).map(|found| (found.map, found.offset))
    }
}

impl Values for plain::Run<'_> {
    fn place_of_value(&self, address: u64) -> Option<(u32, u64)> {
        self.value_at(address)
    }
}

/// One run, and what was seen of it.
struct Watched<'a> {
    verified: &'a VerifiedProgram,
    claims: &'a Claims,
    /// The instruction before, and the function of each frame.
    before: Option<usize>,
    frames: Vec<usize>,
    /// Times that it came to each instruction.
    visits: Vec<usize>,
    rounds: Rounds,
}

/// How a program may come to an instruction more often than was followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounds {
    None,
    /// By callbacks, whose rounds are few here.
    Few,
    /// By `may_goto`.
    Many,
}

impl Rounds {
    fn of(object: &Object) -> Rounds {
        match () {
            () if object.programs[0].insns.iter().any(|insn| insn.opcode == MAY_GOTO) => Rounds::Many,
            () if calls_back(object) => Rounds::Few,
            () => Rounds::None,
        }
    }
}

impl Watched<'_> {
    fn new<'a>(verified: &'a VerifiedProgram, claims: &'a Claims, object: &Object) -> Watched<'a> {
        let visits = vec![0; verified.insns().len()];
        let rounds = Rounds::of(object);
        Watched { verified, claims, before: None, frames: Vec::new(), visits, rounds }
    }

    /// Runs it on the maps of a segment; the number of steps.
    fn run(mut self, object: &Object, segment: &Segment, mut given: Given) -> Result<u64, String> {
        let (environment, most) = (Environment { segment }, self.steps_max());
        let mut seen = Seen::default();
        let mut watch = |moment: weir_interp::Moment<'_, Space<'_>>| seen.take(|| self.check(&moment));
        let (program, maps) = (&object.programs[0], &object.maps);
        let result = run_watched(program, maps, &environment, given.lend(), most, &mut watch);
        self.ended(seen, result)
    }

    /// The same on maps in plain memory.
    fn run_plain(mut self, object: &Object, maps: &mut plain::Maps, mut given: Given) -> Result<u64, String> {
        let most = self.steps_max();
        let mut seen = Seen::default();
        let mut watch = |moment: weir_interp::Moment<'_, plain::Run<'_>>| seen.take(|| self.check(&moment));
        let (program, specs) = (&object.programs[0], &object.maps);
        let result = plain::run_watched(program, specs, maps, given.plain(), most, &mut watch);
        self.ended(seen, result)
    }

    fn steps_max(&self) -> u64 {
        if self.rounds == Rounds::Many { ROUNDS_STEPS_MAX } else { STEPS_MAX }
    }

    fn ended(&self, seen: Seen, result: Result<u64, Fault>) -> Result<u64, String> {
        match (seen.wrong, result) {
            (Some(wrong), _) => Err(wrong),
            (None, Err(Fault::Steps { .. })) if self.rounds == Rounds::Many => Ok(seen.steps),
            (None, Err(fault)) => Err(fault.to_string()),
            (None, Ok(_)) => Ok(seen.steps),
        }
    }

    fn check<M: Values>(&mut self, moment: &weir_interp::Moment<'_, M>) -> Result<(), String> {
        let memory = moment.memory;
        let claimed = Moment {
            at: moment.at,
            depth: moment.depth,
            registers: moment.registers,
            stack_top: memory.stack_top(),
            context: memory.context(),
            slots: &memory.slots(),
            map: &|index| memory.map(index).unwrap_or(0),
            value_at: &|address| memory.place_of_value(address),
        };
        self.claims.check(&claimed)?;
        self.check_branch(moment.at)?;
        self.check_stack(moment)?;
        self.visits[moment.at] += 1;
        let (visits, followed) = (self.visits[moment.at], self.claims.visits(moment.at));
        if visits > followed && self.rounds == Rounds::None {
            return Err(format!(
                "instruction {} is reached {visits} times, followed {followed} times",
                moment.at
            ));
        }
        Ok(())
    }

    /// A branch that is said always to go one way went that way.
    fn check_branch(&mut self, at: usize) -> Result<(), String> {
        let Some(before) = self.before.replace(at) else { return Ok(()) };
        let insn = self.verified.insns()[before];
        let expected = match self.verified.facts()[before].branch {
            Some(true) => before as i64 + 1 + i64::from(insn.off),
            Some(false) => before as i64 + 1,
            None => return Ok(()),
        };
        if at as i64 == expected {
            Ok(())
        } else {
            Err(format!("from {before} always to {expected}, now to {at}"))
        }
    }

    /// What it accesses in the stack is of a frame as deep as is said of its function.
    fn check_stack<M: Values>(&mut self, moment: &weir_interp::Moment<'_, M>) -> Result<(), String> {
        let functions = self.verified.functions();
        let here = functions.partition_point(|function| function.start <= moment.at) - 1;
        self.frames.truncate(moment.depth);
        self.frames.push(here);
        let insn = self.verified.insns()[moment.at];
        let base = match insn.class() {
            class::LDX => insn.src,
            class::ST | class::STX => insn.dst,
            _ => return Ok(()),
        };
        let address = moment.registers[usize::from(base)].wrapping_add_signed(insn.off.into());
        let below = moment.memory.stack_top().wrapping_sub(address);
        let frame = (below.wrapping_sub(1) / FRAME_BYTES) as usize;
        let Some(function) = self.frames.get(frame) else { return Ok(()) };
        let (bytes, said) = (below - frame as u64 * FRAME_BYTES, functions[*function].stack_bytes);
        if bytes <= said.into() {
            return Ok(());
        }
        Err(format!(
            "instruction {}: {bytes} bytes below r10, of which {said} are said to be used",
            moment.at
        ))
    }
}

/// Some instruction leads back.
fn has_loop(object: &Object) -> bool {
    let jumps =
        object.programs[0].insns.iter().filter(|insn| matches!(insn.class(), class::JMP | class::JMP32));
    jumps
        .into_iter()
        .any(|insn| insn.off < 0 && insn.opcode & 0xf0 != jmp::CALL && insn.opcode & 0xf0 != jmp::EXIT)
}

fn calls_back(object: &Object) -> bool {
    let is_call = |id| {
        move |insn: &weir_ebpf::Insn| {
            insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::HELPER && insn.imm == id
        }
    };
    let insns = &object.programs[0].insns;
    insns.iter().any(is_call(helper::LOOP)) || insns.iter().any(is_call(helper::FOR_EACH_MAP_ELEM))
}
