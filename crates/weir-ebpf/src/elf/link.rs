//! Makes complete programs of functions and relocations.
//!
//! In: the file's sections and maps. Out: the [`ObjectFile`]. A program is its function, and behind it each function
//! of `.text` that it calls, once, in the order in which the calls are met. Calls become `LOCAL` ones with the
//! distances of the new order; wide loads name maps by index. A jump that leaves its function is refused here:
//! after functions have moved nobody could tell any more.
//!
//! An instruction that needs what weir does not have (a map of another kind, a kernel function) becomes a call of
//! [`MISSING`](core::MISSING), as one does that the target's types lack: so it refuses the programs that reach it, not
//! the file.

use std::collections::{BTreeMap, BTreeSet};

use crate::btf::core::{CoreError, Target};
use crate::btf::ext::{CORE_KINDS, CORE_TYPE_ID_LOCAL, CoreRelocation, LineRow};
use crate::btf::{Btf, Kind};
use crate::elf::core::{self, Relocated};
use crate::elf::error::{ElfError, ElfErrorKind, Result};
use crate::elf::maps::{Maps, Slot, VERSION};
use crate::elf::sections::{Code, Function, Place, Relocation, SectionIndex, Sections, Symbol};
use crate::elf::{ObjectFile, ProgramOrigin, Unusable, limits, source_line};
use crate::insn::{class, jmp, pseudo};
use crate::{Insn, Object, Program, ProgramKind, kfunc};

/// Relocation of a wide load: a map, a variable or a function (LLVM: R_BPF_64_64).
const R_BPF_64_64: u32 = 1;
/// Relocation of a call (LLVM: R_BPF_64_32).
const R_BPF_64_32: u32 = 10;

const CALL: u8 = class::JMP | jmp::CALL;
const EXIT: u8 = class::JMP | jmp::EXIT;
/// The jump whose distance is in `imm` (RFC 9669: `gotol`).
const JA_LONG: u8 = class::JMP32 | jmp::JA;

/// The section whose functions are subprograms, if there are functions elsewhere.
const SUBPROGRAMS: &str = ".text";

/// A function: its section and its index there.
type FunctionId = (SectionIndex, usize);

pub(crate) fn link(sections: Sections, maps: Maps, target: Option<&Target>) -> Result<ObjectFile> {
    let (mut programs, mut origins, mut slots, mut missing) = (Vec::new(), Vec::new(), 0, 0);
    let notes = Notes::of(&sections)?;
    let ids = program_ids(&sections);
    let in_slots = programs_in_slots(&sections, &maps, &ids)?;
    for id in ids {
        let mut linker = Linker::new(&sections, &maps, &notes, target);
        let (code, function) = linker.function(id);
        let (section, name) = (code.name.clone(), function.name.clone());
        linker.link(id)?;
        slots += linker.insns.len();
        if slots > limits::SLOTS_MAX {
            return Err(ElfError::too_big("instructions", slots as u64, limits::SLOTS_MAX as u64));
        }
        missing += linker.missing.len();
        if missing > limits::MISSING_MAX {
            let (count, most) = (missing as u64, limits::MISSING_MAX as u64);
            return Err(ElfError::too_big("instructions that need what is not to be had", count, most));
        }
        let kind = ObjectFile::kind_of(&section).unwrap_or(ProgramKind::Probe);
        programs.push(Program { name, kind, insns: linker.insns });
        origins.push(ProgramOrigin { section, lines: linker.lines, missing: linker.missing });
    }
    let mut maps = maps;
    for (map, index, program) in in_slots {
        maps.origins[map].programs.push((index, program));
    }
    let object = Object { maps: maps.specs, programs };
    let Sections { license, btf, .. } = sections;
    let unusable = maps.unusable.into_values().collect();
    Ok(ObjectFile { object, programs: origins, maps: maps.origins, unusable, license, btf })
}

/// What arrays of programs hold at first: map, slot, index of the program. The slots of each map are ascending.
fn programs_in_slots(
    sections: &Sections,
    maps: &Maps,
    ids: &[FunctionId],
) -> Result<Vec<(usize, u32, usize)>> {
    let find = |slot: &Slot| {
        let found = ids.iter().position(|(section, function)| {
            *section == slot.section
                && sections.code[section].functions[*function].start as u64 * 8 == slot.offset
        });
        let program = found.ok_or_else(|| {
            let section = sections.name(slot.section);
            let what = format!("slot {}: no program begins at {:#x} of `{section}`", slot.index, slot.offset);
            ElfError::unsupported(what).in_symbol(&maps.specs[slot.map].name)
        })?;
        Ok((slot.map, slot.index, program))
    };
    maps.slots.iter().map(find).collect()
}

/// Which functions are programs, in the order of the file.
fn program_ids(sections: &Sections) -> Vec<FunctionId> {
    let has_others =
        sections.code.values().any(|code| code.name != SUBPROGRAMS && !code.functions.is_empty());
    let is_program = |code: &Code, function: &Function| match code.name == SUBPROGRAMS {
        true => !has_others && !function.is_local,
        false => true,
    };
    let all = sections.code.iter().flat_map(|(section, code)| {
        let ids = code.functions.iter().enumerate();
        ids.filter(|(_, function)| is_program(code, function)).map(move |(index, _)| (*section, index))
    });
    all.collect()
}

/// What `.BTF` and `.BTF.ext` say of instructions, by code section.
#[derive(Default)]
struct Notes {
    /// Ascending, at most one row a slot.
    rows: BTreeMap<SectionIndex, Vec<LineRow>>,
    core: BTreeMap<(SectionIndex, usize), CoreRelocation>,
    /// Names of variables of the kernel's configuration.
    config: BTreeSet<String>,
    /// Names that are declared to be the kernel's (`__ksym`).
    kernel: BTreeSet<String>,
}

impl Notes {
    fn of(sections: &Sections) -> Result<Notes> {
        let mut notes = Notes::default();
        let Some(btf) = &sections.btf else { return Ok(notes) };
        // Sections that hold no code are left out here, so that a hostile list of them costs nothing.
        let indices: BTreeMap<&str, SectionIndex> =
            sections.code.iter().map(|(index, code)| (code.name.as_str(), *index)).collect();
        let index_of = |name| btf.name(name).and_then(|name| indices.get(name).copied());
        for (name, found) in &sections.ext.lines {
            if let Some(index) = index_of(*name) {
                notes.rows.entry(index).or_default().extend(found);
            }
        }
        for rows in notes.rows.values_mut() {
            rows.sort_by_key(|row| row.slot);
            rows.dedup_by_key(|row| row.slot);
        }
        for (name, found) in &sections.ext.core {
            if let Some(index) = index_of(*name) {
                notes
                    .core
                    .extend(found.iter().map(|relocation| ((index, relocation.slot as usize), *relocation)));
            }
        }
        notes.config = externs(btf, ".kconfig")?;
        notes.kernel = externs(btf, ".ksyms")?;
        Ok(notes)
    }

    fn rows(&self, section: SectionIndex) -> &[LineRow] {
        self.rows.get(&section).map_or(&[], Vec::as_slice)
    }
}

/// Names of what the file declares in a section that only a loader knows.
fn externs(btf: &Btf, section: &'static str) -> Result<BTreeSet<String>> {
    let found = btf.section_variables(section);
    if found.len() > limits::EXTERNS_MAX {
        let (count, most) = (found.len() as u64, limits::EXTERNS_MAX as u64);
        return Err(ElfError::too_big("variables", count, most).in_section(section));
    }
    let names = found.into_iter().filter_map(|id| btf.name(btf.get(id)?.name));
    Ok(names.map(str::to_owned).collect())
}

struct Linker<'a> {
    sections: &'a Sections<'a>,
    maps: &'a Maps,
    notes: &'a Notes,
    target: Option<&'a Target<'a>>,
    insns: Vec<Insn>,
    lines: Vec<LineRow>,
    missing: Vec<(u32, String)>,
    /// Where each function of the program begins.
    placed: BTreeMap<FunctionId, usize>,
    /// Instructions that name a function: slot, function.
    references: Vec<(usize, FunctionId)>,
}

/// One instruction of the file that is being looked at.
#[derive(Clone, Copy)]
struct Here<'a> {
    section: SectionIndex,
    code: &'a Code,
    function: &'a Function,
    /// In the section.
    slot: usize,
}

impl<'a> Linker<'a> {
    fn new(
        sections: &'a Sections<'a>,
        maps: &'a Maps,
        notes: &'a Notes,
        target: Option<&'a Target<'a>>,
    ) -> Linker<'a> {
        Linker {
            sections,
            maps,
            notes,
            target,
            insns: Vec::new(),
            lines: Vec::new(),
            missing: Vec::new(),
            placed: BTreeMap::new(),
            references: Vec::new(),
        }
    }

    fn function(&self, id: FunctionId) -> (&'a Code, &'a Function) {
        let code = &self.sections.code[&id.0];
        (code, &code.functions[id.1])
    }

    fn link(&mut self, program: FunctionId) -> Result<()> {
        let mut next = 0;
        self.append(program)?;
        while let Some((_, callee)) = self.references.get(next).copied() {
            if !self.placed.contains_key(&callee) {
                self.append(callee)?;
            }
            next += 1;
        }
        for (slot, callee) in &self.references {
            // Both are below PROGRAM_SLOTS_MAX.
            self.insns[*slot].imm = self.placed[callee] as i32 - *slot as i32 - 1;
        }
        Ok(())
    }

    /// Adds a function's instructions behind the others.
    fn append(&mut self, id: FunctionId) -> Result<()> {
        let (code, function) = self.function(id);
        let base = self.insns.len();
        if base + function.count > limits::PROGRAM_SLOTS_MAX {
            let count = (base + function.count) as u64;
            let error = ElfError::too_big("instructions", count, limits::PROGRAM_SLOTS_MAX as u64);
            return Err(error.in_section(&code.name).in_symbol(&function.name));
        }
        self.placed.insert(id, base);
        let mut slot = function.start;
        while slot < function.start + function.count {
            let here = Here { section: id.0, code, function, slot };
            let first = self.insns.len();
            slot += match self.instruction(here) {
                Err(error) if error.kind == ElfErrorKind::Unsupported => self.leave_out(here, first, error),
                other => other.map_err(|error| self.name_place(error, here))?,
            };
        }
        let rows = self.notes.rows(id.0);
        let first = rows.partition_point(|row| (row.slot as usize) < function.start);
        let after = rows.partition_point(|row| (row.slot as usize) < function.start + function.count);
        let moved = rows[first..after].iter().map(|row| {
            let slot = row.slot as usize - function.start + base;
            LineRow { slot: slot as u32, ..*row }
        });
        self.lines.extend(moved);
        Ok(())
    }

    /// In place of the instruction, the program's `first`, stands one that may not be reached; how many slots it took.
    fn leave_out(&mut self, here: Here, first: usize, error: ElfError) -> usize {
        self.insns.truncate(first);
        // What it has added already: both lists ascend.
        while self.references.pop_if(|(slot, _)| *slot >= first).is_some() {}
        while self.missing.pop_if(|(slot, _)| *slot as usize >= first).is_some() {}
        let is_wide = here.code.insns[here.slot].is_wide();
        let count = if is_wide { 2 } else { 1 };
        self.insns.resize(first + count, core::MISSING_CALL);
        self.missing.push((first as u32, error.message));
        count
    }

    fn name_place(&self, error: ElfError, here: Here) -> ElfError {
        let slot = here.slot - here.function.start;
        let mut error = error.in_section(&here.code.name).in_symbol(&here.function.name).at(slot);
        let rows = self.notes.rows(here.section);
        let after = rows.partition_point(|row| row.slot as usize <= here.slot);
        if let (Some(row), Some(btf)) = (rows[..after].last(), &self.sections.btf) {
            let line = source_line(btf, row);
            error.source.get_or_insert_with(|| format!("{}:{}", line.file, line.line));
        }
        error
    }

    /// Adds the instruction, relocated; how many slots it took.
    fn instruction(&mut self, here: Here<'a>) -> Result<usize> {
        let Here { code, slot, .. } = here;
        let insn = code.insns[slot];
        if let Some(relocation) = self.notes.core.get(&(here.section, slot)) {
            return self.core(here, relocation);
        }
        let relocation = code.relocations.get(&slot).copied();
        if insn.is_wide() {
            let second = slot + 1;
            if second >= here.function.start + here.function.count {
                return Err(ElfError::malformed("a wide load is cut off by the end of its function"));
            }
            if code.relocations.contains_key(&second) {
                return Err(ElfError::malformed("a relocation in the second half of a wide load"));
            }
            let pair = [insn, code.insns[second]];
            let pair = relocation.map_or(Ok(pair), |relocation| self.wide(relocation, pair))?;
            self.insns.extend(pair);
            return Ok(2);
        }
        let is_local_call = insn.opcode == CALL && insn.src == pseudo::LOCAL;
        match relocation {
            Some(relocation) if is_local_call && self.is_extern(relocation) => {
                let call = self.kernel_call(relocation)?;
                self.insns.push(call);
                return Ok(1);
            }
            Some(relocation) if is_local_call => {
                let callee = self.callee(relocation, insn)?;
                self.references.push((self.insns.len(), callee));
            }
            Some(relocation) => {
                return Err(ElfError::unsupported(format!(
                    "a relocation of type {} here, against {}",
                    relocation.kind,
                    self.describe(&self.sections.symbols[relocation.symbol])
                )));
            }
            None if is_local_call => {
                let callee = self.function_at(here.section, slot as i64 + 1 + i64::from(insn.imm))?;
                self.references.push((self.insns.len(), callee));
            }
            None => check_jump(here, insn)?,
        }
        self.insns.push(insn);
        Ok(1)
    }

    /// Adds an instruction that depends on the target's types.
    fn core(&mut self, here: Here<'a>, relocation: &CoreRelocation) -> Result<usize> {
        let Here { code, slot, .. } = here;
        let count = if code.insns[slot].is_wide() { 2 } else { 1 };
        if slot + count > here.function.start + here.function.count {
            return Err(ElfError::malformed("a wide load is cut off by the end of its function"));
        }
        if (slot..slot + count).any(|slot| code.relocations.contains_key(&slot)) {
            return Err(ElfError::malformed("a CO-RE relocation and another one of one instruction"));
        }
        let local = self.sections.btf.as_ref();
        let local = local.ok_or_else(|| ElfError::malformed("CO-RE relocations without .BTF"))?;
        let asked = || describe_core(local, relocation);
        let first = self.insns.len();
        self.insns.extend(&code.insns[slot..slot + count]);
        let Some(target) = self.target else {
            // The compiler's own number is the answer to one question.
            if relocation.kind == CORE_TYPE_ID_LOCAL {
                return Ok(count);
            }
            return Err(ElfError::unsupported(format!(
                "a CO-RE relocation, {}; it needs the types (BTF) of the system it runs on",
                asked()
            )));
        };
        let named =
            |error: ElfError| ElfError { message: format!("{}: {}", asked(), error.message), ..error };
        let answer = target.answer(local, relocation).map_err(|error| {
            let message = format!("a CO-RE relocation, {}: {error}", asked());
            match error {
                CoreError::Malformed | CoreError::UnknownKind(_) => ElfError::malformed(message),
                _ => ElfError::unsupported(message),
            }
        })?;
        if let Relocated::Poisoned(reason) =
            core::relocate(&mut self.insns[first..], answer).map_err(named)?
        {
            self.missing.push((first as u32, format!("{}: {reason}", asked())));
        }
        Ok(count)
    }

    /// A wide load and what its relocation makes of it.
    fn wide(&mut self, relocation: Relocation, [mut first, mut second]: [Insn; 2]) -> Result<[Insn; 2]> {
        let symbol = &self.sections.symbols[relocation.symbol];
        let describe = || self.describe(symbol);
        if relocation.kind != R_BPF_64_64 {
            let kind = relocation.kind;
            return Err(ElfError::unsupported(format!(
                "a relocation of type {kind} here, against {}",
                describe()
            )));
        }
        // A compiler of the older kind marked maps.
        if first.src != pseudo::NONE && first.src != pseudo::MAP_FD {
            let src = first.src;
            return Err(ElfError::malformed(format!("a relocation of a wide load whose src is {src}")));
        }
        let section = match symbol.place {
            Place::Section(section) => section,
            Place::Undefined => {
                if let Some(map) = self.maps.version.filter(|_| symbol.name == VERSION) {
                    first = Insn { src: pseudo::MAP_INDEX_VALUE, imm: map as i32, ..first };
                    return Ok([first, Insn { imm: 0, ..second }]);
                }
                // A kernel function that is there has an address that is not 0; nothing but that is said of it.
                let imm = i32::from(kfunc::by_name(&symbol.name).is_some());
                if imm == 0 {
                    self.check_extern(symbol)?;
                }
                return Ok([Insn { src: pseudo::NONE, imm, ..first }, Insn { imm: 0, ..second }]);
            }
            Place::Elsewhere => {
                return Err(ElfError::unsupported(format!("{} is in no section", describe())));
            }
        };
        if let Some(reason) = self.sections.unusable.get(&section) {
            let name = self.sections.name(section);
            return Err(ElfError::unsupported(format!("section `{name}`: {reason}")));
        }
        // The compiler leaves the distance from the symbol in the instruction.
        let offset = symbol.offset.checked_add_signed(first.imm.into());
        let offset = offset
            .ok_or_else(|| ElfError::malformed(format!("{} bytes before {}", first.imm, describe())))?;
        if let Some(map) = self.maps.of_section.get(&section) {
            let bytes = self.maps.specs[*map].value_bytes;
            if offset >= bytes.into() {
                return Err(ElfError::malformed(format!(
                    "byte {offset} of {}, which has {bytes}",
                    describe()
                )));
            }
            first = Insn { src: pseudo::MAP_INDEX_VALUE, imm: *map as i32, ..first };
            // Below DATA_BYTES_MAX.
            second.imm = offset as i32;
        } else if let Some(map) = self.maps.at.get(&(section, offset)) {
            first = Insn { src: pseudo::MAP_INDEX, imm: *map as i32, ..first };
            second.imm = 0;
        } else if let Some(unusable) = self.maps.unusable.get(&(section, offset)) {
            let Unusable { name, reason } = unusable;
            return Err(ElfError::unsupported(format!("the map `{name}`: {reason}")));
        } else if self.sections.code.contains_key(&section) {
            let callee = self.function_at(section, (offset / 8) as i64)?;
            self.references.push((self.insns.len(), callee));
            first.src = pseudo::FUNCTION;
            second.imm = 0;
        } else {
            return Err(ElfError::unsupported(format!("the address of {}, which is no map", describe())));
        }
        Ok([first, second])
    }

    /// An extern is 0 if it is weak, and no kernel variable that the loader would have to make up.
    fn check_extern(&self, symbol: &Symbol) -> Result<()> {
        if self.notes.config.contains(&symbol.name) {
            return Err(ElfError::unsupported(format!(
                "`{}` of the kernel's configuration (.kconfig)",
                symbol.name
            )));
        }
        if !symbol.is_weak {
            return Err(ElfError::unsupported(format!(
                "the extern `{}`; only weak ones, which are 0 here, can be loaded",
                symbol.name
            )));
        }
        Ok(())
    }

    fn is_extern(&self, relocation: Relocation) -> bool {
        relocation.kind == R_BPF_64_32 && self.sections.symbols[relocation.symbol].place == Place::Undefined
    }

    /// A call of a kernel function: one that weir has, or a weak one, which may be there but not be reached.
    fn kernel_call(&mut self, relocation: Relocation) -> Result<Insn> {
        let symbol = &self.sections.symbols[relocation.symbol];
        let call = Insn { opcode: CALL, ..Insn::default() };
        if let Some(imm) = kfunc::by_name(&symbol.name) {
            return Ok(Insn { src: pseudo::KERNEL, imm, ..call });
        }
        if !symbol.is_weak {
            return Err(ElfError::unsupported(match self.notes.kernel.contains(&symbol.name) {
                true => format!("the kernel function `{}`", symbol.name),
                false => format!(
                    "the undefined symbol `{}`, which libbpf would look up among the kernel's functions; where it is a \
                     function of C that the compiler put there, -fno-builtin or an inline function of that name helps",
                    symbol.name
                ),
            }));
        }
        self.missing.push((self.insns.len() as u32, format!("the kernel function `{}`", symbol.name)));
        Ok(Insn { imm: core::MISSING, ..call })
    }

    fn callee(&self, relocation: Relocation, insn: Insn) -> Result<FunctionId> {
        let symbol = &self.sections.symbols[relocation.symbol];
        if relocation.kind != R_BPF_64_32 {
            let (kind, symbol) = (relocation.kind, self.describe(symbol));
            return Err(ElfError::unsupported(format!("a relocation of type {kind} here, against {symbol}")));
        }
        match symbol.place {
            Place::Section(section) => {
                let slot = i64::from(insn.imm) + 1;
                let start = i64::try_from(symbol.offset / 8).unwrap_or(i64::MAX);
                self.function_at(section, start.saturating_add(slot))
            }
            Place::Undefined | Place::Elsewhere => {
                Err(ElfError::malformed(format!("{} is in no section", self.describe(symbol))))
            }
        }
    }

    /// The function that begins at a slot of a section.
    fn function_at(&self, section: SectionIndex, slot: i64) -> Result<FunctionId> {
        let name = self.sections.name(section);
        let code = self.sections.code.get(&section);
        let functions = code.map_or(&[][..], |code| &code.functions);
        let found = usize::try_from(slot)
            .ok()
            .and_then(|slot| functions.binary_search_by_key(&slot, |function| function.start).ok());
        found.map(|index| (section, index)).ok_or_else(|| {
            ElfError::malformed(format!("no function begins at instruction {slot} of section `{name}`"))
        })
    }

    fn describe(&self, symbol: &Symbol) -> String {
        match symbol.place {
            Place::Section(index) if symbol.name.is_empty() => {
                format!("section `{}`", self.sections.name(index))
            }
            Place::Section(index) => format!("`{}` of section `{}`", symbol.name, self.sections.name(index)),
            Place::Undefined | Place::Elsewhere => format!("`{}`", symbol.name),
        }
    }
}

/// Jumps stay inside their function.
fn check_jump(here: Here, insn: Insn) -> Result<()> {
    if !matches!(insn.class(), class::JMP | class::JMP32) || insn.opcode == CALL || insn.opcode == EXIT {
        return Ok(());
    }
    let distance = if insn.opcode == JA_LONG { insn.imm.into() } else { i64::from(insn.off) };
    let target = (here.slot - here.function.start) as i64 + 1 + distance;
    if (0..here.function.count as i64).contains(&target) {
        return Ok(());
    }
    let count = here.function.count;
    Err(ElfError::malformed(format!("a jump to instruction {target} of a function that has {count}")))
}

/// What a relocation asks, and of what: `byte offset of a field: struct task.pid`.
fn describe_core(btf: &Btf, relocation: &CoreRelocation) -> String {
    let what = match CORE_KINDS.get(relocation.kind as usize) {
        Some(what) => (*what).to_owned(),
        None => format!("kind {}", relocation.kind),
    };
    let path = field_path(btf, relocation).unwrap_or_default();
    format!("{what}: {}{path}", btf.describe(relocation.ty))
}

/// `.pid` or `.se[2].x`: the field that an access string means.
fn field_path(btf: &Btf, relocation: &CoreRelocation) -> Option<String> {
    let mut path = String::new();
    let mut id = relocation.ty;
    // The first index counts whole structs, as `p[0]`; that of an enumerator is all there is.
    let is_enum = matches!(btf.resolve(id)?.kind, Kind::Enum | Kind::Enum64);
    for index in btf.name(relocation.access)?.split(':').skip(usize::from(!is_enum)) {
        let index: usize = index.parse().ok()?;
        let ty = btf.resolve(id)?;
        match ty.kind {
            Kind::Struct | Kind::Union => {
                let member = ty.members().nth(index)?;
                let name = btf.name(member.name)?;
                if !name.is_empty() {
                    path.push('.');
                    path.push_str(name);
                }
                id = member.ty;
            }
            Kind::Array => {
                path.push_str(&format!("[{index}]"));
                id = ty.extra[0];
            }
            Kind::Enum | Kind::Enum64 => {
                let words = if ty.kind == Kind::Enum { 2 } else { 3 };
                path.push_str("::");
                path.push_str(btf.name(*ty.extra.get(index * words)?)?);
            }
            _ => return None,
        }
    }
    Some(path)
}
