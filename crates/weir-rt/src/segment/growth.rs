//! Maps that grow: the nodes of a hash are allocated in blocks, ahead of their use.
//!
//! In: a layout made for it ([`SegmentLayout::growing`]), and how many nodes were taken, which the segment says and may lie
//! about. Out: the next block allocated in the memfd, then told to whoever takes nodes by the word WITHHELD of the map's
//! control block.
//!
//! A hash takes nodes that were never used in order, so one number says what it may touch; its values, where they
//! are outside of the nodes, go by the same number. Everything else of a segment is allocated from the beginning: bucket
//! heads are touched anywhere, an LRU's hand passes all nodes.
//!
//! [`Segment::grow`] is for whoever reads the records. It allocates once half of what there is has been taken; a program
//! that takes all of the other half before the next call has its updates refused and counted ([`MapCounters::outgrown`]).
//!
//! [`MapCounters::outgrown`]: super::MapCounters::outgrown

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use nix::fcntl::{FallocateFlags, fallocate};
use weir_ebpf::MapKind;

use super::{MapLayout, Segment, SegmentLayout, memory};
use crate::abi::control;
use crate::limits::{GROWTH_BYTES_MAX, NODES_AT_FIRST};

const PAGE: u64 = 4096;

/// What a call of [`Segment::grow`] has done.
#[derive(Debug, Default)]
pub struct Growth {
    /// Bytes allocated by it.
    pub bytes: u64,
    /// The first map that should have grown and could not, and why.
    pub refused: Option<(usize, io::Error)>,
}

impl SegmentLayout {
    /// The same for a segment whose hashes grow: nodes beyond the first [`NODES_AT_FIRST`] are not allocated when it
    /// is made. Somebody must call [`Segment::grow`] then.
    pub fn growing(mut self) -> SegmentLayout {
        for map in self.maps.iter_mut().filter(|map| grows(map)) {
            map.nodes_at_first = map.spec.max_entries.min(NODES_AT_FIRST);
        }
        self
    }

    /// Bytes that are allocated when the segment is made.
    pub fn bytes_at_first(&self) -> u64 {
        self.bytes - self.maps.iter().map(|map| hole_bytes(map, map.nodes_at_first)).sum::<u64>()
    }
}

/// Whether its nodes are taken in order, and touched by nothing before.
fn grows(map: &MapLayout) -> bool {
    // The kernel allocates all of its memory at once.
    matches!(map.spec.kind, MapKind::Hash | MapKind::PerCpuHash) && !map.is_in_kernel()
}

/// Where the nodes `from..to` of a hash lie, and their values in each lane.
fn places(map: &MapLayout, nodes: Range<u32>) -> Vec<Range<u64>> {
    let of = |base: u64, stride: u32| {
        base + u64::from(nodes.start) * u64::from(stride)..base + u64::from(nodes.end) * u64::from(stride)
    };
    let mut places = vec![of(map.nodes_offset, map.node_stride)];
    if map.spec.kind.is_per_cpu() {
        let lane = |lane: u32| of(map.data_offset + u64::from(lane) * map.lane_stride, map.elem_stride);
        places.extend((0..map.lanes).map(lane));
    }
    places
}

/// Whole pages that nobody touches while so many nodes are allocated.
fn holes(map: &MapLayout, allocated: u32) -> Vec<Range<u64>> {
    if !grows(map) {
        return Vec::new();
    }
    let inside = |place: Range<u64>| place.start.next_multiple_of(PAGE)..place.end / PAGE * PAGE;
    let holes = places(map, allocated..map.spec.max_entries).into_iter().map(inside);
    holes.filter(|hole| hole.start < hole.end).collect()
}

fn hole_bytes(map: &MapLayout, allocated: u32) -> u64 {
    holes(map, allocated).iter().map(|hole| hole.end - hole.start).sum()
}

/// Bytes of one node, and of its value in all lanes.
fn node_bytes(map: &MapLayout) -> u64 {
    let values =
        if map.spec.kind.is_per_cpu() { u64::from(map.lanes) * u64::from(map.elem_stride) } else { 0 };
    u64::from(map.node_stride) + values
}

/// How many nodes are to be allocated, of which `taken` of `allocated` are in use or were.
fn next(map: &MapLayout, allocated: u32, taken: u64) -> Option<u32> {
    let max = map.spec.max_entries;
    if allocated >= max || taken < u64::from(allocated / 2) {
        return None;
    }
    let step = (GROWTH_BYTES_MAX / node_bytes(map)).clamp(1, u64::from(allocated.max(1))) as u32;
    Some(allocated.saturating_add(step).min(max))
}

impl Segment {
    /// Allocates all that is touched from the beginning.
    pub(super) fn allocate(fd: &impl std::os::fd::AsFd, layout: &SegmentLayout) -> io::Result<()> {
        let mut holes: Vec<Range<u64>> =
            layout.maps.iter().flat_map(|map| holes(map, map.nodes_at_first)).collect();
        holes.sort_by_key(|hole| hole.start);
        let starts = std::iter::once(0).chain(holes.iter().map(|hole| hole.end));
        let ends = holes.iter().map(|hole| hole.start).chain([layout.kernel_offset]);
        starts.zip(ends).try_for_each(|(start, end)| allocate(fd, start..end))
    }

    /// Allocates the next block of each map of which half is taken, if no more than `bytes_max` are allocated then in
    /// the whole segment. Takes a load for each map if none has to grow.
    pub fn grow(&self, bytes_max: Option<u64>) -> Growth {
        let mut growth = Growth::default();
        for (index, map) in self.layout.maps.iter().enumerate().filter(|(_, map)| grows(map)) {
            let allocated = self.nodes_allocated[index].load(Ordering::Relaxed);
            let taken = self.mapping.word(map.offset + control::FRESH).load(Ordering::Relaxed);
            let Some(wanted) = next(map, allocated, taken) else { continue };
            match self.grow_map(index, allocated..wanted, bytes_max) {
                Ok(bytes) => growth.bytes += bytes,
                Err(error) => {
                    growth.refused.get_or_insert((index, error));
                }
            }
        }
        growth
    }

    /// Whether some map may have to grow: [`Segment::grow`] is to be called every few milliseconds then.
    pub fn may_grow(&self) -> bool {
        let maps = self.layout.maps.iter().zip(&self.nodes_allocated);
        maps.filter(|(map, _)| grows(map))
            .any(|(map, allocated)| allocated.load(Ordering::Relaxed) < map.spec.max_entries)
    }

    /// Bytes allocated so far.
    pub fn bytes_allocated(&self) -> u64 {
        self.bytes_allocated.load(Ordering::Relaxed)
    }

    fn grow_map(&self, index: usize, nodes: Range<u32>, bytes_max: Option<u64>) -> io::Result<u64> {
        let map = &self.layout.maps[index];
        let bytes = hole_bytes(map, nodes.start) - hole_bytes(map, nodes.end);
        let whole = self.bytes_allocated() + bytes;
        if bytes_max.is_some_and(|max| whole > max) {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("{whole} bytes are over the budget"),
            ));
        }
        memory::check_growth(bytes, map)?;
        for place in places(map, nodes.clone()) {
            allocate(&self.fd, place.start / PAGE * PAGE..place.end.next_multiple_of(PAGE))?;
        }
        self.bytes_allocated.store(whole, Ordering::Relaxed);
        self.nodes_allocated[index].store(nodes.end, Ordering::Relaxed);
        let withheld = u64::from(map.spec.max_entries - nodes.end);
        self.mapping.word(map.offset + control::WITHHELD).store(withheld, Ordering::Release);
        Ok(bytes)
    }
}

fn allocate(fd: &impl std::os::fd::AsFd, range: Range<u64>) -> io::Result<()> {
    let offset = |at: u64| i64::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let (start, bytes) = (offset(range.start)?, offset(range.end - range.start)?);
    if bytes == 0 {
        return Ok(());
    }
    Ok(fallocate(fd, FallocateFlags::empty(), start, bytes)?)
}
