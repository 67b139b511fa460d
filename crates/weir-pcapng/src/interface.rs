//! Interfaces: what a file says of where its packets come from.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::clock::Resolution;

/// The number of an interface in its section, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceId(pub(crate) u32);

impl InterfaceId {
    /// Its place in [`Reader::interfaces`](crate::Reader::interfaces).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for InterfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The filter that packets passed (if_filter).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// A text in libpcap's language.
    Text(String),
    /// Classic BPF, as the file has it: 8 bytes an instruction.
    Bpf(Vec<u8>),
    /// Another kind, by its number, and its bytes.
    Other(u8, Vec<u8>),
}

/// How fast an interface is, in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// Both ways alike (if_speed).
    Both(u64),
    /// Each way its own (if_txspeed, if_rxspeed).
    Each {
        /// Sending; not known in some files.
        transmit: Option<u64>,
        /// Receiving; not known in some files.
        receive: Option<u64>,
    },
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The link type of its packets (LINKTYPE_; 1 is Ethernet).
    pub link_type: u16,
    /// Bytes that are captured of a packet at most; 0: no limit.
    pub snaplen: u32,
    /// As the system has it: `eth0` (if_name).
    pub name: Option<String>,
    /// For humans (if_description).
    pub description: Option<String>,
    /// Addresses with their masks (if_IPv4addr).
    pub ipv4: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Addresses with the lengths of their prefixes (if_IPv6addr).
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// EUI-48 (if_MACaddr).
    pub mac: Option<[u8; 6]>,
    /// EUI-64 (if_EUIaddr).
    pub eui: Option<[u8; 8]>,
    /// How fast it is.
    pub speed: Option<Speed>,
    /// The unit of times in the file.
    pub resolution: Resolution,
    /// Seconds that are added to times in the file (if_tsoffset).
    pub offset_s: i64,
    /// The filter that packets passed.
    pub filter: Option<Filter>,
    /// The system of the machine it is in (if_os).
    pub os: Option<String>,
    /// The device: `0000:00:01.0` (if_hardware).
    pub hardware: Option<String>,
    /// Bits of the frame check sequence at the end of packets (if_fcslen); 16 a word in classic files.
    pub fcs_bits: Option<u8>,
    /// `Europe/Berlin` (if_iana_tzname).
    pub time_zone: Option<String>,
    /// What a human says of it.
    pub comments: Vec<String>,
}

impl Interface {
    /// One of which nothing else is known, with times in nanoseconds.
    pub fn new(link_type: u16, snaplen: u32) -> Interface {
        Interface {
            link_type,
            snaplen,
            name: None,
            description: None,
            ipv4: Vec::new(),
            ipv6: Vec::new(),
            mac: None,
            eui: None,
            speed: None,
            resolution: Resolution::NANOSECONDS,
            offset_s: 0,
            filter: None,
            os: None,
            hardware: None,
            fcs_bits: None,
            time_zone: None,
            comments: Vec::new(),
        }
    }
}
