//! [`Files`]: capture files, one after the other, as a source.
//!
//! Interfaces of each section of each file are interfaces of their own; sections, and blocks of kinds that weir does not know, are left out. A packet without a time
//! (a simple packet block) gets that of the packet before it, 0 at first. Where a file claims less on the wire than was captured, what
//! was captured counts.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use weir_pcapng::{Event, Filter, Interface, Reader, Resolution, Statistics};

use crate::error::Error;
use crate::limits::STEP_RECORDS;
use crate::record::Record;
use crate::source::{Counts, Drained, Filtered, Flow, Source, Take};

/// Packets of capture files (pcapng or classic pcap).
pub struct Files {
    left: VecDeque<PathBuf>,
    current: Option<Current>,
    snaplen: u32,
    /// The filter that is said of interfaces.
    filter: Option<String>,
    counts: Vec<Counts>,
    is_stopped: bool,
    open: Open,
}

/// What a file is read from.
pub struct Input {
    /// Its bytes. Once it has given the first 24, it may say that it has nothing yet ([`io::ErrorKind::WouldBlock`]).
    pub bytes: Box<dyn Read>,
    /// Readable when it has more, if it ever says that.
    pub descriptor: Option<OwnedFd>,
}

/// Opens a file, or what a name like `-` stands for.
pub type Open = Box<dyn FnMut(&Path) -> io::Result<Input>>;

struct Current {
    path: PathBuf,
    reader: Reader<Box<dyn Read>>,
    descriptor: Option<OwnedFd>,
    /// The number here of each interface of the section.
    interfaces: Vec<usize>,
    time: u64,
}

impl Files {
    /// Reads these files in this order. `filter` is what is said of interfaces in what is written.
    pub fn new(
        paths: impl IntoIterator<Item = PathBuf>,
        snaplen: u32,
        filter: Option<String>,
        open: Open,
    ) -> Files {
        let left = paths.into_iter().collect();
        Files { left, current: None, snaplen, filter, counts: Vec::new(), is_stopped: false, open }
    }

    fn open(&mut self) -> Result<bool, Error> {
        let Some(path) = self.left.pop_front() else { return Ok(false) };
        let input = (self.open)(&path).map_err(|error| Error::Open { path: path.clone(), error })?;
        let descriptor = input.descriptor;
        match Reader::new(input.bytes) {
            Ok(reader) => {
                self.current = Some(Current { path, reader, descriptor, interfaces: Vec::new(), time: 0 });
                Ok(true)
            }
            Err(error) => Err(Error::Read { path, error }),
        }
    }
}

impl Source for Files {
    fn drain(&mut self, take: &mut dyn Take) -> Result<Drained, Error> {
        if self.is_stopped || self.current.is_none() && !self.open()? {
            return Ok(Drained::Ended);
        }
        let Files { current: Some(current), counts, .. } = self else { return Ok(Drained::Ended) };
        for _ in 0..STEP_RECORDS {
            let event = match current.reader.next() {
                Ok(event) => event,
                Err(error) if error.would_block() => return Ok(Drained::Idle),
                Err(error) => return Err(Error::Read { path: current.path.clone(), error }),
            };
            let Some(event) = event else {
                self.current = None;
                return Ok(Drained::More);
            };
            match event {
                Event::Section(_) | Event::UnknownVersion { .. } => current.interfaces.clear(),
                Event::Interface(_, interface) => {
                    current.interfaces.push(counts.len());
                    // Where the file says none, none are written.
                    counts.push(Counts { of_file: Some(Statistics::default()), ..Counts::default() });
                    take.interface(&rewritten(interface, self.snaplen, self.filter.as_ref()), Filtered::No)?;
                }
                Event::Packet(packet) => {
                    current.time = packet.time.unwrap_or(current.time);
                    let fields = packet.fields;
                    let record = Record {
                        interface: current.interfaces[packet.interface.index()],
                        time: current.time,
                        wire_len: packet.wire_len.max(packet.bytes.len() as u32),
                        bytes: packet.bytes,
                        flags: fields.flags().filter(|flags| !flags.has_reserved()),
                        hash: None,
                        queue: fields.queue(),
                        packet_id: fields.packet_id(),
                        drops: fields.drop_count().unwrap_or(0),
                        is_accepted: false,
                        ifindex: 0,
                        more: (!fields.is_empty()).then_some(fields),
                    };
                    if take.record(&record)? == Flow::Pause {
                        return Ok(Drained::More);
                    }
                }
                Event::Statistics(id, statistics) => {
                    counts[current.interfaces[id.index()]].of_file = Some(statistics.clone());
                }
                Event::Names(names) => take.names(&names)?,
                Event::Secrets { kind, bytes } => take.secrets(kind, bytes)?,
                _ => {}
            }
        }
        Ok(Drained::More)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let descriptor = self.current.as_ref().and_then(|current| current.descriptor.as_ref());
        descriptor.map(|descriptor| descriptor.as_fd()).into_iter().collect()
    }

    fn counts(&mut self) -> Result<Vec<Counts>, Error> {
        Ok(self.counts.clone())
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.is_stopped = true;
        Ok(())
    }
}

/// As it is written: times in nanoseconds, the snapshot length and the filter of this capture.
fn rewritten(interface: &Interface, snaplen: u32, filter: Option<&String>) -> Interface {
    let mut interface = interface.clone();
    // One for all, which tcpdump asks of a file that it reads.
    interface.snaplen = snaplen;
    interface.resolution = Resolution::NANOSECONDS;
    interface.offset_s = 0;
    if let Some(filter) = filter {
        interface.filter = Some(Filter::Text(filter.clone()));
    }
    interface
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("left", &self.left).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}
