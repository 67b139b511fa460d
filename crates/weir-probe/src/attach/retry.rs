//! Tries places again that could not be patched at the moment: a thread or goroutine was inside the patch, or there was no room.
//!
//! In: an [`Attachment`], and the sites that it was armed with. Out: those that stand now, and those that cannot be patched for
//! another reason by now.
//!
//! Each try stops the target some ten times. So it is tried after [`RETRY_FIRST`], then after twice as long each time, [`RETRIES`]
//! times in all.
//!
//! Deliberately not: places in a library that was loaded later, which [`crate::loads`] tries again when something is loaded; hooks of
//! weir's own; returns where the entry stands.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use weir_plan::Refusal;

use crate::attach::request::{Outcome, SiteRequest};
use crate::attach::state::{Attachment, Retries};
use crate::limits::{RETIRE_TRIES, RETRIES, RETRIES_MAX, RETRY_FIRST, RETRY_STOPS_MAX};
use crate::refusal::Error;

impl Retries {
    pub(crate) fn of(outcomes: &[Outcome]) -> Retries {
        let waiting = outcomes.iter().enumerate().filter(|(_, outcome)| is_of_the_moment(outcome));
        let waiting = waiting.map(|(index, _)| index).collect();
        let mut retries = Retries { waiting, ..Retries::default() };
        retries.wait();
        retries
    }

    /// How often a thread that is inside a patch is let run to leave it.
    pub(crate) fn stops_max(&self) -> u32 {
        if self.is_trying { RETRY_STOPS_MAX } else { RETRIES_MAX }
    }

    /// For the next time, if there is one.
    fn wait(&mut self) {
        let is_over = self.waiting.is_empty() || self.tried >= RETRIES;
        let pause = RETRY_FIRST * (1 << self.tried.min(RETRIES));
        self.due = (!is_over).then(|| Instant::now() + pause);
    }
}

impl Attachment {
    /// How long until [`Attachment::retry`] has something to do; none if it never has.
    pub fn until_retry(&self) -> Option<Duration> {
        self.retries.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Tries again what is due. `sites`: those that it was armed with. Of those that are not waited for any more: by index, what
    /// became of them.
    pub fn retry(&mut self, sites: &[SiteRequest]) -> (Vec<(usize, Outcome)>, Result<(), Error>) {
        if self.until_retry().is_none_or(|until| !until.is_zero()) {
            return (Vec::new(), Ok(()));
        }
        self.retries.tried += 1;
        self.retries.is_trying = true;
        let tried = self.try_waiting(sites);
        self.retries.is_trying = false;
        self.retries.wait();
        match tried {
            Ok(outcomes) => (outcomes, Ok(())),
            Err(error) => (Vec::new(), Err(self.target.explain(error))),
        }
    }

    fn try_waiting(&mut self, sites: &[SiteRequest]) -> Result<Vec<(usize, Outcome)>, Error> {
        self.target.refresh()?;
        // Somebody else has put these in meanwhile: their library was loaded again.
        let standing: HashSet<u64> =
            self.consumers.sites.iter().map(|site| site.planned.patch_address()).collect();
        let address = |site: &SiteRequest| {
            let bias = self.target.bias(site.binary)?;
            Some(self.place_of(site, site.window.as_ref().ok()?, bias))
        };
        let is_gone = |index: &usize| {
            sites.get(*index).and_then(address).is_none_or(|address| standing.contains(&address))
        };
        let gone: Vec<usize> = self.retries.waiting.iter().copied().filter(is_gone).collect();
        gone.iter().for_each(|index| _ = self.retries.waiting.remove(index));
        let indices: Vec<usize> = self.retries.waiting.iter().copied().collect();
        let wanted: Vec<SiteRequest> = indices.iter().map(|&index| sites[index].clone()).collect();
        let outcomes = self.put_in(&wanted)?;
        let mut done: Vec<(usize, Outcome)> = indices.into_iter().zip(outcomes).collect();
        done.retain(|(_, outcome)| !is_of_the_moment(outcome));
        done.iter().for_each(|(index, _)| _ = self.retries.waiting.remove(index));
        // The code of those that do not stand.
        self.retire(RETIRE_TRIES)?;
        Ok(done)
    }
}

fn is_of_the_moment(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(Refusal::is_of_the_moment)
}
