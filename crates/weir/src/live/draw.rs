//! The live view as a table on a terminal: a line about the run, the share of the last minutes, a row for each probe.
//!
//! In: a [`View`], and room. Out: cells. A function of these alone; colours only where asked for (NO_COLOR).

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row as Cells, Sparkline, Table};
use weir_run::percent;

use crate::live::plain::{known, missed};
use crate::live::view::{Column, Row, View};

pub(super) fn draw(view: &View, is_coloured: bool, frame: &mut Frame<'_>) {
    let parts = [Constraint::Length(1), Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)];
    let [title, history, table, keys] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Line::from(view.title.as_str()), title);
    let shares = Sparkline::default().data(&view.history).style(colour(is_coloured, Color::Cyan));
    frame.render_widget(shares, history);
    frame.render_widget(rows(view, is_coloured), table);
    frame.render_widget(Line::from("q: end   ← →: sort by   ↑ ↓: smallest or largest first"), keys);
}

fn rows(view: &View, is_coloured: bool) -> Table<'static> {
    let mark = |column: &Column| match (*column == view.sorted_by, view.is_descending) {
        (false, _) => "",
        (true, true) => "▼",
        (true, false) => "▲",
    };
    let title = |column: &Column| format!("{}{}", name(*column), mark(column));
    let header = view.columns.iter().map(title).chain(["STATE".into()]);
    let header = Cells::new(header).style(Style::default().add_modifier(Modifier::BOLD));
    let row = |row: &Row| {
        let cells = view.columns.iter().map(|column| cell(row, *column)).chain([row.state.clone()]);
        let style = if row.state == "armed" { Style::default() } else { colour(is_coloured, Color::Yellow) };
        Cells::new(cells).style(style)
    };
    let widths = view.columns.iter().map(|column| width(*column)).chain([Constraint::Fill(1)]);
    Table::new(view.rows.iter().map(row), widths).header(header)
}

fn name(column: Column) -> &'static str {
    match column {
        Column::Pid => "PID",
        Column::Command => "COMMAND",
        Column::Probe => "PROBE",
        Column::Hits => "HITS/S",
        Column::Ns => "NS/HIT",
        Column::Share => "SHARE",
        Column::Missed => "MISSED",
    }
}

fn width(column: Column) -> Constraint {
    match column {
        Column::Pid => Constraint::Length(8),
        Column::Command => Constraint::Length(15),
        Column::Probe => Constraint::Fill(2),
        Column::Hits => Constraint::Length(10),
        Column::Ns => Constraint::Length(9),
        Column::Share => Constraint::Length(7),
        Column::Missed => Constraint::Length(12),
    }
}

fn cell(row: &Row, column: Column) -> String {
    match column {
        Column::Pid => row.pid.to_string(),
        Column::Command => row.command.clone(),
        Column::Probe => row.probe.clone(),
        Column::Hits => known(row.hits_per_s, 0),
        Column::Ns => known(row.ns_per_hit, 1),
        Column::Share => row.share.map_or_else(|| "-".into(), percent),
        Column::Missed => missed(row),
    }
}

fn colour(is_coloured: bool, colour: Color) -> Style {
    if is_coloured { Style::default().fg(colour) } else { Style::default() }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::live::view::tests::{of_processes, view};

    fn drawn(view: &View, width: u16, is_coloured: bool) -> TestBackend {
        let mut terminal = Terminal::new(TestBackend::new(width, 8)).unwrap();
        terminal.draw(|frame| draw(view, is_coloured, frame)).unwrap();
        terminal.backend().clone()
    }

    fn lines(view: &View, width: u16) -> Vec<String> {
        let drawn = drawn(view, width, false);
        let line = |y: u16| {
            (0..width).map(|x| drawn.buffer()[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
        };
        (0..8).map(line).collect()
    }

    #[test]
    fn processes_have_columns_of_their_own_and_what_is_not_known_is_a_dash() {
        let lines = lines(&of_processes(), 120);
        assert_eq!(lines[0], "weir top: 2 processes");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let columns = ["PID", "COMMAND", "PROBE", "HITS/S", "NS/HIT", "SHARE▼", "MISSED", "STATE"];
        assert_eq!(words(&lines[3]), columns);
        assert_eq!(words(&lines[4])[..5], ["17", "app", "uprobe:./app:handle", "431200", "1002.4"]);
        assert_eq!(words(&lines[6]), ["5", "old", "-", "-", "-", "-", "weir", "gone"]);
    }

    #[test]
    fn a_table_is_drawn() {
        let lines = lines(&view(), 80);
        assert_eq!(lines[0], "weir: 1 process, 7 s, 0.71% of the CPU time of a budget of 1%");
        assert!(lines[1].starts_with('█') && lines[2].starts_with('█'), "{lines:?}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines[3]), ["PROBE", "HITS/S", "NS/HIT", "SHARE▼", "MISSED", "STATE"]);
        assert_eq!(
            words(&lines[4]),
            ["uprobe:./app:handle", "431200", "1002.4", "0.71%", "28000", "1", "of", "64"]
        );
        assert_eq!(words(&lines[5])[4..], ["~95000000", "withdrawn"]);
        assert!(lines[7].starts_with("q: end"), "{lines:?}");
    }

    #[test]
    fn colours_are_there_only_where_asked_for() {
        let colours = |is_coloured| {
            let drawn = drawn(&view(), 80, is_coloured);
            drawn.buffer().content().iter().filter(|cell| cell.fg != Color::Reset).count()
        };
        assert_eq!(colours(false), 0);
        assert!(colours(true) > 0);
    }

    #[test]
    fn a_terminal_without_room_is_no_fault() {
        for (width, height) in [(1, 1), (3, 2), (10, 3)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(&view(), true, frame)).unwrap();
        }
    }
}
