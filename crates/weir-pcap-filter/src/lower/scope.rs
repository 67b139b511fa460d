//! Scoped expressions: what moves to other headers binds what it is joined with by `and`.
//!
//! Where the headers are ([`Offsets`], the layer) is handed from each part of a conjunction to the next. An `or` begins each of its parts at
//! the same layer; where these end at different ones, what is joined with them by `and` is asked of each at its own: `(vlan or mpls) and
//! tcp` is `(vlan and tcp) or (mpls and tcp)`. `not` keeps to itself what moves inside of it.

use weir_source::{Diagnostic, Span};

use super::offsets::Offsets;
use super::{Lower, Lowering};
use crate::ast::Expr;
use crate::ir::{Pred, Values};
use crate::limits::{ALTERNATIVES_MAX, REPEATED_TESTS_MAX};

/// Conditions of which one holds, and where the headers are then.
struct Alternative {
    any: Vec<Pred>,
    layer: Offsets,
}

impl Alternative {
    fn pred(mut self) -> Pred {
        if self.any.len() == 1 { self.any.remove(0) } else { Pred::Or(self.any) }
    }
}

/// What is kept of the terms that were seen.
#[derive(Default)]
pub(super) struct Scope {
    /// The first term that no packet of its link layer can match.
    never: Option<Span>,
    /// Tests that were written once more.
    repeated: usize,
}

impl Lower<'_> {
    /// The meaning of a scoped expression.
    pub(super) fn scoped(&mut self, expr: &Expr) -> Lowering {
        let layer = self.offsets.clone();
        let pred = any(self.alternatives(expr, &layer)?);
        if constant(&pred, &self.values) == Some(false) {
            let link = self.options.link_type;
            let message = format!("no packet of link type {} ({}) matches this", link.name(), link.about());
            let span = self.scope.never.unwrap_or_else(|| expr.span());
            return Err(Diagnostic::error(span, message)
                .with_hint("leave it out, or give the link type of the packets (-y)"));
        }
        self.offsets = layer;
        Ok(pred)
    }

    fn alternatives(&mut self, expr: &Expr, layer: &Offsets) -> Result<Vec<Alternative>, Diagnostic> {
        match expr {
            Expr::Term(term, span) => {
                self.span = *span;
                self.offsets = layer.clone();
                let pred = self.term(term)?;
                if constant(&pred, &self.values) == Some(false) {
                    self.scope.never.get_or_insert(*span);
                }
                Ok(vec![Alternative { any: vec![pred], layer: self.offsets.clone().unused() }])
            }
            Expr::Not(inner) => match &**inner {
                Expr::Not(inner) => self.alternatives(inner, layer),
                inner => {
                    let pred = Pred::Fails(Box::new(any(self.alternatives(inner, layer)?)));
                    Ok(vec![Alternative { any: vec![pred], layer: layer.clone() }])
                }
            },
            Expr::Or(parts) => self.one_of_parts(parts, layer),
            Expr::And(parts) => self.all_parts(parts, layer),
        }
    }

    fn one_of_parts(&mut self, parts: &[Expr], layer: &Offsets) -> Result<Vec<Alternative>, Diagnostic> {
        let mut all = Vec::new();
        let mut rest = parts;
        while let Some((part, others)) = rest.split_first() {
            self.offsets = layer.clone();
            match self.run(rest, false) {
                Some((count, pred)) => {
                    or(&mut all, Alternative { any: vec![pred?], layer: layer.clone() }, part)?;
                    rest = &rest[count..];
                }
                None => {
                    for alternative in self.alternatives(part, layer)? {
                        or(&mut all, alternative, part)?;
                    }
                    rest = others;
                }
            }
        }
        Ok(all)
    }

    fn all_parts(&mut self, parts: &[Expr], layer: &Offsets) -> Result<Vec<Alternative>, Diagnostic> {
        let mut all = vec![Alternative { any: vec![Pred::And(Vec::new())], layer: layer.clone() }];
        let mut rest = parts;
        while let Some(part) = rest.first() {
            let mut next = Vec::new();
            let mut taken = 1;
            for before in all {
                self.offsets = before.layer.clone();
                let after = match self.run(rest, true) {
                    Some((count, pred)) => {
                        taken = count;
                        vec![Alternative { any: vec![pred?], layer: before.layer.clone() }]
                    }
                    None => self.alternatives(part, &before.layer)?,
                };
                let mut before = before.pred();
                let last = after.len() - 1;
                for (at, after) in after.into_iter().enumerate() {
                    let before = match at == last {
                        true => std::mem::replace(&mut before, Pred::And(Vec::new())),
                        false => self.repeat(&before, part)?,
                    };
                    let layer = after.layer.clone();
                    or(&mut next, Alternative { any: vec![and(before, after.pred())], layer }, part)?;
                }
            }
            all = next;
            rest = &rest[taken..];
        }
        Ok(all)
    }

    /// The same tests for another layer.
    fn repeat(&mut self, pred: &Pred, expr: &Expr) -> Result<Pred, Diagnostic> {
        self.scope.repeated += tests(pred);
        if self.scope.repeated > REPEATED_TESTS_MAX { Err(too_many(expr)) } else { Ok(pred.clone()) }
    }
}

/// Joins an alternative with those of the same layer.
fn or(all: &mut Vec<Alternative>, mut new: Alternative, expr: &Expr) -> Result<(), Diagnostic> {
    match all.iter().position(|known| known.layer == new.layer) {
        Some(known) => all[known].any.append(&mut new.any),
        None if all.len() == ALTERNATIVES_MAX => return Err(too_many(expr)),
        None => all.push(new),
    }
    Ok(())
}

fn too_many(expr: &Expr) -> Diagnostic {
    Diagnostic::error(expr.span(), "too many combinations of places where the headers may be")
        .with_hint("join fewer alternatives of `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan` by `and`, or split the filter")
}

fn any(mut alternatives: Vec<Alternative>) -> Pred {
    match alternatives.len() {
        1 => alternatives.remove(0).pred(),
        _ => Pred::Or(alternatives.into_iter().map(Alternative::pred).collect()),
    }
}

fn and(before: Pred, pred: Pred) -> Pred {
    match before {
        Pred::And(mut parts) => {
            parts.push(pred);
            Pred::And(parts)
        }
        before => before.and(pred),
    }
}

fn tests(pred: &Pred) -> usize {
    match pred {
        Pred::And(parts) | Pred::Or(parts) => parts.iter().map(tests).sum(),
        Pred::Not(inner) | Pred::Fails(inner) => tests(inner),
        Pred::Test(_) | Pred::Chain(_) | Pred::Need(_) => 1,
    }
}

/// Whether it holds, as far as it depends on no packet.
fn constant(pred: &Pred, values: &Values) -> Option<bool> {
    match pred {
        Pred::Test(test) => {
            let (left, right) = (values.constant(test.left)?, values.constant(test.right)?);
            Some(test.comparison.holds(left, right))
        }
        Pred::And(parts) => decided(parts, false, values),
        Pred::Or(parts) => decided(parts, true, values),
        Pred::Not(inner) | Pred::Fails(inner) => constant(inner, values).map(|holds| !holds),
        Pred::Chain(_) | Pred::Need(_) => None,
    }
}

/// What parts come to, of which one that is `decisive` decides.
fn decided(parts: &[Pred], decisive: bool, values: &Values) -> Option<bool> {
    let mut all = Some(!decisive);
    for part in parts {
        match constant(part, values) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}
