//! What a run is given besides its maps: the registers of a probe, a packet, or memory.
//!
//! In: bytes. Out: a [`Frame`] whose addresses name a copy of them, for the engines of this process. A [`Context`] owns
//! the copy, so that no safe caller can make a program reach anything else; what the program changed is read from it
//! afterwards ([`Context::bytes`], [`Context::field`]).
//!
//! Deliberately not here: contexts of other processes (weir-probe's trampolines make those on the stack).

use std::sync::atomic::{AtomicU8, Ordering};

use weir_ebpf::context::{self, Field, Meaning, memory, packet};
use weir_ebpf::{ProgramKind, pt_regs};

use crate::Frame;
use crate::limits::LENT_BYTES_MAX;

/// A packet or memory, and what is said of it.
#[derive(Debug)]
pub struct Context {
    kind: ProgramKind,
    frame: Frame,
    /// What comes before the bytes proper, so that these begin at a multiple of 8; then the bytes.
    lent: Box<[Word]>,
    /// Bytes before them, and their number.
    before: usize,
    bytes: usize,
}

/// 8 bytes that machine code may change while we look.
#[derive(Debug, Default)]
#[repr(align(8))]
struct Word([AtomicU8; 8]);

/// What a program is run with: a [`Frame`] of registers, or a [`Context`].
#[derive(Debug)]
pub struct ContextMut<'a> {
    /// None: a probe's.
    kind: Option<ProgramKind>,
    frame: &'a mut Frame,
}

impl Context {
    /// A packet for XDP programs, and the metadata before it.
    ///
    /// # Panics
    /// If there are more than `limits::LENT_BYTES_MAX` bytes; so for the others.
    pub fn xdp(meta: &[u8], bytes: &[u8]) -> Context {
        let mut context = Context::lend(ProgramKind::Xdp, meta, bytes);
        context.set_packet(meta.len());
        context
    }

    /// A packet for socket filters, and the link header before it, which such a program sees only by packet loads from
    /// −0x200000 on.
    pub fn socket(link: &[u8], bytes: &[u8]) -> Context {
        let mut context = Context::lend(ProgramKind::SocketFilter, link, bytes);
        context.set_packet(0);
        context.set_slot(packet::LINK, context.address() - link.len() as u64);
        context.set_field("len", bytes.len() as u64);
        context
    }

    /// The same for programs of a control group's packets, which see no link header.
    pub fn cgroup_skb(link: &[u8], bytes: &[u8]) -> Context {
        Context { kind: ProgramKind::CgroupSkb, ..Context::socket(link, bytes) }
    }

    /// A message for programs of kind sk_msg.
    pub fn sk_msg(bytes: &[u8]) -> Context {
        let mut context = Context::lend(ProgramKind::SkMsg, &[], bytes);
        context.set_packet(0);
        context.set_field("size", bytes.len() as u64);
        context
    }

    /// A packet for flow dissectors, Ethernet header first, as the kernel gives it in tests: keys say where the network header is, and
    /// its protocol.
    pub fn flow_dissector(bytes: &[u8]) -> Context {
        let mut keys = [0; context::FLOW_KEYS_BYTES as usize];
        let link = bytes.len().min(ETHERNET_BYTES) as u16;
        keys[..2].copy_from_slice(&link.to_ne_bytes());
        keys[2..4].copy_from_slice(&link.to_ne_bytes());
        keys[10..12].copy_from_slice(bytes.get(12..14).unwrap_or(&[0, 0]));
        let mut context = Context::lend(ProgramKind::FlowDissector, &keys, bytes);
        context.set_packet(keys.len());
        context
    }

    /// A socket of a control group's programs, of which `bytes` are the first of its `struct bpf_sock`; what is beyond them is 0.
    pub fn cgroup_sock(bytes: &[u8]) -> Context {
        let mut context = Context::lend(ProgramKind::CgroupSock, &[], &[]);
        for field in context::CGROUP_SOCK {
            let of_field = |at: u32| bytes.get(at as usize).copied().unwrap_or(0);
            let value = (0..field.bytes)
                .rev()
                .fold(0, |value, at| value << 8 | u64::from(of_field(field.offset + at)));
            context.set_field(field.name, value);
        }
        context
    }

    /// A packet for classifiers, link header first, and the metadata before it. The program sees `bytes`, which are what was
    /// captured; `len` and `wire_len` say `wire_bytes`, which may be more. The network header stands after 14 bytes.
    pub fn classifier(meta: &[u8], bytes: &[u8], wire_bytes: u32) -> Context {
        let mut context = Context::lend(ProgramKind::Classifier, meta, bytes);
        context.set_packet(meta.len());
        context.set_slot(packet::NETWORK, context.address() + bytes.len().min(ETHERNET_BYTES) as u64);
        for field in ["len", "wire_len"] {
            context.set_field(field, wire_bytes.into());
        }
        context
    }

    /// A packet as BPF_PROG_TEST_RUN of the kernel gives it to a program of this kind: received by the loopback device,
    /// Ethernet header first, which a socket filter does not see. A message, and a `struct bpf_sock`, for programs of these. None for
    /// other kinds.
    pub fn received(kind: ProgramKind, bytes: &[u8]) -> Option<Context> {
        let mut context = match kind {
            ProgramKind::Xdp => Context::xdp(&[], bytes),
            ProgramKind::SocketFilter | ProgramKind::CgroupSkb => {
                let (link, rest) = bytes.split_at(bytes.len().min(ETHERNET_BYTES));
                let mut context = Context { kind, ..Context::socket(link, rest) };
                context.set_link(link, rest);
                context
            }
            ProgramKind::Classifier => {
                let (link, rest) = bytes.split_at(bytes.len().min(ETHERNET_BYTES));
                let mut context = Context::classifier(&[], bytes, bytes.len() as u32);
                context.set_link(link, rest);
                context
            }
            ProgramKind::SkMsg => return Some(Context::sk_msg(bytes)),
            ProgramKind::FlowDissector => return Some(Context::flow_dissector(bytes)),
            ProgramKind::CgroupSock => return Some(Context::cgroup_sock(bytes)),
            _ => return None,
        };
        for field in ["ingress_ifindex", "ifindex"] {
            // A packet with a `struct __sk_buff` has come in by no interface, but stands at one.
            if !kind.is_sk_buff() || field != "ingress_ifindex" {
                context.set_field(field, LOOPBACK);
            }
        }
        Some(context)
    }

    /// Memory that the program may read and write.
    pub fn memory(bytes: &[u8]) -> Context {
        let kind = ProgramKind::Memory { bytes: bytes.len() as u32 };
        let mut context = Context::lend(kind, &[], bytes);
        let address = if bytes.is_empty() { 0 } else { context.address() };
        context.set_slot(memory::ADDRESS, address);
        context.set_slot(memory::BYTES, bytes.len() as u64);
        context
    }

    /// What it is the context of.
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// The packet or memory as it is now.
    pub fn bytes(&self) -> Vec<u8> {
        self.lent_bytes().skip(self.before).take(self.bytes).collect()
    }

    /// What stands before a packet: `bytes` bytes of metadata or link header.
    pub fn bytes_before(&self, bytes: usize) -> Vec<u8> {
        self.lent_bytes().skip(self.before.saturating_sub(bytes)).take(bytes).collect()
    }

    /// The slots, and what stands behind them.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// All that is lent, what comes before the bytes proper with it.
    pub(crate) fn all_bytes(&self) -> Vec<u8> {
        self.lent_bytes().take(self.before + self.bytes).collect()
    }

    /// The address of the first of these.
    pub(crate) fn all_address(&self) -> u64 {
        self.address() - self.before as u64
    }

    pub(crate) fn set_all_bytes(&mut self, bytes: &[u8]) {
        for (place, byte) in self.lent.iter().flat_map(|word| &word.0).zip(bytes) {
            place.store(*byte, Ordering::Relaxed);
        }
    }

    /// The 4 bytes at `offset` of the structure that the program sees; none if they are no number.
    pub fn field(&self, offset: u32) -> Option<u32> {
        let (at, 4) = context::field(self.kind, offset)?.place(offset, 4, false)? else { return None };
        Some((self.frame.regs[at as usize / 8] >> (8 * (at % 8))) as u32)
    }

    /// Says what a field of the context holds, as far as it has bits for that (of `cb`: the first word); a packet's addresses
    /// and fields of other kinds stay.
    pub fn set_field(&mut self, name: &str, value: u64) {
        let field = context::field_named(self.kind, name).filter(|field| field.meaning == Meaning::Number);
        if let Some(field) = field {
            set_number(&mut self.frame.regs[field.at as usize / 8], field, value);
        }
    }

    /// What the link header says of the packet.
    fn set_link(&mut self, link: &[u8], rest: &[u8]) {
        self.set_field("protocol", protocol(link, rest).into());
        self.set_field("pkt_type", packet_type(link).into());
    }

    fn lend(kind: ProgramKind, before: &[u8], bytes: &[u8]) -> Context {
        let all = before.len() + bytes.len();
        assert!(all <= LENT_BYTES_MAX as usize, "{all} bytes; the limit is {LENT_BYTES_MAX}");
        let start = before.len().next_multiple_of(8);
        let words = (start + bytes.len()).div_ceil(8).max(1);
        let lent: Box<[Word]> = (0..words).map(|_| Word::default()).collect();
        let context = Context { kind, frame: Frame::default(), lent, before: start, bytes: bytes.len() };
        let places = context.lent.iter().flat_map(|word| &word.0).skip(start - before.len());
        for (place, byte) in places.zip(before.iter().chain(bytes)) {
            place.store(*byte, Ordering::Relaxed);
        }
        context
    }

    fn lent_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.lent.iter().flat_map(|word| &word.0).map(|byte| byte.load(Ordering::Relaxed))
    }

    /// Address of the first of the bytes proper.
    fn address(&self) -> u64 {
        self.lent.as_ptr().expose_provenance() as u64 + self.before as u64
    }

    fn set_packet(&mut self, meta: usize) {
        let data = self.address();
        self.set_slot(packet::DATA, data);
        self.set_slot(packet::DATA_END, data + self.bytes as u64);
        self.set_slot(packet::DATA_META, data - meta as u64);
        self.set_slot(packet::LINK, data);
        self.set_slot(packet::NETWORK, data);
    }

    fn set_slot(&mut self, at: u32, value: u64) {
        self.frame.regs[at as usize / 8] = value;
    }
}

/// The frame of a program of packets or memory whose `bytes` bytes are at `address`. What is there is the business of
/// whoever runs the program.
pub fn frame(kind: ProgramKind, address: u64, bytes: usize) -> Frame {
    let mut frame = Frame::default();
    let mut set = |at: u32, value: u64| frame.regs[at as usize / 8] = value;
    if kind.is_packet() {
        for at in [packet::DATA, packet::DATA_META, packet::LINK, packet::NETWORK] {
            set(at, address);
        }
        set(packet::DATA_END, address + bytes as u64);
        if kind == ProgramKind::Classifier {
            set(packet::NETWORK, address + bytes.min(ETHERNET_BYTES) as u64);
        }
        set_lengths(&mut frame, kind, bytes as u64);
    } else {
        set(memory::ADDRESS, if bytes == 0 { 0 } else { address });
        set(memory::BYTES, bytes as u64);
    }
    frame
}

/// The same for a classifier whose packet had `wire_bytes` on the wire.
pub fn classifier_frame(address: u64, bytes: usize, wire_bytes: u32) -> Frame {
    let mut frame = frame(ProgramKind::Classifier, address, bytes);
    set_lengths(&mut frame, ProgramKind::Classifier, wire_bytes.into());
    frame
}

/// How long a packet was on the wire, where its context says that.
fn set_lengths(frame: &mut Frame, kind: ProgramKind, bytes: u64) {
    for len in ["len", "wire_len", "size"].iter().filter_map(|name| context::field_named(kind, name)) {
        set_number(&mut frame.regs[len.at as usize / 8], len, bytes);
    }
}

/// Puts a number into the slot that a field is in.
pub fn set_number(slot: &mut u64, field: &Field, value: u64) {
    let bytes = match field.kept {
        // A word of those that the program may use.
        8.. if field.bytes > 8 => 4,
        0 => field.bytes,
        kept => kept,
    };
    let (mask, shift) = (u64::MAX >> (64 - 8 * bytes), 8 * (field.at % 8));
    *slot = *slot & !(mask << shift) | (value & mask) << shift;
}

/// Bytes of an Ethernet header, and the number of the loopback device.
const ETHERNET_BYTES: usize = 14;
const LOOPBACK: u64 = 1;

/// What stands in an Ethernet header as the protocol, in the order of the wire; where it is a length, what the kernel
/// says instead (ETH_P_802_3 before 0xffff, else ETH_P_802_2).
fn protocol(link: &[u8], rest: &[u8]) -> u32 {
    let Some(&[high, low]) = link.get(12..14) else { return 0 };
    let number = u16::from_be_bytes([high, low]);
    let number = match number {
        0x600.. => number,
        _ if rest.starts_with(&[0xff, 0xff]) => 1,
        _ => 4,
    };
    number.to_be().into()
}

/// Who an Ethernet header is addressed to: the loopback device, which has no address (0), a group (2; all are one,
/// since the device has no broadcast address either), another (3).
fn packet_type(link: &[u8]) -> u32 {
    match link.get(..6) {
        Some([0, 0, 0, 0, 0, 0]) | None => 0,
        Some(to) if to[0] & 1 != 0 => 2,
        Some(_) => 3,
    }
}

impl ContextMut<'_> {
    /// The same once more.
    pub fn reborrow(&mut self) -> ContextMut<'_> {
        ContextMut { kind: self.kind, frame: self.frame }
    }

    /// A program of `kind` finds what it expects here.
    pub fn fits(&self, kind: ProgramKind) -> bool {
        self.kind.map_or(kind.is_probe(), |own| own == kind)
    }

    /// The slots, and what stands behind them.
    pub fn frame(&self) -> &Frame {
        self.frame
    }

    /// Where the slots are. Writing to them is for engines alone: a packet's addresses are believed.
    pub fn frame_pointer(&mut self) -> *mut Frame {
        self.frame
    }

    /// Takes over what a program left in the slots of its context.
    pub fn set_slots(&mut self, slots: [u64; pt_regs::SLOTS as usize]) {
        // Addresses stay what the owner of the bytes made them.
        for field in self.kind.map_or(&[][..], context::fields).iter().filter(|field| field.writable) {
            let places = field.at as usize / 8..(field.at + field.bytes).div_ceil(8) as usize;
            self.frame.regs[places.clone()].copy_from_slice(&slots[places]);
        }
    }

    /// How many rounds machine code with a limit of them may go through; afterwards how many are left.
    pub fn set_rounds(&mut self, rounds: u32) {
        self.frame.tail_calls = rounds;
    }

    /// Takes over what a program left for the other run of its session.
    pub fn set_session_cookie(&mut self, cookie: u64) {
        self.frame.session_cookie = cookie;
    }

    /// What the context is of; none for a probe's.
    pub fn kind(&self) -> Option<ProgramKind> {
        self.kind
    }
}

impl<'a> From<&'a mut Frame> for ContextMut<'a> {
    fn from(frame: &'a mut Frame) -> ContextMut<'a> {
        ContextMut { kind: None, frame }
    }
}

impl<'a> From<&'a mut Context> for ContextMut<'a> {
    fn from(context: &'a mut Context) -> ContextMut<'a> {
        ContextMut { kind: Some(context.kind), frame: &mut context.frame }
    }
}

const _: () = assert!(pt_regs::BYTES as usize == size_of::<[u64; 21]>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_where_the_slots_say() {
        let context = Context::xdp(&[1, 2, 3, 4], &[5; 15]);
        let slot = |at: u32| context.frame.regs[at as usize / 8];
        assert_eq!(slot(packet::DATA_END) - slot(packet::DATA), 15);
        assert_eq!(slot(packet::DATA) - slot(packet::DATA_META), 4);
        assert_eq!(slot(packet::DATA) % 8, 0);
        assert_eq!((context.bytes(), context.bytes_before(4)), (vec![5; 15], vec![1, 2, 3, 4]));

        let context = Context::socket(&[9; 14], &[7; 3]);
        let slot = |at: u32| context.frame.regs[at as usize / 8];
        assert_eq!(slot(packet::DATA) - slot(packet::LINK), 14);
        assert_eq!((context.field(0), context.bytes_before(14)), (Some(3), vec![9; 14]));

        for (captured, network) in [(0, 0), (13, 13), (14, 14), (60, 14), (70_000, 14)] {
            let context = Context::classifier(&[8; 4], &vec![7; captured], 90_000);
            let slot = |at: u32| context.frame.regs[at as usize / 8];
            assert_eq!(slot(packet::DATA_END) - slot(packet::DATA), captured as u64);
            assert_eq!(slot(packet::DATA) - slot(packet::DATA_META), 4);
            assert_eq!(
                (slot(packet::LINK), slot(packet::NETWORK)),
                (slot(packet::DATA), slot(packet::DATA) + network)
            );
            assert_eq!((context.field(0), context.field(160)), (Some(90_000), Some(90_000)));
            let lent = frame(ProgramKind::Classifier, slot(packet::DATA), captured);
            assert_eq!(
                lent.regs[1..5],
                [&context.frame.regs[1..2], &[slot(0); 2], &[slot(0) + network]].concat()
            );
        }
    }

    #[test]
    fn fields_are_set_by_name_and_addresses_are_not() {
        let mut context = Context::socket(&[], &[]);
        context.set_field("mark", 0x1234_5678);
        context.set_field("pkt_type", 3);
        assert_eq!(
            (context.field(4), context.field(8), context.field(12)),
            (Some(3), Some(0x1234_5678), Some(0))
        );
        let mut context = Context::classifier(&[], &[], 5);
        for (field, value) in
            [("tstamp", 1 << 40 | 2), ("hwtstamp", 3), ("tc_index", 0x1_0004), ("tstamp_type", 0x105)]
        {
            context.set_field(field, value);
        }
        let slot = |at: u32| context.frame.regs[(packet::FIELDS + at) as usize / 8];
        assert_eq!((slot(96), slot(104), slot(88)), (1 << 40 | 2, 3, 5 << 32 | 5));
        assert_eq!(context.field(44), Some(4));
        let mut context = Context::xdp(&[], &[1]);
        let before = context.frame;
        context.set_field("data_end", 0);
        assert_eq!((context.frame.regs, context.field(4)), (before.regs, None));
    }

    #[test]
    fn no_memory_is_null() {
        assert_eq!(Context::memory(&[]).frame.regs[..2], [0, 0]);
        assert_eq!(Context::memory(&[1, 2, 3]).bytes(), [1, 2, 3]);
    }
}
