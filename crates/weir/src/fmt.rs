//! `weir fmt`: scripts in weir's style, from file to file.
//!
//! A script that cannot be read is reported as everywhere, and stays as it is; the others are formatted all the same. A file is
//! replaced as a whole, and only if it changes: who reads it sees the old text or the new. It keeps its mode and its owner, and where
//! its name is a symbolic link, the link. What the style is decides `weir-script`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use weir_source::SourceFile;

use crate::args::Script;
use crate::args::fmt::Fmt;
use crate::failure::{Failure, Report as _};
use crate::print::print;
use crate::run::source_of;

/// Formats all scripts. The exit code is that of the first that failed, or would change.
pub(crate) fn fmt(args: &Fmt) -> ExitCode {
    let mut code = None;
    for script in args.scripts() {
        let failed = match one(args, script) {
            Ok(is_fine) => (!is_fine).then(|| ExitCode::from(1)),
            Err((failure, source)) => Some(failure.report(source.as_ref())),
        };
        code = code.or(failed);
    }
    code.unwrap_or(ExitCode::SUCCESS)
}

/// False if the script is one that `--check` does not accept.
fn one(args: &Fmt, script: Script<'_>) -> Result<bool, (Failure, Option<SourceFile>)> {
    let source = source_of(script).map_err(|failure| (failure, None))?;
    let done = weir_run::formatted(&source).and_then(|formatted| match script {
        _ if args.check => {
            let is_fine = formatted == source.text;
            if !is_fine {
                print(&format!("{}\n", source.name))?;
            }
            Ok(is_fine)
        }
        Script::File(path) if !args.print => {
            if formatted != source.text {
                replace(path, &formatted)
                    .with_context(|| format!("cannot write {}", path.display()))
                    .map_err(Failure::Refused)?;
            }
            Ok(true)
        }
        _ => print(&formatted).map(|_| true),
    });
    done.map_err(|failure| (failure, Some(source)))
}

/// Gives a file another text, all at once.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let path = fs::canonicalize(path)?;
    let old = fs::metadata(&path)?;
    // SANITY: what can be read is no folder, and so has a name.
    let name = path.file_name().expect("a name").to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    if !old.is_file() {
        return Err(anyhow!("it is no regular file"));
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = write(file, &old, text).and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    Ok(written?)
}

fn write(mut file: File, old: &fs::Metadata, text: &str) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        fchown(&file, Some(old.uid()), Some(old.gid()))?;
    }
    // Behind the owner, whose change takes bits away.
    file.set_permissions(old.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
