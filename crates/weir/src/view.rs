//! `weir view`: traces → text.
//!
//! In: folders. Out: events on standard output, in the order of time; what was lost, and what is damaged, on standard error. A trace that
//! is damaged is read up to the damage, and the exit code is then 1.

mod text;
mod zone;

use std::process::ExitCode;

use weir_trace::{Message, Reader};

use crate::args::view::View;
use crate::failure::Failure;
use crate::print::{print_bytes_on, tell};
use crate::view::text::{Clock, Look, Writer};
use crate::view::zone::Zone;

/// Bytes that are printed together.
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) fn view(args: &View) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&args.places).map_err(failure)?;
    let mut writer = Writer::new(look(args));
    let mut out = Vec::with_capacity(2 * CHUNK_BYTES);
    let mut is_whole = true;
    while let Some(message) = reader.next() {
        match message {
            Message::Event(event) => {
                writer.event(&event, &mut out);
                if out.len() >= CHUNK_BYTES && !flush(&mut out)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Message::Lost(loss, info) => {
                flush(&mut out)?;
                tell!("{}", writer.lost(&loss, &info));
            }
            Message::Damage(error) => {
                flush(&mut out)?;
                tell!("weir: {error}");
                is_whole = false;
            }
        }
    }
    flush(&mut out)?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
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
