//! Addresses and stacks of the target, or of the kernel, that somebody names when they are printed.
//!
//! A symbol is the address and the process's id, 16 bytes in memory. A stack is the process's id and the number of the
//! stack in one of [`STACK_TABLES`] maps: where the place in one is taken by another stack, the next is tried, which
//! hashes by another seed; what finds no place in any is counted in `.globals`, and is no stack.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp};
use weir_event::{CODE_ADDRESSES, KERNEL_PID, STACK_TABLES, StackForm, StackId};
use weir_ir::Value;

use super::build::Arg;
use super::{Held, Lower};
use crate::limits;
use crate::lir::{Inst, Place, R0, Reg, Src};
use crate::maps::GLOBAL_NO_STACK;

/// `BPF_F_USER_STACK` of the kernel's bpf.h.
pub(super) const USER_STACK: i32 = 1 << 8;

/// What `get_stackid` answers where another stack has the place.
const EEXIST: i32 = 17;

/// Whose stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    User,
    Kernel,
}

impl<'a> Lower<'a> {
    pub(super) fn kernel_symbol(&mut self, address: Value) -> Held<'a> {
        let object = self.object(16);
        self.store_value(Place::Object(object, 0), address);
        let kernel = self.constant(KERNEL_PID.into());
        self.store(Place::Object(object, 8), Src::Reg(kernel));
        Held::Memory(object)
    }

    pub(super) fn user_symbol(&mut self, address: Value) -> Held<'a> {
        let object = self.object(16);
        self.store_value(Place::Object(object, 0), address);
        self.call(helper::GET_CURRENT_PID_TGID, &[]);
        self.alu(alu::RSH, R0, Src::Imm(32));
        self.store(Place::Object(object, 8), Src::Reg(R0));
        Held::Memory(object)
    }

    /// How many addresses of code there are before the first word that is none, which ends the stack when it is printed, too. What the helper has no
    /// frame for it fills with zeros.
    pub(super) fn stack_length(&mut self, most: u32) -> Reg {
        let context = self.context();
        let (object, length, done) = (self.object(8 * most), self.fresh(), self.label());
        let room = Arg::Imm((8 * most) as i32);
        self.call(helper::GET_STACK, &[Arg::Reg(context), Arg::Object(object), room, Arg::Imm(USER_STACK)]);
        self.mov_imm(length, 0);
        let range = self.constant((CODE_ADDRESSES.end - CODE_ADDRESSES.start) as i64);
        self.in_loop(most, limits::UNROLLED_WORDS, [Place::Object(object, 0)], |lower, [from]| {
            let address = lower.fresh();
            lower.load(address, from);
            lower.alu(alu::SUB, address, Src::Imm(CODE_ADDRESSES.start as i32));
            lower.branch(jmp::JGE, address, Src::Reg(range), done);
            lower.alu(alu::ADD, length, Src::Imm(1));
        });
        self.insts.push(Inst::Label(done));
        self.touch(object);
        length
    }

    pub(super) fn stack(&mut self, form: StackForm, side: Side) -> Reg {
        // SANITY: `Maps::of` has seen every stack of the module.
        let first = self.maps.stacks_of(form.frames).expect("a table for each depth");
        let context = self.context();
        let (id, done) = (self.fresh(), self.label());
        let flags = if side == Side::User { USER_STACK } else { 0 };
        for table in 0..STACK_TABLES {
            let args = [Arg::Reg(context), Arg::Map(first + table), Arg::Imm(flags)];
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
        if side == Side::Kernel {
            // Where the thread was in its process, the kernel has no stack of it: that is none lost.
            let none = self.label();
            self.branch(jmp::JNE, id, Src::Imm(-EEXIST), none);
            self.count_in_globals(GLOBAL_NO_STACK);
            self.insts.push(Inst::Label(none));
        } else {
            self.count_in_globals(GLOBAL_NO_STACK);
        }
        let none = self.constant(i64::from(u32::MAX));
        self.mov(id, none);
        self.insts.push(Inst::Label(done));
        if side == Side::Kernel {
            let kernel = self.constant((u64::from(KERNEL_PID) << 32) as i64);
            self.alu(alu::OR, id, Src::Reg(kernel));
            return id;
        }
        self.call(helper::GET_CURRENT_PID_TGID, &[]);
        self.alu(alu::RSH, R0, Src::Imm(32));
        self.alu(alu::LSH, R0, Src::Imm(32));
        self.alu(alu::OR, id, Src::Reg(R0));
        id
    }
}
