//! Text → instructions. See the table of [`text`](super).

use crate::opcode::{self, Opcode, Operand};
use crate::text::cursor::Cursor;
use crate::text::{Error, Form};
use crate::{Insn, ancillary};

/// The instructions that `text` is in `form`; the first fault otherwise.
pub fn parse(text: &str, form: Form) -> Result<Vec<Insn>, Error> {
    let mut cursor = Cursor::new(text);
    match form {
        Form::Disassembly => disassembly(&mut cursor),
        Form::C => initialisers(&mut cursor),
        Form::Decimal => decimal(&mut cursor),
        Form::OneLine => one_line(&mut cursor),
    }
}

/// The form that a text must be in, if it is in one: by its first characters.
pub fn guess(text: &str) -> Form {
    let text = text.trim_start();
    match text.chars().next() {
        Some('(') => Form::Disassembly,
        Some('{') => Form::C,
        _ if text.lines().next().is_some_and(|line| line.contains(',')) => Form::OneLine,
        _ => Form::Decimal,
    }
}

fn disassembly(cursor: &mut Cursor<'_>) -> Result<Vec<Insn>, Error> {
    let mut insns = Vec::new();
    loop {
        cursor.skip_space();
        if cursor.is_at_end() {
            return Ok(insns);
        }
        insns.push(line(cursor, insns.len())?);
        cursor.skip_blanks();
        if !cursor.is_at_line_end() {
            return Err(cursor.error("the end of the line"));
        }
    }
}

/// `(000) jeq      #0x800           jt 2 jf 12`
fn line(cursor: &mut Cursor<'_>, at: usize) -> Result<Insn, Error> {
    cursor.expect("(")?;
    cursor.number("the number of this instruction", at as i64, at as i64)?;
    cursor.expect(")")?;
    cursor.skip_blanks();
    let begin = cursor.offset();
    let mnemonic = cursor.word("a mnemonic, such as `ld`")?;
    let is_known = mnemonic == opcode::UNKNOWN || opcode::ALL.iter().any(|row| row.mnemonic == mnemonic);
    if !is_known {
        return Err(cursor.error_at(begin, "a mnemonic, such as `ld`"));
    }
    cursor.skip_blanks();
    let begin = cursor.offset();
    let (operand, k) = match mnemonic {
        "ja" => (Operand::Target, target(cursor, at)?),
        opcode::UNKNOWN => (Operand::Code, cursor.number("a code", 0, u16::MAX.into())? as u32),
        _ => operand(cursor)?,
    };
    let (code, k) = if operand == Operand::Code {
        (k as u16, 0)
    } else {
        let is_meant = |row: &&Opcode| row.mnemonic == mnemonic && class_of(row.operand) == operand;
        let row = opcode::ALL.iter().find(is_meant);
        let row = row.ok_or_else(|| cursor.error_at(begin, format!("an operand that {mnemonic} takes")))?;
        (row.code, k)
    };
    let (mut jt, mut jf) = (0, 0);
    if opcode::has_targets(code) {
        jt = skipped(cursor, "jt", at)?;
        jf = skipped(cursor, "jf", at)?;
    }
    Ok(Insn { code, jt, jf, k })
}

/// Both ways to write a number mean the same.
fn class_of(operand: Operand) -> Operand {
    if operand == Operand::Decimal { Operand::Hex } else { operand }
}

fn operand(cursor: &mut Cursor<'_>) -> Result<(Operand, u32), Error> {
    const EXPECTED: &str = "an operand: `#1`, `#pktlen`, `x`, `M[1]`, `[1]`, `[x + 1]` or `4*([1]&0xf)`";
    if cursor.is_at_line_end() {
        Ok((Operand::None, 0))
    } else if cursor.take("#pktlen") {
        Ok((Operand::Length, 0))
    } else if cursor.take("#") {
        Ok((Operand::Hex, word(cursor)?))
    } else if cursor.take("M[") {
        closed(cursor, Operand::Memory, "]")
    } else if cursor.take("[") {
        packet_offset(cursor)
    } else if cursor.take("4*([") {
        closed(cursor, Operand::HeaderLength, "]&0xf)")
    } else if cursor.take("x") {
        Ok((Operand::X, 0))
    } else {
        Err(cursor.error(EXPECTED))
    }
}

fn closed(cursor: &mut Cursor<'_>, operand: Operand, end: &str) -> Result<(Operand, u32), Error> {
    let k = word(cursor)?;
    cursor.expect(end)?;
    Ok((operand, k))
}

/// `[12]`, `[vlanp]` or `[x + 14]`, after the bracket.
fn packet_offset(cursor: &mut Cursor<'_>) -> Result<(Operand, u32), Error> {
    for row in ancillary::ALL {
        if cursor.take(&format!("{}]", row.name)) {
            return Ok((Operand::Absolute, ancillary::BASE + row.offset));
        }
    }
    if cursor.take("x") {
        cursor.expect("+")?;
        return closed(cursor, Operand::Indexed, "]");
    }
    closed(cursor, Operand::Absolute, "]")
}

/// `k` as signed or unsigned number.
fn word(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    Ok(cursor.number("an operand", i32::MIN.into(), u32::MAX.into())? as u32)
}

/// The distance to the instruction whose number stands here.
fn target(cursor: &mut Cursor<'_>, at: usize) -> Result<u32, Error> {
    let target = cursor.number("the number of an instruction", i32::MIN.into(), i32::MAX.into())?;
    Ok((target as i32).wrapping_sub(at as i32 + 1) as u32)
}

/// `jt 12`, as the number of instructions that are skipped to go there.
fn skipped(cursor: &mut Cursor<'_>, word: &str, at: usize) -> Result<u8, Error> {
    cursor.expect(word)?;
    let first = at as i64 + 1;
    let what = format!("an instruction that {word} can reach from here");
    Ok((cursor.number(&what, first, first + i64::from(u8::MAX))? - first) as u8)
}

fn initialisers(cursor: &mut Cursor<'_>) -> Result<Vec<Insn>, Error> {
    let mut insns = Vec::new();
    loop {
        cursor.skip_space();
        if cursor.is_at_end() {
            return Ok(insns);
        }
        cursor.expect("{")?;
        insns.push(numbers(cursor, ",")?);
        cursor.expect("}")?;
        cursor.skip_space();
        if !cursor.take(",") && !cursor.is_at_end() {
            return Err(cursor.error("`,`"));
        }
    }
}

fn decimal(cursor: &mut Cursor<'_>) -> Result<Vec<Insn>, Error> {
    cursor.skip_space();
    let count = count(cursor)?;
    let mut insns = Vec::new();
    for _ in 0..count {
        cursor.skip_blanks();
        if !cursor.is_at_line_end() {
            return Err(cursor.error("the end of the line"));
        }
        cursor.skip_space();
        insns.push(numbers(cursor, "")?);
    }
    end(cursor, count)?;
    Ok(insns)
}

fn one_line(cursor: &mut Cursor<'_>) -> Result<Vec<Insn>, Error> {
    cursor.skip_space();
    let count = count(cursor)?;
    let mut insns = Vec::new();
    for _ in 0..count {
        cursor.expect(",")?;
        insns.push(numbers(cursor, "")?);
    }
    cursor.skip_blanks();
    cursor.take(",");
    end(cursor, count)?;
    Ok(insns)
}

fn count(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    Ok(cursor.number("the number of instructions", 0, u32::MAX.into())? as u32)
}

fn end(cursor: &mut Cursor<'_>, count: u32) -> Result<(), Error> {
    cursor.skip_space();
    if cursor.is_at_end() {
        return Ok(());
    }
    Err(cursor.error(format!("the end, after {count} instructions as the first number says")))
}

/// `code jt jf k`, with `between` between them.
fn numbers(cursor: &mut Cursor<'_>, between: &str) -> Result<Insn, Error> {
    let code = cursor.number("the code", 0, u16::MAX.into())? as u16;
    cursor.expect(between)?;
    let jt = cursor.number("jt", 0, u8::MAX.into())? as u8;
    cursor.expect(between)?;
    let jf = cursor.number("jf", 0, u8::MAX.into())? as u8;
    cursor.expect(between)?;
    let k = cursor.number("k", i32::MIN.into(), u32::MAX.into())? as u32;
    Ok(Insn { code, jt, jf, k })
}
