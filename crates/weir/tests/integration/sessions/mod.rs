//! Sessions, from the command line: what a session records over its life, what its daemon does for its users and survives of them, what is
//! left of both where one is killed; sessions that overwrite, and those that events change.

pub(crate) mod check;

mod daemon;
mod flight;
mod killed;
mod life;
mod programs;
mod refused;
mod several;
mod triggers;
