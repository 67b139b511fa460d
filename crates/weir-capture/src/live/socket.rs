//! [`Socket`]: one interface's packet socket and its ring → records.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::libc;
use weir_cbpf::{Insn, Machine, Program};
use weir_pcapng::{Direction, Hash, HashAlgorithm, PacketFlags, Reception};

use crate::error::Error;
use crate::limits::{RING_BYTES_MAX, SNAPLEN_DEFAULT};
use crate::live::device::Device;
use crate::live::ring::{self, FRAME_HEAD, Ring, u16_at, u32_at};
use crate::live::{FilteredBy, Options, cooked, sys, tag};
use crate::record::Record;
use crate::source::Counts;

/// What the kernel says of a packet (`tp_status`).
mod status {
    pub(super) const CHECKSUM_NOT_READY: u32 = 1 << 3;
    pub(super) const VLAN: u32 = 1 << 4;
    pub(super) const VLAN_PROTOCOL: u32 = 1 << 6;
    pub(super) const CHECKSUM_VALID: u32 = 1 << 7;
    pub(super) const GSO_TCP: u32 = 1 << 8;
}

/// Whose packet it is (`sll_pkttype`).
mod kind {
    pub(super) const HOST: u8 = 0;
    pub(super) const BROADCAST: u8 = 1;
    pub(super) const MULTICAST: u8 = 2;
    pub(super) const OTHER_HOST: u8 = 3;
    pub(super) const OUTGOING: u8 = 4;
}

/// 802.1Q.
const VLAN_PROTOCOL: u16 = 0x8100;

pub(super) struct Socket {
    name: String,
    index: i32,
    fd: OwnedFd,
    ring: Ring,
    is_cooked: bool,
    /// The number of the loopback interface, if that is captured, or all are.
    loopback: Option<u32>,
    has_hashes: bool,
    /// Packets that have no tag were filtered by the kernel.
    has_sieve: bool,
    /// Records that came out of the ring, and packets that the kernel has put in or dropped, since the beginning.
    given: u64,
    accepted: u64,
    dropped: u64,
    /// Of the drops, those that no record has said yet.
    unsaid: u64,
    /// The interface's own counter of losses when it was asked last, and how many there were since the beginning.
    missed: Option<(u32, u64)>,
}

impl Socket {
    /// A socket that receives nothing before [`Socket::bind`]. `by`: who filters its packets; what is still to be filtered is not cut.
    pub(super) fn open(
        device: &Device,
        options: Options,
        program: Option<&Program>,
        by: Option<FilteredBy>,
    ) -> Result<Socket, Error> {
        let refused = |doing| move |error| Error::Interface { name: device.name.clone(), doing, error };
        let is_cooked = device.is_cooked();
        if options.ring_bytes > RING_BYTES_MAX {
            let bytes = options.ring_bytes;
            return Err(Error::Limit(format!("a buffer of {bytes} bytes; there may be {RING_BYTES_MAX}")));
        }
        let fd = sys::packet_socket(is_cooked).map_err(refused(MAKING))?;
        let all;
        let program = match program {
            Some(program) => program,
            None => {
                all = keeps(if by == Some(FilteredBy::Process) { SNAPLEN_DEFAULT } else { options.snaplen });
                &all
            }
        };
        sys::attach(fd.as_fd(), program).map_err(refused("attaching the filter"))?;
        let is_loopback = device.is_loopback();
        if is_loopback {
            // Linux before 4.20 does not know it; they are left out of what is read, too.
            let _ = sys::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32);
        }
        let has_hashes = device.has_toeplitz();
        let reserve = tag::TAG + if is_cooked { cooked::HEADER } else { 0 };
        let ring = Ring::new(fd.as_fd(), options.ring_bytes, reserve as u32, has_hashes);
        let ring = ring.map_err(refused("making its buffer (a smaller one may do)"))?;
        if options.is_promiscuous && device.index != 0 && !is_loopback {
            // `struct packet_mreq`: the interface, what is asked for, and an address that this does not need.
            let request = [device.index, libc::PACKET_MR_PROMISC, 0, 0];
            let set = sys::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request);
            set.map_err(refused("asking for promiscuous mode (-p does without)"))?;
        }
        let loopback = match is_loopback || device.index == 0 {
            true => nix::net::if_::if_nametoindex("lo").ok(),
            false => None,
        };
        Ok(Socket {
            name: device.name.clone(),
            index: device.index,
            fd,
            ring,
            is_cooked,
            loopback,
            has_hashes,
            has_sieve: by == Some(FilteredBy::Both),
            given: 0,
            accepted: 0,
            dropped: 0,
            unsaid: 0,
            missed: sys::missed(&device.name).map(|counter| (counter, 0)),
        })
    }

    /// Receives from here on.
    pub(super) fn bind(&self) -> Result<(), Error> {
        let bound = sys::bind(self.fd.as_fd(), self.index);
        bound.map_err(|error| match error.raw_os_error() {
            Some(libc::ENETDOWN) => Error::Gone { name: self.name.clone(), error },
            _ => self.refused("binding to it", error),
        })?;
        match self.failure() {
            Some(error) => Err(Error::Gone { name: self.name.clone(), error }),
            None => Ok(()),
        }
    }

    fn refused(&self, doing: &'static str, error: io::Error) -> Error {
        Error::Interface { name: self.name.clone(), doing, error }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What went wrong since this was asked last.
    pub(super) fn failure(&self) -> Option<io::Error> {
        let [error] = sys::get::<1>(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).ok()?;
        (error != 0).then(|| io::Error::from_raw_os_error(error as i32))
    }

    /// No packet is accepted any more.
    pub(super) fn reject_all(&self) -> Result<(), Error> {
        let attached = sys::attach(self.fd.as_fd(), &keeps(0));
        attached.map_err(|error| self.refused("ending its capture", error))
    }

    /// All that the kernel has accepted came out of the ring.
    pub(super) fn has_given_all(&mut self) -> Result<bool, Error> {
        self.ask_statistics()?;
        Ok(self.given >= self.accepted - self.dropped)
    }

    /// Adds what the kernel has counted since it was asked last.
    fn ask_statistics(&mut self) -> Result<(), Error> {
        // `struct tpacket_stats_v3`: packets with those that were dropped, drops, and how often the ring was full.
        let counted = sys::get::<3>(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let [packets, drops, _] =
            counted.map_err(|error| self.refused("asking for its statistics", error))?;
        self.accepted += u64::from(packets);
        self.dropped += u64::from(drops);
        self.unsaid += u64::from(drops);
        Ok(())
    }

    pub(super) fn counts(&mut self) -> Result<Counts, Error> {
        self.ask_statistics()?;
        // An interface that is gone says no more.
        if let (Some((before, missed)), Some(now)) = (&mut self.missed, sys::missed(&self.name)) {
            *missed += u64::from(now.wrapping_sub(*before));
            *before = now;
        }
        Ok(Counts {
            received: None,
            interface_dropped: self.missed.map(|(_, missed)| missed),
            accepted: Some(self.accepted),
            os_dropped: Some(self.dropped),
            of_file: None,
        })
    }

    /// When the next record was captured.
    pub(super) fn next_time(&mut self) -> Option<u64> {
        self.ring.next_time()
    }

    /// Passes over what leaves by the loopback interface, which comes in there again.
    fn skip_outgoing(&mut self) {
        while let Some(frame) = self.ring.peek() {
            let ifindex = Some(u32_at(frame, ADDRESS + 4));
            if frame[ADDRESS + 10] != kind::OUTGOING || self.loopback != ifindex {
                break;
            }
            self.ring.next();
            self.given += 1;
        }
    }

    /// The next record of the ring, of the interface with this number.
    #[inline]
    pub(super) fn record(&mut self, interface: usize) -> Result<Option<Record<'_>>, Error> {
        if self.ring.is_losing() {
            self.ask_statistics()?;
        }
        if self.loopback.is_some() {
            self.skip_outgoing();
        }
        let drops = std::mem::take(&mut self.unsaid);
        let Some(frame) = self.ring.next() else {
            self.unsaid = drops;
            return Ok(None);
        };
        self.given += 1;
        let mut record = of_frame(frame, self.is_cooked, self.has_hashes);
        record.interface = interface;
        record.drops = drops;
        record.is_accepted &= self.has_sieve;
        Ok(Some(record))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const MAKING: &str = "making a packet socket (this needs root, or CAP_NET_RAW)";

/// Where the address is that comes after a frame's head.
const ADDRESS: usize = 48;

/// A program that keeps so many bytes of every packet.
fn keeps(bytes: u32) -> Program {
    // SANITY: a program of one return.
    weir_cbpf::check(&[Insn::ret(bytes)], Machine::Kernel).expect("a return")
}

/// A frame of a ring as a record, its tag and its cooked header put in place.
#[inline]
fn of_frame(frame: &mut [u8], is_cooked: bool, has_hashes: bool) -> Record<'_> {
    let time = ring::time(frame);
    let (captured, mut wire_len, status) = (u32_at(frame, 12) as usize, u32_at(frame, 16), u32_at(frame, 20));
    let mut begin = usize::from(u16_at(frame, if is_cooked { 26 } else { 24 }));
    let end = (begin + captured).min(frame.len());
    // SANITY: a frame has its head and its address.
    let address: [u8; 20] = frame[ADDRESS..FRAME_HEAD].try_into().unwrap();
    let tag = (status & status::VLAN != 0).then(|| {
        let has_protocol = status & status::VLAN_PROTOCOL != 0;
        (if has_protocol { u16_at(frame, 36) } else { VLAN_PROTOCOL }, u32_at(frame, 32) as u16)
    });
    let before = begin;
    if is_cooked {
        begin = cooked::head(frame, begin, &address, tag);
    } else if let Some((protocol, number)) = tag {
        begin = tag::put_back(&mut frame[..end], begin, protocol, number);
    }
    wire_len += (before - begin) as u32;
    let frame: &[u8] = frame;
    let mut record = Record::new(0, time, wire_len, &frame[begin..end]);
    let flags = flags(address[10], status);
    record.flags = Some(flags);
    record.is_accepted = tag.is_none();
    record.ifindex = u32_at(&address, 4);
    if has_hashes && flags.direction() == Direction::Inbound && u32_at(frame, 28) != 0 {
        record.hash = Some(Hash { algorithm: HashAlgorithm::Toeplitz, bytes: &frame[28..32] });
    }
    record
}

fn flags(kind: u8, status: u32) -> PacketFlags {
    let flags = PacketFlags::default();
    let inbound = flags.with_direction(Direction::Inbound);
    let mut flags = match kind {
        kind::HOST => inbound.with_reception(Reception::Unicast),
        kind::BROADCAST => inbound.with_reception(Reception::Broadcast),
        kind::MULTICAST => inbound.with_reception(Reception::Multicast),
        kind::OTHER_HOST => inbound.with_reception(Reception::Promiscuous),
        kind::OUTGOING => flags.with_direction(Direction::Outbound),
        _ => flags,
    };
    if status & status::CHECKSUM_NOT_READY != 0 {
        flags = flags.and_checksum_not_ready();
    }
    if status & status::CHECKSUM_VALID != 0 {
        flags = flags.and_checksum_valid();
    }
    if status & status::GSO_TCP != 0 {
        flags = flags.and_segmentation_offloaded();
    }
    flags
}
