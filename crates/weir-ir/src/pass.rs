//! Rewrites a module so that it does the same with less.
//!
//! In: a module that [`check`](crate::check) accepts. Out: one that it accepts too, which has the same effects in
//! the same order (map changes, records) and no more work on any path. What counts as an effect is
//! [`Effect`](crate::Effect)'s. Each pass is a file whose header lists what it does:
//!
//! - [`fold`]: constants and identities
//! - [`branch`]: branches that go one way, blocks without work, blocks in a row
//! - [`cse`]: the same computation done twice
//! - [`dce`]: results that nobody uses
//! - [`session`]: a map between the two ends of a call becomes the call's own cookie
//! - [`renumber`]: values and blocks counted from 0 without gaps
//!
//! Deliberately not done: moving code, and anything about maps or memory (two reads stay two reads).

pub mod branch;
pub mod cse;
pub mod dce;
pub mod fold;
pub mod renumber;
pub mod session;
mod substitute;

use crate::{Module, SiteSpec};

/// Rounds of all passes; each round only follows from what the one before removed, and scripts settle in two.
const ROUNDS_MAX: usize = 8;

/// Makes sessions of clauses at the two ends of a call where that means the same, in a module that was optimised; what
/// follows from it is done too. `keeps`: whether calls of the function can keep something until they return; `keeps_in_kernel`: the same of the
/// kernel's, by their names.
pub fn fuse(module: &mut Module, keeps: &dyn Fn(&SiteSpec) -> bool, keeps_in_kernel: &dyn Fn(&str) -> bool) {
    if session::run(module, keeps, keeps_in_kernel) {
        optimise(module);
    }
}

/// Runs every pass on one function after the other until nothing changes.
pub fn optimise(module: &mut Module) {
    for function in &mut module.functions {
        for _ in 0..ROUNDS_MAX {
            let mut changed = fold::run(function);
            changed |= branch::run(function);
            changed |= cse::run(function);
            changed |= dce::run(function);
            if !changed {
                break;
            }
        }
        renumber::run(function);
    }
}
