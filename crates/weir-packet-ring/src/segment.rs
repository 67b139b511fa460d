//! A segment: made by the reader's process, opened by the writers'.
//!
//! Its maker seals its size and allocates its pages. Who opens it checks both, and every number of the header, and goes by
//! its own copy from then on.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::{self, Layout, header, ring};
use crate::limits::{CAPTURED_BYTES_MAX, PROGRAM_INSNS_MAX, RING_BYTES_MAX, RING_BYTES_MIN, RINGS_MAX};
use crate::mapping::Mapping;
use crate::reader::Reader;
use crate::writer::Writer;

/// Which way packets go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// They were received.
    Rx,
    /// They are to be sent.
    Tx,
}

/// As in `receive queue 0`.
impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Direction::Rx => "receive",
            Direction::Tx => "transmit",
        })
    }
}

/// Whose packets a ring holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RingSpec {
    /// The port's number in the application.
    pub port: u16,
    /// The queue's number at the port.
    pub queue: u16,
    /// Of the packets.
    pub direction: Direction,
}

/// What a segment is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// One ring each.
    pub rings: Vec<RingSpec>,
    /// Of each ring: a power of two, `limits` has the range.
    pub ring_bytes: u64,
    /// The filter: instructions of eBPF as they lie in memory; none keeps every packet.
    pub program: Vec<[u8; 8]>,
    /// Bytes that are kept of a packet at most.
    pub snaplen: u32,
    /// Packets get numbers by which they are known again.
    pub has_ids: bool,
}

/// Why a segment is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(String);

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What became of the packets of a ring. While its writer is at work, one may be ahead of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets that were looked at.
    pub received: u64,
    /// Those that the filter did not keep.
    pub filtered: u64,
    /// Those that are in the ring, or were.
    pub written: u64,
    /// Those that found no room, or came by a second thread while one was at work.
    pub dropped: u64,
}

/// A segment of shared memory.
#[derive(Clone, Debug)]
pub struct Segment {
    mapping: Arc<Mapping>,
    layout: Layout,
    plan: Arc<Plan>,
}

impl Segment {
    /// Makes one.
    ///
    /// # Errors
    /// `InvalidInput` where the plan is outside `limits`; those of memfd_create(2), fallocate(2) and mmap(2).
    pub fn create(plan: Plan) -> io::Result<Segment> {
        check(&plan).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        let layout = Layout::of(plan.rings.len() as u64, plan.ring_bytes, plan.program.len() as u64);
        let mapping = Mapping::create(layout.bytes)?;
        let put = |at, word| mapping.word(at).store(word, Ordering::Relaxed);
        for (index, ring) in plan.rings.iter().enumerate() {
            put(header::SPECS + 8 * index as u64, spec_word(*ring));
        }
        for (index, insn) in plan.program.iter().enumerate() {
            put(layout.program + 8 * index as u64, u64::from_le_bytes(*insn));
        }
        put(header::VERSION, layout::VERSION);
        put(header::BYTES, layout.bytes);
        put(header::RINGS, layout.rings);
        put(header::RING_BYTES, layout.ring_bytes);
        put(header::PROGRAM_INSNS, layout.program_insns);
        put(header::SNAPLEN, u64::from(plan.snaplen));
        put(header::OPTIONS, u64::from(plan.has_ids) * layout::OPTION_IDS);
        mapping.word(header::MAGIC).store(layout::MAGIC, Ordering::Release);
        Ok(Segment { mapping: Arc::new(mapping), layout, plan: Arc::new(plan) })
    }

    /// Opens one that another process has made.
    ///
    /// # Errors
    /// Where the file is not sealed, is no segment or one of another version, or says of itself what cannot be.
    pub fn open(fd: OwnedFd) -> Result<Segment, Fault> {
        let (mapping, bytes) = Mapping::open(fd).map_err(Fault)?;
        if bytes < header::SPECS {
            return Err(Fault(format!("{bytes} bytes are no segment of packets")));
        }
        let get = |at| mapping.word(at).load(Ordering::Acquire);
        if get(header::MAGIC) != layout::MAGIC {
            return Err(Fault("the file is no segment of packets".to_owned()));
        }
        let version = get(header::VERSION);
        if version != layout::VERSION {
            return Err(Fault(format!(
                "the segment has version {version}, and {} is known here: both sides have to be of one release",
                layout::VERSION
            )));
        }
        let (rings, ring_bytes) = (get(header::RINGS), get(header::RING_BYTES));
        let (insns, snaplen) = (get(header::PROGRAM_INSNS), get(header::SNAPLEN));
        let is_known = rings <= RINGS_MAX as u64
            && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes)
            && insns <= PROGRAM_INSNS_MAX as u64
            && snaplen <= u64::from(CAPTURED_BYTES_MAX);
        if !is_known {
            return Err(Fault(format!(
                "the segment says {rings} rings of {ring_bytes} bytes, {insns} instructions and {snaplen} bytes a packet, \
                 which is outside what segments have"
            )));
        }
        let layout = Layout::of(rings, ring_bytes, insns);
        if layout.bytes != bytes {
            return Err(Fault(format!("the segment needs {} bytes, and its file has {bytes}", layout.bytes)));
        }
        let plan = Plan {
            rings: (0..rings)
                .map(|index| spec_of(get(header::SPECS + 8 * index)))
                .collect::<Result<_, _>>()?,
            ring_bytes,
            program: (0..insns).map(|index| get(layout.program + 8 * index).to_le_bytes()).collect(),
            snaplen: snaplen as u32,
            has_ids: get(header::OPTIONS) & layout::OPTION_IDS != 0,
        };
        check(&plan).map_err(Fault)?;
        Ok(Segment { mapping: Arc::new(mapping), layout, plan: Arc::new(plan) })
    }

    /// What it was made for, as it was when it was made or opened.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Its file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.mapping.fd()
    }

    /// The writing end of a ring, which begins as empty.
    ///
    /// # Panics
    /// If there are not so many rings.
    pub fn writer(&self, index: usize) -> Writer {
        Writer::new(Arc::clone(&self.mapping), self.page(index), self.layout.ring_bytes)
    }

    /// The reading end of a ring.
    ///
    /// # Panics
    /// If there are not so many rings.
    pub fn reader(&self, index: usize) -> Reader {
        Reader::new(Arc::clone(&self.mapping), self.page(index), self.layout.ring_bytes)
    }

    /// What became of a ring's packets.
    ///
    /// # Panics
    /// If there are not so many rings.
    pub fn counters(&self, index: usize) -> Counters {
        let page = self.page(index);
        let get = |at| self.mapping.word(page + at).load(Ordering::Acquire);
        Counters {
            received: get(ring::RECEIVED),
            filtered: get(ring::FILTERED),
            written: get(ring::WRITTEN),
            dropped: get(ring::DROPPED),
        }
    }

    fn page(&self, index: usize) -> u64 {
        assert!(index < self.plan.rings.len(), "ring {index} of {}", self.plan.rings.len());
        self.layout.ring(index)
    }
}

fn check(plan: &Plan) -> Result<(), String> {
    let Plan { rings, ring_bytes, program, snaplen, .. } = plan;
    if rings.is_empty() || rings.len() > RINGS_MAX {
        return Err(format!("{} rings; a segment has 1 to {RINGS_MAX}", rings.len()));
    }
    if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(ring_bytes) {
        return Err(format!(
            "a ring of {ring_bytes} bytes; it has a power of two from {RING_BYTES_MIN} to {RING_BYTES_MAX}"
        ));
    }
    if program.len() > PROGRAM_INSNS_MAX {
        return Err(format!("a filter of {} instructions; the limit is {PROGRAM_INSNS_MAX}", program.len()));
    }
    if *snaplen == 0 || *snaplen > CAPTURED_BYTES_MAX {
        return Err(format!("{snaplen} bytes of a packet; 1 to {CAPTURED_BYTES_MAX} can be kept"));
    }
    let mut seen = BTreeSet::new();
    match rings.iter().find(|ring| !seen.insert(**ring)) {
        Some(ring) => Err(format!("two rings for {ring:?}")),
        None => Ok(()),
    }
}

fn spec_word(spec: RingSpec) -> u64 {
    let direction = match spec.direction {
        Direction::Rx => 0,
        Direction::Tx => 1,
    };
    u64::from(spec.port) | u64::from(spec.queue) << 16 | direction << 32
}

fn spec_of(word: u64) -> Result<RingSpec, Fault> {
    let direction = match word >> 32 {
        0 => Direction::Rx,
        1 => Direction::Tx,
        other => return Err(Fault(format!("a ring of direction {other}, which is none"))),
    };
    Ok(RingSpec { port: word as u16, queue: (word >> 16) as u16, direction })
}
