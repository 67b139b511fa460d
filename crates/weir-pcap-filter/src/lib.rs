//! The pcap-filter(7) language → programs that say which packets to keep.
//!
//! [`parse`] reads an expression to a tree, [`compile`] gives it the meaning that it has on a link type: a [`Filter`], whose
//! [`Graph`] of tests becomes classic BPF ([`Filter::classic`]) or eBPF.
//!
//! - In [`Mode::Compat`] the same packets are kept as by libpcap 1.10.3, with its quirks of precedence, of offsets that `vlan` and its like
//!   move, and of short packets. In [`Mode::Scoped`] `and`, `or` and `not` behave as in logic, on short packets too.
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
mod threading;

mod classic;
mod ebpf;

mod evaluate;

mod limits;

use weir_source::{Diagnostic, Span};

pub use crate::evaluate::Facts;
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
    /// Whose meaning the expression has.
    pub mode: Mode,
}

/// Whose meaning expressions have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// That of libpcap 1.10.3.
    Compat,
    /// Terms that move to other headers bind what they are joined with by `and`, a test of bytes that are missing fails, and IPv6 extension
    /// headers are seen through.
    Scoped,
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
    /// Of a scoped filter: its conditions as they were written.
    meaning: Option<ir::Pred>,
}

impl Filter {
    /// Whether it asks for a field of a packet's context, beside bytes and lengths.
    pub fn asks(&self, field: ir::ContextField) -> bool {
        self.graph.values.has(&ir::Value::Context(field))
    }

    /// Whether it asks for any.
    pub fn asks_context(&self) -> bool {
        ir::ContextField::ALL.into_iter().any(|field| self.asks(field))
    }
}

/// Compiles an expression; an empty one accepts every packet.
///
/// ```
/// use weir_pcap_filter::{LinkType, Mode, NoNames, Options, SNAPLEN_DEFAULT, compile};
///
/// let options = Options { link_type: LinkType::EN10MB, snaplen: SNAPLEN_DEFAULT, netmask: None, mode: Mode::Compat };
/// let filter = compile("arp", &options, &NoNames)?;
/// let mut frame = [0; 60];
/// assert_eq!(filter.evaluate(&frame, 60), 0);
/// frame[12..14].copy_from_slice(&[0x08, 0x06]);
/// assert_eq!(filter.evaluate(&frame, 60), 262_144);
///
/// // ARP after the tag of VLAN 3, or of any other but 7.
/// let scoped = Options { mode: Mode::Scoped, ..options };
/// let filter = compile("(vlan 3 or vlan and not vlan 7) and arp", &scoped, &NoNames)?;
/// frame[12..18].copy_from_slice(&[0x81, 0x00, 0, 3, 0x08, 0x06]);
/// assert_eq!(filter.evaluate(&frame, 60), 262_144);
/// # Ok::<(), Vec<weir_source::Diagnostic>>(())
/// ```
///
/// # Errors
/// Faults of the expression; compatible expressions that libpcap refuses, and scoped ones that no packet of the link type matches.
pub fn compile(text: &str, options: &Options, names: &dyn Names) -> Result<Filter, Vec<Diagnostic>> {
    let whole = Span::new(0, text.len());
    let located = |mut fault: Diagnostic| {
        // Faults of the whole have no place of their own.
        if fault.span == Span::new(0, 0) {
            fault.span = whole;
        }
        vec![fault]
    };
    let expr = parse(text, options.mode).map_err(located)?;
    let mut lowered = lower::lower(expr.as_ref(), options, names, true).map_err(located)?;
    let stands_alone = |pred| sets::stand_alone(&lowered.values, pred);
    if lowered.has_sets
        && options.mode == Mode::Compat
        && (lowered.is_verbatim || !lowered.pred.as_ref().is_some_and(stands_alone))
    {
        lowered = lower::lower(expr.as_ref(), options, names, false).map_err(located)?;
    }
    let is_verbatim = lowered.is_verbatim;
    let meaning = lowered.is_scoped.then(|| lowered.meaning()).flatten();
    let mut graph = Graph::of(lowered);
    match options.mode {
        Mode::Compat if is_verbatim => {}
        Mode::Compat => optimize::optimize(&mut graph).map_err(located)?,
        Mode::Scoped => threading::thread(&mut graph),
    }
    graph.tidy();
    Ok(Filter { graph, snaplen: options.snaplen, meaning })
}
