//! Objects of clang and the tool of libbpf, for tests that read what others write, and the reverse.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{paths, skip};

/// The C files in `folder` of the repository, such as `tests/bpf`, sorted; not those in folders in it.
pub fn sources(folder: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(paths::root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = entries.map(|entry| entry.unwrap_or_else(|error| panic!("{folder}: {error}")).path());
    let mut sources: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect();
    sources.sort();
    sources
}

/// Compiles the C file `source` for BPF, with the header of `tests/bpf`, to `object`. False, loudly, where clang is
/// not installed or knows no BPF; a source that does not compile panics.
pub fn compile(source: &Path, object: &Path) -> bool {
    match compile_with("clang", &[], source, object) {
        Ok(()) => true,
        Err(missing) => {
            skip::skip("bpf-corpus", missing);
            false
        }
    }
}

/// The same with a compiler of that name, and more options. The error: why there is none.
pub fn compile_with(clang: &str, options: &[&str], source: &Path, object: &Path) -> Result<(), String> {
    let include = paths::root().join("tests/bpf");
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", "-O2", "-g", "-c"]).args(options);
    command.arg(source).arg("-o").arg(object).arg("-I").arg(include);
    let output = command.output().map_err(|error| format!("{clang}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let has_no_bpf = message.contains("unknown target") || message.contains("No available targets");
    assert!(has_no_bpf, "{clang} {}: {message}", source.display());
    Err(format!("{clang} has no target bpf"))
}

/// bpftool, which is in no PATH of plain users. None, loudly, where it is not.
pub fn tool() -> Option<PathBuf> {
    let places = ["/usr/sbin/bpftool", "/usr/bin/bpftool", "/sbin/bpftool"].map(Path::new);
    let found = places.into_iter().find(|path| path.exists()).map(Path::to_owned);
    if found.is_none() {
        skip::skip("bpftool", "bpftool is not installed");
    }
    found
}

/// Loads the programs of `object` through libbpf, and lets them go; their pinned names. None, loudly, where bpf(2) or
/// its file system is not to be had.
///
/// # Errors
/// What libbpf or the kernel's verifier says.
pub fn load(tool: &Path, object: &Path) -> Option<Result<Vec<String>, String>> {
    if let Err(reason) = crate::kernel::available() {
        skip::skip("bpftool-load", reason);
        return None;
    }
    let name = object.file_stem().unwrap_or_default().to_string_lossy().replace('.', "_");
    let pins = Path::new("/sys/fs/bpf").join(format!("weir-test-{name}-{}", std::process::id()));
    let output = Command::new(tool).args(["prog", "loadall"]).arg(object).arg(&pins).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", tool.display()));
    let names = std::fs::read_dir(&pins).map(|entries| {
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    });
    let _ = std::fs::remove_dir_all(&pins);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if message.contains("bpffs") {
        skip::skip("bpftool-load", message.trim());
        return None;
    }
    Some(if output.status.success() { Ok(names.unwrap_or_default()) } else { Err(message) })
}
