//! What can be wrong with a trace. Each names the file and the place in it.

use std::io;
use std::path::PathBuf;

/// Why a trace, or the rest of it, cannot be read or written.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system did not do something with a file.
    #[error("cannot {what} {}", path.display())]
    File {
        /// Of the file or folder.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// A file that is being written has no name any more.
    #[error("{}: it was removed while it was written", path.display())]
    Removed {
        /// Of the folder.
        path: PathBuf,
    },

    /// There is no trace.
    #[error("{}: no trace is there or below: a trace is a folder with a file called metadata", path.display())]
    NoTrace {
        /// Of the folder.
        path: PathBuf,
    },

    /// The metadata is not as its format wants it.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Metadata {
        /// Of the file.
        path: PathBuf,
        /// From 1 on.
        line: u32,
        /// From 1 on.
        column: u32,
        /// What is wrong there.
        message: String,
    },

    /// The metadata is sound, but describes what cannot be.
    #[error("{}: {message}", path.display())]
    Class {
        /// Of the file.
        path: PathBuf,
        /// What that is.
        message: String,
    },

    /// A stream's bytes are not as the metadata says.
    #[error("{}: at byte {offset}: {message}", path.display())]
    Stream {
        /// Of the file.
        path: PathBuf,
        /// In bytes.
        offset: u64,
        /// What is wrong there.
        message: String,
    },

    /// There is more than this crate reads.
    #[error("{}: more than {limit} {what}, which is the most that is read", path.display())]
    TooMuch {
        /// Of the file.
        path: PathBuf,
        /// What is bounded.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
}
