//! The terminal of a live view: its own screen on one of the standard streams, or the last lines of a terminal where others write too; keys without
//! waiting for a line.
//!
//! Below what others write: the lines above the view are a scrolling region (DECSTBM), the cursor stays there between two drawings, and ends of
//! lines are made as in other terminals. So output scrolls above the view, whether the script, weir or the traced command writes it.
//!
//! Guaranteed: the terminal is as it was when this is dropped, also where weir ends in a panic.

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{RestorePosition, SavePosition};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};

use crate::live::draw::draw;
use crate::live::view::{Key, View};
use crate::print::wants_colour;

/// Lines of a view below what others write; and of a terminal that has room for both twice as many at least.
const LINES_LEAST: u16 = 6;
const LINES_MOST: u16 = 12;

pub(super) struct Terminal<W: Write> {
    /// Its own drop would say on standard error that a terminal has gone away, with a macro that panics there.
    screen: ManuallyDrop<ratatui::Terminal<CrosstermBackend<W>>>,
    is_coloured: bool,
    /// None: it has a screen of its own.
    below: Option<Below>,
}

/// Where the view is below what others write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Below {
    columns: u16,
    rows: u16,
}

impl Below {
    /// None where there is no room for both.
    fn of((columns, rows): (u16, u16)) -> Option<Below> {
        (rows >= 2 * LINES_LEAST).then_some(Below { columns, rows })
    }

    fn height(self) -> u16 {
        (self.rows / 2).min(LINES_MOST)
    }

    fn area(self) -> Rect {
        Rect::new(0, self.rows - self.height(), self.columns, self.height())
    }

    /// The cursor is on the last line above the view then.
    fn begin(self, out: &mut impl Write) -> io::Result<()> {
        let above = self.rows - self.height();
        write!(out, "{}\x1b[1;{above}r\x1b[{above};1H", "\n".repeat(self.height().into()))?;
        out.flush()
    }

    fn clear(self, out: &mut impl Write) -> io::Result<()> {
        (self.rows - self.height()..self.rows).try_for_each(|row| write!(out, "\x1b[{};1H\x1b[2K", row + 1))
    }

    /// The next line is where the view was.
    fn end(self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "\x1b[r\x1b[{};1H\x1b[J", self.rows - self.height() + 1)?;
        out.flush()
    }
}

impl<W: Write> Terminal<W> {
    /// `out` is a terminal.
    pub(super) fn start(mut out: W) -> io::Result<Terminal<W>> {
        enable_raw_mode()?;
        let screen = execute!(out, EnterAlternateScreen)
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(out)));
        match screen {
            Ok(screen) => {
                Ok(Terminal { screen: ManuallyDrop::new(screen), is_coloured: wants_colour(), below: None })
            }
            Err(error) => {
                let _ = disable_raw_mode();
                Err(error)
            }
        }
    }

    /// The same below what others write to this terminal.
    pub(super) fn start_below(mut out: W) -> io::Result<Terminal<W>>
    where
        W: AsFd,
    {
        let Some(below) = Below::of(size()?) else { return Terminal::start(out) };
        enable_raw_mode()?;
        let mut start = || {
            let mut settings = tcgetattr(&out)?;
            settings.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
            tcsetattr(&out, OptionalActions::Now, &settings)?;
            below.begin(&mut out)
        };
        let started = start();
        let mut terminal = Terminal::of(out, below).inspect_err(|_| _ = disable_raw_mode())?;
        terminal.below = Some(below);
        // Dropped, it puts back what was done.
        started.map(|()| terminal)
    }

    fn of(out: W, below: Below) -> io::Result<Terminal<W>> {
        let options = TerminalOptions { viewport: Viewport::Fixed(below.area()) };
        let screen = ratatui::Terminal::with_options(CrosstermBackend::new(out), options)?;
        Ok(Terminal { screen: ManuallyDrop::new(screen), is_coloured: wants_colour(), below: None })
    }

    /// The next key that was pressed, if one was that means something.
    pub(super) fn key(&mut self) -> Option<Key> {
        while event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(pressed)) = event::read() else { continue };
            if let Some(key) = meant(pressed) {
                return Some(key);
            }
        }
        None
    }

    /// Waits until there may be a key, or so long.
    pub(super) fn wait(&self, at_most: Duration) {
        // Where it fails there are no keys.
        if event::poll(at_most).is_err() {
            std::thread::sleep(at_most);
        }
    }

    pub(super) fn show(&mut self, view: &View) {
        let Some(below) = self.below else {
            // A terminal that went away is noticed by the signal that comes with it.
            let _ = self.screen.draw(|frame| draw(view, self.is_coloured, frame));
            return;
        };
        let now = size().ok().and_then(Below::of).unwrap_or(below);
        if now != below {
            // Its lines are where the terminal has put them.
            let _ = write!(self.screen.backend_mut(), "\x1b[r")
                .and_then(|()| now.begin(self.screen.backend_mut()));
            let _ = self.screen.resize(now.area());
            self.below = Some(now);
        }
        // Others may have written over it.
        let _ = execute!(self.screen.backend_mut(), SavePosition);
        let _ = now.clear(self.screen.backend_mut());
        // All of it is drawn: what is compared with is blank then. (Terminal::clear asks the terminal where its cursor is, and waits for the answer.)
        self.screen.swap_buffers();
        let _ = self.screen.draw(|frame| draw(view, self.is_coloured, frame));
        let _ = execute!(self.screen.backend_mut(), RestorePosition);
    }
}

impl<W: Write> Drop for Terminal<W> {
    fn drop(&mut self) {
        let _ = self.screen.show_cursor();
        let _ = match self.below {
            Some(below) => below.end(self.screen.backend_mut()),
            None => execute!(self.screen.backend_mut(), LeaveAlternateScreen),
        };
        let _ = disable_raw_mode();
    }
}

fn meant(pressed: KeyEvent) -> Option<Key> {
    match pressed.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        // Raw mode makes a key of what is a signal else.
        KeyCode::Char('c') if pressed.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Left => Some(Key::Left),
        KeyCode::Right => Some(Key::Right),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_last_line_says() {
        let plain = |code| meant(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(plain(KeyCode::Char('q')), Some(Key::Quit));
        assert_eq!(plain(KeyCode::Left), Some(Key::Left));
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(meant(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Key::Quit));
    }
}
