//! What stands before records in a packet, and before each of them: the bytes that [`super::layout`] describes.
//!
//! All of it little-endian and without gaps, so that records can be copied in behind it wherever they lie:
//!
//! | bytes | of the packet |
//! |---|---|
//! | 0–4, 4–20 | magic, the trace's UUID |
//! | 20–28, 28–36 | number of the stream's class, and of the stream |
//! | 36–44, 44–52 | times of its beginning and its end |
//! | 52–60, 60–68 | bits of content, and with what is empty behind |
//! | 68–76, 76–84 | its number in the stream, and how many events the stream has lost so far |
//! | 84–88 | the processor |
//!
//! A record begins with a `u16`, its event, and the lowest 32 bits of its time; or with 65535, the event as a `u32` and the whole time.

/// Bytes before the first record.
pub const CONTEXT_BYTES: usize = 88;

/// The most that stands before a record's own bytes.
pub const RECORD_HEADER_BYTES_MAX: usize = 14;

/// The same before one whose time is near that of the one before, and whose event has a small number.
pub const RECORD_HEADER_BYTES: usize = 6;

/// What stands for "the long form follows".
pub(crate) const EXTENDED: u16 = 0xffff;

const MAGIC: u32 = 0xc1fc_1fc1;

/// What is known when a packet begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Of the trace.
    pub uuid: [u8; 16],
    /// Number of the stream's class.
    pub class: u64,
    /// Number of the stream among those of its class.
    pub id: u64,
    /// The CPU whose events the stream has.
    pub cpu: u32,
    /// Number of the packet in the stream.
    pub sequence: u64,
    /// Of its first record, or before.
    pub time: u64,
}

/// What is known when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Of its last record, or later.
    pub time: u64,
    /// Events that the stream has lost since it began.
    pub discarded: u64,
    /// The packet's bytes, with what is left empty behind its content.
    pub packet_bytes: u64,
}

/// Adds the bytes of a packet's beginning, those of its end still empty.
pub fn begin(of: &Begin, packet: &mut Vec<u8>) {
    packet.extend(MAGIC.to_le_bytes());
    packet.extend(of.uuid);
    for word in [of.class, of.id, of.time, 0, 0, 0, of.sequence, 0] {
        packet.extend(word.to_le_bytes());
    }
    packet.extend(of.cpu.to_le_bytes());
}

/// Fills in what was left empty: the content is all that the packet has so far.
///
/// # Panics
/// If it has less than [`CONTEXT_BYTES`].
pub fn end(of: &End, packet: &mut [u8]) {
    let content = packet.len() as u64 * 8;
    for (at, word) in [(44, of.time), (52, content), (60, of.packet_bytes * 8), (76, of.discarded)] {
        packet[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Adds what stands before a record's own bytes. `last`: the time of the record before, or of the packet's beginning.
#[inline]
pub fn record_header(event: u32, time: u64, last: u64, packet: &mut Vec<u8>) {
    match u16::try_from(event) {
        // Of 32 bits a reader makes a time that is less than their range behind the last one.
        Ok(event) if event != EXTENDED && time.wrapping_sub(last) <= u64::from(u32::MAX) => {
            packet.extend(event.to_le_bytes());
            packet.extend((time as u32).to_le_bytes());
        }
        _ => {
            packet.extend(EXTENDED.to_le_bytes());
            packet.extend(event.to_le_bytes());
            packet.extend(time.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(event: u32, time: u64, last: u64) -> Vec<u8> {
        let mut packet = Vec::new();
        record_header(event, time, last, &mut packet);
        packet
    }

    fn long(event: u32, time: u64) -> Vec<u8> {
        [&[0xff, 0xff][..], &event.to_le_bytes(), &time.to_le_bytes()].concat()
    }

    #[test]
    fn a_header_is_short_up_to_the_last_event_that_is_not_the_mark_of_a_long_one() {
        assert_eq!(header(0xfffe, 7, 0), [0xfe, 0xff, 7, 0, 0, 0]);
        for event in [0xffff, 0x1_0000, u32::MAX] {
            assert_eq!(header(event, 7, 0), long(event, 7), "{event}");
        }
    }

    #[test]
    fn a_time_is_short_while_its_lowest_32_bits_say_which_it_is() {
        let last = 0x12_8000_0000;
        assert_eq!(header(3, last, last), [3, 0, 0, 0, 0, 0x80]);
        let furthest = last + u64::from(u32::MAX);
        assert_eq!(header(3, furthest, last), [3, 0, 0xff, 0xff, 0xff, 0x7f]);
        for time in [furthest + 1, furthest + 2, u64::MAX, last - 1] {
            assert_eq!(header(3, time, last), long(3, time), "{time}");
        }
    }
}
