//! `weir trace --live` on a terminal: a table on a screen of its own, and the terminal as it was whichever way the run ends.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::Daemon;
use testkit::target::{self, Source};
use testkit::terminal::OnTerminal;

const DEADLINE: Duration = Duration::from_secs(60);

const CALLER: &str = r#"
    #include <stdio.h>
    #include <unistd.h>
    __attribute__((noinline)) unsigned probed(unsigned x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    int main(void) {
        puts("ready"); fflush(stdout);
        /* Pacing alone: the verdict does not depend on it. */
        for (unsigned sum = 0;; usleep(1000)) for (unsigned i = 0; i < 100; i++) sum += probed(i);
    }
"#;

/// Sequences of xterm: its other screen, and whether the cursor is there.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";

fn caller() -> (PathBuf, Daemon) {
    let program = target::build("screen-caller", Source::Text(CALLER), &["-O2"]);
    let mut caller = Daemon::spawn(Command::new(&program)).unwrap();
    caller.line_with("ready", DEADLINE).unwrap();
    (program, caller)
}

/// A table is drawn until `end` does something about it; then weir ends well, and nothing is left of it on the terminal.
#[track_caller]
fn check(end: impl FnOnce(&mut OnTerminal, Daemon) -> Option<Daemon>) {
    let (program, mut caller) = caller();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let script = format!("uprobe:\"{}\":probed {{ @ = count(); }}", program.display());
    command.args(["trace", "--live", "-e", &script, "-p", &caller.pid().to_string()]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1").stdout(Stdio::null());
    // So wide that the whole path is shown.
    let mut weir = OnTerminal::spawn(command, 24, 800).unwrap();
    for words in [ENTER, "PROBE", "HITS/S", "NS/HIT", "SHARE", "STATE", ":probed", "armed", "largest"] {
        if !weir.shows(words, DEADLINE) {
            let caller = if caller.is_running() { None } else { Some(caller.finish(DEADLINE)) };
            panic!("no {words:?} in {:?}; the caller: {caller:?}", weir.shown());
        }
    }
    assert_ne!(&weir.settings().unwrap(), weir.initial_settings(), "keys wait for a line");
    let caller = end(&mut weir, caller);
    let ended = weir.finish(DEADLINE);
    let shown = weir.shown();
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "{shown:?}");
    assert_eq!(&weir.settings().unwrap(), weir.initial_settings());
    assert!(shown.rfind(LEAVE) > shown.rfind(ENTER), "its screen stays: {shown:?}");
    assert!(shown.rfind(SHOW) > shown.rfind(HIDE), "the cursor is gone: {shown:?}");
    // It was probed, and lives on.
    if let Some(caller) = caller {
        assert!(kill(Pid::from_raw(caller.pid() as i32), None).is_ok());
    }
}

#[test]
fn q_ends_the_table() {
    check(|weir, caller| {
        weir.press("q").unwrap();
        Some(caller)
    });
}

#[test]
fn ctrl_c_is_a_key_that_ends_the_table() {
    check(|weir, caller| {
        weir.press("\x03").unwrap();
        Some(caller)
    });
}

#[test]
fn a_signal_ends_the_table() {
    check(|weir, caller| {
        kill(Pid::from_raw(weir.pid() as i32), Signal::SIGTERM).unwrap();
        Some(caller)
    });
}

#[test]
fn the_end_of_the_program_ends_the_table() {
    check(|_, caller| {
        drop(caller);
        None
    });
}

/// What a terminal shows after these bytes: what weir writes of xterm's sequences, and no more.
struct Screen {
    lines: Vec<Vec<char>>,
    at: (usize, usize),
    saved: (usize, usize),
    /// The first and the last line that scroll.
    region: (usize, usize),
    /// Lines that have scrolled away at the top.
    gone: Vec<String>,
}

impl Screen {
    fn after(shown: &str, rows: usize, columns: usize) -> Screen {
        let lines = vec![vec![' '; columns]; rows];
        let mut screen = Screen { lines, at: (0, 0), saved: (0, 0), region: (0, rows - 1), gone: Vec::new() };
        let mut rest = shown.chars();
        while let Some(c) = rest.next() {
            match c {
                '\x1b' => screen.sequence(&mut rest),
                '\r' => screen.at.1 = 0,
                '\n' => screen.line_feed(),
                c => {
                    let (row, column) = screen.at;
                    if column < columns {
                        screen.lines[row][column] = c;
                        screen.at.1 += 1;
                    }
                }
            }
        }
        screen
    }

    fn line_feed(&mut self) {
        let (first, last) = self.region;
        if self.at.0 != last {
            self.at.0 = (self.at.0 + 1).min(self.lines.len() - 1);
            return;
        }
        let blank = vec![' '; self.lines[0].len()];
        let gone: String = self.lines.remove(first).into_iter().collect();
        self.lines.insert(last, blank);
        self.gone.push(gone.trim_end().to_owned());
    }

    fn sequence(&mut self, rest: &mut std::str::Chars<'_>) {
        match rest.next() {
            Some('7') => self.saved = self.at,
            Some('8') => self.at = self.saved,
            Some('[') => {
                let mut text = String::new();
                let last = loop {
                    match rest.next() {
                        Some(c) if c.is_ascii_alphabetic() => break c,
                        Some(c) => text.push(c),
                        None => return,
                    }
                };
                let numbers: Vec<usize> = text.split(';').map(|number| number.parse().unwrap_or(1)).collect();
                let (row, column) = self.at;
                match last {
                    'H' => self.at = (numbers[0] - 1, numbers.get(1).map_or(0, |column| column - 1)),
                    'r' if text.is_empty() => (self.region, self.at) = ((0, self.lines.len() - 1), (0, 0)),
                    'r' => (self.region, self.at) = ((numbers[0] - 1, numbers[1] - 1), (0, 0)),
                    'J' => {
                        self.lines[row][column..].fill(' ');
                        self.lines[row + 1..].iter_mut().for_each(|line| line.fill(' '));
                    }
                    'K' if text == "2" => self.lines[row].fill(' '),
                    'K' => self.lines[row][column..].fill(' '),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn text(&self, row: usize) -> String {
        self.lines[row].iter().collect::<String>().trim_end().to_owned()
    }

    /// All that was written above the view, and is there or has scrolled away.
    fn above(&self, rows: usize) -> Vec<String> {
        let all = self.gone.iter().cloned().chain((0..rows).map(|row| self.text(row)));
        all.filter(|line| !line.is_empty()).collect()
    }
}

#[test]
fn what_the_script_prints_scrolls_above_the_table() {
    const ROWS: usize = 24;
    const COLUMNS: usize = 200;
    let (program, caller) = caller();
    let script = format!(
        "uprobe:\"{}\":probed {{ @ = count(); }} interval:ms:20 {{ @n++; printf(\"tick %d\\n\", @n); }} END {{ clear(@); }}",
        program.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" trace --live -e \"$1\" -p \"$2\" >&2", env!("CARGO_BIN_EXE_weir")]);
    command.args([&script, &caller.pid().to_string()]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    let mut weir = OnTerminal::spawn(command, ROWS as u16, COLUMNS as u16).unwrap();
    for words in ["PROBE", "armed", "tick 30\r\n"] {
        assert!(weir.shows(words, DEADLINE), "no {words:?} in {:?}", weir.shown());
    }
    assert!(!weir.shown().contains(ENTER), "{:?}", weir.shown());
    weir.press("q").unwrap();
    let ended = weir.finish(DEADLINE);
    let shown = weir.shown();
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "{shown:?}");
    assert_eq!(&weir.settings().unwrap(), weir.initial_settings());
    assert!(shown.rfind(SHOW) > shown.rfind(HIDE), "the cursor is gone: {shown:?}");
    // While it runs the table has the last half of the lines, and each tick is above it, in order.
    let last = shown.rfind("\x1b[r").expect("it ends");
    let running = Screen::after(&shown[..last], ROWS, COLUMNS);
    let table: Vec<String> = (ROWS / 2..ROWS).map(|row| running.text(row)).collect();
    assert!(table.iter().any(|line| line.contains("PROBE")), "{table:?}");
    assert!(!table.iter().any(|line| line.contains("tick")), "{table:?}");
    let is_tick = |line: &&String| line.starts_with("tick ");
    let above = running.above(ROWS / 2);
    let ticks: Vec<&String> = above.iter().filter(is_tick).collect();
    let wanted: Vec<String> = (1..=ticks.len()).map(|n| format!("tick {n}")).collect();
    assert!(ticks.len() >= 30 && ticks.into_iter().eq(&wanted), "{above:?}");
    // Then what comes at the end is below the last of them, and nothing is left of the table.
    let after = Screen::after(&shown, ROWS, COLUMNS);
    let all = after.above(ROWS);
    assert!(
        all.last().is_some_and(|line| line.starts_with("@n: "))
            && !all.iter().any(|line| line.contains("PROBE")),
        "{all:?}"
    );
}
