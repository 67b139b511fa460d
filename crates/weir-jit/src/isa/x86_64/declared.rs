//! What the traced program declares of slots of its context, copied: `weir_declared_copy` in line.
//!
//! Whoever hands the context over vouches for that memory, so that loads do. Of a text one word is done here: what of it lies behind
//! the NUL is in the page of its first byte, which one test shows, and is copied too, where there is room.
//!
//! ```text
//!     mov  rsi, [context + 8 * slot]
//!     lea  eax, [rsi - 1]
//!     and  eax, 4095
//!     cmp  eax, 4095 - 8             ; of address 0, and at a page's first byte: 4095
//!     ja   call
//!     mov  rdx, [rsi]
//!     mov  [rdi], rdx                ; r1: where it goes
//!     mov  rax, -0x0101010101010101
//!     add  rax, rdx                  ; (word - 01…01) & ~word & 80…80: the lowest bit is that of the first NUL
//!     not  rdx
//!     and  rax, rdx
//!     mov  rcx, 0x8080808080808080
//!     and  rax, rcx
//!     je   call                      ; there is none
//!     bsf  rax, rax
//!     shr  eax, 3
//!     add  eax, 1
//! ```
//!
//! Where a slot is a word of a row, the row's address is loaded first, and its word from there.
//!
//! Bytes and elements are copied as records are, elements in a loop. Everything else (an address of 0, longer texts, more elements
//! than there is room for) is the runtime's, which begins anew.

use weir_ebpf::kfunc::{Declared, DeclaredCopy, ROW_SLOT, row_word};
use weir_rt::executable::{RuntimeFunction, Symbol};

use crate::front::lir::{At, Base};
use crate::isa::x86_64::emitter::{CALLER_SAVED, Cold, ColdCode, Emitter, phys};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};
use crate::isa::x86_64::records::{SIZE, SOURCE};
use crate::limits::PAGE_BYTES;

/// Bytes of a text that are looked at in line.
const WORD_BYTES: i32 = 8;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl Emitter<'_> {
    /// Takes what a helper may, and leaves r1 as it is until it calls.
    pub(crate) fn declared(&mut self, copy: &DeclaredCopy) {
        let [call, done] = std::array::from_fn(|_| self.asm.label());
        match copy.declared {
            Declared::Word { slot } => {
                self.load_slot(Reg::Rdx, slot);
                self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, Mem::base(phys(1), 0));
                self.asm.mov_value(Reg::Rax, 8);
                return;
            }
            Declared::Text { slot } => {
                self.load_slot(Reg::Rsi, slot);
                self.asm.op(encode::Op::Lea, Width::W32, Reg::Rax, Mem::base(Reg::Rsi, -1));
                self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rax, PAGE_BYTES - 1);
                self.asm.op_imm(encode::Op::CmpImm, Width::W32, Reg::Rax, PAGE_BYTES - 1 - WORD_BYTES);
                self.asm.jump_if(Cond::Above, call);
                self.asm.op(encode::Op::Load, Width::W64, Reg::Rdx, Mem::base(Reg::Rsi, 0));
                self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, Mem::base(phys(1), 0));
                self.asm.mov_value(Reg::Rax, ONES.wrapping_neg());
                self.asm.op(encode::Op::Add, Width::W64, Reg::Rdx, Reg::Rax);
                self.asm.op_imm(encode::Op::XorImm, Width::W64, Reg::Rdx, -1);
                self.asm.op(encode::Op::And, Width::W64, Reg::Rdx, Reg::Rax);
                self.asm.mov_value(Reg::Rcx, HIGHS);
                self.asm.op(encode::Op::And, Width::W64, Reg::Rcx, Reg::Rax);
                self.asm.jump_if(Cond::Equal, call);
                self.asm.op(encode::Op::Bsf, Width::W64, Reg::Rax, Reg::Rax);
                self.asm.op_imm(encode::Op::ShrImm, Width::W32, Reg::Rax, 3);
                self.asm.op_imm(encode::Op::AddImm, Width::W32, Reg::Rax, 1);
            }
            Declared::Bytes { slot, bytes } => {
                self.source(slot);
                self.asm.jump_if(Cond::Equal, call);
                self.copy(Some(bytes));
                self.asm.mov_value(Reg::Rax, bytes.into());
            }
            Declared::Elements { slot, count_slot, shift } => {
                self.load_slot(SIZE, count_slot);
                self.source(slot);
                self.asm.jump_if(Cond::Equal, call);
                self.asm.op_imm(encode::Op::CmpImm, Width::W64, SIZE, (copy.size >> shift) as i32);
                self.asm.jump_if(Cond::Above, call);
                if shift > 0 {
                    self.asm.op_imm(encode::Op::ShlImm, Width::W64, SIZE, shift.into());
                }
                self.asm.mov(Width::W64, Reg::R8, SIZE);
                self.copy(None);
                self.asm.mov(Width::W64, Reg::Rax, Reg::R8);
            }
        }
        self.asm.bind(done);
        self.cold.push(Cold { from: self.now, entry: call, back: done, what: ColdCode::Declared(*copy) });
    }

    /// The whole of it.
    pub(crate) fn call_declared(&mut self, copy: &DeclaredCopy) {
        let context = self.slot(0);
        self.asm.mov_value(phys(2), copy.size.into());
        self.asm.op(encode::Op::Lea, Width::W64, phys(3), context);
        self.asm.mov_value(phys(4), copy.declared.which());
        self.asm.call_symbol(Symbol::Runtime(RuntimeFunction::DeclaredCopy), CALLER_SAVED);
    }

    /// Loads the address of what is copied, and compares it with 0.
    fn source(&mut self, slot: u8) {
        self.load_slot(SOURCE, slot);
        self.asm.op(encode::Op::Test, Width::W64, SOURCE, SOURCE);
    }

    fn load_slot(&mut self, to: Reg, slot: u8) {
        let held = self.slot(if row_word(slot).is_some() { ROW_SLOT } else { slot });
        self.asm.op(encode::Op::Load, Width::W64, to, held);
        if let Some(word) = row_word(slot) {
            self.asm.op(encode::Op::Load, Width::W64, to, Mem::base(to, 8 * i32::from(word)));
        }
    }

    fn slot(&self, slot: u8) -> Mem {
        self.mem(At { base: Base::Context, offset: 8 * i32::from(slot) })
    }
}
