//! Runs of alternatives that ask for one number each: `host A or host B or …`, `port 80 or 443 or …`.
//!
//! A run becomes one term whose number may be any of a set, so that the work on an expression does not grow with the square of what is
//! listed in it. libpcap's optimiser brings the tests of one value together; what it leaves is what the set gives, as long as nothing
//! else in the expression tests these values ([`stand_alone`](crate::sets::stand_alone)).

use weir_source::{Diagnostic, Span};

use super::{Lower, Lowering};
use crate::ast::{Direction, Expr, Id, Kind, Qualifiers, Term};
use crate::ir::{Pred, Value};
use crate::limits::SET_MIN;
use crate::protocol::Protocol;

impl Lower<'_> {
    /// Alternatives, or conditions; runs become one each.
    pub(super) fn parts(&mut self, parts: &[Expr], is_negated: bool) -> Result<Vec<Pred>, Diagnostic> {
        let mut preds = Vec::with_capacity(parts.len());
        let mut rest = parts;
        while let Some((part, others)) = rest.split_first() {
            match self.run(rest, is_negated) {
                Some((count, pred)) => {
                    preds.push(pred?);
                    rest = &rest[count..];
                }
                None => {
                    preds.push(self.expr(part)?);
                    rest = others;
                }
            }
        }
        Ok(preds)
    }

    /// How many of `parts` are a run that they begin with, if it is long enough, and what it means. `is_negated`: of what is excluded, `not
    /// host A and not host B`.
    pub(super) fn run(&mut self, parts: &[Expr], is_negated: bool) -> Option<(usize, Lowering)> {
        let (qualifiers, _, span) = member_of(parts.first().filter(|_| self.sets_allowed)?, is_negated)?;
        let members = parts.iter().map_while(|part| member_of(part, is_negated));
        let of_run = members.take_while(|(others, ..)| *others == qualifiers);
        let mut numbers: Vec<u32> = of_run.map(|(_, number, _)| number).collect();
        let count = numbers.len();
        if count < SET_MIN {
            return None;
        }
        self.span = span;
        numbers.sort_unstable();
        numbers.dedup();
        let set = self.values.add(Value::Set(numbers.into()));
        self.has_sets = true;
        let pred = match qualifiers.kind {
            Kind::Port => self.ports_in(qualifiers, set),
            _ => self.network_in(qualifiers, set),
        };
        let pred = match is_negated {
            true if self.is_scoped() => pred.map(|pred| Pred::Fails(Box::new(pred))),
            true => pred.map(Pred::not),
            false => pred,
        };
        Some((count, pred))
    }
}

/// A term that asks for one number: an IPv4 address or a port.
fn member_of(part: &Expr, is_negated: bool) -> Option<(Qualifiers, u32, Span)> {
    let term = match part {
        Expr::Not(inner) if is_negated => inner,
        part if !is_negated => part,
        _ => return None,
    };
    let Expr::Term(Term::Id(qualifiers, id), span) = term else { return None };
    if !matches!(qualifiers.direction, None | Some(Direction::Src | Direction::Dst | Direction::Or)) {
        return None;
    }
    let number = match (qualifiers.kind, qualifiers.protocol, id) {
        (Kind::Default | Kind::Host, None | Some(Protocol::Ip), Id::Dotted(parts)) => {
            let parts: [u32; 4] = parts.as_slice().try_into().ok()?;
            let bytes = parts.map(u8::try_from);
            u32::from_be_bytes([bytes[0].ok()?, bytes[1].ok()?, bytes[2].ok()?, bytes[3].ok()?])
        }
        (Kind::Port, _, Id::Number(port)) if *port <= u32::from(u16::MAX) => *port,
        _ => return None,
    };
    Some((*qualifiers, number, *span))
}
