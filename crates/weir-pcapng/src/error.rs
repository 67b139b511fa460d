//! What goes wrong: [`Error`], with the place in the file and the reason.

use std::error;
use std::fmt;
use std::io;

/// What kind of fault an [`Error`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input could not be read.
    Io,
    /// The input ends inside of a block or record. All before it was whole, and was given.
    Truncated,
    /// More than one of the [`Limits`](crate::Limits).
    Limit,
    /// No capture file, or one of a kind that is not read.
    Unsupported,
    /// Against the format.
    Malformed,
}

/// Why a file cannot be read, or no further. After it, a reader gives nothing more.
#[derive(Debug)]
pub struct Error {
    offset: u64,
    kind: ErrorKind,
    reason: String,
    cause: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, offset: u64, reason: impl Into<String>) -> Error {
        Error { offset, kind, reason: reason.into(), cause: None }
    }

    pub(crate) fn io(offset: u64, cause: io::Error) -> Error {
        Error { offset, kind: ErrorKind::Io, reason: format!("cannot read: {cause}"), cause: Some(cause) }
    }

    /// The byte of the file at which it is; for a block that is cut short, the block's first.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The input has nothing yet, and does not wait ([`io::ErrorKind::WouldBlock`]).
    pub fn would_block(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.kind() == io::ErrorKind::WouldBlock)
    }

    /// The text without the offset.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.reason)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn error::Error + 'static))
    }
}
