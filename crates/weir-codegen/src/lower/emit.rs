//! Records: reserved in the ring with their exact size, filled, submitted.
//!
//! Layout as weir-event says: u32 action, u32 zero, then the fields one after the other. If the ring is full, the
//! record is left out, and the ring counts it.
//!
//! A record whose last field is a string that is read for it ends with that string's NUL: it is made in scratch memory, and copied to
//! the ring from there. A line of 20 characters takes 64 bytes of the ring, not 1,056.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp, size};
use weir_event::{Action, RECORD_HEADER_BYTES, Type};
use weir_ir::check::action_fields;
use weir_ir::{ActionId, Op, Value, leaves};

use super::build::Arg;
use super::{Held, Lower};
use crate::lir::{Area, Inst, Place, R0, Src};
use crate::maps::GLOBAL_NO_ROOM;

impl Lower<'_> {
    pub(super) fn emit(&mut self, action: ActionId, args: &[Value]) {
        let schema = &self.module.schema.actions[action.0 as usize];
        let fields = action_fields(schema);
        let ends_with_string = matches!(schema, Action::Printf { .. } | Action::PrintValue { .. })
            && fields.last().is_some_and(|field| matches!(field.ty, Type::Str { .. }));
        let types: Vec<&Type> = fields.into_iter().flat_map(|field| leaves(&field.ty)).collect();
        if ends_with_string && let Some(last) = self.read_last(&types, args) {
            return self.emit_measured(action, &types, args, last);
        }
        let bytes = record_bytes(&types);
        let full = self.label();
        let reserve = [Arg::Map(self.maps.ring), Arg::Imm(bytes as i32), Arg::Imm(0)];
        self.call(helper::RINGBUF_RESERVE, &reserve);
        self.skip_if_no_room(GLOBAL_NO_ROOM, full);
        let record = self.fresh();
        self.mov(record, R0);
        // Action numbers are below 2^31: the upper half of this word is the header's zero.
        self.store(Place::Reg(record, 0), Src::Imm(action.0 as i32));
        let mut to = Place::Reg(record, RECORD_HEADER_BYTES as i32);
        for (ty, &arg) in types.into_iter().zip(args) {
            self.write_leaf(arg, ty, to);
            to = to.plus(ty.bytes());
        }
        self.call(helper::RINGBUF_SUBMIT, &[Arg::Reg(record), Arg::Imm(0)]);
        self.insts.push(Inst::Label(full));
    }

    /// The last field, if it is a string that nothing has read yet. The kernel has no scratch memory for it.
    fn read_last(&self, types: &[&Type], args: &[Value]) -> Option<LastString> {
        let (Type::Str { bytes }, last) = (types.last()?, args.last()?) else { return None };
        match self.held[last.0 as usize] {
            Held::Deferred(Op::ReadStr { address, limit }) if !self.maps.is_for_kernel => Some(LastString {
                address: *address,
                limit: *limit,
                have: self.function.ty(*last).bytes(),
                bytes: *bytes,
            }),
            _ => None,
        }
    }

    fn emit_measured(&mut self, action: ActionId, types: &[&Type], args: &[Value], last: LastString) {
        let start = record_bytes(types) - last.bytes;
        let object = self.object_in(start + last.bytes, Area::Scratch);
        self.store(Place::Object(object, 0), Src::Imm(action.0 as i32));
        let mut to = Place::Object(object, RECORD_HEADER_BYTES as i32);
        for (ty, &arg) in types.iter().zip(args).take(types.len() - 1) {
            self.write_leaf(arg, ty, to);
            to = to.plus(ty.bytes());
        }
        let [some, fits] = std::array::from_fn(|_| self.label());
        self.read_string(last.address, last.limit, last.have, to);
        let used = self.fresh();
        self.mov(used, R0);
        self.branch(jmp::JSGT, used, Src::Imm(0), some);
        // What cannot be read is "".
        self.insts.push(Inst::Store { size: size::B, to, src: Src::Imm(0) });
        self.mov_imm(used, 1);
        self.insts.push(Inst::Label(some));
        self.branch(jmp::JLE, used, Src::Imm(last.have as i32), fits);
        self.mov_imm(used, last.have as i32);
        self.insts.push(Inst::Label(fits));
        self.alu(alu::ADD, used, Src::Imm(start as i32));
        let output = [Arg::Map(self.maps.ring), Arg::Object(object), Arg::Reg(used), Arg::Imm(0)];
        self.call(helper::RINGBUF_OUTPUT, &output);
        self.touch(object);
    }
}

/// A string that is read into the end of a record.
struct LastString {
    address: Value,
    limit: Option<Value>,
    /// Of the string, and of its field.
    have: u32,
    bytes: u32,
}

/// Bytes of a record with fields of these types.
pub(super) fn record_bytes(types: &[&Type]) -> u32 {
    RECORD_HEADER_BYTES + types.iter().map(|ty| ty.bytes()).sum::<u32>()
}
