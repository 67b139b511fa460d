//! The workspace: where it is, and the programs built from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;

/// `cargo metadata` of what is on the disk takes a tenth of a second; more on a loaded machine.
const METADATA_LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// A folder below target/, made if it is not there.
pub(crate) fn target_folder(name: &str) -> Result<PathBuf> {
    let given = std::env::var_os("CARGO_TARGET_DIR").filter(|given| !given.is_empty());
    let target = given.map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The names of the workspace's crates, in order.
pub(crate) fn packages() -> Result<Vec<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let said: serde_json::Value =
        serde_json::from_slice(&process::output_within(&mut cargo, METADATA_LIMIT)?.stdout)
            .context("cargo metadata")?;
    let packages = said["packages"].as_array().into_iter().flatten();
    let mut names: Vec<String> =
        packages.filter_map(|package| package["name"].as_str()).map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Removes what a process that is gone has left in a folder below target/: what has its id behind a `-`, as in `nginx-17` and
/// `redis-17.sock`.
pub(crate) fn remove_left(folder: &str, pid: i32) -> Result<()> {
    for entry in fs::read_dir(target_folder(folder)?)? {
        let entry = entry?;
        let is_left = entry.file_name().to_str().is_some_and(|name| is_named_after(name, pid));
        if is_left {
            let path = entry.path();
            let is_folder = entry.file_type()?.is_dir();
            let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn is_named_after(name: &str, pid: i32) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    stem.rsplit_once('-').is_some_and(|(_, id)| id == pid.to_string())
}

/// The weir that was asked for, or else a release build.
pub(crate) fn weir(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => path.canonicalize().with_context(|| format!("no program {}", path.display())),
        None => release_weir(),
    }
}

/// Builds weir in release mode; the path of its program.
pub(crate) fn release_weir() -> Result<PathBuf> {
    Ok(build("release", &["--package", "weir"])?.join("weir"))
}

/// The same for trying it out and developing: in half the time, and tests use most of it too.
pub(crate) fn dev_weir() -> Result<PathBuf> {
    Ok(build("debug", &["--package", "weir"])?.join("weir"))
}

/// Builds these packages and targets for `release` or `debug`; the folder that they are in.
pub(crate) fn build(profile: &str, what: &[&str]) -> Result<PathBuf> {
    let mut build = Command::new(env!("CARGO"));
    build.arg("build").args((profile == "release").then_some("--release")).args(what);
    process::run(build.current_dir(root()))?;
    target_folder(profile)
}

/// Compiles tests/programs/NAME.c; the path of the program.
pub(crate) fn test_program(name: &str) -> Result<PathBuf> {
    let source = root().join("tests/programs").join(format!("{name}.c"));
    let program = target_folder("programs")?.join(name);
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(&source);
    process::output_within(&mut compile, Duration::from_secs(60)).context("compiling a test program")?;
    Ok(program)
}

/// The commit that is checked out, with `+` if files differ from it; `unknown` outside git.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.args(arguments).current_dir(root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_string() };
    // Records of this commit's own runs do not make it another one: an interrupted soak goes on.
    let changed = git(&["status", "--porcelain", "--", ".", ":!docs/soak", ":!docs/bench"]);
    let changed = changed.is_some_and(|files| !files.is_empty());
    if changed { format!("{commit}+") } else { commit }
}

/// The machine in one line: CPU, how many, kernel.
pub(crate) fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown CPU", |(_, name)| name.trim());
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cpus} CPUs, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_holds_the_workspace_manifest() {
        assert!(fs::read_to_string(root().join("Cargo.toml")).unwrap().contains("[workspace]"));
    }

    #[test]
    fn what_a_process_left_has_its_id_at_the_end() {
        let is_left = |name| is_named_after(name, 17);
        assert!(is_left("nginx-first-17") && is_left("redis-17.sock"));
        assert!(!is_left("nginx-117") && !is_left("filter-4.17") && !is_left("17") && !is_left("a-17-b"));
    }

    #[test]
    fn machine_names_the_kernel() {
        assert!(machine().contains("Linux "), "{}", machine());
    }
}
