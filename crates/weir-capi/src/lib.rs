//! libweir_bpf: the C interface of weir's eBPF machine. `include/weir/bpf.h` is its documentation.
//!
//! In: pointers of a C program. Out: the same calls of [`object`], which is safe Rust, with its errors as negative
//! errno and words ([`error`]). This file, and [`pcap`] for packet filters ([`filter`]), turn pointers into slices and
//! references, and back. What reads the data of a run is in `object`.
//!
//! Guaranteed: NULL where the header allows none is an error, not a fault; nothing unwinds into C.
//!
//! Deliberately not here: attaching to processes, and kernel programs; the interface is for programs that are run by
//! the caller, on the caller's data.

#![deny(missing_docs)]

mod error;

mod object;

mod filter;
mod pcap;

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::path::Path;
use std::ptr;

use weir_bpf::Program;

use crate::error::{EINVAL, ENOENT, Error, Result};
use crate::object::{MapNumber, Object};

pub use crate::filter::Filter;
pub use crate::pcap::{PcapOptions, weir_pcap_classic, weir_pcap_compile, weir_pcap_free, weir_pcap_match};

/// `struct weir_bpf_options`.
#[derive(Debug)]
#[repr(C)]
pub struct Options {
    /// Bytes of this structure, as the caller was compiled.
    pub size: usize,
    /// BTF of the kernel that CO-RE is answered from; null: this kernel's.
    pub btf: *const c_void,
    /// Its bytes.
    pub btf_size: usize,
}

/// `struct weir_bpf_map_info`.
#[derive(Debug)]
#[repr(C)]
pub struct MapInfo {
    /// Of the map; valid as long as the object.
    pub name: *const c_char,
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Elements that it has room for; of a ring, its bytes.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// The version of the library, as text that is always valid.
#[unsafe(no_mangle)]
pub extern "C" fn weir_bpf_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What was wrong with the last call of this thread that failed, as text that is valid until the next one that fails.
#[unsafe(no_mangle)]
pub extern "C" fn weir_bpf_error() -> *const c_char {
    error::last()
}

/// # Safety
/// `bytes` points to `size` bytes; `options` is NULL or points to the struct, and its `btf` to `btf_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_open(
    bytes: *const c_void,
    size: usize,
    options: *const Options,
) -> *mut Object {
    // SAFETY: the caller's promise.
    let (file, btf) = unsafe { (slice(bytes, size), btf(options)) };
    answer(file.and_then(|file| Object::open(file, btf?)))
}

/// # Safety
/// `path` is a string; `options` as for [`weir_bpf_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_open_file(path: *const c_char, options: *const Options) -> *mut Object {
    // SAFETY: the caller's promise.
    let (path, btf) = unsafe { (text(path), btf(options)) };
    answer(path.and_then(|path| Object::open_file(Path::new(path), btf?)))
}

/// # Safety
/// `instructions` points to `count` times 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_open_instructions(
    instructions: *const c_void,
    count: usize,
) -> *mut Object {
    let bytes = count.checked_mul(8).filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or_else(|| Error::new(EINVAL, format!("{count} instructions are no program")));
    // SAFETY: the caller's promise.
    answer(bytes.and_then(|bytes| Object::of_instructions(unsafe { slice(instructions, bytes) }?)))
}

/// # Safety
/// `object` is NULL or came from an opening function, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_close(object: *mut Object) {
    if !object.is_null() {
        // SAFETY: it came from `Box::into_raw` and goes only once: the caller's promise.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// # Safety
/// `object` is open; so for every function below that takes one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_programs(object: *const Object) -> usize {
    // SAFETY: the caller's promise.
    unsafe { object.as_ref() }.map_or(0, |object| object.program_names().len())
}

/// # Safety
/// As for [`weir_bpf_programs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_program_name(object: *const Object, index: usize) -> *const c_char {
    // SAFETY: the caller's promise.
    let object = unsafe { object.as_ref() };
    object.and_then(|object| object.program_names().get(index)).map_or(ptr::null(), |name| name.as_ptr())
}

/// # Safety
/// As for [`weir_bpf_programs`]; `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_verify(
    object: *const Object,
    name: *const c_char,
    memory_size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (object, name) = unsafe { (reference(object), optional_text(name)) };
    status(object.and_then(|object| object.verify(name?, memory_size)).map(|_| 0))
}

/// # Safety
/// As for [`weir_bpf_verify`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_load(
    object: *const Object,
    name: *const c_char,
    engine: c_int,
    memory_size: usize,
) -> *mut Program {
    // SAFETY: the caller's promise.
    let (object, name) = unsafe { (reference(object), optional_text(name)) };
    answer(object.and_then(|object| object.load(name?, object::engine(engine)?, memory_size)))
}

/// # Safety
/// As for [`weir_bpf_verify`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_load_limited(
    object: *const Object,
    name: *const c_char,
    engine: c_int,
    memory_size: usize,
    rounds: u32,
) -> *mut Program {
    // SAFETY: the caller's promise.
    let (object, name) = unsafe { (reference(object), optional_text(name)) };
    let loaded = |object: &Object| object.load_limited(name?, object::engine(engine)?, memory_size, rounds);
    answer(object.and_then(loaded))
}

/// # Safety
/// `program` is NULL or came from [`weir_bpf_load`], and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_unload(program: *mut Program) {
    if !program.is_null() {
        // SAFETY: as for objects.
        drop(unsafe { Box::from_raw(program) });
    }
}

/// # Safety
/// `program` is loaded; `data` points to `size` bytes that may be written where the program's kind says so; `result` is
/// NULL or points to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_run(
    program: *const Program,
    data: *mut c_void,
    size: usize,
    result: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let run = unsafe { reference(program).and_then(|program| Ok(program.run_raw(data.cast(), size)?)) };
    status(run.map(|r0| {
        if !result.is_null() {
            // SAFETY: the caller's promise; no alignment is asked of it.
            unsafe { result.write_unaligned(r0) };
        }
        0
    }))
}

/// # Safety
/// As for [`weir_bpf_programs`]; `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map(object: *const Object, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (object, name) = unsafe { (reference(object), text(name)) };
    status(object.and_then(|object| object.map_named(name?)).map(i64::from))
}

/// # Safety
/// As for [`weir_bpf_programs`]; `info` points to a struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_info(object: *const Object, map: c_int, info: *mut MapInfo) -> c_int {
    // SAFETY: the caller's promise.
    let found = unsafe { reference(object) }.and_then(|object| object.map_info(MapNumber(map)));
    status(found.and_then(|found| {
        if info.is_null() {
            return Err(Error::new(EINVAL, "the place for the map's definition is NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { info.write(found) };
        Ok(0)
    }))
}

/// # Safety
/// As for [`weir_bpf_programs`]; `key` and `value` point to as many bytes as the map's definition says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_lookup(
    object: *const Object,
    map: c_int,
    key: *const c_void,
    value: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise; the sizes are those of the definition.
    status(unsafe {
        reference(object).and_then(|object| {
            let spec = object.map_spec(MapNumber(map))?;
            let found = object.map(MapNumber(map))?.lookup(slice(key, spec.key_bytes as usize)?)?;
            fill(value, &found)
        })
    })
}

/// # Safety
/// As for [`weir_bpf_map_lookup`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_update(
    object: *const Object,
    map: c_int,
    key: *const c_void,
    value: *const c_void,
    flags: u64,
) -> c_int {
    // SAFETY: as above.
    status(unsafe {
        reference(object).and_then(|object| {
            let spec = object.map_spec(MapNumber(map))?;
            let key = slice(key, spec.key_bytes as usize)?;
            object.map(MapNumber(map))?.update(key, slice(value, spec.value_bytes as usize)?, flags)?;
            Ok(0)
        })
    })
}

/// # Safety
/// As for [`weir_bpf_programs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_lanes(object: *const Object, map: c_int) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { reference(object).and_then(|object| Ok(object.map(MapNumber(map))?.lanes() as i64)) })
}

/// # Safety
/// As for [`weir_bpf_map_lookup`]; `values` has room for as many values as [`weir_bpf_map_lanes`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_lookup_lanes(
    object: *const Object,
    map: c_int,
    key: *const c_void,
    values: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    status(unsafe {
        reference(object).and_then(|object| {
            let spec = object.map_spec(MapNumber(map))?;
            let found = object.lookup_lanes(MapNumber(map), slice(key, spec.key_bytes as usize)?)?;
            fill(values, &found)
        })
    })
}

/// # Safety
/// As for [`weir_bpf_map_lookup`]; `values` holds `count` values, each rounded up to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_update_lanes(
    object: *const Object,
    map: c_int,
    key: *const c_void,
    values: *const c_void,
    count: usize,
    flags: u64,
) -> c_int {
    // SAFETY: as above; a map has no more lanes than fit.
    status(unsafe {
        reference(object).and_then(|object| {
            let map = MapNumber(map);
            let spec = object.map_spec(map)?;
            let lanes = object.map(map)?.lanes();
            if count > lanes {
                return Err(Error::new(EINVAL, format!("{count} values; there are {lanes} lanes")));
            }
            let values = slice(values, count * spec.value_bytes.next_multiple_of(8) as usize)?;
            object.update_lanes(map, slice(key, spec.key_bytes as usize)?, values, flags).map(|()| 0)
        })
    })
}

/// # Safety
/// As for [`weir_bpf_programs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_skipped(object: *const Object) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { reference(object) }.map_or(0, Object::skipped)
}

/// # Safety
/// As for [`weir_bpf_map_lookup`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_delete(object: *const Object, map: c_int, key: *const c_void) -> c_int {
    // SAFETY: as above.
    status(unsafe {
        reference(object).and_then(|object| {
            let spec = object.map_spec(MapNumber(map))?;
            object.map(MapNumber(map))?.delete(slice(key, spec.key_bytes as usize)?)?;
            Ok(0)
        })
    })
}

/// # Safety
/// As for [`weir_bpf_map_lookup`]; `key` may be NULL, `next` points to as many bytes as a key has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_map_next_key(
    object: *const Object,
    map: c_int,
    key: *const c_void,
    next: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    status(unsafe {
        reference(object).and_then(|object| {
            let bytes = object.map_spec(MapNumber(map))?.key_bytes as usize;
            let key = if key.is_null() { None } else { Some(slice(key, bytes)?) };
            fill(next, &object.map(MapNumber(map))?.next_key(key)?)
        })
    })
}

/// # Safety
/// As for [`weir_bpf_programs`]; `record` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_bpf_ring_read(
    object: *const Object,
    map: c_int,
    record: *mut c_void,
    size: usize,
) -> c_long {
    // SAFETY: as above.
    let read = unsafe {
        reference(object).and_then(|object| match object.map(MapNumber(map))?.next_record()? {
            Some(bytes) => fill(record, &bytes[..bytes.len().min(size)]).map(|_| bytes.len() as i64),
            None => Ok(0),
        })
    };
    read.unwrap_or_else(|error| error.keep().into())
}

/// A pointer to what was made, or NULL.
fn answer<T>(made: Result<T>) -> *mut T {
    match made {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(error) => {
            error.keep();
            ptr::null_mut()
        }
    }
}

fn status(done: Result<i64>) -> c_int {
    match done {
        // SANITY: every caller answers 0 or the index of a map, of which there are some hundred at most.
        Ok(value) => c_int::try_from(value).expect("a small number"),
        Err(error) => error.keep(),
    }
}

/// # Safety
/// `pointer` is NULL or points to a `T` that lives as long as the call.
unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Error::new(EINVAL, "the object or program is NULL"))
}

/// # Safety
/// `bytes` is NULL or points to `size` bytes that live as long as the call.
unsafe fn slice<'a>(bytes: *const c_void, size: usize) -> Result<&'a [u8]> {
    match (bytes.is_null(), size) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::new(EINVAL, format!("NULL where {size} bytes are needed"))),
        // SAFETY: the caller's promise; nothing has more than isize::MAX bytes.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), size) }),
    }
}

/// # Safety
/// `to` is NULL or points to as many bytes as `from` has.
unsafe fn fill(to: *mut c_void, from: &[u8]) -> Result<i64> {
    if to.is_null() && !from.is_empty() {
        return Err(Error::new(EINVAL, "the place for the result is NULL"));
    }
    // SAFETY: the caller's promise; our copy overlaps nothing of the caller's.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len()) };
    Ok(0)
}

/// # Safety
/// `string` is NULL or a string.
unsafe fn text<'a>(string: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { optional_text(string) }?.ok_or_else(|| Error::new(EINVAL, "NULL where a name is needed"))
}

/// # Safety
/// As for [`text`].
unsafe fn optional_text<'a>(string: *const c_char) -> Result<Option<&'a str>> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(string) }.to_str();
    text.map(Some).map_err(|_| Error::new(ENOENT, "the name is no UTF-8"))
}

/// # Safety
/// `options` is NULL or points to the struct, and its `btf` to `btf_size` bytes.
unsafe fn btf<'a>(options: *const Options) -> Result<Option<&'a [u8]>> {
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(None) };
    if options.size < size_of::<Options>() {
        let message = format!("options.size is {}; set it to sizeof(struct weir_bpf_options)", options.size);
        return Err(Error::new(EINVAL, message));
    }
    if options.btf.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { slice(options.btf, options.btf_size) }.map(Some)
}
