//! What is said of sections, interfaces, packets, names and statistics → the options of their blocks.
//!
//! The siblings of `reader::described` and `reader::fields`. Options that may be there once are written once.

use crate::codes::{COMMENT, interface, names, packet, record, section, statistics};
use crate::interface::{Filter, Interface, Speed};
use crate::names::{Address, Server};
use crate::packet::{Hash, Verdict};
use crate::section::{Section, Statistics};
use crate::writer::frame::{Frame, Refused, checked};
use crate::writer::packet::PacketOptions;

type Done = Result<(), Refused>;

pub(super) fn section(frame: &mut Frame<'_>, of: &Section) -> Done {
    text(frame, section::HARDWARE, &of.hardware)?;
    text(frame, section::OS, &of.os)?;
    text(frame, section::APPLICATION, &of.application)?;
    comments(frame, &of.comments)
}

pub(super) fn interface(frame: &mut Frame<'_>, of: &Interface) -> Done {
    text(frame, interface::NAME, &of.name)?;
    text(frame, interface::DESCRIPTION, &of.description)?;
    for (address, mask) in &of.ipv4 {
        frame.option(interface::IPV4, &[&address.octets(), &mask.octets()])?;
    }
    for (address, prefix) in &of.ipv6 {
        frame.option(interface::IPV6, &[&address.octets(), &[*prefix]])?;
    }
    if let Some(mac) = &of.mac {
        frame.option(interface::MAC, &[mac])?;
    }
    if let Some(eui) = &of.eui {
        frame.option(interface::EUI, &[eui])?;
    }
    speed(frame, of.speed)?;
    frame.option(interface::RESOLUTION, &[&[9]])?;
    match &of.filter {
        Some(Filter::Text(text)) => frame.option(interface::FILTER, &[&[0], checked(text)?])?,
        Some(Filter::Bpf(code)) => frame.option(interface::FILTER, &[&[1], code])?,
        Some(Filter::Other(kind, bytes)) => frame.option(interface::FILTER, &[&[*kind], bytes])?,
        None => {}
    }
    text(frame, interface::OS, &of.os)?;
    if let Some(bits) = of.fcs_bits {
        frame.option(interface::FCS, &[&[bits]])?;
    }
    if of.offset_s != 0 {
        frame.option(interface::OFFSET, &[&of.offset_s.to_le_bytes()])?;
    }
    text(frame, interface::HARDWARE, &of.hardware)?;
    text(frame, interface::TIME_ZONE, &of.time_zone)?;
    comments(frame, &of.comments)
}

/// Speeds that are the same both ways are one option; the draft wants no two.
fn speed(frame: &mut Frame<'_>, speed: Option<Speed>) -> Done {
    let (both, transmit, receive) = match speed {
        None => (None, None, None),
        Some(Speed::Both(both)) => (Some(both), None, None),
        Some(Speed::Each { transmit, receive }) if transmit == receive => (transmit, None, None),
        Some(Speed::Each { transmit, receive }) => (None, transmit, receive),
    };
    number(frame, interface::SPEED, both)?;
    number(frame, interface::SPEED_TRANSMIT, transmit)?;
    number(frame, interface::SPEED_RECEIVE, receive)
}

#[inline]
pub(super) fn packet(frame: &mut Frame<'_>, of: &PacketOptions<'_>) -> Done {
    if let Some(flags) = of.flags {
        if flags.has_reserved() {
            return Err(format!("the flags {:#x} have bits that must be 0", flags.bits()));
        }
        frame.option(packet::FLAGS, &[&flags.bits().to_le_bytes()])?;
    }
    if let Some(of) = of.hash {
        hash(frame, of)?;
    }
    number(frame, packet::DROP_COUNT, of.drop_count)?;
    number(frame, packet::PACKET_ID, of.packet_id)?;
    if let Some(queue) = of.queue {
        frame.option(packet::QUEUE, &[&queue.to_le_bytes()])?;
    }
    if let Some(of) = of.verdict {
        verdict(frame, of)?;
    }
    if let Some(more) = of.more {
        more.hashes().try_for_each(|of| hash(frame, of))?;
        more.verdicts().try_for_each(|of| verdict(frame, of))?;
        if let Some(of) = more.process_thread() {
            let parts = [of.process.to_le_bytes(), of.thread.to_le_bytes()];
            frame.option(packet::PROCESS_THREAD, &[&parts[0], &parts[1]])?;
        }
        more.comments().try_for_each(|comment| frame.text(COMMENT, &comment))?;
    }
    of.comments.iter().try_for_each(|comment| frame.text(COMMENT, comment))
}

fn hash(frame: &mut Frame<'_>, of: Hash<'_>) -> Done {
    frame.option(packet::HASH, &[&[of.algorithm.byte()], of.bytes])
}

fn verdict(frame: &mut Frame<'_>, of: Verdict<'_>) -> Done {
    match of {
        Verdict::Hardware(bytes) => frame.option(packet::VERDICT, &[&[0], bytes]),
        Verdict::Tc(action) => frame.option(packet::VERDICT, &[&[1], &action.to_le_bytes()]),
        Verdict::Xdp(action) => frame.option(packet::VERDICT, &[&[2], &action.to_le_bytes()]),
        Verdict::Other(kind, bytes) => frame.option(packet::VERDICT, &[&[kind], bytes]),
    }
}

pub(super) fn statistics(
    frame: &mut Frame<'_>,
    of: &Statistics,
    ticks: impl Fn(u64) -> Result<u64, Refused>,
) -> Done {
    for (code, time) in [(statistics::START, of.start), (statistics::END, of.end)] {
        // The upper half comes first.
        let time = time.map(|time| ticks(time).map(|ticks| ticks.rotate_left(32))).transpose()?;
        number(frame, code, time)?;
    }
    number(frame, statistics::RECEIVED, of.received)?;
    number(frame, statistics::DROPPED, of.dropped)?;
    number(frame, statistics::ACCEPTED, of.accepted)?;
    number(frame, statistics::OS_DROPPED, of.os_dropped)?;
    number(frame, statistics::DELIVERED, of.delivered)?;
    comments(frame, &of.comments)
}

/// An address and its names, each of which ends with a NUL.
pub(super) fn record(frame: &mut Frame<'_>, address: Address, names: &[&str]) -> Done {
    if names.is_empty() {
        return Err(format!("{address:?} has no name"));
    }
    let mut texts = Vec::new();
    for name in names {
        texts.extend_from_slice(checked(name)?);
        texts.push(0);
    }
    match address {
        Address::Ipv4(address) => frame.value(record::IPV4, &[&address.octets(), &texts]),
        Address::Ipv6(address) => frame.value(record::IPV6, &[&address.octets(), &texts]),
        Address::Eui48(address) => frame.value(record::EUI48, &[&address, &texts]),
        Address::Eui64(address) => frame.value(record::EUI64, &[&address, &texts]),
    }
}

pub(super) fn server(frame: &mut Frame<'_>, of: &Server<'_>) -> Done {
    if let Some(name) = of.name {
        frame.text(names::SERVER_NAME, name)?;
    }
    if let Some(address) = of.ipv4 {
        frame.option(names::SERVER_IPV4, &[&address.octets()])?;
    }
    if let Some(address) = of.ipv6 {
        frame.option(names::SERVER_IPV6, &[&address.octets()])?;
    }
    of.comments.iter().try_for_each(|comment| frame.text(COMMENT, comment))
}

fn text(frame: &mut Frame<'_>, code: u16, text: &Option<String>) -> Done {
    text.as_ref().map_or(Ok(()), |text| frame.text(code, text))
}

#[inline]
fn number(frame: &mut Frame<'_>, code: u16, number: Option<u64>) -> Done {
    number.map_or(Ok(()), |number| frame.option(code, &[&number.to_le_bytes()]))
}

fn comments(frame: &mut Frame<'_>, comments: &[String]) -> Done {
    comments.iter().try_for_each(|comment| frame.text(COMMENT, comment))
}
