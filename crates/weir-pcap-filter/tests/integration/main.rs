//! One program for all integration tests.

mod engines;
mod kernel;
mod libpcap;
mod programs;
