//! From a script, or from rules of a recording, to a run that is ready to begin. Nothing is touched: processes are looked at, files are read.
//!
//! In three steps, each of which says what it has found: [`Front`] compiles, [`Planned`] has programs and places, [`Run`] has all that can fail before a
//! process is attached to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use nix::sys::signal::SigSet;
use weir_codegen::Compiled;
use weir_filter::Dialect;
use weir_ir::Module;
use weir_ir::sides::{Conflict, Sides};
use weir_kernel::Features;
use weir_policy::guard::Guard;
use weir_policy::notes;
use weir_process::groups::Groups;
use weir_rt::Clock;
use weir_sessions::rule::Rule;
use weir_source::{Diagnostic, SourceFile};

use crate::decider::Decider;
use crate::event::Event;
use crate::explain::Explained;
use crate::failure::{Failure, NoEvent};
use crate::flight::Flight;
use crate::kernel::stand_in::{self, StandIns};
use crate::notice::{About, Notice, Notices, note};
use crate::options::{Engine, Options, RecordOptions, TriggerOptions};
use crate::plan::{Given, Half, Plan};
use crate::probe_filter::ProbeFilter;
use crate::recorder::Recorder;
use crate::recording::{self, Recording};
use crate::shared::{Shared, label};
use crate::subjects::Subjects;
use crate::triggers::Triggers;
use crate::{emit, explain, filtered, kernel, required, stages};
use weir_world::{Binaries, Later, binaries, binaries_of_program, places};

/// What is to run at events: a script, or recording.
#[derive(Debug)]
pub struct Script {
    source: SourceFile,
    parameters: Vec<String>,
    recording: Option<Recording>,
}

impl Script {
    /// `name` is what messages call the text.
    pub fn new(name: &str, text: &str) -> Script {
        Script::with_parameters(SourceFile { name: name.to_owned(), text: text.to_owned() }, Vec::new())
    }

    /// With the words that `$1`, `$2` … mean.
    pub fn with_parameters(source: SourceFile, parameters: Vec<String>) -> Script {
        Script { source, parameters, recording: None }
    }

    /// Records events. `options` are those of the run.
    pub fn recording(record: RecordOptions, options: &Options) -> Result<Script, Failure> {
        let recording = Recording::new(record, options)?;
        Ok(Script { source: recording.source(), parameters: Vec::new(), recording: Some(recording) })
    }

    /// What the spans of [`Failure::Script`] are in.
    pub fn source(&self) -> &SourceFile {
        &self.source
    }
}

/// The text form of a script's syntax tree.
pub fn syntax(source: &SourceFile) -> Result<String, Failure> {
    emit::ast(source)
}

/// A script in weir's style, or what keeps it from being read.
pub fn formatted(source: &SourceFile) -> Result<String, Failure> {
    weir_script::format(source).map_err(Failure::Script)
}

/// Whether a rule can be read: its events are some, its filter is one. What they name is not looked for.
pub fn check_rule(rule: &Rule) -> Result<(), Failure> {
    recording::check(rule)
}

/// The same of what events are to do beside. `snapshot_on`: as in [`SnapshotOptions::on`](crate::SnapshotOptions::on).
pub fn check_triggers(
    triggers: &TriggerOptions,
    snapshot_on: Option<&str>,
    dialect: Dialect,
) -> Result<(), Failure> {
    Triggers::given(snapshot_on, triggers, dialect).map(drop)
}

/// Compiles a script for no process in particular, and verifies it.
pub fn compile(source: &SourceFile, parameters: &[String], notices: &Notices) -> Result<Compiled, Failure> {
    let mut warn = |warnings: &[Diagnostic]| warned(notices, source, warnings);
    let options = weir_script::Options { params: parameters.to_vec(), ..weir_script::Options::default() };
    let module = stages::front(source, &options, &binaries(None)?, &mut warn)?;
    let options = weir_codegen::Options { counts_hits: false, ..weir_codegen::Options::default() };
    Ok(stages::back(&module, &options, None, &weir_codegen::Part::WHOLE, source)?.0)
}

/// The events that an attach point such as `usdt:./app:provider:name` means.
pub fn events(attach_point: &str) -> Result<Vec<Event>, Failure> {
    let source = SourceFile { name: "--event".to_owned(), text: format!("{attach_point} {{ exit(); }}") };
    let world = binaries(None)?;
    let shown = |failure: Failure| match failure {
        Failure::Script(faults) => {
            Failure::Text(SourceFile { text: attach_point.to_owned(), ..source.clone() }, faults)
        }
        other => other,
    };
    let module =
        stages::front(&source, &weir_script::Options::default(), &world, &mut |_| ()).map_err(shown)?;
    let events: Vec<Event> =
        module.functions.iter().flat_map(|clause| crate::event::events(clause, &world)).collect();
    match events.is_empty() {
        false => Ok(events),
        true => Err(Failure::Refused(anyhow!(
            "--event {attach_point}: filters are for events; write `usdt:BINARY:PROVIDER:NAME`, \
             `uprobe:BINARY:FUNCTION` or `uretprobe:BINARY:FUNCTION`"
        ))),
    }
}

fn warned(notices: &Notices, source: &SourceFile, warnings: &[Diagnostic]) {
    if !warnings.is_empty() {
        notices.send(Notice::Warnings { source: source.clone(), warnings: warnings.to_vec() });
    }
}

/// A script that is compiled as far as it depends on no machine.
pub struct Front {
    given: Given,
    subjects: Subjects,
    pid: Option<i32>,
    world: Binaries,
    module: Module,
    notices: Notices,
    /// Its rate is known by when the target runs.
    clock: Option<Clock>,
    began: Instant,
}

impl Given {
    /// A script of the kernel that has clauses of processes as well runs on both sides, if each map can be on one, or be added up.
    fn split(&mut self, subjects: &Subjects, notices: &Notices) -> Result<(), Failure> {
        // It is compiled again for how it is to run, and what it warns of is said then.
        let Ok((_, _, module)) = first(self, subjects, &Notices::ignored()) else { return Ok(()) };
        match Sides::of(&module, &BTreeMap::new(), &weir_kernel::shares_maps) {
            Ok(_) => {
                kernel::refuse_of_half(&self.options)?;
                (self.kernel, self.is_split) = (None, true);
            }
            Err(Conflict { map }) if !self.options.is_quiet() => note!(
                notices,
                Probes,
                "{map} is needed in the kernel and in processes: all of the script runs in the kernel, and each hit of a function traps"
            ),
            Err(_) => {}
        }
        Ok(())
    }
}

impl Front {
    /// Finds the processes, and what the script means for the first of them.
    pub fn new(script: Script, options: Options, notices: Notices) -> Result<Front, Failure> {
        let events = match options.engine {
            // What a script only looks at is of no engine.
            Engine::Auto if !options.checks_alone && script.recording.is_none() => {
                let places =
                    Binaries::of_machine(None, places()).with_headers(options.header_folders.clone());
                weir_script::events(&script.source, &places)
            }
            engine => weir_script::Events { of_kernel: engine == Engine::Kernel, of_processes: false },
        };
        if options.command.is_some() && options.names_processes() {
            return Err(Failure::Usage(anyhow!(
                "a run is of a command that it starts, or of processes, not of both"
            )));
        }
        let (clock, began) = (Clock::start(), Instant::now());
        let filter = filtered::text(&options)?;
        let decider = Decider::given(&options)?;
        let probes = ProbeFilter::new(options.mode, options.probe_filter.as_deref())?;
        let kernel = events.of_kernel.then(Features::of_kernel);
        let Script { source, parameters, mut recording } = script;
        if let Some(recording) = &mut recording {
            recording.is_filtered_by(&options);
        }
        let mut given = Given {
            options,
            source,
            parameters,
            filter,
            probes,
            decider,
            recording,
            kernel,
            is_split: false,
            stands_in: BTreeMap::new(),
            obstacle: None,
            later: Later::default(),
        };
        let subjects = Subjects::find(&given.options)?;
        if events.of_kernel && events.of_processes {
            given.split(&subjects, &notices)?;
        }
        // Of a script that is wrong its faults are said first.
        let refused = match given.kernel {
            Some(_) => kernel::refuse(&given.options, given.recording.is_some()),
            None => Ok(()),
        };
        let (pid, world, module) = first(&given, &subjects, &notices)?;
        refused?;
        if given.kernel.is_some() {
            kernel::check(&module, &given.options)
                .map_err(|(failure, clause)| failure.at(clause, &given.source))?;
        }
        Ok(Front { given, subjects, pid, world, module, notices, clock, began })
    }

    /// The text form of the intermediate representation.
    pub fn ir(&self) -> String {
        weir_ir::text::print(&self.module)
    }

    /// Compiles and verifies the programs, and plans each place.
    pub fn plan(self) -> Result<Planned, Failure> {
        let (compiled, verified) = self.given.back(&self.module)?;
        let found = Instant::now();
        let missing = self.module.missing_probes;
        let sites = stages::sites(&compiled, missing, &self.world).map_err(Failure::Refused)?;
        if self.given.options.is_verbose() {
            self.notices.send(Notice::Compiled {
                places: sites.len(),
                what: stages::places(&sites),
                compiled: found - self.began,
                planned: found.elapsed(),
            });
        }
        let plan = Plan::new(compiled, verified, sites, missing);
        let is_refused = plan.sites.iter().any(|site| stand_in::refusal(site).is_some());
        match self.given.kernel.is_none() && is_refused {
            true => self.with_stand_ins(plan),
            false => self.planned(plan),
        }
    }

    /// The kernel stands in at places that cannot be patched, if it can; all of the script runs there, where a map that both sides need leaves no choice.
    fn with_stand_ins(mut self, mut plan: Plan) -> Result<Planned, Failure> {
        let is_recording = self.given.recording.is_some();
        if let Some(when) = stand_in::obstacle(&self.module, &self.given.options, is_recording)? {
            self.given.obstacle = Some(format!("a uprobe of the kernel stands in for a patch {when}"));
            return self.planned(plan);
        }
        let features = Features::of_kernel();
        let found = StandIns::of(&plan, features);
        let conflict = Sides::of(&self.module, &found.sides, &weir_kernel::shares_maps)
            .err()
            .map(|Conflict { map }| map);
        // What only a pattern means is rather left out than that each hit of all else traps.
        if found.sides.is_empty() || conflict.is_some() && !found.insist(&plan) {
            self.given.obstacle = stand_in::refused(&plan);
            return self.planned(plan);
        }
        let stands_in = found.sides.clone();
        found.put(&mut plan);
        self.given.obstacle = stand_in::refused(&plan);
        if !self.given.options.is_quiet() {
            let has_others = plan.sites.iter().any(|site| !site.is_exit);
            let map = conflict.as_deref().filter(|_| has_others);
            let text = stand_in::report(&plan.stand_ins, map, self.given.options.is_verbose());
            note!(self.notices, Probes, "{text}");
        }
        let is_all = plan.sites.is_empty() && !self.given.is_split;
        if is_all || conflict.is_some() {
            (self.given.kernel, self.given.is_split) = (Some(features), false);
            // What there is to warn of was said.
            let (_, _, module) = first(&self.given, &self.subjects, &Notices::ignored())?;
            kernel::check(&module, &self.given.options)
                .map_err(|(failure, clause)| failure.at(clause, &self.given.source))?;
            return Front { module, ..self }.plan();
        }
        (self.given.stands_in, self.given.is_split) = (stands_in, true);
        (plan.compiled, plan.verified) = self.given.back(&self.module)?;
        self.planned(plan)
    }

    fn planned(self, plan: Plan) -> Result<Planned, Failure> {
        let half = self.given.half(&self.module, &plan.compiled)?;
        let Front { given, subjects, pid, world, module, notices, clock, .. } = self;
        Ok(Planned { given, subjects, pid, world, module, plan, half, notices, clock })
    }
}

/// A script as programs and places.
pub struct Planned {
    given: Given,
    subjects: Subjects,
    pid: Option<i32>,
    world: Binaries,
    module: Module,
    plan: Plan,
    /// What runs in the kernel, where the rest does not.
    half: Option<Half>,
    notices: Notices,
    clock: Option<Clock>,
}

impl Planned {
    /// The text form of the eBPF programs.
    pub fn ebpf(&self) -> String {
        weir_ebpf::asm::print(&self.plan.compiled.object)
    }

    /// One line a place: where, how it would be patched and its return caught, or why not.
    pub fn sites(&self) -> String {
        emit::sites(&self.plan)
    }

    /// The machine code of each program.
    pub fn asm(&self) -> Result<String, Failure> {
        emit::asm(&self.plan, self.pid)
    }

    /// What the run would do; nothing is attached, started or stopped.
    pub fn explain(&self) -> Result<Explained, Failure> {
        let Planned { given, pid, world, module, plan, half, .. } = self;
        explain::explain((plan, half.as_ref()), module, given, *pid, world)
    }

    /// Makes all that can fail before a process is touched.
    pub fn ready(self) -> Result<Run, Failure> {
        let Planned { given, subjects, pid, plan, half, notices, clock, module, .. } = self;
        if given.options.checks_alone {
            return Err(Failure::Usage(anyhow!("the script was compiled to be checked alone")));
        }
        match given.kernel {
            None => required::feasible(&plan).map_err(|failure| {
                let failure = match (failure, &given.obstacle) {
                    (Failure::Refused(error), Some(why)) if given.recording.is_none() => {
                        Failure::Refused(anyhow!("{error}\n{why}"))
                    }
                    (failure, _) => failure,
                };
                let clause = required::blamed(&plan).map(|program| module.functions[program].span);
                match clause.filter(|_| given.recording.is_none()) {
                    Some(clause) => failure.at(clause, &given.source),
                    None => failure,
                }
            })?,
            Some(_) => kernel::check_namespace(&given.options)?,
        }
        if half.is_some() {
            kernel::check_namespace(&given.options)?;
        }
        let names_nobody = subjects.selection.is_empty() && given.options.command.is_none();
        let is_for_any = names_nobody && given.kernel.is_none() && given.recording.is_none();
        let subjects = match is_for_any && !plan.sites.is_empty() {
            true => subjects.of_any(&given.options, &plan, &notices)?,
            false => subjects,
        };
        if given.kernel.is_none() {
            required::placed(&given.options, &plan, &subjects)?;
        }
        let probes = label(&plan.compiled, given.session_name());
        let warned = notices.clone();
        let run = notes::Run {
            script: &given.source.text,
            probes: &probes,
            is_verbose: given.options.is_verbose(),
            warn: notes::Warn::with(move |warning| {
                warned.send(Notice::Note { about: About::Recording, text: warning.to_owned() })
            }),
        };
        let groups = match plan.asks_for_group() {
            false => None,
            true => Some(Groups::find(subjects.processes(), Instant::now()).ok_or_else(no_groups)?),
        };
        let guard = Guard::new(given.options.policy.as_deref(), given.options.budget, run)?;
        if half.is_some() {
            kernel::check_policy(&guard)?;
        }
        let (mut recorder, mut flight) = (None, None);
        let is_quiet = given.options.is_quiet();
        if let Some(recording) = &given.recording {
            let (options, fields) = (&recording.options, recording.context_fields());
            match &options.snapshots {
                Some(_) => {
                    flight = Some(Flight::create(options, &plan.compiled, fields, &notices, is_quiet)?)
                }
                None => recorder = Some(Recorder::create(options, &plan.compiled, fields, &notices)?),
            }
        }
        let mask = SigSet::thread_get_mask().context("the signal mask").map_err(Failure::Machine)?;
        let (after, plan) = (RefCell::default(), Rc::new(plan));
        let groups = groups.map(RefCell::new);
        let shared = Shared { given, plan, subjects, guard, groups, after, mask, notices };
        Ok(Run { shared: Rc::new(shared), first: pid, recorder, flight, clock, half })
    }
}

/// A run that is ready to begin.
pub struct Run {
    pub(crate) shared: Rc<Shared>,
    /// The process that the script was compiled for.
    pub(crate) first: Option<i32>,
    /// Where events go.
    pub(crate) recorder: Option<Recorder>,
    /// The same where they stay in the rings.
    pub(crate) flight: Option<Flight>,
    pub(crate) clock: Option<Clock>,
    /// What runs in the kernel, where the rest does not.
    pub(crate) half: Option<Half>,
}

impl Run {
    /// All steps at once. Signals that the calling thread has blocked now are blocked in the command.
    pub fn new(script: Script, options: Options, notices: Notices) -> Result<Run, Failure> {
        Front::new(script, options, notices)?.plan()?.ready()
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("places", &self.plan.sites.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("first", &self.first).finish_non_exhaustive()
    }
}

/// The process that the script is compiled for at first, and what it means there: of those that were given, the first
/// that it means something for. The others are looked at later. Where none was given by its number, one of those that are
/// selected now, or else this machine.
fn first(
    given: &Given,
    subjects: &Subjects,
    notices: &Notices,
) -> Result<(Option<i32>, Binaries, Module), Failure> {
    let warn = &mut |source: &SourceFile, warnings: &[_]| warned(notices, source, warnings);
    if let Some(of) = &given.options.of_program {
        let world = match binaries_of_program(of.pid, &of.program.ld_library_path) {
            Ok(world) => world,
            // It has ended meanwhile, and others may come.
            Err(weir_probe::Error::NoProcess { .. } | weir_probe::Error::TargetGone { .. }) => {
                Binaries::of_machine(Some(of.program.path.clone()), places())
            }
            Err(error) => return Err(error.into()),
        };
        let world = given.with_given(world);
        let module = given.module(&world, warn).map_err(|failure| match failure {
            Failure::Script(_) if world.is_of_machine() => {
                Failure::Refused(anyhow!("process {} has ended before its files were looked at", of.pid))
            }
            // Its events can be read, as was asked where the session got them: none of them is there.
            Failure::Script(_) => Failure::Refused(anyhow!(NoEvent)),
            other => other,
        })?;
        return Ok((Some(of.pid).filter(|_| !world.is_of_machine()), world, module));
    }
    let mut failed = None;
    let pids = &subjects.selection.pids;
    let selected = if pids.is_empty() { subjects.selected() } else { Vec::new() };
    for &pid in pids.iter().chain(&selected) {
        let check = || match given.kernel {
            // It is neither stopped nor changed.
            Some(_) => weir_probe::target::check_program(pid),
            None => weir_probe::target::check(pid),
        };
        let tried = check().map_err(Failure::from).and_then(|()| {
            let world = given.world(Some(pid))?;
            // Of a process that has ended meanwhile there are no files.
            let module = given
                .module(&world, warn)
                .map_err(|failure| check().map_or_else(Failure::from, |()| failure))?;
            Ok((Some(pid), world, module))
        });
        match tried {
            Ok(found) => return Ok(found),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    match failed {
        Some(failure) if !pids.is_empty() => Err(failure),
        failed => {
            let command = given.options.command.as_deref();
            let program = command.and_then(|words| words.first().cloned());
            let world = given.with_given(Binaries::of_machine(program, places()));
            let module = given.module(&world, warn).or_else(|of_machine| {
                // A command that is not there has no probes either.
                if let Some(words) = command {
                    weir_probe::launch::find(words, places().path_env.as_deref())?;
                }
                // What was said of a process says more than what it means for none.
                Err(failed.unwrap_or(of_machine))
            })?;
            Ok((None, world, module))
        }
    }
}

fn no_groups() -> Failure {
    Failure::Refused(anyhow!(
        "the number of a cgroup was asked for (--add-context cgroup_id, `cgroup` in a script, get_current_cgroup_id in a program), and no \
         hierarchy of version 2 is mounted on this machine; leave it out, or mount one (mount -t cgroup2 none DIR)"
    ))
}
