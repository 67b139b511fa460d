//! How a front end asks about what lies outside the text: which functions and
//! static probes a pattern names.
//!
//! The compiler is pure; whoever calls it implements [`World`] with weir-symbols, and tests with a table.

use weir_event::ctype::{CType, CTypes, Elsewhere, TypeId};
use weir_event::schema;

use crate::isa::native::REGISTER_SLOTS;
use crate::limits;

/// Whether an attach point with this word before the function (`uprobe:BINARY:cpp:NAME`) names it as source text does.
pub fn is_language(word: &str) -> bool {
    matches!(word, "cpp" | "rust")
}

/// A function that a pattern matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundFunction {
    /// The resolved path of its binary.
    pub binary: String,
    /// The symbol.
    pub name: String,
    /// The name as people write it: of C++ and Rust demangled.
    pub shown: String,
    /// The binary is not the one that was named, but the C library, which has the functions of that one now.
    pub is_moved: bool,
}

impl FoundFunction {
    /// One that is shown by its symbol.
    pub fn plain(binary: &str, name: &str) -> FoundFunction {
        FoundFunction {
            binary: binary.to_owned(),
            name: name.to_owned(),
            shown: name.to_owned(),
            is_moved: false,
        }
    }
}

/// An instruction that an attach point names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlaceSpec {
    /// So many bytes behind a function's start.
    Offset { function: String, offset: u64 },
    /// A link address.
    Address(u64),
    /// Where the statements of a source line begin. `file` is the end of its path.
    Line { file: String, line: u64 },
}

/// An instruction that an attach point means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundPlace {
    /// The resolved path of its binary.
    pub binary: String,
    /// As it is shown behind the binary: `malloc+16`.
    pub name: String,
    /// The function that it is in; empty where none is named.
    pub function: String,
    /// Link address.
    pub address: u64,
}

/// Why a binary or function could not be found: the message and, where there is one, the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldError {
    pub message: String,
    pub hint: Option<String>,
}

/// What a program has put in for tracers itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StaticKind {
    /// A static probe (USDT), which weir's own tracepoints are too.
    Usdt,
    /// An event of LTTng-UST.
    Lttng,
}

impl StaticKind {
    /// As attach points begin.
    pub fn name(self) -> &'static str {
        match self {
            StaticKind::Usdt => "usdt",
            StaticKind::Lttng => "lttng",
        }
    }
}

/// A place of a static probe that a pattern matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundStatic {
    pub kind: StaticKind,
    /// The resolved path of its binary.
    pub binary: String,
    pub provider: String,
    pub name: String,
    /// The function that it stands in; empty where none is named.
    pub function: String,
    /// Link address.
    pub address: u64,
    /// Link address of the word that counts its tracers.
    pub semaphore: Option<u64>,
    pub arguments: Vec<FoundArgument>,
    /// Those of the arguments that have names.
    pub fields: Vec<FoundField>,
}

/// A named value of an event: a parameter of a function, or a named argument of a static probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundField {
    pub name: String,
    pub ty: schema::Type,
    /// It is 8 bytes that may be the address of a string for all that is known: whoever compares it with one says so.
    pub may_be_text: bool,
    pub argument: FoundArgument,
    /// Of a sequence: how many elements it has.
    pub count: Option<FoundArgument>,
    /// How it is shown, as far as the program says.
    pub form: schema::Form,
    /// It is there for filters alone: no recording has it.
    pub is_hidden: bool,
}

/// What a function takes and gives back, as far as debug information says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundPrototype {
    pub parameters: Vec<FoundField>,
    /// None: it gives nothing back, or nothing that can be read.
    pub result: Option<FoundField>,
}

/// An argument of a static probe or a function, and how it is read at that place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundArgument {
    /// As the file has it: `-4@8(%rsp)`; of a function its name.
    pub text: String,
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    pub signed: bool,
    /// A floating-point number, of 4 or 8 bytes.
    pub is_float: bool,
    /// Or why it cannot be read.
    pub place: Result<ArgumentPlace, String>,
    /// From what is there, 8 bytes then, on to the argument; none where that is the argument.
    pub steps: Vec<Step>,
}

/// One step from an address to what is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Plus(i64),
    /// What so many bytes at the address hold.
    Read(u8),
}

impl FoundArgument {
    /// What a whole register holds.
    pub fn register(number: u8) -> FoundArgument {
        FoundArgument {
            text: String::new(),
            bytes: 8,
            signed: false,
            is_float: false,
            place: Ok(ArgumentPlace::Register { number, shift: 0, bits: 64 }),
            steps: Vec::new(),
        }
    }

    /// The slot of the context all of which is the argument, if one is: that of a register, or of a word.
    pub fn whole_slot(&self) -> Option<u8> {
        let is_word = self.bytes == 8 && !self.is_float && self.steps.is_empty();
        match self.place {
            Ok(ArgumentPlace::Register { number, shift: 0, bits: 64 }) if is_word => {
                Some(REGISTER_SLOTS[usize::from(number)])
            }
            Ok(ArgumentPlace::Slot(slot)) if is_word && slot < limits::SLOTS => Some(slot),
            _ => None,
        }
    }
}

/// Where an argument's value is. Registers are 0 to 15 by x86-64 encoding (rax, rcx, rdx, rbx, rsp, …), 16 is ip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentPlace {
    Constant(i64),
    /// `bits` of a register from bit `shift` on.
    Register {
        number: u8,
        shift: u8,
        bits: u8,
    },
    /// The low bytes of xmm0 to xmm7, of a floating-point number.
    Vector(u8),
    /// A slot of the context, by its number, at a place whose context has no registers: what is called there is handed a row of words.
    Slot(u8),
    /// At base + index × scale + displacement.
    Memory {
        base: Option<u8>,
        index: Option<(u8, u8)>,
        displacement: i64,
        /// The displacement counts from the probe's own address.
        relative: bool,
    },
}

/// A tracepoint of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundTracepoint {
    /// Such as `sched`.
    pub subsystem: String,
    /// Such as `sched_switch`.
    pub name: String,
}

/// What [`World::c_type`] and [`World::members`] call the kernel's types (BTF), beside the paths of binaries.
pub const KERNEL: &str = "vmlinux";

pub trait World {
    /// Functions of `binary` (a path, a name in PATH, or a library's short name such as `libc`) whose names
    /// match `pattern` (`*`, `?` and `[…]` as in a shell). Never empty: no match is an error that names near misses.
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError>;

    /// The same by the names of C++ and Rust as people write them, with or without parameters. A world without such functions need not answer.
    fn demangled_functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        Err(WorldError { message: format!("no function {pattern} in {binary}"), hint: None })
    }

    /// The instructions of `binary` that `place` means, by address. Never empty: an error says what there is near it.
    fn places(&self, binary: &str, place: &PlaceSpec) -> Result<Vec<FoundPlace>, WorldError> {
        Err(WorldError { message: format!("no place {place:?} in {binary}"), hint: None })
    }

    /// Places of the static probes of `binary` whose names match `pattern`, of a provider that matches `provider`
    /// (else of any), and of this kind (else of any; what is of both kinds is LTTng's). Never empty. A world without static
    /// probes need not answer.
    fn static_probes(
        &self,
        kind: Option<StaticKind>,
        binary: &str,
        provider: Option<&str>,
        pattern: &str,
    ) -> Result<Vec<FoundStatic>, WorldError> {
        let _ = kind;
        let provider = provider.map_or_else(String::new, |provider| format!("{provider}:"));
        Err(WorldError { message: format!("no static probe {provider}{pattern} in {binary}"), hint: None })
    }

    /// The program that the traced process executes, for attach points that name no binary; none where no process is known.
    fn program(&self) -> Option<String> {
        None
    }

    /// What these functions of `binary`, a path that [`World::functions`] answered, take and give back, each where it is
    /// known, and the same for all functions of the name. A world without debug information need not answer.
    fn prototypes(&self, binary: &str, functions: &[&str]) -> Vec<Option<FoundPrototype>> {
        let _ = binary;
        vec![None; functions.len()]
    }

    /// Why nothing is known of the parameters of a function that [`World::prototypes`] does not know; none where nobody knows that either.
    fn unnamed_parameters(&self, binary: &str, function: &str) -> Option<String> {
        let _ = (binary, function);
        None
    }

    /// The C types of a function's parameters by their names, those that are known.
    fn parameter_types(&self, binary: &str, function: &str, types: &mut CTypes) -> Vec<(String, TypeId)> {
        let _ = (binary, function, types);
        Vec::new()
    }

    /// What `name` stands for in the debug information of `binary`: a tag with its keyword (`struct request`), or a `typedef`'s name.
    fn c_type(&self, binary: &str, name: &str, types: &mut CTypes) -> Option<TypeId> {
        let _ = (binary, name, types);
        None
    }

    /// The record of which only the name was known.
    fn members(&self, place: &Elsewhere, types: &mut CTypes) -> Option<CType> {
        let _ = (place, types);
        None
    }

    /// Tracepoints of the kernel whose subsystem and name match these patterns. Never empty: no match is an error.
    fn tracepoints(&self, subsystem: &str, name: &str) -> Result<Vec<FoundTracepoint>, WorldError> {
        let message = format!("no tracepoint {subsystem}:{name}");
        Err(WorldError {
            message,
            hint: Some("nothing is known of the kernel's tracepoints here".to_string()),
        })
    }

    /// A record of a tracepoint's fields, or why nothing is known of them.
    fn tracepoint_fields(&self, of: &FoundTracepoint, types: &mut CTypes) -> Result<TypeId, WorldError> {
        let _ = types;
        Err(WorldError {
            message: format!("nothing is known of the fields of {}:{}", of.subsystem, of.name),
            hint: None,
        })
    }

    /// Functions of the kernel, or of one module of it, whose names match the pattern; those of a module as `module:function`. `is_typed`: of those that
    /// [`World::kernel_function`] knows. Never empty.
    fn kernel_functions(
        &self,
        module: Option<&str>,
        pattern: &str,
        is_typed: bool,
    ) -> Result<Vec<String>, WorldError> {
        let _ = is_typed;
        let module = module.map_or_else(String::new, |module| format!("{module}:"));
        Err(WorldError {
            message: format!("no function {module}{pattern} in the kernel"),
            hint: Some("nothing is known of the kernel's functions here".to_string()),
        })
    }

    /// A record of a kernel function's parameters, and what it returns, as BTF has them.
    fn kernel_function(&self, name: &str, types: &mut CTypes) -> Result<(TypeId, TypeId), WorldError> {
        let _ = types;
        Err(WorldError { message: format!("the kernel's types (BTF) name no function `{name}`"), hint: None })
    }

    /// The value of an enumeration's name, as the kernel's types have it.
    fn kernel_constant(&self, name: &str) -> Option<i64> {
        let _ = name;
        None
    }

    /// Where the kernel has this function or variable.
    fn kernel_symbol(&self, name: &str) -> Result<u64, WorldError> {
        Err(WorldError { message: format!("the kernel has no symbol `{name}`"), hint: None })
    }

    /// The number of the control group whose folder this is.
    fn cgroup(&self, path: &str) -> Option<u64> {
        let _ = path;
        None
    }

    /// Processors that the machine may have.
    fn cpus(&self) -> u32 {
        1
    }

    /// The path and the text of a file that the script or header `from` imports; none: a script that is no file.
    fn import(&self, name: &str, from: Option<&str>) -> Result<(String, String), WorldError> {
        let _ = from;
        Err(WorldError { message: format!("`{name}` cannot be found"), hint: None })
    }

    /// The path and the text of a header: `name` as `#include` has it, in `<>` or in quotes, included by the header `from`, or by the script.
    fn header(
        &self,
        name: &str,
        is_system: bool,
        from: Option<&str>,
    ) -> Result<(String, String), WorldError> {
        let _ = (is_system, from);
        Err(WorldError { message: format!("the header `{name}` cannot be found"), hint: None })
    }
}
