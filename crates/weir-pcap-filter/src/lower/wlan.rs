//! 802.11: which frames carry data, where their addresses are, what the frame control field says.
//!
//! The first byte of the frame control field has the type (0x0c; 0x08: data, 0x04: control, else management) and subtype (0xf0), the second
//! one where the frame goes (0x01: to the distribution system, 0x02: from it). Source: IEEE 802.11, 9.2.4.

use super::offsets::{Base, is_wlan};
use super::{Lower, Lowering};
use crate::ast::{Direction, Wlan};
use crate::ir::{Pred, Width};
use crate::link::LinkType;

const CONTROL: u32 = 0x04;
const DATA: u32 = 0x08;
const TYPE: u32 = 0x0c;
const SUBTYPE: u32 = 0xf0;
const TO_SYSTEM: u32 = 0x01;
const FROM_SYSTEM: u32 = 0x02;
const CTS: u32 = 0xc0;
const ACK: u32 = 0xd0;

/// Offsets of the four addresses.
const ADDRESS: [u32; 4] = [4, 10, 16, 24];

impl Lower<'_> {
    pub(super) fn data_frame(&mut self) -> Pred {
        self.control(CONTROL).not().and(self.control(DATA))
    }

    /// The first byte has one of the bits.
    fn control(&mut self, bits: u32) -> Pred {
        self.has(Base::LinkHeader, 0, Width::Byte, bits)
    }

    /// The second byte has one of the bits.
    fn direction_bits(&mut self, bits: u32) -> Pred {
        self.has(Base::LinkHeader, 1, Width::Byte, bits)
    }

    pub(super) fn wlan_address(&mut self, address: [u8; 6], direction: Option<Direction>) -> Lowering {
        let mut at = |lower: &mut Self, index: usize| lower.bytes(Base::LinkHeader, ADDRESS[index], &address);
        Ok(match direction {
            Some(Direction::Src) => self.source(&mut at),
            Some(Direction::Dst) => self.destination(&mut at),
            Some(Direction::And) => self.source(&mut at).and(self.destination(&mut at)),
            None | Some(Direction::Or) => self.source(&mut at).or(self.destination(&mut at)),
            Some(Direction::Addr1) => at(self, 0),
            Some(Direction::Addr2) => self.has_no_transmitter().not().and(at(self, 1)),
            Some(Direction::Addr3) => {
                let is_control = self.masked_equal(Base::LinkHeader, 0, Width::Byte, TYPE, CONTROL);
                is_control.not().and(at(self, 2))
            }
            Some(Direction::Addr4) => {
                let between = self.masked_equal(Base::LinkHeader, 1, Width::Byte, TO_SYSTEM | FROM_SYSTEM, 3);
                between.and(at(self, 3))
            }
            Some(Direction::Ra) => self.control(DATA).and(at(self, 0)),
            Some(Direction::Ta) => {
                Pred::And(vec![self.control(DATA), self.has_no_transmitter().not(), at(self, 1)])
            }
        })
    }

    /// CTS and ACK frames have the receiver's address alone.
    fn has_no_transmitter(&mut self) -> Pred {
        let is_control = self.masked_equal(Base::LinkHeader, 0, Width::Byte, TYPE, CONTROL);
        let cts = self.masked_equal(Base::LinkHeader, 0, Width::Byte, SUBTYPE, CTS);
        let ack = self.masked_equal(Base::LinkHeader, 0, Width::Byte, SUBTYPE, ACK);
        is_control.and(cts.or(ack))
    }

    /// `at` of the address that is the frame's source.
    fn source(&mut self, at: &mut impl FnMut(&mut Self, usize) -> Pred) -> Pred {
        let to_system = self
            .direction_bits(TO_SYSTEM)
            .not()
            .and(at(self, 2))
            .or(self.direction_bits(TO_SYSTEM).and(at(self, 3)));
        let from_system = self.direction_bits(FROM_SYSTEM).and(to_system);
        let data = self.direction_bits(FROM_SYSTEM).not().and(at(self, 1)).or(from_system);
        let management = self.control(DATA).not().and(at(self, 1));
        self.control(CONTROL).not().and(management.or(self.control(DATA).and(data)))
    }

    /// `at` of the address that is the frame's destination.
    fn destination(&mut self, at: &mut impl FnMut(&mut Self, usize) -> Pred) -> Pred {
        let to_system = self.direction_bits(TO_SYSTEM).and(at(self, 2));
        let data = self.direction_bits(TO_SYSTEM).not().and(at(self, 0)).or(to_system);
        let management = self.control(DATA).not().and(at(self, 0));
        self.control(CONTROL).not().and(management.or(self.control(DATA).and(data)))
    }

    pub(super) fn wlan_multicast(&mut self) -> Pred {
        let mut group =
            |lower: &mut Self, index: usize| lower.has(Base::LinkHeader, ADDRESS[index], Width::Byte, 1);
        self.destination(&mut group)
    }

    /// `type`, `subtype` and `dir`.
    pub(super) fn wlan_field(&mut self, field: Wlan) -> Lowering {
        let link = self.offsets.link;
        if !is_wlan(link) || link == LinkType::PPI {
            return Err(self.error("802.11 frame types and directions are supported only on 802.11"));
        }
        Ok(match field {
            Wlan::Type(bits) => self.masked_equal(Base::LinkHeader, 0, Width::Byte, TYPE, bits),
            Wlan::TypeSubtype(bits) => {
                self.masked_equal(Base::LinkHeader, 0, Width::Byte, TYPE | SUBTYPE, bits)
            }
            Wlan::Direction(bits) => {
                self.masked_equal(Base::LinkHeader, 1, Width::Byte, TO_SYSTEM | FROM_SYSTEM, bits)
            }
        })
    }
}
