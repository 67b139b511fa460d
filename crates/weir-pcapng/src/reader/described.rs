//! Sections, interfaces and statistics: the bytes of their options → what they say.
//!
//! Options that are there twice and should not be: the first counts. The options were checked before.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::clock::{Clock, Resolution};
use crate::codes::{COMMENT, interface, section, statistics};
use crate::interface::{Filter, Interface, Speed};
use crate::order::{Order, array};
use crate::reader::fields::{Options, text};
use crate::section::{Section, Statistics};

pub(super) fn section(options: Options<'_>) -> Section {
    let mut of = Section::default();
    for (code, value) in options.iter() {
        match code {
            COMMENT => of.comments.push(text(value).into_owned()),
            section::HARDWARE => first_text(&mut of.hardware, value),
            section::OS => first_text(&mut of.os, value),
            section::APPLICATION => first_text(&mut of.application, value),
            _ => {}
        }
    }
    of
}

/// An interface; what is wrong with it where its unit of time is none that can be read.
pub(super) fn interface(
    link_type: u16,
    snaplen: u32,
    options: Options<'_>,
    order: Order,
) -> Result<Interface, String> {
    let mut of = Interface { resolution: Resolution::MICROSECONDS, ..Interface::new(link_type, snaplen) };
    let (mut both, mut transmit, mut receive) = (None, None, None);
    let (mut resolution, mut offset_s) = (None, None);
    for (code, value) in options.iter() {
        match code {
            COMMENT => of.comments.push(text(value).into_owned()),
            interface::NAME => first_text(&mut of.name, value),
            interface::DESCRIPTION => first_text(&mut of.description, value),
            interface::IPV4 => {
                of.ipv4.push((Ipv4Addr::from(array::<4>(value, 0)), Ipv4Addr::from(array::<4>(value, 4))));
            }
            interface::IPV6 => of.ipv6.push((Ipv6Addr::from(array::<16>(value, 0)), value[16])),
            interface::MAC => first(&mut of.mac, array(value, 0)),
            interface::EUI => first(&mut of.eui, array(value, 0)),
            interface::SPEED => first(&mut both, order.u64(value, 0)),
            interface::SPEED_TRANSMIT => first(&mut transmit, order.u64(value, 0)),
            interface::SPEED_RECEIVE => first(&mut receive, order.u64(value, 0)),
            interface::RESOLUTION => first(&mut resolution, value[0]),
            interface::OFFSET => first(&mut offset_s, order.u64(value, 0) as i64),
            interface::FILTER => first(&mut of.filter, filter(value)),
            interface::OS => first_text(&mut of.os, value),
            interface::HARDWARE => first_text(&mut of.hardware, value),
            interface::FCS => first(&mut of.fcs_bits, value[0]),
            interface::TIME_ZONE => first_text(&mut of.time_zone, value),
            _ => {}
        }
    }
    of.speed = match (both, transmit, receive) {
        (Some(both), ..) => Some(Speed::Both(both)),
        (None, None, None) => None,
        (None, transmit, receive) => Some(Speed::Each { transmit, receive }),
    };
    of.offset_s = offset_s.unwrap_or(0);
    if let Some(byte) = resolution {
        of.resolution = Resolution::from_byte(byte).ok_or_else(|| {
            format!("if_tsresol is {byte:#04x}: units of time are read down to 10^-19 and 2^-63 seconds")
        })?;
    }
    Ok(of)
}

fn filter(value: &[u8]) -> Filter {
    match value {
        [0, filter @ ..] => Filter::Text(text(filter).into_owned()),
        [1, code @ ..] => Filter::Bpf(code.to_vec()),
        [kind, bytes @ ..] => Filter::Other(*kind, bytes.to_vec()),
        [] => Filter::Other(0, Vec::new()),
    }
}

pub(super) fn statistics(ticks: u64, options: Options<'_>, order: Order, clock: Clock) -> Statistics {
    let mut of = Statistics { time: clock.nanoseconds(ticks), ..Statistics::default() };
    let time = |value| clock.nanoseconds(order.ticks(value, 0));
    for (code, value) in options.iter() {
        let number = |into: &mut Option<u64>| first(into, order.u64(value, 0));
        match code {
            COMMENT => of.comments.push(text(value).into_owned()),
            statistics::START => of.start = of.start.or(time(value)),
            statistics::END => of.end = of.end.or(time(value)),
            statistics::RECEIVED => number(&mut of.received),
            statistics::DROPPED => number(&mut of.dropped),
            statistics::ACCEPTED => number(&mut of.accepted),
            statistics::OS_DROPPED => number(&mut of.os_dropped),
            statistics::DELIVERED => number(&mut of.delivered),
            _ => {}
        }
    }
    of
}

fn first<T>(into: &mut Option<T>, value: T) {
    into.get_or_insert(value);
}

fn first_text(into: &mut Option<String>, value: &[u8]) {
    into.get_or_insert_with(|| text(value).into_owned());
}
