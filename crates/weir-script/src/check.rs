//! [`ast::Script`](crate::ast::Script) → [`Checked`]: names, types and attach points resolved, or every fault.
//!
//! - Types of maps are found over the whole script: a map may be read above the text that assigns it. Rounds over
//!   all clauses go on until one finds nothing new; only the last round's diagnostics are kept.
//! - Types only grow: unknown → known, string → longer string. The first assignment fixes kind and sign.
//! - `Unknown` fits everything, so that one fault is reported once.
//! - Attach points are asked of the world once, before the rounds; fields of events after the first one, where a clause names some.
//!
//! The result has what the lowering cannot see locally: types of maps and of scratch variables, and targets.

mod aggregation;
mod ahead;
mod argument;
mod buffer;
mod call;
mod constant;
mod expr;
mod field;
mod inline;
mod kernel;
mod length;
mod map;
mod memory;
mod network;
mod stmt;
mod text;
mod type_of;
pub(crate) mod width;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_event::ctype::{CTypes, Member, TypeId};
use weir_event::{MapRoom, MapSchema, MapValue, SiteName, Type};
use weir_ir::{
    Asked, FoundArgument, FoundFunction, FoundPlace, KERNEL, MissingProbes, SiteSpec, Trigger, World,
};
use weir_source::{Diagnostic, Severity, Span};

use crate::ast::{Clause, MapDeclaration, Name, Probe, Script};
use crate::attach::{self, Attach, Fault};
use crate::config::{self, Settings};
use crate::limits;
use crate::types::{TypeInfo, describe};
use crate::{Kernel, Options};

pub(crate) use crate::check::call::{stack_form, stack_of};
pub(crate) use crate::check::constant::{Known, Parameter, constant, constant_string, parameter};

/// A script that is sound. Only [`check`] makes one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Checked {
    pub(crate) maps: Vec<MapSchema>,
    /// Types of scratch variables, by the start of the name that declares them.
    pub(crate) variables: HashMap<u32, Type>,
    /// By clause of the script.
    pub(crate) targets: Vec<Vec<Target>>,
    /// Variables that a clause begins with, by its number: a block assigns them, and what follows it reads them.
    pub(crate) wide: HashMap<usize, Vec<Name>>,
    pub(crate) sites: Vec<SiteName>,
    pub(crate) known: Known,
    pub(crate) types: CTypes,
    /// What names of types mean, by their starts.
    pub(crate) type_ids: HashMap<u32, TypeId>,
    /// Types of `args.name` that are pointers, by their starts.
    pub(crate) field_types: HashMap<(u32, String), Type>,
    /// The names in `args` where it stands alone, by its start.
    pub(crate) whole_args: HashMap<u32, Vec<String>>,
    /// Of `sizeof` and `offsetof`, by their starts.
    pub(crate) sizes: HashMap<u32, u64>,
    /// What `typeinfo` says, by its start.
    pub(crate) infos: HashMap<u32, TypeInfo>,
    /// What functions return, by the starts of the copies of their bodies.
    pub(crate) results: HashMap<u32, Type>,
    /// Pointers that names of the kernel are, and values of its enumerations, by their names.
    pub(crate) kernel_types: HashMap<String, Type>,
    pub(crate) kernel_constants: HashMap<String, i64>,
    /// Where the kernel has what is named.
    pub(crate) kernel_symbols: HashMap<String, u64>,
    /// Conditions of `if comptime`, by their starts.
    pub(crate) statics: HashMap<u32, bool>,
    /// Which part of a tuple or a record a member or an index is.
    pub(crate) parts: HashMap<Span, usize>,
    /// Bits of integers, of each in a tuple, where it is known that they have fewer than 64.
    pub(crate) widths: HashMap<Span, Vec<u32>>,
    /// What is cut to fewer bits: parameters of functions by their starts, results by those of the bodies.
    pub(crate) cuts: HashMap<u32, width::Cut>,
    pub(crate) max_strlen: u32,
    pub(crate) max_map_keys: u32,
    pub(crate) max_cat_bytes: u32,
    pub(crate) prints_maps: bool,
    pub(crate) demangles: bool,
    pub(crate) max_loop_iterations: u32,
    pub(crate) missing_probes: MissingProbes,
}

/// One function of the module that a clause becomes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Target {
    pub name: String,
    pub trigger: Trigger,
    /// The site that `probe` means where there is no attach cookie (`BEGIN`, `END`, `interval`).
    pub probe_site: Option<u64>,
    /// Of static probes: how each argument that the clause uses is read, the same at all of its sites.
    pub arguments: BTreeMap<u8, FoundArgument>,
    /// The same of fields by their names: `args.size`.
    pub fields: BTreeMap<String, FoundArgument>,
    /// The same of fields of the kernel's events: where in what the program is given.
    pub kernel_fields: BTreeMap<String, Member>,
    /// Where what the kernel's function returns is in that.
    pub kernel_result: Option<Member>,
    /// What the kernel's programs are given.
    pub kernel_context: TypeId,
}

/// Checks a script. `None` if a diagnostic is an error.
pub(crate) fn check(
    script: &Script,
    options: &Options,
    world: &dyn World,
) -> (Option<Checked>, Vec<Diagnostic>) {
    let mut fixed = Vec::new();
    let settings = config::settings(script.config.as_ref(), options, &mut fixed);
    if script.clauses.is_empty() && !script.incomplete {
        let hint = "a program is `probe { statements }`, such as `BEGIN { printf(\"hello\\n\"); }`";
        fixed.push(Diagnostic::error(Span::new(0, 0), "the script has no probe").with_hint(hint));
    }
    let attached = attach_all(script, options, &settings, world, &mut fixed);
    let (declarations, faults) = match script.c.is_empty() && options.headers.is_empty() {
        true => (weir_header::Declarations::plain(), Vec::new()),
        false => weir_header::read(&script.c, &options.headers, world),
    };
    fixed.extend(faults);
    let known = Known {
        params: options.params.clone(),
        named: options.named.clone(),
        has_command: options.has_command,
        allows_unsafe: options.allows_unsafe,
        has_truths: options.has_truths,
        declarations,
        cpus: world.cpus(),
        stack_mode: settings.stack_mode,
    };
    let mut checker = Checker::new(&settings, &known, script.incomplete, world);
    checker.kernel = options.kernel;
    checker.rooms = rooms(&script.maps, &known, &mut fixed);
    let mut rounds = 0;
    loop {
        rounds += 1;
        checker.begin_round();
        for (clause, attached) in script.clauses.iter().zip(&attached) {
            checker.clause(clause, attached);
        }
        checker.ask(&attached);
        if !checker.changed || rounds == limits::INFERENCE_ROUNDS_MAX {
            break;
        }
    }
    checker.finish(rounds);
    if !script.incomplete {
        for (name, _) in options.named.iter().filter(|(name, _)| !checker.named.contains(name)) {
            let message = format!("the script has no parameter `--{name}`");
            let hint = match weir_source::nearest(name, checker.named.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `--{near}`?"),
                None => "it asks for its parameters with `getopt`".to_owned(),
            };
            fixed.push(Diagnostic::error(Span::new(0, 0), message).with_hint(hint));
        }
    }
    let mut diagnostics = fixed;
    diagnostics.append(&mut checker.diagnostics);
    if options.kernel != Kernel::Checked {
        diagnostics.extend(checker.of_kernel.iter().map(|(_, diagnostic)| diagnostic.clone()));
    }
    diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    diagnostics.dedup();
    if diagnostics.iter().any(|d| d.severity == Severity::Error) || script.incomplete {
        return (None, diagnostics);
    }
    let mut sites = Vec::new();
    let mut targets = Vec::new();
    for (index, attached) in attached.into_iter().enumerate() {
        if checker.of_kernel.iter().any(|(clause, _)| *clause == index) {
            targets.push(Vec::new());
            continue;
        }
        let names_probe = checker.names_probe.contains(&index);
        let used = checker.used.remove(&index).unwrap_or_default();
        let events = checker.events.remove(&index).unwrap_or_default();
        let clause = &script.clauses[index];
        let in_kernel = checker.kernel_targets((index, &attached), &clause.probes, &used.fields, &mut sites);
        let mut found = clause_targets(clause, attached, names_probe, (&used, &events), &mut sites);
        found.extend(in_kernel);
        too_many_shapes(clause, &found, &mut diagnostics);
        targets.push(found);
    }
    too_many_comparisons(&checker.name_comparisons, &sites, &mut diagnostics);
    if diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return (None, diagnostics);
    }
    let names =
        |(clause, all): (usize, Vec<(Name, Span)>)| (clause, all.into_iter().map(|(name, _)| name).collect());
    let wide = checker.wide.into_iter().map(names).collect();
    let checked = Checked {
        maps: checker.maps.iter().map(map::MapState::schema).collect(),
        variables: checker.variables,
        targets,
        wide,
        sites,
        types: checker.types,
        type_ids: checker.type_ids,
        field_types: checker.field_types,
        whole_args: checker.whole_args,
        sizes: checker.sizes,
        infos: checker.infos,
        results: checker.results,
        kernel_types: checker.kernel_types,
        kernel_constants: checker.kernel_constants,
        kernel_symbols: checker.kernel_symbols,
        statics: checker.statics,
        parts: checker.parts,
        widths: checker.widths,
        cuts: checker.cuts,
        known,
        max_strlen: settings.max_strlen,
        max_map_keys: settings.max_map_keys,
        max_cat_bytes: settings.max_cat_bytes,
        prints_maps: settings.prints_maps,
        demangles: settings.demangles,
        max_loop_iterations: settings.max_loop_iterations,
        missing_probes: settings.missing_probes,
    };
    (Some(checked), diagnostics)
}

/// What maps are declared to have room for.
fn rooms(
    declarations: &[MapDeclaration],
    known: &Known,
    diagnostics: &mut Vec<Diagnostic>,
) -> HashMap<String, MapRoom> {
    let mut found: HashMap<String, MapRoom> = HashMap::new();
    for declaration in declarations {
        let MapDeclaration { map, kind, entries } = declaration;
        let mut fault = |span, message: String, hint: &str| {
            diagnostics.push(Diagnostic::error(span, message).with_hint(hint));
        };
        let evicts = match kind.text.as_str() {
            "hash" | "percpuhash" => false,
            "lruhash" | "percpulruhash" => true,
            other => {
                let message = format!("`{other}` is no kind of map");
                fault(kind.span, message, "kinds are hash, lruhash, percpuhash and percpulruhash");
                continue;
            }
        };
        let (least, most) = limits::MAX_MAP_KEYS_RANGE;
        let number = entries.as_ref().and_then(|entries| constant(entries, known));
        let Some(number) = number.filter(|number| (i128::from(least)..=most.into()).contains(number)) else {
            let span = entries.as_ref().map_or(kind.span, |entries| entries.span);
            let message = format!("`{}` takes a constant from {least} to {most}", kind.text);
            fault(span, message, "it is how many entries the map has at most: `let @name = hash(100);`");
            continue;
        };
        if found.insert(map.text.clone(), MapRoom { entries: number as u32, evicts }).is_some() {
            fault(map.span, format!("`{}` is declared twice", map.text), "declare it once");
        }
    }
    found
}

/// A comparison with a name becomes one comparison for each site of that name.
fn too_many_comparisons(
    comparisons: &[NameComparison],
    sites: &[SiteName],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut counts: HashMap<(bool, &str), usize> = HashMap::new();
    if !comparisons.is_empty() {
        for site in sites {
            *counts.entry((true, &site.func)).or_default() += 1;
            *counts.entry((false, &site.probe)).or_default() += 1;
        }
    }
    for comparison in comparisons {
        let count = counts.get(&(comparison.of_func, comparison.text.as_str())).copied().unwrap_or(0);
        if count > limits::SITE_COMPARISONS_MAX {
            let limit = limits::SITE_COMPARISONS_MAX;
            let message = format!("`{}` is the name of {count} sites, the limit is {limit}", comparison.text);
            let hint = "write a clause for these probes of their own";
            diagnostics.push(Diagnostic::error(comparison.span, message).with_hint(hint));
        }
    }
}

/// What each probe of each clause attaches to. A probe that is missing, and may be, attaches to nothing.
fn attach_all(
    script: &Script,
    options: &Options,
    settings: &Settings,
    world: &dyn World,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Vec<(usize, Attach)>> {
    let mut all = Vec::new();
    let mut sites = 0u64;
    let mut too_many = false;
    let mut named = Vec::new();
    let before = diagnostics.len();
    for clause in &script.clauses {
        let mut attached = Vec::new();
        let mut of_patterns = Vec::new();
        for (index, probe) in clause.probes.iter().enumerate() {
            if too_many {
                break;
            }
            match attach::resolve(probe, options, world) {
                Ok(attach) => {
                    diagnostics.extend(named_twice(probe, &attach, &mut named));
                    sites += match &attach {
                        Attach::Functions(found) | Attach::Returns(found) => found.len() as u64,
                        Attach::Places(found) => found.len() as u64,
                        Attach::Statics(found) => found.len() as u64,
                        Attach::InWeir(_) => 0,
                        Attach::Kernel { events, .. } => events.len() as u64,
                    };
                    if sites > settings.max_probes {
                        too_many = true;
                        let message = format!(
                            "too many places to probe: {sites}, the limit is {}",
                            settings.max_probes
                        );
                        let most = limits::MAX_PROBES_RANGE.1;
                        let hint = match settings.max_probes < most {
                            true => format!(
                                "narrow the pattern, or write `config = {{ max_probes = N }}`, N up to {most}"
                            ),
                            false => format!("narrow the pattern: no run probes more than {most} places"),
                        };
                        diagnostics.push(Diagnostic::error(probe.span, message).with_hint(hint));
                    }
                    attached.push((index, attach));
                }
                Err(Fault::Written(diagnostic)) => diagnostics.push(diagnostic),
                Err(Fault::Missing(diagnostic)) => match settings.missing_probes {
                    MissingProbes::Error if attach::is_of_pattern(probe) => of_patterns.push(diagnostic),
                    MissingProbes::Error => diagnostics.push(diagnostic),
                    MissingProbes::Warn => {
                        diagnostics.push(Diagnostic { severity: Severity::Warning, ..diagnostic })
                    }
                    MissingProbes::Ignore => {}
                },
            }
        }
        // As in bpftrace: what a pattern may mean beside others may also be nothing.
        let severity = if attached.is_empty() { Severity::Error } else { Severity::Warning };
        diagnostics.extend(of_patterns.into_iter().map(|diagnostic| Diagnostic { severity, ..diagnostic }));
        all.push(attached);
    }
    attach::leave_out_moved(&mut all);
    let none = all.iter().all(Vec::is_empty);
    let faulty = diagnostics[before..].iter().any(|d| d.severity == Severity::Error);
    if none && !faulty && !script.clauses.is_empty() {
        let message = "none of the script's probes attaches to anything";
        diagnostics.push(
            Diagnostic::error(script.clauses[0].span, message).with_hint("check the names of the probes"),
        );
    }
    all
}

/// A test's name, or a benchmark's, is one's own.
fn named_twice<'a>(
    probe: &'a Probe,
    attach: &Attach,
    named: &mut Vec<(Asked, &'a str)>,
) -> Option<Diagnostic> {
    let Attach::InWeir(Trigger::Asked { by: by @ (Asked::Test | Asked::Bench) }) = attach else {
        return None;
    };
    let [_, name] = &probe.parts[..] else { return None };
    let row = (*by, name.text.as_str());
    if named.contains(&row) {
        let message = format!("`{}` is the name of more than one probe", name.text.escape_debug());
        return Some(Diagnostic::error(name.span, message).with_hint("give each a name of its own"));
    }
    named.push(row);
    None
}

fn too_many_shapes(clause: &Clause, targets: &[Target], diagnostics: &mut Vec<Diagnostic>) {
    let shapes = targets.iter().filter(|target| matches!(target.trigger, Trigger::Usdt { .. })).count();
    let limit = limits::ARGUMENT_SHAPES_MAX;
    if shapes > limit {
        let message = format!(
            "the arguments that the clause uses lie in {shapes} different ways at its probes, the limit is {limit}"
        );
        let hint = "narrow the pattern, or use fewer arguments";
        diagnostics.push(Diagnostic::error(clause.span, message).with_hint(hint));
    }
}

/// The functions of a clause: one for each probe that runs in weir itself, one for all probed functions together, and
/// one for all static probes that have the `used` arguments in the same places. Functions have all fields in the same places.
fn clause_targets(
    clause: &Clause,
    attached: Vec<(usize, Attach)>,
    names_probe: bool,
    (used, events): (&argument::Used, &[field::Event]),
    sites: &mut Vec<SiteName>,
) -> Vec<Target> {
    let mut targets = Vec::new();
    let (mut entries, mut returns) = (Functions::default(), Functions::default());
    let mut shapes = argument::Shapes::default();
    for (index, attach) in attached {
        let probe = &clause.probes[index];
        let name = attach::display(probe, &attach);
        let trigger = match attach {
            Attach::InWeir(trigger) => trigger,
            Attach::Functions(found) => {
                entries.add("uprobe", (name, attach::language(probe)), found, sites);
                continue;
            }
            Attach::Places(found) => {
                entries.add_places(name, found, sites);
                continue;
            }
            Attach::Returns(found) => {
                returns.add("uretprobe", (name, attach::language(probe)), found, sites);
                continue;
            }
            Attach::Statics(found) => {
                for place in found {
                    shapes.add(&name, place, used, sites);
                }
                continue;
            }
            // They are targets of their own.
            Attach::Kernel { .. } => continue,
        };
        let probe_site = names_probe.then(|| {
            sites.push(SiteName { probe: name.clone(), func: String::new() });
            sites.len() as u64 - 1
        });
        targets.push(Target {
            name,
            trigger,
            probe_site,
            arguments: BTreeMap::new(),
            fields: BTreeMap::new(),
            kernel_fields: BTreeMap::new(),
            kernel_result: None,
            kernel_context: CTypes::VOID,
        });
    }
    let fields = field::of_functions(events, used);
    targets.extend(entries.target(|sites| Trigger::Uprobe { sites }, fields));
    targets.extend(returns.target(|sites| Trigger::Uretprobe { sites }, BTreeMap::new()));
    targets.extend(shapes.targets());
    targets
}

/// The functions of a clause that are probed in one way.
#[derive(Default)]
struct Functions {
    /// Attach points, as they were written.
    written: Vec<String>,
    sites: Vec<SiteSpec>,
}

impl Functions {
    /// Adds what the attach point `written` found, in that language where it names one; gives each an attach cookie.
    fn add(
        &mut self,
        kind: &str,
        (written, language): (String, Option<&str>),
        found: Vec<FoundFunction>,
        names: &mut Vec<SiteName>,
    ) {
        let by_pattern = attach::is_pattern(&written);
        self.written.push(written);
        for FoundFunction { binary, name, shown, .. } in found {
            let cookie = names.len() as u64;
            let probe = match language {
                Some(language) => format!("{kind}:{binary}:{language}:{name}"),
                None => format!("{kind}:{binary}:{name}"),
            };
            names.push(SiteName { probe, func: shown });
            self.sites.push(SiteSpec { binary, function: name, address: None, cookie, by_pattern });
        }
    }

    fn add_places(&mut self, written: String, found: Vec<FoundPlace>, names: &mut Vec<SiteName>) {
        self.written.push(written);
        for FoundPlace { binary, name, function, address } in found {
            let cookie = names.len() as u64;
            names.push(SiteName { probe: format!("uprobe:{binary}:{name}"), func: function });
            let address = Some(address);
            self.sites.push(SiteSpec { binary, function: name, address, cookie, by_pattern: false });
        }
    }

    fn target(
        self,
        trigger: fn(Vec<SiteSpec>) -> Trigger,
        fields: BTreeMap<String, FoundArgument>,
    ) -> Option<Target> {
        let (name, trigger) = (self.written.join(","), trigger(self.sites));
        let has_any = !trigger.sites().is_empty();
        has_any.then(|| Target {
            name,
            trigger,
            probe_site: None,
            arguments: BTreeMap::new(),
            fields,
            kernel_fields: BTreeMap::new(),
            kernel_result: None,
            kernel_context: CTypes::VOID,
        })
    }
}

/// The state of the inference.
pub(crate) struct Checker<'a> {
    settings: &'a Settings,
    known: &'a Known,
    world: &'a dyn World,
    /// C types that the script names.
    types: CTypes,
    /// What names of types mean, by their starts.
    type_ids: HashMap<u32, TypeId>,
    /// Types of `args.name` that are pointers, by their starts.
    field_types: HashMap<(u32, String), Type>,
    whole_args: HashMap<u32, Vec<String>>,
    /// Of `sizeof` and `offsetof`, by their starts.
    sizes: HashMap<u32, u64>,
    /// Bytes of the strings that variables and maps keep.
    lengths: HashMap<length::Holder, u32>,
    /// What `typeinfo` says, by its start.
    infos: HashMap<u32, TypeInfo>,
    results: HashMap<u32, Type>,
    statics: HashMap<u32, bool>,
    /// Functions around what is being read, innermost last.
    calls: Vec<inline::Call>,
    /// Which part of a tuple or a record a member or an index is.
    parts: HashMap<Span, usize>,
    /// Bits of integers, of each in a tuple.
    widths: HashMap<Span, Vec<u32>>,
    /// The same of what variables and maps keep.
    held: HashMap<length::Holder, width::Held>,
    cuts: HashMap<u32, width::Cut>,
    /// Of the clause's probes.
    binaries: Vec<String>,
    /// Records that clauses of binaries name and the script does not declare: where first, and the first binary.
    tags: BTreeMap<String, (Span, String)>,
    /// Records that were looked up by their names, and are the kernel's.
    from_kernel: BTreeSet<String>,
    incomplete: bool,
    maps: Vec<map::MapState>,
    /// Of maps that are declared.
    rooms: HashMap<String, MapRoom>,
    variables: HashMap<u32, Type>,
    /// Something was found in this round that earlier text did not know.
    changed: bool,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    scopes: Vec<Vec<Scoped>>,
    /// Variables of the clause's blocks that have ended.
    ended: Vec<Scoped>,
    /// Variables that are the whole clause's although a block assigns them first, by clause, and where they are read.
    wide: HashMap<usize, Vec<(Name, Span)>>,
    /// Loops around what is being read.
    loops: u32,
    /// The clause that is being read, and what of it is not at a probed function.
    clause: usize,
    outside: Option<(Span, String)>,
    /// A probe of the clause that is at no return.
    not_return: Option<(Span, String)>,
    /// A probe of the clause that is at a return.
    at_return: Option<(Span, String)>,
    /// Clauses that use `probe`.
    names_probe: Vec<usize>,
    /// The arguments and fields that each clause uses.
    used: HashMap<usize, argument::Used>,
    /// What each clause's events have of fields, where they were asked for.
    events: HashMap<usize, Vec<field::Event>>,
    /// Clauses for which that is to be asked.
    asked: Vec<usize>,
    /// What the probes of the clause have of arguments.
    arguments: argument::Arguments,
    /// Reads of variables whose type is not known.
    unknown_reads: Vec<(Span, String)>,
    /// Names of probes or functions that are compared with text.
    name_comparisons: Vec<NameComparison>,
    /// Parameters that the script asks for.
    named: BTreeSet<String>,
    /// What is of the kernel, with the clause that it is in.
    of_kernel: Vec<(usize, Diagnostic)>,
    /// Of the clauses that have probes of the kernel.
    kernel_events: HashMap<usize, Vec<kernel::Event>>,
    kernel_types: HashMap<String, Type>,
    kernel_constants: HashMap<String, i64>,
    kernel_symbols: HashMap<String, u64>,
    /// What becomes of what is the kernel's.
    kernel: Kernel,
}

/// `func == "malloc"`.
struct NameComparison {
    span: Span,
    of_func: bool,
    text: String,
}

/// A scratch variable in scope.
struct Scoped {
    name: String,
    declared: Span,
    /// By an assignment, and not by `let`.
    is_assigned: bool,
}

impl<'a> Checker<'a> {
    fn new(settings: &'a Settings, known: &'a Known, incomplete: bool, world: &'a dyn World) -> Checker<'a> {
        Checker {
            settings,
            known,
            world,
            types: known.declarations.types.clone(),
            type_ids: HashMap::new(),
            field_types: HashMap::new(),
            whole_args: HashMap::new(),
            sizes: HashMap::new(),
            lengths: HashMap::new(),
            infos: HashMap::new(),
            results: HashMap::new(),
            statics: HashMap::new(),
            calls: Vec::new(),
            parts: HashMap::new(),
            widths: HashMap::new(),
            held: HashMap::new(),
            cuts: HashMap::new(),
            binaries: Vec::new(),
            tags: BTreeMap::new(),
            from_kernel: BTreeSet::new(),
            incomplete,
            maps: Vec::new(),
            rooms: HashMap::new(),
            variables: HashMap::new(),
            changed: false,
            diagnostics: Vec::new(),
            errors: 0,
            warnings: 0,
            scopes: Vec::new(),
            ended: Vec::new(),
            wide: HashMap::new(),
            loops: 0,
            clause: 0,
            outside: None,
            not_return: None,
            at_return: None,
            names_probe: Vec::new(),
            used: HashMap::new(),
            events: HashMap::new(),
            asked: Vec::new(),
            arguments: argument::Arguments::default(),
            unknown_reads: Vec::new(),
            name_comparisons: Vec::new(),
            named: BTreeSet::new(),
            of_kernel: Vec::new(),
            kernel_events: HashMap::new(),
            kernel_types: HashMap::new(),
            kernel_constants: HashMap::new(),
            kernel_symbols: HashMap::new(),
            kernel: Kernel::default(),
        }
    }

    fn begin_round(&mut self) {
        self.changed = false;
        self.diagnostics.clear();
        (self.errors, self.warnings) = (0, 0);
        self.unknown_reads.clear();
        self.name_comparisons.clear();
        self.of_kernel.clear();
        self.tags.clear();
        self.clause = 0;
    }

    fn clause(&mut self, clause: &Clause, attached: &[(usize, Attach)]) {
        self.arguments = argument::Arguments::of(attached);
        self.binaries = attach::binaries(attached);
        // Last: what binaries have of their own is theirs.
        self.binaries.push(KERNEL.to_string());
        let first = |wanted: fn(&Attach) -> bool| {
            let (index, attach) = attached.iter().find(|(_, attach)| wanted(attach))?;
            let probe = &clause.probes[*index];
            Some((probe.span, attach::display(probe, attach)))
        };
        self.outside = first(|attach| matches!(attach, Attach::InWeir(_)));
        self.not_return = first(|attach| !kernel::gives_result(attach));
        self.at_return = first(kernel::has_no_arguments);
        self.enter_kernel(clause, attached);
        self.scopes = vec![Vec::new()];
        self.ended.clear();
        self.declare_wide();
        if let Some(predicate) = &clause.predicate {
            self.condition(predicate, "a predicate");
        }
        self.block(&clause.body);
        self.clause += 1;
    }

    /// What can be said only after the last round.
    fn finish(&mut self, rounds: usize) {
        self.warn_of_kernel_types();
        let faulty = self.diagnostics.iter().any(|d| d.severity == Severity::Error);
        if self.changed && rounds == limits::INFERENCE_ROUNDS_MAX && !faulty {
            let span = self.maps.first().map_or(Span::default(), |map| map.first);
            let message = "the types of the maps depend on each other in too long a chain";
            self.error(span, message, "assign maps above the text that reads them");
            return;
        }
        let maps =
            self.maps.iter().filter(|map| map.value.is_none()).map(|map| (map.first, map.name.clone()));
        let unknown: Vec<(Span, String)> = maps.chain(std::mem::take(&mut self.unknown_reads)).collect();
        for (span, name) in unknown {
            if !faulty && !self.incomplete {
                let message = format!("the type of `{name}` cannot be found out");
                self.error(span, &message, "assign a number or a string to it first");
            }
        }
        let without_keys = self.maps.iter().filter(|map| map.room.is_some() && map.key == map::Key::Scalar);
        let without_keys: Vec<(Span, String)> =
            without_keys.map(|map| (map.key_span, format!("`{}` is declared with keys", map.name))).collect();
        for (span, message) in without_keys {
            self.error(span, &message, "name one: `@name[key]`; a map without keys needs no declaration");
        }
        let too_large: Vec<(Span, String)> = self.maps.iter().filter_map(map::MapState::too_large).collect();
        for (span, message) in too_large {
            self.error(span, &message, "use shorter strings: `str(p, n)`, or a smaller `max_strlen`");
        }
    }

    fn error(&mut self, span: Span, message: &str, hint: &str) {
        self.push(Diagnostic::error(span, message).with_hint(hint));
    }

    fn warning(&mut self, span: Span, message: &str, hint: &str) {
        self.push(Diagnostic::warning(span, message).with_hint(hint));
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        // Counted apart, so that warnings cannot crowd out the error that keeps a script from being lowered.
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if *count < limits::DIAGNOSTICS_GATHERED_MAX {
            *count += 1;
            self.diagnostics.push(diagnostic);
        }
    }

    /// There are so many errors that the rest need not be looked at.
    fn has_given_up(&self) -> bool {
        self.errors == limits::DIAGNOSTICS_GATHERED_MAX
    }
}

/// For messages: the type that was put into a map before.
fn already(value: &MapValue, types: &CTypes) -> String {
    format!("first assigned {} here", crate::types::describe_map(value, types))
}

/// For messages: a key's type.
fn describe_key(key: Option<&Type>, types: &CTypes) -> String {
    key.map_or_else(|| "no key".to_string(), |key| format!("the key {}", describe(key, types)))
}
