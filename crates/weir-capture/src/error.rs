//! What goes wrong: [`Error`].

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a capture cannot begin, or go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no such interface.
    NoInterface {
        /// The name that was given.
        name: String,
    },
    /// The kernel refused a call for an interface.
    Interface {
        /// Its name.
        name: String,
        /// What was to be done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// An interface went down, or is gone.
    Gone {
        /// Its name.
        name: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// Something that was asked for is outside of the limits.
    Limit(String),
    /// A capture file cannot be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A capture file cannot be read, or no further.
    Read {
        /// The file.
        path: PathBuf,
        /// Why, and at which byte.
        error: weir_pcapng::Error,
    },
    /// An output cannot be made.
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An output failed. What was written before is whole blocks, and readable.
    Write {
        /// The file; none if it is a pipe.
        path: Option<PathBuf>,
        /// Bytes of whole blocks that are in it.
        whole: u64,
        /// Why.
        error: io::Error,
    },
    /// The format has no room for something.
    Format(weir_pcapng::WriteError),
    /// A filter cannot be had for a link type; the caller's [`Filters`](crate::Filters) knows why.
    Filter {
        /// LINKTYPE_ of a file.
        link_type: u16,
        /// Why.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A source that is not of this crate can yield no more.
    Source(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The reader of a pipe that was written to has gone.
    pub fn is_reader_gone(&self) -> bool {
        matches!(self, Error::Write { error, .. } if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoInterface { name } => write!(f, "there is no interface `{}`", name.escape_debug()),
            Error::Interface { name, doing, error } => write!(f, "{name}: {doing}: {error}"),
            Error::Gone { name, error } => {
                write!(
                    f,
                    "the interface {name} went down or is gone ({error}); what was captured before is kept"
                )
            }
            Error::Limit(what) => what.fmt(f),
            Error::Open { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            // Its text has that of its cause.
            Error::Read { path, error } => write!(f, "{}: {error}", path.display()),
            Error::Create { path, error } => write!(f, "cannot make {}: {error}", path.display()),
            Error::Write { path: Some(path), whole, error } => {
                write!(
                    f,
                    "writing to {}: {error}; its {whole} bytes are whole, and can be read",
                    path.display()
                )
            }
            Error::Write { path: None, error, .. } => write!(f, "writing to the pipe: {error}"),
            Error::Format(error) => error.fmt(f),
            Error::Filter { error, .. } | Error::Source(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
