//! Object → text. Every slot has a text: what is no instruction is printed as `.insn`.

use std::fmt::Write;

use crate::asm::{ALU_OPERATORS, ATOMICS, COMPARISONS, LOAD_ACQUIRE, STORE_RELEASE, WIDTHS};
use crate::insn::{MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use crate::{Insn, MapSpec, Object, Program, helper, kfunc};

/// The text of a whole object.
pub fn print(object: &Object) -> String {
    let mut text = String::new();
    for map in &object.maps {
        // Writing to a String cannot fail; the result is dropped for that reason here and below.
        let _ = writeln!(text, "{}", map_line(map));
    }
    for program in &object.programs {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", program_line(program));
        for (_, line) in instruction_lines(program, &object.maps) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// The text of the instruction at slot `at`, as in [`print()`] but without its number. Empty past the end.
pub fn insn_text(insns: &[Insn], at: usize, maps: &[MapSpec]) -> String {
    if at < insns.len() { line(insns, at, maps).0 } else { String::new() }
}

/// The line that defines a map.
pub(super) fn map_line(map: &MapSpec) -> String {
    let MapSpec { name, kind, key_bytes, value_bytes, max_entries, flags, extra, inner } = map;
    let (name, kind) = (quoted_unless_word(name), kind.name());
    let mut text = format!("map {name} {kind} key {key_bytes} value {value_bytes} entries {max_entries}");
    if *flags != 0 {
        let _ = write!(text, " flags {flags:#x}");
    }
    if *extra != 0 {
        let _ = write!(text, " extra {extra}");
    }
    if let Some(inner) = inner {
        let _ = write!(text, " inner {inner}");
    }
    text
}

/// The line that begins a program.
pub(super) fn program_line(program: &Program) -> String {
    format!("program {} {}", quoted(&program.name), program.kind)
}

/// The line of each instruction, with its slot.
pub(super) fn instruction_lines<'a>(
    program: &'a Program,
    maps: &'a [MapSpec],
) -> impl Iterator<Item = (usize, String)> + 'a {
    let mut next = 0;
    std::iter::from_fn(move || {
        let at = next;
        let (text, slots) = (at < program.insns.len()).then(|| line(&program.insns, at, maps))?;
        next += slots;
        Some((at, format!("{at:6}: {text}")))
    })
}

/// Text and number of slots of the instruction at `at`.
fn line(insns: &[Insn], at: usize, maps: &[MapSpec]) -> (String, usize) {
    let insn = insns[at];
    if insn.is_wide() {
        if let Some(text) = insns.get(at + 1).and_then(|second| wide(insn, *second, maps)) {
            return (text, 2);
        }
    } else if let Some(text) = narrow(insn) {
        return (text, 1);
    }
    (format!(".insn {:#x}", u64::from_le_bytes(insn.to_bytes())), 1)
}

fn wide(first: Insn, second: Insn, maps: &[MapSpec]) -> Option<String> {
    let second_is_plain = second.opcode == 0 && second.dst == 0 && second.src == 0 && second.off == 0;
    if !second_is_plain || first.off != 0 {
        return None;
    }
    let dst = register('r', first.dst)?;
    match first.src {
        pseudo::NONE => {
            let value = (second.imm as i64) << 32 | i64::from(first.imm as u32);
            Some(format!("{dst} = {} ll", hex(value)))
        }
        pseudo::MAP_INDEX if second.imm == 0 => {
            Some(format!("{dst} = map[{}] ll", map_name(first.imm, maps)?))
        }
        pseudo::MAP_INDEX_VALUE => {
            Some(format!("{dst} = map[{}][0] {} ll", map_name(first.imm, maps)?, signed(second.imm.into())))
        }
        pseudo::MAP_FD if second.imm == 0 && first.imm >= 0 => {
            Some(format!("{dst} = map_fd[{}] ll", first.imm))
        }
        pseudo::MAP_FD_VALUE if first.imm >= 0 => {
            Some(format!("{dst} = map_fd[{}][0] {} ll", first.imm, signed(second.imm.into())))
        }
        pseudo::VARIABLE if second.imm == 0 => Some(format!("{dst} = btf {} ll", hex(first.imm.into()))),
        pseudo::FUNCTION if second.imm == 0 => Some(format!("{dst} = pc{} ll", distance(first.imm.into()))),
        _ => None,
    }
}

fn narrow(insn: Insn) -> Option<String> {
    match insn.class() {
        class::ALU | class::ALU64 => arithmetic(insn),
        class::JMP | class::JMP32 => jump(insn),
        class::LD => packet(insn),
        _ => access(insn),
    }
}

fn arithmetic(insn: Insn) -> Option<String> {
    let Insn { dst, src, off, imm, .. } = insn;
    let operation = insn.opcode & 0xf0;
    let by_register = insn.opcode & source::X != 0;
    let letter = if insn.class() == class::ALU64 { 'r' } else { 'w' };
    let target = register(letter, dst)?;
    match operation {
        alu::END => {
            let name = match (insn.class(), by_register) {
                (class::ALU, false) => "le",
                (class::ALU, true) => "be",
                (_, false) => "bswap",
                (_, true) => return None,
            };
            let target = register('r', dst)?;
            let plain = src == 0 && off == 0 && matches!(imm, 16 | 32 | 64);
            plain.then(|| format!("{target} = {name}{imm} {target}"))
        }
        alu::NEG => {
            (!by_register && src == 0 && off == 0 && imm == 0).then(|| format!("{target} = -{target}"))
        }
        alu::MOV if by_register && off != 0 => {
            let from = register(letter, src)?;
            let known = matches!(off, 8 | 16) || off == 32 && letter == 'r';
            (known && imm == 0).then(|| format!("{target} = (s{off}){from}"))
        }
        _ => {
            let (_, _, operator) = ALU_OPERATORS.iter().find(|row| row.0 == operation && row.1 == off)?;
            Some(format!("{target} {operator} {}", operand(insn, letter, by_register)?))
        }
    }
}

/// The second operand: a register with `imm` 0, or an immediate with `src` 0.
fn operand(insn: Insn, letter: char, by_register: bool) -> Option<String> {
    match by_register {
        true => {
            if insn.imm == 0 {
                register(letter, insn.src)
            } else {
                None
            }
        }
        false => (insn.src == 0).then(|| hex(insn.imm.into())),
    }
}

fn jump(insn: Insn) -> Option<String> {
    let Insn { dst, src, off, imm, opcode } = insn;
    let wide = insn.class() == class::JMP;
    let no_registers = dst == 0 && src == 0;
    match opcode & 0xf8 {
        0x00 if wide => (no_registers && imm == 0).then(|| format!("goto {}", distance(off.into()))),
        0x00 => (no_registers && off == 0).then(|| format!("gotol {}", distance(imm.into()))),
        jmp::CALL if wide && dst == 0 && off == 0 => call(src, imm),
        jmp::EXIT if wide => (no_registers && off == 0 && imm == 0).then(|| "exit".to_owned()),
        _ if opcode == MAY_GOTO => {
            (no_registers && imm == 0).then(|| format!("may_goto {}", distance(off.into())))
        }
        _ => {
            let letter = if wide { 'r' } else { 'w' };
            let (_, comparison) = COMPARISONS.iter().find(|row| row.0 == opcode & 0xf0)?;
            let right = operand(insn, letter, opcode & source::X != 0)?;
            Some(format!("if {} {comparison} {right} goto {}", register(letter, dst)?, distance(off.into())))
        }
    }
}

fn call(src: u8, imm: i32) -> Option<String> {
    match src {
        pseudo::HELPER => {
            let comment = helper::kernel_name(imm).map(|name| format!(" ; {name}")).unwrap_or_default();
            Some(format!("call {}{comment}", hex(imm.into())))
        }
        pseudo::LOCAL => Some(format!("call pc{}", distance(imm.into()))),
        pseudo::KERNEL => Some(match kfunc::name(imm) {
            Some(name) => format!("call {name}"),
            None => format!("call btf {}", hex(imm.into())),
        }),
        _ => None,
    }
}

fn packet(insn: Insn) -> Option<String> {
    let Insn { dst, src, off, imm, opcode } = insn;
    let (_, width, _) = WIDTHS.iter().find(|row| row.0 == opcode & 0x18 && row.0 != size::DW)?;
    match opcode & 0xe0 {
        mode::ABS if dst == 0 && src == 0 && off == 0 => {
            Some(format!("r0 = *({width} *)skb[{}]", hex(imm.into())))
        }
        mode::IND if dst == 0 && off == 0 => {
            let and = if imm == 0 { String::new() } else { format!(" {}", signed(imm.into())) };
            Some(format!("r0 = *({width} *)skb[{}{and}]", register('r', src)?))
        }
        _ => None,
    }
}

fn access(insn: Insn) -> Option<String> {
    let Insn { dst, src, off, imm, opcode } = insn;
    let (bits, unsigned, sign_extended) = *WIDTHS.iter().find(|row| row.0 == opcode & 0x18)?;
    match (insn.class(), opcode & 0xe0) {
        (class::LDX, mode::MEM) if imm == 0 => {
            Some(format!("{} = *({unsigned} *)({})", register('r', dst)?, address(src, off)?))
        }
        (class::LDX, mode::MEMSX) if imm == 0 && bits != size::DW => {
            Some(format!("{} = *({sign_extended} *)({})", register('r', dst)?, address(src, off)?))
        }
        (class::ST, mode::MEM) if src == 0 => {
            Some(format!("*({unsigned} *)({}) = {}", address(dst, off)?, hex(imm.into())))
        }
        (class::STX, mode::MEM) if imm == 0 => {
            Some(format!("*({unsigned} *)({}) = {}", address(dst, off)?, register('r', src)?))
        }
        (class::STX, mode::ATOMIC) if imm == atomic::LOAD_ACQUIRE => {
            let target = register(half_letter(bits), dst)?;
            Some(format!("{target} = {LOAD_ACQUIRE}(({unsigned} *)({}))", address(src, off)?))
        }
        (class::STX, mode::ATOMIC) if imm == atomic::STORE_RELEASE => {
            let value = register(half_letter(bits), src)?;
            Some(format!("{STORE_RELEASE}(({unsigned} *)({}), {value})", address(dst, off)?))
        }
        (class::STX, mode::ATOMIC) if matches!(bits, size::W | size::DW) => atomically(insn, unsigned),
        _ => None,
    }
}

fn atomically(insn: Insn, width: &str) -> Option<String> {
    let Insn { dst, src, off, imm, .. } = insn;
    let (letter, suffix) = if width == "u64" { ('r', "_64") } else { ('w', "32_32") };
    let (address, value) = (address(dst, off)?, register(letter, src)?);
    match imm {
        atomic::XCHG => Some(format!("{value} = xchg{suffix}({address}, {value})")),
        atomic::CMPXCHG => Some(format!("{letter}0 = cmpxchg{suffix}({address}, {letter}0, {value})")),
        _ => {
            let (_, operator, name) = ATOMICS.iter().find(|row| row.0 == imm & !atomic::FETCH)?;
            Some(match imm & atomic::FETCH {
                0 => format!("lock *({width} *)({address}) {operator} {value}"),
                _ => format!("{value} = {name}(({width} *)({address}), {value})"),
            })
        }
    }
}

/// Ordered accesses below 64 bits name the lower half of their register.
fn half_letter(bits: u8) -> char {
    if bits == size::DW { 'r' } else { 'w' }
}

fn register(letter: char, number: u8) -> Option<String> {
    (number <= 10).then(|| format!("{letter}{number}"))
}

fn address(base: u8, off: i16) -> Option<String> {
    Some(format!("{} {}", register('r', base)?, signed(off.into())))
}

/// `+ 0x8` or `- 0x8`.
fn signed(value: i64) -> String {
    format!("{} {:#x}", if value < 0 { '-' } else { '+' }, value.unsigned_abs())
}

/// `+0x8` or `-0x8`.
fn distance(value: i64) -> String {
    format!("{}{:#x}", if value < 0 { '-' } else { '+' }, value.unsigned_abs())
}

/// `0x8` or `-0x8`.
fn hex(value: i64) -> String {
    format!("{}{:#x}", if value < 0 { "-" } else { "" }, value.unsigned_abs())
}

/// How map `index` is called between brackets. None: a negative index has no text.
fn map_name(index: i32, maps: &[MapSpec]) -> Option<String> {
    let names = maps.iter().map(|map| map.name.as_str());
    Some(reference(usize::try_from(index).ok()?, names))
}

/// How the one of `names` at `index` is called: by its number where its name is not its own, or none is there.
pub(super) fn reference<'a>(index: usize, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let unique = names.clone().nth(index).filter(|name| names.filter(|other| other == name).count() == 1);
    unique.map_or_else(|| format!("#{index}"), quoted_unless_word)
}

fn quoted_unless_word(name: &str) -> String {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || "_@$.".contains(first));
    let is_word =
        starts_well && name.chars().all(|char| char.is_ascii_alphanumeric() || "_@$.".contains(char));
    if is_word { name.to_owned() } else { quoted(name) }
}

/// In double quotes, with `\"`, `\\` and `\u{…}` for what would break the line.
pub(super) fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for char in name.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            char if char.is_control() => {
                let _ = write!(text, "\\u{{{:x}}}", u32::from(char));
            }
            char => text.push(char),
        }
    }
    text.push('"');
    text
}
