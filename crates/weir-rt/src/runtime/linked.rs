//! Safe calls into the linked copy of the C half, for the controller.
//!
//! Each wrapper checks what the C function takes for granted: sizes of keys and values against the descriptor. The
//! descriptors come from a [`Segment`](crate::segment::Segment), which keeps their memory mapped while it lives.

use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_ebpf::{HelperId, helper};

use super::Island;
use crate::abi::{Descriptor, HEADER_BYTES, counter, header};

unsafe extern "C" {
    fn weir_map_lookup_elem(map: *const Descriptor, key: *const u8) -> u64;
    fn weir_map_update_elem(map: *const Descriptor, key: *const u8, value: *const u8, flags: u64) -> i64;
    fn weir_map_delete_elem(map: *const Descriptor, key: *const u8) -> i64;
    fn weir_map_push_elem(map: *const Descriptor, value: *const u8, flags: u64) -> i64;
    fn weir_map_pop_elem(map: *const Descriptor, value: *mut u8) -> i64;
    fn weir_map_peek_elem(map: *const Descriptor, value: *mut u8) -> i64;
    fn weir_ktime_get_ns() -> u64;
    fn weir_get_smp_processor_id() -> u64;
    fn weir_get_current_pid_tgid() -> u64;
    fn weir_get_current_comm(buffer: *mut u8, size: u64) -> i64;
    fn weir_probe_read_user(destination: *mut u8, size: u64, source: u64) -> i64;
    fn weir_probe_read_user_str(destination: *mut u8, size: u64, source: u64) -> i64;
    fn weir_ringbuf_output(map: *const Descriptor, data: *const u8, size: u64, flags: u64) -> i64;
    fn weir_ringbuf_reserve(map: *const Descriptor, size: u64, flags: u64) -> u64;
    fn weir_ringbuf_submit(record: *mut u8, flags: u64) -> u64;
    fn weir_ringbuf_discard(record: *mut u8, flags: u64) -> u64;
    fn weir_hash_dump(
        map: *const Descriptor,
        bucket: u64,
        out: *mut u64,
        capacity: u64,
        entry_words: u64,
    ) -> i64;
    fn weir_hash_take(map: *const Descriptor, key: *const u8, out: *mut u64) -> i64;
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
}

const _: () = assert!(size_of::<LinkedIsland>() == Island::BYTES as usize);
const _: () = assert!(size_of::<Island>() == Island::BYTES as usize);

/// A header that the linked copy counts in: what BEGIN, END and interval programs read slowly is not a target's.
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
        flags: Island::READ_BY_TID,
    }
}

/// Sets the linked copy's island, once; the pid again after a fork.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    // SAFETY: the C object has this layout (asserted in size above, by field order in weir.h) and lives for ever;
    // the C half reads it by volatile loads, this process writes it through atomics only.
    let island = unsafe { &weir_island };
    ONCE.call_once(|| {
        let words = local_island(PRIVATE_HEADER.as_ptr() as u64);
        island.segment.store(words.segment, Ordering::Relaxed);
        island.clock_gettime.store(words.clock_gettime, Ordering::Relaxed);
        island.flags.store(words.flags, Ordering::Relaxed);
    });
    island.pid.store(std::process::id(), Ordering::Relaxed);
}

pub(crate) fn helper_address(id: HelperId) -> Option<u64> {
    prepare();
    let address: *const c_void = match id {
        helper::MAP_LOOKUP_ELEM => weir_map_lookup_elem as _,
        helper::MAP_UPDATE_ELEM => weir_map_update_elem as _,
        helper::MAP_DELETE_ELEM => weir_map_delete_elem as _,
        helper::KTIME_GET_NS => weir_ktime_get_ns as _,
        helper::GET_SMP_PROCESSOR_ID => weir_get_smp_processor_id as _,
        helper::GET_CURRENT_PID_TGID => weir_get_current_pid_tgid as _,
        helper::GET_CURRENT_COMM => weir_get_current_comm as _,
        helper::MAP_PUSH_ELEM => weir_map_push_elem as _,
        helper::MAP_POP_ELEM => weir_map_pop_elem as _,
        helper::MAP_PEEK_ELEM => weir_map_peek_elem as _,
        helper::PROBE_READ_USER => weir_probe_read_user as _,
        helper::PROBE_READ_USER_STR => weir_probe_read_user_str as _,
        helper::RINGBUF_OUTPUT => weir_ringbuf_output as _,
        helper::RINGBUF_RESERVE => weir_ringbuf_reserve as _,
        helper::RINGBUF_SUBMIT => weir_ringbuf_submit as _,
        helper::RINGBUF_DISCARD => weir_ringbuf_discard as _,
        _ => return None,
    };
    Some(address as u64)
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

/// Number of the bucket that `key` belongs to.
pub(crate) fn hash_bucket(map: &Descriptor, key: &[u8]) -> u32 {
    check_key(map, key);
    // SAFETY: the key has the map's size; nothing else is read.
    unsafe { weir_hash_bucket(map, key.as_ptr()) as u32 }
}

/// The entries of one bucket, `entry_words` words each: node index, key, value summed over lanes. `None` where the
/// bucket never held still, or is no chain (counted as contended or corrupt).
pub(crate) fn hash_dump(map: &Descriptor, bucket: u32, entry_words: usize) -> Option<Vec<u64>> {
    let expected = 1 + (map.key_stride as usize + map.value_bytes.next_multiple_of(8) as usize) / 8;
    assert_eq!(entry_words, expected, "words of an entry");
    let mut capacity = 4;
    loop {
        let mut out = vec![0; capacity * entry_words];
        // SAFETY: `out` holds `capacity` entries of the size asserted above; the map's memory is mapped.
        let found = unsafe {
            weir_hash_dump(map, bucket.into(), out.as_mut_ptr(), capacity as u64, entry_words as u64)
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

pub(crate) fn ktime_get_ns() -> u64 {
    // SAFETY: takes nothing.
    unsafe { weir_ktime_get_ns() }
}

pub(crate) fn smp_processor_id() -> u64 {
    // SAFETY: takes nothing.
    unsafe { weir_get_smp_processor_id() }
}

pub(crate) fn current_pid_tgid() -> u64 {
    // SAFETY: takes nothing.
    unsafe { weir_get_current_pid_tgid() }
}

pub(crate) fn current_comm(buffer: &mut [u8]) -> i64 {
    // SAFETY: the buffer has the size given.
    unsafe { weir_get_current_comm(buffer.as_mut_ptr(), buffer.len() as u64) }
}

/// Reads this process's memory at `source`; a bad address is an error.
pub(crate) fn probe_read_user(destination: &mut [u8], source: u64) -> i64 {
    // SAFETY: the destination has the size given; the source is read by the kernel.
    unsafe { weir_probe_read_user(destination.as_mut_ptr(), destination.len() as u64, source) }
}

pub(crate) fn probe_read_user_str(destination: &mut [u8], source: u64) -> i64 {
    // SAFETY: as for `probe_read_user`.
    unsafe { weir_probe_read_user_str(destination.as_mut_ptr(), destination.len() as u64, source) }
}

pub(crate) fn ringbuf_output(map: &Descriptor, data: &[u8], flags: u64) -> i64 {
    // SAFETY: the data has the size given; the map's memory is mapped.
    unsafe { weir_ringbuf_output(map, data.as_ptr(), data.len() as u64, flags) }
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
