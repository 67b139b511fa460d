//! A trace as one stream of bytes, for a pipe or a network connection: what is else written to a folder, while it is recorded.
//!
//! The sending side is a [`Sender`], to which [`crate::write::Folder::send`] writes; the receiving side is a [`Receiver`], which makes the folder again for
//! [`crate::Follower`] and [`crate::Reader`]. The bytes between them are [`frame`]s, described in docs/trace-stream.md.
//!
//! Guaranteed: the sender waits for nobody, and holds as much as [`crate::limits::SEND_BYTES`] and what was put in beyond it at once. The receiver
//! trusts nothing: it writes to files of its own folder alone, a frame only when it is whole, and an error names the byte.

pub mod frame;
mod receive;
mod send;

pub use receive::Receiver;
pub use send::Sender;
