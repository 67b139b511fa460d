//! Opens files that a traced process has chosen, by what it maps or by links in its root.
//!
//! In: a path. Out: an open regular file, which opening and reading do not wait for. What is no such file is not opened at all: opening a FIFO
//! waits for a writer, opening a device does something, `/proc/kmsg` calls itself regular and waits when it is read (it has no length, as all
//! files of procfs), and opening a file on which another process has a lease (fcntl(2)) waits for that process.
//!
//! Not covered: a file system in user space (FUSE), which answers when it likes.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Of linux/fcntl.h.
const O_PATH: i32 = 0o10_000_000;
const O_NONBLOCK: i32 = 0o4_000;

/// Opens it, if it is a regular file; else says what it is ([`io::ErrorKind::InvalidInput`]).
pub fn open(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new().read(true).custom_flags(O_PATH).open(path)?;
    let metadata = place.metadata()?;
    if let Err(what) = check(&metadata) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // The same file, whatever has come to its path meanwhile.
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)
}

/// Or what it is.
pub(crate) fn check(metadata: &Metadata) -> Result<(), &'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => Ok(()),
        () if kind.is_dir() => Err("a folder"),
        () if kind.is_fifo() => Err("a named pipe"),
        () if kind.is_socket() => Err("a socket"),
        () => Err("a device"),
    }
}

/// A file of which hardly anything is on its disk. Compression saves less than this; and some file systems do not say, or say it later.
pub(crate) fn is_sparse(metadata: &Metadata) -> bool {
    const LEAST: u64 = 64 << 20;
    const PARTS: u64 = 64;
    /// Of 512 bytes: the first page of an ELF file.
    const KNOWN: u64 = 8;
    let is_known = metadata.blocks() >= KNOWN;
    is_known && metadata.len() > LEAST && metadata.blocks().saturating_mul(512) < metadata.len() / PARTS
}
