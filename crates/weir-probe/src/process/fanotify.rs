//! Permission events of fanotify(7): stops a process before it runs code of a file that is probed.
//!
//! In: the probed files, and a function that says which processes are in scope. Out: a [`PermissionEvent`] for each process in scope that
//! the kernel blocks in execve(2) or openat(2) of such a file. [`PermissionEvent::hold`] lets the call continue and stops the process
//! before its own code runs, in the state of a command that weir starts ([`crate::process::launch`]).
//!
//! One thread answers the events. It allows the call of a process out of scope at once, and any other call after
//! [`limits::PERMISSION_WAIT_MAX`]. If this process dies, the kernel allows all pending calls.
//!
//! PTRACE_SEIZE needs a lock that execve(2) holds while it opens the interpreter of a `#!` script (before Linux 6.8: any program). The thread
//! therefore allows an execve(2) after [`limits::SEIZE_WAIT_MAX`] of seizing. That process may start unprobed, and
//! [`PermissionGroup::not_held`] counts it.
//!
//! Needs CAP_SYS_ADMIN. Not covered: programs in a memfd, copies of a file, and files that replace it later.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::libc::{self, fanotify_event_metadata};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::ptrace;
use nix::unistd::{Pid, gettid};
use weir_symbols::Binary;

use crate::limits;
use crate::process::blocked;
use crate::process::isa::native::registers::Registers;
use crate::process::launch::{Exec, Point};
use crate::process::stop;
use crate::process::sys::{self, Event, Urgent};
use crate::process::watchdog::{Hold, WatchedGroup};

/// How long the end of a group waits for a call that was on its way when the files were unmarked.
const LAST_LOOK_MS: u8 = 1;

/// How often a seized process is polled until it stops.
const POLL: Duration = Duration::from_micros(20);

/// The call that the kernel blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// execve(2) of the file, or of a script that names it as its interpreter.
    Execute,
    /// open(2), as a dynamic loader does before it maps the file.
    Open,
}

/// Whether a process is in scope. The thread that answers the events calls it.
pub type InScope = Box<dyn Fn(i32, Access) -> bool + Send>;

/// A fanotify group with permission events for some files. When it is dropped, the kernel allows all pending calls.
#[derive(Debug)]
pub struct PermissionGroup {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    group: Arc<OwnedFd>,
    /// Dropped last: the kernel blocks calls while the watchdog has its copy of the group.
    _watched: WatchedGroup,
}

/// A process in scope that the kernel blocks. When it is dropped, its call is allowed.
#[derive(Debug)]
pub struct PermissionEvent {
    pid: i32,
    access: Access,
    response: Arc<Response>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    events: Mutex<Vec<PermissionEvent>>,
    /// Readable when `events` has a new one.
    has_events: EventFd,
    /// Ends the poll of the answering thread.
    wake: EventFd,
    is_ending: AtomicBool,
    /// Processes that are being seized. They may open more files of the group meanwhile.
    seized: Mutex<BTreeSet<i32>>,
    not_held: AtomicU64,
}

impl Shared {
    fn new() -> io::Result<Shared> {
        let event = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        Ok(Shared {
            events: Mutex::default(),
            has_events: event()?,
            wake: event()?,
            is_ending: AtomicBool::new(false),
            seized: Mutex::default(),
            not_held: AtomicU64::new(0),
        })
    }
}

impl PermissionGroup {
    /// Errors are those of fanotify_init(2) and fanotify_mark(2): EPERM without CAP_SYS_ADMIN.
    pub fn mark<'a>(
        files: impl Iterator<Item = &'a Binary>,
        in_scope: InScope,
    ) -> io::Result<PermissionGroup> {
        let group = Arc::new(init()?);
        let marked = PermissionGroup::answered(&group, files, in_scope);
        marked.inspect_err(|_| unmark_all(&group))
    }

    fn answered<'a>(
        group: &Arc<OwnedFd>,
        files: impl Iterator<Item = &'a Binary>,
        in_scope: InScope,
    ) -> io::Result<PermissionGroup> {
        for file in files {
            mark(group, file.path(), is_program(file))?;
        }
        let shared = Arc::new(Shared::new()?);
        let (of_thread, of_group, _watched) = (shared.clone(), group.clone(), WatchedGroup::watch(group));
        let thread = thread::Builder::new()
            .name("weir-fanotify".into())
            .spawn(move || answer(&of_thread, &of_group, &in_scope))?;
        Ok(PermissionGroup { shared, thread: Some(thread), group: group.clone(), _watched })
    }

    /// One more file.
    pub fn add(&self, file: &Binary) -> io::Result<()> {
        mark(&self.group, file.path(), is_program(file))
    }

    /// A descriptor that is readable when there are new events.
    pub fn has_events(&self) -> BorrowedFd<'_> {
        self.shared.has_events.as_fd()
    }

    /// The events since the last call.
    pub fn events(&self) -> Vec<PermissionEvent> {
        // Fails where nothing was written to it.
        let _ = self.shared.has_events.read();
        mem::take(&mut *lock(&self.shared.events))
    }

    /// How many processes in scope were allowed to go on without being held.
    pub fn not_held(&self) -> u64 {
        self.shared.not_held.load(SeqCst)
    }
}

impl Drop for PermissionGroup {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, SeqCst);
        let _ = self.shared.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The file is executed, and not loaded into other programs.
pub fn is_program(file: &Binary) -> bool {
    file.soname().is_none() && (file.interpreter().is_some() || !file.is_position_independent())
}

fn init() -> io::Result<OwnedFd> {
    let flags = libc::FAN_CLASS_CONTENT
        | libc::FAN_CLOEXEC
        | libc::FAN_NONBLOCK
        | libc::FAN_UNLIMITED_QUEUE
        | libc::FAN_UNLIMITED_MARKS
        | libc::FAN_REPORT_TID;
    let event_flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE;
    // SAFETY: it takes integers alone.
    let group = unsafe { libc::fanotify_init(flags, event_flags as u32) };
    if group < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(group) })
}

fn mark(group: &OwnedFd, path: &Path, is_program: bool) -> io::Result<()> {
    let mask = if is_program { libc::FAN_OPEN_EXEC_PERM } else { libc::FAN_OPEN_PERM };
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is NUL-terminated and lives during the call.
    let marked = unsafe {
        libc::fanotify_mark(group.as_raw_fd(), libc::FAN_MARK_ADD, mask, libc::AT_FDCWD, path.as_ptr())
    };
    if marked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The thread that answers the events.
fn answer(shared: &Arc<Shared>, group: &Arc<OwnedFd>, in_scope: &InScope) {
    let mut pending: Vec<Arc<Response>> = Vec::new();
    while !shared.is_ending.load(SeqCst) {
        let now = Instant::now();
        for response in &pending {
            if response.deadline().is_some_and(|deadline| deadline <= now) {
                response.expire(&shared.not_held);
            }
        }
        pending.retain(|response| response.deadline().is_some());
        let wait = pending.iter().filter_map(|response| response.deadline()).min();
        let wait = wait.map(|deadline| deadline.saturating_duration_since(now) + Duration::from_micros(999));
        let timeout =
            wait.map_or(PollTimeout::NONE, |wait| PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO));
        let mut polled = [
            PollFd::new(group.as_fd(), PollFlags::POLLIN),
            PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN),
        ];
        // An interrupted poll ends early, and no more.
        let _ = poll(&mut polled, timeout);
        let _ = shared.wake.read();
        for (pid, access, file) in read_events(group) {
            // execve(2) by another thread than the main one gives it the number of the main one meanwhile.
            let is_main = sys::status_number(pid, "Tgid") == Some(pid);
            let is_held = lock(&shared.seized).contains(&pid) || is_traced_here(pid);
            let is_meant = is_main && !is_held && in_scope(pid, access);
            // Each has a descriptor; where the kernel can make none, it denies the call.
            if is_meant && pending.len() >= limits::PERMISSIONS_PENDING_MAX {
                shared.not_held.fetch_add(1, SeqCst);
            }
            if !is_meant || pending.len() >= limits::PERMISSIONS_PENDING_MAX {
                allow(group, &file);
                continue;
            }
            let response = Arc::new(Response::pending(pid, access, Blocker::Own(group.clone(), file)));
            pending.push(response.clone());
            lock(&shared.events).push(PermissionEvent { pid, access, response, shared: shared.clone() });
            let _ = shared.has_events.write(1);
        }
    }
    // The kernel allows what is left in the queue when the group is closed; but others may have copies of its descriptor: a child of this process between
    // fork(2) and execve(2), which may itself be what is blocked, or the watchdog of another run.
    unmark_all(group);
    lock(&shared.events).clear();
    pending.iter().for_each(|response| response.allow());
    loop {
        let left = read_events(group);
        left.iter().for_each(|(_, _, file)| allow(group, file));
        let mut polled = [PollFd::new(group.as_fd(), PollFlags::POLLIN)];
        let has_more = poll(&mut polled, PollTimeout::from(LAST_LOOK_MS)).is_ok_and(|ready| ready > 0);
        if left.is_empty() && !has_more {
            return;
        }
    }
}

/// From now on no call is blocked that has not been.
fn unmark_all(group: &OwnedFd) {
    // SAFETY: it takes integers alone; the path may be null where all marks go.
    unsafe {
        libc::fanotify_mark(group.as_raw_fd(), libc::FAN_MARK_FLUSH, 0, libc::AT_FDCWD, std::ptr::null());
    }
}

/// What the queue has: process, access and file of each event.
fn read_events(group: &OwnedFd) -> Vec<(i32, Access, OwnedFd)> {
    let mut bytes = [0u64; 512];
    // SAFETY: the kernel writes at most the size of `bytes`.
    let read = unsafe { libc::read(group.as_raw_fd(), bytes.as_mut_ptr().cast(), size_of_val(&bytes)) };
    let events = blocked::metadata(&bytes, usize::try_from(read).unwrap_or(0)).filter(|event| event.fd >= 0);
    let event = |event: fanotify_event_metadata| {
        // SAFETY: the kernel just made this descriptor for us.
        let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
        let is_execute = event.mask & libc::FAN_OPEN_EXEC_PERM != 0;
        (event.pid, if is_execute { Access::Execute } else { Access::Open }, file)
    };
    events.map(event).collect()
}

fn allow(group: &OwnedFd, file: &OwnedFd) {
    let response = libc::fanotify_response { fd: file.as_raw_fd(), response: libc::FAN_ALLOW };
    // SAFETY: it reads the structure's bytes. It fails for a process that was killed meanwhile.
    unsafe { libc::write(group.as_raw_fd(), (&raw const response).cast(), size_of_val(&response)) };
}

/// Allows a call that another process keeps blocked.
pub type Allow = Box<dyn Fn() + Send + Sync>;

/// How the call is allowed.
enum Blocker {
    /// By this process: the group, and the file that the call opens.
    Own(Arc<OwnedFd>, OwnedFd),
    /// By another, which is asked.
    Other(Allow),
}

impl fmt::Debug for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::Own(group, file) => f.debug_tuple("Own").field(group).field(file).finish(),
            Blocker::Other(_) => f.write_str("Other"),
        }
    }
}

#[derive(Debug)]
struct Response {
    pid: i32,
    access: Access,
    blocker: Blocker,
    came: Instant,
    /// `None` once the call was allowed.
    state: Mutex<Option<Pending>>,
}

#[derive(Debug)]
struct Pending {
    /// Since when it is being seized, and by which thread.
    seizing: Option<(Instant, i32)>,
    _hold: Option<Hold>,
}

impl Response {
    fn pending(pid: i32, access: Access, blocker: Blocker) -> Response {
        blocked::begin(pid, sys::status_number(pid, "PPid").unwrap_or(0));
        let _hold = Hold::try_patient(limits::PERMISSION_WAIT_STOPPED_MAX);
        let state = Mutex::new(Some(Pending { seizing: None, _hold }));
        Response { pid, access, blocker, came: Instant::now(), state }
    }

    fn is_allowed(&self) -> bool {
        lock(&self.state).is_none()
    }

    fn begin_seizing(&self) {
        if let Some(pending) = &mut *lock(&self.state) {
            pending.seizing = Some((Instant::now(), gettid().as_raw()));
        }
    }

    /// When the call is allowed at the latest; `None` if it was.
    fn deadline(&self) -> Option<Instant> {
        Some(match lock(&self.state).as_ref()?.seizing {
            Some((since, _)) if self.access == Access::Execute => since + limits::SEIZE_WAIT_MAX,
            _ => self.came + limits::PERMISSION_WAIT_MAX,
        })
    }

    fn expire(&self, not_held: &AtomicU64) {
        if let Some(pending) = &mut *lock(&self.state) {
            match &mut pending.seizing {
                None => _ = not_held.fetch_add(1, SeqCst),
                // It waits for a CPU, not for the lock.
                Some((since, tracer)) if self.access == Access::Execute && is_running(*tracer) => {
                    *since = Instant::now();
                    return;
                }
                Some(_) => {}
            }
        }
        self.allow();
    }

    fn allow(&self) {
        let pending = lock(&self.state).take();
        if pending.is_some() {
            match &self.blocker {
                Blocker::Own(group, file) => allow(group, file),
                Blocker::Other(allow) => allow(),
            }
            blocked::end(self.pid);
        }
    }

    /// The process has executed the file.
    fn is_executed(&self) -> bool {
        let program = fs::metadata(format!("/proc/{}/exe", self.pid));
        let Blocker::Own(_, file) = &self.blocker else { return false };
        let file = fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        program.ok().map(identity).is_some_and(|program| file.ok().map(identity) == Some(program))
    }
}

/// A thread of this process has stopped it already, and waits for it to come to where its libraries are mapped.
fn is_traced_here(pid: i32) -> bool {
    let tracer = sys::status_number(pid, "TracerPid").filter(|tracer| *tracer > 0);
    tracer.is_some_and(|tracer| Path::new(&format!("/proc/self/task/{tracer}")).exists())
}

fn is_running(thread: i32) -> bool {
    sys::stat(&format!("/proc/self/task/{thread}/stat")).is_ok_and(|(state, _)| state == 'R')
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What [`PermissionEvent::hold`] achieved.
enum Outcome {
    /// The process has stopped, and none of its own code has run.
    Stopped(Point),
    /// Its execve(2) failed, or it opened the file for another purpose than to start.
    NotNeeded,
    Escaped,
}

impl PermissionEvent {
    /// An openat(2) of a library by a process that has not begun to run, which another process keeps blocked until `allow` is called.
    pub fn elsewhere(pid: i32, allow: Allow) -> io::Result<PermissionEvent> {
        let response = Arc::new(Response::pending(pid, Access::Open, Blocker::Other(allow)));
        Ok(PermissionEvent { pid, access: Access::Open, response, shared: Arc::new(Shared::new()?) })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Allows the call and stops the process before its own code runs. `None` if nothing needs to be stopped, or if the process escaped,
    /// which [`PermissionGroup::not_held`] counts. The calling thread becomes its tracer.
    pub fn hold(self) -> Option<Exec> {
        // It waited for too long, and was counted.
        if self.response.is_allowed() {
            return None;
        }
        let _urgent = Urgent::begin();
        // A seccomp filter may kill the process for the calls that weir would make in it.
        let outcome = if sys::has_seccomp(self.pid) { Outcome::Escaped } else { self.seize() };
        match outcome {
            Outcome::Stopped(point) => Some(Exec::of(self.pid, point)),
            Outcome::NotNeeded => None,
            Outcome::Escaped => {
                self.shared.not_held.fetch_add(1, SeqCst);
                None
            }
        }
    }

    fn seize(&self) -> Outcome {
        lock(&self.shared.seized).insert(self.pid);
        let outcome = self.seize_and_wait();
        lock(&self.shared.seized).remove(&self.pid);
        outcome
    }

    fn seize_and_wait(&self) -> Outcome {
        let (pid, thread) = (self.pid, Pid::from_raw(self.pid));
        // Whoever takes it over holds it by itself.
        let _hold = Hold::begin_patient(limits::EXEC_HOLD_MAX);
        self.response.begin_seizing();
        let _ = self.shared.wake.write(1);
        let options = ptrace::Options::PTRACE_O_TRACEEXEC | ptrace::Options::PTRACE_O_TRACESYSGOOD;
        // This thread may have seized and interrupted it before its call, and given up. Then it stops when the call is over.
        let is_seized = stop::take_over(pid);
        if !is_seized && ptrace::seize(thread, options).is_err() {
            return Outcome::Escaped;
        }
        // The call was allowed while the process was seized, so execve(2) may be over.
        let is_late = !is_seized && self.response.is_allowed();
        let mut is_interrupted = is_seized || is_late || self.access == Access::Open;
        if is_interrupted && !is_seized {
            let _ = ptrace::interrupt(thread);
        }
        self.response.allow();
        let (start, is_child) = (Instant::now(), sys::is_own_child(pid));
        let mut until = limits::EXEC_STOP_MAX;
        loop {
            if start.elapsed() >= until {
                // It waits for a CPU: until it has one. Else its call may have failed, which is seen where it stops then.
                let is_elsewhere = matches!(self.response.blocker, Blocker::Other(_));
                // Another process has not allowed its call yet.
                let may_be = |state: char| state == 'R' || state == 'D' && is_elsewhere;
                let waits = sys::stat(&format!("/proc/{pid}/stat")).is_ok_and(|(state, _)| may_be(state));
                if start.elapsed() >= limits::EXEC_HOLD_MAX || is_interrupted && !waits {
                    break;
                }
                if !is_interrupted {
                    let _ = ptrace::interrupt(thread);
                    is_interrupted = true;
                }
                until += limits::EXEC_STOP_MAX;
            }
            match sys::wait(pid, false, is_child) {
                Ok(None) => thread::sleep(POLL),
                // It ran to its end, or it was killed before it ran.
                Ok(Some(Event::Ended)) | Err(_) if is_late => return Outcome::Escaped,
                Ok(Some(Event::Ended)) | Err(_) => return Outcome::NotNeeded,
                Ok(Some(Event::Other)) if self.access == Access::Execute => {
                    return Outcome::Stopped(Point::Exec);
                }
                Ok(Some(Event::Interrupted)) if is_interrupted => {
                    // A dynamic loader sets fs when all libraries are mapped.
                    if ptrace::getregs(thread)
                        .is_ok_and(|registers| Registers::from(registers).thread_pointer() == 0)
                    {
                        return Outcome::Stopped(Point::Loading);
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
        let has_executed = self.access == Access::Execute && self.response.is_executed();
        let is_unknown = start.elapsed() >= until;
        if is_late || has_executed || is_unknown { Outcome::Escaped } else { Outcome::NotNeeded }
    }
}

impl Drop for PermissionEvent {
    fn drop(&mut self) {
        self.response.allow();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lengths: &[u32], length: usize) -> Vec<i32> {
        let mut bytes = [0u64; 64];
        let mut at = 0;
        for (pid, &event_len) in lengths.iter().enumerate() {
            // SAFETY: all zero it is a valid value of this plain structure.
            let mut event: fanotify_event_metadata = unsafe { mem::zeroed() };
            (event.event_len, event.pid) = (event_len, pid as i32 + 1);
            // SAFETY: `bytes` has room for all that tests write.
            unsafe {
                bytes.as_mut_ptr().byte_add(at).cast::<fanotify_event_metadata>().write_unaligned(event)
            };
            at += event_len as usize;
        }
        blocked::metadata(&bytes, length).map(|event| event.pid).collect()
    }

    #[test]
    fn events_are_read_to_the_last_whole_one() {
        assert_eq!(written(&[24, 24], 48), [1, 2]);
        assert_eq!(written(&[24, 24], 47), [1]);
        assert_eq!(written(&[40, 24], 64), [1, 2]);
        assert_eq!(written(&[24], 0), []);
        // A length that leads nowhere ends it.
        assert_eq!(written(&[u32::MAX], 512), [1]);
    }
}
