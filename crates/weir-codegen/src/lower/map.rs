//! Map operations other than aggregations.
//!
//! Keyed maps: the key is built in memory, then looked up; an absent key is inserted with zeros where something is
//! added to it. If the map is full, the insertion fails, the second look-up gives null, and the operation is left
//! out; the map counts that.
//! Scalar maps: an ARRAY's one value is addressed directly, no look-up. Its last word says that it was assigned.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp, size};
use weir_event::{MapValue, Type};
use weir_ir::{MapId, Value};

use super::build::Arg;
use super::{Held, Lower};
use crate::limits;
use crate::lir::{Area, Inst, Label, ObjectId, Place, R0, Reg, Src};
use crate::maps::{GLOBAL_NO_KEY, value_bytes};

/// `BPF_ANY` and `BPF_NOEXIST` of the kernel's bpf.h.
const ANY: i32 = 0;
const NOEXIST: i32 = 1;

impl<'a> Lower<'a> {
    pub(super) fn map_get(&mut self, map: MapId, key: &[Value], ty: &Type) -> Held<'a> {
        let schema = &self.module.schema.maps[map.0 as usize];
        match &schema.value {
            MapValue::Plain(plain) if plain.is_in_memory() => self.get_string(map, key, ty.bytes()),
            MapValue::Plain(_) => Held::Reg(self.get_word(map, key)),
            MapValue::Min { signed } => {
                Held::Reg(self.get_extreme(map, key, super::aggregate::min_mask(*signed)))
            }
            MapValue::Max { signed } => {
                Held::Reg(self.get_extreme(map, key, super::aggregate::max_mask(*signed)))
            }
            MapValue::Count | MapValue::Sum { .. } => Held::Reg(self.get_word(map, key)),
            MapValue::Avg { signed } => Held::Reg(self.get_average(map, key, *signed)),
            other => unreachable!("{other:?} has no single value"),
        }
    }

    /// The quotient of both words, 0 where there is nothing.
    fn get_average(&mut self, map: MapId, key: &[Value], signed: bool) -> Reg {
        let (result, done) = (self.fresh(), self.label());
        let value = self.fresh();
        if key.is_empty() {
            self.insts.push(Inst::MapValue { dst: value, map: map.0 });
            self.mov_imm(result, 0);
        } else {
            self.lookup(map, key);
            self.mov(value, R0);
            self.mov_imm(result, 0);
            self.branch(jmp::JEQ, value, Src::Imm(0), done);
        }
        let count = self.fresh();
        self.load(result, Place::Reg(value, 0));
        self.load(count, Place::Reg(value, 8));
        // A division by 0 gives 0.
        self.insts.push(Inst::Alu { op: alu::DIV, signed, dst: result, src: Src::Reg(count) });
        self.insts.push(Inst::Label(done));
        result
    }

    fn get_word(&mut self, map: MapId, key: &[Value]) -> Reg {
        let result = self.fresh();
        if key.is_empty() {
            let value = self.scalar(map);
            self.load(result, Place::Reg(value, 0));
            return result;
        }
        self.lookup(map, key);
        let done = self.label();
        // Where it is null, r0 is already the answer.
        self.skip_if_null(done);
        self.load(R0, Place::Reg(R0, 0));
        self.insts.push(Inst::Label(done));
        self.mov(result, R0);
        result
    }

    fn get_string(&mut self, map: MapId, key: &[Value], bytes: u32) -> Held<'a> {
        let object = self.object(bytes);
        if let MapValue::Plain(ty) = &self.module.schema.maps[map.0 as usize].value {
            self.note_padded(object, 0, ty);
        }
        let to = Place::Object(object, 0);
        if key.is_empty() {
            let value = self.scalar(map);
            self.copy(to, Place::Reg(value, 0), bytes);
            return Held::Memory(object);
        }
        self.lookup(map, key);
        let (absent, done) = (self.label(), self.label());
        self.skip_if_null(absent);
        let value = self.fresh();
        self.mov(value, R0);
        self.copy(to, Place::Reg(value, 0), bytes);
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(absent));
        self.zero(to, bytes);
        self.insts.push(Inst::Label(done));
        Held::Memory(object)
    }

    /// A minimum or maximum, 0 where there is none.
    fn get_extreme(&mut self, map: MapId, key: &[Value], mask: i64) -> Reg {
        let result = self.fresh();
        let done = self.label();
        let value = self.fresh();
        if key.is_empty() {
            self.insts.push(Inst::MapValue { dst: value, map: map.0 });
        } else {
            self.lookup(map, key);
            self.mov(value, R0);
        }
        self.mov_imm(result, 0);
        if !key.is_empty() {
            self.branch(jmp::JEQ, value, Src::Imm(0), done);
        }
        let count = self.fresh();
        self.load(count, Place::Reg(value, 8));
        self.branch(jmp::JEQ, count, Src::Imm(0), done);
        self.load(result, Place::Reg(value, 0));
        self.xor(result, mask);
        self.insts.push(Inst::Label(done));
        result
    }

    pub(super) fn map_next(&mut self, map: MapId, cursor: Value, bytes: u32) -> Held<'a> {
        let object = self.object(bytes);
        let cursor = match self.src(cursor) {
            Src::Imm(imm) => Arg::Imm(imm),
            Src::Reg(reg) => Arg::Reg(reg),
        };
        let (key, size) = (Place::Object(object, 8), Arg::Imm(bytes as i32 - 8));
        self.call(helper::MAP_NEXT_KEY, &[Arg::Map(map.0), cursor, Arg::Place(key), size]);
        self.store(Place::Object(object, 0), Src::Reg(R0));
        if let Some(key) = &self.module.schema.maps[map.0 as usize].key {
            self.note_padded(object, 8, key);
        }
        Held::Memory(object)
    }

    pub(super) fn map_has(&mut self, map: MapId, key: &[Value]) -> Reg {
        let schema = &self.module.schema.maps[map.0 as usize];
        let result = self.fresh();
        let word = if !key.is_empty() {
            self.lookup(map, key);
            R0
        } else if schema.value.is_per_cpu() {
            // Some word of what is added up.
            let value = self.scalar(map);
            let any = self.fresh();
            self.mov_imm(any, 0);
            let words = value_bytes(schema) / 8;
            self.in_loop(words, limits::UNROLLED_WORDS, [Place::Reg(value, 0)], |lower, [from]| {
                let word = lower.fresh();
                lower.load(word, from);
                lower.alu(alu::OR, any, Src::Reg(word));
            });
            any
        } else {
            // The last word says that it is set, or counts.
            let flag = value_bytes(schema) as i32 - 8;
            let value = self.scalar(map);
            let word = self.fresh();
            self.load(word, Place::Reg(value, flag));
            word
        };
        let (yes, done) = (self.label(), self.label());
        self.branch(jmp::JNE, word, Src::Imm(0), yes);
        self.mov_imm(result, 0);
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(yes));
        self.mov_imm(result, 1);
        self.insts.push(Inst::Label(done));
        result
    }

    pub(super) fn map_set(&mut self, map: MapId, key: &[Value], value: Value) {
        let MapValue::Plain(ty) = self.module.schema.maps[map.0 as usize].value.clone() else {
            unreachable!("only plain maps are set")
        };
        if key.is_empty() {
            return self.set_scalar(map, value, &ty);
        }
        let key = self.key(map, key);
        let bytes = ty.bytes();
        let memory = match self.held[value.0 as usize] {
            Held::Memory(object) if self.function.ty(value).bytes() == bytes => object,
            _ => {
                let object = self.object(bytes);
                self.write_leaf(value, &ty, Place::Object(object, 0));
                object
            }
        };
        let args = [Arg::Map(map.0), Arg::Object(key), Arg::Object(memory), Arg::Imm(ANY)];
        self.call(helper::MAP_UPDATE_ELEM, &args);
        self.touch(memory);
        self.touch(key);
        self.count_if_no_room(GLOBAL_NO_KEY);
    }

    fn set_scalar(&mut self, map: MapId, value: Value, ty: &Type) {
        let bytes = ty.bytes();
        if ty.is_in_memory() {
            // Read first, then copied: what others see of the map is never half a read of the target.
            let held = match self.held[value.0 as usize] {
                Held::Deferred(_) => Some(self.string_object(value)),
                _ => None,
            };
            let to = self.scalar(map);
            match held {
                Some(object) => {
                    self.copy_padded(Place::Reg(to, 0), object, self.function.ty(value).bytes(), bytes)
                }
                None => self.write_string(value, Place::Reg(to, 0), bytes),
            }
            self.store(Place::Reg(to, bytes as i32), Src::Imm(1));
        } else {
            let to = self.scalar(map);
            self.store_value(Place::Reg(to, 0), value);
            self.store(Place::Reg(to, 8), Src::Imm(1));
        }
    }

    pub(super) fn map_add(&mut self, map: MapId, key: &[Value], delta: Value, wanted: bool) -> Held<'a> {
        if key.is_empty() {
            let to = self.scalar(map);
            let amount = self.copy_of(delta);
            self.insts.push(Inst::AtomicAdd { to: Place::Reg(to, 0), src: amount, fetch: wanted });
            self.store(Place::Reg(to, 8), Src::Imm(1));
            return Held::Reg(amount);
        }
        let full = self.label();
        self.lookup_or_insert(map, key, full);
        let to = Place::Reg(R0, 0);
        if !wanted {
            let amount = self.reg(delta);
            self.insts.push(Inst::AtomicAdd { to, src: amount, fetch: false });
            self.insts.push(Inst::Label(full));
            return Held::Undefined;
        }
        let amount = self.copy_of(delta);
        self.insts.push(Inst::AtomicAdd { to, src: amount, fetch: true });
        let done = self.label();
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(full));
        self.mov_imm(amount, 0);
        self.insts.push(Inst::Label(done));
        Held::Reg(amount)
    }

    pub(super) fn map_delete(&mut self, map: MapId, key: &[Value]) {
        let schema = &self.module.schema.maps[map.0 as usize];
        if !key.is_empty() {
            let key = self.key(map, key);
            self.call(helper::MAP_DELETE_ELEM, &[Arg::Map(map.0), Arg::Object(key)]);
            self.touch(key);
        } else {
            let bytes = value_bytes(schema);
            let to = self.scalar(map);
            self.zero(Place::Reg(to, 0), bytes);
        }
    }

    /// The address of a scalar map's value.
    pub(super) fn scalar(&mut self, map: MapId) -> Reg {
        let dst = self.fresh();
        self.insts.push(Inst::MapValue { dst, map: map.0 });
        dst
    }

    /// Leaves the value's address, or null, in r0.
    pub(super) fn lookup(&mut self, map: MapId, key: &[Value]) {
        let key = self.key(map, key);
        self.call(helper::MAP_LOOKUP_ELEM, &[Arg::Map(map.0), Arg::Object(key)]);
        self.touch(key);
    }

    /// Leaves the value's address in r0; jumps to `full` if there is no room for it.
    pub(super) fn lookup_or_insert(&mut self, map: MapId, key: &[Value], full: Label) {
        let key = self.key(map, key);
        self.find_or_insert(map, key, full);
    }

    fn find_or_insert(&mut self, map: MapId, key: ObjectId, full: Label) {
        let lookup = [Arg::Map(map.0), Arg::Object(key)];
        let found = self.label();
        self.call(helper::MAP_LOOKUP_ELEM, &lookup);
        self.branch(jmp::JNE, R0, Src::Imm(0), found);
        let bytes = value_bytes(&self.module.schema.maps[map.0 as usize]);
        if bytes <= limits::STACK_ZERO_BYTES {
            let zeros = self.object_in(bytes, Area::Stack);
            self.zero(Place::Object(zeros, 0), bytes);
            let args = [lookup[0], lookup[1], Arg::Object(zeros), Arg::Imm(NOEXIST)];
            self.call(helper::MAP_UPDATE_ELEM, &args);
        } else {
            self.zero_bytes = self.zero_bytes.max(bytes);
            let args = [lookup[0], lookup[1], Arg::MapValue(self.maps.zero), Arg::Imm(NOEXIST)];
            self.call(helper::MAP_UPDATE_ELEM, &args);
        }
        self.call(helper::MAP_LOOKUP_ELEM, &lookup);
        self.skip_if_no_room(GLOBAL_NO_KEY, full);
        self.insts.push(Inst::Label(found));
        self.touch(key);
    }

    /// Leaves the address of a scalar per-CPU map's value in r0; jumps to `absent` if it is null, which it never is.
    pub(super) fn lookup_scalar(&mut self, map: MapId, absent: Label) {
        let key = match self.zero_key {
            Some(key) => key,
            None => {
                let key = self.object_in(4, Area::Stack);
                *self.zero_key.insert(key)
            }
        };
        if !self.zero_key_stored[self.block] {
            let to = Place::Object(key, 0);
            self.insts.push(Inst::Store { size: size::W, to, src: Src::Imm(0) });
            self.zero_key_stored[self.block] = true;
        }
        self.call(helper::MAP_LOOKUP_ELEM, &[Arg::Map(map.0), Arg::Object(key)]);
        self.touch(key);
        self.skip_if_null(absent);
    }

    /// The key in memory, to be touched after its use.
    fn key(&mut self, map: MapId, values: &[Value]) -> ObjectId {
        let schema = &self.module.schema.maps[map.0 as usize];
        // SANITY: `check` gives key values to keyed maps alone.
        let ty = schema.key.as_ref().expect("a keyed map");
        if let [value] = values
            && let Held::Memory(object) = self.held[value.0 as usize]
            && self.function.ty(*value).bytes() == ty.bytes()
        {
            return object;
        }
        let object = self.object(ty.bytes());
        let mut to = Place::Object(object, 0);
        for (leaf, &value) in weir_ir::leaves(ty).into_iter().zip(values) {
            self.write_leaf(value, leaf, to);
            to = to.plus(leaf.bytes());
        }
        object
    }

    /// Writes a value of any type but a tuple where `ty` is wanted.
    pub(super) fn write_leaf(&mut self, value: Value, ty: &Type, to: Place) {
        match ty.is_in_memory() {
            true => self.write_string(value, to, ty.bytes()),
            false => self.store_value(to, value),
        }
    }

    /// `reg ^= mask`.
    pub(super) fn xor(&mut self, reg: Reg, mask: i64) {
        match i32::try_from(mask) {
            Ok(0) => {}
            Ok(imm) => self.alu(alu::XOR, reg, Src::Imm(imm)),
            Err(_) => {
                let mask = self.constant(mask);
                self.alu(alu::XOR, reg, Src::Reg(mask));
            }
        }
    }
}
