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
//! Holds no logic of any stage: compiling is `stages`, what the files say is `weir-world`, what is done to one process is `attach`, programs that run in
//! weir itself are `controller`, what is done while the targets run is `rounds`.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

// What a run is made of, before anything is touched.
pub mod event;
pub mod explain;
pub mod object;
pub mod options;

mod decider;
mod emit;
mod filtered;
mod indirect;
mod plan;
mod prepare;
mod probe_filter;
mod recording;
mod required;
mod stages;
mod subjects;
mod triggers;

// While it runs: what the caller holds, the two engines, processes.
mod course;
mod kernel;
mod processes;
mod running;
mod start;

mod asked;
mod attach;
mod command;
mod intercept;
mod loads;
mod local_time;
mod one;
mod registry;
mod targets;

// What is done again and again: sinks and parts.
mod captured;
mod drain;
mod flight;
mod kept;
mod part;
mod printed;
mod recorder;
mod rounds;
mod sink;

pub mod supervisor;

mod controller;
mod costs;
mod supervision;
mod watched;

// What comes out.
mod both;
mod failure;
mod in_kernel;
mod notice;
mod output;
mod scalars;
mod store;
mod summary;
mod symbols;

mod clock;
mod shared;

pub use crate::asked::{Benched, Tested, Trial};
pub use crate::costs::percent;
pub use crate::failure::Failure;
pub use crate::notice::{About, NotProbed, Notice, Notices};
pub use crate::options::{Detail, Engine, Mode, Options, RecordOptions, SnapshotOptions, TriggerOptions};
pub use crate::prepare::{
    Front, Planned, Run, Script, check_rule, check_triggers, compile, events, formatted, syntax,
};
pub use crate::running::{Ended, Running};
pub use crate::start::{Shown, Start, View};
pub use weir_ir::Asked;
pub use weir_script::fault_of as fault_of_setting;
pub use weir_sessions::recorded::{Place, Recorded, Snapshots};
