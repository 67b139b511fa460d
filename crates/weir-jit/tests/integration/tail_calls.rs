//! Programs that take over from each other: in the interpreter, the JIT for every kind of site, and the kernel.
//!
//! A case is a list of programs, of which the first is run; what is in the slots of `@jumps`; two numbers in `@in`; and
//! what `@out` holds afterwards. `mark N` appends the digit N to the number in `@out`, `to N` is a tail call of slot N
//! with the context that the program keeps in r6.

use crate::engines;
use crate::random;

use engines::{Random, abis, abis_for, compiled, segment_for, verified};
use testkit::{kernel, skip};
use weir_ebpf::insn::{alu, class, jmp, mode, pseudo, size, source};
use weir_ebpf::{Insn, MapKind, MapSpec, Object, Program, ProgramKind, asm, helper};
use weir_jit::Flags;
use weir_kernel::{Input, Maps};
use weir_rt::executable::{Executable, Frame, SiteAbi};
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

const MAPS: &str = "map @in array key 4 value 16 entries 1\nmap @out array key 4 value 8 entries 1
map @jumps prog_array key 4 value 4 entries 5\n";

/// Programs, what is in the slots (slot, program), input, output.
type Case = (&'static [&'static str], &'static [(u32, u32)], [u64; 2], u64);

const CASES: &[Case] = &[
    // Empty slots, and those that are not there.
    (&["mark 1; to 0; mark 2"], &[], [0, 0], 12),
    (&["mark 1; to 4; mark 2", "mark 3"], &[(0, 1)], [0, 0], 12),
    (&["mark 1; to 5; mark 2", "mark 3"], &[(0, 1), (4, 1)], [0, 0], 12),
    (&["mark 1; to -1; mark 2", "mark 3"], &[(0, 1), (4, 1)], [0, 0], 12),
    // What takes over does not come back.
    (&["mark 1; to 0; mark 2", "mark 3"], &[(0, 1)], [0, 0], 13),
    (&["mark 1; to 3; mark 2", "mark 3; to 1; mark 4", "mark 5"], &[(3, 1), (1, 2)], [0, 0], 135),
    (&["mark 1; to 0; mark 2", "mark 3; to 4; mark 4"], &[(0, 1)], [0, 0], 134),
    // A slot that is known only when it runs; of 64 bits, 32 count.
    (&["mark 1; to r7; mark 2", "mark 3", "mark 4"], &[(0, 1), (1, 2)], [0, 0], 13),
    (&["mark 1; to r7; mark 2", "mark 3", "mark 4"], &[(0, 1), (1, 2)], [1, 0], 14),
    (&["mark 1; to r7; mark 2", "mark 3", "mark 4"], &[(0, 1), (1, 2)], [2, 0], 12),
    (&["mark 1; to r7; mark 2", "mark 3", "mark 4"], &[(0, 1), (1, 2)], [0x1_0000_0001, 0], 14),
    (&["mark 1; to r7; mark 2", "mark 3", "mark 4"], &[(0, 1), (1, 2)], [u64::MAX, 0], 12),
    // 33 tail calls, then no more: the program itself, and two in turn.
    (&["add 1; to 0; add 100"], &[(0, 0)], [0, 0], 34 + 100),
    (&["add 1; to 1; add 100", "add 1000; to 0; add 10000"], &[(0, 0), (1, 1)], [0, 0], 17 + 17_000 + 10_000),
    (&["add 1; to 2; add 100", "add 1000"], &[(0, 0), (1, 1)], [0, 0], 101),
    // Registers and the stack are each program's own; what it kept for its caller is there again.
    (
        &[
            "r8 = 1; r9 = 2; *(u64 *)(r10 - 400) = 7; to 0; mark 8",
            "*(u64 *)(r10 - 8) = 9; r8 = *(u64 *)(r10 - 8); mark 3; to 1",
            "r7 = 1; r8 = 2; r9 = 3; *(u64 *)(r10 - 512) = 1; r9 = *(u64 *)(r10 - 512); mark 4; add r9",
        ],
        &[(0, 1), (1, 2)],
        [0, 0],
        35,
    ),
    (
        &["r8 = 1; r9 = 5; *(u64 *)(r10 - 504) = 7; add 1; to 0; r9 += 95; add r9"],
        &[(0, 0)],
        [0, 0],
        34 + 100,
    ),
    // Functions, rounds, callbacks in what takes over.
    (
        &[
            "r1 = r6; call f; to 0; mark 9; r0 = 0; exit; f: r0 = 0",
            "mark 2; r1 = 3; call g; add r0; r0 = 0; exit; g: r0 = r1; r0 *= 2",
        ],
        &[(0, 1)],
        [0, 0],
        8,
    ),
    (
        &[
            "r8 = 0; here: may_goto +3; r8 += 1; if r8 s> 4 goto +1; goto here; add r8; to 0; mark 9",
            "r9 = 0; here: may_goto +3; r9 += 1; if r9 s> 2 goto +1; goto here; add r9",
        ],
        &[(0, 1)],
        [0, 0],
        8,
    ),
    (
        &["mark 1; to 0", "r1 = 4; r2 = f ll; r3 = 0; r4 = 0; call loop; add r0; r0 = 0; exit; f: r0 = 0"],
        &[(0, 1)],
        [0, 0],
        5,
    ),
];

/// The text of one program: its lines, and what every program has around them.
fn program_text(number: usize, body: &str) -> String {
    let add = |what: &str, times: u32| {
        let copy = if what.starts_with('r') { format!("r5 = {what}") } else { format!("r5 = {what} ll") };
        format!(
            "{copy}\nr1 = map[@out][0] ll\nr2 = *(u64 *)(r1 + 0)\nr2 *= {times}\nr2 += r5\n*(u64 *)(r1 + 0) = r2"
        )
    };
    let line = |line: &str| {
        let line = line.trim();
        match line.split_once(' ') {
            Some(("mark", digit)) => add(digit, 10),
            Some(("add", number)) => add(number, 1),
            Some(("to", slot)) => format!("r1 = r6\nr2 = map[@jumps] ll\nr3 = {slot}\ncall tail_call"),
            _ => line.to_owned(),
        }
    };
    let lines: Vec<String> = body.split(';').map(line).collect();
    // The last line may be a function's, which answers for itself.
    let end = if body.contains("exit") { "exit" } else { "r0 = 0\nexit" };
    format!(
        "program \"p{number}\" probe\nr6 = r1\nr1 = map[@in][0] ll\nr7 = *(u64 *)(r1 + 0)\n{}\n{end}\n",
        lines.join("\n")
    )
}

fn object(programs: &[&str]) -> Object {
    let programs = programs.iter().enumerate().map(|(number, body)| program_text(number, body));
    let text = format!("{MAPS}{}", programs.collect::<String>());
    asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn input(inputs: [u64; 2]) -> Vec<u8> {
    inputs.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What is in `@out` after `run` on fresh maps.
fn result(maps: Segment, (_, slots, inputs, _): &Case, run: impl FnOnce(&Segment)) -> u64 {
    maps.map(0).update(&[0; 4], &input(*inputs), 0).expect("an array has its elements");
    for (slot, program) in *slots {
        maps.map(2).set_program(*slot, Some(*program)).expect("the slot is there");
    }
    run(&maps);
    let value = maps.map(1).lookup(&[0; 4]).expect("an array has its elements");
    u64::from_le_bytes(value.try_into().expect("8 bytes"))
}

fn all_verified(object: &Object) -> Vec<VerifiedProgram> {
    object.programs.iter().map(|program| verified(program, &object.maps)).collect()
}

fn all_compiled(programs: &[VerifiedProgram], abi: &SiteAbi, flags: Flags) -> Vec<Executable> {
    programs.iter().map(|program| compiled(program, abi, flags)).collect()
}

#[test]
fn every_case_in_the_interpreter() {
    for case in CASES {
        let object = object(case.0);
        let programs = all_verified(&object);
        let others: Vec<&VerifiedProgram> = programs.iter().collect();
        let got = result(engines::segment(&object.maps, engines::cpus()), case, |segment| {
            let environment = weir_interp::Environment { segment };
            let result = weir_interp::run_among(&others, &programs[0], &environment, &mut Frame::default());
            assert_eq!(result, Ok(0), "{case:?}");
        });
        assert_eq!(got, case.3, "{case:?}");
    }
}

#[test]
fn every_case_in_the_jit() {
    for case in CASES {
        let object = object(case.0);
        let programs = all_verified(&object);
        for abi in abis() {
            for flags in [Flags::Change, Flags::KeepEach, Flags::KeepIfPossible] {
                let executables = all_compiled(&programs, &abi, flags);
                let got = result(segment_for(&object.maps, &abi), case, |segment| {
                    let programs = LocalProgram::load_all(&executables, segment).expect("code fits");
                    // The second run counts anew.
                    let result = programs[0].run(&mut Frame { tail_calls: 33, ..Frame::default() });
                    assert_eq!(result, 0, "{case:?}");
                });
                let text = || weir_jit::disassemble(&executables[0], &object);
                assert_eq!(got, case.3, "{case:?} {abi:?} {flags:?}\n{}", text());
            }
        }
    }
}

#[test]
fn every_case_in_the_kernel() {
    if let Err(reason) = kernel::available() {
        return skip::skip("tail-calls::kernel", reason);
    }
    // Rounds and callbacks came with Linux 6.9 at the latest.
    if kernel::version() < (6, 9) {
        return skip::skip("tail-calls::kernel", "older than Linux 6.9");
    }
    for case in CASES {
        let object = object(case.0);
        let maps = Maps::create(&object.maps).expect("the maps");
        maps.update(0, &[0; 4], &input(case.2)).expect("an array has its elements");
        let load = |program: &Program| {
            let program = Program { kind: ProgramKind::SocketFilter, ..program.clone() };
            weir_kernel::load(&program, &maps).unwrap_or_else(|error| panic!("{case:?}: {error}"))
        };
        let programs: Vec<_> = object.programs.iter().map(load).collect();
        for (slot, program) in case.1 {
            maps.set_program(2, *slot, &programs[*program as usize]).expect("the slot is there");
        }
        programs[0].run(Input { bytes: &[0; 64], context: &[] }, 1).expect("a run");
        let value = maps.lookup(1, &[0; 4]).expect("a look-up").expect("an array has its elements");
        assert_eq!(u64::from_le_bytes(value.try_into().expect("8 bytes")), case.3, "{case:?}");
    }
}

/// Random objects of one run; the seed is fixed.
const RANDOM_OBJECTS: usize = 600;
const RANDOM_SLOTS: u32 = 4;
/// Where a random program keeps its context.
const KEPT: i16 = random::SCRATCH - 24;

/// A random program on the maps of the generator, and on an array of programs behind them.
fn random_program(random: &mut Random) -> Vec<Insn> {
    let mut body = random::random_body(random, true);
    for _ in 0..1 + random.below(2) {
        let slot = match random.below(2) {
            0 => vec![random::constant(3, random.below(6) as i32)],
            _ => vec![
                random::copy(3, 6 + random.below(4) as u8),
                random::insn(class::ALU64 | alu::AND | source::K, 3, 0, 0, 3),
            ],
        };
        body.extend(slot);
        body.push(random::insn(class::LDX | mode::MEM | size::DW, 1, 10, KEPT, 0));
        body.extend(random::wide(2, pseudo::MAP_INDEX, random::maps().len() as u64));
        body.push(random::insn(class::JMP | jmp::CALL, 0, pseudo::HELPER, 0, helper::TAIL_CALL));
        body.extend((0..6).map(|reg| random::copy(reg, 6 + reg % 4)));
        body.extend(random::random_body(random, true));
    }
    let keep = random::insn(class::STX | mode::MEM | size::DW, 10, 1, KEPT, 0);
    [vec![keep], random::around(&body)].concat()
}

#[test]
fn random_programs_that_take_over_agree() {
    testkit::cpu::stay_on_this();
    let mut random = Random(0x7a11);
    let mut maps = random::maps();
    maps.push(MapSpec::new("jumps", MapKind::ProgArray, 4, 4, RANDOM_SLOTS));
    let jumps = maps.len() - 1;
    for _ in 0..RANDOM_OBJECTS {
        let sources: Vec<Program> = (0..3).map(|_| engines::program(random_program(&mut random))).collect();
        let programs: Vec<VerifiedProgram> = sources.iter().map(|source| verified(source, &maps)).collect();
        let slots: Vec<Option<u32>> =
            (0..RANDOM_SLOTS).map(|_| Some(random.below(4) as u32).filter(|program| *program < 3)).collect();
        let frame = random::random_frame(&mut random);
        let run = |segment: Segment, run: &dyn Fn(&Segment) -> u64| {
            for (slot, program) in (0..).zip(&slots) {
                segment.map(jumps).set_program(slot, *program).expect("the slot is there");
            }
            (run(&segment), engines::contents(&segment))
        };
        // All programs of an object claim lanes, or none does.
        let needs_lane = programs.iter().find(|program| program.needs_lane());
        let abi = random.pick(&abis_for(needs_lane.unwrap_or(&programs[0])));
        let expected = run(segment_for(&maps, &abi), &|segment| {
            let others: Vec<&VerifiedProgram> = programs.iter().collect();
            let environment = weir_interp::Environment { segment };
            weir_interp::run_among(&others, &programs[0], &environment, &mut frame.clone()).expect("verified")
        });
        let flags = random.pick(&[Flags::Change, Flags::KeepEach]);
        let executables = all_compiled(&programs, &abi, flags);
        let got = run(segment_for(&maps, &abi), &|segment| {
            LocalProgram::load_all(&executables, segment).expect("code fits")[0].run(&mut frame.clone())
        });
        let text = || asm::print(&Object { maps: maps.clone(), programs: sources.clone() });
        assert_eq!(got, expected, "{abi:?} {flags:?} {slots:?}\n{}", text());
    }
}

/// Numbers in the segment that are no program's lead nowhere: it is written by others too.
#[test]
fn numbers_without_a_program_lead_nowhere() {
    let object = object(&["mark 1; to 0; mark 2", "mark 3"]);
    let programs = all_verified(&object);
    for number in [2, 3, 1000, u32::MAX - 1, u32::MAX] {
        let case: Case = (&[], &[], [0, 0], 0);
        for abi in abis() {
            let executables = all_compiled(&programs, &abi, Flags::Change);
            let got = result(segment_for(&object.maps, &abi), &case, |segment| {
                segment.map(2).set_program(0, Some(number)).expect("the slot is there");
                let programs = LocalProgram::load_all(&executables, segment).expect("code fits");
                programs[0].run(&mut Frame::default());
            });
            assert_eq!(got, 12, "{number:#x} {abi:?}");
        }
        let others: Vec<&VerifiedProgram> = programs.iter().collect();
        let got = result(engines::segment(&object.maps, engines::cpus()), &case, |segment| {
            segment.map(2).set_program(0, Some(number)).expect("the slot is there");
            let environment = weir_interp::Environment { segment };
            weir_interp::run_among(&others, &programs[0], &environment, &mut Frame::default())
                .expect("verified");
        });
        assert_eq!(got, 12, "{number:#x}");
    }
}

/// A program that is loaded by itself has no other to call, whatever is in the slots.
#[test]
fn a_program_alone_goes_on() {
    let object = object(&["mark 1; to 0; mark 2"]);
    let programs = all_verified(&object);
    let case: Case = (&[], &[(0, 0)], [0, 0], 0);
    for abi in abis() {
        let executable = compiled(&programs[0], &abi, Flags::Change);
        let got = result(segment_for(&object.maps, &abi), &case, |segment| {
            LocalProgram::load(&executable, segment).expect("code fits").run(&mut Frame::default());
        });
        assert_eq!(got, 12, "{abi:?}");
    }
}

#[test]
fn programs_of_different_kinds_are_not_loaded_together() {
    let text = format!("{MAPS}program \"a\" probe\nr0 = 0\nexit\nprogram \"b\" xdp\nr0 = 0\nexit\n");
    let object = asm::parse(&text).expect("is assembly text");
    let abi = engines::shared_abi(false);
    let executables = all_compiled(&all_verified(&object), &abi, Flags::Change);
    let error =
        LocalProgram::load_all(&executables, &segment_for(&object.maps, &abi)).expect_err("two kinds");
    assert!(error.to_string().contains("of kind xdp"), "{error}");
}

/// Whoever enters a program with tail calls has to expect what any program may do.
#[test]
fn what_takes_over_is_accounted_for() {
    let object = object(&["to 0; mark 2"]);
    let executable = compiled(&all_verified(&object)[0], &engines::shared_abi(false), Flags::KeepIfPossible);
    assert_eq!(executable.context_reads, (1 << 29) - 1);
    assert!(executable.reads_cookie && executable.clobbers_flags && executable.tail_entry > 0);
    assert!(executable.stack_bytes >= weir_rt::limits::PROGRAM_STACK_BYTES);
    assert_eq!(executable.clobbers.count_ones(), 9);
}
