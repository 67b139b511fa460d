//! Calls of other processes that the kernel blocks until an event of fanotify(7) is answered: whose they are, and how events are read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::libc::fanotify_event_metadata;

/// Processes whose call is blocked, each with its parent.
static BLOCKED: Mutex<BTreeMap<i32, i32>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<i32, i32>> {
    BLOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event of a call of process `pid` has come.
pub(crate) fn begin(pid: i32, parent: i32) {
    all().insert(pid, parent);
}

/// It is answered.
pub(crate) fn end(pid: i32) {
    all().remove(&pid);
}

/// The kernel blocks process `pid` until this process answers, so a tracer of this process cannot stop it.
pub(crate) fn is_blocked(pid: i32) -> bool {
    all().contains_key(&pid)
}

/// The same of a child of process `pid`, which may wait for it in vfork(2).
pub(crate) fn is_child_blocked(pid: i32) -> bool {
    all().values().any(|&parent| parent == pid)
}

/// The events in the first `length` bytes of what read(2) returned. Allocates nothing and calls nothing, as the watchdog needs it.
pub(super) fn metadata(bytes: &[u64], length: usize) -> impl Iterator<Item = fanotify_event_metadata> + '_ {
    const BYTES: usize = size_of::<fanotify_event_metadata>();
    let length = length.min(size_of_val(bytes));
    let mut at = 0;
    std::iter::from_fn(move || {
        if length - at < BYTES {
            return None;
        }
        // SAFETY: so many bytes of `bytes` begin there, and every bit pattern is a valid value of this plain structure.
        let event: fanotify_event_metadata =
            unsafe { bytes.as_ptr().byte_add(at).cast::<fanotify_event_metadata>().read_unaligned() };
        let next = at + (event.event_len as usize).max(BYTES);
        at = next.min(length);
        Some(event)
    })
}
