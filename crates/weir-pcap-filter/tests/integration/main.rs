//! One program for all integration tests.

mod libpcap;
