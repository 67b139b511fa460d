//! LTTng's channels as weir's: what `enable-channel` asks for → a ring's size and options, with warnings; or why not.

use weir_ebpf::map::{RING_BYTES_MAX, RING_BYTES_MIN};
use weir_sessions::channel::Channel;

use crate::args::flight::SNAPSHOTS_MAX;
use crate::args::lttng::rules::EnableChannel;

/// Of a channel that nobody has asked for, as LTTng calls it.
pub(super) const DEFAULT: &str = "channel0";

/// LTTng's, which together make weir's ring of 2M.
const SUBBUF_BYTES: u64 = 512 << 10;
const SUBBUFS: u64 = 4;

/// Bytes of the ring of each CPU where nothing is said of it.
pub(super) const RING_BYTES: u64 = SUBBUF_BYTES * SUBBUFS;

/// A channel, and warnings.
type Made = (Channel, Vec<String>);

/// The channel that is made where events are enabled and there is none.
pub(super) fn usual(name: &str, is_snapshot: bool) -> Channel {
    let options = if is_snapshot { in_rings() } else { Vec::new() };
    Channel {
        name: name.to_owned(),
        size: RING_BYTES,
        options: options.into_iter().collect(),
        contexts: Vec::new(),
        is_disabled: false,
    }
}

/// Options of what keeps its events in rings. LTTng removes no snapshot.
pub(super) fn in_rings() -> Vec<(String, String)> {
    vec![("overwrite".to_owned(), String::new()), ("snapshots".to_owned(), SNAPSHOTS_MAX.to_string())]
}

/// What the options ask for.
pub(super) fn asked(args: &EnableChannel, name: &str, is_snapshot: bool) -> Result<Made, String> {
    let mut told = Vec::new();
    let subbuf = args.subbuf_size.as_deref().map_or(Ok(SUBBUF_BYTES), |text| bytes("--subbuf-size", text))?;
    let count = args.num_subbuf.as_deref().map_or(Ok(SUBBUFS), |text| number("--num-subbuf", text))?;
    let mut rounded = |value: u64, what: &str| {
        let to = value.checked_next_power_of_two().filter(|_| value > 0);
        let to = to.ok_or_else(|| format!("{what} {value}: a number from 1 on is wanted"))?;
        if to != value {
            told.push(format!("{what} ({value}) is rounded to the next power of 2 ({to})"));
        }
        Ok::<u64, String>(to)
    };
    let subbuf = rounded(subbuf, "The subbuf size")?;
    let count = rounded(count, "The number of subbuffers")?;
    let (least, most) = (u64::from(RING_BYTES_MIN), u64::from(RING_BYTES_MAX));
    let size = subbuf.checked_mul(count).filter(|size| *size <= most).ok_or_else(|| {
        format!(
            "--subbuf-size {subbuf} --num-subbuf {count}: a ring has {}M at most, all parts together",
            most >> 20
        )
    })?;
    if args.buffers_pid {
        return Err("--buffers-pid: all processes of a channel share its rings; leave it out".to_owned());
    }
    if args.buffers_global {
        return Err("--buffers-global: it is of the kernel's events, which weir does not record".to_owned());
    }
    if args.output.as_deref().is_some_and(|output| output != "mmap") {
        return Err("--output: mmap is all there is".to_owned());
    }
    let mut channel = usual(name, is_snapshot);
    channel.size = size.max(least);
    let mut option = |name: &str, value: String| channel.options.insert(name.to_owned(), value);
    if is_snapshot && args.discard {
        return Err(
            "--discard: rings of a snapshot session are overwritten; a session without --snapshot discards"
                .to_owned(),
        );
    }
    if !is_snapshot && args.overwrite {
        told.push(format!(
            "Channel {name} is written to files all the time: where its reader is too slow, the newest events are lost, not the oldest; \
             what is kept in rings alone is a session of create --snapshot"
        ));
    }
    match args.blocking_timeout.as_deref() {
        None | Some("0") => {}
        Some(_) if is_snapshot || args.overwrite => {
            return Err("--blocking-timeout: events that overwrite others wait for nothing".to_owned());
        }
        Some("inf") => {
            return Err(
                "--blocking-timeout inf: a thread waits for a bounded time; say how many microseconds"
                    .to_owned(),
            );
        }
        Some(text) => {
            let us = number("--blocking-timeout", text)?;
            if us > BLOCKING_US_MAX {
                return Err(format!("--blocking-timeout {us}: {BLOCKING_US_MAX} is the limit"));
            }
            option("blocking", format!("{us}us"));
        }
    }
    match (&args.tracefile_size, &args.tracefile_count) {
        (None, None) => {}
        (None, Some(_)) => {
            return Err(
                "Missing option --tracefile-size. A file count without a size won't do anything.".to_owned()
            );
        }
        (Some(_), _) if is_snapshot => {
            return Err("--tracefile-size: a snapshot session writes snapshots alone".to_owned());
        }
        (Some(size), count) => {
            let size = bytes("--tracefile-size", size)?;
            if size > 0 && size < FILE_BYTES_MIN {
                return Err(format!("--tracefile-size {size}: {FILE_BYTES_MIN} is the least"));
            }
            if size > 0 {
                option("file-size", size.to_string());
            }
            let count = count.as_deref().map_or(Ok(0), |count| number("--tracefile-count", count))?;
            if size > 0 && count > 0 {
                option("file-count", count.to_string());
            }
        }
    }
    Ok((channel, told))
}

/// As `weir record --blocking` has it.
const BLOCKING_US_MAX: u64 = 3_600_000_000;

/// As `weir record --file-size` has it.
const FILE_BYTES_MIN: u64 = 4096;

fn number(flag: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("Wrong value in {flag} parameter: {text}"))
}

/// With LTTng's units.
fn bytes(flag: &str, text: &str) -> Result<u64, String> {
    let units = [('k', 10), ('K', 10), ('M', 20), ('G', 30)];
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    let (digits, shift) = unit.map_or((text, 0), |(_, shift)| (&text[..text.len() - 1], *shift));
    let bytes = digits.parse().ok().and_then(|count: u64| count.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("Wrong value in {flag} parameter: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(set: impl FnOnce(&mut EnableChannel), is_snapshot: bool) -> Result<Made, String> {
        let mut args = EnableChannel::default();
        set(&mut args);
        asked(&args, "c", is_snapshot)
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn the_size_is_that_of_all_parts() {
        let check = |subbuf: &str, count: &str, wanted: u64, warnings: usize| {
            let made =
                channel(|args| (args.subbuf_size, args.num_subbuf) = (text(subbuf), text(count)), false);
            let (channel, told) = made.unwrap();
            assert_eq!((channel.size, told.len()), (wanted, warnings), "{subbuf} {count}: {told:?}");
        };
        assert_eq!(channel(|_| (), false).unwrap().0, usual("c", false));
        check("64k", "8", 512 << 10, 0);
        check("100k", "3", 512 << 10, 2);
        check("1", "1", 4096, 0);
        check("64M", "4", 256 << 20, 0);
    }

    #[test]
    fn options_are_weir_s() {
        let options = |set: fn(&mut EnableChannel), is_snapshot| {
            let (channel, told) = channel(set, is_snapshot).unwrap();
            let options = channel.options.iter().map(|(name, value)| format!("{name}={value}"));
            (options.collect::<Vec<_>>().join(" "), told.len())
        };
        let check = |set: fn(&mut EnableChannel), is_snapshot, wanted: &str, warnings| {
            assert_eq!(options(set, is_snapshot), (wanted.to_owned(), warnings));
        };
        check(|args| args.blocking_timeout = text("100"), false, "blocking=100us", 0);
        check(|args| args.blocking_timeout = text("0"), false, "", 0);
        check(|args| args.tracefile_size = text("1M"), false, "file-size=1048576", 0);
        check(
            |args| (args.tracefile_size, args.tracefile_count) = (text("1M"), text("4")),
            false,
            "file-count=4 file-size=1048576",
            0,
        );
        check(|args| args.overwrite = true, true, "overwrite= snapshots=999999", 0);
        check(|args| args.overwrite = true, false, "", 1);
        check(|args| args.discard = true, false, "", 0);
    }

    #[test]
    fn what_does_not_map_is_refused() {
        let check = |set: fn(&mut EnableChannel), is_snapshot, wanted: &str| {
            let refused = channel(set, is_snapshot).unwrap_err();
            assert!(refused.contains(wanted), "{refused}");
        };
        check(|args| args.subbuf_size = text("zz"), false, "Wrong value in --subbuf-size parameter: zz");
        check(|args| args.subbuf_size = text("0"), false, "from 1 on");
        check(|args| args.subbuf_size = text("1G"), false, "256M at most");
        check(|args| args.num_subbuf = text("99999999999999999999"), false, "Wrong value");
        check(|args| args.num_subbuf = text("18446744073709551615"), false, "from 1 on");
        check(|args| args.tracefile_count = text("4"), false, "Missing option --tracefile-size");
        check(|args| args.tracefile_size = text("1k"), false, "is the least");
        check(|args| args.tracefile_size = text("1M"), true, "snapshots alone");
        check(|args| args.blocking_timeout = text("inf"), false, "bounded time");
        check(|args| args.blocking_timeout = text("5"), true, "wait for nothing");
        check(|args| args.discard = true, true, "--discard");
        check(|args| args.buffers_pid = true, false, "--buffers-pid");
        check(|args| args.buffers_global = true, false, "--buffers-global");
        check(|args| args.output = text("splice"), false, "mmap");
    }
}
