//! The JIT against the interpreter: every operation on edge values, every pair of registers, and random programs.
//!
//! Inputs come through the context, so that neither engine can know them beforehand. Every program ends by mixing
//! all ten registers and the stack into r0: a register that an operation should have left alone shows.

mod engines;

use engines::{EDGES, Random, abis, cpus, program};
use weir_ebpf::insn::{LD_IMM64, alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::{Insn, MapKind, MapSpec, helper};
use weir_jit::Flags;
use weir_rt::executable::{Frame, SiteAbi};
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::{Limits, VerifiedProgram, verify};

/// Bytes of stack that the programs play with.
const PLAYGROUND: i16 = 64;

/// A word below the playground and the registers' spills, and one more below it: not part of the result.
const SCRATCH: i16 = -PLAYGROUND - 11 * 8;

/// Random programs of one run; the seeds are fixed.
const RANDOM_PROGRAMS: usize = 10_000;
const RANDOM_PROGRAMS_WITH_MAPS: usize = 5_000;

/// Arithmetic operations: opcode bits and `off`.
const ALU: &[(u8, i16)] = &[
    (alu::ADD, 0),
    (alu::SUB, 0),
    (alu::MUL, 0),
    (alu::DIV, 0),
    (alu::DIV, 1),
    (alu::OR, 0),
    (alu::AND, 0),
    (alu::LSH, 0),
    (alu::RSH, 0),
    (alu::MOD, 0),
    (alu::MOD, 1),
    (alu::XOR, 0),
    (alu::MOV, 0),
    (alu::ARSH, 0),
];

const JUMPS: &[u8] = &[
    jmp::JEQ,
    jmp::JGT,
    jmp::JGE,
    jmp::JSET,
    jmp::JNE,
    jmp::JSGT,
    jmp::JSGE,
    jmp::JLT,
    jmp::JLE,
    jmp::JSLT,
    jmp::JSLE,
];

const SIZES: &[(u8, i16)] = &[(size::B, 1), (size::H, 2), (size::W, 4), (size::DW, 8)];

const ATOMICS: &[i32] = &[
    atomic::ADD,
    atomic::OR,
    atomic::AND,
    atomic::XOR,
    atomic::ADD | atomic::FETCH,
    atomic::OR | atomic::FETCH,
    atomic::AND | atomic::FETCH,
    atomic::XOR | atomic::FETCH,
    atomic::XCHG,
    atomic::CMPXCHG,
];

/// Sign-extending moves: class and width.
const EXTENDS: &[(u8, i16)] =
    &[(class::ALU64, 8), (class::ALU64, 16), (class::ALU64, 32), (class::ALU, 8), (class::ALU, 16)];

fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

/// A program that loads r0..r9 from the context, fills the playground with them, does `body`, and mixes everything
/// into r0. Jumps in the body may go to its end.
fn around(body: &[Insn]) -> Vec<Insn> {
    let mut insns = Vec::new();
    for slot in 0..PLAYGROUND / 8 {
        insns.push(insn(class::LDX | mode::MEM | size::DW, 0, 1, 8 * slot, 0));
        insns.push(insn(class::STX | mode::MEM | size::DW, 10, 0, -8 * (slot + 1), 0));
    }
    for reg in [0, 2, 3, 4, 5, 6, 7, 8, 9, 1] {
        insns.push(insn(class::LDX | mode::MEM | size::DW, reg, 1, 8 * i16::from(reg), 0));
    }
    insns.extend_from_slice(body);
    let spill = |reg: u8| -PLAYGROUND - 8 * (i16::from(reg) + 1);
    for reg in 0..10 {
        insns.push(insn(class::STX | mode::MEM | size::DW, 10, reg, spill(reg), 0));
    }
    // r0 = r0 × odd + word, for every word: different contents give different results, but for 2^-64 of them.
    insns.push(insn(class::ALU64 | alu::MOV | source::K, 0, 0, 0, 1));
    let words = (1..=PLAYGROUND / 8 + 10).map(|word| -8 * word);
    for offset in words {
        insns.push(insn(class::ALU64 | alu::MUL | source::K, 0, 0, 0, 0x2545_f491));
        insns.push(insn(class::LDX | mode::MEM | size::DW, 1, 10, offset, 0));
        insns.push(insn(class::ALU64 | alu::ADD | source::X, 0, 1, 0, 0));
    }
    insns.push(insn(class::JMP | jmp::EXIT, 0, 0, 0, 0));
    insns
}

/// A verified program with its code for every kind of site, run on many contexts.
struct Pair {
    program: VerifiedProgram,
    locals: Vec<(SiteAbi, Flags, LocalProgram)>,
    segment: &'static Segment,
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
        let program = verify(&source, &[], &Limits::default()).map_err(|rejection| rejection.to_string())?;
        let segment = empty_segment();
        let locals = abis
            .iter()
            .flat_map(|abi| [(*abi, Flags::Change), (*abi, Flags::KeepEach)])
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
    let abis = abis_by_shift();
    let mut random = Random(0x5eed);
    let refused = random_programs(&mut random, RANDOM_PROGRAMS, false, |random, insns| {
        let pair = Pair::try_new(insns, &abis)?;
        for _ in 0..4 {
            pair.check(random_frame(random));
        }
        Ok(())
    });
    println!("{RANDOM_PROGRAMS} random programs agree, {refused} more were refused by the verifier");
}

#[test]
fn random_programs_with_maps_agree() {
    engines::stay_on_this_cpu();
    let maps = maps();
    let abis = abis();
    let mut random = Random(0xface);
    let refused = random_programs(&mut random, RANDOM_PROGRAMS_WITH_MAPS, true, |random, insns| {
        let source = program(insns);
        let program =
            verify(&source, &maps, &Limits::default()).map_err(|rejection| rejection.to_string())?;
        let frame = random_frame(random);
        let expected = engines::run_interpreter(&program, frame);
        let abi = random.pick(&abis);
        let flags = random.pick(&[Flags::Change, Flags::KeepEach]);
        let got = engines::run_jit(&program, &abi, flags, frame);
        let text = || {
            let object = weir_ebpf::Object { maps: maps.clone(), programs: vec![source.clone()] };
            weir_jit::disassemble(&engines::compiled(&program, &abi, flags), &object)
        };
        assert_eq!(got, expected, "{abi:?} {frame:x?}\n{}", text());
        Ok(())
    });
    println!("{RANDOM_PROGRAMS_WITH_MAPS} random programs with maps agree, {refused} more were refused");
}

/// Gives programs to `check` until it has taken so many; returns how many it refused.
fn random_programs(
    random: &mut Random,
    count: usize,
    with_maps: bool,
    mut check: impl FnMut(&mut Random, Vec<Insn>) -> Result<(), String>,
) -> usize {
    let (mut accepted, mut refused) = (0, 0);
    while accepted < count {
        let body = random_body(random, with_maps);
        match check(random, around(&body)) {
            Ok(()) => accepted += 1,
            Err(message) => {
                refused += 1;
                assert!(refused < count, "most programs are refused, such as: {message}");
            }
        }
    }
    refused
}

fn random_frame(random: &mut Random) -> Frame {
    let mut frame = Frame::default();
    for slot in &mut frame.regs {
        *slot = random.value();
    }
    frame
}

/// Instructions that stay together, or a jump over so many of the units after it.
enum Unit {
    Together(Vec<Insn>),
    Jump(Insn, usize),
}

/// Up to 24 units on registers, the playground and the maps; jumps go forward, to the end at most.
fn random_body(random: &mut Random, with_maps: bool) -> Vec<Insn> {
    let count = 1 + random.below(24) as usize;
    let mut units = Vec::with_capacity(count);
    let mut jumps = 0;
    while units.len() < count {
        let left = (count - units.len() - 1) as u64;
        let kinds = if with_maps { 26 } else { 22 };
        units.push(match random.below(kinds) {
            9..11 if jumps < 6 => {
                jumps += 1;
                Unit::Jump(random_jump(random), random.below(left + 1) as usize)
            }
            8 => Unit::Together(vec![random_move(random)]),
            11..14 => Unit::Together(vec![random_load(random)]),
            14..17 => Unit::Together(vec![random_store(random)]),
            17 => Unit::Together(vec![random_atomic(random)]),
            18 => Unit::Together(wide(random.below(10) as u8, pseudo::NONE, random.value())),
            19 => Unit::Together(vec![constant(random.below(10) as u8, random.value() as i32)]),
            20..22 => Unit::Together(random_pointer(random)),
            22..26 => Unit::Together(random_map_use(random)),
            _ => Unit::Together(vec![random_alu(random)]),
        });
    }
    flatten(&units)
}

fn flatten(units: &[Unit]) -> Vec<Insn> {
    let len = |unit: &Unit| match unit {
        Unit::Together(insns) => insns.len(),
        Unit::Jump(..) => 1,
    };
    let mut body = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        match unit {
            Unit::Together(insns) => body.extend_from_slice(insns),
            Unit::Jump(insn, over) => {
                let skipped: usize = units[index + 1..index + 1 + over].iter().map(len).sum();
                body.push(Insn { off: skipped as i16, ..*insn });
            }
        }
    }
    body
}

fn constant(dst: u8, value: i32) -> Insn {
    insn(class::ALU64 | alu::MOV | source::K, dst, 0, 0, value)
}

fn copy(dst: u8, src: u8) -> Insn {
    insn(class::ALU64 | alu::MOV | source::X, dst, src, 0, 0)
}

fn wide(dst: u8, pseudo: u8, value: u64) -> Vec<Insn> {
    vec![insn(LD_IMM64, dst, pseudo, 0, value as i32), insn(0, 0, 0, 0, (value >> 32) as i32)]
}

/// An access to the playground through a copy of r10, perhaps spilled or chosen by path in between.
fn random_pointer(random: &mut Random) -> Vec<Insn> {
    let pointer = random.below(10) as u8;
    let other = (pointer + 1 + random.below(9) as u8) % 10;
    let (size, offset) = random_place(random);
    let mut insns = match random.below(3) {
        0 => vec![copy(pointer, 10), insn(class::ALU64 | alu::ADD | source::K, pointer, 0, 0, -24)],
        1 => vec![
            copy(pointer, 10),
            insn(class::ALU64 | alu::ADD | source::K, pointer, 0, 0, -24),
            insn(class::STX | mode::MEM | size::DW, 10, pointer, SCRATCH, 0),
            insn(class::LDX | mode::MEM | size::DW, pointer, 10, SCRATCH, 0),
        ],
        // The same place on both paths, so that every offset stays inside.
        _ => vec![
            copy(pointer, 10),
            insn(class::JMP | jmp::JSGT | source::K, other, 0, 1, 0),
            copy(pointer, 10),
            insn(class::ALU64 | alu::ADD | source::K, pointer, 0, 0, -24),
        ],
    };
    let offset = offset + 24;
    insns.push(match random.below(3) {
        0 => insn(class::LDX | mode::MEM | size, other, pointer, offset, 0),
        1 => insn(class::STX | mode::MEM | size, pointer, other, offset, 0),
        _ => insn(class::ST | mode::MEM | size, pointer, 0, offset, random.value() as i32),
    });
    // A pointer may not be mixed into the result.
    insns.push(constant(pointer, random.value() as i32));
    insns.push(insn(class::ST | mode::MEM | size::DW, 10, 0, SCRATCH, 1));
    insns
}

/// A use of a map: a key on the stack, a lookup, a change of the value, or an update of a hash.
fn random_map_use(random: &mut Random) -> Vec<Insn> {
    let map = random.below(maps().len() as u64) as u8;
    let is_array = map < 2;
    let saved = 6 + random.below(4) as u8;
    let key_size = if is_array { size::W } else { size::DW };
    let mut insns = vec![match random.below(2) {
        0 => insn(class::ST | mode::MEM | key_size, 10, 0, SCRATCH, random.below(5) as i32),
        _ => insn(class::STX | mode::MEM | key_size, 10, saved, SCRATCH, 0),
    }];
    insns.extend([copy(2, 10), insn(class::ALU64 | alu::ADD | source::K, 2, 0, 0, i32::from(SCRATCH))]);
    insns.extend(wide(1, pseudo::MAP_INDEX, map.into()));
    if !is_array && random.below(2) == 0 {
        insns.extend([
            insn(class::STX | mode::MEM | size::DW, 10, saved, SCRATCH - 8, 0),
            copy(3, 10),
            insn(class::ALU64 | alu::ADD | source::K, 3, 0, 0, i32::from(SCRATCH) - 8),
            constant(4, 0),
            insn(class::JMP | jmp::CALL, 0, 0, 0, helper::MAP_UPDATE_ELEM),
        ]);
    } else {
        insns.push(insn(class::JMP | jmp::CALL, 0, 0, 0, helper::MAP_LOOKUP_ELEM));
        let operation = random.pick(&[atomic::ADD, atomic::OR, atomic::XOR]);
        insns.extend([
            insn(class::JMP | jmp::JEQ | source::K, 0, 0, 1, 0),
            insn(class::STX | mode::ATOMIC | random.pick(&[size::W, size::DW]), 0, saved, 0, operation),
        ]);
    }
    // What the call left without a value, and r0, which may be a pointer.
    insns.extend((0..6).map(|reg| copy(reg, 6 + reg % 4)));
    insns
}

/// An array, a per-CPU array, a hash.
fn maps() -> Vec<MapSpec> {
    let map = |name: &str, kind, key_bytes, value_bytes| MapSpec {
        name: name.into(),
        kind,
        key_bytes,
        value_bytes,
        max_entries: 3,
    };
    vec![
        map("array", MapKind::Array, 4, 24),
        map("lanes", MapKind::PerCpuArray, 4, 8),
        map("hash", MapKind::Hash, 8, 8),
    ]
}

fn random_alu(random: &mut Random) -> Insn {
    let class = random.pick(&[class::ALU, class::ALU64]);
    let (operation, off) = random.pick(ALU);
    let dst = random.below(10) as u8;
    if random.below(2) == 0 {
        return insn(class | operation | source::X, dst, random.below(10) as u8, off, 0);
    }
    let imm = match operation {
        alu::LSH | alu::RSH | alu::ARSH => random.below(if class == class::ALU { 32 } else { 64 }) as i32,
        alu::DIV | alu::MOD => (random.value() as i32).wrapping_abs() | 1,
        _ => random.value() as i32,
    };
    insn(class | operation | source::K, dst, 0, off, imm)
}

fn random_move(random: &mut Random) -> Insn {
    let dst = random.below(10) as u8;
    match random.below(3) {
        0 => {
            let (class, bits) = random.pick(EXTENDS);
            insn(class | alu::MOV | source::X, dst, random.below(10) as u8, bits, 0)
        }
        1 => insn(random.pick(&[class::ALU, class::ALU64]) | alu::NEG, dst, 0, 0, 0),
        _ => {
            let opcode =
                random.pick(&[class::ALU | source::K, class::ALU | source::X, class::ALU64]) | alu::END;
            insn(opcode, dst, 0, 0, random.pick(&[16, 32, 64]))
        }
    }
}

/// Its offset is put in later.
fn random_jump(random: &mut Random) -> Insn {
    let opcode = random.pick(&[class::JMP, class::JMP32]) | random.pick(JUMPS);
    let dst = random.below(10) as u8;
    if random.below(2) == 0 {
        insn(opcode | source::X, dst, random.below(10) as u8, 0, 0)
    } else {
        insn(opcode | source::K, dst, 0, 0, random.value() as i32)
    }
}

fn random_place(random: &mut Random) -> (u8, i16) {
    let (size, bytes) = random.pick(SIZES);
    let slots = PLAYGROUND / bytes;
    (size, -bytes * (1 + random.below(slots as u64) as i16))
}

fn random_load(random: &mut Random) -> Insn {
    let (size, offset) = random_place(random);
    let mode = if size != size::DW && random.below(2) == 0 { mode::MEMSX } else { mode::MEM };
    insn(class::LDX | mode | size, random.below(10) as u8, 10, offset, 0)
}

fn random_store(random: &mut Random) -> Insn {
    let (size, offset) = random_place(random);
    if random.below(3) == 0 {
        insn(class::ST | mode::MEM | size, 10, 0, offset, random.value() as i32)
    } else {
        insn(class::STX | mode::MEM | size, 10, random.below(10) as u8, offset, 0)
    }
}

fn random_atomic(random: &mut Random) -> Insn {
    let (size, bytes) = random.pick(&[(size::W, 4), (size::DW, 8)]);
    let offset = -bytes * (1 + random.below((PLAYGROUND / bytes) as u64) as i16);
    insn(class::STX | mode::ATOMIC | size, 10, random.below(10) as u8, offset, random.pick(ATOMICS))
}
