//! `weir record` loses and invents nothing: traces of a program of many emitters, interrupted by signals, forking, or killed at any moment,
//! are held against that program's own ledger of what it emitted (tests/programs/emitters.c).
//!
//! - [`exact`]: every event, every field, the order of each emitter; and what was discarded, to the last one.
//! - [`blocking`]: what waits for room in the rings, and what does not.
//! - [`killed`]: the same where the program or weir is ended by SIGKILL.
//! - [`strict`]: what is written is what the text of CTF 1.8 has.
//!
//! A trace is read by [`found`], by weir-trace's reader and as the text of babeltrace2.

mod blocking;
mod emitters;
mod exact;
mod found;
mod killed;
mod strict;
