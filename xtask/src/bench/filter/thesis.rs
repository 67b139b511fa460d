//! What is known of the figures of the thesis chapter that the bench follows: its text, and the results that its author published
//! beside the code (github.com/tuxology/libebpf, libebpf-benchmarks).
//!
//! The figures' points are in pictures; of these only what text and results say is here. The machine of 2015 is not named.

/// Figure 4.8, 50 predicates that hold, joined by &&, 100 million events: over the hard-coded filter (text).
pub(super) const JIT_OVER_HARD_CODED: f64 = 1.4;
pub(super) const INTERPRETED_OVER_HARD_CODED: f64 = 4.3;

/// Figure 4.9, seconds for 100 million events: predicates, hard-coded, eBPF (JIT), eBPF (interpreted). From
/// libebpf-benchmarks' sample results, which name no unit; the figure's axis is seconds, and they fit it.
pub(super) const BY_PREDICATES: [Row; 2] = [(10.0, 4.58, 7.55, 23.8), (40.0, 22.9, 30.6, 101.8)];
pub(super) type Row = (f64, f64, f64, f64);
/// Nanoseconds of an event, of a second for 100 million.
pub(super) const NS_OF_A_SECOND: f64 = 10.0;

/// Figure 4.10, nine predicates that hold: ns of an event over LTTng without a filter (text): LTTng's filter, eBPF (JIT).
pub(super) const TRUE_OVER_RECORDED: (f64, f64) = (325.0, 154.0);
/// Ten predicates that fail: ns of an event (libebpf's results for 10 million): LTTng, eBPF (JIT), eBPF (interpreted).
pub(super) const FALSE: (f64, f64, f64) = (359.0, 113.0, 202.0);
