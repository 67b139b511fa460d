//! Bytes that were sent → the folder of the trace.
//!
//! In: bytes as they come, hostile. Out: a folder of this receiver's own, locked as long as more may come, as a recorder's is
//! ([`mod@crate::write`]), with what was whole. Nothing else is touched: names of files are plain ones, and an open file is never one that was there before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::limits::FILES_MAX;
use crate::pipe::frame::{Decoder, Fault, Frame};
use crate::private;

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
    /// Bytes of each file of packets.
    files: BTreeMap<String, u64>,
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

    /// Nothing more comes, for whatever reason: who follows the folder knows by that.
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
                    let length = files.get(file).copied();
                    if at != length.unwrap_or(0) {
                        let length = length.unwrap_or(0);
                        return Err(wrong(format!("packets for byte {at} of {file}, which has {length}")));
                    }
                    if length.is_none() && files.len() >= FILES_MAX {
                        return Err(wrong(format!(
                            "more than {FILES_MAX} files, which is the most that is read"
                        )));
                    }
                    append(&folder.join(file), content, length.is_none())?;
                    *files.entry(file.to_owned()).or_default() += content.len() as u64;
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

fn append(path: &Path, content: &[u8], is_new: bool) -> Result<(), Error> {
    let mut options = private::options();
    let opened = options.append(true).create_new(is_new).open(path);
    let written = opened.and_then(|mut file| file.write_all(content));
    written.map_err(|source| Error::File { path: path.to_owned(), what: "write", source })
}
