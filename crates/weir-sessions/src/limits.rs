//! Every bound of sessions, once.

use std::time::Duration;

/// Characters of a session's name.
pub(crate) const NAME_BYTES: usize = 64;
/// Sessions of one daemon.
pub(crate) const SESSIONS: usize = 64;
/// What `enable` was called with, for one session.
pub(crate) const RULES: usize = 256;
/// How often a session goes on in new folders at most.
pub(crate) const ROTATION_MS: u64 = 100;
/// Processes that a session remembers, before those that have ended are forgotten.
pub(crate) const PROCESSES: usize = 4096;
/// How long the recording of a program may take to get ready, while its processes wait.
pub(crate) const PREPARE_WAIT: Duration = Duration::from_secs(10);
/// Channels of one session.
pub(crate) const CHANNELS: usize = 32;
/// Programs that one session records at one time: each has a process that records it.
pub(crate) const RECORDINGS: usize = 64;
/// Parts of one session: channels of programs that have come.
pub(crate) const PARTS: usize = 1024;
/// Elements of any list in a message.
pub(crate) const LIST: usize = 1024;
/// Bytes of any text in a message: as many as LTTng's filters may have.
pub(crate) const TEXT_BYTES: usize = 64 << 10;
/// Bytes of a request.
pub(crate) const REQUEST_BYTES: usize = 1 << 20;
/// Bytes of an answer: counts of 65,535 events of every session.
pub(crate) const ANSWER_BYTES: usize = 256 << 20;
/// Bytes of the state file, and of a file of counts.
pub(crate) const FILE_BYTES: u64 = 64 << 20;
/// Bytes of what a recording said that are passed on.
pub(crate) const SAID_BYTES: u64 = 16 << 10;
/// Bytes of a line that a recording says to its daemon.
pub const LINE_BYTES: usize = 4096;
/// The daemon's log begins anew when it is longer.
pub(crate) const LOG_BYTES: u64 = 1 << 20;
/// Clients at one time; others wait to be accepted.
pub(crate) const CONNECTIONS: usize = 32;
/// How long a client may take to say what it wants, or to take the answer.
pub(crate) const CLIENT_WAIT: Duration = Duration::from_secs(10);
/// How long a client waits for a daemon that it started, or for one that is there to say who it is.
pub(crate) const DAEMON_WAIT: Duration = Duration::from_secs(20);
/// How long a recording may take to end before it is killed: the next weir restores what it leaves.
pub(crate) const END_WAIT: Duration = Duration::from_secs(60);
/// How long a new daemon waits for recordings of one that was killed.
pub(crate) const LEFT_WAIT: Duration = Duration::from_secs(10);
/// How long a daemon without sessions stays.
pub const IDLE: Duration = Duration::from_secs(60);
/// How often a recording says what it has recorded.
pub const COUNTS_INTERVAL: Duration = Duration::from_millis(200);

const _: () = assert!(REQUEST_BYTES > TEXT_BYTES && (ANSWER_BYTES as u64) > FILE_BYTES);
/// Of a socket's name (unix(7)), with the zero at its end.
pub(crate) const SOCKET_BYTES: usize = 108;
