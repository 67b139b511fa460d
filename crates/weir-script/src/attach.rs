//! Attach points → where they attach: `uprobe:libc:malloc` → the functions of that name in that library.
//!
//! Knows the probe kinds and their spellings; asks the [`World`] for functions. Does not know clauses.

use std::collections::HashSet;

use weir_event::kernel::KernelEvent;
use weir_ir::world::is_language;
use weir_ir::{
    Asked, FoundFunction, FoundPlace, FoundStatic, PlaceSpec, StaticKind, Trigger, World, WorldError,
};
use weir_source::{Diagnostic, Span};

use crate::ast::{Name, Probe};
use crate::kernel::{self, Point};
use crate::limits;
use crate::unsupported::{self, Kind};
use crate::{Kernel, Options};
use weir_source::nearest;
use weir_syntax::number_value;

/// Kinds without a path: a `/` in their second part starts the predicate.
pub(crate) const WITHOUT_PATH: &[&str] = &["begin", "end", "interval", "i"];

/// What one attach point means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Attach {
    /// In weir itself.
    InWeir(Trigger),
    Functions(Vec<FoundFunction>),
    /// Single instructions.
    Places(Vec<FoundPlace>),
    /// Where calls of these functions have returned.
    Returns(Vec<FoundFunction>),
    Statics(Vec<FoundStatic>),
    /// In the kernel.
    Kernel {
        kind: &'static str,
        point: Point,
        /// None of a kind that is checked alone.
        events: Vec<KernelEvent>,
    },
}

/// Why it means nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It is written wrongly.
    Written(Diagnostic),
    /// There is no such binary or function; the setting `missing_probes` says how bad that is.
    Missing(Diagnostic),
}

/// The probe kinds: name, alias, how it is written.
pub(crate) const KINDS: &[(&str, &str, &str)] = &[
    ("begin", "begin", "`BEGIN`"),
    ("end", "end", "`END`"),
    ("interval", "i", "`interval:s:1`, `interval:ms:100`, `interval:hz:10` or `interval:1s`"),
    ("self", "self", "`self:signal:SIGUSR1`"),
    ("test", "test", "`test:NAME`"),
    ("bench", "bench", "`bench:NAME`"),
    ("uprobe", "u", "`uprobe:BINARY:FUNCTION`, such as `uprobe:libc:malloc`, or `uprobe:BINARY@FILE:LINE`"),
    ("uretprobe", "ur", "`uretprobe:BINARY:FUNCTION`, such as `uretprobe:libc:malloc`"),
    ("usdt", "U", "`usdt:BINARY:PROVIDER:NAME` or `usdt:BINARY:NAME`, such as `usdt:python3:gc__start`"),
    (
        "lttng",
        "lttng",
        "`lttng:BINARY:PROVIDER:NAME` or `lttng:BINARY:NAME`, such as `lttng:./app:app:started`",
    ),
    ("static", "static", "`static:BINARY:PROVIDER:NAME`, a `usdt` or an `lttng`"),
];

/// Its kind is one of the kernel's.
pub(crate) fn is_of_kernel(probe: &Probe) -> bool {
    let kind = probe.parts.first().map_or("", |part| part.text.as_str());
    known(kind).is_none() && kernel::kind(&kind.to_lowercase()).is_some()
}

/// Its kind is one of processes.
pub(crate) fn is_of_process(probe: &Probe) -> bool {
    let kind = probe.parts.first().and_then(|part| known(&part.text));
    kind.is_some_and(|(name, ..)| matches!(*name, "uprobe" | "uretprobe" | "usdt" | "lttng" | "static"))
}

/// The kind that a word stands for.
fn known(word: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let lower = word.to_lowercase();
    // `U` is bpftrace's usdt, `u` its uprobe; all else is the same in either case.
    let is_alias = |alias: &str| if word == "U" { alias == "U" } else { alias == lower };
    KINDS.iter().find(|(name, alias, _)| *name == lower || is_alias(alias))
}

/// Resolves one attach point. `options`: what stands in for `$1` and so on, and whether probes of the kernel are looked at.
pub(crate) fn resolve(probe: &Probe, options: &Options, world: &dyn World) -> Result<Attach, Fault> {
    let parts =
        probe.parts.iter().map(|part| substitute(part, &options.params)).collect::<Result<Vec<_>, _>>()?;
    // SANITY: the parser makes no attach point without a part.
    let (kind, rest) = parts.split_first().expect("a probe has a kind");
    let lower = kind.text.to_lowercase();
    let Some((name, _, form)) = known(&kind.text) else {
        let Some((name, form)) = kernel::kind(&lower) else {
            return Err(Fault::Written(unknown_kind(kind, &lower)));
        };
        if options.kernel == Kernel::Refused {
            return Err(Fault::Written(unknown_kind(kind, name)));
        }
        let (point, events) = kernel::resolve((name, form), probe.span, rest, world)?;
        return Ok(Attach::Kernel { kind: name, point, events });
    };
    match *name {
        "begin" | "end" if !rest.is_empty() => Err(written(
            probe.span,
            format!("`{}` takes nothing after it", kind.text),
            format!("write {form}"),
        )),
        "begin" => Ok(Attach::InWeir(Trigger::Begin)),
        "end" => Ok(Attach::InWeir(Trigger::End)),
        "interval" => interval("interval", probe.span, rest, form),
        "self" | "test" | "bench" => asked(name, probe.span, rest, form),
        "uprobe" => {
            let rest = &with_program(rest, world);
            match place(rest)? {
                Some((binary, place)) => places(probe.span, &binary, &place, world),
                None => functions("uprobe", probe.span, rest, form, world).map(Attach::Functions),
            }
        }
        "uretprobe" => {
            let rest = &with_program(rest, world);
            functions("uretprobe", probe.span, rest, form, world).map(Attach::Returns)
        }
        "usdt" => statics(Some(StaticKind::Usdt), probe.span, &with_program(rest, world), form, world),
        "lttng" => statics(Some(StaticKind::Lttng), probe.span, &with_program(rest, world), form, world),
        _ => statics(None, probe.span, &with_program(rest, world), form, world),
    }
}

/// As bpftrace has it where a process is known: a binary that is left out (`usdt:NAME`) or empty (`usdt::PROVIDER:NAME`) is
/// the program of that process.
fn with_program(rest: &[Name], world: &dyn World) -> Vec<Name> {
    let mut parts = rest.to_vec();
    let is_left_out = matches!(rest, [name] if !name.text.contains('/'));
    let is_empty = rest.len() > 1 && rest[0].text.is_empty();
    if (is_left_out || is_empty)
        && let Some(program) = world.program()
    {
        let name = Name { text: program, span: rest[0].span };
        if is_empty { parts[0] = name } else { parts.insert(0, name) }
    }
    parts
}

/// `probe` as weir prints it for an attach point that is no function.
pub(crate) fn display(probe: &Probe, attach: &Attach) -> String {
    match attach {
        Attach::InWeir(Trigger::Begin) => "BEGIN".to_string(),
        Attach::InWeir(Trigger::End) => "END".to_string(),
        _ => {
            let mut parts: Vec<&str> = probe.parts.iter().map(|part| part.text.as_str()).collect();
            // `profile`, also where `p` is written.
            match attach {
                Attach::Kernel { kind, .. } => parts[0] = kind,
                Attach::InWeir(Trigger::Interval { .. }) => parts[0] = "interval",
                _ => {}
            }
            parts.join(":")
        }
    }
}

/// `kind`: as it is written, also `profile`.
pub(crate) fn interval(kind: &str, span: Span, rest: &[Name], form: &str) -> Result<Attach, Fault> {
    let (unit, count) = match rest {
        [short] => (None, short),
        [unit, count] => (Some(unit), count),
        _ => {
            return Err(written(
                span,
                format!("`{kind}` needs a unit and a number"),
                format!("write {form}"),
            ));
        }
    };
    let number = number_value(&count.text)
        .map_err(|(message, hint)| written(count.span, message, hint.to_string()))?;
    let Some(unit) = unit else {
        if count.text.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
            let message = format!("`{kind}:{}` has no unit", count.text);
            return Err(written(count.span, message, format!("write {form}")));
        }
        return period(count.span, Some(number));
    };
    let period_ns = match unit.text.as_str() {
        "s" => number.checked_mul(1_000_000_000),
        "ms" => number.checked_mul(1_000_000),
        "us" => number.checked_mul(1_000),
        "hz" => 1_000_000_000u64.checked_div(number),
        other => {
            let message = format!("`{}` is no unit of time", other.escape_debug());
            return Err(written(unit.span, message, "units are `s`, `ms`, `us` and `hz`".to_string()));
        }
    };
    period(count.span, period_ns)
}

/// `period_ns` is None where it does not fit or is infinite.
fn period(span: Span, period_ns: Option<u64>) -> Result<Attach, Fault> {
    match period_ns {
        Some(period_ns) if period_ns >= limits::INTERVAL_PERIOD_NS_MIN => {
            Ok(Attach::InWeir(Trigger::Interval { period_ns }))
        }
        _ => {
            let least = limits::INTERVAL_PERIOD_NS_MIN;
            let hint = format!("the shortest period is {least} ns, the longest 584 years");
            Err(written(span, "the interval is too short or too long".to_string(), hint))
        }
    }
}

/// What runs when weir is asked for it.
fn asked(kind: &str, span: Span, rest: &[Name], form: &str) -> Result<Attach, Fault> {
    let by = match (kind, rest) {
        ("self", [trigger, signal]) if trigger.text == "signal" => match signal.text.as_str() {
            "SIGUSR1" => Asked::Signal,
            other => {
                let message = format!("{} is not a supported signal", other.escape_debug());
                return Err(written(signal.span, message, format!("write {form}")));
            }
        },
        ("test", [name]) if !name.text.is_empty() => Asked::Test,
        ("bench", [name]) if !name.text.is_empty() => Asked::Bench,
        _ => {
            return Err(written(
                span,
                format!("the `{kind}` probe is not complete"),
                format!("write {form}"),
            ));
        }
    };
    Ok(Attach::InWeir(Trigger::Asked { by }))
}

/// The language that the attach point of a function names.
pub(crate) fn language(probe: &Probe) -> Option<&str> {
    let [_, _, language, _] = &probe.parts[..] else { return None };
    is_language(&language.text).then_some(&language.text)
}

fn functions(
    kind: &str,
    span: Span,
    rest: &[Name],
    form: &str,
    world: &dyn World,
) -> Result<Vec<FoundFunction>, Fault> {
    let (binary, function, is_demangled) = match rest {
        [binary, function] => (binary, function, false),
        [binary, language, function] if is_language(&language.text) => (binary, function, true),
        _ => {
            return Err(written(
                span,
                format!("`{kind}` needs a binary and a function"),
                format!("write {form}"),
            ));
        }
    };
    if binary.text.is_empty() || function.text.is_empty() {
        let message = format!("`{kind}` needs a binary and a function");
        return Err(written(span, message, format!("write {form}")));
    }
    if is_demangled {
        return world.demangled_functions(&binary.text, &function.text).map_err(|error| missing(span, error));
    }
    // Only a `uretprobe` comes here with such a place.
    if function.text.contains('+') || function.text.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("`{kind}` needs a function: an instruction inside one does not return");
        return Err(written(function.span, message, format!("write {form}")));
    }
    world.functions(&binary.text, &function.text).map_err(|error| missing(span, error))
}

/// The binary and the instruction that the parts behind `uprobe` name, if they name one.
fn place(rest: &[Name]) -> Result<Option<(String, PlaceSpec)>, Fault> {
    let (binary, file, line) = match rest {
        [binary, function] => match binary.text.rsplit_once('@') {
            Some((binary, file)) => (binary, file, function),
            None => return Ok(instruction(function)?.map(|place| (binary.text.clone(), place))),
        },
        [binary, file, column] if binary.text.contains('@') && !is_language(&file.text) => {
            let message = "not supported by weir yet: a column of a source line".to_string();
            return Err(written(column.span, message, "leave it out".to_string()));
        }
        [binary, file, line] if !is_language(&file.text) => (binary.text.as_str(), file.text.as_str(), line),
        _ => return Ok(None),
    };
    if binary.is_empty() || file.is_empty() {
        let hint = "write `uprobe:BINARY@FILE:LINE`, such as `uprobe:./app@main.c:12`".to_string();
        return Err(written(line.span, "a source line needs a binary and a file".to_string(), hint));
    }
    let number = number_of(line)?;
    Ok(Some((binary.to_string(), PlaceSpec::Line { file: file.to_string(), line: number })))
}

/// Whether an attach point, or a part of it, has a wildcard.
pub(crate) fn is_pattern(written: &str) -> bool {
    written.contains(['*', '?', '['])
}

/// What it is at is named by a pattern.
pub(crate) fn is_of_pattern(probe: &Probe) -> bool {
    probe.parts.last().is_some_and(|part| is_pattern(&part.text))
}

/// `function+offset` or an address.
fn instruction(part: &Name) -> Result<Option<PlaceSpec>, Fault> {
    if part.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Some(PlaceSpec::Address(number_of(part)?)));
    }
    let Some((function, offset)) = part.text.split_once('+') else { return Ok(None) };
    if function.is_empty() || is_pattern(function) {
        let message = "an offset needs the name of one function".to_string();
        return Err(written(part.span, message, "write `FUNCTION+OFFSET`, such as `malloc+4`".to_string()));
    }
    let offset = number_of(&Name { text: offset.to_string(), span: part.span })?;
    Ok(Some(PlaceSpec::Offset { function: function.to_string(), offset }))
}

pub(crate) fn number_of(part: &Name) -> Result<u64, Fault> {
    number_value(&part.text).map_err(|(message, hint)| written(part.span, message, hint.to_string()))
}

fn places(span: Span, binary: &str, place: &PlaceSpec, world: &dyn World) -> Result<Attach, Fault> {
    world.places(binary, place).map(Attach::Places).map_err(|error| missing(span, error))
}

fn statics(
    kind: Option<StaticKind>,
    span: Span,
    rest: &[Name],
    form: &str,
    world: &dyn World,
) -> Result<Attach, Fault> {
    let called = kind.map_or("static", StaticKind::name);
    let (binary, provider, name) = match rest {
        [binary, name] => (binary, None, name),
        [binary, provider, name] => (binary, Some(provider.text.as_str()), name),
        _ => {
            let message = format!("`{called}` needs a binary and a name");
            return Err(written(span, message, format!("write {form}")));
        }
    };
    if rest.iter().any(|part| part.text.is_empty()) {
        let message = format!("a part of the `{called}` probe is empty");
        return Err(written(span, message, format!("write {form}")));
    }
    let found = world.static_probes(kind, &binary.text, provider, &name.text);
    found.map(Attach::Statics).map_err(|error| missing(span, error))
}

pub(crate) fn missing(span: Span, error: WorldError) -> Fault {
    let mut diagnostic = Diagnostic::error(span, error.message);
    diagnostic.hint = error.hint;
    Fault::Missing(diagnostic)
}

fn unknown_kind(kind: &Name, lower: &str) -> Diagnostic {
    let unsupported =
        unsupported::find(Kind::Probe, &kind.text).or_else(|| unsupported::find(Kind::Probe, lower));
    if let Some(row) = unsupported {
        return Diagnostic::error(kind.span, row.message()).with_hint(row.hint);
    }
    let shown: String = kind.text.chars().take(40).collect();
    let message = format!("unknown kind of probe `{}`", shown.escape_debug());
    let hint = match nearest(&kind.text, KINDS.iter().map(|(name, _, _)| *name)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "probes are `BEGIN`, `END`, `interval:…`, `uprobe:BINARY:FUNCTION`, `uretprobe:BINARY:FUNCTION` and \
                 `usdt:BINARY:NAME`"
            .to_string(),
    };
    Diagnostic::error(kind.span, message).with_hint(hint)
}

/// The part with `$1` and so on replaced.
fn substitute(part: &Name, params: &[String]) -> Result<Name, Fault> {
    let mut text = String::new();
    let mut rest = part.text.as_str();
    while let Some(start) = rest.find('$') {
        let digits = rest[start + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let (before, after) = rest.split_at(start);
        text.push_str(before);
        if digits == 0 {
            text.push('$');
            rest = &after[1..];
            continue;
        }
        let name = &after[..1 + digits];
        let value =
            name[1..].parse::<usize>().ok().and_then(|n| n.checked_sub(1)).and_then(|n| params.get(n));
        let Some(value) = value else {
            let message = format!("there is no parameter `{name}`: {} given", params.len());
            return Err(written(
                part.span,
                message,
                "parameters follow the script on the command line".to_string(),
            ));
        };
        text.push_str(value);
        rest = &after[1 + digits..];
    }
    text.push_str(rest);
    Ok(Name { text, span: part.span })
}

pub(crate) fn written(span: Span, message: String, hint: String) -> Fault {
    Fault::Written(Diagnostic::error(span, message).with_hint(hint))
}

/// Leaves out functions that were found in the C library where the script names the library that had them before (`libpthread`), if it names
/// them in the C library as well: a script for either place means each call once.
pub(crate) fn leave_out_moved(clauses: &mut [Vec<(usize, Attach)>]) {
    let mut named = HashSet::new();
    for (_, attach) in clauses.iter().flatten() {
        let (Attach::Functions(found) | Attach::Returns(found)) = attach else { continue };
        let returns = matches!(attach, Attach::Returns(_));
        let directly = found.iter().filter(|function| !function.is_moved);
        named.extend(directly.map(|function| (returns, function.binary.clone(), function.name.clone())));
    }
    for clause in clauses {
        clause.retain_mut(|(_, attach)| {
            let returns = matches!(attach, Attach::Returns(_));
            let (Attach::Functions(found) | Attach::Returns(found)) = attach else { return true };
            found.retain(|function| {
                let place = (returns, function.binary.clone(), function.name.clone());
                !function.is_moved || !named.contains(&place)
            });
            !found.is_empty()
        });
    }
}

/// The binaries that the probes of a clause are in.
pub(crate) fn binaries(attached: &[(usize, Attach)]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (_, attach) in attached {
        match attach {
            Attach::Functions(found) | Attach::Returns(found) => {
                all.extend(found.iter().map(|function| function.binary.clone()));
            }
            Attach::Places(found) => all.extend(found.iter().map(|place| place.binary.clone())),
            Attach::Statics(found) => all.extend(found.iter().map(|place| place.binary.clone())),
            Attach::InWeir(_) | Attach::Kernel { .. } => {}
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}
