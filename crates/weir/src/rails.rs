//! Safety rails: what a run may cost, who may trace what, and who hears of it.
//!
//! [`budget`] is what a run may cost the process that it traces, as it is written and as it is compared. [`policy`] is what
//! an administrator allows to whom. [`facts`] looks up what a policy asks about: who calls, and what a process is. [`guard`]
//! brings them together for one run. [`notes`] is what the system's log is told of it, in lines of [`audit`].
//!
//! How a share of CPU time is kept: [`rung`] is the ladder of what can be done about a site that costs too much, [`gauge`]
//! what is known of one by its [`meters`], [`control`] decides which steps which way, and [`watch`] looks at meters and lets
//! it. [`figures`] are what is told of it, also to other weirs ([`bulletin`]). All of that is pure: processes are a trait.

pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod facts;
pub(crate) mod guard;
pub(crate) mod notes;
pub(crate) mod policy;
pub(crate) mod rules;

pub(crate) mod bulletin;
pub(crate) mod control;
pub(crate) mod figures;
pub(crate) mod gauge;
pub(crate) mod meters;
pub(crate) mod rung;
pub(crate) mod watch;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
