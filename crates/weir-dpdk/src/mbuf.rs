//! `struct rte_mbuf` as DPDK 22.11, 23.11, 24.11 and 25.11 have it on 64-bit machines, built with the address of the buffer for
//! devices in it (RTE_IOVA_IN_MBUF, the default).
//!
//! The four releases' headers say the same of every field that is used here. A process of another release is refused. One of these
//! that was built otherwise is found out by a trial: DPDK's own function reads a packet of two segments that this layout describes,
//! and DPDK's own names of flags are compared.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

use crate::dpdk::{self, Dpdk};

/// Year and month of releases whose layout this is: those with long-term support, whose headers were compared.
const RELEASES: [(u32, u32); 4] = [(22, 11), (23, 11), (24, 11), (25, 11)];

/// A packet, or a segment of one.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RteMbuf {
    pub(crate) buf_addr: *mut u8,
    buf_iova: u64,
    pub(crate) data_off: u16,
    refcnt: u16,
    pub(crate) nb_segs: u16,
    port: u16,
    pub(crate) ol_flags: u64,
    packet_type: u32,
    pub(crate) pkt_len: u32,
    pub(crate) data_len: u16,
    pub(crate) vlan_tci: u16,
    pub(crate) rss: u32,
    hash_upper: u32,
    pub(crate) vlan_tci_outer: u16,
    buf_len: u16,
    pool: *mut c_void,
    pub(crate) next: *const RteMbuf,
    rest: [u64; 7],
}

const _: () = assert!(
    offset_of!(RteMbuf, data_off) == 16
        && offset_of!(RteMbuf, nb_segs) == 20
        && offset_of!(RteMbuf, ol_flags) == 24
        && offset_of!(RteMbuf, pkt_len) == 36
        && offset_of!(RteMbuf, data_len) == 40
        && offset_of!(RteMbuf, vlan_tci) == 42
        && offset_of!(RteMbuf, rss) == 44
        && offset_of!(RteMbuf, vlan_tci_outer) == 52
        && offset_of!(RteMbuf, next) == 64
        && size_of::<RteMbuf>() == 128
);

/// `RTE_MBUF_F_RX_*` and `RTE_MBUF_F_TX_*`.
pub(crate) mod flag {
    pub(crate) const RX_RSS_HASH: u64 = 1 << 1;
    pub(crate) const RX_VLAN_STRIPPED: u64 = 1 << 6;
    /// Good; with bad, it says nothing.
    pub(crate) const RX_L4_CKSUM_GOOD: u64 = 1 << 8;
    pub(crate) const RX_L4_CKSUM_BAD: u64 = 1 << 3;
    pub(crate) const RX_QINQ_STRIPPED: u64 = 1 << 15;
    pub(crate) const RX_LRO: u64 = 1 << 16;
    pub(crate) const TX_UDP_SEG: u64 = 1 << 42;
    pub(crate) const TX_QINQ: u64 = 1 << 49;
    pub(crate) const TX_TCP_SEG: u64 = 1 << 50;
    pub(crate) const TX_L4_MASK: u64 = 3 << 52;
    pub(crate) const TX_VLAN: u64 = 1 << 57;
}

const RX_NAMES: [(u64, &str); 5] = [
    (flag::RX_RSS_HASH, "RX_RSS_HASH"),
    (flag::RX_VLAN_STRIPPED, "RX_VLAN_STRIPPED"),
    (flag::RX_L4_CKSUM_GOOD, "RX_L4_CKSUM_GOOD"),
    (flag::RX_QINQ_STRIPPED, "RX_QINQ_STRIPPED"),
    (flag::RX_LRO, "RX_LRO"),
];
const TX_NAMES: [(u64, &str); 4] = [
    (flag::TX_UDP_SEG, "TX_UDP_SEG"),
    (flag::TX_QINQ, "TX_QINQ"),
    (flag::TX_TCP_SEG, "TX_TCP_SEG"),
    (flag::TX_VLAN, "TX_VLAN"),
];

impl RteMbuf {
    /// Where the segment's bytes begin.
    #[inline]
    pub(crate) fn data(&self) -> *const u8 {
        self.buf_addr.wrapping_add(usize::from(self.data_off))
    }

    /// One segment that has all bytes of the packet, with none of the flags `beside`.
    #[inline]
    pub(crate) fn is_whole(&self, beside: u64) -> bool {
        self.nb_segs == 1 && self.ol_flags & beside == 0
    }

    /// The bytes of the segment.
    ///
    /// # Safety
    /// It is a segment of a packet that is DPDK's, and its bytes are not written as long as they are borrowed.
    #[inline]
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: a segment has so many bytes from there on; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data(), usize::from(self.data_len)) }
    }

    fn of(buffer: &mut [u8], data_off: u16, data_len: u16, next: *const RteMbuf) -> RteMbuf {
        RteMbuf {
            buf_addr: buffer.as_mut_ptr(),
            buf_iova: 0,
            data_off,
            refcnt: 1,
            nb_segs: 1,
            port: 0,
            ol_flags: 0,
            packet_type: 0,
            pkt_len: u32::from(data_len),
            data_len,
            vlan_tci: 0,
            rss: 0,
            hash_upper: 0,
            vlan_tci_outer: 0,
            buf_len: buffer.len() as u16,
            pool: ptr::null_mut(),
            next,
            rest: [0; 7],
        }
    }
}

/// The layout is that of the running DPDK, or why it is not known to be. `version` is as `rte_version` gives it.
pub(crate) fn check(dpdk: &Dpdk, version: &str) -> Result<(), String> {
    is_known(version)?;
    let is_named = |name: String, expected: &str| match name.ends_with(expected) {
        true => Ok(()),
        false => Err(format!("{version} calls {name:?} what is {expected} here")),
    };
    for (bit, expected) in RX_NAMES {
        // SAFETY: it takes a number, and returns null or a text that is always valid.
        is_named(unsafe { dpdk::text((dpdk.rte_get_rx_ol_flag_name)(bit)) }, expected)?;
    }
    for (bit, expected) in TX_NAMES {
        // SAFETY: as above.
        is_named(unsafe { dpdk::text((dpdk.rte_get_tx_ol_flag_name)(bit)) }, expected)?;
    }
    match reads_two_segments(dpdk) {
        true => Ok(()),
        false => Err(format!(
            "{version} was built with packets (struct rte_mbuf) of another layout than the default one"
        )),
    }
}

fn is_known(version: &str) -> Result<(), String> {
    let mut numbers =
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    let release = numbers.next().zip(numbers.next());
    if release.is_some_and(|release| RELEASES.contains(&release)) {
        return Ok(());
    }
    let known: Vec<String> = RELEASES.iter().map(|(year, month)| format!("{year}.{month:02}")).collect();
    Err(format!(
        "{version}: packets are known as DPDK {} lay them out, and no other release",
        known.join(", ")
    ))
}

/// DPDK reads the bytes of both segments, in their order. Where another layout has its pointer to the next segment there is a decoy.
fn reads_two_segments(dpdk: &Dpdk) -> bool {
    let (mut first, mut second, mut decoy) = (*b"..abc...", *b"....defg", [b'?'; 8]);
    let wrong = RteMbuf::of(&mut decoy, 0, 8, ptr::null());
    let next = RteMbuf::of(&mut second, 4, 4, ptr::null());
    let mut packet = RteMbuf::of(&mut first, 2, 3, &raw const next);
    packet.buf_iova = (&raw const wrong).addr() as u64;
    (packet.nb_segs, packet.pkt_len) = (2, 7);
    let mut out = [0u8; 7];
    // SAFETY: the packet, its segments and their buffers live until this returns, whichever of the two layouts DPDK goes by; there
    // is room for the 7 bytes.
    let read = unsafe { (dpdk.__rte_pktmbuf_read)(&raw const packet, 0, 7, out.as_mut_ptr().cast()) };
    read == out.as_ptr().cast() && out == *b"abcdefg"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_known_by_year_and_month() {
        for version in ["DPDK 22.11.11", "DPDK 23.11.0", "DPDK 24.11.0-rc2", "DPDK 25.11"] {
            assert_eq!(is_known(version), Ok(()), "{version}");
        }
        for version in ["DPDK 21.11.9", "DPDK 24.03.0", "DPDK 26.11.0", "DPDK", "", "DPDK 2211"] {
            let refused = is_known(version).unwrap_err();
            assert!(refused.contains("22.11, 23.11, 24.11, 25.11"), "{refused}");
        }
    }
}
