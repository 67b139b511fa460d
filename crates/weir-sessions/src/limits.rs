//! Every bound of sessions, once.

use std::time::Duration;

/// Characters of a session's name.
pub const NAME_BYTES: usize = 64;
/// Sessions of one daemon.
pub const SESSIONS: usize = 64;
/// What `enable` was called with, for one session.
pub const RULES: usize = 256;
/// Elements of any list in a message.
pub const LIST: usize = 1024;
/// Bytes of any text in a message: as many as LTTng's filters may have.
pub const TEXT_BYTES: usize = 64 << 10;
/// Bytes of a request.
pub const REQUEST_BYTES: usize = 1 << 20;
/// Bytes of an answer: counts of 65,535 events of every session.
pub const ANSWER_BYTES: usize = 256 << 20;
/// Bytes of the state file, and of a file of counts.
pub const FILE_BYTES: u64 = 64 << 20;
/// Bytes of what a recording said that are passed on.
pub const SAID_BYTES: u64 = 16 << 10;
/// Bytes of a line that a recording says to its daemon.
pub const LINE_BYTES: usize = 4096;
/// The daemon's log begins anew when it is longer.
pub const LOG_BYTES: u64 = 1 << 20;
/// Clients at one time; others wait to be accepted.
pub const CONNECTIONS: usize = 32;
/// How long a client may take to say what it wants, or to take the answer.
pub const CLIENT_WAIT: Duration = Duration::from_secs(10);
/// How long a client waits for a daemon that it started, or for one that is there to say who it is.
pub const DAEMON_WAIT: Duration = Duration::from_secs(20);
/// How long a recording may take to end before it is killed: the next weir restores what it leaves.
pub const END_WAIT: Duration = Duration::from_secs(60);
/// How long a new daemon waits for recordings of one that was killed.
pub const LEFT_WAIT: Duration = Duration::from_secs(10);
/// How long a daemon without sessions stays.
pub const IDLE: Duration = Duration::from_secs(60);
/// How often a recording says what it has recorded.
pub const COUNTS_INTERVAL: Duration = Duration::from_millis(200);

const _: () = assert!(REQUEST_BYTES > TEXT_BYTES && (ANSWER_BYTES as u64) > FILE_BYTES);
/// Of a socket's name (unix(7)), with the zero at its end.
pub const SOCKET_BYTES: usize = 108;
