//! [`Upper`]: follows extension headers to the header after them. The machine has no loops that the kernel would take, so that all rounds are
//! written out.

use weir_cbpf::Insn;
use weir_cbpf::insn::{alu, class, jmp, misc, mode, source};

use super::layout::Label;
use super::{Emitter, Held, size_of};
use crate::TooLong;
use crate::graph::Target;
use crate::ir::{Upper, Width, upper};
use crate::limits::EXTENSIONS_MAX;

/// Slots of M[].
struct Slots {
    kind: u32,
    /// Bits of the kinds that were seen.
    seen: u32,
    /// Of the header at hand: the offset, less the constant part of that of the IP header.
    header: u32,
    /// Bytes to the next one.
    length: u32,
    base: Option<u32>,
}

impl Emitter<'_> {
    /// Leaves the number in A.
    pub(super) fn upper(&mut self, chain: Upper) -> Result<(), TooLong> {
        let used = self.in_use;
        let base = match chain.base {
            Some(base) => {
                self.value(base)?;
                let slot = self.slot()?;
                self.code.push(Insn::plain(class::ST, slot));
                Some(slot)
            }
            None => None,
        };
        let slots = Slots {
            kind: self.slot()?,
            seen: self.slot()?,
            header: self.slot()?,
            length: self.slot()?,
            base,
        };
        let end = self.code.label();
        let none = self.missing.unwrap_or(Label::Target(Target::Reject));
        self.of_header(&slots, chain.offset, if chain.is_ipv6 { (6, Width::Byte) } else { (9, Width::Byte) });
        self.leave_unless_extension(chain.is_ipv6, none);
        self.store(slots.kind);
        if chain.is_ipv6 {
            self.code.push(Insn::plain(class::LD | mode::IMM, 40));
        } else {
            let whole = self.code.label();
            self.of_header(&slots, chain.offset, (6, Width::Half));
            self.code.branch(Insn::jump(jmp::JSET, 0x1fff, 0, 0), none, whole);
            self.code.place(whole);
            self.of_header(&slots, chain.offset, (0, Width::Byte));
            self.code.push(Insn::alu(alu::AND, 0xf));
            self.code.push(Insn::alu(alu::LSH, 2));
        }
        if let Some(base) = base {
            self.code.push(Insn::plain(class::LDX | mode::MEM, base));
            self.code.push(Insn::alu(alu::ADD | source::X, 0));
        }
        self.store(slots.header);
        self.code.push(Insn::plain(class::LD | mode::IMM, 0));
        self.store(slots.seen);
        for round in 0..EXTENSIONS_MAX {
            if round > 0 {
                self.fetch(slots.kind);
                self.leave_unless_extension(chain.is_ipv6, end);
            }
            self.extension(&slots, chain.offset, end);
        }
        self.code.place(end);
        self.fetch(slots.header);
        if let Some(base) = base {
            self.code.push(Insn::plain(class::LDX | mode::MEM, base));
            self.code.push(Insn::alu(alu::SUB | source::X, 0));
        }
        self.code.push(Insn::alu(alu::LSH, upper::OFFSET_SHIFT));
        for slot in [slots.seen, slots.kind] {
            self.code.push(Insn::plain(class::LDX | mode::MEM, slot));
            self.code.push(Insn::alu(alu::OR | source::X, 0));
        }
        self.in_use = used;
        self.held = Held::default();
        Ok(())
    }

    /// Past the extension header at hand.
    fn extension(&mut self, slots: &Slots, offset: u32, end: Label) {
        let labels: [Label; 5] = std::array::from_fn(|_| self.code.label());
        let [authentication, options, fragment, first, go_on] = labels;
        let further = self.code.label();
        self.fetch(slots.kind);
        self.code.push(Insn::alu(alu::RSH, upper::KIND_SHIFT));
        self.code.push(Insn::alu(alu::AND, upper::KIND_MASK));
        self.code.push(Insn::plain(class::MISC | misc::TAX, 0));
        self.code.push(Insn::plain(class::LD | mode::IMM, upper::FIRST_BIT));
        self.code.push(Insn::alu(alu::LSH | source::X, 0));
        self.code.push(Insn::plain(class::LDX | mode::MEM, slots.seen));
        self.code.push(Insn::alu(alu::OR | source::X, 0));
        self.store(slots.seen);
        self.code.push(Insn::plain(class::LDX | mode::MEM, slots.header));
        self.indexed(Width::Byte, offset.wrapping_add(1));
        self.store(slots.length);
        self.fetch(slots.kind);
        self.code.branch(Insn::jump(jmp::JEQ, upper::AUTHENTICATION, 0, 0), authentication, further);
        self.code.place(further);
        self.code.branch(Insn::jump(jmp::JEQ, upper::FRAGMENT, 0, 0), fragment, options);
        for (label, more, shift) in [(authentication, 2, 2), (options, 1, 3)] {
            self.code.place(label);
            self.fetch(slots.length);
            self.code.push(Insn::alu(alu::ADD, more));
            self.code.push(Insn::alu(alu::LSH, shift));
            self.code.jump(go_on);
        }
        self.code.place(fragment);
        self.indexed(Width::Half, offset.wrapping_add(2));
        self.code.push(Insn::alu(alu::AND, 0xfff8));
        let later = self.code.label();
        self.code.branch(Insn::jump(jmp::JEQ, 0, 0, 0), first, later);
        self.code.place(later);
        self.fetch(slots.seen);
        self.code.push(Insn::alu(alu::OR, upper::LATER_FRAGMENT));
        self.store(slots.seen);
        self.code.place(first);
        self.code.push(Insn::plain(class::LD | mode::IMM, 8));
        self.code.place(go_on);
        self.store(slots.length);
        self.indexed(Width::Byte, offset);
        self.store(slots.kind);
        self.fetch(slots.length);
        self.code.push(Insn::alu(alu::ADD | source::X, 0));
        self.store(slots.header);
        self.fetch(slots.seen);
        let next = self.code.label();
        self.code.branch(Insn::jump(jmp::JSET, upper::LATER_FRAGMENT, 0, 0), end, next);
        self.code.place(next);
    }

    /// Goes on after this if A is the kind of an extension header.
    fn leave_unless_extension(&mut self, is_ipv6: bool, to: Label) {
        let goes_on = self.code.label();
        for kind in upper::KINDS.into_iter().filter(|kind| upper::is_extension(*kind, is_ipv6)) {
            let other = self.code.label();
            self.code.branch(Insn::jump(jmp::JEQ, kind, 0, 0), goes_on, other);
            self.code.place(other);
        }
        self.code.jump(to);
        self.code.place(goes_on);
    }

    /// Bytes of the IP header.
    fn of_header(&mut self, slots: &Slots, offset: u32, (at, width): (u32, Width)) {
        let offset = offset.wrapping_add(at);
        match slots.base {
            Some(base) => {
                self.code.push(Insn::plain(class::LDX | mode::MEM, base));
                self.indexed(width, offset);
            }
            None => {
                self.need(offset, width.bytes());
                self.code.push(Insn::load(size_of(width), offset));
            }
        }
    }

    fn store(&mut self, slot: u32) {
        self.code.push(Insn::plain(class::ST, slot));
    }

    fn fetch(&mut self, slot: u32) {
        self.code.push(Insn::plain(class::LD | mode::MEM, slot));
    }
}
