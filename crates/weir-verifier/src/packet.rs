//! Packets: fields of their context, pointers into them, packet loads.
//!
//! The size of a packet is not known; how far it reaches is learnt where a pointer into it is compared with its end.
//! All pointers with the same unknown part learn together. The metadata before a packet ends where the packet begins,
//! so that a pointer to the packet's start is its end.
//!
//! Deliberately not here: helpers that move a packet's ends.

use weir_ebpf::ProgramKind;
use weir_ebpf::context::{FLOW_KEYS_BYTES, Field, Meaning, fields, packet};
use weir_ebpf::insn::jmp;

use crate::explore::{Path, Walk};
use crate::memory::{Access, Place};
use crate::rejection::{Refusal, refuse, unsupported};
use crate::scalar::Scalar;
use crate::state::{PacketAt, State, Value};
use crate::step::{signed, write};

impl Walk<'_> {
    /// The place of an access to a packet's context; `found`: the field that `off` is in.
    pub(crate) fn field(
        &self,
        found: Option<&'static Field>,
        off: i64,
        bytes: u32,
        access: Access,
    ) -> Result<Place, Refusal> {
        let is_write = match access {
            Access::Load => false,
            Access::Store => true,
            _ => return refuse("fields of the context are accessed by plain loads and stores alone"),
        };
        let place = found.and_then(|field| field.place(off as u32, bytes, is_write));
        match (found, place) {
            (Some(field), Some((at, places))) => Ok(Place::Field(field.meaning, at, places)),
            (Some(field), None) => {
                let verb = if is_write { "written" } else { "read" };
                refuse(format!(
                    "{bytes} bytes at offset {off} of the context: {} is not {verb} so",
                    field.name
                ))
            }
            (None, _) => refuse(format!(
                "{bytes} bytes at offset {off} of the context, where programs of kind {} have no field; they have {}",
                self.kind.name(),
                field_list(self.kind)
            )),
        }
    }

    /// `bytes` bytes at `off` from `at` are known to be inside.
    pub(crate) fn packet_range(&self, at: PacketAt, off: i64, bytes: i64) -> Result<(), Refusal> {
        let from = at.fixed + off;
        if from < 0 || from + bytes > i64::from(at.range) {
            return refuse(format!(
                "{bytes} bytes at {}{} are not known to be inside: {}",
                describe_packet(at),
                signed(off),
                match (at.range, at.unknown.smin < 0) {
                    (0, true) => "the distance may be negative".to_owned(),
                    (0, false) => "it was not compared with the end".to_owned(),
                    (range, _) => format!("{range} bytes behind the unknown part are"),
                }
            ));
        }
        Ok(())
    }

    /// A packet load. It reads the context in r6, and may end the program.
    pub(crate) fn packet_load(
        &mut self,
        path: &mut Path,
        index: Option<u8>,
        bytes: u32,
    ) -> Result<(), Refusal> {
        if path.state.depth() != 0 {
            return unsupported("a packet load in a function that is called: it may end the whole program");
        }
        match self.value(path, 6)? {
            Value::Context => {}
            other => {
                return refuse(format!(
                    "a packet load needs the context in r6, not {}",
                    self.describe(other)
                ));
            }
        }
        if let Some(index) = index {
            self.number(path, index)?;
        }
        if !path.state.records.is_empty() {
            return refuse(
                "a packet load may end the program, and a ring record is neither submitted nor discarded",
            );
        }
        for register in 1..=5 {
            write(path, register, Value::Uninit);
        }
        write(path, 0, Value::Scalar(Scalar::UNKNOWN.low(8 * bytes)));
        for at in [packet::DATA, packet::DATA_END, packet::LINK, packet::NETWORK] {
            self.context_reads |= Field::slots(at, 8);
        }
        Ok(())
    }
}

/// What a load of `bytes` of a field gives.
pub(crate) fn loaded(meaning: Meaning, bytes: u32) -> Value {
    let start = |is_meta| {
        let unknown = Scalar::constant(0);
        Value::Packet(PacketAt { is_meta, id: 0, unknown, fixed: 0, range: 0 })
    };
    match meaning {
        Meaning::Number => Value::Scalar(Scalar::UNKNOWN.low(8 * bytes)),
        Meaning::Data => start(false),
        Meaning::DataMeta => start(true),
        Meaning::DataEnd => Value::PacketEnd,
        Meaning::FlowKeys => Value::Memory { size: FLOW_KEYS_BYTES, offset: Scalar::constant(0) },
    }
}

/// An address in a packet, its metadata, or its end. Their differences and order say nothing of where they are.
pub(crate) fn in_packet(value: Value) -> bool {
    matches!(value, Value::Packet(_) | Value::PacketEnd)
}

/// The states where `left OP right` jumps and where it falls through, with what either teaches.
pub(crate) fn packet_bounds(
    state: &State,
    operation: u8,
    left: Value,
    right: Value,
) -> (Option<State>, Option<State>) {
    // What holds of `pointer OP end`, with the operands in this order.
    let (pointer, operation) = match (left, right) {
        (Value::Packet(pointer), end) if ends(pointer, end) => (pointer, operation),
        (end, Value::Packet(pointer)) if ends(pointer, end) => (pointer, mirrored(operation)),
        _ => return (Some(state.clone()), Some(state.clone())),
    };
    // Bytes that are inside if it jumps, and if not.
    let (jumps, falls) = match operation {
        jmp::JGT => (None, Some(0)),
        jmp::JGE => (None, Some(1)),
        jmp::JLT => (Some(1), None),
        jmp::JLE | jmp::JEQ => (Some(0), None),
        jmp::JNE => (None, Some(0)),
        _ => (None, None),
    };
    let with = |more: Option<i64>| {
        let mut state = state.clone();
        if let Some(more) = more {
            learn(&mut state, pointer, more);
        }
        Some(state)
    };
    (with(jumps), with(falls))
}

/// The end of what `pointer` points into is at `end`.
fn ends(pointer: PacketAt, end: Value) -> bool {
    match end {
        Value::PacketEnd => !pointer.is_meta,
        Value::Packet(start) => pointer.is_meta && (start.is_meta, start.id, start.fixed) == (false, 0, 0),
        _ => false,
    }
}

/// The comparison with its operands exchanged.
fn mirrored(operation: u8) -> u8 {
    match operation {
        jmp::JGT => jmp::JLT,
        jmp::JGE => jmp::JLE,
        jmp::JLT => jmp::JGT,
        jmp::JLE => jmp::JGE,
        other => other,
    }
}

/// `pointer + more` is at or before the end. Neither part of the distance is negative, so that no address was reached
/// around the end of the address space: both are below POINTER_OFFSET_MAX.
fn learn(state: &mut State, pointer: PacketAt, more: i64) {
    let known = pointer.fixed + more;
    if pointer.fixed < 0 || pointer.unknown.smin < 0 {
        return;
    }
    state.replace(|value| match value {
        Value::Packet(at) if (at.is_meta, at.id) == (pointer.is_meta, pointer.id) => {
            Some(Value::Packet(PacketAt { range: at.range.max(known as u32), ..at }))
        }
        _ => None,
    });
}

/// `data 0, data_end 4, …`
fn field_list(kind: ProgramKind) -> String {
    let fields = fields(kind).iter().map(|field| format!("{} {}", field.name, field.offset));
    fields.collect::<Vec<_>>().join(", ")
}

pub(crate) fn describe_packet(at: PacketAt) -> String {
    let what = if at.is_meta { "the packet's metadata" } else { "the packet" };
    match at.id {
        0 => format!("a pointer {} bytes into {what}", at.fixed),
        _ => format!("a pointer {} + {} bytes into {what}", at.unknown, at.fixed),
    }
}
