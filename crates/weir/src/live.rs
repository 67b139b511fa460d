//! Live views, `weir trace --live` and `weir top` ([`top`]): what each probe costs while it runs.
//!
//! In, of a run: [`Figures`] once a second. Out, on standard error, so that standard output stays the script's: a table on a terminal
//! ([`draw`], keys in [`terminal`]; where the script's output goes to a terminal too, that scrolls above the table), else lines that programs can read ([`plain`]). [`view`] is what is shown, in which order.

mod draw;
mod plain;
mod terminal;
pub(crate) mod top;
pub(crate) mod view;

use std::io::{IsTerminal, Stderr, stderr, stdout};
use std::time::{Duration, Instant};

use weir_policy::figures::Figures;

use crate::live::terminal::Terminal;
use crate::live::view::{Key, View};
use crate::print::is_heard;

/// Between two views.
const PERIOD: Duration = Duration::from_secs(1);

/// A view that is on.
pub(crate) struct Live {
    view: View,
    began: Instant,
    next: Instant,
    /// None where standard error is not one: then lines are written.
    terminal: Option<Terminal<Stderr>>,
    /// Somebody reads the lines. Who has shut standard error has left the view, and not the run.
    is_read: bool,
}

impl Live {
    /// `budget`: as it was written.
    pub(crate) fn start(budget: Option<String>) -> Live {
        // A terminal that cannot be set up gets lines.
        let start = || match stdout().is_terminal() {
            true => Terminal::start_below(stderr()),
            false => Terminal::start(stderr()),
        };
        let terminal = stderr().is_terminal().then(start).and_then(Result::ok);
        let view = View::new(budget);
        let is_read = terminal.is_some() || is_heard(&plain::header(&view));
        let now = Instant::now();
        Live { view, began: now, next: now + PERIOD, terminal, is_read }
    }

    /// Shows what is new, where that is due. True where the user asks for the end.
    pub(crate) fn round(&mut self, figures: impl FnOnce() -> (Figures, usize, u64)) -> bool {
        let mut is_changed = false;
        while let Some(key) = self.terminal.as_mut().and_then(|terminal| terminal.key()) {
            if key == Key::Quit {
                return true;
            }
            self.view.press(key);
            is_changed = true;
        }
        if self.is_read && Instant::now() >= self.next {
            self.next = Instant::now() + PERIOD;
            let (figures, processes, lost) = figures();
            self.view.update(&figures, self.began.elapsed(), processes, lost);
            is_changed = true;
            if self.terminal.is_none() {
                self.is_read = is_heard(&plain::lines(&self.view));
            }
        }
        if let Some(terminal) = self.terminal.as_mut().filter(|_| is_changed) {
            terminal.show(&self.view);
        }
        false
    }
}
