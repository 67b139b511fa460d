//! Names of addresses (name resolution blocks).

use std::net::{Ipv4Addr, Ipv6Addr};

/// An address that has names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// IPv4.
    Ipv4(Ipv4Addr),
    /// IPv6.
    Ipv6(Ipv6Addr),
    /// EUI-48, or MAC.
    Eui48([u8; 6]),
    /// EUI-64.
    Eui64([u8; 8]),
}
