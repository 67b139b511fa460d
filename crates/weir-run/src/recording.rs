//! `weir record`: clauses that record events with all their fields, instead of what a script does.
//!
//! In: what was asked for, as attach points of a script whose clauses are empty ([`Recording::source`]): so they are found, and refused, as
//! those of `weir trace` are. Out of [`Recording::put`]: the same module, each clause with a body that records the event at its place. Places
//! of one event where the fields are read in different ways become functions of their own; a place that several attach points name is
//! recorded once: where rules of a session have filters, if one of them accepts the event.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use weir_ebpf::map::{RING_BYTES_MAX, RING_BYTES_MIN};
use weir_event::schema::{Field, Form, Level, Schema, Type};
use weir_event::{STACK_FRAMES_MAX, recorded};
use weir_filter::Dialect;
use weir_ir::{Builtin, EventId, FoundArgument, FoundField, Function, Module, Trigger};
use weir_sessions::context::Context;
use weir_sessions::rule::Rule;
use weir_source::{Diagnostic, SourceFile};
use weir_symbols::{LinkAddr, pattern};
use weir_trace::write::Limits;

use crate::event::fetch::Fetched;
use crate::event::text::Text;
use crate::event::{self, Event};
use crate::failure::{Failure, NoEvent};
use crate::filtered::at_places;
use crate::options::{Options, RecordOptions};
use crate::recorder::full_name;
use crate::triggers::{Marks, Triggers};
use weir_world::Binaries;

/// What is to be recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) options: RecordOptions,
    /// What is in front of all clauses.
    of_run: Option<(String, Dialect)>,
    /// Each once, in the order of the command line.
    contexts: Vec<Context>,
    /// What events do beside.
    triggers: Triggers,
    /// In the order of the script.
    asked: Vec<Asked>,
}

/// An event as `-e` names it.
#[derive(Debug)]
struct Asked {
    /// Which rule's.
    rule: usize,
    attach_point: String,
    /// Fields that the user has named.
    fetched: Vec<Fetched>,
    /// Where its clause ends in the script.
    end: usize,
}

/// What stands in front of a clause.
pub(super) struct Gate {
    /// Where rules have their own.
    pub(super) filter: Option<Text>,
    /// Fields that the user has named: filters know them.
    pub(super) fetched: Vec<Fetched>,
}

/// How an event is read at some of its places.
struct Way {
    event: usize,
    arguments: Vec<FoundArgument>,
    /// What they do beside.
    marks: Marks,
    /// Which name it there.
    rules: Vec<usize>,
    places: Vec<usize>,
}

impl Way {
    fn is_same(&self, other: &Way) -> bool {
        (self.event, &self.arguments, &self.marks, &self.rules)
            == (other.event, &other.arguments, &other.marks, &other.rules)
    }
}

/// How an event that does not say how much it matters is taken, as LTTng takes it.
const LEVEL: u8 = 13;

/// Events of one run: their numbers have 16 bits in a trace, of which one is taken.
const EVENTS_MAX: usize = 65_535;

/// Whether a rule can be read: its events are some, its filter is one. What they name is not looked for.
pub(super) fn check(rule: &Rule) -> Result<(), Failure> {
    rule.events.iter().try_for_each(|event| asked(event).map(drop))?;
    filter(rule).map(drop)
}

/// Values that the command line cannot have.
fn check_options(options: &RecordOptions, run: &Options) -> Result<(), Failure> {
    let refused = |what: String| Err(Failure::Refused(anyhow!(what)));
    let (bytes, sizes) = (options.ring_bytes, RING_BYTES_MIN..=RING_BYTES_MAX);
    if !bytes.is_power_of_two() || !sizes.contains(&bytes) {
        let (least, most) = sizes.into_inner();
        return refused(format!("a ring of {bytes} bytes: a power of two is wanted, from {least} to {most}"));
    }
    if options.snapshots.as_ref().is_some_and(|snapshots| snapshots.kept == 0) {
        return refused("snapshots are wanted, and none is to be kept: keep one at least".to_owned());
    }
    if options.snapshots.is_some() && options.blocking.is_some() {
        return refused(
            "rings are overwritten where snapshots are taken, so that no event waits for room: leave one of both out"
                .to_owned(),
        );
    }
    if options.blocking.is_some() && run.budget.is_some() {
        return refused(
            "events that wait for room cost what they wait: leave blocking or the budget out".to_owned(),
        );
    }
    if options.shm_dir.is_some() && (options.snapshots.is_some() || options.pipe.is_some()) {
        return refused(
            "what a killed weir leaves in its rings is kept of traces that are written to a folder as they come (shm_dir): no snapshots, no pipe"
                .to_owned(),
        );
    }
    if options.pipe.is_some()
        && (options.snapshots.is_some() || options.session.is_some() || options.limits != Limits::default())
    {
        return refused(
            "a pipe has one trace: no snapshots, no folders of a session, no files of so many bytes"
                .to_owned(),
        );
    }
    if options.triggers.run_on_fill.is_some_and(|percent| !(1..=100).contains(&percent)) {
        return refused("a ring is filled to 1 to 100 percent (run_on_fill)".to_owned());
    }
    if options.triggers.run_on_fill.is_some() && options.snapshots.is_some() {
        return refused("rings of a flight recorder are always full: leave run_on_fill out".to_owned());
    }
    let runs = options.triggers.run_on.is_some() || options.triggers.run_on_fill.is_some();
    if runs != options.triggers.run.is_some() {
        return refused(
            "a command (run) and the event that it is run on (run_on), or how full a ring is (run_on_fill), go together"
                .to_owned(),
        );
    }
    if options.limits.files == Some(0)
        || options.limits.files.is_some() && options.limits.file_bytes.is_none()
    {
        return refused("files are kept by their number where they have a size, and one at least".to_owned());
    }
    Ok(())
}

/// The attach point that `-e` means, and the fields behind it.
fn asked(event: &str) -> Result<(String, Vec<Fetched>), Failure> {
    let (event, fields) = event.split_once(' ').unwrap_or((event, ""));
    let fields: Result<_, String> = fields.split_whitespace().map(str::parse).collect();
    let fields = fields.map_err(|fault| Failure::Refused(anyhow!("-e {event}: {fault}")))?;
    let refused = |what: &str| {
        Err(Failure::Refused(anyhow!(
            "-e {event}: {what}; write PROVIDER:EVENT, usdt:BINARY:PROVIDER:EVENT, lttng:BINARY:PROVIDER:EVENT, uprobe:BINARY:FUNCTION or \
             uretprobe:BINARY:FUNCTION, and behind a space fields as in size=%dx:u32"
        )))
    };
    let is_part = |c: char| c.is_alphanumeric() || "_*?[]-.@+/:$!^~".contains(c);
    if let Some(other) = event.chars().find(|c| !is_part(*c)) {
        return refused(&format!("an event has no {other:?} in its name"));
    }
    let parts: Vec<&str> = event.split(':').collect();
    let attach_point = match parts[..] {
        ["usdt" | "lttng" | "uprobe" | "uretprobe", _, _, ..] => event.to_owned(),
        [provider, name] if !provider.is_empty() && !name.is_empty() => format!("static:*:{provider}:{name}"),
        _ => return refused("it is not a provider and an event"),
    };
    Ok((attach_point, fields))
}

/// The clause at an attach point.
fn clause_at(attach_point: &str) -> String {
    format!("{attach_point} {{ }}\n")
}

/// The filter of a rule, if it has one.
fn filter(rule: &Rule) -> Result<Option<Text>, Failure> {
    rule.filter.as_deref().map(|text| Text::parse(text, rule.dialect)).transpose()
}

impl Recording {
    /// `run`: what is asked for beside.
    pub(super) fn new(options: RecordOptions, run: &Options) -> Result<Recording, Failure> {
        check_options(&options, run)?;
        let (mut asked_for, mut end) = (Vec::new(), 0);
        for (rule, of) in options.rules.iter().enumerate() {
            for event in &of.events {
                let (attach_point, fetched) = asked(event)?;
                end += clause_at(&attach_point).len();
                asked_for.push(Asked { rule, attach_point, fetched, end });
            }
            filter(of)?;
        }
        let mut contexts: Vec<Context> = Vec::new();
        for context in &options.contexts {
            if !contexts.contains(context) {
                contexts.push(*context);
            }
        }
        let snapshot_on = options.snapshots.as_ref().and_then(|snapshots| snapshots.on.as_deref());
        let triggers = Triggers::given(snapshot_on, &options.triggers, run.dialect)?;
        if options.triggers.rotate_on.is_some() && options.session.is_none() {
            return Err(Failure::Usage(anyhow!(
                "--rotate-on is of sessions: a recording has one folder; see weir record create"
            )));
        }
        Ok(Recording { options, of_run: None, contexts, triggers, asked: asked_for })
    }

    /// What was recorded is in the rings until it is asked for.
    pub(super) fn keeps_rings(&self) -> bool {
        self.options.snapshots.is_some()
    }

    /// `run` has its filter in front of all clauses: where a rule has the same, it is not asked twice.
    pub(super) fn is_filtered_by(&mut self, run: &Options) {
        self.of_run = run.filter.clone().map(|text| (text, run.dialect));
    }

    /// The script whose clauses are at the events.
    pub(super) fn source(&self) -> SourceFile {
        let text = self.asked.iter().map(|asked| clause_at(&asked.attach_point)).collect();
        SourceFile { name: "-e".to_owned(), text }
    }

    /// Fields that each event begins with.
    pub(super) fn context_fields(&self) -> usize {
        self.contexts.len()
    }

    /// Has the clauses record; `warn` of what is left out. By clause what its filter is to know.
    pub(super) fn put(
        &self,
        module: &mut Module,
        world: &Binaries,
        warn: &mut dyn FnMut(Diagnostic),
    ) -> Result<Vec<Gate>, Failure> {
        let mut events: Vec<Schema> = Vec::new();
        let (mut functions, mut gates) = (Vec::new(), Vec::new());
        let mut known = BTreeSet::new();
        let words = self.triggers.add_maps(module);
        let mut faults = self.triggers.faults();
        let named = if self.options.rules.len() > 1 { self.named(module, world) } else { BTreeMap::new() };
        for clause in std::mem::take(&mut module.functions) {
            let &Asked { rule, ref fetched, ref attach_point, .. } = self.asked_by(&clause);
            // Of a pattern's events one that cannot be recorded is left out.
            let is_pattern = attach_point.rsplit(':').take(2).any(|part| part.contains(['*', '?', '[']));
            let mut ways: Vec<Way> = Vec::new();
            for (place, event) in event::events(&clause, world).into_iter().enumerate() {
                let Some(schema) = self.schema(rule, &clause.trigger, place, &event, world) else { continue };
                let event = event.with(fetched).map_err(|fault| Failure::Refused(anyhow!("-e: {fault}")))?;
                let at = place_of(&clause.trigger, place);
                let rules = named.get(&at).cloned().unwrap_or_else(|| vec![rule]);
                // Recorded by the first that names it.
                if !known.insert(at) {
                    continue;
                }
                let (schema, arguments, left_out) = self.offered(schema, &event);
                left_out.into_iter().for_each(|message| warn(Diagnostic::warning(clause.span, message)));
                if let Some(refusal) = recorded::refusal(&schema) {
                    let name = &event.name;
                    if is_pattern {
                        warn(Diagnostic::warning(clause.span, format!("{name} is not recorded: {refusal}")));
                        continue;
                    }
                    return Err(Failure::Refused(anyhow!("cannot record {name}: {refusal}")));
                }
                let (most, size) = (recorded::bytes_max(&schema), self.options.ring_bytes);
                if most > size / 2 {
                    let (name, wanted) = (&event.name, (2 * most).next_power_of_two() >> 10);
                    return Err(Failure::Refused(anyhow!(
                        "--size: a record of {name} may have {most} bytes, more than half of a ring of {size}; give it {wanted}K"
                    )));
                }
                let name = full_name(&schema);
                let number = events.iter().position(|known| *known == schema).unwrap_or_else(|| {
                    events.push(schema);
                    events.len() - 1
                });
                let marks = self.triggers.at(&event, &name, &mut faults);
                let way = Way { event: number, arguments, marks, rules, places: Vec::new() };
                let known = ways.iter().position(|known| known.is_same(&way)).unwrap_or_else(|| {
                    ways.push(way);
                    ways.len() - 1
                });
                ways[known].places.push(place);
            }
            for Way { event, arguments, marks, rules, places } in ways {
                let mut function =
                    Function { trigger: at_places(&clause.trigger, &places), ..clause.clone() };
                let context: Vec<Builtin> =
                    self.contexts.iter().filter_map(|context| builtin(*context)).collect();
                let event = EventId(event as u32);
                weir_ir::record::record(&mut function, event, &context, &arguments);
                self.triggers.put(&mut function, (event, &marks), &words, module);
                functions.push(function);
                gates.push(Gate { filter: self.filter_of(&rules)?, fetched: fetched.clone() });
            }
        }
        if !functions.is_empty() {
            let span = functions[0].span;
            let mut absent = |message| warn(Diagnostic::warning(span, message));
            self.triggers.checked(faults, self.options.is_part.then_some(&mut absent))?;
        }
        if functions.is_empty() {
            return Err(Failure::Refused(anyhow!(NoEvent)));
        }
        if events.len() > EVENTS_MAX {
            return Err(Failure::Refused(anyhow!(
                "{} events are named, the limit is {EVENTS_MAX}: narrow the patterns",
                events.len()
            )));
        }
        (module.functions, module.schema.events) = (functions, events);
        weir_ir::pass::optimise(module);
        Ok(gates)
    }

    /// What the clause of the script is at.
    fn asked_by(&self, clause: &Function) -> &Asked {
        let start = clause.span.start as usize;
        &self.asked[self.asked.partition_point(|asked| asked.end <= start)]
    }

    /// For each place that is to be recorded the rules that name it.
    fn named(&self, module: &Module, world: &Binaries) -> BTreeMap<Place, Vec<usize>> {
        let mut named: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for clause in &module.functions {
            let rule = self.asked_by(clause).rule;
            for (place, event) in event::events(clause, world).iter().enumerate() {
                if self.schema(rule, &clause.trigger, place, event, world).is_some() {
                    let rules = named.entry(place_of(&clause.trigger, place)).or_default();
                    if !rules.contains(&rule) {
                        rules.push(rule);
                    }
                }
            }
        }
        named
    }

    /// What accepts an event that these rules name: all, if one of them has no filter. The one filter of a command line is put in
    /// front of the clauses as that of any script.
    fn filter_of(&self, rules: &[usize]) -> Result<Option<Text>, Failure> {
        let mut texts: Vec<(&str, Dialect)> = Vec::new();
        for rule in rules.iter().map(|rule| &self.options.rules[*rule]) {
            match rule.filter.as_deref() {
                None => return Ok(None),
                Some(text) if texts.contains(&(text, rule.dialect)) => {}
                Some(text) => texts.push((text, rule.dialect)),
            }
        }
        let is_of_run = |(text, dialect): &(&str, Dialect)| {
            self.of_run.as_ref().is_some_and(|(known, of)| known == text && of == dialect)
        };
        if texts.iter().all(is_of_run) {
            return Ok(None);
        }
        match texts[..] {
            [(text, dialect)] => Text::parse(text, dialect).map(Some),
            _ if texts.iter().any(|(_, dialect)| *dialect == Dialect::Lttng) => {
                let filters: Vec<String> = texts.iter().map(|(text, _)| format!("'{text}'")).collect();
                Err(Failure::Refused(anyhow!(
                    "an event was enabled with the filters {}; with --dialect lttng an event may have one: write it with ||",
                    filters.join(" and ")
                )))
            }
            _ => {
                let all: Vec<String> = texts.iter().map(|(text, _)| format!("({text})")).collect();
                Text::parse(&all.join(" || "), Dialect::Weir).map(Some)
            }
        }
    }

    /// What is known of the event at a place, without fields where nothing is; none where it is not to be recorded.
    fn schema(
        &self,
        rule: usize,
        trigger: &Trigger,
        place: usize,
        event: &Event,
        world: &Binaries,
    ) -> Option<Schema> {
        let rule = &self.options.rules[rule];
        let schema = match trigger {
            Trigger::Usdt { sites } => {
                let site = &sites[place];
                let full_name = format!("{}:{}", site.provider, site.name);
                let known = world.static_schema(&site.binary, &full_name, LinkAddr(site.address));
                known.unwrap_or_else(|| Schema {
                    provider: site.provider.clone(),
                    event: site.name.clone(),
                    ..Schema::default()
                })
            }
            other => {
                let (kind, _) = event.name.split_once(':')?;
                let function = other.sites()[place].function.clone();
                Schema { provider: kind.to_owned(), event: function, ..Schema::default() }
            }
        };
        let full_name = format!("{}:{}", schema.provider, schema.event);
        let is_excluded = rule.exclude.iter().any(|excluded| {
            let name = if excluded.contains(':') { &full_name } else { &schema.event };
            excluded == name || pattern::matches(excluded, name)
        });
        let level = schema.level.map_or(LEVEL, Level::number);
        let is_less = rule.least.is_some_and(|least| level > least.number());
        let is_other = rule.only.is_some_and(|only| level != only.number());
        (!is_excluded && !is_less && !is_other).then_some(schema)
    }

    /// The schema with the context and with the fields that can be read here, in slots one after the other, and how these are read.
    /// And what is left out.
    fn offered(&self, of: Schema, event: &Event) -> (Schema, Vec<FoundArgument>, Vec<String>) {
        let (mut fields, mut slot): (Vec<Field>, u8) = (Vec::new(), 0);
        for context in &self.contexts {
            let (name, ty, form) = context_field(*context);
            let slots = recorded::slots(&ty);
            fields.push(Field { name: name.to_owned(), ty, slot, form });
            slot += slots;
        }
        // In the order of what is found, where several may have one name.
        let mut declared = of.fields.iter();
        let (mut arguments, mut left_out) = (Vec::new(), Vec::new());
        for (FoundField { name, ty, argument, count, .. }, form) in event.recorded() {
            let form = form.unwrap_or_else(|| form_of(&mut declared, &name, &ty));
            let places = [Some(&argument), count.as_ref()].into_iter().flatten();
            if let Some(reason) = places.filter_map(|argument| argument.place.as_ref().err()).next() {
                left_out.push(format!("`{name}` of {} is left out: {reason}", event.name));
                continue;
            }
            let slots = recorded::slots(&ty);
            fields.push(Field { name, ty, slot, form });
            slot += slots;
            arguments.push(argument);
            arguments.extend(count);
        }
        (Schema { fields, ..of }, arguments, left_out)
    }
}

/// The form of the next of these fields that has this name and type, and that is passed over; others of the name follow.
fn form_of(declared: &mut std::slice::Iter<'_, Field>, name: &str, ty: &Type) -> Form {
    let at = declared.clone().position(|field| field.name == name && field.ty == *ty);
    at.and_then(|at| declared.nth(at)).map_or(Form::Decimal, |field| field.form)
}

/// What makes a place one: of functions without an address their name.
type Place = (u8, String, String, u64);

fn place_of(trigger: &Trigger, place: usize) -> Place {
    match trigger {
        Trigger::Usdt { sites } => {
            let site = &sites[place];
            (0, site.binary.clone(), format!("{}:{}", site.provider, site.name), site.address)
        }
        other => {
            let site = &other.sites()[place];
            let is_return = matches!(other, Trigger::Uretprobe { .. });
            let function = site.function.clone();
            (1 + u8::from(is_return), site.binary.clone(), function, site.address.unwrap_or(0))
        }
    }
}

/// What a context's slot holds; a stack has none.
fn builtin(context: Context) -> Option<Builtin> {
    Some(match context {
        Context::Vpid => Builtin::Pid,
        Context::Vtid => Builtin::Tid,
        Context::Procname => Builtin::Comm,
        Context::CpuId => Builtin::Cpu,
        Context::Vuid => Builtin::Uid,
        Context::CgroupId => Builtin::Cgroup,
        Context::Ip => Builtin::Register(16),
        Context::CallstackUser => return None,
    })
}

fn context_field(context: Context) -> (&'static str, Type, Form) {
    let int = |signed| Type::Int { bytes: 4, signed };
    match context {
        Context::Vpid => ("vpid", int(true), Form::Decimal),
        Context::Vtid => ("vtid", int(true), Form::Decimal),
        Context::Procname => {
            let element = Box::new(Type::Int { bytes: 1, signed: false });
            ("procname", Type::Array { element, count: weir_ir::record::COMM_BYTES }, Form::Text)
        }
        Context::CpuId => ("cpu_id", int(false), Form::Decimal),
        Context::Vuid => ("vuid", int(false), Form::Decimal),
        Context::CgroupId => ("cgroup_id", Type::Int { bytes: 8, signed: false }, Form::Decimal),
        Context::Ip => ("ip", Type::Int { bytes: 8, signed: false }, Form::Hexadecimal),
        // As LTTng calls it, of the kernel's events.
        Context::CallstackUser => {
            ("callstack_user", Type::Stack { frames: STACK_FRAMES_MAX }, Form::Hexadecimal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_name_have_forms_of_their_own() {
        let int = |bytes| Type::Int { bytes, signed: true };
        let field = |name: &str, bytes, form| Field { name: name.to_owned(), ty: int(bytes), slot: 0, form };
        let declared = [
            field("n", 4, Form::Decimal),
            field("n", 4, Form::Hexadecimal),
            field("other", 4, Form::Hexadecimal),
            field("n", 8, Form::Hexadecimal),
            field("n", 4, Form::Decimal),
        ];
        let check = |found: &[(&str, u8)], wanted: &[Form]| {
            let mut rest = declared.iter();
            let forms: Vec<Form> =
                found.iter().map(|(name, bytes)| form_of(&mut rest, name, &int(*bytes))).collect();
            assert_eq!(forms, wanted, "{found:?}");
        };
        use Form::{Decimal, Hexadecimal};
        let all = [("n", 4), ("n", 4), ("other", 4), ("n", 8), ("n", 4)];
        check(&all, &[Decimal, Hexadecimal, Hexadecimal, Hexadecimal, Decimal]);
        // What is not found is left out, and what nobody declared is decimal.
        check(&all[2..], &[Hexadecimal, Hexadecimal, Decimal]);
        check(&[("none", 4), ("n", 4), ("n", 4)], &[Decimal, Decimal, Hexadecimal]);
    }

    #[test]
    fn events_are_attach_points() {
        let check = |event: &str, want: Result<&str, &str>| match (asked(event), want) {
            (Ok((point, _)), Ok(want)) => assert_eq!(point, want),
            (Err(failure), Err(want)) => assert!(failure.to_string().contains(want), "{failure}"),
            (point, want) => panic!("{event}: {point:?}, not {want:?}"),
        };
        check("shop:sale", Ok("static:*:shop:sale"));
        check("shop:*", Ok("static:*:shop:*"));
        check("usdt:./shop:shop:sale", Ok("usdt:./shop:shop:sale"));
        check("uprobe:libc:malloc", Ok("uprobe:libc:malloc"));
        check("shop", Err("not a provider and an event"));
        check("shop:", Err("not a provider and an event"));
        check("a:b:c", Err("not a provider and an event"));
        check("uprobe:f", Ok("static:*:uprobe:f"));
        check("a:b { exit() } c:d", Err("`{` is no name"));
        check("uprobe:a:f size=%dx:u32 name=+0(+8(%si)):string", Ok("uprobe:a:f"));
        check("uprobe:a:f size=%zx", Err("-e uprobe:a:f: field `size=%zx`: there is no register %zx"));
        check("a:b,c:d", Err("no ',' in its name"));
    }
}
