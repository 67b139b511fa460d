//! What the compiler may ask about the kernel: its types and functions (BTF), and the fields of its tracepoints (tracefs).
//!
//! Types are read from `/sys/kernel/btf/vmlinux` when a script names the first of them: ten megabytes of declarations, of which a record's
//! members become C types alone when one of them is named. Tracepoints are those of `events/` in tracefs, which root may read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weir_ebpf::btf::{self, Btf, KERNEL_BTF, Kind};
use weir_event::ctype::{Bits, CType, CTypes, Elsewhere, Enum, Member, Record, TypeId};
use weir_ir::{FoundTracepoint, KERNEL, WorldError};
use weir_symbols::kallsyms::{KernelSymbols, NoAddress};
use weir_symbols::{pattern, tracefs};

/// Steps along pointers, arrays and members without names.
const DEPTH_MAX: usize = 32;
/// Beside the tracepoints: functions that can be traced.
const TRACEABLE: &str = "available_filter_functions";
/// Tracepoints of one pattern.
const TRACEPOINTS_MAX: usize = 4096;

/// The kernel's types.
#[derive(Debug)]
pub(crate) struct KernelTypes {
    btf: Btf,
}

impl KernelTypes {
    /// None where the kernel was built without them.
    pub(crate) fn read() -> Option<KernelTypes> {
        let bytes = fs::read(KERNEL_BTF).ok()?;
        Some(KernelTypes { btf: Btf::parse(&bytes).ok()? })
    }

    /// What `name` stands for: a tag with its keyword, or a `typedef`'s name or an integer's.
    pub(crate) fn named(&self, name: &str, types: &mut CTypes) -> Option<TypeId> {
        let (kinds, name): (&[Kind], _) = match name.split_once(' ') {
            Some(("struct", tag)) => (&[Kind::Struct], tag),
            Some(("union", tag)) => (&[Kind::Union], tag),
            Some(("enum", tag)) => (&[Kind::Enum, Kind::Enum64], tag),
            _ => (&[Kind::Typedef, Kind::Int], name),
        };
        Some(self.add(self.find(kinds, name)?, types, 0))
    }

    fn find(&self, kinds: &[Kind], name: &str) -> Option<btf::TypeId> {
        let is_it = |ty: &btf::Type| kinds.contains(&ty.kind) && self.btf.name(ty.name) == Some(name);
        self.btf.types().find(|(_, ty)| is_it(ty)).map(|(id, _)| id)
    }

    /// The members of the record with this number.
    pub(crate) fn members(&self, id: u64, types: &mut CTypes) -> Option<CType> {
        self.record(u32::try_from(id).ok()?, types, 0)
    }

    /// The parameters and the result of a function.
    pub(crate) fn function(&self, name: &str, types: &mut CTypes) -> Option<(TypeId, TypeId)> {
        let function = self.btf.get(self.find(&[Kind::Function], name)?)?;
        let prototype = self.btf.get(function.size_or_type).filter(|ty| ty.kind == Kind::Prototype)?;
        let (mut members, mut bytes) = (Vec::new(), 0);
        for parameter in prototype.extra.chunks_exact(2) {
            let ty = self.add(parameter[1], types, 0);
            let name = self.btf.name(parameter[0]).unwrap_or_default().to_owned();
            members.push(Member { name, ty, offset: bytes, bits: None });
            // The context of a tracing program has 8 bytes for each, or as many times 8 as a record has.
            bytes += types.bytes(ty).unwrap_or(8).next_multiple_of(8).max(8);
        }
        let result = self.add(prototype.size_or_type, types, 0);
        Some((types.add(CType::Record(Record { name: format!("args of {name}"), bytes, members })), result))
    }

    /// The names of functions that match.
    fn functions(&self, pattern: &str) -> BTreeSet<String> {
        let all = self.btf.types().filter(|(_, ty)| ty.kind == Kind::Function);
        let names = all.filter_map(|(_, ty)| self.btf.name(ty.name));
        names.filter(|name| pattern::matches(pattern, name)).map(str::to_owned).collect()
    }

    /// The value of an enumeration's name.
    pub(crate) fn constant(&self, name: &str) -> Option<i64> {
        self.btf.types().filter(|(_, ty)| matches!(ty.kind, Kind::Enum | Kind::Enum64)).find_map(|(_, ty)| {
            let words = if ty.kind == Kind::Enum { 2 } else { 3 };
            let label = ty.extra.chunks_exact(words).find(|label| self.btf.name(label[0]) == Some(name))?;
            Some(value_of(ty, label))
        })
    }

    /// The C type of one of the kernel's.
    fn add(&self, id: btf::TypeId, types: &mut CTypes, depth: usize) -> TypeId {
        let Some((id, ty)) = self.plain(id) else { return CTypes::VOID };
        if depth == DEPTH_MAX {
            return CTypes::VOID;
        }
        let bytes = ty.size_or_type;
        let made = match ty.kind {
            Kind::Int => self.int(ty),
            Kind::Float if matches!(bytes, 4 | 8) => CType::Float { bytes: bytes as u8 },
            Kind::Pointer => CType::Pointer(self.add(bytes, types, depth + 1)),
            Kind::Array => {
                CType::Array { element: self.add(ty.extra[0], types, depth + 1), count: ty.extra[2] }
            }
            Kind::Struct | Kind::Union => {
                let place = Elsewhere { binary: KERNEL.to_owned(), offset: id.into() };
                return types.named(&self.tag(ty), Some(bytes), Some(place));
            }
            Kind::Forward => {
                let keyword = if ty.flag { "union" } else { "struct" };
                let tag = self.btf.name(ty.name).unwrap_or_default();
                return types.named(&format!("{keyword} {tag}"), None, None);
            }
            Kind::Enum | Kind::Enum64 if matches!(bytes, 1 | 2 | 4 | 8) => CType::Enum(self.enumeration(ty)),
            Kind::Prototype | Kind::Function => CType::Void,
            kind => CType::Other { what: format!("a {}", kind.word()), bytes: None },
        };
        types.add(made)
    }

    /// A type without typedefs and qualifiers, and its number.
    fn plain(&self, mut id: btf::TypeId) -> Option<(btf::TypeId, btf::Type<'_>)> {
        for _ in 0..DEPTH_MAX {
            let ty = self.btf.get(id)?;
            match ty.kind {
                Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag => {
                    id = ty.size_or_type
                }
                _ => return Some((id, ty)),
            }
        }
        None
    }

    fn int(&self, ty: btf::Type<'_>) -> CType {
        let (bytes, encoding) = (ty.size_or_type, ty.extra[0]);
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return CType::Other { what: format!("an integer of {bytes} bytes"), bytes: Some(bytes) };
        }
        // Bit 24: signed.
        let is_char = bytes == 1 && self.btf.name(ty.name) == Some("char");
        CType::Int { bytes: bytes as u8, signed: encoding >> 24 & 1 == 1 || is_char, is_char }
    }

    fn enumeration(&self, ty: btf::Type<'_>) -> Enum {
        let name = |offset| self.btf.name(offset).unwrap_or_default().to_owned();
        let signed = ty.flag;
        let words = if ty.kind == Kind::Enum { 2 } else { 3 };
        let labels =
            ty.extra.chunks_exact(words).map(|label| (name(label[0]), value_of(ty, label))).collect();
        Enum {
            name: format!("enum {}", name(ty.name)).trim_end().to_owned(),
            bytes: ty.size_or_type as u8,
            signed,
            labels,
        }
    }

    /// `struct request`; `struct` alone where it has no name.
    fn tag(&self, ty: btf::Type<'_>) -> String {
        let keyword = if ty.kind == Kind::Union { "union" } else { "struct" };
        let name = self.btf.name(ty.name).unwrap_or_default();
        format!("{keyword} {name}").trim_end().to_owned()
    }

    fn record(&self, id: btf::TypeId, types: &mut CTypes, depth: usize) -> Option<CType> {
        let ty = self.btf.get(id).filter(|ty| matches!(ty.kind, Kind::Struct | Kind::Union))?;
        let mut members = Vec::new();
        for member in ty.members() {
            let name = self.btf.name(member.name).unwrap_or_default().to_owned();
            let of = self.add(member.ty, types, depth + 1);
            // Members of one without a name are members of this one.
            if name.is_empty()
                && depth < DEPTH_MAX
                && let Some((inner, _)) = self.plain(member.ty)
                && let Some(record) = self.record(inner, types, depth + 1)
            {
                types.complete(of, record);
            }
            let (bit, width) = match ty.flag {
                true => (member.bit_offset & 0x00ff_ffff, member.bit_offset >> 24),
                false => (member.bit_offset, 0),
            };
            let bits = (width != 0).then_some(Bits { shift: (bit % 8) as u8, width: width as u8 });
            members.push(Member { name, ty: of, offset: bit / 8, bits });
        }
        Some(CType::Record(Record { name: self.tag(ty), bytes: ty.size_or_type, members }))
    }
}

/// The value that a name of an enumeration stands for: one word, or two.
fn value_of(ty: btf::Type<'_>, label: &[u32]) -> i64 {
    match label {
        [_, low, high] => (u64::from(*high) << 32 | u64::from(*low)) as i64,
        [_, word] if ty.flag => i64::from(*word as i32),
        _ => label.get(1).copied().unwrap_or_default().into(),
    }
}

/// Tracepoints whose subsystem and name match.
pub(crate) fn tracepoints(subsystem: &str, name: &str) -> Result<Vec<FoundTracepoint>, WorldError> {
    let events = events()?;
    let mut found = Vec::new();
    let subsystems = entries(&events);
    for folder in subsystems.iter().filter(|folder| pattern::matches(subsystem, folder)) {
        for event in entries(&events.join(folder)).into_iter().filter(|event| pattern::matches(name, event)) {
            if events.join(folder).join(&event).join("format").is_file() {
                found.push(FoundTracepoint { subsystem: folder.clone(), name: event });
            }
        }
    }
    if found.len() > TRACEPOINTS_MAX {
        let message =
            format!("{} tracepoints match {subsystem}:{name}, the limit is {TRACEPOINTS_MAX}", found.len());
        return Err(WorldError { message, hint: Some("narrow the pattern".to_owned()) });
    }
    if found.is_empty() {
        let message = format!("the kernel has no tracepoint {subsystem}:{name}");
        let (given, known) = match subsystems.iter().any(|folder| folder == subsystem) {
            true => (name, entries(&events.join(subsystem))),
            false => (subsystem, subsystems),
        };
        let near = pattern::near_misses(given, known.iter().map(String::as_str));
        let hint = match &near[..] {
            [] => format!("{} has those that there are", events.display()),
            near => format!("did you mean {}?", near.join(", ")),
        };
        return Err(WorldError { message, hint: Some(hint) });
    }
    found.sort_by(|a, b| (&a.subsystem, &a.name).cmp(&(&b.subsystem, &b.name)));
    Ok(found)
}

/// Functions of the kernel, or of one module of it, whose names match: those that it lists as such that can be traced; where that cannot be read, those
/// that its types describe. `is_typed`: what they describe of these.
pub(crate) fn functions(
    (module, pattern): (Option<&str>, &str),
    is_typed: bool,
    kernel: &Kernel<'_>,
) -> Result<Vec<String>, WorldError> {
    let path = events()?.with_file_name(TRACEABLE);
    let listed = fs::read_to_string(&path);
    let is_needed = is_typed || listed.is_err();
    let typed = kernel().filter(|_| is_needed && module.is_none()).map(|kernel| kernel.functions(pattern));
    let is_listed = listed.is_ok();
    let found = match (listed, typed) {
        // Some names are those of several functions.
        (Ok(text), None) => tracefs::functions(&text, module, pattern).into_iter().collect(),
        (Ok(text), Some(typed)) => {
            let listed = tracefs::functions(&text, module, pattern).into_iter();
            listed.filter(|name| typed.contains(name)).collect()
        }
        (Err(_), Some(typed)) => typed,
        (Err(error), None) => {
            let message = format!("the kernel's functions are not known: {}: {error}", path.display());
            return Err(WorldError { message, hint: Some("name one instead of a pattern".to_owned()) });
        }
    };
    if found.is_empty() {
        let module = module.map_or_else(String::new, |module| format!("{module}:"));
        return Err(WorldError {
            message: format!("the kernel has no function {module}{pattern} that can be traced"),
            hint: Some(match is_listed {
                true => format!("{} has those that there are", path.display()),
                false => {
                    "`bpftool btf dump file /sys/kernel/btf/vmlinux` lists those that there are".to_owned()
                }
            }),
        });
    }
    Ok(found.into_iter().collect())
}

/// Where the kernel has a function or a variable.
pub(crate) fn symbol(name: &str) -> Result<u64, WorldError> {
    let symbols = KernelSymbols::read().map_err(|error| WorldError {
        message: format!("the kernel's symbols cannot be read: /proc/kallsyms: {error}"),
        hint: None,
    })?;
    symbols.address(name).map_err(|why| match why {
        NoAddress::Hidden => WorldError {
            message: format!("where the kernel has `{name}` is hidden"),
            hint: Some("be root, and set kernel.kptr_restrict to 0 or 1".to_owned()),
        },
        NoAddress::NoSymbol(near) => WorldError {
            message: format!("the kernel has no symbol `{name}`"),
            hint: Some(match &near[..] {
                [] => "/proc/kallsyms lists those that there are".to_owned(),
                near => format!("did you mean {}?", near.join(", ")),
            }),
        },
    })
}

/// The kernel's types, read when a field is of one of them.
pub(crate) type Kernel<'a> = dyn Fn() -> Option<&'a KernelTypes> + 'a;

/// A record of a tracepoint's fields; pointers among them lead to the kernel's types, where these are known.
pub(crate) fn tracepoint_fields(
    of: &FoundTracepoint,
    kernel: &Kernel<'_>,
    types: &mut CTypes,
) -> Result<TypeId, WorldError> {
    let path = events()?.join(&of.subsystem).join(&of.name).join("format");
    let text = fs::read_to_string(&path).map_err(|error| WorldError {
        message: format!(
            "the fields of {}:{} cannot be read: {}: {error}",
            of.subsystem,
            of.name,
            path.display()
        ),
        hint: None,
    })?;
    let named = |name: &str, types: &mut CTypes| kernel().and_then(|kernel| kernel.named(name, types));
    let (members, bytes) = tracefs::fields(&text, &named, types);
    let name = format!("args of {}:{}", of.subsystem, of.name);
    Ok(types.add(CType::Record(Record { name, bytes, members })))
}

fn events() -> Result<PathBuf, WorldError> {
    weir_kernel::tracepoints().ok_or_else(|| WorldError {
        message: "/sys/kernel/tracing/events cannot be read, where the kernel lists its tracepoints"
            .to_owned(),
        hint: Some(
            "be root, and mount it where it is not: `mount -t tracefs tracefs /sys/kernel/tracing`"
                .to_owned(),
        ),
    })
}

fn entries(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = all.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_members_that_the_kernel_says() {
        let Some(kernel) = KernelTypes::read() else {
            return testkit::skip::skip("weir-world::kernel-types", "this kernel has no BTF");
        };
        let mut types = CTypes::default();
        let task = kernel.named("struct task_struct", &mut types).unwrap();
        let CType::Named { place: Some(place), bytes: Some(bytes), .. } = types.get(task).clone() else {
            panic!("{:?}", types.get(task));
        };
        let CType::Record(record) = kernel.members(place.offset, &mut types).unwrap() else { panic!() };
        assert_eq!(record.bytes, bytes);
        assert_eq!(types.name(record.member(&types, "comm").unwrap().ty), "char[16]");
        assert_eq!(types.name(record.member(&types, "pid").unwrap().ty), "int32");
        assert_eq!(types.name(record.member(&types, "real_parent").unwrap().ty), "struct task_struct *");
        assert_eq!(kernel.named("u64", &mut types).map(|id| types.name(id)).as_deref(), Some("uint64"));
        let (parameters, result) = kernel.function("vfs_read", &mut types).unwrap();
        let CType::Record(parameters) = types.get(parameters).clone() else { panic!() };
        assert_eq!(parameters.names(&types), ["file", "buf", "count", "pos"]);
        assert_eq!(types.name(result), "int64");
        assert!(kernel.functions("vfs_re*").contains("vfs_read"));
        assert_eq!(kernel.constant("TCP_FIN_WAIT1"), Some(4));
        assert_eq!(kernel.named("struct no_such_record", &mut types), None);
    }
}
