//! What stands in the file: its sections by what they are for, functions, symbols, relocations.
//!
//! In: the file's bytes. Out: [`Sections`], in which every index and range was checked and every count is bounded.
//! What a relocation or a map means is not decided here.

use std::collections::BTreeMap;

use object::Endianness;
use object::elf::{
    EM_BPF, ET_REL, FileHeader64, SHF_ALLOC, SHF_EXECINSTR, SHN_COMMON, SHN_UNDEF, STT_FUNC, STT_NOTYPE,
};
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _, Sym as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget};

use crate::Insn;
use crate::btf::Btf;
use crate::btf::ext::Ext;
use crate::elf::error::{ElfError, ElfErrorKind, Result};
use crate::elf::limits;

/// Index of a section in the file.
pub(crate) type SectionIndex = usize;

#[derive(Debug, Default)]
pub(crate) struct Sections<'data> {
    pub(crate) code: BTreeMap<SectionIndex, Code>,
    pub(crate) data: BTreeMap<SectionIndex, Data<'data>>,
    /// Sections of data that cannot be used, and why.
    pub(crate) unusable: BTreeMap<SectionIndex, String>,
    /// Names of all sections, for messages.
    pub(crate) names: Vec<String>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) license: Option<String>,
    pub(crate) btf: Option<Btf>,
    pub(crate) ext: Ext,
}

/// A section of instructions.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) insns: Vec<Insn>,
    /// By slot.
    pub(crate) relocations: BTreeMap<usize, Relocation>,
    /// Ascending by start.
    pub(crate) functions: Vec<Function>,
}

/// A function: slots `start..start + count` of its section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) is_local: bool,
}

/// A section that maps are made from.
#[derive(Debug)]
pub(crate) struct Data<'data> {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) bytes: u64,
    /// None where the file has none: zeros.
    pub(crate) contents: Option<&'data [u8]>,
    /// By offset; of `.maps` alone.
    pub(crate) relocations: BTreeMap<u64, Relocation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// `.maps`: described in BTF.
    BtfMaps,
    /// `maps`: each a `struct bpf_map_def`.
    LegacyMaps,
    ReadOnly,
    Writable,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Symbol {
    /// Empty for those of sections.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) is_weak: bool,
    pub(crate) is_section: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Section(SectionIndex),
    Undefined,
    /// Absolute, common, or of a kind that is not known.
    Elsewhere,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Relocation {
    /// Number of the kind, `R_BPF_*`.
    pub(crate) kind: u32,
    /// Index into the symbols.
    pub(crate) symbol: usize,
}

type File<'data> = ElfFile64<'data, Endianness>;
type FileSection<'data, 'file> = object::read::elf::ElfSection64<'data, 'file, Endianness>;

impl<'data> Sections<'data> {
    pub(crate) fn of(bytes: &'data [u8]) -> Result<Sections<'data>> {
        let file = open(bytes)?;
        let mut sections = Sections { names: names(&file)?, ..Sections::default() };
        sections.read_symbols(&file)?;
        for section in file.sections() {
            let index = section.index().0;
            let name = sections.names.get(index).cloned().unwrap_or_default();
            sections.read_section(&section, index, &name).map_err(|error| error.in_section(&name))?;
        }
        sections.read_functions(&file)?;
        Ok(sections)
    }

    /// Name of a section, for messages.
    pub(crate) fn name(&self, index: SectionIndex) -> &str {
        self.names.get(index).map_or("?", String::as_str)
    }

    fn read_section(
        &mut self,
        section: &FileSection<'data, '_>,
        index: SectionIndex,
        name: &str,
    ) -> Result<()> {
        let header = section.elf_section_header();
        let flags = header.sh_flags(Endianness::Little);
        let is_code = flags.0 & SHF_EXECINSTR.0 != 0;
        let is_loaded = flags.0 & SHF_ALLOC.0 != 0;
        match name {
            ".BTF" if self.btf.is_some() => return Err(ElfError::malformed("a second one")),
            ".BTF.ext" if self.ext != Ext::default() => return Err(ElfError::malformed("a second one")),
            ".BTF" => self.btf = Some(Btf::parse(contents(section)?).map_err(of_btf)?),
            ".BTF.ext" => self.ext = Ext::parse(contents(section)?).map_err(of_btf)?,
            "license" => self.license = Some(license(contents(section)?)?),
            _ if is_code => {
                let code = self.code(section, name)?;
                self.code.insert(index, code);
            }
            _ if is_loaded => {
                let Some(role) = role(name) else { return Ok(()) };
                match self.data(section, name, role) {
                    Ok(data) => {
                        self.data.insert(index, data);
                    }
                    Err(error) if error.kind == ElfErrorKind::Unsupported => {
                        self.unusable.insert(index, error.message);
                    }
                    Err(error) => return Err(error),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn code(&self, section: &FileSection<'data, '_>, name: &str) -> Result<Code> {
        let bytes = contents(section)?;
        if bytes.len() % 8 != 0 {
            return Err(ElfError::malformed(format!(
                "{} bytes of code are no whole number of instructions",
                bytes.len()
            )));
        }
        let slots = bytes.len() / 8 + self.code.values().map(|code| code.insns.len()).sum::<usize>();
        check_count("instructions", slots, limits::SLOTS_MAX)?;
        let insns = bytes.chunks_exact(8).map(|slot| {
            Insn::from_bytes([slot[0], slot[1], slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]])
        });
        let mut relocations = BTreeMap::new();
        let mut count = self.code.values().map(|code| code.relocations.len()).sum::<usize>();
        for (offset, relocation) in section.relocations() {
            count += 1;
            check_count("relocations", count, limits::RELOCATIONS_MAX)?;
            if offset % 8 != 0 || offset >= bytes.len() as u64 {
                return Err(ElfError::malformed(format!(
                    "a relocation at {offset:#x}, where no instruction is"
                )));
            }
            let relocation = self.named(offset, &relocation)?;
            if relocations.insert(offset as usize / 8, relocation).is_some() {
                return Err(ElfError::malformed(format!("two relocations at {offset:#x}")));
            }
        }
        Ok(Code { name: name.to_owned(), insns: insns.collect(), relocations, functions: Vec::new() })
    }

    /// A relocation at `offset`, whose symbol is there.
    fn named(&self, offset: u64, relocation: &object::Relocation) -> Result<Relocation> {
        let found = (relocation.flags(), relocation.target());
        let (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(symbol)) = found else {
            return Err(ElfError::malformed(format!("the relocation at {offset:#x} names no symbol")));
        };
        if symbol.0 >= self.symbols.len() {
            return Err(ElfError::malformed(format!(
                "the relocation at {offset:#x} names symbol {} of {}",
                symbol.0,
                self.symbols.len()
            )));
        }
        Ok(Relocation { kind: r_type.0, symbol: symbol.0 })
    }

    fn data(&self, section: &FileSection<'data, '_>, name: &str, role: Role) -> Result<Data<'data>> {
        let mut relocations = BTreeMap::new();
        for (offset, relocation) in section.relocations() {
            let what = match role {
                Role::BtfMaps => {
                    let count = relocations.len() + 1;
                    check_count("relocations", count, limits::RELOCATIONS_MAX)?;
                    relocations.insert(offset, self.named(offset, &relocation)?);
                    continue;
                }
                Role::LegacyMaps => "values of a map that are known before it is loaded",
                Role::ReadOnly | Role::Writable => "addresses in variables",
            };
            return Err(ElfError::unsupported(format!("{what} (a relocation at {offset:#x})")));
        }
        let bytes = section.size();
        if matches!(role, Role::ReadOnly | Role::Writable) && bytes > limits::DATA_BYTES_MAX {
            return Err(ElfError::too_big("bytes", bytes, limits::DATA_BYTES_MAX));
        }
        let is_empty = section.file_range().is_none();
        let contents = if is_empty { None } else { Some(contents(section)?) };
        Ok(Data { name: name.to_owned(), role, bytes, contents, relocations })
    }

    fn read_symbols(&mut self, file: &File<'data>) -> Result<()> {
        let table = file.elf_symbol_table();
        check_count("symbols", table.len(), limits::SYMBOLS_MAX)?;
        let strings = match file.elf_section_table().section(table.string_section()) {
            Ok(section) if !table.is_empty() => section
                .data(Endianness::Little, file.data())
                .map_err(|error| ElfError::malformed(format!("the names of symbols: {error}")))?,
            _ => &[],
        };
        for symbol in table.symbols() {
            let section = symbol.st_shndx(Endianness::Little);
            let place = match section {
                SHN_UNDEF => Place::Undefined,
                SHN_COMMON => Place::Elsewhere,
                other if usize::from(other.0) < self.names.len() => Place::Section(other.0.into()),
                _ => Place::Elsewhere,
            };
            let is_section = symbol.st_type() == object::elf::STT_SECTION;
            // Names are read where they can matter: a hostile table can hold many long ones.
            let name = bounded_name(strings, symbol.st_name(Endianness::Little))?;
            self.symbols.push(Symbol {
                name,
                place,
                offset: symbol.st_value(Endianness::Little),
                bytes: symbol.st_size(Endianness::Little),
                is_weak: symbol.is_weak(),
                is_section,
            });
        }
        Ok(())
    }

    fn read_functions(&mut self, file: &File<'data>) -> Result<()> {
        for found in file.symbols().filter(|symbol| symbol.elf_symbol().st_type() == STT_FUNC) {
            let Some(symbol) = self.symbols.get(found.index().0) else { continue };
            let Place::Section(index) = symbol.place else { continue };
            let name = symbol.name.clone();
            let (offset, bytes) = (symbol.offset, symbol.bytes);
            let Some(code) = self.code.get_mut(&index) else {
                return Err(ElfError::malformed("a function in a section that holds no code")
                    .in_section(self.name(index))
                    .in_symbol(&name));
            };
            let end = offset.checked_add(bytes).filter(|end| *end <= code.insns.len() as u64 * 8);
            if end.is_none() || offset % 8 != 0 || bytes % 8 != 0 || bytes == 0 {
                let message =
                    format!("a function of {bytes} bytes at {offset:#x} in {} of code", code.insns.len() * 8);
                return Err(ElfError::malformed(message).in_section(&code.name).in_symbol(&name));
            }
            code.functions.push(Function {
                name,
                start: offset as usize / 8,
                count: bytes as usize / 8,
                is_local: found.is_local(),
            });
        }
        self.read_functions_without_type(file);
        for code in self.code.values_mut() {
            code.functions.sort_by_key(|function| function.start);
        }
        Ok(())
    }

    /// Functions by names alone, as assemblers and older compilers leave them: where no symbol of a section is a function, each
    /// that is global and of no type begins one, which goes to the next or to the end.
    fn read_functions_without_type(&mut self, file: &File<'data>) {
        let mut starts: BTreeMap<SectionIndex, Vec<(u64, String)>> = BTreeMap::new();
        let untyped = file.symbols().filter(|symbol| symbol.elf_symbol().st_type() == STT_NOTYPE);
        for found in untyped.filter(|symbol| !symbol.is_local()) {
            let Some(symbol) = self.symbols.get(found.index().0) else { continue };
            let Place::Section(index) = symbol.place else { continue };
            let is_bare = self.code.get(&index).is_some_and(|code| code.functions.is_empty());
            if is_bare && !symbol.name.is_empty() && symbol.offset.is_multiple_of(8) {
                starts.entry(index).or_default().push((symbol.offset / 8, symbol.name.clone()));
            }
        }
        for (index, mut starts) in starts {
            let Some(code) = self.code.get_mut(&index) else { continue };
            starts.sort();
            starts.dedup_by_key(|start| start.0);
            let all = code.insns.len();
            let ends = starts.iter().skip(1).map(|next| next.0 as usize).chain([all]);
            for ((start, name), end) in starts.iter().zip(ends) {
                let (start, end) = (*start as usize, end.min(all));
                if start < end {
                    let count = end - start;
                    code.functions.push(Function { name: name.clone(), start, count, is_local: false });
                }
            }
        }
    }
}

fn open(bytes: &[u8]) -> Result<File<'_>> {
    if bytes.len() > limits::FILE_BYTES_MAX {
        return Err(ElfError::too_big("bytes", bytes.len() as u64, limits::FILE_BYTES_MAX as u64));
    }
    let malformed = |error: object::Error| ElfError::malformed(format!("no object file: {error}"));
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    if endian != Endianness::Little {
        return Err(ElfError::unsupported("big-endian BPF"));
    }
    if header.e_machine(endian) != EM_BPF {
        return Err(ElfError::malformed(format!(
            "an ELF file for machine {}, not for BPF ({})",
            header.e_machine(endian).0,
            EM_BPF.0
        )));
    }
    if header.e_type(endian) != ET_REL {
        return Err(ElfError::malformed("an ELF file for BPF, but no relocatable one"));
    }
    check_count("sections", usize::from(header.e_shnum(endian)), limits::SECTIONS_MAX)?;
    File::parse(bytes).map_err(malformed)
}

/// The `.BTF` section of an ELF file of any machine.
pub(crate) fn btf(bytes: &[u8]) -> Result<Btf> {
    let file = object::File::parse(bytes)
        .map_err(|error| ElfError::malformed(format!("no object file: {error}")))?;
    let section =
        file.section_by_name(".BTF").ok_or_else(|| ElfError::malformed("it has no .BTF section"))?;
    let bytes = section.data().map_err(|error| ElfError::malformed(format!("its bytes: {error}")));
    bytes.and_then(|bytes| Btf::parse(bytes).map_err(of_btf)).map_err(|error| error.in_section(".BTF"))
}

/// Names of all sections by index, read with a bound: a hostile table of strings can make each as long as itself.
fn names(file: &File) -> Result<Vec<String>> {
    let table = file.elf_section_table();
    let header = file.elf_header();
    check_count("sections", table.len(), limits::SECTIONS_MAX)?;
    let endian = Endianness::Little;
    let strings = header
        .shstrndx(endian, file.data())
        .and_then(|index| table.section(object::SectionIndex(index as usize)))
        .and_then(|section| section.data(endian, file.data()))
        .map_err(|error| ElfError::malformed(format!("the names of sections: {error}")))?;
    table.iter().map(|section| bounded_name(strings, section.sh_name(endian))).collect()
}

fn bounded_name(strings: &[u8], offset: u32) -> Result<String> {
    if offset == 0 {
        return Ok(String::new());
    }
    let rest = strings.get(offset as usize..).unwrap_or_default();
    let most = &rest[..rest.len().min(limits::NAME_BYTES_MAX + 1)];
    let Some(end) = most.iter().position(|byte| *byte == 0) else {
        let most = limits::NAME_BYTES_MAX;
        return Err(ElfError::malformed(format!("the name at {offset:#x} does not end within {most} bytes")));
    };
    match std::str::from_utf8(&most[..end]) {
        // Names come to be printed, on terminals too.
        Ok(name) if !name.contains(char::is_control) => Ok(name.to_owned()),
        Ok(_) => Err(ElfError::malformed(format!("the name at {offset:#x} holds control characters"))),
        Err(_) => Err(ElfError::malformed(format!("the name at {offset:#x} is no UTF-8"))),
    }
}

fn role(name: &str) -> Option<Role> {
    let is = |base: &str| name == base || name.strip_prefix(base).is_some_and(|rest| rest.starts_with('.'));
    match name {
        ".maps" => Some(Role::BtfMaps),
        "maps" => Some(Role::LegacyMaps),
        _ if is(".rodata") => Some(Role::ReadOnly),
        _ if is(".data") || is(".bss") => Some(Role::Writable),
        _ => None,
    }
}

fn contents<'data>(section: &FileSection<'data, '_>) -> Result<&'data [u8]> {
    section.data().map_err(|error| ElfError::malformed(format!("its bytes: {error}")))
}

fn license(bytes: &[u8]) -> Result<String> {
    let most = &bytes[..bytes.len().min(limits::LICENSE_BYTES_MAX + 1)];
    let end = most.iter().position(|byte| *byte == 0).unwrap_or(most.len());
    check_count("bytes", end, limits::LICENSE_BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| ElfError::malformed("no UTF-8"))?;
    Ok(text.to_owned())
}

fn check_count(what: &str, count: usize, most: usize) -> Result<()> {
    if count > most { Err(ElfError::too_big(what, count as u64, most as u64)) } else { Ok(()) }
}

fn of_btf(error: crate::btf::BtfError) -> ElfError {
    ElfError::malformed(error.to_string())
}
