//! Every bound of this crate.

use std::time::Duration;

/// How long a packet is held back for earlier ones of other queues.
pub const WINDOW: Duration = Duration::from_millis(10);
/// How often [`Capture::poll`](crate::Capture::poll) is to be called, so that rings do not run full.
pub const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Of each ring, if nobody says otherwise.
pub const RING_BYTES_DEFAULT: u64 = 4 << 20;
/// How long an answer of the application is waited for.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of a ring's records that are held for the window.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;
/// Ports of an application: more are not asked for.
pub(crate) const PORTS_MAX: usize = 1024;
/// How far apart readings of the clocks are that are kept, and how many.
pub(crate) const READING_NS: u64 = 50_000_000;
pub(crate) const READINGS_MAX: usize = 64;
