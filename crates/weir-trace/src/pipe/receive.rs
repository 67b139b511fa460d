//! Bytes that were sent → the folder of the trace.
//!
//! In: bytes as they come, hostile. Out: a folder of this receiver's own, locked as long as more may come, as a recorder's is
//! ([`mod@crate::write`]), with what was whole. Nothing else is touched: names of files are plain ones, and a file that is written is one that was made here, also where the folder is another user's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::limits::FILES_MAX;
use crate::pipe::frame::{Decoder, Fault, Frame};
use crate::private;

/// A file that was made here.
#[derive(Clone, Copy, Debug)]
struct Known {
    bytes: u64,
    device: u64,
    inode: u64,
}

/// A trace that is received.
#[derive(Debug)]
pub struct Receiver {
    /// What errors call the stream.
    name: PathBuf,
    folder: PathBuf,
    /// The folder itself, as long as more may come.
    locked: Option<File>,
    decoder: Decoder,
    is_over: bool,
    /// Of packets.
    files: BTreeMap<String, Known>,
    bytes: u64,
    is_described: bool,
}

impl Receiver {
    /// A stream that is called `name`, which goes to a folder that is new, or empty.
    pub fn new(name: &Path, folder: &Path) -> Result<Receiver, Error> {
        let failed = |what, source| Error::File { path: folder.to_owned(), what, source };
        private::make_folder(folder).map_err(|source| failed("make", source))?;
        let mut entries = fs::read_dir(folder).map_err(|source| failed("list", source))?;
        if entries.next().is_some() {
            let message =
                "it is not empty; a trace wants a folder of its own: name another, or remove this one";
            return Err(Error::Class { path: folder.to_owned(), message: message.to_owned() });
        }
        let locked = File::open(folder).ok().filter(|file| file.try_lock().is_ok());
        Ok(Receiver {
            name: name.to_owned(),
            folder: folder.to_owned(),
            locked,
            decoder: Decoder::default(),
            is_over: false,
            files: BTreeMap::new(),
            bytes: 0,
            is_described: false,
        })
    }

    /// What errors call the stream.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Where the trace is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes what is whole by now. After an error nothing more should be put in.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.decoder.feed(bytes);
        self.write()
    }

    /// The sender has said that there will be nothing more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing more comes, so that the follower of the folder ends.
    pub fn close(&mut self) {
        self.locked = None;
    }

    /// The stream has ended; the error says that it was cut.
    pub fn end(&mut self) -> Result<(), Error> {
        self.close();
        self.decoder.end().map_err(|fault| error(&self.name, fault))
    }

    /// The metadata is there, without which nothing can be read.
    pub fn is_described(&self) -> bool {
        self.is_described
    }

    /// Bytes of packets that were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self) -> Result<(), Error> {
        let Receiver { name, folder, decoder, files, bytes, is_described, is_over, .. } = self;
        loop {
            let next = decoder.next().map_err(|fault| error(name, fault))?;
            let Some((offset, frame)) = next else { return Ok(()) };
            let wrong = |message: String| error(name, Fault { offset, message });
            match frame {
                Frame::Description(text) => {
                    private::replace(&folder.join("metadata"), text)?;
                    *is_described = true;
                }
                Frame::Packets { name: file, offset: at, content } => {
                    let known = files.get(file).copied();
                    let length = known.map_or(0, |known| known.bytes);
                    if at != length {
                        return Err(wrong(format!("packets for byte {at} of {file}, which has {length}")));
                    }
                    if known.is_none() && files.len() >= FILES_MAX {
                        return Err(wrong(format!(
                            "more than {FILES_MAX} files, which is the most that is read"
                        )));
                    }
                    let path = folder.join(file);
                    let appended = append(&path, content, known);
                    let known = appended.map_err(|source| Error::File { path, what: "write", source })?;
                    files.insert(file.to_owned(), known);
                    *bytes += content.len() as u64;
                }
                Frame::Alive => {}
                Frame::End => *is_over = true,
            }
        }
    }
}

fn error(name: &Path, Fault { offset, message }: Fault) -> Error {
    Error::Stream { path: name.to_owned(), offset, message }
}

/// Makes a file with this content, or writes it after what is known of the file. Where there is no room nothing is written.
fn append(path: &Path, content: &[u8], known: Option<Known>) -> io::Result<Known> {
    // Readable, too: to open a FIFO that somebody has put in its place does not wait.
    let mut file = private::options().read(true).append(true).create_new(known.is_none()).open(path)?;
    let about = file.metadata()?;
    let (device, inode) = (about.dev(), about.ino());
    if known.is_some_and(|known| (known.device, known.inode) != (device, inode)) {
        return Err(io::Error::other("another file was put in its place"));
    }
    let bytes = known.map_or(0, |known| known.bytes);
    if let Err(error) = file.write_all(content) {
        // Part of a packet would be damage. Where this fails as well, that is what readers report.
        let _ = file.set_len(bytes);
        return Err(error);
    }
    Ok(Known { bytes: bytes + content.len() as u64, device, inode })
}
