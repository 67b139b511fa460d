//! Finds what answers unwinders in a process, and whether there may be unwinders that ask nobody.
//!
//! In: the files that a process maps as code. Out: the functions to hook, none if nothing in it unwinds, or the reason
//! why that cannot be told. By what each file says of itself:
//!
//! - `_dl_find_object` (glibc ≥ 2.35: libc.so.6, static programs) is hooked; libgcc ≥ 12 asks it, wherever it is linked
//!   into, also in libraries that are loaded later;
//! - `_Unwind_Find_FDE` (libgcc_s; copies of libgcc in programs and libraries that kept their symbols) is hooked where
//!   its file does not ask the former;
//! - unwinders without either are unknown: LLVM's and nongnu libunwind, copies of an older libgcc in files without
//!   symbols, Go's runtime, static programs without symbols.
//!
//! Not seen: a library that is loaded later and brings an unwinder of its own that does not ask `_dl_find_object`
//! (libgcc < 12 or LLVM's, linked in). Unwinders outside the process (a debugger, perf) find their own way, or stop.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weir_plan::Refusal;
use weir_symbols::maps::Mapping;
use weir_symbols::{Binary, Function, LinkAddr};
use weir_trampoline::unwind::hook::Question;

use crate::limits::HOOKS_MAX;
use crate::process::mapped::is_weirs;
use crate::process::target::{Target, link_to};

const FIND_OBJECT: &str = "_dl_find_object";
const FIND_DESCRIPTION: &str = "_Unwind_Find_FDE";
/// What only a library that unwinds defines: the C++ ABI's interface, and libunwind's.
const UNWINDERS: [&str; 4] = ["_Unwind_RaiseException", "_Unwind_Backtrace", "unw_step", "_ULx86_64_step"];

/// Gives each function that is to be hooked in `target` to `each`: where there is none, nothing unwinds.
pub(crate) fn survey(
    target: &Target,
    mut each: impl FnMut(&Binary, &Function, Question) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut asked = Vec::new();
    let mut may_load_unwinder = false;
    for path in files(&target.mappings) {
        let binary = open(target, &path)?;
        // backtrace() and the end of a cancelled thread load libgcc_s when they are first wanted.
        may_load_unwinder |= binary.soname() == Some("libc.so.6");
        for (question, function) in answers(&binary).map_err(|why| unknown(&path, why))? {
            asked.push(question);
            if asked.len() > HOOKS_MAX {
                return Err(unknown(&path, "the process has too many copies of libgcc"));
            }
            each(&binary, &function, question)?;
        }
    }
    if may_load_unwinder && asked.is_empty() {
        let detail =
            "the C library is older than 2.35, and may load its unwinder (libgcc_s.so.1) at any time";
        return Err(Refusal::UnwinderUnknown { detail: detail.into() });
    }
    Ok(())
}

/// Every file that is mapped as code, once, by its path in the process.
pub(crate) fn files(mappings: &[Mapping]) -> BTreeSet<PathBuf> {
    let is_code = |mapping: &&Mapping| mapping.execute && mapping.inode != 0 && !is_weirs(mapping);
    mappings.iter().filter(is_code).map(|mapping| PathBuf::from(&mapping.path)).collect()
}

/// The file that the target maps from `path`, which names it as the target's root has it; that of a process which only
/// changed its root (chroot) as weir's own has it. One that was deleted or replaced since, as the process has it.
pub(crate) fn open(target: &Target, path: &Path) -> Result<Binary, Refusal> {
    let mut why = "it cannot be read";
    for name in &names(target, path) {
        if let Ok(binary) = Binary::open(name) {
            if target.bias(&binary).is_some() {
                return Ok(binary);
            }
            why = "it is not the file that the process runs any more";
        }
    }
    Err(unknown(path, why))
}

/// Where that file may be, as seen from here.
pub(crate) fn names(target: &Target, path: &Path) -> Vec<PathBuf> {
    let outside = target.root().join(path.strip_prefix("/").unwrap_or(path));
    let mapping = target.mappings.iter().find(|mapping| mapping.execute && Path::new(&mapping.path) == path);
    let link = mapping.filter(|mapping| mapping.deleted).map(|mapping| link_to(target.pid, mapping));
    [outside, path.to_owned()].into_iter().chain(link).collect()
}

fn unknown(path: &Path, why: &str) -> Refusal {
    Refusal::UnwinderUnknown { detail: format!("{}: {why}", path.display()) }
}

/// What in this file is to be hooked; an error says how it may unwind without asking.
fn answers(binary: &Binary) -> Result<Vec<(Question, Function)>, &'static str> {
    if binary.is_go() {
        return Err("Go's runtime unwinds stacks by tables of its own");
    }
    let defined = |name: &str| binary.symbol_value(name).and_then(|(address, _)| binary.function_at(address));
    let is_named = |name: &str| binary.symbol_value(name).is_some();
    let (object, description) = (defined(FIND_OBJECT), defined(FIND_DESCRIPTION));
    let mut found = Vec::new();
    found.extend(object.map(|function| (Question::Object, function.clone())));
    if let Some(function) = description {
        let asks = match object {
            Some(object) => calls(binary, function, object.address),
            None => binary.imports(FIND_OBJECT),
        };
        if !asks {
            found.push((Question::Description, function.clone()));
        }
        return Ok(found);
    }
    if is_named(FIND_DESCRIPTION) || is_named(FIND_OBJECT) && object.is_none() {
        return Err("its function that finds descriptions cannot be read");
    }
    if binary.imports(FIND_OBJECT) || binary.imports("_Unwind_") {
        return Ok(found);
    }
    if UNWINDERS.iter().any(|name| is_named(name)) {
        return Err("it has an unwinder that asks neither _dl_find_object nor _Unwind_Find_FDE");
    }
    let is_static = binary.is_interpreter_or_static() && binary.soname().is_none();
    if !binary.has_static_symbols() && is_static {
        return Err("a static program without symbols may have any unwinder in it");
    }
    if !binary.has_static_symbols() && binary.handles_exceptions() && binary.imports("dl_iterate_phdr") {
        return Err("it handles exceptions, and takes its unwinder from nowhere");
    }
    Ok(found)
}

/// Whether `function` has a direct call of `callee`.
fn calls(binary: &Binary, function: &Function, callee: LinkAddr) -> bool {
    let bytes = binary.bytes(function.address, function.size as usize).unwrap_or_default();
    weir_plan::body::read(function.address.0, bytes).targets.contains(&callee.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use testkit::target::{self, Linkage, Source};

    use super::*;

    const THROWS: &str = "int main(int argc, char **) { try { throw argc; } catch (int) { return 0; } }";
    const PLAIN: &str = "int main(void) { return 0; }";

    fn check(path: &Path) -> Result<Vec<Question>, &'static str> {
        let answers = answers(&Binary::open(path).unwrap())?;
        Ok(answers.into_iter().map(|(question, _)| question).collect())
    }

    fn check_cpp(flags: &[&str]) -> Result<Vec<Question>, &'static str> {
        check(&target::build_with("g++", "survey-throws", Source::Text(THROWS), flags))
    }

    /// This machine's C library, and what it says of itself.
    fn has_find_object() -> bool {
        check(Path::new("/lib/x86_64-linux-gnu/libc.so.6")).unwrap() == [Question::Object]
    }

    #[test]
    fn the_c_library_is_hooked_where_it_answers_for_all() {
        let expected: &[Question] = if has_find_object() { &[] } else { &[Question::Description] };
        assert_eq!(check(Path::new("/lib/x86_64-linux-gnu/libgcc_s.so.1")).unwrap(), expected);
    }

    #[test]
    fn programs_that_use_the_shared_unwinder_have_nothing_to_hook() {
        assert_eq!(check_cpp(&["-O2"]), Ok(vec![]));
        assert_eq!(check(&target::build("survey-plain", Source::Text(PLAIN), &["-O2"])), Ok(vec![]));
    }

    #[test]
    fn copies_of_libgcc_are_known_by_their_symbols() {
        let expected = if has_find_object() { vec![] } else { vec![Question::Description] };
        assert_eq!(check_cpp(&["-O2", "-static-libgcc"]), Ok(expected));
    }

    #[test]
    fn static_programs_answer_themselves() {
        let expected = if has_find_object() { vec![Question::Object] } else { vec![Question::Description] };
        let flags = [&["-O2"], Linkage::Static.flags()].concat();
        assert_eq!(check_cpp(&flags), Ok(expected));
    }

    #[test]
    fn static_programs_without_symbols_are_unknown() {
        let flags = [&["-O2", "-s"], Linkage::Static.flags()].concat();
        assert!(check_cpp(&flags).unwrap_err().starts_with("a static program without symbols"));
    }

    #[test]
    fn other_unwinders_are_unknown() {
        let own = "int unw_step(void *cursor) { return 0; } int main(void) { return unw_step(0); }";
        let path = target::build("survey-unwinds", Source::Text(own), &["-O2"]);
        assert!(check(&path).unwrap_err().starts_with("it has an unwinder"));
    }
}
