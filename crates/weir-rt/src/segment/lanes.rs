//! The claims of lanes, as the controller sees them: how many are held, and freeing those of threads that are gone.
//!
//! A run gives its lane back when it returns. It never does if its thread leaves by `siglongjmp` or is killed alone;
//! that lane is lost until its thread is gone and the controller says so here. Nobody else frees a claim.

use std::sync::atomic::Ordering;

use super::Segment;
use crate::abi::{CLAIM_STRIDE, CLAIM_TAKEN};
use crate::executable::{Executable, LaneUse};
use crate::runtime::linked;

impl Segment {
    /// Lanes that are claimed now.
    pub fn claimed_lanes(&self) -> u32 {
        (0..self.layout.claim_lanes).filter(|lane| self.claim(*lane) != 0).count() as u32
    }

    /// Frees the lanes of threads that `is_gone`, which is given their ids as the target knows them. Returns how many.
    /// Claims without a thread's id stay.
    pub fn reclaim_lanes(&self, is_gone: &dyn Fn(u32) -> bool) -> u32 {
        let mut freed = 0;
        for lane in 0..self.layout.claim_lanes {
            let claim = self.claim(lane);
            let Ok(owner) = u32::try_from(claim) else { continue };
            let thread = owner & !CLAIM_TAKEN;
            // A hostile target may hold other words here: they name no thread, or a wrong one, of itself.
            if owner & CLAIM_TAKEN != 0 && thread != 0 && is_gone(thread) {
                let word = self.mapping.word(self.claim_offset(lane));
                let done = word.compare_exchange(claim, 0, Ordering::AcqRel, Ordering::Relaxed);
                freed += u32::from(done.is_ok());
            }
        }
        freed
    }

    /// Claims a lane for a run in this process: that of its CPU if it is free. To be given to
    /// [`Segment::release_lane`].
    pub(crate) fn claim_lane(&self) -> Option<u32> {
        if self.layout.claim_lanes == 0 {
            return None;
        }
        let owner = CLAIM_TAKEN | nix::unistd::gettid().as_raw() as u32;
        let claims = self.base() + self.layout.claims_offset;
        // SAFETY: the layout has so many claims there, and `self` keeps them mapped.
        unsafe { linked::lane_claim(claims, self.layout.cpus, self.layout.claim_lanes, owner.into()) }
    }

    pub(crate) fn release_lane(&self, lane: u32) {
        self.mapping.word(self.claim_offset(lane)).store(0, Ordering::Release);
    }

    /// Whether `executable` changes per-CPU values in the way that this segment's lanes are for: a lane is either
    /// claimed or changed inside restartable sections, never both.
    pub fn suits(&self, executable: &Executable) -> bool {
        match executable.lanes {
            LaneUse::None => true,
            LaneUse::Sections => self.layout.claim_lanes == 0,
            LaneUse::Claimed => self.layout.claim_lanes > 0,
        }
    }

    fn claim(&self, lane: u32) -> u64 {
        self.mapping.word(self.claim_offset(lane)).load(Ordering::Acquire)
    }

    fn claim_offset(&self, lane: u32) -> u64 {
        self.layout.claims_offset + u64::from(lane) * CLAIM_STRIDE
    }
}
