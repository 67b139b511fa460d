//! What a map is: kind, key, value and size, with the kernel's names and meanings.

/// The kinds of map, numbered as in the kernel's `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuHash = 5,
    PerCpuArray = 6,
    RingBuf = 27,
}

impl MapKind {
    /// The kernel's name without `BPF_MAP_TYPE_`, in lower case, as the text form prints it.
    pub fn name(self) -> &'static str {
        match self {
            MapKind::Hash => "hash",
            MapKind::Array => "array",
            MapKind::PerCpuHash => "percpu_hash",
            MapKind::PerCpuArray => "percpu_array",
            MapKind::RingBuf => "ringbuf",
        }
    }

    pub fn from_name(name: &str) -> Option<MapKind> {
        MapKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub const ALL: [MapKind; 5] =
        [MapKind::Hash, MapKind::Array, MapKind::PerCpuHash, MapKind::PerCpuArray, MapKind::RingBuf];

    pub fn is_per_cpu(self) -> bool {
        matches!(self, MapKind::PerCpuHash | MapKind::PerCpuArray)
    }

    pub fn is_array(self) -> bool {
        matches!(self, MapKind::Array | MapKind::PerCpuArray)
    }
}

/// The definition of one map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapSpec {
    pub name: String,
    pub kind: MapKind,
    /// Bytes of a key; 4 for arrays, 0 for rings.
    pub key_bytes: u32,
    /// Bytes of a value (of one CPU's value for per-CPU kinds); 0 for rings.
    pub value_bytes: u32,
    /// Entries; for a ring, bytes of its data area: a power of two and a multiple of the page size.
    pub max_entries: u32,
}
