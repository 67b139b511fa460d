//! The helpers `loop` and `for_each_map_elem` as machine code: a loop around a call of the callback.
//!
//! What must outlive the callback lies at the bottom of the frame, below the program's stack: the callback changes
//! every register that a call may change. Two such helpers in one function are one after the other, so that one place
//! is enough. The next element of a map is found by the runtime, in the run's lane where it has claimed one.

use std::mem::offset_of;

use weir_ebpf::helper::LOOP_ROUNDS_MAX;
use weir_rt::abi::Cursor;
use weir_rt::executable::{RuntimeFunction, Symbol};

use crate::front::lir::{Op, Over};
use crate::isa::x86_64::emitter::{CALLER_SAVED, Emitter, phys};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};

/// Bytes that the operation needs at the bottom of the frame.
pub(crate) fn frame_bytes(op: &Op) -> u32 {
    match op {
        Op::Loop { over: Over::Numbers, .. } => COUNT as u32 + 8,
        Op::Loop { over: Over::Elements, .. } => CURSOR as u32 + size_of::<Cursor>() as u32,
        _ => 0,
    }
}

/// What the callback is given of the caller's.
const CONTEXT: i32 = 0;
/// Of numbers: the round's, and how many there are.
const INDEX: i32 = 8;
const COUNT: i32 = 16;
/// Of elements.
const MAP: i32 = 8;
const CURSOR: i32 = 16;

/// Errors, as the helpers answer them.
const EINVAL: i32 = 22;
const E2BIG: i32 = 7;

impl Emitter<'_> {
    /// r0 = rounds done, or an error.
    pub(crate) fn helper_loop(&mut self, over: Over, callback: usize, checks_flags: bool) {
        let (answer, flags) = (phys(0), phys(4));
        let done = self.asm.label();
        if checks_flags {
            self.asm.mov_value(answer, i64::from(-EINVAL) as u64);
            self.asm.op(encode::Op::Test, Width::W64, flags, flags);
            self.asm.jump_if(Cond::NotEqual, done);
        }
        match over {
            Over::Numbers => {
                self.asm.mov_value(answer, i64::from(-E2BIG) as u64);
                self.asm.op_imm(encode::Op::CmpImm, Width::W64, phys(1), LOOP_ROUNDS_MAX as i32);
                self.asm.jump_if(Cond::Above, done);
                self.numbers(callback);
            }
            Over::Elements => self.elements(callback),
        }
        self.asm.bind(done);
    }

    fn numbers(&mut self, callback: usize) {
        let [answer, first, second, context] = [0, 1, 2, 3].map(phys);
        let [again, over] = std::array::from_fn(|_| self.asm.label());
        let count = first;
        self.store_word(count, COUNT);
        self.store_word(context, CONTEXT);
        // Without a round, the count is the answer.
        self.asm.mov(Width::W64, answer, count);
        self.asm.op(encode::Op::Test, Width::W64, count, count);
        self.asm.jump_if(Cond::Equal, over);
        self.asm.op(encode::Op::Xor, Width::W32, first, first);

        self.asm.bind(again);
        if self.input.limits_rounds {
            // As many as were done.
            self.asm.mov(Width::W64, answer, first);
            self.round_of_run(over);
        }
        self.store_word(first, INDEX);
        self.load_word(second, CONTEXT);
        self.call_back(callback);
        self.load_word(first, INDEX);
        self.asm.op(encode::Op::Lea, Width::W64, first, Mem::base(first, 1));
        self.asm.op(encode::Op::Test, Width::W64, answer, answer);
        self.asm.mov(Width::W64, answer, first);
        self.asm.jump_if(Cond::NotEqual, over);
        self.asm.op(encode::Op::Cmp, Width::W64, first, slot(COUNT));
        self.asm.jump_if(Cond::Above, again);
        self.asm.bind(over);
    }

    fn elements(&mut self, callback: usize) {
        let [answer, first, second, third, fourth] = [0, 1, 2, 3, 4].map(phys);
        let [again, over] = std::array::from_fn(|_| self.asm.label());
        self.store_word(first, MAP);
        self.store_word(third, CONTEXT);
        for word in 0..size_of::<Cursor>() as i32 / 8 {
            self.asm.op_imm(encode::Op::MovImm, Width::W64, slot(CURSOR + 8 * word), 0);
        }

        self.asm.bind(again);
        self.round_of_run(over);
        self.load_word(first, MAP);
        self.asm.op(encode::Op::Lea, Width::W64, second, slot(CURSOR));
        if self.input.claims {
            self.lane(third);
        } else {
            self.asm.op(encode::Op::Xor, Width::W32, third, third);
        }
        self.asm.call_symbol(Symbol::Runtime(RuntimeFunction::MapNext), CALLER_SAVED);
        self.asm.op(encode::Op::Test, Width::W64, answer, answer);
        self.asm.jump_if(Cond::Equal, over);
        self.load_word(first, MAP);
        self.load_word(second, CURSOR + offset_of!(Cursor, key) as i32);
        self.asm.mov(Width::W64, third, answer);
        self.load_word(fourth, CONTEXT);
        self.call_back(callback);
        self.asm.op(encode::Op::Test, Width::W64, answer, answer);
        self.asm.jump_if(Cond::Equal, again);
        self.asm.bind(over);
        self.load_word(answer, CURSOR + offset_of!(Cursor, count) as i32);
    }

    fn call_back(&mut self, callback: usize) {
        let entry = self.entry(callback);
        self.asm.call(entry);
    }

    fn store_word(&mut self, reg: Reg, at: i32) {
        self.asm.op(encode::Op::Store, Width::W64, reg, slot(at));
    }

    fn load_word(&mut self, reg: Reg, at: i32) {
        self.asm.op(encode::Op::Load, Width::W64, reg, slot(at));
    }
}

fn slot(offset: i32) -> Mem {
    Mem::base(Reg::Rsp, offset)
}
