//! weir-capture from outside, by its public interface: one program, a module for each subject.
//!
//! Packets of interfaces are in the tests of `weir capture`, which have namespaces for them. Here is a source that is made up, as another
//! crate would write one.

#![forbid(unsafe_code)]

mod scripted;

mod kept;
mod rotated;
