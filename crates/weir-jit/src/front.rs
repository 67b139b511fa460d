//! From a verified program to operations: one for each instruction, with what is known of the registers there.
//!
//! [`values`] learns what registers hold, [`lower`] makes operations ([`lir`], [`fused`]) of instructions with that, for maps at their [`places`]. What can be said of the whole program stands beside: [`lane_use`],
//! [`alignment`], [`reservation`].

pub(crate) mod alignment;
pub(crate) mod fused;
pub(crate) mod lane_use;
pub(crate) mod lir;
pub(crate) mod lower;
pub(crate) mod places;
pub(crate) mod reservation;
pub(crate) mod values;
