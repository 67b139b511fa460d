//! The JIT against the interpreter: every operation on edge values, every pair of registers, and random programs.
//!
//! Inputs come through the context, so that neither engine can know them beforehand. Every program ends by mixing
//! all ten registers and the stack into r0: a register that an operation should have left alone shows.

use crate::engines;
use crate::random;

use std::time::Duration;

use engines::{EDGES, Random, abis, abis_for, cpus, program};
use random::{
    ALU, ATOMICS, EXTENDS, JUMPS, PLAYGROUND, SIZES, around, insn, maps, random_body, random_frame,
    random_with_functions,
};
use testkit::random::{Cases, Daily};
use weir_ebpf::Insn;
use weir_ebpf::insn::{LD_IMM64, alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_jit::{Flags, Passes};
use weir_rt::executable::{Frame, LanePolicy, SiteAbi};
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::{Limits, VerifiedProgram, verify};

/// Random programs of one run; the seeds are fixed.
const fn daily(seed: u64, programs: u64) -> Daily {
    Daily { seed, at_least: programs / 10, at_most: programs, budget: Duration::from_secs(2) }
}

/// A verified program with its code for every kind of site, run on many contexts.
struct Pair {
    program: VerifiedProgram,
    locals: Vec<(SiteAbi, Flags, LocalProgram)>,
    segment: &'static Segment,
}

/// Calls multiply paths: what is not shown to be safe soon is refused, which takes a second with the usual limit.
fn limits() -> Limits {
    Limits { explored_insns_max: 10_000, ..Limits::default() }
}

/// Programs without maps share one segment, for the life of the test.
fn empty_segment() -> &'static Segment {
    use std::sync::OnceLock;
    static SEGMENT: OnceLock<Segment> = OnceLock::new();
    SEGMENT.get_or_init(|| engines::segment(&[], cpus()))
}

impl Pair {
    fn new(insns: Vec<Insn>, abis: &[SiteAbi]) -> Pair {
        Pair::try_new(insns, abis).unwrap_or_else(|message| panic!("{message}"))
    }

    fn try_new(insns: Vec<Insn>, abis: &[SiteAbi]) -> Result<Pair, String> {
        let source = program(insns);
        let program = verify(&source, &[], &limits()).map_err(|rejection| rejection.to_string())?;
        let segment = empty_segment();
        let locals = abis
            .iter()
            .flat_map(|abi| {
                [Flags::Change, Flags::KeepEach, Flags::Only(Passes::NONE)].map(|flags| (*abi, flags))
            })
            .map(|(abi, flags)| {
                let executable = engines::compiled(&program, &abi, flags);
                (abi, flags, LocalProgram::load(&executable, segment).expect("code fits"))
            })
            .collect();
        Ok(Pair { program, locals, segment })
    }

    fn check(&self, frame: Frame) {
        let environment = weir_interp::Environment { segment: self.segment };
        let expected = weir_interp::run(&self.program, &environment, &mut frame.clone()).expect("verified");
        for (abi, flags, local) in &self.locals {
            let got = local.run(&mut frame.clone());
            assert_eq!(got, expected, "{abi:?} {frame:x?}\n{}", self.text(abi, *flags));
        }
    }

    fn text(&self, abi: &SiteAbi, flags: Flags) -> String {
        let source = program(self.program.insns().to_vec());
        let object = weir_ebpf::Object { maps: Vec::new(), programs: vec![source] };
        weir_jit::disassemble(&engines::compiled(&self.program, abi, flags), &object)
    }
}

/// Every form of code: all passes, none, each alone, all but each, and without flags.
fn forms() -> Vec<Flags> {
    let each = Passes::each().flat_map(|pass| [pass, Passes::without(pass)]).map(Flags::Only);
    each.chain([Flags::Change, Flags::Only(Passes::NONE), Flags::KeepEach]).collect()
}

/// Contexts without per-CPU code differ by BMI2 alone.
fn abis_by_shift() -> Vec<SiteAbi> {
    let mut abis = abis();
    abis.dedup_by_key(|abi| abi.bmi2);
    abis
}

/// A context with these values for two registers, and fixed ones for the rest.
fn frame_with(dst: u8, a: u64, src: u8, b: u64) -> Frame {
    let mut random = Random(7);
    let mut frame = Frame::default();
    for slot in &mut frame.regs {
        *slot = random.next();
    }
    frame.regs[usize::from(src)] = b;
    frame.regs[usize::from(dst)] = a;
    frame
}

#[test]
fn arithmetic_on_edges_of_registers() {
    let abis = abis_by_shift();
    for class in [class::ALU, class::ALU64] {
        for &(operation, off) in ALU {
            let pair = Pair::new(around(&[insn(class | operation | source::X, 6, 7, off, 0)]), &abis);
            for &a in EDGES {
                for &b in EDGES {
                    pair.check(frame_with(6, a, 7, b));
                }
            }
        }
    }
}

#[test]
fn arithmetic_on_every_pair_of_registers() {
    let abis = abis_by_shift();
    let mut random = Random(1);
    for class in [class::ALU, class::ALU64] {
        for &(operation, off) in ALU {
            for dst in 0..10 {
                for src in 0..10 {
                    let pair =
                        Pair::new(around(&[insn(class | operation | source::X, dst, src, off, 0)]), &abis);
                    for _ in 0..3 {
                        let (a, b) = (random.value(), random.value());
                        pair.check(frame_with(dst, a, src, b));
                    }
                }
            }
        }
    }
}

#[test]
fn arithmetic_on_edges_of_immediates() {
    let abis = abis_by_shift();
    let mut refused = 0;
    for class in [class::ALU, class::ALU64] {
        let bits = if class == class::ALU { 32 } else { 64 };
        for &(operation, off) in ALU {
            for dst in [0, 3, 4, 9] {
                for &imm in EDGES {
                    let is_shift = matches!(operation, alu::LSH | alu::RSH | alu::ARSH);
                    let imm = if is_shift { (imm % bits) as i32 } else { imm as i32 };
                    let body = [insn(class | operation | source::K, dst, 0, off, imm)];
                    // The verifier refuses division by a constant 0, as the kernel's does.
                    let Ok(pair) = Pair::try_new(around(&body), &abis) else {
                        refused += 1;
                        continue;
                    };
                    for &a in EDGES {
                        pair.check(frame_with(dst, a, 1, 1));
                    }
                }
            }
        }
    }
    let by_zero = 2 * 4 * 4 * EDGES.iter().filter(|&&imm| imm as i32 == 0).count();
    assert!(refused <= by_zero, "{refused} programs were refused");
}

#[test]
fn constants_in_registers_act_like_the_registers() {
    let abis = abis_by_shift();
    let mut random = Random(2);
    for class in [class::ALU, class::ALU64] {
        for &(operation, off) in ALU {
            for &value in EDGES {
                let body = [
                    insn(LD_IMM64, 4, pseudo::NONE, 0, value as i32),
                    insn(0, 0, 0, 0, (value >> 32) as i32),
                    insn(class | operation | source::X, 3, 4, off, 0),
                ];
                let Ok(pair) = Pair::try_new(around(&body), &abis) else {
                    panic!("{operation:#x} by {value:#x} was refused");
                };
                for _ in 0..4 {
                    pair.check(frame_with(3, random.value(), 1, 1));
                }
            }
        }
    }
}

#[test]
fn one_register_operations_on_every_register() {
    let abis = abis_by_shift();
    for dst in 0..10 {
        let mut bodies =
            vec![insn(class::ALU | alu::NEG, dst, 0, 0, 0), insn(class::ALU64 | alu::NEG, dst, 0, 0, 0)];
        for bits in [16, 32, 64] {
            bodies.push(insn(class::ALU | alu::END | source::K, dst, 0, 0, bits));
            bodies.push(insn(class::ALU | alu::END | source::X, dst, 0, 0, bits));
            bodies.push(insn(class::ALU64 | alu::END | source::K, dst, 0, 0, bits));
        }
        for src in 0..10 {
            for &(class, bits) in EXTENDS {
                bodies.push(insn(class | alu::MOV | source::X, dst, src, bits, 0));
            }
        }
        for body in bodies {
            let pair = Pair::new(around(&[body]), &abis);
            for &a in EDGES {
                pair.check(frame_with(dst, a, body.src, a));
            }
        }
    }
}

#[test]
fn jumps_on_edges() {
    let abis = abis_by_shift();
    for class in [class::JMP, class::JMP32] {
        for &operation in JUMPS {
            let taken = insn(class::ALU64 | alu::ADD | source::K, 0, 0, 0, 1);
            let by_register =
                Pair::new(around(&[insn(class | operation | source::X, 6, 4, 1, 0), taken]), &abis);
            for &b in EDGES {
                let by_imm = insn(class | operation | source::K, 6, 0, 1, b as i32);
                let by_immediate = Pair::new(around(&[by_imm, taken]), &abis);
                for &a in EDGES {
                    by_register.check(frame_with(6, a, 4, b));
                    by_immediate.check(frame_with(6, a, 4, b));
                }
            }
        }
    }
}

#[test]
fn loads_and_stores_on_every_register() {
    let abis = abis_by_shift();
    for reg in 0..10 {
        for &(size, bytes) in SIZES {
            for offset in [-PLAYGROUND, -bytes, -8 - bytes] {
                let mut bodies = vec![
                    insn(class::LDX | mode::MEM | size, reg, 10, offset, 0),
                    insn(class::STX | mode::MEM | size, 10, reg, offset, 0),
                    insn(class::ST | mode::MEM | size, 10, 0, offset, -0x1234_5678),
                ];
                if size != size::DW {
                    bodies.push(insn(class::LDX | mode::MEMSX | size, reg, 10, offset, 0));
                }
                for body in bodies {
                    let pair = Pair::new(around(&[body]), &abis);
                    for &a in EDGES {
                        pair.check(frame_with(reg, a, 0, a ^ 0x80));
                    }
                }
            }
        }
    }
}

#[test]
fn atomics_on_every_pair_of_registers() {
    let abis = abis_by_shift();
    let mut random = Random(3);
    for &operation in ATOMICS {
        for size in [size::W, size::DW] {
            for src in 0..10 {
                for base in 0..11 {
                    // Through r10 itself, and through a copy that the values pass cannot follow to its place.
                    let mut body = Vec::new();
                    if base != 10 {
                        if base == src {
                            continue;
                        }
                        body.extend(pointer_by_path(base, (base + 1) % 10));
                    }
                    let offset = if base == 10 { -16 } else { 0 };
                    body.push(insn(class::STX | mode::ATOMIC | size, base, src, offset, operation));
                    if base != 10 {
                        // A pointer may not be mixed into the result.
                        body.push(insn(class::ALU64 | alu::MOV | source::K, base, 0, 0, 5));
                    }
                    let Ok(pair) = Pair::try_new(around(&body), &abis) else {
                        assert!(base == 0 && operation == atomic::CMPXCHG, "{operation:#x} refused");
                        continue;
                    };
                    for _ in 0..6 {
                        let value = random.value();
                        let mut frame = frame_with(src, random.value(), (src + 1) % 10, value);
                        // Half of the comparisons hold: these two words are those that `base` may point to.
                        if random.below(2) == 0 {
                            frame.regs[1] = frame.regs[0];
                            frame.regs[2] = frame.regs[0];
                        }
                        pair.check(frame);
                    }
                }
            }
        }
    }
}

/// `base` = r10 − 16 or r10 − 24, as `decider` says.
fn pointer_by_path(base: u8, decider: u8) -> [Insn; 4] {
    let take = insn(class::JMP | jmp::JSGT | source::K, decider, 0, 1, 0);
    [
        insn(class::ALU64 | alu::MOV | source::X, base, 10, 0, 0),
        insn(class::ALU64 | alu::ADD | source::K, base, 0, 0, -24),
        take,
        insn(class::ALU64 | alu::ADD | source::K, base, 0, 0, 8),
    ]
}

#[test]
fn random_programs_agree() {
    let cases = Cases::of("WEIR_PROGRAMS", daily(0x5eed, 10_000));
    check_random_programs(cases, |random| around(&random_body(random, false)));
}

#[test]
fn random_programs_with_functions_agree() {
    let cases = Cases::of("WEIR_FUNCTIONS", daily(0xca11, 1_500));
    check_random_programs(cases, |random| random_with_functions(random, false));
}

#[test]
fn random_programs_with_maps_agree() {
    let cases = Cases::of("WEIR_PROGRAMS_WITH_MAPS", daily(0xface, 5_000));
    check_random_programs_with_maps(cases, |random| around(&random_body(random, true)));
}

#[test]
fn random_programs_with_functions_and_maps_agree() {
    let cases = Cases::of("WEIR_FUNCTIONS_WITH_MAPS", daily(0xb07, 700));
    check_random_programs_with_maps(cases, |random| random_with_functions(random, true));
}

fn check_random_programs(cases: Cases, make: impl FnMut(&mut Random) -> Vec<Insn>) {
    let abis = abis_by_shift();
    let (count, refused) = random_programs(cases, make, |random, insns| {
        let pair = Pair::try_new(insns, &abis)?;
        for _ in 0..4 {
            pair.check(random_frame(random));
        }
        Ok(())
    });
    println!("{count} random programs agree, {refused} more were refused by the verifier");
}

fn check_random_programs_with_maps(cases: Cases, make: impl FnMut(&mut Random) -> Vec<Insn>) {
    testkit::cpu::stay_on_this();
    let maps = maps();
    let (mut need_lanes, mut claim) = (0, 0);
    let (count, refused) = random_programs(cases, make, |random, insns| {
        let source = program(insns);
        let program = verify(&source, &maps, &limits()).map_err(|rejection| rejection.to_string())?;
        let frame = random_frame(random);
        let expected = engines::run_interpreter(&program, frame);
        let abi = random.pick(&abis_for(&program));
        need_lanes += u64::from(program.needs_lane());
        claim += u64::from(matches!(abi.lanes, LanePolicy::Claimed { .. }));
        let flags = random.pick(&forms());
        let got = engines::run_jit(&program, &abi, flags, frame);
        let text = || {
            let object = weir_ebpf::Object { maps: maps.clone(), programs: vec![source.clone()] };
            weir_jit::disassemble(&engines::compiled(&program, &abi, flags), &object)
        };
        assert_eq!(got, expected, "{abi:?} {frame:x?}\n{}", text());
        Ok(())
    });
    println!(
        "{count} random programs with maps agree, {refused} more were refused; {claim} ran on sites that claim lanes, \
         {need_lanes} had to"
    );
    assert!(need_lanes > count / 20, "{need_lanes} programs need a lane");
}

/// Gives programs to `check` until it has taken one for each case; returns how many it took, and how many it refused.
fn random_programs(
    mut cases: Cases,
    mut make: impl FnMut(&mut Random) -> Vec<Insn>,
    mut check: impl FnMut(&mut Random, Vec<Insn>) -> Result<(), String>,
) -> (u64, u64) {
    let (mut random, mut refused) = (Random(cases.seed()), 0);
    for case in cases.by_ref() {
        while let insns = make(&mut random)
            && let Err(message) = check(&mut random, insns)
        {
            refused += 1;
            assert!(refused < case + 50, "most programs are refused, such as: {message}");
        }
    }
    (cases.given(), refused)
}
