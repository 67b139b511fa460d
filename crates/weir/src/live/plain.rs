//! The live view as lines: columns separated by tabs, the same in every line, for programs and for files.
//!
//! A line for each probe and second: seconds since the run began, hits a second, ns a hit, share of the CPU time in
//! percent, hits missed (`~` in front where that is estimated), how hits run, the probe. Of processes, the number and the command
//! of each stand behind the seconds. What is not known is `-`.

use crate::live::view::{Column, Row, View};

pub(super) fn header(view: &View) -> String {
    let process = if is_of_processes(view) { "PID\tCOMMAND\t" } else { "" };
    format!("SECONDS\t{process}HITS/S\tNS/HIT\tSHARE%\tMISSED\tSTATE\tPROBE\n")
}

pub(super) fn lines(view: &View) -> String {
    let line = |row: &Row| {
        let process =
            if is_of_processes(view) { format!("{}\t{}\t", row.pid, row.command) } else { String::new() };
        format!(
            "{}\t{process}{}\t{}\t{}\t{}\t{}\t{}\n",
            view.elapsed.as_secs(),
            known(row.hits_per_s, 0),
            known(row.ns_per_hit, 1),
            known(row.share.map(|share| 100.0 * share), 3),
            missed(row),
            row.state,
            row.probe
        )
    };
    view.rows.iter().map(line).collect()
}

fn is_of_processes(view: &View) -> bool {
    view.columns.contains(&Column::Pid)
}

/// With so many digits behind the point.
pub(super) fn known(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "-".into(), |number| format!("{number:.digits$}"))
}

pub(super) fn missed(row: &Row) -> String {
    let about = if row.is_about { "~" } else { "" };
    row.missed.map_or_else(|| "-".into(), |missed| format!("{about}{missed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::view::tests::{of_processes, view};

    #[test]
    fn every_line_has_the_headers_columns() {
        let lines = lines(&view());
        assert_eq!(
            lines,
            "7\t431200\t1002.4\t0.710\t28000\t1 of 64\tuprobe:./app:handle\n\
             7\t0\t0.0\t0.000\t~95000000\twithdrawn\tuprobe:./app:busy\n"
        );
        let columns = |line: &str| line.split('\t').count();
        assert!(lines.lines().all(|line| columns(line) == columns(&header(&view()))));
        let of_processes = of_processes();
        let lines = super::lines(&of_processes);
        assert!(
            lines.starts_with("7\t17\tapp\t431200\t1002.4\t0.710\t28000\t1 of 64\tuprobe:./app:handle\n")
        );
        assert!(lines.ends_with("7\t5\told\t-\t-\t-\t-\tweir gone\t\n"), "{lines}");
        assert!(lines.lines().all(|line| columns(line) == columns(&header(&of_processes))));
    }
}
