//! The part of `weir record`'s command line, and of `weir record create`, that says what events do beside being recorded.
//!
//! Each is an expression on the fields of an event, in the language of `--filter`, with `PROVIDER:EVENT if` in front or without, or
//! `PROVIDER:EVENT` alone; `--snapshot-on` of a flight recorder ([`super::flight`])
//! is one of them.

use std::time::Duration;

use clap::ArgGroup;
use weir_run::TriggerOptions;

use crate::args::flight::time;

#[derive(clap::Args, Default, Debug)]
#[command(next_help_heading = "Triggers")]
#[command(group(ArgGroup::new("runs").multiple(true).args(["run_on", "run_on_fill"])))]
pub(crate) struct Triggers {
    /// Record nothing until an event comes of whose fields this holds, which is the first: `state == 2`, or with the name of
    /// the event `shop:open if state == 2`, or `shop:open`. Events that lack one of these fields do not start it
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) start_on: Option<String>,

    /// Record nothing behind an event of whose fields this holds, which is the last. With --start-on an event starts it again; without, the
    /// recording ends
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) stop_on: Option<String>,

    /// Of a session: go on in a new folder when an event is recorded of whose fields this holds
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, conflicts_with = "overwrite")]
    pub(crate) rotate_on: Option<String>,

    /// A folder is recorded into for so long at least before events may ask for the next
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "rotate_on", value_parser = time)]
    pub(crate) rotate_interval: Duration,

    /// Run a command (--run) when an event is recorded of whose fields this holds
    #[arg(long, value_name = "EXPR", requires = "run", allow_hyphen_values = true)]
    pub(crate) run_on: Option<String>,

    /// Run a command (--run) when a ring was filled to so many percent: with WEIR_RING_FILL in its environment, and without WEIR_EVENT
    #[arg(long, value_name = "PERCENT", requires = "run", value_parser = percent, conflicts_with = "overwrite")]
    pub(crate) run_on_fill: Option<u64>,

    /// The command that --run-on and --run-on-fill run, with `sh -c`, as a child of weir: WEIR_EVENT and WEIR_TIME in its environment are the name of the event
    /// and its ns since 1970, WEIR_FIELD_total its field `total` (and so on), WEIR_EVENTS how many events asked, WEIR_FOLDER where is recorded into, WEIR_SESSION the session
    #[arg(long, value_name = "COMMAND", requires = "runs", allow_hyphen_values = true)]
    pub(crate) run: Option<String>,

    /// The command is started once in this time, and never while it still runs; events that ask in between share the next start
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "run", value_parser = time)]
    pub(crate) run_interval: Duration,
}

impl Triggers {
    pub(crate) fn options(&self) -> TriggerOptions {
        let mut options = TriggerOptions::default();
        options.start_on = self.start_on.clone();
        options.stop_on = self.stop_on.clone();
        options.rotate_on = self.rotate_on.clone();
        options.rotate_interval = self.rotate_interval;
        options.run_on = self.run_on.clone();
        options.run_on_fill = self.run_on_fill;
        options.run = self.run.clone();
        options.run_interval = self.run_interval;
        options
    }
}

/// 80 or 80%.
fn percent(text: &str) -> Result<u64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
    percent
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| "1 to 100 percent are wanted".to_owned())
}
