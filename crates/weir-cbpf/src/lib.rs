//! Classic BPF: the machine of the original BSD packet filter, as libpcap 1.10's userland interpreter defines it.
//!
//! In: instructions, or their text ([`text`]). Out: a [`Program`], which only [`check()`] builds; from it the value that
//! the program returns for a packet ([`run()`]), or an eBPF program that returns the same ([`convert()`]). Guaranteed: text
//! is byte for byte what `tcpdump -d`, `-dd` and `-ddd` print; `run` ends, and never reads outside the packet.
//!
//! Sources: McCanne and Jacobson, "The BSD Packet Filter" (1993); bpf(4); Linux's Documentation/networking/filter.rst;
//! what libpcap 1.10.3, tcpdump 4.99.3 and Linux 6.18 do with programs that were made for the purpose.
//!
//! Deliberately not here: filter expressions (`tcp port 80`), and optimisation.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod insn;
pub mod opcode;

pub mod ancillary;

pub mod text;

mod check;

mod run;

mod convert;

pub mod limits;

pub use crate::ancillary::{Ancillary, Metadata};
pub use crate::check::{Machine, Program, Refusal, Refused, check};
pub use crate::convert::{ConvertError, FarOffsets, Target, convert};
pub use crate::insn::Insn;
pub use crate::run::{Endless, run, run_for};
