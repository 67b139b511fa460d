//! The part of `weir record`'s command line that makes it a flight recorder: when what is in the rings is written.

use std::time::Duration;

use weir_run::SnapshotOptions;

/// The most snapshots that can be kept: their names sort as their numbers do.
pub(crate) const SNAPSHOTS_MAX: u64 = 999_999;

#[derive(clap::Args, Default, Debug)]
#[command(next_help_heading = "Flight recorder")]
pub(crate) struct Flight {
    /// Keep events in the rings, where the newest take the place of the oldest, and write a trace only where a snapshot is asked for: by
    /// an event (--snapshot-on), by SIGUSR1 or, of a session, `weir record snapshot`, or at the end (--snapshot-at-end). Each is a folder
    #[arg(long, alias = "snapshot")]
    pub(crate) overwrite: bool,

    /// Take a snapshot when an event is recorded of whose fields this holds: `latency > 500000`. Events that lack one of these fields do
    /// not ask. `shop:sale if EXPR` is of one event, `shop:close` every one. What is in the rings then stays there until it is copied
    #[arg(long, value_name = "EXPR", requires = "overwrite", allow_hyphen_values = true)]
    pub(crate) snapshot_on: Option<String>,

    /// Take it so long after that event (5ms, 2s), to have what follows; the event may have given way by then
    #[arg(long, value_name = "TIME", requires = "snapshot_on", value_parser = time)]
    pub(crate) snapshot_after: Option<Duration>,

    /// Events ask for one snapshot in this time; those that ask in between share the next
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "snapshot_on", value_parser = time)]
    pub(crate) snapshot_interval: Duration,

    /// Take a snapshot when the run ends: Ctrl-C, or the end of the processes, however they end
    #[arg(long, requires = "overwrite")]
    pub(crate) snapshot_at_end: bool,

    /// Keep so many snapshots; when there is one more the oldest is removed
    #[arg(long, value_name = "NUMBER", default_value_t = 10, requires = "overwrite",
          value_parser = clap::value_parser!(u64).range(1..=SNAPSHOTS_MAX))]
    pub(crate) snapshots: u64,
}

impl Flight {
    /// None where events do not stay in the rings.
    pub(crate) fn options(&self) -> Option<SnapshotOptions> {
        self.overwrite.then(|| {
            let mut options = SnapshotOptions::default();
            options.on = self.snapshot_on.clone();
            options.after = self.snapshot_after.unwrap_or_default();
            options.interval = self.snapshot_interval;
            options.at_end = self.snapshot_at_end;
            options.kept = self.snapshots;
            options
        })
    }
}

/// A whole number with its unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wanted = || "a whole number and us, ms, s or min is wanted, up to 60min".to_owned();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "min" => Duration::from_secs(60),
        _ => return Err(wanted()),
    };
    let time = number.parse().ok().and_then(|number| unit.checked_mul(number));
    time.filter(|time| *time <= Duration::from_secs(3600)).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(
            ["5ms", "0s", "2s", "1500us", "60min"].map(time).as_slice(),
            [ms(5), ms(0), ms(2000), Ok(Duration::from_micros(1500)), ms(3_600_000)]
        );
        for text in ["", "5", "s", "-1s", "1.5s", "2h", "61min", "99999999999s", "1 s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
