//! The bytes of a stream → packets and events, each decoded to its end (CTF 1.8.3, sections 4.1.5, 5, 6 and 8).

use super::describe::{Int, Order};
use super::place::{Field, PlacedEvent, PlacedStream, Role, Trace};
use super::{Counts, EMPTY_ELEMENTS_MAX, Fault, Place, Rule};

const MAGIC: u64 = 0xc1fc_1fc1;

/// Checks a stream, and adds what is in it.
pub(super) fn check(trace: &Trace, name: &str, bytes: &[u8], counts: &mut Counts) -> Result<(), Fault> {
    let mut stream = Stream::default();
    let mut base = 0;
    while base < bytes.len() {
        let file = &bytes[base..];
        let end = file.len() as u64 * 8;
        let mut decoder = Decoder {
            trace,
            name,
            base: base as u64,
            bytes: file,
            at: 0,
            end,
            order: None,
            slots: vec![0; trace.slots],
            roles: [None; Role::COUNT],
            clock: stream.clock,
            begun: None,
            empty: 0,
        };
        base += decoder.packet(&mut stream, counts)? as usize;
    }
    counts.discarded += stream.discarded.unwrap_or(0);
    Ok(())
}

/// What packets of a stream have in common, or compare with those before them.
#[derive(Default)]
struct Stream {
    ids: Option<(u64, Option<u64>)>,
    /// The last time that was read.
    clock: u64,
    begin: u64,
    end: u64,
    last_event: u64,
    sequence: Option<u64>,
    discarded: Option<u64>,
}

struct Decoder<'t> {
    trace: &'t Trace,
    name: &'t str,
    /// Where the packet begins in its file.
    base: u64,
    bytes: &'t [u8],
    /// Bits from the packet's beginning.
    at: u64,
    /// Where the packet's content ends, as far as is known.
    end: u64,
    /// Of the last integer.
    order: Option<Order>,
    slots: Vec<i128>,
    /// What headers have said, with the bits it was said in.
    roles: [Option<(u64, u32)>; Role::COUNT],
    clock: u64,
    /// The times of the packet, in its context.
    begun: Option<u64>,
    /// Elements so far that have no bits.
    empty: u64,
}

impl<'t> Decoder<'t> {
    /// Reads a packet; how many bytes it has.
    fn packet(&mut self, stream: &mut Stream, counts: &mut Counts) -> Result<u64, Fault> {
        let trace = self.trace;
        if let Some(header) = &trace.packet_header {
            self.field(header)?;
        }
        if let Some(magic) = self.role(Role::Magic)
            && magic != MAGIC
        {
            return self.refuse(0, Rule::PacketMagic, format!("{magic:#x}"));
        }
        let of = self.stream(stream)?;
        if let Some(context) = &of.packet_context {
            self.field(context)?;
        }
        let header_bits = self.at;
        let packet_bits = self.sizes(header_bits)?;
        let times = self.times(stream)?;
        self.numbers(stream, counts)?;
        while self.at < self.end {
            let begin = self.at;
            let event = self.event(of)?;
            if self.at == begin {
                return self.refuse(begin, Rule::EventLength, format!("event {} has none", event.id));
            }
            if self.role(Role::EventTime).is_some() {
                let time = self.clock;
                if time < stream.last_event {
                    let message = format!("an event at {time} after one at {}", stream.last_event);
                    return self.refuse(begin, Rule::EventTimes, message);
                }
                if let Some((first, last)) = times
                    && !(first..=last).contains(&time)
                {
                    let message = format!("an event at {time} in a packet from {first} to {last}");
                    return self.refuse(begin, Rule::EventTimes, message);
                }
                stream.last_event = time;
            }
            counts.events += 1;
        }
        if let Some((_, last)) = times {
            stream.end = last;
        }
        stream.clock = self.clock;
        counts.packets += 1;
        Ok(packet_bits / 8)
    }

    /// Of which class the packet is.
    fn stream(&self, stream: &mut Stream) -> Result<&'t PlacedStream, Fault> {
        let trace = self.trace;
        let id = self.role(Role::StreamId);
        let found = match id {
            Some(id) => trace.streams.iter().find(|stream| stream.id == id),
            None => trace.streams.first(),
        };
        let Some(found) = found else {
            return self.refuse(0, Rule::PacketStream, format!("stream {}", id.unwrap_or_default()));
        };
        let ids = (found.id, self.role(Role::InstanceId));
        if *stream.ids.get_or_insert(ids) != ids {
            return self.refuse(
                0,
                Rule::PacketStream,
                format!("another stream than in packets before: {}", ids.0),
            );
        }
        Ok(found)
    }

    /// Finds where the content ends; how many bits the packet has.
    fn sizes(&mut self, header_bits: u64) -> Result<u64, Fault> {
        let left = self.bytes.len() as u64 * 8;
        let packet = self.role(Role::PacketSize).unwrap_or(left);
        if !packet.is_multiple_of(8) || packet > left || packet < header_bits || packet == 0 {
            let message = format!("{packet} bits, where {left} are left and its header has {header_bits}");
            return self.refuse(0, Rule::PacketSize, message);
        }
        let content = self.role(Role::ContentSize).unwrap_or(packet);
        if content > packet || content < header_bits {
            let message = format!("{content} bits in a packet of {packet}, whose header has {header_bits}");
            return self.refuse(0, Rule::ContentSize, message);
        }
        self.end = content;
        Ok(packet)
    }

    /// The times of the packet, if it has any.
    fn times(&self, stream: &mut Stream) -> Result<Option<(u64, u64)>, Fault> {
        let (Some(first), Some((last, bits))) = (self.begun, self.roles[Role::EndTime as usize]) else {
            return Ok(None);
        };
        let Some(last) = advanced(first, last, bits) else {
            let message = format!("it begins at {first} and ends at {last}");
            return self.refuse(0, Rule::PacketTimes, message);
        };
        if first < stream.begin || last < stream.end {
            let message = format!("{first} to {last} after {} to {}", stream.begin, stream.end);
            return self.refuse(0, Rule::PacketTimes, message);
        }
        stream.begin = first;
        Ok(Some((first, last)))
    }

    fn numbers(&self, stream: &mut Stream, counts: &mut Counts) -> Result<(), Fault> {
        if let Some(number) = self.role(Role::SequenceNumber) {
            if let Some(last) = stream.sequence {
                if number <= last {
                    return self.refuse(0, Rule::Sequence, format!("packet {number} after {last}"));
                }
                counts.lost_packets += number - last - 1;
            }
            stream.sequence = Some(number);
        }
        if let Some(discarded) = self.role(Role::Discarded) {
            if stream.discarded.is_some_and(|last| discarded < last) {
                let message = format!("{discarded} after {}", stream.discarded.unwrap_or_default());
                return self.refuse(0, Rule::Discarded, message);
            }
            stream.discarded = Some(discarded);
        }
        Ok(())
    }

    fn event(&mut self, of: &'t PlacedStream) -> Result<&'t PlacedEvent, Fault> {
        let begin = self.at;
        self.roles[Role::EventId as usize] = None;
        self.roles[Role::EventTime as usize] = None;
        if let Some(header) = &of.event_header {
            self.field(header)?;
        }
        let id = self.role(Role::EventId);
        let found = match id {
            Some(id) => of.events.iter().find(|event| event.id == id),
            None => of.events.first(),
        };
        let Some(event) = found else {
            return self.refuse(begin, Rule::EventId, format!("event {}", id.unwrap_or_default()));
        };
        for field in [&of.event_context, &event.context, &event.fields].into_iter().flatten() {
            self.field(field)?;
        }
        Ok(event)
    }

    fn field(&mut self, field: &Field) -> Result<(), Fault> {
        self.at = self.at.next_multiple_of(field.align().into());
        self.within(0)?;
        match field {
            Field::Int { int, slot, role } => self.int(int, *slot, *role),
            Field::Float { bits, order, .. } => self.bits(*bits, *order).map(|_| ()),
            Field::Text { is_ascii } => self.text(*is_ascii),
            Field::Struct { fields, .. } => fields.iter().try_for_each(|field| self.field(field)),
            Field::Array { element, count, is_uuid } => {
                let begin = self.at;
                self.elements(element, *count)?;
                if !is_uuid {
                    return Ok(());
                }
                let found = &self.bytes[begin as usize / 8..][..16];
                match self.trace.uuid {
                    Some(uuid) if uuid != found => self.refuse(begin, Rule::PacketUuid, "another one"),
                    _ => Ok(()),
                }
            }
            Field::Sequence { element, length } => {
                self.elements(element, u64::try_from(self.slots[*length]).unwrap_or(u64::MAX))
            }
            Field::Variant { tag, labels, options } => {
                let value = self.slots[*tag];
                let names: Vec<&str> = labels
                    .iter()
                    .filter(|label| (label.first..=label.last).contains(&value))
                    .map(|label| label.name.strip_prefix('_').unwrap_or(&label.name))
                    .collect();
                match options.iter().find(|(name, _)| names.contains(&name.as_str())) {
                    Some((_, option)) => self.field(option),
                    None => self.refuse(self.at, Rule::Option, format!("the tag's value is {value}")),
                }
            }
        }
    }

    fn elements(&mut self, element: &Field, count: u64) -> Result<(), Fault> {
        for _ in 0..count {
            let begin = self.at;
            self.field(element)?;
            self.empty += u64::from(self.at == begin);
            if self.empty > EMPTY_ELEMENTS_MAX {
                return self.refuse(
                    begin,
                    Rule::Limit,
                    format!("more than {EMPTY_ELEMENTS_MAX} empty elements"),
                );
            }
        }
        Ok(())
    }

    fn int(&mut self, int: &Int, slot: usize, role: Option<Role>) -> Result<(), Fault> {
        let begin = self.at;
        let bits = self.bits(int.bits, int.order)?;
        let unused = 64 - int.bits;
        let value =
            if int.is_signed { i128::from(((bits << unused) as i64) >> unused) } else { i128::from(bits) };
        self.slots[slot] = value;
        let Some(role) = role else { return Ok(()) };
        self.roles[role as usize] = Some((bits, int.bits));
        if !matches!(role, Role::BeginTime | Role::EventTime) {
            return Ok(());
        }
        // Fewer bits than 64 are the lowest of a time that is not before the last one (section 8).
        let before = self.clock;
        match advanced(before, bits, int.bits) {
            Some(time) => self.clock = time,
            None => {
                let rule = if role == Role::BeginTime { Rule::PacketTimes } else { Rule::EventTimes };
                // A packet may begin while events of the one before are still written: `times` compares.
                if role == Role::EventTime || int.bits < 64 {
                    return self.refuse(begin, rule, format!("{bits} after {before}"));
                }
                self.clock = bits;
            }
        }
        if role == Role::BeginTime {
            self.begun = Some(self.clock);
        }
        Ok(())
    }

    /// The next integer, in so many bits.
    fn bits(&mut self, bits: u32, order: Order) -> Result<u64, Fault> {
        self.within(bits.into())?;
        if !self.at.is_multiple_of(8) && self.order.is_some_and(|last| last != order) {
            return self.refuse(self.at, Rule::MixedOrder, "two byte orders in one byte");
        }
        self.order = Some(order);
        let mut value = 0;
        for index in 0..u64::from(bits) {
            let at = self.at + index;
            let byte = self.bytes[(at / 8) as usize];
            match order {
                Order::Little => value |= u64::from(byte >> (at % 8) & 1) << index,
                Order::Big => value = value << 1 | u64::from(byte >> (7 - at % 8) & 1),
            }
        }
        self.at += u64::from(bits);
        Ok(value)
    }

    fn text(&mut self, is_ascii: bool) -> Result<(), Fault> {
        let begin = self.at;
        let bytes = &self.bytes[(begin / 8) as usize..(self.end / 8) as usize];
        let Some(length) = bytes.iter().position(|byte| *byte == 0) else {
            return self.refuse(begin, Rule::Text, "no NUL before the content's end");
        };
        let is_right =
            if is_ascii { bytes[..length].is_ascii() } else { std::str::from_utf8(&bytes[..length]).is_ok() };
        if !is_right {
            return self.refuse(begin, Rule::Text, "bytes that are not of the encoding");
        }
        self.at += (length as u64 + 1) * 8;
        self.order = None;
        Ok(())
    }

    fn within(&self, bits: u64) -> Result<(), Fault> {
        match self.end.checked_sub(self.at) {
            Some(left) if left >= bits => Ok(()),
            _ => {
                self.refuse(self.at.min(self.end), Rule::Overrun, format!("{bits} bits more than there are"))
            }
        }
    }

    fn role(&self, role: Role) -> Option<u64> {
        self.roles[role as usize].map(|(value, _)| value)
    }

    fn refuse<T>(&self, at: u64, rule: Rule, message: impl Into<String>) -> Result<T, Fault> {
        let place = Place::Stream { name: self.name.to_owned(), byte: self.base + at / 8 };
        Err(Fault { place, rule, message: message.into() })
    }
}

/// The first time from `before` on whose lowest bits these are.
fn advanced(before: u64, value: u64, bits: u32) -> Option<u64> {
    if bits == 64 {
        return (value >= before).then_some(value);
    }
    let range = 1u64 << bits;
    let time = before & !(range - 1) | value;
    if time >= before { Some(time) } else { time.checked_add(range) }
}
