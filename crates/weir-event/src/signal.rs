//! Names of signals (signal(7), on all machines but MIPS, PA-RISC and SPARC).

/// From 1 on.
#[rustfmt::skip]
const NAMES: [&str; 31] = [
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV",
    "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN",
    "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
];

/// The greatest number of a signal, most of which have no name.
pub const NUMBER_MAX: u64 = 64;

/// The number of a signal by its name, in capitals or small letters, with `SIG` or without.
pub fn number(name: &str) -> Option<u64> {
    let name = name.to_ascii_uppercase();
    let short = match name.strip_prefix("SIG").unwrap_or(&name) {
        "POLL" => "IO",
        short => short,
    };
    let found = NAMES.iter().position(|known| known.strip_prefix("SIG") == Some(short))?;
    Some(found as u64 + 1)
}

/// Each name, for messages.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_numbers() {
        for (name, wanted) in names().zip(1..) {
            assert_eq!(number(name), Some(wanted), "{name}");
            assert_eq!(number(&name[3..].to_lowercase()), Some(wanted), "{name}");
        }
        assert_eq!(
            ["SIGPOLL", "KILL", "", "SIG", "9", "SIGRTMIN"].map(number),
            [Some(29), Some(9), None, None, None, None]
        );
    }
}
