//! What can be wrong with a trace. Each names the file and the place in it.

use std::io;
use std::path::PathBuf;

/// Why a trace, or the rest of it, cannot be read or written.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// The system did not do something with a file.
    #[error("cannot {what} {}", path.display())]
    File { path: PathBuf, what: &'static str, source: io::Error },

    /// A file that is being written has no name any more.
    #[error("{}: it was removed while it was written", path.display())]
    Removed { path: PathBuf },

    /// There is no trace.
    #[error("{}: no trace is there or below: a trace is a folder with a file called metadata", path.display())]
    NoTrace { path: PathBuf },

    /// The metadata is not as its format wants it.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Metadata { path: PathBuf, line: u32, column: u32, message: String },

    /// The metadata is sound, but describes what cannot be.
    #[error("{}: {message}", path.display())]
    Class { path: PathBuf, message: String },

    /// A stream's bytes are not as the metadata says.
    #[error("{}: at byte {offset}: {message}", path.display())]
    Stream { path: PathBuf, offset: u64, message: String },

    /// There is more than this crate reads.
    #[error("{}: more than {limit} {what}, which is the most that is read", path.display())]
    TooMuch { path: PathBuf, what: &'static str, limit: u64 },
}
