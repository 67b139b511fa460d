//! What the daemon says to a process that records for it, on that one's standard input: a byte each, some with words up to a newline after it.
//!
//! [`AFTER`] comes before the recording may begin, the others after that. The end of the pipe before it says that the recording is not wanted; later the recording
//! ends by SIGTERM, or with the daemon.
//!
//! What such a process says in turn, on its standard output, is a line each:
//!
//! | line | says |
//! |---|---|
//! | `held` | everything is ready, no process was touched |
//! | `recording` | probes are in |
//! | `let-go NUMBER` | it touches its processes no more, which are probed as before |
//! | `snapshot NAME`, `no-snapshot WHY` | the snapshot that was asked for is there, or not |
//! | `rotated`, `no-rotation WHY` | the next folder that was asked for is written, or not |
//! | `rotate` | an event asks for the next folder |
//! | `stopped` | an event has ended the recording |
//! | `took PID START` | the process that it was to take is stopped by it, and may be let go |
//! | `at-door PID START` | that process waits for it before its own code runs: others may come ([`TAKE_FIRST`]) |
//! | `has PID START` | the process that it was to take or join is recorded, or cannot be |
//! | `no-event` | it cannot begin: the program has none of its events |
//! | `wrong-filter` | it cannot begin: an event has not what its filter asks for |
//!
//! How much it has recorded so far is in a file of [`Counts`](crate::counts::Counts), which is replaced as a whole.

/// The recording may begin.
pub const GO: u8 = b'g';
/// The same, where an event has started the one before it: it waits for none.
pub const GO_OPEN: u8 = b'o';
/// A snapshot is wanted.
pub const SNAPSHOT: u8 = b's';
/// The next folder is wanted, of the name that follows up to a newline.
pub const ROTATE: u8 = b'r';
/// The recording whose pid and start follow, up to a newline, has let its processes go: they are to be taken over.
pub const AFTER: u8 = b'a';
/// Another recording takes the processes over. The number of the request follows, up to a newline.
pub const HAND_OVER: u8 = b'h';
/// It has failed to.
pub const TAKE_BACK: u8 = b'b';
/// An event has started the recording before this one, after this one was let begin.
pub const OPENED: u8 = b'p';
/// An event has stopped that one.
pub const SHUT: u8 = b'c';
/// The process whose pid and start follow, up to a newline, is held, and is to be recorded from its first instruction on.
pub const TAKE: u8 = b't';
/// The same, and it is to wait there for other recordings.
pub const TAKE_FIRST: u8 = b'f';
/// Such a process waits for another recording, and is to be recorded too.
pub const JOIN: u8 = b'j';
/// A process that runs is to be recorded.
pub const JOIN_RUNNING: u8 = b'i';
/// The others have come: it need not wait any longer.
pub const GO_ON: u8 = b'n';
