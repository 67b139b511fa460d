//! Safe calls into the linked copy of the C half, for the controller.
//!
//! Each wrapper checks what the C function takes for granted: sizes of keys and values against the descriptor. The
//! descriptors come from a [`Segment`](crate::segment::Segment), which keeps their memory mapped while it lives.

use std::ffi::c_void;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

use weir_ebpf::{HelperId, MapKind, helper};

use super::Island;
use crate::abi::{Cursor, Descriptor, HEADER_BYTES, counter, header};
#[cfg(test)]
use crate::executable::Frame;
use crate::{cgroup, clock};

unsafe extern "C" {
    fn weir_map_lookup_elem(map: *const Descriptor, key: *const u8) -> u64;
    fn weir_map_update_elem(map: *const Descriptor, key: *const u8, value: *const u8, flags: u64) -> i64;
    fn weir_map_delete_elem(map: *const Descriptor, key: *const u8) -> i64;
    fn weir_map_push_elem(map: *const Descriptor, value: *const u8, flags: u64) -> i64;
    fn weir_map_pop_elem(map: *const Descriptor, value: *mut u8) -> i64;
    fn weir_map_peek_elem(map: *const Descriptor, value: *mut u8) -> i64;
    #[cfg(test)]
    fn weir_map_lookup_percpu_elem(map: *const Descriptor, key: *const u8, cpu: u64) -> u64;
    fn weir_lane_claim(claims: u64, cpus: u32, lanes: u32, owner: u64) -> i64;
    fn weir_map_lookup_lane(map: *const Descriptor, key: *const u8, lane: u64) -> u64;
    fn weir_map_update_lane(
        map: *const Descriptor,
        key: *const u8,
        value: *const u8,
        flags: u64,
        lane: u64,
    ) -> i64;
    fn weir_map_next(map: *const Descriptor, at: *mut Cursor, lane: u64) -> u64;
    #[cfg(test)]
    fn weir_map_next_key(map: *const Descriptor, at: u64, key: *mut u8, size: u64) -> u64;
    fn weir_declared_copy(to: *mut u8, size: u64, context: *const u64, which: u64) -> u64;
    #[cfg(test)]
    fn weir_get_current_comm(buffer: *mut u8, size: u64) -> i64;
    fn weir_probe_read_user(destination: *mut u8, size: u64, source: u64) -> i64;
    #[cfg(test)]
    fn weir_probe_read_user_str(destination: *mut u8, size: u64, source: u64) -> i64;
    #[cfg(test)]
    fn weir_ringbuf_output(map: *const Descriptor, data: *const u8, size: u64, flags: u64) -> i64;
    fn weir_ringbuf_reserve(map: *const Descriptor, size: u64, flags: u64) -> u64;
    fn weir_ringbuf_submit(record: *mut u8, flags: u64) -> u64;
    fn weir_ringbuf_discard(record: *mut u8, flags: u64) -> u64;
    #[cfg(test)]
    fn weir_ringbuf_query(map: *const Descriptor, what: u64) -> u64;
    #[cfg(test)]
    fn weir_perf_event_output(
        context: *const u64,
        map: *const Descriptor,
        flags: u64,
        data: *const u8,
        size: u64,
    ) -> i64;
    #[cfg(test)]
    fn weir_get_stackid(context: *const Frame, map: *const Descriptor, flags: u64) -> i64;
    #[cfg(test)]
    fn weir_get_stack(context: *const Frame, buffer: *mut u8, size: u64, flags: u64) -> i64;
    fn weir_hash_dump(
        map: *const Descriptor,
        bucket: u64,
        out: *mut u64,
        capacity: u64,
        entry_words: u64,
        each_lane: u64,
    ) -> i64;
    fn weir_hash_take(map: *const Descriptor, key: *const u8, out: *mut u64) -> i64;
    fn weir_lpm_match(map: *const Descriptor, key: *const u8, out: *mut u64) -> u64;
    fn weir_lpm_prefix(map: *const Descriptor, key: *const u8, out: *mut u64) -> u64;
    fn weir_hash_bucket(map: *const Descriptor, key: *const u8) -> u64;
    static weir_island: LinkedIsland;
}

/// The linked copy's island: an [`Island`] that this process sets.
#[repr(C)]
struct LinkedIsland {
    segment: AtomicU64,
    clock_gettime: AtomicU64,
    pid: AtomicU32,
    flags: AtomicU32,
    pid_namespace_device: AtomicU64,
    pid_namespace_inode: AtomicU64,
    print: AtomicU64,
    tick_ns: AtomicU32,
    rseq: AtomicU32,
    filter: AtomicU64,
}

const _: () = assert!(size_of::<LinkedIsland>() == Island::BYTES as usize);

/// `EVERY_LANE` of `c/weir.h`.
const EVERY_LANE: u64 = 0xffff_ffff;

/// A header that the linked copy counts in: what BEGIN, END and interval programs read slowly is not a target's. It is this process's own segment
/// as well: no other is of it.
static PRIVATE_HEADER: [AtomicU64; HEADER_BYTES / 8] = [const { AtomicU64::new(0) }; HEADER_BYTES / 8];

/// Slow reads, read faults, denied reads, uses of `comm` and denied ones, by programs run in this process.
pub(crate) fn counters() -> [u64; counter::COUNT] {
    std::array::from_fn(|n| PRIVATE_HEADER[header::COUNTERS / 8 + n].load(Ordering::Relaxed))
}

/// The words of an island for this process, counting in the segment at `segment`.
pub(crate) fn local_island(segment: u64) -> Island {
    Island {
        segment,
        clock_gettime: nix::libc::clock_gettime as *const () as u64,
        pid: std::process::id(),
        flags: Island::READ_BY_TID
            | if is_emulated() { Island::ASK_CPU } else { 0 }
            | if !is_emulated() && clock::may_read_ticks() { Island::READS_TICKS } else { 0 },
        pid_namespace: pid_namespace("self"),
        print: PRINT_TO.get().map_or(0, |_| take_print as *const () as u64),
        tick_ns: tick_ns(),
        rseq: 0,
        filter: own_header() + header::FILTER as u64,
    }
}

/// Address of what programs that run in this process take for its own segment. Its control group is that of the first time.
fn own_header() -> u64 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PRIVATE_HEADER[header::CGROUP / 8].store(cgroup::own_id().unwrap_or(0), Ordering::Relaxed);
    });
    PRIVATE_HEADER.as_ptr() as u64
}

/// Whether this process has no vDSO: something like valgrind runs it, which does not know `lsl`.
pub(crate) fn is_emulated() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { nix::libc::getauxval(nix::libc::AT_SYSINFO_EHDR) == 0 }
}

/// Device and inode of the pid namespace of `process` (a number, or `self`); zeros where nobody says.
pub(crate) fn pid_namespace(process: &str) -> (u64, u64) {
    std::fs::metadata(format!("/proc/{process}/ns/pid")).map_or((0, 0), |file| (file.dev(), file.ino()))
}

/// Nanoseconds of a jiffy: the coarse clock ticks with it.
pub(crate) fn tick_ns() -> u32 {
    let tick = nix::time::clock_getres(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
    tick.ok().and_then(|tick| u32::try_from(tick.tv_nsec()).ok()).unwrap_or(0)
}

static PRINT_TO: OnceLock<fn(&str)> = OnceLock::new();

pub(crate) fn print_to(taker: fn(&str)) {
    let _ = PRINT_TO.set(taker);
    prepare();
    // SAFETY: as in `prepare`.
    unsafe { &weir_island }.print.store(take_print as *const () as u64, Ordering::Relaxed);
}

/// What the runtime calls with the text of `trace_printk`, in this process alone.
unsafe extern "C" fn take_print(text: *const u8, bytes: u64) {
    // SAFETY: the C half passes a buffer of its own, of which so many bytes are written.
    let text = unsafe { std::slice::from_raw_parts(text, bytes as usize) };
    if let Some(taker) = PRINT_TO.get() {
        taker(&String::from_utf8_lossy(text));
    }
}

/// Sets the linked copy's island, once; the pid again after a fork.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    // SAFETY: the C object has this layout (asserted in size above, by field order in weir.h) and lives for ever;
    // the C half reads it by volatile loads, this process writes it through atomics only.
    let island = unsafe { &weir_island };
    ONCE.call_once(|| {
        let words = local_island(own_header());
        island.segment.store(words.segment, Ordering::Relaxed);
        island.clock_gettime.store(words.clock_gettime, Ordering::Relaxed);
        island.flags.store(words.flags, Ordering::Relaxed);
        island.pid_namespace_device.store(words.pid_namespace.0, Ordering::Relaxed);
        island.pid_namespace_inode.store(words.pid_namespace.1, Ordering::Relaxed);
        island.print.store(words.print, Ordering::Relaxed);
        island.tick_ns.store(words.tick_ns, Ordering::Relaxed);
        island.filter.store(words.filter, Ordering::Relaxed);
        let seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        PRIVATE_HEADER[header::RANDOM / 8].store(seed, Ordering::Relaxed);
    });
    island.pid.store(std::process::id(), Ordering::Relaxed);
}

/// Where functions of the C half are in this process, by the helpers that they are.
macro_rules! addresses {
    ($(($id:ident, $number:literal, $name:literal, $args:tt, $ret:ident, $access:ident, $function:ident))*) => {
        [$((helper::$id, addresses!(@ $function))),*]
    };
    (@ inlined) => { None };
    (@ $function:ident) => {{
        unsafe extern "C" {
            fn $function();
        }
        Some($function as Function)
    }};
}

/// Of a function of the C half nothing but its address.
type Function = unsafe extern "C" fn();

#[allow(clashing_extern_declarations, reason = "nothing but addresses is taken of these")]
static ADDRESSES: &[(HelperId, Option<Function>)] = &weir_ebpf::helper_table!(addresses);

pub(crate) fn helper_address(id: HelperId) -> Option<u64> {
    prepare();
    address_of(id)
}

fn address_of(id: HelperId) -> Option<u64> {
    let (_, function) = ADDRESSES.iter().find(|(known, _)| *known == id)?;
    function.map(|function| function as *const c_void as u64)
}

/// Calls a helper's function, as machine code does: a function takes as many of these as it has parameters.
///
/// # Safety
/// [`prepare`] must have been called. The arguments must be what the helper's row says, with memory of the sizes that it says; the sixth is the length of a string.
pub(crate) unsafe fn call(id: HelperId, arguments: [u64; 6]) -> Option<u64> {
    let address = address_of(id)?;
    type Called = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
    // SAFETY: in this convention a function may be given more than it takes; what it takes is the caller's promise.
    let function = unsafe { std::mem::transmute::<usize, Called>(address as usize) };
    let [a, b, c, d, e, f] = arguments;
    Some(function(a, b, c, d, e, f))
}

/// Address of the value of `key`, in lane 0.
pub(crate) fn map_lookup(map: &Descriptor, key: &[u8]) -> Option<u64> {
    check_key(map, key);
    // SAFETY: the key has the map's size; the map's memory is mapped (module header).
    let address = unsafe { weir_map_lookup_elem(map, key.as_ptr()) };
    (address != 0).then_some(address)
}

pub(crate) fn map_update(map: &Descriptor, key: &[u8], value: &[u8], flags: u64) -> i64 {
    check_key(map, key);
    check_value(map, value);
    // SAFETY: as for `map_lookup`; the value has the map's size.
    unsafe { weir_map_update_elem(map, key.as_ptr(), value.as_ptr(), flags) }
}

/// Address of the value of `key` in `lane`.
pub(crate) fn map_lookup_lane(map: &Descriptor, key: &[u8], lane: u32) -> Option<u64> {
    check_key(map, key);
    // SAFETY: as for `map_lookup`.
    let address = unsafe { weir_map_lookup_lane(map, key.as_ptr(), lane.into()) };
    (address != 0).then_some(address)
}

pub(crate) fn map_next_address() -> u64 {
    weir_map_next as *const c_void as u64
}

pub(crate) fn declared_copy_address() -> u64 {
    weir_declared_copy as *const c_void as u64
}

/// The key that comes next behind a cursor, and the cursor behind it; 0 where none comes.
#[cfg(test)]
pub(crate) fn map_next_key(map: &Descriptor, at: u64, key: &mut [u8]) -> u64 {
    // SAFETY: the function writes as many bytes as it is given.
    unsafe { weir_map_next_key(map, at, key.as_mut_ptr(), key.len() as u64) }
}

/// Address of the next element's value, in `lane`, and its key.
pub(crate) fn map_next(map: &Descriptor, at: &mut Cursor, lane: u32) -> Option<(u64, Vec<u8>)> {
    // SAFETY: the map's memory is mapped; the cursor is read and written by this call alone.
    let address = unsafe { weir_map_next(map, at, lane.into()) };
    if address == 0 {
        return None;
    }
    // SAFETY: the key's words are in the map's memory, which others may write at any time, or (an array's) in the
    // cursor, which has not moved since; both are read as atomics, as wide as C writes them.
    let word = |n: u64| unsafe { AtomicU64::from_ptr((at.key + 8 * n) as *mut u64).load(Ordering::Relaxed) };
    let words = (0..u64::from(map.key_bytes.div_ceil(8))).flat_map(|n| word(n).to_le_bytes());
    Some((address, words.take(map.key_bytes as usize).collect()))
}

/// Address of the value of `key` in the lane of `cpu`.
#[cfg(test)]
pub(crate) fn map_lookup_percpu(map: &Descriptor, key: &[u8], cpu: u64) -> Option<u64> {
    check_key(map, key);
    // SAFETY: as for `map_lookup`.
    let address = unsafe { weir_map_lookup_percpu_elem(map, key.as_ptr(), cpu) };
    (address != 0).then_some(address)
}

/// An update of one lane of the value.
pub(crate) fn map_update_lane(map: &Descriptor, key: &[u8], value: &[u8], flags: u64, lane: u32) -> i64 {
    check_key(map, key);
    assert_eq!(value.len(), map.value_bytes as usize, "bytes of a value");
    assert!(map.lanes == 1 || lane < map.lanes, "lane {lane} of {}", map.lanes);
    // SAFETY: as for `map_update`; the lane is one of the map's.
    unsafe { weir_map_update_lane(map, key.as_ptr(), value.as_ptr(), flags, lane.into()) }
}

/// An update of every lane: `values` holds one value for each, each rounded up to words.
pub(crate) fn map_update_lanes(map: &Descriptor, key: &[u8], values: &[u8], flags: u64) -> i64 {
    check_key(map, key);
    let expected = map.value_bytes.next_multiple_of(8) as usize * map.lanes as usize;
    assert_eq!(values.len(), expected, "bytes of the values of all lanes");
    // SAFETY: as for `map_update`; the values have the size of all lanes.
    unsafe { weir_map_update_lane(map, key.as_ptr(), values.as_ptr(), flags, EVERY_LANE) }
}

/// A lane for a run of this process; -1 is `None`, and counted.
///
/// # Safety
/// `claims` must be the address of `lanes` claims that stay mapped.
pub(crate) unsafe fn lane_claim(claims: u64, cpus: u32, lanes: u32, owner: u64) -> Option<u32> {
    // SAFETY: the caller's promise.
    u32::try_from(unsafe { weir_lane_claim(claims, cpus, lanes, owner) }).ok()
}

pub(crate) fn map_delete(map: &Descriptor, key: &[u8]) -> i64 {
    check_key(map, key);
    // SAFETY: as for `map_lookup`.
    unsafe { weir_map_delete_elem(map, key.as_ptr()) }
}

/// Deletes `key`; `value` is what it had then, summed over lanes.
pub(crate) fn hash_take(map: &Descriptor, key: &[u8], value: &mut [u8]) -> i64 {
    check_key(map, key);
    check_value(map, value);
    let mut words = vec![0u64; value.len().div_ceil(8)];
    // SAFETY: the key has the map's size, `words` holds a value; the map's memory is mapped.
    let status = unsafe { weir_hash_take(map, key.as_ptr(), words.as_mut_ptr()) };
    for (bytes, word) in value.chunks_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
    status
}

pub(crate) fn map_push(map: &Descriptor, value: &[u8], flags: u64) -> i64 {
    check_value(map, value);
    // SAFETY: the value has the map's size; the map's memory is mapped.
    unsafe { weir_map_push_elem(map, value.as_ptr(), flags) }
}

/// Takes the next element out, into `value`; zeros where there is none.
pub(crate) fn map_pop(map: &Descriptor, value: &mut [u8]) -> i64 {
    check_value(map, value);
    // SAFETY: as for `map_push`.
    unsafe { weir_map_pop_elem(map, value.as_mut_ptr()) }
}

/// Copies the next element; zeros where there is none.
pub(crate) fn map_peek(map: &Descriptor, value: &mut [u8]) -> i64 {
    check_value(map, value);
    // SAFETY: as for `map_push`.
    unsafe { weir_map_peek_elem(map, value.as_mut_ptr()) }
}

/// The prefix of an LPM trie that a look-up of `key` finds: its length, and its bits.
pub(crate) fn lpm_match(map: &Descriptor, key: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: as for `lpm_key`.
    lpm_key(map, key, |out| unsafe { weir_lpm_match(map, key.as_ptr(), out) })
}

/// `key` as an LPM trie has it, with zeros behind its bits; `None` if it has more bits than keys have.
pub(crate) fn lpm_prefix(map: &Descriptor, key: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: as for `lpm_key`.
    lpm_key(map, key, |out| unsafe { weir_lpm_prefix(map, key.as_ptr(), out) })
}

/// What `write` writes to words of the size of a key of the map, which `key` is.
fn lpm_key(map: &Descriptor, key: &[u8], write: impl FnOnce(*mut u64) -> u64) -> Option<Vec<u8>> {
    check_key(map, key);
    assert_eq!(map.kind, MapKind::LpmTrie as u32, "a trie");
    let mut words = vec![0u64; key.len().div_ceil(8)];
    (write(words.as_mut_ptr()) != 0).then(|| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(key.len());
        bytes
    })
}

/// Number of the bucket that `key` belongs to.
pub(crate) fn hash_bucket(map: &Descriptor, key: &[u8]) -> u32 {
    check_key(map, key);
    // SAFETY: the key has the map's size; nothing else is read.
    unsafe { weir_hash_bucket(map, key.as_ptr()) as u32 }
}

/// The entries of one bucket, `entry_words` words each: node index, key, value summed over lanes or that of each lane.
/// `None` where the bucket never held still, or is no chain (counted as contended or corrupt).
pub(crate) fn hash_dump(
    map: &Descriptor,
    bucket: u32,
    entry_words: usize,
    each_lane: bool,
) -> Option<Vec<u64>> {
    let values = if each_lane { map.lanes as usize } else { 1 };
    let expected = 1 + (map.key_stride as usize + map.value_bytes.next_multiple_of(8) as usize * values) / 8;
    assert_eq!(entry_words, expected, "words of an entry");
    let mut capacity = 4;
    loop {
        let mut out = vec![0; capacity * entry_words];
        // SAFETY: `out` holds `capacity` entries of the size asserted above; the map's memory is mapped.
        let found = unsafe {
            weir_hash_dump(
                map,
                bucket.into(),
                out.as_mut_ptr(),
                capacity as u64,
                entry_words as u64,
                each_lane.into(),
            )
        };
        let found = usize::try_from(found).ok()?;
        if found <= capacity {
            out.truncate(found * entry_words);
            return Some(out);
        }
        // LIMIT: STEPS_MAX of c/hash.h bounds `found`.
        capacity = found;
    }
}

#[cfg(test)]
pub(crate) fn current_comm(buffer: &mut [u8]) -> i64 {
    // SAFETY: the buffer has the size given.
    unsafe { weir_get_current_comm(buffer.as_mut_ptr(), buffer.len() as u64) }
}

/// Reads this process's memory at `source`; a bad address is an error.
pub(crate) fn probe_read_user(destination: &mut [u8], source: u64) -> i64 {
    // SAFETY: the destination has the size given; the source is read by the kernel.
    unsafe { weir_probe_read_user(destination.as_mut_ptr(), destination.len() as u64, source) }
}

#[cfg(test)]
pub(crate) fn probe_read_user_str(destination: &mut [u8], source: u64) -> i64 {
    // SAFETY: as for `probe_read_user`.
    unsafe { weir_probe_read_user_str(destination.as_mut_ptr(), destination.len() as u64, source) }
}

#[cfg(test)]
pub(crate) fn ringbuf_output(map: &Descriptor, data: &[u8], flags: u64) -> i64 {
    // SAFETY: the data has the size given; the map's memory is mapped.
    unsafe { weir_ringbuf_output(map, data.as_ptr(), data.len() as u64, flags) }
}

/// A record in the ring of the CPU that `flags` name.
#[cfg(test)]
pub(crate) fn perf_event_output(map: &Descriptor, flags: u64, data: &[u8]) -> i64 {
    // SAFETY: the data has the size given; the map's memory is mapped; the context is not looked at.
    unsafe { weir_perf_event_output(std::ptr::null(), map, flags, data.as_ptr(), data.len() as u64) }
}

/// The number of the stack that begins at the frame's registers.
#[cfg(test)]
pub(crate) fn get_stackid(frame: &Frame, map: &Descriptor, flags: u64) -> i64 {
    prepare();
    // SAFETY: the frame is whole; what its registers point to is read by the kernel; the map's memory is mapped.
    unsafe { weir_get_stackid(frame, map, flags) }
}

#[cfg(test)]
pub(crate) fn get_stack(frame: &Frame, buffer: &mut [u8], flags: u64) -> i64 {
    prepare();
    // SAFETY: as for `get_stackid`; the buffer has the size given.
    unsafe { weir_get_stack(frame, buffer.as_mut_ptr(), buffer.len() as u64, flags) }
}

#[cfg(test)]
pub(crate) fn ringbuf_query(map: &Descriptor, what: u64) -> u64 {
    // SAFETY: the map's memory is mapped.
    unsafe { weir_ringbuf_query(map, what) }
}

/// Address of a record's payload of `size` bytes.
pub(crate) fn ringbuf_reserve(map: &Descriptor, size: u64, flags: u64) -> Option<u64> {
    // SAFETY: the map's memory is mapped.
    let address = unsafe { weir_ringbuf_reserve(map, size, flags) };
    (address != 0).then_some(address)
}

/// Publishes, or discards, a record.
///
/// # Safety
/// `record` must come from [`ringbuf_reserve`] on a map that is still mapped, and not have been taken back yet.
pub(crate) unsafe fn ringbuf_finish(record: u64, is_discard: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_discard {
            weir_ringbuf_discard(record as *mut u8, 0);
        } else {
            weir_ringbuf_submit(record as *mut u8, 0);
        }
    }
}

fn check_value(map: &Descriptor, value: &[u8]) {
    assert_eq!(value.len(), map.value_bytes as usize, "bytes of a value");
}

fn check_key(map: &Descriptor, key: &[u8]) {
    assert_eq!(key.len(), map.key_bytes as usize, "bytes of a key");
}
