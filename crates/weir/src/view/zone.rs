//! Times of day in the local time zone, or in UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// When which offset from UTC holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    pub(crate) fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// The zone of this process: what TZ says, else /etc/localtime. What cannot be read is UTC, as in the C library.
    pub(crate) fn local() -> Zone {
        Zone(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// The present day and time, as names of folders have it: `20260131-235959`.
    pub(crate) fn in_name(&self) -> String {
        self.0.to_datetime(Timestamp::now()).strftime("%Y%m%d-%H%M%S").to_string()
    }

    /// Hours, minutes and seconds of a second since 1970, with the day if wanted.
    pub(crate) fn written(&self, second: i64, with_date: bool) -> String {
        let form = if with_date { "%Y-%m-%d %H:%M:%S" } else { "%H:%M:%S" };
        // LIMIT: a trace may say any time. The crate knows the years from -9999 to 9999.
        let nearest = if second < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let time = Timestamp::from_second(second).unwrap_or(nearest);
        self.0.to_datetime(time).strftime(form).to_string()
    }
}
