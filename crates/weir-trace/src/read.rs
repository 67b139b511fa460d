//! Folders with traces → messages in the order of time.
//!
//! Data goes one way: [`metadata`] makes classes of a file, `plan` makes reads of classes, `decode` does them, `stream` reads one stream's
//! packets with it, and [`Reader`] merges streams. A stream holds a window of a packet, so that memory does not depend on how large
//! packets or files are.
//!
//! What is damaged ends its stream and no other: all that lies before is read, and then it is said where the damage is.
//!
//! [`Follower`] does the same with traces that are being written.

pub(crate) mod decode;
pub(crate) mod folder;
mod follow;
mod merge;
pub mod metadata;
pub(crate) mod plan;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

pub use follow::Follower;
pub use merge::{Event, Loss, Lost, Message, Packed, Reader, StreamInfo, Values};
