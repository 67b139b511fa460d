//! The functions that an ELF file names.
//!
//! In: its symbol tables, those of its separate debug file, and `.eh_frame` ranges. Out: one [`Function`] per address, sorted, with every name that
//! stands there. Taken are defined STT_FUNC and STT_GNU_IFUNC symbols whose value the file holds in an executable
//! segment. Names lose a version (`memcpy@@GLIBC_2.14`): the two `memcpy` of glibc are two functions of one name.
//! Left out are names longer than a bound or not UTF-8, and everything beyond the bound on all names together.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use object::LittleEndian as Le;
use object::elf;

use crate::LinkAddr;
use crate::frames;
use crate::layout::{Segment, Symbol, SymbolTable, name_at, symbols};
use crate::limits::NAMES_BYTES_PER_FILE_BYTE_MAX;

/// A function of one ELF file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// The name shown: a global one before a weak before a local one, then the one with fewer leading underscores,
    /// then the shorter.
    pub name: String,
    /// Other names of the same address, in the same order.
    pub aliases: Vec<String>,
    pub address: LinkAddr,
    /// From the symbol, else from `.eh_frame`; 0 where neither knows it.
    pub size: u64,
    pub kind: FunctionKind,
}

/// What stands at a function's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// Its code.
    Plain,
    /// STT_GNU_IFUNC: a resolver that returns the address of the code, called once when symbols are bound.
    Indirect,
}

impl Function {
    /// The name shown, then the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// The address after its last byte; `None` where the size is not known.
    pub fn end(&self) -> Option<LinkAddr> {
        if self.size == 0 { None } else { self.address.checked_add(self.size) }
    }
}

/// One symbol that names a function.
struct Named<'a> {
    address: LinkAddr,
    /// Order among the names of one address.
    rank: (u8, usize, usize),
    name: &'a str,
    size: u64,
    indirect: bool,
}

/// A symbol table, and the bytes that it is in.
pub(crate) type Table<'a> = (&'a [u8], &'a SymbolTable);

/// The functions of the file, and how many symbols were left out.
pub(crate) fn collect(
    tables: &[Table<'_>],
    segments: &[Segment],
    frames: impl Fn() -> Vec<Range<LinkAddr>>,
) -> (Vec<Function>, u64) {
    let mut named = Vec::new();
    let mut left_out = 0;
    for &(data, table) in tables {
        let mut budget = (data.len() as u64).saturating_mul(NAMES_BYTES_PER_FILE_BYTE_MAX);
        let strings = &data[table.strings.clone()];
        for symbol in symbols(data, table).iter().filter(|s| is_function(s)) {
            let address = LinkAddr(symbol.st_value.get(Le));
            let Some(segment) = executable_segment(segments, address) else { continue };
            match function_name(strings, symbol, &mut budget) {
                Some(name) => named.push(Named {
                    address,
                    rank: rank(symbol, name),
                    name,
                    size: symbol.st_size.get(Le).min(segment.file_end().0 - address.0),
                    indirect: symbol.st_type() == elf::STT_GNU_IFUNC,
                }),
                None => left_out += 1,
            }
        }
    }
    named.sort_unstable_by(|a, b| (a.address, a.rank, a.name).cmp(&(b.address, b.rank, b.name)));
    let mut functions: Vec<Function> = named.chunk_by(|a, b| a.address == b.address).map(merge).collect();
    if functions.iter().any(|f| f.size == 0) {
        let ranges = frames();
        for function in functions.iter_mut().filter(|f| f.size == 0) {
            let range = frames::starting_at(&ranges, function.address);
            function.size = range.map_or(0, |r| r.end.0 - r.start.0);
        }
    }
    (functions, left_out)
}

/// Names and values of defined symbols of any kind whose names begin and end so.
pub(crate) fn symbols_between(tables: &[Table<'_>], prefix: &str, suffix: &str) -> Vec<(String, LinkAddr)> {
    let mut found = Vec::new();
    for &(data, table) in tables {
        let strings = &data[table.strings.clone()];
        for symbol in symbols(data, table).iter().filter(|s| is_defined(s)) {
            let name = name_at(strings, symbol.st_name.get(Le).into())
                .and_then(|name| std::str::from_utf8(name).ok());
            let is_meant = |name: &&str| {
                name.len() >= prefix.len() + suffix.len()
                    && name.starts_with(prefix)
                    && name.ends_with(suffix)
            };
            found.extend(
                name.filter(is_meant).map(|name| (name.to_owned(), LinkAddr(symbol.st_value.get(Le)))),
            );
        }
    }
    found
}

/// The value and size of a defined symbol of this name, functions or not; the first table that has it wins, in it a
/// global symbol before others.
pub(crate) fn symbol_value(tables: &[Table<'_>], name: &str) -> Option<(LinkAddr, u64)> {
    let mut found: Option<&Symbol> = None;
    for &(data, table) in tables {
        let strings = &data[table.strings.clone()];
        for symbol in symbols(data, table).iter().filter(|s| is_defined(s)) {
            if names_symbol(strings, symbol, name) {
                if symbol.st_bind() != elf::STB_LOCAL {
                    return Some((LinkAddr(symbol.st_value.get(Le)), symbol.st_size.get(Le)));
                }
                found = found.or(Some(symbol));
            }
        }
    }
    found.map(|s| (LinkAddr(s.st_value.get(Le)), s.st_size.get(Le)))
}

/// The values of those of `names` that a defined symbol has, in one pass over the tables: the first table that has a
/// name wins, in it a global symbol before others. Thread-local symbols are left out: their values are no addresses.
pub(crate) fn symbol_values(
    data: &[u8],
    tables: &[SymbolTable],
    names: &HashSet<&str>,
) -> HashMap<String, LinkAddr> {
    let mut found = HashMap::new();
    let mut budget = (data.len() as u64).saturating_mul(NAMES_BYTES_PER_FILE_BYTE_MAX);
    for table in tables.iter().filter(|_| !names.is_empty()) {
        let strings = &data[table.strings.clone()];
        let mut here: HashMap<String, (bool, LinkAddr)> = HashMap::new();
        for symbol in symbols(data, table).iter().filter(|s| is_defined(s) && s.st_type() != elf::STT_TLS) {
            let Some(name) = function_name(strings, symbol, &mut budget).filter(|n| names.contains(n)) else {
                continue;
            };
            let (is_global, value) = (symbol.st_bind() != elf::STB_LOCAL, LinkAddr(symbol.st_value.get(Le)));
            let entry = here.entry(name.into()).or_insert((is_global, value));
            if is_global && !entry.0 {
                *entry = (true, value);
            }
        }
        for (name, (_, value)) in here {
            found.entry(name).or_insert(value);
        }
    }
    found
}

/// Whether a symbol that other files are to define begins with `prefix`.
pub(crate) fn imports(data: &[u8], tables: &[SymbolTable], prefix: &str) -> bool {
    tables.iter().any(|table| {
        let strings = &data[table.strings.clone()];
        symbols(data, table).iter().any(|symbol| {
            let name = strings.get(symbol.st_name.get(Le) as usize..).unwrap_or_default();
            symbol.st_shndx.get(Le) == elf::SHN_UNDEF && name.starts_with(prefix.as_bytes())
        })
    })
}

fn is_defined(symbol: &Symbol) -> bool {
    let section = symbol.st_shndx.get(Le);
    section != elf::SHN_UNDEF && section != elf::SHN_COMMON && symbol.st_type() != elf::STT_FILE
}

fn is_function(symbol: &Symbol) -> bool {
    let kind = symbol.st_type();
    (kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC) && is_defined(symbol)
}

/// Compares without looking for the end of a long name.
fn names_symbol(strings: &[u8], symbol: &Symbol, name: &str) -> bool {
    let at = symbol.st_name.get(Le) as usize;
    let end = at + name.len();
    strings.get(at..end) == Some(name.as_bytes()) && matches!(strings.get(end), Some(0 | b'@'))
}

fn executable_segment(segments: &[Segment], address: LinkAddr) -> Option<&Segment> {
    segments.iter().find(|s| s.executable && s.holds(address))
}

fn function_name<'a>(strings: &'a [u8], symbol: &Symbol, budget: &mut u64) -> Option<&'a str> {
    let name = name_at(strings, symbol.st_name.get(Le).into())?;
    *budget = budget.checked_sub(name.len() as u64)?;
    let name = std::str::from_utf8(name).ok()?;
    let name = match name.find('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    if name.is_empty() { None } else { Some(name) }
}

fn rank(symbol: &Symbol, name: &str) -> (u8, usize, usize) {
    let binding = match symbol.st_bind() {
        elf::STB_GLOBAL | elf::STB_GNU_UNIQUE => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    };
    let underscores = name.len() - name.trim_start_matches('_').len();
    (binding, underscores, name.len())
}

/// The symbols of one address, best name first. Sizes that differ: the largest, so that whoever looks for jumps into
/// a function's first bytes sees all of it.
fn merge(symbols: &[Named<'_>]) -> Function {
    let mut names: Vec<String> = Vec::with_capacity(symbols.len());
    for symbol in symbols {
        // The static and the dynamic table repeat each other; the same name may rank twice (local and global).
        if names.last().is_none_or(|n| n != symbol.name) && !names.iter().take(64).any(|n| n == symbol.name) {
            names.push(symbol.name.to_string());
        }
    }
    let aliases = names.split_off(1);
    Function {
        name: names.pop().unwrap_or_default(),
        aliases,
        address: symbols[0].address,
        size: symbols.iter().map(|s| s.size).max().unwrap_or(0),
        kind: if symbols.iter().any(|s| s.indirect) { FunctionKind::Indirect } else { FunctionKind::Plain },
    }
}
