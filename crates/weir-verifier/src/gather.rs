//! Paths that wait for each other where ways meet, and go on as one.
//!
//! In a run that counts rounds (`counted`) a path that comes to a jump target lets those go first that may still come
//! there. What comes there too is added to the one that waits: so code after n branches is followed once, and not 2^n
//! times. Elsewhere constants count rounds, and must be kept apart.
//!
//! Why that is safe. The state that goes on holds all that were added, which is looked at each time. A path that was
//! added ends there as one does that is covered, and what it came through is marked as if all that may be read from
//! there on was read: so it says nothing that the state that goes on does not know. No path waits for itself, since
//! the one that goes on was not followed from there before. That a run ends does not rest on paths, but on counts.

use crate::explore::{Path, Precision, Walk, Work};
use crate::places::WHOLE_FRAME;
use crate::state::{Join, covers_wholly};

/// What becomes of a path at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gathered {
    /// It goes on.
    No,
    /// It is in one that waits there.
    Joined,
    /// It waits, and is now the one that goes first.
    Waits,
}

/// Paths that wait, of which so many are looked at.
const WAITING_MAX: usize = 16;

impl Walk<'_> {
    /// At a jump target.
    pub(crate) fn gather(&mut self, path: &mut Path, work: &mut [Work]) -> Gathered {
        let (Precision::Gathered(_), Some(counting)) = (self.precision, &self.counting) else {
            return Gathered::No;
        };
        counting.arrival(path);
        let mut first = None;
        let mut looked_at = 0;
        for index in (0..work.len()).rev() {
            let Work::Follow(waiting) = &mut work[index] else { continue };
            if waiting.at == path.at && waiting.entry == path.entry && self.add(path, waiting) {
                self.read_before(path);
                self.has_merged.set(true);
                return Gathered::Joined;
            }
            if first.is_none() && counting.leads_on(waiting, path) {
                first = Some(index);
            }
            looked_at += 1;
            if looked_at == WAITING_MAX {
                break;
            }
        }
        let Some(first) = first else { return Gathered::No };
        if work[first..].iter().any(|other| matches!(other, Work::Finish(_))) {
            // These end before the path goes on.
            self.read_before(path);
        }
        let Work::Follow(waiting) = &mut work[first] else { return Gathered::No };
        std::mem::swap(path, waiting);
        Gathered::Waits
    }

    /// Makes `waiting` hold `path` too, if the two differ in numbers alone, among what may be read.
    fn add(&self, path: &mut Path, waiting: &mut Path) -> bool {
        let Some(counting) = &self.counting else { return false };
        for path in [&mut *path, &mut *waiting] {
            path.state.forget_registers(!counting.live(path.at));
        }
        let Some(both) = waiting.state.join(&path.state, Join::HullOfAll) else { return false };
        if !covers_wholly(&both, &path.state) || !covers_wholly(&both, &waiting.state) {
            return false;
        }
        waiting.state = both;
        true
    }

    /// What may be read from where the path is on counts as read before.
    fn read_before(&mut self, path: &Path) {
        let Some(counting) = &self.counting else { return };
        let (live, depth) = (counting.live(path.at), path.state.depth());
        self.read_all(path, |frame| if frame == depth { live } else { WHOLE_FRAME }, |_| WHOLE_FRAME);
    }
}
