//! Layouts: what is refused, and that nothing overlaps.

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};
use weir_rt::limits::KEY_BYTES_MAX;
use weir_rt::segment::{LayoutError, SegmentLayout};

fn spec(kind: MapKind, key_bytes: u32, value_bytes: u32, max_entries: u32) -> MapSpec {
    MapSpec::new("m", kind, key_bytes, value_bytes, max_entries)
}

/// The message with which `maps` are refused.
fn refused(kind: MapKind, key_bytes: u32, value_bytes: u32, max_entries: u32) -> String {
    let maps = [spec(kind, key_bytes, value_bytes, max_entries)];
    SegmentLayout::plan(&maps, 2).expect_err("must be refused").to_string()
}

#[test]
fn refuses_what_is_out_of_bounds() {
    use MapKind::{Array, Hash, PerCpuHash, Queue, RingBuf, Stack};
    assert_eq!(refused(Array, 8, 8, 1), "map m: the key size is 8; it must be 4");
    assert_eq!(refused(Array, 4, 0, 1), "map m: the value size is 0; it must be 1 to 1048576");
    assert_eq!(refused(Hash, 0, 8, 1), format!("map m: the key size is 0; it must be 1 to {KEY_BYTES_MAX}"));
    assert!(refused(Hash, KEY_BYTES_MAX + 1, 8, 1).starts_with("map m: the key size is"));
    assert_eq!(refused(Hash, 8, 8, 0), "map m: max_entries is 0; it must be 1 to 16777216");
    assert_eq!(refused(Queue, 4, 8, 1), "map m: the key size is 4; it must be 0");
    assert_eq!(refused(Stack, 0, 0, 1), "map m: the value size is 0; it must be 1 to 1048576");
    assert_eq!(refused(RingBuf, 0, 0, 12288), "map m: the size is 12288; it must be a power of two");
    assert_eq!(refused(RingBuf, 0, 0, 2048), "map m: the size is 2048; it must be 4096 to 1073741824");
    assert_eq!(refused(RingBuf, 4, 0, 4096), "map m: the key size is 4; it must be 0");
    assert!(refused(PerCpuHash, 8, 1 << 20, 1 << 24).contains("a segment has at most"));
    let flagged = |kind, flags| {
        let map = MapSpec { flags, ..spec(kind, 4, 8, 1) };
        SegmentLayout::plan(&[map], 2).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(flagged(Hash, 1 << 2).is_err_and(|error| error.contains("map_flags is 4")));
    assert!(flagged(Array, 0x18).is_err_and(|error| error.contains("not both")));
    assert!(flagged(Array, 0x180).is_err_and(|error| error.contains("not both")));
    assert_eq!(flagged(Array, 0x480), Ok(()));
    assert_eq!(SegmentLayout::plan(&[], 0), Err(LayoutError::Cpus { cpus: 0 }));
    assert_eq!(SegmentLayout::plan(&[], 5000), Err(LayoutError::Cpus { cpus: 5000 }));
    assert_eq!(SegmentLayout::of_target(1 << 21, 0), Err(LayoutError::Journal { capacity: 1 << 21 }));
    let many = vec![spec(Array, 4, 8, 1); 257];
    assert_eq!(SegmentLayout::plan(&many, 1), Err(LayoutError::TooManyMaps { count: 257 }));
}

#[test]
fn areas_follow_one_another_and_hold_their_parts() {
    let maps: Vec<MapSpec> = MapKind::ALL
        .into_iter()
        .flat_map(|kind| {
            [(4, 1, 1), (4, 9, 1000), (4, 528, 33)].map(|(key, value, entries)| match kind {
                MapKind::RingBuf => spec(kind, 0, 0, 8192),
                MapKind::Queue | MapKind::Stack | MapKind::BloomFilter => spec(kind, 0, value, entries),
                MapKind::LpmTrie => MapSpec { flags: 1, ..spec(kind, 2 * key, value, entries) },
                MapKind::PerfEventArray | MapKind::CgroupArray | MapKind::ProgArray => {
                    spec(kind, key, 4, entries)
                }
                MapKind::StackTrace => spec(kind, key, value.next_multiple_of(8), entries),
                kind if kind.redirects() => spec(kind, key, 4, entries),
                // The first kind is no such one.
                MapKind::ArrayOfMaps | MapKind::HashOfMaps => {
                    MapSpec { inner: Some(0), ..spec(kind, key, 4, entries) }
                }
                _ => spec(kind, key, value, entries),
            })
        })
        .collect();
    let layout = SegmentLayout::plan(&maps, 7).expect("within bounds");
    let mut end = layout.claims_offset;
    for map in &layout.maps {
        assert!(map.offset >= end && map.offset % 4096 == 0, "{map:?}");
        end = map.offset + map.bytes;
        let value_end = match map.spec.kind {
            MapKind::RingBuf => map.data_offset + 8192,
            MapKind::BloomFilter => {
                assert!(map.buckets.is_power_of_two() && map.buckets >= 7 * map.spec.max_entries);
                map.data_offset + u64::from(map.buckets) / 8
            }
            MapKind::CgroupArray => map.data_offset,
            MapKind::PerfEventArray => {
                assert_eq!((map.lanes, map.slots()), (map.spec.max_entries.min(7), map.spec.max_entries));
                assert!(map.data_offset % 64 == 0 && map.lane_stride % 64 == 0);
                map.data_offset - 256 + u64::from(map.lanes) * map.lane_stride
            }
            MapKind::StackTrace => {
                assert!(map.buckets.is_power_of_two() && map.buckets >= map.spec.max_entries);
                assert!(map.elem_stride % 8 == 0 && map.elem_stride == map.spec.value_bytes + 16);
                map.data_offset + u64::from(map.buckets) * u64::from(map.elem_stride)
            }
            MapKind::Queue | MapKind::Stack => {
                assert_eq!(map.buckets, map.spec.max_entries);
                assert!(map.buckets_offset + u64::from(map.buckets) * 8 <= map.nodes_offset);
                assert!(map.node_stride % 16 == 0 && map.node_stride >= map.spec.value_bytes + 8);
                map.nodes_offset + u64::from(map.node_count) * u64::from(map.node_stride)
            }
            MapKind::Hash | MapKind::LruHash | MapKind::LpmTrie | MapKind::HashOfMaps => {
                if map.spec.kind == MapKind::LpmTrie {
                    // Words for the lengths, counters, and blocks: c/lpm.c finds them by these.
                    let lengths = (map.spec.key_bytes - 4) * 8 / 64 + 1;
                    let counters = ((map.buckets - 1) >> 2) + 1;
                    let blocks = ((map.buckets - 1) >> 1) + 1;
                    let words = u64::from(lengths + counters + blocks);
                    assert_eq!(map.buckets_offset, map.offset + 256 + words * 8);
                }
                assert!(map.buckets.is_power_of_two() && map.buckets >= map.spec.max_entries);
                assert!(map.buckets_offset + u64::from(map.buckets) * 8 <= map.nodes_offset);
                assert!(map.node_stride % 16 == 0 && map.nodes_offset % 16 == 0);
                map.nodes_offset + u64::from(map.node_count) * u64::from(map.node_stride)
            }
            kind if kind.redirects() => map.offset + 256,
            _ => {
                let elements = u64::from(map.node_count.max(map.spec.max_entries));
                assert!(map.lane_stride >= elements * u64::from(map.elem_stride) || map.lanes == 1);
                assert!(map.lane_stride % 64 == 0 && map.data_offset.is_multiple_of(64));
                let lane_end = map.data_offset + elements * u64::from(map.elem_stride);
                lane_end + u64::from(map.shared_lane()) * map.lane_stride
            }
        };
        assert!(value_end <= end, "{map:?}");
        let lanes = match map.spec.kind {
            MapKind::PerfEventArray => map.spec.max_entries.min(7),
            kind if kind.is_per_cpu() => 8,
            _ => 1,
        };
        assert_eq!(map.lanes, lanes);
    }
    assert!(end <= layout.bytes && layout.bytes.is_multiple_of(4096));
}

#[test]
fn claimable_lanes_cost_what_is_said_and_only_where_asked_for() {
    let maps = [
        spec(MapKind::PerCpuArray, 4, 8, 100),
        spec(MapKind::PerCpuHash, 4, 8, 100),
        spec(MapKind::Hash, 4, 8, 100),
    ];
    let plain = SegmentLayout::plan(&maps, 2).expect("within bounds");
    let claimable = SegmentLayout::plan_claimable(&maps, 2).expect("within bounds");
    assert_eq!((plain.claim_lanes, claimable.claim_lanes), (0, 18));
    assert!(claimable.claims_offset + 18 * 64 <= claimable.maps[0].offset);
    assert_ne!(plain.hash, claimable.hash);
    for (plain, claimable) in plain.maps.iter().zip(&claimable.maps) {
        let lanes = if plain.spec.kind.is_per_cpu() { [3, 19] } else { [1, 1] };
        assert_eq!([plain.lanes, claimable.lanes], lanes);
        assert_eq!(plain.lane_stride, claimable.lane_stride);
        let more = u64::from(claimable.lanes - plain.lanes) * plain.lane_stride;
        assert_eq!(claimable.bytes, plain.bytes + more);
    }
}

#[test]
fn the_hash_tells_layouts_apart() {
    let hash = |maps: &[MapSpec], cpus| SegmentLayout::plan(maps, cpus).expect("within bounds").hash;
    let base = spec(MapKind::Hash, 8, 8, 16);
    let same = hash(std::slice::from_ref(&base), 2);
    assert_eq!(same, hash(std::slice::from_ref(&base), 2));
    assert_ne!(same, hash(std::slice::from_ref(&base), 3));
    assert_ne!(same, hash(&[MapSpec { value_bytes: 7, ..base.clone() }], 2));
    assert_ne!(same, hash(&[MapSpec { name: "n".into(), ..base }], 2));
}

#[test]
fn a_ring_for_each_cpu_is_smaller_where_there_are_many() {
    let ring = |bytes: u32, cpus: u32| {
        let map = MapSpec { flags: flag::RING_PER_CPU, ..spec(MapKind::RingBuf, 0, 0, bytes) };
        let layout = SegmentLayout::plan(&[map], cpus).expect("within bounds");
        let map = &layout.maps[0];
        assert_eq!(map.lanes, cpus + 1);
        assert!(map.lane_stride == u64::from(map.elem_stride) + 256 && map.data_offset.is_multiple_of(64));
        assert_eq!(map.data_offset - 256 + u64::from(map.lanes) * map.lane_stride, map.offset + map.bytes);
        map.elem_stride
    };
    assert_eq!([1, 2, 16].map(|cpus| ring(1 << 20, cpus)), [1 << 20; 3]);
    assert_eq!([17, 32, 33, 64].map(|cpus| ring(1 << 20, cpus)), [1 << 19, 1 << 19, 1 << 18, 1 << 18]);
    assert_eq!([256, 4096].map(|cpus| ring(1 << 20, cpus)), [1 << 16; 2]);
    assert_eq!([1, 4096].map(|cpus| ring(4096, cpus)), [4096; 2]);
}
