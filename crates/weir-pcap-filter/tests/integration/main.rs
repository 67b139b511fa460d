//! One program for all integration tests.

mod engines;
mod kernel;
mod language;
mod libpcap;
mod libpcap_1_11;
mod machines;
mod oracle;
mod programs;
mod scoped;
