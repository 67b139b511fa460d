//! `weir_text_begins` in machine code, in the threaded interpreter and in the checking one, against plain Rust: texts of all
//! lengths at all places around the ends of pages, with nothing behind.

use crate::engines;
use crate::pages;

use engines::{abis, compiled};
use pages::{PAGE, Pages};
use weir_ebpf::Insn;
use weir_ebpf::insn::{LD_IMM64, alu, class, jmp, mode, pseudo, size, source};
use weir_ebpf::kfunc::{self, TEXT_BYTES_MAX, TextTest};
use weir_interp::threaded::Threaded;
use weir_jit::{Flags, Passes};
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::{Limits, VerifiedProgram, verify};

const SLOT: u8 = 7;
const LETTERS: &[u8] = b"the quick brown fox jumps over a lazy dog, twice";

/// What the program does with the answer.
#[derive(Clone, Copy, Debug)]
enum Use {
    Returns,
    IfNot,
    If,
    /// A branch, and the answer afterwards.
    Both,
}

const USES: [Use; 4] = [Use::Returns, Use::IfNot, Use::If, Use::Both];

fn mov(dst: u8, imm: i32) -> Insn {
    Insn { opcode: class::ALU64 | alu::MOV | source::K, dst, imm, ..Insn::default() }
}

fn exit() -> Insn {
    Insn { opcode: class::JMP | jmp::EXIT, ..Insn::default() }
}

fn branch(op: u8, off: i16) -> Insn {
    Insn { opcode: class::JMP | op | source::K, off, ..Insn::default() }
}

/// r0 is 1 if the text begins so, else 0.
fn program(test: &TextTest, how: Use) -> Vec<Insn> {
    let mut insns = vec![mov(2, test.which())];
    for (register, word) in (3..).zip(test.words()) {
        insns.push(Insn { opcode: LD_IMM64, dst: register, imm: word as i32, ..Insn::default() });
        insns.push(Insn { imm: (word >> 32) as i32, ..Insn::default() });
    }
    let (opcode, imm) = (class::JMP | jmp::CALL, kfunc::TEXT_BEGINS);
    insns.push(Insn { opcode, src: pseudo::KERNEL, imm, ..Insn::default() });
    match how {
        Use::Returns => insns.push(exit()),
        Use::IfNot => insns.extend([branch(jmp::JEQ, 2), mov(0, 1), exit(), mov(0, 0), exit()]),
        Use::If => insns.extend([branch(jmp::JNE, 2), mov(0, 0), exit(), mov(0, 1), exit()]),
        Use::Both => insns.extend([branch(jmp::JEQ, 1), exit(), exit()]),
    }
    insns
}

fn limits() -> Limits {
    Limits { text_slots: 1 << SLOT, ..Limits::default() }
}

struct Engines<'s> {
    test: TextTest,
    verified: VerifiedProgram,
    threaded: Threaded<&'s Segment>,
    locals: Vec<LocalProgram>,
}

impl<'s> Engines<'s> {
    fn new(bytes: &[u8], how: Use, segment: &'s Segment) -> Engines<'s> {
        let test = TextTest::new(SLOT, bytes).expect("a test");
        let source = engines::program(program(&test, how));
        let verified = verify(&source, &[], &limits()).unwrap_or_else(|refusal| panic!("{refusal}"));
        let threaded = Threaded::of(&verified, segment).expect("it has operations for it");
        let flags = [Flags::KeepIfPossible, Flags::Change, Flags::Only(Passes::NONE)];
        let locals = flags.map(|flags| {
            let executable = compiled(&verified, &abis()[0], flags);
            assert_eq!(executable.context_reads, 1 << SLOT);
            LocalProgram::load(&executable, segment).expect("code fits")
        });
        Engines { test, verified, threaded, locals: locals.into() }
    }

    /// `text`: None for an address of 0.
    fn check(&self, address: u64, text: Option<&[u8]>, is_slow_too: bool, segment: &Segment) {
        let mut frame = Frame::default();
        frame.regs[usize::from(SLOT)] = address;
        let asked = self.test.bytes();
        let expected = text.is_some_and(|text| match asked.split_last() {
            Some((0, asked)) => text == asked,
            _ => text.starts_with(asked),
        });
        let what = || format!("{asked:?} of {text:?} at {:#x}", address % PAGE as u64);
        for local in &self.locals {
            assert_eq!(local.run(&mut frame.clone()), u64::from(expected), "machine code: {}", what());
        }
        assert_eq!(self.threaded.run(&mut frame.clone()), u64::from(expected), "threaded: {}", what());
        if is_slow_too {
            let environment = weir_interp::Environment { segment };
            let slow = weir_interp::run(&self.verified, &environment, &mut frame);
            assert_eq!(slow.expect("verified"), u64::from(expected), "checking: {}", what());
        }
    }
}

/// Offsets in two pages at which a text of so many bytes is put.
fn places(length: usize) -> Vec<usize> {
    let (first, second) = (PAGE, 2 * PAGE);
    // With its NUL the last byte that is there; around the border between the pages; at the start of each; amid one.
    let mut places = vec![second - length - 1, second - length - 2, 0, 1, first, 1000];
    places.extend(first.saturating_sub(length + 2)..first);
    places.extend((first - 32..first).step_by(5));
    places
}

#[test]
fn texts_begin_and_end_as_plain_rust_says_wherever_they_are() {
    let segment = engines::segment(&[], engines::cpus());
    let pages = Pages::new();
    let mut tests: Vec<Vec<u8>> = Vec::new();
    for length in 1..=TEXT_BYTES_MAX {
        let begins = LETTERS[..length].to_vec();
        let is = [&LETTERS[..length - 1], b"\0"].concat();
        for test in [begins, is] {
            for altered in [0, length / 2, length.saturating_sub(2)] {
                let mut other = test.clone();
                other[altered] = if other[altered] == 0 { 0 } else { other[altered] ^ 0x80 };
                tests.push(other);
            }
            tests.push(test);
        }
    }
    tests.sort();
    tests.dedup();
    let engines: Vec<Engines<'_>> = tests
        .iter()
        .enumerate()
        .map(|(index, test)| Engines::new(test, USES[index % USES.len()], &segment))
        .collect();
    let mut runs = 0;
    for length in 0..=40 {
        let text = &LETTERS[..length];
        for at in places(length) {
            let address = pages.put(at, text);
            for (index, engine) in engines.iter().enumerate() {
                // The checking interpreter reads each byte by a system call.
                engine.check(address, Some(text), (index + length + at) % 16 == 0, &segment);
                runs += 1;
            }
            pages.clear();
        }
    }
    engines.iter().for_each(|engine| engine.check(0, None, true, &segment));
    println!("counts: tests={} runs={runs}", tests.len());
}

/// Questions about one text in a row. r0 is the number of the first whose branch is taken, from 1; 0 for none.
fn row(questions: &[(TextTest, bool)]) -> Vec<Insn> {
    let mut insns =
        vec![Insn { opcode: class::ALU64 | alu::MOV | source::X, dst: 6, src: 1, ..Insn::default() }];
    let mut branches = Vec::new();
    for (test, if_same) in questions {
        insns.push(Insn { opcode: class::ALU64 | alu::MOV | source::X, dst: 1, src: 6, ..Insn::default() });
        insns.extend(&program(test, Use::Returns)[..]);
        let at = insns.len() - 1;
        insns[at] = branch(if *if_same { jmp::JNE } else { jmp::JEQ }, 0);
        branches.push(at);
    }
    insns.extend([mov(0, 0), exit()]);
    for (number, at) in (1..).zip(branches) {
        insns[at].off = (insns.len() - at - 1) as i16;
        insns.extend([mov(0, number), exit()]);
    }
    insns
}

#[test]
fn questions_in_a_row_are_answered_one_by_one() {
    let segment = engines::segment(&[], engines::cpus());
    let pages = Pages::new();
    let mut random = engines::Random(41);
    let mut taken = [0; 6];
    for _ in 0..400 {
        let count = 2 + random.below(4) as usize;
        let questions: Vec<(TextTest, bool)> = (0..count)
            .map(|_| {
                let mut bytes = LETTERS[..random.below(12) as usize].to_vec();
                match random.below(3) {
                    0 => bytes.push(0),
                    1 => bytes.push(b'#'),
                    _ => bytes.push(LETTERS[bytes.len()]),
                }
                (TextTest::new(SLOT, &bytes).unwrap(), random.below(2) == 0)
            })
            .collect();
        let verified = verify(&engines::program(row(&questions)), &[], &limits()).unwrap();
        let threaded = Threaded::of(&verified, &segment).unwrap();
        let executable = compiled(&verified, &abis()[0], Flags::default());
        let local = LocalProgram::load(&executable, &segment).unwrap();
        for _ in 0..40 {
            let text = &LETTERS[..random.below(14) as usize];
            let places = places(text.len());
            let at = places[random.below(places.len() as u64) as usize];
            let mut frame = Frame::default();
            frame.regs[usize::from(SLOT)] = pages.put(at, text);
            let holds = |test: &TextTest| match test.bytes().split_last() {
                Some((0, asked)) => text == asked,
                _ => text.starts_with(test.bytes()),
            };
            let first = questions.iter().position(|(test, if_same)| holds(test) == *if_same);
            let expected = first.map_or(0, |first| first + 1);
            taken[expected] += 1;
            assert_eq!(local.run(&mut frame.clone()), expected as u64, "{questions:?} of {text:?} at {at}");
            assert_eq!(threaded.run(&mut frame), expected as u64, "{questions:?} of {text:?} at {at}");
            pages.clear();
        }
    }
    assert!(taken.iter().all(|taken| *taken > 20), "{taken:?}");
}

#[test]
fn every_use_of_the_answer_gives_it() {
    let segment = engines::segment(&[], engines::cpus());
    let pages = Pages::new();
    for how in USES {
        for (asked, text) in [
            (&b"str0\0"[..], &b"str0"[..]),
            (b"str0\0", b"str1"),
            (b"str", b"str1"),
            (b"\0", b""),
            (b"\0", b"a"),
            (b"a", b""),
            (b"a character more..", b"a character more...."),
        ] {
            for at in [100, 2 * PAGE - text.len() - 1] {
                let address = pages.put(at, text);
                Engines::new(asked, how, &segment).check(address, Some(text), true, &segment);
                pages.clear();
            }
        }
    }
}

#[test]
fn a_dead_question_is_not_asked_and_its_slot_not_read() {
    let test = TextTest::new(SLOT, b"a").unwrap();
    let mut insns = program(&test, Use::Returns);
    insns.pop();
    insns.extend([mov(0, 3), exit()]);
    let verified = verify(&engines::program(insns), &[], &limits()).unwrap();
    let executable = compiled(&verified, &abis()[0], Flags::KeepIfPossible);
    assert_eq!(executable.context_reads, 0);
}

#[test]
fn questions_are_asked_of_constants_and_of_slots_with_texts() {
    let check = |change: &dyn Fn(&mut Vec<Insn>), message: &str| {
        let mut insns = program(&TextTest::new(SLOT, b"abcdefghi\0").unwrap(), Use::Returns);
        change(&mut insns);
        let refusal = verify(&engines::program(insns), &[], &limits()).unwrap_err().to_string();
        assert!(refusal.contains(message), "{refusal}");
    };
    check(&|insns| insns[0].imm -= 1, "slot 6 of the context holds no text");
    check(&|insns| insns[0].imm += 25, "slot 32 of the context holds no text");
    check(&|insns| insns[0].imm += 200, "slot 207 of the context holds no text");
    check(&|insns| insns[0].imm = 0, "compares with 0 bytes");
    check(&|insns| insns[0].imm += 15 << 8, "compares with 25 bytes");
    check(&|insns| insns[0].imm = -1, "the limits are 1 and 24");
    check(&|insns| insns[0].imm += 1 << 8, "a NUL that is not the last");
    check(&|insns| insns[3].imm = 0, "a NUL that is not the last");
    check(&|insns| insns[0].imm += 7 << 8, "r5 is read but holds nothing");
    check(&|insns| insns.insert(0, mov(1, 0)), "the context is needed");
    let unknown = Insn { opcode: class::LDX | mode::MEM | size::DW, dst: 3, src: 1, ..Insn::default() };
    check(&|insns| insns.splice(1..3, [unknown]).for_each(drop), "a constant is needed");
    let none = verify(
        &engines::program(program(&TextTest::new(SLOT, b"a").unwrap(), Use::Returns)),
        &[],
        &Limits::default(),
    );
    assert!(none.unwrap_err().to_string().contains("holds no text"));
}
