//! The command line of `weir view`: reading traces.

use std::path::PathBuf;

use clap::ValueEnum;
use weir_filter::Dialect;

use crate::args::dialect;

const EXAMPLES: &str = "\
Examples:
  weir view ~/lttng-traces/auto-20260101-120000      all events below, in the order of time
  weir view -e 'shop:*' --filter 'total > 100 && vtid == 4711' trace
  weir view --clock-date --clock-gmt trace | less    with the day, in UTC
  weir view -f json trace | jq .fields.total         an object a line
  weir view -f chrome trace > trace.json             to be opened in ui.perfetto.dev
  weir view --stats trace                            how many of which, how large, what was lost
  weir view --follow -e 'shop:*' trace               what is being recorded, until the recorder or Ctrl-C ends it
  ssh HOST weir record -e 'shop:*' --to - -p shop | weir view --follow -      the same on another machine";

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct View {
    /// Folders with traces (CTF 1.8 or CTF 2) in them or below; `-` is a trace that `weir record --to -` sends to standard input, and a
    /// file or FIFO one that it has sent there. Several are merged by time
    #[arg(value_name = "DIR", required = true)]
    pub(crate) places: Vec<PathBuf>,

    /// What the output is
    #[arg(short = 'f', long = "format", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Only events of this name: shop:sale, or a pattern such as 'shop:*'; may be given several times
    #[arg(short = 'e', long = "event", value_name = "PATTERN")]
    pub(crate) events: Vec<String>,

    /// Only events that this filter accepts: of their fields and contexts, as `weir trace --filter` has it
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// What the filter's operators mean
    #[arg(long, value_parser = dialect(), default_value_t)]
    pub(crate) dialect: Dialect,

    /// Count events, their rates and sizes, and what was lost, instead of showing them
    #[arg(long)]
    pub(crate) stats: bool,

    /// Go on with what is being written to the traces, until whoever writes them has ended, or Ctrl-C. An event is shown as soon as
    /// no stream can bring an older one, at the latest 1.5 s after it came
    #[arg(short = 'F', long, conflicts_with = "stats")]
    pub(crate) follow: bool,

    /// Keep a trace that comes through a pipe, as a folder that is not there yet, or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,

    /// Show times in UTC, not in the local time zone
    #[arg(long)]
    pub(crate) clock_gmt: bool,

    /// Show the day before the time
    #[arg(long)]
    pub(crate) clock_date: bool,

    /// Show times as seconds since 1970
    #[arg(long, conflicts_with_all = ["clock_date", "clock_cycles"])]
    pub(crate) clock_seconds: bool,

    /// Show times as the clock counts them
    #[arg(long)]
    pub(crate) clock_cycles: bool,

    /// Leave out the time since the event before
    #[arg(long)]
    pub(crate) no_delta: bool,
}

impl View {
    /// All of a folder, as text.
    pub(crate) fn of(folder: PathBuf) -> View {
        View {
            places: vec![folder],
            format: Format::Text,
            events: Vec::new(),
            filter: None,
            dialect: Dialect::default(),
            stats: false,
            follow: false,
            save: None,
            clock_gmt: false,
            clock_date: false,
            clock_seconds: false,
            clock_cycles: false,
            no_delta: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// A line an event, as babeltrace2 prints it
    Text,
    /// An object a line
    Json,
    /// One document for ui.perfetto.dev and chrome://tracing
    Chrome,
}
