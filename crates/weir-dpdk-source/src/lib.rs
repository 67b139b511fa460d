//! A running DPDK application → its packets, in the order of time.
//!
//! [`Application`] is one that was found by its prefix and answers on its telemetry socket; [`Application::ports`] are its ports. A
//! [`Capture`] has the plugin that the application has loaded (libweir_dpdk.so, of weir-dpdk) run a filter in there and leave
//! packets in shared memory, and gives them ([`Capture::poll`]). What is guaranteed:
//!
//! - Times are those of CLOCK_REALTIME and never fall within a queue. They lie between readings of both clocks, never beyond them.
//! - Packets of different queues are in order, unless a thread of the application was kept from running in the middle of a burst for
//!   longer than `limits::WINDOW`.
//! - When the application is gone, what it had captured is still given.
//! - What the application says, and what it writes into the memory, is hostile: errors, no panic, bounded memory.
//!
//! Deliberately not here: files, printing, the language of filters; which packets there are is for weir-dpdk to say.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod selection;

mod application;
mod telemetry;

mod capture;
mod merge;

mod clock;

mod error;
pub mod limits;

pub use crate::application::{Application, Port};
pub use crate::capture::{Capture, Ended, Options, State};
pub use crate::error::Error;
pub use crate::merge::Packet;
pub use crate::selection::Selection;
pub use weir_packet_ring::{Counters, Direction, Flags};
