//! Where members lie: System V's ABI for x86-64, with GCC's bit-fields, `packed`, `aligned` and `#pragma pack`.

use weir_event::ctype::{Bits, CType, Member, TypeId};

use super::attributes::Attributes;
use super::{Reader, Result, Unlaid};

/// A record under construction.
pub(super) struct Layout {
    is_union: bool,
    /// Of `#pragma pack`; 0: none.
    pack: u32,
    /// Bits that are taken.
    at: u64,
    /// The most bits that any member of a union takes.
    most: u64,
    align: u32,
}

impl Layout {
    pub(super) fn new(is_union: bool, pack: u32) -> Layout {
        Layout { is_union, pack, at: 0, most: 0, align: 1 }
    }

    /// The record's bytes, if they are not too many, and its alignment.
    pub(super) fn end(&self, attributes: Attributes) -> (Option<u32>, u32) {
        let align = self.align.max(attributes.align.unwrap_or(1));
        let bytes = self.most.max(self.at).div_ceil(8).next_multiple_of(align.into());
        (u32::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 31), align)
    }

    /// The bit at which a member of so many bits begins, from a multiple of `align` bits on.
    fn place(&mut self, align: u64, bits: u64) -> u64 {
        let at = if self.is_union { 0 } else { self.at.next_multiple_of(align.max(1)) };
        self.at = if self.is_union { 0 } else { at + bits };
        self.most = self.most.max(at + bits);
        at
    }
}

impl Reader<'_> {
    /// The alignment of a type.
    pub(super) fn alignment(&self, ty: TypeId) -> u32 {
        let types = &self.declarations.types;
        match types.get(ty) {
            CType::Array { element, .. } => self.alignment(*element),
            CType::Record(record) => match self.alignments.get(&ty) {
                Some(align) => *align,
                None => record.members.iter().map(|member| self.alignment(member.ty)).max().unwrap_or(1),
            },
            CType::Other { bytes: Some(bytes), .. } if bytes.is_power_of_two() => (*bytes).min(16),
            _ => types.bytes(ty).unwrap_or(1).max(1),
        }
    }

    /// Gives a member its place. None for one that only takes room.
    pub(super) fn lay(
        &mut self,
        layout: &mut Layout,
        member: Unlaid,
        its: Attributes,
        record: Attributes,
    ) -> Result<Option<Member>> {
        let Unlaid { name, ty, width } = member;
        let ty = self.with_mode(ty, its);
        let types = &self.declarations.types;
        let bytes = types.bytes(ty);
        let Some(bytes) = bytes else {
            let of = types.name(ty);
            let message = format!("the member `{name}` is of a type without a size: `{of}`");
            return Err(self.fault(&message, "declare its type before it; a pointer to it needs none"));
        };
        let is_packed = record.is_packed || its.is_packed;
        let natural = its.natural.unwrap_or_else(|| self.alignment(ty));
        let mut align = if is_packed { 1 } else { natural };
        align = align.max(its.align.unwrap_or(1));
        if layout.pack > 0 {
            align = align.min(layout.pack);
        }
        let Some(width) = width else {
            layout.align = layout.align.max(align);
            let at = layout.place(8 * u64::from(align), 8 * u64::from(bytes));
            return Ok(Some(Member { name, ty, offset: (at / 8) as u32, bits: None }));
        };
        let unit = 8 * u64::from(bytes);
        if u64::from(width) > unit || types_of_bits(types.get(ty)).is_none() {
            let message = format!("the bit-field `{name}` does not fit in its type");
            return Err(self.fault(&message, "its type is an integer with at least so many bits"));
        }
        if width == 0 {
            layout.place(8 * u64::from(natural), 0);
            return Ok(None);
        }
        let is_tight = is_packed || layout.pack > 0;
        let crosses = layout.at / unit != (layout.at + u64::from(width) - 1) / unit;
        let from = match its.align {
            Some(align) => 8 * u64::from(align),
            None if crosses && !is_tight => unit,
            None => 1,
        };
        let at = layout.place(from, width.into());
        if name.is_empty() {
            return Ok(None);
        }
        layout.align = layout.align.max(align);
        let bits = Bits { shift: (at % 8) as u8, width };
        Ok(Some(Member { name, ty, offset: (at / 8) as u32, bits: Some(bits) }))
    }
}

/// Only integers have bit-fields.
fn types_of_bits(ty: &CType) -> Option<()> {
    matches!(ty, CType::Int { .. } | CType::Enum(_)).then_some(())
}
