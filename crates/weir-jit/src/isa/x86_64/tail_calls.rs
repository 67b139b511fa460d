//! Tail calls: the end of this program's frame, and a jump to another's entry.
//!
//! A slot of the map holds a program's number and one, or 0; its address is in the table that whoever loaded the code
//! put beside it (`Symbol::Programs`). So the segment, which others write, holds no address, and whatever number is in
//! it leads to a program of the table or nowhere. Tail calls are counted in the frame above the return address, which
//! all programs of the run share: the entry of a program that has some sets the count to 0, and tail calls enter behind
//! that. The stack does not grow.

use weir_ebpf::helper::TAIL_CALLS_MAX;
use weir_rt::executable::{FRAME_TAIL_CALLS, Symbol};

use crate::JitError;
use crate::front::lir::{At, Base, Op};
use crate::isa::x86_64::emitter::{CALLER_SAVED, Emitter, phys};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};

impl Emitter<'_> {
    pub(crate) fn has_tail_calls(&self) -> bool {
        self.input.ops.iter().any(|op| matches!(op, Op::TailCall { .. }))
    }

    /// Before the prologue: the frame lies above the return address.
    pub(crate) fn count_tail_calls_from_zero(&mut self) {
        let count = Mem::base(Reg::Rsp, 8 + FRAME_TAIL_CALLS as i32);
        self.asm.op_imm(encode::Op::MovImm, Width::W32, count, 0);
        self.tail_entry = self.asm.bytes_before_jumps();
    }

    /// To the program in slot r3; on, if there is none or too many were called.
    pub(crate) fn tail_call(&mut self, map: u32) -> Result<(), JitError> {
        let place = &self.input.places[map as usize];
        if place.elem_stride != 8 {
            return Err(JitError::Map { index: map });
        }
        let entries = self.input.maps[map as usize].max_entries;
        let on = self.asm.label();
        let (number, table, target) = (Reg::R11, Reg::R10, Reg::Rax);
        self.asm.mov(Width::W32, number, phys(3));
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, number, entries as i32);
        self.asm.jump_if(Cond::AboveOrEqual, on);
        self.asm.mov_symbol(table, Symbol::MapData(map), 0);
        self.asm.op(encode::Op::Load, Width::W64, number, Mem::indexed(table, number, 3, 0));
        self.asm.mov_symbol(table, Symbol::Programs, 0);
        self.asm.op(encode::Op::Cmp, Width::W64, number, Mem::base(table, 0));
        self.asm.jump_if(Cond::Below, on);
        // An empty slot leads to the 0 before the first program.
        self.asm.op(encode::Op::Load, Width::W64, target, Mem::indexed(table, number, 3, 8));
        self.asm.op(encode::Op::Test, Width::W64, target, target);
        self.asm.jump_if(Cond::Equal, on);
        let count = self.mem(At { base: Base::Context, offset: FRAME_TAIL_CALLS as i32 });
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, count, TAIL_CALLS_MAX as i32);
        self.asm.jump_if(Cond::AboveOrEqual, on);
        self.asm.op_imm(encode::Op::AddImm, Width::W32, count, 1);
        if self.input.claims {
            self.release();
        }
        self.take_down();
        self.asm.jump_away(CALLER_SAVED);
        self.asm.bind(on);
        Ok(())
    }
}
