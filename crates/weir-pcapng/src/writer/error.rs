//! What goes wrong when a file is written: [`WriteError`].

use std::error;
use std::fmt;
use std::io;

/// Why something was not written.
#[derive(Debug)]
pub struct WriteError {
    reason: String,
    /// Of a failed output.
    failure: Option<(u64, io::Error)>,
}

impl WriteError {
    /// The file is as it was before.
    pub(super) fn refused(reason: String) -> WriteError {
        WriteError { reason, failure: None }
    }

    pub(super) fn io(whole: u64, error: io::Error) -> WriteError {
        WriteError { reason: format!("cannot write: {error}"), failure: Some((whole, error)) }
    }

    /// Of what is asked of a writer whose output has failed.
    pub(super) fn after_failure(whole: u64) -> WriteError {
        let error = io::Error::other("the output has failed before");
        WriteError { reason: "the output has failed before".to_owned(), failure: Some((whole, error)) }
    }

    /// How many bytes from the file's beginning are whole blocks, if the output has failed: a file that is cut there can be read to
    /// its end. `None`: something was refused, and nothing of it was written.
    pub fn whole(&self) -> Option<u64> {
        self.failure.as_ref().map(|failure| failure.0)
    }

    /// The output's failure.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.failure.as_ref().map(|failure| &failure.1)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl error::Error for WriteError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.io_error().map(|error| error as &(dyn error::Error + 'static))
    }
}
