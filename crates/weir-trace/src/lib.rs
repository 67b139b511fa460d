//! Traces in the Common Trace Format: reading what LTTng and others wrote, and writing what babeltrace2 and others read.
//!
//! In, reading: folders with CTF 1.8 or CTF 2. Out: events in the order of time, with what was lost and what is damaged ([`Reader`]).
//! In, writing: a [`class::TraceClass`], and records whose bytes are as it says. Out: such a folder ([`mod@write`]), or its bytes through a [`pipe`].
//!
//! Guaranteed: whatever is read is hostile. Memory is bounded by [`limits`] and a window for each stream; nothing that is read makes it
//! panic or hang; an error names the file and the place, and comes after all that lies before it.
//!
//! Deliberately not here: how events look as text, which processes there are, and where records come from.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod class;
mod ctf2;
mod error;
mod hide;
pub mod limits;
mod path;
pub mod pipe;
pub mod private;
pub mod read;
mod tsdl;
pub mod write;

pub use error::Error;
pub use read::{Event, Follower, Loss, Lost, Message, Packed, Reader, StreamInfo, Values};
