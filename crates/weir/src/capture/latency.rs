//! `--latency`: how long an application takes from receiving a packet to sending it, by queue.
//!
//! Packets that have a number (epb_packetid) are known again when they are sent. What was not captured on both sides, since a filter or
//! a full ring left it out, is in no histogram.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use weir_capture::{Error, Moment, Record, Sink};
use weir_event::{MapSchema, MapValue, Schema, Type, hist_bucket, hist_buckets};
use weir_pcapng::{Interface, Names, Statistics};
use weir_report::{Entry, Format, NoSymbols, Report};

/// LIMIT: received packets that are remembered, the newest.
const WAITING_MAX: usize = 1 << 20;
/// Four buckets for each power of two.
const BITS: u8 = 2;
/// LIMIT: bytes of what names two queues; longer names are cut.
const KEY_BYTES: u32 = 128;

/// An interface's number, and a queue.
type At = (usize, u32);

/// What was measured.
#[derive(Default)]
pub(super) struct Latency {
    interfaces: Vec<String>,
    waiting: HashMap<u64, (At, u64)>,
    /// The numbers of those that were received, the oldest first.
    oldest: VecDeque<u64>,
    /// ns by where packets were received and sent.
    found: BTreeMap<(At, At), Vec<u64>>,
    received: u64,
    sent: u64,
}

impl Latency {
    /// A sink of a capture that counts here.
    pub(super) fn sink(latency: &Rc<RefCell<Latency>>) -> Box<dyn Sink> {
        Box::new(Measuring(Rc::clone(latency)))
    }

    fn packet(&mut self, record: &Record<'_>) {
        let Some(id) = record.packet_id else { return };
        let at = (record.interface, record.queue.unwrap_or(0));
        if !record.is_outgoing() {
            self.received += 1;
            self.oldest.push_back(id);
            self.waiting.insert(id, (at, record.time));
            while self.oldest.len() > WAITING_MAX
                && let Some(oldest) = self.oldest.pop_front()
            {
                self.waiting.remove(&oldest);
            }
            return;
        }
        let Some((from, time)) = self.waiting.remove(&id) else { return };
        self.sent += 1;
        let ns = i64::try_from(record.time.saturating_sub(time)).unwrap_or(i64::MAX);
        let buckets = self.found.entry((from, at));
        let buckets = buckets.or_insert_with(|| vec![0; hist_buckets(BITS) as usize]);
        buckets[hist_bucket(ns, BITS) as usize] += 1;
    }

    /// A histogram for each pair of queues, as scripts print them.
    pub(super) fn text(&self) -> String {
        let name = |(interface, queue): At| format!("{}:{queue}", self.interfaces[interface]);
        let entry = |(&(from, to), buckets): (&(At, At), &Vec<u64>)| {
            let mut key = format!("{} -> {}", name(from), name(to)).into_bytes();
            // A zero ends it.
            key.truncate(KEY_BYTES as usize - 1);
            key.resize(KEY_BYTES as usize, 0);
            Entry::of(key, buckets.iter().flat_map(|count| count.to_le_bytes()).collect())
        };
        let entries: Vec<Entry> = self.found.iter().map(entry).collect();
        let map = MapSchema {
            name: "@latency_ns".to_owned(),
            map_index: 0,
            key: Some(Type::Str { bytes: KEY_BYTES }),
            value: MapValue::Hist { bits: BITS },
            room: None,
        };
        let schema = Schema { maps: vec![map], ..Schema::default() };
        let mut text = Vec::new();
        // SANITY: writing to memory does not fail.
        Report::new(&mut text, Format::Text)
            .map(&schema, 0, &entries, 0, 0, &NoSymbols)
            .expect("there is memory");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// How many of the packets are in it.
    pub(super) fn summary(&self) -> String {
        format!("{} of {} packets that were received with a number were seen sent", self.sent, self.received)
    }
}

struct Measuring(Rc<RefCell<Latency>>);

impl Sink for Measuring {
    fn interface(&mut self, interface: &Interface) -> Result<(), Error> {
        let interfaces = &mut self.0.borrow_mut().interfaces;
        let name = interface.name.clone().unwrap_or_else(|| interfaces.len().to_string());
        interfaces.push(weir_source::printable(&name).to_string());
        Ok(())
    }

    fn packet(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.0.borrow_mut().packet(record);
        Ok(())
    }

    fn secrets(&mut self, _: u32, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn names(&mut self, _: &Names<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn is_full(&self, _: Moment) -> bool {
        false
    }

    fn rotate(&mut self, _: Moment, _: &[Statistics]) -> Result<(), Error> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self, _: &[Statistics]) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_pcapng::{Direction, PacketFlags};

    use super::*;

    fn packet(latency: &mut Latency, interface: usize, direction: Direction, (id, time): (u64, u64)) {
        let record = Record {
            flags: Some(PacketFlags::from_bits(0).with_direction(direction)),
            queue: Some(1),
            packet_id: Some(id),
            ..Record::new(interface, time, 60, &[])
        };
        latency.packet(&record);
    }

    #[test]
    fn a_packet_that_is_received_and_sent_is_counted_between_its_queues() {
        let mut latency = Latency { interfaces: vec!["a".to_owned(), "b".to_owned()], ..Latency::default() };
        packet(&mut latency, 0, Direction::Inbound, (1, 1000));
        packet(&mut latency, 0, Direction::Inbound, (2, 1010));
        packet(&mut latency, 1, Direction::Outbound, (1, 1500));
        packet(&mut latency, 1, Direction::Outbound, (7, 1500));
        // Sent once more, by another queue: it is not received twice.
        packet(&mut latency, 0, Direction::Outbound, (1, 1600));
        let text = latency.text();
        assert!(text.starts_with("@latency_ns[a:1 -> b:1]:\n[448, 512)             1 |@@@@"), "{text}");
        assert_eq!(latency.summary(), "1 of 2 packets that were received with a number were seen sent");
    }

    #[test]
    fn what_is_never_sent_is_forgotten() {
        let mut latency = Latency { interfaces: vec!["a".to_owned()], ..Latency::default() };
        for id in 0..WAITING_MAX as u64 + 10 {
            packet(&mut latency, 0, Direction::Inbound, (id, id));
        }
        assert_eq!((latency.waiting.len(), latency.oldest.len()), (WAITING_MAX, WAITING_MAX));
        packet(&mut latency, 0, Direction::Outbound, (3, 5000));
        assert_eq!(latency.sent, 0);
    }
}
