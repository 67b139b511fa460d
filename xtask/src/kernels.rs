//! kernels: Debian's, fetched for virtual machines; `vmtest` runs in one what this machine's kernel lacks.
//!
//! In: the name of a suite. Out: `target/kernels/SUITE/vmlinuz`. apt finds the package in lists of its own below that folder, and checks signatures; the machine's
//! own lists and packages stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::process::{self, output_within, shown};
use crate::{packages, workspace};

const MIRROR: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What depends on the newest kernel of a suite for virtual machines.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// How the names of packages with images begin.
const IMAGES: [&str; 2] = ["linux-image-", "linux-binary-"];

/// LIMIT: lists are up to 10 MB, a package 35 MB.
const FETCH_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Where a kernel comes from.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum Suite {
    /// Linux 6.1
    Bookworm,
    /// Linux 6.12, as tests use it
    BookwormBackports,
    /// Linux 6.12
    Trixie,
    /// The newest that trixie's users can have
    TrixieBackports,
}

impl Suite {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Bookworm => "bookworm",
            Suite::BookwormBackports => "bookworm-backports",
            Suite::Trixie => "trixie",
            Suite::TrixieBackports => "trixie-backports",
        }
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The Debian suite whose kernel is booted
    #[arg(long, value_name = "SUITE", default_value = "bookworm-backports")]
    kernel: Suite,
}

/// Runs in a virtual machine what this machine's kernel lacks.
pub(crate) fn vmtest(options: &Options) -> Result<()> {
    packages::install_missing()?;
    let image = fetch(options.kernel)?;
    let mut test = Command::new("cargo");
    test.args(["test", "-p", "weir", "--test", "integration", "other_kernel::", "--", "--nocapture"]);
    process::run(test.env("WEIR_TEST_KERNEL", image))
}

/// The kernel that tests boot; where it cannot be had, they are skipped.
pub(crate) fn fetch_for_tests() {
    if let Err(error) = fetch(Suite::BookwormBackports) {
        eprintln!("xtask: {error:#}; the test on another kernel is skipped");
    }
}

/// The image of the suite's kernel, fetched once.
pub(crate) fn fetch(suite: Suite) -> Result<PathBuf> {
    fetch_with(suite, &[]).map(|(image, _)| image)
}

/// The same with modules, by their names: files that can be loaded as they are.
pub(crate) fn fetch_with(suite: Suite, modules: &[&str]) -> Result<(PathBuf, Vec<PathBuf>)> {
    let folder = workspace::target_folder("kernels")?.join(suite.name());
    let image = folder.join("vmlinuz");
    let module = |name: &&str| folder.join("modules").join(format!("{name}.ko"));
    let files: Vec<PathBuf> = modules.iter().map(module).collect();
    if image.is_file() && files.iter().all(|file| file.is_file()) {
        return Ok((image, files));
    }
    for needed in ["apt-get", "dpkg-deb"] {
        process::find_program(needed)
            .with_context(|| format!("no {needed}: a kernel of Debian's is unpacked with it"))?;
    }
    for made in ["lists/partial", "cache/archives/partial", "unpacked", "modules"] {
        fs::create_dir_all(folder.join(made))?;
    }
    fs::write(folder.join("sources"), format!("deb [signed-by={KEYRING}] {MIRROR} {} main\n", suite.name()))?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(&folder).stdin(Stdio::null());
        let place = |name: &str| folder.join(name).display().to_string();
        for option in [
            format!("Dir::Etc::sourcelist={}", place("sources")),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={}", place("lists")),
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Cache={}", place("cache")),
            // The folder need not be one that another user may write to.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    };
    let output = |command: &mut Command| {
        eprintln!("+ {}", shown(command));
        output_within(command, FETCH_LIMIT)
    };
    output(apt("apt-get").args(["update", "-qq"]))?;
    // The image is in the package that this one depends on or, of newer kernels, in one that that depends on.
    let mut package = PACKAGE.to_owned();
    let kernel = loop {
        let depends = output(apt("apt-cache").args(["depends", &package]))?;
        let text = String::from_utf8_lossy(&depends.stdout).into_owned();
        let mut named = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let next = named.rfind(|name| IMAGES.iter().any(|start| name.starts_with(start)));
        package = next.with_context(|| format!("{package} of {} has no image", suite.name()))?.to_owned();
        output(apt("apt-get").args(["download", "-qq", &package]))?;
        let archive = named_with(&folder, &format!("{package}_"));
        let archive = archive.with_context(|| format!("no {package} in {}", folder.display()))?;
        output(Command::new("dpkg-deb").arg("-x").args([&archive, &folder.join("unpacked")]))?;
        fs::remove_file(archive)?;
        // In /boot, or beside the modules.
        let version = package
            .split_once('-')
            .and_then(|(_, rest)| rest.split_once('-'))
            .map_or("", |(_, version)| version);
        let unpacked = folder.join("unpacked");
        let tree = unpacked.join("usr/lib/modules").join(version);
        for (name, file) in modules.iter().zip(&files) {
            let find = |pattern: &str| output(Command::new("find").arg(&tree).args(["-name", pattern]));
            let found = String::from_utf8_lossy(&find(&format!("{name}.ko.xz"))?.stdout).into_owned();
            if let Some(packed) = found.lines().next() {
                let unpacked = output(Command::new("xz").args(["-dc", packed]))?;
                fs::write(file, unpacked.stdout)?;
            }
        }
        if let Some(kernel) =
            [unpacked.join("boot"), tree].iter().find_map(|folder| named_with(folder, "vmlinuz"))
        {
            break kernel;
        }
    };
    fs::rename(kernel, &image)?;
    for left in ["unpacked", "lists", "cache"] {
        fs::remove_dir_all(folder.join(left))?;
    }
    if let Some((name, _)) = modules.iter().zip(&files).find(|(_, file)| !file.is_file()) {
        bail!("the kernel of {} has no module {name}", suite.name());
    }
    Ok((image, files))
}

/// The file of a folder whose name begins so.
fn named_with(folder: &Path, start: &str) -> Option<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    { all }.find(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(start.as_bytes()))
    })
}
