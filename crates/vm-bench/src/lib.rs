//! The programs of `tests/vm` on every engine: weir's two, the kernel's JIT, native code, and, with the feature
//! `peers`, other virtual machines.
//!
//! In: C files. Out: what each engine answers, and how long it takes. [`program`] compiles a file for each kind of
//! engine; [`sides`] makes an engine ready to run it; [`measure`] times several sides in turn; [`translate`]
//! times the verifier and the JIT themselves; [`report`] says it in
//! lines that `cargo xtask bench vm` makes tables of. The tests of this crate compare the answers. [`filters`] has event
//! filters, on weir's engines and hard-coded, for `cargo xtask bench filter`; [`packets`] has packet filters, beside libpcap's
//! interpreter and the kernel, for `cargo xtask bench pcap`.
//!
//! Development only: no crate that is shipped depends on it. Deliberately not here: statistics and bars (xtask).

pub mod limits;

pub mod program;

pub mod native;

pub mod sides;

pub mod measure;

pub mod translate;

pub mod report;

pub mod filters;

pub mod packets;
