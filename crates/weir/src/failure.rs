//! How a failure ends weir: its message, and the exit code for it.

use std::process::ExitCode;

use weir_source::SourceFile;

use crate::print::{is_coloured, tell_text};

pub(crate) use weir_run::Failure;

/// What the command line does with a failure.
pub(crate) trait Report {
    /// The exit code.
    fn code(&self) -> ExitCode;
    /// The message, with the line's end. `source`: the script, if there is one.
    fn message(&self, source: Option<&SourceFile>) -> String;
    /// Prints the message to standard error; the exit code.
    fn report(&self, source: Option<&SourceFile>) -> ExitCode {
        tell_text(&self.message(source));
        self.code()
    }
}

impl Report for Failure {
    fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::ReaderGone => 0,
            Failure::Script(_) | Failure::Text(..) | Failure::Refused(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Machine(_) => 3,
            Failure::Bug(_) => 101,
        })
    }

    fn message(&self, source: Option<&SourceFile>) -> String {
        let rendered =
            |source: &SourceFile, diagnostics: &[_]| weir_source::render(source, diagnostics, is_coloured());
        match self {
            Failure::Script(diagnostics) => {
                source.map_or_else(String::new, |source| rendered(source, diagnostics))
            }
            Failure::Text(source, diagnostics) => rendered(source, diagnostics),
            Failure::Usage(error) | Failure::Refused(error) | Failure::Machine(error) => {
                format!("weir: {error:#}\n")
            }
            Failure::ReaderGone => String::new(),
            Failure::Bug(error) => {
                format!("weir: this is a bug of weir, please report it with the script: {error:#}\n")
            }
        }
    }
}
