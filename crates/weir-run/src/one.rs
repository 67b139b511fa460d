//! One traced process, with what was put into it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_policy::budget::Share;
use weir_probe::{Attachment, Filter, Outcome, Refusal};
use weir_process::processes::ProcessId;

use crate::loads::Followed;
use crate::notice::note;
use crate::plan::Plan;
use crate::summary::Coverage;
use crate::watched::Watched;

/// How long a process waits for other recordings at most, once it has come to where it does: less than it waits for this one.
const DOOR_MAX: Duration = Duration::from_millis(400);

/// How long it may take to come there.
const DOOR_WAIT: Duration = Duration::from_secs(1);

/// Where a process waits for other recordings before its own code runs: the dynamic linker announces what it has loaded, and this recording does not
/// answer until the others have come.
#[derive(Debug)]
pub(crate) struct Door {
    id: ProcessId,
    since: Instant,
    /// Since when it is there.
    there: Option<Instant>,
}

impl Door {
    pub(crate) fn of(id: ProcessId) -> Door {
        Door { id, since: Instant::now(), there: None }
    }

    fn is_over(&self) -> bool {
        self.there.map_or(self.since.elapsed() >= DOOR_WAIT, |there| there.elapsed() >= DOOR_MAX)
    }
}

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
    /// It waits for other recordings.
    pub(crate) door: Option<Door>,
    missed_door: Option<ProcessId>,
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
        One {
            attachment,
            plan,
            programs,
            coverage,
            followed,
            writes_records,
            share,
            door: None,
            missed_door: None,
            watched: None,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.attachment.target().pid()
    }

    /// What it announces is not answered yet, so that it does not run on.
    pub(crate) fn waits_for_others(&mut self) -> bool {
        if let Some(door) = self.door.take_if(|door| door.is_over())
            && door.there.is_none()
        {
            self.missed_door = Some(door.id);
        }
        self.door.is_some()
    }

    /// Its number, once, when others may come to it.
    pub(crate) fn comes_to_door(&mut self) -> Option<ProcessId> {
        // It never came there: they come late.
        if let Some(missed) = self.missed_door.take() {
            return Some(missed);
        }
        let door = self.door.as_mut().filter(|door| door.there.is_none())?;
        let id = door.id;
        match self.attachment.waits_for_answer() {
            // They come late.
            None => self.door = None,
            Some(false) => return None,
            Some(true) => door.there = Some(Instant::now()),
        }
        Some(id)
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
