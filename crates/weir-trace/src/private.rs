//! Folders and files that their owner alone may read: what a program has emitted may be secret.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

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
