//! Sessions, from the command line: what a session records over its life, what its daemon does for its users and survives of them, and
//! what is left of both where one is killed.

mod check;

mod daemon;
mod killed;
mod life;
mod refused;
