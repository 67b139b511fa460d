//! Folders and files that their owner alone may read: what a program has emitted may be secret.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::error::Error;

/// Makes a folder, and those above it that are not there, with mode 0700. One that is there stays as it is.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// How to open files that get mode 0600 when they are made.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a file that must not be there.
pub fn make_file(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Writes a file in place of one that may be there, and of a link not what it leads to. Who reads it sees the old or the new, and never a part.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), what: "write", source };
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let hidden = path.with_file_name(name);
    match fs::remove_file(&hidden) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    make_file(&hidden).and_then(|mut file| file.write_all(bytes)).map_err(failed)?;
    fs::rename(&hidden, path).map_err(failed)
}
