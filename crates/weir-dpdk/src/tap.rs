//! One queue and direction, as DPDK's callbacks see it: what is captured there, if anything is.
//!
//! DPDK does not say when the last call of a callback that was removed is over, nor when the last one begins: a thread may have
//! looked the callback up before and call it afterwards. So a tap is never freed, and is used again for the same queue; what it
//! leads to is taken away ([`Tap::take`]) once no thread is inside, and a thread that comes later finds nothing.
//!
//! DPDK lets several threads send on one queue if its driver can do that (MT_LOCKFREE). The one that comes second does not wait: its
//! packets are counted as dropped.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Instant;

use weir_packet_ring::RingSpec;

use crate::burst::Active;
use crate::limits::IN_FLIGHT_MAX;
use crate::mbuf::RteMbuf;

/// See above.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tap {
    is_busy: AtomicBool,
    active: AtomicPtr<Active>,
    missed: AtomicU64,
    pub(crate) spec: RingSpec,
}

impl Tap {
    pub(crate) fn leak(spec: RingSpec) -> &'static Tap {
        let (is_busy, missed) = (AtomicBool::new(false), AtomicU64::new(0));
        Box::leak(Box::new(Tap { is_busy, active: AtomicPtr::new(ptr::null_mut()), missed, spec }))
    }

    /// Bursts go through `active` from now on; nothing was there.
    pub(crate) fn put(&self, active: Box<Active>) {
        self.missed.store(0, Ordering::Relaxed);
        let before = self.active.swap(Box::into_raw(active), Ordering::SeqCst);
        assert!(before.is_null(), "{:?} is captured already", self.spec);
    }

    /// Takes it away when no thread is in a burst any more, its counters complete. None: a thread stays in one for too long, and it
    /// has to be left to that.
    pub(crate) fn take(&self) -> Option<Box<Active>> {
        let active = self.active.swap(ptr::null_mut(), Ordering::SeqCst);
        let began = Instant::now();
        // A thread that comes after the swap finds nothing: either it set `is_busy` before we look, or it looks after our swap.
        while self.is_busy.load(Ordering::SeqCst) {
            if began.elapsed() > IN_FLIGHT_MAX {
                return None;
            }
            std::thread::yield_now();
        }
        assert!(!active.is_null(), "{:?} is not captured", self.spec);
        // SAFETY: `put` made the pointer of a box, nobody can get it any more, and the thread that had it is done.
        let mut active = unsafe { Box::from_raw(active) };
        active.writer.miss(self.missed.swap(0, Ordering::Relaxed));
        active.writer.publish(0, 0);
        Some(active)
    }

    /// # Safety
    /// As for [`Active::burst`].
    #[inline]
    unsafe fn burst(&self, packets: &[*mut RteMbuf]) {
        if self.is_busy.swap(true, Ordering::SeqCst) {
            self.missed.fetch_add(packets.len() as u64, Ordering::Relaxed);
            return;
        }
        let active = self.active.load(Ordering::SeqCst);
        if !active.is_null() {
            // SAFETY: `take` waits until `is_busy` is false; no other thread gets here meanwhile. The packets are the
            // caller's promise.
            unsafe { (*active).burst(packets) };
        }
        self.is_busy.store(false, Ordering::Release);
    }
}

/// `rte_rx_callback_fn`.
///
/// # Safety
/// Called by DPDK with `count` packets of the calling thread, and a tap.
pub(crate) unsafe extern "C" fn on_rx(
    _port: u16,
    _queue: u16,
    packets: *mut *mut RteMbuf,
    count: u16,
    _most: u16,
    tap: *mut c_void,
) -> u16 {
    // SAFETY: the caller's promise.
    unsafe { enter(packets, count, tap) }
}

/// `rte_tx_callback_fn`.
///
/// # Safety
/// As for [`on_rx`].
pub(crate) unsafe extern "C" fn on_tx(
    _port: u16,
    _queue: u16,
    packets: *mut *mut RteMbuf,
    count: u16,
    tap: *mut c_void,
) -> u16 {
    // SAFETY: the caller's promise.
    unsafe { enter(packets, count, tap) }
}

#[inline]
unsafe fn enter(packets: *mut *mut RteMbuf, count: u16, tap: *mut c_void) -> u16 {
    if count > 0 {
        // SAFETY: taps live for ever; the array has so many packets.
        unsafe {
            let packets = std::slice::from_raw_parts(packets.cast_const(), usize::from(count));
            (*tap.cast::<Tap>()).burst(packets);
        }
    }
    count
}
