//! Where things stand in an ELF file (System V ABI, gABI chapters 4 and 5; x86-64 psABI).
//!
//! In: the bytes of a file. Out: [`Layout`]: segments, the interpreter, the build id, the dynamic section's facts, and
//! the ranges of symbol tables, `.eh_frame` and the notes of static probes. Every range lies inside the file. Guaranteed by [`parse`]:
//! - the file is a 64-bit little-endian x86-64 program or shared library with at least one loadable segment;
//! - program headers are at most `SEGMENTS_MAX`, and no segment wraps around the address space.
//!
//! Section headers serve only to find symbol tables, `.eh_frame` and the notes of static probes (which no program header
//! covers); the kernel ignores them, so a file whose section
//! headers are absent or broken still opens, with its dynamic symbols found through PT_DYNAMIC.

use std::ops::Range;

use object::LittleEndian as Le;
use object::elf;
use object::read::elf::{FileHeader as _, GnuHashTable, HashTable, ProgramHeader as _, SectionHeader as _};
use object::read::{ReadRef, SectionIndex};

use crate::limits::{
    DEBUG_NOTES_BYTES_MAX, NAME_BYTES_MAX, NEEDED_MAX, NOTES_MAX, PROBE_SECTIONS_MAX, RELOCATION_TABLES_MAX,
    SEGMENTS_MAX,
};
use crate::relocations::{RelocationForm, RelocationTable};
use crate::{FileOffset, LinkAddr};

type Header = elf::FileHeader64<Le>;
pub(crate) type Symbol = elf::Sym64<Le>;

/// A PT_LOAD segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    pub address: LinkAddr,
    /// Bytes in memory: those of the file, then zeros.
    pub memory_bytes: u64,
    pub offset: FileOffset,
    /// Bytes in the file; cut where the file ends.
    pub file_bytes: u64,
    pub writable: bool,
    pub executable: bool,
}

impl Segment {
    /// Whether the file holds the byte at `address`.
    pub fn holds(&self, address: LinkAddr) -> bool {
        address >= self.address && address.0 - self.address.0 < self.file_bytes
    }

    /// The address after the last byte that the file holds.
    pub fn file_end(&self) -> LinkAddr {
        LinkAddr(self.address.0 + self.file_bytes)
    }
}

/// A symbol table and its strings, as ranges of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SymbolTable {
    pub(crate) symbols: Range<usize>,
    pub(crate) strings: Range<usize>,
}

/// `.eh_frame`: where it is linked, its bytes, and what its pointers may be relative to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FrameSection {
    pub(crate) address: LinkAddr,
    pub(crate) bytes: Range<usize>,
    pub(crate) text: Option<LinkAddr>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) position_independent: bool,
    pub(crate) entry: LinkAddr,
    /// In the order of the file.
    pub(crate) segments: Vec<Segment>,
    pub(crate) interpreter: Option<String>,
    pub(crate) build_id: Option<Range<usize>>,
    pub(crate) needed: Vec<String>,
    /// DT_RUNPATH or DT_RPATH, as it is written.
    pub(crate) run_path: Option<String>,
    pub(crate) soname: Option<String>,
    pub(crate) text_relocated: bool,
    /// DF_1_PIE: a position-independent program, not a library.
    pub(crate) marked_program: bool,
    /// The static symbol table first, then the dynamic one.
    pub(crate) symbol_tables: Vec<SymbolTable>,
    /// There is a `.gopclntab`, by which the runtime of Go finds its way up a stack.
    pub(crate) is_go: bool,
    pub(crate) has_static_symbols: bool,
    pub(crate) frames: Option<FrameSection>,
    /// Each range once.
    pub(crate) relocations: Vec<RelocationTable>,
    pub(crate) probes: ProbeSections,
}

/// The sections of SystemTap's static probes, as their section headers give them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProbeSections {
    /// `.note.stapsdt`; a linker makes one of all.
    pub(crate) notes: Vec<Range<usize>>,
    /// `.note.weir`, which say more of some of them.
    pub(crate) fields: Vec<Range<usize>>,
    /// The address of `.stapsdt.base`, by which prelink(8) shows how far it moved the file.
    pub(crate) base: Option<LinkAddr>,
}

/// Why a file is refused; the caller adds its path.
#[derive(Debug)]
pub(crate) enum Refusal {
    NotElf { found: String, instead: &'static str },
    ThirtyTwoBit,
    WrongMachine(String),
    NotLinked { kind: String, instead: &'static str },
    Malformed(String),
}

pub(crate) fn parse(data: &[u8]) -> Result<Layout, Refusal> {
    let header = parse_header(data)?;
    let program_headers =
        header.program_headers(Le, data).map_err(|e| Refusal::Malformed(format!("program headers: {e}")))?;
    if program_headers.len() > SEGMENTS_MAX {
        let n = program_headers.len();
        return Err(Refusal::Malformed(format!(
            "{n} program headers, more than the {SEGMENTS_MAX} a kernel loads"
        )));
    }
    let segments = load_segments(program_headers, data.len() as u64)?;
    let image = Image { data, segments: &segments };
    let dynamic = Dynamic::read(&image, program_headers);
    let sections = Sections::read(header, data);
    let has_static_symbols = sections.symbols.is_some();
    let mut symbol_tables = Vec::new();
    symbol_tables.extend(sections.symbols);
    symbol_tables.extend(sections.dynamic_symbols.or_else(|| dynamic.symbol_table(&image)));
    let mut relocations = dynamic.relocations(&image);
    for table in sections.relocations {
        if relocations.len() < RELOCATION_TABLES_MAX && !relocations.contains(&table) {
            relocations.push(table);
        }
    }
    let frames = sections.frames.or_else(|| frames_by_program_header(&image, program_headers));
    Ok(Layout {
        position_independent: header.e_type(Le) == elf::ET_DYN,
        entry: LinkAddr(header.e_entry(Le)),
        interpreter: interpreter(program_headers, data),
        build_id: build_id(program_headers, data),
        needed: dynamic.needed(&image),
        run_path: dynamic.run_path.and_then(|at| dynamic.string(&image, at)),
        soname: dynamic.soname.and_then(|at| dynamic.string(&image, at)),
        text_relocated: dynamic.text_relocated,
        marked_program: dynamic.marked_program,
        symbol_tables,
        has_static_symbols,
        is_go: sections.is_go,
        frames: frames.map(|(address, bytes)| FrameSection { address, bytes, text: sections.text }),
        relocations,
        segments,
        probes: sections.probes,
    })
}

/// The checks that have messages of their own, in the order a reader would make them.
fn parse_header(data: &[u8]) -> Result<&Header, Refusal> {
    if data.get(..4) != Some(b"\x7fELF") {
        return Err(not_elf(data));
    }
    let ident = data.get(..16).ok_or_else(|| Refusal::Malformed("it ends inside its header".into()))?;
    match ident[4] {
        2 => {}
        1 => return Err(Refusal::ThirtyTwoBit),
        class => return Err(Refusal::Malformed(format!("its class byte is {class}, not 1 or 2"))),
    }
    if ident[5] != 1 {
        return Err(Refusal::WrongMachine("a big-endian machine".into()));
    }
    let header = Header::parse(data)
        .map_err(|_| Refusal::Malformed("it ends inside its header, or has version ≠ 1".into()))?;
    let machine = header.e_machine(Le);
    if machine != elf::EM_X86_64 {
        return Err(Refusal::WrongMachine(machine_name(machine.0)));
    }
    let kind = header.e_type(Le);
    if kind == elf::ET_EXEC || kind == elf::ET_DYN {
        return Ok(header);
    }
    Err(Refusal::NotLinked {
        kind: match kind {
            elf::ET_REL => "an object file (.o) or kernel module".into(),
            elf::ET_CORE => "a core dump".into(),
            other => format!("an ELF file of type {}", other.0),
        },
        instead: match kind {
            elf::ET_REL => "link it first",
            elf::ET_CORE => "name the program that dumped it",
            _ => "name a program or a library",
        },
    })
}

fn not_elf(data: &[u8]) -> Refusal {
    let (found, instead) = if data.is_empty() {
        ("it is empty".into(), "a program or a library")
    } else if data.starts_with(b"#!") {
        let line = data.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(80)]).trim_end().to_string();
        (format!("it is a script that starts with {line}"), "its interpreter instead")
    } else if data.starts_with(b"/* GNU ld script") {
        ("it is a linker script".into(), "the library that it names")
    } else if data.starts_with(b"!<arch>\n") {
        ("it is a static library (.a)".into(), "the program that it is linked into")
    } else {
        (format!("it starts with the bytes {:02x?}", &data[..data.len().min(4)]), "a program or a library")
    };
    Refusal::NotElf { found, instead }
}

/// Names of the machines that a user may meet (gABI, e_machine).
fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "i386",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "64-bit PowerPC",
        22 => "S390",
        40 => "32-bit ARM",
        43 => "SPARC V9",
        183 => "AArch64",
        243 => "RISC-V",
        247 => "BPF",
        258 => "LoongArch",
        other => return format!("machine number {other}"),
    };
    name.into()
}

fn load_segments(headers: &[elf::ProgramHeader64<Le>], file_bytes: u64) -> Result<Vec<Segment>, Refusal> {
    let mut segments = Vec::new();
    for header in headers.iter().filter(|h| h.p_type(Le) == elf::PT_LOAD) {
        let (address, memory_bytes) = (header.p_vaddr(Le), header.p_memsz(Le));
        let (offset, wanted) = (header.p_offset(Le), header.p_filesz(Le));
        if address.checked_add(memory_bytes.max(wanted)).is_none() || offset.checked_add(wanted).is_none() {
            let what = format!("the segment at {address:#x} (offset {offset:#x}) wraps around");
            return Err(Refusal::Malformed(what));
        }
        let in_file = wanted.min(memory_bytes).min(file_bytes.saturating_sub(offset));
        let flags = header.p_flags(Le);
        segments.push(Segment {
            address: LinkAddr(address),
            memory_bytes,
            offset: FileOffset(offset.min(file_bytes)),
            file_bytes: in_file,
            writable: flags.contains(elf::PF_W),
            executable: flags.contains(elf::PF_X),
        });
    }
    if segments.is_empty() {
        return Err(Refusal::Malformed("it has no loadable segment".into()));
    }
    Ok(segments)
}

/// A file seen through its link addresses.
struct Image<'a> {
    data: &'a [u8],
    segments: &'a [Segment],
}

impl<'a> Image<'a> {
    /// From `address` to the end of what the file holds of its segment.
    fn from(&self, address: LinkAddr) -> Option<Range<usize>> {
        let segment = self.segments.iter().find(|s| s.holds(address))?;
        let skip = address.0 - segment.address.0;
        let start = segment.offset.0 + skip;
        Some(start as usize..(start + segment.file_bytes - skip) as usize)
    }

    fn string(&self, table: &Range<usize>, at: u64) -> Option<String> {
        name_at(&self.data[table.clone()], at).map(|n| String::from_utf8_lossy(n).into_owned())
    }
}

/// The NUL-terminated name at `at` of a string table; `None` outside it, unterminated or above NAME_BYTES_MAX.
pub(crate) fn name_at(strings: &[u8], at: u64) -> Option<&[u8]> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let rest = &rest[..rest.len().min(NAME_BYTES_MAX + 1)];
    let end = rest.iter().position(|b| *b == 0)?;
    Some(&rest[..end])
}

/// The facts of PT_DYNAMIC that are of use here.
#[derive(Default)]
struct Dynamic {
    strings: Option<Range<usize>>,
    symbols: Option<LinkAddr>,
    hash: Option<LinkAddr>,
    gnu_hash: Option<LinkAddr>,
    /// Address and bytes of DT_RELA, DT_JMPREL and DT_RELR.
    tables: [(Option<LinkAddr>, u64); 3],
    needed: Vec<u64>,
    soname: Option<u64>,
    run_path: Option<u64>,
    text_relocated: bool,
    marked_program: bool,
}

impl Dynamic {
    fn read(image: &Image<'_>, headers: &[elf::ProgramHeader64<Le>]) -> Dynamic {
        let mut out = Dynamic::default();
        let Some(header) = headers.iter().find(|h| h.p_type(Le) == elf::PT_DYNAMIC) else { return out };
        let Ok(Some(entries)) = header.dynamic(Le, image.data) else { return out };
        let (mut strings, mut strings_bytes) = (None, None);
        for entry in entries {
            let value = entry.d_val.get(Le);
            match entry.d_tag.get(Le) {
                elf::DT_NULL => break,
                elf::DT_NEEDED if out.needed.len() < NEEDED_MAX => out.needed.push(value),
                elf::DT_SONAME => out.soname = Some(value),
                elf::DT_RUNPATH => out.run_path = Some(value),
                // Where both are there, the loader takes the other.
                elf::DT_RPATH => out.run_path = out.run_path.or(Some(value)),
                elf::DT_STRTAB => strings = Some(LinkAddr(value)),
                elf::DT_STRSZ => strings_bytes = Some(value),
                elf::DT_SYMTAB => out.symbols = Some(LinkAddr(value)),
                elf::DT_HASH => out.hash = Some(LinkAddr(value)),
                elf::DT_GNU_HASH => out.gnu_hash = Some(LinkAddr(value)),
                elf::DT_RELA => out.tables[0].0 = Some(LinkAddr(value)),
                elf::DT_RELASZ => out.tables[0].1 = value,
                elf::DT_JMPREL => out.tables[1].0 = Some(LinkAddr(value)),
                elf::DT_PLTRELSZ => out.tables[1].1 = value,
                elf::DT_RELR => out.tables[2].0 = Some(LinkAddr(value)),
                elf::DT_RELRSZ => out.tables[2].1 = value,
                elf::DT_TEXTREL => out.text_relocated = true,
                elf::DT_FLAGS => out.text_relocated |= value & DF_TEXTREL != 0,
                elf::DT_FLAGS_1 => out.marked_program |= value & DF_1_PIE != 0,
                _ => {}
            }
        }
        out.strings = strings.and_then(|at| image.from(at)).map(|range| {
            let bytes = strings_bytes.map_or(range.len(), |n| range.len().min(n as usize));
            range.start..range.start + bytes
        });
        out
    }

    fn string(&self, image: &Image<'_>, at: u64) -> Option<String> {
        image.string(self.strings.as_ref()?, at)
    }

    fn needed(&self, image: &Image<'_>) -> Vec<String> {
        self.needed.iter().filter_map(|at| self.string(image, *at)).collect()
    }

    fn relocations(&self, image: &Image<'_>) -> Vec<RelocationTable> {
        use RelocationForm::{Explicit, Packed};
        let table = |((address, bytes), form): (&(Option<LinkAddr>, u64), RelocationForm)| {
            let range = image.from((*address)?)?;
            let bytes = range.len().min(usize::try_from(*bytes).ok()?);
            Some(RelocationTable { form, bytes: range.start..range.start + bytes })
        };
        self.tables.iter().zip([Explicit, Explicit, Packed]).filter_map(table).collect()
    }

    /// The dynamic symbols of a file without section headers: DT_SYMTAB has no length, the hash tables know it.
    fn symbol_table(&self, image: &Image<'_>) -> Option<SymbolTable> {
        let symbols = image.from(self.symbols?)?;
        let count = self.symbols_by_gnu_hash(image).or_else(|| self.symbols_by_hash(image))?;
        let bytes = (count as usize).checked_mul(size_of::<Symbol>())?.min(symbols.len());
        Some(SymbolTable { symbols: symbols.start..symbols.start + bytes, strings: self.strings.clone()? })
    }

    fn symbols_by_gnu_hash(&self, image: &Image<'_>) -> Option<u32> {
        let bytes = &image.data[image.from(self.gnu_hash?)?];
        GnuHashTable::<Header>::parse(Le, bytes).ok()?.symbol_table_length(Le)
    }

    fn symbols_by_hash(&self, image: &Image<'_>) -> Option<u32> {
        let bytes = &image.data[image.from(self.hash?)?];
        Some(HashTable::<Header>::parse(Le, bytes).ok()?.symbol_table_length())
    }
}

const PROBE_NOTES: &[u8] = b".note.stapsdt";
/// Lists the places that emit events of LTTng-UST.
const LTTNG_PLACES: &[u8] = b"lttng_ust_tracepoints_ptrs";

const DF_TEXTREL: u64 = 4;
const DF_1_PIE: u64 = 0x0800_0000;

/// What section headers tell; empty where they are absent or broken.
#[derive(Default)]
struct Sections {
    symbols: Option<SymbolTable>,
    dynamic_symbols: Option<SymbolTable>,
    frames: Option<(LinkAddr, Range<usize>)>,
    text: Option<LinkAddr>,
    is_go: bool,
    relocations: Vec<RelocationTable>,
    probes: ProbeSections,
}

impl Sections {
    fn read(header: &Header, data: &[u8]) -> Sections {
        let mut out = Sections::default();
        let Ok(sections) = header.section_headers(Le, data) else { return out };
        let range = |section: &elf::SectionHeader64<Le>| {
            let (offset, bytes) = section.file_range(Le)?;
            let range = offset as usize..offset.checked_add(bytes)? as usize;
            data.get(range.clone()).map(|_| range)
        };
        let table = |section: &elf::SectionHeader64<Le>| {
            let strings = sections.get(SectionIndex(section.sh_link(Le) as usize).0)?;
            Some(SymbolTable { symbols: range(section)?, strings: range(strings)? })
        };
        let names = header
            .section_strings_index(Le, data)
            .ok()
            .and_then(|index| sections.get(index.0))
            .and_then(range)
            .unwrap_or_default();
        for section in sections {
            let form = match section.sh_type(Le) {
                elf::SHT_RELA => Some(RelocationForm::Explicit),
                elf::SHT_RELR => Some(RelocationForm::Packed),
                _ => None,
            };
            if let (Some(form), Some(bytes)) = (form, range(section))
                && out.relocations.len() < RELOCATION_TABLES_MAX
            {
                out.relocations.push(RelocationTable { form, bytes });
            }
            match section.sh_type(Le) {
                elf::SHT_SYMTAB => out.symbols = out.symbols.or_else(|| table(section)),
                elf::SHT_DYNSYM => out.dynamic_symbols = out.dynamic_symbols.or_else(|| table(section)),
                elf::SHT_NULL | elf::SHT_NOBITS => {}
                _ => match name_at(&data[names.clone()], section.sh_name(Le).into()) {
                    Some(b".eh_frame") => {
                        out.frames = range(section).map(|r| (LinkAddr(section.sh_addr(Le)), r));
                    }
                    Some(b".text") => out.text = Some(LinkAddr(section.sh_addr(Le))),
                    Some(name) if is_go_tables(name) => out.is_go = true,
                    Some(b".stapsdt.base") => out.probes.base = Some(LinkAddr(section.sh_addr(Le))),
                    Some(PROBE_NOTES) if out.probes.notes.len() < PROBE_SECTIONS_MAX => {
                        out.probes.notes.extend(range(section));
                    }
                    Some(b".note.weir") if out.probes.fields.len() < PROBE_SECTIONS_MAX => {
                        out.probes.fields.extend(range(section));
                    }
                    _ => {}
                },
            }
        }
        out
    }
}

/// `.eh_frame` through PT_GNU_EH_FRAME (LSB 5.0, 10.6.2), for files without section headers: its header's first
/// pointer leads there, and a zero word ends it.
fn frames_by_program_header(
    image: &Image<'_>,
    headers: &[elf::ProgramHeader64<Le>],
) -> Option<(LinkAddr, Range<usize>)> {
    let header = headers.iter().find(|h| h.p_type(Le) == elf::PT_GNU_EH_FRAME)?;
    let address = header.p_vaddr(Le);
    let bytes = &image.data[image.from(LinkAddr(address))?];
    let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(address);
    let parsed = gimli::EhFrameHdr::new(bytes, gimli::LittleEndian).parse(&bases, 8).ok()?;
    let gimli::Pointer::Direct(frames) = parsed.eh_frame_ptr() else { return None };
    Some((LinkAddr(frames), image.from(LinkAddr(frames))?))
}

fn interpreter(headers: &[elf::ProgramHeader64<Le>], data: &[u8]) -> Option<String> {
    let header = headers.iter().find(|h| h.p_type(Le) == elf::PT_INTERP)?;
    let bytes = header.data(Le, data).ok()?;
    name_at(bytes, 0).map(|n| String::from_utf8_lossy(n).into_owned())
}

/// The descriptor of the first NT_GNU_BUILD_ID note.
fn build_id(headers: &[elf::ProgramHeader64<Le>], data: &[u8]) -> Option<Range<usize>> {
    for header in headers {
        let Ok(Some(mut notes)) = header.notes(Le, data) else { continue };
        for _ in 0..NOTES_MAX {
            let Ok(Some(note)) = notes.next() else { break };
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(Le) == elf::NT_GNU_BUILD_ID {
                return range_of(data, note.desc());
            }
        }
    }
    None
}

/// The build id of a file that is not read as a whole.
pub(crate) fn build_id_of<'a>(file: impl ReadRef<'a>) -> Option<Vec<u8>> {
    let header = elf::FileHeader64::<Le>::parse(file).ok()?;
    for header in header.program_headers(Le, file).ok()? {
        if header.p_filesz(Le) > DEBUG_NOTES_BYTES_MAX {
            continue;
        }
        let Ok(Some(mut notes)) = header.notes(Le, file) else { continue };
        for _ in 0..NOTES_MAX {
            let Ok(Some(note)) = notes.next() else { break };
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(Le) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

/// A section of this name has the tables of Go's runtime.
fn is_go_tables(name: &[u8]) -> bool {
    matches!(name, b".gopclntab" | b".data.rel.ro.gopclntab")
}

/// Facts of a program that its headers give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramKind {
    /// The kernel starts a dynamic loader for it.
    pub has_interpreter: bool,
    /// It has the tables of Go's runtime.
    pub is_go: bool,
}

pub(crate) fn program_kind<'a>(file: impl ReadRef<'a>) -> Option<ProgramKind> {
    let header = elf::FileHeader64::<Le>::parse(file).ok()?;
    let headers = header.program_headers(Le, file).ok()?;
    let has_interpreter = headers.iter().any(|header| header.p_type(Le) == elf::PT_INTERP);
    let is_go = header.sections(Le, file).is_ok_and(|sections| {
        sections.iter().any(|section| sections.section_name(Le, section).is_ok_and(is_go_tables))
    });
    Some(ProgramKind { has_interpreter, is_go })
}

/// Whether the file has notes of static probes, or places of LTTng-UST's. Reads only headers and section names.
pub(crate) fn has_static_probes<'a>(file: impl ReadRef<'a>) -> bool {
    let Ok(header) = elf::FileHeader64::<Le>::parse(file) else { return false };
    header.sections(Le, file).is_ok_and(|sections| {
        sections.iter().any(|section| {
            sections.section_name(Le, section).is_ok_and(|name| name == PROBE_NOTES || name == LTTNG_PLACES)
        })
    })
}

/// Where `part`, a slice of `data`, begins and ends in it.
fn range_of(data: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
    let range = start..start.checked_add(part.len())?;
    data.get(range.clone()).map(|_| range)
}

/// The symbols of a table; a trailing part of an entry is ignored.
pub(crate) fn symbols<'a>(data: &'a [u8], table: &SymbolTable) -> &'a [Symbol] {
    let bytes = &data[table.symbols.clone()];
    bytes.read_slice_at(0, bytes.len() / size_of::<Symbol>()).unwrap_or_default()
}
