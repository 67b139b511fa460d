//! Fuzz targets: a function for each reader of hostile bytes, and the seeds that inputs are made from.
//!
//! In: any bytes. Out: nothing. A function panics if its reader does, or if what was read contradicts itself. libFuzzer calls these
//! functions from the programs in `fuzz/`; the tests of this crate call them with the seeds and with mutations of these.
//!
//! Deliberately not here: the bounds of an input's length and memory, which the caller sets.

#![forbid(unsafe_code)]

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

pub mod assembly;
pub mod btf;
pub mod bytecode;
pub mod cbpf;
pub mod ctf2;
pub mod elf;
pub mod packet_filter;
pub mod packet_ring;
pub mod pcapng;
pub mod rings;
pub mod script;
pub mod segment;
pub mod trace;

pub mod seeds;

mod maps;

/// LIMIT: CPU time of one input. The slowest reader's bound is about one second in the release profile.
const INPUT_CPU_MAX: Duration = Duration::from_secs(10);

/// Reads an input, whose CPU time is bounded: by the wall's clock it would depend on what else the machine does.
///
/// # Panics
/// If the reader does, or takes longer.
pub fn read_in_time(read: fn(&[u8]), bytes: &[u8]) {
    let before = cpu_time();
    read(bytes);
    let took = cpu_time() - before;
    assert!(took < INPUT_CPU_MAX, "an input took {took:?} of CPU time, more than {INPUT_CPU_MAX:?}");
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

/// A target's name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// One for each reader.
pub const TARGETS: [Target; 15] = [
    ("elf", elf::read),
    ("btf", btf::read),
    ("bytecode", bytecode::read),
    ("assembly", assembly::read),
    ("segment", segment::read),
    ("rings", rings::read),
    ("trace", trace::read),
    ("ctf2", ctf2::read),
    ("pcapng", pcapng::read),
    ("packet_filter", packet_filter::read),
    ("packet_ring", packet_ring::read),
    ("cbpf", cbpf::read),
    ("script", script::read),
    ("declarations", script::read_c),
    ("compile", script::read_whole),
];
