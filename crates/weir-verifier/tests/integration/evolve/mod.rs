//! Random programs in which a few numbers go through loops, arithmetic of both widths, spills and partial checks, and
//! decide then what is accessed.
//!
//! Aimed at where a verifier goes wrong: states that meet and are made wider, numbers that matter on one path alone,
//! sub-registers, signs, copies. What is accessed is mostly checked right before, so that a good part is accepted; and
//! there are branches on every number, so that what was claimed of it is told even where it reaches no pointer.

use weir_ebpf::{Object, asm};

use crate::worlds::Random;

pub(crate) const MAPS: &str = "map @array array key 4 value 64 entries 2
map @hash hash key 4 value 64 entries 4
map @ring ringbuf key 0 value 0 entries 4096
";

/// Bytes of memory that a program of that kind is lent.
pub(crate) const MEMORY_BYTES: usize = 64;

/// What r6 is the base of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Base {
    /// 64 bytes in a value of a map.
    Value,
    /// 64 bytes of memory.
    Memory,
    /// A packet; its end is in the stack at r10 - 8.
    Packet,
}

/// Where the program keeps a number that evolves.
const NUMBERS: [usize; 3] = [7, 8, 9];
const SCRATCH: [usize; 5] = [1, 2, 3, 4, 5];
/// Slots of the stack for numbers, bytes below r10 of each. All are written at the start.
const SLOTS: [usize; 4] = [16, 24, 32, 40];
/// A slot that is not written at the start.
const UNWRITTEN: usize = 176;
/// 64 bytes for helpers, written at the start.
const BUFFER: usize = 128;
/// Where a dynptr is, and an address in its record.
const DYNPTR: usize = 208;
const SLICE: usize = 216;
/// Where a program of packets has its context.
const CONTEXT: usize = 184;

/// A line of the program. Its arguments may draw from the writer's random numbers.
macro_rules! line {
    ($writer:ident, $($text:tt)*) => {{
        let text = format!($($text)*);
        $writer.lines.push(text);
    }};
}

mod linked;

struct Writer<'a> {
    random: &'a mut Random,
    base: Base,
    lines: Vec<String>,
    labels: usize,
    /// Loops that the snippet is in.
    depth: usize,
    /// Written so far: the size is what decides whether paths are followed to the end.
    snippets: usize,
    /// The text of each function that is called, by the program or by helpers.
    functions: Vec<String>,
    /// One that may be called again.
    callee: Option<String>,
    /// In one of these.
    is_function: bool,
}

/// A random program of about `snippets` snippets.
pub(crate) fn program(random: &mut Random, snippets: usize) -> Object {
    let (base, kind) = match random.below(5) {
        0 => (Base::Packet, "xdp".to_owned()),
        1 => (Base::Memory, format!("memory {MEMORY_BYTES}")),
        _ => (Base::Value, "probe".to_owned()),
    };
    let mut writer = Writer {
        random,
        base,
        lines: Vec::new(),
        labels: 0,
        depth: 0,
        snippets,
        functions: Vec::new(),
        callee: None,
        is_function: false,
    };
    writer.entry();
    writer.body(4);
    while writer.snippets > 0 {
        writer.snippet();
    }
    writer.line("out:\nr0 = 0\nexit");
    let functions = std::mem::take(&mut writer.functions).join("\n");
    let text = format!("{MAPS}program \"evolve\" {kind}\n{}\n{functions}\n", writer.lines.join("\n"));
    asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.lines.push(text.to_owned());
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("l{}", self.labels)
    }

    /// r6 = the base, r7 to r9 = numbers from outside, stack = numbers.
    fn entry(&mut self) {
        let offset = self.random.below(8) * 8;
        match self.base {
            Base::Value => {
                for number in NUMBERS {
                    line!(self, "r{number} = *(u64 *)(r1 + {})", number * 8);
                }
                let map = self.random.pick(&["@array", "@hash"]);
                let index = self.random.below(3);
                line!(self, "r1 = map[{map}] ll\n*(u32 *)(r10 - 4) = {index}\nr2 = r10\nr2 += -4");
                self.line("call map_lookup_elem\nr6 = r0\nif r0 == 0 goto out");
            }
            Base::Memory => {
                self.line("r6 = r1");
                for (index, number) in NUMBERS.into_iter().enumerate() {
                    line!(self, "r{number} = *(u64 *)(r1 + {})", index * 8);
                }
            }
            Base::Packet => {
                line!(self, "*(u64 *)(r10 - {CONTEXT}) = r1");
                self.packet();
                self.line("r3 = r6\nr3 += 24\nif r3 > r2 goto out");
                for (index, number) in NUMBERS.into_iter().enumerate() {
                    line!(self, "r{number} = *(u64 *)(r6 + {})", index * 8);
                }
            }
        }
        if self.base != Base::Packet {
            line!(self, "*(u64 *)(r10 - 8) = {offset}");
        }
        self.stack();
    }

    /// A record of a size that only a run knows: written to, read or reached, and mostly given back.
    fn dynptr(&mut self) {
        let (size, to, label) = (self.number(), self.number(), self.label());
        line!(self, "r1 = map[@ring] ll\nr2 = r{size}");
        if !self.random.one_in(4) {
            self.line("r2 &= 31");
        }
        line!(self, "r3 = 0\nr4 = r10\nr4 += -{DYNPTR}\ncall ringbuf_reserve_dynptr");
        if self.random.one_in(2) {
            line!(self, "r{to} = r0");
        }
        for _ in 0..1 + self.random.below(2) {
            let offset = self.number();
            let dynptr = format!("r10\nr{{}} += -{DYNPTR}");
            let at =
                |register: usize| format!("r{register} = {}", dynptr.replace("{}", &register.to_string()));
            match self.random.below(3) {
                0 => line!(
                    self,
                    "{}\nr2 = r{offset}\nr3 = r10\nr3 += -{BUFFER}\nr4 = 8\nr5 = 0\ncall dynptr_write",
                    at(1)
                ),
                1 => line!(
                    self,
                    "r1 = r10\nr1 += -{BUFFER}\nr2 = 8\n{}\nr4 = r{offset}\nr5 = 0\ncall dynptr_read",
                    at(3)
                ),
                _ => {
                    let (label, reached) = (self.label(), self.random.pick(&[0, 1, 7, 7, 8]));
                    line!(
                        self,
                        "{}\nr2 = r{offset}\nr3 = 8\ncall dynptr_data\n*(u64 *)(r10 - {SLICE}) = r0",
                        at(1)
                    );
                    line!(self, "if r0 == 0 goto {label}\nr{to} = *(u8 *)(r0 + {reached})\n{label}:");
                }
            }
        }
        let end = self.random.pick(&["submit", "submit", "discard"]);
        if !self.random.one_in(16) {
            line!(self, "r1 = r10\nr1 += -{DYNPTR}\nr2 = 0\ncall ringbuf_{end}_dynptr");
        }
        if self.random.one_in(16) {
            // What was there is gone, or was never written.
            line!(
                self,
                "r1 = *(u64 *)(r10 - {SLICE})\nif r1 == 0 goto {label}\nr0 = *(u8 *)(r1 + 0)\n{label}:"
            );
        }
    }

    /// r6 = the packet that the context in r1 has, and its end in the stack.
    fn packet(&mut self) {
        self.line("r6 = *(u32 *)(r1 + 0)\nr2 = *(u32 *)(r1 + 4)\n*(u64 *)(r10 - 8) = r2");
    }

    /// A helper after which the packet is elsewhere: what pointed into it must not be used any more.
    fn move_packet(&mut self) {
        let (number, helper) = (self.number(), self.random.pick(&["head", "meta", "tail"]));
        line!(self, "r1 = *(u64 *)(r10 - {CONTEXT})\nr2 = r{number}\ncall xdp_adjust_{helper}");
        if self.random.one_in(8) {
            // Some that point there are left.
            self.access();
        }
        if !self.random.one_in(12) {
            line!(self, "r1 = *(u64 *)(r10 - {CONTEXT})");
            self.packet();
        }
    }

    fn stack(&mut self) {
        for slot in SLOTS {
            let number = self.random.pick(&NUMBERS);
            match self.random.below(3) {
                0 => line!(self, "*(u64 *)(r10 - {slot}) = {}", self.random.number() as i32),
                _ => line!(self, "*(u64 *)(r10 - {slot}) = r{number}"),
            }
        }
        self.line("r0 = 0");
        for slot in 0..8 {
            line!(self, "*(u64 *)(r10 - {}) = r0", BUFFER - slot * 8);
        }
    }

    /// Up to `most` snippets.
    fn body(&mut self, most: usize) {
        for _ in 0..1 + self.random.below(most) {
            self.snippet();
        }
    }

    fn snippet(&mut self) {
        if self.snippets == 0 {
            return;
        }
        self.snippets -= 1;
        match self.random.below(49) {
            0..=5 => self.arithmetic(),
            6..=8 => self.narrow(),
            9..=11 => self.spill(),
            12..=14 => self.diamond(),
            15..=17 => self.probe(),
            18..=19 => self.copy(),
            20..=22 => self.access(),
            23 => self.sized(),
            24 | 25 => self.repeat(),
            26 => self.one_path(),
            27 if !self.is_function => self.rounds(),
            28 if !self.is_function => self.call(),
            29 => self.may_go(),
            30 | 39 => self.related(),
            31 => self.through(),
            32 => self.shift(),
            45 | 46 if self.base == Base::Packet => self.move_packet(),
            47 => self.dynptr(),
            33 => self.carried(),
            34 => self.parts(),
            35 => self.product(),
            36 => self.span(),
            38 if self.base == Base::Value && !self.is_function => self.text(),
            37 => self.distance(),
            40..=43 => self.linked(),
            _ => self.small(),
        }
    }

    fn number(&mut self) -> usize {
        self.random.pick(&NUMBERS)
    }

    fn scratch(&mut self) -> usize {
        self.random.pick(&SCRATCH)
    }

    fn letter(&mut self) -> char {
        if self.random.one_in(2) { 'w' } else { 'r' }
    }

    fn immediate(&mut self) -> i64 {
        match self.random.below(3) {
            0 => i64::from(self.random.number() as i32),
            1 => self.random.below(8) as i64,
            _ => self.random.below(80) as i64 - 16,
        }
    }

    fn arithmetic(&mut self) {
        let (dst, src, letter) = (self.number(), self.number(), self.letter());
        let operators = [
            "+=", "-=", "+=", "-=", "*=", "/=", "s/=", "|=", "&=", "<<=", ">>=", "s>>=", "%=", "s%=", "^=",
            "=",
        ];
        let operator = self.random.pick(&operators);
        match self.random.below(12) {
            0 => line!(self, "{letter}{dst} = -{letter}{dst}"),
            1 => {
                let width = self.random.pick(&["s8", "s16"]);
                line!(self, "{letter}{dst} = ({width}){letter}{src}");
            }
            2 => line!(self, "r{dst} = (s32)r{src}"),
            3 => {
                let order = self.random.pick(&["be16", "be32", "le16", "le32", "bswap16", "bswap64"]);
                line!(self, "r{dst} = {order} r{dst}");
            }
            4 => {
                // Signs and zeros spread by shifts, whole or not.
                let (by, back) =
                    (self.random.pick(&[56, 48, 32, 33, 60]), self.random.pick(&[">>=", "s>>="]));
                let again = if self.random.one_in(3) { by - 1 } else { by };
                line!(self, "r{dst} <<= {by}\nr{dst} {back} {again}");
            }
            5 | 6 => line!(self, "{letter}{dst} {operator} {letter}{src}"),
            _ => {
                let value = self.immediate();
                let value = match operator {
                    "<<=" | ">>=" | "s>>=" => value
                        .rem_euclid(if letter == 'w' { 32 } else { 64 })
                        .min(if letter == 'w' { 31 } else { 63 }),
                    "/=" | "s/=" | "%=" | "s%=" if value == 0 => 7,
                    _ => value,
                };
                line!(self, "{letter}{dst} {operator} {value}");
            }
        }
    }

    /// A small change, as counters have.
    fn small(&mut self) {
        let (dst, letter, by) = (self.number(), self.letter(), self.random.below(9) as i64 - 4);
        line!(self, "{letter}{dst} += {by}");
    }

    /// Less is known to be possible afterwards, and something is below zero more often than not.
    fn narrow(&mut self) {
        let dst = self.number();
        let most = self.random.pick(&[1i64, 3, 7, 15, 31, 63, 5, 12]);
        match self.random.below(8) {
            0 => line!(self, "r{dst} &= {most}"),
            1 => line!(self, "w{dst} &= {most}\nw{dst} -= {}", self.random.below(8)),
            2 => line!(self, "r{dst} %= {}\nr{dst} -= {}", most + 1, self.random.below(8)),
            3 => line!(self, "r{dst} s%= {}", most + 1),
            4 => line!(self, "r{dst} s>>= {}", 64 - 1 - self.random.below(5)),
            5 => line!(self, "w{dst} >>= {}", 32 - 1 - self.random.below(5)),
            6 => line!(self, "w{dst} s>>= {}", 32 - 1 - self.random.below(5)),
            _ => {
                let (set, letter) = (self.label(), self.letter());
                let low = -(self.random.below(8) as i64);
                line!(
                    self,
                    "if {letter}{dst} s> {most} goto {set}x\nif {letter}{dst} s>= {low} goto {set}\n{set}x:"
                );
                line!(self, "r{dst} = {}\n{set}:", self.random.below(6) as i64 - 3);
            }
        }
    }

    /// Into the stack and back, whole or in parts.
    fn spill(&mut self) {
        let (src, dst) = (self.number(), self.number());
        // Rarely one that nothing is in yet: then everything is known once more, of frames that begin with zeros.
        let slot = if self.random.one_in(40) { UNWRITTEN } else { self.random.pick(&SLOTS) };
        match self.random.below(6) {
            0 | 1 => line!(self, "*(u64 *)(r10 - {slot}) = r{src}"),
            2 => line!(self, "r{dst} = *(u64 *)(r10 - {slot})"),
            3 => {
                let bytes = self.random.pick(&[1, 2, 4]);
                let at = slot - bytes * self.random.below(8 / bytes);
                line!(self, "*(u{} *)(r10 - {at}) = r{src}", bytes * 8);
            }
            4 => {
                let bytes = self.random.pick(&[1, 2, 4]);
                let at = slot - bytes * self.random.below(8 / bytes);
                let sign = self.random.pick(&["u", "s"]);
                line!(self, "r{dst} = *({sign}{} *)(r10 - {at})", bytes * 8);
            }
            _ => {
                let by = self.random.below(9) as i64 - 4;
                line!(self, "r1 = *(u64 *)(r10 - {slot})\nr1 += {by}\n*(u64 *)(r10 - {slot}) = r1");
            }
        }
    }

    /// A condition on a number: `w7 s< 3`.
    fn condition(&mut self) -> String {
        let (left, letter) = (self.number(), self.letter());
        let comparison = self.random.pick(&["==", "!=", ">", ">=", "<", "<=", "s>", "s>=", "s<", "s<=", "&"]);
        match self.random.below(4) {
            0 => {
                let right = self.number();
                format!("{letter}{left} {comparison} {letter}{right}")
            }
            1 => {
                // The constant on the left.
                let (register, value) = (self.scratch(), self.immediate());
                line!(self, "r{register} = {value}");
                format!("{letter}{register} {comparison} {letter}{left}")
            }
            _ => format!("{letter}{left} {comparison} {}", self.immediate()),
        }
    }

    /// A number in the stack through another pointer than r10.
    fn through(&mut self) {
        let (number, slot, off) = (self.number(), self.random.pick(&SLOTS), 8 * self.random.below(2));
        line!(self, "r1 = r10\nr1 += -{}", slot + off);
        match self.random.below(3) {
            0 => line!(self, "*(u64 *)(r1 + {off}) = r{number}"),
            1 => line!(self, "r{number} = *(u64 *)(r1 + {off})"),
            _ => {
                let (sign, bytes) = (self.random.pick(&["u", "s"]), self.random.pick(&[1, 2, 4]));
                line!(self, "r{number} = *({sign}{} *)(r1 + {off})", bytes * 8);
            }
        }
    }

    /// A shift by a number that is around what the width allows.
    fn shift(&mut self) {
        let (dst, by, letter) = (self.number(), self.number(), self.letter());
        let operator = self.random.pick(&["<<=", ">>=", "s>>="]);
        let (mask, more) =
            (self.random.pick(&[1, 3, 7, 31, 63, 127]), self.random.pick(&[0, 0, 28, 31, 60, -2]));
        line!(self, "r1 = r{by}\nr1 &= {mask}\nr1 += {more}\n{letter}{dst} {operator} {letter}1");
    }

    /// A number in the stack that depends on the way, a part of which is replaced where the ways have met.
    fn parts(&mut self) {
        let (number, to, slot, label) =
            (self.number(), self.number(), self.random.pick(&SLOTS), self.label());
        // All of it goes there from a register, through another pointer, or is there before.
        let is_through = self.random.one_in(3);
        let place = if is_through { "r3".to_owned() } else { format!("*(u64 *)(r10 - {slot})") };
        line!(self, "{place} = {}", self.immediate());
        // What decides here is nothing that decides later.
        line!(self, "r1 = *(u64 *)(r6 + 8)\nif r1 s> {} goto {label}", self.immediate());
        line!(self, "{place} = {}\n{label}:", self.immediate());
        let (comparison, bound) = (self.random.pick(&["==", "s>", "<", "&"]), self.immediate());
        if is_through {
            line!(self, "r1 = r10\nr1 += -{slot}\n*(u64 *)(r1 + 0) = r3\nr{to} = *(u64 *)(r10 - {slot})");
            return line!(self, "if r{to} {comparison} {bound} goto +0");
        }
        let (bytes, first) = (self.random.pick(&[1, 2, 4]), self.random.below(2));
        let part = slot - first * (8 - bytes);
        line!(self, "*(u{} *)(r10 - {part}) = r{number}\nr{to} = *(u64 *)(r10 - {slot})", bytes * 8);
        line!(self, "if r{to} {comparison} {bound} goto +0");
    }

    /// A text from outside, and its length, or why there is none.
    fn text(&mut self) {
        let (number, to) = (self.number(), self.number());
        let address = if self.random.one_in(3) { number } else { 6 };
        let size = 1 + self.random.below(24);
        line!(
            self,
            "r1 = r10\nr1 += -{BUFFER}\nr2 = {size}\nr3 = r{address}\ncall probe_read_user_str\nr{to} = r0"
        );
        self.probe();
    }

    /// The stack at an index: 48 bytes of the buffer, and slots with numbers that an index may reach if it goes too
    /// far.
    fn span(&mut self) {
        let (number, to, bytes) = (self.number(), self.number(), self.random.pick(&[1usize, 1, 2, 4, 8]));
        let (mask, from) =
            (self.random.pick(&[7, 15, 31, 40, 56, 24]), self.random.pick(&[BUFFER, BUFFER - 24, 40]));
        line!(self, "r1 = r{number}\nr1 &= {}", mask & !(bytes - 1));
        if self.random.one_in(3) {
            line!(self, "r1 -= {}", bytes * self.random.below(4));
        }
        line!(self, "r2 = r10\nr2 += -{from}\nr2 += r1");
        if self.random.one_in(3) {
            // Two ways that meet with pointers that may be at other places.
            let (label, again, most) = (self.label(), self.number(), self.random.pick(&[0, 7, 15, 56]));
            line!(
                self,
                "if r{to} s> {} goto {label}\nr1 = r{again}\nr1 &= {}",
                self.immediate(),
                most & !(bytes - 1)
            );
            line!(self, "r2 = r10\nr2 += -{from}\nr2 += r1\n{label}:");
        }
        match self.random.below(4) {
            0 | 1 => line!(self, "*(u{} *)(r2 + 0) = r{to}", bytes * 8),
            2 => line!(self, "r{to} = *(u{} *)(r2 + 0)", bytes * 8),
            _ => line!(self, "r1 = r2\nr2 = {}\ncall get_current_comm", 1 + self.random.below(16)),
        }
        let (slot, back) = (self.random.pick(&[40, BUFFER - 24, BUFFER, 32]), self.number());
        line!(self, "r{back} = *(u64 *)(r10 - {slot})");
        self.probe();
    }

    /// Pointers into one object, compared and subtracted.
    fn distance(&mut self) {
        if self.base == Base::Packet {
            return self.small();
        }
        let (first, second, to, label) = (self.number(), self.number(), self.number(), self.label());
        let base = if self.random.one_in(2) { "r10".to_owned() } else { "r6".to_owned() };
        let off = if base == "r10" { self.random.pick(&[-64, -63, -31, -7]) } else { 0 };
        line!(
            self,
            "r1 = r{first}\nr1 &= {}\nr2 = {base}\nr2 += {off}\nr2 += r1",
            self.random.pick(&[7, 31, 63])
        );
        line!(self, "r3 = {base}\nr3 += {}", off + self.random.pick(&[0, 8, 20]));
        if self.random.one_in(2) {
            line!(self, "r1 = r{second}\nr1 &= 31\nr3 += r1");
        }
        let comparison = self.random.pick(&["==", "!=", "<", "<=", ">", ">="]);
        line!(self, "if r2 {comparison} r3 goto {label}");
        if self.random.one_in(2) {
            line!(self, "r{to} = r2\nr{to} -= r3\n{label}:");
        } else {
            let bytes = self.random.pick(&[1, 8]);
            line!(self, "*(u8 *)(r2 + 0) = {bytes}\n{label}:");
        }
        // What was learned of them is told.
        self.line("r1 = r2\nr1 = r3");
        self.probe();
    }

    /// Two small numbers of any sign, multiplied or divided.
    fn product(&mut self) {
        let (dst, src, letter) = (self.number(), self.number(), self.letter());
        for number in [dst, src] {
            let most = self.random.pick(&[3, 7, 15]);
            line!(self, "r{number} &= {most}\nr{number} -= {}", self.random.below(12));
        }
        let operator = self.random.pick(&["*=", "*=", "s/=", "s%=", "/=", "%="]);
        line!(self, "{letter}{dst} {operator} {letter}{src}");
        let (comparison, bound) = (self.random.pick(&["==", "s>", "<", "s<="]), self.immediate());
        line!(self, "if r{dst} {comparison} {bound} goto +0");
    }

    /// A pointer that was moved before ways meet, and is used behind.
    fn carried(&mut self) {
        let (label, base) = (self.label(), self.base);
        let moved = |writer: &mut Self| {
            let (number, most) = (writer.number(), writer.random.pick(&[7, 31, 63, 56]));
            let first = if writer.random.one_in(3) { "r2 += 8\n" } else { "" };
            line!(writer, "r1 = r{number}\nr1 &= {most}\nr2 = r6\n{first}r2 += r1");
        };
        moved(self);
        if self.random.one_in(2) {
            line!(self, "*(u64 *)(r10 - 160) = r2");
            let (number, value) = (self.number(), self.immediate());
            line!(self, "if r{number} s> {value} goto {label}");
            moved(self);
            line!(self, "*(u64 *)(r10 - 160) = r2\n{label}:\nr2 = *(u64 *)(r10 - 160)");
        } else {
            let (number, value) = (self.number(), self.immediate());
            line!(self, "if w{number} < {value} goto {label}");
            moved(self);
            line!(self, "{label}:");
        }
        let (bytes, off) = (self.random.pick(&[1, 1, 8]), self.random.pick(&[0, 0, -8]));
        let skip = self.label();
        if base == Base::Packet {
            line!(self, "r4 = r2\nr4 += 8\nr5 = *(u64 *)(r10 - 8)\nif r4 > r5 goto {skip}");
        }
        line!(self, "r0 = *(u{} *)(r2 + {off})\n{skip}:", bytes * 8);
    }

    /// Two pointers that came from the same place, on one way or on both: what is learned of one holds for the other
    /// there, and not elsewhere.
    fn related(&mut self) {
        let (number, label, skip) = (self.number(), self.label(), self.label());
        let condition = format!("r{number} {} {}", self.random.pick(&["==", "s>", "<"]), self.immediate());
        let (checked, used) = self.random.pick(&[(1, 1), (2, 2), (1, 2), (2, 1)]);
        let copies_first = self.random.one_in(2);
        if self.base == Base::Packet {
            let other = self.number();
            // As far as a packet may reach, or not.
            let most = self.random.pick(&[15, 63]);
            let moved = |to: usize, by: usize| format!("r4 = r{by}\nr4 &= {most}\nr{to} = r6\nr{to} += r4");
            let (copied, apart) = ("r2 = r1".to_owned(), moved(2, other));
            let (first, second) = if copies_first { (copied, apart) } else { (apart, copied) };
            line!(self, "{}\n{first}\nif {condition} goto {label}\n{second}\n{label}:", moved(1, number));
            line!(self, "r3 = r{checked}\nr3 += 4\nr5 = *(u64 *)(r10 - 8)\nif r3 > r5 goto {skip}");
        } else {
            let found = |key: usize, slot: usize| {
                format!(
                    "*(u64 *)(r10 - 152) = {key}\nr2 = r10\nr2 += -152\nr1 = map[@hash] ll\ncall map_lookup_elem\n\
                     *(u64 *)(r10 - {slot}) = r0"
                )
            };
            self.element();
            let copied = "r1 = *(u64 *)(r10 - 136)\n*(u64 *)(r10 - 144) = r1".to_owned();
            let apart = found(self.random.below(6), 144);
            let (first, second) = if copies_first { (copied, apart) } else { (apart, copied) };
            let key = self.random.below(6);
            line!(self, "{}\n{first}\nif {condition} goto {label}\n{second}\n{label}:", found(key, 136));
            line!(self, "r1 = *(u64 *)(r10 - 136)\nr2 = *(u64 *)(r10 - 144)");
            if self.random.one_in(4) {
                // Checked on one way alone.
                let value = self.immediate();
                line!(
                    self,
                    "if r{number} s> {value} goto {label}x\nif r{checked} == 0 goto {skip}\n{label}x:"
                );
            } else {
                line!(self, "if r{checked} == 0 goto {skip}");
            }
        }
        line!(self, "r0 = *(u32 *)(r{used} + 0)\n{skip}:");
    }

    /// An element comes or goes.
    fn element(&mut self) {
        let key = self.random.below(6);
        line!(self, "*(u64 *)(r10 - 152) = {key}\nr2 = r10\nr2 += -152\nr1 = map[@hash] ll");
        match self.random.below(2) {
            0 => line!(self, "r3 = r10\nr3 += -{BUFFER}\nr4 = 0\ncall map_update_elem"),
            _ => line!(self, "call map_delete_elem"),
        }
    }

    /// A branch that teaches something and leads nowhere.
    fn probe(&mut self) {
        let condition = self.condition();
        line!(self, "if {condition} goto +0");
    }

    /// Two ways on which a number gets different values.
    fn diamond(&mut self) {
        let (condition, label) = (self.condition(), self.label());
        line!(self, "if {condition} goto {label}");
        self.assign();
        if self.random.one_in(2) {
            line!(self, "goto {label}e\n{label}:");
            self.assign();
            line!(self, "{label}e:");
        } else {
            line!(self, "{label}:");
        }
    }

    fn assign(&mut self) {
        let (dst, src) = (self.number(), self.number());
        match self.random.below(5) {
            0 => line!(self, "r{dst} = {}", self.random.below(12) as i64 - 4),
            1 => line!(self, "r{dst} = r{src}"),
            2 => self.narrow(),
            3 => self.spill(),
            _ => self.small(),
        }
    }

    /// A copy, whole or of the low half, of which one is checked and either is used.
    fn copy(&mut self) {
        let (of, to, letter) = (self.number(), self.scratch(), self.letter());
        line!(self, "{letter}{to} = {letter}{of}");
        let (checked, used) = if self.random.one_in(3) { (of, of) } else { (to, to) };
        let (checked, used) = if self.random.one_in(12) { (to, of) } else { (checked, used) };
        self.guarded(checked, used);
    }

    fn access(&mut self) {
        let number = self.number();
        if self.random.one_in(15) {
            return self.reach(number, 1);
        }
        self.guarded(number, number);
    }

    /// An access at `used` bytes from the base, if `checked` is in bounds.
    fn guarded(&mut self, checked: usize, used: usize) {
        let (label, bytes) = (self.label(), self.random.pick(&[1usize, 1, 2, 4, 8]));
        let most = match self.base {
            Base::Packet => self.random.pick(&[63, 7, 20]),
            _ => 64 - bytes + usize::from(self.random.one_in(40)),
        };
        match self.random.below(7) {
            0 | 1 => line!(self, "if r{checked} > {most} goto {label}"),
            2 => line!(self, "if r{checked} >= {} goto {label}", most + 1),
            3 => line!(self, "if r{checked} s> {most} goto {label}\nif r{checked} s< 0 goto {label}"),
            4 => line!(self, "r0 = {most}\nif r0 < r{checked} goto {label}"),
            5 => {
                let bits = (most + 2).next_power_of_two() / 2;
                line!(self, "if r{checked} & -{bits} goto {label}");
            }
            _ => {
                // Of the low half alone: the rest is known to be zero by a move of the low half.
                line!(self, "if w{checked} > {most} goto {label}");
                if !self.random.one_in(6) {
                    line!(self, "w{used} = w{used}");
                }
            }
        }
        self.reach(used, bytes);
        line!(self, "{label}:");
    }

    /// The access itself.
    fn reach(&mut self, number: usize, bytes: usize) {
        let bits = bytes * 8;
        let pointer = if number == 2 { 3 } else { 2 };
        if self.random.one_in(4) {
            line!(self, "r{pointer} = r{number}\nr{pointer} += r6");
        } else {
            line!(self, "r{pointer} = r6\nr{pointer} += r{number}");
        }
        let label = self.label();
        if self.base == Base::Packet {
            line!(self, "r4 = r{pointer}\nr4 += {bytes}\nr5 = *(u64 *)(r10 - 8)\nif r4 > r5 goto {label}");
        }
        match self.random.below(3) {
            0 => line!(self, "*(u{bits} *)(r{pointer} + 0) = r7"),
            1 => {
                let to = self.number();
                line!(self, "r{to} = *(u{bits} *)(r{pointer} + 0)");
            }
            _ => line!(self, "r0 = *(u{bits} *)(r{pointer} + 0)"),
        }
        line!(self, "{label}:");
    }

    /// A helper that reads or writes as many bytes as a number says.
    fn sized(&mut self) {
        let (number, label) = (self.number(), self.label());
        let (least, most) = (self.random.pick(&[1, 1, 3]), self.random.pick(&[64, 64, 64, 20, 65]));
        if self.random.one_in(2) {
            line!(self, "if r{number} s< {least} goto {label}\nif r{number} s> {most} goto {label}");
        } else {
            line!(self, "r2 = r{number}\nr2 += -{least}\nif r2 > {} goto {label}", most - least);
        }
        let is_outside = self.base != Base::Packet && self.random.one_in(2);
        let memory = |register: usize| match is_outside {
            true => format!("r{register} = r6"),
            false => format!("r{register} = r10\nr{register} += -{BUFFER}"),
        };
        if self.random.one_in(2) {
            line!(self, "r1 = map[@ring] ll\n{}\nr3 = r{number}\nr4 = 0\ncall ringbuf_output", memory(2));
        } else {
            line!(self, "{}\nr2 = r{number}\ncall get_current_comm", memory(1));
        }
        line!(self, "{label}:");
    }

    /// A loop whose count is constant, or ends by a number from outside.
    fn repeat(&mut self) {
        if self.depth == 2 {
            return self.small();
        }
        self.depth += 1;
        let (label, rounds) = (self.label(), self.random.below(if self.depth == 2 { 4 } else { 9 }) as i64);
        let slot = 48 + 8 * self.depth;
        let in_stack = self.random.one_in(2);
        let step = self.random.pick(&[1i64, 1, 2, -1]);
        if in_stack {
            line!(self, "*(u64 *)(r10 - {slot}) = 0\n{label}:");
            self.body(4);
            line!(self, "r1 = *(u64 *)(r10 - {slot})\nr1 += {step}\n*(u64 *)(r10 - {slot}) = r1");
            let letter = self.letter();
            let end = match self.random.below(3) {
                0 => format!("if {letter}1 != {} goto {label}", step * (rounds + 1)),
                _ if step > 0 => format!("if {letter}1 s<= {rounds} goto {label}"),
                _ => format!("if {letter}1 s>= {} goto {label}", -rounds),
            };
            self.line(&end);
        } else {
            // The counter is one of the numbers: what the body does to it may end the loop, or never.
            let counter = self.number();
            line!(self, "r{counter} = {}\n{label}:", self.random.below(4) as i64 - 2);
            self.body(3);
            let letter = self.letter();
            line!(self, "{letter}{counter} += {}\nif {letter}{counter} s< {rounds} goto {label}", step.abs());
        }
        self.depth -= 1;
    }

    /// A number that nothing looks at on one way, and a pointer or a branch on the other.
    fn one_path(&mut self) {
        let (condition, label, number) = (self.condition(), self.label(), self.number());
        self.assign();
        line!(self, "if {condition} goto {label}");
        match self.random.below(3) {
            0 => line!(self, "r{number} = {}", self.random.below(5)),
            1 => self.spill(),
            _ => self.copy(),
        }
        line!(self, "{label}:");
        if self.random.one_in(2) { self.guarded(number, number) } else { self.probe() }
    }

    /// A helper that calls back: so many times, or for each element of a map.
    fn rounds(&mut self) {
        let over_map = self.random.one_in(3);
        // What it is called with: a number, and the buffer.
        // The key of an element does not live as long as what is left in the buffer.
        let leaves_key = over_map && self.random.one_in(6);
        let first = match (over_map, leaves_key) {
            (false, _) => "r7 = r1",
            (true, false) => "r7 = *(u32 *)(r2 + 0)\nr2 = r4",
            (true, true) => "r7 = 0\n*(u64 *)(r4 + 16) = r2\nr2 = r4",
        };
        let name = self.function(first, true);
        if self.random.one_in(2) {
            // What a round leaves may be what another way to the call begins with.
            let (number, label) = (self.number(), self.label());
            line!(self, "*(u64 *)(r10 - {BUFFER}) = {}", self.random.below(3));
            line!(self, "if r{number} s> {} goto {label}", self.immediate());
            line!(self, "*(u64 *)(r10 - {BUFFER}) = {}\n{label}:", self.random.below(3));
        }
        let left = BUFFER - 16;
        if leaves_key {
            line!(self, "r1 = r10\nr1 += -8\n*(u64 *)(r10 - {left}) = r1");
        }
        let buffer = format!("r2 = {name} ll\nr3 = r10\nr3 += -{BUFFER}\nr4 = 0");
        if over_map {
            let map = self.random.pick(&["@array", "@hash"]);
            line!(self, "r1 = map[{map}] ll\n{buffer}\ncall for_each_map_elem");
        } else {
            let (number, rounds) = (self.number(), self.random.pick(&[0, 1, 1, 2, 3, 5]));
            let count = match self.random.below(2) {
                0 => rounds.to_string(),
                _ => format!("r{number}\nr1 &= {}", self.random.pick(&[1, 3, 7])),
            };
            line!(self, "r1 = {count}\n{buffer}\ncall loop");
        }
        if leaves_key {
            line!(self, "r1 = *(u64 *)(r10 - {left})\nr0 = *(u32 *)(r1 + 0)\n*(u64 *)(r10 - {left}) = 0");
        }
        let (to, at) = (self.number(), BUFFER - 8 * self.random.below(2));
        line!(self, "r{to} = *(u64 *)(r10 - {at})");
    }

    /// A function that is called with a number and the buffer.
    fn call(&mut self) {
        let name = match self.callee.take() {
            Some(known) if self.random.one_in(2) => known,
            _ => self.function("r7 = r1", false),
        };
        self.callee = Some(name.clone());
        let (number, to) = (self.number(), self.number());
        line!(self, "r1 = r{number}\nr2 = r10\nr2 += -{BUFFER}\ncall {name}\nr{to} = r0");
        if self.random.one_in(12) {
            // What no call keeps.
            line!(self, "r{to} = r{}", self.random.pick(&SCRATCH));
        }
    }

    /// Writes a function; its name. It begins with `first`, and two of its numbers go through its caller's buffer.
    fn function(&mut self, first: &str, is_callback: bool) -> String {
        let name = format!("f{}", self.functions.len());
        let outer = (std::mem::take(&mut self.lines), self.depth, self.snippets, self.base);
        (self.depth, self.snippets, self.base, self.is_function) = (1, 5, Base::Value, true);
        line!(self, "{name}:\n{first}\n*(u64 *)(r10 - 8) = r2\nr8 = *(u64 *)(r2 + 0)\nr9 = *(u64 *)(r2 + 8)");
        self.line(
            "*(u32 *)(r10 - 12) = 1\nr2 = r10\nr2 += -12\nr1 = map[@array] ll\ncall map_lookup_elem\nr6 = r0",
        );
        self.stack();
        self.body(5);
        let (kept, to) = (self.number(), 8 * self.random.below(2));
        let stored =
            if self.random.one_in(3) { self.random.below(3).to_string() } else { format!("r{kept}") };
        line!(self, "r1 = *(u64 *)(r10 - 8)\n*(u64 *)(r1 + {to}) = {stored}");
        if self.random.one_in(4) {
            // Deeper in the caller's frame than it goes itself.
            line!(self, "*(u64 *)(r1 - 64) = r{kept}");
        }
        if is_callback && self.random.one_in(2) {
            let (comparison, bound) = (self.random.pick(&["==", "s>", "!="]), self.random.below(3));
            line!(self, "if r8 {comparison} {bound} goto +0");
        }
        let result = self.number();
        line!(self, "r0 = r{result}\n{}exit", if is_callback { "r0 &= 1\n" } else { "" });
        let text = std::mem::take(&mut self.lines).join("\n");
        (self.lines, self.depth, self.snippets, self.base) = outer;
        self.is_function = false;
        self.functions.push(text);
        name
    }

    /// A loop that goes on as long as it may.
    fn may_go(&mut self) {
        if self.depth > 0 {
            return self.probe();
        }
        self.depth += 1;
        let label = self.label();
        line!(self, "{label}:\nmay_goto {label}x");
        self.body(3);
        let condition = self.condition();
        line!(self, "if {condition} goto {label}\n{label}x:");
        self.depth -= 1;
    }
}
