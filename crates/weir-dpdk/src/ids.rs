//! Numbers by which a packet that was received is known again when it is sent.
//!
//! A number lies in a dynamic field of the packet, and a dynamic flag says that it does: flags are reset when a packet is received or
//! allocated anew, fields are not. An application that resets flags on the way gives its packets up.

use crate::dpdk::{Dpdk, DynField, DynFlag};
use crate::mbuf::RteMbuf;

/// Field and flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    offset: usize,
    flag: u64,
    session: u64,
}

/// A number is that of its session, of its ring and of the packet in that.
const SESSION_BITS: u32 = 12;
const RING_BITS: u32 = 12;
const PACKET_BITS: u32 = 64 - SESSION_BITS - RING_BITS;

impl Ids {
    /// Asks DPDK for a field and a flag: the same ones as the time before.
    pub(crate) fn register(dpdk: &Dpdk, session: u64) -> Result<Ids, String> {
        let field = DynField { name: name("weir_dynfield_packet_id"), size: 8, align: 8, flags: 0 };
        let flag = DynFlag { name: name("weir_dynflag_packet_id"), flags: 0 };
        // SAFETY: both are what their types say, and read until the functions return.
        let (offset, bit) = unsafe {
            (
                (dpdk.rte_mbuf_dynfield_register)(&raw const field),
                (dpdk.rte_mbuf_dynflag_register)(&raw const flag),
            )
        };
        let is_inside = (0..=size_of::<RteMbuf>() as i32 - 8).contains(&offset) && offset % 8 == 0;
        if !is_inside || !(0..64).contains(&bit) {
            return Err(
                "DPDK has no room for a number in its packets: other dynamic fields have taken it".to_owned()
            );
        }
        Ok(Ids { offset: offset as usize, flag: 1 << bit, session: session % (1 << SESSION_BITS) })
    }

    /// The number of packet `packet` of ring `ring`.
    pub(crate) fn number(&self, ring: usize, packet: u64) -> u64 {
        self.session << (RING_BITS + PACKET_BITS)
            | (ring as u64) << PACKET_BITS
            | packet & ((1 << PACKET_BITS) - 1)
    }

    /// Gives a packet a number.
    ///
    /// # Safety
    /// The packet is this thread's alone.
    pub(crate) unsafe fn put(&self, packet: *mut RteMbuf, number: u64) {
        // SAFETY: the field is inside the packet and aligned, as `register` has checked, and the plugin's own.
        unsafe {
            packet.byte_add(self.offset).cast::<u64>().write(number);
            (*packet).ol_flags |= self.flag;
        }
    }

    /// The number that it got in this session.
    ///
    /// # Safety
    /// The packet is this thread's alone.
    pub(crate) unsafe fn get(&self, packet: *const RteMbuf) -> Option<u64> {
        // SAFETY: as for `put`.
        unsafe {
            if (*packet).ol_flags & self.flag == 0 {
                return None;
            }
            let number = packet.byte_add(self.offset).cast::<u64>().read();
            (number >> (RING_BITS + PACKET_BITS) == self.session).then_some(number)
        }
    }
}

fn name(text: &str) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}
