//! What a map is: kind, key, value and size, with the kernel's names and meanings.

/// Bytes of a ring: a power of two between these. The least is a page of x86-64; up to the most a record's size and its offset are
/// legal offsets of pointers.
pub const RING_BYTES_MIN: u32 = 4096;
pub const RING_BYTES_MAX: u32 = 1 << 28;

/// The kinds of map, numbered as in the kernel's `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PerfEventArray = 4,
    PerCpuHash = 5,
    PerCpuArray = 6,
    StackTrace = 7,
    CgroupArray = 8,
    LruHash = 9,
    LruPerCpuHash = 10,
    LpmTrie = 11,
    ArrayOfMaps = 12,
    HashOfMaps = 13,
    DevMap = 14,
    SockMap = 15,
    CpuMap = 16,
    XskMap = 17,
    SockHash = 18,
    DevMapHash = 25,
    Queue = 22,
    Stack = 23,
    BloomFilter = 30,
    RingBuf = 27,
}

impl MapKind {
    /// The kernel's name without `BPF_MAP_TYPE_`, in lower case, as the text form prints it.
    pub fn name(self) -> &'static str {
        match self {
            MapKind::Hash => "hash",
            MapKind::Array => "array",
            MapKind::ProgArray => "prog_array",
            MapKind::PerfEventArray => "perf_event_array",
            MapKind::PerCpuHash => "percpu_hash",
            MapKind::PerCpuArray => "percpu_array",
            MapKind::StackTrace => "stack_trace",
            MapKind::CgroupArray => "cgroup_array",
            MapKind::LruHash => "lru_hash",
            MapKind::LruPerCpuHash => "lru_percpu_hash",
            MapKind::LpmTrie => "lpm_trie",
            MapKind::ArrayOfMaps => "array_of_maps",
            MapKind::HashOfMaps => "hash_of_maps",
            MapKind::DevMap => "devmap",
            MapKind::SockMap => "sockmap",
            MapKind::CpuMap => "cpumap",
            MapKind::XskMap => "xskmap",
            MapKind::SockHash => "sockhash",
            MapKind::DevMapHash => "devmap_hash",
            MapKind::Queue => "queue",
            MapKind::Stack => "stack",
            MapKind::RingBuf => "ringbuf",
            MapKind::BloomFilter => "bloom_filter",
        }
    }

    pub fn from_name(name: &str) -> Option<MapKind> {
        MapKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub const ALL: [MapKind; 23] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::ProgArray,
        MapKind::PerfEventArray,
        MapKind::PerCpuHash,
        MapKind::PerCpuArray,
        MapKind::StackTrace,
        MapKind::CgroupArray,
        MapKind::LruHash,
        MapKind::LruPerCpuHash,
        MapKind::LpmTrie,
        MapKind::ArrayOfMaps,
        MapKind::HashOfMaps,
        MapKind::DevMap,
        MapKind::SockMap,
        MapKind::CpuMap,
        MapKind::XskMap,
        MapKind::SockHash,
        MapKind::DevMapHash,
        MapKind::Queue,
        MapKind::Stack,
        MapKind::RingBuf,
        MapKind::BloomFilter,
    ];

    pub fn is_per_cpu(self) -> bool {
        matches!(self, MapKind::PerCpuHash | MapKind::PerCpuArray | MapKind::LruPerCpuHash)
    }

    /// Keys of any size that come and go: chains of nodes.
    pub fn is_hash(self) -> bool {
        matches!(self, MapKind::Hash | MapKind::PerCpuHash) || self.is_lru()
    }

    /// Hashes that make room for a new key by giving up one that was not used lately.
    pub fn is_lru(self) -> bool {
        matches!(self, MapKind::LruHash | MapKind::LruPerCpuHash)
    }

    /// Elements have keys.
    pub fn has_keys(self) -> bool {
        !matches!(self, MapKind::Queue | MapKind::Stack | MapKind::BloomFilter | MapKind::RingBuf)
    }

    /// Elements are pushed, popped and peeked at.
    pub fn is_queue(self) -> bool {
        matches!(self, MapKind::Queue | MapKind::Stack)
    }

    /// Programs pass such a map to helpers of its own, and neither look its values up nor change them.
    pub fn is_opaque(self) -> bool {
        matches!(
            self,
            MapKind::RingBuf
                | MapKind::PerfEventArray
                | MapKind::StackTrace
                | MapKind::CgroupArray
                | MapKind::ProgArray
        ) || self.redirects()
    }

    /// Its elements are devices, CPUs or sockets, to which programs redirect packets. In a process there are none: such a map is
    /// empty, and what is redirected goes where the program says for that.
    pub fn redirects(self) -> bool {
        use MapKind::{CpuMap, DevMap, DevMapHash, SockHash, SockMap, XskMap};
        matches!(self, DevMap | DevMapHash | CpuMap | XskMap | SockMap | SockHash)
    }

    /// Its values are maps: a look-up gives one, as helpers take it.
    pub fn holds_maps(self) -> bool {
        matches!(self, MapKind::ArrayOfMaps | MapKind::HashOfMaps)
    }

    /// Elements stand where a look-up finds them, and are changed there: programs and user space may hold on to one.
    /// Elements without keys, what helpers alone read, and maps in maps are not given out.
    pub fn has_values_in_place(self) -> bool {
        self.is_array() || self.is_hash() || self == MapKind::LpmTrie
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
    /// Bytes of a key; 4 for arrays, 0 for kinds without keys; of an LPM trie, 4 for the length in bits and the most
    /// that a prefix has.
    pub key_bytes: u32,
    /// Bytes of a value (of one CPU's value for per-CPU kinds); 0 for rings.
    pub value_bytes: u32,
    /// Entries; for a ring, bytes of its data area: a power of two and a multiple of the page size (of each, where there
    /// is one for each CPU); for a `PerfEventArray`, 0 means one for each CPU.
    pub max_entries: u32,
    /// The kernel's `map_flags`, of [`flag`], and weir's own.
    pub flags: u32,
    /// The kernel's `map_extra`: of a Bloom filter how many hash functions, at most 15 (0: 5); 0 for other kinds.
    pub extra: u64,
    /// Of a map that holds maps: the index, among the maps of the object, of one that is like each of them
    /// ([`MapSpec::is_like`]).
    pub inner: Option<u32>,
}

impl MapSpec {
    /// A map without flags and extra.
    pub fn new(
        name: impl Into<String>,
        kind: MapKind,
        key_bytes: u32,
        value_bytes: u32,
        max_entries: u32,
    ) -> MapSpec {
        MapSpec {
            name: name.into(),
            kind,
            key_bytes,
            value_bytes,
            max_entries,
            flags: 0,
            extra: 0,
            inner: None,
        }
    }

    /// A map that holds maps may hold this one where it was defined to hold `other`: what is known of one is true of
    /// the other (the kernel's `map_meta_equal`).
    pub fn is_like(&self, other: &MapSpec) -> bool {
        let sizes = |map: &MapSpec| (map.kind, map.key_bytes, map.value_bytes, map.flags, map.extra);
        sizes(self) == sizes(other) && (!self.kind.is_array() || self.max_entries == other.max_entries)
    }

    /// It consists of several rings.
    pub fn has_rings_per_cpu(&self) -> bool {
        self.kind == MapKind::RingBuf && self.has(flag::RING_PER_CPU)
    }

    /// Several rings, in which the newest record takes the place of the oldest.
    pub fn overwrites(&self) -> bool {
        self.has_rings_per_cpu() && self.has(flag::RB_OVERWRITE)
    }

    /// It is to overwrite, but is one ring, which does not.
    pub fn lacks_rings_to_overwrite(&self) -> bool {
        self.kind == MapKind::RingBuf && self.has(flag::RB_OVERWRITE) && !self.has(flag::RING_PER_CPU)
    }

    /// `map_flags` as a kernel is given them: without weir's own, which change nothing of what a program means.
    pub fn kernel_flags(&self) -> u32 {
        self.flags & !((flag::RING_PER_CPU | flag::IN_KERNEL) & taken(self.kind))
    }

    /// True if one of `flags` is set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Flags that are set but that maps of this kind do not take; 0 for none.
    pub fn foreign_flags(&self) -> u32 {
        self.flags & !taken(self.kind)
    }

    /// True for an LPM trie without the flag that it needs.
    pub fn lacks_no_prealloc(&self) -> bool {
        self.kind == MapKind::LpmTrie && !self.has(flag::NO_PREALLOC)
    }

    /// Most that [`extra`](MapSpec::extra) can be for this kind.
    pub fn extra_max(&self) -> u64 {
        if self.kind == MapKind::BloomFilter { BLOOM_HASHES_MAX } else { 0 }
    }

    /// Hash functions of a Bloom filter.
    pub fn bloom_hashes(&self) -> u32 {
        if self.extra == 0 { BLOOM_HASHES_DEFAULT } else { self.extra as u32 }
    }
}

/// Where the parts of a hash map lie, which is shared with programs in the kernel. Offsets are from the beginning of the memory that they see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its index among the maps of the program.
    pub map: u32,
    /// Bytes of a key: a multiple of 8.
    pub key_bytes: u32,
    /// Where its control block is.
    pub control: u64,
    /// Where the heads of its chains are.
    pub buckets: u64,
    /// How many, less one: a power of two less one.
    pub bucket_mask: u32,
    /// Where its nodes are.
    pub nodes: u64,
    /// How many, with spare ones.
    pub node_count: u32,
    /// Of those, how many hold keys at most.
    pub max_entries: u32,
    /// Bytes from one node to the next.
    pub node_stride: u32,
    /// Of its hash function.
    pub seed: u64,
}

/// Bytes of an LPM trie's key, of which the first 4 are the length of the prefix in bits.
pub const LPM_KEY_BYTES: std::ops::RangeInclusive<u32> = 5..=260;

/// Hash functions of a Bloom filter (Documentation/bpf/map_bloom_filter.rst).
const BLOOM_HASHES_MAX: u64 = 15;
const BLOOM_HASHES_DEFAULT: u32 = 5;

/// Flags of map definitions, as in linux/bpf.h.
pub mod flag {
    /// A hash's elements are allocated when they are needed. Without effect: weir's always stand in the segment. An LPM
    /// trie needs it, as in the kernel.
    pub const NO_PREALLOC: u32 = 1 << 0;
    /// An LRU hash with one list of elements per CPU. Without effect: weir's has no lists.
    pub const NO_COMMON_LRU: u32 = 1 << 1;
    /// User space only reads the map: its updates and deletes answer EPERM.
    pub const RDONLY: u32 = 1 << 3;
    /// User space only writes to the map: its look-ups and walks answer EPERM.
    pub const WRONLY: u32 = 1 << 4;
    /// A hash whose seed is 0. Without effect: no order of elements is promised either way.
    pub const ZERO_SEED: u32 = 1 << 6;
    /// Programs only read the map.
    pub const RDONLY_PROG: u32 = 1 << 7;
    /// Programs only write to the map.
    pub const WRONLY_PROG: u32 = 1 << 8;
    /// An array that user space can map into its memory. Without effect: weir's always can.
    pub const MMAPABLE: u32 = 1 << 10;

    /// Perf events stay when the map's descriptor is closed. Without effect: weir's rings are the map's.
    pub const PRESERVE_ELEMS: u32 = 1 << 11;

    /// A ring buffer that, when it is full, overwrites its oldest records (Linux 6.19). Here only with a ring for each CPU.
    pub const RB_OVERWRITE: u32 = 1 << 19;

    /// weir's own, which no kernel knows: programs in the kernel see the same memory, with the map's elements in it.
    pub const IN_KERNEL: u32 = 1 << 30;

    /// weir's own, which no kernel knows: a ring buffer is one ring for each CPU, and one for code that has none. Its
    /// records carry the time, by which a reader puts them in order.
    pub const RING_PER_CPU: u32 = 1 << 31;

    /// Who may do what.
    pub const ACCESS: u32 = RDONLY | WRONLY | RDONLY_PROG | WRONLY_PROG;

    /// Names for messages and listings.
    #[rustfmt::skip]
    pub const NAMES: &[(u32, &str)] = &[
        (NO_PREALLOC,   "BPF_F_NO_PREALLOC"),
        (NO_COMMON_LRU, "BPF_F_NO_COMMON_LRU"),
        (RDONLY,        "BPF_F_RDONLY"),
        (WRONLY,        "BPF_F_WRONLY"),
        (ZERO_SEED,     "BPF_F_ZERO_SEED"),
        (RDONLY_PROG,   "BPF_F_RDONLY_PROG"),
        (WRONLY_PROG,   "BPF_F_WRONLY_PROG"),
        (MMAPABLE,      "BPF_F_MMAPABLE"),
        (PRESERVE_ELEMS, "BPF_F_PRESERVE_ELEMS"),
        (RB_OVERWRITE,  "BPF_F_RB_OVERWRITE"),
        (IN_KERNEL,     "WEIR_F_IN_KERNEL"),
        (RING_PER_CPU,  "WEIR_F_RING_PER_CPU"),
    ];

    /// The names of `flags`, between commas.
    pub fn names(flags: u32) -> String {
        let set = NAMES.iter().filter(|(flag, _)| flags & flag != 0);
        set.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    }
}

/// Flags that the kernel takes for maps of a kind, of those that are known here; and weir's own.
pub fn taken(kind: MapKind) -> u32 {
    use flag::{ACCESS, IN_KERNEL, MMAPABLE, NO_COMMON_LRU, NO_PREALLOC, ZERO_SEED};
    match kind {
        MapKind::Hash => NO_PREALLOC | ZERO_SEED | ACCESS | IN_KERNEL,
        MapKind::PerCpuHash => NO_PREALLOC | ZERO_SEED | ACCESS,
        MapKind::LruHash | MapKind::LruPerCpuHash => NO_COMMON_LRU | ZERO_SEED | ACCESS,
        MapKind::Array => MMAPABLE | ACCESS | IN_KERNEL,
        MapKind::LpmTrie => NO_PREALLOC | ACCESS,
        MapKind::BloomFilter => ZERO_SEED | ACCESS,
        MapKind::PerCpuArray | MapKind::Queue | MapKind::Stack => ACCESS,
        // Rights of programs are none where no program reads or writes a value.
        MapKind::PerfEventArray => flag::RDONLY | flag::WRONLY | flag::PRESERVE_ELEMS,
        MapKind::StackTrace | MapKind::CgroupArray | MapKind::ProgArray => flag::RDONLY | flag::WRONLY,
        MapKind::ArrayOfMaps => flag::RDONLY | flag::WRONLY,
        MapKind::DevMap | MapKind::DevMapHash | MapKind::SockMap | MapKind::SockHash | MapKind::XskMap => {
            flag::RDONLY | flag::WRONLY
        }
        MapKind::CpuMap => 0,
        MapKind::HashOfMaps => NO_PREALLOC | ZERO_SEED | flag::RDONLY | flag::WRONLY,
        MapKind::RingBuf => flag::RB_OVERWRITE | flag::RING_PER_CPU,
    }
}
