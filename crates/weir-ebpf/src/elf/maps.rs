//! The maps of a file: from BTF, from the older definitions, and from variables.
//!
//! In: the file's sections. Out: [`Maps`], with where each stands, so that relocations find it. Older definitions
//! come first, then those of `.maps` in the compiler's order, then sections of variables in the file's order.
//!
//! Deliberately not here: whether sizes suit the kind (weir-verifier and weir-rt say that of every object).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::btf::{Btf, Kind, TypeId};
use crate::elf::error::{ElfError, ElfErrorKind, Result};
use crate::elf::sections::{Data, Place, Relocation, Role, SectionIndex, Sections, Symbol};
use crate::elf::{MapOrigin, Unusable, Variable, limits};
use crate::map::{self, flag};
use crate::{MapKind, MapSpec};

#[derive(Debug, Default)]
pub(crate) struct Maps {
    pub(crate) specs: Vec<MapSpec>,
    pub(crate) origins: Vec<MapOrigin>,
    /// Index of the map defined at an offset of a section.
    pub(crate) at: BTreeMap<(SectionIndex, u64), usize>,
    /// Index of the map that holds a section's variables.
    pub(crate) of_section: BTreeMap<SectionIndex, usize>,
    /// Slots of arrays of programs that the file fills.
    pub(crate) slots: Vec<Slot>,
    /// What was defined at an offset of a section, and is none of those that weir has.
    pub(crate) unusable: BTreeMap<(SectionIndex, u64), Unusable>,
    /// Index of the map that is the variable named [`VERSION`], if the file declares it and the version is known.
    pub(crate) version: Option<usize>,
}

/// A slot of an array of programs: map, index, and the function's section and offset there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) map: usize,
    pub(crate) index: u32,
    pub(crate) section: SectionIndex,
    pub(crate) offset: u64,
}

/// What a definition says, in either form.
#[derive(Clone, Copy, Default)]
struct Definition {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
    flags: u32,
    extra: u32,
    key: Option<TypeId>,
    value: Option<TypeId>,
    values: Option<Values>,
}

/// The slots of a map that are named in its variable.
#[derive(Clone, Copy)]
struct Values {
    /// Byte offset of the first one in the variable.
    at: u64,
    /// The type of the definition of the maps in them; none for programs.
    of: Option<TypeId>,
}

/// A map that holds maps, before it is known which.
#[derive(Clone, Copy)]
struct Holder {
    map: usize,
    /// Bytes of the section where its values are named, `start..end`.
    start: u64,
    end: u64,
}

/// The kernel's kinds of map, by number from 1; for messages about those that weir does not have.
#[rustfmt::skip]
const KERNEL_KINDS: [&str; 33] = [
    "hash", "array", "prog_array", "perf_event_array", "percpu_hash", "percpu_array", "stack_trace", "cgroup_array",
    "lru_hash", "lru_percpu_hash", "lpm_trie", "array_of_maps", "hash_of_maps", "devmap", "sockmap", "cpumap",
    "xskmap", "sockhash", "cgroup_storage", "reuseport_sockarray", "percpu_cgroup_storage", "queue", "stack",
    "sk_storage", "devmap_hash", "struct_ops", "ringbuf", "inode_storage", "task_storage", "bloom_filter",
    "user_ringbuf", "cgrp_storage", "arena",
];

/// Where variables are declared whose values only the kernel's configuration says, and the one that is its version.
const CONFIG: &str = ".kconfig";
pub(crate) const VERSION: &str = "LINUX_KERNEL_VERSION";
const VERSION_BYTES: u32 = 4;

/// `LIBBPF_PIN_BY_NAME`.
const PIN_BY_NAME: u32 = 1;

/// Relocations of an address in data (LLVM: R_BPF_64_64 of older compilers, R_BPF_64_ABS64).
const R_BPF_64_64: u32 = 1;
const R_BPF_64_ABS64: u32 = 2;

/// Bytes of what each definition in `maps` begins with: kind, key, value, entries, flags.
const LEGACY_BYTES: usize = 20;

/// Bytes of a definition of iproute2 (`struct bpf_elf_map`): the same, a number, pinning, and two fields of maps that hold maps.
const IPROUTE2_BYTES: usize = 36;
const IPROUTE2_KNOWN_BYTES: usize = 28;

impl Maps {
    pub(crate) fn of(sections: &Sections, kernel_version: fn() -> Option<u32>) -> Result<Maps> {
        let mut maps = Maps::default();
        let described = sections.btf.as_ref().map_or_else(Described::default, described);
        for role in [Role::LegacyMaps, Role::BtfMaps, Role::ReadOnly, Role::Writable] {
            let mut count = 0;
            for (index, data) in sections.data.iter().filter(|(_, data)| data.role == role) {
                count += 1;
                if count > 1 && matches!(role, Role::LegacyMaps | Role::BtfMaps) {
                    return Err(ElfError::malformed("a second one").in_section(&data.name));
                }
                let added = match role {
                    Role::LegacyMaps => maps.legacy(sections, *index, data),
                    Role::BtfMaps => maps.described(sections, *index, data),
                    Role::ReadOnly | Role::Writable => maps.variables(sections, &described, *index, data),
                };
                added.map_err(|error| error.in_section(&data.name))?;
            }
        }
        if let Some(btf) = &sections.btf {
            maps.kernel_version(btf, kernel_version)?;
        }
        Ok(maps)
    }

    /// The variable that holds the kernel's version, if the file declares it.
    fn kernel_version(&mut self, btf: &Btf, version: fn() -> Option<u32>) -> Result<()> {
        let declared = btf.section_variables(CONFIG).into_iter().filter_map(|id| btf.get(id));
        let found =
            declared.filter(|variable| btf.name(variable.name) == Some(VERSION)).find_map(|variable| {
                let ty = variable.size_or_type;
                (btf.size_of(ty)? == VERSION_BYTES).then_some(ty)
            });
        let Some(ty) = found else { return Ok(()) };
        let Some(version) = version() else { return Ok(()) };
        let mut spec = MapSpec::new(CONFIG, MapKind::Array, 4, VERSION_BYTES, 1);
        spec.flags = flag::RDONLY_PROG;
        let variables = vec![Variable { name: VERSION.to_owned(), offset: 0, ty }];
        let initial = Some(version.to_le_bytes().to_vec());
        self.version = Some(self.push(spec, MapOrigin { initial, variables, ..MapOrigin::default() })?);
        Ok(())
    }

    fn legacy(&mut self, sections: &Sections, index: SectionIndex, data: &Data) -> Result<()> {
        let contents = data.contents.unwrap_or_default();
        let mut symbols = symbols_in(sections, index);
        symbols.sort_by_key(|symbol| symbol.offset);
        for (position, symbol) in symbols.iter().enumerate() {
            let definition = || {
                // The size is not always given; a definition then goes to the next one, or to the end.
                let next = symbols.get(position + 1).map_or(contents.len() as u64, |next| next.offset);
                let end = if symbol.bytes > 0 { symbol.offset.checked_add(symbol.bytes)? } else { next };
                contents.get(usize::try_from(symbol.offset).ok()?..usize::try_from(end).ok()?)
            };
            let definition = definition().filter(|bytes| bytes.len() >= LEGACY_BYTES).ok_or_else(|| {
                ElfError::malformed(format!("no definition of {LEGACY_BYTES} bytes at {:#x}", symbol.offset))
                    .in_symbol(&symbol.name)
            })?;
            let word = |at| crate::btf::word(definition, at).unwrap_or(0);
            let [kind, key_bytes, value_bytes, max_entries, flags] = [0, 4, 8, 12, 16].map(word);
            // iproute2's go on with a number and how the map is pinned, which is the loader's affair.
            let known = if definition.len() == IPROUTE2_BYTES { IPROUTE2_KNOWN_BYTES } else { LEGACY_BYTES };
            let has_more = definition[known..].iter().any(|byte| *byte != 0);
            let definition =
                Definition { kind, key_bytes, value_bytes, max_entries, flags, ..Definition::default() };
            let at = (index, symbol.offset);
            let defined = match has_more {
                true => {
                    Err(ElfError::unsupported("fields of its definition behind map_flags that are not 0"))
                }
                false => self.define(&symbol.name, definition, at).map(|_| ()),
            };
            self.or_unusable(defined, &symbol.name, at)?;
        }
        Ok(())
    }

    fn described(&mut self, sections: &Sections, index: SectionIndex, data: &Data) -> Result<()> {
        let Some(btf) = &sections.btf else {
            return Err(ElfError::malformed(
                "maps, but no .BTF section that describes them (compile with -g)",
            ));
        };
        let offsets: BTreeMap<&str, u64> = symbols_in(sections, index)
            .into_iter()
            .map(|symbol| (symbol.name.as_str(), symbol.offset))
            .collect();
        let variables = btf.section_variables(".maps");
        if variables.len() > limits::MAPS_MAX {
            return Err(ElfError::too_big("maps", variables.len() as u64, limits::MAPS_MAX as u64));
        }
        let (mut holders, mut named) = (Vec::new(), Vec::new());
        for variable in variables {
            let ty = btf.get(variable).filter(|ty| ty.kind == Kind::Variable);
            let ty = ty.ok_or_else(|| ElfError::malformed(format!("BTF type {variable} is no variable")))?;
            let name = btf.name(ty.name).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| ElfError::malformed("a map without a name"))?;
            let offset = offsets.get(name).copied().filter(|offset| *offset < data.bytes);
            let bytes = symbols_in(sections, index)
                .into_iter()
                .find(|symbol| symbol.name == name)
                .map_or(0, |symbol| symbol.bytes);
            let offset = offset.ok_or_else(|| {
                ElfError::malformed("BTF describes it, but no symbol says where it is").in_symbol(name)
            })?;
            let known = (self.specs.len(), self.slots.len());
            let defined = definition(btf, ty.size_or_type).and_then(|definition| {
                let map = self.define(name, definition, (index, offset))?;
                match definition.values {
                    Some(Values { at, of: Some(of) }) => {
                        self.define_held(btf, map, of)?;
                        let start = offset.saturating_add(at);
                        let end = offset.saturating_add(bytes).max(start);
                        holders.push(Holder { map, start, end });
                        named.push(start..end);
                    }
                    _ => named.push(self.fill(sections, data, definition, offset)?),
                }
                Ok(())
            });
            if defined.is_err() {
                // As if it had not begun.
                self.specs.truncate(known.0);
                self.origins.truncate(known.0);
                self.slots.truncate(known.1);
                self.at.remove(&(index, offset));
                named.push(offset..offset.saturating_add(bytes));
            }
            self.or_unusable(defined, name, (index, offset))?;
        }
        for holder in holders {
            for (offset, relocation) in data.relocations.range(holder.start..holder.end) {
                self.hold(sections, holder, data, *offset, *relocation)?;
            }
        }
        let is_stray = |at: &&u64| !named.iter().any(|values| values.contains(*at));
        match data.relocations.keys().filter(is_stray).count() {
            0 => Ok(()),
            count => {
                Err(ElfError::unsupported(format!("{count} addresses that are in no `values` of a map")))
            }
        }
    }

    /// A map that weir does not have is no fault of the file.
    fn or_unusable(&mut self, defined: Result<()>, name: &str, at: (SectionIndex, u64)) -> Result<()> {
        match defined {
            Err(error) if error.kind == ElfErrorKind::Unsupported => {
                let (name, reason) = (name.to_owned(), error.message);
                self.unusable.insert(at, Unusable { name, reason });
                Ok(())
            }
            other => other.map_err(|error| error.in_symbol(name)),
        }
    }

    /// The map that those which `map` holds are like: nobody names it.
    fn define_held(&mut self, btf: &Btf, map: usize, ty: TypeId) -> Result<()> {
        let kind = self.specs[map].kind;
        if !kind.holds_maps() {
            return Err(ElfError::malformed(format!("`values` are maps, which no {} holds", kind.name())));
        }
        let held = definition(btf, ty)?;
        if held.values.is_some() {
            return Err(ElfError::unsupported("maps that hold maps that hold maps"));
        }
        let name = format!("{}.inner", self.specs[map].name);
        let spec = spec(&name, held)?;
        let held = self.push(spec, MapOrigin::default())?;
        self.specs[map].inner = Some(held as u32);
        Ok(())
    }

    /// A value that is known before the map is loaded: the relocation at `offset` names another map.
    fn hold(
        &mut self,
        sections: &Sections,
        holder: Holder,
        data: &Data,
        offset: u64,
        relocation: Relocation,
    ) -> Result<()> {
        let distance = offset - holder.start;
        if !distance.is_multiple_of(8) {
            return Err(ElfError::malformed(format!(
                "an address at {offset:#x}, where no value of a map is"
            )));
        }
        let symbol = &sections.symbols[relocation.symbol];
        // The compiler leaves the distance from the symbol in the data.
        let contents = data.contents.unwrap_or_default();
        let addend = usize::try_from(offset).ok().and_then(|at| contents.get(at..at.checked_add(8)?));
        let addend = addend.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        let held = match symbol.place {
            Place::Section(section) => self.at.get(&(section, symbol.offset.wrapping_add(addend))).copied(),
            _ => None,
        };
        let map = &self.specs[holder.map];
        let error = |message: String| ElfError::malformed(message).in_symbol(&map.name);
        let held = held.ok_or_else(|| error(format!("the value at {offset:#x} is no map")))?;
        let like = map.inner.and_then(|inner| self.specs.get(inner as usize));
        if like.is_none_or(|like| !self.specs[held].is_like(like)) {
            return Err(error(format!("{} is not what it was defined to hold", self.specs[held].name)));
        }
        if map.key_bytes != 4 {
            return Err(error(format!(
                "values that are known before have keys of 4 bytes, not {}",
                map.key_bytes
            )));
        }
        self.origins[holder.map].held.push(((distance / 8) as u32, held as u32));
        Ok(())
    }

    /// Notes the programs in the slots of the map that was defined last, at `offset` of its section; where they are
    /// named.
    fn fill(
        &mut self,
        sections: &Sections,
        data: &Data,
        definition: Definition,
        offset: u64,
    ) -> Result<Range<u64>> {
        let Some(Values { at, .. }) = definition.values else { return Ok(0..0) };
        let map = self.specs.len() - 1;
        let kind = self.specs[map].kind;
        if kind != MapKind::ProgArray {
            return Err(ElfError::malformed(format!(
                "`values` are programs, which no {} holds",
                kind.name()
            )));
        }
        let first = offset.saturating_add(at);
        let end = first.saturating_add(8 * u64::from(definition.max_entries));
        for (at, relocation) in data.relocations.range(first..end) {
            let symbol = &sections.symbols[relocation.symbol];
            let what = || ElfError::unsupported(format!("`{}` in a slot, which is no program", symbol.name));
            let Place::Section(section) = symbol.place else { return Err(what()) };
            if ![R_BPF_64_64, R_BPF_64_ABS64].contains(&relocation.kind) || (at - first) % 8 != 0 {
                return Err(ElfError::malformed(format!(
                    "a relocation of type {} in `values`",
                    relocation.kind
                )));
            }
            // What is added stands in the place itself.
            let contents = data.contents.unwrap_or_default();
            let word = usize::try_from(*at).ok().and_then(|at| contents.get(at..)?.first_chunk::<8>());
            let added = word.map_or(0, |word| u64::from_le_bytes(*word));
            let index = ((at - first) / 8) as u32;
            if index >= limits::PROGRAM_SLOTS_IN_MAP_MAX {
                let most = limits::PROGRAM_SLOTS_IN_MAP_MAX.into();
                return Err(ElfError::too_big("slots of programs", u64::from(index) + 1, most));
            }
            self.slots.push(Slot { map, index, section, offset: symbol.offset.wrapping_add(added) });
        }
        Ok(first..end)
    }

    fn variables(
        &mut self,
        sections: &Sections,
        described: &Described,
        index: SectionIndex,
        data: &Data,
    ) -> Result<()> {
        if data.bytes == 0 {
            return Ok(());
        }
        let known = self.of_section.values().map(|map| u64::from(self.specs[*map].value_bytes));
        let sum = data.bytes + known.sum::<u64>();
        if sum > limits::DATA_BYTES_SUM_MAX {
            return Err(ElfError::too_big("bytes of variables", sum, limits::DATA_BYTES_SUM_MAX));
        }
        let is_read_only = data.role == Role::ReadOnly;
        // Bounded where the section was read.
        let mut spec = MapSpec::new(&data.name, MapKind::Array, 4, data.bytes as u32, 1);
        spec.flags = if is_read_only { flag::RDONLY_PROG } else { 0 };
        // Zeros need not be set; but of what nobody changes they are known.
        let initial = data.contents.filter(|bytes| is_read_only || bytes.iter().any(|byte| *byte != 0));
        let initial = initial.map(<[u8]>::to_vec);
        let variables = variables_in(sections, described, index, &data.name);
        let map = self.push(spec, MapOrigin { initial, variables, ..MapOrigin::default() })?;
        self.of_section.insert(index, map);
        Ok(())
    }

    fn define(&mut self, name: &str, definition: Definition, at: (SectionIndex, u64)) -> Result<usize> {
        let Definition { key, value, .. } = definition;
        let map = self.push(spec(name, definition)?, MapOrigin { key, value, ..MapOrigin::default() })?;
        if self.at.insert(at, map).is_some() {
            return Err(ElfError::malformed(format!("another map stands at {:#x} already", at.1)));
        }
        Ok(map)
    }
    fn push(&mut self, spec: MapSpec, origin: MapOrigin) -> Result<usize> {
        if self.specs.len() >= limits::MAPS_MAX {
            let count = self.specs.len() as u64 + 1;
            return Err(ElfError::too_big("maps", count, limits::MAPS_MAX as u64));
        }
        self.specs.push(spec);
        self.origins.push(origin);
        Ok(self.specs.len() - 1)
    }
}

/// What a definition says, if weir has such maps.
fn spec(name: &str, definition: Definition) -> Result<MapSpec> {
    let number = definition.kind;
    let kind = MapKind::ALL.into_iter().find(|kind| *kind as u32 == number).ok_or_else(|| {
        let name = (number as usize).checked_sub(1).and_then(|index| KERNEL_KINDS.get(index));
        match name {
            Some(name) => ElfError::unsupported(format!("maps of kind {name} ({number})")),
            None => ElfError::malformed(format!("there is no kind of map with number {number}")),
        }
    })?;
    let Definition { key_bytes, value_bytes, max_entries, flags, extra, .. } = definition;
    let extra = u64::from(extra);
    let spec = MapSpec { flags, extra, ..MapSpec::new(name, kind, key_bytes, value_bytes, max_entries) };
    if spec.foreign_flags() != 0 {
        let known = match flag::names(map::taken(kind)) {
            none if none.is_empty() => "none".to_owned(),
            names => names,
        };
        let kind = kind.name();
        return Err(ElfError::unsupported(format!("map_flags {flags:#x} (possible for {kind}: {known})")));
    }
    if spec.extra > spec.extra_max() {
        let (kind, most) = (kind.name(), spec.extra_max());
        return Err(ElfError::unsupported(format!("map_extra {extra} (possible for {kind}: 0 to {most})")));
    }
    Ok(spec)
}

/// Symbols that name something in a section: not the section itself, nor the compiler's labels.
fn symbols_in<'a>(sections: &'a Sections, index: SectionIndex) -> Vec<&'a Symbol> {
    let symbols = sections.symbols.iter();
    symbols
        .filter(|symbol| {
            symbol.place == Place::Section(index) && !symbol.is_section && !symbol.name.is_empty()
        })
        .collect()
}

/// By section, the types of variables by their names.
type Described<'a> = BTreeMap<&'a str, BTreeMap<&'a str, TypeId>>;

/// The variables that BTF describes, as far as [`limits::DESCRIBED_VARIABLES_MAX`] goes.
fn described(btf: &Btf) -> Described<'_> {
    let (mut described, mut count) = (Described::new(), 0);
    for (_, section) in btf.types().filter(|(_, ty)| ty.kind == Kind::Section) {
        let Some(name) = btf.name(section.name) else { continue };
        let variables = described.entry(name).or_default();
        for words in section.extra.chunks_exact(3) {
            count += 1;
            if count > limits::DESCRIBED_VARIABLES_MAX {
                return described;
            }
            let variable = btf.get(words[0]).filter(|ty| ty.kind == Kind::Variable);
            let Some((name, ty)) = variable.and_then(|ty| Some((btf.name(ty.name)?, ty.size_or_type))) else {
                continue;
            };
            variables.insert(name, ty);
        }
    }
    described
}

/// The variables of a section that BTF has a type for, by their places, which compilers leave to the symbols.
fn variables_in(
    sections: &Sections,
    described: &Described,
    index: SectionIndex,
    section: &str,
) -> Vec<Variable> {
    let Some(types) = described.get(section) else { return Vec::new() };
    let found = symbols_in(sections, index).into_iter().filter_map(|symbol| {
        let (name, ty) = (symbol.name.clone(), *types.get(symbol.name.as_str())?);
        Some(Variable { name, offset: u32::try_from(symbol.offset).ok()?, ty })
    });
    let mut found: Vec<Variable> = found.collect();
    found.sort_by_key(|variable| variable.offset);
    found
}

/// A map from the type of its variable: an anonymous struct whose members' types are what they say.
fn definition(btf: &Btf, ty: TypeId) -> Result<Definition> {
    let ty = btf.resolve(ty).filter(|ty| ty.kind == Kind::Struct);
    let ty = ty.ok_or_else(|| ElfError::malformed("the type of a map is no struct"))?;
    let mut definition = Definition::default();
    for member in ty.members() {
        let name = btf.name(member.name).unwrap_or_default();
        let number = || {
            pointed_to(btf, member.ty)
                .and_then(|id| btf.resolve(id))
                .filter(|ty| ty.kind == Kind::Array)
                .map(|ty| ty.extra[2])
                .ok_or_else(|| ElfError::malformed(format!("`{name}` is no `int (*)[N]`")))
        };
        let size = || {
            pointed_to(btf, member.ty)
                .and_then(|id| btf.size_of(id))
                .ok_or_else(|| ElfError::malformed(format!("`{name}` is no pointer to a type with a size")))
        };
        match name {
            "type" => definition.kind = number()?,
            "max_entries" => definition.max_entries = number()?,
            "map_flags" => definition.flags = number()?,
            "map_extra" => definition.extra = number()?,
            "key_size" | "key" => {
                let bytes = if name == "key" { size()? } else { number()? };
                same(&mut definition.key_bytes, bytes, "key")?;
                if name == "key" {
                    definition.key = pointed_to(btf, member.ty);
                }
            }
            "value_size" | "value" => {
                let bytes = if name == "value" { size()? } else { number()? };
                same(&mut definition.value_bytes, bytes, "value")?;
                if name == "value" {
                    definition.value = pointed_to(btf, member.ty);
                }
            }
            "values" => {
                let at = u64::from((member.bit_offset & 0xff_ffff) / 8);
                definition.values = Some(Values { at, of: held(btf, member.ty)? });
            }
            // Pinned by name: other loaders would find the same map. Here a map belongs to its run.
            "pinning" if number()? == PIN_BY_NAME => {}
            // 0 is what an absent one means.
            "pinning" => match number()? {
                0 => {}
                number => return Err(ElfError::unsupported(format!("`{name}` {number}"))),
            },
            // Where the kernel allocates it.
            "numa_node" => {}
            _ => return Err(ElfError::unsupported(format!("`{name}` in the definition of a map"))),
        }
    }
    if definition.values.is_some() && (definition.key_bytes, definition.value_bytes) == (0, 0) {
        (definition.key_bytes, definition.value_bytes) = (4, 4);
    } else if definition.values.is_some() && definition.value_bytes == 0 {
        definition.value_bytes = 4;
    }
    Ok(definition)
}

/// The type of the definition of the maps that a map holds: `values` is an array of pointers to it. None: to functions.
fn held(btf: &Btf, ty: TypeId) -> Result<Option<TypeId>> {
    let array = btf.resolve(ty).filter(|ty| ty.kind == Kind::Array);
    let held = array.and_then(|array| pointed_to(btf, array.extra[0]));
    match held.and_then(|held| btf.resolve(held)).map(|ty| ty.kind) {
        Some(Kind::Struct) => Ok(held),
        Some(Kind::Prototype) => Ok(None),
        _ => Err(ElfError::malformed("`values` is no array of pointers to functions or maps")),
    }
}

fn pointed_to(btf: &Btf, id: TypeId) -> Option<TypeId> {
    btf.resolve(id).filter(|ty| ty.kind == Kind::Pointer).map(|ty| ty.size_or_type)
}

/// Sizes may be said twice, if they agree.
fn same(known: &mut u32, bytes: u32, what: &str) -> Result<()> {
    if *known != 0 && *known != bytes {
        return Err(ElfError::malformed(format!("the {what} has {known} bytes, and {bytes}")));
    }
    *known = bytes;
    Ok(())
}
