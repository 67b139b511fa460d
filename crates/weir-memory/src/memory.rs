//! What an interpreter asks of the memory that it runs a program on.

use std::fmt::Debug;
use std::sync::atomic::{Ordering, fence};

use weir_ebpf::kfunc::KfuncId;
use weir_ebpf::{HelperId, MapSpec, ProgramKind, context, helper, pt_regs};

use crate::arguments::{self, Value};
use crate::{AtomicOp, Frames, Violation, Width};

/// The memory of one run. A program's addresses mean what this says they mean: an access must lie within one live region (a
/// frame of the stack, the context, a packet, a value, a record), and anything else is a [`Violation`] that touches nothing.
pub trait Memory {
    /// A place between two elements of a map; the default is before the first.
    type Cursor: Copy + Debug + Default;
    /// What the run leaves besides r0.
    type Left;

    /// What the context is of; none for a probe's.
    fn kind(&self) -> Option<ProgramKind>;

    /// The address of the context.
    fn context(&self) -> u64;

    /// The 8 bytes at this offset of the context's slots.
    fn slot(&self, at: u32) -> u64;

    /// What r10 is on entry; each further frame is [`STACK_FRAME_BYTES`](crate::limits::STACK_FRAME_BYTES) below.
    fn stack_top(&self) -> u64;

    /// Which frames are live.
    fn frames(&mut self) -> &mut Frames;

    /// Zeroes the innermost frame, which may hold what an earlier call left.
    fn clear_frame(&mut self);

    /// The definition of map `index`; none behind the last.
    fn spec(&self, index: usize) -> Option<&MapSpec>;

    /// What a program loads to name map `index`.
    fn map(&self, index: u32) -> Result<u64, Violation>;

    /// The map that a program names so.
    fn map_index(&self, handle: u64) -> Option<usize>;

    /// Address of the first value of map `index`, an array kind.
    fn map_value(&self, index: u32) -> Result<u64, Violation>;

    /// Bytes from `address` to the end of the value of an array that it is in.
    fn rest_of_value(&self, address: u64) -> Option<u64>;

    /// A load of a number.
    fn load(&self, address: u64, width: Width) -> Result<u64, Violation>;

    /// A store of a number's low bytes.
    fn store(&mut self, address: u64, width: Width, value: u64) -> Result<(), Violation>;

    /// One atomic operation on 4 or 8 bytes; the answer is the old value.
    fn atomic(&mut self, address: u64, width: Width, op: AtomicOp) -> Result<u64, Violation>;

    /// The bytes may be accessed so, by a helper.
    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Violation>;

    /// Bytes that a helper reads.
    fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, Violation>;

    /// Bytes that a helper writes.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Violation>;

    /// A byte of the packet, between two addresses that slots of the context name, of which a packet load reads.
    fn packet_byte(&self, address: u64) -> u8;

    /// The record that was reserved at this address, and its bytes.
    fn record(&self, address: u64) -> Option<u64>;

    /// Helpers that change the process ([`helper::Access`]) are allowed.
    fn may_change(&self) -> bool;

    /// Allows them: for a program that a verifier accepted, which asks its user.
    fn allow_changes(&mut self);

    /// What a helper answers to arguments that were checked.
    fn answer(&mut self, proto: &helper::HelperProto, values: &mut [Value]) -> Result<u64, Violation>;

    /// What a kernel function answers; none if there is no such function, or it is asked what it may not be.
    fn call_kernel(&mut self, id: KfuncId, registers: [u64; 5]) -> Result<Option<u64>, Violation>;

    /// What `map`, an array of programs, has at `index`: the number of a program.
    fn program_at(&self, map: usize, index: u32) -> Option<u32>;

    /// The next element of a hash or an array: addresses of its key and its value, which live until
    /// [`leave_element`](Memory::leave_element).
    fn next_element(&mut self, map: usize, at: &mut Self::Cursor) -> Option<[u64; 2]>;

    /// The callback that looked at the last element is done with it.
    fn leave_element(&mut self);

    /// The end of the run: no record may be left open.
    fn finish(self) -> Result<Self::Left, Violation>
    where
        Self: Sized;

    /// A local call begins: the next frame is live. The answer is its r10; `None` where frames end.
    fn enter(&mut self) -> Option<u64> {
        let top = self.stack_top();
        let frames = self.frames();
        frames.enter().then(|| top - u64::from(frames.above_innermost()))
    }

    /// The innermost local call ends: its frame is no memory of the program any more.
    fn leave(&mut self) {
        self.frames().leave();
    }

    /// What r1 and r2 are on entry.
    fn arguments(&self) -> [u64; 2] {
        match self.kind() {
            Some(ProgramKind::Memory { .. }) => {
                [context::memory::ADDRESS, context::memory::BYTES].map(|at| self.slot(at))
            }
            _ => [self.context(), 0],
        }
    }

    /// The slots of the context, as the program left them.
    fn slots(&self) -> [u64; pt_regs::SLOTS as usize] {
        std::array::from_fn(|slot| self.slot(8 * slot as u32))
    }

    /// A load that later accesses stay behind.
    fn load_acquire(&self, address: u64, width: Width) -> Result<u64, Violation> {
        check_aligned(address, width)?;
        let value = self.load(address, width)?;
        fence(Ordering::Acquire);
        Ok(value)
    }

    /// A store that earlier accesses stay before.
    fn store_release(&mut self, address: u64, width: Width, value: u64) -> Result<(), Violation> {
        check_aligned(address, width)?;
        fence(Ordering::Release);
        self.store(address, width, value)
    }

    /// A packet load: the big-endian number at `offset` of a packet whose context is a `struct __sk_buff`. None: it is not all there.
    fn packet_load(&self, offset: i32, width: Width) -> Option<u64> {
        let (base, distance) = context::packet::load_base(offset)?;
        let from = self.slot(base) + distance as u64;
        if !self.kind().is_some_and(ProgramKind::has_packet_loads)
            || from + width.bytes() > self.slot(context::packet::DATA_END)
        {
            return None;
        }
        let bytes = (0..width.bytes()).map(|n| self.packet_byte(from + n));
        Some(bytes.fold(0, |value, byte| value << 8 | u64::from(byte)))
    }

    /// Calls a helper that calls nothing back with r1 to r5; the answer is r0.
    fn call(&mut self, id: HelperId, registers: [u64; 5]) -> Result<u64, Violation> {
        let proto = arguments::helper(self.kind(), self.may_change(), id)?;
        let mut values = arguments::values(self, proto, &registers)?;
        let result = self.answer(proto, &mut values)?;
        for value in values {
            if let Value::Buffer(address, bytes) = value {
                self.write(address, &bytes)?;
            }
        }
        Ok(result)
    }

    /// What a tail call with r1 to r3 leads to: the number of a program, or `None`.
    fn tail_call(&self, [context, map, index]: [u64; 3]) -> Result<Option<u32>, Violation> {
        arguments::tail_call(self, context, map).map(|map| self.program_at(map, index as u32))
    }

    /// The map that `for_each_map_elem` is called with.
    fn iterated(&self, map: u64) -> Result<usize, Violation> {
        arguments::iterated(self, map)
    }
}

fn check_aligned(address: u64, width: Width) -> Result<(), Violation> {
    let bytes = width.bytes();
    if address.is_multiple_of(bytes) { Ok(()) } else { Err(Violation::Misaligned { address, bytes }) }
}

/// Where an access to a field of a packet's context goes, from the first of its slots; none if it is to something else.
pub fn field_of_context(
    kind: Option<ProgramKind>,
    context: u64,
    address: u64,
    width: Width,
    is_write: bool,
) -> Result<Option<(u32, Width)>, Violation> {
    let Some(kind) = kind.filter(|kind| kind.is_packet()) else { return Ok(None) };
    let (offset, bytes) = (address.wrapping_sub(context), width.bytes());
    if offset >= context::structure_bytes(kind).into() {
        return Ok(None);
    }
    let field = context::field(kind, offset as u32);
    let place = field.and_then(|field| field.place(offset as u32, bytes as u32, is_write));
    let (at, bytes) = place.ok_or(Violation::Field { offset, bytes, is_write })?;
    let width = match bytes {
        8 => Width::B8,
        2 => Width::B2,
        _ => width,
    };
    Ok(Some((at, width)))
}
