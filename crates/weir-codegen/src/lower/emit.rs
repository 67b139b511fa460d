//! Records: reserved in the ring with their exact size, filled, submitted.
//!
//! Layout as weir-event says: u32 action, u32 zero, then the fields where the action has them. If the ring is full, the
//! record is left out, and the ring counts it.
//!
//! A record whose last bytes are a long string ends with that string's NUL, or in its block of words: it is made in scratch memory, and copied to
//! the ring from there. A line of 20 characters takes 64 bytes of the ring, not 1,056.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp, size};
use weir_event::{Action, Field, RECORD_HEADER_BYTES, Type};
use weir_ir::check::action_fields;
use weir_ir::{ActionId, Op, Value, leaves};

use super::build::Arg;
use super::{Held, Lower};
use crate::lir::{Area, Inst, ObjectId, Place, R0, Reg, Src};
use crate::maps::GLOBAL_NO_ROOM;

/// From so many bytes on a string that is in memory is copied up to its end alone.
const MEASURED_BYTES_MIN: u32 = 64;

/// Words of a long string between which it is looked for its end.
const BLOCK_WORDS: u32 = 8;

impl Lower<'_> {
    pub(super) fn emit(&mut self, action: ActionId, args: &[Value]) {
        let schema = &self.module.schema.actions[action.0 as usize];
        let fields = action_fields(schema);
        // The parts of fields, with their places.
        let mut parts: Vec<(u32, &Type)> = Vec::with_capacity(args.len());
        for field in &fields {
            let mut offset = field.offset;
            for ty in leaves(&field.ty) {
                parts.push((offset, ty));
                offset += ty.bytes();
            }
        }
        let bytes = RECORD_HEADER_BYTES + fields.iter().map(|field| field.ty.bytes()).sum::<u32>();
        if matches!(schema, Action::Printf { .. } | Action::PrintValue { .. })
            && let Some(last) = self.last_string(&fields, &parts, args)
        {
            return self.emit_measured(action, &parts, args, last);
        }
        let full = self.label();
        let reserve = [Arg::Map(self.maps.ring), Arg::Imm(bytes as i32), Arg::Imm(0)];
        self.call(helper::RINGBUF_RESERVE, &reserve);
        self.skip_if_no_room(GLOBAL_NO_ROOM, full);
        let record = self.fresh();
        self.mov(record, R0);
        // Action numbers are below 2^31: the upper half of this word is the header's zero.
        self.store(Place::Reg(record, 0), Src::Imm(action.0 as i32));
        for ((offset, ty), &arg) in parts.into_iter().zip(args) {
            self.write_leaf(arg, ty, Place::Reg(record, offset as i32));
        }
        self.call(helper::RINGBUF_SUBMIT, &[Arg::Reg(record), Arg::Imm(0)]);
        self.insts.push(Inst::Label(full));
    }

    /// Which of the parts is a field of its own at the end of the record, a long string whose end is only known when it runs. The kernel has no scratch memory
    /// for it.
    fn last_string(&self, fields: &[&Field], parts: &[(u32, &Type)], args: &[Value]) -> Option<usize> {
        let last = fields.iter().max_by_key(|field| field.offset)?;
        let (Type::Str { bytes }, false) = (&last.ty, self.maps.is_for_kernel) else { return None };
        let part = parts.iter().position(|(offset, _)| *offset == last.offset)?;
        let is_measured = match self.held[args[part].0 as usize] {
            Held::Deferred(Op::ReadStr { .. }) => true,
            Held::Memory(_) => *bytes >= MEASURED_BYTES_MIN,
            _ => false,
        };
        (is_measured && self.function.ty(args[part]).bytes() == *bytes).then_some(part)
    }

    /// A record that ends with the string of its part `last`.
    fn emit_measured(&mut self, action: ActionId, parts: &[(u32, &Type)], args: &[Value], last: usize) {
        let (start, ty) = parts[last];
        let (bytes, string) = (ty.bytes(), args[last]);
        let object = self.object_in(start + bytes, Area::Scratch);
        self.store(Place::Object(object, 0), Src::Imm(action.0 as i32));
        for (index, ((offset, ty), &arg)) in parts.iter().zip(args).enumerate() {
            if index != last {
                self.write_leaf(arg, ty, Place::Object(object, *offset as i32));
            }
        }
        let to = Place::Object(object, start as i32);
        let used = match self.held[string.0 as usize] {
            Held::Memory(from) => self.copy_until_end(to, from, bytes),
            Held::Deferred(Op::ReadStr { address, limit }) => {
                self.read_until_end(*address, *limit, bytes, to)
            }
            other => unreachable!("v{} is {other:?}, no string to be measured", string.0),
        };
        let fits = self.label();
        self.branch(jmp::JLE, used, Src::Imm(bytes as i32), fits);
        self.mov_imm(used, bytes as i32);
        self.insts.push(Inst::Label(fits));
        self.alu(alu::ADD, used, Src::Imm(start as i32));
        let output = [Arg::Map(self.maps.ring), Arg::Object(object), Arg::Reg(used), Arg::Imm(0)];
        self.call(helper::RINGBUF_OUTPUT, &output);
        self.touch(object);
    }

    /// Reads a string of at most `have` bytes: how many it has with its NUL.
    fn read_until_end(&mut self, address: Value, limit: Option<Value>, have: u32, to: Place) -> Reg {
        let some = self.label();
        self.read_string(address, limit, have, to);
        let used = self.fresh();
        self.mov(used, R0);
        self.branch(jmp::JSGT, used, Src::Imm(0), some);
        // What cannot be read is "".
        self.insts.push(Inst::Store { size: size::B, to, src: Src::Imm(0) });
        self.mov_imm(used, 1);
        self.insts.push(Inst::Label(some));
        used
    }

    /// Copies the words of a string up to that in which it ends, or of a long one the [`BLOCK_WORDS`]: their bytes. What is behind its end is zeros.
    /// Each way out of a loop is verified on its own: with one a word, twenty clauses took 10 ms more to verify.
    fn copy_until_end(&mut self, to: Place, from: ObjectId, bytes: u32) -> Reg {
        let (from_object, from) = (from, Place::Object(from, 0));
        let (used, done) = (self.fresh(), self.label());
        self.mov_imm(used, 0);
        let copy = |lower: &mut Self, [to, from]: [Place; 2], may_end: bool| {
            let word = lower.fresh();
            lower.load(word, from);
            lower.store(to, Src::Reg(word));
            lower.alu(alu::ADD, used, Src::Imm(8));
            if may_end {
                lower.alu(alu::RSH, word, Src::Imm(56));
                lower.branch(jmp::JEQ, word, Src::Imm(0), done);
            }
        };
        let words = bytes / 8;
        let first = words.min(BLOCK_WORDS);
        for word in 0..first {
            copy(self, [to, from].map(|place| place.plus(8 * word)), true);
        }
        let mut copied = 0;
        let rest = [to, from].map(|place| place.plus(8 * first));
        self.in_loop(words - first, BLOCK_WORDS, rest, |lower, places| {
            copied += 1;
            copy(lower, places, copied % BLOCK_WORDS == 0);
        });
        self.insts.push(Inst::Label(done));
        self.touch(from_object);
        used
    }
}
