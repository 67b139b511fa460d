//! kept: rings that outlive a weir that is killed (`--shm-dir`).
//!
//! In: a recorder and its rings, at the start of a recording. While it goes on, how far each ring is written, in words that a keeper shares ([`Progress`]): here a
//! packet is written before its records leave the ring. Out: where weir is killed, the keeper writes what the rings have to a trace of its own.
//!
//! Guaranteed: each event is in one of both traces, and what was discarded is told once; what was half written at the end of a file is taken off it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nix::unistd::{AccessFlags, access};
use weir_probe::keeper::{Keeper, Words};
use weir_rt::Clock;
use weir_rt::segment::Segment;
use weir_sessions::trace;
use weir_trace::write::progress::{Found, Progress};
use weir_trace::write::{Folder, Limits, Stream};

use crate::failure::Failure;
use crate::notice::{Notices, note};
use crate::options::RecordOptions;
use crate::recorder::{Lane, PACKET_BYTES, Recorder, discard};

/// How long programs have to finish the records that they are writing, and how often the rings are read meanwhile.
const TURNS: usize = 20;
const TURN: Duration = Duration::from_millis(10);

/// What a recorder has, whose rings are kept.
pub(super) struct Kept {
    words: Arc<Words>,
    /// None once it has been reported that somebody has ended it.
    keeper: Option<Keeper>,
}

/// Where a keeper's trace goes, and what it is reported with.
#[derive(Clone)]
pub(super) struct To {
    folder: PathBuf,
    report: fn(&str),
}

/// Where a keeper's trace is to go, in a folder that is made if it is not there.
pub(super) fn folder(options: &RecordOptions) -> Result<Option<To>, Failure> {
    let Some(directory) = &options.shm_dir else { return Ok(None) };
    let shown = directory.display();
    let refused =
        |error: std::io::Error| Failure::Refused(anyhow!(error).context(format!("--shm-dir {shown}")));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    access(directory, AccessFlags::W_OK | AccessFlags::X_OK).map_err(|error| refused(error.into()))?;
    let directory = std::path::absolute(directory).map_err(refused)?;
    let of_output = options.output.file_name().map_or("trace".into(), |name| name.to_string_lossy());
    let name = options.session.as_deref().unwrap_or(&of_output);
    let folder = directory.join(format!("{name}-{}", std::process::id()));
    Ok(Some(To { folder, report: options.shm_report }))
}

impl Recorder {
    /// Has a process beside this one keep the rings.
    pub(super) fn keep(&mut self, segment: &Segment) -> Result<(), Failure> {
        let Some(To { folder, report }) = self.kept_to.clone() else { return Ok(()) };
        let rings = segment.ring(self.ring).rings();
        let started = Words::new(rings * Progress::WORDS).map(Arc::new).and_then(|words| {
            let keeper = Keeper::start(|| report(&self.take_over(segment, &words, &folder)))?;
            Ok((words, keeper))
        });
        let (words, keeper) =
            started.context("--shm-dir: a process that keeps the rings").map_err(Failure::Machine)?;
        self.kept = Some(Kept { words, keeper: Some(keeper) });
        self.set_nothing_aside();
        Ok(())
    }

    /// Writes what is in a ring now, packet by packet, and then gives its room back. Bytes of records; whether there may be more.
    pub(super) fn drain_kept(
        &mut self,
        segment: &Segment,
        lane: usize,
        clock: Option<&Clock>,
    ) -> (usize, bool) {
        let mut ring = segment.ring(self.ring).lane(lane);
        let (start, packet) =
            (ring.position(), self.limits.file_bytes.unwrap_or(u64::MAX).min(PACKET_BYTES as u64));
        self.settle_at(segment, lane, start);
        while ring.position().wrapping_sub(start) < self.ring_bytes as u64 {
            let end = ring.look(packet, |record, ticks| self.record(lane, record, ticks, clock));
            if end == ring.position() {
                return (end.wrapping_sub(start) as usize, false);
            }
            self.flush_kept(segment, lane, end);
            ring.release(end);
        }
        (self.ring_bytes, true)
    }

    /// Writes the open packet, which has all of a ring that is before `end`.
    pub(super) fn flush_kept(&mut self, segment: &Segment, lane: usize, end: u64) {
        let Some(kept) = &self.kept else { return };
        let (progress, of) = (Progress::of(&kept.words, lane), &mut self.streams[lane]);
        let stream = of.stream.as_mut().filter(|_| !self.has_failed);
        let done = stream.map_or(Ok(()), |stream| stream.flush_noted(&progress, end, of.lost_before));
        if done.is_err() {
            of.unwritten += of.stream.as_mut().map_or(0, Stream::give_up);
        }
        // What is in no packet by now is counted.
        self.settle_at(segment, lane, end);
        match done {
            Ok(()) => self.settle(lane),
            Err(_) => self.look(done),
        }
    }

    /// Others may have skipped what held up a ring.
    pub(super) fn settle_kept(&self, segment: &Segment) {
        for lane in 0..self.streams.len() {
            self.settle_at(segment, lane, segment.ring(self.ring).lane(lane).position());
        }
    }

    fn settle_at(&self, segment: &Segment, lane: usize, position: u64) {
        let Some(kept) = &self.kept else { return };
        let (progress, of) = (Progress::of(&kept.words, lane), &self.streams[lane]);
        let counters = segment.ring(self.ring).lane(lane).counters();
        let counted = [counters.uncommitted, counters.corrupt, of.malformed, of.unwritten];
        progress.has_counted(counted.into_iter().fold(0, u64::saturating_add));
        progress.goes_on_at(position);
    }

    /// The trace says that so much was lost.
    pub(super) fn told_kept(&self, lane: usize, lost: u64) {
        self.kept.as_ref().inspect(|kept| Progress::of(&kept.words, lane).says_lost(lost));
    }

    /// Whether the keeper is there, if there is to be one; that it is not is reported.
    pub(super) fn look_after_keeper(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        if kept.keeper.as_ref().is_some_and(|keeper| !keeper.is_there()) {
            kept.keeper = None;
            note!(
                self.notices,
                Recording,
                "--shm-dir: somebody has ended the process that keeps the rings: what is in them is lost if weir is killed"
            );
        }
    }

    /// In the keeper, which has this recorder as it was before it had read anything: writes what a killed weir has left. What that came to.
    fn take_over(&mut self, segment: &Segment, words: &Words, path: &Path) -> String {
        let rings = segment.ring(self.ring).rings();
        self.streams.resize_with(rings, Lane::default);
        let mut told = 0;
        for lane in 0..rings {
            let Found { position, lost, counted } = Progress::of(words, lane).found();
            segment.ring(self.ring).lane(lane).go_on_at(position);
            (self.streams[lane].lost_before, self.streams[lane].malformed) = (lost, counted);
            told += lost;
        }
        let before = self.path.clone();
        let written = self.write_what_is_left(segment, path);
        let lost = written.as_ref().map_or(0, |in_all| in_all.saturating_sub(told));
        let (recorded, shown, before) = (self.recorded.iter().sum::<u64>(), path.display(), before.display());
        let what = match written {
            Err(error) => format!("what was in its rings could not be written to {shown}: {error:#}"),
            Ok(_) if self.has_failed => {
                format!(
                    "{recorded} events that were in its rings are in {shown}, where there was no room for more"
                )
            }
            Ok(_) if recorded + lost == 0 => {
                discard(path, true);
                "nothing was in its rings".to_owned()
            }
            Ok(_) => format!(
                "{recorded} events that were in its rings are in {shown}, {lost} more were discarded; `weir view {before} {shown}` shows all"
            ),
        };
        format!("--shm-dir: weir was killed; {what}")
    }

    /// What was lost in all.
    fn write_what_is_left(&mut self, segment: &Segment, path: &Path) -> anyhow::Result<u64> {
        self.class.uuid = Some(trace::new_uuid()?);
        let folder = Folder::create(path, &self.class, self.format)?;
        // Descriptors of before are closed here, and may be others by now: nothing uses them any more, nor closes them.
        std::mem::forget(std::mem::replace(&mut self.folder, folder));
        std::mem::forget(std::mem::replace(&mut self.notices, Notices::ignored()));
        self.path = path.to_owned();
        self.limits = Limits::default();
        self.set_nothing_aside();
        let clock = Clock::left_in(segment);
        for _ in 0..TURNS {
            while self.drain(segment, clock.as_ref(), false) {}
            std::thread::sleep(TURN);
        }
        while self.drain(segment, clock.as_ref(), true) {}
        Ok((0..self.streams.len()).map(|lane| self.end_stream(segment, lane)).sum())
    }
}
