//! Text of a file: its object, and what its maps hold at first.
//!
//! In: an [`ObjectFile`], or its text. Out: the other. What a map holds stands behind the map (`initial`, `holds`),
//! names of what is defined later too. Sections and source lines are comments, and lost on the way back; but a program
//! whose section is of a context that weir does not have is printed as one that no text can define.
//!
//! Guaranteed: what is read is within the kinds and sizes of the maps, and within the bounds of `limits.rs` of the
//! reader of object files, whatever the text.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::asm::AsmError;
use crate::asm::line::Line;
use crate::asm::parse::{Result, parse_parts};
use crate::asm::print::{instruction_lines, map_line, program_line, quoted, reference};
use crate::elf::limits::{DATA_BYTES_MAX, DATA_BYTES_SUM_MAX};
use crate::elf::{MapOrigin, ObjectFile};
use crate::{MapKind, MapSpec, Object};

/// The text of a whole file.
pub fn print_file(file: &ObjectFile) -> String {
    let mut text = String::new();
    for (index, map) in file.object.maps.iter().enumerate() {
        let _ = writeln!(text, "{}", map_line(map));
        contents_of(file, index, &mut text);
    }
    for index in 0..file.object.programs.len() {
        if !text.is_empty() {
            text.push('\n');
        }
        program_of(file, index, &mut text);
    }
    text
}

/// The file that `text` writes down, in the sections of [`ObjectFile::of`].
pub fn parse_file(text: &str) -> Result<ObjectFile, AsmError> {
    let (object, contents) = parse_parts(text)?;
    let names = Names::of(&object);
    let mut maps = vec![MapOrigin::default(); object.maps.len()];
    let mut sum = 0;
    for Content { line, map, what } in contents {
        let error = |message| AsmError { line, message };
        let index = names.maps.find(&map).map_err(error)?;
        let (spec, origin) = (&object.maps[index], &mut maps[index]);
        let done = match what {
            What::Initial(bytes) => initial(spec, origin, bytes, &mut sum),
            What::Holds(key, held) => hold(&object, &names, spec, origin, key, &held),
        };
        done.map_err(|message| error(format!("map `{}`: {message}", spec.name.escape_debug())))?;
    }
    for (origin, spec) in maps.iter_mut().zip(&object.maps) {
        sort(origin).map_err(|slot| {
            // The last line: which of the two is wrong is not known.
            let message = format!("map `{}`: slot {slot} is filled twice", spec.name.escape_debug());
            AsmError { line: text.lines().count(), message }
        })?;
    }
    Ok(ObjectFile { maps, ..ObjectFile::of(object) })
}

/// A line that says what a map holds at first.
pub(super) struct Content {
    pub(super) line: usize,
    map: Reference,
    what: What,
}

enum What {
    Initial(Vec<u8>),
    Holds(u32, Reference),
}

/// A map or a program, as the text calls it.
enum Reference {
    Name(String),
    Number(u64),
}

impl Content {
    /// `initial NAME "2a00"` or `holds NAME 1 OTHER`.
    pub(super) fn of(number: usize, line: &mut Line) -> Result<Content> {
        let is_initial = line.take_word("initial");
        if !is_initial {
            line.word("holds")?;
        }
        let map = Reference::of(line)?;
        let what = if is_initial {
            What::Initial(bytes(&line.name()?)?)
        } else {
            let key = line.unsigned("a slot")?;
            let key = u32::try_from(key).map_err(|_| format!("slot {key} does not fit in 32 bits"))?;
            What::Holds(key, Reference::of(line)?)
        };
        Ok(Content { line: number, map, what })
    }
}

impl Reference {
    fn of(line: &mut Line) -> Result<Reference> {
        match line.take_punct("#") {
            true => Ok(Reference::Number(line.unsigned("a number")?)),
            false => Ok(Reference::Name(line.name()?)),
        }
    }
}

/// What the text may call by name.
struct Names<'a> {
    maps: Places<'a>,
    programs: Places<'a>,
}

struct Places<'a> {
    what: &'static str,
    count: usize,
    /// The first of each name.
    first: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn of(object: &'a Object) -> Names<'a> {
        let maps = object.maps.iter().map(|map| map.name.as_str());
        let programs = object.programs.iter().map(|program| program.name.as_str());
        Names { maps: Places::of("map", maps), programs: Places::of("program", programs) }
    }
}

impl<'a> Places<'a> {
    fn of(what: &'static str, names: impl Iterator<Item = &'a str>) -> Places<'a> {
        let (mut count, mut first) = (0, HashMap::new());
        for name in names {
            first.entry(name).or_insert(count);
            count += 1;
        }
        Places { what, count, first }
    }

    fn find(&self, reference: &Reference) -> Result<usize> {
        let (found, called) = match reference {
            Reference::Name(name) => (self.first.get(name.as_str()).copied(), name.clone()),
            Reference::Number(number) => (usize::try_from(*number).ok(), format!("#{number}")),
        };
        let found = found.filter(|index| *index < self.count);
        found.ok_or_else(|| format!("there is no {} `{}`", self.what, called.escape_debug()))
    }
}

/// The first contents of an array's only value; `sum`: bytes of all so far.
fn initial(spec: &MapSpec, origin: &mut MapOrigin, mut bytes: Vec<u8>, sum: &mut u64) -> Result<()> {
    if spec.kind != MapKind::Array || spec.max_entries != 1 || spec.key_bytes != 4 {
        return Err("only an array with one entry, and keys of 4 bytes, has a value at first".into());
    }
    let (given, room) = (bytes.len(), u64::from(spec.value_bytes));
    *sum = sum.saturating_add(room);
    if given as u64 > room || room > DATA_BYTES_MAX || *sum > DATA_BYTES_SUM_MAX {
        return Err(format!(
            "{given} bytes for a value of {room}; values that are given have at most {DATA_BYTES_MAX}, together \
             {DATA_BYTES_SUM_MAX}"
        ));
    }
    bytes.resize(spec.value_bytes as usize, 0);
    match origin.initial.replace(bytes) {
        None => Ok(()),
        Some(_) => Err("its value is given twice".into()),
    }
}

fn hold(
    object: &Object,
    names: &Names,
    spec: &MapSpec,
    origin: &mut MapOrigin,
    key: u32,
    held: &Reference,
) -> Result<()> {
    let is_programs = spec.kind == MapKind::ProgArray;
    if !is_programs && !spec.kind.holds_maps() {
        return Err("only an array of programs, or a map that holds maps, holds something".into());
    }
    if (spec.key_bytes, spec.value_bytes) != (4, 4) {
        return Err("its keys and values have 4 bytes each where it holds something at first".into());
    }
    if spec.kind != MapKind::HashOfMaps && key >= spec.max_entries {
        return Err(format!("slot {key} of {}", spec.max_entries));
    }
    if is_programs {
        origin.programs.push((key, names.programs.find(held)?));
        return Ok(());
    }
    let index = names.maps.find(held)?;
    let like = spec.inner.and_then(|inner| object.maps.get(inner as usize));
    if like.is_none_or(|like| !object.maps[index].is_like(like)) {
        let name = object.maps[index].name.escape_debug();
        return Err(format!("`{name}` is not what it was defined to hold"));
    }
    origin.held.push((key, index as u32));
    Ok(())
}

/// Slots ascending; a slot that is there twice.
fn sort(origin: &mut MapOrigin) -> std::result::Result<(), u32> {
    origin.programs.sort_unstable();
    origin.held.sort_unstable();
    let programs = origin.programs.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0);
    let held = origin.held.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0);
    programs.or(held).map_or(Ok(()), Err)
}

/// What map `index` holds at first, a line for each.
fn contents_of(file: &ObjectFile, index: usize, text: &mut String) {
    let Some(origin) = file.maps.get(index) else { return };
    let maps = file.object.maps.iter().map(|map| map.name.as_str());
    let programs = file.object.programs.iter().map(|program| program.name.as_str());
    let map = reference(index, maps.clone());
    if let Some(initial) = &origin.initial {
        let end = initial.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let _ = write!(text, "initial {map} \"");
        for byte in &initial[..end] {
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str("\"\n");
    }
    for (slot, program) in &origin.programs {
        let _ = writeln!(text, "holds {map} {slot} {}", reference(*program, programs.clone()));
    }
    for (key, held) in &origin.held {
        let _ = writeln!(text, "holds {map} {key} {}", reference(*held as usize, maps.clone()));
    }
}

/// Program `index` with its section, and each source line before the first of its instructions.
fn program_of(file: &ObjectFile, index: usize, text: &mut String) {
    let program = &file.object.programs[index];
    let section = file.programs.get(index).map_or("", |origin| origin.section.as_str());
    let _ = writeln!(text, "; section {section:?}");
    let _ = match file.other_context(index) {
        Some(_) => writeln!(text, "program {} unsupported {}", quoted(&program.name), quoted(section)),
        None => writeln!(text, "{}", program_line(program)),
    };
    let mut known = None;
    for (slot, line) in instruction_lines(program, &file.object.maps) {
        let source = file.source_line(index, slot);
        if let Some(source) = source.filter(|source| known != Some((source.file, source.line))) {
            let _ = writeln!(text, "; {source}");
            known = Some((source.file, source.line));
        }
        let _ = writeln!(text, "{line}");
    }
}

/// Pairs of hexadecimal digits, with blanks wherever.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let digit = |char: char| char.to_digit(16).ok_or_else(|| format!("{char:?} is no hexadecimal digit"));
    let digits = text.chars().filter(|char| *char != ' ').map(digit).collect::<Result<Vec<u32>>>()?;
    if digits.len() % 2 != 0 {
        return Err(format!("{} hexadecimal digits are no whole number of bytes", digits.len()));
    }
    Ok(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}
