//! The rails of one run: what the policies in force let it trace, and what it may cost.
//!
//! In: the command line's budget and policy. Out, for each process that is to be traced: the budget
//! that holds, or a [`Error`] with the denial. Each process is asked about before it is touched, and once more when it
//! is held by a descriptor: between the two, another could have come to its number. What is allowed and what is not is
//! noted in the system's log.

use std::path::Path;

use weir_source::printable;

use crate::Error;
use crate::budget::Budget;
use crate::facts;
use crate::notes::{Notes, Run};
use crate::policy::{Denial, Needs, Policy};
use crate::rules::Rules;

/// Asks the policies before a process is touched, and has what becomes of it noted.
#[derive(Debug)]
pub struct Guard {
    rules: Rules,
    asked: Budget,
    notes: Notes,
}

impl Guard {
    /// Reads the policies. `asked`: what the command line allows the run to cost. `run`: what the audit says of it.
    pub fn new(policy: Option<&Path>, asked: Option<Budget>, run: Run<'_>) -> Result<Guard, Error> {
        let rules = Rules::in_force(policy)?;
        let notes = Notes::new(&rules.policies, &rules.caller, run)?;
        Ok(Guard { rules, asked: asked.unwrap_or_default(), notes })
    }

    /// To be called before process `pid`, which is held by a descriptor, is touched: notes that it is traced from now on.
    pub fn attach(&self, pid: i32, needs: &Needs) -> Result<(), Error> {
        let budget = self.admit(pid, needs)?;
        self.notes.attach(&facts::subject(pid), budget)
    }

    /// No policy would be in force, with this one.
    pub fn is_free_of(policy: Option<&Path>) -> Result<bool, Error> {
        Ok(Rules::in_force(policy)?.are_none())
    }

    /// No policy is in force.
    pub fn is_free(&self) -> bool {
        self.rules.are_none()
    }

    /// Nothing of weir's works in process `pid` any more.
    pub fn detached(&self, pid: i32) {
        self.notes.detached(pid);
    }

    /// A process that is there could not be put back.
    pub fn stuck(&self) {
        self.notes.stuck();
    }

    /// Which limits process `pid` has from whom, as messages show it; empty where there are none.
    pub fn limits(&self, pid: i32, needs: &Needs) -> String {
        let subject = facts::subject(pid);
        let judged = |policy: &Policy| {
            let allowed = policy.judge(&self.rules.caller, &subject, needs).unwrap_or_default();
            (format!("the policy {}", printable(&policy.name)), allowed)
        };
        let all =
            [("--budget".to_owned(), self.asked)].into_iter().chain(self.rules.policies.iter().map(judged));
        let limits = all.filter(|(_, budget)| *budget != Budget::default());
        limits.map(|(from, budget)| format!("{from} allows {budget}")).collect::<Vec<_>>().join(", ")
    }

    /// What tracing process `pid` with programs that do what `needs` says may cost, if it may be traced.
    pub fn admit(&self, pid: i32, needs: &Needs) -> Result<Budget, Error> {
        if self.rules.are_none() {
            return Ok(self.asked);
        }
        let subject = facts::subject(pid);
        let denied = |denial: Denial| {
            self.notes.denied(&subject, &denial);
            Error::Refused(format!("the policy does not allow it: {denial}"))
        };
        let allowed = self.rules.judge(&subject, needs).map_err(denied)?;
        Ok(allowed.into_iter().fold(self.asked, Budget::and))
    }
}
