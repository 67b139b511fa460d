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

/// The server that names come from; all of it may be left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server<'a> {
    /// Its name (ns_dnsname).
    pub name: Option<&'a str>,
    /// Its address (ns_dnsIP4addr).
    pub ipv4: Option<Ipv4Addr>,
    /// Its address (ns_dnsIP6addr).
    pub ipv6: Option<Ipv6Addr>,
    /// What a human says of the names.
    pub comments: &'a [&'a str],
}
