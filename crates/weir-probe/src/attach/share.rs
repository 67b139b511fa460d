//! Maps weir's memory into a stopped target, by remote calls: the segment, and room for generated code.
//!
//! In: a target, the layout of its segment, code that was generated for it. Out: the segment with its address, the files
//! of the code. Each is a memfd that the target makes and weir takes a descriptor of, so that it needs no path and
//! no permission of a file system; the target's own descriptor is closed again. Code is written to its file later,
//! while the target runs: nothing leads there yet.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nix::libc;
use weir_rt::segment::{Identity, Place as SegmentPlace, Segment, SegmentLayout};

use crate::attach::Generated;
use crate::attach::restore;
use crate::code::island::{Place, Stubs};
use crate::process::mapped::{CODE_NAME, OUTPOST_NAME, RECORDS_NAME, SEGMENT_NAME};
use crate::process::remote::{Borrowed, hold_callable};
use crate::process::scan;
use crate::process::stop::Stopped;
use crate::process::sys;
use crate::process::target::Target;
use crate::refusal::Error;

const PAGE: u64 = 4096;

/// The segment, and where it stands in the target.
pub(crate) fn share_segment(
    target: &mut Target,
    layout: SegmentLayout,
    identity: &Identity,
) -> Result<(Segment, u64), Error> {
    if let Some(traced) = scan::probed(target.pid)? {
        // A fork child has its parent's segment, but runs unprobed.
        if traced.controller_alive && !traced.is_inherited() {
            let (session, controller) = (traced.identity.session, traced.identity.controller_pid);
            return Err(Error::AlreadyProbed { pid: target.pid, session, controller });
        }
        restore::restore(target)?;
    }
    let stopped = target.stop()?;
    target.refresh()?;
    let mut stopped = hold_callable(target, stopped, Target::stop)?;
    let bytes = layout.bytes;
    let mut remote = Borrowed::new(&mut stopped, target)?;
    let (segment, address) = with_memfd(target, &mut remote, SEGMENT_NAME, |remote, remote_fd, fd| {
        let segment = Segment::create(fd, layout, identity)
            .map_err(|source| Error::system("making the segment", source))?;
        let (protection, flags) = ((libc::PROT_READ | libc::PROT_WRITE) as u64, libc::MAP_SHARED as u64);
        let address = remote.call("mmap", libc::SYS_mmap, [0, bytes, protection, flags, remote_fd, 0])?;
        Ok((segment, address))
    })?;
    let has_tsc = may_read_tsc(target, &mut remote)?;
    remote.finish()?;
    target.has_tsc = has_tsc;
    segment.set_place(&SegmentPlace { segment_address: address, gate_address: 0, islands: Vec::new() });
    // A launched command must not run before it is armed.
    if target.launched {
        target.held = Some(stopped);
    } else {
        target.resume(stopped);
    }
    Ok((segment, address))
}

/// Whether the borrowed thread may read the time stamp counter; its children inherit that.
fn may_read_tsc(target: &Target, remote: &mut Borrowed) -> Result<bool, Error> {
    let at = remote.put(&[0; 8])?;
    remote.call("prctl", libc::SYS_prctl, [libc::PR_GET_TSC as u64, at, 0, 0, 0, 0])?;
    let answer = target.memory.read_u64(at).map_err(|e| Error::system("reading an answer of prctl", e))?;
    Ok(answer as u32 != libc::PR_TSC_SIGSEGV as u32)
}

/// The files of generated code, mapped in the target and empty at first.
pub(crate) struct CodeFiles {
    islands: Option<File>,
    pub(crate) outposts: Option<Arc<File>>,
    /// Sites whose outposts the target has no room for after all.
    pub(crate) unmapped: Vec<usize>,
}

impl CodeFiles {
    /// Writes the code, while the target runs: nothing leads there yet.
    pub(crate) fn fill(&self, code: &Generated) -> Result<(), Error> {
        let Generated { places, images, stubs, outposts, .. } = code;
        let failed = |source| Error::system("writing generated code", source);
        let mut offset = 0;
        for (place, image) in places.iter().zip(images) {
            let file = self.islands.as_ref().expect("islands have a file");
            file.write_all_at(&image.bytes, offset).map_err(failed)?;
            offset += place.bytes - PAGE;
        }
        if let (Some(stubs), Some(file)) = (stubs, &self.islands) {
            file.write_all_at(&stubs.image, offset).map_err(failed)?;
        }
        offset = 0;
        for outpost in outposts {
            let file = self.outposts.as_ref().expect("outposts have a file");
            file.write_all_at(&outpost.bytes, offset).map_err(failed)?;
            offset += outpost.bytes.len() as u64;
        }
        Ok(())
    }
}

/// Maps room for the generated code, and the gate pages, into the stopped target.
pub(crate) fn map_islands(
    target: &Target,
    stopped: &mut Stopped,
    code: &Generated,
) -> Result<CodeFiles, Error> {
    let Generated { places, stubs, outposts, .. } = code;
    let mut files = CodeFiles { islands: None, outposts: None, unmapped: Vec::new() };
    if places.is_empty() {
        return Ok(files);
    }
    let mut remote = Borrowed::new(stopped, target)?;
    let islands = with_memfd(target, &mut remote, CODE_NAME, |remote, remote_fd, fd| {
        let file = File::from(fd);
        let stub_bytes = stubs.as_ref().map_or(0, |stubs| stubs.range().end - stubs.range().start);
        resize(&file, places.iter().map(|place| place.bytes - PAGE).sum::<u64>() + stub_bytes)?;
        let mut offset = 0;
        for place in places {
            map_island(remote, place, remote_fd, offset)?;
            offset += place.bytes - PAGE;
        }
        if let Some(stubs) = stubs {
            map_code(remote, stubs.range().start, stub_bytes, remote_fd, offset)?;
        }
        Ok(file)
    })?;
    files.islands = Some(islands);
    if let Some(stubs) = stubs {
        with_memfd(target, &mut remote, RECORDS_NAME, |remote, remote_fd, fd| {
            map_records(remote, stubs, &File::from(fd), remote_fd)
        })?;
    }
    if !outposts.is_empty() {
        let unmapped = &mut files.unmapped;
        let outposts = with_memfd(target, &mut remote, OUTPOST_NAME, |remote, remote_fd, fd| {
            let file = File::from(fd);
            resize(&file, outposts.iter().map(|outpost| outpost.bytes.len() as u64).sum())?;
            let mut offset = 0;
            for outpost in outposts {
                let length = outpost.bytes.len() as u64;
                // The target may have mapped something there meanwhile.
                if map_code(remote, outpost.address, length, remote_fd, offset).is_err() {
                    unmapped.extend(&outpost.sites);
                }
                offset += length;
            }
            Ok(file)
        })?;
        files.outposts = Some(Arc::new(outposts));
    }
    remote.finish()?;
    Ok(files)
}

fn resize(file: &File, bytes: u64) -> Result<(), Error> {
    file.set_len(bytes).map_err(|source| Error::system("making room for generated code", source))
}

/// Whole pages of code at a fixed address, from `offset` of the memfd on.
fn map_code(
    remote: &mut Borrowed,
    address: u64,
    length: u64,
    remote_fd: u64,
    offset: u64,
) -> Result<(), Error> {
    let execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let shared = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
    remote.call("mmap", libc::SYS_mmap, [address, length, execute, shared, remote_fd, offset]).map(|_| ())
}

/// The records of replaced return addresses: private, so that fork children have their own.
fn map_records(remote: &mut Borrowed, stubs: &Stubs, file: &File, remote_fd: u64) -> Result<(), Error> {
    let records = stubs.records();
    let length = records.end - records.start;
    let first = stubs.table.first_record();
    let written = file.set_len(length).and_then(|()| file.write_all_at(&first, 0));
    written.map_err(|source| Error::system("writing the first record", source))?;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let private = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
    remote
        .call("mmap", libc::SYS_mmap, [records.start, length, protection, private, remote_fd, 0])
        .map(|_| ())
}

/// One island: its code from `offset` of the memfd on, and its gate page.
fn map_island(remote: &mut Borrowed, place: &Place, remote_fd: u64, offset: u64) -> Result<(), Error> {
    map_code(remote, place.address, place.bytes - PAGE, remote_fd, offset)?;
    let fixed = libc::MAP_FIXED_NOREPLACE as u64;
    let data = libc::PROT_READ | libc::PROT_WRITE;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64 | fixed;
    remote.call("mmap", libc::SYS_mmap, [place.gate(), PAGE, data as u64, private, u64::MAX, 0])?;
    let wipe = libc::MADV_WIPEONFORK as u64;
    remote.call("madvise", libc::SYS_madvise, [place.gate(), PAGE, wipe, 0, 0, 0])?;
    Ok(())
}

/// Makes an empty memfd in the target, and has `then` work with its number there and a descriptor of it here. The
/// target's own descriptor is closed again, whatever happens.
fn with_memfd<'a, T>(
    target: &Target,
    remote: &mut Borrowed<'a>,
    name: &str,
    then: impl FnOnce(&mut Borrowed<'a>, u64, OwnedFd) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    let text = remote.put(&text)?;
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let number = remote.call("memfd_create", libc::SYS_memfd_create, [text, flags, 0, 0, 0, 0])?;
    let done = take_fd(target, remote.tid(), number).and_then(|fd| then(remote, number, fd));
    let closed = remote.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0]);
    done.and_then(|value| closed.map(|_| value))
}

/// Descriptor `number` of the target, here.
fn take_fd(target: &Target, tid: i32, number: u64) -> Result<OwnedFd, Error> {
    if sys::living_thread(target.pid) == target.pid {
        return sys::pidfd_getfd(&target.pidfd, number as i32).map_err(|source| {
            Error::system(format!("pidfd_getfd({number}) of process {}", target.pid), source)
        });
    }
    // A pidfd means the main thread, and one that has ended has no descriptors.
    let path = format!("/proc/{tid}/fd/{number}");
    let opened = File::options().read(true).write(true).open(&path);
    opened.map(OwnedFd::from).map_err(|source| Error::system(format!("open({path})"), source))
}
