//! What a program's maps hold, as a script's maps print.
//!
//! In: maps, the types that BTF has for their keys and values, a segment. Out: a [`Shown`] for each map whose values stand in
//! place (arrays, hashes, tries), and for each global variable; as [`MapSchema`] and entries in the schema's bytes, whose
//! numbers have 8.
//!
//! - integers, enumerations and addresses as integers; `float` and `double`; arrays of `char` as text; structs and other arrays as
//!   tuples
//! - what BTF does not say, unions, and structs with bit fields: unsigned integers of 8 bytes, and the rest in as large ones as fit
//! - of per-CPU maps the sums over CPUs, number by number, and the first text
//! - of arrays the elements that are not all zero
//!
//! Not shown: maps that programs only read, types of more than [`LEAVES_MAX`] values, and maps of weir's own (`.…`).

use weir_ebpf::MapSpec;
use weir_ebpf::btf::{Btf, Kind, TypeId};
use weir_ebpf::elf::MapOrigin;
use weir_ebpf::map::flag;
use weir_event::{MapSchema, MapValue, Type};
use weir_report::Entry;
use weir_rt::segment::Segment;

/// Values of one key or value that are shown.
const LEAVES_MAX: usize = 64;

/// Types within each other that are looked at.
const DEPTH_MAX: usize = 16;

/// Bytes of a text that is shown.
const TEXT_BYTES_MAX: u32 = 1 << 12;

/// A map, or a variable in one.
pub(super) struct Shown {
    /// With the `@`.
    pub(super) name: String,
    /// Number among the program's maps.
    map: u32,
    /// None: a variable.
    key: Option<Shape>,
    value: Shape,
    is_array: bool,
}

/// How the bytes of a type lie.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Shape {
    Int { offset: u32, bytes: u32, signed: bool },
    Float { offset: u32, bytes: u32 },
    Text { offset: u32, bytes: u32 },
    Tuple(Vec<Shape>),
}

/// What of these maps is shown.
pub(super) fn shown(maps: &[MapSpec], origins: &[MapOrigin], btf: Option<&Btf>) -> Vec<Shown> {
    let mut all = Vec::new();
    for (index, (spec, origin)) in maps.iter().zip(origins).enumerate() {
        if !spec.kind.has_values_in_place() || spec.has(flag::RDONLY_PROG) {
            continue;
        }
        let map = index as u32;
        let is_array = spec.kind.is_array();
        let name = |name: &str| format!("@{}", name.escape_debug());
        let of_type = |ty: Option<TypeId>, bytes| {
            btf.zip(ty).map_or_else(|| words(0, bytes), |(btf, ty)| shape(btf, ty, bytes))
        };
        if !spec.name.starts_with('.') {
            let key = if is_array {
                Shape::Int { offset: 0, bytes: 4, signed: false }
            } else {
                of_type(origin.key, spec.key_bytes)
            };
            all.push(Shown {
                name: name(&spec.name),
                map,
                key: Some(key),
                value: of_type(origin.value, spec.value_bytes),
                is_array,
            });
        }
        for variable in &origin.variables {
            let Some(bytes) = btf.and_then(|btf| btf.size_of(variable.ty)) else { continue };
            if variable.offset.checked_add(bytes).is_some_and(|end| end <= spec.value_bytes) {
                let value = of_type(Some(variable.ty), bytes).moved(variable.offset);
                all.push(Shown { name: name(&variable.name), map, key: None, value, is_array });
            }
        }
    }
    all.retain(|shown| shown.key.iter().chain([&shown.value]).all(|shape| shape.leaves() <= LEAVES_MAX));
    all
}

impl Shown {
    /// Its schema, where the program's first map has this number.
    pub(super) fn schema(&self, first: u32) -> MapSchema {
        MapSchema {
            name: self.name.clone(),
            map_index: first + self.map,
            key: self.key.as_ref().map(Shape::ty),
            value: MapValue::Plain(self.value.ty()),
            room: None,
        }
    }

    /// What is there now, in the bytes of the schema.
    pub(super) fn entries(&self, segment: &Segment, first: u32) -> Vec<Entry> {
        let view = segment.map((first + self.map) as usize);
        let of = |key: &[u8], summed: Vec<u8>| {
            // Where programs do more than to add, sums of words would run from one number into the next.
            let lanes = if view.layout().spec.kind.is_per_cpu() { view.lookup_lanes(key) } else { None };
            self.value.sum(&lanes.unwrap_or_else(|| vec![summed]))
        };
        let Some(shape) = &self.key else {
            // A scalar's value is followed by a word that says that it was set.
            let key = 0u32.to_le_bytes();
            let value =
                view.lookup(&key).map(|value| [of(&key, value), 1u64.to_le_bytes().to_vec()].concat());
            return value.map(|value| Entry::of(Vec::new(), value)).into_iter().collect();
        };
        let is_shown = |value: &[u8]| !self.is_array || value.iter().any(|byte| *byte != 0);
        let entries = view.entries().into_iter().filter(|(_, value)| is_shown(value));
        entries
            .map(|(key, value)| {
                let value = of(&key, value);
                Entry::of(shape.sum(&[key]), value)
            })
            .collect()
    }
}

/// Numbers without a type.
fn words(offset: u32, bytes: u32) -> Shape {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < bytes && parts.len() <= LEAVES_MAX {
        let size = [8, 4, 2, 1].into_iter().find(|size| at % size == 0 && bytes - at >= *size).unwrap_or(1);
        parts.push(Shape::Int { offset: offset + at, bytes: size, signed: false });
        at += size;
    }
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => Shape::Tuple(parts),
    }
}

/// A type of which the file says that it has so many bytes.
fn shape(btf: &Btf, ty: TypeId, bytes: u32) -> Shape {
    let mut leaves = 0;
    match typed(btf, ty, 0, 0, &mut leaves) {
        Some(shape) if btf.size_of(ty) == Some(bytes) => shape,
        _ => words(0, bytes),
    }
}

/// None where BTF does not say it, or more than is shown.
fn typed(btf: &Btf, id: TypeId, offset: u32, depth: usize, leaves: &mut usize) -> Option<Shape> {
    *leaves += 1;
    let (ty, bytes) = (btf.resolve(id)?, btf.size_of(id)?);
    if depth > DEPTH_MAX || *leaves > 2 * LEAVES_MAX {
        return None;
    }
    let is_number = matches!(bytes, 1 | 2 | 4 | 8);
    match ty.kind {
        Kind::Int if is_number => {
            Some(Shape::Int { offset, bytes, signed: ty.extra.first()? >> 24 & 1 == 1 })
        }
        Kind::Enum | Kind::Enum64 if is_number => Some(Shape::Int { offset, bytes, signed: ty.flag }),
        Kind::Pointer => Some(Shape::Int { offset, bytes: 8, signed: false }),
        Kind::Float if bytes == 4 || bytes == 8 => Some(Shape::Float { offset, bytes }),
        Kind::Array => {
            let &[element, _, count] = ty.extra else { return None };
            let is_char = btf
                .resolve(element)
                .is_some_and(|ty| ty.kind == Kind::Int && btf.name(ty.name) == Some("char"));
            if is_char && (1..=TEXT_BYTES_MAX).contains(&count) {
                return Some(Shape::Text { offset, bytes: count });
            }
            let size = btf.size_of(element)?;
            let part = |n: u32| {
                let at = offset.checked_add(n.checked_mul(size)?)?;
                typed(btf, element, at, depth + 1, leaves)
            };
            let parts: Vec<Shape> = (0..count).map(part).collect::<Option<_>>()?;
            (!parts.is_empty()).then_some(Shape::Tuple(parts))
        }
        // The flag: members may be bit fields, with their sizes in the offsets.
        Kind::Struct if !ty.flag => {
            let parts = ty.members().map(|member| {
                let at = offset.checked_add(member.bit_offset / 8)?;
                if member.bit_offset % 8 == 0 { typed(btf, member.ty, at, depth + 1, leaves) } else { None }
            });
            let mut parts: Vec<Shape> = parts.collect::<Option<_>>()?;
            match parts.len() {
                0 => None,
                1 => Some(parts.swap_remove(0)),
                _ => Some(Shape::Tuple(parts)),
            }
        }
        _ => None,
    }
}

impl Shape {
    fn leaves(&self) -> usize {
        match self {
            Shape::Tuple(parts) => parts.iter().map(Shape::leaves).sum(),
            _ => 1,
        }
    }

    /// The same so many bytes further on.
    fn moved(self, by: u32) -> Shape {
        // One that is beyond the value is 0.
        let further = |offset: u32| offset.saturating_add(by);
        match self {
            Shape::Int { offset, bytes, signed } => Shape::Int { offset: further(offset), bytes, signed },
            Shape::Float { offset, bytes } => Shape::Float { offset: further(offset), bytes },
            Shape::Text { offset, bytes } => Shape::Text { offset: further(offset), bytes },
            Shape::Tuple(parts) => Shape::Tuple(parts.into_iter().map(|part| part.moved(by)).collect()),
        }
    }

    fn ty(&self) -> Type {
        match self {
            Shape::Int { signed, .. } => Type::Int { signed: *signed },
            Shape::Float { .. } => Type::Double,
            Shape::Text { bytes, .. } => Type::Str { bytes: bytes.next_multiple_of(8) },
            Shape::Tuple(parts) => Type::Tuple(parts.iter().map(Shape::ty).collect()),
        }
    }

    /// The bytes of [`Shape::ty`] for these, of which there is one or one of each CPU.
    fn sum(&self, values: &[Vec<u8>]) -> Vec<u8> {
        let part = |value: &Vec<u8>, offset: u32, bytes: u32| {
            let mut part = vec![0; bytes as usize];
            let found = value.get(offset as usize..).unwrap_or_default();
            let count = found.len().min(part.len());
            part[..count].copy_from_slice(&found[..count]);
            part
        };
        let word = |value: &Vec<u8>, offset: u32, bytes: u32| {
            let part = part(value, offset, bytes);
            part.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
        };
        match *self {
            Shape::Int { offset, bytes, signed } => {
                let unused = 64 - 8 * bytes;
                let extended =
                    |word: u64| if signed { ((word << unused) as i64 >> unused) as u64 } else { word };
                let words = values.iter().map(|value| extended(word(value, offset, bytes)));
                words.fold(0u64, u64::wrapping_add).to_le_bytes().to_vec()
            }
            Shape::Float { offset, bytes } => {
                let number = |value: &Vec<u8>| match word(value, offset, bytes) {
                    bits if bytes == 4 => f64::from(f32::from_bits(bits as u32)),
                    bits => f64::from_bits(bits),
                };
                values.iter().map(number).sum::<f64>().to_bits().to_le_bytes().to_vec()
            }
            Shape::Text { offset, bytes } => {
                let texts = values.iter().map(|value| part(value, offset, bytes));
                let mut text = { texts }.find(|text| text[0] != 0).unwrap_or_default();
                text.resize(bytes.next_multiple_of(8) as usize, 0);
                text
            }
            Shape::Tuple(ref parts) => parts.iter().flat_map(|part| part.sum(values)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_without_a_type_are_words_and_the_rest() {
        let sizes = |bytes: u32| match words(0, bytes) {
            Shape::Tuple(parts) => parts.iter().map(Shape::ty).count(),
            _ => 1,
        };
        assert_eq!([4, 8, 16, 13].map(sizes), [1, 1, 2, 3]);
        assert_eq!(words(0, 4), Shape::Int { offset: 0, bytes: 4, signed: false });
        assert!(words(0, 1 << 20).leaves() > LEAVES_MAX);
    }

    #[test]
    fn numbers_are_summed_each_for_itself() {
        let int = |offset, bytes, signed| Shape::Int { offset, bytes, signed };
        let shape =
            Shape::Tuple(vec![int(0, 4, false), int(4, 2, true), Shape::Text { offset: 6, bytes: 2 }]);
        let lane = |a: u32, b: i16, text: &[u8; 2]| [&a.to_le_bytes()[..], &b.to_le_bytes(), text].concat();
        let summed = shape.sum(&[lane(u32::MAX, -3, b"\0\0"), lane(2, 1, b"hi")]);
        let want =
            [(u64::from(u32::MAX) + 2).to_le_bytes(), (-2i64).to_le_bytes(), *b"hi\0\0\0\0\0\0"].concat();
        assert_eq!(summed, want);
        assert_eq!(summed.len(), shape.ty().bytes() as usize);
        let half = Shape::Float { offset: 0, bytes: 4 }.sum(&[0.5f32.to_le_bytes().to_vec()]);
        assert_eq!(half, 0.5f64.to_le_bytes());
    }
}
