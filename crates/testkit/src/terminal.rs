//! A program on a terminal: its standard input and error, and its controlling terminal, are a pseudo-terminal.
//!
//! In: a command, whose standard output stays what it says. Out: [`OnTerminal`]: what was written to the terminal so far, its
//! settings, and a way to press keys. Dropped, it kills the program. What was written is not drawn: tests look for the
//! words and control sequences in it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::libc;

use crate::wait;

/// A program that runs on a terminal of its own.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    /// The side of whoever looks at the terminal; reading does not wait.
    user: File,
    /// Held, so that its settings can be read when the program has ended.
    terminal: OwnedFd,
    shown: Vec<u8>,
    initial: Settings,
}

/// What tcsetattr(3) sets: input, output, control and local modes, and the special characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings([u32; 4], Vec<u8>);

impl OnTerminal {
    /// Starts the command on a terminal of so many rows and columns.
    pub fn spawn(mut command: Command, rows: u16, columns: u16) -> io::Result<OnTerminal> {
        let (user, terminal) = open(rows, columns)?;
        let initial = settings(&terminal)?;
        command.stdin(Stdio::from(terminal.try_clone()?)).stderr(Stdio::from(terminal.try_clone()?));
        let lead = || {
            // SAFETY: both calls are safe between fork and exec (signal-safety(7)), and 0 is the terminal by then.
            let result = unsafe { if libc::setsid() < 0 { -1 } else { libc::ioctl(0, libc::TIOCSCTTY, 0) } };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: `lead` does nothing but those calls, and touches no memory of this process.
        let child = unsafe { command.pre_exec(lead) }.spawn()?;
        Ok(OnTerminal { child, user, terminal, shown: Vec::new(), initial })
    }

    /// Waits until the program has written `text`; whether it has before the deadline.
    pub fn shows(&mut self, text: &str, deadline: Duration) -> bool {
        wait::until(deadline, || self.shown().contains(text))
    }

    /// All that was written to the terminal so far, control sequences too.
    pub fn shown(&mut self) -> String {
        let mut bytes = [0; 4096];
        // An error says that nothing is there now, or that nothing comes any more.
        while let Ok(count @ 1..) = self.user.read(&mut bytes) {
            self.shown.extend(&bytes[..count]);
        }
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    pub fn press(&mut self, keys: &str) -> io::Result<()> {
        self.user.write_all(keys.as_bytes())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As they are now.
    pub fn settings(&self) -> io::Result<Settings> {
        settings(&self.terminal)
    }

    /// As they were before the program was started.
    pub fn initial_settings(&self) -> &Settings {
        &self.initial
    }

    /// How the program ends, if it does before the deadline. What it writes meanwhile is taken.
    pub fn finish(&mut self, deadline: Duration) -> Option<ExitStatus> {
        wait::until_some(deadline, || {
            self.shown();
            self.child.try_wait().ok().flatten()
        })
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two sides of a pseudo-terminal, that of the user and the terminal itself (pty(7)).
fn open(rows: u16, columns: u16) -> io::Result<(File, OwnedFd)> {
    let (mut user, mut terminal) = (-1, -1);
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: it writes two descriptors and reads the size; no name and no settings are given.
    let result =
        unsafe { libc::openpty(&mut user, &mut terminal, std::ptr::null_mut(), std::ptr::null(), &size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were opened just now, and nobody else has them.
    let (user, terminal) = unsafe { (File::from_raw_fd(user), OwnedFd::from_raw_fd(terminal)) };
    for (fd, command, flag) in [
        (user.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK),
        // The program that is started gets what it is to have by dup2, which clears this.
        (user.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC),
        (terminal.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC),
    ] {
        // SAFETY: these commands of fcntl(2) take a number and touch no memory.
        if unsafe { libc::fcntl(fd, command, flag) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok((user, terminal))
}

fn settings(terminal: &OwnedFd) -> io::Result<Settings> {
    let mut read = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: it writes one termios, and zeroes are one too.
    let (result, read) =
        unsafe { (libc::tcgetattr(terminal.as_raw_fd(), read.as_mut_ptr()), read.assume_init()) };
    match result {
        0 => Ok(Settings([read.c_iflag, read.c_oflag, read.c_cflag, read.c_lflag], read.c_cc.to_vec())),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn the_program_sees_a_terminal_of_that_size_and_its_keys() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "stty size >&2; read line; stty -echo; echo \"it was $line\" >&2 </dev/tty; exit 3",
        ]);
        let mut shell = OnTerminal::spawn(command, 11, 77).unwrap();
        assert!(shell.shows("11 77", DEADLINE), "{:?}", shell.shown());
        shell.press("abc\n").unwrap();
        let ended = shell.finish(DEADLINE).expect("it ends");
        assert_eq!(ended.code(), Some(3));
        assert!(shell.shown().contains("it was abc"), "{:?}", shell.shown());
        assert_ne!(&shell.settings().unwrap(), shell.initial_settings());
    }
}
