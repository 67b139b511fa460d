//! Records of whole events, with their fields as a trace has them ([`weir_event::recorded`]).
//!
//! An event of a fixed size is written where it stays: reserved in the ring, filled, submitted. One with strings or sequences is
//! made in scratch memory first, for how long it is is known only then; what is reserved is the next larger of a few sizes, since a
//! program reserves constants, and so many bytes are copied. What lies behind the event in them means nothing.
//!
//! If the ring is full, the event is left out: the ring counts it, and so does the map `.events`, for this event alone.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp, size};
use weir_event::recorded::{self, NULL_TEXT, SEQUENCE_BYTES_MAX, TEXT_BYTES_MAX};
use weir_event::schema::{Schema, Type};
use weir_ir::{EventId, Value};

use super::Lower;
use super::build::Arg;
use crate::lir::{Area, Inst, Label, ObjectId, Place, R0, Reg, Src};
use crate::maps::{EVENT_CUT, EVENT_LOST, event_counts};

/// The least that is reserved for an event of no fixed size.
const CLASS_BYTES_MIN: u32 = 64;
/// What is read of a string at most: one character more than is kept, so that it is known whether some were cut off.
const TEXT_READ_BYTES: u32 = TEXT_BYTES_MAX + 1;
const _: () = assert!(TEXT_READ_BYTES.is_power_of_two(), "a mask leaves lengths as they are");

/// Where the next field goes: behind so many bytes of memory that is being filled, and what a register holds more.
#[derive(Clone, Copy)]
struct Cursor {
    object: ObjectId,
    offset: u32,
    more: Option<Reg>,
}

impl Lower<'_> {
    pub(super) fn record(&mut self, event: EventId, args: &[Value]) {
        let schema = &self.module.schema.events[event.0 as usize];
        match recorded::is_fixed(schema) {
            true => self.record_fixed(event, schema, args),
            false => self.record_measured(event, schema, args),
        }
    }

    fn record_fixed(&mut self, event: EventId, schema: &Schema, args: &[Value]) {
        let (full, done) = (self.label(), self.label());
        let record = self.reserve(recorded::bytes_max(schema), full);
        self.store_word(Place::Reg(record, 0), Src::Imm(event.0 as i32));
        let mut to = Place::Reg(record, recorded::header_bytes(schema) as i32);
        for field in &schema.fields {
            self.write_fixed(&field.ty, args[usize::from(field.slot)], to);
            to = to.plus(recorded::bytes(&field.ty).1);
        }
        self.submit(record, done);
        self.insts.push(Inst::Label(full));
        self.count_of_event(event, EVENT_LOST);
        self.insts.push(Inst::Label(done));
    }

    fn record_measured(&mut self, event: EventId, schema: &Schema, args: &[Value]) {
        let most = record_bytes(schema);
        let masked = schema.fields.iter().map(|field| mask(recorded::bytes(&field.ty)));
        let reached = masked.fold(recorded::header_bytes(schema), |sum, bytes| sum + bytes);
        let object = self.object_in((reached + 1).next_multiple_of(8), Area::Scratch);
        let length = self.object_in(8, Area::Scratch);
        let mut cursor = Cursor { object, offset: recorded::header_bytes(schema), more: None };
        for field in &schema.fields {
            let arg = args[usize::from(field.slot)];
            let (least, most) = recorded::bytes(&field.ty);
            if least == most {
                let to = self.place(cursor);
                self.write_fixed(&field.ty, arg, to);
                cursor.offset += most;
                continue;
            }
            match &field.ty {
                Type::Sequence { element } => {
                    let element = recorded::bytes(element).1;
                    self.write_sequence(
                        event,
                        element,
                        arg,
                        args[usize::from(field.slot) + 1],
                        cursor,
                        length,
                    );
                }
                _ => self.write_characters(event, arg, cursor, length),
            }
            self.advance(&mut cursor, length, mask((least, most)));
        }
        // SANITY: without a field that moves the cursor the event would have a fixed size.
        let used = self.copy_reg(cursor.more.expect("an event of no fixed size"));
        self.alu(alu::ADD, used, Src::Imm(cursor.offset as i32));
        let fields = self.copy_reg(used);
        self.alu(alu::SUB, fields, Src::Imm(recorded::header_bytes(schema) as i32));
        self.store_word(Place::Object(object, 0), Src::Imm(event.0 as i32));
        self.store_word(Place::Object(object, 4), Src::Reg(fields));
        let (full, done) = (self.label(), self.label());
        let classes = classes(most);
        for (index, &class) in classes.iter().enumerate() {
            let larger = self.label();
            if index + 1 < classes.len() {
                self.branch(jmp::JGT, used, Src::Imm(class as i32), larger);
            }
            let record = self.reserve(class, full);
            self.copy(Place::Reg(record, 0), Place::Object(object, 0), class);
            self.submit(record, done);
            self.insts.push(Inst::Label(larger));
        }
        self.touch(object);
        self.touch(length);
        self.insts.push(Inst::Label(full));
        self.count_of_event(event, EVENT_LOST);
        self.insts.push(Inst::Label(done));
    }

    /// The address of a record of so many bytes; goes to `full` where there is none.
    fn reserve(&mut self, bytes: u32, full: Label) -> Reg {
        let reserve = [Arg::Map(self.maps.ring), Arg::Imm(bytes as i32), Arg::Imm(0)];
        self.call(helper::RINGBUF_RESERVE, &reserve);
        self.skip_if_null(full);
        self.copy_reg(R0)
    }

    fn submit(&mut self, record: Reg, done: Label) {
        self.call(helper::RINGBUF_SUBMIT, &[Arg::Reg(record), Arg::Imm(0)]);
        self.insts.push(Inst::Jump(done));
    }

    /// A field whose size its type says.
    fn write_fixed(&mut self, ty: &Type, value: Value, to: Place) {
        match ty {
            Type::Int { bytes, .. } | Type::Float { bytes } | Type::Enum { bytes, .. } => {
                let src = self.src(value);
                self.insts.push(Inst::Store { size: size_of(*bytes), to, src });
            }
            Type::Array { .. } if matches!(self.function.ty(value), weir_event::Type::Str { .. }) => {
                self.write_string(value, to, recorded::bytes(ty).1);
            }
            Type::Array { .. } => self.read_memory(to, recorded::bytes(ty).1, value),
            Type::Struct { fields } => {
                let object = self.object_in(recorded::span(fields).next_multiple_of(8).max(8), Area::Scratch);
                self.read_memory(Place::Object(object, 0), recorded::span(fields), value);
                let mut to = to;
                for (_, offset, ty) in fields {
                    let bytes = recorded::bytes(ty).1;
                    let (size, member) = (size_of(bytes as u8), self.fresh());
                    let from = Place::Object(object, *offset as i32);
                    self.insts.push(Inst::LoadPart { size, dst: member, from });
                    self.insts.push(Inst::Store { size, to, src: Src::Reg(member) });
                    to = to.plus(bytes);
                }
                self.touch(object);
            }
            Type::Str | Type::Text | Type::Sequence { .. } => unreachable!("{ty:?} has no fixed size"),
        }
    }

    /// Zeros where it cannot be read.
    fn read_memory(&mut self, to: Place, bytes: u32, address: Value) {
        if bytes > 0 {
            let address = self.arg(address);
            self.call(helper::PROBE_READ_USER, &[Arg::Place(to), Arg::Imm(bytes as i32), address]);
        }
    }

    /// A string with its NUL, and its bytes in `length`.
    fn write_characters(&mut self, event: EventId, address: Value, cursor: Cursor, length: ObjectId) {
        let [null, fault, whole, measured] = std::array::from_fn(|_| self.label());
        let length = Place::Object(length, 0);
        let pointer = self.reg(address);
        self.branch(jmp::JEQ, pointer, Src::Imm(0), null);
        let to = self.place(cursor);
        let read = [Arg::Place(to), Arg::Imm(TEXT_READ_BYTES as i32), Arg::Reg(pointer)];
        self.call(helper::PROBE_READ_USER_STR, &read);
        let bytes = self.copy_reg(R0);
        self.branch(jmp::JSLE, bytes, Src::Imm(0), fault);
        self.branch(jmp::JLE, bytes, Src::Imm(TEXT_BYTES_MAX as i32), whole);
        self.insts.push(Inst::Store { size: size::B, to: to.plus(TEXT_BYTES_MAX - 1), src: Src::Imm(0) });
        self.count_of_event(event, EVENT_CUT);
        self.store(length, Src::Imm(TEXT_BYTES_MAX as i32));
        self.insts.push(Inst::Jump(measured));
        self.insts.push(Inst::Label(whole));
        self.store(length, Src::Reg(bytes));
        self.insts.push(Inst::Jump(measured));
        self.insts.push(Inst::Label(null));
        let to = self.place(cursor);
        let mut text = [0; 8];
        text[..NULL_TEXT.len()].copy_from_slice(NULL_TEXT.as_bytes());
        let word = self.constant(i64::from_le_bytes(text));
        self.store(to, Src::Reg(word));
        self.store(length, Src::Imm(NULL_TEXT.len() as i32 + 1));
        self.insts.push(Inst::Jump(measured));
        self.insts.push(Inst::Label(fault));
        // What is there is zeros.
        self.store(length, Src::Imm(1));
        self.insts.push(Inst::Label(measured));
    }

    /// The number of elements and these, and the bytes of both in `length`.
    fn write_sequence(
        &mut self,
        event: EventId,
        element: u32,
        address: Value,
        count: Value,
        cursor: Cursor,
        length: ObjectId,
    ) {
        let [fits, empty, measured] = std::array::from_fn(|_| self.label());
        let length = Place::Object(length, 0);
        let count = self.copy_of(count);
        let most = SEQUENCE_BYTES_MAX / element;
        self.branch(jmp::JLE, count, Src::Imm(most as i32), fits);
        self.mov_imm(count, most as i32);
        self.count_of_event(event, EVENT_CUT);
        self.insts.push(Inst::Label(fits));
        let to = self.place(cursor);
        self.store_word(to, Src::Imm(0));
        self.branch(jmp::JEQ, count, Src::Imm(0), empty);
        let bytes = self.copy_reg(count);
        self.alu(alu::LSH, bytes, Src::Imm(element.trailing_zeros() as i32));
        let address = self.arg(address);
        self.call(helper::PROBE_READ_USER, &[Arg::Place(to.plus(4)), Arg::Reg(bytes), address]);
        self.branch(jmp::JNE, R0, Src::Imm(0), empty);
        self.store_word(to, Src::Reg(count));
        self.alu(alu::ADD, bytes, Src::Imm(4));
        self.store(length, Src::Reg(bytes));
        self.insts.push(Inst::Jump(measured));
        self.insts.push(Inst::Label(empty));
        self.store(length, Src::Imm(4));
        self.insts.push(Inst::Label(measured));
    }

    /// Behind a field of so many bytes as `length` says, which the mask leaves as they are. The length goes through memory so that
    /// verifiers see one range whatever way it was found, and not one for each way and field; the mask is what bounds it.
    fn advance(&mut self, cursor: &mut Cursor, length: ObjectId, mask: u32) {
        let bytes = self.fresh();
        self.load(bytes, Place::Object(length, 0));
        self.alu(alu::AND, bytes, Src::Imm(mask as i32));
        match cursor.more {
            None => cursor.more = Some(bytes),
            Some(more) => {
                let sum = self.copy_reg(more);
                self.alu(alu::ADD, sum, Src::Reg(bytes));
                cursor.more = Some(sum);
            }
        }
    }

    fn place(&mut self, cursor: Cursor) -> Place {
        let Some(more) = cursor.more else { return Place::Object(cursor.object, cursor.offset as i32) };
        let pointer = self.fresh();
        self.insts.push(Inst::Address { dst: pointer, object: cursor.object, offset: cursor.offset as i32 });
        self.alu(alu::ADD, pointer, Src::Reg(more));
        Place::Reg(pointer, 0)
    }

    fn arg(&mut self, value: Value) -> Arg {
        match self.src(value) {
            Src::Imm(imm) => Arg::Imm(imm),
            Src::Reg(reg) => Arg::Reg(reg),
        }
    }

    fn copy_reg(&mut self, reg: Reg) -> Reg {
        let copy = self.fresh();
        self.mov(copy, reg);
        copy
    }

    fn store_word(&mut self, to: Place, src: Src) {
        self.insts.push(Inst::Store { size: size::W, to, src });
    }

    /// Counts one in what the map `.events` has of this event.
    fn count_of_event(&mut self, event: EventId, what: i32) {
        // SANITY: the map is there where there is an event.
        let map = self.maps.events.expect("events are counted");
        let counts = self.fresh();
        self.insts.push(Inst::MapValue { dst: counts, map });
        self.alu(alu::ADD, counts, Src::Imm(event_counts(event.0)));
        let one = self.constant(1);
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(counts, what), src: one, fetch: false });
    }
}

fn size_of(bytes: u8) -> u8 {
    match bytes {
        1 => size::B,
        2 => size::H,
        4 => size::W,
        _ => size::DW,
    }
}

/// What bounds the bytes of a field that has between the least and the most: of one of no fixed size all ones.
fn mask((least, most): (u32, u32)) -> u32 {
    if least == most { most } else { (most + 1).next_power_of_two() - 1 }
}

/// What is reserved for events of up to `most` bytes, in ascending order, each at most half again of the one before.
fn classes(most: u32) -> Vec<u32> {
    let powers = (CLASS_BYTES_MIN.trailing_zeros()..31).flat_map(|power| [1 << power, 3 << (power - 1)]);
    powers.take_while(|class| *class < most).chain([most]).collect()
}

/// Bytes of the largest record that is reserved for the event.
pub(crate) fn record_bytes(schema: &Schema) -> u32 {
    recorded::bytes_max(schema).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_go_up_to_the_largest_record() {
        assert_eq!(classes(40), [40]);
        assert_eq!(classes(64), [64]);
        assert_eq!(classes(1032), [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1032]);
    }
}
