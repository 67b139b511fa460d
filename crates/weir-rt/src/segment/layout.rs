//! Map definitions in, the place of every byte of the segment out.
//!
//! `plan` refuses what does not fit the bounds of `limits.rs`; nothing else is decided later. The same definitions
//! give the same layout, and its hash tells whether two builds mean the same bytes.

use thiserror::Error;
use weir_ebpf::map::{self, flag};
use weir_ebpf::{MapKind, MapSpec};

use crate::abi::{
    self, CONTROL_BYTES, HEADER_BYTES, JOURNAL_ENTRY_BYTES, NODE_HEADER_BYTES, NODE_SMALL_VALUE,
    STACK_HEADER_BYTES, SegmentKind,
};
use crate::limits;

/// Where everything is. Offsets are from the start of the segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentLayout {
    pub kind: SegmentKind,
    pub maps: Vec<MapLayout>,
    /// CPUs that have a lane; per-CPU maps have one more, the shared one.
    pub cpus: u32,
    /// Lanes that runs claim, one a CPU and [`limits::CLAIM_SPARE_LANES`]; 0 if lanes are changed by rseq code.
    pub claim_lanes: u32,
    /// Where the claims are, [`abi::CLAIM_STRIDE`] bytes each.
    pub claims_offset: u64,
    /// Entries of the undo journal: of a process's own segment alone.
    pub journal_offset: u64,
    pub journal_capacity: u32,
    /// Where the meters are, [`abi::METER_BYTES`] each: one for each entry of the journal, which every site has one of.
    pub meters_offset: u64,
    /// Where the stats page is, and for how many lines: in a process's own segment alone.
    pub stats_page_offset: u64,
    /// What is known of the process's memory; 0 in maps.
    pub reads_offset: u64,
    pub stats_page_lines: u32,
    /// From here on maps that programs in the kernel see too ([`flag::IN_KERNEL`]), up to the end: a multiple of the page size.
    pub kernel_offset: u64,
    /// A multiple of the page size.
    pub bytes: u64,
    /// Of everything above and the map definitions.
    pub hash: u64,
}

/// The place of one map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapLayout {
    pub spec: MapSpec,
    /// The map's area: a control block, then bucket heads, nodes and values as the kind needs them.
    pub offset: u64,
    pub bytes: u64,
    /// The first value, in lane 0; for a ring, its data (of lane 0, where there are several).
    pub data_offset: u64,
    /// Bytes from one element's value to the next in one lane; of rings in lanes, bytes of one.
    pub elem_stride: u32,
    /// Bytes from a value in one lane to the same value in the next; a multiple of 64 for per-CPU kinds.
    pub lane_stride: u64,
    /// Claimable lanes (or CPUs) + 1 for per-CPU kinds, CPUs + 1 for a ring for each CPU, or CPUs +
    /// [`limits::SPARE_RINGS`] where they overwrite, else 1.
    pub lanes: u32,
    /// Per-CPU kinds: as in [`SegmentLayout`]; else 0.
    pub cpus: u32,
    pub claim_lanes: u32,
    /// Hash kinds: where the bucket heads are, and how many (a power of two). Queues and stacks: the slots, one for
    /// each entry. Bloom filters: the bits.
    pub buckets_offset: u64,
    pub buckets: u32,
    /// Hash kinds, queues and stacks: where the nodes are, how many and how far apart.
    pub nodes_offset: u64,
    pub node_count: u32,
    /// Of a hash's `max_entries` nodes, those that are allocated from the beginning: all, unless it grows.
    pub nodes_at_first: u32,
    pub node_stride: u32,
    pub key_stride: u32,
}

/// One ring: where its control block and its data are, and how many bytes of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingPlace {
    pub(crate) control: u64,
    pub(crate) data: u64,
    pub(crate) bytes: u64,
    pub(crate) form: RingForm,
}

/// How records lie in a ring, and who writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RingForm {
    /// A header before each, claimed by compare-and-swap (`c/ring.c`).
    Plain,
    /// Time and header before each, claimed in the same way.
    Shared,
    /// Time and header before each, claimed inside restartable sections on one CPU (weir-jit's `src/isa/x86_64/records.rs`).
    Cpu,
    /// The same, with the oldest records giving way; or by whoever has claimed the ring (`c/ring.c`).
    Overwriting,
}

/// Why a layout was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LayoutError {
    #[error("{count} maps; at most {} fit a segment", limits::MAPS_MAX)]
    TooManyMaps { count: usize },
    #[error("{cpus} CPUs; 1 to {} are possible", limits::CPUS_MAX)]
    Cpus { cpus: u32 },
    #[error("a journal of {capacity} entries; at most {} are possible", limits::JOURNAL_CAPACITY_MAX)]
    Journal { capacity: u32 },
    #[error("map {name}: {what} is {value}; it must be {rule}")]
    Map { name: String, what: &'static str, value: u64, rule: String },
    #[error("the maps need {bytes} bytes; a segment has at most {}", limits::SEGMENT_BYTES_MAX)]
    TooLarge { bytes: u64 },
}

const PAGE: u64 = 4096;

impl SegmentLayout {
    /// Places `maps` for `cpus` CPUs.
    pub fn plan(maps: &[MapSpec], cpus: u32) -> Result<Self, LayoutError> {
        SegmentLayout::plan_lanes(maps, cpus, 0)
    }

    /// The same with lanes that runs claim, for programs that read and write per-CPU values
    /// ([`LanePolicy::Claimed`](crate::LanePolicy::Claimed)): a lane for each CPU and
    /// [`limits::CLAIM_SPARE_LANES`] more, so every per-CPU value takes so many places, and not CPUs + 1.
    pub fn plan_claimable(maps: &[MapSpec], cpus: u32) -> Result<Self, LayoutError> {
        let claim_lanes = cpus.saturating_add(limits::CLAIM_SPARE_LANES);
        SegmentLayout::plan_lanes(maps, cpus, claim_lanes)
    }

    /// The own segment of one traced process, without maps: with a journal of `journal_capacity` entries, and a stats page of
    /// as many lines as there are probes, up to [`limits::STATS_PAGE_LINES_MAX`].
    pub fn of_target(journal_capacity: u32, probes: u32) -> Result<Self, LayoutError> {
        if journal_capacity > limits::JOURNAL_CAPACITY_MAX {
            return Err(LayoutError::Journal { capacity: journal_capacity });
        }
        let journal_end = HEADER_BYTES as u64 + u64::from(journal_capacity) * JOURNAL_ENTRY_BYTES as u64;
        let meters_offset = round_up(journal_end, PAGE);
        let meters_end = meters_offset + u64::from(journal_capacity) * abi::METER_BYTES;
        let stats_page_offset = round_up(meters_end, PAGE);
        let stats_page_lines = probes.min(limits::STATS_PAGE_LINES_MAX);
        let reads_offset = round_up(stats_page_offset + abi::stats_page_bytes(stats_page_lines), PAGE);
        let end = reads_offset + abi::reads::BYTES;
        let mut layout = SegmentLayout {
            kind: SegmentKind::Target,
            maps: Vec::new(),
            cpus: 0,
            claim_lanes: 0,
            claims_offset: 0,
            journal_offset: HEADER_BYTES as u64,
            journal_capacity,
            meters_offset,
            stats_page_offset,
            reads_offset,
            stats_page_lines,
            kernel_offset: round_up(end, PAGE),
            bytes: round_up(end, PAGE),
            hash: 0,
        };
        layout.hash = hash(&layout);
        Ok(layout)
    }

    fn plan_lanes(maps: &[MapSpec], cpus: u32, claim_lanes: u32) -> Result<Self, LayoutError> {
        if maps.len() > limits::MAPS_MAX {
            return Err(LayoutError::TooManyMaps { count: maps.len() });
        }
        if cpus == 0 || cpus > limits::CPUS_MAX {
            return Err(LayoutError::Cpus { cpus });
        }
        let claims_offset = HEADER_BYTES as u64;
        let mut end = round_up(claims_offset + u64::from(claim_lanes) * abi::CLAIM_STRIDE, PAGE);
        let mut placed: Vec<Option<MapLayout>> = maps.iter().map(|_| None).collect();
        let mut kernel_offset = end;
        for in_kernel in [false, true] {
            kernel_offset = end;
            let of_these = |(_, spec): &(usize, &MapSpec)| spec.has(flag::IN_KERNEL) == in_kernel;
            for (index, spec) in maps.iter().enumerate().filter(of_these) {
                check(spec)?;
                check_inner(spec, maps)?;
                let map = place(spec, end, cpus, claim_lanes);
                end = round_up(end + map.bytes, PAGE);
                if end > limits::SEGMENT_BYTES_MAX {
                    return Err(LayoutError::TooLarge { bytes: end });
                }
                placed[index] = Some(map);
            }
        }
        let mut layout = SegmentLayout {
            kind: SegmentKind::Maps,
            maps: placed.into_iter().flatten().collect(),
            cpus,
            claim_lanes,
            claims_offset,
            journal_offset: 0,
            journal_capacity: 0,
            meters_offset: 0,
            stats_page_offset: 0,
            reads_offset: 0,
            stats_page_lines: 0,
            kernel_offset,
            bytes: end,
            hash: 0,
        };
        layout.hash = hash(&layout);
        Ok(layout)
    }
}

impl SegmentLayout {
    /// Bytes of maps that programs in the kernel see too.
    pub fn kernel_bytes(&self) -> u64 {
        self.bytes - self.kernel_offset
    }
}

impl MapLayout {
    /// The lane that code without a CPU of its own changes, with `lock`. Where lanes are claimed: of nobody.
    pub fn shared_lane(&self) -> u32 {
        self.lanes - 1
    }

    /// Entries, also where the definition leaves them to the number of CPUs.
    pub fn slots(&self) -> u32 {
        if self.spec.max_entries == 0 { self.lanes } else { self.spec.max_entries }
    }

    /// The rings in the map: one for each CPU that has a slot, of a `PerfEventArray`.
    pub(crate) fn rings(&self) -> Vec<RingPlace> {
        let in_lane = |lane: u32| {
            let data = self.data_offset + u64::from(lane) * self.lane_stride;
            let form = match self.spec.kind {
                MapKind::PerfEventArray => RingForm::Plain,
                _ if self.spec.overwrites() => RingForm::Overwriting,
                _ if lane == self.shared_lane() => RingForm::Shared,
                _ => RingForm::Cpu,
            };
            RingPlace { control: data - CONTROL_BYTES, data, bytes: self.elem_stride.into(), form }
        };
        match self.spec.kind {
            MapKind::RingBuf if !self.spec.has_rings_per_cpu() => vec![RingPlace {
                control: self.offset,
                data: self.data_offset,
                bytes: self.spec.max_entries.into(),
                form: RingForm::Plain,
            }],
            MapKind::RingBuf | MapKind::PerfEventArray => (0..self.lanes).map(in_lane).collect(),
            _ => Vec::new(),
        }
    }

    /// Programs in the kernel see its memory too.
    pub fn is_in_kernel(&self) -> bool {
        self.spec.has(flag::IN_KERNEL)
    }

    /// Values rounded up to words: what one element takes in one lane.
    pub fn value_words(&self) -> u32 {
        self.spec.value_bytes.div_ceil(8)
    }

    /// The descriptor for a segment mapped at `base`.
    pub(crate) fn descriptor(&self, base: u64, session: u64) -> abi::Descriptor {
        let has_nodes = self.node_count > 0;
        abi::Descriptor {
            kind: self.spec.kind as u32,
            key_bytes: self.spec.key_bytes,
            value_bytes: self.spec.value_bytes,
            max_entries: self.slots(),
            elem_stride: self.elem_stride,
            lanes: self.lanes,
            lane_stride: self.lane_stride,
            control: base + self.offset,
            data: base + self.data_offset,
            buckets: if has_nodes { base + self.buckets_offset } else { 0 },
            nodes: if has_nodes { base + self.nodes_offset } else { 0 },
            bucket_mask: self.buckets.saturating_sub(1),
            node_stride: self.node_stride,
            node_count: self.node_count,
            key_stride: self.key_stride,
            seed: seed(session, self.offset),
            cpus: self.cpus,
            claim_lanes: self.claim_lanes,
            hashes: if self.spec.kind == MapKind::BloomFilter { self.spec.bloom_hashes().into() } else { 0 },
            descriptors: 0,
            map_count: 0,
            inner: self.spec.inner.unwrap_or(0),
            all_cpus: if self.spec.overwrites() { self.lanes - limits::SPARE_RINGS } else { 0 },
            reserved: 0,
        }
    }
}

impl SegmentLayout {
    /// The descriptors of all maps for a segment mapped at `base`, which will stand one after the other at `at`.
    pub(crate) fn descriptors(&self, base: u64, at: u64, session: u64) -> Vec<abi::Descriptor> {
        let with_others = |map: &MapLayout| abi::Descriptor {
            descriptors: at,
            map_count: self.maps.len() as u32,
            ..map.descriptor(base, session)
        };
        self.maps.iter().map(with_others).collect()
    }
}

/// The seed of a map: even (a ring's free words must differ from record headers in bit 0).
pub(crate) fn seed(session: u64, offset: u64) -> u64 {
    let mut x = session ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) & !1
}

/// A map that holds maps says which: others than such maps, and none with values of each CPU.
/// Why a map of an object cannot be in any segment; its other maps may.
pub fn map_fault(map: usize, maps: &[MapSpec]) -> Option<String> {
    let spec = maps.get(map)?;
    let fault = check(spec).and_then(|()| check_inner(spec, maps)).and_then(|()| {
        let bytes = place(spec, 0, 1, 0).bytes;
        if bytes > limits::SEGMENT_BYTES_MAX { Err(LayoutError::TooLarge { bytes }) } else { Ok(()) }
    });
    match fault.err()? {
        // The caller knows which map.
        LayoutError::Map { what, value, rule, .. } => Some(format!("{what} is {value}; it must be {rule}")),
        other => Some(other.to_string()),
    }
}

fn check_inner(spec: &MapSpec, maps: &[MapSpec]) -> Result<(), LayoutError> {
    let like = spec.inner.map(|inner| maps.get(inner as usize));
    let is_held = |map: &MapSpec| !map.kind.holds_maps() && !map.kind.is_per_cpu();
    match (spec.kind.holds_maps(), like) {
        (false, None) => Ok(()),
        (true, Some(Some(like))) if is_held(like) => Ok(()),
        (holds_maps, _) => Err(LayoutError::Map {
            name: spec.name.clone(),
            what: "the map that its maps are like",
            value: spec.inner.unwrap_or(u32::MAX).into(),
            rule: match holds_maps {
                true => "another one that holds no maps and has no values of each CPU".into(),
                false => "none: it holds no maps".into(),
            },
        }),
    }
}

fn check(spec: &MapSpec) -> Result<(), LayoutError> {
    let within = |what: &'static str, value: u32, low: u32, high: u32| {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let rule = if low == high { format!("{low}") } else { format!("{low} to {high}") };
        Err(LayoutError::Map { name: spec.name.clone(), what, value: value.into(), rule })
    };
    let four_or_eight = || match spec.value_bytes {
        4 | 8 => Ok(()),
        other => {
            let (name, rule) = (spec.name.clone(), "4 or 8".into());
            Err(LayoutError::Map { name, what: "the value size", value: other.into(), rule })
        }
    };
    let opposite = [flag::RDONLY | flag::WRONLY, flag::RDONLY_PROG | flag::WRONLY_PROG];
    let refused = match spec.foreign_flags() {
        0 => opposite.into_iter().find(|both| spec.flags & both == *both).unwrap_or(0),
        foreign => foreign,
    };
    if refused != 0 {
        let kind = spec.kind.name();
        let known = flag::names(map::taken(spec.kind));
        let rule = format!("of those that {kind} takes ({known}), and not both of one that excludes another");
        return Err(LayoutError::Map {
            name: spec.name.clone(),
            what: "map_flags",
            value: spec.flags.into(),
            rule,
        });
    }
    if spec.lacks_rings_to_overwrite() {
        let rule = "with WEIR_F_RING_PER_CPU: one ring does not overwrite".into();
        let (name, value) = (spec.name.clone(), spec.flags.into());
        return Err(LayoutError::Map { name, what: "map_flags", value, rule });
    }
    if spec.lacks_no_prealloc() {
        let rule = "with BPF_F_NO_PREALLOC, as in the kernel".into();
        let (name, value) = (spec.name.clone(), spec.flags.into());
        return Err(LayoutError::Map { name, what: "map_flags", value, rule });
    }
    if spec.extra > spec.extra_max() {
        let rule = format!("at most {}", spec.extra_max());
        return Err(LayoutError::Map { name: spec.name.clone(), what: "map_extra", value: spec.extra, rule });
    }
    match spec.kind {
        MapKind::RingBuf => {
            within("the key size", spec.key_bytes, 0, 0)?;
            within("the value size", spec.value_bytes, 0, 0)?;
            within("the size", spec.max_entries, limits::RING_BYTES_MIN, limits::RING_BYTES_MAX)?;
            if !spec.max_entries.is_power_of_two() {
                return Err(LayoutError::Map {
                    name: spec.name.clone(),
                    what: "the size",
                    value: spec.max_entries.into(),
                    rule: "a power of two".into(),
                });
            }
            return Ok(());
        }
        MapKind::Array | MapKind::PerCpuArray => within("the key size", spec.key_bytes, 4, 4)?,
        MapKind::ArrayOfMaps => {
            within("the key size", spec.key_bytes, 4, 4)?;
            within("the value size", spec.value_bytes, 4, 4)?;
        }
        MapKind::HashOfMaps => {
            within("the key size", spec.key_bytes, 1, limits::KEY_BYTES_MAX)?;
            within("the value size", spec.value_bytes, 4, 4)?;
        }
        MapKind::PerfEventArray | MapKind::CgroupArray | MapKind::ProgArray => {
            within("the key size", spec.key_bytes, 4, 4)?;
            within("the value size", spec.value_bytes, 4, 4)?;
            // 0: as many as CPUs.
            let least = u32::from(spec.kind != MapKind::PerfEventArray);
            return within("max_entries", spec.max_entries, least, limits::ENTRIES_MAX);
        }
        MapKind::DevMap | MapKind::DevMapHash | MapKind::CpuMap | MapKind::SockMap => {
            within("the key size", spec.key_bytes, 4, 4)?;
            four_or_eight()?;
        }
        MapKind::XskMap => {
            within("the key size", spec.key_bytes, 4, 4)?;
            within("the value size", spec.value_bytes, 4, 4)?;
        }
        MapKind::SockHash => {
            // As deep as a stack.
            within("the key size", spec.key_bytes, 1, 512)?;
            four_or_eight()?;
        }
        MapKind::StackTrace => {
            within("the key size", spec.key_bytes, 4, 4)?;
            within("the value size", spec.value_bytes, 8, 8 * limits::STACK_DEPTH_MAX)?;
            if !spec.value_bytes.is_multiple_of(8) {
                return Err(LayoutError::Map {
                    name: spec.name.clone(),
                    what: "the value size",
                    value: spec.value_bytes.into(),
                    rule: "a multiple of 8".into(),
                });
            }
        }
        MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash => {
            within("the key size", spec.key_bytes, 1, limits::KEY_BYTES_MAX)?
        }
        MapKind::LpmTrie => {
            let (least, most) = map::LPM_KEY_BYTES.into_inner();
            within("the key size", spec.key_bytes, least, most)?;
        }
        MapKind::Queue | MapKind::Stack | MapKind::BloomFilter => {
            within("the key size", spec.key_bytes, 0, 0)?
        }
    }
    within("the value size", spec.value_bytes, 1, limits::VALUE_BYTES_MAX)?;
    within("max_entries", spec.max_entries, 1, limits::ENTRIES_MAX)?;
    if spec.has(flag::IN_KERNEL) && spec.kind == MapKind::Hash {
        // What programs in the kernel are linked with takes whole words as keys, and one as a value.
        within("the value size", spec.value_bytes, 8, 8)?;
        if !spec.key_bytes.is_multiple_of(8) {
            let rule = "a multiple of 8 with WEIR_F_IN_KERNEL".into();
            let (name, value) = (spec.name.clone(), spec.key_bytes.into());
            return Err(LayoutError::Map { name, what: "the key size", value, rule });
        }
    }
    Ok(())
}

fn place(spec: &MapSpec, offset: u64, cpus: u32, claim_lanes: u32) -> MapLayout {
    let value_stride = spec.value_bytes.next_multiple_of(8);
    let all_cpus = cpus;
    let (lanes, cpus, claim_lanes) = match (spec.kind.is_per_cpu(), claim_lanes) {
        (false, _) => (1, 0, 0),
        (true, 0) => (cpus + 1, cpus, 0),
        (true, claim_lanes) => (claim_lanes + 1, cpus, claim_lanes),
    };
    let mut map = MapLayout {
        spec: spec.clone(),
        offset,
        bytes: 0,
        data_offset: offset + CONTROL_BYTES,
        elem_stride: value_stride,
        lane_stride: 0,
        lanes,
        cpus,
        claim_lanes,
        buckets_offset: 0,
        buckets: 0,
        nodes_offset: 0,
        node_count: 0,
        nodes_at_first: spec.max_entries,
        node_stride: 0,
        key_stride: 0,
    };
    let mut end = offset + CONTROL_BYTES;
    let mut elements = u64::from(spec.max_entries);
    match spec.kind {
        MapKind::RingBuf if spec.has_rings_per_cpu() => {
            map.lanes = all_cpus + if spec.overwrites() { limits::SPARE_RINGS } else { 1 };
            place_rings(&mut map, end, cpu_ring_bytes(spec.max_entries, all_cpus));
            return map;
        }
        MapKind::RingBuf => {
            // Page-aligned, so that a mapping of the data alone stays possible.
            map.data_offset = round_up(end, PAGE);
            map.elem_stride = 0;
            map.bytes = map.data_offset + u64::from(spec.max_entries) - offset;
            return map;
        }
        MapKind::Array | MapKind::PerCpuArray | MapKind::ProgArray | MapKind::ArrayOfMaps => {}
        MapKind::PerfEventArray => {
            map.lanes = if spec.max_entries == 0 { all_cpus } else { spec.max_entries.min(all_cpus) };
            place_rings(&mut map, end, limits::PERF_RING_BYTES);
            return map;
        }
        MapKind::CgroupArray
        | MapKind::DevMap
        | MapKind::DevMapHash
        | MapKind::CpuMap
        | MapKind::XskMap
        | MapKind::SockMap
        | MapKind::SockHash => {
            map.bytes = CONTROL_BYTES;
            return map;
        }
        MapKind::StackTrace => {
            map.buckets = spec.max_entries.next_power_of_two();
            map.elem_stride = STACK_HEADER_BYTES + value_stride;
            map.lane_stride = u64::from(map.buckets) * u64::from(map.elem_stride);
            map.bytes = CONTROL_BYTES + map.lane_stride;
            return map;
        }
        MapKind::Queue | MapKind::Stack => {
            place_elements(&mut map, end);
            return map;
        }
        MapKind::BloomFilter => {
            map.buckets = bloom_bits(spec);
            map.buckets_offset = round_up(end, 64);
            map.data_offset = map.buckets_offset;
            map.elem_stride = 0;
            map.bytes = map.data_offset + u64::from(map.buckets) / 8 - offset;
            return map;
        }
        MapKind::Hash
        | MapKind::PerCpuHash
        | MapKind::LruHash
        | MapKind::LruPerCpuHash
        | MapKind::LpmTrie
        | MapKind::HashOfMaps => {
            if spec.kind == MapKind::LpmTrie {
                // A bit for each length from 0 on; a word of counters for four buckets, and one of lengths for two
                // (c/lpm.c).
                let lengths = u64::from(8 * (spec.key_bytes - 4) / 64 + 1);
                let (counters, blocks) = (bucket_count(spec).div_ceil(4), bucket_count(spec).div_ceil(2));
                end += (lengths + u64::from(counters) + u64::from(blocks)) * 8;
            }
            place_nodes(&mut map, end);
            end = map.nodes_offset + u64::from(map.node_count) * u64::from(map.node_stride);
            elements = u64::from(map.node_count);
            if !spec.kind.is_per_cpu() {
                map.bytes = end - offset;
                map.lane_stride = round_up(map.bytes, 64);
                return map;
            }
        }
    }
    map.data_offset = round_up(end, 64);
    map.lane_stride = round_up(elements * u64::from(map.elem_stride), 64);
    map.bytes = map.data_offset + map.lane_stride * u64::from(lanes) - offset;
    map
}

/// A ring of `bytes` in each lane, behind a control block of its own.
fn place_rings(map: &mut MapLayout, at: u64, bytes: u32) {
    map.elem_stride = bytes;
    map.lane_stride = CONTROL_BYTES + u64::from(bytes);
    map.data_offset = at + CONTROL_BYTES;
    map.bytes = at + u64::from(map.lanes) * map.lane_stride - map.offset;
}

/// Bytes of each CPU's ring, where the map says how many it is to have.
fn cpu_ring_bytes(bytes: u32, cpus: u32) -> u32 {
    let share = cpus.div_ceil(limits::CPU_RINGS_WHOLE).next_power_of_two();
    (bytes / share).max(limits::CPU_RING_BYTES_MIN.min(bytes))
}

/// Bucket heads and nodes; a HASH keeps its values in the nodes.
fn place_nodes(map: &mut MapLayout, at: u64) {
    let spec = &map.spec;
    let value_stride = map.elem_stride;
    let in_node = !spec.kind.is_per_cpu();
    let is_trie = spec.kind == MapKind::LpmTrie;
    let is_large = in_node && (spec.value_bytes > 8 || is_trie);
    map.buckets = bucket_count(spec);
    map.buckets_offset = at;
    map.nodes_offset = round_up(at + u64::from(map.buckets) * 8, 64);
    map.node_count = spec.max_entries + limits::SPARE_NODES;
    map.key_stride = spec.key_bytes.next_multiple_of(8);
    // A trie's node has the prefix, and behind it the key as it was given.
    let keys_bytes = if is_trie { 2 * map.key_stride } else { map.key_stride };
    let node_bytes = NODE_HEADER_BYTES + keys_bytes + if is_large { value_stride } else { 0 };
    // Two threads that store to keys of their own had neighbouring nodes in one cache line: a store took
    // 13 to 23 ns instead of 10.
    let is_apart = in_node && spec.max_entries <= limits::APART_ENTRIES_MAX;
    map.node_stride = match node_bytes.next_multiple_of(16) {
        ..64 if is_apart => 64,
        stride => stride,
    };
    if in_node {
        map.elem_stride = map.node_stride;
        let value_in_node =
            if is_large { u64::from(NODE_HEADER_BYTES + keys_bytes) } else { NODE_SMALL_VALUE };
        map.data_offset = map.nodes_offset + value_in_node;
    }
}

/// Twice as many as entries: with as many, 37 % of the keys of a full map stand behind another, and the branches that
/// walk to them cost 4 ns more a look-up.
fn bucket_count(spec: &MapSpec) -> u32 {
    (2 * spec.max_entries).next_power_of_two()
}

/// Bits of a Bloom filter: entries × hashes / ln 2, with 7/5 for 1/ln 2, rounded up to a power of two of at least 64,
/// as in the kernel, so that false positives are as many.
fn bloom_bits(spec: &MapSpec) -> u32 {
    let bits = u64::from(spec.max_entries) * u64::from(spec.bloom_hashes()) / 5 * 7;
    // LIMIT: ENTRIES_MAX and 15 hashes make 2^29.
    bits.max(64).next_power_of_two() as u32
}

/// Slots and nodes of a queue or stack.
fn place_elements(map: &mut MapLayout, at: u64) {
    map.buckets = map.spec.max_entries;
    map.buckets_offset = at;
    map.nodes_offset = round_up(at + u64::from(map.buckets) * 8, 64);
    map.node_count = map.spec.max_entries + limits::SPARE_NODES;
    map.node_stride = (abi::ELEMENT_HEADER_BYTES + map.elem_stride).next_multiple_of(16);
    map.elem_stride = map.node_stride;
    map.data_offset = map.nodes_offset + u64::from(abi::ELEMENT_HEADER_BYTES);
    map.bytes = map.nodes_offset + u64::from(map.node_count) * u64::from(map.node_stride) - map.offset;
    map.lane_stride = round_up(map.bytes, 64);
}

fn round_up(value: u64, to: u64) -> u64 {
    value.div_ceil(to) * to
}

/// FNV-1a over everything that decides where a byte lies and what it means.
fn hash(layout: &SegmentLayout) -> u64 {
    let mut hash = Fnv::default();
    hash.number(abi::ABI_VERSION.into());
    hash.number(layout.kind as u64);
    hash.number(layout.cpus.into());
    hash.number(layout.claim_lanes.into());
    hash.number(layout.journal_capacity.into());
    hash.number(layout.stats_page_lines.into());
    hash.number(layout.bytes);
    for map in &layout.maps {
        hash.bytes(map.spec.name.as_bytes());
        hash.number(map.spec.kind as u64);
        hash.number(map.spec.key_bytes.into());
        hash.number(map.spec.value_bytes.into());
        hash.number(map.spec.max_entries.into());
        hash.number(map.spec.inner.map_or(0, |inner| u64::from(inner) + 1));
        hash.number(map.spec.extra);
        hash.number(map.spec.flags.into());
        hash.number(map.offset);
        hash.number(map.data_offset);
    }
    hash.0
}

/// FNV-1a, 64 bits.
pub(crate) struct Fnv(pub(crate) u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}
