//! Every bound of this crate.

use std::time::Duration;

/// How far ahead of the packet that is looked at others are fetched.
pub(crate) const PREFETCHED: usize = 4;
/// Packets that are asked before any of them is copied: one for each bit of a word.
pub(crate) const ASKED_AT_ONCE: usize = 64;
/// Bytes of a packet that is put together from segments, or gets its tags back: all that can be kept, tags included.
pub(crate) const WHOLE_BYTES_MAX: usize = weir_packet_ring::limits::CAPTURED_BYTES_MAX as usize;
/// How often it is looked whether the process that captures is still there.
pub(crate) const OWNER_LOOK_US: u64 = 100_000;
/// How long bursts in flight are waited for. A thread that is still in one then is stopped, or starved.
pub(crate) const IN_FLIGHT_MAX: Duration = Duration::from_secs(2);
