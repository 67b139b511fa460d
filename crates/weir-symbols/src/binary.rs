//! One ELF file: its identity, its functions, its bytes by address.
//!
//! In: a path. Out: [`Binary`], which holds the file's bytes as they were when it was opened. The layout is parsed at
//! once; functions, `.eh_frame` ranges and static probes when first asked for; a stripped file's functions also from its
//! separate debug file. Reading is not mapping: a file that is truncated or rewritten while weir runs cannot fault it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Seek as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::LittleEndian as Le;
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};
use weir_event::ctype::{CType, CTypes, TypeId};

use crate::debug_file::{self, DebugSymbols, Link, Named, Section, Wanted};
use crate::demangle;
use crate::frames::{self, Frame};
use crate::functions::{self, Function};
use crate::image::Image;
use crate::landing;
use crate::layout::{self, Layout, ProgramKind, Refusal, Segment};
use crate::limits::{FILE_BYTES_MAX, NESTED_SYMBOLS_MAX};
use crate::lines;
use crate::pattern;
use crate::prototypes::{self, Answer, Asked, Prototype};
use crate::regular;
use crate::relocations::{self, SymbolSlot};
use crate::restartable;
use crate::usdt::{self, StaticProbe};
use crate::{Error, FileOffset, LinkAddr};

/// What tells one file from another, and names it in `/proc/PID/maps`. On btrfs and some overlays that differs between
/// stat(2) and maps: `maps::identity_of` says by which identity a process shows a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileIdentity {
    /// Major and minor number.
    pub device: (u32, u32),
    pub inode: u64,
}

/// Why debug sections are not there.
enum Missing {
    Absent,
    /// They are there.
    Unreadable(&'static str),
}

/// What the names of functions have in them that GCC has cloned with other parameters, or cut in pieces.
const CLONES: [&str; 4] = [".isra.", ".constprop.", ".part.", ".cold"];

/// A program or shared library for 64-bit x86.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    identity: Option<FileIdentity>,
    data: Vec<u8>,
    layout: Layout,
    /// Where separate debug files are looked for.
    roots: Vec<PathBuf>,
    debug_symbols: OnceLock<Option<DebugSymbols>>,
    /// Debug sections, or why they cannot be read.
    own_sections: OnceLock<Result<Named<Section>, &'static str>>,
    separate_sections: OnceLock<Result<Option<Named<Vec<u8>>>, &'static str>>,
    functions: OnceLock<(Vec<Function>, u64)>,
    /// Hash of each name, and index of its function, sorted.
    names: OnceLock<Vec<(u64, u32)>>,
    frames: OnceLock<(Vec<Range<LinkAddr>>, Vec<Frame>)>,
    landing_pads: OnceLock<Option<Vec<LinkAddr>>>,
    restartable: OnceLock<Vec<Range<LinkAddr>>>,
    probes: OnceLock<(Vec<StaticProbe>, u64)>,
}

impl Binary {
    /// Reads the file. Refused, each with its own message: what is no regular file, no ELF file, 32-bit, for another
    /// machine, neither program nor library, or broken where a kernel would refuse it too.
    pub fn open(path: &Path) -> Result<Binary, Error> {
        Binary::open_in(path, Path::new("/"))
    }

    /// The same for a file of a process with another root, where its separate debug file is looked for first.
    pub fn open_in(path: &Path, root: &Path) -> Result<Binary, Error> {
        let (data, identity) = read(path)?;
        let mut binary = Binary::parse(path, data)?;
        binary.identity = Some(identity);
        binary.roots = vec![root.to_path_buf()];
        if root != Path::new("/") {
            binary.roots.push("/".into());
        }
        Ok(binary)
    }

    /// The same for a file that is open already, whatever stands at its path by now.
    pub(crate) fn from_file(file: &File, path: &Path, root: &Path) -> Result<Binary, Error> {
        let (data, identity) = read_open(path, file)?;
        let mut binary = Binary::parse(path, data)?;
        binary.identity = Some(identity);
        binary.roots = vec![root.to_path_buf(), "/".into()];
        Ok(binary)
    }

    /// The same from bytes, such as a vDSO's; `path` only names it in messages.
    pub fn parse(path: &Path, data: Vec<u8>) -> Result<Binary, Error> {
        let layout = layout::parse(&data).map_err(|refusal| refused(path, refusal))?;
        let path = path.to_path_buf();
        Ok(Binary {
            path,
            identity: None,
            data,
            layout,
            roots: Vec::new(),
            debug_symbols: OnceLock::new(),
            own_sections: OnceLock::new(),
            separate_sections: OnceLock::new(),
            functions: OnceLock::new(),
            names: OnceLock::new(),
            frames: OnceLock::new(),
            landing_pads: OnceLock::new(),
            restartable: OnceLock::new(),
            probes: OnceLock::new(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `None` for one made from bytes.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.identity
    }

    /// Its path still leads to the file that was read.
    pub fn is_at_its_path(&self) -> bool {
        let now = fs::metadata(&self.path).ok().map(|metadata| identity_of(&metadata));
        now.is_some() && now == self.identity
    }

    pub fn build_id(&self) -> Option<&[u8]> {
        self.layout.build_id.clone().map(|range| &self.data[range])
    }

    /// ET_DYN: a library, a position-independent program or the dynamic loader.
    pub fn is_position_independent(&self) -> bool {
        self.layout.position_independent
    }

    /// PT_INTERP: the dynamic loader that the kernel starts. glibc's libc.so.6 has one too.
    pub fn interpreter(&self) -> Option<&str> {
        self.layout.interpreter.as_deref()
    }

    /// Whether the kernel starts it without a dynamic loader: a static program (PIE or not), or the loader itself.
    pub fn is_interpreter_or_static(&self) -> bool {
        self.layout.interpreter.is_none()
            && self.layout.needed.is_empty()
            && (!self.layout.position_independent || self.layout.marked_program || self.is_loader())
    }

    /// The program's first instruction.
    pub fn entry(&self) -> LinkAddr {
        self.layout.entry
    }

    /// DT_NEEDED, in order.
    pub fn needed(&self) -> Vec<String> {
        self.layout.needed.clone()
    }

    /// The folders of DT_RUNPATH, or DT_RPATH, for the file at `path`: `$ORIGIN` is its folder. Those with other variables are left out.
    pub fn run_path(&self, path: &Path) -> Vec<PathBuf> {
        let origin = path.parent().map_or_else(String::new, |folder| folder.display().to_string());
        let text = self.layout.run_path.as_deref().unwrap_or_default();
        let folders = text.split(':').filter(|folder| !folder.is_empty());
        let folders = folders.map(|folder| folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
        folders.filter(|folder| !folder.contains('$')).map(PathBuf::from).collect()
    }

    /// DT_SONAME.
    pub fn soname(&self) -> Option<&str> {
        self.layout.soname.as_deref()
    }

    /// DT_TEXTREL: the loader writes to the text, which then differs from the file.
    pub fn is_text_relocated(&self) -> bool {
        self.layout.text_relocated
    }

    /// Link addresses that the loader will write into data as pointers: every place, but for calls and branches,
    /// that code of this file can be entered at by address.
    pub fn relative_relocations(&self) -> Vec<u64> {
        self.relocated_words().into_iter().map(|(_, target)| target).collect()
    }

    /// The code that the kernel restarts when it is interrupted (rseq(2)), with the byte before it, sorted by start.
    pub fn restartable_sequences(&self) -> &[Range<LinkAddr>] {
        self.restartable.get_or_init(|| {
            let relocated = self.relocated_words();
            restartable::sequences(
                &self.data,
                &self.layout.segments,
                self.is_position_independent(),
                &relocated,
            )
        })
    }

    /// Places of data, and the link addresses that the loader will write there.
    fn relocated_words(&self) -> Vec<(u64, u64)> {
        let word_at = |address| {
            let bytes = self.bytes(LinkAddr(address), 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        relocations::relative(&self.data, &self.layout.relocations, &word_at)
    }

    /// Whether its section headers name such a section.
    pub fn has_section(&self, name: &str) -> bool {
        self.section(name).is_some()
    }

    /// The link addresses of the section of this name.
    pub fn section(&self, name: &str) -> Option<Range<LinkAddr>> {
        let file = ElfFile64::<Le>::parse(&self.data[..]).ok()?;
        let section = file.section_by_name(name)?;
        Some(LinkAddr(section.address())..LinkAddr(section.address().saturating_add(section.size())))
    }

    /// Its memory as the loader makes it, at the addresses of linking.
    pub fn image(&self) -> Image<'_> {
        let mut words = self.relocated_words();
        if let Some(table) = self.layout.symbol_tables.last() {
            let symbols = layout::symbols(&self.data, table);
            words.extend(relocations::own_symbols(&self.data, &self.layout.relocations, symbols));
        }
        Image::new(self, &words)
    }

    /// PT_LOAD segments, in the order of the file.
    pub fn segments(&self) -> &[Segment] {
        &self.layout.segments
    }

    /// Sorted by address, one for each address.
    pub fn functions(&self) -> &[Function] {
        &self.collected().0
    }

    /// Function symbols that are not among [`Binary::functions`], because their names are broken or beyond a limit.
    pub fn functions_left_out(&self) -> u64 {
        self.collected().1
    }

    /// The functions with this name, else those that it matches as a wildcard (`*`, `?`, `[..]`); by address. Never
    /// empty. Versions of one name are several functions.
    pub fn find(&self, pattern: &str) -> Result<Vec<&Function>, Error> {
        let exact = self.named(pattern);
        if !exact.is_empty() {
            return Ok(exact);
        }
        let matching = |test: &dyn Fn(&str) -> bool| -> Vec<&Function> {
            self.functions().iter().filter(|f| f.names().any(test)).collect()
        };
        let (path, functions) = (self.path.clone(), self.functions().len());
        if pattern::is_wildcard(pattern) {
            let found = matching(&|name| pattern::matches(pattern, name));
            return match found.is_empty() {
                false => Ok(found),
                true => Err(Error::NoMatch { path, pattern: pattern.into(), functions }),
            };
        }
        let near = pattern::near_misses(pattern, self.functions().iter().flat_map(Function::names));
        Err(Error::NoFunction { path, name: pattern.into(), near, functions })
    }

    /// The same by names of C++ and Rust as people write them, each with that symbol of the function that has the name: without its parameters a name
    /// means all functions that differ in these.
    pub fn find_demangled(&self, pattern: &str) -> Result<Vec<(&Function, &str)>, Error> {
        let wanted = demangle::Wanted::new(pattern);
        let best = |f: &'_ Function| -> Option<(demangle::Match, usize)> {
            let found = f.names().enumerate().filter_map(|(n, name)| Some((wanted.names(name)?, n)));
            found.max_by_key(|(how, n)| (*how, usize::MAX - n))
        };
        let found: Vec<_> =
            self.functions().iter().filter_map(|f| best(f).map(|(how, n)| (f, how, n))).collect();
        let how = found.iter().map(|(_, how, _)| *how).max();
        if let Some(how) = how {
            let found = found.into_iter().filter(|(_, of, _)| *of == how);
            return Ok(found.filter_map(|(f, _, n)| Some((f, f.names().nth(n)?))).collect());
        }
        let (path, functions) = (self.path.clone(), self.functions().len());
        if pattern::is_wildcard(pattern) {
            return Err(Error::NoMatch { path, pattern: pattern.into(), functions });
        }
        let names: Vec<String> =
            self.functions().iter().filter_map(|f| demangle::demangle(&f.name)).collect();
        let near = pattern::near_misses(pattern, names.iter().map(String::as_str));
        Err(Error::NoFunction { path, name: pattern.into(), near, functions })
    }

    /// The places of static probes (USDT), sorted by provider, name and address. One probe has a place for each time
    /// that its macro was compiled, inlined copies included.
    pub fn static_probes(&self) -> &[StaticProbe] {
        &self.collected_probes().0
    }

    /// Notes of static probes that are not among [`Binary::static_probes`]: broken, or beyond a limit.
    pub fn static_probes_left_out(&self) -> u64 {
        self.collected_probes().1
    }

    /// The places of the static probes with this name, else those that it matches as a wildcard; of this provider
    /// (a name or a wildcard), else of any. Never empty.
    pub fn find_static(&self, provider: Option<&str>, name: &str) -> Result<Vec<&StaticProbe>, Error> {
        let probes = self.static_probes();
        let is = |pattern: &str, text: &str| pattern == text || pattern::matches(pattern, text);
        let of_provider = |p: &&StaticProbe| provider.is_none_or(|wanted| is(wanted, &p.provider));
        let exact: Vec<_> = probes.iter().filter(of_provider).filter(|p| p.name == name).collect();
        let found = match exact.is_empty() {
            false => exact,
            true => probes.iter().filter(of_provider).filter(|p| pattern::matches(name, &p.name)).collect(),
        };
        if !found.is_empty() {
            return Ok(found);
        }
        let (path, total) = (self.path.clone(), probes.len());
        let wanted = provider.map_or_else(|| name.to_string(), |provider| format!("{provider}:{name}"));
        let near = match provider {
            None => pattern::near_misses(name, probes.iter().map(|p| p.name.as_str())),
            Some(_) => {
                let full: Vec<String> = probes.iter().map(StaticProbe::full_name).collect();
                pattern::near_misses(&wanted, full.iter().map(String::as_str))
            }
        };
        Err(Error::NoStaticProbe { path, wanted, near, total })
    }

    /// Where statements of line `line` of a source file begin, `file` being the end of its path: a place for each
    /// function with code of the line, and for each inlined copy of it; by address. Never empty.
    pub fn source_line(&self, file: &str, line: u64) -> Result<Vec<LinkAddr>, Error> {
        let path = || self.path.clone();
        let sections = self.debug_sections(".debug_line").map_err(|missing| {
            let why = match missing {
                Missing::Unreadable(why) => why,
                Missing::Absent => "build it with -g, or install its debug symbols",
            };
            Error::NoLines { path: path(), why }
        })?;
        let section = |name: &str| debug_file::named(&sections, name);
        let is_code = |address| self.segments().iter().any(|s| s.executable && s.holds(address));
        lines::places(&section, file, line, &is_code).map_err(|fault| match fault {
            lines::Fault::NoSource(names) => {
                let wanted = file.rsplit('/').next().unwrap_or_default();
                let near = pattern::near_misses(wanted, names.iter().map(String::as_str));
                Error::NoSource { path: path(), file: file.into(), near }
            }
            lines::Fault::NoCode(near) => Error::NoCode { path: path(), file: file.into(), line, near },
        })
    }

    /// What the functions at these addresses take and give back, as far as debug information of the file, or of its separate
    /// debug file, says. Functions that a compiler has made of others for itself, with fewer or other parameters
    /// (`work.isra.0`), have none.
    pub fn prototypes(&self, addresses: &BTreeSet<LinkAddr>) -> BTreeMap<LinkAddr, Prototype> {
        let is_plain = |address: &&LinkAddr| !self.is_clone(**address);
        let addresses: BTreeSet<LinkAddr> = addresses.iter().filter(is_plain).copied().collect();
        if addresses.is_empty() {
            return BTreeMap::new();
        }
        match self.debug_sections(".debug_info") {
            Ok(sections) => prototypes::find(&|name| debug_file::named(&sections, name), &addresses),
            Err(_) => BTreeMap::new(),
        }
    }

    /// Why there is no prototype of the function at an address.
    pub fn without_prototype(&self, address: LinkAddr) -> &'static str {
        match self.debug_sections(".debug_info") {
            _ if self.is_clone(address) => {
                "it is a clone of a function, which the compiler has made with other parameters"
            }
            Ok(_) => "the debug information of its file does not say what it takes",
            Err(Missing::Unreadable(why)) => why,
            Err(Missing::Absent) => "build it with -g, or install its debug symbols",
        }
    }

    /// What GCC has made of another function, by its name.
    fn is_clone(&self, address: LinkAddr) -> bool {
        let clone_of = |f: &Function| CLONES.iter().any(|mark| f.name.contains(mark));
        self.function_at(address).is_some_and(clone_of)
    }

    /// The C types of the parameters of the function at an address, by their names. `name` is what the file is called in [`Elsewhere`](weir_event::ctype::Elsewhere).
    pub fn parameter_types(
        &self,
        address: LinkAddr,
        name: &str,
        types: &mut CTypes,
    ) -> Vec<(String, TypeId)> {
        match self.c_types(&Asked::Parameters(address), name, types) {
            Some(Answer::Parameters(found)) => found,
            _ => Vec::new(),
        }
    }

    /// The C type that debug information has under a name: `struct request`, or a `typedef`'s.
    pub fn c_type(&self, wanted: &str, name: &str, types: &mut CTypes) -> Option<TypeId> {
        match self.c_types(&Asked::Named(wanted), name, types)? {
            Answer::Named(found) => found,
            _ => None,
        }
    }

    /// The record at the offset that an [`Elsewhere`](weir_event::ctype::Elsewhere) of this file has.
    pub fn members(&self, offset: u64, name: &str, types: &mut CTypes) -> Option<CType> {
        match self.c_types(&Asked::Members(offset), name, types)? {
            Answer::Members(found) => found,
            _ => None,
        }
    }

    fn c_types(&self, asked: &Asked<'_>, name: &str, types: &mut CTypes) -> Option<Answer> {
        let sections = self.debug_sections(".debug_info").ok()?;
        Some(prototypes::types(&|section| debug_file::named(&sections, section), asked, name, types))
    }

    /// Debug sections of the file, or of its separate debug file where it has not the one that is needed. Both are read once.
    fn debug_sections(&self, needed: &'static str) -> Result<Named<&[u8]>, Missing> {
        let own = self.own_sections.get_or_init(|| debug_file::sections_in(&self.data[..], &lines::SECTIONS));
        let own = match own {
            Ok(own) if own.iter().any(|(name, _)| *name == needed) => {
                return Ok(own.iter().map(|(name, section)| (*name, section.bytes(&self.data))).collect());
            }
            own => own.as_ref().err(),
        };
        let separate =
            self.separate_sections.get_or_init(|| debug_file::sections(&self.separate(), &lines::SECTIONS));
        match (separate, own) {
            (Ok(Some(separate)), _) if separate.iter().any(|(name, _)| *name == needed) => {
                Ok(separate.iter().map(|(name, bytes)| (*name, &bytes[..])).collect())
            }
            (Err(why), _) | (_, Some(why)) => Err(Missing::Unreadable(why)),
            _ => Err(Missing::Absent),
        }
    }

    fn separate(&self) -> Wanted<'_> {
        Wanted { path: &self.path, build_id: self.build_id(), link: Link::of(&self.data), roots: &self.roots }
    }

    /// The innermost function that contains `address`; one of unknown size contains its first byte only.
    pub fn function_at(&self, address: LinkAddr) -> Option<&Function> {
        let functions = self.functions();
        let after = functions.partition_point(|f| f.address <= address);
        functions[..after]
            .iter()
            .rev()
            .take(NESTED_SYMBOLS_MAX)
            .find(|f| address.0 - f.address.0 < f.size.max(1))
    }

    /// The range of the function that contains `address`: from its symbol, else from `.eh_frame`.
    pub fn function_bounds(&self, address: LinkAddr) -> Option<Range<LinkAddr>> {
        let by_symbol = self.function_at(address).and_then(|f| Some(f.address..f.end()?));
        by_symbol.or_else(|| frames::containing(self.frame_ranges(), address))
    }

    /// Ranges of `.eh_frame`'s entries, sorted by start: every function that can be unwound through, named or not.
    pub fn frame_ranges(&self) -> &[Range<LinkAddr>] {
        &self.collected_frames().0
    }

    /// Where exceptions land, sorted; `None` where a table of them is not understood.
    pub fn landing_pads(&self) -> Option<&[LinkAddr]> {
        let pads = self
            .landing_pads
            .get_or_init(|| landing::pads(&self.data, &self.layout.segments, &self.collected_frames().1));
        pads.as_deref()
    }

    /// Where exceptions land that pass through code of `range`, by the unwind information of the functions in it; `None`
    /// where a table is not understood. They may lie outside of it.
    pub fn landing_pads_of(&self, range: Range<LinkAddr>) -> Option<Vec<LinkAddr>> {
        let frames = &self.collected_frames().1;
        let from = frames.partition_point(|frame| frame.range.end <= range.start);
        let until = frames.partition_point(|frame| frame.range.start < range.end);
        landing::pads(&self.data, &self.layout.segments, frames.get(from..until).unwrap_or_default())
    }

    /// Where the file holds the byte at `address`. `None` outside it, and for zeros that only memory has (.bss).
    pub fn file_offset(&self, address: LinkAddr) -> Option<FileOffset> {
        let segment = self.layout.segments.iter().find(|s| s.holds(address))?;
        Some(FileOffset(segment.offset.0 + (address.0 - segment.address.0)))
    }

    /// The address of the byte at `offset`. Of several segments that hold it (page tails), an executable one.
    pub fn link_address(&self, offset: FileOffset) -> Option<LinkAddr> {
        let holds = |s: &&Segment| offset >= s.offset && offset.0 - s.offset.0 < s.file_bytes;
        let executable = self.layout.segments.iter().filter(|s| s.executable).find(holds);
        let segment = executable.or_else(|| self.layout.segments.iter().find(holds))?;
        Some(LinkAddr(segment.address.0 + (offset.0 - segment.offset.0)))
    }

    /// The file's bytes at `address`; `None` unless one segment holds all of them in the file.
    pub fn bytes(&self, address: LinkAddr, len: usize) -> Option<&[u8]> {
        let segment = self.layout.segments.iter().find(|s| s.holds(address))?;
        let skip = (address.0 - segment.address.0) as usize;
        self.segment_bytes(segment).get(skip..skip.checked_add(len)?)
    }

    /// Executable segments: address and bytes in the file. They hold more than code: padding, and in old files also
    /// read-only data and the ELF header.
    pub fn executable_ranges(&self) -> Vec<(LinkAddr, &[u8])> {
        self.layout
            .segments
            .iter()
            .filter(|s| s.executable)
            .map(|s| (s.address, self.segment_bytes(s)))
            .collect()
    }

    /// Value and size of a defined symbol of any kind, such as `__rseq_offset`. A thread-local symbol's value is an
    /// offset in the TLS block.
    pub fn symbol_value(&self, name: &str) -> Option<(LinkAddr, u64)> {
        functions::symbol_value(&self.symbol_tables(), name)
    }

    /// Names and values of defined symbols of any kind whose names begin with `prefix` and end with `suffix`.
    pub fn symbols_between(&self, prefix: &str, suffix: &str) -> Vec<(String, LinkAddr)> {
        functions::symbols_between(&self.symbol_tables(), prefix, suffix)
    }

    /// The functions with exactly this name, by address. Tens of thousands of names are asked for one by one, so they are
    /// looked up by their hashes.
    fn named(&self, name: &str) -> Vec<&Function> {
        let functions = self.functions();
        let index = self.names.get_or_init(|| {
            let names = functions.iter().zip(0..).flat_map(|(f, at)| f.names().map(move |name| (name, at)));
            let mut index: Vec<(u64, u32)> = names.map(|(name, at)| (hash(name), at)).collect();
            index.sort_unstable();
            // Two names of one function may have one hash.
            index.dedup();
            index
        });
        let wanted = hash(name);
        let from = index.partition_point(|&(hash, _)| hash < wanted);
        let same = index[from..].iter().take_while(|&&(hash, _)| hash == wanted);
        let functions = same.map(|&(_, at)| &functions[at as usize]);
        functions.filter(|function| function.names().any(|other| other == name)).collect()
    }

    /// Whether the file takes a symbol that begins with `prefix` from another file.
    pub fn imports(&self, prefix: &str) -> bool {
        functions::imports(&self.data, &self.layout.symbol_tables, prefix)
    }

    /// Places that the loader fills with addresses of symbols, by which this file calls others.
    pub fn symbol_slots(&self) -> Vec<SymbolSlot> {
        // The dynamic table comes last; relocations of programs that are linked statically have no symbols.
        let Some(table) = self.layout.symbol_tables.last() else { return Vec::new() };
        let (symbols, strings) = (layout::symbols(&self.data, table), &self.data[table.strings.clone()]);
        relocations::symbol_slots(&self.data, &self.layout.relocations, symbols, strings)
    }

    /// Whether it has a static symbol table, which names functions that no other file may use too.
    pub fn has_static_symbols(&self) -> bool {
        self.layout.has_static_symbols
    }

    /// Whether some function of it has a table of what is to be done when an exception passes.
    pub fn handles_exceptions(&self) -> bool {
        !self.collected_frames().1.is_empty()
    }

    /// Whether it has the tables of Go's runtime, which unwinds stacks by itself.
    pub fn is_go(&self) -> bool {
        self.layout.is_go
    }

    fn collected(&self) -> &(Vec<Function>, u64) {
        self.functions.get_or_init(|| {
            let segments = &self.layout.segments;
            functions::collect(&self.symbol_tables(), segments, || self.frame_ranges().to_vec())
        })
    }

    /// Its own, then that of its separate debug file if it has no static one itself.
    fn symbol_tables(&self) -> Vec<functions::Table<'_>> {
        let own = self.layout.symbol_tables.iter().map(|table| (&self.data[..], table));
        let debug = self.debug_symbols.get_or_init(|| {
            let is_stripped = !self.layout.has_static_symbols;
            is_stripped.then(|| debug_file::symbols(&self.separate())).flatten()
        });
        own.chain(debug.iter().map(|debug| (&debug.data[..], &debug.table))).collect()
    }

    fn collected_frames(&self) -> &(Vec<Range<LinkAddr>>, Vec<Frame>) {
        self.frames.get_or_init(|| {
            let mut frames = match &self.layout.frames {
                Some(section) => frames::read(&self.data, section),
                None => Vec::new(),
            };
            let ranges = frames.iter().map(|frame| frame.range.clone()).collect();
            frames.retain(|frame| frame.exceptions.is_some());
            (ranges, frames)
        })
    }

    fn collected_probes(&self) -> &(Vec<StaticProbe>, u64) {
        self.probes.get_or_init(|| usdt::collect(&self.data, &self.layout))
    }

    fn segment_bytes(&self, segment: &Segment) -> &[u8] {
        let start = segment.offset.0 as usize;
        &self.data[start..start + segment.file_bytes as usize]
    }

    /// ld.so, of glibc (`ld-linux-x86-64.so.2`) or musl (`libc.so`, which is both).
    fn is_loader(&self) -> bool {
        self.soname().is_some_and(|n| n.starts_with("ld-") || n == "libc.so")
            || self.path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("ld-"))
    }
}

/// The same for the same name, whatever else there is.
fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

fn read(path: &Path) -> Result<(Vec<u8>, FileIdentity), Error> {
    let kind = |path: &Path| fs::metadata(path).map_or(Ok(()), |metadata| is_regular(path, &metadata));
    let file = match regular::open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            kind(path)?;
            return Err(fault(path, "open", error));
        }
        file => file.map_err(|e| fault(path, "open", e))?,
    };
    read_open(path, &file)
}

fn read_open(path: &Path, mut file: &File) -> Result<(Vec<u8>, FileIdentity), Error> {
    let metadata = file.metadata().map_err(|e| fault(path, "fstat", e))?;
    is_regular(path, &metadata)?;
    file.rewind().map_err(|e| fault(path, "lseek", e))?;
    let (bytes, max) = (metadata.len(), FILE_BYTES_MAX);
    if bytes > max {
        return Err(Error::TooLarge { path: path.to_path_buf(), bytes, max });
    }
    if regular::is_sparse(&metadata) {
        let stored = metadata.blocks().saturating_mul(512);
        return Err(Error::Sparse { path: path.to_path_buf(), bytes, stored });
    }
    // What is appended meanwhile is not read.
    let mut data = Vec::with_capacity(bytes as usize);
    file.take(bytes).read_to_end(&mut data).map_err(|e| fault(path, "read", e))?;
    Ok((data, identity_of(&metadata)))
}

fn fault(path: &Path, call: &'static str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::NoFile { path: path.to_path_buf(), near: Vec::new() },
        _ => Error::Io { path: path.to_path_buf(), call, source },
    }
}

fn identity_of(metadata: &fs::Metadata) -> FileIdentity {
    let device = metadata.dev();
    // As in makedev(3) of Linux: 12 + 20 bits, each in two parts.
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & 0xffff_f000);
    let minor = (device & 0xff) | ((device >> 12) & 0xffff_ff00);
    FileIdentity { device: (major as u32, minor as u32), inode: metadata.ino() }
}

/// `None`: it cannot be asked for.
pub(crate) fn identity_of_file(file: &File) -> Option<FileIdentity> {
    file.metadata().ok().map(|metadata| identity_of(&metadata))
}

/// The build id of an open file, of which only headers and notes are read.
pub fn build_id_of(file: &File) -> Option<Vec<u8>> {
    layout::build_id_of(&ReadCache::new(file))
}

/// Facts of an open file. Reads only its headers and section names; `None` for a file that is not ELF of 64 bits.
pub fn program_kind(file: &File) -> Option<ProgramKind> {
    layout::program_kind(&ReadCache::new(file))
}

/// Whether the file at `path` is one with notes of static probes, of which only headers and section names are read.
pub fn has_static_probes(path: &Path) -> bool {
    regular::open(path).is_ok_and(|file| layout::has_static_probes(&ReadCache::new(file)))
}

fn is_regular(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    regular::check(metadata).map_err(|what| Error::NotAFile { path: path.to_path_buf(), what })
}

fn refused(path: &Path, refusal: Refusal) -> Error {
    let path = path.to_path_buf();
    match refusal {
        Refusal::NotElf { found, instead } => Error::NotElf { path, found, instead },
        Refusal::ThirtyTwoBit => Error::ThirtyTwoBit { path },
        Refusal::WrongMachine(machine) => Error::WrongMachine { path, machine },
        Refusal::NotLinked { kind, instead } => Error::NotLinked { path, kind, instead },
        Refusal::Malformed(what) => Error::Malformed { path, what },
    }
}
