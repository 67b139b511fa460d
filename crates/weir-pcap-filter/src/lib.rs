//! The pcap-filter(7) language → programs that say which packets to keep.
//!
//! [`parse`] reads an expression to a tree, [`compile`] gives it the meaning that it has on a link type: a [`Filter`], whose
//! [`Graph`] of tests becomes classic BPF ([`Filter::classic`]) or eBPF.
//!
//! - The same packets are kept as by libpcap 1.10.3, with its quirks of precedence, of offsets that `vlan` and its like move, and of
//!   short packets.
//! - Every fault is a diagnostic at the exact text.
//! - Hostile text gives errors, never a panic, deep recursion or unbounded work.
//!
//! Deliberately not here: files, sockets, machine code; names are asked of a [`Names`].

#![deny(missing_docs)]
#![forbid(unsafe_code)]

#[allow(missing_docs, reason = "variants are the protocols' own names")]
mod protocol;
mod token;

mod lexer;

#[allow(missing_docs, reason = "variants are the language's own words")]
pub mod ast;
mod parser;

mod names;

mod link;

#[allow(missing_docs, reason = "variants are the operations' own names")]
pub mod ir;

mod lower;

mod graph;
mod sets;

mod optimize;

mod classic;
mod ebpf;

mod evaluate;

mod limits;

use weir_source::{Diagnostic, Span};

pub use crate::graph::{Condition, Graph, Node, Target};
pub use crate::limits::TooLong;
pub use crate::link::{LinkType, NAMES as LINK_TYPES};
pub use crate::names::{Names, NoNames, Transport};
pub use crate::parser::parse;
pub use crate::protocol::Protocol;

/// What an expression is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Of the packets.
    pub link_type: LinkType,
    /// Bytes that are kept of a packet at most.
    pub snaplen: u32,
    /// Of the network that packets come from, for `ip broadcast`.
    pub netmask: Option<u32>,
}

/// libpcap's snapshot length where none is given.
pub const SNAPLEN_DEFAULT: u32 = 262_144;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Its tests.
    pub graph: Graph,
    /// What is kept of a packet that it accepts.
    pub snaplen: u32,
}

/// Compiles an expression; an empty one accepts every packet.
///
/// ```
/// use weir_pcap_filter::{LinkType, NoNames, Options, SNAPLEN_DEFAULT, compile};
///
/// let options = Options { link_type: LinkType::EN10MB, snaplen: SNAPLEN_DEFAULT, netmask: None };
/// let filter = compile("arp", &options, &NoNames)?;
/// let mut frame = [0; 60];
/// assert_eq!(filter.evaluate(&frame, 60), 0);
/// frame[12..14].copy_from_slice(&[0x08, 0x06]);
/// assert_eq!(filter.evaluate(&frame, 60), 262_144);
/// # Ok::<(), Vec<weir_source::Diagnostic>>(())
/// ```
///
/// # Errors
/// Faults of the expression, and expressions that libpcap refuses.
pub fn compile(text: &str, options: &Options, names: &dyn Names) -> Result<Filter, Vec<Diagnostic>> {
    let whole = Span::new(0, text.len());
    let located = |mut fault: Diagnostic| {
        // Faults of the whole have no place of their own.
        if fault.span == Span::new(0, 0) {
            fault.span = whole;
        }
        vec![fault]
    };
    let expr = parse(text).map_err(located)?;
    let mut lowered = lower::lower(expr.as_ref(), options, names, true).map_err(located)?;
    let stands_alone = |pred| sets::stand_alone(&lowered.values, pred);
    if lowered.has_sets && (lowered.is_verbatim || !lowered.pred.as_ref().is_some_and(stands_alone)) {
        lowered = lower::lower(expr.as_ref(), options, names, false).map_err(located)?;
    }
    let is_verbatim = lowered.is_verbatim;
    let mut graph = Graph::of(lowered);
    if !is_verbatim {
        optimize::optimize(&mut graph).map_err(located)?;
    }
    graph.tidy();
    Ok(Filter { graph, snaplen: options.snaplen })
}
