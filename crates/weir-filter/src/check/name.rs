//! Names: fields, their members and elements, contexts.

use weir_event::schema::{Field, Form, Type};
use weir_ir::Builtin;
use weir_source::{Span, nearest};

use super::{Check, Kind, Place, Text};
use crate::ast::{NodeId, Path, Step, StepKind, path_text};

/// Contexts by their names in LTTng's dialect and in weir's, where they are names as fields are.
const CONTEXTS: [(&str, &str, Kind); 5] = [
    ("vpid", "pid", number(Builtin::Pid)),
    ("vtid", "tid", number(Builtin::Tid)),
    ("cpu_id", "cpu", number(Builtin::Cpu)),
    ("vuid", "uid", number(Builtin::Uid)),
    ("procname", "procname", Kind::Str { from: Text::Comm }),
];

const fn number(builtin: Builtin) -> Kind {
    Kind::Int { signed: false, from: Some(Place::Builtin(builtin)) }
}

/// The largest index of a sequence: with it offsets stay far below where addresses wrap.
const INDEX_MAX: u64 = u32::MAX as u64;

/// Where a field, or a part of one, lies.
#[derive(Clone, Copy)]
enum At {
    Slot(u8),
    Memory { slot: u8, offset: u64, element: Option<u64> },
}

impl At {
    fn plus(self, bytes: u64) -> At {
        match self {
            At::Slot(slot) => At::Memory { slot, offset: bytes, element: None },
            At::Memory { slot, offset, element } => {
                At::Memory { slot, offset: offset.saturating_add(bytes), element }
            }
        }
    }

    fn place(self, bytes: u8, signed: bool) -> Place {
        match self {
            At::Slot(slot) => Place::Builtin(Builtin::Slot(slot)),
            At::Memory { slot, offset, element } => Place::Memory { slot, offset, bytes, signed, element },
        }
    }
}

impl<'a> Check<'a> {
    pub(super) fn field(&mut self, id: NodeId, path: &Path) -> Kind {
        let span = self.ast.node(id).span;
        let schema = self.schema;
        let Some(field) = schema.fields.iter().find(|field| field.name == path.name) else {
            return self.no_field(path, span);
        };
        let Some((ty, at)) = self.part(field, path, span) else { return Kind::Unknown };
        self.types[id.0 as usize] = Some(ty);
        if self.is_lttng() && !path.steps.is_empty() && ty.integer().is_none() {
            let message =
                format!("LTTng reads elements that are integers, and `{}` is none", path_text(path));
            return self.never_passes(span, &message, "`--dialect weir` reads others too");
        }
        if let Some((bytes, signed)) = ty.integer() {
            let from = Some(at.place(bytes, signed));
            return Kind::Int { signed: signed || self.is_lttng(), from };
        }
        match ty {
            Type::Array { element, count } if is_characters(field, path, element) => {
                Kind::Str { from: Text::Characters { slot: field.slot, count: Some(*count) } }
            }
            Type::Sequence { element } if is_characters(field, path, element) => {
                Kind::Str { from: Text::Characters { slot: field.slot, count: None } }
            }
            Type::Float { bytes } => Kind::Double { from: Some((at.place(*bytes, false), *bytes)) },
            Type::Str | Type::Text => {
                let from = match (ty, at) {
                    (Type::Text, At::Slot(slot)) => Text::Declared(slot),
                    _ => Text::At(at.place(8, false)),
                };
                Kind::Str { from }
            }
            Type::Struct { fields } => {
                let shown = path_text(path);
                let members: Vec<String> =
                    fields.iter().map(|(name, ..)| format!("`{shown}.{name}`")).collect();
                let hint = format!("it has {}", members.join(", "));
                self.fault_at(span, &format!("`{shown}` is a struct"), &hint)
            }
            _ => {
                let shown = path_text(path);
                let hint = format!("compare an element: `{shown}[0]`");
                self.fault_at(span, &format!("`{shown}` is an array or a sequence"), &hint)
            }
        }
    }

    /// The type of a part of a field and where it lies; what is wrong is told.
    fn part(&mut self, field: &'a Field, path: &Path, span: Span) -> Option<(&'a Type, At)> {
        let (mut ty, mut at) = (&field.ty, At::Slot(field.slot));
        if let Some(step) = path.steps.first().filter(|_| field.form.is_network()) {
            let message = format!(
                "not supported by weir yet: elements of `{}`, which are in network byte order",
                field.name
            );
            self.fault_at(step.span, &message, "scripts read them as bytes");
            return None;
        }
        for (number, step) in path.steps.iter().enumerate() {
            let whole = path_text(&Path { name: path.name.clone(), steps: path.steps[..number].to_vec() });
            if number > 0 && self.is_lttng() && matches!(step.kind, StepKind::Index(_)) {
                let message = "LTTng reads the first index alone, and this one means nothing".to_owned();
                self.warn(step.span, message, "leave it out");
                continue;
            }
            (ty, at) = match (&step.kind, ty) {
                (StepKind::Member(_), _) if self.is_lttng() => {
                    let message = "LTTng's filters read no members of structs";
                    self.never_passes(span, message, "`--dialect weir` does");
                    return None;
                }
                (StepKind::Member(name), Type::Struct { fields }) => {
                    let Some((_, offset, ty)) = fields.iter().find(|(known, ..)| known == name) else {
                        let names = fields.iter().map(|(name, ..)| name.as_str());
                        let hint = names_hint(name, names.collect());
                        self.fault_at(step.span, &format!("`{whole}` has no member `{name}`"), &hint);
                        return None;
                    };
                    (ty, at.plus(u64::from(*offset)))
                }
                (StepKind::Index(index), Type::Array { element, count }) => {
                    (&**element, self.element(&whole, step, *index, Some(*count), element, at)?)
                }
                (StepKind::Index(index), Type::Sequence { element }) => {
                    (&**element, self.element(&whole, step, *index, None, element, at)?)
                }
                (StepKind::Member(_), _) => {
                    self.fault_at(step.span, &format!("`{whole}` has no members"), "only structs have");
                    return None;
                }
                (StepKind::Index(_), _) => {
                    let message = format!("`{whole}` has no elements");
                    self.fault_at(step.span, &message, "only arrays and sequences have");
                    return None;
                }
            };
        }
        Some((ty, at))
    }

    /// Where the element of an array, or of a sequence whose `count` only the event says, lies.
    fn element(
        &mut self,
        whole: &str,
        step: &Step,
        index: u64,
        count: Option<u32>,
        element: &Type,
        at: At,
    ) -> Option<At> {
        if let Some(count) = count.filter(|count| index >= u64::from(*count)) {
            let message = format!("`{whole}` has {count} elements, and none at {index}");
            if self.is_lttng() {
                self.never_passes(step.span, &message, "the first has the index 0");
            } else {
                self.fault_at(step.span, &message, "the first has the index 0");
            }
            return None;
        }
        if index > INDEX_MAX {
            let message = format!("the index is too large: {index}, the limit is {INDEX_MAX}");
            self.fault_at(step.span, &message, "the first element has the index 0");
            return None;
        }
        let offset = bytes_of(element).and_then(|bytes| index.checked_mul(bytes));
        match (count, at, offset) {
            (Some(_), at, Some(offset)) => Some(at.plus(offset)),
            (None, At::Slot(slot), Some(offset)) => Some(At::Memory { slot, offset, element: Some(index) }),
            _ => {
                let message = format!("not supported by weir yet: elements of `{whole}`");
                self.fault_at(step.span, &message, "elements are numbers, strings, and arrays of them");
                None
            }
        }
    }

    fn no_field(&mut self, path: &Path, span: Span) -> Kind {
        let name = path.name.as_str();
        if !self.is_lttng()
            && path.steps.is_empty()
            && let Some((_, _, kind)) = CONTEXTS.iter().find(|(_, known, _)| *known == name)
        {
            return *kind;
        }
        let mut names: Vec<&str> = self.schema.fields.iter().map(|field| field.name.as_str()).collect();
        if !self.is_lttng() {
            names.extend(CONTEXTS.iter().map(|(_, name, _)| *name));
        }
        let hint = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => names_hint(name, self.schema.fields.iter().map(|field| field.name.as_str()).collect()),
        };
        self.missing(span, &format!("the event has no field `{name}`"), &hint)
    }

    pub(super) fn context(&mut self, name: &str, span: Span) -> Kind {
        if !self.is_lttng() {
            let message = format!("`$ctx.{name}` is of LTTng's dialect");
            let names: Vec<String> = CONTEXTS.iter().map(|(_, name, _)| format!("`{name}`")).collect();
            return self.fault_at(span, &message, &format!("contexts are {}", names.join(", ")));
        }
        match CONTEXTS.iter().find(|(known, ..)| *known == name) {
            Some((_, _, Kind::Int { from, .. })) => return Kind::Int { signed: true, from: *from },
            Some((_, _, kind)) => return *kind,
            None => {}
        }
        let names: Vec<String> = CONTEXTS.iter().map(|(name, ..)| format!("`$ctx.{name}`")).collect();
        let hint = match nearest(name, CONTEXTS.iter().map(|(known, ..)| *known)) {
            Some(near) => format!("did you mean `$ctx.{near}`?"),
            None => format!("there are {}", names.join(", ")),
        };
        self.missing(span, &format!("there is no context `{name}`"), &hint)
    }

    fn missing(&mut self, span: Span, message: &str, hint: &str) -> Kind {
        if self.is_lttng() {
            self.never_passes(span, message, hint)
        } else {
            self.fault_at(span, message, hint)
        }
    }
}

/// The whole of a field whose elements are characters.
fn is_characters(field: &Field, path: &Path, element: &Type) -> bool {
    let is_byte = matches!(element, Type::Int { bytes: 1, .. });
    path.steps.is_empty() && is_byte && field.form == Form::Text
}

/// Bytes from one element to the next; none where the schema does not say.
fn bytes_of(ty: &Type) -> Option<u64> {
    match ty {
        Type::Array { element, count } => bytes_of(element)?.checked_mul((*count).into()),
        Type::Str | Type::Text => Some(8),
        Type::Float { bytes } => Some(u64::from(*bytes)),
        other => other.integer().map(|(bytes, _)| u64::from(bytes)),
    }
}

fn names_hint(name: &str, names: Vec<&str>) -> String {
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has no fields".to_owned(),
        None => format!("it has {}", names.join(", ")),
    }
}
