//! Every bound of this crate, named once.

use weir_ebpf::{HelperId, helper};

/// Maps of one object.
pub const MAPS_MAX: usize = 256;
/// Bytes of a hash map's key. The kernel takes 4,096 and more; a string of max_strlen is 1,024.
pub const KEY_BYTES_MAX: u32 = 8192;
/// Bytes of one value (of one CPU's value for per-CPU kinds).
pub const VALUE_BYTES_MAX: u32 = 1 << 20;
/// Entries of a map that is not a ring. A hash's links hold 25 bits of index.
pub const ENTRIES_MAX: u32 = 1 << 24;
/// Nodes beyond `max_entries` that replacements of large values, and pushes and pops of queues and stacks, pass
/// through: so many may be under way at once.
pub const SPARE_NODES: u32 = 64;
/// Hashes of at most so many entries have a cache line for each that has its value with it.
pub const APART_ENTRIES_MAX: u32 = 1 << 16;
/// Bytes of a ring's data: a power of two between these.
pub const RING_BYTES_MIN: u32 = 4096;
pub const RING_BYTES_MAX: u32 = 1 << 30;
/// Bytes of one CPU's ring in a PERF_EVENT_ARRAY: a power of two. The kernel leaves it to the reader; tools take 16 to
/// 64 pages.
pub const PERF_RING_BYTES: u32 = 1 << 17;
/// Where a RINGBUF has a ring for each CPU, those of so many CPUs have the size that the map says. Of more CPUs, each
/// has so much less that they are not more memory, down to [`CPU_RING_BYTES_MIN`].
pub const CPU_RINGS_WHOLE: u32 = 16;
pub const CPU_RING_BYTES_MIN: u32 = 1 << 16;
/// Rings beside those of the CPUs in a RINGBUF that overwrites, for code that has no CPU's: whoever reserves has one of them
/// alone meanwhile, so that this many may be interrupted, or die, at it. The first that is free is taken, so that those
/// which nobody ever needed take no memory.
pub const SPARE_RINGS: u32 = 16;
/// Bytes that a snapshot of a ring copies in all, at least, before it gives up on writers that are faster.
pub const SNAPSHOT_BYTES: u64 = 1 << 26;
/// Addresses of one stack (the kernel's PERF_MAX_STACK_DEPTH).
pub const STACK_DEPTH_MAX: u32 = 127;
/// CPUs with a lane of their own: what the CPU number's 12 bits can say.
pub const CPUS_MAX: u32 = 4096;
/// Lanes that runs may claim beyond one a CPU: for runs that interrupt, or preempt, one that has its CPU's lane. Each
/// costs every per-CPU map one value an entry.
pub const CLAIM_SPARE_LANES: u32 = 16;
/// Bytes of a whole segment.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 36;
/// Nodes of a hash that grows which are allocated from the beginning: what 25 threads insert in the 5 ms between two looks
/// of the controller, at a million a second each.
pub const NODES_AT_FIRST: u32 = 1 << 17;
/// Bytes by which a map grows at a time, at most: the kernel takes 10 ms to clear them.
pub const GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Part of the memory that the machine, or the control group, has left, which one segment may take: 1 divided by this.
pub const MEMORY_SHARE: u64 = 2;
/// Segments of at most so many bytes are made without asking what memory there is, which takes a few files of /proc.
pub const MEMORY_UNASKED_BYTES: u64 = 4 << 20;
/// Entries of the undo journal.
pub const JOURNAL_CAPACITY_MAX: u32 = 1 << 20;
/// Bytes of text that one journal entry can hold.
pub const JOURNAL_TEXT_BYTES: usize = 16;
/// Lines of a stats page, one a probe: what does not fit is summed up in the last one.
pub const STATS_PAGE_LINES_MAX: u32 = 256;
/// Bytes of a probe's name in a stats page.
pub const STATS_PAGE_NAME_BYTES_MAX: usize = 176;
/// Bytes of the label that `weir ps` shows.
pub const LABEL_BYTES_MAX: usize = 95;
/// Islands of code that the header can name.
pub const ISLANDS_MAX: usize = 16;
/// Words in the header that weir-probe's trampolines count in.
pub const PROBE_WORDS: usize = 256;
/// Between refreshes of the clock that targets read: at first, and in the end.
pub const CLOCK_INTERVAL_NS_MIN: u64 = 2_000_000;
pub const CLOCK_INTERVAL_NS: u64 = 128_000_000;
/// A line of it begins so much later than it is laid.
pub const CLOCK_LEAD_NS: u64 = 1_000_000;
/// A pair of counter and clock that took longer to read is not used.
pub const CLOCK_PAIR_NS_MAX: u64 = 2_000;
/// Lines that are remembered for times that were read before: four seconds.
pub const CLOCK_LINES_KEPT: usize = 32;
/// Most bytes below its return address that any helper uses, the vDSO's clock included; a test measures it.
pub const HELPER_STACK_BYTES: u32 = 2048;
/// The same of those that neither format text nor walk stacks, nor look for a prefix.
pub const SMALL_HELPER_STACK_BYTES: u32 = 512;

const _: () = assert!(ENTRIES_MAX as u64 + (SPARE_NODES as u64) < (1 << 25), "an index must fit a link word");
const _: () = assert!(CLOCK_LEAD_NS < CLOCK_INTERVAL_NS_MIN, "a line begins before the next is laid");
const _: () = assert!(RING_BYTES_MIN.is_power_of_two() && RING_BYTES_MAX.is_power_of_two());
const _: () = assert!(
    RING_BYTES_MIN == weir_ebpf::map::RING_BYTES_MIN && RING_BYTES_MAX >= weir_ebpf::map::RING_BYTES_MAX,
    "a segment has room for every ring that a program may have"
);
const _: () = assert!(CPU_RING_BYTES_MIN.is_power_of_two() && CPU_RINGS_WHOLE.is_power_of_two());

/// Most bytes below its return address that this helper uses. `has_tries`: a map of the program is a trie.
pub fn helper_stack_bytes(id: HelperId, has_tries: bool) -> u32 {
    match id {
        helper::TRACE_PRINTK | helper::TRACE_VPRINTK | helper::SNPRINTF => HELPER_STACK_BYTES,
        helper::GET_STACK | helper::GET_STACKID | helper::FOR_EACH_MAP_ELEM => HELPER_STACK_BYTES,
        _ if has_tries => HELPER_STACK_BYTES,
        _ => SMALL_HELPER_STACK_BYTES,
    }
}

pub use weir_memory::limits::{CALL_DEPTH_MAX, LENT_BYTES_MAX, MAY_GOTO_ROUNDS_MAX, STACK_FRAME_BYTES};

/// Most bytes below its return address that any program and the helpers it calls use, for those that another may take
/// over from: frames of 512 bytes together, and of each what its functions save and keep besides.
pub const PROGRAM_STACK_BYTES: u32 = STACK_FRAME_BYTES + CALL_DEPTH_MAX * 160 + HELPER_STACK_BYTES;

/// A dump of a hash gives up after so many entries too many, or buckets that are no chains: the segment is corrupted,
/// and each further bucket would cost the full budget of steps.
pub const SURPLUS_MAX: u32 = 1 << 16;
pub const UNREADABLE_BUCKETS_MAX: u32 = 64;
/// Times that the controller looks for the longest prefix of an LPM trie, where the one it found is gone when it reads
/// it.
pub const MATCHES_MAX: u32 = 16;
/// Walks of a stack for one dump, while others change it.
pub const STACK_WALKS_MAX: u32 = 16;

/// How far below this crate's code other code is put; what comes after a program is its heap, which grows.
pub(crate) const CODE_NEAREST: usize = 16 << 20;
/// See [`CODE_NEAREST`].
pub(crate) const CODE_FURTHEST: usize = 1 << 30;
/// Places that are tried, each further away by a step more, before any place will do.
pub(crate) const CODE_TRIES: usize = 16;
/// See [`CODE_TRIES`].
pub(crate) const CODE_STEP: usize = 32 << 20;
