//! [`Upper`]: follows extension headers to the header after them, in a loop whose rounds are counted.
//!
//! | place | holds |
//! |---|---|
//! | r9 | the offset of the header at hand, from the IP header on |
//! | slots of the stack | its kind; bits of the kinds that were seen; rounds; bytes to the next header; where the IP header is, if that is no constant |

use super::Emitter;
use super::assemble::Label;
use super::guards::BYTES_MAX;
use crate::TooLong;
use crate::ir::{Upper, Width, upper};
use crate::limits::EXTENSIONS_MAX;

/// A bit for each kind of extension header, by its number.
const KINDS: u64 = {
    let mut bits = 0;
    let mut at = 0;
    while at < upper::KINDS.len() {
        bits |= 1 << upper::KINDS[at];
        at += 1;
    }
    bits
};

/// Where the IP header is.
#[derive(Clone, Copy)]
struct Header {
    slot: Option<usize>,
    offset: u32,
}

impl Emitter<'_> {
    /// Leaves the number in r0.
    pub(super) fn upper(&mut self, chain: Upper) -> Result<(), TooLong> {
        let used = self.in_use;
        // r9 is used here.
        self.pointer = None;
        let mut header = Header { slot: None, offset: chain.offset };
        if let Some(base) = chain.base {
            self.value(base)?;
            let slot = self.slot()?;
            self.code.bound(0);
            self.code.store(slot, 0);
            header.slot = Some(slot);
        }
        let (kind, seen) = (self.slot()?, self.slot()?);
        let (rounds, length) = (self.slot()?, self.slot()?);
        let (head, end) = (self.code.label(), self.code.label());
        let none = self.code.fail();
        self.of_header(header, if chain.is_ipv6 { 6 } else { 9 }, 1);
        // Most packets have no chain, and are done here.
        self.leave_unless_extension(chain.is_ipv6, none);
        self.code.store(kind, 0);
        if chain.is_ipv6 {
            self.code.set(9, 40);
        } else {
            self.of_header(header, 6, 2);
            self.code.jump_if_any(0, 0x1fff, none);
            self.of_header(header, 0, 1);
            self.code.and(0, 0xf);
            self.code.shift_left(0, 2);
            self.code.copy32(9, 0);
        }
        self.code.set(0, 0);
        self.code.store(seen, 0);
        self.code.store(rounds, 0);
        self.code.place(head);
        self.code.fetch(0, rounds);
        self.code.jump_if_equal(0, EXTENSIONS_MAX, end);
        self.code.add(0, 1);
        self.code.store(rounds, 0);
        self.code.fetch(0, kind);
        self.leave_unless_extension(chain.is_ipv6, end);
        self.extension(header, [kind, seen, length], end);
        self.code.jump(head);
        self.code.place(end);
        self.code.copy32(0, 9);
        self.code.shift_left(0, upper::OFFSET_SHIFT);
        for slot in [seen, kind] {
            self.code.fetch(1, slot);
            self.code.or_register(0, 1);
        }
        self.in_use = used;
        Ok(())
    }

    /// Past the extension header of the kind in r0.
    fn extension(&mut self, header: Header, [kind, seen, length]: [usize; 3], end: Label) {
        let (authentication, fragment) = (self.code.label(), self.code.label());
        let (first, go_on) = (self.code.label(), self.code.label());
        let code = &mut self.code;
        code.shift_right(0, upper::KIND_SHIFT);
        code.and(0, upper::KIND_MASK);
        code.set(1, upper::FIRST_BIT);
        code.shift_left_by(1, 0);
        code.fetch(0, seen);
        code.or_register(0, 1);
        code.store(seen, 0);
        self.of_extension(header, 1, 1);
        let code = &mut self.code;
        code.fetch(1, kind);
        code.jump_if_equal(1, upper::AUTHENTICATION, authentication);
        code.jump_if_equal(1, upper::FRAGMENT, fragment);
        code.add(0, 1);
        code.shift_left(0, 3);
        code.jump(go_on);
        code.place(authentication);
        code.add(0, 2);
        code.shift_left(0, 2);
        code.jump(go_on);
        code.place(fragment);
        self.of_extension(header, 2, 2);
        let code = &mut self.code;
        code.and(0, 0xfff8);
        code.jump_if_equal(0, 0, first);
        code.fetch(0, seen);
        code.or(0, upper::LATER_FRAGMENT);
        code.store(seen, 0);
        code.place(first);
        code.set(0, 8);
        code.place(go_on);
        code.store(length, 0);
        self.of_extension(header, 0, 1);
        let code = &mut self.code;
        code.store(kind, 0);
        code.fetch(0, length);
        code.add_register(9, 0);
        code.fetch(0, seen);
        code.jump_if_any(0, upper::LATER_FRAGMENT, end);
    }

    /// Goes on after this if r0 is the kind of an extension header.
    fn leave_unless_extension(&mut self, is_ipv6: bool, to: Label) {
        if !is_ipv6 {
            return self.code.jump_unless_equal(0, upper::AUTHENTICATION, to);
        }
        self.code.jump_if_above(0, 63, to);
        self.code.set64(1, KINDS);
        self.code.shift_right64_by(1, 0);
        let goes_on = self.code.label();
        self.code.jump_if_any(1, 1, goes_on);
        self.code.jump(to);
        self.code.place(goes_on);
    }

    /// Bytes of the IP header as a number in r0.
    fn of_header(&mut self, header: Header, at: u32, bytes: u32) {
        if header.slot.is_none() && header.offset <= BYTES_MAX - 10 {
            // The node's check is for these too.
            let (width, size) = if bytes == 1 { (Width::Byte, 0) } else { (Width::Half, 1) };
            self.code.load(size, 0, 7, (header.offset + at) as i16);
            return self.code.exchange_bytes(width, 0);
        }
        let base = header.slot.map(|slot| {
            self.code.fetch(1, slot);
            1
        });
        self.code.packet_load(base, header.offset.wrapping_add(at), bytes);
    }

    /// Bytes of the extension header at hand.
    fn of_extension(&mut self, header: Header, at: u32, bytes: u32) {
        match header.slot {
            Some(slot) => {
                self.code.fetch(1, slot);
                self.code.add_register(1, 9);
            }
            None => self.code.copy32(1, 9),
        }
        self.code.packet_load(Some(1), header.offset.wrapping_add(at), bytes);
    }
}
