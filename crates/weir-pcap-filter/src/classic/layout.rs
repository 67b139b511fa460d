//! Instructions and labels → a program whose jumps reach.

use std::collections::HashMap;

use weir_cbpf::Insn;

use crate::graph::Target;

/// A place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Label {
    Target(Target),
    Local(usize),
}

enum Piece {
    Insn(Insn),
    /// A conditional jump.
    Branch(Insn, Label, Label),
    Jump(Label),
}

/// A program that grows.
#[derive(Default)]
pub(super) struct Code {
    pieces: Vec<Piece>,
    places: HashMap<Label, usize>,
    locals: usize,
}

/// What a branch has after it for targets out of reach.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Far {
    yes: bool,
    no: bool,
}

impl Code {
    pub(super) fn label(&mut self) -> Label {
        self.locals += 1;
        Label::Local(self.locals)
    }

    pub(super) fn place(&mut self, label: Label) {
        self.places.insert(label, self.pieces.len());
    }

    pub(super) fn push(&mut self, insn: Insn) {
        self.pieces.push(Piece::Insn(insn));
    }

    pub(super) fn branch(&mut self, insn: Insn, yes: Label, no: Label) {
        self.pieces.push(Piece::Branch(insn, yes, no));
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.pieces.push(Piece::Jump(to));
    }

    /// The instructions, those that nothing leads to left out.
    pub(super) fn finish(mut self) -> Vec<Insn> {
        self.drop_unreached();
        let mut far = vec![Far::default(); self.pieces.len()];
        let starts = loop {
            let starts = self.starts(&far);
            let mut grown = false;
            for (at, piece) in self.pieces.iter().enumerate() {
                let Piece::Branch(_, yes, no) = piece else { continue };
                let distance = |label: &Label| starts[self.places[label]].wrapping_sub(starts[at] + 1);
                let needed =
                    Far { yes: far[at].yes || distance(yes) > 255, no: far[at].no || distance(no) > 255 };
                grown |= needed != far[at];
                far[at] = needed;
            }
            if !grown {
                break starts;
            }
        };
        let mut insns = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let start = starts[at];
            let always = |from: usize, to: &Label| {
                Insn::always((starts[self.places[to]] as i64 - from as i64 - 1) as i32)
            };
            match piece {
                Piece::Insn(insn) => insns.push(*insn),
                Piece::Jump(to) => insns.push(always(start, to)),
                Piece::Branch(insn, yes, no) => {
                    let near = |to: &Label| (starts[self.places[to]] - start - 1) as u8;
                    let Far { yes: far_yes, no: far_no } = far[at];
                    let jt = if far_yes { 0 } else { near(yes) };
                    let jf = if far_no { u8::from(far_yes) } else { near(no) };
                    insns.push(Insn { jt, jf, ..*insn });
                    if far_yes {
                        insns.push(always(start + 1, yes));
                    }
                    if far_no {
                        insns.push(always(start + 1 + usize::from(far_yes), no));
                    }
                }
            }
        }
        insns
    }

    /// Where each piece begins, and the end.
    fn starts(&self, far: &[Far]) -> Vec<usize> {
        let mut starts = vec![0];
        for (at, _) in self.pieces.iter().enumerate() {
            starts.push(starts[at] + 1 + usize::from(far[at].yes) + usize::from(far[at].no));
        }
        starts
    }

    fn drop_unreached(&mut self) {
        let mut reached = vec![false; self.pieces.len()];
        let mut stack = vec![0];
        while let Some(at) = stack.pop() {
            if at >= self.pieces.len() || reached[at] {
                continue;
            }
            reached[at] = true;
            match &self.pieces[at] {
                Piece::Insn(insn) if insn.class() == weir_cbpf::insn::class::RET => {}
                Piece::Insn(_) => stack.push(at + 1),
                Piece::Jump(to) => stack.push(self.places[to]),
                Piece::Branch(_, yes, no) => stack.extend([self.places[yes], self.places[no]]),
            }
        }
        let mut moved = vec![0; self.pieces.len() + 1];
        for at in 0..self.pieces.len() {
            moved[at + 1] = moved[at] + usize::from(reached[at]);
        }
        let mut at = 0;
        self.pieces.retain(|_| {
            at += 1;
            reached[at - 1]
        });
        self.places.values_mut().for_each(|place| *place = moved[*place]);
    }
}
