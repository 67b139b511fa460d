//! The terminal of a live view: its own screen on one of the standard streams, keys without waiting for a line.
//!
//! Guaranteed: the terminal is as it was when this is dropped, also where weir ends in a panic.

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::live::draw::draw;
use crate::live::view::{Key, View};

pub(super) struct Terminal<W: Write> {
    /// Its own drop would say on standard error that a terminal has gone away, with a macro that panics there.
    screen: ManuallyDrop<ratatui::Terminal<CrosstermBackend<W>>>,
    is_coloured: bool,
}

impl<W: Write> Terminal<W> {
    /// `out` is a terminal.
    pub(super) fn start(mut out: W) -> io::Result<Terminal<W>> {
        enable_raw_mode()?;
        let is_coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let screen = execute!(out, EnterAlternateScreen)
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(out)));
        match screen {
            Ok(screen) => Ok(Terminal { screen: ManuallyDrop::new(screen), is_coloured }),
            Err(error) => {
                let _ = disable_raw_mode();
                Err(error)
            }
        }
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
        // A terminal that went away is noticed by the signal that comes with it.
        let _ = self.screen.draw(|frame| draw(view, self.is_coloured, frame));
    }
}

impl<W: Write> Drop for Terminal<W> {
    fn drop(&mut self) {
        let _ = self.screen.show_cursor();
        let _ = execute!(self.screen.backend_mut(), LeaveAlternateScreen);
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
