//! What the live view shows: a row for each probe, sorted, and the share of CPU time that all take, as it was lately.
//!
//! In: rows, or the figures of a run; keys. Out: rows in order, as values. Nothing here draws.

use std::time::Duration;

use weir_policy::figures::Figures;
use weir_run::percent;

use crate::print::printable;

/// Shares that are remembered, one a second.
const HISTORY_MAX: usize = 120;

/// One probe: of a run, or in a process. What is not known is none.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Row {
    pub(crate) pid: i32,
    pub(crate) command: String,
    pub(crate) probe: String,
    pub(crate) hits_per_s: Option<f64>,
    pub(crate) ns_per_hit: Option<f64>,
    /// Of the CPU time of all processes, or of that one.
    pub(crate) share: Option<f64>,
    pub(crate) missed: Option<u64>,
    /// What part of `missed` is not counted but estimated: if any.
    pub(crate) is_about: bool,
    pub(crate) state: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    Pid,
    Command,
    Probe,
    Hits,
    Ns,
    Share,
    Missed,
}

/// In the order in which they stand: of a run, whose probes run in all of its processes, and of processes.
const OF_RUN: &[Column] = &[Column::Probe, Column::Hits, Column::Ns, Column::Share, Column::Missed];
const OF_PROCESSES: &[Column] =
    &[Column::Pid, Column::Command, Column::Probe, Column::Hits, Column::Ns, Column::Share, Column::Missed];

/// What a user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Quit,
    /// Sort by the column to that side.
    Left,
    Right,
    /// Largest first, or smallest.
    Up,
    Down,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct View {
    pub(crate) rows: Vec<Row>,
    pub(crate) sorted_by: Column,
    pub(crate) is_descending: bool,
    /// Those that are shown.
    pub(crate) columns: &'static [Column],
    pub(crate) title: String,
    pub(crate) elapsed: Duration,
    budget: Option<String>,
    /// In thousandths, the newest last.
    pub(crate) history: Vec<u64>,
}

impl View {
    /// Of one run.
    pub(crate) fn new(budget: Option<String>) -> View {
        View {
            rows: Vec::new(),
            sorted_by: Column::Share,
            is_descending: true,
            columns: OF_RUN,
            title: String::new(),
            elapsed: Duration::ZERO,
            budget,
            history: Vec::new(),
        }
    }

    /// Of processes, whoever traces them.
    pub(crate) fn of_processes() -> View {
        View { columns: OF_PROCESSES, ..View::new(None) }
    }

    /// What a run's probes cost now. `lost`: records that found the ring full.
    pub(crate) fn update(&mut self, figures: &Figures, elapsed: Duration, processes: usize, lost: u64) {
        let rows = figures.probes.iter().map(|probe| Row {
            probe: printable(&probe.probe),
            hits_per_s: Some(probe.hits_per_s),
            ns_per_hit: Some(probe.ns_per_hit()),
            share: Some(figures.share_of(probe.cost)),
            missed: Some(probe.missed.saturating_add(probe.missed_about)),
            is_about: probe.missed_about > 0,
            state: probe.state(),
            ..Row::default()
        });
        let title = self.about_run(figures.share(), elapsed, processes, lost);
        self.show(rows.collect(), title, figures.share(), elapsed);
    }

    /// These rows, from now on. `share`: of all of them.
    pub(crate) fn show(&mut self, rows: Vec<Row>, title: String, share: f64, elapsed: Duration) {
        (self.rows, self.title, self.elapsed) = (rows, title, elapsed);
        if self.history.len() == HISTORY_MAX {
            self.history.remove(0);
        }
        self.history.push((1000.0 * share).round() as u64);
        self.sort();
    }

    fn about_run(&self, share: f64, elapsed: Duration, processes: usize, lost: u64) -> String {
        let processes = if processes == 1 { "1 process".into() } else { format!("{processes} processes") };
        let budget =
            self.budget.as_ref().map(|budget| format!(" of a budget of {budget}")).unwrap_or_default();
        let lost = if lost > 0 { format!(", {lost} records lost") } else { String::new() };
        let (seconds, share) = (elapsed.as_secs(), percent(share));
        format!("weir: {processes}, {seconds} s, {share} of the CPU time{budget}{lost}")
    }

    pub(crate) fn press(&mut self, key: Key) {
        let columns = self.columns;
        let at = columns.iter().position(|column| *column == self.sorted_by).unwrap_or(0);
        match key {
            Key::Left => self.sorted_by = columns[at.saturating_sub(1)],
            Key::Right => self.sorted_by = columns[(at + 1).min(columns.len() - 1)],
            Key::Up => self.is_descending = false,
            Key::Down => self.is_descending = true,
            Key::Quit => {}
        }
        self.sort();
    }

    fn sort(&mut self) {
        let by = self.sorted_by;
        // What is not known is less than nothing.
        let number = |known: Option<f64>| known.unwrap_or(-1.0);
        self.rows.sort_by(|one, other| match by {
            Column::Pid => other.pid.cmp(&one.pid),
            Column::Command => other.command.cmp(&one.command),
            Column::Probe => other.probe.cmp(&one.probe),
            Column::Hits => number(one.hits_per_s).total_cmp(&number(other.hits_per_s)),
            Column::Ns => number(one.ns_per_hit).total_cmp(&number(other.ns_per_hit)),
            Column::Share => number(one.share).total_cmp(&number(other.share)),
            Column::Missed => one.missed.cmp(&other.missed),
        });
        if self.is_descending {
            self.rows.reverse();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two probes of one process.
    pub(in crate::live) fn view() -> View {
        let row = |probe: &str, hits_per_s, ns_per_hit, share, missed, state: &str| Row {
            pid: 17,
            command: "app".into(),
            probe: probe.into(),
            hits_per_s: Some(hits_per_s),
            ns_per_hit: Some(ns_per_hit),
            share: Some(share),
            missed: Some(missed),
            is_about: state == "withdrawn",
            state: state.into(),
        };
        let mut view = View::new(Some("1%".into()));
        let rows = vec![
            row("uprobe:./app:busy", 0.0, 0.0, 0.0, 95_000_000, "withdrawn"),
            row("uprobe:./app:handle", 431_200.0, 1002.4, 0.0071, 28_000, "1 of 64"),
        ];
        let elapsed = Duration::from_secs(7);
        let title = view.about_run(0.0071, elapsed, 1, 0);
        view.history = vec![300, 12, 7];
        view.show(rows, title, 0.0071, elapsed);
        view
    }

    /// The same probes in a process, and one of a weir that is gone.
    pub(in crate::live) fn of_processes() -> View {
        let (mut rows, mut view) = (view().rows, View::of_processes());
        rows.push(Row { pid: 5, command: "old".into(), state: "weir gone".into(), ..Row::default() });
        view.show(rows, "weir top: 2 processes".into(), 0.0071, Duration::from_secs(7));
        view
    }

    fn order(keys: &[Key]) -> Vec<String> {
        let mut view = view();
        keys.iter().for_each(|key| view.press(*key));
        view.rows.iter().map(|row| row.probe.replace("uprobe:./app:", "")).collect()
    }

    #[test]
    fn the_costliest_comes_first_and_keys_sort_otherwise() {
        assert_eq!(order(&[]), ["handle", "busy"]);
        assert_eq!(order(&[Key::Right]), ["busy", "handle"]);
        assert_eq!(order(&[Key::Up]), ["busy", "handle"]);
        assert_eq!(order(&[Key::Up, Key::Down]), ["handle", "busy"]);
        assert_eq!(order(&[Key::Left; 9]), ["busy", "handle"]);
        let mut processes = of_processes();
        let pids = |view: &View| view.rows.iter().map(|row| row.pid).collect::<Vec<_>>();
        assert_eq!(pids(&processes), [17, 17, 5]);
        [Key::Left; 9].iter().for_each(|key| processes.press(*key));
        assert_eq!((processes.sorted_by, pids(&processes)), (Column::Pid, vec![5, 17, 17]));
        assert_eq!(order(&[Key::Right; 9]), ["busy", "handle"]);
    }

    #[test]
    fn history_is_bounded() {
        let mut view = view();
        for _ in 0..2 * HISTORY_MAX {
            view.update(&Figures::default(), Duration::ZERO, 0, 0);
        }
        assert_eq!(view.history.len(), HISTORY_MAX);
    }
}
