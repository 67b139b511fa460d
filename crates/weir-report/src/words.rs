//! What numbers of the system stand for.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What strsignal(3) says of the signals from 1 on.
#[rustfmt::skip]
const SIGNALS: [&str; 31] = [
    "Hangup", "Interrupt", "Quit", "Illegal instruction", "Trace/breakpoint trap", "Aborted", "Bus error",
    "Floating point exception", "Killed", "User defined signal 1", "Segmentation fault",
    "User defined signal 2", "Broken pipe", "Alarm clock", "Terminated", "Stack fault", "Child exited",
    "Continued", "Stopped (signal)", "Stopped", "Stopped (tty input)", "Stopped (tty output)",
    "Urgent I/O condition", "CPU time limit exceeded", "File size limit exceeded", "Virtual timer expired",
    "Profiling timer expired", "Window changed", "I/O possible", "Power failure", "Bad system call",
];

/// The first signal without a meaning of its own (glibc keeps two for itself), and the last.
const REAL_TIME: (u64, u64) = (34, 64);

/// What a signal's number means.
pub(crate) fn signal(number: u64) -> String {
    let known = number.checked_sub(1).and_then(|index| SIGNALS.get(usize::try_from(index).ok()?));
    match (known, number) {
        (Some(known), _) => (*known).to_owned(),
        (None, number) if number > REAL_TIME.1 => "N/A".to_owned(),
        (None, number) if number >= REAL_TIME.0 => format!("Real-time signal {}", number - REAL_TIME.0),
        (None, number) => format!("Unknown signal {number}"),
    }
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
        let signals = [0, 9, 31, 32, 34, 64, 65, u64::MAX].map(signal);
        let want =
            ["Unknown signal 0", "Killed", "Bad system call", "Unknown signal 32", "Real-time signal 0"];
        assert_eq!(signals[..5], want);
        assert_eq!(signals[5..], ["Real-time signal 30", "N/A", "N/A"]);
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
