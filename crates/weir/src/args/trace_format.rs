//! The format of the traces that are recorded, in the words of `lttng create --trace-format`.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TraceFormat {
    /// The Common Trace Format 1.8
    #[value(name = "ctf-1.8", aliases = ["ctf-1", "1.8", "1"])]
    Ctf1,
    /// The Common Trace Format 2
    #[value(name = "ctf-2", alias = "2")]
    Ctf2,
}

impl From<TraceFormat> for weir_trace::write::Format {
    fn from(format: TraceFormat) -> weir_trace::write::Format {
        match format {
            TraceFormat::Ctf1 => weir_trace::write::Format::Ctf1,
            TraceFormat::Ctf2 => weir_trace::write::Format::Ctf2,
        }
    }
}
