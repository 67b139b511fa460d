//! A burst of packets: each is given to the filter where it lies, and what the filter keeps of it is copied into the ring.
//!
//! All packets are asked first, and those that are kept copied afterwards: most bursts have none of them, and the loop that asks stays
//! small (a fifth of the time less). A packet in one segment without tags beside it is not touched before the filter has kept it. The
//! others are put together first (`whole`). All kept packets of a burst have one time: they had come when it was taken.

use std::sync::Arc;

use weir_packet_ring::{Direction, Flags, Meta, RingSpec, Writer};
use weir_rt::local::{LocalProgram, PacketFields};

use crate::ids::Ids;
use crate::isa::native;
use crate::limits::{ASKED_AT_ONCE, PREFETCHED, WHOLE_BYTES_MAX};
use crate::mbuf::{RteMbuf, flag};
use crate::whole::{Tags, Whole};

/// What a queue's bursts go through while it is captured.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) writer: Writer,
    keeps: Keeps,
    direction: Direction,
    ids: Option<Ids>,
    ring: usize,
    snaplen: usize,
    /// What a filter may ask for that is the same of all packets of the queue.
    fields: PacketFields,
    whole: Whole,
    verdicts: [u32; ASKED_AT_ONCE],
}

/// `PACKET_OUTGOING`, as contexts of classifiers have it; what is received has 0.
const OUTGOING: u64 = 4;

/// Which packets are kept.
#[derive(Clone, Debug)]
pub(crate) enum Keeps {
    All,
    /// How many bytes, says the program; none: the packet is not kept.
    Filtered(Arc<LocalProgram>),
    /// The same of a program that asks for the queue or the direction.
    Asking(Arc<LocalProgram>),
}

impl Active {
    pub(crate) fn new(
        writer: Writer,
        keeps: Keeps,
        spec: RingSpec,
        ids: Option<Ids>,
        ring: usize,
        snaplen: u32,
    ) -> Active {
        let snaplen = (snaplen as usize).min(WHOLE_BYTES_MAX);
        let mut fields = PacketFields::default();
        fields.set("pkt_type", if spec.direction == Direction::Tx { OUTGOING } else { 0 });
        // One more than the number, as the kernel has it.
        fields.set("queue_mapping", u64::from(spec.queue) + 1);
        let (whole, verdicts) = (Whole::new(), [0; ASKED_AT_ONCE]);
        Active { writer, keeps, direction: spec.direction, ids, ring, snaplen, fields, whole, verdicts }
    }

    /// # Safety
    /// The pointers are to whole packets, which are this thread's alone until this returns.
    pub(crate) unsafe fn burst(&mut self, packets: &[*mut RteMbuf]) {
        let Active { writer, keeps, direction, ids, ring, snaplen, fields, whole, verdicts } = self;
        let (direction, ids, ring, snaplen) = (*direction, *ids, *ring, *snaplen);
        let mut queue = Queue { writer, direction, ids, ring, snaplen, ticks: None, whole };
        // SAFETY: the caller's promise.
        let kept = unsafe {
            match keeps {
                Keeps::All => queue.look(packets, verdicts, |_, _| u32::MAX),
                // With fields that the compiler knows to be 0, half a nanosecond a packet is saved.
                Keeps::Filtered(program) => {
                    let keep = |bytes: &[u8], wire| program.classify(bytes, wire, PacketFields::NONE);
                    queue.look(packets, verdicts, keep)
                }
                Keeps::Asking(program) => {
                    queue.look(packets, verdicts, |bytes, wire| program.classify(bytes, wire, fields))
                }
            }
        };
        self.writer.publish(packets.len() as u64, packets.len() as u64 - kept);
    }
}

struct Queue<'a> {
    writer: &'a mut Writer,
    direction: Direction,
    ids: Option<Ids>,
    ring: usize,
    snaplen: usize,
    /// The time of this burst, when it was needed.
    ticks: Option<u64>,
    whole: &'a mut Whole,
}

impl Queue<'_> {
    /// How many packets were kept.
    ///
    /// # Safety
    /// As for [`Active::burst`].
    #[inline]
    unsafe fn look(
        &mut self,
        packets: &[*mut RteMbuf],
        verdicts: &mut [u32; ASKED_AT_ONCE],
        keep: impl Fn(&[u8], u32) -> u32,
    ) -> u64 {
        let (one, two) = tag_flags(self.direction);
        let beside = one | two;
        let mut kept = 0;
        for packets in packets.chunks(ASKED_AT_ONCE) {
            // SAFETY: the caller's promise.
            let marked = unsafe { asked(packets, beside, verdicts, &keep) };
            if marked != 0 {
                // SAFETY: the caller's promise.
                kept += unsafe { self.keep(packets, beside, marked, verdicts, &keep) };
            }
        }
        kept
    }

    /// Copies what is kept of the packets of the bits in `marked`, in their order. How many there are.
    ///
    /// # Safety
    /// As for [`Active::burst`].
    #[inline(never)]
    unsafe fn keep(
        &mut self,
        packets: &[*mut RteMbuf],
        beside: u64,
        mut marked: u64,
        verdicts: &[u32; ASKED_AT_ONCE],
        keep: &impl Fn(&[u8], u32) -> u32,
    ) -> u64 {
        let ticks = *self.ticks.get_or_insert_with(native::ticks);
        let mut kept = 0;
        while marked != 0 {
            let index = marked.trailing_zeros() as usize;
            marked &= marked - 1;
            let pointer = packets[index];
            // SAFETY: the caller's promise; nothing is written to it as long as this is borrowed.
            let packet = unsafe { &*pointer };
            if !packet.is_whole(beside) {
                // SAFETY: the caller's promise.
                kept += unsafe { self.look_at_parts(pointer, ticks, keep) };
                continue;
            }
            let meta = Meta { ticks, wire_bytes: packet.pkt_len, ..Meta::default() };
            // SAFETY: the packet is whole, by the caller's promise as long as the bytes are borrowed.
            let captured = self.captured(unsafe { packet.bytes() }, verdicts[index]);
            // SAFETY: the caller's promise.
            unsafe { self.write(pointer, meta, captured) }
            kept += 1;
        }
        kept
    }

    /// The same for a packet that has to be put together first, and asked. 1 if it is kept.
    ///
    /// # Safety
    /// As for [`Active::burst`].
    #[cold]
    unsafe fn look_at_parts(
        &mut self,
        pointer: *mut RteMbuf,
        ticks: u64,
        keep: &impl Fn(&[u8], u32) -> u32,
    ) -> u64 {
        // SAFETY: the caller's promise.
        let packet = unsafe { &*pointer };
        let tags = tags(packet.ol_flags, self.direction);
        let mut whole = std::mem::take(self.whole);
        // SAFETY: the caller's promise.
        let assembled = unsafe { whole.assemble(packet, tags) };
        let kept = keep(assembled.bytes, assembled.wire_bytes);
        if kept > 0 {
            let flags = Flags::TAGGED.when(assembled.is_tagged);
            let meta = Meta { ticks, wire_bytes: assembled.wire_bytes, flags, ..Meta::default() };
            let captured = self.captured(assembled.bytes, kept);
            // SAFETY: the caller's promise.
            unsafe { self.write(pointer, meta, captured) }
        }
        *self.whole = whole;
        u64::from(kept > 0)
    }

    fn captured<'b>(&self, bytes: &'b [u8], kept: u32) -> &'b [u8] {
        &bytes[..bytes.len().min(kept as usize).min(self.snaplen)]
    }

    /// # Safety
    /// As for [`Active::burst`].
    #[inline]
    unsafe fn write(&mut self, pointer: *mut RteMbuf, mut meta: Meta, captured: &[u8]) {
        // SAFETY: the caller's promise; the borrow ends with the line.
        let (of, rss) = unsafe { ((*pointer).ol_flags, (*pointer).rss) };
        meta.flags = meta.flags.with(flags(of, self.direction));
        if self.direction == Direction::Rx && of & flag::RX_RSS_HASH != 0 {
            meta.hash = rss;
        }
        if let Some(ids) = self.ids {
            // SAFETY: the caller's promise.
            if let Some(id) = unsafe { self.id(ids, pointer) } {
                (meta.id, meta.flags) = (id, meta.flags.with(Flags::ID));
            }
        }
        self.writer.write(&meta, captured);
    }

    /// # Safety
    /// As for [`Active::burst`].
    unsafe fn id(&self, ids: Ids, pointer: *mut RteMbuf) -> Option<u64> {
        match self.direction {
            // SAFETY: the caller's promise.
            Direction::Tx => unsafe { ids.get(pointer) },
            Direction::Rx => {
                let counters = self.writer.counters();
                let number = ids.number(self.ring, counters.written.wrapping_add(counters.dropped));
                // SAFETY: the caller's promise.
                unsafe { ids.put(pointer, number) };
                Some(number)
            }
        }
    }
}

/// A bit for each packet that is kept, or has to be put together to be asked; what is kept of the former is in `verdicts`.
///
/// # Safety
/// As for [`Active::burst`]. There are at most [`ASKED_AT_ONCE`].
#[inline]
unsafe fn asked(
    packets: &[*mut RteMbuf],
    beside: u64,
    verdicts: &mut [u32; ASKED_AT_ONCE],
    keep: &impl Fn(&[u8], u32) -> u32,
) -> u64 {
    for packet in packets.iter().take(PREFETCHED) {
        // SAFETY: the caller's promise.
        native::prefetch(unsafe { (**packet).data() });
    }
    let mut marked = 0;
    for (index, (pointer, verdict)) in packets.iter().zip(verdicts).enumerate() {
        if let Some(later) = packets.get(index + PREFETCHED) {
            // SAFETY: the caller's promise.
            native::prefetch(unsafe { (**later).data() });
        }
        // SAFETY: the caller's promise; nothing is written to it as long as this is borrowed.
        let packet = unsafe { &**pointer };
        let kept = match packet.is_whole(beside) {
            // SAFETY: the packet is whole.
            true => keep(unsafe { packet.bytes() }, packet.pkt_len),
            false => u32::MAX,
        };
        *verdict = kept;
        marked |= u64::from(kept != 0) << index;
    }
    marked
}

/// What is beside a packet with these flags.
fn tags(of: u64, direction: Direction) -> Tags {
    let (one, two) = tag_flags(direction);
    match of {
        _ if of & two != 0 => Tags::Two,
        _ if of & one != 0 => Tags::One,
        _ => Tags::None,
    }
}

/// The flags of packets with one tag beside them, and with two.
#[inline]
fn tag_flags(direction: Direction) -> (u64, u64) {
    match direction {
        Direction::Rx => (flag::RX_VLAN_STRIPPED, flag::RX_QINQ_STRIPPED),
        Direction::Tx => (flag::TX_VLAN, flag::TX_QINQ),
    }
}

#[inline]
fn flags(of: u64, direction: Direction) -> Flags {
    match direction {
        Direction::Rx => {
            let is_good = of & (flag::RX_L4_CKSUM_GOOD | flag::RX_L4_CKSUM_BAD) == flag::RX_L4_CKSUM_GOOD;
            Flags::CHECKSUM_GOOD
                .when(is_good)
                .with(Flags::SEGMENTED.when(of & flag::RX_LRO != 0))
                .with(Flags::HASH.when(of & flag::RX_RSS_HASH != 0))
        }
        Direction::Tx => {
            let is_cut = of & (flag::TX_TCP_SEG | flag::TX_UDP_SEG) != 0;
            // An application that has the hardware cut a packet has it compute the checksums too.
            Flags::CHECKSUM_NOT_READY
                .when(is_cut || of & flag::TX_L4_MASK != 0)
                .with(Flags::SEGMENTED.when(is_cut))
        }
    }
}
