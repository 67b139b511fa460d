//! Every bound of this crate, and what is said where a machine has less than a filter needs.

use std::fmt;

/// Bytes of an expression.
pub(crate) const TEXT_BYTES_MAX: usize = 4 << 20;

/// How deep brackets, `not` and operators may be nested. Each level takes some hundred bytes of stack, in each stage.
pub(crate) const DEPTH_MAX: usize = 500;

/// Alternatives that become a set: fewer are as fast one by one.
pub(crate) const SET_MIN: usize = 8;

/// Passes over the graph of an expression. libpcap ends after as many that only move tests about.
pub(crate) const PASSES_MAX: usize = 100;

/// Values that something is known of at one place of a scoped filter, and results of tests of each: those that were first compared, and the
/// tests that were made last.
pub(crate) const KNOWN_VALUES_MAX: usize = 32;
pub(crate) const KNOWN_RESULTS_MAX: usize = 8;

/// Tests that an edge is led past.
pub(crate) const PASSED_MAX: usize = 200;

/// Headers that a chain is followed through. Each is 8 bytes or more, or leads back.
pub(crate) const CHAIN_STEPS_MAX: u32 = 10_000;

/// Extension headers of IPv6 that are followed to the header after them.
pub(crate) const EXTENSIONS_MAX: u32 = 8;

/// Places that the headers may be at, by which alternatives hold, for what is joined with these by `and`.
pub(crate) const ALTERNATIVES_MAX: usize = 64;

/// Tests that are written once more for another place of the headers.
pub(crate) const REPEATED_TESTS_MAX: usize = 100_000;

/// No packet is as long. (The limit of weir's engines is the same.)
pub(crate) const PACKET_BYTES_MAX: u32 = 1 << 28;

/// A filter has more instructions, or deeper numbers, than its target takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// What there is too much of.
    pub what: &'static str,
    /// The limit.
    pub limit: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the filter is too long: more than {} {}; split it into several filters",
            self.limit, self.what
        )
    }
}

impl std::error::Error for TooLong {}
