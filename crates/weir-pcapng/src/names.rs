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

/// An address and its names, as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameRecord<'a> {
    /// The address.
    pub address: Address,
    /// At least one; none is empty or has a NUL in it.
    pub names: &'a [&'a str],
}

/// The server that said which names addresses have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NameServer<'a> {
    /// ns_dnsname.
    pub name: Option<&'a str>,
    /// ns_dnsIP4addr.
    pub ipv4: Option<Ipv4Addr>,
    /// ns_dnsIP6addr.
    pub ipv6: Option<Ipv6Addr>,
    /// What a human says of it.
    pub comments: &'a [&'a str],
}
