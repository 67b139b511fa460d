//! Maps that programs and the shared segment of an input have: of every kind, small enough that a run is short.

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};

/// A map of each kind that weir has, in the order of `MapKind::ALL`.
pub(crate) fn maps() -> Vec<MapSpec> {
    let inner = MapKind::ALL.iter().position(|kind| *kind == MapKind::Hash).map(|index| index as u32);
    MapKind::ALL.into_iter().map(|kind| small(kind, inner)).collect()
}

/// A hash, and a map of the kind that a byte chooses, which may hold hashes.
pub(crate) fn pair(choice: u8) -> Vec<MapSpec> {
    let kind = MapKind::ALL[usize::from(choice) % MapKind::ALL.len()];
    let mut chosen = small(kind, Some(0));
    if kind == MapKind::RingBuf {
        let forms = [0, flag::RING_PER_CPU, flag::RING_PER_CPU | flag::RB_OVERWRITE];
        chosen.flags = forms[usize::from(choice) / MapKind::ALL.len() % forms.len()];
    }
    vec![small(MapKind::Hash, None), chosen]
}

/// `inner`: which one those that it holds are like, if it holds maps.
fn small(kind: MapKind, inner: Option<u32>) -> MapSpec {
    let (key_bytes, value_bytes, max_entries) = match kind {
        MapKind::Array | MapKind::PerCpuArray => (4, 16, 4),
        MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash => (8, 16, 8),
        MapKind::RingBuf => (0, 0, 4096),
        MapKind::Queue | MapKind::Stack | MapKind::BloomFilter => (0, 16, 8),
        MapKind::LpmTrie => (8, 16, 8),
        MapKind::StackTrace => (4, 64, 8),
        MapKind::ProgArray | MapKind::PerfEventArray | MapKind::CgroupArray => (4, 4, 4),
        MapKind::ArrayOfMaps | MapKind::HashOfMaps => (4, 4, 4),
        MapKind::DevMap
        | MapKind::DevMapHash
        | MapKind::CpuMap
        | MapKind::XskMap
        | MapKind::SockMap
        | MapKind::SockHash => (4, 4, 4),
    };
    let mut spec = MapSpec::new(kind.name(), kind, key_bytes, value_bytes, max_entries);
    if kind == MapKind::LpmTrie {
        spec.flags = flag::NO_PREALLOC;
    }
    spec.inner = inner.filter(|_| kind.holds_maps());
    spec
}
