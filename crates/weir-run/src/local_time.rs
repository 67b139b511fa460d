//! Local times in the formats of strftime(3), as `time` prints them. The locale is "C", as in bpftrace.

use jiff::fmt::strtime;
use jiff::{SignedDuration, ZonedDateTime};

use crate::clock::now_ns;

/// Conversions that are others of theirs in the locale "C".
const OF_LOCALE: [(char, &str); 5] = [
    ('c', "%a %b %e %H:%M:%S %Y"),
    ('x', "%m/%d/%y"),
    ('X', "%H:%M:%S"),
    ('r', "%I:%M:%S %p"),
    // GNU's: that of date(1).
    ('+', "%a %b %e %H:%M:%S %Z %Y"),
];

/// Letters of strftime(3).
const CONVERSIONS: &str = "aAbBCdDeFgGhHIjklmMnpPRsStTuUVwWyYzZ%";

/// That of a moment on CLOCK_MONOTONIC, by the difference that the clocks have now.
pub(crate) fn of_monotonic(format: &str, at_ns: u64) -> String {
    let (now, now_ns) = both_clocks();
    let ago = i128::from(now_ns) - i128::from(at_ns);
    let ago = ago.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let ago = SignedDuration::from_nanos(ago);
    // What lies further away than times go prints as now.
    at(&now.checked_sub(ago).unwrap_or(now), format)
}

/// The same moment on both clocks. The first time takes milliseconds: the time zone is read.
fn both_clocks() -> (ZonedDateTime, u64) {
    const APART_NS: u64 = 20_000;
    for _ in 0..3 {
        let before = now_ns();
        let now = ZonedDateTime::now();
        let after = now_ns();
        if after.saturating_sub(before) < APART_NS {
            return (now, before.midpoint(after));
        }
    }
    (ZonedDateTime::now(), now_ns())
}

/// This moment's.
pub(crate) fn now(format: &str) -> String {
    at(&ZonedDateTime::now(), format)
}

fn at(time: &ZonedDateTime, format: &str) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out += &rest[..at];
        // Flags, a width, and the letter.
        let end = rest[at + 1..].find(|c: char| !"_-^#0123456789EO".contains(c));
        let Some((letter, end)) = end.and_then(|end| {
            let letter = rest[at + 1 + end..].chars().next()?;
            Some((letter, at + 1 + end + letter.len_utf8()))
        }) else {
            return out + &rest[at..];
        };
        let conversion: String = rest[at..end].chars().filter(|c| !"EO".contains(*c)).collect();
        out += &one(time, letter, &conversion);
        rest = &rest[end..];
    }
    out + rest
}

fn one(time: &ZonedDateTime, letter: char, conversion: &str) -> String {
    if let Some((_, whole)) = OF_LOCALE.iter().find(|(known, _)| *known == letter) {
        return at(time, whole);
    }
    match letter {
        // bpftrace's own: microseconds.
        'f' => format!("{:06}", time.subsec_nanosecond() / 1000),
        // What is no conversion stands for itself, as in glibc.
        _ if !CONVERSIONS.contains(letter) => conversion.to_owned(),
        _ => strtime::format(conversion, time).unwrap_or_else(|_| conversion.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_date() {
        let time: ZonedDateTime = "2026-03-05T07:08:09.123456789+01:00[+01:00]".parse().unwrap();
        let check = |format: &str, want: &str| assert_eq!(at(&time, format), want, "{format}");
        check("%H:%M:%S\n", "07:08:09\n");
        check("%Y-%m-%d %I%p %j %e %y", "2026-03-05 07AM 064  5 26");
        check("%A %a %B %b %u %w", "Thursday Thu March Mar 4 4");
        check("%c|%x|%X|%r", "Thu Mar  5 07:08:09 2026|03/05/26|07:08:09|07:08:09 AM");
        check("%D %F %T %R %n%t%%", "03/05/26 2026-03-05 07:08:09 07:08 \n\t%");
        check("%s.%f %z", "1772690889.123456 +0100");
        check("%-d|%_d|%Ey|%Od", "5| 5|26|05");
        check("no conversion", "no conversion");
        check("50%", "50%");
        check("%é %! %Q %N", "%é %! %Q %N");
    }
}
