//! What numbers of the system stand for.

use std::net::{Ipv4Addr, Ipv6Addr};

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
