//! What a reader says of a file: a line for each event, and one for the error.

use std::io::{self, Read};

use weir_pcapng::{Error, Event, Interface, Limits, Packet, Reader, Statistics};

/// All that the reader says, with default limits.
pub(crate) fn listed(bytes: &[u8]) -> Vec<String> {
    listed_of(bytes, Limits::default())
}

/// The same of anything that is read, with limits. Asked once more after an error, the reader has nothing.
pub(crate) fn listed_of(input: impl Read, limits: Limits) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = match Reader::with_limits(input, limits) {
        Ok(reader) => reader,
        Err(error) => return vec![error_line(&error)],
    };
    loop {
        let line = match reader.next() {
            Ok(Some(event)) => event_line(&event),
            Ok(None) => return lines,
            Err(error) => {
                lines.push(error_line(&error));
                assert!(matches!(reader.next(), Ok(None)), "nothing more after an error");
                return lines;
            }
        };
        lines.push(line);
    }
}

/// The file's error.
pub(crate) fn error_of(bytes: &[u8], limits: Limits) -> Option<Error> {
    let mut reader = match Reader::with_limits(bytes, limits) {
        Ok(reader) => reader,
        Err(error) => return Some(error),
    };
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    }
}

/// An input that gives a byte at a time, and is interrupted before each.
pub(crate) struct Slow<'a> {
    bytes: &'a [u8],
    is_interrupted: bool,
}

impl<'a> Slow<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Slow<'a> {
        Slow { bytes, is_interrupted: false }
    }
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = buffer.len().min(1);
        self.bytes.read(&mut buffer[..most])
    }
}

fn error_line(error: &Error) -> String {
    format!("{:?} at {}", error.kind(), error.offset())
}

fn event_line(event: &Event<'_>) -> String {
    match event {
        Event::Section(section) => {
            let texts = [&section.hardware, &section.os, &section.application];
            let texts = texts.into_iter().flatten().chain(&section.comments);
            texts.fold("section".to_owned(), |line, text| format!("{line} {text:?}"))
        }
        Event::UnknownVersion { major, minor } => format!("version {major}.{minor}"),
        Event::Interface(id, interface) => interface_line(*id, interface),
        Event::Packet(packet) => packet_line(packet),
        Event::Statistics(id, statistics) => statistics_line(*id, statistics),
        Event::Names(names) => {
            let mut line = "names".to_owned();
            for (address, texts) in names.records() {
                line += &format!(" {address:?}{:?}", texts.collect::<Vec<_>>());
            }
            for server in [names.server_name().map(|name| name.into_owned())]
                .into_iter()
                .chain([names.server_ipv4().map(|address| address.to_string())])
                .chain([names.server_ipv6().map(|address| address.to_string())])
                .flatten()
            {
                line += &format!(" by {server}");
            }
            names.comments().fold(line, |line, comment| format!("{line} {comment:?}"))
        }
        Event::Secrets { kind, bytes } => format!("secrets {kind:#x} {bytes:?}"),
        Event::Custom { enterprise, is_copied, bytes } => {
            format!("custom {enterprise} {is_copied} {bytes:?}")
        }
        Event::Other { kind, bytes } => format!("other {kind:#x} {bytes:?}"),
        event => unreachable!("an event that the tests do not know: {event:?}"),
    }
}

fn interface_line(id: impl std::fmt::Display, of: &Interface) -> String {
    let mut line = format!("interface {id} link {} snaplen {}", of.link_type, of.snaplen);
    let texts = [
        ("", &of.name),
        ("is ", &of.description),
        ("os ", &of.os),
        ("hw ", &of.hardware),
        ("tz ", &of.time_zone),
    ];
    for (word, text) in texts.into_iter().filter_map(|(word, text)| Some((word, text.as_ref()?))) {
        line += &format!(" {word}{text:?}");
    }
    of.ipv4.iter().for_each(|(address, mask)| line += &format!(" {address}/{mask}"));
    of.ipv6.iter().for_each(|(address, prefix)| line += &format!(" {address}/{prefix}"));
    let numbers = [of.mac.map(|mac| format!("mac {mac:?}")), of.eui.map(|eui| format!("eui {eui:?}"))]
        .into_iter()
        .chain([of.speed.map(|speed| format!("{speed:?}")), of.fcs_bits.map(|bits| format!("fcs {bits}"))])
        .chain([of.filter.as_ref().map(|filter| format!("{filter:?}"))]);
    numbers.flatten().for_each(|text| line += &format!(" {text}"));
    of.comments.iter().fold(line, |line, comment| format!("{line} {comment:?}"))
}

fn packet_line(packet: &Packet<'_>) -> String {
    let time = packet.time.map_or("-".to_owned(), |ns| ns.to_string());
    let mut line = format!("packet {} {time} {:?} of {}", packet.interface, packet.bytes, packet.wire_len);
    let fields = packet.fields;
    let parts = [
        fields.flags().map(|flags| format!("flags {:#x}", flags.bits())),
        fields.drop_count().map(|count| format!("lost {count}")),
        fields.packet_id().map(|id| format!("id {id}")),
        fields.queue().map(|queue| format!("queue {queue}")),
        fields.process_thread().map(|of| format!("by {}/{}", of.process, of.thread)),
    ];
    let mut has_any = false;
    let parts = parts
        .into_iter()
        .flatten()
        .chain(fields.hashes().map(|hash| format!("{:?} {:?}", hash.algorithm, hash.bytes)))
        .chain(fields.verdicts().map(|verdict| format!("{verdict:?}")))
        .chain(fields.comments().map(|comment| format!("{comment:?}")));
    for part in parts {
        has_any = true;
        line += &format!(" {part}");
    }
    assert!(!(has_any && fields.is_empty()), "what is empty says nothing: {line}");
    line
}

fn statistics_line(id: impl std::fmt::Display, of: &Statistics) -> String {
    let numbers =
        [of.time, of.start, of.end, of.received, of.dropped, of.accepted, of.os_dropped, of.delivered];
    let numbers: Vec<String> =
        numbers.iter().map(|number| number.map_or("-".to_owned(), |number| number.to_string())).collect();
    let line = format!("statistics {id} {}", numbers.join(" "));
    of.comments.iter().fold(line, |line, comment| format!("{line} {comment:?}"))
}
