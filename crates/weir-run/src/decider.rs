//! `--program`: an eBPF program of the user's says at each event whether the clauses run there.
//!
//! In: `FILE[:NAME]`, an object or assembly text. Out: a [`Decider`]: the program, verified by itself so that a refusal is told in
//! its own lines, with the maps that it names. [`put`] has every clause at a probe ask it; weir-codegen then stands it behind the
//! clause's program, whose context it gets, and the two are verified as one. Its maps lie behind the script's in the same segment;
//! what they hold at the end is [`contents`].
//!
//! Refused: programs whose context is not that of a probe, and maps that only make sense with somebody who is not there (rings
//! that nobody reads, tables of tail calls).

mod contents;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;
use weir_codegen::Callee;
use weir_ebpf::elf::{MapOrigin, ObjectFile};
use weir_ebpf::insn::pseudo;
use weir_ebpf::{Insn, MapKind, MapSpec, ProgramKind};
use weir_event::MapSchema;
use weir_ir::Module;
use weir_report::Entry;
use weir_rt::segment::Segment;

use crate::decider::contents::Shown;
use crate::failure::Failure;
use crate::object;
use crate::options::Options;

/// A program that decides, and what is needed of its file.
pub(crate) struct Decider {
    insns: Vec<Insn>,
    maps: Vec<MapSpec>,
    origins: Vec<MapOrigin>,
    stack_bytes: u32,
    shown: Vec<Shown>,
}

impl Decider {
    /// The one that was given, if one was.
    pub(super) fn given(options: &Options) -> Result<Option<Decider>, Failure> {
        let Some(text) = &options.program else { return Ok(None) };
        let (path, name) = split(text, &|path| Path::new(path).exists());
        let read = |file| Decider::of(file, name).map_err(|failure| failure.of_file(Path::new(path)));
        object::read(Path::new(path), None).and_then(read).map(Some)
    }

    fn of(file: ObjectFile, name: Option<&str>) -> Result<Decider, Failure> {
        let index = choose(&file, name)?;
        let verified = object::verify_one(&file, index)?;
        let program = &file.object.programs[index];
        if program.kind != ProgramKind::Probe {
            return Err(refused(format!(
                "{}: a program of kind `{}`, and what one gets at an event are registers (struct pt_regs): write it \
                 for section `uprobe`",
                program.name.escape_debug(),
                program.kind
            )));
        }
        let used: Vec<usize> = used(&file, &program.insns).into_iter().collect();
        for &map in &used {
            takes(&file.object.maps[map])?;
        }
        // Where each is now.
        let place = |old: u32| used.iter().position(|&map| map == old as usize).map(|new| new as u32);
        let maps = used.iter().map(|&map| {
            let spec = &file.object.maps[map];
            MapSpec { inner: spec.inner.and_then(place), ..spec.clone() }
        });
        let origins = used.iter().map(|&map| {
            let origin = &file.maps[map];
            let held = origin.held.iter().filter_map(|&(key, map)| Some((key, place(map)?))).collect();
            MapOrigin { held, ..origin.clone() }
        });
        let (maps, origins): (Vec<_>, Vec<_>) = (maps.collect(), origins.collect());
        let insns = program.insns.iter().map(|&insn| match names_map(&insn) {
            // SANITY: the maps that instructions name are used.
            true => Insn { imm: place(insn.imm as u32).expect("a map that is named is used") as i32, ..insn },
            false => insn,
        });
        Ok(Decider {
            insns: insns.collect(),
            shown: contents::shown(&maps, &origins, file.btf.as_ref()),
            stack_bytes: verified.nested_stack_bytes(),
            maps,
            origins,
        })
    }

    /// As the compiler takes it.
    pub(super) fn callee(&self) -> Callee<'_> {
        Callee { insns: &self.insns, maps: &self.maps, stack_bytes: self.stack_bytes }
    }

    /// The maps that are printed at the end, of which the first has this number in the object.
    pub(super) fn schema(&self, first: u32) -> Vec<MapSchema> {
        self.shown.iter().map(|shown| shown.schema(first)).collect()
    }

    /// What the `index`-th of these holds, as its schema says.
    pub(super) fn entries(&self, segment: &Segment, first: u32, index: usize) -> Vec<Entry> {
        self.shown[index].entries(segment, first)
    }

    /// What its maps hold at first, the first of which has this number.
    pub(super) fn fill(&self, segment: &Segment, first: u32) -> Result<(), Failure> {
        let mut origins = vec![MapOrigin::default(); first as usize];
        origins.extend(self.origins.iter().map(|origin| {
            let held = origin.held.iter().map(|&(key, map)| (key, first + map)).collect();
            MapOrigin { held, ..origin.clone() }
        }));
        segment.fill(&origins).map_err(|(map, error)| {
            let name = &self.maps[map - first as usize].name;
            refused(format!("first contents of map `{}`: {error}", name.escape_debug()))
        })
    }
}

/// Has each clause at a probe ask it first.
pub(super) fn put(module: &mut Module, decider: &Decider) -> Result<(), Failure> {
    let is_shown = |map: &&MapSchema| decider.shown.iter().any(|shown| shown.name == map.name);
    if let Some(map) = module.schema.maps.iter().find(is_shown) {
        let name = &map.name;
        return Err(refused(format!(
            "the script has a map {name}, and so has the program: name one otherwise"
        )));
    }
    let mut is_at_event = false;
    for clause in module.functions.iter_mut().filter(|function| function.trigger.is_probe()) {
        weir_ir::filter::guard_by_program(clause);
        is_at_event = true;
    }
    if !is_at_event {
        return Err(refused(
            "--program is for events, and no clause of the script is at one: add a `usdt`, `lttng`, `uprobe` or `uretprobe`"
                .to_owned(),
        ));
    }
    weir_ir::pass::optimise(module);
    Ok(())
}

/// A file, and a program in it: the shortest beginning before a colon that is a file, else all of the text.
fn split<'a>(text: &'a str, is_file: &dyn Fn(&str) -> bool) -> (&'a str, Option<&'a str>) {
    if is_file(text) {
        return (text, None);
    }
    let colons = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let found = { colons }.find(|(path, name)| !name.is_empty() && is_file(path));
    found.map_or((text, None), |(path, name)| (path, Some(name)))
}

/// The program of that name or section; the only one if none is given.
fn choose(file: &ObjectFile, name: Option<&str>) -> Result<usize, Failure> {
    let programs = &file.object.programs;
    let names = || {
        let names = programs.iter().map(|program| program.name.escape_debug().to_string());
        names.collect::<Vec<_>>().join(", ")
    };
    let Some(name) = name else {
        return match programs.len() {
            0 => Err(refused("it has no programs".to_owned())),
            1 => Ok(0),
            _ => Err(refused(format!(
                "it has several programs: name one as in --program FILE:NAME; there are {}",
                names()
            ))),
        };
    };
    let is_named = |index: &usize| programs[*index].name == name;
    let is_of_section = |index: &usize| file.programs[*index].section == name;
    let by_name: Vec<usize> = (0..programs.len()).filter(is_named).collect();
    let found =
        if by_name.is_empty() { (0..programs.len()).filter(is_of_section).collect() } else { by_name };
    match found[..] {
        [one] => Ok(one),
        [] => Err(refused(format!(
            "no program, and no section of one, is named `{name}`; there are {}",
            names()
        ))),
        _ => Err(refused(format!("several programs are of section `{name}`: name one of {}", names()))),
    }
}

fn names_map(insn: &Insn) -> bool {
    insn.is_wide() && matches!(insn.src, pseudo::MAP_INDEX | pseudo::MAP_INDEX_VALUE)
}

/// The maps that a program may come to: those that it names, and those that these hold.
fn used(file: &ObjectFile, insns: &[Insn]) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    let named = insns.iter().filter(|insn| names_map(insn)).map(|insn| insn.imm as usize);
    let mut waiting: Vec<usize> = named.collect();
    while let Some(map) = waiting.pop() {
        if used.insert(map) {
            waiting.extend(file.object.maps[map].inner.map(|inner| inner as usize));
            waiting.extend(file.maps[map].held.iter().map(|&(_, held)| held as usize));
        }
    }
    used
}

/// Maps of this kind are of use in a traced process.
fn takes(map: &MapSpec) -> Result<(), Failure> {
    let why = match map.kind {
        MapKind::RingBuf | MapKind::PerfEventArray => {
            "nobody would read it: what is to be printed, the script's clauses print"
        }
        MapKind::ProgArray => "tail calls are not followed in a traced process: call functions instead",
        _ => return Ok(()),
    };
    Err(refused(format!("map `{}` is a {}: {why}", map.name.escape_debug(), map.kind.name())))
}

fn refused(message: String) -> Failure {
    Failure::Refused(anyhow!(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_behind_its_file() {
        let check = |text: &str, want: (&str, Option<&str>)| {
            let is_file = |path: &str| ["a.o", "odd:name.o"].contains(&path);
            assert_eq!(split(text, &is_file), want, "{text}");
        };
        check("a.o", ("a.o", None));
        check("a.o:decide", ("a.o", Some("decide")));
        check("a.o:uprobe/libc:malloc", ("a.o", Some("uprobe/libc:malloc")));
        check("odd:name.o", ("odd:name.o", None));
        check("odd:name.o:decide", ("odd:name.o", Some("decide")));
        check("b.o:decide", ("b.o:decide", None));
        check("a.o:", ("a.o:", None));
    }
}
