//! Loads, stores and atomic operations at real addresses that others may access at the same time.
//!
//! Aligned accesses are single and untorn, as the machine code's are. Others go byte by byte.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use weir_memory::{AtomicOp, Width};

/// The value at `address`, zero-extended.
///
/// # Safety
/// So many bytes at `address` must be mapped, readable, and accessed by atomics or other processes alone.
pub(super) unsafe fn load(address: u64, width: Width) -> u64 {
    // SAFETY: the caller's promise, and alignment is checked per arm.
    unsafe {
        match width {
            Width::B1 => byte(address).load(Ordering::Relaxed).into(),
            Width::B2 if address.is_multiple_of(2) => {
                AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                    .load(Ordering::Relaxed)
                    .into()
            }
            Width::B4 if address.is_multiple_of(4) => half(address).load(Ordering::Relaxed).into(),
            Width::B8 if address.is_multiple_of(8) => word(address).load(Ordering::Relaxed),
            _ => (0..width.bytes())
                .fold(0, |value, n| value | u64::from(byte(address + n).load(Ordering::Relaxed)) << (8 * n)),
        }
    }
}

/// Stores the low bytes of `value`.
///
/// # Safety
/// As for [`load`], and writable.
pub(super) unsafe fn store(address: u64, width: Width, value: u64) {
    // SAFETY: the caller's promise, and alignment is checked per arm.
    unsafe {
        match width {
            Width::B1 => byte(address).store(value as u8, Ordering::Relaxed),
            Width::B2 if address.is_multiple_of(2) => {
                AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                    .store(value as u16, Ordering::Relaxed);
            }
            Width::B4 if address.is_multiple_of(4) => half(address).store(value as u32, Ordering::Relaxed),
            Width::B8 if address.is_multiple_of(8) => word(address).store(value, Ordering::Relaxed),
            _ => (0..width.bytes())
                .for_each(|n| byte(address + n).store((value >> (8 * n)) as u8, Ordering::Relaxed)),
        }
    }
}

/// Does `op` on 4 or 8 bytes; the answer is the old value, zero-extended.
///
/// # Safety
/// As for [`store`], and `address` a multiple of the width.
pub(super) unsafe fn atomic(address: u64, width: Width, op: AtomicOp) -> u64 {
    let order = Ordering::SeqCst;
    if width == Width::B4 {
        // SAFETY: the caller's promise.
        let at = unsafe { half(address) };
        return u64::from(match op {
            AtomicOp::Add(x) => at.fetch_add(x as u32, order),
            AtomicOp::Or(x) => at.fetch_or(x as u32, order),
            AtomicOp::And(x) => at.fetch_and(x as u32, order),
            AtomicOp::Xor(x) => at.fetch_xor(x as u32, order),
            AtomicOp::Exchange(x) => at.swap(x as u32, order),
            AtomicOp::CompareExchange { expected, new } => {
                at.compare_exchange(expected as u32, new as u32, order, order).unwrap_or_else(|old| old)
            }
        });
    }
    // SAFETY: the caller's promise.
    let at = unsafe { word(address) };
    match op {
        AtomicOp::Add(x) => at.fetch_add(x, order),
        AtomicOp::Or(x) => at.fetch_or(x, order),
        AtomicOp::And(x) => at.fetch_and(x, order),
        AtomicOp::Xor(x) => at.fetch_xor(x, order),
        AtomicOp::Exchange(x) => at.swap(x, order),
        AtomicOp::CompareExchange { expected, new } => {
            at.compare_exchange(expected, new, order, order).unwrap_or_else(|old| old)
        }
    }
}

unsafe fn byte<'a>(address: u64) -> &'a AtomicU8 {
    // SAFETY: the caller's promise: mapped and shared by atomics.
    unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}

unsafe fn half<'a>(address: u64) -> &'a AtomicU32 {
    // SAFETY: as for `byte`, and a multiple of 4.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}

unsafe fn word<'a>(address: u64) -> &'a AtomicU64 {
    // SAFETY: as for `byte`, and a multiple of 8.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}
