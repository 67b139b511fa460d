//! `weir view`: traces → text, JSON, a picture's data, or statistics.
//!
//! In: folders, or what comes through pipes. Out: events on standard output, in the order of time; what is damaged on standard error, and what was lost there too or among
//! the events, as the form has it. A trace that is damaged is read up to the damage, and the exit code is then 1.

mod chrome;
mod filter;
mod follow;
mod json;
mod received;
mod stats;
mod text;
mod values;
pub(crate) mod zone;

use std::process::ExitCode;

use anyhow::anyhow;
use weir_trace::{Event, Loss, Message, Reader, StreamInfo};

use crate::args::view::{Format, View};
use crate::failure::Failure;
use crate::print::{print, print_bytes_on, tell};
use crate::view::filter::Wanted;
use crate::view::stats::Stats;
use crate::view::text::{Clock, Look};
use crate::view::zone::Zone;

/// Bytes that are printed together.
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) fn view(args: &View) -> Result<ExitCode, Failure> {
    if args.format == Format::Chrome && args.follow {
        return Err(Failure::Usage(anyhow!(
            "-f chrome is one document, which has no end while it is followed: say -f json"
        )));
    }
    if args.format == Format::Chrome && args.stats {
        return Err(Failure::Usage(anyhow!(
            "--stats has no form for Chrome's viewer: leave out -f, or say -f json"
        )));
    }
    let sources = received::sources(args)?;
    if args.follow || sources.is_any() && !args.stats && args.format != Format::Chrome {
        return follow::follow(args, sources);
    }
    let (received, is_whole) = follow::received(args, sources)?;
    let mut reader = Reader::open(received.places()).map_err(failure)?;
    let mut wanted = Wanted::new(args, &reader)?;
    let mut is_wanted = |event: &Event<'_>| wanted.as_mut().is_none_or(|wanted| wanted.has(event));
    if args.stats {
        return stats(&mut reader, args.format, is_wanted, is_whole);
    }
    let mut form = Form::new(args, &reader);
    let mut out = Vec::with_capacity(2 * CHUNK_BYTES);
    let mut is_whole = is_whole;
    form.begin(&mut out);
    while let Some(message) = reader.next() {
        match message {
            Message::Event(event) if !is_wanted(&event) => {}
            Message::Event(event) => {
                form.event(&event, &mut out);
                if out.len() >= CHUNK_BYTES && !flush(&mut out)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Message::Lost(loss, info) => form.lost(&loss, &info, &mut out)?,
            Message::Damage(error) => {
                flush(&mut out)?;
                tell!("weir: {error}");
                is_whole = false;
            }
        }
    }
    form.end(&mut out);
    flush(&mut out)?;
    Ok(code(is_whole))
}

/// How events are written.
enum Form {
    Text(text::Writer),
    Json,
    Chrome(chrome::Writer),
}

impl Form {
    fn new(args: &View, reader: &Reader) -> Form {
        match args.format {
            Format::Text => Form::Text(text::Writer::new(look(args))),
            Format::Json => Form::Json,
            Format::Chrome => Form::Chrome(chrome::Writer::new(reader.traces())),
        }
    }

    fn begin(&self, out: &mut Vec<u8>) {
        if let Form::Chrome(_) = self {
            chrome::Writer::begin(out);
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match self {
            Form::Text(writer) => writer.event(event, out),
            Form::Json => json::event(event, out),
            Form::Chrome(writer) => writer.event(event, out),
        }
    }

    fn lost(&mut self, loss: &Loss, info: &StreamInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Form::Text(writer) => {
                flush(out)?;
                tell!("{}", writer.lost(loss, info));
            }
            Form::Json => json::lost(loss, info, out),
            Form::Chrome(writer) => writer.lost(loss, info, out),
        }
        Ok(())
    }

    fn end(&self, out: &mut Vec<u8>) {
        if let Form::Chrome(writer) = self {
            writer.end(out);
        }
    }
}

fn stats(
    reader: &mut Reader,
    format: Format,
    mut is_wanted: impl FnMut(&Event<'_>) -> bool,
    mut is_whole: bool,
) -> Result<ExitCode, Failure> {
    let mut stats = Stats::new();
    while let Some(message) = reader.next() {
        match message {
            Message::Event(event) if !is_wanted(&event) => {}
            Message::Event(event) => stats.event(&event),
            Message::Lost(loss, info) => stats.lost(&loss, &info),
            Message::Damage(error) => {
                tell!("weir: {error}");
                is_whole = false;
            }
        }
    }
    print(&if format == Format::Json { stats.objects() } else { stats.table() })?;
    Ok(code(is_whole))
}

fn code(is_whole: bool) -> ExitCode {
    if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn look(args: &View) -> Look {
    let clock = match args {
        View { clock_cycles: true, .. } => Clock::Cycles,
        View { clock_seconds: true, .. } => Clock::Seconds,
        View { clock_date: true, .. } => Clock::DateAndTime,
        _ => Clock::Time,
    };
    let zone = if args.clock_gmt { Zone::utc() } else { Zone::local() };
    Look { clock, zone, has_delta: !args.no_delta }
}

/// Whether anybody still reads.
fn flush(out: &mut Vec<u8>) -> Result<bool, Failure> {
    let is_read = print_bytes_on(out)?;
    out.clear();
    Ok(is_read)
}

fn failure(error: weir_trace::Error) -> Failure {
    Failure::Refused(anyhow::Error::new(error))
}
