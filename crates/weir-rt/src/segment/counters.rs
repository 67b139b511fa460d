//! Every counter of a segment, copied: what was lost, refused or slow, by name.

use std::sync::atomic::Ordering;

use super::Segment;
use super::ring::RingCounters;
use crate::abi::{self, control, counter};
use weir_ebpf::MapKind;

/// A copy of the header's counters and of each map's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads by process_vm_readv, and those of them that met a bad address.
    pub slow_reads: u64,
    pub read_faults: u64,
    /// System calls of slow reads that the kernel or seccomp refused.
    pub reads_denied: u64,
    /// Uses of `comm`, and those that seccomp refused.
    pub comm_calls: u64,
    pub comm_denied: u64,
    /// Uses of `tid` that seccomp would have refused; they gave 0.
    pub tid_denied: u64,
    /// System calls that other helpers made (ids of users, signals), and those that seccomp would have refused.
    pub other_calls: u64,
    pub other_denied: u64,
    /// Texts of `trace_printk` that nobody took.
    pub prints_dropped: u64,
    /// Runs that were skipped because every lane was claimed.
    pub lanes_exhausted: u64,
    /// Returns that were not seen because tail calls nested too deep.
    pub tail_depth: u64,
    /// Returns that were not seen because no record was free.
    pub no_record: u64,
    /// In map order.
    pub maps: Vec<MapCounters>,
}

/// What happened to one map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapCounters {
    /// Updates refused with E2BIG: the map was full.
    pub full: u64,
    /// Updates refused with E2BIG because the map had not grown yet, or may not.
    pub outgrown: u64,
    /// Operations given up after their budget of steps.
    pub contended: u64,
    /// Impossible values met: the segment was corrupted.
    pub corrupt: u64,
    /// Ring: records refused because the ring was full, and those that gave way to newer ones.
    pub dropped: u64,
    /// LRU: keys given up to make room for others.
    pub evicted: u64,
    /// Ring: records that a dead target reserved and never submitted.
    pub uncommitted: u64,
}

impl Counters {
    pub(super) fn read(segment: &Segment) -> Counters {
        let word = |n: usize| segment.mapping().word(abi::counter_offset(n)).load(Ordering::Relaxed);
        Counters {
            slow_reads: word(counter::SLOW_READS),
            read_faults: word(counter::READ_FAULTS),
            reads_denied: word(counter::READS_DENIED),
            comm_calls: word(counter::COMM_CALLS),
            comm_denied: word(counter::COMM_DENIED),
            tid_denied: word(counter::TID_DENIED),
            other_calls: word(counter::OTHER_CALLS),
            other_denied: word(counter::OTHER_DENIED),
            prints_dropped: word(counter::PRINTS_DROPPED),
            lanes_exhausted: word(counter::LANES_EXHAUSTED),
            tail_depth: word(counter::TAIL_DEPTH),
            no_record: word(counter::NO_RECORD),
            maps: (0..segment.layout().maps.len()).map(|index| MapCounters::read(segment, index)).collect(),
        }
    }
}

impl MapCounters {
    fn read(segment: &Segment, index: usize) -> MapCounters {
        let map = &segment.layout().maps[index];
        let word = |at: u64| segment.mapping().word(map.offset + at).load(Ordering::Relaxed);
        let ring = match map.spec.kind {
            MapKind::RingBuf if map.spec.overwrites() => segment.flight(index).counters(),
            MapKind::RingBuf => segment.ring(index).counters(),
            MapKind::PerfEventArray => segment.perf(index).counters(),
            _ => RingCounters::default(),
        };
        let outgrown = word(control::OUTGROWN);
        MapCounters {
            full: word(control::FULL).saturating_sub(outgrown),
            outgrown,
            contended: word(control::CONTENDED),
            corrupt: word(control::CORRUPT) + ring.corrupt,
            dropped: ring.dropped.wrapping_add(ring.overwritten),
            evicted: word(control::EVICTED),
            uncommitted: ring.uncommitted,
        }
    }
}

const _: () = assert!(counter::COUNT == 12, "a new counter needs a field here");
const _: () = assert!(control::OUTGROWN + 8 <= abi::CONTROL_BYTES);
