//! What a shell may complete the beginning of an attach point to, for the scripts of `weir completions`.
//!
//! In: the text so far, of a script, an event or a pattern. Out: whole words, one a line: its last attach point up to the next `:`, behind the text
//! that comes before it. A name of a function or static probe is whole. What is wrong is no completion, and no message: the user has not
//! finished.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use weir_world::{self as world, Binaries};

use crate::failure::Failure;
use crate::list::{KINDS, Lines, Searched};
use crate::print::{print, printable};

/// More are no help, and take a shell long to sort.
const SHOWN_MAX: usize = 1000;

/// Prints what `text` may become.
pub(crate) fn complete(text: &str) -> Result<ExitCode, Failure> {
    let world = &world::binaries(None)?;
    let start = text.rfind(|c: char| c.is_whitespace() || ",;{}\"'`!".contains(c));
    let (before, point) = text.split_at(start.map_or(0, |at| at + 1));
    let found = completions(point, world);
    let lines =
        found.iter().take(SHOWN_MAX).map(|word| format!("{}{}\n", printable(before), printable(word)));
    print(&lines.collect::<String>())
}

fn completions(point: &str, world: &Binaries) -> BTreeSet<String> {
    match point.split_once(':') {
        None => {
            let kinds = KINDS.iter().map(|kind| format!("{}:", kind.name));
            kinds.filter(|kind| kind.starts_with(point)).collect()
        }
        Some((kind, rest)) => match rest.split_once(':') {
            None => files(rest).into_iter().map(|file| format!("{kind}:{file}")).collect(),
            Some((file, name)) => names(kind, file, name, world),
        },
    }
}

/// Folders, and files that a program or library may be, whose paths begin so; libraries of the machine have short names.
fn files(beginning: &str) -> Vec<String> {
    let (folder, name) = beginning.rsplit_once('/').map_or(("", beginning), |(folder, name)| (folder, name));
    let shown = if beginning.contains('/') { format!("{folder}/") } else { String::new() };
    let read = if shown.is_empty() { Path::new(".") } else { Path::new(&shown) };
    let entries = fs::read_dir(read).into_iter().flatten().flatten();
    let paths = entries.filter_map(|entry| {
        let entry_name = entry.file_name().into_string().ok()?;
        let metadata = fs::metadata(entry.path()).ok()?;
        let is_object = || starts_as_elf(&entry.path()).unwrap_or(false);
        match entry_name.starts_with(name) && (name.starts_with('.') || !entry_name.starts_with('.')) {
            true if metadata.is_dir() => Some(format!("{shown}{entry_name}/")),
            true if metadata.is_file() && is_object() => {
                let shown = if shown.is_empty() { "./" } else { &shown };
                Some(format!("{shown}{entry_name}:"))
            }
            _ => None,
        }
    });
    let libraries = ["libc", "libm", "libpthread", "libstdc++", "libssl", "libcrypto", "libz"];
    let libraries = libraries.into_iter().filter(|library| library.starts_with(beginning));
    paths.chain(libraries.map(|library| format!("{library}:"))).collect()
}

fn starts_as_elf(path: &Path) -> Option<bool> {
    use std::io::Read as _;
    let mut magic = [0; 4];
    weir_symbols::regular::open(path).ok()?.read_exact(&mut magic).ok()?;
    Some(magic == *b"\x7fELF")
}

/// Functions or static probes of a file whose names begin so.
fn names(kind: &str, file: &str, beginning: &str, world: &Binaries) -> BTreeSet<String> {
    let Some(known) = KINDS.iter().find(|known| known.name == kind || known.alias == kind) else {
        return BTreeSet::new();
    };
    let Ok((_, binary)) = world.open(file) else { return BTreeSet::new() };
    let mut lines = Lines::new();
    let searched = Searched { path: file, binary: &binary, verbose: false };
    let _ = (known.search)(&searched, &[], &mut lines);
    let start = format!("{}:{file}:{beginning}", known.name);
    let found = lines.into_keys().filter(|line| line.starts_with(&start));
    found.map(|line| format!("{kind}{}", &line[known.name.len()..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(point: &str, wanted: &[&str]) {
        let found = completions(point, &world::binaries(None).unwrap());
        for wanted in wanted {
            assert!(found.contains(*wanted), "{point}: {wanted} is not in {found:?}");
        }
        assert!(found.iter().all(|word| word.starts_with(point)), "{point}: {found:?}");
    }

    #[test]
    fn an_attach_point_is_completed_part_by_part() {
        check("u", &["uprobe:", "uretprobe:", "usdt:"]);
        check("uprobe:lib", &["uprobe:libc:"]);
        check("uprobe:/proc/self/e", &["uprobe:/proc/self/exe:"]);
        check("uprobe:./", &["uprobe:./src/"]);
        check("uretprobe:libc:mallo", &["uretprobe:libc:malloc"]);
        check("u:libc:mallo", &["u:libc:malloc"]);
        check("nosuch:libc:m", &[]);
        check("uprobe:/nosuch:m", &[]);
    }
}
