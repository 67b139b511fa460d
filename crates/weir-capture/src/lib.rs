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
//! ```
//! use std::{io, path::Path};
//!
//! use weir_capture::files::{Files, Input};
//! use weir_capture::{Capture, Moment, SNAPLEN_DEFAULT, Save, Step};
//! use weir_pcapng::{Section, Writer};
//!
//! // A capture file, in memory here.
//! let mut file = Writer::new(Vec::new(), &Section::default())?;
//! file.flush()?;
//! let file = file.into_output();
//!
//! let open = move |_: &Path| Ok(Input { bytes: Box::new(io::Cursor::new(file.clone())), descriptor: None });
//! let source = Files::new(["a.pcapng".into()], SNAPLEN_DEFAULT, None, Box::new(open));
//! let mut written = Vec::new();
//! let now = Moment::default();
//! let save = Save::to_pipe(Box::new(&mut written), Section::default(), now)?;
//! let mut capture = Capture::new(Box::new(source), None, vec![Box::new(save)], SNAPLEN_DEFAULT, None, now);
//! while capture.step(now)? != Step::Ended {}
//! capture.finish(now)?;
//! drop(capture);
//! assert_eq!(written.len(), 28);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
