//! A source that yields what it is given, and files that are written from it.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use weir_capture::{
    Classify, Counts, Drained, Error, Filtered, Filters, Flow, Kernel, Moment, Record, Source, Take,
};
use weir_pcapng::{Direction, Event, Hash, HashAlgorithm, Interface, PacketFlags, Reader, Statistics};

/// Packets of two interfaces in turn, four of them in each step.
pub(crate) struct Scripted {
    pub(crate) packets: u32,
    pub(crate) filtered: Filtered,
    pub(crate) next: u32,
    pub(crate) is_stopped: bool,
}

impl Scripted {
    pub(crate) fn new(packets: u32) -> Scripted {
        Scripted { packets, filtered: Filtered::No, next: 0, is_stopped: false }
    }
}

/// Bytes of packet `number`.
pub(crate) fn bytes(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[7; 96]].concat()
}

impl Source for Scripted {
    fn drain(&mut self, take: &mut dyn Take) -> Result<Drained, Error> {
        if self.next == 0 {
            for name in ["port0", "port1"] {
                let interface = Interface { name: Some(name.to_owned()), ..Interface::new(1, 1000) };
                take.interface(&interface, self.filtered)?;
            }
        }
        for _ in 0..4 {
            if self.next == self.packets || self.is_stopped {
                return Ok(Drained::Ended);
            }
            let number = self.next;
            self.next += 1;
            let bytes = bytes(number);
            let record = Record {
                flags: Some(PacketFlags::default().with_direction(Direction::Inbound)),
                hash: Some(Hash { algorithm: HashAlgorithm::Toeplitz, bytes: &[0, 0, 0, 9] }),
                queue: Some(number % 3),
                packet_id: Some(u64::from(number) << 32),
                drops: u64::from(number),
                ..Record::new(number as usize % 2, 1_000 + u64::from(number), 1500, &bytes)
            };
            if take.record(&record)? == Flow::Pause {
                return Ok(Drained::More);
            }
        }
        Ok(Drained::Idle)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn counts(&mut self) -> Result<Vec<Counts>, Error> {
        let counts = Counts {
            received: Some(self.next.into()),
            accepted: Some(self.next.into()),
            interface_dropped: Some(1),
            os_dropped: Some(2),
            of_file: None,
        };
        Ok(vec![counts.clone(), counts])
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.is_stopped = true;
        Ok(())
    }
}

/// Keeps `bytes` bytes of packets whose number is a multiple of `every`.
#[derive(Clone)]
pub(crate) struct Every {
    every: u32,
    bytes: u32,
    /// How often it was asked for.
    pub(crate) asked: Rc<Cell<u32>>,
}

impl Every {
    pub(crate) fn of(every: u32, bytes: u32) -> Every {
        Every { every, bytes, asked: Rc::default() }
    }
}

impl Filters for Every {
    fn kernel(&self, _link_type: u16) -> Result<Kernel, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Kernel::Not)
    }

    fn user(&self, link_type: u16) -> Result<Box<dyn Classify>, Box<dyn std::error::Error + Send + Sync>> {
        self.asked.update(|asked| asked + 1);
        match link_type {
            1 => Ok(Box::new(self.clone())),
            _ => Err("of Ethernet alone".into()),
        }
    }
}

impl Classify for Every {
    fn keep(&mut self, record: &Record<'_>) -> u32 {
        let number = u32::from_be_bytes(record.bytes[..4].try_into().unwrap());
        if number.is_multiple_of(self.every) { self.bytes } else { 0 }
    }
}

/// An output whose bytes can be seen while it is written; it fails after `room` bytes.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) bytes: Rc<RefCell<Vec<u8>>>,
    pub(crate) room: usize,
}

impl Shared {
    pub(crate) fn new(room: usize) -> Shared {
        Shared { bytes: Rc::default(), room }
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.bytes.borrow_mut();
        let count = bytes.len().min(self.room - file.len());
        file.extend_from_slice(&bytes[..count]);
        if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn moment(s: u64) -> Moment {
    Moment { monotonic: Duration::from_secs(s), epoch_ns: s * 1_000_000_000 }
}

/// A packet as a line, and the statistics.
pub(crate) fn read(file: &[u8]) -> (Vec<String>, Vec<Statistics>) {
    let mut reader = Reader::new(file).unwrap();
    let (mut packets, mut statistics) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next().unwrap() {
        match event {
            Event::Packet(packet) => {
                let fields = packet.fields;
                packets.push(format!(
                    "{} at {} on {}: {} of {}, lost {}, id {}, queue {}, {:?}",
                    u32::from_be_bytes(packet.bytes[..4].try_into().unwrap()),
                    packet.time.unwrap(),
                    packet.interface,
                    packet.bytes.len(),
                    packet.wire_len,
                    fields.drop_count().unwrap_or(0),
                    fields.packet_id().unwrap() >> 32,
                    fields.queue().unwrap(),
                    fields.hashes().next().unwrap().algorithm,
                ));
            }
            Event::Statistics(_, of) => statistics.push(of.clone()),
            _ => {}
        }
    }
    (packets, statistics)
}
