//! The readers of rings under hostile writers, in each form that a ring has, and what they give as events of a trace.
//!
//! The input chooses a form (one ring; a ring for each CPU, which discards; one that overwrites) and has steps of 12 bytes: what, which ring,
//! two bytes and eight of a number. A step writes a record as a good writer does, with the bytes that follow it; writes anything
//! over a word of a ring's control block or of its data; reads; or says that writers are gone.
//!
//! No panic, no endless loop, no access outside of the segment. Where nothing was written over, every submitted record is read
//! once. What has the shape of an event is one of a trace, as long as it is and as often.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};
use weir_event::recorded;
use weir_event::schema::{Field, Form, Schema, Type};
use weir_rt::abi::{control, record};
use weir_rt::segment::{Identity, Record, Segment, SegmentLayout};
use weir_trace::class::{ClockClass, TraceClass};
use weir_trace::write::{layout, packet};
use weir_trace::{Message, Reader};

const RING_BYTES: u64 = 4096;
const FORMS: [u32; 3] = [0, flag::RING_PER_CPU, flag::RING_PER_CPU | flag::RB_OVERWRITE];

/// Fills and reads rings as the steps in `bytes` say.
pub fn read(bytes: &[u8]) {
    let Some((form, mut rest)) = bytes.split_first() else { return };
    let mut rings = Rings::new(FORMS[usize::from(*form) % FORMS.len()]);
    while let Some((step, behind)) = rest.split_first_chunk::<12>() {
        rest = behind;
        let [what, ring, low, high, number @ ..] = *step;
        let (place, number) = (u64::from(u16::from_le_bytes([low, high])), u64::from_le_bytes(number));
        let ring = usize::from(ring) % rings.places.len();
        match what % 8 {
            0..3 => {
                let (payload, behind) = rest.split_at((place as usize % 1024).min(rest.len()));
                rest = behind;
                rings.append(ring, payload, number);
            }
            3 => rings.spoil(rings.places[ring].0 + place * 8 % 256, number),
            4 => rings.spoil(rings.places[ring].1 + place * 8 % RING_BYTES, number),
            5 => rings.read_one(None),
            6 => rings.read_one(Some(ring)),
            _ => rings.skip(number),
        }
    }
    rings.read_all();
}

struct Rings {
    segment: Segment,
    file: File,
    overwrites: bool,
    /// Of each ring its control block and its data.
    places: Vec<(u64, u64)>,
    /// Bytes before a payload.
    head: u64,
    is_spoiled: bool,
    submitted: u64,
    read: u64,
    ticks: u64,
    events: Events,
}

impl Rings {
    fn new(flags: u32) -> Rings {
        let spec = MapSpec { flags, ..MapSpec::new("ring", MapKind::RingBuf, 0, 0, RING_BYTES as u32) };
        let layout = SegmentLayout::plan(&[spec], 2).expect("a small map");
        let map = layout.maps[0].clone();
        let is_per_cpu = flags & flag::RING_PER_CPU != 0;
        let places = (0..u64::from(map.lanes)).map(|lane| {
            let data = map.data_offset + lane * map.lane_stride;
            (if is_per_cpu { data - 256 } else { map.offset }, data)
        });
        let places = places.collect();
        let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
        let file = File::from(segment.fd().try_clone_to_owned().expect("a file descriptor"));
        Rings {
            segment,
            file,
            overwrites: flags & flag::RB_OVERWRITE != 0,
            places,
            head: if is_per_cpu { 16 } else { 8 },
            is_spoiled: false,
            submitted: 0,
            read: 0,
            ticks: 0,
            events: Events::default(),
        }
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).expect("inside");
        u64::from_le_bytes(bytes)
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("inside");
    }

    fn spoil(&mut self, at: u64, number: u64) {
        self.is_spoiled = true;
        self.put(at, &number.to_le_bytes());
    }

    /// A record as a writer leaves it, if there is room: submitted, discarded, or being written by some thread.
    fn append(&mut self, ring: usize, payload: &[u8], number: u64) {
        let (control, data) = self.places[ring];
        let tail = self.word(control + control::FREE_OR_PRODUCER);
        let oldest = self.word(control + control::SPARE_OR_CONSUMER) & !1;
        let total = (payload.len() as u64 + self.head).next_multiple_of(self.head);
        let left = RING_BYTES - tail % RING_BYTES;
        // One that would not fit before the ring's end begins at its beginning, and what is left is a discarded one.
        let filler = if total > left { left } else { 0 };
        // What gives way to others is not done here.
        let used = if self.overwrites { tail } else { tail.wrapping_sub(oldest) };
        if !tail.is_multiple_of(self.head)
            || used > RING_BYTES - total.min(RING_BYTES)
            || used + filler + total > RING_BYTES
        {
            return;
        }
        if filler > 0 {
            self.record(
                data,
                tail,
                (filler - self.head) << record::SIZE_SHIFT | record::USED | record::DISCARD,
            );
        }
        let begin = tail.wrapping_add(filler);
        let state = match number % 8 {
            0 => record::DISCARD,
            1 => record::BUSY | (number & 0xffff) << record::WRITER_SHIFT & 0xffff_ffff,
            _ => 0,
        };
        self.submitted += u64::from(state == 0);
        self.put(data + (begin % RING_BYTES + self.head), payload);
        self.record(data, begin, (payload.len() as u64) << record::SIZE_SHIFT | record::USED | state);
        self.put(control + control::FREE_OR_PRODUCER, &begin.wrapping_add(total).to_le_bytes());
    }

    fn record(&mut self, data: u64, position: u64, header: u64) {
        self.ticks += 1;
        let at = data + position % RING_BYTES;
        if self.head > 8 {
            self.put(at, &self.ticks.to_le_bytes());
        }
        self.put(at + self.head - 8, &header.to_le_bytes());
    }

    fn take(&mut self, record: &Record) {
        self.read += 1;
        self.events.take(&record.bytes);
    }

    fn read_one(&mut self, ring: Option<usize>) {
        if self.overwrites {
            let _ = self.segment.flight(0).counters();
            drop(ring.map(|ring| self.segment.flight(0).lane(ring)));
            return;
        }
        let mut reader = self.segment.ring(0);
        let mark = reader.mark();
        let _ = (reader.has_read(&mark), reader.counters());
        let next = match ring {
            Some(ring) => reader.lane(ring).next(),
            None => reader.next(),
        };
        if let Some(record) = next {
            self.take(&record);
        }
    }

    /// Threads whose ids have one of these bits are gone.
    fn skip(&self, bits: u64) {
        let is_gone = |thread: u32| u64::from(thread) & bits != 0;
        let _ = match self.overwrites {
            true => self.segment.flight(0).skip_gone(&is_gone),
            false => self.segment.ring(0).skip_gone(&is_gone),
        };
    }

    fn read_all(mut self) {
        let corrupt = if self.overwrites {
            let snapshot = self.segment.flight(0).snapshot();
            snapshot.records.iter().for_each(|record| self.take(record));
            snapshot.corrupt
        } else {
            let (mut records, mut reader) = (Vec::new(), self.segment.ring(0));
            let mut add = |bytes: &[u8], ticks| records.push(Record { bytes: bytes.to_vec(), ticks });
            while reader.each(7, &mut add) == 7 {}
            while let Some(record) = reader.next() {
                records.push(record);
            }
            records.extend(reader.drain_dead());
            let corrupt = reader.counters().corrupt;
            records.iter().for_each(|record| self.take(record));
            corrupt
        };
        if !self.is_spoiled {
            assert_eq!((self.read, corrupt), (self.submitted, 0), "each submitted record is read once");
        }
        self.events.read();
    }
}

/// Events of every shape, and how a trace has them.
struct Known {
    reader: recorded::Reader,
    class: TraceClass,
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let int = |bytes: u8| Type::Int { bytes, signed: bytes.is_multiple_of(2) };
        let sequence = Type::Sequence { element: Box::new(int(2)) };
        let members = vec![("f".to_owned(), 0, Type::Float { bytes: 4 }), ("g".to_owned(), 4, int(1))];
        let event = |name: &str, types: Vec<Type>| {
            let field = |(index, ty)| Field { name: format!("f{index}"), ty, slot: 0, form: Form::Decimal };
            let fields = types.into_iter().enumerate().map(field).collect();
            Schema { provider: "a".to_owned(), event: name.to_owned(), level: None, fields }
        };
        let schemas = [
            event("fixed", vec![int(4), int(8), Type::Array { element: Box::new(int(2)), count: 3 }]),
            event("measured", vec![Type::Str, sequence, Type::Text, int(1)]),
            event("structure", vec![Type::Struct { fields: members }, Type::Str]),
            event("nothing", Vec::new()),
        ];
        let mut stream = layout::stream(0, Vec::new());
        stream.events = (0..).zip(&schemas).map(|(id, schema)| layout::event(id, schema)).collect();
        let mut class: TraceClass = layout::trace([1; 16], ClockClass::default(), Vec::new());
        class.streams.push(stream);
        Known { reader: recorded::Reader::new(&schemas), class }
    })
}

/// A packet of what are events.
#[derive(Default)]
struct Events {
    packet: Vec<u8>,
    count: u64,
}

impl Events {
    fn take(&mut self, record: &[u8]) {
        let Some((event, fields)) = known().reader.fields(record) else { return };
        if self.packet.is_empty() {
            let begin = packet::Begin { uuid: [1; 16], class: 0, id: 0, cpu: 0, sequence: 0, time: 0 };
            packet::begin(&begin, &mut self.packet);
        }
        packet::record_header(event, self.count + 1, self.count, &mut self.packet);
        self.packet.extend_from_slice(fields);
        self.count += 1;
    }

    fn read(mut self) {
        if self.packet.is_empty() {
            return;
        }
        let end = packet::End { time: self.count, discarded: 0, packet_bytes: self.packet.len() as u64 };
        packet::end(&end, &mut self.packet);
        let mut reader = Reader::of_class(known().class.clone(), vec![self.packet]).expect("a class of ours");
        let mut found = 0;
        while let Some(message) = reader.next() {
            match message {
                Message::Event(_) => found += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(found, self.count, "each event is read once");
    }
}
