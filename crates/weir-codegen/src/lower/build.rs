//! The words that the other files write with: registers, labels, objects, moves, calls, bytes.

use weir_ebpf::insn::{alu, jmp, size};
use weir_ebpf::{HelperId, helper};
use weir_event::kernel::KernelEvent;
use weir_ir::{Trigger, Value};

use super::{Held, Lower};
use crate::limits;
use crate::lir::{Area, Inst, Label, Object, ObjectId, Place, R0, Reg, Src};

/// One argument of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    Imm(i32),
    Reg(Reg),
    Map(u32),
    /// The one value of an array map.
    MapValue(u32),
    Object(ObjectId),
    /// The address of a place.
    Place(Place),
}

impl Lower<'_> {
    pub(super) fn fresh(&mut self) -> Reg {
        self.virtuals += 1;
        Reg::Virtual(self.virtuals - 1)
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// New memory of a multiple of 8 bytes, not initialised.
    pub(super) fn object(&mut self, bytes: u32) -> ObjectId {
        let area = if bytes <= self.stack_object_bytes { Area::Stack } else { Area::Scratch };
        self.object_in(bytes, area)
    }

    pub(super) fn object_in(&mut self, bytes: u32, area: Area) -> ObjectId {
        self.objects.push(Object { bytes, area });
        ObjectId(self.objects.len() as u32 - 1)
    }

    /// What reads memory. At an event of the kernel's an address may be of either side, and says itself of which: on the machines that weir
    /// knows they have no addresses in common.
    pub(super) fn reads(&self) -> HelperId {
        if self.function.trigger.is_kernel() { helper::PROBE_READ } else { helper::PROBE_READ_USER }
    }

    /// The same up to a NUL.
    pub(super) fn reads_text(&self) -> HelperId {
        if self.function.trigger.is_kernel() { helper::PROBE_READ_STR } else { helper::PROBE_READ_USER_STR }
    }

    /// What the function is given has types that the kernel knows.
    pub(super) fn is_typed(&self) -> bool {
        let Trigger::Kernel { sites } = &self.function.trigger else { return false };
        let event = sites.first().map(|site| &site.event);
        matches!(event, Some(KernelEvent::TypedFunction { .. } | KernelEvent::Iterator { .. }))
    }

    pub(super) fn context(&mut self) -> Reg {
        match self.context {
            Some(context) => context,
            None => {
                let context = self.fresh();
                *self.context.insert(context)
            }
        }
    }

    /// The value if it is a constant integer.
    pub(super) fn int(&self, value: Value) -> Option<i64> {
        match self.held[value.0 as usize] {
            Held::Int(value) => Some(value),
            _ => None,
        }
    }

    /// An integer as an operand.
    pub(super) fn src(&mut self, value: Value) -> Src {
        match self.int(value).map(i32::try_from) {
            Some(Ok(imm)) => Src::Imm(imm),
            _ => Src::Reg(self.reg(value)),
        }
    }

    /// An integer in a register, which must not be changed.
    pub(super) fn reg(&mut self, value: Value) -> Reg {
        match self.held[value.0 as usize] {
            Held::Reg(reg) => reg,
            Held::Int(value) => self.constant(value),
            ref other => unreachable!("v{} is {other:?}, no integer", value.0),
        }
    }

    /// An integer in a new register, which may be changed.
    pub(super) fn copy_of(&mut self, value: Value) -> Reg {
        let copy = self.fresh();
        self.mov_value(copy, value);
        copy
    }

    pub(super) fn constant(&mut self, value: i64) -> Reg {
        let dst = self.fresh();
        self.mov_constant(dst, value);
        dst
    }

    pub(super) fn mov_constant(&mut self, dst: Reg, value: i64) {
        self.insts.push(match (i32::try_from(value), u32::try_from(value)) {
            (Ok(imm), _) => Inst::Mov { dst, src: Src::Imm(imm) },
            (_, Ok(low)) => Inst::Mov32 { dst, src: Src::Imm(low as i32) },
            _ => Inst::Const64 { dst, value },
        });
    }

    pub(super) fn mov_value(&mut self, dst: Reg, value: Value) {
        match self.held[value.0 as usize] {
            Held::Int(value) => self.mov_constant(dst, value),
            _ => {
                let src = self.reg(value);
                self.mov(dst, src);
            }
        }
    }

    pub(super) fn mov(&mut self, dst: Reg, src: Reg) {
        self.insts.push(Inst::Mov { dst, src: Src::Reg(src) });
    }

    pub(super) fn mov_imm(&mut self, dst: Reg, imm: i32) {
        self.insts.push(Inst::Mov { dst, src: Src::Imm(imm) });
    }

    pub(super) fn alu(&mut self, op: u8, dst: Reg, src: Src) {
        self.insts.push(Inst::Alu { op, signed: false, dst, src });
    }

    pub(super) fn load(&mut self, dst: Reg, from: Place) {
        self.insts.push(Inst::Load { dst, from });
    }

    pub(super) fn store(&mut self, to: Place, src: Src) {
        self.insts.push(Inst::Store { size: size::DW, to, src });
    }

    pub(super) fn branch(&mut self, op: u8, a: Reg, b: Src, to: Label) {
        self.insts.push(Inst::Branch { op, a, b, to });
    }

    /// Calls a helper; its result is in r0 until the next call.
    pub(super) fn call(&mut self, helper: HelperId, args: &[Arg]) {
        // The address of a place in a register needs two instructions, so the map comes last: shorter live ranges.
        for (index, arg) in args.iter().enumerate().rev() {
            let dst = Reg::Real(index as u8 + 1);
            match *arg {
                Arg::Imm(imm) => self.mov_imm(dst, imm),
                Arg::Reg(reg) => self.mov(dst, reg),
                Arg::Map(map) => self.insts.push(Inst::MapRef { dst, map }),
                Arg::MapValue(map) => self.insts.push(Inst::MapValue { dst, map }),
                Arg::Object(object) => self.insts.push(Inst::Address { dst, object, offset: 0 }),
                Arg::Place(place) => self.address(dst, place),
            }
        }
        self.insts.push(Inst::Call { helper, args: args.len() as u8 });
    }

    pub(super) fn touch(&mut self, object: ObjectId) {
        self.insts.push(Inst::Touch(object));
    }

    /// Puts the address of `place` in `dst`.
    pub(super) fn address(&mut self, dst: Reg, place: Place) {
        match place {
            Place::Object(object, offset) => self.insts.push(Inst::Address { dst, object, offset }),
            Place::Reg(reg, offset) => {
                self.mov(dst, reg);
                if offset != 0 {
                    self.alu(alu::ADD, dst, Src::Imm(offset));
                }
            }
        }
    }

    /// Stores an integer value.
    pub(super) fn store_value(&mut self, to: Place, value: Value) {
        let src = self.src(value);
        self.store(to, src);
    }

    /// Stores zeros; `bytes` is a multiple of 8.
    pub(super) fn zero(&mut self, to: Place, bytes: u32) {
        self.in_loop(bytes / 8, limits::UNROLLED_WORDS, [to], |lower, [to]| lower.store(to, Src::Imm(0)));
    }

    /// Copies `bytes`, a multiple of 8.
    pub(super) fn copy(&mut self, to: Place, from: Place, bytes: u32) {
        self.in_loop(bytes / 8, limits::UNROLLED_WORDS / 2, [to, from], |lower, [to, from]| {
            let word = lower.fresh();
            lower.load(word, from);
            lower.store(to, Src::Reg(word));
        });
    }

    /// Does `one` to each of `words` words at `places`: one after the other if they are few, else in a loop with
    /// `at_once` words a round.
    pub(super) fn in_loop<const N: usize>(
        &mut self,
        words: u32,
        at_once: u32,
        places: [Place; N],
        mut one: impl FnMut(&mut Self, [Place; N]),
    ) {
        let rounds = if words > limits::UNROLLED_WORDS { words / at_once } else { 0 };
        let mut looped = 0;
        if rounds > 1 {
            looped = rounds * at_once;
            let pointers = places.map(|place| {
                let pointer = self.fresh();
                self.address(pointer, place);
                pointer
            });
            let left = self.fresh();
            self.mov_imm(left, rounds as i32);
            let again = self.label();
            self.insts.push(Inst::Label(again));
            for word in 0..at_once {
                one(self, pointers.map(|pointer| Place::Reg(pointer, 8 * word as i32)));
            }
            for pointer in pointers {
                self.alu(alu::ADD, pointer, Src::Imm(8 * at_once as i32));
            }
            self.alu(alu::SUB, left, Src::Imm(1));
            self.branch(jmp::JNE, left, Src::Imm(0), again);
        }
        for word in looped..words {
            one(self, places.map(|place| place.plus(8 * word)));
        }
    }

    /// Adds 1 to a word of `.globals`.
    pub(super) fn count_in_globals(&mut self, offset: i32) {
        let globals = self.fresh();
        self.insts.push(Inst::MapValue { dst: globals, map: self.maps.globals });
        let one = self.constant(1);
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(globals, offset), src: one, fetch: false });
    }

    /// Jumps to `to` if the call before returned null: something had no room, which is counted there if the maps do not.
    pub(super) fn skip_if_no_room(&mut self, offset: i32, to: Label) {
        if !self.maps.is_for_kernel {
            return self.skip_if_null(to);
        }
        let has_room = self.label();
        self.branch(jmp::JNE, R0, Src::Imm(0), has_room);
        self.count_in_globals(offset);
        self.insts.push(Inst::Jump(to));
        self.insts.push(Inst::Label(has_room));
    }

    /// The same of a call that returned something else than 0, after which the program goes on.
    pub(super) fn count_if_no_room(&mut self, offset: i32) {
        if self.maps.is_for_kernel {
            let has_room = self.label();
            self.branch(jmp::JEQ, R0, Src::Imm(0), has_room);
            self.count_in_globals(offset);
            self.insts.push(Inst::Label(has_room));
        }
    }

    /// Jumps to `to` if the call before returned null.
    pub(super) fn skip_if_null(&mut self, to: Label) {
        self.branch(jmp::JEQ, R0, Src::Imm(0), to);
    }
}
