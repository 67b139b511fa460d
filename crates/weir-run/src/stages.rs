//! The stages from text to verified programs and code, one after the other.
//!
//! Holds the values between stages and nothing else: each stage is its crate's function.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use weir_codegen::{Callee, Compiled, Part};
use weir_ebpf::Program;
use weir_ir::{MissingProbes, Module, SiteSpec, StaticSpec, Trigger};
use weir_probe::window::Window;
use weir_probe::{Attach, CalledFunction, Outcome, Place, Refusal, Returns, SiteRequest, When};
use weir_rt::{Executable, SiteAbi};
use weir_source::{Diagnostic, SourceFile};
use weir_symbols::{Binary, Function, FunctionKind, LinkAddr};
use weir_verifier::VerifiedProgram;

use crate::failure::Failure;
use weir_world::{Binaries, LttngProbe};

/// Parses, checks and lowers; warnings go to `warn`.
pub(crate) fn front(
    source: &SourceFile,
    options: &weir_script::Options,
    world: &Binaries,
    warn: &mut dyn FnMut(&[Diagnostic]),
) -> Result<Module, Failure> {
    let (mut module, warnings) = weir_script::compile(source, options, world).map_err(Failure::Script)?;
    warn(&warnings);
    weir_ir::pass::optimise(&mut module);
    Ok(module)
}

/// Compiles to eBPF and verifies every program. `callee`: what clauses may call; `runs`: which of them run in this engine; `source`: what spans are in.
pub(crate) fn back(
    module: &Module,
    options: &weir_codegen::Options,
    callee: Option<&Callee<'_>>,
    part: &Part<'_>,
    source: &SourceFile,
) -> Result<(Compiled, Vec<VerifiedProgram>), Failure> {
    let compiled = weir_codegen::compile_part(module, options, callee, part).map_err(|error| {
        let of_clause = |function: &&weir_ir::Function| error.clause() == Some(&function.name);
        let clause = module.functions.iter().find(of_clause).map(|function| function.span);
        let failure = Failure::Refused(anyhow!(error.clone()));
        clause.map_or_else(|| Failure::Refused(anyhow!(error)), |clause| failure.at(clause, source))
    })?;
    let verify = |program: &Program, function: &weir_ir::Function, declared: &Vec<_>| {
        let mut limits = weir_verifier::Limits::default().with_declared(declared);
        // A front end lets only a script send signals that may act on the system.
        limits.allow_changes = function.sends_signals();
        weir_verifier::verify(program, &compiled.object.maps, &limits)
    };
    let programs = compiled.object.programs.iter().zip(&module.functions).zip(&compiled.declared).enumerate();
    // What is given to a program at an event of the kernel's, the kernel's verifier alone knows: weir's has one that does nothing in its place.
    let verified = programs.map(|(number, ((program, function), declared))| {
        match function.trigger.is_kernel() && (part.runs)(number) {
            true => verify(&weir_codegen::nothing(program.name.clone()), function, declared),
            false => verify(program, function, declared),
        }
    });
    let verified: Result<Vec<_>, _> = verified.collect();
    let verified = verified.map_err(|rejection| match callee {
        // A program of our own compiler that the verifier refuses is our bug; it does not run all the same.
        None => Failure::Bug(anyhow!("{rejection}")),
        // The two are more than one may be.
        Some(_) => Failure::Refused(anyhow!("with the program of --program behind it, {rejection}")),
    })?;
    Ok((compiled, verified))
}

/// One place to patch: its binary, and the programs that run there.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) path: String,
    pub(crate) binary: Rc<Binary>,
    /// Of an instruction the function that it is in, as far as that is known.
    pub(crate) function: Function,
    /// Where the probe is: the function's start, or an instruction such as the `nop` of a static probe.
    pub(crate) address: LinkAddr,
    pub(crate) is_inside: bool,
    /// It is where the function of another site leaves: programs run there as at its return.
    pub(crate) is_exit: bool,
    pub(crate) semaphore: Option<LinkAddr>,
    /// No instruction, but the word before a list of functions that are called there: which one in addition, and its file.
    pub(crate) called: Option<(Rc<Binary>, LttngProbe)>,
    /// The name that the user wrote, or that a wildcard matched.
    pub(crate) name: String,
    /// How it is patched, or why not: what its file says.
    pub(crate) window: Result<Window, Refusal>,
    /// How returns are caught, or why not; none where no program wants to know.
    pub(crate) returns: Option<Result<Returns, Refusal>>,
    pub(crate) programs: Vec<Wanted>,
}

/// A program that is to run at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) program: usize,
    pub(crate) cookie: u64,
    /// `Return`: the clause is for returns alone. The program is one of a session all the same, and only counts at the
    /// entry.
    pub(crate) when: When,
    /// It was asked for by name, and the run is not to begin without it.
    pub(crate) insists: bool,
}

impl Site {
    /// Why a program does not run here as it wants: not at all, or not at the return. `outcome`: of attaching, if that was
    /// tried; else what the file says. What is awaited is not refused.
    pub(crate) fn refusal<'a>(
        &'a self,
        wanted: &Wanted,
        outcome: Option<&'a Outcome>,
    ) -> Option<&'a Refusal> {
        let tried = || outcome?.as_ref().err().filter(|refusal| !refusal.is_awaited());
        let of_place = self.window.as_ref().err().or_else(tried);
        of_place.or_else(|| self.returns_refusal(outcome).filter(|_| wanted.when.wants_return()))
    }

    /// Why its returns are not caught, though a program wants that.
    pub(crate) fn returns_refusal<'a>(&'a self, outcome: Option<&'a Outcome>) -> Option<&'a Refusal> {
        let found_out = || outcome?.as_ref().ok()?.returns_refused.as_ref();
        self.returns.as_ref().and_then(|returns| returns.as_ref().err()).or_else(found_out)
    }

    /// What `refusal` is of: the place, or its return alone.
    pub(crate) fn label(&self, refusal: &Refusal) -> String {
        let what = match (self.is_exit, refusal.is_of_return()) {
            (true, _) => format!(" (return at +{:#x})", self.address.0.wrapping_sub(self.function.address.0)),
            (false, true) => " (return)".to_owned(),
            (false, false) => String::new(),
        };
        self.label_of_place() + &what
    }

    pub(crate) fn label_of_place(&self) -> String {
        format!("{}:{}", self.path, self.name)
    }

    /// To be attached, with programs that are numbered as executables are.
    pub(crate) fn request(&self, programs: Vec<Attach>) -> SiteRequest<'_> {
        let (binary, function, window) = (&*self.binary, &self.function, &self.window);
        SiteRequest {
            binary,
            function,
            window,
            called: self.called.as_ref().map(|(described, probe)| CalledFunction {
                binary: described,
                function: probe.function.1,
                words: probe.words,
                stays: probe.stays,
                listed: probe.listed,
            }),
            semaphore: self.semaphore,
            programs,
            returns: self.returns.clone().filter(|_| !self.has_exits()),
        }
    }

    /// Whether the kernel may put a breakpoint there.
    pub(crate) fn check_breakpoint(&self) -> Result<(), Refusal> {
        weir_probe::check_breakpoint(&self.binary, &self.place())
    }

    fn place(&self) -> Place<'_> {
        if self.called.is_some() {
            return Place::Called(self.address);
        }
        match (self.is_exit, self.is_inside) {
            (true, _) => Place::Exit(self.address),
            (false, true) => Place::Inside(self.address),
            (false, false) => Place::Entry(&self.function),
        }
    }

    /// Its function's returns are caught at its exits, each a site of its own.
    fn has_exits(&self) -> bool {
        self.returns == Some(Ok(Returns::Exits))
    }

    /// One of those.
    fn exit(&self, address: LinkAddr) -> Site {
        let at_return = self.programs.iter().filter(|wanted| wanted.when.wants_return()).copied();
        let (semaphore, returns, programs) = (None, None, at_return.collect());
        let window = Err(Refusal::SizeUnknown);
        Site { address, is_inside: true, is_exit: true, semaphore, window, returns, programs, ..self.clone() }
    }
}

/// How many probes of the script a trigger is.
pub(crate) fn probes_of(trigger: &Trigger) -> usize {
    match trigger {
        // Two clauses of the script.
        Trigger::Session { sites } => 2 * sites.len(),
        probe if probe.is_probe() => probe.cookies().len(),
        _ => 1,
    }
}

/// What to call them together.
pub(crate) fn places<'a>(sites: impl IntoIterator<Item = &'a Site>) -> &'static str {
    if sites.into_iter().any(|site| site.is_inside && !site.is_exit) { "places" } else { "functions" }
}

/// The places that the programs are for, each once, in the order of the script, with the plan of each patch.
pub(crate) fn sites(compiled: &Compiled, missing: MissingProbes, world: &Binaries) -> Result<Vec<Site>> {
    let mut sites: Vec<Site> = Vec::new();
    let mut known: BTreeMap<(String, bool, u64), usize> = BTreeMap::new();
    let mut add = |site: Site, program: Wanted| {
        let key = (site.path.clone(), site.is_inside, site.address.0);
        let semaphore = site.semaphore;
        let index = *known.entry(key).or_insert_with(|| {
            sites.push(site);
            sites.len() - 1
        });
        // A place may be named as an instruction first, and as a static probe then.
        sites[index].semaphore = sites[index].semaphore.or(semaphore);
        sites[index].programs.push(program);
    };
    for (program, trigger) in compiled.triggers.iter().enumerate() {
        let when = match trigger {
            Trigger::Uretprobe { .. } => When::Return,
            Trigger::Session { .. } => When::Session,
            Trigger::Uprobe { .. }
            | Trigger::Usdt { .. }
            | Trigger::Begin
            | Trigger::End
            | Trigger::Interval { .. }
            | Trigger::Asked { .. }
            | Trigger::Kernel { .. }
            | Trigger::Filter => When::Entry,
        };
        let wanted = |cookie, by_pattern: bool| Wanted {
            program,
            cookie,
            when,
            insists: missing == MissingProbes::Error && !by_pattern,
        };
        for spec in trigger.sites() {
            let found = match spec.address {
                Some(address) => {
                    vec![inside_site(&spec.binary, spec.function.clone(), LinkAddr(address), world)?]
                }
                None => functions_of(spec, world)?,
            };
            found.into_iter().for_each(|site| add(site, wanted(spec.cookie, spec.by_pattern)));
        }
        if let Trigger::Usdt { sites: specs } = trigger {
            for spec in specs {
                add(static_site(spec, world)?, wanted(spec.cookie, spec.by_pattern));
            }
        }
    }
    plan(&mut sites);
    Ok(sites)
}

fn functions_of(spec: &SiteSpec, world: &Binaries) -> Result<Vec<Site>> {
    let SiteSpec { binary: path, function: name, .. } = spec;
    let binary = world.at(path).with_context(|| format!("{path} was not opened"))?;
    let site = |function: &Function| Site {
        path: path.clone(),
        binary: binary.clone(),
        function: function.clone(),
        address: function.address,
        is_inside: false,
        is_exit: false,
        semaphore: None,
        called: None,
        name: name.clone(),
        window: Err(Refusal::SizeUnknown),
        returns: None,
        programs: Vec::new(),
    };
    Ok(binary.find(name)?.into_iter().map(site).collect())
}

fn static_site(spec: &StaticSpec, world: &Binaries) -> Result<Site> {
    let StaticSpec { binary, provider, name, address, semaphore, .. } = spec;
    let full_name = format!("{provider}:{name}");
    if let Some(probe) = world.lttng_probe(binary, &full_name, LinkAddr(*address)) {
        let described = &probe.function.0;
        let described = world.at(described).with_context(|| format!("{described} was not opened"))?;
        return called_site(binary, full_name, LinkAddr(*address), (described, probe), world);
    }
    let site = inside_site(binary, full_name, LinkAddr(*address), world)?;
    Ok(Site { semaphore: semaphore.map(LinkAddr), ..site })
}

/// A place that calls a list of functions.
fn called_site(
    path: &str,
    name: String,
    address: LinkAddr,
    called: (Rc<Binary>, LttngProbe),
    world: &Binaries,
) -> Result<Site> {
    let binary = world.at(path).with_context(|| format!("{path} was not opened"))?;
    let function =
        Function { name: name.clone(), aliases: Vec::new(), address, size: 0, kind: FunctionKind::Plain };
    Ok(Site {
        path: path.to_owned(),
        binary,
        function,
        address,
        is_inside: true,
        is_exit: false,
        semaphore: None,
        called: Some(called),
        name,
        window: Err(Refusal::SizeUnknown),
        returns: None,
        programs: Vec::new(),
    })
}

/// A single instruction; a function's first is the function's entry, and shares its patch.
fn inside_site(path: &str, name: String, address: LinkAddr, world: &Binaries) -> Result<Site> {
    let binary = world.at(path).with_context(|| format!("{path} was not opened"))?;
    let around = binary.function_at(address);
    let is_entered = |function: &&Function| function.address == address && function.size > 0;
    let entered = around.filter(is_entered).cloned();
    let is_inside = entered.is_none();
    let bounds = binary.function_bounds(address).unwrap_or(address..address);
    let function = entered.unwrap_or_else(|| Function {
        name: around.map_or_else(String::new, |function| function.name.clone()),
        aliases: Vec::new(),
        address: bounds.start,
        size: bounds.end.0 - bounds.start.0,
        kind: FunctionKind::Plain,
    });
    Ok(Site {
        path: path.to_owned(),
        binary,
        function,
        address,
        is_inside,
        is_exit: false,
        semaphore: None,
        called: None,
        name,
        window: Err(Refusal::SizeUnknown),
        returns: None,
        programs: Vec::new(),
    })
}

/// Whether calls of a function can keep something until they return.
pub(crate) fn keeps(spec: &SiteSpec, world: &Binaries) -> bool {
    let Some(binary) = world.at(&spec.binary) else { return true };
    let functions: Vec<_> = binary.find(&spec.function).unwrap_or_default();
    let functions: Vec<_> = functions.into_iter().map(|function| (&*binary, function)).collect();
    !weir_probe::plan_returns(&functions).contains(&Ok(Returns::Exits))
}

/// Plans all patches. Of patches that overlap, the first in the script stays. A function of which one exit cannot be patched, or not its
/// entry, has no exits; what those had taken is planned anew without them.
fn plan(sites: &mut Vec<Site>) {
    plan_returns(sites);
    let count = sites.len();
    let mut functions = add_exits(sites);
    let mut dropped = BTreeMap::new();
    loop {
        plan_windows(sites);
        let refused: BTreeMap<usize, Refusal> = (functions.iter().zip(&sites[count..]))
            .filter_map(|(&function, exit)| {
                let at = exit.address.0.wrapping_sub(exit.function.address.0) as i64;
                let of_exit = exit.window.as_ref().err();
                let refusal = of_exit.or(sites[function].window.as_ref().err())?;
                Some((function, Refusal::ReturnExits { at, detail: refusal.to_string() }))
            })
            .collect();
        if refused.is_empty() {
            break;
        }
        let mut of_exits = functions.iter();
        sites.retain(|site| {
            !site.is_exit || of_exits.next().is_some_and(|function| !refused.contains_key(function))
        });
        functions.retain(|function| !refused.contains_key(function));
        dropped.extend(refused);
    }
    for (function, refusal) in dropped {
        // Why the entry cannot be patched says more.
        if sites[function].window.is_ok() {
            sites[function].returns = Some(Err(refusal));
        }
    }
    for site in sites {
        // Nothing else is wanted of it.
        let is_for_return = site.programs.iter().all(|wanted| wanted.when == When::Return);
        if let (Some(Err(refusal)), true) = (&site.returns, is_for_return) {
            site.window = Err(refusal.clone());
        }
    }
}

fn plan_windows(sites: &mut [Site]) {
    let places: Vec<_> = sites.iter().map(|site| (&*site.binary, site.place())).collect();
    let windows = weir_probe::plan_sites(&places);
    for (site, window) in sites.iter_mut().zip(windows) {
        site.window = window;
    }
}

fn plan_returns(sites: &mut [Site]) {
    let wants = |site: &&mut Site| site.programs.iter().any(|wanted| wanted.when.wants_return());
    let wanting: Vec<&mut Site> = sites.iter_mut().filter(wants).collect();
    let functions: Vec<_> = wanting.iter().map(|site| (&*site.binary, &site.function)).collect();
    let planned = weir_probe::plan_returns(&functions);
    for (site, returns) in wanting.into_iter().zip(planned) {
        site.returns = Some(returns);
    }
}

/// Adds the exits of functions whose returns are caught there, behind all other sites: of each, whose it is.
fn add_exits(sites: &mut Vec<Site>) -> Vec<usize> {
    let wanting: Vec<usize> = (0..sites.len()).filter(|&index| sites[index].has_exits()).collect();
    let functions: Vec<_> =
        wanting.iter().map(|&index| (&*sites[index].binary, &sites[index].function)).collect();
    let mut of_exits = Vec::new();
    for (index, exits) in wanting.into_iter().zip(weir_probe::plan_exits(&functions)) {
        match exits {
            Ok(exits) => {
                of_exits.extend(std::iter::repeat_n(index, exits.len()));
                let exits: Vec<Site> = exits.into_iter().map(|address| sites[index].exit(address)).collect();
                sites.extend(exits);
            }
            Err(refusal) => sites[index].returns = Some(Err(refusal)),
        }
    }
    of_exits
}

/// Programs as they run in one process, and where.
pub(crate) struct Native<'a> {
    /// Their programs are indices into the executables.
    pub(crate) requests: Vec<SiteRequest<'a>>,
    pub(crate) executables: Vec<Executable>,
    /// Of each executable, the number of its program.
    pub(crate) programs: Vec<usize>,
}

/// Runs claim lanes of per-CPU values: one of the programs does more with them than to add.
pub(crate) fn need_lanes(verified: &[VerifiedProgram]) -> bool {
    verified.iter().any(VerifiedProgram::needs_lane)
}

/// Compiles each program for each place it runs at.
pub(crate) fn native<'a>(
    sites: &'a [Site],
    verified: &[VerifiedProgram],
    abi_of: &dyn Fn(&Binary) -> SiteAbi,
) -> Result<Native<'a>, Failure> {
    let needs_lanes = need_lanes(verified);
    let mut executables: Vec<Executable> = Vec::new();
    let mut known: Vec<(usize, SiteAbi, usize)> = Vec::new();
    let mut requests = Vec::with_capacity(sites.len());
    for site in sites {
        let abi = abi_of(&site.binary);
        let abi = if needs_lanes { SiteAbi { lanes: abi.lanes.claimed(), ..abi } } else { abi };
        let mut programs = Vec::with_capacity(site.programs.len());
        for wanted in &site.programs {
            let Wanted { program, cookie, .. } = *wanted;
            let when = match wanted.when {
                // Each end is a run of its own.
                _ if site.is_exit || site.has_exits() => When::Entry,
                When::Return => When::Session,
                When::Session => When::EntryAndReturn,
                other => other,
            };
            let same = known.iter().find(|(other, at, _)| *other == program && *at == abi);
            let index = match same {
                Some(&(_, _, index)) => index,
                None => {
                    let executable = weir_jit::compile(&verified[program], &abi);
                    executables.push(executable.map_err(|error| Failure::Bug(anyhow!("{error}")))?);
                    known.push((program, abi, executables.len() - 1));
                    executables.len() - 1
                }
            };
            programs.push(Attach { executable: index, cookie, when });
        }
        requests.push(site.request(programs));
    }
    let mut programs = vec![0; executables.len()];
    known.iter().for_each(|&(program, _, index)| programs[index] = program);
    Ok(Native { requests, executables, programs })
}
