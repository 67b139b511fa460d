//! Recording sessions: recordings with a name, which go on without the command line that made them, and are changed while they run.
//!
//! ```text
//! weir record create … ──▶ client ──▶ socket ──▶ daemon: sessions ──▶ stretch: `weir record`, a process ──▶ DIR/1, DIR/2, …
//!                                                  │                     ▲ held, go │ counts
//!                                                  └─▶ state file        └──────────┘
//! ```
//!
//! In: requests. Out: what the daemon answers. One user's daemon knows nothing of another's, and touches no traced process. `description` is what a session
//! is, `session` what becomes of it, `stretch` a process that records for it, and [`recorder`] what is said to that, `protocol` what is said over the socket,
//! `place` where that is, `status` how a session is shown. [`recorded`] is what a recording came to, [`mod@trace`] what its trace says of itself.
//!
//! Prints nothing, and leaves signals to who runs the daemon ([`daemon::Surroundings`]).

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod channel;
pub mod client;
mod clients;
pub mod context;
pub mod counts;
pub mod daemon;
pub mod description;
pub mod limits;
mod object;
mod part;
pub mod place;
mod process;
pub mod program;
pub mod protocol;
pub mod recorded;
pub mod recorder;
pub mod rule;
mod session;
pub mod status;
mod stretch;
pub mod trace;
mod tracked;
pub mod turn;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be.
    #[error("{0:#}")]
    Refused(anyhow::Error),
    /// The machine does not allow it.
    #[error("{0:#}")]
    Unavailable(anyhow::Error),
}
