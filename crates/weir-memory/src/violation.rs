//! What a program must not do, and no memory lets it do.

use thiserror::Error;
use weir_ebpf::HelperId;

/// What a program must not do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are what the message says")]
pub enum Violation {
    #[error("{} {bytes} bytes at {address:#x}, which is in no live region", verb(*.is_write))]
    Outside { address: u64, bytes: u64, is_write: bool },
    #[error("{} {bytes} bytes at offset {offset} of the context, which has no such field", verb(*.is_write))]
    Field { offset: u64, bytes: u64, is_write: bool },
    #[error("an atomic operation on {bytes} bytes at {address:#x}, which is not a multiple of them")]
    Misaligned { address: u64, bytes: u64 },
    #[error("helper {id} does not exist")]
    NoHelper { id: HelperId },
    #[error("{helper} is about a process of Linux, or its CPUs, which maps in plain memory know nothing of")]
    NotHere { helper: &'static str },
    #[error("{helper} changes this process, which was not allowed")]
    ChangesProcess { helper: &'static str },
    #[error("{helper} is for socket filters and classifiers")]
    NoPacket { helper: &'static str },
    #[error("argument {number} of {helper}: {value:#x} is not {wanted}")]
    Argument { helper: &'static str, number: usize, value: u64, wanted: &'static str },
    #[error("there is no map {index}")]
    NoMap { index: u32 },
    #[error("map_lookup_percpu_elem on a segment whose lanes are not claimed")]
    NoLanes,
    #[error("{count} ring records were neither submitted nor discarded")]
    LeakedRecords { count: usize },
}

fn verb(is_write: bool) -> &'static str {
    if is_write { "a write of" } else { "a read of" }
}
