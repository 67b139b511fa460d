//! Which events of traces are shown: those whose names are wanted, and that an event filter accepts.
//!
//! In: the classes of the traces, patterns of names and the filter's text. Out: a yes or no for each event. The filter is the one of
//! [`weir_filter`], compiled to machine code for each class of events; its fields are those of the event and of its contexts (a field before a
//! context of the same name), and `pid`, `tid` and `cpu` stand for `vpid`, `vtid` and `cpu_id` where a trace has these.
//!
//! A class that lacks a field that the filter names has no event that is shown; where all lack it, that is a fault. What a filter
//! asks of the moment at which it runs (samples, rates, contexts of the thread) is refused: a trace does not know it.

use std::collections::HashMap;
use std::fmt;

use anyhow::anyhow;
use weir_event::schema::{Field, Form, Schema, Type};
use weir_filter::Dialect;
use weir_filter::usage::{self, FieldUse};
use weir_ir::{Builtin, Module, Op};
use weir_rt::executable::Frame;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::Segment;
use weir_run::object;
use weir_source::{Diagnostic, SourceFile};
use weir_symbols::pattern;
use weir_trace::class::{EventClass, FieldClass, Scope, StreamClass, Struct, TraceClass};
use weir_trace::{Event, Reader, Values};
use weir_verifier::Limits;

use crate::args::view::View;
use crate::failure::Failure;
use crate::filter;
use crate::view::values::{skip, text, up_to_nul};

/// Where fields are looked for, the nearest to the event first.
const SCOPES: [Scope; 4] =
    [Scope::Payload, Scope::SpecificContext, Scope::CommonContext, Scope::PacketContext];

/// What contexts are called in weir's own filters.
const ALIASES: [(&str, &str); 3] = [("pid", "vpid"), ("tid", "vtid"), ("cpu", "cpu_id")];

/// Which events are shown.
#[derive(Debug)]
pub(super) struct Wanted {
    /// By class, which stays where it is. What is not there is not shown.
    classes: HashMap<*const EventClass, Option<Program>>,
}

/// A filter for one class.
struct Program {
    /// Its maps; it outlives the code.
    _segment: Segment,
    code: LocalProgram,
    takes: Vec<Take>,
    /// By slot: what its address leads to.
    memory: Vec<Vec<u8>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Program").field("takes", &self.takes).finish_non_exhaustive()
    }
}

/// A field that the filter reads: the member of a scope, and its slot.
#[derive(Clone, Copy, Debug)]
struct Take {
    scope: Scope,
    member: usize,
    slot: usize,
}

/// A field that a filter may name.
struct Offered {
    name: String,
    ty: Type,
    scope: Scope,
    member: usize,
}

impl Wanted {
    /// Everything, where nothing was asked for: `None`.
    pub(super) fn new(args: &View, reader: &Reader) -> Result<Option<Wanted>, Failure> {
        if args.filter.is_none() && args.events.is_empty() {
            return Ok(None);
        }
        let is_named = |class: &EventClass| {
            let name = class.name.as_deref().unwrap_or_default();
            args.events.is_empty() || args.events.iter().any(|pattern| pattern::matches(pattern, name))
        };
        let mut named = Vec::new();
        for trace in reader.traces() {
            for stream in &trace.streams {
                let wanted = stream.events.iter().filter(|class| is_named(class));
                named.extend(wanted.map(|class| (trace, stream, class)));
            }
        }
        if named.is_empty() {
            return Err(nothing_named(args, reader));
        }
        let classes = match &args.filter {
            None => named.iter().map(|(.., class)| (std::ptr::from_ref(*class), None)).collect(),
            Some(text) => programs(text, args.dialect, &named)?,
        };
        Ok(Some(Wanted { classes }))
    }

    pub(super) fn has(&mut self, event: &Event<'_>) -> bool {
        match self.classes.get_mut(&std::ptr::from_ref(event.class)) {
            None => false,
            Some(None) => true,
            Some(Some(program)) => program.accepts(event),
        }
    }
}

fn nothing_named(args: &View, reader: &Reader) -> Failure {
    let streams = reader.traces().flat_map(|trace| &trace.streams);
    let names: Vec<&str> =
        streams.flat_map(|stream| &stream.events).filter_map(|class| class.name.as_deref()).collect();
    let asked = args.events.join(", ");
    let hint = match weir_source::nearest(&asked, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`weir view --stats` names the events that there are".to_owned(),
    };
    Failure::Refused(anyhow!("-e {asked}: no trace has an event of this name; {hint}"))
}

/// The filter for each class that it can be evaluated for.
fn programs(
    text: &str,
    dialect: Dialect,
    named: &[(&TraceClass, &StreamClass, &EventClass)],
) -> Result<HashMap<*const EventClass, Option<Program>>, Failure> {
    let source = SourceFile { name: "<filter>".to_owned(), text: text.to_owned() };
    let fault = |faults: Vec<Diagnostic>| Failure::Text(source.clone(), faults);
    let ast = weir_filter::parse(text).map_err(|found| fault(vec![found]))?;
    if let Some(span) = usage::of_the_moment(&ast) {
        let message = "a trace does not know the moment at which its filter runs";
        let hint = "samples and rates are for live events; contexts of a trace are its fields: `vtid`, not `$ctx.vtid`";
        return Err(fault(vec![Diagnostic::error(span, message).with_hint(hint)]));
    }
    let uses = usage::fields(&ast);
    let mut classes = HashMap::new();
    let mut missing = None;
    for (_, stream, class) in named {
        let offered = offered(stream, class);
        let used = used(&uses, &offered);
        let schema = schema(class, &offered, &used);
        let compiled =
            weir_filter::compile(text, dialect, &schema).and_then(
                |(module, warnings)| match of_this_process(&module) {
                    true => Err(vec![of_no_trace(&uses, &offered)]),
                    false => Ok((module, warnings)),
                },
            );
        let lacks = uses.iter().any(|mention| !is_known(&mention.name, &offered));
        match compiled {
            Ok(_) if lacks => missing = missing.or(Some(Vec::new())),
            Err(faults) if lacks => missing = missing.or(Some(faults)),
            Err(faults) => return Err(fault(faults)),
            Ok((mut module, warnings)) => {
                if classes.is_empty() {
                    filter::warn(&source, &warnings);
                }
                weir_ir::pass::optimise(&mut module);
                let program = Program::new(&module, &schema, &offered, &used)?;
                classes.insert(std::ptr::from_ref(*class), Some(program));
            }
        }
    }
    match missing {
        Some(faults) if classes.is_empty() && !faults.is_empty() => Err(fault(faults)),
        _ => Ok(classes),
    }
}

fn is_known(name: &str, offered: &[Offered]) -> bool {
    offered.iter().any(|field| field.name == name)
}

/// What a live filter asks the thread, a trace has not recorded.
fn of_no_trace(uses: &[FieldUse], offered: &[Offered]) -> Diagnostic {
    let is_unknown = |mention: &&FieldUse| !is_known(&mention.name, offered);
    // SANITY: a context of weir's dialect is named like a field.
    let mention = uses.iter().find(is_unknown).expect("a name that is no field");
    let message = format!("the trace did not record `{}`", mention.name);
    let names: Vec<String> = offered.iter().map(|field| format!("`{}`", field.name)).collect();
    Diagnostic::error(mention.span, message).with_hint(format!("the events have {}", names.join(", ")))
}

/// It reads something else than fields.
fn of_this_process(module: &Module) -> bool {
    let insts = module.functions.iter().flat_map(|function| &function.blocks).flat_map(|block| &block.insts);
    insts
        .into_iter()
        .any(|inst| matches!(inst.op, Op::Builtin(builtin) if !matches!(builtin, Builtin::Slot(_))))
}

/// Indices of the fields that are named, each once.
fn used(uses: &[FieldUse], offered: &[Offered]) -> Vec<usize> {
    let mut used = Vec::new();
    for mention in uses {
        let found = offered.iter().position(|field| field.name == mention.name);
        used.extend(found.filter(|index| !used.contains(index)));
    }
    used
}

/// Fields that are named have the first slots; the others are there for what is said of mistakes.
fn schema(class: &EventClass, offered: &[Offered], used: &[usize]) -> Schema {
    let others = (0..offered.len()).filter(|index| !used.contains(index));
    let mut schema = Schema { event: class.name.clone().unwrap_or_default(), ..Schema::default() };
    let mut slot = 0;
    for index in used.iter().copied().chain(others) {
        let Offered { name, ty, .. } = &offered[index];
        schema.fields.push(Field { name: name.clone(), ty: ty.clone(), slot, form: Form::default() });
        let slots = 1 + u8::from(matches!(ty, Type::Sequence { .. }));
        // No filter may read so many.
        let Some(next) = slot.checked_add(slots) else { break };
        slot = next;
    }
    schema
}

/// What a filter may name of an event.
fn offered(stream: &StreamClass, class: &EventClass) -> Vec<Offered> {
    let mut offered: Vec<Offered> = Vec::new();
    for scope in SCOPES {
        let field = match scope {
            Scope::Payload => class.payload.as_ref(),
            Scope::SpecificContext => class.specific_context.as_ref(),
            Scope::CommonContext => stream.common_context.as_ref(),
            _ => stream.packet_context.as_ref(),
        };
        let Some(FieldClass::Struct(of)) = field.map(|field| &field.class) else { continue };
        for (member, field) in shown(of).enumerate() {
            let is_new = !offered.iter().any(|known| known.name == field.name);
            if let Some(ty) = type_of(&field.class).filter(|_| is_new) {
                offered.push(Offered { name: field.name.clone(), ty, scope, member });
            }
        }
    }
    for (alias, name) in ALIASES {
        let has = |wanted: &str| offered.iter().find(|field| field.name == wanted);
        if let (None, Some(Offered { ty, scope, member, .. })) = (has(alias), has(name)) {
            let alias = Offered { name: alias.to_owned(), ty: ty.clone(), scope: *scope, member: *member };
            offered.push(alias);
        }
    }
    offered
}

fn shown(of: &Struct) -> impl Iterator<Item = &weir_trace::class::Field> {
    of.fields.iter().filter(|field| !field.is_hidden)
}

/// What the slot of a field holds: words, wherever the trace had fewer bits.
fn type_of(class: &FieldClass) -> Option<Type> {
    let narrow = |bits: u8| bits.div_ceil(8).next_power_of_two();
    match class {
        FieldClass::Int(int) => Some(Type::Int { bytes: narrow(int.bits), signed: int.is_signed }),
        FieldClass::Enum(of) => {
            let range = |(label, first, last): &(String, i128, i128)| {
                Some((label.clone(), i64::try_from(*first).ok()?, i64::try_from(*last).ok()?))
            };
            let labels = of.labels.iter().filter_map(range).collect();
            Some(Type::Enum { bytes: narrow(of.int.bits), signed: of.int.is_signed, labels })
        }
        FieldClass::Bool(_) => Some(Type::Int { bytes: 1, signed: false }),
        FieldClass::Flags(of) => Some(Type::Int { bytes: narrow(of.int.bits), signed: false }),
        FieldClass::Float(_) => Some(Type::Float { bytes: 8 }),
        FieldClass::Str | FieldClass::Wide(_) => Some(Type::Text),
        FieldClass::Array(array) => element_of(&array.element),
        FieldClass::Sequence(sequence) => element_of(&sequence.element),
        FieldClass::Struct(_) | FieldClass::Variant(_) | FieldClass::Optional(_) => None,
    }
}

/// Texts, and sequences of words.
fn element_of(element: &FieldClass) -> Option<Type> {
    if element.is_character() {
        return element.packed_bytes().map(|_| Type::Text);
    }
    let element = match element {
        FieldClass::Int(int) => Type::Int { bytes: 8, signed: int.is_signed },
        FieldClass::Enum(of) => Type::Int { bytes: 8, signed: of.int.is_signed },
        FieldClass::Float(_) => Type::Float { bytes: 8 },
        _ => return None,
    };
    Some(Type::Sequence { element: Box::new(element) })
}

impl Program {
    fn new(
        module: &Module,
        schema: &Schema,
        offered: &[Offered],
        used: &[usize],
    ) -> Result<Program, Failure> {
        let file = filter::object(module)?;
        let limits = Limits { text_slots: schema.text_slots(), ..Limits::default() };
        let verified = object::verify_within(&file, 0, &limits)?;
        let segment = filter::segment(&file)?;
        let executable = weir_jit::compile(&verified, &local::site(segment.layout()));
        let executable = executable.map_err(|error| Failure::Bug(anyhow!("{error}")))?;
        let code =
            LocalProgram::load(&executable, &segment).map_err(|error| Failure::Machine(error.into()))?;
        let take = |(index, field): (&usize, &Field)| {
            let Offered { scope, member, .. } = offered[*index];
            Take { scope, member, slot: usize::from(field.slot) }
        };
        let takes: Vec<Take> = used.iter().zip(&schema.fields).map(take).collect();
        let memory = vec![Vec::new(); usize::from(weir_ir::limits::SLOTS)];
        Ok(Program { _segment: segment, code, takes, memory })
    }

    fn accepts(&mut self, event: &Event<'_>) -> bool {
        let mut frame = Frame::default();
        for scope in SCOPES {
            let mut takes = self.takes.iter().filter(|take| take.scope == scope).peekable();
            if takes.peek().is_none() {
                continue;
            }
            let Some((FieldClass::Struct(of), mut values)) = event.scope(scope) else { continue };
            for (index, member) in shown(of).enumerate() {
                let wanted: Vec<usize> =
                    takes.clone().filter(|take| take.member == index).map(|take| take.slot).collect();
                let Some((first, others)) = wanted.split_first() else {
                    skip(&member.class, &mut values);
                    continue;
                };
                let (word, count) = take(&member.class, &mut values, &mut self.memory[*first]);
                for slot in std::iter::once(first).chain(others) {
                    frame.regs[*slot] = word;
                    if let Some(count) = count {
                        frame.regs[slot + 1] = count;
                    }
                }
            }
        }
        self.code.run(&mut frame) != 0
    }
}

/// What a field's slot holds; of a sequence also the number of its elements. What has no room in a slot is in `memory`.
fn take(class: &FieldClass, values: &mut Values<'_>, memory: &mut Vec<u8>) -> (u64, Option<u64>) {
    memory.clear();
    let element = match class {
        FieldClass::Array(array) => &array.element,
        FieldClass::Sequence(sequence) => &sequence.element,
        FieldClass::Str => {
            if let Some(found) = text(class, values) {
                memory.extend_from_slice(found);
            }
            memory.push(0);
            return (memory.as_ptr() as u64, None);
        }
        FieldClass::Wide(of) => {
            memory.extend_from_slice(of.text(values.text()).as_bytes());
            memory.push(0);
            return (memory.as_ptr() as u64, None);
        }
        FieldClass::Bool(_) => return (u64::from(values.word() != 0), None),
        _ => return (values.word(), None),
    };
    let count = match values.packed(element) {
        Some(packed) if element.is_character() => {
            memory.extend_from_slice(up_to_nul(packed.bytes));
            memory.push(0);
            return (memory.as_ptr() as u64, None);
        }
        Some(packed) => {
            (0..packed.count).for_each(|index| memory.extend_from_slice(&packed.get(index).to_le_bytes()));
            packed.count
        }
        None => {
            let count = values.word();
            (0..count).for_each(|_| memory.extend_from_slice(&values.word().to_le_bytes()));
            count
        }
    };
    (memory.as_ptr() as u64, Some(count))
}
