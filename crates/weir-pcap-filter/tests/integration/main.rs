//! One program for all integration tests.

mod libpcap;
mod engines;
mod kernel;
mod programs;
