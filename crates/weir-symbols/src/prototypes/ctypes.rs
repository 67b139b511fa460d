//! C types of parameters, of names, and the members of records, as DWARF says (5.1 to 5.7).
//!
//! A record that is referred to has its name, its size and its place alone; [`Search::members`] reads the rest where somebody asks
//! for it. Names are looked for among what stands directly in a unit: C's types, and those of other languages outside of namespaces.

use gimli::{AttributeValue, DebugInfoOffset, DebuggingInformationEntry, constants as dw};
use weir_event::ctype::{Bits, CType, CTypes, Elsewhere, Enum, Member, Record, TypeId};

use super::{Bytes, Kind, Place, Search};
use crate::LinkAddr;
use crate::limits::{RECORD_MEMBERS_MAX, TYPE_LINKS_MAX};

/// Where types that are read are put.
pub(super) struct Table<'t> {
    pub(super) types: &'t mut CTypes,
    /// The file, as its name is kept with what was not read of it.
    pub(super) binary: &'t str,
}

impl<'a> Search<'a, '_> {
    /// The types of the parameters of the function at an address, those that have names.
    pub(super) fn parameter_types(
        &mut self,
        address: LinkAddr,
        table: &mut Table<'_>,
    ) -> Vec<(String, TypeId)> {
        let wanted = [address].into();
        for index in 0..self.headers.len() {
            let Some((_, place)) = self.functions_in(index, &wanted).into_iter().next() else { continue };
            let Some(signature) = self.signature(place) else { continue };
            let parameters = signature.parameters.into_iter();
            return parameters
                .filter_map(|declared| Some((declared.name?, self.c_type(declared.ty?, table, 0))))
                .collect();
        }
        Vec::new()
    }

    /// The type of a name: a tag with its keyword, or a `typedef`'s. What only declares it is passed over.
    pub(super) fn named_type(&mut self, name: &str, table: &mut Table<'_>) -> Option<TypeId> {
        let (tags, word): (&[dw::DwTag], &str) = match name.split_once(' ') {
            Some(("struct", word)) => (&[dw::DW_TAG_structure_type, dw::DW_TAG_class_type], word),
            Some(("union", word)) => (&[dw::DW_TAG_union_type], word),
            Some(("enum", word)) => (&[dw::DW_TAG_enumeration_type], word),
            Some(_) => return None,
            None => (&[dw::DW_TAG_typedef, dw::DW_TAG_base_type], name),
        };
        for index in 0..self.headers.len() {
            let unit = self.unit(index)?;
            let mut entries = unit.entries();
            entries.next_dfs().ok()??;
            let mut next = entries.next_dfs().ok().flatten().map(|entry| (entry.tag(), entry.offset()));
            while let Some((tag, offset)) = next {
                self.entries = self.entries.checked_sub(1)?;
                let is_it = tags.contains(&tag) && {
                    let entry = unit.entry(offset).ok()?;
                    entry.attr_value(dw::DW_AT_declaration).is_none()
                        && self.name(&unit, &entry).is_some_and(|known| known == word)
                };
                if is_it {
                    return Some(self.c_type((index, offset), table, 0));
                }
                next = entries.next_sibling().ok().flatten().map(|entry| (entry.tag(), entry.offset()));
            }
            self.units.remove(&index);
        }
        None
    }

    /// The record whose entry is at an offset of the section.
    pub(super) fn members(&mut self, offset: u64, table: &mut Table<'_>, depth: usize) -> Option<CType> {
        let at = usize::try_from(offset).ok()?;
        let place = self.place_of(DebugInfoOffset(at))?;
        let entry = self.entry(place)?;
        let bytes = entry.attr_value(dw::DW_AT_byte_size)?.udata_value()?;
        let unit = self.unit(place.0)?;
        let name = self.record_name(&entry, self.name(&unit, &entry).as_deref())?;
        let mut entries = unit.entries_at_offset(place.1).ok()?;
        let top = entries.next_dfs().ok()??.depth();
        let mut members = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            self.entries = self.entries.checked_sub(1)?;
            if entry.depth() <= top {
                break;
            }
            let is_member = matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
            // C++'s static members lie elsewhere.
            if entry.depth() != top + 1 || !is_member || entry.attr_value(dw::DW_AT_declaration).is_some() {
                continue;
            }
            if members.len() == RECORD_MEMBERS_MAX {
                return None;
            }
            let Some(of) = self.reference(place.0, entry, dw::DW_AT_type) else { continue };
            let name = match entry.tag() {
                dw::DW_TAG_member => self.name(&unit, entry).unwrap_or_default(),
                _ => String::new(),
            };
            let (offset, bits) = match location(entry) {
                Some(location) => location,
                None => continue,
            };
            let ty = self.c_type(of, table, depth);
            if name.is_empty()
                && depth < TYPE_LINKS_MAX
                && let CType::Named { place: Some(inner), .. } = table.types.get(ty).clone()
                && let Some(inner) = self.members(inner.offset, table, depth + 1)
            {
                table.types.complete(ty, inner);
            }
            members.push(Member { name, ty, offset, bits });
        }
        Some(CType::Record(Record { name, bytes: u32::try_from(bytes).ok()?, members }))
    }

    /// A record's name with its keyword.
    fn record_name(
        &self,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
        name: Option<&str>,
    ) -> Option<String> {
        let keyword = match entry.tag() {
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => "struct",
            dw::DW_TAG_union_type => "union",
            _ => return None,
        };
        Some(name.map_or_else(|| keyword.to_string(), |name| format!("{keyword} {name}")))
    }

    fn c_type(&mut self, ty: Place, table: &mut Table<'_>, depth: usize) -> TypeId {
        let ty = self.c_type_inside(ty, table, depth);
        table.types.add_or(ty)
    }

    fn c_type_inside(&mut self, ty: Place, table: &mut Table<'_>, depth: usize) -> Result<TypeId, CType> {
        let other = |what: &str, bytes: Option<u64>| {
            Err(CType::Other {
                what: what.to_string(),
                bytes: bytes.and_then(|bytes| u32::try_from(bytes).ok()),
            })
        };
        if depth > TYPE_LINKS_MAX {
            return other("a type that is nested too deeply", None);
        }
        // Without the names that lead to it; the last of them is a nameless record's.
        let (mut at, mut typedef) = (ty, None);
        let (at, entry) = loop {
            let Some(entry) = self.entry(at) else { return other("a type that is not known", None) };
            match entry.tag() {
                dw::DW_TAG_typedef => {
                    let unit = self.unit(at.0);
                    typedef = unit.and_then(|unit| self.name(&unit, &entry)).or(typedef);
                }
                dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => {}
                _ => break (at, entry),
            }
            match self.reference(at.0, &entry, dw::DW_AT_type) {
                Some(next) => at = next,
                None => return Ok(CTypes::VOID),
            }
        };
        let bytes = entry.attr_value(dw::DW_AT_byte_size).and_then(|value| value.udata_value());
        let own = self.unit(at.0).and_then(|unit| self.name(&unit, &entry));
        match entry.tag() {
            dw::DW_TAG_base_type => {
                let is_char = own.as_deref() == Some("char");
                Err(match super::base(&entry, bytes).kind {
                    Kind::Int { bytes, signed } => CType::Int { bytes, signed, is_char },
                    Kind::Float { bytes } => CType::Float { bytes },
                    kind => return other(&kind.to_string(), bytes),
                })
            }
            dw::DW_TAG_enumeration_type => Err(match self.enumeration(at, &entry, bytes).kind {
                Kind::Enum { bytes, signed, labels } => {
                    let name =
                        own.or(typedef).map_or_else(|| "enum".to_string(), |name| format!("enum {name}"));
                    CType::Enum(Enum { name, bytes, signed, labels })
                }
                kind => return other(&kind.to_string(), bytes),
            }),
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                let to = match self.reference(at.0, &entry, dw::DW_AT_type) {
                    Some(to) => self.c_type(to, table, depth + 1),
                    None => CTypes::VOID,
                };
                Err(CType::Pointer(to))
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                let name = match (own, typedef) {
                    // It has the name that `typedef` gives it.
                    (None, Some(typedef)) => typedef,
                    (own, _) => self.record_name(&entry, own.as_deref()).unwrap_or_default(),
                };
                let is_declared = entry.attr_value(dw::DW_AT_declaration).is_some();
                let place = self.offset_of(at).filter(|_| !is_declared);
                let place = place.map(|offset| Elsewhere { binary: table.binary.to_string(), offset });
                Ok(table.types.named(&name, bytes.and_then(|bytes| u32::try_from(bytes).ok()), place))
            }
            dw::DW_TAG_array_type => {
                let Some(of) = self.reference(at.0, &entry, dw::DW_AT_type) else {
                    return other("an array", bytes);
                };
                let mut ty = self.c_type(of, table, depth + 1);
                for count in self.dimensions(at).into_iter().rev() {
                    ty = table.types.add(CType::Array { element: ty, count });
                }
                Ok(ty)
            }
            dw::DW_TAG_subroutine_type | dw::DW_TAG_unspecified_type => Ok(CTypes::VOID),
            _ => other("a type that weir does not read", bytes),
        }
    }

    /// Elements of an array, by dimension; 0 where that is not known.
    fn dimensions(&mut self, (index, offset): Place) -> Vec<u32> {
        let Some(unit) = self.unit(index) else { return vec![0] };
        let Ok(mut entries) = unit.entries_at_offset(offset) else { return vec![0] };
        let Ok(Some(top)) = entries.next_dfs().map(|entry| entry.map(DebuggingInformationEntry::depth))
        else {
            return vec![0];
        };
        let mut counts = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.depth() <= top || counts.len() == TYPE_LINKS_MAX {
                break;
            }
            if entry.tag() != dw::DW_TAG_subrange_type {
                continue;
            }
            let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
            let count = number(dw::DW_AT_count).or_else(|| number(dw::DW_AT_upper_bound)?.checked_add(1));
            counts.push(count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0));
        }
        if counts.is_empty() { vec![0] } else { counts }
    }

    /// Where a place is in the whole section.
    fn offset_of(&self, (index, offset): Place) -> Option<u64> {
        let start = self.headers.get(index)?.offset().0;
        Some(start as u64 + offset.0 as u64)
    }
}

/// From the record's start, in bytes, and of a bit-field its bits. None where it is computed while the program runs.
fn location(entry: &DebuggingInformationEntry<Bytes<'_>>) -> Option<(u32, Option<Bits>)> {
    let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
    let start = match entry.attr_value(dw::DW_AT_data_member_location) {
        None => 0,
        Some(AttributeValue::Exprloc(_)) => return None,
        Some(value) => value.udata_value()?,
    };
    let Some(width) = number(dw::DW_AT_bit_size) else {
        return Some((u32::try_from(start).ok()?, None));
    };
    let first = match (number(dw::DW_AT_data_bit_offset), number(dw::DW_AT_bit_offset)) {
        (Some(first), _) => first.checked_add(start.checked_mul(8)?)?,
        // Counted from the highest bit of what is read (DWARF 3).
        (None, Some(above)) => {
            let storage = number(dw::DW_AT_byte_size)?.checked_mul(8)?;
            start.checked_mul(8)?.checked_add(storage)?.checked_sub(above.checked_add(width)?)?
        }
        (None, None) => start.checked_mul(8)?,
    };
    let width = u8::try_from(width).ok().filter(|width| (1..=64).contains(width))?;
    let bits = Bits { shift: (first % 8) as u8, width };
    Some((u32::try_from(first / 8).ok()?, Some(bits)))
}
