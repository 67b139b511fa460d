//! What tests and benches of the workspace share: programs to probe, an independent count of calls, a strict checker of traces, loud skips;
//! for packet filters, the installed libpcap, packets of each link type and random expressions; for captures, a strict checker of their files, Wireshark's
//! programs, and network namespaces.
//!
//! Development only: no crate that is shipped depends on it. A fault of a test's own set-up panics with the reason;
//! what a machine lacks is a value (`Unavailable`), for the test to [`skip::skip`].

pub mod alarm;
pub mod babeltrace2;
pub mod bpf;
pub mod cgroup;
pub mod cpu;
pub mod ctf;
pub mod daemon;
pub mod expressions;
pub mod kernel;
pub mod kernel_map;
pub mod libpcap;
pub mod lttng;
pub mod mapped;
pub mod measure;
pub mod netns;
pub mod packets;
pub mod page;
pub mod paths;
pub mod pcap_file;
pub mod pcapng;
pub mod qemu;
pub mod random;
pub mod skip;
pub mod socket_filter;
pub mod stranger;
pub mod target;
pub mod terminal;
pub mod uprobe;
pub mod wait;
pub mod wireshark;

pub use crate::daemon::Daemon;
