//! eBPF objects from files: read, with what depends on a kernel's types, and verified.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use weir_ebpf::asm;
use weir_ebpf::btf::core::Target;
use weir_ebpf::btf::{Btf, KERNEL_BTF};
use weir_ebpf::elf::{self, ObjectFile};
use weir_rt::local;
use weir_rt::segment::map_fault;
use weir_verifier::{Limits, Maps, Rejection, States, VerifiedProgram};

use crate::failure::Failure;

/// How an ELF file begins.
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// Most bytes that are read of anything: what the reader of objects takes, and far more than a text needs.
pub const INPUT_BYTES_MAX: usize = elf::FILE_BYTES_MAX;

/// The object in a file. `btf`: a file with the types that CO-RE relocations are answered from; without it, this
/// kernel's are, if the object asks for any.
pub fn read(path: &Path, btf: Option<&Path>) -> Result<ObjectFile, Failure> {
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
    contents_of(open().map_err(Failure::Refused)?, &path.display().to_string())
}

fn object(bytes: &[u8], target: Option<&Target>) -> anyhow::Result<ObjectFile> {
    let mut file = if bytes.starts_with(ELF_MAGIC) {
        elf::read_on(bytes, elf::System { target, kernel_version: local::kernel_version })?
    } else {
        let text =
            std::str::from_utf8(bytes).map_err(|_| anyhow!("neither an ELF object nor assembly text"))?;
        asm::parse_file(text)?
    };
    // What is wrong with one map is no matter of programs that do not use it.
    file.leave_out_maps(map_fault);
    Ok(file)
}

/// All bytes of `input`, which messages call `name`.
pub fn contents_of(input: impl std::io::Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(INPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {name}")).map_err(Failure::Refused)?;
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(refused(&format!("{name} is larger than {INPUT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Verifies one program of a file. The message of a refusal ends in the source line.
pub fn verify_one(file: &ObjectFile, index: usize) -> Result<VerifiedProgram, Failure> {
    verify_within(file, index, &Limits::default())
}

/// The same with limits of the caller's.
pub fn verify_within(file: &ObjectFile, index: usize, limits: &Limits) -> Result<VerifiedProgram, Failure> {
    check_section(file, index)?;
    let frozen = file.frozen();
    let maps = Maps::frozen(&file.object.maps, &frozen);
    let verdict = weir_verifier::verify(&file.object.programs[index], maps, limits);
    verdict.map_err(|rejection| refused_at(&rejection, file, index))
}

/// The same, and what was known at each instruction, which takes time to note.
pub fn observe_one(
    file: &ObjectFile,
    index: usize,
    limits: &Limits,
) -> (Result<VerifiedProgram, Failure>, States) {
    if let Err(refusal) = check_section(file, index) {
        return (Err(refusal), States::default());
    }
    let frozen = file.frozen();
    let (program, maps) = (&file.object.programs[index], Maps::frozen(&file.object.maps, &frozen));
    let (verdict, states) = weir_verifier::verify_observed(program, maps, limits);
    (verdict.map_err(|rejection| refused_at(&rejection, file, index)), states)
}

/// What the section of a program says that it is run for is something that weir has.
pub fn check_section(file: &ObjectFile, index: usize) -> Result<(), Failure> {
    file.other_context(index).map_or(Ok(()), |message| Err(refused(&message)))
}

fn refused_at(rejection: &Rejection, file: &ObjectFile, index: usize) -> Failure {
    refused(&format!("{rejection}{}", file.about(index, rejection.at)))
}

fn refused(message: &str) -> Failure {
    Failure::Refused(anyhow!("{message}"))
}
