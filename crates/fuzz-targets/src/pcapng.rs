//! Any bytes as a capture file: events, or an error that names the place.
//!
//! All that an event says is taken, as a printer does. An input that gives few bytes at a time is read as the same; with limits that few
//! files keep to, what is read begins alike. Packets lie in the file, one after the other.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};

use weir_pcapng::{Error, Event, Limits, Packet, PacketFields, Reader};

/// Of these, an interface or a packet with options is more than allowed.
const SMALL: Limits = Limits { block_bytes: 64, interfaces: 2, interface_bytes: 96 };

/// Bytes of a block of pcapng at least, which begins whatever is an event of it; a record has 16.
const EVENT_BYTES_MIN: usize = 12;

/// Reads bytes as a capture file.
pub fn read(bytes: &[u8]) {
    let whole = Outcome::of(bytes, bytes, Limits::default());
    // One interface of a classic file has no bytes of its own.
    assert!(whole.events.len() <= 1 + bytes.len() / EVENT_BYTES_MIN, "an event takes bytes");
    let slow = Outcome::of(Slow(bytes), bytes, Limits::default());
    assert_eq!(
        (&slow.events, &slow.error),
        (&whole.events, &whole.error),
        "the same, by few bytes at a time"
    );
    let small = Outcome::of(bytes, bytes, SMALL);
    assert!(whole.events.starts_with(&small.events), "limits change nothing but where it ends");
}

/// A hash of each event, and the error's text.
struct Outcome {
    events: Vec<u64>,
    error: Option<String>,
}

impl Outcome {
    fn of(input: impl Read, file: &[u8], limits: Limits) -> Outcome {
        let mut outcome = Outcome { events: Vec::new(), error: None };
        let mut reader = match Reader::with_limits(input, limits) {
            Ok(reader) => reader,
            Err(error) => {
                outcome.end(&error, file);
                return outcome;
            }
        };
        let mut packets_from = 0;
        loop {
            match reader.next() {
                Ok(Some(event)) => {
                    if let Event::Packet(packet) = &event {
                        assert!(packet.offset >= packets_from, "packets do not overlap");
                        packets_from = packet.offset + packet.bytes.len() as u64;
                        assert!(packets_from <= file.len() as u64, "a packet lies in the file");
                    }
                    outcome.events.push(hash_of(&event));
                }
                Ok(None) => {
                    assert_eq!(reader.offset(), file.len() as u64, "all is read");
                    return outcome;
                }
                Err(error) => {
                    outcome.end(&error, file);
                    assert!(matches!(reader.next(), Ok(None)), "nothing more after an error");
                    return outcome;
                }
            }
        }
    }

    fn end(&mut self, error: &Error, file: &[u8]) {
        assert!(error.offset() <= file.len() as u64, "the place lies in the file: {error}");
        self.error = Some(error.to_string());
    }
}

/// A hash of all that an event says.
fn hash_of(event: &Event<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let into = &mut hasher;
    match event {
        Event::Section(section) => format!("{section:?}").hash(into),
        Event::UnknownVersion { major, minor } => (major, minor).hash(into),
        Event::Interface(id, interface) => format!("{id} {interface:?}").hash(into),
        Event::Packet(packet) => hash_packet(packet, into),
        Event::Statistics(id, statistics) => format!("{id} {statistics:?}").hash(into),
        Event::Names(names) => {
            for (address, texts) in names.records() {
                address.hash(into);
                texts.for_each(|text| text.hash(into));
            }
            (names.server_name(), names.server_ipv4(), names.server_ipv6()).hash(into);
            names.comments().for_each(|comment| comment.hash(into));
        }
        Event::Secrets { kind, bytes } => (kind, bytes).hash(into),
        Event::Custom { enterprise, is_copied, bytes } => (enterprise, is_copied, bytes).hash(into),
        Event::Other { kind, bytes } => (kind, bytes).hash(into),
        event => unreachable!("an event that this target does not know: {event:?}"),
    }
    hasher.finish()
}

fn hash_packet(packet: &Packet<'_>, into: &mut DefaultHasher) {
    (packet.interface, packet.time, packet.wire_len, packet.bytes, packet.offset).hash(into);
    let fields: PacketFields<'_> = packet.fields;
    (fields.flags(), fields.drop_count(), fields.packet_id(), fields.queue(), fields.process_thread())
        .hash(into);
    fields.hashes().for_each(|hash| (hash.algorithm, hash.bytes).hash(into));
    fields.verdicts().for_each(|verdict| format!("{verdict:?}").hash(into));
    fields.comments().for_each(|comment| comment.hash(into));
}

/// Gives up to seven bytes at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(7);
        self.0.read(&mut buffer[..most])
    }
}
