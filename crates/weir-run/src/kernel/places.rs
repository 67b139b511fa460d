//! Which places of a process the kernel may be asked to probe: what a breakpoint or a replaced return address would harm is refused.
//!
//! In: a [`Site`], what the process maps. Out: a [`Place`], or why not. The kernel checks little itself: it puts a breakpoint inside an instruction, and replaces
//! return addresses that unwinders, fibers and language runtimes read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_kernel::Place;
use weir_probe::{Refusal, Returns, target};
use weir_symbols::Binary;
use weir_symbols::maps::Mapping;

use crate::plan::Plan;
use crate::required::instead;
use crate::stages::{Site, Wanted};

/// Symbols of programs in which exceptions pass through frames.
const UNWINDING: [&str; 4] = ["_Unwind_", "__cxa_throw", "__cxa_begin_catch", "__gxx_personality"];

/// Functions of C libraries that call back, so that exceptions of their callers may pass through them.
const CALLS_BACK: [&str; 12] = [
    "qsort",
    "qsort_r",
    "bsearch",
    "lfind",
    "lsearch",
    "tsearch",
    "twalk",
    "ftw",
    "nftw",
    "pthread_once",
    "call_once",
    "dl_iterate_phdr",
];

/// What is known of one process, and of the files that a plan names.
pub(super) struct Places<'a> {
    /// Exceptions may pass through functions of these files.
    unwound: BTreeMap<&'a Path, bool>,
    /// Which of these files have gone from their paths.
    gone: BTreeSet<&'a Path>,
    /// Whether return addresses may be replaced in the process at all.
    returns: Result<(), &'static str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(plan: &'a Plan, pid: i32, mappings: &[Mapping]) -> Places<'a> {
        Places { returns: target::check_kernel_returns(pid, mappings), ..Places::of_files(plan) }
    }

    /// As far as files say it.
    pub(super) fn of_files(plan: &'a Plan) -> Places<'a> {
        let binaries = plan.binaries();
        let unwound = binaries.iter().map(|binary| (binary.path(), is_unwound(binary)));
        let gone = binaries.iter().filter(|binary| !binary.is_at_its_path()).map(|binary| binary.path());
        Places { unwound: unwound.collect(), gone: gone.collect(), returns: Ok(()) }
    }

    /// Where a program is to be attached, or why not.
    pub(super) fn place(&self, site: &Site, wanted: &Wanted) -> Result<Place, String> {
        site.check_breakpoint().map_err(|refusal| format!("{refusal}{}", instead(site, &refusal)))?;
        if wanted.when.wants_return() {
            self.check_return(site)?;
        }
        if self.gone.contains(site.binary.path()) {
            return Err("its file was deleted or replaced since it was read".to_owned());
        }
        let offset = |address| site.binary.file_offset(address).map(|offset| offset.0);
        let offset_of = |address| offset(address).ok_or_else(|| "it is in no file".to_owned());
        let semaphore = site.semaphore.map(offset_of).transpose()?;
        Ok(Place { offset: offset_of(site.address)?, semaphore, cookie: wanted.cookie })
    }

    fn check_return(&self, site: &Site) -> Result<(), String> {
        let is_unwound = self.unwound.get(site.binary.path()).copied().unwrap_or(true);
        let why = match (&site.returns, self.returns) {
            _ if site.is_inside => Refusal::ReturnInside.to_string(),
            (_, Err(why)) => why.to_owned(),
            _ if site.binary.is_go() => "Go's runtime walks the stack by return addresses".to_owned(),
            (Some(Ok(Returns::Exits)), _) => {
                "it is of a runtime, or has no unwind information where most code has: stacks may be walked by return addresses".to_owned()
            }
            _ if is_unwound => "exceptions may pass through it".to_owned(),
            _ if site.function.names().any(|name| CALLS_BACK.contains(&name)) => {
                "it calls back, and exceptions may pass through it".to_owned()
            }
            (Some(Err(refusal)), _) if refusal.is_of_return() => refusal.to_string(),
            _ => return Ok(()),
        };
        Err(format!("{why}; the kernel would replace its return address"))
    }
}

/// Exceptions may pass through functions of it.
fn is_unwound(binary: &Binary) -> bool {
    let imports = UNWINDING.iter().any(|name| binary.imports(name));
    imports || binary.symbol_value("_Unwind_RaiseException").is_some()
}
