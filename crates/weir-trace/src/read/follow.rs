//! Traces that are being written → the same messages as of whole ones, as they come.
//!
//! In: folders as of [`Reader`], whose files grow and become more, and the moments at which they are looked at. Out: what can be shown at each
//! moment, in the order of time.
//!
//! - Packets are read when they are whole: what the file has of the last one may be a part of it.
//! - The first of all events is shown when no stream can bring an older one: when each has something later, or has told its time since
//!   in a packet; at the latest [`HOLD`] after it came into the file. Streams may be idle for hours, and say nothing.
//! - What comes later still is shown when it comes, and counted ([`Follower::late`]).
//! - Files are measured first and the folder is listed then: a stream that was there before what is read is known.
//! - A trace of weir's is over when nobody has its folder locked ([`mod@crate::write`]). How long others go on nobody knows.
//!
//! - Metadata that grow are read again, behind the files' lengths: tracers describe an event before they write one. New events, and
//!   streams, go on where the old ones end ([`extends`]).
//!
//! Deliberately not: metadata that change otherwise. What only such would describe ends its stream.

use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::class::{Role, StreamClass, TraceClass, Value};
use crate::ctf2;
use crate::error::Error;
use crate::limits::{FILES_MAX, HOLD};
use crate::read::merge::{Message, Reader};
use crate::read::plan::{self, Plans, Style};
use crate::read::stream::{self, Part, Step, Stream};
use crate::read::{folder, metadata};
use crate::write;

/// Reads traces that are being written.
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    /// By stream: how far its files went when they were looked at, each with the moment, as far as that is not read.
    seen: Vec<VecDeque<Seen>>,
    /// By trace and folder: bytes of the metadata that were looked at.
    described: Vec<Vec<u64>>,
    now: Instant,
    is_over: bool,
    /// The least time that an idle stream may still bring, by how many streams are not idle.
    horizon: Option<(usize, i64)>,
    shown: Option<i64>,
    late: u64,
}

/// So much of the file was there at this moment.
#[derive(Clone, Copy, Debug)]
struct Seen {
    part: usize,
    bytes: u64,
    at: Instant,
}

impl Follower {
    /// All traces at or below these places, from their beginning.
    ///
    /// # Errors
    /// As of [`Reader::open`]; and packets that do not say how long they are cannot be told from those that are still written.
    pub fn open(places: &[PathBuf], now: Instant) -> Result<Follower, Error> {
        let mut reader = Reader::open(places)?;
        // The bytes that it has read are not known: what has come since is looked at below.
        let described = reader.traces.iter().map(|trace| vec![0; trace.folders.len()]).collect();
        for trace in &reader.traces {
            if let Some(stream) = trace.class.streams.iter().find(|stream| !is_sized(&trace.class, stream)) {
                let path = trace.folders.first().map(|folder| folder.join("metadata")).unwrap_or_default();
                let message = format!(
                    "packets of stream {} do not say how long they are: they cannot be followed",
                    stream.id
                );
                return Err(Error::Class { path, message });
            }
        }
        // What cannot be read yet is looked at again.
        reader.damaged.clear();
        let mut seen = Vec::new();
        for (_, _, stream) in &mut reader.streams {
            stream.is_growing = true;
            seen.push(marks(stream, now));
        }
        let mut follower =
            Follower { reader, seen, described, now, is_over: false, horizon: None, shown: None, late: 0 };
        follower.describe()?;
        follower.look(now)?;
        Ok(follower)
    }

    /// The classes of the traces that are read.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Looks at what has come; whether there are classes among it, which [`Follower::reader`] has in other places from now on.
    pub fn look(&mut self, now: Instant) -> Result<bool, Error> {
        self.now = now;
        self.horizon = None;
        self.reader.settle();
        // Whoever is gone now has written what is found now.
        let is_over = self.reader.traces.iter().all(|trace| {
            is_of_weir(&trace.class) && !trace.folders.iter().any(|folder| write::is_written(folder))
        });
        self.measure()?;
        let has_classes = self.describe()?;
        for trace in 0..self.reader.traces.len() {
            self.list(trace, is_over)?;
        }
        if is_over {
            self.is_over = true;
            self.reader.streams.iter_mut().for_each(|(.., stream)| stream.is_growing = false);
        }
        (0..self.reader.streams.len()).for_each(|index| self.wake(index));
        Ok(has_classes)
    }

    /// What is next, as far as it can be shown by now.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows the reader")]
    pub fn next(&mut self) -> Option<Message<'_>> {
        self.reader.settle();
        if self.reader.damaged.is_empty() {
            let Reverse((time, index)) = *self.reader.heap.peek()?;
            if !self.is_over && !self.may_be_shown(time, index) {
                return None;
            }
            // A loss stands where it began, which may be long ago.
            if self.reader.steps[index] == Step::Event {
                self.late += u64::from(time.is_some() && time < self.shown);
                self.shown = self.shown.max(time);
            }
        }
        self.reader.next()
    }

    /// Nothing more will come: all that there is can be shown.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends it, whoever goes on writing: what was there at the last look can be shown.
    pub fn stop(&mut self) {
        self.is_over = true;
    }

    /// Events that came so late that later ones had been shown.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Files of streams, with how many of their bytes were read and will not be again.
    pub fn read_so_far(&self) -> impl Iterator<Item = (&Path, u64)> {
        let streams = self.reader.streams.iter().map(|(.., stream)| stream);
        streams.flat_map(|stream| {
            let (now, begin) = stream.position();
            let read = move |part: usize, bytes: u64| match part.cmp(&now) {
                Ordering::Less => bytes,
                Ordering::Equal => begin,
                Ordering::Greater => 0,
            };
            let parts = stream.parts.iter().enumerate();
            parts.map(move |(part, of)| (of.path.as_path(), read(part, of.bytes)))
        })
    }

    fn may_be_shown(&mut self, time: Option<i64>, index: usize) -> bool {
        let Some(time) = time else { return true };
        let busy = self.reader.heap.len();
        let horizon = match self.horizon {
            Some((known, horizon)) if known == busy => horizon,
            _ => {
                let horizon = self.idle().min().unwrap_or(i64::MAX);
                self.horizon = Some((busy, horizon));
                horizon
            }
        };
        if time <= horizon {
            return true;
        }
        let seen = &mut self.seen[index];
        forget(&self.reader.streams[index].2, seen);
        seen.front().is_none_or(|seen| self.now.saturating_duration_since(seen.at) >= HOLD)
    }

    /// The time before which each stream that has nothing now will bring nothing.
    fn idle(&self) -> impl Iterator<Item = i64> {
        let mut is_busy = vec![false; self.reader.streams.len()];
        self.reader.heap.iter().for_each(|Reverse((_, index))| is_busy[*index] = true);
        let idle = self
            .reader
            .streams
            .iter()
            .zip(is_busy)
            .filter(|((_, _, stream), is_busy)| stream.is_growing && !is_busy);
        idle.filter_map(|((trace, _, stream), _)| {
            let class = &self.reader.traces[*trace].class;
            let clock = &class.clocks[class.streams[stream.class].clock?];
            clock.ns(stream.state.clock)
        })
    }

    /// Has a stream go on that was at its end.
    fn wake(&mut self, index: usize) {
        if self.reader.heap.iter().any(|Reverse((_, busy))| *busy == index) {
            return;
        }
        if self.reader.streams[index].2.is_damaged {
            return;
        }
        if let Some(time) = self.reader.step(index) {
            self.reader.heap.push(Reverse((time, index)));
        }
    }

    /// How long files are by now.
    fn measure(&mut self) -> Result<(), Error> {
        for ((.., stream), seen) in self.reader.streams.iter_mut().zip(&mut self.seen) {
            grown(stream, seen, self.now)?;
        }
        Ok(())
    }

    /// Reads metadata again that have become more; whether there are new classes in them.
    fn describe(&mut self) -> Result<bool, Error> {
        let mut has_classes = false;
        for (of, (trace, described)) in self.reader.traces.iter_mut().zip(&mut self.described).enumerate() {
            for (folder, described) in trace.folders.iter().zip(described) {
                let path = folder.join("metadata");
                let about = fs::metadata(&path);
                let about =
                    about.map_err(|source| Error::File { path: path.clone(), what: "look at", source })?;
                if about.len() == *described {
                    continue;
                }
                // What is being written may end anywhere.
                let Ok(class) = metadata::read(&path) else { continue };
                *described = about.len();
                let Some(plans) = extends(&trace.class, &trace.plans, &class) else { continue };
                (trace.class, trace.plans) = (class, plans);
                for (.., stream) in self.reader.streams.iter_mut().filter(|(trace, ..)| *trace == of) {
                    stream.state.registers.resize(trace.plans.streams[stream.class].registers, 0);
                }
                has_classes = true;
            }
        }
        Ok(has_classes)
    }

    /// Files that are new in the folders of a trace.
    fn list(&mut self, trace: usize, is_over: bool) -> Result<(), Error> {
        let mut new: Vec<Part> = Vec::new();
        for folder in &self.reader.traces[trace].folders {
            let mut parts = folder::parts(folder)?;
            let known = self.reader.streams.iter().filter(|(of, ..)| *of == trace);
            let known: Vec<&PathBuf> =
                known.flat_map(|(.., stream)| &stream.parts).map(|part| &part.path).collect();
            parts.retain(|part| !known.contains(&&part.path));
            new.extend(parts);
        }
        for part in new {
            let Reader { traces, streams, damaged, .. } = &mut self.reader;
            let of = &traces[trace];
            let first = match stream::first(&of.class, &of.plans, &part) {
                Ok(first) => first,
                // Its first packet is not there yet.
                Err(error) => {
                    if is_over {
                        damaged.push(error);
                    }
                    continue;
                }
            };
            if streams.len() >= FILES_MAX {
                return Err(Error::TooMuch { path: part.path, what: "files", limit: FILES_MAX as u64 });
            }
            let count = streams.iter().filter(|(of, ..)| *of == trace).count() as u64;
            let id = first.id.unwrap_or(count);
            let key = |(trace, id, stream): &(usize, u64, Stream)| (*trace, stream.class, *id);
            match streams.binary_search_by_key(&(trace, first.class, id), key) {
                Ok(index) if first.id.is_some() => {
                    let (.., stream) = &mut streams[index];
                    // It was not written to any more when the new one was begun.
                    grown(stream, &mut self.seen[index], self.now)?;
                    stream.parts.push(part);
                    self.seen[index].extend(marks(stream, self.now).pop_back());
                }
                Ok(index) | Err(index) => {
                    let registers = of.plans.streams[first.class].registers;
                    let mut stream = Stream::new(first.class, vec![part], registers);
                    stream.is_growing = true;
                    self.seen.insert(index, marks(&stream, self.now));
                    streams.insert(index, (trace, id, stream));
                    self.reader.steps.insert(index, Step::End);
                    // Those behind it have another index now.
                    let moved = |Reverse((time, at)): Reverse<(Option<i64>, usize)>| {
                        Reverse((time, at + usize::from(at >= index)))
                    };
                    self.reader.heap = std::mem::take(&mut self.reader.heap).into_iter().map(moved).collect();
                }
            }
        }
        Ok(())
    }
}

/// How long the last file of the stream is by now.
fn grown(stream: &mut Stream, seen: &mut VecDeque<Seen>, at: Instant) -> Result<(), Error> {
    let part = stream.parts.len() - 1;
    let last = &mut stream.parts[part];
    let about = fs::metadata(&last.path);
    let about = about.map_err(|source| Error::File { path: last.path.clone(), what: "look at", source })?;
    if about.len() != last.bytes {
        last.bytes = about.len();
        seen.push_back(Seen { part, bytes: last.bytes, at });
        forget(stream, seen);
    }
    Ok(())
}

/// Forgets what ends before the packet that is read.
fn forget(stream: &Stream, seen: &mut VecDeque<Seen>) {
    while seen.front().is_some_and(|seen| (seen.part, seen.bytes) <= stream.position()) {
        seen.pop_front();
    }
}

/// Its files as they are now.
fn marks(stream: &Stream, at: Instant) -> VecDeque<Seen> {
    stream.parts.iter().enumerate().map(|(part, of)| Seen { part, bytes: of.bytes, at }).collect()
}

/// The plans of `new`, if it has all that `old` has, each class under the same index, and more. A packet that was begun must go on:
/// what events refer to in its context must be the same.
fn extends(old: &TraceClass, plans: &Plans, new: &TraceClass) -> Option<Plans> {
    if old == new {
        return None;
    }
    let mut common = new.clone();
    common.streams.truncate(old.streams.len());
    for (stream, old) in common.streams.iter_mut().zip(&old.streams) {
        stream.events.truncate(old.events.len());
    }
    let all = (common == *old).then(|| plan::compile(new, Style::Fast).ok())??;
    let is_same = all.header == plans.header
        && all.streams.iter().zip(&plans.streams).all(|(new, old)| new.context == old.context);
    is_same.then_some(all)
}

fn is_of_weir(class: &TraceClass) -> bool {
    let tracer = class.environment.iter().find(|(name, _)| name == "tracer_name");
    matches!(tracer, Some((_, Value::Str(name))) if name == "weir")
}

/// Whether packets of the stream say where they end.
fn is_sized(trace: &TraceClass, stream: &StreamClass) -> bool {
    let has = |role| stream.packet_context.as_ref().is_some_and(|field| ctf2::has_role(&field.class, role));
    has(Role::PacketLength) || trace.is_unpadded && has(Role::ContentLength)
}
