//! `weir_declared_copy` in machine code, in the threaded interpreter (which is the runtime's C) and in the checking one, against
//! plain Rust: texts, bytes and elements of all lengths around the ends of pages, with nothing behind.

use crate::engines;
use crate::pages;

use engines::{abis, compiled};
use pages::{PAGE, Pages};
use weir_ebpf::insn::{LD_IMM64, alu, class, jmp, mode, pseudo, size, source};
use weir_ebpf::kfunc::{self, CUT, Declared, DeclaredCopy, ROW_SLOT, ROW_WORDS, ROW_WORDS_MAX};
use weir_ebpf::{Insn, MapKind, MapSpec};
use weir_interp::threaded::Threaded;
use weir_jit::{Flags, Passes};
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::{Limits, VerifiedProgram, verify};

const SLOT: u8 = 7;
const COUNT_SLOT: u8 = 20;
/// The same two as words of a row.
const WORD: u8 = ROW_WORDS + 5;
const COUNT_WORD: u8 = ROW_WORDS + ROW_WORDS_MAX - 1;
/// What the room lies in, before and behind it.
const GUARD: usize = 16;
const GUARD_BYTE: u8 = 0xa5;

fn mov(dst: u8, imm: i32) -> Insn {
    Insn { opcode: class::ALU64 | alu::MOV | source::K, dst, imm, ..Insn::default() }
}

fn mov_register(dst: u8, src: u8) -> Insn {
    Insn { opcode: class::ALU64 | alu::MOV | source::X, dst, src, ..Insn::default() }
}

fn wide(dst: u8, src: u8, low: i32, high: i32) -> [Insn; 2] {
    let first = Insn { opcode: LD_IMM64, dst, src, imm: low, ..Insn::default() };
    [first, Insn { imm: high, ..Insn::default() }]
}

fn exit() -> Insn {
    Insn { opcode: class::JMP | jmp::EXIT, ..Insn::default() }
}

fn call() -> Insn {
    let (opcode, imm) = (class::JMP | jmp::CALL, kfunc::DECLARED_COPY);
    Insn { opcode, src: pseudo::KERNEL, imm, ..Insn::default() }
}

/// r0 is the answer; the copy goes to the map's value, behind a guard.
fn program(copy: &DeclaredCopy) -> Vec<Insn> {
    let which = copy.declared.which();
    let mut insns = vec![mov_register(3, 1)];
    insns.extend(wide(1, pseudo::MAP_INDEX_VALUE, 0, GUARD as i32));
    insns.push(mov(2, copy.size as i32));
    insns.extend(wide(4, pseudo::NONE, which as i32, (which >> 32) as i32));
    insns.extend([call(), exit()]);
    insns
}

fn maps(bytes: u32) -> Vec<MapSpec> {
    vec![MapSpec::new("room", MapKind::Array, 4, bytes + 2 * GUARD as u32, 1)]
}

fn limits(declared: Declared) -> Limits {
    Limits::default().with_declared(&[declared])
}

struct Engines {
    copy: DeclaredCopy,
    segment: Segment,
    verified: VerifiedProgram,
    locals: Vec<LocalProgram>,
}

impl Engines {
    fn new(declared: Declared, size: u32) -> Engines {
        let copy = DeclaredCopy::new(declared, size).expect("a copy");
        let maps = maps(size);
        let segment = engines::segment(&maps, engines::cpus());
        let source = engines::program(program(&copy));
        let verified =
            verify(&source, &maps, &limits(declared)).unwrap_or_else(|refusal| panic!("{refusal}"));
        let flags = [Flags::KeepIfPossible, Flags::Change, Flags::Only(Passes::NONE)];
        let locals = flags.map(|flags| {
            let executable = compiled(&verified, &abis()[0], flags);
            assert_eq!(executable.context_reads, declared.slots());
            LocalProgram::load(&executable, &segment).expect("code fits")
        });
        Engines { copy, segment, verified, locals: locals.into() }
    }

    /// Of memory at `address`, whose bytes these are; `count` is what the slot of a count says.
    fn check(&self, address: u64, memory: &[u8], count: u64, is_slow_too: bool) {
        let mut row = [0x5555_5555_5555_5555u64; ROW_WORDS_MAX as usize];
        row[usize::from(WORD - ROW_WORDS)] = address;
        row[usize::from(COUNT_WORD - ROW_WORDS)] = count;
        let row_at = std::hint::black_box(&row).as_ptr() as u64;
        let byte_at =
            |at: u64| match at.checked_sub(row_at).filter(|within| *within < size_of_val(&row) as u64) {
                Some(within) => row[within as usize / 8].to_le_bytes()[within as usize % 8],
                None => memory[(at - address) as usize],
            };
        let slot = |slot| match slot {
            ROW_SLOT => row_at,
            SLOT => address,
            _ => count,
        };
        let (bytes, answer) = self.copy.copied(slot, byte_at);
        let mut frame = Frame::default();
        frame.regs[usize::from(SLOT)] = address;
        frame.regs[usize::from(COUNT_SLOT)] = count;
        frame.regs[usize::from(ROW_SLOT)] = row_at;
        let room = GUARD..GUARD + self.copy.size as usize;
        let guards = vec![GUARD_BYTE; self.copy.size as usize + 2 * GUARD];
        let ran = |engine: &str, run: &dyn Fn() -> u64| {
            let map = self.segment.map(0);
            map.update(&0u32.to_le_bytes(), &guards, 0).expect("the map has one element");
            let what = format!(
                "{engine}: {} with room for {} of {} bytes at {:#x}",
                self.copy.declared,
                self.copy.size,
                memory.len(),
                address % PAGE as u64
            );
            assert_eq!(run(), answer, "{what}");
            let now = map.lookup(&0u32.to_le_bytes()).expect("the map has one element");
            assert!(now[room.clone()].starts_with(&bytes), "{what}");
            let behind = match self.copy.declared {
                Declared::Text { .. } => room.end,
                _ => GUARD + bytes.len(),
            };
            assert!(now[..GUARD].iter().chain(&now[behind..]).all(|byte| *byte == GUARD_BYTE), "{what}");
        };
        for local in &self.locals {
            ran("machine code", &|| local.run(&mut frame.clone()));
        }
        let threaded = Threaded::of(&self.verified, &self.segment).expect("it has operations for it");
        ran("threaded", &|| threaded.run(&mut frame.clone()));
        if is_slow_too {
            let environment = weir_interp::Environment { segment: &self.segment };
            let slow = || weir_interp::run(&self.verified, &environment, &mut frame.clone());
            ran("checking", &|| slow().expect("verified"));
        }
    }
}

/// Offsets in two pages at which so many bytes are put: up to the last byte that is there, around the border between the pages, at
/// the start of each, amid one.
fn places(length: usize) -> Vec<usize> {
    let (first, second) = (PAGE, 2 * PAGE);
    let mut places = vec![second - length, second - length - 1, 0, 1, first, 1000];
    places.extend((0..10).map(|back| (first + 4 - length.min(8)).saturating_sub(back)));
    places.extend((0..9).map(|back| first.saturating_sub(length + back)));
    places.retain(|at| at + length <= second);
    places
}

fn letters(length: usize) -> Vec<u8> {
    // All bytes but NUL, also those next to it in the tests of words.
    (0..length).map(|at| [0x80, 1, 0x81, 0xff, 2, 0x7f, b'x'][at * 5 % 7]).collect()
}

#[test]
fn texts_are_copied_up_to_their_nul_wherever_they_are() {
    let pages = Pages::new();
    let sizes = [8, 9, 15, 16, 17, 64, 1023];
    let engines = sizes.map(|size| Engines::new(Declared::Text { slot: SLOT }, size));
    let mut runs = 0;
    let lengths = (0..80).chain((80..1100).step_by(37)).chain(1008..1040).chain([1100, 4000]);
    for length in lengths {
        let text = letters(length);
        let with_nul = [&text[..], b"\0"].concat();
        for (index, at) in places(length + 1).into_iter().enumerate() {
            let address = pages.put(at, &text);
            for engine in &engines {
                // The checking interpreter reads each byte by a system call.
                engine.check(address, &with_nul, 0, length < 80 && index % 8 == 0);
                runs += 1;
            }
            pages.clear();
        }
    }
    engines.iter().for_each(|engine| engine.check(0, &[], 0, true));
    println!("counts: runs={runs}");
}

/// Of a text that is cut no byte behind the room is looked at: it may be that there is none.
#[test]
fn a_text_that_is_cut_need_not_end_behind_the_room() {
    let pages = Pages::new();
    for size in [8, 9, 16, 1023] {
        let engine = Engines::new(Declared::Text { slot: SLOT }, size);
        let memory = letters(size as usize);
        let address = pages.put_bytes(2 * PAGE - memory.len(), &memory);
        let (_, answer) = engine.copy.copied(|_| address, |at| memory[(at - address) as usize]);
        assert_eq!(answer, u64::from(size) | CUT);
        engine.check(address, &memory, 0, size < 100);
        pages.clear();
    }
}

#[test]
fn bytes_are_copied_wherever_they_are() {
    let pages = Pages::new();
    let lengths = (1..=70).chain([96, 127, 128, 129, 135, 136, 137, 200, 1024, 4088]);
    for length in lengths {
        let engine = Engines::new(Declared::Bytes { slot: SLOT, bytes: length }, length);
        let memory: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        for (index, at) in places(memory.len()).into_iter().enumerate() {
            let address = pages.put_bytes(at, &memory);
            engine.check(address, &memory, 0, length < 70 && index % 9 == 0);
            pages.clear();
        }
        engine.check(0, &[], 0, true);
    }
}

#[test]
fn words_of_a_row_are_copied_and_lead_to_what_slots_lead_to() {
    let pages = Pages::new();
    let word = Engines::new(Declared::Word { slot: WORD }, 8);
    let engines = [
        (Engines::new(Declared::Text { slot: WORD }, 64), true),
        (Engines::new(Declared::Bytes { slot: WORD, bytes: 20 }, 20), false),
        (Engines::new(Declared::Elements { slot: WORD, count_slot: COUNT_WORD, shift: 1 }, 24), false),
        (Engines::new(Declared::Elements { slot: WORD, count_slot: COUNT_SLOT, shift: 0 }, 9), false),
    ];
    for length in [24usize, 25, 40, 63, 64, 90] {
        let text = letters(length);
        let with_nul = [&text[..], b"\0"].concat();
        for at in places(length + 1) {
            let address = pages.put(at, &text);
            for (engine, is_text) in &engines {
                let memory = if *is_text { &with_nul } else { &text };
                [0, 1, 9, 12, 13].iter().for_each(|count| engine.check(address, memory, *count, at % 3 == 0));
            }
            word.check(address, &[], 0, true);
            pages.clear();
        }
    }
    for (engine, _) in &engines {
        engine.check(0, &[], 3, true);
    }
}

#[test]
fn a_word_that_is_not_declared_is_refused() {
    let refused = |copied: Declared, limits: Limits| {
        let size = if let Declared::Word { .. } = copied { 8 } else { 64 };
        let source = engines::program(program(&DeclaredCopy::new(copied, size).unwrap()));
        verify(&source, &maps(size), &limits).is_err()
    };
    let text = Declared::Text { slot: WORD };
    assert!(refused(Declared::Word { slot: WORD }, limits(Declared::Word { slot: WORD - 1 })));
    assert!(!refused(Declared::Word { slot: WORD }, limits(Declared::Word { slot: WORD + 1 })));
    assert!(refused(Declared::Word { slot: WORD }, limits(text)));
    assert!(refused(text, limits(Declared::Word { slot: WORD })));
    assert!(refused(text, limits(Declared::Text { slot: ROW_SLOT })));
    assert!(refused(Declared::Text { slot: ROW_SLOT }, limits(text)));
}

#[test]
fn as_many_elements_are_copied_as_the_count_says() {
    let pages = Pages::new();
    for shift in 0..4 {
        for size in [1, 7, 8, 15, 64, 4088] {
            let declared = Declared::Elements { slot: SLOT, count_slot: COUNT_SLOT, shift };
            let engine = Engines::new(declared, size);
            let most = u64::from(size >> shift);
            let counts = (0..=40).chain([
                most.saturating_sub(1),
                most,
                most + 1,
                1 << 32,
                u64::MAX >> 1,
                1 << 63,
                u64::MAX,
            ]);
            for count in counts {
                let elements = if count >> 63 == 1 { 0 } else { count.min(most) };
                let length = (elements << shift) as usize;
                let memory: Vec<u8> = (0..length).map(|at| (at * 11) as u8).collect();
                for (index, at) in places(length).into_iter().enumerate() {
                    let address = pages.put_bytes(at, &memory);
                    engine.check(address, &memory, count, length < 70 && index % 9 == 0);
                    pages.clear();
                }
                engine.check(0, &[], count, true);
            }
        }
    }
}

/// Copies onto the stack, which is read back there: r0 is the second word, half of which was copied over.
#[test]
fn what_is_copied_onto_the_stack_is_there() {
    let declared = Declared::Bytes { slot: SLOT, bytes: 12 };
    let which = declared.which();
    let mut insns = vec![mov_register(3, 1), mov(6, -1)];
    let store = |off| Insn { opcode: class::STX | mode::MEM | size::DW, dst: 10, src: 6, off, imm: 0 };
    insns.extend([store(-16), store(-8), mov_register(1, 10)]);
    insns.push(Insn { opcode: class::ALU64 | alu::ADD | source::K, dst: 1, imm: -16, ..Insn::default() });
    insns.push(mov(2, 12));
    insns.extend(wide(4, pseudo::NONE, which as i32, (which >> 32) as i32));
    insns.push(call());
    insns.push(Insn { opcode: class::LDX | mode::MEM | size::DW, dst: 0, src: 10, off: -8, imm: 0 });
    insns.push(exit());
    let verified = verify(&engines::program(insns), &[], &limits(declared)).expect("verified");
    let segment = engines::segment(&[], engines::cpus());
    let memory: Vec<u8> = (1..=12).collect();
    let mut frame = Frame::default();
    frame.regs[usize::from(SLOT)] = memory.as_ptr() as u64;
    let wanted = u64::from_le_bytes([&memory[8..], &[0xff; 4]].concat().try_into().unwrap());
    for abi in abis() {
        for flags in [Flags::KeepIfPossible, Flags::Change, Flags::Only(Passes::NONE)] {
            let local = LocalProgram::load(&compiled(&verified, &abi, flags), &segment).expect("code fits");
            assert_eq!(local.run(&mut frame.clone()), wanted);
        }
    }
    let threaded = Threaded::of(&verified, &segment).expect("it has operations for it");
    assert_eq!(threaded.run(&mut frame.clone()), wanted);
    let environment = weir_interp::Environment { segment: &segment };
    assert_eq!(weir_interp::run(&verified, &environment, &mut frame).expect("verified"), wanted);
}

#[test]
fn only_what_is_declared_is_copied_and_only_where_there_is_room() {
    let declared = Declared::Bytes { slot: SLOT, bytes: 64 };
    let check = |change: &dyn Fn(&mut Vec<Insn>), message: &str| {
        let mut insns = program(&DeclaredCopy::new(declared, 64).unwrap());
        change(&mut insns);
        let limits = limits(declared).with_declared(&[Declared::Text { slot: 3 }]);
        let refusal = verify(&engines::program(insns), &maps(64), &limits).unwrap_err().to_string();
        assert!(refusal.contains(message), "{refusal}");
    };
    // 0: r3; 1, 2: r1; 3: r2; 4, 5: r4.
    check(&|insns| insns[4].imm -= 1, "the context does not declare 64 bytes in slot 6");
    check(
        &|insns| (insns[5].imm, insns[3].imm) = (63, 63),
        "the context does not declare 63 bytes in slot 7",
    );
    check(&|insns| (insns[4].imm, insns[5].imm) = (7, 0), "the context does not declare a text in slot 7");
    check(&|insns| (insns[4].imm, insns[5].imm) = (35, 0), "the context does not declare a text in slot 35");
    let elements = i32::from_le_bytes([SLOT, 2, COUNT_SLOT, 2]);
    check(
        &|insns| (insns[4].imm, insns[5].imm) = (elements, 0),
        "does not declare elements of 4 bytes in slot 7, as many as slot 20 says",
    );
    check(&|insns| insns[3].imm = 63, "r4 is 0x4000000107 and there is room for 63 bytes: that is no copy");
    check(&|insns| insns[4].imm |= 3 << 8, "that is no copy");
    check(&|insns| (insns[4].imm, insns[5].imm, insns[3].imm) = (3, 0, 7), "that is no copy");
    check(&|insns| (insns[4].imm, insns[5].imm, insns[3].imm) = (3, 0, 81), "for the memory in r1");
    check(&|insns| insns[2].imm += 17, "for the memory in r1");
    check(&|insns| insns[0] = mov(3, 0), "the context is needed in r3");
    check(&|insns| drop(insns.splice(1..3, [mov(1, 0)])), "for the memory in r1");
    check(&|insns| drop(insns.splice(1..3, [mov_register(1, 3)])), "for the memory in r1");
    let unknown = Insn { opcode: class::LDX | mode::MEM | size::DW, dst: 2, src: 3, ..Insn::default() };
    check(&|insns| insns[3] = unknown, "a constant is needed");
    check(&|insns| drop(insns.splice(4..6, [Insn { dst: 4, ..unknown }])), "a constant is needed");
    check(&|insns| _ = insns.remove(3), "r2 is read but holds nothing");
    let none = verify(
        &engines::program(program(&DeclaredCopy::new(declared, 64).unwrap())),
        &maps(64),
        &Limits::default(),
    );
    assert!(none.unwrap_err().to_string().contains("does not declare"));
}
