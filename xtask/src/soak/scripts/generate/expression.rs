//! Expressions of a type, of what is set where they stand.

use super::{ALWAYS_SET, Map, NARROW, SIGNED, Type, Value, Variable, Writer};

/// An integer as it is written, and what it may be part of.
pub(super) struct Int {
    pub(super) text: String,
    /// The reference computes what consists of literals while it reads the script, with other types.
    is_constant: bool,
    /// It has fewer than 64 bits, and with its like gives so few again in the reference.
    is_narrow: bool,
}

impl Int {
    fn constant(text: impl Into<String>) -> Int {
        Int { text: text.into(), is_constant: true, is_narrow: false }
    }

    fn of_64_bits(text: impl Into<String>) -> Int {
        Int { text: text.into(), is_constant: false, is_narrow: false }
    }

    /// With 64 bits. The reference extends what is cast with the new type's sign, and what is computed with its own.
    fn wide(self) -> String {
        if self.is_narrow { format!("({} + 0)", self.text) } else { self.text }
    }
}

pub(super) const LITERALS: [&str; 34] = [
    "0",
    "0",
    "1",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "10",
    "42",
    "64",
    "-5",
    "100",
    "127",
    "-128",
    "128",
    "255",
    "256",
    "0x7fff",
    "-32768",
    "65535",
    "1000000",
    "1e6",
    "017",
    "2147483647",
    "-2147483648",
    "2147483648",
    "4294967295",
    "4294967296",
    "1000000007",
    "5000000000",
    "-5000000000",
    "9223372036854775807",
    "-9223372036854775808",
];

const TEXTS: [&str; 14] =
    ["", "a", "b", "ab", "abc", "abd", "ABC", "word", "a b", "x=%d", "100%", "é", "[1, 2)", "a:b,c"];

impl Writer {
    pub(super) fn value(&mut self, of: &Type, depth: u64) -> String {
        match of {
            Type::Int { is_signed } => {
                let value = self.int(depth);
                let is_literal = value.is_constant && value.text.parse::<i32>().is_ok();
                match is_signed {
                    true if is_literal => value.text,
                    true => format!("(int64){}", value.wide()),
                    false => format!("(uint64){}", value.wide()),
                }
            }
            Type::Narrow(name) => format!("({name}){}", self.int(depth).wide()),
            Type::Text => self.text(depth),
            Type::Tuple(parts) => {
                let parts: Vec<String> =
                    parts.iter().map(|part| self.value(part, depth.saturating_sub(1))).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    /// An integer of any type, which can stand behind a cast and beside an operator.
    pub(super) fn int(&mut self, depth: u64) -> Int {
        if depth == 0 {
            return self.leaf();
        }
        match self.random.below(20) {
            0..8 => self.leaf(),
            8..13 => {
                let [left, right] = self.two(depth);
                let operator = ["+", "-", "*", "&", "|", "^"][self.below(6)];
                Int::of_64_bits(format!("({left} {operator} {right})"))
            }
            13 => {
                // Of signed integers the reference divides the bits, and by 0 its compiler and the kernel do not agree.
                let [left, right] = [0; 2].map(|_| self.not_constant(depth));
                let operator = ["/", "%"][self.below(2)];
                Int::of_64_bits(format!("((uint64){left} {operator} ((uint64){right} | 1))"))
            }
            14 => {
                let left = self.not_constant(depth);
                let count = match self.one_in(2) {
                    true => format!("{}", self.below(64)),
                    false => format!("({} & 63)", self.not_constant(depth)),
                };
                Int::of_64_bits(format!("({left} {} {count})", ["<<", ">>"][self.below(2)]))
            }
            15 => {
                let operand = self.not_constant(depth);
                Int::of_64_bits(format!("({}{operand})", ["-", "~"][self.below(2)]))
            }
            16 | 17 => {
                let name = NARROW[self.below(NARROW.len())];
                Int {
                    is_narrow: true,
                    ..Int::of_64_bits(format!("(({name}){})", self.int(depth - 1).wide()))
                }
            }
            18 => {
                let condition = self.condition(depth - 1);
                let [left, right] = [0; 2].map(|_| self.side());
                Int::of_64_bits(format!("({condition} ? {left} : {right})"))
            }
            _ => Int::of_64_bits(format!("({} ? 1 : 0)", self.condition(depth - 1))),
        }
    }

    /// Two operands of which one is no literal, and has 64 bits.
    fn two(&mut self, depth: u64) -> [String; 2] {
        [self.not_constant(depth), self.int(depth - 1).text]
    }

    pub(super) fn not_constant(&mut self, depth: u64) -> String {
        match self.int(depth.saturating_sub(1)) {
            Int { is_constant: true, .. } => ALWAYS_SET.to_owned(),
            value => value.wide(),
        }
    }

    /// One side of a choice. Where there is a branch in one, as to look up an entry, the reference may take the other side.
    fn side(&mut self) -> String {
        let literal = format!("{}", self.below(20));
        match self.pick_variable(|variable| variable.of == SIGNED) {
            Some(variable) if self.one_in(2) => variable.name,
            Some(variable) => {
                format!("({} {} {literal})", variable.name, ["+", "-", "*", "^"][self.below(4)])
            }
            None => literal,
        }
    }

    /// An integer of 64 bits for a statement of [`ODDITIES`](crate::soak::scripts::oddity::ODDITIES).
    pub(in crate::soak::scripts) fn operand(&mut self) -> String {
        self.not_constant(2)
    }

    fn leaf(&mut self) -> Int {
        match self.random.below(12) {
            0..6 => {
                let is_number =
                    |variable: &Variable| matches!(variable.of, Type::Int { .. } | Type::Narrow(_));
                match self.pick_variable(is_number) {
                    Some(variable) => {
                        let is_narrow = matches!(variable.of, Type::Narrow(_));
                        let step = self.may_step && !variable.is_fixed && !is_narrow && self.one_in(12);
                        let text = match step {
                            true if self.one_in(2) => format!("({}++)", variable.name),
                            true => format!("(--{})", variable.name),
                            false => variable.name,
                        };
                        Int { is_narrow, ..Int::of_64_bits(text) }
                    }
                    None => Int::constant(self.literal()),
                }
            }
            6 | 7 => {
                let is_number = |map: &Map| {
                    matches!(map.value, Value::Of(Type::Int { .. }) | Value::Distinct)
                        || map.keys.is_empty()
                            && matches!(
                                map.value,
                                Value::Aggregation("count" | "sum" | "min" | "max" | "avg")
                            )
                };
                match self.pick_map(is_number) {
                    Some(map) if matches!(map.value, Value::Aggregation(_)) => {
                        Int::of_64_bits(format!("((int64){})", map.name))
                    }
                    Some(map) => Int::of_64_bits(self.entry(&map)),
                    None => Int::constant(self.literal()),
                }
            }
            8 => match self.pick_variable(|variable| part(&variable.of, &SIGNED).is_some()) {
                Some(variable) => {
                    let path = part(&variable.of, &SIGNED).unwrap_or_default();
                    Int::of_64_bits(format!("{}{path}", variable.name))
                }
                None => Int::constant(self.literal()),
            },
            9 if self.one_in(3) => Int::constant("((int64)$1)"),
            9 if self.one_in(3) => Int::constant(format!("sizeof({})", NARROW[self.below(NARROW.len())])),
            _ => Int::constant(self.literal()),
        }
    }

    fn literal(&mut self) -> String {
        match self.random.below(40) {
            0 => "(uint64)18446744073709551615".to_owned(),
            1..20 => format!("{}", self.below(20)),
            _ => match LITERALS[self.below(LITERALS.len())] {
                // From 2^31 on a literal is unsigned in the reference.
                literal if literal.parse::<i64>().is_ok_and(|value| value > i64::from(i32::MAX)) => {
                    format!("((int64){literal})")
                }
                literal => literal.to_owned(),
            },
        }
    }

    /// What holds or not, in brackets where that matters.
    pub(super) fn condition(&mut self, depth: u64) -> String {
        let depth_below = depth.saturating_sub(1);
        match self.random.below(12) {
            0..5 => {
                let [left, right] = self.two(depth.max(1));
                let operator = ["==", "!=", "<", "<=", ">", ">="][self.below(6)];
                format!("({left} {operator} {right})")
            }
            5 | 6 if depth > 0 => {
                let [left, right] = [0; 2].map(|_| self.condition(depth_below));
                format!("({left} {} {right})", ["&&", "||"][self.below(2)])
            }
            7 if depth > 0 => format!("(!{})", self.condition(depth_below)),
            8 => {
                let [left, right] = [0; 2].map(|_| self.text(1));
                format!("({left} {} {right})", ["==", "!="][self.below(2)])
            }
            9 => {
                let [left, right] = [0; 2].map(|_| self.text(1));
                format!("(strncmp({left}, {right}, {}) == 0)", 1 + self.below(5))
            }
            10 => match self.pick_map(Map::has_entries) {
                Some(map) => {
                    let keys = self.keys(&map);
                    let keys = if map.keys.len() > 1 { format!("({keys})") } else { keys };
                    format!("has_key({}, {keys})", map.name)
                }
                None => format!("({} > 1)", self.not_constant(depth.max(1))),
            },
            _ => format!("({} & 1)", self.not_constant(depth.max(1))),
        }
    }

    pub(super) fn text(&mut self, depth: u64) -> String {
        match self.random.below(10) {
            0..3 => {
                let variable = self.pick_variable(|variable| part(&variable.of, &Type::Text).is_some());
                match variable {
                    Some(variable) => {
                        let path = part(&variable.of, &Type::Text).unwrap_or_default();
                        format!("{}{path}", variable.name)
                    }
                    None => self.literal_text(),
                }
            }
            3 => match self.pick_map(|map| map.value == Value::Of(Type::Text)) {
                Some(map) => self.entry(&map),
                None => self.literal_text(),
            },
            4 if depth > 0 => {
                let condition = self.condition(depth - 1);
                // Of one that is shorter than the other the reference reads more than there is.
                let left = TEXTS[self.below(TEXTS.len())];
                let alike: Vec<&str> = TEXTS.into_iter().filter(|text| text.len() == left.len()).collect();
                let right = alike[self.below(alike.len())];
                format!("({condition} ? \"{left}\" : \"{right}\")")
            }
            5 if self.one_in(3) => "str($2)".to_owned(),
            _ => self.literal_text(),
        }
    }

    fn literal_text(&mut self) -> String {
        if self.one_in(12) {
            // Up to as many bytes as there is room for before the end, less one: with it the reference's printf says
            // that there are more.
            let length = self.strlen_max.min(200) - 2 - self.below(4);
            let letters = "abcdefghijklmnopqrstuvwxyz".chars().cycle();
            return format!("\"{}\"", letters.take(length).collect::<String>());
        }
        format!("\"{}\"", TEXTS[self.below(TEXTS.len())])
    }
}

/// Where a value of a type has one of another in it: nothing for itself, `.1` or `.1.0` in a tuple.
fn part(of: &Type, wanted: &Type) -> Option<String> {
    if of == wanted {
        return Some(String::new());
    }
    let Type::Tuple(parts) = of else { return None };
    parts.iter().enumerate().find_map(|(n, inner)| part(inner, wanted).map(|path| format!(".{n}{path}")))
}
