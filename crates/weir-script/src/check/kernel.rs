//! Clauses with probes of the kernel: what they have of arguments and fields, and names that only they may use.
//!
//! What does not run where the script is to run is gathered ([`Checker::of_kernel`]): it is refused, or left out.

use std::collections::{BTreeMap, BTreeSet};

use weir_event::ctype::{CType, CTypes, Member, TypeId};
use weir_event::kernel::KernelEvent;
use weir_event::{SiteName, Type};
use weir_ir::{FoundTracepoint, KernelSite, Trigger, WorldError};
use weir_source::{Diagnostic, Span, nearest};

use crate::Kernel;
use crate::ast::{Clause, Expr, ExprKind, Name, Probe};
use crate::attach::{self, Attach};
use crate::check::memory::Place;
use crate::check::{Checker, Target, stack_form};
use crate::kernel::{self, Gives, Point};
use crate::types::Ty;
use crate::unsupported::{self, Kind};

/// What one probe of a clause has.
pub(super) struct Event {
    /// As it is written.
    probe: String,
    kind: &'static str,
    /// `arg0` and further.
    has_registers: bool,
    /// What is wrong with it.
    fault: Option<Diagnostic>,
    /// The tracepoint whose fields are asked for when the clause names one.
    tracepoint: Option<FoundTracepoint>,
    /// A record of what `args` has.
    fields: Option<TypeId>,
    /// What the function returns, which the program is given with what it was given.
    result: Option<Member>,
    /// What `ctx` points to.
    context: TypeId,
}

/// `retval` has a meaning there.
pub(super) fn gives_result(attach: &Attach) -> bool {
    match attach {
        Attach::Returns(_) => true,
        Attach::Kernel {
            point: Point::Function { is_return, .. } | Point::Typed { is_return, .. }, ..
        } => *is_return,
        _ => false,
    }
}

/// What a call was given is gone there.
pub(super) fn has_no_arguments(attach: &Attach) -> bool {
    matches!(
        attach,
        Attach::Returns(_) | Attach::Kernel { point: Point::Function { is_return: true, .. }, .. }
    )
}

impl Target {
    /// Whether it may be at that event too, where what the clause uses lies so.
    fn takes(&self, event: &KernelEvent, fields: &BTreeMap<String, Member>) -> bool {
        let Trigger::Kernel { sites } = &self.trigger else { return false };
        let is_of_kind = sites.first().is_some_and(|site| site.event.kind() == event.kind());
        is_of_kind && self.kernel_fields == *fields
    }
}

impl Checker<'_> {
    /// Notes which of a clause's probes are of the kernel, and what they have.
    pub(super) fn enter_kernel(&mut self, clause: &Clause, attached: &[(usize, Attach)]) {
        let mut events = Vec::new();
        for (index, attach) in attached {
            let Attach::Kernel { kind, point, events: found } = attach else { continue };
            let probe = &clause.probes[*index];
            if self.kernel != Kernel::Runs || found.is_empty() {
                self.is_of_kernel(&[Kind::Probe], kind, probe.span);
            }
            if !self.kernel_events.contains_key(&self.clause) {
                let written = attach::display(probe, attach);
                events.extend(self.events_of(&written, kind, point, probe.span));
            }
        }
        if !events.is_empty() {
            self.kernel_events.insert(self.clause, events);
        }
        let events = self.kernel_events.get(&self.clause).into_iter().flatten();
        let faults: Vec<Diagnostic> = events.filter_map(|event| event.fault.clone()).collect();
        faults.into_iter().for_each(|fault| self.push(fault));
    }

    /// What a probe has; one for each tracepoint that it means.
    fn events_of(&mut self, written: &str, kind: &'static str, point: &Point, span: Span) -> Vec<Event> {
        let context = match point {
            Point::Function { .. } => "struct pt_regs".to_string(),
            Point::Iterator(name) => format!("struct bpf_iter__{name}"),
            Point::Sample => "struct bpf_perf_event_data".to_string(),
            Point::Typed { .. } | Point::Tracepoints(_) | Point::Raw => String::new(),
        };
        let context = match context.is_empty() {
            true => CTypes::VOID,
            false => self.types.named(&context, None, None),
        };
        let event = |probe: &str, fields| Event {
            probe: probe.to_string(),
            kind,
            has_registers: matches!(point, Point::Function { .. } | Point::Raw),
            fault: None,
            tracepoint: None,
            fields,
            result: None,
            context,
        };
        let fault =
            |WorldError { message, hint }| Some(Diagnostic { hint, ..Diagnostic::error(span, message) });
        // One of those that a pattern means has a name of its own.
        let named = |name: &String| match attach::is_pattern(written) {
            true => format!("{kind}:{name}"),
            false => written.to_string(),
        };
        let (world, types) = (self.world, &mut self.types);
        match point {
            Point::Tracepoints(found) => {
                let of = |tracepoint: &FoundTracepoint| {
                    let probe = format!("{kind}:{}:{}", tracepoint.subsystem, tracepoint.name);
                    Event { tracepoint: Some(tracepoint.clone()), ..event(&probe, None) }
                };
                found.iter().map(of).collect()
            }
            Point::Function { functions, .. } => {
                functions.iter().map(|name| event(&named(name), None)).collect()
            }
            // Of a program of eBPF nothing is known.
            Point::Typed { functions, .. } if !functions.is_empty() => {
                let mut of = |name: &String| match world.kernel_function(name, types) {
                    Ok((fields, result)) => {
                        let offset = types.bytes(fields).unwrap_or_default();
                        let result = Member { name: "retval".to_string(), ty: result, offset, bits: None };
                        Event { result: Some(result), ..event(&named(name), Some(fields)) }
                    }
                    Err(error) => Event { fault: fault(error), ..event(written, None) },
                };
                functions.iter().map(&mut of).collect()
            }
            _ => vec![event(written, None)],
        }
    }

    /// Notes that the clause cannot run in a process.
    fn is_of_kernel(&mut self, kinds: &[Kind], name: &str, span: Span) {
        let row = kinds.iter().find_map(|kind| unsupported::find(*kind, name));
        // SANITY: each kind and name of the kernel has a row.
        let row = row.expect("what is of the kernel has a row");
        self.of_kernel.push((self.clause, Diagnostic::error(span, row.message()).with_hint(row.hint)));
    }

    /// Notes what has a type, and cannot be compiled yet.
    pub(super) fn checked_alone(&mut self, span: Span, what: &str, hint: &str) {
        let message = format!("not supported by weir yet: {what}");
        self.of_kernel.push((self.clause, Diagnostic::error(span, message).with_hint(hint)));
    }

    /// `args.name` where all probes of the clause are the kernel's.
    pub(super) fn kernel_field(&mut self, expr: &Expr, name: &str) -> Ty {
        if !self.is_at_entry("args", expr.span) {
            return Ty::Unknown;
        }
        self.used.entry(self.clause).or_default().fields.insert(name.to_string());
        self.ask_fields(expr.span);
        match field_of(&self.kernel_events[&self.clause], name, &self.types) {
            Ok(Some(id)) => self.loaded(Place { id, is_held: false }, expr),
            Ok(None) => Ty::Unknown,
            Err((message, hint)) => {
                self.error(expr.span, &message, &hint);
                Ty::Unknown
            }
        }
    }

    /// Asks the world for the fields of the clause's tracepoints, once.
    fn ask_fields(&mut self, span: Span) {
        let events = self.kernel_events.get_mut(&self.clause).into_iter().flatten();
        let mut faults = Vec::new();
        for event in events {
            let Some(tracepoint) = event.tracepoint.take() else { continue };
            match self.world.tracepoint_fields(&tracepoint, &mut self.types) {
                Ok(fields) => event.fields = Some(fields),
                Err(WorldError { message, hint }) => {
                    event.fault = Some(Diagnostic { hint, ..Diagnostic::error(span, message) });
                    faults.extend(event.fault.clone());
                }
            }
        }
        faults.into_iter().for_each(|fault| self.push(fault));
    }

    /// Each probe of the clause that is of the kernel is at a function.
    pub(super) fn is_at_functions(&self) -> bool {
        let mut events = self.kernel_events.get(&self.clause).into_iter().flatten();
        events.all(|event| matches!(event.kind, "kprobe" | "kretprobe" | "fentry" | "fexit"))
    }

    /// False, and an error, where a probe of the kernel has no such argument.
    pub(super) fn has_kernel_argument(&mut self, name: &str, span: Span) -> bool {
        let events = self.kernel_events.get(&self.clause);
        let Some(event) = events.and_then(|events| events.iter().find(|event| !event.has_registers)) else {
            return true;
        };
        let hint = match event.kind {
            "tracepoint" | "fentry" | "fexit" => "its fields have names: `args.name`",
            _ => "it belongs to no call",
        };
        let message = format!("`{}` has no `{name}`", event.probe);
        self.error(span, &message, hint);
        false
    }

    /// False, and an error, where a probe of the kernel gives its program no registers.
    pub(super) fn has_kernel_registers(&mut self, span: Span) -> bool {
        let events = self.kernel_events.get(&self.clause).into_iter().flatten();
        let is_without = |event: &&Event| {
            matches!(event.kind, "tracepoint" | "rawtracepoint" | "fentry" | "fexit" | "iter")
        };
        let Some(event) = { events }.find(is_without) else { return true };
        let message = format!("`{}` has no registers", event.probe);
        self.error(span, &message, "functions have: `kprobe`; and `profile`");
        false
    }

    /// What the clause's functions return, where that is known and the same of all.
    pub(super) fn kernel_result(&self) -> Option<TypeId> {
        let events = self.kernel_events.get(&self.clause)?;
        let first = events.first()?.result.as_ref()?.ty;
        let is_same = |event: &Event| event.result.as_ref().is_some_and(|result| result.ty == first);
        events.iter().all(is_same).then_some(first)
    }

    /// The type of what only programs in the kernel have; none where the name is no such.
    pub(super) fn kernel_name(&mut self, function: &Name, args: &[Expr]) -> Option<Ty> {
        let name = function.text.as_str();
        let (arity, gives) = kernel::name(name)?;
        let kinds = match args.is_empty() {
            true => [Kind::Builtin, Kind::Function],
            false => [Kind::Function, Kind::Builtin],
        };
        let is_there = self.kernel_events.contains_key(&self.clause)
            || kernel::is_anywhere(name) && self.outside.is_some();
        if self.kernel != Kernel::Runs || !is_there || !kernel::runs(name) {
            self.is_of_kernel(&kinds, name, function.span);
        }
        let types: Vec<Option<Type>> = match gives {
            Gives::Stack => Vec::new(),
            _ => args.iter().map(|arg| self.value(arg)).collect(),
        };
        let form = stack_form(if gives == Gives::Stack { args } else { &[] }, self.known);
        if let Err((at, message, hint)) = &form
            && args[*at].kind != ExprKind::Invalid
        {
            self.error(args[*at].span, &message.replace("ustack", name), &hint.replace("ustack", name));
        }
        if !self.arity(function, args, arity, &format!("{name}(…)")) {
            return Some(Ty::Unknown);
        }
        Some(match gives {
            Gives::Nothing => Ty::None,
            Gives::Stack => form.map_or(Ty::Unknown, |form| Ty::Value(Type::Ustack(form))),
            Gives::Argument => types.into_iter().next().flatten().map_or(Ty::Unknown, Ty::Value),
            Gives::Record(record) => {
                let ty = self.pointer_to(record);
                if let Ty::Value(ty) = &ty {
                    self.kernel_types.insert(name.to_string(), ty.clone());
                }
                ty
            }
            Gives::Context => {
                let first = self.kernel_events.get(&self.clause).and_then(|events| events.first());
                Ty::Value(Type::Pointer(first.map_or(CTypes::VOID, |event| event.context)))
            }
            Gives::Number if name == kernel::KADDR => self.kernel_address(&args[0]),
            _ => gives.ty(self.settings.max_strlen).map_or(Ty::Unknown, Ty::Value),
        })
    }

    /// `kaddr("name")`
    fn kernel_address(&mut self, arg: &Expr) -> Ty {
        let ExprKind::Str(name) = &arg.kind else {
            self.literal_wanted("kaddr", arg, "such as `kaddr(\"avenrun\")`");
            return Ty::Value(Type::U64);
        };
        if self.kernel == Kernel::Runs && !self.kernel_symbols.contains_key(name) {
            match self.world.kernel_symbol(name) {
                Ok(address) => _ = self.kernel_symbols.insert(name.clone(), address),
                Err(WorldError { message, hint }) => {
                    self.push(Diagnostic { hint, ..Diagnostic::error(arg.span, message) });
                    return Ty::Unknown;
                }
            }
        }
        Ty::Value(Type::U64)
    }

    /// It is a name of the kernel's enumerations, in a clause of the kernel.
    pub(super) fn is_kernel_constant(&mut self, name: &str) -> bool {
        if !self.kernel_events.contains_key(&self.clause) {
            return false;
        }
        // Each look goes over all of the kernel's types.
        if self.kernel_constants.contains_key(name) {
            return true;
        }
        let value = self.world.kernel_constant(name);
        self.kernel_constants.extend(value.map(|value| (name.to_string(), value)));
        value.is_some()
    }

    /// The functions that a clause becomes for its probes of the kernel: one for all events that are given what it uses in the same way.
    pub(super) fn kernel_targets(
        &self,
        (clause, attached): (usize, &[(usize, Attach)]),
        probes: &[Probe],
        used: &BTreeSet<String>,
        sites: &mut Vec<SiteName>,
    ) -> Vec<Target> {
        let mut known = self.kernel_events.get(&clause).into_iter().flatten();
        let mut targets: Vec<Target> = Vec::new();
        for (index, attach) in attached {
            let Attach::Kernel { events, .. } = attach else { continue };
            let written = attach::display(&probes[*index], attach);
            for event in events {
                let known = known.next();
                let fields = known.map_or_else(BTreeMap::new, |known| self.members(known, used));
                let cookie = sites.len() as u64;
                let site = KernelSite { event: event.clone(), cookie };
                let probe = known.map_or_else(|| written.clone(), |known| known.probe.clone());
                let func = match event {
                    KernelEvent::Function { name, .. } | KernelEvent::TypedFunction { name, .. } => {
                        name.clone()
                    }
                    _ => String::new(),
                };
                sites.push(SiteName { probe, func });
                // Not every kernel gives programs of raw tracepoints an attach cookie, and one of a typed function is of no other.
                let is_raw = matches!(
                    event,
                    KernelEvent::RawTracepoint { .. }
                        | KernelEvent::TypedFunction { .. }
                        | KernelEvent::Iterator { .. }
                );
                let same = targets.iter_mut().find(|target| target.takes(event, &fields)).filter(|_| !is_raw);
                match same {
                    Some(Target { name, trigger: Trigger::Kernel { sites }, .. }) => {
                        if !name.split(',').any(|known| known == written) {
                            name.push(',');
                            name.push_str(&written);
                        }
                        sites.push(site);
                    }
                    _ => targets.push(Target {
                        name: written.clone(),
                        trigger: Trigger::Kernel { sites: vec![site] },
                        probe_site: is_raw.then_some(cookie),
                        arguments: BTreeMap::new(),
                        fields: BTreeMap::new(),
                        kernel_fields: fields,
                        kernel_result: known.and_then(|known| known.result.clone()),
                        kernel_context: known.map_or(CTypes::VOID, |known| known.context),
                    }),
                }
            }
        }
        targets
    }

    fn members(&self, event: &Event, used: &BTreeSet<String>) -> BTreeMap<String, Member> {
        let Some(CType::Record(record)) = event.fields.map(|fields| self.types.get(fields)) else {
            return BTreeMap::new();
        };
        let member = |name: &String| Some((name.clone(), record.member(&self.types, name)?));
        used.iter().filter_map(member).collect()
    }

    fn pointer_to(&mut self, record: &str) -> Ty {
        Ty::Value(Type::Pointer(self.types.named(record, None, None)))
    }
}

/// The type of a field that all of the events have; none where that is not known. Or message and hint.
fn field_of(events: &[Event], name: &str, types: &CTypes) -> Result<Option<TypeId>, (String, String)> {
    let mut first: Option<(&Event, TypeId)> = None;
    for event in events {
        let probe = &event.probe;
        let Some(CType::Record(record)) = event.fields.map(|fields| types.get(fields)) else {
            return match event.kind {
                // What is wrong with it has been said, or it is a pattern.
                "tracepoint" | "fentry" | "fexit" => Ok(None),
                "kprobe" | "rawtracepoint" => {
                    let hint = "they are `arg0` and further; a `fentry` has names and types";
                    Err((format!("the arguments of `{probe}` have no names"), hint.to_string()))
                }
                _ => Err((format!("`{probe}` has no arguments"), "it belongs to no call".to_string())),
            };
        };
        let Some(member) = record.member(types, name) else {
            let names = record.names(types);
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `args.{near}`?"),
                None => {
                    let own: Vec<&str> =
                        names.into_iter().filter(|name| !name.starts_with("common_")).collect();
                    format!("it has {}", own.join(", "))
                }
            };
            return Err((format!("`{probe}` has no field `{name}`"), hint));
        };
        match first {
            Some((other, ty)) if types.name(ty) != types.name(member.ty) => {
                let other = &other.probe;
                let message = format!("`args.{name}` of `{probe}` is another than that of `{other}`");
                return Err((message, "write a clause for each".to_string()));
            }
            Some(_) => {}
            None => first = Some((event, member.ty)),
        }
    }
    Ok(first.map(|(_, ty)| ty))
}
