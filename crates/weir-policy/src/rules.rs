//! The rules in force for who runs weir.
//!
//! In: the policies' files, the caller. Out, for a process: the budget that holds, or a [`Denial`]. A weir that has a capability which its
//! caller lacks (a file capability) lends it by the rules of the administrator's policy alone: where there are none, a caller may do what
//! they could with a weir that they build themselves.

use std::path::Path;

use weir_probe::Forbidden;

use crate::Error;
use crate::budget::Budget;
use crate::facts;
use crate::policy::file::{self, SYSTEM_POLICY};
use crate::policy::{Caller, Denial, Needs, Policy, Subject};

/// All policies that hold, for one caller.
#[derive(Debug)]
pub struct Rules {
    /// The administrator's first.
    pub policies: Vec<Policy>,
    /// Who runs weir.
    pub caller: Caller,
    is_unruled: bool,
}

impl Rules {
    /// Those of the administrator, and of `own`, which can only take away.
    pub fn in_force(own: Option<&Path>) -> Result<Rules, Error> {
        let caller = facts::caller();
        let policies = file::load(own, caller.user.id)?;
        let has_rules = |policy: &Policy| policy.name == SYSTEM_POLICY && policy.rules.is_some();
        let is_unruled = weir_probe::is_more_privileged_than_its_user() && !policies.iter().any(has_rules);
        Ok(Rules { policies, caller, is_unruled })
    }

    /// Nothing is asked of any process.
    pub(crate) fn are_none(&self) -> bool {
        self.policies.is_empty() && !self.is_unruled
    }

    /// What each policy, by itself, lets tracing `subject` cost.
    pub fn judge(&self, subject: &Subject, needs: &Needs) -> Result<Vec<Budget>, Denial> {
        if self.is_unruled
            && let Some(forbidden) = Forbidden::without_capabilities(subject.pid)
        {
            return Err(Denial::unruled(&self.caller, subject, &forbidden));
        }
        self.policies.iter().map(|policy| policy.judge(&self.caller, subject, needs)).collect()
    }

    /// Whether the caller may take probes out of a process. No policy forbids that; but what they may not touch at all stays so.
    pub fn may_undo(&self, pid: i32) -> Result<(), Denial> {
        match self.is_unruled {
            true => self.may_see(pid),
            false => Ok(()),
        }
    }

    /// Whether the caller may see what a process runs, and what traces it.
    pub fn may_see(&self, pid: i32) -> Result<(), Denial> {
        self.judge(&facts::subject(pid), &Needs::default()).map(drop)
    }

    /// What holds for the caller, a line each.
    pub fn summary(&self) -> Vec<String> {
        let unruled = self.is_unruled.then(|| Denial::UNRULED.to_owned());
        self.policies.iter().map(|policy| policy.summary(&self.caller)).chain(unruled).collect()
    }
}
