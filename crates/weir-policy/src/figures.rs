//! What the probes of a script cost, and what was done about it: figures for each clause, of all processes together.
//!
//! In: the control of each process, and which clauses run at each site. Out: [`Figures`], which the live view, the report and
//! the warning read, and other weirs from the process's segment ([`crate::stats_page`]). What a site costs is that of all clauses there, and is split evenly among them; its hits are hits of each.

use std::time::Duration;

use crate::control::{Control, Site};
use crate::throttle::Throttle;

/// Of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// By clause, in the order of the script.
    pub probes: Vec<ProbeFigures>,
    /// ns of CPU time per second of all processes.
    pub cpu: f64,
}

/// Of one clause of the script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProbeFigures {
    /// As the script names it.
    pub probe: String,
    /// By the wall's time.
    pub hits_per_s: f64,
    /// ns of CPU time per second.
    pub cost: f64,
    /// ns per second if every hit ran.
    pub whole: f64,
    /// Some place was looked at: rates and costs are known, 0 included.
    pub is_seen: bool,
    /// Hits that ran, and were counted.
    pub hits: u64,
    /// Hits that ran besides where nothing counted, by the rate that was seen last.
    pub hits_about: u64,
    /// Places that run every hit, that run some, that are shut, and that were withdrawn.
    pub places: Places,
    /// Of places that run some hits, one in so many: the fewest that any runs.
    pub one_in: u32,
    /// Hits that were left out, and counted.
    pub missed: u64,
    /// Hits that were left out, by the rate that was seen last.
    pub missed_about: u64,
    /// When the first place was touched, since the run began.
    pub since: Option<Duration>,
}

/// How many places run their hits in which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// Every hit runs.
    pub armed: usize,
    /// One of so many runs.
    pub sampled: usize,
    /// None runs.
    pub shut: usize,
    /// Its text is as it was.
    pub withdrawn: usize,
}

impl Places {
    /// Their sum.
    pub fn all(self) -> usize {
        self.armed + self.touched()
    }

    fn touched(self) -> usize {
        self.sampled + self.shut + self.withdrawn
    }
}

impl Figures {
    /// Of clauses with these names, before any site was added.
    pub fn of(probes: impl IntoIterator<Item = String>) -> Figures {
        let named = |probe| ProbeFigures { probe, ..ProbeFigures::default() };
        Figures { probes: probes.into_iter().map(named).collect(), cpu: 0.0 }
    }

    /// A process: `clauses` of each of its sites, none where it is not attached. `began`: when its run did.
    pub fn add(&mut self, control: &Control, clauses: &dyn Fn(usize) -> Vec<usize>, began: Duration) {
        self.cpu += control.cpu().unwrap_or(0.0);
        for (n, site) in control.sites().iter().enumerate() {
            let clauses = clauses(n);
            for &clause in &clauses {
                if let Some(probe) = self.probes.get_mut(clause) {
                    probe.add(site, clauses.len() as f64, began);
                }
            }
        }
    }

    /// A process that is gone: what was missed and done there.
    pub fn add_ended(&mut self, control: &Control, clauses: &dyn Fn(usize) -> Vec<usize>) {
        let (cpu, was) = (self.cpu, self.probes.clone());
        self.add(control, clauses, Duration::ZERO);
        self.cpu = cpu;
        for (probe, was) in self.probes.iter_mut().zip(was) {
            (probe.hits_per_s, probe.cost, probe.whole) = (was.hits_per_s, was.cost, was.whole);
        }
    }

    /// Of the CPU time of all processes.
    pub fn share(&self) -> f64 {
        self.share_of(self.probes.iter().map(|probe| probe.cost).sum())
    }

    /// Of a cost in ns per second.
    pub fn share_of(&self, cost: f64) -> f64 {
        if self.cpu > 0.0 { (cost / self.cpu).min(1.0) } else { 0.0 }
    }
}

impl ProbeFigures {
    fn add(&mut self, site: &Site, sharers: f64, began: Duration) {
        let load = site.shown();
        if site.throttle != Throttle::Withdrawn {
            self.hits_per_s += load.hits_per_s;
            self.whole += load.hits_per_s * load.ns_per_hit / sharers;
        }
        self.cost += site.throttle.cost(load) / sharers;
        self.is_seen |= site.is_seen();
        self.hits = self.hits.saturating_add(site.hits);
        self.hits_about = self.hits_about.saturating_add(site.hits_about as u64);
        self.missed = self.missed.saturating_add(site.missed);
        self.missed_about = self.missed_about.saturating_add(site.missed_about as u64);
        let touched = site.touched_at.map(|at| at.saturating_sub(began));
        self.since = self.since.into_iter().chain(touched).min();
        match site.throttle {
            Throttle::Armed => self.places.armed += 1,
            Throttle::Sampled { .. } => self.places.sampled += 1,
            Throttle::Shut => self.places.shut += 1,
            Throttle::Withdrawn => self.places.withdrawn += 1,
        }
        if let Throttle::Sampled { .. } = site.throttle {
            self.one_in = self.one_in.max(site.throttle.one_in().unwrap_or(1));
        }
    }

    /// Another probe's figures on top of its own.
    pub fn merge(&mut self, other: &ProbeFigures) {
        self.hits_per_s += other.hits_per_s;
        self.cost += other.cost;
        self.whole += other.whole;
        self.is_seen |= other.is_seen;
        self.hits = self.hits.saturating_add(other.hits);
        self.hits_about = self.hits_about.saturating_add(other.hits_about);
        self.missed = self.missed.saturating_add(other.missed);
        self.missed_about = self.missed_about.saturating_add(other.missed_about);
        self.since = self.since.into_iter().chain(other.since).min();
        self.one_in = self.one_in.max(other.one_in);
        self.places.armed += other.places.armed;
        self.places.sampled += other.places.sampled;
        self.places.shut += other.places.shut;
        self.places.withdrawn += other.places.withdrawn;
    }

    /// Of a hit that runs.
    pub fn ns_per_hit(&self) -> f64 {
        if self.hits_per_s > 0.0 { self.whole / self.hits_per_s } else { 0.0 }
    }

    /// It was slowed or taken out somewhere, now or earlier.
    pub fn is_touched(&self) -> bool {
        self.since.is_some()
    }

    /// How its hits run now.
    pub fn state(&self) -> String {
        let Places { sampled, shut, withdrawn, .. } = self.places;
        let (all, touched) = (self.places.all(), self.places.touched());
        let mut parts = Vec::new();
        if sampled > 0 {
            parts.push((sampled, format!("1 of {}", self.one_in)));
        }
        if shut > 0 {
            parts.push((shut, "shut".into()));
        }
        if withdrawn > 0 {
            parts.push((withdrawn, "withdrawn".into()));
        }
        match &parts[..] {
            [] if all == 0 => "not attached".into(),
            [] => "armed".into(),
            [(_, state)] if touched == all => state.clone(),
            _ => {
                let each: Vec<String> =
                    parts.iter().map(|(places, state)| format!("{state} at {places}")).collect();
                format!("{} of {all} places", each.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Seen;

    /// Of two clauses: both run at the first site, the second alone at the other.
    fn figures(steps: &[Vec<(usize, Throttle)>]) -> Figures {
        let mut control = Control::new(2, Some(0.01));
        for site in 0..2 {
            control.saw(site, Seen { cpu_s: 1.0, calls: 1000, timed: 100, timed_ns: 1e5 });
        }
        control.used(1e9, 1.0);
        for (n, steps) in steps.iter().enumerate() {
            steps.iter().for_each(|&(site, throttle)| {
                control.force(site, throttle, Duration::from_secs(n as u64 + 3))
            });
        }
        let mut figures = Figures::of(["a".into(), "b".into()]);
        figures.add(&control, &|site| if site == 0 { vec![0, 1] } else { vec![1] }, Duration::from_secs(1));
        figures
    }

    #[test]
    fn costs_are_split_and_hits_are_not() {
        let figures = figures(&[]);
        let [a, b] = &figures.probes[..] else { panic!("{figures:?}") };
        assert_eq!((a.hits_per_s, b.hits_per_s), (1000.0, 2000.0));
        assert_eq!((a.cost, b.cost), (5e5, 1.5e6));
        assert_eq!((a.ns_per_hit(), b.ns_per_hit()), (500.0, 750.0));
        assert!((figures.share() - 0.002).abs() < 1e-9);
        assert_eq!((a.state(), a.since), ("armed".into(), None));
    }

    #[test]
    fn states_name_what_was_done_where() {
        let sampled = Throttle::Sampled { shift: 6 };
        let check = |steps: &[Vec<(usize, Throttle)>], want: [&str; 2]| {
            let figures = figures(steps);
            assert_eq!([figures.probes[0].state(), figures.probes[1].state()], want);
        };
        check(&[vec![(0, sampled)]], ["1 of 64", "1 of 64 at 1 of 2 places"]);
        check(&[vec![(1, Throttle::Withdrawn)]], ["armed", "withdrawn at 1 of 2 places"]);
        check(&[vec![(0, sampled), (1, Throttle::Shut)]], ["1 of 64", "1 of 64 at 1, shut at 1 of 2 places"]);
        check(&[vec![(0, sampled)], vec![(0, Throttle::Armed)]], ["armed", "armed"]);
    }

    #[test]
    fn since_is_when_the_first_place_was_touched() {
        let figures = figures(&[vec![(1, Throttle::Shut)], vec![(0, Throttle::Shut)]]);
        assert_eq!(figures.probes[0].since, Some(Duration::from_secs(3)));
        assert_eq!(figures.probes[1].since, Some(Duration::from_secs(2)));
    }

    #[test]
    fn nothing_costs_nothing() {
        let figures = Figures::of(["a".into()]);
        assert_eq!((figures.share(), figures.probes[0].ns_per_hit()), (0.0, 0.0));
        assert_eq!(figures.probes[0].state(), "not attached");
    }
}
