//! Of which users a run by name traces processes.
//!
//! A user may give a program any name, and a traced process maps the run's maps: it can read what was counted of other processes there, and
//! change it. So root's run by name is about the processes of one user: root's if there are any, else those of the user with the oldest one;
//! and about what those have started. A process cannot join a control group or container by a name.
//!
//! In: users of processes, as they come. Out: whether one is meant, and who was left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::processes::{Process, ProcessId};

/// Processes that are remembered so that each is reported once.
const LEFT_OUT_MAX: usize = 1000;

/// Shared by all copies of a selection.
#[derive(Clone, Debug, Default)]
pub struct Users(Option<Arc<Mutex<State>>>);

#[derive(Debug, Default)]
struct State {
    meant: BTreeSet<u32>,
    left_out: BTreeMap<ProcessId, LeftOut>,
}

/// A process that was selected by its name, and is another user's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// The user whose it is.
    pub user: u32,
    is_reported: bool,
}

/// Two selections of the same processes are equal.
impl PartialEq for Users {
    fn eq(&self, other: &Users) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

impl Eq for Users {}

impl Users {
    /// Those of one user: that of the first process.
    pub fn one() -> Users {
        Users(Some(Arc::default()))
    }

    /// Processes of every user are meant.
    pub fn are_all(&self) -> bool {
        self.0.is_none()
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of this user are meant too.
    pub fn add(&self, user: u32) {
        if let Some(mut state) = self.state() {
            state.meant.insert(user);
        }
    }

    /// Whether those of this user are meant. The first that this is asked of is.
    pub fn has(&self, user: u32) -> bool {
        let Some(mut state) = self.state() else { return true };
        if state.meant.is_empty() {
            state.meant.insert(user);
        }
        state.meant.contains(&user)
    }

    /// Notes a process that its name selects and its user does not.
    pub fn leave_out(&self, process: &Process, user: u32) {
        let Some(mut state) = self.state().filter(|state| state.left_out.len() < LEFT_OUT_MAX) else {
            return;
        };
        let (pid, comm) = (process.id.pid, process.comm.clone());
        state.left_out.entry(process.id).or_insert(LeftOut { pid, comm, user, is_reported: false });
    }

    /// Those that were left out since this was asked last.
    pub fn left_out(&self) -> Vec<LeftOut> {
        let Some(mut state) = self.state() else { return Vec::new() };
        let new = state.left_out.values_mut().filter(|left| !left.is_reported);
        new.map(|left| std::mem::replace(left, LeftOut { is_reported: true, ..left.clone() })).collect()
    }

    /// Who is meant.
    pub fn meant(&self) -> Vec<u32> {
        self.state().map_or_else(Vec::new, |state| state.meant.iter().copied().collect())
    }
}
