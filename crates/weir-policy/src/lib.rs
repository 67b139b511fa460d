//! Safety rails: what a run may cost, who may trace what, and who hears of it.
//!
//! [`budget`] is what a run may cost the process that it traces, as it is written and as it is compared. [`policy`] is what
//! an administrator allows to whom. [`facts`] looks up what a policy asks about: who calls, and what a process is. [`guard`]
//! brings them together for one run. [`notes`] is what the system's log is told of it, in lines of [`audit`].
//!
//! How a share of CPU time is kept: [`throttle`] is the ladder of what can be done about a site that costs too much, [`estimate`]
//! what is known of one by its [`meters`], [`control`] decides which steps which way, and [`watch`] looks at meters and lets
//! it. [`figures`] are what is reported of it, also to other weirs ([`stats_page`]). All of that is pure: processes are a trait.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod audit;
pub mod budget;
pub mod facts;
pub mod guard;
pub mod notes;
pub mod policy;
pub mod rules;

pub mod control;
pub mod estimate;
pub mod expected;
pub mod figures;
pub mod meters;
pub mod stats_page;
pub mod throttle;
pub mod watch;

/// Why a process is not traced.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A policy does not allow it, or cannot be followed.
    #[error("{0}")]
    Refused(String),
    /// What a policy requires is not there: the audit's log.
    #[error("{0}")]
    Unavailable(String),
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
