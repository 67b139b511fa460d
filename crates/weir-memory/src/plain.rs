//! Maps in plain memory, and runs on them: safe Rust, for any machine.
//!
//! In: definitions of maps, and a context. Out: a [`Run`] for an interpreter to stand on, and what it left in the maps. Addresses
//! are made up: the upper half says what an address is of, the lower half where in it (`space`), so that a program's numbers
//! are the same on every machine, and what is not the program's cannot be reached by any number.
//!
//! Flags and errors of the map helpers are the kernel's. There is one CPU. What is about a process of Linux beside its numbers and its name
//! (its stack, its signals) is refused with [`Violation::NotHere`](crate::Violation). No memory is mapped that a program could
//! read at an address. After a helper that may move a packet its old
//! addresses are gone, as a verifier demands.

mod maps;

mod run;

mod space;

mod answers;

mod store;

pub use maps::{Errno, Maps, MapsError, Process};
pub use run::{Input, Run};
