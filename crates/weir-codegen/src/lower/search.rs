//! Strings and bytes of two values at once: one looked for in the other, one behind the other, the order of two; and strings by an
//! array of pointers.
//!
//! A search takes a round of a `may_goto` for each byte that it looks at: what bounds it for a verifier is that, and what bounds it in
//! fact are the lengths of both texts. Memory that is written at an offset that is known only then is scratch memory.

use weir_ebpf::insn::{alu, jmp, size};
use weir_ir::Value;

use super::build::Arg;
use super::{Held, Lower};
use crate::lir::{Area, Inst, Label, ObjectId, Place, R0, Reg, Src};

impl<'a> Lower<'a> {
    /// Where the part begins in the text, or -1. `start` is where it may begin, `seen` how many of its bytes are there.
    pub(super) fn find(&mut self, text: Value, part: Value) -> Reg {
        let (text_bytes, part_bytes) = (self.function.ty(text).bytes(), self.function.ty(part).bytes());
        let (text, part) = (self.string_object(text), self.string_object(part));
        let [again, differ, no, found] = std::array::from_fn(|_| self.label());
        let (start, seen) = (self.fresh(), self.fresh());
        self.mov_imm(start, 0);
        self.mov_imm(seen, 0);
        self.insts.push(Inst::Label(again));
        self.insts.push(Inst::MayGoto(no));
        self.branch(jmp::JGE, seen, Src::Imm(part_bytes as i32), found);
        let wanted = self.byte_at(part, seen);
        self.branch(jmp::JEQ, wanted, Src::Imm(0), found);
        let at = self.fresh();
        self.mov(at, start);
        self.alu(alu::ADD, at, Src::Reg(seen));
        self.branch(jmp::JGE, at, Src::Imm(text_bytes as i32), no);
        let byte = self.byte_at(text, at);
        self.branch(jmp::JNE, byte, Src::Reg(wanted), differ);
        self.alu(alu::ADD, seen, Src::Imm(1));
        self.insts.push(Inst::Jump(again));
        self.insts.push(Inst::Label(differ));
        self.branch(jmp::JEQ, byte, Src::Imm(0), no);
        self.alu(alu::ADD, start, Src::Imm(1));
        self.mov_imm(seen, 0);
        self.insts.push(Inst::Jump(again));
        self.insts.push(Inst::Label(no));
        self.mov_imm(start, -1);
        self.insts.push(Inst::Label(found));
        self.touch(text);
        self.touch(part);
        start
    }

    /// The byte of an object at an offset that is inside it.
    fn byte_at(&mut self, object: ObjectId, offset: Reg) -> Reg {
        let (at, byte) = (self.fresh(), self.fresh());
        self.address(at, Place::Object(object, 0));
        self.alu(alu::ADD, at, Src::Reg(offset));
        self.insts.push(Inst::LoadPart { size: size::B, dst: byte, from: Place::Reg(at, 0) });
        byte
    }

    /// One string behind the other, in `bytes`.
    pub(super) fn cat(&mut self, a: Value, b: Value, bytes: u32) -> Held<'a> {
        let (first, second) = (self.function.ty(a).bytes(), self.function.ty(b).bytes());
        let room = bytes.max(first + second);
        let out = self.object_in(room, Area::Scratch);
        self.write_string(a, Place::Object(out, 0), first);
        self.zero(Place::Object(out, first as i32), room - first);
        let from = self.string_object(b);
        let length = self.length_in(out, first);
        let (to, fits) = (self.fresh(), self.label());
        self.branch(jmp::JLE, length, Src::Imm(first as i32), fits);
        self.mov_imm(length, first as i32);
        self.insts.push(Inst::Label(fits));
        self.address(to, Place::Object(out, 0));
        self.alu(alu::ADD, to, Src::Reg(length));
        self.copy(Place::Reg(to, 0), Place::Object(from, 0), second);
        self.touch(from);
        if bytes < first + second {
            // What is cut off ends with a NUL.
            let last = self.fresh();
            let at = Place::Object(out, bytes as i32 - 8);
            self.load(last, at);
            self.alu(alu::LSH, last, Src::Imm(8));
            self.alu(alu::RSH, last, Src::Imm(8));
            self.store(at, Src::Reg(last));
        }
        self.touch(out);
        Held::Memory(out)
    }

    /// -1, 0 or 1, by the first bytes that differ.
    pub(super) fn compare_bytes(&mut self, a: Value, b: Value, bytes: u32) -> Reg {
        let rooms = [a, b].map(|value| self.function.ty(value).bytes());
        let objects = [a, b].map(|value| self.string_object(value));
        let [differ, less, done] = std::array::from_fn(|_| self.label());
        let [x, y, result] = std::array::from_fn(|_| self.fresh());
        let (whole, cut) = (bytes / 8, bytes % 8);
        let common = whole.min(rooms[0] / 8).min(rooms[1] / 8);
        let places = objects.map(|object| Place::Object(object, 0));
        self.in_loop(common, 4, places, |lower, [a, b]| {
            lower.load(x, a);
            lower.load(y, b);
            lower.branch(jmp::JNE, x, Src::Reg(y), differ);
        });
        for word in common..bytes.div_ceil(8) {
            if rooms.iter().all(|room| 8 * word >= *room) {
                break;
            }
            for ((dst, object), room) in [x, y].into_iter().zip(objects).zip(rooms) {
                match 8 * word < room {
                    true => self.load(dst, Place::Object(object, 8 * word as i32)),
                    false => self.mov_imm(dst, 0),
                }
                if word == whole {
                    self.alu(alu::LSH, dst, Src::Imm(64 - 8 * cut as i32));
                }
            }
            self.branch(jmp::JNE, x, Src::Reg(y), differ);
        }
        self.mov_imm(result, 0);
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(differ));
        self.mov_imm(result, 1);
        self.branch_if_less(x, y, less, done);
        self.insts.push(Inst::Label(less));
        self.mov_imm(result, -1);
        self.insts.push(Inst::Label(done));
        objects.iter().for_each(|object| self.touch(*object));
        result
    }

    /// Of two words that differ: to `less` if the first byte that does is less in the one, else to `not`.
    fn branch_if_less(&mut self, x: Reg, y: Reg, less: Label, not: Label) {
        for _ in 0..8 {
            let [a, b] = [x, y].map(|word| {
                let byte = self.fresh();
                self.mov(byte, word);
                self.alu(alu::AND, byte, Src::Imm(0xff));
                byte
            });
            self.branch(jmp::JLT, a, Src::Reg(b), less);
            self.branch(jmp::JGT, a, Src::Reg(b), not);
            self.alu(alu::RSH, x, Src::Imm(8));
            self.alu(alu::RSH, y, Src::Imm(8));
        }
        self.insts.push(Inst::Jump(not));
    }

    /// The strings that pointers lead to, one after the other.
    pub(super) fn read_strings(&mut self, address: Value, (most, each): (u32, u32), bytes: u32) -> Held<'a> {
        let room = bytes - 8;
        let out = self.object_in(bytes + each.next_multiple_of(8), Area::Scratch);
        let pointer = self.object(8);
        self.zero(Place::Object(out, 0), bytes + each.next_multiple_of(8));
        let [again, end, fits] = std::array::from_fn(|_| self.label());
        let (from, used, count, to) = (self.copy_of(address), self.fresh(), self.fresh(), self.fresh());
        self.mov_imm(used, 0);
        self.mov_imm(count, 0);
        self.insts.push(Inst::Label(again));
        self.branch(jmp::JGE, used, Src::Imm(room as i32), end);
        self.zero(Place::Object(pointer, 0), 8);
        self.call(self.reads(), &[Arg::Object(pointer), Arg::Imm(8), Arg::Reg(from)]);
        self.branch(jmp::JNE, R0, Src::Imm(0), end);
        let text = self.fresh();
        self.load(text, Place::Object(pointer, 0));
        self.branch(jmp::JEQ, text, Src::Imm(0), end);
        self.address(to, Place::Object(out, 8));
        self.alu(alu::ADD, to, Src::Reg(used));
        let read = [Arg::Reg(to), Arg::Imm(each as i32), Arg::Reg(text)];
        self.call(self.reads_text(), &read);
        self.branch(jmp::JSLE, R0, Src::Imm(0), end);
        self.branch(jmp::JLE, R0, Src::Imm(each as i32), fits);
        self.mov_imm(R0, each as i32);
        self.insts.push(Inst::Label(fits));
        self.alu(alu::ADD, used, Src::Reg(R0));
        self.alu(alu::ADD, count, Src::Imm(1));
        self.alu(alu::ADD, from, Src::Imm(8));
        self.branch(jmp::JNE, count, Src::Imm(most as i32), again);
        self.insts.push(Inst::Label(end));
        self.store(Place::Object(out, 0), Src::Reg(count));
        self.touch(pointer);
        self.touch(out);
        Held::Memory(out)
    }
}
