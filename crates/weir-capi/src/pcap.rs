//! Packet filters in C: pointers into references, and back.

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::error::{EINVAL, Error, Result};
use crate::filter::{Asked, Filter};
use crate::{answer, fill, reference, slice, text};

/// `struct weir_pcap_options`.
#[derive(Debug)]
#[repr(C)]
pub struct PcapOptions {
    /// Bytes of this structure, as the caller was compiled.
    pub size: usize,
    /// What a match returns; 0: 262144.
    pub snaplen: u32,
    /// Of the network that packets come from; 0: not known.
    pub netmask: u32,
    /// `enum weir_pcap_mode`.
    pub mode: c_int,
}

/// # Safety
/// `expression` is NULL or a string; `options` is NULL or points to the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_pcap_compile(
    expression: *const c_char,
    link_type: c_int,
    options: *const PcapOptions,
) -> *mut Filter {
    // SAFETY: the caller's promise.
    let (expression, options) = unsafe { (text(expression), options.as_ref()) };
    answer(expression.and_then(|expression| Filter::compile(expression, asked(link_type, options)?)))
}

fn asked(link_type: c_int, options: Option<&PcapOptions>) -> Result<Asked> {
    let Some(options) = options else { return Ok(Asked { link_type, snaplen: 0, netmask: 0, mode: 0 }) };
    if options.size < size_of::<PcapOptions>() {
        let message = format!("options.size is {}; set it to sizeof(struct weir_pcap_options)", options.size);
        return Err(Error::new(EINVAL, message));
    }
    let PcapOptions { snaplen, netmask, mode, .. } = *options;
    Ok(Asked { link_type, snaplen, netmask, mode })
}

/// # Safety
/// `filter` is NULL or came from [`weir_pcap_compile`] and was not freed; `packet` points to `captured` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_pcap_match(
    filter: *const Filter,
    packet: *const c_void,
    captured: usize,
    length: u32,
) -> u32 {
    // SAFETY: the caller's promise.
    match unsafe { (filter.as_ref(), slice(packet, captured)) } {
        (Some(filter), Ok(packet)) => filter.matches(packet, length),
        _ => 0,
    }
}

/// # Safety
/// `filter` as for [`weir_pcap_match`]; `instructions` points to `count` times 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_pcap_classic(
    filter: *const Filter,
    instructions: *mut c_void,
    count: usize,
) -> c_long {
    // SAFETY: the caller's promise.
    let written = unsafe {
        reference(filter).and_then(|filter| {
            let insns = filter.classic()?;
            fill(instructions, insns[..insns.len().min(count)].as_flattened())?;
            Ok(insns.len() as c_long)
        })
    };
    written.unwrap_or_else(|error| error.keep().into())
}

/// # Safety
/// `filter` is NULL or came from [`weir_pcap_compile`], and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_pcap_free(filter: *mut Filter) {
    if !filter.is_null() {
        // SAFETY: it came from `Box::into_raw` and goes only once: the caller's promise.
        drop(unsafe { Box::from_raw(filter) });
    }
}
