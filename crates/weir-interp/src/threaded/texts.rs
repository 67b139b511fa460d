//! Questions about texts: what each call of `weir_text_begins` asks, which the verifier knows.
//!
//! Where only moves to the call's registers stand before it and a branch on the answer behind it, the first of them becomes an
//! operation that does all; the others stay, for who jumps there. Registers that a call takes hold nothing behind it, so that
//! moves to them may be left out.

use weir_ebpf::Insn;
use weir_ebpf::insn::{alu, class, jmp, pseudo, source};
use weir_ebpf::kfunc::TextTest;
use weir_verifier::VerifiedProgram;

use super::{Op, go};

/// `struct text` of c/threaded.c.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Text {
    words: [u64; 3],
    mask: u64,
    slot: u32,
    length: u32,
    count: u32,
    same: i32,
    differs: i32,
    zero: u32,
}

const _: () = assert!(size_of::<Text>() == 56, "c/threaded.c");

/// Fills in the operations of the program's calls; they hold addresses in what is returned.
pub(super) fn texts(program: &VerifiedProgram, ops: &mut [Op]) -> Box<[Text]> {
    let facts = program.facts().iter().enumerate();
    let calls: Vec<(usize, TextTest)> =
        facts.filter_map(|(at, facts)| facts.text.map(|test| (at, test))).collect();
    let begins: Vec<(usize, Option<(i32, i32)>)> =
        calls.iter().map(|&(call, _)| question(program.insns(), call)).collect();
    let texts: Box<[Text]> =
        calls.iter().zip(&begins).map(|((_, test), (_, ways))| text(test, ways.unwrap_or((0, 0)))).collect();
    for (((call, _), (start, ways)), text) in calls.iter().zip(&begins).zip(&texts) {
        let imm = std::ptr::from_ref(text).expose_provenance() as u64;
        ops[*call].imm = imm;
        if ways.is_some() {
            ops[*start] = Op { go: go("text_if"), imm, jump: 0, dst: 0, src: 0, zero: 0 };
        }
    }
    texts
}

/// Where the question begins, and where the branch behind it goes from there if the bytes are the same, and if not; without a
/// branch, the call itself.
fn question(insns: &[Insn], call: usize) -> (usize, Option<(i32, i32)>) {
    let Some(branch) = insns.get(call + 1) else { return (call, None) };
    let is_if_zero = branch.opcode == class::JMP | jmp::JEQ | source::K;
    let is_if_not = branch.opcode == class::JMP | jmp::JNE | source::K;
    if !(is_if_zero || is_if_not) || branch.dst != 0 || branch.imm != 0 {
        return (call, None);
    }
    let mut start = call;
    while let Some(before) = move_before(insns, start) {
        start = before;
    }
    let next = (call + 2 - start) as i32;
    let target = next + i32::from(branch.off);
    (start, Some(if is_if_zero { (next, target) } else { (target, next) }))
}

/// Where an instruction begins that ends before `at` and does nothing but move to a register that a call takes.
fn move_before(insns: &[Insn], at: usize) -> Option<usize> {
    let is_argument = |insn: &Insn| (1..=5).contains(&insn.dst);
    let wide = at.checked_sub(2).filter(|&first| {
        // The second slot of a wide load looks like no instruction.
        insns[first].is_wide() && insns[first].src == pseudo::NONE && is_argument(&insns[first])
    });
    let is_move = |first: &usize| {
        let insn = insns[*first];
        insn.class() == class::ALU64 && insn.opcode & 0xf0 == alu::MOV && insn.off == 0 && is_argument(&insn)
    };
    wide.or_else(|| at.checked_sub(1).filter(is_move))
}

fn text(test: &TextTest, (same, differs): (i32, i32)) -> Text {
    let mut words = [0; 3];
    test.words().zip(&mut words).for_each(|(word, slot)| *slot = word);
    let in_last = (u32::from(test.length) - 1) % 8 + 1;
    Text {
        words,
        mask: u64::MAX >> (64 - 8 * in_last),
        slot: 8 * u32::from(test.slot),
        length: test.length.into(),
        count: u32::from(test.length).div_ceil(8),
        same,
        differs,
        zero: 0,
    }
}
