//! libweir_dpdk: captures packets inside a DPDK application, which loads it with EAL's `-d`, or by LD_PRELOAD.
//!
//! In: commands over DPDK's telemetry socket (`/weir/info`, `/weir/start,PID,FD`, `/weir/stop`); a segment of shared memory that
//! process PID has open as FD, with a filter and rings (weir-packet-ring); bursts of packets, by callbacks on the queues that the
//! segment names. Out: in the rings, the packets that the filter keeps. What is guaranteed:
//!
//! - Loaded and not started, it has registered its commands and nothing else: no callback, no thread, no memory of DPDK's.
//! - No filter runs that weir-verifier has not accepted; the code is made here, from the accepted program.
//! - Packets are only looked at. A burst goes on with every packet that it had, and never waits.
//! - When capturing ends, by command or because the process PID is gone, the callbacks are removed, and the memory is unmapped when
//!   no burst is in it any more.
//! - The layout of `struct rte_mbuf` is known for the releases listed in [`mbuf`], and tried on DPDK's own functions before it is used;
//!   with any other the plugin refuses to start.
//!
//! ```text
//! load      the constructor: looks DPDK up, registers commands
//! control   a command's words → what is done, and the answer
//! session   a segment → callbacks on queues, and back
//! tap       one queue and direction: what a burst goes through
//! burst     a filter over a burst, and copies of what it keeps
//! ```
//!
//! Deliberately not here: what becomes of the packets, files, the language of filters.

#![deny(missing_docs)]

mod load;

mod control;

mod session;

mod tap;

mod burst;

mod whole;

mod filter;
mod owner;

mod ids;

mod dpdk;
mod mbuf;

mod isa;
mod limits;
