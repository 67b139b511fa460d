//! A shared segment, of a session's maps or of one target's own, as the controller holds it: a sealed memfd, mapped read-write, with a trusted copy of its
//! layout.
//!
//! Guarantees: every page is allocated and the size sealed before `create` returns, so that no access of a target
//! can fault, and a segment that would take most of the machine's memory is refused before any page is; every offset
//! comes from the layout that `plan` checked, never from the segment's own bytes, which a hostile target may change at
//! any time. What such a target can do is give wrong answers about itself.
//!
//! Deliberately not here: making the memfd inside a target and mapping it there (weir-probe).

mod layout;

mod mapping;
mod memory;

mod announce;
mod aside;
mod counters;
mod elements;
mod filter;
mod group;
mod growth;
mod held;
mod journal;
mod lanes;
mod lease;
mod map_view;
mod merge;
mod meter;
mod prefixes;
mod reads;
mod ring;
mod snapshot;
mod stacks;
mod stats_page;
mod user_map;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use weir_ebpf::elf::MapOrigin;
use weir_ebpf::map::{Table, flag};

use crate::abi::{self, Descriptor, JOURNAL_ENTRY_BYTES, header};
pub use crate::abi::{DESCRIPTOR_BYTES, SegmentKind};
use crate::executable::Symbol;
use crate::limits::{ISLANDS_MAX, LABEL_BYTES_MAX, PROBE_WORDS};

pub use self::announce::Announcements;
pub use self::aside::Aside;
pub use self::counters::{Counters, MapCounters};
pub use self::filter::Filter;
pub use self::growth::Growth;
pub use self::journal::{Journal, JournalEntry, JournalFull, JournalState};
pub use self::layout::{LayoutError, MapLayout, SegmentLayout, map_fault};
pub use self::map_view::{MapError, MapView};
pub use self::memory::{FileTooLarge, OutOfMemory};
pub use self::meter::{How, Meter, MeterWords};
pub use self::reads::{Known, Reads, ReadsState};
pub use self::ring::{PerfReader, Record, RingCounters, RingMark, RingReader};
pub use self::snapshot::{RingCopy, Snapshot, SnapshotReader};
pub use self::stats_page::{StatsPage, StatsPageLine};
pub use self::user_map::UserMap;

pub(crate) use self::journal::parse as parse_journal;
pub(crate) use self::layout::Fnv;
use self::lease::Lease;
pub(crate) use self::mapping::Mapping;
use self::ring::Rings;
pub(crate) use self::stats_page::parse as parse_stats_page;

/// Name of the memfd of a session's maps, by which the next weir finds them.
pub const MAPS_NAME: &str = "weir-maps";

/// Who traces whom: for `weir ps`, and for the next weir.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    pub session: u64,
    pub controller_pid: u32,
    /// Field 22 of /proc/PID/stat: tells the controller from a later process with its pid.
    pub controller_start: u64,
    pub uid: u32,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub started_ns: u64,
    /// 0: the session's maps, which are no single target's.
    pub target_pid: u32,
    /// For `weir ps`; longer labels are cut at a character.
    pub label: String,
}

/// Where in the target things are mapped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    pub segment_address: u64,
    /// Of the session's maps; 0 while they are not.
    pub maps_address: u64,
    pub gate_address: u64,
    /// Address and bytes of each island of code; at most [`ISLANDS_MAX`], further ones are an error.
    pub islands: Vec<(u64, u64)>,
    /// Stubs of replaced return addresses: their address and bytes, the address of their records, the power of two that a record has bytes;
    /// 0 where there are none.
    pub stubs: [u64; 4],
    /// What signal handlers return to; 0 where that is not known.
    pub restorers: [u64; 2],
}

/// The controller's mapping of a segment.
#[derive(Debug)]
pub struct Segment {
    fd: OwnedFd,
    /// The array of the kernel's that lies over the segment's end, where maps are there.
    in_kernel: Option<OwnedFd>,
    mapping: Arc<Mapping>,
    layout: SegmentLayout,
    session: u64,
    descriptors: Box<[Descriptor]>,
    /// Of each map.
    rings: Box<[Rings]>,
    /// Maps whose contents user space may not change any more.
    frozen: Box<[AtomicBool]>,
    journal_entries: AtomicU32,
    lease: Mutex<Option<Lease>>,
    /// Of each map; the segment's own word may lie.
    nodes_allocated: Box<[AtomicU32]>,
    bytes_allocated: AtomicU64,
}

/// The file is in memory and has its size. Until it was sealed other processes that have it may have changed its size, or
/// put another file in its place: an access past its end would be SIGBUS.
fn check_sealed(fd: &OwnedFd, bytes: u64) -> io::Result<()> {
    let is_in_memory = fstatfs(fd)?.filesystem_type() == TMPFS_MAGIC;
    match is_in_memory && u64::try_from(fstat(fd)?.st_size) == Ok(bytes) {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "another process has changed its file")),
    }
}

impl Segment {
    /// Makes the segment in `fd`, an empty memfd that allows sealing.
    ///
    /// # Errors
    /// [`OutOfMemory`] (of kind `OutOfMemory`) where the maps take too much of what memory there is, [`FileTooLarge`] (of that
    /// kind) where files of this process may not be so large; of kind `InvalidData` where another process has changed the file meanwhile. Else of the failing system call: `fallocate` where memory is short, `fcntl` where sealing is not allowed.
    pub fn create(fd: OwnedFd, layout: SegmentLayout, identity: &Identity) -> io::Result<Segment> {
        Segment::create_over(fd, None, layout, identity)
    }

    /// `in_kernel`: memory of [`SegmentLayout::kernel_bytes`].
    fn create_over(
        fd: OwnedFd,
        in_kernel: Option<OwnedFd>,
        layout: SegmentLayout,
        identity: &Identity,
    ) -> io::Result<Segment> {
        if in_kernel.is_some() != (layout.kernel_bytes() > 0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "maps in the kernel, and no memory of the kernel's",
            ));
        }
        memory::check(&layout)?;
        let bytes = i64::try_from(layout.bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        nix::unistd::ftruncate(&fd, bytes)?;
        Segment::allocate(&fd, &layout)?;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        check_sealed(&fd, layout.bytes)?;
        let mapping = Mapping::shared(&fd, layout.bytes)?;
        if let Some(in_kernel) = &in_kernel {
            mapping.cover(in_kernel, layout.kernel_offset)?;
        }
        let mapping = Arc::new(mapping);
        let base = mapping.base();
        let session = identity.session;
        // Where they stand is known when they do.
        let mut descriptors: Box<[Descriptor]> = layout.descriptors(base, 0, session).into();
        let at = descriptors.as_ptr() as u64;
        descriptors.iter_mut().for_each(|descriptor| descriptor.descriptors = at);
        let rings = layout.maps.iter().map(|map| Rings::new(map.rings())).collect();
        let frozen = layout.maps.iter().map(|_| AtomicBool::new(false)).collect();
        let nodes_allocated = layout.maps.iter().map(|map| AtomicU32::new(map.nodes_at_first)).collect();
        let bytes_allocated = AtomicU64::new(layout.bytes_at_first());
        let segment = Segment {
            fd,
            in_kernel,
            mapping,
            layout,
            session,
            descriptors,
            rings,
            frozen,
            journal_entries: AtomicU32::new(0),
            lease: Mutex::new(None),
            nodes_allocated,
            bytes_allocated,
        };
        segment.format(identity);
        Ok(segment)
    }

    /// A segment of maps in a memfd of this process, which may be lent to targets.
    pub fn create_maps(layout: SegmentLayout, identity: &Identity) -> io::Result<Segment> {
        let fd = memfd_create(MAPS_NAME, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        Segment::create(fd, layout, identity)
    }

    /// The same, where programs in the kernel see some of the maps: `in_kernel` is an array of theirs with one value of [`SegmentLayout::kernel_bytes`],
    /// which may be mapped.
    pub fn create_maps_with_kernel(
        layout: SegmentLayout,
        identity: &Identity,
        in_kernel: OwnedFd,
    ) -> io::Result<Segment> {
        let fd = memfd_create(MAPS_NAME, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        Segment::create_over(fd, Some(in_kernel), layout, identity)
    }

    /// A segment in a memfd of this process, for it alone: for programs without a target, and tests.
    pub fn create_local(layout: SegmentLayout, identity: &Identity) -> io::Result<Segment> {
        let fd = memfd_create("weir-local", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        Segment::create(fd, layout, identity)
    }

    pub fn layout(&self) -> &SegmentLayout {
        &self.layout
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What lies over the segment's end, from `kernel_offset` on.
    pub fn in_kernel(&self) -> Option<BorrowedFd<'_>> {
        self.in_kernel.as_ref().map(OwnedFd::as_fd)
    }

    /// Where the parts of a hash lie that programs in the kernel see too.
    ///
    /// # Panics
    /// If the map of this index is none.
    pub fn table(&self, index: usize) -> Table {
        let map = &self.layout.maps[index];
        assert!(map.is_in_kernel() && map.node_count > 0, "map {} is no hash in the kernel", map.spec.name);
        let in_kernel = |offset: u64| offset - self.layout.kernel_offset;
        Table {
            map: index as u32,
            key_bytes: map.spec.key_bytes,
            control: in_kernel(map.offset),
            buckets: in_kernel(map.buckets_offset),
            bucket_mask: map.buckets - 1,
            nodes: in_kernel(map.nodes_offset),
            node_count: map.node_count,
            max_entries: map.spec.max_entries,
            node_stride: map.node_stride,
            seed: self.descriptor(index).seed,
        }
    }

    /// The segment's address in this process.
    pub fn base(&self) -> u64 {
        self.mapping.base()
    }

    pub fn session(&self) -> u64 {
        self.session
    }

    /// The descriptors of all maps for a segment mapped at `base`, [`DESCRIPTOR_BYTES`] each: what stands next to the
    /// code in an island, at `at`.
    pub fn descriptors(&self, base: u64, at: u64) -> Vec<u8> {
        let all = self.layout.descriptors(base, at, self.session);
        all.iter().flat_map(|descriptor| descriptor.to_bytes()).collect()
    }

    /// What a map symbol means for a segment mapped at `base` with its descriptors at `descriptors`.
    pub fn resolve(&self, base: u64, descriptors: u64, symbol: Symbol) -> Option<u64> {
        match symbol {
            Symbol::Map(index) => {
                self.layout.maps.get(index as usize)?;
                Some(descriptors + u64::from(index) * DESCRIPTOR_BYTES)
            }
            Symbol::MapData(index) => Some(base + self.layout.maps.get(index as usize)?.data_offset),
            Symbol::Claims if self.layout.claim_lanes > 0 => Some(base + self.layout.claims_offset),
            Symbol::Claims
            | Symbol::Helper(_)
            | Symbol::Runtime(_)
            | Symbol::Programs
            | Symbol::Filter
            | Symbol::Code(_) => None,
        }
    }

    /// Says from now on, in the word at `header::LEASE`, that this process lives: as long as it does and this is not
    /// dropped. Once is enough.
    ///
    /// # Errors
    /// As of making a thread, and of set_robust_list(2).
    pub fn hold_lease(&self) -> io::Result<()> {
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if lease.is_none() {
            *lease = Some(Lease::take(&self.mapping)?);
        }
        Ok(())
    }

    /// Gives each map what its file says that it holds at first, and freezes those that programs only read, as libbpf
    /// does with `.rodata`.
    ///
    /// # Errors
    /// The index of the map, and why it did not take it.
    pub fn fill(&self, origins: &[MapOrigin]) -> Result<(), (usize, MapError)> {
        for (index, origin) in origins.iter().enumerate() {
            let at = |error| (index, error);
            if let Some(initial) = &origin.initial {
                self.map(index).update(&0u32.to_le_bytes(), initial, 0).map_err(at)?;
            }
            for (slot, program) in &origin.programs {
                self.map(index).set_program(*slot, Some(*program as u32)).map_err(at)?;
            }
            for (key, held) in &origin.held {
                self.map(index).update(&key.to_le_bytes(), &held.to_le_bytes(), 0).map_err(at)?;
            }
            if self.layout().maps[index].spec.has(flag::RDONLY_PROG) {
                self.user_map(index).freeze().map_err(at)?;
            }
        }
        Ok(())
    }

    /// # Panics
    /// If there is no map of this index.
    pub fn map(&self, index: usize) -> MapView<'_> {
        MapView::new(self, index)
    }

    /// The map as bpf(2) would let user space use it.
    ///
    /// # Panics
    /// If there is no map of this index.
    pub fn user_map(&self, index: usize) -> UserMap<'_> {
        UserMap::new(self, index)
    }

    /// # Panics
    /// If the map of this index is not a ring, or is one that overwrites.
    pub fn ring(&self, index: usize) -> RingReader<'_> {
        RingReader::new(self, index)
    }

    /// Of rings that overwrite.
    ///
    /// # Panics
    /// If the map of this index is none.
    pub fn flight(&self, index: usize) -> SnapshotReader<'_> {
        SnapshotReader::new(self, index)
    }

    /// What became of a ring's records, whether it overwrites or not.
    ///
    /// # Panics
    /// If the map of this index is not a ring.
    pub fn ring_counters(&self, index: usize) -> RingCounters {
        match self.layout().maps[index].spec.overwrites() {
            true => self.flight(index).counters(),
            false => self.ring(index).counters(),
        }
    }

    /// Takes out of the way what threads that are gone have left half written in a ring, whether it overwrites or not. Returns how many
    /// records. `is_gone`: as for [`RingReader::skip_gone`].
    ///
    /// # Panics
    /// If the map of this index is not a ring.
    pub fn skip_gone(&self, index: usize, is_gone: &dyn Fn(u32) -> bool) -> u64 {
        match self.layout().maps[index].spec.overwrites() {
            true => self.flight(index).skip_gone(is_gone),
            false => self.ring(index).skip_gone(is_gone),
        }
    }

    /// # Panics
    /// If the map of this index is not a `PerfEventArray`.
    pub fn perf(&self, index: usize) -> PerfReader<'_> {
        PerfReader::new(self, index)
    }

    pub fn journal(&self) -> Journal<'_> {
        Journal::new(self)
    }

    /// A copy of every counter in the segment.
    pub fn counters(&self) -> Counters {
        Counters::read(self)
    }

    /// Tells the next weir where in the target things are.
    ///
    /// # Panics
    /// If there are more than [`ISLANDS_MAX`] islands.
    pub fn set_place(&self, place: &Place) {
        assert!(
            place.islands.len() <= ISLANDS_MAX,
            "at most {ISLANDS_MAX} islands, not {}",
            place.islands.len()
        );
        self.put(header::PLACE_SEGMENT, place.segment_address);
        self.put(header::PLACE_MAPS, place.maps_address);
        self.put(header::PLACE_GATE, place.gate_address);
        for (n, (address, bytes)) in place.islands.iter().enumerate() {
            self.put(header::PLACE_ISLANDS + n * 16, *address);
            self.put(header::PLACE_ISLANDS + n * 16 + 8, *bytes);
        }
        for (n, word) in place.restorers.iter().enumerate() {
            self.put(header::PLACE_RESTORERS + n * 8, *word);
        }
        for (n, word) in place.stubs.iter().enumerate() {
            self.put(header::PLACE_STUBS + n * 8, *word);
        }
        self.put(header::PLACE_ISLAND_COUNT, place.islands.len() as u64);
    }

    /// Says that its controller has left it behind in the target: whoever comes next may take it out.
    pub fn leave_behind(&self) {
        // No process starts before the machine does.
        self.put(header::CONTROLLER_START, 0);
    }

    /// Offset in the segment of word `n` of those that weir-probe's trampolines count in.
    ///
    /// # Panics
    /// If `n` is not below [`PROBE_WORDS`].
    pub fn probe_word_offset(n: usize) -> u64 {
        assert!(n < PROBE_WORDS, "probe word {n} of {PROBE_WORDS}");
        (header::PROBE_WORDS + n * 8) as u64
    }

    /// What probe word `n` holds now.
    pub fn probe_word(&self, n: usize) -> u64 {
        self.mapping.word(Segment::probe_word_offset(n)).load(Ordering::Relaxed)
    }

    /// Sets probe word `n`.
    pub fn set_probe_word(&self, n: usize, value: u64) {
        self.mapping.word(Segment::probe_word_offset(n)).store(value, Ordering::Release);
    }

    /// Zero bytes are an empty map; rings need their free space marked, and the header its words.
    fn format(&self, identity: &Identity) {
        for map in &self.layout.maps {
            let withheld = u64::from(map.spec.max_entries - map.nodes_at_first);
            self.mapping.word(map.offset + abi::control::WITHHELD).store(withheld, Ordering::Relaxed);
        }
        for (map, descriptor) in self.layout.maps.iter().zip(&self.descriptors) {
            for ring in map.rings() {
                ring::mark_free(&self.mapping, ring, descriptor.seed);
            }
        }
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let layout = &self.layout;
        let label = label_bytes(&identity.label);
        self.put(header::CLAIMS_OFFSET, layout.claims_offset);
        self.put(header::CLAIM_LANES, pair(layout.claim_lanes, layout.kind as u32));
        self.put(header::SESSION, identity.session);
        self.put(header::RANDOM, layout::seed(identity.session, header::RANDOM as u64));
        self.put(header::LAYOUT_HASH, layout.hash);
        self.put(header::SEGMENT_BYTES, layout.bytes);
        self.put(header::MAP_COUNT, pair(layout.maps.len() as u32, layout.cpus));
        self.put(header::JOURNAL_OFFSET, layout.journal_offset);
        self.put(header::JOURNAL_CAPACITY, pair(layout.journal_capacity, JOURNAL_ENTRY_BYTES as u32));
        self.put(header::STATS_PAGE_OFFSET, layout.stats_page_offset);
        self.put(header::STATS_PAGE_LINES, pair(layout.stats_page_lines, abi::STATS_PAGE_LINE_BYTES as u32));
        if layout.reads_offset > 0 {
            self.put(header::READS_ALWAYS, 1);
            self.put(header::READS_AREA, layout.reads_offset);
        }
        self.put(header::CONTROLLER_PID, pair(identity.controller_pid, identity.uid));
        self.put(header::CONTROLLER_START, identity.controller_start);
        self.put(header::STARTED_NS, identity.started_ns);
        self.put(header::TARGET_PID, pair(identity.target_pid, label.len() as u32));
        for (n, chunk) in label.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.put(header::LABEL + n * 8, u64::from_le_bytes(word));
        }
        self.put(header::ABI_VERSION, pair(abi::ABI_VERSION, abi::HEADER_BYTES as u32));
        // Last: whoever sees the magic sees a whole header.
        self.put(header::MAGIC, abi::MAGIC);
    }

    fn put(&self, offset: usize, word: u64) {
        self.mapping.word(offset as u64).store(word, Ordering::Release);
    }

    /// Address of the descriptor of map `index` in this process: what helpers take as a map.
    pub fn descriptor_address(&self, index: usize) -> u64 {
        std::ptr::from_ref(self.descriptor(index)) as u64
    }

    pub(crate) fn descriptor(&self, index: usize) -> &Descriptor {
        &self.descriptors[index]
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

/// The label's bytes, cut at a character to what the header holds.
fn label_bytes(label: &str) -> &[u8] {
    let mut end = label.len().min(LABEL_BYTES_MAX);
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    &label.as_bytes()[..end]
}

#[cfg(test)]
mod tests;
