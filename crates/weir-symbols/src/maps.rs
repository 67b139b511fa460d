//! `/proc/PID/maps` (proc_pid_maps(5)), and where a file's addresses stand in a process.
//!
//! In: the text of a maps file. Out: [`Mapping`]s in the order of addresses. A file that is mapped twice (dlmopen)
//! has two virtual addresses for one link address: [`all_virtual`] gives each, [`to_virtual`] the lowest.
//! The text is a snapshot; what a running process maps next is the caller's concern.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::limits::MAPS_BYTES_MAX;
use crate::procfs;
use crate::{Binary, Error, FileIdentity, FileOffset, LinkAddr, VirtAddr};

/// One line of a maps file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub start: VirtAddr,
    /// After the last byte.
    pub end: VirtAddr,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    /// MAP_SHARED.
    pub shared: bool,
    pub offset: FileOffset,
    /// Major and minor number.
    pub device: (u32, u32),
    /// 0 where no file is mapped.
    pub inode: u64,
    /// A path, a name such as `[heap]`, or empty. As the process's mount namespace sees it.
    pub path: String,
    /// The file has no name any more.
    pub deleted: bool,
}

impl Mapping {
    pub fn contains(&self, address: VirtAddr) -> bool {
        self.start <= address && address < self.end
    }

    pub fn identity(&self) -> FileIdentity {
        FileIdentity { device: self.device, inode: self.inode }
    }

    /// Whether this maps `file`.
    pub fn is_file(&self, file: FileIdentity) -> bool {
        self.inode != 0 && self.identity() == file
    }
}

/// The mappings of a process. Errors are those of open(2) and read(2); ENOENT or ESRCH: no such process.
pub fn read(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut text = Vec::with_capacity(procfs::BYTES);
    File::open(format!("/proc/{pid}/maps"))?.take(MAPS_BYTES_MAX).read_to_end(&mut text)?;
    parse(&String::from_utf8_lossy(&text)).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// What of `maps`, which are sorted by address as [`read`] has them, is mapped at `address`.
pub fn at(maps: &[Mapping], address: VirtAddr) -> Option<&Mapping> {
    let after = maps.partition_point(|mapping| mapping.start <= address);
    maps[..after].last().filter(|mapping| mapping.contains(address))
}

/// The mappings that `text` lists. `Error::Maps` for a line that is not one.
pub fn parse(text: &str) -> Result<Vec<Mapping>, Error> {
    let mut out = Vec::new();
    for (index, line) in text.lines().enumerate() {
        out.push(parse_line(line).map_err(|what| Error::Maps {
            line: index + 1,
            what,
            text: line.chars().take(200).collect(),
        })?);
    }
    Ok(out)
}

/// The identity by which these maps show `binary`, whose path in the process's own mount namespace is `path`: mostly
/// its own. On btrfs, and on overlays before Linux 6.8, maps name another device than stat(2) (and overlays another
/// inode); then the file mapped from that path is taken, unless it was deleted or replaced since. `None`: not mapped.
pub fn identity_of(maps: &[Mapping], binary: &Binary, path: &Path) -> Option<FileIdentity> {
    let own = binary.identity()?;
    if maps.iter().any(|m| m.is_file(own)) {
        return Some(own);
    }
    let named = || maps.iter().filter(|m| m.inode != 0 && !m.deleted && Path::new(&m.path) == path);
    let found = named().find(|m| m.inode == own.inode).or_else(|| named().next());
    found.map(Mapping::identity)
}

/// Where `address` of `binary` stands in the process, at its lowest mapping. `file` is the identity that its maps
/// show. `None` also where the process has unmapped the address, or (for code) made it not executable.
pub fn to_virtual(
    maps: &[Mapping],
    file: FileIdentity,
    binary: &Binary,
    address: LinkAddr,
) -> Option<VirtAddr> {
    all_virtual(maps, file, binary, address).into_iter().next()
}

/// Every place of `address`, ascending.
pub fn all_virtual(
    maps: &[Mapping],
    file: FileIdentity,
    binary: &Binary,
    address: LinkAddr,
) -> Vec<VirtAddr> {
    let code = binary.segments().iter().any(|s| s.executable && s.holds(address));
    let stands = |at: &VirtAddr| {
        maps.iter().any(|m| m.contains(*at) && if code { m.execute && m.is_file(file) } else { m.read })
    };
    let places =
        load_biases(maps, file, binary).into_iter().map(|bias| VirtAddr(address.0.wrapping_add(bias)));
    let mut places: Vec<VirtAddr> = places.filter(stands).collect();
    places.sort_unstable();
    places
}

/// What is added to a link address to get a virtual one, modulo 2⁶⁴ (`wrapping_add`); of several, the lowest mapping's.
pub fn load_bias(maps: &[Mapping], file: FileIdentity, binary: &Binary) -> Option<u64> {
    load_biases(maps, file, binary).first().copied()
}

/// One for each time that the file's code is mapped, by the address of the mapping. Taken from executable mappings
/// alone: a page at the border of two other segments is mapped twice, and does not tell which segment it shows.
pub fn load_biases(maps: &[Mapping], file: FileIdentity, binary: &Binary) -> Vec<u64> {
    let mut biases = Vec::new();
    for mapping in maps.iter().filter(|m| m.execute && m.is_file(file)) {
        if let Some(bias) = bias_of(mapping, binary)
            && !biases.contains(&bias)
        {
            biases.push(bias);
        }
    }
    biases
}

/// The link address that stands at `address`, a place in a mapping of the file.
pub fn to_link(maps: &[Mapping], file: FileIdentity, binary: &Binary, address: VirtAddr) -> Option<LinkAddr> {
    maps.iter().find(|m| m.contains(address) && m.is_file(file))?;
    let links =
        load_biases(maps, file, binary).into_iter().map(|bias| LinkAddr(address.0.wrapping_sub(bias)));
    links.into_iter().find(|link| binary.file_offset(*link).is_some())
}

/// The bias by the executable segment that this mapping shows. The mapping may be a part of it: a loader or mprotect
/// splits mappings at page borders.
fn bias_of(mapping: &Mapping, binary: &Binary) -> Option<u64> {
    const PAGE: u64 = 4096;
    let (first, after) = (mapping.offset.0, mapping.offset.0.checked_add(mapping.end.0 - mapping.start.0)?);
    let shown = binary.segments().iter().find(|s| {
        let start = s.offset.0 / PAGE * PAGE;
        s.executable && s.file_bytes > 0 && start < after && first < s.offset.0 + s.file_bytes
    })?;
    let page_address = shown.address.0.wrapping_sub(shown.offset.0).wrapping_add(first);
    Some(mapping.start.0.wrapping_sub(page_address))
}

/// `start-end perms offset major:minor inode   path`.
fn parse_line(line: &str) -> Result<Mapping, &'static str> {
    let mut rest = line;
    let (start, end) = field(&mut rest).split_once('-').ok_or("no address range")?;
    let (start, end) = (hex(start, "a bad start address")?, hex(end, "a bad end address")?);
    if start > end {
        return Err("an address range that ends before it begins");
    }
    let permissions = field(&mut rest).as_bytes();
    let &[read, write, execute, shared] = permissions else { return Err("no permissions such as r-xp") };
    let flag = |given: u8, set: u8| match given {
        b'-' => Ok(false),
        g if g == set => Ok(true),
        _ => Err("no permissions such as r-xp"),
    };
    let offset = hex(field(&mut rest), "a bad offset")?;
    let (major, minor) = field(&mut rest).split_once(':').ok_or("no device such as fe:00")?;
    let number = |text| u32::from_str_radix(text, 16).map_err(|_| "no device such as fe:00");
    let device = (number(major)?, number(minor)?);
    let inode = field(&mut rest).parse().map_err(|_| "a bad inode number")?;
    // The kernel pads the path to column 73 and escapes newlines in it, and nothing else.
    let path = rest.trim_start_matches(' ').replace("\\012", "\n");
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path.to_string(), true),
        None => (path, false),
    };
    Ok(Mapping {
        start: VirtAddr(start),
        end: VirtAddr(end),
        read: flag(read, b'r')?,
        write: flag(write, b'w')?,
        execute: flag(execute, b'x')?,
        shared: match shared {
            b's' => true,
            b'p' => false,
            _ => return Err("no permissions such as r-xp"),
        },
        offset: FileOffset(offset),
        device,
        inode,
        path,
        deleted,
    })
}

/// Takes the text up to the next blank.
fn field<'a>(rest: &mut &'a str) -> &'a str {
    let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
    *rest = after;
    first
}

fn hex(text: &str, what: &'static str) -> Result<u64, &'static str> {
    u64::from_str_radix(text, 16).map_err(|_| what)
}
