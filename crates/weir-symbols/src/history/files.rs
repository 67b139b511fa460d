//! The files of a history: held open while they can be opened, read when a name is wanted.
//!
//! A file is opened when it is first seen mapped: by `/proc/PID/map_files`, which leads to the very file whatever its
//! path means by now (it needs CAP_CHECKPOINT_RESTORE), else by its path in the root of the process, else in weir's own.
//! Its build id, size and time of change are kept from then on: what no longer agrees was replaced or written over, and
//! has no names. Where a descriptor could not be kept, the path is opened again, under the same conditions.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::binary::{Binary, build_id_of, identity_of_file};
use crate::generations::{FileNumber, MappedFile};
use crate::history::Why;
use crate::layout::Segment;
use crate::limits::{HELD_FILES_MAX, NAMED_FILES_MAX, NESTED_SYMBOLS_MAX};
use crate::maps::Mapping;
use crate::{FileIdentity, FileOffset, LinkAddr, regular, resolve};

#[derive(Debug, Default)]
pub(super) struct Files {
    seen: HashMap<FileNumber, Seen>,
    /// Of those whose names are in memory, the one read longest ago first.
    named: VecDeque<FileNumber>,
    held: usize,
    not_held: u64,
}

/// One file as it was when it was first seen.
#[derive(Debug)]
struct Seen {
    file: Option<File>,
    stamp: Option<Stamp>,
    build_id: Option<Vec<u8>>,
    /// Where the root of its process was.
    root: PathBuf,
    names: Option<Result<Rc<Names>, Why>>,
}

/// What changes when a file is written over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    bytes: u64,
    changed: (i64, i64),
}

/// The functions of a file, without its bytes.
#[derive(Debug)]
pub(super) struct Names {
    segments: Vec<Segment>,
    /// Sorted by address.
    functions: Vec<(LinkAddr, u64, String)>,
}

impl Files {
    pub(super) fn not_held(&self) -> u64 {
        self.not_held
    }

    /// A file that process `folder` maps, for the first time.
    pub(super) fn see(&mut self, number: FileNumber, mapping: &Mapping, folder: &Path) {
        let root = folder.join("root");
        let range = format!("{:x}-{:x}", mapping.start, mapping.end);
        let exact = regular::open(&folder.join("map_files").join(range)).ok();
        let by_path = || if mapping.deleted { None } else { open(&mapping.path, mapping.identity(), &root) };
        let file = exact.or_else(by_path);
        let stamp = file.as_ref().and_then(Stamp::of);
        let build_id = file.as_ref().and_then(build_id_of);
        let keeps = file.is_some() && self.held < HELD_FILES_MAX;
        self.held += usize::from(keeps);
        self.not_held += u64::from(!keeps);
        let seen = Seen { file: file.filter(|_| keeps), stamp, build_id, root, names: None };
        self.seen.insert(number, seen);
    }

    pub(super) fn names(&mut self, number: FileNumber, file: &MappedFile) -> Result<Rc<Names>, Why> {
        let Some(seen) = self.seen.get_mut(&number) else { return Err(Why::Unreadable) };
        if let Some(known) = &seen.names {
            return known.clone();
        }
        let names = seen.read(file).map(Rc::new);
        seen.names = Some(names.clone());
        self.named.push_back(number);
        if self.named.len() > NAMED_FILES_MAX
            && let Some(oldest) = self.named.pop_front().and_then(|oldest| self.seen.get_mut(&oldest))
        {
            oldest.names = None;
        }
        names
    }
}

impl Seen {
    fn read(&self, file: &MappedFile) -> Result<Names, Why> {
        // Nobody has seen what was mapped: what the path means by now may be anything.
        let Some(stamp) = self.stamp else { return Err(Why::Replaced) };
        let again;
        let open = match &self.file {
            Some(held) => held,
            None => {
                again = self.open_again(file).ok_or(Why::Replaced)?;
                &again
            }
        };
        let build_id = build_id_of(open);
        let is_same = build_id == self.build_id && (build_id.is_some() || Stamp::of(open) == Some(stamp));
        if !is_same {
            return Err(Why::Replaced);
        }
        let binary =
            Binary::from_file(open, Path::new(&file.path), &self.root).map_err(|_| Why::Unreadable)?;
        Ok(Names::of(&binary))
    }

    /// The file at the path, if it may be the one that was seen: the same inode, or at least the same build id.
    fn open_again(&self, file: &MappedFile) -> Option<File> {
        let same = open(&file.path, file.identity, &self.root);
        same.or_else(|| self.build_id.is_some().then(|| regular::open(Path::new(&file.path)).ok()).flatten())
    }
}

impl Stamp {
    fn of(file: &File) -> Option<Stamp> {
        let metadata = file.metadata().ok()?;
        Some(Stamp { bytes: metadata.len(), changed: (metadata.mtime(), metadata.mtime_nsec()) })
    }
}

/// The file that `path` means inside `root`, else in weir's own, if it is the one that is mapped. On btrfs and some overlays
/// maps name another device, and other inodes too: a path that is not marked as deleted leads to the file there.
fn open(path: &str, identity: FileIdentity, root: &Path) -> Option<File> {
    let is_it = |file: &File| {
        identity_of_file(file).is_some_and(|own| own == identity || own.device != identity.device)
    };
    let inside = resolve::canonical(root, Path::new(path)).ok();
    let inside = inside.and_then(|path| regular::open(&path).ok()).filter(is_it);
    let same = |file: &File| identity_of_file(file) == Some(identity);
    inside.or_else(|| regular::open(Path::new(path)).ok().filter(same))
}

impl Names {
    fn of(binary: &Binary) -> Names {
        let functions = binary.functions().iter().map(|f| (f.address, f.size, f.name.clone()));
        Names { segments: binary.segments().to_vec(), functions: functions.collect() }
    }

    /// The innermost function with the byte at `offset` of the file, and how far into it that is.
    pub(super) fn at(&self, offset: FileOffset) -> Option<(&str, u64)> {
        let holds = |s: &&Segment| s.executable && offset >= s.offset && offset.0 - s.offset.0 < s.file_bytes;
        let segment = self.segments.iter().find(holds)?;
        let address = segment.address.checked_add(offset.0 - segment.offset.0)?;
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let mut inner = self.functions[..after].iter().rev().take(NESTED_SYMBOLS_MAX);
        let (start, _, name) = inner.find(|(start, size, _)| address.0 - start.0 < (*size).max(1))?;
        Some((name, address.0 - start.0))
    }
}
