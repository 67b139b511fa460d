//! Programs that make probing hard, traced end to end through the `weir` command.
//!
//! One test for each way in which a probe could be seen by the program, or a hit be lost; the oracle is always that of
//! [`check`]. The programs are tests/programs/*, each of which counts its own calls.

mod check;

mod arguments;
mod attached;
mod control;
mod copies;
mod edges;
mod everything;
mod reentry;
mod state;
