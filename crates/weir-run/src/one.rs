//! One traced process, with what was put into it.

use std::cell::RefCell;
use std::rc::Rc;

use weir_policy::budget::Share;
use weir_probe::{Attachment, Filter, Outcome, Refusal};

use crate::loads::Followed;
use crate::notice::note;
use crate::plan::Plan;
use crate::summary::Coverage;
use crate::watched::Watched;

/// One traced process.
pub(crate) struct One {
    pub(crate) attachment: Attachment,
    pub(crate) plan: Rc<Plan>,
    /// The program that each executable is of.
    pub(crate) programs: Vec<usize>,
    pub(crate) coverage: Coverage,
    pub(crate) followed: Followed,
    /// Its probes write records.
    pub(crate) writes_records: bool,
    /// The share of its CPU time that probes may take.
    pub(crate) share: Option<Share>,
    /// What its probes cost, once that is looked at.
    pub(crate) watched: Option<Rc<RefCell<Watched>>>,
}

impl One {
    pub(crate) fn new(
        attachment: Attachment,
        plan: Rc<Plan>,
        programs: Vec<usize>,
        coverage: Coverage,
        followed: Followed,
        share: Option<Share>,
    ) -> One {
        let writes_records = plan.writes_records();
        One { attachment, plan, programs, coverage, followed, writes_records, share, watched: None }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.attachment.target().pid()
    }

    /// Nothing was probed, since its files were not mapped at that moment.
    pub(crate) fn is_in_between(&self) -> bool {
        let is_missing = |outcome: &Outcome| matches!(outcome, Err(Refusal::NotMapped { .. }));
        self.attachment.outcomes().iter().all(is_missing)
    }

    /// Says once that the process has come under seccomp since it was attached to.
    pub(crate) fn look_for_filter(&mut self) {
        let pid = self.pid();
        match self.attachment.filter_installed() {
            None => {}
            Some(Filter::Asked | Filter::Seen) => note!(
                self.followed.notices,
                Target,
                "process {pid} has installed a system call filter: from now on weir's code in it makes no system call; reads \
                 of memory, stacks, comm and the like are refused, and counted"
            ),
            Some(Filter::Strict) => note!(
                self.followed.notices,
                Target,
                "process {pid} has entered seccomp's strict mode: from now on weir's code in it makes no system call and reads \
                 no clock; reads of memory, stacks, comm, times and the like are refused, and counted, and no hit is timed"
            ),
        }
    }
}
