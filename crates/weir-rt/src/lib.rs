//! Maps, rings and helpers, as they stand in the shared segment; and the words [`Executable`] and [`SiteAbi`].
//!
//! Two halves with one implementation of every map and ring. The C half (`c/`) is freestanding: it is put into traced
//! processes as a position-independent image ([`runtime::image`]) and linked into this one. The Rust half lays the
//! segment out ([`segment`]), reads it as the hostile memory it is, links programs to it ([`link()`]), and runs them in
//! this process ([`local`], [`memory`]).
//!
//! Guarantees: no operation on a map or ring ever waits for another thread, alive or dead; whatever a target writes
//! into its segment, this process touches no byte outside of it and every loop ends; what is lost has a counter.
//!
//! Knows nothing of scripts, of verification, of generating code, or of other processes.

pub mod executable;

pub mod limits;

pub mod abi;

pub mod segment;

pub mod foreign;

pub mod isa;

pub mod runtime;

mod cgroup;

mod clock;

mod link;

pub mod local;

pub mod memory;

pub use clock::{Clock, Ticks, pair as clock_pair};
pub use executable::{
    CpuSource, Executable, Frame, LanePolicy, LaneUse, RelocKind, Relocation, RuntimeFunction, SiteAbi,
    Symbol, TidSource,
};
pub use link::{LinkError, link};
pub use weir_memory::{Context, ContextMut};
