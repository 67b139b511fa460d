//! What a helper may be given: its row of the table against r1 to r5 and the memory of the run.

use weir_ebpf::helper::{self, Arg, HelperProto};
use weir_ebpf::{HelperId, MapKind, MapSpec, ProgramKind};

use crate::{Memory, Violation};

/// A helper's argument after its check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number, an address that the helper asks the kernel about, or the context.
    Number(u64),
    /// A map, by its index.
    Map(usize),
    /// What it reads.
    Bytes(Vec<u8>),
    /// What it writes: the address that it goes back to, and what is there now.
    Buffer(u64, Vec<u8>),
    /// A ring record, by the address of its payload.
    Record(u64),
}

/// The row of a helper that an engine calls, as far as a program of this kind may call it.
pub(crate) fn helper(
    kind: Option<ProgramKind>,
    may_change: bool,
    id: HelperId,
) -> Result<&'static HelperProto, Violation> {
    let id = kind.map_or(id, |kind| helper::of_kind(id, kind));
    // What calls back or ends the program is the engine's own.
    let is_ours = |proto: &&HelperProto| proto.callback().is_none() && id != helper::TAIL_CALL;
    let proto = helper::by_id(id).filter(is_ours).ok_or(Violation::NoHelper { id })?;
    if !may_change && proto.access.changes {
        return Err(Violation::ChangesProcess { helper: proto.name });
    }
    let is_foreign = helper::OF_XDP.contains(&id) && kind != Some(ProgramKind::Xdp)
        || id == helper::REDIRECT && kind != Some(ProgramKind::Xdp)
        || id == helper::REDIRECT_CLASSIFIED && kind != Some(ProgramKind::Classifier)
        || helper::OF_SK_BUFFS.contains(&id) && !kind.is_some_and(ProgramKind::is_sk_buff);
    if is_foreign { Err(Violation::NoPacket { helper: proto.name }) } else { Ok(proto) }
}

/// All arguments of a call.
pub(crate) fn values(
    memory: &(impl Memory + ?Sized),
    proto: &'static HelperProto,
    registers: &[u64; 5],
) -> Result<Vec<Value>, Violation> {
    let mut values = Vec::with_capacity(proto.args.len());
    for number in 0..proto.args.len() {
        let value = value(memory, proto, number, registers, &values)?;
        values.push(value);
    }
    Ok(values)
}

fn value(
    memory: &(impl Memory + ?Sized),
    proto: &'static HelperProto,
    number: usize,
    registers: &[u64; 5],
    before: &[Value],
) -> Result<Value, Violation> {
    let value = registers[number];
    let wrong = |wanted| Violation::Argument { helper: proto.name, number: number + 1, value, wanted };
    let map_before = || match before.first() {
        Some(Value::Map(map)) => spec(memory, *map),
        _ => unreachable!("a key or value follows its map in the table of helpers"),
    };
    Ok(match proto.args[number] {
        Arg::Scalar | Arg::Any | Arg::Address => Value::Number(value),
        Arg::Size if value == 0 => return Err(wrong("a size above 0")),
        Arg::Size | Arg::SizeOrZero | Arg::ConstSize | Arg::SliceSize => Value::Number(value),
        Arg::Map
        | Arg::QueueMap
        | Arg::RingMap
        | Arg::PerfMap
        | Arg::StackMap
        | Arg::CgroupMap
        | Arg::RedirectMap
        | Arg::ProgMap => {
            let (fits, wanted) = fitting(proto.id, proto.args[number]);
            let index = memory.map_index(value).filter(|index| fits(spec(memory, *index).kind));
            Value::Map(index.ok_or_else(|| wrong(wanted))?)
        }
        Arg::MapKey => Value::Bytes(memory.read(value, map_before().key_bytes.into())?),
        Arg::MapValue => Value::Bytes(memory.read(value, map_before().value_bytes.into())?),
        Arg::MapValueOut if map_before().kind == MapKind::BloomFilter => {
            Value::Bytes(memory.read(value, map_before().value_bytes.into())?)
        }
        Arg::MapValueOut => buffer(memory, value, map_before().value_bytes.into())?,
        Arg::MemWrite | Arg::MemUpdate | Arg::StringWrite => buffer(memory, value, registers[number + 1])?,
        Arg::MemRead | Arg::Words => Value::Bytes(memory.read(value, registers[number + 1])?),
        Arg::ConstString => {
            let bytes = memory.rest_of_value(value).ok_or_else(|| wrong("inside a value of an array"))?;
            Value::Bytes(memory.read(value, bytes)?)
        }
        Arg::RingRecord => {
            memory.record(value).ok_or_else(|| wrong("a reserved record"))?;
            Value::Record(value)
        }
        Arg::NewDynptr => buffer(memory, value, helper::DYNPTR_BYTES.into())?,
        Arg::Dynptr | Arg::ReleasedDynptr => {
            let dynptr = buffer(memory, value, helper::DYNPTR_BYTES.into())?;
            let Value::Buffer(_, bytes) = &dynptr else { unreachable!("it is a buffer") };
            let (address, size) = dynptr_of(bytes);
            // One whose record was not to be had is null.
            if (address, size) != (0, 0) && memory.record(address) != Some(size) {
                return Err(wrong("a dynptr of a record that is there"));
            }
            dynptr
        }
        Arg::Callback | Arg::StackOrNull => unreachable!("a helper that calls back is not called here"),
        Arg::Context if value != memory.context() => return Err(wrong("the context")),
        Arg::Context => Value::Number(value),
    })
}

/// Of a map that the memory has named.
fn spec(memory: &(impl Memory + ?Sized), index: usize) -> &MapSpec {
    // SANITY: `map_index` answers indices of maps.
    memory.spec(index).unwrap_or_else(|| unreachable!("map {index} was found by its name"))
}

/// Which maps an argument may be, and the words for those.
fn fitting(id: HelperId, arg: Arg) -> (fn(MapKind) -> bool, &'static str) {
    match arg {
        Arg::QueueMap if id == helper::MAP_POP_ELEM => (MapKind::is_queue, "a queue or stack"),
        Arg::QueueMap => {
            (|kind| kind.is_queue() || kind == MapKind::BloomFilter, "a map with this operation")
        }
        Arg::RingMap => (|kind| kind == MapKind::RingBuf, "a ring"),
        Arg::PerfMap => (|kind| kind == MapKind::PerfEventArray, "an array of perf events"),
        Arg::StackMap => (|kind| kind == MapKind::StackTrace, "a map of stacks"),
        Arg::ProgMap => (|kind| kind == MapKind::ProgArray, "an array of programs"),
        Arg::RedirectMap => (MapKind::redirects, "a map of devices, CPUs or sockets"),
        Arg::CgroupMap => (|kind| kind == MapKind::CgroupArray, "an array of control groups"),
        _ if id == helper::MAP_LOOKUP_ELEM => {
            (|kind| kind.redirects() || !kind.is_opaque() && kind.has_keys(), "a map with keys")
        }
        _ => (
            |kind| !kind.is_opaque() && kind.has_keys() && !kind.holds_maps(),
            "a map with keys that holds no maps",
        ),
    }
}

/// Address and size of a dynptr's memory.
pub fn dynptr_of(bytes: &[u8]) -> (u64, u64) {
    let word =
        |at: usize| bytes.iter().skip(at).take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    (word(0), word(8))
}

/// Memory that a helper may write to, with what it holds now.
fn buffer(memory: &(impl Memory + ?Sized), address: u64, bytes: u64) -> Result<Value, Violation> {
    if bytes != 0 {
        memory.check(address, bytes, true)?;
    }
    Ok(Value::Buffer(address, memory.read(address, bytes)?))
}

/// The array of programs of a tail call.
pub(crate) fn tail_call(memory: &(impl Memory + ?Sized), context: u64, map: u64) -> Result<usize, Violation> {
    let wrong = |number, value, wanted| Violation::Argument { helper: "tail_call", number, value, wanted };
    if context != memory.context() {
        return Err(wrong(1, context, "the context"));
    }
    let found = memory.map_index(map).filter(|index| spec(memory, *index).kind == MapKind::ProgArray);
    found.ok_or_else(|| wrong(2, map, "an array of programs"))
}

/// The map that a callback is called for each element of.
pub(crate) fn iterated(memory: &(impl Memory + ?Sized), map: u64) -> Result<usize, Violation> {
    let index = memory.map_index(map).filter(|index| {
        let kind = spec(memory, *index).kind;
        kind.is_hash() || kind.is_array()
    });
    index.ok_or(Violation::Argument {
        helper: "for_each_map_elem",
        number: 1,
        value: map,
        wanted: "a hash or an array",
    })
}
