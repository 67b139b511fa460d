//! Generate: a seed becomes a script whose output is the same at every run.
//!
//! A script has a `BEGIN` clause, and some an `END` or an `interval` that counts to a number. Whatever is written has a type, and is
//! well-formed in the language of both weir and bpftrace 0.23: integers are kept with 64 bits and one sign for each variable, maps are
//! set before they are read, a variable is read in its block alone, loops end after ten rounds at most. Where the language of the two
//! differs ([`ODDITIES`]), scripts stay away from it, but for one in [`ODD_ONE_IN`], which has one such statement: the script is
//! written in the same way with a statement instead of it that means the same to both, so that a difference can be shown to come from
//! that statement alone.

mod expression;

use crate::soak::Random;
use crate::soak::scripts::generate::expression::LITERALS;
use crate::soak::scripts::oddity::{ODDITIES, Oddity};

/// A script in so many has a statement that the two take differently.
const ODD_ONE_IN: u64 = 25;
/// A script in so many has an `interval`; it takes the reference longer.
const INTERVAL_ONE_IN: u64 = 33;
pub(super) const STATEMENTS_MAX: u64 = 20;
/// How deep expressions are nested.
const DEPTH: u64 = 3;
/// Loops and `unroll` in one another: the kernel's verifier follows each round for the reference.
const NESTED_MAX: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) text: String,
    /// `$1` and so on.
    pub(super) parameters: Vec<String>,
    /// What is in it that the two are known to take differently.
    pub(super) oddity: Option<&'static Oddity>,
}

/// The script of a seed. With `is_plain` the one odd statement, where there is one, is replaced by its plain twin.
pub(super) fn generate(seed: u64, is_plain: bool) -> Script {
    let mut random = Random(seed);
    let oddity = (random.below(ODD_ONE_IN) == 0).then(|| {
        let row = random.below(ODDITIES.len() as u64) as usize;
        &ODDITIES[row]
    });
    let left = 4 + random.below(STATEMENTS_MAX - 3);
    let strlen_max = [64, 64, 64, 64, 64, 32, 32, 200, 200, 1024][random.below(10) as usize];
    let mut writer = Writer {
        random,
        is_plain,
        strlen_max,
        out: String::new(),
        scopes: vec![Vec::new()],
        maps: Vec::new(),
        left,
        named: 0,
        may_step: true,
        around: Vec::new(),
    };
    writer.script(oddity);
    let parameters = PARAMETERS.map(str::to_owned).to_vec();
    Script { text: writer.out, parameters, oddity }
}

const PARAMETERS: [&str; 2] = ["42", "word"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    /// 64 bits.
    Int {
        is_signed: bool,
    },
    /// Fewer bits: set by a cast to it alone.
    Narrow(&'static str),
    Text,
    Tuple(Vec<Type>),
}

const SIGNED: Type = Type::Int { is_signed: true };
const UNSIGNED: Type = Type::Int { is_signed: false };
const NARROW: [&str; 6] = ["int8", "int16", "int32", "uint8", "uint16", "uint32"];

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    of: Type,
    /// It counts the rounds of a loop.
    is_fixed: bool,
}

#[derive(Clone, Debug)]
struct Map {
    name: String,
    keys: Vec<Type>,
    value: Value,
}

impl Map {
    /// With keys that can be looked up: those of histograms are others in the reference.
    fn has_entries(&self) -> bool {
        !self.keys.is_empty() && !matches!(self.value, Value::Aggregation("hist" | "lhist"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Of(Type),
    /// `count()`, or a function that takes a number.
    Aggregation(&'static str),
    /// Integers of which no two are equal, so that the largest few are known.
    Distinct,
}

/// What a statement is in, from the outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    While,
    Unroll,
    ForMap,
    If,
    Interval,
    End,
}

const AGGREGATIONS: [&str; 8] = ["count", "sum", "min", "max", "avg", "stats", "hist", "lhist"];

pub(super) struct Writer {
    random: Random,
    is_plain: bool,
    strlen_max: usize,
    out: String,
    scopes: Vec<Vec<Variable>>,
    maps: Vec<Map>,
    /// Statements that may still be written.
    left: u64,
    /// Names that were given.
    named: usize,
    /// Whether an expression may have `++` and `--` in it.
    may_step: bool,
    around: Vec<Around>,
}

impl Writer {
    fn script(&mut self, oddity: Option<&Oddity>) {
        if self.strlen_max != 1024 {
            self.out += &format!("config = {{ max_strlen = {} }} ", self.strlen_max);
        }
        self.out += "BEGIN { ";
        let literal = LITERALS[self.below(LITERALS.len())];
        self.out += &format!("{ALWAYS_SET} = (int64){literal}; ");
        let map = Map { name: ALWAYS_SET.to_owned(), keys: Vec::new(), value: Value::Of(SIGNED) };
        self.maps.push(map);
        for _ in 0..self.random.below(4) {
            self.new_map();
        }
        let is_interval = oddity.is_none() && self.one_in(INTERVAL_ONE_IN);
        let behind = self.random.below(4);
        while self.left > behind {
            self.statement();
        }
        if let Some(oddity) = oddity {
            let [odd, plain] = (oddity.write)(self);
            self.out += if self.is_plain { &plain } else { &odd };
        }
        if is_interval {
            self.out += "@rounds = 0; } ";
            self.interval();
        } else {
            let exit = ["exit(); ", "exit(); ", "exit(); ", "exit(3); "][self.below(4)];
            self.out += exit;
            self.out += "} ";
        }
        if self.left > 0 {
            self.clause(Around::End, "END { ", "} ");
        }
        self.out.pop();
    }

    fn interval(&mut self) {
        let rounds = 1 + self.random.below(4);
        let every_ms = 5 + self.random.below(15);
        let before = format!("interval:ms:{every_ms} {{ if (@rounds < {rounds}) {{ @rounds++; ");
        // One more for `END`.
        self.left = self.left.max(1);
        self.clause(Around::Interval, &before, "} else { exit(); } } ");
    }

    /// A clause of what is left, its variables its own.
    fn clause(&mut self, around: Around, before: &str, after: &str) {
        self.out += before;
        let scopes = std::mem::replace(&mut self.scopes, vec![Vec::new()]);
        self.around.push(around);
        let most = 1 + self.random.below(4);
        for _ in 0..most {
            if self.left > 0 {
                self.statement();
            }
        }
        self.around.pop();
        self.scopes = scopes;
        self.out += after;
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    pub(super) fn strlen_max(&self) -> usize {
        self.strlen_max
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn name(&mut self, sigil: char) -> String {
        self.named += 1;
        format!("{sigil}{}{}", if sigil == '@' { "m" } else { "v" }, self.named)
    }

    fn is_in(&self, around: Around) -> bool {
        self.around.contains(&around)
    }

    // Statements.

    fn statement(&mut self) {
        self.left = self.left.saturating_sub(1);
        match self.random.below(100) {
            0..18 => self.new_variable(),
            18..34 => self.change_variable(),
            34..46 => self.change_map(),
            46..58 => self.print(),
            58..70 => self.printf(),
            70..80 => self.branch(),
            80..89 => self.round(),
            89..92 => self.over_map(),
            92..97 => self.entries(),
            97..99 => self.block_of_let(),
            _ => self.early_exit(),
        }
    }

    fn new_map(&mut self) {
        self.left = self.left.saturating_sub(1);
        let keys = match self.random.below(5) {
            0 | 1 => vec![],
            2 => vec![self.key_type()],
            3 => vec![SIGNED, Type::Text],
            _ => vec![self.key_type()],
        };
        let value = match self.random.below(10) {
            0..4 => Value::Of(SIGNED),
            4 => Value::Of(UNSIGNED),
            5 => Value::Of(Type::Text),
            6 => Value::Of(self.tuple_type()),
            7 if !keys.is_empty() => Value::Distinct,
            _ => Value::Aggregation(AGGREGATIONS[self.below(AGGREGATIONS.len())]),
        };
        let map = Map { name: self.name('@'), keys, value };
        self.set_map(&map);
        self.maps.push(map);
    }

    fn key_type(&mut self) -> Type {
        match self.random.below(4) {
            0 => Type::Text,
            // No part is unsigned: of keys the reference prints these as signed.
            1 => match self.below(3) {
                0 => Type::Tuple(vec![SIGNED, SIGNED]),
                1 => Type::Tuple(vec![Type::Text, SIGNED]),
                _ => Type::Tuple(vec![SIGNED, Type::Tuple(vec![Type::Text, SIGNED])]),
            },
            _ => SIGNED,
        }
    }

    fn tuple_type(&mut self) -> Type {
        Type::Tuple(match self.random.below(5) {
            0 => vec![SIGNED, SIGNED],
            1 => vec![SIGNED, Type::Text],
            2 => vec![UNSIGNED, SIGNED, SIGNED],
            3 => vec![Type::Text, Type::Tuple(vec![SIGNED, SIGNED])],
            _ => vec![SIGNED, Type::Tuple(vec![Type::Text, UNSIGNED])],
        })
    }

    /// An entry of it, with keys that meet again.
    fn entry(&mut self, map: &Map) -> String {
        if map.keys.is_empty() {
            return map.name.clone();
        }
        let keys = self.keys(map);
        format!("{}[{keys}]", map.name)
    }

    fn keys(&mut self, map: &Map) -> String {
        // In a compound assignment the reference evaluates them twice.
        let may_step = std::mem::replace(&mut self.may_step, false);
        let keys: Vec<String> = map.keys.iter().map(|key| self.small(key)).collect();
        self.may_step = may_step;
        keys.join(", ")
    }

    /// A value of few.
    fn small(&mut self, of: &Type) -> String {
        match of {
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.small(part)).collect();
                format!("({})", parts.join(", "))
            }
            Type::Text if self.one_in(2) => format!("\"{}\"", ["", "a", "abc"][self.below(3)]),
            Type::Text => self.text(1),
            _ if self.one_in(5) => self.value(of, 2),
            Type::Int { is_signed: false } => format!("(uint64){}", self.below(3)),
            _ => ["0", "1", "2", "-1"][self.below(4)].to_owned(),
        }
    }

    fn set_map(&mut self, map: &Map) {
        let entry = self.entry(map);
        let is_keyed = !map.keys.is_empty();
        // Of aggregations the reference evaluates keys before the value, else behind it.
        let is_ordered = is_keyed && matches!(map.value, Value::Aggregation(_));
        let may_step = self.may_step;
        self.may_step &= !is_ordered;
        let value = match &map.value {
            Value::Of(of) => self.value(of, DEPTH),
            Value::Distinct => {
                // Each is set once: the name is new.
                self.named += 1;
                format!("{}", self.named * 1_000 + self.below(1_000))
            }
            Value::Aggregation("count") => "count()".to_owned(),
            Value::Aggregation("hist") => {
                let bits = ["", "", ", 1", ", 3"]
                    [map.name.len() % 2 * 2 + map.name.bytes().last().map_or(0, usize::from) % 2];
                format!("hist({}{bits})", self.value(&SIGNED, 2))
            }
            Value::Aggregation("lhist") => format!("lhist({}, 0, 100, 10)", self.value(&SIGNED, 2)),
            // The reference sorts these as unsigned.
            Value::Aggregation(name @ ("min" | "max")) if is_keyed => {
                format!("{name}((int64)({} & 1000000007))", self.not_constant(2))
            }
            Value::Aggregation(name) => format!("{name}({})", self.value(&SIGNED, 2)),
        };
        self.may_step = may_step;
        self.out += &format!("{entry} = {value}; ");
    }

    fn change_map(&mut self) {
        let Some(map) = self.pick_map(|_| true) else { return self.new_variable() };
        let is_number = matches!(map.value, Value::Of(Type::Int { .. }));
        if !is_number || self.one_in(2) {
            return self.set_map(&map);
        }
        let entry = self.entry(&map);
        let is_signed = map.value == Value::Of(SIGNED);
        // The reference evaluates keys once more behind the value.
        let may_step = std::mem::replace(&mut self.may_step, false);
        self.change(&entry, is_signed);
        self.may_step = may_step;
    }

    /// A step or a compound assignment of a variable or an entry.
    fn change(&mut self, place: &str, is_signed: bool) {
        let of = Type::Int { is_signed };
        let written = match self.random.below(8) {
            0 => format!("{place}++"),
            1 => format!("--{place}"),
            2 => format!("{place} {}= {}", ["+", "-", "*"][self.below(3)], self.value(&of, 2)),
            3 => format!("{place} += {}", self.value(&of, 2)),
            4 => format!("{place} {}= {}", ["&", "|", "^"][self.below(3)], self.value(&of, 2)),
            5 => format!("{place} {}= {}", ["<<", ">>"][self.below(2)], self.below(64)),
            6 if !is_signed => {
                let by = self.value(&of, 1);
                format!("{place} {}= ({by} | 1)", ["/", "%"][self.below(2)])
            }
            6 => format!("{place}--"),
            _ => format!("++{place}"),
        };
        self.out += &format!("{written}; ");
    }

    fn declare(&mut self, of: Type, is_fixed: bool) -> String {
        let name = self.name('$');
        let scope = self.scopes.len() - 1;
        self.scopes[scope].push(Variable { name: name.clone(), of, is_fixed });
        name
    }

    fn new_variable(&mut self) {
        let of = match self.random.below(10) {
            0..4 => SIGNED,
            4 | 5 => UNSIGNED,
            6 => Type::Narrow(NARROW[self.below(NARROW.len())]),
            7 | 8 => Type::Text,
            _ => self.tuple_type(),
        };
        let value = self.value(&of, DEPTH);
        let name = self.declare(of, false);
        self.out += &format!("{name} = {value}; ");
    }

    fn change_variable(&mut self) {
        let Some(variable) = self.pick_variable(|variable| !variable.is_fixed) else {
            return self.new_variable();
        };
        match &variable.of {
            Type::Int { is_signed } if self.one_in(2) => self.change(&variable.name, *is_signed),
            of => {
                let value = self.value(of, DEPTH);
                self.out += &format!("{} = {value}; ", variable.name);
            }
        }
    }

    fn block_of_let(&mut self) {
        let is_signed = self.one_in(2);
        let value = self.value(&Type::Int { is_signed }, 2);
        let name = self.declare(Type::Int { is_signed }, false);
        let declared = match self.random.below(3) {
            0 => format!("let {name}; {name} = {value}; "),
            1 => format!("let {name} = {value}; "),
            _ => format!("let {name}: {} = {value}; ", if is_signed { "int64" } else { "uint64" }),
        };
        self.out += &declared;
    }

    fn block(&mut self, most: u64) {
        self.out += "{ ";
        self.scopes.push(Vec::new());
        for _ in 0..1 + self.random.below(most) {
            self.statement();
        }
        self.scopes.pop();
        self.out += "} ";
    }

    fn branch(&mut self) {
        let condition = self.condition(2);
        self.out += &format!("if ({condition}) ");
        self.around.push(Around::If);
        self.block(2);
        if self.one_in(3) {
            let condition = self.condition(1);
            self.out += &format!("else if ({condition}) ");
            self.block(1);
        }
        if self.one_in(2) {
            self.out += "else ";
            self.block(2);
        }
        self.around.pop();
    }

    /// `while` or `unroll`.
    fn round(&mut self) {
        let nested =
            self.around.iter().filter(|around| matches!(around, Around::While | Around::Unroll)).count();
        if nested >= NESTED_MAX || self.is_in(Around::ForMap) {
            return self.print();
        }
        if self.one_in(3) && !self.is_in(Around::Unroll) {
            let rounds = 1 + self.below(4);
            self.out += &format!("unroll ({rounds}) ");
            self.around.push(Around::Unroll);
            self.block(2);
            self.around.pop();
            return;
        }
        let rounds = self.below(11);
        self.scopes.push(Vec::new());
        let scope = self.scopes.len() - 2;
        let name = self.name('$');
        self.scopes[scope].push(Variable { name: name.clone(), of: SIGNED, is_fixed: true });
        self.out += &format!("{name} = 0; while ({name} < {rounds}) {{ {name}++; ");
        self.around.push(Around::While);
        for _ in 0..1 + self.random.below(3) {
            self.statement();
            if self.one_in(4) {
                let condition = self.condition(1);
                let word = ["break", "continue"][self.below(2)];
                self.out += &format!("if ({condition}) {{ {word}; }} ");
            }
        }
        self.around.pop();
        self.scopes.pop();
        self.out += "} ";
    }

    /// A round for each entry, in any order: what it prints begins with a mark, by which lines are sorted.
    fn over_map(&mut self) {
        let is_fit = |map: &Map| !map.keys.is_empty() && matches!(map.value, Value::Of(_) | Value::Distinct);
        let nested = self.is_in(Around::ForMap) || self.is_in(Around::While) || self.is_in(Around::Unroll);
        let Some(map) = self.pick_map(is_fit).filter(|_| !nested) else { return self.print() };
        let name = self.name('$');
        let total = self.pick_variable(|variable| !variable.is_fixed && variable.of == SIGNED);
        self.out += &format!("for ({name} : {}) {{ ", map.name);
        let is_number = matches!(map.value, Value::Of(Type::Int { is_signed: true }) | Value::Distinct);
        match (self.random.below(4), total) {
            (0, Some(total)) if is_number => self.out += &format!("{} += {name}.1; ", total.name),
            (1, _) if map.keys == [SIGNED] => {
                self.out += &format!("printf(\"{FOR_MARK}%lld\\n\", {name}.0); ");
            }
            (2, _) if is_number => {
                let least = self.below(100);
                self.out +=
                    &format!("if ({name}.1 > {least}) {{ printf(\"{FOR_MARK}%lld\\n\", {name}.1); }} ");
            }
            (3, Some(total)) => self.out += &format!("{}++; ", total.name),
            _ => {
                let key = match map.keys.as_slice() {
                    [SIGNED, Type::Text] => format!("{name}.0.1"),
                    [Type::Text] => format!("{name}.0"),
                    _ => "\"-\"".to_owned(),
                };
                self.out += &format!("printf(\"{FOR_MARK}%s\\n\", {key}); ");
            }
        }
        self.out += "} ";
    }

    /// What changes which entries there are.
    fn entries(&mut self) {
        let is_asynchronous = !self.is_in(Around::Interval);
        // A `count` without keys that is cleared is shown by the reference.
        let is_clearable = |map: &Map| !map.keys.is_empty();
        match self.random.below(4) {
            0 if is_asynchronous => {
                if let Some(map) = self.pick_map(is_clearable) {
                    self.out += &format!("clear({}); ", map.name);
                }
            }
            1 if is_asynchronous => {
                // An average of nothing ends the reference.
                let is_number = |map: &Map| match map.value {
                    Value::Aggregation(name) => is_clearable(map) && !matches!(name, "avg" | "stats"),
                    Value::Of(Type::Int { .. }) => is_clearable(map),
                    _ => false,
                };
                if let Some(map) = self.pick_map(is_number) {
                    self.out += &format!("zero({}); ", map.name);
                }
            }
            _ => {
                if let Some(map) = self.pick_map(Map::has_entries) {
                    let keys = self.keys(&map);
                    let deleted = match self.random.below(2) {
                        0 => format!("delete({}[{keys}]); ", map.name),
                        _ if map.keys.len() == 1 => format!("delete({}, {keys}); ", map.name),
                        _ => format!("delete({}, ({keys})); ", map.name),
                    };
                    self.out += &deleted;
                }
            }
        }
    }

    fn early_exit(&mut self) {
        if self.is_in(Around::ForMap) || self.is_in(Around::Interval) || self.is_in(Around::End) {
            return self.print();
        }
        let condition = self.condition(2);
        self.out += &format!("if ({condition}) {{ exit(); }} ");
    }

    fn print(&mut self) {
        match self.random.below(8) {
            0 | 1 if !self.is_in(Around::Interval) => {
                let is_distinct = |map: &Map| map.value == Value::Distinct;
                if self.one_in(3)
                    && let Some(map) = self.pick_map(is_distinct)
                {
                    let least = 1 + self.below(3);
                    let by = [String::new(), format!(", {}", 1 + self.below(9))][self.below(2)].clone();
                    self.out += &format!("print({}, {least}{by}); ", map.name);
                } else if let Some(map) = self.pick_map(|_| true) {
                    self.out += &format!("print({}); ", map.name);
                }
            }
            2 => {
                let is_plain = |map: &Map| matches!(map.value, Value::Of(_)) && !map.keys.is_empty();
                if let Some(map) = self.pick_map(is_plain) {
                    let entry = self.entry(&map);
                    self.out += &format!("print({entry}); ");
                }
            }
            3 => {
                let of = self.tuple_type();
                let value = self.value(&of, 2);
                self.out += &format!("print({value}); ");
            }
            4 => {
                let value = self.text(2);
                self.out += &format!("print({value}); ");
            }
            _ => {
                let value = self.int(DEPTH).text;
                self.out += &format!("print({value}); ");
            }
        }
    }

    fn printf(&mut self) {
        let count = 1 + self.below(5);
        let percent = ["", "", "", "", " 100%%"][self.below(5)];
        let (mut format, mut arguments) = (format!("p{}{percent}", self.named), String::new());
        for _ in 0..count {
            let (conversion, argument) = self.conversion();
            format += &format!(" {conversion}");
            arguments += &format!(", {argument}");
        }
        self.out += &format!("printf(\"{format}\\n\"{arguments}); ");
    }

    fn conversion(&mut self) -> (&'static str, String) {
        const WIDE: [&str; 13] = [
            "%lld", "%llu", "%llx", "%ld", "%lu", "%lx", "%20lld", "%-22llu|", "%016llx", "%llX", "%24lld",
            "%-5ld|", "%022lld",
        ];
        const NARROW: [(&str, &str); 12] = [
            ("%d", "int32"),
            ("%u", "uint32"),
            ("%x", "uint32"),
            ("%5d", "int32"),
            ("%-5d|", "int32"),
            ("%05d", "int16"),
            ("%d", "int8"),
            ("%u", "uint8"),
            ("%o", "uint32"),
            ("%X", "uint16"),
            ("%3u", "uint16"),
            ("%-12x|", "uint32"),
        ];
        match self.random.below(10) {
            0..4 => (WIDE[self.below(WIDE.len())], self.int(2).text),
            4..6 => {
                let (conversion, of) = NARROW[self.below(NARROW.len())];
                (conversion, self.value(&Type::Narrow(of), 2))
            }
            6 => ("%c", format!("{}", 33 + self.below(93))),
            _ => {
                let text = self.text(2);
                (["%s", "%s", "%s|", "%10s", "%-10s|", "%.2s", "%-6.3s|"][self.below(7)], text)
            }
        }
    }

    fn pick_variable(&mut self, is_fit: impl Fn(&Variable) -> bool) -> Option<Variable> {
        let fit: Vec<Variable> = self.scopes.iter().flatten().filter(|one| is_fit(one)).cloned().collect();
        (!fit.is_empty()).then(|| fit[self.below(fit.len())].clone())
    }

    fn pick_map(&mut self, is_fit: impl Fn(&Map) -> bool) -> Option<Map> {
        let fit: Vec<Map> = self.maps.iter().filter(|one| is_fit(one)).cloned().collect();
        (!fit.is_empty()).then(|| fit[self.below(fit.len())].clone())
    }
}

/// The map that each script begins with: an integer.
const ALWAYS_SET: &str = "@m0";

/// What lines begin with that a loop over a map prints.
pub(super) const FOR_MARK: &str = "~";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_ir::{FoundFunction, World, WorldError};
    use weir_script::Options;
    use weir_source::SourceFile;

    use super::*;

    struct NoWorld;

    impl World for NoWorld {
        fn functions(&self, binary: &str, _: &str) -> Result<Vec<FoundFunction>, WorldError> {
            Err(WorldError { message: format!("no such binary: {binary}"), hint: None })
        }
    }

    fn check(script: &Script) {
        let file = SourceFile { name: "script".into(), text: script.text.clone() };
        let options = Options { params: script.parameters.clone(), ..Options::default() };
        if let Err(faults) = weir_script::compile(&file, &options, &NoWorld) {
            panic!("{}\n{}", script.text, weir_source::render(&file, &faults, false));
        }
    }

    #[test]
    fn weir_takes_every_script_and_its_plain_twin() {
        for seed in 1..=600 {
            check(&generate(seed, false));
            check(&generate(seed, true));
        }
    }

    #[test]
    fn a_script_depends_on_its_seed_alone() {
        assert!((1..100).all(|seed| generate(seed, false) == generate(seed, false)));
        assert_ne!(generate(1, false), generate(2, false));
    }

    #[test]
    fn a_plain_twin_differs_in_one_statement_where_there_is_an_odd_one() {
        for seed in 1..1_000 {
            let [odd, plain] = [false, true].map(|is_plain| generate(seed, is_plain));
            assert_eq!(odd.oddity.is_some(), odd.text != plain.text, "{}", odd.text);
        }
    }

    #[test]
    fn every_odd_statement_is_written() {
        let names: BTreeSet<&str> =
            (1..6_000).filter_map(|seed| generate(seed, false).oddity).map(|oddity| oddity.name).collect();
        assert_eq!(names.len(), ODDITIES.len());
    }

    #[test]
    fn few_scripts_wait_for_an_interval() {
        let intervals = (1..=5_000).filter(|seed| generate(*seed, false).text.contains("interval:")).count();
        assert!((20..=200).contains(&intervals), "{intervals}");
    }
}
