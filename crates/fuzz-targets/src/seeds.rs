//! Seeds: inputs that are right, or nearly, so that mutations of them reach deep into the readers.
//!
//! In: objects that a compiler made, which may be none. Out: seeds for every target, the same for the same objects. Weir itself writes
//! the rest: programs, files, segments' steps, rings and traces. Capture files are put together here.

mod captures;
mod filters;
mod packet_ring;
mod programs;
mod rings;
mod scripts;
mod segment;
mod tracepoints;
mod traces;

/// An input of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seed {
    /// As in [`TARGETS`](crate::TARGETS).
    pub target: &'static str,
    /// The name of its file, unique among the seeds of the target.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Every seed, those made of `objects` (the bytes of ELF files for BPF) among them.
pub fn all(objects: &[Vec<u8>]) -> Vec<Seed> {
    let mut seeds = programs::seeds(objects);
    seeds.extend(tracepoints::seeds());
    seeds.extend(segment::seeds());
    seeds.extend(rings::seeds());
    seeds.extend(traces::seeds());
    seeds.extend(captures::seeds());
    seeds.extend(filters::seeds());
    seeds.extend(packet_ring::seeds());
    seeds.extend(scripts::seeds());
    seeds
}

fn seed(target: &'static str, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Seed {
    Seed { target, name: name.into(), bytes: bytes.into() }
}
