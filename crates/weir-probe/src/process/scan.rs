//! Which processes have weir's segment mapped, and what its header says of them.
//!
//! Reads `/proc` and the target's memory only; stops nothing. Headers are hostile input (the target can write
//! them): weir-rt parses them.

use std::fs;

use weir_rt::foreign::{self, Corrupt, ForeignHeader};
use weir_rt::segment::{Identity, JournalState};
use weir_symbols::maps::{self, Mapping};

use crate::process::mapped::is_segment;
use crate::process::sys::{self, Memory};
use crate::refusal::Error;

/// A process with weir's segment in it.
#[derive(Clone, Debug)]
pub struct Probed {
    pub pid: i32,
    /// The process's name.
    pub comm: String,
    pub identity: Identity,
    /// The weir that attached still runs.
    pub controller_alive: bool,
    /// Patches in the journal that are in force.
    pub probes: usize,
}

impl Probed {
    /// It was forked from a traced process: its text is patched, and its gates are closed.
    pub fn is_inherited(&self) -> bool {
        self.identity.target_pid != self.pid as u32
    }
}

/// All processes that weir traces, or has left traced. Those that may not be looked at are left out.
pub fn all() -> std::io::Result<Vec<Probed>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Ok(Some(probed)) = probed(pid) {
            found.push(probed);
        }
    }
    found.sort_by_key(|probed| probed.pid);
    Ok(found)
}

/// What weir has put into process `pid`, if anything.
pub fn probed(pid: i32) -> Result<Option<Probed>, Error> {
    let Ok(mappings) = maps::read(sys::living_thread(pid) as u32) else { return Ok(None) };
    let Some((header, bytes)) = header(pid, &mappings)? else { return Ok(None) };
    let identity = header.identity.clone();
    let controller_alive = is_alive(identity.controller_pid as i32, identity.controller_start);
    let journal = foreign::parse_journal(&bytes);
    let probes =
        journal.iter().filter(|entry| entry.state == JournalState::Applied && !entry.is_counter).count();
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
    Ok(Some(Probed { pid, comm, identity, controller_alive, probes }))
}

/// The segment's header and the bytes of its journal.
pub(crate) fn header(pid: i32, mappings: &[Mapping]) -> Result<Option<(ForeignHeader, Vec<u8>)>, Error> {
    let Some((mapping, header)) = segments(pid, mappings)?.into_iter().next() else { return Ok(None) };
    let header = header.map_err(|corrupt| Error::Corrupt { pid, detail: corrupt.to_string() })?;
    let memory = open(pid)?;
    let length = (u64::from(header.journal_capacity) * foreign::JOURNAL_ENTRY_BYTES as u64)
        .min(mapping.end.0 - mapping.start.0) as usize;
    let mut journal = vec![0; length];
    let at = mapping.start.0.saturating_add(header.journal_offset);
    memory.read(at, &mut journal).map_err(|source| Error::system("reading the journal", source))?;
    Ok(Some((header, journal)))
}

/// A segment, and what its header says.
pub(crate) type Segment<'a> = (&'a Mapping, Result<ForeignHeader, Corrupt>);

/// The segments through which process `pid` is traced: not those of processes that it traces itself, being a weir.
pub(crate) fn segments(pid: i32, mappings: &[Mapping]) -> Result<Vec<Segment<'_>>, Error> {
    const HEADER_BYTES: usize = 4096;
    let mut found = Vec::new();
    for mapping in mappings.iter().filter(|mapping| is_segment(mapping)) {
        let mut bytes = vec![0; HEADER_BYTES];
        let length = open(pid)?.read_some(mapping.start.0, &mut bytes).unwrap_or(0);
        found.push((mapping, foreign::parse_header(&bytes[..length])));
    }
    let is_controller = |identity: &Identity| {
        identity.controller_pid as i32 == pid && is_alive(pid, identity.controller_start)
    };
    found.retain(|(_, header)| !header.as_ref().is_ok_and(|header| is_controller(&header.identity)));
    Ok(found)
}

fn open(pid: i32) -> Result<Memory, Error> {
    Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))
}

/// The process still runs that had this id when it started at `start`.
fn is_alive(pid: i32, start: u64) -> bool {
    sys::stat(&format!("/proc/{pid}/stat")).is_ok_and(|(state, started)| state != 'Z' && started == start)
}

/// Start time of this process, in clock ticks since boot: with the pid, its identity.
pub fn own_start() -> u64 {
    sys::stat("/proc/self/stat").map_or(0, |(_, start)| start)
}
