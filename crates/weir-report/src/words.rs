//! What numbers of the system stand for.

use std::net::{Ipv4Addr, Ipv6Addr};

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

/// The 6 bytes of a MAC address, the first lowest.
pub(crate) fn mac(value: u64) -> String {
    let bytes: Vec<String> = value.to_le_bytes()[..6].iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// An address of the family AF_INET or AF_INET6 (of all systems' numbers for it, Linux's), in network order; empty of another.
pub(crate) fn internet(family: u64, address: &[u8]) -> String {
    match (family, address.first_chunk::<4>(), address.first_chunk::<16>()) {
        (2, Some(address), _) => Ipv4Addr::from(*address).to_string(),
        (10, _, Some(address)) => Ipv6Addr::from(*address).to_string(),
        _ => String::new(),
    }
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
        assert_eq!(mac(0x0605_04ab_0201), "01:02:AB:04:05:06");
        let loopback = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(
            (internet(10, &loopback), internet(2, &[127, 0, 0, 1])),
            ("::1".into(), "127.0.0.1".into())
        );
        assert_eq!((internet(10, &[1, 2]), internet(7, &loopback)), (String::new(), String::new()));
        assert_eq!(error(u64::MAX).as_deref(), Some("Unknown error -1"));
    }
}
