//! Names of hosts, networks, ports and protocols: asked of a [`Names`], since this crate opens no file.

use std::net::IpAddr;

/// Which protocol a port's name belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Answers what names stand for.
pub trait Names {
    /// Addresses of a host (hosts(5), DNS); none: it is not known.
    fn host(&self, name: &str) -> Vec<IpAddr>;
    /// A network's number (networks(5)), as the system's library gives it.
    fn network(&self, name: &str) -> Option<u32>;
    /// A port's number for a protocol (services(5)).
    fn port(&self, name: &str, transport: Transport) -> Option<u16>;
    /// An IP protocol's number (protocols(5)).
    fn protocol(&self, name: &str) -> Option<u8>;
    /// An interface's index, as packets' contexts say it.
    fn interface(&self, name: &str) -> Option<u32> {
        let _ = name;
        None
    }
    /// A host's hardware address (ethers(5)).
    fn ether(&self, name: &str) -> Option<[u8; 6]>;
}

/// Knows no name.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn host(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }

    fn network(&self, _: &str) -> Option<u32> {
        None
    }

    fn port(&self, _: &str, _: Transport) -> Option<u16> {
        None
    }

    fn protocol(&self, _: &str) -> Option<u8> {
        None
    }

    fn ether(&self, _: &str) -> Option<[u8; 6]> {
        None
    }
}
