//! weir-pcapng from outside, by its public interface: one program, a module for each subject.
//!
//! Files come from `testkit::pcap_file` or, where they have more than that writes, from `file`; `listed` is what a reader says of one.
//! No other program is asked.

#![forbid(unsafe_code)]

mod file;
mod listing;

mod classic;
mod faults;
mod hostile;
mod options;
mod pcapng;
mod writer;
mod written;
