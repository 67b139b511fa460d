//! What `weir bpf` reads: objects, assembly text, instructions as hexadecimal digits.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, anyhow};
use weir_ebpf::btf::core::Target;
use weir_ebpf::btf::{Btf, KERNEL_BTF};
use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::{Insn, Object, Program, ProgramKind, asm};

use crate::bpf::refused;
use crate::failure::Failure;

/// How an ELF file begins.
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// Most bytes that are read of anything: what the reader of objects takes, and far more than a text needs.
const INPUT_BYTES_MAX: usize = elf::FILE_BYTES_MAX;

/// The object in a file. `btf`: a file with the types that CO-RE relocations are answered from; without it, this
/// kernel's are, if the object asks for any.
pub(super) fn file(path: &Path, btf: Option<&Path>) -> Result<ObjectFile, Failure> {
    let bytes = contents(path)?;
    if bytes.is_empty() {
        return Err(refused(&format!("{} is empty", path.display())));
    }
    let btf = match (btf, bytes.starts_with(ELF_MAGIC) && elf::needs_target(&bytes).unwrap_or(false)) {
        (Some(path), _) => Some(types(path)?),
        (None, true) if Path::new(KERNEL_BTF).exists() => Some(types(Path::new(KERNEL_BTF))?),
        (None, _) => None,
    };
    let found = object(&bytes, btf.as_ref().map(Target::new).as_ref());
    found.map_err(|error| Failure::Refused(error.context(path.display().to_string())))
}

/// The types in a file: raw, as the kernel gives its own, or the `.BTF` section of an ELF file.
fn types(path: &Path) -> Result<Btf, Failure> {
    let bytes = contents(path)?;
    let btf = if bytes.starts_with(ELF_MAGIC) {
        elf::read_btf(&bytes).map_err(|error| anyhow!(error))
    } else {
        Btf::parse(&bytes).map_err(|error| anyhow!("no BTF: {error}"))
    };
    btf.map_err(|error| Failure::Refused(error.context(path.display().to_string())))
}

fn contents(path: &Path) -> Result<Vec<u8>, Failure> {
    let open = || std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()));
    read(open().map_err(Failure::Refused)?, &path.display().to_string())
}

/// The program whose instructions `text` writes down (`-`: that standard input does), for so many bytes of memory.
pub(super) fn hex(text: &str, memory_bytes: usize) -> Result<ObjectFile, Failure> {
    let from_input;
    let digits = if text == "-" {
        from_input = read(std::io::stdin().lock(), "standard input")?;
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

fn object(bytes: &[u8], target: Option<&Target>) -> anyhow::Result<ObjectFile> {
    if bytes.starts_with(ELF_MAGIC) {
        return Ok(elf::read_for(bytes, target)?);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| anyhow!("neither an ELF object nor assembly text"))?;
    Ok(asm::parse_file(text)?)
}

fn read(input: impl std::io::Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(INPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {name}")).map_err(Failure::Refused)?;
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(refused(&format!("{name} is larger than {INPUT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
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
