//! What numbers of the system stand for.

/// The signals that have names, from 1 on (signal(7), on all machines but MIPS, PA-RISC and SPARC).
#[rustfmt::skip]
const SIGNALS: [&str; 31] = [
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV",
    "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN",
    "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
];

/// The name of a signal.
pub(crate) fn signal(number: u64) -> Option<&'static str> {
    SIGNALS.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
}

/// What strerror(3) says of an error's number.
pub(crate) fn error(number: u64) -> Option<String> {
    let number = i32::try_from(number as i64).ok()?;
    let text = std::io::Error::from_raw_os_error(number).to_string();
    Some(text.split(" (os error ").next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_system_s_names() {
        let signals = [0, 9, 31, 32].map(signal);
        assert_eq!(signals, [None, Some("SIGKILL"), Some("SIGSYS"), None]);
        assert_eq!(error(2).as_deref(), Some("No such file or directory"));
        assert_eq!(error(0).as_deref(), Some("Success"));
        assert_eq!(error(u64::MAX).as_deref(), Some("Unknown error -1"));
    }
}
