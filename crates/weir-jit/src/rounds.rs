//! The helper `loop` as machine code: a loop around a call of the callback.
//!
//! What must outlive the callback lies at the bottom of the frame, below the program's stack: the callback changes every
//! register that a call may change. Two calls of `loop` in one function are one after the other, so that one place is
//! enough.

use weir_ebpf::helper::LOOP_ROUNDS_MAX;

use crate::emit::{Emitter, phys};
use crate::x64::{self, Cond, Mem, Reg, Width};

/// Bytes at the bottom of a frame: the round's number, their count, what the callback is given.
pub(crate) const FRAME_BYTES: u32 = 24;

const INDEX: i32 = 0;
const COUNT: i32 = 8;
const CONTEXT: i32 = 16;

/// Errors, as the helper answers them.
const EINVAL: i32 = 22;
const E2BIG: i32 = 7;

impl Emitter<'_> {
    /// r0 = rounds done of r1, or an error.
    pub(crate) fn helper_loop(&mut self, callback: usize, checks_flags: bool) {
        let [answer, first, second] = [0, 1, 2].map(phys);
        let [count, context, flags] = [1, 3, 4].map(phys);
        let [again, over, done] = std::array::from_fn(|_| self.asm.label());
        if checks_flags {
            self.asm.mov_value(answer, i64::from(-EINVAL) as u64);
            self.asm.op(x64::Op::Test, Width::W64, flags, flags);
            self.asm.jump_if(Cond::NotEqual, done);
        }
        self.asm.mov_value(answer, i64::from(-E2BIG) as u64);
        self.asm.op_imm(x64::Op::CmpImm, Width::W64, count, LOOP_ROUNDS_MAX as i32);
        self.asm.jump_if(Cond::Above, done);
        self.asm.op(x64::Op::Store, Width::W64, count, slot(COUNT));
        self.asm.op(x64::Op::Store, Width::W64, context, slot(CONTEXT));
        self.asm.op(x64::Op::Xor, Width::W32, answer, answer);
        self.asm.op(x64::Op::Test, Width::W64, count, count);
        self.asm.jump_if(Cond::Equal, done);
        self.asm.op(x64::Op::Xor, Width::W32, first, first);

        self.asm.bind(again);
        self.asm.op(x64::Op::Store, Width::W64, first, slot(INDEX));
        self.asm.op(x64::Op::Load, Width::W64, second, slot(CONTEXT));
        let entry = self.entry(callback);
        self.asm.call(entry);
        self.asm.op(x64::Op::Load, Width::W64, first, slot(INDEX));
        self.asm.op(x64::Op::Lea, Width::W64, first, Mem::base(first, 1));
        self.asm.op(x64::Op::Test, Width::W64, answer, answer);
        self.asm.jump_if(Cond::NotEqual, over);
        self.asm.op(x64::Op::Cmp, Width::W64, first, slot(COUNT));
        self.asm.jump_if(Cond::Above, again);

        self.asm.bind(over);
        self.asm.mov(Width::W64, answer, first);
        self.asm.bind(done);
    }
}

fn slot(offset: i32) -> Mem {
    Mem::base(Reg::Rsp, offset)
}
