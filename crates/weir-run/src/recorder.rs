//! Records of events, from the rings to the folder of a trace, or to a pipe.
//!
//! In: the rings, of each CPU one and one more that all share; the clock that says when a tick was. Out: a stream of the trace for each
//! ring that something came through. The fields lie in a record as in a packet, and are copied.
//!
//! Guaranteed: nothing is lost without a count. What a ring had no room for, what a thread that died did not finish and what is no
//! record of an event stands in the stream's packets as discarded; so does, in the stream of the shared ring, what found no scratch
//! memory. Each stream begins with a packet that says that nothing was discarded before.
//!
//! An event is recorded once its packet is written: what a killed weir has said to be recorded is in the trace. Where that cannot be
//! written to any more, what was written before stays whole; that is told at once, and what comes after it is counted, and stands in
//! the streams as discarded if there is room for that.
//!
//! It may go on in another folder: what the rings have by then is in the one before it, what comes then in the new one, and nothing is
//! lost between them. Of what is discarded each folder has what was discarded while it was written.
//!
//! A folder in which nothing was recorded because the run could not begin is removed again.
//!
//! Where the reader of a pipe does not keep up, records stay in the rings until there is room ([`Sender::has_room`]): who fills those discards, and counts,
//! or waits. Nothing here waits for that reader before the end of the recording.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use nix::unistd::{SysconfVar, sysconf};
use weir_codegen::{Compiled, EVENT_BYTES, EVENT_CUT, EVENT_LOST, GLOBAL_NO_SCRATCH};
use weir_event::recorded;
use weir_event::schema::Schema;
use weir_rt::Clock;
use weir_rt::segment::{Aside, RingMark, RingReader, Segment};
use weir_sessions::counts::Counts;
use weir_sessions::recorded::{Place, Recorded};
use weir_sessions::trace;
use weir_trace::class::TraceClass;
use weir_trace::pipe::Sender;
use weir_trace::write::{Folder, Format, Limits, Stream};

use crate::captured::Captured;
use crate::clock::now_ns;
use crate::failure::Failure;
use crate::kept::{self, Kept};
use crate::notice::{Notices, note};
use crate::options::RecordOptions;

/// How large packets become.
pub(super) const PACKET_BYTES: usize = 128 << 10;
/// How long records wait for their packet to be full.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that a record has in its ring beside its own.
const RECORD_HEAD_BYTES: usize = 16;
/// A ring of which more than this part was filled between two readings fills fast.
const BUSY_PART: usize = 8;
/// How often the rings are read before the next folder begins.
const TURNS_OF_ROTATION: usize = 16;
/// Records read of a ring in a row, before the others and all else are looked at.
const RECORDS_PER_TURN: usize = 1 << 16;
/// Records written in a row, before it is looked how far the ring has been filled meanwhile: 0.1 ms, in which the fastest writer fills a tenth of 2 MB.
const RECORDS_PER_LOOK: usize = 1 << 12;
/// The same of records that are only set aside.
const ASIDE_PER_TURN: usize = 1 << 18;
/// A ring of which more than this part is filled is emptied first, and what was in it written after that.
const FULL_PART: usize = 8;
/// What waits outside of rings takes this part of the machine's memory at most, and so many bytes.
const ASIDE_PART: u64 = 32;
const ASIDE_BYTES_MAX: u64 = 1 << 30;
/// The same before a pipe, whose reader has to take it at the end.
const ASIDE_BYTES_OF_PIPE: usize = 64 << 20;
/// How long the end waits for the reader of a pipe that reads nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the whole end waits for it, however much it reads: those who stop services kill after 90 s.
const ENDING_MAX: Duration = Duration::from_secs(30);

/// A trace that is being written.
pub(crate) struct Recorder {
    pub(super) path: PathBuf,
    /// Where it goes in place of that folder.
    pipe: Option<Sender>,
    pub(super) folder: Folder,
    /// Those that were ended before it.
    folders_before: u64,
    pub(super) class: TraceClass,
    pub(super) format: Format,
    pub(super) limits: Limits,
    /// Records in files that gave way to newer ones, in folders before this one.
    removed: u64,
    /// It was made for this trace.
    is_made: bool,
    has_begun: bool,
    reader: recorded::Reader,
    names: Vec<String>,
    pub(super) ring: usize,
    /// Bytes of the ring of a CPU.
    pub(super) ring_bytes: usize,
    /// Bytes of records that may wait outside of rings.
    aside_bytes: usize,
    /// Of some ring so much was read the last time that it should be read sooner the next time.
    is_busy: bool,
    /// How full the fullest ring was when it was read, in percent.
    fill: u64,
    counts: Option<usize>,
    globals: usize,
    /// By ring, once something came through it.
    pub(super) streams: Vec<Lane>,
    /// The ring that is read first the next time.
    first: usize,
    /// By event.
    pub(super) recorded: Vec<u64>,
    /// Of events that ask for a command.
    captured: Option<Captured>,
    bytes: u64,
    flushed: Instant,
    /// Nothing can be written any more.
    pub(super) has_failed: bool,
    /// Where a keeper writes what the rings have if this process is killed.
    pub(super) kept_to: Option<kept::To>,
    /// Once there is one.
    pub(super) kept: Option<Kept>,
    pub(super) notices: Notices,
}

#[derive(Default)]
pub(super) struct Lane {
    pub(super) stream: Option<Stream>,
    /// Records that are none of an event.
    pub(super) malformed: u64,
    /// Of what was lost, that which folders before this one tell of.
    pub(super) lost_before: u64,
    /// By event, those in the open packet; and their bytes of fields.
    open: Vec<u64>,
    open_bytes: u64,
    /// Records that came when nothing could be written any more.
    pub(super) unwritten: u64,
    /// Records that were taken out of the ring and are not written yet: a burst.
    aside: Aside,
}

/// How much may wait outside of rings on this machine.
fn aside_bytes() -> usize {
    let word = |name| sysconf(name).ok().flatten().map_or(0, |word| word as u64);
    let memory = word(SysconfVar::_PHYS_PAGES) * word(SysconfVar::PAGE_SIZE);
    (memory / ASIDE_PART).min(ASIDE_BYTES_MAX) as usize
}

impl Recorder {
    /// Makes the folder, with metadata for the events that `compiled` records, of which the first `context_fields` fields are context.
    pub(crate) fn create(
        options: &RecordOptions,
        compiled: &Compiled,
        context_fields: usize,
        notices: &Notices,
    ) -> Result<Recorder, Failure> {
        let RecordOptions { output: path, pipe, format, limits, blocking, .. } = options;
        let (format, limits) = (*format, *limits);
        let is_made = pipe.is_none() && is_free(path)?;
        let kept_to = kept::folder(options)?;
        let class = trace::class(&compiled.schema.events, context_fields, &[]).map_err(Failure::Machine)?;
        let (folder, option) = match pipe {
            None => (Folder::create(path, &class, format), "-o"),
            Some(pipe) => (Folder::send(pipe, &class, format), "--to"),
        };
        let folder = folder.map_err(|error| Failure::Refused(anyhow!(error).context(option)))?;
        let aside_bytes = match (blocking, pipe) {
            (Some(_), _) => 0,
            (None, None) => aside_bytes(),
            (None, Some(_)) => aside_bytes().min(ASIDE_BYTES_OF_PIPE),
        };
        Ok(Recorder {
            path: path.to_owned(),
            pipe: pipe.clone(),
            folder,
            folders_before: 0,
            class,
            format,
            limits,
            removed: 0,
            is_made,
            has_begun: false,
            reader: recorded::Reader::new(&compiled.schema.events),
            names: compiled.schema.events.iter().map(full_name).collect(),
            ring: compiled.ring as usize,
            ring_bytes: compiled.object.maps[compiled.ring as usize].max_entries as usize,
            aside_bytes,
            is_busy: false,
            fill: 0,
            counts: compiled.events.map(|map| map as usize),
            globals: compiled.globals as usize,
            streams: Vec::new(),
            first: 0,
            recorded: vec![0; compiled.schema.events.len()],
            captured: None,
            bytes: 0,
            flushed: Instant::now(),
            has_failed: false,
            kept_to,
            kept: None,
            notices: notices.clone(),
        })
    }

    /// From now on what is in the rings is written as it comes, which takes less in all: where who fills them waits for room, and at the end.
    pub(crate) fn set_nothing_aside(&mut self) {
        self.aside_bytes = 0;
    }

    /// The last events are in the rings: from here on the reader of a pipe has so long to take what is left.
    pub(crate) fn set_ending(&self) {
        if let Some(pipe) = &self.pipe {
            pipe.set_deadline(Instant::now() + ENDING_MAX);
        }
    }

    /// Probes are in.
    pub(crate) fn begins(&mut self) {
        self.has_begun = true;
    }

    /// Writes what is in the rings now; with `is_over` also what is behind records that nobody will finish. Whether there may be more.
    pub(crate) fn drain(&mut self, segment: &Segment, clock: Option<&Clock>, is_over: bool) -> bool {
        self.is_busy = false;
        let mut is_more = false;
        let rings = segment.ring(self.ring).rings();
        self.streams.resize_with(rings, Lane::default);
        let (first, mut had_room) = (self.first, true);
        for lane in (first..rings).chain(0..first) {
            is_more |= self.drain_lane(segment, lane, clock, is_over);
            if had_room && !self.has_room() {
                // The others come first the next time.
                (had_room, self.first) = (false, (lane + 1) % rings);
            }
        }
        if !had_room {
            self.is_busy = true;
            return false;
        }
        if self.flushed.elapsed() >= FLUSH_INTERVAL && !self.has_failed {
            self.flushed = Instant::now();
            self.look_after_keeper();
            let flushed = (0..rings).try_for_each(|lane| self.flush(lane));
            self.look(flushed);
            let known = self.pipe.as_ref().map_or(Ok(()), Sender::fault);
            self.look(known);
        }
        is_more
    }

    /// Whether there is a use in reading records now. Where nothing can be written any more they are counted.
    fn has_room(&self) -> bool {
        self.has_failed || self.pipe.as_ref().is_none_or(Sender::has_room)
    }

    /// At the end of a recording: waits for the reader of a pipe, if there is no room; whether there was none. One that reads nothing in [`PATIENCE`] ends the trace.
    pub(crate) fn waits_for_room(&mut self) -> bool {
        let Some(pipe) = self.pipe.as_ref().filter(|_| !self.has_room()) else { return false };
        let waited = pipe.wait_for_room(PATIENCE);
        self.look(waited);
        true
    }

    /// What was recorded so far, for the daemon of sessions.
    pub(crate) fn counts(&self, segment: &Segment) -> Counts {
        let lost = |lane: usize| self.lost(segment, lane, &segment.ring(self.ring).lane(lane));
        let discarded = (0..self.streams.len()).map(lost).sum();
        let mut counts =
            Counts { discarded, bytes: self.bytes, has_failed: self.has_failed, ..Counts::default() };
        for (name, recorded, discarded, cut) in self.of_events(segment) {
            if recorded > 0 || discarded > 0 {
                // Events of one name that have other fields are one to people.
                let of = counts.events.entry(name).or_default();
                (of.recorded, of.discarded, of.cut) =
                    (of.recorded + recorded, of.discarded + discarded, of.cut + cut);
            }
        }
        counts
    }

    /// By event: its name, records, records that the ring had no room for; texts and sequences that were cut.
    fn of_events(&self, segment: &Segment) -> Vec<(String, u64, u64, u64)> {
        let values =
            self.counts.and_then(|map| segment.map(map).lookup(&0u32.to_le_bytes())).unwrap_or_default();
        let count = |event: usize, what: i32| {
            let word = values.get(event * EVENT_BYTES as usize + what as usize..);
            word.and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
        };
        let events = self.names.iter().zip(&self.recorded).enumerate();
        let events = events.map(|(event, (name, recorded))| {
            (name.clone(), *recorded, count(event, EVENT_LOST), count(event, EVENT_CUT))
        });
        events.collect()
    }

    /// Whether the rings fill fast: they had better be read again soon.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// How full the fullest ring was before it was read, since this was asked last; in percent.
    pub(crate) fn take_fill(&mut self) -> u64 {
        std::mem::take(&mut self.fill)
    }

    /// Whether all is read that was in the rings at `mark`, which is now where it is none yet. What came since then and waits outside of them does count as unread.
    pub(crate) fn has_read(&self, segment: &Segment, mark: &mut Option<RingMark>) -> bool {
        let ring = segment.ring(self.ring);
        let is_read = ring.has_read(mark.get_or_insert_with(|| ring.mark()));
        is_read && self.streams.iter().all(|lane| lane.aside.is_empty())
    }

    /// The newest event that has asked for a command since this was asked last.
    pub(crate) fn take_captured(&mut self) -> Option<Captured> {
        self.captured.take()
    }

    /// Whether there is no use in going on.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn drain_lane(&mut self, segment: &Segment, lane: usize, clock: Option<&Clock>, is_over: bool) -> bool {
        let mut ring = segment.ring(self.ring).lane(lane);
        self.fill = self.fill.max((ring.filled() * 100 / self.ring_bytes as u64).min(100));
        let (bytes, is_more) = match self.kept {
            None => self.drain_ring(&mut ring, lane, clock),
            Some(_) => self.drain_kept(segment, lane, clock),
        };
        self.is_busy |= bytes > self.ring_bytes / BUSY_PART;
        if is_more {
            return true;
        }
        if is_over {
            for record in ring.drain_dead() {
                self.record(lane, &record.bytes, record.ticks, clock);
            }
            if self.kept.is_some() {
                self.flush_kept(segment, lane, ring.position());
            }
        }
        let lost = self.lost(segment, lane, &ring).saturating_sub(self.streams[lane].lost_before);
        if lost > 0 && !self.has_failed {
            let told = self.stream(lane, now_ns()).map(|stream| stream.lost(lost));
            self.look(told);
        }
        false
    }

    /// Writes what is in a ring, or waits beside it. Bytes of records; whether there may be more.
    fn drain_ring(&mut self, ring: &mut RingReader<'_>, lane: usize, clock: Option<&Clock>) -> (usize, bool) {
        let mut aside = std::mem::take(&mut self.streams[lane].aside);
        let (mut bytes, mut taken, mut moved) = (0, 0, 0);
        while taken < RECORDS_PER_TURN && moved < ASIDE_PER_TURN {
            match self.set_aside(ring, &mut aside, 0) {
                0 => {}
                // It fills as fast as it is emptied.
                more => {
                    moved += more;
                    continue;
                }
            }
            if !self.has_room() {
                break;
            }
            let write = |record: &[u8], ticks| {
                self.record(lane, record, ticks, clock);
                bytes += record.len() + RECORD_HEAD_BYTES;
            };
            let is_of_ring = aside.is_empty();
            let written = match is_of_ring {
                true => ring.each(RECORDS_PER_LOOK, write),
                false => aside.each(RECORDS_PER_LOOK, write),
            };
            taken += written;
            if written < RECORDS_PER_LOOK && is_of_ring {
                break;
            }
        }
        let is_more = taken >= RECORDS_PER_TURN || !aside.is_empty() || !self.has_room();
        self.streams[lane].aside = aside;
        (bytes, is_more)
    }

    /// Empties a ring that fills fast; how many records that were. `more`: bytes that wait elsewhere.
    fn set_aside(&self, ring: &mut RingReader<'_>, aside: &mut Aside, more: usize) -> usize {
        if ring.filled() as usize <= self.ring_bytes / FULL_PART {
            return 0;
        }
        let others: usize = self.streams.iter().map(|lane| lane.aside.bytes()).sum();
        ring.set_aside(self.aside_bytes.saturating_sub(others + more + aside.bytes()), aside)
    }

    /// Writes all that waits outside of rings. These do not fill meanwhile: what comes waits in turn.
    pub(crate) fn write_aside(&mut self, segment: &Segment, clock: Option<&Clock>) {
        for lane in 0..self.streams.len() {
            let mut before = std::mem::take(&mut self.streams[lane].aside);
            while !before.is_empty() {
                self.waits_for_room();
                before.each(RECORDS_PER_LOOK, |record, ticks| self.record(lane, record, ticks, clock));
                for other in 0..self.streams.len() {
                    let mut aside = std::mem::take(&mut self.streams[other].aside);
                    self.set_aside(&mut segment.ring(self.ring).lane(other), &mut aside, before.bytes());
                    self.streams[other].aside = aside;
                }
            }
        }
    }

    /// What this ring's stream has lost so far.
    fn lost(&self, segment: &Segment, lane: usize, ring: &RingReader<'_>) -> u64 {
        let counters = ring.counters();
        let is_shared = lane + 1 == self.streams.len();
        let no_scratch = if is_shared { word(segment, self.globals, GLOBAL_NO_SCRATCH) } else { 0 };
        let malformed = self.streams[lane].malformed;
        // Some of these the traced processes can write.
        let of_ring = [counters.dropped, counters.uncommitted, counters.corrupt, malformed, no_scratch];
        of_ring.into_iter().fold(0, u64::saturating_add)
    }

    pub(super) fn record(&mut self, lane: usize, bytes: &[u8], ticks: u64, clock: Option<&Clock>) {
        let Some((event, fields)) = self.reader.fields(bytes) else {
            self.streams[lane].malformed += 1;
            return;
        };
        if self.has_failed {
            self.streams[lane].unwritten += 1;
            return;
        }
        // A process that may not read the counter has no times of its own.
        let known = clock.filter(|_| ticks != 0).and_then(|clock| clock.ns(ticks));
        let time = known.unwrap_or_else(now_ns);
        if recorded::is_marked(bytes) {
            Captured::note(&mut self.captured, event, time, fields);
        }
        let put = self.stream(lane, time).and_then(|stream| {
            stream.record(event, time, &[fields])?;
            Ok(stream.open())
        });
        match put {
            Ok(open) => {
                if open == 1 {
                    // It is the first of its packet: those before it are written.
                    self.settle(lane);
                }
                let lane = &mut self.streams[lane];
                lane.open[event as usize] += 1;
                lane.open_bytes += fields.len() as u64;
            }
            Err(error) => {
                self.streams[lane].unwritten += 1;
                self.look(Err(error));
            }
        }
    }

    /// Writes the open packet of a ring's stream.
    pub(super) fn flush(&mut self, lane: usize) -> Result<(), weir_trace::Error> {
        let Some(stream) = &mut self.streams[lane].stream else { return Ok(()) };
        stream.flush()?;
        self.settle(lane);
        Ok(())
    }

    /// What was in the open packet is written.
    pub(super) fn settle(&mut self, lane: usize) {
        let lane = &mut self.streams[lane];
        for (recorded, open) in self.recorded.iter_mut().zip(&mut lane.open) {
            *recorded += std::mem::take(open);
        }
        self.bytes += std::mem::take(&mut lane.open_bytes);
    }

    /// The stream of a ring, which begins at `time` if it is new.
    fn stream(&mut self, lane: usize, time: u64) -> Result<&mut Stream, weir_trace::Error> {
        let of = &mut self.streams[lane];
        if of.stream.is_none() {
            let file_bytes = self.limits.file_bytes.map_or(usize::MAX, |bytes| bytes as usize);
            // What is kept is written when all that was looked at is in its packet.
            let most = if self.kept.is_some() { usize::MAX } else { PACKET_BYTES.min(file_bytes) };
            let (name, packet_bytes) = (format!("stream_{lane}"), most);
            let new = self.folder.stream(&name, 0, lane as u64, lane as u32, packet_bytes)?;
            let mut new = new.in_files(self.limits);
            // babeltrace2 takes packets of several files by when they begin, and confuses those that begin at one time.
            let begin = if self.limits.file_bytes.is_some() { time.saturating_sub(1) } else { time };
            new.packet(&[], begin, begin)?;
            of.stream = Some(new);
            of.open = vec![0; self.recorded.len()];
        }
        // SANITY: it was just made.
        Ok(of.stream.as_mut().expect("a stream"))
    }

    /// Goes on in the folder of this name beside the one that is written. Where that cannot be made, nothing has changed.
    pub(crate) fn rotate(
        &mut self,
        name: &str,
        segment: &Segment,
        clock: Option<&Clock>,
    ) -> Result<&Path, Failure> {
        if self.has_failed {
            return Err(Failure::Machine(anyhow!("nothing can be written any more")));
        }
        if self.pipe.is_some() {
            return Err(Failure::Refused(anyhow!("a pipe has one trace, and no next folder")));
        }
        let path = self.path.with_file_name(name);
        is_free(&path)?;
        self.class.uuid = Some(trace::new_uuid().map_err(Failure::Machine)?);
        let folder = Folder::create(&path, &self.class, self.format);
        let folder =
            folder.inspect_err(|_| discard(&path, true)).map_err(|error| Failure::Machine(anyhow!(error)))?;
        // A writer that goes on while this reads is not read for ever.
        for _ in 0..TURNS_OF_ROTATION {
            if !self.drain(segment, clock, false) {
                break;
            }
        }
        self.write_aside(segment, clock);
        for lane in 0..self.streams.len() {
            self.end_stream(segment, lane);
        }
        if self.has_failed {
            drop(folder);
            discard(&path, true);
            return Err(Failure::Machine(anyhow!("the folder before it could not be written to its end")));
        }
        (self.folder, self.path) = (folder, path);
        self.folders_before += 1;
        Ok(&self.path)
    }

    /// Ends the stream of a ring, if there is one. How much was lost of it so far.
    pub(super) fn end_stream(&mut self, segment: &Segment, lane: usize) -> u64 {
        let in_all = self.lost(segment, lane, &segment.ring(self.ring).lane(lane));
        let lost = in_all.saturating_sub(self.streams[lane].lost_before);
        if let Some(stream) = self.streams[lane].stream.as_mut().filter(|_| !self.has_failed) {
            stream.lost(lost);
            let flushed = self.flush(lane);
            self.look(flushed);
        }
        let of = &mut self.streams[lane];
        of.unwritten += of.stream.as_mut().map_or(0, Stream::give_up);
        if let Some(mut stream) = of.stream.take() {
            of.lost_before = in_all;
            stream.lost(lost + of.unwritten);
            self.removed += stream.removed();
            let finished = stream.finish(now_ns()).map(drop);
            self.look(finished);
            self.told_kept(lane, in_all);
        }
        in_all
    }

    /// Ends all streams. And what it came to, for the daemon of sessions.
    pub(crate) fn finish(mut self, segment: &Segment) -> (Recorded, Counts) {
        self.has_begun = true;
        let discarded = (0..self.streams.len()).map(|lane| self.end_stream(segment, lane)).sum();
        let ended = self.pipe.as_ref().filter(|_| !self.has_failed).map(|pipe| pipe.finish(PATIENCE));
        self.look(ended.unwrap_or(Ok(())));
        let unwritten = self.streams.iter().map(|lane| lane.unwritten).sum();
        let counts = self.counts(segment);
        let place = match &self.pipe {
            Some(pipe) => Place::Pipe(pipe.name().to_owned()),
            None => Place::Folder(self.path.clone()),
        };
        let recorded = Recorded {
            place,
            folders_before: self.folders_before,
            events: self.of_events(segment),
            discarded,
            bytes: self.bytes,
            unwritten,
            removed: self.removed,
            has_failed: self.has_failed,
        };
        (recorded, counts)
    }

    /// Tells what went wrong, the first time.
    pub(super) fn look(&mut self, done: Result<(), weir_trace::Error>) {
        if let Err(error) = done
            && !self.has_failed
        {
            self.has_failed = true;
            let then = match self.path.join("metadata").exists() {
                _ if self.pipe.is_some() => "what its reader has by now is whole, the trace ends there",
                true => "what was written before is whole, the trace ends there",
                false => "the trace is gone, and nothing is recorded any more",
            };
            note!(self.notices, Recording, "{:#}; {then}", anyhow!(error));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.pipe.is_none() && !self.has_begun && self.streams.iter().all(|lane| lane.stream.is_none()) {
            discard(&self.path, self.is_made);
        }
    }
}

/// Removes a trace without events; its folder stays where it was there before.
pub(super) fn discard(path: &Path, is_made: bool) {
    for name in ["metadata", ".metadata"] {
        let _ = fs::remove_file(path.join(name));
    }
    if is_made {
        let _ = fs::remove_dir(path);
    }
}

/// Whether the folder is still to be made; else it is empty.
pub(super) fn is_free(path: &Path) -> Result<bool, Failure> {
    let shown = path.display();
    let refused = |what: &str| Err(Failure::Refused(anyhow!("-o {shown}: {what}")));
    match fs::read_dir(path) {
        Ok(entries) => match entries.count() {
            0 => Ok(false),
            _ => refused(
                "it is not empty; a trace wants a folder of its own: name another, or remove this one",
            ),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => refused("it is there and no folder"),
        Err(error) => Err(Failure::Refused(anyhow!(error).context(format!("-o {shown}")))),
    }
}

pub(super) fn full_name(event: &Schema) -> String {
    format!("{}:{}", event.provider, event.event)
}

/// A word of the one value of an array map.
pub(super) fn word(segment: &Segment, map: usize, offset: i32) -> u64 {
    let value = segment.map(map).lookup(&0u32.to_le_bytes()).unwrap_or_default();
    let word = value.get(offset as usize..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}
