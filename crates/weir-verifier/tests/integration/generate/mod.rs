//! Random programs that are often nearly right.
//!
//! The generator keeps a rough idea of what each register holds and mostly follows it; nothing makes it keep the
//! verifier's rules.

use weir_ebpf::{Object, asm};

use crate::worlds::Random;

/// The maps of random programs: index 0 to 6.
pub(crate) const MAPS: &str = "map @hash hash key 8 value 16 entries 4
map @array array key 4 value 16 entries 4
map @percpu percpu_hash key 8 value 16 entries 4
map @lanes percpu_array key 4 value 16 entries 2
map @ring ringbuf key 0 value 0 entries 4096
map @one array key 4 value 24 entries 1
map @small hash key 4 value 8 entries 4
";

/// A roughly typed idea of a register.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Nothing,
    Number,
    /// A number below 9.
    Index,
    Stack,
    Element,
    Lane,
    Context,
    Record,
    /// Into the caller's stack.
    Outer,
}

struct Writer<'a> {
    random: &'a mut Random,
    kinds: [Kind; 11],
    lines: Vec<String>,
    labels: usize,
    open_labels: Vec<(usize, usize)>,
    /// The function being written, if not the program itself.
    function: Option<usize>,
    /// Bit n: something calls function n.
    called_functions: u32,
    /// Bit n: a helper calls function n, through a callback of its own.
    called_back: u32,
    /// The same for each element of a map.
    called_for_each: u32,
}

/// Functions that a program may have.
const FUNCTIONS: usize = 3;

/// The text of a random program of about `snippets` snippets.
pub(crate) fn program(random: &mut Random, snippets: usize) -> Object {
    let mut kinds = [Kind::Nothing; 11];
    (kinds[1], kinds[10]) = (Kind::Context, Kind::Stack);
    let mut writer = Writer {
        random,
        kinds,
        lines: Vec::new(),
        labels: 0,
        open_labels: Vec::new(),
        function: None,
        called_functions: 0,
        called_back: 0,
        called_for_each: 0,
    };
    writer.line("r6 = r1");
    writer.kinds[6] = Kind::Context;
    writer.fill_stack();
    if writer.random.one_in(6) {
        writer.context_field();
    }
    writer.body(snippets);
    // Functions call later ones, but for a few that are recursive on purpose.
    let mut written = 0;
    while writer.called_functions != written {
        let function = (writer.called_functions & !written).trailing_zeros();
        written |= 1 << function;
        writer.function(function as usize);
    }
    let (called_back, called_for_each) = (writer.called_back, writer.called_for_each);
    for function in (0..FUNCTIONS).filter(|function| called_back >> function & 1 != 0) {
        let answer = if writer.random.one_in(20) { "r0 &= 2" } else { "r0 &= 1" };
        writer.line(&format!("c{function}:\ncall f{function}\n{answer}\nexit"));
    }
    for function in (0..FUNCTIONS).filter(|function| called_for_each >> function & 1 != 0) {
        let (bytes, off) = writer.random.pick(&[(32, 0), (64, 0), (32, 4), (8, 1)]);
        let change = writer.random.pick(&[
            "r6 = *(u64 *)(r3 + 0)",
            "*(u64 *)(r3 + 0) = r1",
            "lock *(u64 *)(r3 + 0) += r1",
        ]);
        writer.line(&format!(
            "e{function}:\nr1 = *(u{bytes} *)(r2 + {off})\n{change}\nr2 = r4\ncall f{function}"
        ));
        writer.line("r0 &= 1\nexit");
    }
    let text = format!("{MAPS}program \"random\" probe\n{}\n", writer.lines.join("\n"));
    asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.lines.push(text.to_owned());
    }

    fn fill_stack(&mut self) {
        for slot in 1..=6 {
            let value = self.random.number() as i32;
            self.line(&format!("*(u64 *)(r10 - {}) = {value}", slot * 8));
        }
    }

    /// Snippets, then the end with a number as its result.
    fn body(&mut self, snippets: usize) {
        for _ in 0..snippets {
            self.snippet();
            self.close_labels();
        }
        while !self.open_labels.is_empty() {
            self.close_labels();
        }
        let result = self.one_of(&[Kind::Number, Kind::Index]);
        let end = result.map_or("r0 = 0".to_owned(), |register| format!("r0 = r{register}"));
        self.line(&end);
        self.line("exit");
    }

    /// A function of a number and 24 bytes of its caller's stack.
    fn function(&mut self, number: usize) {
        self.line(&format!("f{number}:"));
        self.kinds = [Kind::Nothing; 11];
        (self.kinds[1], self.kinds[2], self.kinds[10]) = (Kind::Number, Kind::Outer, Kind::Stack);
        self.function = Some(number);
        self.line("r8 = r2");
        self.kinds[8] = Kind::Outer;
        if !self.random.one_in(8) {
            self.fill_stack();
        }
        let snippets = 1 + self.random.below(6);
        self.body(snippets);
    }

    /// A call of a function, or a use of what a function got.
    fn local(&mut self) {
        if let (Some(outer), true) = (self.one_of(&[Kind::Outer]), self.random.one_in(2)) {
            let off = self.random.below(3) * 8;
            let value = self.number();
            let stored = if self.random.one_in(6) { 10 } else { value };
            match self.random.below(4) {
                0 => self.line(&format!("*(u64 *)(r{outer} + {off}) = r{stored}")),
                1 => self.line(&format!("lock *(u64 *)(r{outer} + {off}) += r{value}")),
                2 => self.line(&format!("store_release((u64 *)(r{outer} + {off}), r{stored})")),
                _ => {
                    let dst = self.fresh();
                    self.line(&format!("r{dst} = *(u64 *)(r{outer} + {off})"));
                    self.set(dst, Kind::Number);
                }
            }
            return;
        }
        let first = self.function.map_or(0, |number| number + 1);
        if first >= FUNCTIONS {
            return;
        }
        let callee = if self.random.one_in(40) { 0 } else { first + self.random.below(FUNCTIONS - first) };
        if callee < first {
            // Recursive, if it is under way: the verifier sees to that.
            self.called_functions |= 1;
        }
        self.called_functions |= 1 << callee;
        let number = self.number();
        let base = if self.random.one_in(20) { 0 } else { 24 };
        if self.random.one_in(3) {
            self.called_back |= 1 << callee;
            let mask = self.random.pick(&[0usize, 1, 3, 7]);
            self.line(&format!("r1 = r{number}\nr1 &= {mask}\nr2 = c{callee} ll\nr3 = r10\nr3 += -{base}"));
            let flags = if self.random.one_in(10) { number } else { 10 };
            self.line(&if flags == 10 { "r4 = 0".to_owned() } else { format!("r4 = r{flags}") });
            self.line("call loop");
        } else if self.random.one_in(3) {
            self.called_for_each |= 1 << callee;
            let map = self.random.pick(&["@hash", "@array", "@percpu", "@lanes", "@small", "@hash", "@ring"]);
            self.line(&format!("r1 = map[{map}] ll\nr2 = e{callee} ll\nr3 = r10\nr3 += -{base}\nr4 = 0"));
            self.line("call for_each_map_elem");
        } else {
            self.line(&format!("r1 = r{number}\nr2 = r10\nr2 += -{base}\ncall f{callee}"));
        }
        self.called(Kind::Number);
    }

    /// A loop that ends when its rounds are used up, or by itself.
    fn rounds(&mut self) {
        let (label, counter) = (self.labels, self.random.pick(&[7usize, 8, 9]));
        self.labels += 1;
        self.line(&format!("r{counter} = 0\nm{label}l:\nmay_goto m{label}x"));
        self.set(counter, Kind::Number);
        self.snippet();
        let rounds = 1 + self.random.below(6);
        self.line(&format!(
            "r{counter} += 1\nif r{counter} s>= {rounds} goto m{label}x\ngoto m{label}l\nm{label}x:"
        ));
    }

    /// An ordered access to the stack.
    fn ordered(&mut self) {
        let bytes = self.random.pick(&[1usize, 2, 4, 8]);
        let letter = if bytes == 8 { 'r' } else { 'w' };
        let off = (1 + self.random.below(48 / bytes)) * bytes;
        if self.random.one_in(2) {
            let src = self.number();
            self.line(&format!("store_release((u{} *)(r10 - {off}), {letter}{src})", bytes * 8));
        } else {
            let dst = self.fresh();
            self.line(&format!("{letter}{dst} = load_acquire((u{} *)(r10 - {off}))", bytes * 8));
            self.set(dst, Kind::Number);
        }
    }

    /// A register of one of these kinds; rarely any.
    fn one_of(&mut self, kinds: &[Kind]) -> Option<usize> {
        if self.random.one_in(60) {
            return Some(self.random.below(11));
        }
        let fitting: Vec<usize> = (0..10).filter(|register| kinds.contains(&self.kinds[*register])).collect();
        (!fitting.is_empty()).then(|| fitting[self.random.below(fitting.len())])
    }

    fn number(&mut self) -> usize {
        if let Some(register) = self.one_of(&[Kind::Number, Kind::Index]) {
            return register;
        }
        let register = self.fresh();
        let value = self.random.number() as i32;
        self.line(&format!("r{register} = {value}"));
        self.kinds[register] = Kind::Number;
        register
    }

    /// A register to write to: mostly one whose loss does not hurt.
    fn fresh(&mut self) -> usize {
        let fitting: Vec<usize> = (0..10)
            .filter(|at| matches!(self.kinds[*at], Kind::Nothing | Kind::Number | Kind::Index))
            .collect();
        match fitting.is_empty() || self.random.one_in(20) {
            true => self.random.pick(&[0, 2, 3, 4, 5, 7, 8, 9]),
            false => fitting[self.random.below(fitting.len())],
        }
    }

    fn set(&mut self, register: usize, kind: Kind) {
        self.kinds[register] = kind;
    }

    fn called(&mut self, result: Kind) {
        (0..=5).for_each(|register| self.kinds[register] = Kind::Nothing);
        self.kinds[0] = result;
    }

    fn close_labels(&mut self) {
        for (_, left) in &mut self.open_labels {
            *left = left.saturating_sub(1);
        }
        let closing: Vec<usize> =
            self.open_labels.iter().filter(|open| open.1 == 0).map(|open| open.0).collect();
        self.open_labels.retain(|open| open.1 != 0);
        closing.into_iter().for_each(|label| self.line(&format!("l{label}:")));
    }

    fn snippet(&mut self) {
        match self.random.below(27) {
            24..=26 => self.linked(),
            21 | 22 => self.indexed(),
            23 => self.compared(),
            16 | 17 => self.local(),
            18 => self.rounds(),
            19 => self.ordered(),
            0..=3 => self.arithmetic(),
            4 => self.context(),
            5 | 6 => self.stack(),
            7 | 8 => self.branch(),
            9 => self.index(),
            10 => self.lookup(),
            11 => self.element(),
            12 => self.moved(),
            13 => self.helper(),
            14 => self.repeat(),
            15 => self.record(),
            _ => self.copy(),
        }
    }

    fn arithmetic(&mut self) {
        let dst = self.number();
        let wide = self.random.below(3) > 0;
        let letter = if wide { 'r' } else { 'w' };
        let operators =
            ["+=", "-=", "*=", "/=", "s/=", "|=", "&=", "<<=", ">>=", "%=", "s%=", "^=", "=", "s>>="];
        let operator = self.random.pick(&operators);
        match self.random.below(10) {
            0 => self.line(&format!("{letter}{dst} = -{letter}{dst}")),
            1 => {
                let order = self.random.pick(&["be16", "be32", "be64", "le16", "le32", "bswap16", "bswap64"]);
                self.line(&format!("r{dst} = {order} r{dst}"));
            }
            2 => {
                let (src, width) = (self.number(), self.random.pick(&["s8", "s16"]));
                self.line(&format!("{letter}{dst} = ({width}){letter}{src}"));
            }
            3..=5 => {
                let src = self.number();
                self.line(&format!("{letter}{dst} {operator} {letter}{src}"));
            }
            _ => {
                let value = self.random.number() as i32;
                self.line(&format!("{letter}{dst} {operator} {value}"));
            }
        }
        self.set(dst, Kind::Number);
    }

    fn context(&mut self) {
        let Some(base) = self.one_of(&[Kind::Context]) else { return };
        let (dst, bytes) = (self.fresh(), self.random.pick(&[1usize, 2, 4, 8]));
        let off = self.random.below(22 * 8 / bytes) * bytes;
        self.line(&format!("r{dst} = *(u{} *)(r{base} + {off})", bytes * 8));
        self.set(dst, Kind::Number);
    }

    fn stack(&mut self) {
        let bytes = self.random.pick(&[1usize, 2, 4, 8, 8]);
        let off = (1 + self.random.below(64 / bytes)) * bytes;
        let bits = bytes * 8;
        match self.random.below(6) {
            0 | 1 => {
                let dst = self.fresh();
                self.line(&format!("r{dst} = *(u{bits} *)(r10 - {off})"));
                self.set(dst, Kind::Number);
            }
            2 if bytes < 8 => {
                let dst = self.fresh();
                self.line(&format!("r{dst} = *(s{bits} *)(r10 - {off})"));
                self.set(dst, Kind::Number);
            }
            3 => {
                let value = self.random.number() as i32;
                self.line(&format!("*(u{bits} *)(r10 - {off}) = {value}"));
            }
            4 if bytes >= 4 => {
                let (src, letter) = (self.number(), if bytes == 8 { 'r' } else { 'w' });
                let operator = self.random.pick(&["+=", "|=", "&=", "^="]);
                self.line(&format!("lock *(u{bits} *)(r10 - {off}) {operator} {letter}{src}"));
            }
            5 => {
                // Any register: spills of pointers, and their return.
                let (src, dst) = (self.random.below(11), self.fresh());
                self.line(&format!("*(u64 *)(r10 - 64) = r{src}"));
                self.snippet();
                self.line(&format!("r{dst} = *(u64 *)(r10 - 64)"));
                let kind = self.kinds[src];
                self.set(dst, kind);
            }
            _ => {
                let src = self.number();
                self.line(&format!("*(u{bits} *)(r10 - {off}) = r{src}"));
            }
        }
    }

    /// A forward branch over the next few snippets.
    fn branch(&mut self) {
        let dst = self.number();
        let letter = if self.random.below(3) > 0 { 'r' } else { 'w' };
        let comparison = self.random.pick(&["==", ">", ">=", "&", "!=", "s>", "s>=", "<", "<=", "s<", "s<="]);
        let right = match self.random.below(3) {
            0 => format!("{letter}{}", self.number()),
            _ => (self.random.number() as i32).to_string(),
        };
        let label = self.labels;
        self.labels += 1;
        self.line(&format!("if {letter}{dst} {comparison} {right} goto l{label}"));
        let length = 1 + self.random.below(4);
        self.open_labels.push((label, length));
    }

    /// Makes a number small in one of several ways.
    fn index(&mut self) {
        let dst = self.number();
        let most = self.random.below(20);
        let label = self.labels;
        match self.random.below(6) {
            0 => self.line(&format!("r{dst} &= {most}")),
            1 => self.line(&format!("r{dst} %= {}", most + 1)),
            2 => {
                let shift = 64 - self.random.below(5).max(1);
                self.line(&format!("r{dst} >>= {shift}"));
            }
            3 => self.line(&format!("if r{dst} <= {most} goto l{label}\nr{dst} = {most}\nl{label}:")),
            4 => self.line(&format!("if w{dst} < {most} goto l{label}\nw{dst} = 1\nl{label}:")),
            _ => self.line(&format!(
                "if r{dst} s> {most} goto l{label}\nif r{dst} s>= 0 goto m{label}\nl{label}:\nr{dst} = 0\nm{label}:"
            )),
        }
        self.labels += 1;
        self.set(dst, Kind::Index);
    }

    /// A copy of a number, and a check of one of the two; the other is small then.
    fn linked(&mut self) {
        let (from, to) = (self.number(), self.fresh());
        if from == to || from == 10 {
            return;
        }
        let moved = self.random.below(9) as i64 - 4;
        match self.random.below(8) {
            0 | 1 => self.line(&format!("r{to} = r{from}")),
            2 => self.line(&format!("w{to} = w{from}")),
            3 => self.line(&format!("r{to} = r{from}\nr{to} += {moved}")),
            4 => self.line(&format!("w{to} = w{from}\nw{to} += {moved}")),
            5 => {
                let back = self.random.pick(&[">>=", "s>>="]);
                self.line(&format!("r{to} = r{from}\nr{to} <<= 32\nr{to} {back} 32"));
            }
            6 => self.line(&format!("*(u64 *)(r10 - 48) = r{from}\nr{to} = *(u64 *)(r10 - 48)")),
            _ => self.line(&format!("*(u32 *)(r10 - 44) = r{from}\nr{to} = *(u32 *)(r10 - 44)")),
        }
        let (checked, used) = if self.random.one_in(2) { (from, to) } else { (to, from) };
        let (most, letter) = (self.random.below(20), if self.random.one_in(3) { 'w' } else { 'r' });
        let label = self.labels;
        self.labels += 1;
        match self.random.below(3) {
            0 => self.line(&format!("if {letter}{checked} <= {most} goto l{label}\nr{used} = 1\nl{label}:")),
            1 => self.line(&format!("if {letter}{checked} == {most} goto l{label}\nr{used} = 0\nl{label}:")),
            _ => self.line(&format!(
                "if {letter}{checked} s> {most} goto l{label}\nif {letter}{checked} s>= 0 goto m{label}\nl{label}:\n\
                 r{used} = 0\nm{label}:"
            )),
        }
        self.set(to, Kind::Number);
        self.set(from, Kind::Number);
        self.set(used, Kind::Index);
    }

    fn lookup(&mut self) {
        let map = self.random.pick(&["@hash", "@array", "@percpu", "@lanes", "@small", "@array"]);
        if self.random.one_in(2) {
            let value = self.random.below(5);
            self.line(&format!("*(u64 *)(r10 - 8) = {value}"));
        }
        let kind = if matches!(map, "@percpu" | "@lanes") { Kind::Lane } else { Kind::Element };
        let call = match kind {
            Kind::Lane if self.random.one_in(8) => {
                format!("r3 = {}\ncall map_lookup_percpu_elem", self.random.below(3))
            }
            _ => "call map_lookup_elem".to_owned(),
        };
        self.line(&format!("r2 = r10\nr2 += -8\nr1 = map[{map}] ll\n{call}"));
        self.called(kind);
        if self.random.one_in(12) {
            return;
        }
        let keep = self.random.pick(&[0usize, 7, 8, 9]);
        self.line(&format!("r{keep} = r0"));
        self.set(keep, kind);
        let label = self.labels;
        self.labels += 1;
        self.line(&format!("if r0 == 0 goto l{label}"));
        let length = 2 + self.random.below(4);
        self.open_labels.push((label, length));
    }

    fn element(&mut self) {
        if self.random.one_in(4) {
            let dst = self.fresh();
            let off = self.random.below(3) * 8;
            self.line(&format!("r{dst} = map[@one][0] + {off} ll"));
            return self.set(dst, Kind::Element);
        }
        let bytes = self.random.pick(&[1usize, 2, 4, 8, 8]);
        let bits = bytes * 8;
        let off = self.random.below(3) as i64 * 8 - if self.random.one_in(10) { 5 } else { 0 };
        if let (true, Some(lane)) = (self.random.one_in(2), self.one_of(&[Kind::Lane])) {
            let src = self.number();
            return self.line(&format!("lock *(u64 *)(r{lane} + {off}) += r{src}"));
        }
        let Some(base) = self.one_of(&[Kind::Element, Kind::Lane, Kind::Record]) else { return };
        match self.random.below(4) {
            0 => {
                let dst = self.fresh();
                self.line(&format!("r{dst} = *(u{bits} *)(r{base} + {off})"));
                self.set(dst, Kind::Number);
            }
            1 => {
                let src = self.number();
                self.line(&format!("*(u{bits} *)(r{base} + {off}) = r{src}"));
            }
            2 => {
                let src = self.number();
                self.line(&format!("r{src} = atomic_fetch_xor((u64 *)(r{base} + {off}), r{src})"));
            }
            _ => {
                let src = self.number();
                self.line(&format!("r{src} = xchg_64(r{base} + {off}, r{src})"));
            }
        }
    }

    /// A pointer plus or minus an index.
    fn moved(&mut self) {
        let Some(base) = self.one_of(&[Kind::Element, Kind::Lane, Kind::Record]) else { return };
        let operator = if self.random.one_in(5) { "-=" } else { "+=" };
        match self.one_of(&[Kind::Index]) {
            Some(index) if self.random.below(4) > 0 => {
                let to = self.random.pick(&[2usize, 3, 4, 5]);
                let kind = self.kinds[base];
                self.line(&format!("r{to} = r{base}\nr{to} {operator} r{index}"));
                self.set(to, kind);
                if self.random.one_in(2) && kind == Kind::Element {
                    self.line(&format!("r0 = *(u8 *)(r{to} + 0)"));
                    self.set(0, Kind::Number);
                }
            }
            _ => {
                let by = self.random.below(12);
                self.line(&format!("r{base} {operator} {by}"));
            }
        }
    }

    /// The stack at an index: an access, or what a helper does there.
    fn indexed(&mut self) {
        let index = self.one_of(&[Kind::Index]).unwrap_or_else(|| self.number());
        let (mask, shift) = self.random.pick(&[(7usize, 0usize), (15, 0), (3, 2), (1, 3), (8, 0), (31, 0)]);
        let off = self.random.pick(&[16usize, 24, 32, 48, 48, 64]);
        let to = self.random.pick(&[1usize, 2, 3, 4]);
        let scratch = self.random.pick(&[0usize, 5]);
        let operator = if self.random.one_in(6) { "-=" } else { "+=" };
        self.line(&format!(
            "r{scratch} = r{index}\nr{scratch} &= {mask}\nr{scratch} <<= {shift}\nr{to} = r10\nr{to} += -{off}\nr{to} {operator} r{scratch}"
        ));
        self.set(scratch, Kind::Index);
        self.set(to, Kind::Stack);
        let bits = if self.random.one_in(4) { self.random.pick(&[16, 32, 64]) } else { 8 << shift.min(3) };
        let dst = self.fresh();
        match self.random.below(8) {
            0..=2 => {
                self.line(&format!("r{dst} = *(u{bits} *)(r{to} + 0)"));
                self.set(dst, Kind::Number);
            }
            3 | 4 => {
                let src = self.number();
                self.line(&format!("*(u{bits} *)(r{to} + 0) = r{src}"));
            }
            5 => self.line(&format!("*(u{bits} *)(r{to} + 0) = {}", self.labels)),
            6 => {
                let size = self.random.pick(&[1usize, 8, 16]);
                self.line(&format!("r1 = r{to}\nr2 = {size}\ncall get_current_comm"));
                self.called(Kind::Number);
            }
            _ => {
                self.line(&format!("r2 = r{to}\nr1 = map[@hash] ll\ncall map_lookup_elem"));
                self.called(Kind::Element);
            }
        }
    }

    /// Two pointers compared, or subtracted.
    fn compared(&mut self) {
        let pointers = [Kind::Stack, Kind::Element, Kind::Lane, Kind::Record, Kind::Context, Kind::Outer];
        let Some(left) = self.one_of(&pointers) else { return };
        let (copy, by) = (self.random.pick(&[2usize, 3, 4, 5]), self.random.below(7));
        let kind = self.kinds[left];
        self.set(copy, kind);
        match self.random.below(4) {
            0 => self.line(&format!("r{copy} = r10\nr{copy} += -{}", 8 * by)),
            1 => self.line(&format!("r{copy} = r{left}\nr{copy} += {by}")),
            2 => match self.one_of(&[Kind::Index]) {
                Some(index) => self.line(&format!("r{copy} = r{left}\nr{copy} += r{index}")),
                None => return,
            },
            _ => match self.one_of(&pointers) {
                Some(right) => {
                    self.line(&format!("r{copy} = r{right}"));
                    self.set(copy, self.kinds[right]);
                }
                None => return,
            },
        }
        if self.random.one_in(3) {
            self.line(&format!("r{copy} -= r{left}"));
            return self.set(copy, Kind::Number);
        }
        let comparison = self.random.pick(&["==", "!=", ">", ">=", "<", "<=", "==", "!="]);
        let label = self.labels;
        self.labels += 1;
        self.line(&format!("if r{copy} {comparison} r{left} goto l{label}"));
        let length = 1 + self.random.below(3);
        self.open_labels.push((label, length));
    }

    /// A field of the context, or one at an index, which a helper reads. At the start, where r6 is the context for
    /// certain: of another address the helper could read what is not the same in every engine.
    fn context_field(&mut self) {
        let off = self.random.below(16) * 8;
        self.line(&format!("r3 = r6\nr3 += {off}"));
        if self.random.one_in(3) {
            self.line("r4 = *(u64 *)(r6 + 8)\nr4 &= 24\nr3 += r4");
        }
        self.line("r1 = r10\nr1 += -8\nr2 = 8\ncall probe_read_kernel\nr1 = r6");
        self.called(Kind::Number);
        self.set(1, Kind::Context);
    }

    fn helper(&mut self) {
        let size = self.random.pick(&[1usize, 8, 16, 24]);
        match self.random.below(5) {
            0 => self.line(&format!("r1 = r10\nr1 += -24\nr2 = {size}\ncall get_current_comm")),
            1 => {
                // The address is a number: what stands near a pointer is not the same in every engine.
                let (address, size) = (self.number(), self.number());
                let most = self.random.pick(&[7, 15, 31]);
                self.line(&format!(
                    "r3 = r{address}\nr3 |= 0\nr2 = r{size}\nr2 &= {most}\nr1 = r10\nr1 += -24\ncall probe_read_user_str"
                ));
            }
            2 => self.line(
                "r2 = r10\nr2 += -8\nr3 = r10\nr3 += -24\nr4 = 0\nr1 = map[@hash] ll\ncall map_update_elem",
            ),
            3 => self.line("r2 = r10\nr2 += -8\nr1 = map[@small] ll\ncall map_delete_elem"),
            _ => {
                self.line(&format!(
                    "r2 = r10\nr2 += -24\nr3 = {size}\nr4 = 0\nr1 = map[@ring] ll\ncall ringbuf_output"
                ));
            }
        }
        self.called(Kind::Number);
    }

    /// A loop of a few rounds, its counter in the stack.
    fn repeat(&mut self) {
        let (label, counter) = (self.labels, self.random.pick(&[7usize, 8, 9]));
        self.labels += 1;
        let rounds = self.random.below(6);
        self.line(&format!("r{counter} = 0\n*(u64 *)(r10 - 56) = r{counter}\nl{label}:"));
        self.snippet();
        let scratch = self.fresh();
        self.line(&format!(
            "r{scratch} = *(u64 *)(r10 - 56)\nr{scratch} += 1\n*(u64 *)(r10 - 56) = r{scratch}"
        ));
        let comparison = self.random.pick(&["<", "!=", "s<", "<="]);
        self.line(&format!("if r{scratch} {comparison} {} goto l{label}", rounds + 1));
        self.set(scratch, Kind::Index);
    }

    fn record(&mut self) {
        let size = self.random.pick(&[8, 16, 24, 40]);
        let label = self.labels;
        self.labels += 1;
        self.line(&format!(
            "r1 = map[@ring] ll\nr2 = {size}\nr3 = 0\ncall ringbuf_reserve\nr9 = r0\nif r9 == 0 goto l{label}"
        ));
        self.called(Kind::Nothing);
        self.set(9, Kind::Record);
        self.element();
        if !self.random.one_in(12) {
            let end = self.random.pick(&["ringbuf_submit", "ringbuf_discard"]);
            self.line(&format!("r1 = r9\nr2 = 0\ncall {end}"));
        }
        self.line(&format!("l{label}:"));
        self.called(Kind::Nothing);
        self.set(9, Kind::Nothing);
    }

    fn copy(&mut self) {
        let (src, dst) = (self.random.below(11), self.random.pick(&[0usize, 2, 3, 4, 5, 7, 8]));
        if self.kinds[src] != Kind::Nothing {
            self.line(&format!("r{dst} = r{src}"));
            let kind = self.kinds[src];
            self.set(dst, kind);
        }
    }
}
