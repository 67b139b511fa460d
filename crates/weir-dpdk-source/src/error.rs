//! What goes wrong between weir and a DPDK application.

use std::io;
use std::path::PathBuf;

/// See the variants.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No socket of that prefix.
    #[error(
        "no DPDK application {prefix:?} answers ({}): is it running, as a user whose files you may open, and \
         not with --no-telemetry?",
        list(looked)
    )]
    NoApplication {
        /// What was asked for.
        prefix: String,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The application's socket failed.
    #[error("the telemetry socket of the application: {0}")]
    Socket(#[from] io::Error),
    /// The application has gone.
    #[error("the application has closed its telemetry socket: it has ended")]
    Gone,
    /// It answered what is no answer.
    #[error("the application answered {command} with {answer:?}, which is no answer to that")]
    Answer {
        /// What it was asked.
        command: String,
        /// Its words.
        answer: String,
    },
    /// It has not loaded the plugin.
    #[error(
        "the application has not loaded libweir_dpdk.so: start it with `-d PATH/libweir_dpdk.so` among EAL's options, or with \
         LD_PRELOAD=PATH/libweir_dpdk.so; or have it load that while it runs (`weir capture --load`)"
    )]
    NoPlugin,
    /// The plugin refuses.
    #[error("the application's plugin refuses: {0}")]
    Refused(String),
    /// A port that the application does not have.
    #[error("the application has no port {port:?}; it has {has}")]
    NoPort {
        /// What was asked for.
        port: String,
        /// Those that there are.
        has: String,
    },
    /// Nothing can be captured.
    #[error("none of the ports has a queue: the application has not set them up yet")]
    NoQueues,
    /// The shared memory.
    #[error("making the shared memory for packets: {0}")]
    Segment(io::Error),
    /// The time stamp counter may not be read here.
    #[error(
        "this process cannot read the time stamp counter (prctl(2), PR_SET_TSC), by which packets are dated"
    )]
    NoClock,
    /// A ring held what no writer writes.
    #[error("the application has written over the ring of {0}: no further packets of it are read")]
    Corrupt(String),
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}
