//! Frames → a pipe, by a thread of their own.
//!
//! In: frames. Out: the same, in their order, to the writer that the sender was made with; a frame that says nothing each [`ALIVE_EVERY`] in which there was no
//! other, so that a reader that is gone is known. Who puts frames in waits for nobody, and asks first whether there is room ([`Sender::has_room`]).
//!
//! A pipe that nobody reads any more is an error of every call after it. One that nobody reads at the moment holds nobody up: also at the end only as long
//! as somebody reads ([`Sender::finish`]), and never beyond a time that may be set ([`Sender::set_deadline`]).

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::limits::SEND_BYTES;
use crate::pipe::frame::{self, Frame};

/// How long a stream says nothing at most.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// The end of a pipe that a trace is written to. Copies are the same end.
#[derive(Clone, Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    /// What errors call it.
    name: PathBuf,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Of the state: a frame has come, or was written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of these, and of the one that is being written.
    bytes: usize,
    /// Bytes that were written.
    written: u64,
    failed: Option<Fault>,
    is_ended: bool,
    /// Waits end there.
    deadline: Option<Instant>,
}

/// What the pipe has said, for each who asks.
#[derive(Clone, Copy, Debug)]
enum Fault {
    System(i32),
    Other(ErrorKind),
}

impl Sender {
    /// Starts the thread, with the signals blocked that are blocked in this one. `name`: what errors call the pipe.
    pub fn start(to: impl Write + Send + 'static, name: &str) -> io::Result<Sender> {
        let shared: Arc<Shared> = Arc::default();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("weir-send".to_owned()).spawn(move || of_thread.write_all(to))?;
        let sender = Sender { shared, name: PathBuf::from(name) };
        sender.put(frame::head().to_vec(), false);
        Ok(sender)
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// Whether more should be put in now. A pipe that has failed has room: the next call returns the error.
    pub fn has_room(&self) -> bool {
        self.shared.state().has_room()
    }

    /// From here on nobody waits beyond this time, however much is read meanwhile: it is an error then.
    pub fn set_deadline(&self, deadline: Instant) {
        self.shared.state().deadline = Some(deadline);
    }

    /// Waits for room as long as somebody reads: without a byte in `patience` it is an error.
    pub fn wait_for_room(&self, patience: Duration) -> Result<(), Error> {
        self.wait(patience, State::has_room)
    }

    /// Sends a frame, sooner or later.
    pub(crate) fn send(&self, frame: &Frame<'_>) -> Result<(), Error> {
        self.fault()?;
        self.put(frame.bytes(), false);
        Ok(())
    }

    /// Sends the end, and waits for everything to be written as long as somebody reads: without a byte in `patience` it is an error.
    pub fn finish(&self, patience: Duration) -> Result<(), Error> {
        self.fault()?;
        self.put(Frame::End.bytes(), true);
        self.wait(patience, |state| state.bytes == 0)
    }

    /// What the pipe has said first.
    pub fn fault(&self) -> Result<(), Error> {
        let failed = self.shared.state().failed;
        failed.map_or(Ok(()), |fault| {
            let source = match fault {
                Fault::System(code) => io::Error::from_raw_os_error(code),
                Fault::Other(kind) => kind.into(),
            };
            Err(Error::File { path: self.name.clone(), what: "write", source })
        })
    }

    /// With `is_last` the thread puts nothing after it.
    fn put(&self, bytes: Vec<u8>, is_last: bool) {
        let mut state = self.shared.state();
        state.bytes += bytes.len();
        state.waiting.push_back(bytes);
        state.is_ended |= is_last;
        drop(state);
        self.shared.changed.notify_all();
    }

    fn wait(&self, patience: Duration, is_done: impl Fn(&State) -> bool) -> Result<(), Error> {
        let mut state = self.shared.state();
        let (mut written, mut since) = (state.written, Instant::now());
        while !is_done(&state) && state.failed.is_none() {
            if state.written != written {
                (written, since) = (state.written, Instant::now());
            }
            let now = Instant::now();
            let rest = patience.checked_sub(now - since).filter(|rest| !rest.is_zero());
            let left =
                state.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
            let said = match rest {
                None => format!("its reader has read nothing for {} s", patience.as_secs()),
                Some(_) if left.is_zero() => {
                    format!(
                        "its reader is too slow for the end of the trace: {} bytes are not read",
                        state.bytes
                    )
                }
                Some(rest) => {
                    let waited = self.shared.changed.wait_timeout(state, rest.min(left));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            let source = io::Error::new(ErrorKind::TimedOut, said);
            return Err(Error::File { path: self.name.clone(), what: "write", source });
        }
        drop(state);
        self.fault()
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.bytes < SEND_BYTES || self.failed.is_some()
    }
}

impl Shared {
    /// The thread. It ends with the last frame, with the pipe, or with the process.
    fn write_all(&self, mut to: impl Write) {
        while let Some(frame) = self.next() {
            let mut rest = &frame[..];
            while !rest.is_empty() {
                let written = match to.write(rest) {
                    Ok(0) => Err(Fault::Other(ErrorKind::WriteZero)),
                    Ok(written) => Ok(written),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => Err(error.raw_os_error().map_or(Fault::Other(error.kind()), Fault::System)),
                };
                let mut state = self.state();
                match written {
                    Ok(written) => {
                        rest = &rest[written..];
                        state.written += written as u64;
                        state.bytes = state.bytes.saturating_sub(written);
                    }
                    Err(fault) => {
                        state.failed = Some(fault);
                        state.waiting.clear();
                        drop(state);
                        return self.changed.notify_all();
                    }
                }
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    /// The next frame, or one that says nothing; none after the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        let until = Instant::now() + ALIVE_EVERY;
        loop {
            if let Some(frame) = state.waiting.pop_front() {
                return Some(frame);
            }
            if state.is_ended {
                return None;
            }
            let Some(rest) = until.checked_duration_since(Instant::now()) else {
                let alive = Frame::Alive.bytes();
                state.bytes += alive.len();
                return Some(alive);
            };
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A pipe that takes what it is allowed to: each message is so many bytes; without any more it is broken.
    struct Slow {
        allowed: mpsc::Receiver<usize>,
        content: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Ok(allowed) = self.allowed.recv() else { return Err(ErrorKind::BrokenPipe.into()) };
            let count = allowed.min(bytes.len());
            self.content.lock().unwrap().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Sender, mpsc::Sender<usize>, Arc<Mutex<Vec<u8>>>) {
        let (allow, allowed) = mpsc::channel();
        let content = Arc::default();
        let sender = Sender::start(Slow { allowed, content: Arc::clone(&content) }, "a pipe").unwrap();
        (sender, allow, content)
    }

    #[test]
    fn who_puts_in_does_not_wait_for_a_pipe_that_is_full() {
        let (sender, allow, content) = slow();
        let packet = vec![7; SEND_BYTES / 4];
        let mut offset = 0;
        let mut wanted = frame::head().to_vec();
        while sender.has_room() {
            let frame = Frame::Packets { name: "stream_0", offset, content: &packet };
            sender.send(&frame).unwrap();
            wanted.extend(frame.bytes());
            offset += packet.len() as u64;
        }
        assert!(offset >= SEND_BYTES as u64 && offset < 2 * SEND_BYTES as u64);
        assert!(sender.wait_for_room(Duration::from_millis(1)).is_err());
        // The head, and bit by bit the first frame.
        (0..30).for_each(|_| allow.send(SEND_BYTES / 100).unwrap());
        sender.wait_for_room(LIMIT).unwrap();
        (0..1000).for_each(|_| allow.send(SEND_BYTES).unwrap());
        sender.finish(LIMIT).unwrap();
        wanted.extend(Frame::End.bytes());
        assert!(*content.lock().unwrap() == wanted);
    }

    #[test]
    fn a_pipe_that_is_broken_is_an_error_of_all_that_follows() {
        let (sender, allow, _) = slow();
        drop(allow);
        let broken = || sender.send(&Frame::Alive).is_err();
        let began = Instant::now();
        while !broken() && began.elapsed() < LIMIT {
            thread::yield_now();
        }
        let said = format!("{}", sender.send(&Frame::Alive).unwrap_err());
        assert_eq!(said, "cannot write a pipe");
        assert!(sender.has_room() && sender.finish(LIMIT).is_err());
    }

    #[test]
    fn the_end_waits_for_no_reader_that_trickles() {
        let (sender, allow, _) = slow();
        let packet = vec![7; SEND_BYTES / 4];
        sender.send(&Frame::Packets { name: "stream_0", offset: 0, content: &packet }).unwrap();
        // It reads a byte each few milliseconds, for hours.
        let reader = thread::spawn(move || {
            while allow.send(1).is_ok() {
                // A pace, which only makes the reader slow: the verdict is the same at any that does not read all in 50 ms.
                thread::sleep(Duration::from_millis(2));
            }
        });
        let began = Instant::now();
        sender.set_deadline(began + Duration::from_millis(50));
        let error = sender.finish(LIMIT).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("too slow for the end of the trace") && began.elapsed() < LIMIT, "{source}");
        assert!(!reader.is_finished(), "it has read everything");
    }

    #[test]
    fn the_end_waits_for_no_reader_that_does_not_read() {
        let (sender, _allow, _) = slow();
        let error = sender.finish(Duration::from_millis(20)).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("read nothing for"), "{source}");
    }
}
