//! [`Expr`] → [`Pred`]: with the meaning that libpcap gives it, or scoped ([`scope`]).
//!
//! libpcap compiles in one pass. `vlan`, `mpls`, `pppoes`, `geneve` and `lane` move the offsets of all that stands after them in the
//! text, whether it is joined by `and` or by `or`; so does [`Offsets`] here, which each term reads and may change, in the
//! order of the text.

mod address;
mod arith;
mod encapsulation;
mod linktype;
mod offsets;
mod port;
mod proto;
mod scope;
mod sets;
mod special;
mod tunnel;
mod upper;
mod wlan;

use weir_source::{Diagnostic, Span};

use crate::ast::{Expr, Id, Kind, Qualifiers, Term};
use crate::ir::{Comparison, Pred, Test, Value, ValueId, Values, Width};
use crate::lower::offsets::{Base, Offsets};
use crate::lower::upper::Way;
use crate::names::Names;
use crate::protocol::Protocol;
use crate::{Mode, Options};

/// What an expression means.
pub(crate) struct Lowered {
    pub(crate) values: Values,
    /// None: it accepts every packet.
    pub(crate) pred: Option<Pred>,
    /// Lengths of headers, which are kept; computed before anything is tested, in the node that the expression begins with.
    pub(crate) lengths: Vec<ValueId>,
    /// Tested before all else.
    pub(crate) guard: Option<Pred>,
    /// libpcap does not optimise this one.
    pub(crate) is_verbatim: bool,
    /// Values are compared with sets.
    pub(crate) has_sets: bool,
    pub(crate) is_scoped: bool,
}

impl Lowered {
    /// All that is tested.
    pub(crate) fn meaning(&self) -> Option<Pred> {
        let pred = self.pred.clone()?;
        Some(match self.guard.clone() {
            Some(guard) => guard.and(pred),
            None => pred,
        })
    }
}

/// Gives `expr` its meaning on packets of `options.link_type`. `sets_allowed`: many alternatives may become a set.
pub(crate) fn lower(
    expr: Option<&Expr>,
    options: &Options,
    names: &dyn Names,
    sets_allowed: bool,
) -> Result<Lowered, Diagnostic> {
    let mut values = Values::default();
    let offsets = Offsets::of(options.link_type, &mut values).ok_or_else(|| {
        let message = format!("there is no filtering for link type {}", options.link_type.name());
        Diagnostic::error(Span::new(0, 0), message)
            .with_hint("link types are named with -y, such as EN10MB or LINUX_SLL2")
    })?;
    let mut lower = Lower {
        values,
        offsets,
        options,
        names,
        span: Span::new(0, 0),
        is_verbatim: false,
        sets_allowed,
        has_sets: false,
        way: Way::default(),
        scope: scope::Scope::default(),
    };
    let is_scoped = options.mode == Mode::Scoped;
    let pred = match (expr, options.mode) {
        (None, _) => None,
        (Some(expr), Mode::Compat) => Some(lower.expr(expr)?),
        (Some(expr), Mode::Scoped) => Some(lower.scoped(expr)?),
    };
    // Scoped filters compute them where they are needed.
    let lengths = if is_scoped { Vec::new() } else { lower.offsets.lengths() };
    let is_verbatim = lower.is_verbatim || lower.offsets.is_verbatim();
    let guard = pred.is_some().then(|| lower.guard()).flatten();
    Ok(Lowered {
        values: lower.values,
        pred,
        lengths,
        guard,
        is_verbatim,
        has_sets: lower.has_sets,
        is_scoped,
    })
}

struct Lower<'a> {
    values: Values,
    offsets: Offsets,
    options: &'a Options,
    names: &'a dyn Names,
    /// Of the term at hand, for messages.
    span: Span,
    is_verbatim: bool,
    sets_allowed: bool,
    has_sets: bool,
    /// To the transport header that a scoped comparison is about.
    way: Way,
    scope: scope::Scope,
}

type Lowering = Result<Pred, Diagnostic>;

impl Lower<'_> {
    fn expr(&mut self, expr: &Expr) -> Lowering {
        Ok(match expr {
            Expr::And(parts) => Pred::And(self.parts(parts, true)?),
            Expr::Or(parts) => Pred::Or(self.parts(parts, false)?),
            Expr::Not(inner) => self.expr(inner)?.not(),
            Expr::Term(term, span) => {
                self.span = *span;
                self.term(term)?
            }
        })
    }

    fn term(&mut self, term: &Term) -> Lowering {
        match term {
            Term::Id(qualifiers, id) => self.id(*qualifiers, id),
            Term::Protocol(protocol) => self.protocol(*protocol),
            Term::Relation(relation, left, right) => self.relation(*relation, left, right),
            Term::Broadcast(protocol) => self.broadcast(*protocol),
            Term::Multicast(protocol) => self.multicast(*protocol),
            Term::Less(length) => Ok(self.length(Comparison::Gt, *length).not()),
            Term::Greater(length) => Ok(self.length(Comparison::Ge, *length)),
            Term::Byte(index, operator, value) => Ok(self.byte(*index, *operator, *value)),
            Term::Direction { outbound } => self.direction(*outbound),
            Term::Ifindex(index) => self.ifindex(*index),
            Term::Vlan(id) => self.vlan(*id),
            Term::Mpls(label) => self.mpls(*label),
            Term::PppoeDiscovery => self.link_type(u32::from(crate::protocol::ethertype::PPPOE_DISCOVERY)),
            Term::PppoeSession(session) => self.pppoe_session(*session),
            Term::Geneve(vni) if self.is_scoped() => self.scoped_geneve(*vni),
            Term::Geneve(vni) => self.geneve(*vni),
            Term::Vxlan(vni) if self.is_scoped() => self.scoped_vxlan(*vni),
            Term::Vxlan(vni) => self.vxlan(*vni),
            Term::Llc(llc) => self.llc(*llc),
            Term::Pf(pf) => self.pf(pf),
            Term::Wlan(wlan) => self.wlan_field(*wlan),
            Term::Atm(kind) => self.atm(*kind),
            Term::AtmField(field, numbers) => self.atm_field(*field, numbers),
            Term::Mtp2(kind) => self.mtp2(*kind),
            Term::Mtp3(field, numbers) => self.mtp3(*field, numbers),
        }
    }

    fn id(&mut self, qualifiers: Qualifiers, id: &Id) -> Lowering {
        match (qualifiers.kind, id) {
            (Kind::Gateway, _) => {
                Err(self.error("`gateway` is not supported, as in libpcap built with IPv6"))
            }
            (_, Id::Name(name)) => self.name(qualifiers, name),
            (_, Id::Number(number)) => self.number(qualifiers, *number),
            (_, Id::Dotted(parts)) => self.dotted(qualifiers, parts),
            (_, Id::DottedLength(parts, bits)) => self.dotted_length(qualifiers, parts, *bits),
            (_, Id::DottedMask(parts, mask)) => self.dotted_mask(qualifiers, parts, mask),
            (_, Id::Ipv6(address)) => self.ipv6(qualifiers, *address, 128),
            (_, Id::Ipv6Length(address, bits)) => self.ipv6(qualifiers, *address, *bits),
            (_, Id::Ether(address)) => self.ether(qualifiers, *address),
            (_, Id::OneByte(address)) => self.one_byte(qualifiers, *address),
        }
    }

    fn is_scoped(&self) -> bool {
        self.options.mode == Mode::Scoped
    }

    fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.span, message)
    }

    /// `base[offset] comparison number`.
    fn compare(
        &mut self,
        base: Base,
        offset: u32,
        width: Width,
        comparison: Comparison,
        number: u32,
    ) -> Pred {
        let left = self.load(base, offset, width);
        self.test(comparison, left, number)
    }

    fn equal(&mut self, base: Base, offset: u32, width: Width, number: u32) -> Pred {
        self.compare(base, offset, width, Comparison::Eq, number)
    }

    /// `base[offset] & mask comparison number`.
    fn masked(&mut self, at: (Base, u32, Width), mask: u32, comparison: Comparison, number: u32) -> Pred {
        let mut left = self.load(at.0, at.1, at.2);
        if mask != u32::MAX {
            left = self.values.binary(crate::ast::Operator::And, left, mask);
        }
        self.test(comparison, left, number)
    }

    fn masked_equal(&mut self, base: Base, offset: u32, width: Width, mask: u32, number: u32) -> Pred {
        self.masked((base, offset, width), mask, Comparison::Eq, number)
    }

    /// `base[offset]` has one of the bits.
    fn has(&mut self, base: Base, offset: u32, width: Width, bits: u32) -> Pred {
        self.compare(base, offset, width, Comparison::Set, bits)
    }

    fn test(&mut self, comparison: Comparison, left: ValueId, number: u32) -> Pred {
        let right = self.values.number(number);
        Pred::Test(Test { comparison, left, right, by_register: false })
    }

    /// `base[offset]` equals `right`, which may be a set.
    fn equal_value(&mut self, base: Base, offset: u32, width: Width, right: ValueId) -> Pred {
        let left = self.load(base, offset, width);
        Pred::Test(Test { comparison: Comparison::Eq, left, right, by_register: false })
    }

    /// Holds never; its contrary, always.
    fn never(&mut self) -> Pred {
        let one = self.values.number(1);
        self.test(Comparison::Eq, one, 0)
    }

    fn always(&mut self) -> Pred {
        let zero = self.values.number(0);
        self.test(Comparison::Eq, zero, 0)
    }

    fn length(&mut self, comparison: Comparison, number: u32) -> Pred {
        let length = self.values.add(Value::Len);
        self.test(comparison, length, number)
    }

    /// Bytes at an offset, from the last four on: the order in which libpcap tests them.
    fn bytes(&mut self, base: Base, offset: u32, bytes: &[u8]) -> Pred {
        let mut parts = Vec::new();
        let mut end = bytes.len();
        while end > 0 {
            let (width, count) = match end {
                4.. => (Width::Word, 4),
                2.. => (Width::Half, 2),
                _ => (Width::Byte, 1),
            };
            let number =
                bytes[end - count..end].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            parts.push(self.equal(base, offset.wrapping_add((end - count) as u32), width, number));
            end -= count;
        }
        Pred::And(parts)
    }
}

/// How messages name the protocol of an address.
fn modifier(protocol: Protocol) -> String {
    match protocol {
        Protocol::Link => "link-layer".to_owned(),
        other => format!("`{}`", other.name()),
    }
}
