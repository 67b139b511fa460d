//! The bytes that the controller and a target agree on: segment header, descriptor, control block, journal entry, meter; and
//! what other weirs read, the stats page.
//!
//! docs/segment.md describes them for readers; a test here pins both that page and the C half (`c/weir.h`). All
//! integers are little endian.

use crate::limits::{ISLANDS_MAX, LABEL_BYTES_MAX, PROBE_WORDS, STATS_PAGE_NAME_BYTES_MAX};

/// "WEIRSEG1".
pub const MAGIC: u64 = u64::from_le_bytes(*b"WEIRSEG1");
/// Raised whenever a byte changes its meaning.
pub const ABI_VERSION: u32 = 5;
/// What a segment holds: its header says which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum SegmentKind {
    /// Maps, claims, counters, clock: of one session, and mapped by every process that it traces.
    Maps = 1,
    /// The undo journal: of one traced process, and mapped by it alone.
    Target = 2,
}

/// The header is the segment's first page.
pub const HEADER_BYTES: usize = 4096;

/// Byte offsets in the header. MAGIC, ABI_VERSION, CONTROLLER_PID, CONTROLLER_START and TARGET_PID are the same in every
/// version: by them another version's weir is known to live.
pub mod header {
    pub const MAGIC: usize = 0;
    pub const ABI_VERSION: usize = 8;
    pub const HEADER_BYTES: usize = 12;
    pub const SESSION: usize = 16;
    pub const LAYOUT_HASH: usize = 24;
    pub const SEGMENT_BYTES: usize = 32;
    pub const MAP_COUNT: usize = 40;
    pub const CPUS: usize = 44;
    pub const JOURNAL_OFFSET: usize = 48;
    pub const JOURNAL_CAPACITY: usize = 56;
    pub const JOURNAL_ENTRY_BYTES: usize = 60;
    pub const CONTROLLER_PID: usize = 64;
    pub const UID: usize = 68;
    pub const CONTROLLER_START: usize = 72;
    pub const STARTED_NS: usize = 80;
    pub const TARGET_PID: usize = 88;
    pub const LABEL_BYTES: usize = 92;
    pub const LABEL: usize = 96;
    pub const CLAIMS_OFFSET: usize = 192;
    pub const CLAIM_LANES: usize = 200;
    pub const KIND: usize = 204;
    pub const PLACE_MAPS: usize = 208;
    pub const STATS_PAGE_OFFSET: usize = 216;
    pub const STATS_PAGE_LINES: usize = 224;
    pub const STATS_PAGE_LINE_BYTES: usize = 228;
    pub const PLACE_SEGMENT: usize = 256;
    pub const PLACE_GATE: usize = 264;
    pub const PLACE_ISLAND_COUNT: usize = 272;
    pub const PLACE_ISLANDS: usize = 280;
    pub const PLACE_STUBS: usize = 536;
    pub const PLACE_RESTORERS: usize = 568;
    pub const RANDOM: usize = 600;
    pub const CLOCK: usize = 640;
    /// Not 0 in its low half while the controller lives: a robust futex, with its holder's id.
    pub const LEASE: usize = 704;
    /// Always 0: what a gate leads to in place of the lease where it is shut. The two addresses differ in one bit.
    pub const SHUT: usize = 712;
    pub const ANNOUNCE: usize = 768;
    pub const FILTER: usize = 832;
    pub const CGROUP: usize = 840;
    /// In a process's own: not 0 where its forked children wait to be probed.
    pub const FORKED: usize = 848;
    /// Always 1, and always 0: what gates lead to that are open, or shut, whether or not the controller lives. As for
    /// the lease, the addresses differ in one bit; and their lowest bytes are the lease's.
    pub const READS_ALWAYS: usize = 960;
    pub const READS_NEVER: usize = 968;
    pub const READS_STATE: usize = 976;
    pub const READS_AREA: usize = 984;
    pub const COUNTERS: usize = 1024;
    pub const PROBE_WORDS: usize = 2048;
}

/// Counters in the header, by index from [`header::COUNTERS`].
pub mod counter {
    pub const SLOW_READS: usize = 0;
    pub const READ_FAULTS: usize = 1;
    pub const READS_DENIED: usize = 2;
    pub const COMM_CALLS: usize = 3;
    pub const COMM_DENIED: usize = 4;
    pub const TID_DENIED: usize = 5;
    pub const OTHER_CALLS: usize = 6;
    pub const OTHER_DENIED: usize = 7;
    pub const PRINTS_DROPPED: usize = 8;
    pub const LANES_EXHAUSTED: usize = 9;
    pub const TAIL_DEPTH: usize = 10;
    pub const NO_RECORD: usize = 11;
    pub const COUNT: usize = 12;
}

/// Where in a segment a counter lies.
pub fn counter_offset(counter: usize) -> u64 {
    (header::COUNTERS + counter * 8) as u64
}

/// Words of announcements in the header (`struct weir_announce` of `c/weir.h`), 8 bytes each, of which the lower half
/// counts.
pub mod announce {
    pub const OPEN: usize = 0;
    pub const ANNOUNCED: usize = 1;
    pub const TAKEN: usize = 2;
    pub const ANSWERED: usize = 3;
    pub const LATE: usize = 4;
    pub const GAVE_UP: usize = 5;
    pub const WORDS: usize = 6;
}

/// Words of the clock in the header (`struct weir_clock` of `c/weir.h`), one cache line: 0 where there is none, or twice
/// the number of the line that was published last, odd while the next is written; then two lines, each {ticks, ns,
/// rate}, of which line n is the one at n modulo 2.
pub mod clock {
    pub const LINES: usize = 1;
    pub const LINE_WORDS: usize = 3;
    pub const WORDS: usize = LINES + 2 * LINE_WORDS;
}

/// `struct weir_map` of `c/weir.h`: what a helper takes as a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Descriptor {
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub max_entries: u32,
    pub elem_stride: u32,
    pub lanes: u32,
    pub lane_stride: u64,
    pub control: u64,
    pub data: u64,
    pub buckets: u64,
    pub nodes: u64,
    pub bucket_mask: u32,
    pub node_stride: u32,
    pub node_count: u32,
    pub key_stride: u32,
    pub seed: u64,
    pub cpus: u32,
    pub claim_lanes: u32,
    pub hashes: u64,
    pub descriptors: u64,
    pub map_count: u32,
    pub inner: u32,
    pub all_cpus: u32,
    pub reserved: u32,
}

/// What is known of a process's memory (`struct weir_reads` and `struct weir_known` of `c/weir.h`).
pub mod reads {
    /// Bits of the state.
    pub const KIND: u64 = 3;
    pub const OFF: u64 = 0;
    pub const VALID: u64 = 1;
    pub const STALE: u64 = 2;
    pub const CLOSED: u64 = 4;
    /// Closed, and of no kind: another weir has taken the process over.
    pub const TAKEN_OVER: u64 = CLOSED | KIND;
    pub const EPOCH: u64 = 8;
    pub const TURN: u64 = 1 << 32;
    /// Ranges in a table, and calls that are noted.
    pub const RANGES: usize = 255;
    pub const CALLS: usize = 256;
    /// Bits of a call's key.
    pub const CALL_BUSY: u64 = 1;
    /// Byte offsets in the area, and its size.
    pub const MISSED: u64 = 0;
    pub const WHY: u64 = 8;
    pub const HINTS: u64 = 16;
    pub const KEYS: u64 = 64;
    pub const CALL_RANGES: u64 = KEYS + CALLS as u64 * 8;
    pub const TABLES: u64 = CALL_RANGES + CALLS as u64 * 16;
    pub const TABLE_BYTES: u64 = 16 + RANGES as u64 * 16;
    pub const BYTES: u64 = TABLES + 2 * TABLE_BYTES;
}

/// Bytes of a [`Descriptor`].
pub const DESCRIPTOR_BYTES: u64 = 128;

impl Descriptor {
    /// The bytes as they stand next to the code in an island.
    pub fn to_bytes(&self) -> [u8; DESCRIPTOR_BYTES as usize] {
        let mut bytes = [0; DESCRIPTOR_BYTES as usize];
        let words32 = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        let words = [
            words32(self.kind, self.key_bytes),
            words32(self.value_bytes, self.max_entries),
            words32(self.elem_stride, self.lanes),
            self.lane_stride,
            self.control,
            self.data,
            self.buckets,
            self.nodes,
            words32(self.bucket_mask, self.node_stride),
            words32(self.node_count, self.key_stride),
            self.seed,
            words32(self.cpus, self.claim_lanes),
            self.hashes,
            self.descriptors,
            words32(self.map_count, self.inner),
            words32(self.all_cpus, self.reserved),
        ];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Bytes of the control block at the start of each map's area.
pub const CONTROL_BYTES: u64 = 256;

/// Byte offsets in a map's control block.
pub mod control {
    pub const FREE_OR_PRODUCER: u64 = 0;
    pub const SPARE_OR_CONSUMER: u64 = 64;
    pub const TOP_PLACE: u64 = 72;
    /// Two words, of which the lowest bit of SPARE_OR_CONSUMER says which one counts.
    pub const OVERWRITTEN: u64 = 72;
    pub const FRESH: u64 = 128;
    pub const WRITER: u64 = 128;
    pub const FRESH_SPARE: u64 = 136;
    pub const TAIL: u64 = 144;
    pub const HAND: u64 = 152;
    pub const CHANGES: u64 = 160;
    pub const FULL: u64 = 192;
    pub const CONTENDED: u64 = 200;
    pub const DROPPED: u64 = 208;
    pub const CORRUPT: u64 = 216;
    pub const EVICTED: u64 = 224;
    pub const WITHHELD: u64 = 232;
    pub const OUTGROWN: u64 = 240;
    pub const WAITED: u64 = 248;
}

/// Bytes from the claim of one lane to the next one's.
pub const CLAIM_STRIDE: u64 = 64;
/// What a claim holds: this bit, and in the bits below the thread's id, or 0 where it is not known without a system
/// call. 0: the lane is free.
pub const CLAIM_TAKEN: u32 = 1 << 31;

/// Bytes before the key in a hash node: link, small value, hash.
pub const NODE_HEADER_BYTES: u32 = 24;
/// Byte offset of a value of at most 8 bytes in its node.
pub const NODE_SMALL_VALUE: u64 = 8;

/// Bytes before the value in a node of a queue or stack: its link.
pub const ELEMENT_HEADER_BYTES: u32 = 8;

/// Bits of a link, and of a slot's or position's word in a queue: node index + 1 or slot, full, lap.
pub mod link {
    pub const INDEX: u64 = (1 << 25) - 1;
    pub const FULL: u64 = 1 << 25;
    pub const LAP: u64 = 1 << 26;
}

/// Bytes before the addresses in a bucket of stacks: state 8, hash 4, count 4.
pub const STACK_HEADER_BYTES: u32 = 16;

/// The state of a bucket of stacks: a version above these bits.
pub mod stack {
    pub const EMPTY: u64 = 0;
    pub const FULL: u64 = 2;
    pub const STATE: u64 = 3;
    pub const VERSION: u64 = 4;
}

/// A place between two elements of a map (`struct weir_cursor` of `c/weir.h`). Zeros are before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cursor {
    pub bucket: u64,
    pub hash: u64,
    pub index: u64,
    /// Address of the key that came last; of an array's, that of `index`.
    pub key: u64,
    /// Elements that came.
    pub count: u64,
}

const _: () = assert!(size_of::<Cursor>() == 40 && std::mem::offset_of!(Cursor, key) == 24);

/// Bits of a ring record's header.
pub mod record {
    pub const USED: u64 = 1;
    pub const BUSY: u64 = 2;
    pub const DISCARD: u64 = 4;
    /// While a record is busy, above these and below its size: the id of the thread that writes it; 0: not known.
    pub const WRITER_SHIFT: u32 = 3;
    pub const SIZE_SHIFT: u32 = 32;
}

/// In which bit the address of [`header::SHUT`] differs from that of [`header::LEASE`]: a gate is opened and shut by one byte,
/// and whoever reads it meanwhile finds the one or the other.
pub const SHUT_BIT: u64 = 8;

/// Bytes of a site's meter: a cache line.
pub const METER_BYTES: u64 = 64;

/// Byte offsets in a meter.
pub mod meter {
    /// What hits do that find the gate shut (4 bytes): [`CLOSED`], [`HELD_BACK`], or run, one of so many (a power of two).
    pub const HOW: usize = 0;
    /// Hits before this one are timed, where every hit runs.
    pub const UNTIL: usize = 8;
    /// Hits that ran, and were counted here.
    pub const HITS: usize = 16;
    /// Hits of which one of so many runs, and those of them that ran.
    pub const TURNS: usize = 24;
    pub const TAKEN: usize = 32;
    /// Hits that were timed, and the ticks that they took, with their returns.
    pub const TIMED: usize = 40;
    pub const TICKS: usize = 48;

    /// Nothing runs, at neither end of a call.
    pub const CLOSED: u32 = 0;
    /// No entry runs; returns of entries that did run do.
    pub const HELD_BACK: u32 = u32::MAX;
}

/// Bytes of a journal entry: address u64, length u32, state u32, old 16, new 16, check u64, zero u64.
pub const JOURNAL_ENTRY_BYTES: usize = 64;

/// Byte offsets in a journal entry.
pub mod journal {
    pub const ADDRESS: usize = 0;
    pub const LEN: usize = 8;
    /// Set in LEN: the entry is of a counter of 2 bytes, not of text.
    pub const COUNTER: u32 = 0x100;
    /// Set in LEN: no probe stands there, but a hook that weir needs itself.
    pub const OWN: u32 = 0x200;
    pub const STATE: usize = 12;
    pub const OLD: usize = 16;
    pub const NEW: usize = 32;
    pub const CHECK: usize = 48;
}

/// Bytes of a stats page before its lines, and of each of them.
pub const STATS_PAGE_HEAD_BYTES: usize = 64;
pub const STATS_PAGE_LINE_BYTES: usize = 256;

/// Bytes of a stats page of so many lines; none has none.
pub fn stats_page_bytes(lines: u32) -> u64 {
    if lines == 0 {
        0
    } else {
        STATS_PAGE_HEAD_BYTES as u64 + u64::from(lines) * STATS_PAGE_LINE_BYTES as u64
    }
}

/// Byte offsets in a stats page.
pub mod stats_page {
    /// 0 before the first, odd while one is being written.
    pub const SEQUENCE: usize = 0;
    pub const WRITTEN_NS: usize = 8;
    pub const CPU: usize = 16;
    pub const RECORDS_LOST: usize = 24;
    /// How many are meant.
    pub const LINES: usize = 32;
}

/// Byte offsets in a line of a stats page. A word of all ones is not known.
pub mod line {
    pub const NAME_BYTES: usize = 0;
    pub const ONE_IN: usize = 4;
    pub const RATE: usize = 8;
    pub const TIME: usize = 16;
    pub const COST: usize = 24;
    pub const HITS: usize = 32;
    pub const HITS_ABOUT: usize = 40;
    pub const MISSED: usize = 48;
    pub const MISSED_ABOUT: usize = 56;
    pub const ARMED: usize = 64;
    pub const SAMPLED: usize = 68;
    pub const SHUT: usize = 72;
    pub const WITHDRAWN: usize = 76;
    pub const NAME: usize = 80;
}

const _: () = assert!(header::STATS_PAGE_LINE_BYTES + 4 <= header::PLACE_SEGMENT);
const _: () = assert!(stats_page::LINES + 8 <= STATS_PAGE_HEAD_BYTES);
const _: () = assert!(line::NAME + STATS_PAGE_NAME_BYTES_MAX == STATS_PAGE_LINE_BYTES);
const _: () = assert!(size_of::<Descriptor>() == DESCRIPTOR_BYTES as usize);
const _: () = assert!(header::LABEL + LABEL_BYTES_MAX < header::CLAIMS_OFFSET);
const _: () = assert!(header::PLACE_ISLANDS + ISLANDS_MAX * 16 <= header::PLACE_STUBS);
const _: () = assert!(header::PLACE_RESTORERS + 16 <= header::RANDOM);
const _: () = assert!(header::RANDOM / 64 < header::CLOCK / 64, "random numbers write to their cache line");
const _: () = assert!(header::CLOCK.is_multiple_of(64) && clock::WORDS * 8 <= 64);
const _: () = assert!(header::CLOCK + 64 <= header::LEASE);
const _: () =
    assert!(header::SHUT == header::LEASE | SHUT_BIT as usize && header::LEASE & SHUT_BIT as usize == 0);
const _: () = assert!(header::SHUT + 8 <= header::COUNTERS);
const _: () = assert!(header::FILTER + 8 == header::CGROUP, "one cache line, which is seldom written");
const _: () = assert!(header::CGROUP + 8 == header::FORKED && header::FORKED + 8 <= header::READS_ALWAYS);
const _: () = assert!(header::READS_NEVER == header::READS_ALWAYS | SHUT_BIT as usize);
const _: () =
    assert!(header::READS_ALWAYS as u8 == header::LEASE as u8 && header::READS_AREA + 8 <= header::COUNTERS);
const _: () = assert!(reads::BYTES == 64 + 2048 + 4096 + 2 * 4096);
const _: () = assert!(meter::TICKS + 8 <= METER_BYTES as usize);
const _: () = assert!(header::COUNTERS + counter::COUNT * 8 <= header::PROBE_WORDS);
const _: () = assert!(header::PROBE_WORDS + PROBE_WORDS * 8 <= HEADER_BYTES);
