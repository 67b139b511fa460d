//! Why something was not done.

use std::fmt;
use std::path::Path;

use weir_probe::Refusal;
use weir_source::{Diagnostic, SourceFile, Span};

/// The failures, never mixed.
#[derive(Debug)]
pub enum Failure {
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
    pub fn of_file(self, path: &Path) -> Failure {
        match self {
            Failure::Refused(error) => Failure::Refused(error.context(path.display().to_string())),
            other => other,
        }
    }

    /// What was refused is of the clause that stands there in the script: its attach points are shown. What a message says in further lines is a hint.
    pub(crate) fn at(self, clause: Span, source: &SourceFile) -> Failure {
        let Failure::Refused(error) = self else { return self };
        let text = format!("{error:#}");
        let (message, hint) = text.split_once('\n').unwrap_or((&text, ""));
        let of_clause = source.text.get(clause.start as usize..clause.end as usize).unwrap_or_default();
        let points = of_clause.find(['{']).map_or(of_clause, |body| &of_clause[..body]);
        let points = points.split_once(" /").map_or(points, |(points, _)| points).trim_end();
        let span = Span { end: clause.start + points.len() as u32, ..clause };
        let diagnostic = Diagnostic::error(span, message.to_owned());
        Failure::Script(vec![if hint.is_empty() { diagnostic } else { diagnostic.with_hint(hint) }])
    }

    /// What happened to the process, if it is that.
    pub fn of_process(&self) -> Option<&weir_probe::Error> {
        match self {
            Failure::Refused(error) | Failure::Machine(error) => Some(&error.downcast_ref::<Whole>()?.0),
            Failure::Usage(_)
            | Failure::Script(_)
            | Failure::Text(..)
            | Failure::ReaderGone
            | Failure::Bug(_) => None,
        }
    }

    /// A recording has no event.
    pub fn is_of_no_event(&self) -> bool {
        matches!(self, Failure::Refused(error) if error.is::<NoEvent>())
    }

    /// With whose limits they are, where it is about one of what may be taken of a process.
    pub(crate) fn with_limits(error: weir_probe::Error, limits: impl FnOnce() -> String) -> Failure {
        let is_of_limit = matches!(error, weir_probe::Error::TooMuchMemory { .. }) || error.is_of_stop();
        let limits = if is_of_limit { limits() } else { String::new() };
        Failure::from(Whole(error, limits))
    }
}

/// Nothing of what was asked for is recorded.
#[derive(Debug)]
pub(crate) struct NoEvent;

impl fmt::Display for NoEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing is left to record: -x or --loglevel leaves out every event that -e names")
    }
}

impl std::error::Error for NoEvent {}

/// The message, without the places in a script that it may be about.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Script(faults) => f.write_str(&listed(faults)),
            Failure::Text(source, faults) => write!(f, "{}: {}", source.name, listed(faults)),
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

/// What is wrong, without where. [`weir_source::render`] shows both.
fn listed(faults: &[Diagnostic]) -> String {
    let faults: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    faults.join("; ")
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
