//! Streams → one sequence of messages, in the order of time.
//!
//! Streams wait in a heap, each with the time of what it has next. At equal times the order is that of the traces' UUIDs and names, then
//! of the streams' classes and numbers, so that the same traces give the same output everywhere (babeltrace2's order).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::{Path, PathBuf};

pub use crate::read::stream::{Loss, Lost};

use crate::class::{ByteOrder, ClockClass, EventClass, Field, FieldClass, Scope, StreamClass, TraceClass};
use crate::error::Error;
use crate::read::decode;
use crate::read::folder::{self, Trace};
use crate::read::plan::{Kind, Style, Width};
use crate::read::stream::{Current, Step, Stream};

/// What comes next of a trace.
#[derive(Debug)]
pub enum Message<'r> {
    /// An event.
    Event(Event<'r>),
    /// Events or packets that are missing there.
    Lost(Loss, StreamInfo<'r>),
    /// A stream ends here, before its end.
    Damage(Error),
}

/// Where something comes from.
#[derive(Clone, Copy, Debug)]
pub struct StreamInfo<'r> {
    /// What the metadata describes.
    pub trace: &'r TraceClass,
    /// The trace's host, where its environment names one, and where it is below the place that was given.
    pub trace_name: &'r str,
    /// Of the stream.
    pub class: &'r StreamClass,
    /// By which its times are counted.
    pub clock: Option<&'r ClockClass>,
    /// The number among those of its class; where packets do not have one, among the trace's.
    pub id: u64,
    /// Its first file.
    pub path: &'r Path,
}

/// One event, as long as nothing further is read.
#[derive(Clone, Copy, Debug)]
pub struct Event<'r> {
    /// Where it is from.
    pub info: StreamInfo<'r>,
    /// Which event it is.
    pub class: &'r EventClass,
    /// The stream's clock at the event; 0 where there is none.
    pub cycles: u64,
    /// Nanoseconds since 1970.
    pub ns: Option<i64>,
    /// How long the record is, with its header.
    pub bits: u64,
    stream: &'r Stream,
}

impl<'r> Event<'r> {
    /// The shown fields of a scope; `None` where there are none.
    pub fn scope(&self, scope: Scope) -> Option<(&'r FieldClass, Values<'r>)> {
        let field: Option<&'r Field> = match scope {
            Scope::PacketContext => self.info.class.packet_context.as_ref(),
            Scope::CommonContext => self.info.class.common_context.as_ref(),
            Scope::SpecificContext => self.class.specific_context.as_ref(),
            Scope::Payload => self.class.payload.as_ref(),
            Scope::PacketHeader | Scope::EventHeader => None,
        };
        let field = field.filter(|field| !field.is_hidden)?;
        let values = match scope {
            Scope::PacketContext => {
                Values { slots: &self.stream.context_slots, bytes: &self.stream.context_bytes }
            }
            _ => Values { slots: self.stream.slots_of(scope), bytes: self.stream.bytes() },
        };
        Some((&field.class, values))
    }
}

/// The values of shown fields, in the order of the classes. Whoever reads walks the class beside it, and takes as each field asks.
#[derive(Clone, Copy, Debug)]
pub struct Values<'r> {
    slots: &'r [u64],
    bytes: &'r [u8],
}

impl<'r> Values<'r> {
    /// An integer (two's complement where it is signed), the bits of a double, the number of an array's elements, the index of a variant's
    /// option, or whether an optional field is there.
    ///
    /// # Panics
    /// Behind the last value.
    pub fn word(&mut self) -> u64 {
        let (first, rest) = self.slots.split_first().expect("as many values as the classes have fields");
        self.slots = rest;
        *first
    }

    /// A floating-point number, of whatever width the trace has it.
    pub fn double(&mut self) -> f64 {
        f64::from_bits(self.word())
    }

    /// A string's bytes, without its NUL; of [`FieldClass::Wide`] as they are encoded.
    pub fn text(&mut self) -> &'r [u8] {
        let slot = self.word();
        let (begin, length) = ((slot >> 32) as usize, (slot & 0xffff_ffff) as usize);
        &self.bytes[begin..begin + length]
    }

    /// The elements of an array or a sequence of this class, where they lie in whole bytes one behind the other: numbers, or the bytes
    /// of a text. Otherwise the number of elements is a [`Values::word`], and they follow.
    pub fn packed(&mut self, element: &FieldClass) -> Option<Packed<'r>> {
        let bytes = element.packed_bytes()?;
        let count = self.word();
        let begin = self.word() as usize;
        let length = count as usize * bytes as usize;
        Some(Packed { kind: kind(element)?, count, bytes: &self.bytes[begin..begin + length] })
    }
}

/// Numbers in whole bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'r> {
    kind: Kind,
    /// Elements.
    pub count: u64,
    /// Theirs, in the order of the file.
    pub bytes: &'r [u8],
}

impl Packed<'_> {
    /// The element, as [`Values::word`] has it.
    pub fn get(&self, index: u64) -> u64 {
        decode::element(self.bytes, 0, index, self.kind)
    }
}

fn kind(class: &FieldClass) -> Option<Kind> {
    let (width, order) = match class {
        FieldClass::Float(float) if float.bits == 32 => (Width::F32, float.order),
        FieldClass::Float(float) => (Width::All64, float.order),
        _ => {
            let int = class.int()?;
            let width = match (int.bits, int.is_signed) {
                (8, false) => Width::U8,
                (16, false) => Width::U16,
                (32, false) => Width::U32,
                (8, true) => Width::I8,
                (16, true) => Width::I16,
                (32, true) => Width::I32,
                _ => Width::All64,
            };
            (width, int.order)
        }
    };
    Some(Kind { width, is_big: order == ByteOrder::Big })
}

/// Reads traces.
#[derive(Debug)]
pub struct Reader {
    pub(super) traces: Vec<Trace>,
    /// In the order in which they come at equal times: index of the trace, and the stream's number.
    pub(super) streams: Vec<(usize, u64, Stream)>,
    pub(super) heap: BinaryHeap<Reverse<(Option<i64>, usize)>>,
    /// The stream whose event was given out last.
    given: bool,
    is_started: bool,
    pub(super) damaged: Vec<Error>,
    /// By stream: what it has next, if that is no event.
    pub(super) steps: Vec<Step>,
}

impl Reader {
    /// All traces at or below these places.
    pub fn open(places: &[PathBuf]) -> Result<Reader, Error> {
        Reader::open_with(places, Style::Fast)
    }

    /// A trace that is in memory: its metadata, and a stream's packets each.
    pub fn of_memory(metadata: &[u8], streams: Vec<Vec<u8>>) -> Result<Reader, Error> {
        Ok(Reader::of(vec![folder::of_memory(metadata, streams, Style::Fast)?]))
    }

    /// The same of what the metadata would say.
    pub fn of_class(class: TraceClass, streams: Vec<Vec<u8>>) -> Result<Reader, Error> {
        Ok(Reader::of(vec![folder::of_class(class, streams, Style::Fast)?]))
    }

    pub(crate) fn open_with(places: &[PathBuf], style: Style) -> Result<Reader, Error> {
        Ok(Reader::of(folder::open(places, style)?))
    }

    pub(crate) fn of(mut traces: Vec<Trace>) -> Reader {
        traces.sort_by(|one, other| (one.class.uuid, &one.name).cmp(&(other.class.uuid, &other.name)));
        let mut streams = Vec::new();
        let mut damaged = Vec::new();
        for (index, trace) in traces.iter_mut().enumerate() {
            let mut own = std::mem::take(&mut trace.streams);
            own.sort_by_key(|(id, stream)| (stream.class, *id));
            streams.extend(own.into_iter().map(|(id, stream)| (index, id, stream)));
            damaged.append(&mut trace.damaged);
        }
        damaged.reverse();
        let steps = vec![Step::End; streams.len()];
        Reader { traces, streams, heap: BinaryHeap::new(), given: false, is_started: false, damaged, steps }
    }

    /// The classes of the traces that are read.
    pub fn traces(&self) -> impl Iterator<Item = &TraceClass> {
        self.traces.iter().map(|trace| &trace.class)
    }

    /// Where each stream comes from.
    pub fn streams(&self) -> impl Iterator<Item = StreamInfo<'_>> {
        (0..self.streams.len()).map(|index| self.info(index))
    }

    /// What comes next, or `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows the reader")]
    pub fn next(&mut self) -> Option<Message<'_>> {
        self.settle();
        if let Some(error) = self.damaged.pop() {
            return Some(Message::Damage(error));
        }
        let Reverse((time, index)) = *self.heap.peek()?;
        self.given = true;
        let info = self.info(index);
        let (_, _, stream) = &self.streams[index];
        Some(match self.steps[index] {
            Step::Lost(loss) => Message::Lost(loss, info),
            _ => {
                let class = &info.class.events[stream.event.class];
                let Current { cycles, bits, .. } = stream.event;
                Message::Event(Event { info, class, cycles, ns: time, bits, stream })
            }
        })
    }

    /// Has every stream that is not at its end in the heap, with what is next of it.
    pub(super) fn settle(&mut self) {
        if !self.is_started {
            self.is_started = true;
            for index in 0..self.streams.len() {
                if let Some(time) = self.step(index) {
                    self.heap.push(Reverse((time, index)));
                }
            }
        }
        if self.given {
            self.given = false;
            self.go_on();
        }
    }

    /// Puts the stream that was first where it belongs now.
    fn go_on(&mut self) {
        let Some(Reverse((_, index))) = self.heap.peek().copied() else { return };
        let time = self.step(index);
        // SANITY: it was there above.
        let mut top = self.heap.peek_mut().expect("a stream");
        match time {
            // Sifts only where another stream comes first now.
            Some(time) if time != top.0.0 => top.0.0 = time,
            Some(_) => {}
            None => drop(PeekMut::pop(top)),
        }
    }

    /// Goes on in a stream: the time of what it has next, or `None` at its end.
    pub(super) fn step(&mut self, index: usize) -> Option<Option<i64>> {
        let (trace, _, stream) = &mut self.streams[index];
        let trace = &self.traces[*trace];
        let clock = trace.class.streams[stream.class].clock.map(|clock| &trace.class.clocks[clock]);
        let ns = |cycles| clock.and_then(|clock| clock.ns(cycles));
        match stream.advance(&trace.class, &trace.plans) {
            Ok(Step::End) => None,
            Ok(step @ Step::Event) => {
                self.steps[index] = step;
                Some(ns(stream.event.cycles))
            }
            Ok(step @ Step::Lost(loss)) => {
                self.steps[index] = step;
                Some(loss.cycles.and_then(|(begin, _)| ns(begin)))
            }
            Err(error) => {
                stream.is_growing = false;
                stream.is_damaged = true;
                self.damaged.push(error);
                None
            }
        }
    }

    fn info(&self, index: usize) -> StreamInfo<'_> {
        let (trace, id, stream) = &self.streams[index];
        let trace = &self.traces[*trace];
        let class = &trace.class.streams[stream.class];
        StreamInfo {
            trace: &trace.class,
            trace_name: &trace.name,
            class,
            clock: class.clock.map(|clock| &trace.class.clocks[clock]),
            id: *id,
            path: &stream.parts[0].path,
        }
    }
}
