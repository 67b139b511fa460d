//! Maps weir's memory into a stopped target, by remote calls: its own segment, the session's maps ([`super::lend`]), and
//! room for generated code.
//!
//! In: a target, the layout of its segment, maps, code that was generated for it. Out: the segment, addresses, the files
//! of the code. But for the maps, each is a memfd that the target makes and weir takes a descriptor of, so that it needs no path and
//! no permission of a file system; the target's own descriptor is closed again. Code is written to its file later,
//! while the target runs: nothing leads there yet.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::libc;
use weir_rt::segment::{Identity, Place as SegmentPlace, Segment, SegmentLayout};
use weir_trampoline::island::{Place, Stubs};

use crate::attach::generate::Generated;
use crate::attach::gone;
use crate::attach::lend::{allocate, lend};
use crate::attach::request::TakenOver;
use crate::attach::restore;
use crate::process::descriptors::take_fd;
use crate::process::isa::native::remote::{Borrowed, hold_callable};
use crate::process::mapped::{CODE_NAME, OUTPOST_NAME, RECORDS_NAME, SEGMENT_NAME};
use crate::process::scan::{self, Probed};
use crate::process::stop::Stopped;
use crate::process::target::Target;
use crate::refusal::Error;

/// The segments that a target has mapped.
pub(crate) struct Shared {
    /// The target's own.
    pub(crate) control: Segment,
    /// Where that is in the target, and where the session's maps are.
    pub(crate) control_address: u64,
    pub(crate) maps_address: u64,
    pub(crate) taken_over: Option<TakenOver>,
}

/// Makes the target's own segment, and lends it the maps.
pub(crate) fn share_segments(
    target: &mut Target,
    maps: &Segment,
    layout: SegmentLayout,
    identity: &Identity,
) -> Result<Shared, Error> {
    let (mut taken_over, mut is_changed) = (None, false);
    // What one maps that is held is known since it is.
    let found = match target.stays_held {
        true => scan::of(target.pid, &target.mappings)?,
        false => scan::all_in(target.pid)?,
    };
    check_versions(&found)?;
    if gone::is_in_target(target)? {
        let restored = restore::restore(target)?.restored;
        is_changed = true;
        // A fork child has its parent's segment, but runs unprobed.
        let is_gone = |probed: &&Probed| {
            let controller = probed.identity.controller_pid;
            !probed.controller_alive && !probed.is_inherited() && target.taken_from != Some(controller)
        };
        taken_over = found.iter().find(is_gone).map(|gone| {
            let controller_pid = gone.identity.controller_pid;
            TakenOver { controller_pid, restored }
        });
    }
    // Once for all targets of the session.
    maps.hold_lease().map_err(|source| Error::system("holding the lease of the maps", source))?;
    allocate(target, maps)?;
    let stopped = target.stop()?;
    if is_changed || !target.stays_held {
        target.refresh()?;
    }
    let mut stopped = hold_callable(target, stopped, Target::stop)?;
    // One may have come meanwhile.
    check_versions(&scan::of(target.pid, &target.mappings)?)?;
    let bytes = layout.bytes;
    let mut remote = Borrowed::new(&mut stopped, target)?;
    let has_tsc = may_read_tsc(target, &mut remote)?;
    let (control, control_address) =
        with_memfd(target, &mut remote, SEGMENT_NAME.into(), |remote, remote_fd, fd| {
            let segment = Segment::create(fd, layout, identity)
                .map_err(|source| Error::system("making the segment", source))?;
            let (protection, flags) = ((libc::PROT_READ | libc::PROT_WRITE) as u64, libc::MAP_SHARED as u64);
            let address = remote.call("mmap", libc::SYS_mmap, [0, bytes, protection, flags, remote_fd, 0])?;
            Ok((segment, address))
        })?;
    // Behind it: whoever finds maps in a process finds its own segment too, and what to do.
    let maps_address = match lend(target, &mut remote, maps) {
        Ok(address) => address,
        Err(error) => {
            // It has failed already; the next weir takes out what stays.
            let _ = remote.call("munmap", libc::SYS_munmap, [control_address, bytes, 0, 0, 0, 0]);
            control.leave_behind();
            return Err(error);
        }
    };
    let (segment_address, gate_address, islands) = (control_address, 0, Vec::new());
    control.set_place(&SegmentPlace {
        segment_address,
        maps_address,
        gate_address,
        islands,
        stubs: [0; 4],
        restorers: [0; 2],
    });
    // Where this attach ends here, the next takes it out, of this weir or another.
    remote.finish().and_then(|()| stopped.in_time()).inspect_err(|_| control.leave_behind())?;
    target.has_tsc = has_tsc;
    // A launched command must not run before it is armed.
    target.resume_between(stopped);
    Ok(Shared { control, control_address, maps_address, taken_over })
}

/// Refuses a process that a weir traces of which this one knows nothing.
fn check_versions(found: &[Probed]) -> Result<(), Error> {
    let is_unknown = |probed: &&Probed| {
        probed.other_version.is_some() && probed.controller_alive && !probed.is_inherited()
    };
    found.iter().find(is_unknown).map_or(Ok(()), |probed| Err(probed.is_taken()))
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
    outposts: Option<File>,
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
            offset += place.code_bytes();
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

/// Maps room for the generated code, and the gates, into the stopped target.
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
    let name = |kind: &str| target.maker.map_or_else(|| kind.into(), |maker| maker.name(kind));
    let mut remote = Borrowed::new(stopped, target)?;
    let islands = with_memfd(target, &mut remote, name(CODE_NAME), |remote, remote_fd, fd| {
        let file = File::from(fd);
        let stub_bytes = stubs.as_ref().map_or(0, |stubs| stubs.range().end - stubs.range().start);
        resize(&file, places.iter().map(|place| place.code_bytes()).sum::<u64>() + stub_bytes)?;
        let mut offset = 0;
        for place in places {
            map_island(remote, place, remote_fd, offset)?;
            offset += place.code_bytes();
        }
        if let Some(stubs) = stubs {
            map_code(remote, stubs.range().start, stub_bytes, remote_fd, offset)?;
        }
        Ok(file)
    })?;
    files.islands = Some(islands);
    if let Some(stubs) = stubs {
        with_memfd(target, &mut remote, name(RECORDS_NAME), |remote, remote_fd, fd| {
            map_records(remote, stubs, &File::from(fd), remote_fd)
        })?;
    }
    if !outposts.is_empty() {
        let unmapped = &mut files.unmapped;
        let outposts = with_memfd(target, &mut remote, name(OUTPOST_NAME), |remote, remote_fd, fd| {
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
        files.outposts = Some(outposts);
    }
    remote.finish()?;
    Ok(files)
}

fn resize(file: &File, bytes: u64) -> Result<(), Error> {
    file.set_len(bytes).map_err(|source| Error::system("making room for generated code", source))
}

/// Whole pages of code at a fixed address, from `offset` of the memfd on. Private: what is changed there later is not changed in forked
/// children, which do not have what it leads to.
fn map_code(
    remote: &mut Borrowed,
    address: u64,
    length: u64,
    remote_fd: u64,
    offset: u64,
) -> Result<(), Error> {
    let execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let private = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
    remote.call("mmap", libc::SYS_mmap, [address, length, execute, private, remote_fd, offset]).map(|_| ())
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

/// One island: its code from `offset` of the memfd on, and its gates.
fn map_island(remote: &mut Borrowed, place: &Place, remote_fd: u64, offset: u64) -> Result<(), Error> {
    map_code(remote, place.address, place.code_bytes(), remote_fd, offset)?;
    let fixed = libc::MAP_FIXED_NOREPLACE as u64;
    let data = libc::PROT_READ | libc::PROT_WRITE;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64 | fixed;
    remote.call(
        "mmap",
        libc::SYS_mmap,
        [place.gates(), place.gate_bytes, data as u64, private, u64::MAX, 0],
    )?;
    let wipe = libc::MADV_WIPEONFORK as u64;
    remote.call("madvise", libc::SYS_madvise, [place.gates(), place.gate_bytes, wipe, 0, 0, 0])?;
    Ok(())
}

/// Makes an empty memfd in the target, and has `then` work with its number there and a descriptor of it here. The
/// target's own descriptor is closed again, whatever happens.
fn with_memfd<'a, T>(
    target: &Target,
    remote: &mut Borrowed<'a>,
    name: String,
    then: impl FnOnce(&mut Borrowed<'a>, u64, OwnedFd) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut text = name.into_bytes();
    text.push(0);
    let text = remote.put(&text)?;
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let number = remote.call("memfd_create", libc::SYS_memfd_create, [text, flags, 0, 0, 0, 0])?;
    let done = take_fd(target, remote.tid(), number).and_then(|fd| then(remote, number, fd));
    let closed = remote.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0]);
    done.and_then(|value| closed.map(|_| value))
}
