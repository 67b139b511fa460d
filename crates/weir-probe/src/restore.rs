//! Undoes what a weir that is gone has left in a process.
//!
//! In: the segment that is still mapped there, whose journal says where text was changed. It is hostile: the target
//! may have written anything to it. So an address counts only if it lies in an executable mapping of a file, and
//! what is written back are the bytes of that file (text that differs from its file was never patched).

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use weir_rt::foreign;

use crate::refusal::Error;
use crate::scan;
use crate::target::{self, Target};
use crate::undo::{Patch, Report, Undo, is_segment};

/// Restores process `pid`: `weir detach -p PID`.
pub fn detach(pid: i32) -> Result<Report, Error> {
    target::check(pid)?;
    if scan::probed(pid)?.is_none() {
        return Err(Error::NotProbed { pid });
    }
    let mut target = Target::open(pid)?;
    restore(&mut target)
}

pub(crate) fn restore(target: &mut Target) -> Result<Report, Error> {
    let pid = target.pid;
    target.refresh()?;
    let Some((header, journal)) = scan::header(pid, &target.mappings)? else {
        return Err(Error::NotProbed { pid });
    };
    let segment =
        target.mappings.iter().find(|mapping| is_segment(mapping)).ok_or(Error::NotProbed { pid })?;
    // Entries of every state: a fork child has its parent's patches, and shares a journal in which they may be undone.
    // What stands in the text decides.
    let patches = foreign::parse_journal(&journal)
        .iter()
        .filter_map(|entry| {
            let old = bytes_of_file(target, entry.address, entry.old.len())?;
            Some(Patch { address: entry.address, old, new: entry.new.clone() })
        })
        .collect();
    let undo = Undo {
        segment: segment.start.0..segment.end.0,
        islands: header
            .place
            .islands
            .iter()
            .filter_map(|&(at, bytes)| Some(at..at.checked_add(bytes)?))
            .collect(),
        patches,
        places: HashMap::new(),
    };
    undo.run(target)
}

/// What the file says stands at `address` of the target's text.
fn bytes_of_file(target: &Target, address: u64, length: usize) -> Option<Vec<u8>> {
    let mapping = target.mappings.iter().find(|mapping| {
        mapping.execute && mapping.inode != 0 && mapping.start.0 <= address && address < mapping.end.0
    })?;
    // The link in map_files leads to the file even where its path does not any more; it needs a capability.
    let link = format!("/proc/{}/map_files/{:x}-{:x}", target.pid, mapping.start.0, mapping.end.0);
    let file = File::open(link)
        .or_else(|_| File::open(target.root().join(mapping.path.trim_start_matches('/'))))
        .ok()?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, mapping.offset.0 + (address - mapping.start.0)).ok()?;
    Some(bytes)
}
