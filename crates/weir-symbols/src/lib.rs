//! Finds things in files and processes: which file a name means, what functions and static probes an ELF file has, where its bytes
//! stand in a running process.
//!
//! In: ELF files ([`Binary`]), `/proc/PID/maps` ([`maps`]), `ld.so.cache` and library folders ([`resolve`]); what processes
//! mapped over time ([`generations`]), and what they say of code that they have generated ([`perf_map`]).
//! Out: names, addresses and ranges, each address in its own type. Whatever is read is taken as hostile: a broken
//! file gives an [`Error`] or fewer symbols, never a panic, a hang or memory beyond a small multiple of its size.
//! Knows nothing of probes, scripts or registers; changes nothing; decodes no instructions. Of DWARF it
//! reads the address ranges of `.eh_frame`, line tables with the blocks of inlined functions, and what functions take.

#![forbid(unsafe_code)]

mod address;
mod binary;
mod debug_file;
mod demangle;
mod error;
mod frames;
mod functions;
pub mod generations;
pub mod history;
mod image;
pub mod kallsyms;
mod landing;
mod layout;
mod limits;
mod lines;
pub mod maps;
pub mod pattern;
pub mod perf_map;
pub mod procfs;
pub mod prototypes;
pub mod regular;
mod relocations;
pub mod resolve;
mod restartable;
pub mod tracefs;
pub mod usdt;

pub use crate::address::{FileOffset, LinkAddr, VirtAddr};
pub use crate::binary::{Binary, FileIdentity, build_id_of, has_static_probes, program_kind};
pub use crate::demangle::demangle;
pub use crate::error::Error;
pub use crate::functions::{Function, FunctionKind};
pub use crate::image::Image;
pub use crate::layout::ProgramKind;
pub use crate::layout::Segment;
pub use crate::relocations::SymbolSlot;
pub use crate::usdt::StaticProbe;
