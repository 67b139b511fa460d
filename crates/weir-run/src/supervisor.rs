//! Who supervises a recording while it runs: the daemon of recording sessions, by whatever way they speak to each other.
//!
//! In: what it asks for ([`Heard`]). Out: what the recording says to it ([`Said`]), and how much was recorded ([`Counts`]).

use std::os::fd::BorrowedFd;

use weir_probe::fanotify::Allow;
use weir_process::processes::ProcessId;
use weir_sessions::counts::Counts;

use crate::failure::Failure;

/// Asked and told by a run, in its thread.
pub trait Supervisor {
    /// The recording whose processes this one takes over.
    fn before(&self) -> Option<Before>;
    /// An event has started that one, and not stopped it since.
    fn is_open(&self) -> bool;
    /// Readable when [`Supervisor::hear`] has something to say.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// What was asked for since the last time; waits for nothing.
    fn hear(&mut self) -> Result<Heard, Failure>;
    /// Takes an answer, or something that the run does of its own accord.
    fn say(&mut self, said: Said<'_>);
    /// It is time to write counts.
    fn is_due(&self) -> bool;
    /// Keeps the counts of the recording, for who asks how it stands.
    fn write(&mut self, counts: &Counts);
}

/// What is asked for.
#[derive(Debug, Default)]
pub struct Heard {
    /// So many snapshots: each is answered.
    pub snapshots: usize,
    /// The next folders, by name: each is answered.
    pub folders: Vec<String>,
    /// What is to become of the processes, in turn.
    pub handed_over: Vec<HandOver>,
    /// Processes that are to be recorded before they run on.
    pub held: Vec<HeldProcess>,
    /// Those that run, or wait for another recording (true), and are to be recorded too.
    pub joined: Vec<(ProcessId, bool)>,
    /// Those that wait for this one and need not any longer.
    pub go_on: Vec<ProcessId>,
    /// What events have made of the recording before this one meanwhile.
    pub is_opened: Option<bool>,
    /// The recording is to end.
    pub has_ended: bool,
}

/// A process that the supervisor holds in openat(2) of a library, before its own code runs.
pub struct HeldProcess {
    /// Which one.
    pub id: ProcessId,
    /// It is to wait for other recordings, before its own code runs.
    pub others: bool,
    /// It is stopped by the run from now on: the call is to be allowed.
    pub allow: Allow,
}

impl std::fmt::Debug for HeldProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldProcess").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    /// Events are recorded from now on.
    Recording,
    /// Nothing of the processes is touched from now on: the number of who is to take them over.
    LetGo(u64),
    /// The name of a snapshot that was asked for, or why there is none.
    Snapshot(Result<&'a str, &'a str>),
    /// An event asks for the next folder.
    Rotate,
    /// The next folder is written from now on, or why not.
    Rotated(Result<(), &'a str>),
    /// An event has ended the recording.
    Stopped,
    /// A process waits for this recording, so that others can come to it.
    AtDoor(ProcessId),
    /// A process that was held or joined is recorded, or cannot be.
    Has(ProcessId),
}

/// A weir that records before this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Before {
    /// Its number.
    pub pid: u32,
    /// When it began, in the kernel's ticks: its number may be another's one day.
    pub start: u64,
}

/// What is to become of a recording's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandOver {
    /// Another takes them over; the number is answered.
    To(u64),
    /// It has not.
    Back,
}
