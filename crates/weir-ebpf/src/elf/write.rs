//! Writes an [`ObjectFile`] as libbpf and bpftool load it.
//!
//! In: an object with its sections and license. Out: the bytes of a relocatable ELF file:
//! - each program section as the object names it, its programs one after the other, each a global function; their
//!   subprograms in `.text`, each program its own;
//! - `.maps`, described in BTF, for the maps that programs name as maps, with the programs in their slots;
//! - `.data.NAME` (`.rodata.NAME` if read-only) for arrays with one entry whose value programs address directly;
//! - `license`, `.BTF`, `.symtab`, and a table of relocations for each program section.
//!
//! Names become C identifiers, as the kernel wants them: what is no letter, digit or underscore is left out at the
//! ends and an underscore elsewhere; a number tells equal ones apart.
//!
//! `.BTF.ext` is there if a program has callbacks, and says then of every function whether it is a program's.
//!
//! Deliberately not here: line information.

mod code;

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use crate::btf::{Builder, Kind, TypeId, ext};
use crate::elf::{ObjectFile, limits};
use crate::insn::pseudo;
use crate::map::flag;
use crate::{MapKind, MapSpec};

/// Why an object cannot be a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error("program `{program}`, instruction {at}: {what}")]
    Program { program: String, at: usize, what: &'static str },
    #[error("map `{map}`: {what}")]
    Map { map: String, what: &'static str },
}

/// The bytes of the object file.
pub fn write(file: &ObjectFile) -> Result<Vec<u8>, WriteError> {
    let maps = maps(file)?;
    let mut out = Writer { names: maps.iter().map(|map| map.name.clone()).collect(), ..Writer::default() };
    // The numbers of symbols are known before programs are written: maps come first.
    let symbols: Vec<u32> = out.add_maps(&maps, file);
    for section in sections(file) {
        out.add_code(file, section, &symbols)?;
    }
    out.add_slots(&maps, &symbols);
    out.add_relocations();
    let license = file.license.as_deref().unwrap_or("GPL");
    let index = out.section("license", elf::SHT_PROGBITS, elf::SHF_ALLOC.0 | elf::SHF_WRITE.0, 1);
    out.sections[index].bytes = [license.as_bytes(), b"\0"].concat();
    let index = out.section(".BTF", elf::SHT_PROGBITS, 0, 4);
    let mut builder = Builder::default();
    // Bits 0..8 of the word: how many bits; from 24: signed.
    let int = builder.add("int", Kind::Int, 4, &[1 << 24 | 32]);
    describe_maps(&mut builder, int, &maps);
    let functions = describe_functions(&mut builder, int, &out.functions);
    let calls_back = file.object.programs.iter().flat_map(|program| &program.insns).any(code::is_address);
    let ext = calls_back.then(|| out.function_information(&mut builder, &functions));
    out.sections[index].bytes = builder.finish().to_bytes();
    if let Some(ext) = ext {
        let index = out.section(".BTF.ext", elf::SHT_PROGBITS, 0, 4);
        out.sections[index].bytes = ext;
    }
    Ok(out.finish())
}

/// A map as it is written.
struct Map<'a> {
    spec: &'a MapSpec,
    /// An identifier.
    name: String,
    is_data: bool,
    /// Slots that programs are in.
    programs: &'a [(u32, usize)],
}

impl Map<'_> {
    /// Bytes of the variable that describes it: what every one has, and a pointer for each slot up to the last one
    /// filled.
    fn variable_bytes(&self) -> u32 {
        let slots = self.programs.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
        MAP_VARIABLE_BYTES + 8 * slots
    }

    fn is_read_only(&self) -> bool {
        self.spec.has(flag::RDONLY_PROG)
    }

    /// The section of a map that is data. One that was read as `.data` or `.rodata.x` gets its name again.
    fn section(&self) -> String {
        let base = if self.is_read_only() { ".rodata" } else { ".data" };
        let is_own =
            self.spec.name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if is_own { self.spec.name.clone() } else { format!("{base}.{}", self.name) }
    }
}

/// The section whose functions are no programs, if there are others.
const SUBPROGRAMS: &str = ".text";

/// Bytes of a variable that describes a map: one pointer each for kind, entries, key, value, flags and extra.
const MAP_VARIABLE_BYTES: u32 = 48;

fn maps(file: &ObjectFile) -> Result<Vec<Map<'_>>, WriteError> {
    let mut names = BTreeSet::new();
    let mut maps = Vec::with_capacity(file.object.maps.len());
    for (index, spec) in file.object.maps.iter().enumerate() {
        let origin = file.maps.get(index);
        let is_named = |src| {
            let insns = file.object.programs.iter().flat_map(|program| &program.insns);
            insns.filter(|insn| insn.is_wide() && insn.src == src).any(|insn| insn.imm as usize == index)
        };
        let has_contents = origin.is_some_and(|origin| origin.initial.is_some());
        let is_data = has_contents || is_named(pseudo::MAP_INDEX_VALUE);
        let refuse = |what| Err(WriteError::Map { map: spec.name.clone(), what });
        if spec.inner.is_some() {
            return refuse("it holds maps, whose definition weir does not write");
        }
        if is_data && (spec.kind != MapKind::Array || spec.max_entries != 1) {
            return refuse(
                "its value is addressed directly, which a file can say of arrays with one entry alone",
            );
        }
        if is_data && is_named(pseudo::MAP_INDEX) {
            return refuse(
                "it is named as a map and its value is addressed directly; a file can say one of both",
            );
        }
        let in_section = [".data.", ".rodata."].iter().find_map(|section| spec.name.strip_prefix(section));
        let base = in_section.filter(|_| is_data).unwrap_or(&spec.name);
        let programs = origin.map_or(&[][..], |origin| &origin.programs);
        if programs.iter().any(|(slot, program)| {
            *slot >= limits::PROGRAM_SLOTS_IN_MAP_MAX || *program >= file.object.programs.len()
        }) {
            return refuse("a slot, or the program in it, is not there");
        }
        maps.push(Map { spec, name: identifier(base, &mut names), is_data, programs });
    }
    Ok(maps)
}

/// Names of program sections, each once, in the order of the programs.
fn sections(file: &ObjectFile) -> Vec<&str> {
    let mut sections: Vec<&str> = Vec::new();
    for origin in &file.programs {
        if !sections.contains(&origin.section.as_str()) {
            sections.push(&origin.section);
        }
    }
    sections
}

/// What the kernel accepts as a name, and no other has yet.
fn identifier(name: &str, taken: &mut BTreeSet<String>) -> String {
    let replaced: String =
        name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect();
    let trimmed = replaced.trim_matches('_');
    let base = match trimmed.chars().next() {
        None => "m".to_owned(),
        Some('0'..='9') => format!("m_{trimmed}"),
        Some(_) => trimmed.to_owned(),
    };
    let mut name = base.clone();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{base}_{number}");
    }
    name
}

/// The types of what has a symbol, which libbpf's linker looks up: `struct { int (*type)[1]; … } NAME` in the section
/// `.maps`, `char NAME[24]` in `.data.NAME`, and `int NAME(void *ctx)` of each program.
fn describe_maps(builder: &mut Builder, int: TypeId, maps: &[Map]) {
    let mut variables = Vec::new();
    let mut end = 0;
    for map in maps.iter().filter(|map| !map.is_data) {
        let fields = [
            ("type", map.spec.kind as u32),
            ("max_entries", map.spec.max_entries),
            ("key_size", map.spec.key_bytes),
            ("value_size", map.spec.value_bytes),
            // No kernel takes BTF with weir's own in it.
            ("map_flags", map.spec.kernel_flags()),
            ("map_extra", map.spec.extra as u32),
        ];
        // What older libbpf does not know is written where it says something.
        let fields = fields.into_iter().filter(|(name, value)| *name != "map_extra" || *value != 0);
        let mut members = Vec::new();
        for (index, (name, value)) in fields.enumerate() {
            let array = builder.add("", Kind::Array, 0, &[int, int, value]);
            let pointer = builder.add("", Kind::Pointer, array, &[]);
            members.extend([builder.string(name), pointer, index as u32 * 64]);
        }
        if !map.programs.is_empty() {
            let prototype = builder.add("", Kind::Prototype, int, &[]);
            let pointer = builder.add("", Kind::Pointer, prototype, &[]);
            let slots = builder.add("", Kind::Array, 0, &[pointer, int, 0]);
            members.extend([builder.string("values"), slots, MAP_VARIABLE_BYTES * 8]);
        }
        let described: TypeId = builder.add("", Kind::Struct, MAP_VARIABLE_BYTES, &members);
        // Linkage 1: a global variable, which libbpf insists on.
        let variable = builder.add(&map.name, Kind::Variable, described, &[1]);
        variables.extend([variable, end, map.variable_bytes()]);
        end += map.variable_bytes();
    }
    if !variables.is_empty() {
        builder.add(".maps", Kind::Section, end, &variables);
    }
    let char = builder.add("char", Kind::Int, 1, &[1 << 24 | 8]);
    for map in maps.iter().filter(|map| map.is_data) {
        let bytes = map.spec.value_bytes;
        let array = builder.add("", Kind::Array, 0, &[char, int, bytes]);
        let variable = builder.add(&map.name, Kind::Variable, array, &[1]);
        builder.add(&map.section(), Kind::Section, bytes, &[variable, 0, bytes]);
    }
}

/// The types of the functions, in their order.
fn describe_functions(builder: &mut Builder, int: TypeId, functions: &[Function]) -> Vec<TypeId> {
    let context = builder.add("", Kind::Pointer, 0, &[]);
    let parameter = builder.string("ctx");
    let prototype = builder.add("", Kind::Prototype, int, &[parameter, context]);
    let add = |function: &Function| match function.program.is_some() {
        true => builder.add_function(&function.name, prototype),
        false => builder.add_static_function(&function.name, prototype),
    };
    functions.iter().map(add).collect()
}

/// Sections and symbols as they come.
#[derive(Default)]
struct Writer {
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    functions: Vec<Function>,
    /// Of symbols, so that none is there twice.
    names: BTreeSet<String>,
}

struct Section {
    name: String,
    kind: elf::SectionType,
    flags: u64,
    align: u64,
    /// The section that relocations are for, by index in `sections`.
    about: Option<usize>,
    bytes: Vec<u8>,
    /// As they stand in the table of relocations for this section.
    relocations: Vec<u8>,
}

/// A program, or a function of one.
struct Function {
    name: String,
    /// Index in `sections`, and bytes from its start.
    section: usize,
    offset: u64,
    symbol: u32,
    /// Index of the program that begins with it.
    program: Option<usize>,
}

struct Symbol {
    name: String,
    /// Index in `sections`.
    section: usize,
    offset: u64,
    bytes: u64,
    kind: elf::SymbolType,
}

impl Writer {
    fn section(&mut self, name: &str, kind: elf::SectionType, flags: u64, align: u64) -> usize {
        let name = name.into();
        self.sections.push(Section {
            name,
            kind,
            flags,
            align,
            about: None,
            bytes: Vec::new(),
            relocations: Vec::new(),
        });
        self.sections.len() - 1
    }

    /// Adds a global symbol; its number in the file, where the first is the empty one.
    fn symbol(&mut self, symbol: Symbol) -> u32 {
        self.symbols.push(symbol);
        self.symbols.len() as u32
    }

    /// Adds the sections of the maps; the symbol of each map.
    fn add_maps(&mut self, maps: &[Map], file: &ObjectFile) -> Vec<u32> {
        let flags = elf::SHF_ALLOC.0 | elf::SHF_WRITE.0;
        let described = maps.iter().filter(|map| !map.is_data);
        let bytes: u32 = described.map(Map::variable_bytes).sum();
        let mut offset = 0;
        let definitions = (bytes > 0).then(|| self.section(".maps", elf::SHT_PROGBITS, flags, 8));
        if let Some(section) = definitions {
            self.sections[section].bytes = vec![0; bytes as usize];
        }
        let mut symbols = Vec::with_capacity(maps.len());
        for (index, map) in maps.iter().enumerate() {
            let (section, at, bytes) = match definitions {
                Some(section) if !map.is_data => {
                    let bytes = map.variable_bytes();
                    offset += u64::from(bytes);
                    (section, offset - u64::from(bytes), bytes)
                }
                _ => {
                    let writable = if map.is_read_only() { 0 } else { elf::SHF_WRITE.0 };
                    let flags = elf::SHF_ALLOC.0 | writable;
                    let section = self.section(&map.section(), elf::SHT_PROGBITS, flags, 8);
                    let bytes = map.spec.value_bytes as usize;
                    let mut contents =
                        file.maps.get(index).and_then(|origin| origin.initial.clone()).unwrap_or_default();
                    contents.resize(bytes, 0);
                    self.sections[section].bytes = contents;
                    (section, 0, map.spec.value_bytes)
                }
            };
            let (name, kind) = (map.name.clone(), elf::STT_OBJECT);
            symbols.push(self.symbol(Symbol { name, section, offset: at, bytes: bytes.into(), kind }));
        }
        symbols
    }

    /// Adds a section with its programs. Their subprograms go to `.text`.
    fn add_code(&mut self, file: &ObjectFile, name: &str, maps: &[u32]) -> Result<(), WriteError> {
        let section = self.code_section(name);
        let programs = file.object.programs.iter().zip(&file.programs);
        let programs = programs.enumerate().filter(|(_, (_, origin))| origin.section == name);
        for (number, (program, _)) in programs {
            let ranges = code::functions(program)?;
            if ranges.len() > 1 && name == SUBPROGRAMS {
                let what = "a program in .text cannot have subprograms: they would be taken for programs";
                return Err(WriteError::Program { program: program.name.clone(), at: 0, what });
            }
            // Calls name symbols, so that all have to be there before code is written.
            let mut functions = BTreeMap::new();
            let mut places = Vec::with_capacity(ranges.len());
            for (index, range) in ranges.iter().enumerate() {
                let (section, name) = match index {
                    0 => (section, program.name.clone()),
                    _ => (self.code_section(SUBPROGRAMS), format!("{}_function_{index}", program.name)),
                };
                let name = identifier(&name, &mut self.names);
                let offset = self.sections[section].bytes.len() as u64;
                let bytes = range.len() as u64 * 8;
                // Room now, contents below.
                self.sections[section].bytes.resize((offset + bytes) as usize, 0);
                let kind = elf::STT_FUNC;
                let symbol = self.symbol(Symbol { name: name.clone(), section, offset, bytes, kind });
                let program = (index == 0).then_some(number);
                self.functions.push(Function { name, section, offset, symbol, program });
                functions.insert(range.start, symbol);
                places.push((section, offset));
            }
            let symbols = code::Symbols { maps, functions: &functions };
            for (range, (section, offset)) in ranges.into_iter().zip(places) {
                let (bytes, relocations) = code::function(program, range, offset, &symbols)?;
                let section = &mut self.sections[section];
                section.bytes[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
                section.relocations.extend(relocations);
            }
        }
        Ok(())
    }

    /// A relocation for each program in a slot of a map; `symbols`: those of the maps.
    fn add_slots(&mut self, maps: &[Map], symbols: &[u32]) {
        for (map, symbol) in maps.iter().zip(symbols) {
            // Symbols are counted from 1.
            let Symbol { section, offset, .. } = self.symbols[*symbol as usize - 1];
            for (slot, program) in map.programs {
                let at = offset + u64::from(MAP_VARIABLE_BYTES + 8 * slot);
                let function = self.functions.iter().find(|function| function.program == Some(*program));
                // SANITY: `maps` checked that the program is there, and every program has its function.
                let symbol = function.expect("a program has its function").symbol;
                let relocations = &mut self.sections[section].relocations;
                relocations.extend(at.to_le_bytes());
                relocations.extend((u64::from(symbol) << 32 | R_BPF_64_ABS64).to_le_bytes());
            }
        }
    }

    /// `.BTF.ext` with the type of each function: the kernel lets helpers call back what it knows to be static.
    fn function_information(&self, builder: &mut Builder, types: &[TypeId]) -> Vec<u8> {
        let mut records = FUNCTION_RECORD_BYTES.to_le_bytes().to_vec();
        for (index, section) in self.sections.iter().enumerate() {
            let functions = self.functions.iter().zip(types);
            let of_section: Vec<_> = functions.filter(|(function, _)| function.section == index).collect();
            if of_section.is_empty() {
                continue;
            }
            records.extend(builder.string(&section.name).to_le_bytes());
            records.extend((of_section.len() as u32).to_le_bytes());
            for (function, ty) in of_section {
                records.extend((function.offset as u32).to_le_bytes());
                records.extend(ty.to_le_bytes());
            }
        }
        ext::section_of_functions(&records)
    }

    /// The section of code with that name; made if it is not there.
    fn code_section(&mut self, name: &str) -> usize {
        let flags = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        let is_it = |section: &Section| section.name == name && section.flags == flags;
        self.sections
            .iter()
            .position(is_it)
            .unwrap_or_else(|| self.section(name, elf::SHT_PROGBITS, flags, 8))
    }

    /// A table of relocations for each section that has some.
    fn add_relocations(&mut self) {
        for about in 0..self.sections.len() {
            let relocations = std::mem::take(&mut self.sections[about].relocations);
            if !relocations.is_empty() {
                let name = format!(".rel{}", self.sections[about].name);
                let index = self.section(&name, elf::SHT_REL, elf::SHF_INFO_LINK.0, 8);
                self.sections[index].bytes = relocations;
                self.sections[index].about = Some(about);
            }
        }
    }

    /// Header, sections, symbols, strings, table of sections.
    fn finish(mut self) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut string = |text: &str| {
            let offset = strings.len() as u32;
            strings.extend(text.as_bytes());
            strings.push(0);
            offset
        };
        let mut symbols = vec![0u8; SYMBOL_BYTES];
        for symbol in &self.symbols {
            symbols.extend(string(&symbol.name).to_le_bytes());
            symbols.extend([elf::STB_GLOBAL.0 << 4 | symbol.kind.0, elf::STV_DEFAULT.0]);
            // Sections are counted from 1 in the file.
            symbols.extend((symbol.section as u16 + 1).to_le_bytes());
            symbols.extend(symbol.offset.to_le_bytes());
            symbols.extend(symbol.bytes.to_le_bytes());
        }
        let symtab = self.section(".symtab", elf::SHT_SYMTAB, 0, 8);
        self.sections[symtab].bytes = symbols;
        let strtab = self.section(".strtab", elf::SHT_STRTAB, 0, 1);
        let names: Vec<u32> = self.sections.iter().map(|section| string(&section.name)).collect();
        self.sections[strtab].bytes = strings;

        let mut bytes = vec![0u8; HEADER_BYTES];
        let mut headers = vec![0u8; SECTION_HEADER_BYTES];
        for (section, name) in self.sections.iter().zip(names) {
            bytes.resize(bytes.len().next_multiple_of(section.align as usize), 0);
            let (link, info, entry_bytes) = match (section.kind, section.about) {
                // All symbols but the empty one are global.
                (elf::SHT_SYMTAB, _) => (strtab as u32 + 1, 1, SYMBOL_BYTES),
                (_, Some(about)) => (symtab as u32 + 1, about as u32 + 1, RELOCATION_BYTES),
                _ => (0, 0, 0),
            };
            headers.extend(name.to_le_bytes());
            headers.extend(section.kind.0.to_le_bytes());
            for field in [section.flags, 0, bytes.len() as u64, section.bytes.len() as u64] {
                headers.extend(field.to_le_bytes());
            }
            headers.extend(link.to_le_bytes());
            headers.extend(info.to_le_bytes());
            headers.extend(section.align.to_le_bytes());
            headers.extend((entry_bytes as u64).to_le_bytes());
            bytes.extend(&section.bytes);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let header = header(bytes.len() as u64, self.sections.len() as u16 + 1, strtab as u16 + 1);
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        bytes.extend(headers);
        bytes
    }
}

/// Relocation of an address in data (LLVM).
const R_BPF_64_ABS64: u64 = 2;

/// Bytes of a function's offset and type in `.BTF.ext`.
const FUNCTION_RECORD_BYTES: u32 = 8;

/// Sizes of what an ELF64 file is made of.
const HEADER_BYTES: usize = 64;
const SECTION_HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 16;

/// The file's header (ELF64, little endian, relocatable, BPF).
fn header(section_headers: u64, sections: u16, strings: u16) -> Vec<u8> {
    let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    header.resize(16, 0);
    for field in [elf::ET_REL.0, elf::EM_BPF.0] {
        header.extend(field.to_le_bytes());
    }
    header.extend(1u32.to_le_bytes());
    for field in [0, 0, section_headers] {
        header.extend(field.to_le_bytes());
    }
    header.extend(0u32.to_le_bytes());
    let sizes = [HEADER_BYTES as u16, 0, 0, SECTION_HEADER_BYTES as u16, sections, strings];
    header.extend(sizes.into_iter().flat_map(u16::to_le_bytes));
    header
}
