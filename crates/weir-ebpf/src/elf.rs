//! Object files: `.bpf.o` as clang makes them and libbpf loads them, both ways.
//!
//! In: the bytes of an ELF file (relocatable, EM_BPF, little endian). Out: an [`ObjectFile`]: an
//! [`Object`] whose programs are complete, and what only the file knows of them. [`write()`] does the reverse.
//! What is understood:
//! - programs: each function symbol, in a section of any name; functions of `.text` are subprograms if there are
//!   others, and are appended to each program that calls them, directly or not;
//! - maps: `.maps` (described in BTF), `maps` (the definitions before it), and `.data*`, `.rodata*`, `.bss*`, each of
//!   which becomes an array with one entry, its first contents in [`MapOrigin::initial`]; that of `.rodata*` has the
//!   flag RDONLY_PROG;
//! - relocations: R_BPF_64_64 in wide loads (maps, variables, functions, weak externs, which are 0) and R_BPF_64_32 in
//!   calls; those in `.maps` that put programs into slots; those of debug sections are none of the program's;
//! - kernel functions of [`crate::kfunc`]; calls of others that are weak become calls of [`MISSING`];
//! - BTF, and the source line of each instruction;
//! - CO-RE relocations, in subprograms too, against the BTF of a target that is given ([`read_for`]).
//!
//! Guaranteed: a file that contradicts itself is refused as a whole, with an [`ElfError`] that names section, symbol
//! and instruction; what weir does not have (other kernel functions, `.kconfig`, maps of other kinds, addresses in data)
//! refuses the programs that reach it, and nothing else ([`ProgramOrigin::missing`]); whatever the bytes, nothing
//! panics, and the bounds of `limits.rs` are kept to.
//!
//! Deliberately not here: an opinion on whether programs are safe.

mod core;
mod error;
mod leave_out;
pub(crate) mod limits;
mod link;
mod maps;
mod sections;
mod write;

pub use core::MISSING;
pub use error::{ElfError, ElfErrorKind};
pub use limits::FILE_BYTES_MAX;
pub use write::{WriteError, write};

use std::collections::BTreeSet;
use std::fmt;

use crate::btf::core::Target;
use crate::btf::ext::{CORE_TYPE_ID_LOCAL, LineRow};
use crate::btf::{Btf, TypeId};
use crate::insn::pseudo;
use crate::{Insn, Object, ProgramKind};

/// An object, and what its file says besides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectFile {
    pub object: Object,
    /// One per program of `object`, in order.
    pub programs: Vec<ProgramOrigin>,
    /// One per map of `object`, in order.
    pub maps: Vec<MapOrigin>,
    /// Maps that are not among those of `object`, since weir has none of that kind: programs that use one are refused.
    pub unusable: Vec<Unusable>,
    /// What `license` holds, without its end.
    pub license: Option<String>,
    pub btf: Option<Btf>,
}

/// A map that the file defines and that is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unusable {
    pub name: String,
    /// `maps of kind devmap (14)`.
    pub reason: String,
}

/// Where a program comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramOrigin {
    /// Name of its section, such as `uprobe/libc:malloc`.
    pub section: String,
    /// Rows of source lines, ascending, in slots of the complete program; empty without line information.
    pub lines: Vec<LineRow>,
    /// Instructions that ask for something that the target's types, or weir, do not have, and for what: slot and words. They became
    /// calls of [`MISSING`], which may stand in a program but not be reached.
    pub missing: Vec<(u32, String)>,
}

/// What a [`MapSpec`](crate::MapSpec) does not say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapOrigin {
    /// What its only value holds at first; none for zeros.
    pub initial: Option<Vec<u8>>,
    /// What an array of programs holds at first: slot, and index of the program in the object. Ascending.
    pub programs: Vec<(u32, usize)>,
    /// Of a map that holds maps: key and map index of what it holds at first.
    pub held: Vec<(u32, u32)>,
    /// Types of its keys and values, where the file's BTF says them.
    pub key: Option<TypeId>,
    pub value: Option<TypeId>,
    /// Of a section of variables those that BTF describes, by offset.
    pub variables: Vec<Variable>,
}

/// A variable of a program, in the value of its section's map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    pub name: String,
    pub offset: u32,
    pub ty: TypeId,
}

/// A line of the source that an instruction comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceLine<'a> {
    pub file: &'a str,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1; 0 if not known.
    pub column: u32,
    /// The line itself, with its indentation.
    pub text: &'a str,
}

/// `file.c:12: the line`, without what could move a terminal's cursor: the texts are the object's.
impl fmt::Display for SourceLine<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |text: &str| text.replace(|char: char| char.is_control(), " ");
        write!(out, "{}:{}: {}", plain(self.file), self.line, plain(self.text.trim()))
    }
}

/// Reads a `.bpf.o` file. One whose instructions depend on a kernel's types (CO-RE) is refused.
pub fn read(bytes: &[u8]) -> Result<ObjectFile, ElfError> {
    read_for(bytes, None)
}

/// Reads a `.bpf.o` file, and adapts its CO-RE relocations to the types of `target`.
pub fn read_for(bytes: &[u8], target: Option<&Target>) -> Result<ObjectFile, ElfError> {
    read_on(bytes, System { target, ..System::default() })
}

/// What an object may ask of the system that it runs on.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    /// Types of its kernel.
    pub target: Option<&'a Target<'a>>,
    /// The kernel's version, as `LINUX_KERNEL_VERSION` of linux/version.h: asked for by objects that declare a variable of that
    /// name. Without it, programs that use the variable cannot be had.
    pub kernel_version: fn() -> Option<u32>,
}

impl Default for System<'_> {
    /// Nothing is known of it.
    fn default() -> Self {
        System { target: None, kernel_version: || None }
    }
}

/// Reads a `.bpf.o` file, and adapts it to a system. What asks for the kernel's version finds it in a variable of a map named
/// `.kconfig`, which nobody changes.
pub fn read_on(bytes: &[u8], system: System<'_>) -> Result<ObjectFile, ElfError> {
    let sections = sections::Sections::of(bytes)?;
    let maps = maps::Maps::of(&sections, system.kernel_version)?;
    link::link(sections, maps, system.target)
}

/// The types in an ELF file of any machine: its `.BTF` section.
pub fn read_btf(bytes: &[u8]) -> Result<Btf, ElfError> {
    sections::btf(bytes)
}

/// True if the file has instructions that depend on a kernel's types, so that [`read_for`] needs a target.
pub fn needs_target(bytes: &[u8]) -> Result<bool, ElfError> {
    let sections = sections::Sections::of(bytes)?;
    let mut relocations = sections.ext.core.iter().flat_map(|(_, found)| found);
    Ok(relocations.any(|relocation| relocation.kind != CORE_TYPE_ID_LOCAL))
}

impl ObjectFile {
    /// The file for an object that came from elsewhere: programs in the sections that libbpf knows their kinds by
    /// (`kprobe` for the controller's, and weir's own `weir.memory/BYTES`); license GPL.
    pub fn of(object: Object) -> ObjectFile {
        let section = |kind: ProgramKind| match kind {
            ProgramKind::Probe => "uprobe".to_owned(),
            ProgramKind::Controller => "kprobe".to_owned(),
            ProgramKind::Tracepoint | ProgramKind::SocketFilter | ProgramKind::Xdp => kind.name().to_owned(),
            ProgramKind::Classifier => "tc".to_owned(),
            ProgramKind::CgroupSkb => CGROUP_SKB[0].to_owned(),
            ProgramKind::CgroupSock => CGROUP_SOCK[0].to_owned(),
            ProgramKind::SkMsg | ProgramKind::FlowDissector => kind.name().to_owned(),
            ProgramKind::Tracing => TRACING[0].to_owned(),
            ProgramKind::Memory { bytes } => format!("{MEMORY_SECTION}{bytes}"),
        };
        let origin = |kind| ProgramOrigin { section: section(kind), ..ProgramOrigin::default() };
        ObjectFile {
            programs: object.programs.iter().map(|program| origin(program.kind)).collect(),
            maps: vec![MapOrigin::default(); object.maps.len()],
            unusable: Vec::new(),
            license: Some("GPL".into()),
            btf: None,
            object,
        }
    }

    /// The source line of an instruction, where the compiler noted it.
    pub fn source_line(&self, program: usize, slot: usize) -> Option<SourceLine<'_>> {
        let lines = &self.programs.get(program)?.lines;
        let after = lines.partition_point(|row| row.slot as usize <= slot);
        let row = lines.get(after.checked_sub(1)?)?;
        Some(source_line(self.btf.as_ref()?, row))
    }

    /// What the file knows of an instruction that is to blame, for the end of a message: what could not be had for it, its
    /// source line, and the program's section, which is how its author knows it. Each begins a line of its own; empty if
    /// there is none.
    pub fn about(&self, program: usize, slot: Option<usize>) -> String {
        let of_insn = slot.map_or_else(String::new, |slot| self.about_insn(program, slot));
        // A section of ours says nothing.
        let section = self.programs.get(program).filter(|_| self.btf.is_some()).map(|origin| &origin.section);
        let section = section.map(|section| format!("\n  in section `{}`", section.escape_debug()));
        of_insn + &section.unwrap_or_default()
    }

    fn about_insn(&self, program: usize, slot: usize) -> String {
        let missing = self.programs.get(program).map_or(&[][..], |origin| &origin.missing);
        let missing = missing.iter().find(|(at, _)| *at as usize == slot);
        let missing = missing.map(|(_, what)| format!("\n  in its place stood {what}"));
        let line = self.source_line(program, slot).map(|line| format!("\n  {line}"));
        missing.into_iter().chain(line).collect()
    }

    /// By map: what its only value holds that neither programs nor anybody else changes once the object is loaded
    /// (`.rodata`): what weir-verifier folds.
    pub fn frozen(&self) -> Vec<Option<&[u8]>> {
        let maps = self.object.maps.iter().zip(&self.maps);
        let frozen = maps.map(|(spec, origin)| {
            origin.initial.as_deref().filter(|_| spec.has(crate::map::flag::RDONLY_PROG))
        });
        frozen.collect()
    }

    /// The programs that tail calls of this one may lead to at first, by their indices, ascending: those of its kind in arrays of
    /// programs that it names, or that one of them names.
    pub fn led_to(&self, program: usize) -> Vec<usize> {
        let programs = &self.object.programs;
        let Some(kind) = programs.get(program).map(|program| program.kind) else { return Vec::new() };
        let (mut found, mut work) = (BTreeSet::new(), vec![program]);
        while let Some(program) = work.pop() {
            let maps = maps_named(&programs[program].insns).filter_map(|map| self.maps.get(map));
            for (_, next) in maps.flat_map(|origin| &origin.programs) {
                if programs.get(*next).is_some_and(|next| next.kind == kind) && found.insert(*next) {
                    work.push(*next);
                }
            }
        }
        found.into_iter().collect()
    }

    /// Why a program is none that weir runs, whatever it does: its section is of a context that weir does not have, or
    /// of none that is known.
    pub fn other_context(&self, program: usize) -> Option<String> {
        let section = self.programs.get(program).map_or("", |origin| origin.section.as_str());
        if ObjectFile::kind_of(section).is_some() {
            return None;
        }
        let reason = match OTHER_CONTEXTS.contains(&family(section)) {
            true => {
                "this version runs those of probes (uprobe, kprobe), tracepoints, tracing (fentry, fexit) and packets (xdp, tc, socket)"
            }
            false => {
                "no kind of program is called so; libbpf's names begin with xdp, tc, socket, uprobe, kprobe, tp and the like"
            }
        };
        Some(format!(
            "{}: unsupported: programs of section `{}`; {reason}",
            self.object.programs[program].name.escape_debug(),
            section.escape_debug()
        ))
    }

    /// The kind of the programs of `section`, by libbpf's names of sections. None where their context is one that weir
    /// does not have, or where nothing is called so.
    pub fn kind_of(section: &str) -> Option<ProgramKind> {
        let section = section.trim_start_matches('?');
        if let Some(bytes) = section.strip_prefix(MEMORY_SECTION).and_then(|bytes| bytes.parse().ok()) {
            return Some(ProgramKind::Memory { bytes });
        }
        match family(section) {
            "socket" => Some(ProgramKind::SocketFilter),
            "tp" | "tracepoint" | "raw_tp" | "raw_tracepoint" => Some(ProgramKind::Tracepoint),
            kind if TRACING.contains(&kind) => Some(ProgramKind::Tracing),
            // LIMIT: those of a map of devices have `egress_ifindex` besides.
            "xdp" => Some(ProgramKind::Xdp),
            // As much as it is run on.
            "syscall" => Some(ProgramKind::Memory { bytes: 0 }),
            "tc" | "tcx" | "classifier" | "action" => Some(ProgramKind::Classifier),
            "cgroup_skb" => Some(ProgramKind::CgroupSkb),
            "sk_msg" => Some(ProgramKind::SkMsg),
            "flow_dissector" => Some(ProgramKind::FlowDissector),
            _ if CGROUP_SKB.contains(&section) => Some(ProgramKind::CgroupSkb),
            _ if CGROUP_SOCK.contains(&section) => Some(ProgramKind::CgroupSock),
            kind => PROBES.contains(&kind).then_some(ProgramKind::Probe),
        }
    }
}

/// Maps that a program's wide loads name.
fn maps_named(insns: &[Insn]) -> impl Iterator<Item = usize> {
    let names =
        |insn: &&Insn| insn.is_wide() && matches!(insn.src, pseudo::MAP_INDEX | pseudo::MAP_INDEX_VALUE);
    insns.iter().filter(names).map(|insn| insn.imm as usize)
}

/// Section of programs that get memory; its bytes follow. weir's own.
const MEMORY_SECTION: &str = "weir.memory/";

/// What a section's name begins with: `uprobe` of `uprobe.multi/libc:malloc`, and of `?uprobe`.
fn family(section: &str) -> &str {
    section.trim_start_matches('?').split(['/', '.']).next().unwrap_or_default()
}

/// What libbpf's section names begin with, where r1 is a `struct pt_regs`.
/// (`perf_event` has two numbers more after it, where the context of a probe has floating-point arguments.)
const PROBES: &[&str] =
    &["kprobe", "kretprobe", "ksyscall", "kretsyscall", "uprobe", "uretprobe", "usdt", "perf_event"];

/// What libbpf's section names begin with, where r1 points to arguments of something of the kernel's.
const TRACING: &[&str] = &["fentry", "fexit", "fmod_ret", "lsm", "struct_ops", "tp_btf"];

/// Sections of programs that see the packets of a control group; `cgroup_skb/…` as well.
const CGROUP_SKB: &[&str] = &["cgroup/skb"];

/// And of those that see its sockets, when they are made and released.
const CGROUP_SOCK: &[&str] = &["cgroup/sock_create", "cgroup/sock_release", "cgroup/sock"];

/// What libbpf's section names begin with, where r1 is nothing that weir has.
const OTHER_CONTEXTS: &[&str] = &[
    "cgroup",
    "freplace",
    "iter",
    "lirc_mode2",
    "lsm_cgroup",
    "lwt_in",
    "lwt_out",
    "lwt_seg6local",
    "lwt_xmit",
    "netfilter",
    "sk_lookup",
    "sk_reuseport",
    "sk_skb",
    "sockops",
];

fn source_line<'a>(btf: &'a Btf, row: &LineRow) -> SourceLine<'a> {
    SourceLine { file: btf.text(row.file), line: row.line, column: row.column, text: btf.text(row.text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_packets_say_their_kind() {
        for (section, kind) in [
            ("tc", Some(ProgramKind::Classifier)),
            ("tc/egress", Some(ProgramKind::Classifier)),
            ("tcx/ingress", Some(ProgramKind::Classifier)),
            ("?classifier", Some(ProgramKind::Classifier)),
            ("classifier/5", Some(ProgramKind::Classifier)),
            ("classifiers", None),
            ("action", Some(ProgramKind::Classifier)),
            ("cgroup/skb", Some(ProgramKind::CgroupSkb)),
            ("cgroup_skb/egress", Some(ProgramKind::CgroupSkb)),
            ("cgroup/sock", Some(ProgramKind::CgroupSock)),
            ("cgroup/post_bind4", None),
            ("sk_msg", Some(ProgramKind::SkMsg)),
            ("flow_dissector", Some(ProgramKind::FlowDissector)),
            ("fentry/do_unlinkat", Some(ProgramKind::Tracing)),
            ("tp_btf/sched_switch", Some(ProgramKind::Tracing)),
            ("perf_event", Some(ProgramKind::Probe)),
            ("iter/task", None),
            ("xdp.frags", Some(ProgramKind::Xdp)),
            ("xdp/devmap", Some(ProgramKind::Xdp)),
            ("struct_ops/init", Some(ProgramKind::Tracing)),
            ("syscall", Some(ProgramKind::Memory { bytes: 0 })),
            ("socket/a", Some(ProgramKind::SocketFilter)),
        ] {
            assert_eq!(ObjectFile::kind_of(section), kind, "{section}");
        }
        for kind in [ProgramKind::Classifier, ProgramKind::Xdp, ProgramKind::SocketFilter] {
            let program = crate::Program { name: "p".into(), kind, insns: Vec::new() };
            let file = ObjectFile::of(Object { maps: Vec::new(), programs: vec![program] });
            assert_eq!(ObjectFile::kind_of(&file.programs[0].section), Some(kind));
        }
    }
}
