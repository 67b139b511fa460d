//! What functions take and give back, as DWARF says (DWARF 5, 3.3 and 5), and where System V's calling convention puts it
//! (psABI 3.2.3).
//!
//! In: the debug sections of a file, addresses of functions. Out: a [`Prototype`] for each of them that the sections know.
//! Its parameters are in the order of the source, with the place of each at the function's first instruction: a general
//! register, the low half of a vector register, or the stack.
//!
//! - A parameter whose place cannot be told is there all the same, with the reason: a struct that is passed by value, and what
//!   comes behind one.
//! - A parameter that an optimising compiler has left out, or put elsewhere than the convention has it, is read where its location
//!   says, or has the reason why it cannot be.
//! - Two functions of one address that take different things (identical code folded) have no prototype, nor has one of a
//!   language with a convention of its own (Go).
//! - What is read is hostile: references are followed a bounded number of times, and all types together are read within a
//!   budget ([`crate::limits`]).
//!
//! Deliberately not here: locations while the function runs, split DWARF (`.dwo`), type units, supplementary files (dwz).

mod convention;
mod ctypes;
mod location;
mod rust;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebugLineOffset, DebuggingInformationEntry, Dwarf, EndianSlice,
    LittleEndian, Section as _, SectionId, Unit, UnitHeader, UnitOffset, constants as dw,
};

use weir_event::ctype::{CType, CTypes, TypeId};

use crate::LinkAddr;
use crate::limits::{
    ENUM_LABELS_MAX, LINE_RANGES_MAX, LINE_READS_PER_BYTE_MAX, PARAMETERS_MAX, TYPE_ENTRIES_MAX,
    TYPE_LINKS_MAX, TYPE_NAME_BYTES_MAX,
};
use crate::lines::abbreviation_bytes;
use crate::prototypes::convention::{Class, Language, Places, language_of};
use crate::prototypes::ctypes::Table;
use crate::prototypes::location::{IN_PART, LATER, LOST, Located};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// What a function takes and gives back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prototype {
    pub parameters: Vec<Parameter>,
    /// None: it gives nothing back.
    pub result: Option<Kind>,
}

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    pub name: Option<String>,
    pub kind: Kind,
    /// Where it is at the function's first instruction, or why that is not known.
    pub place: Result<Passed, &'static str>,
    /// Of [`Counted::Parts`] where the length is.
    pub length: Option<Passed>,
}

/// How a string of Rust is passed, which ends where its length says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// `&str`: the address of its bytes, and their number as a parameter of its own.
    Parts,
    /// `String` and `&String`: the address of a record that has both, so many bytes from its start.
    Record { data: u32, length: u32 },
}

/// What a value is, as far as that matters to whoever reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An integer, a character or a truth value of 1, 2, 4 or 8 bytes.
    Int { bytes: u8, signed: bool },
    /// An integer whose values have names.
    Enum { bytes: u8, signed: bool, labels: Vec<(String, i64)> },
    /// 4 or 8 bytes.
    Float { bytes: u8 },
    /// The address of `char`s.
    Text,
    /// A string of Rust.
    Counted(Counted),
    /// The address of bytes of no further type: `void *`, `unsigned char *`.
    Untyped,
    /// Any other address.
    Pointer,
    /// What it is called in messages: `a struct`.
    Other(&'static str),
}

/// Where a parameter is at the function's first instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passed {
    /// A general register by its encoding number: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, then r8 to r15.
    Register(u8),
    /// The low bytes of xmm0 to xmm7.
    Vector(u8),
    /// So many bytes above rsp, where the return address is.
    Stack(u32),
}

impl fmt::Display for Prototype {
    /// `(int32 size, string name) uint64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}", parameter.kind)?;
            parameter.name.iter().try_for_each(|name| write!(f, " {name}"))?;
        }
        f.write_str(")")?;
        self.result.iter().try_for_each(|kind| write!(f, " {kind}"))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Int { bytes, signed } => {
                write!(f, "{}int{}", if *signed { "" } else { "u" }, 8 * u32::from(*bytes))
            }
            Kind::Enum { .. } => f.write_str("enum"),
            Kind::Float { bytes } => f.write_str(if *bytes == 4 { "float" } else { "double" }),
            Kind::Text | Kind::Counted(_) => f.write_str("string"),
            Kind::Untyped | Kind::Pointer => f.write_str("pointer"),
            Kind::Other(what) => f.write_str(what),
        }
    }
}

/// The prototypes of the functions at these link addresses; `section` gives each of [`lines::SECTIONS`](crate::lines::SECTIONS), empty where there is none.
pub(crate) fn find<'a>(
    section: &dyn Fn(&str) -> &'a [u8],
    addresses: &BTreeSet<LinkAddr>,
) -> BTreeMap<LinkAddr, Prototype> {
    search(section, |search| {
        let mut found: BTreeMap<LinkAddr, Option<Prototype>> = BTreeMap::new();
        for index in 0..search.headers.len() {
            for (address, prototype) in search.in_unit(index, addresses) {
                match found.entry(address) {
                    Entry::Vacant(entry) => _ = entry.insert(prototype),
                    Entry::Occupied(mut entry) if *entry.get() != prototype => _ = entry.insert(None),
                    Entry::Occupied(_) => {}
                }
            }
        }
        found.into_iter().filter_map(|(address, prototype)| Some((address, prototype?))).collect()
    })
}

/// What is asked of the C types of a file.
pub(crate) enum Asked<'q> {
    /// The types of the parameters of the function at this address.
    Parameters(LinkAddr),
    /// The type of a name.
    Named(&'q str),
    /// The record whose entry is there.
    Members(u64),
}

/// What is known of that.
pub(crate) enum Answer {
    Parameters(Vec<(String, TypeId)>),
    Named(Option<TypeId>),
    Members(Option<CType>),
}

/// C types of the file that is called `binary` in what is left unread.
pub(crate) fn types<'a>(
    section: &dyn Fn(&str) -> &'a [u8],
    asked: &Asked<'_>,
    binary: &str,
    types: &mut CTypes,
) -> Answer {
    let mut table = Table { types, binary };
    search(section, |search| match asked {
        Asked::Parameters(address) => Answer::Parameters(search.parameter_types(*address, &mut table)),
        Asked::Named(name) => Answer::Named(search.named_type(name, &mut table)),
        Asked::Members(offset) => Answer::Members(search.members(*offset, &mut table, 0)),
    })
}

fn search<'a, T>(section: &dyn Fn(&str) -> &'a [u8], run: impl FnOnce(&mut Search<'a, '_>) -> T) -> T {
    let load = |id: SectionId| Ok::<_, gimli::Error>(Bytes::new(section(id.name()), LittleEndian));
    // SANITY: `load` fails for no section.
    let dwarf = Dwarf::load(load).expect("every section is given");
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        headers.push(header);
    }
    let budget = |name: &str| LINE_READS_PER_BYTE_MAX.saturating_mul(section(name).len() as u64);
    run(&mut Search {
        dwarf: &dwarf,
        headers: &headers,
        units: HashMap::new(),
        abbreviations: budget(".debug_abbrev"),
        lines: budget(".debug_line"),
        ranges: LINE_RANGES_MAX,
        entries: TYPE_ENTRIES_MAX,
    })
}

struct Search<'a, 'b> {
    dwarf: &'b Dwarf<Bytes<'a>>,
    headers: &'b [UnitHeader<Bytes<'a>>],
    /// Those that were read, by number.
    units: HashMap<usize, Option<Rc<Unit<Bytes<'a>>>>>,
    /// What may still be read of abbreviations and line tables (bytes), ranges and entries of types.
    abbreviations: u64,
    lines: u64,
    ranges: u64,
    entries: u64,
}

/// An entry: the number of its unit, and where it is in it.
type Place = (usize, UnitOffset);

/// What a function is declared as.
struct Signature {
    /// Its type.
    result: Option<Place>,
    parameters: Vec<Declared>,
    /// Its compiler has marked it as not following the convention.
    is_changed: bool,
}

/// A parameter, as it is declared.
struct Declared {
    at: Place,
    name: Option<String>,
    ty: Option<Place>,
}

impl<'a> Search<'a, '_> {
    /// The functions of a unit that are wanted. None for one whose arguments are not where the convention has them.
    fn in_unit(&mut self, index: usize, wanted: &BTreeSet<LinkAddr>) -> Vec<(LinkAddr, Option<Prototype>)> {
        let places = self.functions_in(index, wanted);
        let language = match self.unit(index).filter(|_| !places.is_empty()) {
            Some(unit) => unit.entries().next_dfs().ok().flatten().and_then(language_of),
            None => return Vec::new(),
        };
        places
            .into_iter()
            .map(|(address, place)| {
                (address, language.and_then(|language| self.prototype(place, address, language)))
            })
            .collect()
    }

    /// Where the functions of a unit are that are wanted.
    fn functions_in(&mut self, index: usize, wanted: &BTreeSet<LinkAddr>) -> Vec<(LinkAddr, Place)> {
        let Some(unit) = self.unit(index) else { return Vec::new() };
        let is_here = self.has_code_of(&unit, wanted);
        let mut places = Vec::new();
        let mut entries = unit.entries();
        while is_here && let Ok(Some(entry)) = entries.next_dfs() {
            if entry.tag() != dw::DW_TAG_subprogram {
                continue;
            }
            if let Some(address) = self.start_of(&unit, entry).filter(|address| wanted.contains(address)) {
                places.push((address, (index, entry.offset())));
            }
        }
        // Only units with something wanted are kept, and what these refer to.
        if places.is_empty() {
            self.units.remove(&index);
        }
        places
    }

    fn has_code_of(&mut self, unit: &Unit<Bytes<'a>>, wanted: &BTreeSet<LinkAddr>) -> bool {
        let Ok(mut ranges) = self.dwarf.unit_ranges(unit) else { return false };
        while let Ok(Some(range)) = ranges.next() {
            let Some(left) = self.ranges.checked_sub(1) else { return false };
            self.ranges = left;
            if range.begin < range.end
                && wanted.range(LinkAddr(range.begin)..LinkAddr(range.end)).next().is_some()
            {
                return true;
            }
        }
        false
    }

    /// The first instruction of a function: where its only, or its first range begins.
    fn start_of(
        &self,
        unit: &Unit<Bytes<'a>>,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
    ) -> Option<LinkAddr> {
        match entry.attr_value(dw::DW_AT_low_pc) {
            Some(value) => self.dwarf.attr_address(unit, value).ok().flatten().map(LinkAddr),
            None => {
                entry.attr_value(dw::DW_AT_ranges)?;
                Some(LinkAddr(self.dwarf.die_ranges(unit, entry).ok()?.next().ok()??.begin))
            }
        }
    }

    fn unit(&mut self, index: usize) -> Option<Rc<Unit<Bytes<'a>>>> {
        if let Some(known) = self.units.get(&index) {
            return known.clone();
        }
        let unit = self.read_unit(index).map(Rc::new);
        self.units.insert(index, unit.clone());
        unit
    }

    fn read_unit(&mut self, index: usize) -> Option<Unit<Bytes<'a>>> {
        let header = *self.headers.get(index)?;
        let bytes = abbreviation_bytes(self.dwarf, header.debug_abbrev_offset());
        self.abbreviations = self.abbreviations.checked_sub(bytes)?;
        let abbreviations = self.dwarf.abbreviations(&header).ok()?;
        // The header of its line table is read with it, whatever other units share that.
        let mut entries = header.entries(&abbreviations);
        let root = entries.next_dfs().ok()??;
        if let Some(AttributeValue::DebugLineRef(DebugLineOffset(at))) = root.attr_value(dw::DW_AT_stmt_list)
        {
            let table = self.dwarf.debug_line.reader().slice().get(at..at.checked_add(4)?)?;
            let bytes = u32::from_le_bytes(table.try_into().ok()?);
            self.lines = self.lines.checked_sub(bytes.into())?;
        }
        Unit::new_with_abbreviations(self.dwarf, header, abbreviations).ok()
    }

    /// The types of what a function gives back, and of its parameters with their names.
    fn signature(&mut self, place: Place) -> Option<Signature> {
        let (mut at, mut result, mut parameters, mut is_changed) = (place, None, Vec::new(), false);
        // The code, what it is an instance of, and the declaration of that, which knows what the others leave out.
        for _ in 0..TYPE_LINKS_MAX {
            let entry = self.entry(at)?;
            is_changed |= entry.attr_value(dw::DW_AT_calling_convention)
                == Some(AttributeValue::CallingConvention(dw::DW_CC_nocall));
            result = result.or_else(|| self.reference(at.0, &entry, dw::DW_AT_type));
            if let Some(origin) = self.reference(at.0, &entry, dw::DW_AT_abstract_origin) {
                at = origin;
                continue;
            }
            if parameters.is_empty() {
                parameters = self.parameters_of(at)?;
            }
            match self.reference(at.0, &entry, dw::DW_AT_specification) {
                Some(declared) => at = declared,
                None => break,
            }
        }
        Some(Signature { result, parameters, is_changed })
    }

    fn prototype(&mut self, place: Place, address: LinkAddr, language: Language) -> Option<Prototype> {
        let Signature { result, parameters, is_changed } = self.signature(place)?;
        let located = self.located(place, address);
        let result = result.map(|ty| self.value(ty));
        let mut places = Places::new(result.as_ref().map(|value| value.class), language);
        let mut taken = Vec::with_capacity(parameters.len());
        for Declared { at, name, ty } in parameters {
            let value = match ty {
                Some(ty) => self.value(ty),
                None => Value::other("of a type that is not known"),
            };
            // A `String` is passed by its address.
            let is_record = matches!(value.kind, Kind::Counted(Counted::Record { .. }));
            let first = places.next(if is_record { Class::General } else { value.class });
            let second = (value.class == Class::Pair).then(|| places.next(Class::General));
            let located = match &located {
                Some(located) => located.get(&at).copied().unwrap_or(Located::Lost(LOST)),
                None => Located::Memory,
            };
            let is_behind = is_record && value.class == Class::ByReference;
            taken.push(Taken { name, kind: value.kind, is_behind, first, second, located });
        }
        let is_conventional = !is_changed && taken.iter().all(Taken::fits);
        let parameters = taken.into_iter().map(|taken| taken.parameter(is_conventional)).collect();
        Some(Prototype { parameters, result: result.map(|value| value.kind) })
    }

    /// Names and types of the parameters that stand directly below an entry.
    fn parameters_of(&mut self, (index, offset): Place) -> Option<Vec<Declared>> {
        let unit = self.unit(index)?;
        let mut entries = unit.entries_at_offset(offset).ok()?;
        let depth = entries.next_dfs().ok()??.depth();
        let mut found = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            self.entries = self.entries.checked_sub(1)?;
            if entry.depth() <= depth {
                break;
            }
            if entry.depth() == depth + 1 && entry.tag() == dw::DW_TAG_formal_parameter {
                if found.len() == PARAMETERS_MAX {
                    return None;
                }
                let (name, ty) = (self.name(&unit, entry), self.reference(index, entry, dw::DW_AT_type));
                found.push(Declared { at: (index, entry.offset()), name, ty });
            }
        }
        Some(found)
    }

    fn name(&self, unit: &Unit<Bytes<'a>>, entry: &DebuggingInformationEntry<Bytes<'a>>) -> Option<String> {
        let name = self.dwarf.attr_string(unit, entry.attr_value(dw::DW_AT_name)?).ok()?;
        let name = std::str::from_utf8(name.slice()).ok()?;
        let is_sound =
            !name.is_empty() && name.len() <= TYPE_NAME_BYTES_MAX && !name.contains(char::is_control);
        is_sound.then(|| name.to_owned())
    }

    fn entry(&mut self, (index, offset): Place) -> Option<DebuggingInformationEntry<Bytes<'a>>> {
        self.entries = self.entries.checked_sub(1)?;
        self.unit(index)?.entry(offset).ok()
    }

    /// What an attribute refers to.
    fn reference(
        &self,
        index: usize,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
        attribute: dw::DwAt,
    ) -> Option<Place> {
        match entry.attr_value(attribute)? {
            AttributeValue::UnitRef(offset) => Some((index, offset)),
            AttributeValue::DebugInfoRef(offset) => self.place_of(offset),
            _ => None,
        }
    }

    /// The place of an offset of the section.
    fn place_of(&self, offset: DebugInfoOffset) -> Option<Place> {
        let starts_before = |header: &UnitHeader<Bytes<'a>>| header.offset().0 <= offset.0;
        let index = self.headers.partition_point(starts_before).checked_sub(1)?;
        Some((index, offset.to_unit_offset(&self.headers[index])?))
    }

    /// What a type is.
    fn value(&mut self, ty: Place) -> Value {
        let Some((at, entry)) = self.plain(ty) else { return Value::other("void") };
        let bytes = entry.attr_value(dw::DW_AT_byte_size).and_then(|value| value.udata_value());
        if let Some(value) = self.rust_value(at, &entry, bytes) {
            return value;
        }
        match entry.tag() {
            dw::DW_TAG_base_type => base(&entry, bytes),
            dw::DW_TAG_enumeration_type => self.enumeration(at, &entry, bytes),
            dw::DW_TAG_pointer_type => Value::general(self.pointed(at.0, &entry)),
            dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type | dw::DW_TAG_unspecified_type => {
                Value::general(Kind::Pointer)
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                let kind = Kind::Other("a struct");
                let class = match entry.attr_value(dw::DW_AT_calling_convention) {
                    Some(AttributeValue::CallingConvention(dw::DW_CC_pass_by_reference)) => {
                        Class::ByReference
                    }
                    Some(AttributeValue::CallingConvention(dw::DW_CC_pass_by_value)) => {
                        Class::ByValue { bytes }
                    }
                    _ => Class::Struct { bytes },
                };
                Value { kind, class }
            }
            dw::DW_TAG_array_type => Value { kind: Kind::Other("a vector"), class: Class::Wide },
            _ => Value::other("of a type that is not known"),
        }
    }

    /// The type without names and qualifiers. None for `void`.
    fn plain(&mut self, ty: Place) -> Option<(Place, DebuggingInformationEntry<Bytes<'a>>)> {
        let mut at = ty;
        for _ in 0..TYPE_LINKS_MAX {
            let entry = self.entry(at)?;
            match entry.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => at = self.reference(at.0, &entry, dw::DW_AT_type)?,
                _ => return Some((at, entry)),
            }
        }
        None
    }

    fn pointed(&mut self, index: usize, entry: &DebuggingInformationEntry<Bytes<'a>>) -> Kind {
        let Some(to) = self.reference(index, entry, dw::DW_AT_type) else { return Kind::Untyped };
        let Some((at, to)) = self.plain(to) else { return Kind::Untyped };
        if let Some(record) = self.rust_string(at, &to) {
            return Kind::Counted(record);
        }
        let is_byte = to.attr_value(dw::DW_AT_byte_size).and_then(|value| value.udata_value()) == Some(1);
        match to.attr_value(dw::DW_AT_encoding) {
            _ if to.tag() != dw::DW_TAG_base_type || !is_byte => Kind::Pointer,
            Some(AttributeValue::Encoding(dw::DW_ATE_signed_char)) => Kind::Text,
            Some(AttributeValue::Encoding(dw::DW_ATE_unsigned_char | dw::DW_ATE_unsigned)) => Kind::Untyped,
            _ => Kind::Pointer,
        }
    }

    fn enumeration(
        &mut self,
        at: Place,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
        bytes: Option<u64>,
    ) -> Value {
        let below = self.reference(at.0, entry, dw::DW_AT_type).map(|ty| self.value(ty).kind);
        let labels = self.labels(at).unwrap_or_default();
        let (bytes, signed) = match below {
            Some(Kind::Int { bytes: below, signed }) => (bytes.unwrap_or(below.into()), signed),
            // C's are unsigned, unless one of them is negative.
            _ => (bytes.unwrap_or(4), labels.iter().any(|(_, value)| *value < 0)),
        };
        match sound(bytes) {
            Some(bytes) => Value::general(Kind::Enum { bytes, signed, labels }),
            None => Value::other("an enumeration of a size that weir does not read"),
        }
    }

    fn labels(&mut self, (index, offset): Place) -> Option<Vec<(String, i64)>> {
        let unit = self.unit(index)?;
        let mut entries = unit.entries_at_offset(offset).ok()?;
        let depth = entries.next_dfs().ok()??.depth();
        let mut labels = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            self.entries = self.entries.checked_sub(1)?;
            if entry.depth() <= depth || labels.len() == ENUM_LABELS_MAX {
                break;
            }
            if entry.tag() != dw::DW_TAG_enumerator {
                continue;
            }
            // Compilers write a negative one as such, and all others in forms without a sign.
            let value = match entry.attr(dw::DW_AT_const_value).map(|attribute| attribute.raw_value()) {
                Some(AttributeValue::Sdata(value)) => Some(value),
                Some(other) => other.udata_value().map(|value| value as i64),
                None => None,
            };
            labels.extend(self.name(&unit, entry).zip(value));
        }
        Some(labels)
    }
}

/// A parameter with where it should be, and where it is.
struct Taken {
    name: Option<String>,
    kind: Kind,
    /// Its address is passed: a `String`.
    is_behind: bool,
    /// As the convention has it, and of two the second.
    first: Result<Passed, &'static str>,
    second: Option<Result<Passed, &'static str>>,
    located: Located,
}

const CHANGED: &str = "the compiler has changed how the function takes its parameters";

impl Taken {
    /// Whether it may be where the convention has it.
    fn fits(&self) -> bool {
        let is =
            |passed, conventional: Result<Passed, _>| conventional.is_err() || conventional == Ok(passed);
        match self.located {
            Located::One(passed) => is(passed, self.first),
            Located::Behind(passed) => !self.is_behind || is(passed, self.first),
            Located::Two(first, second) => {
                is(first, self.first) && self.second.is_none_or(|conventional| is(second, conventional))
            }
            // What is on the stack by the convention is unknown until the function reads it.
            Located::Part(Some(first), None) => {
                is(first, self.first) && matches!(self.second, Some(Ok(Passed::Stack(_))))
            }
            Located::Memory | Located::Later(_) => true,
            Located::Part(..) | Located::Lost(_) => false,
        }
    }

    fn parameter(self, is_conventional: bool) -> Parameter {
        let place = match self.kind {
            Kind::Other(_) => self.first.map(|first| (first, None)),
            _ => self.place(is_conventional),
        };
        let has_length = self.kind == Kind::Counted(Counted::Parts);
        let length = place.ok().and_then(|(_, second)| second).filter(|_| has_length);
        Parameter { name: self.name, kind: self.kind, place: place.map(|(first, _)| first), length }
    }

    fn place(&self, is_conventional: bool) -> Result<(Passed, Option<Passed>), &'static str> {
        let conventional = || match is_conventional {
            true => Ok((self.first?, self.second.transpose()?)),
            false => Err(CHANGED),
        };
        let is_pair = self.kind == Kind::Counted(Counted::Parts);
        let is_float = matches!(self.kind, Kind::Float { .. });
        match self.located {
            Located::One(passed) if !is_pair && !self.is_behind => {
                let is_vector = matches!(passed, Passed::Vector(_));
                if is_vector == is_float { Ok((passed, None)) } else { Err(CHANGED) }
            }
            Located::Two(first @ Passed::Register(_), second @ Passed::Register(_)) if is_pair => {
                Ok((first, Some(second)))
            }
            Located::Behind(passed) if self.is_behind => Ok((passed, None)),
            Located::Behind(_) | Located::Memory => conventional(),
            // What finds it there after a few instructions has been handed it there.
            Located::Later(Some(passed)) if self.first == Ok(passed) && is_conventional => conventional(),
            Located::Later(_) => Err(LATER),
            Located::Part(..) => Err(IN_PART),
            Located::One(_) | Located::Two(..) => Err(CHANGED),
            Located::Lost(reason) => Err(reason),
        }
    }
}

/// A type, and how a value of it is passed.
struct Value {
    kind: Kind,
    class: Class,
}

impl Value {
    fn general(kind: Kind) -> Value {
        Value { kind, class: Class::General }
    }

    fn other(what: &'static str) -> Value {
        Value { kind: Kind::Other(what), class: Class::Unknown }
    }
}

fn base(entry: &DebuggingInformationEntry<Bytes<'_>>, bytes: Option<u64>) -> Value {
    let encoding = match entry.attr_value(dw::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => encoding,
        _ => return Value::other("of a type that is not known"),
    };
    match (encoding, bytes.and_then(sound)) {
        (dw::DW_ATE_signed | dw::DW_ATE_signed_char, Some(bytes)) => {
            Value::general(Kind::Int { bytes, signed: true })
        }
        (
            dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char | dw::DW_ATE_boolean | dw::DW_ATE_UTF,
            Some(bytes),
        ) => Value::general(Kind::Int { bytes, signed: false }),
        (dw::DW_ATE_float, Some(bytes @ (4 | 8))) => {
            Value { kind: Kind::Float { bytes }, class: Class::Vector }
        }
        (dw::DW_ATE_float | dw::DW_ATE_complex_float, _) => {
            Value { kind: Kind::Other("a floating-point number of this size"), class: Class::Wide }
        }
        _ => Value::other("an integer of this size"),
    }
}

fn sound(bytes: u64) -> Option<u8> {
    matches!(bytes, 1 | 2 | 4 | 8).then_some(bytes as u8)
}
