//! Why weir ends without having done what it was asked, and the exit code for it.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use weir_probe::Refusal;
use weir_source::{Diagnostic, SourceFile};

use crate::print::{is_coloured, tell, tell_text};

/// The failures, never mixed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Options that do not go together, where the parser of the command line does not see it.
    Usage(anyhow::Error),
    /// The script is wrong: all faults found.
    Script(Vec<Diagnostic>),
    /// The same of another text: a filter.
    Text(SourceFile, Vec<Diagnostic>),
    /// What was asked for cannot be done with what was named.
    Refused(anyhow::Error),
    /// The machine or the target does not allow it.
    Machine(anyhow::Error),
    /// Nobody reads the output any more (a pipe into `head`): nothing that is to be reported.
    ReaderGone,
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

    /// What happened to the process, if it is that.
    pub(crate) fn of_process(&self) -> Option<&weir_probe::Error> {
        match self {
            Failure::Refused(error) | Failure::Machine(error) => Some(&error.downcast_ref::<Whole>()?.0),
            Failure::Usage(_)
            | Failure::Script(_)
            | Failure::Text(..)
            | Failure::ReaderGone
            | Failure::Bug(_) => None,
        }
    }

    /// With whose limits they are, where it is about one of what may be taken of a process.
    pub(crate) fn with_limits(error: weir_probe::Error, limits: impl FnOnce() -> String) -> Failure {
        let is_of_limit = matches!(error, weir_probe::Error::TooMuchMemory { .. }) || error.is_of_stop();
        let limits = if is_of_limit { limits() } else { String::new() };
        Failure::from(Whole(error, limits))
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::ReaderGone => 0,
            Failure::Script(_) | Failure::Text(..) | Failure::Refused(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Machine(_) => 3,
            Failure::Bug(_) => 101,
        })
    }

    /// Prints the message to standard error; the exit code.
    pub(crate) fn report(&self, source: Option<&SourceFile>) -> ExitCode {
        match self {
            Failure::Script(diagnostics) => {
                if let Some(source) = source {
                    tell_text(&weir_source::render(source, diagnostics, is_coloured()));
                }
            }
            Failure::Text(source, diagnostics) => {
                tell_text(&weir_source::render(source, diagnostics, is_coloured()));
            }
            Failure::Usage(error) | Failure::Refused(error) | Failure::Machine(error) => {
                tell!("weir: {error:#}")
            }
            Failure::ReaderGone => {}
            Failure::Bug(error) => {
                tell!("weir: this is a bug of weir, please report it with the script: {error:#}");
            }
        }
        self.code()
    }
}

/// The message, without the places in a script that it may be about.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Script(diagnostics) => write!(f, "{} faults in the script", diagnostics.len()),
            Failure::Text(source, diagnostics) => {
                write!(f, "{} faults in {}", diagnostics.len(), source.name)
            }
            Failure::ReaderGone => f.write_str("nobody reads the output any more"),
            Failure::Usage(error)
            | Failure::Refused(error)
            | Failure::Machine(error)
            | Failure::Bug(error) => {
                write!(f, "{error:#}")
            }
        }
    }
}

/// An error whose text has the cause in it already: a chain would say it twice.
#[derive(Debug)]
struct Whole(
    weir_probe::Error,
    /// Whose limits it is about, if it is about one.
    String,
);

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.1[..] {
            "" => self.0.fmt(f),
            limits => write!(f, "{} ({limits})", self.0),
        }
    }
}

impl std::error::Error for Whole {}

impl From<weir_probe::Error> for Failure {
    fn from(error: weir_probe::Error) -> Failure {
        Failure::from(Whole(error, String::new()))
    }
}

impl From<weir_policy::Error> for Failure {
    fn from(error: weir_policy::Error) -> Failure {
        match error {
            weir_policy::Error::Refused(_) => Failure::Refused(anyhow::Error::new(error)),
            weir_policy::Error::Unavailable(_) => Failure::Machine(anyhow::Error::new(error)),
        }
    }
}

impl From<weir_sessions::Error> for Failure {
    fn from(error: weir_sessions::Error) -> Failure {
        match error {
            weir_sessions::Error::Refused(error) => Failure::Refused(error),
            weir_sessions::Error::Unavailable(error) => Failure::Machine(error),
        }
    }
}

impl From<weir_kernel::KernelError> for Failure {
    fn from(error: weir_kernel::KernelError) -> Failure {
        match error.is_of_the_machine() {
            true => Failure::Machine(anyhow::Error::new(error)),
            false => Failure::Refused(anyhow::Error::new(error)),
        }
    }
}

impl From<Whole> for Failure {
    fn from(whole: Whole) -> Failure {
        use weir_probe::Error;
        match whole.0 {
            Error::Symbols(_) | Error::NotProbed { .. } | Error::TooMuchMemory { .. } => {
                Failure::Refused(anyhow::Error::new(whole))
            }
            _ => Failure::Machine(anyhow::Error::new(whole)),
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
