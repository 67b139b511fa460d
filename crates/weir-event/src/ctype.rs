//! C types: sizes, members and names, whoever has read them (a script's own declarations, debug information, BTF).
//!
//! A table of types that refer to each other by number ([`TypeId`]). The same type has one number: records and enumerations are the
//! same where name and size are, all others where they are equal. A record may be known by its name alone ([`CType::Named`])
//! until somebody asks for its members.

use std::collections::HashMap;

/// A type, by its number in a [`CTypes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId(pub u32);

/// One type, without the names and qualifiers that C puts around it (`typedef`, `const`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CType {
    /// `void`, and all that has no size: functions.
    Void,
    /// 1, 2, 4 or 8 bytes.
    Int {
        /// So many.
        bytes: u8,
        /// How it is extended and printed.
        signed: bool,
        /// It is C's `char`: an array of it is a string.
        is_char: bool,
    },
    /// 4 or 8 bytes, IEEE 754.
    Float {
        /// So many.
        bytes: u8,
    },
    /// 8 bytes: an address of what is meant.
    Pointer(TypeId),
    /// Elements next to each other.
    Array {
        /// Of each.
        element: TypeId,
        /// How many; 0 where C does not say.
        count: u32,
    },
    /// `struct` or `union`.
    Record(Record),
    /// An integer whose values have names.
    Enum(Enum),
    /// A record of which no more is known so far.
    Named {
        /// With its keyword: `struct request`.
        name: String,
        /// Where that is known.
        bytes: Option<u32>,
        /// Where its members are to be found: what the reader of its file makes of it.
        place: Option<Elsewhere>,
    },
    /// What weir does not read.
    Other {
        /// What it is, with its article: `an integer of 16 bytes`.
        what: String,
        /// Where that is known.
        bytes: Option<u32>,
    },
}

/// Where a record's members are to be found.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Elsewhere {
    /// The file.
    pub binary: String,
    /// Of its entry there.
    pub offset: u64,
}

/// A `struct` or a `union`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// With its keyword: `struct request`; `struct` alone where it has none.
    pub name: String,
    /// All of it.
    pub bytes: u32,
    /// In the order of the text.
    pub members: Vec<Member>,
}

/// One member of a record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Empty: its own members are members of the record too.
    pub name: String,
    /// What it is.
    pub ty: TypeId,
    /// From the record's start to where it begins; of a bit-field, to the byte that has its lowest bit.
    pub offset: u32,
    /// Of a bit-field.
    pub bits: Option<Bits>,
}

/// Where a bit-field lies in the bytes at its offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bits {
    /// The lowest bit.
    pub shift: u8,
    /// How many.
    pub width: u8,
}

impl Bits {
    /// The least integer that has all of them: 1, 2, 4 or 8 bytes; none where more would be needed.
    pub fn bytes(self) -> Option<u8> {
        [1, 2, 4, 8]
            .into_iter()
            .find(|bytes| u32::from(self.shift) + u32::from(self.width) <= 8 * u32::from(*bytes))
    }
}

/// An enumeration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Enum {
    /// With its keyword: `enum state`.
    pub name: String,
    /// Of the integer.
    pub bytes: u8,
    /// Of the integer.
    pub signed: bool,
    /// Names and values.
    pub labels: Vec<(String, i64)>,
}

impl Enum {
    /// The name of a value; the first, where it has several.
    pub fn label(&self, value: i64) -> Option<&str> {
        self.labels.iter().find(|(_, known)| *known == value).map(|(label, _)| label.as_str())
    }
}

/// Types that refer to each other. [`CTypes::VOID`] is in each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CTypes {
    types: Vec<CType>,
    known: HashMap<CType, TypeId>,
    /// Records without names by where they are.
    places: HashMap<Elsewhere, TypeId>,
}

impl Default for CTypes {
    fn default() -> CTypes {
        let mut types = CTypes { types: Vec::new(), known: HashMap::new(), places: HashMap::new() };
        types.add(CType::Void);
        types
    }
}

impl CTypes {
    /// The number of `void`.
    pub const VOID: TypeId = TypeId(0);

    /// The number of a type, which it has from now on.
    pub fn add(&mut self, ty: CType) -> TypeId {
        if let Some(known) = self.known.get(&ty) {
            return *known;
        }
        let id = TypeId(self.types.len() as u32);
        self.known.insert(ty.clone(), id);
        self.types.push(ty);
        id
    }

    /// The number of a type that may have one already.
    pub fn add_or(&mut self, ty: Result<TypeId, CType>) -> TypeId {
        ty.unwrap_or_else(|ty| self.add(ty))
    }

    /// The record of this name, and of this size where that is known. If there is none, it has the number from now on that is returned.
    pub fn named(&mut self, name: &str, bytes: Option<u32>, place: Option<Elsewhere>) -> TypeId {
        let is_same = |ty: &CType| match ty {
            CType::Record(record) => record.name == name && bytes.is_none_or(|bytes| bytes == record.bytes),
            CType::Named { name: known, bytes: size, .. } => {
                known == name && (bytes.is_none() || size.is_none() || *size == bytes)
            }
            _ => false,
        };
        if let Some(known) = place.as_ref().and_then(|place| self.places.get(place)) {
            return *known;
        }
        if !matches!(name, "struct" | "union")
            && let Some(known) = self.types.iter().position(is_same)
        {
            if let CType::Named { bytes: size, place: from, .. } = &mut self.types[known] {
                *size = size.or(bytes);
                *from = from.take().or(place);
            }
            return TypeId(known as u32);
        }
        let id = TypeId(self.types.len() as u32);
        if let Some(place) = &place {
            self.places.insert(place.clone(), id);
        }
        self.types.push(CType::Named { name: name.to_string(), bytes, place });
        id
    }

    /// Says what a type is of which only the name was known. Others stay what they are.
    pub fn complete(&mut self, id: TypeId, ty: CType) {
        if let known @ CType::Named { .. } = &mut self.types[id.0 as usize] {
            *known = ty;
        }
    }

    /// The type of this number. Panics where it is of another table.
    pub fn get(&self, id: TypeId) -> &CType {
        &self.types[id.0 as usize]
    }

    /// The same of a number that may be of another table.
    pub fn known(&self, id: TypeId) -> Option<&CType> {
        self.types.get(id.0 as usize)
    }

    /// Bytes of a value of the type; none where it has no size that is known.
    pub fn bytes(&self, id: TypeId) -> Option<u32> {
        match self.get(id) {
            CType::Void => None,
            CType::Int { bytes, .. } | CType::Float { bytes } => Some((*bytes).into()),
            CType::Pointer(_) => Some(8),
            CType::Array { element, count } => self.bytes(*element)?.checked_mul(*count),
            CType::Record(record) => Some(record.bytes),
            CType::Enum(of) => Some(of.bytes.into()),
            CType::Named { bytes, .. } | CType::Other { bytes, .. } => *bytes,
        }
    }

    /// As C and scripts name it: `struct request *`, `uint8[16]`.
    pub fn name(&self, id: TypeId) -> String {
        match self.get(id) {
            CType::Void => "void".to_string(),
            CType::Int { bytes: 1, is_char: true, .. } => "char".to_string(),
            CType::Int { bytes, signed, .. } => {
                format!("{}int{}", if *signed { "" } else { "u" }, 8 * u32::from(*bytes))
            }
            CType::Float { bytes: 4 } => "float".to_string(),
            CType::Float { .. } => "double".to_string(),
            CType::Pointer(to) => match self.name(*to) {
                name if name.ends_with('*') => format!("{name}*"),
                name => format!("{name} *"),
            },
            CType::Array { element, count } => format!("{}[{count}]", self.name(*element)),
            CType::Record(Record { name, .. })
            | CType::Enum(Enum { name, .. })
            | CType::Named { name, .. } => name.clone(),
            CType::Other { what, .. } => what.clone(),
        }
    }

    /// It is an array of `char`, of so many.
    pub fn text(&self, id: TypeId) -> Option<u32> {
        match self.get(id) {
            CType::Array { element, count } => match self.get(*element) {
                CType::Int { is_char: true, .. } => Some(*count),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Record {
    /// The member of this name, also of members without names, with its offset from this record's start.
    pub fn member(&self, types: &CTypes, name: &str) -> Option<Member> {
        self.members.iter().find_map(|member| {
            if member.name == name {
                return Some(self.placed(member.clone()));
            }
            match types.get(member.ty) {
                CType::Record(inner) if member.name.is_empty() => {
                    let found = inner.member(types, name)?;
                    Some(self.placed(Member { offset: member.offset + found.offset, ..found }))
                }
                _ => None,
            }
        })
    }

    /// The member as it is read: a bit-field at the record's end from further ahead, so that nothing behind the record is.
    pub fn placed(&self, member: Member) -> Member {
        let Some(bits) = member.bits else { return member };
        let Some(read) = bits.bytes().map(u32::from) else { return member };
        let back = (member.offset + read).saturating_sub(self.bytes);
        let shift = u32::from(bits.shift) + 8 * back;
        if back == 0 || back > member.offset || shift + u32::from(bits.width) > 8 * read {
            return member;
        }
        Member { offset: member.offset - back, bits: Some(Bits { shift: shift as u8, ..bits }), ..member }
    }

    /// The names of all members, also of members without names.
    pub fn names<'a>(&'a self, types: &'a CTypes) -> Vec<&'a str> {
        let mut names = Vec::new();
        for member in &self.members {
            match types.get(member.ty) {
                CType::Record(inner) if member.name.is_empty() => names.extend(inner.names(types)),
                _ if member.name.is_empty() => {}
                _ => names.push(member.name.as_str()),
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: CType = CType::Int { bytes: 4, signed: true, is_char: false };

    fn record(name: &str, bytes: u32, members: Vec<Member>) -> CType {
        CType::Record(Record { name: name.to_string(), bytes, members })
    }

    fn member(name: &str, ty: TypeId, offset: u32) -> Member {
        Member { name: name.to_string(), ty, offset, bits: None }
    }

    #[test]
    fn the_same_type_has_one_number() {
        let mut types = CTypes::default();
        let int = types.add(INT);
        assert_eq!(types.add(INT), int);
        let named = types.named("struct a", None, None);
        assert_eq!(types.named("struct a", Some(8), None), named);
        assert_eq!(types.bytes(named), Some(8));
        assert_ne!(types.named("struct a", Some(16), None), named, "another version of it");
        types.complete(named, record("struct a", 8, vec![member("x", int, 0)]));
        assert_eq!(types.named("struct a", Some(8), None), named);
        let (one, other) = (types.named("struct", None, None), types.named("struct", None, None));
        assert_ne!(one, other, "those without a name are each one of their own");
    }

    #[test]
    fn members_of_members_without_names_are_members() {
        let mut types = CTypes::default();
        let int = types.add(INT);
        let inner = types.add(record("union", 4, vec![member("b", int, 0), member("c", int, 0)]));
        let list = vec![member("a", int, 0), member("", inner, 4)];
        let CType::Record(outer) = record("struct s", 8, list) else { unreachable!() };
        assert_eq!(outer.member(&types, "c").map(|member| member.offset), Some(4));
        assert_eq!(outer.member(&types, "d"), None);
        assert_eq!(outer.names(&types), ["a", "b", "c"]);
    }

    #[test]
    fn nothing_behind_a_record_is_read() {
        let bits = Some(Bits { shift: 0, width: 24 });
        let last = Member { bits, ..member("last", CTypes::VOID, 5) };
        let record = |bytes| Record { name: "struct s".to_string(), bytes, members: vec![last.clone()] };
        assert_eq!(record(9).placed(last.clone()), last);
        let ahead = Member { offset: 4, bits: Some(Bits { shift: 8, width: 24 }), ..last.clone() };
        assert_eq!(record(8).placed(last.clone()), ahead);
    }

    #[test]
    fn types_are_named_as_scripts_write_them() {
        let mut types = CTypes::default();
        let char = types.add(CType::Int { bytes: 1, signed: true, is_char: true });
        let pointer = types.add(CType::Pointer(char));
        let twice = types.add(CType::Pointer(pointer));
        let array = types.add(CType::Array { element: twice, count: 4 });
        assert_eq!(types.name(array), "char **[4]");
        assert_eq!((types.bytes(array), types.text(array)), (Some(32), None));
        let text = types.add(CType::Array { element: char, count: 16 });
        assert_eq!(types.text(text), Some(16));
    }
}
