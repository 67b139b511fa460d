//! Every bound of this crate.

use std::time::Duration;

/// How long a side runs a program before its time counts as one sample. Long enough that reading the clock (under
/// 1 µs) and an interrupt (a few µs) are below 1 %.
pub const BATCH: Duration = Duration::from_millis(8);
/// The same, where rough figures do.
pub const BATCH_QUICK: Duration = Duration::from_millis(3);

/// Most runs of one batch: the kernel takes the number in 32 bits, and keeps what it has run for one call.
pub const RUNS_MAX: u32 = 10_000_000;

/// Most bytes of memory that a program may ask for.
pub const MEMORY_BYTES_MAX: u32 = 1 << 16;
