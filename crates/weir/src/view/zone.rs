//! Times of day in the local time zone.
//!
//! In: seconds since 1970, and a zone: the file that TZ names or /etc/localtime (TZif, RFC 9636), or the rule that TZ is (POSIX.1-2024,
//! section 8.3). Out: hours, minutes and seconds, with the day if wanted. What cannot be read is UTC, as in the C library.

use std::path::Path;

/// When which offset from UTC holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Zone {
    /// From when on, and seconds east of Greenwich; ascending.
    changes: Vec<(i64, i64)>,
    /// Before the first of them.
    first: i64,
    /// Behind the last of them.
    rule: Option<Rule>,
}

/// Offsets that change twice a year.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    standard: i64,
    /// The offset in summer, when it begins and when it ends.
    summer: Option<(i64, Day, Day)>,
}

/// A moment of each year: a day, and seconds behind its midnight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Day {
    which: Which,
    time: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    /// 1 to 365, without the 29th of February.
    Julian(i64),
    /// 0 to 365.
    Counted(i64),
    /// The month, which of its weeks (5: the last), the day of the week.
    Week(i64, i64, i64),
}

/// LIMIT: bytes of a zone's file. The largest of tzdata has 4 KiB.
const FILE_BYTES_MAX: usize = 1 << 20;

impl Zone {
    pub(crate) fn utc() -> Zone {
        Zone::default()
    }

    /// The zone of this process.
    pub(crate) fn local() -> Zone {
        match std::env::var("TZ") {
            Ok(name) => Zone::named(&name).unwrap_or_default(),
            Err(_) => Zone::of_file(Path::new("/etc/localtime")).unwrap_or_default(),
        }
    }

    /// The zone that this value of TZ means.
    fn named(name: &str) -> Option<Zone> {
        let name = name.strip_prefix(':').unwrap_or(name);
        let path = Path::new("/usr/share/zoneinfo").join(name);
        let of_file = if name.is_empty() || name.contains("..") { None } else { Zone::of_file(&path) };
        of_file.or_else(|| Some(Zone { rule: Some(rule(name)?), ..Zone::default() }))
    }

    fn of_file(path: &Path) -> Option<Zone> {
        let bytes = std::fs::read(path).ok().filter(|bytes| bytes.len() <= FILE_BYTES_MAX)?;
        let version = *bytes.get(4)?;
        let (zone, length) = block(&bytes, 4)?;
        if version < b'2' {
            return Some(zone);
        }
        let rest = bytes.get(length..)?;
        let (mut zone, length) = block(rest, 8)?;
        let footer = rest.get(length..)?.strip_prefix(b"\n")?.split(|byte| *byte == b'\n').next()?;
        zone.rule = rule(std::str::from_utf8(footer).ok()?);
        Some(zone)
    }

    /// `HH:MM:SS`, with the day before it if wanted.
    pub(crate) fn written(&self, second: i64, with_date: bool) -> String {
        let local = second + self.offset(second);
        let (days, rest) = (local.div_euclid(DAY_S), local.rem_euclid(DAY_S));
        let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
        if !with_date {
            return time;
        }
        let (year, month, day) = date(days);
        format!("{year:04}-{month:02}-{day:02} {time}")
    }

    /// Seconds east of Greenwich.
    fn offset(&self, second: i64) -> i64 {
        let next = self.changes.partition_point(|(from, _)| *from <= second);
        if next == self.changes.len()
            && let Some(rule) = &self.rule
        {
            return rule.offset(second);
        }
        next.checked_sub(1).map_or(self.first, |index| self.changes[index].1)
    }
}

const DAY_S: i64 = 86_400;

impl Rule {
    fn offset(&self, second: i64) -> i64 {
        let Some((summer, begin, end)) = self.summer else { return self.standard };
        let (year, ..) = date((second + self.standard).div_euclid(DAY_S));
        let begin = begin.second(year) - self.standard;
        let end = end.second(year) - summer;
        let is_summer = match begin < end {
            true => (begin..end).contains(&second),
            false => !(end..begin).contains(&second),
        };
        if is_summer { summer } else { self.standard }
    }
}

impl Day {
    /// Local seconds since 1970.
    fn second(self, year: i64) -> i64 {
        let first = days(year, 1, 1);
        let day = match self.which {
            Which::Counted(day) => first + day,
            Which::Julian(day) => first + day - 1 + i64::from(day > 59 && is_leap(year)),
            Which::Week(month, week, weekday) => {
                let first = days(year, month, 1);
                let next = if month == 12 { days(year + 1, 1, 1) } else { days(year, month + 1, 1) };
                // The first of January 1970 was a Thursday.
                let earliest = first + (weekday - (first + 4)).rem_euclid(7);
                let last = earliest + 28;
                (earliest + 7 * (week - 1)).min(if last < next { last } else { last - 7 })
            }
        };
        day * DAY_S + self.time
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since 1970 of a day in the Gregorian calendar: whole eras of 400 years, in years that begin with March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The other way: year, month, day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// One block of a file, with times of so many bytes, and how long it is (RFC 9636, sections 3.1 and 3.2).
fn block(bytes: &[u8], time_bytes: usize) -> Option<(Zone, usize)> {
    if bytes.get(..4)? != b"TZif" {
        return None;
    }
    let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let count = |index: usize| Some(word(20 + 4 * index)? as usize);
    let [ut, std, leap, times, types, chars] =
        [count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?];
    let indices = 44 + times.checked_mul(time_bytes)?;
    let kinds = indices.checked_add(times)?;
    let length = kinds
        .checked_add(types.checked_mul(6)?)?
        .checked_add(chars)?
        .checked_add(leap.checked_mul(time_bytes + 4)?)?
        .checked_add(std)?
        .checked_add(ut)?;
    if length > bytes.len() {
        return None;
    }
    let offset = |kind: usize| Some(i64::from(word(kinds + 6 * kind)? as i32)).filter(|_| kind < types);
    let mut changes = Vec::new();
    for index in 0..times {
        let at = 44 + index * time_bytes;
        let from = match time_bytes {
            8 => i64::from_be_bytes(*bytes.get(at..)?.first_chunk()?),
            _ => i64::from(word(at)? as i32),
        };
        changes.push((from, offset(usize::from(bytes[indices + index]))?));
    }
    Some((Zone { changes, first: offset(0)?, rule: None }, length))
}

/// `CET-1CEST,M3.5.0,M10.5.0/3`
fn rule(text: &str) -> Option<Rule> {
    let mut text = Text(text);
    text.name()?;
    let standard = -text.time()?;
    if text.0.is_empty() {
        return Some(Rule { standard, summer: None });
    }
    text.name()?;
    let summer = if text.0.is_empty() || text.0.starts_with(',') { standard + 3600 } else { -text.time()? };
    // Where there is no rule, that of the United States is meant.
    let (begin, end) = match text.0.is_empty() {
        true => (
            Day { which: Which::Week(3, 2, 0), time: 7200 },
            Day { which: Which::Week(11, 1, 0), time: 7200 },
        ),
        false => (text.day()?, text.day()?),
    };
    text.0.is_empty().then_some(Rule { standard, summer: Some((summer, begin, end)) })
}

/// What is left of a rule.
struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    fn name(&mut self) -> Option<&'t str> {
        let (name, rest) = match self.0.strip_prefix('<') {
            Some(quoted) => quoted.split_once('>')?,
            None => {
                let end = self.0.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.0.len());
                self.0.split_at(end)
            }
        };
        self.0 = rest;
        (name.len() >= 3).then_some(name)
    }

    fn number(&mut self) -> Option<i64> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        // No number of a rule has more digits.
        if digits.len() > 4 { None } else { digits.parse().ok() }
    }

    fn take(&mut self, mark: char) -> bool {
        let rest = self.0.strip_prefix(mark);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// `[+-]HH[:MM[:SS]]`, in seconds.
    fn time(&mut self) -> Option<i64> {
        let sign = if self.take('-') { -1 } else { 1 };
        self.take('+');
        let mut seconds = self.number()? * 3600;
        if self.take(':') {
            seconds += self.number()? * 60;
            if self.take(':') {
                seconds += self.number()?;
            }
        }
        Some(sign * seconds)
    }

    /// `,M3.5.0/2`
    fn day(&mut self) -> Option<Day> {
        if !self.take(',') {
            return None;
        }
        let which = if self.take('M') {
            let month = self.number()?;
            let week = self.take('.').then(|| self.number())??;
            let day = self.take('.').then(|| self.number())??;
            let is_sound = (1..=12).contains(&month) && (1..=5).contains(&week) && (0..=6).contains(&day);
            is_sound.then_some(Which::Week(month, week, day))?
        } else if self.take('J') {
            Which::Julian(self.number()?)
        } else {
            Which::Counted(self.number()?)
        };
        let time = if self.take('/') { self.time()? } else { 7200 };
        Some(Day { which, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `date` says, of every kind of rule, all over the year.
    #[test]
    fn times_are_those_of_the_c_library() {
        let zones = [
            "UTC0",
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "EST5EDT",
            "<-0330>3:30<-0230>,M3.2.0,M11.1.0",
            "AEST-10AEDT,M10.1.0,M4.1.0/3",
            "AAA3BBB,J60/0,J300",
            "AAA3BBB2:30,59/1,299/-2",
            "Europe/Vienna",
            "America/New_York",
            "no such zone",
        ];
        for name in zones {
            let mut state = 7;
            let seconds: Vec<i64> =
                (0..300).map(|_| (testkit::random::next(&mut state) % 4_000_000_000) as i64).collect();
            let input: String = seconds.iter().map(|second| format!("@{second}\n")).collect();
            let output = std::process::Command::new("sh")
                .args(["-c", "printf %s \"$0\" | date -f - '+%Y-%m-%d %H:%M:%S'", &input])
                .env("TZ", name)
                .output()
                .expect("date");
            let expected = String::from_utf8(output.stdout).expect("text");
            assert!(output.status.success(), "{name}");
            let zone = Zone::named(name).unwrap_or_default();
            let written: String = seconds.iter().map(|second| zone.written(*second, true) + "\n").collect();
            assert_eq!(written, expected, "{name}");
        }
    }
}
