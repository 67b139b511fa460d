//! `args.name`: fields of events by their names.
//!
//! A function's are its parameters, as debug information names them; a static probe's are what its notes name. They are
//! asked of the world for the clauses that name one, when all clauses were read once, and known from the next round on.
//!
//! A field of several probes is read where each of them has it. Functions of one clause are one program, so that they must
//! have it in the same place. An address is an integer: `str(args.path)` reads what is there.

use std::collections::BTreeMap;

use weir_event::ctype::{CType, CTypes, TypeId};
use weir_event::{Type, Word, schema};
use weir_ir::{FoundArgument, FoundField, World};
use weir_source::{Span, nearest};

use crate::attach::Attach;
use crate::check::Checker;
use crate::check::argument::{Used, full_name};
use crate::types::{self, Ty};

const NO_NAMES: &str = "build it with -g, or install its debug symbols";
const NO_PARAMETERS: &str = "debug information says that it takes none";
const INSIDE: &str =
    "debug information has them for a function's entry, and this is an instruction inside of it";

/// What one place of a clause has.
pub(crate) struct Event {
    /// As `probe` prints it.
    probe: String,
    is_function: bool,
    fields: Vec<FoundField>,
    /// Why it has no fields.
    why: String,
    /// C types of the fields, those that are known.
    types: Vec<(String, TypeId)>,
}

impl Checker<'_> {
    /// Asks the world for what clauses have asked for.
    pub(super) fn ask(&mut self, attached: &[Vec<(usize, Attach)>]) {
        for clause in std::mem::take(&mut self.asked) {
            let (world, types) = (self.world, &mut self.types);
            let events =
                attached[clause].iter().flat_map(|(_, attach)| events_of(attach, world, types)).collect();
            self.events.insert(clause, events);
            self.changed = true;
        }
    }

    /// The type of `args.name`, or an error where a probe of the clause does not have it.
    pub(super) fn field(&mut self, name: &str, span: Span) -> Ty {
        if !self.knows_fields(span) {
            return Ty::Unknown;
        }
        self.used.entry(self.clause).or_default().fields.insert(name.to_string());
        let events = &self.events[&self.clause];
        let bytes = types::string_bytes(u64::from(self.settings.max_strlen) - 1);
        match type_of(events, name, bytes) {
            Ok(Ty::Value(ty @ Type::Int { .. })) => {
                self.widths.insert(span, vec![width(events, name)]);
                let named = self.named_type(&self.events[&self.clause], name);
                self.field_types.extend(named.clone().map(|ty| ((span.start, name.to_string()), ty)));
                Ty::Value(named.unwrap_or(ty))
            }
            Ok(ty) => ty,
            Err((message, hint)) => {
                self.error(span, &message, &hint);
                Ty::Unknown
            }
        }
    }

    /// `args` alone: a record of all fields.
    pub(super) fn all_fields(&mut self, span: Span) -> Ty {
        if !self.knows_fields(span) {
            return Ty::Unknown;
        }
        let names = |event: &Event| event.fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>();
        let Some((first, rest)) = self.events[&self.clause].split_first() else { return Ty::Unknown };
        let fault = match rest.iter().find(|event| names(event) != names(first)) {
            Some(other) => Some((
                format!("`args` of `{}` is another than that of `{}`", other.probe, first.probe),
                "write a clause for each".to_string(),
            )),
            None if first.fields.is_empty() => first.argument("").err(),
            None => None,
        };
        let names = names(first);
        if let Some((message, hint)) = fault {
            self.error(span, &message, &hint);
            return Ty::Unknown;
        }
        let (mut parts, mut widths) = (Vec::new(), Vec::new());
        for name in &names {
            match self.field(name, span) {
                Ty::Value(ty) => {
                    widths.push(self.widths.remove(&span).map_or(8 * ty.bytes(), |width| width[0]));
                    parts.push((name.clone(), ty));
                }
                other => return other,
            }
        }
        self.widths.insert(span, widths);
        self.whole_args.insert(span.start, names);
        self.tuple_of(Type::Record(parts), span)
    }

    /// Whether the fields of the clause's events are known. Else they are asked for, or there is an error.
    fn knows_fields(&mut self, span: Span) -> bool {
        self.in_target("args", span);
        if self.outside.is_some() || !self.is_at_entry("args", span) {
            return false;
        }
        let is_known = self.events.contains_key(&self.clause);
        if !is_known && !self.asked.contains(&self.clause) {
            self.asked.push(self.clause);
        }
        is_known
    }

    /// The pointer or the enumeration that the field is, where it is of the same type at all events.
    fn named_type(&self, events: &[Event], name: &str) -> Option<Type> {
        let of = |event: &Event| {
            let (_, id) = event.types.iter().find(|(known, _)| known == name)?;
            match self.types.get(*id) {
                CType::Pointer(to) => Some(Type::Pointer(*to)),
                CType::Enum(_) => Some(Type::Word(Word::Enum(*id))),
                _ => None,
            }
        };
        let first = of(events.first()?)?;
        events.iter().all(|event| of(event).as_ref() == Some(&first)).then_some(first)
    }
}

/// Bits of a field, where it has the most.
fn width(events: &[Event], name: &str) -> u32 {
    let bytes = events.iter().filter_map(|event| event.argument(name).ok()).map(|argument| argument.bytes);
    8 * bytes.max().map_or(types::NUMBER_BYTES, u32::from)
}

/// The type of a field that all of the events have, or message and hint.
/// `bytes`: of a text with a length.
fn type_of(events: &[Event], name: &str, bytes: u32) -> Result<Ty, (String, String)> {
    let mut first: Option<(&Event, &FoundArgument)> = None;
    let is_text = |event: &Event| event.fields.iter().any(|field| field.name == name && is_counted(field));
    let mut is_signed = false;
    for event in events {
        let argument = event.argument(name)?;
        is_signed |= argument.signed;
        let Some((other, known)) = first else {
            first = Some((event, argument));
            continue;
        };
        let are_functions = event.is_function && other.is_function;
        let differ = known.is_float != argument.is_float || is_text(event) != is_text(other);
        if differ || are_functions && !is_same(known, argument) {
            let (probe, other) = (&event.probe, &other.probe);
            let message = format!("`args.{name}` of `{probe}` is another than that of `{other}`");
            return Err((message, "write a clause for each".to_string()));
        }
    }
    Ok(match first {
        Some((_, argument)) if argument.is_float => Ty::Value(Type::Double),
        Some((event, _)) if is_text(event) => Ty::Value(Type::Str { bytes }),
        Some(_) => Ty::Value(Type::Int { signed: is_signed }),
        None => Ty::Unknown,
    })
}

impl Event {
    /// How a field is read, or message and hint.
    fn argument(&self, name: &str) -> Result<&FoundArgument, (String, String)> {
        let Event { probe, is_function, fields, why, .. } = self;
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            if fields.is_empty() {
                let arguments = if *is_function { "`arg0` to `arg5`" } else { "`arg0` and further" };
                let hint = format!("{why}; without names they are {arguments}");
                return Err((format!("the arguments of `{probe}` have no names"), hint));
            }
            let names = || fields.iter().map(|field| field.name.as_str());
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `args.{near}`?"),
                None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err((format!("`{probe}` has no field `{name}`"), hint));
        };
        match &field.argument.place {
            Ok(_) => Ok(&field.argument),
            Err(reason) => {
                let message = format!("`args.{name}` of `{probe}` cannot be read: {reason}");
                Err((
                    message,
                    "integers, addresses, enumerations, float and double that the function is given are read"
                        .to_string(),
                ))
            }
        }
    }
}

fn events_of(attach: &Attach, world: &dyn World, types: &mut CTypes) -> Vec<Event> {
    match attach {
        Attach::Functions(found) => {
            let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
            let binary = found.first().map_or("", |function| function.binary.as_str());
            let prototypes = world.prototypes(binary, &names);
            let mut event = |(name, prototype): (&&str, Option<weir_ir::FoundPrototype>)| Event {
                probe: format!("uprobe:{binary}:{name}"),
                is_function: true,
                why: match prototype {
                    Some(_) => NO_PARAMETERS.to_string(),
                    None => world.unnamed_parameters(binary, name).unwrap_or_else(|| NO_NAMES.to_string()),
                },
                fields: prototype.map_or_else(Vec::new, |prototype| prototype.parameters),
                types: world.parameter_types(binary, name, types),
            };
            names.iter().zip(prototypes).map(&mut event).collect()
        }
        Attach::Places(found) => {
            let event = |place: &weir_ir::FoundPlace| Event {
                probe: format!("uprobe:{}:{}", place.binary, place.name),
                is_function: true,
                fields: Vec::new(),
                why: INSIDE.to_string(),
                types: Vec::new(),
            };
            found.iter().map(event).collect()
        }
        Attach::Statics(found) => {
            let event = |place: &weir_ir::FoundStatic| Event {
                probe: full_name(place),
                is_function: false,
                fields: place.fields.clone(),
                why: "its notes name none".to_string(),
                types: Vec::new(),
            };
            found.iter().map(event).collect()
        }
        Attach::InWeir(_) | Attach::Returns(_) | Attach::Kernel { .. } => Vec::new(),
    }
}

/// How the fields that a clause uses are read at its functions: at all of them in the same way.
pub(super) fn of_functions(events: &[Event], used: &Used) -> BTreeMap<String, FoundArgument> {
    let first = events.iter().find(|event| event.is_function);
    first.map_or_else(BTreeMap::new, |event| used.of(&event.fields))
}

/// It is a text, and its length is known beside it.
fn is_counted(field: &FoundField) -> bool {
    field.ty == schema::Type::Str && field.count.is_some()
}

/// Whether both are read in the same way.
fn is_same(a: &FoundArgument, b: &FoundArgument) -> bool {
    (a.bytes, a.signed, a.is_float, &a.place, &a.steps) == (b.bytes, b.signed, b.is_float, &b.place, &b.steps)
}
