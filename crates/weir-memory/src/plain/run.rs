//! One run's memory, on maps in plain memory.

use weir_ebpf::kfunc::{self, KfuncId};
use weir_ebpf::{MapSpec, ProgramKind, context, helper, pt_regs};

use super::maps::Maps;
use super::space::Region;
use super::store::stride;
use crate::limits::{PLAIN_REGIONS_MAX, STACK_FRAME_BYTES};
use crate::{AtomicOp, Context, Frame, Frames, Memory, Value, Violation, Width, field_of_context};

/// What a run is given besides maps.
#[derive(Debug)]
pub enum Input<'a> {
    /// The registers of a probe.
    Registers(&'a mut Frame),
    /// A packet, or memory.
    Lent(&'a mut Context),
}

/// The memory of one run.
#[derive(Debug)]
pub struct Run<'a> {
    pub(super) maps: &'a mut Maps,
    input: Input<'a>,
    stack: Vec<u8>,
    frames: Frames,
    /// The slots of the context; behind them, of a packet's, what its structure is larger.
    context: Vec<u8>,
    /// What was lent, and how many places it had before.
    lent: Vec<u8>,
    places: u32,
    cookie: Vec<u8>,
    keys: Vec<Vec<u8>>,
    /// Records that are open: what their ring knows them by.
    pub(super) records: Vec<Option<OpenRecord>>,
    may_change: bool,
}

/// A record that was reserved and not yet given back.
#[derive(Debug)]
pub(super) struct OpenRecord {
    pub(super) map: usize,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// Slots of a packet's context that hold addresses of what was lent.
const ADDRESSES: [u32; 5] = [
    context::packet::DATA,
    context::packet::DATA_END,
    context::packet::DATA_META,
    context::packet::LINK,
    context::packet::NETWORK,
];

impl<'a> Run<'a> {
    /// A run with this context on these maps.
    pub fn new(maps: &'a mut Maps, input: Input<'a>) -> Run<'a> {
        let (frame, kind) = (*input.frame(), input.kind());
        let structure = kind.map_or(0, context::structure_bytes) as usize;
        let words = frame.regs.iter().chain(&frame.floats);
        let mut slots: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        slots.resize(structure.max(pt_regs::BYTES_WITH_FLOATS as usize), 0);
        let mut run = Run {
            maps,
            stack: vec![0; Frames::STACK_BYTES as usize],
            frames: Frames::one(),
            context: slots,
            lent: Vec::new(),
            places: 0,
            cookie: frame.session_cookie.to_le_bytes().to_vec(),
            keys: Vec::new(),
            records: Vec::new(),
            may_change: false,
            input,
        };
        if let Input::Lent(context) = &run.input {
            let (bytes, address) = (context.all_bytes(), context.all_address());
            run.lent = bytes;
            run.rebase(address, Region::Lent(0).start());
        }
        run
    }

    /// What was lent is somewhere else from now on: nothing is at its old addresses any more.
    pub(super) fn move_lent(&mut self) {
        let before = Region::Lent(self.places).start();
        self.places = (self.places + 1) % PLAIN_REGIONS_MAX;
        self.rebase(before, Region::Lent(self.places).start());
    }

    fn rebase(&mut self, from: u64, to: u64) {
        let addresses: &[u32] = match self.kind() {
            Some(kind) if kind.is_packet() => &ADDRESSES,
            Some(ProgramKind::Memory { .. }) => &[context::memory::ADDRESS],
            _ => &[],
        };
        for at in addresses {
            let address = self.slot(*at);
            // Memory of no bytes is nowhere; fields of other kinds stand where these have no addresses.
            let distance = address.wrapping_sub(from);
            if address != 0 && distance <= self.lent.len() as u64 {
                let at = *at as usize;
                self.context[at..at + 8].copy_from_slice(&to.wrapping_add(distance).to_le_bytes());
            }
        }
    }

    /// The map that a program names so.
    pub(super) fn handle(index: usize) -> u64 {
        Region::Map(index as u32).start()
    }

    /// Address of a value, by where it begins.
    pub(super) fn value_address(map: usize, at: usize) -> u64 {
        Region::Values(map as u32).start() + at as u64
    }

    /// Where the map and the offset in its value are that an address is at; for tests of verifiers.
    pub fn value_at(&self, address: u64) -> Option<(u32, u64)> {
        let (Region::Values(map), at) = Region::of(address)? else { return None };
        let store = self.maps.stores.get(map as usize)?;
        let at = u64::try_from(at).ok().filter(|at| *at < store.values().len() as u64)?;
        Some((map, at % stride(&store.spec) as u64))
    }

    /// The bytes that an access of a program or a helper is to; an error unless they lie in one live region.
    fn located(&self, address: u64, bytes: u64, is_write: bool) -> Result<&[u8], Violation> {
        let outside = || Violation::Outside { address, bytes, is_write };
        let (region, at) = Region::of(address).ok_or_else(outside)?;
        let (whole, from, end) = self.live(region, at, is_write).ok_or_else(outside)?;
        let at = usize::try_from(at).ok().filter(|at| from <= *at && *at < end).ok_or_else(outside)?;
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= end - at).ok_or_else(outside)?;
        Ok(&whole[at..at + bytes])
    }

    /// The memory of a region, and which of it is live around `at`.
    fn live(&self, region: Region, at: i64, is_write: bool) -> Option<(&[u8], usize, usize)> {
        Some(match region {
            Region::Stack => {
                let live = self.frames.live_bytes() as usize;
                (&self.stack, self.stack.len() - live, self.stack.len())
            }
            Region::Context if !is_write && !matches!(self.kind(), Some(ProgramKind::Memory { .. })) => {
                let slots = self.kind().map_or(pt_regs::BYTES_WITH_FLOATS, |_| pt_regs::BYTES);
                (&self.context, 0, slots as usize)
            }
            Region::Cookie => (&self.cookie, 0, self.cookie.len()),
            Region::Lent(place) if place == self.places => self.lent_around(at)?,
            Region::Key(number) if !is_write => {
                let key = self.keys.get(number as usize)?;
                (key, 0, key.len())
            }
            Region::Record(number) => {
                let record = self.records.get(number as usize)?.as_ref()?;
                (&record.bytes, 0, record.bytes.len())
            }
            Region::Values(map) => {
                let store = self.maps.stores.get(map as usize)?;
                let stride = stride(&store.spec);
                let from = usize::try_from(at).ok()? / stride * stride;
                let end = from + store.spec.value_bytes as usize;
                let values = store.values();
                (end <= values.len()).then_some((values, from, end))?
            }
            _ => return None,
        })
    }

    /// Of a packet, its metadata or its bytes.
    fn lent_around(&self, at: i64) -> Option<(&[u8], usize, usize)> {
        let start = Region::Lent(self.places).start();
        let place = |slot: u32| self.slot(slot).wrapping_sub(start) as usize;
        let (from, end) = match self.kind()? {
            kind if kind.has_packet_addresses() => {
                let [meta, data, end] =
                    [context::packet::DATA_META, context::packet::DATA, context::packet::DATA_END].map(place);
                if at < data as i64 { (meta, data) } else { (data, end) }
            }
            ProgramKind::Memory { .. } => {
                let from = place(context::memory::ADDRESS);
                (from, from + self.slot(context::memory::BYTES) as usize)
            }
            _ => return None,
        };
        (end <= self.lent.len()).then_some((&self.lent, from, end))
    }

    /// The same bytes, to be written.
    fn located_mut(&mut self, address: u64, bytes: u64) -> Result<&mut [u8], Violation> {
        self.located(address, bytes, true)?;
        // SANITY: `located` has found that many bytes at this place of this region.
        let Some((region, at)) = Region::of(address) else { unreachable!("it was found") };
        let at = at as usize;
        let whole: &mut [u8] = match region {
            Region::Stack => &mut self.stack,
            Region::Cookie => &mut self.cookie,
            Region::Lent(_) => &mut self.lent,
            Region::Record(number) => match &mut self.records[number as usize] {
                Some(record) => &mut record.bytes,
                None => unreachable!("it was live"),
            },
            Region::Values(map) => self.maps.stores[map as usize].values_mut(),
            Region::Context | Region::Key(_) | Region::Map(_) => unreachable!("nobody writes there"),
        };
        Ok(&mut whole[at..at + bytes as usize])
    }

    /// A record has an address of its own as long as there are any; then those at the end that are closed have theirs again.
    pub(super) fn has_room_for_record(&mut self) -> bool {
        if self.records.len() == PLAIN_REGIONS_MAX as usize {
            let open = self.records.iter().rposition(Option::is_some);
            self.records.truncate(open.map_or(0, |last| last + 1));
        }
        self.records.len() < PLAIN_REGIONS_MAX as usize
    }

    /// Opens a record; its address.
    pub(super) fn open_record(&mut self, map: usize, at: u64, bytes: u64) -> u64 {
        self.records.push(Some(OpenRecord { map, at, bytes: vec![0; bytes as usize] }));
        Region::Record(self.records.len() as u32 - 1).start()
    }

    /// Gives a record back.
    pub(super) fn close_record(&mut self, address: u64, is_discard: bool) {
        let Some((Region::Record(number), 0)) = Region::of(address) else { return };
        let Some(record) = self.records.get_mut(number as usize).and_then(Option::take) else { return };
        if let Some((ring, _)) = self.maps.stores[record.map].ring() {
            ring.finish(record.at, (!is_discard).then_some(record.bytes));
        }
    }

    /// Records that are open are discarded, so that none stops its ring's reader: how many there were.
    fn discard_records(&mut self) -> usize {
        let is_open = |number: &usize| self.records[*number].is_some();
        let open: Vec<usize> = (0..self.records.len()).filter(is_open).collect();
        for number in &open {
            self.close_record(Region::Record(*number as u32).start(), true);
        }
        open.len()
    }

    /// What `get_attach_cookie` answers.
    pub(super) fn attach_cookie(&self) -> u64 {
        self.input.frame().cookie
    }
}

impl Drop for Run<'_> {
    /// A run that ended in a fault.
    fn drop(&mut self) {
        self.discard_records();
    }
}

impl Input<'_> {
    fn kind(&self) -> Option<ProgramKind> {
        match self {
            Input::Registers(_) => None,
            Input::Lent(context) => Some(context.kind()),
        }
    }

    /// A program of `kind` finds what it expects here.
    pub fn fits(&self, kind: ProgramKind) -> bool {
        self.kind().map_or(kind.is_probe(), |own| own == kind)
    }

    fn frame(&self) -> &Frame {
        match self {
            Input::Registers(frame) => frame,
            Input::Lent(context) => context.frame(),
        }
    }
}

impl<'a> From<&'a mut Frame> for Input<'a> {
    fn from(frame: &'a mut Frame) -> Input<'a> {
        Input::Registers(frame)
    }
}

impl<'a> From<&'a mut Context> for Input<'a> {
    fn from(context: &'a mut Context) -> Input<'a> {
        Input::Lent(context)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Memory for Run<'_> {
    type Cursor = usize;
    type Left = ();

    fn kind(&self) -> Option<ProgramKind> {
        self.input.kind()
    }

    fn context(&self) -> u64 {
        Region::Context.start()
    }

    fn slot(&self, at: u32) -> u64 {
        let at = at as usize / 8 * 8;
        number(&self.context[at..at + 8])
    }

    fn stack_top(&self) -> u64 {
        Region::Stack.start() + u64::from(Frames::STACK_BYTES)
    }

    fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    fn clear_frame(&mut self) {
        let end = (Frames::STACK_BYTES - self.frames.above_innermost()) as usize;
        self.stack[end - STACK_FRAME_BYTES as usize..end].fill(0);
    }

    fn spec(&self, index: usize) -> Option<&MapSpec> {
        self.maps.stores.get(index).map(|store| &store.spec)
    }

    fn map(&self, index: u32) -> Result<u64, Violation> {
        self.spec(index as usize).ok_or(Violation::NoMap { index })?;
        Ok(Run::handle(index as usize))
    }

    fn map_index(&self, handle: u64) -> Option<usize> {
        let (Region::Map(index), 0) = Region::of(handle)? else { return None };
        self.spec(index as usize).map(|_| index as usize)
    }

    fn map_value(&self, index: u32) -> Result<u64, Violation> {
        let is_array = self.spec(index as usize).is_some_and(|spec| spec.kind.is_array());
        if is_array { Ok(Run::value_address(index as usize, 0)) } else { Err(Violation::NoMap { index }) }
    }

    fn rest_of_value(&self, address: u64) -> Option<u64> {
        let (map, at) = self.value_at(address)?;
        let spec = self.spec(map as usize).filter(|spec| spec.kind == weir_ebpf::MapKind::Array)?;
        Some(u64::from(spec.value_bytes).saturating_sub(at))
    }

    fn load(&self, address: u64, width: Width) -> Result<u64, Violation> {
        let field = field_of_context(self.kind(), self.context(), address, width, false)?;
        match field {
            Some((at, width)) => {
                let at = at as usize;
                Ok(number(&self.context[at..at + width.bytes() as usize]))
            }
            None => self.located(address, width.bytes(), false).map(number),
        }
    }

    fn store(&mut self, address: u64, width: Width, value: u64) -> Result<(), Violation> {
        let field = field_of_context(self.kind(), self.context(), address, width, true)?;
        let (to, width) = match field {
            Some((at, width)) => {
                let at = at as usize;
                (&mut self.context[at..at + width.bytes() as usize], width)
            }
            None => (self.located_mut(address, width.bytes())?, width),
        };
        to.copy_from_slice(&value.to_le_bytes()[..width.bytes() as usize]);
        Ok(())
    }

    fn atomic(&mut self, address: u64, width: Width, op: AtomicOp) -> Result<u64, Violation> {
        let bytes = width.bytes();
        let old = number(self.located(address, bytes, true)?);
        if !address.is_multiple_of(bytes) || bytes < 4 {
            return Err(Violation::Misaligned { address, bytes });
        }
        let new = op.of(old, width).to_le_bytes();
        self.located_mut(address, bytes)?.copy_from_slice(&new[..bytes as usize]);
        Ok(old)
    }

    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Violation> {
        self.located(address, bytes, is_write).map(|_| ())
    }

    fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, Violation> {
        if bytes == 0 { Ok(Vec::new()) } else { self.located(address, bytes, false).map(<[u8]>::to_vec) }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Violation> {
        if !bytes.is_empty() {
            self.located_mut(address, bytes.len() as u64)?.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn packet_byte(&self, address: u64) -> u8 {
        let at = address.wrapping_sub(Region::Lent(self.places).start());
        usize::try_from(at).ok().and_then(|at| self.lent.get(at)).copied().unwrap_or(0)
    }

    fn record(&self, address: u64) -> Option<u64> {
        let (Region::Record(number), 0) = Region::of(address)? else { return None };
        let record = self.records.get(number as usize)?.as_ref()?;
        Some(record.bytes.len() as u64)
    }

    fn may_change(&self) -> bool {
        self.may_change
    }

    fn allow_changes(&mut self) {
        self.may_change = true;
    }

    fn answer(&mut self, proto: &helper::HelperProto, values: &mut [Value]) -> Result<u64, Violation> {
        super::answers::answer(self, proto, values)
    }

    fn call_kernel(&mut self, id: KfuncId, _registers: [u64; 5]) -> Result<Option<u64>, Violation> {
        Ok(match id {
            kfunc::SESSION_IS_RETURN => Some(u64::from(self.input.frame().is_return != 0)),
            kfunc::SESSION_COOKIE => Some(Region::Cookie.start()),
            _ => None,
        })
    }

    fn program_at(&self, map: usize, index: u32) -> Option<u32> {
        self.maps.stores[map].numbers()?.get(index.to_le_bytes().as_slice()).copied()
    }

    fn next_element(&mut self, map: usize, at: &mut usize) -> Option<[u64; 2]> {
        let (place, key, value) = self.maps.stores[map].element_from(*at)?;
        *at = place + 1;
        self.keys.push(key);
        let key = Region::Key(self.keys.len() as u32 - 1).start();
        Some([key, Run::value_address(map, value)])
    }

    fn leave_element(&mut self) {
        self.keys.pop();
    }

    fn finish(mut self) -> Result<(), Violation> {
        let open = self.discard_records();
        let (slots, cookie) = (self.slots(), number(&self.cookie));
        match &mut self.input {
            Input::Registers(frame) => frame.session_cookie = cookie,
            Input::Lent(context) => {
                context.set_all_bytes(&self.lent);
                crate::ContextMut::from(&mut **context).set_slots(slots);
            }
        }
        if open == 0 { Ok(()) } else { Err(Violation::LeakedRecords { count: open }) }
    }
}
