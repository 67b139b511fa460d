//! Runs of alternatives that ask for one number each: `host A or host B or …`, `port 80 or 443 or …`.
//!
//! A run becomes one term whose number may be any of a set, so that the work on an expression does not grow with the square of what is
//! listed in it. libpcap's optimiser brings the tests of one value together; what it leaves is what the set gives, as long as nothing
//! else in the expression tests these values ([`Sets`](super::Sets)).

use weir_source::Span;

use super::{Lower, Lowering};
use crate::ast::{Direction, Expr, Id, Kind, Qualifiers, Term};
use crate::ir::{Pred, Value};
use crate::limits::SET_MIN;
use crate::protocol::Protocol;

/// What the members of a run have in common, and how many they are.
struct Run<'e> {
    qualifiers: Qualifiers,
    members: &'e [Expr],
    /// They are excluded: `not host A and not host B`.
    is_negated: bool,
}

impl Lower<'_> {
    /// Alternatives, or conditions; runs become one each.
    pub(super) fn parts(
        &mut self,
        parts: &[Expr],
        is_negated: bool,
    ) -> Result<Vec<Pred>, weir_source::Diagnostic> {
        let mut preds = Vec::with_capacity(parts.len());
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            let run = self.sets_allowed.then(|| Run::of(&parts[at..], is_negated)).flatten();
            match run {
                Some(run) => {
                    preds.push(self.run(&run)?);
                    at += run.members.len();
                }
                None => {
                    preds.push(self.expr(part)?);
                    at += 1;
                }
            }
        }
        Ok(preds)
    }

    fn run(&mut self, run: &Run<'_>) -> Lowering {
        let members = run.members.iter().filter_map(|member| member_of(member, run.is_negated));
        let mut numbers: Vec<u32> = members.clone().map(|(_, number, _)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if let Some((_, _, span)) = members.clone().next() {
            self.span = span;
        }
        let set = self.values.add(Value::Set(numbers.into()));
        self.has_sets = true;
        let pred = match run.qualifiers.kind {
            Kind::Port => self.ports_in(run.qualifiers, set)?,
            _ => self.network_in(run.qualifiers, set)?,
        };
        Ok(if run.is_negated { pred.not() } else { pred })
    }
}

impl<'e> Run<'e> {
    /// The run that `parts` begin with, if it is long enough.
    fn of(parts: &'e [Expr], is_negated: bool) -> Option<Run<'e>> {
        let (qualifiers, ..) = member_of(parts.first()?, is_negated)?;
        let is_of_run =
            |part: &&Expr| member_of(part, is_negated).is_some_and(|(others, ..)| others == qualifiers);
        let count = parts.iter().take_while(is_of_run).count();
        (count >= SET_MIN).then_some(Run { qualifiers, members: &parts[..count], is_negated })
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
