//! What is of the kernel: its probes, and names that only programs in it have.
//!
//! A script that has them is read and checked whole, with the kernel's types and the fields of its tracepoints. What runs says
//! [`Kernel`](crate::Kernel): all of it is refused by name where programs run in processes, and what is no [`KernelEvent`] in the kernel too.

use weir_event::Type;
use weir_event::kernel::{CounterKind, KernelEvent, watch};
use weir_ir::{FoundTracepoint, KERNEL, Trigger, World};
use weir_source::Span;

use crate::ast::Name;
use crate::attach::{self, Attach, Fault, missing, number_of, written};
use crate::types::string_bytes;

/// Where a probe of the kernel is, as far as its clause's types depend on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// Entries or returns of functions: registers.
    Function {
        /// As the kernel lists them.
        functions: Vec<String>,
        is_return: bool,
    },
    /// The same where parameters have names and types; without functions nothing is known of it.
    Typed {
        functions: Vec<String>,
        is_return: bool,
    },
    Tracepoints(Vec<FoundTracepoint>),
    /// A tracepoint's arguments as they are.
    Raw,
    /// Time, counters of events, watched memory: it belongs to no call.
    Sample,
    /// One thing of those that the kernel lists: `task`.
    Iterator(String),
}

/// Kinds of probes: name, aliases, how it is written.
const KINDS: &[(&str, &[&str], &str)] = &[
    ("kprobe", &["k"], "`kprobe:FUNCTION` or `kprobe:MODULE:FUNCTION`, such as `kprobe:vfs_read`"),
    ("kretprobe", &["kr"], "`kretprobe:FUNCTION` or `kretprobe:MODULE:FUNCTION`"),
    ("fentry", &["f", "kfunc"], "`fentry:FUNCTION` or `fentry:MODULE:FUNCTION`, such as `fentry:vfs_read`"),
    ("fexit", &["fr", "kretfunc"], "`fexit:FUNCTION` or `fexit:MODULE:FUNCTION`"),
    ("tracepoint", &["t"], "`tracepoint:SUBSYSTEM:EVENT`, such as `tracepoint:sched:sched_switch`"),
    ("rawtracepoint", &["rt"], "`rawtracepoint:EVENT`, such as `rawtracepoint:sched_switch`"),
    ("profile", &["p"], "`profile:hz:99`, `profile:ms:10` or `profile:1s`"),
    ("software", &["s"], "`software:EVENT` or `software:EVENT:COUNT`, such as `software:page-faults:100`"),
    (
        "hardware",
        &["h"],
        "`hardware:EVENT` or `hardware:EVENT:COUNT`, such as `hardware:cache-misses:1000000`",
    ),
    (
        "watchpoint",
        &["w", "asyncwatchpoint", "aw"],
        "`watchpoint:ADDRESS:LENGTH:MODE`, MODE of `r`, `w` and `x`",
    ),
    ("iter", &["it"], "`iter:task`, `iter:task_file` or `iter:task_vma`"),
];

/// Counters: the name, its number in linux/perf_event.h, and how many events a program runs for where the script does not say it.
type Counters = &'static [(&'static str, u64, u64)];

const SOFTWARE: Counters = &[
    ("alignment-faults", 7, 1),
    ("bpf-output", 10, 1),
    ("context-switches", 3, 1_000),
    ("cs", 3, 1_000),
    ("cpu-clock", 0, 1_000_000),
    ("cpu", 0, 1_000_000),
    ("cpu-migrations", 4, 1),
    ("dummy", 9, 1),
    ("emulation-faults", 8, 1),
    ("major-faults", 6, 1),
    ("minor-faults", 5, 100),
    ("page-faults", 2, 100),
    ("faults", 2, 100),
    ("task-clock", 1, 1),
];

const HARDWARE: Counters = &[
    ("backend-stalls", 8, 1_000_000),
    ("branch-instructions", 4, 100_000),
    ("branches", 4, 100_000),
    ("branch-misses", 5, 100_000),
    ("bus-cycles", 6, 100_000),
    ("cache-misses", 3, 1_000_000),
    ("cache-references", 2, 1_000_000),
    ("cpu-cycles", 0, 1_000_000),
    ("cycles", 0, 1_000_000),
    ("frontend-stalls", 7, 1_000_000),
    ("instructions", 1, 1_000_000),
    ("ref-cycles", 9, 1_000_000),
];

/// The kind of this name, with how it is written.
pub(crate) fn kind(name: &str) -> Option<(&'static str, &'static str)> {
    let is_it = |(known, aliases, _): &&(&str, &[&str], &str)| *known == name || aliases.contains(&name);
    KINDS.iter().find(is_it).map(|(name, _, form)| (*name, *form))
}

/// What an attach point of the kernel means: what clauses have there, and the events at which the kernel runs programs; none of a kind that weir
/// only checks.
pub(crate) fn resolve(
    (kind, form): (&str, &str),
    span: Span,
    rest: &[Name],
    world: &dyn World,
) -> Result<(Point, Vec<KernelEvent>), Fault> {
    let mut events = Vec::new();
    let point = point((kind, form), span, rest, world, &mut events)?;
    Ok((point, events))
}

fn point(
    (kind, form): (&str, &str),
    span: Span,
    rest: &[Name],
    world: &dyn World,
    events: &mut Vec<KernelEvent>,
) -> Result<Point, Fault> {
    let wrong = || written(span, format!("`{kind}` is written in another way"), format!("write {form}"));
    if rest.is_empty() || rest.iter().any(|part| part.text.is_empty()) {
        return Err(wrong());
    }
    let function = || match rest {
        [name] | [_, name] => Ok(name),
        _ => Err(wrong()),
    };
    Ok(match kind {
        "kprobe" | "kretprobe" => {
            let name = function()?;
            let is_return = kind == "kretprobe";
            if is_return && name.text.contains('+') {
                return Err(written(
                    name.span,
                    "a place inside of a function does not return".to_string(),
                    format!("write {form}"),
                ));
            }
            let (functions, offset) = functions(rest, span, false, world)?;
            events.extend(functions.iter().map(|name| KernelEvent::Function {
                name: name.clone(),
                offset,
                is_return,
            }));
            Point::Function { functions, is_return }
        }
        "fentry" | "fexit" => {
            let is_return = kind == "fexit";
            let functions = match rest {
                // Of a program of eBPF: nothing is known of it here.
                [bpf, ..] if bpf.text == "bpf" => Vec::new(),
                _ => {
                    let name = function()?;
                    if let Some((_, offset)) = name.text.split_once('+') {
                        let hint = "a `kprobe` can be there".to_string();
                        return Err(written(name.span, format!("`{kind}` is at no place `+{offset}`"), hint));
                    }
                    functions(rest, span, true, world)?.0
                }
            };
            // LIMIT: modules have types of their own, which weir does not read.
            events.extend(
                functions
                    .iter()
                    .filter(|name| !name.contains(':'))
                    .map(|name| KernelEvent::TypedFunction { name: name.clone(), is_return }),
            );
            Point::Typed { functions, is_return }
        }
        "tracepoint" => match rest {
            [subsystem, name] => {
                let found =
                    world.tracepoints(&subsystem.text, &name.text).map_err(|error| missing(span, error))?;
                events.extend(
                    found.iter().cloned().map(|FoundTracepoint { subsystem, name }| {
                        KernelEvent::Tracepoint { subsystem, name }
                    }),
                );
                Point::Tracepoints(found)
            }
            _ => return Err(wrong()),
        },
        "rawtracepoint" => {
            let name = function()?;
            if !attach::is_pattern(&name.text) {
                events.push(KernelEvent::RawTracepoint { name: name.text.clone() });
            }
            Point::Raw
        }
        "profile" => {
            if let Attach::InWeir(Trigger::Interval { period_ns }) = attach::interval(kind, span, rest, form)?
            {
                events.push(KernelEvent::Clock { period_ns });
            }
            Point::Sample
        }
        "software" => counter((kind, CounterKind::Software), rest, SOFTWARE, wrong, events)?,
        "hardware" => counter((kind, CounterKind::Hardware), rest, HARDWARE, wrong, events)?,
        "watchpoint" => {
            events.push(watched(rest, wrong)?);
            Point::Sample
        }
        _ => match rest {
            [name] => {
                events.push(KernelEvent::Iterator { name: name.text.clone() });
                Point::Iterator(name.text.clone())
            }
            // Where it is to be pinned: weir pins nothing.
            [name, _] => Point::Iterator(name.text.clone()),
            _ => return Err(wrong()),
        },
    })
}

/// What `function`, `function+offset` or a pattern means, of the kernel itself or a module.
fn functions(
    rest: &[Name],
    span: Span,
    is_typed: bool,
    world: &dyn World,
) -> Result<(Vec<String>, u64), Fault> {
    // SANITY: the caller has looked that there is a part.
    let part = rest.last().expect("a function has a name");
    let (name, offset) = match part.text.split_once('+') {
        Some((name, offset)) => (name, number_of(&Name { text: offset.to_string(), span: part.span })?),
        None => (part.text.as_str(), 0),
    };
    let module = if rest.len() == 2 { Some(rest[0].text.as_str()) } else { None };
    let module = module.filter(|module| *module != KERNEL);
    if attach::is_pattern(name) {
        let found = world.kernel_functions(module, name, is_typed).map_err(|error| missing(span, error))?;
        return Ok((found, offset));
    }
    let name = match module {
        Some(module) => format!("{module}:{name}"),
        None => name.to_string(),
    };
    Ok((vec![name], offset))
}

fn counter(
    (kind, counter): (&str, CounterKind),
    rest: &[Name],
    known: Counters,
    wrong: impl Fn() -> Fault,
    events: &mut Vec<KernelEvent>,
) -> Result<Point, Fault> {
    let (event, count) = match rest {
        [event] => (event, None),
        [event, count] => (event, Some(count)),
        _ => return Err(wrong()),
    };
    let names = || known.iter().map(|(name, ..)| *name);
    let Some((_, config, usual)) = known.iter().find(|(name, ..)| *name == event.text) else {
        let hint = match weir_source::nearest(&event.text, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("events are {}", names().collect::<Vec<_>>().join(", ")),
        };
        let message = format!("`{kind}` has no event `{}`", event.text.escape_debug());
        return Err(written(event.span, message, hint));
    };
    let count = count.map_or(Ok(*usual), number_of)?;
    events.push(KernelEvent::Counter { kind: counter, config: *config, count });
    Ok(Point::Sample)
}

fn watched(rest: &[Name], wrong: impl Fn() -> Fault) -> Result<KernelEvent, Fault> {
    let [address, length, mode] = rest else { return Err(wrong()) };
    let (start, bytes) = (number_of(address)?, number_of(length)?);
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        let hint = "the processor watches 1, 2, 4 or 8 bytes".to_string();
        return Err(written(length.span, format!("{} bytes cannot be watched", length.text), hint));
    }
    if !start.is_multiple_of(bytes) {
        let hint = "the processor watches bytes that begin at a multiple of their number".to_string();
        let message = format!("{} bytes at {} cannot be watched", length.text, address.text);
        return Err(written(address.span, message, hint));
    }
    let mut letters: Vec<char> = mode.text.chars().collect();
    letters.sort_unstable();
    let access = match letters[..] {
        // Of reads alone the processor has no notion.
        ['r'] | ['r', 'w'] => watch::READ | watch::WRITE,
        ['w'] => watch::WRITE,
        ['x'] => watch::EXECUTE,
        _ => {
            let message = format!("`{}` is no mode of a watchpoint", mode.text.escape_debug());
            return Err(written(mode.span, message, "modes are `r`, `w`, `x` and `rw`".to_string()));
        }
    };
    Ok(KernelEvent::Watchpoint { address: start, bytes: bytes as u8, access })
}

/// What a name of the kernel gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gives {
    Number,
    /// A name when it is printed.
    Symbol,
    Stack,
    Text,
    /// What its argument is: it says where that points to.
    Argument,
    /// A pointer to a record of this name.
    Record(&'static str),
    /// A pointer to what the probe's program is given.
    Context,
    Nothing,
}

impl Gives {
    /// The type, where it depends on nothing else.
    pub(crate) fn ty(self, max_strlen: u32) -> Option<Type> {
        Some(match self {
            Gives::Number => Type::U64,
            Gives::Symbol => Type::Usym,
            Gives::Text => Type::Str { bytes: string_bytes(u64::from(max_strlen) - 1) },
            Gives::Stack | Gives::Argument | Gives::Record(_) | Gives::Context | Gives::Nothing => {
                return None;
            }
        })
    }
}

/// Names that only programs in the kernel have: fewest and most arguments, and what they give.
const NAMES: &[(&str, (usize, usize), Gives)] = &[
    (CTX, (0, 0), Gives::Context),
    ("curtask", (0, 0), Gives::Record("struct task_struct")),
    (KADDR, (1, 1), Gives::Number),
    ("kptr", (1, 1), Gives::Argument),
    (KSTACK, (0, 2), Gives::Stack),
    (KSYM, (1, 1), Gives::Symbol),
    ("override", (1, 1), Gives::Nothing),
    ("path", (1, 2), Gives::Text),
    ("percpu_kaddr", (1, 2), Gives::Number),
    ("ppid", (0, 1), Gives::Number),
    ("skboutput", (4, 4), Gives::Number),
    ("socket_cookie", (1, 1), Gives::Number),
    ("stack", (0, 2), Gives::Stack),
    ("unwatch", (1, 1), Gives::Nothing),
    ("uptr", (1, 1), Gives::Argument),
];

/// Names that the lowering asks for.
pub(crate) const CTX: &str = "ctx";
pub(crate) const KADDR: &str = "kaddr";
pub(crate) const KSTACK: &str = "kstack";
pub(crate) const KSYM: &str = "ksym";

/// Weir's programs in the kernel have the name.
pub(crate) fn runs(name: &str) -> bool {
    matches!(name, CTX | "curtask" | KSTACK | KSYM) || is_anywhere(name)
}

/// It is the same at every event, and what calls nobody.
pub(crate) fn is_anywhere(name: &str) -> bool {
    matches!(name, KADDR | "kptr" | "uptr")
}

/// What the name gives, and how many arguments it takes.
pub(crate) fn name(name: &str) -> Option<((usize, usize), Gives)> {
    NAMES.iter().find(|(known, ..)| *known == name).map(|(_, arity, gives)| (*arity, *gives))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unsupported::{self, Kind};

    #[test]
    fn each_name_says_why_it_is_not_there() {
        for (name, ..) in NAMES {
            let row =
                [Kind::Builtin, Kind::Function].into_iter().find_map(|kind| unsupported::find(kind, name));
            assert!(row.is_some(), "{name}");
        }
        for (name, ..) in KINDS {
            assert!(unsupported::find(Kind::Probe, name).is_some(), "{name}");
        }
    }
}
