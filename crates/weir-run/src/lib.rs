//! One run over live programs: what the commands `weir trace` and `weir record` do, for any program to call.
//!
//! ```text
//! Script ──compile──▶ Front ──verify, plan──▶ Planned ──what can fail──▶ Run ──attach──▶ Running ──▶ Ended
//!                                                                                       │ ▲
//!                                                          notices, the script's output ◀┘ └ poll, stop, snapshot
//! ```
//!
//! In: a script, or rules that say which events are recorded ([`RecordOptions`]), and [`Options`]: which processes, within which limits. Out: the script's
//! output as a [`Report`](weir_report::Report), a trace, [`Notice`]s, and what the run came to ([`Ended`]). The caller drives it: [`Running::poll`] does
//! what there is to do, and [`Running::wait`] waits until there is something. A run that is dropped takes its probes out.
//!
//! `examples/sum.rs` is a whole program of 40 lines.
//!
//! Guaranteed: whatever fails on the way, nothing stays in a process; a command that cannot be traced from its beginning does not run. Nothing is
//! printed, and what belongs to the calling program stays as it is: signals, standard input and output, working directory, environment. Threads that
//! a run starts end with it.
//!
//! Holds no logic of any stage: compiling is `stages`, what the files say is [`world`], what is done to one process is `attach`, programs that run in
//! weir itself are `controller`, what is done while the targets run is `rounds`.

#![forbid(unsafe_code)]

pub mod event;
pub mod object;
pub mod options;
pub mod supervisor;
pub mod world;

mod attach;
mod clock;
mod command;
mod controller;
mod costs;
mod course;
mod decider;
mod drain;
mod emit;
mod enrol;
mod failure;
mod filtered;
mod flight;
mod gone;
mod groups;
mod indirect;
mod intercept;
mod kernel;
mod loads;
mod notice;
mod one;
mod output;
mod part;
mod plan;
mod prepare;
mod printed;
mod processes;
mod recorded;
mod recorder;
mod recording;
mod required;
mod roll;
mod rounds;
mod running;
mod scalars;
mod shared;
mod sink;
mod stages;
mod start;
mod store;
mod subjects;
mod summary;
mod supervision;
mod symbols;
mod targets;
mod triggers;
mod watched;

pub use crate::costs::percent;
pub use crate::failure::Failure;
pub use crate::notice::{NotProbed, Notice, Notices};
pub use crate::options::{Detail, Engine, Options, RecordOptions, SnapshotOptions, TriggerOptions};
pub use crate::prepare::{Front, Planned, Run, Script, check_rule, check_triggers, compile, events, syntax};
pub use crate::recorded::Flown;
pub use crate::recorded::Recorded;
pub use crate::running::{Ended, Running};
pub use crate::start::{Shown, Start, View};
