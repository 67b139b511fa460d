//! Whether the machine has the memory that a segment takes, asked before any of it is taken: every page of a segment is
//! allocated at once, and whoever gets the last of the machine's memory has others killed. And whether this process may
//! make a file so large (RLIMIT_FSIZE), which a segment is: who tries is killed for it (SIGXFSZ, setrlimit(2)).
//!
//! In: a layout; /proc/meminfo, and of the control group (version 2) and those above it `memory.max`, `memory.current`
//! and `memory.stat`. Out: nothing, or an [`OutOfMemory`], or a [`FileTooLarge`]. What cannot be read is no bound.
//!
//! Deliberately not here: control groups of version 1, swap, and what several segments take together: each is asked for
//! when the others have theirs.

use std::path::Path;
use std::{fmt, fs, io};

use nix::sys::resource::{Resource, getrlimit};

use crate::cgroup;
use crate::limits::{MEMORY_SHARE, MEMORY_UNASKED_BYTES};
use crate::segment::{MapLayout, SegmentLayout};

/// A segment takes more memory than one may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    pub needed: u64,
    pub available: u64,
    /// The map that takes most, and its bytes.
    pub largest: Option<(String, u64)>,
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfMemory { needed, available, largest } = self;
        write!(
            out,
            "the maps need {} of memory; {} are available, of which one segment may take 1/{MEMORY_SHARE}",
            Size(*needed),
            Size(*available)
        )?;
        match largest {
            Some((name, bytes)) => write!(out, " (map {} alone takes {})", name.escape_debug(), Size(*bytes)),
            None => Ok(()),
        }
    }
}

/// A segment is larger than a file of this process may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileTooLarge {
    pub needed: u64,
    pub allowed: u64,
}

impl std::error::Error for FileTooLarge {}

impl fmt::Display for FileTooLarge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileTooLarge { needed, allowed } = self;
        write!(
            out,
            "the maps need a file in memory of {needed} bytes, and files of this process may have {allowed} (RLIMIT_FSIZE, \
             `ulimit -f`): allow more"
        )
    }
}

/// Refuses a segment that takes more than its share of what is there now, or is larger than a file may be.
pub(super) fn check(layout: &SegmentLayout) -> io::Result<()> {
    let (needed, (allowed, _)) = (layout.bytes, getrlimit(Resource::RLIMIT_FSIZE)?);
    if needed > allowed {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, FileTooLarge { needed, allowed }));
    }
    let largest = layout.maps.iter().max_by_key(|map| map.bytes);
    check_bytes(layout.bytes_at_first(), largest.map(|map| (map, map.bytes)))
}

/// The same for further bytes of one map.
pub(super) fn check_growth(bytes: u64, map: &MapLayout) -> io::Result<()> {
    check_bytes(bytes, Some((map, bytes)))
}

fn check_bytes(needed: u64, largest: Option<(&MapLayout, u64)>) -> io::Result<()> {
    if needed <= MEMORY_UNASKED_BYTES {
        return Ok(());
    }
    let Some(available) = available().filter(|&available| !is_within(needed, available)) else {
        return Ok(());
    };
    let largest = largest.map(|(map, bytes)| (map.spec.name.clone(), bytes));
    Err(io::Error::new(io::ErrorKind::OutOfMemory, OutOfMemory { needed, available, largest }))
}

fn is_within(needed: u64, available: u64) -> bool {
    needed <= available / MEMORY_SHARE
}

/// Bytes that may be had without others being killed for them; none if nothing is known.
fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kibibytes(&text, "MemAvailable:"));
    let own = cgroup::own();
    let groups = own.as_deref().into_iter().flat_map(Path::ancestors).filter_map(left_in);
    machine.into_iter().chain(groups).min()
}

/// The number behind `field` in /proc/meminfo, in bytes.
fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix(field))?;
    number.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes that a control group may still have; none without a bound.
fn left_in(group: &Path) -> Option<u64> {
    let read = |name| fs::read_to_string(group.join(name)).ok();
    left(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
}

/// The same of the texts of its files. Pages of files can be dropped, so that they are not in use.
fn left(max: &str, current: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let field = |name| stat.lines().find_map(|line| line.strip_prefix(name).and_then(number)).unwrap_or(0);
    let of_files = u64::saturating_add(field("active_file "), field("inactive_file "));
    let used = number(current)?.saturating_sub(of_files);
    Some(number(max)?.saturating_sub(used))
}

/// Bytes in the unit that people count them in.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 30 => write!(out, "{:.1} GiB", bytes as f64 / (1u64 << 30) as f64),
            bytes => write!(out, "{:.1} MiB", bytes as f64 / (1u64 << 20) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_may_take_half() {
        let check = |needed, available, wanted| assert_eq!(is_within(needed, available), wanted, "{needed}");
        check(50, 100, true);
        check(51, 100, false);
        check(0, 0, true);
        check(1, 1, false);
        check(u64::MAX, u64::MAX, false);
    }

    #[test]
    fn the_machine_says_what_it_has() {
        let check = |text, wanted| assert_eq!(kibibytes(text, "MemAvailable:"), wanted, "{text}");
        check("MemTotal:  9 kB\nMemAvailable:   24 kB\n", Some(24576));
        check("MemTotal:  9 kB\n", None);
        check("MemAvailable:   -1 kB", None);
        check("MemAvailable:   18446744073709551615 kB", None);
        check("MemAvailable:", None);
    }

    #[test]
    fn a_control_group_has_its_bound_less_what_cannot_be_dropped() {
        let check = |max, current, stat, wanted| {
            assert_eq!(left(max, current, stat), wanted, "{max} {current} {stat}")
        };
        check("1000\n", "700\n", "anon 400\ninactive_file 200\nactive_file 100\n", Some(600));
        check("1000\n", "1700\n", "", Some(0));
        check("1000\n", "100\n", "active_file 200\n", Some(1000));
        check("max\n", "700\n", "", None);
        check("1000\n", "", "", None);
    }

    #[test]
    fn messages_name_the_map_and_the_numbers() {
        let error =
            OutOfMemory { needed: 9 << 30, available: 1 << 29, largest: Some(("m\n".into(), 8 << 30)) };
        let wanted = "the maps need 9.0 GiB of memory; 512.0 MiB are available, of which one segment may take 1/2 (map \
                      m\\n alone takes 8.0 GiB)";
        assert_eq!(error.to_string(), wanted);
    }
}
