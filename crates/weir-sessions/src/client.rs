//! A command's side of the socket: finds the daemon, starts it where there is none, asks it one thing.
//!
//! In: a request. Out: the answer. If the daemon exits before the handshake, another is tried. If it exits after the request and before the answer,
//! the request may have taken effect, and this is reported. Two commands that start a daemon at the same time find the same one: the daemon that
//! gets the lock stays, the other exits.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use nix::unistd::geteuid;

use crate::Error;
use crate::limits;
use crate::place::{self, Place};
use crate::protocol::{Answer, Hello, PROTOCOL, Request};

/// How often a daemon is looked for that was started.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long the daemon that is started stays without sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// One that is there is asked, none is started.
    Never,
    /// One is started where there is none, and exits after so long without sessions.
    Idle(Duration),
}

/// Asks the daemon; none where there is none, and none is to be started.
pub fn ask(place: &Place, request: &Request, start: &Start) -> Result<Option<Answer>, Error> {
    let Some(mut stream) = connect(place, start)? else { return Ok(None) };
    let ended = || {
        Error::Unavailable(anyhow!(
            "the daemon ended before it answered: whether it did what it was asked is what weir record status says"
        ))
    };
    let line = request.line();
    if line.len() > limits::REQUEST_BYTES {
        let (length, most) = (line.len(), limits::REQUEST_BYTES);
        return Err(Error::Refused(anyhow!("this makes a request of {length} bytes, the limit is {most}")));
    }
    // One that does not want to hear it has said why.
    let _ = stream.get_mut().write_all(line.as_bytes());
    // It may have to wait for processes.
    stream.get_mut().set_read_timeout(None).context("the daemon's socket").map_err(Error::Unavailable)?;
    let line = read_line(&mut stream).map_err(|_| ended())?.ok_or_else(ended)?;
    Answer::of_line(&line).map(Some).map_err(unread)
}

fn connect(place: &Place, start: &Start) -> Result<Option<BufReader<UnixStream>>, Error> {
    place.check()?;
    let end = Instant::now() + limits::DAEMON_WAIT;
    let mut started: Option<Child> = None;
    loop {
        match UnixStream::connect(&place.socket) {
            Ok(stream) => {
                if let Some(stream) = greeted(stream, place)? {
                    return Ok(Some(stream));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                let Start::Idle(idle) = start else { return Ok(None) };
                if !is_starting(&mut started, place)? {
                    started = Some(spawn(place, *idle)?);
                }
            }
            Err(error) => {
                let what = format!("connecting to the daemon at {}", place.socket.display());
                return Err(Error::Unavailable(anyhow!(error).context(what)));
            }
        }
        if Instant::now() >= end {
            return Err(Error::Unavailable(anyhow!(
                "there is no daemon at {} after {} s; {} may say why",
                place.socket.display(),
                limits::DAEMON_WAIT.as_secs(),
                place.log().display()
            )));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// The stream, once the daemon has said who it is; none where it has ended before.
fn greeted(stream: UnixStream, place: &Place) -> Result<Option<BufReader<UnixStream>>, Error> {
    let prepared = stream.set_read_timeout(Some(limits::DAEMON_WAIT));
    prepared.context("the daemon's socket").map_err(Error::Unavailable)?;
    let mut stream = BufReader::new(stream);
    let line = match read_line(&mut stream) {
        Ok(Some(line)) => line,
        Ok(None) => return Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Err(Error::Unavailable(anyhow!(
                "the daemon at {} says nothing for {} s",
                place.socket.display(),
                limits::DAEMON_WAIT.as_secs()
            )));
        }
        Err(_) => return Ok(None),
    };
    let hello = Hello::of_line(&line).map_err(unread)?;
    let (own, version) = (geteuid().as_raw(), env!("CARGO_PKG_VERSION"));
    match () {
        () if hello.protocol != PROTOCOL || hello.version != version => Err(Error::Refused(anyhow!(
            "the daemon (process {}) is of weir {}, this is {version}: destroy its sessions with that one, or end it with `kill {}`",
            hello.pid,
            hello.version.escape_debug(),
            hello.pid
        ))),
        () if hello.uid != u64::from(own) => Err(Error::Refused(anyhow!(
            "the daemon at {} is user {}'s, this is user {own}",
            place.socket.display(),
            hello.uid
        ))),
        () => Ok(Some(stream)),
    }
}

/// A line without its end; none where there is none.
fn read_line(stream: &mut BufReader<UnixStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    stream.by_ref().take(limits::ANSWER_BYTES as u64).read_until(b'\n', &mut line)?;
    Ok(line.pop_if(|last| *last == b'\n').map(|_| line))
}

fn unread(why: String) -> Error {
    Error::Unavailable(anyhow!("the daemon says what this weir does not understand: {why}"))
}

/// Whether a daemon that was started may still come. One that ended because it had nothing to do, or because another was first, is none.
fn is_starting(started: &mut Option<Child>, place: &Place) -> Result<bool, Error> {
    let Some(child) = started else { return Ok(false) };
    match child.try_wait() {
        Ok(None) => Ok(true),
        Ok(Some(status)) if status.success() => Ok(false),
        _ => {
            let (said, _) = place::said(&place.log(), 0);
            let last = said.lines().last().unwrap_or("it said nothing").trim_start_matches("weir: ");
            Err(Error::Unavailable(anyhow!("the daemon could not be started: {last}")))
        }
    }
}

/// Starts one that this process is not waited for with, and that it does not wait for.
fn spawn(place: &Place, idle: Duration) -> Result<Child, Error> {
    place.make()?;
    let mut command = Command::new((place.program)());
    command.args(["record", "daemon", "--detached", "--idle", &idle.as_secs_f64().to_string(), "--socket"]);
    command.arg(&place.socket).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(place.open_log()?);
    command.spawn().context("starting the daemon").map_err(Error::Unavailable)
}
