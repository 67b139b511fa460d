//! library: installs libweir_bpf, its header and its pkg-config file below a prefix.
//!
//! The shared library stands under its full version, with the links that the loader (libweir_bpf.so.0) and the linker
//! (libweir_bpf.so) look for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, workspace};

/// The version of the workspace, which is the library's.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// As in crates/weir-capi/build.rs.
const SONAME: &str = "libweir_bpf.so.0";

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Below it come lib/ and include/
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
}

pub(crate) fn install(options: &Options) -> Result<()> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--package", "weir-capi"]);
    process::run(build.current_dir(workspace::root()))?;
    let (built, from) = (workspace::target_folder("release")?, workspace::root().join("crates/weir-capi"));
    let (lib, include) = (options.prefix.join("lib"), options.prefix.join("include/weir"));
    for folder in [&lib.join("pkgconfig"), &include] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let full = format!("libweir_bpf.so.{VERSION}");
    copy(&built.join("libweir_bpf.so"), &lib.join(&full))?;
    copy(&built.join("libweir_bpf.a"), &lib.join("libweir_bpf.a"))?;
    copy(&from.join("include/weir/bpf.h"), &include.join("bpf.h"))?;
    link(&full, &lib.join(SONAME))?;
    link(SONAME, &lib.join("libweir_bpf.so"))?;
    let template = fs::read_to_string(from.join("weir-bpf.pc.in"))?;
    let prefix = options.prefix.display().to_string();
    let text = template.replace("@PREFIX@", &prefix).replace("@VERSION@", VERSION);
    let path = lib.join("pkgconfig/weir-bpf.pc");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("installed {full}, libweir_bpf.a, weir/bpf.h and weir-bpf.pc below {prefix}");
    Ok(())
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
