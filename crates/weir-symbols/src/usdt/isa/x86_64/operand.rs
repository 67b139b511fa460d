//! One argument of a static probe: `-4@-20(%rbp,%rax,8)` → size, sign and where the value is.
//!
//! In: text that a compiler put in place of `%n@%o` (GNU assembler, AT&T syntax), and the values of symbols. Out: an
//! [`Argument`], whose operand says how to read it, or why it cannot be read ([`Unreadable`], a stable reason code).
//!
//! | form | means |
//! |---|---|
//! | `8@%rdi` `4@%edi` `2@%di` `1@%dil` `1@%dh` | a general register, or a part of it |
//! | `-4@$-7` | a constant |
//! | `8@-8(%rbp)` `8@(%rax)` `4@4(,%rcx,4)` `4@8+4(%rax,%rcx,8)` | memory |
//! | `4@counter(%rip)` `4@table+8(%rip)` | memory at a symbol, relative to the code |
//! | `4@counter` `4@table(,%rax,4)` | memory at a symbol, in a file at fixed addresses |
//!
//! | `8f@%xmm0` `8f@%rax` `4f@-8(%rbp)` | a floating-point number, in a register (of xmm0 to xmm7, or a general one) or in memory |
//!
//! The size is 1, 2, 4 or 8, with `-` for signed; without `N@` it is 8 and unsigned. `f` after the size is for
//! floating-point numbers of 4 and 8 bytes. Other vector registers, and mask, x87 and segment registers are refused.

use std::collections::HashMap;
use std::fmt;

use crate::LinkAddr;
use crate::limits::DISPLACEMENT_TERMS_MAX;

/// An argument as it was written, and how it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// `-4@-20(%rbp)`.
    pub text: String,
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    pub signed: bool,
    /// It is a floating-point number, of 4 or 8 bytes.
    pub is_float: bool,
    pub operand: Result<Operand, Unreadable>,
}

/// Where the value of an argument is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    Constant(i64),
    Register(Register),
    /// The low bytes of a vector register, xmm0 to xmm7: of floating-point numbers alone.
    Vector(u8),
    Memory(Memory),
}

/// A general register or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register {
    /// Encoding number: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, then r8 to r15.
    pub number: u8,
    /// The lowest bit: 8 for `%ah` and its like, else 0.
    pub shift: u8,
    /// 8, 16, 32 or 64.
    pub bits: u8,
}

/// `base + index × scale + displacement`, modulo 2⁶⁴.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Encoding number of a 64-bit register.
    pub base: Option<u8>,
    /// Encoding number and 1, 2, 4 or 8.
    pub index: Option<(u8, u8)>,
    pub displacement: Displacement,
}

/// What is added to the registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Displacement {
    Bytes(i64),
    /// A link address: it moves with the file.
    Linked(LinkAddr),
}

/// Why an argument cannot be read. The code is stable; the text explains it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    #[error("floating-point: a floating-point number of this form is not read")]
    FloatingPoint,
    #[error("register: `%{name}` is no general register")]
    Register { name: String },
    #[error("segment: memory relative to a segment register (thread-local storage)")]
    Segment,
    #[error("size: {bytes} bytes; sizes are 1, 2, 4 and 8")]
    Size { bytes: String },
    #[error("symbol-unknown: no symbol table of the file has `{name}`")]
    SymbolUnknown { name: String },
    #[error("not-understood: this is no operand of the GNU assembler that weir knows")]
    NotUnderstood,
}

impl Unreadable {
    /// The stable reason code: the text up to the colon.
    pub fn code(&self) -> String {
        let text = self.to_string();
        text.split(':').next().unwrap_or_default().to_owned()
    }
}

impl Argument {
    /// `int32`, `uint8` or `double`.
    pub fn type_name(&self) -> String {
        match (self.is_float, self.bytes) {
            (true, 4) => return "float".to_owned(),
            (true, 8) => return "double".to_owned(),
            _ => {}
        }
        format!("{}int{}", if self.signed { "" } else { "u" }, 8 * u32::from(self.bytes))
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.type_name(), self.text)?;
        match &self.operand {
            Ok(_) => Ok(()),
            Err(reason) => write!(f, " (cannot be read: {reason})"),
        }
    }
}

/// Reads one argument.
pub(crate) fn parse(text: &str, symbols: &HashMap<String, LinkAddr>) -> Argument {
    let (size, operand) = text.split_once('@').unwrap_or(("8", text));
    let (signed, size) = size.strip_prefix('-').map_or((false, size), |rest| (true, rest));
    let (is_float, digits) = size.strip_suffix('f').map_or((false, size), |rest| (true, rest));
    let (bytes, fault) = match digits {
        "1" => (1, None),
        "2" => (2, None),
        "4" => (4, None),
        "8" => (8, None),
        other => (8, Some(Unreadable::Size { bytes: other.chars().take(20).collect() })),
    };
    let operand = match fault {
        Some(fault) => Err(fault),
        None if is_float => read_float(bytes, operand.trim(), symbols),
        None => read(operand.trim(), symbols),
    };
    Argument { text: text.into(), bytes, signed, is_float, operand }
}

/// A word of the row of words whose address the argument `row` is: `bytes` of it. None where that is not the whole of a register.
pub(crate) fn row_word(row: &Argument, index: u64, (bytes, signed): (u8, bool)) -> Option<Argument> {
    let Ok(Operand::Register(Register { number, shift: 0, bits: 64 })) = row.operand else { return None };
    let (sign, name) = (if signed { "-" } else { "" }, row.text.split_once('@')?.1);
    let displacement = Displacement::Bytes(8 * index as i64);
    Some(Argument {
        text: format!("{sign}{bytes}@{}({name})", 8 * index),
        bytes,
        signed,
        is_float: false,
        operand: Ok(Operand::Memory(Memory { base: Some(number), index: None, displacement })),
    })
}

/// The names in an argument that may be symbols, whether it is well formed or not.
pub(crate) fn symbols(text: &str) -> Vec<&str> {
    let (_, operand) = text.split_once('@').unwrap_or(("", text));
    let Some((displacement, _)) = Displaced::split(operand.trim()) else { return Vec::new() };
    terms(displacement).into_iter().flatten().map(|(_, term)| term).filter(|term| is_symbol(term)).collect()
}

fn read_float(bytes: u8, text: &str, symbols: &HashMap<String, LinkAddr>) -> Result<Operand, Unreadable> {
    if bytes < 4 || text.starts_with('$') {
        return Err(Unreadable::FloatingPoint);
    }
    let vector = (0..8).find(|number| text.strip_prefix("%xmm") == Some(number.to_string().as_str()));
    let operand = vector.map_or_else(|| read(text, symbols), |number| Ok(Operand::Vector(number)))?;
    match operand {
        Operand::Register(part) if part.shift != 0 || part.bits < 8 * bytes => Err(Unreadable::FloatingPoint),
        operand => Ok(operand),
    }
}

fn read(text: &str, symbols: &HashMap<String, LinkAddr>) -> Result<Operand, Unreadable> {
    if let Some(constant) = text.strip_prefix('$') {
        return integer_sum(constant).map(Operand::Constant).ok_or(Unreadable::NotUnderstood);
    }
    if let Some(name) = text.strip_prefix('%') {
        if let Some((segment, _)) = name.split_once(':') {
            let known = ["fs", "gs", "cs", "ds", "es", "ss"].contains(&segment);
            return Err(if known { Unreadable::Segment } else { Unreadable::NotUnderstood });
        }
        return register(name).map(Operand::Register);
    }
    memory(text, symbols).map(Operand::Memory)
}

/// What stands before the parentheses, and in them.
struct Displaced;

impl Displaced {
    /// `None` where parentheses do not close at the end.
    fn split(text: &str) -> Option<(&str, Option<&str>)> {
        match text.split_once('(') {
            None => Some((text, None)),
            Some((before, rest)) => Some((before, Some(rest.strip_suffix(')')?))),
        }
    }
}

fn memory(text: &str, symbols: &HashMap<String, LinkAddr>) -> Result<Memory, Unreadable> {
    let (before, inside) = Displaced::split(text).ok_or(Unreadable::NotUnderstood)?;
    let (displacement, is_linked) = displacement(before, symbols)?;
    let place = match inside {
        None => Some((None, None)),
        Some(inside) => registers(inside)?,
    };
    let (base, index) = match place {
        Some(place) => place,
        // `symbol(%rip)` is the symbol's own address, wherever the code stands; a bare number has no meaning outside of
        // an instruction.
        None if is_linked => (None, None),
        None => return Err(Unreadable::NotUnderstood),
    };
    if inside.is_none() && before.is_empty() {
        return Err(Unreadable::NotUnderstood);
    }
    Ok(Memory { base, index, displacement })
}

/// Base and index.
type Places = (Option<u8>, Option<(u8, u8)>);

/// `%rbp`, `%rax,%rbx,8`, `,%rbx,4`; `None` for `%rip`.
fn registers(inside: &str) -> Result<Option<Places>, Unreadable> {
    let mut parts = inside.split(',').map(str::trim);
    let base = parts.next().unwrap_or_default();
    if base == "%rip" && parts.next().is_none() {
        return Ok(None);
    }
    let mut parts = inside.split(',').map(str::trim).skip(1);
    let base = if base.is_empty() { None } else { Some(address_register(base)?) };
    let index = match parts.next() {
        None | Some("") => None,
        Some(name) => Some(address_register(name)?),
    };
    let scale = match parts.next() {
        None | Some("" | "1") => 1,
        Some("2") => 2,
        Some("4") => 4,
        Some("8") => 8,
        Some(_) => return Err(Unreadable::NotUnderstood),
    };
    // The stack pointer cannot be an index.
    if parts.next().is_some() || index == Some(4) || (base.is_none() && index.is_none()) {
        return Err(Unreadable::NotUnderstood);
    }
    Ok(Some((base, index.map(|index| (index, scale)))))
}

fn address_register(text: &str) -> Result<u8, Unreadable> {
    let name = text.strip_prefix('%').ok_or(Unreadable::NotUnderstood)?;
    match register(name)? {
        Register { number, bits: 64, .. } => Ok(number),
        _ => Err(Unreadable::Register { name: name.into() }),
    }
}

/// The sum before the parentheses, and whether a symbol is in it.
fn displacement(text: &str, symbols: &HashMap<String, LinkAddr>) -> Result<(Displacement, bool), Unreadable> {
    if text.is_empty() {
        return Ok((Displacement::Bytes(0), false));
    }
    let (mut sum, mut linked) = (0i64, None);
    for (negative, term) in terms(text).ok_or(Unreadable::NotUnderstood)? {
        if is_symbol(term) {
            if negative || linked.is_some() {
                return Err(Unreadable::NotUnderstood);
            }
            let value = symbols.get(term);
            linked = Some(*value.ok_or_else(|| Unreadable::SymbolUnknown { name: term.into() })?);
        } else {
            let value = integer(term).ok_or(Unreadable::NotUnderstood)?;
            sum = if negative { sum.wrapping_sub(value) } else { sum.wrapping_add(value) };
        }
    }
    Ok(match linked {
        Some(at) => (Displacement::Linked(LinkAddr(at.0.wrapping_add_signed(sum))), true),
        None => (Displacement::Bytes(sum), false),
    })
}

/// `a+8-4` → each term with whether it is subtracted.
fn terms(text: &str) -> Option<Vec<(bool, &str)>> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut negative = false;
    if let Some(after) = rest.strip_prefix('-') {
        (negative, rest) = (true, after);
    } else if let Some(after) = rest.strip_prefix('+') {
        rest = after;
    }
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        if end == 0 || out.len() == DISPLACEMENT_TERMS_MAX {
            return None;
        }
        out.push((negative, rest[..end].trim()));
        let Some(sign) = rest[end..].chars().next() else { return Some(out) };
        negative = sign == '-';
        rest = &rest[end + 1..];
    }
}

fn is_symbol(term: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_.$".contains(c);
    term.starts_with(|c: char| is_name(c) && !c.is_ascii_digit()) && term.chars().all(is_name)
}

/// A sum of integers.
fn integer_sum(text: &str) -> Option<i64> {
    let mut sum = 0i64;
    for (negative, term) in terms(text)? {
        let value = integer(term)?;
        sum = if negative { sum.wrapping_sub(value) } else { sum.wrapping_add(value) };
    }
    Some(sum)
}

/// Decimal, `0x` and octal, as the assembler has them; up to 2⁶⁴ - 1.
fn integer(text: &str) -> Option<i64> {
    let (digits, radix) = match text {
        _ if text.starts_with("0x") || text.starts_with("0X") => (&text[2..], 16),
        _ if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        _ => (text, 10),
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok().map(|value| value as i64)
}

/// The names of the eight old registers by size: 64, 32, 16, low 8 and high 8 bits.
const OLD: [[&str; 5]; 8] = [
    ["rax", "eax", "ax", "al", "ah"],
    ["rcx", "ecx", "cx", "cl", "ch"],
    ["rdx", "edx", "dx", "dl", "dh"],
    ["rbx", "ebx", "bx", "bl", "bh"],
    ["rsp", "esp", "sp", "spl", ""],
    ["rbp", "ebp", "bp", "bpl", ""],
    ["rsi", "esi", "si", "sil", ""],
    ["rdi", "edi", "di", "dil", ""],
];

/// Bits and lowest bit of each column of [`OLD`].
const PARTS: [(u8, u8); 5] = [(64, 0), (32, 0), (16, 0), (8, 0), (8, 8)];

/// A register by its name without the `%`.
fn register(name: &str) -> Result<Register, Unreadable> {
    for (number, names) in OLD.iter().enumerate() {
        if let Some(part) = names.iter().position(|known| *known == name && !known.is_empty()) {
            let (bits, shift) = PARTS[part];
            return Ok(Register { number: number as u8, shift, bits });
        }
    }
    let unknown = || Unreadable::Register { name: name.chars().take(20).collect() };
    let rest = name.strip_prefix('r').ok_or_else(unknown)?;
    let digits = rest.trim_end_matches(['d', 'w', 'b']);
    let bits = match &rest[digits.len()..] {
        "" => 64,
        "d" => 32,
        "w" => 16,
        "b" => 8,
        _ => return Err(unknown()),
    };
    match digits.parse() {
        Ok(number @ 8..=15) if !digits.starts_with(['0', '+']) => Ok(Register { number, shift: 0, bits }),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> HashMap<String, LinkAddr> {
        [("counter", 0x4010), ("table", 0x5000), ("a.b$1", 0x10)]
            .map(|(name, value)| (name.to_string(), LinkAddr(value)))
            .into()
    }

    /// The argument in one word: `i4 r0.32` is a signed 4-byte value in 32 bits of register 0.
    fn shown(text: &str) -> String {
        let argument = parse(text, &known());
        let place = match &argument.operand {
            Ok(Operand::Constant(value)) => format!("={value}"),
            Ok(Operand::Register(r)) => {
                format!("r{}.{}{}", r.number, r.bits, if r.shift == 0 { "" } else { "h" })
            }
            Ok(Operand::Vector(number)) => format!("xmm{number}"),
            Ok(Operand::Memory(m)) => {
                let base = m.base.map(|base| format!("r{base}"));
                let index = m.index.map(|(index, scale)| format!("r{index}*{scale}"));
                let rest = match m.displacement {
                    Displacement::Bytes(bytes) => bytes.to_string(),
                    Displacement::Linked(at) => at.to_string(),
                };
                let parts: Vec<String> = base.into_iter().chain(index).chain([rest]).collect();
                format!("[{}]", parts.join(" "))
            }
            Err(reason) => reason.code(),
        };
        format!("{}{} {place}", if argument.signed { 'i' } else { 'u' }, argument.bytes)
    }

    #[track_caller]
    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(shown(text), *expected, "{text}");
        }
    }

    #[test]
    fn general_registers_and_their_parts() {
        check(&[
            ("8@%rax", "u8 r0.64"),
            ("-8@%rdi", "i8 r7.64"),
            ("4@%ecx", "u4 r1.32"),
            ("-4@%edx", "i4 r2.32"),
            ("2@%bx", "u2 r3.16"),
            ("-1@%al", "i1 r0.8"),
            ("1@%dh", "u1 r2.8h"),
            ("1@%spl", "u1 r4.8"),
            ("1@%sil", "u1 r6.8"),
            ("8@%r8", "u8 r8.64"),
            ("-4@%r9d", "i4 r9.32"),
            ("2@%r10w", "u2 r10.16"),
            ("1@%r15b", "u1 r15.8"),
            ("%rbp", "u8 r5.64"),
        ]);
    }

    #[test]
    fn constants() {
        check(&[
            ("4@$5", "u4 =5"),
            ("-4@$-5", "i4 =-5"),
            ("8@$0x10", "u8 =16"),
            ("8@$010", "u8 =8"),
            ("-8@$-9223372036854775808", "i8 =-9223372036854775808"),
            ("8@$18446744073709551615", "u8 =-1"),
            ("4@$4+8", "u4 =12"),
        ]);
    }

    #[test]
    fn memory_by_registers() {
        check(&[
            ("-4@-20(%rbp)", "i4 [r5 -20]"),
            ("8@(%rax)", "u8 [r0 0]"),
            ("8@8(%rsp)", "u8 [r4 8]"),
            ("4@(%rax,%rdx,8)", "u4 [r0 r2*8 0]"),
            ("4@16(%rax,%rdx)", "u4 [r0 r2*1 16]"),
            ("4@4(,%r12,4)", "u4 [r12*4 4]"),
            ("1@-0x8(%r13)", "u1 [r13 -8]"),
            ("8@8+4(%rsp)", "u8 [r4 12]"),
            ("8@-8+4(%rsp)", "u8 [r4 -4]"),
            ("8@8(%rax, %rbx, 2)", "u8 [r0 r3*2 8]"),
        ]);
    }

    #[test]
    fn memory_by_symbols() {
        check(&[
            ("4@counter(%rip)", "u4 [0x4010]"),
            ("4@table+8(%rip)", "u4 [0x5008]"),
            ("4@8+table(%rip)", "u4 [0x5008]"),
            ("4@table-8(%rip)", "u4 [0x4ff8]"),
            ("4@counter", "u4 [0x4010]"),
            ("-2@table(,%rax,2)", "i2 [r0*2 0x5000]"),
            ("1@table+1(%rbx)", "u1 [r3 0x5001]"),
            ("1@a.b$1(%rip)", "u1 [0x10]"),
        ]);
    }

    #[test]
    fn floating_point_numbers() {
        check(&[
            ("8f@%xmm0", "u8 xmm0"),
            ("-4f@%xmm7", "i4 xmm7"),
            ("4f@-8(%rbp)", "u4 [r5 -8]"),
            ("-8f@%rax", "i8 r0.64"),
            ("4f@%ecx", "u4 r1.32"),
        ]);
        let argument = parse("-4f@%xmm7", &HashMap::new());
        assert_eq!((argument.is_float, argument.type_name()), (true, "float".to_owned()));
        assert_eq!(parse("8f@%xmm7", &HashMap::new()).type_name(), "double");
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        check(&[
            ("8f@%xmm8", "u8 register"),
            ("8f@%xmm00", "u8 register"),
            ("2f@%xmm0", "u2 floating-point"),
            ("8f@$0", "u8 floating-point"),
            ("8f@%eax", "u8 floating-point"),
            ("4f@%ax", "u4 floating-point"),
            ("16f@%xmm0", "u8 size"),
            ("8@%xmm0", "u8 register"),
            ("8@%st(0)", "u8 register"),
            ("8@%k1", "u8 register"),
            ("8@%fs", "u8 register"),
            ("8@%fs:-8", "u8 segment"),
            ("8@%fs:thread@tpoff", "u8 segment"),
            ("3@%rax", "u8 size"),
            ("16@%rax", "u8 size"),
            ("@%rax", "u8 size"),
            ("8@.LC0(%rip)", "u8 symbol-unknown"),
            ("8@nothing", "u8 symbol-unknown"),
            ("8@16(%rip)", "u8 not-understood"),
            ("8@8(%eax)", "u8 register"),
            ("8@(%rax,%rsp,1)", "u8 not-understood"),
            ("8@(%rax,%rbx,3)", "u8 not-understood"),
            ("8@(%rax,%rbx,1,1)", "u8 not-understood"),
            ("8@(%rax", "u8 not-understood"),
            ("8@()", "u8 not-understood"),
            ("8@(,,)", "u8 not-understood"),
            ("8@", "u8 not-understood"),
            ("8@$", "u8 not-understood"),
            ("8@$counter", "u8 not-understood"),
            ("8@$18446744073709551616", "u8 not-understood"),
            ("8@%", "u8 register"),
            ("8@%r16", "u8 register"),
            ("8@%r08", "u8 register"),
            ("8@%r8dd", "u8 register"),
            ("8@%rip", "u8 register"),
            ("8@-table(%rip)", "u8 not-understood"),
            ("8@table+counter(%rip)", "u8 not-understood"),
            ("8@1+2+3+4+5+6+7+8+9(%rax)", "u8 not-understood"),
            ("8@+(%rax)", "u8 not-understood"),
        ]);
    }

    #[test]
    fn no_text_makes_it_panic() {
        let pieces = [
            "8@", "-4@", "%", "rax", "r9d", "(", ")", ",", "$", "0x", "9", "+", "-", "é", "table", "%rip",
            " ", "@",
        ];
        let mut state = 1u64;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..8 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            let _ = (parse(&text, &known()), symbols(&text));
        }
    }
}
