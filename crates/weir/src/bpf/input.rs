//! What `weir bpf` reads beside objects: instructions and memory as hexadecimal digits.

use weir_ebpf::elf::ObjectFile;
use weir_ebpf::{Insn, Object, Program, ProgramKind};
use weir_run::object::{INPUT_BYTES_MAX, contents_of};

use crate::bpf::refused;
use crate::failure::Failure;

/// The program whose instructions `text` writes down (`-`: that standard input does), for so many bytes of memory.
pub(super) fn hex(text: &str, memory_bytes: usize) -> Result<ObjectFile, Failure> {
    let from_input;
    let digits = if text == "-" {
        from_input = contents_of(std::io::stdin().lock(), "standard input")?;
        std::str::from_utf8(&from_input).map_err(|_| refused("standard input is no text"))?
    } else {
        text
    };
    let bytes = bytes(digits)?;
    if bytes.is_empty() || bytes.len() % 8 != 0 {
        return Err(refused(&format!("{} bytes are no whole number of instructions of 8", bytes.len())));
    }
    let insns = bytes.chunks_exact(8).map(|slot| {
        Insn::from_bytes([slot[0], slot[1], slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]])
    });
    let kind = ProgramKind::Memory { bytes: memory_bytes as u32 };
    let program = Program { name: "program".into(), kind, insns: insns.collect() };
    Ok(ObjectFile::of(Object { maps: Vec::new(), programs: vec![program] }))
}

/// Pairs of digits, with blanks wherever.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Failure> {
    if text.len() > INPUT_BYTES_MAX {
        return Err(refused(&format!("more than {INPUT_BYTES_MAX} hexadecimal digits")));
    }
    let mut digits = Vec::new();
    for char in text.chars().filter(|char| !char.is_whitespace()) {
        let digit = char.to_digit(16);
        digits.push(digit.ok_or_else(|| refused(&format!("{char:?} is no hexadecimal digit")))? as u8);
    }
    if digits.len() % 2 != 0 {
        return Err(refused(&format!("{} hexadecimal digits are no whole number of bytes", digits.len())));
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_pairs_with_blanks() {
        let check =
            |text: &str, wanted: Option<&[u8]>| assert_eq!(bytes(text).ok().as_deref(), wanted, "{text}");
        check("95 00\n0aFF", Some(&[0x95, 0, 0x0a, 0xff]));
        check("", Some(&[]));
        check("123", None);
        check("0x12", None);
        check("zz", None);
    }
}
