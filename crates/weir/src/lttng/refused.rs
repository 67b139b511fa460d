//! What LTTng has and weir has not, each with what there is instead.

use crate::args::lttng::rules::Domain;
use crate::lttng::client::End;

/// Commands, and what to use instead.
const COMMANDS: [(&str, &str); 6] = [
    (
        "add-trigger",
        "--start-on, --stop-on, --rotate-on, --snapshot-on and --run-on of weir record create do something when an event is recorded",
    ),
    ("remove-trigger", "triggers are options of weir record create, and end with their session"),
    ("list-triggers", "triggers are options of weir record create; weir record status shows them"),
    ("metadata", "metadata are written with the trace, and are whole at any time"),
    (
        "crash",
        "what a killed weir or daemon had read is in the trace already, and programs write on without it",
    ),
    ("calibrate", "there is nothing to calibrate"),
];

/// Of a command that weir has not.
pub(super) fn command(name: &str) -> End {
    match COMMANDS.iter().find(|(known, _)| *known == name) {
        Some((name, instead)) => End::error(format!("weir has no {name}: {instead}"), 1),
        None => End::error(
            format!(
                "{} is not a command of LTTng that weir knows. See 'weir lttng --help'.",
                name.escape_debug()
            ),
            2,
        ),
    }
}

/// Unless it is LTTng-UST's.
pub(super) fn check_domain(of: &Domain) -> Result<(), End> {
    let refused = |option: &str, instead: &str| Err(End::error(format!("{option}: {instead}"), 1));
    match of {
        Domain { kernel: true, .. } => refused(
            "--kernel",
            "weir records events of programs; weir trace 'tracepoint:…', 'kprobe:…' and so on traces those of the kernel",
        ),
        Domain { jul: true, .. } => refused("--jul", &loggers("lttng_jul", "800")),
        Domain { log4j: true, .. } => refused("--log4j", &loggers("lttng_log4j", "20000")),
        Domain { python: true, .. } => refused("--python", &loggers("lttng_python", "20")),
        Domain { userspace: false, .. } => Err(End::error(
            "Please specify a domain (--kernel/--userspace/--jul/--log4j/--python).".to_owned(),
            1,
        )),
        Domain { .. } => Ok(()),
    }
}

/// What records loggers; `level`: what their INFO is called in numbers.
fn loggers(provider: &str, level: &str) -> String {
    format!(
        "weir lttng has no loggers; where a program has weir's (docs/logging.md), `weir record -e {provider}:event --dialect lttng --filter \
         'logger_name == \"NAME\" && int_loglevel >= {level}'` records them, and so does `weir record enable SESSION` in a session of weir lttng create"
    )
}

/// Where an option was given.
pub(super) fn check(options: &[(bool, &str, &str)]) -> Result<(), End> {
    match options.iter().find(|(is_given, ..)| *is_given) {
        Some((_, option, instead)) => Err(End::error(format!("{option}: {instead}"), 1)),
        None => Ok(()),
    }
}
