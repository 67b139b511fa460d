//! Strings: where they come from, how they are written somewhere, and when two are equal; what a text begins with.
//!
//! Every string in memory is padded with zeros to its end; that is what makes words comparable and keys unique.
//! `probe_read_user_str` leaves what lies behind the NUL as it was, so its destination is zeroed before; where it
//! fails, it zeroes what it wrote (bpf-helpers(7), and so does weir-rt's).

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp};
use weir_ebpf::kfunc::{self, TEXT_BYTES_MAX, TextTest};
use weir_event::Type;
use weir_ir::{Builtin, Op, Value, compared};

use super::build::Arg;
use super::{Held, Lower};
use crate::limits;
use crate::lir::{Inst, Label, ObjectId, Place, Reg, Src};

/// `TASK_COMM_LEN`.
const COMM_BYTES: u32 = 16;

impl<'a> Lower<'a> {
    /// Writes a string and zeros up to `bytes`.
    pub(super) fn write_string(&mut self, value: Value, to: Place, bytes: u32) {
        let have = self.function.ty(value).bytes();
        match self.held[value.0 as usize] {
            Held::Text(text) => self.write_text(text, to, bytes),
            Held::Memory(object) => self.copy_padded(to, object, have, bytes),
            Held::Deferred(op) => self.produce_string(op, have, to, bytes),
            other => unreachable!("v{} is {other:?}, no string", value.0),
        }
    }

    /// Copies `have` bytes of an object, and zeros up to `bytes`.
    pub(super) fn copy_padded(&mut self, to: Place, object: ObjectId, have: u32, bytes: u32) {
        self.copy(to, Place::Object(object, 0), have);
        self.zero(to.plus(have), bytes - have);
        self.touch(object);
    }

    /// Runs `op`, whose result has `have` bytes, into memory of `bytes`.
    pub(super) fn produce_string(&mut self, op: &Op, have: u32, to: Place, bytes: u32) {
        match op {
            Op::Builtin(Builtin::Comm) => {
                // Some kernels (6.1) write nothing behind the NUL.
                self.zero(to, bytes);
                self.call(helper::GET_CURRENT_COMM, &[Arg::Place(to), Arg::Imm(COMM_BYTES as i32)]);
            }
            Op::ReadStr { address, limit } => {
                self.zero(to, bytes);
                self.read_string(*address, *limit, have, to);
            }
            Op::ReadBytes { address, bytes: read, limit } => {
                // What is read fills all but the last word's end.
                self.zero(to, bytes);
                let size = match limit {
                    None => Arg::Imm(*read as i32),
                    Some(limit) => self.at_most(*limit, *read),
                };
                let address = match self.src(*address) {
                    Src::Imm(imm) => Arg::Imm(imm),
                    Src::Reg(reg) => Arg::Reg(reg),
                };
                self.call(self.reads(), &[Arg::Place(to), size, address]);
            }
            other => unreachable!("{other:?} gives no string that is computed late"),
        }
    }

    /// Reads a string of at most `have` bytes. r0: how many it has with its NUL, or an error.
    pub(super) fn read_string(&mut self, address: Value, limit: Option<Value>, have: u32, to: Place) {
        let size = self.read_size(limit, have);
        let address = match self.src(address) {
            Src::Imm(imm) => Arg::Imm(imm),
            Src::Reg(reg) => Arg::Reg(reg),
        };
        self.call(self.reads_text(), &[Arg::Place(to), size, address]);
    }

    /// The lesser of an unsigned integer and `most`, as the verifier must see.
    fn at_most(&mut self, value: Value, most: u32) -> Arg {
        if let Some(constant) = self.int(value) {
            return Arg::Imm((constant as u64).min(most.into()) as i32);
        }
        let size = self.copy_of(value);
        let fits = self.label();
        self.branch(jmp::JLE, size, Src::Imm(most as i32), fits);
        self.mov_imm(size, most as i32);
        self.insts.push(Inst::Label(fits));
        Arg::Reg(size)
    }

    /// Bytes to read at most, with the NUL: within 1..=`have`, as the verifier must see.
    fn read_size(&mut self, limit: Option<Value>, have: u32) -> Arg {
        let longest = have as i32 - 1;
        let Some(limit) = limit else { return Arg::Imm(have as i32) };
        if let Some(constant) = self.int(limit) {
            return Arg::Imm((constant as u64).min(longest as u64) as i32 + 1);
        }
        let size = self.copy_of(limit);
        let fits = self.label();
        self.branch(jmp::JLE, size, Src::Imm(longest), fits);
        self.mov_imm(size, longest);
        self.insts.push(Inst::Label(fits));
        self.alu(alu::ADD, size, Src::Imm(1));
        Arg::Reg(size)
    }

    fn write_text(&mut self, text: &str, to: Place, bytes: u32) {
        let words = text_words(text.as_bytes());
        for (index, &word) in words.iter().enumerate() {
            let src = self.word_src(word);
            self.store(to.plus(8 * index as u32), src);
        }
        let written = 8 * words.len() as u32;
        self.zero(to.plus(written), bytes - written);
    }

    fn word_src(&mut self, word: u64) -> Src {
        match i32::try_from(word as i64) {
            Ok(imm) => Src::Imm(imm),
            Err(_) => Src::Reg(self.constant(word as i64)),
        }
    }

    /// The string in memory, to be touched after its use: where it is, or in new memory.
    pub(super) fn string_object(&mut self, value: Value) -> ObjectId {
        if let Held::Memory(object) = self.held[value.0 as usize] {
            return object;
        }
        let bytes = self.function.ty(value).bytes();
        let object = self.object(bytes);
        self.write_string(value, Place::Object(object, 0), bytes);
        object
    }

    /// Values one after the other.
    pub(super) fn join(&mut self, parts: &[(Value, u32)], bytes: u32) -> Held<'a> {
        let object = self.object(bytes);
        let mut to = Place::Object(object, 0);
        let mut offset = 0;
        for (value, bytes) in parts {
            if let Type::Str { .. } = self.function.ty(*value) {
                self.padded.insert((object, offset, *bytes));
            }
            offset += bytes;
            if self.function.ty(*value).is_in_memory() {
                self.write_string(*value, to, *bytes);
            } else {
                self.store_value(to, *value);
                self.zero(to.plus(8), bytes - 8);
            }
            to = to.plus(*bytes);
        }
        Held::Memory(object)
    }

    /// What lies in the object from `offset` on is of this type, and comes out of a map.
    pub(super) fn note_padded(&mut self, object: ObjectId, mut offset: u32, ty: &Type) {
        for leaf in weir_ir::leaves(ty) {
            if let Type::Str { bytes } = leaf {
                self.padded.insert((object, offset, *bytes));
            }
            offset += leaf.bytes();
        }
    }

    /// Bytes of an object, from an offset on: an integer, or what has a place of its own.
    pub(super) fn part(&mut self, of: Value, (offset, bytes): (u32, u32), ty: &Type) -> Held<'a> {
        let object = self.string_object(of);
        let held = if ty.is_in_memory() {
            let out = self.object(ty.bytes());
            let is_cut = matches!(ty, Type::Str { .. }) && !self.padded.contains(&(object, offset, bytes));
            let end = is_cut.then(|| self.text_end());
            // What lies in whole words goes word by word.
            let whole = if offset % 8 == 0 { bytes - bytes % 8 } else { 0 };
            let (to, from) = (Place::Object(out, 0), Place::Object(object, offset as i32));
            self.in_loop(whole / 8, limits::UNROLLED_WORDS / 2, [to, from], |lower, [to, from]| {
                let word = lower.fresh();
                lower.load(word, from);
                end.iter().for_each(|end| lower.cut_at_nul(word, end));
                lower.store(to, Src::Reg(word));
            });
            for at in (whole..ty.bytes()).step_by(8) {
                let to = Place::Object(out, at as i32);
                match bytes.saturating_sub(at).min(8) {
                    0 => self.store(to, Src::Imm(0)),
                    some => {
                        let word = self.part_word(object, offset + at, some);
                        end.iter().for_each(|end| self.cut_at_nul(word, end));
                        self.store(to, Src::Reg(word));
                    }
                }
            }
            Held::Memory(out)
        } else {
            Held::Reg(self.part_word(object, offset, bytes))
        };
        self.touch(object);
        held
    }

    /// What [`Lower::cut_at_nul`] goes on with from word to word.
    fn text_end(&mut self) -> TextEnd {
        let (ones, highs) =
            (self.constant(0x0101_0101_0101_0101), self.constant(0x8080_8080_8080_8080_u64 as i64));
        TextEnd { ones, highs, rest: self.constant(-1) }
    }

    /// Zeros behind the first NUL of a text, in its next word. Without a branch: a verifier would follow both ways of each word.
    fn cut_at_nul(&mut self, word: Reg, end: &TextEnd) {
        self.alu(alu::AND, word, Src::Reg(end.rest));
        let before = self.before_nul(word, end);
        self.alu(alu::AND, word, Src::Reg(before));
    }

    /// All bits of a text's word before its first NUL; and whether the text goes on.
    fn before_nul(&mut self, word: Reg, end: &TextEnd) -> Reg {
        // The lowest bit that is set is the highest of the first byte that is 0.
        let (found, not) = (self.fresh(), self.fresh());
        self.mov(found, word);
        self.alu(alu::SUB, found, Src::Reg(end.ones));
        self.mov(not, word);
        self.alu(alu::XOR, not, Src::Imm(-1));
        self.alu(alu::AND, found, Src::Reg(not));
        self.alu(alu::AND, found, Src::Reg(end.highs));
        // All bits below it; without one, all.
        let below = self.fresh();
        self.mov(below, found);
        self.alu(alu::SUB, below, Src::Imm(1));
        self.alu(alu::XOR, found, Src::Imm(-1));
        self.alu(alu::AND, below, Src::Reg(found));
        let before = self.fresh();
        self.mov(before, below);
        self.alu(alu::ARSH, before, Src::Imm(7));
        self.alu(alu::ARSH, below, Src::Imm(63));
        self.alu(alu::AND, end.rest, Src::Reg(below));
        before
    }

    /// Bytes of a string before its NUL: of each word those that the mask before it has.
    pub(super) fn length(&mut self, text: Value) -> Held<'a> {
        if let Held::Text(text) = self.held[text.0 as usize] {
            return Held::Int(text.len() as i64);
        }
        let object = self.string_object(text);
        let bytes = self.function.ty(text).bytes();
        Held::Reg(self.length_in(object, bytes))
    }

    /// The same of the string at an object's start, in so many bytes.
    pub(super) fn length_in(&mut self, object: ObjectId, bytes: u32) -> Reg {
        let end = self.text_end();
        let total = self.fresh();
        self.mov_imm(total, 0);
        let at_once = limits::UNROLLED_WORDS / 2;
        self.in_loop(bytes / 8, at_once, [Place::Object(object, 0)], |lower, [from]| {
            let word = lower.fresh();
            lower.load(word, from);
            lower.alu(alu::AND, word, Src::Reg(end.rest));
            let goes_on = lower.fresh();
            lower.mov(goes_on, end.rest);
            let before = lower.before_nul(word, &end);
            lower.alu(alu::AND, before, Src::Reg(goes_on));
            // One bit a byte; their sum comes to stand in the highest byte.
            lower.alu(alu::AND, before, Src::Reg(end.ones));
            lower.alu(alu::MUL, before, Src::Reg(end.ones));
            lower.alu(alu::RSH, before, Src::Imm(56));
            lower.alu(alu::ADD, total, Src::Reg(before));
        });
        self.touch(object);
        total
    }

    /// 1 to 8 bytes of an object: memory is read in words that are aligned.
    fn part_word(&mut self, object: ObjectId, offset: u32, bytes: u32) -> Reg {
        let (before, start) = (offset % 8, (offset - offset % 8) as i32);
        let word = self.fresh();
        self.load(word, Place::Object(object, start));
        if before > 0 {
            self.alu(alu::RSH, word, Src::Imm(8 * before as i32));
        }
        if before + bytes > 8 {
            let next = self.fresh();
            self.load(next, Place::Object(object, start + 8));
            self.alu(alu::LSH, next, Src::Imm(8 * (8 - before) as i32));
            self.alu(alu::OR, word, Src::Reg(next));
        }
        if bytes < 8 && before + bytes != 8 {
            let above = Src::Imm(64 - 8 * bytes as i32);
            self.alu(alu::LSH, word, above);
            self.alu(alu::RSH, word, above);
        }
        word
    }

    /// Calls `weir_text_begins`; the answer is in r0.
    pub(super) fn ask_text(&mut self, slot: u8, text: &str, ends: bool) {
        // SANITY: `weir_ir::check` has counted the bytes.
        let mut bytes = [0; TEXT_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let bytes = &bytes[..text.len() + usize::from(ends)];
        let test = TextTest::new(slot, bytes).expect("a text that can be asked for");
        let context = self.context();
        self.mov(Reg::Real(1), context);
        self.mov_imm(Reg::Real(2), test.which());
        let mut args = 2;
        for word in test.words() {
            args += 1;
            self.mov_constant(Reg::Real(args), word as i64);
        }
        self.insts.push(Inst::CallKernelWith { function: kfunc::TEXT_BEGINS, args });
    }

    /// Jumps to `no` if two strings differ, in their `first` bytes if so many are asked for, else goes on.
    pub(super) fn branch_unless_equal(&mut self, a: Value, b: Value, first: Option<u32>, no: Label) {
        let text = |lower: &Self, value: Value| match lower.held[value.0 as usize] {
            Held::Text(text) => Some(text),
            _ => None,
        };
        // Of a buffer or an array every byte counts, also after a NUL.
        let is_object = matches!(self.function.ty(a), Type::Object { .. });
        let of = |text: &'a str| compared(text.as_bytes(), first);
        match (text(self, a), text(self, b)) {
            (Some(a), Some(b)) if of(a) == of(b) => {}
            (Some(_), Some(_)) => self.insts.push(Inst::Jump(no)),
            _ if is_object => self.branch_unless_same_memory(a, b, first, no),
            (Some(text), None) => self.branch_unless_text(b, of(text), first, no),
            (None, Some(text)) => self.branch_unless_text(a, of(text), first, no),
            (None, None) => self.branch_unless_same_memory(a, b, first, no),
        }
    }

    /// Words behind the text's NUL need no look: the string's padding is zero as well. A text of as many bytes as are asked for has none.
    fn branch_unless_text(&mut self, value: Value, text: &[u8], first: Option<u32>, no: Label) {
        let have = self.function.ty(value).bytes() / 8;
        let object = self.string_object(value);
        let mut words = text_words(text);
        let is_cut = first.is_some_and(|first| text.len() == first as usize);
        if text.len().is_multiple_of(8) && !is_cut {
            words.push(0);
        }
        let cut = if is_cut { text.len() % 8 } else { 0 };
        let last = words.len();
        let (common, beyond) = words.split_at(words.len().min(have as usize));
        for (index, &word) in common.iter().enumerate() {
            let held = self.fresh();
            self.load(held, Place::Object(object, 8 * index as i32));
            let mut word = word;
            if cut > 0 && index + 1 == last {
                // What is behind the bytes that are asked for leaves the word.
                self.alu(alu::LSH, held, Src::Imm(64 - 8 * cut as i32));
                word <<= 64 - 8 * cut;
            }
            let src = self.word_src(word);
            self.branch(jmp::JNE, held, src, no);
        }
        if beyond.iter().any(|&word| word != 0) {
            self.insts.push(Inst::Jump(no));
        }
        self.touch(object);
    }

    fn branch_unless_same_memory(&mut self, a: Value, b: Value, first: Option<u32>, no: Label) {
        let is_object = matches!(self.function.ty(a), Type::Object { .. });
        let (mut long, mut short) = (a, b);
        if self.function.ty(long).bytes() < self.function.ty(short).bytes() {
            (long, short) = (short, long);
        }
        let (long_words, short_words) =
            (self.function.ty(long).bytes() / 8, self.function.ty(short).bytes() / 8);
        let long = self.string_object(long);
        let short = self.string_object(short);
        let places = [Place::Object(long, 0), Place::Object(short, 0)];
        let (whole, cut) = match first {
            Some(first) if first < 8 * short_words => (first / 8, first % 8),
            _ => (short_words, 0),
        };
        let load_both = |lower: &mut Self, [long, short]: [Place; 2]| {
            let (x, y) = (lower.fresh(), lower.fresh());
            lower.load(x, long);
            lower.load(y, short);
            (x, y)
        };
        self.in_loop(whole, 4, places, |lower, places| {
            let (x, y) = load_both(lower, places);
            lower.branch(jmp::JNE, x, Src::Reg(y), no);
        });
        if cut > 0 {
            let (x, y) = load_both(self, places.map(|place| place.plus(8 * whole)));
            self.alu(alu::XOR, x, Src::Reg(y));
            self.alu(alu::LSH, x, Src::Imm(64 - 8 * cut as i32));
            self.branch(jmp::JNE, x, Src::Imm(0), no);
        }
        if long_words > short_words && first.is_none_or(|first| first > 8 * short_words) {
            // The longer string ends where the shorter one's array does: its next byte is a NUL, and zeros follow. An
            // object has no end but its last byte.
            let beyond = if is_object { long_words - short_words } else { 1 };
            self.in_loop(beyond, 4, [Place::Object(long, 8 * short_words as i32)], |lower, [place]| {
                let next = lower.fresh();
                lower.load(next, place);
                lower.branch(jmp::JNE, next, Src::Imm(0), no);
            });
        }
        self.touch(long);
        self.touch(short);
    }
}

/// Where a text ends that is taken out of bytes.
struct TextEnd {
    /// Constants: the lowest and the highest bit of each byte.
    ones: Reg,
    highs: Reg,
    /// All bits before the text's NUL, none behind.
    rest: Reg,
}

/// The text as little-endian words, the last one padded with zeros.
fn text_words(text: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    };
    text.chunks(8).map(word).collect()
}
