//! BTF: the types of a program, as compilers put them into `.BTF` and the kernel takes them.
//!
//! In: the bytes of a `.BTF` section (Linux: Documentation/bpf/btf.rst). Out: a [`Btf`], from which types are
//! looked at one at a time, and which writes itself back, bit for bit. [`Builder`] makes one from nothing; [`ext`]
//! reads `.BTF.ext`, which says what source line an instruction comes from.
//!
//! Guaranteed: whatever the bytes, parsing ends in time and memory proportional to their number, and every walk
//! over types is bounded, though types may form rings. Type ids and strings may still point nowhere: every look-up
//! answers an `Option`.
//!
//! [`core`] answers what a field of one BTF is in another.
//!
//! Deliberately not here: BTF of the other byte order.

pub mod core;
pub mod ext;
mod functions;
mod write;

pub use functions::{Argument, Described};
pub use write::Builder;

/// The types of the kernel that runs, where it was built with them.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Index of a type; 0 is `void`.
pub type TypeId = u32;

/// A parsed `.BTF` section.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Btf {
    /// Each type as its little-endian words: name, info, size or type, then what its kind adds.
    words: Vec<u32>,
    /// Where in `words` type id n + 1 begins.
    starts: Vec<u32>,
    strings: Vec<u8>,
}

/// One type, as it stands in the section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Type<'a> {
    /// Offset of the name in the strings; 0 for none.
    pub name: u32,
    pub kind: Kind,
    /// Top bit of the info word: what it means depends on the kind.
    pub flag: bool,
    /// Bytes of the type, or the type that this one is about, or 0: depends on the kind.
    pub size_or_type: u32,
    /// What the kind adds: words of each member, variable, value or parameter, one after the other.
    pub extra: &'a [u32],
}

macro_rules! kinds {
    ($($number:literal $name:ident $fixed:literal $each:literal $word:literal,)*) => {
        /// The kinds of type, numbered as in the kernel's `BTF_KIND_*`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Kind { $($name = $number,)* }

        impl Kind {
            pub fn from_number(number: u8) -> Option<Kind> {
                match number { $($number => Some(Kind::$name),)* _ => None }
            }

            /// How C says it, or how this crate calls it where C has no word.
            pub fn word(self) -> &'static str {
                match self { $(Kind::$name => $word,)* }
            }

            /// Words behind the first three: once, and for each of the info word's count.
            pub(crate) fn extra_words(self) -> (usize, usize) {
                match self { $(Kind::$name => ($fixed, $each),)* }
            }
        }
    };
}

// Number, name, words once, words for each element, how it is called.
kinds! {
    1  Int       1 0 "int",
    2  Pointer   0 0 "pointer",
    3  Array     3 0 "array",
    4  Struct    0 3 "struct",
    5  Union     0 3 "union",
    6  Enum      0 2 "enum",
    7  Forward   0 0 "forward",
    8  Typedef   0 0 "typedef",
    9  Volatile  0 0 "volatile",
    10 Const     0 0 "const",
    11 Restrict  0 0 "restrict",
    12 Function  0 0 "function",
    13 Prototype 0 2 "prototype",
    14 Variable  1 0 "variable",
    15 Section   0 3 "section",
    16 Float     0 0 "float",
    17 DeclTag   1 0 "declaration tag",
    18 TypeTag   0 0 "type tag",
    19 Enum64    0 3 "enum",
}

/// A member of a struct or union.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    pub name: u32,
    pub ty: TypeId,
    /// Of a bit field, in its lower 24 bits alone.
    pub bit_offset: u32,
}

/// Why bytes are no BTF.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BtfError(pub String);

pub(crate) const MAGIC: u16 = 0xeb9f;
pub(crate) const HEADER_BYTES: usize = 24;

/// Most steps along typedefs, qualifiers and arrays; the kernel stops at 32 as well.
const DEPTH_MAX: usize = 32;

/// Most bytes of a name, without its end. The kernel's limit is 512 for names of types.
const NAME_BYTES_MAX: usize = 512;

impl Btf {
    /// Reads a `.BTF` section.
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let header = Header::parse(bytes)?;
        let fields = [8, 12, 16, 20].map(|at| word(bytes, at).unwrap_or(0) as usize);
        let [type_offset, type_bytes, string_offset, string_bytes] = fields;
        let types = header.part(bytes, "types", type_offset, type_bytes)?;
        let strings = header.part(bytes, "strings", string_offset, string_bytes)?;
        if strings.first() != Some(&0) || strings.last() != Some(&0) {
            return Err(BtfError("the strings neither begin nor end with a zero byte".into()));
        }
        if types.len() % 4 != 0 {
            return Err(BtfError(format!("{} bytes of types are not a multiple of 4", types.len())));
        }
        let words: Vec<u32> = (0..types.len() / 4).filter_map(|index| word(types, index * 4)).collect();
        let mut starts = Vec::new();
        let mut at = 0;
        while at < words.len() {
            starts.push(at as u32);
            at += type_words(&words[at..]).ok_or_else(|| {
                BtfError(format!("type {} is cut off, or of a kind that is not known", starts.len()))
            })?;
        }
        Ok(Btf { words, starts, strings: strings.to_vec() })
    }

    /// The type with number `id`; none for `void` and for numbers past the end.
    pub fn get(&self, id: TypeId) -> Option<Type<'_>> {
        let index = (id as usize).checked_sub(1)?;
        let start = *self.starts.get(index)? as usize;
        let end = self.starts.get(index + 1).map_or(self.words.len(), |next| *next as usize);
        let words = &self.words[start..end];
        let info = words[1];
        Some(Type {
            name: words[0],
            kind: Kind::from_number((info >> 24) as u8 & 0x1f)?,
            flag: info >> 31 == 1,
            size_or_type: words[2],
            extra: &words[3..],
        })
    }

    /// All types with their numbers.
    pub fn types(&self) -> impl Iterator<Item = (TypeId, Type<'_>)> {
        (1..=self.starts.len() as u32).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// The name at `offset` of the strings. None past the end, if it is no UTF-8, or longer than 512 bytes: a
    /// hostile section can make every name as long as itself.
    pub fn name(&self, offset: u32) -> Option<&str> {
        let rest = self.strings.get(offset as usize..)?;
        let most = &rest[..rest.len().min(NAME_BYTES_MAX + 1)];
        let end = most.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&most[..end]).ok()
    }

    /// The text at `offset` of the strings, however long: a source line. Its first 512 bytes at most.
    pub fn text(&self, offset: u32) -> &str {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let most = &rest[..rest.len().min(NAME_BYTES_MAX)];
        let end = most.iter().position(|byte| *byte == 0).unwrap_or(most.len());
        match std::str::from_utf8(&most[..end]) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&most[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The variables of the section named `name` (`.maps`, `.data`), in the compiler's order.
    pub fn section_variables(&self, name: &str) -> Vec<TypeId> {
        let is_it = |ty: &Type| ty.kind == Kind::Section && self.name(ty.name) == Some(name);
        let found = self.types().find(|(_, ty)| is_it(ty));
        found.map_or(Vec::new(), |(_, ty)| ty.extra.chunks_exact(3).map(|variable| variable[0]).collect())
    }

    /// `id` without typedefs, qualifiers and tags.
    pub fn resolve(&self, id: TypeId) -> Option<Type<'_>> {
        let mut ty = self.get(id)?;
        for _ in 0..DEPTH_MAX {
            match ty.kind {
                Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag => {
                    ty = self.get(ty.size_or_type)?;
                }
                _ => return Some(ty),
            }
        }
        None
    }

    /// Bytes of a value of type `id`; none for types without a size.
    pub fn size_of(&self, id: TypeId) -> Option<u32> {
        let (mut id, mut count) = (id, 1u32);
        for _ in 0..DEPTH_MAX {
            let ty = self.resolve(id)?;
            match ty.kind {
                Kind::Pointer => return count.checked_mul(8),
                Kind::Array => {
                    id = ty.extra[0];
                    count = count.checked_mul(ty.extra[2])?;
                }
                Kind::Int | Kind::Struct | Kind::Union | Kind::Enum | Kind::Enum64 | Kind::Float => {
                    return count.checked_mul(ty.size_or_type);
                }
                _ => return None,
            }
        }
        None
    }

    /// `struct task_struct`, `u64`, `int[4]`: a type as messages call it.
    pub fn describe(&self, id: TypeId) -> String {
        let Some(ty) = self.get(id) else {
            return if id == 0 { "void".into() } else { format!("type {id}") };
        };
        let name = self.name(ty.name).filter(|name| !name.is_empty()).unwrap_or("(without a name)");
        match ty.kind {
            Kind::Typedef | Kind::Int | Kind::Float => name.to_owned(),
            kind => format!("{} {name}", kind.word()),
        }
    }
}

impl<'a> Type<'a> {
    /// The members of a struct or union.
    pub fn members(self) -> impl Iterator<Item = Member> + 'a {
        let words = if matches!(self.kind, Kind::Struct | Kind::Union) { self.extra } else { &[] };
        words.chunks_exact(3).map(|words| Member { name: words[0], ty: words[1], bit_offset: words[2] })
    }
}

/// The part of the header that `.BTF` and `.BTF.ext` share.
pub(crate) struct Header {
    bytes: usize,
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, BtfError> {
        let (Some(first), Some(header_bytes)) = (word(bytes, 0), word(bytes, 4)) else {
            return Err(BtfError(format!("{} bytes are too few for a header", bytes.len())));
        };
        let (magic, version) = (first as u16, (first >> 16) as u8);
        if magic != MAGIC {
            return Err(BtfError(format!("the magic is {magic:#06x}, not {MAGIC:#06x}")));
        }
        if version != 1 {
            return Err(BtfError(format!("version {version}; known is 1")));
        }
        let header_bytes = header_bytes as usize;
        if header_bytes < HEADER_BYTES || header_bytes > bytes.len() {
            return Err(BtfError(format!("a header of {header_bytes} bytes in {}", bytes.len())));
        }
        Ok(Header { bytes: header_bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// `count` bytes at `offset` behind the header.
    pub(crate) fn part<'a>(
        &self,
        bytes: &'a [u8],
        what: &str,
        offset: usize,
        count: usize,
    ) -> Result<&'a [u8], BtfError> {
        let body = &bytes[self.bytes..];
        let part = offset.checked_add(count).and_then(|end| body.get(offset..end));
        part.ok_or_else(|| {
            BtfError(format!("{count} bytes of {what} at {offset} do not lie in {}", body.len()))
        })
    }
}

/// The little-endian word at byte `at`.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// How many words the type at the start of `words` takes, if it is all there.
fn type_words(words: &[u32]) -> Option<usize> {
    let info = *words.get(1)?;
    let (fixed, each) = Kind::from_number((info >> 24) as u8 & 0x1f)?.extra_words();
    let count = 3 + fixed + each * (info & 0xffff) as usize;
    (count <= words.len()).then_some(count)
}

#[cfg(test)]
mod tests;
