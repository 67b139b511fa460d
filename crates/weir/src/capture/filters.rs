//! A filter's text → programs for the kernel and for this process.
//!
//! The kernel gets classic BPF, if it takes it. It takes VLAN tags out of packets, so that a filter would not see them there, and would see another type: it keeps packets that
//! had one, and the filter is asked about these here, on the bytes that are written. Compatible filters without `vlan` decide in the kernel, without tags, as tcpdump's do. In this process a filter is native code; one that asks for the direction or the number of the interface, which no
//! byte of a packet says, gets them beside the bytes; a compatible one runs in the interpreter of classic BPF for that.

use std::cell::RefCell;
use std::fmt;

use weir_capture::{Classify, Filters, Kernel, Record, SNAPLEN_DEFAULT};
use weir_cbpf::insn::{jmp, size};
use weir_cbpf::{Insn, Machine, Metadata, Program, ancillary};
use weir_pcap_filter::ast::{Expr, Term};
use weir_pcap_filter::{Facts, Filter, LinkType, Mode, Options};
use weir_pcap_names::SystemNames;

use crate::args::capture::Capture as Args;
use crate::args::filter::Engine;
use crate::failure::Failure;
use crate::pcap;
use crate::pcap::engine::Ready;
use crate::pcap::eval::OUTGOING;
use crate::pcap::{PROGRAM, refused};

/// An expression of pcap-filter(7).
pub(super) struct Expression<'a> {
    text: &'a str,
    /// None: it is empty.
    tree: Option<Expr>,
    snaplen: u32,
    netmask: Option<u32>,
    mode: Mode,
    is_of_files: bool,
    names: &'a SystemNames,
    /// Why the last one was not to be had.
    failure: RefCell<Option<Failure>>,
}

type Refused = Box<dyn std::error::Error + Send + Sync>;

impl<'a> Expression<'a> {
    /// Syntax errors are reported here; those of a link type by [`Expression::compiled`].
    pub(super) fn new(text: &'a str, args: &Args, names: &'a SystemNames) -> Result<Expression<'a>, Failure> {
        let tree = weir_pcap_filter::parse(text, args.mode).map_err(|fault| Failure::Script(vec![fault]))?;
        let (snaplen, netmask) = (args.snaplen(), args.netmask());
        let (mode, is_of_files) = (args.mode, !args.files.is_empty());
        let failure = RefCell::new(None);
        Ok(Expression { text, tree, snaplen, netmask, mode, is_of_files, names, failure })
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The failure that an error of [`Filters`] stands for, once.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }

    /// What is wrong with it on a link type, if anything is.
    pub(super) fn compiled(&self, link_type: LinkType) -> Result<Filter, Failure> {
        let options = Options { link_type, snaplen: self.snaplen, netmask: self.netmask, mode: self.mode };
        weir_pcap_filter::compile(self.text, &options, self.names).map_err(Failure::Script)
    }

    fn mentions(&self, is_it: fn(&Term) -> bool) -> bool {
        self.tree.as_ref().is_some_and(|tree| has(tree, is_it))
    }

    /// Asks for what no byte of a packet says.
    pub(super) fn asks_system(&self) -> bool {
        self.mentions(|term| matches!(term, Term::Direction { .. } | Term::Ifindex(_)))
    }

    /// As [`Filters::kernel`] for an engine of eBPF: instructions as they lie in memory.
    pub(super) fn ebpf(&self, link_type: u16) -> Result<Vec<[u8; 8]>, Refused> {
        let filter = self.keep(self.compiled(LinkType::of_file(link_type)))?;
        let program = self.keep(filter.program(PROGRAM).map_err(refused))?;
        Ok(program.insns.iter().map(|insn| insn.to_bytes()).collect())
    }

    fn keep<T>(&self, result: Result<T, Failure>) -> Result<T, Refused> {
        result.map_err(|failure| {
            *self.failure.borrow_mut() = Some(failure);
            "the filter cannot be compiled for this link type".into()
        })
    }

    fn native(&self, link_type: u16) -> Result<Ready, Failure> {
        let filter = self.compiled(LinkType::of_file(link_type))?;
        if self.is_of_files {
            pcap::known_of_files(&filter)?;
        }
        Ready::of(filter.program(PROGRAM).map_err(refused)?, filter.asks_context(), Engine::Jit)
    }

    fn interpreted(&self, link_type: u16) -> Result<Program, Failure> {
        let insns = self.compiled(LinkType::of_file(link_type))?.classic().map_err(refused)?;
        weir_cbpf::check(&insns, Machine::Userland).map_err(refused)
    }
}

impl Filters for &Expression<'_> {
    fn kernel(&self, link_type: u16) -> Result<Kernel, Refused> {
        (**self).kernel(link_type)
    }

    fn user(&self, link_type: u16) -> Result<Box<dyn Classify>, Refused> {
        (**self).user(link_type)
    }
}

impl Filters for Expression<'_> {
    fn kernel(&self, link_type: u16) -> Result<Kernel, Refused> {
        let mut filter = self.keep(self.compiled(LinkType::of_file(link_type)))?;
        let is_sieve = self.mode == Mode::Scoped || self.mentions(|term| matches!(term, Term::Vlan(_)));
        let mut insns = Vec::new();
        if is_sieve {
            filter.snaplen = SNAPLEN_DEFAULT;
            insns.extend(KEEPS_TAGGED);
        }
        // What is too long for the kernel, or has a loop, is evaluated here.
        let Ok(program) = filter.classic() else { return Ok(Kernel::Not) };
        insns.extend(program);
        Ok(match weir_cbpf::check(&insns, Machine::Kernel) {
            Ok(program) if is_sieve => Kernel::Sieves(program),
            Ok(program) => Kernel::Decides(program),
            Err(_) => Kernel::Not,
        })
    }

    fn user(&self, link_type: u16) -> Result<Box<dyn Classify>, Refused> {
        // Compatible programs in eBPF reject where these are asked, as libpcap's interpreter does on files.
        Ok(match self.mode == Mode::Compat && self.asks_system() {
            true => Box::new(Interpreted(self.keep(self.interpreted(link_type))?)),
            false => Box::new(Native(self.keep(self.native(link_type))?)),
        })
    }
}

/// Keeps packets out of which the kernel has taken a tag (SKF_AD_VLAN_TAG_PRESENT), and goes on with others.
const KEEPS_TAGGED: [Insn; 3] =
    [Insn::load(size::W, ancillary::BASE + 48), Insn::jump(jmp::JEQ, 0, 1, 0), Insn::ret(SNAPLEN_DEFAULT)];

impl fmt::Debug for Expression<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression").field("text", &self.text).finish_non_exhaustive()
    }
}

fn has(expr: &Expr, is_it: fn(&Term) -> bool) -> bool {
    match expr {
        Expr::And(all) | Expr::Or(all) => all.iter().any(|expr| has(expr, is_it)),
        Expr::Not(expr) => has(expr, is_it),
        Expr::Term(term, _) => is_it(term),
    }
}

struct Native(Ready);

impl Classify for Native {
    #[inline]
    fn keep(&mut self, record: &Record<'_>) -> u32 {
        let facts = self.0.asks_context().then(|| facts(record));
        // SANITY: only the interpreter has faults.
        self.0.run(record.bytes, record.wire_len, facts).expect("native code has no faults")
    }
}

/// What is known of a packet beside its bytes.
fn facts(record: &Record<'_>) -> Facts {
    let mut facts = pcap::eval::facts(record.flags, record.queue);
    facts.ifindex = record.ifindex;
    if let Some(hash) = record.hash
        && let Ok(bytes) = <[u8; 4]>::try_from(hash.bytes)
    {
        facts.hash = u32::from_le_bytes(bytes);
    }
    facts
}

struct Interpreted(Program);

impl Classify for Interpreted {
    fn keep(&mut self, record: &Record<'_>) -> u32 {
        // Of a file nothing is known but its bytes, as with libpcap.
        let metadata = (record.ifindex != 0).then(|| Metadata {
            // The other types are all received.
            pkt_type: if record.is_outgoing() { OUTGOING } else { 0 },
            ifindex: record.ifindex,
            ..Metadata::default()
        });
        weir_cbpf::run(&self.0, record.bytes, record.wire_len, metadata.as_ref()).unwrap_or(0)
    }
}
