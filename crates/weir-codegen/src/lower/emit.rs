//! Records: reserved in the ring with their exact size, filled, submitted.
//!
//! Layout as weir-event says: u32 action, u32 zero, then the fields one after the other. If the ring is full, the
//! record is left out, and the ring counts it.

use weir_ebpf::helper;
use weir_event::{RECORD_HEADER_BYTES, Type};
use weir_ir::check::action_fields;
use weir_ir::{ActionId, Value, leaves};

use super::Lower;
use super::build::Arg;
use crate::lir::{Inst, Place, R0, Src};
use crate::maps::GLOBAL_NO_ROOM;

impl Lower<'_> {
    pub(super) fn emit(&mut self, action: ActionId, args: &[Value]) {
        let fields = action_fields(&self.module.schema.actions[action.0 as usize]);
        let types: Vec<&Type> = fields.into_iter().flat_map(|field| leaves(&field.ty)).collect();
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
}

/// Bytes of a record with fields of these types.
pub(super) fn record_bytes(types: &[&Type]) -> u32 {
    RECORD_HEADER_BYTES + types.iter().map(|ty| ty.bytes()).sum::<u32>()
}
