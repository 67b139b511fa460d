//! Primitives: what a keyword begins.

use weir_source::{Diagnostic, Span};

use super::{Item, Parser};
use crate::ast::{
    Arith, ByteOperator, Direction, Expr, Fact, Kind, Llc, Numbers, Pf, Qualifiers, Relation, Term, Wlan,
};
use crate::protocol::Protocol;
use crate::token::{Token, Word};

/// Names and the bits of the frame control field that they stand for.
type Bits = [(&'static str, u32)];

/// Types of 802.11 frames, as the frame control field has them, with their subtypes. Source: IEEE 802.11; the names
/// are pcap-filter(7)'s.
#[rustfmt::skip]
const FRAME_TYPES: [(&str, u32, &Bits); 3] = [
    ("mgt", 0x00, &[
        ("assocreq", 0x00), ("assoc-req", 0x00), ("assocresp", 0x10), ("assoc-resp", 0x10),
        ("reassocreq", 0x20), ("reassoc-req", 0x20), ("reassocresp", 0x30), ("reassoc-resp", 0x30),
        ("probereq", 0x40), ("probe-req", 0x40), ("proberesp", 0x50), ("probe-resp", 0x50), ("beacon", 0x80),
        ("atim", 0x90), ("disassoc", 0xa0), ("disassociation", 0xa0), ("auth", 0xb0), ("authentication", 0xb0),
        ("deauth", 0xc0), ("deauthentication", 0xc0),
    ]),
    ("ctl", 0x04, &[
        // The first two are of libpcap 1.11.
        ("bar", 0x80), ("ba", 0x90), ("ps-poll", 0xa0), ("rts", 0xb0), ("cts", 0xc0), ("ack", 0xd0),
        ("cf-end", 0xe0), ("cf-end-ack", 0xf0),
    ]),
    ("data", 0x08, &[
        ("data", 0x00), ("data-cf-ack", 0x10), ("data-cf-poll", 0x20), ("data-cf-ack-poll", 0x30),
        ("null", 0x40), ("cf-ack", 0x50), ("cf-poll", 0x60), ("cf-ack-poll", 0x70), ("qos-data", 0x80),
        ("qos-data-cf-ack", 0x90), ("qos-data-cf-poll", 0xa0), ("qos-data-cf-ack-poll", 0xb0), ("qos", 0xc0),
        ("qos-cf-poll", 0xe0), ("qos-cf-ack-poll", 0xf0),
    ]),
];

/// Names of the types that have another.
const FRAME_TYPE_ALIASES: [(&str, &str); 2] = [("management", "mgt"), ("control", "ctl")];

const FRAME_DIRECTIONS: [(&str, u32); 4] = [("nods", 0), ("tods", 1), ("fromds", 2), ("dstods", 3)];

/// Functions of supervisory and unnumbered LLC frames, by the bits of the control field. Source: IEEE 802.2.
const SUPERVISORY: [(&str, u8); 3] = [("rr", 0x01), ("rnr", 0x05), ("rej", 0x09)];
#[rustfmt::skip]
const UNNUMBERED: [(&str, u8); 8] = [
    ("ui", 0x03), ("ua", 0x63), ("disc", 0x43), ("sabme", 0x6f), ("test", 0xe3), ("xid", 0xaf), ("frmr", 0x87),
    ("dm", 0x0f),
];

/// Why pf logged a packet, and what it did. Source: OpenBSD's and FreeBSD's pfvar.h; which exist was tried on libpcap 1.10.3.
#[rustfmt::skip]
const PF_REASONS: [(&str, u32); 15] = [
    ("match", 0), ("bad-offset", 1), ("fragment", 2), ("short", 3), ("normalize", 4), ("memory", 5),
    ("bad-timestamp", 6), ("congestion", 7), ("ip-option", 8), ("proto-cksum", 9), ("state-mismatch", 10),
    ("state-insert", 11), ("state-limit", 12), ("src-limit", 13), ("synproxy", 14),
];
#[rustfmt::skip]
const PF_ACTIONS: [(&str, u32); 13] = [
    ("pass", 0), ("accept", 0), ("drop", 1), ("block", 1), ("scrub", 2), ("noscrub", 3), ("nat", 4), ("nonat", 5),
    ("binat", 6), ("nobinat", 7), ("rdr", 8), ("nordr", 9), ("synproxy-drop", 10),
];

impl Parser {
    /// A primitive, or an operand, that begins with a keyword.
    pub(super) fn primitive(&mut self, start: Span) -> Result<Item, Diagnostic> {
        match self.peek().clone() {
            Token::Protocol(protocol) => {
                self.at += 1;
                if *self.peek() == Token::Sign("[") {
                    let load = self.load(protocol, start)?;
                    return self.relation_after(load, start, start);
                }
                self.qualified(Some(protocol), start)
            }
            Token::Word(Word::Queue) if matches!(self.tokens[self.at + 1].0, Token::Number(_)) => {
                self.at += 1;
                let (queue, number) = (Arith::Fact(Fact::Queue), Arith::Number(self.number()?));
                self.done(0, Term::Relation(Relation::Eq, queue, number), start)
            }
            Token::Sign("-") | Token::Word(Word::Len | Word::Queue | Word::Hash) => {
                let operand = self.operand()?;
                self.relation_after(operand, start, start)
            }
            Token::Word(word) => self.word(word, start),
            Token::Atm(kind) => self.done(1, Term::Atm(kind), start),
            Token::Mtp2(kind) => self.done(1, Term::Mtp2(kind), start),
            Token::AtmField(field) => {
                self.at += 1;
                let numbers = self.numbers()?;
                self.done(0, Term::AtmField(field, numbers), start)
            }
            Token::Mtp3(field) => {
                self.at += 1;
                let numbers = self.numbers()?;
                self.done(0, Term::Mtp3(field, numbers), start)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn done(&mut self, words: usize, term: Term, start: Span) -> Result<Item, Diagnostic> {
        self.at += words;
        Ok(Item::Expr(Expr::Term(term, start.to(self.before())), None))
    }

    fn word(&mut self, word: Word, start: Span) -> Result<Item, Diagnostic> {
        let term = match word {
            Word::Less | Word::Greater | Word::Ifindex => {
                self.at += 1;
                let number = self.number()?;
                match word {
                    Word::Less => Term::Less(number),
                    Word::Greater => Term::Greater(number),
                    _ => Term::Ifindex(number),
                }
            }
            Word::Byte => self.byte()?,
            Word::Inbound => {
                self.at += 1;
                Term::Direction { outbound: false }
            }
            Word::Outbound => {
                self.at += 1;
                Term::Direction { outbound: true }
            }
            Word::Vlan => Term::Vlan(self.optional_number()?),
            Word::Mpls => Term::Mpls(self.optional_number()?),
            Word::Pppoes => Term::PppoeSession(self.optional_number()?),
            Word::Geneve => Term::Geneve(self.optional_number()?),
            Word::Vxlan => Term::Vxlan(self.optional_number()?),
            Word::Pppoed => {
                self.at += 1;
                Term::PppoeDiscovery
            }
            Word::Llc => self.llc()?,
            Word::Ifname | Word::Ruleset | Word::Rulenum | Word::Subrulenum | Word::Reason | Word::Action => {
                self.pf(word)?
            }
            _ => return self.qualified(None, start),
        };
        self.done(0, term, start)
    }

    /// What may follow a protocol's name, or nothing.
    fn qualified(&mut self, protocol: Option<Protocol>, start: Span) -> Result<Item, Diagnostic> {
        match self.peek() {
            Token::Word(Word::Broadcast) => return self.done(1, Term::Broadcast(protocol), start),
            Token::Word(Word::Multicast) => return self.done(1, Term::Multicast(protocol), start),
            Token::Word(Word::Type | Word::Subtype | Word::Direction) => {
                let wlan = self.wlan()?;
                return self.done(0, Term::Wlan(wlan), start);
            }
            _ => {}
        }
        let direction = self.direction()?;
        let kind = self.kind(direction.is_some());
        if direction.is_none() && kind == Kind::Default {
            return match protocol {
                Some(protocol) => self.done(0, Term::Protocol(protocol), start),
                None => Err(self.unexpected()),
            };
        }
        let qualifiers = Qualifiers { protocol, direction, kind };
        let expr = self.addresses(qualifiers)?;
        Ok(Item::Expr(expr, Some(qualifiers)))
    }

    fn direction(&mut self) -> Result<Option<Direction>, Diagnostic> {
        let Token::Word(word) = *self.peek() else { return Ok(None) };
        let other = match word {
            Word::Src => Word::Dst,
            Word::Dst => Word::Src,
            _ => {
                let address = match word {
                    Word::Addr1 => Direction::Addr1,
                    Word::Addr2 => Direction::Addr2,
                    Word::Addr3 => Direction::Addr3,
                    Word::Addr4 => Direction::Addr4,
                    Word::Ra => Direction::Ra,
                    Word::Ta => Direction::Ta,
                    _ => return Ok(None),
                };
                self.at += 1;
                return Ok(Some(address));
            }
        };
        self.at += 1;
        let both = match self.peek() {
            Token::Or => Direction::Or,
            Token::And => Direction::And,
            _ if word == Word::Src => return Ok(Some(Direction::Src)),
            _ => return Ok(Some(Direction::Dst)),
        };
        self.at += 1;
        if !self.accept(&Token::Word(other)) {
            return Err(self.unexpected());
        }
        Ok(Some(both))
    }

    /// `proto`, `protochain` and `gateway` take no direction.
    fn kind(&mut self, has_direction: bool) -> Kind {
        let kind = match self.peek() {
            Token::Word(Word::Host) => Kind::Host,
            Token::Word(Word::Net) => Kind::Net,
            Token::Word(Word::Port) => Kind::Port,
            Token::Word(Word::Portrange) => Kind::Portrange,
            Token::Word(Word::Proto) if !has_direction => Kind::Proto,
            Token::Word(Word::Protochain) if !has_direction => Kind::Protochain,
            Token::Word(Word::Gateway) if !has_direction => Kind::Gateway,
            _ => return Kind::Default,
        };
        self.at += 1;
        kind
    }

    /// A number in any brackets, after a keyword that takes one or none. What is no plain number there belongs to what follows.
    fn optional_number(&mut self) -> Result<Option<u32>, Diagnostic> {
        self.at += 1;
        let depth = self.tokens[self.at..].iter().take_while(|(token, _)| *token == Token::Sign("(")).count();
        let Some((Token::Number(number), _)) = self.tokens.get(self.at + depth) else {
            return if depth > 0 { Err(self.unexpected()) } else { Ok(None) };
        };
        let number = *number;
        self.at += depth + 1;
        for _ in 0..depth {
            self.expect(")")?;
        }
        Ok(Some(number))
    }

    fn byte(&mut self) -> Result<Term, Diagnostic> {
        self.at += 1;
        let index = self.number()?;
        let operator = match self.peek() {
            Token::Sign("&") => ByteOperator::And,
            Token::Sign("|") => ByteOperator::Or,
            Token::Sign("<") => ByteOperator::Less,
            Token::Sign(">") => ByteOperator::Greater,
            Token::Sign("=") => ByteOperator::Equal,
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(Term::Byte(index, operator, self.number()?))
    }

    fn llc(&mut self) -> Result<Term, Diagnostic> {
        self.at += 1;
        let span = self.span();
        let name = match self.peek() {
            Token::Name(name) => name.clone(),
            Token::Word(Word::Rulenum) => "rnr".to_owned(),
            _ => return Ok(Term::Llc(Llc::Any)),
        };
        let found =
            |table: &[(&str, u8)]| table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let llc = match name.as_str() {
            "i" => Llc::Information,
            "s" => Llc::Supervisory,
            "u" => Llc::Unnumbered,
            _ => match (found(&SUPERVISORY), found(&UNNUMBERED)) {
                (Some(value), _) => Llc::SupervisoryIs(value),
                (_, Some(value)) => Llc::UnnumberedIs(value),
                _ => return Err(unknown(span, "LLC type", &name, "i, s, u, rr, rnr, rej, ui, ua, disc, …")),
            },
        };
        self.at += 1;
        Ok(Term::Llc(llc))
    }

    fn pf(&mut self, word: Word) -> Result<Term, Diagnostic> {
        self.at += 1;
        let span = self.span();
        let token = self.peek().clone();
        self.at += 1;
        let named = |table: &[(&str, u32)], what: &str, name: &str| {
            let row = table.iter().find(|(known, _)| *known == name);
            row.map(|(_, value)| *value).ok_or_else(|| unknown(span, what, name, &names_of(table)))
        };
        Ok(Term::Pf(match (word, token) {
            (Word::Ifname, Token::Name(name)) => Pf::Ifname(name),
            (Word::Ruleset, Token::Name(name)) => Pf::Ruleset(name),
            (Word::Rulenum, Token::Number(number)) => Pf::Rulenum(number),
            (Word::Subrulenum, Token::Number(number)) => Pf::Subrulenum(number),
            (Word::Reason, Token::Number(number)) => Pf::Reason(number),
            (Word::Reason, Token::Name(name)) => Pf::Reason(named(&PF_REASONS, "PF reason", &name)?),
            (Word::Action, Token::Name(name)) => Pf::Action(named(&PF_ACTIONS, "PF action", &name)?),
            _ => {
                self.at -= 1;
                return Err(self.unexpected());
            }
        }))
    }

    fn wlan(&mut self) -> Result<Wlan, Diagnostic> {
        let word = self.peek().clone();
        self.at += 1;
        match word {
            Token::Word(Word::Type) => {
                let (frame_type, subtypes) = self.frame_type()?;
                if !self.accept(&Token::Word(Word::Subtype)) {
                    return Ok(Wlan::Type(frame_type));
                }
                Ok(Wlan::TypeSubtype(frame_type | self.frame_subtype(subtypes)?))
            }
            Token::Word(Word::Subtype) => {
                let span = self.span();
                let Token::Name(name) = self.peek().clone() else { return Err(self.unexpected()) };
                let of_type = |(_, bits, subtypes): &(&str, u32, &Bits)| {
                    subtypes.iter().find(|(known, _)| *known == name).map(|(_, subtype)| bits | subtype)
                };
                let found = FRAME_TYPES.iter().find_map(of_type);
                self.at += 1;
                found
                    .map(Wlan::TypeSubtype)
                    .ok_or_else(|| unknown(span, "802.11 subtype", &name, "see pcap-filter(7)"))
            }
            _ => {
                let span = self.span();
                match self.peek().clone() {
                    Token::Number(number) => {
                        self.at += 1;
                        Ok(Wlan::Direction(number))
                    }
                    Token::Name(name) => {
                        self.at += 1;
                        let found = FRAME_DIRECTIONS.iter().find(|(known, _)| *known == name);
                        found.map(|(_, bits)| Wlan::Direction(*bits)).ok_or_else(|| {
                            unknown(span, "802.11 direction", &name, &names_of(&FRAME_DIRECTIONS))
                        })
                    }
                    _ => Err(self.unexpected()),
                }
            }
        }
    }

    fn frame_type(&mut self) -> Result<(u32, &'static Bits), Diagnostic> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.at += 1;
                if number & !0x0c != 0 {
                    let message = format!("invalid 802.11 type value {number:#04x}");
                    return Err(Diagnostic::error(span, message)
                        .with_hint("types are 0, 4 and 8, and 12 is reserved"));
                }
                let row = FRAME_TYPES.iter().find(|(_, bits, _)| *bits == number);
                Ok((number, row.map_or(&[], |(_, _, subtypes)| *subtypes)))
            }
            Token::Name(name) => {
                self.at += 1;
                let alias = FRAME_TYPE_ALIASES.iter().find(|(alias, _)| *alias == name);
                let name = alias.map_or(name.as_str(), |(_, name)| *name);
                let row = FRAME_TYPES.iter().find(|(known, _, _)| *known == name);
                row.map(|(_, bits, subtypes)| (*bits, *subtypes))
                    .ok_or_else(|| unknown(span, "802.11 type", name, "mgt, ctl, data"))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn frame_subtype(&mut self, subtypes: &[(&str, u32)]) -> Result<u32, Diagnostic> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.at += 1;
                if number & !0xf0 != 0 {
                    let message = format!("invalid 802.11 subtype value {number:#04x}");
                    return Err(
                        Diagnostic::error(span, message).with_hint("subtypes are multiples of 16 up to 240")
                    );
                }
                Ok(number)
            }
            Token::Name(name) => {
                self.at += 1;
                let found = subtypes.iter().find(|(known, _)| *known == name).map(|(_, bits)| *bits);
                found.ok_or_else(|| unknown(span, "802.11 subtype of this type", &name, &names_of(subtypes)))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A number, a comparison with one, or several in brackets with `or`.
    fn numbers(&mut self) -> Result<Numbers, Diagnostic> {
        let start = self.span();
        if let Some(relation) = self.relation() {
            self.at += 1;
            let number = self.number()?;
            return Ok(Numbers::One(relation, number, start.to(self.before())));
        }
        if !self.accept(&Token::Sign("(")) {
            return Ok(Numbers::One(Relation::Eq, self.number()?, start));
        }
        self.depth += 1;
        if self.depth > crate::limits::DEPTH_MAX {
            return Err(self.unexpected());
        }
        let mut all = vec![self.numbers()?];
        while self.accept(&Token::Or) {
            all.push(self.numbers()?);
        }
        self.depth -= 1;
        self.expect(")")?;
        Ok(Numbers::Any(all))
    }
}

fn names_of(table: &[(&str, u32)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn unknown(span: Span, what: &str, name: &str, known: &str) -> Diagnostic {
    Diagnostic::error(span, format!("unknown {what} `{name}`")).with_hint(format!("known are: {known}"))
}
