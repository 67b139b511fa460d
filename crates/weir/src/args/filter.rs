//! The command line of `weir filter`: event filters by hand.

use clap::{Subcommand, ValueEnum};
use weir_filter::Dialect;

use crate::args::dialect;

#[derive(clap::Args, Debug)]
pub(crate) struct Filter {
    #[command(subcommand)]
    pub(crate) command: FilterCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum FilterCommand {
    /// Say whether a filter is sound, and if not, where and why
    Check(Given),
    /// Run a filter on the fields given, and print true or false
    Eval {
        #[command(flatten)]
        given: Given,
        /// What runs it
        #[arg(long, value_enum, default_value_t = Engine::Jit)]
        engine: Engine,
    },
    /// Print each stage of a filter: syntax tree, intermediate representation, eBPF with what the verifier knows, machine code
    Explain(Given),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Given {
    /// The fields of the event, as a JSON object of numbers, strings (null: one whose address is 0), arrays, and objects for structs;
    /// {"$float": 1.5}, {"$sequence": [1, 2]} and {"$enum": 1, "labels": {"IDLE": 0, "BUSY": 1}} are what they say
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) fields: String,

    /// The event whose fields these are, with the types that its file says: usdt:BINARY:PROVIDER:NAME, uprobe:BINARY:FUNCTION
    /// or uretprobe:BINARY:FUNCTION
    #[arg(long, value_name = "PROBE")]
    pub(crate) event: Option<String>,

    /// What the operators mean
    #[arg(long, value_parser = dialect(), default_value_t)]
    pub(crate) dialect: Dialect,

    /// The filter, behind -- if it begins with one
    #[arg(value_name = "EXPR")]
    pub(crate) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Engine {
    /// The interpreter
    Interp,
    /// Machine code
    Jit,
}
