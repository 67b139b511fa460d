//! One stream: its files, packet by packet, event by event.
//!
//! Of a packet a window is held, which slides over it. An event that crosses its end is decoded again when more is held; where one event
//! is larger than the window, the window grows. Positions are in bits behind the window's beginning, which is a multiple of all alignments
//! behind that of the packet.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::class::{FieldClass, Role, Scope, StreamClass, TraceClass};
use crate::error::Error;
use crate::limits::{ALIGN_BITS_MAX, EVENT_BYTES_MAX, UNDESCRIBED_LOOKS_MAX, WINDOW_BYTES};
use crate::read::decode::{self, State, Stop};
use crate::read::plan::{NONE, Plan, Plans};

const MAGIC: u64 = 0xc1fc_1fc1;

/// Bytes that may be read anywhere.
pub(crate) trait Source: fmt::Debug + Send {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
}

impl Source for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }
}

impl Source for Arc<[u8]> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A file of a stream, which may be one of several.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// What is in it, where it is no file.
    pub(crate) held: Option<Arc<[u8]>>,
}

impl Part {
    fn wrong(&self, offset: u64, message: impl Into<String>) -> Error {
        Error::Stream { path: self.path.clone(), offset, message: message.into() }
    }

    fn open(&self) -> Result<Box<dyn Source>, Error> {
        if let Some(held) = &self.held {
            return Ok(Box::new(Arc::clone(held)));
        }
        let failed = |source| Error::File { path: self.path.clone(), what: "open", source };
        File::open(&self.path).map(|file| Box::new(file) as Box<dyn Source>).map_err(failed)
    }
}

/// What the first packet of a file says of it.
#[derive(Clone, Debug)]
pub(crate) struct First {
    /// Index of the stream's class.
    pub(crate) class: usize,
    pub(crate) id: Option<u64>,
    pub(crate) begin: Option<u64>,
}

/// What comes next of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// In [`Stream::event`].
    Event,
    Lost(Loss),
    End,
}

/// Something that a tracer did not write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// What is missing.
    pub what: Lost,
    /// `None`: nobody counted.
    pub count: Option<u64>,
    /// In cycles, from and to.
    pub cycles: Option<(u64, u64)>,
}

/// What may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The tracer had no room for them.
    Events,
    /// Their sequence numbers are missing: the tracer wrote over them, or a file is cut.
    Packets,
}

/// The event that was read last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Current {
    pub(crate) class: usize,
    pub(crate) cycles: u64,
    pub(crate) bits: u64,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) class: usize,
    pub(crate) parts: Vec<Part>,
    part: usize,
    source: Option<Box<dyn Source>>,
    packet: Packet,
    window: Window,
    /// Where the next event begins, in bits of the window.
    at: u64,
    pub(crate) state: State,
    pub(crate) event: Current,
    /// The packet's context: its slots, and the bytes that they are about.
    pub(crate) context_slots: Vec<u64>,
    pub(crate) context_bytes: Vec<u8>,
    losses: Vec<Loss>,
    previous: Counters,
    /// What is told when all before it has been.
    damage: Option<Error>,
    /// Its last file is still written to: where it ends within a packet the rest is to come.
    pub(crate) is_growing: bool,
    /// So often the next event was not described yet.
    undescribed: u32,
    /// It has ended before its end.
    pub(crate) is_damaged: bool,
    /// What was read of the packet's header and context goes beyond the file.
    is_cut: bool,
}

/// The packet that is read, in bytes of its file and in bits.
#[derive(Clone, Copy, Debug, Default)]
struct Packet {
    begin: u64,
    bytes: u64,
    content_bits: u64,
    is_open: bool,
}

/// Part of a packet.
#[derive(Debug, Default)]
struct Window {
    bytes: Vec<u8>,
    /// Behind the packet's beginning.
    begin: u64,
}

/// What a packet counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    discarded: Option<u64>,
    sequence: Option<u64>,
    end: Option<u64>,
}

impl Stream {
    /// A stream of files in the order of time.
    pub(crate) fn new(class: usize, parts: Vec<Part>, registers: usize) -> Stream {
        let state = State::new(registers);
        Stream {
            class,
            parts,
            part: 0,
            source: None,
            packet: Packet::default(),
            window: Window::default(),
            at: 0,
            state,
            event: Current::default(),
            context_slots: Vec::new(),
            context_bytes: Vec::new(),
            losses: Vec::new(),
            previous: Counters::default(),
            damage: None,
            is_growing: false,
            undescribed: 0,
            is_damaged: false,
            is_cut: false,
        }
    }

    /// Which of its files is read, and the byte at which its packet begins.
    pub(crate) fn position(&self) -> (usize, u64) {
        (self.part, self.packet.begin)
    }

    /// Bytes that hold what the slots of the event are about.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.window.bytes
    }

    /// Goes to the next event or loss. At the end of a stream that grows it may go on later.
    pub(crate) fn advance(&mut self, trace: &TraceClass, plans: &Plans) -> Result<Step, Error> {
        loop {
            if let Some(loss) = self.losses.pop() {
                return Ok(Step::Lost(loss));
            }
            if !self.packet.is_open {
                if !self.begin_whole_packet(trace, plans)? {
                    return Ok(Step::End);
                }
                if self.was_read() {
                    self.end_packet()?;
                } else {
                    self.check_times(trace)?;
                    self.count(trace);
                }
                continue;
            }
            if self.window.begin * 8 + self.at == self.packet.content_bits {
                self.end_packet()?;
                continue;
            }
            return Ok(if self.read_event(trace, plans)? { Step::Event } else { Step::End });
        }
    }

    /// Whether it is described, or waited for to be: a tracer may write the description of an event later than the event.
    fn read_event(&mut self, trace: &TraceClass, plans: &Plans) -> Result<bool, Error> {
        let stream = &plans.streams[self.class];
        let clock = self.state.clock;
        loop {
            let bits = self.bits_held();
            self.state.slots.clear();
            self.state.roles[Role::EventId as usize] = None;
            self.state.clock = clock;
            let read = self.decode(&stream.event_header, trace, bits, self.at);
            let mut is_described = true;
            let read = read.and_then(|at| {
                let id = self.state.role(Role::EventId);
                let class = class_of(&trace.streams[self.class], &stream.by_id, id);
                is_described = class.is_ok();
                let class = class.map_err(Stop::Wrong)?;
                self.event.class = class;
                self.decode(&stream.events[class], trace, bits, at)
            });
            match read {
                Ok(at) if at == self.at => {
                    return Err(self.wrong("an event without a bit, of which there would be no end"));
                }
                Ok(at) => {
                    self.event.bits = at - self.at;
                    self.at = at;
                    self.event.cycles = self.state.clock;
                    self.undescribed = 0;
                    return Ok(true);
                }
                Err(_) if !is_described && self.is_growing && self.undescribed < UNDESCRIBED_LOOKS_MAX => {
                    self.undescribed += 1;
                    self.state.clock = clock;
                    return Ok(false);
                }
                Err(stop) => self.more(stop)?,
            }
        }
    }

    fn decode(&mut self, plan: &Plan, trace: &TraceClass, bits: u64, at: u64) -> Result<u64, Stop> {
        decode::decode(plan, trace.uuid.as_ref(), &self.window.bytes, bits, at, &mut self.state)
    }

    /// Bits of the window that are the packet's content.
    fn bits_held(&self) -> u64 {
        (self.window.bytes.len() as u64 * 8).min(self.packet.content_bits - self.window.begin * 8)
    }

    /// Holds more, so that decoding what begins at `at` may go further; or says why it cannot.
    fn more(&mut self, stop: Stop) -> Result<(), Error> {
        if let Stop::Wrong(message) = stop {
            return Err(self.wrong(message));
        }
        let held = self.window.begin + self.window.bytes.len() as u64;
        if held * 8 >= self.packet.content_bits {
            if let Some(damage) = self.damage.take() {
                return Err(damage);
            }
            self.is_cut = !self.packet.is_open;
            return Err(self.wrong("what begins here goes beyond the packet's content"));
        }
        // To a multiple of all alignments.
        let step = u64::from(ALIGN_BITS_MAX / 8);
        let kept = self.at / 8 / step * step;
        let length = match kept {
            0 => (self.window.bytes.len() * 2).max(WINDOW_BYTES),
            _ => self.window.bytes.len().max(WINDOW_BYTES),
        };
        if length > EVENT_BYTES_MAX {
            return Err(self.wrong(format!("an event of more than {EVENT_BYTES_MAX} bytes")));
        }
        self.at -= kept * 8;
        self.hold(self.window.begin + kept, length)
    }

    /// Holds up to `length` bytes of the packet, from `begin` on.
    fn hold(&mut self, begin: u64, length: usize) -> Result<(), Error> {
        let part = &self.parts[self.part];
        let length = (length as u64).min(self.packet.content_bits.div_ceil(8) - begin) as usize;
        self.window.begin = begin;
        self.window.bytes.resize(length, 0);
        // SANITY: a packet is begun only in a file that is open.
        let source = self.source.as_ref().expect("an open file");
        let mut read = 0;
        while read < length {
            let at = self.packet.begin + begin + read as u64;
            match source.read_at(&mut self.window.bytes[read..], at) {
                Ok(0) => return Err(part.wrong(at, "the file has become shorter while it was read")),
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::File { path: part.path.clone(), what: "read", source }),
            }
        }
        Ok(())
    }

    /// The next packet; false behind the last, and of a file that grows where the next one is not yet whole.
    fn begin_whole_packet(&mut self, trace: &TraceClass, plans: &Plans) -> Result<bool, Error> {
        let (packet, part, clock) = (self.packet, self.part, self.state.clock);
        self.is_cut = false;
        let begun = self.begin_packet(trace, plans);
        let is_last = self.is_growing && self.part + 1 >= self.parts.len();
        if !is_last || !(self.is_cut || self.damage.is_some()) {
            return begun;
        }
        self.damage = None;
        self.state.clock = clock;
        if self.part == part {
            self.packet = packet;
        } else {
            // It was opened for this, and is again.
            (self.packet, self.source) = (Packet::default(), None);
        }
        Ok(false)
    }

    /// The next packet, of this file or the next one; false behind the last.
    fn begin_packet(&mut self, trace: &TraceClass, plans: &Plans) -> Result<bool, Error> {
        loop {
            let Some(part) = self.parts.get(self.part) else { return Ok(false) };
            let begin = self.packet.begin + self.packet.bytes;
            if self.source.is_some() && begin < part.bytes {
                self.packet = Packet { begin, ..Packet::default() };
                break;
            }
            if self.source.is_some() && self.is_growing && self.part + 1 == self.parts.len() {
                return Ok(false);
            }
            if self.source.is_some() {
                self.part += 1;
                self.source = None;
                self.packet = Packet::default();
                continue;
            }
            self.source = Some(part.open()?);
            self.packet = Packet::default();
        }
        self.read_context(trace, plans)?;
        Ok(true)
    }

    fn read_context(&mut self, trace: &TraceClass, plans: &Plans) -> Result<(), Error> {
        let left = self.parts[self.part].bytes - self.packet.begin;
        self.packet.content_bits = left * 8;
        self.at = 0;
        self.hold(0, WINDOW_BYTES)?;
        let clock = self.state.clock;
        let end = loop {
            let bits = self.bits_held();
            self.state.slots.clear();
            self.state.roles = Default::default();
            self.state.clock = clock;
            let class = self.class;
            let read = self.decode(&plans.header, trace, bits, 0).and_then(|at| {
                check_header(trace, class, &self.state)?;
                self.decode(&plans.streams[class].context, trace, bits, at)
            });
            match read {
                Ok(at) => break at,
                Err(stop) => self.more(stop)?,
            }
        };
        self.at = end;
        std::mem::swap(&mut self.context_slots, &mut self.state.slots);
        self.context_bytes.clear();
        self.context_bytes.extend_from_slice(&self.window.bytes[..end.div_ceil(8) as usize]);
        self.size(end, left, trace.is_unpadded)?;
        self.packet.is_open = true;
        Ok(())
    }

    /// How long the packet is, by its context.
    fn size(&mut self, end: u64, left: u64, is_unpadded: bool) -> Result<(), Error> {
        let state = &self.state;
        let own = state.role(Role::PacketLength);
        let content = state.role(Role::ContentLength);
        let bits = own.or(content.filter(|_| is_unpadded)).unwrap_or(left.saturating_mul(8));
        let content = content.unwrap_or(bits);
        let begin = self.packet.begin;
        let part = &self.parts[self.part];
        if !bits.is_multiple_of(8) || content > bits || content < end {
            let text = format!(
                "a packet of {bits} bits with {content} of content, {end} of them its header and context"
            );
            return Err(part.wrong(begin, text));
        }
        self.packet.bytes = bits / 8;
        self.packet.content_bits = content;
        if self.packet.bytes > left {
            let text =
                format!("the file ends in this packet: of {} bytes, {left} are there", self.packet.bytes);
            self.damage = Some(part.wrong(begin, text));
            self.packet.content_bits = content.min(left * 8);
        }
        // What was held before its size was known may go beyond it.
        let held = self.packet.content_bits.div_ceil(8).saturating_sub(self.window.begin) as usize;
        self.window.bytes.truncate(held);
        Ok(())
    }

    /// An earlier file of the stream had this packet: snapshots of a ring overlap.
    fn was_read(&self) -> bool {
        let sequence = self.state.role(Role::SequenceNumber);
        self.part > 0 && sequence.is_some() && sequence <= self.previous.sequence
    }

    /// No packet ends before it begins, or begins before the one before it has ended. Of times that wrap nothing is said, nor of
    /// an end that nobody has written (a tracer that crashed).
    fn check_times(&self, trace: &TraceClass) -> Result<(), Error> {
        let class = &trace.streams[self.class];
        let whole = |role, time: Option<u64>| time.filter(|&time| time > 0 && bits(class, role) == 64);
        let begin = whole(Role::BeginTime, self.state.role(Role::BeginTime));
        let end = whole(Role::EndTime, self.state.role(Role::EndTime));
        let before = whole(Role::EndTime, self.previous.end);
        let text = match (before, begin, end) {
            (_, Some(begin), Some(end)) if end < begin => {
                format!("a packet that ends at {end}, before it begins at {begin}")
            }
            (Some(before), Some(begin), _) if begin < before => {
                format!("a packet that begins at {begin}, before the one before it ends at {before}")
            }
            _ => return Ok(()),
        };
        Err(self.parts[self.part].wrong(self.packet.begin, text))
    }

    /// What is missing between the packet before and this one.
    fn count(&mut self, trace: &TraceClass) {
        let class = &trace.streams[self.class];
        let (begin, end) = (self.state.role(Role::BeginTime), self.state.role(Role::EndTime));
        // LTTng's counter may be smaller in a later packet than in the one before; 64 bits do not wrap.
        let largest = |discarded: u64| match bits(class, Role::DiscardedEvents) {
            64 => discarded.max(self.previous.discarded.unwrap_or(0)),
            _ => discarded,
        };
        let now = Counters {
            discarded: self.state.role(Role::DiscardedEvents).map(largest),
            sequence: self.state.role(Role::SequenceNumber),
            end,
        };
        let between =
            |from: Option<u64>, to: Option<u64>| Some((from?, to?)).filter(|_| class.clock.is_some());
        // The last is told first.
        if let (Some(before), Some(sequence)) = (self.previous.sequence, now.sequence) {
            let missing = apart(class, Role::SequenceNumber, before, sequence).saturating_sub(1);
            let cycles = between(self.previous.end, begin);
            self.losses.extend((missing > 0).then_some(Loss {
                what: Lost::Packets,
                count: Some(missing),
                cycles,
            }));
        }
        let (count, cycles) = match (self.previous.discarded, now.discarded) {
            (Some(before), Some(discarded)) => {
                let count = apart(class, Role::DiscardedEvents, before, discarded);
                ((count > 0).then_some(Some(count)), between(self.previous.end, end))
            }
            // How many of them are before the trace is not said.
            (None, Some(discarded)) => ((discarded > 0).then_some(None), between(begin, end)),
            (_, None) => (None, None),
        };
        self.losses.extend(count.map(|count| Loss { what: Lost::Events, count, cycles }));
        self.previous = now;
    }

    fn end_packet(&mut self) -> Result<(), Error> {
        if let Some(damage) = self.damage.take() {
            return Err(damage);
        }
        self.packet.is_open = false;
        if let Some(end) = self.previous.end {
            self.state.clock = self.state.clock.max(end);
        }
        Ok(())
    }

    /// What is wrong with what begins at `at`.
    fn wrong(&self, message: impl Into<String>) -> Error {
        let offset = self.packet.begin + self.window.begin + self.at / 8;
        self.parts[self.part].wrong(offset, message)
    }

    /// Where the values of the event's scope begin.
    pub(crate) fn slots_of(&self, scope: Scope) -> &[u64] {
        &self.state.slots[self.state.scopes[scope as usize] as usize..]
    }
}

/// What the first packet of a file says.
pub(crate) fn first(trace: &TraceClass, plans: &Plans, part: &Part) -> Result<First, Error> {
    let registers = plans.streams.iter().map(|stream| stream.registers).max().unwrap_or(0);
    let mut stream = Stream::new(0, vec![part.clone()], registers);
    stream.source = Some(part.open()?);
    stream.packet.content_bits = part.bytes * 8;
    stream.hold(0, WINDOW_BYTES)?;
    let bits = stream.bits_held();
    let read = stream.decode(&plans.header, trace, bits, 0).and_then(|_| {
        stream.class = class_of_packet(trace, &stream.state).map_err(Stop::Wrong)?;
        check_header(trace, stream.class, &stream.state)
    });
    match read {
        Err(Stop::Short) => return Err(stream.wrong("the file ends in the header of its first packet")),
        Err(Stop::Wrong(message)) => return Err(stream.wrong(message)),
        Ok(()) => {}
    }
    let id = stream.state.role(Role::StreamId);
    let class = stream.class;
    stream.read_context(trace, plans)?;
    Ok(First { class, id, begin: stream.state.role(Role::BeginTime) })
}

fn class_of_packet(trace: &TraceClass, state: &State) -> Result<usize, String> {
    match (state.role(Role::StreamClassId), &trace.streams[..]) {
        (Some(id), streams) => {
            let found = streams.binary_search_by_key(&id, |stream| stream.id);
            found.map_err(|_| format!("a packet of stream {id}, which the metadata does not know"))
        }
        (None, [_]) => Ok(0),
        (None, _) => {
            Err("packets do not say of which stream they are, and the metadata has several".to_owned())
        }
    }
}

fn check_header(trace: &TraceClass, class: usize, state: &State) -> Result<(), Stop> {
    if let Some(magic) = state.role(Role::Magic)
        && magic != MAGIC
    {
        return Err(Stop::Wrong(format!("a packet begins with {magic:#x}, not {MAGIC:#x}")));
    }
    match state.role(Role::StreamClassId) {
        Some(id) if id != trace.streams[class].id => Err(Stop::Wrong(format!(
            "a packet of stream {id} in a file of stream {}",
            trace.streams[class].id
        ))),
        _ => Ok(()),
    }
}

fn class_of(stream: &StreamClass, by_id: &[u32], id: Option<u64>) -> Result<usize, String> {
    let unknown = |id| format!("event {id}, which the metadata does not know");
    match id {
        None if stream.events.len() == 1 => Ok(0),
        None => Err("events do not say which they are, and the metadata has several or none".to_owned()),
        Some(id) => match by_id.get(usize::try_from(id).unwrap_or(usize::MAX)) {
            Some(index) if *index != NONE => Ok(*index as usize),
            Some(_) => Err(unknown(id)),
            None => stream.events.binary_search_by_key(&id, |event| event.id).map_err(|_| unknown(id)),
        },
    }
}

/// How much a counter has grown, which may have wrapped.
fn apart(class: &StreamClass, role: Role, before: u64, now: u64) -> u64 {
    now.wrapping_sub(before) & (u64::MAX >> (64 - bits(class, role)))
}

/// Of the field with this role in the context of a packet.
fn bits(class: &StreamClass, role: Role) -> u32 {
    let fields = class.packet_context.as_ref().map(|field| &field.class);
    let Some(FieldClass::Struct(of)) = fields else { return 64 };
    let mut ints = of.fields.iter().filter_map(|field| field.class.int());
    ints.find(|int| int.role == Some(role)).map_or(64, |int| int.bits.into())
}
