//! weir from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod adversarial;
mod bpf;
mod budget;
mod contexts;
mod ctf2;
mod drop_in;
mod engines;
mod errors;
mod exits;
mod explain;
mod filter;
mod filtered;
mod first;
mod flight;
mod floats;
mod fmt;
mod follow;
mod imports;
mod kernel_events;
mod kernel_tools;
mod language;
mod lease;
mod life;
mod live;
mod manual;
mod many;
mod odd;
mod other_kernel;
mod parameters;
mod process;
mod record;
mod recorded;
mod returns;
mod rust_strings;
mod screen;
mod sessions;
mod symbols;
mod tools;
mod trace;
mod tracepoint;
mod triggers;
mod types;
mod usdt;
mod view;
