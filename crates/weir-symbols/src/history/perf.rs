//! The perf maps of a history's processes.
//!
//! A process writes `/tmp/perf-PID.map` in its own mount namespace, with its id as it sees itself. The folder is held open
//! from the first look on, so that a file that is written at the very end is still found. A file is taken only if it is a
//! regular one that the process's user or root owns, and if it was written since the program began: ids are used again,
//! and others may write into `/tmp`. What has grown is read at each look; when an image has ended, nothing more.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::generations::Image;
use crate::history::{Resolved, Why};
use crate::limits::{HELD_FOLDERS_MAX, PERF_MAP_BYTES_MAX};
use crate::perf_map::PerfMap;
use crate::{VirtAddr, resolve};

/// open(2) of x86-64: neither follows a link nor waits for a writer.
const O_NOFOLLOW_NONBLOCK: i32 = 0o400_000 | 0o4_000;
const ELOOP: i32 = 40;
/// USER_HZ, in which `/proc` counts ticks.
const TICKS_PER_SECOND: u64 = 100;
/// Boot time is known to the second, and the clock may have been set since.
const CLOCK_SLACK: Duration = Duration::from_secs(2);
const PIECE_BYTES: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct PerfMaps {
    images: HashMap<(u32, Image), Held>,
    /// The image that each process runs.
    current: HashMap<u32, Image>,
    refused: u64,
}

/// What is known of one image.
#[derive(Debug)]
struct Held {
    /// Its `/tmp`, until it has ended.
    folder: Option<File>,
    name: String,
    uids: Vec<u32>,
    since: Option<SystemTime>,
    looked: SystemTime,
    file: Option<File>,
    map: PerfMap,
    /// A file was there that is not taken.
    is_refused: bool,
}

impl PerfMaps {
    pub(super) fn lines_left_out(&self) -> u64 {
        self.images.values().map(|held| held.map.left_out()).sum()
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    pub(super) fn look(&mut self, pid: u32, image: Image, folder: &Path) {
        let mut since = started(image);
        if let Some(before) = self.current.insert(pid, image).filter(|before| *before != image) {
            let ended = self.images.get_mut(&(pid, before));
            since = ended.as_ref().map(|held| held.looked).or(since);
            // Its file may be the new program's by now.
            if let Some(held) = ended {
                (held.folder, held.file) = (None, None);
            }
        }
        if !self.images.contains_key(&(pid, image)) && self.held() < HELD_FOLDERS_MAX {
            self.images.insert((pid, image), Held::of(folder, since));
        }
        if let Some(held) = self.images.get_mut(&(pid, image)) {
            self.refused += u64::from(held.read_on());
        }
    }

    pub(super) fn ended(&mut self, pid: u32) {
        let Some(image) = self.current.remove(&pid) else { return };
        if let Some(held) = self.images.get_mut(&(pid, image)) {
            self.refused += u64::from(held.read_on());
            (held.folder, held.file) = (None, None);
            if held.map.bytes() == 0 {
                self.images.remove(&(pid, image));
            }
        }
    }

    /// The name that the maps of all these images of a process give.
    pub(super) fn find(&mut self, pid: u32, images: &[Image], address: VirtAddr) -> Option<Resolved> {
        let mut found: Option<Resolved> = None;
        for image in images {
            let Some(held) = self.images.get_mut(&(pid, *image)) else { continue };
            self.refused += u64::from(held.read_on());
            let Some((name, offset)) = held.map.find(address) else { continue };
            let module = format!("/tmp/{}", held.name);
            let answer = Resolved::Function { name: name.to_owned(), offset, module };
            if found.as_ref().is_some_and(|other| *other != answer) {
                return Some(Resolved::Unnamed { module: None, why: Why::Ambiguous });
            }
            found = Some(answer);
        }
        found
    }

    fn held(&self) -> usize {
        self.images.values().filter(|held| held.folder.is_some()).count()
    }
}

impl Held {
    fn of(folder: &Path, since: Option<SystemTime>) -> Held {
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let inner = field("NSpid:").split_ascii_whitespace().last().unwrap_or_default();
        let uids = field("Uid:").split_ascii_whitespace().filter_map(|uid| uid.parse().ok());
        let temporary = resolve::canonical(&folder.join("root"), Path::new("/tmp"));
        Held {
            folder: temporary.ok().and_then(|path| File::open(path).ok()),
            name: format!("perf-{inner}.map"),
            uids: uids.collect(),
            since,
            looked: SystemTime::now(),
            file: None,
            map: PerfMap::default(),
            is_refused: false,
        }
    }

    /// Reads what is new. True if there is a file that is refused, the first time that it is seen.
    fn read_on(&mut self) -> bool {
        self.looked = SystemTime::now();
        let was_refused = self.is_refused;
        if self.file.is_none() {
            self.open();
        }
        if let Some(file) = &self.file {
            let bytes = file.metadata().map_or(0, |metadata| metadata.len());
            if bytes < self.map.bytes() {
                self.map = PerfMap::default();
            }
            read_until(file, bytes.min(PERF_MAP_BYTES_MAX), &mut self.map);
        }
        self.is_refused && !was_refused
    }

    fn open(&mut self) {
        let Some(folder) = &self.folder else { return };
        let path = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), self.name);
        let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW_NONBLOCK).open(path);
        let is_link = file.as_ref().is_err_and(|error| error.raw_os_error() == Some(ELOOP));
        self.is_refused |= is_link;
        let Some((file, metadata)) =
            file.ok().and_then(|file| file.metadata().ok().map(|known| (file, known)))
        else {
            return;
        };
        let is_own = metadata.uid() == 0 || self.uids.contains(&metadata.uid());
        let is_new = match (self.since, metadata.modified()) {
            (Some(since), Ok(written)) => written + CLOCK_SLACK >= since,
            _ => false,
        };
        match metadata.is_file() && is_own && is_new {
            true => self.file = Some(file),
            false => self.is_refused = true,
        }
    }
}

/// Hands everything before byte `end` that the map has not read yet to it.
fn read_until(file: &File, end: u64, map: &mut PerfMap) {
    let mut piece = vec![0; PIECE_BYTES];
    while map.bytes() < end {
        let most = (end - map.bytes()).min(PIECE_BYTES as u64) as usize;
        match file.read_at(&mut piece[..most], map.bytes()) {
            Ok(read) if read > 0 => map.extend(&piece[..read]),
            _ => return,
        }
    }
}

/// When a process started, by the wall clock.
fn started(image: Image) -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let since_boot = Duration::from_secs(image.started_ticks / TICKS_PER_SECOND);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(boot).checked_add(since_boot)?)
}
