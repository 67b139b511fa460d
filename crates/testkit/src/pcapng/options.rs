//! Options: which a block may have, how often, how long they are, and what their values may be.

use super::blocks::Block;
use super::{Checker, padded};

/// What an option's value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Text,
    Bytes(usize),
    /// A first byte, then a text or bytes.
    Filter,
    Flags,
    Hash,
    Verdict,
    Resolution,
    Queue,
    Custom,
    /// A time in two halves.
    Time,
    /// A prefix: an address of so many bytes and a length of at most so many bits.
    Prefix(usize),
}

/// Code, name, value, whether it may be repeated.
pub(super) type Row = (u16, &'static str, Is, bool);

const ANY: &[Row] = &[
    (1, "opt_comment", Is::Text, true),
    (2988, "opt_custom", Is::Custom, true),
    (2989, "opt_custom", Is::Custom, true),
    (19372, "opt_custom", Is::Custom, true),
    (19373, "opt_custom", Is::Custom, true),
];

pub(super) const SECTION: &[Row] = &[
    (2, "shb_hardware", Is::Text, false),
    (3, "shb_os", Is::Text, false),
    (4, "shb_userappl", Is::Text, false),
];

pub(super) const INTERFACE: &[Row] = &[
    (2, "if_name", Is::Text, false),
    (3, "if_description", Is::Text, false),
    (4, "if_IPv4addr", Is::Bytes(8), true),
    (5, "if_IPv6addr", Is::Prefix(16), true),
    (6, "if_MACaddr", Is::Bytes(6), false),
    (7, "if_EUIaddr", Is::Bytes(8), false),
    (8, "if_speed", Is::Bytes(8), false),
    (9, "if_tsresol", Is::Resolution, false),
    (11, "if_filter", Is::Filter, false),
    (12, "if_os", Is::Text, false),
    (13, "if_fcslen", Is::Bytes(1), false),
    (14, "if_tsoffset", Is::Bytes(8), false),
    (15, "if_hardware", Is::Text, false),
    (16, "if_txspeed", Is::Bytes(8), false),
    (17, "if_rxspeed", Is::Bytes(8), false),
    (18, "if_iana_tzname", Is::Text, false),
];

pub(super) const PACKET: &[Row] = &[
    (2, "epb_flags", Is::Flags, false),
    (3, "epb_hash", Is::Hash, true),
    (4, "epb_dropcount", Is::Bytes(8), false),
    (5, "epb_packetid", Is::Bytes(8), false),
    (6, "epb_queue", Is::Queue, false),
    (7, "epb_verdict", Is::Verdict, true),
    (8, "epb_processid_threadid", Is::Bytes(8), false),
];

pub(super) const NAMES: &[Row] = &[
    (2, "ns_dnsname", Is::Text, false),
    (3, "ns_dnsIP4addr", Is::Bytes(4), false),
    (4, "ns_dnsIP6addr", Is::Bytes(16), false),
];

pub(super) const STATISTICS: &[Row] = &[
    (2, "isb_starttime", Is::Time, false),
    (3, "isb_endtime", Is::Time, false),
    (4, "isb_ifrecv", Is::Bytes(8), false),
    (5, "isb_ifdrop", Is::Bytes(8), false),
    (6, "isb_filteraccept", Is::Bytes(8), false),
    (7, "isb_osdrop", Is::Bytes(8), false),
    (8, "isb_usrdeliv", Is::Bytes(8), false),
];

pub(super) const SECRETS: &[Row] = &[];

/// Options that one block has had: code, and where its value begins.
type Seen = Vec<(u16, usize)>;

impl Checker<'_> {
    /// The options of a block from `at` on. The value of epb_queue, if it is one of them.
    pub(super) fn options(&mut self, block: Block, at: usize, rows: &[Row]) -> Option<u32> {
        let mut seen = Seen::new();
        self.walk(block, at, rows, &mut seen);
        let of = |code: u16| seen.iter().find(|seen| seen.0 == code).map(|seen| seen.1);
        let has_row = |name: &str| rows.iter().any(|row| row.1 == name);
        if has_row("if_speed") {
            self.speeds(of(8), of(16), of(17));
        }
        if has_row("isb_starttime")
            && let (Some(start), Some(end)) = (of(2), of(3))
            && self.time(start) > self.time(end)
        {
            self.says(end, "statistics end before they begin");
        }
        of(6).filter(|_| has_row("epb_queue")).map(|at| self.u32(at))
    }

    fn walk(&mut self, block: Block, mut at: usize, rows: &[Row], seen: &mut Seen) {
        let end = block.tail();
        let begin = at;
        while at < end {
            if end - at < 4 {
                return self.says(at, format!("{} bytes are left for an option, whose head has 4", end - at));
            }
            let (code, length) = (self.u16(at), usize::from(self.u16(at + 2)));
            if code == 0 {
                if length != 0 {
                    self.says(at + 2, format!("opt_endofopt has {length} bytes, not 0"));
                }
                if at == begin {
                    self.says(at, "opt_endofopt without options before it");
                }
                if at + 4 != end {
                    self.says(at + 4, format!("{} bytes after opt_endofopt", end - at - 4));
                }
                return;
            }
            if padded(length) > end - at - 4 {
                return self.says(
                    at + 2,
                    format!("option {code} has {length} bytes, with room for {}", end - at - 4),
                );
            }
            self.option(code, at + 4, at + 4 + length, rows, seen);
            self.fill(at + 4 + length, at + 4 + padded(length));
            at += 4 + padded(length);
        }
        if at != begin {
            self.says(at, "options without opt_endofopt");
        }
    }

    fn option(&mut self, code: u16, from: usize, to: usize, rows: &[Row], seen: &mut Seen) {
        let is_local = code & 0x8000 != 0;
        let Some((_, name, is, is_repeated)) = rows.iter().chain(ANY).find(|row| row.0 == code) else {
            if !is_local {
                self.says(from - 4, format!("option {code} is none of this block"));
            }
            return;
        };
        if !is_repeated && seen.iter().any(|seen| seen.0 == code) {
            self.says(from - 4, format!("{name} is there twice"));
        }
        let length = to - from;
        let is_right = match is {
            Is::Text => true,
            Is::Bytes(bytes) => length == *bytes,
            Is::Filter | Is::Hash | Is::Verdict => length >= 1,
            Is::Flags | Is::Queue => length == 4,
            Is::Resolution => length == 1,
            Is::Custom => length >= 4,
            Is::Time => length == 8,
            Is::Prefix(address) => length == address + 1,
        };
        if !is_right {
            return self.says(from - 2, format!("{name} has {length} bytes"));
        }
        seen.push((code, from));
        match is {
            Is::Text => self.text(from, to, name),
            Is::Filter => self.filter(from, to),
            Is::Flags => self.flags(from),
            Is::Hash => self.hash(from, to),
            Is::Verdict => self.verdict(from, to),
            Is::Resolution => {
                let byte = self.file[from];
                let most = if byte & 0x80 == 0 { 19 } else { 63 };
                if byte & 0x7f > most {
                    self.says(
                        from,
                        format!("if_tsresol is {byte:#04x}: 64 bits do not count so small units"),
                    );
                }
            }
            Is::Prefix(address) if usize::from(self.file[to - 1]) > 8 * address => {
                self.says(to - 1, format!("{name} has a prefix of {} bits", self.file[to - 1]));
            }
            Is::Bytes(_) | Is::Queue | Is::Custom | Is::Time | Is::Prefix(_) => {}
        }
    }

    fn speeds(&mut self, both: Option<usize>, transmit: Option<usize>, receive: Option<usize>) {
        if let (Some(both), Some(_)) = (both, transmit.or(receive)) {
            self.says(both, "if_speed beside if_txspeed or if_rxspeed");
        }
        if let (Some(transmit), Some(receive)) = (transmit, receive)
            && self.u64(transmit) == self.u64(receive)
        {
            self.says(transmit, "if_txspeed and if_rxspeed are the same, which is if_speed");
        }
    }

    fn filter(&mut self, from: usize, to: usize) {
        match self.file[from] {
            0 => self.text(from + 1, to, "if_filter"),
            1 if !(to - from - 1).is_multiple_of(8) => self.says(from, "if_filter has no whole instructions"),
            _ => {}
        }
    }

    fn flags(&mut self, at: usize) {
        let flags = self.u32(at);
        if flags & 0xf000 != 0 {
            self.says(at, format!("epb_flags has reserved bits: {flags:#x}"));
        }
        if flags & 3 == 3 {
            self.says(at, "epb_flags has no direction that is known");
        }
        if flags >> 2 & 7 > 4 {
            self.says(at, "epb_flags has no type of reception that is known");
        }
        if flags >> 9 & 3 == 3 {
            self.says(at, "epb_flags has a checksum that is valid and not ready");
        }
    }

    fn hash(&mut self, from: usize, to: usize) {
        let (algorithm, length) = (self.file[from], to - from - 1);
        let expected = match algorithm {
            2 | 5 => 4,
            3 => 16,
            4 => 20,
            0 | 1 => return,
            _ => return self.says(from, format!("epb_hash has the unknown algorithm {algorithm}")),
        };
        if length != expected {
            self.says(from, format!("epb_hash of algorithm {algorithm} has {length} bytes, not {expected}"));
        }
    }

    fn verdict(&mut self, from: usize, to: usize) {
        match (self.file[from], to - from) {
            (0, _) | (1 | 2, 9) => {}
            (1 | 2, length) => self.says(from, format!("epb_verdict has {length} bytes, not 9")),
            (kind, _) => self.says(from, format!("epb_verdict has the unknown type {kind}")),
        }
    }
}
