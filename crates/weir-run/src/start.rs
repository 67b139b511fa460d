//! What a run is started with: where its output goes, and who looks on.

use std::fmt;
use std::io::{self, BufWriter, Write};

use weir_policy::figures::Figures;
use weir_report::{Format, Report};

use crate::supervisor::Supervisor;

/// Where a run's output goes, and who looks on.
pub struct Start {
    /// What the script prints.
    pub report: Report<Box<dyn Write>>,
    /// Shows what probes cost.
    pub view: Option<Box<dyn View>>,
    /// Of a recording.
    pub supervisor: Option<Box<dyn Supervisor>>,
}

impl Start {
    /// As text, to a writer that is flushed whenever the run waits.
    pub fn to(out: impl Write + 'static) -> Start {
        Start::with(Report::new(Box::new(BufWriter::new(out)), Format::Text))
    }

    /// By a report, which has its writer and its format.
    pub fn with(report: Report<Box<dyn Write>>) -> Start {
        Start { report, view: None, supervisor: None }
    }

    /// What the script prints is not wanted.
    pub fn silently() -> Start {
        Start::to(io::sink())
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (view, supervisor) = (self.view.is_some(), self.supervisor.is_some());
        f.debug_struct("Start").field("view", &view).field("supervisor", &supervisor).finish_non_exhaustive()
    }
}

/// A view of what probes cost, which is kept while the run lasts, and dropped before the end is printed.
pub trait View {
    /// Processes are about to be attached to.
    fn begin(&mut self);
    /// It shows the costs, so that no notices report them.
    fn shows_costs(&self) -> bool;
    /// Shows what is new, where that is due; true where its user asks for the end.
    fn round(&mut self, shown: &dyn Fn() -> Shown) -> bool;
}

/// What a view shows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shown {
    /// What probes cost, by process.
    pub figures: Figures,
    /// Traced processes.
    pub processes: usize,
    /// Records that were lost.
    pub lost: u64,
}
