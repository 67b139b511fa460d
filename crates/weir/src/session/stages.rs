//! The stages from text to verified programs and code, one after the other.
//!
//! Holds the values between stages and nothing else: each stage is its crate's function.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use weir_codegen::Compiled;
use weir_ir::{Module, SiteSpec, Trigger};
use weir_probe::window::Window;
use weir_probe::{Refusal, SiteRequest};
use weir_rt::{Executable, SiteAbi};
use weir_source::{Diagnostic, SourceFile};
use weir_symbols::{Binary, Function};
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

/// One function to patch: its binary, and the programs that run there (index of the program, attach cookie).
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) path: String,
    pub(crate) binary: Rc<Binary>,
    pub(crate) function: Function,
    /// The name that the user wrote, or that a wildcard matched.
    pub(crate) name: String,
    /// How it is patched, or why not: what its file says.
    pub(crate) window: Result<Window, Refusal>,
    pub(crate) programs: Vec<(usize, u64)>,
}

/// The functions that the programs are for, each once, in the order of the script, with the plan of each patch.
pub(crate) fn sites(compiled: &Compiled, world: &Binaries) -> Result<Vec<Site>> {
    let mut found: Vec<(String, Rc<Binary>, Function, String)> = Vec::new();
    let mut programs: Vec<Vec<(usize, u64)>> = Vec::new();
    let mut known: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for (program, trigger) in compiled.triggers.iter().enumerate() {
        let Trigger::Uprobe { sites: specs } = trigger else { continue };
        for SiteSpec { binary: path, function: name, cookie } in specs {
            let binary = world.at(path).with_context(|| format!("{path} was not opened"))?;
            for function in binary.find(name)? {
                let index = *known.entry((path.clone(), function.address.0)).or_insert_with(|| {
                    found.push((path.clone(), binary.clone(), function.clone(), name.clone()));
                    programs.push(Vec::new());
                    found.len() - 1
                });
                programs[index].push((program, *cookie));
            }
        }
    }
    let functions: Vec<_> = found.iter().map(|(_, binary, function, _)| (&**binary, function)).collect();
    let windows = weir_probe::plan_sites(&functions);
    let sites = found.into_iter().zip(programs).zip(windows);
    Ok(sites
        .map(|(((path, binary, function, name), programs), window)| Site {
            path,
            binary,
            function,
            name,
            window,
            programs,
        })
        .collect())
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
            programs.push((index, cookie));
        }
        let (binary, function, window) = (&*site.binary, &site.function, &site.window);
        requests.push(SiteRequest { binary, function, window, programs });
    }
    Ok((requests, executables))
}
