//! BTF from nothing, and back into bytes.

use std::collections::HashMap;

use crate::btf::{Btf, HEADER_BYTES, Kind, MAGIC, TypeId};

impl Btf {
    /// The bytes of a `.BTF` section: header, types, strings.
    pub fn to_bytes(&self) -> Vec<u8> {
        let type_bytes = self.words.len() as u32 * 4;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + type_bytes as usize + self.strings.len());
        bytes.extend(MAGIC.to_le_bytes());
        // Version 1, no flags.
        bytes.extend([1, 0]);
        for field in [HEADER_BYTES as u32, 0, type_bytes, type_bytes, self.strings.len() as u32] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(&self.strings);
        bytes
    }
}

/// Collects types; a type's number is known as soon as it is added.
#[derive(Clone, Debug)]
pub struct Builder {
    btf: Btf,
    known: HashMap<String, u32>,
}

impl Default for Builder {
    fn default() -> Builder {
        let btf = Btf { strings: vec![0], ..Btf::default() };
        Builder { btf, known: HashMap::from([(String::new(), 0)]) }
    }
}

impl Builder {
    /// Adds a type. `extra` is as [`Type::extra`](crate::btf::Type) has it; how many elements it has follows.
    pub fn add(&mut self, name: &str, kind: Kind, size_or_type: u32, extra: &[u32]) -> TypeId {
        let (fixed, each) = kind.extra_words();
        let count = (extra.len() - fixed).checked_div(each).unwrap_or(0);
        assert!(extra.len() == fixed + each * count && count <= 0xffff, "the words of a {}", kind.word());
        self.push(name, kind, count as u32, size_or_type, extra)
    }

    /// Adds a function that other files see; `prototype` is its type.
    pub fn add_function(&mut self, name: &str, prototype: TypeId) -> TypeId {
        // What is a count in other kinds is the linkage here: 1 is global.
        self.push(name, Kind::Function, 1, prototype, &[])
    }

    /// The same for a function that only its own file sees. The kernel follows calls of such a one, and lets helpers
    /// call it back; one that others see is verified by itself.
    pub fn add_static_function(&mut self, name: &str, prototype: TypeId) -> TypeId {
        self.push(name, Kind::Function, 0, prototype, &[])
    }

    fn push(&mut self, name: &str, kind: Kind, low: u32, size_or_type: u32, extra: &[u32]) -> TypeId {
        let name = self.string(name);
        self.btf.starts.push(self.btf.words.len() as u32);
        self.btf.words.extend([name, u32::from(kind as u8) << 24 | low, size_or_type]);
        self.btf.words.extend(extra);
        self.btf.starts.len() as TypeId
    }

    /// Offset of `text` in the strings, each of which stands there once.
    pub fn string(&mut self, text: &str) -> u32 {
        if let Some(offset) = self.known.get(text) {
            return *offset;
        }
        let offset = self.btf.strings.len() as u32;
        self.btf.strings.extend(text.as_bytes());
        self.btf.strings.push(0);
        self.known.insert(text.to_owned(), offset);
        offset
    }

    pub fn finish(self) -> Btf {
        self.btf
    }
}
