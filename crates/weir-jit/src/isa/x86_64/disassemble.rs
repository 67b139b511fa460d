//! The text of `--emit asm`: machine code in AT&T syntax with where it came from.
//!
//! One line per x86 instruction: offset, bytes, instruction, and as comment the symbol of a relocation or one of
//! the named exceptions (system call for `tid`, `comm`, read that may be slow). Before the code of each bpf
//! instruction stands its text; behind the text the restartable sections' descriptors, as data.
//!
//! In: an executable and the object that its program comes from (for names). Not meant to be parsed back.

use std::fmt::Write;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, Register};
use weir_ebpf::{Insn, Object, helper};
use weir_rt::executable::{Executable, Symbol};

/// Bytes shown before the instruction column; the longest common form, `movabs`, has 10.
const BYTES_SHOWN: usize = 10;

/// The text of `executable`. The object's program of the same name gives the bpf instructions, its maps the
/// names; where they are missing, so is the text.
pub fn disassemble(executable: &Executable, object: &Object) -> String {
    let insns = object
        .programs
        .iter()
        .find(|program| program.name == executable.name)
        .map_or(&[][..], |program| &program.insns);
    let mut out = String::new();
    // SANITY: writing to a String cannot fail.
    write_header(&mut out, executable).expect("write to a string");
    write_text(&mut out, executable, insns, object).expect("write to a string");
    write_data(&mut out, executable).expect("write to a string");
    out
}

fn write_header(out: &mut String, executable: &Executable) -> std::fmt::Result {
    writeln!(out, "# {}", executable.name)?;
    write!(out, "# changes:")?;
    for (_, name) in REGISTERS.iter().enumerate().filter(|(number, _)| executable.clobbers >> number & 1 != 0)
    {
        write!(out, " {name}")?;
    }
    writeln!(out, "{}", if executable.clobbers_flags { " flags" } else { "" })?;
    if executable.may_misalign {
        writeln!(out, "# accesses words at any address")?;
    }
    writeln!(out, "# stack: {} bytes", executable.stack_bytes)
}

/// In x86 encoding order.
const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

fn write_text(
    out: &mut String,
    executable: &Executable,
    insns: &[Insn],
    object: &Object,
) -> std::fmt::Result {
    let text = &executable.code[..executable.text_bytes as usize];
    let mut decoder = Decoder::new(64, text, DecoderOptions::NONE);
    let mut formatter = formatter();
    if executable.origins.first().is_some_and(|origin| origin.0 > 0) {
        writeln!(out, "; entry")?;
    }
    let mut origins = executable.origins.iter().peekable();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let start = instruction.ip() as usize;
        while let Some(&(_, insn)) = origins.next_if(|origin| origin.0 as usize <= start) {
            let text = insn_text(insns, insn as usize, object);
            writeln!(out, "; {insn}: {text}")?;
        }
        let bytes = &text[start..start + instruction.len()];
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        let line = with_signed_thread_offset(line, &instruction);
        let comment = match instruction.mnemonic() {
            Mnemonic::Ud1 => Some("signature of the abort handler that follows".to_owned()),
            _ => comment(executable, start, bytes.len(), object),
        };
        write!(out, "{start:6x}:  {:<width$}  ", hex(bytes), width = 3 * BYTES_SHOWN)?;
        match comment {
            Some(comment) => writeln!(out, "{line:<40} # {comment}")?,
            None => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}

/// As objdump writes: suffixes, lower-case numbers, `(%rip)`.
fn formatter() -> GasFormatter {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_gas_show_mnemonic_size_suffix(true);
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_space_after_operand_separator(true);
    formatter
}

/// `%fs:-0x98` instead of 64 bits with leading ones.
fn with_signed_thread_offset(line: String, instruction: &Instruction) -> String {
    let offset = instruction.memory_displacement64() as i64;
    if instruction.segment_prefix() != Register::FS || offset >= 0 {
        return line;
    }
    line.replace(&format!("%fs:{offset:#x}"), &format!("%fs:-{:#x}", offset.unsigned_abs()))
}

fn insn_text(insns: &[Insn], index: usize, object: &Object) -> String {
    if index < insns.len() { weir_ebpf::asm::insn_text(insns, index, &object.maps) } else { String::new() }
}

/// What the relocation in `start..start + len` refers to.
fn comment(executable: &Executable, start: usize, len: usize, object: &Object) -> Option<String> {
    let inside = start..start + len;
    let relocation = executable.relocations.iter().find(|r| inside.contains(&(r.offset as usize)))?;
    let map = |index: u32| {
        object
            .maps
            .get(index as usize)
            .map_or_else(|| format!("map {index}"), |map| format!("map {}", map.name))
    };
    Some(match relocation.symbol {
        Symbol::Map(index) => map(index),
        Symbol::MapData(index) => format!("{} data + {}", map(index), relocation.addend),
        Symbol::Helper(id) => {
            let name = helper::by_id(id).map_or_else(|| id.to_string(), |proto| proto.name.to_owned());
            format!("helper {name}{}", exception(id))
        }
        Symbol::Runtime(function) => format!("runtime {}", function.name()),
        Symbol::Claims => "claims of lanes".to_owned(),
        Symbol::Programs => "programs".to_owned(),
        Symbol::Filter => "word of the system call filter".to_owned(),
        Symbol::Code(offset) => format!("code {offset:#x}"),
    })
}

/// The mark of a helper that is one of the exceptions from "no system call on the hit path".
fn exception(id: weir_ebpf::HelperId) -> &'static str {
    match id {
        helper::GET_CURRENT_PID_TGID => " (exception: tid is a system call)",
        helper::GET_CURRENT_COMM => " (exception: comm is a system call)",
        helper::PROBE_READ
        | helper::PROBE_READ_STR
        | helper::PROBE_READ_USER
        | helper::PROBE_READ_USER_STR
        | helper::PROBE_READ_KERNEL
        | helper::PROBE_READ_KERNEL_STR
        | helper::COPY_FROM_USER => " (exception: may be a slow read)",
        helper::SNPRINTF | helper::TRACE_PRINTK | helper::TRACE_VPRINTK => {
            " (exception: a string is a slow read)"
        }
        helper::GET_STACK | helper::GET_STACKID => " (exception: frames may be slow reads)",
        helper::PROBE_WRITE_USER => " (exception: a slow write)",
        helper::GET_CURRENT_UID_GID
        | helper::GET_NS_CURRENT_PID_TGID
        | helper::SEND_SIGNAL
        | helper::SEND_SIGNAL_THREAD => " (exception: a system call)",
        _ => "",
    }
}

fn write_data(out: &mut String, executable: &Executable) -> std::fmt::Result {
    let start = executable.text_bytes as usize;
    let data = &executable.code[start..];
    if data.is_empty() {
        return Ok(());
    }
    writeln!(out, "; restartable sections: version and flags, start, length, abort")?;
    let descriptors = start.next_multiple_of(32);
    for (index, word) in executable.code[descriptors..].chunks_exact(8).enumerate() {
        let at = descriptors + 8 * index;
        let value = u64::from_le_bytes(std::array::from_fn(|byte| word[byte]));
        let relocation = executable.relocations.iter().find(|r| r.offset as usize == at);
        match relocation.map(|relocation| relocation.symbol) {
            Some(Symbol::Code(target)) => writeln!(out, "{at:6x}:  .quad code + {target:#x}")?,
            _ => writeln!(out, "{at:6x}:  .quad {value:#x}")?,
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}
