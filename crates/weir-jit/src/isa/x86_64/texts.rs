//! Texts of the traced program compared with constants: `weir_text_begins` in line.
//!
//! The text's address comes from its slot; whoever hands the context over vouches for it: it is 0, or the text may be read up to
//! its NUL. The constant's bytes are compared in words of 8, 4, 2 and 1 bytes with immediates, and words overlap where that saves
//! one. A word may reach behind the NUL, but never into another page: before the first, one test shows that the address is not 0
//! and that all bytes which are compared lie in the page of the first, which is there. Else the code stands behind the rest and
//! compares byte by byte, up to the first that differs: each byte that was the same was no NUL (only the constant's last can be
//! one), so that the text goes on.
//!
//! ```text
//!     mov  rdi, [context + 8 * slot]
//!     lea  eax, [rdi - 1]
//!     and  eax, 4095
//!     cmp  eax, 4095 - length        ; of address 0, and at a page's first byte: 4095
//!     ja   by_bytes
//!     cmp  dword [rdi], 0x30727473   ; "str0"
//!     jne  differs
//!     cmp  byte [rdi + 4], 0
//!     jne  differs
//! ```
//!
//! A branch on the answer behind the call is part of this. Where it is not taken and the next question is about the same text, that
//! one has the address and the test already; what was sent away goes on byte by byte. Nothing is changed but rdi, rax and the flags.

use weir_ebpf::kfunc::TextTest;

use crate::front::lir::{At, Base, Op};
use crate::isa::x86_64::assembler::Label;
use crate::isa::x86_64::emitter::{Cold, ColdCode, Emitter};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};
use crate::limits::PAGE_BYTES;
use crate::passes::blocks;

/// Where the text's address is: the register of r1, which the call changes.
const TEXT: Reg = Reg::Rdi;
/// That of r0.
const SCRATCH: Reg = Reg::Rax;

impl Emitter<'_> {
    pub(crate) fn text(&mut self, test: &TextTest) {
        let branch = self.branch_on_answer(self.now);
        let next = self.question_behind(self.now);
        let behind = self.asm.label();
        let (same, differs) = match branch {
            Some(branch) if branch.is_taken_if_zero => (behind, self.do_branch(branch)),
            Some(branch) => (self.do_branch(branch), behind),
            None => (behind, self.asm.label()),
        };
        let by_bytes = match self.text_by_bytes.take() {
            Some(by_bytes) => by_bytes,
            None => self.text_in_page(test.slot),
        };
        let mut pieces = pieces(test.bytes().len()).peekable();
        while let Some((at, bytes)) = pieces.next() {
            self.compare_piece(at, &test.bytes()[at..at + bytes]);
            if pieces.peek().is_none() && differs == behind {
                self.asm.jump_if(Cond::Equal, same);
            } else {
                self.asm.jump_if(Cond::NotEqual, differs);
            }
        }
        self.asm.bind(behind);
        if branch.is_none() {
            self.answer(differs);
        }
        // What is compared by bytes goes on so, as long as it is about the same text.
        let onward = match next {
            Some(_) => *self.text_by_bytes.insert(self.asm.label()),
            None => behind,
        };
        let instead = |label| if label == behind { onward } else { label };
        let what = ColdCode::Text { test: *test, differs: instead(differs) };
        self.cold.push(Cold { from: self.now, entry: by_bytes, back: instead(same), what });
    }

    /// The text's address, with a test that as many bytes as this question and those behind it compare lie in its page; where
    /// they do not, the code goes to what is returned.
    fn text_in_page(&mut self, slot: u8) -> Label {
        let mut longest = 0;
        let mut question = Some(self.now);
        while let Some(at) = question {
            let Op::Text { test } = &self.input.ops[at] else { break };
            longest = longest.max(i32::from(test.length));
            question = self.question_behind(at);
        }
        let by_bytes = self.asm.label();
        let slot = self.mem(At { base: Base::Context, offset: 8 * i32::from(slot) });
        self.asm.op(encode::Op::Load, Width::W64, TEXT, slot);
        self.asm.op(encode::Op::Lea, Width::W32, SCRATCH, Mem::base(TEXT, -1));
        self.asm.op_imm(encode::Op::AndImm, Width::W32, SCRATCH, PAGE_BYTES - 1);
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, SCRATCH, PAGE_BYTES - 1 - longest);
        self.asm.jump_if(Cond::Above, by_bytes);
        by_bytes
    }

    /// The question about the same text that comes next where the branch behind the one at `at` is not taken, and not otherwise.
    fn question_behind(&self, at: usize) -> Option<usize> {
        let ops = self.input.ops;
        let branch = self.branch_on_answer(at)?;
        let next = blocks::next(ops, branch.slot + 1)?;
        let (Op::Text { test: before }, Op::Text { test }) = (&ops[at], &ops[next]) else { return None };
        (before.slot == test.slot && self.is_reached_from(branch.slot, next)).then_some(next)
    }

    /// Goes on where the bytes are the same.
    pub(crate) fn compare_bytes(&mut self, test: &TextTest, differs: Label) {
        self.asm.op(encode::Op::Test, Width::W64, TEXT, TEXT);
        self.asm.jump_if(Cond::Equal, differs);
        for at in 0..test.bytes().len() {
            self.compare_piece(at, &test.bytes()[at..=at]);
            self.asm.jump_if(Cond::NotEqual, differs);
        }
    }

    /// 1 here, and 0 at `differs`.
    fn answer(&mut self, differs: Label) {
        let done = self.asm.label();
        self.asm.mov_value(SCRATCH, 1);
        self.asm.jump(done);
        self.asm.bind(differs);
        self.asm.op(encode::Op::Xor, Width::W32, SCRATCH, SCRATCH);
        self.asm.bind(done);
    }

    fn compare_piece(&mut self, at: usize, bytes: &[u8]) {
        let mem = Mem::base(TEXT, at as i32);
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        match bytes.len() {
            1 => self.asm.op_imm(encode::Op::CmpImm, Width::W8, mem, i32::from(word as i8)),
            // An immediate of 2 bytes stalls decoders.
            2 => {
                self.asm.op(encode::Op::Movzx16, Width::W32, SCRATCH, mem);
                self.asm.op_imm(encode::Op::CmpImm, Width::W32, SCRATCH, word as i32);
            }
            4 => self.asm.op_imm(encode::Op::CmpImm, Width::W32, mem, word as i32),
            _ => match i32::try_from(word as i64) {
                Ok(imm) => self.asm.op_imm(encode::Op::CmpImm, Width::W64, mem, imm),
                Err(_) => {
                    self.asm.mov_value(SCRATCH, word);
                    self.asm.op(encode::Op::Cmp, Width::W64, SCRATCH, mem);
                }
            },
        }
    }
}

/// Offset and bytes of the words that so many bytes are compared in, the first bytes first.
fn pieces(length: usize) -> impl Iterator<Item = (usize, usize)> {
    let whole = length / 8 * 8;
    let rest = match length - whole {
        0 => [None, None],
        rest @ (1 | 2 | 4) => [Some((whole, rest)), None],
        _ if whole > 0 => [Some((length - 8, 8)), None],
        3 => [Some((0, 2)), Some((2, 1))],
        5 => [Some((0, 4)), Some((4, 1))],
        _ => [Some((0, 4)), Some((length - 4, 4))],
    };
    (0..whole).step_by(8).map(|at| (at, 8)).chain(rest.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use weir_ebpf::kfunc::TEXT_BYTES_MAX;

    use super::*;

    #[test]
    fn pieces_are_all_bytes_and_no_others() {
        for length in 1..=TEXT_BYTES_MAX {
            let mut compared = vec![false; length];
            for (at, bytes) in pieces(length) {
                assert!(matches!(bytes, 1 | 2 | 4 | 8), "{length}");
                compared[at..at + bytes].fill(true);
            }
            assert!(compared.into_iter().all(|compared| compared), "{length}");
        }
    }
}
