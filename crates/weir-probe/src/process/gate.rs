//! Holds processes that execute, or begin to map, a file that is probed, so that nothing of them runs unprobed.
//!
//! In: files, and who is meant. Out: [`Arrival`]s, each of a process that the kernel holds in execve(2) or openat(2), by fanotify(7)'s
//! permission events; [`Arrival::hold`] makes it a process that is stopped before its own code runs, as a command is that weir has started
//! ([`crate::process::launch`]).
//!
//! Whoever is not meant is let by at once, by a thread that does nothing else, and so is one that is not dealt with in
//! [`limits::ARRIVAL_WAIT_MAX`]. If this process dies, the kernel lets all of them by.
//!
//! To seize a process may take a lock that its execve(2) holds meanwhile (for `#!` scripts and interpreters; before Linux 6.8 for all): then
//! it is let by while it is being seized ([`limits::SEIZE_WAIT_MAX`]), and may get away.
//!
//! Needs CAP_SYS_ADMIN. Not seen: what is executed from a memfd, copies of the files, and files that replace them later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::ptrace;
use nix::unistd::{Pid, gettid};
use weir_symbols::Binary;

use crate::limits;
use crate::process::launch::{Exec, Point};
use crate::process::stop;
use crate::process::sys::{self, Event, Urgent};
use crate::process::watcher::{Hold, WatchedGate};

/// How often a process that was let by is looked at, until it stops.
const POLL: Duration = Duration::from_micros(20);

/// What a process is held in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It executes the file.
    Executes,
    /// It opens the file, as its dynamic loader does to map it.
    Opens,
}

/// Whether a process is meant; asked by the gate's own thread.
pub type IsMeant = Box<dyn Fn(i32, Way) -> bool + Send>;

/// A process that is held by the kernel. Dropped, it is let by.
#[derive(Debug)]
pub struct Arrival {
    pid: i32,
    way: Way,
    answer: Arc<Answer>,
    shared: Arc<Shared>,
}

/// Those that the kernel holds at a gate of this process, each with its parent.
static HELD: Mutex<BTreeMap<i32, i32>> = Mutex::new(BTreeMap::new());

/// Thread `tid` waits at a gate of this process, and so does not stop for its tracer until it is let by.
pub(crate) fn is_held(tid: i32) -> bool {
    lock(&HELD).contains_key(&tid)
}

/// The same of a child of process `pid`, which may wait for it in vfork(2).
pub(crate) fn is_child_held(pid: i32) -> bool {
    lock(&HELD).values().any(|&parent| parent == pid)
}

#[derive(Debug)]
struct Answer {
    tid: i32,
    way: Way,
    fanotify: Arc<OwnedFd>,
    file: OwnedFd,
    is_given: AtomicBool,
    /// When it began to be seized, in ns since the gate began; 0: not yet. And by which thread.
    seized_ns: AtomicU64,
    seizer: AtomicI32,
    came: Instant,
    /// Until it is let by.
    hold: Mutex<Option<Hold>>,
}

impl Answer {
    fn give(&self) {
        if self.is_given.swap(true, SeqCst) {
            return;
        }
        let response = libc::fanotify_response { fd: self.file.as_raw_fd(), response: libc::FAN_ALLOW };
        // SAFETY: it reads the structure's bytes. It fails for a process that was killed meanwhile.
        unsafe {
            libc::write(self.fanotify.as_raw_fd(), (&raw const response).cast(), size_of_val(&response))
        };
        lock(&HELD).remove(&self.tid);
        lock(&self.hold).take();
    }

    fn is_seizer_running(&self) -> bool {
        let state = sys::stat(&format!("/proc/self/task/{}/stat", self.seizer.load(SeqCst)));
        self.way == Way::Executes && state.is_ok_and(|(state, _)| state == 'R')
    }

    /// When it is let by, whatever its state.
    fn due(&self, began: Instant) -> Instant {
        match self.seized_ns.load(SeqCst) {
            _ if self.way == Way::Opens => self.came + limits::ARRIVAL_WAIT_MAX,
            0 => self.came + limits::ARRIVAL_WAIT_MAX,
            at => began + Duration::from_nanos(at) + limits::SEIZE_WAIT_MAX,
        }
    }
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    arrivals: Mutex<Vec<Arrival>>,
    /// Rung when there are new ones.
    bell: EventFd,
    /// Rung to end the thread, or to have it look at its times anew.
    wake: EventFd,
    is_ending: AtomicBool,
    /// Those that are seized: what more they open does not concern the gate.
    seized: Mutex<BTreeSet<i32>>,
    /// Let by because nobody had time for them.
    late: AtomicU64,
}

/// Files whose users are held. Dropped, it lets all by.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Dropped last: until then the kernel holds who comes.
    _watched: WatchedGate,
}

impl Gate {
    /// A gate before these files. Errors are those of fanotify_init(2) and fanotify_mark(2): EPERM without CAP_SYS_ADMIN.
    pub fn before<'a>(files: impl Iterator<Item = &'a Binary>, is_meant: IsMeant) -> io::Result<Gate> {
        let flags = libc::FAN_CLASS_CONTENT
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS
            | libc::FAN_REPORT_TID;
        let event_flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE;
        // SAFETY: it takes integers alone.
        let fanotify = unsafe { libc::fanotify_init(flags, event_flags as u32) };
        if fanotify < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made it for us.
        let fanotify = unsafe { OwnedFd::from_raw_fd(fanotify) };
        for file in files {
            mark(&fanotify, file.path(), is_program(file))?;
        }
        let event = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let shared = Arc::new(Shared {
            began: Instant::now(),
            arrivals: Mutex::default(),
            bell: event()?,
            wake: event()?,
            is_ending: AtomicBool::new(false),
            seized: Mutex::default(),
            late: AtomicU64::new(0),
        });
        let (of_thread, _watched) = (shared.clone(), WatchedGate::watch(&fanotify));
        let thread = thread::Builder::new()
            .name("weir-gate".into())
            .spawn(move || keep(&of_thread, &Arc::new(fanotify), &is_meant))?;
        Ok(Gate { shared, thread: Some(thread), _watched })
    }

    /// A descriptor that is readable when somebody has come.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Those that have come and are held.
    pub fn arrivals(&self) -> Vec<Arrival> {
        // Fails where it has not rung.
        let _ = self.shared.bell.read();
        mem::take(&mut *lock(&self.shared.arrivals))
    }

    /// How many were meant, and let by because nobody had time for them.
    pub fn late(&self) -> u64 {
        self.shared.late.load(SeqCst)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, SeqCst);
        let _ = self.shared.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// It is executed, and not loaded by others.
pub fn is_program(file: &Binary) -> bool {
    file.soname().is_none() && (file.interpreter().is_some() || !file.is_position_independent())
}

fn mark(fanotify: &OwnedFd, path: &Path, is_program: bool) -> io::Result<()> {
    let mask = if is_program { libc::FAN_OPEN_EXEC_PERM } else { libc::FAN_OPEN_PERM };
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is NUL-terminated and lives during the call.
    let marked = unsafe {
        libc::fanotify_mark(fanotify.as_raw_fd(), libc::FAN_MARK_ADD, mask, libc::AT_FDCWD, path.as_ptr())
    };
    if marked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The gate's thread: lets by who is not meant, and who has waited for too long.
fn keep(shared: &Arc<Shared>, fanotify: &Arc<OwnedFd>, is_meant: &IsMeant) {
    let mut held: Vec<Arc<Answer>> = Vec::new();
    while !shared.is_ending.load(SeqCst) {
        held.retain(|answer| !answer.is_given.load(SeqCst));
        let now = Instant::now();
        for answer in held.iter().filter(|answer| answer.due(shared.began) <= now) {
            if answer.seized_ns.load(SeqCst) == 0 {
                shared.late.fetch_add(1, SeqCst);
            } else if answer.is_seizer_running() {
                // It waits for a CPU, and for no lock.
                answer.seized_ns.store(shared.began.elapsed().as_nanos() as u64, SeqCst);
                continue;
            }
            answer.give();
        }
        let due = held.iter().filter(|answer| !answer.is_given.load(SeqCst)).map(|a| a.due(shared.began));
        let wait = due.min().map(|due| due.saturating_duration_since(now) + Duration::from_micros(999));
        let timeout =
            wait.map_or(PollTimeout::NONE, |wait| PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO));
        let mut watched = [
            PollFd::new(fanotify.as_fd(), PollFlags::POLLIN),
            PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN),
        ];
        // An interrupted wait is one that ends early.
        let _ = poll(&mut watched, timeout);
        let _ = shared.wake.read();
        for (tid, way, file) in events(fanotify) {
            let (is_given, seized_ns, seizer) =
                (AtomicBool::new(false), AtomicU64::new(0), AtomicI32::new(0));
            let (fanotify, came) = (fanotify.clone(), Instant::now());
            let answer = Arc::new(Answer {
                tid,
                way,
                fanotify,
                file,
                is_given,
                seized_ns,
                seizer,
                came,
                hold: Mutex::default(),
            });
            // One that another thread than the main one executes gets another number on the way.
            let is_main = number(tid, "Tgid") == Some(tid);
            if !is_main || lock(&shared.seized).contains(&tid) || !is_meant(tid, way) {
                answer.give();
                continue;
            }
            lock(&HELD).insert(tid, number(tid, "PPid").unwrap_or(0));
            *lock(&answer.hold) = Some(Hold::begin_patient(limits::ARRIVAL_WAIT_STOPPED_MAX));
            held.push(answer.clone());
            lock(&shared.arrivals).push(Arrival { pid: tid, way, answer, shared: shared.clone() });
            let _ = shared.bell.write(1);
        }
    }
    // What is left in the queue is let by when the descriptor is closed.
    lock(&shared.arrivals).clear();
    held.iter().for_each(|answer| answer.give());
}

fn number(tid: i32, field: &str) -> Option<i32> {
    sys::status_field(tid, field).ok()??.parse().ok()
}

/// What waits in the queue: thread, way, and the file.
fn events(fanotify: &OwnedFd) -> Vec<(i32, Way, OwnedFd)> {
    const METADATA: usize = size_of::<libc::fanotify_event_metadata>();
    let mut found = Vec::new();
    let mut bytes = [0u64; 512];
    // SAFETY: the kernel writes at most the size of `bytes`.
    let read = unsafe { libc::read(fanotify.as_raw_fd(), bytes.as_mut_ptr().cast(), size_of_val(&bytes)) };
    let mut rest = usize::try_from(read).unwrap_or(0);
    let mut at = 0;
    while rest >= METADATA {
        // SAFETY: so many bytes were written there, and every bit pattern is a valid value of this plain structure.
        let event: libc::fanotify_event_metadata = unsafe {
            bytes.as_ptr().cast::<u8>().add(at).cast::<libc::fanotify_event_metadata>().read_unaligned()
        };
        let length = event.event_len as usize;
        if length < METADATA || length > rest {
            break;
        }
        if event.fd >= 0 {
            // SAFETY: the kernel just made it for us.
            let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
            let way = if event.mask & libc::FAN_OPEN_EXEC_PERM != 0 { Way::Executes } else { Way::Opens };
            found.push((event.pid, way, file));
        }
        (at, rest) = (at + length, rest - length);
    }
    found
}

impl Arrival {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn way(&self) -> Way {
        self.way
    }

    /// Lets it by, and stops it before its own code runs. `None` if there is nothing to hold (its execve(2) fails, or it opens the file for
    /// itself), or it got away, which is counted ([`Gate::late`]). By the thread that is to attach to it.
    pub fn hold(self) -> Option<Exec> {
        // It waited for too long, and was counted.
        if self.answer.is_given.load(SeqCst) {
            return None;
        }
        let _urgent = Urgent::begin();
        // A call that its filter does not know would kill it.
        let held = match sys::has_seccomp(self.pid) {
            true => Held::GotAway,
            false => {
                lock(&self.shared.seized).insert(self.pid);
                let held = self.seize();
                lock(&self.shared.seized).remove(&self.pid);
                held
            }
        };
        match held {
            Held::At(point) => Some(Exec::of(self.pid, point)),
            Held::Nothing => None,
            Held::GotAway => {
                self.shared.late.fetch_add(1, SeqCst);
                None
            }
        }
    }

    fn seize(&self) -> Held {
        let (pid, thread) = (self.pid, Pid::from_raw(self.pid));
        self.answer.seizer.store(gettid().as_raw(), SeqCst);
        self.answer.seized_ns.store(self.shared.began.elapsed().as_nanos() as u64 + 1, SeqCst);
        let _ = self.shared.wake.write(1);
        let options = ptrace::Options::PTRACE_O_TRACEEXEC | ptrace::Options::PTRACE_O_TRACESYSGOOD;
        // A stop that was begun before it came here has given up on it: it was interrupted, and stops when its call is over.
        let is_late = stop::take_over(pid);
        if !is_late && ptrace::seize(thread, options).is_err() {
            return Held::GotAway;
        }
        // It has been let by while it was seized: its execve(2) may be over, and its loader at work.
        let is_let_by = !is_late && self.answer.is_given.load(SeqCst);
        let is_interrupted = is_late || is_let_by || self.way == Way::Opens;
        if is_interrupted && !is_late {
            let _ = ptrace::interrupt(thread);
        }
        self.answer.give();
        let start = Instant::now();
        while start.elapsed() < limits::ARRIVAL_STOP_MAX {
            match sys::wait(pid, false, sys::is_own_child(pid)) {
                Ok(None) => thread::sleep(POLL),
                // It has run to its end, or was killed before it ran.
                Ok(Some(Event::Ended)) | Err(_) if is_let_by => return Held::GotAway,
                Ok(Some(Event::Ended)) | Err(_) => return Held::Nothing,
                Ok(Some(Event::Other)) if self.way == Way::Executes => return Held::At(Point::Exec),
                Ok(Some(Event::Interrupted)) if is_interrupted => {
                    // A loader sets fs when all is mapped.
                    if ptrace::getregs(thread).is_ok_and(|registers| registers.fs_base == 0) {
                        return Held::At(Point::Loading);
                    }
                    break;
                }
                Ok(Some(Event::GroupStop)) => break,
                Ok(Some(event)) => {
                    let signal = if let Event::Signal(signal) = event { signal } else { 0 };
                    let _ = sys::go_on(libc::PTRACE_CONT, pid, signal);
                    if is_interrupted {
                        let _ = ptrace::interrupt(thread);
                    }
                }
            }
        }
        stop::let_go_soon(pid);
        let has_got_away = match self.way {
            Way::Executes => is_let_by || self.is_executed(),
            Way::Opens => is_let_by,
        };
        if has_got_away { Held::GotAway } else { Held::Nothing }
    }

    /// The file is the program that the process has by now.
    fn is_executed(&self) -> bool {
        let of_process = fs::metadata(format!("/proc/{}/exe", self.pid));
        let file = fs::metadata(format!("/proc/self/fd/{}", self.answer.file.as_raw_fd()));
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        of_process.ok().map(identity).is_some_and(|of| file.ok().map(identity) == Some(of))
    }
}

/// What became of one that is held.
enum Held {
    /// It has stopped, and nothing of its own has run.
    At(Point),
    Nothing,
    GotAway,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.answer.give();
    }
}
