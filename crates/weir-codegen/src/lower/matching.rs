//! Automata that go over texts ([`Op::Match`](weir_ir::Op::Match)): one loop over a table, whatever the automaton.
//!
//! The tables of all functions lie one after the other in the map `.automata`, which programs only read: of each automaton the class
//! of each of the 256 bytes, then its rows, 4 bytes a state. A state is held as the offset of its row from the first row; those
//! that have no row are numbered on, so that one comparison ends the loop for them, and is the proof too that a row is inside
//! the table.
//!
//! A text in the target is read in pieces onto the stack, 63 bytes and a NUL at a time. Both loops count down to 0, by which the
//! verifier sees that they end.

use weir_ebpf::insn::{alu, jmp, size};
use weir_ir::{Automaton, Value};

use super::Lower;
use super::build::Arg;
use crate::limits;
use crate::lir::{Inst, ObjectId, Place, R0, Reg, Src};

/// Bytes of a class and of a state in the map.
const STATE_BYTES: u32 = 4;
const CLASSES_BYTES: u32 = 256;

/// The bytes of one automaton in `.automata`, a multiple of 8.
pub(crate) fn table(automaton: &Automaton) -> Vec<u8> {
    let mut bytes = automaton.classes.clone();
    let words = automaton.rows.iter().map(|state| row_of(automaton, *state));
    bytes.extend(words.flat_map(u32::to_le_bytes));
    // What a class that is no more than known to be below the next power of two could reach.
    let beyond = class_mask(automaton) + 1 - u32::from(automaton.class_count);
    bytes.resize(bytes.len() + (STATE_BYTES * beyond) as usize, 0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// A state as it is held: where its row begins, from the first row on.
fn row_of(automaton: &Automaton, state: u16) -> u32 {
    u32::from(state) * u32::from(automaton.class_count) * STATE_BYTES
}

fn class_mask(automaton: &Automaton) -> u32 {
    u32::from(automaton.class_count).next_power_of_two() - 1
}

/// What a run over a text holds.
struct Run<'a> {
    automaton: &'a Automaton,
    /// Address of the automaton's classes.
    classes: Reg,
    row: Reg,
}

impl Lower<'_> {
    /// 1 if the text matches, else 0.
    pub(super) fn matches(&mut self, text: Value, bytes_max: u32, automaton: &Automaton) -> Reg {
        let row = self.fresh();
        let result = self.fresh();
        if automaton.start < automaton.live {
            self.mov_imm(row, row_of(automaton, automaton.start) as i32);
            match self.function.ty(text) {
                weir_event::Type::Str { bytes } => {
                    let bytes = *bytes;
                    self.run_over_memory(text, bytes, automaton, row);
                }
                _ => self.run_over_target(text, bytes_max, automaton, row),
            }
        } else {
            self.mov_imm(row, row_of(automaton, automaton.start) as i32);
        }
        // Of the states that match the least is 0 after this, and what lies before them wraps to the greatest.
        let (least, most) = (row_of(automaton, automaton.matching), row_of(automaton, automaton.matched()));
        let no = self.label();
        self.mov_imm(result, 0);
        self.alu(alu::SUB, row, Src::Imm(least as i32));
        self.branch(jmp::JGT, row, Src::Imm((most - least) as i32), no);
        self.mov_imm(result, 1);
        self.insts.push(Inst::Label(no));
        result
    }

    /// A string that the program has.
    fn run_over_memory(&mut self, text: Value, bytes: u32, automaton: &Automaton, row: Reg) {
        let object = self.string_object(text);
        let classes = self.classes_of(automaton);
        let end = self.label();
        let run = Run { automaton, classes, row };
        self.run_over_piece(&run, object, bytes, end, end);
        self.insts.push(Inst::Label(end));
        self.touch(object);
    }

    /// A string in the target, a piece at a time.
    fn run_over_target(&mut self, text: Value, bytes_max: u32, automaton: &Automaton, row: Reg) {
        let piece_bytes = limits::PIECE_BYTES;
        let pieces = bytes_max.div_ceil(piece_bytes - 1);
        let piece = self.object(piece_bytes);
        self.zero(Place::Object(piece, 0), piece_bytes);
        let (address, left) = (self.copy_of(text), self.fresh());
        self.mov_imm(left, pieces as i32);
        let (again, read, next, end) = (self.label(), self.label(), self.label(), self.label());
        self.insts.push(Inst::Label(again));
        let arguments = [Arg::Object(piece), Arg::Imm(piece_bytes as i32), Arg::Reg(address)];
        self.call(self.reads_text(), &arguments);
        self.branch(jmp::JSGT, R0, Src::Imm(0), read);
        self.mov_imm(row, row_of(automaton, automaton.start) as i32);
        self.insts.push(Inst::Jump(end));
        self.insts.push(Inst::Label(read));
        let classes = self.classes_of(automaton);
        let run = Run { automaton, classes, row };
        let rest = self.run_over_piece(&run, piece, piece_bytes, next, end);
        // The text goes on if its piece was full but for the NUL.
        self.insts.push(Inst::Label(next));
        self.branch(jmp::JNE, rest, Src::Imm(1), end);
        self.alu(alu::ADD, address, Src::Imm(piece_bytes as i32 - 1));
        self.alu(alu::SUB, left, Src::Imm(1));
        self.branch(jmp::JNE, left, Src::Imm(0), again);
        self.insts.push(Inst::Label(end));
        self.touch(piece);
    }

    /// Goes over the bytes of a piece: to `next` at a NUL, to `end` where the rest need not be read, and on behind the last
    /// byte. Gives how many bytes were left at the NUL, with it.
    fn run_over_piece(
        &mut self,
        run: &Run<'_>,
        piece: ObjectId,
        bytes: u32,
        next: crate::lir::Label,
        end: crate::lir::Label,
    ) -> Reg {
        let (at, rest) = (self.fresh(), self.fresh());
        self.address(at, Place::Object(piece, 0));
        self.mov_imm(rest, bytes as i32);
        let again = self.label();
        self.insts.push(Inst::Label(again));
        // Where each round begins: there the verifier needs to see it.
        let last = row_of(run.automaton, run.automaton.live - 1);
        self.branch(jmp::JGT, run.row, Src::Imm(last as i32), end);
        let (byte, class) = (self.fresh(), self.fresh());
        self.load_part(byte, Place::Reg(at, 0), size::B);
        self.branch(jmp::JEQ, byte, Src::Imm(0), next);
        self.alu(alu::ADD, byte, Src::Reg(run.classes));
        self.load_part(class, Place::Reg(byte, 0), size::B);
        self.alu(alu::AND, class, Src::Imm(class_mask(run.automaton) as i32));
        self.alu(alu::LSH, class, Src::Imm(STATE_BYTES.trailing_zeros() as i32));
        self.alu(alu::ADD, class, Src::Reg(run.row));
        self.alu(alu::ADD, class, Src::Reg(run.classes));
        self.load_part(run.row, Place::Reg(class, CLASSES_BYTES as i32), size::W);
        self.alu(alu::ADD, at, Src::Imm(1));
        self.alu(alu::SUB, rest, Src::Imm(1));
        self.branch(jmp::JNE, rest, Src::Imm(0), again);
        rest
    }

    /// The address of the automaton's table in a new register.
    fn classes_of(&mut self, automaton: &Automaton) -> Reg {
        let classes = self.fresh();
        let (map, offset) = self.maps.automaton(automaton);
        self.insts.push(Inst::MapValue { dst: classes, map });
        if offset != 0 {
            self.alu(alu::ADD, classes, Src::Imm(offset as i32));
        }
        classes
    }

    fn load_part(&mut self, dst: Reg, from: Place, size: u8) {
        self.insts.push(Inst::LoadPart { size, dst, from });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_classes_and_rows_and_what_a_mask_lets_through() {
        let mut classes = [0; 256];
        (classes[usize::from(b'a')], classes[usize::from(b'b')]) = (1, 2);
        // `ab`: three classes, of which a mask knows four.
        let states =
            [(vec![3, 1, 3], false), (vec![3, 3, 2], false), (vec![3; 3], true), (vec![3; 3], false)];
        let table = table(&Automaton::of(classes, &states, 0));
        assert_eq!(table.len(), (256 + 3 * 3 * 4 + 4_usize).next_multiple_of(8));
        assert_eq!(&table[256..268], [48, 0, 0, 0, 12, 0, 0, 0, 48, 0, 0, 0]);
    }
}
