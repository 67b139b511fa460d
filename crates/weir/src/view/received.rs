//! Traces that come through pipes: `weir view -`, and files of what `weir record --to -` has sent.
//!
//! In: standard input, FIFOs and files, whose bytes are hostile. Out: for each a folder with what has come so far ([`weir_trace::pipe`]), which is read as any
//! trace is. It is a private one, removed at the end, and of a trace that is followed only what was not shown yet takes room in it; or the one of `--save`,
//! which stays.
//!
//! A stream that is cut or damaged ends there: what was whole is shown.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, ErrorKind, IsTerminal as _, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use nix::fcntl::{FallocateFlags, fallocate};
use weir_trace::Follower;
use weir_trace::pipe::Receiver;

use crate::args::view::{Format, View};
use crate::failure::Failure;
use crate::print::tell;
use crate::view::failure;

/// LIMIT: bytes that came and were not shown yet. A trace that is not followed is shown when all of it has come.
const WAITING_BYTES_MAX: u64 = 4 << 30;

/// Bytes that came and were not shown yet, beyond which nothing is read as long as there is something to show.
const BEHIND_BYTES_MAX: u64 = 256 << 20;

/// Bytes that are read at once: a pipe holds 64 KiB unless it is told otherwise.
const PART_BYTES: usize = 1 << 20;

/// Room in files is given back in so many bytes: what file systems have as a block, or a multiple.
const BLOCK_BYTES: u64 = 64 << 10;

/// How often a free name is looked for.
const NAMES_MAX: usize = 64;

/// Places, some of which are streams.
pub(super) struct Received {
    places: Vec<PathBuf>,
    streams: Vec<Stream>,
    part: Vec<u8>,
}

struct Stream {
    receiver: Receiver,
    /// None behind its end.
    from: Option<File>,
    /// What was wrong with it, until that was told.
    fault: Option<weir_trace::Error>,
    is_damaged: bool,
    /// Of whoever reads: the folder is removed with this.
    temporary: Option<Temporary>,
    /// Bytes whose room was given back, by file.
    given_back: Vec<(PathBuf, u64)>,
}

/// A folder of our own, which is removed.
struct Temporary(PathBuf);

impl Received {
    /// Takes what are streams among the places.
    pub(super) fn new(args: &View) -> Result<Received, Failure> {
        let is_stream = |place: &&PathBuf| is_stream(place);
        match (args.places.iter().filter(is_stream).count(), &args.save) {
            (1.., None) if args.stats || args.format == Format::Chrome => {
                return Err(Failure::Usage(anyhow!(
                    "--stats and -f chrome are of whole traces: add --save DIR, which keeps what comes as a folder"
                )));
            }
            (count, Some(folder)) if count != 1 => {
                let folder = folder.display();
                return Err(Failure::Usage(anyhow!(
                    "--save {folder}: it keeps one trace that comes through a pipe (`-`) or from a file of one; there are {count}"
                )));
            }
            _ => {}
        }
        if args.places.iter().filter(|place| place.as_os_str() == "-").count() > 1 {
            return Err(Failure::Usage(anyhow!("`-` is standard input, which is there once")));
        }
        let mut received = Received { places: Vec::new(), streams: Vec::new(), part: vec![0; PART_BYTES] };
        for place in &args.places {
            let place = match is_stream(&place) {
                true => received.open(place, args.save.as_deref())?,
                false => place.clone(),
            };
            received.places.push(place);
        }
        Ok(received)
    }

    /// Where the traces are.
    pub(super) fn places(&self) -> &[PathBuf] {
        &self.places
    }

    pub(super) fn is_any(&self) -> bool {
        !self.streams.is_empty()
    }

    /// There are streams, and nothing else.
    pub(super) fn is_all(&self) -> bool {
        self.streams.len() == self.places.len()
    }

    /// More may come.
    pub(super) fn is_open(&self) -> bool {
        self.streams.iter().any(|stream| stream.from.is_some())
    }

    /// More may come, and there is room for it while what is there is shown. Where there is none the sender waits.
    pub(super) fn is_behind(&self) -> bool {
        let waiting: u64 = self.streams.iter().map(Stream::waiting).sum();
        self.is_open() && waiting < BEHIND_BYTES_MAX
    }

    /// Some stream has not said yet what its trace is of.
    pub(super) fn is_waiting(&self) -> bool {
        self.streams.iter().any(|stream| stream.from.is_some() && !stream.receiver.is_described())
    }

    /// What is readable when something comes.
    pub(super) fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.streams.iter().filter_map(|stream| stream.from.as_ref()).map(|from| from.as_fd()).collect()
    }

    /// Reads what has come of those of [`Received::watched`] of which this is true: how many bytes.
    pub(super) fn read(&mut self, ready: &[bool]) -> usize {
        let Received { streams, part, .. } = self;
        let open = streams.iter_mut().filter(|stream| stream.from.is_some());
        open.zip(ready).filter(|(_, ready)| **ready).map(|(stream, _)| stream.read(part)).sum()
    }

    /// Nothing more is read.
    pub(super) fn stop(&mut self) {
        self.streams.iter_mut().filter(|stream| stream.from.is_some()).for_each(Stream::end);
    }

    /// What was wrong with streams since the last time, which is nothing more.
    pub(super) fn tell_faults(&mut self) {
        for fault in self.streams.iter_mut().filter_map(|stream| stream.fault.take()) {
            let source =
                std::error::Error::source(&fault).map_or(String::new(), |source| format!(": {source}"));
            tell!("weir: {fault}{source}");
        }
    }

    /// A stream was cut, or damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_damaged)
    }

    /// The first stream that has ended before it said what its trace is of: why.
    pub(super) fn undescribed(&mut self) -> Option<Failure> {
        let mut streams = self.streams.iter_mut();
        let stream = streams.find(|stream| stream.from.is_none() && !stream.receiver.is_described())?;
        let fault = stream.fault.take().map(failure);
        Some(fault.unwrap_or_else(|| Failure::Refused(anyhow!("the trace ends before its description"))))
    }

    /// Gives back the room of what nobody reads any more.
    pub(super) fn forget_read(&mut self, follower: &Follower) {
        for (path, bytes) in follower.read_so_far() {
            let is_in = |stream: &&mut Stream| path.starts_with(stream.receiver.folder());
            if let Some(stream) =
                self.streams.iter_mut().find(is_in).filter(|stream| stream.temporary.is_some())
            {
                stream.give_back(path, bytes / BLOCK_BYTES * BLOCK_BYTES);
            }
        }
    }

    /// The folder in which a stream's trace is going to be.
    fn open(&mut self, place: &Path, save: Option<&Path>) -> Result<PathBuf, Failure> {
        let (name, from) = match place.as_os_str() == "-" {
            true if io::stdin().is_terminal() => {
                return Err(Failure::Usage(anyhow!(
                    "-: standard input is a terminal: `ssh HOST weir record … --to - | weir view --follow -`"
                )));
            }
            true => {
                let from = io::stdin().as_fd().try_clone_to_owned().map(File::from);
                (Path::new("standard input"), from.context("standard input").map_err(Failure::Machine)?)
            }
            false => {
                let opened = File::open(place).with_context(|| format!("cannot open {}", place.display()));
                (place, opened.map_err(Failure::Refused)?)
            }
        };
        let (folder, temporary) = match save {
            Some(folder) => (folder.to_owned(), None),
            None => {
                let temporary = Temporary::new()?;
                (temporary.0.clone(), Some(temporary))
            }
        };
        let receiver = Receiver::new(name, &folder).map_err(failure)?;
        let stream = Stream {
            receiver,
            from: Some(from),
            fault: None,
            is_damaged: false,
            temporary,
            given_back: Vec::new(),
        };
        self.streams.push(stream);
        Ok(folder)
    }
}

impl Stream {
    /// Reads once; how many bytes.
    fn read(&mut self, part: &mut [u8]) -> usize {
        let Some(from) = &mut self.from else { return 0 };
        let count = match from.read(part) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return 0,
            Err(source) => {
                let path = self.receiver.name().to_owned();
                self.damage(weir_trace::Error::File { path, what: "read", source });
                return 0;
            }
        };
        if count == 0 {
            self.end();
            return 0;
        }
        match self.receiver.take(&part[..count]) {
            Err(error) => self.damage(error),
            Ok(()) if self.receiver.is_over() => self.end(),
            Ok(()) if self.waiting() > WAITING_BYTES_MAX => self.damage(weir_trace::Error::TooMuch {
                path: self.receiver.name().to_owned(),
                what: "bytes that were not shown yet (--save DIR keeps any number)",
                limit: WAITING_BYTES_MAX,
            }),
            Ok(()) => {}
        }
        count
    }

    fn end(&mut self) {
        self.from = None;
        if let Err(error) = self.receiver.end() {
            self.damage(error);
        }
    }

    fn damage(&mut self, error: weir_trace::Error) {
        self.from = None;
        self.receiver.close();
        self.is_damaged = true;
        self.fault.get_or_insert(error);
    }

    /// Bytes that take room in a temporary folder.
    fn waiting(&self) -> u64 {
        let given_back: u64 = self.given_back.iter().map(|(_, bytes)| bytes).sum();
        if self.temporary.is_some() { self.receiver.bytes() - given_back } else { 0 }
    }

    /// So many bytes of the file were read. Where a file system cannot give their room back, they keep it.
    fn give_back(&mut self, path: &Path, bytes: u64) {
        let index = match self.given_back.iter().position(|(known, _)| known == path) {
            Some(index) => index,
            None => {
                self.given_back.push((path.to_owned(), 0));
                self.given_back.len() - 1
            }
        };
        let before = &mut self.given_back[index].1;
        if bytes <= *before {
            return;
        }
        let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
        let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        if fallocate(file, how, *before as i64, (bytes - *before) as i64).is_ok() {
            *before = bytes;
        }
    }
}

impl Temporary {
    fn new() -> Result<Temporary, Failure> {
        let below = std::env::temp_dir();
        for _ in 0..NAMES_MAX {
            // Others may write there, and must not know the name before.
            let number = RandomState::new().build_hasher().finish();
            let folder = below.join(format!("weir-view-{number:016x}"));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Temporary(folder)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let made =
                        format!("cannot make a folder in {} (TMPDIR names another place)", below.display());
                    return Err(Failure::Machine(anyhow!(error).context(made)));
                }
            }
        }
        Err(Failure::Machine(anyhow!("no name is free in {}", below.display())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a place is one stream of bytes. What is not there is for others to tell.
fn is_stream(place: &Path) -> bool {
    place.as_os_str() == "-" || fs::metadata(place).is_ok_and(|about| !about.is_dir())
}
