//! Figures as other weirs read them: into the stats page in a process's segment, and out of another weir's.
//!
//! In: the [`Figures`] of one process, or a [`StatsPage`] that was found in one. Out: the other. What is not known on one side
//! is not known on the other. A stats page that was found may say anything: numbers stay numbers, and shares shares.

use weir_rt::limits::STATS_PAGE_LINES_MAX;
use weir_rt::segment::{StatsPage, StatsPageLine};

use crate::figures::{Figures, Places, ProbeFigures};

/// What is put up at `written_ns`. `records_lost`: by the whole run.
pub fn of(figures: &Figures, written_ns: u64, records_lost: u64) -> StatsPage {
    let cpu_ns_per_s = (figures.cpu > 0.0).then_some(figures.cpu as u64);
    let (own, others) = split(&figures.probes);
    let lines = own.iter().copied().chain(&others).map(line).collect();
    StatsPage { written_ns, cpu_ns_per_s, records_lost, lines }
}

/// What a stats page says, as if it had been looked at here.
pub fn figures(stats_page: &StatsPage) -> Figures {
    let probes = stats_page.lines.iter().map(probe).collect();
    Figures { probes, cpu: stats_page.cpu_ns_per_s.unwrap_or(0) as f64 }
}

/// The probes that have lines of their own, and where there are too many for that the sum of the others: of those that cost
/// least.
fn split(probes: &[ProbeFigures]) -> (Vec<&ProbeFigures>, Option<ProbeFigures>) {
    let room = STATS_PAGE_LINES_MAX as usize;
    let mut own: Vec<&ProbeFigures> = probes.iter().collect();
    if own.len() <= room {
        return (own, None);
    }
    own.sort_by(|one, other| other.cost.total_cmp(&one.cost));
    let others = own.split_off(room - 1);
    let named = ProbeFigures { probe: format!("{} others", others.len()), ..ProbeFigures::default() };
    let sum = others.into_iter().fold(named, |mut sum, probe| {
        sum.merge(probe);
        sum
    });
    (own, Some(sum))
}

fn line(probe: &ProbeFigures) -> StatsPageLine {
    let Places { armed, sampled, shut, withdrawn } = probe.places;
    let ns_per_hit = Some(probe.ns_per_hit()).filter(|ns| *ns > 0.0);
    StatsPageLine {
        probe: probe.probe.clone(),
        millihits_per_s: probe.is_seen.then_some((1e3 * probe.hits_per_s).round() as u64),
        ps_per_hit: ns_per_hit.map(|ns| (1e3 * ns).round() as u64),
        cost_ns_per_s: probe.is_seen.then_some(probe.cost.round() as u64),
        hits: probe.hits,
        hits_about: probe.hits_about,
        missed: probe.missed,
        missed_about: probe.missed_about,
        armed: armed as u32,
        sampled: sampled as u32,
        shut: shut as u32,
        withdrawn: withdrawn as u32,
        one_in: probe.one_in,
    }
}

fn probe(line: &StatsPageLine) -> ProbeFigures {
    let hits_per_s = line.millihits_per_s.unwrap_or(0) as f64 / 1e3;
    let places = [line.armed, line.sampled, line.shut, line.withdrawn].map(|places| places as usize);
    let [armed, sampled, shut, withdrawn] = places;
    ProbeFigures {
        probe: line.probe.clone(),
        hits_per_s,
        cost: line.cost_ns_per_s.unwrap_or(0) as f64,
        whole: hits_per_s * line.ps_per_hit.unwrap_or(0) as f64 / 1e3,
        is_seen: line.millihits_per_s.is_some() && line.cost_ns_per_s.is_some(),
        hits: line.hits,
        hits_about: line.hits_about,
        places: Places { armed, sampled, shut, withdrawn },
        one_in: line.one_in,
        missed: line.missed,
        missed_about: line.missed_about,
        since: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(name: &str, cost: f64) -> ProbeFigures {
        ProbeFigures {
            probe: name.into(),
            hits_per_s: 1000.5,
            cost,
            whole: 1000.5 * 42.0,
            is_seen: true,
            hits: 7,
            hits_about: 8,
            places: Places { armed: 1, sampled: 2, shut: 0, withdrawn: 1 },
            one_in: 64,
            missed: 9,
            missed_about: 10,
            since: None,
        }
    }

    #[test]
    fn figures_come_out_as_they_went_in() {
        let unseen = ProbeFigures { probe: "b".into(), ..ProbeFigures::default() };
        let given = Figures { probes: vec![busy("a", 1e6), unseen], cpu: 1e9 };
        let stats_page = of(&given, 5, 6);
        assert_eq!((stats_page.written_ns, stats_page.records_lost), (5, 6));
        assert_eq!((stats_page.lines[1].millihits_per_s, stats_page.lines[1].cost_ns_per_s), (None, None));
        let read = figures(&stats_page);
        assert_eq!(read, given);
        assert_eq!(read.probes[0].state(), given.probes[0].state());
        assert_eq!(of(&read, 5, 6), stats_page);
    }

    #[test]
    fn the_cheapest_of_too_many_are_summed_up() {
        let probes = (0..300).map(|n| busy(&n.to_string(), f64::from(n))).collect();
        let stats_page = of(&Figures { probes, cpu: 1e9 }, 0, 0);
        assert_eq!(stats_page.lines.len(), STATS_PAGE_LINES_MAX as usize);
        let last = stats_page.lines.last().unwrap();
        assert_eq!((&*last.probe, last.hits, last.armed), ("45 others", 45 * 7, 45));
        let costs = stats_page.lines.iter().map(|line| line.cost_ns_per_s.unwrap()).sum::<u64>();
        assert_eq!(costs, (0..300).sum::<u64>());
    }

    #[test]
    fn numbers_of_a_spoiled_stats_page_stay_numbers() {
        let all = u64::MAX - 1;
        let line = StatsPageLine {
            millihits_per_s: Some(all),
            ps_per_hit: Some(all),
            cost_ns_per_s: Some(all),
            hits: u64::MAX,
            missed: u64::MAX,
            missed_about: u64::MAX,
            armed: u32::MAX,
            sampled: u32::MAX,
            withdrawn: u32::MAX,
            ..StatsPageLine::default()
        };
        for cpu_ns_per_s in [None, Some(0), Some(1), Some(all)] {
            let stats_page =
                StatsPage { cpu_ns_per_s, lines: vec![line.clone(); 256], ..StatsPage::default() };
            let figures = figures(&stats_page);
            assert!((0.0..=1.0).contains(&figures.share()), "{cpu_ns_per_s:?}");
            assert!(figures.probes[0].ns_per_hit().is_finite());
            assert!(figures.probes[0].state().contains("places"));
            of(&figures, 0, 0);
        }
    }
}
