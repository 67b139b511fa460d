//! library: installs libweir_bpf, its header and its pkg-config files, the headers of tracepoints, and what makes events of logging, below a prefix.
//!
//! The shared library stands under its full version, with the links that the loader (libweir_bpf.so.0) and the linker
//! (libweir_bpf.so) look for. weir-bpf.pc names it, weir-bpf-static.pc the archive. Neither library has debug
//! information nor rustc's bitcode, which are most of what Cargo builds (12 and 52 MB; 1.9 and 13 without them); where there is
//! no `strip` they stay, and that is said.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{logging, workspace};

/// The version of the workspace, which is the library's.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// As in crates/weir-capi/build.rs.
const SONAME: &str = "libweir_bpf.so.0";
/// Headers of tracepoints, which need no library.
const HEADERS: [&str; 5] = [
    "tracepoint.h",
    "log.h",
    "lttng-compat.h",
    "lttng-compat/lttng/tracepoint.h",
    "lttng-compat/lttng/tracepoint-event.h",
];
/// In crates/weir-capi, with `.in` behind.
const PKG_CONFIG_FILES: [&str; 2] = ["weir-bpf.pc", "weir-bpf-static.pc"];

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Below it come lib/ and include/
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
}

pub(crate) fn install(options: &Options) -> Result<()> {
    let built = workspace::build("release", &["--package", "weir-capi"])?;
    // What pkg-config prints has to hold in every folder.
    let prefix = path::absolute(&options.prefix)?;
    install_from(&built, &prefix, &prefix)?;
    let mut files =
        vec!["libweir_bpf.a", "weir/bpf.h", "weir/tracepoint.h", "weir/log.h", "weir/lttng-compat.h"];
    files.extend(PKG_CONFIG_FILES);
    files.extend(logging::install(&prefix)?);
    println!("installed libweir_bpf.so.{VERSION}, {} below {}", files.join(", "), prefix.display());
    Ok(())
}

/// Puts what was built in the folder `built` below `place`, for a machine on which that is `prefix`.
pub(crate) fn install_from(built: &Path, place: &Path, prefix: &Path) -> Result<()> {
    let from = workspace::root().join("crates/weir-capi");
    let (lib, include) = (place.join("lib"), place.join("include/weir"));
    for folder in [&lib.join("pkgconfig"), &include] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let full = format!("libweir_bpf.so.{VERSION}");
    copy_stripped(&built.join("libweir_capi.so"), &lib.join(&full))?;
    copy_stripped(&built.join("libweir_capi.a"), &lib.join("libweir_bpf.a"))?;
    copy(&from.join("include/weir/bpf.h"), &include.join("bpf.h"))?;
    fs::create_dir_all(include.join("lttng-compat/lttng")).context("cannot make lttng-compat/lttng")?;
    for header in HEADERS {
        copy(&workspace::root().join("include/weir").join(header), &include.join(header))?;
    }
    link(&full, &lib.join(SONAME))?;
    link(SONAME, &lib.join("libweir_bpf.so"))?;
    for name in PKG_CONFIG_FILES {
        let template = from.join(format!("{name}.in"));
        let template = fs::read_to_string(&template).with_context(|| format!("no {}", template.display()))?;
        let path = lib.join("pkgconfig").join(name);
        fs::write(&path, filled(&template, prefix))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The text of a pkg-config file.
fn filled(template: &str, prefix: &Path) -> String {
    template.replace("@PREFIX@", &prefix.display().to_string()).replace("@VERSION@", VERSION)
}

/// A library without debug information. It replaces an older one at once, so that programs that run with that one keep
/// it.
fn copy_stripped(from: &Path, to: &Path) -> Result<()> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    copy(from, &part)?;
    // Of rustc's bitcode, which is of use to rustc alone, the same source does not always give the same bytes.
    let options = [
        "--strip-debug",
        "--enable-deterministic-archives",
        "--remove-section=.llvmbc",
        "--remove-section=.llvmcmd",
    ];
    match Command::new("strip").args(options).arg(&part).status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("strip --strip-debug {} ended with {status}", part.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("{} keeps its debug information: there is no strip here", to.display());
        }
        Err(error) => return Err(error).context("cannot start strip"),
    }
    fs::rename(&part, to).with_context(|| format!("cannot rename {} to {}", part.display(), to.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// A link, in the place of an older one.
fn link(to: &str, path: &Path) -> Result<()> {
    let _ = fs::remove_file(path);
    symlink(to, path).with_context(|| format!("cannot link {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkg_config_files_name_the_prefix_and_the_version_and_leave_nothing_open() {
        for name in PKG_CONFIG_FILES {
            let template = workspace::root().join("crates/weir-capi").join(format!("{name}.in"));
            let text = filled(&fs::read_to_string(template).unwrap(), Path::new("/opt/weir"));
            assert!(text.starts_with("prefix=/opt/weir\n"), "{text}");
            assert!(text.contains(&format!("\nVersion: {VERSION}\n")), "{text}");
            assert!(!text.contains('@'), "{text}");
        }
    }
}
