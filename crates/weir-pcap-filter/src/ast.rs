//! The syntax tree: what was written, with the qualifiers that a bare address inherits filled in.

use std::fmt;
use std::net::Ipv6Addr;

use weir_source::Span;

use crate::protocol::Protocol;

/// An expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expr {
    /// All of them, tested from left to right.
    And(Vec<Expr>),
    /// One of them, tested from left to right.
    Or(Vec<Expr>),
    /// The contrary.
    Not(Box<Expr>),
    /// A primitive.
    Term(Term, Span),
}

/// A primitive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Term {
    /// An address, port, network or protocol with its qualifiers.
    Id(Qualifiers, Id),
    /// A protocol's name alone.
    Protocol(Protocol),
    /// A comparison of two numbers.
    Relation(Relation, Arith, Arith),
    /// `broadcast` and `multicast`, of the link layer or of a protocol.
    Broadcast(Option<Protocol>),
    Multicast(Option<Protocol>),
    /// `less N` and `greater N`: lengths on the wire up to, and from N on.
    Less(u32),
    Greater(u32),
    /// `byte N op V`.
    Byte(u32, ByteOperator, u32),
    /// `inbound` is false, `outbound` true.
    Direction {
        outbound: bool,
    },
    Ifindex(u32),
    Vlan(Option<u32>),
    Mpls(Option<u32>),
    PppoeDiscovery,
    PppoeSession(Option<u32>),
    Geneve(Option<u32>),
    Vxlan(Option<u32>),
    Llc(Llc),
    /// Fields that OpenBSD's packet filter logs.
    Pf(Pf),
    /// `type`, `subtype` and `dir` of 802.11.
    Wlan(Wlan),
    Atm(AtmKind),
    AtmField(AtmField, Numbers),
    Mtp2(Mtp2Kind),
    Mtp3(Mtp3Field, Numbers),
}

/// What stands before an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Qualifiers {
    /// None: not given.
    pub protocol: Option<Protocol>,
    pub direction: Option<Direction>,
    pub kind: Kind,
}

/// Which of a packet's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    Src,
    Dst,
    Or,
    And,
    /// Address 1 to 4, receiver and transmitter of an 802.11 frame.
    Addr1,
    Addr2,
    Addr3,
    Addr4,
    Ra,
    Ta,
}

/// What an identifier stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Not given: a host.
    Default,
    Host,
    Net,
    Port,
    Portrange,
    Proto,
    Protochain,
    Gateway,
}

/// An identifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Id {
    Name(String),
    Number(u32),
    /// Two to four numbers with dots.
    Dotted(Vec<u32>),
    /// With `/` and the bits of the network.
    DottedLength(Vec<u32>, u32),
    DottedMask(Vec<u32>, Vec<u32>),
    Ipv6(Ipv6Addr),
    Ipv6Length(Ipv6Addr, u32),
    Ether([u8; 6]),
    OneByte(OneByte),
}

/// An address of one byte, `$2b`, as ARCnet and MS/TP have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneByte {
    pub address: u8,
    /// What libpcap 1.10 reads of it.
    pub of_1_10: u8,
}

/// A number that a packet has, or a constant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arith {
    Number(u32),
    /// `len`: the length on the wire.
    Len,
    /// `queue` and `hash`.
    Fact(Fact),
    /// `protocol[offset:bytes]`.
    Load {
        protocol: Protocol,
        offset: Box<Arith>,
        bytes: u32,
        span: Span,
    },
    Negate(Box<Arith>),
    /// The span is the operator's.
    Binary(Operator, Box<Arith>, Box<Arith>, Span),
}

/// A number that is known of a packet beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fact {
    Queue,
    Hash,
}

/// Arithmetic of 32 bits without sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Lsh,
    Rsh,
}

/// How two numbers are compared, without sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relation {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOperator {
    And,
    Or,
    Less,
    Greater,
    Equal,
}

/// What is asked of an 802.2 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Llc {
    Any,
    Information,
    Supervisory,
    Unnumbered,
    /// The supervisory or unnumbered function, as it is in the control field.
    SupervisoryIs(u8),
    UnnumberedIs(u8),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pf {
    Ifname(String),
    Ruleset(String),
    Rulenum(u32),
    Subrulenum(u32),
    Reason(u32),
    Action(u32),
}

/// As the frame control field has them: `type` and `subtype` with the bits in their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wlan {
    Type(u32),
    TypeSubtype(u32),
    Direction(u32),
}

/// ATM cells by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtmKind {
    Lane,
    Metac,
    Bcc,
    Oamf4sc,
    Oamf4ec,
    Sc,
    Ilmic,
    Oam,
    Oamf4,
    Connectmsg,
    Metaconnect,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtmField {
    Vpi,
    Vci,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mtp2Kind {
    Fisu,
    Lssu,
    Msu,
    Hfisu,
    Hlssu,
    Hmsu,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mtp3Field {
    Sio,
    Opc,
    Dpc,
    Sls,
    Hsio,
    Hopc,
    Hdpc,
    Hsls,
}

/// Numbers that a field is compared with; one of them must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Numbers {
    One(Relation, u32, Span),
    Any(Vec<Numbers>),
}

#[rustfmt::skip]
pub(crate) const ATM_KINDS: &[(&str, AtmKind)] = &[
    ("lane", AtmKind::Lane), ("metac", AtmKind::Metac), ("bcc", AtmKind::Bcc), ("oamf4", AtmKind::Oamf4),
    ("oamf4ec", AtmKind::Oamf4ec), ("oamf4sc", AtmKind::Oamf4sc), ("oam", AtmKind::Oam), ("sc", AtmKind::Sc),
    ("ilmic", AtmKind::Ilmic), ("connectmsg", AtmKind::Connectmsg), ("metaconnect", AtmKind::Metaconnect),
];
pub(crate) const ATM_FIELDS: &[(&str, AtmField)] = &[("vpi", AtmField::Vpi), ("vci", AtmField::Vci)];
#[rustfmt::skip]
pub(crate) const MTP2_KINDS: &[(&str, Mtp2Kind)] = &[
    ("fisu", Mtp2Kind::Fisu), ("lssu", Mtp2Kind::Lssu), ("lsu", Mtp2Kind::Lssu), ("msu", Mtp2Kind::Msu),
    ("hfisu", Mtp2Kind::Hfisu), ("hlssu", Mtp2Kind::Hlssu), ("hmsu", Mtp2Kind::Hmsu),
];
#[rustfmt::skip]
pub(crate) const MTP3_FIELDS: &[(&str, Mtp3Field)] = &[
    ("sio", Mtp3Field::Sio), ("opc", Mtp3Field::Opc), ("dpc", Mtp3Field::Dpc), ("sls", Mtp3Field::Sls),
    ("hsio", Mtp3Field::Hsio), ("hopc", Mtp3Field::Hopc), ("hdpc", Mtp3Field::Hdpc), ("hsls", Mtp3Field::Hsls),
];

impl Expr {
    /// Where it was written.
    pub fn span(&self) -> Span {
        match self {
            // SANITY: the parser makes lists of two at least.
            Expr::And(parts) | Expr::Or(parts) => {
                parts.first().expect("not empty").span().to(parts.last().expect("not empty").span())
            }
            Expr::Not(inner) => inner.span(),
            Expr::Term(_, span) => *span,
        }
    }
}

/// As a tree of lines, for `--emit ast`.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self, 0, f)
    }
}

fn print(expr: &Expr, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let indent = "  ".repeat(depth);
    match expr {
        Expr::And(parts) | Expr::Or(parts) => {
            writeln!(f, "{indent}{}", if matches!(expr, Expr::And(_)) { "and" } else { "or" })?;
            parts.iter().try_for_each(|part| print(part, depth + 1, f))
        }
        Expr::Not(inner) => {
            writeln!(f, "{indent}not")?;
            print(inner, depth + 1, f)
        }
        Expr::Term(term, _) => writeln!(f, "{indent}{term:?}"),
    }
}
