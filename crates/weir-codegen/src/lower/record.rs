//! Records of whole events, with their fields as a trace has them ([`weir_event::recorded`]).
//!
//! An event of a fixed size is written where it stays: reserved in the ring, filled, submitted. One with strings or sequences is
//! made in scratch memory first, for how long it is is known only then, and is copied to the ring from there.
//!
//! Memory that the traced program declares ([`crate::declared`]) is copied by `weir_declared_copy`, all other is read by helpers.
//! The one answers with a length and with what was cut in one number, so that there is one way through the program, however texts
//! end; what was cut is counted once, at the end.
//!
//! A stack is taken where the event is recorded: by frame pointers, of which each is read safely.
//!
//! If the ring is full, the event is left out: the ring counts it, and so does the map `.events`, for this event alone.

use weir_ebpf::insn::{alu, jmp, size};
use weir_ebpf::kfunc::{CUT, Declared};
use weir_ebpf::{helper, kfunc};
use weir_event::recorded::{self, MARK, NULL_TEXT, SEQUENCE_BYTES_MAX, TEXT_BYTES_MAX};
use weir_event::schema::{Schema, Type};
use weir_ir::{EventId, Value};

use super::Lower;
use super::build::Arg;
use super::symbol::USER_STACK;
use crate::declared;
use crate::lir::{Area, Inst, Label, ObjectId, Place, R0, Reg, Src};
use crate::maps::{EVENT_CUT, EVENT_LOST, event_counts};

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
    pub(super) fn record(&mut self, event: EventId, args: &[Value], marked: Option<Value>) {
        let schema = &self.module.schema.events[event.0 as usize];
        let declared = declared::of_record(self.module, self.function, event, args);
        match recorded::is_fixed(schema) {
            true => self.record_fixed((event, marked), schema, args, &declared),
            false => self.record_measured((event, marked), schema, args, &declared),
        }
    }

    fn record_fixed(
        &mut self,
        (event, marked): (EventId, Option<Value>),
        schema: &Schema,
        args: &[Value],
        declared: &[Option<Declared>],
    ) {
        let (full, done) = (self.label(), self.label());
        let record = self.reserve(recorded::bytes_max(schema), full);
        let number = self.number(event, marked);
        self.store_word(Place::Reg(record, 0), number);
        let mut to = Place::Reg(record, recorded::header_bytes(schema) as i32);
        for (field, declared) in schema.fields.iter().zip(declared) {
            self.write_fixed(&field.ty, args[usize::from(field.slot)], *declared, to);
            to = to.plus(recorded::bytes(&field.ty).1);
        }
        self.submit(record, done);
        self.insts.push(Inst::Label(full));
        self.count_of_event(event, EVENT_LOST);
        self.insts.push(Inst::Label(done));
    }

    fn record_measured(
        &mut self,
        (event, marked): (EventId, Option<Value>),
        schema: &Schema,
        args: &[Value],
        declared: &[Option<Declared>],
    ) {
        let masked = schema.fields.iter().map(|field| mask(recorded::bytes(&field.ty)));
        let reached = masked.fold(recorded::header_bytes(schema), |sum, bytes| sum + bytes);
        let object = self.object_in((reached + 1).next_multiple_of(8), Area::Scratch);
        let length = self.object_in(8, Area::Scratch);
        let mut cursor = Cursor { object, offset: recorded::header_bytes(schema), more: None };
        // Answers of copies; those that were cut are counted in the upper half.
        let mut answers = None;
        for (field, declared) in schema.fields.iter().zip(declared) {
            let range @ (least, most) = recorded::bytes(&field.ty);
            if least == most {
                let (to, arg) = (self.place(cursor), args[usize::from(field.slot)]);
                self.write_fixed(&field.ty, arg, *declared, to);
                cursor.offset += most;
                continue;
            }
            match (&field.ty, *declared) {
                (ty, Some(declared)) => self.copy_measured(ty, declared, &mut cursor, &mut answers),
                (Type::Stack { frames }, None) => {
                    self.write_stack(*frames, cursor, length);
                    self.advance_by_length(&mut cursor, length, mask(range));
                }
                (Type::Sequence { element }, None) => {
                    let [arg, count] = [0, 1].map(|slot| args[usize::from(field.slot) + slot]);
                    self.write_sequence(event, recorded::bytes(element).1, arg, count, cursor, length);
                    self.advance_by_length(&mut cursor, length, mask(range));
                }
                (_, None) => {
                    self.write_characters(event, args[usize::from(field.slot)], cursor, length);
                    self.advance_by_length(&mut cursor, length, mask(range));
                }
            }
        }
        // SANITY: without a field that moves the cursor the event would have a fixed size.
        let used = self.copy_reg(cursor.more.expect("an event of no fixed size"));
        self.alu(alu::ADD, used, Src::Imm(cursor.offset as i32));
        let fields = self.copy_reg(used);
        self.alu(alu::SUB, fields, Src::Imm(recorded::header_bytes(schema) as i32));
        let number = self.number(event, marked);
        self.store_word(Place::Object(object, 0), number);
        self.store_word(Place::Object(object, 4), Src::Reg(fields));
        let [kept, whole] = std::array::from_fn(|_| self.label());
        self.wait_for_room();
        let output = [Arg::Map(self.maps.ring), Arg::Object(object), Arg::Reg(used), Arg::Imm(0)];
        self.call(helper::RINGBUF_OUTPUT, &output);
        self.touch(object);
        self.touch(length);
        self.branch(jmp::JEQ, R0, Src::Imm(0), kept);
        self.count_of_event(event, EVENT_LOST);
        self.insts.push(Inst::Label(kept));
        if let Some(answers) = answers {
            self.alu(alu::RSH, answers, Src::Imm(CUT.trailing_zeros() as i32));
            self.branch(jmp::JEQ, answers, Src::Imm(0), whole);
            self.add_to_event(event, EVENT_CUT, answers);
            self.insts.push(Inst::Label(whole));
        }
    }

    /// The first word of a record.
    fn number(&mut self, event: EventId, marked: Option<Value>) -> Src {
        let number = Src::Imm(event.0 as i32);
        let Some(marked) = marked else { return number };
        let word = self.copy_of(marked);
        self.alu(alu::LSH, word, Src::Imm(MARK.trailing_zeros() as i32));
        self.alu(alu::OR, word, number);
        Src::Reg(word)
    }

    /// A text or a sequence that is declared.
    fn copy_measured(
        &mut self,
        ty: &Type,
        declared: Declared,
        cursor: &mut Cursor,
        answers: &mut Option<Reg>,
    ) {
        let to = self.place(*cursor);
        let bytes = match (ty, declared) {
            (Type::Sequence { .. }, Declared::Bytes { bytes, .. }) => {
                self.copy_declared(declared, bytes, to.plus(4))
            }
            (Type::Sequence { .. }, _) => self.copy_declared(declared, SEQUENCE_BYTES_MAX, to.plus(4)),
            _ => self.copy_declared(declared, TEXT_BYTES_MAX, to),
        };
        match *answers {
            None => *answers = Some(self.copy_reg(bytes)),
            Some(answers) => self.alu(alu::ADD, answers, Src::Reg(bytes)),
        }
        if let Type::Sequence { element } = ty {
            let count = self.fresh();
            self.insts.push(Inst::Mov32 { dst: count, src: Src::Reg(bytes) });
            self.alu(alu::RSH, count, Src::Imm(recorded::bytes(element).1.trailing_zeros() as i32));
            let to = self.place(*cursor);
            self.store_word(to, Src::Reg(count));
            self.alu(alu::ADD, bytes, Src::Imm(4));
        }
        // Also without what says that it was cut.
        self.alu(alu::AND, bytes, Src::Imm(mask(recorded::bytes(ty)) as i32));
        self.advance(cursor, bytes);
    }

    /// A word of a row, which the traced program declares; the kernel reads it as it does all memory.
    pub(super) fn row_word(&mut self, slot: u8, result: Reg) {
        let object = self.object(8);
        let word = Place::Object(object, 0);
        if let (true, Some(index)) = (self.maps.is_for_kernel, kfunc::row_word(slot)) {
            let row = self.fresh();
            let held = Place::Reg(self.context(), 8 * i32::from(kfunc::ROW_SLOT));
            self.insts.push(Inst::Load { dst: row, from: held });
            self.alu(alu::ADD, row, Src::Imm(8 * i32::from(index)));
            self.call(self.reads(), &[Arg::Place(word), Arg::Imm(8), Arg::Reg(row)]);
        } else {
            self.copy_declared(Declared::Word { slot }, 8, word);
        }
        self.insts.push(Inst::Load { dst: result, from: word });
        self.touch(object);
    }

    /// The answer of the copy.
    fn copy_declared(&mut self, declared: Declared, size: u32, to: Place) -> Reg {
        let context = self.context();
        self.address(Reg::Real(1), to);
        self.mov_imm(Reg::Real(2), size as i32);
        self.mov(Reg::Real(3), context);
        self.mov_constant(Reg::Real(4), declared.which() as i64);
        self.insts.push(Inst::CallKernelWith { function: kfunc::DECLARED_COPY, args: 4 });
        self.copy_reg(R0)
    }

    /// The address of a record of so many bytes; goes to `full` where there is none.
    fn reserve(&mut self, bytes: u32, full: Label) -> Reg {
        self.wait_for_room();
        let reserve = [Arg::Map(self.maps.ring), Arg::Imm(bytes as i32), Arg::Imm(0)];
        self.call(helper::RINGBUF_RESERVE, &reserve);
        self.skip_if_null(full);
        self.copy_reg(R0)
    }

    /// In front of a reservation, which counts what it refuses.
    fn wait_for_room(&mut self) {
        if let Some(ms) = self.maps.waits_ms {
            self.call(
                helper::RINGBUF_QUERY,
                &[Arg::Map(self.maps.ring), Arg::Imm(helper::RB_WAIT | ms as i32)],
            );
        }
    }

    fn submit(&mut self, record: Reg, done: Label) {
        self.call(helper::RINGBUF_SUBMIT, &[Arg::Reg(record), Arg::Imm(0)]);
        self.insts.push(Inst::Jump(done));
    }

    /// A field whose size its type says.
    fn write_fixed(&mut self, ty: &Type, value: Value, declared: Option<Declared>, to: Place) {
        match ty {
            Type::Int { bytes, .. } | Type::Float { bytes } | Type::Enum { bytes, .. } => {
                let src = self.src(value);
                self.insts.push(Inst::Store { size: size_of(*bytes), to, src });
            }
            Type::Array { .. } if matches!(self.function.ty(value), weir_event::Type::Str { .. }) => {
                self.write_string(value, to, recorded::bytes(ty).1);
            }
            Type::Array { .. } => self.read_memory(to, recorded::bytes(ty).1, value, declared),
            Type::Struct { fields } => {
                let span = recorded::span(fields);
                let is_aligned =
                    recorded::leaves(fields).all(|(at, ty)| at.is_multiple_of(recorded::bytes(ty).1));
                let bytes = span.next_multiple_of(8).max(8);
                // The stack is read at multiples of a load's size alone.
                let object = match is_aligned {
                    true => self.object(bytes),
                    false => self.object_in(bytes, Area::Scratch),
                };
                self.read_memory(Place::Object(object, 0), span, value, declared);
                let mut to = to;
                for (offset, ty) in recorded::leaves(fields) {
                    let bytes = recorded::bytes(ty).1;
                    let (size, member) = (size_of(bytes as u8), self.fresh());
                    let from = Place::Object(object, offset as i32);
                    self.insts.push(Inst::LoadPart { size, dst: member, from });
                    self.insts.push(Inst::Store { size, to, src: Src::Reg(member) });
                    to = to.plus(bytes);
                }
                self.touch(object);
            }
            Type::Str | Type::Text | Type::Sequence { .. } | Type::Stack { .. } => {
                unreachable!("{ty:?} has no fixed size")
            }
        }
    }

    /// Zeros where it cannot be read.
    fn read_memory(&mut self, to: Place, bytes: u32, address: Value, declared: Option<Declared>) {
        if let Some(declared) = declared {
            self.copy_declared(declared, bytes, to);
        } else if bytes > 0 {
            let address = self.arg(address);
            self.call(self.reads(), &[Arg::Place(to), Arg::Imm(bytes as i32), address]);
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
        self.call(self.reads_text(), &read);
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
        let [counts, fits, empty, measured] = std::array::from_fn(|_| self.label());
        let length = Place::Object(length, 0);
        let count = self.copy_of(count);
        let most = SEQUENCE_BYTES_MAX / element;
        self.branch(jmp::JSGE, count, Src::Imm(0), counts);
        self.mov_imm(count, 0);
        self.insts.push(Inst::Label(counts));
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
        self.call(self.reads(), &[Arg::Place(to.plus(4)), Arg::Reg(bytes), address]);
        self.branch(jmp::JNE, R0, Src::Imm(0), empty);
        self.store_word(to, Src::Reg(count));
        self.alu(alu::ADD, bytes, Src::Imm(4));
        self.store(length, Src::Reg(bytes));
        self.insts.push(Inst::Jump(measured));
        self.insts.push(Inst::Label(empty));
        self.store(length, Src::Imm(4));
        self.insts.push(Inst::Label(measured));
    }

    /// The number of addresses and these, and the bytes of both in `length`.
    fn write_stack(&mut self, frames: u32, cursor: Cursor, length: ObjectId) {
        let found = self.label();
        let (to, context) = (self.place(cursor), self.context());
        let room = Arg::Imm((8 * frames) as i32);
        self.call(
            helper::GET_STACK,
            &[Arg::Reg(context), Arg::Place(to.plus(4)), room, Arg::Imm(USER_STACK)],
        );
        let bytes = self.copy_reg(R0);
        self.branch(jmp::JSGE, bytes, Src::Imm(0), found);
        self.mov_imm(bytes, 0);
        self.insts.push(Inst::Label(found));
        let count = self.copy_reg(bytes);
        self.alu(alu::RSH, count, Src::Imm(3));
        self.store_word(to, Src::Reg(count));
        self.alu(alu::ADD, bytes, Src::Imm(4));
        self.store(Place::Object(length, 0), Src::Reg(bytes));
    }

    /// Behind a field of so many bytes as `length` says, which the mask leaves as they are. The length goes through memory so that
    /// verifiers see one range whatever way it was found, and not one for each way and field; the mask is what bounds it.
    fn advance_by_length(&mut self, cursor: &mut Cursor, length: ObjectId, mask: u32) {
        let bytes = self.fresh();
        self.load(bytes, Place::Object(length, 0));
        self.alu(alu::AND, bytes, Src::Imm(mask as i32));
        self.advance(cursor, bytes);
    }

    fn advance(&mut self, cursor: &mut Cursor, bytes: Reg) {
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
        let one = self.constant(1);
        self.add_to_event(event, what, one);
    }

    fn add_to_event(&mut self, event: EventId, what: i32, count: Reg) {
        // SANITY: the map is there where there is an event.
        let map = self.maps.events.expect("events are counted");
        let counts = self.fresh();
        self.insts.push(Inst::MapValue { dst: counts, map });
        self.alu(alu::ADD, counts, Src::Imm(event_counts(event.0)));
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(counts, what), src: count, fetch: false });
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

/// Bytes of the largest record that is reserved for the event.
pub(crate) fn record_bytes(schema: &Schema) -> u32 {
    recorded::bytes_max(schema).next_multiple_of(8)
}
