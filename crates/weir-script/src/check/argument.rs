//! `arg0` to `arg11`: which a clause's probes have, of what type, and how they are read.
//!
//! A function has six, 64-bit and unsigned. A static probe has what its note says, at each of its places in registers
//! or memory of its own: a clause becomes one function for each way in which the arguments that it uses lie
//! ([`Shapes`]). Floating-point ones are doubles, those of 4 bytes widened. Where the places differ in sign, the argument is signed: a narrower unsigned value fits.

use std::collections::{BTreeMap, BTreeSet};

use weir_event::{SiteName, Type};
use weir_ir::{Builtin, FoundArgument, FoundField, FoundStatic, StaticSpec, Trigger};
use weir_source::{Diagnostic, Span};

use crate::attach::Attach;
use crate::attach::is_pattern;
use crate::builtin;
use crate::check::{Checker, Target};
use crate::types::{Ty, length_of};

/// What the probes of one clause have of arguments.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    has_functions: bool,
    /// Each different list of arguments, with a probe that has it.
    lists: Vec<(String, Vec<FoundArgument>)>,
}

impl Arguments {
    pub(crate) fn of(attached: &[(usize, Attach)]) -> Arguments {
        let mut out = Arguments::default();
        for (_, attach) in attached {
            match attach {
                Attach::Functions(_) | Attach::Places(_) | Attach::Returns(_) => out.has_functions = true,
                Attach::Statics(found) => found.iter().for_each(|place| out.add(place)),
                Attach::InWeir(_) | Attach::Kernel { .. } => {}
            }
        }
        out
    }

    fn add(&mut self, place: &FoundStatic) {
        if !self.lists.iter().any(|(_, arguments)| *arguments == place.arguments) {
            self.lists.push((full_name(place), place.arguments.clone()));
        }
    }
}

impl Checker<'_> {
    /// The type of `argN`, or an error where a probe of the clause does not have it.
    pub(super) fn argument(&mut self, row: &builtin::Variable, index: u8, span: Span) -> Ty {
        self.used.entry(self.clause).or_default().arguments.insert(index);
        if !self.is_at_entry(row.name, span) {
            return Ty::Unknown;
        }
        if self.arguments.has_functions && index >= weir_ir::limits::ARGUMENTS {
            let message = format!("not supported by weir yet: `{}` of a function", row.name);
            self.error(span, &message, "arguments on the stack are not read; there are `arg0` to `arg5`");
            return Ty::Unknown;
        }
        if !self.has_kernel_argument(row.name, span) {
            return Ty::Unknown;
        }
        let mut is_signed = false;
        let (mut is_float, mut bytes) = (None, 0);
        for (probe, arguments) in self.arguments.lists.clone() {
            match arguments.get(usize::from(index)) {
                None => {
                    let count = arguments.len();
                    let message = format!("`{probe}` has no `{}`", row.name);
                    let hint = match count {
                        0 => "it has no arguments".to_string(),
                        1 => "it has one: `arg0`".to_string(),
                        _ => format!("it has {count}: `arg0` to `arg{}`", count - 1),
                    };
                    self.error(span, &message, &hint);
                    return Ty::Unknown;
                }
                Some(FoundArgument { place: Err(reason), text, .. }) => {
                    let message = format!("`{}` of `{probe}` cannot be read: {reason}", row.name);
                    self.error(span, &message, &format!("the file has it as `{text}`"));
                    return Ty::Unknown;
                }
                Some(argument) if is_float.is_some_and(|others| others != argument.is_float) => {
                    let message =
                        format!("`{}` of `{probe}` differs in its kind from that of other places", row.name);
                    self.error(span, &message, "it is floating-point at some alone; write a clause for each");
                    return Ty::Unknown;
                }
                Some(argument) => {
                    is_signed |= argument.signed;
                    bytes = bytes.max(argument.bytes);
                    is_float = Some(argument.is_float);
                }
            }
        }
        if is_float == Some(true) {
            if self.arguments.has_functions {
                let message = format!(
                    "`{}` is floating-point at a static probe, and an integer of functions",
                    row.name
                );
                self.error(span, &message, "write a clause for each");
                return Ty::Unknown;
            }
            return Ty::Value(Type::Double);
        }
        if !self.arguments.has_functions && bytes > 0 {
            self.widths.insert(span, vec![8 * u32::from(bytes)]);
        }
        Ty::Value(Type::Int { signed: is_signed })
    }
}

impl Checker<'_> {
    /// The type of `fargN`.
    pub(super) fn float_argument(&mut self, row: &builtin::Variable, span: Span) -> Ty {
        if !self.is_at_entry(row.name, span) {
            return Ty::Unknown;
        }
        if let Some((probe, _)) = self.arguments.lists.first() {
            let message = format!("`{}` is of functions, and `{probe}` is none", row.name);
            let hint = "the arguments of a static probe are `arg0` and further, as its note lists them";
            self.error(span, &message, hint);
            return Ty::Unknown;
        }
        Ty::Value(row.ty.clone())
    }

    /// An error, and false, if the clause also runs where arguments are gone.
    pub(super) fn is_at_entry(&mut self, name: &str, span: Span) -> bool {
        let Some((probe, display)) = self.at_return.clone() else { return true };
        let message = format!("`{name}` is of a call's beginning, but `{display}` runs at its end");
        let diagnostic = Diagnostic::error(span, message).with_label(probe, "runs at the return");
        let what = if name == "args" { "args.name" } else { name };
        let hint = format!("keep it in the `uprobe` of the function: `@arg[tid] = {what}`");
        self.push(diagnostic.with_hint(&hint));
        false
    }
}

/// Number `n` of the builtin `argN`.
pub(crate) fn index(row: &builtin::Variable) -> Option<u8> {
    match row.ir {
        Builtin::Arg(index) => Some(index),
        _ => None,
    }
}

/// The arguments and fields that a clause uses.
#[derive(Clone, Default)]
pub(crate) struct Used {
    pub(super) arguments: BTreeSet<u8>,
    pub(super) fields: BTreeSet<String>,
}

impl Used {
    /// How those of the fields that are used are read.
    pub(super) fn of(&self, fields: &[FoundField]) -> BTreeMap<String, FoundArgument> {
        let wanted = |name: &String| fields.iter().find(|field| field.name == *name);
        let parts = |field: &FoundField| {
            let length = field.count.clone().map(|length| (length_of(&field.name), length));
            [Some((field.name.clone(), field.argument.clone())), length].into_iter().flatten()
        };
        self.fields.iter().filter_map(wanted).flat_map(parts).collect()
    }
}

/// The static probes of one clause, those together that one function can serve.
#[derive(Default)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
}

struct Shape {
    arguments: BTreeMap<u8, FoundArgument>,
    fields: BTreeMap<String, FoundArgument>,
    /// Attach points, as they were written.
    written: Vec<String>,
    sites: Vec<StaticSpec>,
}

impl Shapes {
    /// Adds a place that the attach point `written` found; gives it an attach cookie.
    pub(crate) fn add(&mut self, written: &str, place: FoundStatic, used: &Used, sites: &mut Vec<SiteName>) {
        let cookie = sites.len() as u64;
        sites.push(SiteName { probe: full_name(&place), func: place.function.clone() });
        let wanted = |index: &u8| Some((*index, place.arguments.get(usize::from(*index))?.clone()));
        let mut arguments: BTreeMap<u8, FoundArgument> = used.arguments.iter().filter_map(wanted).collect();
        let mut fields = used.of(&place.fields);
        // Only how it is read matters.
        arguments.values_mut().chain(fields.values_mut()).for_each(|argument| argument.text.clear());
        let is_same = |shape: &Shape| shape.arguments == arguments && shape.fields == fields;
        let shape = match self.shapes.iter().position(is_same) {
            Some(known) => &mut self.shapes[known],
            None => {
                self.shapes.push(Shape { arguments, fields, written: Vec::new(), sites: Vec::new() });
                self.shapes.last_mut().expect("it was pushed just now")
            }
        };
        if shape.written.iter().all(|other| other != written) {
            shape.written.push(written.to_string());
        }
        let FoundStatic { binary, provider, name, address, semaphore, .. } = place;
        let by_pattern = is_pattern(written);
        shape.sites.push(StaticSpec { binary, provider, name, address, semaphore, cookie, by_pattern });
    }

    pub(crate) fn targets(self) -> impl Iterator<Item = Target> {
        self.shapes.into_iter().map(|shape| Target {
            name: shape.written.join(","),
            trigger: Trigger::Usdt { sites: shape.sites },
            probe_site: None,
            arguments: shape.arguments,
            fields: shape.fields,
            kernel_fields: BTreeMap::new(),
            kernel_result: None,
            kernel_context: weir_event::ctype::CTypes::VOID,
        })
    }
}

/// As `probe` prints it.
pub(super) fn full_name(place: &FoundStatic) -> String {
    format!("{}:{}:{}:{}", place.kind.name(), place.binary, place.provider, place.name)
}
