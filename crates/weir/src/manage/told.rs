//! What the weir of a traced process says of its probes there, and what that is worth.
//!
//! In: a process, as weir-probe finds it, with the stats page in its segment. Out: [`Told`]. Rates hold for the moment that they
//! were written: those of a weir that is gone, or silent, are not passed on; what was counted until then is.

use std::time::Duration;

use weir_probe::scan::Probed;

use weir_policy::figures::{Figures, ProbeFigures};
use weir_policy::stats_page;

/// A weir that lives says something every second; one that has not for so long is stopped, or in trouble.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// Whether what is told still holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Current,
    /// Its weir lives, and has not said anything for a while.
    Silent,
    /// Its weir is gone.
    Gone,
}

/// What is told of the probes of one process.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Told {
    pub(crate) standing: Standing,
    pub(crate) age: Duration,
    /// By the whole run: records that found the ring full.
    pub(crate) records_lost: u64,
    pub(crate) figures: Figures,
}

impl Told {
    /// None where nothing was said yet, or nothing that this weir understands, or not of this process.
    pub(crate) fn of(probed: &Probed) -> Option<Told> {
        let (said, age) = (probed.stats_page.as_ref()?, probed.stats_page_age()?);
        let standing = match (probed.controller_alive, age > SILENT_AFTER) {
            (false, _) => Standing::Gone,
            (true, true) => Standing::Silent,
            (true, false) => Standing::Current,
        };
        Some(Told { standing, age, records_lost: said.records_lost, figures: stats_page::figures(said) })
    }

    pub(crate) fn is_current(&self) -> bool {
        self.standing == Standing::Current
    }

    /// Of one of its probes, while it holds.
    pub(crate) fn hits_per_s(&self, probe: &ProbeFigures) -> Option<f64> {
        (self.is_current() && probe.is_seen).then_some(probe.hits_per_s)
    }

    /// Of a hit that runs, while it holds, and where hits came.
    pub(crate) fn ns_per_hit(&self, probe: &ProbeFigures) -> Option<f64> {
        Some(probe.ns_per_hit()).filter(|ns| self.is_current() && *ns > 0.0)
    }

    /// Of the CPU time of the process, while it holds.
    pub(crate) fn share(&self, probe: &ProbeFigures) -> Option<f64> {
        (self.is_current() && probe.is_seen && self.figures.cpu > 0.0)
            .then(|| self.figures.share_of(probe.cost))
    }

    /// Of all probes together.
    pub(crate) fn total(&self) -> ProbeFigures {
        let mut total = ProbeFigures::default();
        self.figures.probes.iter().for_each(|probe| total.merge(probe));
        total
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use weir_rt::segment::{Identity, StatsPage, StatsPageLine};

    use super::*;

    /// Process 10, whose one probe is hit 2,000 times a second at 500 ns.
    pub(crate) fn probed() -> Probed {
        let line = StatsPageLine {
            probe: "uprobe:/x:f".into(),
            millihits_per_s: Some(2_000_000),
            ps_per_hit: Some(500_000),
            cost_ns_per_s: Some(1_000_000),
            hits: 40,
            missed: 3,
            missed_about: 4,
            armed: 1,
            ..StatsPageLine::default()
        };
        let (cpu_ns_per_s, lines) = (Some(100_000_000), vec![line]);
        // In the future, as a process may say it, is now.
        let stats_page = StatsPage { written_ns: u64::MAX, cpu_ns_per_s, records_lost: 5, lines };
        let identity = Identity { target_pid: 10, label: "uprobe:/x:f".into(), ..Identity::default() };
        Probed {
            pid: 10,
            comm: "a\n\"b".into(),
            identity: Identity { controller_pid: 90, controller_start: 7, ..identity },
            controller_alive: true,
            probes: 3,
            other_version: None,
            stats_page: Some(stats_page),
            children_wait: false,
        }
    }

    fn rates(probed: &Probed) -> (Standing, [Option<f64>; 3]) {
        let told = Told::of(probed).unwrap();
        let probe = &told.figures.probes[0];
        assert_eq!((told.total().hits, told.total().missed, told.records_lost), (40, 3, 5));
        (told.standing, [told.hits_per_s(probe), told.ns_per_hit(probe), told.share(probe)])
    }

    #[test]
    fn rates_are_told_while_they_hold_and_counts_for_ever() {
        let mut probed = probed();
        assert_eq!(rates(&probed), (Standing::Current, [Some(2000.0), Some(500.0), Some(0.01)]));
        probed.stats_page.as_mut().unwrap().written_ns = 0;
        assert_eq!(rates(&probed), (Standing::Silent, [None; 3]));
        probed.controller_alive = false;
        assert_eq!(rates(&probed), (Standing::Gone, [None; 3]));
        probed.stats_page = None;
        assert_eq!(Told::of(&probed), None);
    }

    #[test]
    fn what_is_not_known_is_not_told_as_nothing() {
        let mut probed = probed();
        let said = probed.stats_page.as_mut().unwrap();
        (said.lines[0].millihits_per_s, said.lines[0].ps_per_hit) = (None, None);
        assert_eq!(rates(&probed), (Standing::Current, [None; 3]));
        let said = probed.stats_page.as_mut().unwrap();
        (said.lines[0].millihits_per_s, said.cpu_ns_per_s) = (Some(0), None);
        assert_eq!(rates(&probed), (Standing::Current, [Some(0.0), None, None]));
    }
}
