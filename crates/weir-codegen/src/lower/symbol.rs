//! Addresses and stacks of the target that somebody names when they are printed.
//!
//! A symbol is the address and the process's id, 16 bytes in memory. A stack is the process's id and the number of the
//! stack in one of [`STACK_TABLES`] maps: where the place in one is taken by another stack, the next is tried, which
//! hashes by another seed; what finds no place in any is counted in `.globals`, and is no stack.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp};
use weir_event::{STACK_TABLES, StackForm, StackId};
use weir_ir::Value;

use super::build::Arg;
use super::{Held, Lower};
use crate::lir::{Inst, Place, R0, Reg, Src};
use crate::maps::GLOBAL_NO_STACK;

/// `BPF_F_USER_STACK` of the kernel's bpf.h.
pub(super) const USER_STACK: i32 = 1 << 8;

impl<'a> Lower<'a> {
    pub(super) fn user_symbol(&mut self, address: Value) -> Held<'a> {
        let object = self.object(16);
        self.store_value(Place::Object(object, 0), address);
        self.call(helper::GET_CURRENT_PID_TGID, &[]);
        self.alu(alu::RSH, R0, Src::Imm(32));
        self.store(Place::Object(object, 8), Src::Reg(R0));
        Held::Memory(object)
    }

    /// The stack itself goes to memory that nobody reads.
    pub(super) fn stack_length(&mut self, most: u32) -> Reg {
        let (context, found) = (self.context(), self.label());
        let object = self.object(8 * most);
        let room = Arg::Imm((8 * most) as i32);
        self.call(helper::GET_STACK, &[Arg::Reg(context), Arg::Object(object), room, Arg::Imm(USER_STACK)]);
        self.touch(object);
        let length = self.fresh();
        self.mov(length, R0);
        self.branch(jmp::JSGE, length, Src::Imm(0), found);
        self.mov_imm(length, 0);
        self.insts.push(Inst::Label(found));
        self.alu(alu::RSH, length, Src::Imm(3));
        length
    }

    pub(super) fn user_stack(&mut self, form: StackForm) -> Reg {
        // SANITY: `Maps::of` has seen every stack of the module.
        let first = self.maps.stacks_of(form.frames).expect("a table for each depth");
        let context = self.context();
        let (id, done) = (self.fresh(), self.label());
        for table in 0..STACK_TABLES {
            let args = [Arg::Reg(context), Arg::Map(first + table), Arg::Imm(USER_STACK)];
            self.call(helper::GET_STACKID, &args);
            self.mov(id, R0);
            if table > 0 {
                let found = self.label();
                let next = self.label();
                self.branch(jmp::JSGE, id, Src::Imm(0), found);
                self.insts.push(Inst::Jump(next));
                self.insts.push(Inst::Label(found));
                let mark = self.constant(i64::from(table) << StackId::NUMBER_BITS);
                self.alu(alu::OR, id, Src::Reg(mark));
                self.insts.push(Inst::Jump(done));
                self.insts.push(Inst::Label(next));
            } else {
                self.branch(jmp::JSGE, id, Src::Imm(0), done);
            }
        }
        self.count_in_globals(GLOBAL_NO_STACK);
        let none = self.constant(i64::from(u32::MAX));
        self.mov(id, none);
        self.insts.push(Inst::Label(done));
        self.call(helper::GET_CURRENT_PID_TGID, &[]);
        self.alu(alu::RSH, R0, Src::Imm(32));
        self.alu(alu::LSH, R0, Src::Imm(32));
        self.alu(alu::OR, id, Src::Reg(R0));
        id
    }
}
