//! The memory that one run of a program may touch, with every access checked: what an interpreter stands on.
//!
//! A program's addresses are real ones, so that interpreter and machine code see the same values. Live are: the
//! stack (the frames of the calls under way, 8 at most), the context, a packet that is reached by address, with its metadata,
//! the memory that a program was lent, the values of the segment's maps, and ring records between their reservation and
//! their end. An access must lie within one value, frame area, record or the like; anything else is a [`Violation`],
//! and nothing is touched. A probe's context is read-only; of a packet's context each field is accessed as
//! `weir_ebpf::context` says, and it is no memory for helpers.
//!
//! Values of per-CPU maps: a program holds their address in lane 0, and each access goes to the shared lane, which
//! is the only one that code without a CPU of its own may change. Where lanes are claimed, a run claims one as machine
//! code does, and holds addresses in it (if none is free: in the shared one, which nobody claims).
//!
//! Not checked: whether memory was written before it is read (the stack starts as zeros), and whether a hash's value
//! still belongs to the key that led to it (the kernel reuses elements at once, too).

mod access;

use std::sync::atomic::{AtomicU64, Ordering};

use weir_ebpf::helper::{self, Arg};
use weir_ebpf::kfunc::{self, DeclaredCopy, KfuncId, TextTest};
use weir_ebpf::{MapKind, MapSpec, ProgramKind, context, pt_regs};
pub use weir_memory::{AtomicOp, Memory, Violation, Width};
use weir_memory::{ContextMut, Frames, Value, dynptr_of, field_of_context};

use crate::abi::{Cursor, Descriptor};
use crate::executable::Frame;
use crate::limits::STACK_FRAME_BYTES;
use crate::runtime::linked;
use crate::segment::Segment;

/// The memory of one run.
#[derive(Debug)]
pub struct Space<'a> {
    segment: &'a Segment,
    stack: Box<[AtomicU64]>,
    frames: Frames,
    /// None: a probe's.
    kind: Option<ProgramKind>,
    /// The slots; behind them, of a packet's context, what its structure is larger.
    context: Box<[AtomicU64]>,
    /// The packet, its metadata, or memory: readable and writable.
    lent: Vec<Region>,
    cookie: u64,
    session_cookie: Box<AtomicU64>,
    is_return: bool,
    is_entry: bool,
    records: Vec<LiveRecord>,
    /// Keys of elements that callbacks are looking at.
    keys: Vec<LiveKey>,
    may_change_process: bool,
    lane: Lane,
}

/// The lane that the run's per-CPU values are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lane {
    /// The shared one, added to each address when it is used.
    Shared,
    /// This one: addresses are in it already.
    Claimed(u32),
    /// The same, with the shared one.
    Unclaimed(u32),
}

/// Where an address is among the values of the maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueAt {
    /// The map's index.
    pub map: u32,
    /// Bytes from the start of the value; not below `bytes` between two values.
    pub offset: u64,
    /// Of one value.
    pub bytes: u64,
    /// From the address to the lane that an access goes to.
    distance: u64,
}

/// `bytes` bytes at `start`.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: u64,
    bytes: u64,
}

/// A record that was reserved and not yet taken back: address and bytes of its payload.
#[derive(Clone, Copy, Debug)]
struct LiveRecord {
    address: u64,
    bytes: u64,
}

/// A copy of the key of the element that a callback looks at.
#[derive(Debug)]
struct LiveKey {
    words: Box<[AtomicU64]>,
    bytes: u64,
}

const STACK_BYTES: u64 = Frames::STACK_BYTES as u64;

impl<'a> Space<'a> {
    /// Memory for one run over the maps of `segment`, with `frame` as its context.
    pub fn new(segment: &'a Segment, frame: &Frame) -> Self {
        Space::over(segment, None, frame, Vec::new())
    }

    /// Memory for one run with any context, which lives as long.
    pub fn with(segment: &'a Segment, context: &'a ContextMut<'_>) -> Self {
        Space::over(segment, context.kind(), context.frame(), lent(context))
    }

    fn over(segment: &'a Segment, kind: Option<ProgramKind>, frame: &Frame, lent: Vec<Region>) -> Self {
        linked::prepare();
        let structure = kind.map_or(0, context::structure_bytes) as usize / 8;
        let words = frame.regs.iter().chain(&frame.floats).copied().chain(std::iter::repeat(0));
        Space {
            segment,
            stack: (0..STACK_BYTES / 8).map(|_| AtomicU64::new(0)).collect(),
            frames: Frames::one(),
            kind,
            context: words
                .take(structure.max(pt_regs::SLOTS_WITH_FLOATS as usize))
                .map(AtomicU64::new)
                .collect(),
            lent,
            cookie: frame.cookie,
            session_cookie: Box::new(AtomicU64::new(frame.session_cookie)),
            is_return: frame.is_return != 0,
            is_entry: frame.is_entry != 0,
            records: Vec::new(),
            keys: Vec::new(),
            may_change_process: false,
            lane: claim(segment),
        }
    }

    /// What a walk of the stack looks at.
    fn walked(&self) -> Frame {
        Frame { regs: self.slots(), is_entry: self.is_entry.into(), ..Frame::default() }
    }

    fn text_begins(&self, [context, which, a, b, c]: [u64; 5]) -> Option<u64> {
        let test = TextTest::of(which, [a, b, c])?;
        let is_slot = context == self.context() && u32::from(test.slot) < pt_regs::SLOTS;
        let address = is_slot.then(|| self.slot(8 * u32::from(test.slot)))?;
        Some(test.holds(address, byte_at).into())
    }

    /// What lies behind a text's NUL stays as it was.
    fn declared_copy(&mut self, [to, size, context, which, _]: [u64; 5]) -> Result<Option<u64>, Violation> {
        let copy = DeclaredCopy::of(size, which)
            .filter(|copy| context == self.context() && copy.declared.slots() >> pt_regs::SLOTS == 0);
        let Some(copy) = copy else { return Ok(None) };
        // All of the room is there, whatever is copied.
        self.locate(to, size, true)?;
        let (bytes, answer) = copy.copied(|slot| self.slot(8 * u32::from(slot)), byte_at);
        self.write(to, &bytes)?;
        Ok(Some(answer))
    }

    fn session_cookie_address(&self) -> u64 {
        self.session_cookie.as_ptr() as u64
    }

    /// Where an access to a field of a packet's context goes; none if it is to something else.
    fn in_context(
        &self,
        address: u64,
        width: Width,
        is_write: bool,
    ) -> Result<Option<(u64, Width)>, Violation> {
        let field = field_of_context(self.kind, self.context(), address, width, is_write)?;
        Ok(field.map(|(at, width)| (self.context() + u64::from(at), width)))
    }

    /// Where the bytes at a program's address really are; an error unless they lie in one live region.
    fn locate(&self, address: u64, bytes: u64, is_write: bool) -> Result<u64, Violation> {
        let within = |start: u64, len: u64| {
            let offset = address.wrapping_sub(start);
            offset < len && bytes <= len - offset
        };
        let live_stack = u64::from(self.frames.live_bytes());
        let is_live = within(self.stack_top() - live_stack, live_stack)
            || (!is_write && self.reads_slots() && within(self.context(), self.slot_bytes()))
            || self.lent.iter().any(|region| within(region.start, region.bytes))
            || (!is_write && self.keys.iter().any(|key| within(key.words.as_ptr() as u64, key.bytes)))
            || within(self.session_cookie_address(), size_of::<u64>() as u64)
            || self.records.iter().any(|record| within(record.address, record.bytes));
        if is_live {
            return Ok(address);
        }
        self.locate_value(address, bytes).ok_or(Violation::Outside { address, bytes, is_write })
    }

    /// A probe has floating-point arguments behind its registers.
    fn slot_bytes(&self) -> u64 {
        self.kind.map_or(pt_regs::BYTES_WITH_FLOATS, |_| pt_regs::BYTES).into()
    }

    /// The slots of the context are memory to loads (a packet's were translated before), and to helpers of probes.
    fn reads_slots(&self) -> bool {
        !matches!(self.kind, Some(ProgramKind::Memory { .. }))
    }

    /// The CPU whose lane the run has claimed, which it keeps as in the kernel.
    fn cpu_of_lane(&self) -> Option<u32> {
        match self.lane {
            Lane::Claimed(lane) if lane < self.segment.layout().cpus => Some(lane),
            _ => None,
        }
    }

    /// The lane that addresses of a map with so many lanes are in; `None`: lane 0, or no lanes.
    fn lane_of(&self, lanes: u32) -> Option<u32> {
        match self.lane {
            _ if lanes == 1 => None,
            Lane::Shared => None,
            Lane::Claimed(lane) | Lane::Unclaimed(lane) => Some(lane),
        }
    }

    /// The same for values of maps; of per-CPU kinds, in the shared lane unless lanes are claimed.
    fn locate_value(&self, address: u64, bytes: u64) -> Option<u64> {
        let found = self.value_at(address)?;
        (found.offset.checked_add(bytes)? <= found.bytes).then(|| address + found.distance)
    }

    /// The map whose values, or the room between them, a program's address is in.
    pub fn value_at(&self, address: u64) -> Option<ValueAt> {
        self.segment.layout().maps.iter().enumerate().find_map(|(index, map)| {
            let kind = map.spec.kind;
            // A program never sees where others are.
            if !kind.has_values_in_place() {
                return None;
            }
            let elements = if kind.is_array() { map.spec.max_entries } else { map.node_count };
            let stride = u64::from(map.elem_stride);
            let mut offset = address.wrapping_sub(self.segment.base() + map.data_offset);
            let mut distance = u64::from(map.shared_lane()) * map.lane_stride;
            if map.claim_lanes > 0 {
                // The run's own lane, or that of the CPU it asked for.
                distance = 0;
                let lane = offset / map.lane_stride;
                offset = if lane < map.lanes.into() { offset % map.lane_stride } else { u64::MAX };
            }
            // Behind the last value there may be another map's: those of hashes begin behind a key of their own.
            let end = u64::from(elements).saturating_sub(1) * stride + u64::from(map.spec.value_bytes);
            (offset < end).then(|| ValueAt {
                map: index as u32,
                offset: offset % stride,
                bytes: map.spec.value_bytes.into(),
                distance,
            })
        })
    }

    fn call_function(&self, proto: &helper::HelperProto, values: &mut [Value]) -> u64 {
        let (context, mut arguments) = (self.walked(), [0; 6]);
        for ((slot, value), arg) in arguments.iter_mut().zip(&mut *values).zip(proto.args) {
            *slot = match value {
                Value::Number(_) if *arg == Arg::Context => std::ptr::from_ref(&context) as u64,
                Value::Number(number) => *number,
                Value::Map(map) => std::ptr::from_ref::<Descriptor>(self.segment.descriptor(*map)) as u64,
                Value::Bytes(bytes) => bytes.as_ptr() as u64,
                Value::Buffer(_, bytes) => bytes.as_mut_ptr() as u64,
                Value::Record(record) => *record,
            };
        }
        let string = proto.args.iter().position(|arg| *arg == Arg::ConstString);
        if let Some(Value::Bytes(string)) = string.map(|at| &values[at]) {
            arguments[5] = string.len() as u64;
        }
        // SAFETY: `Space::over` has prepared; weir-memory made each value by the helper's row: memory of the sizes given, maps of this segment. A context of packets names bytes that it
        // lends; what numbers point to is read and written by the kernel.
        let answer = unsafe { linked::call(proto.id, arguments) };
        answer.unwrap_or_else(|| unreachable!("helper {} has no function", proto.name))
    }

    fn reserve(&mut self, map: &Descriptor, size: u64, flags: u64) -> u64 {
        let Some(address) = linked::ringbuf_reserve(map, size, flags) else { return 0 };
        self.records.push(LiveRecord { address, bytes: size });
        address
    }

    fn finish_record(&mut self, record: u64, is_discard: bool) -> u64 {
        self.records.retain(|live| live.address != record);
        // SAFETY: the record was live until the line above, and `segment` keeps its ring mapped.
        unsafe { linked::ringbuf_finish(record, is_discard) };
        0
    }

    /// What the program leaves for the other run of its session.
    pub fn session_cookie(&self) -> u64 {
        self.session_cookie.load(Ordering::Relaxed)
    }
}

impl<'a> Memory for Space<'a> {
    type Cursor = Cursor;
    /// The slots of the context, and what is left for the other run of the session.
    type Left = ([u64; pt_regs::SLOTS as usize], u64);

    fn kind(&self) -> Option<ProgramKind> {
        self.kind
    }

    fn context(&self) -> u64 {
        self.context.as_ptr() as u64
    }

    fn slot(&self, at: u32) -> u64 {
        self.context[at as usize / 8].load(Ordering::Relaxed)
    }

    fn stack_top(&self) -> u64 {
        self.stack.as_ptr() as u64 + STACK_BYTES
    }

    fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    fn clear_frame(&mut self) {
        let words = (STACK_FRAME_BYTES / 8) as usize;
        let end = self.stack.len() - self.frames.above_innermost() as usize / 8;
        self.stack[end - words..end].iter_mut().for_each(|word| *word.get_mut() = 0);
    }

    fn spec(&self, index: usize) -> Option<&MapSpec> {
        self.segment.layout().maps.get(index).map(|map| &map.spec)
    }

    fn map(&self, index: u32) -> Result<u64, Violation> {
        self.spec(index as usize).ok_or(Violation::NoMap { index })?;
        Ok(std::ptr::from_ref(self.segment.descriptor(index as usize)) as u64)
    }

    fn map_index(&self, handle: u64) -> Option<usize> {
        (0..self.segment.layout().maps.len())
            .find(|index| std::ptr::from_ref(self.segment.descriptor(*index)) as u64 == handle)
    }

    fn map_value(&self, index: u32) -> Result<u64, Violation> {
        let map = self.segment.layout().maps.get(index as usize).ok_or(Violation::NoMap { index })?;
        if map.spec.kind.is_array() {
            let lane = self.lane_of(map.lanes).map_or(0, |lane| u64::from(lane) * map.lane_stride);
            Ok(self.segment.base() + map.data_offset + lane)
        } else {
            Err(Violation::NoMap { index })
        }
    }

    fn rest_of_value(&self, address: u64) -> Option<u64> {
        self.segment.layout().maps.iter().find_map(|map| {
            let stride = u64::from(map.elem_stride);
            let offset = address.wrapping_sub(self.segment.base() + map.data_offset);
            let is_inside =
                map.spec.kind == MapKind::Array && offset < u64::from(map.spec.max_entries) * stride;
            is_inside.then(|| u64::from(map.spec.value_bytes).saturating_sub(offset % stride))
        })
    }

    fn load(&self, address: u64, width: Width) -> Result<u64, Violation> {
        let (address, width) = self.in_context(address, width, false)?.unwrap_or((address, width));
        let at = self.locate(address, width.bytes(), false)?;
        // SAFETY: `locate` answers only live memory of at least so many bytes.
        Ok(unsafe { access::load(at, width) })
    }

    fn store(&mut self, address: u64, width: Width, value: u64) -> Result<(), Violation> {
        let (at, width) = match self.in_context(address, width, true)? {
            Some(place) => place,
            None => (self.locate(address, width.bytes(), true)?, width),
        };
        // SAFETY: as for `load`, and writable.
        unsafe { access::store(at, width, value) };
        Ok(())
    }

    fn atomic(&mut self, address: u64, width: Width, op: AtomicOp) -> Result<u64, Violation> {
        let bytes = width.bytes();
        let at = self.locate(address, bytes, true)?;
        if at % bytes != 0 || bytes < 4 {
            return Err(Violation::Misaligned { address, bytes });
        }
        // SAFETY: as for `store`, and aligned.
        Ok(unsafe { access::atomic(at, width, op) })
    }

    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Violation> {
        self.locate(address, bytes, is_write).map(drop)
    }

    fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, Violation> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let at = self.locate(address, bytes, false)?;
        // SAFETY: `locate` answers only live memory of at least so many bytes.
        Ok((0..bytes).map(|n| unsafe { access::load(at + n, Width::B1) } as u8).collect())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Violation> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = self.locate(address, bytes.len() as u64, true)?;
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: as for `read_bytes`, and writable.
            unsafe { access::store(at + n as u64, Width::B1, (*byte).into()) };
        }
        Ok(())
    }

    fn packet_byte(&self, address: u64) -> u8 {
        // SAFETY: the slots of such a context name bytes that it lends, and no program writes to the slots (see
        // `field_of_context`): the bytes from any base to the end are there.
        unsafe { access::load(address, Width::B1) as u8 }
    }

    fn record(&self, address: u64) -> Option<u64> {
        self.records.iter().find(|record| record.address == address).map(|record| record.bytes)
    }

    fn may_change(&self) -> bool {
        self.may_change_process
    }

    fn allow_changes(&mut self) {
        self.may_change_process = true;
    }

    /// Those that are about what this holds: lanes, records, the cookie. The others are functions of the C half, as for machine code.
    fn answer(&mut self, proto: &helper::HelperProto, values: &mut [Value]) -> Result<u64, Violation> {
        use Value::{Bytes, Map, Number, Record};
        let segment: &'a Segment = self.segment;
        let lane = |map: &Descriptor| self.lane_of(map.lanes);
        Ok(match (proto.id, &*values) {
            (helper::MAP_LOOKUP_PERCPU_ELEM, _) if self.lane == Lane::Shared => {
                return Err(Violation::NoLanes);
            }
            (helper::MAP_LOOKUP_ELEM, [Map(map), Bytes(key)])
                if let Some(lane) = lane(segment.descriptor(*map)) =>
            {
                linked::map_lookup_lane(segment.descriptor(*map), key, lane).unwrap_or(0)
            }
            (helper::MAP_UPDATE_ELEM, [Map(map), Bytes(key), Bytes(value), Number(flags)])
                if let Some(lane) = lane(segment.descriptor(*map)) =>
            {
                linked::map_update_lane(segment.descriptor(*map), key, value, *flags, lane) as u64
            }
            (helper::RINGBUF_RESERVE, [Map(map), Number(size), Number(flags)]) => {
                self.reserve(segment.descriptor(*map), *size, *flags)
            }
            (helper::RINGBUF_SUBMIT, [Record(record), _]) => self.finish_record(*record, false),
            (helper::RINGBUF_DISCARD, [Record(record), _]) => self.finish_record(*record, true),
            (helper::RINGBUF_RESERVE_DYNPTR, _) => {
                let answer = self.call_function(proto, values);
                if let Some(Value::Buffer(_, dynptr)) = values.last() {
                    let (address, bytes) = dynptr_of(dynptr);
                    self.records.extend((address != 0).then_some(LiveRecord { address, bytes }));
                }
                answer
            }
            (
                helper::RINGBUF_SUBMIT_DYNPTR | helper::RINGBUF_DISCARD_DYNPTR,
                [Value::Buffer(_, dynptr), _],
            ) => {
                let (record, _) = dynptr_of(dynptr);
                self.records.retain(|live| live.address != record);
                self.call_function(proto, values)
            }
            (helper::GET_ATTACH_COOKIE, _) => self.cookie,
            (helper::GET_SMP_PROCESSOR_ID, _) if self.cpu_of_lane().is_some() => {
                self.cpu_of_lane().map_or(0, u64::from)
            }
            _ => self.call_function(proto, values),
        })
    }

    fn call_kernel(&mut self, id: KfuncId, registers: [u64; 5]) -> Result<Option<u64>, Violation> {
        Ok(match id {
            kfunc::SESSION_IS_RETURN => Some(self.is_return.into()),
            kfunc::SESSION_COOKIE => Some(self.session_cookie_address()),
            kfunc::TEXT_BEGINS => self.text_begins(registers),
            kfunc::DECLARED_COPY => return self.declared_copy(registers),
            _ => None,
        })
    }

    fn program_at(&self, map: usize, index: u32) -> Option<u32> {
        self.segment.map(map).program(index)
    }

    fn next_element(&mut self, map: usize, at: &mut Cursor) -> Option<[u64; 2]> {
        let descriptor = self.segment.descriptor(map);
        let lane = self.lane_of(descriptor.lanes).unwrap_or(0);
        let (value, key) = linked::map_next(descriptor, at, lane)?;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let words: Box<[AtomicU64]> = key.chunks(8).map(|bytes| AtomicU64::new(word(bytes))).collect();
        let address = words.as_ptr() as u64;
        self.keys.push(LiveKey { words, bytes: key.len() as u64 });
        Some([address, value])
    }

    fn leave_element(&mut self) {
        self.keys.pop();
    }

    fn finish(self) -> Result<Self::Left, Violation> {
        match self.records.len() {
            0 => Ok((self.slots(), self.session_cookie())),
            count => Err(Violation::LeakedRecords { count }),
        }
    }
}

/// The memory that a program reaches through addresses in its context. A socket filter has none.
fn lent(context: &ContextMut<'_>) -> Vec<Region> {
    let slot = |at: u32| context.frame().regs[at as usize / 8];
    let between = |from: u64, to: u64| Region { start: from, bytes: to - from };
    match context.kind() {
        Some(kind) if kind.has_packet_addresses() => {
            let [meta, data, end] =
                [context::packet::DATA_META, context::packet::DATA, context::packet::DATA_END].map(slot);
            vec![between(meta, data), between(data, end)]
        }
        Some(ProgramKind::Memory { .. }) => {
            vec![Region { start: slot(context::memory::ADDRESS), bytes: slot(context::memory::BYTES) }]
        }
        _ => Vec::new(),
    }
}

impl Drop for Space<'_> {
    /// A record left open would stop its ring's reader: it is discarded. The lane is given back.
    fn drop(&mut self) {
        for record in std::mem::take(&mut self.records) {
            self.finish_record(record.address, true);
        }
        if let Lane::Claimed(lane) = self.lane {
            self.segment.release_lane(lane);
        }
    }
}

/// A lane for one run, where lanes are claimed.
fn claim(segment: &Segment) -> Lane {
    let layout = segment.layout();
    match segment.claim_lane() {
        _ if layout.claim_lanes == 0 => Lane::Shared,
        Some(lane) => Lane::Claimed(lane),
        None => Lane::Unclaimed(layout.claim_lanes),
    }
}

/// A byte of this process's memory, read safely: what cannot be read is a NUL.
fn byte_at(address: u64) -> u8 {
    let mut byte = [0];
    linked::probe_read_user(&mut byte, address);
    byte[0]
}
