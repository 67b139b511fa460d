//! Why weir ends without having done what it was asked, and the exit code for it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use weir_probe::Refusal;
use weir_source::{Diagnostic, SourceFile};

/// The four failures, never mixed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The script is wrong: all faults found.
    Script(Vec<Diagnostic>),
    /// What was asked for cannot be done with what was named.
    Refused(anyhow::Error),
    /// The machine or the target does not allow it.
    Machine(anyhow::Error),
    /// weir is wrong.
    Bug(anyhow::Error),
}

impl Failure {
    /// What was refused is in this file.
    pub(crate) fn of_file(self, path: &Path) -> Failure {
        match self {
            Failure::Refused(error) => Failure::Refused(error.context(path.display().to_string())),
            other => other,
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Script(_) | Failure::Refused(_) => 1,
            Failure::Machine(_) => 3,
            Failure::Bug(_) => 101,
        })
    }

    /// Prints the message to standard error; the exit code.
    pub(crate) fn report(&self, source: Option<&SourceFile>) -> ExitCode {
        match self {
            Failure::Script(diagnostics) => {
                let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
                if let Some(source) = source {
                    eprint!("{}", weir_source::render(source, diagnostics, color));
                }
            }
            Failure::Refused(error) | Failure::Machine(error) => eprintln!("weir: {error:#}"),
            Failure::Bug(error) => {
                eprintln!("weir: this is a bug of weir, please report it with the script: {error:#}");
            }
        }
        self.code()
    }
}

impl From<weir_probe::Error> for Failure {
    fn from(error: weir_probe::Error) -> Failure {
        use weir_probe::Error;
        match error {
            // The text has the cause in it already; a chain would say it twice.
            Error::Symbols(_) | Error::NotProbed { .. } => Failure::Refused(anyhow!("{error}")),
            other => Failure::Machine(anyhow!("{other}")),
        }
    }
}

/// True if the site was refused for what the machine is like now, not for what was asked.
pub(crate) fn is_machine(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::TextDiffers { .. } | Refusal::Busy { .. } | Refusal::NoRoom | Refusal::ReturnNoRoom
    )
}
