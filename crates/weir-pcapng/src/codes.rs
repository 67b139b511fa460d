//! The numbers of pcapng: types of blocks, codes of options, and how long an option is.
//!
//! Source: draft-ietf-opsawg-pcapng, sections 3.5, 4 and 10.1. The reader takes both from the tables here.

/// Types of blocks.
pub(crate) mod block {
    pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
    pub(crate) const INTERFACE: u32 = 1;
    /// Obsolete, and in old files.
    pub(crate) const PACKET: u32 = 2;
    pub(crate) const SIMPLE: u32 = 3;
    pub(crate) const NAMES: u32 = 4;
    pub(crate) const STATISTICS: u32 = 5;
    pub(crate) const ENHANCED: u32 = 6;
    pub(crate) const SECRETS: u32 = 0x0a;
    pub(crate) const CUSTOM: u32 = 0x0bad;
    /// Rewriters do not copy these.
    pub(crate) const CUSTOM_NOT_COPIED: u32 = 0x4000_0bad;
}

/// The byte-order magic of a section.
pub(crate) const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Types of secrets, for [`Event::Secrets`](crate::Event::Secrets).
pub mod secrets {
    /// SSH key log.
    pub const SSH: u32 = 0x5353_484b;
    /// TLS key log (`SSLKEYLOGFILE`).
    pub const TLS: u32 = 0x544c_534b;
    /// OPC UA key log.
    pub const OPC_UA: u32 = 0x5541_4b4c;
    /// WireGuard key log.
    pub const WIREGUARD: u32 = 0x5747_4b4c;
    /// ZigBee network key.
    pub const ZIGBEE_NETWORK: u32 = 0x5a4e_574b;
    /// ZigBee application support key.
    pub const ZIGBEE_APPLICATION: u32 = 0x5a41_5053;
}

pub(crate) const END: u16 = 0;
pub(crate) const COMMENT: u16 = 1;

/// How long an option's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Length {
    Exactly(u16),
    AtLeast(u16),
}

impl Length {
    #[inline]
    pub(crate) fn allows(self, length: usize) -> bool {
        match self {
            Length::Exactly(exactly) => length == usize::from(exactly),
            Length::AtLeast(least) => length >= usize::from(least),
        }
    }
}

/// An option of a block: its code, its name in the draft, how long it is.
pub(crate) type Row = (u16, &'static str, Length);

use Length::{AtLeast, Exactly};

macro_rules! options {
    ($(#[$doc:meta])* $table:ident { $($name:ident $code:literal $text:literal $length:expr;)* }) => {
        $(#[$doc])*
        pub(crate) mod $table {
            use super::{AtLeast, Exactly, Row};
            $(pub(crate) const $name: u16 = $code;)*
            pub(crate) const ROWS: &[Row] = &[$(($code, $text, $length),)*];
            // A table may have lengths of one kind alone.
            const _: [super::Length; 2] = [AtLeast(0), Exactly(0)];
        }
    };
}

options! { section {
    HARDWARE 2 "shb_hardware" AtLeast(0);
    OS 3 "shb_os" AtLeast(0);
    APPLICATION 4 "shb_userappl" AtLeast(0);
} }

options! { interface {
    NAME 2 "if_name" AtLeast(0);
    DESCRIPTION 3 "if_description" AtLeast(0);
    IPV4 4 "if_IPv4addr" Exactly(8);
    IPV6 5 "if_IPv6addr" Exactly(17);
    MAC 6 "if_MACaddr" Exactly(6);
    EUI 7 "if_EUIaddr" Exactly(8);
    SPEED 8 "if_speed" Exactly(8);
    RESOLUTION 9 "if_tsresol" Exactly(1);
    FILTER 11 "if_filter" AtLeast(1);
    OS 12 "if_os" AtLeast(0);
    FCS 13 "if_fcslen" Exactly(1);
    OFFSET 14 "if_tsoffset" Exactly(8);
    HARDWARE 15 "if_hardware" AtLeast(0);
    SPEED_TRANSMIT 16 "if_txspeed" Exactly(8);
    SPEED_RECEIVE 17 "if_rxspeed" Exactly(8);
    TIME_ZONE 18 "if_iana_tzname" AtLeast(0);
} }

options! {
/// Of the obsolete packet block too, which shares the first two of them.
packet {
    FLAGS 2 "epb_flags" Exactly(4);
    HASH 3 "epb_hash" AtLeast(1);
    DROP_COUNT 4 "epb_dropcount" Exactly(8);
    PACKET_ID 5 "epb_packetid" Exactly(8);
    QUEUE 6 "epb_queue" Exactly(4);
    VERDICT 7 "epb_verdict" AtLeast(1);
    PROCESS_THREAD 8 "epb_processid_threadid" Exactly(8);
} }

options! { names {
    SERVER_NAME 2 "ns_dnsname" AtLeast(0);
    SERVER_IPV4 3 "ns_dnsIP4addr" Exactly(4);
    SERVER_IPV6 4 "ns_dnsIP6addr" Exactly(16);
} }

options! { statistics {
    START 2 "isb_starttime" Exactly(8);
    END 3 "isb_endtime" Exactly(8);
    RECEIVED 4 "isb_ifrecv" Exactly(8);
    DROPPED 5 "isb_ifdrop" Exactly(8);
    ACCEPTED 6 "isb_filteraccept" Exactly(8);
    OS_DROPPED 7 "isb_osdrop" Exactly(8);
    DELIVERED 8 "isb_usrdeliv" Exactly(8);
} }

/// Options that every block may have.
pub(crate) const ANY: &[Row] = &[
    (2988, "opt_custom", AtLeast(4)),
    (2989, "opt_custom", AtLeast(4)),
    (19372, "opt_custom", AtLeast(4)),
    (19373, "opt_custom", AtLeast(4)),
];

/// Records of a name resolution block, and the least length of each: an address, one character and a NUL.
pub(crate) mod record {
    pub(crate) const END: u16 = 0;
    pub(crate) const IPV4: u16 = 1;
    pub(crate) const IPV6: u16 = 2;
    pub(crate) const EUI48: u16 = 3;
    pub(crate) const EUI64: u16 = 4;

    /// Bytes of the address; none for records that are skipped.
    pub(crate) fn address_bytes(kind: u16) -> Option<usize> {
        match kind {
            IPV4 => Some(4),
            IPV6 => Some(16),
            EUI48 => Some(6),
            EUI64 => Some(8),
            _ => None,
        }
    }
}

/// To the next multiple of four.
#[inline]
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}
