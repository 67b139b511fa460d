//! How the hits of each site run, and what they cost: what a budget needs to hold to.
//!
//! In: an [`Attachment`], and numbers of its sites ([`Patched::site`](crate::Patched::site)). Out: readings of their meters,
//! without a system call; and other modes, from one moment to the next, while the target runs.
//!
//! ```text
//! Armed ──▶ Metered      every hit runs; it is counted, and the first ones are timed
//!       ──▶ Sampled      one hit of N runs, counted and timed; the others are counted as missed
//!       ──▶ Shut         none runs, and none is counted
//!       ──▶ withdrawn    the text is as it was
//! ```
//!
//! Guaranteed, however modes change under running threads: each hit runs or is counted as missed, but for those that find
//! their site shut; and a call whose entry ran has its return run, as long as the site is not withdrawn. In none of them but
//! `Armed` do hits run when the controller is gone, and neither do they there (the lease).
//!
//! Knows nothing of what a budget is. A site is all its programs: consumers cannot be slowed apart.

use std::collections::HashMap;
use std::sync::OnceLock;

use weir_rt::segment::{How, StatsPage};
use weir_trampoline::meter;

use crate::attach::gates;
use crate::attach::state::Attachment;
pub use crate::attach::state::Mode;
use crate::attach::undo::Report;
use crate::limits;
use crate::refusal::Error;

impl Mode {
    fn is_timed(self) -> bool {
        matches!(self, Mode::Metered | Mode::Sampled { .. })
    }

    fn how(self) -> How {
        match self {
            // Those that found the gate shut before it was opened run too.
            Mode::Armed => How::Every { timed: 0 },
            Mode::Metered => How::Every { timed: limits::TIMED_HITS },
            Mode::Sampled { one_in } => {
                let one_in = one_in.clamp(2, limits::ONE_IN_MAX).next_power_of_two();
                How::OneOf { shift: one_in.trailing_zeros() }
            }
            Mode::Shut => How::HeldBack,
        }
    }
}

/// What a meter has counted since the site was patched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterReading {
    /// Hits that ran while metered or sampled.
    pub hits: u64,
    /// Hits that did not run because the site was sampled.
    pub missed: u64,
    /// Hits that were timed, and the ticks of the time stamp counter that they took, with their returns: from saving the
    /// registers that the programs use to having them back, without the few instructions around.
    pub timed: u64,
    pub ticks: u64,
}

impl Attachment {
    /// Has the hits of sites run in these modes from now on. Metering a site that is metered has its next hits timed. A
    /// number that no site has any more is passed over. In strict mode (seccomp) hits run on, and none is timed; the first call waits until the
    /// target is watched for that, if it is not yet ([`Attachment::may_time`]).
    pub fn set_modes(&mut self, modes: &[(usize, Mode)]) -> Result<(), Error> {
        let wanted: HashMap<usize, Mode> = modes.iter().copied().collect();
        if modes.iter().any(|(_, mode)| mode.is_timed()) {
            self.watch_strict();
        }
        let control = &self.control;
        let (mut shut, mut open) = (Vec::new(), Vec::new());
        let lease = self.lease();
        for site in &mut self.consumers.sites {
            let Some(&mode) = wanted.get(&site.planned.number) else { continue };
            let was = std::mem::replace(&mut site.mode, mode);
            // Before the gate moves: who finds it shut must know what to do.
            match (was == Mode::Armed, mode == Mode::Armed) {
                (_, true) => open.push((site.gate, true)),
                (true, false) => shut.push((site.gate, false)),
                (false, false) => {}
            }
            control.meter(site.planned.number).set(mode.how());
        }
        let mut gates = shut;
        gates.extend(open);
        gates::set(&self.target.memory, &mut gates, lease)
            .map_err(|source| Error::system("setting gates", source))
            .map_err(|error| self.target.explain(error))
    }

    /// How the hits of a site run, if there is one of this number.
    pub fn mode(&self, site: usize) -> Option<Mode> {
        self.consumers.sites.iter().find(|standing| standing.planned.number == site).map(|site| site.mode)
    }

    /// What the meter of a site has counted; nothing where there is no site of this number.
    pub fn meter(&self, site: usize) -> MeterReading {
        if site >= self.control.layout().journal_capacity as usize {
            return MeterReading::default();
        }
        let words = self.control.meter(site).read();
        let ticks = words.ticks.saturating_sub(words.timed.saturating_mul(timing_ticks()));
        MeterReading { hits: words.hits, missed: words.missed, timed: words.timed, ticks }
    }

    /// Puts up what others are to read of the probes in this process, in place of what was there ([`crate::scan`] reads it).
    pub fn publish(&self, stats_page: &StatsPage) {
        self.control.publish(stats_page);
    }

    /// Ends sites, for all their consumers: their text is put back. Their numbers may be given to others later. What the
    /// report says of left code is as for [`Attachment::remove`].
    pub fn withdraw(&mut self, sites: &[usize]) -> Result<Report, Error> {
        self.withdrawing(sites).map_err(|error| self.target.explain(error))
    }
}

/// Ticks that are counted of a hit whose programs take none: what timing itself takes of a time. As measured here, by the routines that
/// hits of the targets call.
pub fn timing_ticks() -> u64 {
    static TICKS: OnceLock<u64> = OnceLock::new();
    *TICKS.get_or_init(|| meter::ticks_of_nothing().unwrap_or(0))
}
