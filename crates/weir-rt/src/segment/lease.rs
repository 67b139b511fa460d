//! The lease of a segment: a word that says that the controller lives, and that the kernel itself takes back.
//!
//! In: a segment. Out: a [`Lease`]; while it is held, the low half of the word at `header::LEASE` is not 0. Probes look at
//! it on every hit, and are inert where it is 0.
//!
//! The word is a robust futex (set_robust_list(2)) that a thread of the controller's own holds: it contains that thread's
//! id. However the thread ends, by exit, exec, a crash or SIGKILL of the process, the kernel walks its list and puts
//! `FUTEX_OWNER_DIED` in place of the id: bit 30, so the low half is 0. Nobody needs to be alive for that, nothing is
//! asked on a hit but one load, and no time needs to pass. List and nodes are private memory of the thread; only the word is
//! shared, `futex_offset` bytes away from its node.
//!
//! Guaranteed: the id whose low half would be 0 is not used. Deliberately not here: leases for hung or stopped controllers,
//! which live and may go on; nobody waits for the word.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use nix::libc;

use super::Mapping;
use crate::abi::header;

/// A segment's lease, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    holder: Holder,
}

impl Lease {
    /// # Errors
    /// Of the system call that makes the thread, or of set_robust_list where the kernel or a filter does not allow it.
    pub(crate) fn take(mapping: &Arc<Mapping>) -> io::Result<Lease> {
        let mut unfit = Vec::new();
        loop {
            let holder = Holder::start(mapping.clone())?;
            if is_fit(holder.tid) {
                holder.go_on.send(()).map_err(|_| io::ErrorKind::BrokenPipe)?;
                holder.is_held.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
                return Ok(Lease { holder });
            }
            // Kept until another thread has its id, so that it is another id.
            unfit.push(holder);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (ended, _) = channel();
        // The thread ends when nobody can send any more.
        self.holder.go_on = ended;
        if let Some(thread) = self.holder.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The low half says that somebody lives.
fn is_fit(tid: u32) -> bool {
    tid as u16 != 0
}

/// The thread that holds the word: it waits twice, for its id to be found fit, and for the end.
#[derive(Debug)]
struct Holder {
    tid: u32,
    go_on: Sender<()>,
    is_held: Receiver<io::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Holder {
    fn start(mapping: Arc<Mapping>) -> io::Result<Holder> {
        let ((go_on, told), (tell_tid, tid), (tell_held, is_held)) = (channel(), channel(), channel());
        let thread = thread::Builder::new().name("weir-lease".into()).spawn(move || {
            let own = nix::unistd::gettid().as_raw() as u32;
            if tell_tid.send(own).is_ok() && told.recv().is_ok() {
                hold(&mapping, own, &tell_held, &told);
            }
        })?;
        let tid = tid.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(Holder { tid, go_on, is_held, thread: Some(thread) })
    }
}

/// Holds the word from the moment that is told to the one when there is nobody left to hear from.
fn hold(mapping: &Mapping, tid: u32, tell: &Sender<io::Result<()>>, told: &Receiver<()>) {
    let word = mapping.word(header::LEASE as u64);
    let robust = match Robust::register(mapping.base() + header::LEASE as u64) {
        Ok(robust) => robust,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    word.store(tid.into(), Ordering::Release);
    let _ = tell.send(Ok(()));
    let _ = told.recv();
    word.store(0, Ordering::Release);
    robust.unregister();
}

/// `struct robust_list` and `struct robust_list_head` of linux/futex.h, with one entry.
#[derive(Debug)]
#[repr(C)]
struct Robust {
    first: *const libc::c_void,
    futex_offset: libc::c_long,
    pending: *const libc::c_void,
    /// The one entry: it leads back to the head.
    node: *const libc::c_void,
}

/// Bytes of the head alone.
const HEAD_BYTES: usize = 24;

impl Robust {
    /// The list of this thread, in place of the C library's, which is for mutexes that this thread has none of.
    fn register(word: u64) -> io::Result<Box<Robust>> {
        let mut robust = Box::new(Robust {
            first: std::ptr::null(),
            futex_offset: 0,
            pending: std::ptr::null(),
            node: std::ptr::null(),
        });
        let head = std::ptr::from_ref(&*robust).cast::<libc::c_void>();
        let node = std::ptr::from_ref(&robust.node).cast::<libc::c_void>();
        robust.node = head;
        robust.first = node;
        robust.futex_offset = word.wrapping_sub(node as u64) as libc::c_long;
        robust.set()?;
        Ok(robust)
    }

    /// Nothing is left to be taken back: to be called before the list is freed.
    fn unregister(mut self: Box<Robust>) {
        self.first = std::ptr::from_ref(&*self).cast();
        if self.set().is_err() {
            // The kernel may read it when the thread ends.
            Box::leak(self);
            return;
        }
        // SAFETY: a null head is what a thread begins with; the kernel reads nothing at its end then.
        let cleared = unsafe { libc::syscall(libc::SYS_set_robust_list, 0usize, HEAD_BYTES) };
        if cleared != 0 {
            Box::leak(self);
        }
    }

    fn set(&self) -> io::Result<()> {
        // SAFETY: the list stays where it is until `unregister` has taken it from the kernel, or the process has ended; the
        // kernel reads it, and writes the word it leads to, only where that holds this thread's id.
        let done = unsafe { libc::syscall(libc::SYS_set_robust_list, std::ptr::from_ref(self), HEAD_BYTES) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

const _: () = assert!(std::mem::offset_of!(Robust, node) == HEAD_BYTES);
const _: () = assert!(header::LEASE.is_multiple_of(8), "the futex is the word's low half");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Identity, Segment, SegmentLayout};

    #[test]
    fn an_id_that_would_look_dead_is_not_used() {
        assert!(!is_fit(0x10000) && !is_fit(0x3f0000));
        assert!(is_fit(1) && is_fit(0x1_0001) && is_fit(0xffff));
    }

    #[test]
    fn it_is_given_back_when_it_is_dropped() {
        let layout = SegmentLayout::plan(&[], 1).expect("within bounds");
        let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
        let word = || segment.mapping().word(header::LEASE as u64).load(Ordering::Acquire);
        assert_eq!(word(), 0);
        for _ in 0..3 {
            let lease = Lease::take(segment.mapping()).expect("a thread");
            assert_eq!(word(), u64::from(lease.holder.tid));
            drop(lease);
            assert_eq!(word(), 0);
        }
    }
}
