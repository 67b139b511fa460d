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
use crate::print::{printable, tell};
use crate::view::failure;

/// LIMIT: bytes that came and were not shown yet. A trace that is not followed is shown when all of it has come.
const WAITING_BYTES_MAX: u64 = 4 << 30;

/// Bytes that came and were not shown yet, beyond which nothing is read as long as there is something to show.
const BEHIND_BYTES_MAX: u64 = 256 << 20;

/// Bytes that are read at once: a pipe holds 64 KiB by default.
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
    /// Some stream ended before its description, and others are shown.
    is_some_left_out: bool,
}

struct Stream {
    receiver: Receiver,
    /// None after its end.
    from: Option<File>,
    /// What was wrong with it, until that was reported.
    fault: Option<weir_trace::Error>,
    is_damaged: bool,
    /// The folder, which is removed with this.
    temporary: Option<Temporary>,
    /// Bytes whose room was given back, by file.
    given_back: Vec<(PathBuf, u64)>,
}

/// A folder of our own, which is removed.
struct Temporary(PathBuf);

/// Places, those open that are streams; nothing was made for them yet.
pub(super) struct Sources(Vec<(PathBuf, Option<File>)>);

impl Sources {
    pub(super) fn is_any(&self) -> bool {
        self.0.iter().any(|(_, from)| from.is_some())
    }
}

/// Opens what are streams among the places: a FIFO waits until somebody writes to it.
pub(super) fn sources(args: &View) -> Result<Sources, Failure> {
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
    let opened = |place: &PathBuf| {
        let from = is_stream(&place).then(|| open(place)).transpose()?;
        Ok((place.clone(), from))
    };
    args.places.iter().map(opened).collect::<Result<_, _>>().map(Sources)
}

fn open(place: &Path) -> Result<File, Failure> {
    match place.as_os_str() == "-" {
        true if io::stdin().is_terminal() => Err(Failure::Usage(anyhow!(
            "-: standard input is a terminal: `ssh HOST weir record … --to - | weir view --follow -`"
        ))),
        true => {
            let from = io::stdin().as_fd().try_clone_to_owned().map(File::from);
            from.context("standard input").map_err(Failure::Machine)
        }
        false => {
            let opened = File::open(place).with_context(|| format!("cannot open {}", place.display()));
            opened.map_err(Failure::Refused)
        }
    }
}

impl Received {
    /// Makes a folder for each stream.
    pub(super) fn new(args: &View, Sources(sources): Sources) -> Result<Received, Failure> {
        let mut received = Received {
            places: Vec::new(),
            streams: Vec::new(),
            part: vec![0; PART_BYTES],
            is_some_left_out: false,
        };
        for (place, from) in sources {
            let place = match from {
                Some(from) => received.receive(&place, from, args.save.as_deref())?,
                None => place,
            };
            received.places.push(place);
        }
        Ok(received)
    }

    /// Where the traces are.
    pub(super) fn places(&self) -> &[PathBuf] {
        &self.places
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
            tell_fault(&fault);
        }
    }

    /// A stream was cut, or damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_some_left_out || self.streams.iter().any(|stream| stream.is_damaged)
    }

    /// Reports which of several places have not said yet what their traces are of.
    pub(super) fn tell_waiting(&self) {
        if self.places.len() < 2 {
            return;
        }
        let waiting = |stream: &&Stream| stream.from.is_some() && !stream.receiver.is_described();
        for stream in self.streams.iter().filter(waiting) {
            let name = stream.receiver.name().to_string_lossy();
            tell!("weir: nothing is shown yet: waiting for the recorder of {}", printable(&name));
        }
    }

    /// Leaves out streams that have ended before they said what their traces are of, and reports why. Where nothing else is there, that is the failure.
    pub(super) fn leave_out_undescribed(&mut self) -> Result<(), Failure> {
        let is_undescribed = |stream: &Stream| stream.from.is_none() && !stream.receiver.is_described();
        let (mut left_out, streams): (Vec<Stream>, Vec<Stream>) =
            std::mem::take(&mut self.streams).into_iter().partition(is_undescribed);
        self.streams = streams;
        self.places.retain(|place| left_out.iter().all(|stream| stream.receiver.folder() != place));
        for stream in &mut left_out {
            let path = stream.receiver.name().to_owned();
            let fault = stream.fault.take().unwrap_or_else(|| weir_trace::Error::Class {
                path,
                message: "the trace ends before its description".to_owned(),
            });
            if self.places.is_empty() {
                return Err(failure(fault));
            }
            self.is_some_left_out = true;
            tell_fault(&fault);
        }
        Ok(())
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
    fn receive(&mut self, place: &Path, from: File, save: Option<&Path>) -> Result<PathBuf, Failure> {
        let name = if place.as_os_str() == "-" { Path::new("standard input") } else { place };
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

fn tell_fault(fault: &weir_trace::Error) {
    let source = std::error::Error::source(fault).map_or(String::new(), |source| format!(": {source}"));
    tell!("weir: {fault}{source}");
}

/// Whether a place is one stream of bytes. What is not there is reported elsewhere.
fn is_stream(place: &Path) -> bool {
    place.as_os_str() == "-" || fs::metadata(place).is_ok_and(|about| !about.is_dir())
}
