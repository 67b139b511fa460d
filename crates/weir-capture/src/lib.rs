//! Capturing packets: a [`Source`] yields records, a [`Capture`] filters and counts them, a [`Sink`] keeps them.
//!
//! ```text
//! live::Interfaces (AF_PACKET) ─┐
//! files::Files                 ─┼─ Record ─▶ Capture: filter, cut, count ─▶ Save (pcapng, rotated or to a pipe)
//! another Source               ─┘
//! ```
//!
//! - The caller drives it: [`Capture::step`] never waits; the caller waits for [`Source::descriptors`].
//! - Time comes in from outside ([`Moment`]), stamps of packets from where they were captured.
//! - Nothing is lost silently: what a source lost is with the next packet, and in the counts.
//! - Nothing is allocated for a packet.
//!
//! Deliberately not here: the language of filters ([`Filters`] is asked for them), printing, signals, what packets contain.

#![deny(missing_docs)]

mod error;
mod limits;

mod record;

mod source;

mod filter;

mod sink;

pub mod files;
pub mod live;

mod save;

mod capture;

pub use crate::capture::{Capture, Step, Tally};
pub use crate::error::Error;
pub use crate::filter::{Classify, Filters, Kernel};
pub use crate::limits::SNAPLEN_DEFAULT;
pub use crate::record::Record;
pub use crate::save::{Rotation, Save};
pub use crate::sink::{Moment, Sink};
pub use crate::source::{Counts, Drained, Filtered, Flow, Source, Take};
