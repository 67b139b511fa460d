//! Random programs for the engines: straight code on registers, stack and maps, forward jumps, bounded loops, and
//! local functions.

#![allow(dead_code, reason = "each test binary uses its part")]

use weir_ebpf::insn::{LD_IMM64, MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::{Insn, MapKind, MapSpec, helper};
use weir_rt::executable::Frame;

use crate::engines::Random;

/// Bytes of stack that the programs play with.
pub(crate) const PLAYGROUND: i16 = 64;

/// A word below the playground and the registers' spills, and one more below it: not part of the result.
pub(crate) const SCRATCH: i16 = -PLAYGROUND - 11 * 8;

/// Arithmetic operations: opcode bits and `off`.
pub(crate) const ALU: &[(u8, i16)] = &[
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

pub(crate) const JUMPS: &[u8] = &[
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

pub(crate) const SIZES: &[(u8, i16)] = &[(size::B, 1), (size::H, 2), (size::W, 4), (size::DW, 8)];

pub(crate) const ATOMICS: &[i32] = &[
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
pub(crate) const EXTENDS: &[(u8, i16)] =
    &[(class::ALU64, 8), (class::ALU64, 16), (class::ALU64, 32), (class::ALU, 8), (class::ALU, 16)];

pub(crate) fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

/// A program that loads r0..r9 from the context, fills the playground with them, does `body`, and mixes everything
/// into r0. Jumps in the body may go to its end.
pub(crate) fn around(body: &[Insn]) -> Vec<Insn> {
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

pub(crate) fn random_frame(random: &mut Random) -> Frame {
    let mut frame = Frame::default();
    for slot in &mut frame.regs {
        *slot = random.value();
    }
    frame
}

/// Instructions that stay together, or a jump over so many of the units after it.
pub(crate) enum Unit {
    Together(Vec<Insn>),
    Jump(Insn, usize),
}

/// Up to 24 units on registers, the playground and the maps; jumps go forward, to the end at most.
pub(crate) fn random_body(random: &mut Random, with_maps: bool) -> Vec<Insn> {
    let count = 1 + random.below(24) as usize;
    let mut units = Vec::with_capacity(count);
    let mut jumps = 0;
    while units.len() < count {
        let left = (count - units.len() - 1) as u64;
        let kinds = if with_maps { 28 } else { 24 };
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
            22 => Unit::Together(vec![random_ordered(random)]),
            23 => Unit::Together(random_rounds(random)),
            24..28 => Unit::Together(random_map_use(random)),
            _ => Unit::Together(vec![random_alu(random)]),
        });
    }
    flatten(&units)
}

pub(crate) fn flatten(units: &[Unit]) -> Vec<Insn> {
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

pub(crate) fn constant(dst: u8, value: i32) -> Insn {
    insn(class::ALU64 | alu::MOV | source::K, dst, 0, 0, value)
}

pub(crate) fn copy(dst: u8, src: u8) -> Insn {
    insn(class::ALU64 | alu::MOV | source::X, dst, src, 0, 0)
}

pub(crate) fn wide(dst: u8, pseudo: u8, value: u64) -> Vec<Insn> {
    vec![insn(LD_IMM64, dst, pseudo, 0, value as i32), insn(0, 0, 0, 0, (value >> 32) as i32)]
}

/// An access to the playground through a copy of r10, perhaps spilled or chosen by path in between.
pub(crate) fn random_pointer(random: &mut Random) -> Vec<Insn> {
    let pointer = random.below(10) as u8;
    let other = (pointer + 1 + random.below(9) as u8) % 10;
    let (size, offset) = random_place(random);
    if random.below(3) == 0 {
        return random_index(random, pointer, other);
    }
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

/// An access to the playground at an index.
fn random_index(random: &mut Random, pointer: u8, other: u8) -> Vec<Insn> {
    let (size, bytes) = random.pick(SIZES);
    let mask = i32::from((PLAYGROUND - 1) & -bytes);
    let add = |by: u8| insn(class::ALU64 | alu::ADD | source::X, pointer, by, 0, 0);
    let (mut insns, at) = match random.below(3) {
        // An index that becomes a pointer, a pointer that goes up, and one that goes down.
        0 => (
            vec![
                copy(pointer, other),
                insn(class::ALU64 | alu::AND | source::K, pointer, 0, 0, mask),
                add(10),
            ],
            -PLAYGROUND,
        ),
        1 => (
            vec![
                insn(class::ALU64 | alu::AND | source::K, other, 0, 0, mask),
                copy(pointer, 10),
                insn(class::ALU64 | alu::ADD | source::K, pointer, 0, 0, i32::from(-PLAYGROUND)),
                add(other),
            ],
            0,
        ),
        _ => (
            vec![
                insn(class::ALU64 | alu::AND | source::K, other, 0, 0, mask),
                copy(pointer, 10),
                insn(class::ALU64 | alu::SUB | source::X, pointer, other, 0, 0),
            ],
            -bytes,
        ),
    };
    insns.push(match random.below(4) {
        0 => insn(class::LDX | mode::MEM | size, other, pointer, at, 0),
        1 => insn(class::STX | mode::MEM | size, pointer, other, at, 0),
        // Compare-and-exchange has r0 as an operand.
        2 if bytes >= 4 && pointer != 0 => {
            insn(class::STX | mode::ATOMIC | size, pointer, other, at, random.pick(ATOMICS))
        }
        _ => insn(class::ST | mode::MEM | size, pointer, 0, at, random.value() as i32),
    });
    // How far it is from r10 is no address, the pointer is.
    insns.push(match random.below(2) {
        0 => insn(class::ALU64 | alu::SUB | source::X, pointer, 10, 0, 0),
        _ => constant(pointer, random.value() as i32),
    });
    insns
}

/// A use of a map: a key on the stack, a lookup, a change of the value, or an update of a hash.
pub(crate) fn random_map_use(random: &mut Random) -> Vec<Insn> {
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
        let body = random_value_use(random, saved);
        insns.push(insn(class::JMP | jmp::JEQ | source::K, 0, 0, body.len() as i16, 0));
        insns.extend(body);
    }
    // What the call left without a value, and r0, which may be a pointer.
    insns.extend((0..6).map(|reg| copy(reg, 6 + reg % 4)));
    insns
}

/// A change of the value that r0 points to, its first 8 bytes.
fn random_value_use(random: &mut Random, saved: u8) -> Vec<Insn> {
    let (size, bytes) = random.pick(SIZES);
    let offset = bytes * random.below(8 / bytes as u64) as i16;
    match random.below(8) {
        0 => vec![insn(class::LDX | mode::MEM | size, saved, 0, offset, 0)],
        1 => vec![insn(class::STX | mode::MEM | size, 0, saved, offset, 0)],
        2 => vec![
            insn(class::LDX | mode::MEM | size, 1, 0, offset, 0),
            insn(class::ALU64 | alu::ADD | source::K, 1, 0, 0, 1),
            insn(class::STX | mode::MEM | size, 0, 1, offset, 0),
        ],
        3 => {
            let operation =
                random.pick(&[atomic::ADD | atomic::FETCH, atomic::XCHG, atomic::OR | atomic::FETCH]);
            vec![insn(class::STX | mode::ATOMIC | random.pick(&[size::W, size::DW]), 0, saved, 0, operation)]
        }
        _ => {
            let operation = random.pick(&[atomic::ADD, atomic::OR, atomic::XOR]);
            vec![insn(class::STX | mode::ATOMIC | random.pick(&[size::W, size::DW]), 0, saved, 0, operation)]
        }
    }
}

/// An array, a per-CPU array, a hash, a per-CPU hash.
pub(crate) fn maps() -> Vec<MapSpec> {
    let map = |name: &str, kind, key_bytes, value_bytes| MapSpec::new(name, kind, key_bytes, value_bytes, 3);
    vec![
        map("array", MapKind::Array, 4, 24),
        map("lanes", MapKind::PerCpuArray, 4, 8),
        map("hash", MapKind::Hash, 8, 8),
        map("percpu", MapKind::PerCpuHash, 8, 8),
    ]
}

pub(crate) fn random_alu(random: &mut Random) -> Insn {
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

pub(crate) fn random_move(random: &mut Random) -> Insn {
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
pub(crate) fn random_jump(random: &mut Random) -> Insn {
    let opcode = random.pick(&[class::JMP, class::JMP32]) | random.pick(JUMPS);
    let dst = random.below(10) as u8;
    if random.below(2) == 0 {
        insn(opcode | source::X, dst, random.below(10) as u8, 0, 0)
    } else {
        insn(opcode | source::K, dst, 0, 0, random.value() as i32)
    }
}

pub(crate) fn random_place(random: &mut Random) -> (u8, i16) {
    let (size, bytes) = random.pick(SIZES);
    let slots = PLAYGROUND / bytes;
    (size, -bytes * (1 + random.below(slots as u64) as i16))
}

pub(crate) fn random_load(random: &mut Random) -> Insn {
    let (size, offset) = random_place(random);
    let mode = if size != size::DW && random.below(2) == 0 { mode::MEMSX } else { mode::MEM };
    insn(class::LDX | mode | size, random.below(10) as u8, 10, offset, 0)
}

pub(crate) fn random_store(random: &mut Random) -> Insn {
    let (size, offset) = random_place(random);
    if random.below(3) == 0 {
        insn(class::ST | mode::MEM | size, 10, 0, offset, random.value() as i32)
    } else {
        insn(class::STX | mode::MEM | size, 10, random.below(10) as u8, offset, 0)
    }
}

pub(crate) fn random_atomic(random: &mut Random) -> Insn {
    let (size, bytes) = random.pick(&[(size::W, 4), (size::DW, 8)]);
    let offset = -bytes * (1 + random.below((PLAYGROUND / bytes) as u64) as i16);
    insn(class::STX | mode::ATOMIC | size, 10, random.below(10) as u8, offset, random.pick(ATOMICS))
}

/// A load that acquires, or a store that releases.
pub(crate) fn random_ordered(random: &mut Random) -> Insn {
    let (size, offset) = random_place(random);
    let (opcode, reg) = (class::STX | mode::ATOMIC | size, random.below(10) as u8);
    match random.below(2) {
        0 => insn(opcode, reg, 10, offset, atomic::LOAD_ACQUIRE),
        _ => insn(opcode, 10, reg, offset, atomic::STORE_RELEASE),
    }
}

/// A few rounds of an operation, bounded by a counter in the scratch word and by `may_goto`.
pub(crate) fn random_rounds(random: &mut Random) -> Vec<Insn> {
    let counter = random.below(10) as u8;
    let rounds = 1 + random.below(5) as i32;
    vec![
        insn(class::ST | mode::MEM | size::DW, 10, 0, SCRATCH, 0),
        insn(MAY_GOTO, 0, 0, 6, 0),
        random_store(random),
        insn(class::LDX | mode::MEM | size::DW, counter, 10, SCRATCH, 0),
        insn(class::ALU64 | alu::ADD | source::K, counter, 0, 0, 1),
        insn(class::STX | mode::MEM | size::DW, 10, counter, SCRATCH, 0),
        insn(class::JMP | jmp::JSGE | source::K, counter, 0, 1, rounds),
        insn(class::JMP | jmp::JA, 0, 0, -7, 0),
        insn(class::ST | mode::MEM | size::DW, 10, 0, SCRATCH, 1),
    ]
}

/// Local functions of a program; each calls later ones.
const FUNCTIONS: usize = 3;

/// Where a function keeps the address that it was given; its frame is the playground and this.
const GIVEN: i16 = SCRATCH - 16;

/// A program with local functions: bodies as [`random_body`] makes them, with calls in between.
pub(crate) fn random_with_functions(random: &mut Random, with_maps: bool) -> Vec<Insn> {
    let mut insns = around(&body_with_calls(random, 0, with_maps));
    let mut starts = Vec::new();
    for function in 0..FUNCTIONS {
        starts.push(insns.len());
        insns.extend(random_function(random, function + 1, with_maps));
    }
    for (function, over_map) in [false, true]
        .into_iter()
        .flat_map(|over_map| (0..FUNCTIONS).map(move |function| (function, over_map)))
    {
        starts.push(insns.len());
        let number = FUNCTIONS + function + if over_map { FUNCTIONS } else { 0 };
        // One that nothing names would be the end of the function before it.
        let names_it =
            |insn: &Insn| insn.is_wide() && insn.src == pseudo::FUNCTION && insn.imm as usize == number;
        if insns.iter().any(names_it) {
            insns.extend(callback(function, over_map));
        }
    }
    for at in 0..insns.len() {
        let is_call = insns[at].opcode == class::JMP | jmp::CALL && insns[at].src == pseudo::LOCAL;
        if is_call || insns[at].is_wide() && insns[at].src == pseudo::FUNCTION {
            // So far it holds the number of the function.
            insns[at].imm = starts[insns[at].imm as usize] as i32 - at as i32 - 1;
        }
    }
    insns
}

/// Bodies one after the other, with calls of functions from number `first` on between them.
fn body_with_calls(random: &mut Random, first: usize, with_maps: bool) -> Vec<Insn> {
    let mut insns = short_body(random, with_maps);
    while first < FUNCTIONS && random.below(3) > 0 && insns.len() < 100 {
        let callee = first + random.below((FUNCTIONS - first) as u64) as usize;
        insns.extend(if random.below(3) == 0 {
            rounds_of(random, FUNCTIONS + callee, with_maps)
        } else {
            vec![
                copy(2, 10),
                insn(class::ALU64 | alu::ADD | source::K, 2, 0, 0, -24),
                insn(class::JMP | jmp::CALL, 0, pseudo::LOCAL, 0, callee as i32),
            ]
        });
        insns.extend((1..6).map(|reg| copy(reg, 5 + (reg + random.below(4) as u8) % 5)).map(|insn| {
            match insn.src {
                // r5 was clobbered like the rest.
                5 => Insn { src: 0, ..insn },
                _ => insn,
            }
        }));
        insns.extend(short_body(random, with_maps));
    }
    insns
}

/// A few rounds of a callback, or one for each element of a map.
fn rounds_of(random: &mut Random, callback: usize, with_maps: bool) -> Vec<Insn> {
    let mut insns = vec![copy(3, 10), insn(class::ALU64 | alu::ADD | source::K, 3, 0, 0, -24)];
    let over_map = with_maps && random.below(2) == 0;
    let (callback, helper) = match over_map {
        true => (callback + FUNCTIONS, helper::FOR_EACH_MAP_ELEM),
        false => (callback, helper::LOOP),
    };
    // An array and the hash: what a per-CPU value is, the two sides need not agree on.
    match (over_map, random.below(2)) {
        (true, hash) => insns.extend(wide(1, pseudo::MAP_INDEX, 2 * hash)),
        (false, 0) => insns.push(constant(1, random.below(4) as i32)),
        (false, _) => insns.push(insn(class::ALU64 | alu::AND | source::K, 1, 0, 0, random.pick(&[1, 3, 7]))),
    }
    insns.push(match random.below(4) {
        0 => insn(class::ALU64 | alu::AND | source::K, 4, 0, 0, 1),
        _ => constant(4, 0),
    });
    insns.extend(wide(2, pseudo::FUNCTION, callback as u64));
    insns.push(insn(class::JMP | jmp::CALL, 0, pseudo::HELPER, 0, helper));
    insns
}

/// A callback that makes all of a function's arguments of its own, and an answer of its result. `over_map`: these are a
/// map, a key, a value and an address in the stack.
fn callback(function: usize, over_map: bool) -> Vec<Insn> {
    let mut insns = match over_map {
        true => vec![
            insn(class::LDX | mode::MEM | size::W, 1, 2, 0, 0),
            copy(2, 4),
            insn(class::LDX | mode::MEM | size::DW, 4, 3, 0, 0),
            insn(class::STX | mode::ATOMIC | size::DW, 3, 1, 0, atomic::ADD),
            copy(3, 4),
            copy(5, 1),
        ],
        false => [3, 4, 5].map(|reg| copy(reg, 1)).to_vec(),
    };
    insns.push(insn(class::JMP | jmp::CALL, 0, pseudo::LOCAL, 0, function as i32));
    insns.push(insn(class::ALU64 | alu::AND | source::K, 0, 0, 0, 1));
    insns.push(insn(class::JMP | jmp::EXIT, 0, 0, 0, 0));
    insns
}

fn short_body(random: &mut Random, with_maps: bool) -> Vec<Insn> {
    let mut body = random_body(random, with_maps);
    while body.len() > 40 {
        body = random_body(random, with_maps);
    }
    body
}

/// Keeps r2, an address in its caller's playground; takes numbers from there and leaves one; its result is a mix of
/// its registers.
fn random_function(random: &mut Random, next: usize, with_maps: bool) -> Vec<Insn> {
    let mut insns = vec![insn(class::STX | mode::MEM | size::DW, 10, 2, GIVEN, 0)];
    insns.extend([copy(6, 1), copy(7, 3), copy(8, 4), copy(9, 5), copy(0, 1)]);
    insns.push(insn(class::LDX | mode::MEM | size::DW, 2, 2, 8 * random.below(3) as i16, 0));
    for slot in 1..=PLAYGROUND / 8 {
        insns.push(insn(class::STX | mode::MEM | size::DW, 10, slot as u8, -8 * slot, 0));
    }
    // Half of the functions change none of the registers that a call keeps, where the others have to save them.
    insns.extend(body_with_calls(random, next, with_maps));
    insns.push(insn(class::LDX | mode::MEM | size::DW, 1, 10, GIVEN, 0));
    let (size, bytes) = random.pick(SIZES);
    let offset = bytes * random.below((24 / bytes) as u64) as i16;
    insns.push(match random.below(3) {
        0 => insn(class::STX | mode::ATOMIC | size::DW, 1, 7, 8, atomic::XOR),
        _ => insn(class::STX | mode::MEM | size, 1, random.pick(&[0, 3, 6, 9]), offset, 0),
    });
    for reg in [3, 6, 7, 8, 9] {
        insns.push(insn(class::ALU64 | alu::MUL | source::K, 0, 0, 0, 0x2545_f491));
        insns.push(insn(class::ALU64 | alu::XOR | source::X, 0, reg, 0, 0));
    }
    insns.push(insn(class::JMP | jmp::EXIT, 0, 0, 0, 0));
    insns
}
