//! A budget: what a run may cost the process that it traces. `1%,64MiB,10ms-stop`
//!
//! In: text, of the command line or of a policy file. Out: a [`Budget`] of up to three parts:
//! - a share of the process's CPU time: `1%`, `0.5%`;
//! - bytes of weir's memory in it, segments and code: `64MiB` (B, KiB, MiB, GiB);
//! - the longest that it may be stopped: `10ms-stop` (us, ms, s), at most what weir allows itself in any case.
//!
//! Parts stand in any order, each at most once. Where two budgets hold, the stricter of each part does. Deliberately not
//! done: keeping to it, which those do who spend.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weir_probe::limits::STOP_MAX;

const FORMS: &str = "a budget is a list of `1%` (share of CPU time), `64MiB` (memory) and `10ms-stop` (longest stop), \
                     each at most once";

/// What a run may cost. A part that is not there is not bounded here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Budget {
    /// Of the CPU time that the process uses.
    pub share: Option<Share>,
    /// Of segments and code.
    pub bytes: Option<u64>,
    /// The longest single stop.
    pub stop: Option<Duration>,
}

impl Budget {
    /// Of each part its own, else the other's.
    pub fn or(self, other: Budget) -> Budget {
        Budget {
            share: self.share.or(other.share),
            bytes: self.bytes.or(other.bytes),
            stop: self.stop.or(other.stop),
        }
    }

    /// What keeps to both: the stricter of each part.
    pub fn and(self, other: Budget) -> Budget {
        fn stricter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Budget {
            share: stricter(self.share, other.share),
            bytes: stricter(self.bytes, other.bytes),
            stop: stricter(self.stop, other.stop),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let mut budget = Budget::default();
        for part in text.split(',').map(str::trim) {
            let is_new = match part_of(part).map_err(|fault| format!("{fault}; {FORMS}"))? {
                Part::Share(share) => budget.share.replace(share).is_none(),
                Part::Bytes(bytes) => budget.bytes.replace(bytes).is_none(),
                Part::Stop(stop) => budget.stop.replace(stop).is_none(),
            };
            if !is_new {
                return Err(format!("{part:?} is the second of its kind; {FORMS}"));
            }
        }
        Ok(budget)
    }
}

/// As it is written: what it prints parses to the same.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.share.map(|share| share.to_string()),
            self.bytes.map(bytes_text),
            self.stop.map(|stop| format!("{}-stop", time_text(stop))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(","))
    }
}

/// A share in millionths, more than none and at most the whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share(u32);

impl Share {
    const PER_PERCENT: u32 = 10_000;
    const WHOLE: u32 = 100 * Share::PER_PERCENT;

    /// 1.0 is the whole.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(Share::WHOLE)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, rest) = (self.0 / Share::PER_PERCENT, self.0 % Share::PER_PERCENT);
        match rest {
            0 => write!(f, "{percent}%"),
            rest => write!(f, "{percent}.{}%", format!("{rest:04}").trim_end_matches('0')),
        }
    }
}

enum Part {
    Share(Share),
    Bytes(u64),
    Stop(Duration),
}

fn part_of(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("a part is empty".into());
    }
    if let Some(percent) = text.strip_suffix('%') {
        return share_of(percent).map(Part::Share).map_err(|fault| format!("{text:?}: {fault}"));
    }
    if let Some(time) = text.strip_suffix("-stop") {
        return stop_of(time).map(Part::Stop).map_err(|fault| format!("{text:?}: {fault}"));
    }
    bytes_of(text).map(Part::Bytes).map_err(|fault| format!("{text:?}: {fault}"))
}

/// Decimal digits with at most four behind a point: no float, so that what is printed is what was written.
fn share_of(percent: &str) -> Result<Share, String> {
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err("a share is a number and %".into());
    }
    if fraction.len() > 4 {
        return Err("a share has at most four digits behind the point".into());
    }
    let fraction = format!("{fraction:0<4}").parse().unwrap_or(0);
    let millionths = whole.parse().ok().and_then(|whole: u32| whole.checked_mul(Share::PER_PERCENT));
    match millionths.and_then(|millionths| millionths.checked_add(fraction)) {
        Some(0) => Err("a share of nothing lets no probe run".into()),
        Some(millionths) if millionths <= Share::WHOLE => Ok(Share(millionths)),
        _ => Err("a share is at most 100%".into()),
    }
}

const BYTE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

fn bytes_of(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let Some((_, factor)) = BYTE_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(match (number, unit) {
            ("", _) => "neither a share, nor memory, nor a stop".into(),
            (_, "") => "a number without a unit".into(),
            _ => format!("no unit is called {unit:?} (memory: B, KiB, MiB, GiB)"),
        });
    };
    match number.parse().ok().and_then(|number: u64| number.checked_mul(*factor)) {
        Some(0) => Err("no bytes at all are too few for any probe".into()),
        Some(bytes) => Ok(bytes),
        None => Err("memory is a whole number and a unit, below 16 EiB".into()),
    }
}

fn bytes_text(bytes: u64) -> String {
    let fits = |(_, factor): &&(&str, u64)| bytes.is_multiple_of(*factor);
    let (unit, factor) = BYTE_UNITS.iter().find(fits).unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / factor)
}

const TIME_UNITS: [(&str, Duration); 3] =
    [("s", Duration::from_secs(1)), ("ms", Duration::from_millis(1)), ("us", Duration::from_micros(1))];

fn stop_of(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text);
    let Some((_, factor)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err("a stop is a whole number, us, ms or s, and -stop".into());
    };
    let stop = number.parse().ok().and_then(|number: u32| factor.checked_mul(number));
    match stop {
        Some(Duration::ZERO) => Err("nothing can be attached without a stop".into()),
        Some(stop) if stop <= STOP_MAX => Ok(stop),
        _ => Err(format!("weir never stops a process for longer than {}", time_text(STOP_MAX))),
    }
}

fn time_text(time: Duration) -> String {
    let nanos = time.as_nanos();
    let fits = |(_, unit): &&(&str, Duration)| nanos.is_multiple_of(unit.as_nanos());
    match TIME_UNITS.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", nanos / unit.as_nanos()),
        None => format!("{time:?}"),
    }
}

fn number_and_unit(text: &str) -> (&str, &str) {
    let is_digit = |c: char| c.is_ascii_digit();
    text.split_at(text.find(|c| !is_digit(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(text: &str) -> Budget {
        text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"))
    }

    #[track_caller]
    fn check_fault(text: &str, part: &str) {
        let fault = text.parse::<Budget>().unwrap_err();
        assert!(fault.contains(part), "{text}: {part:?} is not in {fault:?}");
        assert!(fault.ends_with(FORMS), "{text}: {fault}");
    }

    #[test]
    fn parts_are_read_in_any_order() {
        let all = Budget {
            share: Some(Share(5_000)),
            bytes: Some(64 << 20),
            stop: Some(Duration::from_millis(10)),
        };
        assert_eq!(budget("0.5%,64MiB,10ms-stop"), all);
        assert_eq!(budget("10ms-stop, 64MiB ,0.5%"), all);
        assert_eq!(budget("1%"), Budget { share: Some(Share(10_000)), ..Budget::default() });
        assert_eq!(budget("4096B").bytes, Some(4096));
        assert_eq!(budget("500us-stop").stop, Some(Duration::from_micros(500)));
    }

    #[test]
    fn what_is_printed_parses_to_the_same() {
        for text in ["1%", "0.05%", "12.3456%,3KiB", "100%,1GiB,1s-stop", "1500us-stop", "1023B"] {
            assert_eq!(budget(text).to_string(), text);
        }
        assert_eq!(budget("1.50%, 1024KiB,1000ms-stop").to_string(), "1.5%,1MiB,1s-stop");
    }

    #[test]
    fn faults_name_the_part_and_the_forms() {
        check_fault("", "a part is empty");
        check_fault("1%,", "a part is empty");
        check_fault("1", "\"1\": a number without a unit");
        check_fault("fast", "\"fast\": neither a share, nor memory, nor a stop");
        check_fault("1%,2%", "\"2%\" is the second of its kind");
        check_fault("1MiB,2KiB", "\"2KiB\" is the second of its kind");
        check_fault("1%,64MB", "\"64MB\": no unit is called \"MB\" (memory: B, KiB, MiB, GiB)");
        check_fault("10ms", "\"10ms\": no unit is called \"ms\"");
        check_fault("0%", "lets no probe run");
        check_fault("0.0%", "lets no probe run");
        check_fault("100.1%", "at most 100%");
        check_fault("5000000000%", "at most 100%");
        check_fault("1.23456%", "four digits");
        check_fault("-1%", "a share is a number and %");
        check_fault("1e3%", "a share is a number and %");
        check_fault(".%", "a share is a number and %");
        check_fault("0B", "too few");
        check_fault("1.5MiB", "no unit is called \".5MiB\"");
        check_fault("17179869184GiB", "below 16 EiB");
        check_fault("10-stop", "a stop is a whole number");
        check_fault("0ms-stop", "without a stop");
        check_fault("2s-stop", "never stops a process for longer than 1s");
    }

    #[test]
    fn of_two_budgets_the_stricter_of_each_part_holds() {
        let check = |one: &str, other: &str, want: &str| {
            assert_eq!(budget(one).and(budget(other)).to_string(), want);
            assert_eq!(budget(other).and(budget(one)).to_string(), want);
        };
        check("1%", "2%", "1%");
        check("1%,64MiB", "2%,32MiB,5ms-stop", "1%,32MiB,5ms-stop");
        check("1%", "64MiB", "1%,64MiB");
    }

    #[test]
    fn shares_are_ratios() {
        assert_eq!(budget("1%").share.unwrap().ratio(), 0.01);
        assert_eq!(budget("100%").share.unwrap().ratio(), 1.0);
    }
}
