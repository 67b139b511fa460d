//! Instructions → text. See the table of [`text`](super).

use std::fmt::Write as _;

use crate::opcode::{self, Opcode, Operand};
use crate::text::Form;
use crate::{Insn, ancillary};

/// The whole program. Each line ends with a line feed.
pub fn print(insns: &[Insn], form: Form) -> String {
    let mut text = String::new();
    match form {
        Form::Disassembly => {
            for (at, insn) in insns.iter().enumerate() {
                text += &insn_text(*insn, at);
                text.push('\n');
            }
        }
        Form::C => {
            for Insn { code, jt, jf, k } in insns {
                let _ = writeln!(text, "{{ {code:#x}, {jt}, {jf}, {k:#010x} }},");
            }
        }
        Form::Decimal => {
            let _ = writeln!(text, "{}", insns.len());
            for insn in insns {
                let _ = writeln!(text, "{}", numbers(*insn));
            }
        }
        Form::OneLine => {
            let _ = write!(text, "{}", insns.len());
            for insn in insns {
                let _ = write!(text, ",{}", numbers(*insn));
            }
            text.push('\n');
        }
    }
    text
}

/// The line of one instruction, the `at`th of its program, in a disassembly. Without a line feed.
pub fn insn_text(insn: Insn, at: usize) -> String {
    let unknown = Opcode { code: insn.code, mnemonic: opcode::UNKNOWN, operand: Operand::Code };
    let opcode = opcode::by_code(insn.code).unwrap_or(&unknown);
    let operand = operand(opcode.operand, insn, at);
    let mnemonic = opcode.mnemonic;
    if opcode::has_targets(insn.code) {
        let [taken, other] = [insn.jt, insn.jf].map(|skipped| at + 1 + usize::from(skipped));
        return format!("({at:03}) {mnemonic:<8} {operand:<16} jt {taken}\tjf {other}");
    }
    format!("({at:03}) {mnemonic:<8} {operand}")
}

fn operand(operand: Operand, insn: Insn, at: usize) -> String {
    let signed = insn.k as i32;
    match operand {
        Operand::None => String::new(),
        Operand::Hex => format!("#{:#x}", insn.k),
        Operand::Decimal => format!("#{signed}"),
        Operand::Memory => format!("M[{signed}]"),
        Operand::Absolute => match ancillary::at(insn.k) {
            Some(row) => format!("[{}]", row.name),
            None => format!("[{signed}]"),
        },
        Operand::Indexed => format!("[x + {signed}]"),
        Operand::HeaderLength => format!("4*([{signed}]&0xf)"),
        Operand::Length => "#pktlen".into(),
        Operand::X => "x".into(),
        // The C code's int goes round at its end.
        Operand::Target => (at as i32).wrapping_add(1).wrapping_add(signed).to_string(),
        Operand::Code => format!("{:#x}", insn.code),
    }
}

fn numbers(Insn { code, jt, jf, k }: Insn) -> String {
    format!("{code} {jt} {jf} {k}")
}
