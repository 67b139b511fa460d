//! dist: what a release consists of, below target/artifacts.
//!
//! | file | is |
//! |---|---|
//! | `weir-VERSION-x86_64-linux` | weir, static (glibc, position-independent), stripped |
//! | `weir-VERSION-x86_64-linux.debug` | its debug information; the program names this file (`.gnu_debuglink`) |
//! | `weir_VERSION_amd64.deb` | weir, manual pages, completion scripts, the plugin for DPDK (`/usr/lib/weir/libweir_dpdk.so`) |
//! | `libweir-bpf-dev_VERSION_amd64.deb` | libweir_bpf, its header, that of tracepoints, pkg-config files |
//! | `weir-VERSION-src.tar.xz` | the commit, with all crates that it is built of |
//! | `SHA256SUMS` | of all of them |
//!
//! Guaranteed: the same commit gives the same bytes in any folder, with the same tools (rustc, gcc, binutils, dpkg, tar, xz). All times are the
//! commit's; no path of the machine is in any file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{self, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{library, process, workspace};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Bytes of the static program at most.
const PROGRAM_BYTES_MAX: u64 = 15 << 20;

/// What is asked of git, tar and the like takes seconds; vendored crates are 300 MB.
const LIMIT: Duration = Duration::from_secs(900);

const MAINTAINER: &str = "The weir developers <weir@localhost>";

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Everything but the source archive, which wants all crates from the registry
    #[arg(long)]
    no_source: bool,
}

pub(crate) fn dist(options: &Options) -> Result<()> {
    let changed = git(&["status", "--porcelain"])?;
    ensure!(
        changed.is_empty(),
        "files differ from the commit, and a release is made of one: commit first\n{changed}"
    );
    let folder = path::absolute(workspace::target_folder("artifacts")?)?;
    fs::remove_dir_all(&folder)?;
    let (work, epoch) = (folder.join("work"), git(&["log", "-1", "--format=%ct"])?);
    fs::create_dir_all(&work)?;
    let made = [
        programs(&folder, &work)?,
        vec![package_of_program(&folder, &work, &epoch)?, package_of_library(&folder, &work, &epoch)?],
        if options.no_source { Vec::new() } else { vec![source(&folder, &work, &epoch)?] },
    ]
    .concat();
    fs::remove_dir_all(&work)?;
    let mut sums = Command::new("sha256sum");
    let sums = process::output_within(sums.args(&made).current_dir(&folder), LIMIT)?.stdout;
    fs::write(folder.join("SHA256SUMS"), &sums)?;
    for name in &made {
        println!("{:>12} bytes  {}", fs::metadata(folder.join(name))?.len(), folder.join(name).display());
    }
    Ok(())
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    let output = process::output_within(git.args(arguments).current_dir(workspace::root()), LIMIT)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A build whose outcome names no path of this machine: the workspace, what Cargo has fetched, and where it builds have names of their own.
fn cargo_build(package: &str, flags: &[&str]) -> Result<PathBuf> {
    let target = path::absolute(workspace::target_folder("dist-build")?)?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut places = vec![(target.clone(), "/build"), (workspace::root(), "/weir")];
    places.extend(home.map(|home| (home, "/cargo")));
    // Of several that fit the last one counts.
    places.sort_by_key(|(place, _)| place.as_os_str().len());
    let remap = places.iter().map(|(place, name)| format!("--remap-path-prefix={}={name}", place.display()));
    let rust: Vec<String> = remap.chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--profile", "dist", "--target", TARGET, "--package", package]);
    // A blank in a path divides nothing (0x1f does).
    build.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env_remove("RUSTFLAGS");
    build.env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0");
    process::run(build.current_dir(workspace::root()))?;
    Ok(target.join(TARGET).join("dist"))
}

/// The static program, and its debug information.
fn programs(folder: &Path, work: &Path) -> Result<Vec<String>> {
    let built =
        cargo_build("weir", &["-Ctarget-feature=+crt-static", "-Crelocation-model=pie"])?.join("weir");
    let name = format!("weir-{VERSION}-x86_64-linux");
    let (program, debug) = (folder.join(&name), folder.join(format!("{name}.debug")));
    let run = |command: &mut Command| process::output_within(command, LIMIT).map(drop);
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&built).arg(&debug))?;
    run(Command::new("strip").arg("-o").arg(&program).arg(&built))?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    run(Command::new("objcopy").arg(link).arg(&program))?;
    // No symbol of it is executed.
    fs::set_permissions(&debug, fs::Permissions::from_mode(0o644))?;
    let bytes = fs::metadata(&program)?.len();
    ensure!(
        bytes <= PROGRAM_BYTES_MAX,
        "{} has {bytes} bytes: {PROGRAM_BYTES_MAX} at most",
        program.display()
    );
    // Does it run, and does it say what it is?
    let said = process::output_within(Command::new(&program).arg("--version"), LIMIT)?.stdout;
    ensure!(said == format!("weir {VERSION}\n").as_bytes(), "it says {:?}", String::from_utf8_lossy(&said));
    fs::copy(&program, work.join("weir"))?;
    Ok(vec![name.clone(), format!("{name}.debug")])
}

fn package_of_program(folder: &Path, work: &Path, epoch: &str) -> Result<String> {
    let (tree, weir) = (work.join("package"), work.join("weir"));
    let usr = tree.join("usr");
    let place = |path: &str| -> Result<PathBuf> {
        let path = usr.join(path);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        Ok(path)
    };
    fs::copy(&weir, place("bin/weir")?)?;
    let plugin = cargo_build("weir-dpdk", &[])?.join("libweir_dpdk.so");
    // Its debug information names nothing that a file of the release has.
    let stripped = place("lib/weir/libweir_dpdk.so")?;
    process::output_within(
        Command::new("strip").arg("--strip-unneeded").arg("-o").arg(stripped).arg(plugin),
        LIMIT,
    )?;
    let pages = usr.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    process::output_within(Command::new(&weir).args(["man", "-o"]).arg(&pages), LIMIT)?;
    // Listed before any is replaced.
    let listed = fs::read_dir(&pages)?.collect::<std::io::Result<Vec<_>>>()?;
    listed.iter().try_for_each(|page| compress(&page.path()))?;
    let shells = [
        ("bash", "share/bash-completion/completions/weir"),
        ("zsh", "share/zsh/vendor-completions/_weir"),
        ("fish", "share/fish/vendor_completions.d/weir.fish"),
    ];
    for (shell, path) in shells {
        let script = process::output_within(Command::new(&weir).args(["completions", shell]), LIMIT)?.stdout;
        fs::write(place(path)?, script)?;
    }
    documents(&usr.join("share/doc/weir"))?;
    let control = Control {
        package: "weir",
        depends: "",
        description: "tracer for live programs, native code in place of traps\n Scripts, event filters and recordings compile to verified eBPF programs that run\n \
             as native code inside the traced process, or in the kernel.",
    };
    package(folder, &tree, &control, epoch)
}

fn package_of_library(folder: &Path, work: &Path, epoch: &str) -> Result<String> {
    let built = cargo_build("weir-capi", &[])?;
    let tree = work.join("library");
    library::install_from(&built, &tree.join("usr"), Path::new("/usr"))?;
    documents(&tree.join("usr/share/doc/libweir-bpf-dev"))?;
    let control = Control {
        package: "libweir-bpf-dev",
        depends: "libc6 (>= 2.34), libgcc-s1",
        description: "verified eBPF programs in any C program\n The library libweir_bpf with its header, and the header of weir's static\n tracepoints.",
    };
    package(folder, &tree, &control, epoch)
}

/// What every package says of itself and its rights.
fn documents(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let root = workspace::root();
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| fs::read_to_string(root.join(name)));
    let [mit, apache] = licences;
    let text = format!(
        "weir is under the MIT licence or the Apache licence 2.0, at your option.\n\n{}\n\n{}",
        mit?, apache?
    );
    fs::write(folder.join("copyright"), text)?;
    fs::copy(root.join("CHANGELOG.md"), folder.join("changelog"))?;
    compress(&folder.join("changelog"))
}

fn compress(path: &Path) -> Result<()> {
    process::output_within(Command::new("gzip").args(["-9", "-n"]).arg(path), LIMIT).map(drop)
}

/// What a package is.
struct Control {
    package: &'static str,
    depends: &'static str,
    description: &'static str,
}

impl Control {
    /// The control file, for files of so many KiB.
    fn text(&self, kib: u64) -> String {
        let Control { package, depends, description } = self;
        let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
        format!(
            "Package: {package}\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nInstalled-Size: {kib}\n{depends}\
             Section: devel\nPriority: optional\nDescription: {description}\n"
        )
    }
}

fn package(folder: &Path, tree: &Path, control: &Control, epoch: &str) -> Result<String> {
    let bytes = settle(tree)?;
    let debian = tree.join("DEBIAN");
    fs::create_dir_all(&debian)?;
    fs::write(debian.join("control"), control.text(bytes.div_ceil(1024)))?;
    settle(&debian)?;
    let name = format!("{}_{VERSION}_amd64.deb", control.package);
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(folder.join(&name));
    process::output_within(build.env("SOURCE_DATE_EPOCH", epoch), LIMIT)?;
    Ok(name)
}

/// Sets the modes of all files and folders, which do not depend on the umask then; returns the bytes of the files.
fn settle(path: &Path) -> Result<u64> {
    let kind = fs::symlink_metadata(path)?;
    if kind.is_symlink() {
        return Ok(0);
    }
    let is_program =
        kind.is_dir() || path.extension().is_none() && path.parent().is_some_and(|of| of.ends_with("bin"));
    fs::set_permissions(path, fs::Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    if kind.is_file() {
        return Ok(kind.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += settle(&entry?.path())?;
    }
    Ok(bytes)
}

/// The commit, and beside it in vendor/ the crates that it is built of.
fn source(folder: &Path, work: &Path, epoch: &str) -> Result<String> {
    let stem = format!("weir-{VERSION}");
    let tree = work.join(&stem);
    fs::create_dir_all(&tree)?;
    let tar = work.join("commit.tar");
    let root = workspace::root();
    let run = |command: &mut Command| process::output_within(command, LIMIT);
    run(Command::new("git").args(["archive", "--format=tar", "HEAD", "-o"]).arg(&tar).current_dir(&root))?;
    run(Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&tree))?;
    let mut vendor = Command::new(env!("CARGO"));
    vendor.args(["vendor", "--locked", "--versioned-dirs", "vendor"]);
    let settings = run(vendor.current_dir(&tree))?.stdout;
    let place = tree.join(".cargo/config.toml");
    let own = fs::read_to_string(&place).unwrap_or_default();
    fs::create_dir_all(tree.join(".cargo"))?;
    fs::write(&place, own + "\n" + &String::from_utf8_lossy(&settings))?;
    let name = format!("{stem}-src.tar.xz");
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    pack.arg(format!("--mtime=@{epoch}")).arg("--format=gnu").args(["-I", "xz -T1 -6", "-cf"]);
    run(pack.arg(folder.join(&name)).arg("-C").arg(work).arg(&stem))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_has_a_line_for_each_field_and_a_description_that_goes_on_with_blanks() {
        let control = Control { package: "p", depends: "libc6", description: "short\n long" };
        let text = control.text(17);
        for line in ["Package: p", "Installed-Size: 17", "Depends: libc6", "Description: short", " long"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
        assert!(!Control { depends: "", ..control }.text(1).contains("Depends"));
    }
}
