//! Linked numbers (`links`) in states and along paths: what a comparison says of others, and which links it rests on.
//!
//! What rests on a link is marked on the nodes above the path, as reads are ([`Walk::rests_on_link`]): a state that is to be
//! covered needs those links that are marked, and no others. Where a linked number is copied, or moved on, its own link is
//! marked, since what is found out of the copy rests on it.

use crate::explore::{Path, Walk};
use crate::links::{Form, Link, Numbers as _, Spot, base_of, member_of};
use crate::places::register_place;
use crate::scalar::Scalar;
use crate::state::State;
use crate::tnum::Tnum;

/// A number that another one said something of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learned {
    pub(crate) frame: usize,
    pub(crate) spot: Spot,
    pub(crate) number: Scalar,
}

impl State {
    /// What `register`, now known to be in `number`, says of others. Of one that no number fits any more it says
    /// nothing: that nobody comes here would rest on that one's number, which may be one that does not matter.
    fn learned(&self, register: u8, number: Scalar) -> Vec<Learned> {
        let (frame, spot) = (self.depth(), Spot::Register(register));
        let mut learned = Vec::new();
        let Some(link) = self.links.of(frame, spot) else { return learned };
        let base = base_of(link, number);
        for (frame, spot, other) in self.links.others(frame, spot, link) {
            let Some(old) = self.number_at(frame, spot) else { continue };
            let is_whole = link.form == Form::Whole;
            if let Some(number) = member_of(other, base, is_whole, old).filter(|number| *number != old) {
                learned.push(Learned { frame, spot, number });
            }
        }
        learned
    }

    /// The two registers hold the same number; or certainly do not.
    pub(crate) fn are_same(&self, one: u8, two: u8) -> Option<bool> {
        if one == two {
            return Some(true);
        }
        let of = |register: u8| self.links.of(self.depth(), Spot::Register(register));
        let (one, two) = (of(one)?, of(two)?);
        if (one.id, one.form) != (two.id, two.form) {
            return None;
        }
        let between = one.add.wrapping_sub(two.add);
        match (between, one.form) {
            (0, _) => Some(true),
            (_, Form::Whole) => Some(false),
            _ if between as u32 == 0 => Some(true),
            _ => Some(false),
        }
    }

    /// `one - two`, where that is a constant: of all 64 bits, or of the low half.
    pub(crate) fn distance(&self, one: u8, two: u8, wide: bool) -> Option<u64> {
        if one == two {
            return Some(0);
        }
        let of = |register: u8| self.links.of(self.depth(), Spot::Register(register));
        let (one, two) = (of(one)?, of(two)?);
        let is_raised = [one, two].iter().any(|link| link.form == Form::Raised);
        if one.id != two.id || is_raised || wide && (one.form, two.form) != (Form::Whole, Form::Whole) {
            return None;
        }
        let between = one.add.wrapping_sub(two.add);
        Some(if wide { between } else { between & u64::from(u32::MAX) })
    }
}

impl Walk<'_> {
    /// The link of a number that is about to be copied from `spot`: its own, or that of a new class.
    pub(crate) fn link_of(&mut self, path: &mut Path, frame: usize, spot: Spot) -> Link {
        if let Some(link) = path.state.links.of(frame, spot) {
            // What is found out of the copy may rest on what the number was linked with before.
            self.rests_on_link(path, frame, spot.place());
            return link;
        }
        let low_bits = path.state.number_at(frame, spot).map_or(Tnum::UNKNOWN, |number| number.bits.low(32));
        // What was shifted up by 32 bits may come down again, in this copy and in others.
        let form = if low_bits == Tnum::constant(0) { Form::Raised } else { Form::Whole };
        let link = Link { id: self.new_id(), form, add: 0 };
        path.state.links.set(frame, spot, link);
        link
    }

    /// What the operands of a comparison, now known to be in these, say of others.
    pub(crate) fn learned(&mut self, path: &Path, operands: [(Option<u8>, Scalar); 2]) -> Vec<Learned> {
        let mut all = Vec::new();
        if path.state.links.is_empty() {
            return all;
        }
        for (register, number) in operands {
            let Some(register) = register else { continue };
            let learned = path.state.learned(register, number);
            if !learned.is_empty() {
                self.rests_on_link(path, path.state.depth(), register_place(register));
            }
            for other in &learned {
                self.rests_on_link(path, other.frame, other.spot.place());
            }
            all.extend(learned);
        }
        all
    }
}
