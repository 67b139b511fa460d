//! What Rust passes otherwise than C: fat pointers (`&str`, `&[T]`, `&dyn T`) in two places, and `String` by its address.
//!
//! In: entries of types. Out: how a value is passed, and of a string where its bytes and its length are. `String` is known by what is in it: a `vec`, a `Vec`
//! of `u8`, whose parts lie wherever rustc has put them. rustc promises none of this; it has passed both so for years.

use gimli::{DebuggingInformationEntry, constants as dw};

use crate::prototypes::convention::Class;
use crate::prototypes::{Bytes, Counted, Kind, Place, Search, Value};

/// Records within records down to the address of a vector's bytes.
const DEPTH_MAX: u32 = 8;

impl<'a> Search<'a, '_> {
    /// Of a fat pointer, and of a `String`.
    pub(super) fn rust_value(
        &mut self,
        at: Place,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
        bytes: Option<u64>,
    ) -> Option<Value> {
        if entry.tag() != dw::DW_TAG_structure_type {
            return None;
        }
        let unit = self.unit(at.0)?;
        let name = self.name(&unit, entry)?;
        if bytes == Some(16) && name.starts_with(['&', '*']) {
            let kind = match name.as_str() {
                "&str" | "&mut str" => Kind::Counted(Counted::Parts),
                _ => Kind::Other("a fat pointer"),
            };
            return Some(Value { kind, class: Class::Pair });
        }
        let record = self.rust_string(at, entry)?;
        Some(Value { kind: Kind::Counted(record), class: Class::ByReference })
    }

    /// Where a `String` has its bytes and its length.
    pub(super) fn rust_string(
        &mut self,
        at: Place,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
    ) -> Option<Counted> {
        let unit = self.unit(at.0)?;
        if entry.tag() != dw::DW_TAG_structure_type || self.name(&unit, entry)? != "String" {
            return None;
        }
        let [(name, within, vector)] = &self.members_of(at)?[..] else { return None };
        let (vector, vector_entry) = self.plain(*vector)?;
        let unit = self.unit(vector.0)?;
        if name != "vec" || !self.name(&unit, &vector_entry)?.starts_with("Vec<u8") {
            return None;
        }
        let members = self.members_of(vector)?;
        let part = |wanted: &str| members.iter().find(|(name, ..)| name == wanted);
        let (length, buffer) = (within + part("len")?.1, part("buf")?);
        let data = within + buffer.1 + self.pointer_in(buffer.2, 0)?;
        Some(Counted::Record { data, length })
    }

    /// How far into a record its first address is.
    fn pointer_in(&mut self, ty: Place, depth: u32) -> Option<u32> {
        let (at, entry) = self.plain(ty)?;
        match entry.tag() {
            dw::DW_TAG_pointer_type => Some(0),
            dw::DW_TAG_structure_type if depth < DEPTH_MAX => {
                let members = self.members_of(at)?;
                members.into_iter().find_map(|(_, within, ty)| Some(within + self.pointer_in(ty, depth + 1)?))
            }
            _ => None,
        }
    }

    /// Names, offsets and types of a record's members.
    fn members_of(&mut self, (index, offset): Place) -> Option<Vec<(String, u32, Place)>> {
        let unit = self.unit(index)?;
        let mut entries = unit.entries_at_offset(offset).ok()?;
        let depth = entries.next_dfs().ok()??.depth();
        let mut members = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            self.entries = self.entries.checked_sub(1)?;
            if entry.depth() <= depth {
                break;
            }
            if entry.depth() != depth + 1 || entry.tag() != dw::DW_TAG_member {
                continue;
            }
            let within = entry.attr_value(dw::DW_AT_data_member_location).and_then(|at| at.udata_value());
            let within = u16::try_from(within.unwrap_or(0)).ok()?;
            let ty = self.reference(index, entry, dw::DW_AT_type)?;
            members.push((self.name(&unit, entry)?, within.into(), ty));
        }
        Some(members)
    }
}
