//! The stages from text to verified programs and code, one after the other.
//!
//! Holds the values between stages and nothing else: each stage is its crate's function.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use weir_codegen::Compiled;
use weir_ir::{Module, SiteSpec, StaticSpec, Trigger};
use weir_probe::window::Window;
use weir_probe::{Attach, Place, Refusal, SiteRequest, When};
use weir_rt::{Executable, SiteAbi};
use weir_source::{Diagnostic, SourceFile};
use weir_symbols::{Binary, Function, FunctionKind, LinkAddr};
use weir_verifier::VerifiedProgram;

use crate::failure::Failure;
use crate::session::world::Binaries;

/// Parses, checks and lowers; warnings go to `warn`.
pub(crate) fn front(
    source: &SourceFile,
    parameters: &[String],
    world: &Binaries,
    warn: &mut dyn FnMut(&[Diagnostic]),
) -> Result<Module, Failure> {
    let options = weir_script::Options { params: parameters.to_vec(), ..weir_script::Options::default() };
    let (mut module, warnings) = weir_script::compile(source, &options, world).map_err(Failure::Script)?;
    warn(&warnings);
    weir_ir::pass::optimise(&mut module);
    Ok(module)
}

/// Compiles to eBPF and verifies every program.
pub(crate) fn back(module: &Module) -> Result<(Compiled, Vec<VerifiedProgram>), Failure> {
    let compiled = weir_codegen::compile(module).map_err(|error| Failure::Refused(anyhow!(error)))?;
    let limits = weir_verifier::Limits::default();
    let verify = |program| weir_verifier::verify(program, &compiled.object.maps, &limits);
    let verified: Result<Vec<_>, _> = compiled.object.programs.iter().map(verify).collect();
    // A program of our own compiler that the verifier refuses is our bug; it does not run all the same.
    let verified = verified.map_err(|rejection| Failure::Bug(anyhow!("{rejection}")))?;
    Ok((compiled, verified))
}

/// One place to patch: its binary, and the programs that run there (index of the program, attach cookie).
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) path: String,
    pub(crate) binary: Rc<Binary>,
    /// Of a static probe the function that it is in, as far as that is known.
    pub(crate) function: Function,
    /// Where the probe is: the function's start, or the `nop` of a static probe.
    pub(crate) address: LinkAddr,
    pub(crate) is_static: bool,
    pub(crate) semaphore: Option<LinkAddr>,
    /// The name that the user wrote, or that a wildcard matched.
    pub(crate) name: String,
    /// How it is patched, or why not: what its file says.
    pub(crate) window: Result<Window, Refusal>,
    pub(crate) programs: Vec<(usize, u64)>,
}

impl Site {
    fn place(&self) -> Place<'_> {
        if self.is_static { Place::Inside(self.address) } else { Place::Entry(&self.function) }
    }
}

/// What to call them together.
pub(crate) fn places(sites: &[Site]) -> &'static str {
    if sites.iter().any(|site| site.is_static) { "places" } else { "functions" }
}

/// The places that the programs are for, each once, in the order of the script, with the plan of each patch.
pub(crate) fn sites(compiled: &Compiled, world: &Binaries) -> Result<Vec<Site>> {
    let mut sites: Vec<Site> = Vec::new();
    let mut known: BTreeMap<(String, bool, u64), usize> = BTreeMap::new();
    let mut add = |site: Site, program: (usize, u64)| {
        let key = (site.path.clone(), site.is_static, site.address.0);
        let index = *known.entry(key).or_insert_with(|| {
            sites.push(site);
            sites.len() - 1
        });
        sites[index].programs.push(program);
    };
    for (program, trigger) in compiled.triggers.iter().enumerate() {
        match trigger {
            Trigger::Uprobe { sites: specs } => {
                for spec in specs {
                    let found = functions_of(spec, world)?;
                    found.into_iter().for_each(|site| add(site, (program, spec.cookie)));
                }
            }
            Trigger::Usdt { sites: specs } => {
                for spec in specs {
                    add(static_site(spec, world)?, (program, spec.cookie));
                }
            }
            Trigger::Begin | Trigger::End | Trigger::Interval { .. } => {}
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
        is_static: false,
        semaphore: None,
        name: name.clone(),
        window: Err(Refusal::SizeUnknown),
        programs: Vec::new(),
    };
    Ok(binary.find(name)?.into_iter().map(site).collect())
}

fn static_site(spec: &StaticSpec, world: &Binaries) -> Result<Site> {
    let StaticSpec { binary: path, provider, name, address, semaphore, .. } = spec;
    let binary = world.at(path).with_context(|| format!("{path} was not opened"))?;
    let address = LinkAddr(*address);
    let bounds = binary.function_bounds(address).unwrap_or(address..address);
    let function = Function {
        name: binary.function_at(address).map_or_else(String::new, |function| function.name.clone()),
        aliases: Vec::new(),
        address: bounds.start,
        size: bounds.end.0 - bounds.start.0,
        kind: FunctionKind::Plain,
    };
    Ok(Site {
        path: path.clone(),
        binary,
        function,
        address,
        is_static: true,
        semaphore: semaphore.map(LinkAddr),
        name: format!("{provider}:{name}"),
        window: Err(Refusal::SizeUnknown),
        programs: Vec::new(),
    })
}

/// Plans all patches. Of patches that overlap, the first in the script stays.
fn plan(sites: &mut [Site]) {
    let places: Vec<_> = sites.iter().map(|site| (&*site.binary, site.place())).collect();
    let windows = weir_probe::plan_sites(&places);
    for (site, window) in sites.iter_mut().zip(windows) {
        site.window = window;
    }
}

/// Compiles each program for each place it runs at. Programs of `requests` are indices into the executables.
pub(crate) fn native<'a>(
    sites: &'a [Site],
    verified: &[VerifiedProgram],
    abi_of: &dyn Fn(&Binary) -> SiteAbi,
) -> Result<(Vec<SiteRequest<'a>>, Vec<Executable>), Failure> {
    let mut executables: Vec<Executable> = Vec::new();
    let mut known: Vec<(usize, SiteAbi, usize)> = Vec::new();
    let mut requests = Vec::with_capacity(sites.len());
    for site in sites {
        let abi = abi_of(&site.binary);
        let mut programs = Vec::with_capacity(site.programs.len());
        for &(program, cookie) in &site.programs {
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
            programs.push(Attach { executable: index, cookie, when: When::Entry });
        }
        let (binary, function, window) = (&*site.binary, &site.function, &site.window);
        let semaphore = site.semaphore;
        requests.push(SiteRequest { binary, function, window, semaphore, programs, returns: None });
    }
    Ok((requests, executables))
}
