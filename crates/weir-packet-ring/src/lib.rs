//! Packets from the threads of one process to another, through shared memory.
//!
//! In: packets of a queue, by the thread that polls it ([`Writer`]). Out: the same packets in the same order, with what is known of
//! each ([`Packet`]), in the process that made the segment ([`Reader`]). What is guaranteed:
//!
//! - Neither side waits for the other. A packet that finds no room is counted, and the next one that is written says how many were.
//! - Of each ring, received = filtered + written + dropped, exactly, once its writer is done.
//! - The writer publishes once a burst: no atomic read-modify-write, no system call, nothing for each packet but its bytes.
//! - Whatever one side does to the memory, the other neither faults nor goes outside a ring: the size of the file is sealed, every
//!   position and length is checked against sizes that each side keeps for itself, and a reader parses a private copy.
//!
//! ```text
//! header   magic, version, bytes, options, how many rings, where the program is
//! specs    port, queue and direction of each ring
//! program  instructions of eBPF, 8 bytes each; none: every packet is kept
//! rings    each: a page of positions and counters, then its bytes
//! ```
//!
//! Deliberately not here: what a filter is, what packets contain, whose they are, and who says when to begin.

#![deny(missing_docs)]

mod segment;

mod record;

mod writer;

mod reader;

mod layout;
mod mapping;

pub mod limits;

pub use crate::reader::{Drained, Packet, Reader};
pub use crate::record::{Flags, Meta};
pub use crate::segment::{Counters, Direction, Fault, Plan, RingSpec, Segment};
pub use crate::writer::Writer;
