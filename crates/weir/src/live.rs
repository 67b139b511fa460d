//! Live views, `weir trace --live` and `weir top` ([`top`]): what each probe costs while it runs.
//!
//! In, of a run: [`Shown`] once a second. Out, on standard error, so that standard output stays the script's: a table on a terminal
//! ([`draw`], keys in [`terminal`]; where the script's output goes to a terminal too, that scrolls above the table), else lines that programs can read ([`plain`]). [`view`] is what is shown, in which order.

mod draw;
mod plain;
mod terminal;
pub(crate) mod top;
pub(crate) mod view;

use std::io::{IsTerminal, Stderr, stderr, stdout};
use std::time::{Duration, Instant};

use weir_run::Shown;

use crate::live::terminal::Terminal;
use crate::live::view::{Key, View};
use crate::print::is_heard;

/// Between two views.
const PERIOD: Duration = Duration::from_secs(1);

/// The view of a run.
pub(crate) struct Live {
    budget: Option<String>,
    on: Option<On>,
}

/// A view that is on.
struct On {
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
    pub(crate) fn new(budget: Option<String>) -> Live {
        Live { budget, on: None }
    }
}

impl weir_run::View for Live {
    fn begin(&mut self) {
        self.on = Some(On::start(self.budget.take()));
    }

    /// On a terminal the view shows what messages would report.
    fn shows_costs(&self) -> bool {
        stderr().is_terminal()
    }

    fn round(&mut self, shown: &dyn Fn() -> Shown) -> bool {
        self.on.as_mut().is_some_and(|on| on.round(shown))
    }
}

impl On {
    fn start(budget: Option<String>) -> On {
        // A terminal that cannot be set up gets lines.
        let start = || match stdout().is_terminal() {
            true => Terminal::start_below(stderr()),
            false => Terminal::start(stderr()),
        };
        let terminal = stderr().is_terminal().then(start).and_then(Result::ok);
        let view = View::new(budget);
        let is_read = terminal.is_some() || is_heard(&plain::header(&view));
        let now = Instant::now();
        On { view, began: now, next: now + PERIOD, terminal, is_read }
    }

    /// Shows what is new, where that is due. True where the user asks for the end.
    fn round(&mut self, shown: &dyn Fn() -> Shown) -> bool {
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
            let shown = shown();
            self.view.update(&shown.figures, self.began.elapsed(), shown.processes, shown.lost);
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
